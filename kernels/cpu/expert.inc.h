/*
 * expert.inc.h - mixtures of experts (kernels/ops_expert.h). Routing is the scalar definition, row
 * by row; a product is linear.inc.h's on the dense piece of rows that an expert got, so a row's
 * bits are those of `linear`.
 */

/* ---- routing ---- */

static void route_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct rows_task *task = ctx;
    ROWS_OF(task, unit_idx, t, end);
    for (; t < end; t++)
        ref_route_row(task->a, t);
}

static void cpu_route(struct stream *s, const struct op_route *a) {
    CHECK(a->router->experts <= ROUTE_EXPERTS_MAX &&
          a->router->top_k <= MIN(a->router->experts, ROUTE_TOP_MAX + 0u));
    rows_loop(s, a, a->rows, (size_t)a->router->experts * (a->router->top_k + 8) * VW, route_unit);
    ref_expert_sort(a);
}

/* ---- rows to experts and back ---- */

static void expert_gather_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct rows_task *task = ctx;
    const struct op_expert_gather *a = task->a;
    ROWS_OF(task, unit_idx, i, end);
    for (; i < end; i++) {
        uint32_t pair = a->plan->pairs[i], width = a->width, k = 0;
        const float *x = (const float *)a->x + (size_t)(pair / a->top_k) * width;
        float *out = (float *)a->out + (size_t)i * width;
        if (!a->weighted) {
            memcpy(out, x, width * sizeof *out);
            continue;
        }
        vf weight = v_set1(a->plan->weights[pair]);
        for (; k + VW <= width; k += VW)
            v_store(out + k, v_mul(v_load(x + k), weight));
        if (k < width)
            v_store_n(out + k, v_mul(v_load_n(x + k, width - k), weight), width - k);
    }
}

static void cpu_expert_gather(struct stream *s, const struct op_expert_gather *a) {
    rows_loop(s, a, a->rows * a->top_k, a->width, expert_gather_unit);
}

/* acc + what the shared expert gives. */
ALWAYS_INLINE vf combine_vector(const struct op_expert_combine *a, uint32_t t, uint32_t i, size_t n,
                                float gate) {
    vf acc = v_set1(0);
    for (uint32_t j = 0; j < a->top_k; j++) {
        size_t pair = (size_t)t * a->top_k + j;
        vf y = v_load_n((const float *)a->y + (size_t)a->plan->places[pair] * a->width + i, n);
        acc = v_fma(y, v_set1(a->weighted ? a->plan->weights[pair] : 1.0f), acc);
    }
    if (!a->shared)
        return acc;
    return v_fma(v_load_n((const float *)a->shared + (size_t)t * a->width + i, n), v_set1(gate),
                 acc);
}

static void expert_combine_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct rows_task *task = ctx;
    const struct op_expert_combine *a = task->a;
    ROWS_OF(task, unit_idx, t, end);
    for (; t < end; t++) {
        float gate[VW], *out = (float *)a->out + (size_t)t * a->width;
        vf one = v_set1(1.0f);
        v_store(gate, one);
        if (a->shared && a->shared_gate)
            v_store(gate, v_div(one, v_add(one, v_exp(v_set1(-a->shared_gate[t])))));
        for (uint32_t i = 0; i < a->width; i += VW) {
            size_t n = MIN(a->width - i, (uint32_t)VW);
            v_store_n(out + i, combine_vector(a, t, i, n, gate[0]), n);
        }
    }
}

static void cpu_expert_combine(struct stream *s, const struct op_expert_combine *a) {
    rows_loop(s, a, a->rows, (size_t)a->width * (a->top_k + 1), expert_combine_unit);
}

/* ---- products ---- */

struct expert_task {
    const struct op_expert_linear *a;
    uint32_t active[ROUTE_EXPERTS_MAX]; /* experts that got rows */
    uint32_t units_an_expert, columns_a_unit;
};

static void expert_linear_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct expert_task *task = ctx;
    const struct op_expert_linear *a = task->a;
    uint32_t e = task->active[unit_idx / task->units_an_expert], first = a->plan->offsets[e];
    uint32_t rows = a->plan->offsets[e + 1] - first;
    struct op_linear op = {.out = (float *)a->out + (size_t)first * a->w->rows,
                           .x = (const float *)a->x + (size_t)first * a->w->cols,
                           .w = &a->w->experts[e],
                           .rows = rows,
                           .class_rows = rows,
                           .out_stride = a->w->rows};
    uint32_t n = (uint32_t)(unit_idx % task->units_an_expert) * task->columns_a_unit;
    uint32_t end = MIN(n + task->columns_a_unit, a->w->rows);
    for (; n < end; n += UNIT_COLUMNS)
        linear_columns(&op, n, MIN((uint32_t)UNIT_COLUMNS, end - n));
}

static void cpu_expert_linear(struct stream *s, const struct op_expert_linear *a) {
    struct expert_task task = {.a = a, .columns_a_unit = UNIT_COLUMNS * 4};
    uint32_t active = 0, pairs = a->rows * a->top_k;
    CHECK(a->w->expert_count <= ROUTE_EXPERTS_MAX && a->plan->offsets[a->w->expert_count] == pairs);
    if (pairs && a->w->experts[0].compute == COMPUTE_INT8) {
        cpu_int8_expert_linear(s, a);
        return;
    }
    if (pairs && a->w->experts[0].compute == COMPUTE_BF16) {
        cpu_bf16_expert_linear(s, a);
        return;
    }
#if VW == 16
    if (pairs && a->w->experts[0].compute == COMPUTE_INT8_GROUPS) {
        cpu_group_expert_linear(s, a);
        return;
    }
#endif
    for (uint32_t e = 0; e < a->w->expert_count; e++)
        if (a->plan->offsets[e + 1] > a->plan->offsets[e])
            task.active[active++] = e;
    task.units_an_expert = (a->w->rows + task.columns_a_unit - 1) / task.columns_a_unit;
    cpu_loop(s, (size_t)active * task.units_an_expert, (size_t)pairs * a->w->rows * a->w->cols / VW,
             expert_linear_unit, &task);
}

/* ---- clamped gate ---- */

ALWAYS_INLINE vf clamped_swiglu(const struct op_clamped_swiglu *a, vf gate, vf up) {
    vf one = v_set1(1.0f), limit = v_set1(a->limit);
    /* the second operand is taken where one is NaN */
    gate = v_min(limit, gate);
    up = v_max(v_set1(-a->limit), v_min(limit, up));
    vf sigmoid = v_div(one, v_add(one, v_exp(v_mul(v_set1(-a->alpha), gate))));
    return v_mul(v_add(up, one), v_mul(gate, sigmoid));
}

static void clamped_swiglu_row(const struct op_clamped_swiglu *a, const float *row, float *out) {
    for (uint32_t i = 0; i < a->width; i += VW) {
        uint32_t n = MIN(a->width - i, (uint32_t)VW);
        float gate[VW] = {0}, up[VW] = {0};
        for (uint32_t l = 0; l < n; l++) {
            gate[l] = row[a->interleaved ? 2 * (i + l) : i + l];
            up[l] = row[a->interleaved ? 2 * (i + l) + 1 : a->width + i + l];
        }
        v_store_n(out + i, clamped_swiglu(a, v_load(gate), v_load(up)), n);
    }
}

static void clamped_swiglu_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct rows_task *task = ctx;
    const struct op_clamped_swiglu *a = task->a;
    ROWS_OF(task, unit_idx, t, end);
    for (; t < end; t++)
        clamped_swiglu_row(a, (const float *)a->gate_up + (size_t)t * 2 * a->width,
                           (float *)a->out + (size_t)t * a->width);
}

static void cpu_clamped_swiglu(struct stream *s, const struct op_clamped_swiglu *a) {
    rows_loop(s, a, a->rows, (size_t)a->width * 16, clamped_swiglu_unit);
}
