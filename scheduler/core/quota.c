#include "scheduler/core/quota.h"
#include "scheduler/core/core.h"
#include "scheduler/core/request.h"

enum { MINUTE_MS = 60000, RETRY_MS = 1000, RETRY_MAX_MS = 600000 };

void quotas_init(struct quotas *q) {
    *q = (struct quotas){0};
    list_init(&q->idle);
}

/* No tenant is a tenant, too. */
static struct u128 key_of(struct u128 tenant) {
    return (struct u128){tenant.lo, tenant.hi ^ 1};
}

static void forget(struct quotas *q, struct quota *quota) {
    CHECK(!quota->request_count && !quota->open);
    list_remove(&quota->idle_link);
    id_map_remove(&q->ids, key_of(quota->tenant));
    mem_free(quota);
}

void quotas_release(struct quotas *q) {
    LIST_EACH(at, &q->idle) forget(q, LIST_ITEM(at, struct quota, idle_link));
    CHECK(q->ids.count == 0);
    id_map_release(&q->ids);
}

/* The bucket as it is now. */
static void fill(struct sched *s, struct quota *quota) {
    double more = (double)(s->now - quota->filled_at) * quota->minute_tokens / MINUTE_MS;
    quota->left = MIN(quota->left + more, (double)quota->minute_tokens);
    quota->filled_at = s->now;
}

static void set_bounds(struct sched *s, struct quota *quota, const struct wire_submit *submit) {
    fill(s, quota);
    if (submit->tenant_minute_tokens != quota->minute_tokens) /* what is owed stays owed */
        quota->left += (double)submit->tenant_minute_tokens - quota->minute_tokens;
    quota->minute_tokens = submit->tenant_minute_tokens;
    quota->requests_max = submit->tenant_requests;
}

/* Those that nobody would miss: full, or more than are remembered. */
static void trim_idle(struct sched *s) {
    struct quotas *q = &s->quotas;
    while (!list_is_empty(&q->idle)) {
        struct quota *first = LIST_ITEM(q->idle.next, struct quota, idle_link);
        fill(s, first);
        if (first->left < first->minute_tokens && q->ids.count < QUOTA_IDLE_MAX)
            return;
        forget(q, first);
    }
}

static struct quota *find(struct sched *s, const struct wire_submit *submit) {
    struct quota *quota = id_map_get(&s->quotas.ids, key_of(submit->tenant));
    if (quota)
        set_bounds(s, quota, submit);
    return quota;
}

static bool is_bound(const struct wire_submit *submit) {
    return submit->tenant_requests || submit->tenant_minute_tokens;
}

enum wire_reject_code quota_check(struct sched *s, const struct wire_submit *submit,
                                  uint32_t *retry_ms) {
    struct quota *quota =
        is_bound(submit) && !submit->tenant_taken && submit->priority != WIRE_PRIORITY_PROBE
            ? find(s, submit)
            : NULL;
    *retry_ms = RETRY_MS;
    if (!quota)
        return 0;
    if (quota->minute_tokens && quota->left <= 0) {
        double wait = (1 - quota->left) * MINUTE_MS / quota->minute_tokens;
        *retry_ms = (uint32_t)MIN(MAX(wait, 1.0), (double)RETRY_MAX_MS);
        return WIRE_REJECT_TENANT_TOKENS;
    }
    bool full = quota->requests_max && quota->open >= quota->requests_max;
    return full ? WIRE_REJECT_TENANT_REQUESTS : 0;
}

void quota_take(struct sched *s, struct request *request, const struct wire_submit *submit) {
    CHECK(!request->quota);
    request->weight = submit->tenant_weight ? submit->tenant_weight : QUOTA_WEIGHT;
    if (!is_bound(submit) || request_is_probe(request))
        return;
    struct quota *quota = find(s, submit);
    if (!quota) {
        trim_idle(s);
        quota = mem_alloc(sizeof *quota);
        *quota = (struct quota){.tenant = submit->tenant, .filled_at = s->now};
        set_bounds(s, quota, submit);
        id_map_put(&s->quotas.ids, key_of(submit->tenant), quota);
    }
    list_remove(&quota->idle_link);
    quota->request_count++;
    request->quota = quota;
    request->quota_counts = !submit->tenant_taken;
    quota_reopen(request);
    if (!request->resumed)
        quota_charge(s, request, (uint32_t)request->prompt.count);
}

void quota_undo(struct sched *s, struct request *request) {
    struct quota *quota = request->quota;
    quota_close(request);
    if (quota && !request->resumed) {
        fill(s, quota);
        quota->left = MIN(quota->left + (double)request->prompt.count, quota->minute_tokens);
    }
}

void quota_close(struct request *request) {
    if (request->quota && request->quota_open)
        request->quota->open--;
    request->quota_open = false;
}

void quota_reopen(struct request *request) {
    if (!request->quota || request->quota_open || !request->quota_counts)
        return;
    request->quota_open = true;
    request->quota->open++;
}

void quota_charge(struct sched *s, struct request *request, uint32_t tokens) {
    if (!request->quota || !request->quota->minute_tokens)
        return;
    fill(s, request->quota);
    request->quota->left -= tokens;
}

void quota_leave(struct sched *s, struct request *request) {
    struct quota *quota = request->quota;
    if (!quota)
        return;
    quota_close(request);
    request->quota = NULL;
    if (--quota->request_count == 0)
        list_push(&s->quotas.idle, &quota->idle_link);
}

uint64_t quota_cost(const struct request *request, uint32_t tokens) {
    uint32_t weight = request->weight ? request->weight : QUOTA_WEIGHT;
    return (uint64_t)tokens * QUOTA_UNIT / weight;
}

void quotas_check(const struct sched *s) {
    uint32_t idle = 0, without = 0;
    for (const struct list_node *at = s->quotas.idle.next; at != &s->quotas.idle; at = at->next) {
        const struct quota *quota = LIST_ITEM(at, const struct quota, idle_link);
        CHECK(quota->request_count == 0 && quota->open == 0); /* (2) */
        idle++;
    }
    for (size_t i = 0; i < s->quotas.ids.cap; i++) {
        const struct quota *quota = s->quotas.ids.entries[i].value;
        uint32_t open = 0;
        if (!quota)
            continue;
        without += quota->request_count == 0;
        for (size_t k = 0; k < s->request_ids.cap; k++) {
            const struct request *request = s->request_ids.entries[k].value;
            open += request && request->quota == quota && request->quota_open;
        }
        CHECK(open == quota->open); /* (1) */
    }
    CHECK(idle == without); /* (2) */
}
