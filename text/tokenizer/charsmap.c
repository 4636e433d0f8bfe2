#include "text/tokenizer/charsmap.h"

#include <utf8proc.h>

#include "base/utf8.h"
#include "text/tokenizer/base64.h"
#include "text/unicode.h"

/* ---- the double array ---- */

static size_t unit_offset(uint32_t unit) {
    return (size_t)(unit >> 10) << ((unit & 1u << 9) >> 6);
}

/* From a node over a byte; false: no key goes that way. *value: a key ends there. */
static bool take_byte(const struct charsmap *m, uint8_t byte, size_t *node, bool *value) {
    *node ^= byte;
    if (*node >= m->unit_count)
        return false;
    uint32_t unit = m->units[*node];
    if ((unit & 0x800000FFu) != byte)
        return false;
    *node ^= unit_offset(unit);
    *value = unit >> 8 & 1 && *node < m->unit_count;
    return true;
}

/* ---- loading ---- */

/* "\r" is left out: "\r\n" is one grapheme. */
static void find_quiet(struct charsmap *m) {
    for (unsigned byte = 1; byte < 128; byte++) {
        size_t node = unit_offset(m->units[0]), ignored;
        bool value, known = take_byte(m, (uint8_t)byte, &node, &value);
        m->quiet[byte] = !known || !value;
        for (unsigned next = 1; next < 128 && known; next++) {
            ignored = node;
            if (take_byte(m, (uint8_t)next, &ignored, &value))
                m->quiet[byte] = false;
        }
    }
    m->quiet['\r'] = false;
}

int charsmap_init(struct charsmap *m, struct bytes blob, struct error *err) {
    uint32_t trie_len = 0;
    *m = (struct charsmap){0};
    if (blob.len >= 4)
        trie_len = blob.data[0] | (uint32_t)blob.data[1] << 8 | (uint32_t)blob.data[2] << 16 |
                   (uint32_t)blob.data[3] << 24;
    if (blob.len < 8 || trie_len % 4 || !trie_len || trie_len > blob.len - 4)
        return error_set(err, ERR_INVALID, "the precompiled character map is damaged");
    struct bytes strings = bytes_of(blob.data + 4 + trie_len, blob.len - 4 - trie_len);
    if (!utf8_valid(strings.data, strings.len))
        return error_set(err, ERR_INVALID, "the precompiled character map is not UTF-8");
    m->unit_count = trie_len / 4;
    m->units = mem_calloc(m->unit_count, sizeof *m->units);
    for (size_t i = 0; i < m->unit_count; i++) {
        const uint8_t *p = blob.data + 4 + 4 * i;
        m->units[i] = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    }
    m->strings = mem_strndup((const char *)strings.data, strings.len);
    m->strings_len = strings.len;
    find_quiet(m);
    return 0;
}

int charsmap_init_base64(struct charsmap *m, struct bytes text, struct error *err) {
    struct buf blob = {0};
    int rc = base64_decode(text, &blob)
                 ? charsmap_init(m, buf_bytes(&blob), err)
                 : error_set(err, ERR_INVALID, "the precompiled character map is not base64");
    buf_release(&blob);
    return rc;
}

void charsmap_release(struct charsmap *m) {
    mem_free(m->units);
    mem_free(m->strings);
    *m = (struct charsmap){0};
}

/* ---- looking up ---- */

static bool string_at(const struct charsmap *m, uint32_t value, struct bytes *out) {
    size_t at = value & 0x7FFFFFFFu;
    if (at > m->strings_len)
        return false;
    *out = bytes_str(m->strings + at);
    return true;
}

/* Walks s through the trie; takes the first prefix with a value, or the last one. */
static bool look_up(const struct charsmap *m, struct bytes s, bool longest, size_t *len,
                    struct bytes *out) {
    size_t node = unit_offset(m->units[0]);
    bool found = false;
    for (size_t i = 0; i < s.len && s.data[i]; i++) {
        bool value;
        if (!take_byte(m, s.data[i], &node, &value))
            break;
        if (!value || !string_at(m, m->units[node], out))
            continue;
        found = true;
        *len = i + 1;
        if (!longest)
            break;
    }
    return found;
}

bool charsmap_longest(const struct charsmap *m, struct bytes s, size_t *len,
                      struct bytes *replacement) {
    return look_up(m, s, true, len, replacement);
}

/* ---- applying ---- */

/* What the chunk becomes by the string of its shortest prefix that has one. */
static bool transform(const struct charsmap *m, struct bytes chunk, struct bytes *becomes) {
    size_t len;
    return look_up(m, chunk, false, &len, becomes);
}

static size_t grapheme_len(struct bytes s) {
    utf8proc_int32_t state = 0;
    uint32_t cp, next;
    size_t at = unicode_next(s.data, &cp);
    while (at < s.len) {
        size_t n = unicode_next(s.data + at, &next);
        if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)cp, (utf8proc_int32_t)next, &state))
            break;
        cp = next;
        at += n;
    }
    return at;
}

bool charsmap_next(const struct charsmap *m, struct charsmap_walk *walk, struct bytes *chunk,
                   struct bytes *becomes) {
    struct bytes text = walk->text;
    uint32_t cp;
    if (!text.len)
        return false;
    size_t n = walk->single ? 0 : grapheme_len(text);
    *chunk = bytes_of(text.data, n);
    if (!n || n >= 6 || !transform(m, *chunk, becomes)) { /* its characters, this one first */
        walk->single = MAX(walk->single, n);
        *chunk = bytes_of(text.data, unicode_next(text.data, &cp));
        if (!transform(m, *chunk, becomes))
            *becomes = *chunk;
        walk->single -= chunk->len;
    }
    walk->text = bytes_of(text.data + chunk->len, text.len - chunk->len);
    return true;
}

static size_t quiet_run(const struct charsmap *m, struct bytes text) {
    size_t n = 0;
    while (n < text.len && charsmap_is_quiet(m, text.data + n, text.data + text.len))
        n++;
    return n;
}

void charsmap_apply(const struct charsmap *m, struct bytes text, struct buf *out) {
    struct charsmap_walk walk = {.text = text};
    struct bytes chunk, becomes;
    while (charsmap_next(m, &walk, &chunk, &becomes)) {
        buf_add_bytes(out, becomes);
        size_t n = walk.single ? 0 : quiet_run(m, walk.text);
        buf_add(out, walk.text.data, n);
        walk.text = bytes_of(walk.text.data + n, walk.text.len - n);
    }
}
