/*
 * tokenizer.h - text to token ids, exactly as HF tokenizers does for the same tokenizer.json.
 *
 * The pipeline is HF's: added tokens are cut out of the raw text, what lies between is normalized,
 * cut out again for added tokens that match normalized text, split by the pre-tokenizer, and each
 * piece goes through the model (BPE); then the post-processor adds special tokens. Known split
 * patterns have hand-written scanners, others run on PCRE2 with a match limit. Work is linear in
 * the text times the logarithm of its longest piece; a piece of 1 MB is no special case.
 *
 * A *special* token (control token) is one whose `special` is set in added_tokens. In text from a
 * user it is never parsed as control unless TOKENIZE_PARSE_SPECIAL is given: "<|im_end|>" typed by
 * a user becomes the tokens of those characters.
 *
 * Ids: every id in [0, tokenizer_vocab_count) may be asked about; ids without an entry have empty
 * bytes. The logits of a model may be wider than the vocabulary: those ids have no text.
 *
 * Threading: after tokenizer_load everything is const and may be called from any thread. Scratch
 * memory is pooled inside.
 */
#ifndef TEXT_TOKENIZER_TOKENIZER_H
#define TEXT_TOKENIZER_TOKENIZER_H

#include "base/buf.h"
#include "base/error.h"
#include "base/vec.h"
#include "text/bundle.h"
#include "text/tokenizer/offsets.h"

struct tokenizer;

#define TOKEN_NONE UINT32_MAX

/* A growing run of ids; the caller zeroes it once, then vec_release(&v). */
struct token_vec {
    uint32_t *items; /* owned */
    size_t count, cap;
};

enum tokenize_flags {
    TOKENIZE_ADD_SPECIAL = 1, /* the post-processor's tokens, BOS for example */
    /* special tokens in the text are taken as such; for rendered chat templates */
    TOKENIZE_PARSE_SPECIAL = 2,
};

enum detokenize_flags {
    DETOKENIZE_SKIP_SPECIAL = 1, /* leave special tokens out */
    DETOKENIZE_CONTINUES =
        /* the tokens follow others: keep the leading space that decoding from the start would
         * strip */
    2,
};

enum { TOKENIZER_EOS_MAX = 16 };

/* Reads tokenizer.json; config_json (tokenizer_config.json) and generation_json
 * (generation_config.json) may be empty: they give BOS and EOS. Borrows nothing after return. On
 * success *out is owned by the caller. ERR_UNSUPPORTED names what we lack. */
MUST_CHECK int tokenizer_load(struct bytes tokenizer_json, struct bytes config_json,
                              struct bytes generation_json, struct tokenizer **out,
                              struct error *err);
/* The same from a bundle's files. */
MUST_CHECK int tokenizer_load_bundle(const struct bundle *bundle, struct tokenizer **out,
                                     struct error *err);
/* Frees *t and clears it; NULL: nothing. No call may be running. */
void tokenizer_free(struct tokenizer **t);

/* Appends the ids of text to *out. text must be valid UTF-8 (ERR_INVALID otherwise: nothing is
 * appended). ERR_LIMIT when a foreign pattern reaches its match limit. */
MUST_CHECK int tokenizer_encode(const struct tokenizer *t, struct bytes text, unsigned flags,
                                struct token_vec *out, struct error *err);

/* Appends two texts' ids (without the post-processor's tokens) as the post-processor puts them into one
 * prompt. *first_count: where tokens of the second text have another type, so many from the start on
 * are of the first one's; else 0. */
void tokenizer_join(const struct tokenizer *t, struct tokens first, struct tokens second,
                    struct token_vec *out, uint32_t *first_count);

/* The same, with what each id stands for: characters (not bytes) of text, as HF's Encoding.offsets,
 * or, for a SentencePiece model, as its pieces' begin and end. Spans may overlap (a character cut
 * between tokens belongs to each) and be empty; tokens that TOKENIZE_ADD_SPECIAL puts around the
 * text have [0, 0). Appends to both; some times slower. */
MUST_CHECK int tokenizer_encode_offsets(const struct tokenizer *t, struct bytes text,
                                        unsigned flags, struct token_vec *out,
                                        struct offset_map *offsets, struct error *err);

/* tokenizer_encode, but special tokens that are spelled at these byte offsets (rising) stay
 * text. */
MUST_CHECK int tokenizer_encode_spots(const struct tokenizer *t, struct bytes text,
                                      const size_t *spots, size_t spot_count, unsigned flags,
                                      struct token_vec *out, struct error *err);
/* A walk over the spellings of special tokens in a text; set text, the rest zero. */
struct special_walk {
    struct bytes text;
    /* private, as is the next: what was found ahead, of each kind of added token */
    size_t from, begin[2], end[2];
    bool over[2];
};
/* The next one, behind those before: [*begin, *end). False: no more. Linear in the text over a
 * whole walk. */
bool tokenizer_next_special(const struct tokenizer *t, struct special_walk *walk, size_t *begin,
                            size_t *end);

/* Appends the text of ids as HF's decode gives it: invalid bytes become U+FFFD; unknown ids are
 * left out. For streams see detokenizer.h. */
void tokenizer_detokenize(const struct tokenizer *t, struct tokens ids, unsigned flags,
                          struct buf *out);

/* Largest id + 1. */
uint32_t tokenizer_vocab_count(const struct tokenizer *t);
/* No token stands for more bytes of a text than this, so a text of n bytes has at least n / this
 * tokens. SIZE_MAX: one may stand for any number, where text can be dropped or unknown runs are one
 * token. Linear in the vocabulary. */
size_t tokenizer_token_bytes_most(const struct tokenizer *t);
/* What the token adds to the output in the middle of a text, as raw bytes (perhaps half a
 * character). Valid while t lives. */
struct bytes tokenizer_token_bytes(const struct tokenizer *t, uint32_t id);
/* The token as it is spelled in tokenizer.json ("Ġthe", "▁the", "<0x0A>", "<|im_end|>"); appended
 * to out. */
void tokenizer_token_text(const struct tokenizer *t, uint32_t id, struct buf *out);
/* Whether id is an added token marked special; false for an id out of range. */
bool tokenizer_is_special(const struct tokenizer *t, uint32_t id);
/* True when decoding may leave out or change text around the token's bytes: an added token, special
 * or not. */
bool tokenizer_is_added(const struct tokenizer *t, uint32_t id);
/* The id of the token spelled so in tokenizer.json, TOKEN_NONE when there is none. */
uint32_t tokenizer_find(const struct tokenizer *t, struct bytes spelling);

/* TOKEN_NONE when the model has none. */
uint32_t tokenizer_bos(const struct tokenizer *t);
/* The ids that end an answer: eos_token of tokenizer_config.json, then generation_config.json's
 * eos_token_id (one or a list). May be empty. */
struct tokens tokenizer_eos(const struct tokenizer *t);
/* The tokens TOKENIZE_ADD_SPECIAL puts before a text (BOS for most models; may be empty). */
struct tokens tokenizer_prefix(const struct tokenizer *t);

#endif
