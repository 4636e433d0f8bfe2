/*
 * guard.h - what people write in a chat stays text, also when it spells a control token.
 *
 * A template puts users' strings between its own control tokens, and the tokenizer sees one text.
 * So, before the template runs, each spelling of a special token in a string of theirs gets a guard
 * behind its first character: one of the noncharacters U+FDD0 to U+FDEF that no string holds. After
 * rendering the guards are taken out again, and where they stood tells the tokenizer which
 * spellings are only text. Assistants' messages are left as they are: templates look for marks in
 * them.
 *
 * Threading: none; plain functions.
 */
#ifndef TEXT_GUARD_H
#define TEXT_GUARD_H

#include "text/template/value.h"
#include "text/tokenizer/tokenizer.h"

struct plain_spots {
    size_t *items; /* owned: rising byte offsets; vec_release */
    size_t count, cap;
};

/* Bit i: U+FDD0 + i is somewhere in v, keys included. */
uint32_t guards_used(struct tvalue v);
/* Puts guard (0 to 31) into the strings of v, keys excluded; false when the arena is out. Strings
 * that spell no special token are not touched. */
MUST_CHECK bool guard_strings(struct arena *a, const struct tokenizer *t, unsigned guard,
                              struct tvalue *v);
/* guard_strings for the messages of a chat whose role is not "assistant". */
MUST_CHECK bool guard_messages(struct arena *a, const struct tokenizer *t, unsigned guard,
                               struct tvalue messages);
/* Takes the guards out of text behind from; appends where the guarded spellings begin. */
void guards_take_out(struct buf *text, size_t from, unsigned guard, struct plain_spots *spots);

#endif
