#include "scheduler/core/timer.h"
#include "scheduler/core/core.h"
#include "scheduler/core/gateway.h"
#include "scheduler/core/place.h"
#include "scheduler/core/sequence_state.h"

static void heap_set(struct sched *s, uint32_t at, struct request *request) {
    s->timers.items[at] = request;
    request->timer_idx = at;
}

static void sift(struct sched *s, uint32_t at) {
    struct request **heap = s->timers.items, *request = heap[at];
    for (; at && request->timer_at < heap[(at - 1) / 2]->timer_at; at = (at - 1) / 2)
        heap_set(s, at, heap[(at - 1) / 2]);
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= s->timers.count)
            break;
        if (child + 1 < s->timers.count && heap[child + 1]->timer_at < heap[child]->timer_at)
            child++;
        if (heap[child]->timer_at >= request->timer_at)
            break;
        heap_set(s, at, heap[child]);
        at = child;
    }
    heap_set(s, at, request);
}

static int64_t due_at(const struct request *request) {
    int64_t deadline = request->open_count ? request->deadline_at : NEVER;
    int64_t probe = request->open_count ? request->probe_at : NEVER;
    return MIN(MIN(MIN(deadline, probe), request->retransmit_at),
               MIN(request->expire_at, request->unbound_until));
}

void timer_update(struct sched *s, struct request *request) {
    int64_t due = due_at(request);
    if (request->timer_idx == UINT32_MAX) {
        if (due == NEVER)
            return;
        request->timer_at = due;
        vec_push(&s->timers, request);
        sift(s, (uint32_t)s->timers.count - 1);
    } else if (due < request->timer_at) {
        request->timer_at = due;
        sift(s, request->timer_idx);
    }
}

void timer_remove(struct sched *s, struct request *request) {
    uint32_t at = request->timer_idx;
    if (at == UINT32_MAX)
        return;
    request->timer_idx = UINT32_MAX;
    struct request *last = s->timers.items[--s->timers.count];
    if (last == request)
        return;
    heap_set(s, at, last);
    sift(s, at);
}

static void deadline_passed(struct sched *s, struct request *request) {
    request->deadline_at = NEVER;
    bool begun = false;
    for (uint32_t i = 0; i < request->sequence_count; i++)
        begun = begun || request->sequences[i].started || seq_output_count(&request->sequences[i]);
    if (!begun) {
        request_reject(s, request, WIRE_REJECT_DEADLINE);
        return;
    }
    for (uint32_t i = 0; i < request->sequence_count; i++)
        if (request->sequences[i].finish == WIRE_FINISH_NONE)
            seq_finish(s, &request->sequences[i], WIRE_FINISH_DEADLINE, false);
}

static void retransmit(struct sched *s, struct request *request) {
    bool owed = false;
    if (request->rejected) {
        if (!request->gateway || request->resend_count++ >= 4) {
            request->retransmit_at = NEVER;
            return;
        }
        reject_send(s, request->model, request->gateway->instance, request->id, request->attempt,
                    request->rejected);
        owed = true;
    }
    for (uint32_t i = 0; i < request->sequence_count && !request->rejected; i++) {
        struct sequence *q = &request->sequences[i];
        if (!seq_is_owed(q))
            continue;
        owed = true;
        seq_rewind(s, q, q->acked);
    }
    s->counts.retransmits += owed;
    request->backoff_ms = MIN(request->backoff_ms * 2, (uint32_t)s->config.retransmit_ms * 16);
    request->retransmit_at = owed ? s->now + request->backoff_ms : NEVER;
}

/* Nothing was heard of it for long: its Cancel may be lost. A gateway that does not know it will
 * say so. */
static void probe(struct sched *s, struct request *request) {
    request->probe_at = s->now + s->config.probe_ms;
    if (!request->gateway || request->gateway->silent)
        return;
    for (uint32_t i = 0; i < request->sequence_count; i++) {
        struct sequence *q = &request->sequences[i];
        if (q->finish != WIRE_FINISH_NONE)
            continue;
        q->accepted_due = true;
        seq_dirty(s, q);
    }
}

/* A replica that it fits may have come and be loading still. */
static void unbound_passed(struct sched *s, struct request *request) {
    bool begun = request->resumed || !u128_is_zero(request->revision);
    if (request_fits_somewhere(request)) {
        request->unbound_until = s->now + MAX(s->config.model_grace_ms, 1000);
        return;
    }
    request->unbound_until = NEVER;
    request_reject(s, request, begun ? WIRE_REJECT_REVISION : WIRE_REJECT_NO_MODEL);
}

static void request_due(struct sched *s, struct request *request) {
    if (request->open_count && request->deadline_at <= s->now)
        deadline_passed(s, request);
    if (!request->dropped && request->unbound_until <= s->now)
        unbound_passed(s, request);
    if (!request->dropped && request->retransmit_at <= s->now)
        retransmit(s, request);
    if (!request->dropped && request->open_count && request->probe_at <= s->now)
        probe(s, request);
    if (!request->dropped && request->expire_at <= s->now)
        request_forget(s, request);
}

void timers_run(struct sched *s) {
    while (s->timers.count && s->timers.items[0]->timer_at <= s->now) {
        struct request *request = s->timers.items[0];
        request_due(s, request);
        if (request->timer_idx == UINT32_MAX)
            continue; /* dropped */
        request->timer_at = due_at(request);
        CHECK(request->timer_at > s->now);
        if (request->timer_at == NEVER)
            timer_remove(s, request);
        else
            sift(s, request->timer_idx);
    }
}

int64_t timers_next(const struct sched *s) {
    return s->timers.count ? s->timers.items[0]->timer_at : NEVER;
}
