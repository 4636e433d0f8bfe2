#include "check.h"
#include "scheduler/want_ledger.h"

#include <stdio.h>

static const struct wire_want LOAD_A = {.model = {(const uint8_t *)"a", 1}, .wish = WIRE_WISH_LOAD},
                              UNLOAD_A = {.model = {(const uint8_t *)"a", 1},
                                          .wish = WIRE_WISH_UNLOAD},
                              LOAD_B = {.model = {(const uint8_t *)"b", 1}, .wish = WIRE_WISH_LOAD};

static void write_down(void *ctx, const struct wire_want *want) {
    char *at = (char *)ctx + strlen(ctx);
    snprintf(at, 8, "%.*s%d ", (int)want->model.len, (const char *)want->model.data, want->wish);
}

static const char *told(struct want_ledger *l, int64_t now_ms) {
    static char text[64];
    text[0] = 0;
    want_ledger_empty(l, now_ms, write_down, text);
    return text;
}

static const char *wishes(const struct wire_want *const *of, size_t count) {
    static char text[64];
    text[0] = 0;
    for (size_t i = 0; i < count; i++)
        write_down(text, of[i]);
    return text;
}
#define WISHES(...)                                                                                \
    wishes((const struct wire_want *const[]){__VA_ARGS__},                                         \
           sizeof(const struct wire_want *[]){__VA_ARGS__} / sizeof(void *))

TEST(want_ledger_tells_each_wish_once_in_the_order_said) {
    struct want_ledger l = {0};
    want_ledger_add(&l, 0, &LOAD_A);
    want_ledger_add(&l, 1, &LOAD_B);
    want_ledger_add(&l, 2, &UNLOAD_A);
    want_ledger_add(&l, 3, &LOAD_A); /* said again: it counts from now, behind the unload */
    EXPECT_STR(told(&l, 4), WISHES(&LOAD_B, &UNLOAD_A, &LOAD_A));
    EXPECT_EQ(l.entries.count, 0);
    EXPECT_STR(told(&l, 5), "");
    want_ledger_release(&l);
}

TEST(want_ledger_forgets_what_is_old_or_too_much) {
    struct want_ledger l = {0};
    want_ledger_add(&l, 0, &LOAD_A);
    want_ledger_add(&l, 1, &LOAD_B);
    EXPECT_STR(told(&l, WANT_KEEP_MS), WISHES(&LOAD_B));
    for (int i = 0; i <= WANTS_MAX; i++) {
        char name[16];
        snprintf(name, sizeof name, "m%d", i);
        const struct wire_want want = {.model = bytes_str(name), .wish = WIRE_WISH_LOAD};
        want_ledger_add(&l, i, &want);
    }
    EXPECT_EQ(l.entries.count, WANTS_MAX);
    EXPECT_STR(l.entries.items[0].model, "m1");
    want_ledger_release(&l);
}
