/*
 * Executors as the ranks of one replica, each on a thread of its own: the bundled model divided by
 * tp, pp and both gives what the whole one gives, the same bits whatever the batches, and a rank
 * that is lost ends the others' waits.
 */
#include <math.h>
#include <pthread.h>

#include "base/hash.h"
#include "planner.h"
#include "proto/codec.h"

enum { RANKS_MAX = 4, FRAMES = 16, TOTAL = 50, PROMPTS = 5 };

static const char *model_dir(void) {
    return TRIREME_SOURCE_DIR "/demo/model";
}

/* ---- the other ranks ---- */

struct follower {
    struct worker_settings settings;
    struct executor *executor;
    struct worker_progress progress;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct buf frames[FRAMES];
    uint64_t put, taken, done;
    bool end, open_failed;
    int rc;
};

struct crew {
    struct planner planner; /* of the rank that answers */
    struct follower followers[RANKS_MAX];
    uint32_t count; /* of followers */
    struct u128 id;
    uint64_t stop_after; /* plans the followers get; 0: all */
};

static bool follower_take(struct follower *f, struct buf *frame) {
    pthread_mutex_lock(&f->lock);
    while (f->taken == f->put && !f->end)
        pthread_cond_wait(&f->changed, &f->lock);
    bool any = f->taken < f->put;
    if (any) {
        buf_reset(frame);
        buf_add_bytes(frame, buf_bytes(&f->frames[f->taken++ % FRAMES]));
    }
    pthread_mutex_unlock(&f->lock);
    return any;
}

static void follower_run(struct follower *f, struct bytes frame, struct arena *arena) {
    struct wire_plan plan;
    struct wire_step_result result;
    struct error err = {0};
    arena_reset(arena);
    int rc = message_unpack_plan(frame, arena, &plan, &err);
    if (!rc && plan.number == 1)
        executor_reset(f->executor);
    if (!rc)
        rc = executor_enqueue(f->executor, &plan, &err);
    if (!rc && executor_collect(f->executor, true, &result, &err) != 1)
        rc = ERR_IO;
    if (rc && !f->rc)
        f->rc = rc;
    if (rc)
        fprintf(stderr, "# a rank failed: %s\n", err.text);
}

static void *follower_main(void *arg) {
    struct follower *f = arg;
    struct buf frame;
    struct arena arena;
    struct error err;
    buf_init(&frame, 0);
    arena_init(&arena, 64 << 20, 1 << 20);
    f->open_failed = executor_new(&f->executor, &f->settings, &f->progress, &err) != 0;
    if (f->open_failed)
        fprintf(stderr, "# a rank did not open: %s\n", err.text);
    while (!f->open_failed && follower_take(f, &frame)) {
        follower_run(f, buf_bytes(&frame), &arena);
        pthread_mutex_lock(&f->lock);
        f->done++;
        pthread_cond_broadcast(&f->changed);
        pthread_mutex_unlock(&f->lock);
    }
    executor_free(&f->executor);
    buf_release(&frame);
    arena_release(&arena);
    return NULL;
}

static void crew_tell(void *ctx, struct wire_plan *plan) {
    struct crew *crew = ctx;
    if (plan->number == 1)
        crew->id = random_u128();
    plan->comm_id = bytes_of(&crew->id, sizeof crew->id);
    if (crew->stop_after && plan->number > crew->stop_after)
        return;
    for (uint32_t i = 0; i < crew->count; i++) {
        struct follower *f = &crew->followers[i];
        pthread_mutex_lock(&f->lock);
        while (f->put - f->done >= FRAMES / 2)
            pthread_cond_wait(&f->changed, &f->lock);
        buf_reset(&f->frames[f->put % FRAMES]);
        message_pack_plan(plan, &f->frames[f->put++ % FRAMES]);
        pthread_cond_broadcast(&f->changed);
        pthread_mutex_unlock(&f->lock);
    }
}

/* Of --compute: 1 is f32, 2 bf16, which the bundled model's weights are in. */
static int compute_type = 1;

static struct worker_settings settings_of(uint32_t tp, uint32_t rank, uint32_t pp, uint32_t stage) {
    struct worker_settings s = planner_settings(model_dir(), "auto");
    s.threads = 1;
    s.compute = compute_type; /* f32, as the cache: what differs is the order of sums alone */
    s.kv_type = 1;
    s.max_step_tokens = 128;
    s.tp = tp;
    s.rank = rank;
    s.pp = pp;
    s.stage = stage;
    s.comm_timeout_ms = 20000;
    return s;
}

static bool crew_open(struct crew *crew, uint32_t tp, uint32_t pp) {
    memset(crew, 0, sizeof *crew);
    for (uint32_t i = 0; i < tp * pp; i++) {
        uint32_t rank = i % tp, stage = i / tp;
        if (rank == 0 && stage == pp - 1)
            continue;
        struct follower *f = &crew->followers[crew->count++];
        f->settings = settings_of(tp, rank, pp, stage);
        pthread_mutex_init(&f->lock, NULL);
        pthread_cond_init(&f->changed, NULL);
        for (int k = 0; k < FRAMES; k++)
            buf_init(&f->frames[k], 0);
        if (pthread_create(&f->thread, NULL, follower_main, f))
            return false;
    }
    struct worker_settings own = settings_of(tp, 0, pp, pp - 1);
    if (!planner_open(&crew->planner, &own))
        return false;
    crew->planner.tell = crew_tell;
    crew->planner.tell_ctx = crew;
    if (tp * pp == 1)
        crew->planner.tell = NULL;
    return true;
}

/* The first error of a follower. */
static int crew_close(struct crew *crew) {
    int rc = 0;
    planner_close(&crew->planner);
    for (uint32_t i = 0; i < crew->count; i++) {
        struct follower *f = &crew->followers[i];
        pthread_mutex_lock(&f->lock);
        f->end = true;
        pthread_cond_broadcast(&f->changed);
        pthread_mutex_unlock(&f->lock);
        pthread_join(f->thread, NULL);
        if (f->rc && !rc)
            rc = f->rc;
        if (f->open_failed)
            rc = ERR_INVALID;
        for (int k = 0; k < FRAMES; k++)
            buf_release(&f->frames[k]);
        pthread_mutex_destroy(&f->lock);
        pthread_cond_destroy(&f->changed);
    }
    return rc;
}

/* ---- texts ---- */

static const uint32_t PROMPT_COUNTS[PROMPTS] = {1, 7, 16, 33, 40};

static void fill_prompt(uint32_t prompt, uint32_t out[TOTAL]) {
    for (uint32_t i = 0; i < PROMPT_COUNTS[prompt]; i++)
        out[i] = (uint32_t)(hash64(&(uint32_t[]){prompt, i}, 8, 3) % 3000);
}

/* Odd ones are sampled. */
static struct planned *add_prompt(struct planner *p, uint32_t slot, uint32_t prompt) {
    uint32_t tokens[TOTAL];
    fill_prompt(prompt, tokens);
    struct planned *s = planner_put(p, slot, tokens, PROMPT_COUNTS[prompt], TOTAL);
    if (prompt & 1) {
        s->sampling.temperature = 0.8f;
        s->sampling.seed = 7 + prompt;
    }
    return s;
}

struct texts {
    uint32_t tokens[PROMPTS][TOTAL];
};

/* All prompts at once. */
static bool run_all(struct crew *crew, uint32_t chunk, uint32_t depth, struct texts *out) {
    struct planner *p = &crew->planner;
    planner_reset(p);
    for (uint32_t i = 0; i < PROMPTS; i++)
        add_prompt(p, i * 3, i);
    if (!planner_run(p, chunk, depth))
        return false;
    for (uint32_t i = 0; i < PROMPTS; i++) {
        if (p->slots[i * 3].count != TOTAL)
            return false;
        memcpy(out->tokens[i], p->slots[i * 3].tokens, sizeof out->tokens[i]);
    }
    return true;
}

/* Each prompt alone. */
static bool run_apart(struct crew *crew, struct texts *out) {
    struct planner *p = &crew->planner;
    for (uint32_t i = 0; i < PROMPTS; i++) {
        planner_reset(p);
        add_prompt(p, 5, i);
        if (!planner_run(p, 128, 1) || p->slots[5].count != TOTAL)
            return false;
        memcpy(out->tokens[i], p->slots[5].tokens, sizeof out->tokens[i]);
    }
    return true;
}

static bool same(const struct texts *a, const struct texts *b) {
    return !memcmp(a, b, sizeof *a);
}

static const uint32_t SHAPES[][2] = {{2, 1}, {1, 2}, {2, 2}, {3, 1}, {1, 3}};

TEST(ranks_make_the_same_text_whatever_the_batches) {
    static struct crew crew;
    for (size_t i = 0; i < ARRAY_LEN(SHAPES); i++) {
        struct texts apart, other;
        EXPECT(crew_open(&crew, SHAPES[i][0], SHAPES[i][1]));
        EXPECT(run_apart(&crew, &apart));
        EXPECT(run_all(&crew, 128, 1, &other));
        EXPECT(same(&apart, &other));
        EXPECT(run_all(&crew, 5, 2, &other));
        EXPECT(same(&apart, &other));
        EXPECT_EQ(crew_close(&crew), 0);
    }
}

TEST(stages_alone_change_no_bit) {
    static struct crew crew;
    struct texts whole, staged;
    EXPECT(crew_open(&crew, 1, 1));
    EXPECT(run_all(&crew, 128, 2, &whole));
    EXPECT_EQ(crew_close(&crew), 0);
    for (uint32_t pp = 2; pp <= 3; pp++) {
        EXPECT(crew_open(&crew, 1, pp));
        EXPECT(run_all(&crew, 128, pp + 1, &staged));
        EXPECT(same(&whole, &staged));
        EXPECT_EQ(crew_close(&crew), 0);
    }
}

/* ---- numbers ---- */

struct numbers {
    uint32_t count, ids[PROMPTS * 32];
    float values[PROMPTS * 32];
};

/* Log-probabilities of the best tokens behind each prompt. */
static bool best_of(struct crew *crew, struct numbers *out) {
    out->count = 0;
    for (uint32_t i = 0; i < PROMPTS; i++) {
        planner_reset(&crew->planner);
        struct planned *s = add_prompt(&crew->planner, 0, i);
        s->sampling.temperature = 0;
        s->sampling.logprobs = 20;
        s->max_total = s->count + 1;
        if (!planner_run(&crew->planner, 128, 1) || s->last.ids.count != 21)
            return false;
        for (uint32_t k = 1; k < 21; k++) {
            out->ids[out->count] = s->last.ids.items[k];
            out->values[out->count++] = s->last.values.items[k];
        }
    }
    return true;
}

/* A stage has its own copy of a head that is tied to the embedding: its products are as narrow. */
TEST(stages_compute_with_the_bits_of_the_whole) {
    static struct crew crew;
    static struct numbers whole, divided;
    compute_type = 2;
    EXPECT(crew_open(&crew, 1, 1));
    EXPECT(best_of(&crew, &whole));
    EXPECT_EQ(crew_close(&crew), 0);
    EXPECT(crew_open(&crew, 1, 2));
    EXPECT(best_of(&crew, &divided));
    EXPECT_EQ(crew_close(&crew), 0);
    compute_type = 1;
    EXPECT(!memcmp(&whole, &divided, sizeof whole));
}

TEST(divided_sums_differ_from_the_whole_by_rounding_only) {
    static struct crew crew;
    static struct numbers whole, divided;
    EXPECT(crew_open(&crew, 1, 1));
    EXPECT(best_of(&crew, &whole));
    EXPECT_EQ(crew_close(&crew), 0);
    for (size_t i = 0; i < ARRAY_LEN(SHAPES); i++) {
        EXPECT(crew_open(&crew, SHAPES[i][0], SHAPES[i][1]));
        EXPECT(best_of(&crew, &divided));
        EXPECT_EQ(crew_close(&crew), 0);
        double error = 0, norm = 0;
        for (uint32_t k = 0; k < whole.count; k++) {
            EXPECT_EQ(whole.ids[k], divided.ids[k]);
            error += pow((double)whole.values[k] - divided.values[k], 2);
            norm += pow((double)whole.values[k], 2);
        }
        EXPECT(sqrt(error / norm) <= 1e-4); /* the bound for f32 */
        EXPECT(SHAPES[i][0] > 1 ? error > 0 : error == 0);
    }
}

/* ---- loss ---- */

static bool stop_now(void *ctx) {
    return *(bool *)ctx;
}

TEST(a_rank_without_its_peers_gives_up_when_told_and_begins_anew) {
    static struct crew crew;
    struct texts before, after;
    bool stop = true;
    EXPECT(crew_open(&crew, 2, 1));
    EXPECT(run_all(&crew, 128, 2, &before));
    planner_reset(&crew.planner);
    crew.stop_after = 4;
    executor_watch(crew.planner.executor, stop_now, &stop);
    add_prompt(&crew.planner, 0, 2);
    stop = false;
    for (int i = 0; i < 4; i++)
        EXPECT(planner_step(&crew.planner, 128) && planner_take(&crew.planner));
    stop = true;
    EXPECT(!planner_step(&crew.planner, 128));
    EXPECT_EQ(crew.planner.err.code, ERR_CLOSED);
    stop = false;
    crew.stop_after = 0;
    memset(&crew.planner.err, 0, sizeof crew.planner.err);
    EXPECT(run_all(&crew, 128, 2, &after));
    EXPECT(same(&before, &after));
    EXPECT_EQ(crew_close(&crew), 0);
}

TEST(a_place_that_cannot_be_is_refused) {
    static const struct {
        uint32_t tp, rank, pp, stage;
        const char *layers, *text;
    } CASES[] = {{2, 2, 1, 0, NULL, "no such place"},
                 {1, 0, 2, 2, NULL, "no such place"},
                 {32, 0, 1, 0, NULL, "heads"},
                 {1, 0, 64, 63, NULL, "layer"},
                 {1, 0, 2, 0, "1,2,3", "--stage-layers"},
                 {1, 0, 2, 0, "1,100", "the model"}};
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct worker_settings s =
            settings_of(CASES[i].tp, CASES[i].rank, CASES[i].pp, CASES[i].stage);
        struct planner p;
        s.stage_layers = CASES[i].layers;
        EXPECT(!planner_open(&p, &s));
        EXPECT(strstr(p.err.text, CASES[i].text));
    }
}
