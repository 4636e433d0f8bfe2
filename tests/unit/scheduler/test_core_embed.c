/* Requests whose prompts become vectors. */
#include "stage.h"

static struct stage_worker *embed_worker(struct stage *stage, uint32_t idx,
                                         enum wire_pooling pooling) {
    struct stage_worker *w = stage_worker(stage, idx);
    w->hello.vectors = (struct wire_vectors){.pooling = pooling, .width = STAGE_VECTOR};
    return w;
}

static struct wire_submit embed(struct stage *stage, uint32_t idx, uint32_t prompt_count,
                                uint64_t salt) {
    struct wire_submit submit = stage_submit(stage, idx, prompt_count, 1, salt);
    submit.kind = WIRE_EMBED;
    return submit;
}

static void send_embed(struct stage *stage, uint32_t idx, uint32_t prompt_count, uint64_t salt) {
    struct wire_submit submit = embed(stage, idx, prompt_count, salt);
    stage_send(stage, &submit);
}

/* It ended with its vector, which came once, and no token. */
static bool is_embedded(const struct stage *stage, uint32_t idx) {
    const struct stage_request *request = &stage->requests[idx];
    const struct stage_stream *stream = &request->choices[0];
    float want[STAGE_VECTOR];
    stage_vector(&request->prompt, want);
    return stream->finish == WIRE_FINISH_STOP && stream->tokens.count == 0 &&
           stream->vector_count == 1 && stream->vector_width == STAGE_VECTOR &&
           memcmp(stream->vector, want, sizeof want) == 0;
}

TEST(prompts_become_vectors_beside_text) {
    struct stage *stage = stage_new(NULL);
    EXPECT_EQ(stage_hello(stage, embed_worker(stage, 0, WIRE_POOLING_LAST)), 0);
    static const uint32_t lengths[] = {1, 2, 15, 16, 17, 255, 256, 257, 700, 2048};
    for (uint32_t i = 0; i < ARRAY_LEN(lengths); i++) {
        send_embed(stage, i, lengths[i], i);
        stage_simple(stage, 100 + i, 40, 20);
    }
    stage_finish(stage);
    for (uint32_t i = 0; i < ARRAY_LEN(lengths); i++) {
        EXPECT(is_embedded(stage, i));
        EXPECT(stage_is_right(stage, 100 + i, 0, 20));
    }
    EXPECT(sched_is_idle(stage->s));
    struct sched_counts counts = sched_counts(stage->s);
    EXPECT_EQ(counts.output_tokens, 20 * ARRAY_LEN(lengths));
    stage_free(stage);
}

/* No token follows, so that a prompt may fill the last block. */
TEST(prompts_that_become_vectors_may_fill_all_blocks) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = embed_worker(stage, 0, WIRE_POOLING_LAST);
    w->group.block_count = 7;
    EXPECT_EQ(stage_hello(stage, w), 0);
    send_embed(stage, 0, 7 * w->group.block_tokens, 0);
    stage_finish(stage);
    EXPECT(is_embedded(stage, 0));
    stage_free(stage);
}

TEST(what_a_model_does_not_offer_is_refused) {
    struct stage *stage = stage_new(NULL);
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
    send_embed(stage, 0, 5, 0);
    stage_finish(stage);
    EXPECT_EQ(stage->requests[0].reject, WIRE_REJECT_UNSUPPORTED);
    stage_free(stage);

    stage = stage_new(NULL);
    struct stage_worker *w = embed_worker(stage, 0, WIRE_POOLING_MEAN);
    w->hello.vectors.only = true;
    EXPECT_EQ(stage_hello(stage, w), 0);
    stage_simple(stage, 0, 5, 5);
    send_embed(stage, 1, 5, 1);
    send_embed(stage, 2, 2049, 1);
    struct wire_submit score = embed(stage, 3, 5, 0);
    score.kind = WIRE_SCORE;
    stage_send(stage, &score);
    struct wire_submit tokens = embed(stage, 4, 5, 0);
    static const uint32_t emitted[] = {7};
    const struct wire_choice choice = {.emitted = {emitted, 1}};
    tokens.choices = &choice;
    tokens.choice_count = 1;
    stage_send(stage, &tokens);
    stage_finish(stage);
    EXPECT_EQ(stage->requests[0].reject, WIRE_REJECT_UNSUPPORTED);
    EXPECT(is_embedded(stage, 1));
    EXPECT_EQ(stage->requests[2].reject, WIRE_REJECT_TOO_LONG);
    EXPECT_EQ(stage->requests[3].reject, WIRE_REJECT_UNSUPPORTED);
    EXPECT_EQ(stage->requests[4].reject, WIRE_REJECT_INVALID);
    stage_free(stage);
}

/* Where the last position counts alone, what a prompt begins with is taken from the cache; where all
 * do, nothing is. */
TEST(the_cache_serves_where_the_last_position_counts) {
    static const enum wire_pooling kinds[] = {WIRE_POOLING_LAST, WIRE_POOLING_MEAN,
                                              WIRE_POOLING_CLS};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        struct stage *stage = stage_new(NULL);
        struct stage_worker *w = embed_worker(stage, 0, kinds[i]);
        EXPECT_EQ(stage_hello(stage, w), 0);
        stage_simple(stage, 0, 100, 2);
        stage_finish(stage);
        struct wire_submit submit = embed(stage, 1, 100, 0); /* the same prompt */
        stage_send(stage, &submit);
        stage_finish(stage);
        EXPECT(is_embedded(stage, 1));
        bool last = kinds[i] == WIRE_POOLING_LAST;
        EXPECT_EQ(stage->requests[1].choices[0].cached, last ? 96u : 0u);
        struct wire_submit text = stage_submit(stage, 2, 100, 2, 0);
        stage_send(stage, &text);
        stage_finish(stage);
        EXPECT_EQ(stage->requests[2].choices[0].cached, 96u);
        EXPECT(stage_is_right(stage, 2, 0, 2));
        stage_free(stage);
    }
}

/* A worker that is lost in mid-prompt, and a message that is: the vector comes all the same, once. */
TEST(a_vector_survives_a_lost_worker) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = embed_worker(stage, 0, WIRE_POOLING_MEAN);
    EXPECT_EQ(stage_hello(stage, w), 0);
    send_embed(stage, 0, 900, 0);
    stage_run(stage);
    EXPECT(stage_answer(stage, w));
    stage_run(stage);
    w->hello.incarnation++;
    EXPECT_EQ(stage_hello(stage, w), 0);
    stage_finish(stage);
    EXPECT(is_embedded(stage, 0));
    EXPECT_EQ(w->slots[0].computed_from, 0u);
    stage_free(stage);
}

TEST(a_vector_that_was_not_acknowledged_comes_again) {
    struct stage *stage = stage_new(NULL);
    EXPECT_EQ(stage_hello(stage, embed_worker(stage, 0, WIRE_POOLING_LAST)), 0);
    stage->deaf = true;
    stage->auto_ack = false;
    send_embed(stage, 0, 30, 0);
    stage_finish(stage);
    EXPECT_EQ(stage->requests[0].choices[0].vector_count, 0u);
    stage->deaf = false;
    struct wire_submit again = embed(stage, 0, 30, 0); /* as a gateway that heard nothing does */
    stage_send(stage, &again);
    stage_run(stage);
    EXPECT(is_embedded(stage, 0));
    again = embed(stage, 0, 30, 0); /* and as another attempt */
    static const struct wire_choice none_held = {0};
    again.attempt = stage->requests[0].attempt = 1;
    again.choices = &none_held;
    again.choice_count = 1;
    stage->requests[0].choices[0].vector_count = 0;
    stage_send(stage, &again);
    stage_run(stage);
    EXPECT(is_embedded(stage, 0));
    stage_free(stage);
}

/* Prompts are computed in one step each, and the oldest is not starved by shorter ones. */
TEST(whole_prompts_are_never_cut) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = embed_worker(stage, 0, WIRE_POOLING_MEAN);
    w->hello.vectors.whole_prompts = w->hello.vectors.only = true;
    stage->config.chunk_tokens = 32;
    EXPECT_EQ(stage_hello(stage, w), 0);
    for (uint32_t i = 0; i < 60; i++)
        send_embed(stage, i, i == 3 ? 256 : 90, i);
    send_embed(stage, 60, 257, 60); /* more than a step has */
    uint32_t steps = 0, long_at = 0;
    for (bool any = true; any; steps++) {
        stage_run(stage);
        while (w->results.count) {
            const struct stage_result *r = &w->results.items[0];
            for (size_t i = 0; i < r->row_count; i++) {
                EXPECT(r->lens[i] == 90 || r->lens[i] == 256);
                if (r->lens[i] == 256)
                    long_at = steps;
            }
            EXPECT(stage_answer(stage, w));
        }
        any = !sched_is_idle(stage->s);
    }
    EXPECT(long_at <= 3);
    for (uint32_t i = 0; i < 60; i++)
        EXPECT(is_embedded(stage, i));
    EXPECT_EQ(stage->requests[60].reject, WIRE_REJECT_TOO_LONG);
    struct wire_submit same = embed(stage, 61, 90, 0);
    stage_send(stage, &same);
    stage_finish(stage);
    EXPECT_EQ(stage->requests[61].choices[0].cached, 0u);
    stage_free(stage);
}

TEST(a_result_without_its_vector_is_refused) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = embed_worker(stage, 0, WIRE_POOLING_LAST);
    EXPECT_EQ(stage_hello(stage, w), 0);
    send_embed(stage, 0, 8, 0);
    stage_run(stage);
    EXPECT_EQ(w->results.count, 1u);
    struct stage_result r = w->results.items[0];
    struct wire_step_result result = {.plan_number = r.number,
                                      .incarnation = 1,
                                      .slots = {r.slots, r.row_count},
                                      .token_counts = {r.counts, r.row_count},
                                      .finishes = {r.finishes, r.row_count}};
    EXPECT_EQ(sched_step_result(stage->s, stage->now, w->instance, &result), ERR_INVALID);
    stage_free(stage);
}

/* Nobody takes it up elsewhere: it has no stream. By its id, under a new one, it is not found. */
TEST(a_prompt_that_becomes_a_vector_is_not_attached_to) {
    struct stage *stage = stage_new(NULL);
    EXPECT_EQ(stage_hello(stage, embed_worker(stage, 0, WIRE_POOLING_LAST)), 0);
    send_embed(stage, 0, 40, 0);
    const struct wire_attach attach = {.request = stage_id(0), .new_request = stage_id(1)};
    sched_attach(stage->s, stage->now, stage->gateway, &attach);
    EXPECT_EQ(stage->requests[1].reject, WIRE_REJECT_UNKNOWN);
    EXPECT_EQ(stage->attached_count, 0);
    stage_finish(stage);
    EXPECT(is_embedded(stage, 0));
    stage_free(stage);
}
