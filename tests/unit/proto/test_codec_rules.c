/*
 * test_codec_rules.c - how the fields of each message must fit each other, rule by rule: what is just
 * within is taken, and one step past it is refused with the rule's own words.
 */
#include <math.h>

#include "check.h"
#include "proto/codec_tables.h"

#define U32S(...)                                                                                  \
    ((struct u32s){(const uint32_t[]){__VA_ARGS__},                                                \
                   sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)})
#define F32S(...)                                                                                  \
    ((struct f32s){(const float[]){__VA_ARGS__},                                                   \
                   sizeof((const float[]){__VA_ARGS__}) / sizeof(float)})
#define NO_U32S ((struct u32s){0})
#define NO_F32S ((struct f32s){0})

static const struct u128 IDS[3] = {{1, 1}, {2, 2}, {3, 3}};
static const uint32_t TOKENS[8] = {7, 7, 7, 7, 7, 7, 7, 7};

/* what: a part of the refusal; NULL: it is taken. */
static void judge(int line, int rc, const struct error *err, const char *what) {
    if (!what && rc)
        check_fail(__FILE__, line, "refused: %s", err->text);
    else if (what && (rc != ERR_INVALID || !strstr(err->text, what)))
        check_fail(__FILE__, line, "%d '%s', not '%s'", rc, rc ? err->text : "", what);
}

/* A copy of `base` with one change. */
#define JUDGE(name, base, change, what)                                                            \
    do {                                                                                           \
        struct wire_##name m = base;                                                               \
        struct error err = {0};                                                                    \
        change;                                                                                    \
        judge(__LINE__, check_##name(&m, &err), &err, what);                                       \
    } while (0)

TEST(rules_of_a_hello) {
    static const struct wire_kv_group GROUP = {
        .kind = WIRE_GROUP_FULL, .block_tokens = 16, .block_count = 5};
    const struct wire_hello GATEWAY = {.role = WIRE_ROLE_GATEWAY, .instance = {1, 1}},
                            LOADING = {.role = WIRE_ROLE_WORKER,
                                       .instance = {1, 1},
                                       .incarnation = 1,
                                       .state = WIRE_STATE_LOADING,
                                       .rank = 1,
                                       .tp = 2,
                                       .stage = 2,
                                       .pp = 3};
    struct wire_hello READY = LOADING;
    READY.state = WIRE_STATE_IDLE;
    READY.slot_count = READY.max_step_tokens = READY.max_context = READY.logits_width = 1;
    READY.steps_in_flight = READY.group_count = 1;
    READY.groups = &GROUP;
    READY.held_blocks = U32S(0, 4);
    READY.held_hashes = (struct u128s){IDS, 2};
    JUDGE(hello, GATEWAY, , NULL);
    JUDGE(hello, GATEWAY, m.instance = (struct u128){0}, "has an instance");
    JUDGE(hello, LOADING, , NULL);
    JUDGE(hello, LOADING, m.state = 0, "has a state");
    JUDGE(hello, LOADING, m.incarnation = 0, "incarnations begin at 1");
    JUDGE(hello, LOADING, m.rank = 2, "below tp and pp");
    JUDGE(hello, LOADING, m.stage = 3, "below tp and pp");
    JUDGE(hello, LOADING, m.held_blocks = U32S(1), "held blocks and hashes");
    JUDGE(hello, READY, , NULL);
    JUDGE(hello, READY, m.slot_count = 0, "that is ready");
    JUDGE(hello, READY, m.max_step_tokens = 0, "that is ready");
    JUDGE(hello, READY, m.max_context = 0, "that is ready");
    JUDGE(hello, READY, m.logits_width = 0, "that is ready");
    JUDGE(hello, READY, m.steps_in_flight = 0, "that is ready");
    JUDGE(hello, READY, m.group_count = 0, "that is ready");
    JUDGE(hello, READY, m.held_blocks = U32S(0, 5), "not of group 0");
    JUDGE(hello, READY, m.held_blocks = U32S(5, 0), "not of group 0");
    JUDGE(kv_group, GROUP, m.window_tokens = 1, "has a window");
    JUDGE(kv_group, GROUP, (m.kind = WIRE_GROUP_WINDOW, m.window_tokens = 1), NULL);
    JUDGE(kv_group, GROUP, m.kind = WIRE_GROUP_WINDOW, "has a window");
}

TEST(rules_of_vectors_welcomes_and_chunks) {
    static const struct wire_vectors NONE = {0}, SOME = {.pooling = WIRE_POOLING_LAST, .width = 1};
    static const struct wire_welcome WELCOME = {.heartbeat_ms = 5, .silence_ms = 6};
    static const struct wire_bundle_chunk CHUNK = {
        .offset = 3, .total = 8, .data = {(const uint8_t *)"abcde", 5}};
    JUDGE(vectors, NONE, , NULL);
    JUDGE(vectors, NONE, m.width = 1, "or neither");
    JUDGE(vectors, SOME, m.width = 0, "or neither");
    JUDGE(vectors, NONE, m.whole_prompts = true, "needs a pooling");
    JUDGE(vectors, NONE, m.only = true, "needs a pooling");
    JUDGE(vectors, NONE, m.scores = true, "needs a pooling");
    JUDGE(vectors, NONE, m.bare = true, "needs a pooling");
    JUDGE(vectors, SOME, m.whole_prompts = m.only = m.scores = m.bare = true, NULL);
    JUDGE(welcome, WELCOME, , NULL);
    JUDGE(welcome, WELCOME, m.silence_ms = 5, "longer than a heartbeat");
    JUDGE(bundle_chunk, CHUNK, , NULL);
    JUDGE(bundle_chunk, CHUNK, m.total = 7, "past the total");
    JUDGE(bundle_chunk, CHUNK, m.offset = 4, "past the total");
    JUDGE(bundle_chunk, CHUNK, (m.offset = 8, m.data.len = 0), NULL);
    JUDGE(bundle_chunk, CHUNK, (m.offset = 9, m.data.len = 0), "past the total");
}

static const struct wire_sampling PLAIN = {
    .top_p = 1, .repetition_penalty = 1, .logprobs = -1, .dry_base = 1};

TEST(rules_of_sampling) {
    JUDGE(sampling, PLAIN, , NULL);
    JUDGE(sampling, PLAIN, m.temperature = -0.01f, "temperature");
    JUDGE(sampling, PLAIN, m.top_p = 0, "top_p");
    JUDGE(sampling, PLAIN, m.top_p = 0.01f, NULL);
    JUDGE(sampling, PLAIN, m.top_p = 1.01f, "top_p");
    JUDGE(sampling, PLAIN, m.min_p = -0.01f, "min_p");
    JUDGE(sampling, PLAIN, m.min_p = 0.99f, NULL);
    JUDGE(sampling, PLAIN, m.min_p = 1, "min_p");
    JUDGE(sampling, PLAIN, m.top_n_sigma = -0.01f, "top_n_sigma");
    JUDGE(sampling, PLAIN, m.repetition_penalty = 0, "repetition_penalty");
    JUDGE(sampling, PLAIN, m.repetition_penalty = 0.01f, NULL);
    JUDGE(sampling, PLAIN, m.bias_ids = U32S(1), "differ in number");
    JUDGE(sampling, PLAIN, (m.bias_ids = U32S(1, 2), m.bias_values = F32S(1, 2)), NULL);
    JUDGE(sampling, PLAIN, (m.bias_ids = U32S(1, 2), m.bias_values = F32S(NAN, 2)), "not finite");
    JUDGE(sampling, PLAIN, (m.bias_ids = U32S(1, 2), m.bias_values = F32S(1, INFINITY)),
          "not finite");
    JUDGE(sampling, PLAIN, m.bad_words = U32S(1, 9, 2, 9, 9), NULL);
    JUDGE(sampling, PLAIN, m.bad_words = U32S(1, 9, 0), "bad words");
    JUDGE(sampling, PLAIN, m.bad_words = U32S(1, 9, 2, 9), "bad words");
    for (uint32_t count = 0; count <= WIRE_BAD_WORD_TOKENS_MAX + 1; count++) {
        uint32_t word[WIRE_BAD_WORD_TOKENS_MAX + 2] = {count}; /* and so many tokens */
        bool good = count >= 1 && count <= WIRE_BAD_WORD_TOKENS_MAX;
        JUDGE(sampling, PLAIN, m.bad_words = ((struct u32s){word, count + 1}),
              good ? NULL : "bad words");
        JUDGE(sampling, PLAIN, m.bad_words = ((struct u32s){word, MAX(count, 1u)}), "bad words");
    }
    JUDGE(sampling, PLAIN, m.typical_p = 1, NULL);
    JUDGE(sampling, PLAIN, m.typical_p = -0.01f, "typical_p or xtc");
    JUDGE(sampling, PLAIN, m.xtc_probability = 1.01f, "typical_p or xtc");
    JUDGE(sampling, PLAIN, m.xtc_threshold = -0.01f, "typical_p or xtc");
    JUDGE(sampling, PLAIN, m.temperature_range = -0.01f, "is negative");
    JUDGE(sampling, PLAIN, m.dry_multiplier = -0.01f, "is negative");
    JUDGE(sampling, PLAIN, m.dry_base = -0.01f, "is negative");
    JUDGE(sampling, PLAIN, m.rate = 1, NULL); /* of nobody */
    JUDGE(sampling, PLAIN, (m.steering = WIRE_STEERING_ADAPTIVE, m.rate = 0), NULL);
    JUDGE(sampling, PLAIN, (m.steering = WIRE_STEERING_ADAPTIVE, m.rate = 0.99f), NULL);
    JUDGE(sampling, PLAIN, (m.steering = WIRE_STEERING_ADAPTIVE, m.rate = 1), "rate");
    JUDGE(sampling, PLAIN, (m.steering = WIRE_STEERING_ADAPTIVE, m.rate = -0.01f), "rate");
    for (uint64_t step = 0; step < 16; step++) {
        bool known = step >= WIRE_SAMPLE_PENALTIES && step <= WIRE_SAMPLE_XTC;
        JUDGE(sampling, PLAIN, m.order = step, known || !step ? NULL : "the order");
        JUDGE(sampling, PLAIN, m.order = step << 4 | step, !step ? NULL : "the order");
    }
}

TEST(rules_of_what_follows_a_request) {
    static const struct wire_choice TWICE[3] = {{.choice = 0}, {.choice = 127}, {.choice = 0}};
    static const struct wire_submit SUBMIT = {.choices = TWICE, .choice_count = 2};
    static const struct wire_cancel CANCEL = {.choice = WIRE_MAX_CHOICES - 1};
    const struct wire_ack ACK = {{IDS, 2}, U32S(0, 1), U32S(0, 127), U32S(0, WIRE_MAX_TOKENS + 1)};
    const struct wire_attach ATTACH = {.choices = U32S(0, 127),
                                       .indexes = U32S(0, WIRE_MAX_TOKENS)};
    JUDGE(submit, SUBMIT, , NULL);
    JUDGE(submit, SUBMIT, m.choice_count = 3, "there twice");
    JUDGE(cancel, CANCEL, , NULL);
    JUDGE(cancel, CANCEL, m.choice = WIRE_ALL_CHOICES, NULL);
    JUDGE(cancel, CANCEL, m.choice = WIRE_MAX_CHOICES, "no such choice");
    JUDGE(cancel, CANCEL, m.choice = WIRE_ALL_CHOICES - 1, "no such choice");
    JUDGE(ack, ACK, , NULL);
    JUDGE(ack, ACK, m.requests.count = 1, "differ in number");
    JUDGE(ack, ACK, m.attempts.count = 1, "differ in number");
    JUDGE(ack, ACK, m.choices.count = 1, "differ in number");
    JUDGE(ack, ACK, m.counts.count = 1, "differ in number");
    JUDGE(ack, ACK, m.choices = U32S(128, 0), "no such choice");
    JUDGE(ack, ACK, m.choices = U32S(0, 128), "no such choice");
    JUDGE(ack, ACK, m.counts = U32S(WIRE_MAX_TOKENS + 2, 0), "a count");
    JUDGE(attach, ATTACH, , NULL);
    JUDGE(attach, ATTACH, m.choices.count = 1, "differ in number");
    JUDGE(attach, ATTACH, m.choices = U32S(0, 128), "out of bounds or there twice");
    JUDGE(attach, ATTACH, m.choices = U32S(5, 5), "out of bounds or there twice");
    JUDGE(attach, ATTACH, m.indexes = U32S(0, WIRE_MAX_TOKENS + 1), "an index");
}

TEST(rules_of_deltas) {
    const struct wire_deltas DELTAS = {
        .requests = {IDS, 2},
        .attempts = U32S(0, 9),
        .choices = U32S(0, 127),
        .indexes = U32S(0, WIRE_MAX_TOKENS),
        .token_counts = U32S(1, 2),
        .finishes = U32S(WIRE_FINISH_NONE, WIRE_FINISH_CONSTRAINT),
        .cached_counts = U32S(0, WIRE_MAX_TOKENS),
        .flags = U32S(0, 1),
        .prompt_counts = U32S(0, WIRE_MAX_TOKENS),
        .tokens = {TOKENS, 3},
        .logprobs = {U32S(0, WIRE_NO_LOGPROBS, 1), U32S(1, 2, 3), F32S(1, 2, 3)},
        .fingerprints = {IDS, 2},
        .queued_ms = U32S(1, 2),
        .prefill_ms = U32S(1, 2),
        .vector_widths = U32S(0, 2),
        .vectors = F32S(1, 2),
        .sampler_states = F32S(1, 2, 3)};
    JUDGE(deltas, DELTAS, , NULL);
    JUDGE(deltas, DELTAS, m.requests.count = 1, "columns differ");
    JUDGE(deltas, DELTAS, m.attempts.count = 1, "columns differ");
    JUDGE(deltas, DELTAS, m.choices.count = 1, "columns differ");
    JUDGE(deltas, DELTAS, m.indexes.count = 1, "columns differ");
    JUDGE(deltas, DELTAS, m.token_counts.count = 1, "columns differ");
    JUDGE(deltas, DELTAS, m.finishes.count = 1, "columns differ");
    JUDGE(deltas, DELTAS, m.cached_counts.count = 1, "columns differ");
    JUDGE(deltas, DELTAS, m.flags.count = 1, "columns differ");
    JUDGE(deltas, DELTAS, m.prompt_counts = NO_U32S, NULL);
    JUDGE(deltas, DELTAS, m.prompt_counts.count = 1, "counts of prompts");
    JUDGE(deltas, DELTAS, m.prompt_counts = U32S(0, WIRE_MAX_TOKENS + 1), "out of bounds");
    JUDGE(deltas, DELTAS, m.fingerprints.count = 0, NULL);
    JUDGE(deltas, DELTAS, m.fingerprints.count = 1, "fingerprints");
    JUDGE(deltas, DELTAS, m.queued_ms = m.prefill_ms = NO_U32S, NULL);
    JUDGE(deltas, DELTAS, m.queued_ms.count = m.prefill_ms.count = 1, "times of first tokens");
    JUDGE(deltas, DELTAS, m.prefill_ms = NO_U32S, "times of first tokens");
    JUDGE(deltas, DELTAS, m.token_counts = U32S(1, 1), "token counts do not add up");
    JUDGE(deltas, DELTAS, (m.vector_widths = NO_U32S, m.vectors = NO_F32S), NULL);
    JUDGE(deltas, DELTAS, (m.vector_widths = U32S(2), m.vectors = F32S(1, 2)), "do not add up");
    JUDGE(deltas, DELTAS, m.vector_widths = NO_U32S, "do not add up");
    JUDGE(deltas, DELTAS, m.vectors.count = 1, "do not add up");
    JUDGE(deltas, DELTAS, m.vectors = F32S(INFINITY, 2), "a vector is not finite");
    JUDGE(deltas, DELTAS, m.vectors = F32S(1, NAN), "a vector is not finite");
    JUDGE(deltas, DELTAS, m.choices = U32S(128, 0), "no such choice");
    JUDGE(deltas, DELTAS, m.indexes = U32S(WIRE_MAX_TOKENS + 1, 0), "an index or count");
    JUDGE(deltas, DELTAS, m.cached_counts = U32S(0, WIRE_MAX_TOKENS + 1), "an index or count");
    JUDGE(deltas, DELTAS, m.finishes = U32S(WIRE_FINISH_CONSTRAINT + 1, 0), "no such finish");
    JUDGE(deltas, DELTAS, m.sampler_states.count = 0, NULL);
    JUDGE(deltas, DELTAS, m.sampler_states.count = 2, "sampler states");
    JUDGE(deltas, DELTAS, m.logprobs = (struct wire_logprobs){0}, NULL);
    JUDGE(deltas, DELTAS, m.logprobs.values.count = 2, "ids and values");
    JUDGE(deltas, DELTAS, m.logprobs.tops.count = 2, "not one a token");
    JUDGE(deltas, DELTAS, m.logprobs.tops = U32S(0, 0, 1), "logprob counts do not add up");
    JUDGE(deltas, DELTAS, m.logprobs.tops = NO_U32S, "logprob counts do not add up");
    JUDGE(deltas, DELTAS, m.logprobs.tops = U32S(0, WIRE_MAX_TOP_LOGPROBS, 1),
          "logprob counts do not add up");
    JUDGE(deltas, DELTAS, m.logprobs.tops = U32S(0, WIRE_MAX_TOP_LOGPROBS + 1, 1), "too many");
}

TEST(rules_of_a_plan) {
    enum { SLOT = WIRE_MAX_SLOTS - 1, BLOCK = WIRE_MAX_BLOCKS - 1, GROUP = WIRE_MAX_GROUPS - 1 };
    static const struct wire_admit ADMITS[3] = {{.slot = 0}, {.slot = SLOT}, {.slot = 0}};
    const struct wire_plan PLAN = {.number = 1,
                                   .release_slots = U32S(0, SLOT),
                                   .admits = ADMITS,
                                   .admit_count = 2,
                                   .op_kinds = U32S(WIRE_OP_COPY, WIRE_OP_RECEIVE),
                                   .op_groups = U32S(0, GROUP),
                                   .op_sources = U32S(0, BLOCK),
                                   .op_targets = U32S(0, BLOCK),
                                   .new_block_rows = U32S(0, 1),
                                   .new_block_groups = U32S(0, GROUP),
                                   .new_block_ids = U32S(0, BLOCK),
                                   .row_slots = U32S(0, SLOT),
                                   .row_token_counts = U32S(1, WIRE_MAX_TOKENS),
                                   .row_drafts = U32S(0, WIRE_MAX_TOKENS),
                                   .draft_counts = U32S(0, 2),
                                   .draft_tokens = {(const uint32_t[]){7, 8}, 2},
                                   .sealed_ids = U32S(0, BLOCK),
                                   .sealed_hashes = {IDS, 2}};
    JUDGE(plan, PLAN, , NULL);
    JUDGE(plan, PLAN, m.number = 0, "begin at 1");
    JUDGE(plan, PLAN, m.release_slots = U32S(SLOT + 1, 0), "a released slot");
    JUDGE(plan, PLAN, m.row_token_counts.count = 1, "row columns differ");
    JUDGE(plan, PLAN, m.row_drafts.count = 1, "row columns differ");
    JUDGE(plan, PLAN, m.row_drafts = NO_U32S, NULL);
    JUDGE(plan, PLAN, m.draft_counts.count = 1, "row columns differ");
    JUDGE(plan, PLAN, (m.draft_counts = NO_U32S, m.draft_tokens.count = 0), NULL);
    JUDGE(plan, PLAN, m.draft_counts = NO_U32S, "drafts and their tokens");
    JUDGE(plan, PLAN, m.draft_tokens.count = 1, "drafts and their tokens");
    JUDGE(plan, PLAN, m.draft_counts = U32S(1, 2), "drafts and their tokens");
    JUDGE(plan, PLAN, m.draft_counts = U32S(0, WIRE_MAX_TOKENS + 1), "a row's token count");
    JUDGE(plan, PLAN, m.row_slots = U32S(SLOT + 1, 0), "a row's slot");
    JUDGE(plan, PLAN, m.row_slots = U32S(SLOT, SLOT), "a row's slot");
    JUDGE(plan, PLAN, m.row_token_counts = U32S(1, 0), "a row's token count");
    JUDGE(plan, PLAN, m.row_token_counts = U32S(WIRE_MAX_TOKENS + 1, 1), "a row's token count");
    JUDGE(plan, PLAN, m.row_drafts = U32S(0, WIRE_MAX_TOKENS + 1), "a row's token count");
    JUDGE(plan, PLAN, m.admit_count = 3, "admitted twice");
    JUDGE(plan, PLAN, m.new_block_rows.count = 1, "new block columns");
    JUDGE(plan, PLAN, m.new_block_groups.count = 1, "new block columns");
    JUDGE(plan, PLAN, m.new_block_ids.count = 1, "new block columns");
    JUDGE(plan, PLAN, m.new_block_rows = U32S(0, 2), "for no row");
    JUDGE(plan, PLAN, m.new_block_groups = U32S(GROUP + 1, 0), "a new block is out of bounds");
    JUDGE(plan, PLAN, m.new_block_ids = U32S(0, BLOCK + 1), "a new block is out of bounds");
    JUDGE(plan, PLAN, m.op_kinds.count = 1, "operation columns");
    JUDGE(plan, PLAN, m.op_groups.count = 1, "operation columns");
    JUDGE(plan, PLAN, m.op_sources.count = 1, "operation columns");
    JUDGE(plan, PLAN, m.op_targets.count = 1, "operation columns");
    JUDGE(plan, PLAN, m.op_kinds = U32S(WIRE_OP_COPY - 1, WIRE_OP_COPY), "no such operation");
    JUDGE(plan, PLAN, m.op_kinds = U32S(WIRE_OP_COPY, WIRE_OP_RECEIVE + 1), "no such operation");
    JUDGE(plan, PLAN, m.op_groups = U32S(0, GROUP + 1), "an operation's block");
    JUDGE(plan, PLAN, m.op_sources = U32S(BLOCK + 1, 0), "an operation's block");
    JUDGE(plan, PLAN, m.op_targets = U32S(0, BLOCK + 1), "an operation's block");
    JUDGE(plan, PLAN, m.sealed_hashes.count = 1, "sealed blocks and hashes");
    JUDGE(plan, PLAN, m.sealed_ids = U32S(BLOCK + 1, 0), "a sealed block");
}

TEST(rules_of_what_a_plan_admits) {
    const struct wire_admit ADMIT = {.tokens = {TOKENS, 3},
                                     .prompt_count = 3,
                                     .computed_count = 3,
                                     .block_groups = U32S(0, WIRE_MAX_GROUPS - 1),
                                     .block_ids = U32S(0, WIRE_MAX_BLOCKS - 1)};
    JUDGE(admit, ADMIT, , NULL);
    JUDGE(admit, ADMIT, (m.tokens.count = 0, m.prompt_count = m.computed_count = 0), "has tokens");
    JUDGE(admit, ADMIT, m.prompt_count = 4, "past the tokens");
    JUDGE(admit, ADMIT, m.computed_count = 4, "past the tokens");
    JUDGE(admit, ADMIT, m.block_ids.count = 1, "block columns");
    JUDGE(admit, ADMIT, m.block_groups = U32S(0, WIRE_MAX_GROUPS), "a block or group");
    JUDGE(admit, ADMIT, m.block_ids = U32S(WIRE_MAX_BLOCKS, 0), "a block or group");
}

TEST(rules_of_a_steps_result) {
    const struct wire_step_result RESULT = {.slots = U32S(0, WIRE_MAX_SLOTS - 1),
                                            .token_counts = U32S(0, 2),
                                            .finishes =
                                                U32S(WIRE_FINISH_NONE, WIRE_FINISH_CONSTRAINT),
                                            .tokens = {TOKENS, 2},
                                            .logprobs = {U32S(0, 0), U32S(1, 2), F32S(1, 2)},
                                            .vectors = F32S(1, 2, 3, 4),
                                            .vector_width = 2,
                                            .sampler_states = F32S(1, 2)};
    JUDGE(step_result, RESULT, , NULL);
    JUDGE(step_result, RESULT, m.slots.count = 1, "columns differ");
    JUDGE(step_result, RESULT, m.token_counts.count = 1, "columns differ");
    JUDGE(step_result, RESULT, m.finishes.count = 1, "columns differ");
    JUDGE(step_result, RESULT, m.slots = U32S(WIRE_MAX_SLOTS, 0), "a slot");
    JUDGE(step_result, RESULT, m.tokens.count = 1, "token counts");
    JUDGE(step_result, RESULT, m.finishes = U32S(0, WIRE_FINISH_CONSTRAINT + 1), "no such finish");
    JUDGE(step_result, RESULT, m.vectors.count = 3, "not of their width");
    JUDGE(step_result, RESULT, m.vector_width = 0, "not of their width");
    JUDGE(step_result, RESULT, (m.vector_width = 0, m.vectors.count = 0), NULL);
    JUDGE(step_result, RESULT, m.vectors = F32S(1, 2, 3, NAN), "a vector is not finite");
    JUDGE(step_result, RESULT, m.sampler_states.count = 0, NULL);
    JUDGE(step_result, RESULT, m.sampler_states.count = 1, "sampler states");
    JUDGE(step_result, RESULT, m.logprobs.tops.count = 1, "not one a token");
}
