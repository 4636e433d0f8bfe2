#include "scheduler/core/admission.h"
#include "scheduler/core/core.h"
#include "scheduler/core/models.h"
#include "scheduler/core/replica.h"
#include "scheduler/core/request.h"

enum {
    GUESS_WEIGHT = 4,         /* of the guess, in slots that came free */
    GUESS_OUTPUT_TOKENS = 256 /* of a request that says no less */
};
static const double KEEP = 0.98; /* of what was observed, at each observation */

void admission_observe(struct model *model, int64_t held_ms) {
    struct admission *a = &model->admission;
    a->held_ms = a->held_ms * KEEP + (double)held_ms;
    a->weight = a->weight * KEEP + 1;
}

/* From one slot that comes free to the next; 0: not known. */
static double turnover_ms(const struct sched *s, const struct model *model) {
    double ages = 0, tokens = 0, step_ms = 0;
    uint32_t running = 0;
    for (size_t i = 0; i < model->replicas.count; i++) {
        const struct replica *r = model->replicas.items[i];
        for (uint32_t k = 0; k < r->running_count; k++) {
            ages += (double)(s->now - r->running[k]->placed_at);
            uint32_t most = MAX(r->running[k]->request->max_tokens, 1u);
            tokens += MIN(most, (uint32_t)GUESS_OUTPUT_TOKENS);
        }
        running += r->running_count;
        step_ms = MAX(step_ms, r->ms_per_step);
    }
    if (!running)
        return 0;
    double guess = step_ms * tokens / running;
    double weight = model->admission.weight + (guess > 0 ? GUESS_WEIGHT : 0);
    double held = weight > 0 ? (model->admission.held_ms + guess * GUESS_WEIGHT) / weight : 0;
    return MAX(held, ages / running) / running;
}

double admission_wait_ms(const struct sched *s, const struct request *request) {
    const struct waiting *w = &request->model->waiting;
    size_t own = request->tenant->heap.count, before = w->resumed.count;
    for (size_t i = 0; i < w->tenants.count; i++) {
        const struct tenant *other = w->tenants.items[i];
        if (!other->heap.count)
            continue;
        double turns = (double)own * other->heap.items[0]->request->weight / request->weight;
        before += (size_t)MIN((double)other->heap.count, turns);
    }
    before -= MIN(before, request->sequence_count);
    return before ? (double)before * turnover_ms(s, request->model) : 0;
}

double admission_queue_ms(const struct sched *s, const struct model *model) {
    return model->waiting.count * turnover_ms(s, model);
}
