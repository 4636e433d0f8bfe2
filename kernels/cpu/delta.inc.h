/*
 * delta.inc.h - the gated delta rule (ops_state.h). A unit is some value columns of one head. Their
 * part of the state goes through the run's rows in one pass a row: the pass that takes the row in
 * also makes S^T k for the row behind it. With more rows than a few the part lies in a buffer of its
 * own meanwhile, since columns of a wider array meet in few sets of a cache.
 *
 * Order of one column's sums: S^T k and S^T q by keys ascending, from 0.
 */
enum {
    DELTA_VECTORS = VW == 8 ? 2 : 4, /* what the registers hold three times */
    DELTA_COLUMNS = DELTA_VECTORS * VW,
    DELTA_ROWS_WORTH_COPYING = 4
};

/* What a row brings to all columns of its head. */
struct delta_row {
    float q[DELTA_DIM_MAX], k[DELTA_DIM_MAX], fade, beta;
};

/* out = x * scale / sqrt(sum of squares + 1e-6). */
static void delta_unit(float *out, const float *x, uint32_t width, float scale) {
    vf acc = v_set1(0.0f);
    EACH_VECTOR(i, n, width) {
        vf v = v_some(x + i, n);
        acc = v_fma(v, v, acc);
    }
    vf factor = v_set1(scale / sqrtf(v_hsum(acc) + 1e-6f));
    EACH_VECTOR(i, n, width) v_put(out + i, v_mul(v_some(x + i, n), factor), n);
}

static void delta_read_row(const struct op_delta *a, uint32_t t, uint32_t h, struct delta_row *r) {
    uint32_t g = delta_key_head(a, h), dk = a->key_dim;
    float lanes[VW];
    delta_unit(r->q, ROW(a->q, a->in_stride, t) + (size_t)g * dk, dk, a->scale);
    delta_unit(r->k, ROW(a->k, a->in_stride, t) + (size_t)g * dk, dk, 1.0f);
    v_store(lanes, v_exp(v_set1(ROW(a->dt, a->heads, t)[h] * a->a[h])));
    r->fade = lanes[0];
    v_store(lanes, v_sigmoid(v_set1(ROW(a->b, a->b_stride, t)[h])));
    r->beta = lanes[0];
}

/* Columns of one head, and where their state lies: [key_dim] rows of DELTA_COLUMNS, `stride` apart. */
struct delta_columns {
    uint32_t h, first, count;
    float *state;
    size_t stride;
};

/* e = S^T k. */
static void delta_recall(const struct delta_columns *c, const float *k, uint32_t key_dim, vf *e) {
    for (int j = 0; j < DELTA_VECTORS; j++)
        e[j] = v_set1(0.0f);
    for (uint32_t i = 0; i < key_dim; i++) {
        vf ki = v_set1(k[i]);
        UNROLL
        for (int j = 0; j < DELTA_VECTORS; j++)
            e[j] = v_fma(ki, v_load(c->state + i * c->stride + j * VW), e[j]);
    }
}

/* The state takes the row in: S = fade S + k e^T, out = S^T q; then e = S^T next_k. */
static void delta_take_row(const struct delta_columns *c, const struct delta_row *r,
                           const float *next_k, uint32_t key_dim, vf *e, vf *out) {
    vf fade = v_set1(r->fade), next[DELTA_VECTORS];
    UNROLL
    for (int j = 0; j < DELTA_VECTORS; j++)
        next[j] = out[j] = v_set1(0.0f);
    for (uint32_t i = 0; i < key_dim; i++) {
        float *row = c->state + i * c->stride;
        vf k = v_set1(r->k[i]), q = v_set1(r->q[i]), then = v_set1(next_k[i]);
        UNROLL
        for (int j = 0; j < DELTA_VECTORS; j++) {
            vf s = v_fma(k, e[j], v_mul(fade, v_load(row + j * VW)));
            v_store(row + j * VW, s);
            out[j] = v_fma(q, s, out[j]);
            next[j] = v_fma(then, s, next[j]);
        }
    }
    UNROLL
    for (int j = 0; j < DELTA_VECTORS; j++)
        e[j] = next[j];
}

/* Rows [t, end) of one run. */
static void delta_rows(const struct op_delta *a, const struct delta_columns *c, uint32_t t,
                       uint32_t end) {
    struct delta_row rows[2];
    float v[DELTA_COLUMNS] = {0}, put[DELTA_COLUMNS];
    size_t at = (size_t)c->h * a->value_dim + c->first;
    vf e[DELTA_VECTORS], out[DELTA_VECTORS];
    delta_read_row(a, t, c->h, &rows[t % 2]);
    delta_recall(c, rows[t % 2].k, a->key_dim, e);
    for (; t < end; t++) {
        const struct delta_row *r = &rows[t % 2], *next = t + 1 < end ? &rows[(t + 1) % 2] : r;
        if (next != r)
            delta_read_row(a, t + 1, c->h, &rows[(t + 1) % 2]);
        memcpy(v, ROW(a->v, a->in_stride, t) + at, c->count * sizeof *v);
        for (int j = 0; j < DELTA_VECTORS; j++)
            e[j] = v_mul(v_set1(r->beta), v_sub(v_load(v + j * VW), v_mul(v_set1(r->fade), e[j])));
        delta_take_row(c, r, next->k, a->key_dim, e, out);
        for (int j = 0; j < DELTA_VECTORS; j++)
            v_store(put + j * VW, out[j]);
        memcpy(ROW_OUT(a->out, a->heads * a->value_dim, t) + at, put, c->count * sizeof *put);
    }
}

/* The same, in a buffer. */
static void delta_copied_rows(const struct op_delta *a, const struct delta_columns *c, uint32_t t,
                              uint32_t end) {
    float copy[DELTA_DIM_MAX * DELTA_COLUMNS] __attribute__((aligned(64)));
    const struct delta_columns near = {c->h, c->first, c->count, copy, DELTA_COLUMNS};
    size_t bytes = c->count * sizeof *copy;
    for (uint32_t i = 0; i < a->key_dim; i++) {
        memset(copy + (size_t)i * DELTA_COLUMNS, 0, DELTA_COLUMNS * sizeof *copy);
        memcpy(copy + (size_t)i * DELTA_COLUMNS, c->state + i * c->stride, bytes);
    }
    delta_rows(a, &near, t, end);
    for (uint32_t i = 0; i < a->key_dim; i++)
        memcpy(c->state + i * c->stride, copy + (size_t)i * DELTA_COLUMNS, bytes);
}

static uint32_t delta_units(const struct op_delta *a) {
    return (a->value_dim + DELTA_COLUMNS - 1) / DELTA_COLUMNS;
}

static void delta_columns_unit(void *ctx, size_t unit_idx, int thread_idx) {
    STATE_UNIT(op_delta);
    struct delta_columns c = {.h = unit / delta_units(a),
                              .first = unit % delta_units(a) * DELTA_COLUMNS,
                              .stride = a->value_dim};
    c.count = MIN(a->value_dim - c.first, (uint32_t)DELTA_COLUMNS);
    c.state = state_at(&a->state, slot) + (size_t)c.h * a->key_dim * a->value_dim + c.first;
    while (state_walk_next(&w)) {
        for (uint32_t i = 0; w.fresh && i < a->key_dim; i++)
            memset(c.state + i * c.stride, 0, c.count * sizeof *c.state);
        if (w.end - w.row < DELTA_ROWS_WORTH_COPYING && c.count == DELTA_COLUMNS)
            delta_rows(a, &c, w.row, w.end);
        else
            delta_copied_rows(a, &c, w.row, w.end);
    }
}

static void cpu_delta(struct stream *s, const struct op_delta *a) {
    CHECK(a->heads % a->key_heads == 0 && a->key_dim <= DELTA_DIM_MAX &&
          a->value_dim <= DELTA_DIM_MAX);
    state_loop(s, a, a->batch, a->heads * delta_units(a),
               (size_t)a->heads * a->key_dim * a->value_dim * 3 / VW, delta_columns_unit);
}
