#include "worker/executor.h"

#include "base/clock.h"
#include "worker/flight_ring.h"
#include "worker/load.h"
#include "worker/plan_apply.h"

struct executor {
    struct loaded loaded;
    struct mirror mirror;
    struct plan_apply apply;
    struct flight_ring ring;
    struct grammar_store *grammars; /* NULL: this rank samples nothing */
    struct constraints constraints;
    struct pooling_state pooling;
    struct grammar_entry **entries; /* [slots]: of a plan's admissions */
    uint32_t *added_at;             /* [blocks]: of mirror_apply */
    struct comm_record record;      /* tokens being received */
    int64_t collected_us;           /* when the last step ended */
};

/* ---- constraints: only the rank that samples has them ---- */

static int open_grammars(struct executor *e, struct error *err) {
    struct loaded *l = &e->loaded;
    uint32_t slots = l->slots.table.slot_count, vocab = l->model.spec.vocab;
    int rc = 0;
    if (ranks_answer(&l->ranks))
        rc =
            grammar_store_new(&e->grammars, buf_bytes(&l->bundle), vocab, GRAMMAR_STORE_BYTES, err);
    constraints_init(&e->constraints, e->grammars, slots, vocab);
    for (uint32_t i = 0; i < e->ring.size && e->grammars && !rc; i++)
        rc = flight_add_masks(&e->ring.flights[i], slots, e->constraints.word_count, err);
    return rc;
}

/* Only the rank that answers needs the states. */
static int open_pooling(struct executor *e, struct error *err) {
    const struct loaded *l = &e->loaded;
    const struct wire_vectors *v = &l->vectors;
    uint32_t slots = l->slots.table.slot_count;
    /* with LAST or CLS a state a sequence, else one a position */
    bool few = v->pooling == WIRE_POOLING_LAST || v->pooling == WIRE_POOLING_CLS;
    uint32_t states = few ? MIN(slots, l->max_step_tokens) : l->max_step_tokens;
    int rc = 0;
    if (!v->pooling || !ranks_answer(&l->ranks))
        return 0;
    pooling_init(&e->pooling, v->pooling, l->model.spec.hidden, slots, loaded_head(l));
    for (uint32_t i = 0; i < e->ring.size && !rc; i++)
        rc = flight_add_vectors(&e->ring.flights[i], slots, states, &e->pooling, err);
    return rc;
}

static void take_tokens(struct executor *e, struct flight *f) {
    if (!f->taken && e->grammars)
        constraints_take(&e->constraints, f);
    f->taken = true;
}

static int await_flight(struct executor *e, const struct flight *f, struct error *err);

/* A step that fails leaves its sequences where they were; whoever collects it hears of it. */
static void take_earlier(void *ctx, const struct flight *f) {
    struct executor *e = ctx;
    struct flight *earlier;
    struct error err;
    while ((earlier = flight_ring_untaken(&e->ring)) && earlier != f &&
           !await_flight(e, earlier, &err))
        take_tokens(e, earlier);
}

/* The grammars of a plan's admissions. ERR_INVALID: one is not here, as the scheduler has not heard
 * yet; nothing is taken. */
static int take_grammars(struct executor *e, const struct wire_plan *plan, struct error *err) {
    for (size_t i = 0; i < plan->admit_count; i++) {
        struct u128 hash = plan->admits[i].grammar;
        bool wanted = e->grammars && !u128_is_zero(hash);
        e->entries[i] = wanted ? grammar_store_take(e->grammars, hash) : NULL;
        if (!wanted || e->entries[i])
            continue;
        while (i-- > 0)
            if (e->entries[i])
                grammar_store_give(e->grammars, e->entries[i]);
        return error_set(err, ERR_INVALID, "an admission with a grammar that is not here");
    }
    return 0;
}

static void give_grammars(struct executor *e, const struct wire_plan *plan) {
    for (size_t i = 0; i < plan->admit_count; i++)
        if (e->entries[i])
            grammar_store_give(e->grammars, e->entries[i]);
}

int executor_new(struct executor **out, const struct worker_settings *settings,
                 struct worker_progress *progress, struct error *err) {
    struct executor *e = mem_alloc(sizeof *e);
    struct loaded *l = &e->loaded;
    int rc = worker_load(l, settings, progress, err);
    uint32_t slots = l->slots.table.slot_count;
    if (!rc)
        rc = flight_ring_init(&e->ring, l->dev, l->steps_in_flight, slots, err);
    if (!rc)
        rc = open_grammars(e, err);
    if (!rc)
        rc = open_pooling(e, err);
    if (rc) {
        executor_free(&e);
        return rc;
    }
    mirror_init(&e->mirror, &(struct mirror_limits){.slot_count = slots,
                                                    .max_context = l->slots.table.max_context,
                                                    .max_step_tokens = l->max_step_tokens,
                                                    .vocab = l->model.spec.vocab,
                                                    .block_tokens = l->geometry.block_tokens,
                                                    .block_count = l->slots.kv.block_count,
                                                    .snapshot_count = l->geometry.snapshot_count,
                                                    .draft_max = l->about.drafts,
                                                    .vectors = l->vectors});
    plan_apply_init(&e->apply, l, &e->mirror, &e->constraints);
    e->apply.take_earlier = take_earlier;
    e->apply.take_ctx = e;
    e->entries = mem_calloc(slots, sizeof(struct grammar_entry *));
    e->added_at = mem_calloc(l->slots.kv.block_count, sizeof *e->added_at);
    e->record.tokens = mem_calloc(slots, sizeof(uint32_t));
    e->record.status = mem_calloc(slots, sizeof(uint32_t));
    *out = e;
    return 0;
}

void executor_free(struct executor **out) {
    struct executor *e = *out;
    if (!e)
        return;
    mirror_release(&e->mirror);
    plan_apply_release(&e->apply);
    flight_ring_release(&e->ring);
    pooling_release(&e->pooling);
    constraints_release(&e->constraints);
    grammar_store_free(&e->grammars);
    loaded_release(&e->loaded);
    mem_free(e->entries);
    mem_free(e->added_at);
    mem_free(e->record.tokens);
    mem_free(e->record.status);
    mem_free(e);
    *out = NULL;
}

void executor_describe(const struct executor *e, struct wire_hello *hello) {
    struct wire_hello about = e->loaded.about;
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
    return buf_bytes(&e->loaded.bundle);
}

/* ---- several ranks: the tokens of a step are known to all of them ---- */

/* Waits until a step is done here. Negative: the ranks have lost each other, or the device failed
 * (ERR_IO). */
static int await_flight(struct executor *e, const struct flight *f, struct error *err) {
    struct ranks *ranks = &e->loaded.ranks;
    int rc = ranks_wait(ranks, f->done);
    if (rc < 0 && !ranks_are_alone(ranks) && ranks_failed(ranks, err))
        return err->code;
    return rc < 0 ? error_set(err, ERR_IO, "the device failed in plan %llu",
                              (unsigned long long)f->plan_number)
                  : 0;
}

/* The tokens of a step, received from the rank that sampled them: into the slots, as the sampler
 * would have. */
static int accept_tokens(struct executor *e, struct flight *f, struct error *err) {
    const struct comm_record *r = &e->record;
    struct loaded *l = &e->loaded;
    if (r->plan_number != f->plan_number || r->count != f->sample_count)
        return error_set(
            err, ERR_INVALID,
            "the ranks do not compute the same: plan %llu with %u tokens, not %llu with %u",
            (unsigned long long)r->plan_number, r->count, (unsigned long long)f->plan_number,
            f->sample_count);
    for (uint32_t i = 0; i < f->row_count; i++) {
        const struct mirror_row *row = &f->rows[i];
        uint32_t s = f->sample_of[i];
        if (s == ROW_NONE)
            continue;
        uint32_t status = f->out.status[s] = r->status[s];
        if (r->tokens[s] >= e->mirror.limits.vocab && status != SAMPLE_NONFINITE &&
            status != SAMPLE_WASTED)
            return error_set(err, ERR_INVALID, "the rank that samples told token %u", r->tokens[s]);
        /* A slot that was given to another sequence since is not touched. */
        if (status == SAMPLE_WASTED || e->mirror.slots[row->slot].admission != row->admission)
            continue;
        if (status == SAMPLE_NONFINITE)
            slots_end(&l->slots, l->stream, row->slot);
        else
            slots_accept(&l->slots, l->stream, row->slot, row->position + row->token_count,
                         r->tokens[s], status != SAMPLE_TOKEN);
    }
    return 0;
}

/* Receives the tokens of all steps up to this plan, waiting for them, and of later ones that are
 * there already. */
static int receive_tokens(struct executor *e, uint64_t last_plan, struct error *err) {
    struct ranks *ranks = &e->loaded.ranks;
    struct flight *f;
    while ((f = flight_ring_unshared(&e->ring))) {
        bool due = f->plan_number <= last_plan;
        /* its tokens come no sooner */
        int rc = due ? await_flight(e, f, err) : 0;
        if (rc)
            return rc;
        rc = comm_read(ranks->comm, due, &e->record);
        if (rc < 0)
            return ranks_failed(ranks, err);
        if (rc == 0)
            return 0;
        rc = accept_tokens(e, f, err);
        if (rc)
            return rc;
        flight_ring_share(&e->ring, f);
    }
    return 0;
}

/* The rank that samples sends the tokens of all steps up to this plan, as soon as it knows them:
 * the others may need them for the next plan, and it them. */
static int send_tokens(struct executor *e, uint64_t last_plan, struct error *err) {
    struct ranks *ranks = &e->loaded.ranks;
    int rc = ranks_failed(ranks, err);
    struct flight *f;
    while (!rc && (f = flight_ring_unshared(&e->ring)) && f->plan_number <= last_plan) {
        struct comm_record record = {.plan_number = f->plan_number,
                                     .count = f->sample_count,
                                     .tokens = f->out.tokens,
                                     .status = f->out.status};
        rc = await_flight(e, f, err);
        if (!rc && comm_post(ranks->comm, &record))
            rc = ranks_failed(ranks, err);
        if (!rc)
            flight_ring_share(&e->ring, f);
    }
    return rc;
}

/* The oldest step makes room; the ends that its result showed count from here on. */
static void retire_oldest(struct executor *e) {
    struct flight *f = flight_ring_oldest(&e->ring);
    for (uint32_t i = 0; i < f->row_count; i++) {
        uint32_t s = f->sample_of[i];
        if (s != ROW_NONE && f->out.status[s] != SAMPLE_TOKEN)
            mirror_ended(&e->mirror, f->rows[i].slot, f->rows[i].admission);
    }
    flight_ring_retire(&e->ring);
}

/* The newest plan whose tokens have to be here before this one can be computed: its rows follow
 * them, or the step of that plan makes room. */
static uint64_t plan_awaited(struct executor *e, const struct wire_plan *plan) {
    bool full = !flight_ring_free(&e->ring);
    uint64_t awaited = full ? flight_ring_oldest(&e->ring)->plan_number : 0;
    for (size_t i = 0; i < plan->row_slots.count; i++)
        awaited = MAX(awaited, flight_ring_awaited(&e->ring, plan->row_slots.items[i]));
    return awaited;
}

/* Before a plan is applied: the ranks have met, there is room in the ring, and the tokens are known
 * that its rows follow. */
static int prepare_ranks(struct executor *e, const struct wire_plan *plan, struct error *err) {
    struct ranks *ranks = &e->loaded.ranks;
    int rc = plan->number == 1 ? ranks_form(ranks, plan->comm_id, err) : ranks_failed(ranks, err);
    if (!rc)
        rc = ranks_answer(ranks) ? send_tokens(e, plan->number, err)
                                 : receive_tokens(e, plan_awaited(e, plan), err);
    if (rc)
        return rc;
    if (!flight_ring_free(&e->ring) && flight_ring_oldest(&e->ring)->state == FLIGHT_OVER)
        retire_oldest(e);
    return 0;
}

/* ---- plans ---- */

int executor_enqueue(struct executor *e, const struct wire_plan *plan, struct error *err) {
    bool alone = ranks_are_alone(&e->loaded.ranks);
    if (plan->op_kinds.count > FLIGHT_OPS_MAX ||
        plan->row_slots.count > e->mirror.limits.slot_count ||
        plan->admit_count > e->mirror.limits.slot_count)
        return error_set(err, ERR_INVALID, "too many rows or block operations");
    if (plan->number != e->mirror.last_plan + 1)
        return error_set(err, ERR_INVALID, "plan %llu after plan %llu",
                         (unsigned long long)plan->number, (unsigned long long)e->mirror.last_plan);
    int rc = alone ? 0 : prepare_ranks(e, plan, err);
    if (rc)
        return rc;
    struct flight *f = flight_ring_free(&e->ring);
    if (!f)
        return error_set(err, ERR_INVALID, "more plans in flight than were granted");
    rc = take_grammars(e, plan, err);
    if (rc)
        return rc;
    rc = mirror_apply(&e->mirror, plan, f->rows, e->added_at, err);
    if (rc) {
        give_grammars(e, plan);
        return rc;
    }
    f->taken = false;
    f->start_us = clock_us();
    f->plan_number = plan->number;
    f->incarnation = plan->incarnation;
    f->row_count = (uint32_t)plan->row_slots.count;
    f->op_count = (uint32_t)plan->op_kinds.count;
    f->sample_count = 0;
    flight_ring_start(&e->ring, f);
    plan_apply(&e->apply, plan, e->added_at, e->entries, f);
    return alone ? 0 : ranks_failed(&e->loaded.ranks, err);
}

int executor_collect(struct executor *e, bool wait, struct wire_step_result *result,
                     struct error *err) {
    bool alone = ranks_are_alone(&e->loaded.ranks);
    struct flight *f = flight_ring_uncollected(&e->ring);
    if (!f)
        return 0;
    int rc = ranks_done(&e->loaded.ranks, f->done, f->start_us / 1000);
    if (rc == 0 && !wait)
        return 0;
    rc = await_flight(e, f, err);
    if (rc < 0)
        return rc;
    take_tokens(e, f);
    /* it waited on the device for the one before it; stages work on several at a time */
    if (e->loaded.ranks.place.pp == 1)
        f->start_us = MAX(f->start_us, e->collected_us);
    e->collected_us = clock_us();
    if (!ranks_answer(&e->loaded.ranks)) {
        *result = (struct wire_step_result){.plan_number = f->plan_number};
    } else {
        flight_finish(f, alone ? &e->mirror : NULL, result);
        for (uint32_t i = 0; i < f->row_count && e->grammars; i++)
            if (f->finishes[i] == WIRE_FINISH_ERROR && constraints_are_stuck(&e->constraints, f, i))
                f->finishes[i] = WIRE_FINISH_CONSTRAINT;
        rc = alone ? 0 : send_tokens(e, f->plan_number, err);
        if (rc < 0)
            return rc;
    }
    flight_ring_collect(&e->ring, f);
    if (!alone)
        return 1; /* retired when the plan steps_in_flight later comes */
    flight_ring_share(&e->ring, f);
    flight_ring_retire(&e->ring);
    return 1;
}

void executor_watch(struct executor *e, bool (*stopped)(void *ctx), void *ctx) {
    e->loaded.ranks.stopped = stopped;
    e->loaded.ranks.stopped_ctx = ctx;
}

struct grammar_store *executor_grammars(const struct executor *e) {
    return e->grammars;
}

bool executor_answers(const struct executor *e) {
    return ranks_answer(&e->loaded.ranks);
}

bool executor_fetch(struct executor *e) {
    return model_fetch_next(&e->loaded.model);
}

bool executor_pack(struct executor *e) {
    return model_pack_next(&e->loaded.model, e->loaded.stream);
}

void executor_reset(struct executor *e) {
    struct loaded *l = &e->loaded;
    ranks_leave(&l->ranks);
    if (!ranks_are_alone(&l->ranks)) /* a graph of a step in which ranks were lost lacks its sums */
        stepper_forget(&l->stepper);
    flight_ring_reset(&e->ring);
    constraints_reset(&e->constraints);
    stream_fill(l->stream, l->slots.table.states, 0,
                l->slots.table.slot_count * sizeof *l->slots.table.states);
    mirror_reset(&e->mirror);
}

void executor_held(const struct executor *e, struct u32s *blocks, struct u128s *hashes) {
    mirror_held((struct mirror *)&e->mirror, blocks, hashes);
}
