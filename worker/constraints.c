#include "worker/constraints.h"

void constraints_init(struct constraints *c, struct grammar_store *store, uint32_t slot_count,
                      uint32_t token_count) {
    *c = (struct constraints){
        .store = store, .slot_count = slot_count, .word_count = (token_count + 31) / 32};
    c->slots = mem_calloc(slot_count, sizeof *c->slots);
}

void constraints_remove(struct constraints *c, uint32_t slot) {
    struct slot_constraint *s = &c->slots[slot];
    if (!s->entry)
        return;
    matcher_free(&s->matcher);
    grammar_store_give(c->store, s->entry);
    *s = (struct slot_constraint){0};
    c->active--;
}

void constraints_reset(struct constraints *c) {
    for (uint32_t i = 0; i < c->slot_count && c->active; i++)
        constraints_remove(c, i);
}

void constraints_release(struct constraints *c) {
    if (!c->slots)
        return;
    constraints_reset(c);
    mem_free(c->slots);
    *c = (struct constraints){0};
}

void constraints_admit(struct constraints *c, uint32_t slot, uint64_t admission,
                       struct grammar_entry *entry, struct tokens output) {
    struct slot_constraint *s = &c->slots[slot];
    constraints_remove(c, slot);
    *s = (struct slot_constraint){
        .entry = entry, .matcher = matcher_new(grammar_entry_run(entry)), .admission = admission};
    c->active++;
    for (size_t i = 0; i < output.count && !s->lost; i++)
        s->lost = !matcher_token(s->matcher, output.ids[i]);
}

/* The constraint under which this row samples, or NULL. */
static struct slot_constraint *constraint_of(const struct constraints *c, const struct flight *f,
                                             uint32_t row) {
    struct slot_constraint *s = &c->slots[f->rows[row].slot];
    bool mine = f->sample_of[row] != ROW_NONE && s->entry && s->admission == f->rows[row].admission;
    return mine ? s : NULL;
}

bool constraints_concern(const struct constraints *c, const struct flight *f) {
    for (uint32_t i = 0; i < f->row_count && c->active; i++)
        if (constraint_of(c, f, i))
            return true;
    return false;
}

void constraints_take(struct constraints *c, const struct flight *f) {
    for (uint32_t i = 0; i < f->row_count && c->active; i++) {
        struct slot_constraint *s = constraint_of(c, f, i);
        uint32_t sample = f->sample_of[i];
        /* what has ended, by whatever, samples no more */
        if (s && f->out.status[sample] == SAMPLE_TOKEN && !s->lost)
            s->lost = !matcher_token(s->matcher, f->out.tokens[sample]);
    }
}

uint32_t constraints_fill(struct constraints *c, const struct flight *f, uint32_t *bits,
                          uint32_t *rows) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->sample_count; i++)
        rows[i] = ROW_NONE;
    for (uint32_t i = 0; i < f->row_count; i++) {
        struct slot_constraint *s = constraint_of(c, f, i);
        if (!s)
            continue;
        uint32_t *mask = bits + (size_t)count * c->word_count;
        if (s->lost)
            memset(mask, 0, c->word_count * sizeof *mask);
        else
            matcher_mask(s->matcher, mask);
        rows[f->sample_of[i]] = count++;
    }
    return count;
}
