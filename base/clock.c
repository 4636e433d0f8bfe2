#include "base/clock.h"

#include <errno.h>

static int64_t read_ns(clockid_t id) {
    struct timespec ts;
    CHECK(clock_gettime(id, &ts) == 0);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int64_t clock_ns(void) {
    return read_ns(CLOCK_MONOTONIC);
}
int64_t clock_us(void) {
    return clock_ns() / 1000;
}
int64_t clock_ms(void) {
    return clock_ns() / 1000000;
}
int64_t clock_boot_ms(void) {
    return read_ns(CLOCK_BOOTTIME) / 1000000;
}
int64_t wall_ms(void) {
    return read_ns(CLOCK_REALTIME) / 1000000;
}

void sleep_ms(int64_t ms) {
    if (ms <= 0)
        return;
    struct timespec left = timespec_of_us(ms * 1000);
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR) {}
}
