/*
 * decoder_chain.h - decoders of tokenizer.json in any combination, step by step as HF runs them:
 * each step takes the list of tokens and gives another one.
 *
 * The combinations that models use are done once, at load, token by token (decode.c); this is for
 * all others, and no faster than it must be.
 *
 * Threading: const after load.
 */
#ifndef TEXT_TOKENIZER_DECODER_CHAIN_H
#define TEXT_TOKENIZER_DECODER_CHAIN_H

#include "base/vec.h"
#include "formats/json_tree.h"
#include "text/tokenizer/regex_text.h"

enum decoder_step_kind {
    DECODER_STEP_BYTE_LEVEL,
    DECODER_STEP_BYTE_FALLBACK,
    DECODER_STEP_FUSE,
    DECODER_STEP_STRIP,
    DECODER_STEP_REPLACE,
    DECODER_STEP_REPLACE_REGEX,
    DECODER_STEP_METASPACE,
    DECODER_STEP_WORDPIECE,
    DECODER_STEP_BPE,
    DECODER_STEP_CTC,
};

struct decoder_step {
    enum decoder_step_kind kind;
    char *a, *b; /* owned: pattern and content, suffix, prefix, pad and delimiter, ... */
    size_t a_len, b_len;
    uint32_t start, stop; /* STRIP */
    /* METASPACE: the first token loses it; WORDPIECE, CTC: cleanup */
    bool flag;
    struct regex regex; /* REPLACE_REGEX; owned */
};

struct decoder_chain {
    VEC(struct decoder_step) steps; /* empty: tokens are joined */
};

/* From the "decoder" value of tokenizer.json, a dict. On error nothing is owned. */
MUST_CHECK int decoder_chain_load(struct decoder_chain *c, struct json_value json,
                                  struct error *err);
/* Gives back all memory; c is empty then. */
void decoder_chain_release(struct decoder_chain *c);
/* Appends the text of tokens, given by their spellings. first and last: nothing comes before,
 * behind them. Valid UTF-8 out when the spellings are. */
void decoder_chain_run(const struct decoder_chain *c, const struct bytes *tokens, size_t count,
                       bool first, bool last, struct buf *out);

#endif
