#include "base/clock.h"
#include "check.h"

#include <time.h>

TEST(clock_units_agree_and_never_go_back) {
    int64_t last = clock_ns();
    for (int i = 0; i < 10000; i++) {
        int64_t now = clock_ns();
        EXPECT(now >= last);
        last = now;
    }
    int64_t ns = clock_ns(), us = clock_us(), ms = clock_ms();
    EXPECT(us - ns / 1000 >= 0 && us - ns / 1000 < 1000000);
    EXPECT(ms - ns / 1000000 >= 0 && ms - ns / 1000000 < 1000);
    EXPECT(wall_ms() / 1000 - (int64_t)time(NULL) <= 1);
}

TEST(sleep_ms_sleeps_at_least_that_long) {
    int64_t start = clock_us();
    sleep_ms(30);
    int64_t took = clock_us() - start;
    EXPECT(took >= 30000);
    start = clock_us();
    sleep_ms(0);
    sleep_ms(-5);
    EXPECT(clock_us() - start < 30000);
}

TEST(spans_become_what_the_system_takes) {
    static const struct {
        int64_t ms;
        long seconds, us;
    } SPANS[] = {
        {0, 0, 0},       {1, 0, 1000},        {999, 0, 999000},     {1000, 1, 0},
        {1001, 1, 1000}, {60500, 60, 500000}, {86400000, 86400, 0}, {4000000000000, 4000000000, 0}};
    for (size_t i = 0; i < ARRAY_LEN(SPANS); i++) {
        struct timeval tv = timeval_of_ms(SPANS[i].ms);
        struct timespec ts = timespec_of_us(SPANS[i].ms * 1000 + 7);
        EXPECT(tv.tv_sec == SPANS[i].seconds && tv.tv_usec == SPANS[i].us);
        EXPECT(ts.tv_sec == SPANS[i].seconds && ts.tv_nsec == SPANS[i].us * 1000 + 7000);
    }
}
