/* Constrained slots of an executor: what they sample is what their grammar allows, whatever else is
 * in the batch or in flight; and the store that compiles grammars keeps to its budget. */
#include "planner.h"

#include <poll.h>
#include <regex.h>

#include "grammar/matcher.h"
#include "text/tokenizer/tokenizer.h"
#include "worker/grammar_store.h"

enum { SLOTS = 6, TOTAL = 120, VOCAB = 3072, CONTROLS = 3066 };
static const char *const PATTERNS[2] = {"([a-z]{2,5} ){3}[0-9]{4}\\.", "(ab|cd){2,9}x"};

static struct u128 hash_of(uint32_t i) {
    return (struct u128){.lo = i + 1, .hi = 5};
}

/* The answer to the last Prepare. */
static bool wait_answer(struct grammar_store *store, struct u128 hash, struct error *failed) {
    struct u128 got;
    struct pollfd fd = {.fd = grammar_store_fd(store), .events = POLLIN};
    while (!grammar_store_answer(store, &got, failed))
        if (poll(&fd, 1, 30000) != 1)
            return false;
    return u128_equal(got, hash);
}

static bool make_ready(struct grammar_store *store, uint32_t i) {
    struct error failed;
    grammar_store_prepare(store, hash_of(i), WIRE_GRAMMAR_REGEX, bytes_str(PATTERNS[i]));
    return wait_answer(store, hash_of(i), &failed) && !failed.code;
}

static struct tokenizer *open_tokenizer(const struct executor *e) {
    struct bundle bundle;
    struct tokenizer *t = NULL;
    struct error err;
    CHECK(!bundle_open(&bundle, executor_bundle(e), &err));
    CHECK(!tokenizer_load_bundle(&bundle, &t, &err));
    return t;
}

/* Odd slots are free. */
static void add_all(struct planner *p, uint32_t stop) {
    static const uint32_t prompt[] = {5, 9, 30, 7};
    for (uint32_t i = 0; i < SLOTS; i++) {
        struct planned *s = planner_put(p, i, prompt, 4, TOTAL);
        s->sampling.temperature = 1;
        s->sampling.seed = 30 + i;
        s->stop = stop;
        if (i % 2 == 0)
            s->grammar = hash_of(i / 2 % 2);
    }
}

static bool fits(const struct tokenizer *t, const struct planned *s, const char *pattern) {
    struct buf text = {0};
    char whole[100];
    regex_t re;
    snprintf(whole, sizeof whole, "^(%s)$", pattern);
    CHECK(!regcomp(&re, whole, REG_EXTENDED | REG_NOSUB));
    struct tokens output = {s->tokens + s->prompt_count, s->count - s->prompt_count - 1};
    tokenizer_detokenize(t, output, DETOKENIZE_CONTINUES, &text);
    bool ok = regexec(&re, buf_text(&text), 0, NULL, 0) == 0 && s->finish == WIRE_FINISH_STOP;
    if (!ok)
        check_fail(__FILE__, __LINE__, "'%s' is none of %s", buf_text(&text), whole);
    regfree(&re);
    buf_release(&text);
    return ok;
}

TEST(constrained_slots_sample_what_their_grammar_allows) {
    static struct planner p;
    static struct planned first[SLOTS];
    struct worker_settings settings = planner_settings(TRIREME_SOURCE_DIR "/demo/model", NULL);
    EXPECT(planner_open(&p, &settings));
    struct grammar_store *store = executor_grammars(p.executor);
    struct tokenizer *t = open_tokenizer(p.executor);
    uint32_t stop = tokenizer_eos(t).ids[0];
    EXPECT(make_ready(store, 0) && make_ready(store, 1));
    for (uint32_t way = 0; way < 4; way++) { /* steps in flight, chunks, preempted in the middle */
        planner_reset(&p);
        add_all(&p, stop);
        for (int step = 0; way == 3 && step < 7; step++)
            EXPECT(planner_step(&p, 40) && planner_take(&p));
        for (uint32_t i = 0; way == 3 && i < SLOTS; i += 2) {
            struct planned *from = &p.slots[i], *to = &p.slots[40 + i];
            if (!from->open)
                continue;
            *to = *from;
            to->known = to->count;
            to->computed = to->block_count = 0;
            to->told = from->open = false;
            vec_push(&p.releases, i);
        }
        EXPECT(planner_run(&p, way == 2 ? 1 : 64, way == 0 ? 1 : 2));
        for (uint32_t i = 0; i < SLOTS; i++) {
            const struct planned *s =
                p.slots[40 + i].count && way == 3 ? &p.slots[40 + i] : &p.slots[i];
            if (way == 0)
                first[i] = *s;
            EXPECT(i % 2 || fits(t, s, PATTERNS[i / 2 % 2]));
            EXPECT(s->count == first[i].count &&
                   !memcmp(s->tokens, first[i].tokens, s->count * sizeof *s->tokens));
        }
    }
    planner_reset(&p);
    EXPECT_EQ(grammar_store_counts(store).entries, 2);
    tokenizer_free(&t);
    planner_close(&p);
}

/* The same tokens follow as if the first had been its prompt's. */
TEST(a_list_of_tokens_begins_a_sequence) {
    static struct planner p;
    static const uint32_t WHOLE[] = {5, 9, 30, 7, 11, 12, 11, 40};
    struct worker_settings settings = planner_settings(TRIREME_SOURCE_DIR "/demo/model", NULL);
    EXPECT(planner_open(&p, &settings));
    struct grammar_store *store = executor_grammars(p.executor);
    struct error failed;
    grammar_store_prepare(store, hash_of(7), WIRE_GRAMMAR_TOKENS, bytes_str("11,12,11,40"));
    EXPECT(wait_answer(store, hash_of(7), &failed) && !failed.code);
    for (uint32_t way = 0; way < 2; way++) { /* steps in flight */
        planner_reset(&p);
        for (uint32_t i = 0; i < 2; i++) {
            struct planned *s = planner_put(&p, i, WHOLE, i ? 8 : 4, 30);
            s->sampling.temperature = 1;
            s->sampling.seed = 30;
            if (i == 0)
                s->grammar = hash_of(7);
        }
        EXPECT(planner_run(&p, 64, way + 1));
        EXPECT_EQ(p.slots[0].count, p.slots[1].count);
        EXPECT(!memcmp(p.slots[0].tokens, p.slots[1].tokens,
                       p.slots[0].count * sizeof *p.slots[0].tokens));
    }
    static const char *const BAD[] = {"11,,12", "a", "11 12", "99999999", "-1"};
    for (uint32_t i = 0; i < ARRAY_LEN(BAD); i++) {
        grammar_store_prepare(store, hash_of(20 + i), WIRE_GRAMMAR_TOKENS, bytes_str(BAD[i]));
        EXPECT(wait_answer(store, hash_of(20 + i), &failed) && failed.code == ERR_INVALID);
    }
    planner_reset(&p);
    planner_close(&p);
}

static bool has_sequence(const struct planned *s, const uint32_t *ids, size_t count) {
    for (uint32_t at = s->prompt_count; at + count <= s->count; at++)
        if (!memcmp(s->tokens + at, ids, count * sizeof *ids))
            return true;
    return false;
}

/* Four kinds of slots: some tokens may come; one may not; of the others it may not; of two, none may
 * come behind twice the other, so that a slot that forgot what came before soon does what it must
 * not. The same tokens in any batch, with steps in flight, and after a preemption. */
TEST(lists_of_a_request_are_kept_to) {
    enum { LISTED = 24, MOST = 60 };
    static struct planner p;
    static struct planned first[LISTED];
    static const uint32_t PROMPT[] = {5, 9, 30, 7}, WORD[] = {1, 9},
                          WORDS[] = {3, 36, 36, 37, 3, 37, 37, 36};
    static const uint8_t SOME[] = {0, 0x0f, 0, 0, 0xf0}, TWO[] = {0, 0, 0, 0, 0x30};
    struct worker_settings settings = planner_settings(TRIREME_SOURCE_DIR "/demo/model", NULL);
    EXPECT(planner_open(&p, &settings));
    for (uint32_t way = 0; way < 3; way++) { /* steps in flight, preempted in the middle */
        planner_reset(&p);
        for (uint32_t i = 0; i < LISTED; i++) {
            struct planned *s = planner_put(&p, i, PROMPT, 4, MOST);
            s->sampling.temperature = 100; /* near even, so that all that may come does */
            s->sampling.seed = 30 + i;
            if (i % 4 != 1)
                s->sampling.allowed =
                    i % 4 == 3 ? bytes_of(TWO, sizeof TWO) : bytes_of(SOME, sizeof SOME);
            if (i % 4 == 3)
                s->sampling.bad_words = (struct u32s){WORDS, ARRAY_LEN(WORDS)};
            else if (i % 4)
                s->sampling.bad_words = (struct u32s){WORD, ARRAY_LEN(WORD)};
        }
        for (int step = 0; way == 2 && step < 9; step++)
            EXPECT(planner_step(&p, 400) && planner_take(&p));
        for (uint32_t i = 0; way == 2 && i < LISTED; i++) {
            p.slots[40 + i] = p.slots[i];
            p.slots[40 + i].known = p.slots[i].count;
            p.slots[40 + i].computed = p.slots[40 + i].block_count = 0;
            p.slots[40 + i].told = p.slots[i].open = false;
            vec_push(&p.releases, i);
        }
        EXPECT(planner_run(&p, 64, way == 0 ? 1 : 2));
        for (uint32_t i = 0; i < LISTED; i++) {
            const struct planned *s = &p.slots[way == 2 ? 40 + i : i];
            uint32_t others = 0, nines = 0;
            if (way == 0)
                first[i] = *s;
            EXPECT_EQ(s->count, MOST);
            EXPECT(!memcmp(s->tokens, first[i].tokens, s->count * sizeof *s->tokens));
            for (uint32_t at = 4; at < s->count; at++) {
                uint32_t id = s->tokens[at];
                others += id / 8 >= sizeof SOME || !(SOME[id / 8] >> id % 8 & 1);
                nines += id == 9;
            }
            EXPECT(i % 4 == 1 ? others > 0 : others == 0);
            EXPECT(i % 4 == 1 || (i % 4 == 0) == (nines > 0));
            EXPECT(i % 4 != 3 ||
                   (!has_sequence(s, WORDS + 1, 3) && !has_sequence(s, WORDS + 5, 3)));
        }
    }
    planner_reset(&p);
    planner_close(&p);
}

TEST(an_admission_without_its_grammar_changes_nothing) {
    static struct planner p;
    struct worker_settings settings = planner_settings(TRIREME_SOURCE_DIR "/demo/model", NULL);
    EXPECT(planner_open(&p, &settings));
    add_all(&p, 3);
    EXPECT(make_ready(executor_grammars(p.executor), 0)); /* the other is not */
    EXPECT(!planner_step(&p, 64));
    EXPECT_EQ(p.err.code, ERR_INVALID);
    planner_close(&p);
}

/* The control tokens that may come, which are the last ones. */
static size_t allowed(struct matcher *m, uint32_t ids[4]) {
    uint32_t mask[VOCAB / 32 + 1] = {0};
    size_t count = 0;
    matcher_mask(m, mask);
    for (uint32_t id = CONTROLS; id < VOCAB; id++)
        if (mask[id / 32] >> id % 32 & 1 && count < 4)
            ids[count++] = id;
    return count;
}

/* A control token is one token whatever stands in its name, and nothing but its name means it. */
TEST(control_tokens_are_named_one_by_one) {
    static const char *const NAMES[] = {"<|begin|>", "<|system|>", "<|user|>", "<|assistant|>",
                                        "<|pad|>"};
    struct buf bundle = {0}, text = {0};
    struct error err, failed;
    struct grammar_store *store;
    struct bundle files;
    struct tokenizer *t = NULL;
    EXPECT(!bundle_pack(TRIREME_SOURCE_DIR "/demo/model", &bundle, &err));
    EXPECT(!bundle_open(&files, buf_bytes(&bundle), &err));
    EXPECT(!tokenizer_load_bundle(&files, &t, &err));
    EXPECT(!grammar_store_new(&store, buf_bytes(&bundle), VOCAB, 1 << 20, &err));
    buf_add_str(&text, "{\"type\":\"sequence\",\"elements\":[");
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
        buf_addf(&text, "%s{\"type\":\"token\",\"value\":\"%s\"}", i ? "," : "", NAMES[i]);
    buf_add_str(&text, "]}");
    grammar_store_prepare(store, hash_of(30), WIRE_GRAMMAR_STRUCTURE, buf_bytes(&text));
    EXPECT(wait_answer(store, hash_of(30), &failed) && !failed.code);
    struct grammar_entry *entry = grammar_store_take(store, hash_of(30));
    struct matcher *m = matcher_new(grammar_entry_run(entry));
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        uint32_t ids[4] = {0};
        EXPECT_EQ(allowed(m, ids), 1);
        EXPECT_EQ(ids[0], tokenizer_find(t, bytes_str(NAMES[i])));
        EXPECT(matcher_token(m, ids[0]));
    }
    matcher_free(&m);
    grammar_store_give(store, entry);
    grammar_store_free(&store);
    tokenizer_free(&t);
    buf_release(&text);
    buf_release(&bundle);
}

TEST(the_store_answers_each_and_keeps_to_its_budget) {
    struct buf bundle = {0};
    struct error err, failed;
    struct grammar_store *store;
    EXPECT(!bundle_pack(TRIREME_SOURCE_DIR "/demo/model", &bundle, &err));
    EXPECT(!grammar_store_new(&store, buf_bytes(&bundle), 1000, 1, &err)); /* room for one */
    grammar_store_prepare(store, hash_of(9), WIRE_GRAMMAR_REGEX, bytes_str("(a"));
    EXPECT(wait_answer(store, hash_of(9), &failed) && failed.code && strstr(failed.text, "group"));
    EXPECT(!grammar_store_take(store, hash_of(9)));
    EXPECT(make_ready(store, 0) && make_ready(store, 0)); /* the second time it is there */
    EXPECT_EQ(grammar_store_counts(store).compiled, 1);
    grammar_store_prepare(store, hash_of(1), WIRE_GRAMMAR_REGEX, bytes_str(PATTERNS[1]));
    struct grammar_entry *entry = grammar_store_take(store, hash_of(0));
    EXPECT(entry && grammar_entry_run(entry));
    EXPECT_EQ(grammar_store_counts(store).waiting, 1); /* the first is held: it waits for room */
    grammar_store_give(store, entry);
    EXPECT(grammar_store_take(store, hash_of(1)) == NULL);
    grammar_store_free(&store);
    buf_release(&bundle);
}
