/* The invariants of sched.h, asserted one by one; numbers in brackets are theirs. */
#include "scheduler/core/core.h"
#include "scheduler/core/gateway.h"
#include "scheduler/core/models.h"
#include "scheduler/core/place.h"
#include "scheduler/core/sequence_state.h"

/* What a recount gives. Arrays grow once and stay. */
struct count_array {
    uint32_t *items;
    size_t count, cap;
};
static struct {
    struct count_array refs;                  /* by block */
    struct count_array rows, tokens, samples; /* by slot, of flights */
    uint32_t waiting_new, waiting_resumed, running, parked, paused;
    uint64_t record_bytes;
} seen;

static void clear(struct count_array *counts, size_t count) {
    vec_reserve(counts, count);
    memset(counts->items, 0, count * sizeof *counts->items);
}

/* ---- Sequences ---- */

static void check_places(const struct sequence *q) {
    bool in_slot = seq_in_slot(q);
    /* (2) */
    CHECK(in_slot || seq_is_waiting(q) || q->state == SEQ_DONE);
    /* (2) */
    CHECK(in_slot == (q->replica != NULL) && in_slot == (q->slot != SLOT_NONE));
    /* (2) */
    CHECK(!in_slot || (q->replica->slots[q->slot] == q && q->replica->running[q->run_idx] == q));
    CHECK(seq_is_over(q) == (q->finish != WIRE_FINISH_NONE));
    CHECK((q->state == SEQ_PARKED) == list_node_is_linked(&q->link));
    CHECK((q->group != NULL) == list_node_is_linked(&q->group_link));
    CHECK(!q->group || in_slot || q->state == SEQ_PARKED); /* (10) */
}

static void check_delivery(const struct sequence *q) {
    const struct request *request = q->request;
    CHECK(!q->vector_width || (request_embeds(request) && seq_is_over(q)));
    uint32_t output = seq_output_count(q), finish = q->finish != WIRE_FINISH_NONE;
    CHECK(!list_node_is_linked(&q->dirty) || (request->gateway && !request->dropped));
    if (q->quiet)
        return;
    CHECK(q->sent <= output && q->acked <= output + finish);    /* (6) */
    CHECK(q->acked <= q->sent_high && q->sent <= q->sent_high); /* (6) */
    CHECK(!q->finish_sent || (finish && q->sent == output));    /* (6) */
    bool unsent = q->sent < output || (finish && !q->finish_sent);
    bool reachable =
        request->gateway && !request->gateway->silent && !request->dropped && !request->rejected;
    CHECK(!unsent || !reachable || list_node_is_linked(&q->dirty)); /* nothing owed is forgotten */
}

static void check_request(const struct sched *s, const struct request *request) {
    uint32_t held = 0, open = 0;
    for (uint32_t i = 0; i < request->sequence_count; i++) {
        const struct sequence *q = &request->sequences[i];
        CHECK(q->request == request);
        check_places(q);
        check_delivery(q);
        held += q->state == SEQ_HELD;
        open += !seq_is_over(q);
        seen.waiting_new += seq_is_waiting(q) && !seq_is_resumed(q);
        seen.waiting_resumed += seq_is_waiting(q) && seq_is_resumed(q);
        seen.running += seq_in_slot(q);
        seen.parked += q->state == SEQ_PARKED;
    }
    seen.paused += request->paused;
    CHECK(held == request->held_count && open == request->open_count); /* (9) */
    CHECK(held == 0 || held < open);                                   /* someone leads them */
    seen.record_bytes += request->record_bytes;
    stream_check(s, request);
    /* every record ends some day */
    CHECK(request->dropped || request->open_count || request->expire_at != NEVER);
    if (request->timer_idx != UINT32_MAX)
        CHECK(s->timers.items[request->timer_idx] == request);
}

/* ---- Replicas ---- */

static void count_flights(const struct replica *r) {
    clear(&seen.rows, r->slot_count);
    clear(&seen.tokens, r->slot_count);
    clear(&seen.samples, r->slot_count);
    CHECK(r->flight_count <= r->steps_in_flight); /* (5) */
    for (uint32_t i = 0; i < r->flight_count; i++) {
        const struct flight *flight = &r->flights[(r->flight_first + i) % r->steps_in_flight];
        CHECK(flight->number == r->plan_number - r->flight_count + 1 + i); /* (5) */
        for (uint32_t row = 0; row < flight->row_count; row++) {
            const struct flight_row *f = &flight->rows[row];
            CHECK(!f->samples || !f->embeds);
            CHECK(f->sequence->replica == r && f->sequence->slot == f->slot);
            seen.rows.items[f->slot]++;
            seen.tokens.items[f->slot] += f->token_count;
            seen.samples.items[f->slot] += f->samples;
        }
    }
}

static void check_in_slot(const struct sequence *q) {
    const struct replica *r = q->replica;
    CHECK(q->rows_in_flight == seen.rows.items[q->slot]); /* (3) */
    CHECK(!seq_is_leaving(q) || q->rows_in_flight);
    CHECK(q->state != SEQ_PLACED || q->rows_in_flight == 0);
    /* (10) */
    CHECK(q->group == NULL || q->group == r->testing || seq_is_leaving(q));
    /* (10) */
    CHECK(!r->testing || q->group == r->testing || seq_is_leaving(q) || q->deaths == 0);
    if (q->state == SEQ_RESTARTING || seq_is_over(q))
        return;
    /* (3) */
    CHECK(q->computed_lo + seen.tokens.items[q->slot] == q->computed_hi);
    /* (3) */
    CHECK(q->token_count + seen.samples.items[q->slot] == q->tokens_hi);
    /* (3) */
    CHECK(q->computed_lo < q->token_count &&
          q->computed_hi < q->tokens_hi + (request_embeds(q->request) ? 1 : 0));
    /* (8) */
    CHECK(q->tokens_hi <= q->max_total);
    /* (8) */
    for (uint32_t i = q->prompt_count; i < q->token_count; i++)
        CHECK(seq_tokens(q)[i] < r->logits_width);
}

static void check_tables(const struct sequence *q, uint32_t group) {
    const struct replica *r = q->replica;
    const struct block_table *table = &q->tables[group];
    CHECK(table->first <= table->count && table->sent_count <= table->count);
    if (q->state != SEQ_RESTARTING)
        CHECK((uint64_t)table->count * r->groups[group].block_tokens >= q->computed_hi); /* (3) */
    for (uint32_t i = table->first; i < table->count; i++) {
        uint32_t block = table->ids.items[i];
        CHECK(block < r->pools[group].block_count);
        seen.refs.items[block]++;
        if (u128_is_zero(block_pool_hash(&r->pools[group], block)))
            continue;
        /* (4) */
        CHECK(i < q->sealed_count);
        /* (4) */
        CHECK(q->state == SEQ_RESTARTING ||
              (i + 1) * r->groups[group].block_tokens <= q->computed_lo);
    }
}

/* Held by those whose state is still to be restored, and by rows in flight that were copied. */
static void check_snapshots(const struct replica *r) {
    if (!r->snapshot_count)
        return;
    block_pool_check(&r->snapshots); /* (1) */
    clear(&seen.refs, r->snapshot_count);
    for (uint32_t i = 0; i < r->running_count; i++) {
        const struct sequence *q = r->running[i];
        CHECK(q->snapshot == BLOCK_NONE || q->state == SEQ_PLACED);
        CHECK(q->state != SEQ_PLACED || (q->computed_hi > 0) == (q->snapshot != BLOCK_NONE));
        if (q->snapshot != BLOCK_NONE)
            seen.refs.items[q->snapshot]++;
    }
    for (uint32_t i = 0; i < r->flight_count; i++) {
        const struct flight *flight = &r->flights[(r->flight_first + i) % r->steps_in_flight];
        for (uint32_t row = 0; row < flight->row_count; row++)
            if (flight->rows[row].snapshot != BLOCK_NONE)
                seen.refs.items[flight->rows[row].snapshot]++;
    }
    for (uint32_t i = 0; i < r->snapshot_count; i++)
        CHECK(seen.refs.items[i] == block_pool_refs(&r->snapshots, i)); /* (1) */
}

/* What model_review keeps of its replicas together. */
static void check_model(const struct model *model) {
    const struct replica *ready = NULL;
    uint32_t turned_away = 0;
    for (size_t i = 0; i < model->replicas.count; i++) {
        const struct replica *r = model->replicas.items[i];
        turned_away += r->grammar_turned_away;
        if (r->state != REPLICA_READY)
            continue;
        if (ready && model->names_alike)
            CHECK(replica_names_as(r, ready));
        ready = r;
    }
    CHECK(turned_away == model->turned_away_count);
}

static void check_replica(const struct sched *s, const struct replica *r) {
    uint32_t leaving = 0, resumed = 0, filled = 0, prompts = 0;
    uint64_t load = 0;
    CHECK((r->state != REPLICA_READY) == list_node_is_linked(&r->unready_link));
    CHECK(!replica_takes_plan(r) || list_node_is_linked(&r->plan_link));
    CHECK(r->slot_kept_until <= s->slots_kept_until);
    CHECK(r->state == REPLICA_READY || (r->running_count == 0 && r->flight_count == 0));
    if (r->state != REPLICA_READY)
        return;
    count_flights(r);
    CHECK(r->running_count + r->free_slot_count == r->slot_count); /* (2) */
    for (uint32_t slot = 0; slot < r->slot_count; slot++)
        filled += r->slots[slot] != NULL;
    CHECK(filled == r->running_count); /* (2) */
    for (uint32_t i = 0; i < r->running_count; i++) {
        const struct sequence *q = r->running[i];
        CHECK(q->replica == r && r->slots[q->slot] == q && q->run_idx == i); /* (2) */
        check_in_slot(q);
        leaving += seq_is_leaving(q);
        resumed += q->recomputing;
        CHECK(q->load == seq_load(q)); /* (9) */
        load += q->load;
        prompts += q->load > REPLICA_ROW_LOAD + 1;
    }
    CHECK(leaving == r->leaving_count && resumed == r->resume_count); /* (9) */
    CHECK(load == r->load && prompts == r->prompt_count);             /* (9) */
    check_snapshots(r);
    for (uint32_t group = 0; group < r->group_count; group++) {
        block_pool_check(&r->pools[group]); /* (1) */
        clear(&seen.refs, r->pools[group].block_count);
        for (uint32_t i = 0; i < r->running_count; i++)
            check_tables(r->running[i], group);
        for (uint32_t block = 0; block < r->pools[group].block_count; block++)
            CHECK(seen.refs.items[block] == block_pool_refs(&r->pools[group], block)); /* (1) */
    }
}

/* ---- All ---- */

static void check_groups(const struct sched *s) {
    uint32_t active = 0;
    for (const struct list_node *at = s->groups.next; at != &s->groups; at = at->next) {
        const struct suspect_group *group = LIST_ITEM(at, const struct suspect_group, link);
        uint32_t count = 0;
        for (const struct list_node *m = group->members.next; m != &group->members;
             m = m->next, count++)
            CHECK(LIST_ITEM(m, const struct sequence, group_link)->group == group);
        CHECK(count == group->count && count > 0);
        CHECK(!group->replica || group->replica->testing == group);
        active += group->replica != NULL;
    }
    CHECK(active <= 1); /* (10) */
}

static void check_timers(const struct sched *s) {
    for (size_t i = 0; i < s->timers.count; i++) {
        const struct request *request = s->timers.items[i];
        CHECK(request->timer_idx == i && !request->dropped);
        if (i)
            CHECK(s->timers.items[(i - 1) / 2]->timer_at <= request->timer_at);
    }
}

static uint32_t count_new(const struct request *request) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < request->sequence_count; k++)
        count += seq_is_waiting(&request->sequences[k]) && !seq_is_resumed(&request->sequences[k]);
    return count;
}

static uint32_t count_waiting_new(const struct sched *s, const struct model *model) {
    uint32_t count = 0;
    for (size_t i = 0; i < s->request_ids.cap; i++) {
        const struct request *request = s->request_ids.entries[i].value;
        if (request && request->model == model)
            count += count_new(request);
    }
    return count;
}

/* Of those new ones of a tenant that wait, the ones that a bound holds for. */
static uint32_t count_tenant_new(const struct sched *s, const struct tenant *tenant) {
    uint32_t count = 0, probes = 0;
    for (size_t i = 0; i < s->request_ids.cap; i++) {
        const struct request *request = s->request_ids.entries[i].value;
        if (!request || request->tenant != tenant)
            continue;
        count += count_new(request);
        probes += request_is_probe(request) ? count_new(request) : 0;
    }
    uint32_t in_slots = 0;
    for (size_t i = 0; i < s->replicas.count; i++)
        for (uint32_t k = 0; k < s->replicas.items[i]->running_count; k++)
            in_slots += s->replicas.items[i]->running[k]->request->tenant == tenant;
    CHECK(count == tenant->new_count && in_slots == tenant->slot_count); /* (9) */
    return count - probes;
}

/* (7) Of a tenant that is the j-th largest: at most places / j. */
static void check_shares(const struct sched *s, const struct waiting *w, uint32_t waiting_new) {
    bool beyond = waiting_new > s->config.waiting_max && list_is_empty(&s->fresh);
    uint32_t slotted = 0;
    for (size_t i = 0; i < w->tenants.count; i++) {
        uint32_t own = count_tenant_new(s, w->tenants.items[i]), place = 0;
        slotted += w->tenants.items[i]->slot_count > 0;
        for (size_t k = 0; k < w->tenants.count && own && beyond; k++)
            place += count_tenant_new(s, w->tenants.items[k]) >= own;
        CHECK(own * place <= s->config.waiting_max);
    }
    CHECK(slotted == w->slotted); /* (9) */
}

static void check_waiting_new(const struct sched *s) {
    CHECK(count_waiting_new(s, NULL) == s->waiting_unbound); /* (9) */
    CHECK(s->unbound.count == 0);                            /* only tenants */
    check_shares(s, &s->unbound, s->waiting_unbound);
    for (const struct list_node *at = s->models.next; at != &s->models; at = at->next) {
        const struct model *model = LIST_ITEM(at, const struct model, link);
        CHECK(count_waiting_new(s, model) == model->waiting_new); /* (9) */
        check_shares(s, &model->waiting, model->waiting_new);
    }
}

/* (9) What admission.h keeps of those in slots. */
static void check_admission(const struct model *model) {
    const struct admission *a = &model->admission;
    struct model counted = {.admission = {.weight = 0}};
    for (size_t i = 0; i < model->replicas.count; i++)
        for (uint32_t k = 0; k < model->replicas.items[i]->running_count; k++)
            admission_enter(&counted, model->replicas.items[i]->running[k]);
    CHECK(a->running == counted.admission.running &&
          a->placed_sum == counted.admission.placed_sum &&
          a->steps_sum == counted.admission.steps_sum);
}

void sched_check(const struct sched *s) {
    seen.waiting_new = seen.waiting_resumed = seen.running = seen.parked = seen.paused = 0;
    seen.record_bytes = 0;
    for (size_t i = 0; i < s->request_ids.cap; i++)
        if (s->request_ids.entries[i].value)
            check_request(s, s->request_ids.entries[i].value);
    for (const struct list_node *at = s->dropped.next; at != &s->dropped; at = at->next)
        check_request(s, LIST_ITEM(at, const struct request, record_link));
    for (size_t i = 0; i < s->replicas.count; i++)
        check_replica(s, s->replicas.items[i]);
    for (const struct list_node *at = s->models.next; at != &s->models; at = at->next) {
        waiting_check(&LIST_ITEM(at, const struct model, link)->waiting);
        check_model(LIST_ITEM(at, const struct model, link));
        check_admission(LIST_ITEM(at, const struct model, link));
    }
    check_waiting_new(s);
    stream_owners_check(s);
    quotas_check(s);
    check_groups(s);
    check_timers(s);
    uint32_t parked = 0;
    for (const struct list_node *at = s->parked.next; at != &s->parked; at = at->next)
        parked++;
    /* (9) */
    CHECK(seen.waiting_new == s->waiting_new && seen.waiting_resumed == s->waiting_resumed);
    /* (9) */
    CHECK(seen.running == s->running && seen.record_bytes == s->record_bytes &&
          parked == seen.parked && s->paused == seen.paused);
}
