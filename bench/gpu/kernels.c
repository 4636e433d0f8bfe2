/* Each operation in the shapes of real models, in percent of the device's ceiling. */
#include <stdio.h>
#include <stdlib.h>

#include "gpu_bench.h"

/* arrays are rotated through so much memory, so that no cache holds them */
enum { CACHE_BYTES = 256 << 20 };

/* Device memory with small values of both signs in it, whatever type it is read as. */
static void *filled(struct bench *b, size_t size) {
    void *p = bench_alloc(b, size);
    if (!p) {
        fprintf(stderr, "bench_gpu: no memory for %zu bytes\n", size);
        exit(1);
    }
    enum { PATTERN = 1 << 16 };
    static uint16_t pattern[PATTERN];
    uint32_t x = 1;
    for (int i = 0; i < PATTERN; i++) {
        x = x * 1664525u + 1013904223u;
        pattern[i] = (uint16_t)((x >> 16 & 0x8000) | 0x3c80 | (x >> 24 & 0x7f));
    }
    for (size_t at = 0; at < size; at += sizeof pattern)
        stream_copy_in(b->stream, (char *)p + at, pattern, MIN(size - at, sizeof pattern));
    return p;
}
static void *filled_u32(struct bench *b, const uint32_t *values, size_t count) {
    void *p = bench_alloc(b, count * sizeof *values);
    if (p)
        stream_copy_in(b->stream, p, values, count * sizeof *values);
    return p;
}

/* ---- products ---- */

struct product_bench {
    enum storage_type type;
    enum compute_type compute;
    char *w;
    void *x, *out, *scales, *scratch;
    uint32_t rows, n, k, copies;
    bool output, packed;
};

static struct matrix weights_of(const struct product_bench *p, uint32_t i) {
    struct matrix w = {
        .type = p->type, .compute = p->compute, .rows = p->n, .cols = p->k, .segment_count = 1};
    w.segments[0].data = p->w + (size_t)(i % p->copies) * p->n * storage_bytes(p->type, p->k);
    w.segments[0].packed = p->packed ? w.segments[0].data : NULL;
    w.segments[0].rows = p->n;
    w.segments[0].scale_rows = 1;
    w.segments[0].scale_cols = p->type == STORAGE_U4 ? 128 : 0;
    w.segments[0].scale_stride = p->type == STORAGE_U4 ? p->k / 128 : 1;
    w.segments[0].zero = p->type == STORAGE_U4 ? 8 : 0;
    w.segments[0].scales = p->scales;
    return w;
}

static void put_product(struct bench *b, void *ctx, uint32_t i) {
    const struct product_bench *p = ctx;
    const struct matrix w = weights_of(p, i);
    b->dev->ops->linear(b->stream, &(struct op_linear){.out = p->out,
                                                       .x = p->x,
                                                       .w = &w,
                                                       .rows = p->rows,
                                                       .class_rows = p->output ? p->rows : 0,
                                                       .out_stride = p->n,
                                                       .scratch = p->scratch});
}

/* As the loader does it. */
static void pack_weights(struct bench *b, struct product_bench *p) {
    const struct matrix first = weights_of(p, 0);
    if (!b->dev->ops->packed_bytes ||
        b->dev->ops->packed_bytes(b->dev, &first, 0) != PACKED_IN_PLACE)
        return;
    for (uint32_t i = 0; i < p->copies; i++) {
        const struct matrix w = weights_of(p, i);
        b->dev->ops->pack(b->stream, &w, 0, (void *)w.segments[0].data);
    }
    p->packed = true;
}

/* compute: of weights in fp8 also COMPUTE_FP8; passed over where the device has no such products. */
static void one_product_to(struct bench *b, const char *what, enum storage_type type,
                           enum compute_type compute, uint32_t rows, uint32_t n, uint32_t k,
                           bool output) {
    size_t size = n * storage_bytes(type, k), scales = type == STORAGE_U4 ? (size_t)n * k / 32 : 0;
    struct product_bench p = {
        .type = type, .compute = compute, .rows = rows, .n = n, .k = k, .output = output};
    p.copies = b->tiny ? 1 : (uint32_t)(CACHE_BYTES / size + 1);
    p.w = filled(b, size * p.copies);
    p.x = filled(b, (size_t)rows * k * 2);
    p.out = filled(b, (size_t)rows * n * 2);
    p.scales = storage_is_scaled(type) ? filled(b, scales ? scales : (size_t)n * 4) : NULL;
    pack_weights(b, &p);
    if (compute && !p.packed) {
        bench_drop(b);
        return;
    }
    if (compute)
        p.scratch = bench_alloc(b, b->dev->ops->linear_scratch(b->dev, rows, k));
    char name[96], type_name[24] = "";
    if (!storage_is_plain(type))
        snprintf(type_name, sizeof type_name, ", %s%s%s", storage_name(type), compute ? " x " : "",
                 compute ? compute_name(compute) : "");
    snprintf(name, sizeof name, "%s product, %u x [%u, %u] (%s%s)", output ? "output" : "prompt",
             rows, n, k, what, type_name);
    double t = bench_time(b, put_product, &p, p.copies > 20 ? p.copies : 20);
    bench_figure(b, name, t, (double)(size + scales) + (double)rows * (n + k) * 2,
                 2.0 * rows * n * k);
    bench_drop(b);
}

static void one_product(struct bench *b, const char *what, enum storage_type type, uint32_t rows,
                        uint32_t n, uint32_t k, bool output) {
    one_product_to(b, what, type, COMPUTE_F32, rows, n, k, output);
}

/* Of activations in fp8, with what rounds them: decode steps, and prompts. */
static void rounded_products(struct bench *b) {
    static const uint32_t rows[] = {1, 64, 256, 2048};
    for (size_t r = 0; r < (b->tiny ? 1 : ARRAY_LEN(rows)); r++) {
        const bool output = rows[r] < 2048;
        one_product_to(b, b->tiny ? "tiny" : "8B gate, up", STORAGE_F8_E4M3, COMPUTE_FP8, rows[r],
                       b->tiny ? 128 : 28672, b->tiny ? 256 : 4096, output);
        if (!b->tiny)
            one_product_to(b, "8B down", STORAGE_F8_E4M3, COMPUTE_FP8, rows[r], 4096, 14336,
                           output);
    }
}

/* Of quantised types, what decides: the largest product, and the one with the fewest blocks. */
static void quantised_products(struct bench *b) {
    static const enum storage_type types[] = {STORAGE_F8_E4M3, STORAGE_U4,   STORAGE_Q8_0,
                                              STORAGE_Q4_0,    STORAGE_Q4_K, STORAGE_Q6_K};
    static const uint32_t rows[] = {1, 64, 256};
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        for (size_t r = 0; r < (b->tiny ? 1 : ARRAY_LEN(rows)); r++) {
            if (b->tiny) {
                one_product(b, "tiny", types[i], 1, 128, 256, true);
                continue;
            }
            one_product(b, "8B gate, up", types[i], rows[r], 28672, 4096, true);
            one_product(b, "8B down", types[i], rows[r], 4096, 14336, true);
        }
}

static void products(struct bench *b) {
    static const struct {
        const char *name;
        uint32_t n, k;
    } shapes[] = {{"8B qkv", 6144, 4096},       {"8B out", 4096, 4096},
                  {"8B gate, up", 28672, 4096}, {"8B down", 4096, 14336},
                  {"8B head", 128256, 4096},    {"1B qkv", 3072, 2048},
                  {"1B gate, up", 16384, 2048}, {"1B down", 2048, 8192},
                  {"0.5B gate, up", 9728, 896}, {"0.5B down", 896, 4864}};
    static const uint32_t rows[] = {1, 8, 32, 64, 128, 256};
    for (size_t s = 0; s < (b->tiny ? 1 : ARRAY_LEN(shapes)); s++) {
        uint32_t n = b->tiny ? 96 : shapes[s].n, k = b->tiny ? 128 : shapes[s].k;
        for (size_t r = 0; r < (b->tiny ? 2 : ARRAY_LEN(rows)); r++)
            one_product(b, shapes[s].name, STORAGE_BF16, rows[r], n, k, true);
        if (s == 4)
            continue;              /* a prompt's rows seldom reach the head */
        if (!b->tiny && n <= 4096) /* with k whole, where output rows have it in splits */
            one_product(b, shapes[s].name, STORAGE_BF16, 1, n, k, false);
        one_product(b, shapes[s].name, STORAGE_BF16, b->tiny ? 8 : 512, n, k, false);
        if (!b->tiny)
            one_product(b, shapes[s].name, STORAGE_BF16, 2048, n, k, false);
    }
}

/* ---- attention ---- */

struct attention_bench {
    struct kv_view kv;
    struct step_batch batch;
    uint32_t heads;
    void *qkv, *out, *scratch;
};

static void put_attention(struct bench *b, void *ctx, uint32_t i) {
    const struct attention_bench *a = ctx;
    b->dev->ops->attention(b->stream, &(struct op_attention){.out = a->out,
                                                             .qkv = a->qkv,
                                                             .heads = a->heads,
                                                             .scale = 0.1f,
                                                             .class_rows = a->batch.output_count,
                                                             .kv = &a->kv,
                                                             .batch = &a->batch,
                                                             .scratch = a->scratch});
}

/* Decode: `rows` slots with `context` positions each. Prefill: one slot, the last `rows` of
 * `context` positions. */
static void one_attention(struct bench *b, uint32_t heads, uint32_t kv_heads, uint32_t dim,
                          uint32_t rows, uint32_t context, bool output) {
    enum { BLOCK = 32 };
    uint32_t per_slot = (context + BLOCK - 1) / BLOCK, slots = output ? rows : 1,
             blocks = per_slot * slots;
    uint32_t *tables = malloc(blocks * sizeof *tables), *ids = malloc(rows * sizeof *ids),
             *positions = malloc(rows * sizeof *positions);
    double pairs = 0;
    if (!tables || !ids || !positions)
        exit(1);
    /* scattered */
    for (uint32_t i = 0; i < blocks; i++)
        tables[i] = i % slots * per_slot + i / slots;
    for (uint32_t i = 0; i < rows; i++) {
        ids[i] = output ? i : 0;
        positions[i] = output ? context - 1 : context - rows + i;
        pairs += positions[i] + 1;
    }
    size_t layer = b->dev->ops->kv_layer_bytes(STORAGE_BF16, BLOCK, kv_heads, dim);
    struct attention_bench a = {.heads = heads};
    a.kv = (struct kv_view){.base = filled(b, layer * blocks),
                            .block_stride = layer,
                            .type = STORAGE_BF16,
                            .block_tokens = BLOCK,
                            .kv_heads = kv_heads,
                            .head_dim = dim,
                            .block_count = blocks,
                            .tables = filled_u32(b, tables, blocks),
                            .max_blocks = per_slot};
    a.batch = (struct step_batch){.row_count = rows,
                                  .output_count = output ? rows : 0,
                                  .slots = filled_u32(b, ids, rows),
                                  .positions = filled_u32(b, positions, rows)};
    a.qkv = filled(b, (size_t)rows * (heads + 2 * kv_heads) * dim * 2);
    a.out = filled(b, (size_t)rows * heads * dim * 2);
    a.scratch = filled(b, b->dev->ops->attention_scratch(b->dev, rows, heads, dim, context));
    char name[96];
    snprintf(name, sizeof name, "%s attention, %u rows, context %u (%u heads on %u of %u)",
             output ? "output" : "prompt", rows, context, heads, kv_heads, dim);
    double t = bench_time(b, put_attention, &a, 20);
    bench_figure(b, name, t, (double)slots * context * kv_heads * dim * 4, pairs * heads * dim * 4);
    bench_drop(b);
    free(tables);
    free(ids);
    free(positions);
}

static void attentions(struct bench *b) {
    static const uint32_t shapes[][3] = {{32, 8, 128}, {32, 8, 64}, {14, 2, 64}};
    static const uint32_t rows[] = {1, 8, 32, 128};
    if (b->tiny) {
        one_attention(b, 4, 2, 64, 2, 64, true);
        one_attention(b, 4, 2, 64, 8, 64, false);
        return;
    }
    for (size_t s = 0; s < ARRAY_LEN(shapes); s++) {
        for (size_t r = 0; r < ARRAY_LEN(rows); r++)
            for (uint32_t context = 1024; context <= 4096; context *= 4)
                one_attention(b, shapes[s][0], shapes[s][1], shapes[s][2], rows[r], context, true);
        one_attention(b, shapes[s][0], shapes[s][1], shapes[s][2], 2048, 2048, false);
        one_attention(b, shapes[s][0], shapes[s][1], shapes[s][2], 2048, 8192, false);
    }
}

/* ---- row by row ---- */

struct rows_bench {
    void *out, *x, *delta;
    float *weight;
    uint32_t rows, width;
};

static void put_norm(struct bench *b, void *ctx, uint32_t i) {
    const struct rows_bench *r = ctx;
    b->dev->ops->rmsnorm(b->stream, &(struct op_rmsnorm){.out = r->out,
                                                         .x = r->x,
                                                         .delta = r->delta,
                                                         .weight = r->weight,
                                                         .rows = r->rows,
                                                         .width = r->width,
                                                         .eps = 1e-5f});
}
static void put_act_mul(struct bench *b, void *ctx, uint32_t i) {
    const struct rows_bench *r = ctx;
    b->dev->ops->act_mul(b->stream, &(struct op_act_mul){.out = r->out,
                                                         .gate_up = r->x,
                                                         .rows = r->rows,
                                                         .width = r->width,
                                                         .activation = ACTIVATION_SILU});
}

static void one_by_rows(struct bench *b, uint32_t rows, uint32_t width, bool norm) {
    struct rows_bench r = {.rows = rows, .width = width};
    char name[96];
    r.out = filled(b, (size_t)rows * width * 2);
    r.x = filled(b, (size_t)rows * width * 4);
    r.delta = filled(b, (size_t)rows * width * 2);
    r.weight = filled(b, (size_t)width * 4);
    snprintf(name, sizeof name, "%s, %u x %u", norm ? "residual and norm" : "gated activation",
             rows, width);
    double t = bench_time(b, norm ? put_norm : put_act_mul, &r, 50);
    bench_figure(b, name, t, (double)rows * width * (norm ? 8 : 6), 0);
    bench_drop(b);
}

static void by_rows(struct bench *b) {
    static const uint32_t rows[] = {1, 64, 2048};
    for (size_t i = 0; i < (b->tiny ? 1 : ARRAY_LEN(rows)); i++) {
        one_by_rows(b, rows[i], b->tiny ? 256 : 4096, true);
        one_by_rows(b, rows[i], b->tiny ? 256 : 14336, false);
    }
}

/* ---- sampling ---- */

struct sample_bench {
    struct op_sample op;
    struct slot_table slots;
    struct step_batch batch;
    struct sample_out out;
};

static void put_sample(struct bench *b, void *ctx, uint32_t i) {
    const struct sample_bench *s = ctx;
    b->dev->ops->sample(b->stream, &s->op);
}

/* Slots hold one token and room for many: each repetition appends one. */
static void one_sample(struct bench *b, const char *what, uint32_t rows, float temperature,
                       uint32_t top_k, float top_p) {
    enum { CONTEXT = 4096 };
    const uint32_t vocab = b->tiny ? 2048 : 128256;
    struct sample_bench s = {0};
    struct slot_state state = {.active = 1,
                               .token_count = 1,
                               .max_total = CONTEXT,
                               .temperature = temperature,
                               .top_k = top_k,
                               .top_p = top_p,
                               .repetition_penalty = 1,
                               .logprobs = -1};
    uint32_t *order = malloc(rows * sizeof *order);
    if (!order)
        exit(1);
    for (uint32_t i = 0; i < rows; i++)
        order[i] = i;
    s.slots = (struct slot_table){.slot_count = rows,
                                  .max_context = CONTEXT,
                                  .states = filled(b, rows * sizeof state),
                                  .tokens = filled(b, (size_t)rows * CONTEXT * 4),
                                  .bias_ids = filled(b, (size_t)rows * SLOT_BIAS_MAX * 4),
                                  .bias_values = filled(b, (size_t)rows * SLOT_BIAS_MAX * 4)};
    for (uint32_t i = 0; i < rows; i++)
        stream_copy_in(b->stream, s.slots.states + i, &state, sizeof state);
    uint32_t *ids = filled_u32(b, order, rows);
    s.batch = (struct step_batch){.row_count = rows,
                                  .sample_count = rows,
                                  .sample_rows = ids,
                                  .slots = ids,
                                  .positions = ids};
    uint32_t *host = device_alloc_host(b->dev, (size_t)rows * (4 + 2 * SAMPLE_TOP_MAX) * 4);
    if (!host)
        exit(1);
    s.out = (struct sample_out){.tokens = host,
                                .status = host + rows,
                                .logprobs = (float *)host + 2 * rows,
                                .top_counts = host + 3 * rows,
                                .top_ids = host + 4 * rows,
                                .top_logprobs = (float *)host + (4 + SAMPLE_TOP_MAX) * rows};
    s.op =
        (struct op_sample){.logits = filled(b, (size_t)rows * vocab * 4),
                           .logits_stride = vocab,
                           .vocab_size = vocab,
                           .slots = &s.slots,
                           .batch = &s.batch,
                           .out = &s.out,
                           .scratch = filled(b, b->dev->ops->sample_scratch(b->dev, rows, vocab))};
    char name[96];
    snprintf(name, sizeof name, "sampling, %s, %u x %u", what, rows, vocab);
    double t = bench_time(b, put_sample, &s, 20);
    bench_figure(b, name, t, (double)rows * vocab * 4, 0);
    bench_wait(b);
    device_free_host(b->dev, host);
    bench_drop(b);
    free(order);
}

int bench_kernels(struct bench *b) {
    products(b);
    quantised_products(b);
    rounded_products(b);
    attentions(b);
    by_rows(b);
    static const uint32_t rows[] = {1, 32, 64}; /* up to 32 by a cluster of blocks each */
    for (size_t i = 0; i < (b->tiny ? 1 : ARRAY_LEN(rows)); i++) {
        one_sample(b, "greedy", rows[i], 0, 0, 1);
        one_sample(b, "temperature 1", rows[i], 1, 0, 1);
        if (!b->tiny)
            one_sample(b, "top_k 40, top_p 0.95", rows[i], 1, 40, 0.95f);
    }
    return 0;
}
