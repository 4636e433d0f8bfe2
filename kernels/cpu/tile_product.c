/*
 * tile_product.c - products on AMX's tiles (tile_product.h) on the device's threads.
 *
 * The first operand of a tile product is 16 outputs x 32 columns of weights, the second 32 columns x
 * up to 16 rows of x, packed once into the device's `pack`: [group of 16 rows][step][term][pair of
 * columns][row][2]. A block is four tiles of outputs, as many sums as meet a tile of x.
 *
 * Weights become tiles a chunk of CHUNK_COLS columns at a time, which stay in the first cache, and
 * meet every group of rows. Few rows: 16 outputs at a time, whose sums stay in their tiles from the
 * first chunk to the last; while a chunk is unpacked, the chunk before meets the rows, so up to 16 of
 * them cost what one costs. Many: a block at a time, whose sums wait in `carry` between chunks; and a
 * chunk of some blocks goes before the next chunk, for which the rows' share stays in the second
 * cache. Memory is asked for ahead of both.
 */
#include "kernels/cpu/tile_product.h"
#include "kernels/cpu/expert_range.h"

#include "kernels/cpu/tiles.h"
#include "kernels/cpu/vec_avx512.h"

#include "kernels/cpu/math.inc.h"

#include "kernels/cpu/dequantize.inc.h"

#include "kernels/cpu/transpose.h"

enum {
    TILE = 16,
    STEP = 32,
    TILE_BYTES = 1024,
    TILE_ROW_BYTES = 64,
    TERMS_MAX = 3,
    BLOCK_TILES = 4,
    BLOCK_ROWS = BLOCK_TILES * TILE,
    CHUNK_STEPS = 8,
    CHUNK_COLS = CHUNK_STEPS * STEP,
    CHUNK_TILE_BYTES = CHUNK_STEPS * TILE_BYTES, /* of a tile's rows */
    FEW_GROUPS = 4,
    PASS_ROWS = 512,
    PASS_GROUPS = PASS_ROWS / TILE,
    UNIT_BLOCKS_MAX = 4
};

/* ---- tiles: 0 to 3 sums, 4 to 7 weights and rows of x ---- */

/* Tiles `narrow` (a bit each) have 4 * count bytes a row, the others 64. */
static void configure(uint32_t narrow, uint32_t count) {
    struct tile_config config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.rows[i] = TILE;
        config.row_bytes[i] = (uint16_t)(narrow >> i & 1 ? 4 * count : TILE_ROW_BYTES);
    }
    tiles_configure(&config);
}
static void clear_sums(void) {
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
}
static void load_sums(const float *from) {
    TILE_LOAD(0, from, 64);
    TILE_LOAD(1, from + 256, 64);
    TILE_LOAD(2, from + 512, 64);
    TILE_LOAD(3, from + 768, 64);
}
static void store_sums(float *to) {
    TILE_STORE(0, to, 64);
    TILE_STORE(1, to + 256, 64);
    TILE_STORE(2, to + 512, 64);
    TILE_STORE(3, to + 768, 64);
}

/* Few rows: steps of a tile of weights that are still to meet up to FEW_GROUPS groups of x; sums are
 * tiles 0, 1, ... by groups. */
struct behind {
    const char *w, *x[FEW_GROUPS]; /* of the next step; the last group is x[groups - 1] */
    uint32_t left, groups, terms, last_count;
};

#define ADD_GROUP(sums, x_tile, at, row)                                                           \
    TILE_LOAD(x_tile, at, row);                                                                    \
    TILE_ADD_DOT(sums, 4, x_tile)

/* One step, if any is left. */
ALWAYS_INLINE void add_behind(struct behind *b) {
    if (!b || !b->left)
        return;
    size_t row = 4 * (size_t)b->last_count, tile = TILE * row;
    TILE_LOAD(4, b->w, TILE_ROW_BYTES);
    for (uint32_t p = b->terms; p--;) {
        size_t at = p * TILE_BYTES;
        const char *last = b->x[b->groups - 1] + p * tile;
        switch (b->groups) {
        case 1: ADD_GROUP(0, 7, last, row); break;
        case 2:
            ADD_GROUP(0, 5, b->x[0] + at, 64);
            ADD_GROUP(1, 7, last, row);
            break;
        case 3:
            ADD_GROUP(0, 5, b->x[0] + at, 64);
            ADD_GROUP(1, 6, b->x[1] + at, 64);
            ADD_GROUP(2, 7, last, row);
            break;
        default:
            ADD_GROUP(0, 5, b->x[0] + at, 64);
            ADD_GROUP(1, 6, b->x[1] + at, 64);
            ADD_GROUP(2, 5, b->x[2] + at, 64);
            ADD_GROUP(3, 7, last, row);
        }
    }
    b->left--;
    b->w += TILE_BYTES;
    for (uint32_t g = 0; g + 1 < b->groups; g++)
        b->x[g] += b->terms * TILE_BYTES;
    b->x[b->groups - 1] += b->terms * tile;
}

/* A step of one term: the tile of rows at x meets the four tiles of weights at w. */
ALWAYS_INLINE void add_step(const char *w, const char *x, size_t x_row) {
    TILE_LOAD(7, x, x_row);
    TILE_LOAD(4, w, TILE_ROW_BYTES);
    TILE_ADD_DOT(0, 4, 7);
    TILE_LOAD(5, w + CHUNK_TILE_BYTES, TILE_ROW_BYTES);
    TILE_ADD_DOT(1, 5, 7);
    TILE_LOAD(6, w + 2 * CHUNK_TILE_BYTES, TILE_ROW_BYTES);
    TILE_ADD_DOT(2, 6, 7);
    TILE_LOAD(4, w + 3 * CHUNK_TILE_BYTES, TILE_ROW_BYTES);
    TILE_ADD_DOT(3, 4, 7);
}

/* Many rows: the sums += `steps` steps of a chunk with `count` rows at x. */
static void add_chunk(const char *w, uint32_t steps, const char *x, uint32_t count,
                      uint32_t terms) {
    size_t row = 4 * (size_t)count, tile = TILE * row;
    for (uint32_t s = 0; s < steps; s++, w += TILE_BYTES, x += terms * tile)
        for (uint32_t p = terms; p--;)
            add_step(w, x + p * tile, row);
}

#include "kernels/cpu/tile_weights.inc.h"

/* Rows of x as packed, and where their outputs go: out[row * out_stride + output]. */
struct tile_product {
    const struct matrix *w;
    const char *x;
    float *out;
    size_t out_stride;
    uint32_t rows, steps, terms;
};

static uint32_t steps_of(uint32_t cols) {
    return (cols + STEP - 1) / STEP;
}
static uint32_t terms_of(const struct matrix *w) {
    return w->compute == COMPUTE_BF16 ? 1 : TERMS_MAX;
}
/* Of a row as packed. A group's rows lie among each other, and behind the rows before them. */
static size_t packed_row_bytes(uint32_t steps, uint32_t terms) {
    return (size_t)steps * terms * TILE_ROW_BYTES;
}

/* ---- rows of x ---- */

/* Two vectors as three of 32 bf16, most significant first. What is not finite lies in the first
 * alone. */
ALWAYS_INLINE void three_terms(vf low, vf high, __m512i *out) {
    const __m512i top = _mm512_set1_epi32((int)0xffff0000);
    const __m512i odd = _mm512_add_epi16(
        _mm512_set1_epi32(0x00030001),
        _mm512_mullo_epi32(_mm512_set1_epi32(0x00040004),
                           _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)));
    vf rest[2] = {low, high};
    UNROLL
    for (int p = 0; p < TERMS_MAX; p++) {
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

/* A group: `count` rows at x, all of their columns. */
ALWAYS_INLINE void pack_group(const float *x, uint32_t cols, uint32_t count, const uint32_t terms,
                              char *out) {
    for (uint32_t k = 0; k < cols; k += STEP) {
        __m512i tile[TERMS_MAX][TILE];
        uint32_t low = MIN(cols - k, (uint32_t)VW), high = MIN(cols - k - low, (uint32_t)VW);
        memset(tile, 0, sizeof tile[0] * terms);
        for (uint32_t t = 0; t < count; t++) {
            const float *at = x + (size_t)t * cols + k;
            vf first = v_load_n(at, low), second = v_load_n(at + low, high);
            __m512i split[TERMS_MAX];
            if (terms == 1)
                split[0] = (__m512i)_mm512_cvtne2ps_pbh(second, first);
            else
                three_terms(first, second, split);
            for (uint32_t p = 0; p < terms; p++)
                tile[p][t] = split[p];
        }
        for (uint32_t p = 0; p < terms; p++) {
            transpose(tile[p]);
            for (int i = 0; i < TILE; i++, out += 4 * (size_t)count)
                _mm512_mask_storeu_epi32(out, v_first(count), tile[p][i]);
        }
    }
}

struct pack_task {
    const float *x;
    uint32_t cols, terms, rows;
    char *out;
};

static void pack_rows(const struct pack_task *task, uint32_t first, uint32_t count) {
    const float *x = task->x + (size_t)first * task->cols;
    char *out = task->out + first * packed_row_bytes(steps_of(task->cols), task->terms);
    if (task->terms == 1)
        pack_group(x, task->cols, count, 1, out);
    else
        pack_group(x, task->cols, count, TERMS_MAX, out);
}

/* ---- weights ---- */

/* Chunk [k, k + steps * STEP) of the 16 outputs from `first` on as tiles, those behind the matrix's
 * end zeros. Meanwhile `behind` is added; memory is asked for at the same place of the 16 outputs
 * after these. Both may be NULL and false. */
static void unpack_tile(const struct matrix *w, uint32_t first, uint32_t k, uint32_t steps,
                        char *out, struct behind *behind, bool ask) {
    for (uint32_t n = 0; n < TILE;) {
        uint32_t row = first + n;
        char *at = out + n * TILE_ROW_BYTES;
        if (row >= w->rows) {
            for (uint32_t s = 0; s < steps; s++)
                memset(at + s * TILE_BYTES, 0, (TILE - n) * (size_t)TILE_ROW_BYTES);
            break;
        }
        const struct matrix_segment *p = segment_of_row(w, &row);
        struct weight_run run = {.segment = p,
                                 .type = segment_type(w, p),
                                 .cols = w->cols,
                                 .row = row,
                                 .rows = MIN(TILE - n, p->rows - row),
                                 .k = k,
                                 .steps = steps,
                                 .out = at,
                                 .behind = behind};
        if (ask && p->rows - row > 2 * TILE)
            run.ahead = (const char *)p->data + storage_bytes(run.type, w->cols) * (row + TILE) +
                        storage_bytes(run.type, k) * TILE;
        if (UNPACK[run.type])
            UNPACK[run.type](&run);
        else
            unpack_any(&run);
        n += run.rows;
    }
}

/* Of the four tiles of a block, each CHUNK_TILE_BYTES behind the one before. */
static void unpack_block(const struct matrix *w, uint32_t first, uint32_t k, uint32_t steps,
                         char *out) {
    for (uint32_t i = 0; i < BLOCK_TILES; i++)
        unpack_tile(w, first + i * TILE, k, steps, out + i * CHUNK_TILE_BYTES, NULL, false);
}

/* Asks for rows [first, first + count), columns [k, k + CHUNK_COLS) of w, as far as there are. */
static void fetch_rows(const struct matrix *w, uint32_t first, uint32_t count, uint32_t k) {
    for (uint32_t end = MIN(first + count, w->rows); first < end;) {
        uint32_t row = first;
        const struct matrix_segment *p = segment_of_row(w, &row);
        enum storage_type type = segment_type(w, p);
        size_t row_bytes = storage_bytes(type, w->cols),
               size = storage_bytes(type, MIN(w->cols - k, (uint32_t)CHUNK_COLS));
        const char *from = (const char *)p->data + row * row_bytes + storage_bytes(type, k);
        for (; first < end && row < p->rows; first++, row++, from += row_bytes)
            for (size_t i = 0; i < size; i += 64)
                _mm_prefetch(from + i, _MM_HINT_T1);
    }
}

/* sums: [TILE, TILE] of outputs from `first` on and `count` rows from `row` on. */
static void put_outputs(const struct tile_product *p, uint32_t first, uint32_t row, uint32_t count,
                        const float *sums) {
    const struct matrix *w = p->w;
    float *out = p->out + (size_t)row * p->out_stride + first;
    if (first >= w->rows)
        return;
    uint32_t outputs = MIN(w->rows - first, (uint32_t)TILE);
    vf bias = w->bias ? v_load_n(w->bias + first, outputs) : v_set1(0);
    __m512i r[TILE];
    for (int i = 0; i < TILE; i++)
        r[i] = _mm512_maskz_loadu_epi32(v_first(count), sums + i * TILE);
    transpose(r);
    for (uint32_t t = 0; t < count; t++)
        v_store_n(out + (size_t)t * p->out_stride, v_add(_mm512_castsi512_ps(r[t]), bias), outputs);
}

/* ---- few rows ---- */

static uint32_t groups_of(const struct tile_product *p) {
    return (p->rows + TILE - 1) / TILE;
}

/* Steps [s, s + steps) of the tile of weights at w. */
static struct behind begin_behind(const struct tile_product *p, const char *w, uint32_t s,
                                  uint32_t steps) {
    uint32_t groups = groups_of(p), last = p->rows - (groups - 1) * TILE;
    struct behind b = {
        .w = w, .left = steps, .groups = groups, .terms = p->terms, .last_count = last};
    for (uint32_t g = 0; g < groups; g++)
        b.x[g] = p->x + g * TILE * packed_row_bytes(p->steps, p->terms) +
                 (size_t)s * p->terms * TILE_ROW_BYTES * (g + 1 < groups ? TILE : last);
    return b;
}

/* What is left of a tile of weights, then, if that was its last chunk, its outputs. */
static void end_behind(const struct tile_product *p, struct behind *b, uint32_t first, bool last) {
    float sums[FEW_GROUPS][TILE * TILE] __attribute__((aligned(64)));
    while (b->left)
        add_behind(b);
    if (!last)
        return;
    store_sums(sums[0]);
    clear_sums();
    for (uint32_t g = 0; g < b->groups; g++)
        put_outputs(p, first, g * TILE, g + 1 < b->groups ? TILE : b->last_count, sums[g]);
}

/* Up to FEW_GROUPS groups of rows and the outputs [first, end): a tile of weights at a time, and
 * while a chunk becomes tiles the chunk before meets the rows. */
static void multiply_few(const struct tile_product *p, uint32_t first, uint32_t end) {
    char w[2][CHUNK_TILE_BYTES] __attribute__((aligned(64)));
    struct behind behind = begin_behind(p, NULL, 0, 0);
    uint32_t before = first, turn = 0;
    bool last = false;
    configure(1u << (behind.groups - 1) | 1u << 7, behind.last_count);
    clear_sums();
    for (; first < end; first += TILE)
        for (uint32_t s = 0; s < p->steps; s += CHUNK_STEPS, turn ^= 1) {
            uint32_t steps = MIN(p->steps - s, (uint32_t)CHUNK_STEPS);
            unpack_tile(p->w, first, s * STEP, steps, w[turn], &behind, true);
            end_behind(p, &behind, before, last);
            behind = begin_behind(p, w[turn], s, steps);
            before = first;
            last = s + steps == p->steps;
        }
    end_behind(p, &behind, before, last);
}

/* ---- many rows ---- */

/* Where memory is asked for next: the chunk of weights behind this one. */
struct ahead {
    uint32_t first, k, done;
};
static void fetch_share(const struct matrix *w, struct ahead *a, uint32_t until) {
    if (until > a->done)
        fetch_rows(w, a->first + a->done, until - a->done, a->k);
    a->done = until;
}

/* Steps [s, s + steps) of one block and rows [row, row + count); carry: [group][BLOCK_ROWS, TILE]. */
static void multiply_chunk(const struct tile_product *p, uint32_t block, uint32_t s, uint32_t steps,
                           uint32_t row, uint32_t count, struct ahead ahead, float *carry) {
    char w[BLOCK_TILES * CHUNK_TILE_BYTES] __attribute__((aligned(64)));
    uint32_t first = block * BLOCK_ROWS;
    unpack_block(p->w, first, s * STEP, steps, w);
    for (uint32_t t = 0; t < count; t += TILE, carry += BLOCK_ROWS * TILE) {
        uint32_t n = MIN(count - t, (uint32_t)TILE);
        const char *x = p->x + (row + t) * packed_row_bytes(p->steps, p->terms) +
                        (size_t)s * p->terms * TILE_ROW_BYTES * n;
        if (t == 0 || n != TILE)
            configure(0x8f, n);
        if (s == 0)
            clear_sums();
        else
            load_sums(carry);
        fetch_share(p->w, &ahead, BLOCK_ROWS * (t + n) / count);
        add_chunk(w, steps, x, n, p->terms);
        store_sums(carry);
        for (uint32_t i = 0; i < BLOCK_TILES && s + steps == p->steps; i++)
            put_outputs(p, first + i * TILE, row + t, n, carry + i * TILE * TILE);
    }
}

/* Any number of rows and the blocks [block, end), UNIT_BLOCKS_MAX at most. */
static void multiply_many(const struct tile_product *p, uint32_t block, uint32_t end) {
    float carry[UNIT_BLOCKS_MAX][PASS_GROUPS * BLOCK_ROWS * TILE] __attribute__((aligned(64)));
    for (uint32_t row = 0; row < p->rows; row += PASS_ROWS) {
        uint32_t count = MIN(p->rows - row, (uint32_t)PASS_ROWS);
        for (uint32_t s = 0; s < p->steps; s += CHUNK_STEPS) {
            uint32_t steps = MIN(p->steps - s, (uint32_t)CHUNK_STEPS);
            for (uint32_t b = block; b < end; b++) {
                bool last = b + 1 == end;
                struct ahead ahead = {.first = (last ? block : b + 1) * BLOCK_ROWS,
                                      .k = (last ? s + steps : s) * STEP};
                if (ahead.k >= p->w->cols)
                    ahead = (struct ahead){.first = end * BLOCK_ROWS};
                multiply_chunk(p, b, s, steps, row, count, ahead, carry[b - block]);
            }
        }
    }
}

static void multiply_blocks(const struct tile_product *p, uint32_t block, uint32_t end) {
    if (p->rows <= FEW_GROUPS * TILE)
        multiply_few(p, block * BLOCK_ROWS, MIN(end * BLOCK_ROWS, p->w->rows));
    else
        multiply_many(p, block, end);
    tiles_release();
}

/* ---- linear ---- */

bool cpu_tiles_take(const struct matrix *w) {
    return w->type == STORAGE_BF16 && matrix_is_plain(w) && w->cols >= STEP &&
           TILE * packed_row_bytes(steps_of(w->cols), TERMS_MAX) <= CPU_PACK_BYTES;
}

struct linear_task {
    struct pack_task pack;
    struct tile_product product;
    uint32_t blocks, blocks_a_unit;
};

static void pack_unit(void *ctx, size_t group, int thread_idx) {
    const struct linear_task *task = ctx;
    uint32_t first = (uint32_t)group * TILE;
    pack_rows(&task->pack, first, MIN(task->pack.rows - first, (uint32_t)TILE));
}

static void multiply_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct linear_task *task = ctx;
    uint32_t block = (uint32_t)unit_idx * task->blocks_a_unit;
    multiply_blocks(&task->product, block, MIN(block + task->blocks_a_unit, task->blocks));
}

/* Blocks of a unit: more read a chunk's rows less often, but leave fewer units to balance. */
static uint32_t blocks_of_unit(uint32_t blocks) {
    uint32_t n = 1;
    while (n < UNIT_BLOCKS_MAX && blocks / n > 8)
        n *= 2;
    return n;
}

void cpu_tile_linear(struct stream *s, const struct op_linear *a) {
    const struct matrix *w = a->w;
    uint32_t terms = terms_of(w), steps = steps_of(w->cols);
    char *x = ((struct cpu_device *)s->dev)->pack;
    size_t row_bytes = packed_row_bytes(steps, terms);
    uint32_t pass = (uint32_t)MIN(CPU_PACK_BYTES / row_bytes, (size_t)PASS_ROWS) / TILE * TILE;
    CHECK(pass > 0);
    struct linear_task task = {
        .pack = {.cols = w->cols, .terms = terms, .out = x},
        .product = {.w = w, .x = x, .out_stride = a->out_stride, .steps = steps, .terms = terms},
        .blocks = (w->rows + BLOCK_ROWS - 1) / BLOCK_ROWS};
    task.blocks_a_unit = blocks_of_unit(task.blocks);
    for (uint32_t t = 0; t < a->rows; t += pass) {
        uint32_t rows = MIN(a->rows - t, pass);
        task.pack.x = (const float *)a->x + (size_t)t * w->cols;
        task.pack.rows = task.product.rows = rows;
        task.product.out = (float *)a->out + (size_t)t * a->out_stride;
        cpu_loop(s, (rows + TILE - 1) / TILE, (size_t)rows * w->cols, pack_unit, &task);
        cpu_loop(s, (task.blocks + task.blocks_a_unit - 1) / task.blocks_a_unit,
                 (size_t)rows * w->rows * w->cols / VW, multiply_unit, &task);
    }
}

/* ---- mixtures ---- */

struct expert_task {
    const struct op_expert_linear *a;
    struct expert_range range;
    struct pack_task pack; /* the range's pairs */
    uint32_t steps;
    uint32_t units, blocks, blocks_a_unit; /* of one expert */
};

static void expert_pack_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct expert_task *task = ctx;
    uint32_t first,
        count = expert_range_pairs(task->a, &task->range, task->range.experts[unit_idx], &first);
    for (uint32_t t = 0; t < count; t += TILE)
        pack_rows(&task->pack, first + t, MIN(count - t, (uint32_t)TILE));
}

static void expert_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct expert_task *task = ctx;
    const struct op_expert_linear *a = task->a;
    uint32_t e = task->range.experts[unit_idx / task->units], first,
             count = expert_range_pairs(a, &task->range, e, &first),
             block = (uint32_t)(unit_idx % task->units) * task->blocks_a_unit;
    struct tile_product p = {.w = &a->w->experts[e],
                             .x = task->pack.out + first * packed_row_bytes(task->steps, 1),
                             .out =
                                 (float *)a->out + (size_t)(task->range.first + first) * a->w->rows,
                             .out_stride = a->w->rows,
                             .rows = count,
                             .steps = task->steps,
                             .terms = 1};
    multiply_blocks(&p, block, MIN(block + task->blocks_a_unit, task->blocks));
}

void cpu_tile_expert_linear(struct stream *s, const struct op_expert_linear *a) {
    uint32_t cols = a->w->cols, steps = steps_of(cols),
             pass = (uint32_t)(CPU_PACK_BYTES / packed_row_bytes(steps, 1)),
             blocks = (a->w->rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
    struct expert_task task = {
        .a = a,
        .pack = {.cols = cols, .terms = 1, .out = ((struct cpu_device *)s->dev)->pack},
        .steps = steps,
        .blocks = blocks,
        .blocks_a_unit = blocks_of_unit(blocks)};
    task.units = (blocks + task.blocks_a_unit - 1) / task.blocks_a_unit;
    while (expert_range_next(a, pass, &task.range)) {
        size_t active = task.range.active, values = (size_t)task.range.count * cols;
        task.pack.x = (const float *)a->x + (size_t)task.range.first * cols;
        task.pack.rows = task.range.count;
        cpu_loop(s, active, values, expert_pack_unit, &task);
        cpu_loop(s, active * task.units, values * a->w->rows / VW, expert_unit, &task);
    }
}
