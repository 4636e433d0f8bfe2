/*
 * Sums and gathers among GPUs that write to each other's memory (kernels/peers.h): each rank is a
 * process with a device of its own, as in a replica. What a sum must be, every rank knows: the
 * addends are drawn from rank and index.
 */
#include "base/clock.h"
#include "kernels/encode.h"
#include "members.h"

/* ---- sums ---- */

/* What op_sum_addends is: in rank order, in f32, rounded once. */
static float sum_of(struct member *m, enum storage_type type, uint64_t seed, size_t i) {
    float sum = 0, one;
    char rounded[4];
    for (uint32_t r = 0; r < m->count; r++) {
        storage_put(type, rounded, 0, addend(r, seed, i));
        one = storage_get(type, rounded, 0);
        sum = r ? sum + one : one;
    }
    storage_put(type, rounded, 0, sum);
    return storage_get(type, rounded, 0);
}

static void expect_sums(struct member *m, const char *what, const void *x, enum storage_type type,
                        size_t count, uint64_t seed) {
    float *got = rig_down(&m->rig, type, x, count);
    for (size_t i = 0; i < count; i++) {
        float want = sum_of(m, type, seed, i);
        if (memcmp(&want, &got[i], sizeof want)) {
            TELL(m, "%s of %zu %s: value %zu is %a, not %a", what, count, storage_name(type), i,
                 (double)got[i], (double)want);
            break;
        }
    }
    free(got);
}

static void put_sum(struct member *m, void *x, enum storage_type type, size_t count, int shots) {
    m->ops->sum(
        m->rig.stream,
        &(struct op_peer_sum){
            .peers = m->peers, .x = x, .count = count, .f32 = type == STORAGE_F32, .shots = shots});
}

/* One value; odd ones; less than a block has threads for; several blocks; several messages a block.
 * The last are as long as they need to be: an emulated device has two SMs, a place is 64 KB. */
static const size_t SIZES[] = {1, 7, 8, 1000, 4096, 4104, 33000, 150000};

static void sum_all_sizes(struct member *m) {
    if (!member_join(m, WAIT_MS))
        return;
    meet(m);
    for (size_t i = 0; i < ARRAY_LEN(SIZES) * 4; i++) {
        size_t count = SIZES[i / 4];
        if (emu_is_watched() && i / 4 + 1 == ARRAY_LEN(SIZES))
            continue; /* no other accesses than those before it, and many */
        enum storage_type type = i % 2 ? STORAGE_F32 : m->rig.act;
        void *x = rig_alloc(&m->rig, storage_bytes(type, count));
        emu_set_order((int)((i + m->self) % ORDERS), i * 8 + m->self);
        put_addends(m, x, type, count, i);
        put_sum(m, x, type, count, i / 2 % 2 ? 2 : 1);
        expect_sums(m, i / 2 % 2 ? "two shots" : "one shot", x, type, count, i);
    }
}

TEST(sums_are_those_in_rank_order_bit_for_bit) {
    run_members(2, STORAGE_BF16, sum_all_sizes);
    run_members(3, STORAGE_F16, sum_all_sizes);
    if (emu_is_watched())
        return;
    run_members(4, STORAGE_BF16, sum_all_sizes);
    run_members(8, STORAGE_BF16, sum_all_sizes);
}

enum { IN_A_ROW = 12, ROW_VALUES = 2048 };

/* Nobody waits for the host between them, and the ranks are never equally fast. */
static void sum_in_a_row(struct member *m) {
    void *x[IN_A_ROW];
    size_t size = storage_bytes(m->rig.act, ROW_VALUES);
    if (!member_join(m, WAIT_MS))
        return;
    for (int i = 0; i < IN_A_ROW; i++) {
        x[i] = rig_alloc(&m->rig, size);
        put_addends(m, x[i], m->rig.act, ROW_VALUES, (uint64_t)i);
    }
    rig_wait(&m->rig);
    meet(m);
    for (int i = 0; i < IN_A_ROW; i++) {
        size_t count = i % 3 == 1 ? 24 : ROW_VALUES;
        put_sum(m, x[i], m->rig.act, count, i % 4 == 3 ? 2 : 1);
        if ((uint32_t)i % m->count == m->self)
            usleep(2000);
        if (i % 5 == 4)
            rig_wait(&m->rig);
    }
    for (int i = 0; i < IN_A_ROW; i++)
        expect_sums(m, "in a row", x[i], m->rig.act, i % 3 == 1 ? 24 : ROW_VALUES, (uint64_t)i);
}

TEST(sums_in_a_row_do_not_meet) {
    run_members(2, STORAGE_BF16, sum_in_a_row);
    run_members(4, STORAGE_BF16, sum_in_a_row);
}

/* x is summed, then its double: 2 * count times the first sum's roundings are exact in f32 of few
 * bits, which these small integers have. */
static void sum_in_graphs(struct member *m) {
    enum { COUNT = 512, LAUNCHES = 5 };
    float ones[COUNT], want = 1;
    struct graph *g = NULL;
    if (!member_join(m, WAIT_MS))
        return;
    for (int i = 0; i < COUNT; i++)
        ones[i] = 1;
    float *x = rig_up(&m->rig, ones, sizeof ones);
    if (graph_begin(m->rig.stream)) {
        put_sum(m, x, STORAGE_F32, COUNT, 1);
        put_sum(m, x, STORAGE_F32, COUNT, 2);
        g = graph_end(m->rig.stream);
    }
    if (!g)
        TELL(m, "records no graph");
    meet(m);
    for (int round = 0; round < 2; round++) { /* the graph outlives a formation */
        for (int i = 0; i < LAUNCHES && g; i++) {
            graph_launch(m->rig.stream, g);
            want *= (float)(m->count * m->count);
        }
        float *got = rig_down(&m->rig, STORAGE_F32, x, COUNT);
        for (int i = 0; i < COUNT; i++)
            if (!(got[i] == want))
                TELL(m, "round %d: value %d is %g, not %g", round, i, (double)got[i], (double)want);
        free(got);
        m->ops->abort(m->peers);
        meet(m);
        m->ops->leave(m->peers);
        meet(m);
        if (!member_join(m, WAIT_MS))
            return;
        meet(m);
    }
    graph_free(&g);
}

TEST(sums_can_be_recorded_and_the_graph_outlives_a_formation) {
    run_members(2, STORAGE_BF16, sum_in_graphs);
    run_members(4, STORAGE_BF16, sum_in_graphs);
}

/* ---- sums that are added to the residual and normed ---- */

/* Arrays of one such operation, and of sum and rmsnorm, which are to give the same. */
enum norm_oddity { PLAIN, UNALIGNED_WEIGHT, NO_NUMBERS };
struct norm_case {
    uint32_t rows, width;
    int shots;
    enum norm_oddity oddity;
};
struct norm_arrays {
    struct op_rmsnorm norm, want;
};

static void *put_floats(struct member *m, uint32_t seed, size_t count) {
    float *host = malloc(count * sizeof *host);
    for (size_t i = 0; i < count; i++)
        host[i] = addend(PEERS_MAX, seed, i);
    void *at = rig_up(&m->rig, host, count * sizeof *host);
    free(host);
    return at;
}

/* Two values that look, together, like what lies in a place that nobody has written to: NaN. */
static void put_no_numbers(struct member *m, void *delta) {
    const uint32_t word = UINT32_MAX;
    stream_copy_in(m->rig.stream, (char *)delta + 12, &word, sizeof word);
}

static struct norm_arrays lay_norm(struct member *m, const struct norm_case *c, uint32_t seed) {
    const size_t count = (size_t)c->rows * c->width, size = storage_bytes(m->rig.act, count);
    float *weight = put_floats(m, seed + 1000, c->width + 1);
    struct norm_arrays a = {.norm = {.weight = c->oddity == UNALIGNED_WEIGHT ? weight + 1 : weight,
                                     .rows = c->rows,
                                     .width = c->width,
                                     .eps = 1e-5f,
                                     .weight_offset = seed % 3 ? 0 : 1,
                                     .delta_scale = seed % 2 ? 0.25f : 0,
                                     .x_f32 = true}};
    a.want = a.norm;
    for (int i = 0; i < 2; i++) {
        struct op_rmsnorm *n = i ? &a.want : &a.norm;
        void *delta = rig_alloc(&m->rig, size);
        put_addends(m, delta, m->rig.act, count, seed);
        if (c->oddity == NO_NUMBERS && m->self == 1)
            put_no_numbers(m, delta);
        n->delta = delta;
        n->x = put_floats(m, seed, count);
        n->out = rig_alloc(&m->rig, size);
    }
    rig_wait(&m->rig);
    return a;
}

static void put_norm(struct member *m, const struct norm_arrays *a, int shots) {
    if (!m->ops->norms(m->peers, &a->norm))
        TELL(m, "does not norm %u x %u", a->norm.rows, a->norm.width);
    else
        m->ops->norm(m->rig.stream, &(struct op_peer_norm){m->peers, &a->norm, shots, false});
}

static void expect_same(struct member *m, const char *what, const struct norm_case *c,
                        enum storage_type type, const void *got, const void *want) {
    const size_t count = (size_t)c->rows * c->width;
    float *a = rig_down(&m->rig, type, got, count), *b = rig_down(&m->rig, type, want, count);
    for (size_t i = 0; i < count; i++)
        if (memcmp(&a[i], &b[i], sizeof *a)) {
            TELL(m, "%s of %u x %u, %d shots: value %zu is %a, not %a", what, c->rows, c->width,
                 c->shots, i, (double)a[i], (double)b[i]);
            break;
        }
    free(a);
    free(b);
}

static void expect_norm(struct member *m, const struct norm_case *c, const struct norm_arrays *a) {
    m->ops->sum(m->rig.stream, &(struct op_peer_sum){.peers = m->peers,
                                                     .x = (void *)(uintptr_t)a->want.delta,
                                                     .count = (size_t)c->rows * c->width});
    m->rig.dev->ops->rmsnorm(m->rig.stream, &a->want);
    expect_same(m, "residual", c, STORAGE_F32, a->norm.x, a->want.x);
    expect_same(m, "norm", c, m->rig.act, a->norm.out, a->want.out);
}

/* One group; rows that are no whole warps; those whose slices differ; all threads of a block. */
static const struct norm_case NORMS[] = {
    {1, 16, 1, UNALIGNED_WEIGHT}, {3, 48, 1, PLAIN},       {5, 528, 2, UNALIGNED_WEIGHT},
    {1, 1040, 2, NO_NUMBERS},     {2, 304, 1, NO_NUMBERS}, {3, 1040, 0, PLAIN},
    {1, 4096, 2, PLAIN},          {2, 8192, 1, PLAIN},
};

static void norm_all_sizes(struct member *m) {
    const size_t count = ARRAY_LEN(NORMS) - (emu_is_watched() || m->count > 2 ? 1 : 0);
    if (!member_join(m, WAIT_MS))
        return;
    meet(m);
    for (size_t i = 0; i < count; i++) {
        const struct norm_case *c = &NORMS[i];
        struct norm_arrays a = lay_norm(m, c, (uint32_t)i);
        emu_set_order((int)((i + m->self) % ORDERS), i * 8 + m->self);
        put_norm(m, &a, c->shots);
        expect_norm(m, c, &a);
    }
}

TEST(norms_of_sums_are_those_of_sum_and_norm_bit_for_bit) {
    run_members(2, STORAGE_BF16, norm_all_sizes);
    run_members(3, STORAGE_F16, norm_all_sizes);
    if (emu_is_watched())
        return;
    run_members(4, STORAGE_BF16, norm_all_sizes);
    run_members(8, STORAGE_BF16, norm_all_sizes);
}

/* As sum_in_a_row, with both kinds; a kernel's block leaves its places to the next but one. */
static void norm_in_a_row(struct member *m) {
    static const struct norm_case CASES[] = {
        {2, 528, 1, PLAIN}, {1, 528, 2, PLAIN}, {2, 64, 1, PLAIN}};
    struct norm_arrays a[IN_A_ROW];
    void *sums[IN_A_ROW];
    if (!member_join(m, WAIT_MS))
        return;
    for (uint32_t i = 0; i < IN_A_ROW; i++) {
        a[i] = lay_norm(m, &CASES[i % ARRAY_LEN(CASES)], i);
        sums[i] = rig_alloc(&m->rig, storage_bytes(m->rig.act, 24));
        put_addends(m, sums[i], m->rig.act, 24, i);
    }
    rig_wait(&m->rig);
    meet(m);
    for (uint32_t i = 0; i < IN_A_ROW; i++) {
        put_norm(m, &a[i], CASES[i % ARRAY_LEN(CASES)].shots);
        if (i % 4 == 1)
            put_sum(m, sums[i], m->rig.act, 24, 1);
        if (i % m->count == m->self)
            usleep(2000);
        if (i % 5 == 4)
            rig_wait(&m->rig);
    }
    for (uint32_t i = 0; i < IN_A_ROW; i++) {
        expect_norm(m, &CASES[i % ARRAY_LEN(CASES)], &a[i]);
        if (i % 4 == 1)
            expect_sums(m, "between norms", sums[i], m->rig.act, 24, i);
    }
}

TEST(norms_in_a_row_do_not_meet) {
    run_members(2, STORAGE_BF16, norm_in_a_row);
    run_members(4, STORAGE_BF16, norm_in_a_row);
}

static void norm_not(struct member *m) {
    struct norm_arrays a;
    if (!member_join(m, WAIT_MS))
        return;
    meet(m); /* the other's memory is there until then */
    a = lay_norm(m, &(struct norm_case){1, 64, 1, PLAIN}, 0);
    const struct op_rmsnorm whole = a.norm;
    struct op_rmsnorm others[] = {whole, whole, whole, whole, whole, whole};
    others[0].width = 8208;      /* more threads than a block has */
    others[1].width = 56;        /* no whole groups */
    others[2].rows = 1024;       /* more than the places hold */
    others[3].weight = NULL;     /* no norm */
    others[4].out = others[4].x; /* nothing of 16 bits */
    others[5].x_f32 = false;
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        if (i == 2)
            others[i].width = 4096;
        if (m->ops->norms(m->peers, &others[i]))
            TELL(m, "norms what it cannot: %zu", i);
    }
    if (!m->ops->norms(m->peers, &whole))
        TELL(m, "does not norm a row");
}

TEST(norms_of_other_shapes_are_refused) {
    run_members(2, STORAGE_BF16, norm_not);
}

/* ---- sums that a product has pushed ---- */

/* A product of [rows, cols] and w [width, cols], whose out is what this rank has of the sum. */
struct push_case {
    uint32_t rows, width, cols;
    enum storage_type type; /* F32: that of activations */
    enum compute_type compute;
    bool bias;
};
struct push_arrays {
    struct matrix w;
    struct norm_arrays norms;
    struct op_linear apart, pushes;
    uint32_t seed;
};

/* Small enough for sums in f16. */
static void *put_small(struct member *m, enum storage_type type, size_t count, uint64_t seed) {
    void *host = malloc(storage_bytes(type, count)),
         *at = rig_alloc(&m->rig, storage_bytes(type, count));
    float *values = malloc(count * sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = addend(m->self, seed, i) * 0x1p-6f;
    if (storage_is_plain(type) || storage_is_scaled(type))
        for (size_t i = 0; i < count; i++)
            storage_put(type, host, i, values[i]);
    else
        storage_encode(type, values, count, host);
    stream_copy_in(m->rig.stream, at, host, storage_bytes(type, count));
    free(values);
    free(host);
    return at;
}

static void lay_push(struct member *m, const struct push_case *c, uint32_t seed,
                     struct push_arrays *a) {
    const struct ops *ops = m->rig.dev->ops;
    const enum storage_type type = c->type == STORAGE_F32 ? m->rig.act : c->type;
    const bool scaled = storage_is_scaled(type);
    void *w = put_small(m, type, (size_t)c->width * c->cols, seed + 20);
    a->w = (struct matrix){.type = type,
                           .compute = c->compute,
                           .rows = c->width,
                           .cols = c->cols,
                           .bias = c->bias ? put_floats(m, seed + 30, c->width) : NULL,
                           .segment_count = 1,
                           .segments = {{.data = w,
                                         .rows = c->width,
                                         .scales = scaled ? put_floats(m, seed + 40, 1) : NULL,
                                         .scale_rows = scaled ? UINT32_MAX : 0,
                                         .scale_stride = scaled}}};
    if (ops->packed_bytes(m->rig.dev, &a->w, 0) != PACKED_IN_PLACE)
        TELL(m, "does not pack %s", storage_name(type));
    ops->pack(m->rig.stream, &a->w, 0, w);
    a->w.segments[0].packed = w;
    a->norms = lay_norm(m, &(struct norm_case){c->rows, c->width, 1, PLAIN}, seed);
    a->seed = seed;
    a->apart = (struct op_linear){
        .out = (void *)(uintptr_t)a->norms.want.delta,
        .x = put_small(m, m->rig.act, (size_t)c->rows * c->cols, seed + 50),
        .w = &a->w,
        .rows = c->rows,
        .class_rows = seed % 3 ? c->rows : c->rows / 2,
        .out_stride = c->width,
        .scratch = rig_alloc(&m->rig, ops->linear_scratch(m->rig.dev, c->rows, c->cols))};
    a->pushes = a->apart;
    a->pushes.out = (void *)(uintptr_t)a->norms.norm.delta;
    if (!m->ops->pushes(m->peers, &a->norms.norm, &a->w))
        TELL(m, "does not push %u x %u of %s", c->rows, c->width, storage_name(type));
}

/* Now and then a rank leaves it to the norm. */
static void put_pushed_norm(struct member *m, struct push_arrays *a) {
    const bool pushes = (a->seed + m->self) % 4 != 3;
    a->pushes.push = pushes ? m->peers : NULL;
    m->rig.dev->ops->linear(m->rig.stream, &a->pushes);
    m->ops->norm(m->rig.stream, &(struct op_peer_norm){m->peers, &a->norms.norm, 1, pushes});
}

static void expect_pushed_norm(struct member *m, const struct push_case *c,
                               const struct push_arrays *a) {
    m->rig.dev->ops->linear(m->rig.stream, &a->apart);
    expect_norm(m, &(struct norm_case){c->rows, c->width, 1, PLAIN}, &a->norms);
}

/* One block of features; k in two splits, in four; each number of rows that a block has; weights that
 * have sums of their own; activations of 8 bits. */
static const struct push_case PUSHES[] = {
    {1, 64, 128, STORAGE_F32, COMPUTE_F32, true},
    {8, 192, 2048, STORAGE_F32, COMPUTE_F32, true},
    {5, 128, 320, STORAGE_F8_E4M3, COMPUTE_F32, false},
    {3, 128, 256, STORAGE_F8_E4M3, COMPUTE_FP8, true},
    {13, 64, 128, STORAGE_F32, COMPUTE_F32, false},
    {21, 64, 4096, STORAGE_F32, COMPUTE_F32, false},
    {30, 128, 256, STORAGE_F8_E4M3, COMPUTE_F32, true},
    {41, 128, 2048, STORAGE_F32, COMPUTE_F32, true},
    {64, 64, 2048, STORAGE_F8_E4M3, COMPUTE_F32, false},
};

static bool has_pushes(const struct member *m) {
    return strstr(m->rig.dev->isa, "sm_90") != NULL;
}

static void push_all_sizes(struct member *m) {
    const size_t count = m->count == 2 && !emu_is_watched() ? ARRAY_LEN(PUSHES) : 6;
    struct push_arrays a;
    if (!member_join(m, WAIT_MS))
        return;
    meet(m);
    for (size_t i = 0; i < count && has_pushes(m); i++) {
        lay_push(m, &PUSHES[i], (uint32_t)i, &a);
        emu_set_order((int)((i + m->self) % ORDERS), i * 8 + m->self);
        put_pushed_norm(m, &a);
        expect_pushed_norm(m, &PUSHES[i], &a);
    }
}

TEST(norms_of_what_products_pushed_are_those_of_product_sum_and_norm) {
    run_members(2, STORAGE_BF16, push_all_sizes);
    run_members(3, STORAGE_F16, push_all_sizes);
    if (emu_is_watched())
        return;
    run_members(4, STORAGE_BF16, push_all_sizes);
    run_members(8, STORAGE_BF16, push_all_sizes);
}

/* As norm_in_a_row: ranks are never equally fast, and some push while others have yet to read. */
static void push_in_a_row(struct member *m) {
    static const struct push_case CASES[] = {{2, 64, 128, STORAGE_F32, COMPUTE_F32, false},
                                             {1, 128, 64, STORAGE_F32, COMPUTE_F32, true},
                                             {6, 64, 64, STORAGE_F32, COMPUTE_F32, false}};
    struct push_arrays a[IN_A_ROW];
    if (!member_join(m, WAIT_MS) || !has_pushes(m))
        return;
    for (uint32_t i = 0; i < IN_A_ROW; i++)
        lay_push(m, &CASES[i % ARRAY_LEN(CASES)], i, &a[i]);
    rig_wait(&m->rig);
    meet(m);
    for (uint32_t i = 0; i < IN_A_ROW; i++) {
        put_pushed_norm(m, &a[i]);
        if (i % m->count == m->self)
            usleep(2000);
        if (i % 5 == 4)
            rig_wait(&m->rig);
    }
    for (uint32_t i = 0; i < IN_A_ROW; i++)
        expect_pushed_norm(m, &CASES[i % ARRAY_LEN(CASES)], &a[i]);
}

TEST(pushes_in_a_row_do_not_meet) {
    run_members(2, STORAGE_BF16, push_in_a_row);
    run_members(4, STORAGE_BF16, push_in_a_row);
}

/* ---- products that add up ---- */

/* A product that adds all ranks' up to the residual, and one that norms it; and product, sum, norm,
 * product. */
struct add_arrays {
    struct push_arrays push;
    struct matrix up;
    struct op_linear in, want;
};
enum { UP_FEATURES = 64 };

static void lay_add(struct member *m, const struct push_case *c, uint32_t seed,
                    struct add_arrays *a) {
    const struct ops *ops = m->rig.dev->ops;
    const size_t outs = storage_bytes(m->rig.act, (size_t)c->rows * UP_FEATURES);
    lay_push(m, c, seed, &a->push);
    const struct op_rmsnorm *n = &a->push.norms.norm;
    float *squares = rig_alloc(&m->rig, (size_t)c->rows * c->width / NORM_GROUP * 4);
    void *w = put_small(m, m->rig.act, (size_t)UP_FEATURES * c->width, seed + 60);
    a->up = (struct matrix){.type = m->rig.act,
                            .rows = UP_FEATURES,
                            .cols = c->width,
                            .segment_count = 1,
                            .segments = {{.data = w, .rows = UP_FEATURES}}};
    ops->pack(m->rig.stream, &a->up, 0, w);
    a->up.segments[0].packed = w;
    a->want = (struct op_linear){.out = rig_alloc(&m->rig, outs),
                                 .x = a->push.norms.want.out,
                                 .w = &a->up,
                                 .rows = c->rows,
                                 .class_rows = c->rows,
                                 .out_stride = UP_FEATURES};
    a->in = a->want;
    a->in.out = rig_alloc(&m->rig, outs);
    a->in.x = n->x;
    a->in.norm = (struct norm_of_x){squares, n->weight, n->eps, n->weight_offset};
    a->push.apart.class_rows = a->push.pushes.class_rows = c->rows;
    a->push.pushes.out = n->x;
    a->push.pushes.residual = (struct residual_out){squares, n->delta_scale};
    a->push.pushes.push = m->peers;
    if (!m->ops->adds(m->peers, &a->push.w, c->rows) || m->ops->adds(m->peers, &a->push.w, 9))
        TELL(m, "adds up %u x %u, or 9 rows", c->rows, c->width);
}

/* k whole, in two splits, in four; a bias; weights of 8 bits, of 4. */
static const struct push_case ADDED[] = {
    {8, 128, 128, STORAGE_F32, COMPUTE_F32, true},
    {3, 128, 2048, STORAGE_F32, COMPUTE_F32, false},
    {5, 192, 320, STORAGE_F8_E4M3, COMPUTE_F32, false},
    {4, 128, 2304, STORAGE_Q4_0, COMPUTE_F32, true},
    {1, 64, 4096, STORAGE_F32, COMPUTE_F32, true},
};

static void add_in_a_row(struct member *m) {
    struct add_arrays a[IN_A_ROW];
    const struct ops *ops = m->rig.dev->ops;
    const uint32_t count = emu_is_watched() ? ARRAY_LEN(ADDED) : 2 * ARRAY_LEN(ADDED);
    if (!member_join(m, WAIT_MS) || !has_pushes(m))
        return;
    for (uint32_t i = 0; i < count; i++)
        lay_add(m, &ADDED[i % ARRAY_LEN(ADDED)], i, &a[i]);
    rig_wait(&m->rig);
    meet(m);
    emu_set_order((int)(m->self % ORDERS), m->self);
    for (uint32_t i = 0; i < count; i++) {
        ops->linear(m->rig.stream, &a[i].push.pushes);
        ops->linear(m->rig.stream, &a[i].in);
        if (i % m->count == m->self)
            usleep(2000);
        if (i % 5 == 4)
            rig_wait(&m->rig);
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct push_case *c = &ADDED[i % ARRAY_LEN(ADDED)];
        const struct norm_case of_x = {c->rows, c->width, 1, PLAIN},
                               of_out = {c->rows, UP_FEATURES, 1, PLAIN};
        const struct norm_arrays *n = &a[i].push.norms;
        ops->linear(m->rig.stream, &a[i].push.apart);
        m->ops->sum(m->rig.stream, &(struct op_peer_sum){.peers = m->peers,
                                                         .x = a[i].push.apart.out,
                                                         .count = (size_t)c->rows * c->width});
        ops->rmsnorm(m->rig.stream, &n->want);
        ops->linear(m->rig.stream, &a[i].want);
        expect_same(m, "residual", &of_x, STORAGE_F32, n->norm.x, n->want.x);
        expect_same(m, "product behind", &of_out, m->rig.act, a[i].in.out, a[i].want.out);
    }
}

TEST(products_that_add_up_have_the_bits_of_product_sum_and_norm) {
    run_members(2, STORAGE_BF16, add_in_a_row);
    if (emu_is_watched())
        return;
    run_members(3, STORAGE_F16, add_in_a_row);
    run_members(4, STORAGE_BF16, add_in_a_row);
    run_members(8, STORAGE_BF16, add_in_a_row);
}

/* ---- gathers ---- */

static void gather_rows(struct member *m) {
    if (!member_join(m, WAIT_MS))
        return;
    meet(m);
    for (uint32_t round = 0; round < 3; round++) {
        const uint32_t rows = round == 2 ? 1 : 3, width = round == 2 ? 17000 : 5;
        struct op_peer_gather g = {.peers = m->peers, .rows = rows};
        uint32_t total = 0;
        for (uint32_t r = 0; r < m->count; r++) {
            g.firsts[r] = total;
            g.counts[r] = r == 1 ? width - 2 : round == 1 && r == 0 ? 0 : width;
            total += g.counts[r];
        }
        g.stride = total + 3;
        size_t own = (size_t)rows * g.counts[m->self], all = rows * g.stride;
        float *mine = malloc((own + 1) * sizeof *mine);
        for (size_t i = 0; i < own; i++)
            mine[i] = addend(m->self, round, i);
        g.own = rig_up(&m->rig, mine, own * sizeof *mine);
        g.all = rig_alloc(&m->rig, all * sizeof *g.all);
        m->ops->gather(m->rig.stream, &g);
        float *got = rig_down(&m->rig, STORAGE_F32, g.all, all);
        for (uint32_t row = 0; row < rows && m->self == 0; row++)
            for (uint32_t r = 0; r < m->count; r++)
                for (uint32_t i = 0; i < g.counts[r]; i++) {
                    float want = addend(r, round, (size_t)row * g.counts[r] + i);
                    if (memcmp(&want, &got[row * g.stride + g.firsts[r] + i], sizeof want))
                        TELL(m, "round %u, row %u: column %u of rank %u is another", round, row, i,
                             r);
                }
        if (m->self == 0 && !isnan(got[all - 1]))
            TELL(m, "writes past a row");
        free(got);
        free(mine);
    }
}

TEST(gathers_bring_every_part_to_the_first_rank) {
    run_members(2, STORAGE_BF16, gather_rows);
    run_members(3, STORAGE_BF16, gather_rows);
}

/* ---- a rank that is lost ---- */

/* How long the first rank waits, once; LATE_MS is more than a busy machine takes beside that, less than
 * as many sums take that each wait, and less than a wait of WAIT_MS. */
enum { IN_VAIN_MS = 1000, SUMS = 20, ROUNDS_IN_VAIN = 3, LATE_MS = 40000 };

/* The second rank puts nothing on its stream: the first's kernels end, and so does all behind
 * them. */
static void wait_in_vain(struct member *m, float *x, size_t count) {
    struct error err;
    int64_t begin = clock_ms();
    for (int round = 0; round < ROUNDS_IN_VAIN; round++) {
        for (int i = 0; i < SUMS; i++)
            put_sum(m, x, STORAGE_F32, count, 1);
        if (round == 0 && m->ops->broken(m->peers))
            TELL(m, "is broken before it has waited");
        rig_wait(&m->rig);
    }
    int64_t ms = clock_ms() - begin;
    if (!m->ops->broken(m->peers) || ms < IN_VAIN_MS * 5 / 6 || ms > LATE_MS)
        TELL(m, "waited %lld ms, %s", (long long)ms,
             m->ops->broken(m->peers) ? "broken" : "not broken");
    m->ops->leave(m->peers);
    if (!member_join(m, WAIT_MS))
        return;
    if (m->ops->broken(m->peers))
        TELL(m, "is broken after it joined anew");
    put_sum(m, x, STORAGE_F32, count, 1);
    event_record(m->rig.event, m->rig.stream);
    for (int i = 0; i < 20; i++)
        if (event_done(m->rig.event))
            TELL(m, "does not wait");
    begin = clock_ms();
    m->ops->abort(m->peers);
    rig_wait(&m->rig);
    ms = clock_ms() - begin;
    if (!m->ops->broken(m->peers))
        TELL(m, "does not say that it gave up");
    if (ms > LATE_MS)
        TELL(m, "waited %lld ms after it was told to give up", (long long)ms);
    m->ops->leave(m->peers);
    struct peer_card none[PEERS_MAX] = {m->meeting->cards[0]};
    if (m->ops->join(m->peers, none, WAIT_MS, &err) != ERR_UNSUPPORTED ||
        !strstr(err.text, "rank 1"))
        TELL(m, "joins a rank without memory");
}

static void sum_alone(struct member *m) {
    enum { COUNT = 4096 };
    if (!member_join(m, m->self ? WAIT_MS : IN_VAIN_MS))
        return;
    meet(m);
    if (m->self == 0)
        wait_in_vain(m, rig_alloc(&m->rig, COUNT * sizeof(float)), COUNT);
    meet(m); /* the other has its memory until then */
}

TEST(nobody_waits_for_ever_for_a_rank_that_is_lost) {
    run_members(2, STORAGE_BF16, sum_alone);
}

/* The first rank norms alone, in vain; then both join anew, and find nothing of what it had pushed. */
static void norm_alone(struct member *m) {
    static const struct norm_case C = {3, 528, 1, PLAIN};
    struct norm_arrays a[SUMS];
    if (!member_join(m, m->self ? WAIT_MS : IN_VAIN_MS))
        return;
    for (uint32_t i = 0; i < SUMS; i++)
        a[i] = lay_norm(m, &C, i);
    meet(m);
    int64_t begin = clock_ms();
    for (uint32_t i = 0; i + 1 < SUMS && m->self == 0; i++)
        put_norm(m, &a[i], 1);
    rig_wait(&m->rig);
    int64_t ms = clock_ms() - begin;
    if (m->ops->broken(m->peers) != (m->self == 0) || ms > LATE_MS)
        TELL(m, "waited %lld ms, %s", (long long)ms,
             m->ops->broken(m->peers) ? "broken" : "not broken");
    meet(m);
    m->ops->leave(m->peers);
    meet(m);
    if (!member_join(m, WAIT_MS))
        return;
    meet(m);
    if (m->self == 0)
        meet(m); /* the second has looked before the first sends anything */
    put_norm(m, &a[SUMS - 1], 1);
    if (m->self == 1) {
        event_record(m->rig.event, m->rig.stream);
        for (int i = 0; i < 200; i++)
            if (event_done(m->rig.event))
                TELL(m, "finds what was sent before it joined");
        meet(m);
    }
    expect_norm(m, &C, &a[SUMS - 1]);
    if (m->self == 0) { /* the second puts no further one on its stream */
        put_norm(m, &a[0], 1);
        event_record(m->rig.event, m->rig.stream);
        for (int i = 0; i < 20; i++)
            if (event_done(m->rig.event))
                TELL(m, "does not wait");
        begin = clock_ms();
        m->ops->abort(m->peers);
        rig_wait(&m->rig);
        if (!m->ops->broken(m->peers) || clock_ms() - begin > LATE_MS)
            TELL(m, "does not give up when it is told to");
    }
    meet(m); /* the other has its memory until then */
}

TEST(nobody_norms_for_ever_with_a_rank_that_is_lost) {
    run_members(2, STORAGE_BF16, norm_alone);
}
