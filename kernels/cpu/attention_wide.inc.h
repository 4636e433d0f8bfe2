/* attention_wide.inc.h - one split of the cache for all queries of a unit, in tiles
 * (attention_split.inc.h has a tile alone). */

/* Keys and values of a few positions become f32 once and meet all tiles while they are in the first
 * cache. The numbers are those that a tile alone makes of them, so the bits are, too. */
enum {
    KEYS_WIDE = 2 * VW, /* positions: what a tile holds of sums */
    VALUES_WIDE = 2048, /* numbers; or one position's, where there are more dims */
    LINES_A_TILE = 16,  /* of memory that are asked for ahead */
    TILES_MAX = UNIT_QUERIES / QUERIES + 2,
    TOGETHER_LEAST = 2 * QUERIES, /* more queries than these pay for it */
    SCORES_STRIDE =
        ATTENTION_SPLIT + 16 /* or all queries' would lie in the same lines of a cache */
};

#define PARTIAL_BYTES(dim) ((sizeof(struct partial) + (dim) * sizeof(float) + 63) / 64 * 64)

struct unit_space {
    float wide[MAX(ATTENTION_DIM_MAX * KEYS_WIDE, VALUES_WIDE)] __attribute__((aligned(64)));
    float scores[UNIT_QUERIES][SCORES_STRIDE] __attribute__((aligned(64)));
    float q[UNIT_QUERIES * ATTENTION_DIM_MAX] __attribute__((aligned(64)));
    /* [query] of PARTIAL_BYTES(head_dim): of all splits so far, of the one at hand */
    char totals[UNIT_QUERIES * PARTIAL_BYTES(ATTENTION_DIM_MAX)] __attribute__((aligned(64))),
        splits[UNIT_QUERIES * PARTIAL_BYTES(ATTENTION_DIM_MAX)] __attribute__((aligned(64)));
};

/* A tile's queries and where what they have lies. */
struct query_tile {
    struct queries qs;
    struct span_of_queries span;
    float *scores[QUERIES], *acc[QUERIES];
    struct partial *partials[QUERIES], *totals[QUERIES];
};

/* Keys of a block, [dim, tokens]: its VW positions from `at` on to out, [dim, KEYS_WIDE]. */
ALWAYS_INLINE void load_keys_as(const enum storage_type type, const void *k, uint32_t tokens,
                                uint32_t at, uint32_t dim, float *out) {
    for (uint32_t d = 0; d < dim; d++)
        v_store(out + d * KEYS_WIDE, v_load_as(type, k, (size_t)d * tokens + at));
}
static void load_keys(enum storage_type type, const void *k, uint32_t tokens, uint32_t at,
                      uint32_t dim, float *out) {
    switch (type) {
    case STORAGE_F32: load_keys_as(STORAGE_F32, k, tokens, at, dim, out); break;
    case STORAGE_F16: load_keys_as(STORAGE_F16, k, tokens, at, dim, out); break;
    case STORAGE_F8_E4M3: load_keys_as(STORAGE_F8_E4M3, k, tokens, at, dim, out); break;
    case STORAGE_I8: load_keys_as(STORAGE_I8, k, tokens, at, dim, out); break;
    default: load_keys_as(STORAGE_BF16, k, tokens, at, dim, out); break;
    }
}
/* `count` numbers of v from number `from` on. */
ALWAYS_INLINE void load_values_as(const enum storage_type type, const void *v, size_t from,
                                  uint32_t count, float *out) {
    uint32_t i = 0;
    for (; i + VW <= count; i += VW)
        v_store(out + i, v_load_as(type, v, from + i));
    if (i < count)
        v_store_n(out + i, v_load_as_n(type, v, from + i, count - i), count - i);
}
static void load_values(enum storage_type type, const void *v, size_t from, uint32_t count,
                        float *out) {
    switch (type) {
    case STORAGE_F32: load_values_as(STORAGE_F32, v, from, count, out); break;
    case STORAGE_F16: load_values_as(STORAGE_F16, v, from, count, out); break;
    case STORAGE_F8_E4M3: load_values_as(STORAGE_F8_E4M3, v, from, count, out); break;
    case STORAGE_I8: load_values_as(STORAGE_I8, v, from, count, out); break;
    default: load_values_as(STORAGE_BF16, v, from, count, out); break;
    }
}

#define SCORE_WIDE_COUNT(n)                                                                        \
    static void score_wide_##n(const float *const *q, const float *keys, uint32_t dim,             \
                               float scale, float *const *scores) {                                \
        score_vectors(STORAGE_F32, n, 2, q, keys, dim, KEYS_WIDE, 0, scale, scores);               \
    }
SCORE_WIDE_COUNT(1)
SCORE_WIDE_COUNT(2)
SCORE_WIDE_COUNT(3)
SCORE_WIDE_COUNT(4)
#if VW == 16
SCORE_WIDE_COUNT(8)
#elif VW == 8
SCORE_WIDE_COUNT(6)
#endif
static void (*const SCORE_WIDE[QUERIES])(const float *const *q, const float *keys, uint32_t dim,
                                         float scale, float *const *scores) = OF_COUNTS(score_wide);

/* Memory that is asked for while tiles are computed: a block's keys or values lie together, the
 * next block's elsewhere, where no machine looks by itself. */
struct lines_ahead {
    const char *at, *end;
};
static struct lines_ahead lines_of(const void *from, size_t bytes) {
    return (struct lines_ahead){.at = from, .end = (const char *)from + bytes};
}
ALWAYS_INLINE void fetch_lines(struct lines_ahead *ahead, int count) {
    for (int i = 0; i < count && ahead->at < ahead->end; i++, ahead->at += 64)
        __builtin_prefetch(ahead->at, 0, 2);
}

/* Scores of the tiles' queries for all positions that one of them sees. */
static void score_tiles(const struct op_attention *a, uint32_t slot, uint32_t g, uint32_t start,
                        const struct span_of_queries *all, const struct query_tile *tiles,
                        uint32_t count, float *wide) {
    const struct kv_view *kv = a->kv;
    uint32_t dim = kv->head_dim, tokens = kv->block_tokens;
    size_t block_bytes = storage_bytes(kv->type, (size_t)dim * tokens);
    struct lines_ahead ahead = lines_of(NULL, 0);
    for (uint32_t at = all->first / KEYS_WIDE * KEYS_WIDE; at < all->last; at += KEYS_WIDE) {
        uint32_t next = (at / tokens + 1) * tokens;
        if (next < all->last && (at == all->first / KEYS_WIDE * KEYS_WIDE || at % tokens == 0))
            ahead = lines_of(k_of(kv, kv_layer(kv, slot, next), g), block_bytes);
        for (uint32_t j = at; j < at + KEYS_WIDE; j += VW) {
            /* of what nobody sees a block need not be there */
            bool seen = j + VW > all->first && j < all->last;
            uint32_t position = seen ? j : all->first / VW * VW;
            load_keys(kv->type, k_of(kv, kv_layer(kv, slot, position), g), tokens,
                      position % tokens, dim, wide + (j - at));
        }
        for (const struct query_tile *t = tiles; t < tiles + count; t++) {
            float *scores[QUERIES];
            if (at + KEYS_WIDE <= t->span.first || at >= t->span.last)
                continue;
            for (int i = 0; i < t->qs.count; i++)
                scores[i] = t->scores[i] + (at - start);
            for (int i = 0, n; i < t->qs.count; i += n) {
                n = next_queries(t->qs.count - i);
                SCORE_WIDE[n - 1](t->qs.q + i, wide, dim, a->scale, scores + i);
            }
            fetch_lines(&ahead, LINES_A_TILE);
        }
    }
}

/* acc += the tiles' weights times the values of all positions that one of their queries sees. */
static void add_tiles(const struct kv_view *kv, uint32_t slot, uint32_t g, uint32_t start,
                      const struct span_of_queries *all, const struct query_tile *tiles,
                      uint32_t count, float *wide) {
    uint32_t dim = kv->head_dim, tokens = kv->block_tokens,
             step = MIN(MAX(VALUES_WIDE / dim, 1u), tokens);
    size_t block_bytes = storage_bytes(kv->type, (size_t)dim * tokens);
    struct lines_ahead ahead = lines_of(NULL, 0);
    for (uint32_t at = all->first, end; at < all->last; at = end) {
        uint32_t next = (at / tokens + 1) * tokens;
        end = MIN(MIN(at + step, all->last), next);
        if (next < all->last && (at == all->first || at % tokens == 0))
            ahead = lines_of(v_of(kv, kv_layer(kv, slot, next), g), block_bytes);
        load_values(kv->type, v_of(kv, kv_layer(kv, slot, at), g), (size_t)(at % tokens) * dim,
                    (end - at) * dim, wide);
        for (const struct query_tile *t = tiles; t < tiles + count; t++) {
            float *p[QUERIES];
            for (int i = 0; i < t->qs.count; i++)
                p[i] = t->scores[i] + (at - start);
            add_positions(STORAGE_F32, wide, dim, at, end, &t->qs, &t->span, p, t->acc);
            fetch_lines(&ahead, LINES_A_TILE);
        }
    }
}

/* The split at `start` for the tiles' queries: fills their partials. */
static void attend_tiles(const struct op_attention *a, uint32_t slot, uint32_t g, uint32_t start,
                         const struct query_tile *tiles, uint32_t count, float *wide) {
    const struct kv_view *kv = a->kv;
    struct span_of_queries all = {.first = UINT32_MAX};
    for (const struct query_tile *t = tiles; t < tiles + count; t++) {
        all.first = MIN(all.first, t->span.first);
        all.last = MAX(all.last, t->span.last);
        for (int i = 0; i < t->qs.count; i++)
            memset(t->acc[i], 0, kv->head_dim * sizeof(float));
    }
    score_tiles(a, slot, g, start, &all, tiles, count, wide);
    for (const struct query_tile *t = tiles; t < tiles + count; t++) {
        uint32_t first = t->span.first, last = t->span.last;
        apply_scales(kv, slot, g, start, first, last, t->qs.count, t->scores);
        weigh_split(a, &t->qs, start, (last - start + VW - 1) / VW * VW, t->scores, t->partials);
        apply_scales(kv, slot, kv->kv_heads + g, start, first, last, t->qs.count, t->scores);
    }
    add_tiles(kv, slot, g, start, &all, tiles, count, wide);
}
