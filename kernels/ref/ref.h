/*
 * ref.h - what the scalar definitions share. Each file of this folder defines one operation of
 * ops.h in the plainest way; sums run in double and are rounded once.
 */
#ifndef KERNELS_REF_REF_H
#define KERNELS_REF_REF_H

#include <math.h>

#include "kernels/kv_scale.h"
#include "kernels/ops.h"

/* struct op_add_positions of ops.h. */
void ref_add_positions(struct stream *s, const struct op_add_positions *a);
void ref_sum_addends(struct stream *s, const struct op_sum_addends *a);
/* The activation in double, before any rounding. */
double ref_activate(enum activation kind, double x);
/* struct op_prepare of ops.h. */
void ref_prepare(struct stream *s, const struct op_prepare *a);
/* struct op_embed of ops.h. */
void ref_embed(struct stream *s, const struct op_embed *a);
/* struct op_rmsnorm of ops.h. */
void ref_rmsnorm(struct stream *s, const struct op_rmsnorm *a);
/* struct op_linear of ops.h. */
void ref_linear(struct stream *s, const struct op_linear *a);
/* struct op_rope_angles of ops.h. */
void ref_rope_angles(struct stream *s, const struct op_rope_angles *a);
/* struct op_rope_kv of ops.h. */
void ref_rope_kv(struct stream *s, const struct op_rope_kv *a);
/* struct op_attention of ops.h. */
void ref_attention(struct stream *s, const struct op_attention *a);
/* struct op_scale_queries of ops.h. */
void ref_scale_queries(struct stream *s, const struct op_scale_queries *a);
/* struct op_act_mul of ops.h. */
void ref_act_mul(struct stream *s, const struct op_act_mul *a);
/* struct op_gather_rows of ops.h. */
void ref_gather_rows(struct stream *s, const struct op_gather_rows *a);
/* struct op_kv_copy of ops.h. */
void ref_kv_copy(struct stream *s, const struct op_kv_copy *a);
/* struct op_route of ops.h. */
void ref_route(struct stream *s, const struct op_route *a);
/* struct op_expert_gather of ops.h. */
void ref_expert_gather(struct stream *s, const struct op_expert_gather *a);
/* struct op_expert_linear of ops.h. */
void ref_expert_linear(struct stream *s, const struct op_expert_linear *a);
/* struct op_expert_combine of ops.h. */
void ref_expert_combine(struct stream *s, const struct op_expert_combine *a);
/* struct op_clamped_swiglu of ops.h. */
void ref_clamped_swiglu(struct stream *s, const struct op_clamped_swiglu *a);
/* struct op_head_linear of ops.h. */
void ref_head_linear(struct stream *s, const struct op_head_linear *a);
/* struct op_latent_write of ops.h. */
void ref_latent_write(struct stream *s, const struct op_latent_write *a);
/* struct op_latent_attention of ops.h. */
void ref_latent_attention(struct stream *s, const struct op_latent_attention *a);
/* Bytes of a block of one layer of latent attention's cache. */
size_t ref_latent_layer_bytes(enum storage_type type, uint32_t block_tokens, uint32_t width);
/* The choice of row t and its weights; what route does before it sorts. */
void ref_route_row(const struct op_route *a, uint32_t t);
/* Offsets, pairs and places from what the rows chose. */
void ref_expert_sort(const struct op_route *a);
/* A sampling row of a drafted step (ops.h): was row t computed from a token that the slot does not
 * have? Then what was computed from there on does not count. */
static inline bool ref_draft_failed(const struct step_batch *batch, uint32_t t,
                                    struct slot_state *state, const uint32_t *history) {
    uint32_t last = state->token_count - 1;
    if (!batch->drafted || (batch->positions[t] == last && batch->ids[t] == history[last]))
        return false;
    state->computed_count = MIN(state->computed_count, last);
    return true;
}
/* struct op_sample of ops.h. */
void ref_sample(struct stream *s, const struct op_sample *a);
/* Bytes of a block of one layer of K and V with their scales. */
size_t ref_kv_layer_bytes(enum storage_type type, uint32_t block_tokens, uint32_t kv_heads,
                          uint32_t head_dim);

/* Operations with a state (ops_state.h). */
extern const struct state_ops ref_state_ops;

/* One sequence's part of a step: the runs of a slot stand next to each other; `next` walks them. */
struct state_walk {
    const struct step_batch *batch;
    uint32_t run, step; /* the sequence's first run; runs taken */
    uint32_t row, end;  /* rows [row, end) of the current run */
    bool fresh;         /* begins at position 0 */
};
/* At the first run of a sequence; false where run `run` continues the one before it. */
static inline bool state_walk_begin(struct state_walk *w, const struct step_batch *batch,
                                    uint32_t run) {
    *w = (struct state_walk){.batch = batch, .run = run};
    return run == 0 || batch->runs[run - 1].slot != batch->runs[run].slot;
}
/* Goes to the next run of the sequence that is not padding. */
static inline bool state_walk_next(struct state_walk *w) {
    while (w->run + w->step < w->batch->run_count) {
        const struct step_run *r = &w->batch->runs[w->run + w->step];
        if (r->slot != w->batch->runs[w->run].slot)
            return false;
        w->step += 1;
        w->row = r->row_first;
        w->end = r->row_first + r->token_count;
        w->fresh = r->token_count && w->batch->positions[r->row_first] == 0;
        if (r->token_count && w->batch->positions[r->row_first] != ROW_NONE)
            return true;
    }
    return false;
}
/* A slot's state. */
static inline float *state_at(const struct state_view *v, uint32_t slot) {
    return (float *)(void *)((char *)v->base + slot * v->slot_stride + v->offset);
}

/* Row `row` of a matrix of segments. */
static inline const void *matrix_row(const struct matrix *w, uint32_t row) {
    uint32_t segment = 0;
    while (row >= w->segments[segment].rows)
        row -= w->segments[segment++].rows;
    return (const char *)w->segments[segment].data + row * storage_bytes(w->type, w->cols);
}

/* The layer in the block that holds a slot's position. */
static inline void *kv_layer(const struct kv_view *kv, uint32_t slot, uint32_t position) {
    uint32_t block = kv->tables[(size_t)slot * kv->max_blocks + position / kv->block_tokens];
    CHECK(block < kv->block_count);
    return (char *)kv->base + block * kv->block_stride + kv->layer_offset;
}
/* ref's layout of a layer in a block: K [kv_heads, block_tokens, head_dim], then V the same.
 * Element 0 of (head, position) of a slot; head: a key's, or kv_heads + a value's. */
static inline void *ref_kv_at(const struct kv_view *kv, uint32_t slot, uint32_t position,
                              uint32_t head) {
    size_t row = (size_t)head * kv->block_tokens + position % kv->block_tokens;
    return (char *)kv_layer(kv, slot, position) + row * storage_bytes(kv->type, kv->head_dim);
}
/* Scales of an int8 cache's block (kv_scale.h), in every layout: of a head, [block_tokens]. */
static inline float *kv_scales(const struct kv_view *kv, void *layer, uint32_t head) {
    size_t values = (size_t)2 * kv->kv_heads * kv->head_dim * kv->block_tokens;
    return (float *)(void *)((char *)layer + values) + (size_t)head * kv->block_tokens;
}
/* The same of a latent cache: of a row, [2]. */
static inline float *latent_scales(const struct kv_view *kv, void *layer, uint32_t position) {
    size_t values = (size_t)kv->head_dim * kv->block_tokens;
    return (float *)(void *)((char *)layer + values) + 2 * (position % kv->block_tokens);
}
/* For kv_scale_of: the largest magnitude, NaN where one is. */
static inline float kv_largest(const float *x, uint32_t count) {
    float most = 0;
    for (uint32_t i = 0; i < count; i++)
        most = fabsf(x[i]) > most || x[i] != x[i] ? fabsf(x[i]) : most;
    return most;
}
/* Stores a vector `step` elements apart from element `first` of a layer on; *scale: of an int8
 * cache. */
static inline void kv_put(const struct kv_view *kv, void *layer, size_t first, size_t step,
                          const float *x, uint32_t count, float *scale) {
    if (kv->type != STORAGE_I8) {
        for (uint32_t i = 0; i < count; i++)
            storage_put(kv->type, layer, first + i * step, x[i]);
        return;
    }
    *scale = kv_scale_of(kv_largest(x, count));
    float inverse = kv_inverse(*scale);
    for (uint32_t i = 0; i < count; i++)
        ((int8_t *)layer)[first + i * step] = kv_stored(x[i], inverse);
}

/* op_scale_queries' factor at a position. */
static inline float query_temperature(const struct op_scale_queries *a, uint32_t position) {
    return 1 + a->scale * log1pf(floorf(((float)position + a->offset) / a->floor_scale));
}

/* The first position that a row sees. */
static inline uint32_t attention_first(const struct op_attention *a, uint32_t position) {
    uint32_t window = a->window && position + 1 > a->window ? position + 1 - a->window : 0;
    return MAX(window, a->chunk ? position / a->chunk * a->chunk : 0);
}

/* A position's row in a latent cache, every device's layout: [block_tokens, rank + rope]. */
static inline void *ref_latent_at(const struct kv_view *kv, uint32_t slot, uint32_t position) {
    return (char *)kv_layer(kv, slot, position) +
           position % kv->block_tokens * storage_bytes(kv->type, kv->head_dim);
}
/* Stores the two vectors of a latent row: x [rank + rope]. */
static inline void latent_put(const struct kv_view *kv, uint32_t slot, uint32_t position,
                              const float *x, uint32_t rank) {
    void *layer = kv_layer(kv, slot, position);
    size_t first = (size_t)(position % kv->block_tokens) * kv->head_dim;
    float *scales = latent_scales(kv, layer, position);
    kv_put(kv, layer, first, 1, x, rank, &scales[0]);
    kv_put(kv, layer, first + rank, 1, x + rank, kv->head_dim - rank, &scales[1]);
}

#endif
