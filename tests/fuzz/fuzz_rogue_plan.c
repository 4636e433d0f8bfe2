/* A rogue scheduler at a live worker: a model's executor and its store of grammars get plans and
 * orders, right ones and such that no scheduler would send.
 *
 * What holds: a plan is computed or refused as invalid, never more; what is computed makes a result
 * that fits the plan and the wire; and once the executor has begun anew, an honest scheduler gets the
 * tokens that it got from a fresh one. */
#include "fuzz.h"

#include <poll.h>

#include "base/log.h"
#include "grammar/grammar.h"
#include "kernels/device.h"
#include "proto/codec.h"
#include "rogue/rogue.h"
#include "rogue/tiny_model.h"
#include "worker/executor.h"
#include "worker/grammar_store.h"

enum { SLOTS = 6, BLOCKS = 40, BLOCK_TOKENS = 16, STEP = 48, SLOT_BLOCKS = TINY_CONTEXT / 16 };
enum { GRAMMARS = 3 };

/* What an honest scheduler would know of a slot. */
struct known_slot {
    bool used;
    uint32_t known, computed, block_count, blocks[SLOT_BLOCKS];
};

static struct executor *executor;
static struct wire_hello about;
static struct rogue rogue;
static struct buf frame;
static struct arena arena;
static struct known_slot slots[SLOTS];
static uint64_t number;
static uint32_t next_block, in_flight;
static const uint32_t LIMITS[] = {BLOCKS, SLOTS, TINY_VOCAB, TINY_CONTEXT, STEP, SLOT_BLOCKS};
static const struct u128 GRAMMAR_IDS[GRAMMARS] = {{1, 55}, {2, 55}, {3, 55}};

/* ---- A plan, right but for what `change` makes of it ---- */

static struct {
    struct wire_admit admits[SLOTS];
    size_t admit_count;
    uint32_t releases[SLOTS], rows[SLOTS], counts[SLOTS];
    size_t release_count, row_count;
    uint32_t new_rows[BLOCKS], new_groups[BLOCKS], new_ids[BLOCKS];
    size_t new_count;
    uint32_t prompts[SLOTS][TINY_CONTEXT], groups[SLOT_BLOCKS], stops[1];
} draft;

static uint32_t take_block(void) {
    return next_block++ % BLOCKS;
}

static void admit(uint32_t slot, uint32_t count, uint32_t seed, bool plain) {
    struct known_slot *s = &slots[slot];
    struct wire_admit *a = &draft.admits[draft.admit_count++];
    *s = (struct known_slot){.used = true, .known = count};
    for (uint32_t i = 0; i < count; i++)
        draft.prompts[slot][i] = (seed * 97 + i * 31) % TINY_VOCAB;
    while (s->block_count * BLOCK_TOKENS < count)
        s->blocks[s->block_count++] = take_block();
    *a = (struct wire_admit){.slot = slot,
                             .sequence = number * SLOTS + slot,
                             .tokens = {draft.prompts[slot], count},
                             .prompt_count = count,
                             .block_groups = {draft.groups, s->block_count},
                             .block_ids = {s->blocks, s->block_count},
                             .sampling = {.top_p = 1,
                                          .repetition_penalty = 1,
                                          .logprobs = plain ? -1 : (int32_t)seed % 4},
                             .stop_tokens = {draft.stops, 1},
                             .grammar = plain || seed % 4 ? (struct u128){0}
                                                          : GRAMMAR_IDS[seed / 4 % GRAMMARS],
                             .max_total = TINY_CONTEXT};
    if (!plain && seed & 1)
        a->sampling.temperature = 1;
}

static void add_row(uint32_t slot, uint32_t count) {
    struct known_slot *s = &slots[slot];
    count = MIN(count, s->known - s->computed);
    if (!count || s->known >= TINY_CONTEXT)
        return;
    draft.rows[draft.row_count] = slot;
    draft.counts[draft.row_count] = count;
    s->computed += count;
    s->known += s->computed == s->known;
    if (s->computed > s->block_count * BLOCK_TOKENS) {
        draft.new_rows[draft.new_count] = (uint32_t)draft.row_count;
        draft.new_ids[draft.new_count++] = s->blocks[s->block_count++] = take_block();
    }
    draft.row_count++;
}

static struct wire_plan finish_draft(void) {
    return (struct wire_plan){.number = ++number,
                              .incarnation = 1,
                              .release_slots = {draft.releases, draft.release_count},
                              .admits = draft.admits,
                              .admit_count = draft.admit_count,
                              .new_block_rows = {draft.new_rows, draft.new_count},
                              .new_block_groups = {draft.new_groups, draft.new_count},
                              .new_block_ids = {draft.new_ids, draft.new_count},
                              .row_slots = {draft.rows, draft.row_count},
                              .row_token_counts = {draft.counts, draft.row_count}};
}

static void begin_draft(void) {
    draft.admit_count = draft.release_count = draft.row_count = draft.new_count = 0;
}

/* ---- The worker's part, as compute.c has it ---- */

static void begin_anew(void) {
    executor_reset(executor);
    memset(slots, 0, sizeof slots);
    number = in_flight = 0;
}

/* What a worker sends must be what the codec takes. */
static void check_result(const struct wire_step_result *result) {
    struct wire_step_result again;
    struct error err;
    buf_reset(&frame);
    message_pack_step_result(result, &frame);
    CHECK_MSG(message_unpack_step_result(buf_bytes(&frame), &arena, &again, &err) == 0, "%s",
              err.text);
    for (size_t i = 0; i < result->slots.count; i++)
        CHECK(result->slots.items[i] < about.slot_count);
    for (size_t i = 0; i < result->tokens.count; i++)
        CHECK(result->tokens.ids[i] < about.logits_width);
    rogue_note(&rogue, WIRE_STEP_RESULT, buf_bytes(&frame));
}

/* The oldest result; its last token in *token. */
static void collect(uint32_t *token) {
    struct wire_step_result result;
    struct error err;
    int rc = executor_collect(executor, true, &result, &err);
    CHECK_MSG(rc == 1, "%s", err.text);
    in_flight--;
    check_result(&result);
    if (token && result.tokens.count)
        *token = result.tokens.ids[result.tokens.count - 1];
}

static bool run_plan(struct bytes payload) {
    struct wire_plan plan;
    struct error err;
    arena_reset(&arena);
    int rc = message_unpack_plan(payload, &arena, &plan, &err);
    if (!rc)
        rc = executor_enqueue(executor, &plan, &err);
    CHECK(rc == 0 || rc == ERR_INVALID || rc == ERR_LIMIT);
    if (rc) {
        while (in_flight)
            collect(NULL);
        begin_anew();
        return false;
    }
    if (++in_flight >= MAX(about.steps_in_flight, 1u))
        collect(NULL);
    return true;
}

/* ---- Honest: five tokens after a prompt of twenty ---- */

enum { HONEST = 5 };

static void generate(uint32_t out[HONEST]) {
    begin_anew();
    for (int i = 0; i < HONEST; i++) {
        begin_draft();
        if (i == 0)
            admit(0, 20, 3, true);
        add_row(0, STEP);
        struct wire_plan plan = finish_draft();
        struct error err;
        CHECK(executor_enqueue(executor, &plan, &err) == 0);
        in_flight++;
        arena_reset(&arena);
        collect(&out[i]);
    }
}

/* ---- Rogue ---- */

static void send_plan(uint8_t how) {
    begin_draft();
    for (uint32_t i = 0; i < SLOTS; i++) {
        uint8_t what = rogue_byte(&rogue);
        if (slots[i].used && what < 20) {
            draft.releases[draft.release_count++] = i;
            slots[i].used = false;
        } else if (!slots[i].used && what < 90)
            admit(i, 1 + what / 2, what, false);
        if (slots[i].used && what & 1)
            add_row(i, how & 2 ? STEP / SLOTS : 1);
    }
    struct wire_plan plan = finish_draft();
    if (how % 4 == 3)
        rogue_change(&rogue, WIRE_PLAN, &plan);
    rogue_pack(&rogue, WIRE_PLAN, &plan, &frame);
    run_plan(buf_bytes(&frame));
}

static void send_drawn_plan(void) {
    struct wire_plan plan;
    rogue_draw(&rogue, WIRE_PLAN, &plan);
    if (rogue_byte(&rogue) % 4)
        plan.number = number + 1;
    rogue_pack(&rogue, WIRE_PLAN, &plan, &frame);
    if (run_plan(buf_bytes(&frame)))
        number++;
}

static void send_again(void) {
    if (rogue_again(&rogue, &frame) == WIRE_PLAN && run_plan(buf_bytes(&frame)))
        number++; /* whatever it was, the next one follows it */
}

/* A grammar of a kind that is there; what comes of it is waited for, as the scheduler does. */
static void prepare(uint8_t how) {
    static const char *const TEXTS[] = {"[a-z]+", "{\"type\":\"object\"}",
                                        "root ::= \"a\" root | \"b\"", "(a|b)*c{2,5}"};
    struct grammar_store *store = executor_grammars(executor);
    struct bytes text = bytes_str(TEXTS[how / 4 % ARRAY_LEN(TEXTS)]);
    struct u128 hash;
    struct error failed;
    if (how & 128) {
        text = bytes_of(rogue.at, MIN((size_t)(how % 64), (size_t)(rogue.end - rogue.at)));
        rogue.at += text.len;
    }
    grammar_store_prepare(store, GRAMMAR_IDS[how % GRAMMARS],
                          (enum wire_grammar_kind)(1 + rogue_byte(&rogue) % WIRE_GRAMMAR_TOKENS),
                          text);
    struct pollfd fd = {.fd = grammar_store_fd(store), .events = POLLIN};
    CHECK(poll(&fd, 1, 120000) == 1);
    while (grammar_store_answer(store, &hash, &failed)) {}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
    static struct worker_progress progress;
    static uint32_t expected[HONEST];
    static bool started;
    uint32_t tokens[HONEST] = {0};
    struct error err;
    rogue_init(&rogue, data, len);
    next_block = 0;
    if (!started) {
        struct worker_settings settings = {.model = tiny_model(),
                                           .isa = "scalar",
                                           .device = "cpu",
                                           .threads = 1,
                                           .slots = SLOTS,
                                           .blocks = BLOCKS,
                                           .block_tokens = BLOCK_TOKENS,
                                           .max_step_tokens = STEP};
        log_init("fuzz", LOG_ERROR + 1, false);
        CHECK_MSG(executor_new(&executor, &settings, &progress, &err) == 0, "%s", err.text);
        executor_describe(executor, &about);
        generate(expected);
        started = true;
    }
    for (size_t i = 0; i < ARRAY_LEN(LIMITS); i++)
        rogue_note_number(&rogue, LIMITS[i]);
    begin_anew();
    while (rogue.at < rogue.end) {
        uint8_t what = rogue_byte(&rogue);
        if (what < 150)
            send_plan(what);
        else if (what < 180)
            send_drawn_plan();
        else if (what < 200)
            send_again();
        else if (what < 210)
            prepare(rogue_byte(&rogue));
        else if (what < 215)
            begin_anew();
    }
    generate(tokens);
    CHECK(memcmp(tokens, expected, sizeof tokens) == 0);
    rogue_release(&rogue);
    return 0;
}
