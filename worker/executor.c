#include "worker/executor.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "model/rope.h"
#include "model/step.h"
#include "text/bundle.h"
#include "worker/flight.h"
#include "worker/ranks.h"

/* Bumped whenever a change to the kernels changes bits: part of the fingerprint. */
#define KERNEL_BUILD "3"

/* A pipeline has a plan in each stage, and one more so that none of them waits for the scheduler. */
enum { STEPS_IN_FLIGHT = 2, STEPS_MAX = 8, POOL_SPIN_US = 60 };

struct executor {
    struct worker_progress *progress; /* borrowed */
    struct device *dev;
    struct stream *stream;
    struct model model;
    struct kv_geometry geometry;
    struct slots slots;
    struct forward forward;
    struct stepper stepper;
    struct mirror mirror;
    struct ranks ranks;
    struct comm_record record;        /* being sent or taken */
    struct flight flights[STEPS_MAX]; /* a ring of step_count */
    uint32_t step_count, flight_first, flight_count;
    uint32_t collected,
        accepted; /* so many of the oldest are done here; have their tokens from the rank that samples */
    uint32_t max_step_tokens;
    struct step_run *runs; /* [2 * slots] */
    uint32_t *sample_rows; /* [slots] */
    uint32_t *row_blocks;  /* [slots]: blocks of the slot as new ones are added */
    uint32_t *op_numbers;  /* [4 * FLIGHT_OPS_MAX] */
    struct buf bundle;
    char served_name[WORKER_NAME_MAX];
    struct wire_kv_group group;
    struct wire_hello about;
};

/* ---- loading ---- */

static void on_progress(void *ctx, uint64_t done, uint64_t total) { progress_tick(ctx); }
static void on_layer(void *ctx) { progress_tick(ctx); }

static int open_device(struct executor *e, const struct worker_settings *s, struct error *err) {
    struct comm_place place = e->ranks.place;
    bool chosen = s->gpu >= 0 && s->device && *s->device;  /* settings made by hand leave it zero */
    static const char *const GEMM[] = {"own", "cublaslt"}; /* by the numbers of --gemm */
    struct device_options options = {.kind = s->device ? s->device : "auto",
                                     .isa = s->isa,
                                     .thread_count = (int)s->threads,
                                     .spin_us = POOL_SPIN_US,
                                     .ordinal = chosen ? (int)s->gpu : (int)(place.stage * place.tp + place.rank),
                                     .gemm = GEMM[s->gemm]};
    return device_open(&options, &e->dev, err);
}

/* By the numbers of --quantize. */
static const enum storage_type QUANTISE[] = {STORAGE_NONE, STORAGE_F8_E4M3, STORAGE_I8, STORAGE_U4};

static int open_model(struct executor *e, const struct worker_settings *s, struct error *err) {
    struct model_options model = {
        .dir = s->model, .quantise = QUANTISE[s->quantize], .progress = on_progress, .progress_ctx = e->progress};
    if (!ranks_are_alone(&e->ranks)) model.shard = &e->ranks.shard;
    if (!s->model || !*s->model) return error_set(err, ERR_INVALID, "no model was given; use --model FOLDER");
    int rc = open_device(e, s, err);
    if (rc) return rc;
    e->stream = stream_new(e->dev);
    rc = bundle_pack(s->model, &e->bundle, err);
    if (!rc) rc = model_open(&e->model, &model, e->dev, e->stream, err);
    if (!rc) rc = kv_geometry_of(&e->geometry, &e->model, KV_TYPES[s->kv_type], (uint32_t)s->block_tokens, err);
    return rc;
}

/* Layers' states are as large as the model makes them: no more slots than a quarter of the free memory holds. */
static uint32_t slots_that_fit(const struct executor *e, uint32_t wanted, uint64_t memory_free) {
    uint64_t state_bytes = e->geometry.state_bytes;
    if (!state_bytes || !memory_free) return wanted;
    uint32_t most = (uint32_t)MIN((uint64_t)wanted, MAX(memory_free / 4 / state_bytes, (uint64_t)1));
    if (most < wanted)
        log_info("%u slots instead of %u: each keeps %llu MB of state", most, wanted,
                 (unsigned long long)(state_bytes >> 20));
    return most;
}

/* Copies of states at the ends of prompts: at most an eighth of the free memory, and two a slot, whatever was asked
 * for. A model whose keys depend on a prompt's length shares nothing, whatever its states. */
static uint32_t snapshots_that_fit(const struct executor *e, uint64_t bytes, uint32_t slots, uint64_t memory_free) {
    uint64_t state_bytes = e->geometry.state_bytes;
    if (!state_bytes || spec_depends_on_length(&e->model.spec)) return 0;
    if (memory_free) bytes = MIN(bytes, memory_free / 8);
    return (uint32_t)MIN(bytes / state_bytes, 2 * (uint64_t)slots);
}

static int take_memory(struct executor *e, const struct worker_settings *s, struct error *err) {
    uint64_t memory_free = device_memory_available(e->dev);
    if (!device_memory_free(e->dev)) memory_free /= e->ranks.place.tp * e->ranks.place.pp; /* all of them here */
    uint32_t slots = slots_that_fit(e, (uint32_t)s->slots, memory_free), context = e->model.spec.max_context;
    if (s->max_context) context = MIN(context, (uint32_t)s->max_context);
    e->max_step_tokens = (uint32_t)s->max_step_tokens;
    e->geometry.snapshot_count = snapshots_that_fit(e, s->snapshot_bytes, slots, memory_free);
    struct memory_plan plan;
    struct memory_request request = {.slot_count = slots,
                                     .max_step_tokens = e->max_step_tokens,
                                     .max_context = context,
                                     .block_count = (uint32_t)s->blocks,
                                     .kv_bytes = s->kv_bytes,
                                     .memory_free = memory_free};
    int rc = memory_plan_make(&plan, &e->model, &e->geometry, &request, err);
    if (!rc) rc = slots_init(&e->slots, &e->model, &e->geometry, slots, context, plan.block_count, err);
    if (!rc) rc = forward_init(&e->forward, &e->model, &e->slots, e->max_step_tokens, 2 * slots, err);
    if (!rc) rc = ranks_init(&e->ranks, &e->model, e->max_step_tokens, slots, e->progress, err);
    for (uint32_t i = 0; !rc && i < e->step_count; i++) rc = flight_init(&e->flights[i], e->dev, slots, err);
    if (rc) return rc;
    e->forward.ranks = &ranks_calls;
    e->forward.ranks_ctx = &e->ranks;
    stepper_init(&e->stepper, &e->forward, slots, s->graphs && ranks_are_alone(&e->ranks));
    e->record.tokens = mem_calloc(slots, sizeof(uint32_t));
    e->record.status = mem_calloc(slots, sizeof(uint32_t));
    e->forward.progress = on_layer;
    e->forward.progress_ctx = e->progress;
    mirror_init(&e->mirror, &(struct mirror_limits){.slot_count = slots,
                                                    .max_context = context,
                                                    .max_step_tokens = e->max_step_tokens,
                                                    .vocab = e->model.spec.vocab,
                                                    .block_tokens = e->geometry.block_tokens,
                                                    .block_count = plan.block_count,
                                                    .snapshot_count = e->geometry.snapshot_count});
    e->runs = mem_calloc(2 * (size_t)slots, sizeof *e->runs);
    e->sample_rows = mem_calloc(slots, sizeof *e->sample_rows);
    e->op_numbers = mem_calloc(4 * (size_t)FLIGHT_OPS_MAX, sizeof *e->op_numbers);
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
    int n = snprintf(text, sizeof text, "%s|%d|%s|%s|%s|%s|tp%u|pp%u|%s|exact", hex, (int)e->dev->kind, e->dev->isa,
                     KERNEL_BUILD, storage_name(e->model.weights.main_type), storage_name(e->geometry.type),
                     e->ranks.place.tp, e->ranks.place.pp, e->ranks.nccl_calls ? "nccl" : "shm");
    return hash128(text, (size_t)n, 0);
}

static void describe(struct executor *e, const struct worker_settings *s) {
    struct u128 ids[2] = {e->model.revision, bundle_hash(buf_bytes(&e->bundle))},
                revision = hash128(ids, sizeof ids, 0);
    worker_public_name(s, e->served_name);
    /* Keys rotated by the length of their own prompt are no other prompt's. */
    bool own = e->geometry.state_bytes || spec_depends_on_length(&e->model.spec);
    e->group = (struct wire_kv_group){.kind = own ? WIRE_GROUP_RECURRENT : WIRE_GROUP_FULL,
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
                                   .steps_in_flight = e->step_count,
                                   .class_sensitive = e->dev->kind != DEVICE_CPU,
                                   .snapshot_count = e->geometry.snapshot_count,
                                   .groups = &e->group,
                                   .group_count = 1};
}

int executor_new(struct executor **out, const struct worker_settings *settings, struct worker_progress *progress,
                 struct error *err) {
    struct executor *e = mem_alloc(sizeof *e);
    e->progress = progress;
    buf_init(&e->bundle, 0);
    int rc = ranks_place(&e->ranks, settings, err);
    uint32_t stages = e->ranks.place.pp;
    e->step_count = stages > 1 ? MIN(stages + 1, (uint32_t)STEPS_MAX) : STEPS_IN_FLIGHT;
    if (!rc) rc = open_model(e, settings, err);
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
    ranks_release(&e->ranks);
    for (uint32_t i = 0; i < e->step_count; i++) flight_release(&e->flights[i]);
    stepper_release(&e->stepper);
    if (e->forward.model) forward_release(&e->forward);
    if (e->slots.dev) slots_release(&e->slots);
    if (e->model.dev) model_close(&e->model);
    stream_free(&e->stream);
    device_close(&e->dev);
    buf_release(&e->bundle);
    void *owned[] = {e->op_numbers, e->runs, e->sample_rows, e->row_blocks, e->record.tokens, e->record.status, e};
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

/* Blocks are copied in the cache, states among slots and the snapshots behind them. */
static void apply_ops(struct executor *e, const struct wire_plan *p) {
    uint32_t slots = e->slots.table.slot_count, states = 0, blocks = 0, *s = e->op_numbers, *b = s + FLIGHT_OPS_MAX;
    uint32_t *s_targets = b + FLIGHT_OPS_MAX, *b_targets = s_targets + FLIGHT_OPS_MAX;
    for (size_t i = 0; i < p->op_kinds.count; i++) {
        uint32_t kind = p->op_kinds.items[i], source = p->op_sources.items[i], target = p->op_targets.items[i];
        if (kind == WIRE_OP_COPY) {
            b[blocks] = source;
            b_targets[blocks++] = target;
        } else {
            s[states] = source + (kind == WIRE_OP_RESTORE ? slots : 0);
            s_targets[states++] = target + (kind == WIRE_OP_SNAPSHOT ? slots : 0);
        }
    }
    if (states) slots_copy_states(&e->slots, e->stream, s, s_targets, states);
    if (!blocks) return;
    e->dev->ops->kv_copy(e->stream, &(struct op_kv_copy){.base = e->slots.kv.base,
                                                         .block_stride = e->geometry.block_bytes,
                                                         .sources = b,
                                                         .targets = b_targets,
                                                         .count = blocks});
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
    apply_ops(e, p);
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
    f->sample_count = b.samples;
    if (b.runs == 0) return;
    struct step_input input = {.runs = e->runs,
                               .run_count = b.runs,
                               .row_count = b.prompt_at,
                               .output_count = output_count,
                               .sample_rows = e->sample_rows,
                               .sample_count = b.samples};
    if (ranks_are_alone(&e->ranks)) {
        stepper_put(&e->stepper, e->stream, &input, &f->out, NULL);
        return;
    }
    forward_layers(&e->forward, e->stream, &input);
    if (b.samples && shard_is_last(&e->ranks.shard)) forward_sample(&e->forward, e->stream, &f->out, NULL);
}

static struct flight *flight_at(struct executor *e, uint32_t idx) {
    return &e->flights[(e->flight_first + idx) % e->step_count];
}

/* ---- several ranks ---- */

/* The oldest flight makes room; the ends its result showed count from here on. */
static void retire(struct executor *e) {
    struct flight *f = flight_at(e, 0);
    for (uint32_t i = 0; i < f->row_count; i++) {
        uint32_t s = f->sample_of[i];
        if (s != ROW_NONE && f->out.status[s] != SAMPLE_TOKEN)
            mirror_ended(&e->mirror, f->rows[i].slot, f->rows[i].admission);
    }
    e->flight_first = (e->flight_first + 1) % e->step_count;
    e->flight_count--;
    e->collected--;
    e->accepted -= e->accepted > 0;
}

/* Waits until a plan is done here. Negative: the ranks have lost each other, or the device failed (ERR_IO). */
static int await_flight(struct executor *e, const struct flight *f, struct error *err) {
    int rc = ranks_wait(&e->ranks, f->done);
    if (rc < 0 && !ranks_are_alone(&e->ranks) && ranks_failed(&e->ranks, err)) return err->code;
    return rc < 0 ? error_set(err, ERR_IO, "the device failed in plan %llu", (unsigned long long)f->plan_number) : 0;
}

/* The tokens of a step, told by the rank that sampled them: into the slots, as the sampler would have. */
static int accept(struct executor *e, struct flight *f, struct error *err) {
    const struct comm_record *r = &e->record;
    if (r->plan_number != f->plan_number || r->count != f->sample_count)
        return error_set(
            err, ERR_INVALID, "the ranks do not compute the same: plan %llu with %u tokens, not %llu with %u",
            (unsigned long long)r->plan_number, r->count, (unsigned long long)f->plan_number, f->sample_count);
    for (uint32_t i = 0; i < f->row_count; i++) {
        const struct mirror_row *row = &f->rows[i];
        uint32_t s = f->sample_of[i];
        if (s == ROW_NONE) continue;
        uint32_t status = f->out.status[s] = r->status[s];
        if (r->tokens[s] >= e->mirror.limits.vocab && status != SAMPLE_NONFINITE && status != SAMPLE_WASTED)
            return error_set(err, ERR_INVALID, "the rank that samples told token %u", r->tokens[s]);
        /* A slot that was given to another sequence since is not touched. */
        if (status == SAMPLE_WASTED || e->mirror.slots[row->slot].admission != row->admission) continue;
        if (status == SAMPLE_NONFINITE)
            slots_end(&e->slots, e->stream, row->slot);
        else
            slots_accept(&e->slots, e->stream, row->slot, row->position + row->token_count, r->tokens[s],
                         status != SAMPLE_TOKEN);
    }
    return 0;
}

/* Takes the tokens of the oldest `count` flights that have none yet, and of more when they are there. */
static int accept_first(struct executor *e, uint32_t count, struct error *err) {
    while (e->accepted < e->flight_count) {
        bool due = e->accepted < count;
        int rc = due ? await_flight(e, flight_at(e, e->accepted), err) : 0; /* its tokens come no sooner */
        if (rc) return rc;
        rc = comm_take(e->ranks.comm, due, &e->record);
        if (rc < 0) return ranks_failed(&e->ranks, err);
        if (rc == 0) return 0;
        rc = accept(e, flight_at(e, e->accepted), err);
        if (rc) return rc;
        e->accepted++;
    }
    return 0;
}

static bool samples_for(const struct flight *f, uint32_t slot) {
    for (uint32_t i = 0; i < f->row_count; i++)
        if (f->rows[i].slot == slot && f->sample_of[i] != ROW_NONE) return true;
    return false;
}

/* How many of the oldest flights have to have their tokens before this plan can be computed. */
static uint32_t flights_needed(struct executor *e, const struct wire_plan *plan) {
    for (uint32_t n = e->flight_count; n > e->accepted; n--)
        for (size_t i = 0; i < plan->row_slots.count; i++)
            if (samples_for(flight_at(e, n - 1), plan->row_slots.items[i])) return n;
    return 0;
}

/* The rank that samples tells the others, as soon as it knows: they may need the tokens for the next plan, and it them.
 */
static int tell_first(struct executor *e, uint32_t count, struct error *err) {
    int rc = ranks_failed(&e->ranks, err);
    for (; !rc && e->accepted < count; e->accepted++) {
        const struct flight *f = flight_at(e, e->accepted);
        struct comm_record record = {
            .plan_number = f->plan_number, .count = f->sample_count, .tokens = f->out.tokens, .status = f->out.status};
        rc = await_flight(e, f, err);
        if (!rc && comm_post(e->ranks.comm, &record)) rc = ranks_failed(&e->ranks, err);
    }
    return rc;
}

/* Before a plan is applied: the ranks have met, room in the ring, the tokens its rows follow. */
static int prepare_ranks(struct executor *e, const struct wire_plan *plan, struct error *err) {
    int rc = plan->number == 1 ? ranks_form(&e->ranks, plan->comm_id, err) : ranks_failed(&e->ranks, err);
    uint32_t due = e->flight_count == e->step_count; /* the one to be retired */
    if (rc) return rc;
    rc = ranks_answer(&e->ranks) ? tell_first(e, e->flight_count, err)
                                 : accept_first(e, MAX(flights_needed(e, plan), due), err);
    if (rc) return rc;
    if (e->flight_count == e->step_count && e->collected) retire(e);
    return 0;
}

/* ---- plans ---- */

int executor_enqueue(struct executor *e, const struct wire_plan *plan, struct error *err) {
    bool alone = ranks_are_alone(&e->ranks);
    if (plan->op_kinds.count > FLIGHT_OPS_MAX || plan->row_slots.count > e->mirror.limits.slot_count)
        return error_set(err, ERR_INVALID, "too many rows or block operations");
    if (plan->number != e->mirror.last_plan + 1)
        return error_set(err, ERR_INVALID, "plan %llu after plan %llu", (unsigned long long)plan->number,
                         (unsigned long long)e->mirror.last_plan);
    int rc = alone ? 0 : prepare_ranks(e, plan, err);
    if (rc) return rc;
    if (e->flight_count == e->step_count) return error_set(err, ERR_INVALID, "more plans in flight than were granted");
    struct flight *f = flight_at(e, e->flight_count);
    rc = mirror_apply(&e->mirror, plan, f->rows, err);
    if (rc) return rc;
    f->start_us = clock_us();
    f->plan_number = plan->number;
    f->incarnation = plan->incarnation;
    f->row_count = (uint32_t)plan->row_slots.count;
    f->op_count = (uint32_t)plan->op_kinds.count;
    f->sample_count = 0;
    e->flight_count++;
    apply_slots(e, plan);
    run_batch(e, f);
    event_record(f->done, e->stream);
    return alone ? 0 : ranks_failed(&e->ranks, err);
}

int executor_collect(struct executor *e, bool wait, struct wire_step_result *result, struct error *err) {
    bool alone = ranks_are_alone(&e->ranks);
    if (e->collected == e->flight_count) return 0;
    struct flight *f = flight_at(e, e->collected);
    int rc = event_done(f->done);
    if (rc == 0 && !wait) return 0;
    rc = await_flight(e, f, err);
    if (rc < 0) return rc;
    if (!ranks_answer(&e->ranks)) {
        *result = (struct wire_step_result){.plan_number = f->plan_number};
    } else {
        flight_finish(f, alone ? &e->mirror : NULL, result);
        rc = alone ? 0 : tell_first(e, e->collected + 1, err);
        if (rc < 0) return rc;
    }
    e->collected++;
    if (!alone) return 1; /* retired when the plan step_count later comes */
    e->flight_first = (e->flight_first + 1) % e->step_count;
    e->flight_count--;
    e->collected--;
    return 1;
}

void executor_watch(struct executor *e, bool (*stopped)(void *ctx), void *ctx) {
    e->ranks.stopped = stopped;
    e->ranks.stopped_ctx = ctx;
}

bool executor_answers(const struct executor *e) { return ranks_answer(&e->ranks); }

void executor_reset(struct executor *e) {
    ranks_leave(&e->ranks);
    for (uint32_t i = e->collected; i < e->flight_count; i++)
        if (event_wait(flight_at(e, i)->done)) break; /* a failed device shows itself at the next step */
    e->flight_count = e->collected = e->accepted = 0;
    stream_fill(e->stream, e->slots.table.states, 0, e->slots.table.slot_count * sizeof *e->slots.table.states);
    mirror_reset(&e->mirror);
}

void executor_held(const struct executor *e, struct u32s *blocks, struct u128s *hashes) {
    mirror_held((struct mirror *)&e->mirror, blocks, hashes);
}
