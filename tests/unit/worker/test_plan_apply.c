/* What a plan puts onto the device, and what a step's result is made of: each field by itself, so that
 * none stands in another's place. */
#include "worker/plan_apply.h"

#include "check.h"
#include "worker/flight_ring.h"

enum { SLOTS = 4, CHOSEN = 2 };

/* ---- admissions ---- */

struct device_side {
    struct loaded loaded;
    struct mirror mirror;
    struct constraints constraints;
    struct plan_apply apply;
    struct flight flight;
};

static bool device_side_init(struct device_side *d) {
    static const struct worker_settings settings = {.model = TRIREME_SOURCE_DIR "/demo/model",
                                                    .device = "cpu",
                                                    .threads = 1,
                                                    .slots = SLOTS,
                                                    .blocks = 64,
                                                    .block_tokens = 16,
                                                    .max_step_tokens = 64};
    static struct worker_progress progress;
    struct error err;
    *d = (struct device_side){0};
    if (worker_load(&d->loaded, &settings, &progress, &err))
        return false;
    mirror_init(&d->mirror, &(struct mirror_limits){.slot_count = SLOTS,
                                                    .max_context = 1024,
                                                    .max_step_tokens = 64,
                                                    .vocab = d->loaded.model.spec.vocab,
                                                    .block_tokens = 16,
                                                    .block_count = 64});
    constraints_init(&d->constraints, NULL, SLOTS, d->loaded.model.spec.vocab);
    plan_apply_init(&d->apply, &d->loaded, &d->mirror, &d->constraints);
    return flight_init(&d->flight, d->loaded.dev, SLOTS, &err) == 0;
}

static void device_side_release(struct device_side *d) {
    flight_release(&d->flight);
    plan_apply_release(&d->apply);
    constraints_release(&d->constraints);
    mirror_release(&d->mirror);
    loaded_release(&d->loaded);
}

/* The slot's state behind a plan that is this admission; NULL: the plan was refused. */
static const struct slot_state *admit(struct device_side *d, const struct wire_admit *a) {
    struct wire_plan plan = {.number = d->mirror.last_plan + 1, .admits = a, .admit_count = 1};
    struct grammar_entry *entries[1] = {NULL};
    struct mirror_row rows[SLOTS];
    uint32_t added_at[1];
    struct error err;
    if (mirror_apply(&d->mirror, &plan, rows, added_at, &err))
        return NULL;
    plan_apply(&d->apply, &plan, added_at, entries, &d->flight);
    return event_wait(d->flight.done) ? NULL : &d->loaded.slots.table.states[a->slot];
}

static const uint32_t TOKENS[7] = {11, 12, 13, 14, 15, 16, 17}, ZEROS[2];

static struct wire_admit plain(void) {
    static const uint32_t blocks[2] = {8, 5};
    return (struct wire_admit){.slot = CHOSEN,
                               .tokens = {TOKENS, 7},
                               .prompt_count = 5,
                               .computed_count = 3,
                               .block_groups = {ZEROS, 2},
                               .block_ids = {blocks, 2},
                               .max_total = 40,
                               .choice = 9,
                               .kind = WIRE_GENERATE,
                               .sampling = {.top_p = 1, .repetition_penalty = 1, .logprobs = -1}};
}

TEST(an_admission_fills_each_field_of_its_slot) {
    static const uint32_t stops[] = {31, 32, 33}, bias_ids[] = {41, 42};
    static const float bias_values[] = {0.5f, -0.25f};
    struct device_side d;
    EXPECT(device_side_init(&d));
    struct wire_admit a = plain();
    a.stop_tokens = (struct u32s){stops, 3};
    a.sampler_state = 0.0625f;
    a.sampling = (struct wire_sampling){.temperature = 0.11f,
                                        .top_p = 0.12f,
                                        .min_p = 0.13f,
                                        .top_k = 14,
                                        .repetition_penalty = 1.5f,
                                        .presence_penalty = 1.6f,
                                        .frequency_penalty = 1.7f,
                                        .seed = UINT64_C(0x123456789abcdef0),
                                        .logprobs = 18,
                                        .min_tokens = 19,
                                        .bias_ids = {bias_ids, 2},
                                        .bias_values = {bias_values, 2},
                                        .top_n_sigma = 0.21f,
                                        .order = SAMPLE_USUAL_ORDER,
                                        .typical_p = 0.22f,
                                        .xtc_probability = 0.23f,
                                        .xtc_threshold = 0.24f,
                                        .temperature_range = 0.25f,
                                        .temperature_exponent = 0.26f,
                                        .dry_multiplier = 0.27f,
                                        .dry_base = 0.28f,
                                        .dry_allowed = 29,
                                        .dry_window = 30,
                                        .penalty_window = 31,
                                        .steering = WIRE_STEERING_ADAPTIVE,
                                        .target = 0.32f,
                                        .rate = 0.33f};
    const struct wire_sampling *w = &a.sampling;
    const struct slot_state *s = admit(&d, &a);
    EXPECT(s);
    EXPECT(s->active && s->token_count == 7 && s->computed_count == 3 && s->prompt_count == 5);
    EXPECT(s->max_total == 40 && s->min_total == 5 + 19 && s->choice == 9);
    EXPECT(s->top_k == w->top_k && s->seed == w->seed && s->temperature == w->temperature);
    EXPECT(s->top_p == w->top_p && s->min_p == w->min_p && s->top_n_sigma == w->top_n_sigma);
    EXPECT(s->repetition_penalty == w->repetition_penalty);
    EXPECT(s->presence_penalty == w->presence_penalty);
    EXPECT(s->frequency_penalty == w->frequency_penalty && s->logprobs == w->logprobs);
    EXPECT(s->rules.order == w->order && s->rules.typical_p == w->typical_p);
    EXPECT(s->rules.xtc_probability == w->xtc_probability);
    EXPECT(s->rules.xtc_threshold == w->xtc_threshold);
    EXPECT(s->rules.temperature_range == w->temperature_range);
    EXPECT(s->rules.temperature_exponent == w->temperature_exponent);
    EXPECT(s->rules.dry_multiplier == w->dry_multiplier && s->rules.dry_base == w->dry_base);
    EXPECT(s->rules.dry_allowed == w->dry_allowed && s->rules.dry_window == w->dry_window);
    EXPECT(s->rules.penalty_window == w->penalty_window);
    EXPECT(s->rules.steering == STEER_ADAPTIVE && s->rules.target == w->target);
    EXPECT(s->rules.rate == w->rate && s->rules.state == 0.0625f);
    EXPECT(s->stop_count == 3 && !memcmp(s->stops, stops, sizeof stops));
    EXPECT_EQ(s->bias_count, 2);
    const struct slot_table *t = &d.loaded.slots.table;
    EXPECT(!memcmp(t->bias_ids + CHOSEN * SLOT_BIAS_MAX, bias_ids, sizeof bias_ids));
    EXPECT(!memcmp(t->bias_values + CHOSEN * SLOT_BIAS_MAX, bias_values, sizeof bias_values));
    EXPECT(!memcmp(t->tokens + CHOSEN * (size_t)t->max_context, TOKENS, sizeof TOKENS));
    EXPECT(t->blocks[CHOSEN * t->max_blocks] == 8 && t->blocks[CHOSEN * t->max_blocks + 1] == 5);
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        EXPECT_EQ(t->states[slot].active, slot == CHOSEN);
    device_side_release(&d);
}

/* A sampler that steers begins anew where there is no output, and goes on where there is. */
TEST(a_steered_sequence_begins_once) {
    struct device_side d;
    EXPECT(device_side_init(&d));
    struct wire_admit a = plain();
    a.sampling.steering = WIRE_STEERING_ADAPTIVE;
    a.sampling.target = 0.5f;
    a.sampling.rate = 0.75f;
    a.sampler_state = 9;
    const struct slot_state *s = admit(&d, &a);
    EXPECT(s && s->rules.state == 9);
    a.prompt_count = 6;
    s = admit(&d, &a);
    EXPECT(s && s->rules.state == 9);
    a.prompt_count = 7;
    s = admit(&d, &a);
    EXPECT(s && s->rules.state == 2);
    device_side_release(&d);
}

TEST(an_admission_of_most_stops_and_biases) {
    static uint32_t ids[SLOT_BIAS_MAX + 1];
    static float values[SLOT_BIAS_MAX + 1];
    struct device_side d;
    EXPECT(device_side_init(&d));
    for (uint32_t i = 0; i <= SLOT_BIAS_MAX; i++) {
        ids[i] = i + 1;
        values[i] = (float)i;
    }
    for (uint32_t more = 0; more < 2; more++) {
        struct wire_admit a = plain();
        a.stop_tokens = (struct u32s){ids, SLOT_STOPS_MAX + more};
        a.sampling.bias_ids = (struct u32s){ids, SLOT_BIAS_MAX + more};
        a.sampling.bias_values = (struct f32s){values, SLOT_BIAS_MAX + more};
        a.sampling.min_tokens =
            UINT32_MAX - 5 + more; /* with the prompt: as much as there is, or more */
        const struct slot_state *s = admit(&d, &a);
        EXPECT(s && s->stop_count == SLOT_STOPS_MAX && s->bias_count == SLOT_BIAS_MAX);
        EXPECT_EQ(s->stops[SLOT_STOPS_MAX - 1], SLOT_STOPS_MAX);
        EXPECT_EQ(s->min_total, UINT32_MAX);
        const float *held = d.loaded.slots.table.bias_values;
        EXPECT(held[CHOSEN * SLOT_BIAS_MAX + SLOT_BIAS_MAX - 1] == SLOT_BIAS_MAX - 1);
        EXPECT(held[(CHOSEN + 1) * SLOT_BIAS_MAX] != SLOT_BIAS_MAX);
    }
    device_side_release(&d);
}

/* ---- results ---- */

/* Rows of slots 3, 1, 0 and 2: the second computes a prompt, the others have the samples 2, 0 and 1. */
static void fill_flight(struct flight *f, const uint32_t status[3]) {
    static const uint32_t slots[] = {3, 1, 0, 2}, samples[] = {2, ROW_NONE, 0, 1};
    f->row_count = 4;
    f->plan_number = 77;
    f->incarnation = 5;
    f->op_count = 3;
    for (uint32_t i = 0; i < 4; i++) {
        f->rows[i] = (struct mirror_row){.slot = slots[i], .admission = 10 + i};
        f->sample_of[i] = samples[i];
    }
    for (uint32_t s = 0; s < 3; s++) {
        f->out.status[s] = status[s];
        f->out.tokens[s] = 100 + s;
        f->out.logprobs[s] = -1.0f - (float)s;
        f->out.top_counts[s] = s == 0 ? SAMPLE_NO_LOGPROBS : s - 1; /* none, 0, 1 */
        f->out.top_ids[s * SAMPLE_TOP_MAX] = 200 + s;
        f->out.top_logprobs[s * SAMPLE_TOP_MAX] = -0.5f - (float)s;
        f->out.states[s] = 0;
    }
}

TEST(a_result_has_its_rows_in_order) {
    static const uint32_t status[3] = {SAMPLE_TOKEN, SAMPLE_STOP, SAMPLE_LENGTH};
    struct device_side d;
    struct wire_step_result r;
    EXPECT(device_side_init(&d));
    struct flight *f = &d.flight;
    fill_flight(f, status);
    flight_finish(f, NULL, &r);
    EXPECT(r.plan_number == 77 && r.incarnation == 5 && r.ops_done.count == 3);
    for (uint32_t i = 0; i < 3; i++)
        EXPECT_EQ(r.ops_done.items[i], i);
    EXPECT(r.slots.count == 4 && r.token_counts.count == 4 && r.finishes.count == 4);
    EXPECT(r.slots.items[0] == 3 && r.slots.items[1] == 1 && r.slots.items[3] == 2);
    EXPECT(r.token_counts.items[0] == 1 && r.token_counts.items[1] == 0);
    EXPECT(r.finishes.items[0] == WIRE_FINISH_LENGTH && r.finishes.items[1] == WIRE_FINISH_NONE);
    EXPECT(r.finishes.items[2] == WIRE_FINISH_NONE && r.finishes.items[3] == WIRE_FINISH_STOP);
    EXPECT(r.tokens.count == 3 && r.tokens.ids[0] == 102 && r.tokens.ids[1] == 100 &&
           r.tokens.ids[2] == 101);
    EXPECT(r.logprobs.tops.count == 3 && r.logprobs.tops.items[0] == 1);
    EXPECT(r.logprobs.tops.items[1] == WIRE_NO_LOGPROBS && r.logprobs.tops.items[2] == 0);
    EXPECT(r.logprobs.ids.count == 3 && r.logprobs.ids.items[0] == 102);
    EXPECT(r.logprobs.ids.items[1] == 202 && r.logprobs.ids.items[2] == 101);
    EXPECT(r.logprobs.values.count == 3 && r.logprobs.values.items[0] == -3);
    EXPECT(r.logprobs.values.items[1] == -2.5f && r.logprobs.values.items[2] == -2);
    EXPECT(r.sampler_states.count == 0 && r.vectors.count == 0 && r.vector_width == 0);
    f->out.states[1] = 0.5f; /* of one that steers: all have one then */
    flight_finish(f, NULL, &r);
    EXPECT(r.sampler_states.count == 3 && r.sampler_states.items[0] == 0 &&
           r.sampler_states.items[2] == 0.5f);
    f->out.top_counts[1] = f->out.top_counts[2] = SAMPLE_NO_LOGPROBS;
    flight_finish(f, NULL, &r);
    EXPECT_EQ(r.logprobs.tops.count, 0);
    device_side_release(&d);
}

TEST(what_has_no_token_ends_or_is_passed_over) {
    static const uint32_t status[3] = {SAMPLE_NONFINITE, SAMPLE_WASTED, SAMPLE_TOKEN};
    struct device_side d;
    struct wire_step_result r;
    EXPECT(device_side_init(&d));
    fill_flight(&d.flight, status);
    d.flight.rows[1].fate = ROW_FAILED;
    for (uint32_t i = 0; i < 4; i++)
        d.mirror.slots[d.flight.rows[i].slot].admission = 10 + i;
    d.mirror.slots[2].admission = 99; /* has another sequence by now */
    flight_finish(&d.flight, &d.mirror, &r);
    EXPECT(r.tokens.count == 1 && r.tokens.ids[0] == 102);
    EXPECT(r.token_counts.items[0] == 1 && r.token_counts.items[2] == 0 &&
           r.token_counts.items[3] == 0);
    EXPECT(r.finishes.items[1] == WIRE_FINISH_ERROR && r.finishes.items[2] == WIRE_FINISH_ERROR);
    EXPECT(r.finishes.items[0] == WIRE_FINISH_NONE && r.finishes.items[3] == WIRE_FINISH_NONE);
    EXPECT(d.mirror.slots[0].ended && !d.mirror.slots[1].ended && !d.mirror.slots[2].ended &&
           !d.mirror.slots[3].ended);
    device_side_release(&d);
}

/* ---- the ring ---- */

/* A step that samples for `slot` alone. */
static struct flight *start(struct flight_ring *ring, uint64_t plan, uint32_t slot) {
    struct flight *f = flight_ring_free(ring);
    f->plan_number = plan;
    f->taken = false;
    f->row_count = 2;
    f->rows[0] = (struct mirror_row){.slot = slot};
    f->rows[1] = (struct mirror_row){.slot = 3};
    f->sample_of[0] = 0;
    f->sample_of[1] = ROW_NONE;
    flight_ring_start(ring, f);
    return f;
}

TEST(steps_leave_a_ring_in_their_order) {
    struct device_side d;
    struct flight_ring ring;
    struct error err;
    EXPECT(device_side_init(&d));
    EXPECT_EQ(flight_ring_init(&ring, d.loaded.dev, 3, SLOTS, &err), 0);
    EXPECT(!flight_ring_oldest(&ring) && !flight_ring_uncollected(&ring) &&
           !flight_ring_unshared(&ring) && !flight_ring_untaken(&ring));
    EXPECT_EQ(flight_ring_awaited(&ring, 1), 0);
    for (uint64_t plan = 1; plan <= 7;
         plan += 3) { /* the ring's first place is another each time */
        struct flight *a = start(&ring, plan, 1), *b = start(&ring, plan + 1, 2),
                      *c = start(&ring, plan + 2, 1);
        EXPECT(!flight_ring_free(&ring) && flight_ring_oldest(&ring) == a);
        EXPECT(flight_ring_uncollected(&ring) == a && flight_ring_unshared(&ring) == a);
        EXPECT(flight_ring_awaited(&ring, 1) == plan + 2 &&
               flight_ring_awaited(&ring, 2) == plan + 1);
        EXPECT_EQ(flight_ring_awaited(&ring, 3), 0); /* it samples nothing */
        EXPECT(flight_ring_untaken(&ring) == a);
        a->taken = true;
        EXPECT(flight_ring_untaken(&ring) == b);
        flight_ring_share(&ring, a);
        flight_ring_share(&ring, b);
        EXPECT(flight_ring_unshared(&ring) == c && flight_ring_uncollected(&ring) == a);
        EXPECT(flight_ring_awaited(&ring, 2) == 0 && flight_ring_awaited(&ring, 1) == plan + 2);
        flight_ring_collect(&ring, a);
        EXPECT(flight_ring_uncollected(&ring) == b && a->state == FLIGHT_OVER);
        flight_ring_retire(&ring);
        EXPECT(flight_ring_oldest(&ring) == b && flight_ring_free(&ring) == a);
        flight_ring_collect(&ring, b);
        flight_ring_collect(&ring, c);
        EXPECT(!flight_ring_uncollected(&ring) && flight_ring_unshared(&ring) == c);
        flight_ring_share(&ring, c);
        EXPECT(c->state == FLIGHT_OVER && flight_ring_awaited(&ring, 1) == 0);
        flight_ring_retire(&ring);
        flight_ring_retire(&ring);
        EXPECT(!flight_ring_oldest(&ring));
        start(&ring, plan + 3, 1); /* forgotten below, so that the next round begins elsewhere */
        flight_ring_share(&ring, flight_ring_oldest(&ring));
        flight_ring_collect(&ring, flight_ring_oldest(&ring));
        flight_ring_retire(&ring);
    }
    flight_ring_release(&ring);
    device_side_release(&d);
}
