/*
 * rank_merges.h - merges for a vocabulary that names none, but says which token is better:
 * tiktoken's ranks, SentencePiece's scores.
 *
 * There, two neighbours merge when their joined text is a token, the best such token first,
 * leftmost first. What happens within a token's own bytes does not depend on what stands around
 * them as long as nothing merges across their ends, so each token is made in one way only: by the
 * last step of merging its own text. That pair is its merge, and the table of pairs gives the same
 * tokens as looking up joined texts would.
 *
 * Threading: building only.
 */
#ifndef TEXT_TOKENIZER_RANK_MERGES_H
#define TEXT_TOKENIZER_RANK_MERGES_H

#include "text/tokenizer/bpe.h"

/* A token of more symbols than this is never made by merging. Trained vocabularies end at 128. */
enum { RANK_SYMBOLS_MAX = 1024 };

struct ranked_token {
    uint32_t id, rank; /* equal ranks: as good as each other */
};

/* order: every token that merging may make, best first (single symbols may be among them); v is
 * sealed. Initialises b with the merges found. ERR_LIMIT: too much work for a file that is no
 * trained vocabulary. */
MUST_CHECK int rank_merges_build(struct bpe *b, const struct vocab *v,
                                 const struct ranked_token *order, size_t count, struct error *err);

#endif
