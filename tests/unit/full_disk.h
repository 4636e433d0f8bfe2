/* full_disk.h - a file of this process that grows past a bound fails, as on a disk that is full. */
#ifndef TESTS_UNIT_FULL_DISK_H
#define TESTS_UNIT_FULL_DISK_H

#include <signal.h>
#include <sys/resource.h>

#include "base/base.h"

/* Until full_disk_end: no file of more bytes. Returns the bound before. */
static inline struct rlimit full_disk_begin(rlim_t bytes) {
    struct rlimit before, least;
    signal(SIGXFSZ, SIG_IGN);
    CHECK(!getrlimit(RLIMIT_FSIZE, &before));
    least = (struct rlimit){bytes, before.rlim_max};
    CHECK(!setrlimit(RLIMIT_FSIZE, &least));
    return before;
}

static inline void full_disk_end(struct rlimit before) {
    CHECK(!setrlimit(RLIMIT_FSIZE, &before));
    signal(SIGXFSZ, SIG_DFL);
}

#endif
