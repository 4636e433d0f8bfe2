/*
 * machine.h - a model on a device with slots and buffers, CPU or emulated (or, as test_gpu_*, a
 * real GPU).
 */
#ifndef TESTS_UNIT_EMU_MACHINE_H
#define TESTS_UNIT_EMU_MACHINE_H

#include "check.h"
#include "model/run/step.h"

void emu_set_order(int order, uint64_t seed);
const char *emu_failure(void);
/* Kernels launched so far; 0 where the device does not count them. */
uint64_t emu_launch_count(void);

enum { MACHINE_SLOTS = 12, MACHINE_CONTEXT = 320, MACHINE_BLOCK = 32, MACHINE_ROWS = 128 };

struct machine {
    struct device *dev;
    struct stream *stream;
    struct event *event;
    struct model model;
    struct slots slots;
    struct forward forward;
};

static inline void machine_close(struct machine *m) {
    if (m->forward.model)
        forward_release(&m->forward);
    if (m->slots.dev)
        slots_release(&m->slots);
    if (m->model.dev)
        model_close(&m->model);
    if (m->event)
        event_free(&m->event);
    stream_free(&m->stream);
    device_close(&m->dev);
}

/* quantize: what plain matrices of layers become; compute: of the device (device_options). */
static inline bool machine_open_as(struct machine *m, const char *dir, const char *kind,
                                   enum storage_type act, enum storage_type kv,
                                   enum storage_type quantize, const char *compute) {
    struct error err;
    struct kv_geometry geometry;
    struct device_options options = {
        .kind = kind, .thread_count = 2, .activation = act, .compute = compute};
    struct model_options model = {.dir = dir, .quantize = quantize};
    *m = (struct machine){0};
    if (device_open(&options, &m->dev, &err))
        goto failed;
    m->stream = stream_new(m->dev);
    m->event = event_new(m->dev);
    if (model_open(&m->model, &model, m->dev, m->stream, &err) ||
        kv_geometry_of(&geometry, &m->model, kv, MACHINE_BLOCK, &err) ||
        slots_init(&m->slots, &m->model, &geometry, MACHINE_SLOTS, MACHINE_CONTEXT,
                   MACHINE_SLOTS * MACHINE_CONTEXT / MACHINE_BLOCK, &err) ||
        forward_init(&m->forward, &m->model, &m->slots, MACHINE_ROWS, MACHINE_SLOTS, &err))
        goto failed;
    return true;
failed:
    check_fail(__FILE__, __LINE__, "%s: %s", kind, err.text);
    return false;
}

static inline bool machine_open(struct machine *m, const char *dir, const char *kind,
                                enum storage_type act, enum storage_type kv) {
    return machine_open_as(m, dir, kind, act, kv, STORAGE_NONE, NULL);
}

enum { MACHINE_BIAS = 2 };

/* state's token_count and max_total are set; its other fields as given. bias_count, at most
 * MACHINE_BIAS: so many tokens from 11 on are 3 likelier. */
static inline void machine_admit(struct machine *m, uint32_t slot, const uint32_t *tokens,
                                 uint32_t count, struct slot_state state) {
    uint32_t blocks[MACHINE_CONTEXT / MACHINE_BLOCK];
    for (uint32_t i = 0; i < ARRAY_LEN(blocks); i++)
        blocks[i] = i * MACHINE_SLOTS + slot;
    state.token_count = count;
    if (!state.max_total)
        state.max_total = MACHINE_CONTEXT;
    state.top_p = state.top_p > 0 ? state.top_p : 1;
    state.repetition_penalty = 1;
    state.logprobs = state.logprobs ? state.logprobs : -1;
    slots_admit(&m->slots, m->stream, slot,
                &(struct slot_admission){.state = &state,
                                         .tokens = tokens,
                                         .blocks = blocks,
                                         .block_count = ARRAY_LEN(blocks),
                                         .bias_ids = (const uint32_t[MACHINE_BIAS]){11, 12},
                                         .bias_values = (const float[MACHINE_BIAS]){3, 3}});
}

static inline bool machine_wait(struct machine *m) {
    event_record(m->event, m->stream);
    if (!event_wait(m->event))
        return true;
    check_fail(__FILE__, __LINE__, "the device failed: %s", emu_failure());
    return false;
}

/* The next `count` known tokens of a slot; logits [count, vocab] of all of them. */
static inline bool machine_step(struct machine *m, uint32_t slot, uint32_t count, bool output_class,
                                float *logits) {
    uint32_t rows[MACHINE_ROWS], vocab = m->model.spec.vocab;
    struct step_run run = {slot, 0, count};
    for (uint32_t i = 0; i < count; i++)
        rows[i] = i;
    struct step_input in = {.runs = &run,
                            .run_count = 1,
                            .row_count = count,
                            .output_count = output_class ? count : 0,
                            .sample_rows = rows,
                            .sample_count = count};
    forward_layers(&m->forward, m->stream, &in);
    for (uint32_t first = 0; first < count; first += HEAD_ROWS) {
        uint32_t n = MIN(count - first, (uint32_t)HEAD_ROWS);
        forward_logits(&m->forward, m->stream, first, n);
        stream_copy_out(m->stream, logits + (size_t)first * vocab, m->forward.logits,
                        (size_t)n * vocab * 4);
        if (!machine_wait(m))
            return false;
    }
    return true;
}

static inline uint32_t machine_argmax(const float *x, uint32_t count) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}

#endif
