/*
 * schema_range.h - decimals, and the numbers between two of them as automata over their texts. For
 * the schema*.c files.
 */
#ifndef GRAMMAR_SCHEMA_RANGE_H
#define GRAMMAR_SCHEMA_RANGE_H

#include "grammar/schema_internal.h"

enum { DIGITS_MAX = 800 };

/* A decimal without exponent: sign, digits in front of and behind the point, no needless zeros. */
struct decimal {
    bool negative;
    char whole[DIGITS_MAX], fraction[DIGITS_MAX];
    size_t whole_count, fraction_count;
};
/* Reads a number of JSON. False: it has too many digits, or too large an exponent. */
MUST_CHECK bool decimal_read(struct bytes text, struct decimal *d);
bool decimal_is_zero(const struct decimal *d);
/* -1, 0, 1 */
int decimal_compare(const struct decimal *a, const struct decimal *b);

struct bound {
    bool set, open; /* open: the bound itself is out */
    struct decimal at;
};
struct range {
    struct bound low, high;
};
/* The numbers in a range; whole: of integers, as far as a fraction of zeros tells. ERR_LIMIT. */
MUST_CHECK int number_range_dfa(struct schema *s, const struct range *r, bool whole,
                                struct dfa *out, struct error *err);

/* Integers of an exponent are above, below or at another one. */
enum relation { AT, ABOVE, BELOW };
/* [.digits] behind a whole number; whole: only zeros. */
void number_add_fraction(struct nfa *n, uint32_t from, bool whole, uint32_t to);
/* [eE] and an exponent. */
void number_add_exponent(struct nfa *n, uint32_t from, long than, enum relation r, uint32_t to);

#endif
