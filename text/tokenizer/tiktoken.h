/*
 * tiktoken.h - .tiktoken files: one token a line, base64 of its bytes, a space, its rank, which is
 * its id.
 *
 * Some publish the byte alphabet's spelling of a token ("Ġthe") instead of its bytes (" the");
 * which it is shows in the single bytes: a file of raw bytes has the byte 0x20, one of spellings
 * has "Ġ". Merges follow from the ranks (rank_merges.h). The file says nothing about splitting and
 * special tokens: a vocabulary that we know by its contents (named_vocab.h) brings them along,
 * another one is split as cl100k_base is.
 *
 * Threading: building only.
 */
#ifndef TEXT_TOKENIZER_TIKTOKEN_H
#define TEXT_TOKENIZER_TIKTOKEN_H

#include "base/hash.h"
#include "text/tokenizer/build.h"

struct tiktoken_file {
    struct buf bytes; /* all tokens, one after the other */
    struct ranked_line {
        uint32_t start, len, rank;
    } * lines; /* owned; by rising rank */
    size_t count;
    struct u128 contents; /* of the tokens' bytes and ranks, whichever way they were written */
};

/* ERR_INVALID names the line that is none. Blank lines are passed over. */
MUST_CHECK int tiktoken_read(struct bytes file, struct tiktoken_file *out, struct error *err);
/* Gives back all memory. */
void tiktoken_release(struct tiktoken_file *f);
/* The vocabulary and its merges into t, which is empty. Lines of ranks below first_text_id are
 * special tokens: left out. */
MUST_CHECK int tiktoken_build(const struct tiktoken_file *f, uint32_t first_text_id,
                              struct tokenizer *t, struct error *err);

#endif
