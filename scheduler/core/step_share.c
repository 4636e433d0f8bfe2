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

/* Those that want something; their weights. */
static double find_sharers(struct sched *s, const struct replica *r) {
    struct plan_build *b = &s->plan_build;
    double weights = 0;
    b->sharers.count = 0;
    for (uint32_t i = 0; i < r->running_count; i++)
        r->running[i]->request->tenant->step_want_ms = 0;
    for (uint32_t i = 0; i < r->running_count; i++) {
        const struct sequence *q = r->running[i];
        struct tenant *tenant = q->request->tenant;
        if (request_is_probe(q->request) || !step_may_run(r, q))
            continue;
        if (tenant->step_want_ms == 0) {
            tenant->weight = q->request->weight ? q->request->weight : QUOTA_WEIGHT;
            weights += tenant->weight;
            vec_push(&b->sharers, tenant);
        }
        uint32_t tokens = MAX(MIN(q->tokens_hi - q->computed_hi, r->max_step_tokens), 1u);
        tenant->step_want_ms += r->cost.row_ms + r->cost.token_ms * tokens;
    }
    return weights;
}

/* The longest step that slows nobody down by more than the others' weights; what all of them want. */
static double longest(const struct sched *s, const struct replica *r, double weights,
                      double *wanted) {
    double most = -1;
    *wanted = r->cost.step_ms;
    for (size_t i = 0; i < s->plan_build.sharers.count; i++) {
        const struct tenant *tenant = s->plan_build.sharers.items[i];
        double ms = (r->cost.step_ms + tenant->step_want_ms) * weights / tenant->weight;
        if (most < 0 || ms < most)
            most = ms;
        *wanted += tenant->step_want_ms;
    }
    return most;
}

/* Who wants less than its part has what it wants; the others share what that leaves. Each has a row at
 * least, or nothing might run. */
static const double LEAST_MS = 1e-6;
static void share_out(const struct sched *s, double ms, double weights) {
    struct tenant **items = s->plan_build.sharers.items;
    size_t count = s->plan_build.sharers.count;
    for (size_t i = 0; i < count; i++)
        items[i]->step_ms = -1;
    for (bool again = true; again;) {
        double share = ms / weights;
        again = false;
        for (size_t i = 0; i < count; i++) {
            struct tenant *tenant = items[i];
            if (tenant->step_ms >= 0 || tenant->step_want_ms > share * tenant->weight)
                continue;
            tenant->step_ms = tenant->step_want_ms;
            ms -= tenant->step_want_ms;
            weights -= tenant->weight;
            again = weights > 0;
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (items[i]->step_ms < 0 && weights > 0)
            items[i]->step_ms = ms / weights * items[i]->weight;
        items[i]->step_ms = MAX(items[i]->step_ms, LEAST_MS);
    }
}

bool step_share(struct sched *s, struct replica *r) {
    const struct step_cost *cost = &r->cost;
    bool lingers = s->now < r->share_until, alone = r->model->waiting.slotted <= 1;
    if (r->stage_count > 1 || cost->row_ms + cost->token_ms <= 0 || (alone && !lingers))
        return false;
    double weights = find_sharers(s, r), wanted, most = longest(s, r, weights, &wanted);
    size_t count = s->plan_build.sharers.count;
    if (count > 1) {
        r->share_ms = most;
        r->share_until = s->now + s->config.share_linger_ms;
    } else if (lingers) {
        most = r->share_ms;
    } else {
        return false;
    }
    if (!count || wanted <= most)
        return false;
    share_out(s, MAX(most - cost->step_ms, 0), weights);
    return true;
}
