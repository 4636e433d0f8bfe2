/* Routing, the plan of pairs, gather, experts' products, combine, clamped gate. */
#include "kernels/ref/ref.h"

#include <math.h>

/* ---- routing ---- */

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static void softmax(const float *logits, const uint32_t *idx, uint32_t count, float *out) {
    double max = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < count; i++)
        max = fmax(max, logits[idx ? idx[i] : i]);
    for (uint32_t i = 0; i < count; i++)
        sum += exp(logits[idx ? idx[i] : i] - max);
    for (uint32_t i = 0; i < count; i++)
        out[i] = (float)(exp(logits[idx ? idx[i] : i] - max) / sum);
}

/* The `count` largest of values, best first, lower index among equals; out of candidates where
 * taken is false. */
static void take_best(const float *values, bool *taken, uint32_t total, uint32_t count,
                      uint32_t *out) {
    for (uint32_t n = 0; n < count; n++) {
        uint32_t best = UINT32_MAX;
        for (uint32_t i = 0; i < total; i++)
            if (!taken[i] && (best == UINT32_MAX || values[i] > values[best]))
                best = i;
        CHECK(best != UINT32_MAX);
        taken[best] = true;
        out[n] = best;
    }
}

static float group_value(const float *choice, uint32_t size, uint32_t best) {
    bool taken[ROUTE_EXPERTS_MAX] = {false};
    uint32_t idx[ROUTE_TOP_MAX];
    float sum = 0;
    take_best(choice, taken, size, best, idx);
    for (uint32_t i = 0; i < best; i++)
        sum += choice[idx[i]];
    return sum;
}

/* Marks the experts of the groups that do not remain. */
static void drop_groups(const struct router *r, const float *choice, bool *taken) {
    uint32_t size = r->experts / r->groups, kept[ROUTE_EXPERTS_MAX];
    float values[ROUTE_EXPERTS_MAX];
    bool keep[ROUTE_EXPERTS_MAX] = {false};
    for (uint32_t g = 0; g < r->groups; g++)
        values[g] = group_value(choice + g * size, size, r->group_best);
    take_best(values, keep, r->groups, r->groups_kept, kept);
    for (uint32_t e = 0; e < r->experts; e++)
        taken[e] = !keep[e / size];
}

static void weigh(const struct router *r, const float *logits, const float *score,
                  const uint32_t *chosen, float *weights) {
    float sum = 0;
    if (r->weight == ROUTE_BY_SOFTMAX)
        softmax(logits, chosen, r->top_k, weights);
    for (uint32_t j = 0; j < r->top_k; j++) {
        if (r->weight == ROUTE_BY_SCORE)
            weights[j] = score[chosen[j]];
        if (r->weight == ROUTE_BY_SIGMOID)
            weights[j] = (float)sigmoid(logits[chosen[j]]);
        sum += weights[j];
    }
    for (uint32_t j = 0; j < r->top_k; j++) {
        if (r->renormalise)
            weights[j] /= sum + r->renormalise_eps;
        weights[j] *= r->scale;
    }
}

void ref_route_row(const struct op_route *a, uint32_t t) {
    const struct router *r = a->router;
    const float *logits = a->logits + (size_t)t * r->experts;
    float score[ROUTE_EXPERTS_MAX], choice[ROUTE_EXPERTS_MAX];
    bool taken[ROUTE_EXPERTS_MAX] = {false};
    uint32_t *chosen = a->plan->chosen + (size_t)t * r->top_k;
    if (r->score == ROUTE_SOFTMAX)
        softmax(logits, NULL, r->experts, score);
    for (uint32_t e = 0; e < r->experts; e++) {
        if (r->score == ROUTE_SIGMOID)
            score[e] = (float)sigmoid(logits[e]);
        if (r->score == ROUTE_LOGIT)
            score[e] = logits[e];
        choice[e] = score[e] + (a->correction ? a->correction[e] : 0);
    }
    if (r->groups > 1)
        drop_groups(r, choice, taken);
    take_best(choice, taken, r->experts, r->top_k, chosen);
    weigh(r, logits, score, chosen, a->plan->weights + (size_t)t * r->top_k);
}

void ref_expert_sort(const struct op_route *a) {
    const struct expert_plan *plan = a->plan;
    uint32_t pair_count = a->rows * a->router->top_k, experts = a->router->experts,
             next[ROUTE_EXPERTS_MAX + 1] = {0};
    for (uint32_t p = 0; p < pair_count; p++)
        next[plan->chosen[p] + 1]++;
    for (uint32_t e = 0; e < experts; e++)
        next[e + 1] += next[e];
    memcpy(plan->offsets, next, (experts + 1) * sizeof *next);
    for (uint32_t p = 0; p < pair_count; p++) {
        uint32_t place = next[plan->chosen[p]]++;
        plan->pairs[place] = p;
        plan->places[p] = place;
    }
}

void ref_route(struct stream *s, const struct op_route *a) {
    CHECK(a->router->experts <= ROUTE_EXPERTS_MAX &&
          a->router->top_k <= MIN(a->router->experts, ROUTE_TOP_MAX + 0u));
    for (uint32_t t = 0; t < a->rows; t++)
        ref_route_row(a, t);
    ref_expert_sort(a);
}

/* ---- rows to experts and back ---- */

void ref_expert_gather(struct stream *s, const struct op_expert_gather *a) {
    for (uint32_t i = 0; i < a->rows * a->top_k; i++) {
        uint32_t pair = a->plan->pairs[i];
        const float *x = (const float *)a->x + (size_t)(pair / a->top_k) * a->width;
        float *out = (float *)a->out + (size_t)i * a->width,
              weight = a->weighted ? a->plan->weights[pair] : 1;
        for (uint32_t k = 0; k < a->width; k++)
            out[k] = x[k] * weight;
    }
}

void ref_expert_linear(struct stream *s, const struct op_expert_linear *a) {
    CHECK(a->plan->offsets[a->w->expert_count] == a->rows * a->top_k);
    for (uint32_t e = 0; e < a->w->expert_count; e++) {
        uint32_t first = a->plan->offsets[e], count = a->plan->offsets[e + 1] - first;
        struct op_linear op = {.out = (float *)a->out + (size_t)first * a->w->rows,
                               .x = (const float *)a->x + (size_t)first * a->w->cols,
                               .w = &a->w->experts[e],
                               .rows = count,
                               .class_rows = count,
                               .out_stride = a->w->rows};
        if (count)
            ref_linear(s, &op);
    }
}

void ref_expert_combine(struct stream *s, const struct op_expert_combine *a) {
    for (uint32_t t = 0; t < a->rows; t++)
        for (uint32_t i = 0; i < a->width; i++) {
            double sum = 0;
            for (uint32_t j = 0; j < a->top_k; j++) {
                size_t pair = (size_t)t * a->top_k + j;
                double y = ((const float *)a->y)[(size_t)a->plan->places[pair] * a->width + i];
                sum += a->weighted ? y * a->plan->weights[pair] : y;
            }
            size_t at = (size_t)t * a->width + i;
            if (a->shared)
                sum += ((const float *)a->shared)[at] *
                       (a->shared_gate ? sigmoid(a->shared_gate[t]) : 1.0);
            ((float *)a->out)[at] = (float)sum;
        }
}

void ref_clamped_swiglu(struct stream *s, const struct op_clamped_swiglu *a) {
    for (uint32_t t = 0; t < a->rows; t++)
        for (uint32_t i = 0; i < a->width; i++) {
            const float *row = (const float *)a->gate_up + (size_t)t * 2 * a->width;
            double gate = row[a->interleaved ? 2 * i : i],
                   up = row[a->interleaved ? 2 * i + 1 : a->width + i];
            gate = gate > a->limit ? a->limit : gate;
            up = up > a->limit ? a->limit : up < -a->limit ? -a->limit : up;
            ((float *)a->out)[(size_t)t * a->width + i] =
                (float)((up + 1) * gate * sigmoid(a->alpha * gate));
        }
}
