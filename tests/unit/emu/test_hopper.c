/* Mbarriers, bulk copies and products of a warpgroup as the emulator has them: right when they are
 * waited for, and each thing that would be a bug on a GPU is noticed. Watched (test_race_hopper),
 * the missing orders are races by name. */
#include "rig.h"

void run_hopper_fault(struct stream *s, int which, float *out, const uint16_t *tiles);
void run_cluster_fault(struct stream *s, int which, float *out);
bool emu_is_watched(void);
void emu_set_device(int arch, int compiled);

/* as faults_hopper.cu counts them */
enum fault {
    RIGHT,
    NO_WAIT_FOR_COPY,
    NO_WAIT_FOR_PRODUCT,
    NO_PRODUCT_FENCE,
    ENDS_WITH_PRODUCT,
    OVERWRITES_OPERAND,
    COPY_OUTSIDE,
    COPY_UNALIGNED,
    COPY_NEVER_AWAITED,
    WAITS_AT_NO_MBARRIER,
    WAITS_FOREVER,
    TILE_UNALIGNED,
    STORES_WITHOUT_FENCE,
    FROM_REGISTERS,
    ACROSS,
    MBARRIER_UNSEEN,
    SHARED, /* those of clusters */
    NO_WAIT_FOR_PEER,
    LEAVES_ITS_PEER,
    GIVES_TO_ITSELF
};
enum { SUMS = 64 * 8, TILE_VALUES = (8192 + 1024) / 2 };

/* false: the device failed. */
static bool run(enum fault which, int order, float out[SUMS]) {
    struct rig r = rig_open(STORAGE_F32);
    uint16_t tiles[TILE_VALUES];
    for (int i = 0; i < TILE_VALUES; i++)
        tiles[i] = 0x3f80;
    emu_set_order(order, 3);
    float *device = rig_alloc(&r, SUMS * sizeof *out);
    if (which >= SHARED)
        run_cluster_fault(r.stream, which - SHARED, device);
    else
        run_hopper_fault(r.stream, which, device, rig_up(&r, tiles, sizeof tiles));
    stream_copy_out(r.stream, out, device, SUMS * sizeof *out);
    event_record(r.event, r.stream);
    bool ran = event_wait(r.event) == 0;
    if (!ran)
        emu_recover();
    for (int i = 0; i < r.owned_count; i++)
        device_free(r.dev, r.owned[i]);
    event_free(&r.event);
    stream_free(&r.stream);
    stream_free(&r.ref_stream);
    device_close(&r.dev);
    device_close(&r.ref);
    emu_set_order(0, 1);
    return ran;
}

static bool all_are(const float *x, float wanted) {
    for (int i = 0; i < SUMS; i++)
        if (x[i] != wanted)
            return false;
    return true;
}

static bool fails_naming(enum fault which, int order, const char *words) {
    float out[SUMS];
    fprintf(stderr, "(expected:) ");
    if (!run(which, order, out) && strstr(emu_failure(), words))
        return true;
    fprintf(stderr, "fault %d: %s\n", (int)which, emu_failure());
    return false;
}

TEST(a_product_of_a_warpgroup_sums_what_bulk_copies_brought) {
    float out[SUMS];
    for (int order = 0; order < ORDERS; order++) {
        EXPECT(run(RIGHT, order, out) && all_are(out, 64));
        EXPECT(run(FROM_REGISTERS, order, out) && all_are(out, 64));
        /* row r has k = r % 16 of b[k, n] = k + n, columns 0, 16, 32, ... */
        EXPECT(run(ACROSS, order, out));
        for (int i = 0; i < SUMS; i++)
            EXPECT_EQ((int)out[i], i / 8 % 16 + i % 8 * 16);
    }
}

TEST(what_was_not_waited_for_is_poison_or_a_race) {
    float out[SUMS];
    if (emu_is_watched())
        EXPECT(fails_naming(NO_WAIT_FOR_COPY, 0, "a race in shared memory"));
    else
        EXPECT(run(NO_WAIT_FOR_COPY, 0, out) && isnan(out[0]));
    for (int order = 0; order < ORDERS; order++)
        EXPECT(run(NO_WAIT_FOR_PRODUCT, order, out) && isnan(out[0]) && isnan(out[SUMS - 1]));
    if (emu_is_watched()) {
        EXPECT(fails_naming(OVERWRITES_OPERAND, 0, "a race in shared memory"));
        EXPECT(fails_naming(STORES_WITHOUT_FENCE, 0, "fence.proxy.async"));
        EXPECT(fails_naming(MBARRIER_UNSEEN, 0, "a race in shared memory") ||
               strstr(emu_failure(), "is no mbarrier"));
    }
}

TEST(blocks_of_a_cluster_give_each_other_what_they_have) {
    float out[SUMS];
    for (int order = 0; order < ORDERS; order++) {
        EXPECT(run(SHARED, order, out));
        for (int i = 0; i < 128; i++)
            EXPECT_EQ((int)out[i], i % 64);
    }
    EXPECT(run(NO_WAIT_FOR_PEER, 0, out) && isnan(out[32]) && isnan(out[64]) && out[0] == 0);
    EXPECT(fails_naming(LEAVES_ITS_PEER, 0, "has ended"));
    EXPECT(fails_naming(GIVES_TO_ITSELF, 0, "to the block itself"));
}

TEST(misuse_is_named) {
    EXPECT(fails_naming(NO_PRODUCT_FENCE, 0, "no wgmma.fence"));
    EXPECT(fails_naming(ENDS_WITH_PRODUCT, 0, "wgmma that it never waited for"));
    EXPECT(fails_naming(COPY_OUTSIDE, 0, "not all of them device memory"));
    EXPECT(fails_naming(COPY_UNALIGNED, 0, "not aligned"));
    EXPECT(fails_naming(COPY_NEVER_AWAITED, 0, "bulk copies on their way"));
    EXPECT(fails_naming(WAITS_AT_NO_MBARRIER, 0, "is no mbarrier"));
    EXPECT(fails_naming(WAITS_FOREVER, 0, "an mbarrier"));
    EXPECT(fails_naming(TILE_UNALIGNED, 0, "multiple of 1024"));
}

/* wgmma and its like are sm_90a's: newer GPUs do not have them either. */
TEST(code_for_hopper_runs_nowhere_else) {
    static const int DEVICES[][2] = {{80, 80},   {89, 89},   {90, 80},
                                     {100, 100}, {120, 120}, {120, 80}};
    for (size_t i = 0; i < ARRAY_LEN(DEVICES); i++) {
        emu_set_device(DEVICES[i][0], DEVICES[i][1]);
        EXPECT(fails_naming(RIGHT, 0, "code of sm_90a"));
    }
    emu_set_device(90, 90);
}
