/*
 * A fake worker. It takes plans as they come and computes them one after another; the blocks that a
 * plan hands out are overwritten when the plan arrives, for a real pipeline's first stage may
 * already write while the last one still reads for the step before. Every step checks that every
 * position it reads holds what this sequence's tokens would have put there.
 */
#include "sim.h"

static struct fake_worker *worker_of(struct world *w, uint32_t idx) {
    return &w->workers[idx];
}

static void send_up(struct world *w, uint32_t idx, struct message *m) {
    m->epoch = w->workers[idx].epoch;
    m->from = w->workers[idx].instance;
    send_message(w, m, GATEWAYS + idx, true);
}

static void drop_plans(struct world *w, struct fake_worker *worker) {
    while (worker->plans) {
        struct message *m = worker->plans;
        worker->plans = m->next;
        message_free(w, m);
    }
    worker->last_plan = NULL;
    worker->plan_count = 0;
}

/* A new registration: slots and plans are void, sealed blocks stay. */
static uint32_t plan_tokens(const struct wire_plan *plan) {
    uint32_t tokens = (uint32_t)plan->draft_tokens.count;
    for (size_t i = 0; i < plan->row_token_counts.count; i++)
        tokens += plan->row_token_counts.items[i];
    return tokens;
}

static void say_hello(struct world *w, uint32_t idx) {
    struct fake_worker *worker = worker_of(w, idx);
    uint32_t ids[MAX_BLOCKS], count = 0;
    struct u128 hashes[MAX_BLOCKS];
    worker->incarnation++;
    worker->run_generation++;
    worker->received_number = worker->done_number = 0;
    worker->waiting = false;
    worker->formation = (struct u128){0};
    worker->comm_id = world_instance(w);
    drop_plans(w, worker);
    for (uint32_t i = 0; i < SLOTS; i++)
        worker->slots[i].used = false;
    /* nobody's */
    for (uint32_t i = 0; i < SNAPSHOTS; i++)
        worker->snapshots[i] = mix(w->seed, w->order) | 1;
    for (uint32_t i = 0; i < worker->group.block_count && !worker->loading; i++)
        if (!u128_is_zero(worker->blocks[i].sealed)) {
            ids[count] = i;
            hashes[count++] = worker->blocks[i].sealed;
        }
    struct wire_hello hello = {.role = WIRE_ROLE_WORKER,
                               .instance = worker->instance,
                               .pid = worker->pid,
                               .epoch_number = worker->epoch.number,
                               .epoch_instance = worker->epoch.instance,
                               .replica = worker->replica,
                               .rank = worker->place % worker->tp,
                               .tp = worker->tp,
                               .stage = worker->place / worker->tp,
                               .pp = worker->pp,
                               .incarnation = worker->incarnation,
                               .state = worker->loading ? WIRE_STATE_LOADING : WIRE_STATE_IDLE,
                               .model = bytes_str("m"),
                               .revision = {5, 5},
                               .fingerprint = {6, 6},
                               .slot_count = worker->slot_count,
                               .max_step_tokens = worker->max_step_tokens,
                               .max_context = MAX_CONTEXT,
                               .logits_width = VOCABULARY,
                               .steps_in_flight = worker->steps_in_flight,
                               .class_sensitive = w->class_sensitive,
                               .snapshot_count = worker->snapshot_count,
                               .drafts = worker->draft_max,
                               .groups = &worker->group,
                               .group_count = 1,
                               .held_blocks = {ids, count},
                               .held_hashes = {hashes, count}};
    if (worker->tp * worker->pp > 1 && worker->place == 0 && !worker->loading)
        hello.comm_id = bytes_of(&worker->comm_id, sizeof worker->comm_id);
    struct message *m = message_new(w, WIRE_HELLO);
    message_set_hello(m, &hello);
    worker->welcome = false;
    trace(w, "worker hello", idx, worker->incarnation, count, worker->loading);
    send_up(w, idx, m);
}

void worker_start(struct world *w, uint32_t idx) {
    struct fake_worker *worker = worker_of(w, idx);
    if (worker->alive)
        return;
    worker->alive = true;
    worker->instance = world_instance(w);
    worker->pid++;
    worker->incarnation = 0;
    worker->epoch = (struct epoch){0};
    worker->paused_until = worker->slow_until = 0;
    worker->loading = chance(w, 2);
    memset(worker->blocks, 0, sizeof worker->blocks);
    if (worker->loading)
        at(w, w->now + 100 + below(w, 1500), EVENT_WAKE, GATEWAYS + idx, 0, NULL);
    say_hello(w, idx);
}

void worker_wake(struct world *w, uint32_t idx) {
    struct fake_worker *worker = worker_of(w, idx);
    if (!worker->alive || !worker->loading || worker->paused_until > w->now)
        return;
    worker->loading = false;
    say_hello(w, idx);
}

void worker_kill(struct world *w, uint32_t idx, enum wire_exit_cause cause, bool fault) {
    struct fake_worker *worker = worker_of(w, idx);
    if (!worker->alive)
        return;
    trace(w, "worker dies", idx, cause, fault, worker->instance.lo);
    worker->alive = false;
    worker->run_generation++;
    drop_plans(w, worker);
    supervisor_tell_exit(w, worker->instance, cause, fault);
    at(w, w->now + 50 + below(w, 1000), EVENT_RESTART, GATEWAYS + idx, 0, NULL);
}

void worker_beat(struct world *w, uint32_t idx) {
    struct fake_worker *worker = worker_of(w, idx);
    if (!worker->alive || worker->paused_until > w->now)
        return;
    if (worker->loading && chance(w, 8))
        worker_wake(w, idx);
    else if (!worker->welcome && chance(w, 4))
        say_hello(w, idx);
    struct message *m = message_new(w, WIRE_HEARTBEAT);
    bool stepping = worker->plans != NULL;
    m->u.heartbeat = (struct wire_heartbeat){
        .state = worker->loading ? WIRE_STATE_LOADING
                 : stepping      ? WIRE_STATE_STEPPING
                                 : WIRE_STATE_IDLE,
        .progress = worker->progress,
        .plan_number = stepping ? worker->plans->u.plan.number : 0,
        .waiting = stepping && worker->waiting,
        .step_age_ms = stepping && !worker->waiting ? (uint32_t)(w->now - worker->step_since) : 0};
    if (stepping)
        m->u.heartbeat.step_tokens = plan_tokens(&worker->plans->u.plan);
    send_up(w, idx, m);
}

/* ---- Blocks ---- */

/* One seal names one content, in the whole world and over all lives. */
static void check_seal(struct world *w, struct u128 seal, uint64_t content) {
    for (size_t i = 0; i + 1 < w->seal_contents.count; i += 2) {
        if (w->seal_contents.items[i] != seal.lo)
            continue;
        MUST(w, w->seal_contents.items[i + 1] == content, "a seal names two contents");
        return;
    }
    vec_push(&w->seal_contents, seal.lo);
    vec_push(&w->seal_contents, content);
}

static void take_seals(struct world *w, struct fake_worker *worker, const struct wire_plan *plan) {
    for (size_t i = 0; i < plan->sealed_ids.count; i++) {
        MUST(w, plan->sealed_ids.items[i] < worker->group.block_count,
             "a seal of a block that is not there");
        struct fake_block *block = &worker->blocks[plan->sealed_ids.items[i]];
        MUST(w, block->filled == worker->group.block_tokens, "a block is sealed that is not full");
        block->sealed = plan->sealed_hashes.items[i];
        check_seal(w, block->sealed, block->content);
    }
}

static void hand_out(struct world *w, struct fake_worker *worker, uint32_t id) {
    MUST(w, id < worker->group.block_count, "a block that is not there is handed out");
    worker->blocks[id] = (struct fake_block){.content = mix(w->seed, w->order) | 1};
}

/* What a plan hands out may be overwritten from its arrival on. */
static void hand_out_all(struct world *w, struct fake_worker *worker,
                         const struct wire_plan *plan) {
    for (size_t i = 0; i < plan->admit_count; i++) {
        const struct wire_admit *admit = &plan->admits[i];
        MUST(w, admit->computed_count % worker->group.block_tokens == 0,
             "a prefix ends within a block");
        for (size_t k = admit->computed_count / worker->group.block_tokens;
             k < admit->block_ids.count; k++)
            hand_out(w, worker, admit->block_ids.items[k]);
    }
    for (size_t i = 0; i < plan->new_block_ids.count; i++)
        hand_out(w, worker, plan->new_block_ids.items[i]);
}

static void check_reads(struct world *w, const struct fake_worker *worker,
                        const struct fake_slot *slot) {
    uint32_t size = worker->group.block_tokens;
    for (uint32_t i = 0; i * size < slot->computed; i++) {
        uint32_t filled = MIN(size, slot->computed - i * size);
        const struct fake_block *block = &worker->blocks[slot->blocks[i]];
        MUST(w, block->filled == filled && block->content == slot->prefix[i * size + filled - 1],
             "sequence %llu reads block %u at %u: %u of %u positions, %s content",
             (unsigned long long)slot->sequence, slot->blocks[i], i, block->filled, filled,
             block->content == slot->prefix[i * size + filled - 1] ? "right" : "wrong");
    }
}

static void write_position(struct world *w, struct fake_worker *worker, struct fake_slot *slot) {
    uint32_t size = worker->group.block_tokens, position = slot->computed;
    MUST(w, position / size < slot->block_count, "sequence %llu has no block for position %u",
         (unsigned long long)slot->sequence, position);
    struct fake_block *block = &worker->blocks[slot->blocks[position / size]];
    MUST(w, u128_is_zero(block->sealed), "a sealed block is written");
    block->content = slot->prefix[position];
    block->filled = position % size + 1;
    bool carries = worker->group.kind == WIRE_GROUP_RECURRENT && position;
    MUST(w, !carries || slot->state == slot->prefix[position - 1],
         "sequence %llu goes on from another's state", (unsigned long long)slot->sequence);
    slot->state = slot->prefix[position];
    slot->computed++;
}

/* ---- Slots ---- */

static void slot_add_token(struct world *w, struct fake_slot *slot, uint32_t token) {
    uint32_t i = slot->token_count++;
    MUST(w, i < MAX_CONTEXT, "sequence %llu outgrows the context",
         (unsigned long long)slot->sequence);
    slot->tokens[i] = token;
    uint64_t before = i ? slot->prefix[i - 1] : 1;
    bool is_prompt = i < slot->prompt_count;
    slot->prefix[i] = mix(extend(before, token), w->class_sensitive ? is_prompt : 2);
}

static uint64_t text_prefix(const struct fake_slot *slot) {
    uint64_t prefix = 1;
    for (uint32_t i = 0; i < slot->token_count; i++)
        prefix = extend(prefix, slot->tokens[i]);
    return prefix;
}

static void admit_one(struct world *w, struct fake_worker *worker, const struct wire_admit *admit) {
    MUST(w, admit->slot < worker->slot_count, "slot %u is out of range", admit->slot);
    struct fake_slot *slot = &worker->slots[admit->slot];
    MUST(w, !slot->used, "slot %u is given twice", admit->slot);
    *slot = (struct fake_slot){.used = true,
                               .sequence = admit->sequence,
                               .choice = admit->choice,
                               .prompt_count = admit->prompt_count,
                               .computed = admit->computed_count,
                               .max_total = admit->max_total,
                               .block_count = (uint32_t)admit->block_ids.count};
    slot->truth = (uint32_t)admit->request.lo - 1;
    MUST(w,
         slot->truth < w->truths.count && slot->choice < w->truths.items[slot->truth].choice_count,
         "an unknown request is admitted");
    const struct truth *t = &w->truths.items[slot->truth];
    MUST(w, admit->prompt_count == t->prompt_count && admit->tokens.count > admit->computed_count,
         "wrong counts in an admission");
    MUST(w, slot->block_count <= MAX_BLOCKS && admit->max_total <= MAX_CONTEXT,
         "an admission is out of bounds");
    MUST(w, admit->tokens.count < admit->max_total, "nothing is left to make");
    for (size_t i = 0; i < admit->tokens.count; i++) {
        uint32_t want =
            i < t->prompt_count ? t->prompt[i] : t->tokens[slot->choice][i - t->prompt_count];
        MUST(w, admit->tokens.ids[i] == want, "an admission has a wrong token at %zu", i);
        slot_add_token(w, slot, want);
    }
    memcpy(slot->blocks, admit->block_ids.items, admit->block_ids.count * sizeof(uint32_t));
    w->hits += admit->computed_count;
}

/* ---- Steps ---- */

int64_t calm_step_ms(uint32_t tokens) {
    return 4 + tokens;
}

/* Somebody waits for a next token while prompts are computed; the scheduler knows its speed. */
static void count_mixed(struct world *w, const struct wire_plan *plan, int64_t takes) {
    uint32_t single = 0;
    for (size_t i = 0; i < plan->row_token_counts.count; i++)
        single += plan->row_token_counts.items[i] == 1;
    if (w->finished < CALM_AFTER || !single || single == plan->row_token_counts.count)
        return;
    w->mixed++;
    w->mixed_long += takes > w->config.itl_target_ms;
}

static void start_step(struct world *w, uint32_t idx) {
    struct fake_worker *worker = worker_of(w, idx);
    worker->step_since = w->now;
    int64_t takes = 1 + below(w, 6);
    if (w->calm) {
        takes = calm_step_ms(plan_tokens(&worker->plans->u.plan));
        count_mixed(w, &worker->plans->u.plan, takes);
    }
    if (worker->slow_until > w->now)
        takes = takes * 40 + 50;
    at(w, w->now + takes, EVENT_STEP, idx, worker->run_generation, NULL);
}

static void out_of_step(struct world *w, uint32_t idx) {
    struct message *m = message_new(w, WIRE_BLOCKS_LOST);
    m->u.lost.incarnation = worker_of(w, idx)->incarnation;
    trace(w, "blocks lost", idx, m->u.lost.incarnation, 0, 0);
    send_up(w, idx, m);
    say_hello(w, idx);
}

static void receive_plan(struct world *w, uint32_t idx, struct message *m) {
    struct fake_worker *worker = worker_of(w, idx);
    const struct wire_plan *plan = &m->u.plan;
    bool alone = worker->tp * worker->pp == 1;
    /* A rank that registers anew has a new connection: nothing of the old one comes after its
     * Welcome. */
    bool mine =
        (alone ? plan->incarnation == worker->incarnation : worker->welcome) && !worker->loading;
    if (!mine || plan->number <= worker->received_number) {
        message_free(w, m);
        return;
    }
    if (plan->number != worker->received_number + 1) {
        message_free(w, m);
        out_of_step(w, idx);
        return;
    }
    worker->received_number++;
    if (plan->number == 1 && !alone) {
        MUST(w, plan->comm_id.len == sizeof worker->formation,
             "plan 1 of a replica of several ranks names no place");
        memcpy(&worker->formation, plan->comm_id.data, sizeof worker->formation);
    }
    MUST(w, worker->plan_count < worker->steps_in_flight, "more plans in flight than granted");
    take_seals(w, worker, plan);
    hand_out_all(w, worker, plan);
    for (size_t i = 0; i < plan->sealed_ids.count; i++)
        MUST(w, !u128_is_zero(worker->blocks[plan->sealed_ids.items[i]].sealed),
             "a plan hands out a block that it seals");
    m->next = NULL;
    if (worker->plans)
        worker->last_plan->next = m;
    else
        worker->plans = m;
    worker->last_plan = m;
    if (worker->plan_count++ == 0)
        start_step(w, idx);
}

/* true: the request aborts the process here. */
static bool kills(struct world *w, const struct fake_slot *slot, uint32_t count) {
    const struct truth *t = &w->truths.items[slot->truth];
    return t->killer && slot->computed <= t->kills_at && t->kills_at < slot->computed + count;
}

struct outcome {
    uint32_t counts[SLOTS], finishes[SLOTS], tokens[SLOTS + DRAFTS], token_count;
};

static struct tokens drafts_of(const struct wire_plan *plan, size_t row) {
    const uint32_t *at = plan->draft_tokens.ids;
    if (!plan->draft_counts.count)
        return (struct tokens){0};
    for (size_t i = 0; i < row; i++)
        at += plan->draft_counts.items[i];
    return (struct tokens){at, plan->draft_counts.items[row]};
}

/* What is computed of drafts is written, right or wrong; all of them may turn out to be right, and then a
 * token follows. */
static void check_drafts(struct world *w, const struct fake_worker *worker,
                         const struct fake_slot *slot, struct tokens drafts) {
    uint32_t size = worker->group.block_tokens, end = slot->computed + (uint32_t)drafts.count;
    MUST(w, !drafts.count || slot->computed > slot->prompt_count, "a draft behind a prompt");
    MUST(w, !drafts.count || end < slot->max_total, "sequence %llu: drafts up to %u of %u",
         (unsigned long long)slot->sequence, end, slot->max_total);
    for (uint32_t at = slot->computed; at < end; at++) {
        MUST(w, at / size < slot->block_count, "sequence %llu has no block for a draft at %u",
             (unsigned long long)slot->sequence, at);
        MUST(w, u128_is_zero(worker->blocks[slot->blocks[at / size]].sealed),
             "a draft is written to a sealed block");
    }
    w->drafts += (uint32_t)drafts.count;
}

static uint32_t sample(struct world *w, struct fake_slot *slot, size_t row, struct outcome *out) {
    const struct truth *t = &w->truths.items[slot->truth];
    uint32_t token = next_token(t, slot->choice, text_prefix(slot));
    slot_add_token(w, slot, token);
    out->counts[row]++;
    out->tokens[out->token_count++] = token;
    if (token == t->stop_token)
        out->finishes[row] = WIRE_FINISH_STOP;
    else if (slot->token_count >= slot->max_total)
        out->finishes[row] = WIRE_FINISH_LENGTH;
    slot->ended = out->finishes[row] != 0;
    return token;
}

static bool compute_row(struct world *w, struct fake_worker *worker, const struct wire_plan *plan,
                        size_t row, struct outcome *out) {
    struct tokens drafts = drafts_of(plan, row);
    uint32_t count = plan->row_token_counts.items[row];
    MUST(w, plan->row_slots.items[row] < worker->slot_count, "a row's slot is out of range");
    struct fake_slot *slot = &worker->slots[plan->row_slots.items[row]];
    MUST(w, slot->used && count > 0, "a row of a slot that nobody is in");
    out->counts[row] = out->finishes[row] = 0;
    if (slot->ended)
        return true;
    MUST(w, slot->computed + count <= slot->token_count,
         "a row computes tokens that are not known");
    if (kills(w, slot, count + (uint32_t)drafts.count))
        return false;
    check_reads(w, worker, slot);
    for (uint32_t i = 0; i < count; i++)
        write_position(w, worker, slot);
    if (slot->computed < slot->token_count)
        return true;
    check_drafts(w, worker, slot, drafts);
    for (size_t i = 0;; i++) {
        uint32_t token = sample(w, slot, row, out);
        if (slot->ended || i == drafts.count || token != drafts.ids[i])
            return true;
        write_position(w, worker, slot);
        w->accepted_drafts++;
    }
}

/* A plan may not write a snapshot that it reads, nor write one twice. */
static void check_op_targets(struct world *w, const struct wire_plan *plan) {
    uint32_t reads[SNAPSHOTS] = {0}, writes[SNAPSHOTS] = {0};
    for (size_t i = 0; i < plan->op_kinds.count; i++) {
        bool restores = plan->op_kinds.items[i] == WIRE_OP_RESTORE;
        uint32_t id = restores ? plan->op_sources.items[i] : plan->op_targets.items[i];
        *(restores ? &reads[id] : &writes[id]) += 1;
        MUST(w, writes[id] + (reads[id] > 0) < 2 || !writes[id],
             "a plan uses snapshot %u in two ways", id);
    }
}

static void move_states(struct world *w, struct fake_worker *worker, const struct wire_plan *plan) {
    for (size_t i = 0; i < plan->op_kinds.count; i++) {
        uint32_t kind = plan->op_kinds.items[i], source = plan->op_sources.items[i],
                 target = plan->op_targets.items[i];
        bool restores = kind == WIRE_OP_RESTORE;
        uint32_t slot = restores ? target : source, id = restores ? source : target;
        MUST(w, restores || kind == WIRE_OP_SNAPSHOT, "operation %u", kind);
        MUST(w, slot < worker->slot_count && worker->slots[slot].used,
             "a state of an empty slot is moved");
        MUST(w, id < worker->snapshot_count, "snapshot %u of %u", id, worker->snapshot_count);
        if (restores)
            worker->slots[slot].state = worker->snapshots[id];
        else
            worker->snapshots[id] = worker->slots[slot].state;
        w->snapshots += !restores;
        w->restores += restores;
    }
    check_op_targets(w, plan);
}

static bool compute(struct world *w, struct fake_worker *worker, const struct wire_plan *plan,
                    struct outcome *out) {
    MUST(w, plan->draft_tokens.count <= worker->draft_max, "%zu drafts in a plan",
         plan->draft_tokens.count);
    for (size_t i = 0; i < plan->release_slots.count; i++) {
        MUST(w,
             plan->release_slots.items[i] < worker->slot_count &&
                 worker->slots[plan->release_slots.items[i]].used,
             "an empty slot is released");
        worker->slots[plan->release_slots.items[i]].used = false;
    }
    for (size_t i = 0; i < plan->admit_count; i++)
        admit_one(w, worker, &plan->admits[i]);
    move_states(w, worker, plan);
    for (size_t i = 0; i < plan->new_block_ids.count; i++) {
        MUST(w, plan->new_block_rows.items[i] < plan->row_slots.count,
             "a block for a row that is not there");
        struct fake_slot *slot =
            &worker->slots[plan->row_slots.items[plan->new_block_rows.items[i]]];
        MUST(w, slot->used && slot->block_count < MAX_BLOCKS, "a block for nobody");
        slot->blocks[slot->block_count++] = plan->new_block_ids.items[i];
    }
    MUST(w, plan->row_slots.count <= SLOTS && plan->row_slots.count > 0, "a plan of %zu rows",
         plan->row_slots.count);
    for (size_t i = 0; i < plan->row_slots.count; i++) {
        for (size_t k = 0; k < i; k++)
            MUST(w, plan->row_slots.items[k] != plan->row_slots.items[i], "two rows of one slot");
        if (!compute_row(w, worker, plan, i, out))
            return false;
    }
    MUST(w, plan_tokens(plan) <= worker->max_step_tokens, "a step of %u tokens", plan_tokens(plan));
    return true;
}

/* A step needs all ranks of the same formation: each has to have the plan, and who answers has to
 * be the last to end. */
static bool others_are_there(const struct world *w, uint32_t idx, uint64_t number) {
    const struct fake_worker *worker = &w->workers[idx];
    bool answers = worker->place == (worker->pp - 1) * worker->tp;
    for (uint32_t i = worker->first; i < worker->first + worker->tp * worker->pp; i++) {
        const struct fake_worker *other = &w->workers[i];
        if (i == idx)
            continue;
        if (!other->alive || other->paused_until > w->now ||
            !u128_equal(other->formation, worker->formation))
            return false;
        if ((answers ? other->done_number : other->received_number) < number)
            return false;
    }
    return true;
}

void worker_step(struct world *w, uint32_t idx, uint32_t generation) {
    struct fake_worker *worker = worker_of(w, idx);
    if (!worker->alive || generation != worker->run_generation)
        return;
    if (worker->paused_until > w->now) {
        at(w, worker->paused_until, EVENT_STEP, idx, generation, NULL);
        return;
    }
    struct message *m = worker->plans;
    struct outcome out = {0};
    worker->waiting = !others_are_there(w, idx, m->u.plan.number);
    if (worker->waiting) {
        at(w, w->now + 15, EVENT_STEP, idx, generation, NULL);
        return;
    }
    if (!compute(w, worker, &m->u.plan, &out)) {
        worker_kill(w, idx, WIRE_EXIT_SIGNAL, true);
        return;
    }
    worker->progress++;
    w->steps++;
    struct wire_step_result result = {.plan_number = m->u.plan.number,
                                      .incarnation = m->u.plan.incarnation,
                                      .slots = m->u.plan.row_slots,
                                      .token_counts = {out.counts, m->u.plan.row_slots.count},
                                      .finishes = {out.finishes, m->u.plan.row_slots.count},
                                      .tokens = {out.tokens, out.token_count},
                                      .compute_us = (uint64_t)(w->now - worker->step_since) * 1000};
    struct message *reply = NULL;
    if (worker->place == (worker->pp - 1) * worker->tp) {
        reply = message_new(w, WIRE_STEP_RESULT);
        message_set_result(reply, &result);
    }
    worker->done_number = m->u.plan.number;
    worker->plans = m->next;
    if (!worker->plans)
        worker->last_plan = NULL;
    worker->plan_count--;
    message_free(w, m);
    if (reply)
        send_up(w, idx, reply);
    if (worker->plans)
        start_step(w, idx);
}

void worker_receive(struct world *w, uint32_t idx, struct message *m) {
    struct fake_worker *worker = worker_of(w, idx);
    int order = epoch_compare(m->epoch, worker->epoch);
    if (!worker->alive || !u128_equal(m->to, worker->instance) || order < 0) {
        if (worker->alive && order < 0)
            answer_stale(w, m, worker->epoch, worker->instance);
        message_free(w, m);
        return;
    }
    /* the answer to our first Hello */
    bool first = worker->epoch.number == 0 && m->kind == WIRE_WELCOME;
    if (order > 0)
        worker->epoch = m->epoch;
    if (order > 0 && !first) {
        say_hello(w, idx);
        message_free(w, m); /* whatever it was, it was not for this registration */
        return;
    }
    if (m->kind == WIRE_PLAN) {
        receive_plan(w, idx, m);
        return;
    }
    if (m->kind == WIRE_WELCOME && m->u.lost.incarnation == worker->incarnation)
        worker->welcome = true;
    if (m->kind == WIRE_BLOCKS_LOST)
        say_hello(w, idx);
    message_free(w, m);
}
