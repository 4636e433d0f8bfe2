#include "scheduler/core/admission.h"
#include "scheduler/core/core.h"
#include "scheduler/core/models.h"
#include "scheduler/core/place.h"
#include "scheduler/core/plan.h"
#include "scheduler/core/replica.h"
#include "scheduler/core/request.h"
#include "scheduler/core/sequence_state.h"

enum {
    GUESS_WEIGHT = 4,          /* of the guess, in slots that came free */
    GUESS_OUTPUT_TOKENS = 256, /* of a request that says no less */
    FEW = 4,                   /* that many are no crowd, */
    CROWD_MS = 10000           /* unless there was one so short a time ago */
};
static const double KEEP = 0.98; /* of what was observed, at each observation */

/* ---- Slots ---- */

void admission_observe(struct model *model, int64_t held_ms) {
    struct admission *a = &model->admission;
    a->held_ms = a->held_ms * KEEP + (double)held_ms;
    a->weight = a->weight * KEEP + 1;
}

uint32_t admission_guess_tokens(const struct request *request) {
    return MIN(MAX(request->max_tokens, 1u), (uint32_t)GUESS_OUTPUT_TOKENS);
}

void admission_enter(struct model *model, const struct sequence *q) {
    struct admission *a = &model->admission;
    a->running++;
    a->placed_sum += q->placed_at;
    a->steps_sum += admission_guess_tokens(q->request);
}

void admission_leave(struct model *model, const struct sequence *q, int64_t now, bool ended) {
    struct admission *a = &model->admission;
    a->running--;
    a->placed_sum -= q->placed_at;
    a->steps_sum -= admission_guess_tokens(q->request);
    if (ended)
        admission_observe(model, now - q->placed_at);
    else
        a->held_ms += (double)(now - q->placed_at);
}

/* Until so many tokens of prompts are computed, a piece in each step beside so many rows. */
static double prompt_ms(const struct sched *s, const struct replica *r, double tokens,
                        uint32_t rows) {
    uint32_t most = plan_step_tokens(s, r), beside = rows / r->stage_count,
             chunk = plan_chunk_tokens(s, r, most > beside ? most - beside : 1, beside);
    return tokens * step_cost_ms(&r->cost, beside + 1.0, (double)beside + chunk) / chunk;
}

/* Until the prompts that are in slots now are computed, where there is least of them. */
static double slots_ms(const struct sched *s, const struct model *model) {
    double least = -1;
    for (size_t i = 0; i < model->replicas.count; i++) {
        const struct replica *r = model->replicas.items[i];
        if (r->state != REPLICA_READY)
            continue;
        double tokens = (double)replica_backlog(r);
        double ms = prompt_ms(s, r, tokens, r->running_count - r->prompt_count / 2);
        if (least < 0 || ms < least)
            least = ms;
    }
    return MAX(least, 0.0);
}

/* From one slot that comes free to the next; 0: not known. */
static double turnover_ms(const struct sched *s, const struct model *model) {
    const struct admission *a = &model->admission;
    double step_ms = 0;
    if (!a->running)
        return 0;
    for (size_t i = 0; i < model->replicas.count; i++)
        step_ms = MAX(step_ms, model->replicas.items[i]->ms_per_step);
    double ages = (double)((int64_t)a->running * s->now - a->placed_sum),
           guess = step_ms * (double)a->steps_sum / a->running,
           weight = a->weight + (guess > 0 ? GUESS_WEIGHT : 0),
           held = weight > 0 ? (a->held_ms + guess * GUESS_WEIGHT) / weight : 0;
    return MAX(held, ages / a->running) / a->running;
}

/* A slot comes free with a step's result, and then the next step is under way, where there may be two. */
static double step_between_ms(const struct model *model) {
    double least = -1;
    for (size_t i = 0; i < model->replicas.count; i++) {
        const struct replica *r = model->replicas.items[i];
        double ms = r->steps_in_flight > 1 && r->stage_count == 1 ? r->ms_per_step : 0;
        if (r->state == REPLICA_READY && (least < 0 || ms < least))
            least = ms;
    }
    return MAX(least, 0.0);
}

/* The first of a tenant without a slot takes one of a tenant that has several (place.c). */
static bool takes_a_slot(const struct request *request) {
    const struct waiting *w = &request->model->waiting;
    if (request->tenant->slot_count || request->tenant->heap.count > request->sequence_count)
        return false;
    for (size_t i = 0; i < w->tenants.count; i++)
        if (w->tenants.items[i]->slot_count > 1)
            return true;
    return false;
}

/* Of the prompts in slots, the part that goes before a newcomer: what its tenant has, as far as its
 * slots tell, and as much of each other. */
static double share_of_slots(const struct request *request) {
    const struct model *model = request->model;
    double own = (double)request->tenant->slot_count * model->waiting.slotted;
    return own < model->admission.running ? own / model->admission.running : 1;
}

/* Of a tenant of which something waits; nobody has heard of a weight yet: as ours. */
static uint32_t weight_of(const struct tenant *tenant, uint32_t fallback) {
    return tenant->heap.count ? tenant->heap.items[0]->request->weight : fallback;
}

double admission_wait_ms(const struct sched *s, const struct request *request) {
    const struct waiting *w = &request->model->waiting;
    size_t own = request->tenant->new_count, before = w->resumed.count, leaving = 0;
    for (size_t i = 0; i < w->tenants.count; i++) {
        const struct tenant *other = w->tenants.items[i];
        double turns = (double)own * weight_of(other, request->weight) / request->weight;
        if (other == request->tenant)
            before += own;
        else if (other->new_count)
            before += (size_t)MIN((double)other->new_count + other->slot_count, turns);
    }
    before -= MIN(before, request->sequence_count);
    for (size_t i = 0; i < request->model->replicas.count; i++)
        leaving += request->model->replicas.items[i]->leaving_count;
    double wait = 0;
    if (leaving <= before)
        wait = (double)(before + 1 - leaving) * turnover_ms(s, request->model) +
               step_between_ms(request->model);
    if (takes_a_slot(request))
        return MIN(wait, (double)s->config.slot_wait_ms);
    return wait + slots_ms(s, request->model) * share_of_slots(request);
}

void admission_queued(const struct sched *s, const struct sequence *q) {
    struct model *model = q->request->model;
    struct admission *a = &model->admission;
    if (a->running + model->waiting.count <= FEW || request_is_probe(q->request))
        return;
    if (s->now >= a->crowd_until)
        a->crowd_began = q->request->arrival;
    a->crowd_until = s->now + CROWD_MS;
}

bool admission_is_crowded(const struct sched *s, const struct request *request) {
    const struct admission *a = &request->model->admission;
    size_t count = a->running + request->model->waiting.count;
    if (s->config.wait_crowd)
        return count > s->config.wait_crowd;
    return count > FEW || (s->now < a->crowd_until && request->arrival > a->crowd_began);
}

/* ---- Prompts in slots ---- */

/* Of those in slots, how much of which prompts goes before a newcomer. */
struct ahead {
    double tokens;
    uint32_t rows;    /* that have a token in each step */
    uint32_t prompts; /* that will, by then */
};

static uint32_t prompt_left(const struct sequence *q) {
    uint32_t left = q->tokens_hi - q->computed_hi;
    return left > 1 && !seq_is_leaving(q) && !q->request->paused ? left : 0;
}

/* Each tenant's prompts into tenant.prompt_left. */
static struct ahead count_rows(const struct replica *r) {
    struct ahead ahead = {0};
    for (uint32_t i = 0; i < r->running_count; i++)
        r->running[i]->request->tenant->prompt_left = 0;
    for (uint32_t i = 0; i < r->running_count; i++) {
        const struct sequence *q = r->running[i];
        uint32_t left = prompt_left(q);
        q->request->tenant->prompt_left += left;
        ahead.prompts += left > 0;
        ahead.rows += !left && !seq_is_leaving(q) && !q->request->paused;
    }
    return ahead;
}

bool admission_is_overdue(const struct sched *s, const struct sequence *q) {
    const struct request *request = q->request;
    return s->config.wait_max_ms && !request->fresh && !seq_output_count(q) &&
           s->now - request->submitted_at >= s->config.wait_max_ms / 2;
}

/* Of its own tenant all that is no less important, but for the longest that may be overtaken: that one
 * goes last, be it the newcomer or not. Of the others as much, by their weights, as the tenant has then. */
static struct ahead count_ahead(const struct sched *s, const struct sequence *newcomer,
                                const struct replica *r, uint32_t left) {
    const struct request *request = newcomer->request;
    struct ahead ahead = count_rows(r);
    double own = left;
    uint32_t longest = left;
    for (uint32_t i = 0; i < r->running_count; i++) {
        const struct sequence *q = r->running[i];
        if (q->request->tenant != request->tenant || q->request->priority > request->priority)
            continue;
        own += prompt_left(q);
        if (!admission_is_overdue(s, q))
            longest = MAX(longest, prompt_left(q));
    }
    request->tenant->prompt_left = 0;
    ahead.tokens = own - longest;
    for (uint32_t i = 0; i < r->running_count; i++) {
        const struct request *other = r->running[i]->request;
        double most = own * other->weight / request->weight;
        ahead.tokens += MIN((double)other->tenant->prompt_left, most);
        other->tenant->prompt_left = 0;
    }
    return ahead;
}

double admission_delay_ms(const struct sched *s, const struct sequence *q,
                          const struct replica *r) {
    uint32_t block_tokens = r->groups[0].block_tokens,
             left = q->token_count - (uint32_t)r->hits.count * block_tokens;
    struct ahead ahead = count_ahead(s, q, r, left);
    double alone = prompt_ms(s, r, left, 0), tokens = ahead.tokens + left, first = 0;
    if (!ahead.rows) { /* a step of prompts alone comes first */
        first = MIN(tokens, (double)plan_step_tokens(s, r));
        tokens -= first;
    }
    double all =
        prompt_ms(s, r, first, 0) + prompt_ms(s, r, tokens, ahead.rows + ahead.prompts / 2);
    return all - alone + (double)(replica_free_at(s, r) - s->now);
}

double admission_queue_ms(const struct sched *s, const struct model *model) {
    return model->waiting.count * turnover_ms(s, model) + slots_ms(s, model);
}
