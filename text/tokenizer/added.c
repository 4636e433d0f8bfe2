#include "text/tokenizer/added.h"

#include "text/unicode.h"

void added_init(struct added_set *set) {
    *set = (struct added_set){.first_byte = -2};
    vec_push(&set->nodes, (struct added_node){0});
}

void added_release(struct added_set *set) {
    vec_release(&set->tokens);
    vec_release(&set->nodes);
}

static uint32_t new_node(struct added_set *set, uint8_t byte) {
    vec_push(&set->nodes, ((struct added_node){.byte = byte}));
    return (uint32_t)set->nodes.count - 1;
}

static uint32_t find_child(const struct added_set *set, uint32_t node, uint8_t byte) {
    uint32_t child = set->nodes.items[node].child;
    while (child && set->nodes.items[child].byte != byte)
        child = set->nodes.items[child].sibling;
    return child;
}

static uint32_t child_or_new(struct added_set *set, uint32_t node, uint8_t byte) {
    uint32_t child = find_child(set, node, byte);
    if (child)
        return child;
    child = new_node(set, byte);
    set->nodes.items[child].sibling = set->nodes.items[node].child;
    set->nodes.items[node].child = child;
    return child;
}

int added_add(struct added_set *set, struct bytes content, struct added_token token,
              struct error *err) {
    if (!content.len)
        return 0;
    if (content.len > ADDED_BYTES_MAX)
        return error_set(err, ERR_LIMIT, "added token %u is %zu bytes long (at most %d)", token.id,
                         content.len, ADDED_BYTES_MAX);
    if (set->tokens.count >= ADDED_TOKENS_MAX)
        return error_set(err, ERR_LIMIT, "more than %d added tokens", ADDED_TOKENS_MAX);
    uint8_t first = content.data[0];
    if (!set->roots[first])
        set->roots[first] = new_node(set, first);
    set->first_byte = set->first_byte == -2 || set->first_byte == first ? first : -1;
    uint32_t node = set->roots[first];
    for (size_t i = 1; i < content.len; i++)
        node = child_or_new(set, node, content.data[i]);
    vec_push(&set->tokens, token);
    set->nodes.items[node].token = (uint32_t)set->tokens.count;
    return 0;
}

/* First position at or after p whose byte begins some token. */
static const uint8_t *find_first(const struct added_set *set, const uint8_t *p,
                                 const uint8_t *end) {
    if (set->first_byte == -2 || p == end)
        return end;
    if (set->first_byte >= 0) {
        p = memchr(p, set->first_byte, (size_t)(end - p));
        return p ? p : end;
    }
    while (p < end && !set->roots[*p])
        p++;
    return p;
}

/* The longest token that begins at p; its end in *stop. */
static const struct added_token *match_at(const struct added_set *set, const uint8_t *p,
                                          const uint8_t *end, const uint8_t **stop) {
    uint32_t node = set->roots[*p], found = 0;
    while (node) {
        p++;
        if (set->nodes.items[node].token) {
            found = set->nodes.items[node].token;
            *stop = p;
        }
        node = p < end ? find_child(set, node, *p) : 0;
    }
    return found ? &set->tokens.items[found - 1] : NULL;
}

const struct added_token *added_longest(const struct added_set *set, struct bytes text,
                                        size_t *len) {
    const uint8_t *stop;
    const struct added_token *token =
        text.len ? match_at(set, text.data, text.data + text.len, &stop) : NULL;
    if (token)
        *len = (size_t)(stop - text.data);
    return token;
}

size_t added_prefix(const struct added_set *set, struct bytes text) {
    size_t len;
    return added_longest(set, text, &len) ? len : 0;
}

static bool touches_word(struct bytes text, const uint8_t *begin, const uint8_t *end) {
    uint32_t cp;
    if (begin > text.data && (unicode_prev(begin, &cp), unicode_is_word(cp)))
        return true;
    return end < text.data + text.len && (unicode_next(end, &cp), unicode_is_word(cp));
}

/* Takes white space along where the token's rules say so. */
static void strip(const struct added_token *token, const uint8_t *floor, const uint8_t *ceiling,
                  const uint8_t **begin, const uint8_t **end) {
    uint32_t cp;
    while (token->lstrip && *begin > floor) {
        size_t n = unicode_prev(*begin, &cp);
        if (!unicode_is_space(cp))
            break;
        *begin -= n;
    }
    while (token->rstrip && *end < ceiling) {
        size_t n = unicode_next(*end, &cp);
        if (!unicode_is_space(cp))
            break;
        *end += n;
    }
}

bool added_has_spot(const struct added_skips *skips, size_t begin, size_t end) {
    size_t low = 0, high = skips->spot_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (skips->spots[middle] < begin)
            low = middle + 1;
        else
            high = middle;
    }
    return low < skips->spot_count && skips->spots[low] < end;
}

static bool is_skipped(const struct added_skips *skips, size_t at) {
    return skips->all || added_has_spot(skips, at, at + 1);
}

bool added_next(const struct added_set *set, struct bytes text, size_t from,
                const struct added_skips *skips, struct added_match *out) {
    CHECK(from <= text.len);
    if (set->first_byte == -2 || from >= text.len)
        return false;
    const uint8_t *end = text.data + text.len, *p = text.data + from, *stop = NULL;
    while ((p = find_first(set, p, end)) < end) {
        const struct added_token *token = match_at(set, p, end, &stop);
        if (!token) {
            p++;
            continue;
        }
        size_t content = (size_t)(p - text.data);
        if ((token->special && is_skipped(skips, content)) ||
            (token->single_word && touches_word(text, p, stop))) {
            p = stop;
            continue;
        }
        strip(token, text.data + from, end, &p, &stop);
        *out = (struct added_match){(size_t)(p - text.data), (size_t)(stop - text.data), content,
                                    token};
        return true;
    }
    return false;
}
