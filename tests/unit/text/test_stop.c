#include "text/stop.h"

#include "check.h"

static struct bytes STOPS[] = {{(const uint8_t *)"</s>", 4},
                               {(const uint8_t *)"abab", 4},
                               {(const uint8_t *)"b", 1},
                               {(const uint8_t *)"aab", 3}};

/* The definition, slowly: the match that ends first, of those the longest. SIZE_MAX: none. */
static size_t naive(struct bytes text, const struct bytes *stops, size_t count, size_t *begin,
                    size_t *idx) {
    for (size_t end = 1; end <= text.len; end++) {
        size_t best = 0;
        for (size_t i = 0; i < count; i++)
            if (stops[i].len <= end && stops[i].len > best &&
                !memcmp(text.data + end - stops[i].len, stops[i].data, stops[i].len)) {
                best = stops[i].len;
                *idx = i;
            }
        if (best) {
            *begin = end - best;
            return end;
        }
    }
    return SIZE_MAX;
}

static bool run_once(struct bytes text, const struct bytes *stops, size_t count, bool include) {
    struct stop s;
    struct buf out = {0};
    size_t begin = text.len, idx = 0, at = 0;
    if (stop_init(&s, stops, count, include, NULL))
        return false;
    bool hit = false, ok = true;
    while (at < text.len) {
        size_t n = 1 + check_random() % 4;
        n = MIN(n, text.len - at);
        hit = stop_push(&s, bytes_of(text.data + at, n), &out);
        at += n;
        size_t longest = 0;
        for (size_t i = 0; i < count; i++)
            longest = MAX(longest, stops[i].len);
        if (!hit)
            ok &= s.held.len < MAX(longest, (size_t)1) && out.len + s.held.len == at;
    }
    if (!hit)
        stop_flush(&s, &out);
    size_t end = naive(text, stops, count, &begin, &idx);
    ok &= hit == (end != SIZE_MAX) && (!hit || s.matched_idx == idx);
    size_t want = !hit ? text.len : include ? end : begin;
    ok &= out.len == want && !memcmp(buf_text(&out), text.data, want);
    stop_release(&s);
    buf_release(&out);
    return ok;
}

TEST(stop_gives_the_same_for_every_cut) {
    for (int round = 0; round < 20000; round++) {
        char text[24];
        size_t len = check_random() % sizeof text, count = check_random() % (ARRAY_LEN(STOPS) + 1);
        for (size_t i = 0; i < len; i++)
            text[i] = "ab</s>"[check_random() % 6];
        EXPECT(run_once(bytes_of(text, len), STOPS, count, round % 2));
    }
}

TEST(stop_lets_everything_through_without_strings) {
    struct stop s;
    struct buf out = {0};
    EXPECT_EQ(stop_init(&s, NULL, 0, false, NULL), 0);
    EXPECT(!stop_push(&s, bytes_str("hello"), &out));
    EXPECT_STR(buf_text(&out), "hello");
    stop_release(&s);
    buf_release(&out);
}

TEST(stop_refuses_bad_strings) {
    struct stop s;
    struct bytes many[STOP_STRINGS_MAX + 1], empty = bytes_str("");
    static char large[STOP_BYTES_MAX + 1];
    for (size_t i = 0; i < ARRAY_LEN(many); i++)
        many[i] = bytes_str("x");
    EXPECT_EQ(stop_init(&s, &empty, 1, false, NULL), ERR_INVALID);
    EXPECT_EQ(stop_init(&s, many, ARRAY_LEN(many), false, NULL), ERR_LIMIT);
    struct bytes one = bytes_of(large, sizeof large);
    EXPECT_EQ(stop_init(&s, &one, 1, false, NULL), ERR_LIMIT);
    one.len--; /* the longest, and the most, that there may be */
    EXPECT_EQ(stop_init(&s, &one, 1, false, NULL), 0);
    stop_release(&s);
    EXPECT_EQ(stop_init(&s, many, ARRAY_LEN(many) - 1, false, NULL), 0);
    stop_release(&s);
}

TEST(stop_takes_nothing_after_a_match) {
    struct stop s;
    struct buf out = {0};
    struct bytes stop = bytes_str("END");
    EXPECT_EQ(stop_init(&s, &stop, 1, false, NULL), 0);
    EXPECT(stop_push(&s, bytes_str("textENDmore"), &out));
    EXPECT(stop_push(&s, bytes_str("and more"), &out));
    stop_flush(&s, &out);
    EXPECT_STR(buf_text(&out), "text");
    stop_release(&s);
    buf_release(&out);
}
