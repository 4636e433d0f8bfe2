/* Decode and prefill of a random-weight model, through the code that serves: spec, weights, forward
 * pass, sampler. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "bench.h"
#include "gpu_bench.h"
#include "model/run/step.h"

enum {
    BLOCK = 32,
    STEPS = 48,
    WARM = 8,
    SLACK = 64 /* >= STEPS + WARM */,
    PROMPT_ROWS = 2048,
    BATCH_MAX = 256
};

struct served {
    struct model model;
    struct kv_geometry geometry;
    struct slots slots;
    struct forward forward;
    struct stepper stepper;
    struct sample_out out[2]; /* of two steps in flight, pinned */
    struct event *done[2];
    uint32_t batch, context;
};

static int take_outputs(struct bench *b, struct served *m) {
    for (int i = 0; i < 2; i++) {
        uint32_t *host =
            device_alloc_host(b->dev, (size_t)BATCH_MAX * (4 + 2 * SAMPLE_TOP_MAX) * 4);
        if (!host)
            return -1;
        m->out[i] =
            (struct sample_out){.tokens = host,
                                .status = host + BATCH_MAX,
                                .logprobs = (float *)host + 2 * BATCH_MAX,
                                .top_counts = host + 3 * BATCH_MAX,
                                .top_ids = host + 4 * BATCH_MAX,
                                .top_logprobs = (float *)host + (4 + SAMPLE_TOP_MAX) * BATCH_MAX};
        m->done[i] = event_new(b->dev);
    }
    return 0;
}

/* Slots and buffers for one batch and context. */
static int take_slots(struct bench *b, struct served *m, uint32_t batch, uint32_t context,
                      struct error *err) {
    uint32_t room = context + SLACK, per_slot = (room + BLOCK - 1) / BLOCK;
    uint64_t wanted = (uint64_t)per_slot * batch * m->geometry.block_bytes,
             have = device_memory_free(b->dev);
    if (have && wanted + ((uint64_t)2 << 30) > have && !b->tiny)
        return error_set(err, ERR_MEMORY, "the cache alone takes %llu GB, free are %llu",
                         (unsigned long long)(wanted >> 30), (unsigned long long)(have >> 30));
    int rc = slots_init(&m->slots, &m->model, &m->geometry, batch, room, per_slot * batch, err);
    if (!rc)
        rc = forward_init(&m->forward, &m->model, &m->slots, b->tiny ? 64 : PROMPT_ROWS, BATCH_MAX,
                          err);
    if (rc)
        return rc;
    stepper_init(&m->stepper, &m->forward, BATCH_MAX, true);
    stream_fill(b->stream, m->slots.kv.base, 0x3c,
                (size_t)per_slot * batch * m->geometry.block_bytes);
    m->batch = batch;
    m->context = context;
    return 0;
}

static void drop_slots(struct bench *b, struct served *m) {
    bench_wait(b);
    if (m->stepper.forward)
        stepper_release(&m->stepper);
    if (m->forward.model)
        forward_release(&m->forward);
    if (m->slots.dev)
        slots_release(&m->slots);
}

/* Slot `slot` knows `known` tokens, of which `computed` are in the cache. */
static void admit(struct bench *b, struct served *m, uint32_t slot, uint32_t known,
                  uint32_t computed) {
    uint32_t room = m->context + SLACK, per_slot = (room + BLOCK - 1) / BLOCK;
    uint32_t *tokens = malloc(known * sizeof *tokens), *blocks = malloc(per_slot * sizeof *blocks);
    struct slot_state state = {.token_count = known,
                               .computed_count = computed,
                               .prompt_count = known,
                               .max_total = room,
                               .top_p = 1,
                               .repetition_penalty = 1,
                               .logprobs = -1};
    if (!tokens || !blocks)
        exit(1);
    for (uint32_t i = 0; i < known; i++)
        tokens[i] = (i * 7919 + slot * 31) % (m->model.spec.vocab - 10);
    for (uint32_t i = 0; i < per_slot; i++)
        blocks[i] = i * m->batch + slot;
    slots_admit(&m->slots, b->stream, slot,
                &(struct slot_admission){
                    .state = &state, .tokens = tokens, .blocks = blocks, .block_count = per_slot});
    free(tokens);
    free(blocks);
}

static void put_step(struct bench *b, struct served *m, int flight, const struct step_input *in) {
    stepper_put(&m->stepper, b->stream, in, &m->out[flight], NULL);
    event_record(m->done[flight], b->stream);
}

static void wait_step(struct bench *b, struct served *m, int flight) {
    if (!event_wait(m->done[flight]))
        return;
    fprintf(stderr, "bench_gpu: the device failed in step %s\n", b->step);
    exit(1);
}

/* As the worker does: step n + 1 is on the stream before step n is done. */
static double decode_seconds(struct bench *b, struct served *m) {
    static struct step_run runs[BATCH_MAX];
    static uint32_t rows[BATCH_MAX];
    struct step_input in = {.runs = runs,
                            .run_count = m->batch,
                            .row_count = m->batch,
                            .output_count = m->batch,
                            .sample_rows = rows,
                            .sample_count = m->batch};
    for (uint32_t i = 0; i < m->batch; i++) {
        runs[i] = (struct step_run){.slot = i, .row_first = i, .token_count = 1};
        rows[i] = i;
        admit(b, m, i, m->context + 1, m->context);
    }
    int warm = b->tiny ? 1 : WARM, steps = b->tiny ? 2 : STEPS;
    int64_t start = 0;
    for (int n = 0; n < warm + steps; n++) {
        if (n == warm) {
            bench_wait(b);
            start = clock_ns();
        }
        put_step(b, m, n & 1, &in);
        if (n && n != warm)
            wait_step(b, m, ~n & 1);
    }
    bench_wait(b);
    for (uint32_t i = 0; i < m->batch; i++)
        if (m->out[0].status[i] != SAMPLE_TOKEN)
            return -1;
    return (double)(clock_ns() - start) * 1e-9 / steps;
}

/* What a step must read: all weights but an embedding that is not the head, and the cache. */
static double weight_bytes(const struct served *m) {
    const struct model_spec *s = &m->model.spec;
    bool tied = m->model.weights.head.segments[0].data == m->model.weights.embed.segments[0].data;
    return (double)m->model.weights.byte_count - (tied ? 0 : 2.0 * s->vocab * s->hidden);
}

static void bench_decode(struct bench *b, struct served *m, const char *shape, uint32_t batch,
                         uint32_t context) {
    struct error err;
    char name[96];
    snprintf(name, sizeof name, "decode, %s bf16, batch %u, context %u", shape, batch, context);
    if (take_slots(b, m, batch, context, &err)) {
        bench_skip(b, name, err.text);
    } else {
        double t = decode_seconds(b, m),
               cache = (double)m->geometry.block_bytes / BLOCK * context * batch;
        if (t < 0)
            bench_skip(b, name, "a row gave no token");
        else
            bench_figure(b, name, t, weight_bytes(m) + cache, weight_bytes(m) * batch);
    }
    drop_slots(b, m);
}

/* The prompt in chunks of the step's rows, then one token. */
static double prefill_seconds(struct bench *b, struct served *m, uint32_t tokens) {
    double best = 1e9;
    uint32_t step = m->forward.max_rows;
    for (int r = 0; r < (b->tiny ? 1 : 4); r++) {
        admit(b, m, 0, tokens, 0);
        bench_wait(b);
        int64_t start = clock_ns();
        for (uint32_t at = 0; at < tokens; at += step) {
            uint32_t count = MIN(step, tokens - at), row = count - 1;
            struct step_run run = {.slot = 0, .token_count = count};
            put_step(b, m, 0,
                     &(struct step_input){.runs = &run,
                                          .run_count = 1,
                                          .row_count = count,
                                          .sample_rows = &row,
                                          .sample_count = at + count == tokens});
        }
        wait_step(b, m, 0);
        double t = (double)(clock_ns() - start) * 1e-9;
        if (t < best)
            best = t;
    }
    return best;
}

static void bench_prefill(struct bench *b, struct served *m, const char *shape, uint32_t tokens) {
    struct error err;
    char name[96];
    const struct model_spec *s = &m->model.spec;
    snprintf(name, sizeof name, "prefill, %s bf16, %u tokens", shape, tokens);
    if (take_slots(b, m, 1, tokens, &err)) {
        bench_skip(b, name, err.text);
    } else {
        double t = prefill_seconds(b, m, tokens), head = 2.0 * s->vocab * s->hidden, flops = 0;
        for (uint32_t i = 0; i < s->layer_count; i++)
            flops += 2.0 * tokens * tokens * s->layers[i].attention.heads *
                     s->layers[i].attention.head_dim;
        flops += (weight_bytes(m) - head) * tokens;
        bench_figure(b, name, t, weight_bytes(m), flops);
    }
    drop_slots(b, m);
}

/* what: "prefill", or batches at a context: "1,8,32@1024". */
int bench_model(struct bench *b, const char *shape_name, const char *folder, const char *what) {
    const struct random_shape *shape = NULL;
    struct served m = {0};
    struct error err = {0};
    for (int i = 0; i < RANDOM_SHAPE_COUNT; i++)
        if (!strcmp(RANDOM_SHAPES[i].name, shape_name))
            shape = &RANDOM_SHAPES[i];
    if (!shape)
        return fprintf(stderr, "bench_gpu: no shape '%s'\n", shape_name), 1;
    struct model_options options = {.dir = folder};
    int rc = random_model_write(shape, folder, &err);
    int64_t start = clock_ns();
    if (!rc)
        rc = model_open(&m.model, &options, b->dev, b->stream, &err);
    if (!rc)
        rc = kv_geometry_of(&m.geometry, &m.model, STORAGE_NONE, BLOCK, &err);
    if (rc || take_outputs(b, &m))
        return fprintf(stderr, "bench_gpu: %s\n", err.text), 1;
    char name[96];
    snprintf(name, sizeof name, "weights of %s onto the device", shape_name);
    bench_value(b, name, (double)(clock_ns() - start) * 1e-9, "s");
    const char *at = strchr(what, '@');
    uint32_t context = at ? (uint32_t)atoi(at + 1) : 0;
    if (!at)
        for (uint32_t tokens = b->tiny ? 48 : 128; tokens <= (b->tiny ? 48u : 4096u); tokens *= 2)
            bench_prefill(b, &m, shape_name, tokens);
    for (const char *p = what; at && p < at; p += strcspn(p, ",@") + 1)
        bench_decode(b, &m, shape_name, MIN((uint32_t)atoi(p), (uint32_t)BATCH_MAX), context);
    for (int i = 0; i < 2; i++) {
        device_free_host(b->dev, m.out[i].tokens);
        event_free(&m.done[i]);
    }
    model_close(&m.model);
    return 0;
}
