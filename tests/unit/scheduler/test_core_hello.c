/* What the core takes of a worker's Hello: each number at its edge and the next one, ranks that do not fit together, and
 * a worker that comes again as another one. */
#include "scheduler/core/chain.h"
#include "scheduler/core/replica.h"
#include "stage.h"

#include <stdio.h>

/* ---- bounds ---- */

#define OF(field)    offsetof(struct wire_hello, field)
#define GROUP(field) (sizeof(struct wire_hello) + offsetof(struct wire_kv_group, field))

/* The number at this place of a Hello, or behind it of its group. */
static char *number_at(struct stage_worker *w, size_t at) {
    return at < sizeof w->hello ? (char *)&w->hello + at : (char *)&w->group + at - sizeof w->hello;
}

/* least - 1 and most + 1 are refused, where there are such numbers. */
static const struct edge {
    const char *name;
    size_t at;
    uint32_t least, most;
    int code;
} EDGES[] = {
    {"slots", OF(slot_count), 1, WIRE_MAX_SLOTS, ERR_INVALID},
    {"step tokens", OF(max_step_tokens), 1, UINT32_MAX, ERR_INVALID},
    {"context", OF(max_context), 2, WIRE_MAX_TOKENS, ERR_INVALID},
    {"width", OF(logits_width), 1, UINT32_MAX, ERR_INVALID},
    {"snapshots", OF(snapshot_count), 0, WIRE_MAX_BLOCKS, ERR_INVALID},
    {"steps in flight", OF(steps_in_flight), 1, UINT32_MAX, ERR_INVALID},
    {"rank", OF(rank), 0, 0, ERR_INVALID},
    {"stage", OF(stage), 0, 0, ERR_INVALID},
    {"ranks", OF(tp), 1, SCHED_MAX_RANKS, ERR_INVALID},
    {"stages", OF(pp), 1, SCHED_MAX_RANKS, ERR_INVALID},
    {"kind of group", GROUP(kind), WIRE_GROUP_FULL, WIRE_GROUP_RECURRENT, ERR_UNSUPPORTED},
    {"tokens of a block", GROUP(block_tokens), 1, CHAIN_MAX_BLOCK_TOKENS, ERR_INVALID},
    {"blocks", GROUP(block_count), 1, WIRE_MAX_BLOCKS, ERR_INVALID},
};

/* What a worker that says this is told. */
static int answer_to(size_t at, uint32_t value) {
    struct sched_config config;
    sched_config_default(&config);
    config.table_bytes = UINT64_MAX;
    struct stage *stage = stage_new(&config);
    struct stage_worker *w = stage_worker(stage, 0);
    memcpy(number_at(w, at), &value, sizeof value);
    if (at == GROUP(kind) && value == WIRE_GROUP_WINDOW)
        w->group.window_tokens = 64;
    int code = stage_hello(stage, w);
    stage_free(stage);
    return code;
}

TEST(hello_bounds_of_numbers_are_exact) {
    for (size_t i = 0; i < ARRAY_LEN(EDGES); i++) {
        const struct edge *e = &EDGES[i];
        bool huge =
            e->at == GROUP(block_count) || e->at == OF(snapshot_count); /* tables of theirs */
        if (answer_to(e->at, e->least) || (!huge && answer_to(e->at, e->most)))
            check_fail(__FILE__, __LINE__, "the edges of %s are refused", e->name);
        if (e->least && answer_to(e->at, e->least - 1) != e->code)
            check_fail(__FILE__, __LINE__, "%u %s are taken", e->least - 1, e->name);
        if (e->most < UINT32_MAX && answer_to(e->at, e->most + 1) != e->code)
            check_fail(__FILE__, __LINE__, "%u %s are taken", e->most + 1, e->name);
    }
}

TEST(hello_has_one_to_four_groups) {
    for (size_t count = 0; count <= SCHED_MAX_GROUPS + 1; count++) {
        struct stage *stage = stage_new(NULL);
        struct stage_worker *w = stage_worker(stage, 0);
        struct wire_kv_group groups[SCHED_MAX_GROUPS + 1];
        for (size_t i = 0; i < ARRAY_LEN(groups); i++)
            groups[i] = w->group;
        w->hello.groups = groups;
        w->hello.group_count = count;
        bool fits = count > 0 && count <= SCHED_MAX_GROUPS;
        EXPECT_EQ(stage_hello(stage, w), fits ? 0 : ERR_UNSUPPORTED);
        stage_free(stage);
    }
}

/* A window has room for itself, a step, and a block begun at each end. */
TEST(hello_windows_have_room_for_a_step) {
    for (uint32_t blocks = 23; blocks <= 24; blocks++) {
        struct stage *stage = stage_new(NULL);
        struct stage_worker *w = stage_worker(stage, 0);
        struct wire_kv_group groups[2] = {w->group,
                                          {.kind = WIRE_GROUP_WINDOW, .block_tokens = 16}};
        groups[1].window_tokens = 24 * 16 - w->hello.max_step_tokens - 2 * 16;
        groups[1].block_count = blocks;
        w->hello.groups = groups;
        w->hello.group_count = 2;
        EXPECT_EQ(stage_hello(stage, w), blocks == 24 ? 0 : ERR_INVALID);
        stage_free(stage);
    }
}

/* While a worker loads it has no sizes yet. */
TEST(hello_of_one_that_loads_has_its_place_alone) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    w->hello.state = WIRE_STATE_LOADING;
    w->hello.slot_count = w->hello.max_context = 0;
    w->hello.group_count = 0;
    EXPECT_EQ(stage_hello(stage, w), 0);
    w->hello.rank = 1;
    EXPECT_EQ(stage_hello(stage, w), ERR_INVALID);
    stage_free(stage);
}

/* ---- ranks ---- */

static void pair_up(struct stage *stage) {
    for (uint32_t i = 0; i < 2; i++) {
        struct stage_worker *w = stage_worker(stage, i);
        w->hello.replica = (struct u128){500, 1};
        w->hello.rank = i;
        w->hello.tp = 2;
        w->group.kind = WIRE_GROUP_WINDOW;
        w->group.window_tokens = 64;
        w->hello.vectors = (struct wire_vectors){
            .pooling = WIRE_POOLING_LAST, .width = STAGE_VECTOR, .whole_prompts = 1};
    }
}

#define VECTORS(field) (OF(vectors) + offsetof(struct wire_vectors, field))

/* What two ranks must have alike, and what is said of one that has another. */
static const struct difference {
    size_t at;
    const char *what;
} DIFFERENCES[] = {
    {OF(revision.lo), "revision of the model"},
    {OF(revision.hi), "revision of the model"},
    {OF(logits_width), "width of the logits"},
    {VECTORS(width), "pooling"},
    {VECTORS(pooling), "pooling"},
    {VECTORS(normalize), "pooling"},
    {VECTORS(whole_prompts), "pooling"},
    {VECTORS(only), "pooling"},
    {VECTORS(scores), "pooling"},
    {VECTORS(bare), "pooling"},
    {VECTORS(softmax), "pooling"},
    {GROUP(block_tokens), "geometry of KV blocks"},
    {GROUP(window_tokens), "geometry of KV blocks"},
};

TEST(ranks_that_differ_are_told_by_what) {
    for (size_t i = 0; i < ARRAY_LEN(DIFFERENCES); i++) {
        for (uint32_t last = 0; last < 2; last++) {
            struct stage *stage = stage_new(NULL);
            struct error err = {0};
            char text[128];
            pair_up(stage);
            *number_at(&stage->workers[1], DIFFERENCES[i].at) ^= 1;
            EXPECT_EQ(stage_hello(stage, &stage->workers[1 - last]), 0);
            snprintf(text, sizeof text, "rank 1 of the replica has another %s than rank 0",
                     DIFFERENCES[i].what);
            EXPECT_EQ(sched_worker_hello(stage->s, stage->now, &stage->workers[last].hello, &err),
                      ERR_INVALID);
            EXPECT_STR(err.text, text);
            stage_free(stage);
        }
    }
}

TEST(ranks_have_as_many_groups_each) {
    struct stage *stage = stage_new(NULL);
    struct error err = {0};
    pair_up(stage);
    struct stage_worker *w = &stage->workers[1];
    struct wire_kv_group groups[2] = {w->group, w->group};
    w->hello.groups = groups;
    w->hello.group_count = 2;
    EXPECT_EQ(stage_hello(stage, &stage->workers[0]), 0);
    EXPECT_EQ(sched_worker_hello(stage->s, stage->now, &w->hello, &err), ERR_INVALID);
    EXPECT_STR(err.text, "rank 1 of the replica has another number of KV groups than rank 0");
    stage_free(stage);
}

/* ---- what they can do together ---- */

/* What shows of the sizes of a worker: answers that run at a time, tokens of the first step, plans under way, and blocks. */
struct sizes {
    uint32_t running, step, plans, blocks;
};

static struct sizes sizes_of(struct stage *stage) {
    struct stage_worker *w = &stage->workers[0];
    struct sizes sizes = {0};
    stage_simple(stage, 0, 300, 2);
    stage_run(stage);
    if (w->results.count)
        sizes.step = w->results.items[0].lens[0];
    stage_finish(stage);
    for (uint32_t i = 0; i < 20; i++)
        stage_simple(stage, 1 + i, 3, 40);
    for (int turn = 0; turn < 12; turn++) {
        stage_run(stage);
        sizes.plans = MAX(sizes.plans, (uint32_t)w->results.count);
        (void)stage_answer(stage, w);
        stage->now++;
    }
    sizes.running = (uint32_t)sched_counts(stage->s).running;
    sizes.blocks = (uint32_t)sched_counts(stage->s).blocks_total;
    return sizes;
}

static bool sizes_are(struct stage *stage, struct sizes want) {
    struct sizes got = sizes_of(stage);
    bool same = !memcmp(&got, &want, sizeof got);
    if (!same)
        check_fail(__FILE__, __LINE__, "%u run, a step of %u, %u plans, %u blocks", got.running,
                   got.step, got.plans, got.blocks);
    return same;
}

/* Makes one worker smaller in one way at a time. */
static const struct smaller {
    size_t at;
    uint32_t value;
    struct sizes sizes;
} SMALLER[] = {
    {OF(slot_count), 5, {5, 256, 2, 256}},
    {OF(max_step_tokens), 100, {16, 100, 2, 256}},
    {OF(steps_in_flight), 1, {16, 256, 1, 256}},
    {GROUP(block_count), 200, {16, 256, 2, 200}},
};

TEST(ranks_together_are_as_large_as_the_least_of_them) {
    for (size_t i = 0; i < ARRAY_LEN(SMALLER); i++) {
        for (uint32_t small = 0; small < 2; small++) {
            struct stage *stage = stage_new(NULL);
            for (uint32_t rank = 0; rank < 2; rank++) {
                struct stage_worker *w = stage_worker(stage, rank);
                w->hello.replica = (struct u128){500, 1};
                w->hello.rank = rank;
                w->hello.tp = 2;
                if (rank == small)
                    memcpy(number_at(w, SMALLER[i].at), &SMALLER[i].value, sizeof(uint32_t));
            }
            EXPECT(!stage_hello(stage, &stage->workers[0]) &&
                   !stage_hello(stage, &stage->workers[1]));
            EXPECT(sizes_are(stage, SMALLER[i].sizes));
            stage_free(stage);
        }
    }
}

TEST(a_worker_that_comes_again_has_the_sizes_it_says_then) {
    for (size_t i = 0; i < ARRAY_LEN(SMALLER); i++) {
        struct stage *stage = stage_new(NULL);
        struct stage_worker *w = stage_worker(stage, 0);
        EXPECT_EQ(stage_hello(stage, w), 0);
        memcpy(number_at(w, SMALLER[i].at), &SMALLER[i].value, sizeof(uint32_t));
        w->hello.incarnation++;
        EXPECT_EQ(stage_hello(stage, w), 0);
        EXPECT(sizes_are(stage, SMALLER[i].sizes));
        stage_free(stage);
    }
}
