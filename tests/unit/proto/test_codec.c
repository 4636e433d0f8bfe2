/*
 * test_codec.c - every kind: random valid messages come back equal, and nothing that can arrive
 * does worse than an error.
 */
#include <malloc.h>
#include <stdio.h>

#include "check.h"
#include "random_message.h"

enum { ROUNDS = 300 };

union any_message {
#define MEMBER(kind, name) struct wire_##name name;
    WIRE_MESSAGES(MEMBER)
#undef MEMBER
};

struct bench {
    struct arena made, decoded;
    struct buf out, again;
    union any_message a, b;
};

static void bench_init(struct bench *t) {
    *t = (struct bench){0};
}
static void bench_release(struct bench *t) {
    arena_release(&t->made);
    arena_release(&t->decoded);
    buf_release(&t->out);
    buf_release(&t->again);
}
static void bench_make(struct bench *t, enum wire_kind kind) {
    arena_reset(&t->made);
    buf_reset(&t->out);
    random_message(kind, &t->made, &t->a);
    message_pack(kind, &t->a, &t->out);
}
static int bench_decode(struct bench *t, enum wire_kind kind, struct bytes payload,
                        struct error *err) {
    arena_reset(&t->decoded);
    return message_unpack(kind, payload, &t->decoded, &t->b, err);
}

/* NULL, or what went wrong. */
static const char *round_trip(struct bench *t, enum wire_kind kind) {
    static struct error err;
    bench_make(t, kind);
    if (t->out.failed)
        return "encoding failed";
    if (bench_decode(t, kind, buf_bytes(&t->out), &err) != 0)
        return err.text;
    const char *field = message_difference(message_table_of(kind), &t->a, &t->b);
    if (field)
        return field;
    buf_reset(&t->again);
    message_pack(kind, &t->b, &t->again);
    return bytes_equal(buf_bytes(&t->out), buf_bytes(&t->again)) ? NULL : "encodes to other bytes";
}

TEST(codec_tables_follow_the_proto_file) {
    for (uint32_t kind = 1; kind < WIRE_KIND_MAX; kind++) {
        const struct message_table *table = message_table_of(kind);
        EXPECT(table != NULL);
        EXPECT_EQ(table->field_count, table->descriptor->n_fields);
        for (size_t i = 0; i < table->field_count; i++) {
            EXPECT_EQ(table->fields[i].number, table->descriptor->fields[i].id);
            EXPECT_STR(table->fields[i].name, table->descriptor->fields[i].name);
        }
    }
    EXPECT(message_table_of(0) == NULL);
    EXPECT(message_table_of(WIRE_KIND_MAX) == NULL);
    EXPECT_EQ(message_size(WIRE_PLAN), sizeof(struct wire_plan));
    EXPECT_STR(message_kind_name(WIRE_STEP_RESULT), "step_result");
    EXPECT_STR(message_kind_name(999), "unknown");
}

TEST(codec_valid_messages_come_back_equal) {
    struct bench t;
    bench_init(&t);
    for (uint32_t kind = 1; kind < WIRE_KIND_MAX; kind++)
        for (int i = 0; i < ROUNDS; i++) {
            const char *wrong = round_trip(&t, kind);
            if (wrong)
                check_fail(__FILE__, __LINE__, "%s: %s", message_kind_name(kind), wrong);
            if (wrong)
                return;
        }
    bench_release(&t);
}

/* Decoding what was decoded must give the same again: a wrong message that is taken is a
 * message. */
static const char *check_taken(struct bench *t, enum wire_kind kind) {
    static struct error err;
    buf_reset(&t->again);
    message_pack(kind, &t->b, &t->again);
    arena_reset(&t->made);
    return message_unpack(kind, buf_bytes(&t->again), &t->made, &t->a, &err) == 0
               ? message_difference(message_table_of(kind), &t->a, &t->b)
               : err.text;
}

TEST(codec_mutations_and_truncations_decode_or_err) {
    struct bench t;
    bench_init(&t);
    size_t taken = 0, refused = 0;
    for (uint32_t kind = 1; kind < WIRE_KIND_MAX; kind++)
        for (int round = 0; round < 6; round++) {
            bench_make(&t, kind);
            size_t len = t.out.len;
            uint8_t *exact = mem_alloc(len + 1);
            for (size_t at = 0; at < len; at++)
                for (int how = 0; how < 5; how++) {
                    memcpy(exact, t.out.data, len);
                    size_t use = how == 4 ? at : len;
                    exact[at] = how == 0   ? 0
                                : how == 1 ? 0xff
                                : how == 2 ? exact[at] ^ 0x80
                                           : (uint8_t)check_random();
                    /* so that ASan sees the first byte past it */
                    uint8_t *tight = mem_alloc(use ? use : 1);
                    memcpy(tight, exact, use);
                    bool ok = bench_decode(&t, kind, bytes_of(tight, use), NULL) == 0;
                    mem_free(tight);
                    const char *wrong = ok ? check_taken(&t, kind) : NULL;
                    if (wrong)
                        check_fail(__FILE__, __LINE__, "%s taken, but %s", message_kind_name(kind),
                                   wrong);
                    if (wrong)
                        return;
                    ok ? taken++ : refused++;
                }
            mem_free(exact);
        }
    printf("# %zu taken, %zu refused\n", taken, refused);
    EXPECT(taken > 1000 && refused > 1000);
    bench_release(&t);
}

TEST(codec_empty_and_random_payloads_decode_or_err) {
    struct bench t;
    bench_init(&t);
    uint8_t noise[200];
    for (uint32_t kind = 1; kind < WIRE_KIND_MAX; kind++) {
        (void)!bench_decode(&t, kind, (struct bytes){0}, NULL);
        for (int i = 0; i < 2000; i++) {
            size_t len = check_random() % sizeof noise;
            for (size_t k = 0; k < len; k++)
                noise[k] = (uint8_t)check_random();
            if (len)
                noise[0] = (uint8_t)(1 + check_random() % 30) << 3 | 2;
            (void)!bench_decode(&t, kind, bytes_of(noise, len), NULL);
        }
    }
    bench_release(&t);
}

/* ---- Bounds, one by one ---- */

#define REFUSED(kind, name, change)                                                                \
    do {                                                                                           \
        bench_make(&t, kind);                                                                      \
        struct wire_##name *m = &t.a.name;                                                         \
        EXPECT_EQ(bench_decode(&t, kind, buf_bytes(&t.out), NULL), 0);                             \
        change;                                                                                    \
        buf_reset(&t.out);                                                                         \
        message_pack(kind, m, &t.out);                                                             \
        EXPECT_EQ(bench_decode(&t, kind, buf_bytes(&t.out), NULL), ERR_INVALID);                   \
    } while (0)

static const uint32_t NUMBERS[8192] = {5, 5};
static const struct wire_choice SAME[2] = {{.choice = 3}, {.choice = 3}};
static const uint32_t ONE[8192] = {1};
static const uint32_t LONG[40] = {WIRE_BAD_WORD_TOKENS_MAX + 1};
static const float FLOATS[2] = {__builtin_nanf(""), 1};

TEST(codec_refuses_what_is_out_of_bounds) {
    struct bench t;
    bench_init(&t);
    REFUSED(WIRE_HELLO, hello, m->role = 0);
    REFUSED(WIRE_HELLO, hello, m->role = 5);
    REFUSED(WIRE_HELLO, hello, m->instance = (struct u128){0});
    REFUSED(WIRE_HELLO, hello, m->name = bytes_of("\xff\xfe", 2));
    REFUSED(WIRE_HELLO, hello, (m->vectors.pooling = WIRE_POOLING_MEAN, m->vectors.width = 0));
    REFUSED(WIRE_HELLO, hello, m->vectors = ((struct wire_vectors){.only = true}));
    REFUSED(WIRE_HELLO, hello, m->vectors = ((struct wire_vectors){.bare = true}));
    REFUSED(WIRE_HELLO, hello, m->vectors = ((struct wire_vectors){.softmax = true}));
    REFUSED(WIRE_HELLO, hello,
            m->vectors = ((struct wire_vectors){
                .pooling = WIRE_POOLING_CLS, .width = 2, .bare = true, .softmax = true}));
    REFUSED(WIRE_HELLO, hello, (m->role = WIRE_ROLE_WORKER, m->state = 0));
    REFUSED(WIRE_HELLO, hello, (m->role = WIRE_ROLE_WORKER, m->rank = m->tp));
    REFUSED(WIRE_WELCOME, welcome, m->silence_ms = m->heartbeat_ms);
    REFUSED(WIRE_HEARTBEAT, heartbeat, m->state = 7);
    REFUSED(WIRE_BUNDLE_CHUNK, bundle_chunk, m->offset = m->total + 1);
    REFUSED(WIRE_SUBMIT, submit, m->kind = 4);
    REFUSED(WIRE_SUBMIT, submit, m->max_tokens = 0);
    REFUSED(WIRE_SUBMIT, submit, m->max_tokens = WIRE_MAX_TOKENS + 1);
    REFUSED(WIRE_SUBMIT, submit, m->choice_count = 0);
    REFUSED(WIRE_SUBMIT, submit, (m->choices = SAME, m->choice_count = 2));
    bench_make(&t, WIRE_SUBMIT);
    struct wire_choice all[WIRE_MAX_CHOICES] = {0};
    for (uint32_t i = 0; i < WIRE_MAX_CHOICES; i++)
        all[i].choice = i;
    t.a.submit.choices = all;
    t.a.submit.choice_count = WIRE_MAX_CHOICES; /* and no more: each has its number */
    buf_reset(&t.out);
    message_pack(WIRE_SUBMIT, &t.a, &t.out);
    EXPECT_EQ(bench_decode(&t, WIRE_SUBMIT, buf_bytes(&t.out), NULL), 0);
    EXPECT_EQ(t.b.submit.choice_count, WIRE_MAX_CHOICES);
    REFUSED(WIRE_SUBMIT, submit, m->sampling.top_p = 0);
    REFUSED(WIRE_SUBMIT, submit, m->sampling.top_p = 1.01f);
    REFUSED(WIRE_SUBMIT, submit, m->sampling.temperature = -1);
    REFUSED(WIRE_SUBMIT, submit, m->sampling.temperature = FLOATS[0]);
    REFUSED(WIRE_SUBMIT, submit, m->sampling.temperature = __builtin_inff());
    REFUSED(WIRE_SUBMIT, submit, m->sampling.min_p = 1);
    REFUSED(WIRE_SUBMIT, submit, m->sampling.top_n_sigma = -1);
    REFUSED(WIRE_SUBMIT, submit, m->sampling.order = 0xa);
    REFUSED(WIRE_SUBMIT, submit, m->sampling.order = 0x44);
    REFUSED(WIRE_SUBMIT, submit, m->sampling.order = 0x403);
    REFUSED(WIRE_SUBMIT, submit, m->sampling.typical_p = 1.01f);
    REFUSED(WIRE_SUBMIT, submit, m->sampling.xtc_probability = -0.1f);
    REFUSED(WIRE_SUBMIT, submit, m->sampling.xtc_threshold = 1.01f);
    REFUSED(WIRE_SUBMIT, submit, m->sampling.temperature_range = -1);
    REFUSED(WIRE_SUBMIT, submit, m->sampling.dry_multiplier = -1);
    REFUSED(WIRE_SUBMIT, submit, m->sampling.dry_base = -1);
    REFUSED(WIRE_SUBMIT, submit, m->sampling.steering = 4);
    REFUSED(WIRE_SUBMIT, submit,
            (m->sampling.steering = WIRE_STEERING_ADAPTIVE, m->sampling.rate = 1));
    REFUSED(WIRE_SUBMIT, submit, m->sampling.repetition_penalty = 0);
    REFUSED(WIRE_SUBMIT, submit, m->sampling.logprobs = -2);
    REFUSED(WIRE_SUBMIT, submit, m->sampling.logprobs = WIRE_MAX_TOP_LOGPROBS + 1);
    REFUSED(WIRE_SUBMIT, submit,
            m->sampling.bias_ids = ((struct u32s){NUMBERS, m->sampling.bias_values.count + 1}));
    REFUSED(WIRE_SUBMIT, submit, m->sampling.bad_words = ((struct u32s){ONE, 1}));
    REFUSED(WIRE_SUBMIT, submit, m->sampling.bad_words = ((struct u32s){ONE + 1, 2}));
    REFUSED(WIRE_SUBMIT, submit, m->sampling.bad_words = ((struct u32s){LONG, 40}));
    REFUSED(WIRE_SUBMIT, submit,
            m->stop_tokens = ((struct u32s){NUMBERS, WIRE_MAX_STOP_TOKENS + 1}));
    REFUSED(WIRE_REJECT, reject, m->code = 0);
    REFUSED(WIRE_CANCEL, cancel, m->choice = WIRE_MAX_CHOICES);
    REFUSED(WIRE_ACK, ack, m->counts = ((struct u32s){NUMBERS, m->requests.count + 1}));
    REFUSED(WIRE_ATTACH, attach,
            (m->choices = (struct u32s){NUMBERS, 2}, m->indexes = (struct u32s){NUMBERS, 2}));
    REFUSED(WIRE_DELTAS, deltas, m->finishes = ((struct u32s){NUMBERS, m->requests.count + 1}));
    REFUSED(WIRE_DELTAS, deltas, m->tokens = ((struct tokens){NUMBERS, m->tokens.count + 1}));
    REFUSED(WIRE_DELTAS, deltas,
            m->logprobs.ids = ((struct u32s){NUMBERS, m->logprobs.ids.count + 1}));
    REFUSED(WIRE_DELTAS, deltas, m->queued_ms = ((struct u32s){NUMBERS, m->requests.count + 1}));
    REFUSED(WIRE_DELTAS, deltas,
            (m->queued_ms = m->attempts,
             m->prefill_ms = (struct u32s){NUMBERS, m->requests.count + 1}));
    REFUSED(WIRE_DELTAS, deltas,
            (m->vectors = (struct f32s){0},
             m->vector_widths = (struct u32s){NUMBERS + 2, m->requests.count + 1}));
    REFUSED(WIRE_DELTAS, deltas,
            (m->vectors = (struct f32s){FLOATS + 1, 1}, m->vector_widths = (struct u32s){0}));
    REFUSED(WIRE_DELTAS, deltas,
            (m->vectors = (struct f32s){FLOATS, 1},
             m->vector_widths = (struct u32s){ONE, m->requests.count}));
    REFUSED(WIRE_PLAN, plan, m->number = 0);
    REFUSED(WIRE_PLAN, plan,
            (m->row_slots = (struct u32s){NUMBERS, 2},
             m->row_token_counts = (struct u32s){NUMBERS, 2}));
    REFUSED(WIRE_PLAN, plan,
            m->new_block_ids = ((struct u32s){NUMBERS, m->new_block_rows.count + 1}));
    REFUSED(WIRE_STEP_RESULT, step_result,
            m->tokens = ((struct tokens){NUMBERS, m->tokens.count + 1}));
    REFUSED(WIRE_STEP_RESULT, step_result,
            (m->vectors = (struct f32s){FLOATS, 2}, m->vector_width = 2));
    REFUSED(WIRE_STEP_RESULT, step_result,
            (m->vectors = (struct f32s){FLOATS + 1, 1}, m->vector_width = 2));
    REFUSED(WIRE_EXITED, exited, m->cause = 9);
    bench_release(&t);
}

static size_t varint_len(size_t n) {
    size_t len = 1;
    for (; n >= 128; n /= 128)
        len++;
    return len;
}

/* Lengths around 2^7, 2^13 and 2^14, of tokens in a choice in a Submit. */
TEST(codec_lengths_take_no_more_bytes_than_they_need) {
    static const size_t COUNTS[] = {1,    30,   31,   32,   33,   2046, 2047,
                                    2048, 2049, 4094, 4095, 4096, 4097, 9000};
    static uint32_t ones[9000];
    struct wire_choice choice = {0};
    struct wire_submit submit = {.choices = &choice};
    struct buf out;
    buf_init(&out, 0);
    message_pack_submit(&submit, &out);
    size_t without = out.len;
    submit.choice_count = 1;
    for (size_t i = 0; i < ARRAY_LEN(ones); i++)
        ones[i] = 1;
    for (size_t i = 0; i < ARRAY_LEN(COUNTS); i++) {
        size_t bytes = 4 * COUNTS[i], inner = 1 + varint_len(bytes) + bytes;
        choice.emitted = (struct tokens){ones, COUNTS[i]};
        buf_reset(&out);
        message_pack_submit(&submit, &out);
        EXPECT_EQ(out.len, without + 1 + varint_len(inner) + inner);
    }
    buf_release(&out);
}

static bool hello_passes(const struct wire_hello *hello) {
    struct wire_hello got;
    struct arena arena;
    struct buf out;
    arena_init(&arena, 0, 0);
    buf_init(&out, 0);
    message_pack_hello(hello, &out);
    bool passes = message_unpack_hello(buf_bytes(&out), &arena, &got, NULL) == 0;
    buf_release(&out);
    arena_release(&arena);
    return passes;
}

/* Of what a worker that is ready must have, one at a time is missing; while it loads it needs no sizes. */
TEST(codec_a_workers_hello_has_all_that_it_needs) {
    static const struct wire_kv_group group = {
        .kind = WIRE_GROUP_FULL, .block_tokens = 16, .block_count = 4};
    static const uint32_t held[1] = {3}, beyond[1] = {4};
    static const struct u128 hashes[1] = {{1, 1}};
    const struct wire_hello good = {.role = WIRE_ROLE_WORKER,
                                    .instance = {1, 1},
                                    .replica = {1, 1},
                                    .tp = 2,
                                    .rank = 1,
                                    .pp = 2,
                                    .stage = 1,
                                    .incarnation = 1,
                                    .state = WIRE_STATE_IDLE,
                                    .slot_count = 1,
                                    .max_step_tokens = 1,
                                    .max_context = 1,
                                    .logits_width = 1,
                                    .steps_in_flight = 1,
                                    .groups = &group,
                                    .group_count = 1,
                                    .held_blocks = {held, 1},
                                    .held_hashes = {hashes, 1}};
    struct wire_hello h = good;
    EXPECT(hello_passes(&h));
    uint32_t *const sizes[] = {&h.slot_count, &h.max_step_tokens, &h.max_context, &h.logits_width,
                               &h.steps_in_flight};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
        for (int loads = 0; loads < 2; loads++) {
            h = good;
            *sizes[i] = 0;
            h.state = loads ? WIRE_STATE_LOADING : WIRE_STATE_IDLE;
            EXPECT_EQ(hello_passes(&h), loads);
        }
#define REFUSED_IF(change)                                                                         \
    do {                                                                                           \
        h = good;                                                                                  \
        change;                                                                                    \
        EXPECT(!hello_passes(&h));                                                                 \
    } while (0)
    REFUSED_IF(h.group_count = 0);
    REFUSED_IF(h.instance = (struct u128){0});
    REFUSED_IF(h.state = 0);
    REFUSED_IF(h.incarnation = 0);
    REFUSED_IF(h.rank = 2);
    REFUSED_IF(h.stage = 2);
    REFUSED_IF(h.held_hashes.count = 0);
    REFUSED_IF(h.held_blocks.items = beyond);
#undef REFUSED_IF
    h = good;
    h.role = WIRE_ROLE_GATEWAY;
    h.state = 0;
    EXPECT(hello_passes(&h));
}

TEST(codec_a_refused_submit_still_tells_who_asked) {
    struct bench t;
    bench_init(&t);
    bench_make(&t, WIRE_SUBMIT);
    t.a.submit.sampling.top_p = 7;
    buf_reset(&t.out);
    message_pack_submit(&t.a.submit, &t.out);
    EXPECT_EQ(bench_decode(&t, WIRE_SUBMIT, buf_bytes(&t.out), NULL), ERR_INVALID);
    EXPECT(u128_equal(t.b.submit.request, t.a.submit.request));
    EXPECT_EQ(t.b.submit.attempt, t.a.submit.attempt);
    bench_release(&t);
}

/* ---- Cost ---- */

TEST(codec_floods_of_small_fields_meet_the_budget) {
    struct bench t;
    struct buf flood;
    struct error err;
    bench_init(&t);
    buf_init(&flood, 0);
    /* Submit.choices, empty, half a million times */
    for (int i = 0; i < 500000; i++)
        buf_add(&flood, "\x62\x00", 2);
    EXPECT_EQ(bench_decode(&t, WIRE_SUBMIT, buf_bytes(&flood), &err), ERR_LIMIT);
    EXPECT(t.decoded.byte_count < 20 * flood.len);
    buf_reset(&flood);
    for (int i = 0; i < 300000; i++)
        buf_add(&flood, "\xca\x3e\x01x", 4); /* a field nobody knows */
    EXPECT(bench_decode(&t, WIRE_SUBMIT, buf_bytes(&flood), &err) != 0);
    EXPECT(t.decoded.byte_count < 20 * flood.len);
    buf_reset(&flood);
    for (int i = 0; i < 100000; i++)
        /* Submit.sampling again and again: merged each time */
        buf_add(&flood, "\x4a\x02\x50\x01", 4);
    EXPECT(bench_decode(&t, WIRE_SUBMIT, buf_bytes(&flood), &err) != 0);
    EXPECT(t.decoded.byte_count < 20 * flood.len);
    buf_release(&flood);
    bench_release(&t);
}

TEST(codec_unknown_fields_of_a_newer_minor_are_skipped) {
    struct bench t;
    bench_init(&t);
    bench_make(&t, WIRE_PLAN);
    /* fields 1000 (bytes) and 1001 (number) */
    buf_add(&t.out, "\xc2\x3e\x05hello\xc8\x3e\x07", 11);
    EXPECT_EQ(bench_decode(&t, WIRE_PLAN, buf_bytes(&t.out), NULL), 0);
    EXPECT(message_difference(message_table_of(WIRE_PLAN), &t.a, &t.b) == NULL);
    bench_release(&t);
}

static size_t heap_in_use(void) {
    return mallinfo2().uordblks;
}

TEST(codec_steady_state_allocates_nothing) {
    static const enum wire_kind HOT[] = {WIRE_PLAN, WIRE_STEP_RESULT, WIRE_DELTAS, WIRE_ACK,
                                         WIRE_HEARTBEAT};
    struct bench t;
    bench_init(&t);
    for (size_t k = 0; k < ARRAY_LEN(HOT); k++) {
        bench_make(&t, HOT[k]);
        EXPECT_EQ(bench_decode(&t, HOT[k], buf_bytes(&t.out), NULL), 0);
        char *data = t.out.data;
        size_t cap = t.out.cap, before = heap_in_use();
        for (int i = 0; i < 100; i++) {
            buf_reset(&t.out);
            message_pack(HOT[k], &t.a, &t.out);
        }
        EXPECT(t.out.data == data && t.out.cap == cap);
        EXPECT_EQ(heap_in_use(), before);
    }
    bench_release(&t);
}
