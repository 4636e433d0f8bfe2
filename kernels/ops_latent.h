/*
 * ops_latent.h - latent attention (DeepSeek-AI 2024, "DeepSeek-V2", section 2.1), absorbed: what is
 * cached of a position is one compressed row that all heads share.
 *
 * A cached row is [c | k_r]: the latent c [rank] (normed) and a rotated key part k_r [rope]. Head
 * h's key is [W_uk[h] c | k_r] and its value W_uv[h] c. Nobody computes those: q_n . (W_uk c) =
 * (W_uk^T q_n) . c, so the query is taken into the latent space once (head_linear, transposed),
 * attention runs there (latent_attention), and the mix of latents goes through W_uv at the end
 * (head_linear).
 *
 * The cache is a kv_view of kv_heads 1 and head_dim rank + rope whose layer takes
 * latent_layer_bytes. H: heads.
 */
#ifndef KERNELS_OPS_LATENT_H
#define KERNELS_OPS_LATENT_H

#include "kernels/types.h"

struct stream;
struct kv_view;
struct step_batch;

enum { LATENT_WIDTH_MAX = 1024 }; /* rank + rope */

/* A product for each head with `count` rows of its own: those from h * head_rows + first on. plain:
 * out[t, h, n] = sum_k x[t, h, k] * w[h * head_rows + first + n, k], n < count, k < w->cols
 * transposed: out[t, h, k] = sum_n x[t, h, n] * w[h * head_rows + first + n, k]
 * x: act [rows, heads, x_stride], out: act [rows, heads, out_stride]; of each head the leading
 * values are read and written. Sums as in linear; transposed ones ascend in n. w has no bias. */
struct op_head_linear {
    void *out;
    const void *x;
    const struct matrix *w;
    uint32_t rows, heads, head_rows, first, count;
    uint32_t x_stride, out_stride;
    bool transposed;
};

/* Writes the step's rows into the cache and finishes the queries:
 *   c = kv[t, 0 .. rank), RMS-normed with norm (f32 [rank]; NULL: as it is) and eps; k_r = kv[t,
 *   rank ..), rotated. q[t, h, rank ..) = the rotated q_rope[t, h, q_offset ..).
 * kv: act [T, rank + rope]; q: act [T, heads, rank + rope]; q_rope: act [T, heads, q_stride].
 * angles as in rope_kv, half = rope / 2; NULL: no rotation. Padding rows write nothing. */
struct op_latent_write {
    void *q;
    const void *q_rope, *kv;
    uint32_t heads, rank, rope, q_stride, q_offset;
    const float *norm;
    float eps;
    const float *angles;
    bool interleaved;
    const struct kv_view *view;
    const struct step_batch *batch;
};

/* out[t, h, :] = sum_j softmax_j(scale * q[t, h] . row[j]) row[j][0 .. rank), j over positions 0 ..
 * positions[t] of the row's slot. q: act [T, heads, rank + rope], out: act [T, heads, rank]. Parts
 * as in attention. Padding rows: zeros. */
struct op_latent_attention {
    void *out;
    const void *q;
    uint32_t heads, rank;
    float scale;
    const struct kv_view *view;
    const struct step_batch *batch;
};

#endif
