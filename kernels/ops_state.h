/*
 * ops_state.h - operations of mixers that carry a state from position to position: short
 * convolutions, state space models (Mamba 1, 2 and 3), the gated delta rule, RWKV, RG-LRU, and the
 * row operations only they need.
 *
 * State lies in device memory, f32, for every slot and layer (struct state_view). It is never
 * cleared by the host: a run whose first position is 0 begins with an empty state, any other one
 * with what the slot's last run left, or what was copied there (model/run/slots.h). So admission, and
 * recomputation after a preemption, need nothing; what a slot holds is that of its positions [0,
 * computed_count).
 *
 * Numerics: the recurrence runs position by position, in f32, in the same order of additions
 * everywhere; there is no chunked form. A row's bits depend on its sequence alone: not on how the
 * prompt was cut into runs, nor on other slots, nor on threads. Runs of one slot in a step stand
 * next to each other in order of positions (a recomputed sequence has a prompt-class and an
 * output-class run); they are computed one after the other.
 *
 * Rows of padding runs leave the state as it is; their outputs are not written.
 *
 * Arrays: `act` is the device's activation type; T, D, H as in ops.h; a `stride` counts elements
 * from row to row, so that parts of one product's output are read in place. Parameters are f32
 * device memory. Outputs may not overlap inputs unless said.
 */
#ifndef KERNELS_OPS_STATE_H
#define KERNELS_OPS_STATE_H

#include "kernels/device.h"

#ifdef __CUDACC__
#define HOST_AND_DEVICE __host__ __device__
#else
#define HOST_AND_DEVICE
#endif

struct step_batch;

/* One layer's part of every slot's state. */
struct state_view {
    void *base;         /* of slot 0 */
    size_t slot_stride; /* bytes */
    size_t offset;      /* bytes, of this state in a slot; a multiple of 64 */
};

/* Causal depthwise convolution: out[t, c] = g(t, c) * f(bias[c] + sum_j weight[j, c] * u[t - taps +
 * 1 + j, c]), j ascending, u = x * gate_in (or x), g = gate_out (or 1), u before position 0 is 0.
 * State: f32 [taps - 1, width], the last inputs, oldest first. x, gate_in, gate_out: act [T,
 * in_stride]. taps >= 1. */
enum { CONV_TAPS_MAX = 32 };
struct op_conv {
    void *out;
    const void *x, *gate_in, *gate_out; /* gates: NULL for none */
    const float *weight, *bias;         /* [taps, width]; [width] or NULL */
    uint32_t width, taps, in_stride, out_stride;
    bool silu; /* f */
    struct state_view state;
    const struct step_batch *batch;
};

/* Step sizes: out[t, i] = min(max(softplus(x[t, i] + bias[i]), low), high). out: f32 [rows, width];
 * x: act. */
struct op_softplus {
    float *out;
    const void *x;
    const float *bias; /* [width] or NULL */
    uint32_t rows, width, in_stride;
    float low, high;
};

/*
 * Selective scan (Gu and Dao 2023; with one decay a head: Dao and Gu 2024). Channels c = h *
 * head_dim + p:
 *   S[n, c] = exp(dt * a) * S[n, c] + (dt * x[t, c]) * B[t, g, n]; y = sum_n C[t, g, n] * S[n, c] +
 *   d * x[t, c] out[t, c] = y * silu(z[t, c]) (z NULL: y)
 * with g = h / (heads / groups). per_channel (Mamba 1; head_dim 1): dt f32 [T, channels], d
 * [channels], a tiled like the state; else dt f32 [T, heads], a and d [heads]. a is negative,
 * -exp(A_log), but see below.
 *
 * State: f32, tiles of SSM_TILE channels: [unit, tile, state, SSM_TILE], a unit being a head
 * (per_channel: all channels are one); a unit's last tile may be partly unused.
 *
 * a may be positive where `limit` is: each S[n, c] is kept within [-limit, limit], before y takes
 * it.
 */
enum { SSM_TILE = 16 };
/* Floats of the state: channels in whole tiles. */
HOST_AND_DEVICE static inline size_t ssm_state_floats(uint32_t units, uint32_t unit_dim,
                                                      uint32_t state_size) {
    return (size_t)units * ((unit_dim + SSM_TILE - 1) / SSM_TILE) * state_size * SSM_TILE;
}
/* Where (channel p of a unit, n) lies in its unit. */
HOST_AND_DEVICE static inline size_t ssm_tile_at(uint32_t p, uint32_t n, uint32_t state_size) {
    return ((size_t)(p / SSM_TILE) * state_size + n) * SSM_TILE + p % SSM_TILE;
}
struct op_ssm {
    void *out;
    const void *x, *b, *c, *z; /* act [T, stride]; b, c: [groups, state] within a row */
    const float *dt, *a, *d;
    uint32_t heads, head_dim, groups, state_size;
    uint32_t x_stride, bc_stride, z_stride, out_stride;
    bool per_channel;
    float limit; /* 0: none */
    struct state_view state;
    const struct step_batch *batch;
};

/*
 * Mamba 3 as oxidizr has it: a trapezoidal rule whose two weights are learned, and states that
 * turn. Head h of group g = h / (heads / groups), mix = sigmoid(mix[t, h]), R the rotation of
 * neighbouring values (2 i, 2 i + 1) by angle[i]:
 *   angle = turned(angle, dt * theta[t, h])  (scalar_math.h; theta NULL: R is the identity)
 *   B = R (b[t, g] + b_bias[h]);  C = R (c[t, g] + c_bias[h]);  fade = exp(dt * a)
 *   S[n, p] = fade * S[n, p] + (1 - mix) * dt * fade * B'[n] * x'[p] + mix * dt * B[n] * x[p]
 *   out[t, h, p] = sum_n C[n] * S[n, p] + d * x[p]
 * with B' and x' of the position before, 0 at the first. dt f32 [T, heads]; a, d [heads]; theta
 * [heads, state / 2].
 *
 * State: f32, behind each other for each head S [state, dim], B' [state], x' [dim], angle [state /
 * 2].
 */
enum { TRAPEZOID_STATE_MAX = 1024 };
/* Floats of a head's state. */
HOST_AND_DEVICE static inline size_t trapezoid_head_floats(uint32_t dim, uint32_t state_size) {
    return (size_t)dim * state_size + state_size + dim + state_size / 2;
}
struct op_trapezoid {
    void *out;               /* act [T, heads * dim] */
    const void *x, *b, *c;   /* act [T, stride]; b, c: [groups, state] within a row */
    const void *mix, *theta; /* act [T, turn_stride] */
    const float *dt, *a, *d;
    const float *b_bias, *c_bias; /* [heads, state] */
    uint32_t heads, dim, groups, state_size;
    uint32_t x_stride, bc_stride, turn_stride;
    struct state_view state;
    const struct step_batch *batch;
};

/*
 * Gated delta rule (Yang et al. 2024). Key head of value head h: delta_key_head. With k, q divided
 * by sqrt(sum of squares + 1e-6), q then times scale, and beta = sigmoid(b[t, h]):
 *   S *= exp(dt[t, h] * a[h]);  e = beta * (v - S^T k);  S += k e^T;  out = S^T q
 * State: f32 [heads, key_dim, value_dim].
 */
enum { DELTA_DIM_MAX = 512 };
struct op_delta {
    void *out;             /* act [T, heads * value_dim] */
    const void *q, *k, *v; /* act [T, in_stride] */
    const void *b;         /* act [T, b_stride] */
    const float *dt, *a;   /* f32 [T, heads]; [heads] */
    uint32_t heads, key_heads, key_dim, value_dim, in_stride, b_stride;
    /* value heads come in rounds, one of each key head; else all of a key head behind each other */
    bool tiled;
    float scale;
    struct state_view state;
    const struct step_batch *batch;
};
/* The key head of value head h. */
HOST_AND_DEVICE static inline uint32_t delta_key_head(const struct op_delta *a, uint32_t h) {
    return a->tiled ? h % a->key_heads : h / (a->heads / a->key_heads);
}

/* Real-gated linear recurrent unit (De et al. 2024): r = exp(a[i] * sigmoid(gates[t, width + i]))
 * (a = -8 softplus); S = r * S + m * sigmoid(gates[t, i]) * x[t, i], m = sqrt(1 - r^2), 1 at
 * position 0; out = S. State: f32 [width]. */
struct op_rglru {
    void *out;
    const void *x, *gates; /* act [T, width], [T, 2 * width] */
    const float *a;
    uint32_t width;
    struct state_view state;
    const struct step_batch *batch;
};

/* Token shift (RWKV): out[m, t, i] = x[t, i] + (x[t - 1, i] - x[t, i]) * (mix[m, i] + dynamic[t, m
 * * width + i]). dynamic: act or NULL. out: act [mixes, T, width]. State: f32 [width], the last x;
 * `peek` leaves it, for a second call on the same rows. */
struct op_shift {
    void *out;
    const void *x, *dynamic;
    const float *mix; /* [mixes, width] */
    uint32_t width, mixes;
    bool peek;
    struct state_view state;
    const struct step_batch *batch;
};

/* RWKV-4's attention (Peng et al. 2023), numerators and denominators scaled by a running maximum m:
 *   o = max(m, first + k); out = sigmoid(r) * (e^(m - o) A + e^(first + k - o) v) / (e^(m - o) B +
 *   e^(first + k - o)) n = max(m + decay, k); A = e^(m + decay - n) A + e^(k - n) v; B likewise
 *   with 1; m = n
 * State: f32 [3, width]: A, B, m; empty: 0, 0, -1e38. */
struct op_wkv4 {
    void *out;
    const void *r, *k, *v; /* act [T, width] */
    const float *decay, *first;
    uint32_t width;
    struct state_view state;
    const struct step_batch *batch;
};

/*
 * RWKV-6 and 7 (Peng et al. 2024, 2025), heads of `dim` keys and values, state f32 [heads, dim,
 * dim] indexed [key, value]:
 *   6: y = S^T r + (sum_i r_i u_i k_i) v; S[i, :] = w_i S[i, :] + k_i v, w = exp(-exp(w_bias + w))
 *   7: w = exp(-e^-0.5 sigmoid(w_bias + w)), s = sigmoid(s_bias + s), n = k * key_scale / max(|k *
 *   key_scale|, 1e-12),
 *      k = k * (1 + (s - 1) * key_mix): e = -S^T n; S[i, :] = w_i S[i, :] + n_i s_i e + k_i v; y =
 *      S^T r
 * Then y = (y - mean) / sqrt(var + eps) * norm_weight + norm_bias over each head; 7: y += (sum_i
 * r_i u_i k_i) v. out = y * gate (6: y * silu(gate)).
 */
enum { WKV_DIM_MAX = 256 };
struct op_wkv {
    void *out;
    /* act [T, heads * dim]; s: 7 only; gate NULL: none */
    const void *r, *k, *v, *w, *s, *gate;
    const float *w_bias, *u;                   /* [heads * dim] */
    const float *s_bias, *key_scale, *key_mix; /* 7 only */
    const float *norm_weight, *norm_bias;      /* [heads * dim] */
    uint32_t heads, dim;
    float eps;
    bool seven;
    struct state_view state;
    const struct step_batch *batch;
};

/* ---- rows ---- */

/* out[t, n * cols + j] = bias + sum_i x[t, n * x_block + i] * weight[n, i, j]: a product of
 * `blocks` diagonal blocks, weights stored input-major. x: act [rows, in_stride]; x_block 0: every
 * block reads the same inputs; one_weight: all blocks have the same weights and bias. out: act
 * [rows, blocks * cols]. */
struct op_block_linear {
    void *out;
    const void *x;
    /* [blocks, inputs, cols]; [blocks * cols] or NULL; without blocks where one_weight */
    const float *weight, *bias;
    uint32_t rows, blocks, inputs, cols, in_stride, x_block;
    bool one_weight;
};

/* RMS norm over groups of `group` values of a row, with an optional gate: gate_first: u = x *
 * silu(gate), out = u / rms
 * * weight; else out = x / rms * weight * silu(gate). weight: f32 [width], or [group] where shared,
 *   or NULL: 1. out may be x. out: act [rows, out_stride], x: act [rows, in_stride], gate: act
 *   [rows, gate_stride]. */
struct op_group_norm {
    void *out;
    const void *x, *gate;
    const float *weight;
    uint32_t rows, width, group, in_stride, gate_stride, out_stride;
    float eps;
    bool gate_first, weight_shared;
};

/* out[t, i] = x[t, i] * f(gate[t, i] + bias[i]); x NULL: f alone. out may be x or gate. */
enum gate_kind {
    GATE_SIGMOID = 1,
    GATE_SILU,
    GATE_GELU_TANH,
    GATE_TANH,
    GATE_RELU2,
    GATE_IDENTITY
};
struct op_gate {
    void *out;
    const void *x, *gate;
    const float *bias; /* NULL: none */
    uint32_t rows, width, x_stride, gate_stride, out_stride;
    enum gate_kind kind;
};

/* x[t, i] += (y[t, i] - x[t, i]) * sigmoid(gate[t, i] + bias[i]). act [rows, width]. */
struct op_lerp {
    void *x;
    const void *y, *gate;
    const float *bias;
    uint32_t rows, width;
};

struct state_ops {
    void (*conv)(struct stream *s, const struct op_conv *a);
    void (*softplus)(struct stream *s, const struct op_softplus *a);
    void (*ssm)(struct stream *s, const struct op_ssm *a);
    void (*trapezoid)(struct stream *s, const struct op_trapezoid *a);
    void (*delta)(struct stream *s, const struct op_delta *a);
    void (*rglru)(struct stream *s, const struct op_rglru *a);
    void (*shift)(struct stream *s, const struct op_shift *a);
    void (*wkv4)(struct stream *s, const struct op_wkv4 *a);
    void (*wkv)(struct stream *s, const struct op_wkv *a);
    void (*block_linear)(struct stream *s, const struct op_block_linear *a);
    void (*group_norm)(struct stream *s, const struct op_group_norm *a);
    void (*gate)(struct stream *s, const struct op_gate *a);
    void (*lerp)(struct stream *s, const struct op_lerp *a);
};

#endif
