/*
 * strings_predicates.c - the methods of Python's str that answer yes or no, and str.format.
 */
#include "text/template/python.h"
#include "text/template/strings.h"

/* ---- questions ---- */

/* The letters that a question looks at one by one. */
static struct bytes letters_of(struct run *r, struct tvalue self) {
    run_burn(r, self.len / 8);
    return tvalue_text(self);
}

static struct tvalue all_in(struct run *r, struct tvalue self, struct args args, uint32_t set) {
    struct bytes s = letters_of(r, self);
    bool all = s.len;
    if (!method_no_arguments(r, args))
        return undefined_value();
    for (size_t i = 0; i < s.len && all;) {
        uint32_t cp;
        i += unicode_next(s.data + i, &cp);
        all = unicode_in(cp, set);
    }
    return tvalue_bool(all);
}
struct tvalue str_isalpha(struct run *r, struct tvalue self, struct args args) {
    return all_in(r, self, args, UNICODE_L);
}
struct tvalue str_isdigit(struct run *r, struct tvalue self, struct args args) {
    return all_in(r, self, args, 1 << UNICODE_ND);
}
struct tvalue str_isnumeric(struct run *r, struct tvalue self, struct args args) {
    return all_in(r, self, args, UNICODE_N);
}
struct tvalue str_isalnum(struct run *r, struct tvalue self, struct args args) {
    return all_in(r, self, args, UNICODE_L | UNICODE_N);
}

struct tvalue str_isspace(struct run *r, struct tvalue self, struct args args) {
    struct bytes s = letters_of(r, self);
    return method_no_arguments(r, args) ? tvalue_bool(s.len && !python_strip(s, true, false).len)
                                        : undefined_value();
}

struct tvalue str_isascii(struct run *r, struct tvalue self, struct args args) {
    bool ascii = method_no_arguments(r, args);
    for (uint32_t i = 0; i < self.len && ascii; i++)
        ascii = (uint8_t)self.text[i] < 0x80;
    return tvalue_bool(ascii);
}

static struct tvalue is_case(struct run *r, struct tvalue self, struct args args, uint32_t good,
                             uint32_t bad) {
    struct bytes s = letters_of(r, self);
    bool some = false, all = method_no_arguments(r, args);
    for (size_t i = 0; i < s.len && all;) {
        uint32_t cp;
        i += unicode_next(s.data + i, &cp);
        some |= unicode_in(cp, good);
        all = !unicode_in(cp, bad);
    }
    return tvalue_bool(some && all);
}
struct tvalue str_isupper(struct run *r, struct tvalue self, struct args args) {
    return is_case(r, self, args, 1 << UNICODE_LU, 1 << UNICODE_LL | 1 << UNICODE_LT);
}
struct tvalue str_islower(struct run *r, struct tvalue self, struct args args) {
    return is_case(r, self, args, 1 << UNICODE_LL, 1 << UNICODE_LU | 1 << UNICODE_LT);
}

struct tvalue str_isprintable(struct run *r, struct tvalue self, struct args args) {
    struct bytes s = letters_of(r, self);
    bool all = method_no_arguments(r, args);
    for (size_t i = 0; i < s.len && all;) {
        uint32_t cp;
        i += unicode_next(s.data + i, &cp);
        all = python_is_printable(cp);
    }
    return tvalue_bool(all);
}

struct tvalue str_isidentifier(struct run *r, struct tvalue self, struct args args) {
    struct bytes s = letters_of(r, self);
    bool all = method_no_arguments(r, args) && s.len;
    for (size_t i = 0; i < s.len && all;) {
        bool first = i == 0;
        uint32_t cp;
        i += unicode_next(s.data + i, &cp);
        bool digit =
            unicode_in(cp, 1 << UNICODE_ND) || unicode_in(cp, 1 << UNICODE_MN | 1 << UNICODE_MC);
        all = cp == '_' || unicode_in(cp, UNICODE_L | 1 << UNICODE_NL) || (!first && digit);
    }
    return tvalue_bool(all);
}

/* Capitals only at the beginnings of words, small letters only within. */
struct tvalue str_istitle(struct run *r, struct tvalue self, struct args args) {
    struct bytes s = letters_of(r, self);
    bool some = false, all = method_no_arguments(r, args), inside = false;
    for (size_t i = 0; i < s.len && all;) {
        uint32_t cp;
        i += unicode_next(s.data + i, &cp);
        bool upper = unicode_in(cp, 1 << UNICODE_LU | 1 << UNICODE_LT),
             lower = unicode_in(cp, 1 << UNICODE_LL);
        all = !(upper && inside) && !(lower && !inside);
        some |= upper || lower;
        inside = upper || lower;
    }
    return tvalue_bool(some && all);
}

/* ---- format ---- */
