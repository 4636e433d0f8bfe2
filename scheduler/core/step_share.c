#include "scheduler/core/step_share.h"
#include "scheduler/core/core.h"
#include "scheduler/core/models.h"
#include "scheduler/core/sequence_state.h"

/* Positions that nothing in flight computes, or the last one's token still to come. */
static bool has_more(const struct sequence *q) {
    return request_embeds(q->request) ? q->computed_hi < q->tokens_hi : q->tokens_hi < q->max_total;
}

bool step_may_run(const struct replica *r, const struct sequence *q) {
    return !seq_is_leaving(q) && !q->request->paused && has_more(q) &&
           (!r->testing || q->group == r->testing);
}

/* Weights of those that want something. */
static double sum_wants(const struct replica *r) {
    const struct waiting *waiting = &r->model->waiting;
    double weights = 0;
    for (size_t i = 0; i < waiting->tenants.count; i++)
        waiting->tenants.items[i]->step_want_ms = 0;
    for (uint32_t i = 0; i < r->running_count; i++) {
        const struct sequence *q = r->running[i];
        struct tenant *tenant = q->request->tenant;
        if (request_is_probe(q->request) || !step_may_run(r, q))
            continue;
        if (tenant->step_want_ms == 0) {
            tenant->weight = q->request->weight ? q->request->weight : QUOTA_WEIGHT;
            weights += tenant->weight;
        }
        uint32_t tokens = MAX(MIN(q->tokens_hi - q->computed_hi, r->max_step_tokens), 1u);
        tenant->step_want_ms += r->cost.row_ms + r->cost.token_ms * tokens;
    }
    return weights;
}

/* The longest step that slows nobody down by more than the others' weights. */
static double longest(const struct replica *r, double weights) {
    const struct waiting *waiting = &r->model->waiting;
    double most = -1;
    for (size_t i = 0; i < waiting->tenants.count; i++) {
        const struct tenant *tenant = waiting->tenants.items[i];
        double ms = (r->cost.step_ms + tenant->step_want_ms) * weights / tenant->weight;
        if (tenant->step_want_ms > 0 && (most < 0 || ms < most))
            most = ms;
    }
    return most;
}

/* Who wants less than its part has what it wants; the others share what that leaves. Each has a row at
 * least, or nothing might run. */
static const double LEAST_MS = 1e-6;
static void share_out(const struct replica *r, double ms, double weights) {
    const struct waiting *waiting = &r->model->waiting;
    for (size_t i = 0; i < waiting->tenants.count; i++)
        waiting->tenants.items[i]->step_ms = -1;
    for (bool again = true; again;) {
        double share = ms / weights;
        again = false;
        for (size_t i = 0; i < waiting->tenants.count; i++) {
            struct tenant *tenant = waiting->tenants.items[i];
            if (tenant->step_ms >= 0 || tenant->step_want_ms <= 0 ||
                tenant->step_want_ms > share * tenant->weight)
                continue;
            tenant->step_ms = tenant->step_want_ms;
            ms -= tenant->step_want_ms;
            weights -= tenant->weight;
            again = weights > 0;
        }
    }
    for (size_t i = 0; i < waiting->tenants.count; i++) {
        struct tenant *tenant = waiting->tenants.items[i];
        if (tenant->step_ms < 0 && weights > 0)
            tenant->step_ms = ms / weights * tenant->weight;
        tenant->step_ms = MAX(tenant->step_ms, LEAST_MS);
    }
}

bool step_share(struct sched *s, struct replica *r) {
    const struct step_cost *cost = &r->cost;
    if (r->stage_count > 1 || cost->row_ms + cost->token_ms <= 0)
        return false;
    double weights = sum_wants(r), most = longest(r, weights), wanted = cost->step_ms;
    uint32_t count = 0;
    const struct waiting *waiting = &r->model->waiting;
    for (size_t i = 0; i < waiting->tenants.count; i++) {
        count += waiting->tenants.items[i]->step_want_ms > 0;
        wanted += waiting->tenants.items[i]->step_want_ms;
    }
    if (count > 1) {
        r->share_ms = most;
        r->share_until = s->now + s->config.share_linger_ms;
    } else if (s->now < r->share_until) {
        most = r->share_ms;
    } else {
        return false;
    }
    if (!count || wanted <= most)
        return false;
    share_out(r, MAX(most - cost->step_ms, 0), weights);
    return true;
}
