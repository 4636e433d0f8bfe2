/*
 * linear_amx.inc.h - out[t, n] = x[t, :] . w[n, :] + bias[n] on AMX's tiles, for weights in bf16.
 *
 * Tiles multiply bf16 and add in f32. A number in f32 is the sum of three in bf16 (8 bits of it
 * each, by truncation: exact), and products of such terms with bf16 weights are exact in f32. So
 * nothing is rounded but sums, as everywhere, at the price of three tile products.
 *
 * One output is one chain over steps of STEP columns (zeros behind the row's end); a step adds, for
 * each term of the activation, least first, the tile's sum of 32 products (Intel's manual,
 * TDPBF16PS: two chains of 16, added). Which tokens share a tile, how the columns are cut and what
 * is carried in memory changes no bit. The unit takes numbers below 2^-126 as zero. Against ops.h's
 * bound: from 32 columns on, the 16 roundings in a step and 3 more for each step are fewer than it
 * allows.
 *
 * A tile holds 16 weight rows x 32 columns, as they lie in memory; the other operand is 32 columns
 * x up to 16 tokens, packed once into the device's `pack`: [group of 16 tokens][step][term][pair of
 * columns][token][2]. Work: a unit is some blocks of BLOCK_ROWS weight rows. Up to 16
 * tokens: each block meets them once, and memory for the next is fetched meanwhile. More:
 * CHUNK_STEPS steps of a block meet every group of the pass; sums wait in `carry`.
 */
#include <immintrin.h>

#include "kernels/cpu/tiles.h"

enum {
    TILE = 16,
    STEP = 32,
    X_TERMS = 3,
    TILE_BYTES = 1024,
    BLOCK_TILES = 4,
    BLOCK_ROWS = BLOCK_TILES * TILE,
    BLOCK_BYTES = BLOCK_TILES * TILE_BYTES, /* of one step */
    CHUNK_STEPS = 16,
    STREAM_STEPS = 4,
    PASS_GROUPS = 16,
    UNIT_BLOCKS_MAX = 4
};

/* ---- numbers into terms ---- */

/* Two vectors as three of 32 bf16, most significant first. What is not finite lies in the first
 * alone. */
ALWAYS_INLINE void bf16_terms(vf low, vf high, __m512i *out) {
    const __m512i top = _mm512_set1_epi32((int)0xffff0000);
    const __m512i odd = _mm512_add_epi16(
        _mm512_set1_epi32(0x00030001),
        _mm512_mullo_epi32(_mm512_set1_epi32(0x00040004),
                           _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)));
    vf rest[2] = {low, high};
    UNROLL
    for (int p = 0; p < X_TERMS; p++) {
        __m512i term[2];
        UNROLL
        for (int h = 0; h < 2; h++) {
            __mmask16 nan = _mm512_fpclass_ps_mask(rest[h], 0x81),
                      finite = ~_mm512_fpclass_ps_mask(rest[h], 0x99);
            __m512i bits = _mm512_castps_si512(rest[h]);
            term[h] = _mm512_and_si512(
                _mm512_mask_or_epi32(bits, nan, bits, _mm512_set1_epi32(0x400000)), top);
            rest[h] = _mm512_maskz_sub_ps(finite, rest[h], _mm512_castsi512_ps(term[h]));
        }
        out[p] = _mm512_permutex2var_epi16(term[0], odd, term[1]);
    }
}

/* 16 x 16 numbers of 32 bits. */
ALWAYS_INLINE void transpose(__m512i *r) {
    __m512i t[TILE];
    UNROLL
    for (int i = 0; i < TILE; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    UNROLL
    for (int i = 0; i < TILE; i += 4) {
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    UNROLL
    for (int j = 0; j < 4; j++) { /* lane l of r[4 i + j]: column 4 l + j of rows 4 i .. 4 i + 3 */
        t[j] = _mm512_shuffle_i32x4(r[j], r[4 + j], 0x88);
        t[4 + j] = _mm512_shuffle_i32x4(r[j], r[4 + j], 0xdd);
        t[8 + j] = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0x88);
        t[12 + j] = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0xdd);
    }
    UNROLL
    for (int j = 0; j < 4; j++) {
        r[j] = _mm512_shuffle_i32x4(t[j], t[8 + j], 0x88);
        r[4 + j] = _mm512_shuffle_i32x4(t[4 + j], t[12 + j], 0x88);
        r[8 + j] = _mm512_shuffle_i32x4(t[j], t[8 + j], 0xdd);
        r[12 + j] = _mm512_shuffle_i32x4(t[4 + j], t[12 + j], 0xdd);
    }
}

/* ---- one pass: up to PASS_GROUPS groups of tokens ---- */

struct amx_pass {
    const struct op_linear *a;
    uint32_t first_token, token_count, group_count;
    uint32_t steps;
    uint32_t blocks_a_unit;
    char *x;
};

static uint32_t group_tokens(const struct amx_pass *p, uint32_t g) {
    return MIN(p->token_count - g * TILE, (uint32_t)TILE);
}
static char *group_x(const struct amx_pass *p, uint32_t g) {
    return p->x + (size_t)g * p->steps * X_TERMS * TILE_BYTES;
}

static void amx_pack_group(void *ctx, size_t g, int thread_idx) {
    const struct amx_pass *pass = ctx;
    uint32_t n = group_tokens(pass, (uint32_t)g), cols = pass->a->w->cols;
    const float *x = (const float *)pass->a->x + (pass->first_token + g * TILE) * cols;
    char *out = group_x(pass, (uint32_t)g);
    for (uint32_t k = 0; k < cols; k += STEP) {
        __m512i terms[X_TERMS][TILE];
        uint32_t low = MIN(cols - k, (uint32_t)VW), high = MIN(cols - k - low, (uint32_t)VW);
        for (uint32_t t = 0; t < TILE; t++) {
            __m512i three[X_TERMS] = {_mm512_setzero_si512(), _mm512_setzero_si512(),
                                      _mm512_setzero_si512()};
            const float *at = x + (size_t)t * cols + k;
            if (t < n)
                bf16_terms(v_load_n(at, low), v_load_n(at + low, high), three);
            for (int p = 0; p < X_TERMS; p++)
                terms[p][t] = three[p];
        }
        for (int p = 0; p < X_TERMS; p++) {
            transpose(terms[p]);
            for (int i = 0; i < TILE; i++, out += 4 * (size_t)n)
                _mm512_mask_storeu_epi32(out, v_first(n), terms[p][i]);
        }
    }
}

/* ---- weights ---- */

/* Where the tiles of a block lie: tile i, step s at data + i * tile + s * step. */
struct amx_block {
    const char *data, *ahead; /* ahead: memory to fetch meanwhile, or NULL */
    size_t tile, step, row;
};

/* The block as it lies, if it is bf16 in whole steps, in one segment of the matrix. */
static bool amx_block_in_place(const struct matrix *m, uint32_t first, struct amx_block *out) {
    if (m->cols % STEP)
        return false;
    uint32_t row = first;
    const struct matrix_segment *p = segment_of_row(m, &row);
    if (p->rows - row < BLOCK_ROWS)
        return false;
    size_t row_bytes = (size_t)m->cols * 2;
    *out = (struct amx_block){.data = (const char *)p->data + row * row_bytes,
                              .tile = TILE * row_bytes,
                              .step = STEP * 2,
                              .row = row_bytes};
    if (p->rows - row >= 2 * BLOCK_ROWS)
        out->ahead = out->data + BLOCK_ROWS * row_bytes;
    return true;
}

/* Where a block's rows begin; NULL behind the matrix' end. */
struct amx_rows {
    const uint16_t *w[BLOCK_ROWS];
};

static void amx_find_rows(const struct matrix *m, uint32_t first, struct amx_rows *out) {
    for (uint32_t r = 0; r < BLOCK_ROWS; r++)
        out->w[r] = first + r < m->rows ? matrix_row(m, first + r) : NULL;
}

/* Steps [s0, s0 + steps) of a block's weights as tiles, zeros behind the rows' ends. */
static struct amx_block amx_pack_block(const struct amx_rows *rows, uint32_t cols, uint32_t s0,
                                       uint32_t steps, char *out) {
    for (uint32_t r = 0; r < BLOCK_ROWS; r++)
        for (uint32_t s = 0; s < steps; s++) {
            uint32_t k = (s0 + s) * STEP, n = rows->w[r] ? MIN(cols - k, (uint32_t)STEP) : 0;
            __m512i w =
                _mm512_maskz_loadu_epi16((__mmask32)((1ull << n) - 1), n ? rows->w[r] + k : NULL);
            _mm512_storeu_si512(out + s * BLOCK_BYTES + (size_t)r * STEP * 2, w);
        }
    return (struct amx_block){
        .data = out, .tile = TILE_BYTES, .step = BLOCK_BYTES, .row = STEP * 2};
}

/* ---- tiles: 0 to 3 sums, 4 and 5 weights, 6 and 7 activations ---- */

static void amx_configure(uint32_t tokens) {
    struct tile_config config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.rows[i] = TILE;
        config.row_bytes[i] = (uint16_t)(i == 4 || i == 5 ? STEP * 2 : 4 * tokens);
    }
    tiles_configure(&config);
}

static void amx_clear(void) {
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
}
static void amx_load_sums(const float *from) {
    TILE_LOAD(0, from, 64);
    TILE_LOAD(1, from + 256, 64);
    TILE_LOAD(2, from + 512, 64);
    TILE_LOAD(3, from + 768, 64);
}
static void amx_store_sums(float *to) {
    TILE_STORE(0, to, 64);
    TILE_STORE(1, to + 256, 64);
    TILE_STORE(2, to + 512, 64);
    TILE_STORE(3, to + 768, 64);
}

/* One term of the activations, already in tile b, times the four tiles of weights at w. */
#define AMX_BLOCK_DOT(b, w, block)                                                                 \
    TILE_LOAD(4, w, (block)->row);                                                                 \
    TILE_LOAD(5, (w) + (block)->tile, (block)->row);                                               \
    TILE_ADD_DOT(0, 4, b);                                                                         \
    TILE_ADD_DOT(1, 5, b);                                                                         \
    TILE_LOAD(4, (w) + 2 * (block)->tile, (block)->row);                                           \
    TILE_LOAD(5, (w) + 3 * (block)->tile, (block)->row);                                           \
    TILE_ADD_DOT(2, 4, b);                                                                         \
    TILE_ADD_DOT(3, 5, b)

/* Asks for memory in the order of its addresses, which the tiles' 64 rows side by side would
 * not. */
static void amx_fetch(const char *data, size_t size) {
    for (size_t i = 0; i < size; i += 64)
        _mm_prefetch(data + i, _MM_HINT_T1);
}

/* The sums += steps of a block with a group's activations at x, `tokens` of them. */
ALWAYS_INLINE void amx_steps(const struct amx_block *block, uint32_t steps, const char *x,
                             uint32_t tokens) {
    size_t x_row = 4 * (size_t)tokens, x_tile = TILE * x_row;
    for (uint32_t s = 0; s < steps; s++, x += X_TERMS * x_tile) {
        if (block->ahead)
            amx_fetch(block->ahead + (size_t)s * BLOCK_BYTES, BLOCK_BYTES);
        const char *w = block->data + s * block->step;
        TILE_LOAD(6, x + 2 * x_tile, x_row);
        AMX_BLOCK_DOT(6, w, block);
        TILE_LOAD(7, x + x_tile, x_row);
        AMX_BLOCK_DOT(7, w, block);
        TILE_LOAD(6, x, x_row);
        AMX_BLOCK_DOT(6, w, block);
    }
}

/* ---- a unit ---- */

/* sums: [BLOCK_ROWS, TILE]; to out, whose first token and weight row are those of the sums. */
static void amx_finish(const struct amx_pass *pass, uint32_t g, uint32_t first, const float *sums) {
    const struct op_linear *a = pass->a;
    uint32_t tokens = group_tokens(pass, g);
    float *out = (float *)a->out + (size_t)(pass->first_token + g * TILE) * a->out_stride;
    for (uint32_t n = first; n < MIN(first + BLOCK_ROWS, a->w->rows);
         n += TILE, sums += TILE * TILE) {
        uint32_t count = MIN(a->w->rows - n, (uint32_t)TILE);
        vf bias = a->w->bias ? v_load_n(a->w->bias + n, count) : v_set1(0);
        __m512i r[TILE];
        for (int i = 0; i < TILE; i++)
            r[i] = _mm512_maskz_loadu_epi32(v_first(tokens), sums + i * TILE);
        transpose(r);
        for (uint32_t t = 0; t < tokens; t++)
            v_store_n(out + (size_t)t * a->out_stride + n, v_add(_mm512_castsi512_ps(r[t]), bias),
                      count);
    }
}

/* One group: the sums stay in their tiles. */
static void amx_stream_block(const struct amx_pass *pass, uint32_t first) {
    char w[STREAM_STEPS * BLOCK_BYTES] __attribute__((aligned(64)));
    float sums[BLOCK_ROWS * TILE] __attribute__((aligned(64)));
    struct amx_block block;
    uint32_t tokens = pass->token_count;
    amx_clear();
    if (amx_block_in_place(pass->a->w, first, &block)) {
        amx_steps(&block, pass->steps, pass->x, tokens);
    } else {
        struct amx_rows rows;
        amx_find_rows(pass->a->w, first, &rows);
        for (uint32_t s = 0; s < pass->steps; s += STREAM_STEPS) {
            uint32_t n = MIN(pass->steps - s, (uint32_t)STREAM_STEPS);
            block = amx_pack_block(&rows, pass->a->w->cols, s, n, w);
            amx_steps(&block, n, pass->x + (size_t)s * X_TERMS * TILE * 4 * tokens, tokens);
        }
    }
    amx_store_sums(sums);
    amx_finish(pass, 0, first, sums);
}

/* Steps [s0, s0 + steps) of one block for all groups; carry: [group][BLOCK_ROWS, TILE]. */
static void amx_chunk(const struct amx_pass *pass, uint32_t first, uint32_t s0, uint32_t steps,
                      float *carry) {
    char w[CHUNK_STEPS * BLOCK_BYTES] __attribute__((aligned(64)));
    struct amx_block block;
    if (amx_block_in_place(pass->a->w, first, &block)) {
        block.data += s0 * block.step;
        block.ahead = NULL;
    } else {
        struct amx_rows rows;
        amx_find_rows(pass->a->w, first, &rows);
        block = amx_pack_block(&rows, pass->a->w->cols, s0, steps, w);
    }
    for (uint32_t g = 0; g < pass->group_count; g++, carry += BLOCK_ROWS * TILE) {
        uint32_t tokens = group_tokens(pass, g);
        if (g == 0 || tokens != TILE)
            amx_configure(tokens);
        if (s0 == 0)
            amx_clear();
        else
            amx_load_sums(carry);
        amx_steps(&block, steps, group_x(pass, g) + (size_t)s0 * X_TERMS * TILE * 4 * tokens,
                  tokens);
        amx_store_sums(carry);
        if (s0 + steps == pass->steps)
            amx_finish(pass, g, first, carry);
    }
}

static void amx_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct amx_pass *pass = ctx;
    uint32_t block = (uint32_t)unit_idx * pass->blocks_a_unit,
             block_count = (pass->a->w->rows - 1) / BLOCK_ROWS + 1;
    uint32_t end = MIN(block + pass->blocks_a_unit, block_count);
    if (pass->group_count == 1) {
        struct amx_block start;
        amx_configure(pass->token_count);
        if (amx_block_in_place(pass->a->w, block * BLOCK_ROWS, &start))
            amx_fetch(start.data, start.row * BLOCK_ROWS);
        for (; block < end; block++)
            amx_stream_block(pass, block * BLOCK_ROWS);
    } else {
        float carry[UNIT_BLOCKS_MAX][PASS_GROUPS * BLOCK_ROWS * TILE] __attribute__((aligned(64)));
        for (uint32_t s = 0; s < pass->steps; s += CHUNK_STEPS)
            for (uint32_t b = block; b < end; b++)
                amx_chunk(pass, b * BLOCK_ROWS, s, MIN(pass->steps - s, (uint32_t)CHUNK_STEPS),
                          carry[b - block]);
    }
    tiles_release();
}

/* ---- the operation ---- */

static size_t amx_group_bytes(const struct matrix *w) {
    return ((size_t)w->cols + STEP - 1) / STEP * X_TERMS * TILE_BYTES;
}

/* What this file computes; the answer depends on the matrix alone. */
static bool amx_takes(const struct matrix *w) {
    return w->type == STORAGE_BF16 && matrix_is_plain(w) && w->cols >= STEP &&
           amx_group_bytes(w) <= CPU_PACK_BYTES;
}

static void amx_linear(struct stream *s, const struct op_linear *a) {
    uint32_t groups_a_pass =
        (uint32_t)MIN(CPU_PACK_BYTES / amx_group_bytes(a->w), (size_t)PASS_GROUPS);
    uint32_t block_count = (a->w->rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
    struct amx_pass pass = {
        .a = a, .steps = (a->w->cols + STEP - 1) / STEP, .x = ((struct cpu_device *)s->dev)->pack};
    for (; pass.first_token < a->rows; pass.first_token += pass.token_count) {
        pass.token_count = MIN(a->rows - pass.first_token, groups_a_pass * TILE);
        pass.group_count = (pass.token_count + TILE - 1) / TILE;
        pass.blocks_a_unit = 1;
        while (pass.blocks_a_unit < UNIT_BLOCKS_MAX && block_count / pass.blocks_a_unit > 8)
            pass.blocks_a_unit *= 2;
        cpu_loop(s, pass.group_count, (size_t)pass.token_count * a->w->cols, amx_pack_group, &pass);
        cpu_loop(s, (block_count + pass.blocks_a_unit - 1) / pass.blocks_a_unit,
                 (size_t)pass.token_count * a->w->rows * a->w->cols / VW, amx_unit, &pass);
    }
}
