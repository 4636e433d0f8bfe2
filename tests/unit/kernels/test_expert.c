/* Mixtures of experts: routing against an obvious model, the products against `linear`, the sums
 * against their definition; bits against batching. */
#include "rig.h"

/* ---- routing ---- */

struct ranked {
    double value;
    uint32_t idx;
};
static int by_rank(const void *a, const void *b) {
    const struct ranked *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? 1 : -1;
    return x->idx < y->idx ? -1 : 1;
}

/* The router's rules in double, by sorting. Returns the least gap between what was taken and what
 * was left: below rounding, the choice is anybody's. */
static double shadow_route(const struct router *r, const float *logits, const float *correction,
                           uint32_t *chosen, double *weights) {
    double score[ROUTE_EXPERTS_MAX], gap = INFINITY, total = 0, sum = 0;
    struct ranked order[ROUTE_EXPERTS_MAX], runs[ROUTE_EXPERTS_MAX];
    bool dropped[ROUTE_EXPERTS_MAX] = {false};
    for (uint32_t e = 0; e < r->experts; e++)
        total += exp((double)logits[e]);
    for (uint32_t e = 0; e < r->experts; e++) {
        score[e] = r->score == ROUTE_SOFTMAX   ? exp((double)logits[e]) / total
                   : r->score == ROUTE_SIGMOID ? 1 / (1 + exp(-(double)logits[e]))
                                               : (double)logits[e];
        order[e] = (struct ranked){score[e] + (correction ? (double)correction[e] : 0), e};
    }
    if (r->groups > 1) {
        uint32_t size = r->experts / r->groups;
        for (uint32_t g = 0; g < r->groups; g++) {
            struct ranked own[ROUTE_EXPERTS_MAX];
            memcpy(own, order + g * size, size * sizeof *own);
            qsort(own, size, sizeof *own, by_rank);
            runs[g] = (struct ranked){own[0].value + (r->group_best > 1 ? own[1].value : 0), g};
        }
        qsort(runs, r->groups, sizeof *runs, by_rank);
        if (r->groups_kept < r->groups)
            gap = runs[r->groups_kept - 1].value - runs[r->groups_kept].value;
        for (uint32_t g = r->groups_kept; g < r->groups; g++)
            for (uint32_t i = 0; i < size; i++)
                dropped[runs[g].idx * size + i] = true;
    }
    for (uint32_t e = 0; e < r->experts; e++)
        if (dropped[e])
            order[e].value = -INFINITY;
    qsort(order, r->experts, sizeof *order, by_rank);
    for (uint32_t j = 0; j < r->top_k && j + 1 < r->experts; j++)
        gap = fmin(gap, order[j].value - order[j + 1].value);
    total = 0;
    for (uint32_t j = 0; j < r->top_k; j++)
        total += exp((double)logits[chosen[j] = order[j].idx]);
    for (uint32_t j = 0; j < r->top_k; j++) {
        double l = logits[chosen[j]];
        weights[j] = r->weight == ROUTE_BY_SCORE     ? score[chosen[j]]
                     : r->weight == ROUTE_BY_SOFTMAX ? exp(l) / total
                                                     : 1 / (1 + exp(-l));
        sum += weights[j];
    }
    for (uint32_t j = 0; j < r->top_k; j++)
        weights[j] =
            (r->renormalise ? weights[j] / (sum + (double)r->renormalise_eps) : weights[j]) *
            (double)r->scale;
    return gap;
}

struct plan {
    struct expert_plan plan;
    uint32_t pairs, experts;
};
static struct plan plan_new(uint32_t rows, const struct router *r) {
    uint32_t pairs = rows * r->top_k;
    return (struct plan){.pairs = pairs,
                         .experts = r->experts,
                         .plan = {.chosen = calloc(pairs + 1, 4),
                                  .weights = calloc(pairs + 1, 4),
                                  .offsets = calloc(r->experts + 1, 4),
                                  .pairs = calloc(pairs + 1, 4),
                                  .places = calloc(pairs + 1, 4)}};
}
static void plan_free(struct plan *p) {
    free(p->plan.chosen);
    free(p->plan.weights);
    free(p->plan.offsets);
    free(p->plan.pairs);
    free(p->plan.places);
}

/* Places hold each pair once, sorted by (expert, pair). */
static void check_sorted(const struct plan *p) {
    EXPECT(p->plan.offsets[0] == 0 && p->plan.offsets[p->experts] == p->pairs);
    for (uint32_t e = 0; e < p->experts; e++)
        for (uint32_t i = p->plan.offsets[e]; i < p->plan.offsets[e + 1]; i++) {
            uint32_t pair = p->plan.pairs[i];
            EXPECT(pair < p->pairs && p->plan.chosen[pair] == e && p->plan.places[pair] == i);
            EXPECT(i == p->plan.offsets[e] || p->plan.pairs[i - 1] < pair);
        }
}

static const struct router ROUTERS[] = {
    {ROUTE_SOFTMAX, ROUTE_BY_SCORE, 8, 2, 0, 0, 0, true, 0, 1},
    {ROUTE_SOFTMAX, ROUTE_BY_SCORE, 60, 4, 1, 1, 1, false, 0, 1},
    {ROUTE_LOGIT, ROUTE_BY_SOFTMAX, 32, 8, 0, 0, 0, false, 0, 1},
    {ROUTE_LOGIT, ROUTE_BY_SIGMOID, 16, 1, 0, 0, 0, false, 0, 1},
    {ROUTE_SOFTMAX, ROUTE_BY_SCORE, 160, 6, 8, 3, 1, false, 0, 16},
    {ROUTE_SIGMOID, ROUTE_BY_SCORE, 256, 8, 8, 4, 2, true, 1e-20f, 2.5f},
    {ROUTE_SIGMOID, ROUTE_BY_SCORE, 7, 7, 0, 0, 0, true, 0, 1.5f},
    {ROUTE_SIGMOID, ROUTE_BY_SCORE, 12, 4, 4, 2, 2, false, 0, 1},
    {ROUTE_SOFTMAX, ROUTE_BY_SCORE, 1, 1, 0, 0, 0, true, 0, 1},
};

static void check_routing(const char *isa, const struct router *r, uint32_t rows, bool corrected) {
    struct bench b = bench_open(isa, 2);
    struct plan p = plan_new(rows, r);
    float *logits = guarded((size_t)rows * r->experts), *correction = guarded(r->experts);
    for (size_t i = 0; i < (size_t)rows * r->experts; i++)
        logits[i] = (float)(check_random() % 60000001) / 1e7f - 3;
    for (size_t i = 0; i < r->experts; i++)
        correction[i] = (float)(check_random() % 2001) / 2000 - 0.5f;
    b.dev->ops->route(b.stream, &(struct op_route){.plan = &p.plan,
                                                   .router = r,
                                                   .logits = logits,
                                                   .correction = corrected ? correction : NULL,
                                                   .rows = rows});
    uint32_t clear = 0;
    for (uint32_t t = 0; t < rows; t++) {
        uint32_t chosen[ROUTE_TOP_MAX];
        double weights[ROUTE_TOP_MAX];
        if (shadow_route(r, logits + (size_t)t * r->experts, corrected ? correction : NULL, chosen,
                         weights) < 1e-6)
            continue;
        clear++;
        for (uint32_t j = 0; j < r->top_k; j++) {
            size_t i = (size_t)t * r->top_k + j;
            double tolerance = 16 * UNIT_ROUNDOFF * (r->top_k + 1) * fabs(weights[j]);
            if (p.plan.chosen[i] != chosen[j] ||
                !(fabs((double)p.plan.weights[i] - weights[j]) <= tolerance))
                check_fail(__FILE__, __LINE__,
                           "%s: %u experts, row %u choice %u: %u with %g, expected %u with %g", isa,
                           r->experts, t, j, p.plan.chosen[i], (double)p.plan.weights[i], chosen[j],
                           weights[j]);
        }
    }
    EXPECT(clear * 2 >= rows); /* near ties are left out: not most rows */
    check_sorted(&p);
    plan_free(&p);
    unguard(logits);
    unguard(correction);
    bench_close(&b);
}

TEST(routing_follows_its_rules) {
    FOR_EACH_ISA(isa)
    for (size_t i = 0; i < ARRAY_LEN(ROUTERS); i++)
        for (uint32_t rows = 0; rows < 40; rows += 13) {
            check_routing(isa, &ROUTERS[i], rows, false);
            if (ROUTERS[i].score == ROUTE_SIGMOID)
                check_routing(isa, &ROUTERS[i], rows, true);
        }
    for (size_t i = 0; i < ARRAY_LEN(ROUTERS); i++)
        check_routing("ref", &ROUTERS[i], 20, true);
}

TEST(equals_go_to_the_lower_expert_and_the_lower_group) {
    FOR_EACH_ISA(isa) {
        struct bench b = bench_open(isa, 1);
        struct router r = {ROUTE_SIGMOID, ROUTE_BY_SCORE, 8, 3, 4, 2, 1, true, 0, 1};
        struct plan p = plan_new(2, &r);
        float logits[16] = {0, 0, 1, 0, 1, 0, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2};
        b.dev->ops->route(
            b.stream,
            &(struct op_route){.plan = &p.plan, .router = &r, .logits = logits, .rows = 2});
        EXPECT(p.plan.chosen[0] == 2 && p.plan.chosen[1] == 4 && p.plan.chosen[2] == 3);
        EXPECT(p.plan.chosen[3] == 0 && p.plan.chosen[4] == 1 && p.plan.chosen[5] == 2);
        plan_free(&p);
        bench_close(&b);
    }
}

TEST(logits_that_are_not_finite_still_choose_distinct_experts) {
    FOR_EACH_ISA(isa)
    for (size_t i = 0; i < ARRAY_LEN(ROUTERS); i++) {
        const struct router *r = &ROUTERS[i];
        struct bench b = bench_open(isa, 1);
        struct plan p = plan_new(3, r);
        float *logits = guarded(3 * (size_t)r->experts);
        for (size_t n = 0; n < 3 * (size_t)r->experts; n++)
            logits[n] = n < r->experts ? NAN : n % 2 ? INFINITY : n % 3 ? NAN : -INFINITY;
        b.dev->ops->route(b.stream, &(struct op_route){
                                        .plan = &p.plan, .router = r, .logits = logits, .rows = 3});
        check_sorted(&p);
        for (uint32_t t = 0; t < 3; t++)
            for (uint32_t j = 0; j < r->top_k; j++)
                for (uint32_t k = 0; k < j; k++)
                    EXPECT(p.plan.chosen[t * r->top_k + j] != p.plan.chosen[t * r->top_k + k]);
        unguard(logits);
        plan_free(&p);
        bench_close(&b);
    }
}

/* ---- a whole mixture ---- */

struct mixture {
    struct router router;
    uint32_t width, inner;
    enum storage_type type;
    float *first_bias, *second_bias;
    void *first_w, *second_w;
    struct matrix first[16], second[16];
    struct expert_matrix up, down;
};

static void mixture_init(struct mixture *m, uint32_t experts, uint32_t top_k, uint32_t width,
                         uint32_t inner, enum storage_type type, bool bias) {
    *m = (struct mixture){
        .router = {ROUTE_SOFTMAX, ROUTE_BY_SCORE, experts, top_k, 0, 0, 0, true, 0, 1},
        .width = width,
        .inner = inner,
        .type = type};
    size_t count = (size_t)experts * inner * width;
    float *a = random_array(2 * count), *c = random_array(count);
    m->first_w = stored(type, a, 2 * count);
    m->second_w = stored(type, c, count);
    m->first_bias = random_array((size_t)experts * 2 * inner);
    m->second_bias = random_array((size_t)experts * width);
    unguard(a);
    unguard(c);
    size_t half = storage_bytes(type, (size_t)inner * width);
    for (uint32_t e = 0; e < experts; e++) {
        m->first[e] =
            (struct matrix){.type = type,
                            .rows = 2 * inner,
                            .cols = width,
                            .segment_count = 2,
                            .segments = {{(char *)m->first_w + 2 * e * half, inner},
                                         {(char *)m->first_w + (2 * e + 1) * half, inner}},
                            .bias = bias ? m->first_bias + (size_t)e * 2 * inner : NULL};
        m->second[e] = (struct matrix){.type = type,
                                       .rows = width,
                                       .cols = inner,
                                       .segment_count = 1,
                                       .segments = {{(char *)m->second_w + e * half, width}},
                                       .bias = bias ? m->second_bias + (size_t)e * width : NULL};
    }
    m->up = (struct expert_matrix){.type = type,
                                   .rows = 2 * inner,
                                   .cols = width,
                                   .expert_count = experts,
                                   .experts = m->first};
    m->down = (struct expert_matrix){
        .type = type, .rows = width, .cols = inner, .expert_count = experts, .experts = m->second};
}
static void mixture_release(struct mixture *m) {
    free(m->first_w);
    free(m->second_w);
    unguard(m->first_bias);
    unguard(m->second_bias);
}

/* x [rows, width] through the experts; how the halves meet: silu. */
static float *run_mixture(struct bench *b, const struct mixture *m, const float *x,
                          const float *logits, const float *shared, const float *shared_gate,
                          uint32_t rows, bool weigh_input) {
    const struct ops *ops = b->dev->ops;
    uint32_t top_k = m->router.top_k, pairs = rows * top_k;
    struct plan p = plan_new(rows, &m->router);
    float *sorted = guarded((size_t)pairs * m->width), *up = guarded((size_t)pairs * 2 * m->inner),
          *gated = guarded((size_t)pairs * m->inner), *out = guarded((size_t)rows * m->width);
    ops->route(
        b->stream,
        &(struct op_route){.plan = &p.plan, .router = &m->router, .logits = logits, .rows = rows});
    ops->expert_gather(b->stream, &(struct op_expert_gather){sorted, x, &p.plan, rows, top_k,
                                                             m->width, weigh_input, NULL});
    ops->expert_linear(b->stream,
                       &(struct op_expert_linear){up, sorted, &m->up, &p.plan, rows, top_k, NULL});
    ops->act_mul(b->stream, &(struct op_act_mul){.out = gated,
                                                 .gate_up = up,
                                                 .rows = pairs,
                                                 .width = m->inner,
                                                 .activation = ACTIVATION_SILU});
    ops->expert_linear(
        b->stream, &(struct op_expert_linear){sorted, gated, &m->down, &p.plan, rows, top_k, NULL});
    ops->expert_combine(b->stream,
                        &(struct op_expert_combine){out, sorted, shared, shared_gate, &p.plan, rows,
                                                    top_k, m->width, !weigh_input, NULL});
    if (!guards_intact(sorted, (size_t)pairs * m->width) ||
        !guards_intact(up, (size_t)pairs * 2 * m->inner) ||
        !guards_intact(out, (size_t)rows * m->width))
        check_fail(__FILE__, __LINE__, "the mixture wrote outside its arrays");
    plan_free(&p);
    unguard(sorted);
    unguard(up);
    unguard(gated);
    return out;
}

/* The largest |value| of an output, for an error relative to the row. */
static double largest(const float *x, size_t count) {
    double max = 0;
    for (size_t i = 0; i < count; i++)
        max = fmax(max, fabs((double)x[i]));
    return max;
}

static void check_mixture(const char *isa, const struct mixture *m, uint32_t rows, bool shared,
                          bool weigh_input) {
    struct bench b = bench_open(isa, 2), ref = bench_open("ref", 1);
    float *x = guarded((size_t)rows * m->width),
          *logits = guarded((size_t)rows * m->router.experts),
          *s = random_array((size_t)rows * m->width), *gate = random_array(rows);
    for (size_t i = 0; i < (size_t)rows * m->width; i++)
        x[i] = (float)(check_random() % 2001) / 1000 - 1;
    for (size_t i = 0; i < (size_t)rows * m->router.experts; i++)
        /* no two alike in a row */
        logits[i] = (float)((check_random() % 1000) * 64 + i % m->router.experts) / 8000;
    const float *gates = rows % 2 ? gate : NULL, *added = shared ? s : NULL;
    float *got = run_mixture(&b, m, x, logits, added, gates, rows, weigh_input),
          *want = run_mixture(&ref, m, x, logits, added, gates, rows, weigh_input);
    for (uint32_t t = 0; t < rows; t++) {
        /* two products and a gate of values up to `size`, all errors relative to the terms:
         * generous in the constant, far below what a wrong expert or weight would give */
        double size = largest(want + (size_t)t * m->width, m->width);
        for (uint32_t i = 0; i < m->width; i++) {
            double a = got[(size_t)t * m->width + i], c = want[(size_t)t * m->width + i];
            if (!(fabs(a - c) <= 2e-4 * (size + 1e-3)))
                check_fail(__FILE__, __LINE__, "%s %s: row %u column %u: %g, expected %g", isa,
                           storage_name(m->type), t, i, a, c);
        }
    }
    /* each row alone, and from the end: equal bits */
    for (uint32_t t = 0; t < rows; t += 1 + rows / 5) {
        size_t at = (size_t)t * m->width;
        float *alone = run_mixture(&b, m, x + at, logits + (size_t)t * m->router.experts,
                                   added ? s + at : NULL, gates ? gate + t : NULL, 1, weigh_input);
        EXPECT(same_bits(alone, got + at, m->width));
        unguard(alone);
    }
    unguard(x);
    unguard(logits);
    unguard(s);
    unguard(gate);
    unguard(got);
    unguard(want);
    bench_close(&b);
    bench_close(&ref);
}

TEST(a_mixture_equals_its_definition_and_rows_do_not_know_their_neighbours) {
    static const uint32_t rows[] = {1, 2, 17, 70};
    FOR_EACH_ISA(isa)
    for (size_t type = 0; type < ARRAY_LEN(TYPES); type++)
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
            struct mixture m;
            mixture_init(&m, i % 2 ? 8 : 5, i % 2 ? 2 : 3, 37 + 8 * (uint32_t)i,
                         19 + 16 * (uint32_t)i, TYPES[type], (i + type) % 2);
            check_mixture(isa, &m, rows[i], i % 2, (i + type) % 3 == 0);
            mixture_release(&m);
        }
}

/* ---- clamped gate ---- */

TEST(the_clamped_gate_equals_its_definition) {
    FOR_EACH_ISA(isa)
    for (uint32_t width = 1; width < 70; width += 1 + width / 4)
        for (int interleaved = 0; interleaved < 2; interleaved++) {
            struct bench b = bench_open(isa, 1), ref = bench_open("ref", 1);
            float *x = guarded(6 * (size_t)width), *got = guarded(3 * (size_t)width),
                  *want = guarded(3 * (size_t)width);
            for (size_t i = 0; i < 6 * (size_t)width; i++)
                x[i] = (float)(check_random() % 2001) / 50 - 20;
            x[0] = NAN;
            struct op_clamped_swiglu op = {got, x, 3, width, interleaved, 7, 1.702f};
            b.dev->ops->clamped_swiglu(b.stream, &op);
            op.out = want;
            ref.dev->ops->clamped_swiglu(ref.stream, &op);
            EXPECT(guards_intact(got, 3 * (size_t)width) && isnan(got[0]) && isnan(want[0]));
            /* the exponent, alpha * gate (gate >= -20), is rounded before exp sees it: relative
             * error u * |exponent| */
            for (size_t i = 1; i < 3 * (size_t)width; i++)
                EXPECT(fabs((double)got[i] - want[i]) <=
                       (20 + 2 * 1.702 * 20) * UNIT_ROUNDOFF * fabs((double)want[i]) + 1e-30);
            unguard(x);
            unguard(got);
            unguard(want);
            bench_close(&b);
            bench_close(&ref);
        }
}

/* ---- scaled queries ---- */

TEST(queries_are_scaled_by_their_position) {
    enum { STRIDE = 29, WIDTH = 21, T = 5 };
    uint32_t positions[T] = {0, 7, 8, ROW_NONE, 8191};
    FOR_EACH_ISA(isa) {
        uint32_t offset = (uint32_t)(check_random() % 2);
        struct bench b = bench_open(isa, 1);
        float *x = random_array(T * STRIDE), *was = guarded(T * STRIDE);
        memcpy(was, x, T * STRIDE * sizeof *x);
        struct step_batch batch = {.row_count = T, .positions = positions};
        b.dev->ops->scale_queries(b.stream, &(struct op_scale_queries){x, STRIDE, WIDTH, 0.25f, 8,
                                                                       (float)offset, &batch});
        for (uint32_t i = 0; i < T * STRIDE; i++) {
            uint32_t t = i / STRIDE, p = positions[t];
            double factor = p == ROW_NONE || i % STRIDE >= WIDTH
                                ? 1
                                : 1 + 0.25 * log(1 + floor((p + offset) / 8.0));
            EXPECT(fabs(x[i] - was[i] * factor) <=
                   4 * UNIT_ROUNDOFF * fabs((double)was[i] * factor));
        }
        EXPECT(guards_intact(x, T * STRIDE));
        unguard(x);
        unguard(was);
        bench_close(&b);
    }
}
