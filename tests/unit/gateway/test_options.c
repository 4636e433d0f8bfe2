/* test_options.c - the options of a gateway are those of docs/options.md. */
#include "check.h"
#include "gateway/gateway_main.h"
#include "option_page.h"

TEST(gateway_options_are_those_of_the_manual) {
    EXPECT(option_page_has(&gateway_options));
}
