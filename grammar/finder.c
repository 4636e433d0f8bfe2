#include "grammar/finder.h"

#include "grammar/regex.h"

/* Of one finder: edges of the automaton (12 bytes each), and states made on the way to it. */
enum { EDGES_MAX = 16384, FUEL = 5000 };

struct finder {
    struct dfa dfa; /* accepts with a pattern's number */
    struct buf text;
    size_t ends[FINDER_PATTERNS_MAX]; /* of the patterns in text */
    size_t count;
};

/* What comes behind a place where the pattern was found is never read. */
static void end_where_found(struct dfa *d) {
    for (size_t i = 0; i < d->states.count; i++)
        if (d->states.items[i].label != FA_NONE)
            d->states.items[i].edge_count = 0;
}

/* Adds a pattern to what is sought from `start` on. */
static int add_pattern(struct nfa *n, uint32_t start, struct bytes pattern, size_t idx,
                       struct error *err) {
    struct grammar_limits limits = grammar_limits_default();
    struct builder b;
    struct dfa found;
    if (pattern.len > FINDER_BYTES_MAX)
        return error_set(err, ERR_LIMIT, "a pattern is longer than %d bytes", FINDER_BYTES_MAX);
    limits.states = limits.exprs = FUEL;
    builder_init(&b, &limits);
    int rc = regex_to_dfa(&b, pattern, false, &found, err);
    builder_release(&b);
    if (rc)
        return rc;
    bool in_nothing = found.states.items[0].label != FA_NONE;
    if (!in_nothing) {
        end_where_found(&found);
        uint32_t end = nfa_state(n);
        n->labels.items[end] = (uint32_t)idx;
        nfa_add_dfa(n, &found, nfa_add_utf8, start, end);
    }
    dfa_release(&found);
    return in_nothing ? error_set(err, ERR_INVALID, "a pattern is found in the empty text") : 0;
}

int finder_new(const struct bytes *patterns, size_t count, struct finder **out, struct error *err) {
    struct fa_fuel fuel = {.states = FUEL};
    struct nfa n = {0};
    int rc = 0;
    CHECK(patterns && count);
    *out = NULL;
    if (count > FINDER_PATTERNS_MAX)
        return error_set(err, ERR_LIMIT, "more than %d patterns", FINDER_PATTERNS_MAX);
    struct finder *f = mem_calloc(1, sizeof *f);
    uint32_t start = nfa_state(&n);
    for (size_t i = 0; i < count && !rc; i++) {
        rc = add_pattern(&n, start, patterns[i], i, err);
        buf_add_bytes(&f->text, patterns[i]);
        f->ends[i] = f->text.len;
    }
    f->count = count;
    if (!rc)
        rc = dfa_from_nfa(&n, start, &fuel, &f->dfa, err);
    if (!rc && f->dfa.edges.count > EDGES_MAX)
        rc = error_set(err, ERR_LIMIT, "the patterns are too large together");
    if (!rc && f->text.failed)
        rc = error_set(err, ERR_MEMORY, "out of memory");
    nfa_release(&n);
    if (rc)
        finder_free(&f);
    *out = f;
    return rc;
}

void finder_free(struct finder **finder) {
    struct finder *f = *finder;
    if (!f)
        return;
    dfa_release(&f->dfa);
    buf_release(&f->text);
    mem_free(f);
    *finder = NULL;
}

bool finder_read(const struct finder *f, uint32_t *state, struct bytes text, size_t *len,
                 size_t *idx) {
    CHECK(*state == FA_NONE || *state < f->dfa.states.count);
    for (size_t i = 0; i < text.len && *state != FA_NONE; i++) {
        *state = dfa_step(&f->dfa, *state, text.data[i]);
        uint32_t label = *state == FA_NONE ? FA_NONE : f->dfa.states.items[*state].label;
        if (label == FA_NONE)
            continue;
        *len = i + 1;
        *idx = label;
        return true;
    }
    return false;
}

struct bytes finder_pattern(const struct finder *f, size_t idx) {
    CHECK(idx < f->count);
    size_t begin = idx ? f->ends[idx - 1] : 0;
    return bytes_of(f->text.data + begin, f->ends[idx] - begin);
}
