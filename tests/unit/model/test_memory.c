/*
 * test_memory.c - memory that runs out while a model is opened: each call that may fail does, alone
 * and with all behind it. Opening says so, and leaves nothing behind.
 */
#include "memory_faults.h"
#include "rig.h"

enum { ALL = 1 << 30 };

/* How many calls were made. */
static long open_with_faults(enum storage_type quantize, long n, long further) {
    struct device_options on = {.thread_count = 1};
    struct model_options options = {.dir = TRIREME_SOURCE_DIR "/demo/model", .quantize = quantize};
    struct device *dev;
    struct model model;
    struct error err = {0};
    CHECK(device_open(&on, &dev, &err) == 0);
    struct stream *stream = stream_new(dev);
    faults_arm(n, further);
    int rc = model_open(&model, &options, dev, stream, &err);
    long calls = faults_disarm();
    if (calls >= n && (rc == 0 || !err.text[0]))
        check_fail(__FILE__, __LINE__, "call %ld failed, and opening gave %d '%s'", n, rc,
                   err.text);
    if (calls < n && rc)
        check_fail(__FILE__, __LINE__, "no call failed, and opening gave '%s'", err.text);
    if (rc == 0)
        model_close(&model);
    stream_free(&stream);
    device_close(&dev);
    return calls;
}

TEST(memory_that_runs_out_keeps_a_model_from_being_opened) {
    static const enum storage_type TYPES[] = {STORAGE_I8, STORAGE_U4};
    const char *asked = getenv("TRIREME_TEST_ALL");
    bool all = asked && *asked == '1';
    for (size_t i = 0; i < ARRAY_LEN(TYPES); i++) {
        long n = 1;
        while (open_with_faults(TYPES[i], n, 0) >= n) {
            open_with_faults(TYPES[i], n, ALL);
            n += all || n < 4 ? 1 : n;
        }
        EXPECT(n > 1);
    }
}
