/* A rogue worker at a live scheduler (rogue/house.h): it registers, follows its plans well enough to
 * answer them rightly, and answers them wrongly, twice, late, in another order, or with messages that
 * it has no business with. */
#include "fuzz.h"

#include "fakes/fake_lm.h"
#include "proto/link.h"
#include "rogue/house.h"
#include "scheduler/process.h"

enum { PLANS = 4, ROWS = 16, SLOTS = 8 };

/* The latest plans it was sent. */
static struct {
    uint64_t number;
    uint32_t incarnation, slots[ROWS];
    bool samples[ROWS];
    size_t rows;
} plans[PLANS];
static size_t plan_count, answered;
static bool lost;                              /* asked to register anew */
static uint32_t known[SLOTS], computed[SLOTS]; /* tokens of each slot */

static bool row_samples(uint32_t slot, uint32_t count) {
    computed[slot % SLOTS] += count;
    if (computed[slot % SLOTS] < known[slot % SLOTS])
        return false;
    known[slot % SLOTS]++;
    return true;
}

static void take_plan(struct house *h, enum wire_kind kind, struct bytes payload) {
    struct wire_plan plan;
    struct arena *arena = &h->rogue.notes;
    arena_reset(arena);
    lost = lost || kind == WIRE_BLOCKS_LOST;
    if (kind != WIRE_PLAN || message_unpack_plan(payload, arena, &plan, NULL) != 0)
        return;
    if (plan.number == 1)
        answered = plan_count;
    __typeof__(&plans[0]) p = &plans[plan_count++ % PLANS];
    p->number = plan.number;
    p->incarnation = plan.incarnation;
    p->rows = MIN(plan.row_slots.count, (size_t)ROWS);
    for (size_t i = 0; i < plan.admit_count; i++) {
        known[plan.admits[i].slot % SLOTS] = (uint32_t)plan.admits[i].tokens.count;
        computed[plan.admits[i].slot % SLOTS] = plan.admits[i].computed_count;
    }
    for (size_t i = 0; i < p->rows; i++) {
        p->slots[i] = plan.row_slots.items[i];
        p->samples[i] = row_samples(p->slots[i], plan.row_token_counts.items[i]);
    }
}

/* The next plan's result, right in form, mostly; then perhaps changed. */
static void answer(struct house *h) {
    static uint32_t counts[ROWS], finishes[ROWS], tokens[ROWS];
    struct rogue *r = &h->rogue;
    uint8_t which = rogue_byte(r);
    __typeof__(&plans[0]) p = &plans[(which < 240 ? answered : which) % PLANS];
    size_t made = 0;
    if (which < 240 && answered < plan_count)
        answered++;
    for (size_t i = 0; i < p->rows; i++) {
        uint8_t how = rogue_byte(r);
        counts[i] = how < 250 ? p->samples[i] : !p->samples[i];
        finishes[i] = how >= 230 && counts[i] ? how % 7 : 0;
        if (counts[i])
            tokens[made++] = how == 229 ? FAKE_WIDTH : how;
    }
    struct wire_step_result result = {.plan_number = p->number,
                                      .incarnation = p->incarnation,
                                      .slots = {p->slots, p->rows},
                                      .token_counts = {counts, p->rows},
                                      .finishes = {finishes, p->rows},
                                      .tokens = {tokens, made}};
    if (which & 1)
        house_say_changed(h, WIRE_STEP_RESULT, &result);
    else
        house_say_packed(h, WIRE_STEP_RESULT, &result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
    static struct house h;
    memset(plans, 0, sizeof plans);
    plan_count = answered = 0;
    lost = false;
    house_open(&h, WIRE_ROLE_WORKER, data, len);
    h.hear = take_plan;
    house_hello(&h);
    while (h.rogue.at < h.rogue.end) {
        uint8_t what = rogue_byte(&h.rogue);
        if (lost)
            house_hello(&h);
        lost = false;
        if (what < 50)
            house_submit(&h);
        else if (what < 56)
            house_hello(&h);
        else if (what < 170)
            answer(&h);
        else if (what < 190)
            house_say_drawn(&h);
        else if (what < 200)
            house_say_again(&h);
        house_run(&h, what < 240 ? what % 8 : what);
    }
    house_close(&h);
    return 0;
}
