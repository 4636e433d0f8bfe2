/*
 * charsmap.h - SentencePiece's precompiled normalization: a double-array trie (Darts) from bytes to
 * replacement strings.
 *
 * Applied as HF does: to each grapheme of fewer than 6 bytes as a whole, else to each character; a
 * lookup takes the *shortest* prefix in the trie and replaces the whole chunk by it.
 *
 * Threading: const after charsmap_init.
 */
#ifndef TEXT_TOKENIZER_CHARSMAP_H
#define TEXT_TOKENIZER_CHARSMAP_H

#include "base/buf.h"
#include "base/error.h"

struct charsmap {
    uint32_t *units; /* owned */
    size_t unit_count;
    char *strings; /* owned; zero-terminated strings, one after the other */
    size_t strings_len;
    /* by ASCII character: neither it nor it with another one behind it begins a rule */
    bool quiet[128];
};

/* From the blob: u32 bytes of the trie, the trie, the strings. */
MUST_CHECK int charsmap_init(struct charsmap *m, struct bytes blob, struct error *err);
/* From base64 of it, as in tokenizer.json. */
MUST_CHECK int charsmap_init_base64(struct charsmap *m, struct bytes text, struct error *err);
/* Gives back all memory. */
void charsmap_release(struct charsmap *m);
/* A walk over what charsmap_apply does to a text; set text, the rest zero. */
struct charsmap_walk {
    struct bytes text;
    size_t single; /* private: bytes that are looked up character by character */
};
/* The next chunk of the text, and what it becomes (the chunk itself when it stays). False: no
 * more. */
bool charsmap_next(const struct charsmap *m, struct charsmap_walk *walk, struct bytes *chunk,
                   struct bytes *becomes);
/* Appends the normalized text (valid UTF-8 in). */
void charsmap_apply(const struct charsmap *m, struct bytes text, struct buf *out);
/* No rule changes the character at p: it is quiet and in front of ASCII or the end. */
static inline bool charsmap_is_quiet(const struct charsmap *m, const uint8_t *p,
                                     const uint8_t *end) {
    return *p < 0x80 && m->quiet[*p] && (p + 1 == end || p[1] < 0x80);
}
/* The replacement of the longest prefix of s that has one, as SentencePiece itself takes it; *len:
 * the bytes it replaces. False: none. */
bool charsmap_longest(const struct charsmap *m, struct bytes s, size_t *len,
                      struct bytes *replacement);

#endif
