/*
 * attention_tiles.inc.h - attention over caches in f16 and bf16 with products in bf16: on AMX's
 * tiles, or by VDPBF16PS. Where the device's compute type is not f32, and heads are multiples of 32.
 *
 * Queries, keys, the weights e^(s - max) and values are rounded to bf16 (to nearest, even among
 * two); sums are f32. A split (attention.inc.h) is cut into spans of 32 positions. Its keys and
 * values become operands once; then each group of a unit's queries meets them, span by span:
 *
 *     scores [queries, 32] = q [queries, dim] . keys [dim, 32]
 *     acc [queries, 32 dims] += p [queries, 32] . values [32, 32 dims]
 *
 * A unit has many queries, for which memory is read and packed once; a group's scores and weights
 * stay in the first cache.
 *
 * The second factor of such a product is an operand: two halves of [16 pairs][16 columns][2], in
 * which pairs are neighbours along the sum (dims; positions), as both kinds of instruction take
 * them. Two rows of 32 are woven by the processor's unpacks, which leave columns in another order:
 * half h has 8 l + 4 h + i at 4 l + i. Scores stay in that order, values are packed in it, and dims
 * are put back when a split is done.
 *
 * One query's numbers: scores by steps of 32 dims ascending, acc by spans ascending, a step's 32
 * products in the order of the instruction; the sum of weights in 16 lanes. A weight of zero adds
 * nothing, so neither other queries nor where a unit begins and ends changes a bit. That holds for
 * finite values alone: where a result is not finite, each query meets the values once more, without
 * those that it does not see.
 */
#include <immintrin.h>

#include "kernels/cpu/tiles.h"

#define BF16_TARGET __attribute__((target("avx512bf16")))

enum {
    SPAN = 32,
    SPLIT_SPANS = ATTENTION_SPLIT / SPAN,
    ROWS_A_TILE = 16,
    TILE_GROUP = 2 * ROWS_A_TILE /* queries that meet a split at once */
};

struct operand {
    uint16_t half[2][16][16][2] __attribute__((aligned(64)));
};

/* What a split is computed in: on the thread's stack. Of a group, a span's scores and weights lie
 * together. */
struct tile_space {
    struct operand keys[SPLIT_SPANS * ATTENTION_DIM_MAX / SPAN];   /* [span][32 dims] */
    struct operand values[SPLIT_SPANS * ATTENTION_DIM_MAX / SPAN]; /* [32 dims][span] */
    float scores[SPLIT_SPANS][TILE_GROUP][SPAN] __attribute__((aligned(64)));
    float sums[TILE_GROUP][SPAN] __attribute__((aligned(64)));
    uint16_t weights[SPLIT_SPANS][TILE_GROUP][SPAN] __attribute__((aligned(64)));
    char splits[TILE_GROUP][PARTIAL_BYTES(ATTENTION_DIM_MAX)] __attribute__((aligned(64)));
};

/* The queries of a unit, in bf16; those that see nothing of a split have lo >= hi there. */
struct tile_queries {
    uint32_t count, dim;
    uint32_t lo[TILE_QUERIES], hi[TILE_QUERIES], position[TILE_QUERIES];
    float slope[TILE_QUERIES];
    uint16_t q[TILE_VALUES] __attribute__((aligned(64))); /* [count, dim] */
};

/* ---- operands ---- */

BF16_TARGET ALWAYS_INLINE __m512i bf16_of(enum storage_type type, __m512i x) {
    if (type == STORAGE_BF16)
        return x;
    vf low = _mm512_cvtph_ps(_mm512_castsi512_si256(x)),
       high = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(x, 1));
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

ALWAYS_INLINE void weave(__m512i even, __m512i odd, struct operand *out, uint32_t pair) {
    _mm512_storeu_si512(out->half[0][pair], _mm512_unpacklo_epi16(even, odd));
    _mm512_storeu_si512(out->half[1][pair], _mm512_unpackhi_epi16(even, odd));
}

/* Keys of 32 positions: k, and k2 for the upper 16, [dim, tokens]; an operand for each 32 dims. */
BF16_TARGET ALWAYS_INLINE void pack_keys(enum storage_type type, const uint16_t *k,
                                         const uint16_t *k2, uint32_t tokens, uint32_t dim,
                                         struct operand *out) {
    for (uint32_t d = 0; d < dim; d += 2) {
        __m512i rows[2];
        UNROLL
        for (uint32_t i = 0; i < 2; i++) {
            size_t at = (size_t)(d + i) * tokens;
            rows[i] =
                bf16_of(type, _mm512_inserti64x4(_mm512_castsi256_si512(
                                                     _mm256_loadu_si256((const void *)(k + at))),
                                                 _mm256_loadu_si256((const void *)(k2 + at)), 1));
        }
        weave(rows[0], rows[1], &out[d / SPAN], d % SPAN / 2);
    }
}

/* 32 dims of the values of a span. rows: where each position's begin; NULL: nobody sees it, zeros. */
BF16_TARGET ALWAYS_INLINE void pack_values(enum storage_type type, const uint16_t *const *rows,
                                           uint32_t dim, struct operand *out) {
    UNROLL
    for (uint32_t r = 0; r < 16; r++) {
        uint32_t j = r % 8 / 2 * 8 + r / 8 * 4 + r % 2 * 2;
        __m512i pair[2];
        UNROLL
        for (uint32_t i = 0; i < 2; i++)
            pair[i] = rows[j + i] ? bf16_of(type, _mm512_loadu_si512(rows[j + i] + dim))
                                  : _mm512_setzero_si512();
        weave(pair[0], pair[1], out, r);
    }
}

/* ---- products ---- */

/* The first factor: [rows, 32] for each step; strides in bytes. */
struct factor {
    const void *first;
    size_t row, step;
};

/* AMX's tiles are configured for products of `count` rows until end_tiles. */
static void begin_tiles(uint32_t count) {
    struct tile_config config = {.palette = 1};
    uint32_t first = MIN(count, (uint32_t)ROWS_A_TILE), second = MAX(count - first, 1u);
    for (int i = 0; i < 8; i++) {
        config.rows[i] = (uint8_t)(i >= 6 ? 16 : i < 2 || i == 4 ? first : second);
        config.row_bytes[i] = 64;
    }
    tiles_configure(&config);
}
static void end_tiles(void) {
    tiles_release();
}

/* Tiles: 0 to 3 sums, 4 and 5 rows of a, 6 and 7 halves of b. */
static void multiply_by_tiles(uint32_t count, struct factor a, const struct operand *b,
                              uint32_t steps, float (*c)[SPAN]) {
    const char *first = a.first, *second = first + ROWS_A_TILE * a.row;
    bool two = count > ROWS_A_TILE;
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
    for (uint32_t s = 0; s < steps; s++) {
        TILE_LOAD(6, b[s].half[0], 64);
        TILE_LOAD(7, b[s].half[1], 64);
        TILE_LOAD(4, first + s * a.step, a.row);
        TILE_ADD_DOT(0, 4, 6);
        TILE_ADD_DOT(1, 4, 7);
        if (!two)
            continue;
        TILE_LOAD(5, second + s * a.step, a.row);
        TILE_ADD_DOT(2, 5, 6);
        TILE_ADD_DOT(3, 5, 7);
    }
    TILE_STORE(0, c, sizeof *c);
    TILE_STORE(1, c[0] + 16, sizeof *c);
    if (two) {
        TILE_STORE(2, c + ROWS_A_TILE, sizeof *c);
        TILE_STORE(3, c[ROWS_A_TILE] + 16, sizeof *c);
    }
}

BF16_TARGET ALWAYS_INLINE void multiply_rows(const int rows, const char *a, size_t a_row,
                                             size_t a_step, const struct operand *b, uint32_t steps,
                                             float (*c)[SPAN]) {
    vf acc[QUERIES][2];
    UNROLL
    for (int i = 0; i < rows; i++)
        acc[i][0] = acc[i][1] = v_set1(0);
    for (uint32_t s = 0; s < steps; s++)
        for (uint32_t r = 0; r < 16; r++) {
            __m512bh low = (__m512bh)_mm512_loadu_si512(b[s].half[0][r]),
                     high = (__m512bh)_mm512_loadu_si512(b[s].half[1][r]);
            UNROLL
            for (int i = 0; i < rows; i++) {
                int32_t pair;
                memcpy(&pair, a + (size_t)i * a_row + s * a_step + r * 4, sizeof pair);
                __m512bh x = (__m512bh)_mm512_set1_epi32(pair);
                acc[i][0] = _mm512_dpbf16_ps(acc[i][0], x, low);
                acc[i][1] = _mm512_dpbf16_ps(acc[i][1], x, high);
            }
        }
    UNROLL
    for (int i = 0; i < rows; i++) {
        v_store(c[i], acc[i][0]);
        v_store(c[i] + 16, acc[i][1]);
    }
}

/* c [count, 32] = the sum over steps of a's rows . b[step]; count <= TILE_GROUP. amx: by tiles. */
BF16_TARGET static void multiply(bool amx, uint32_t count, struct factor a, const struct operand *b,
                                 uint32_t steps, float (*c)[SPAN]) {
    if (amx) {
        multiply_by_tiles(count, a, b, steps, c);
        return;
    }
    const char *x = a.first;
    uint32_t i = 0;
    for (; i + 8 <= count; i += 8)
        multiply_rows(8, x + i * a.row, a.row, a.step, b, steps, c + i);
    for (; i + 4 <= count; i += 4)
        multiply_rows(4, x + i * a.row, a.row, a.step, b, steps, c + i);
    for (; i < count; i++)
        multiply_rows(1, x + i * a.row, a.row, a.step, b, steps, c + i);
}

/* ---- scores and weights ---- */

/* Where the slots of half a span lie in it. */
ALWAYS_INLINE __m512i slots_of(uint32_t half) {
    return _mm512_add_epi32(
        _mm512_set1_epi32((int)(4 * half)),
        _mm512_setr_epi32(0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27));
}

/* Which of 16 slots, from position `at` on, lie in [lo, hi). */
ALWAYS_INLINE __mmask16 seen_slots(uint32_t at, uint32_t half, uint32_t lo, uint32_t hi) {
    __m512i position = _mm512_add_epi32(_mm512_set1_epi32((int)at), slots_of(half));
    return _mm512_cmpge_epu32_mask(position, _mm512_set1_epi32((int)lo)) &
           _mm512_cmplt_epu32_mask(position, _mm512_set1_epi32((int)hi));
}

/* 2^t for t <= 0, below 2^-126 that; exact for 0. Relative error below 2^-18: minimax of degree 4
 * on [-1/2, 1/2]. NaN gives NaN. */
ALWAYS_INLINE vf power_of_two(vf t) {
    t = v_max(v_set1(-126.0f), t);
    vf n = v_rint(t), f = v_sub(t, n), p = v_set1(9.58285e-3f);
    p = v_fma(p, f, v_set1(5.590643e-2f));
    p = v_fma(p, f, v_set1(2.4024099e-1f));
    p = v_fma(p, f, v_set1(6.9312419e-1f));
    return v_scale2(v_fma(p, f, v_set1(1.0f)), n);
}

/* Scores of query i, number n of its group, not yet multiplied by the scale, of the spans [first,
 * last) from `start` on into weights in bf16, and their maximum and sum. */
BF16_TARGET static void weigh(const struct op_attention *a, const struct tile_queries *qs,
                              uint32_t i, uint32_t n, uint32_t start, uint32_t first, uint32_t last,
                              struct tile_space *space, struct partial *out) {
    uint32_t lo = qs->lo[i], hi = qs->hi[i];
    float scale = a->scale;
    if (a->soft_cap != 0 || qs->slope[i] != 0 || scale <= 0) {
        for (uint32_t s = first; s < last; s++)
            for (uint32_t h = 0; h < 2; h++) {
                float *at = space->scores[s][n] + 16 * h;
                vf x = v_mul(v_load(at), v_set1(scale));
                if (a->soft_cap != 0)
                    x = v_mul(v_tanh_near(v_div(x, v_set1(a->soft_cap))), v_set1(a->soft_cap));
                vf away = _mm512_cvtepi32_ps(_mm512_abs_epi32(_mm512_sub_epi32(
                    _mm512_set1_epi32((int)(qs->position[i] - start - s * SPAN)), slots_of(h))));
                v_store(at, v_sub(x, v_mul(v_set1(qs->slope[i]), away)));
            }
        scale = 1;
    }
    vf max = v_set1(-INFINITY), sum = v_set1(0);
    for (uint32_t s = first; s < last; s++) {
        uint32_t at = start + s * SPAN;
        bool inside = lo <= at && at + SPAN <= hi;
        UNROLL
        for (uint32_t h = 0; h < 2; h++) {
            vf x = v_load(space->scores[s][n] + 16 * h);
            __mmask16 seen = inside ? 0xffff : seen_slots(at, h, lo, hi);
            max = _mm512_mask_max_ps(max, seen, x, max);
        }
    }
    float largest = v_hmax(max), to_two = scale * 1.44269504f;
    vf factor = v_set1(to_two), shift = v_set1(largest * to_two);
    for (uint32_t s = first; s < last; s++) {
        uint32_t at = start + s * SPAN;
        bool inside = lo <= at && at + SPAN <= hi;
        vf p[2];
        UNROLL
        for (uint32_t h = 0; h < 2; h++) {
            vf x = v_load(space->scores[s][n] + 16 * h);
            __mmask16 seen = inside ? 0xffff : seen_slots(at, h, lo, hi);
            p[h] = _mm512_maskz_mov_ps(seen, power_of_two(v_fms(x, factor, shift)));
            sum = v_add(sum, p[h]);
        }
        _mm512_storeu_si512(space->weights[s][n], (__m512i)_mm512_cvtne2ps_pbh(p[1], p[0]));
    }
    out->max = largest * scale;
    out->sum = v_hsum(sum);
}

/* ---- a split ---- */

/* Asks for a head's keys or values of one block: they lie together, the next block's elsewhere, where
 * no machine looks by itself. */
static void fetch_block(const struct kv_view *kv, const void *at) {
    size_t bytes = (size_t)kv->block_tokens * kv->head_dim * 2;
    for (size_t b = 0; b < bytes; b += 64)
        __builtin_prefetch((const char *)at + b, 0, 2);
}

/* Operands of the keys of span s of the split at `start`, whose positions below `hi` somebody sees.
 * first: it is the first of the split that is looked at. Asks for the block's values and the next
 * block's keys. */
BF16_TARGET static void pack_span_keys(const struct kv_view *kv, uint32_t slot, uint32_t g,
                                       uint32_t start, uint32_t s, uint32_t hi, bool first,
                                       struct operand *out) {
    uint32_t tokens = kv->block_tokens, at = start + s * SPAN, next = (at / tokens + 1) * tokens;
    const void *layer = kv_layer(kv, slot, at);
    const uint16_t *k = (const uint16_t *)k_of(kv, layer, g) + at % tokens, *k2 = k + 16;
    if (tokens == 16) /* none behind the last that somebody sees */
        k2 = at + 16 < hi ? k_of(kv, kv_layer(kv, slot, at + 16), g) : k;
    if (first || at % tokens < SPAN) {
        fetch_block(kv, v_of(kv, layer, g));
        if (next < hi)
            fetch_block(kv, k_of(kv, kv_layer(kv, slot, next), g));
    }
    if (kv->type == STORAGE_BF16)
        pack_keys(STORAGE_BF16, k, k2, tokens, kv->head_dim, out);
    else
        pack_keys(STORAGE_F16, k, k2, tokens, kv->head_dim, out);
}

/* Where the values of a split's positions begin; NULL: not in [lo, hi). */
static void find_values(const struct kv_view *kv, uint32_t slot, uint32_t g, uint32_t start,
                        uint32_t lo, uint32_t hi, const uint16_t **rows) {
    const uint16_t *block = NULL;
    for (uint32_t j = start; j < start + ATTENTION_SPLIT; j++) {
        bool seen = j >= lo && j < hi;
        if (seen && (!block || j % kv->block_tokens == 0))
            block = (const uint16_t *)v_of(kv, kv_layer(kv, slot, j), g);
        rows[j - start] = seen ? block + (size_t)(j % kv->block_tokens) * kv->head_dim : NULL;
    }
}

/* Operands of 32 dims of the values of the spans [first, last). */
BF16_TARGET static void pack_span_values(const struct kv_view *kv, const uint16_t *const *rows,
                                         uint32_t dim, uint32_t first, uint32_t last,
                                         struct operand *out) {
    for (uint32_t s = first; s < last; s++)
        if (kv->type == STORAGE_BF16)
            pack_values(STORAGE_BF16, rows + s * SPAN, dim, out + s);
        else
            pack_values(STORAGE_F16, rows + s * SPAN, dim, out + s);
}

/* Puts 32 sums' dims in order. False: one is not finite. */
static bool put_sums(const float *sums, float *out) {
    const __m512i order = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    vf low = v_load(sums), high = v_load(sums + 16);
    v_store(out, _mm512_permutex2var_ps(low, order, high));
    v_store(out + 16,
            _mm512_permutex2var_ps(low, _mm512_add_epi32(order, _mm512_set1_epi32(8)), high));
    return !(_mm512_fpclass_ps_mask(low, 0x99) | _mm512_fpclass_ps_mask(high, 0x99));
}

/* What some queries see of a split: positions [lo, hi), in the spans [first, last). */
struct tile_sight {
    uint32_t lo, hi, first, last;
};
/* Of `count` queries from `query` on. False: nothing. */
static bool look(const struct tile_queries *qs, uint32_t query, uint32_t count, uint32_t start,
                 struct tile_sight *out) {
    uint32_t lo = UINT32_MAX, hi = 0;
    for (uint32_t i = query; i < query + count; i++)
        if (qs->lo[i] < qs->hi[i]) {
            lo = MIN(lo, qs->lo[i]);
            hi = MAX(hi, qs->hi[i]);
        }
    *out = (struct tile_sight){lo, hi, (lo - start) / SPAN, (hi - start + SPAN - 1) / SPAN};
    return lo < hi;
}

/* A split as the queries of a unit meet it. */
struct tile_split {
    const struct op_attention *a;
    const struct tile_queries *qs;
    struct tile_space *space;
    uint32_t slot, g, start;
    struct tile_sight all; /* of the unit */
    bool amx;              /* products are by tiles */
    bool packed;           /* all of it is; else a group packs what it meets, where it stays near */
    const uint16_t *values[ATTENTION_SPLIT];
};

/* acc of the queries [from, to) of a group over the values of its spans. packed: the values are.
 * False: a sum is not finite. */
static bool add_group_values(const struct tile_split *t, uint32_t query, uint32_t count,
                             const struct tile_sight *sight, uint32_t from, uint32_t to,
                             bool packed, struct partial *const *out) {
    const struct tile_queries *qs = t->qs;
    struct tile_space *space = t->space;
    uint32_t first = sight->first, last = sight->last;
    const struct factor p = {space->weights[first], sizeof space->weights[0][0],
                             sizeof space->weights[0]};
    bool finite = true;
    for (uint32_t d = 0; d < qs->dim; d += SPAN) {
        struct operand *values = space->values + (packed ? d / SPAN * SPLIT_SPANS : 0);
        if (!packed)
            pack_span_values(t->a->kv, t->values, d, first, last, values);
        multiply(t->amx, count, p, values + first, last - first, space->sums);
        for (uint32_t n = from; n < to; n++)
            if (qs->lo[query + n] < qs->hi[query + n])
                finite = put_sums(space->sums[n], out[n]->acc + d) && finite;
    }
    return finite;
}

/* Queries [query, query + count) meet the split: fills out[n] of those that see something of it.
 * False: a sum is not finite. */
static bool attend_group(const struct tile_split *t, uint32_t query, uint32_t count,
                         struct partial *const *out) {
    const struct tile_queries *qs = t->qs;
    struct tile_space *space = t->space;
    struct tile_sight sight;
    uint32_t dims = qs->dim / SPAN;
    const struct factor q = {qs->q + (size_t)query * qs->dim, qs->dim * sizeof *qs->q,
                             SPAN * sizeof *qs->q};
    if (!look(qs, query, count, t->start, &sight))
        return true;
    if (t->amx)
        begin_tiles(count);
    for (uint32_t s = sight.first; s < sight.last; s++) {
        struct operand *keys = space->keys + (t->packed ? s * dims : 0);
        if (!t->packed)
            pack_span_keys(t->a->kv, t->slot, t->g, t->start, s, sight.hi, s == sight.first, keys);
        multiply(t->amx, count, q, keys, dims, space->scores[s]);
    }
    for (uint32_t n = 0; n < count; n++)
        if (qs->lo[query + n] < qs->hi[query + n])
            weigh(t->a, qs, query + n, n, t->start, sight.first, sight.last, space, out[n]);
        else
            for (uint32_t s = sight.first; s < sight.last; s++)
                memset(space->weights[s][n], 0, sizeof space->weights[s][n]);
    bool finite = add_group_values(t, query, count, &sight, 0, count, t->packed, out);
    if (t->amx)
        end_tiles();
    return finite;
}

static void pack_all_values(const struct tile_split *t) {
    for (uint32_t d = 0; d < t->qs->dim; d += SPAN)
        pack_span_values(t->a->kv, t->values, d, t->all.first, t->all.last,
                         t->space->values + d / SPAN * SPLIT_SPANS);
}

/* Each query of the group meets the values once more, those that it sees alone. */
static void attend_one_by_one(struct tile_split *t, uint32_t query, uint32_t count,
                              struct partial *const *out) {
    const struct tile_queries *qs = t->qs;
    struct tile_sight sight;
    (void)look(qs, query, count, t->start, &sight);
    if (t->amx)
        begin_tiles(count);
    for (uint32_t n = 0; n < count; n++) {
        find_values(t->a->kv, t->slot, t->g, t->start, qs->lo[query + n], qs->hi[query + n],
                    t->values);
        if (qs->lo[query + n] < qs->hi[query + n])
            (void)add_group_values(t, query, count, &sight, n, n + 1, false, out);
    }
    if (t->amx)
        end_tiles();
}

/* Partials of a unit's queries: where the split's go, and what they are merged into; NULL: not. */
struct tile_partials {
    struct partial *of[TILE_QUERIES], *into[TILE_QUERIES];
};

/* One split for a unit's queries, some of which see something of it. */
static void attend_tile_split(struct tile_split *t, const struct tile_partials *p) {
    const struct tile_queries *qs = t->qs;
    const struct kv_view *kv = t->a->kv;
    uint32_t dims = qs->dim / SPAN;
    (void)look(qs, 0, qs->count, t->start, &t->all);
    find_values(kv, t->slot, t->g, t->start, t->all.lo, t->all.hi, t->values);
    t->packed = qs->count > TILE_GROUP;
    for (uint32_t s = t->all.first; s < t->all.last && t->packed; s++)
        pack_span_keys(kv, t->slot, t->g, t->start, s, t->all.hi, s == t->all.first,
                       t->space->keys + s * dims);
    if (t->packed)
        pack_all_values(t);
    for (uint32_t query = 0; query < qs->count; query += TILE_GROUP) {
        uint32_t count = MIN(qs->count - query, (uint32_t)TILE_GROUP);
        struct partial *out[TILE_GROUP];
        for (uint32_t n = 0; n < count; n++)
            out[n] = p->into[query + n] ? (struct partial *)t->space->splits[n] : p->of[query + n];
        if (!attend_group(t, query, count, out)) {
            attend_one_by_one(t, query, count, out);
            find_values(kv, t->slot, t->g, t->start, t->all.lo, t->all.hi, t->values);
            if (t->packed)
                pack_all_values(t);
        }
        for (uint32_t n = 0; n < count; n++)
            if (qs->lo[query + n] < qs->hi[query + n] && p->into[query + n])
                merge(p->into[query + n], out[n], qs->dim);
    }
}

/* ---- units ---- */

BF16_TARGET static void take_queries(const struct op_attention *a, const struct attention_unit *u,
                                     uint32_t first_query, struct tile_queries *qs) {
    const struct kv_view *kv = a->kv;
    uint32_t group = a->heads / kv->kv_heads, dim = kv->head_dim,
             stride = (a->heads + 2 * kv->kv_heads) * dim;
    qs->count = MIN(u->rows * group - first_query, tile_queries_of(dim));
    qs->dim = dim;
    for (uint32_t i = 0; i < qs->count; i++) {
        uint32_t t = u->row + (first_query + i) / group,
                 head = u->g * group + (first_query + i) % group;
        const float *q = (const float *)a->qkv + (size_t)t * stride + (size_t)head * dim;
        for (uint32_t d = 0; d < dim; d += SPAN)
            _mm512_storeu_si512(qs->q + i * dim + d,
                                (__m512i)_mm512_cvtne2ps_pbh(v_load(q + d + 16), v_load(q + d)));
        qs->position[i] = a->batch->positions[t];
        qs->slope[i] = a->slopes ? a->slopes[head] : 0;
    }
}

/* What they see of the split at `start`. False: nothing. */
static bool look_at_split(const struct op_attention *a, const struct attention_unit *u,
                          uint32_t first_query, uint32_t start, struct tile_queries *qs) {
    uint32_t group = a->heads / a->kv->kv_heads;
    bool any = false;
    for (uint32_t i = 0; i < qs->count; i++) {
        qs->lo[i] = MAX(attention_first(a, qs->position[i]), start);
        qs->hi[i] =
            MIN(last_of(a, u->row + (first_query + i) / group) + 1, start + ATTENTION_SPLIT);
        any = any || qs->lo[i] < qs->hi[i];
    }
    return any;
}

/* As attend_queries. */
static void attend_tile_queries(const struct attention_task *task, const struct attention_unit *u,
                                uint32_t first_query) {
    const struct op_attention *a = task->a;
    uint32_t dim = a->kv->head_dim, group = a->heads / a->kv->kv_heads,
             slot = a->batch->slots[u->row], last = last_of(a, u->row + u->rows - 1),
             first = attention_first(a, a->batch->positions[u->row]);
    char totals[TILE_TOTALS_BYTES] __attribute__((aligned(64)));
    struct tile_space space;
    struct tile_queries qs;
    struct tile_partials p;
    take_queries(a, u, first_query, &qs);
    for (uint32_t i = 0; i < qs.count; i++)
        p.of[i] = (struct partial *)(totals + i * PARTIAL_BYTES(dim));
    memset(p.into, 0, qs.count * sizeof *p.into);
    for (uint32_t start = first / ATTENTION_SPLIT * ATTENTION_SPLIT; start <= last;
         start += ATTENTION_SPLIT) {
        if (!look_at_split(a, u, first_query, start, &qs))
            continue;
        attend_tile_split(&(struct tile_split){.a = a,
                                               .qs = &qs,
                                               .space = &space,
                                               .slot = slot,
                                               .g = u->g,
                                               .start = start,
                                               .amx = task->amx},
                          &p);
        for (uint32_t i = 0; i < qs.count; i++)
            if (qs.lo[i] < qs.hi[i])
                p.into[i] = p.of[i];
    }
    for (uint32_t i = 0; i < qs.count; i++) {
        uint32_t h = u->g * group + (first_query + i) % group;
        finish(p.of[i], a->sinks ? a->sinks + h : NULL,
               (float *)a->out +
                   ((size_t)(u->row + (first_query + i) / group) * a->heads + h) * dim,
               dim);
    }
}

/* As attend_split_unit. */
static void attend_tile_unit(const struct attention_task *task, const struct attention_unit *u,
                             uint32_t split) {
    const struct op_attention *a = task->a;
    uint32_t group = a->heads / a->kv->kv_heads, start = split * ATTENTION_SPLIT;
    struct tile_space space;
    struct tile_queries qs;
    struct tile_partials p;
    for (uint32_t first = 0; first < u->rows * group; first += tile_queries_of(a->kv->head_dim)) {
        take_queries(a, u, first, &qs);
        if (!look_at_split(a, u, first, start, &qs))
            continue;
        for (uint32_t i = 0; i < qs.count; i++)
            p.of[i] = partial_at(task, u->row + (first + i) / group,
                                 u->g * group + (first + i) % group, split);
        memset(p.into, 0, qs.count * sizeof *p.into);
        attend_tile_split(&(struct tile_split){.a = a,
                                               .qs = &qs,
                                               .space = &space,
                                               .slot = a->batch->slots[u->row],
                                               .g = u->g,
                                               .start = start,
                                               .amx = task->amx},
                          &p);
    }
}

/* Whether the device attends like this. */
static bool uses_tiles(const struct stream *s, const struct kv_view *kv) {
    return ((const struct cpu_device *)s->dev)->attends_in_bf16 && kv->head_dim % SPAN == 0 &&
           (kv->type == STORAGE_F16 || kv->type == STORAGE_BF16);
}
