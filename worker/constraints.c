#include "worker/constraints.h"

void constraints_init(struct constraints *c, struct grammar_store *store, uint32_t slot_count,
                      uint32_t token_count) {
    *c = (struct constraints){
        .store = store, .slot_count = slot_count, .word_count = (token_count + 31) / 32};
    c->slots = mem_calloc(slot_count, sizeof *c->slots);
}

void constraints_remove(struct constraints *c, uint32_t slot) {
    struct slot_constraint *s = &c->slots[slot];
    if (!s->active)
        return;
    matcher_free(&s->matcher);
    if (s->entry)
        grammar_store_give(c->store, s->entry);
    mem_free(s->lists_memory);
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

/* The tokens that the slot begins with; none where a matcher has the say. */
static struct tokens first_tokens(const struct slot_constraint *s) {
    return s->entry && !s->matcher ? grammar_entry_tokens(s->entry) : (struct tokens){0};
}

/* The slot's next token. False: the constraint does not have it. */
static bool take_token(struct slot_constraint *s, uint32_t id) {
    struct tokens first = first_tokens(s);
    if (s->taken < first.count)
        return first.ids[s->taken++] == id;
    s->tail[s->output_count++ % ARRAY_LEN(s->tail)] = id;
    return !s->matcher || matcher_token(s->matcher, id);
}

static void keep_allowed(struct bytes allowed, uint32_t *mask, uint32_t word_count) {
    for (uint32_t w = 0; w < word_count; w++) {
        uint32_t bits = 0;
        for (uint32_t i = 0; i < 4 && (size_t)w * 4 + i < allowed.len; i++)
            bits |= (uint32_t)allowed.data[(size_t)w * 4 + i] << 8 * i;
        mask[w] &= bits;
    }
}

/* The output ends with all tokens of a sequence but its last. */
static bool is_near(const struct slot_constraint *s, const uint32_t *ids, uint32_t count) {
    if (s->output_count < count - 1)
        return false;
    for (uint32_t i = 1; i < count; i++)
        if (s->tail[(s->output_count - i) % ARRAY_LEN(s->tail)] != ids[count - 1 - i])
            return false;
    return true;
}

static bool is_empty(const uint32_t *mask, uint32_t word_count) {
    uint32_t any = 0;
    for (uint32_t w = 0; w < word_count; w++)
        any |= mask[w];
    return !any;
}

/* What may come but for bad words. False: anything. */
static bool fill_free(const struct slot_constraint *s, uint32_t *mask, uint32_t word_count) {
    if (s->matcher)
        matcher_mask(s->matcher, mask);
    else if (s->lists_memory)
        memset(mask, 0xff, word_count * sizeof *mask);
    else
        return false;
    if (s->lists.allowed.len)
        keep_allowed(s->lists.allowed, mask, word_count);
    return true;
}

/* False: there was none that was about to come. */
static bool drop_bad_words(const struct slot_constraint *s, uint32_t *mask, uint32_t word_count) {
    struct u32s words = s->lists.bad_words;
    bool any = false;
    for (size_t i = 0; i < words.count; i += 1 + words.items[i]) {
        uint32_t count = words.items[i], last = words.items[i + count];
        if (last / 32 >= word_count || !is_near(s, words.items + i + 1, count))
            continue;
        mask[last / 32] &= ~(UINT32_C(1) << last % 32);
        any = true;
    }
    return any;
}

/* What the slot may sample next. False: anything. */
static bool fill_mask(const struct slot_constraint *s, uint32_t *mask, uint32_t word_count) {
    struct tokens first = first_tokens(s);
    if (s->lost || s->taken < first.count) {
        memset(mask, 0, word_count * sizeof *mask);
        if (!s->lost)
            mask[first.ids[s->taken] / 32] = UINT32_C(1) << first.ids[s->taken] % 32;
        return true;
    }
    if (!fill_free(s, mask, word_count))
        return false;
    /* where nothing else may come, a bad word does */
    if (drop_bad_words(s, mask, word_count) && is_empty(mask, word_count))
        (void)fill_free(s, mask, word_count);
    return true;
}

static void copy_lists(struct slot_constraint *s, struct token_lists lists) {
    size_t words = lists.bad_words.count * sizeof *lists.bad_words.items;
    if (!words && !lists.allowed.len)
        return;
    uint8_t *copy = mem_alloc(words + lists.allowed.len);
    if (words)
        memcpy(copy, lists.bad_words.items, words);
    if (lists.allowed.len)
        memcpy(copy + words, lists.allowed.data, lists.allowed.len);
    s->lists_memory = copy;
    s->lists.bad_words = (struct u32s){s->lists_memory, lists.bad_words.count};
    s->lists.allowed = bytes_of(copy + words, lists.allowed.len);
}

void constraints_admit(struct constraints *c, uint32_t slot, uint64_t admission,
                       struct grammar_entry *entry, struct token_lists lists,
                       struct tokens output) {
    struct slot_constraint *s = &c->slots[slot];
    constraints_remove(c, slot);
    if (!entry && !lists.allowed.len && !lists.bad_words.count)
        return;
    struct grammar_run *run = entry ? grammar_entry_run(entry) : NULL;
    *s = (struct slot_constraint){.active = true,
                                  .entry = entry,
                                  .matcher = run ? matcher_new(run) : NULL,
                                  .admission = admission};
    copy_lists(s, lists);
    c->active++;
    for (size_t i = 0; i < output.count && !s->lost; i++)
        s->lost = !take_token(s, output.ids[i]);
}

/* The constraint under which this row samples, or NULL. */
static struct slot_constraint *constraint_of(const struct constraints *c, const struct flight *f,
                                             uint32_t row) {
    struct slot_constraint *s = &c->slots[f->rows[row].slot];
    bool mine =
        f->sample_of[row] != ROW_NONE && s->active && s->admission == f->rows[row].admission;
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
            s->lost = !take_token(s, f->out.tokens[sample]);
    }
}

bool constraints_are_stuck(const struct constraints *c, const struct flight *f, uint32_t row) {
    struct slot_constraint *s = c->active ? constraint_of(c, f, row) : NULL;
    if (!s)
        return false;
    uint32_t *mask = mem_calloc(c->word_count, sizeof *mask);
    bool stuck = fill_mask(s, mask, c->word_count) && is_empty(mask, c->word_count);
    mem_free(mask);
    return stuck;
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
        if (fill_mask(s, bits + (size_t)count * c->word_count, c->word_count))
            rows[f->sample_of[i]] = count++;
    }
    return count;
}
