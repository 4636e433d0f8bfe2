/*
 * rig.h - a model on a device with slots and buffers, driven like the worker does: for tests of the
 * forward pass.
 */
#ifndef TESTS_UNIT_MODEL_RIG_H
#define TESTS_UNIT_MODEL_RIG_H

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/fsutil.h"
#include "base/vec.h"
#include "check.h"
#include "formats/json.h"
#include "model/run/forward.h"

enum { RIG_SLOTS = 72, RIG_ROWS = 512 };

struct rig {
    struct device *dev;
    struct stream *stream;
    struct model model;
    struct kv_geometry geometry;
    struct slots slots;
    struct forward forward;
    struct sample_out out;
    uint32_t slot_tokens[RIG_SLOTS]; /* known */
    uint32_t computed[RIG_SLOTS];
    uint32_t next_block;
};

/* How many slots the next rig gets, and how long: fewer cost less to make. */
static uint32_t rig_slots = RIG_SLOTS, rig_context = 2048;
/* What its matrices become when they are loaded; none: as they are. */
static enum storage_type rig_quantize __attribute__((unused));
/* As device_options.compute, and model_options.packed_folder and packs_later. */
static const char *rig_compute __attribute__((unused)), *rig_packed_folder __attribute__((unused));
static bool rig_packs_later __attribute__((unused));

/* A rank's part of the model; shard NULL: all of it. */
static inline bool rig_open_part(struct rig *r, const char *dir, const char *isa, int threads,
                                 enum storage_type kv, uint32_t block_tokens,
                                 const struct shard *shard, struct error *err) {
    *r = (struct rig){0};
    struct device_options options = {
        .isa = isa, .compute = rig_compute, .thread_count = threads, .spin_us = 20};
    struct model_options model = {.dir = dir,
                                  .shard = shard,
                                  .quantize = rig_quantize,
                                  .packed_folder = rig_packed_folder,
                                  .packs_later = rig_packs_later,
                                  .packed_most = 1 << 30};
    if (device_open(&options, &r->dev, err))
        return false;
    r->stream = stream_new(r->dev);
    if (model_open(&r->model, &model, r->dev, r->stream, err))
        return false;
    if (kv_geometry_of(&r->geometry, &r->model, kv, block_tokens, err))
        return false;
    uint32_t context = MIN(r->model.spec.max_context, rig_context),
             blocks = (context + block_tokens - 1) / block_tokens;
    if (slots_init(&r->slots, &r->model, &r->geometry, rig_slots, context, blocks * rig_slots, err))
        return false;
    /* NaN wherever nobody wrote */
    memset(r->slots.kv.base, 0xff, r->slots.kv.block_count * r->geometry.block_bytes);
    if (r->slots.state)
        memset(r->slots.state, 0xff, r->slots.table.slot_count * r->geometry.state_bytes);
    if (forward_init(&r->forward, &r->model, &r->slots, RIG_ROWS, RIG_SLOTS * 2, err))
        return false;
    r->out = (struct sample_out){.tokens = calloc(RIG_ROWS, 4),
                                 .status = calloc(RIG_ROWS, 4),
                                 .logprobs = calloc(RIG_ROWS, 4),
                                 .top_counts = calloc(RIG_ROWS, 4),
                                 .top_ids = calloc(RIG_ROWS, 4 * SAMPLE_TOP_MAX),
                                 .top_logprobs = calloc(RIG_ROWS, 4 * SAMPLE_TOP_MAX)};
    return true;
}

static inline bool rig_open(struct rig *r, const char *dir, const char *isa, int threads,
                            enum storage_type kv, uint32_t block_tokens, struct error *err) {
    return rig_open_part(r, dir, isa, threads, kv, block_tokens, NULL, err);
}

static inline void rig_close(struct rig *r) {
    free(r->out.tokens);
    free(r->out.status);
    free(r->out.logprobs);
    free(r->out.top_counts);
    free(r->out.top_ids);
    free(r->out.top_logprobs);
    if (r->forward.model)
        forward_release(&r->forward);
    if (r->slots.dev)
        slots_release(&r->slots);
    if (r->model.dev)
        model_close(&r->model);
    stream_free(&r->stream);
    device_close(&r->dev);
}

/* Puts a sequence in, with blocks for all it may become (scattered over the cache). */
static inline void rig_admit(struct rig *r, uint32_t slot, const uint32_t *tokens, uint32_t count,
                             struct slot_state state) {
    uint32_t blocks[2048], n = r->slots.table.max_blocks;
    for (uint32_t i = 0; i < n; i++)
        blocks[i] = (slot + i * r->slots.table.slot_count) % r->slots.kv.block_count;
    state.token_count = count;
    if (!state.max_total)
        state.max_total = r->slots.table.max_context;
    if (state.top_p == 0)
        state.top_p = 1;
    if (state.repetition_penalty == 0)
        state.repetition_penalty = 1;
    struct slot_admission a = {
        .state = &state, .tokens = tokens, .blocks = blocks, .block_count = n};
    slots_admit(&r->slots, r->stream, slot, &a);
    r->slot_tokens[slot] = count;
    r->computed[slot] = state.computed_count;
}

/* One step: for each slot in list, up to `chunk` positions; samples where the end of the known
 * tokens is reached. Returns the sample count, slots in sampled[]. */
static inline uint32_t rig_step(struct rig *r, const uint32_t *list, uint32_t count, uint32_t chunk,
                                uint32_t *sampled) {
    struct step_run runs[RIG_SLOTS];
    uint32_t rows = 0, samples = 0, sample_rows[RIG_SLOTS], run_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot = list[i],
                 n = MIN(MIN(chunk, r->slot_tokens[slot] - r->computed[slot]), RIG_ROWS - rows);
        if (n == 0)
            continue;
        runs[run_count++] = (struct step_run){.slot = slot, .row_first = rows, .token_count = n};
        rows += n;
        r->computed[slot] += n;
        if (r->computed[slot] < r->slot_tokens[slot])
            continue;
        sample_rows[samples] = rows - 1;
        sampled[samples++] = slot;
    }
    struct step_input in = {.runs = runs,
                            .run_count = run_count,
                            .row_count = rows,
                            .sample_rows = sample_rows,
                            .sample_count = samples};
    forward_layers(&r->forward, r->stream, &in);
    return samples;
}

/* Samples the rows of the last rig_step; known tokens grow. */
static inline void rig_sample(struct rig *r, const uint32_t *sampled, uint32_t samples) {
    forward_sample(&r->forward, r->stream, &r->out, NULL);
    for (uint32_t i = 0; i < samples; i++)
        if (r->out.status[i] != SAMPLE_NONFINITE && r->out.status[i] != SAMPLE_WASTED)
            r->slot_tokens[sampled[i]]++;
}

/* ---- golden files ---- */

struct golden_case {
    VEC(uint32_t) prompt, greedy;
    VEC(float) margins; /* of each greedy token over the next best; may be empty */
};
struct golden {
    VEC(struct golden_case) cases;
};

static inline bool golden_ids(struct json_reader *j, struct golden_case *c, bool prompt) {
    if (json_next(j) != JSON_ARRAY_BEGIN)
        return false;
    enum json_event ev;
    while ((ev = json_next(j)) == JSON_NUMBER) {
        int64_t v = 0;
        if (!json_number_int64(j->text, &v))
            return false;
        if (prompt)
            vec_push(&c->prompt, (uint32_t)v);
        else
            vec_push(&c->greedy, (uint32_t)v);
    }
    return ev == JSON_ARRAY_END;
}

static inline bool golden_margins(struct json_reader *j, struct golden_case *c) {
    if (json_next(j) != JSON_ARRAY_BEGIN)
        return false;
    enum json_event ev;
    double v = 0;
    while ((ev = json_next(j)) == JSON_NUMBER) {
        if (!json_number_double(j->text, &v))
            return false;
        vec_push(&c->margins, (float)v);
    }
    return ev == JSON_ARRAY_END;
}

static inline bool golden_case_read(struct json_reader *j, struct golden_case *c) {
    enum json_event ev;
    while ((ev = json_next(j)) == JSON_KEY) {
        bool ok;
        if (bytes_equal(j->text, bytes_str("prompt_ids")))
            ok = golden_ids(j, c, true);
        else if (bytes_equal(j->text, bytes_str("greedy_ids")))
            ok = golden_ids(j, c, false);
        else if (bytes_equal(j->text, bytes_str("margins")))
            ok = golden_margins(j, c);
        else
            ok = json_skip(j);
        if (!ok)
            return false;
    }
    return ev == JSON_OBJECT_END;
}

/* To the list of cases: the file itself, or its member "cases". */
static inline bool golden_find_cases(struct json_reader *j) {
    enum json_event ev = json_next(j);
    if (ev == JSON_ARRAY_BEGIN)
        return true;
    while ((ev = json_next(j)) == JSON_KEY) {
        if (bytes_equal(j->text, bytes_str("cases")))
            return json_next(j) == JSON_ARRAY_BEGIN;
        if (!json_skip(j))
            return false;
    }
    return false;
}

/* [{"prompt_ids": [..], "greedy_ids": [..], ...}, ...] */
static inline bool golden_read(struct golden *g, const char *path) {
    struct buf text;
    struct json_reader j;
    buf_init(&text, 0);
    bool ok = !file_read(path, 64 << 20, &text, NULL);
    json_reader_init(&j, buf_bytes(&text), 0, 0);
    ok = ok && golden_find_cases(&j);
    while (ok && json_next(&j) == JSON_OBJECT_BEGIN) {
        vec_push(&g->cases, (struct golden_case){0});
        ok = golden_case_read(&j, &g->cases.items[g->cases.count - 1]);
    }
    ok = ok && j.last != JSON_ERROR && g->cases.count > 0;
    json_reader_release(&j);
    buf_release(&text);
    return ok;
}

static inline void golden_free(struct golden *g) {
    for (size_t i = 0; i < g->cases.count; i++) {
        vec_release(&g->cases.items[i].prompt);
        vec_release(&g->cases.items[i].greedy);
        vec_release(&g->cases.items[i].margins);
    }
    vec_release(&g->cases);
}

#endif
