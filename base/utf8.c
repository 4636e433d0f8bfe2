#include "base/utf8.h"

#include "base/utf8_block.h"

/*
 * For each first byte: the length of its character and the range of its second byte, which is what
 * rules out overlong forms, surrogates and code points past U+10FFFF (RFC 3629, section 4). Length
 * 0: no character starts so.
 */
struct lead {
    uint8_t len, second_min, second_max;
};

static struct lead lead_of(uint8_t c) {
    if (c < 0x80)
        return (struct lead){1, 0, 0};
    if (c < 0xc2)
        return (struct lead){0, 0, 0};
    if (c < 0xe0)
        return (struct lead){2, 0x80, 0xbf};
    if (c < 0xf0)
        return (struct lead){3, c == 0xe0 ? 0xa0 : 0x80, c == 0xed ? 0x9f : 0xbf};
    if (c < 0xf5)
        return (struct lead){4, c == 0xf0 ? 0x90 : 0x80, c == 0xf4 ? 0x8f : 0xbf};
    return (struct lead){0, 0, 0};
}

static bool follows(struct lead lead, const uint8_t *s, size_t idx) {
    if (idx == 1)
        return s[1] >= lead.second_min && s[1] <= lead.second_max;
    return (s[idx] & 0xc0) == 0x80;
}

static inline bool is_inside(uint8_t c) {
    return (c & 0xc0) == 0x80;
}

/* Length of the character at s, 0 for bad or cut. */
static inline size_t char_len(const uint8_t *s, size_t len) {
    if (s[0] < 0x80)
        return 1;
    /* Most of three bytes, whose second may be any. */
    if (len >= 3 && s[0] > 0xe0 && s[0] < 0xf0 && s[0] != 0xed && is_inside(s[1]) &&
        is_inside(s[2]))
        return 3;
    struct lead lead = lead_of(s[0]);
    if (!lead.len || lead.len > len)
        return 0;
    for (size_t i = 1; i < lead.len; i++)
        if (!follows(lead, s, i))
            return 0;
    return lead.len;
}

static bool ascii8(const uint8_t *s) {
    uint64_t word;
    memcpy(&word, s, 8);
    return !(word & 0x8080808080808080u);
}

static bool ascii32(const uint8_t *s) {
    uint64_t words[4];
    memcpy(words, s, 32);
    return !((words[0] | words[1] | words[2] | words[3]) & 0x8080808080808080u);
}

size_t utf8_valid_prefix(const void *data, size_t len) {
    const uint8_t *s = data;
    size_t at = 0, blocks_from = 0; /* where blocks are worth trying again */
    while (at < len) {
        while (len - at >= 32 && ascii32(s + at))
            at += 32;
        if (len - at >= 8 && ascii8(s + at)) {
            at += 8;
            continue;
        }
        if (at == len)
            break;
        if (at >= blocks_from) {
            size_t skipped = utf8_skip_blocks(s, at, len);
            blocks_from = skipped + 64;
            if (skipped > at) {
                at = skipped;
                continue;
            }
        }
        size_t n = char_len(s + at, len - at);
        if (!n)
            break;
        at += n;
    }
    return at;
}

bool utf8_valid(const void *data, size_t len) {
    return utf8_valid_prefix(data, len) == len;
}

bool utf8_is_partial(const void *data, size_t len) {
    const uint8_t *s = data;
    if (len < 1 || len > 3)
        return false;
    struct lead lead = lead_of(s[0]);
    if (lead.len <= len)
        return false;
    for (size_t i = 1; i < len; i++)
        if (!follows(lead, s, i))
            return false;
    return true;
}

size_t utf8_decode(const void *data, size_t len, uint32_t *cp) {
    static const uint8_t LEAD_MASK[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    const uint8_t *s = data;
    size_t n = len ? char_len(s, len) : 0;
    if (!n)
        return 0;
    uint32_t value = s[0] & LEAD_MASK[n];
    for (size_t i = 1; i < n; i++)
        value = value << 6 | (s[i] & 0x3f);
    *cp = value;
    return n;
}

size_t utf8_encode(uint32_t cp, char out[4]) {
    if (cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
        return 0;
    size_t n = cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    static const uint8_t LEAD_BITS[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n; i-- > 1; cp >>= 6)
        out[i] = (char)(0x80 | (cp & 0x3f));
    out[0] = (char)(LEAD_BITS[n] | cp);
    return n;
}
