/* Times of the calendar. */
#include "base/utc.h"
#include "check.h"

TEST(days_of_leap_years_and_others) {
    static const struct {
        int64_t wall_s;
        const char *text;
    } CASES[] = {{0, "1970-01-01T00:00:00"},
                 {951782399, "2000-02-28T23:59:59"},
                 {951782400, "2000-02-29T00:00:00"},
                 {4107542400, "2100-03-01T00:00:00"}};
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        char text[UTC_TEXT_MAX];
        EXPECT_EQ(utc_text(CASES[i].wall_s, text), strlen(CASES[i].text));
        EXPECT_STR(text, CASES[i].text);
    }
}
