/*
 * gguf_vocab.h - the vocabulary in a GGUF file's metadata (tokenizer.ggml.*): byte-level BPE
 * ("gpt2"), BPE of pieces ("gemma4"), SentencePiece BPE ("llama") and Unigram ("t5"), WordPiece
 * ("bert") and RWKV's World ("rwkv").
 *
 * The ids are those of the tokenizer that the file was converted from; where llama.cpp differs from
 * it (words of more than 100 letters in WordPiece, say) the former counts.
 *
 * Threading: building only.
 */
#ifndef TEXT_TOKENIZER_GGUF_VOCAB_H
#define TEXT_TOKENIZER_GGUF_VOCAB_H

#include "formats/gguf.h"
#include "text/tokenizer/build.h"

/* Into t, which is empty. ERR_UNSUPPORTED names the kind or the split that we lack; ERR_NOT_FOUND:
 * the file has no vocabulary. Borrows nothing after return. */
MUST_CHECK int gguf_vocab_build(const struct gguf *g, struct tokenizer *t, struct error *err);
/* Appends a GGUF file with the same tokenizer metadata and nothing else. */
void gguf_vocab_extract(const struct gguf *g, struct buf *out);

#endif
