/* What each tenant has of a replica's blocks, whose share that is more than, and who gives way: in numbers. */
#include "scheduler/core/block_share.h"

#include "check.h"
#include "scheduler/core/core.h"
#include "scheduler/core/models.h"
#include "scheduler/core/request.h"

enum { MOST = 8, BLOCKS = 30 };

/* A replica with 30 blocks in one group and 31 in the other, and sequences of up to four tenants. */
static struct tenant tenants[4];
static struct request requests[MOST];
static struct sequence sequences[MOST], *running[MOST];
static struct replica r;

static void begin(void) {
    memset(tenants, 0, sizeof tenants);
    r = (struct replica){.running = running, .group_count = 2};
    r.pools[0].block_count = BLOCKS;
    r.pools[1].block_count = BLOCKS + 1;
    for (size_t i = 0; i < ARRAY_LEN(tenants); i++)
        tenants[i].block_count = tenants[i].block_rows = 99; /* of another count */
}

/* One more in a slot, with so many blocks of each group. */
static struct sequence *add(uint32_t tenant, uint32_t blocks) {
    uint32_t i = r.running_count++;
    requests[i] = (struct request){.tenant = &tenants[tenant], .arrival = 10 + i};
    sequences[i] = (struct sequence){.request = &requests[i], .state = SEQ_RUNNING};
    sequences[i].tables[0].count = sequences[i].tables[1].count = blocks;
    return running[i] = &sequences[i];
}

static bool has(uint32_t tenant, uint32_t blocks, uint32_t rows) {
    return tenants[tenant].block_count == blocks && tenants[tenant].block_rows == rows;
}

TEST(blocks_are_shared_by_tenants_with_sequences_that_stay) {
    begin();
    add(0, 10);
    add(1, 4);
    add(0, 6);
    struct block_share share = block_share_count(&r, 0, NULL);
    EXPECT(share.blocks == 15 && share.coming == 0);
    EXPECT(has(0, 16, 2) && has(1, 4, 1));
    add(1, 3)->state = SEQ_ENDING;
    add(2, 2)->state = SEQ_PREEMPTED;
    add(3, 5)->request->priority = WIRE_PRIORITY_PROBE;
    share = block_share_count(&r, 0, NULL);
    EXPECT(share.blocks == 15 && share.coming == 5);
    EXPECT(has(0, 16, 2) && has(1, 4, 1) && has(2, 0, 0) && has(3, 0, 0));
    EXPECT_EQ(block_share_count(&r, 1, NULL).blocks, 15);
}

TEST(blocks_of_nobody_are_one_share) {
    begin();
    EXPECT_EQ(block_share_count(&r, 0, NULL).blocks, BLOCKS);
    add(0, 10)->state = SEQ_RESTARTING;
    struct block_share share = block_share_count(&r, 0, NULL);
    EXPECT(share.blocks == BLOCKS && share.coming == 10 && has(0, 0, 0));
}

TEST(a_tenant_that_waits_shares_too_once) {
    begin();
    add(0, 10);
    add(1, 4);
    EXPECT_EQ(block_share_count(&r, 0, &tenants[2]).blocks, 10);
    EXPECT(has(2, 0, 0) && has(0, 10, 1) && has(1, 4, 1));
    EXPECT_EQ(block_share_count(&r, 0, &tenants[1]).blocks, 15);
    EXPECT(has(1, 4, 1));
}

/* What another used already when it came is not its own; nor is what lies behind a window. */
TEST(blocks_are_of_who_took_them) {
    begin();
    struct sequence *q = add(0, 10);
    q->shared_count = 3;
    (void)block_share_count(&r, 0, NULL);
    EXPECT(has(0, 7, 1));
    (void)block_share_count(&r, 1, NULL);
    EXPECT(has(0, 10, 1));
    q->tables[0].first = q->tables[1].first = 4;
    (void)block_share_count(&r, 0, NULL);
    EXPECT(has(0, 6, 1));
    (void)block_share_count(&r, 1, NULL);
    EXPECT(has(0, 6, 1));
}

TEST(a_tenant_is_over_its_share_with_more_than_it_and_two_sequences) {
    static const struct {
        uint32_t count, rows;
        bool over;
    } ROWS[] = {{16, 2, true}, {15, 2, false}, {14, 2, false}, {16, 1, false}, {16, 0, false}};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct tenant t = {.block_count = ROWS[i].count, .block_rows = ROWS[i].rows};
        EXPECT_EQ(block_share_is_over(&t, 15), ROWS[i].over);
    }
}

TEST(the_tenant_with_most_gives_by_its_least_important_then_its_latest) {
    begin();
    add(1, 8);
    struct sequence *middle = add(0, 6), *latest = add(0, 7);
    add(1, 3);
    struct block_share share = block_share_count(&r, 0, &tenants[2]); /* ten each: 11 and 13 */
    EXPECT(share.blocks == 10 && block_share_giver(&r, share) == &tenants[0]);
    EXPECT(block_share_victim(&r, share) == latest);
    middle->request->priority = 1;
    EXPECT(block_share_victim(&r, share) == middle);
    middle->state = SEQ_PREEMPTED;
    EXPECT(block_share_victim(&r, share) == latest);
    middle->state = SEQ_RUNNING;
    middle->request->priority = WIRE_PRIORITY_PROBE;
    EXPECT(block_share_victim(&r, share) == latest);
    share.blocks = 12;
    EXPECT(block_share_giver(&r, share) == &tenants[0]);
    share.blocks = 13;
    EXPECT(!block_share_giver(&r, share) && !block_share_victim(&r, share));
}

/* Whose client does not read gives way first, of any tenant, the latest of them; where nobody has too much,
 * none has to. */
TEST(what_is_paused_gives_way_first) {
    begin();
    add(0, 10);
    add(0, 10);
    struct sequence *paused[3] = {add(1, 1), add(2, 1), add(2, 1)};
    for (int i = 0; i < 3; i++)
        paused[i]->request->paused = true;
    struct block_share share = block_share_count(&r, 0, NULL);
    EXPECT(block_share_victim(&r, share) == paused[2]);
    paused[1]->request->arrival = 50;
    EXPECT(block_share_victim(&r, share) == paused[1]);
    paused[1]->state = SEQ_ENDING;
    EXPECT(block_share_victim(&r, share) == paused[2]);
    paused[2]->state = SEQ_ENDING;
    EXPECT(block_share_victim(&r, share) == paused[0]);
    share.blocks = 20;
    EXPECT(!block_share_victim(&r, share));
}
