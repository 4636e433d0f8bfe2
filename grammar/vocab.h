/*
 * vocab.h - the tokens of a vocabulary as the matcher asks for them: a trie over their bytes, and
 * what each of them does inside a JSON string.
 *
 * Most masks of JSON are asked for inside a string, where nearly every token may come. So each
 * token is read once from the inside of a string (STATE_BODY): either it stays inside, or it closes
 * the string after some characters and a remainder follows. The remainders are a small trie of
 * their own, walked instead of the whole vocabulary.
 *
 * Control tokens and those without bytes are in neither; no grammar allows them but for the ends
 * of sequence, which a mask allows where the text may end.
 *
 * Threading: immutable once made; shared.
 */
#ifndef GRAMMAR_VOCAB_H
#define GRAMMAR_VOCAB_H

#include "base/error.h"
#include "base/vec.h"

enum { VOCAB_TOKEN_BYTES_MAX = 255 }; /* longer tokens are never allowed */

/* Nodes in preorder: a node's subtree is [node + 1, end). */
struct trie_node {
    uint32_t end;
    uint32_t token_first; /* of the tokens that end here; they reach to the next node's first */
    uint8_t byte, depth;  /* depth of the first byte: 1 */
};
struct trie_token {
    uint32_t id;
    uint32_t chars; /* whole characters of the string in front of its quote; 0 in the full trie */
};
struct trie {
    VEC(struct trie_node) nodes; /* node 0: the root, without a byte; one more behind the last */
    VEC(struct trie_token) tokens;
};

/* Tokens that stay inside a string need so many more characters of its length. */
struct vocab_need {
    uint32_t id, chars;
};

struct vocab {
    uint32_t token_count, word_count; /* words of a mask, 32 tokens each */
    struct bytes *tokens;             /* [token_count], into text; empty: none */
    uint8_t *text;
    uint32_t *ends; /* tokens that end a sequence */
    uint32_t end_count;
    struct trie all, behind_string;
    uint32_t *stay;               /* [word_count]: tokens that stay inside a string */
    VEC(struct vocab_need) needs; /* of these, fewest characters first */
};

/* tokens: the bytes of each id, empty for control tokens and holes (copied); ends: ids. */
struct vocab *vocab_new(const struct bytes *tokens, uint32_t token_count, const uint32_t *ends,
                        uint32_t end_count);
/* After the last run that uses it; clears *vocab. */
void vocab_free(struct vocab **vocab);

#endif
