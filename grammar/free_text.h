/*
 * free_text.h - what text may go on behind a position, whatever its order: looked for once, so that
 * a walk over the vocabulary takes whole subtrees in which nothing can be refused.
 *
 * The sets that text leads to are looked through, as far as a bound allows. Of each is then known
 * what it takes to be refused behind it: of a word that must not come, its bytes and its length.
 * These obstacles are found backwards, from the bytes that may not come. Text is free where it holds
 * not all that any of them asks for.
 *
 * Bytes that lead nowhere soon, like those between the pieces of an address, are left out first, so
 * that what is left may go on for long. Where that would leave out letters, as for words that must not
 * come, text of all bytes is looked for instead.
 *
 * For run.h's sets of threads; used by mask.c alone.
 *
 * Invariants:
 *   (1) Text of bytes that `may` tells which is refused behind a known set, after its n-th byte, has
 *       one of the set's obstacles: all of its bytes, one of `some` if there are any, its pair, and
 *       at most n for its length.
 *
 * Threading: as the grammar_run's.
 */
#ifndef GRAMMAR_FREE_TEXT_H
#define GRAMMAR_FREE_TEXT_H

#include "grammar/run.h"

enum { FREE_SETS_MAX = 384, FREE_SLOTS = 1024, OBSTACLES_MAX = 12 };

/* What text holds before it is refused. */
struct obstacle {
    struct text_bytes all, some; /* every one of these; one of these, unless there are none */
    uint16_t pair;               /* these two side by side (byte_pair), or PAIR_NONE */
    uint8_t len;                 /* at least so many bytes, the refused one included */
    uint8_t first;               /* the plain byte that it begins with, or one of these: */
};
enum {
    PAIR_NONE = UINT16_MAX,
    FIRST_ANY = UINT8_MAX,
    FIRST_WITHIN = FIRST_ANY - 1, /* what is left of the character that is refused */
};
struct free_set {
    uint32_t set;
    uint8_t state; /* enum text_state */
    uint8_t depth; /* bytes behind the first */
    uint8_t count; /* obstacles; each asks for something that no other is content without */
    struct obstacle obstacles[OBSTACLES_MAX];
};
/* Text of some bytes. */
struct free_text {
    struct text_bytes may;
    uint32_t some, whole;       /* groups of which some may come, and all */
    bool opens;                 /* there may be sets that are open (free_text_is_open) */
    uint32_t room;              /* bytes of text about which the obstacles tell all */
    VEC(struct free_set) sets;  /* at most FREE_SETS_MAX; none: there is too little text */
    uint16_t slots[FREE_SLOTS]; /* 1 + a place in sets, by hash */
};

/* Enough bytes may come behind the set for text. */
bool free_text_may_begin(struct grammar_run *run, uint32_t set);
/* What goes on from `set`; f is zeroes, or was found before. The trie says which pairs are rare.
 * False, and there is none: sets are many since stacks grow, which `any_stack` does not mind. */
bool free_text_find(struct free_text *f, struct grammar_run *run, const struct trie *t,
                    uint32_t set, bool any_stack);
/* f may be zeroes. */
void free_text_release(struct free_text *f);
/* It is of most bytes that may come behind the set. */
bool free_text_is_most(const struct free_text *f, struct grammar_run *run, uint32_t set);
/* What is below a node is of bytes that may come. */
static inline bool free_text_has(const struct free_text *f, const struct trie *t, uint32_t node) {
    uint32_t groups = t->groups[node];
    if (groups & ~f->some || t->nodes.items[node].height > f->room)
        return false;
    return !(groups & ~f->whole) || text_bytes_within(t->below[node], f->may);
}
/* Everything that is below a node may come behind it, which led to `set`. */
bool free_text_covers(const struct free_text *f, uint32_t set, const struct trie *t, uint32_t node);
/* No text of the bytes that may come is refused behind this set, between two characters. */
bool free_text_is_open(const struct free_text *f, uint32_t set);
/* The pairs one of which all text has that is refused behind the first set; OBSTACLES_MAX at most.
 * 0: there may be other text, or bytes of text that may not come. */
uint32_t free_text_pairs(const struct free_text *f, uint16_t *pairs);

#endif
