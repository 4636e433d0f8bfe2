#include "base/file_limit.h"

#include <sys/resource.h>

#include "base/base.h"

uint64_t file_limit_raise(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit))
        return UINT64_MAX;
    const struct rlimit all = {.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
    return setrlimit(RLIMIT_NOFILE, &all) ? limit.rlim_cur : limit.rlim_max;
}

uint64_t file_limit_clients(uint64_t limit, uint64_t wanted) {
    enum { OWN_FILES = 256 };
    return MIN(wanted, limit - MIN(limit / 2, (uint64_t)OWN_FILES));
}
