/* A round over many generations: a bounded part in each turn, and each of them once. */
#include "check.h"
#include "gateway/generation/generation.h"

enum { MANY = 1000 };

static struct generation_list list;
static struct generation many[MANY];
static uint32_t visits[MANY];
static uint32_t visit_count;

static void visit(struct generation *gen) {
    visits[gen - many]++;
    visit_count++;
}

/* Ends every third, itself. */
static void visit_and_end(struct generation *gen) {
    visit(gen);
    if ((gen - many) % 3 == 0)
        generation_list_remove(&list, gen);
}

/* Ends its neighbours: one was visited before, the other is the next. */
static void visit_and_end_others(struct generation *gen) {
    struct generation *before = gen->prev, *after = gen->next;
    visit(gen);
    if (before)
        generation_list_remove(&list, before);
    if (after)
        generation_list_remove(&list, after);
}

static void fill(void) {
    list = (struct generation_list){0};
    memset(many, 0, sizeof many);
    memset(visits, 0, sizeof visits);
    visit_count = 0;
    for (uint32_t i = 0; i < MANY; i++)
        generation_list_add(&list, &many[i]);
}

/* The turns that a round takes; 0: one of them had more visits than it may. */
static uint32_t round_of(size_t most, generation_visit *look) {
    generation_list_begin(&list);
    for (uint32_t turns = 1;; turns++) {
        uint32_t before = visit_count;
        bool more = generation_list_go_on(&list, most, look);
        if (visit_count - before > most)
            return 0;
        if (!more)
            return turns;
    }
}

static bool each_was_visited(uint32_t times) {
    for (uint32_t i = 0; i < MANY; i++)
        if (visits[i] != times)
            return false;
    return true;
}

TEST(a_round_visits_each_once_and_a_part_in_each_turn) {
    static const size_t MOST[] = {1, 7, 256, MANY - 1, MANY, MANY + 1};
    for (size_t i = 0; i < ARRAY_LEN(MOST); i++) {
        fill();
        EXPECT_EQ(round_of(MOST[i], visit), (MANY + MOST[i] - 1) / MOST[i]);
        EXPECT(each_was_visited(1));
        EXPECT_EQ(round_of(MOST[i], visit), (MANY + MOST[i] - 1) / MOST[i]);
        EXPECT(each_was_visited(2));
    }
    list = (struct generation_list){0};
    EXPECT_EQ(round_of(256, visit), 1);
}

TEST(a_round_goes_on_whatever_ends) {
    fill();
    EXPECT(round_of(256, visit_and_end) > 0);
    EXPECT(each_was_visited(1));
    EXPECT(round_of(256, visit) > 0);
    for (uint32_t i = 0; i < MANY; i++)
        EXPECT_EQ(visits[i], i % 3 ? 2 : 1);
    fill();
    EXPECT(round_of(7, visit_and_end_others) > 0);
    EXPECT_EQ(visit_count, MANY / 2);
    EXPECT(list.first && !list.first->next && visits[list.first - many] == 1);
}

/* What ends between two turns, and what comes: the next one to be visited, and the first. */
TEST(a_round_leaves_what_comes_to_the_next) {
    fill();
    generation_list_remove(&list, &many[0]);
    generation_list_begin(&list);
    EXPECT(generation_list_go_on(&list, 256, visit));
    generation_list_remove(&list, list.next);
    generation_list_add(&list, &many[0]);
    generation_list_begin(&list); /* nothing: one is under way */
    while (generation_list_go_on(&list, 256, visit))
        continue;
    EXPECT_EQ(visit_count, MANY - 2);
    EXPECT_EQ(visits[0], 0);
    round_of(256, visit);
    EXPECT_EQ(visits[0], 1);
}
