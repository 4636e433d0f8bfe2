/*
 * bpe_runs.c - merging long pieces that are mostly runs of one symbol: a million spaces, a line of
 * dashes.
 *
 * The piece is a list of runs (symbol, count). As long as no merge brings up a pair as good as the
 * one being merged, or better, what happens at one rank is known beforehand: a run x^n whose pair
 * merges to y becomes y^(n/2), with an x behind it when n is odd, in one step; two neighbouring
 * runs give one y between them. Where several pairs have one rank they may overlap, so the places
 * of a rank are visited from left to right. So the work grows with the number of runs, not of
 * symbols. Where such a pair does turn up (rare, though possible) this way is given up: the symbols
 * are still as they were.
 */
#include <stdlib.h>

#include "text/tokenizer/fast/bpe_caches.h"

enum { RUNS_WORTH = 8 }; /* symbols a run, on average, from which this way is taken */

static void note_rank(struct bpe_scratch *s, uint32_t rank, uint32_t run) {
    if (rank == NONE)
        return;
    if (s->run_rank != NONE && rank <= s->run_rank)
        s->better_pair = true;
    bpe_bucket_push(s, rank, run);
}

static void note_run(const struct bpe *b, struct bpe_scratch *s, uint32_t run) {
    const struct bpe_run *r = &s->runs.items[run];
    if (r->count > 1)
        note_rank(s, find_pair(b, r->id, r->id)->rank, run);
    if (r->next != NONE)
        note_rank(s, find_pair(b, r->id, s->runs.items[r->next].id)->rank, run);
}

static uint32_t insert_after(struct bpe_scratch *s, uint32_t run, uint32_t id) {
    uint32_t made = (uint32_t)s->runs.count, next = s->runs.items[run].next;
    uint32_t pos = (next != NONE ? s->runs.items[next].pos : (uint32_t)s->ids.count) - 1;
    vec_push(&s->runs, ((struct bpe_run){id, 1, run, next, pos}));
    s->runs.items[run].next = made;
    if (next != NONE)
        s->runs.items[next].prev = made;
    return made;
}

/* Takes a run out of the list. */
static void remove_run(struct bpe_scratch *s, uint32_t run) {
    struct bpe_run *r = &s->runs.items[run];
    if (r->prev != NONE)
        s->runs.items[r->prev].next = r->next;
    if (r->next != NONE)
        s->runs.items[r->next].prev = r->prev;
    if (s->first_run == run)
        s->first_run = r->next;
    r->count = 0;
}

/* Joins the run with neighbours of the same symbol and notes what is new around it. */
static void join_equal(const struct bpe *b, struct bpe_scratch *s, uint32_t run) {
    struct bpe_run *r = &s->runs.items[run];
    if (r->next != NONE && s->runs.items[r->next].id == r->id) {
        r->count += s->runs.items[r->next].count;
        remove_run(s, r->next);
    }
    if (r->prev != NONE && s->runs.items[r->prev].id == r->id) {
        r->count += s->runs.items[r->prev].count;
        r->pos = s->runs.items[r->prev].pos;
        remove_run(s, r->prev);
    }
    if (r->prev != NONE)
        note_run(b, s, r->prev);
    note_run(b, s, run);
}

static void note_if_better(const struct bpe *b, struct bpe_scratch *s, uint32_t left,
                           uint32_t right) {
    if (find_pair(b, left, right)->rank <= s->run_rank)
        s->better_pair = true;
}

/* How many symbols of the run become one at this rank, and which: result, where the next symbol does not merge with it
 * at the same rank. */
static uint32_t measure_group(const struct bpe *b, struct bpe_scratch *s, const struct bpe_run *r,
                              uint32_t *result) {
    uint32_t before = r->prev != NONE ? s->runs.items[r->prev].id : NONE, length = 2;
    for (;; length++) {
        note_if_better(b, s, before, *result);
        const struct bpe_merge *m =
            length < r->count ? find_pair(b, *result, r->id) : &BPE_NO_MERGE;
        if (m->rank < s->run_rank)
            s->better_pair = true;
        if (m->rank != s->run_rank)
            return length;
        *result = m->result;
    }
}

/* The run's own pair merges. */
static void shrink(const struct bpe *b, struct bpe_scratch *s, uint32_t run, uint32_t result) {
    struct bpe_run *r = &s->runs.items[run];
    uint32_t length = measure_group(b, s, r, &result), rest = r->count % length, rest_id = r->id,
             head = r->id;
    for (uint32_t i = 1; i < MIN(length, r->count - length);
         i++) { /* what each later group is on the way */
        head = find_pair(b, head, r->id)->result;
        note_if_better(b, s, result, head);
        if (i + 1 == rest)
            rest_id = head;
    }
    r->id = result;
    r->count /= length;
    if (rest)
        join_equal(b, s, insert_after(s, run, rest_id));
    join_equal(b, s, run);
}

static void merge_border(const struct bpe *b, struct bpe_scratch *s, uint32_t run,
                         uint32_t result) {
    uint32_t next = s->runs.items[run].next, made = insert_after(s, run, result);
    if (!--s->runs.items[next].count)
        remove_run(s, next);
    if (!--s->runs.items[run].count)
        remove_run(s, run);
    join_equal(b, s, made);
}

static void visit(const struct bpe *b, struct bpe_scratch *s, uint32_t run, uint32_t rank) {
    const struct bpe_run *r = &s->runs.items[run];
    if (!r->count)
        return;
    const struct bpe_merge *m = r->count > 1 ? find_pair(b, r->id, r->id) : &BPE_NO_MERGE;
    if (m->rank == rank) {
        shrink(b, s, run, m->result);
        return;
    }
    m = r->next != NONE ? find_pair(b, r->id, s->runs.items[r->next].id) : &BPE_NO_MERGE;
    if (m->rank == rank)
        merge_border(b, s, run, m->result);
}

/* The symbols as runs; false as soon as there are too many of them. */
static bool collect(struct bpe_scratch *s) {
    size_t count = s->ids.count, limit = count / RUNS_WORTH;
    const uint32_t *ids = s->ids.items;
    s->runs.count = 0;
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && ids[end] == ids[i];)
            end++;
        uint32_t run = (uint32_t)s->runs.count;
        if (run >= limit)
            return false;
        vec_push(&s->runs,
                 ((struct bpe_run){ids[i], (uint32_t)(end - i), run - 1, run + 1, (uint32_t)i}));
    }
    s->runs.items[s->runs.count - 1].next = NONE; /* the first one's prev is NONE already */
    s->first_run = 0;
    return true;
}

static int compare_places(const void *a, const void *b, void *ctx) {
    const struct bpe_run *runs = ctx;
    uint32_t x = runs[*(const uint32_t *)a].pos, y = runs[*(const uint32_t *)b].pos;
    return (x > y) - (x < y);
}

/* The runs with a pair of this rank, into s->order; from left to right where that matters. */
static void empty_rank(const struct bpe *b, struct bpe_scratch *s, uint32_t rank) {
    bpe_empty_bucket(s, rank);
    if (!b->rising)
        qsort_r(s->order.items, s->order.count, sizeof *s->order.items, compare_places,
                s->runs.items);
}

bool bpe_merge_runs(const struct bpe *b, struct bpe_scratch *s, size_t *count) {
    if (!collect(s))
        return false;
    bpe_prepare_buckets(b, s);
    s->entries.count = 0;
    s->run_rank = NONE;
    s->better_pair = false;
    for (uint32_t run = 0, runs = (uint32_t)s->runs.count; run < runs; run++)
        note_run(b, s, run);
    for (uint32_t rank; (rank = bpe_lowest_bucket(s)) != NONE;) {
        empty_rank(b, s, rank);
        s->run_rank = rank;
        for (size_t i = 0; i < s->order.count && !s->better_pair; i++)
            visit(b, s, s->order.items[i], rank);
    }
    if (s->better_pair) {
        for (uint32_t rank; (rank = bpe_lowest_bucket(s)) != NONE;)
            bpe_empty_bucket(s, rank);
        return false;
    }
    size_t kept = 0;
    for (uint32_t run = s->first_run; run != NONE; run = s->runs.items[run].next)
        for (uint32_t i = 0; i < s->runs.items[run].count; i++)
            s->ids.items[kept++] = s->runs.items[run].id;
    *count = kept;
    return true;
}
