/* SentencePiece's precompiled character maps, against a slow twin that knows the rules as a list. The maps are written
 * here, so that all of the format is met. */
#include "base/buf.h"
#include "check.h"
#include "text/tokenizer/base64.h"
#include "text/tokenizer/charsmap.h"

#include <stdio.h>

enum { RULES_MAX = 12, NODES_MAX = 2 + RULES_MAX * 15, ROUNDS = 400, LETTERS_MAX = 24 };

/* One character each. Those before the mark do not take it into their grapheme. */
static const char *const LETTERS[] = {"\r", "\n", "\xcc\x81", "a", "b", "\xef\xac\x81", "\xc3\xa4"};
enum { RETURN, LINE_FEED, MARK };

struct rule {
    char from[16], to[8];
};

struct rules {
    struct rule items[RULES_MAX];
    size_t count;
};

/* ---- the file ---- */

struct trie {
    uint32_t units[256 * NODES_MAX];
    size_t node_count; /* node i has its children behind unit 256 i, and its value there */
    struct buf strings;
};

static void put_rule(struct trie *t, const struct rule *rule) {
    size_t node = 1;
    for (const char *p = rule->from; *p; p++) {
        uint32_t byte = (uint8_t)*p, at = (uint32_t)(256 * node) ^ byte;
        if (!t->units[at])
            t->units[at] = (at ^ (uint32_t)(256 * ++t->node_count)) << 10 | byte;
        node = (at ^ t->units[at] >> 10) / 256;
        if (!p[1])
            t->units[at] |= 1 << 8;
    }
    t->units[256 * node] = 1u << 31 | (uint32_t)t->strings.len;
    buf_add(&t->strings, rule->to, strlen(rule->to) + 1);
}

static void put_u32(struct buf *out, size_t number) {
    for (int i = 0; i < 4; i++)
        buf_add_byte(out, (uint8_t)(number >> 8 * i));
}

/* The first node's units are behind 256, or, wide, behind 256 in steps of 256. */
static void write_map(const struct rules *rules, bool wide, struct buf *out) {
    static struct trie t;
    t = (struct trie){.units = {wide ? 1u << 10 | 1u << 9 : 256u << 10}, .node_count = 1};
    for (size_t i = 0; i < rules->count; i++)
        put_rule(&t, &rules->items[i]);
    put_u32(out, 256 * (t.node_count + 1) * 4);
    for (size_t i = 0; i < 256 * (t.node_count + 1); i++)
        put_u32(out, t.units[i]);
    buf_add_bytes(out, buf_bytes(&t.strings));
    buf_release(&t.strings);
}

/* ---- the twin ---- */

static const struct rule *prefix_of(const struct rules *rules, struct bytes s, bool longest) {
    const struct rule *best = NULL;
    for (size_t i = 0; i < rules->count; i++) {
        const struct rule *r = &rules->items[i];
        size_t len = strlen(r->from), known = best ? strlen(best->from) : 0;
        if (len <= s.len && !memcmp(r->from, s.data, len) &&
            (!best || (longest ? len > known : len < known)))
            best = r;
    }
    return best;
}

/* The characters of the grapheme that begins at a letter. */
static size_t grapheme_at(const uint8_t *letters, size_t count, size_t at) {
    size_t end = at + 1;
    if (letters[at] == RETURN && end < count && letters[end] == LINE_FEED)
        return 2;
    while (letters[at] >= MARK && end < count && letters[end] == MARK)
        end++;
    return end - at;
}

static void apply_slowly(const struct rules *rules, const uint8_t *letters, size_t count,
                         struct buf *out) {
    for (size_t at = 0, n; at < count; at += n) {
        struct buf whole = {0};
        n = grapheme_at(letters, count, at);
        for (size_t i = at; i < at + n; i++)
            buf_add_str(&whole, LETTERS[letters[i]]);
        const struct rule *r = whole.len < 6 ? prefix_of(rules, buf_bytes(&whole), false) : NULL;
        if (r)
            buf_add_str(out, r->to);
        for (size_t i = at; i < at + n && !r; i++) {
            const char *letter = LETTERS[letters[i]];
            const struct rule *own = prefix_of(rules, bytes_str(letter), false);
            buf_add_str(out, own ? own->to : letter);
        }
        buf_release(&whole);
    }
}

/* Every third time they are long: most such maps have more than 64 KiB. */
static void random_rules_of(struct rules *rules, int round) {
    static const char *const INTO[] = {"", "x", "yz", "\xc3\xa4"};
    *rules = (struct rules){0};
    bool big = round % 3 == 0;
    for (size_t wanted = big ? RULES_MAX : check_random() % RULES_MAX, i = 0; i < wanted; i++) {
        struct rule r = {0};
        struct buf from = {0};
        for (size_t n = (big ? 3 : 1) + check_random() % 3; n--;)
            buf_add_str(&from, LETTERS[check_random() % ARRAY_LEN(LETTERS)]);
        snprintf(r.from, sizeof r.from, "%s", buf_text(&from));
        buf_release(&from);
        snprintf(r.to, sizeof r.to, "%s", INTO[check_random() % ARRAY_LEN(INTO)]);
        const struct rule *same = prefix_of(rules, bytes_str(r.from), true);
        if (!same || strcmp(same->from, r.from) != 0)
            rules->items[rules->count++] = r;
    }
}

static void check_text(const struct charsmap *m, const struct rules *rules) {
    uint8_t letters[LETTERS_MAX];
    size_t count = check_random() % (LETTERS_MAX + 1), len = 0;
    struct buf text = {0}, got = {0}, want = {0};
    struct bytes to = {0};
    for (size_t i = 0; i < count; i++)
        buf_add_str(&text, LETTERS[letters[i] = (uint8_t)(check_random() % ARRAY_LEN(LETTERS))]);
    charsmap_apply(m, buf_bytes(&text), &got);
    apply_slowly(rules, letters, count, &want);
    const struct rule *longest = prefix_of(rules, buf_bytes(&text), true);
    bool found = charsmap_longest(m, buf_bytes(&text), &len, &to);
    bool same = bytes_equal(buf_bytes(&got), buf_bytes(&want)),
         as_long = longest ? found && len == strlen(longest->from) &&
                                 bytes_equal(to, bytes_str(longest->to))
                           : !found;
    if (!same || !as_long)
        check_fail(__FILE__, __LINE__, "'%s' becomes '%s', expected '%s' (longest %zu)",
                   buf_text(&text), buf_text(&got), buf_text(&want), len);
    buf_release(&text);
    buf_release(&got);
    buf_release(&want);
}

TEST(maps_change_graphemes_and_characters_as_their_rules_say) {
    for (int round = 0; round < ROUNDS; round++) {
        struct rules rules;
        struct charsmap m;
        struct buf blob = {0};
        random_rules_of(&rules, round);
        write_map(&rules, round % 2, &blob);
        EXPECT_EQ(charsmap_init(&m, buf_bytes(&blob), NULL), 0);
        for (int i = 0; i < 10; i++)
            check_text(&m, &rules);
        charsmap_release(&m);
        buf_release(&blob);
    }
}

/* What a walk says of each chunk: as it was, and as it becomes. */
TEST(a_grapheme_of_six_bytes_is_taken_apart) {
    static const struct rules RULES = {{{"\xef\xac\x81", "fi"}, {"a\xcc\x81", "A"}}, 2};
    static const struct {
        const char *text, *want;
    } CASES[] = {
        {"a\xcc\x81", "A"},                  /* three bytes */
        {"a\xcc\x81\xcc\x81", "A"},          /* five: the shortest prefix stands for all */
        {"a\xcc\x81\xcc\x81\xcc\x81", NULL}, /* seven: no character has a rule */
        {"\xef\xac\x81\xcc\x81", "fi"},      /* five */
        {"\xef\xac\x81\xcc\x81\xcc\x81", "fi\xcc\x81\xcc\x81"},
        {"b\xcc\x81\xcc\x81\xcc\x81"
         "a\xcc\x81",
         "b\xcc\x81\xcc\x81\xcc\x81"
         "A"},
    };
    struct charsmap m;
    struct buf blob = {0};
    write_map(&RULES, false, &blob);
    EXPECT_EQ(charsmap_init(&m, buf_bytes(&blob), NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct buf out = {0};
        charsmap_apply(&m, bytes_str(CASES[i].text), &out);
        EXPECT_STR(buf_text(&out), CASES[i].want ? CASES[i].want : CASES[i].text);
        buf_release(&out);
    }
    charsmap_release(&m);
    buf_release(&blob);
}

/* What is quiet is passed over in one go; a rule that begins with ASCII alone makes it loud. */
TEST(characters_without_a_rule_are_quiet) {
    static const struct rules RULES = {{{"a", "x"}, {"bc", "y"}, {"d\xcc\x81", "z"}}, 3};
    struct charsmap m;
    struct buf blob = {0};
    write_map(&RULES, false, &blob);
    EXPECT_EQ(charsmap_init(&m, buf_bytes(&blob), NULL), 0);
    for (int c = 1; c < 128; c++) {
        uint8_t text[] = {(uint8_t)c, 'e', 0xcc, 0x81};
        bool quiet = c != 'a' && c != 'b' && c != '\r';
        EXPECT_EQ(charsmap_is_quiet(&m, text, text + 4), quiet);
        EXPECT_EQ(charsmap_is_quiet(&m, text, text + 1), quiet);
        EXPECT(!charsmap_is_quiet(&m, text + 1, text + 4) &&
               !charsmap_is_quiet(&m, text + 2, text + 4));
    }
    charsmap_release(&m);
    buf_release(&blob);
}

/* Values point to strings: the last byte of all is the end of the last one, and what is behind it is no value. */
TEST(damaged_maps_are_refused_or_change_nothing) {
    struct buf blob = {0}, text = {0}, out = {0};
    struct charsmap m;
    struct error err;
    write_map(&(struct rules){{{"a", "x"}}, 1}, false, &blob);
    size_t trie = blob.len - 4 - 2;
    for (size_t len = 0; len < blob.len; len++) {
        bool good = len >= 4 + trie;
        EXPECT_EQ(charsmap_init(&m, bytes_of(blob.data, len), &err), good ? 0 : ERR_INVALID);
        EXPECT(good || !strcmp(err.text, "the precompiled character map is damaged"));
        charsmap_release(&m);
    }
    EXPECT_EQ(charsmap_init(&m, bytes_of("\0\0\0\0x\0\0\0", 8), &err), ERR_INVALID);
    EXPECT_EQ(charsmap_init(&m, bytes_of("\3\0\0\0abcdef", 10), &err), ERR_INVALID);
    for (uint32_t at = 1; at < 5; at++) {
        blob.data[4 + 4 * 512] = (char)at; /* the value of the only rule */
        EXPECT_EQ(charsmap_init(&m, buf_bytes(&blob), NULL), 0);
        buf_reset(&out);
        charsmap_apply(&m, bytes_str("ab"), &out);
        EXPECT_STR(buf_text(&out), at <= 2 ? "b" : "ab");
        charsmap_release(&m);
    }
    blob.data[blob.len - 1] = (char)0xff;
    EXPECT_EQ(charsmap_init(&m, buf_bytes(&blob), &err), ERR_INVALID);
    EXPECT_STR(err.text, "the precompiled character map is not UTF-8");
    EXPECT_EQ(charsmap_init_base64(&m, bytes_str("*"), &err), ERR_INVALID);
    EXPECT_STR(err.text, "the precompiled character map is not base64");
    buf_release(&blob);
    buf_release(&text);
    buf_release(&out);
}
