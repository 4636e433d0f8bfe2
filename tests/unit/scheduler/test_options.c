/* test_options.c - the options of a scheduler are those of docs/options.md. */
#include "check.h"
#include "option_page.h"
#include "scheduler/scheduler_main.h"

TEST(scheduler_options_are_those_of_the_manual) {
    EXPECT(option_page_has(&scheduler_options));
}
