#include "replay/fleet.h"

/* A plan that a worker has and has not answered. */
struct fleet_step {
    uint64_t number;
    uint32_t incarnation;
    uint32_t row_count;
    uint32_t token_count; /* computed */
    uint32_t sampled;     /* tokens that come out */
    int64_t duration_us;
    uint32_t *slots;   /* owned [slots], as are */
    uint32_t *samples; /* tokens of each row */
};
struct fleet_worker {
    struct u128 instance;
    struct fleet_step steps[REPLAY_STEPS_MAX]; /* ring */
    uint32_t first, count;
    int64_t begun_us, ends_us; /* of the first one */
    uint32_t *context;         /* owned [slots]: positions computed or planned */
    uint32_t *remaining;       /* owned [slots]: of the prompt */
    uint64_t progress;
};

void fleet_init(struct fleet *fleet, const struct replay_config *config) {
    *fleet = (struct fleet){.config = config};
    fleet->workers = mem_calloc(config->replicas, sizeof *fleet->workers);
    fleet->computing = mem_calloc(config->replicas, sizeof *fleet->computing);
    fleet->zeros = mem_calloc(config->slots, sizeof *fleet->zeros);
    for (uint32_t i = 0; i < config->replicas; i++) {
        struct fleet_worker *w = &fleet->workers[i];
        w->instance = (struct u128){.lo = i + 1, .hi = 1};
        w->context = mem_calloc(config->slots, sizeof *w->context);
        w->remaining = mem_calloc(config->slots, sizeof *w->remaining);
        for (uint32_t k = 0; k < REPLAY_STEPS_MAX; k++) {
            w->steps[k].slots = mem_calloc(config->slots, sizeof(uint32_t));
            w->steps[k].samples = mem_calloc(config->slots, sizeof(uint32_t));
        }
    }
}

void fleet_release(struct fleet *fleet) {
    for (uint32_t i = 0; i < fleet->config->replicas; i++) {
        struct fleet_worker *w = &fleet->workers[i];
        for (uint32_t k = 0; k < REPLAY_STEPS_MAX; k++) {
            mem_free(w->steps[k].slots);
            mem_free(w->steps[k].samples);
        }
        mem_free(w->context);
        mem_free(w->remaining);
    }
    mem_free(fleet->workers);
    mem_free(fleet->computing);
    mem_free(fleet->zeros);
    *fleet = (struct fleet){0};
}

void fleet_hello(const struct fleet *fleet, uint32_t idx, struct wire_kv_group *group,
                 struct wire_hello *hello) {
    const struct replay_config *config = fleet->config;
    *group = (struct wire_kv_group){.kind = WIRE_GROUP_FULL,
                                    .block_tokens = config->block_tokens,
                                    .block_count = config->block_count};
    *hello = (struct wire_hello){.role = WIRE_ROLE_WORKER,
                                 .instance = fleet->workers[idx].instance,
                                 .tp = 1,
                                 .pp = 1,
                                 .incarnation = 1,
                                 .state = WIRE_STATE_IDLE,
                                 .model = bytes_str("replayed"),
                                 .slot_count = config->slots,
                                 .max_step_tokens = config->max_step_tokens,
                                 .max_context = config->max_context,
                                 .logits_width = REPLAY_VOCABULARY,
                                 .steps_in_flight = config->steps_in_flight,
                                 .groups = group,
                                 .group_count = 1};
}

struct u128 fleet_beat(const struct fleet *fleet, uint32_t idx, int64_t now_ms,
                       struct wire_heartbeat *beat) {
    const struct fleet_worker *w = &fleet->workers[idx];
    const struct fleet_step *step = w->count ? &w->steps[w->first] : NULL;
    *beat = (struct wire_heartbeat){.state = step ? WIRE_STATE_STEPPING : WIRE_STATE_IDLE,
                                    .progress = w->progress};
    if (step) {
        beat->plan_number = step->number;
        beat->step_tokens = step->token_count;
        beat->step_age_ms = (uint32_t)(now_ms - w->begun_us / 1000);
    }
    return w->instance;
}

/* ---- Who computes ---- */

static bool ends_before(const struct fleet *fleet, uint32_t a, uint32_t b) {
    const struct fleet_worker *x = &fleet->workers[a], *y = &fleet->workers[b];
    return x->ends_us != y->ends_us ? x->ends_us < y->ends_us : a < b;
}

static void heap_push(struct fleet *fleet, uint32_t worker) {
    uint32_t *heap = fleet->computing, at = fleet->computing_count++;
    for (; at && ends_before(fleet, worker, heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = worker;
}

static void heap_pop(struct fleet *fleet) {
    uint32_t *heap = fleet->computing, count = --fleet->computing_count, last = heap[count], at = 0;
    for (uint32_t child; (child = 2 * at + 1) < count; at = child) {
        child += child + 1 < count && ends_before(fleet, heap[child + 1], heap[child]);
        if (!ends_before(fleet, heap[child], last))
            break;
        heap[at] = heap[child];
    }
    heap[at] = last;
}

static void begin_step(struct fleet *fleet, struct fleet_worker *w, int64_t at_us) {
    w->begun_us = at_us;
    w->ends_us = at_us + w->steps[w->first].duration_us;
    heap_push(fleet, (uint32_t)(w - fleet->workers));
}

/* ---- Steps ---- */

void fleet_take_plan(struct fleet *fleet, int64_t now_us, struct u128 instance,
                     const struct wire_plan *plan) {
    CHECK(instance.lo > 0 && instance.lo <= fleet->config->replicas);
    struct fleet_worker *w = &fleet->workers[instance.lo - 1];
    CHECK(w->count < fleet->config->steps_in_flight);
    struct fleet_step *step = &w->steps[(w->first + w->count) % REPLAY_STEPS_MAX];
    struct replay_work work = {0};
    for (size_t i = 0; i < plan->admit_count; i++) {
        const struct wire_admit *admit = &plan->admits[i];
        w->context[admit->slot] = admit->computed_count;
        w->remaining[admit->slot] = (uint32_t)admit->tokens.count - admit->computed_count;
    }
    step->number = plan->number;
    step->incarnation = plan->incarnation;
    step->row_count = (uint32_t)plan->row_slots.count;
    step->sampled = 0;
    for (uint32_t i = 0; i < step->row_count; i++) {
        uint32_t slot = plan->row_slots.items[i], count = plan->row_token_counts.items[i];
        bool samples = w->remaining[slot] <= count;
        replay_work_add(&work, w->context[slot], count);
        w->context[slot] += count;
        w->remaining[slot] = samples ? 0 : w->remaining[slot] - count;
        step->slots[i] = slot;
        step->samples[i] = samples;
        step->sampled += samples;
    }
    step->token_count = (uint32_t)work.positions;
    step->duration_us = replay_step_us(&fleet->config->cost, &work);
    if (w->count++ == 0)
        begin_step(fleet, w, now_us);
}

int64_t fleet_next_us(const struct fleet *fleet) {
    return fleet->computing_count ? fleet->workers[fleet->computing[0]].ends_us : INT64_MAX;
}

struct u128 fleet_end_step(struct fleet *fleet, struct wire_step_result *result) {
    CHECK(fleet->computing_count);
    struct fleet_worker *w = &fleet->workers[fleet->computing[0]];
    const struct fleet_step *step = &w->steps[w->first];
    *result = (struct wire_step_result){.plan_number = step->number,
                                        .incarnation = step->incarnation,
                                        .slots = {step->slots, step->row_count},
                                        .token_counts = {step->samples, step->row_count},
                                        .finishes = {fleet->zeros, step->row_count},
                                        .tokens = {fleet->zeros, step->sampled},
                                        .compute_us = (uint64_t)step->duration_us};
    heap_pop(fleet);
    fleet->busy_us += step->duration_us;
    w->progress++;
    w->first = (w->first + 1) % REPLAY_STEPS_MAX;
    if (--w->count)
        begin_step(fleet, w, w->ends_us);
    return w->instance;
}

int64_t fleet_busy_us(const struct fleet *fleet, int64_t now_us) {
    int64_t busy_us = fleet->busy_us;
    for (uint32_t i = 0; i < fleet->computing_count; i++)
        busy_us += now_us - fleet->workers[fleet->computing[i]].begun_us;
    return busy_us;
}
