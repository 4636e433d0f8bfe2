/*
 * run_object.c - which members of an object may come, by those that were there.
 */
#include "grammar/run.h"

/* The properties that must still come: the required ones, and what those that are there need. */
static void object_missing(const struct grammar_run *run, const struct frame *f, uint64_t *out) {
    const struct program *p = run->program;
    const struct object_program *o = &p->objects.items[f->a];
    const uint64_t *seen = run_frame_bits(run, f);
    for (uint32_t w = 0; w < o->word_count; w++)
        out[w] = p->words.items[o->required + w];
    for (uint32_t i = 0; o->needs != FA_NONE && i < o->property_count; i++)
        for (uint32_t w = 0; (seen[i / 64] >> i % 64 & 1) && w < o->word_count; w++)
            out[w] |= p->words.items[o->needs + (size_t)i * o->word_count + w];
    for (uint32_t w = 0; w < o->word_count; w++)
        out[w] &= ~seen[w];
}

/* In order, nothing may come behind what is missing, nor what lies before what was there. */
static void keep_order(const struct object_program *o, const uint64_t *seen,
                       const uint64_t *missing, uint64_t *allowed) {
    uint32_t last = 0, until = o->property_count;
    for (uint32_t i = 0; i < o->property_count; i++)
        if (seen[i / 64] >> i % 64 & 1)
            last = i + 1;
    for (uint32_t i = last; i < o->property_count && until == o->property_count; i++)
        if (missing[i / 64] >> i % 64 & 1)
            until = i;
    for (uint32_t i = 0; i <= o->property_count; i++)
        if (i < last || i > until)
            allowed[i / 64] &= ~(1ull << i % 64);
}

/* Which labels may come next (all that are no properties are the bit property_count). The set lies
 * in run->scratch until the next call. */
static const uint64_t *object_allowed(struct grammar_run *run, const struct frame *f) {
    const struct object_program *o = &run->program->objects.items[f->a];
    uint32_t words = o->word_count, missing_count = 0;
    vec_reserve(&run->scratch, (size_t)words * 2);
    uint64_t *allowed = run->scratch.items, *missing = allowed + words;
    const uint64_t *seen = run_frame_bits(run, f);
    object_missing(run, f, missing);
    for (uint32_t w = 0; w < words; w++)
        missing_count += (uint32_t)__builtin_popcountll(missing[w]);
    bool full = o->count_max != REPEAT_NO_END && f->n >= o->count_max;
    bool only_missing = o->count_max != REPEAT_NO_END && f->n + missing_count >= o->count_max;
    for (uint32_t w = 0; w < words; w++)
        allowed[w] = full ? 0 : only_missing ? missing[w] : ~seen[w];
    uint32_t count = o->property_count;
    if (!o->open || only_missing)
        allowed[count / 64] &= ~(1ull << count % 64);
    if (count % 64 != 63)
        allowed[count / 64] &= (2ull << count % 64) - 1;
    if (o->ordered)
        keep_order(o, seen, missing, allowed);
    return allowed;
}

bool run_object_may_reach(struct grammar_run *run, const struct frame *f, uint32_t state) {
    const struct object_program *o = &run->program->objects.items[f->a];
    const uint64_t *allowed = object_allowed(run, f);
    const uint64_t *reach = run->program->words.items + run->program->states.items[state].reach;
    for (uint32_t w = 0; w < o->word_count; w++)
        if (allowed[w] & reach[w])
            return true;
    return false;
}

bool run_object_may_end(struct grammar_run *run, const struct frame *f) {
    const struct object_program *o = &run->program->objects.items[f->a];
    vec_reserve(&run->scratch, (size_t)o->word_count);
    object_missing(run, f, run->scratch.items);
    for (uint32_t w = 0; w < o->word_count; w++)
        if (run->scratch.items[w])
            return false;
    return f->n >= o->count_min && !(o->some & ~f->some);
}

uint32_t run_object_with(struct grammar_run *run, struct frame f, uint32_t label) {
    const struct object_program *o = &run->program->objects.items[f.a];
    uint32_t bit = MIN(label, o->property_count);
    if (!(object_allowed(run, &f)[bit / 64] >> bit % 64 & 1))
        return FA_NONE;
    /* Counts that decide nothing any more are not told apart. */
    f.n = o->count_max == REPEAT_NO_END ? MIN(f.n + 1, o->count_min) : f.n + 1;
    if (label < o->property_count) {
        uint64_t *bits = run->scratch.items;
        memcpy(bits, run_frame_bits(run, &f), o->word_count * sizeof *bits);
        bits[bit / 64] |= 1ull << bit % 64;
        f.bits = run_bits(run, bits, o->word_count);
    } else if (o->ordered) { /* behind all properties */
        uint64_t *bits = run->scratch.items;
        memset(bits, 0xff, o->word_count * sizeof *bits);
        bits[bit / 64] &= ~(1ull << bit % 64); /* another such member may follow */
        f.bits = run_bits(run, bits, o->word_count);
    }
    return run_frame(run, f);
}
