/* Places for open requests, against a slow model of them: who finds one when all are taken. */
#include "gateway/generation/open_places.h"

#include "check.h"

enum { PLACES = 12, HOLDERS = 7 };

static struct u128 id_of(uint32_t holder) {
    return (struct u128){holder, holder % 2};
}

static uint32_t take_many(struct open_places *places, uint32_t holder, uint32_t count) {
    uint32_t taken = 0;
    for (uint32_t i = 0; i < count; i++)
        taken += open_places_take(places, id_of(holder));
    return taken;
}

static void give_many(struct open_places *places, uint32_t holder, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        open_places_give(places, id_of(holder));
}

/* All of them for one alone; half for a second, a third for a third, and nothing more for those who
 * have more than that. What is free is anybody's. */
TEST(open_places_has_a_share_for_each_holder) {
    struct open_places *places = open_places_new(PLACES);
    EXPECT_EQ(take_many(places, 1, PLACES + 5), PLACES);
    EXPECT_EQ(take_many(places, 2, PLACES), PLACES / 2);
    EXPECT_EQ(take_many(places, 3, PLACES), PLACES / 3);
    EXPECT_EQ(take_many(places, 1, 1), 0);
    give_many(places, 1, PLACES);
    EXPECT_EQ(take_many(places, 3, PLACES), PLACES / 2 - PLACES / 3);
    EXPECT_EQ(take_many(places, 2, 1), 0);
    give_many(places, 2, PLACES / 2);
    EXPECT_EQ(take_many(places, 3, PLACES), PLACES / 2);
    give_many(places, 3, PLACES);
    open_places_free(&places);
}

/* What came from another gateway is counted and never refused. */
TEST(open_places_may_be_forced) {
    struct open_places *places = open_places_new(2);
    for (uint32_t i = 0; i < 5; i++)
        open_places_force(places, id_of(1));
    EXPECT_EQ(take_many(places, 1, 1), 0);
    EXPECT_EQ(take_many(places, 2, 2), 1);
    give_many(places, 1, 4);
    EXPECT_EQ(take_many(places, 1, 1), 0);
    give_many(places, 2, 1);
    EXPECT_EQ(take_many(places, 1, 2), 1);
    give_many(places, 1, 2);
    open_places_free(&places);
}

/* Keys are held apart by themselves, clients without one by their address. */
TEST(open_places_are_a_tenants_or_an_addresss) {
    const struct u128 none = {0}, key = {5, 6}, one = {1, 1}, two = {1, 2};
    EXPECT(u128_equal(open_holder(key, one), key) && u128_equal(open_holder(key, two), key));
    EXPECT(u128_equal(open_holder(none, one), one) && u128_equal(open_holder(none, two), two));
}

TEST(open_places_hold_at_random) {
    struct open_places *places = open_places_new(PLACES);
    uint32_t held[HOLDERS] = {0}, sum = 0, refused = 0, beyond = 0;
    for (uint32_t round = 0; round < 20000; round++) {
        uint64_t draw = check_random();
        uint32_t who = (uint32_t)(draw % HOLDERS), sharers = 0;
        if (draw >> 32 & 1) {
            if (held[who]) {
                open_places_give(places, id_of(who));
                held[who]--;
                sum--;
            }
            continue;
        }
        for (uint32_t i = 0; i < HOLDERS; i++)
            sharers += held[i] || i == who;
        bool may = sum < PLACES || held[who] + 1 <= PLACES / sharers;
        EXPECT_EQ(open_places_take(places, id_of(who)), may);
        held[who] += may;
        sum += may;
        refused += !may;
        beyond += sum > PLACES;
        for (uint32_t i = 0; i < HOLDERS && sum > PLACES; i++) {
            uint32_t rank = 0;
            for (uint32_t k = 0; k < HOLDERS; k++)
                rank += held[k] >= held[i];
            EXPECT(held[i] * rank <= PLACES);
        }
    }
    EXPECT(refused > 100 && beyond > 100);
    for (uint32_t i = 0; i < HOLDERS; i++)
        give_many(places, i, held[i]);
    open_places_free(&places);
}
