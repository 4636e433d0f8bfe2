/* Rotary angles, cache writes and paged attention: each instruction set against the scalar
 * definition; bits against batching. */
#include "kernels/ref/ref.h"
#include "kernels/scalar_math.h"
#include "rig.h"

TEST(sin_and_cos_are_right_within_an_ulp_up_to_a_million) {
    for (int i = 0; i < 200000; i++) {
        float angle = i < 1000 ? (float)i * 0.001f
                               : (float)(check_random() % (1 << 20)) +
                                     (float)(check_random() % 65536) / 65536.0f;
        float s, c;
        scalar_sincos(angle, &s, &c);
        double ds = sin((double)angle), dc = cos((double)angle);
        EXPECT(fabs(s - ds) <= 0x1p-24 * fabs(ds) * 1.01 + 1e-12 &&
               fabs(c - dc) <= 0x1p-24 * fabs(dc) * 1.01 + 1e-12);
    }
}

/* Nothing is rotated and all values are those of bf16, so that of products in bf16 only weights are
 * rounded, by at most 2^-9 of each. */
static bool in_bf16;

/* A cache with scattered blocks, two slots of random history, and a batch over both. */
struct scene {
    struct bench b;
    struct kv_view kv;
    void *pages;
    uint32_t *tables;
    uint32_t heads, half, chunk;
    float *inv_freq, *sinks; /* sinks NULL: none */
    const float *slopes;
    float soft_cap;
    const uint32_t *last; /* NULL: rows see no later position */
};

enum { SLOTS = 3, MAX_BLOCKS = 64 };

static void scene_init(struct scene *s, const char *isa, int threads, enum storage_type type,
                       uint32_t heads, uint32_t kv_heads, uint32_t dim, uint32_t block_tokens) {
    *s = (struct scene){.b = bench_open(isa, threads), .heads = heads, .half = dim / 2};
    uint32_t blocks = MAX_BLOCKS * SLOTS;
    size_t layer = s->b.dev->ops->kv_layer_bytes(type, block_tokens, kv_heads, dim);
    s->pages = aligned_alloc(64, (layer + 64) * blocks);
    memset(s->pages, 0xff, (layer + 64) * blocks); /* NaN in every type */
    s->tables = malloc(blocks * sizeof *s->tables);
    for (uint32_t i = 0; i < blocks; i++)
        s->tables[i] = i * 7 % blocks;
    s->inv_freq = malloc(s->half * sizeof *s->inv_freq);
    for (uint32_t i = 0; i < s->half; i++)
        s->inv_freq[i] = in_bf16 ? 0 : (float)pow(10000, -2.0 * i / dim);
    s->kv = (struct kv_view){.base = s->pages,
                             .block_stride = layer + 64,
                             .layer_offset = 64,
                             .type = type,
                             .block_tokens = block_tokens,
                             .kv_heads = kv_heads,
                             .head_dim = dim,
                             .block_count = blocks,
                             .tables = s->tables,
                             .max_blocks = MAX_BLOCKS};
}
static void scene_release(struct scene *s) {
    free(s->pages);
    free(s->tables);
    free(s->inv_freq);
    bench_close(&s->b);
}

/* Writes and attends rows; returns [rows, heads * dim]. qkv is copied, since rotation is in
 * place. */
static float *attend_rows(struct scene *s, const float *qkv_in, const uint32_t *slots,
                          const uint32_t *positions, uint32_t rows, uint32_t window,
                          bool interleaved) {
    size_t stride = (s->heads + 2 * s->kv.kv_heads) * s->kv.head_dim,
           width = (size_t)s->heads * s->kv.head_dim;
    float *qkv = guarded(rows * stride), *angles = guarded((size_t)rows * s->half * 2),
          *out = guarded(rows * width);
    memcpy(qkv, qkv_in, rows * stride * sizeof *qkv);
    struct step_batch batch = {
        .row_count = rows, .slots = (uint32_t *)slots, .positions = (uint32_t *)positions};
    const struct ops *ops = s->b.dev->ops;
    void *scratch = malloc(ops->attention_scratch(s->b.dev, rows, s->heads, s->kv.head_dim, 4096));
    ops->rope_angles(
        s->b.stream,
        &(struct op_rope_angles){
            .out = angles, .inv_freq = s->inv_freq, .half = s->half, .scale = 1, .batch = &batch});
    ops->rope_kv(s->b.stream, &(struct op_rope_kv){.qkv = qkv,
                                                   .angles = angles,
                                                   .half = s->half,
                                                   .interleaved = interleaved,
                                                   .heads = s->heads,
                                                   .kv = &s->kv,
                                                   .batch = &batch});
    ops->attention(s->b.stream, &(struct op_attention){.out = out,
                                                       .qkv = qkv,
                                                       .heads = s->heads,
                                                       .window = window,
                                                       .chunk = s->chunk,
                                                       .sinks = s->sinks,
                                                       .soft_cap = s->soft_cap,
                                                       .slopes = s->slopes,
                                                       .last = s->last,
                                                       .scale = 1 / sqrtf((float)s->kv.head_dim),
                                                       .kv = &s->kv,
                                                       .batch = &batch,
                                                       .scratch = scratch});
    if (!guards_intact(qkv, rows * stride) || !guards_intact(out, rows * width))
        check_fail(__FILE__, __LINE__, "attention wrote outside its arrays");
    free(scratch);
    unguard(qkv);
    unguard(angles);
    return out;
}

/* Softmax weights move by the scores' error; the sum adds its own. Values of this test are bounded
 * by 1. A rotated key (at most sqrt 2) whose f32 value lies at the edge between two of the cache's
 * may be stored as its neighbour: that moves a score by 2 u / sqrt(dim) and the output by that
 * times twice its weight, at most 16 / positions here (scores are within 1.4). */
static double attention_tolerance(enum storage_type type, uint32_t dim, uint32_t positions) {
    double u = type == STORAGE_BF16      ? 0x1p-8
               : type == STORAGE_F16     ? 0x1p-11
               : type == STORAGE_F8_E4M3 ? 0x1p-4
               : type == STORAGE_I8      ? sqrt(2) / 127 / 2 /* a step of 2 u, as the others */
                                         : 0;
    /* |q . k| * scale <= sqrt(dim) */
    double score_error = UNIT_ROUNDOFF * (dim + 8.0) * sqrt((double)dim);
    if (in_bf16)
        return 0x1p-9 + 4 * score_error + 0x1p-16;
    return 4 * score_error + 4 * UNIT_ROUNDOFF * (MIN(positions, 256u) + positions / 256.0 + 32) +
           4 * u / sqrt((double)dim) * fmin(1, 16.0 / positions);
}

static float *small_rows(size_t count) {
    float *x = guarded(count);
    for (size_t i = 0; i < count; i++)
        x[i] = in_bf16 ? (float)(check_random() % 257) / 128.0f - 1.0f
                       : (float)(check_random() % 2001) / 1000.0f - 1.0f;
    return x;
}

struct shape {
    uint32_t heads, kv_heads, dim, block_tokens, rows, window;
    bool interleaved;
    uint32_t chunk;
    int extra; /* 1: sinks, 2: soft cap, 4: ALiBi, 8: later positions too */
};

/* Some below the scores, some above. */
static float SINKS[16] = {-1, 0.5f, 2, -3, 4, 0, -0.25f, 1, -6, 3, 0.1f, -2, 1.5f, -0.5f, 5, -4};

static const float SLOPES[16] = {0.5f, 0.25f, 0.01f, 0.125f, 1, 0.003f, 0.7f, 0.05f};

static void shape_options(struct scene *s, const struct shape *sh) {
    s->chunk = sh->chunk;
    s->sinks = sh->extra & 1 ? SINKS : NULL;
    s->soft_cap = sh->extra & 2 ? 0.4f : 0;
    s->slopes = sh->extra & 4 ? SLOPES : NULL;
}

/* The last position that row t of shape_outputs sees: as far ahead as behind where there is a
 * window. */
static uint32_t last_seen(const struct shape *sh, uint32_t t) {
    uint32_t position = t < sh->rows ? t : t - sh->rows - 1, end = t < sh->rows ? sh->rows - 1 : 4;
    return sh->window ? MIN(position + sh->window - 1, end) : end;
}

/* Positions a row's weights are spread over; with ALiBi they may lie on one. */
static uint32_t seen_by(const struct shape *sh, uint32_t t, uint32_t position) {
    uint32_t seen = sh->window ? MIN(position + 1, sh->window) : position + 1;
    if (sh->extra & 4)
        return 1;
    if (sh->extra & 8)
        return seen + last_seen(sh, t) - position;
    return sh->chunk ? MIN(seen, position % sh->chunk + 1) : seen;
}

/* Outputs of one slot's rows [0, n), another's [0, 5), one row of padding between. */
static float *shape_outputs(const char *isa, enum storage_type type, const struct shape *sh,
                            const float *qkv, const uint32_t *slots, const uint32_t *positions) {
    struct scene s;
    scene_init(&s, isa, 2, type, sh->heads, sh->kv_heads, sh->dim, sh->block_tokens);
    shape_options(&s, sh);
    uint32_t last[640];
    CHECK(sh->rows + 6 <= ARRAY_LEN(last));
    for (uint32_t t = 0; t < sh->rows + 6; t++)
        last[t] = positions[t] == ROW_NONE ? 0 : last_seen(sh, t);
    s.last = sh->extra & 8 ? last : NULL;
    float *out = attend_rows(&s, qkv, slots, positions, sh->rows + 6, sh->window, sh->interleaved);
    scene_release(&s);
    return out;
}

static void check_shape(enum storage_type type, const struct shape *sh) {
    uint32_t rows = sh->rows + 6, *slots = calloc(rows, 4), *positions = calloc(rows, 4);
    for (uint32_t t = 0; t < rows; t++) {
        slots[t] = t < sh->rows ? 0 : 2;
        positions[t] = t < sh->rows ? t : t == sh->rows ? ROW_NONE : t - sh->rows - 1;
    }
    size_t width = (size_t)sh->heads * sh->dim;
    float *qkv = small_rows(rows * (size_t)(sh->heads + 2 * sh->kv_heads) * sh->dim),
          *want = shape_outputs("ref", type, sh, qkv, slots, positions);
    FOR_EACH_ISA(isa) {
        float *got = shape_outputs(isa, type, sh, qkv, slots, positions);
        for (size_t i = 0; i < rows * width; i++) {
            double tolerance =
                positions[i / width] == ROW_NONE
                    ? 0
                    : attention_tolerance(type, sh->dim,
                                          seen_by(sh, (uint32_t)(i / width), positions[i / width]));
            if (!(fabs((double)got[i] - want[i]) <= tolerance))
                check_fail(__FILE__, __LINE__,
                           "%s %s: heads %u/%u dim %u block %u: row %zu: %g, expected %g", isa,
                           storage_name(type), sh->heads, sh->kv_heads, sh->dim, sh->block_tokens,
                           i / width, (double)got[i], (double)want[i]);
        }
        unguard(got);
    }
    unguard(qkv);
    unguard(want);
    free(slots);
    free(positions);
}

static const enum storage_type CACHES[] = {STORAGE_F32, STORAGE_F16, STORAGE_BF16, STORAGE_F8_E4M3,
                                           STORAGE_I8};

TEST(attention_equals_its_definition_over_heads_sizes_and_types) {
    static const struct shape shapes[] = {
        {1, 1, 8, 16, 1, 0, false, 0, 0},      {8, 4, 8, 16, 17, 0, false, 0, 0},
        {4, 2, 64, 32, 33, 0, false, 0, 0},    {7, 1, 64, 32, 20, 0, false, 0, 0},
        {14, 2, 64, 16, 9, 0, true, 0, 0},     {3, 3, 10, 16, 31, 0, false, 0, 0},
        {2, 1, 80, 64, 70, 0, false, 0, 0},    {5, 1, 96, 32, 8, 0, false, 0, 0},
        {2, 2, 128, 32, 40, 0, false, 0, 0},   {2, 1, 130, 16, 12, 0, true, 0, 0},
        {1, 1, 256, 256, 7, 0, false, 0, 0},   {6, 2, 24, 16, 300, 0, false, 0, 0},
        {2, 1, 16, 32, 600, 0, false, 0, 0},   {2, 1, 16, 16, 300, 40, false, 0, 0},
        {2, 2, 20, 32, 530, 257, false, 0, 0}, {8, 2, 16, 16, 90, 0, false, 0, 1},
        {4, 4, 12, 16, 300, 20, false, 0, 1},  {6, 2, 16, 32, 540, 0, false, 0, 1},
        {4, 2, 16, 16, 300, 0, true, 24, 0},   {2, 1, 8, 16, 530, 300, false, 270, 1},
        {4, 2, 16, 16, 300, 0, false, 0, 2},   {8, 2, 24, 16, 540, 0, false, 0, 4},
        {2, 1, 12, 32, 300, 40, true, 0, 6},   {4, 4, 8, 16, 33, 0, false, 0, 8},
        {2, 1, 64, 32, 600, 0, false, 0, 8},   {6, 2, 24, 16, 300, 0, true, 0, 8},
        {3, 3, 16, 16, 530, 65, false, 0, 8},  {6, 2, 24, 16, 300, 0, false, 0, 12},
        {8, 8, 8, 32, 530, 0, false, 0, 12},
    };
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++)
        for (size_t t = 0; t < ARRAY_LEN(CACHES); t++)
            check_shape(CACHES[t], &shapes[i]);
}

/* The same sequence in one piece, in chunks, row by row, beside another sequence, with one thread
 * or three: equal bits. */
static void check_cuts(const char *isa, enum storage_type type, const struct shape *sh) {
    enum { NEIGHBOURS = 2 };
    static const uint32_t chunks[] = {1, 2, 7, 16, 100};
    struct scene whole;
    scene_init(&whole, isa, 1, type, sh->heads, sh->kv_heads, sh->dim, sh->block_tokens);
    shape_options(&whole, sh);
    size_t width = (size_t)sh->heads * sh->dim,
           stride = (size_t)(sh->heads + 2 * sh->kv_heads) * sh->dim;
    uint32_t *slots = calloc(sh->rows + NEIGHBOURS, 4),
             *positions = calloc(sh->rows + NEIGHBOURS, 4);
    for (uint32_t t = 0; t < sh->rows; t++)
        positions[t] = t;
    float *qkv = small_rows((sh->rows + NEIGHBOURS) * stride),
          *want = attend_rows(&whole, qkv, slots, positions, sh->rows, sh->window, false);
    for (size_t c = 0; c < ARRAY_LEN(chunks); c++) {
        struct scene cut;
        scene_init(&cut, isa, c % 2 ? 3 : 1, type, sh->heads, sh->kv_heads, sh->dim,
                   sh->block_tokens);
        shape_options(&cut, sh);
        for (uint32_t first = 0; first < sh->rows; first += chunks[c]) {
            uint32_t n = MIN(chunks[c], sh->rows - first), s2[512 + NEIGHBOURS],
                     p2[512 + NEIGHBOURS];
            float *rows = guarded((n + NEIGHBOURS) * stride);
            memcpy(rows, qkv,
                   NEIGHBOURS * stride *
                       /* the neighbour's rows first, so that ours have another place */
                       sizeof *rows);
            memcpy(rows + NEIGHBOURS * stride, qkv + first * stride, n * stride * sizeof *rows);
            for (uint32_t t = 0; t < n + NEIGHBOURS; t++) {
                s2[t] = t < NEIGHBOURS ? 1 : 0;
                p2[t] = t < NEIGHBOURS ? t : first + t - NEIGHBOURS;
            }
            float *got = attend_rows(&cut, rows, s2, p2, n + NEIGHBOURS, sh->window, false);
            if (!same_bits(got + NEIGHBOURS * width, want + first * width, n * width))
                check_fail(__FILE__, __LINE__, "%s %s: chunk %u at %u: other bits", isa,
                           storage_name(type), chunks[c], first);
            unguard(got);
            unguard(rows);
        }
        scene_release(&cut);
    }
    unguard(qkv);
    unguard(want);
    free(slots);
    free(positions);
    scene_release(&whole);
}

TEST(attention_gives_equal_bits_however_a_sequence_is_cut) {
    static const struct shape shapes[] = {
        {8, 4, 8, 16, 61, 0, false, 0, 0},    {14, 2, 64, 32, 90, 0, false, 0, 0},
        {3, 1, 24, 16, 530, 0, false, 0, 0},  {2, 1, 16, 16, 300, 50, false, 0, 0},
        {4, 2, 16, 16, 300, 0, false, 40, 1}, {3, 1, 16, 16, 300, 0, false, 0, 6}};
    FOR_EACH_ISA(isa)
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        check_cuts(isa, CACHES[i % ARRAY_LEN(CACHES)], &shapes[i]);
        if (i < 2)
            check_cuts(isa, STORAGE_I8, &shapes[i]);
    }
}

/* What an int8 cache costs: values err by half a step, a 254th of the largest of their vector; keys
 * likewise, which moves a score by |q| . |key's error| * scale at most, and so each weight by a
 * factor of e^(2 * that). Inputs are at most 1, rotated ones sqrt 2. */
TEST(an_int8_cache_errs_by_half_a_step_of_each_vector) {
    static const struct shape sh = {4, 2, 64, 16, 300, 0, false, 0, 0};
    FOR_EACH_ISA(isa) {
        struct scene exact, small;
        uint32_t slots[300] = {0}, positions[300];
        size_t width = (size_t)sh.heads * sh.dim, stride = width + 2 * (size_t)sh.kv_heads * sh.dim;
        for (uint32_t t = 0; t < sh.rows; t++)
            positions[t] = t;
        scene_init(&exact, isa, 1, STORAGE_F32, sh.heads, sh.kv_heads, sh.dim, sh.block_tokens);
        scene_init(&small, isa, 1, STORAGE_I8, sh.heads, sh.kv_heads, sh.dim, sh.block_tokens);
        float *qkv = small_rows(sh.rows * stride), *want, *got;
        memset(qkv + width + sh.kv_heads * sh.dim, 0, sh.dim * sizeof *qkv); /* a value of zeros */
        want = attend_rows(&exact, qkv, slots, positions, sh.rows, 0, false);
        got = attend_rows(&small, qkv, slots, positions, sh.rows, 0, false);
        double score = sqrt((double)sh.dim) * sqrt(2) * sqrt(2) / 254, value = 1.0 / 254,
               rest = 1e-5;
        for (size_t i = 0; i < sh.rows * width; i++)
            EXPECT(fabs((double)got[i] - want[i]) <=
                   (i < width ? 0 : exp(2 * score) - 1) + value + rest);
        for (uint32_t i = 0; i < 2 * sh.dim; i++)
            EXPECT(got[i] == 0);
        unguard(qkv);
        unguard(want);
        unguard(got);
        scene_release(&exact);
        scene_release(&small);
    }
}

/* ---- products in bf16 ---- */

static bool attends_in_bf16(const char *isa) {
    bench_compute = "int8";
    bool yes = !strcmp(bench_device(isa, 1)->attention, "bf16");
    bench_compute = NULL;
    return yes;
}

static const struct shape TILE_SHAPES[] = {
    {1, 1, 32, 16, 1, 0, false, 0, 0},    {4, 2, 64, 32, 33, 0, false, 0, 0},
    {14, 2, 64, 16, 40, 0, false, 0, 0},  {5, 1, 96, 32, 21, 0, false, 0, 0},
    {8, 2, 128, 64, 70, 0, false, 0, 0},  {1, 1, 256, 256, 300, 0, false, 0, 0},
    {16, 1, 32, 16, 300, 0, false, 0, 1}, {2, 1, 64, 32, 530, 257, false, 0, 1},
    {2, 2, 32, 16, 300, 40, false, 0, 2}, {4, 2, 64, 16, 300, 0, false, 24, 0},
    {8, 2, 32, 32, 540, 0, false, 0, 4},  {2, 1, 32, 32, 300, 40, false, 0, 6},
    {3, 3, 64, 16, 530, 65, false, 0, 8}, {2, 1, 512, 32, 40, 0, false, 0, 0},
    {4, 4, 64, 16, 300, 0, false, 0, 12},
};

/* Sizes, windows and options that go through tiles: rows and heads before, at and past 16 and 32. */
TEST(attention_in_bf16_rounds_weights_and_nothing_else) {
    bool any = false;
    in_bf16 = true;
    for (size_t i = 0; i < ARRAY_LEN(TILE_SHAPES); i++) {
        const struct shape *sh = &TILE_SHAPES[i];
        uint32_t rows = sh->rows + 6, slots[640], positions[640];
        for (uint32_t t = 0; t < rows; t++) {
            slots[t] = t < sh->rows ? 0 : 2;
            positions[t] = t < sh->rows ? t : t == sh->rows ? ROW_NONE : t - sh->rows - 1;
        }
        size_t width = (size_t)sh->heads * sh->dim;
        enum storage_type type = i % 2 ? STORAGE_F16 : STORAGE_BF16;
        float *qkv = small_rows(rows * (size_t)(sh->heads + 2 * sh->kv_heads) * sh->dim),
              *want = shape_outputs("ref", type, sh, qkv, slots, positions);
        FOR_EACH_ISA(isa) {
            if (!attends_in_bf16(isa))
                continue;
            any = true;
            bench_compute = "int8";
            float *got = shape_outputs(isa, type, sh, qkv, slots, positions);
            bench_compute = NULL;
            for (size_t k = 0; k < rows * width; k++) {
                uint32_t t = (uint32_t)(k / width);
                double tolerance =
                    positions[t] == ROW_NONE
                        ? 0
                        : attention_tolerance(type, sh->dim, seen_by(sh, t, positions[t]));
                if (!(fabs((double)got[k] - want[k]) <= tolerance))
                    check_fail(__FILE__, __LINE__, "%s, shape %zu: row %u: %g, expected %g", isa, i,
                               t, (double)got[k], (double)want[k]);
            }
            unguard(got);
        }
        unguard(qkv);
        unguard(want);
    }
    in_bf16 = false;
    if (!any)
        SKIP("isa", "this machine has no products in bf16");
}

TEST(attention_in_bf16_gives_equal_bits_however_a_sequence_is_cut) {
    bool any = false;
    FOR_EACH_ISA(isa)
    for (size_t i = 1; i < ARRAY_LEN(TILE_SHAPES) && attends_in_bf16(isa); i++) {
        const struct shape *sh = &TILE_SHAPES[i];
        any = true;
        if (sh->extra & 8 || sh->rows > 512 || sh->dim > 128)
            continue;
        bench_compute = "int8";
        check_cuts(isa, i % 2 ? STORAGE_BF16 : STORAGE_F16, sh);
        bench_compute = NULL;
    }
    if (!any)
        SKIP("isa", "this machine has no products in bf16");
}

/* A value that is not finite, in the middle of a chunk: rows before it, and those whose window has
 * passed it, have the bits that they have without it. */
TEST(in_bf16_rows_that_do_not_see_an_infinite_value_keep_their_bits) {
    enum { ROWS = 300, BAD = 137, WINDOW = 50, HEADS = 4, DIM = 32, STRIDE = (HEADS + 4) * DIM };
    uint32_t slots[ROWS] = {0}, positions[ROWS];
    bool any = false;
    for (uint32_t t = 0; t < ROWS; t++)
        positions[t] = t;
    FOR_EACH_ISA(isa)
    for (int windowed = 0; windowed < 2 && attends_in_bf16(isa); windowed++) {
        float *qkv = small_rows((size_t)ROWS * STRIDE), *out[2];
        any = true;
        for (int bad = 0; bad < 2; bad++) {
            struct scene s;
            if (bad)
                qkv[BAD * STRIDE + (HEADS + 2) * DIM + 3] = windowed ? INFINITY : NAN;
            bench_compute = "int8";
            scene_init(&s, isa, 2, STORAGE_BF16, HEADS, 2, DIM, 16);
            out[bad] = attend_rows(&s, qkv, slots, positions, ROWS, windowed ? WINDOW : 0, false);
            scene_release(&s);
            bench_compute = NULL;
        }
        for (uint32_t t = 0; t < ROWS; t++) {
            bool sees = t >= BAD && (!windowed || t < BAD + WINDOW);
            size_t at = (size_t)t * HEADS * DIM, count = HEADS * DIM;
            EXPECT(sees != same_bits(out[0] + at, out[1] + at, count));
            for (size_t d = 0; d < count; d++) /* one dim of the two heads of a group */
                EXPECT(!sees || d % DIM == 3 || same_bits(out[0] + at + d, out[1] + at + d, 1));
        }
        unguard(qkv);
        unguard(out[0]);
        unguard(out[1]);
    }
    if (!any)
        SKIP("isa", "this machine has no products in bf16");
}

TEST(a_value_that_is_not_finite_stays_in_its_sequence) {
    FOR_EACH_ISA(isa)
    for (int int8 = 0; int8 < 2; int8++) {
        struct scene s;
        scene_init(&s, isa, 1, int8 ? STORAGE_I8 : STORAGE_F32, 2, 1, 16, 16);
        uint32_t slots[] = {0, 0, 0, 1}, positions[] = {0, 1, 2, 0};
        float *qkv = small_rows(4 * 64);
        qkv[64 + 40] = NAN; /* a key of slot 0, position 1 */
        float *out = attend_rows(&s, qkv, slots, positions, 4, 0, false);
        for (int i = 0; i < 32; i++)
            EXPECT(isfinite(out[i]) && isnan(out[32 + i]) && isnan(out[64 + i]) &&
                   isfinite(out[96 + i]));
        unguard(qkv);
        unguard(out);
        scene_release(&s);
    }
}

/* Numbers at the borders of f16, then any bits. */
static float border_value(uint32_t i) {
    static const float borders[] = {0,           -0.0f,           65504,     65519.99f,
                                    -65520,      3e38f,           INFINITY,  -INFINITY,
                                    0x1p-14f,    0x1.ffcp-15f,    0x1p-24f,  0x1p-25f,
                                    -0x1.8p-24f, 0x1.000002p-25f, 0x1p-140f, 2049};
    uint32_t bits = (uint32_t)check_random();
    float value;
    memcpy(&value, &bits, sizeof value);
    return i < ARRAY_LEN(borders)        ? borders[i]
           : i == ARRAY_LEN(borders)     ? NAN
           : i == ARRAY_LEN(borders) + 1 ? -NAN
                                         : value;
}

TEST(a_cache_of_f16_holds_what_the_definition_rounds_to) {
    enum { TOKENS = 16, POSITION = 5 };
    FOR_EACH_ISA(isa)
    for (uint32_t dim = 4; dim <= 64; dim += 20) {
        struct scene s;
        scene_init(&s, isa, 1, STORAGE_F16, 1, 1, dim, TOKENS);
        float *qkv = guarded(3 * (size_t)dim);
        uint16_t expected[3 * 64];
        for (uint32_t i = 0; i < 3 * dim; i++) {
            qkv[i] = border_value(i % 64);
            storage_put(STORAGE_F16, expected, i, qkv[i]);
        }
        uint32_t slot = 1, position = POSITION;
        struct step_batch batch = {.row_count = 1, .slots = &slot, .positions = &position};
        s.b.dev->ops->rope_kv(
            s.b.stream, &(struct op_rope_kv){.qkv = qkv, .heads = 1, .kv = &s.kv, .batch = &batch});
        const uint16_t *k = kv_layer(&s.kv, slot, position), *v = k + (size_t)dim * TOKENS;
        for (uint32_t d = 0; d < dim; d++)
            EXPECT(k[(size_t)d * TOKENS + POSITION] == expected[dim + d] &&
                   k[(size_t)d * TOKENS + POSITION + 1] == 0xffff);
        EXPECT(!memcmp(v + (size_t)POSITION * dim, expected + 2 * dim, 2 * (size_t)dim));
        EXPECT(v[(size_t)(POSITION + 1) * dim] == 0xffff);
        unguard(qkv);
        scene_release(&s);
    }
}

TEST(block_copies_move_whole_blocks_in_order) {
    struct bench b = bench_open(NULL, 1);
    uint32_t data[4] = {10, 20, 30, 40}, from[] = {0, 1}, to[] = {1, 3};
    b.dev->ops->kv_copy(
        b.stream, &(struct op_kv_copy){
                      .base = data, .block_stride = 4, .sources = from, .targets = to, .count = 2});
    EXPECT(data[0] == 10 && data[1] == 10 && data[2] == 30 && data[3] == 10);
    bench_close(&b);
}

TEST(prepare_turns_runs_into_rows_and_pads_what_cannot_run) {
    uint32_t tokens[3 * 8] = {5, 6, 7, 8, 0, 0, 0, 0, 1, 2, 3}, ids[8], slots[8], positions[8];
    struct slot_state states[3] = {{.active = 1, .token_count = 4, .computed_count = 1},
                                   {.active = 1, .token_count = 3, .computed_count = 2},
                                   {.active = 0}};
    struct slot_table table = {
        .slot_count = 3, .max_context = 8, .states = states, .tokens = tokens};
    struct step_run runs[] = {{0, 3, 3}, {1, 0, 2}, {2, 2, 1}};
    struct step_batch batch = {.row_count = 6,
                               .run_count = 3,
                               .runs = runs,
                               .ids = ids,
                               .slots = slots,
                               .positions = positions};
    struct bench b = bench_open(NULL, 1);
    b.dev->ops->prepare(b.stream, &(struct op_prepare){.slots = &table, .batch = &batch});
    EXPECT(ids[3] == 6 && ids[4] == 7 && ids[5] == 8 && positions[3] == 1 && positions[5] == 3 &&
           slots[4] == 0);
    EXPECT(positions[0] == ROW_NONE && positions[1] == ROW_NONE && positions[2] == ROW_NONE);
    EXPECT(states[0].computed_count == 4 && states[1].computed_count == 2 &&
           states[2].computed_count == 0);
    bench_close(&b);
}
