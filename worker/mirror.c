#include "worker/mirror.h"

void mirror_init(struct mirror *m, const struct mirror_limits *limits) {
    *m = (struct mirror){.limits = *limits,
                         .max_blocks = (limits->max_context + limits->block_tokens - 1) /
                                       limits->block_tokens};
    m->slots = mem_calloc(limits->slot_count, sizeof *m->slots);
    m->next = mem_calloc(limits->slot_count, sizeof *m->next);
    m->sealed = mem_calloc(limits->block_count, sizeof *m->sealed);
    m->held_ids = mem_calloc(limits->block_count, sizeof *m->held_ids);
    m->held_hashes = mem_calloc(limits->block_count, sizeof *m->held_hashes);
}

void mirror_release(struct mirror *m) {
    mem_free(m->slots);
    mem_free(m->next);
    mem_free(m->sealed);
    mem_free(m->held_ids);
    mem_free(m->held_hashes);
    *m = (struct mirror){0};
}

void mirror_reset(struct mirror *m) {
    memset(m->slots, 0, m->limits.slot_count * sizeof *m->slots);
    m->last_plan = 0;
}

/* ---- checks that need no state ---- */

static bool below(struct u32s column, uint32_t limit) {
    for (size_t i = 0; i < column.count; i++)
        if (column.items[i] >= limit)
            return false;
    return true;
}

static bool all_zero(struct u32s column) {
    return below(column, 1);
}

static int check_admit(const struct mirror *m, const struct wire_admit *a, struct error *err) {
    if (a->slot >= m->limits.slot_count)
        return error_set(err, ERR_INVALID, "admission into slot %u of %u", a->slot,
                         m->limits.slot_count);
    if (!all_zero(a->block_groups))
        return error_set(err, ERR_INVALID, "a block of a group this model does not have");
    if (!below(a->block_ids, m->limits.block_count))
        return error_set(err, ERR_INVALID, "a block id past the cache in the admission to slot %u",
                         a->slot);
    if (a->block_ids.count > m->max_blocks)
        return error_set(err, ERR_INVALID, "more blocks than a slot holds");
    return 0;
}

static int check_ops(const struct mirror *m, const struct wire_plan *p, struct error *err) {
    const struct mirror_limits *l = &m->limits;
    for (size_t i = 0; i < p->op_kinds.count; i++) {
        uint32_t kind = p->op_kinds.items[i], sources = l->block_count, targets = l->block_count;
        if (kind == WIRE_OP_SNAPSHOT || kind == WIRE_OP_RESTORE) {
            sources = kind == WIRE_OP_SNAPSHOT ? l->slot_count : l->snapshot_count;
            targets = kind == WIRE_OP_SNAPSHOT ? l->snapshot_count : l->slot_count;
        } else if (kind != WIRE_OP_COPY) {
            return error_set(err, ERR_INVALID, "a block operation this worker does not have");
        }
        if (p->op_sources.items[i] >= sources || p->op_targets.items[i] >= targets)
            return error_set(err, ERR_INVALID, "a block operation out of bounds");
    }
    return 0;
}

static int check_ids(const struct mirror *m, const struct wire_plan *p, struct error *err) {
    int rc = 0;
    if (p->number != m->last_plan + 1)
        return error_set(err, ERR_INVALID, "plan %llu after plan %llu",
                         (unsigned long long)p->number, (unsigned long long)m->last_plan);
    if (!below(p->release_slots, m->limits.slot_count) ||
        !below(p->row_slots, m->limits.slot_count))
        return error_set(err, ERR_INVALID, "a slot out of bounds");
    for (size_t i = 0; i < p->admit_count; i++) {
        rc = check_admit(m, &p->admits[i], err);
        if (rc)
            return rc;
    }
    rc = check_ops(m, p, err);
    if (rc)
        return rc;
    if (p->draft_tokens.count > m->limits.draft_max)
        return error_set(err, ERR_INVALID, "%zu drafts in a plan, not %u at the most",
                         p->draft_tokens.count, m->limits.draft_max);
    for (size_t i = 0; i < p->draft_tokens.count; i++)
        if (p->draft_tokens.ids[i] >= m->limits.vocab)
            return error_set(err, ERR_INVALID, "a draft past the vocabulary");
    if (!all_zero(p->op_groups) || !all_zero(p->new_block_groups))
        return error_set(err, ERR_INVALID, "a block of a group this model does not have");
    const struct u32s columns[] = {p->new_block_ids, p->sealed_ids};
    for (size_t i = 0; i < ARRAY_LEN(columns); i++)
        if (!below(columns[i], m->limits.block_count))
            return error_set(err, ERR_INVALID, "a block id past the cache");
    return 0;
}

/* ---- slots, in m->next ---- */

/* One whose prompt becomes a vector: all of it is there, and where all positions count, none is
 * computed. */
static bool embed_fails(const struct mirror *m, const struct wire_admit *a) {
    const struct wire_vectors *v = &m->limits.vectors;
    return !v->pooling || v->scores != (a->kind == WIRE_SCORE) ||
           a->prompt_count != a->tokens.count || a->tokens.count > m->limits.max_context ||
           (v->pooling != WIRE_POOLING_LAST && a->computed_count);
}

static bool generate_fails(const struct mirror *m, const struct wire_admit *a) {
    return m->limits.vectors.only || a->tokens.count >= m->limits.max_context ||
           a->max_total <= a->tokens.count || a->max_total > m->limits.max_context;
}

static bool admit_embeds(const struct wire_admit *a) {
    return a->kind == WIRE_EMBED || a->kind == WIRE_SCORE;
}

/* What makes a sequence impossible to run, though its plan is well formed. */
static bool admit_fails(const struct mirror *m, const struct wire_admit *a) {
    for (size_t i = 0; i < a->tokens.count; i++)
        if (a->tokens.ids[i] >= m->limits.vocab)
            return true;
    return (admit_embeds(a) ? embed_fails(m, a) : generate_fails(m, a)) ||
           a->computed_count >= a->tokens.count || a->adapter_slot || a->media_count ||
           a->computed_count > (uint64_t)a->block_ids.count * m->limits.block_tokens;
}

static void admit(struct mirror *m, const struct wire_admit *a, uint64_t admission) {
    m->next[a->slot] = (struct mirror_slot){.admission = admission,
                                            .token_count = (uint32_t)a->tokens.count,
                                            .computed_count = a->computed_count,
                                            .prompt_count = a->prompt_count,
                                            .block_count = (uint32_t)a->block_ids.count,
                                            .failed = admit_fails(m, a),
                                            .embeds = admit_embeds(a),
                                            .constrained = !u128_is_zero(a->grammar) ||
                                                           sampling_has_lists(&a->sampling),
                                            .first_count = a->sampling.first_count};
}

static int add_new_blocks(struct mirror *m, const struct wire_plan *p, uint32_t *added_at,
                          struct error *err) {
    if (p->new_block_rows.count > m->limits.block_count)
        return error_set(err, ERR_INVALID, "more new blocks than the cache has");
    for (size_t i = 0; i < p->new_block_rows.count; i++) {
        struct mirror_slot *s = &m->next[p->row_slots.items[p->new_block_rows.items[i]]];
        if (!s->admission || s->block_count == m->max_blocks)
            return error_set(err, ERR_INVALID,
                             "a new block for an empty slot, or past what a slot holds");
        added_at[i] = s->block_count++;
    }
    return 0;
}

/* Only the row of an output's last token alone has any. */
static bool may_draft(const struct mirror *m, const struct mirror_slot *s, uint32_t token_count,
                      uint32_t draft_count) {
    return token_count == 1 && s->computed_count + 1 == s->token_count &&
           s->token_count > s->prompt_count && !s->embeds && !s->constrained &&
           (uint64_t)s->token_count + draft_count < m->limits.max_context;
}

static int plan_row(struct mirror *m, uint32_t slot, uint32_t token_count, uint32_t draft_count,
                    struct mirror_row *row, struct error *err) {
    struct mirror_slot *s = &m->next[slot];
    *row = (struct mirror_row){.admission = s->admission,
                               .slot = slot,
                               .position = s->computed_count,
                               .token_count = token_count,
                               .fate = ROW_WASTED};
    if (!s->admission)
        return error_set(err, ERR_INVALID, "a row on the empty slot %u", slot);
    if (s->drafted)
        return error_set(err, ERR_INVALID, "a row on slot %u behind drafts in flight", slot);
    if (s->ended || token_count == 0)
        return 0;
    uint64_t end = (uint64_t)s->computed_count + token_count;
    if (end > s->token_count && !s->failed)
        return error_set(err, ERR_INVALID, "slot %u: %llu positions to compute, %u known", slot,
                         (unsigned long long)end, s->token_count);
    if (draft_count && !s->failed && !may_draft(m, s, token_count, draft_count))
        return error_set(err, ERR_INVALID, "slot %u: %u drafts where none may be", slot,
                         draft_count);
    bool cut = m->limits.vectors.whole_prompts && (s->computed_count || end != s->token_count);
    if (s->failed || cut || end + draft_count > (uint64_t)s->block_count * m->limits.block_tokens) {
        row->fate = ROW_FAILED;
        s->ended = true;
        return 0;
    }
    row->fate = ROW_RUNS;
    row->draft_count = draft_count;
    s->drafted = draft_count != 0;
    row->prompt_rows = s->computed_count < s->prompt_count
                           ? MIN(token_count, s->prompt_count - s->computed_count)
                           : 0;
    row->pools = s->embeds;
    row->embeds = s->embeds && end == s->token_count;
    row->samples = !s->embeds && end == s->token_count;
    s->ended = row->embeds;
    s->computed_count += token_count;
    s->token_count += row->samples;
    return 0;
}

static int plan_rows(struct mirror *m, const struct wire_plan *p, struct mirror_row *rows,
                     struct error *err) {
    uint64_t total = 0;
    for (size_t i = 0; i < p->row_slots.count; i++) {
        uint32_t drafts = p->draft_counts.count ? p->draft_counts.items[i] : 0;
        int rc =
            plan_row(m, p->row_slots.items[i], p->row_token_counts.items[i], drafts, &rows[i], err);
        if (rc)
            return rc;
        if (rows[i].fate == ROW_RUNS)
            total += rows[i].token_count + rows[i].draft_count;
    }
    if (total > m->limits.max_step_tokens)
        return error_set(err, ERR_INVALID, "a step of %llu tokens, more than %u",
                         (unsigned long long)total, m->limits.max_step_tokens);
    return 0;
}

/* ---- sealed blocks ---- */

static void forget(struct mirror *m, uint32_t block) {
    m->sealed[block] = (struct u128){0};
}

/* First what earlier steps sealed, then what this plan hands out to be written. */
static void follow_blocks(struct mirror *m, const struct wire_plan *p) {
    for (size_t i = 0; i < p->sealed_ids.count; i++)
        m->sealed[p->sealed_ids.items[i]] = p->sealed_hashes.items[i];
    for (size_t i = 0; i < p->admit_count; i++)
        for (size_t b = p->admits[i].computed_count / m->limits.block_tokens;
             b < p->admits[i].block_ids.count; b++)
            forget(m, p->admits[i].block_ids.items[b]);
    for (size_t i = 0; i < p->op_targets.count; i++)
        if (p->op_kinds.items[i] == WIRE_OP_COPY)
            forget(m, p->op_targets.items[i]);
    for (size_t i = 0; i < p->new_block_ids.count; i++)
        forget(m, p->new_block_ids.items[i]);
}

int mirror_apply(struct mirror *m, const struct wire_plan *p, struct mirror_row *rows,
                 uint32_t *added_at, struct error *err) {
    int rc = check_ids(m, p, err);
    if (rc)
        return rc;
    memcpy(m->next, m->slots, m->limits.slot_count * sizeof *m->next);
    for (size_t i = 0; i < p->release_slots.count; i++)
        m->next[p->release_slots.items[i]] = (struct mirror_slot){0};
    for (size_t i = 0; i < p->admit_count; i++)
        admit(m, &p->admits[i], m->admissions + 1 + i);
    rc = add_new_blocks(m, p, added_at, err);
    if (!rc)
        rc = plan_rows(m, p, rows, err);
    if (rc)
        return rc;
    struct mirror_slot *old = m->slots;
    m->slots = m->next;
    m->next = old;
    m->admissions += p->admit_count;
    m->last_plan = p->number;
    follow_blocks(m, p);
    return 0;
}

void mirror_ended(struct mirror *m, uint32_t slot, uint64_t admission) {
    if (m->slots[slot].admission == admission)
        m->slots[slot].ended = true;
}

void mirror_accept_drafts(struct mirror *m, uint32_t slot, uint64_t admission, uint32_t count) {
    struct mirror_slot *s = &m->slots[slot];
    if (s->admission != admission)
        return;
    s->computed_count += count;
    s->token_count += count;
    s->drafted = false;
}

void mirror_held(struct mirror *m, struct u32s *blocks, struct u128s *hashes) {
    size_t count = 0;
    for (uint32_t b = 0; b < m->limits.block_count; b++) {
        if (u128_is_zero(m->sealed[b]))
            continue;
        m->held_ids[count] = b;
        m->held_hashes[count++] = m->sealed[b];
    }
    *blocks = (struct u32s){m->held_ids, count};
    *hashes = (struct u128s){m->held_hashes, count};
}
