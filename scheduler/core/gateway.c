#include "scheduler/core/gateway.h"
#include "scheduler/core/core.h"
#include "scheduler/core/sequence_state.h"
#include "scheduler/core/timer.h"

/* Its requests' sequences go where they belong now that the gateway is there, or is not. */
static void requeue_all(struct sched *s, struct gateway *gateway) {
    LIST_EACH(at, &gateway->requests) {
        struct request *request = LIST_ITEM(at, struct request, gateway_link);
        bool unwanted = gateway->silent && !request->resumable;
        for (uint32_t i = 0; i < request->sequence_count; i++) {
            struct sequence *q = &request->sequences[i];
            if (unwanted && seq_in_slot(q))
                seq_preempt(s, q);
            else
                seq_requeue(s, q);
        }
    }
}

static void wake(struct sched *s, struct gateway *gateway) {
    gateway->silent = false;
    requeue_all(s, gateway);
    LIST_EACH(at, &gateway->requests) {
        struct request *request = LIST_ITEM(at, struct request, gateway_link);
        for (uint32_t i = 0; i < request->sequence_count; i++)
            seq_dirty(s, &request->sequences[i]);
    }
}

struct gateway *gateway_get(struct sched *s, struct u128 instance) {
    struct gateway *gateway = id_map_get(&s->gateway_ids, instance);
    if (!gateway) {
        gateway = mem_alloc(sizeof *gateway);
        *gateway = (struct gateway){.instance = instance};
        list_init(&gateway->requests);
        list_init(&gateway->dirty);
        list_push(&s->gateways, &gateway->link);
        id_map_put(&s->gateway_ids, instance, gateway);
    }
    if (gateway->silent)
        wake(s, gateway);
    return gateway;
}

/* Drops its requests; resumable ones run on without it. */
void gateway_drop(struct sched *s, struct gateway *gateway) {
    while (!list_is_empty(&gateway->requests)) { /* to keep one may drop others */
        struct request *request = LIST_ITEM(gateway->requests.next, struct request, gateway_link);
        if (!request->resumable || request->rejected) {
            request_drop(s, request);
            continue;
        }
        request_detach(s, request);
    }
    CHECK(list_is_empty(&gateway->requests) && list_is_empty(&gateway->dirty));
    id_map_remove(&s->gateway_ids, gateway->instance);
    list_remove(&gateway->link);
    mem_free(gateway);
}

void gateways_run(struct sched *s) {
    LIST_EACH(at, &s->gateways) {
        struct gateway *gateway = LIST_ITEM(at, struct gateway, link);
        if (gateway->silent && s->now - gateway->silent_since >= s->config.silence_drop_ms)
            gateway_drop(s, gateway);
    }
}

int64_t gateways_next(const struct sched *s) {
    int64_t next = NEVER;
    for (const struct list_node *at = s->gateways.next; at != &s->gateways; at = at->next) {
        const struct gateway *gateway = LIST_ITEM(at, const struct gateway, link);
        if (gateway->silent)
            next = MIN(next, gateway->silent_since + s->config.silence_drop_ms);
    }
    return next;
}

void sched_gateway_up(struct sched *s, int64_t now, struct u128 gateway) {
    sched_at(s, now);
    if (!u128_is_zero(gateway))
        gateway_get(s, gateway);
}

void sched_gateway_silent(struct sched *s, int64_t now, struct u128 instance) {
    sched_at(s, now);
    struct gateway *gateway = id_map_get(&s->gateway_ids, instance);
    if (!gateway || gateway->silent)
        return;
    gateway->silent = true;
    gateway->silent_since = s->now;
    requeue_all(s, gateway);
}

void sched_gateway_gone(struct sched *s, int64_t now, struct u128 instance) {
    sched_at(s, now);
    struct gateway *gateway = id_map_get(&s->gateway_ids, instance);
    if (gateway)
        gateway_drop(s, gateway);
}
