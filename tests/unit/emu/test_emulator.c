/* The emulator notices what it is there to notice, and streams, events and copies behave as a GPU's
 * may. */
#include "rig.h"

void run_fault(struct stream *s, int which, float *x, uint32_t count);
int run_graph(struct stream *s, float *x, uint32_t times);
bool spoil_by_waiting(struct stream *s);
void emu_set_device(int arch, int compiled);
void emu_set_fill(int byte);

enum { COUNT = 128 };

/* Runs a kernel of faults.cu in an order; false when the device failed. */
static bool run(int which, int order, float out[COUNT]) {
    struct rig r = rig_open(STORAGE_F32);
    emu_set_order(order, 17);
    float *x = rig_alloc(&r, COUNT * 4);
    run_fault(r.stream, which, x, COUNT);
    stream_copy_out(r.stream, out, x, COUNT * 4);
    event_record(r.event, r.stream);
    int rc = event_wait(r.event), again = event_wait(r.event);
    if ((rc < 0) != (again < 0) || (rc < 0) != (event_done(r.event) < 0))
        check_fail(__FILE__, __LINE__, "a device's failure does not stay");
    if (rc < 0)
        emu_recover();
    for (int i = 0; i < r.owned_count; i++)
        device_free(r.dev, r.owned[i]);
    r.owned_count = 0;
    event_free(&r.event);
    stream_free(&r.stream);
    stream_free(&r.ref_stream);
    device_close(&r.dev);
    device_close(&r.ref);
    emu_set_order(0, 1);
    return rc >= 0;
}

static bool fails_naming(int which, const char *words) {
    float x[COUNT];
    fprintf(stderr, "(expected:) ");
    return !run(which, 0, x) && strstr(emu_failure(), words) && strstr(emu_failure(), "kernel ");
}

static bool orders_differ(int which) {
    float a[COUNT], b[COUNT], c[COUNT];
    return run(which, 0, a) && run(which, 1, b) && run(which, 2, c) &&
           (!same_bits(a, b, COUNT) || !same_bits(a, c, COUNT));
}

TEST(missing_barriers_and_races_change_with_the_order_of_threads) {
    EXPECT(orders_differ(0) && orders_differ(1));
    EXPECT(!orders_differ(20));
}

TEST(a_copy_read_before_its_wait_is_poison) {
    float x[COUNT];
    EXPECT(run(2, 0, x) && isnan(x[0]) && isnan(x[63]));
    EXPECT(run(22, 0, x) && x[0] == 1 && x[63] == 1);
    EXPECT(fails_naming(3, "cp.async"));
    EXPECT(fails_naming(11, "not aligned"));
}

TEST(accesses_outside_are_stopped_with_kernel_block_and_thread) {
    EXPECT(fails_naming(4, "past_the_end"));
    EXPECT(strstr(emu_failure(), "thread (") && strstr(emu_failure(), "past an allocation of 512"));
    EXPECT(fails_naming(5, "before an allocation of 512"));
    EXPECT(fails_naming(6, "past_shared"));
}

TEST(barriers_and_collectives_that_not_all_reach_are_named) {
    EXPECT(fails_naming(7, "a barrier"));
    EXPECT(fails_naming(8, "a barrier"));
    EXPECT(fails_naming(9, "__shfl_xor_sync"));
    EXPECT(fails_naming(10, "meets"));
    EXPECT(fails_naming(13, "bad launch"));
}

TEST(a_dependent_launch_reads_before_its_predecessor_has_run) {
    float x[COUNT];
    EXPECT(run(12, 0, x) && x[0] == 7 && isnan(x[64]));
    EXPECT(run(32, 0, x) && x[64] == 7);
}

/* A kernel that lets its dependents begin before it waits itself: they begin before the kernel ahead
 * of it has run. */
TEST(a_prologue_runs_before_the_kernel_two_ahead_where_the_one_between_lets_it) {
    float x[COUNT];
    EXPECT(run(35, 0, x) && x[0] == 7 && isnan(x[64]));
    EXPECT(run(36, 0, x) && x[64] == 7);
    EXPECT(run(37, 0, x) && x[64] == 7);
}

/* Code of compute_80 on a newer GPU: the wait is nothing there, so launches must not overlap. */
TEST(launches_do_not_overlap_where_the_wait_was_compiled_to_nothing) {
    float x[COUNT];
    emu_set_device(100, 80);
    EXPECT(run(32, 0, x) && isnan(x[64])); /* overlapped, it reads too early */
    EXPECT(run(33, 0, x) && x[64] == 7);
    emu_set_device(90, 90);
    EXPECT(run(33, 0, x) && x[64] == 7);
}

TEST(launches_past_the_limits_of_the_device_are_refused) {
    EXPECT(fails_naming(15, "bad launch") && fails_naming(16, "bad launch"));
    EXPECT(fails_naming(17, "bad launch"));
    float x[COUNT];
    EXPECT(run(18, 0, x)); /* 100 KB of shared memory: sm_90 has them, sm_89 has not */
    emu_set_device(89, 80);
    EXPECT(fails_naming(18, "bad launch"));
    emu_set_device(90, 90);
}

TEST(memory_that_was_freed_is_out_of_reach) {
    struct rig r = rig_open(STORAGE_F32);
    float *x = device_alloc(r.dev, 512);
    device_free(r.dev, x);
    fprintf(stderr, "(expected:) ");
    run_fault(r.stream, 14, x, COUNT);
    event_record(r.event, r.stream);
    EXPECT(event_wait(r.event) < 0 && strstr(emu_failure(), "stale"));
    emu_recover();
    event_free(&r.event);
    stream_free(&r.stream);
    stream_free(&r.ref_stream);
    device_close(&r.dev);
    device_close(&r.ref);
}

TEST(work_runs_when_the_host_waits_and_copies_in_take_the_hosts_bytes_at_once) {
    struct rig r = rig_open(STORAGE_F32);
    float host[COUNT], back[COUNT] = {0}, *x = rig_alloc(&r, sizeof host);
    for (int i = 0; i < COUNT; i++)
        host[i] = (float)i;
    stream_copy_in(r.stream, x, host, sizeof host);
    host[3] = -1;
    stream_copy_out(r.stream, back, x, sizeof back);
    event_record(r.event, r.stream);
    EXPECT(back[5] == 0); /* nothing has run yet */
    EXPECT_EQ(event_done(r.event), 0);
    EXPECT_EQ(event_wait(r.event), 0);
    EXPECT_EQ(event_done(r.event), 1);
    EXPECT(back[3] == 3 && back[5] == 5);
    stream_fill(r.stream, x, 0, 8);
    stream_copy_out(r.stream, back, x, sizeof back);
    EXPECT(rig_wait(&r) && back[0] == 0 && back[1] == 0 && back[2] == 2);
    rig_close(&r);
}

/* More than the pinned ring holds, in pieces that do not divide it, and imports. */
TEST(large_copies_go_through_the_ring_whole) {
    struct rig r = rig_open(STORAGE_F32);
    size_t size = 11 * 1000 * 1000 + 3;
    uint8_t *host = malloc(size), *back = calloc(size, 1);
    for (size_t i = 0; i < size; i++)
        host[i] = (uint8_t)(i * 2654435761u >> 24);
    uint8_t *x = rig_alloc(&r, size);
    for (size_t at = 0; at < size; at += 700001)
        stream_copy_in(r.stream, x + at, host + at, MIN(size - at, 700001u));
    stream_copy_out(r.stream, back, x, size);
    EXPECT(rig_wait(&r) && !memcmp(host, back, size));
    const void *imported = device_import(r.dev, host, size);
    memset(back, 0, size);
    stream_copy_out(r.stream, back, imported, size);
    EXPECT(rig_wait(&r) && !memcmp(host, back, size));
    device_unimport(r.dev, imported);
    free(host);
    free(back);
    rig_close(&r);
}

TEST(running_out_of_memory_is_no_failure) {
    struct rig r = rig_open(STORAGE_F32);
    EXPECT(!device_alloc(r.dev, (size_t)1 << 50));
    EXPECT(rig_wait(&r));
    rig_close(&r);
}

TEST(whole_blocks_are_copied_in_order) {
    struct rig r = rig_open(STORAGE_F32);
    float blocks[4][64], back[4][64];
    for (int i = 0; i < 4 * 64; i++)
        blocks[i / 64][i % 64] = (float)i;
    void *base = rig_up(&r, blocks, sizeof blocks);
    uint32_t from[] = {0, 1, 2}, to[] = {1, 2, 2};
    r.dev->ops->kv_copy(r.stream, &(struct op_kv_copy){base, sizeof blocks[0], from, to, 3});
    memset(from, 9, sizeof from);
    stream_copy_out(r.stream, back, base, sizeof back);
    EXPECT(rig_wait(&r));
    EXPECT(back[1][0] == 0 && back[2][0] == 0 && back[3][0] == 192);
    rig_close(&r);
}

/* The graph is not made, the device goes on; the same launch outside of a graph is its failure. */
TEST(a_launch_that_fails_while_it_is_recorded_spoils_the_graph_alone) {
    struct rig r = rig_open(STORAGE_F32);
    float back[64], *x = rig_alloc(&r, 512);
    EXPECT(graph_begin(r.stream));
    fprintf(stderr, "(expected:) ");
    run_fault(r.stream, 13, x, COUNT);
    run_fault(r.stream, 14, x, COUNT);
    struct graph *g = graph_end(r.stream);
    EXPECT(!g);
    EXPECT_EQ(event_done(r.event), 1);
    stream_fill(r.stream, x, 0, sizeof back);
    EXPECT_EQ(run_graph(r.stream, x, 2), 0);
    stream_copy_out(r.stream, back, x, sizeof back);
    EXPECT(rig_wait(&r) && back[0] == 2);
    rig_close(&r);
}

TEST(a_kernel_recorded_behind_a_fill_waits_for_all_of_it) {
    struct rig r = rig_open(STORAGE_F32);
    float back[COUNT], *x = rig_alloc(&r, sizeof back);
    EXPECT(graph_begin(r.stream));
    run_fault(r.stream, 34, x, COUNT);
    struct graph *g = graph_end(r.stream);
    EXPECT(g);
    if (g) {
        graph_launch(r.stream, g);
        stream_copy_out(r.stream, back, x, sizeof back);
        EXPECT(rig_wait(&r) && back[0] == 0 && back[64] == 0);
        graph_free(&g);
    }
    rig_close(&r);
}

TEST(a_wait_within_a_capture_spoils_it) {
    struct rig r = rig_open(STORAGE_F32);
    float *x = rig_alloc(&r, 512);
    EXPECT(graph_begin(r.stream));
    run_fault(r.stream, 14, x, COUNT);
    EXPECT(spoil_by_waiting(r.stream));
    EXPECT(!graph_end(r.stream) && rig_wait(&r));
    rig_close(&r);
}

/* A GPU hands out what was there before: what the tests expect of memory that a kernel left alone
 * they have put there themselves. */
TEST(arrays_of_the_rig_are_NaN_whatever_the_device_hands_out) {
    emu_set_fill(0x11);
    struct rig r = rig_open(STORAGE_F32);
    float *x = rig_down(&r, STORAGE_F32, rig_alloc(&r, COUNT * 4), COUNT);
    for (int i = 0; i < COUNT; i++)
        EXPECT(isnan(x[i]));
    free(x);
    rig_close(&r);
    emu_set_fill(0xff);
}

TEST(a_graph_runs_when_it_is_launched_on_what_memory_holds_then) {
    struct rig r = rig_open(STORAGE_F32);
    float back[64], *x = rig_alloc(&r, sizeof back);
    stream_fill(r.stream, x, 0, sizeof back);
    EXPECT_EQ(run_graph(r.stream, x, 3), 0);
    stream_copy_out(r.stream, back, x, sizeof back);
    EXPECT(rig_wait(&r) && back[0] == 3 && back[63] == 3);
    rig_close(&r);
}
