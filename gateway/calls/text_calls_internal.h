/*
 * text_calls_internal.h - what the files of text_calls.h share: a request while it is worked on, and
 * the two steps of a call.
 *
 * Threading: a request belongs to one thread of the pool, or to the event thread.
 */
#ifndef GATEWAY_CALLS_TEXT_CALLS_INTERNAL_H
#define GATEWAY_CALLS_TEXT_CALLS_INTERNAL_H

#include "gateway/fields/field.h"
#include "gateway/models/model_table.h"

/* A request; g first, so that the rows of the other dialects serve here too. */
struct text_request {
    struct genreq g;
    struct bytes prompt, content; /* vLLM's and llama.cpp's name */
    bool has_prompt, has_content;
    bool tells_pieces; /* TGI's: each token with its text and place; it calls the prompt inputs */
    bool add_special, parse_special, with_pieces, return_token_strs;
    struct u32s tokens;
    bool has_tokens;
    struct bytes text,
        parser; /* of what a model wrote, and how it is read; parser empty: the model's */
    bool has_text;
};

/* The request whose rows are read. */
static inline struct text_request *text_request_of(struct field_reader *r) {
    return (struct text_request *)(void *)r->g;
}

/* Reads what json_scan took. 0, or -1 with *err filled. */
typedef int text_call_reader(struct text_request *t, struct bytes body, struct api_error *err);
/* Writes the answer. */
typedef int text_call(const struct text_request *t, const struct served_model *m, struct buf *out,
                      struct api_error *err);

/* text_answers.c */
text_call text_answer_tokenize, text_answer_chat_tokenize, text_answer_encode,
    text_answer_count_tokens, text_answer_count_input, text_answer_chat_form,
    text_answer_completion, text_answer_detokenize, text_answer_apply_template;
void text_answer_tokenizer_info(const struct served_model *m, struct buf *out);

/* parse_calls.c: SGLang's /separate_reasoning and /parse_function_call. */
text_call_reader read_reasoning, read_function_calls;
text_call separate_reasoning, parse_function_calls;

#endif
