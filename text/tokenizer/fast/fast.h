/*
 * fast.h - what exists for speed only. README.md here says what each piece of it gains.
 *
 * The plain tokenizer is whole without this folder: a splitter hands out pieces, bpe_encode gives
 * their tokens. Everything here gives the same tokens sooner.
 *
 * Invariants:
 *   (1) fast_encode and fast_encode_piece append exactly the tokens that splitter_run and
 *       bpe_encode would;
 *   (2) the caches of a scratch belong to one struct bpe: a scratch is never used with another.
 *
 * Threading: tables are const after fast_finish; a scratch belongs to one thread at a time.
 */
#ifndef TEXT_TOKENIZER_FAST_FAST_H
#define TEXT_TOKENIZER_FAST_FAST_H

#include "text/tokenizer/bpe.h"
#include "text/tokenizer/fast/piece_batch.h"

struct tokenizer;
struct encode_scratch;
struct split_stage;

/* ---- encoding ---- */

enum fast_span {
    FAST_RAW,        /* text between added tokens, not yet normalized */
    FAST_NORMALIZED, /* the same, normalized */
};
/* Appends the ids of span (valid UTF-8). at_start: the whole text begins with it. False, with
 * nothing appended: this tokenizer has no faster way from here than normalizer and splitter. */
bool fast_encode(const struct tokenizer *t, struct encode_scratch *s, struct bytes span,
                 enum fast_span kind, bool at_start, struct token_vec *out);
/* Appends the ids of one piece (len > 0), from the caches where they have it; bytes of it before
 * limit may be read. */
void fast_encode_piece(const struct bpe *b, struct bpe_scratch *s, const uint8_t *piece, size_t len,
                       const uint8_t *limit, struct token_vec *out);
/* The same for many pieces. */
void fast_encode_batch(const struct bpe *b, struct bpe_scratch *s, const struct piece_batch *pieces,
                       const uint8_t *limit, struct token_vec *out);

/* Called with pieces in the order of the text; bytes before limit may be read. */
typedef void fast_batch_fn(void *ctx, const struct piece_batch *pieces, const uint8_t *limit);
/* Cuts text by a stage of kind SPLIT_SCAN into pieces, many at once. */
void fast_split(const struct split_stage *stage, struct bytes text, fast_batch_fn *batch,
                void *ctx);

/* Merges 2 to BPE_SHORT_MAX symbols in place, returns how many remain. piece: NULL, or their bytes,
 * where each symbol is that of one byte and b->byte_pairs is there. */
typedef size_t fast_short_fn(const struct bpe *b, uint32_t *ids, size_t count,
                             const uint8_t *piece);
enum { FAST_SHORT_VARIANTS_MAX = 3 };
/* Those that this machine can run, for tests; returns how many. All do the same. */
size_t fast_short_variants(fast_short_fn *out[FAST_SHORT_VARIANTS_MAX]);

/* ---- tables, for bpe.c ---- */

/* Before the first merge; b->vocab is sealed. */
void fast_init(struct bpe *b, size_t merge_count);
/* After each merge that was added. */
void fast_add_merge(struct bpe *b, uint32_t left, uint32_t right, uint32_t result);
/* After the last one. is_large: the vocabulary is worth tables of its own. */
void fast_finish(struct bpe *b, bool is_large);
/* Gives back the tables of b, which may be zeroes. */
void fast_release(struct bpe *b);
/* Gives back the caches of s. */
void fast_scratch_release(struct bpe_scratch *s);

#endif
