/*
 * pooling.h - what of a prompt's positions becomes its embedding, as a model's files say.
 *
 * A folder of sentence-transformers lists its modules in modules.json: the network, then
 * (PATH/config.json) the pooling, then perhaps layers of its own (Dense, LayerNorm: PATH/
 * model.safetensors), then perhaps the division by the length. A GGUF file has the key
 * ARCH.pooling_type. Sources: sbert.net (Pooling, Dense, LayerNorm, Normalize, CrossEncoder), the
 * GGUF specification and llama.h (enum llama_pooling_type).
 *
 * Threading: none.
 */
#ifndef MODEL_READ_POOLING_H
#define MODEL_READ_POOLING_H

#include "base/error.h"
#include "model/load/vector_head.h"

enum pooling { POOLING_NONE, POOLING_LAST, POOLING_MEAN, POOLING_CLS, POOLING_MAX, POOLING_COUNT };

struct pooling_spec {
    enum pooling kind;       /* POOLING_NONE: the files say nothing of embeddings */
    bool normalize;          /* they are to have length 1 */
    struct vector_head head; /* what is made of what was pooled, before that */
};

/* Of a folder, or a GGUF file. It says nothing: POOLING_NONE. ERR_UNSUPPORTED names a module or a way
 * of pooling that we lack, ERR_INVALID a file that makes no sense; then it holds nothing. Else it is
 * released. */
MUST_CHECK int pooling_read(const char *dir, struct pooling_spec *out, struct error *err);
/* Frees its head. */
void pooling_spec_release(struct pooling_spec *spec);

/* What becomes of a cross-encoder's score before it is shown: *bare: nothing, else its sigmoid. By
 * activation_fn in config_sentence_transformers.json, else in config.json, where older releases of
 * sentence-transformers wrote it under two other names; the sigmoid where none says. ERR_UNSUPPORTED
 * names another function. */
MUST_CHECK int score_activation_read(const char *dir, bool *bare, struct error *err);

#endif
