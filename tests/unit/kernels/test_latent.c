/* Latent attention: each instruction set against the scalar definition, the definition against
 * plain attention on the keys and values that the latents stand for; bits against chunks. */
#include "rig.h"

enum { SLOTS = 3, MAX_BLOCKS = 48 };

struct shape {
    uint32_t heads, rank, rope, nope, value, block_tokens, rows;
    enum storage_type cache, weights;
    bool interleaved, normed;
};

struct scene {
    struct bench b;
    struct shape sh;
    struct kv_view kv;
    void *pages;
    uint32_t *tables;
};

static void scene_init(struct scene *s, const char *isa, int threads, const struct shape *sh) {
    *s = (struct scene){.b = bench_open(isa, threads), .sh = *sh};
    uint32_t blocks = MAX_BLOCKS * SLOTS, width = sh->rank + sh->rope;
    size_t layer = s->b.dev->ops->latent_layer_bytes(sh->cache, sh->block_tokens, width);
    s->pages = aligned_alloc(64, (layer + 64) * blocks);
    memset(s->pages, 0xff, (layer + 64) * blocks);
    s->tables = malloc(blocks * sizeof *s->tables);
    for (uint32_t i = 0; i < blocks; i++)
        s->tables[i] = i * 7 % blocks;
    s->kv = (struct kv_view){.base = s->pages,
                             .block_stride = layer + 64,
                             .layer_offset = 64,
                             .type = sh->cache,
                             .block_tokens = sh->block_tokens,
                             .kv_heads = 1,
                             .head_dim = width,
                             .block_count = blocks,
                             .tables = s->tables,
                             .max_blocks = MAX_BLOCKS};
}
static void scene_release(struct scene *s) {
    free(s->pages);
    free(s->tables);
    bench_close(&s->b);
}

struct inputs {
    float *q;  /* [rows, heads, nope + rope] */
    float *kv; /* [rows, rank + rope] */
    float *norm, *angles, *w;
    void *stored_w;
    struct matrix kv_b; /* [heads * (nope + value), rank] */
};

static float *small_rows(size_t count) {
    float *x = guarded(count);
    for (size_t i = 0; i < count; i++)
        x[i] = (float)(check_random() % 2001) / 1000.0f - 1.0f;
    return x;
}

static struct inputs inputs_new(const struct shape *sh, uint32_t rows) {
    size_t w = (size_t)sh->heads * (sh->nope + sh->value) * sh->rank;
    struct inputs in = {.q = small_rows((size_t)rows * sh->heads * (sh->nope + sh->rope)),
                        .kv = small_rows((size_t)rows * (sh->rank + sh->rope)),
                        .norm = small_rows(sh->rank),
                        .angles = guarded((size_t)rows * sh->rope),
                        .w = small_rows(w)};
    for (size_t i = 0; i < w; i++)
        in.w[i] /= sqrtf((float)sh->rank);
    in.stored_w = stored(sh->weights, in.w, w);
    for (size_t i = 0; i < w; i++)
        in.w[i] = storage_get(sh->weights, in.stored_w, i);
    for (size_t i = 0; i < (size_t)rows * sh->rope / 2; i++) {
        in.angles[2 * i] = cosf((float)i * 0.37f);
        in.angles[2 * i + 1] = sinf((float)i * 0.37f);
    }
    in.kv_b = (struct matrix){.type = sh->weights,
                              .rows = sh->heads * (sh->nope + sh->value),
                              .cols = sh->rank,
                              .segment_count = 1,
                              .segments = {{in.stored_w, sh->heads * (sh->nope + sh->value)}}};
    return in;
}
static void inputs_free(struct inputs *in) {
    unguard(in->q);
    unguard(in->kv);
    unguard(in->norm);
    unguard(in->angles);
    unguard(in->w);
    free(in->stored_w);
}

/* The whole of a layer's attention for rows [first, first + rows) of the inputs: [rows, heads,
 * value]. */
static float *run(struct scene *s, const struct inputs *in, uint32_t first, const uint32_t *slots,
                  const uint32_t *positions, uint32_t rows) {
    const struct shape *sh = &s->sh;
    const struct ops *ops = s->b.dev->ops;
    uint32_t width = sh->rank + sh->rope, heads = sh->heads, q_width = sh->nope + sh->rope;
    struct step_batch batch = {
        .row_count = rows, .slots = (uint32_t *)slots, .positions = (uint32_t *)positions};
    float *q = guarded((size_t)rows * heads * width),
          *mixed = guarded((size_t)rows * heads * sh->rank),
          *out = guarded((size_t)rows * heads * sh->value);
    const float *q_in = in->q + (size_t)first * heads * q_width;
    ops->head_linear(s->b.stream, &(struct op_head_linear){.out = q,
                                                           .x = q_in,
                                                           .w = &in->kv_b,
                                                           .rows = rows,
                                                           .heads = heads,
                                                           .head_rows = sh->nope + sh->value,
                                                           .count = sh->nope,
                                                           .x_stride = q_width,
                                                           .out_stride = width,
                                                           .transposed = true});
    ops->latent_write(s->b.stream,
                      &(struct op_latent_write){.q = q,
                                                .q_rope = q_in,
                                                .kv = in->kv + (size_t)first * width,
                                                .heads = heads,
                                                .rank = sh->rank,
                                                .rope = sh->rope,
                                                .q_stride = q_width,
                                                .q_offset = sh->nope,
                                                .norm = sh->normed ? in->norm : NULL,
                                                .eps = 1e-6f,
                                                .angles = in->angles + (size_t)first * sh->rope,
                                                .interleaved = sh->interleaved,
                                                .view = &s->kv,
                                                .batch = &batch});
    ops->latent_attention(s->b.stream,
                          &(struct op_latent_attention){.out = mixed,
                                                        .q = q,
                                                        .heads = heads,
                                                        .rank = sh->rank,
                                                        .scale = 1 / sqrtf((float)q_width),
                                                        .view = &s->kv,
                                                        .batch = &batch});
    ops->head_linear(s->b.stream, &(struct op_head_linear){.out = out,
                                                           .x = mixed,
                                                           .w = &in->kv_b,
                                                           .rows = rows,
                                                           .heads = heads,
                                                           .head_rows = sh->nope + sh->value,
                                                           .first = sh->nope,
                                                           .count = sh->value,
                                                           .x_stride = sh->rank,
                                                           .out_stride = sh->value});
    if (!guards_intact(q, (size_t)rows * heads * width) ||
        !guards_intact(mixed, (size_t)rows * heads * sh->rank) ||
        !guards_intact(out, (size_t)rows * heads * sh->value))
        check_fail(__FILE__, __LINE__, "latent attention wrote outside its arrays");
    unguard(q);
    unguard(mixed);
    return out;
}

static const struct shape SHAPES[] = {
    {1, 8, 4, 4, 4, 16, 5, STORAGE_F32, STORAGE_F32, false, true},
    {4, 32, 8, 16, 16, 16, 33, STORAGE_F32, STORAGE_BF16, true, true},
    {5, 37, 6, 11, 9, 32, 20, STORAGE_F16, STORAGE_F16, true, true},
    {2, 64, 16, 32, 24, 64, 70, STORAGE_BF16, STORAGE_F32, false, false},
    {16, 512, 64, 128, 128, 16, 9, STORAGE_F32, STORAGE_F32, true, true},
    {3, 20, 12, 8, 10, 16, 530, STORAGE_F32, STORAGE_BF16, true, true},
    {4, 32, 8, 16, 16, 16, 40, STORAGE_F8_E4M3, STORAGE_F32, true, true},
    {5, 37, 6, 11, 9, 32, 300, STORAGE_I8, STORAGE_F16, true, true},
};

/* One slot's rows, a row of padding, five rows of another slot. */
TEST(latent_attention_equals_its_definition) {
    FOR_EACH_ISA(isa)
    for (size_t i = 0; i < ARRAY_LEN(SHAPES); i++) {
        const struct shape *sh = &SHAPES[i];
        struct scene cpu, ref;
        uint32_t rows = sh->rows + 6, *slots = calloc(rows, 4), *positions = calloc(rows, 4);
        scene_init(&cpu, isa, 2, sh);
        scene_init(&ref, "ref", 1, sh);
        for (uint32_t t = 0; t < rows; t++) {
            slots[t] = t < sh->rows ? 0 : 2;
            positions[t] = t < sh->rows ? t : t == sh->rows ? ROW_NONE : t - sh->rows - 1;
        }
        struct inputs in = inputs_new(sh, rows);
        float *got = run(&cpu, &in, 0, slots, positions, rows),
              *want = run(&ref, &in, 0, slots, positions, rows);
        /* Scores are sums of rank + rope terms of at most 2 or so; values of the order of 1. A
         * cached value that lies at a rounding boundary of the cache's type may round the other
         * way: a step is a 127th of the largest, or an eighth of an fp8 value. */
        static const double ROUNDING[STORAGE_TYPE_COUNT] = {[STORAGE_F16] = 0x1p-11,
                                                            [STORAGE_BF16] = 0x1p-8,
                                                            [STORAGE_F8_E4M3] = 0x1p-2,
                                                            [STORAGE_I8] = 0x1p-2};
        double cache = ROUNDING[sh->cache];
        double tolerance = 64 * UNIT_ROUNDOFF * (sh->rank + sh->rope) + cache / 8;
        for (size_t n = 0; n < (size_t)rows * sh->heads * sh->value; n++) {
            uint32_t t = (uint32_t)(n / (sh->heads * sh->value));
            if (!(fabs((double)got[n] - want[n]) <= (positions[t] == ROW_NONE ? 0 : tolerance)))
                check_fail(__FILE__, __LINE__, "%s: shape %zu row %u: %g, expected %g", isa, i, t,
                           (double)got[n], (double)want[n]);
        }
        unguard(got);
        unguard(want);
        inputs_free(&in);
        free(slots);
        free(positions);
        scene_release(&cpu);
        scene_release(&ref);
    }
}

/* The definition, absorbed, against attention over keys and values made from the latents. */
TEST(absorbing_changes_nothing) {
    enum { ROWS = 12 };
    struct shape sh = SHAPES[1];
    struct scene s;
    uint32_t slots[ROWS] = {0}, positions[ROWS], width = sh.rank + sh.rope,
             q_width = sh.nope + sh.rope;
    sh.rows = ROWS;
    sh.weights = STORAGE_F32;
    sh.normed = false;
    scene_init(&s, "ref", 1, &sh);
    struct inputs in = inputs_new(&sh, ROWS);
    for (uint32_t t = 0; t < ROWS; t++)
        positions[t] = t;
    for (size_t i = 0; i < ROWS * (size_t)sh.rope / 2; i++) {
        in.angles[2 * i] = 1;
        in.angles[2 * i + 1] = 0;
    }
    float *got = run(&s, &in, 0, slots, positions, ROWS);
    for (uint32_t t = 0; t < ROWS; t++)
        for (uint32_t h = 0; h < sh.heads; h++) {
            const float *q = in.q + ((size_t)t * sh.heads + h) * q_width,
                        *w = in.w + (size_t)h * (sh.nope + sh.value) * sh.rank;
            double p[ROWS], total = 0;
            for (uint32_t j = 0; j <= t; j++) {
                const float *row = in.kv + (size_t)j * width;
                double dot = 0;
                for (uint32_t n = 0; n < sh.nope; n++) {
                    double key = 0;
                    for (uint32_t k = 0; k < sh.rank; k++)
                        key += (double)w[n * sh.rank + k] * row[k];
                    dot += key * q[n];
                }
                for (uint32_t n = 0; n < sh.rope; n++)
                    dot += (double)q[sh.nope + n] * row[sh.rank + n];
                total += p[j] = exp(dot / sqrt(q_width));
            }
            for (uint32_t n = 0; n < sh.value; n++) {
                double sum = 0;
                for (uint32_t j = 0; j <= t; j++)
                    for (uint32_t k = 0; k < sh.rank; k++)
                        sum += p[j] / total * w[(sh.nope + n) * sh.rank + k] *
                               in.kv[(size_t)j * width + k];
                EXPECT(fabs(got[((size_t)t * sh.heads + h) * sh.value + n] - sum) <= 1e-5);
            }
        }
    unguard(got);
    inputs_free(&in);
    scene_release(&s);
}

TEST(latent_attention_gives_equal_bits_however_a_sequence_is_cut) {
    static const uint32_t chunks[] = {1, 3, 16, 100};
    FOR_EACH_ISA(isa)
    for (size_t i = 1; i < ARRAY_LEN(SHAPES); i += 2) {
        const struct shape *sh = &SHAPES[i];
        struct scene whole;
        uint32_t slots[600] = {0}, positions[600];
        size_t width = (size_t)sh->heads * sh->value;
        struct inputs in = inputs_new(sh, sh->rows);
        scene_init(&whole, isa, 1, sh);
        for (uint32_t t = 0; t < sh->rows; t++)
            positions[t] = t;
        float *want = run(&whole, &in, 0, slots, positions, sh->rows);
        for (size_t c = sh->rows > 100 ? 2 : 0; c < ARRAY_LEN(chunks); c++) {
            struct scene cut;
            scene_init(&cut, isa, c % 2 ? 3 : 1, sh);
            for (uint32_t first = 0; first < sh->rows; first += chunks[c]) {
                uint32_t n = MIN(chunks[c], sh->rows - first);
                float *got = run(&cut, &in, first, slots, positions + first, n);
                EXPECT(same_bits(got, want + first * width, n * width));
                unguard(got);
            }
            scene_release(&cut);
        }
        unguard(want);
        inputs_free(&in);
        scene_release(&whole);
    }
}
