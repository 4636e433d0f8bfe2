/* rope_kv.inc.h - rotation of queries and keys, and the write of keys and values to the cache, whose
 * layout attention.inc.h tells. */

ALWAYS_INLINE void rotate_head(float *x, const float *angles, uint32_t half, bool interleaved) {
    for (uint32_t i = 0; i < half; i++) {
        float *a = interleaved ? x + 2 * i : x + i, *b = interleaved ? a + 1 : a + half;
        float c = angles[2 * i], sn = angles[2 * i + 1], a0 = *a, b0 = *b;
        *a = a0 * c - b0 * sn;
        *b = b0 * c + a0 * sn;
    }
}

#ifdef __F16C__
/* storage_put for 8 numbers as f16, to the bit. */
ALWAYS_INLINE __m128i halves_of(const float *x) {
    const __m256 v = _mm256_loadu_ps(x), most = _mm256_set1_ps(65504.0f),
                 sign = _mm256_and_ps(v, _mm256_set1_ps(-0.0f)),
                 nan = _mm256_or_ps(sign, _mm256_set1_ps(__builtin_nanf("")));
    __m256 within = _mm256_or_ps(_mm256_min_ps(_mm256_xor_ps(v, sign), most), sign);
    within = _mm256_blendv_ps(within, nan, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    return _mm256_cvtps_ph(within, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* The first numbers of a vector of f16, as many as go 8 at a time; returns how many. */
static uint32_t put_halves(uint16_t *out, size_t step, const float *x, uint32_t count) {
    uint32_t i = 0;
    for (; i + 8 <= count; i += 8) {
        uint16_t h[8];
        _mm_storeu_si128((__m128i *)h, halves_of(x + i));
        for (uint32_t j = 0; j < 8; j++)
            out[(i + j) * step] = h[j];
    }
    return i;
}
#else
static uint32_t put_halves(uint16_t *out, size_t step, const float *x, uint32_t count) {
    return 0;
}
#endif

/* rows: [2 * kv_heads, head_dim], keys first. */
static void kv_write(const struct kv_view *kv, uint32_t slot, uint32_t position,
                     const float *rows) {
    void *layer = kv_layer(kv, slot, position);
    uint32_t dim = kv->head_dim, tokens = kv->block_tokens, at = position % tokens;
    for (uint32_t head = 0; head < 2 * kv->kv_heads; head++) {
        bool key = head < kv->kv_heads;
        size_t first = (size_t)head * dim * tokens + (key ? at : at * dim), step = key ? tokens : 1;
        uint32_t put = kv->type == STORAGE_F16 ? put_halves((uint16_t *)layer + first, step,
                                                            rows + (size_t)head * dim, dim)
                                               : 0;
        kv_put(kv, layer, first + put * step, step, rows + (size_t)head * dim + put, dim - put,
               kv_scales(kv, layer, head) + at);
    }
}

static void rope_kv_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct rows_task *task = ctx;
    const struct op_rope_kv *a = task->a;
    const struct kv_view *kv = a->kv;
    uint32_t dim = kv->head_dim, stride = (a->heads + 2 * kv->kv_heads) * dim;
    ROWS_OF(task, unit_idx, t, end);
    for (; t < end; t++) {
        uint32_t position = a->batch->positions[t];
        if (position == ROW_NONE)
            continue;
        float *row = (float *)a->qkv + (size_t)t * stride;
        for (uint32_t h = 0; a->angles && h < a->heads + kv->kv_heads; h++)
            rotate_head(row + h * dim, a->angles + (size_t)t * a->half * 2, a->half,
                        a->interleaved);
        kv_write(kv, a->batch->slots[t], position, row + a->heads * dim);
    }
}

static void cpu_rope_kv(struct stream *s, const struct op_rope_kv *a) {
    CHECK(!a->norms);
    rows_loop(s, a, a->batch->row_count,
              (size_t)(a->heads + 2 * a->kv->kv_heads) * a->kv->head_dim * 4, rope_kv_unit);
}
