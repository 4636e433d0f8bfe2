/*
 * pooling.h - what of a prompt's positions becomes its embedding, as a model's files say.
 *
 * A folder of sentence-transformers lists its modules in modules.json: the network, then
 * (PATH/config.json) the pooling, then perhaps the division by the length. A GGUF file has the key
 * ARCH.pooling_type. Sources: sbert.net (Pooling, Normalize), the GGUF specification and llama.h
 * (enum llama_pooling_type).
 *
 * Threading: none.
 */
#ifndef MODEL_READ_POOLING_H
#define MODEL_READ_POOLING_H

#include "base/error.h"

enum pooling { POOLING_NONE, POOLING_LAST, POOLING_MEAN, POOLING_CLS, POOLING_MAX, POOLING_COUNT };

struct pooling_spec {
    enum pooling kind; /* POOLING_NONE: the files say nothing of embeddings */
    bool normalize;    /* they are to have length 1 */
};

/* Of a folder, or a GGUF file. It says nothing: POOLING_NONE. ERR_UNSUPPORTED names a module or a way
 * of pooling that we lack, ERR_INVALID a file that makes no sense. */
MUST_CHECK int pooling_read(const char *dir, struct pooling_spec *out, struct error *err);

#endif
