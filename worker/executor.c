#include "worker/executor.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "model/forward.h"
#include "text/bundle.h"
#include "worker/flight.h"

/* Bumped whenever a change to the kernels changes bits: part of the fingerprint. */
#define KERNEL_BUILD "2"

enum { STEPS_IN_FLIGHT = 2, POOL_SPIN_US = 60 };

struct executor {
    struct worker_progress *progress; /* borrowed */
    struct device *dev;
    struct stream *stream;
    struct model model;
    struct kv_geometry geometry;
    struct slots slots;
    struct forward forward;
    struct mirror mirror;
    struct flight flights[STEPS_IN_FLIGHT];
    uint32_t flight_first, flight_count;
    uint32_t max_step_tokens;
    struct step_run *runs; /* [2 * slots] */
    uint32_t *sample_rows; /* [slots] */
    uint32_t *row_blocks;  /* [slots]: blocks of the slot as new ones are added */
    struct buf bundle;
    char served_name[WORKER_NAME_MAX];
    struct wire_kv_group group;
    struct wire_hello about;
};

/* ---- loading ---- */

static void on_progress(void *ctx, uint64_t done, uint64_t total) { progress_tick(ctx); }
static void on_layer(void *ctx) { progress_tick(ctx); }

static uint64_t memory_available(void) {
    FILE *f = fopen("/proc/meminfo", "re");
    char line[128];
    unsigned long long kb = 0;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu kB", &kb) == 1) break;
    if (f) fclose(f);
    return (uint64_t)kb * 1024;
}

static int open_model(struct executor *e, const struct worker_settings *s, struct error *err) {
    bool any = !s->device || !*s->device || !strcmp(s->device, "auto");
    struct device_options device = {
        .kind = any ? NULL : s->device, .isa = s->isa, .thread_count = (int)s->threads, .spin_us = POOL_SPIN_US};
    struct model_options model = {.dir = s->model, .progress = on_progress, .progress_ctx = e->progress};
    if (!s->model || !*s->model) return error_set(err, ERR_INVALID, "no model was given; use --model FOLDER");
    int rc = device_open(&device, &e->dev, err);
    if (rc) return rc;
    e->stream = stream_new(e->dev);
    rc = bundle_pack(s->model, &e->bundle, err);
    if (!rc) rc = model_open(&e->model, &model, e->dev, e->stream, err);
    if (!rc)
        rc = kv_geometry_of(&e->geometry, &e->model, (enum storage_type)s->kv_type, (uint32_t)s->block_tokens, err);
    return rc;
}

static int take_memory(struct executor *e, const struct worker_settings *s, struct error *err) {
    uint32_t slots = (uint32_t)s->slots, context = e->model.spec.max_context;
    if (s->max_context) context = MIN(context, (uint32_t)s->max_context);
    e->max_step_tokens = (uint32_t)s->max_step_tokens;
    struct memory_plan plan;
    struct memory_request request = {.slot_count = slots,
                                     .max_step_tokens = e->max_step_tokens,
                                     .max_context = context,
                                     .block_count = (uint32_t)s->blocks,
                                     .kv_bytes = s->kv_bytes,
                                     .memory_free = memory_available()};
    int rc = memory_plan_make(&plan, &e->model, &e->geometry, &request, err);
    if (!rc) rc = slots_init(&e->slots, &e->model, &e->geometry, slots, context, plan.block_count, err);
    if (!rc) rc = forward_init(&e->forward, &e->model, &e->slots, e->max_step_tokens, 2 * slots, err);
    for (int i = 0; !rc && i < STEPS_IN_FLIGHT; i++) rc = flight_init(&e->flights[i], e->dev, slots, err);
    if (rc) return rc;
    e->forward.progress = on_layer;
    e->forward.progress_ctx = e->progress;
    mirror_init(&e->mirror, &(struct mirror_limits){.slot_count = slots,
                                                    .max_context = context,
                                                    .max_step_tokens = e->max_step_tokens,
                                                    .vocab = e->model.spec.vocab,
                                                    .block_tokens = e->geometry.block_tokens,
                                                    .block_count = plan.block_count});
    e->runs = mem_calloc(2 * (size_t)slots, sizeof *e->runs);
    e->sample_rows = mem_calloc(slots, sizeof *e->sample_rows);
    e->row_blocks = mem_calloc(slots, sizeof *e->row_blocks);
    log_info("memory: weights %llu MB, KV cache %llu MB (%u blocks of %u tokens, %s), buffers %llu MB, slots %llu MB",
             (unsigned long long)(plan.weight_bytes >> 20), (unsigned long long)(plan.kv_bytes >> 20), plan.block_count,
             e->geometry.block_tokens, storage_name(e->geometry.type),
             (unsigned long long)(plan.activation_bytes >> 20), (unsigned long long)(plan.slot_bytes >> 20));
    return 0;
}

/* Whatever can change a bit of a continuation. */
static struct u128 fingerprint(const struct executor *e, struct u128 revision) {
    char text[256], hex[U128_TEXT_MAX];
    u128_text(revision, hex);
    int n = snprintf(text, sizeof text, "%s|%d|%s|%s|%s|%s|tp1|exact", hex, (int)e->dev->kind, e->dev->isa,
                     KERNEL_BUILD, storage_name(e->model.weights.main_type), storage_name(e->geometry.type));
    return hash128(text, (size_t)n, 0);
}

static void describe(struct executor *e, const struct worker_settings *s) {
    struct u128 ids[2] = {e->model.revision, bundle_hash(buf_bytes(&e->bundle))},
                revision = hash128(ids, sizeof ids, 0);
    worker_public_name(s, e->served_name);
    e->group = (struct wire_kv_group){.kind = WIRE_GROUP_FULL,
                                      .block_tokens = e->geometry.block_tokens,
                                      .block_count = e->slots.kv.block_count,
                                      .block_bytes = e->geometry.block_bytes};
    e->about = (struct wire_hello){.model = bytes_str(e->served_name),
                                   .revision = revision,
                                   .bundle = ids[1],
                                   .bundle_bytes = e->bundle.len,
                                   .fingerprint = fingerprint(e, revision),
                                   .slot_count = e->slots.table.slot_count,
                                   .max_step_tokens = e->max_step_tokens,
                                   .max_context = e->slots.table.max_context,
                                   .logits_width = e->model.spec.vocab,
                                   .steps_in_flight = STEPS_IN_FLIGHT,
                                   .class_sensitive = e->dev->kind != DEVICE_CPU,
                                   .groups = &e->group,
                                   .group_count = 1};
}

int executor_new(struct executor **out, const struct worker_settings *settings, struct worker_progress *progress,
                 struct error *err) {
    struct executor *e = mem_alloc(sizeof *e);
    e->progress = progress;
    buf_init(&e->bundle, 0);
    int rc = open_model(e, settings, err);
    if (!rc) rc = take_memory(e, settings, err);
    if (rc) {
        executor_free(&e);
        return rc;
    }
    describe(e, settings);
    log_info("model '%s' on %s (%s, %u threads)", e->served_name, e->dev->name, e->dev->isa, e->dev->thread_count);
    *out = e;
    return 0;
}

void executor_free(struct executor **out) {
    struct executor *e = *out;
    if (!e) return;
    mirror_release(&e->mirror);
    for (int i = 0; i < STEPS_IN_FLIGHT; i++) flight_release(&e->flights[i]);
    if (e->forward.model) forward_release(&e->forward);
    if (e->slots.dev) slots_release(&e->slots);
    if (e->model.dev) model_close(&e->model);
    stream_free(&e->stream);
    device_close(&e->dev);
    buf_release(&e->bundle);
    void *owned[] = {e->runs, e->sample_rows, e->row_blocks, e};
    for (size_t i = 0; i < ARRAY_LEN(owned); i++) mem_free(owned[i]);
    *out = NULL;
}

void executor_describe(const struct executor *e, struct wire_hello *hello) {
    struct wire_hello about = e->about;
    about.role = hello->role;
    about.instance = hello->instance;
    about.pid = hello->pid;
    about.name = hello->name;
    about.features = hello->features;
    about.version = hello->version;
    about.epoch_number = hello->epoch_number;
    about.epoch_instance = hello->epoch_instance;
    about.replica = hello->replica;
    about.rank = hello->rank;
    about.tp = hello->tp;
    about.stage = hello->stage;
    about.pp = hello->pp;
    about.incarnation = hello->incarnation;
    about.state = hello->state;
    about.held_blocks = hello->held_blocks;
    about.held_hashes = hello->held_hashes;
    *hello = about;
}

struct bytes executor_bundle(const struct executor *e) {
    return buf_bytes(&e->bundle);
}

/* ---- slots on the device ---- */

static void fill_sampling(struct slot_state *s, const struct wire_admit *a) {
    const struct wire_sampling *w = &a->sampling;
    s->seed = w->seed;
    s->temperature = w->temperature;
    s->top_p = w->top_p;
    s->min_p = w->min_p;
    s->top_k = w->top_k;
    s->repetition_penalty = w->repetition_penalty;
    s->presence_penalty = w->presence_penalty;
    s->frequency_penalty = w->frequency_penalty;
    s->logprobs = w->logprobs;
    s->bias_count = (uint32_t)MIN(w->bias_ids.count, (size_t)SLOT_BIAS_MAX);
    s->stop_count = (uint32_t)MIN(a->stop_tokens.count, (size_t)SLOT_STOPS_MAX);
    if (s->stop_count) memcpy(s->stops, a->stop_tokens.items, s->stop_count * sizeof *s->stops);
}

static void admit(struct executor *e, const struct wire_admit *a) {
    struct slot_state state = {
        .token_count = (uint32_t)a->tokens.count,
        .computed_count = a->computed_count,
        .prompt_count = a->prompt_count,
        .max_total = a->max_total,
        .min_total = (uint32_t)MIN((uint64_t)a->prompt_count + a->sampling.min_tokens, (uint64_t)UINT32_MAX),
        .choice = a->choice};
    struct slot_admission admission = {.state = &state,
                                       .tokens = a->tokens.ids,
                                       .blocks = a->block_ids.items,
                                       .block_count = (uint32_t)a->block_ids.count,
                                       .bias_ids = a->sampling.bias_ids.items,
                                       .bias_values = a->sampling.bias_values.items};
    fill_sampling(&state, a);
    slots_admit(&e->slots, e->stream, a->slot, &admission);
}

/* Releases, admissions, block operations, new blocks: the plan's order. The mirror has checked everything. */
static void apply_slots(struct executor *e, const struct wire_plan *p) {
    for (size_t i = 0; i < p->release_slots.count; i++) slots_remove(&e->slots, e->stream, p->release_slots.items[i]);
    for (size_t i = 0; i < p->admit_count; i++) {
        if (e->mirror.slots[p->admits[i].slot].failed)
            slots_remove(&e->slots, e->stream, p->admits[i].slot);
        else
            admit(e, &p->admits[i]);
    }
    if (p->op_kinds.count)
        e->dev->ops->kv_copy(e->stream, &(struct op_kv_copy){.base = e->slots.kv.base,
                                                             .block_stride = e->geometry.block_bytes,
                                                             .sources = p->op_sources.items,
                                                             .targets = p->op_targets.items,
                                                             .count = (uint32_t)p->op_kinds.count});
    for (size_t i = p->new_block_rows.count;
         i-- > 0;) { /* backwards: the mirror's counts are those after all of them */
        uint32_t slot = p->row_slots.items[p->new_block_rows.items[i]];
        uint32_t *left = &e->row_blocks[slot];
        if (*left == 0) *left = e->mirror.slots[slot].block_count;
        *left -= 1;
        if (!e->mirror.slots[slot].failed)
            slots_add_blocks(&e->slots, e->stream, slot, *left, &p->new_block_ids.items[i], 1);
    }
    for (size_t i = 0; i < p->new_block_rows.count; i++)
        e->row_blocks[p->row_slots.items[p->new_block_rows.items[i]]] = 0;
}

/* ---- the batch ---- */

struct batch_build {
    uint32_t runs, output_at, prompt_at, samples;
};

/* Output-class rows lie in front, prompt-class rows behind; a row of the plan may have both, prompt first. */
static void add_row(struct executor *e, struct flight *f, uint32_t i, struct batch_build *b) {
    const struct mirror_row *row = &f->rows[i];
    uint32_t output = row->token_count - row->prompt_rows, last = 0;
    f->sample_of[i] = ROW_NONE;
    if (row->fate != ROW_RUNS) return;
    if (row->prompt_rows) {
        e->runs[b->runs++] =
            (struct step_run){.slot = row->slot, .row_first = b->prompt_at, .token_count = row->prompt_rows};
        b->prompt_at += row->prompt_rows;
        last = b->prompt_at - 1;
    }
    if (output) {
        e->runs[b->runs++] = (struct step_run){.slot = row->slot, .row_first = b->output_at, .token_count = output};
        b->output_at += output;
        last = b->output_at - 1;
    }
    if (!row->samples) return;
    f->sample_of[i] = b->samples;
    e->sample_rows[b->samples++] = last;
}

static void run_batch(struct executor *e, struct flight *f) {
    struct batch_build b = {0};
    for (uint32_t i = 0; i < f->row_count; i++)
        if (f->rows[i].fate == ROW_RUNS) b.prompt_at += f->rows[i].token_count - f->rows[i].prompt_rows;
    uint32_t output_count = b.prompt_at;
    for (uint32_t i = 0; i < f->row_count; i++) add_row(e, f, i, &b);
    if (b.runs == 0) return;
    struct step_input input = {.runs = e->runs,
                               .run_count = b.runs,
                               .row_count = b.prompt_at,
                               .output_count = output_count,
                               .sample_rows = e->sample_rows,
                               .sample_count = b.samples};
    forward_layers(&e->forward, e->stream, &input);
    if (b.samples) forward_sample(&e->forward, e->stream, &f->out, NULL, NULL, 0);
}

static struct flight *flight_at(struct executor *e, uint32_t idx) {
    return &e->flights[(e->flight_first + idx) % STEPS_IN_FLIGHT];
}

int executor_enqueue(struct executor *e, const struct wire_plan *plan, struct error *err) {
    if (e->flight_count == STEPS_IN_FLIGHT)
        return error_set(err, ERR_INVALID, "more plans in flight than were granted");
    if (plan->op_kinds.count > FLIGHT_OPS_MAX || plan->row_slots.count > e->mirror.limits.slot_count)
        return error_set(err, ERR_INVALID, "too many rows or block operations");
    struct flight *f = flight_at(e, e->flight_count);
    int rc = mirror_apply(&e->mirror, plan, f->rows, err);
    if (rc) return rc;
    f->start_us = clock_us();
    f->plan_number = plan->number;
    f->incarnation = plan->incarnation;
    f->row_count = (uint32_t)plan->row_slots.count;
    f->op_count = (uint32_t)plan->op_kinds.count;
    e->flight_count++;
    apply_slots(e, plan);
    run_batch(e, f);
    event_record(f->done, e->stream);
    return 0;
}

int executor_collect(struct executor *e, bool wait, struct wire_step_result *result, struct error *err) {
    if (e->flight_count == 0) return 0;
    struct flight *f = flight_at(e, 0);
    int rc = event_done(f->done);
    if (rc == 0 && !wait) return 0;
    if (rc == 0) rc = event_wait(f->done);
    if (rc < 0) return error_set(err, rc, "the device failed in plan %llu", (unsigned long long)f->plan_number);
    flight_finish(f, &e->mirror, result);
    e->flight_first = (e->flight_first + 1) % STEPS_IN_FLIGHT;
    e->flight_count--;
    return 1;
}

void executor_reset(struct executor *e) {
    for (uint32_t i = 0; i < e->flight_count; i++)
        if (event_wait(flight_at(e, i)->done)) break; /* a failed device shows itself at the next step */
    e->flight_count = 0;
    stream_fill(e->stream, e->slots.table.states, 0, e->slots.table.slot_count * sizeof *e->slots.table.states);
    mirror_reset(&e->mirror);
}

void executor_held(const struct executor *e, struct u32s *blocks, struct u128s *hashes) {
    mirror_held((struct mirror *)&e->mirror, blocks, hashes);
}
