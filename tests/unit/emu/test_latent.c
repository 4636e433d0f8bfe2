/* Latent attention on the emulated device: each operation against its definition on what the device
 * itself read; equal bits for every thread order and however a sequence is cut. */
#include "rig.h"

static void expect_close(int line, double got, double want, double tolerance) {
    if (!(fabs(got - want) <= tolerance))
        check_fail(__FILE__, line, "%g, expected %g +- %g", got, want, tolerance);
}
#define EXPECT_CLOSE(got, want, tolerance) expect_close(__LINE__, got, want, tolerance)

static double cache_rounding(enum storage_type type) {
    return type == STORAGE_F8_E4M3 ? 0x1p-4 : rounding(type);
}

enum { SLOTS = 3, MAX_BLOCKS = 40 };

struct shape {
    uint32_t heads, rank, rope, nope, value, block_tokens, rows;
    enum storage_type act, cache, weights;
    bool interleaved, normed;
};

struct scene {
    struct rig r;
    struct shape sh;
    struct kv_view kv;
    uint32_t *tables;
};

static void scene_init(struct scene *s, const struct shape *sh) {
    *s = (struct scene){.r = rig_open(sh->act), .sh = *sh};
    uint32_t blocks = MAX_BLOCKS * SLOTS, width = sh->rank + sh->rope;
    size_t layer = s->r.dev->ops->latent_layer_bytes(sh->cache, sh->block_tokens, width);
    s->tables = calloc(blocks, 4);
    for (uint32_t i = 0; i < blocks; i++)
        s->tables[i] = (i * 7 + 3) % blocks;
    s->kv = (struct kv_view){.base = rig_alloc(&s->r, (layer + 64) * blocks),
                             .block_stride = layer + 64,
                             .layer_offset = 64,
                             .type = sh->cache,
                             .block_tokens = sh->block_tokens,
                             .kv_heads = 1,
                             .head_dim = width,
                             .block_count = blocks,
                             .tables = rig_up(&s->r, s->tables, blocks * 4),
                             .max_blocks = MAX_BLOCKS};
}
static void scene_release(struct scene *s) {
    free(s->tables);
    rig_close(&s->r);
}

struct inputs {
    float *q, *kv, *norm, *angles, *w;
};
static struct inputs inputs_new(const struct shape *sh, uint32_t rows) {
    struct inputs in = {.q = random_values((size_t)rows * sh->heads * (sh->nope + sh->rope)),
                        .kv = random_values((size_t)rows * (sh->rank + sh->rope)),
                        .norm = random_values(sh->rank),
                        .angles = random_values((size_t)rows * sh->rope),
                        .w = random_values((size_t)sh->heads * (sh->nope + sh->value) * sh->rank)};
    float *bounded[] = {in.q, in.kv, in.w};
    size_t counts[] = {(size_t)rows * sh->heads * (sh->nope + sh->rope),
                       (size_t)rows * (sh->rank + sh->rope),
                       (size_t)sh->heads * (sh->nope + sh->value) * sh->rank};
    for (int a = 0; a < 3; a++)
        for (size_t i = 0; i < counts[a]; i++)
            bounded[a][i] = fminf(fmaxf(bounded[a][i], -1), 1);
    for (size_t i = 0; i < (size_t)rows * sh->rope / 2; i++) {
        in.angles[2 * i] = cosf((float)i * 0.37f);
        in.angles[2 * i + 1] = sinf((float)i * 0.37f);
    }
    return in;
}
static void inputs_free(struct inputs *in) {
    free(in->q);
    free(in->kv);
    free(in->norm);
    free(in->angles);
    free(in->w);
}

/* A layer's attention of rows [first, first + rows): out [rows, heads, value]. With `check` each
 * operation against the definition. */
static float *run(struct scene *s, const struct inputs *in, uint32_t first, const uint32_t *slots,
                  const uint32_t *positions, uint32_t rows, bool check) {
    const struct shape *sh = &s->sh;
    struct rig *r = &s->r;
    const struct ops *ops = r->dev->ops, *ref = r->ref->ops;
    uint32_t width = sh->rank + sh->rope, heads = sh->heads, q_width = sh->nope + sh->rope;
    size_t q_count = (size_t)rows * heads * width, mixed_count = (size_t)rows * heads * sh->rank,
           out_count = (size_t)rows * heads * sh->value,
           w_count = (size_t)heads * (sh->nope + sh->value) * sh->rank;
    float *q_in = in->q + (size_t)first * heads * q_width, *kv_in = in->kv + (size_t)first * width,
          *angles = in->angles + (size_t)first * sh->rope;
    struct step_batch b = {.row_count = rows,
                           .slots = rig_up(r, slots, rows * 4),
                           .positions = rig_up(r, positions, rows * 4)},
                      hb = {.row_count = rows,
                            .slots = (uint32_t *)slots,
                            .positions = (uint32_t *)positions};
    void *dq = rig_alloc(r, storage_bytes(sh->act, q_count)),
         *dmixed = rig_alloc(r, storage_bytes(sh->act, mixed_count)),
         *dout = rig_alloc(r, storage_bytes(sh->act, out_count)),
         *dx = rig_values(r, sh->act, q_in, (size_t)rows * heads * q_width),
         *dkv = rig_values(r, sh->act, kv_in, (size_t)rows * width);
    struct matrix w = {.type = sh->weights,
                       .rows = heads * (sh->nope + sh->value),
                       .cols = sh->rank,
                       .segment_count = 1,
                       .segments = {{rig_values(r, sh->weights, in->w, w_count),
                                     heads * (sh->nope + sh->value)}}},
                  hw = w;
    hw.type = STORAGE_F32;
    hw.segments[0].data = in->w;
    struct op_head_linear up = {dq, dx,       &w,      rows,  heads, sh->nope + sh->value,
                                0,  sh->nope, q_width, width, true};
    ops->head_linear(r->stream, &up);
    float *absorbed = check ? rig_down(r, sh->act, dq, q_count) : NULL;
    struct op_latent_write write = {.q = dq,
                                    .q_rope = dx,
                                    .kv = dkv,
                                    .heads = heads,
                                    .rank = sh->rank,
                                    .rope = sh->rope,
                                    .q_stride = q_width,
                                    .q_offset = sh->nope,
                                    .norm = sh->normed ? rig_up(r, in->norm, sh->rank * 4) : NULL,
                                    .eps = 1e-6f,
                                    .angles = rig_up(r, angles, (size_t)rows * sh->rope * 4),
                                    .interleaved = sh->interleaved,
                                    .view = &s->kv,
                                    .batch = &b};
    ops->latent_write(r->stream, &write);
    struct op_latent_attention attention = {dmixed, dq, heads, sh->rank, 1 / sqrtf((float)q_width),
                                            &s->kv, &b};
    ops->latent_attention(r->stream, &attention);
    struct op_head_linear down = {
        dout,     dmixed,    &w,       rows,      heads, sh->nope + sh->value,
        sh->nope, sh->value, sh->rank, sh->value, false};
    ops->head_linear(r->stream, &down);
    float *got = rig_down(r, sh->act, dout, out_count);
    if (!check)
        return got;

    /* 1. into the latent space */
    float *want = calloc(q_count + 1, 4), *q = rig_down(r, sh->act, dq, q_count);
    up.out = want;
    up.x = q_in;
    up.w = &hw;
    ref->head_linear(r->ref_stream, &up);
    for (size_t i = 0; i < q_count; i++)
        if (i % width < sh->rank) {
            double tolerance = 4 * UNIT_ROUNDOFF * sh->nope * (sh->nope + 4.0) +
                               rounding(sh->act) * 1.01 * fabs(want[i]);
            EXPECT_CLOSE(absorbed[i], want[i], tolerance + rounding_floor(sh->act));
            EXPECT_CLOSE(q[i], absorbed[i], 0);
        }
    /* 2. the cache's rows and the rotated queries */
    size_t cache_bytes = s->kv.block_stride * s->kv.block_count;
    void *cache = malloc(cache_bytes), *filled = malloc(cache_bytes);
    struct kv_view host = s->kv;
    host.tables = s->tables;
    stream_copy_out(r->stream, cache, s->kv.base, cache_bytes);
    if (!rig_wait(r))
        memset(cache, 0xff, cache_bytes);
    memcpy(filled, cache, cache_bytes);
    host.base = filled;
    write.q = want;
    write.q_rope = q_in;
    write.kv = kv_in;
    write.norm = sh->normed ? in->norm : NULL;
    write.angles = angles;
    write.view = &host;
    write.batch = &hb;
    ref->latent_write(r->ref_stream, &write);
    for (uint32_t t = 0; t < rows; t++) {
        if (positions[t] == ROW_NONE)
            continue;
        uint32_t block = s->tables[(size_t)slots[t] * MAX_BLOCKS + positions[t] / sh->block_tokens];
        size_t at = block * s->kv.block_stride + 64 +
                    positions[t] % sh->block_tokens * storage_bytes(sh->cache, width);
        const float *scales = (const float *)(void *)((char *)filled + block * s->kv.block_stride +
                                                      64 + sh->block_tokens * width) +
                              2 * (positions[t] % sh->block_tokens);
        for (uint32_t i = 0; i < width; i++) {
            double a = storage_get(sh->cache, (char *)cache + at, i),
                   c = storage_get(sh->cache, (char *)filled + at, i);
            /* one step of the cache's type where the two lie on both sides of a rounding
             * boundary */
            double step = sh->cache == STORAGE_I8 ? 1 : 2 * cache_rounding(sh->cache) * fabs(c);
            EXPECT_CLOSE(
                a, c, step + 64 * UNIT_ROUNDOFF * 2 + (sh->cache == STORAGE_F8_E4M3 ? 0x1p-9 : 0));
        }
        if (sh->cache == STORAGE_I8)
            for (int i = 0; i < 2; i++)
                EXPECT_CLOSE(
                    ((const float *)(void *)((char *)cache + ((char *)scales - (char *)filled)))[i],
                    scales[i], 64 * UNIT_ROUNDOFF * scales[i]);
        for (size_t i = (size_t)t * heads * width; i < (size_t)(t + 1) * heads * width; i++)
            if (i % width >= sh->rank)
                EXPECT_CLOSE(q[i], want[i], rounding(sh->act) * 1.5 + 4 * UNIT_ROUNDOFF);
    }
    /* 3. attention on those */
    float *mixed = rig_down(r, sh->act, dmixed, mixed_count),
          *mixed_want = calloc(mixed_count + 1, 4);
    host.base = cache;
    attention.out = mixed_want;
    attention.q = q;
    attention.view = &host;
    attention.batch = &hb;
    ref->latent_attention(r->ref_stream, &attention);
    double largest = 0;
    for (size_t i = 0; i < q_count; i++)
        if (isfinite(q[i]))
            largest = fmax(largest, fabs((double)q[i]));
    for (size_t i = 0; i < mixed_count; i++) {
        /* scores: width terms of at most `largest` times the cached value (4 or so), scaled */
        double scores =
            UNIT_ROUNDOFF * (width / 32.0 + 8) * width * largest * 4 / sqrt((double)q_width);
        EXPECT_CLOSE(mixed[i], mixed_want[i],
                     8 * scores + UNIT_ROUNDOFF * 600 +
                         rounding(sh->act) * 1.01 * fabs(mixed_want[i]));
        if (positions[i / (heads * sh->rank)] == ROW_NONE)
            EXPECT_CLOSE(mixed[i], 0, 0);
    }
    /* 4. out of it */
    float *out_want = calloc(out_count + 1, 4);
    down.out = out_want;
    down.x = mixed;
    down.w = &hw;
    ref->head_linear(r->ref_stream, &down);
    for (size_t i = 0; i < out_count; i++)
        EXPECT_CLOSE(got[i], out_want[i],
                     4 * UNIT_ROUNDOFF * sh->rank * 4 * (sh->rank / 32.0 + 8) +
                         rounding(sh->act) * 1.01 * fabs(out_want[i]));
    void *all[] = {absorbed, want, q, cache, filled, mixed, mixed_want, out_want};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        free(all[i]);
    return got;
}

static const struct shape SHAPES[] = {
    {1, 8, 4, 4, 4, 16, 5, STORAGE_F32, STORAGE_F32, STORAGE_F32, false, true},
    {4, 40, 8, 16, 12, 16, 33, STORAGE_BF16, STORAGE_BF16, STORAGE_BF16, true, true},
    {3, 37, 6, 11, 9, 32, 20, STORAGE_F16, STORAGE_F16, STORAGE_F32, true, false},
    {2, 512, 64, 16, 16, 64, 9, STORAGE_F32, STORAGE_BF16, STORAGE_F16, false, true},
    {1, 20, 12, 8, 10, 16, 270, STORAGE_F32, STORAGE_F32, STORAGE_BF16, true, true},
    {2, 40, 8, 16, 12, 16, 21, STORAGE_BF16, STORAGE_F8_E4M3, STORAGE_BF16, true, true},
    {3, 36, 6, 11, 9, 32, 37, STORAGE_F32, STORAGE_I8, STORAGE_F32, true, true},
};

TEST(latent_attention_equals_its_definitions) {
    for (size_t i = 0; i < ARRAY_LEN(SHAPES); i++) {
        const struct shape *sh = &SHAPES[i];
        uint32_t slots[600], positions[600], rows = sh->rows + 6;
        for (uint32_t t = 0; t < rows; t++) {
            slots[t] = t < sh->rows ? 0 : 2;
            positions[t] = t < sh->rows ? t : t == sh->rows ? ROW_NONE : t - sh->rows - 1;
        }
        struct inputs in = inputs_new(sh, rows);
        float *first = NULL;
        for (int order = 0; order < (sh->rows > 100 ? 1 : ORDERS); order++) {
            struct scene s;
            emu_set_order(order, 11);
            scene_init(&s, sh);
            float *got = run(&s, &in, 0, slots, positions, rows, order == 0);
            size_t width = (size_t)sh->heads * sh->value, last = (size_t)(sh->rows + 1) * width;
            if (first)
                EXPECT(same_bits(got, first, sh->rows * width) &&
                       same_bits(got + last, first + last, 5 * width));
            if (first)
                free(got);
            else
                first = got;
            scene_release(&s);
        }
        emu_set_order(0, 1);
        free(first);
        inputs_free(&in);
    }
}

TEST(latent_attention_gives_equal_bits_however_a_sequence_is_cut) {
    const struct shape *sh = &SHAPES[1];
    uint32_t slots[64] = {0}, positions[64];
    size_t width = (size_t)sh->heads * sh->value;
    struct inputs in = inputs_new(sh, sh->rows);
    struct scene whole, cut;
    for (uint32_t t = 0; t < sh->rows; t++)
        positions[t] = t;
    scene_init(&whole, sh);
    scene_init(&cut, sh);
    float *want = run(&whole, &in, 0, slots, positions, sh->rows, false);
    for (uint32_t first = 0, n = 1; first < sh->rows;
         first += n, n = MIN(n * 2, sh->rows - first)) {
        float *got = run(&cut, &in, first, slots, positions + first, n, false);
        EXPECT(same_bits(got, want + first * width, n * width));
        free(got);
    }
    free(want);
    inputs_free(&in);
    scene_release(&whole);
    scene_release(&cut);
}
