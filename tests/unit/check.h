/*
 * check.h - the smallest test harness that serves: named tests that register themselves.
 *
 *     TEST(pool_refuses_double_free) { EXPECT(...); EXPECT_EQ(a, b); EXPECT_STR(s, "x"); }
 *
 * A program prints one line a test: "ok NAME", "not ok NAME: why" or "skip KIND NAME: why"; the
 * exit code is the number of failures (at most 99). The first failed expectation ends its test (by
 * return), with TRIREME_TEST_FIRST set the program. argv[1], when given, is a substring
 * of the names to run; TRIREME_TEST_FILE=NAME.c runs only the tests of that source file, for a
 * program that is made of several. SKIP(kind, why) names what is missing (shared, nvcc, gpu, docker, isa);
 * where TRIREME_TEST_REQUIRE lists the kind it is a failure.
 */
#ifndef TESTS_UNIT_CHECK_H
#define TESTS_UNIT_CHECK_H

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

void check_register(const char *file, const char *name, void (*run)(void));
void check_fail(const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void check_skip(const char *kind, const char *why);
/* Path under the project's optional test data (TRIREME_SHARED, else ../shared/data beside the
 * source tree), or NULL when it is not there. Static buffer, overwritten by the next call. */
const char *check_shared(const char *relative);
/* Next value of a seeded generator (splitmix64); the seed is printed when a test fails.
 * TRIREME_TEST_SEED sets it. */
uint64_t check_random(void);

#define TEST(name)                                                                                 \
    static void test_##name(void);                                                                 \
    __attribute__((constructor)) static void register_##name(void) {                               \
        check_register(__FILE__, #name, test_##name);                                              \
    }                                                                                              \
    static void test_##name(void)
#define EXPECT(cond)                                                                               \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            check_fail(__FILE__, __LINE__, "expected %s", #cond);                                  \
            return;                                                                                \
        }                                                                                          \
    } while (0)
#define EXPECT_EQ(a, b)                                                                            \
    do {                                                                                           \
        long long check_a_ = (long long)(a), check_b_ = (long long)(b);                            \
        if (check_a_ != check_b_) {                                                                \
            check_fail(__FILE__, __LINE__, "%s is %lld, expected %lld", #a, check_a_, check_b_);   \
            return;                                                                                \
        }                                                                                          \
    } while (0)
#define EXPECT_STR(a, b)                                                                           \
    do {                                                                                           \
        const char *check_a_ = (a), *check_b_ = (b);                                               \
        if (!check_a_ || !check_b_ || strcmp(check_a_, check_b_)) {                                \
            check_fail(__FILE__, __LINE__, "%s is '%s', expected '%s'", #a,                        \
                       check_a_ ? check_a_ : "(null)", check_b_ ? check_b_ : "(null)");            \
            return;                                                                                \
        }                                                                                          \
    } while (0)
#define SKIP(kind, why)                                                                            \
    do {                                                                                           \
        check_skip(kind, why);                                                                     \
        return;                                                                                    \
    } while (0)

#endif
