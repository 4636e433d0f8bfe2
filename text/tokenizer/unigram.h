/*
 * unigram.h - the unigram language model: of all ways to cut a piece into tokens, the one of highest total score
 * (Viterbi), as HF computes it.
 *
 * Tokens lie in a trie whose nodes are sorted by level, children side by side, so all tokens that begin at a place are
 * found by one walk. A character that no token covers alone costs the lowest score - 10 and is the unknown token;
 * neighbours are fused.
 *
 * Threading: struct unigram is const after unigram_init; a scratch belongs to one thread at a time.
 */
#ifndef TEXT_TOKENIZER_UNIGRAM_H
#define TEXT_TOKENIZER_UNIGRAM_H

#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/vocab.h"

struct unigram_node {
    uint32_t first_child, child_count;
    uint32_t id; /* of the token that ends here; UINT32_MAX: none */
    uint8_t byte;
};

struct unigram {
    const struct vocab *vocab; /* borrowed */
    double *scores;            /* by id; owned */
    double unk_score;
    struct unigram_node *nodes; /* owned; [0] is the root */
    uint32_t node_count;
    uint32_t roots[256]; /* child of the root by byte; 0: none */
    uint32_t unk_id;     /* UINT32_MAX: none */
    uint32_t fallback_ids[256];
    bool fuse_unk, byte_fallback;
    bool single_precision; /* SentencePiece: sums of scores are rounded to float; else HF's doubles */
};

struct unigram_step {
    double score;
    uint32_t start, id; /* of the last token of the best way to here; start UINT32_MAX: none yet */
};
struct unigram_scratch {
    VEC(struct unigram_step) steps; /* by byte offset of an end */
};

/* Takes scores (one for each id of the sealed vocabulary). unk_id UINT32_MAX: none. in_trie (borrowed during the call):
 * by id, which tokens a text may become; NULL: all. */
void unigram_init(struct unigram *u, const struct vocab *vocab, double *scores, uint32_t unk_id, bool byte_fallback,
                  const bool *in_trie);
void unigram_release(struct unigram *u);
void unigram_scratch_release(struct unigram_scratch *s);
/* Appends the ids of one piece. ERR_INVALID: a character is unknown and the model has no unknown token. */
MUST_CHECK int unigram_encode(const struct unigram *u, struct unigram_scratch *s, struct bytes piece,
                              struct token_vec *out, struct error *err);

#endif
