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

/* rows: [2 * kv_heads, head_dim], keys first. */
static void kv_write(const struct kv_view *kv, uint32_t slot, uint32_t position,
                     const float *rows) {
    void *layer = kv_layer(kv, slot, position);
    uint32_t dim = kv->head_dim, tokens = kv->block_tokens, at = position % tokens;
    for (uint32_t head = 0; head < 2 * kv->kv_heads; head++) {
        bool key = head < kv->kv_heads;
        kv_put(kv, layer, (size_t)head * dim * tokens + (key ? at : at * dim), key ? tokens : 1,
               rows + head * dim, dim, kv_scales(kv, layer, head) + at);
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
    rows_loop(s, a, a->batch->row_count,
              (size_t)(a->heads + 2 * a->kv->kv_heads) * a->kv->head_dim * 4, rope_kv_unit);
}
