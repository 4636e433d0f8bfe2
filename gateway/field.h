/*
 * field.h - request fields as tables: one row a field, one reader for all dialects.
 *
 * A row tells the field's name, type, range and where in struct genreq it goes. `null` always means "not given". A
 * field that is in no row is ignored (clients send many); one that is in a row must have its type and lie in its range,
 * else the request is refused and the error names the field.
 *
 * Integers are read exactly from their text (7.0 and 7e0 are integers, 7.5 is not); no number passes through a double
 * on its way to an integer field.
 */
#ifndef GATEWAY_FIELD_H
#define GATEWAY_FIELD_H

#include "base/vec.h"
#include "formats/json.h"
#include "gateway/genreq.h"
#include "text/template/template.h"

enum field_kind {
    FIELD_BOOL,   /* bool */
    FIELD_INT,    /* int64_t in [min, max]; both 0: any */
    FIELD_NUMBER, /* double in [min, max]; FIELD_ABOVE_MIN: in (min, max] */
    FIELD_STRING, /* struct bytes, copied into the arena; at most max bytes */
    FIELD_OBJECT, /* struct bytes: the raw span of an object */
    FIELD_ARRAY,  /* struct bytes: the raw span of an array */
    FIELD_CUSTOM, /* read() */
    FIELD_REFUSED /* known, not offered: refused unless null, false, 0, "", [] or {} */
};
enum { FIELD_ABOVE_MIN = 1 };

struct field_reader {
    struct json_reader json;
    struct genreq *g;
    struct api_error *err;
    const char *name; /* of the field being read */
};

struct field {
    const char *name;
    enum field_kind kind;
    size_t offset;
    double min, max;
    unsigned flags;
    uint32_t given; /* bit set in genreq.given */
    /* FIELD_CUSTOM: the value's first event was just read. 0, or -1 with *r->err filled. */
    int (*read)(struct field_reader *r, enum json_event first);
};

/* Reads the object `body` row by row. 0, or -1 with *err filled. */
MUST_CHECK int field_read_all(struct genreq *g, const struct field *rows, size_t row_count, struct bytes body,
                              struct api_error *err);

/* For custom readers. */
int field_wrong_type(struct field_reader *r, const char *expected, enum json_event got); /* always -1 */
/* Reads the event's integer. */
MUST_CHECK int field_int(struct field_reader *r, enum json_event event, int64_t min, int64_t max, int64_t *out);
/* Copies the event's string into the arena. */
MUST_CHECK int field_string(struct field_reader *r, enum json_event event, size_t max_len, struct bytes *out);
/* Drops the value begun by `first`; *out (may be NULL) is its raw span. */
MUST_CHECK int field_span(struct field_reader *r, enum json_event first, struct bytes *out);
/* Reads the rest of an array of token ids, after its BEGIN; the ids go into the arena. `event` is the first event
 * inside. */
MUST_CHECK int field_token_array(struct field_reader *r, enum json_event event, size_t max_count, struct u32s *out);

/* Readers shared by the dialects. */
int field_read_stop(struct field_reader *r, enum json_event first);
int field_read_stop_tokens(struct field_reader *r, enum json_event first);
int field_read_logit_bias(struct field_reader *r, enum json_event first);
int field_read_stream_options(struct field_reader *r, enum json_event first);
int field_read_response_format(struct field_reader *r, enum json_event first);
int field_read_messages(struct field_reader *r, enum json_event first);
int field_read_tools(struct field_reader *r, enum json_event first);
int field_read_reasoning_effort(struct field_reader *r, enum json_event first);

/* Rows that both dialects have; each table begins with them. */
#define FIELD_AT(member) offsetof(struct genreq, member)
#define FIELD_ROWS_SHARED                                                                                              \
    {.name = "user", .kind = FIELD_STRING, .offset = FIELD_AT(user), .max = GENREQ_USER_MAX},                          \
        {.name = "model", .kind = FIELD_STRING, .offset = FIELD_AT(model), .max = GENREQ_NAME_MAX},                    \
        {.name = "max_tokens",                                                                                         \
         .kind = FIELD_INT,                                                                                            \
         .offset = FIELD_AT(max_tokens),                                                                               \
         .min = 1,                                                                                                     \
         .max = WIRE_MAX_TOKENS,                                                                                       \
         .given = GENREQ_MAX_TOKENS},                                                                                  \
        {.name = "min_tokens", .kind = FIELD_INT, .offset = FIELD_AT(min_tokens), .min = 0, .max = WIRE_MAX_TOKENS},   \
        {.name = "temperature",                                                                                        \
         .kind = FIELD_NUMBER,                                                                                         \
         .offset = FIELD_AT(temperature),                                                                              \
         .min = 0,                                                                                                     \
         .max = 2,                                                                                                     \
         .given = GENREQ_TEMPERATURE},                                                                                 \
        {.name = "top_p", .kind = FIELD_NUMBER, .offset = FIELD_AT(top_p), .min = 0, .max = 1, .given = GENREQ_TOP_P}, \
        {.name = "top_k",                                                                                              \
         .kind = FIELD_INT,                                                                                            \
         .offset = FIELD_AT(top_k),                                                                                    \
         .min = -1,                                                                                                    \
         .max = INT32_MAX,                                                                                             \
         .given = GENREQ_TOP_K},                                                                                       \
        {.name = "min_p", .kind = FIELD_NUMBER, .offset = FIELD_AT(min_p), .min = 0, .max = 1, .given = GENREQ_MIN_P}, \
        {.name = "repetition_penalty",                                                                                 \
         .kind = FIELD_NUMBER,                                                                                         \
         .offset = FIELD_AT(repetition_penalty),                                                                       \
         .min = 0,                                                                                                     \
         .max = 100,                                                                                                   \
         .flags = FIELD_ABOVE_MIN,                                                                                     \
         .given = GENREQ_REPETITION},                                                                                  \
        {.name = "presence_penalty", .kind = FIELD_NUMBER, .offset = FIELD_AT(presence_penalty), .min = -2, .max = 2}, \
        {.name = "frequency_penalty",                                                                                  \
         .kind = FIELD_NUMBER,                                                                                         \
         .offset = FIELD_AT(frequency_penalty),                                                                        \
         .min = -2,                                                                                                    \
         .max = 2},                                                                                                    \
        {.name = "seed", .kind = FIELD_INT, .offset = FIELD_AT(seed), .given = GENREQ_SEED},                           \
        {.name = "n", .kind = FIELD_INT, .offset = FIELD_AT(choice_count), .min = 1, .max = GENREQ_CHOICES_MAX},       \
        {.name = "stop", .kind = FIELD_CUSTOM, .read = field_read_stop},                                               \
        {.name = "stop_token_ids", .kind = FIELD_CUSTOM, .read = field_read_stop_tokens},                              \
        {.name = "logit_bias", .kind = FIELD_CUSTOM, .read = field_read_logit_bias},                                   \
        {.name = "ignore_eos", .kind = FIELD_BOOL, .offset = FIELD_AT(ignore_eos)},                                    \
        {.name = "include_stop_str_in_output", .kind = FIELD_BOOL, .offset = FIELD_AT(include_stop_text)},             \
        {.name = "skip_special_tokens", .kind = FIELD_BOOL, .offset = FIELD_AT(skip_special_tokens)},                  \
        {.name = "add_special_tokens",                                                                                 \
         .kind = FIELD_BOOL,                                                                                           \
         .offset = FIELD_AT(add_special_tokens),                                                                       \
         .given = GENREQ_ADD_SPECIAL},                                                                                 \
        {.name = "return_token_ids", .kind = FIELD_BOOL, .offset = FIELD_AT(return_token_ids)},                        \
        {.name = "priority", .kind = FIELD_INT, .offset = FIELD_AT(priority), .min = INT32_MIN, .max = INT32_MAX},     \
        {.name = "cache_salt", .kind = FIELD_STRING, .offset = FIELD_AT(cache_salt), .max = 128},                      \
        {.name = "stream", .kind = FIELD_BOOL, .offset = FIELD_AT(stream)},                                            \
        {.name = "stream_options", .kind = FIELD_CUSTOM, .read = field_read_stream_options},                           \
        {.name = "response_format", .kind = FIELD_CUSTOM, .read = field_read_response_format},                         \
        {.name = "use_beam_search", .kind = FIELD_REFUSED}, {.name = "prompt_logprobs", .kind = FIELD_REFUSED},        \
        {.name = "bad_words", .kind = FIELD_REFUSED}, {.name = "allowed_token_ids", .kind = FIELD_REFUSED},            \
        {.name = "structured_outputs", .kind = FIELD_REFUSED}, {.name = "guided_json", .kind = FIELD_REFUSED},         \
        {.name = "guided_regex", .kind = FIELD_REFUSED}, {.name = "guided_choice", .kind = FIELD_REFUSED},             \
        {.name = "guided_grammar", .kind = FIELD_REFUSED}, {.name = "prompt_embeds", .kind = FIELD_REFUSED}, {         \
        .name = "truncate_prompt_tokens", .kind = FIELD_REFUSED                                                        \
    }

/* Rows of what a chat template is rendered with. */
#define FIELD_ROWS_TEMPLATE                                                                                            \
    {.name = "messages", .kind = FIELD_CUSTOM, .read = field_read_messages},                                           \
        {.name = "tools", .kind = FIELD_CUSTOM, .read = field_read_tools},                                             \
        {.name = "reasoning_effort", .kind = FIELD_CUSTOM, .read = field_read_reasoning_effort},                       \
        {.name = "documents", .kind = FIELD_ARRAY, .offset = FIELD_AT(documents)},                                     \
        {.name = "chat_template_kwargs", .kind = FIELD_OBJECT, .offset = FIELD_AT(template_kwargs)},                   \
        {.name = "add_generation_prompt", .kind = FIELD_BOOL, .offset = FIELD_AT(add_generation_prompt)},              \
        {.name = "continue_final_message", .kind = FIELD_BOOL, .offset = FIELD_AT(continue_final_message)}, {          \
        .name = "chat_template", .kind = FIELD_STRING, .offset = FIELD_AT(chat_template), .max = TEMPLATE_SOURCE_MAX   \
    }

/* The dialects' own parts: their tables, then what spans fields. Each returns 0, or -1 with *err filled. */
MUST_CHECK int openai_chat_parse(struct genreq *g, struct bytes body, struct api_error *err);
MUST_CHECK int openai_completions_parse(struct genreq *g, struct bytes body, struct api_error *err);

#endif
