/*
 * spm.h - SentencePiece models: BPE, Unigram, words and characters, from tokenizer.model files (a
 * protocol buffer) or from GGUF metadata.
 *
 * Text becomes what sentencepiece makes of it: its own normalizer (spm_normalize.h), user-defined
 * symbols kept whole, pieces of type UNUSED merged through and cut again, scores added in single
 * precision, neighbouring unknown characters one unknown token or bytes. Control pieces are special
 * tokens of ours: matched only when asked for.
 *
 * Threading: building only.
 */
#ifndef TEXT_TOKENIZER_SPM_H
#define TEXT_TOKENIZER_SPM_H

#include "text/tokenizer/tiktoken.h"

enum spm_type {
    SPM_NORMAL = 1,
    SPM_UNKNOWN = 2,
    SPM_CONTROL = 3,
    SPM_USER_DEFINED = 4,
    SPM_UNUSED = 5,
    SPM_BYTE = 6,
};

struct spm_piece {
    struct bytes text; /* borrowed */
    float score;
    uint8_t type; /* enum spm_type */
};

struct spm_model {
    VEC(struct spm_piece) pieces; /* by id */
    /* neither of the first two: BPE; characters are BPE without merges */
    bool unigram, words, byte_fallback, suffix;
    bool dummy_prefix, remove_extra, escape;
    /* user-defined symbols are matched in the text as it comes (llama.cpp), not normalized */
    bool raw_symbols;
    struct bytes charsmap, unk_surface;      /* borrowed; charsmap may be empty */
    uint32_t unk_id, bos_id, eos_id, pad_id; /* TOKEN_NONE: none */
};

/* The defaults of sentencepiece_model.proto. */
void spm_model_init(struct spm_model *m);
/* Gives back all memory. */
void spm_model_release(struct spm_model *m);
/* Reads a serialized ModelProto. Keeps views into file. ERR_INVALID. */
MUST_CHECK int spm_model_read(struct bytes file, struct spm_model *m, struct error *err);
/* A SentencePiece BPE vocabulary that someone wrote as a tiktoken file: the 256 single bytes in a
 * row, control pieces before them, all others by falling score behind. False: it is none. Keeps
 * views into f. */
bool tiktoken_to_spm(const struct tiktoken_file *f, struct spm_model *m);
/* Into t, which is empty, decoder and all. With TOKENIZE_ADD_SPECIAL a text begins with BOS where
 * the model has one. */
MUST_CHECK int spm_build(const struct spm_model *m, struct tokenizer *t, struct error *err);

#endif
