/* What the host knows of the slots, without a model: each limit at its edge, whether a plan is refused
 * or one sequence fails, and that a plan that is refused changes nothing. */
#include "worker/mirror.h"

#include <stdio.h>

#include "check.h"

enum { SLOTS = 4, CONTEXT = 33, STEP = 24, VOCAB = 50, BLOCK = 16, BLOCKS = 9, SNAPSHOTS = 3 };

/* One admission, up to two rows, one of everything else; what is not asked for is empty. */
struct draft {
    uint32_t release, op_kind, op_group, op_source, op_target, new_row[3], new_group, new_id[3],
        sealed_id, row_slot[2], row_count[2], row_guesses[2], guesses[8], admit_blocks[8],
        admit_groups[8], ids[CONTEXT + 1];
    struct u128 sealed_hash;
    struct wire_admit admit;
    struct wire_plan plan;
};

struct stage {
    struct mirror mirror;
    struct mirror_row rows[SLOTS];
    uint32_t added_at[BLOCKS];
    struct error err;
    struct draft d;
};

static const struct mirror_limits LIMITS = {.slot_count = SLOTS,
                                            .max_context = CONTEXT,
                                            .max_step_tokens = STEP,
                                            .vocab = VOCAB,
                                            .block_tokens = BLOCK,
                                            .block_count = BLOCKS,
                                            .snapshot_count = SNAPSHOTS,
                                            .draft_max = 5};

static void stage_init(struct stage *t, const struct mirror_limits *limits) {
    *t = (struct stage){0};
    mirror_init(&t->mirror, limits);
    t->d.plan.number = 1;
}

static void stage_release(struct stage *t) {
    mirror_release(&t->mirror);
}

/* Forgets what was drafted. */
static void draft_new(struct stage *t) {
    uint64_t number = t->mirror.last_plan + 1;
    t->d = (struct draft){.plan.number = number};
}

/* An admission of so many tokens, whose first ones are the prompt's. */
static struct wire_admit *draft_admit(struct stage *t, uint32_t slot, uint32_t tokens,
                                      uint32_t prompt, uint32_t blocks) {
    struct draft *d = &t->d;
    for (uint32_t i = 0; i < ARRAY_LEN(d->ids); i++)
        d->ids[i] = i % VOCAB;
    for (uint32_t i = 0; i < ARRAY_LEN(d->admit_blocks); i++)
        d->admit_blocks[i] = i;
    d->admit = (struct wire_admit){.slot = slot,
                                   .tokens = {d->ids, tokens},
                                   .prompt_count = prompt,
                                   .block_groups = {d->admit_groups, blocks},
                                   .block_ids = {d->admit_blocks, blocks},
                                   .max_total = CONTEXT,
                                   .kind = WIRE_GENERATE};
    d->plan.admits = &d->admit;
    d->plan.admit_count = 1;
    return &d->admit;
}

static void draft_row(struct stage *t, uint32_t slot, uint32_t count) {
    struct draft *d = &t->d;
    size_t at = d->plan.row_slots.count;
    d->row_slot[at] = slot;
    d->row_count[at] = count;
    d->plan.row_slots = (struct u32s){d->row_slot, at + 1};
    d->plan.row_token_counts = (struct u32s){d->row_count, at + 1};
}

/* So many guesses behind the row that was drafted last. */
static void draft_guesses(struct stage *t, uint32_t count, uint32_t token) {
    struct draft *d = &t->d;
    size_t at = d->plan.row_slots.count - 1;
    d->row_guesses[at] = count;
    for (uint32_t i = 0; i < count; i++)
        d->guesses[d->plan.draft_tokens.count + i] = token;
    d->plan.draft_counts = (struct u32s){d->row_guesses, at + 1};
    d->plan.draft_tokens = (struct tokens){d->guesses, d->plan.draft_tokens.count + count};
}

static void draft_block(struct stage *t, uint32_t row, uint32_t id) {
    struct draft *d = &t->d;
    static const uint32_t zeros[3];
    size_t at = d->plan.new_block_ids.count;
    d->new_row[at] = row;
    d->new_id[at] = id;
    d->plan.new_block_rows = (struct u32s){d->new_row, at + 1};
    d->plan.new_block_groups = (struct u32s){zeros, at + 1};
    d->plan.new_block_ids = (struct u32s){d->new_id, at + 1};
}

static void draft_op(struct stage *t, uint32_t kind, uint32_t source, uint32_t target) {
    struct draft *d = &t->d;
    d->op_kind = kind;
    d->op_source = source;
    d->op_target = target;
    d->plan.op_kinds = (struct u32s){&d->op_kind, 1};
    d->plan.op_groups = (struct u32s){&d->op_group, 1};
    d->plan.op_sources = (struct u32s){&d->op_source, 1};
    d->plan.op_targets = (struct u32s){&d->op_target, 1};
}

static void draft_seal(struct stage *t, uint32_t id, uint64_t hash) {
    struct draft *d = &t->d;
    d->sealed_id = id;
    d->sealed_hash = (struct u128){hash, hash};
    d->plan.sealed_ids = (struct u32s){&d->sealed_id, 1};
    d->plan.sealed_hashes = (struct u128s){&d->sealed_hash, 1};
}

static void draft_release(struct stage *t, uint32_t slot) {
    t->d.release = slot;
    t->d.plan.release_slots = (struct u32s){&t->d.release, 1};
}

/* Whether it is taken; then the next draft is empty. */
static bool apply(struct stage *t) {
    t->err = (struct error){0};
    int rc = mirror_apply(&t->mirror, &t->d.plan, t->rows, t->added_at, &t->err);
    if (rc == 0)
        draft_new(t);
    return rc == 0;
}

/* Whether it is refused with this text, and nothing has changed. */
static bool refused(struct stage *t, const char *text) {
    struct mirror_slot before[SLOTS];
    uint64_t plan = t->mirror.last_plan, admissions = t->mirror.admissions;
    struct u128 sealed[BLOCKS];
    memcpy(before, t->mirror.slots, sizeof before);
    memcpy(sealed, t->mirror.sealed, sizeof sealed);
    bool no = !apply(t) && t->err.code == ERR_INVALID && strstr(t->err.text, text) &&
              !memcmp(before, t->mirror.slots, sizeof before) &&
              !memcmp(sealed, t->mirror.sealed, sizeof sealed) && t->mirror.last_plan == plan &&
              t->mirror.admissions == admissions;
    if (!no)
        printf("# '%s', expected '%s'\n", t->err.text, text);
    draft_new(t);
    return no;
}

TEST(plans_follow_each_other) {
    struct stage t;
    stage_init(&t, &LIMITS);
    t.d.plan.number = 0;
    EXPECT(refused(&t, "plan 0 after plan 0"));
    t.d.plan.number = 2;
    EXPECT(refused(&t, "plan 2 after plan 0"));
    EXPECT(apply(&t));
    t.d.plan.number = 1;
    EXPECT(refused(&t, "plan 1 after plan 1"));
    EXPECT(apply(&t));
    EXPECT_EQ(t.mirror.last_plan, 2);
    mirror_reset(&t.mirror);
    t.d.plan.number = 1;
    EXPECT(apply(&t));
    stage_release(&t);
}

TEST(slots_and_blocks_are_bounded) {
    struct stage t;
    stage_init(&t, &LIMITS);
    draft_admit(&t, SLOTS, 5, 5, 1);
    EXPECT(refused(&t, "admission into slot 4 of 4"));
    draft_release(&t, SLOTS);
    EXPECT(refused(&t, "a slot out of bounds"));
    draft_row(&t, SLOTS, 1);
    EXPECT(refused(&t, "a slot out of bounds"));
    draft_admit(&t, SLOTS - 1, 5, 5, 1);
    t.d.admit_blocks[0] = BLOCKS;
    EXPECT(refused(&t, "a block id past the cache in the admission to slot 3"));
    draft_admit(&t, 0, 5, 5, 2);
    t.d.admit_groups[1] = 1;
    EXPECT(refused(&t, "a block of a group this model does not have"));
    draft_admit(&t, 0, 5, 5, 4); /* 33 positions are three blocks of 16 */
    EXPECT(refused(&t, "more blocks than a slot holds"));
    draft_seal(&t, BLOCKS, 1);
    EXPECT(refused(&t, "a block id past the cache"));
    draft_admit(&t, SLOTS - 1, 5, 5, 3);
    t.d.admit_blocks[2] = BLOCKS - 1;
    draft_row(&t, SLOTS - 1, 5);
    draft_seal(&t, BLOCKS - 1, 1);
    EXPECT(apply(&t));
    EXPECT_EQ(t.rows[0].fate, ROW_RUNS);
    draft_release(&t, SLOTS - 1);
    EXPECT(apply(&t));
    draft_row(&t, SLOTS - 1, 1);
    EXPECT(refused(&t, "a row on the empty slot 3"));
    stage_release(&t);
}

TEST(a_slot_of_whole_blocks_holds_no_more) {
    struct mirror_limits limits = LIMITS;
    struct stage t;
    limits.max_context = 2 * BLOCK;
    stage_init(&t, &limits);
    EXPECT_EQ(t.mirror.max_blocks, 2);
    draft_admit(&t, 0, 5, 5, 3);
    EXPECT(refused(&t, "more blocks than a slot holds"));
    stage_release(&t);
}

TEST(operations_are_bounded_by_what_they_copy) {
    static const struct {
        uint32_t kind, sources, targets;
    } ROWS[] = {{WIRE_OP_COPY, BLOCKS, BLOCKS},
                {WIRE_OP_SNAPSHOT, SLOTS, SNAPSHOTS},
                {WIRE_OP_RESTORE, SNAPSHOTS, SLOTS}};
    struct stage t;
    stage_init(&t, &LIMITS);
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        draft_op(&t, ROWS[i].kind, ROWS[i].sources, ROWS[i].targets - 1);
        EXPECT(refused(&t, "a block operation out of bounds"));
        draft_op(&t, ROWS[i].kind, ROWS[i].sources - 1, ROWS[i].targets);
        EXPECT(refused(&t, "a block operation out of bounds"));
        draft_op(&t, ROWS[i].kind, ROWS[i].sources - 1, ROWS[i].targets - 1);
        t.d.op_group = 1;
        EXPECT(refused(&t, "a block of a group this model does not have"));
        draft_op(&t, ROWS[i].kind, ROWS[i].sources - 1, ROWS[i].targets - 1);
        EXPECT(apply(&t));
    }
    draft_op(&t, WIRE_OP_LOAD, 0, 0);
    EXPECT(refused(&t, "a block operation this worker does not have"));
    draft_op(&t, 0, 0, 0);
    EXPECT(refused(&t, "a block operation this worker does not have"));
    stage_release(&t);
}

/* A step of the whole of what was admitted: what becomes of it. */
static enum row_fate fate_of(struct stage *t, uint32_t count) {
    draft_row(t, 1, count);
    enum row_fate fate = apply(t) ? t->rows[0].fate : (enum row_fate) - 1;
    draft_new(t);
    draft_release(t, 1);
    CHECK(apply(t));
    return fate;
}

TEST(a_sequence_that_cannot_run_fails_alone) {
    struct mirror_limits limits = LIMITS;
    struct stage t;
    struct wire_admit *a;
    limits.max_step_tokens = CONTEXT;
    stage_init(&t, &limits);
    draft_admit(&t, 1, 5, 5, 1);
    t.d.ids[4] = VOCAB;
    EXPECT_EQ(fate_of(&t, 5), ROW_FAILED);
    draft_admit(&t, 1, 5, 5, 1);
    t.d.ids[0] = VOCAB - 1;
    EXPECT_EQ(fate_of(&t, 5), ROW_RUNS);
    draft_admit(&t, 1, CONTEXT, 5, 3);
    EXPECT_EQ(fate_of(&t, CONTEXT), ROW_FAILED);
    draft_admit(&t, 1, CONTEXT - 1, 5, 3);
    EXPECT_EQ(fate_of(&t, CONTEXT - 1), ROW_RUNS);
    draft_admit(&t, 1, 5, 5, 1)->max_total = CONTEXT + 1;
    EXPECT_EQ(fate_of(&t, 5), ROW_FAILED);
    draft_admit(&t, 1, 5, 5, 1)->max_total = 5;
    EXPECT_EQ(fate_of(&t, 5), ROW_FAILED);
    draft_admit(&t, 1, 5, 5, 1)->max_total = 6;
    EXPECT_EQ(fate_of(&t, 5), ROW_RUNS);
    draft_admit(&t, 1, 5, 5, 1)->computed_count = 5;
    EXPECT_EQ(fate_of(&t, 1), ROW_FAILED);
    draft_admit(&t, 1, 5, 5, 1)->computed_count = 4;
    EXPECT_EQ(fate_of(&t, 1), ROW_RUNS);
    draft_admit(&t, 1, 20, 5, 1)->computed_count = BLOCK + 1;
    EXPECT_EQ(fate_of(&t, 1), ROW_FAILED);
    draft_admit(&t, 1, 5, 5, 1)->adapter_slot = 1;
    EXPECT_EQ(fate_of(&t, 5), ROW_FAILED);
    draft_admit(&t, 1, 5, 5, 1)->media_count = 1;
    EXPECT_EQ(fate_of(&t, 5), ROW_FAILED);
    draft_admit(&t, 1, 5, 5, 1)->kind = WIRE_EMBED; /* this worker makes no vectors */
    EXPECT_EQ(fate_of(&t, 5), ROW_FAILED);
    a = draft_admit(&t, 1, 5, 5, 1);
    a->kind = 0;
    EXPECT_EQ(fate_of(&t, 5), ROW_RUNS);
    stage_release(&t);
}

TEST(prompts_that_become_vectors_are_whole) {
    static const struct {
        enum wire_pooling pooling;
        bool scores;
        enum wire_request_kind kind;
        uint32_t tokens, prompt, computed;
        enum row_fate fate;
    } ROWS[] = {{WIRE_POOLING_LAST, false, WIRE_EMBED, 5, 5, 0, ROW_RUNS},
                {WIRE_POOLING_LAST, false, WIRE_EMBED, 5, 5, 4, ROW_RUNS},
                {WIRE_POOLING_LAST, false, WIRE_EMBED, 5, 4, 0, ROW_FAILED},
                {WIRE_POOLING_LAST, false, WIRE_EMBED, 5, 6, 0, ROW_FAILED},
                {WIRE_POOLING_LAST, false, WIRE_SCORE, 5, 5, 0, ROW_FAILED},
                {WIRE_POOLING_LAST, true, WIRE_SCORE, 5, 5, 0, ROW_RUNS},
                {WIRE_POOLING_LAST, true, WIRE_EMBED, 5, 5, 0, ROW_FAILED},
                {WIRE_POOLING_MEAN, false, WIRE_EMBED, 5, 5, 0, ROW_RUNS},
                {WIRE_POOLING_MEAN, false, WIRE_EMBED, 5, 5, 1, ROW_FAILED},
                {WIRE_POOLING_CLS, false, WIRE_EMBED, 5, 5, 1, ROW_FAILED},
                {WIRE_POOLING_LAST, false, WIRE_EMBED, CONTEXT, CONTEXT, 0, ROW_RUNS},
                {WIRE_POOLING_LAST, false, WIRE_EMBED, CONTEXT + 1, CONTEXT + 1, 0, ROW_FAILED},
                {WIRE_POOLING_LAST, false, WIRE_GENERATE, 5, 5, 0, ROW_RUNS}};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct mirror_limits limits = LIMITS;
        struct stage t;
        limits.max_step_tokens = 2 * CONTEXT;
        limits.vectors =
            (struct wire_vectors){.pooling = ROWS[i].pooling, .scores = ROWS[i].scores};
        stage_init(&t, &limits);
        struct wire_admit *a = draft_admit(&t, 1, ROWS[i].tokens, ROWS[i].prompt, 3);
        a->kind = ROWS[i].kind;
        a->computed_count = ROWS[i].computed;
        if (fate_of(&t, ROWS[i].tokens - ROWS[i].computed) != ROWS[i].fate)
            check_fail(__FILE__, __LINE__, "row %zu", i);
        stage_release(&t);
    }
}

TEST(a_worker_of_vectors_alone_makes_no_tokens) {
    struct mirror_limits limits = LIMITS;
    struct stage t;
    limits.vectors = (struct wire_vectors){.pooling = WIRE_POOLING_LAST, .only = true};
    stage_init(&t, &limits);
    draft_admit(&t, 1, 5, 5, 1);
    EXPECT_EQ(fate_of(&t, 5), ROW_FAILED);
    draft_admit(&t, 1, 5, 5, 1)->kind = WIRE_EMBED;
    EXPECT_EQ(fate_of(&t, 5), ROW_RUNS);
    stage_release(&t);
}

/* Where positions see those behind them a prompt is computed in one piece, from its beginning. */
TEST(prompts_that_may_not_be_cut_are_not) {
    struct mirror_limits limits = LIMITS;
    struct stage t;
    limits.vectors = (struct wire_vectors){.pooling = WIRE_POOLING_LAST, .whole_prompts = true};
    stage_init(&t, &limits);
    draft_admit(&t, 1, 5, 5, 1)->kind = WIRE_EMBED;
    EXPECT_EQ(fate_of(&t, 4), ROW_FAILED);
    draft_admit(&t, 1, 5, 5, 1)->kind = WIRE_EMBED;
    t.d.admit.computed_count = 1;
    EXPECT_EQ(fate_of(&t, 4), ROW_FAILED);
    draft_admit(&t, 1, 5, 5, 1)->kind = WIRE_EMBED;
    EXPECT_EQ(fate_of(&t, 5), ROW_RUNS);
    stage_release(&t);
}

/* Rows of a sequence of 7 tokens, 5 of which are its prompt: position, and what is asked of them. */
TEST(rows_go_on_where_the_last_one_ended) {
    struct stage t;
    stage_init(&t, &LIMITS);
    draft_admit(&t, 2, 7, 5, 1);
    draft_row(&t, 2, 4);
    EXPECT(apply(&t));
    EXPECT(t.rows[0].slot == 2 && t.rows[0].position == 0 && t.rows[0].token_count == 4);
    EXPECT(t.rows[0].prompt_rows == 4 && !t.rows[0].samples && t.rows[0].admission == 1);
    draft_row(&t, 2, 2);
    EXPECT(apply(&t));
    EXPECT(t.rows[0].position == 4 && t.rows[0].prompt_rows == 1 && !t.rows[0].samples);
    draft_row(&t, 2, 2);
    EXPECT(refused(&t, "slot 2: 8 positions to compute, 7 known"));
    draft_row(&t, 2, 1);
    EXPECT(apply(&t));
    EXPECT(t.rows[0].position == 6 && t.rows[0].prompt_rows == 0 && t.rows[0].samples);
    EXPECT(!t.rows[0].pools && !t.rows[0].embeds);
    draft_row(&t, 2, 1); /* on the token that the row before samples */
    EXPECT(apply(&t));
    EXPECT(t.rows[0].position == 7 && t.rows[0].prompt_rows == 0 && t.rows[0].samples);
    draft_row(&t, 2, 0);
    EXPECT(apply(&t));
    EXPECT(t.rows[0].fate == ROW_WASTED && t.rows[0].position == 8);
    stage_release(&t);
}

TEST(a_prompt_that_becomes_a_vector_ends_with_it) {
    struct mirror_limits limits = LIMITS;
    struct stage t;
    limits.vectors.pooling = WIRE_POOLING_MEAN;
    stage_init(&t, &limits);
    draft_admit(&t, 0, 6, 6, 1)->kind = WIRE_EMBED;
    draft_row(&t, 0, 5);
    EXPECT(apply(&t));
    EXPECT(t.rows[0].pools && !t.rows[0].embeds && !t.rows[0].samples);
    draft_row(&t, 0, 1);
    EXPECT(apply(&t));
    EXPECT(t.rows[0].pools && t.rows[0].embeds && !t.rows[0].samples);
    draft_row(&t, 0, 1);
    EXPECT(apply(&t));
    EXPECT_EQ(t.rows[0].fate, ROW_WASTED);
    stage_release(&t);
}

/* Blocks of so many positions carry a row to their last one. */
TEST(a_row_needs_blocks_to_its_end) {
    struct stage t;
    stage_init(&t, &LIMITS);
    draft_admit(&t, 0, 20, 20, 1);
    draft_row(&t, 0, BLOCK);
    EXPECT(apply(&t));
    EXPECT_EQ(t.rows[0].fate, ROW_RUNS);
    draft_row(&t, 0, 1);
    EXPECT(apply(&t));
    EXPECT_EQ(t.rows[0].fate, ROW_FAILED);
    draft_row(&t, 0, 1);
    draft_block(&t, 0, 5);
    EXPECT(apply(&t));
    EXPECT_EQ(t.rows[0].fate, ROW_WASTED); /* it has ended, whatever comes */
    stage_release(&t);
}

TEST(new_blocks_are_behind_those_of_their_slot) {
    struct stage t;
    stage_init(&t, &LIMITS);
    draft_admit(&t, 0, 20, 20, 1);
    draft_row(&t, 0, 4);
    EXPECT(apply(&t));
    draft_admit(&t, 3, 4, 4, 0);
    draft_row(&t, 3, 1);
    draft_row(&t, 0, 1);
    draft_block(&t, 1, 6);
    draft_block(&t, 0, 7);
    draft_block(&t, 1, 8);
    EXPECT(apply(&t));
    EXPECT(t.added_at[0] == 1 && t.added_at[1] == 0 && t.added_at[2] == 2);
    EXPECT(t.mirror.slots[0].block_count == 3 && t.mirror.slots[3].block_count == 1);
    draft_row(&t, 0, 1); /* it has three */
    draft_block(&t, 0, 5);
    EXPECT(refused(&t, "past what a slot holds"));
    draft_row(&t, 2, 1);
    draft_block(&t, 0, 5);
    EXPECT(refused(&t, "a new block for an empty slot"));
    draft_row(&t, 3, 1);
    draft_block(&t, 0, BLOCKS);
    EXPECT(refused(&t, "a block id past the cache"));
    draft_row(&t, 3, 1);
    draft_block(&t, 0, 5);
    t.d.new_group = 1;
    t.d.plan.new_block_groups = (struct u32s){&t.d.new_group, 1};
    EXPECT(refused(&t, "a block of a group this model does not have"));
    stage_release(&t);
}

/* What runs counts, to the last token of a step; what fails does not. */
TEST(a_step_holds_so_many_tokens) {
    for (uint32_t over = 0; over < 3; over++) {
        struct stage t;
        stage_init(&t, &LIMITS);
        draft_admit(&t, 0, 20, 20, 2);
        EXPECT(apply(&t));
        draft_admit(&t, 1, 20, 20, over == 2 ? 0 : 2);
        draft_row(&t, 0, 14);
        draft_row(&t, 1, STEP - 14 + over);
        if (over == 1)
            EXPECT(refused(&t, "a step of 25 tokens, more than 24"));
        else
            EXPECT(apply(&t));
        stage_release(&t);
    }
}

/* Slot 0 has a prompt of so many tokens and one of output, with blocks for 32. */
static void begin_output(struct stage *t, uint32_t prompt) {
    draft_admit(t, 0, prompt, prompt, 2);
    draft_row(t, 0, prompt);
    CHECK(apply(t));
}

TEST(guesses_are_computed_behind_the_last_token) {
    struct stage t;
    stage_init(&t, &LIMITS);
    begin_output(&t, 6);
    draft_row(&t, 0, 1);
    draft_guesses(&t, 3, VOCAB - 1);
    EXPECT(apply(&t));
    EXPECT(t.rows[0].position == 6 && t.rows[0].token_count == 1 && t.rows[0].draft_count == 3);
    EXPECT(t.rows[0].samples && t.rows[0].prompt_rows == 0);
    draft_row(&t, 0, 1);
    EXPECT(refused(&t, "a row on slot 0 behind drafts in flight"));
    mirror_accept_drafts(&t.mirror, 0, 2, 3); /* of another admission */
    draft_row(&t, 0, 1);
    EXPECT(refused(&t, "behind drafts in flight"));
    mirror_accept_drafts(&t.mirror, 0, 1, 2);
    draft_row(&t, 0, 1);
    EXPECT(apply(&t));
    EXPECT(t.rows[0].position == 9 && t.rows[0].draft_count == 0);
    draft_row(&t, 0, 2);
    EXPECT(refused(&t, "12 positions to compute, 11 known"));
    stage_release(&t);
}

TEST(guesses_have_their_bounds) {
    struct mirror_limits none = LIMITS, one_block = LIMITS;
    struct stage t;
    stage_init(&t, &LIMITS);
    begin_output(&t, 6);
    draft_row(&t, 0, 1);
    draft_guesses(&t, 6, 1);
    EXPECT(refused(&t, "6 drafts in a plan, not 5 at the most"));
    draft_row(&t, 0, 1);
    draft_guesses(&t, 1, VOCAB);
    EXPECT(refused(&t, "a draft past the vocabulary"));
    draft_row(&t, 0, 1);
    draft_guesses(&t, 5, 1);
    EXPECT(apply(&t));
    stage_release(&t);
    none.draft_max = 0;
    stage_init(&t, &none);
    begin_output(&t, 6);
    draft_row(&t, 0, 1);
    draft_guesses(&t, 1, 1);
    EXPECT(refused(&t, "1 drafts in a plan, not 0"));
    stage_release(&t);
    for (uint32_t over = 0; over < 2; over++) { /* the last of 33 positions is a token's */
        one_block.max_step_tokens = 2 * STEP;
        stage_init(&t, &one_block);
        begin_output(&t, 27);
        draft_block(&t, 0, 7);
        draft_row(&t, 0, 1);
        draft_guesses(&t, 4 + over, 1);
        if (over)
            EXPECT(refused(&t, "slot 0: 5 drafts where none may be"));
        else
            EXPECT(apply(&t) && t.rows[0].fate == ROW_RUNS);
        stage_release(&t);
    }
}

/* They count in a step, and in the blocks that a row needs. */
TEST(guesses_take_room) {
    for (uint32_t over = 0; over < 2; over++) {
        struct stage t;
        stage_init(&t, &LIMITS);
        begin_output(&t, 6);
        draft_admit(&t, 1, 20, 20, 2);
        draft_row(&t, 1, STEP - 4);
        draft_row(&t, 0, 1);
        draft_guesses(&t, 3 + over, 1);
        if (over)
            EXPECT(refused(&t, "a step of 25 tokens, more than 24"));
        else
            EXPECT(apply(&t));
        stage_release(&t);
        stage_init(&t, &LIMITS);
        draft_admit(&t, 0, 12, 12, 1);
        draft_row(&t, 0, 12);
        EXPECT(apply(&t));
        draft_row(&t, 0, 1);
        draft_guesses(&t, 3 + over, 1);
        EXPECT(apply(&t));
        EXPECT_EQ(t.rows[0].fate, over ? ROW_FAILED : ROW_RUNS);
        stage_release(&t);
    }
}

/* Behind a prompt, behind more than one token, of a constrained sequence. */
TEST(no_guesses_where_none_may_be) {
    static const uint32_t WORDS[] = {1, 5};
    for (int what = 0; what < 6; what++) {
        struct stage t;
        stage_init(&t, &LIMITS);
        struct wire_admit *a = draft_admit(&t, 0, 8, what == 0 ? 8 : 6, 1);
        if (what == 3)
            a->grammar = (struct u128){1, 1};
        if (what == 4)
            a->sampling.allowed = bytes_str("x");
        if (what == 5)
            a->sampling.bad_words = (struct u32s){WORDS, 2};
        draft_row(&t, 0, what == 1 ? 6 : 7);
        EXPECT(apply(&t));
        draft_row(&t, 0, what == 1 ? 2 : 1);
        draft_guesses(&t, 2, 1);
        if (what == 2)
            EXPECT(apply(&t));
        else
            EXPECT(refused(&t, "slot 0: 2 drafts where none may be"));
        stage_release(&t);
    }
}

static uint32_t held_count(struct stage *t) {
    struct u32s blocks;
    struct u128s hashes;
    mirror_held(&t->mirror, &blocks, &hashes);
    for (size_t i = 0; i < blocks.count; i++)
        CHECK(hashes.items[i].lo == 100 + blocks.items[i]);
    return blocks.count == hashes.count ? (uint32_t)blocks.count : UINT32_MAX;
}

static void seal(struct stage *t, uint32_t id) {
    draft_seal(t, id, 100 + id);
    CHECK(apply(t));
}

static bool is_held(struct stage *t, uint32_t id) {
    struct u32s blocks;
    struct u128s hashes;
    bool found = false;
    mirror_held(&t->mirror, &blocks, &hashes);
    for (size_t i = 0; i < blocks.count; i++)
        found = found || blocks.items[i] == id;
    return found;
}

TEST(a_sealed_block_is_held_until_it_is_written) {
    struct stage t;
    stage_init(&t, &LIMITS);
    for (uint32_t id = 0; id < BLOCKS; id++)
        seal(&t, id);
    EXPECT_EQ(held_count(&t), BLOCKS);
    /* an admission writes from its first position that is not computed on: of 17 in the second block */
    draft_admit(&t, 0, 20, 20, 3)->computed_count = BLOCK + 1;
    EXPECT(apply(&t));
    EXPECT(is_held(&t, 0) && !is_held(&t, 1) && !is_held(&t, 2) && is_held(&t, 3));
    draft_row(&t, 0, 1);
    draft_admit(&t, 1, 5, 5, 0);
    draft_row(&t, 1, 1);
    draft_block(&t, 1, 4);
    EXPECT(apply(&t));
    EXPECT(!is_held(&t, 4) && is_held(&t, 5));
    draft_op(&t, WIRE_OP_COPY, 6, 5);
    EXPECT(apply(&t));
    EXPECT(!is_held(&t, 5) && is_held(&t, 6));
    draft_op(&t, WIRE_OP_SNAPSHOT, 0, 0); /* its target is no block */
    EXPECT(apply(&t));
    draft_op(&t, WIRE_OP_RESTORE, 0, 3);
    EXPECT(apply(&t));
    EXPECT(is_held(&t, 0) && is_held(&t, 3));
    draft_seal(&t, 7, 107); /* what earlier steps sealed, and this one hands out */
    draft_op(&t, WIRE_OP_COPY, 6, 7);
    EXPECT(apply(&t));
    EXPECT(!is_held(&t, 7));
    uint32_t held = held_count(&t);
    mirror_reset(&t.mirror);
    EXPECT_EQ(held_count(&t), held);
    EXPECT(!t.mirror.slots[0].admission && t.mirror.last_plan == 0);
    stage_release(&t);
}

TEST(an_end_is_of_its_own_admission) {
    struct stage t;
    stage_init(&t, &LIMITS);
    draft_admit(&t, 1, 5, 5, 1);
    draft_row(&t, 1, 5);
    EXPECT(apply(&t));
    uint64_t first = t.rows[0].admission;
    draft_release(&t, 1);
    draft_admit(&t, 1, 5, 5, 1);
    draft_row(&t, 1, 5);
    EXPECT(apply(&t)); /* released and admitted in one plan */
    EXPECT(t.rows[0].admission != first && t.rows[0].position == 0);
    mirror_ended(&t.mirror, 1, first);
    draft_row(&t, 1, 1);
    EXPECT(apply(&t));
    EXPECT_EQ(t.rows[0].fate, ROW_RUNS);
    mirror_ended(&t.mirror, 1, t.rows[0].admission);
    draft_row(&t, 1, 1);
    EXPECT(apply(&t));
    EXPECT_EQ(t.rows[0].fate, ROW_WASTED);
    stage_release(&t);
}
