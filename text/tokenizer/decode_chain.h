/*
 * decode_chain.h - decoders of tokenizer.json in any combination, step by step as HF runs them: each step takes the
 * list of tokens and gives another one.
 *
 * The combinations that models use are done once, at load, token by token (decode.c); this is for all others, and no
 * faster than it must be.
 *
 * Threading: const after load.
 */
#ifndef TEXT_TOKENIZER_DECODE_CHAIN_H
#define TEXT_TOKENIZER_DECODE_CHAIN_H

#include "base/vec.h"
#include "text/template/value.h"

enum decode_step_kind {
    DECODE_BYTE_LEVEL,
    DECODE_BYTE_FALLBACK,
    DECODE_FUSE,
    DECODE_STRIP,
    DECODE_REPLACE,
    DECODE_REPLACE_REGEX,
    DECODE_METASPACE,
    DECODE_WORDPIECE,
    DECODE_BPE,
    DECODE_CTC,
};

struct pcre2_real_code_8;
struct decode_step {
    enum decode_step_kind kind;
    char *a, *b; /* owned: pattern and content, suffix, prefix, pad and delimiter, ... */
    size_t a_len, b_len;
    uint32_t start, stop;           /* STRIP */
    bool flag;                      /* METASPACE: the first token loses it; WORDPIECE, CTC: cleanup */
    struct pcre2_real_code_8 *code; /* REPLACE_REGEX; owned */
};

struct decode_chain {
    VEC(struct decode_step) steps; /* empty: tokens are joined */
};

/* From the "decoder" value of tokenizer.json, a dict. On error nothing is owned. */
MUST_CHECK int decode_chain_load(struct decode_chain *c, struct tvalue json, struct error *err);
void decode_chain_release(struct decode_chain *c);
/* Appends the text of tokens, given by their spellings. first and last: nothing comes before, behind them. Valid UTF-8
 * out when the spellings are. */
void decode_chain_run(const struct decode_chain *c, const struct bytes *tokens, size_t count, bool first, bool last,
                      struct buf *out);

#endif
