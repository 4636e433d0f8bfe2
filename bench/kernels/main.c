/*
 * bench_kernels - what the CPU device reaches of this machine: each operation in percent of its
 * ceiling (bytes it must read against the read bandwidth, multiply-adds it must do against the fma
 * rate, whichever takes longer), then decode and prefill of a random-weight model in a real shape.
 *
 *     bench_kernels [SHAPE [FOLDER [ISA]]]
 *     bench_kernels decode|prefill COUNT MODEL     so many tokens of a folder or GGUF file, nothing else
 *     bench_kernels decode COUNT MODEL STREAMS     the same of up to 64 streams at once
 *     bench_kernels speeds MODEL                   one line of JSON: bench/cpu
 *     bench_kernels long TOKENS MODEL              the same of one long prompt, and steps behind it
 *     bench_kernels pack MODEL                     leaves packed weights in TRIREME_CACHE_DIR
 *     bench_kernels linear TYPE OUTPUTS INPUTS [ROWS]  one product at some numbers of rows
 *     bench_kernels experts TYPE OUTPUTS INPUTS EXPERTS TOP [ROWS]  a mixture's product
 *     bench_kernels attention [ISA]                attention over short and long caches
 *     bench_kernels sample [ISA]                   the sampler's settings
 *     bench_kernels write SHAPE FOLDER             the made-up model alone
 *
 * TRIREME_BENCH_ORDER: linear of int4 and the like has its groups' columns in any order.
 * TRIREME_COMPUTE: as --compute of a worker. TRIREME_CACHE_DIR: a folder where packed weights are
 * kept; without it all are packed anew.
 *
 * The folder keeps the made-up model between runs; a GGUF file in its place is read as it is.
 * Ceilings are measured first, in the same run: compare ratios, not figures.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "bench.h"
#include "model/load/packed_file.h"
#include "model/run/ffn_moe_weights.h"

/* Time of the wall, or, on a machine that is busy with other things, of one thread's processor
 * (TRIREME_BENCH_CPU_TIME=1). */
static bool cpu_time;
static int64_t bench_ns(void) {
    struct timespec t;
    if (!cpu_time)
        return clock_ns();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

struct machine {
    int threads;
    double read, flops;
};

static void print_row(const char *what, double seconds, double bytes, double flops,
                      const struct machine *m) {
    double by_memory = bytes / m->read, by_flops = flops / m->flops,
           floor = by_memory > by_flops ? by_memory : by_flops;
    printf("%-44s %9.1f us  %6.1f GB/s %7.1f Gflop/s  %3.0f %% of %s\n", what, seconds * 1e6,
           bytes / seconds * 1e-9, flops / seconds * 1e-9, 100 * floor / seconds,
           by_memory > by_flops ? "memory" : "fma");
    fflush(stdout);
}

/* ---- operations ---- */

/* Aligned as device_alloc aligns. */
static float *zeroed(size_t count) {
    float *p = aligned_alloc(64, (count * sizeof *p + 63) / 64 * 64);
    memset(p, 0, count * sizeof *p);
    return p;
}

/* Scales of 1 where a model's files have theirs: fp8 one for each 128 x 128 values, int8 one an output,
 * the others one for each 128 columns, or with TRIREME_BENCH_ORDER for columns in any order, as GPTQ's
 * desc_act has them (`groups`). Both are owned by the caller. */
static float *give_scales(struct matrix *w, uint32_t **groups) {
    struct matrix_segment *p = &w->segments[0];
    bool fp8 = w->type == STORAGE_F8_E4M3 || w->type == STORAGE_F8_E5M2;
    p->scale_rows = fp8 ? 128 : 1;
    p->scale_cols = w->type == STORAGE_I8 ? w->cols : 128;
    p->scale_stride = (w->cols + p->scale_cols - 1) / p->scale_cols;
    size_t count = (size_t)((w->rows + p->scale_rows - 1) / p->scale_rows) * p->scale_stride;
    float *scales = malloc(count * sizeof *scales);
    for (size_t i = 0; i < count; i++)
        scales[i] = 1;
    p->scales = scales;
    if (getenv("TRIREME_BENCH_ORDER")) {
        *groups = malloc(w->cols * sizeof **groups);
        for (uint32_t k = 0; k < w->cols; k++)
            (*groups)[k] = k * 7 % p->scale_stride;
        p->groups = *groups;
    }
    return scales;
}

/* Enough copies of the matrix that none stays in a cache. */
static void bench_linear(struct device *dev, struct stream *s, const struct machine *m,
                         enum storage_type type, uint32_t rows, uint32_t n, uint32_t k) {
    size_t size = storage_bytes(type, (size_t)n * k), copies = ((size_t)512 << 20) / size + 1;
    char *w = aligned_alloc(4096, (size * copies + 4095) / 4096 * 4096), what[80], *packed = NULL;
    struct matrix first = {.type = type,
                           .rows = n,
                           .cols = k,
                           .segment_count = 1,
                           .segments = {{.data = w, .rows = n}}};
    uint32_t *groups = NULL;
    float *scales = storage_is_scaled(type) ? give_scales(&first, &groups) : NULL;
    first.compute = device_compute(dev, &first);
    size_t packed_size =
        first.compute && dev->ops->packed_bytes ? dev->ops->packed_bytes(dev, &first, 0) : 0;
    float *x = zeroed((size_t)rows * k), *out = zeroed((size_t)rows * n);
    memset(w, 0x3c, size * copies); /* 0.0115 as bf16, scales of 1.06: no denormals, no zeros */
    if (packed_size)
        packed = aligned_alloc(64, (packed_size * copies + 63) / 64 * 64);
    for (size_t i = 0; i < copies && packed; i++)
        dev->ops->pack(s, &first, 0, packed + i * packed_size);
    double best = 1e9;
    for (size_t r = 0; r < (rows > 16 ? 8 : 2 * copies + 2); r++) {
        struct matrix mat = first;
        mat.segments[0].data = w + r % copies * size;
        mat.segments[0].packed = packed ? packed + r % copies * packed_size : NULL;
        int64_t start = bench_ns();
        dev->ops->linear(
            s,
            &(struct op_linear){
                .out = out, .x = x, .w = &mat, .rows = rows, .class_rows = rows, .out_stride = n});
        double t = (double)(bench_ns() - start) * 1e-9;
        if (t < best)
            best = t;
    }
    snprintf(what, sizeof what, "linear %s%s%s %u x [%u, %u]", storage_name(type),
             first.compute ? "." : "", first.compute ? compute_name(first.compute) : "", rows, n,
             k);
    print_row(what, best, (double)size, 2.0 * rows * n * k, m);
    free(w);
    free(scales);
    free(groups);
    free(packed);
    free(x);
    free(out);
}

struct mixture {
    enum storage_type type;
    uint32_t outputs, inputs, experts, top;
};

/* Each row to `top` experts of its own, drawn by x. */
static void draw_experts(const struct expert_plan *plan, const struct mixture *mix, uint32_t rows,
                         uint64_t *x) {
    uint32_t count[ROUTE_EXPERTS_MAX] = {0}, pairs = rows * mix->top;
    for (uint32_t p = 0; p < pairs; p++) {
        bool again = true;
        while (again) {
            *x = *x * 6364136223846793005u + 1442695040888963407u;
            plan->chosen[p] = (uint32_t)(*x >> 33) % mix->experts;
            again = false;
            for (uint32_t q = p / mix->top * mix->top; q < p; q++)
                again |= plan->chosen[q] == plan->chosen[p];
        }
        count[plan->chosen[p]]++;
    }
    plan->offsets[0] = 0;
    for (uint32_t e = 0; e < mix->experts; e++)
        plan->offsets[e + 1] = plan->offsets[e] + count[e];
}

/* The best round, by the bytes a second of the experts that got rows. */
static void bench_experts(struct device *dev, struct stream *s, const struct machine *m,
                          const struct mixture *mix, uint32_t rows) {
    enum { ROUNDS = 60 };
    const uint32_t n = mix->outputs, k = mix->inputs, pairs = rows * mix->top;
    size_t size = storage_bytes(mix->type, (size_t)n * k), packed_size = 0;
    struct matrix *experts = calloc(mix->experts, sizeof *experts);
    char *w = malloc(size), *packed = NULL, what[96];
    memset(w, 0x3c, size);
    for (uint32_t e = 0; e < mix->experts; e++) {
        struct matrix *one = &experts[e];
        *one = (struct matrix){.type = mix->type,
                               .rows = n,
                               .cols = k,
                               .segment_count = 1,
                               .segments = {{.data = w, .rows = n}}};
        one->compute = device_compute(dev, one);
        if (e == 0 && one->compute && dev->ops->packed_bytes)
            packed_size = dev->ops->packed_bytes(dev, one, 0);
        if (packed_size && !packed)
            packed = aligned_alloc(4096, (packed_size * mix->experts + 4095) / 4096 * 4096);
        if (packed_size) {
            dev->ops->pack(s, one, 0, packed + e * packed_size);
            one->segments[0].packed = packed + e * packed_size;
        }
    }
    struct expert_matrix all = {
        .type = mix->type, .rows = n, .cols = k, .expert_count = mix->experts, .experts = experts};
    uint32_t *ids = calloc(3 * pairs + mix->experts + 1, sizeof *ids);
    float *x = zeroed((size_t)pairs * k), *out = zeroed((size_t)pairs * n);
    struct expert_plan plan = {
        .chosen = ids, .pairs = ids + pairs, .places = ids + 2 * pairs, .offsets = ids + 3 * pairs};
    double best = 1e9, bytes = 0;
    uint64_t draw = 1;
    for (int r = 0; r < ROUNDS; r++) {
        uint32_t active = 0;
        draw_experts(&plan, mix, rows, &draw);
        for (uint32_t e = 0; e < mix->experts; e++)
            active += plan.offsets[e + 1] > plan.offsets[e];
        int64_t start = bench_ns();
        dev->ops->expert_linear(
            s, &(struct op_expert_linear){out, x, &all, &plan, rows, mix->top, NULL});
        double t = (double)(bench_ns() - start) * 1e-9;
        if (bytes == 0 || t / (active * (double)size) < best / bytes) {
            best = t;
            bytes = active * (double)size;
        }
    }
    snprintf(what, sizeof what, "experts %s %u x %u of %u [%u, %u]", storage_name(mix->type), rows,
             mix->top, mix->experts, n, k);
    print_row(what, best, bytes, 2.0 * pairs * n * k, m);
    void *arrays[] = {experts, w, packed, ids, x, out};
    for (size_t i = 0; i < ARRAY_LEN(arrays); i++)
        free(arrays[i]);
}

struct attention_shape {
    uint32_t heads, kv_heads, dim;
};
static const struct attention_shape QWEN_HALF_B = {14, 2, 64}, LLAMA_1B = {32, 8, 64},
                                    LLAMA_8B = {32, 8, 128};

/* The last `rows` positions of one sequence of `context`. */
static void bench_attention(struct device *dev, struct stream *s, const struct machine *m,
                            const struct attention_shape *shape, enum storage_type type,
                            uint32_t rows, uint32_t context) {
    enum { BLOCK = 32 };
    const uint32_t HEADS = shape->heads, KV_HEADS = shape->kv_heads, DIM = shape->dim;
    uint32_t blocks = (context + BLOCK - 1) / BLOCK, *tables = calloc(blocks, 4),
             *slots = calloc(rows, 4), *positions = calloc(rows, 4);
    size_t layer = dev->ops->kv_layer_bytes(type, BLOCK, KV_HEADS, DIM);
    struct kv_view kv = {.base = malloc(blocks * layer),
                         .block_stride = layer,
                         .type = type,
                         .block_tokens = BLOCK,
                         .kv_heads = KV_HEADS,
                         .head_dim = DIM,
                         .block_count = blocks,
                         .tables = tables,
                         .max_blocks = blocks};
    /* written, or all of it would be one page of zeros; 0.0115 as bf16 and f32, 1.06 as f16 */
    memset(kv.base, 0x3c, blocks * layer);
    for (uint32_t i = 0; i < blocks; i++)
        tables[i] = i;
    double pairs = 0, best = 1e9;
    for (uint32_t t = 0; t < rows; t++)
        pairs += positions[t] = context - rows + t;
    struct step_batch batch = {.row_count = rows, .slots = slots, .positions = positions};
    float *qkv = zeroed((size_t)rows * (HEADS + 2 * KV_HEADS) * DIM),
          *out = zeroed((size_t)rows * HEADS * DIM);
    void *scratch = malloc(dev->ops->attention_scratch(dev, rows, HEADS, DIM, context));
    for (int r = 0; r < 5; r++) {
        int64_t start = bench_ns();
        dev->ops->attention(s, &(struct op_attention){.out = out,
                                                      .qkv = qkv,
                                                      .heads = HEADS,
                                                      .scale = 1 / sqrtf((float)DIM),
                                                      .kv = &kv,
                                                      .batch = &batch,
                                                      .scratch = scratch});
        double t = (double)(bench_ns() - start) * 1e-9;
        if (t < best)
            best = t;
    }
    char what[64];
    snprintf(what, sizeof what, "attention %u/%u x %u %s, %u of %u", HEADS, KV_HEADS, DIM,
             storage_name(type), rows, context);
    print_row(what, best, (double)context * KV_HEADS * DIM * 2 * (double)storage_bytes(type, 1),
              pairs * HEADS * DIM * 4, m);
    void *arrays[] = {tables, slots, positions, kv.base, qkv, out, scratch};
    for (size_t i = 0; i < ARRAY_LEN(arrays); i++)
        free(arrays[i]);
}

struct sample_setting {
    const char *name;
    float temperature, top_p, min_p, repetition_penalty;
    uint32_t top_k;
    int32_t logprobs;
};
static const struct sample_setting SAMPLE_SETTINGS[] = {
    {"greedy", 0, 1, 0, 1, 0, -1},
    {"temperature 1", 1, 1, 0, 1, 0, -1},
    {"temperature 0.7", 0.7f, 1, 0, 1, 0, -1},
    {"top_k 40, top_p 0.95", 1, 0.95f, 0, 1, 40, -1},
    {"top_p 0.9", 1, 0.9f, 0, 1, 0, -1},
    {"min_p 0.05", 1, 1, 0.05f, 1, 0, -1},
    {"repetition_penalty 1.1", 1, 1, 0, 1.1f, 0, -1},
    {"logprobs 5", 1, 1, 0, 1, 0, 5},
};

/* One row of a wide vocabulary. */
static void bench_sample(struct device *dev, struct stream *s, const struct machine *m,
                         const struct sample_setting *set) {
    enum { V = 151936, CONTEXT = 16 };
    float *logits = malloc(V * sizeof *logits), *copy = malloc(V * sizeof *copy);
    char what[64];
    uint64_t x = 1;
    for (int v = 0; v < V; v++) {
        float sum = 0;
        for (int i = 0; i < 4; i++)
            sum += (float)((x = x * 6364136223846793005u + 1442695040888963407u) >> 40) / 0x1p24f -
                   0.5f;
        logits[v] = sum * 5;
    }
    uint32_t tokens[CONTEXT] = {0}, row = 0, slot = 0, position = 0, token, status, top,
             ids[SAMPLE_TOP_MAX];
    float logprob, tops[SAMPLE_TOP_MAX];
    struct slot_state state;
    struct slot_table table = {
        .slot_count = 1, .max_context = CONTEXT, .states = &state, .tokens = tokens};
    struct step_batch batch = {.row_count = 1,
                               .sample_count = 1,
                               .sample_rows = &row,
                               .slots = &slot,
                               .positions = &position};
    struct sample_out out = {&token, &status, &logprob, &top, ids, tops, NULL};
    uint32_t no_ids[1];
    float no_values[1];
    table.bias_ids = no_ids;
    table.bias_values = no_values;
    void *scratch = malloc(dev->ops->sample_scratch(dev, 1, V));
    double best = 1e9;
    for (uint64_t r = 0; r < 40; r++) {
        memcpy(copy, logits, V * sizeof *copy);
        state = (struct slot_state){.active = 1,
                                    .token_count = 2,
                                    .computed_count = 2,
                                    .max_total = CONTEXT,
                                    .temperature = set->temperature,
                                    .top_k = set->top_k,
                                    .top_p = set->top_p,
                                    .min_p = set->min_p,
                                    .repetition_penalty = set->repetition_penalty,
                                    .logprobs = set->logprobs,
                                    .seed = r};
        int64_t start = bench_ns();
        dev->ops->sample(s, &(struct op_sample){.logits = copy,
                                                .logits_stride = V,
                                                .vocab_size = V,
                                                .slots = &table,
                                                .batch = &batch,
                                                .out = &out,
                                                .scratch = scratch});
        double t = (double)(bench_ns() - start) * 1e-9;
        if (t < best)
            best = t;
    }
    snprintf(what, sizeof what, "sample %d, %s", V, set->name);
    print_row(what, best, V * 4.0, 0, m);
    free(logits);
    free(copy);
    free(scratch);
}

/* ---- a model ---- */

struct rig {
    struct model model;
    struct kv_geometry geometry;
    struct slots slots;
    struct forward forward;
    struct sample_out out;
};

enum { SLOTS = 64, ROWS = 512, CONTEXT_MAX = 2048, BLOCK_TOKENS = 32 };

/* `slot_count` slots of `context` tokens, each with another first token. */
static int rig_open(struct rig *r, const char *dir, uint32_t slot_count, uint32_t context,
                    struct device *dev, struct stream *s, struct error *err) {
    struct model_options options = {
        .dir = dir, .packed_folder = getenv("TRIREME_CACHE_DIR"), .packed_most = (uint64_t)1 << 40};
    uint32_t block_count = context / BLOCK_TOKENS, *blocks = calloc(block_count, sizeof *blocks);
    int rc = model_open(&r->model, &options, dev, s, err);
    if (!rc)
        rc = kv_geometry_of(&r->geometry, &r->model, STORAGE_NONE, BLOCK_TOKENS, err);
    if (!rc)
        rc = slots_init(&r->slots, &r->model, &r->geometry, slot_count, context,
                        block_count * slot_count, err);
    if (!rc)
        rc = forward_init(&r->forward, &r->model, &r->slots, ROWS, slot_count, err);
    if (rc) {
        free(blocks);
        return rc;
    }
    r->out = (struct sample_out){calloc(SLOTS, 4),
                                 calloc(SLOTS, 4),
                                 calloc(SLOTS, 4),
                                 calloc(SLOTS, 4),
                                 calloc(SLOTS, 4 * SAMPLE_TOP_MAX),
                                 calloc(SLOTS, 4 * SAMPLE_TOP_MAX),
                                 NULL};
    for (uint32_t slot = 0; slot < slot_count; slot++) {
        struct slot_state state = {.token_count = 1,
                                   .max_total = context,
                                   .top_p = 1,
                                   .repetition_penalty = 1,
                                   .logprobs = -1};
        for (uint32_t i = 0; i < block_count; i++)
            blocks[i] = slot * block_count + i;
        slots_admit(
            &r->slots, s, slot,
            &(struct slot_admission){
                .state = &state, .tokens = &slot, .blocks = blocks, .block_count = block_count});
    }
    free(blocks);
    return 0;
}

static double decode_step(struct rig *r, struct stream *s, uint32_t batch) {
    struct step_run runs[SLOTS];
    uint32_t rows[SLOTS];
    for (uint32_t i = 0; i < batch; i++) {
        runs[i] = (struct step_run){.slot = i, .row_first = i, .token_count = 1};
        rows[i] = i;
    }
    int64_t start = bench_ns();
    forward_layers(&r->forward, s,
                   &(struct step_input){.runs = runs,
                                        .run_count = batch,
                                        .row_count = batch,
                                        .output_count = batch,
                                        .sample_rows = rows,
                                        .sample_count = batch});
    forward_sample(&r->forward, s, &r->out, NULL);
    return (double)(bench_ns() - start) * 1e-9;
}

/* A slot made to know so many tokens, computed ROWS at a time. */
static double prefill(struct rig *r, struct stream *s, uint32_t count) {
    r->slots.table.states[0] = (struct slot_state){.active = 1,
                                                   .token_count = count,
                                                   .max_total = r->slots.table.max_context,
                                                   .top_p = 1,
                                                   .repetition_penalty = 1,
                                                   .logprobs = -1};
    for (uint32_t i = 0; i < count; i++)
        r->slots.table.tokens[i] = i % 1000;
    int64_t start = bench_ns();
    for (uint32_t done = 0, n; done < count; done += n) {
        n = MIN(count - done, (uint32_t)ROWS);
        struct step_run run = {.slot = 0, .token_count = n};
        uint32_t row = n - 1;
        forward_layers(&r->forward, s,
                       &(struct step_input){.runs = &run,
                                            .run_count = 1,
                                            .row_count = n,
                                            .sample_rows = &row,
                                            .sample_count = done + n == count});
    }
    forward_sample(&r->forward, s, &r->out, NULL);
    return (double)(bench_ns() - start) * 1e-9;
}

static void bench_model(struct rig *r, struct stream *s, const struct machine *m) {
    static const uint32_t batches[] = {1, 2, 4, 8, 16, 32, 64};
    /* two bytes and two operations a weight */
    double bytes = (double)r->model.weights.byte_count, flops = bytes;
    char what[64];
    for (size_t i = 0; i < ARRAY_LEN(batches); i++) {
        double best = 1e9;
        for (int k = 0; k < (batches[i] > 8 ? 3 : 5); k++) {
            double t = decode_step(r, s, batches[i]);
            if (t < best)
                best = t;
        }
        snprintf(what, sizeof what, "decode batch %u: %.1f tok/s", batches[i], batches[i] / best);
        print_row(what, best, bytes, flops * batches[i], m);
    }
    double best = 1e9;
    for (int k = 0; k < 2; k++) {
        double t = prefill(r, s, ROWS);
        if (t < best)
            best = t;
    }
    double head = (double)r->model.spec.vocab * r->model.spec.hidden * 2;
    snprintf(what, sizeof what, "prefill %d: %.1f tok/s", ROWS, ROWS / best);
    print_row(what, best, bytes, (flops - head) * ROWS, m);
}

static void bench_attentions(struct device *dev, struct stream *s, const struct machine *m) {
    bench_attention(dev, s, m, &QWEN_HALF_B, STORAGE_F16, 1, 1024);
    bench_attention(dev, s, m, &QWEN_HALF_B, STORAGE_F16, 512, 1024);
    static const enum storage_type types[] = {STORAGE_BF16, STORAGE_F16, STORAGE_I8};
    for (size_t t = 0; t < ARRAY_LEN(types); t++) {
        bench_attention(dev, s, m, &LLAMA_1B, types[t], 1, 8192);
        bench_attention(dev, s, m, &LLAMA_1B, types[t], 512, 8192);
        bench_attention(dev, s, m, &LLAMA_8B, types[t], 1, 8192);
        bench_attention(dev, s, m, &LLAMA_8B, types[t], 512, 8192);
    }
}

static void bench_samples(struct device *dev, struct stream *s, const struct machine *m) {
    for (size_t i = 0; i < ARRAY_LEN(SAMPLE_SETTINGS); i++)
        bench_sample(dev, s, m, &SAMPLE_SETTINGS[i]);
}

static void bench_operations(struct device *dev, struct stream *s, const struct machine *m) {
    static const enum storage_type types[] = {STORAGE_BF16, STORAGE_F16, STORAGE_F32};
    for (size_t t = 0; t < ARRAY_LEN(types); t++)
        bench_linear(dev, s, m, types[t], 1, 4864, 896);
    if (getenv("TRIREME_BENCH_QUICK"))
        return;
    static const uint32_t rows[] = {2, 4, 8, 16, 32, 64, 512};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        bench_linear(dev, s, m, STORAGE_BF16, rows[i], 4864, 896);
    bench_linear(dev, s, m, STORAGE_BF16, 1, 896, 4864);
    bench_linear(dev, s, m, STORAGE_BF16, 64, 896, 4864);
    bench_linear(dev, s, m, STORAGE_BF16, 512, 896, 4864);
    static const enum storage_type quantized[] = {STORAGE_Q4_0,  STORAGE_Q8_0, STORAGE_Q4_K,
                                                  STORAGE_Q5_K,  STORAGE_Q6_K, STORAGE_MXFP4,
                                                  STORAGE_IQ4_XS};
    for (size_t t = 0; t < ARRAY_LEN(quantized); t++)
        for (uint32_t n = 1; n <= 512; n *= 8)
            bench_linear(dev, s, m, quantized[t], n, 1024, 4864);
    bench_attentions(dev, s, m);
    bench_samples(dev, s, m);
}

/* One matrix from one row to 512: where a batch gets dearer, and by how much. */
static int bench_rows(const char *type_name, uint32_t n, uint32_t k, uint32_t only,
                      struct device *dev, struct stream *s, const struct machine *m) {
    static const uint32_t rows[] = {1, 2, 3, 4, 6, 8, 12, 16, 17, 24, 32, 48, 64, 128, 256, 512};
    enum storage_type type = storage_parse(type_name);
    if (type == STORAGE_NONE || n == 0 || k == 0)
        return fprintf(stderr, "linear wants a type, outputs and inputs\n"), 1;
    for (size_t i = 0; i < (only ? 1 : ARRAY_LEN(rows)); i++)
        bench_linear(dev, s, m, type, only ? only : rows[i], n, k);
    return 0;
}

static int bench_mixture(char **argv, uint32_t only, struct device *dev, struct stream *s,
                         const struct machine *m) {
    static const uint32_t rows[] = {1, 4, 8, 16, 32};
    struct mixture mix = {storage_parse(argv[0]), (uint32_t)atoi(argv[1]), (uint32_t)atoi(argv[2]),
                          (uint32_t)atoi(argv[3]), (uint32_t)atoi(argv[4])};
    if (mix.type == STORAGE_NONE || !mix.outputs || !mix.inputs || !mix.top ||
        mix.top > mix.experts || mix.experts > ROUTE_EXPERTS_MAX)
        return fprintf(stderr, "experts wants a type, outputs, inputs, experts and how many of "
                               "them a row goes to\n"),
               1;
    for (size_t i = 0; i < (only ? 1 : ARRAY_LEN(rows)); i++)
        bench_experts(dev, s, m, &mix, only ? only : rows[i]);
    return 0;
}

/* What a profile is taken of. */
static int only_tokens(const char *what, int count, const char *path, uint32_t streams,
                       struct device *dev, struct stream *s, struct error *err) {
    static struct rig r;
    int rc = rig_open(&r, path, SLOTS, CONTEXT_MAX, dev, s, err);
    if (!rc && !strcmp(what, "prefill"))
        prefill(&r, s, MIN((uint32_t)count, (uint32_t)ROWS));
    for (int i = 0; !rc && !strcmp(what, "decode") && i < count; i++)
        decode_step(&r, s, streams);
    return rc;
}

static double median_of(double *seconds, int count) {
    for (int i = 1; i < count; i++)
        for (int k = i; k > 0 && seconds[k] < seconds[k - 1]; k--) {
            double t = seconds[k];
            seconds[k] = seconds[k - 1];
            seconds[k - 1] = t;
        }
    return seconds[count / 2];
}

/* Bytes of weights that a step of one row reads: all but the embedding and the experts it does not
 * go to. */
static double step_bytes(const struct model *m) {
    bool tied = m->weights.head.segments[0].data == m->weights.embed.segments[0].data;
    double bytes = (double)m->weights.byte_count;
    if (!tied)
        bytes -=
            (double)storage_bytes(m->weights.head.type, (size_t)m->spec.vocab * m->spec.hidden);
    for (uint32_t i = 0; i < m->spec.layer_count; i++) {
        const struct layer_spec *layer = &m->spec.layers[i];
        if (layer->ffn.kind != FFN_MOE)
            continue;
        const struct moe_weights *w = m->weights.layers[i].ffn;
        uint32_t idle = layer->moe.router.experts - layer->moe.router.top_k;
        bytes -= (double)idle *
                 (double)(storage_bytes(w->up.type, (size_t)w->up.rows * w->up.cols) +
                          storage_bytes(w->down.type, (size_t)w->down.rows * w->down.cols));
    }
    return bytes;
}

/* Seconds to a first token, tokens a second and what a step must read, for bench/cpu. The median of
 * some rounds each but for the first. */
static int print_speeds(const char *path, struct device *dev, struct stream *s, struct error *err) {
    enum { ROUNDS = 5 };
    static const uint32_t batches[] = {1, 4, 8, 16, 32};
    static struct rig r;
    double seconds[ROUNDS];
    int64_t start = bench_ns();
    int rc = rig_open(&r, path, SLOTS, CONTEXT_MAX, dev, s, err);
    if (rc)
        return rc;
    decode_step(&r, s, 1);
    double first_token = (double)(bench_ns() - start) * 1e-9;
    printf("{\"isa\":\"%s\",\"compute\":\"%s\",\"start\":%.3f,\"step_bytes\":%.0f", dev->isa,
           compute_name(dev->compute), first_token, step_bytes(&r.model));
    for (int i = 0; i < ROUNDS; i++)
        seconds[i] = 1 / machine_read_bandwidth((int)dev->thread_count);
    printf(",\"read\":%.0f", 1 / median_of(seconds, ROUNDS));
    for (size_t b = 0; b < ARRAY_LEN(batches); b++) {
        for (int i = -1; i < ROUNDS; i++)
            seconds[MAX(i, 0)] = decode_step(&r, s, batches[b]);
        printf(",\"batch_%u\":%.3f", batches[b], batches[b] / median_of(seconds, ROUNDS));
    }
    for (int i = 0; i < 3; i++)
        seconds[i] = prefill(&r, s, ROWS);
    printf(",\"prefill\":%.3f}\n", ROWS / median_of(seconds, 3));
    return 0;
}

/* One prompt of `count` tokens, then steps behind it. */
static int print_long(uint32_t count, const char *path, struct device *dev, struct stream *s,
                      struct error *err) {
    enum { STEPS = 5 };
    static struct rig r;
    double seconds[STEPS];
    int rc = rig_open(&r, path, 1, (count + 2 * BLOCK_TOKENS) / BLOCK_TOKENS * BLOCK_TOKENS, dev, s,
                      err);
    if (rc)
        return rc;
    (void)prefill(&r, s, ROWS / 4); /* not counted: pages, packing */
    printf("{\"isa\":\"%s\",\"compute\":\"%s\",\"prefill\":%.3f", dev->isa,
           compute_name(dev->compute), count / prefill(&r, s, count));
    for (int i = 0; i < STEPS; i++)
        seconds[i] = decode_step(&r, s, 1);
    printf(",\"decode\":%.3f}\n", 1 / median_of(seconds, STEPS));
    return 0;
}

/* What the first start leaves for the others; nothing where the type is not packed. */
static int pack_only(const char *path, struct device *dev, struct stream *s, struct error *err) {
    static struct rig r;
    int rc = rig_open(&r, path, SLOTS, CONTEXT_MAX, dev, s, err);
    if (!rc && !(r.model.packed && packed_file_wait(r.model.packed)))
        fprintf(stderr, "%s: no packed weights were kept\n", path);
    return rc;
}

int main(int argc, char **argv) {
    bool quick = getenv("TRIREME_BENCH_QUICK") != NULL;
    const struct random_shape *shape = &RANDOM_SHAPES[quick ? RANDOM_SHAPE_COUNT - 1 : 0];
    char dir[256];
    for (int i = 0; argc > 1 && i < RANDOM_SHAPE_COUNT; i++)
        if (!strcmp(argv[1], RANDOM_SHAPES[i].name))
            shape = &RANDOM_SHAPES[i];
    snprintf(dir, sizeof dir, "/tmp/trireme-bench-%s", shape->name);
    cpu_time = getenv("TRIREME_BENCH_CPU_TIME") != NULL;
    bool tokens = argc > 3 && (!strcmp(argv[1], "decode") || !strcmp(argv[1], "prefill"));
    bool product = argc > 4 && !strcmp(argv[1], "linear"),
         mixes = argc > 6 && !strcmp(argv[1], "experts"),
         attends = argc > 1 && !strcmp(argv[1], "attention"),
         samples = argc > 1 && !strcmp(argv[1], "sample");
    bool writes = argc > 3 && !strcmp(argv[1], "write"),
         speeds = argc > 2 && !strcmp(argv[1], "speeds"),
         packs = argc > 2 && !strcmp(argv[1], "pack"),
         is_long = argc > 3 && !strcmp(argv[1], "long") && atoi(argv[2]) > 0;
    struct device_options options = {.isa = attends || samples ? argv[2]
                                            : argc > 3 && !tokens && !product && !mixes && !is_long
                                                ? argv[3]
                                                : NULL,
                                     .compute = getenv("TRIREME_COMPUTE"),
                                     .spin_us = 100,
                                     .thread_count = cpu_time};
    if (!options.compute)
        options.compute = "auto";
    struct device *dev;
    struct error err;
    static struct rig r;
    for (int i = 0; writes && i < RANDOM_SHAPE_COUNT; i++)
        if (!strcmp(argv[2], RANDOM_SHAPES[i].name))
            shape = &RANDOM_SHAPES[i];
    if (writes)
        return random_model_write(shape, argv[3], &err) ? fprintf(stderr, "%s\n", err.text), 1 : 0;
    if (device_open(&options, &dev, &err))
        return fprintf(stderr, "%s\n", err.text), 1;
    struct stream *s = stream_new(dev);
    if (packs)
        return pack_only(argv[2], dev, s, &err) ? fprintf(stderr, "%s\n", err.text), 1 : 0;
    if (speeds)
        return print_speeds(argv[2], dev, s, &err) ? fprintf(stderr, "%s\n", err.text), 1 : 0;
    if (is_long)
        return print_long((uint32_t)atoi(argv[2]), argv[3], dev, s, &err)
               ? fprintf(stderr, "%s\n", err.text),
               1 : 0;
    if (tokens)
        return only_tokens(argv[1], atoi(argv[2]), argv[3],
                           argc > 4 ? (uint32_t)MIN(MAX(atoi(argv[4]), 1), SLOTS) : 1, dev, s, &err)
               ? fprintf(stderr, "%s\n", err.text),
               1 : 0;
    struct machine m = {.threads = (int)dev->thread_count};
    m.read = machine_read_bandwidth(m.threads);
    m.flops = machine_fma_rate(m.threads);
    printf("%s, %s, %d threads: reads %.1f GB/s, fma %.0f Gflop/s\n", dev->name, dev->isa,
           m.threads, m.read * 1e-9, m.flops * 1e-9);
    if (product)
        return bench_rows(argv[2], (uint32_t)atoi(argv[3]), (uint32_t)atoi(argv[4]),
                          argc > 5 ? (uint32_t)atoi(argv[5]) : 0, dev, s, &m);
    if (mixes)
        return bench_mixture(argv + 2, argc > 7 ? (uint32_t)atoi(argv[7]) : 0, dev, s, &m);
    if (attends)
        return bench_attentions(dev, s, &m), 0;
    if (samples)
        return bench_samples(dev, s, &m), 0;
    bench_operations(dev, s, &m);
    const char *path = argc > 2 ? argv[2] : dir;
    int rc = strstr(path, ".gguf") ? 0 : random_model_write(shape, path, &err);
    if (!rc)
        rc = rig_open(&r, path, SLOTS, CONTEXT_MAX, dev, s, &err);
    if (rc)
        return fprintf(stderr, "%s\n", err.text), 1;
    printf("%s, %.2f GB\n", path, (double)r.model.weights.byte_count * 1e-9);
    bench_model(&r, s, &m);
    return 0;
}
