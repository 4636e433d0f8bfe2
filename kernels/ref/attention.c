/* Rotary angles, rotation and cache write, attention over the paged cache. */
#include <math.h>

#include "kernels/ref/ref.h"
#include "kernels/scalar_math.h"

size_t ref_kv_layer_bytes(enum storage_type type, uint32_t block_tokens, uint32_t kv_heads,
                          uint32_t head_dim) {
    size_t vectors = (size_t)2 * kv_heads * block_tokens;
    return (storage_bytes(type, vectors * head_dim) + kv_scale_bytes(type, vectors) + 63) / 64 * 64;
}

void ref_rope_angles(struct stream *s, const struct op_rope_angles *a) {
    for (uint32_t t = 0; t < a->batch->row_count; t++)
        for (uint32_t i = 0; i < a->half; i++) {
            float *out = a->out + ((size_t)t * a->half + i) * 2;
            uint32_t position = a->batch->positions[t];
            const float *inv_freq =
                a->inv_freq + (a->per_slot ? (size_t)a->batch->slots[t] * a->half : 0);
            scalar_sincos(position == ROW_NONE ? 0 : (float)position * inv_freq[i], &out[1],
                          &out[0]);
            out[0] *= a->scale;
            out[1] *= a->scale;
        }
}

static void rotate(float *x, const float *angles, uint32_t half, bool interleaved) {
    for (uint32_t i = 0; i < half; i++) {
        float *a = interleaved ? &x[2 * i] : &x[i], *b = interleaved ? &x[2 * i + 1] : &x[i + half];
        float c = angles[2 * i], sn = angles[2 * i + 1], a0 = *a, b0 = *b;
        *a = (float)((double)a0 * c - (double)b0 * sn);
        *b = (float)((double)b0 * c + (double)a0 * sn);
    }
}

void ref_rope_kv(struct stream *s, const struct op_rope_kv *a) {
    const struct kv_view *kv = a->kv;
    uint32_t dim = kv->head_dim, stride = (a->heads + 2 * kv->kv_heads) * dim;
    CHECK(!a->norms);
    for (uint32_t t = 0; t < a->batch->row_count; t++) {
        uint32_t position = a->batch->positions[t];
        if (position == ROW_NONE)
            continue;
        float *row = (float *)a->qkv + (size_t)t * stride;
        for (uint32_t h = 0; a->angles && h < a->heads + kv->kv_heads; h++)
            rotate(row + h * dim, a->angles + (size_t)t * a->half * 2, a->half, a->interleaved);
        void *layer = kv_layer(kv, a->batch->slots[t], position);
        for (uint32_t head = 0; head < 2 * kv->kv_heads; head++) {
            uint32_t at = position % kv->block_tokens;
            kv_put(kv, layer, ((size_t)head * kv->block_tokens + at) * dim, 1,
                   row + (a->heads + head) * dim, dim, kv_scales(kv, layer, head) + at);
        }
    }
}

void ref_scale_queries(struct stream *s, const struct op_scale_queries *a) {
    for (uint32_t t = 0; t < a->batch->row_count; t++) {
        float *row = (float *)a->x + (size_t)t * a->stride;
        float factor =
            a->batch->positions[t] == ROW_NONE ? 1 : query_temperature(a, a->batch->positions[t]);
        for (uint32_t i = 0; i < a->width; i++)
            row[i] *= factor;
    }
}

/* Of a cached vector; 1: it has none. */
static double kv_scale(const struct kv_view *kv, uint32_t slot, uint32_t j, uint32_t head) {
    if (kv->type != STORAGE_I8)
        return 1;
    return kv_scales(kv, kv_layer(kv, slot, j), head)[j % kv->block_tokens];
}

/* h: the query's head. */
static double score(const struct op_attention *a, const float *q, uint32_t slot, uint32_t j,
                    uint32_t h, uint32_t position) {
    uint32_t g = h / (a->heads / a->kv->kv_heads);
    const void *k = ref_kv_at(a->kv, slot, j, g);
    double dot = 0;
    for (uint32_t i = 0; i < a->kv->head_dim; i++)
        dot += (double)q[i] * storage_get(a->kv->type, k, i);
    double x = dot * kv_scale(a->kv, slot, j, g) * a->scale;
    if (a->soft_cap != 0)
        x = a->soft_cap * tanh(x / a->soft_cap);
    return a->slopes ? x - (double)a->slopes[h] * fabs((double)position - j) : x;
}

/* The last position that row t sees. */
static uint32_t last_of(const struct op_attention *a, uint32_t t) {
    return a->last ? a->last[t] : a->batch->positions[t];
}

static void attend(const struct op_attention *a, const float *q, uint32_t t, uint32_t h,
                   float *out) {
    const struct kv_view *kv = a->kv;
    uint32_t slot = a->batch->slots[t], position = a->batch->positions[t], last = last_of(a, t);
    uint32_t first = attention_first(a, position), g = h / (a->heads / kv->kv_heads);
    double max = a->sinks ? a->sinks[h] : -INFINITY, total = 0, sum[1024];
    CHECK(kv->head_dim <= ARRAY_LEN(sum));
    for (uint32_t j = first; j <= last; j++)
        max = fmax(max, score(a, q, slot, j, h, position));
    memset(sum, 0, sizeof sum);
    if (a->sinks)
        total = exp(a->sinks[h] - max);
    for (uint32_t j = first; j <= last; j++) {
        double p = exp(score(a, q, slot, j, h, position) - max);
        const void *v = ref_kv_at(kv, slot, j, kv->kv_heads + g);
        total += p;
        p *= kv_scale(kv, slot, j, kv->kv_heads + g);
        for (uint32_t i = 0; i < kv->head_dim; i++)
            sum[i] += p * storage_get(kv->type, v, i);
    }
    for (uint32_t i = 0; i < kv->head_dim; i++)
        out[i] = (float)(sum[i] / total);
}

void ref_attention(struct stream *s, const struct op_attention *a) {
    const struct kv_view *kv = a->kv;
    uint32_t dim = kv->head_dim, stride = (a->heads + 2 * kv->kv_heads) * dim;
    for (uint32_t t = 0; t < a->batch->row_count; t++) {
        float *out = (float *)a->out + (size_t)t * a->heads * dim;
        uint32_t position = a->batch->positions[t];
        if (position == ROW_NONE) {
            memset(out, 0, (size_t)a->heads * dim * sizeof *out);
            continue;
        }
        for (uint32_t h = 0; h < a->heads; h++)
            attend(a, (const float *)a->qkv + (size_t)t * stride + h * dim, t, h, out + h * dim);
    }
}

void ref_kv_copy(struct stream *s, const struct op_kv_copy *a) {
    for (uint32_t i = 0; i < a->count; i++)
        memmove((char *)a->base + a->targets[i] * a->block_stride,
                (char *)a->base + a->sources[i] * a->block_stride, a->block_stride);
}
