/*
 * The executor under plans: the bundled model's text does not depend on chunks, batches, pipelining
 * or preemption; blocks are held and forgotten as told; nothing in a plan can hurt.
 */
#include "base/clock.h"
#include "planner.h"

/* Counts calls of the allocator. */
#include <stdatomic.h>
static _Atomic uint64_t allocation_count;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||                               \
    defined(__clang__) /* clang: fuzzing, sanitized   \
                                                                                         */
/* Of the sanitizers' runtime; gcc does not ship the header. */
extern int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *,
                                                                       size_t),
                                                     void (*on_free)(const volatile void *));
static void on_malloc(const volatile void *p, size_t size) {
    allocation_count++;
}
static void on_free(const volatile void *p) {}
__attribute__((constructor)) static void count_allocations(void) {
    if (!__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free))
        abort();
}
#else
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *p, size_t size);
void *malloc(size_t size) {
    allocation_count++;
    return __libc_malloc(size);
}
void *calloc(size_t count, size_t size) {
    allocation_count++;
    return __libc_calloc(count, size);
}
void *realloc(void *p, size_t size) {
    allocation_count++;
    return __libc_realloc(p, size);
}
#endif

static const char *model_dir(void) {
    return TRIREME_SOURCE_DIR "/demo/model";
}

enum { PROMPTS = 6, TOTAL = 50 };
static uint32_t prompts[PROMPTS][TOTAL], prompt_counts[PROMPTS] = {1, 5, 16, 17, 33, 40};

static void make_prompts(uint32_t vocab) {
    uint64_t x = 12345;
    for (int i = 0; i < PROMPTS; i++)
        for (uint32_t k = 0; k < prompt_counts[i]; k++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            prompts[i][k] = (uint32_t)(x >> 33) % vocab;
        }
}

/* Odd ones are sampled. */
static struct planned *add_prompt(struct planner *p, uint32_t slot, int prompt) {
    struct planned *s = planner_put(p, slot, prompts[prompt], prompt_counts[prompt], TOTAL);
    if (prompt & 1) {
        s->sampling.temperature = 0.9f;
        s->sampling.top_p = 0.95f;
        s->sampling.seed = 77 + (uint64_t)prompt;
    }
    return s;
}

static bool same_text(const struct planned *s, const uint32_t *want) {
    return s->count == TOTAL && !memcmp(s->tokens, want, TOTAL * sizeof *want);
}

/* Each prompt alone, in one piece. */
static bool reference_texts(struct planner *p, uint32_t texts[PROMPTS][TOTAL]) {
    for (int i = 0; i < PROMPTS; i++) {
        planner_reset(p);
        struct planned *s = add_prompt(p, 0, i);
        if (!planner_run(p, PLANNER_ROWS, 1) || s->finish != WIRE_FINISH_LENGTH ||
            s->count != TOTAL)
            return false;
        memcpy(texts[i], s->tokens, sizeof texts[i]);
    }
    return true;
}

TEST(tokens_do_not_depend_on_chunks_batches_or_pipelining) {
    static const uint32_t chunks[] = {7, 1, 16, 512};
    const char *isas[] = {"scalar", "neon", "avx2", "avx512", "amx"};
    static struct planner p;
    static uint32_t texts[PROMPTS][TOTAL];
    for (size_t k = 0; k < ARRAY_LEN(isas); k++) {
        struct worker_settings settings = planner_settings(model_dir(), isas[k]);
        if (!planner_open(&p, &settings)) {
            if (k && p.err.code == ERR_UNSUPPORTED)
                continue; /* this machine lacks it */
            check_fail(__FILE__, __LINE__, "%s", p.err.text);
            return;
        }
        make_prompts(p.about.logits_width);
        EXPECT(reference_texts(&p, texts));
        for (size_t c = 0; c < (k ? ARRAY_LEN(chunks) : 1); c++) /* the slow set: one chunk size */
            for (uint32_t depth = 2 - c % 2; depth <= 2; depth++) {
                planner_reset(&p);
                for (uint32_t i = 0; i < 12; i++)
                    add_prompt(&p, i * 3, (int)i % PROMPTS);
                EXPECT(planner_run(&p, chunks[c], depth));
                for (uint32_t i = 0; i < 12; i++)
                    if (!same_text(&p.slots[i * 3], texts[i % PROMPTS]))
                        check_fail(__FILE__, __LINE__,
                                   "%s, chunk %u, %u plans in flight: slot %u has another text",
                                   isas[k], chunks[c], depth, i * 3);
            }
        planner_close(&p);
    }
}

TEST(a_preempted_sequence_continues_with_the_same_tokens) {
    static struct planner p;
    static uint32_t texts[PROMPTS][TOTAL];
    struct worker_settings settings = planner_settings(model_dir(), NULL);
    EXPECT(planner_open(&p, &settings));
    make_prompts(p.about.logits_width);
    EXPECT(reference_texts(&p, texts));
    planner_reset(&p);
    for (uint32_t i = 0; i < PROMPTS; i++)
        add_prompt(&p, i, (int)i);
    for (int step = 0; step < 12; step++)
        EXPECT(planner_step(&p, 40) && planner_take(&p));
    for (uint32_t i = 0; i < PROMPTS;
         i += 2) { /* out, and in again elsewhere with all its tokens; prompt_count stays */
        struct planned *from = &p.slots[i], *to = &p.slots[40 + i];
        *to = *from;
        to->known = to->count;
        to->computed = to->block_count = 0;
        to->told = from->open = false;
        vec_push(&p.releases, i);
    }
    EXPECT(planner_run(&p, 9, 2));
    for (uint32_t i = 0; i < PROMPTS; i++)
        EXPECT(same_text(&p.slots[i % 2 ? i : 40 + i], texts[i]));
    planner_close(&p);
}

TEST(a_cached_prefix_gives_the_same_tokens) {
    static struct planner p;
    static uint32_t texts[PROMPTS][TOTAL];
    struct worker_settings settings = planner_settings(model_dir(), NULL);
    EXPECT(planner_open(&p, &settings));
    make_prompts(p.about.logits_width);
    EXPECT(reference_texts(&p, texts));
    planner_reset(&p);
    add_prompt(&p, 0, 5);
    EXPECT(planner_run(&p, 512, 1));
    struct planned *again = add_prompt(&p, 1, 5);
    memcpy(again->blocks, p.slots[0].blocks, 2 * sizeof(uint32_t)); /* 32 of 40 positions */
    again->block_count = 2;
    again->computed = 32;
    EXPECT(planner_run(&p, 512, 1));
    EXPECT(same_text(again, texts[5]));
    planner_close(&p);
}

TEST(stop_tokens_lengths_and_logprobs_come_back) {
    static struct planner p;
    struct worker_settings settings = planner_settings(model_dir(), NULL);
    EXPECT(planner_open(&p, &settings));
    make_prompts(p.about.logits_width);
    planner_put(&p, 0, prompts[2], prompt_counts[2], 20);
    EXPECT(planner_run(&p, 512, 2));
    EXPECT(p.slots[0].finish == WIRE_FINISH_LENGTH && p.slots[0].count == 20);
    uint32_t third = p.slots[0].tokens[18];
    struct planned *s = planner_put(&p, 1, prompts[2], prompt_counts[2], 40);
    s->stop = third;
    EXPECT(planner_run(&p, 512, 2));
    EXPECT(s->finish == WIRE_FINISH_STOP && s->tokens[s->count - 1] == third && s->count <= 19);
    s = planner_put(&p, 2, prompts[2], prompt_counts[2], prompt_counts[2] + 1);
    s->sampling.logprobs = 3;
    EXPECT(planner_run(&p, 512, 1));
    EXPECT(s->last.tops.count == 1 && s->last.tops.items[0] == 3 && s->last.ids.count == 4 &&
           s->last.values.count == 4);
    EXPECT(s->last.ids.items[0] == s->tokens[s->count - 1] &&
           s->last.ids.items[1] == s->last.ids.items[0] && s->last.values.items[0] <= 0);
    planner_close(&p);
}

/* min_tokens counts the output from the prompt on: what there is of it when a sequence is admitted
 * again counts, too. */
TEST(min_tokens_counts_the_output_before_an_admission) {
    static struct planner p;
    struct worker_settings settings = planner_settings(model_dir(), NULL);
    EXPECT(planner_open(&p, &settings));
    make_prompts(p.about.logits_width);
    const uint32_t prompt_count = prompt_counts[2];
    uint32_t at = prompt_count + 2, text[TOTAL];
    planner_put(&p, 0, prompts[2], prompt_count, TOTAL);
    EXPECT(planner_run(&p, 512, 1) && p.slots[0].count == TOTAL);
    memcpy(text, p.slots[0].tokens, sizeof text);
    for (uint32_t i = prompt_count; i < at; i++) /* a token that was not there before */
        if (text[i] == text[at]) {
            at++;
            i = prompt_count - 1;
        }
    EXPECT(at < TOTAL - 1);
    const uint32_t before = at - prompt_count; /* tokens of output before the stop token */
    for (uint32_t given = 0; given <= before; given++)
        for (uint32_t more = 0; more < 2; more++) { /* as many as there are, or one more */
            planner_reset(&p);
            struct planned *s = planner_put(&p, 1, text, prompt_count + given, TOTAL);
            s->prompt_count = prompt_count;
            s->sampling.min_tokens = before + more;
            s->stop = text[at];
            EXPECT(planner_run(&p, 512, 1));
            if (more)
                EXPECT(s->count > at + 1 && s->tokens[at] != text[at]);
            else
                EXPECT(s->finish == WIRE_FINISH_STOP && s->count == at + 1);
        }
    planner_close(&p);
}

/* Prompt and output together are exactly what the context holds; one token more is refused. */
TEST(a_sequence_may_fill_the_context_to_its_last_position) {
    static struct planner p;
    struct worker_settings settings = planner_settings(model_dir(), NULL);
    settings.max_context = 64;
    EXPECT(planner_open(&p, &settings));
    EXPECT_EQ(p.about.max_context, 64);
    uint32_t tokens[64];
    for (uint32_t i = 0; i < ARRAY_LEN(tokens); i++)
        tokens[i] = 3 + i;
    planner_put(&p, 0, tokens, 63, 64); /* one token of output */
    planner_put(&p, 1, tokens, 30, 64);
    planner_put(&p, 2, tokens, 63, 65);
    planner_put(&p, 3, tokens, 64, 65);
    EXPECT(planner_run(&p, 512, 1));
    EXPECT(p.slots[0].finish == WIRE_FINISH_LENGTH && p.slots[0].count == 64);
    EXPECT(p.slots[1].finish == WIRE_FINISH_LENGTH && p.slots[1].count == 64);
    EXPECT(p.slots[2].finish == WIRE_FINISH_ERROR && p.slots[2].count == 63);
    EXPECT(p.slots[3].finish == WIRE_FINISH_ERROR && p.slots[3].count == 64);
    planner_close(&p);
}

static bool refused(struct planner *p, const char *what) {
    if (planner_send(p)) {
        check_fail(__FILE__, __LINE__, "taken: %s", what);
        return false;
    }
    p->number--;
    p->err = (struct error){0};
    return true;
}

/* What says which process this is, and its place, stays as the caller has it. */
TEST(a_description_keeps_whose_it_is) {
    static struct planner p;
    struct worker_settings settings = planner_settings(model_dir(), NULL);
    EXPECT(planner_open(&p, &settings));
    uint32_t block = 5;
    struct u128 hash = {6, 7};
    const struct wire_hello mine = {.role = WIRE_ROLE_WORKER,
                                    .instance = {1, 2},
                                    .pid = 3,
                                    .name = bytes_str("name"),
                                    .features = 4,
                                    .version = bytes_str("version"),
                                    .epoch_number = 8,
                                    .epoch_instance = {9, 10},
                                    .replica = {11, 12},
                                    .rank = 13,
                                    .tp = 14,
                                    .stage = 15,
                                    .pp = 16,
                                    .incarnation = 17,
                                    .state = WIRE_STATE_IDLE,
                                    .held_blocks = {&block, 1},
                                    .held_hashes = {&hash, 1}};
    struct wire_hello got = mine;
    executor_describe(p.executor, &got);
    EXPECT(got.role == mine.role && u128_equal(got.instance, mine.instance) && got.pid == 3 &&
           got.features == 4 && got.state == mine.state && got.incarnation == 17);
    EXPECT(bytes_equal(got.name, mine.name) && bytes_equal(got.version, mine.version));
    EXPECT(got.epoch_number == 8 && u128_equal(got.epoch_instance, mine.epoch_instance));
    EXPECT(u128_equal(got.replica, mine.replica) && got.rank == 13 && got.tp == 14 &&
           got.stage == 15 && got.pp == 16);
    EXPECT(got.held_blocks.items == &block && got.held_blocks.count == 1 &&
           got.held_hashes.items == &hash && got.held_hashes.count == 1);
    EXPECT(got.slot_count == PLANNER_SLOTS && got.group_count == 1); /* and the rest is its own */
    planner_close(&p);
}

/* The next result, of one row: its token count and finish. */
static bool take_row(struct planner *p, uint32_t *count, uint32_t *finish) {
    struct wire_step_result r;
    if (executor_collect(p->executor, true, &r, &p->err) != 1 || r.slots.count != 1)
        return false;
    *count = r.token_counts.items[0];
    *finish = r.finishes.items[0];
    return true;
}

/* A vector comes of a whole prompt, and where all its positions count, of all that are computed
 * here. */
TEST(prompts_become_vectors_where_the_worker_makes_them) {
    enum { NONE = 1, LAST, MEAN }; /* of --pooling */
    static const struct {
        int pooling;
        enum wire_request_kind kind;
        uint32_t prompt_count, computed;
        bool made;
    } cases[] = {
        {NONE, WIRE_EMBED, 5, 0, false}, {LAST, WIRE_EMBED, 5, 0, true},
        {LAST, WIRE_EMBED, 5, 2, true},  {LAST, WIRE_EMBED, 4, 0, false},
        {LAST, WIRE_SCORE, 5, 0, false}, {MEAN, WIRE_EMBED, 5, 0, true},
        {MEAN, WIRE_EMBED, 5, 2, false},
    };
    static struct planner p;
    int opened = 0;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct worker_settings settings = planner_settings(model_dir(), NULL);
        settings.pooling = cases[i].pooling;
        if (opened && opened != cases[i].pooling)
            planner_close(&p);
        if (opened != cases[i].pooling)
            EXPECT(planner_open(&p, &settings));
        opened = cases[i].pooling;
        make_prompts(p.about.logits_width);
        planner_reset(&p);
        p.next_block = 0; /* what is said to be computed was so by the case before */
        planner_put(&p, 0, prompts[1], 5, 5)->computed = cases[i].computed;
        planner_admit(&p, 0);
        p.admits.items[0].kind = cases[i].kind;
        p.admits.items[0].prompt_count = cases[i].prompt_count;
        planner_row(&p, 0, 5);
        struct wire_step_result r;
        EXPECT(planner_send(&p) && executor_collect(p.executor, true, &r, &p.err) == 1);
        EXPECT(r.finishes.count == 1 && r.token_counts.items[0] == 0);
        EXPECT_EQ(r.finishes.items[0], cases[i].made ? WIRE_FINISH_STOP : WIRE_FINISH_ERROR);
        EXPECT_EQ(r.vectors.count, cases[i].made ? p.about.vectors.width : 0);
    }
    planner_close(&p);
}

/* The vector of a prompt that comes in steps of so many tokens. */
static bool vector_in_steps(struct planner *p, uint32_t step, float *out) {
    enum { LENGTH = 40 };
    struct wire_step_result r;
    planner_reset(p);
    p->next_block = 0;
    planner_put(p, 0, prompts[5], LENGTH, LENGTH);
    planner_admit(p, 0);
    p->admits.items[0].kind = WIRE_EMBED;
    p->admits.items[0].prompt_count = LENGTH;
    for (uint32_t at = 0; at < LENGTH; at += step) {
        planner_row(p, 0, MIN(step, LENGTH - at));
        if (!planner_send(p) || executor_collect(p->executor, true, &r, &p->err) != 1)
            return false;
    }
    if (r.vectors.count != p->about.vectors.width)
        return false;
    memcpy(out, r.vectors.items, r.vectors.count * sizeof *out);
    return true;
}

/* Of a long step the states come in several pieces; a mean is over all of them, whatever the steps. */
TEST(a_mean_is_of_all_positions) {
    enum { MEAN = 3, WIDTH_MAX = 512 };
    static const uint32_t STEPS[] = {1, 31, 32, 33, 40};
    static struct planner p;
    float whole[WIDTH_MAX], other[WIDTH_MAX];
    struct worker_settings settings = planner_settings(model_dir(), NULL);
    settings.pooling = MEAN;
    EXPECT(planner_open(&p, &settings));
    EXPECT(p.about.vectors.width <= WIDTH_MAX);
    make_prompts(p.about.logits_width);
    EXPECT(vector_in_steps(&p, 15, whole));
    for (size_t i = 0; i < ARRAY_LEN(STEPS); i++) {
        EXPECT(vector_in_steps(&p, STEPS[i], other));
        EXPECT(!memcmp(whole, other, p.about.vectors.width * sizeof *whole));
    }
    planner_close(&p);
}

/* Both are on the device before one has ended: what they take together is no more than the time that passed. */
TEST(a_step_takes_the_time_since_the_one_before_it) {
    static struct planner p;
    struct worker_settings settings = planner_settings(model_dir(), NULL);
    EXPECT(planner_open(&p, &settings));
    make_prompts(p.about.logits_width);
    planner_put(&p, 0, prompts[5], 40, 60);
    planner_admit(&p, 0);
    int64_t start_us = clock_us();
    for (int i = 0; i < 2; i++)
        EXPECT(planner_row(&p, 0, 20) == 20 && planner_send(&p));
    uint64_t sum_us = 0;
    for (int i = 0; i < 2; i++) {
        struct wire_step_result r;
        EXPECT_EQ(executor_collect(p.executor, true, &r, &p.err), 1);
        sum_us += r.compute_us;
    }
    EXPECT(sum_us > 0 && sum_us <= (uint64_t)(clock_us() - start_us));
    planner_close(&p);
}

TEST(an_end_counts_for_its_own_sequence_from_its_result_on) {
    static struct planner p;
    uint32_t count, finish, alone[TOTAL];
    struct worker_settings settings = planner_settings(model_dir(), NULL);
    EXPECT(planner_open(&p, &settings));
    make_prompts(p.about.logits_width);
    add_prompt(&p, 1, 4);
    EXPECT(planner_run(&p, 512, 1));
    memcpy(alone, p.slots[1].tokens, sizeof alone);
    /* a row behind the end is wasted: that there is no block for it any more is no error */
    planner_put(&p, 0, prompts[2], 16, 17);
    EXPECT(planner_step(&p, 512) && take_row(&p, &count, &finish));
    EXPECT(count == 1 && finish == WIRE_FINISH_LENGTH);
    vec_push(&p.rows, 0u);
    vec_push(&p.counts, 1u);
    EXPECT(planner_send(&p) && take_row(&p, &count, &finish));
    EXPECT(count == 0 && finish == WIRE_FINISH_NONE);
    /* the slot has another sequence when the end is seen */
    vec_push(&p.releases, 0u);
    planner_put(&p, 0, prompts[1], 5, 6);
    EXPECT(planner_step(&p, 512));
    vec_push(&p.releases, 0u);
    struct planned *next = add_prompt(&p, 0, 4);
    EXPECT(planner_step(&p, 512) && take_row(&p, &count, &finish));
    EXPECT(count == 1 && finish == WIRE_FINISH_LENGTH);
    EXPECT(planner_take(&p) && planner_run(&p, 512, 1));
    EXPECT(same_text(next, alone));
    planner_close(&p);
}

TEST(plans_that_do_not_fit_are_refused_and_change_nothing) {
    static struct planner p;
    struct worker_settings settings = planner_settings(model_dir(), NULL);
    EXPECT(planner_open(&p, &settings));
    make_prompts(p.about.logits_width);
    uint32_t blocks = p.about.groups[0].block_count;
    add_prompt(&p, 0, 2);
    EXPECT(planner_step(&p, 512) && planner_take(&p));
    p.number += 5;
    EXPECT(refused(&p, "a gap"));
    p.number -= 5;
    vec_push(&p.rows, 9u);
    vec_push(&p.counts, 1u);
    EXPECT(refused(&p, "an empty slot"));
    vec_push(&p.rows, (uint32_t)PLANNER_SLOTS);
    vec_push(&p.counts, 1u);
    EXPECT(refused(&p, "a slot out of bounds"));
    vec_push(&p.releases, (uint32_t)PLANNER_SLOTS + 7);
    EXPECT(refused(&p, "a release out of bounds"));
    vec_push(&p.rows, 0u);
    vec_push(&p.counts, 5u);
    EXPECT(refused(&p, "more positions than are known"));
    vec_push(&p.rows, 0u);
    vec_push(&p.counts, 1u);
    vec_push(&p.new_rows, 0u);
    vec_push(&p.new_groups, 0u);
    vec_push(&p.new_ids, blocks);
    EXPECT(refused(&p, "a block past the cache"));
    vec_push(&p.rows, 0u);
    vec_push(&p.counts, 1u);
    vec_push(&p.new_rows, 0u);
    vec_push(&p.new_groups, 1u);
    vec_push(&p.new_ids, 0u);
    EXPECT(refused(&p, "a group that is not there"));
    uint32_t bad[1] = {blocks};
    add_prompt(&p, 1, 1);
    planner_admit(&p, 1);
    p.admits.items[0].block_ids = (struct u32s){bad, 1};
    EXPECT(refused(&p, "an admission with a block past the cache"));
    p.slots[1].open = false;
    EXPECT(planner_run(&p, 512, 2)); /* the first sequence goes on unharmed */
    EXPECT(p.slots[0].finish == WIRE_FINISH_LENGTH);
    planner_close(&p);
}

/* In one plan, in any order: none of them is known afterwards, and the others go on. */
TEST(slots_released_together_are_all_empty) {
    static struct planner p;
    struct worker_settings settings = planner_settings(model_dir(), NULL);
    static const uint32_t RELEASED[] = {3, 0, 2};
    EXPECT(planner_open(&p, &settings));
    make_prompts(p.about.logits_width);
    for (uint32_t i = 0; i < 4; i++)
        add_prompt(&p, i, 2);
    EXPECT(planner_step(&p, 512) && planner_take(&p));
    for (size_t i = 0; i < ARRAY_LEN(RELEASED); i++) {
        vec_push(&p.releases, RELEASED[i]);
        p.slots[RELEASED[i]].open = false;
    }
    EXPECT(planner_step(&p, 512) && planner_take(&p));
    for (size_t i = 0; i < ARRAY_LEN(RELEASED); i++) {
        vec_push(&p.rows, RELEASED[i]);
        vec_push(&p.counts, 1u);
        EXPECT(refused(&p, "an empty slot"));
    }
    EXPECT(planner_run(&p, 512, 2));
    EXPECT(p.slots[1].finish == WIRE_FINISH_LENGTH);
    planner_close(&p);
}

/* So many positions of one slot, and of the next. */
static void add_rows(struct planner *p, uint32_t first, uint32_t second) {
    for (uint32_t slot = 0; slot < 2; slot++) {
        planner_admit(p, slot);
        vec_push(&p->rows, slot);
        vec_push(&p->counts, slot ? second : first);
    }
}

TEST(a_step_is_no_larger_than_was_said) {
    static struct planner p;
    uint32_t tokens[40];
    struct worker_settings settings = planner_settings(model_dir(), NULL);
    settings.max_step_tokens = 32;
    EXPECT(planner_open(&p, &settings));
    for (uint32_t i = 0; i < ARRAY_LEN(tokens); i++)
        tokens[i] = 1 + i % 7;
    planner_put(&p, 0, tokens, 40, 45);
    planner_put(&p, 1, tokens, 40, 45);
    add_rows(&p, 20, 13);
    EXPECT(!planner_send(&p));
    EXPECT_STR(p.err.text, "a step of 33 tokens, more than 32");
    p.number--;
    add_rows(&p, 20, 12);
    EXPECT(planner_send(&p) && planner_take(&p));
    planner_close(&p);
}

TEST(what_is_wrong_with_one_sequence_ends_that_one_alone) {
    static struct planner p;
    static uint32_t texts[PROMPTS][TOTAL];
    struct worker_settings settings = planner_settings(model_dir(), NULL);
    EXPECT(planner_open(&p, &settings));
    make_prompts(p.about.logits_width);
    EXPECT(reference_texts(&p, texts));
    planner_reset(&p);
    uint32_t alien[4] = {1, 2, p.about.logits_width, 3};
    add_prompt(&p, 0, 4);
    planner_put(&p, 1, alien, 4, 50);
    planner_put(&p, 2, prompts[1], 5, p.about.max_context + 1);
    EXPECT(planner_run(&p, 512, 2));
    EXPECT(p.slots[1].finish == WIRE_FINISH_ERROR && p.slots[2].finish == WIRE_FINISH_ERROR);
    EXPECT(same_text(&p.slots[0], texts[4]));
    planner_close(&p);
}

TEST(sealed_blocks_are_held_until_they_are_handed_out_again) {
    static struct planner p;
    struct worker_settings settings = planner_settings(model_dir(), NULL);
    EXPECT(planner_open(&p, &settings));
    make_prompts(p.about.logits_width);
    add_prompt(&p, 0, 5);
    EXPECT(planner_step(&p, 512) && planner_take(&p));
    uint32_t ids[3];
    memcpy(ids, p.slots[0].blocks, sizeof ids);
    const struct u128 hashes[3] = {{1, 1}, {2, 2}, {3, 3}};
    struct wire_plan seal = planner_plan(&p);
    seal.sealed_ids = (struct u32s){ids, 3};
    seal.sealed_hashes = (struct u128s){hashes, 3};
    EXPECT(!executor_enqueue(p.executor, &seal, &p.err) && planner_take(&p));
    planner_reset(&p);
    struct u32s blocks;
    struct u128s held;
    executor_held(p.executor, &blocks, &held);
    EXPECT(blocks.count == 3 && held.count == 3);
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0; k < 3; k++)
            if (ids[i] == blocks.items[k])
                EXPECT(u128_equal(hashes[i], held.items[k]));
    add_prompt(&p, 0, 1);
    p.slots[0].blocks[0] = ids[1]; /* to be written */
    p.slots[0].block_count = 1;
    EXPECT(planner_step(&p, 512) && planner_take(&p));
    executor_held(p.executor, &blocks, &held);
    EXPECT(blocks.count == 2 && blocks.items[0] != ids[1] && blocks.items[1] != ids[1]);
    planner_close(&p);
}

TEST(loading_fails_with_a_text_that_names_the_cause) {
    static struct planner p;
    struct worker_settings settings = planner_settings("/nonexistent-model", NULL);
    EXPECT(!planner_open(&p, &settings) && strstr(p.err.text, "/nonexistent-model"));
    settings = planner_settings(model_dir(), "vax");
    EXPECT(!planner_open(&p, &settings) && strstr(p.err.text, "vax"));
    settings = planner_settings(model_dir(), NULL);
    settings.block_tokens = 48;
    EXPECT(!planner_open(&p, &settings) && strstr(p.err.text, "48"));
}

TEST(steps_allocate_nothing) {
    static struct planner p;
    struct worker_settings settings = planner_settings(model_dir(), NULL);
    EXPECT(planner_open(&p, &settings));
    EXPECT(allocation_count > 0);
    make_prompts(p.about.logits_width);
    for (uint32_t i = 0; i < PROMPTS; i++)
        add_prompt(&p, i, (int)i)->sampling.logprobs = 4;
    EXPECT(planner_run(&p, 7, 2)); /* the planner's own lists have grown now */
    for (uint32_t i = 0; i < PROMPTS; i++)
        add_prompt(&p, i, (int)i)->sampling.logprobs = 4;
    uint64_t before = allocation_count;
    EXPECT(planner_run(&p, 7, 2));
    EXPECT_EQ(allocation_count - before, 0);
    planner_close(&p);
}
