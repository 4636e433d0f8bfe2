/*
 * option_spelling.h - which row a flag means, however it is spelled. For the option_*.c files.
 *
 * A spelling is a flag as typed, dashes included, up to "=": "--ctx-size", "-ngl".
 */
#ifndef BASE_OPTION_SPELLING_H
#define BASE_OPTION_SPELLING_H

#include "base/option.h"

/* The row whose name is `name` (without dashes), where dash stands for '-'. NULL: none. */
const struct option_row *option_find_row(const struct option_table *table, const char *name,
                                         size_t len, char dash);
/* The row that has this spelling among its aliases; NULL: none. *negated: the alias means false. */
const struct option_row *option_find_alias(const struct option_table *table, const char *spelling,
                                           size_t len, bool *negated);
/* The entry of table->foreign that has this spelling; NULL: none. */
const struct option_foreign *option_find_foreign(const struct option_table *table,
                                                 const char *spelling, size_t len);
/* The visible row one of whose spellings is nearest to this one; NULL: none is near. */
const struct option_row *option_find_nearest(const struct option_table *table, const char *spelling,
                                             size_t len);
/* What a value behind an alias of row is called here; the value itself where nothing else is said.
 * The answer lies in room or is value. NULL: it is none of the words that the row takes. */
const char *option_alias_value(const struct option_row *row, const char *value, char *room,
                               size_t room_len);
/* True when word is in a list of words with blanks between. */
bool option_list_has(const char *list, const char *word, size_t len);
/* How many letters are to be put in, left out, changed or swapped to make one of the other; at most
 * 64 letters of each count. */
size_t option_distance(const char *a, size_t a_len, const char *b, size_t b_len);

#endif
