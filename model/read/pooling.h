/*
 * pooling.h - what of a prompt's positions becomes its embedding, as a model's files say.
 *
 * A folder of sentence-transformers lists its modules in modules.json: the network, then
 * (PATH/config.json) the pooling, then perhaps layers of its own (Dense, LayerNorm: PATH/
 * model.safetensors), then perhaps the division by the length. A GGUF file has the key
 * ARCH.pooling_type. A reranker that writes "yes" or "no" has the module LogitScore in place of a
 * pooling. Sources: sbert.net (Pooling, Dense, LayerNorm, Normalize, LogitScore, CrossEncoder), the
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
    /* the last position is scored by two tokens (token_score.h); kind is then POOLING_LAST */
    bool by_tokens;
    int64_t true_token, false_token; /* -1: there is no second one */
};

/* Of a folder, or a GGUF file. It says nothing: POOLING_NONE. ERR_UNSUPPORTED names a module or a way
 * of pooling that we lack, ERR_INVALID a file that makes no sense; then it holds nothing. Else it is
 * released. */
MUST_CHECK int pooling_read(const char *dir, struct pooling_spec *out, struct error *err);
/* Frees its head. */
void pooling_spec_release(struct pooling_spec *spec);

/* What becomes of a model's scores before they are shown. */
enum score_activation {
    SCORES_SIGMOID,
    SCORES_BARE,   /* nothing */
    SCORES_SOFTMAX /* shares of one */
};

/* Of a model with so many labels. One label is a cross-encoder's score: by activation_fn in
 * config_sentence_transformers.json, else in config.json, where older releases of
 * sentence-transformers wrote it under two other names; the sigmoid where none says. Several are
 * classes: by problem_type in config.json, as transformers trains them; the softmax where it says
 * nothing. ERR_UNSUPPORTED names another function. */
MUST_CHECK int score_activation_read(const char *dir, uint32_t label_count,
                                     enum score_activation *out, struct error *err);

#endif
