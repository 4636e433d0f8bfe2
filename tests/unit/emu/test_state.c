/* Operations with a state on the emulated device: against the scalar definition, and every cut into
 * steps against the sequence computed at once, bit by bit. */
#include "kernels/state_cases.h"
#include "rig.h"

/* A case's inputs rounded to the activation type, [slots * length, width]. */
struct numbers {
    const struct state_case *c;
    float *in[CASE_INPUTS], *wide, *p[CASE_PARAMETERS];
};
enum { ROWS = CASE_SLOTS * CASE_LENGTH };

static void round_to(enum storage_type type, float *x, size_t count) {
    uint8_t one[4];
    for (size_t i = 0; i < count; i++) {
        storage_put(type, one, 0, x[i]);
        x[i] = storage_get(type, one, 0);
    }
}
static void numbers_init(struct numbers *n, const struct state_case *c, enum storage_type act) {
    *n = (struct numbers){.c = c, .wide = random_values((size_t)ROWS * c->wide)};
    for (int i = 0; i < CASE_INPUTS; i++) {
        n->in[i] = random_values((size_t)ROWS * c->inputs[i]);
        round_to(act, n->in[i], (size_t)ROWS * c->inputs[i]);
    }
    for (size_t i = 0; i < (size_t)ROWS * c->wide; i++)
        n->wide[i] = fabsf(n->wide[i]);
    for (int i = 0; i < CASE_PARAMETERS; i++)
        n->p[i] = random_values(c->parameters[i]);
    case_tame(c, n->p);
}
static void numbers_release(struct numbers *n) {
    for (int i = 0; i < CASE_INPUTS; i++)
        free(n->in[i]);
    for (int i = 0; i < CASE_PARAMETERS; i++)
        free(n->p[i]);
    free(n->wide);
}

struct plan {
    struct step_run runs[3 * CASE_SLOTS];
    uint32_t run_count, row_count, first[3 * CASE_SLOTS];
};

static void add_run(struct plan *p, uint32_t slot, uint32_t first, uint32_t count) {
    p->runs[p->run_count] = (struct step_run){slot, p->row_count, count};
    p->first[p->run_count++] = first;
    p->row_count += count;
}

/* One step on either device; scatters the outputs of rows that are not padding into
 * all[planes][ROWS, out_width]. */
static void run_step(struct rig *r, bool emulated, const struct numbers *n, void *states,
                     size_t slot_floats, const struct plan *plan, float *all) {
    const struct state_case *c = n->c;
    uint32_t rows = plan->row_count, positions[ROWS], slots[ROWS], from[ROWS];
    for (uint32_t k = 0; k < plan->run_count; k++)
        for (uint32_t i = 0; i < plan->runs[k].token_count; i++) {
            uint32_t row = plan->runs[k].row_first + i, slot = plan->runs[k].slot;
            positions[row] = plan->first[k] == ROW_NONE ? ROW_NONE : plan->first[k] + i;
            slots[row] = slot;
            from[row] = plan->first[k] == ROW_NONE ? 0 : slot * CASE_LENGTH + positions[row];
        }
    void *in[CASE_INPUTS];
    size_t out_count = (size_t)rows * c->out_width * c->out_planes;
    float *wide = calloc((size_t)rows * c->wide + 1, 4), *p[CASE_PARAMETERS], *host[CASE_INPUTS];
    for (uint32_t row = 0; row < rows; row++)
        memcpy(wide + (size_t)row * c->wide, n->wide + (size_t)from[row] * c->wide, c->wide * 4);
    for (int i = 0; i < CASE_INPUTS; i++) {
        host[i] = calloc((size_t)rows * c->inputs[i] + 1, 4);
        for (uint32_t row = 0; row < rows; row++)
            memcpy(host[i] + (size_t)row * c->inputs[i],
                   n->in[i] + (size_t)from[row] * c->inputs[i], c->inputs[i] * 4);
        in[i] = emulated ? rig_values(r, r->act, host[i], (size_t)rows * c->inputs[i]) : host[i];
    }
    for (int i = 0; i < CASE_PARAMETERS; i++)
        p[i] = emulated ? rig_up(r, n->p[i], c->parameters[i] * 4) : n->p[i];
    struct step_batch batch = {.row_count = rows,
                               .run_count = plan->run_count,
                               .runs =
                                   emulated ? rig_up(r, plan->runs, sizeof plan->runs) : plan->runs,
                               .slots = emulated ? rig_up(r, slots, rows * 4) : slots,
                               .positions = emulated ? rig_up(r, positions, rows * 4) : positions};
    struct state_view view = {.base = states, .slot_stride = slot_floats * 4};
    void *out =
        emulated ? rig_alloc(r, storage_bytes(r->act, out_count)) : calloc(out_count + 1, 4);
    c->call(c, emulated ? r->stream : r->ref_stream,
            emulated ? r->dev->ops->state : r->ref->ops->state, in,
            emulated ? rig_up(r, wide, (size_t)rows * c->wide * 4) : wide, p, out, view, &batch);
    float *got = emulated ? rig_down(r, r->act, out, out_count) : out;
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t m = 0; positions[row] != ROW_NONE && m < c->out_planes; m++)
            memcpy(all + ((size_t)m * ROWS + from[row]) * c->out_width,
                   got + ((size_t)m * rows + row) * c->out_width, c->out_width * 4);
    for (int i = 0; i < CASE_INPUTS; i++)
        free(host[i]);
    free(wide);
    free(got);
}

/* All sequences in one step; or cut: rounds of up to two runs a slot, with padding between. */
static float *run_all(const struct numbers *n, enum storage_type act, bool emulated, bool cut) {
    const struct state_case *c = n->c;
    size_t slot_floats = (c->state_floats + 15) / 16 * 16;
    float *all = calloc((size_t)c->out_planes * ROWS * c->out_width, 4);
    float *host_states = calloc(CASE_SLOTS * slot_floats + 16, 4);
    memset(host_states, 0x7f, CASE_SLOTS * slot_floats * 4);
    struct rig first = rig_open(act);
    void *states = emulated ? device_alloc(first.dev, CASE_SLOTS * slot_floats * 4) : host_states;
    uint32_t done[CASE_SLOTS] = {0}, total = 0;
    while (total < ROWS) {
        struct plan plan = {0};
        struct rig r = rig_open(act); /* frees the step's arrays */
        for (uint32_t slot = 0; slot < CASE_SLOTS; slot++) {
            if (cut && check_random() % 3 == 0)
                add_run(&plan, slot, ROW_NONE, 2);
            for (int part = 0; part < 1 + (int)cut; part++) {
                uint32_t left = CASE_LENGTH - done[slot],
                         count = cut ? 1 + (uint32_t)(check_random() % 9) : left;
                if (left == 0 || plan.run_count == ARRAY_LEN(plan.runs))
                    break;
                count = MIN(count, left);
                add_run(&plan, slot, done[slot], count);
                done[slot] += count;
                total += count;
            }
        }
        run_step(&r, emulated, n, states, slot_floats, &plan, all);
        rig_close(&r);
    }
    if (emulated)
        device_free(first.dev, states);
    rig_close(&first);
    free(host_states);
    return all;
}

static double relative_error(const float *x, const float *want, size_t count) {
    double difference = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        difference += ((double)x[i] - want[i]) * ((double)x[i] - want[i]);
        size += (double)want[i] * want[i];
    }
    return sqrt(difference / (size + 1e-30));
}

/* f32 inside, whatever the activation type: its rounding counts once, at the output. */
static void check_case(const struct state_case *c, enum storage_type act) {
    struct numbers n;
    numbers_init(&n, c, act);
    size_t count = (size_t)c->out_planes * ROWS * c->out_width;
    float *got = run_all(&n, act, true, false), *want = run_all(&n, act, false, false),
          *cut = run_all(&n, act, true, true);
    double error = relative_error(got, want, count);
    if (!(error <= rounding(act) + (8.0 * CASE_LENGTH + 64) * UNIT_ROUNDOFF))
        check_fail(__FILE__, __LINE__, "%s %s [%u, %u]: relative error %g", c->name,
                   storage_name(act), c->sizes[0], c->sizes[1], error);
    if (!same_bits(cut, got, count))
        check_fail(__FILE__, __LINE__, "%s %s [%u, %u]: another cut, other bits", c->name,
                   storage_name(act), c->sizes[0], c->sizes[1]);
    free(got);
    free(want);
    free(cut);
    numbers_release(&n);
}

TEST(operations_equal_their_definition_in_any_cut) {
    for (size_t i = 0; i < ARRAY_LEN(STATE_CASES); i++) {
        emu_set_order((int)(i % ORDERS), i);
        for (size_t type = 0; type < ARRAY_LEN(TYPES); type++)
            if (is_long() || type == i % 3)
                check_case(&STATE_CASES[i], TYPES[type]);
    }
    emu_set_order(0, 1);
}

/* ---- operations on rows ---- */

static void expect_near(const char *what, enum storage_type act, const float *got,
                        const float *want, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)got[i] - want[i]) <=
              (1.01 * rounding(act) + 60 * UNIT_ROUNDOFF) * (fabs((double)want[i]) + 1) +
                  rounding_floor(act)))
            check_fail(__FILE__, __LINE__, "%s %s at %zu: %g, expected %g", what, storage_name(act),
                       i, (double)got[i], (double)want[i]);
}

TEST(row_operations_equal_their_definition) {
    enum { T = 3, WIDTH = 63, STRIDE = 70, GROUP = 21 };
    for (int form = 0; form < 6; form++) {
        struct rig r = rig_open(TYPES[form % 3]);
        float *x = random_values(T * STRIDE), *gate = random_values(T * STRIDE),
              *weight = random_values(21 * WIDTH), want[T * WIDTH];
        void *dx = rig_values(&r, r.act, x, T * STRIDE),
             *dgate = rig_values(&r, r.act, gate, T * STRIDE),
             *out = rig_alloc(&r, storage_bytes(r.act, T * WIDTH));
        float *w = rig_up(&r, weight, 21 * WIDTH * 4), *steps = rig_alloc(&r, T * WIDTH * 4);
        bool odd = form & 1;
        r.dev->ops->state->softplus(
            r.stream, &(struct op_softplus){steps, dx, w, T, WIDTH, STRIDE, 0.01f, 1.5f});
        r.ref->ops->state->softplus(
            r.ref_stream, &(struct op_softplus){want, x, weight, T, WIDTH, STRIDE, 0.01f, 1.5f});
        float *got = rig_down(&r, STORAGE_F32, steps, T * WIDTH);
        expect_near("softplus", STORAGE_F32, got, want, T * WIDTH);
        free(got);
        struct op_group_norm norm = {.out = out,
                                     .x = dx,
                                     .gate = form < 4 ? dgate : NULL,
                                     .weight = form == 5 ? NULL : w,
                                     .rows = T,
                                     .width = WIDTH,
                                     .group = form > 1 ? GROUP : WIDTH,
                                     .in_stride = STRIDE,
                                     .gate_stride = STRIDE,
                                     .out_stride = WIDTH,
                                     .eps = 1e-5f,
                                     .gate_first = odd,
                                     .weight_shared = form == 3};
        r.dev->ops->state->group_norm(r.stream, &norm);
        norm.out = want;
        norm.x = x;
        norm.gate = form < 4 ? gate : NULL;
        norm.weight = form == 5 ? NULL : weight;
        r.ref->ops->state->group_norm(r.ref_stream, &norm);
        got = rig_down(&r, r.act, out, T * WIDTH);
        expect_near("group norm", r.act, got, want, T * WIDTH);
        free(got);
        struct op_block_linear block = {out, dx,    w,      odd ? w : NULL, T,       3,
                                        7,   GROUP, STRIDE, odd ? 7 : 0,    form > 2};
        r.dev->ops->state->block_linear(r.stream, &block);
        block = (struct op_block_linear){want, x,     weight, odd ? weight : NULL, T,       3,
                                         7,    GROUP, STRIDE, odd ? 7 : 0,         form > 2};
        r.ref->ops->state->block_linear(r.ref_stream, &block);
        got = rig_down(&r, r.act, out, T * WIDTH);
        EXPECT(relative_error(got, want, T * WIDTH) <= rounding(r.act) + 16 * UNIT_ROUNDOFF);
        free(got);
        for (enum gate_kind kind = GATE_SIGMOID; kind <= GATE_IDENTITY; kind++) {
            struct op_gate g = {
                out,    odd ? dx : NULL, dgate, form > 2 ? w : NULL, T, WIDTH, STRIDE,
                STRIDE, WIDTH,           kind};
            r.dev->ops->state->gate(r.stream, &g);
            g = (struct op_gate){
                want,   odd ? x : NULL, gate, form > 2 ? weight : NULL, T, WIDTH, STRIDE,
                STRIDE, WIDTH,          kind};
            r.ref->ops->state->gate(r.ref_stream, &g);
            got = rig_down(&r, r.act, out, T * WIDTH);
            expect_near("gate", r.act, got, want, T * WIDTH);
            free(got);
        }
        float mixed[T * WIDTH];
        memcpy(mixed, x, sizeof mixed);
        void *dmixed = rig_values(&r, r.act, mixed, T * WIDTH);
        r.dev->ops->state->lerp(r.stream, &(struct op_lerp){dmixed, dgate, dx, w, T, WIDTH});
        r.ref->ops->state->lerp(r.ref_stream, &(struct op_lerp){mixed, gate, x, weight, T, WIDTH});
        got = rig_down(&r, r.act, dmixed, T * WIDTH);
        EXPECT(relative_error(got, mixed, T * WIDTH) <= rounding(r.act) + 20 * UNIT_ROUNDOFF);
        free(got);
        free(x);
        free(gate);
        free(weight);
        rig_close(&r);
    }
}
