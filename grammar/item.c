#include "grammar/item.h"

#include "base/buf.h"
#include "base/hash.h"
#include "base/utf8.h"
#include "grammar/tree.h"

#include <stdlib.h>

static bool is_lead(uint8_t c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ',';
}

struct bytes item_without_lead(struct bytes text) {
    while (text.len && is_lead(*text.data))
        text = bytes_of(text.data + 1, text.len - 1);
    return text;
}

/* ---- what a text is worth ---- */

/* The digits of a number without zeros at either end, and the power of ten that the point before
 * them is worth: 0.DIGITS * 10^power. */
struct item_number {
    bool negative, has_exponent;
    struct buf digits;
    int64_t power;
};

static void number_read(struct bytes text, struct item_number *d) {
    enum { EXPONENT_DIGITS = 17 }; /* longer exponents are all the same */
    size_t i = text.len && text.data[0] == '-';
    bool point = false;
    *d = (struct item_number){.negative = i > 0};
    for (; i < text.len && (text.data[i] | 32) != 'e'; i++) {
        if (text.data[i] == '.') {
            point = true;
            continue;
        }
        bool lead = !d->digits.len && text.data[i] == '0';
        d->power += (lead ? 0 : !point) - (lead && point);
        if (!lead)
            buf_add_byte(&d->digits, (char)text.data[i]);
    }
    while (d->digits.len && d->digits.data[d->digits.len - 1] == '0')
        d->digits.len--;
    d->has_exponent = i < text.len;
    int64_t exponent = 0;
    bool down = i + 1 < text.len && text.data[i + 1] == '-';
    for (size_t n = 0; ++i < text.len;)
        if (text.data[i] >= '0' && text.data[i] <= '9' && (exponent || text.data[i] > '0'))
            exponent = n++ < EXPONENT_DIGITS ? exponent * 10 + (text.data[i] - '0') : INT64_MAX / 4;
    d->power = d->digits.len ? d->power + (down ? -exponent : exponent) : 0;
    d->negative &= d->digits.len > 0;
}

static void add_text(struct buf *out, char kind, struct bytes text) {
    buf_add_byte(out, kind);
    buf_add(out, &text.len, sizeof text.len);
    buf_add_bytes(out, text);
}

static void add_number(struct buf *out, struct bytes text) {
    struct item_number d;
    number_read(text, &d);
    add_text(out, d.negative ? '-' : '+', buf_bytes(&d.digits));
    buf_add(out, &d.power, sizeof d.power);
    buf_release(&d.digits);
}

struct named {
    struct bytes name;
    uint32_t node; /* of one parent, so later ones have higher numbers */
};

static int compare_named(const void *a, const void *b) {
    const struct named *x = a, *y = b;
    size_t len = MIN(x->name.len, y->name.len);
    int order = len ? memcmp(x->name.data, y->name.data, len) : 0;
    if (!order && x->name.len != y->name.len)
        order = x->name.len < y->name.len ? -1 : 1;
    return order ? order : x->node < y->node ? -1 : x->node > y->node;
}

/* Appends a spelling that all equal values have. */
static void add_value(const struct tree *t, uint32_t node, struct buf *out) {
    VEC(struct named) members = {0};
    switch (tree_kind(t, node)) {
    case TREE_STRING: add_text(out, '"', tree_text(t, node)); return;
    case TREE_NUMBER: add_number(out, tree_text(t, node)); return;
    case TREE_ARRAY:
        buf_add_byte(out, '[');
        for (uint32_t k = tree_first(t, node); k; k = tree_next(t, k))
            add_value(t, k, out);
        buf_add_byte(out, ']');
        return;
    case TREE_OBJECT:
        buf_add_byte(out, '{');
        for (uint32_t k = tree_first(t, node); k; k = tree_next(t, k))
            vec_push(&members, ((struct named){tree_key(t, k), k}));
        if (members.count > 1)
            qsort(members.items, members.count, sizeof *members.items, compare_named);
        for (size_t i = 0; i < members.count; i++) {
            add_text(out, ':', members.items[i].name);
            add_value(t, members.items[i].node, out);
        }
        buf_add_byte(out, '}');
        vec_release(&members);
        return;
    default: buf_add_byte(out, (char)('0' + tree_kind(t, node))); return;
    }
}

bool item_hash(struct bytes text, uint64_t seed, struct u128 *out) {
    struct tree t = {0};
    struct error err;
    struct buf spelled = {0};
    uint32_t root;
    bool ok = !tree_read(&t, text, ITEM_DEPTH_MAX, &root, &err) && root;
    if (ok) {
        add_value(&t, root, &spelled);
        *out = hash128(spelled.data, spelled.len, seed);
    }
    buf_release(&spelled);
    tree_release(&t);
    return ok;
}

/* ---- what may become equal ---- */

static bool begins_number(uint8_t c) {
    return (c >= '0' && c <= '9') || c == '-';
}

static bool in_number(uint8_t c) {
    return begins_number(c) || c == '+' || c == '.' || (c | 32) == 'e';
}

void item_split(struct bytes text, item_scalar_vec *out) {
    for (size_t i = 0; i < text.len;) {
        struct item_scalar scalar = {.string = text.data[i] == '"'};
        if (!scalar.string && !begins_number(text.data[i])) {
            i++;
            continue;
        }
        scalar.at = i += scalar.string;
        if (!scalar.string)
            while (i < text.len && in_number(text.data[i]))
                i++;
        else
            while (i < text.len && text.data[i] != '"')
                i += text.data[i] == '\\' ? 2 : 1;
        i = MIN(i, text.len);
        scalar.len = i - scalar.at;
        scalar.whole = i < text.len;
        vec_push(out, scalar);
        i += scalar.string;
    }
}

static struct bytes scalar_text(const struct item_text *of, size_t scalar) {
    return bytes_of(of->text.data + of->scalars[scalar].at, of->scalars[scalar].len);
}

enum { CHAR_END = -1, CHAR_CUT = -2 }; /* a character that is not all there */

static int32_t hex4(const uint8_t *digits) {
    int32_t value = 0;
    for (int i = 0; i < 4; i++)
        value = value << 4 | hex_value(digits[i]);
    return value;
}

/* The next character of a string's text, however it is written. */
static int32_t next_char(struct bytes text, size_t *at) {
    static const char FROM[] = "bfnrt", TO[] = "\b\f\n\r\t";
    const uint8_t *p = text.data + *at;
    size_t left = text.len - *at;
    if (!left)
        return CHAR_END;
    if (*p != '\\') {
        uint32_t cp;
        size_t len = utf8_decode(p, left, &cp);
        *at += len;
        return len ? (int32_t)cp : CHAR_CUT;
    }
    if (left < 2 || (p[1] == 'u' && left < 6))
        return CHAR_CUT;
    if (p[1] != 'u') {
        const char *simple = strchr(FROM, p[1]);
        *at += 2;
        return simple ? TO[simple - FROM] : p[1];
    }
    int32_t high = hex4(p + 2), low = 0;
    if (high < 0xd800 || high >= 0xdc00) {
        *at += 6;
        return high;
    }
    if (left < 12)
        return CHAR_CUT;
    low = p[6] == '\\' && p[7] == 'u' ? hex4(p + 8) : 0;
    bool pair = low >= 0xdc00 && low < 0xe000;
    *at += pair ? 12 : 6;
    return pair ? 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00) : high;
}

static void add_all(struct byte_set *next) {
    if (next)
        memset(next, 0xff, sizeof *next);
}

/* A string that has begun, or is whole, and one that is whole. */
static bool string_may_become(struct bytes begun, bool whole, struct bytes item,
                              struct byte_set *next) {
    size_t at = 0, of_item = 0;
    for (;;) {
        int32_t mine = next_char(begun, &at);
        int32_t other = mine == CHAR_CUT ? 0 : next_char(item, &of_item);
        if (mine == CHAR_CUT)
            add_all(next);
        if (mine == CHAR_CUT || (mine == CHAR_END && whole && other == CHAR_END))
            return true;
        if (mine != CHAR_END && mine != other)
            return false;
        if (mine != CHAR_END)
            continue;
        if (whole)
            return false;
        char utf8[4] = {0};
        if (other == CHAR_END)
            utf8[0] = '"';
        else if (!utf8_encode((uint32_t)other, utf8))
            utf8[0] = '\\'; /* half of a pair, which has no other spelling */
        if (next) {
            byte_set_add(next, (uint8_t)utf8[0]);
            byte_set_add(next, other == CHAR_END ? '"' : '\\');
        }
        return true;
    }
}

/* The digits of a number in turn, zeros in front of the first other one left out; -1: no more. */
static int next_digit(struct bytes text, size_t *at, bool first) {
    for (; *at < text.len && (text.data[*at] | 32) != 'e'; ++*at) {
        uint8_t c = text.data[*at];
        if (c >= '0' && c <= '9' && !(first && c == '0')) {
            ++*at;
            return c;
        }
    }
    return -1;
}

static void add_behind_number(struct byte_set *next) {
    static const uint8_t BEHIND[] = {' ', '\t', '\n', '\r', ',', ']', '}'};
    for (size_t i = 0; i < sizeof BEHIND; i++)
        byte_set_add(next, BEHIND[i]);
}

/* By digits alone, whatever exponents say: those of what has begun must be the item's, behind which
 * there are zeros without end. */
static bool number_may_become(struct bytes begun, bool whole, struct bytes item,
                              struct byte_set *next) {
    size_t at = 0, of_item = 0;
    bool minus = begun.len && *begun.data == '-';
    bool exponent = memchr(begun.data, 'e', begun.len) || memchr(begun.data, 'E', begun.len);
    int mine = next_digit(begun, &at, true), other = next_digit(item, &of_item, true);
    bool zero = mine < 0, zero_item = other < 0;
    for (; mine >= 0; mine = next_digit(begun, &at, false)) {
        if (mine != (other < 0 ? '0' : other))
            return false;
        other = other < 0 ? -1 : next_digit(item, &of_item, false);
    }
    int follows = other < 0 ? '0' : other;
    bool equal = true; /* nothing but zeros is left of the item */
    for (; other >= 0; other = next_digit(item, &of_item, false))
        equal &= other == '0';
    if ((minus != (*item.data == '-') && !(zero && zero_item)) || ((whole || exponent) && !equal))
        return false;
    if (next && exponent)
        add_all(next);
    if (!next || exponent)
        return true;
    byte_set_add(next, (uint8_t)follows);
    byte_set_add(next, '.');
    byte_set_add(next, 'e');
    byte_set_add(next, 'E');
    if (zero)
        byte_set_add(next, '0');
    if (equal)
        add_behind_number(next);
    return true;
}

/* The item has a scalar that this one is or may become. */
static bool has_scalar(const struct item_text *begun, size_t scalar, const struct item_text *item,
                       struct byte_set *next) {
    const struct item_scalar *mine = &begun->scalars[scalar];
    struct bytes text = scalar_text(begun, scalar);
    bool found = false;
    for (size_t i = 0; i < item->scalar_count && !(found && mine->whole); i++)
        if (item->scalars[i].string == mine->string)
            found |= mine->string
                         ? string_may_become(text, mine->whole, scalar_text(item, i), next)
                         : number_may_become(text, mine->whole, scalar_text(item, i), next);
    return found;
}

/* Arrays and objects: all scalars must be the item's. */
static bool scalars_may_become(const struct item_text *begun, const struct item_text *item,
                               struct byte_set *next) {
    struct byte_set behind = {{0}};
    bool in_scalar = false;
    for (size_t i = begun->scalar_count; i-- > 0;) { /* the last one tells most */
        bool last = !begun->scalars[i].whole;
        if (!has_scalar(begun, i, item, last ? &behind : NULL))
            return false;
        in_scalar |= last;
    }
    if (!in_scalar)
        add_all(next);
    for (size_t i = 0; next && i < ARRAY_LEN(next->bits); i++)
        next->bits[i] |= behind.bits[i];
    return true;
}

/* What an item may begin with that becomes this one, and what may stand in front. */
static void add_first(struct bytes item, struct byte_set *next) {
    static const uint8_t LEAD[] = {' ', '\t', '\n', '\r', ','};
    size_t at = 0;
    int digit = begins_number(*item.data) ? next_digit(item, &at, true) : *item.data;
    for (size_t i = 0; i < sizeof LEAD; i++)
        byte_set_add(next, LEAD[i]);
    byte_set_add(next, digit < 0 ? '0' : (uint8_t)digit);
    if (begins_number(*item.data)) {
        byte_set_add(next, '0');
        byte_set_add(next, '-');
    }
}

bool item_may_become(const struct item_text *begun, const struct item_text *item,
                     struct byte_set *next) {
    if (!begun->text.len) {
        if (next)
            add_first(item->text, next);
        return true;
    }
    uint8_t first = *begun->text.data, other = *item->text.data;
    bool number = begins_number(first);
    if (number ? !begins_number(other) : first != other)
        return false;
    if (first == '{' || first == '[')
        return scalars_may_become(begun, item, next);
    if (first == '"' || number)
        return has_scalar(begun, 0, item, next);
    add_all(next);
    return begun->text.len <= item->text.len &&
           !memcmp(begun->text.data, item->text.data, begun->text.len);
}

/* ---- tokens ---- */

/* True: a comma between items. */
static bool place_step(struct item_place *p, uint8_t c) {
    if (p->in_string) {
        bool closes = c == '"' && !p->escaped;
        p->escaped = c == '\\' && !p->escaped;
        p->in_string = !closes;
        return false;
    }
    p->in_string = c == '"';
    p->depth += (c == '[' || c == '{') - (c == ']' || c == '}');
    return c == ',' && p->depth == 0;
}

struct item_place item_place_of(struct bytes begun) {
    struct item_place p = {0};
    for (size_t i = 0; i < begun.len; i++)
        (void)place_step(&p, begun.data[i]);
    return p;
}

size_t item_token_comma(struct item_place p, struct bytes token) {
    for (size_t i = 0; i < token.len && p.depth >= 0; i++)
        if (place_step(&p, token.data[i]))
            return i;
    return token.len;
}
