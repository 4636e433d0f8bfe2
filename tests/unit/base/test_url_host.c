/* Hosts in URLs: version 6 in brackets, and nothing else. */
#include "base/base.h"
#include "base/url_host.h"
#include "check.h"

TEST(version_6_stands_in_brackets) {
    static const char *const CASES[][2] = {
        {"::1", "[::1]"},           {"2001:db8::7", "[2001:db8::7]"}, {"::", "[::]"},
        {"127.0.0.1", "127.0.0.1"}, {"localhost", "localhost"},       {"", ""}};
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++)
        EXPECT_STR(url_host(CASES[i][0]).text, CASES[i][1]);
}

TEST(what_is_too_long_is_cut) {
    char name[400];
    memset(name, 'a', sizeof name);
    name[sizeof name - 1] = 0;
    EXPECT_EQ(strlen(url_host(name).text), URL_HOST_MAX);
    name[0] = ':';
    EXPECT_EQ(strlen(url_host(name).text), URL_HOST_MAX + 2);
}
