#include "base/error.h"
#include "check.h"

#include <errno.h>

TEST(error_set_fills_and_returns_the_code) {
    struct error err = {0};
    EXPECT_EQ(error_set(&err, ERR_LIMIT, "cannot take '%s'", "x"), ERR_LIMIT);
    EXPECT_EQ(err.code, ERR_LIMIT);
    EXPECT_STR(err.text, "cannot take 'x'");
    EXPECT_EQ(error_set(NULL, ERR_TIMEOUT, "nobody reads this"), ERR_TIMEOUT);
}

TEST(error_set_cuts_long_texts) {
    struct error err;
    char big[2 * ERROR_TEXT_MAX];
    memset(big, 'a', sizeof big - 1);
    big[sizeof big - 1] = 0;
    error_set(&err, ERR_INVALID, "%s", big);
    EXPECT_EQ(strlen(err.text), ERROR_TEXT_MAX - 1);
    errno = EACCES;
    error_set_errno(&err, "%s", big);
    EXPECT_EQ(strlen(err.text), ERROR_TEXT_MAX - 1);
    error_wrap(&err, "%s", big);
    EXPECT_EQ(strlen(err.text), ERROR_TEXT_MAX - 1);
}

TEST(error_set_errno_says_why) {
    struct error err;
    errno = ENOENT;
    EXPECT_EQ(error_set_errno(&err, "cannot open '%s'", "f"), ERR_NOT_FOUND);
    EXPECT_STR(err.text, "cannot open 'f': No such file or directory");
    errno = EACCES;
    EXPECT_EQ(error_set_errno(&err, "no"), ERR_IO);
    errno = ENOMEM;
    EXPECT_EQ(error_set_errno(&err, "no"), ERR_MEMORY);
}

TEST(error_wrap_puts_the_reason_behind) {
    struct error err;
    error_set(&err, ERR_INVALID, "inner");
    EXPECT_EQ(error_wrap(&err, "outer %d", 1), ERR_INVALID);
    EXPECT_STR(err.text, "outer 1: inner");
}
