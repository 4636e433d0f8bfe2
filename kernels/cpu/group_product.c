/*
 * group_product.c - products of integers in groups of 128 columns on AMX's tiles (group_product.h).
 *
 * The first operand of a tile product is 16 outputs x 64 columns of weights, the second 64 columns x
 * up to 16 rows of x, packed once into the device's `pack`: of 16 rows at a time [group][step][four
 * columns][row][4], then d of [group][row]. Two steps make a tile of integer sums for each group,
 * which goes to memory and from there, while the next group is multiplied, into f32 sums: 16
 * registers, one for each output, whose lanes are the rows of x.
 *
 * Codes become bytes by a table of 16 for each block, made in registers. Up to 16 rows: a panel from
 * end to end, a group is unpacked while the group before is multiplied. More: CHUNK_GROUPS of
 * PANELS_MAX panels become tiles, which stay in the first cache, and meet all rows; the sums of a
 * chunk wait in `carry` for the next one.
 */
#include "kernels/cpu/group_product.h"
#include "kernels/cpu/expert_range.h"

#include "kernels/cpu/tiles.h"
#include "kernels/cpu/vec_avx512.h"
#include "kernels/integer_groups.h"

#include "kernels/cpu/math.inc.h"

#include "kernels/cpu/dequantize.inc.h"

#include "kernels/cpu/transpose.h"

enum {
    TILE = 16,
    LINE = 64,
    TILE_BYTES = TILE * LINE,
    STEPS = 2, /* of a group */
    GROUP_BYTES = STEPS * TILE_BYTES,
    CHUNK_GROUPS = 4,
    PANELS_MAX = 4, /* of a block of outputs */
    PASS_ROWS = 512,
    LAG = 2,
    RING = 4,
    FETCH_AHEAD = 4096
};

/* How a segment's groups are stored. */
enum body { BODY_CODES, BODY_MINIMA, BODY_VALUES };

static enum body body_of(const struct matrix *w, const struct matrix_segment *p) {
    if (!segment_has_codes(w, p))
        return BODY_VALUES;
    enum storage_type type = segment_type(w, p);
    return type == STORAGE_Q4_1 || type == STORAGE_Q4_K || type == STORAGE_U4 ? BODY_MINIMA
                                                                              : BODY_CODES;
}
ALWAYS_INLINE size_t body_bytes(enum body body) {
    return body == BODY_VALUES ? GROUP_BYTES : TILE_BYTES + LINE * (body == BODY_MINIMA ? 2 : 1);
}
static uint32_t groups_of(uint32_t cols) {
    return (cols + GROUP_COLS - 1) / GROUP_COLS;
}
static uint32_t panels_of(const struct matrix_segment *p) {
    return (p->rows + TILE - 1) / TILE;
}
/* Of a panel's scales. */
static size_t scales_bytes(uint32_t groups) {
    return ((size_t)groups * TILE * 2 + LINE - 1) / LINE * LINE;
}
static size_t panel_bytes(const struct matrix *w, const struct matrix_segment *p) {
    uint32_t groups = groups_of(w->cols);
    return scales_bytes(groups) + groups * body_bytes(body_of(w, p));
}

/* Asks for a line of memory. Spread over what is computed meanwhile, and kept there: a group's lines
 * asked for at once hold up the loads behind them. An address that is none does no harm. */
#define FETCH_LINE(at) __asm__ volatile("prefetcht0 (%0)" ::"r"(at))
ALWAYS_INLINE void fetch(const uint8_t *from, size_t size) {
    for (size_t i = 0; i < size; i += LINE)
        FETCH_LINE(from + i);
}

/* ---- weights ---- */

/* segment_group's values of 128 weights: two steps, TILE_BYTES apart. */
static uint16_t quantize_weights(const float *x, uint8_t *out) {
    vf most = v_set1(0), strange = most;
    for (int i = 0; i < GROUP_COLS; i += VW) {
        vf v = v_load(x + i);
        most = _mm512_max_ps(most, _mm512_abs_ps(v));
        strange = v_add(strange, _mm512_sub_ps(v, v)); /* NaN where it is not finite */
    }
    bool finite = !_mm512_cmp_ps_mask(strange, strange, _CMP_UNORD_Q);
    uint16_t scale = group_scale(finite ? _mm512_reduce_max_ps(most) : __builtin_nanf(""), 127);
    vf inverse = v_set1(finite && scale ? 1 / bf16_to_f32(scale) : 0);
    for (int i = 0; i < GROUP_COLS / VW; i++) {
        vf v = finite ? v_load(x + i * VW) : v_set1(0);
        _mm_storeu_si128((__m128i *)(void *)(out + i % 2 * TILE_BYTES + i / 2 * VW),
                         _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(v, inverse))));
    }
    return scale;
}

/* Group `group` of one output, which is lane `lane` of its panel. */
static void pack_output(const struct matrix *w, const struct matrix_segment *p, uint32_t row,
                        uint32_t group, uint32_t lane, uint16_t *scales, uint8_t *body) {
    enum body kind = body_of(w, p);
    if (kind != BODY_VALUES) {
        struct code_group codes;
        segment_codes(w, p, row, group, &codes);
        scales[lane] = codes.scale;
        memcpy(body + lane * GROUP_BLOCKS, codes.slope, GROUP_BLOCKS);
        if (kind == BODY_MINIMA)
            memcpy(body + LINE + lane * GROUP_BLOCKS, codes.offset, GROUP_BLOCKS);
        memcpy(body + body_bytes(kind) - TILE_BYTES + lane * LINE, codes.nibbles, LINE);
        return;
    }
    float x[2 * GROUP_COLS] __attribute__((aligned(64))) = {0};
    enum storage_type type = segment_type(w, p);
    uint32_t first = group * GROUP_COLS,
             block = MAX(storage_block(type), (uint32_t)GROUP_COLS), /* whole ones are made */
        from = first / block * block;
    DEQUANTIZE[type](p, w->cols, row, from, MIN(w->cols - from, block), x);
    scales[lane] = quantize_weights(x + (first - from), body + lane * LINE);
}

/* Group `group` of a panel. */
static void pack_group(const struct matrix *w, const struct matrix_segment *p, uint32_t panel,
                       uint32_t group, uint16_t *scales, uint8_t *body) {
    uint32_t count = MIN(p->rows - panel * TILE, (uint32_t)TILE);
    if (count < TILE) {
        memset(scales, 0, TILE * sizeof *scales);
        memset(body, 0, body_bytes(body_of(w, p)));
    }
    for (uint32_t i = 0; i < count; i++)
        pack_output(w, p, panel * TILE + i, group, i, scales, body);
}

size_t cpu_group_packed_bytes(const struct matrix *w, const struct matrix_segment *p) {
    return panels_of(p) * panel_bytes(w, p);
}

struct weights_task {
    const struct matrix *w;
    const struct matrix_segment *segment;
    uint8_t *out;
};

static void pack_panel(void *ctx, size_t panel, int thread_idx) {
    const struct weights_task *task = ctx;
    uint32_t groups = groups_of(task->w->cols);
    uint8_t *out = task->out + panel * panel_bytes(task->w, task->segment),
            *body = out + scales_bytes(groups);
    for (uint32_t g = 0; g < groups; g++)
        pack_group(task->w, task->segment, (uint32_t)panel, g, (uint16_t *)out + g * TILE,
                   body + g * body_bytes(body_of(task->w, task->segment)));
}

void cpu_group_pack(struct stream *s, const struct matrix *w, const struct matrix_segment *p,
                    uint8_t *out) {
    cpu_loop(s, panels_of(p), (size_t)p->rows * w->cols, pack_panel,
             &(struct weights_task){w, p, out});
}

/* One group of a panel, packed before or, in `own`, now. */
struct unit {
    const uint16_t *scales;
    const uint8_t *body;
};
struct own_unit {
    uint8_t body[GROUP_BYTES] __attribute__((aligned(64)));
    uint16_t scales[TILE];
};

/* A panel of a segment. */
struct panel {
    const struct matrix *w;
    const struct matrix_segment *segment;
    const int16_t *steps;  /* of its codes */
    const uint8_t *packed; /* or NULL */
    uint32_t idx, groups;
    enum body body;
};

static struct panel panel_at(const struct matrix *w, const struct matrix_segment *p, uint32_t idx) {
    struct panel out = {
        .w = w, .segment = p, .idx = idx, .groups = groups_of(w->cols), .body = body_of(w, p)};
    if (out.body != BODY_VALUES)
        out.steps = group_steps(segment_type(w, p));
    if (p->packed)
        out.packed = (const uint8_t *)p->packed + idx * panel_bytes(w, p);
    return out;
}
ALWAYS_INLINE struct unit unit_at(const struct panel *p, const enum body body, uint32_t group,
                                  struct own_unit *own) {
    if (p->packed)
        return (struct unit){(const uint16_t *)p->packed + group * TILE,
                             p->packed + scales_bytes(p->groups) + group * body_bytes(body)};
    pack_group(p->w, p->segment, p->idx, group, own->scales, own->body);
    return (struct unit){own->scales, own->body};
}

ALWAYS_INLINE vf scales_at(const uint16_t *scales) {
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)scales)), 16));
}

/* Lanes of 128 bits are blocks: of each the low 8 steps, the high 8. */
struct steps {
    __m512i low, high;
};
ALWAYS_INLINE struct steps load_steps(const int16_t *steps) {
    return (struct steps){_mm512_broadcast_i32x4(_mm_loadu_si128((const void *)steps)),
                          _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)(steps + 8)))};
}

/* What codes of a group mean: output i's 16 values in each lane, a lane for each block. */
struct code_tables {
    __m512i slopes, offsets;
};
ALWAYS_INLINE struct code_tables open_codes(const enum body body, const uint8_t *from) {
    return (struct code_tables){_mm512_load_si512(from), body == BODY_MINIMA
                                                             ? _mm512_load_si512(from + LINE)
                                                             : _mm512_setzero_si512()};
}
ALWAYS_INLINE __m512i code_table(const enum body body, const struct code_tables *t,
                                 const struct steps *steps, int i) {
    const __mmask64 high_bytes = 0xaaaaaaaaaaaaaaaa;
    __m512i at = _mm512_add_epi32(_mm512_set1_epi32(i * 0x04040404),
                                  _mm512_set_epi32(0x03030303, 0x03030303, 0x03030303, 0x03030303,
                                                   0x02020202, 0x02020202, 0x02020202, 0x02020202,
                                                   0x01010101, 0x01010101, 0x01010101, 0x01010101,
                                                   0, 0, 0, 0)),
            slope = _mm512_maskz_permutexvar_epi8(high_bytes, at, t->slopes), /* times 256 */
        table = _mm512_packs_epi16(_mm512_mulhrs_epi16(steps->low, slope),
                                   _mm512_mulhrs_epi16(steps->high, slope));
    return body == BODY_MINIMA ? _mm512_add_epi8(table, _mm512_permutexvar_epi8(at, t->offsets))
                               : table;
}
ALWAYS_INLINE __m512i low_codes(__m512i q) {
    return _mm512_and_si512(q, _mm512_set1_epi8(15));
}
ALWAYS_INLINE __m512i high_codes(__m512i q) {
    return low_codes(_mm512_srli_epi16(q, 4));
}

/* A group's codes as two steps of values; 16 lines from `ahead` on are asked for. */
ALWAYS_INLINE void unpack_codes(const enum body body, const uint8_t *from,
                                const struct steps *steps, const uint8_t *ahead, uint8_t *out) {
    struct code_tables tables = open_codes(body, from);
    const uint8_t *nibbles = from + body_bytes(body) - TILE_BYTES;
    UNROLL
    for (int i = 0; i < TILE; i++) {
        __m512i table = code_table(body, &tables, steps, i),
                q = _mm512_load_si512(nibbles + i * LINE);
        FETCH_LINE(ahead + i * LINE);
        _mm512_store_si512(out + i * LINE, _mm512_shuffle_epi8(table, low_codes(q)));
        _mm512_store_si512(out + TILE_BYTES + i * LINE, _mm512_shuffle_epi8(table, high_codes(q)));
    }
}

/* ---- rows of x ---- */

/* Of a row as packed. A tile's rows lie among each other, and behind the rows before them. */
static size_t packed_row_bytes(uint32_t groups) {
    return (size_t)groups * (GROUP_COLS + sizeof(float));
}

/* 128 activations of a row, `count` of them in the row, into the tiles of its group. */
ALWAYS_INLINE float quantize_group(const float *x, uint32_t count, __m512i *first,
                                   __m512i *second) {
    vf v[8], most = v_set1(0), strange = v_set1(0);
    UNROLL
    for (uint32_t i = 0; i < 8; i++) {
        v[i] = v_load_n(x + 16 * i, count > 16 * i ? MIN(count - 16 * i, 16u) : 0);
        most = _mm512_max_ps(most, _mm512_abs_ps(v[i]));
        strange = v_add(strange, _mm512_sub_ps(v[i], v[i])); /* NaN where it is not finite */
    }
    float m = _mm512_reduce_max_ps(most);
    bool finite = !_mm512_cmp_ps_mask(strange, strange, _CMP_UNORD_Q);
    float factor = finite && m >= 0x1p-100f ? 127.0f / m : 0;
    __m128i bytes[8];
    UNROLL
    for (int i = 0; i < 8; i++)
        bytes[i] =
            factor != 0
                ? _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(v[i], v_set1(factor))))
                : _mm_setzero_si128();
    for (int i = 0; i < 4; i++) {
        memcpy((char *)first + 16 * i, &bytes[2 * i], 16);
        memcpy((char *)second + 16 * i, &bytes[2 * i + 1], 16);
    }
    return !finite ? __builtin_nanf("") : factor != 0 ? m / 127.0f : 0;
}

/* Up to 16 rows at x. */
static void pack_rows(const float *x, uint32_t cols, uint32_t count, char *out) {
    uint32_t groups = groups_of(cols);
    float *d = (float *)(out + (size_t)groups * GROUP_COLS * count);
    for (uint32_t g = 0; g < groups; g++, d += count) {
        __m512i tile[STEPS][TILE];
        memset(tile, 0, sizeof tile);
        for (uint32_t t = 0; t < count; t++)
            d[t] = quantize_group(x + (size_t)t * cols + g * GROUP_COLS,
                                  MIN(cols - g * GROUP_COLS, (uint32_t)GROUP_COLS), &tile[0][t],
                                  &tile[1][t]);
        for (int step = 0; step < STEPS; step++) {
            transpose(tile[step]);
            for (int i = 0; i < TILE; i++, out += 4 * (size_t)count)
                _mm512_mask_storeu_epi32(out, v_first(count), tile[step][i]);
        }
    }
}

/* `count` rows as packed, from a group on. */
struct packed_rows {
    const char *x;
    const float *d;
    uint32_t count;
};
/* Rows [row, row + count) of those at x. */
static struct packed_rows rows_at(const char *x, uint32_t groups, uint32_t row, uint32_t count,
                                  uint32_t group) {
    x += row * packed_row_bytes(groups);
    return (struct packed_rows){
        x + (size_t)group * GROUP_COLS * count,
        (const float *)(x + (size_t)groups * GROUP_COLS * count) + (size_t)group * count, count};
}

/* ---- sums ---- */

/* Tiles 0 and 1: sums; 2, 3, 6, 7: weights; 4, 5: rows of x. */
static void configure(uint32_t count) {
    struct tile_config config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.rows[i] = TILE;
        config.row_bytes[i] = (uint16_t)(0x33 >> i & 1 ? 4 * count : LINE);
    }
    tiles_configure(&config);
}

typedef int32_t sum_tile[TILE][TILE]; /* [output][row] */

/* The sums of a group: its weights' two steps at w, its rows at x. */
#define TILE_SUMS(c, first, second, w, x, x_row, out)                                              \
    TILE_ZERO(c);                                                                                  \
    TILE_LOAD(first, w, LINE);                                                                     \
    TILE_LOAD(4, x, x_row);                                                                        \
    TILE_ADD_INT8_DOT(c, first, 4);                                                                \
    TILE_LOAD(second, (w) + TILE_BYTES, LINE);                                                     \
    TILE_LOAD(5, (x) + TILE * (x_row), x_row);                                                     \
    TILE_ADD_INT8_DOT(c, second, 5);                                                               \
    TILE_STORE(c, out, LINE)
ALWAYS_INLINE void group_sums(uint32_t g, const uint8_t *w, const struct packed_rows *r,
                              sum_tile sums) {
    const size_t row = 4 * (size_t)r->count;
    const char *x = r->x + g * row * (GROUP_COLS / 4);
    if (g % 2) {
        TILE_SUMS(1, 6, 7, w, x, row, sums);
    } else {
        TILE_SUMS(0, 2, 3, w, x, row, sums);
    }
}

/* Their share of the f32 sums: lanes are rows. scales: D of the outputs. 16 lines from `ahead` on
 * are asked for. */
ALWAYS_INLINE void add_sums(const float *scales, const struct packed_rows *r, uint32_t g,
                            sum_tile sums, const uint8_t *ahead, vf acc[TILE]) {
    vf d = v_load_n(r->d + (size_t)g * r->count, r->count);
    UNROLL
    for (int i = 0; i < TILE; i++) {
        FETCH_LINE(ahead + i * LINE);
        acc[i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_load_si512(sums[i])),
                                 _mm512_mul_ps(d, v_set1(scales[i])), acc[i]);
    }
}

/* ---- products ---- */

/* Rows of x as packed, and where their outputs go: out[row * out_stride + output]. */
struct group_product {
    const struct matrix *w;
    const char *x;
    float *out;
    size_t out_stride;
    uint32_t rows;
};

static uint32_t outputs_of(const struct panel *p) {
    return MIN(p->segment->rows - p->idx * TILE, (uint32_t)TILE);
}

/* acc: of a panel's outputs, which begin at output `first` of the matrix, and rows [row, row +
 * count). */
static void put_outputs(const struct group_product *p, const struct panel *panel, uint32_t first,
                        uint32_t row, uint32_t count, vf acc[TILE]) {
    uint32_t outputs = outputs_of(panel);
    float *out = p->out + (size_t)row * p->out_stride + first;
    vf bias = p->w->bias ? v_load_n(p->w->bias + first, outputs) : v_set1(0);
    __m512i r[TILE];
    for (int i = 0; i < TILE; i++)
        r[i] = _mm512_castps_si512(acc[i]);
    transpose(r);
    for (uint32_t t = 0; t < count; t++)
        v_store_n(out + (size_t)t * p->out_stride, v_add(_mm512_castsi512_ps(r[t]), bias), outputs);
}

/* Up to 16 rows and a panel from end to end: group g is unpacked, g - 1 multiplied, g - 2 added. */
ALWAYS_INLINE void few_rows(const enum body body, const struct panel *p,
                            const struct packed_rows *r, vf acc[TILE]) {
    uint8_t tiles[RING][GROUP_BYTES] __attribute__((aligned(64)));
    float scales[2 * RING][TILE] __attribute__((aligned(64)));
    sum_tile sums[RING] __attribute__((aligned(64)));
    struct own_unit own[RING];
    const uint8_t *w[RING] = {tiles[0], tiles[0], tiles[0], tiles[0]};
    struct steps steps = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    if (body != BODY_VALUES)
        steps = load_steps(p->steps);
    UNROLL
    for (int i = 0; i < TILE; i++)
        acc[i] = v_set1(0);
    for (uint32_t g = 0; g < p->groups + 2 * LAG; g++) {
        const uint8_t *ahead = w[(g - LAG) % RING];
        struct unit unit;
        if (g < p->groups) {
            unit = unit_at(p, body, g, &own[g % RING]);
            ahead = unit.body + FETCH_AHEAD;
        }
        if (g >= 2 * LAG)
            add_sums(scales[(g - 2 * LAG) % (2 * RING)], r, g - 2 * LAG, sums[g % RING],
                     ahead + body_bytes(body) - TILE_BYTES, acc);
        if (g >= LAG && g < p->groups + LAG)
            group_sums(g - LAG, w[(g - LAG) % RING], r, sums[(g - LAG) % RING]);
        if (g >= p->groups)
            continue;
        _mm512_store_ps(scales[g % (2 * RING)], scales_at(unit.scales));
        w[g % RING] = body == BODY_VALUES ? unit.body : tiles[g % RING];
        if (body == BODY_VALUES)
            fetch(ahead, TILE_BYTES);
        else
            unpack_codes(body, unit.body, &steps, ahead, tiles[g % RING]);
    }
}
#define FEW_ROWS(name, body)                                                                       \
    static void few_rows_##name(const struct group_product *p, const struct panel *panel,          \
                                uint32_t first) {                                                  \
        struct packed_rows r = rows_at(p->x, panel->groups, 0, p->rows, 0);                        \
        vf acc[TILE];                                                                              \
        few_rows(body, panel, &r, acc);                                                            \
        put_outputs(p, panel, first, 0, p->rows, acc);                                             \
    }
FEW_ROWS(codes, BODY_CODES)
FEW_ROWS(minima, BODY_MINIMA)
FEW_ROWS(values, BODY_VALUES)
static void (*const FEW[])(const struct group_product *p, const struct panel *panel,
                           uint32_t first) = {[BODY_CODES] = few_rows_codes,
                                              [BODY_MINIMA] = few_rows_minima,
                                              [BODY_VALUES] = few_rows_values};

#include "kernels/cpu/group_row.inc.h"

/* ---- many rows ---- */

/* Some groups of a panel as tiles. */
struct chunk {
    uint8_t tiles[CHUNK_GROUPS][GROUP_BYTES];
    float scales[CHUNK_GROUPS][TILE];
};

static void unpack_chunk(const struct panel *p, uint32_t first, uint32_t count, struct chunk *out) {
    struct own_unit own;
    struct steps steps;
    if (p->body != BODY_VALUES)
        steps = load_steps(p->steps);
    for (uint32_t g = 0; g < count; g++) {
        struct unit unit = unit_at(p, p->body, first + g, &own);
        _mm512_store_ps(out->scales[g], scales_at(unit.scales));
        if (p->body == BODY_VALUES)
            memcpy(out->tiles[g], unit.body, GROUP_BYTES);
        else if (p->body == BODY_MINIMA)
            unpack_codes(BODY_MINIMA, unit.body, &steps, unit.body, out->tiles[g]);
        else
            unpack_codes(BODY_CODES, unit.body, &steps, unit.body, out->tiles[g]);
    }
}

/* A chunk meets up to 16 rows: acc += its sums. */
static void add_chunk(const struct chunk *w, uint32_t groups, const struct packed_rows *r,
                      const uint8_t *ahead, size_t ahead_step, vf acc[TILE]) {
    sum_tile sums[2] __attribute__((aligned(64)));
    vf own[TILE];
    UNROLL
    for (int i = 0; i < TILE; i++)
        own[i] = acc[i];
    group_sums(0, w->tiles[0], r, sums[0]);
    for (uint32_t g = 0; g < groups; g++) {
        if (g + 1 < groups)
            group_sums(g + 1, w->tiles[g + 1], r, sums[(g + 1) % 2]);
        add_sums(w->scales[g], r, g, sums[g % 2], ahead + g * ahead_step, own);
    }
    UNROLL
    for (int i = 0; i < TILE; i++)
        acc[i] = own[i];
}

/* Where the group's body lies, or that of the panel as many further on as a block has. */
static const uint8_t *ahead_of(const struct panel *p, uint32_t group) {
    if (!p->packed)
        return NULL;
    const uint8_t *from = p->packed + scales_bytes(p->groups);
    return group < p->groups ? from + group * body_bytes(p->body)
                             : from + PANELS_MAX * panel_bytes(p->w, p->segment);
}

/* Panels [panel, panel + count) of a segment, PANELS_MAX at most. */
static void many_rows(const struct group_product *p, const struct panel *panels, uint32_t count,
                      uint32_t first) {
    struct chunk w[PANELS_MAX] __attribute__((aligned(64)));
    vf carry[PASS_ROWS / TILE][PANELS_MAX][TILE];
    for (uint32_t pass = 0; pass < p->rows; pass += PASS_ROWS) {
        uint32_t rows = MIN(p->rows - pass, (uint32_t)PASS_ROWS), groups = panels->groups;
        memset(carry, 0, (rows + TILE - 1) / TILE * sizeof *carry);
        for (uint32_t g = 0; g < groups; g += CHUNK_GROUPS) {
            uint32_t some = MIN(groups - g, (uint32_t)CHUNK_GROUPS);
            for (uint32_t i = 0; i < count; i++)
                unpack_chunk(&panels[i], g, some, &w[i]);
            for (uint32_t t = 0; t < rows; t += TILE) {
                uint32_t n = MIN(rows - t, (uint32_t)TILE);
                struct packed_rows r = rows_at(p->x, groups, pass + t, n, g);
                if (t == 0 || n != TILE)
                    configure(n);
                for (uint32_t i = 0; i < count; i++) {
                    add_chunk(
                        &w[i], some, &r,
                        t < STEPS * TILE ? ahead_of(&panels[i], g + some) + t / TILE * TILE_BYTES
                                         : w[i].tiles[0],
                        t < STEPS * TILE ? body_bytes(panels[i].body) : 0, carry[t / TILE][i]);
                    if (g + some == groups)
                        put_outputs(p, &panels[i], first + i * TILE, pass + t, n,
                                    carry[t / TILE][i]);
                }
            }
        }
    }
}

/* ---- blocks of outputs ---- */

static uint32_t segment_blocks(const struct matrix_segment *p) {
    return (panels_of(p) + PANELS_MAX - 1) / PANELS_MAX;
}
static uint32_t count_blocks(const struct matrix *w) {
    uint32_t blocks = 0;
    for (uint32_t i = 0; i < w->segment_count; i++)
        blocks += segment_blocks(&w->segments[i]);
    return blocks;
}

/* Block `block` of those of all segments. */
static void multiply_block(const struct group_product *p, uint32_t block) {
    const struct matrix_segment *segment = p->w->segments;
    uint32_t first = 0;
    for (; block >= segment_blocks(segment); first += segment++->rows)
        block -= segment_blocks(segment);
    struct panel panels[PANELS_MAX];
    uint32_t idx = block * PANELS_MAX, count = MIN(panels_of(segment) - idx, (uint32_t)PANELS_MAX);
    first += idx * TILE;
    for (uint32_t i = 0; i < count; i++)
        panels[i] = panel_at(p->w, segment, idx + i);
    if (p->rows > TILE) {
        many_rows(p, panels, count, first);
        return;
    }
    if (p->rows > 1)
        configure(p->rows);
    for (uint32_t i = 0; i < count && p->rows == 1; i++)
        multiply_row(p, &panels[i], first + i * TILE);
    for (uint32_t i = 0; i < count && p->rows > 1; i++)
        FEW[panels[i].body](p, &panels[i], first + i * TILE);
}

static void multiply_blocks(const struct group_product *p, uint32_t block, uint32_t end) {
    for (; block < end; block++)
        multiply_block(p, block);
    tiles_release();
}

/* ---- linear ---- */

struct linear_task {
    struct group_product product;
    const float *x;
    char *packed;
    uint32_t blocks, blocks_a_unit;
};

static void pack_unit(void *ctx, size_t unit, int thread_idx) {
    const struct linear_task *task = ctx;
    uint32_t first = (uint32_t)unit * TILE, cols = task->product.w->cols;
    pack_rows(task->x + (size_t)first * cols, cols, MIN(task->product.rows - first, (uint32_t)TILE),
              task->packed + first * packed_row_bytes(groups_of(cols)));
}

static void multiply_unit(void *ctx, size_t unit, int thread_idx) {
    const struct linear_task *task = ctx;
    uint32_t block = (uint32_t)unit * task->blocks_a_unit;
    multiply_blocks(&task->product, block, MIN(block + task->blocks_a_unit, task->blocks));
}

void cpu_group_linear(struct stream *s, const struct op_linear *a) {
    const struct matrix *w = a->w;
    char *packed = ((struct cpu_device *)s->dev)->pack;
    uint32_t pass =
        (uint32_t)MIN(CPU_PACK_BYTES / packed_row_bytes(groups_of(w->cols)), (size_t)PASS_ROWS) /
        TILE * TILE;
    CHECK(pass > 0);
    struct linear_task task = {.product = {.w = w, .x = packed, .out_stride = a->out_stride},
                               .packed = packed,
                               .blocks = count_blocks(w)};
    task.blocks_a_unit = task.blocks / 64 + 1;
    for (uint32_t t = 0; t < a->rows; t += pass) {
        uint32_t rows = MIN(a->rows - t, pass);
        task.x = (const float *)a->x + (size_t)t * w->cols;
        task.product.rows = rows;
        task.product.out = (float *)a->out + (size_t)t * a->out_stride;
        cpu_loop(s, (rows + TILE - 1) / TILE, (size_t)rows * w->cols / 4, pack_unit, &task);
        cpu_loop(s, (task.blocks + task.blocks_a_unit - 1) / task.blocks_a_unit,
                 (size_t)rows * w->rows * w->cols / 32, multiply_unit, &task);
    }
}

/* ---- mixtures ---- */

struct expert_task {
    const struct op_expert_linear *a;
    struct expert_range range;
    char *packed;    /* the range's pairs */
    uint32_t blocks; /* of one expert */
};

static void expert_pack_unit(void *ctx, size_t unit, int thread_idx) {
    const struct expert_task *task = ctx;
    uint32_t cols = task->a->w->cols, first,
             count = expert_range_pairs(task->a, &task->range, task->range.experts[unit], &first);
    for (uint32_t t = first; t < first + count; t += TILE)
        pack_rows((const float *)task->a->x + (size_t)(task->range.first + t) * cols, cols,
                  MIN(first + count - t, (uint32_t)TILE),
                  task->packed + t * packed_row_bytes(groups_of(cols)));
}

static void expert_unit(void *ctx, size_t unit, int thread_idx) {
    const struct expert_task *task = ctx;
    const struct op_expert_linear *a = task->a;
    uint32_t e = task->range.experts[unit / task->blocks], first,
             count = expert_range_pairs(a, &task->range, e, &first),
             block = (uint32_t)(unit % task->blocks);
    struct group_product p = {.w = &a->w->experts[e],
                              .x = task->packed + first * packed_row_bytes(groups_of(a->w->cols)),
                              .out = (float *)a->out +
                                     (size_t)(task->range.first + first) * a->w->rows,
                              .out_stride = a->w->rows,
                              .rows = count};
    multiply_blocks(&p, block, block + 1);
}

void cpu_group_expert_linear(struct stream *s, const struct op_expert_linear *a) {
    uint32_t cols = a->w->cols,
             pass = (uint32_t)(CPU_PACK_BYTES / packed_row_bytes(groups_of(cols)));
    struct expert_task task = {.a = a,
                               .packed = ((struct cpu_device *)s->dev)->pack,
                               .blocks = count_blocks(&a->w->experts[0])};
    while (expert_range_next(a, pass, &task.range)) {
        size_t active = task.range.active, values = (size_t)task.range.count * cols;
        cpu_loop(s, active, values / 4, expert_pack_unit, &task);
        cpu_loop(s, active * task.blocks, values * a->w->rows / 32, expert_unit, &task);
    }
}
