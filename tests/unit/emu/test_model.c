/* The bundled model on the emulated device against the CPU, teacher-forced; its bits against chunking and graphs. */
#include "model/forward.h"
#include "rig.h"

enum { CONTEXT = 320, SLOTS = 4, BLOCK = 32, ROWS = 128 };

struct machine {
    struct device *dev;
    struct stream *stream;
    struct event *event;
    struct model model;
    struct slots slots;
    struct forward forward;
};

static bool machine_open(struct machine *m, const char *kind, enum storage_type act, enum storage_type kv) {
    struct error err;
    struct kv_geometry geometry;
    struct device_options options = {.kind = kind, .thread_count = 2, .activation = act};
    struct model_options model = {.dir = TRIREME_SOURCE_DIR "/demo/model"};
    *m = (struct machine){0};
    if (device_open(&options, &m->dev, &err)) goto failed;
    m->stream = stream_new(m->dev);
    m->event = event_new(m->dev);
    if (model_open(&m->model, &model, m->dev, m->stream, &err) ||
        kv_geometry_of(&geometry, &m->model, kv, BLOCK, &err) ||
        slots_init(&m->slots, &m->model, &geometry, SLOTS, CONTEXT, SLOTS * CONTEXT / BLOCK, &err) ||
        forward_init(&m->forward, &m->model, &m->slots, ROWS, SLOTS, &err))
        goto failed;
    return true;
failed:
    check_fail(__FILE__, __LINE__, "%s: %s", kind, err.text);
    return false;
}
static void machine_close(struct machine *m) {
    if (m->forward.model) forward_release(&m->forward);
    if (m->slots.dev) slots_release(&m->slots);
    if (m->model.dev) model_close(&m->model);
    if (m->event) event_free(&m->event);
    stream_free(&m->stream);
    device_close(&m->dev);
}

static void admit(struct machine *m, uint32_t slot, const uint32_t *tokens, uint32_t count) {
    uint32_t blocks[CONTEXT / BLOCK];
    for (uint32_t i = 0; i < CONTEXT / BLOCK; i++) blocks[i] = i * SLOTS + slot;
    struct slot_state state = {
        .token_count = count, .max_total = CONTEXT, .top_p = 1, .repetition_penalty = 1, .logprobs = -1};
    struct slot_admission a = {.state = &state, .tokens = tokens, .blocks = blocks, .block_count = CONTEXT / BLOCK};
    slots_admit(&m->slots, m->stream, slot, &a);
}

/* The next `count` known tokens of a slot; logits [count, vocab] of all of them. */
static bool step(struct machine *m, uint32_t slot, uint32_t count, bool output_class, float *logits) {
    uint32_t rows[ROWS], vocab = m->model.spec.vocab;
    struct step_run run = {slot, 0, count};
    for (uint32_t i = 0; i < count; i++) rows[i] = i;
    struct step_input in = {&run, 1, count, output_class ? count : 0, rows, count};
    forward_layers(&m->forward, m->stream, &in);
    for (uint32_t first = 0; first < count; first += HEAD_ROWS) {
        uint32_t n = MIN(count - first, (uint32_t)HEAD_ROWS);
        forward_logits(&m->forward, m->stream, first, n);
        stream_copy_out(m->stream, logits + (size_t)first * vocab, m->forward.logits, (size_t)n * vocab * 4);
        event_record(m->event, m->stream);
        if (event_wait(m->event)) {
            check_fail(__FILE__, __LINE__, "the device failed: %s", emu_failure());
            return false;
        }
    }
    return true;
}

static uint32_t argmax(const float *x, uint32_t count) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

enum { PROMPT = 12, TOTAL = 72 };

/* The id of the rank-th best. */
static uint32_t best_but(const float *x, uint32_t count, uint32_t rank) {
    float *left = calloc(count, 4);
    memcpy(left, x, count * 4);
    for (; rank; rank--) left[argmax(left, count)] = -INFINITY;
    uint32_t id = argmax(left, count);
    free(left);
    return id;
}

enum { BEGIN = 3066, END = 3067 };

/* A text of the model's own: the rank-th best token after its beginning, then greedily on the CPU until it ends or has
 * *total tokens; and the logits of all its positions there. (Of random tokens the model expects nothing: its logits are
 * flat, and which is the largest says nothing.) */
static float *teacher(struct machine *cpu, uint32_t slot, uint32_t rank, uint32_t *tokens, uint32_t *total) {
    uint32_t vocab = cpu->model.spec.vocab, have = 1;
    float *logits = calloc((size_t)*total * vocab, 4);
    tokens[0] = BEGIN;
    for (;; have++) {
        admit(cpu, slot, tokens, have); /* anew: the cache is written again, which costs little here */
        if (!step(cpu, slot, have, false, logits) || have == *total) break;
        const float *last = logits + (size_t)(have - 1) * vocab;
        tokens[have] = have == 1 ? best_but(last, vocab, rank) : argmax(last, vocab);
        if (tokens[have] == END) break;
    }
    *total = have;
    return logits;
}

static void compare(enum storage_type act, double bound) {
    struct machine cpu, gpu;
    uint32_t tokens[TOTAL], same = 0, all = 0;
    double difference = 0, size = 0;
    if (!machine_open(&cpu, "cpu", STORAGE_NONE, STORAGE_F32)) return;
    if (!machine_open(&gpu, "cuda", act, act)) return;
    uint32_t vocab = cpu.model.spec.vocab;
    for (uint32_t slot = 0; slot < (is_long() ? 4u : act == STORAGE_F32 ? 1u : 2u); slot++) {
        uint32_t total = is_long() ? TOTAL : act == STORAGE_F32 ? 24 : 64;
        float *want = teacher(&cpu, slot, slot * 3, tokens, &total), *got = calloc((size_t)total * vocab, 4);
        admit(&gpu, slot, tokens, total);
        EXPECT(step(&gpu, slot, MIN((uint32_t)PROMPT, total), false, got));
        for (uint32_t at = PROMPT; at < total; at += 10)
            EXPECT(step(&gpu, slot, MIN(10u, total - at), true, got + (size_t)at * vocab));
        for (size_t i = 0; i < (size_t)total * vocab; i++) {
            difference += pow((double)got[i] - want[i], 2);
            size += pow(want[i], 2);
        }
        for (uint32_t t = 0; t < total; t++, all++)
            same += argmax(got + (size_t)t * vocab, vocab) == argmax(want + (size_t)t * vocab, vocab);
        free(want);
        free(got);
    }
    double relative = sqrt(difference / size);
    if (!(relative <= bound) || same * 100 < all * 99)
        check_fail(__FILE__, __LINE__, "%s: logits differ by %g of their size, argmax equal in %u of %u",
                   storage_name(act), relative, same, all);
    fprintf(stderr, "%s: logits differ by %g, argmax equal in %u of %u\n", storage_name(act), relative, same, all);
    machine_close(&cpu);
    machine_close(&gpu);
}

TEST(the_bundled_model_in_f32_has_the_cpus_logits) { compare(STORAGE_F32, 1e-4); }
TEST(the_bundled_model_in_f16_has_the_cpus_logits) {
    if (is_long()) compare(STORAGE_F16, 1e-2); /* its weights are bf16: plain products, slow here */
}
TEST(the_bundled_model_in_bf16_has_the_cpus_logits) { compare(STORAGE_BF16, 1e-2); }

/* Prompt positions in chunks of any size, output positions one by one or many at once: the same logits, bit by bit. */
TEST(chunks_do_not_change_a_bit) {
    static const uint32_t chunks[][2] = {{40, 16}, {13, 5}, {39, 1}};
    struct machine gpu;
    uint32_t tokens[TOTAL];
    for (uint32_t i = 0; i < TOTAL; i++) tokens[i] = (uint32_t)(check_random() % 3000);
    if (!machine_open(&gpu, "cuda", STORAGE_BF16, STORAGE_BF16)) return;
    uint32_t vocab = gpu.model.spec.vocab, prompt = 40, total = is_long() ? TOTAL : 48;
    float *first = calloc((size_t)TOTAL * vocab, 4), *again = calloc((size_t)TOTAL * vocab, 4);
    for (uint32_t c = 0; c < ARRAY_LEN(chunks); c++) {
        float *logits = c ? again : first;
        emu_set_order((int)c, c + 1);
        admit(&gpu, c, tokens, total);
        for (uint32_t at = 0; at < prompt; at += chunks[c][0])
            EXPECT(step(&gpu, c, MIN(chunks[c][0], prompt - at), false, logits + (size_t)at * vocab));
        for (uint32_t at = prompt; at < total; at += chunks[c][1])
            EXPECT(step(&gpu, c, MIN(chunks[c][1], total - at), true, logits + (size_t)at * vocab));
        EXPECT(!c || same_bits(first, again, (size_t)total * vocab));
    }
    emu_set_order(0, 1);
    free(first);
    free(again);
    machine_close(&gpu);
}
