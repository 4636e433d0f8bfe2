/*
 * bpe_runs.c - merging long pieces that are mostly runs of one symbol: a million spaces, a line of dashes.
 *
 * The piece is a list of runs (symbol, count). As long as each rank belongs to one pair, and as no
 * merge brings up a better pair than the one being merged, what happens at one rank in one place does not depend on
 * other places: a run x^n whose pair merges to y becomes y^(n/2), with an x behind it when n is odd, in one step; two
 * neighbouring runs give one y between them. So the work grows with the number of runs, not of symbols. Where a better
 * pair does turn up (rare, though possible) this way is given up: the symbols are still as they were.
 */
#include "text/bpe_internal.h"

enum { RUNS_WORTH = 8 }; /* symbols a run, on average, from which this way is taken */

static void note_rank(const struct bpe *b, struct bpe_scratch *s, uint32_t rank, uint32_t run) {
    if (rank == NONE) return;
    if ((s->run_rank != NONE && rank <= s->run_rank) || rank >= b->first_shared_rank) s->better_pair = true;
    bpe_bucket_push(s, rank, run);
}

static void note(const struct bpe *b, struct bpe_scratch *s, uint32_t run) {
    const struct bpe_run *r = &s->runs.items[run];
    if (r->count > 1) note_rank(b, s, find_pair(b, r->id, r->id)->rank, run);
    if (r->next != NONE) note_rank(b, s, find_pair(b, r->id, s->runs.items[r->next].id)->rank, run);
}

static uint32_t insert_after(struct bpe_scratch *s, uint32_t run, uint32_t id) {
    uint32_t made = (uint32_t)s->runs.count, next = s->runs.items[run].next;
    vec_push(&s->runs, ((struct bpe_run){id, 1, run, next}));
    s->runs.items[run].next = made;
    if (next != NONE) s->runs.items[next].prev = made;
    return made;
}

/* Takes a run out of the list. */
static void remove_run(struct bpe_scratch *s, uint32_t run) {
    struct bpe_run *r = &s->runs.items[run];
    if (r->prev != NONE) s->runs.items[r->prev].next = r->next;
    if (r->next != NONE) s->runs.items[r->next].prev = r->prev;
    if (s->first_run == run) s->first_run = r->next;
    r->count = 0;
}

/* Joins the run with neighbours of the same symbol and notes what is new around it. */
static void settle(const struct bpe *b, struct bpe_scratch *s, uint32_t run) {
    struct bpe_run *r = &s->runs.items[run];
    if (r->next != NONE && s->runs.items[r->next].id == r->id) {
        r->count += s->runs.items[r->next].count;
        remove_run(s, r->next);
    }
    if (r->prev != NONE && s->runs.items[r->prev].id == r->id) {
        r->count += s->runs.items[r->prev].count;
        remove_run(s, r->prev);
    }
    if (r->prev != NONE) note(b, s, r->prev);
    note(b, s, run);
}

static void halve(const struct bpe *b, struct bpe_scratch *s, uint32_t run, uint32_t result) {
    struct bpe_run *r = &s->runs.items[run];
    uint32_t id = r->id, odd = r->count & 1;
    if (r->count > 2 && find_pair(b, result, id)->rank < s->run_rank) s->better_pair = true; /* seen on the way */
    r->id = result;
    r->count /= 2;
    if (odd) note(b, s, insert_after(s, run, id));
    settle(b, s, run);
}

static void join(const struct bpe *b, struct bpe_scratch *s, uint32_t run, uint32_t result) {
    uint32_t next = s->runs.items[run].next, made = insert_after(s, run, result);
    if (!--s->runs.items[next].count) remove_run(s, next);
    if (!--s->runs.items[run].count) remove_run(s, run);
    settle(b, s, made);
}

static void visit(const struct bpe *b, struct bpe_scratch *s, uint32_t run, uint32_t rank) {
    const struct bpe_run *r = &s->runs.items[run];
    if (!r->count) return;
    const struct bpe_merge *m = r->count > 1 ? find_pair(b, r->id, r->id) : &BPE_NO_MERGE;
    if (m->rank == rank) {
        halve(b, s, run, m->result);
        return;
    }
    m = r->next != NONE ? find_pair(b, r->id, s->runs.items[r->next].id) : &BPE_NO_MERGE;
    if (m->rank == rank) join(b, s, run, m->result);
}

/* The symbols as runs; false as soon as there are too many of them. */
static bool collect(struct bpe_scratch *s) {
    size_t count = s->ids.count, limit = count / RUNS_WORTH;
    const uint32_t *ids = s->ids.items;
    s->runs.count = 0;
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && ids[end] == ids[i];) end++;
        uint32_t run = (uint32_t)s->runs.count;
        if (run >= limit) return false;
        vec_push(&s->runs,
                 ((struct bpe_run){ids[i], (uint32_t)(end - i), run - 1, run + 1})); /* NONE before the first */
    }
    s->runs.items[s->runs.count - 1].next = NONE;
    s->first_run = 0;
    return true;
}

bool bpe_merge_runs(const struct bpe *b, struct bpe_scratch *s, size_t *count) {
    if (!collect(s)) return false;
    bpe_prepare_buckets(b, s);
    s->entries.count = 0;
    s->run_rank = NONE;
    s->better_pair = false;
    for (uint32_t run = 0, runs = (uint32_t)s->runs.count; run < runs; run++) note(b, s, run);
    for (uint32_t rank; (rank = bpe_lowest_bucket(s)) != NONE;) {
        bpe_take_bucket(s, rank);
        s->run_rank = rank;
        for (size_t i = 0; i < s->order.count && !s->better_pair; i++) visit(b, s, s->order.items[i], rank);
    }
    if (s->better_pair) {
        for (uint32_t rank; (rank = bpe_lowest_bucket(s)) != NONE;) bpe_take_bucket(s, rank);
        return false;
    }
    size_t kept = 0;
    for (uint32_t run = s->first_run; run != NONE; run = s->runs.items[run].next)
        for (uint32_t i = 0; i < s->runs.items[run].count; i++) s->ids.items[kept++] = s->runs.items[run].id;
    *count = kept;
    return true;
}
