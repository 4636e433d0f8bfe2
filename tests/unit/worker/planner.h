/*
 * planner.h - the smallest scheduler that can drive an executor: admits sequences, hands out
 * blocks, plans rows, follows results.
 */
#ifndef TESTS_UNIT_WORKER_PLANNER_H
#define TESTS_UNIT_WORKER_PLANNER_H

#include <stdio.h>
#include <stdlib.h>

#include "base/vec.h"
#include "check.h"
#include "worker/executor.h"

enum { PLANNER_SLOTS = 80, PLANNER_TOKENS = 600, PLANNER_ROWS = 512 };

struct planned {
    bool open, told;              /* told: the worker has been given it */
    uint32_t prompt_count, count; /* of tokens */
    uint32_t known;               /* count plus tokens in flight */
    uint32_t computed;            /* planned */
    uint32_t tokens[PLANNER_TOKENS];
    uint32_t blocks[64], block_count;
    uint32_t max_total, finish;
    struct wire_sampling sampling;
    struct u128 grammar;
    uint32_t stop;             /* one stop token; UINT32_MAX: none */
    struct wire_logprobs last; /* of the latest token; borrowed from the result */
};

struct planner {
    struct executor *executor;
    struct wire_hello about;
    struct planned slots[PLANNER_SLOTS];
    uint64_t number;
    uint32_t next_block, steps;
    struct error err;
    /* The plan being built. */
    VEC(struct wire_admit) admits;
    VEC(uint32_t) releases, rows, counts, drafts, draft_tokens, new_rows, new_groups, new_ids;
    uint32_t zeros[64];
    /* The other ranks of the executor's replica, if any: get each plan before it does. May set
     * comm_id. */
    void (*tell)(void *ctx, struct wire_plan *plan);
    void *tell_ctx;
};

static inline struct worker_settings planner_settings(const char *model, const char *isa) {
    return (struct worker_settings){.model = model,
                                    .isa = isa,
                                    .device = "cpu",
                                    .threads = 2,
                                    .slots = PLANNER_SLOTS,
                                    .blocks = 2048,
                                    .block_tokens = 16,
                                    .max_step_tokens = PLANNER_ROWS};
}

static inline bool planner_open(struct planner *p, const struct worker_settings *settings) {
    static struct worker_progress progress;
    memset(p, 0, sizeof *p);
    if (executor_new(&p->executor, settings, &progress, &p->err))
        return false;
    executor_describe(p->executor, &p->about);
    return true;
}
static inline void planner_close(struct planner *p) {
    executor_free(&p->executor);
    vec_release(&p->admits);
    vec_release(&p->releases);
    vec_release(&p->rows);
    vec_release(&p->counts);
    vec_release(&p->drafts);
    vec_release(&p->draft_tokens);
    vec_release(&p->new_rows);
    vec_release(&p->new_groups);
    vec_release(&p->new_ids);
}

static inline void planner_reset(struct planner *p) {
    executor_reset(p->executor);
    memset(p->slots, 0, sizeof p->slots);
    p->number = 0;
}

static inline struct planned *planner_put(struct planner *p, uint32_t slot, const uint32_t *tokens,
                                          uint32_t count, uint32_t max_total) {
    struct planned *s = &p->slots[slot];
    *s = (struct planned){.open = true,
                          .prompt_count = count,
                          .count = count,
                          .known = count,
                          .max_total = max_total,
                          .stop = UINT32_MAX,
                          .sampling = {.top_p = 1, .repetition_penalty = 1, .logprobs = -1}};
    memcpy(s->tokens, tokens, count * sizeof *tokens);
    return s;
}

/* Tells the worker of the slot with the blocks it needs for its known tokens. */
static inline void planner_admit(struct planner *p, uint32_t slot) {
    struct planned *s = &p->slots[slot];
    while (s->block_count * p->about.groups[0].block_tokens < s->known)
        s->blocks[s->block_count++] = p->next_block++ % p->about.groups[0].block_count;
    vec_push(&p->admits, ((struct wire_admit){.slot = slot,
                                              .sequence = slot,
                                              .tokens = {s->tokens, s->count},
                                              .prompt_count = s->prompt_count,
                                              .computed_count = s->computed,
                                              .block_groups = {p->zeros, s->block_count},
                                              .block_ids = {s->blocks, s->block_count},
                                              .sampling = s->sampling,
                                              .grammar = s->grammar,
                                              .stop_tokens = {&s->stop, s->stop != UINT32_MAX},
                                              .max_total = s->max_total}));
    s->told = true;
}

/* Blocks up to there, for the row that was added last. */
static inline void planner_cover(struct planner *p, struct planned *s, uint32_t upto) {
    while (s->block_count * p->about.groups[0].block_tokens < upto) {
        uint32_t block = p->next_block++ % p->about.groups[0].block_count;
        s->blocks[s->block_count++] = block;
        vec_push(&p->new_rows, (uint32_t)(p->rows.count - 1));
        vec_push(&p->new_groups, 0u);
        vec_push(&p->new_ids, block);
    }
}

/* Adds a row of up to n positions for the slot. Returns how many. */
static inline uint32_t planner_row(struct planner *p, uint32_t slot, uint32_t n) {
    struct planned *s = &p->slots[slot];
    n = MIN(n, s->known - s->computed);
    if (n == 0)
        return 0;
    vec_push(&p->rows, slot);
    vec_push(&p->counts, n);
    vec_push(&p->drafts, 0u);
    s->computed += n;
    s->known += s->computed == s->known;
    planner_cover(p, s, s->computed);
    return n;
}

/* Drafts for the row that was added last, of this slot: no plan has a row of it before their result is
 * taken. */
static inline void planner_draft(struct planner *p, uint32_t slot, const uint32_t *tokens,
                                 uint32_t n) {
    struct planned *s = &p->slots[slot];
    p->drafts.items[p->drafts.count - 1] = n;
    for (uint32_t i = 0; i < n; i++)
        vec_push(&p->draft_tokens, tokens[i]);
    planner_cover(p, s, s->computed + n);
}

static inline struct wire_plan planner_plan(struct planner *p) {
    return (struct wire_plan){
        .number = ++p->number,
        .release_slots = {p->releases.items, p->releases.count},
        .admits = p->admits.items,
        .admit_count = p->admits.count,
        .new_block_rows = {p->new_rows.items, p->new_rows.count},
        .new_block_groups = {p->new_groups.items, p->new_groups.count},
        .new_block_ids = {p->new_ids.items, p->new_ids.count},
        .row_slots = {p->rows.items, p->rows.count},
        .row_token_counts = {p->counts.items, p->counts.count},
        .draft_counts = {p->drafts.items, p->draft_tokens.count ? p->drafts.count : 0},
        .draft_tokens = {p->draft_tokens.items, p->draft_tokens.count}};
}

static inline bool planner_send(struct planner *p) {
    struct wire_plan plan = planner_plan(p);
    if (p->tell)
        p->tell(p->tell_ctx, &plan);
    int rc = executor_enqueue(p->executor, &plan, &p->err);
    p->releases.count = p->admits.count = p->rows.count = p->counts.count = p->new_rows.count =
        p->new_groups.count = p->new_ids.count = p->drafts.count = p->draft_tokens.count = 0;
    return rc == 0;
}

/* Takes the oldest result in. */
static inline bool planner_take(struct planner *p) {
    struct wire_step_result r;
    if (executor_collect(p->executor, true, &r, &p->err) != 1)
        return false;
    size_t at = 0;
    for (size_t i = 0; i < r.slots.count; i++) {
        struct planned *s = &p->slots[r.slots.items[i]];
        for (uint32_t k = 0; k < r.token_counts.items[i]; k++) {
            s->tokens[s->count++] = r.tokens.ids[at++];
            s->computed += k > 0; /* a draft that was right */
            s->known += k > 0;
        }
        s->last = r.logprobs;
        if (r.finishes.items[i]) {
            s->finish = r.finishes.items[i];
            s->open = false;
        }
    }
    p->steps++;
    return at == r.tokens.count;
}

/* One step over all open slots, decode first, in chunks. False: nothing was left to plan. */
static inline bool planner_step(struct planner *p, uint32_t chunk) {
    uint32_t left = PLANNER_ROWS, rows = 0;
    for (int prefill = 0; prefill < 2; prefill++)
        for (uint32_t i = 0; i < PLANNER_SLOTS && left; i++) {
            struct planned *s = &p->slots[i];
            if (!s->open || (s->told && s->known - s->computed > 1) != (prefill == 1 && s->told) ||
                (!s->told && !prefill))
                continue;
            if (!s->told)
                planner_admit(p, i);
            uint32_t n = planner_row(p, i, MIN(chunk, left));
            left -= n;
            rows += n > 0;
        }
    return rows > 0 && planner_send(p);
}

/* Runs until all slots have finished. depth: plans in flight. */
static inline bool planner_run(struct planner *p, uint32_t chunk, uint32_t depth) {
    uint32_t in_flight = 0;
    for (;;) {
        bool sent = in_flight < depth && planner_step(p, chunk);
        in_flight += sent;
        if (p->err.code)
            return false;
        if (in_flight && (in_flight == depth || !sent)) {
            if (!planner_take(p))
                return false;
            in_flight--;
        } else if (!sent) {
            return true;
        }
    }
}

#endif
