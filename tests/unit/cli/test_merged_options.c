#include "check.h"
#include "cli/merged_options.h"

struct own {
    int64_t port;
    const char *model;
};
static const struct option_row OWN_ROWS[] = {
    {"port", 'p', OPTION_INT, offsetof(struct own, port), "8000", .help = "."},
    {"model", 0, OPTION_STRING, offsetof(struct own, model), NULL, .help = "."}};
static const struct option_table OWN = {
    .program = "own", .synopsis = "", .summary = "", .rows = OWN_ROWS, .count = 2};
static const struct option_row A_ROWS[] = {
    {"port", 0, OPTION_INT, 0, "1", .help = "."},
    {"slots", 's', OPTION_INT, 8, "64", .min = 1, .max = 100, .help = "."},
    {"common", 0, OPTION_BOOL, 16, "false", .help = "."}};
static const struct option_table A = {
    .program = "a", .synopsis = "", .summary = "", .rows = A_ROWS, .count = 3};
static const struct option_row B_ROWS[] = {{"common", 0, OPTION_BOOL, 0, "false", .help = "."},
                                           {"path", 0, OPTION_STRING, 8, "x", .help = "."},
                                           {"secret", 0, OPTION_STRING, 16, NULL, .help = "."}};
static const struct option_table B = {
    .program = "b", .synopsis = "", .summary = "", .rows = B_ROWS, .count = 3};

static int parse(struct merged_options *m, int argc, char **argv, struct error *err) {
    static const struct option_table *const CHILDREN[] = {&A, &B};
    static const char *const HIDDEN[] = {"secret", NULL};
    merged_options_init(m, &OWN, sizeof(struct own), CHILDREN, 2, HIDDEN);
    return option_parse(&m->table, m->settings, argc, argv, NULL, 0, NULL, err);
}

TEST(merged_options_pass_on_what_each_child_has) {
    struct merged_options m;
    struct flags a = {0}, b = {0};
    struct error err;
    char *argv[] = {"own", "--port=9", "--slots=7", "--common", "--path", "a b"};
    EXPECT_EQ(parse(&m, 6, argv, &err), 0);
    EXPECT_EQ(((struct own *)(void *)m.settings)->port, 9);
    merged_options_flags(&m, &A, &a);
    merged_options_flags(&m, &B, &b);
    flags_end(&a);
    flags_add(&b, "--more=%d", 3);
    flags_end(&b);
    EXPECT_EQ(a.words.count, 3);
    EXPECT_STR(a.words.items[0], "--slots=7");
    EXPECT_STR(a.words.items[1], "--common=true");
    EXPECT_EQ(b.words.count, 4);
    EXPECT_STR(b.words.items[0], "--common=true");
    EXPECT_STR(b.words.items[1], "--path=a b");
    EXPECT_STR(b.words.items[2], "--more=3");
    flags_release(&a);
    flags_release(&b);
    merged_options_release(&m);
}

TEST(merged_options_leave_defaults_to_the_child_and_check_ranges) {
    struct merged_options m;
    struct flags a = {0};
    struct error err;
    char *nothing[] = {"own"}, *wrong[] = {"own", "--slots=101"}, *hidden[] = {"own", "--secret=x"};
    EXPECT_EQ(parse(&m, 1, nothing, &err), 0);
    merged_options_flags(&m, &A, &a);
    EXPECT_EQ(a.words.count, 0);
    merged_options_release(&m);
    EXPECT_EQ(parse(&m, 2, wrong, &err), ERR_INVALID);
    EXPECT(strstr(err.text, "--slots"));
    merged_options_release(&m);
    EXPECT_EQ(parse(&m, 2, hidden, &err), ERR_INVALID);
    merged_options_release(&m);
}
