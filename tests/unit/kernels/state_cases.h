/*
 * state_cases.h - one case for each operation with a state (kernels/ops_state.h): its inputs a row,
 * its parameters and how it is called. Shared by the tests of the CPU's instruction sets and of the
 * emulated device, which bring arrays in their device's memory.
 */
#ifndef TESTS_UNIT_KERNELS_STATE_CASES_H
#define TESTS_UNIT_KERNELS_STATE_CASES_H

#include <math.h>

#include "kernels/ops.h"

enum { CASE_INPUTS = 6, CASE_PARAMETERS = 8, CASE_SLOTS = 4, CASE_LENGTH = 23 };

struct state_case {
    const char *name;
    uint32_t sizes[4];            /* heads, dimension, ... as the case reads them */
    bool flag;                    /* the operation's second form */
    uint32_t inputs[CASE_INPUTS]; /* width of each act input a row; 0: none */
    /* width of an f32 input a row (step sizes), positive values; 0: none */
    uint32_t wide;
    size_t parameters[CASE_PARAMETERS];
    uint32_t out_width, out_planes; /* planes: op_shift's mixes */
    size_t state_floats;
    void (*call)(const struct state_case *c, struct stream *s, const struct state_ops *ops,
                 void *const *in, const float *wide, float *const *p, void *out,
                 struct state_view state, const struct step_batch *batch);
};

static void case_conv(const struct state_case *c, struct stream *s, const struct state_ops *ops,
                      void *const *in, const float *wide, float *const *p, void *out,
                      struct state_view state, const struct step_batch *batch) {
    ops->conv(s, &(struct op_conv){.out = out,
                                   .x = in[0],
                                   .gate_in = c->inputs[1] ? in[1] : NULL,
                                   .gate_out = c->inputs[2] ? in[2] : NULL,
                                   .weight = p[0],
                                   .bias = c->parameters[1] ? p[1] : NULL,
                                   .width = c->sizes[0],
                                   .taps = c->sizes[1],
                                   .in_stride = c->inputs[0],
                                   .out_stride = c->out_width,
                                   .silu = c->flag,
                                   .state = state,
                                   .batch = batch});
}

/* sizes: heads, head_dim, groups, state; flag: per channel, and in the place of groups the limit of
 * a state that grows (0: none). */
static void case_ssm(const struct state_case *c, struct stream *s, const struct state_ops *ops,
                     void *const *in, const float *wide, float *const *p, void *out,
                     struct state_view state, const struct step_batch *batch) {
    ops->ssm(s, &(struct op_ssm){.out = out,
                                 .x = in[0],
                                 .b = in[1],
                                 .c = in[2],
                                 .z = c->inputs[3] ? in[3] : NULL,
                                 .dt = wide,
                                 .a = p[0],
                                 .d = p[1],
                                 .heads = c->sizes[0],
                                 .head_dim = c->sizes[1],
                                 .groups = c->flag ? 1 : c->sizes[2],
                                 .state_size = c->sizes[3],
                                 .x_stride = c->inputs[0],
                                 .bc_stride = c->inputs[1],
                                 .z_stride = c->inputs[3],
                                 .out_stride = c->out_width,
                                 .per_channel = c->flag,
                                 .limit = c->flag ? (float)c->sizes[2] : 0,
                                 .state = state,
                                 .batch = batch});
}

/* sizes: heads, key heads, key_dim, value_dim; flag: tiled. */
static void case_delta(const struct state_case *c, struct stream *s, const struct state_ops *ops,
                       void *const *in, const float *wide, float *const *p, void *out,
                       struct state_view state, const struct step_batch *batch) {
    enum storage_type act = s->dev->activation_type;
    uint32_t keys = c->sizes[1] * c->sizes[2];
    ops->delta(s, &(struct op_delta){.out = out,
                                     .q = in[0],
                                     .k = (char *)in[0] + storage_bytes(act, keys),
                                     .v = (char *)in[0] + storage_bytes(act, 2 * (size_t)keys),
                                     .b = in[1],
                                     .dt = wide,
                                     .a = p[0],
                                     .heads = c->sizes[0],
                                     .key_heads = c->sizes[1],
                                     .key_dim = c->sizes[2],
                                     .value_dim = c->sizes[3],
                                     .in_stride = c->inputs[0],
                                     .b_stride = c->inputs[1],
                                     .tiled = c->flag,
                                     .scale = 0.5f,
                                     .state = state,
                                     .batch = batch});
}

/* sizes: heads, head_dim, groups, state; flag: states turn. */
static void case_trapezoid(const struct state_case *c, struct stream *s,
                           const struct state_ops *ops, void *const *in, const float *wide,
                           float *const *p, void *out, struct state_view state,
                           const struct step_batch *batch) {
    uint32_t heads = c->sizes[0];
    ops->trapezoid(
        s,
        &(struct op_trapezoid){
            .out = out,
            .x = in[0],
            .b = in[1],
            .c = in[2],
            .mix = in[3],
            .theta = c->flag ? (char *)in[3] + storage_bytes(s->dev->activation_type, heads) : NULL,
            .dt = wide,
            .a = p[0],
            .d = p[1],
            .b_bias = p[2],
            .c_bias = p[3],
            .heads = heads,
            .dim = c->sizes[1],
            .groups = c->sizes[2],
            .state_size = c->sizes[3],
            .x_stride = c->inputs[0],
            .bc_stride = c->inputs[1],
            .turn_stride = c->inputs[3],
            .state = state,
            .batch = batch});
}

static void case_rglru(const struct state_case *c, struct stream *s, const struct state_ops *ops,
                       void *const *in, const float *wide, float *const *p, void *out,
                       struct state_view state, const struct step_batch *batch) {
    ops->rglru(s, &(struct op_rglru){.out = out,
                                     .x = in[0],
                                     .gates = in[1],
                                     .a = p[0],
                                     .width = c->sizes[0],
                                     .state = state,
                                     .batch = batch});
}

/* sizes: width, mixes. */
static void case_shift(const struct state_case *c, struct stream *s, const struct state_ops *ops,
                       void *const *in, const float *wide, float *const *p, void *out,
                       struct state_view state, const struct step_batch *batch) {
    struct op_shift op = {.out = out,
                          .x = in[0],
                          .dynamic = c->inputs[1] ? in[1] : NULL,
                          .mix = p[0],
                          .width = c->sizes[0],
                          .mixes = c->sizes[1],
                          .peek = true,
                          .state = state,
                          .batch = batch};
    ops->shift(s, &op); /* changes nothing */
    op.peek = false;
    ops->shift(s, &op);
}

static void case_wkv4(const struct state_case *c, struct stream *s, const struct state_ops *ops,
                      void *const *in, const float *wide, float *const *p, void *out,
                      struct state_view state, const struct step_batch *batch) {
    ops->wkv4(s, &(struct op_wkv4){.out = out,
                                   .r = in[0],
                                   .k = in[1],
                                   .v = in[2],
                                   .decay = p[0],
                                   .first = p[1],
                                   .width = c->sizes[0],
                                   .state = state,
                                   .batch = batch});
}

/* sizes: heads, dim; flag: RWKV-7. */
static void case_wkv(const struct state_case *c, struct stream *s, const struct state_ops *ops,
                     void *const *in, const float *wide, float *const *p, void *out,
                     struct state_view state, const struct step_batch *batch) {
    ops->wkv(s, &(struct op_wkv){.out = out,
                                 .r = in[0],
                                 .k = in[1],
                                 .v = in[2],
                                 .w = in[3],
                                 .gate = in[4],
                                 .s = c->flag ? in[5] : NULL,
                                 .w_bias = p[0],
                                 .u = p[1],
                                 .norm_weight = p[2],
                                 .norm_bias = p[3],
                                 .s_bias = p[4],
                                 .key_scale = p[5],
                                 .key_mix = p[6],
                                 .heads = c->sizes[0],
                                 .dim = c->sizes[1],
                                 .eps = 64e-5f,
                                 .seven = c->flag,
                                 .state = state,
                                 .batch = batch});
}

#define CONV(w, taps, gates, bias, silu)                                                           \
    {                                                                                              \
        "conv", {w, taps}, silu, {w, gates ? w : 0, gates ? w : 0}, 0,                             \
            {(size_t)(taps)*w, bias ? w : 0}, w, 1, (size_t)((taps)-1) * w, case_conv              \
    }
#define SSM(heads, dim, groups, n, z)                                                              \
    {                                                                                              \
        "ssm", {heads, dim, groups, n}, false,                                                     \
            {heads * dim, groups * n, groups * n, z ? heads * dim : 0}, heads, {heads, heads},     \
            heads *dim, 1, (size_t)heads *((dim + 15) / 16) * n * 16, case_ssm                     \
    }
#define SCAN(channels, n, limit)                                                                   \
    {                                                                                              \
        "scan", {channels, 1, limit, n}, true, {channels, n, n, channels}, channels,               \
            {(size_t)((channels + 15) / 16) * n * 16, channels}, channels, 1,                      \
            (size_t)((channels + 15) / 16) * n * 16, case_ssm                                      \
    }
#define TRAPEZOID(heads, dim, groups, n, turns)                                                    \
    {                                                                                              \
        "trapezoid", {heads, dim, groups, n}, turns,                                               \
            {heads * dim, groups * n, groups * n, heads * (1 + (turns ? n / 2 : 0))}, heads,       \
            {heads, heads, heads * n, heads * n}, heads *dim, 1,                                   \
            (size_t)heads *(dim * n + n + dim + n / 2), case_trapezoid                             \
    }
#define DELTA(heads, keys, dk, dv, tiled)                                                          \
    {                                                                                              \
        "delta", {heads, keys, dk, dv}, tiled, {2 * keys * dk + heads * dv, heads}, heads,         \
            {heads}, heads *dv, 1, (size_t)heads *dk *dv, case_delta                               \
    }
#define SHIFT(w, mixes, dynamic)                                                                   \
    {                                                                                              \
        "shift", {w, mixes}, false, {w, dynamic ? w * mixes : 0}, 0, {(size_t)w * mixes}, w,       \
            mixes, w, case_shift                                                                   \
    }
#define WKV(heads, dim, seven)                                                                     \
    {                                                                                              \
        seven ? "wkv7" : "wkv6", {heads, dim}, seven,                                              \
            {heads * dim, heads * dim, heads * dim, heads * dim, heads * dim, heads * dim}, 0,     \
            {heads * dim, heads * dim, heads * dim, heads * dim,                                   \
             heads * dim, heads * dim, heads * dim},                                               \
            heads *dim, 1, (size_t)heads *dim *dim, case_wkv                                       \
    }

static const struct state_case STATE_CASES[] = {
    CONV(1, 4, false, true, true),
    CONV(17, 3, true, false, false),
    CONV(70, 4, false, true, true),
    CONV(131, 2, false, false, false),
    CONV(5, 1, true, true, true),
    SSM(1, 3, 1, 5, false),
    SSM(6, 8, 2, 16, true),
    SSM(4, 21, 4, 7, true),
    SSM(2, 64, 1, 33, false),
    SCAN(3, 16, 0),
    SCAN(37, 5, 0),
    SCAN(80, 16, 0),
    SCAN(37, 16, 2),
    {"rglru", {3}, false, {3, 6}, 0, {3}, 3, 1, 3, case_rglru},
    {"rglru", {70}, false, {70, 140}, 0, {70}, 70, 1, 70, case_rglru},
    SHIFT(5, 2, false),
    SHIFT(67, 5, true),
    {"wkv4", {5}, false, {5, 5, 5}, 0, {5, 5}, 5, 1, 15, case_wkv4},
    {"wkv4", {83}, false, {83, 83, 83}, 0, {83, 83}, 83, 1, 249, case_wkv4},
    WKV(3, 8, false),
    WKV(2, 21, false),
    WKV(3, 8, true),
    WKV(2, 37, true),
    TRAPEZOID(1, 3, 1, 5, false),
    TRAPEZOID(6, 8, 2, 16, true),
    TRAPEZOID(2, 37, 1, 34, true),
    TRAPEZOID(3, 16, 3, 17, false),
    DELTA(4, 2, 9, 5, false),
    DELTA(2, 2, 16, 32, false),
    DELTA(6, 2, 33, 37, false),
    DELTA(2, 1, 17, 80, false),
    DELTA(6, 2, 7, 12, true),
};
/* Makes plausible values of random ones: decays are negative, but where the state has a limit;
 * there they are so small that no step overflows. */
static inline void case_tame(const struct state_case *c, float *const *p) {
    bool decays = c->call == case_ssm || c->call == case_delta || c->call == case_trapezoid ||
                  c->call == case_rglru || c->call == case_wkv4,
         limited = c->call == case_ssm && c->flag && c->sizes[2];
    for (size_t i = 0; decays && i < c->parameters[0]; i++) {
        float size = 0.05f + fabsf(p[0][i]);
        p[0][i] = limited ? fminf(size, 0.1f) : -size;
    }
}

#endif
