#include "worker/plan_apply.h"

/* ---- slots on the device ---- */

_Static_assert((int)WIRE_SAMPLE_PENALTIES == STEP_PENALTIES && (int)WIRE_SAMPLE_XTC == STEP_XTC &&
                   (int)WIRE_STEERING_ADAPTIVE == STEER_ADAPTIVE,
               "the message's numbers are the sampler's");

static void fill_sampling(struct slot_state *s, const struct wire_admit *a) {
    const struct wire_sampling *w = &a->sampling;
    s->seed = w->seed;
    s->temperature = w->temperature;
    s->top_p = w->top_p;
    s->min_p = w->min_p;
    s->top_n_sigma = w->top_n_sigma;
    s->top_k = w->top_k;
    s->repetition_penalty = w->repetition_penalty;
    s->presence_penalty = w->presence_penalty;
    s->frequency_penalty = w->frequency_penalty;
    s->logprobs = w->logprobs;
    s->rules = (struct sample_rules){.order = w->order,
                                     .typical_p = w->typical_p,
                                     .xtc_probability = w->xtc_probability,
                                     .xtc_threshold = w->xtc_threshold,
                                     .temperature_range = w->temperature_range,
                                     .temperature_exponent = w->temperature_exponent,
                                     .dry_multiplier = w->dry_multiplier,
                                     .dry_base = w->dry_base,
                                     .dry_allowed = w->dry_allowed,
                                     .dry_window = w->dry_window,
                                     .penalty_window = w->penalty_window,
                                     .steering = (uint32_t)w->steering,
                                     .target = w->target,
                                     .rate = w->rate,
                                     .state = a->sampler_state};
    if (a->tokens.count == a->prompt_count)
        s->rules.state = rule_first_state(&s->rules);
    s->bias_count = (uint32_t)MIN(w->bias_ids.count, (size_t)SLOT_BIAS_MAX);
    s->stop_count = (uint32_t)MIN(a->stop_tokens.count, (size_t)SLOT_STOPS_MAX);
    if (s->stop_count)
        memcpy(s->stops, a->stop_tokens.items, s->stop_count * sizeof *s->stops);
}

static void admit(struct loaded *l, const struct wire_admit *a) {
    struct slot_state state = {
        .token_count = (uint32_t)a->tokens.count,
        .computed_count = a->computed_count,
        .prompt_count = a->prompt_count,
        .max_total = a->max_total,
        .min_total =
            (uint32_t)MIN((uint64_t)a->prompt_count + a->sampling.min_tokens, (uint64_t)UINT32_MAX),
        .choice = a->choice};
    struct slot_admission admission = {.state = &state,
                                       .tokens = a->tokens.ids,
                                       .blocks = a->block_ids.items,
                                       .block_count = (uint32_t)a->block_ids.count,
                                       .bias_ids = a->sampling.bias_ids.items,
                                       .bias_values = a->sampling.bias_values.items,
                                       .breakers = a->sampling.dry_breakers};
    fill_sampling(&state, a);
    slots_admit(&l->slots, l->stream, a->slot, &admission);
}

static void constrain(struct plan_apply *a, const struct wire_admit *admit,
                      struct grammar_entry *entry) {
    size_t prompt = MIN((size_t)admit->prompt_count, admit->tokens.count);
    struct tokens output = {admit->tokens.ids + prompt, admit->tokens.count - prompt};
    struct token_lists lists = {admit->sampling.allowed, admit->sampling.bad_words};
    if (a->constraints->store) /* this rank samples */
        constraints_admit(a->constraints, admit->slot, a->mirror->slots[admit->slot].admission,
                          entry, lists, output);
}

/* Blocks are copied in the cache, states among slots and the snapshots behind them. */
static void apply_ops(struct plan_apply *a, const struct wire_plan *p) {
    struct loaded *l = a->loaded;
    uint32_t slots = l->slots.table.slot_count, states = 0, blocks = 0, *s = a->op_numbers,
             *b = s + FLIGHT_OPS_MAX;
    uint32_t *s_targets = b + FLIGHT_OPS_MAX, *b_targets = s_targets + FLIGHT_OPS_MAX;
    for (size_t i = 0; i < p->op_kinds.count; i++) {
        uint32_t kind = p->op_kinds.items[i], source = p->op_sources.items[i],
                 target = p->op_targets.items[i];
        if (kind == WIRE_OP_COPY) {
            b[blocks] = source;
            b_targets[blocks++] = target;
        } else {
            s[states] = source + (kind == WIRE_OP_RESTORE ? slots : 0);
            s_targets[states++] = target + (kind == WIRE_OP_SNAPSHOT ? slots : 0);
        }
    }
    if (states)
        slots_copy_states(&l->slots, l->stream, s, s_targets, states);
    if (!blocks)
        return;
    l->dev->ops->kv_copy(l->stream, &(struct op_kv_copy){.base = l->slots.kv.base,
                                                         .block_stride = l->geometry.block_bytes,
                                                         .sources = b,
                                                         .targets = b_targets,
                                                         .count = blocks});
}

/* Releases, admissions, block operations, new blocks: the plan's order. */
static void apply_slots(struct plan_apply *a, const struct wire_plan *p, const uint32_t *added_at,
                        struct grammar_entry *const *entries) {
    struct loaded *l = a->loaded;
    const struct mirror_slot *known = a->mirror->slots;
    for (size_t i = 0; i < p->release_slots.count; i++) {
        slots_remove(&l->slots, l->stream, p->release_slots.items[i]);
        constraints_remove(a->constraints, p->release_slots.items[i]);
    }
    for (size_t i = 0; i < p->admit_count; i++) {
        uint32_t slot = p->admits[i].slot;
        constrain(a, &p->admits[i], entries[i]);
        if (known[slot].failed)
            slots_remove(&l->slots, l->stream, slot);
        else
            admit(l, &p->admits[i]);
    }
    apply_ops(a, p);
    for (size_t i = 0; i < p->new_block_rows.count; i++) {
        uint32_t slot = p->row_slots.items[p->new_block_rows.items[i]];
        if (!known[slot].failed)
            slots_add_blocks(&l->slots, l->stream, slot, added_at[i], &p->new_block_ids.items[i],
                             1);
    }
}

/* The plan's drafts, behind the known tokens of their slots. */
static void put_drafts(struct plan_apply *a, const struct wire_plan *p, const struct flight *f) {
    struct loaded *l = a->loaded;
    size_t at = 0;
    for (size_t i = 0; i < p->draft_counts.count; at += p->draft_counts.items[i++]) {
        const struct mirror_row *row = &f->rows[i];
        if (row->draft_count)
            slots_draft(&l->slots, l->stream, row->slot, row->position + row->token_count,
                        (struct tokens){p->draft_tokens.ids + at, row->draft_count});
    }
}

/* ---- the batch ---- */

struct batch_build {
    uint32_t runs, output_at, prompt_at, samples, states;
};

/* Which states of a row of the plan become a vector; its rows of the batch begin at `at`. */
static void add_states(struct plan_apply *a, struct flight *f, uint32_t i, struct batch_build *b,
                       uint32_t at) {
    uint32_t first, count;
    pooling_wants(f->pooling->kind, &f->rows[i], &first, &count);
    CHECK(count <= f->state_max - b->states);
    f->state_first[i] = b->states;
    f->state_counts[i] = count;
    for (uint32_t k = 0; k < count; k++)
        a->state_rows[b->states++] = at + first + k;
}

/* Output-class rows lie in front, prompt-class rows behind; a row of the plan may have both, prompt
 * first. */
static void add_row(struct plan_apply *a, struct flight *f, uint32_t i, struct batch_build *b) {
    const struct mirror_row *row = &f->rows[i];
    uint32_t output = row->token_count - row->prompt_rows + row->draft_count, last = 0;
    f->sample_of[i] = ROW_NONE;
    if (row->fate != ROW_RUNS)
        return;
    if (row->prompt_rows) {
        a->first_counts[b->runs] = a->mirror->slots[row->slot].first_count;
        a->runs[b->runs++] = (struct step_run){
            .slot = row->slot, .row_first = b->prompt_at, .token_count = row->prompt_rows};
        b->prompt_at += row->prompt_rows;
        last = b->prompt_at - 1;
    }
    if (output) {
        a->first_counts[b->runs] = 0;
        a->runs[b->runs++] =
            (struct step_run){.slot = row->slot, .row_first = b->output_at, .token_count = output};
        b->output_at += output;
        last = b->output_at - 1;
    }
    if (f->pooling)
        add_states(a, f, i, b, row->prompt_rows ? b->prompt_at - row->prompt_rows : 0);
    if (!row->samples)
        return;
    f->sample_of[i] = b->samples;
    for (uint32_t k = row->draft_count + 1; k-- > 0;)
        a->sample_rows[b->samples++] = last - k;
}

static void run_batch(struct plan_apply *a, struct flight *f) {
    struct loaded *l = a->loaded;
    struct batch_build b = {0};
    bool drafted = false;
    for (uint32_t i = 0; i < f->row_count; i++) {
        const struct mirror_row *row = &f->rows[i];
        if (row->fate == ROW_RUNS)
            b.prompt_at += row->token_count - row->prompt_rows + row->draft_count;
        drafted |= row->draft_count != 0;
    }
    uint32_t output_count = b.prompt_at;
    for (uint32_t i = 0; i < f->row_count; i++)
        add_row(a, f, i, &b);
    f->sample_count = b.samples;
    if (b.runs == 0)
        return;
    struct step_input input = {.runs = a->runs,
                               .run_count = b.runs,
                               .row_count = b.prompt_at,
                               .output_count = output_count,
                               .sample_rows = a->sample_rows,
                               .sample_count = b.samples,
                               .drafted = drafted,
                               .first_counts = a->first_counts};
    const struct sample_masks *masks = constraints_concern(a->constraints, f) ? &a->masks : NULL;
    a->masked = f;
    if (ranks_record(&l->ranks)) {
        stepper_put(&l->stepper, l->stream, &input, &f->out, masks);
    } else {
        forward_layers(&l->forward, l->stream, &input);
        if (b.samples && shard_is_last(&l->ranks.shard))
            forward_sample(&l->forward, l->stream, &f->out, masks);
    }
    if (b.states && ranks_answer(&l->ranks))
        forward_states(&l->forward, l->stream, a->state_rows, b.states, f->states);
}

/* The layers of the step are on the device: what its masks depend on is waited for now. */
static void make_masks(void *ctx) {
    struct plan_apply *a = ctx;
    struct flight *f = a->masked;
    a->take_earlier(a->take_ctx, f);
    a->masks.bits = f->mask_bits;
    a->masks.rows = f->mask_rows;
    a->masks.count = constraints_fill(a->constraints, f, f->mask_bits, f->mask_rows);
}

void plan_apply(struct plan_apply *a, const struct wire_plan *plan, const uint32_t *added_at,
                struct grammar_entry *const *entries, struct flight *f) {
    apply_slots(a, plan, added_at, entries);
    put_drafts(a, plan, f);
    run_batch(a, f);
    event_record(f->done, a->loaded->stream);
}

void plan_apply_init(struct plan_apply *a, struct loaded *loaded, const struct mirror *mirror,
                     struct constraints *constraints) {
    uint32_t slots = mirror->limits.slot_count;
    *a = (struct plan_apply){.loaded = loaded, .mirror = mirror, .constraints = constraints};
    a->masks = (struct sample_masks){.await = make_masks, .ctx = a};
    a->runs = mem_calloc(2 * (size_t)slots, sizeof *a->runs);
    a->first_counts = mem_calloc(2 * (size_t)slots, sizeof *a->first_counts);
    a->sample_rows = mem_calloc((size_t)slots + FLIGHT_DRAFTS_MAX, sizeof *a->sample_rows);
    a->state_rows = mem_calloc(loaded->max_step_tokens, sizeof *a->state_rows);
    a->op_numbers = mem_calloc(4 * (size_t)FLIGHT_OPS_MAX, sizeof *a->op_numbers);
}

void plan_apply_release(struct plan_apply *a) {
    mem_free(a->runs);
    mem_free(a->first_counts);
    mem_free(a->sample_rows);
    mem_free(a->state_rows);
    mem_free(a->op_numbers);
    *a = (struct plan_apply){0};
}
