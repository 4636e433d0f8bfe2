/*
 * tile_weights.inc.h - weights of every storage type as rows of tiles in bf16, for tile_product.c.
 *
 * A tile holds 16 outputs x 32 columns, a row of it one output's 32 columns in order; that is how
 * files have them, so nothing is packed at load. Types of 16 levels look values up: the levels times
 * a block's scale become a table of 16 words in bf16, two blocks' tables a vector, and each 32 values
 * take one permutation of bytes, whose index is a nibble with the table's number above it. Others are
 * multiplied in f32 and rounded. What has no code here is dequantized to f32 in memory first
 * (dequantize.inc.h): three to six times as slow.
 *
 * Rounding 32 numbers costs four of the two ports' slots, half of what a block may take where memory
 * is to be the limit: hence the tables, and hence scales go by memory, whose loads fill vectors for
 * nothing.
 */

/* Rows [row, row + rows) of a segment, columns [k, k + 32 * steps), of which those behind the row's
 * end are zeros: row r's step s at out + s * TILE_BYTES + r * 64. k: a multiple of CHUNK_COLS. */
struct weight_run {
    const struct matrix_segment *segment;
    enum storage_type type;
    uint32_t cols, row, rows, k, steps;
    char *out;
    const char *ahead;     /* memory to ask for meanwhile, as much as is read; or NULL */
    struct behind *behind; /* sums to be added meanwhile */
};
/* Behind each row: the ports that unpack are others than those of tiles and of memory. */
ALWAYS_INLINE void after_row(const struct weight_run *run, uint32_t r, size_t bytes) {
    for (size_t i = 0; run->ahead && i < bytes; i += 64)
        _mm_prefetch(run->ahead + r * bytes + i, _MM_HINT_T0);
    add_behind(run->behind);
}

ALWAYS_INLINE void put_bf16(char *out, vf low, vf high) {
    _mm512_store_si512(out, (__m512i)_mm512_cvtne2ps_pbh(high, low));
}

/* ---- tables ---- */

static const float UP_LEVELS[32] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                    16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31},
                   Q4_LEVELS[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};

#define TWICE(i) (i), (i)
#define TWICE8(i)                                                                                  \
    TWICE(i), TWICE((i) + 1), TWICE((i) + 2), TWICE((i) + 3), TWICE((i) + 4), TWICE((i) + 5),      \
        TWICE((i) + 6), TWICE((i) + 7)
static const uint8_t TWICE_32[64] = {TWICE8(0), TWICE8(8), TWICE8(16), TWICE8(24)},
                     TWICE_16[64] = {TWICE8(0), TWICE8(8), TWICE8(0), TWICE8(8)};

/* Bytes twice each, so moved that their nibbles lie in bits 1 to 4: which of two bytes of a word is
 * bit 0, which table bit 5. */
ALWAYS_INLINE void put_looked_up(char *out, __m512i tables, uint32_t which, __m512i moved) {
    const __m512i place = _mm512_set1_epi16(which ? 0x2120 : 0x0100);
    __m512i idx = _mm512_ternarylogic_epi32(moved, _mm512_set1_epi8(0x1e), place, 0xea);
    _mm512_store_si512(out, _mm512_permutexvar_epi8(idx, tables));
}
ALWAYS_INLINE __m512i tables_of(vf first, vf second) {
    return (__m512i)_mm512_cvtne2ps_pbh(second, first);
}
/* Of 16 bytes: their low halves, then their high ones. */
ALWAYS_INLINE __m512i low_then_high(const uint8_t *q) {
    const __m512i by = _mm512_inserti64x4(_mm512_set1_epi16(1), _mm256_set1_epi16(5), 1);
    __m512i bytes = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)q)),
            twice = _mm512_shuffle_epi8(bytes, _mm512_loadu_si512(TWICE_16));
    return _mm512_shldv_epi16(twice, twice, by);
}
/* 32 bytes, each twice. */
ALWAYS_INLINE __m512i twice_32(const uint8_t *q) {
    return _mm512_permutexvar_epi8(_mm512_loadu_si512(TWICE_32),
                                   _mm512_castsi256_si512(_mm256_loadu_si256((const void *)q)));
}

/* Keeps numbers in memory. */
#define IN_MEMORY(array) __asm__("" : "+m"(array))

/* f16 numbers at b, b + stride, ... */
ALWAYS_INLINE void halves_at(const uint8_t *b, size_t stride, uint32_t count,
                             float out[CHUNK_STEPS]) {
    for (uint32_t i = 0; i < count; i += 4, b += 4 * stride) {
        uint64_t four = load_u16(b);
        for (uint32_t j = 1; j < MIN(count - i, 4u); j++)
            four |= (uint64_t)load_u16(b + j * stride) << 16 * j;
        _mm_storeu_ps(out + i, _mm_cvtph_ps(_mm_cvtsi64_si128((long long)four)));
    }
    IN_MEMORY(*(float(*)[CHUNK_STEPS])out);
}

/* ---- runs of blocks of 32 of one row, `steps` of them ---- */

/* Levels times scales, 16 bytes of nibbles `head` bytes into each block. */
ALWAYS_INLINE void row_of_levels(const uint8_t *b, size_t bytes, size_t head, vf levels,
                                 const float *scales, uint32_t steps, char *out) {
    for (uint32_t s = 0; s < steps; s += 2, b += 2 * bytes) {
        bool two = s + 1 < steps;
        __m512i tables =
            tables_of(v_mul(levels, v_set1(scales[s])), v_mul(levels, v_set1(scales[s + two])));
        put_looked_up(out + s * TILE_BYTES, tables, 0, low_then_high(b + head));
        if (two)
            put_looked_up(out + (s + 1) * TILE_BYTES, tables, 1, low_then_high(b + bytes + head));
    }
}
ALWAYS_INLINE void row_q4_0(const uint8_t *b, uint32_t steps, char *out) {
    float d[CHUNK_STEPS];
    halves_at(b, 18, steps, d);
    row_of_levels(b, 18, 2, v_load(Q4_LEVELS), d, steps, out);
}
ALWAYS_INLINE void row_iq4_nl(const uint8_t *b, uint32_t steps, char *out) {
    float d[CHUNK_STEPS];
    halves_at(b, 18, steps, d);
    row_of_levels(b, 18, 2, v_load(IQ4_TABLE), d, steps, out);
}
ALWAYS_INLINE void row_mxfp4(const uint8_t *b, uint32_t steps, char *out) {
    float d[CHUNK_STEPS];
    for (uint32_t s = 0; s < steps; s++)
        d[s] = dequantize_mxfp4_scale(b + 17 * s);
    IN_MEMORY(d);
    row_of_levels(b, 17, 1, v_load(MXFP4_TABLE), d, steps, out);
}
ALWAYS_INLINE void row_q8_0(const uint8_t *b, uint32_t steps, char *out) {
    float d[CHUNK_STEPS];
    halves_at(b, 34, steps, d);
    for (uint32_t s = 0; s < steps; s++, b += 34, out += TILE_BYTES)
        put_bf16(out, v_mul(v_load_i8((const int8_t *)b + 2), v_set1(d[s])),
                 v_mul(v_load_i8((const int8_t *)b + 18), v_set1(d[s])));
}

/* ---- blocks of 256 ---- */

ALWAYS_INLINE void block_iq4_xs(const uint8_t *b, char *out) {
    struct open_block o;
    open_iq4_xs(b, &o);
    row_of_levels(b + 8, 16, 0, v_load(IQ4_TABLE), o.scales, 8, out);
}
/* scales[g] of group g, minima[g]. */
ALWAYS_INLINE void open_k(const uint8_t *b, struct open_block *o) {
    open_q4_k(b, o);
    IN_MEMORY(o->scales);
    IN_MEMORY(o->minima);
}
ALWAYS_INLINE void block_q4_k(const uint8_t *b, char *out) {
    struct open_block o;
    vf up = v_load(UP_LEVELS);
    open_k(b, &o);
    UNROLL
    for (uint32_t g = 0; g < 8; g += 2) {
        __m512i q = twice_32(b + 16 + 16 * g),
                tables = tables_of(v_fms(up, v_set1(o.scales[g]), v_set1(o.minima[g])),
                                   v_fms(up, v_set1(o.scales[g + 1]), v_set1(o.minima[g + 1])));
        put_looked_up(out + g * TILE_BYTES, tables, 0, _mm512_slli_epi16(q, 1));
        put_looked_up(out + (g + 1) * TILE_BYTES, tables, 1, _mm512_srli_epi16(q, 3));
    }
}
/* 32 bytes as words. */
ALWAYS_INLINE __m512i byte_words(const uint8_t *q) {
    return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const void *)q));
}
ALWAYS_INLINE void block_q5_k(const uint8_t *b, char *out) {
    struct open_block o;
    vf low = v_load(UP_LEVELS), high = v_load(UP_LEVELS + 16);
    __m512i fifth = byte_words(b + 16), four_bits = _mm512_set1_epi16(15);
    open_k(b, &o);
    UNROLL
    for (uint32_t g = 0; g < 8; g++) {
        vf d = v_set1(o.scales[g]), m = v_set1(o.minima[g]);
        __m512i table = (__m512i)_mm512_cvtne2ps_pbh(v_fms(high, d, m), v_fms(low, d, m)),
                q = _mm512_srli_epi16(byte_words(b + 48 + 32 * (g / 2)), 4 * (g % 2)),
                bit = g < 4 ? _mm512_slli_epi16(fifth, 4 - g) : _mm512_srli_epi16(fifth, g - 4);
        /* q where four_bits is set, bit elsewhere */
        _mm512_store_si512(
            out + g * TILE_BYTES,
            _mm512_permutexvar_epi16(_mm512_ternarylogic_epi32(four_bits, q, bit, 0xca), table));
    }
}
ALWAYS_INLINE void block_q6_k(const uint8_t *b, char *out) {
    int8_t values[256] __attribute__((aligned(64)));
    float scales[16] __attribute__((aligned(64)));
    const __m512i four_bits = _mm512_set1_epi8(15), six_bits = _mm512_set1_epi8(63),
                  middle = _mm512_set1_epi8(32),
                  up = _mm512_inserti64x4(_mm512_set1_epi16(4), _mm256_set1_epi16(2), 1),
                  down = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(2), 1);
    UNROLL
    for (int half = 0; half < 2; half++) {
        __m512i q = _mm512_loadu_si512(b + 64 * half),
                top =
                    _mm512_broadcast_i64x4(_mm256_loadu_si256((const void *)(b + 128 + 32 * half))),
                first = _mm512_ternarylogic_epi32(four_bits, q, _mm512_sllv_epi16(top, up), 0xca),
                second = _mm512_ternarylogic_epi32(four_bits, _mm512_srli_epi16(q, 4),
                                                   _mm512_srlv_epi16(top, down), 0xca);
        _mm512_store_si512(values + 128 * half,
                           _mm512_sub_epi8(_mm512_and_si512(first, six_bits), middle));
        _mm512_store_si512(values + 128 * half + 64,
                           _mm512_sub_epi8(_mm512_and_si512(second, six_bits), middle));
    }
    v_store(scales, v_mul(v_set1(f16_at(b + 208)), v_load_i8((const int8_t *)b + 192)));
    IN_MEMORY(scales);
    IN_MEMORY(values);
    UNROLL
    for (int g = 0; g < 8; g++)
        put_bf16(out + g * TILE_BYTES, v_mul(v_load_i8(values + 32 * g), v_set1(scales[2 * g])),
                 v_mul(v_load_i8(values + 32 * g + 16), v_set1(scales[2 * g + 1])));
}

/* Rows of a run: `values` columns are `bytes` bytes. */
#define UNPACK_ROWS(lower, values, bytes, ROW)                                                     \
    static void unpack_##lower(const struct weight_run *run) {                                     \
        const size_t row_bytes = (size_t)run->cols / (values) * (bytes);                           \
        const uint8_t *b = (const uint8_t *)run->segment->data + run->row * row_bytes +            \
                           (size_t)run->k / (values) * (bytes);                                    \
        for (uint32_t r = 0; r < run->rows; r++, b += row_bytes) {                                 \
            ROW(lower, values, bytes, b, run->steps, run->out + r * TILE_ROW_BYTES)                \
            after_row(run, r, (size_t)run->steps *STEP / (values) * (bytes));                      \
        }                                                                                          \
    }
/* The usual chunk by a number that the compiler knows. */
#define ROW_OF_32(lower, values, bytes, b, steps, out)                                             \
    if ((steps) == CHUNK_STEPS)                                                                    \
        row_##lower(b, CHUNK_STEPS, out);                                                          \
    else                                                                                           \
        row_##lower(b, steps, out);
#define ROW_OF_256(lower, values, bytes, b, steps, out)                                            \
    for (uint32_t s = 0; s < (steps); s += (values) / STEP)                                        \
        block_##lower((b) + s * STEP / (values) * (bytes), (out) + s * TILE_BYTES);
#define TILE_BLOCK_TYPES(X)                                                                        \
    X(Q4_0, q4_0, 32, 18, ROW_OF_32)                                                               \
    X(Q8_0, q8_0, 32, 34, ROW_OF_32)                                                               \
    X(IQ4_NL, iq4_nl, 32, 18, ROW_OF_32)                                                           \
    X(MXFP4, mxfp4, 32, 17, ROW_OF_32)                                                             \
    X(Q4_K, q4_k, 256, 144, ROW_OF_256)                                                            \
    X(Q5_K, q5_k, 256, 176, ROW_OF_256)                                                            \
    X(Q6_K, q6_k, 256, 210, ROW_OF_256)                                                            \
    X(IQ4_XS, iq4_xs, 256, 136, ROW_OF_256)
#define UNPACK_BLOCKS(symbol, lower, values, bytes, ROW) UNPACK_ROWS(lower, values, bytes, ROW)
TILE_BLOCK_TYPES(UNPACK_BLOCKS)

/* ---- types with scales of their own ---- */

/* For each step the place of its scale along a row, where whole steps have one; else no. */
static bool find_scales(const struct weight_run *run, uint32_t at[CHUNK_STEPS]) {
    const struct matrix_segment *p = run->segment;
    if (p->scale_rows == 0 || p->groups || run->cols % 2 || run->cols - run->k < run->steps * STEP)
        return false;
    for (uint32_t s = 0; s < run->steps; s++) {
        uint32_t k = run->k + s * STEP;
        at[s] = p->scale_cols ? k / p->scale_cols : 0;
        if (p->scale_cols && (k + STEP - 1) / p->scale_cols != at[s])
            return false;
    }
    return true;
}

struct number {
    vf zero, scale; /* value = (stored - zero) * scale */
    __m512i table;  /* of 0 to 15, twice */
};
ALWAYS_INLINE vf number_of(const struct number *n, vf stored) {
    return v_mul(v_sub(stored, n->zero), n->scale);
}
ALWAYS_INLINE struct number number_at(const struct matrix_segment *p, size_t place) {
    struct number n = {.zero = v_set1(p->zeros ? p->zeros[place] : p->zero),
                       .scale = v_set1(p->scales ? p->scales[place] : 1.0f)};
    vf levels = number_of(&n, v_load(UP_LEVELS));
    n.table = tables_of(levels, levels);
    return n;
}

ALWAYS_INLINE void step_i8(const uint8_t *q, const struct number *n, char *out) {
    put_bf16(out, number_of(n, v_load_i8((const int8_t *)q)),
             number_of(n, v_load_i8((const int8_t *)q + 16)));
}
ALWAYS_INLINE void step_u8(const uint8_t *q, const struct number *n, char *out) {
    put_bf16(out, number_of(n, v_of_int(vi_load_u8(q))),
             number_of(n, v_of_int(vi_load_u8(q + 16))));
}
/* Sixteen pairs: the lower half of a byte is the first word. */
ALWAYS_INLINE void step_u4(const uint8_t *q, const struct number *n, char *out) {
    __m512i pairs = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)q)),
            idx = _mm512_or_si512(pairs, _mm512_slli_epi32(pairs, 12));
    _mm512_store_si512(out, _mm512_permutexvar_epi16(idx, n->table));
}
/* e4m3 as an f16 of 2^-8 its value; 0x7f is NaN. */
ALWAYS_INLINE void step_f8_e4m3(const uint8_t *q, const struct number *n, char *out) {
    const __m256i magnitude = _mm256_set1_epi8(0x7f);
    const vf back = v_set1(256);
    __m256i bytes = _mm256_loadu_si256((const void *)q);
    __mmask32 nan = _mm256_cmpeq_epi8_mask(_mm256_and_si256(bytes, magnitude), magnitude);
    __m512i top = _mm512_slli_epi16(_mm512_cvtepu8_epi16(bytes), 8),
            half = _mm512_ternarylogic_epi32(
                _mm512_set1_epi16((short)0x8000), top,
                _mm512_and_si512(_mm512_srli_epi16(top, 1), _mm512_set1_epi16(0x3f80)), 0xca);
    vf low = _mm512_cvtph_ps(_mm512_castsi512_si256(half)),
       high = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(half, 1));
    __m512i rounded = (__m512i)_mm512_cvtne2ps_pbh(v_mul(v_fms(high, back, n->zero), n->scale),
                                                   v_mul(v_fms(low, back, n->zero), n->scale));
    _mm512_store_si512(out, _mm512_mask_set1_epi16(rounded, nan, 0x7fc0));
}

static void unpack_any(const struct weight_run *run);

#define UNPACK_SCALED(symbol, lower, bytes)                                                        \
    static void unpack_##lower(const struct weight_run *run) {                                     \
        const struct matrix_segment *p = run->segment;                                             \
        uint32_t at[CHUNK_STEPS];                                                                  \
        if (!find_scales(run, at)) {                                                               \
            unpack_any(run);                                                                       \
            return;                                                                                \
        }                                                                                          \
        for (uint32_t r = 0; r < run->rows; r++) {                                                 \
            size_t row = run->row + r, places = row / p->scale_rows * p->scale_stride;             \
            const uint8_t *q = (const uint8_t *)p->data +                                          \
                               (row * run->cols + run->k) / STEP * (bytes) +                       \
                               (row * run->cols + run->k) % STEP * (bytes) / STEP;                 \
            struct number n = number_at(p, places + at[0]);                                        \
            for (uint32_t s = 0; s < run->steps; s++) {                                            \
                if (s && at[s] != at[s - 1])                                                       \
                    n = number_at(p, places + at[s]);                                              \
                step_##lower(q + s * (bytes), &n, run->out + s * TILE_BYTES + r * TILE_ROW_BYTES); \
            }                                                                                      \
            after_row(run, r, (size_t)run->steps *(bytes));                                        \
        }                                                                                          \
    }
/* bytes: of 32 values */
#define TILE_SCALED_TYPES(X) X(F8_E4M3, f8_e4m3, 32) X(I8, i8, 32) X(U8, u8, 32) X(U4, u4, 16)
TILE_SCALED_TYPES(UNPACK_SCALED)

/* ---- the others ---- */

static void unpack_bf16(const struct weight_run *run) {
    const uint16_t *row =
        (const uint16_t *)run->segment->data + (size_t)run->row * run->cols + run->k;
    uint32_t count = MIN(run->steps * STEP, run->cols - run->k), whole = count / STEP;
    for (uint32_t r = 0; r < run->rows; r++, row += run->cols) {
        char *out = run->out + r * TILE_ROW_BYTES;
        for (uint32_t s = 0; s < whole; s++)
            _mm512_store_si512(out + s * TILE_BYTES, _mm512_loadu_si512(row + s * STEP));
        if (whole < run->steps)
            _mm512_store_si512(out + whole * TILE_BYTES,
                               _mm512_maskz_loadu_epi16((__mmask32)((1u << count % STEP) - 1),
                                                        row + whole * STEP));
        add_behind(
            run->behind); /* asking ahead is slower: rows are long enough to be seen coming */
    }
}

/* Whichever type, by way of f32. */
static void unpack_any(const struct weight_run *run) {
    float wide[CHUNK_STEPS * STEP] __attribute__((aligned(64)));
    uint32_t count = MIN(run->steps * STEP, run->cols - run->k);
    memset(wide, 0, sizeof wide);
    for (uint32_t r = 0; r < run->rows; r++) {
        DEQUANTIZE[run->type](run->segment, run->cols, run->row + r, run->k, count, wide);
        for (uint32_t s = 0; s < run->steps; s++)
            put_bf16(run->out + s * TILE_BYTES + r * TILE_ROW_BYTES, v_load(wide + s * STEP),
                     v_load(wide + s * STEP + VW));
        add_behind(run->behind);
    }
}

static void (*const UNPACK[STORAGE_TYPE_COUNT])(const struct weight_run *run) = {
    [STORAGE_BF16] = unpack_bf16,
#define UNPACK_ROW(symbol, lower, values, bytes, ROW) [STORAGE_##symbol] = unpack_##lower,
    TILE_BLOCK_TYPES(UNPACK_ROW)
#define UNPACK_SCALED_ROW(symbol, lower, bytes) [STORAGE_##symbol] = unpack_##lower,
        TILE_SCALED_TYPES(UNPACK_SCALED_ROW)
#undef UNPACK_SCALED_ROW
#undef UNPACK_ROW
};
