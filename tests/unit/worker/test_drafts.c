/*
 * Drafts under the executor: whatever is guessed, right or wrong, the bundled model's text is the one
 * without; and no plan can have drafts where none may be.
 */
#include "planner.h"

enum { STREAMS = 6, PROMPT = 20, TOTAL = 70, MOST = 7 };

/* What each stream asks of the sampler: penalties count its text, mirostat keeps a state. */
static void ask(struct planned *s, uint32_t i) {
    s->sampling.logprobs = i % 3 ? -1 : 2;
    if (i == 0)
        return;
    s->sampling.temperature = 0.8f;
    s->sampling.seed = 40 + i;
    if (i == 2)
        s->sampling.repetition_penalty = 1.3f;
    if (i == 3) {
        s->sampling.frequency_penalty = 0.5f;
        s->sampling.presence_penalty = 0.5f;
    }
    if (i == 4) {
        s->sampling.dry_multiplier = 1;
        s->sampling.dry_base = 2;
        s->sampling.dry_allowed = 2;
    }
    if (i == 5) {
        s->sampling.steering = WIRE_STEERING_MIROSTAT_2;
        s->sampling.target = 3;
        s->sampling.rate = 0.1f;
    }
}

static struct planned *put(struct planner *p, uint32_t slot, uint32_t i) {
    uint32_t prompt[PROMPT];
    for (uint32_t k = 0; k < PROMPT; k++) /* it says itself again, as drafts would have it */
        prompt[k] = 100 + 31 * i + k % (4 + i);
    struct planned *s = planner_put(p, slot, prompt, PROMPT, TOTAL);
    ask(s, i);
    return s;
}

static bool open_planner(struct planner *p, const char *isa) {
    struct worker_settings settings = planner_settings(TRIREME_SOURCE_DIR "/demo/model", isa);
    return planner_open(p, &settings);
}

/* Each stream alone, without drafts. */
static void reference(struct planner *p, uint32_t texts[STREAMS][TOTAL]) {
    for (uint32_t i = 0; i < STREAMS; i++) {
        planner_reset(p);
        struct planned *s = put(p, 0, i);
        EXPECT(planner_run(p, PLANNER_ROWS, 1) && s->count == TOTAL);
        memcpy(texts[i], s->tokens, sizeof texts[i]);
    }
}

/* Of n guesses behind the text so far the first `right` are; the next one is not. */
static void guess(struct planner *p, uint32_t slot, const uint32_t *text, uint32_t n,
                  uint32_t right) {
    struct planned *s = &p->slots[slot];
    uint32_t drafts[MOST];
    n = MIN(n, TOTAL - s->count - 1);
    for (uint32_t i = 0; i < n; i++)
        drafts[i] = i == right ? text[s->count + i] ^ 1 : text[s->count + i];
    planner_draft(p, slot, drafts, n);
}

/* A step of all that are open. */
static bool step(struct planner *p, uint32_t (*texts)[TOTAL]) {
    uint32_t rows = 0;
    for (uint32_t i = 0; i < STREAMS; i++) {
        struct planned *s = &p->slots[i];
        if (!s->open)
            continue;
        if (!s->told)
            planner_admit(p, i);
        bool prompt = s->computed < s->prompt_count;
        rows += planner_row(p, i, prompt ? 9 : 1) > 0;
        if (!prompt && s->count > s->prompt_count)
            guess(p, i, texts[i], (uint32_t)(check_random() % (MOST + 1)),
                  (uint32_t)(check_random() % (MOST + 1)));
    }
    return rows && planner_send(p) && planner_take(p);
}

static bool any_open(const struct planner *p) {
    for (uint32_t i = 0; i < STREAMS; i++)
        if (p->slots[i].open)
            return true;
    return false;
}

TEST(no_draft_changes_a_token) {
    static const char *const ISAS[] = {"scalar", "neon", "avx2", "avx512", "amx"};
    static struct planner p;
    static uint32_t texts[STREAMS][TOTAL];
    for (size_t k = 0; k < ARRAY_LEN(ISAS); k++) {
        if (!open_planner(&p, ISAS[k])) {
            EXPECT(k && p.err.code == ERR_UNSUPPORTED);
            continue; /* this machine lacks it */
        }
        EXPECT_EQ(p.about.drafts, 256);
        reference(&p, texts);
        planner_reset(&p);
        uint32_t steps = 0;
        for (uint32_t i = 0; i < STREAMS; i++)
            put(&p, i, i);
        while (any_open(&p) && steps++ < 1000)
            EXPECT(step(&p, texts));
        EXPECT(steps < TOTAL - PROMPT); /* each makes one token at least */
        for (uint32_t i = 0; i < STREAMS; i++) {
            EXPECT_EQ(p.slots[i].finish, WIRE_FINISH_LENGTH);
            EXPECT(p.slots[i].count == TOTAL &&
                   !memcmp(p.slots[i].tokens, texts[i], sizeof texts[i]));
        }
        planner_close(&p);
    }
}

/* How many tokens a step makes of the first stream with these drafts, behind four tokens of its text; 0: not
 * the right ones. */
static uint32_t tokens_of(struct planner *p, uint32_t (*texts)[TOTAL], uint32_t n, uint32_t right,
                          uint32_t stop) {
    planner_reset(p);
    struct planned *s = put(p, 0, 0);
    s->stop = stop;
    while (s->count < PROMPT + 4 && planner_step(p, PLANNER_ROWS) && planner_take(p)) {}
    uint32_t before = s->count;
    (void)planner_row(p, 0, 1);
    guess(p, 0, texts[0], n, right);
    bool right_ones = planner_send(p) && planner_take(p) &&
                      !memcmp(s->tokens, texts[0], s->count * sizeof(uint32_t));
    return right_ones ? s->count - before : 0;
}

TEST(a_step_makes_a_token_more_for_each_draft_that_is_right) {
    static struct planner p;
    static uint32_t texts[STREAMS][TOTAL];
    EXPECT(open_planner(&p, NULL));
    reference(&p, texts);
    for (uint32_t right = 0; right <= 5; right++) {
        EXPECT_EQ(tokens_of(&p, texts, 5, right, UINT32_MAX), right + 1);
        EXPECT(planner_run(&p, PLANNER_ROWS, 2)); /* without any */
        EXPECT(!memcmp(p.slots[0].tokens, texts[0], sizeof texts[0]));
    }
    uint32_t stop = 0; /* the first token that is new there */
    for (uint32_t at = PROMPT + 5; at < PROMPT + 9 && !stop; at++) {
        stop = at;
        for (uint32_t i = PROMPT; i < at; i++)
            stop = texts[0][i] == texts[0][at] ? 0 : stop;
    }
    if (stop) {
        EXPECT_EQ(tokens_of(&p, texts, 6, 6, texts[0][stop]), stop - PROMPT - 3);
        EXPECT_EQ(p.slots[0].finish, WIRE_FINISH_STOP);
    }
    EXPECT_EQ(tokens_of(&p, texts, 6, 6, UINT32_MAX), 7);
    planner_close(&p);
}

/* The last token may come of a draft, and none behind it. */
TEST(drafts_end_where_the_sequence_does) {
    static struct planner p;
    static uint32_t texts[STREAMS][TOTAL];
    EXPECT(open_planner(&p, NULL));
    reference(&p, texts);
    (void)tokens_of(&p, texts, 0, 0, UINT32_MAX);
    struct planned *s = &p.slots[0];
    while (s->count < TOTAL - 4 && planner_step(&p, PLANNER_ROWS) && planner_take(&p)) {}
    (void)planner_row(&p, 0, 1);
    planner_draft(&p, 0, texts[0] + s->count, 3);
    EXPECT(planner_send(&p) && planner_take(&p));
    EXPECT_EQ(s->count, TOTAL);
    EXPECT_EQ(s->finish, WIRE_FINISH_LENGTH);
    EXPECT(!memcmp(s->tokens, texts[0], sizeof texts[0]));
    planner_close(&p);
}

TEST(no_row_follows_drafts_before_their_result) {
    static struct planner p;
    static uint32_t texts[STREAMS][TOTAL];
    EXPECT(open_planner(&p, NULL));
    reference(&p, texts);
    (void)tokens_of(&p, texts, 2, 2, UINT32_MAX);
    (void)planner_row(&p, 0, 1);
    guess(&p, 0, texts[0], 2, 2);
    EXPECT(planner_send(&p));
    (void)planner_row(&p, 0, 1);
    EXPECT(!planner_send(&p));
    EXPECT_EQ(p.err.code, ERR_INVALID);
    EXPECT(strstr(p.err.text, "behind drafts in flight"));
    planner_close(&p);
}
