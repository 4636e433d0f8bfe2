/* attention_split.inc.h - one split of the cache for up to QUERIES queries, and the sum of splits
 * (attention.inc.h has the formulas and the order of sums). */

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
        scores[j] -= qs->slope[query] * fabsf((float)(int32_t)(qs->position[query] - (start + j)));
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
