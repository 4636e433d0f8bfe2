#include "base/file_limit.h"
#include "check.h"

#include <sys/resource.h>

TEST(file_limit_is_raised_to_what_may_be_had) {
    struct rlimit had, now;
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &had), 0);
    struct rlimit low = {.rlim_cur = 100, .rlim_max = had.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
    EXPECT_EQ(file_limit_raise(), had.rlim_max);
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &now), 0);
    EXPECT_EQ(now.rlim_cur, had.rlim_max);
    EXPECT_EQ(file_limit_raise(), had.rlim_max);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &had), 0);
}

TEST(file_limit_leaves_files_to_the_process) {
    EXPECT_EQ(file_limit_clients(100000, 16384), 16384);
    EXPECT_EQ(file_limit_clients(16384 + 256, 16384), 16384);
    EXPECT_EQ(file_limit_clients(16384 + 255, 16384), 16383);
    EXPECT_EQ(file_limit_clients(512, 16384), 256);
    EXPECT_EQ(file_limit_clients(511, 16384), 256);
    EXPECT_EQ(file_limit_clients(510, 16384), 255);
    EXPECT_EQ(file_limit_clients(64, 16384), 32);
    EXPECT_EQ(file_limit_clients(64, 10), 10);
    EXPECT_EQ(file_limit_clients(UINT64_MAX, 16384), 16384);
}
