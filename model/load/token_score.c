#include "model/load/token_score.h"

#include "model/load/storage_map.h"

static int check(const struct model_spec *spec, const struct token_score *tokens,
                 struct error *err) {
    if (spec->headless)
        return error_set(err, ERR_UNSUPPORTED,
                         "the model has no head that writes, so no tokens can be compared");
    if (spec->logit_soft_cap > 0 || spec->embed_dim != spec->hidden)
        return error_set(err, ERR_UNSUPPORTED,
                         "the head of a %s model cannot be reduced to the difference of two tokens",
                         spec->family);
    if (tokens->yes >= spec->vocab || (tokens->no != TOKEN_SCORE_ONE && tokens->no >= spec->vocab))
        return error_set(err, ERR_INVALID,
                         "tokens %u and %u are to be compared; the model has %u tokens",
                         tokens->yes, tokens->no, spec->vocab);
    return 0;
}

/* Adds `scale` times a token's row of the head, and its bias. */
static void add_token(const struct matrix *head, const struct tensor *bias, uint32_t token,
                      float scale, float *row, struct head_layer *to) {
    matrix_dequantize(head, token, 0, head->cols, row);
    for (uint32_t i = 0; i < head->cols; i++)
        to->weight[i] += scale * row[i];
    if (bias)
        *to->bias += scale * storage_get(storage_of(bias), bias->data, token);
}

int token_score_head(const struct model *model, const struct token_score *tokens,
                     struct vector_head *out, struct error *err) {
    const struct model_spec *spec = &model->spec;
    const struct tensor *bias, *t = weights_head_tensor(spec, &model->files, &bias);
    if (check(spec, tokens, err))
        return err->code;
    enum storage_type type = t ? storage_of(t) : STORAGE_NONE;
    if (!type || t->scales || t->dim_count != 2 || t->dims[0] != spec->vocab ||
        t->dims[1] != spec->hidden || (bias && !storage_is_plain(storage_of(bias))))
        return error_set(err, ERR_UNSUPPORTED,
                         "the model's head is stored in a way from which no tokens are taken");
    struct matrix head = {.type = type,
                          .rows = spec->vocab,
                          .cols = spec->hidden,
                          .segment_count = 1,
                          .segments = {{.data = t->data, .rows = spec->vocab}}};
    struct head_layer layer = {.in = spec->hidden,
                               .out = 1,
                               .weight = mem_calloc(spec->hidden, sizeof *layer.weight),
                               .bias = bias ? mem_calloc(1, sizeof *layer.bias) : NULL};
    float *row = mem_calloc(spec->hidden, sizeof *row);
    add_token(&head, bias, tokens->yes, spec->logit_scale, row, &layer);
    if (tokens->no != TOKEN_SCORE_ONE)
        add_token(&head, bias, tokens->no, -spec->logit_scale, row, &layer);
    mem_free(row);
    *out = (struct vector_head){.layers = {layer}, .count = 1};
    return 0;
}
