/* Products of a mixture's experts with quantised weights in units, on Hopper and on other GPUs: against the
 * definition of each type, and bits against how many rows an expert has, where they lie and thread order. */
#include "experts_rig.h"
#include "packed_rig.h"

enum { PARTS = 2 };
static const uint32_t PART_ROWS[PARTS] = {64, 128};
enum { FEATURES = 192 };

/* Rows of each expert, by whose average a block has 8, 32 or 64 rows; on Hopper also 16 or 128. */
enum { MMA_COUNTS = 3, HOPPER_COUNTS = 5 };
static const uint32_t COUNTS[HOPPER_COUNTS][EXPERTS] = {
    {3, 0, 9, 1, 5}, {0, 33, 7, 40, 1}, {65, 0, 130, 3, 1}, {0, 17, 5, 20, 2}, {0, 129, 131, 2, 1}};

struct mixture {
    const struct form *form;
    enum storage_type act;
    uint32_t cols;
    struct weights parts[EXPERTS][PARTS];
    float *bias; /* [EXPERTS, FEATURES], or NULL */
};

static struct mixture mixture_new(const struct form *form, enum storage_type act, uint32_t cols,
                                  bool bias) {
    struct mixture m = {.form = form, .act = act, .cols = cols};
    for (uint32_t e = 0; e < EXPERTS; e++)
        for (uint32_t i = 0; i < PARTS; i++)
            m.parts[e][i] = make_weights(form, PART_ROWS[i], cols);
    m.bias = bias ? random_values((size_t)EXPERTS * FEATURES) : NULL;
    return m;
}
static void mixture_free(struct mixture *m) {
    for (uint32_t e = 0; e < EXPERTS; e++)
        for (uint32_t i = 0; i < PARTS; i++)
            free_weights(&m->parts[e][i]);
    free(m->bias);
}

/* The experts' matrices on the device, packed there; *host: what describes them. */
static struct expert_matrix put_experts_up(struct rig *r, const struct mixture *m,
                                           struct matrix host[EXPERTS]) {
    const struct ops *ops = r->dev->ops;
    float *bias = m->bias ? rig_values(r, STORAGE_F32, m->bias, (size_t)EXPERTS * FEATURES) : NULL;
    for (uint32_t e = 0; e < EXPERTS; e++) {
        host[e] = (struct matrix){
            .type = m->form->type, .rows = FEATURES, .cols = m->cols, .segment_count = PARTS};
        host[e].bias = bias ? bias + (size_t)e * FEATURES : NULL;
        for (uint32_t i = 0; i < PARTS; i++)
            host[e].segments[i] = put_rows_up(r, &m->parts[e][i]).segments[0];
    }
    if (!ops->packs_experts(r->dev, host, EXPERTS))
        check_fail(__FILE__, __LINE__, "%s: experts cannot be packed", m->form->name);
    for (uint32_t e = 0; e < EXPERTS; e++)
        for (uint32_t i = 0; i < PARTS; i++) {
            struct matrix_segment *p = &host[e].segments[i];
            ops->pack(r->stream, &host[e], i, (void *)p->data);
            p->packed = p->data;
        }
    return (struct expert_matrix){.type = m->form->type,
                                  .rows = FEATURES,
                                  .cols = m->cols,
                                  .expert_count = EXPERTS,
                                  .experts = rig_up(r, host, EXPERTS * sizeof *host),
                                  .packed = true,
                                  .scale_cols = host[0].segments[0].scale_cols};
}

/* [pairs, FEATURES]; x [pairs, cols] is rounded to its type. alike: the product of each expert's rows by
 * linear, which has the same bits where it does not cut k; or NULL. */
static float *run_experts(const struct mixture *m, const uint32_t counts[EXPERTS], float *x,
                          float **alike) {
    struct rig r = rig_open(m->act);
    struct matrix host[EXPERTS];
    uint32_t offsets[EXPERTS + 1] = {0};
    for (uint32_t e = 0; e < EXPERTS; e++)
        offsets[e + 1] = offsets[e] + counts[e];
    const uint32_t pairs = offsets[EXPERTS];
    const struct expert_matrix w = put_experts_up(&r, m, host);
    void *xs = rig_values(&r, m->act, x, (size_t)pairs * m->cols),
         *out = rig_alloc(&r, storage_bytes(m->act, (size_t)pairs * FEATURES));
    const struct expert_plan plan = {.offsets = rig_up(&r, offsets, sizeof offsets)};
    r.dev->ops->expert_linear(r.stream,
                              &(struct op_expert_linear){out, xs, &w, &plan, pairs, 1, NULL});
    float *got = rig_down(&r, m->act, out, (size_t)pairs * FEATURES);
    if (alike) {
        for (uint32_t e = 0; e < EXPERTS; e++) {
            const size_t from = storage_bytes(m->act, (size_t)offsets[e] * m->cols),
                         to = storage_bytes(m->act, (size_t)offsets[e] * FEATURES);
            struct op_linear one =
                product_of(&host[e], (char *)out + to, (char *)xs + from, counts[e]);
            r.dev->ops->linear(r.stream, &one);
        }
        *alike = rig_down(&r, m->act, out, (size_t)pairs * FEATURES);
    }
    rig_close(&r);
    return got;
}

/* Every part of every expert against the definition. */
static void check_parts(const struct mixture *m, const uint32_t counts[EXPERTS], const float *x,
                        const float *got) {
    for (uint32_t e = 0, t0 = 0; e < EXPERTS; t0 += counts[e++])
        for (uint32_t i = 0, n0 = 0; i < PARTS; n0 += PART_ROWS[i++]) {
            const struct shape s = {m->form, m->act,          counts[e], PART_ROWS[i],
                                    m->cols, m->bias != NULL, false};
            float *part = calloc((size_t)counts[e] * PART_ROWS[i] + 1, sizeof *part);
            for (uint32_t t = 0; t < counts[e]; t++)
                memcpy(part + (size_t)t * PART_ROWS[i], got + (size_t)(t0 + t) * FEATURES + n0,
                       PART_ROWS[i] * sizeof *part);
            check_values(&s, &m->parts[e][i], x + (size_t)t0 * m->cols,
                         m->bias ? m->bias + (size_t)e * FEATURES + n0 : NULL, part);
            free(part);
        }
}

/* Form f with these rows against its definition, and bits against thread order. */
static void check_form(uint32_t f, const uint32_t counts[EXPERTS], enum storage_type act,
                       uint32_t cols) {
    struct mixture m = mixture_new(&FORMS[f], act, cols_of(&FORMS[f], cols), f % 2);
    const uint32_t pairs = sum_of(counts);
    float *x = small_values((size_t)pairs * m.cols), *first = NULL;
    for (int order = 0; order < (is_long() ? ORDERS : 2); order++) {
        emu_set_order(order, 5);
        float *got = run_experts(&m, counts, x, NULL);
        if (first && !same_bits(first, got, (size_t)pairs * FEATURES))
            check_fail(__FILE__, __LINE__, "%s: bits depend on the order of threads", m.form->name);
        if (first)
            free(got);
        else
            first = got;
    }
    emu_set_order(0, 1);
    check_parts(&m, counts, x, first);
    free(first);
    free(x);
    mixture_free(&m);
}

/* k: one tile of 64, a stage of four and less, rings that come round. */
static const uint32_t COLS[] = {64, 1344, 448};

TEST(products_of_experts_in_units_equal_the_definition) {
    const struct drawn forms = drawn_of(4);
    for (uint32_t f = 0; f < ARRAY_LEN(FORMS); f++)
        for (uint32_t i = 0; i < MMA_COUNTS; i++) {
            if (!is_drawn(forms, f) || (!is_long() && (i + f) % 3 != 0))
                continue;
            use_device(f / 3 + i);
            check_form(f, COUNTS[i], TYPES[1 + (f + i) % 2], COLS[(f / 3 + i) % 3]);
        }
    emu_set_device(90, 90);
}

/* The longest: rings of few rows come round, too. */
TEST(products_of_experts_by_wgmma_equal_the_definition) {
    static const uint32_t cols[] = {2368, 64, 448};
    const struct drawn forms = drawn_of(4);
    for (uint32_t f = 0; f < ARRAY_LEN(FORMS); f++)
        for (uint32_t i = 0; i < HOPPER_COUNTS; i++)
            if (is_drawn(forms, f) && (is_long() || (i + f) % HOPPER_COUNTS == 0))
                check_form(f, COUNTS[i], TYPES[1 + (f + i) % 2], cols[(f + i / 2) % 3]);
}

/* Expert 2's row `row` of each of some counts, and that row by itself; and all rows of a count by linear. short_run: how
 * many of the counts are tried in a short run, from the f-th on. */
static void check_row(uint32_t f, uint32_t counts, uint32_t short_run) {
    enum { EXPERT = 2 };
    static const uint32_t alone[EXPERTS] = {[EXPERT] = 1};
    struct mixture m =
        mixture_new(&FORMS[f], STORAGE_BF16, cols_of(&FORMS[f], f % 2 ? 640 : 256), false);
    float *row = small_values(m.cols), *one = run_experts(&m, alone, row, NULL);
    for (uint32_t i = 0; i < counts; i++) {
        if (!is_long() && (i + counts - f % counts) % counts >= short_run)
            continue;
        const uint32_t pairs = sum_of(COUNTS[i]),
                       place = COUNTS[i][0] + COUNTS[i][1] +
                               (uint32_t)(check_random() % COUNTS[i][EXPERT]);
        float *x = small_values((size_t)pairs * m.cols), *alike = NULL;
        memcpy(x + (size_t)place * m.cols, row, m.cols * sizeof *x);
        float *got = run_experts(&m, COUNTS[i], x, &alike);
        if (emu_launch_count() && !same_bits(one, got + (size_t)place * FEATURES, FEATURES))
            check_fail(__FILE__, __LINE__, "%s: other bits among %u rows", m.form->name, pairs);
        if (emu_launch_count() && !same_bits(alike, got, (size_t)pairs * FEATURES))
            check_fail(__FILE__, __LINE__, "%s: other bits than linear's", m.form->name);
        free(alike);
        free(got);
        free(x);
    }
    free(one);
    free(row);
    mixture_free(&m);
}

TEST(a_row_of_an_expert_has_the_same_bits_whatever_the_rows_beside_it) {
    const struct drawn forms = drawn_of(4);
    for (uint32_t f = 0; f < ARRAY_LEN(FORMS); f++) {
        if (!is_drawn(forms, f))
            continue;
        use_device(1 + f % 2);
        check_row(f, MMA_COUNTS, 1);
    }
    emu_set_device(90, 90);
}

TEST(a_row_of_an_expert_has_the_same_bits_by_wgmma) {
    const struct drawn forms = drawn_of(4);
    for (uint32_t f = 0; f < ARRAY_LEN(FORMS); f++)
        if (is_drawn(forms, f))
            check_row(f, HOPPER_COUNTS, 2);
}

TEST(rows_find_their_expert_among_many) {
    static const uint32_t most[] = {2, 60, 200}; /* rows an expert has, at most */
    for (uint32_t i = 0; i < ARRAY_LEN(most); i++) {
        struct rig r = rig_open(STORAGE_BF16);
        struct weights w = make_weights(&FORMS[4], 64, 64);
        const struct matrix one = put_up(&r, &w, FORMS[4].name);
        check_many_experts(&r, &one, true, most[i]);
        free_weights(&w);
        rig_close(&r);
    }
}

/* Matrices that a launch cannot have together stay in rows. */
TEST(experts_of_two_forms_are_not_packed) {
    struct rig r = rig_open(STORAGE_BF16);
    struct weights a = make_weights(&FORMS[6], 64, 128), b = make_weights(&FORMS[7], 64, 128),
                   c = make_weights(&FORMS[4], 64, 128), odd = make_weights(&FORMS[4], 60, 128);
    const struct ops *ops = r.dev->ops;
    struct matrix two[] = {put_rows_up(&r, &a), put_rows_up(&r, &a)};
    EXPECT(ops->packs_experts(r.dev, two, 2));
    two[1] = put_rows_up(&r, &b); /* groups of 64, where the first has 32 */
    EXPECT(!ops->packs_experts(r.dev, two, 2));
    two[1] = put_rows_up(&r, &c);
    EXPECT(!ops->packs_experts(r.dev, two, 2));
    two[0] = put_rows_up(&r, &odd);
    EXPECT(!ops->packs_experts(r.dev, two, 1));
    rig_wait(&r);
    free_weights(&a);
    free_weights(&b);
    free_weights(&c);
    free_weights(&odd);
    rig_close(&r);
}
