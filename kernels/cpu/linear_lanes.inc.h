/*
 * linear_lanes.inc.h - many rows on vectors of 8 lanes, the same chains as linear.inc.h's tiles: lane
 * i of an output there, columns i, i + 8, i + 16 and so on, is here one lane of a vector of outputs.
 *
 * So a tile of LANE_ROWS rows and LANE_OUTPUTS outputs walks one lane's columns with both in order in
 * memory, and its chains go on LANE_STEPS steps before they wait in `sums`, not a few. x is put into
 * that order once for a product, weights once for LANE_PASS rows. The lanes' sums are added in the
 * order of v_hsum.
 */
enum {
    LANE_STEPS = 256,
    LANE_WIDTH = LANE_STEPS * VW, /* columns of a block */
    LANE_ROWS = 6,
    LANE_OUTPUTS = UNIT_COLUMNS,
    LANE_PANELS = 2, /* of so many outputs, which meet a lane of x while it is in a second cache */
    LANE_PASS = 16 * LANE_ROWS,
    LANE_ROWS_LEAST = DIRECT_TILES * ROWS_MAX + 1
};

/* x: [blocks of LANE_WIDTH columns, VW, rows, LANE_STEPS], zeros behind a row's end. */
struct lane_product {
    const struct matrix *w;
    const float *from; /* rows as they lie */
    float *x, *out;
    size_t out_stride;
    uint32_t rows, outputs_a_unit;
};

/* One panel's weights of a block, and its chains: [rows, VW, LANE_OUTPUTS]. */
struct lane_panel {
    float w[VW][LANE_STEPS][LANE_OUTPUTS];
    float sums[LANE_PASS][VW][LANE_OUTPUTS];
};

/* 8 x 8 numbers: what was column i there is row i here. Strides in numbers, from row to row. */
ALWAYS_INLINE void transpose_block(const float *from, size_t from_stride, float *to,
                                   size_t to_stride) {
    vf r[8], t[8];
    UNROLL
    for (size_t i = 0; i < 8; i++)
        r[i] = v_load(from + i * from_stride);
    UNROLL
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    UNROLL
    for (int i = 0; i < 8; i += 4) {
        UNROLL
        for (int j = 0; j < 2; j++) {
            r[i + 2 * j] = _mm256_shuffle_ps(t[i + j], t[i + j + 2], 0x44);
            r[i + 2 * j + 1] = _mm256_shuffle_ps(t[i + j], t[i + j + 2], 0xee);
        }
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
        t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
    }
    UNROLL
    for (size_t i = 0; i < 8; i++)
        v_store(to + i * to_stride, t[i]);
}

/* `width` columns of a row of a block: lane i's to out + i * lane_stride. */
static void lanes_of_row(const float *x, size_t width, size_t lane_stride, float *out) {
    size_t s = 0, end = (width + VW - 1) / VW * VW;
    for (; (s + 8) * VW <= width; s += 8)
        transpose_block(x + s * VW, VW, out + s, lane_stride);
    for (size_t k = s * VW; k < end; k++)
        out[k % VW * lane_stride + k / VW] = k < width ? x[k] : 0.0f;
}

/* ---- weights ---- */

/* So many columns of each output at a time; with room between the outputs, or all would lie in the same
 * sets of a cache. */
enum { LANE_COLUMNS = 256, LANE_COLUMNS_ROOM = LANE_COLUMNS + 32 };

/* A step of 16 outputs in bf16. Outputs 4 to 7 and 12 to 15 are in the upper halves, so that what
 * becomes f32 is in order. */
ALWAYS_INLINE void bf16_step(uint16_t near[][LANE_COLUMNS_ROOM], size_t k, float *out) {
    const __m256i zero = _mm256_setzero_si256();
    __m256i r[8], t[8];
    UNROLL
    for (int i = 0; i < 8; i++) {
        int n = i < 4 ? i : i + 4;
        r[i] = _mm256_inserti128_si256(
            _mm256_castsi128_si256(_mm_load_si128((const __m128i *)(near[n] + k))),
            _mm_load_si128((const __m128i *)(near[n + 4] + k)), 1);
    }
    UNROLL
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_epi16(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_epi16(r[i], r[i + 1]);
    }
    UNROLL
    for (int i = 0; i < 8; i += 4) {
        UNROLL
        for (int j = 0; j < 2; j++) {
            r[i + 2 * j] = _mm256_unpacklo_epi32(t[i + j], t[i + j + 2]);
            r[i + 2 * j + 1] = _mm256_unpackhi_epi32(t[i + j], t[i + j + 2]);
        }
    }
    UNROLL
    for (int i = 0; i < 8; i++, out += LANE_STEPS * LANE_OUTPUTS) {
        __m256i lane = i % 2 ? _mm256_unpackhi_epi64(r[i / 2], r[i / 2 + 4])
                             : _mm256_unpacklo_epi64(r[i / 2], r[i / 2 + 4]);
        v_store(out, v_cast(_mm256_unpacklo_epi16(zero, lane)));
        v_store(out + 8, v_cast(_mm256_unpackhi_epi16(zero, lane)));
    }
}

/* Columns [k, k + width) of LANE_OUTPUTS outputs in bf16, width a multiple of VW. */
static void bf16_lanes(const uint16_t *const *rows, size_t width, struct lane_panel *out) {
    uint16_t near[LANE_OUTPUTS][LANE_COLUMNS_ROOM] __attribute__((aligned(64)));
    for (size_t at = 0; at < width; at += LANE_COLUMNS) {
        size_t columns = MIN(width - at, (size_t)LANE_COLUMNS);
        for (uint32_t n = 0; n < LANE_OUTPUTS; n++) {
            for (size_t i = 0; i < LANE_COLUMNS; i += 32)
                __builtin_prefetch(rows[n] + at + LANE_COLUMNS + i, 0, 2);
            memcpy(near[n], rows[n] + at, columns * sizeof **rows);
        }
        for (size_t k = 0; k < columns; k += VW)
            bf16_step(near, k, out->w[0][(at + k) / VW]);
    }
}

/* The same of any type, zeros behind the columns and the outputs. */
static void any_lanes(const struct matrix *m, uint32_t first, uint32_t count, size_t k,
                      size_t width, struct lane_panel *out) {
    float near[LANE_OUTPUTS][LANE_COLUMNS_ROOM] __attribute__((aligned(64)));
    memset(near, 0, sizeof near);
    for (size_t at = 0; at < width; at += LANE_COLUMNS) {
        size_t columns = MIN(width - at, (size_t)LANE_COLUMNS);
        for (uint32_t n = 0; n < count; n++) {
            uint32_t row = first + n;
            const struct matrix_segment *p = segment_of_row(m, &row);
            DEQUANTIZE[segment_type(m, p)](p, m->cols, row, k + at, columns, near[n]);
            for (size_t i = columns; i % VW; i++)
                near[n][i] = 0.0f;
        }
        for (size_t s = 0; s * VW < columns; s++)
            for (size_t half = 0; half < LANE_OUTPUTS; half += 8)
                transpose_block(near[half] + s * VW, LANE_COLUMNS_ROOM,
                                &out->w[0][at / VW + s][half], LANE_STEPS * LANE_OUTPUTS);
    }
}

static void lanes_of_weights(const struct matrix *m, uint32_t first, uint32_t count, size_t k,
                             size_t width, struct lane_panel *out) {
    const uint16_t *rows[LANE_OUTPUTS];
    bool bf16 = count == LANE_OUTPUTS && width % VW == 0;
    for (uint32_t n = 0; n < count && bf16; n++) {
        uint32_t row = first + n;
        const struct matrix_segment *p = segment_of_row(m, &row);
        bf16 = segment_type(m, p) == STORAGE_BF16;
        rows[n] = (const uint16_t *)p->data + (size_t)row * m->cols + k;
    }
    if (bf16)
        bf16_lanes(rows, width, out);
    else
        any_lanes(m, first, count, k, width, out);
}

/* ---- products ---- */

/* One lane of `rows` rows and a panel: x [rows, LANE_STEPS], sums as in lane_panel. */
ALWAYS_INLINE void lane_chains(const int rows, const float *x, float w[][LANE_OUTPUTS],
                               size_t steps, bool begins, float *sums) {
    vf acc[LANE_ROWS][2];
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int h = 0; h < 2; h++)
            acc[r][h] = begins ? v_set1(0) : v_load(sums + r * VW * LANE_OUTPUTS + h * VW);
    }
    for (size_t s = 0; s < steps; s++, x++) {
        vf low = v_load(w[s]), high = v_load(w[s] + VW);
        UNROLL
        for (int r = 0; r < rows; r++) {
            vf xv = v_set1(x[r * LANE_STEPS]);
            acc[r][0] = v_fma(xv, low, acc[r][0]);
            acc[r][1] = v_fma(xv, high, acc[r][1]);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int h = 0; h < 2; h++)
            v_store(sums + r * VW * LANE_OUTPUTS + h * VW, acc[r][h]);
    }
}
#define LANE_TILE(rows, name)                                                                      \
    static void name##_##rows(const float *x, float w[][LANE_OUTPUTS], size_t steps, bool begins,  \
                              float *sums) {                                                       \
        lane_chains(rows, x, w, steps, begins, sums);                                              \
    }
FOR_TILE_ROWS(LANE_TILE, lane_tile)
static void (*const LANE_TILES[LANE_ROWS])(const float *x, float w[][LANE_OUTPUTS], size_t steps,
                                           bool begins, float *sums) = TILE_TABLE(lane_tile);

/* The outputs of a panel of which all chains have ended. */
static void lane_finish(const struct lane_product *p, const struct lane_panel *panel,
                        uint32_t first_row, uint32_t rows, uint32_t first, uint32_t count) {
    for (uint32_t r = 0; r < rows; r++) {
        float sums[LANE_OUTPUTS], *out = p->out + (first_row + r) * p->out_stride + first;
        for (int at = 0; at < LANE_OUTPUTS; at += VW) {
            vf v[4];
            UNROLL
            for (int i = 0; i < 4; i++)
                v[i] = v_add(v_load(panel->sums[r][i] + at), v_load(panel->sums[r][i + 4] + at));
            v_store(sums + at, v_add(v_add(v[0], v[2]), v_add(v[1], v[3])));
        }
        for (uint32_t n = 0; n < count; n++)
            out[n] = sums[n] + (p->w->bias ? p->w->bias[first + n] : 0.0f);
    }
}

/* Outputs [first, first + count) of all rows, count at most LANE_PANELS * LANE_OUTPUTS. */
static void lane_outputs(const struct lane_product *p, uint32_t first, uint32_t count) {
    struct lane_panel panels[LANE_PANELS] __attribute__((aligned(64)));
    const uint32_t panel_count = (count + LANE_OUTPUTS - 1) / LANE_OUTPUTS;
    for (uint32_t done = 0; done < p->rows; done += LANE_PASS) {
        uint32_t rows = MIN(p->rows - done, (uint32_t)LANE_PASS);
        for (size_t k = 0; k < p->w->cols; k += LANE_WIDTH) {
            size_t width = MIN(p->w->cols - k, (size_t)LANE_WIDTH), steps = (width + VW - 1) / VW;
            for (uint32_t i = 0; i < panel_count && (done == 0 || p->w->cols > LANE_WIDTH); i++)
                lanes_of_weights(p->w, first + i * LANE_OUTPUTS,
                                 MIN(count - i * LANE_OUTPUTS, (uint32_t)LANE_OUTPUTS), k, width,
                                 &panels[i]);
            for (uint32_t lane = 0; lane < VW; lane++) {
                const float *x = p->x + k * p->rows + ((size_t)lane * p->rows + done) * LANE_STEPS;
                for (uint32_t i = 0; i < panel_count; i++)
                    for (uint32_t r = 0, n; r < rows; r += n) {
                        n = MIN(rows - r, (uint32_t)LANE_ROWS);
                        LANE_TILES[n - 1](x + (size_t)r * LANE_STEPS, panels[i].w[lane], steps,
                                          k == 0, panels[i].sums[r][lane]);
                    }
            }
        }
        for (uint32_t i = 0; i < panel_count; i++)
            lane_finish(p, &panels[i], done, rows, first + i * LANE_OUTPUTS,
                        MIN(count - i * LANE_OUTPUTS, (uint32_t)LANE_OUTPUTS));
    }
}

static void lane_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct lane_product *p = ctx;
    uint32_t n = (uint32_t)unit_idx * p->outputs_a_unit,
             end = MIN(n + p->outputs_a_unit, p->w->rows);
    for (; n < end; n += LANE_PANELS * LANE_OUTPUTS)
        lane_outputs(p, n, MIN((uint32_t)(LANE_PANELS * LANE_OUTPUTS), end - n));
}

static void lane_row(void *ctx, size_t row, int thread_idx) {
    const struct lane_product *p = ctx;
    for (size_t k = 0; k < p->w->cols; k += LANE_WIDTH)
        lanes_of_row(p->from + row * p->w->cols + k, MIN(p->w->cols - k, (size_t)LANE_WIDTH),
                     (size_t)p->rows * LANE_STEPS, p->x + k * p->rows + row * LANE_STEPS);
}

/* Rows of x that the device's buffer holds in this order. */
static uint32_t lane_room(const struct matrix *w) {
    size_t blocks = ((size_t)w->cols + LANE_WIDTH - 1) / LANE_WIDTH;
    return (uint32_t)(CPU_PACK_BYTES / (blocks * LANE_WIDTH * sizeof(float)));
}

/* `linear` for LANE_ROWS_LEAST rows or more, where lane_room has place for as many. */
static void lane_linear(struct stream *s, const struct op_linear *a) {
    const uint32_t room = lane_room(a->w);
    struct lane_product p = {.w = a->w,
                             .x = (float *)(void *)((struct cpu_device *)s->dev)->pack,
                             .out_stride = a->out_stride,
                             .outputs_a_unit = LANE_PANELS * LANE_OUTPUTS};
    while (a->w->rows / p.outputs_a_unit > 256)
        p.outputs_a_unit *= 2;
    for (uint32_t t = 0; t < a->rows; t += p.rows) {
        p.rows = MIN(a->rows - t, room);
        p.from = (const float *)a->x + (size_t)t * a->w->cols;
        p.out = (float *)a->out + t * a->out_stride;
        cpu_loop(s, p.rows, (size_t)p.rows * a->w->cols / VW, lane_row, &p);
        cpu_loop(s, (a->w->rows + p.outputs_a_unit - 1) / p.outputs_a_unit,
                 (size_t)p.rows * a->w->rows * a->w->cols / VW, lane_unit, &p);
    }
}
