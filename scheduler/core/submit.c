#include "scheduler/core/submit.h"
#include "scheduler/core/core.h"
#include "scheduler/core/gateway.h"
#include "scheduler/core/models.h"
#include "scheduler/core/sequence_state.h"
#include "scheduler/core/timer.h"

#include <math.h>

/* ---- A Submit for a request that is known ---- */

static struct sequence *find_choice(struct request *request, uint32_t choice) {
    for (uint32_t i = 0; i < request->sequence_count; i++)
        if (request->sequences[i].choice == choice)
            return &request->sequences[i];
    return NULL;
}

static void merge_choice(struct sched *s, struct sequence *q, const struct wire_choice *choice) {
    uint32_t held = (uint32_t)choice->emitted.count, common = MIN(held, seq_output_count(q));
    q->quiet = false;
    if (choice->finished) {
        seq_finish(s, q, WIRE_FINISH_CANCELLED, true);
        q->quiet = true;
        return;
    }
    const uint32_t *ours = seq_tokens(q) + q->prompt_count;
    /* the gateway holds tokens that are not ours: it is right, they have been seen */
    if (held > seq_output_count(q) ||
        (common && memcmp(ours, choice->emitted.ids, common * sizeof *ours)))
        seq_restart(s, q, choice->emitted, choice->sampler_state);
    q->sent = q->acked = q->sent_high = held;
    q->finish_sent = false;
    /* complete as it stands: no row would ever end it; what is not validated yet ends then */
    enum wire_finish finish = q->request->validated ? seq_held_finish(q) : WIRE_FINISH_NONE;
    if (finish)
        seq_finish(s, q, finish, false);
}

/* A higher attempt: the gateway (perhaps another one) takes the request up from the tokens it
 * holds. */
static void take_over(struct sched *s, struct gateway *gateway, struct request *request,
                      const struct wire_submit *submit) {
    request_move(request, gateway);
    stream_taken(s, request);
    request->attempt = submit->attempt;
    request_pause(s, request, false);
    request->sequences[0].accepted_due = true;
    request->resumable = submit->resumable;
    request->progress = submit->progress;
    if (!request->resumable)
        stream_forget(s, request);
    request->deadline_at = submit->deadline_ms ? s->now + submit->deadline_ms : NEVER;
    for (size_t i = 0; i < submit->choice_count && !request->dropped; i++) {
        struct sequence *q = find_choice(request, submit->choices[i].choice);
        if (q)
            merge_choice(s, q, &submit->choices[i]);
    }
    if (request->dropped) /* its last sequence ended, and there was no room for its record */
        return;
    for (uint32_t i = 0; i < request->sequence_count; i++) {
        struct sequence *q = &request->sequences[i];
        seq_requeue(s, q);
        seq_dirty(s, q);
    }
    timer_update(s, request);
}

static bool emitted_is_valid(const struct request *request, const struct wire_submit *submit) {
    if (!request->validated)
        return true; /* all is checked when its model is known */
    for (size_t i = 0; i < submit->choice_count; i++)
        for (size_t k = 0; k < submit->choices[i].emitted.count; k++)
            if (submit->choices[i].emitted.ids[k] >= request->model->logits_width ||
                k >= request->max_tokens)
                return false;
    return true;
}

/* Its gateway was given up as silent, and speaks again. */
static void take_back(struct sched *s, struct gateway *gateway, struct request *request) {
    request_move(request, gateway);
    stream_taken(s, request);
    for (uint32_t i = 0; i < request->sequence_count; i++)
        seq_rewind(s, &request->sequences[i], request->sequences[i].acked);
}

/* true: the record is gone, and the Submit is to be treated as new. */
static bool submit_again(struct sched *s, struct gateway *gateway, struct request *request,
                         const struct wire_submit *submit) {
    if (!u128_equal(request->tenant_id, submit->tenant)) { /* an id is no right to it */
        reject_send(s, NULL, gateway->instance, request->id, submit->attempt, WIRE_REJECT_INVALID);
        return false;
    }
    if (!request->gateway && submit->attempt == request->attempt)
        take_back(s, gateway, request);
    bool same = submit->attempt == request->attempt && request->gateway == gateway;
    if (submit->attempt <= request->attempt && !same) {
        s->counts.stale_messages++;
        return false;
    }
    if (request->rejected) {
        bool final = request->rejected == WIRE_REJECT_POISON ||
                     request->rejected == WIRE_REJECT_TOO_LONG ||
                     request->rejected == WIRE_REJECT_INVALID;
        if (!same && !final) {
            request_drop(s, request);
            return true;
        }
        request_move(request, gateway);
        request->attempt = submit->attempt;
        reject_send(s, request->model, gateway->instance, request->id, request->attempt,
                    request->rejected);
        return false;
    }
    if (!same && !emitted_is_valid(request, submit)) {
        reject_send(s, NULL, gateway->instance, request->id, submit->attempt, WIRE_REJECT_INVALID);
        return false;
    }
    if (!same) {
        take_over(s, gateway, request, submit);
        return false;
    }
    request->sequences[0].accepted_due = true;
    for (uint32_t i = 0; i < request->sequence_count; i++)
        seq_rewind(s, &request->sequences[i], request->sequences[i].acked);
    return false;
}

/* For so many sequences more: the queue of this model, where its tenant has its share already.
 * Another model's is no reason, and a probe is never one too many. */
static bool is_full(struct sched *s, const struct wire_submit *submit, size_t count) {
    struct model *model = model_find(s, submit->model);
    size_t slots = model ? model->slot_total : 0; /* what may be placed in this turn */
    if (submit->priority == WIRE_PRIORITY_PROBE ||
        *model_waiting_new(s, model) + count <= s->config.waiting_max + slots)
        return false;
    const struct waiting *waiting = model_waiting(s, model);
    const struct tenant *tenant = waiting_tenant_find(waiting, submit_share_id(submit));
    uint32_t share = waiting_share(waiting, tenant, s->config.waiting_max);
    return (tenant ? tenant->new_count : 0) + count > share + slots;
}

void sched_submit(struct sched *s, int64_t now, struct u128 from,
                  const struct wire_submit *submit) {
    sched_at(s, now);
    struct gateway *gateway = gateway_get(s, from);
    enum wire_reject_code code = submit_check(submit);
    struct request *known = code ? NULL : id_map_get(&s->request_ids, submit->request);
    if (known && !submit_again(s, gateway, known, submit))
        return;
    size_t count = MAX(submit->choice_count, 1);
    if (!code && !stream_is_free(s, submit))
        code = WIRE_REJECT_MOVED;
    bool is_new = !submit->resumed; /* never taken, however often it was sent */
    if (!code && is_new) {
        if (s->draining)
            code = WIRE_REJECT_DRAINING;
        else if (is_full(s, submit, count))
            code = WIRE_REJECT_OVERLOADED;
    }
    uint32_t retry_ms;
    enum wire_reject_code bound = code || !is_new ? 0 : quota_check(s, submit, &retry_ms);
    if (bound) {
        reject_send_tenant(s, from, submit, bound, retry_ms);
        return;
    }
    if (code) {
        reject_send(s, model_find(s, submit->model), from, submit->request, submit->attempt, code);
        return;
    }
    struct request *request = request_new(s, gateway, submit);
    if (!request) {
        reject_send(s, model_find(s, submit->model), from, submit->request, submit->attempt,
                    WIRE_REJECT_OVERLOADED);
        return;
    }
    request->fresh = true;
    request->sequences[0].accepted_due = true;
    list_push(&s->fresh, &request->fresh_link);
    request_start(s, request);
}

/* Its tenant has no more than it finds in any case (waiting.h). */
static bool is_within_share(struct sched *s, const struct request *request) {
    const struct tenant *tenant = request->tenant;
    const struct waiting *waiting = model_waiting(s, request->model);
    CHECK(tenant);
    return tenant->new_count <= waiting_share(waiting, tenant, s->config.waiting_max);
}

/* The newest of this turn and of this model that may be refused: one that waits as a whole, if there
 * is any. */
static struct request *newest_fresh(struct sched *s, const struct model *model) {
    struct request *newest = NULL;
    for (struct list_node *at = s->fresh.prev; at != &s->fresh; at = at->prev) {
        struct request *request = LIST_ITEM(at, struct request, fresh_link);
        if (request->resumed || request->model != model || request_is_probe(request) ||
            is_within_share(s, request))
            continue;
        if (!request->sequences[0].started)
            return request;
        if (!newest)
            newest = request;
    }
    return newest;
}

/* Would it wait for a slot for longer than anybody should, or than it can? */
static bool waits_too_long(const struct sched *s, const struct request *request) {
    if (request->sequences[0].started || !request->model || !request->tenant->heap.count)
        return false;
    double most = request_most_wait_ms(s, request, admission_is_crowded(s, request));
    return most < INFINITY && admission_wait_ms(s, request) > most;
}

/* The newest of this turn first: those before it wait less without it. */
static void refuse_long_waits(struct sched *s) {
    struct list_node *before;
    for (struct list_node *at = s->fresh.prev; at != &s->fresh; at = before) {
        struct request *request = LIST_ITEM(at, struct request, fresh_link);
        before = at->prev;
        if (waits_too_long(s, request))
            request_reject(s, request, WIRE_REJECT_OVERLOADED);
    }
}

/* Too many wait for this model: the newest of this turn go, but for those within a share. */
static void refuse_too_many(struct sched *s, struct model *model) {
    struct request *refused;
    while (*model_waiting_new(s, model) > s->config.waiting_max &&
           (refused = newest_fresh(s, model)))
        request_reject(s, refused, WIRE_REJECT_OVERLOADED);
}

/* The others are told that they are taken. */
void new_requests_finish(struct sched *s) {
    refuse_long_waits(s);
    refuse_too_many(s, NULL);
    LIST_EACH(at, &s->models) refuse_too_many(s, LIST_ITEM(at, struct model, link));
    LIST_EACH(at, &s->fresh) {
        struct request *request = LIST_ITEM(at, struct request, fresh_link);
        list_remove(&request->fresh_link);
        request->fresh = false;
        request->submitted_at = s->now;
        seq_dirty(s, &request->sequences[0]);
    }
}

/* ---- Cancel, Pause, Ack, Resend, Attach ---- */

/* The request, if the message is of its gateway and attempt. unknown: told so, for the gateway has
 * to submit again. */
static struct request *addressed(struct sched *s, struct u128 from, struct u128 id,
                                 uint32_t attempt, bool tell_unknown) {
    struct gateway *gateway = gateway_get(s, from);
    struct request *request = id_map_get(&s->request_ids, id);
    if (!request) {
        if (tell_unknown)
            reject_send(s, NULL, from, id, attempt, WIRE_REJECT_UNKNOWN);
        return NULL;
    }
    if (!request->gateway && request->attempt == attempt)
        take_back(s, gateway, request);
    if (request->gateway == gateway && request->attempt == attempt) {
        request->probe_at = s->now + s->config.probe_ms;
        return request;
    }
    s->counts.stale_messages++;
    return NULL;
}

void sched_cancel(struct sched *s, int64_t now, struct u128 from,
                  const struct wire_cancel *cancel) {
    sched_at(s, now);
    struct request *request = addressed(s, from, cancel->request, cancel->attempt, false);
    if (!request)
        return;
    if (cancel->detach && request->resumable && !request->rejected) {
        request->attempt++; /* what that gateway still says of it is stale */
        request_detach(s, request);
        return;
    }
    if (cancel->choice == WIRE_ALL_CHOICES) {
        request_drop(s, request);
        return;
    }
    struct sequence *q = find_choice(request, cancel->choice);
    if (!q || request->rejected)
        return;
    q->quiet = true;
    seq_finish(s, q, WIRE_FINISH_CANCELLED, true);
    request_review(s, request);
}

void sched_pause(struct sched *s, int64_t now, struct u128 from, const struct wire_pause *pause) {
    sched_at(s, now);
    struct request *request = addressed(s, from, pause->request, pause->attempt, false);
    if (!request || request->paused == pause->paused)
        return;
    request_pause(s, request, pause->paused);
    for (uint32_t i = 0; i < request->sequence_count; i++)
        seq_requeue(s, &request->sequences[i]);
}

static void acknowledge(struct sched *s, struct request *request, uint32_t choice, uint32_t count) {
    struct sequence *q = find_choice(request, choice);
    if (!q || request->rejected || count <= q->acked)
        return;
    if (count > q->sent_high) {
        s->counts.stale_messages++;
        return;
    }
    q->acked = count;
    q->sent = MAX(q->sent, MIN(count, seq_output_count(q)));
    q->finish_sent = q->finish_sent || count > seq_output_count(q);
    request->backoff_ms = (uint32_t)s->config.retransmit_ms;
    if (request->retransmit_at != NEVER)
        request->retransmit_at = s->now + request->backoff_ms;
    if (request->open_count == 0)
        request_review(s, request);
}

void sched_ack(struct sched *s, int64_t now, struct u128 from, const struct wire_ack *ack) {
    sched_at(s, now);
    size_t count = MIN(MIN(ack->requests.count, ack->attempts.count),
                       MIN(ack->choices.count, ack->counts.count));
    for (size_t i = 0; i < count; i++) {
        struct request *request =
            addressed(s, from, ack->requests.items[i], ack->attempts.items[i], true);
        if (!request)
            continue;
        if (request->rejected)
            reject_send(s, request->model, from, request->id, request->attempt, request->rejected);
        acknowledge(s, request, ack->choices.items[i], ack->counts.items[i]);
    }
}

void sched_resend(struct sched *s, int64_t now, struct u128 from,
                  const struct wire_resend *resend) {
    sched_at(s, now);
    struct request *request = addressed(s, from, resend->request, resend->attempt, true);
    struct sequence *q =
        request && !request->rejected ? find_choice(request, resend->choice) : NULL;
    if (!q || resend->index > seq_output_count(q))
        return;
    q->acked = MIN(q->acked, resend->index);
    seq_rewind(s, q, resend->index);
}

static bool attach_is_valid(const struct sched *s, struct request *request,
                            const struct wire_attach *attach) {
    if (!u128_equal(request->tenant_id, attach->tenant) || request->rejected ||
        request_embeds(request))
        return false;
    if (!u128_is_zero(attach->new_request)) {
        const struct request *same = id_map_get(&s->request_ids, attach->new_request);
        if (same && same != request)
            return false;
    } else if (attach->attempt < request->attempt) {
        return false;
    }
    size_t count = MIN(attach->choices.count, attach->indexes.count);
    for (size_t i = 0; i < count; i++) {
        struct sequence *q = find_choice(request, attach->choices.items[i]);
        if (!q || attach->indexes.items[i] > seq_output_count(q))
            return false;
    }
    return true;
}

static uint32_t attach_index(const struct wire_attach *attach, uint32_t choice) {
    for (size_t i = 0; i < MIN(attach->choices.count, attach->indexes.count); i++)
        if (attach->choices.items[i] == choice)
            return attach->indexes.items[i];
    return 0;
}

/* Whoever had it hears that it is gone; the one who asked, what it is. */
static void rename_to(struct sched *s, struct request *request, struct gateway *gateway,
                      const struct wire_attach *attach) {
    if (!u128_equal(request->id, attach->new_request)) {
        if (request->gateway)
            reject_send(s, request->model, request->gateway->instance, request->id,
                        request->attempt, WIRE_REJECT_MOVED);
        request_rename(s, request, attach->new_request);
    }
    request->attempt = attach->attempt;
    stream_tell(s, request, gateway->instance);
}

void sched_attach(struct sched *s, int64_t now, struct u128 from,
                  const struct wire_attach *attach) {
    sched_at(s, now);
    struct gateway *gateway = gateway_get(s, from);
    bool by_name = u128_is_zero(attach->request), renamed = !u128_is_zero(attach->new_request);
    struct request *request = by_name ? stream_find(s, attach->tenant, attach->stream)
                                      : id_map_get(&s->request_ids, attach->request);
    if (!request || !attach_is_valid(s, request, attach)) {
        reject_send(s, NULL, from, renamed ? attach->new_request : attach->request, attach->attempt,
                    WIRE_REJECT_UNKNOWN);
        return;
    }
    if (renamed)
        rename_to(s, request, gateway, attach);
    stream_taken(s, request);
    request_move(request, gateway);
    request->attempt = attach->attempt;
    request_pause(s, request, false);
    request->sequences[0].accepted_due = true;
    for (uint32_t i = 0; i < request->sequence_count; i++) {
        struct sequence *q = &request->sequences[i];
        q->quiet = false;
        q->sent = q->acked = q->sent_high = attach_index(attach, q->choice);
        q->finish_sent = false;
        seq_requeue(s, q);
        seq_dirty(s, q);
    }
}
