/* Decode steps as recorded graphs: the bits of steps put on the stream one by one, whatever the
 * batch. */
#include <math.h>

#include "machine.h"
#include "model/golden.h"

/* more streams than rows whose products make the norms */
enum { STREAMS = 10, STEPS = 5, PROMPT = 9, VOCAB = 96, DEMO_VOCAB = 3072 };

struct served {
    struct machine m;
    struct stepper t;
    struct sample_out out[2];
};

static bool served_open(struct served *s, const char *dir, bool graphs) {
    if (!machine_open(&s->m, dir, "cuda", STORAGE_BF16, STORAGE_BF16))
        return false;
    for (int i = 0; i < 2; i++) {
        uint32_t *host = device_alloc_host(s->m.dev, MACHINE_SLOTS * (4 + 2 * SAMPLE_TOP_MAX) * 4);
        if (!host)
            return false;
        s->out[i] = (struct sample_out){.tokens = host,
                                        .status = host + MACHINE_SLOTS,
                                        .logprobs = (float *)host + 2 * MACHINE_SLOTS,
                                        .top_counts = host + 3 * MACHINE_SLOTS,
                                        .top_ids = host + 4 * MACHINE_SLOTS,
                                        .top_logprobs =
                                            (float *)host + (4 + SAMPLE_TOP_MAX) * MACHINE_SLOTS};
    }
    stepper_init(&s->t, &s->m.forward, MACHINE_SLOTS, graphs);
    return true;
}

static void served_close(struct served *s) {
    machine_wait(&s->m);
    stepper_release(&s->t);
    for (int i = 0; i < 2; i++)
        device_free_host(s->m.dev, s->out[i].tokens);
    machine_close(&s->m);
}

/* Slots [0, STREAMS) know PROMPT tokens each and compute all but the last. */
static void admit_all(struct served *s) {
    for (uint32_t slot = 0; slot < STREAMS; slot++) {
        uint32_t tokens[PROMPT];
        for (uint32_t i = 0; i < PROMPT; i++)
            tokens[i] = (slot * 31 + i * 7) % 90;
        machine_admit(&s->m, slot, tokens, PROMPT,
                      (struct slot_state){.prompt_count = PROMPT,
                                          /* some end before others */
                                          .max_total = PROMPT + STEPS + slot,
                                          .temperature = slot % 2 ? 0.9f : 0,
                                          .seed = slot,
                                          .bias_count = slot == 4 ? MACHINE_BIAS : 0,
                                          .logprobs = slot == 2 ? 3 : -1});
        struct step_run run = {slot, 0, PROMPT - 1};
        stepper_put(&s->t, s->m.stream,
                    &(struct step_input){.runs = &run, .run_count = 1, .row_count = PROMPT - 1},
                    NULL, NULL);
    }
}

/* In all steps but one every third stream may have only every fifth token. */
static bool is_constrained(uint32_t slot, uint32_t step) {
    return slot % 3 == 1 && step != 2;
}
static bool is_allowed(uint32_t slot, uint32_t step, uint32_t token) {
    return token % 5 == (slot + step) % 5;
}

/* A step's masks, made when they are awaited. */
struct constraint {
    uint32_t first, count, step;
    uint32_t bits[STREAMS][VOCAB / 32], rows[STREAMS];
    struct sample_masks masks;
};

static void make_masks(void *ctx) {
    struct constraint *c = ctx;
    uint32_t count = 0;
    memset(c->bits, 0, sizeof c->bits);
    for (uint32_t i = 0; i < c->count; i++) {
        c->rows[i] = ROW_NONE;
        if (!is_constrained(c->first + i, c->step))
            continue;
        for (uint32_t id = 0; id < VOCAB; id++)
            if (is_allowed(c->first + i, c->step, id))
                c->bits[count][id / 32] |= 1u << id % 32;
        c->rows[i] = count++;
    }
}

/* NULL: no stream of [first, first + count) is constrained in this step. */
static const struct sample_masks *masks_of(struct constraint *c, uint32_t first, uint32_t count,
                                           uint32_t step) {
    *c = (struct constraint){.first = first, .count = count, .step = step};
    c->masks = (struct sample_masks){&c->bits[0][0], 0, c->rows, make_masks, c};
    for (uint32_t i = 0; i < count; i++)
        c->masks.count += is_constrained(first + i, step);
    return c->masks.count ? &c->masks : NULL;
}

/* Decode steps of `count` streams at a time, two in flight as the worker has them; every stream
 * gets STEPS tokens: tokens[slot][step], and log probabilities. */
static void decode(struct served *s, uint32_t count, uint32_t tokens[STREAMS][STEPS],
                   float logprobs[STREAMS][STEPS]) {
    admit_all(s);
    for (uint32_t first = 0; first < STREAMS; first += count) {
        uint32_t n = MIN(count, STREAMS - first), rows[STREAMS];
        struct step_run runs[STREAMS];
        for (uint32_t i = 0; i < n; i++) {
            runs[i] = (struct step_run){first + i, i, 1};
            rows[i] = i;
        }
        struct event *done[2] = {event_new(s->m.dev), event_new(s->m.dev)};
        for (uint32_t step = 0; step <= STEPS; step++) {
            if (step < STEPS) {
                struct constraint c;
                stepper_put(&s->t, s->m.stream,
                            &(struct step_input){.runs = runs,
                                                 .run_count = n,
                                                 .row_count = n,
                                                 .output_count = n,
                                                 .sample_rows = rows,
                                                 .sample_count = n},
                            &s->out[step % 2], masks_of(&c, first, n, step));
                event_record(done[step % 2], s->m.stream);
            }
            if (!step)
                continue;
            const struct sample_out *out = &s->out[(step - 1) % 2];
            if (event_wait(done[(step - 1) % 2]))
                check_fail(__FILE__, __LINE__, "the device failed: %s", emu_failure());
            for (uint32_t i = 0; i < n; i++) {
                EXPECT(out->status[i] == SAMPLE_TOKEN || out->status[i] == SAMPLE_LENGTH);
                tokens[first + i][step - 1] = out->tokens[i];
                EXPECT(!is_constrained(first + i, step - 1) ||
                       is_allowed(first + i, step - 1, out->tokens[i]));
                logprobs[first + i][step - 1] = out->logprobs[i];
            }
        }
        for (int i = 0; i < 2; i++)
            event_free(&done[i]);
    }
}

TEST(graphs_do_not_change_a_bit) {
    struct model_golden g;
    char dir[] = "/tmp/trireme-step-XXXXXX";
    uint32_t want[STREAMS][STEPS], got[STREAMS][STEPS];
    float want_logprobs[STREAMS][STEPS], got_logprobs[STREAMS][STEPS];
    if (!mkdtemp(dir) ||
        !model_golden_read(&g, TRIREME_SOURCE_DIR "/tests/goldens/models/head64-gqa2.json") ||
        !golden_put_model(&g, dir, STORAGE_BF16)) {
        check_fail(__FILE__, __LINE__, "the golden cannot be read or written");
        return;
    }
    struct served plain, recorded;
    if (served_open(&plain, dir, false) && served_open(&recorded, dir, true)) {
        decode(&plain, 1, want, want_logprobs);
        EXPECT_EQ(plain.t.launch_count, 0);
        static const uint32_t batches[] = {STREAMS, 3, 1, STREAMS};
        for (size_t b = 0; b < ARRAY_LEN(batches); b++) {
            uint32_t graphs = recorded.t.graph_count;
            emu_set_order((int)(b % 3), b + 1);
            decode(&recorded, batches[b], got, got_logprobs);
            EXPECT(!memcmp(got, want, sizeof got) &&
                   !memcmp(got_logprobs, want_logprobs, sizeof got_logprobs));
            if (b == 3)
                EXPECT_EQ(recorded.t.graph_count, graphs); /* all buckets were met before */
        }
        emu_set_order(0, 1);
        EXPECT(recorded.t.graph_count >= 9 && recorded.t.launch_count >= 2 * STEPS);
        for (uint32_t i = 0; i < recorded.t.graph_count; i++)
            EXPECT(recorded.t.graphs[i].graph != NULL);
    }
    served_close(&plain);
    served_close(&recorded);
    golden_drop_dir(dir);
    model_golden_free(&g);
}

/* Launches of a decode step of the bundled model, of so many streams; logits [vocab] of the first. */
static uint64_t launches_of_step(uint32_t count, uint32_t *layers, float *logits) {
    struct served s;
    struct step_run runs[STREAMS];
    uint32_t row = 0;
    uint64_t launches = 0;
    for (uint32_t i = 0; i < count; i++)
        runs[i] = (struct step_run){i, i, 1};
    if (served_open(&s, TRIREME_SOURCE_DIR "/demo/model", false)) {
        struct forward *f = &s.m.forward;
        admit_all(&s);
        launches = emu_launch_count();
        forward_layers(f, s.m.stream,
                       &(struct step_input){.runs = runs,
                                            .run_count = count,
                                            .row_count = count,
                                            .output_count = count,
                                            .sample_rows = &row,
                                            .sample_count = 1});
        launches = emu_launch_count() - launches;
        forward_logits(f, s.m.stream, 0, 1);
        stream_copy_out(s.m.stream, logits, f->logits, DEMO_VOCAB * sizeof *logits);
        *layers = s.m.model.spec.layer_count;
    }
    served_close(&s);
    return launches;
}

/* Of up to 8 rows no kernel norms, but the first of all, and none rotates; a row's bits are the same. */
TEST(norms_and_rotations_of_a_small_decode_step_are_made_by_products) {
    static float many[DEMO_VOCAB], some[DEMO_VOCAB], alone[DEMO_VOCAB];
    uint32_t layers = 0;
    const uint64_t by_kernels = launches_of_step(9, &layers, many),
                   by_products = launches_of_step(8, &layers, some);
    if (by_kernels)
        EXPECT_EQ(by_kernels - by_products, 3 * layers - 1);
    EXPECT_EQ(launches_of_step(1, &layers, alone), by_products);
    EXPECT(!memcmp(many, some, sizeof many) && !memcmp(many, alone, sizeof many));
    EXPECT(isfinite(many[0]) && many[0] != 0);
}

TEST(buckets_hold_what_they_are_for) {
    for (uint32_t n = 1; n < 1500; n++) {
        EXPECT(step_bucket(n) >= n && step_bucket(n) >= step_bucket(n - 1) &&
               step_bucket(n) - n < 64);
        EXPECT_EQ(step_bucket(step_bucket(n)), step_bucket(n));
    }
}
