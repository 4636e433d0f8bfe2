/* Calls of a library that is opened at run time; here the program itself, which has libc's. */
#include "base/library.h"

#include "check.h"

#include <dlfcn.h>

struct calls {
    int before;
    size_t (*length)(const char *);
    int (*compare)(const char *, const char *);
    int after;
};

static const struct library_symbol SYMBOLS[] = {{"strlen", offsetof(struct calls, length)},
                                                {"strcmp", offsetof(struct calls, compare)},
                                                {"nobody_has_this", 0}};

TEST(library_symbols_fill_a_table) {
    struct error err = {0};
    struct calls calls = {.before = 7, .after = 8};
    void *library = dlopen(NULL, RTLD_NOW);
    EXPECT(library);
    EXPECT_EQ(library_symbols(library, "lib.so", SYMBOLS, 2, &calls, &err), 0);
    EXPECT(calls.before == 7 && calls.after == 8);
    EXPECT(calls.length && calls.length("four") == 4);
    EXPECT(calls.compare && calls.compare("a", "b") < 0 && calls.compare("a", "a") == 0);
    struct calls one = {.before = 7};
    EXPECT_EQ(library_symbols(library, "lib.so", SYMBOLS, 1, &one, &err), 0);
    EXPECT(one.length && !one.compare);
    struct calls none = {.before = 7};
    EXPECT_EQ(library_symbols(library, "lib.so", SYMBOLS, 0, &none, &err), 0);
    EXPECT(!none.length);
    dlclose(library);
}

TEST(library_symbols_name_what_is_missing) {
    struct error err = {0};
    struct calls calls = {.before = 7};
    void *library = dlopen(NULL, RTLD_NOW);
    EXPECT_EQ(library_symbols(library, "lib.so", SYMBOLS, 3, &calls, &err), ERR_UNSUPPORTED);
    EXPECT_STR(err.text, "'lib.so' has no nobody_has_this");
    EXPECT_EQ(calls.before, 7);
    dlclose(library);
}
