/*
 * clock.h - monotonic time for decisions, wall clock for people and epochs.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <sys/time.h>
#include <time.h>

#include "base/base.h"

int64_t clock_ns(void); /* CLOCK_MONOTONIC */
/* CLOCK_MONOTONIC in microseconds. */
int64_t clock_us(void);
/* CLOCK_MONOTONIC in milliseconds. */
int64_t clock_ms(void);
/* CLOCK_BOOTTIME in milliseconds: goes on while the machine sleeps. */
int64_t clock_boot_ms(void);
int64_t wall_ms(void); /* milliseconds since 1970 */
/* Blocks this thread for ms milliseconds, whatever signals come; 0 or less: not at all. */
void sleep_ms(int64_t ms);

/* A time, or a span, of 0 or more, as system calls and libraries take it. */
static inline struct timespec timespec_of_us(int64_t us) {
    return (struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
}
static inline struct timeval timeval_of_ms(int64_t ms) {
    return (struct timeval){.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
}

#endif
