#include "replay/fleet.h"

/* A plan that a worker has and has not answered. */
struct fleet_step {
    uint64_t number;
    uint32_t incarnation;
    uint32_t row_count;
    uint32_t token_count; /* computed */
    uint32_t sampled;     /* tokens that come out */
    int64_t duration_us;
    uint32_t *rows; /* owned [2 * slots]: the slot of each row, then the tokens of each */
};
/* What a worker knows of the sequence in a slot. */
struct fleet_slot {
    uint32_t context;   /* positions computed or planned */
    uint32_t remaining; /* of the prompt */
};
struct fleet_worker {
    struct u128 instance;
    uint32_t first, count; /* in the ring of steps */
    int64_t begun_us;      /* the first one */
    uint64_t progress;
    struct fleet_slot *slots;                  /* owned [slots] */
    struct fleet_step steps[REPLAY_STEPS_MAX]; /* ring of steps_in_flight */
};

void fleet_init(struct fleet *fleet, const struct replay_config *config) {
    *fleet = (struct fleet){.config = config};
    fleet->workers = mem_calloc(config->replicas, sizeof *fleet->workers);
    fleet->computing = mem_calloc(config->replicas, sizeof *fleet->computing);
    fleet->zeros = mem_calloc(config->slots, sizeof *fleet->zeros);
    for (uint32_t i = 0; i < config->replicas; i++) {
        struct fleet_worker *w = &fleet->workers[i];
        w->instance = (struct u128){.lo = i + 1, .hi = 1};
        w->slots = mem_calloc(config->slots, sizeof *w->slots);
        for (uint32_t k = 0; k < config->steps_in_flight; k++)
            w->steps[k].rows = mem_calloc(config->slots, 2 * sizeof(uint32_t));
    }
}

void fleet_release(struct fleet *fleet) {
    for (uint32_t i = 0; i < fleet->config->replicas; i++) {
        struct fleet_worker *w = &fleet->workers[i];
        for (uint32_t k = 0; k < fleet->config->steps_in_flight; k++)
            mem_free(w->steps[k].rows);
        mem_free(w->slots);
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

static bool ends_before(struct fleet_due a, struct fleet_due b) {
    return a.ends_us != b.ends_us ? a.ends_us < b.ends_us : a.worker < b.worker;
}

static void heap_push(struct fleet *fleet, struct fleet_due due) {
    struct fleet_due *heap = fleet->computing;
    uint32_t at = fleet->computing_count++;
    for (; at && ends_before(due, heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = due;
}

static void heap_pop(struct fleet *fleet) {
    struct fleet_due *heap = fleet->computing, last = heap[--fleet->computing_count];
    uint32_t count = fleet->computing_count, at = 0;
    for (uint32_t child; (child = 2 * at + 1) < count; at = child) {
        child += child + 1 < count && ends_before(heap[child + 1], heap[child]);
        if (!ends_before(heap[child], last))
            break;
        heap[at] = heap[child];
    }
    heap[at] = last;
}

static void begin_step(struct fleet *fleet, struct fleet_worker *w, int64_t at_us) {
    w->begun_us = at_us;
    heap_push(fleet, (struct fleet_due){.ends_us = at_us + w->steps[w->first].duration_us,
                                        .worker = (uint32_t)(w - fleet->workers)});
}

/* ---- Steps ---- */

void fleet_take_plan(struct fleet *fleet, int64_t now_us, struct u128 instance,
                     const struct wire_plan *plan) {
    CHECK(instance.lo > 0 && instance.lo <= fleet->config->replicas);
    struct fleet_worker *w = &fleet->workers[instance.lo - 1];
    CHECK(w->count < fleet->config->steps_in_flight);
    struct fleet_step *step = &w->steps[(w->first + w->count) % fleet->config->steps_in_flight];
    struct replay_work work = {0};
    for (size_t i = 0; i < plan->admit_count; i++) {
        const struct wire_admit *admit = &plan->admits[i];
        w->slots[admit->slot] = (struct fleet_slot){
            admit->computed_count, (uint32_t)admit->tokens.count - admit->computed_count};
    }
    step->number = plan->number;
    step->incarnation = plan->incarnation;
    step->row_count = (uint32_t)plan->row_slots.count;
    step->sampled = 0;
    for (uint32_t i = 0; i < step->row_count; i++) {
        uint32_t count = plan->row_token_counts.items[i];
        struct fleet_slot *slot = &w->slots[plan->row_slots.items[i]];
        bool samples = slot->remaining <= count;
        replay_work_add(&work, slot->context, count);
        slot->context += count;
        slot->remaining = samples ? 0 : slot->remaining - count;
        step->rows[i] = plan->row_slots.items[i];
        step->rows[step->row_count + i] = samples;
        step->sampled += samples;
    }
    step->token_count = (uint32_t)work.positions;
    step->duration_us = replay_step_us(&fleet->config->cost, &work);
    if (w->count++ == 0)
        begin_step(fleet, w, now_us);
}

int64_t fleet_next_us(const struct fleet *fleet) {
    return fleet->computing_count ? fleet->computing[0].ends_us : INT64_MAX;
}

struct u128 fleet_end_step(struct fleet *fleet, struct wire_step_result *result) {
    CHECK(fleet->computing_count);
    struct fleet_due due = fleet->computing[0];
    struct fleet_worker *w = &fleet->workers[due.worker];
    const struct fleet_step *step = &w->steps[w->first];
    *result =
        (struct wire_step_result){.plan_number = step->number,
                                  .incarnation = step->incarnation,
                                  .slots = {step->rows, step->row_count},
                                  .token_counts = {step->rows + step->row_count, step->row_count},
                                  .finishes = {fleet->zeros, step->row_count},
                                  .tokens = {fleet->zeros, step->sampled},
                                  .compute_us = (uint64_t)step->duration_us};
    heap_pop(fleet);
    fleet->busy_us += step->duration_us;
    w->progress++;
    w->first = (w->first + 1) % fleet->config->steps_in_flight;
    if (--w->count)
        begin_step(fleet, w, due.ends_us);
    return w->instance;
}

int64_t fleet_busy_us(const struct fleet *fleet, int64_t now_us) {
    int64_t busy_us = fleet->busy_us;
    for (uint32_t i = 0; i < fleet->computing_count; i++)
        busy_us += now_us - fleet->workers[fleet->computing[i].worker].begun_us;
    return busy_us;
}
