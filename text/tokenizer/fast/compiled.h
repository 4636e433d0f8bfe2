/*
 * compiled.h - vocabularies kept ready to use: one file for each in a cache folder, mapped by
 * whoever needs it.
 *
 * Reading 150 000 tokens and as many merges takes a tenth of a second and several times their bytes
 * in tables. The tables are the same each time, so they are written once, as they lie in memory,
 * and mapped from then on: a gateway that starts has its tokenizer in some milliseconds, and
 * gateways on one machine share the tables' memory. What is not plain data (compiled patterns,
 * locks) is made anew from the texts of its rules.
 *
 * Invariants:
 *   (1) A file is used only when it is whole (its own checksum), was made from this very source (a
 *       hash of all its bytes) by this very program (its build id), belongs to this user and can be
 *       written by no one else. Otherwise the source is read and the file made anew.
 *   (2) A file is never changed once it is there, only replaced (rename): a mapping never changes.
 *   (3) Nothing here ever fails a load: without a folder that can be written all goes on as before.
 *
 * Threading: compiled_set_folder before other threads; the rest any thread.
 */
#ifndef TEXT_TOKENIZER_FAST_COMPILED_H
#define TEXT_TOKENIZER_FAST_COMPILED_H

#include "text/tokenizer/tokenizer.h"

/* Where the files lie; borrowed for the process's life. NULL: XDG_CACHE_HOME/trireme, else
 * HOME/.cache/trireme; "none": nowhere, as before the first call. A folder that cannot be made or
 * written is as good as none. */
void compiled_set_folder(const char *folder);

bool compiled_is_on(void);         /* there is a folder */
const char *compiled_folder(void); /* NULL: there is none */
/* Names a source by all the bytes that a tokenizer is made from. */
struct u128 compiled_key(const struct bytes *texts, size_t count);
/* The tokenizer that was kept under the key, owned by the caller, or NULL. */
struct tokenizer *compiled_open(struct u128 key);
/* Keeps the tokenizer, just loaded, under the key; *t is then one that lies in the file. Otherwise
 * it stays. */
void compiled_keep(struct u128 key, struct tokenizer **t);

/* For tokenizer*.c. The JSON of the normalizer, the pre-tokenizer and the decoder that t is made
 * with; not copied when nothing is kept. */
void compiled_note_rules(struct tokenizer *t, struct bytes normalizer, struct bytes pre_tokenizer,
                         struct bytes decoder);
/* Takes the mapped tables out of t, which is about to be freed. */
void compiled_detach(struct tokenizer *t);

#endif
