/* Kept responses against a slow model of them: what leaves, what is found, and by whom. */
#include "gateway/answers/response_store.h"
#include "gateway/dialects/responses.h"

#include <stdio.h>

#include "base/hash.h"
#include "check.h"

enum { SLOTS = 64, TENANTS = 3, BUDGET = 20000 };

/* What the store should have, oldest first. */
struct shadow {
    struct u128 number, tenant;
    size_t bytes; /* of its texts and events */
    struct kept_response *kept;
    bool running;
};

static struct kept_contents contents_of(const struct shadow *s, const char *text) {
    return (struct kept_contents){.number = s->number,
                                  .tenant = s->tenant,
                                  .object = bytes_of(text, s->bytes),
                                  .turn_count = 1,
                                  .running = s->running,
                                  .streams = s->running};
}

/* The bytes that the store counts beside the texts, of one response. */
static size_t overhead(void) {
    struct response_store *store = response_store_new(BUDGET);
    const struct kept_contents contents = {.number = {1, 1}};
    kept_response_put(store, response_store_add(store, &contents));
    size_t bytes = response_store_bytes(store);
    response_store_free(&store);
    return bytes;
}

/* Takes out what the rule says must leave. */
static void shrink(struct shadow *list, size_t *count, size_t each) {
    for (;;) {
        size_t held[TENANTS] = {0}, sum = 0, most = 0;
        for (size_t i = 0; i < *count; i++) {
            held[list[i].tenant.lo] += list[i].bytes + each;
            sum += list[i].bytes + each;
        }
        if (sum <= BUDGET)
            return;
        for (size_t t = 1; t < TENANTS; t++)
            if (held[t] > held[most])
                most = t;
        size_t at = 0;
        while (held[list[at].tenant.lo] < held[most])
            at++;
        memmove(&list[at], &list[at + 1], (--*count - at) * sizeof list[0]);
    }
}

static void compare(struct response_store *store, const struct shadow *list, size_t count,
                    size_t each) {
    size_t sum = 0;
    EXPECT_EQ(response_store_count(store), count);
    for (size_t i = 0; i < count; i++) {
        const struct shadow *s = &list[i];
        const struct u128 stranger = {.lo = (s->tenant.lo + 1) % TENANTS};
        struct kept_response *found = response_store_find(store, s->number, s->tenant);
        EXPECT(found == s->kept);
        EXPECT_EQ(kept_response_is_running(store, s->kept), s->running);
        EXPECT(!response_store_find(store, s->number, stranger));
        kept_response_put(store, found);
        sum += s->bytes + each;
    }
    EXPECT_EQ(response_store_bytes(store), sum);
    EXPECT(sum <= BUDGET);
}

TEST(the_oldest_of_whoever_holds_most_leave) {
    static char text[BUDGET];
    struct response_store *store = response_store_new(BUDGET);
    struct shadow list[SLOTS + 1];
    size_t count = 0, each = overhead();
    memset(text, 'x', sizeof text);
    for (int step = 0; step < 3000; step++) {
        uint32_t what = check_random() % 8;
        if (what < 5 && count < SLOTS) {
            struct shadow s = {.number.hi = (uint64_t)step + 1,
                               .tenant.lo = check_random() % TENANTS,
                               .bytes = check_random() % 2500,
                               .running = check_random() % 2};
            const struct kept_contents contents = contents_of(&s, text);
            s.kept = response_store_add(store, &contents);
            EXPECT(s.kept);
            kept_response_put(store, s.kept); /* the store's own stays while it is listed */
            list[count++] = s;
            shrink(list, &count, each);
        } else if (what == 5 && count) {
            size_t at = check_random() % count;
            struct kept_response *k = response_store_find(store, list[at].number, list[at].tenant);
            EXPECT(response_store_remove(store, k));
            EXPECT(!response_store_remove(store, k));
            kept_response_put(store, k);
            memmove(&list[at], &list[at + 1], (--count - at) * sizeof list[0]);
        } else if (what == 6 && count) {
            struct shadow *s = &list[check_random() % count];
            const struct kept_end end = {.object = bytes_of(text, 10)};
            kept_response_end(store, s->kept, &end);
            if (s->running)
                s->bytes = 10;
            s->running = false;
        }
        compare(store, list, count, each);
    }
    response_store_free(&store);
}

/* Where no key is asked for, all are one tenant, and each address has its room: one that keeps much
 * pushes out its own, whatever is found by whom. */
TEST(an_address_pushes_out_its_own) {
    static char text[1000];
    struct response_store *store = response_store_new(BUDGET);
    memset(text, 'x', sizeof text);
    struct kept_contents contents = {.object = bytes_of(text, sizeof text)};
    int others = 0;
    for (uint64_t address = 1; address <= 8; address++) {
        contents.number.hi = contents.address.lo = address;
        kept_response_put(store, response_store_add(store, &contents));
    }
    contents.address.lo = 9;
    for (uint64_t n = 100; n < 200; n++) {
        contents.number.hi = n;
        kept_response_put(store, response_store_add(store, &contents));
    }
    for (uint64_t n = 1; n <= 8; n++) {
        struct kept_response *k =
            response_store_find(store, (struct u128){.hi = n}, (struct u128){0});
        others += k != NULL;
        kept_response_put(store, k);
    }
    EXPECT(others >= 6); /* two may have the account of the ninth */
    for (uint64_t n = 1000; n < 4000; n++) {
        contents.number.hi = contents.address.lo = n;
        kept_response_put(store, response_store_add(store, &contents));
    }
    EXPECT(response_store_bytes(store) <= BUDGET && response_store_count(store) > 10);
    response_store_free(&store);
}

TEST(events_are_read_whole_from_anywhere) {
    struct response_store *store = response_store_new(1 << 20);
    const struct kept_contents contents = {.number = {1, 2}, .running = true, .streams = true};
    struct kept_response *k = response_store_add(store, &contents);
    struct buf all = {0}, seen = {0};
    char event[64];
    size_t at = 0;
    for (int i = 0; i < 200; i++) {
        snprintf(event, sizeof event, "data: %d %.*s\n\n", i, i % 30,
                 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
        buf_add_str(&all, event);
        kept_response_append(store, k, bytes_str(event));
        EXPECT(kept_response_events(store, k, &at, 1 + check_random() % 100, &seen));
        EXPECT(seen.len <= all.len && memcmp(seen.data, all.data, seen.len) == 0);
        EXPECT(!seen.len || memcmp(seen.data + seen.len - 2, "\n\n", 2) == 0);
    }
    const struct kept_end end = {.object = bytes_str("{}"), .events = bytes_str("end\n\n")};
    kept_response_end(store, k, &end);
    kept_response_append(store, k, bytes_str("late\n\n"));
    buf_add_str(&all, "end\n\n");
    while (kept_response_events(store, k, &at, 1, &seen))
        ;
    EXPECT_STR(buf_text(&seen), buf_text(&all));
    for (uint64_t n = 0; n <= 201; n++) {
        EXPECT(kept_response_seek(store, k, n, &at));
        EXPECT(at == 0 || memcmp(all.data + at - 2, "\n\n", 2) == 0);
    }
    EXPECT_EQ(at, all.len);
    EXPECT(!kept_response_seek(store, k, 202, &at));
    kept_response_put(store, k);
    response_store_free(&store);
    buf_release(&all);
    buf_release(&seen);
}

TEST(what_has_left_takes_no_more) {
    struct response_store *store = response_store_new(4000);
    struct kept_contents contents = {.number = {1, 2}, .running = true};
    struct kept_response *k = response_store_add(store, &contents), *big;
    struct buf out = {0};
    static char text[5000];
    size_t at = 0;
    kept_response_append(store, k, bytes_str("a\n\n"));
    EXPECT(!kept_response_is_dropped(store, k));
    EXPECT(response_store_remove(store, k));
    EXPECT(kept_response_is_dropped(store, k) && !kept_response_is_running(store, k));
    kept_response_append(store, k, bytes_str("b\n\n"));
    EXPECT(!kept_response_events(store, k, &at, 100, &out)); /* and reads on */
    EXPECT_STR(buf_text(&out), "a\n\n");
    EXPECT_EQ(response_store_bytes(store), 0);
    kept_response_put(store, k);
    contents.object = bytes_of(text, sizeof text);
    EXPECT(!response_store_add(store, &contents)); /* larger than the budget */
    contents.object = bytes_of(text, 3000);
    big = response_store_add(store, &contents);
    EXPECT(big);
    memset(text, '\n', sizeof text);
    kept_response_append(store, big, bytes_of(text, 4000)); /* outgrows it */
    EXPECT(kept_response_is_dropped(store, big));
    kept_response_put(store, big);
    response_store_free(&store);
    buf_release(&out);
}

/* What fills the budget to the byte stays; a byte more is too much, of one and of two. */
TEST(a_budget_is_filled_to_the_byte) {
    static char text[300];
    size_t each = overhead();
    for (size_t more = 0; more < 2; more++) {
        struct response_store *store = response_store_new(each + 100);
        struct kept_contents contents = {.number = {1, 1}, .object = bytes_of(text, 100 + more)};
        struct kept_response *k = response_store_add(store, &contents);
        EXPECT_EQ(k != NULL, !more);
        kept_response_put(store, k);
        EXPECT_EQ(response_store_count(store), more ? 0 : 1);
        response_store_free(&store);
        store = response_store_new(2 * each + 200);
        for (uint64_t i = 0; i < 2; i++) {
            contents.number.hi = i;
            contents.object = bytes_of(text, 100 + more * i);
            kept_response_put(store, response_store_add(store, &contents));
        }
        EXPECT_EQ(response_store_count(store), 2 - more);
        response_store_free(&store);
    }
}

/* As many whole events as fit into what is asked for, and one where none does. */
TEST(events_are_read_up_to_a_bound) {
    struct response_store *store = response_store_new(1 << 20);
    const struct kept_contents contents = {.number = {1, 2}, .running = true, .streams = true};
    struct kept_response *k = response_store_add(store, &contents);
    static const struct {
        size_t max, read;
    } ROWS[] = {{0, 10}, {9, 10}, {10, 10}, {19, 10}, {20, 20}, {29, 20}, {30, 30}, {99, 30}};
    kept_response_append(store, k, bytes_str("aaaaaaaa\n\nbbbbbbbb\n\ncccccccc\n\n"));
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct buf out = {0};
        size_t at = 0;
        EXPECT(kept_response_events(store, k, &at, ROWS[i].max, &out)); /* it may go on */
        EXPECT(at == ROWS[i].read && out.len == ROWS[i].read);
        buf_release(&out);
    }
    kept_response_put(store, k);
    response_store_free(&store);
}

static void rewrite(struct buf *object) {
    buf_add_str(object, "!");
}

/* Only what runs is cancelled, once; only what began in the background may be. */
TEST(what_runs_is_cancelled_once) {
    struct response_store *store = response_store_new(1 << 20);
    struct kept_contents contents = {.number = {1, 2}, .object = bytes_str("x"), .running = true};
    for (int runs = 1; runs >= 0; runs--) {
        struct buf out = {0};
        contents.running = runs;
        contents.number.lo = (uint64_t)runs;
        struct kept_response *k = response_store_add(store, &contents);
        EXPECT_EQ(kept_response_is_running(store, k), runs);
        EXPECT_EQ(kept_response_cancel(store, k, rewrite), runs);
        EXPECT_EQ(kept_response_cancel(store, k, rewrite), runs);
        EXPECT(!kept_response_is_running(store, k));
        EXPECT_EQ(kept_response_is_dropped(store, k), runs);
        kept_response_object(store, k, &out);
        EXPECT_STR(buf_text(&out), runs ? "x!" : "x");
        EXPECT_EQ(response_store_bytes(store), (2 - (uint64_t)runs) * overhead() + 2 + !runs);
        buf_release(&out);
        kept_response_put(store, k);
    }
    response_store_free(&store);
}

TEST(ids_of_responses_are_read_whole) {
    static const struct {
        const char *id;
        bool is_good;
    } ROWS[] = {
        {"resp_0123456789abcdef0123456789abcdef", true},
        {"resp_0123456789abcdef0123456789abcde", false},
        {"resp_0123456789abcdef0123456789abcdef0", false},
        {"resp-0123456789abcdef0123456789abcdef", false},
        {"resp_0123456789abcdef0123456789abcdeg", false},
        {"resp_", false},
        {"", false},
    };
    struct u128 number;
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++)
        if (responses_id_parse(bytes_str(ROWS[i].id), &number) != ROWS[i].is_good)
            check_fail(__FILE__, __LINE__, "row %zu", i);
    EXPECT(responses_id_parse(bytes_str(ROWS[0].id), &number));
    EXPECT(number.hi == 0x0123456789abcdef && number.lo == 0x0123456789abcdef);
}

/* An item of a few bytes may stand behind many; to name it a thousand times is work for a thousand. */
TEST(named_items_are_sought_within_a_bound) {
    enum { LONG = 640 * 1024 };
    static const int COUNTS[] = {12, 13}; /* 8 MB hold what stands in front twelve times */
    struct response_store *store = response_store_new(64 << 20);
    struct u128 number = {5, 6}, tenant = {1, 1};
    struct buf object = {0}, body = {0};
    char hex[U128_TEXT_MAX];
    u128_text(number, hex);
    buf_addf(
        &object,
        "{\"output\":[{\"id\":\"msg_%sff\",\"type\":\"message\",\"role\":\"assistant\",\"content\":\"",
        hex);
    for (int i = 0; i < LONG; i++)
        buf_add_byte(&object, 'x');
    buf_addf(
        &object,
        "\"},{\"id\":\"msg_%s00\",\"type\":\"message\",\"role\":\"assistant\",\"content\":\"y\"}]}",
        hex);
    const struct kept_contents contents = {
        .number = number, .tenant = tenant, .object = buf_bytes(&object), .turn_count = 1};
    kept_response_put(store, response_store_add(store, &contents));
    for (size_t i = 0; i < ARRAY_LEN(COUNTS); i++) {
        struct genreq g;
        struct api_error err = {0};
        buf_reset(&body);
        buf_add_str(&body, "{\"input\":[");
        for (int k = 0; k < COUNTS[i]; k++)
            buf_addf(&body, "%s{\"type\":\"item_reference\",\"id\":\"msg_%s00\"}", k ? "," : "",
                     hex);
        buf_add_str(&body, "]}");
        EXPECT_EQ(genreq_parse(&g, GENREQ_RESPONSES, buf_bytes(&body), &err), 0);
        EXPECT_EQ(responses_resume(&g, store, tenant, &err), i ? -1 : 0);
        EXPECT_EQ(err.status, i ? 413 : 0);
        EXPECT(!i || strstr(err.text, "too many items of long responses"));
        genreq_release(&g);
    }
    buf_release(&object);
    buf_release(&body);
    response_store_free(&store);
}
