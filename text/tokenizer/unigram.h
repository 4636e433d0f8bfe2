/*
 * unigram.h - the unigram language model: of all ways to cut a piece into tokens, the one of
 * highest total score (Viterbi), as HF computes it.
 *
 * Tokens lie in a trie whose edges are a hash table, so all tokens that begin at a place are found
 * by one walk. Where no token crosses a place, the best way up to there is final: steps are kept
 * only from the last such place on (a word, in most text), while the score runs on, for its
 * rounding is part of the result. A character that no token covers alone costs the lowest score -
 * 10 and is the unknown token; neighbours are fused.
 *
 * A walk goes on as long as some token does: tokens of thousands of bytes, which no training
 * makes, would cost n² steps of a text of their letters. The steps of a piece are bounded, and what
 * takes more is refused. Tokens of up to UNIGRAM_STEPS_BYTE bytes never come near.
 *
 * Threading: struct unigram is const after unigram_init; a scratch belongs to one thread at a time.
 */
#ifndef TEXT_TOKENIZER_UNIGRAM_H
#define TEXT_TOKENIZER_UNIGRAM_H

#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/vocab.h"

enum { UNIGRAM_NODES_MAX = 1 << 24 };
/* Steps along the trie that a piece may take: so many for each byte, and so many besides. */
enum { UNIGRAM_STEPS_BYTE = 256, UNIGRAM_STEPS_PIECE = 1 << 18 };

struct unigram_edge {
    uint32_t key;  /* parent node << 8 | byte; 0: empty slot (the root's edges are in roots) */
    uint32_t node; /* 0: no token goes on */
    uint32_t id;   /* of the token that ends here; UINT32_MAX: none */
    uint32_t next; /* bit n: some edge goes on with a byte whose lower five bits are n */
};

struct unigram {
    const struct vocab *vocab; /* borrowed */
    double *scores;            /* by id; owned */
    double unk_score;
    struct unigram_edge *edges; /* hash table; owned */
    uint32_t edge_slots;
    struct unigram_edge roots[256]; /* by first byte */
    /* the one that U+2581 leads to; key 0: none, or tokens end within */
    struct unigram_edge metaspace;
    uint32_t unk_id; /* UINT32_MAX: none */
    uint32_t fallback_ids[256];
    bool fuse_unk, byte_fallback;
    /* SentencePiece: sums of scores are rounded to float; else HF's doubles */
    bool single_precision;
};

struct unigram_step {
    double score;
    uint32_t start, id; /* of the last token of the best way to here; start UINT32_MAX: none yet */
};
/* A token of the best way, or an unknown character. */
struct unigram_token {
    uint32_t end, id;
};
struct unigram_scratch {
    /* by byte offset of an end, from the last place that no token crosses */
    VEC(struct unigram_step) steps;
    VEC(struct unigram_token) way; /* up to the next such place, the last one first */
};

/* Takes scores (one for each id of the sealed vocabulary). unk_id UINT32_MAX: none. in_trie
 * (borrowed during the call): by id, which tokens a text may become; NULL: all. ERR_LIMIT: the trie
 * is too large; u can be released. */
MUST_CHECK int unigram_init(struct unigram *u, const struct vocab *vocab, double *scores,
                            uint32_t unk_id, bool byte_fallback, const bool *in_trie,
                            struct error *err);
/* Gives back all memory; u may be zeroes. */
void unigram_release(struct unigram *u);
/* Gives back all memory; s is empty then. */
void unigram_scratch_release(struct unigram_scratch *s);
/* Appends the ids of one piece. ERR_INVALID: a character is unknown and the model has no unknown
 * token. ERR_LIMIT: too many steps. */
MUST_CHECK int unigram_encode(const struct unigram *u, struct unigram_scratch *s,
                              struct bytes piece, struct token_vec *out, struct error *err);

#endif
