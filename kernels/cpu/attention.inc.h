/*
 * attention.inc.h - rotation, cache write, and attention over the paged cache for mixed rows.
 *
 * Layout of a layer in a block, in the cache's type: K [kv_heads, head_dim, block_tokens] (so that
 * lanes are positions and a score needs no sum over lanes), then V [kv_heads, block_tokens,
 * head_dim] (lanes are dims). An int8 cache's numbers go through the sums as they are; keys' scales
 * are multiplied into scores, values' into weights.
 *
 * A unit is consecutive rows of one run and one KV head, up to UNIT_QUERIES queries (rows x the
 * heads of the group). The cache is walked in splits of ATTENTION_SPLIT positions at absolute
 * places, each split by all of the unit's queries while it is near, in tiles of QUERIES that share
 * every load of K and V. Where queries are many, all tiles meet a few positions, made f32 once,
 * before the next ones. A split gives each query a maximum m, a sum l and a vector acc; splits are
 * merged in ascending order:
 *     M' = max(M, m), L' = L e^(M - M') + l e^(m - M'), A' = A e^(M - M') + acc e^(m - M').
 * Order for one query: scores by dims ascending, l in VW lanes, acc by positions ascending. None of
 * it depends on the other queries, the rows or the threads. With few units, splits run in parallel
 * into scratch and are merged in the same order.
 */
enum {
    ATTENTION_DIM_MAX = 512,
    UNIT_QUERIES = VW == 8 ? 96 : 64, /* most of a unit */
    UNIT_QUERIES_LEAST = UNIT_QUERIES / 2,
    TILE_QUERIES = 256,  /* most of a unit in attention_tiles.inc.h */
    TILE_VALUES = 32768, /* ... and of their numbers; ATTENTION_DIM_MAX * TILE_QUERIES_LEAST */
    TILE_QUERIES_LEAST = 64,
    /* what the registers hold: 16 of 8 lanes hold 12 sums, two vectors and a factor */
    QUERIES = VW == 16  ? 8
              : VW == 8 ? 6
                        : 4,
    QUERIES_NARROW = 4,
    VALUES_CHUNK = VW == 8 ? 2 : 4, /* vectors of a row of V beside QUERIES_NARROW sums each */
    PARTIALS_MAX = 2048
};

/* ---- rotation and cache write ---- */

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

/* ---- one split of the cache for up to QUERIES queries ---- */

struct partial {
    float max, sum;
    float acc[] __attribute__((aligned(64))); /* head_dim */
};

struct queries {
    int count;
    const float *q[QUERIES];
    uint32_t lo[QUERIES], hi[QUERIES]; /* positions [lo, hi) each may see, of this split */
    uint32_t position[QUERIES];
    float slope[QUERIES]; /* ALiBi; 0: none */
};

/* Scores of `vectors` * VW positions from j on: a chain for each query and vector. */
ALWAYS_INLINE void score_vectors(const enum storage_type type, const int count, const int vectors,
                                 const float *const *q, const void *k, uint32_t dim,
                                 uint32_t tokens, uint32_t j, float scale, float *const *scores) {
    vf acc[QUERIES][2], factor = v_set1(scale);
    UNROLL
    for (int i = 0; i < count; i++) {
        UNROLL
        for (int v = 0; v < vectors; v++)
            acc[i][v] = v_set1(0);
    }
    for (uint32_t d = 0; d < dim; d++) {
        vf kv[2];
        UNROLL
        for (int v = 0; v < vectors; v++)
            kv[v] = v_load_as(type, k, (size_t)d * tokens + j + (uint32_t)v * VW);
        UNROLL
        for (int i = 0; i < count; i++) {
            vf qd = v_set1(q[i][d]);
            UNROLL
            for (int v = 0; v < vectors; v++)
                acc[i][v] = v_fma(qd, kv[v], acc[i][v]);
        }
    }
    UNROLL
    for (int i = 0; i < count; i++) {
        UNROLL
        for (int v = 0; v < vectors; v++)
            v_store(scores[i] + j + v * VW, v_mul(acc[i][v], factor));
    }
}

/* scores[i][0 ..] for the tokens of one block. */
ALWAYS_INLINE void score_block(const enum storage_type type, const int count, const float *const *q,
                               const void *k, uint32_t dim, uint32_t tokens, float scale,
                               float *const *scores) {
    uint32_t j = 0;
    for (; j + 2 * VW <= tokens; j += 2 * VW)
        score_vectors(type, count, 2, q, k, dim, tokens, j, scale, scores);
    for (; j < tokens; j += VW)
        score_vectors(type, count, 1, q, k, dim, tokens, j, scale, scores);
}

/* Soft cap, then ALiBi, of the scores at positions [lo, hi) of the split at `start`; lanes behind
 * hi are masked later. */
static void cap_and_bias(float *scores, const struct queries *qs, int query, uint32_t start,
                         float soft_cap) {
    uint32_t from = (qs->lo[query] - start) / VW * VW, to = qs->hi[query] - start;
    if (soft_cap != 0)
        for (uint32_t j = from; j < to; j += VW)
            v_store(scores + j, v_mul(v_tanh_near(v_div(v_load(scores + j), v_set1(soft_cap))),
                                      v_set1(soft_cap)));
    if (qs->slope[query] == 0)
        return;
    for (uint32_t j = qs->lo[query] - start; j < to; j++)
        scores[j] -= qs->slope[query] * (float)(qs->position[query] - (start + j));
}

/* scores -> exp(scores - max) over [lo, hi) of the split, zero elsewhere. Tail lanes outside are
 * masked before they count. */
static void softmax_split(float *scores, uint32_t lo, uint32_t hi, uint32_t end,
                          struct partial *out) {
    for (uint32_t j = 0; j < lo; j++)
        scores[j] = -INFINITY;
    for (uint32_t j = hi; j < end; j++)
        scores[j] = -INFINITY;
    vf max = v_set1(-INFINITY), sum = v_set1(0);
    for (uint32_t j = 0; j < end; j += VW)
        max = v_max(v_load(scores + j), max);
    out->max = v_hmax(max); /* a NaN among the scores goes into the sum */
    vf shift = v_set1(out->max);
    for (uint32_t j = 0; j < end; j += VW) {
        vf p = v_exp_down(v_sub(v_load(scores + j), shift));
        v_store(scores + j, p);
        sum = v_add(sum, p);
    }
    out->sum = v_hsum(sum);
}

/* acc[i] += sum_j p[i][j] v[j] over j in [from, to) of one block, chunks of dims held in registers.
 * v: [tokens, dim]. */
ALWAYS_INLINE void add_values(const enum storage_type type, const int count, float *const *p,
                              const void *v, uint32_t dim, uint32_t from, uint32_t to,
                              float *const *acc) {
    enum { CHUNK_MAX = 4 };
    const int CHUNK = count > QUERIES_NARROW ? 2 : count > 2 ? VALUES_CHUNK : CHUNK_MAX;
    uint32_t d = 0;
    for (; d + CHUNK * VW <= dim; d += CHUNK * VW) {
        vf sum[QUERIES][CHUNK_MAX];
        UNROLL
        for (int i = 0; i < count; i++) {
            UNROLL
            for (int c = 0; c < CHUNK; c++)
                sum[i][c] = v_load(acc[i] + d + c * VW);
        }
        for (uint32_t j = from; j < to; j++) {
            vf vv[CHUNK_MAX];
            UNROLL
            for (int c = 0; c < CHUNK; c++)
                vv[c] = v_load_as(type, v, (size_t)j * dim + d + c * VW);
            UNROLL
            for (int i = 0; i < count; i++) {
                vf w = v_set1(p[i][j]);
                UNROLL
                for (int c = 0; c < CHUNK; c++)
                    sum[i][c] = v_fma(w, vv[c], sum[i][c]);
            }
        }
        UNROLL
        for (int i = 0; i < count; i++) {
            UNROLL
            for (int c = 0; c < CHUNK; c++)
                v_store(acc[i] + d + c * VW, sum[i][c]);
        }
    }
    for (; d < dim; d += VW) {
        uint32_t n = MIN(dim - d, (uint32_t)VW);
        vf sum[QUERIES];
        UNROLL
        for (int i = 0; i < count; i++)
            sum[i] = v_load_n(acc[i] + d, n);
        for (uint32_t j = from; j < to; j++) {
            vf vv = v_load_as_n(type, v, (size_t)j * dim + d, n);
            UNROLL
            for (int i = 0; i < count; i++)
                sum[i] = v_fma(v_set1(p[i][j]), vv, sum[i]);
        }
        UNROLL
        for (int i = 0; i < count; i++)
            v_store_n(acc[i] + d, sum[i], n);
    }
}

typedef void (*score_fn)(const float *const *q, const void *k, uint32_t dim, uint32_t tokens,
                         float scale, float *const *scores);
typedef void (*add_values_fn)(float *const *p, const void *v, uint32_t dim, uint32_t from,
                              uint32_t to, float *const *acc);
#define ATTENTION_COUNT(n, name, type)                                                             \
    static void score_##name##_##n(const float *const *q, const void *k, uint32_t dim,             \
                                   uint32_t tokens, float scale, float *const *scores) {           \
        score_block(type, n, q, k, dim, tokens, scale, scores);                                    \
    }                                                                                              \
    static void add_values_##name##_##n(float *const *p, const void *v, uint32_t dim,              \
                                        uint32_t from, uint32_t to, float *const *acc) {           \
        add_values(type, n, p, v, dim, from, to, acc);                                             \
    }
#if VW == 16
#define ATTENTION_WIDE(name, type) ATTENTION_COUNT(8, name, type)
#define WIDE_OF(name)              , [7] = name##_8
#elif VW == 8
#define ATTENTION_WIDE(name, type) ATTENTION_COUNT(6, name, type)
#define WIDE_OF(name)              , [5] = name##_6
#else
#define ATTENTION_WIDE(name, type)
#define WIDE_OF(name)
#endif
#define ATTENTION_TYPE(name, type)                                                                 \
    ATTENTION_COUNT(1, name, type)                                                                 \
    ATTENTION_COUNT(2, name, type)                                                                 \
    ATTENTION_COUNT(3, name, type) ATTENTION_COUNT(4, name, type) ATTENTION_WIDE(name, type)
#define OF_COUNTS(name)                                                                            \
    { name##_1, name##_2, name##_3, name##_4 WIDE_OF(name) }
ATTENTION_TYPE(f32, STORAGE_F32)
ATTENTION_TYPE(f16, STORAGE_F16)
ATTENTION_TYPE(bf16, STORAGE_BF16)
ATTENTION_TYPE(fp8, STORAGE_F8_E4M3)
ATTENTION_TYPE(int8, STORAGE_I8)
static const score_fn SCORE[STORAGE_TYPE_COUNT][QUERIES] = {[STORAGE_F32] = OF_COUNTS(score_f32),
                                                            [STORAGE_F16] = OF_COUNTS(score_f16),
                                                            [STORAGE_BF16] = OF_COUNTS(score_bf16),
                                                            [STORAGE_F8_E4M3] =
                                                                OF_COUNTS(score_fp8),
                                                            [STORAGE_I8] = OF_COUNTS(score_int8)};
static const add_values_fn ADD_VALUES[STORAGE_TYPE_COUNT][QUERIES] = {
    [STORAGE_F32] = OF_COUNTS(add_values_f32),
    [STORAGE_F16] = OF_COUNTS(add_values_f16),
    [STORAGE_BF16] = OF_COUNTS(add_values_bf16),
    [STORAGE_F8_E4M3] = OF_COUNTS(add_values_fp8),
    [STORAGE_I8] = OF_COUNTS(add_values_int8)};

/* How many of `count` queries the next call takes: all the registers hold, or up to four. */
static int next_queries(int count) {
    return count == QUERIES ? QUERIES : MIN(count, QUERIES_NARROW);
}
/* How many of `count` queries the next tile takes: not one that leaves few behind. */
static uint32_t next_tile(uint32_t count) {
    return count > QUERIES && count <= 2 * QUERIES_NARROW ? (uint32_t)QUERIES_NARROW
                                                          : MIN(count, (uint32_t)QUERIES);
}

static const void *k_of(const struct kv_view *kv, const void *layer, uint32_t g) {
    return (const char *)layer +
           storage_bytes(kv->type, (size_t)g * kv->head_dim * kv->block_tokens);
}
static const void *v_of(const struct kv_view *kv, const void *layer, uint32_t g) {
    return (const char *)layer +
           storage_bytes(kv->type, ((size_t)kv->kv_heads + g) * kv->head_dim * kv->block_tokens);
}

/* Of the positions of some queries: those that all see, [lo, hi), and those that one sees, [first,
 * last). */
struct span_of_queries {
    uint32_t lo, hi, first, last;
};
static struct span_of_queries span_of(const struct queries *qs) {
    struct span_of_queries span = {.hi = UINT32_MAX, .first = UINT32_MAX};
    for (int i = 0; i < qs->count; i++) {
        span.lo = MAX(span.lo, qs->lo[i]);
        span.hi = MIN(span.hi, qs->hi[i]);
        span.first = MIN(span.first, qs->lo[i]);
        span.last = MAX(span.last, qs->hi[i]);
    }
    return span;
}

/* acc += p v over the positions [at, end), of which v is the first's and p[i][0] its weight:
 * positions that all queries see together, those that some see alone; each query's in ascending
 * order. */
static void add_positions(enum storage_type type, const void *v, uint32_t dim, uint32_t at,
                          uint32_t end, const struct queries *qs,
                          const struct span_of_queries *span, float *const *p, float *const *acc) {
    uint32_t from = MAX(span->lo, at), to = MIN(span->hi, end);
    bool together = span->lo < span->hi && from < to;
    for (int i = 0; i < qs->count; i++) {
        uint32_t before = MIN(together ? from : end, qs->hi[i]), own = MAX(qs->lo[i], at);
        if (own < before)
            ADD_VALUES[type][0](&p[i], v, dim, own - at, MIN(before, end) - at, &acc[i]);
    }
    if (!together)
        return;
    for (int i = 0, n; i < qs->count; i += n) {
        n = next_queries(qs->count - i);
        ADD_VALUES[type][n - 1](p + i, v, dim, from - at, to - at, acc + i);
    }
    for (int i = 0; i < qs->count; i++)
        if (to < MIN(qs->hi[i], end))
            ADD_VALUES[type][0](&p[i], v, dim, to - at, MIN(qs->hi[i], end) - at, &acc[i]);
}

/* rows[i][j - start] *= the scale of position j, over whole blocks from `first` to `last`: of an
 * int8 cache. What lies outside the positions a query sees is not read afterwards, or masked. */
static void apply_scales(const struct kv_view *kv, uint32_t slot, uint32_t head, uint32_t start,
                         uint32_t first, uint32_t last, int count, float *const *rows) {
    uint32_t tokens = kv->block_tokens;
    for (uint32_t block = first / tokens * tokens; kv->type == STORAGE_I8 && block < last;
         block += tokens) {
        const float *scales = kv_scales(kv, kv_layer(kv, slot, block), head);
        for (int i = 0; i < count; i++)
            for (uint32_t j = 0; j < tokens; j += VW) {
                float *at = rows[i] + (block - start) + j;
                v_store(at, v_mul(v_load(at), v_load(scales + j)));
            }
    }
}

/* Scores of a tile's queries, multiplied by the keys' scales already, to weights. */
static void weigh_split(const struct op_attention *a, const struct queries *qs, uint32_t start,
                        uint32_t end, float *const *scores, struct partial *const *partials) {
    for (int i = 0; i < qs->count && (a->soft_cap != 0 || a->slopes); i++)
        cap_and_bias(scores[i], qs, i, start, a->soft_cap);
    for (int i = 0; i < qs->count; i++)
        softmax_split(scores[i], qs->lo[i] - start, qs->hi[i] - start, end, partials[i]);
}

/* One split for a tile of queries: fills partials[i]. */
static void attend_split(const struct op_attention *a, uint32_t slot, uint32_t g, uint32_t start,
                         const struct queries *qs, struct partial *const *partials) {
    const struct kv_view *kv = a->kv;
    const struct span_of_queries span = span_of(qs);
    float scores[QUERIES][ATTENTION_SPLIT] __attribute__((aligned(64))), *p[QUERIES], *acc[QUERIES];
    uint32_t first = span.first, last = span.last, tokens = kv->block_tokens;
    for (int i = 0; i < qs->count; i++) {
        p[i] = scores[i];
        acc[i] = partials[i]->acc;
        memset(acc[i], 0, kv->head_dim * sizeof(float));
    }
    for (uint32_t block = first / tokens * tokens; block < last; block += tokens) {
        float *at[QUERIES];
        for (int i = 0; i < qs->count; i++)
            at[i] = scores[i] + (block - start);
        for (int i = 0, n; i < qs->count; i += n) {
            n = next_queries(qs->count - i);
            SCORE[kv->type][n - 1](qs->q + i, k_of(kv, kv_layer(kv, slot, block), g), kv->head_dim,
                                   tokens, a->scale, at + i);
        }
    }
    apply_scales(kv, slot, g, start, first, last, qs->count, p);
    weigh_split(a, qs, start, (last - start + tokens - 1) / tokens * tokens, p, partials);
    apply_scales(kv, slot, kv->kv_heads + g, start, first, last, qs->count, p);
    for (uint32_t block = first / tokens * tokens; block < last; block += tokens) {
        float *at[QUERIES];
        for (int i = 0; i < qs->count; i++)
            at[i] = p[i] + (block - start);
        add_positions(kv->type, v_of(kv, kv_layer(kv, slot, block), g), kv->head_dim, block,
                      block + tokens, qs, &span, at, acc);
    }
}

/* ---- one split of the cache for all queries of a unit ---- */

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

/* Merges `from` into `into`; both begin at the same query. */
static void merge(struct partial *into, const struct partial *from, uint32_t dim) {
    float scale[2 * VW];
    float max = from->max > into->max || !(from->max == from->max) ? from->max : into->max;
    v_store(scale, v_exp(v_sub(v_set1(into->max), v_set1(max))));
    v_store(scale + VW, v_exp(v_sub(v_set1(from->max), v_set1(max))));
    vf x = v_set1(scale[0]), y = v_set1(scale[VW]);
    into->sum = into->sum * scale[0] + from->sum * scale[VW];
    into->max = max;
    for (uint32_t d = 0; d < dim; d += VW) {
        uint32_t n = MIN(dim - d, (uint32_t)VW);
        v_store_n(into->acc + d,
                  v_add(v_mul(v_load_n(into->acc + d, n), x), v_mul(v_load_n(from->acc + d, n), y)),
                  n);
    }
}

/* The sink is one more split, which has a score and no value. */
static void finish(struct partial *p, const float *sink, float *out, uint32_t dim) {
    if (sink) {
        float shift = *sink > p->max || !(*sink == *sink) ? *sink : p->max;
        vf share = v_exp(v_set1(p->max - shift));
        float own[VW], taken[VW];
        v_store(own, share);
        v_store(taken, v_exp(v_set1(*sink - shift)));
        p->sum = p->sum * own[0] + taken[0];
        for (uint32_t d = 0; d < dim; d += VW) {
            uint32_t n = MIN(dim - d, (uint32_t)VW);
            v_store_n(p->acc + d, v_mul(v_load_n(p->acc + d, n), share), n);
        }
    }
    vf total = v_set1(p->sum);
    for (uint32_t d = 0; d < dim; d += VW) {
        uint32_t n = MIN(dim - d, (uint32_t)VW);
        v_store_n(out + d, v_div(v_load_n(p->acc + d, n), total), n);
    }
}

/* ---- units ---- */

/* Rows [row, row + rows) of one run, one KV head. */
struct attention_unit {
    uint32_t row, rows, g;
};

struct attention_task {
    const struct op_attention *a;
    const uint32_t *unit_rows; /* [row_unit_count + 1]: where each run of rows begins */
    uint32_t row_unit_count;
    uint32_t splits; /* splits in parallel; 0: a unit does its splits itself */
    char *partials;  /* with splits: [row, head, split] */
    size_t partial_bytes;
    bool tiles; /* as attention_tiles.inc.h does it */
    bool amx;   /* there: by AMX, not VDPBF16PS */
};

/* The last position that row t, no padding, sees. */
static uint32_t last_of(const struct op_attention *a, uint32_t t) {
    return a->last ? a->last[t] : a->batch->positions[t];
}

/* The tile's queries that see something of the split at `start`; their heads go to heads[], rows to
 * rows[]. */
static void pick_queries(const struct op_attention *a, const struct attention_unit *u,
                         uint32_t first_query, uint32_t count, uint32_t start, struct queries *qs,
                         uint32_t *query_idx) {
    const struct kv_view *kv = a->kv;
    uint32_t group = a->heads / kv->kv_heads, stride = (a->heads + 2 * kv->kv_heads) * kv->head_dim;
    qs->count = 0;
    for (uint32_t i = first_query; i < first_query + count; i++) {
        uint32_t t = u->row + i / group, head = u->g * group + i % group,
                 position = a->batch->positions[t];
        uint32_t lo = MAX(attention_first(a, position), start),
                 hi = MIN(last_of(a, t) + 1, start + ATTENTION_SPLIT);
        if (lo >= hi)
            continue;
        qs->q[qs->count] = (const float *)a->qkv + (size_t)t * stride + (size_t)head * kv->head_dim;
        qs->lo[qs->count] = lo;
        qs->hi[qs->count] = hi;
        qs->position[qs->count] = position;
        qs->slope[qs->count] = a->slopes ? a->slopes[head] : 0;
        query_idx[qs->count++] = i;
    }
}

/* TILE_QUERIES or fewer partials whose accs are TILE_VALUES or fewer. */
#define TILE_TOTALS_BYTES                                                                          \
    (TILE_VALUES * sizeof(float) + TILE_QUERIES * (sizeof(struct partial) + 64))

/* The unit's queries [first_query, end) that see something of the split at `start`, in tiles.
 * Queries lie in space->q. Returns how many tiles. */
static uint32_t cut_tiles(const struct op_attention *a, const struct attention_unit *u,
                          uint32_t first_query, uint32_t end, uint32_t start,
                          struct unit_space *space, struct query_tile *tiles) {
    uint32_t dim = a->kv->head_dim, count = 0, idx[QUERIES];
    for (uint32_t at = first_query, n; at < end; at += n) {
        struct query_tile *t = &tiles[count];
        n = next_tile(end - at);
        pick_queries(a, u, at, n, start, &t->qs, idx);
        for (int i = 0; i < t->qs.count; i++) {
            uint32_t query = idx[i] - first_query;
            struct partial *total = (struct partial *)(space->totals + query * PARTIAL_BYTES(dim));
            t->qs.q[i] = space->q + query * dim;
            t->scores[i] = space->scores[query];
            t->totals[i] = total;
            t->partials[i] = total->sum == -1 /* nothing yet */
                                 ? total
                                 : (struct partial *)(space->splits + query * PARTIAL_BYTES(dim));
            t->acc[i] = t->partials[i]->acc;
        }
        t->span = span_of(&t->qs);
        count += t->qs.count > 0;
    }
    return count;
}

/* Up to UNIT_QUERIES queries over all splits, in order. */
static void attend_queries(const struct op_attention *a, const struct attention_unit *u,
                           uint32_t first_query) {
    const struct kv_view *kv = a->kv;
    uint32_t dim = kv->head_dim, group = a->heads / kv->kv_heads, slot = a->batch->slots[u->row];
    uint32_t stride = (a->heads + 2 * kv->kv_heads) * dim;
    uint32_t last = last_of(a, u->row + u->rows - 1),
             first = attention_first(a, a->batch->positions[u->row]),
             end = MIN(first_query + UNIT_QUERIES, u->rows * group);
    struct unit_space space;
    for (uint32_t i = first_query; i < end; i++) {
        struct partial *total =
            (struct partial *)(space.totals + (i - first_query) * PARTIAL_BYTES(dim));
        total->sum = -1;
        memcpy(space.q + (i - first_query) * dim,
               (const float *)a->qkv + (size_t)(u->row + i / group) * stride +
                   (size_t)(u->g * group + i % group) * dim,
               dim * sizeof(float));
    }
    for (uint32_t start = first / ATTENTION_SPLIT * ATTENTION_SPLIT; start <= last;
         start += ATTENTION_SPLIT) {
        struct query_tile tiles[TILES_MAX];
        uint32_t count = cut_tiles(a, u, first_query, end, start, &space, tiles);
        if (end - first_query > TOGETHER_LEAST)
            attend_tiles(a, slot, u->g, start, tiles, count, space.wide);
        else
            for (const struct query_tile *t = tiles; t < tiles + count; t++)
                attend_split(a, slot, u->g, start, &t->qs, t->partials);
        for (const struct query_tile *t = tiles; t < tiles + count; t++)
            for (int i = 0; i < t->qs.count; i++)
                if (t->partials[i] != t->totals[i])
                    merge(t->totals[i], t->partials[i], dim);
    }
    for (uint32_t i = first_query; i < end; i++) {
        uint32_t h = u->g * group + i % group;
        finish((struct partial *)(space.totals + (i - first_query) * PARTIAL_BYTES(dim)),
               a->sinks ? a->sinks + h : NULL,
               (float *)a->out + ((size_t)(u->row + i / group) * a->heads + h) * dim, dim);
    }
}

static struct attention_unit unit_of(const struct attention_task *task, size_t idx) {
    uint32_t r = (uint32_t)(idx % task->row_unit_count);
    return (struct attention_unit){.row = task->unit_rows[r],
                                   .rows = task->unit_rows[r + 1] - task->unit_rows[r],
                                   .g = (uint32_t)(idx / task->row_unit_count)};
}

static bool padding(const struct op_attention *a, const struct attention_unit *u) {
    if (a->batch->positions[u->row] != ROW_NONE)
        return false;
    uint32_t dim = a->kv->head_dim, group = a->heads / a->kv->kv_heads;
    for (uint32_t t = u->row; t < u->row + u->rows; t++)
        memset((float *)a->out + ((size_t)t * a->heads + u->g * group) * dim, 0,
               group * dim * sizeof(float));
    return true;
}

/* ---- splits in parallel (few rows, long cache) ---- */

static struct partial *partial_at(const struct attention_task *task, uint32_t row, uint32_t head,
                                  uint32_t split) {
    return (struct partial *)(task->partials +
                              (((size_t)row * task->a->heads + head) * task->splits + split) *
                                  task->partial_bytes);
}

/* Most queries of a unit with tiles. */
static uint32_t tile_queries_of(uint32_t head_dim) {
    return MIN(TILE_VALUES / head_dim, (uint32_t)TILE_QUERIES);
}

#if VW == 16
#include "kernels/cpu/attention_tiles.inc.h"
#else
static bool uses_tiles(const struct stream *s, const struct kv_view *kv) {
    return false;
}
#endif

static void attend_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct attention_task *task = ctx;
    struct attention_unit u = unit_of(task, unit_idx);
    uint32_t queries = u.rows * (task->a->heads / task->a->kv->kv_heads);
    if (padding(task->a, &u))
        return;
#if VW == 16
    for (uint32_t q = 0; q < queries && task->tiles; q += tile_queries_of(task->a->kv->head_dim))
        attend_tile_queries(task, &u, q);
#endif
    for (uint32_t q = 0; q < queries && !task->tiles; q += UNIT_QUERIES)
        attend_queries(task->a, &u, q);
}

static void attend_split_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct attention_task *task = ctx;
    const struct op_attention *a = task->a;
    uint32_t split = (uint32_t)(unit_idx % task->splits), group = a->heads / a->kv->kv_heads;
    struct attention_unit u = unit_of(task, unit_idx / task->splits);
    if (a->batch->positions[u.row] == ROW_NONE)
        return;
#if VW == 16
    if (task->tiles) {
        attend_tile_unit(task, &u, split);
        return;
    }
#endif
    for (uint32_t first = 0, n; first < u.rows * group; first += n) {
        struct queries qs;
        struct partial *partials[QUERIES];
        uint32_t idx[QUERIES];
        n = next_tile(u.rows * group - first);
        pick_queries(a, &u, first, n, split * ATTENTION_SPLIT, &qs, idx);
        for (int i = 0; i < qs.count; i++)
            partials[i] =
                partial_at(task, u.row + idx[i] / group, u.g * group + idx[i] % group, split);
        if (qs.count)
            attend_split(a, a->batch->slots[u.row], u.g, split * ATTENTION_SPLIT, &qs, partials);
    }
}

static void merge_row(const struct attention_task *task, uint32_t t) {
    const struct op_attention *a = task->a;
    uint32_t dim = a->kv->head_dim, position = a->batch->positions[t];
    for (uint32_t h = 0; h < a->heads; h++) {
        uint32_t split = attention_first(a, position) / ATTENTION_SPLIT;
        struct partial *total = partial_at(task, t, h, split);
        while (++split <= last_of(a, t) / ATTENTION_SPLIT)
            merge(total, partial_at(task, t, h, split), dim);
        finish(total, a->sinks ? a->sinks + h : NULL,
               (float *)a->out + ((size_t)t * a->heads + h) * dim, dim);
    }
}

/* ---- the operation ---- */

/* Cuts the rows into units of consecutive positions of one slot, up to `queries` queries where a row
 * has no more. Returns the count; bounds has room for row_count + 1. */
static uint32_t cut_rows(const struct op_attention *a, uint32_t queries, uint32_t *bounds) {
    const struct step_batch *b = a->batch;
    uint32_t count = 0, t = 0, limit = MAX(queries / (a->heads / a->kv->kv_heads), 1u);
    while (t < b->row_count) {
        uint32_t end = t + 1;
        while (end < b->row_count && end - t < limit && b->slots[end] == b->slots[t] &&
               b->positions[t] != ROW_NONE && b->positions[end] == b->positions[t] + (end - t))
            end++;
        bounds[count++] = t;
        t = end;
    }
    bounds[count] = b->row_count;
    return count;
}

static size_t cpu_attention_scratch(const struct device *dev, uint32_t row_count, uint32_t heads,
                                    uint32_t head_dim, uint32_t max_context) {
    return ((size_t)(row_count + 1) * sizeof(uint32_t) + 63) / 64 * 64 +
           PARTIALS_MAX * PARTIAL_BYTES(head_dim);
}

/* Splits in parallel when the units alone would leave threads idle and the scratch has room. */
static uint32_t choose_splits(const struct attention_task *task, uint32_t units, uint32_t threads) {
    const struct op_attention *a = task->a;
    uint32_t longest = 0;
    for (uint32_t t = 0; t < a->batch->row_count; t++)
        if (a->batch->positions[t] != ROW_NONE)
            longest = MAX(longest, last_of(a, t));
    uint32_t splits = longest / ATTENTION_SPLIT + 1;
    bool fits = (uint64_t)a->batch->row_count * a->heads * splits <= PARTIALS_MAX;
    return splits > 1 && units < 4 * threads && fits ? splits : 0;
}

/* Queries of a unit: many, which read the cache once, but so few that threads have several units. */
static uint32_t queries_of_unit(const struct attention_task *task, uint32_t threads) {
    uint32_t queries = task->a->batch->row_count * task->a->heads / (4 * threads);
    if (!task->tiles)
        return MIN(MAX(queries, (uint32_t)UNIT_QUERIES_LEAST), (uint32_t)UNIT_QUERIES);
    return MIN(MAX(queries, (uint32_t)TILE_QUERIES_LEAST), tile_queries_of(task->a->kv->head_dim));
}

static void cpu_attention(struct stream *s, const struct op_attention *a) {
    const struct kv_view *kv = a->kv;
    CHECK(kv->head_dim <= ATTENTION_DIM_MAX && kv->kv_heads && a->heads % kv->kv_heads == 0);
    CHECK(!a->last || !a->slopes);
    uint32_t *bounds = a->scratch;
    size_t bounds_bytes = ((size_t)(a->batch->row_count + 1) * sizeof(uint32_t) + 63) / 64 * 64,
           work = 0;
    struct attention_task task = {.a = a,
                                  .unit_rows = bounds,
                                  .partials = (char *)a->scratch + bounds_bytes,
                                  .partial_bytes = PARTIAL_BYTES(kv->head_dim),
                                  .tiles = uses_tiles(s, kv),
                                  .amx = ((const struct cpu_device *)s->dev)->tiles};
    task.row_unit_count = cut_rows(a, queries_of_unit(&task, s->dev->thread_count), bounds);
    uint32_t units = task.row_unit_count * kv->kv_heads;
    for (uint32_t t = 0; t < a->batch->row_count; t++)
        work += a->batch->positions[t] == ROW_NONE ? 0 : last_of(a, t) + 1;
    work = work * a->heads * kv->head_dim * 2 / VW;
    task.splits = choose_splits(&task, units, s->dev->thread_count);
    if (!task.splits) {
        cpu_loop(s, units, work, attend_unit, &task);
        return;
    }
    cpu_loop(s, (size_t)units * task.splits, work, attend_split_unit, &task);
    for (uint32_t i = 0; i < units; i++) {
        struct attention_unit u = unit_of(&task, i);
        if (!padding(a, &u) && u.g == 0)
            for (uint32_t t = u.row; t < u.row + u.rows; t++)
                merge_row(&task, t);
    }
}
