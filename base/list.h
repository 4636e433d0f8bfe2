/*
 * list.h - a list in one text, its items with a separator between: names behind an option, lines.
 *
 * "a,b" and "a,b," have two items, "a,,b" has three, an empty text has none. Items are compared to
 * the byte, spaces included, unless a call says otherwise.
 *
 * Threading: pure.
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include "base/base.h"

/* The next item of what is left of a list, which *rest then points behind; the item lies in the list.
 * False: there is none. *rest may be NULL, which is an empty list. */
MUST_CHECK bool list_next(const char **rest, char separator, struct bytes *item);
/* The same without the spaces at an item's ends; items of nothing else are passed over. */
MUST_CHECK bool list_next_trimmed(const char **rest, char separator, struct bytes *item);
/* Whether an item of the list is this word. An empty word is in no list. */
MUST_CHECK bool list_has(const char *list, char separator, struct bytes word);

#endif
