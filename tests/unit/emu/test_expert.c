/* Mixtures of experts on the emulated device: routing, sorting, products and sums against the
 * definitions; equal bits for every thread order and for a row alone. */
#include "rig.h"

struct shape {
    struct router router;
    uint32_t rows, width, inner;
    bool corrected, weigh_input, shared, gated, interleaved;
};

static const struct shape SHAPES[] = {
    {{ROUTE_SOFTMAX, ROUTE_BY_SCORE, 8, 2, 0, 0, 0, true, 0, 1},
     9,
     40,
     24,
     false,
     false,
     false,
     false,
     false},
    {{ROUTE_LOGIT, ROUTE_BY_SOFTMAX, 40, 5, 0, 0, 0, false, 0, 1},
     3,
     33,
     17,
     false,
     false,
     true,
     true,
     true},
    {{ROUTE_LOGIT, ROUTE_BY_SIGMOID, 5, 1, 0, 0, 0, false, 0, 1},
     7,
     24,
     8,
     false,
     true,
     true,
     false,
     false},
    {{ROUTE_SOFTMAX, ROUTE_BY_SCORE, 24, 4, 6, 2, 1, false, 0, 16},
     5,
     16,
     16,
     false,
     false,
     true,
     false,
     false},
    {{ROUTE_SIGMOID, ROUTE_BY_SCORE, 64, 6, 8, 3, 2, true, 1e-20f, 2.5f},
     6,
     16,
     16,
     true,
     false,
     true,
     false,
     true},
    {{ROUTE_SIGMOID, ROUTE_BY_SCORE, 3, 3, 0, 0, 0, true, 0, 1},
     70,
     8,
     8,
     true,
     false,
     false,
     false,
     false},
};

/* What both devices are given; `t_first` rows in. */
struct data {
    float *x, *logits, *correction, *first, *second, *first_bias, *second_bias, *shared, *gate;
};
static struct data data_new(const struct shape *sh) {
    uint32_t e = sh->router.experts;
    struct data d = {.x = random_values((size_t)sh->rows * sh->width),
                     .logits = random_values((size_t)sh->rows * e),
                     .correction = random_values(e),
                     .first = random_values((size_t)e * 2 * sh->inner * sh->width),
                     .second = random_values((size_t)e * sh->inner * sh->width),
                     .first_bias = random_values((size_t)e * 2 * sh->inner),
                     .second_bias = random_values((size_t)e * sh->width),
                     .shared = random_values((size_t)sh->rows * sh->width),
                     .gate = random_values(sh->rows)};
    for (size_t i = 0; i < (size_t)sh->rows * e; i++) /* no two alike in a row, by far */
        d.logits[i] = (float)(check_random() % 64 * e + i % e) * 4 / (64 * (float)e) - 2;
    for (size_t i = 0; i < e; i++)
        d.correction[i] = (float)(i * 7 % e) / (float)e - 0.5f;
    return d;
}
static void data_free(struct data *d) {
    float **all[] = {&d->x,          &d->logits,      &d->correction, &d->first, &d->second,
                     &d->first_bias, &d->second_bias, &d->shared,     &d->gate};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        free(*all[i]);
}

/* experts' matrices [rows, cols] from one array; on the device the descriptions lie in its
 * memory. */
static struct expert_matrix matrices(struct rig *r, enum storage_type type, const void *data,
                                     const float *bias, uint32_t count, uint32_t rows,
                                     uint32_t cols, bool on_device) {
    struct matrix *m = calloc(count, sizeof *m);
    uint32_t cut = rows / 3;
    for (uint32_t e = 0; e < count; e++) {
        const char *at = (const char *)data + storage_bytes(type, (size_t)e * rows * cols);
        m[e] = (struct matrix){
            .type = type,
            .rows = rows,
            .cols = cols,
            .segment_count = 2,
            .segments = {{at, cut}, {at + storage_bytes(type, (size_t)cut * cols), rows - cut}},
            .bias = bias + (size_t)e * rows};
    }
    struct expert_matrix out = {
        .type = type, .rows = rows, .cols = cols, .expert_count = count, .experts = m};
    if (!on_device)
        return out; /* leaks with the test */
    out.experts = rig_up(r, m, count * sizeof *m);
    free(m);
    return out;
}

struct outcome {
    uint32_t *chosen, *pairs, *places, *offsets;
    float *weights, *up, *gated, *down, *out;
};
static void outcome_free(struct outcome *o) {
    void *all[] = {o->chosen, o->pairs, o->places, o->offsets, o->weights,
                   o->up,     o->gated, o->down,   o->out};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        free(all[i]);
}
static uint32_t *words_down(struct rig *r, const void *from, size_t count) {
    uint32_t *x = calloc(count + 1, 4);
    stream_copy_out(r->stream, x, from, count * 4);
    if (!rig_wait(r))
        memset(x, 0xff, count * 4);
    return x;
}

static struct outcome run(const struct shape *sh, const struct data *d, enum storage_type act,
                          enum storage_type type, int order) {
    uint32_t top_k = sh->router.top_k, pairs = sh->rows * top_k, experts = sh->router.experts;
    emu_set_order(order, 5);
    struct rig r = rig_open(act);
    struct expert_plan plan = {.chosen = rig_alloc(&r, pairs * 4),
                               .weights = rig_alloc(&r, pairs * 4),
                               .offsets = rig_alloc(&r, (experts + 1) * 4),
                               .pairs = rig_alloc(&r, pairs * 4),
                               .places = rig_alloc(&r, pairs * 4)};
    void *x = rig_values(&r, act, d->x, (size_t)sh->rows * sh->width),
         *first = rig_values(&r, type, d->first, (size_t)experts * 2 * sh->inner * sh->width),
         *second = rig_values(&r, type, d->second, (size_t)experts * sh->inner * sh->width),
         *shared = rig_values(&r, act, d->shared, (size_t)sh->rows * sh->width),
         *sorted = rig_alloc(&r, storage_bytes(act, (size_t)pairs * sh->width)),
         *up = rig_alloc(&r, storage_bytes(act, (size_t)pairs * 2 * sh->inner)),
         *gated = rig_alloc(&r, storage_bytes(act, (size_t)pairs * sh->inner)),
         *down = rig_alloc(&r, storage_bytes(act, (size_t)pairs * sh->width)),
         *out = rig_alloc(&r, storage_bytes(act, (size_t)sh->rows * sh->width));
    struct expert_matrix m1 =
        matrices(&r, type, first,
                 rig_values(&r, STORAGE_F32, d->first_bias, (size_t)experts * 2 * sh->inner),
                 experts, 2 * sh->inner, sh->width, true);
    struct expert_matrix m2 = matrices(
        &r, type, second, rig_values(&r, STORAGE_F32, d->second_bias, (size_t)experts * sh->width),
        experts, sh->width, sh->inner, true);
    const struct ops *ops = r.dev->ops;
    ops->route(r.stream,
               &(struct op_route){.plan = &plan,
                                  .router = &sh->router,
                                  .logits = rig_up(&r, d->logits, (size_t)sh->rows * experts * 4),
                                  .correction =
                                      sh->corrected ? rig_up(&r, d->correction, experts * 4) : NULL,
                                  .rows = sh->rows});
    ops->expert_gather(r.stream, &(struct op_expert_gather){sorted, x, &plan, sh->rows, top_k,
                                                            sh->width, sh->weigh_input, NULL});
    ops->expert_linear(r.stream,
                       &(struct op_expert_linear){up, sorted, &m1, &plan, sh->rows, top_k, NULL});
    ops->clamped_swiglu(r.stream, &(struct op_clamped_swiglu){gated, up, pairs, sh->inner,
                                                              sh->interleaved, 7, 1.702f});
    ops->expert_linear(r.stream,
                       &(struct op_expert_linear){down, gated, &m2, &plan, sh->rows, top_k, NULL});
    ops->expert_combine(r.stream, &(struct op_expert_combine){
                                      out, down, sh->shared ? shared : NULL,
                                      sh->gated ? rig_up(&r, d->gate, sh->rows * 4) : NULL, &plan,
                                      sh->rows, top_k, sh->width, !sh->weigh_input, NULL});
    struct outcome o = {.chosen = words_down(&r, plan.chosen, pairs),
                        .pairs = words_down(&r, plan.pairs, pairs),
                        .places = words_down(&r, plan.places, pairs),
                        .offsets = words_down(&r, plan.offsets, experts + 1),
                        .weights = rig_down(&r, STORAGE_F32, plan.weights, pairs),
                        .up = rig_down(&r, act, up, (size_t)pairs * 2 * sh->inner),
                        .gated = rig_down(&r, act, gated, (size_t)pairs * sh->inner),
                        .down = rig_down(&r, act, down, (size_t)pairs * sh->width),
                        .out = rig_down(&r, act, out, (size_t)sh->rows * sh->width)};
    rig_close(&r);
    emu_set_order(0, 1);
    return o;
}

/* |got - want| <= tolerance, named. */
static void near(const char *what, const struct shape *sh, double got, double want,
                 double tolerance) {
    if (!(fabs(got - want) <= tolerance))
        check_fail(__FILE__, __LINE__, "%s of %u experts, %u rows: %g, expected %g +- %g", what,
                   sh->router.experts, sh->rows, got, want, tolerance);
}

/* How many terms a lane adds up in a product of `cols`: all of them where tensor cores do (16-bit weights and rows). */
static double chain(enum storage_type act, enum storage_type type, uint32_t cols) {
    return act == type && act != STORAGE_F32 && cols % 8 == 0 ? cols : cols / 32.0;
}

/* Each stage against the definition on what the device's stage before gave. */
static void check_stages(const struct shape *sh, const struct data *d, const struct outcome *o,
                         enum storage_type act, enum storage_type type) {
    struct rig r = rig_open(act);
    uint32_t top_k = sh->router.top_k, pairs = sh->rows * top_k, experts = sh->router.experts;
    struct expert_plan plan = {.chosen = calloc(pairs, 4),
                               .weights = calloc(pairs, 4),
                               .offsets = calloc(experts + 1, 4),
                               .pairs = calloc(pairs, 4),
                               .places = calloc(pairs, 4)};
    size_t up_width = 2 * sh->inner;
    float *sorted = calloc((size_t)pairs * sh->width, 4),
          *want = calloc((size_t)pairs * (up_width + sh->width), 4);
    const struct ops *ref = r.ref->ops;
    ref->route(r.ref_stream, &(struct op_route){.plan = &plan,
                                                .router = &sh->router,
                                                .logits = d->logits,
                                                .correction = sh->corrected ? d->correction : NULL,
                                                .rows = sh->rows});
    EXPECT(!memcmp(plan.chosen, o->chosen, pairs * 4) &&
           !memcmp(plan.offsets, o->offsets, (experts + 1) * 4));
    EXPECT(!memcmp(plan.pairs, o->pairs, pairs * 4) && !memcmp(plan.places, o->places, pairs * 4));
    for (uint32_t p = 0; p < pairs; p++)
        near("weight", sh, o->weights[p], plan.weights[p],
             32 * UNIT_ROUNDOFF * fabs(plan.weights[p]) * (top_k + 1));
    memcpy(plan.weights, o->weights, pairs * 4);
    ref->expert_gather(r.ref_stream,
                       &(struct op_expert_gather){sorted, d->x, &plan, sh->rows, top_k, sh->width,
                                                  sh->weigh_input, NULL});
    for (size_t i = 0; sh->weigh_input && i < (size_t)pairs * sh->width;
         i++) { /* the device rounds what it gathers */
        uint16_t h = act == STORAGE_BF16 ? f32_to_bf16(sorted[i]) : f32_to_f16(sorted[i]);
        if (act != STORAGE_F32)
            sorted[i] = act == STORAGE_BF16 ? bf16_to_f32(h) : f16_to_f32(h);
    }
    struct expert_matrix m1 = matrices(&r, STORAGE_F32, d->first, d->first_bias, experts,
                                       2 * sh->inner, sh->width, false);
    struct expert_matrix m2 =
        matrices(&r, STORAGE_F32, d->second, d->second_bias, experts, sh->width, sh->inner, false);
    ref->expert_linear(r.ref_stream,
                       &(struct op_expert_linear){want, sorted, &m1, &plan, sh->rows, top_k, NULL});
    for (uint32_t p = 0; p < pairs; p++)
        for (uint32_t n = 0; n < up_width; n++) {
            double terms = 40; /* of up to 30 each: outliers; bounded below by the sum of |terms| */
            for (uint32_t k = 0; k < sh->width; k++)
                terms += fabs((double)sorted[(size_t)p * sh->width + k]) * 30;
            double y = want[p * up_width + n];
            near("up", sh, o->up[p * up_width + n], y,
                 2 * UNIT_ROUNDOFF * terms * (chain(act, type, sh->width) + 8) +
                     rounding(act) * 1.01 * fabs(y) + rounding_floor(act));
        }
    ref->clamped_swiglu(r.ref_stream, &(struct op_clamped_swiglu){want, o->up, pairs, sh->inner,
                                                                  sh->interleaved, 7, 1.702f});
    for (size_t i = 0; i < (size_t)pairs * sh->inner;
         i++) /* the exponent reaches 87 and is rounded before exp */
        near("gate", sh, o->gated[i], want[i],
             (rounding(act) * 1.01 + 200 * UNIT_ROUNDOFF) * fabs(want[i]) + 1e-30 +
                 rounding_floor(act));
    ref->expert_linear(r.ref_stream, &(struct op_expert_linear){want, o->gated, &m2, &plan,
                                                                sh->rows, top_k, NULL});
    for (size_t i = 0; i < (size_t)pairs * sh->width; i++) {
        double terms = 40, y = want[i];
        for (uint32_t k = 0; k < sh->inner; k++)
            terms += fabs((double)o->gated[i / sh->width * sh->inner + k]) * 30;
        near("down", sh, o->down[i], y,
             2 * UNIT_ROUNDOFF * terms * (chain(act, type, sh->inner) + 8) +
                 rounding(act) * 1.01 * fabs(y) + rounding_floor(act));
    }
    ref->expert_combine(r.ref_stream,
                        &(struct op_expert_combine){want, o->down, sh->shared ? d->shared : NULL,
                                                    sh->gated ? d->gate : NULL, &plan, sh->rows,
                                                    top_k, sh->width, !sh->weigh_input, NULL});
    for (size_t i = 0; i < (size_t)sh->rows * sh->width; i++) {
        size_t t = i / sh->width;
        double terms = fabs((double)d->shared[i]);
        for (uint32_t j = 0; j < top_k; j++)
            terms +=
                fabs((double)
                         o->down[plan.places[t * top_k + j] * (size_t)sh->width + i % sh->width]) *
                fmax(1, fabs((double)plan.weights[t * top_k + j]));
        near("sum", sh, o->out[i], want[i],
             4 * UNIT_ROUNDOFF * terms * (top_k + 4) + rounding(act) * 1.01 * fabs(want[i]) +
                 rounding_floor(act));
    }
    void *all[] = {plan.chosen, plan.weights, plan.offsets, plan.pairs, plan.places, sorted, want};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        free(all[i]);
    free((void *)m1.experts);
    free((void *)m2.experts);
    rig_close(&r);
}

TEST(a_mixture_equals_its_definitions_stage_by_stage) {
    for (size_t i = 0; i < ARRAY_LEN(SHAPES); i++) {
        const struct shape *sh = &SHAPES[i];
        enum storage_type act = TYPES[i % 3], type = TYPES[(i + i / 3) % 3];
        struct data d = data_new(sh);
        struct outcome first = run(sh, &d, act, type, 0);
        check_stages(sh, &d, &first, act, type);
        for (int order = 1; order < ORDERS; order++) {
            struct outcome other = run(sh, &d, act, type, order);
            EXPECT(same_bits(first.out, other.out, (size_t)sh->rows * sh->width));
            outcome_free(&other);
        }
        struct shape alone = *sh; /* the last row by itself */
        struct data rest = d;
        alone.rows = 1;
        rest.x += (size_t)(sh->rows - 1) * sh->width;
        rest.logits += (size_t)(sh->rows - 1) * sh->router.experts;
        rest.shared += (size_t)(sh->rows - 1) * sh->width;
        rest.gate += sh->rows - 1;
        struct outcome one = run(&alone, &rest, act, type, 0);
        EXPECT(same_bits(one.out, first.out + (size_t)(sh->rows - 1) * sh->width, sh->width));
        outcome_free(&one);
        outcome_free(&first);
        data_free(&d);
    }
}

TEST(logits_that_are_not_finite_still_choose_distinct_experts) {
    for (size_t i = 0; i < ARRAY_LEN(SHAPES); i++) {
        struct shape sh = SHAPES[i];
        struct data d = data_new(&sh);
        for (size_t n = 0; n < (size_t)sh.rows * sh.router.experts; n++)
            if (n % 3 || n < sh.router.experts)
                d.logits[n] = n % 5 ? NAN : INFINITY;
        struct outcome o = run(&sh, &d, STORAGE_F32, STORAGE_F32, 0);
        for (uint32_t p = 0; p < sh.rows * sh.router.top_k; p++) {
            EXPECT(o.chosen[p] < sh.router.experts && o.pairs[o.places[p]] == p);
            for (uint32_t q = p / sh.router.top_k * sh.router.top_k; q < p; q++)
                EXPECT(o.chosen[p] != o.chosen[q]);
        }
        outcome_free(&o);
        data_free(&d);
    }
}

TEST(queries_are_scaled_by_their_position) {
    enum { STRIDE = 300, WIDTH = 270, T = 5 };
    uint32_t positions[T] = {0, 7, 8, ROW_NONE, 8191};
    for (size_t type = 0; type < ARRAY_LEN(TYPES); type++) {
        uint32_t offset = (type + 1) % 2;
        struct rig r = rig_open(TYPES[type]);
        float *was = random_values(T * STRIDE);
        void *x = rig_values(&r, r.act, was, T * STRIDE);
        struct step_batch batch = {.row_count = T,
                                   .positions = rig_up(&r, positions, sizeof positions)};
        r.dev->ops->scale_queries(r.stream, &(struct op_scale_queries){x, STRIDE, WIDTH, 0.25f, 8,
                                                                       (float)offset, &batch});
        float *got = rig_down(&r, r.act, x, T * STRIDE);
        for (uint32_t i = 0; i < T * STRIDE; i++) {
            uint32_t p = positions[i / STRIDE];
            bool same = p == ROW_NONE || i % STRIDE >= WIDTH;
            double want = was[i] * (same ? 1 : 1 + 0.25 * log(1 + floor((p + offset) / 8.0)));
            EXPECT(fabs(got[i] - want) <=
                   (same ? 0
                         : (rounding(r.act) * 1.01 + 8 * UNIT_ROUNDOFF) * fabs(want) +
                               rounding_floor(r.act)));
        }
        free(was);
        free(got);
        rig_close(&r);
    }
}

/* ---- the plan, by one block and by many ---- */

static void check_plan(const struct router *router, uint32_t rows) {
    const uint32_t pairs = rows * router->top_k, experts = router->experts;
    struct rig r = rig_open(STORAGE_BF16);
    float *logits = random_values((size_t)rows * experts);
    for (size_t i = 0; i < (size_t)rows * experts; i++)
        logits[i] = (float)(check_random() % 64 * experts + i % experts);
    const struct expert_plan plan = {.chosen = rig_alloc(&r, pairs * 4),
                                     .weights = rig_alloc(&r, pairs * 4),
                                     .offsets = rig_alloc(&r, (experts + 1) * 4),
                                     .pairs = rig_alloc(&r, pairs * 4),
                                     .places = rig_alloc(&r, pairs * 4)},
                             want = {.chosen = calloc(pairs, 4),
                                     .weights = calloc(pairs, 4),
                                     .offsets = calloc(experts + 1, 4),
                                     .pairs = calloc(pairs, 4),
                                     .places = calloc(pairs, 4)};
    struct op_route route = {&plan, router, rig_up(&r, logits, (size_t)rows * experts * 4), NULL,
                             rows};
    r.dev->ops->route(r.stream, &route);
    route.plan = &want;
    route.logits = logits;
    r.ref->ops->route(r.ref_stream, &route);
    const struct {
        const uint32_t *dev, *want;
        size_t count;
    } parts[] = {{plan.chosen, want.chosen, pairs},
                 {plan.offsets, want.offsets, experts + 1},
                 {plan.pairs, want.pairs, pairs},
                 {plan.places, want.places, pairs}};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        uint32_t *got = words_down(&r, parts[i].dev, parts[i].count);
        if (memcmp(got, parts[i].want, parts[i].count * 4))
            check_fail(__FILE__, __LINE__, "part %zu of the plan, %u rows, %u experts", i, rows,
                       experts);
        free(got);
    }
    rig_close(&r);
    void *all[] = {logits, want.chosen, want.weights, want.offsets, want.pairs, want.places};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        free(all[i]);
}

/* Up to 32 rows one block chooses and sorts, up to 512 one sorts, of more a warp an expert. */
TEST(rows_are_sorted_by_expert_however_many_there_are) {
    static const struct {
        uint32_t experts, top_k, rows;
    } CASES[] = {{8, 2, 1},    {40, 5, 31}, {70, 8, 25}, {8, 8, 32},
                 {200, 3, 32}, {33, 4, 33}, {9, 2, 512}, {3, 1, 513}};
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        const struct router router = {.score = ROUTE_LOGIT,
                                      .weight = ROUTE_BY_SCORE,
                                      .experts = CASES[i].experts,
                                      .top_k = CASES[i].top_k,
                                      .scale = 1};
        emu_set_order((int)(i % ORDERS), i + 1);
        check_plan(&router, CASES[i].rows);
    }
    emu_set_order(0, 1);
}

/* ---- the residual and its norm ---- */

struct sum_shape {
    enum storage_type act;
    uint32_t rows, experts, top_k, width;
    bool shared, gated, weighted;
};

/* The sum of experts with the residual's addition and the norm behind it: the bits of the sum, and then the
 * norm's kernel; and with squares, those of what is gathered of that norm. */
static void check_sum(const struct sum_shape *sh) {
    const uint32_t pairs = sh->rows * sh->top_k;
    const size_t count = (size_t)sh->rows * sh->width, gathered = (size_t)pairs * sh->width;
    struct rig r = rig_open(sh->act);
    const struct ops *ops = r.dev->ops;
    EXPECT(ops->folds_experts);
    float *logits = random_values((size_t)sh->rows * sh->experts), *y = random_values(gathered),
          *shared = random_values(count), *gate = random_values(sh->rows),
          *x = random_values(count), *weight = random_values(sh->width);
    const struct router router = {.score = ROUTE_SOFTMAX,
                                  .weight = ROUTE_BY_SCORE,
                                  .experts = sh->experts,
                                  .top_k = sh->top_k,
                                  .scale = 1};
    const struct expert_plan plan = {.chosen = rig_alloc(&r, pairs * 4),
                                     .weights = rig_alloc(&r, pairs * 4),
                                     .offsets = rig_alloc(&r, (sh->experts + 1) * 4),
                                     .pairs = rig_alloc(&r, pairs * 4),
                                     .places = rig_alloc(&r, pairs * 4)};
    ops->route(r.stream,
               &(struct op_route){&plan, &router,
                                  rig_values(&r, STORAGE_F32, logits, sh->rows * sh->experts), NULL,
                                  sh->rows});
    float *apart = rig_values(&r, STORAGE_F32, x, count),
          *normed = rig_values(&r, STORAGE_F32, x, count),
          *squared = rig_values(&r, STORAGE_F32, x, count),
          *squares = rig_alloc(&r, count / NORM_GROUP * 4);
    const float *weights = rig_values(&r, STORAGE_F32, weight, sh->width);
    void *sum = rig_alloc(&r, storage_bytes(sh->act, count)),
         *want_norm = rig_alloc(&r, storage_bytes(sh->act, count)),
         *got_norm = rig_alloc(&r, storage_bytes(sh->act, count)),
         *want_rows = rig_alloc(&r, storage_bytes(sh->act, gathered)),
         *got_rows = rig_alloc(&r, storage_bytes(sh->act, gathered));
    struct op_expert_combine combine = {
        .out = sum,
        .y = rig_values(&r, sh->act, y, gathered),
        .shared = sh->shared ? rig_values(&r, sh->act, shared, count) : NULL,
        .shared_gate = sh->gated ? rig_values(&r, STORAGE_F32, gate, sh->rows) : NULL,
        .plan = &plan,
        .rows = sh->rows,
        .top_k = sh->top_k,
        .width = sh->width,
        .weighted = sh->weighted};
    struct op_expert_gather gather = {want_rows, want_norm, &plan, sh->rows,
                                      sh->top_k, sh->width, false, NULL};
    /* 1. apart */
    ops->expert_combine(r.stream, &combine);
    ops->rmsnorm(r.stream, &(struct op_rmsnorm){.out = want_norm,
                                                .x = apart,
                                                .delta = sum,
                                                .weight = weights,
                                                .rows = sh->rows,
                                                .width = sh->width,
                                                .eps = 1e-3f,
                                                .weight_offset = 0.5f,
                                                .delta_scale = 0.75f,
                                                .x_f32 = true});
    ops->expert_gather(r.stream, &gather);
    /* 2. the norm with the sum */
    struct expert_residual residual = {.x = normed,
                                       .out = got_norm,
                                       .weight = weights,
                                       .scale = 0.75f,
                                       .eps = 1e-3f,
                                       .weight_offset = 0.5f};
    combine.residual = &residual;
    combine.out = NULL;
    ops->expert_combine(r.stream, &combine);
    /* 3. the norm with what is gathered */
    residual = (struct expert_residual){.x = squared, .squares = squares, .scale = 0.75f};
    ops->expert_combine(r.stream, &combine);
    const struct norm_of_x norm = {squares, weights, 1e-3f, 0.5f};
    gather.out = got_rows;
    gather.x = squared;
    gather.norm = &norm;
    ops->expert_gather(r.stream, &gather);

    const struct {
        const char *name;
        enum storage_type type;
        const void *want, *got;
        size_t count;
    } results[] = {{"residual", STORAGE_F32, apart, normed, count},
                   {"residual with squares", STORAGE_F32, apart, squared, count},
                   {"norm", sh->act, want_norm, got_norm, count},
                   {"gathered norm", sh->act, want_rows, got_rows, gathered}};
    for (size_t i = 0; i < ARRAY_LEN(results); i++) {
        float *want = rig_down(&r, results[i].type, results[i].want, results[i].count),
              *got = rig_down(&r, results[i].type, results[i].got, results[i].count);
        if (!same_bits(want, got, results[i].count) || !isfinite(got[0]))
            check_fail(__FILE__, __LINE__, "%u rows of %u, %u of %u experts: %s", sh->rows,
                       sh->width, sh->top_k, sh->experts, results[i].name);
        free(want);
        free(got);
    }
    rig_close(&r);
    void *all[] = {logits, y, shared, gate, x, weight};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        free(all[i]);
}

TEST(sums_of_experts_with_a_norm_have_the_bits_of_sum_and_norm) {
    static const struct sum_shape CASES[] = {
        {STORAGE_BF16, 3, 8, 4, 64, false, false, true},
        {STORAGE_F16, 2, 5, 1, 4112, true, true, true}, /* wider than a block keeps */
        {STORAGE_F32, 5, 6, 3, 16, true, false, false},
        {STORAGE_BF16, 1, 40, 9, 2064, false, false, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        emu_set_order((int)(i % ORDERS), i + 1);
        check_sum(&CASES[i]);
    }
    emu_set_order(0, 1);
}
