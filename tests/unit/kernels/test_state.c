/* Operations with a state: each instruction set against the scalar definition, and every cut into
 * steps against the sequence computed at once, bit by bit. */
#include "rig.h"
#include "state_cases.h"

/* A case's numbers: CASE_SLOTS sequences of CASE_LENGTH rows. */
struct numbers {
    const struct state_case *c;
    float *in[CASE_INPUTS], *wide, *p[CASE_PARAMETERS]; /* [slots * length, width] */
};

static void numbers_init(struct numbers *n, const struct state_case *c) {
    size_t rows = CASE_SLOTS * CASE_LENGTH;
    *n = (struct numbers){.c = c};
    for (int i = 0; i < CASE_INPUTS; i++)
        n->in[i] = random_array(rows * c->inputs[i]);
    n->wide = random_array(rows * c->wide);
    for (size_t i = 0; i < rows * c->wide; i++)
        n->wide[i] = fabsf(n->wide[i]);
    for (int i = 0; i < CASE_PARAMETERS; i++)
        n->p[i] = random_array(c->parameters[i]);
    case_tame(c, n->p);
}
static void numbers_release(struct numbers *n) {
    for (int i = 0; i < CASE_INPUTS; i++)
        unguard(n->in[i]);
    for (int i = 0; i < CASE_PARAMETERS; i++)
        unguard(n->p[i]);
    unguard(n->wide);
}

/* Results of all sequences [planes][slots * length, out_width], and the slots' states with guards
 * between. */
struct results {
    float *out, *states;
    size_t out_count, slot_floats;
};
static void results_init(struct results *r, const struct state_case *c) {
    r->out_count = (size_t)c->out_planes * CASE_SLOTS * CASE_LENGTH * c->out_width;
    r->slot_floats = (c->state_floats + 15) / 16 * 16 + 16;
    r->out = guarded(r->out_count);
    /* poison: an operation must begin anew at position 0 */
    r->states = guarded(CASE_SLOTS * r->slot_floats);
}
static void results_release(struct results *r) {
    unguard(r->out);
    unguard(r->states);
}

enum { RUNS_MAX = 2 * CASE_SLOTS };
struct plan {
    struct step_run runs[RUNS_MAX];
    uint32_t run_count, row_count;
    uint32_t first[RUNS_MAX]; /* the run's first position; ROW_NONE: padding */
};

/* Gathers the step's rows, calls, scatters the outputs. */
static void run_step(struct bench *b, const struct numbers *n, struct results *r,
                     const struct plan *plan) {
    const struct state_case *c = n->c;
    uint32_t rows = plan->row_count;
    uint32_t *positions = calloc(rows, 4), *slots = calloc(rows, 4), *from = calloc(rows, 4);
    for (uint32_t k = 0; k < plan->run_count; k++)
        for (uint32_t i = 0; i < plan->runs[k].token_count; i++) {
            uint32_t row = plan->runs[k].row_first + i;
            positions[row] = plan->first[k] == ROW_NONE ? ROW_NONE : plan->first[k] + i;
            slots[row] = plan->runs[k].slot;
            from[row] =
                plan->first[k] == ROW_NONE ? 0 : plan->runs[k].slot * CASE_LENGTH + positions[row];
        }
    float *in[CASE_INPUTS], *wide = guarded((size_t)rows * c->wide),
                            *out = guarded((size_t)rows * c->out_width * c->out_planes);
    for (int i = 0; i < CASE_INPUTS; i++) {
        in[i] = guarded((size_t)rows * c->inputs[i]);
        for (uint32_t row = 0; row < rows; row++)
            memcpy(in[i] + (size_t)row * c->inputs[i], n->in[i] + (size_t)from[row] * c->inputs[i],
                   c->inputs[i] * 4);
    }
    for (uint32_t row = 0; row < rows; row++)
        memcpy(wide + (size_t)row * c->wide, n->wide + (size_t)from[row] * c->wide, c->wide * 4);
    struct step_batch batch = {.row_count = rows,
                               .run_count = plan->run_count,
                               .runs = plan->runs,
                               .slots = slots,
                               .positions = positions};
    struct state_view view = {.base = r->states, .slot_stride = r->slot_floats * 4};
    c->call(c, b->stream, b->dev->ops->state, (void *const *)in, wide, n->p, out, view, &batch);
    if (!guards_intact(out, (size_t)rows * c->out_width * c->out_planes))
        check_fail(__FILE__, __LINE__, "%s wrote outside its output", c->name);
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t m = 0; positions[row] != ROW_NONE && m < c->out_planes; m++)
            memcpy(r->out + ((size_t)m * CASE_SLOTS * CASE_LENGTH + from[row]) * c->out_width,
                   out + ((size_t)m * rows + row) * c->out_width, c->out_width * 4);
    for (int i = 0; i < CASE_INPUTS; i++)
        unguard(in[i]);
    unguard(wide);
    unguard(out);
    free(positions);
    free(slots);
    free(from);
}

static void run_whole(struct bench *b, const struct numbers *n, struct results *r) {
    for (uint32_t slot = 0; slot < CASE_SLOTS; slot++) {
        struct plan plan = {.runs = {{slot, 0, CASE_LENGTH}},
                            .run_count = 1,
                            .row_count = CASE_LENGTH,
                            .first = {0}};
        run_step(b, n, r, &plan);
    }
}

/* One step of random runs; a sequence may have two of them, or a padding run. */
static void plan_step(struct plan *plan, uint32_t done[CASE_SLOTS]) {
    *plan = (struct plan){0};
    uint32_t start = (uint32_t)(check_random() % CASE_SLOTS);
    for (uint32_t k = 0; k < CASE_SLOTS; k++) {
        uint32_t slot = (start + k) % CASE_SLOTS;
        for (int part = 0; part < 2 && check_random() % 3; part++) {
            bool padding = check_random() % 4 == 0;
            uint32_t left = CASE_LENGTH - done[slot], count = 1 + (uint32_t)(check_random() % 7);
            if (!padding && left == 0)
                break;
            if (!padding)
                count = MIN(count, left);
            plan->runs[plan->run_count] = (struct step_run){slot, plan->row_count, count};
            plan->first[plan->run_count++] = padding ? ROW_NONE : done[slot];
            plan->row_count += count;
            if (!padding)
                done[slot] += count;
        }
    }
    /* rows of a run need not lie in the order of runs */
    if (plan->run_count > 1 && check_random() % 2) {
        uint32_t at = 0;
        for (uint32_t k = plan->run_count; k-- > 0; at += plan->runs[k].token_count)
            plan->runs[k].row_first = at;
    }
}

static void run_cut(struct bench *b, const struct numbers *n, struct results *r) {
    uint32_t done[CASE_SLOTS] = {0}, total = 0;
    while (total < CASE_SLOTS * CASE_LENGTH) {
        struct plan plan;
        plan_step(&plan, done);
        run_step(b, n, r, &plan);
        total = 0;
        for (int i = 0; i < CASE_SLOTS; i++)
            total += done[i];
    }
}

/* Norms of the difference and of the reference. */
static double relative_error(const float *x, const float *want, size_t count) {
    double difference = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        difference += ((double)x[i] - want[i]) * ((double)x[i] - want[i]);
        size += (double)want[i] * want[i];
    }
    return sqrt(difference / (size + 1e-30));
}

/* f32 against double: a row's result passes through at most length recurrence steps, each of a few
 * roundings (exp: 3 ulp of the result and the rounding of its argument), and sums over at most 64
 * states or keys. */
#define STATE_TOLERANCE ((8.0 * CASE_LENGTH + 64) * UNIT_ROUNDOFF)

TEST(operations_equal_their_definition) {
    FOR_EACH_ISA(isa)
    for (size_t i = 0; i < ARRAY_LEN(STATE_CASES); i++) {
        struct bench b = bench_open(isa, 1), ref = bench_open("ref", 1);
        struct numbers n;
        struct results got, want;
        numbers_init(&n, &STATE_CASES[i]);
        results_init(&got, n.c);
        results_init(&want, n.c);
        run_whole(&b, &n, &got);
        run_whole(&ref, &n, &want);
        double error = relative_error(got.out, want.out, got.out_count);
        if (!(error <= STATE_TOLERANCE))
            check_fail(__FILE__, __LINE__, "%s: %s [%u, %u]: relative error %g", isa, n.c->name,
                       n.c->sizes[0], n.c->sizes[1], error);
        EXPECT(guards_intact(got.states, CASE_SLOTS * got.slot_floats));
        results_release(&got);
        results_release(&want);
        numbers_release(&n);
        bench_close(&b);
        bench_close(&ref);
    }
}

static void check_cuts(const char *isa, const struct state_case *c) {
    struct bench b = bench_open(isa, 2);
    struct numbers n;
    struct results whole;
    numbers_init(&n, c);
    results_init(&whole, c);
    run_whole(&b, &n, &whole);
    for (int round = 0; round < 6; round++) {
        struct results cut;
        results_init(&cut, c);
        run_cut(&b, &n, &cut);
        if (!same_bits(cut.out, whole.out, whole.out_count))
            check_fail(__FILE__, __LINE__, "%s: %s [%u, %u]: another cut, other bits", isa, c->name,
                       c->sizes[0], c->sizes[1]);
        for (uint32_t slot = 0; slot < CASE_SLOTS; slot++)
            EXPECT(same_bits(cut.states + slot * cut.slot_floats,
                             whole.states + slot * whole.slot_floats,
                             /* ssm: unused lanes of a tile */
                             c->call == case_ssm ? 0 : c->state_floats));
        results_release(&cut);
    }
    results_release(&whole);
    numbers_release(&n);
    bench_close(&b);
}

TEST(no_cut_into_steps_changes_a_bit) {
    FOR_EACH_ISA(isa)
    for (size_t i = 0; i < ARRAY_LEN(STATE_CASES); i++)
        check_cuts(isa, &STATE_CASES[i]);
    for (size_t i = 0; i < ARRAY_LEN(STATE_CASES); i++)
        check_cuts("ref", &STATE_CASES[i]);
}

/* ---- operations on rows ---- */

static void expect_near(const char *isa, const char *what, const float *x, const float *want,
                        size_t count, double tolerance) {
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)x[i] - want[i]) <= tolerance * (fabs((double)want[i]) + 1)))
            check_fail(__FILE__, __LINE__, "%s: %s at %zu: %g, expected %g", isa, what, i,
                       (double)x[i], (double)want[i]);
    if (!guards_intact(x, count))
        check_fail(__FILE__, __LINE__, "%s: %s wrote outside", isa, what);
}

TEST(step_sizes_are_softplus_within_their_limits) {
    FOR_EACH_ISA(isa) {
        struct bench b = bench_open(isa, 1), ref = bench_open("ref", 1);
        float *x = random_array(5 * 50), *bias = random_array(37), *out = guarded(5 * 37),
              *want = guarded(5 * 37);
        x[3] = 200;
        x[4] = -200;
        struct op_softplus op = {out, x, bias, 5, 37, 50, 0.001f, 30};
        b.dev->ops->state->softplus(b.stream, &op);
        op.out = want;
        ref.dev->ops->state->softplus(ref.stream, &op);
        expect_near(isa, "softplus", out, want, 5 * 37, 8 * UNIT_ROUNDOFF);
        EXPECT(want[3] == 30 && want[4] == 0.001f);
        float *arrays[] = {x, bias, out, want};
        for (size_t i = 0; i < ARRAY_LEN(arrays); i++)
            unguard(arrays[i]);
        bench_close(&b);
        bench_close(&ref);
    }
}

TEST(block_products_equal_their_definition) {
    FOR_EACH_ISA(isa)
    for (uint32_t form = 0; form < 3;
         form++) { /* blocks apart; of the same inputs; with the same weights */
        struct bench b = bench_open(isa, 1), ref = bench_open("ref", 1);
        enum { ROWS = 3, BLOCKS = 4, IN = 11, COLS = 19 };
        float *x = random_array(ROWS * 50), *weight = random_array(BLOCKS * IN * COLS),
              *bias = random_array(BLOCKS * COLS), *out = guarded(ROWS * BLOCKS * COLS),
              *want = guarded(ROWS * BLOCKS * COLS);
        struct op_block_linear op = {out, x,    weight, form == 1 ? NULL : bias, ROWS,     BLOCKS,
                                     IN,  COLS, 50,     form == 1 ? 0 : IN,      form == 2};
        b.dev->ops->state->block_linear(b.stream, &op);
        op.out = want;
        ref.dev->ops->state->block_linear(ref.stream, &op);
        EXPECT(relative_error(out, want, ROWS * BLOCKS * COLS) <= 12 * UNIT_ROUNDOFF);
        EXPECT(guards_intact(out, ROWS * BLOCKS * COLS));
        float *arrays[] = {x, weight, bias, out, want};
        for (size_t i = 0; i < ARRAY_LEN(arrays); i++)
            unguard(arrays[i]);
        bench_close(&b);
        bench_close(&ref);
    }
}

TEST(group_norms_equal_their_definition) {
    FOR_EACH_ISA(isa)
    for (int form = 0; form < 12; form++) {
        struct bench b = bench_open(isa, 1), ref = bench_open("ref", 1);
        enum { ROWS = 3, GROUP = 21, WIDTH = 63, STRIDE = 70 };
        float *x = random_array(ROWS * STRIDE), *gate = random_array(ROWS * STRIDE),
              *weight = random_array(WIDTH), *out = guarded(ROWS * WIDTH),
              *want = guarded(ROWS * WIDTH);
        struct op_group_norm op = {.out = out,
                                   .x = x,
                                   .gate = form % 3 ? gate : NULL,
                                   .weight = form / 3 % 4 == 3 ? NULL : weight,
                                   .rows = ROWS,
                                   .width = WIDTH,
                                   .group = form % 2 ? GROUP : WIDTH,
                                   .in_stride = STRIDE,
                                   .gate_stride = STRIDE,
                                   .out_stride = WIDTH,
                                   .eps = 1e-5f,
                                   .gate_first = form % 3 == 1,
                                   .weight_shared = form / 3 == 1};
        b.dev->ops->state->group_norm(b.stream, &op);
        op.out = want;
        ref.dev->ops->state->group_norm(ref.stream, &op);
        expect_near(isa, "group norm", out, want, ROWS * WIDTH, 40 * UNIT_ROUNDOFF);
        float *arrays[] = {x, gate, weight, out, want};
        for (size_t i = 0; i < ARRAY_LEN(arrays); i++)
            unguard(arrays[i]);
        bench_close(&b);
        bench_close(&ref);
    }
}

TEST(gates_and_lerp_equal_their_definition) {
    FOR_EACH_ISA(isa)
    for (enum gate_kind kind = GATE_SIGMOID; kind <= GATE_IDENTITY; kind++)
        for (int form = 0; form < 4; form++) {
            struct bench b = bench_open(isa, 1), ref = bench_open("ref", 1);
            enum { ROWS = 3, WIDTH = 37, STRIDE = 41 };
            float *x = random_array(ROWS * STRIDE), *gate = random_array(ROWS * STRIDE),
                  *bias = random_array(WIDTH), *out = guarded(ROWS * WIDTH),
                  *want = guarded(ROWS * WIDTH);
            struct op_gate op = {out,    form & 1 ? x : NULL,
                                 gate,   form & 2 ? bias : NULL,
                                 ROWS,   WIDTH,
                                 STRIDE, STRIDE,
                                 WIDTH,  kind};
            b.dev->ops->state->gate(b.stream, &op);
            op.out = want;
            ref.dev->ops->state->gate(ref.stream, &op);
            for (int i = 0; i < ROWS * WIDTH;
                 i++) { /* f is right within 2^-23, and x multiplies that */
                float by = op.x ? x[i / WIDTH * STRIDE + i % WIDTH] : 1;
                if (!(fabs((double)out[i] - want[i]) <=
                      60 * UNIT_ROUNDOFF * (fabsf(want[i]) + 1 + fabsf(by))))
                    check_fail(__FILE__, __LINE__, "%s: gate %d at %d: %g, expected %g", isa,
                               (int)kind, i, out[i], want[i]);
            }
            struct op_lerp lerp = {out, x, gate, form & 2 ? bias : NULL, ROWS, WIDTH};
            memcpy(out, bias, WIDTH * 4); /* the last two rows keep what the gate has made */
            memcpy(want, out, ROWS * WIDTH * 4);
            float before[ROWS * WIDTH];
            memcpy(before, out, sizeof before);
            b.dev->ops->state->lerp(b.stream, &lerp);
            lerp.x = want;
            ref.dev->ops->state->lerp(ref.stream, &lerp);
            for (int i = 0; i < ROWS * WIDTH; i++)
                EXPECT(fabs((double)out[i] - want[i]) <=
                       20 * UNIT_ROUNDOFF * (fabs((double)before[i]) + fabs((double)x[i])));
            float *arrays[] = {x, gate, bias, out, want};
            for (size_t i = 0; i < ARRAY_LEN(arrays); i++)
                unguard(arrays[i]);
            bench_close(&b);
            bench_close(&ref);
        }
}
