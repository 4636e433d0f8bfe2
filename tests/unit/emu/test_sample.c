/* The sampler on the emulated device: the draws of the definition over random settings, its special
 * cases, three thread orders. */
#include "random_rules.h"
#include "rig.h"

enum { HISTORY = 64 };

struct setting {
    struct slot_state state;
    uint32_t history[HISTORY], bias_ids[8];
    float bias_values[8];
    const uint32_t *mask; /* [vocab / 32] or NULL */
    uint32_t breakers;    /* bits of the first 32 tokens */
};

struct draw {
    uint32_t status, token, top_count, top_ids[SAMPLE_TOP_MAX], token_count, active, last;
    float logprob, top_logprobs[SAMPLE_TOP_MAX], state;
};

/* `count` rows of the same setting; the device's arrays are what `dev` needs, host memory for the
 * definition. */
static struct draw sample_on(struct device *dev, struct stream *stream, const float *logits,
                             uint32_t vocab, const struct setting *set, uint32_t count) {
    uint32_t stride = vocab + 3, words = (vocab + 31) / 32, *index = calloc(count * 2, 4);
    void *owned[16], *pinned[7];
    int n = 0;
    for (uint32_t i = 0; i < count; i++)
        index[i] = i;
#define PUT(size, host) put_copies(dev, stream, &owned[n++], count, size, host)
#define TAKE(size)      (owned[n++] = device_alloc(dev, size))
    extern void put_copies(struct device *, struct stream *, void **, uint32_t, size_t,
                           const void *);
    float *padded = calloc(stride, 4);
    memcpy(padded, logits, vocab * 4);
    struct slot_table t = {.slot_count = count, .max_context = HISTORY};
    uint32_t *ids = calloc(SLOT_BIAS_MAX, 4);
    float *values = calloc(SLOT_BIAS_MAX, 4);
    memcpy(ids, set->bias_ids, sizeof set->bias_ids);
    memcpy(values, set->bias_values, sizeof set->bias_values);
    PUT(stride * 4, padded), PUT(sizeof set->state, &set->state),
        PUT(sizeof set->history, set->history);
    uint32_t *breakers = calloc(words, 4);
    breakers[0] = set->breakers;
    PUT(SLOT_BIAS_MAX * 4, ids), PUT(SLOT_BIAS_MAX * 4, values), PUT(words * 4, breakers);
    t.states = owned[1], t.tokens = owned[2], t.bias_ids = owned[3], t.bias_values = owned[4];
    t.breakers = owned[5];
    uint32_t *rows = TAKE(count * 4), *zeros = TAKE(count * 4);
    stream_copy_in(stream, rows, index, count * 4);
    stream_copy_in(stream, zeros, index + count, count * 4);
    void *mask = set->mask ? TAKE(words * 4) : NULL,
         *scratch = TAKE(dev->ops->sample_scratch(dev, count, vocab));
    if (mask)
        stream_copy_in(stream, mask, set->mask, words * 4);
    for (int i = 0; i < 7; i++)
        pinned[i] = device_alloc_host(dev, (size_t)count * 4 * (i < 4 ? 1 : SAMPLE_TOP_MAX));
    struct sample_out out = {pinned[0], pinned[1], pinned[2], pinned[3],
                             pinned[4], pinned[5], pinned[6]};
    struct step_batch batch = {.row_count = count,
                               .sample_count = count,
                               .sample_rows = rows,
                               .slots = rows,
                               .positions = zeros};
    dev->ops->sample(stream, &(struct op_sample){.logits = owned[0],
                                                 .logits_stride = stride,
                                                 .vocab_size = vocab,
                                                 .masks = mask,
                                                 .mask_rows = mask ? zeros : NULL,
                                                 .mask_stride = words,
                                                 .slots = &t,
                                                 .batch = &batch,
                                                 .out = &out,
                                                 .scratch = scratch});
    struct slot_state state;
    uint32_t history[HISTORY], row = count - 1;
    stream_copy_out(stream, &state, t.states + row, sizeof state);
    stream_copy_out(stream, history, t.tokens + row * HISTORY, sizeof history);
    struct event *done = event_new(dev);
    event_record(done, stream);
    if (event_wait(done))
        check_fail(__FILE__, __LINE__, "the device failed: %s", emu_failure());
    event_free(&done);
    struct draw d = {.status = out.status[row],
                     .token = out.tokens[row],
                     .top_count = out.top_counts[row],
                     .token_count = state.token_count,
                     .active = state.active,
                     .logprob = out.logprobs[row],
                     .state = out.states[row],
                     .last = history[state.token_count - 1]};
    memcpy(d.top_ids, out.top_ids + row * SAMPLE_TOP_MAX, sizeof d.top_ids);
    memcpy(d.top_logprobs, out.top_logprobs + row * SAMPLE_TOP_MAX, sizeof d.top_logprobs);
    for (int i = 0; i < n; i++)
        device_free(dev, owned[i]);
    for (int i = 0; i < 7; i++)
        device_free_host(dev, pinned[i]);
    free(padded);
    free(index);
    free(ids);
    free(values);
    free(breakers);
    return d;
}

/* Device memory of `count` copies. */
void put_copies(struct device *dev, struct stream *stream, void **out, uint32_t count, size_t size,
                const void *host);
void put_copies(struct device *dev, struct stream *stream, void **out, uint32_t count, size_t size,
                const void *host) {
    *out = device_alloc(dev, size * count);
    for (uint32_t i = 0; i < count; i++)
        stream_copy_in(stream, (char *)*out + i * size, host, size);
}

static struct setting plain(float temperature) {
    return (struct setting){.state = {.active = 1,
                                      .token_count = 4,
                                      .prompt_count = 2,
                                      .max_total = HISTORY,
                                      .temperature = temperature,
                                      .top_p = 1,
                                      .repetition_penalty = 1,
                                      .logprobs = -1,
                                      .seed = 7},
                            .history = {1, 2, 3, 3}};
}

static struct setting random_setting(int round, uint32_t vocab, uint32_t *mask) {
    struct setting set = plain(round % 4 ? 0.3f + (float)(round % 7) * 0.3f : 0);
    struct slot_state *s = &set.state;
    for (int i = 0; i < 12; i++)
        set.history[i] = (uint32_t)(check_random() % vocab);
    s->token_count = 12;
    s->prompt_count = 5;
    s->seed = check_random();
    s->choice = (uint32_t)(round % 3);
    s->top_k = round % 3 ? 0 : 1 + (uint32_t)(check_random() % 20);
    s->top_p = round % 5 ? 1 : 0.05f + 0.9f * (float)(check_random() % 100) / 100;
    s->min_p = round % 7 ? 0 : 0.1f;
    if (round % 3 == 1) { /* so hot that each kept token may be drawn */
        s->top_n_sigma = 0.1f * (float)(1 + check_random() % 30);
        s->temperature = 9;
    }
    s->repetition_penalty = round % 2 ? 1 : 1.3f;
    s->presence_penalty = round % 6 ? 0 : 0.5f;
    s->frequency_penalty = round % 6 ? 0 : -0.25f;
    s->logprobs = round % 5 - 1;
    s->bias_count = 4;
    set.bias_ids[0] = set.bias_ids[2] = (uint32_t)(check_random() % vocab);
    set.bias_ids[1] = vocab + 3; /* past the vocabulary: ignored */
    set.bias_values[0] = 3;
    set.bias_values[2] = -1.7f;
    set.bias_values[3] = 1e-3f;
    if (round % 4 == 2) {
        s->stop_count = 2;
        s->stops[0] = (uint32_t)(check_random() % vocab);
        s->stops[1] = vocab + 9;
        s->min_total = round % 8 == 2 ? 20 : 0;
    }
    if (round % 9 == 4) {
        for (uint32_t i = 0; i < (vocab + 31) / 32; i++)
            mask[i] = (uint32_t)check_random() | 1;
        set.mask = mask;
    }
    return set;
}

/* What a device drew, against the definition's draw. */
static void check_draw(const struct draw *got, const struct draw *want, bool logprobs) {
    EXPECT_EQ(got->status, want->status);
    EXPECT_EQ(got->token, want->token);
    EXPECT(got->token_count == want->token_count && got->active == want->active &&
           got->last == want->last);
    if (want->status == SAMPLE_NONFINITE)
        return;
    EXPECT_EQ(got->top_count, want->top_count);
    for (uint32_t i = 0; want->top_count != SAMPLE_NO_LOGPROBS && i < want->top_count; i++) {
        EXPECT_EQ(got->top_ids[i], want->top_ids[i]);
        EXPECT(got->top_logprobs[i] == want->top_logprobs[i] ||
               fabsf(got->top_logprobs[i] - want->top_logprobs[i]) <=
                   1e-5f * (1 + fabsf(want->top_logprobs[i])));
    }
    if (logprobs)
        EXPECT(got->logprob == want->logprob ||
               fabsf(got->logprob - want->logprob) <= 1e-5f * (1 + fabsf(want->logprob)));
}

TEST(every_setting_draws_what_the_definition_draws) {
    static const uint32_t vocabs[] = {1, 2, 31, 32, 257, 1023, 1024, 1031, 3072};
    struct rig r = rig_open(STORAGE_BF16);
    for (int round = 0; round < (is_long() ? 600 : 90); round++) {
        uint32_t vocab = vocabs[check_random() % ARRAY_LEN(vocabs)], mask[100];
        float *logits = random_values(vocab);
        for (uint32_t i = 0; i < vocab; i++)
            logits[i] = check_random() % 50 ? logits[i] * 4 : -INFINITY;
        logits[check_random() % vocab] = 1;
        struct setting set = random_setting(round, vocab, mask);
        struct draw want = sample_on(r.ref, r.ref_stream, logits, vocab, &set, 1);
        for (int order = 0; order < ORDERS; order++) {
            emu_set_order(order, (uint64_t)round);
            struct draw got =
                sample_on(r.dev, r.stream, logits, vocab, &set, 1 + (uint32_t)round % 3);
            check_draw(&got, &want, set.state.logprobs >= 0);
        }
        free(logits);
    }
    emu_set_order(0, 1);
    rig_close(&r);
}

TEST(every_chain_draws_what_the_definition_draws) {
    static const uint32_t VOCABS[] = {1, 2, 31, 257, 1031, 3072};
    struct rig r = rig_open(STORAGE_BF16);
    for (int round = 0; round < (is_long() ? 600 : 60); round++) {
        uint32_t vocab = VOCABS[check_random() % ARRAY_LEN(VOCABS)];
        float *logits = random_values(vocab);
        for (uint32_t i = 0; i < vocab; i++)
            logits[i] = check_random() % 50 ? logits[i] * 4 : -INFINITY;
        logits[check_random() % vocab] = 1;
        struct setting set = plain(1);
        for (int i = 0; i < 12; i++)
            set.history[i] = (uint32_t)(check_random() % (vocab < 3 ? vocab : 3));
        set.state.token_count = 12;
        set.state.prompt_count = 5;
        set.state.seed = check_random();
        set.state.logprobs = round % 3 - 1;
        set.breakers = round % 8 ? 0 : 2;
        random_rules(&set.state, round);
        struct draw want = sample_on(r.ref, r.ref_stream, logits, vocab, &set, 1);
        for (int order = 0; order < ORDERS; order++) {
            emu_set_order(order, (uint64_t)round);
            struct draw got =
                sample_on(r.dev, r.stream, logits, vocab, &set, 1 + (uint32_t)round % 3);
            if (got.token != want.token || got.status != want.status ||
                !(fabsf(got.state - want.state) <= 1e-3f * (1 + fabsf(want.state))))
                check_fail(__FILE__, __LINE__,
                           "round %d: token %u, state %g; expected token %u, state %g", round,
                           got.token, (double)got.state, want.token, (double)want.state);
        }
        free(logits);
    }
    emu_set_order(0, 1);
    rig_close(&r);
}

/* A large vocabulary: by a cluster of blocks for few rows (sm_90), by one block with many. Both draw
 * what the definition draws, and have the same bits. */
TEST(a_large_vocabulary_is_drawn_by_several_blocks_as_by_one) {
    enum { V = 32768 + 1077, MANY = 33 };
    static float logits[V];
    static uint32_t mask[(V + 31) / 32];
    struct rig r = rig_open(STORAGE_BF16);
    for (int round = 0; round < (is_long() ? 60 : 6); round++) {
        const bool chain = round % 2;
        const int which = round ? (int)(check_random() % 600) : 3; /* 3: some of the best, warm */
        for (uint32_t i = 0; i < V; i++)
            logits[i] = check_random() % 50 ? random_value() * 4 : -INFINITY;
        logits[check_random() % V] = 1;
        struct setting set = chain ? plain(1) : random_setting(which, V, mask);
        if (chain) {
            for (int i = 0; i < 12; i++)
                set.history[i] = (uint32_t)(check_random() % 3);
            set.state.token_count = 12;
            set.state.prompt_count = 5;
            set.state.seed = check_random();
            random_rules(&set.state, which);
        }
        set.state.logprobs = round % 3;
        struct draw want = sample_on(r.ref, r.ref_stream, logits, V, &set, 1);
        emu_set_order(round % ORDERS, (uint64_t)round);
        struct draw got = sample_on(r.dev, r.stream, logits, V, &set, 1 + (uint32_t)round % 2);
        check_draw(&got, &want, true);
        if (round % 3 == 0 || is_long()) {
            struct draw among = sample_on(r.dev, r.stream, logits, V, &set, MANY);
            const size_t tops = got.top_count * sizeof(float);
            EXPECT(among.token == got.token && !memcmp(&among.logprob, &got.logprob, 4) &&
                   !memcmp(among.top_logprobs, got.top_logprobs, tops) &&
                   !memcmp(&among.state, &got.state, 4));
        }
    }
    emu_set_order(0, 1);
    rig_close(&r);
}

/* Equal ones in the same thread's share, in a neighbour's, in another warp's. */
TEST(greedy_takes_the_lowest_id_among_equals) {
    enum { V = 3072 };
    static const uint32_t ids[] = {2900, 1985, 961, 1500, 962, 964, 960 + 1024};
    static float logits[V];
    struct setting set = plain(0);
    struct rig r = rig_open(STORAGE_BF16);
    set.state.logprobs = 7;
    for (int order = 0; order < ORDERS; order++) {
        emu_set_order(order, 23);
        for (size_t i = 0; i < ARRAY_LEN(ids); i++)
            logits[ids[i]] = 2;
        struct draw d = sample_on(r.dev, r.stream, logits, V, &set, 1);
        EXPECT(d.status == SAMPLE_TOKEN && d.token == 961 && d.top_count == 7);
        for (uint32_t i = 1; i < 7; i++)
            EXPECT(d.top_ids[i] > d.top_ids[i - 1]);
    }
    emu_set_order(0, 1);
    rig_close(&r);
}

TEST(logits_that_are_not_finite_end_their_row) {
    float rows[4][40];
    for (int i = 0; i < 40; i++)
        rows[0][i] = rows[1][i] = 1, rows[2][i] = -INFINITY, rows[3][i] = i ? -INFINITY : 0;
    rows[0][33] = NAN;
    rows[1][2] = INFINITY;
    struct setting set = plain(0.5f), ended = plain(0), none = plain(1);
    uint32_t nothing[2] = {0};
    none.mask = nothing;
    ended.state.active = 0;
    struct rig r = rig_open(STORAGE_BF16);
    for (int i = 0; i < 3; i++) {
        struct draw d = sample_on(r.dev, r.stream, rows[i], 40, &set, 2);
        EXPECT(d.status == SAMPLE_NONFINITE && !d.active && d.token_count == 4);
    }
    struct draw d = sample_on(r.dev, r.stream, rows[3], 40, &set, 2);
    EXPECT(d.status == SAMPLE_TOKEN && d.token == 0);
    EXPECT_EQ(sample_on(r.dev, r.stream, rows[3], 40, &ended, 2).status, SAMPLE_WASTED);
    EXPECT_EQ(sample_on(r.dev, r.stream, rows[3], 40, &none, 2).status, SAMPLE_NONFINITE);
    rig_close(&r);
}
