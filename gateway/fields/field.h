/*
 * field.h - request fields as tables: one row a field, one reader for all dialects.
 *
 * A row tells the field's name, type, range and where in struct genreq it goes. `null` always means
 * "not given". A field that is in no row is ignored (clients send many); one that is in a row must
 * have its type and lie in its range, else the request is refused and the error names the field.
 * Fields of other servers that change the text and that we do not have are rows too
 * (field_peers.c): to ignore them would answer another question than was asked.
 *
 * Two names of one field (their rows have the same bit in `given`) must agree where both are given.
 *
 * This reader is strict on purpose: it sees what strangers send, of any size and depth, and must
 * name the field at fault. cJSON, which small documents of our own are written with, is not for
 * this.
 *
 * Integers are read exactly from their text (7.0 and 7e0 are integers, 7.5 is not); no number
 * passes through a double on its way to an integer field.
 */
#ifndef GATEWAY_FIELDS_FIELD_H
#define GATEWAY_FIELDS_FIELD_H

#include "base/vec.h"
#include "formats/json.h"
#include "gateway/fields/genreq.h"

enum field_kind {
    FIELD_BOOL,    /* bool */
    FIELD_INT,     /* int64_t in [min, max]; both 0: any */
    FIELD_NUMBER,  /* double in [min, max] */
    FIELD_STRING,  /* struct bytes, copied into the arena; at most max bytes */
    FIELD_OBJECT,  /* struct bytes: the raw span of an object */
    FIELD_ARRAY,   /* struct bytes: the raw span of an array */
    FIELD_CUSTOM,  /* read() */
    FIELD_REFUSED, /* known, not offered: refused but for values that change nothing (neutral) */
    FIELD_PASSED,  /* known, changes no text: any value */
};

struct field_reader {
    struct json_reader json;
    struct genreq *g;
    struct api_error *err;
    const char *name; /* of the field being read */
};

struct field {
    const char *name;
    /* what errors of the whole request call the field, where that is another name; NULL: its name */
    const char *of;
    enum field_kind kind;
    size_t offset;
    double min, max;
    uint32_t given; /* bit set in genreq.given */
    /* FIELD_REFUSED: what is taken besides null, JSON values without spaces, with one between.
     * NULL: false 0 "" [] {} */
    const char *neutral;
    /* FIELD_REFUSED: how it is said on this path; NULL: it is not offered */
    const char *instead;
    /* FIELD_CUSTOM: the value's first event was just read. 0, or -1 with *r->err filled. */
    int (*read)(struct field_reader *r, enum json_event first);
};

/*
 * Rows: the name in JSON, the member of struct genreq, then what the kind asks for; `given` is the
 * bit set in genreq.given, or 0.
 */
#define FIELD_OFFSET(member)                    offsetof(struct genreq, member)
#define BOOL_FIELD(json, member, bit)           BOOL_ALIAS(json, NULL, member, bit)
#define INT_FIELD(json, member, lo, hi, bit)    INT_ALIAS(json, NULL, member, lo, hi, bit)
#define NUMBER_FIELD(json, member, lo, hi, bit) NUMBER_ALIAS(json, NULL, member, lo, hi, bit)
#define STRING_FIELD(json, member, bytes_max)                                                      \
    { .name = json, .kind = FIELD_STRING, .offset = FIELD_OFFSET(member), .max = bytes_max }
#define STRING_FIELD_ONCE(json, member, bytes_max, bit)                                            \
    STRING_ALIAS_ONCE(json, NULL, member, bytes_max, bit)
#define OBJECT_FIELD(json, member)                                                                 \
    { .name = json, .kind = FIELD_OBJECT, .offset = FIELD_OFFSET(member) }
#define ARRAY_FIELD(json, member)                                                                  \
    { .name = json, .kind = FIELD_ARRAY, .offset = FIELD_OFFSET(member) }
#define CUSTOM_FIELD(json, reader) CUSTOM_ALIAS(json, NULL, reader)
#define REFUSED_FIELD(json)                                                                        \
    { .name = json, .kind = FIELD_REFUSED }
/* Refused but for these JSON values, apart by blanks, which ask for what is done anyway. */
#define NEUTRAL_FIELD(json, values)                                                                \
    { .name = json, .kind = FIELD_REFUSED, .neutral = values }
#define PASSED_FIELD(json)                                                                         \
    { .name = json, .kind = FIELD_PASSED }

/* The same of another name for a field: canonical is its usual one. */
#define BOOL_ALIAS(json, canonical, member, bit)                                                   \
    {                                                                                              \
        .name = json, .of = canonical, .kind = FIELD_BOOL, .offset = FIELD_OFFSET(member),         \
        .given = bit                                                                               \
    }
#define INT_ALIAS(json, canonical, member, lo, hi, bit)                                            \
    {                                                                                              \
        .name = json, .of = canonical, .kind = FIELD_INT, .offset = FIELD_OFFSET(member),          \
        .min = lo, .max = hi, .given = bit                                                         \
    }
#define NUMBER_ALIAS(json, canonical, member, lo, hi, bit)                                         \
    {                                                                                              \
        .name = json, .of = canonical, .kind = FIELD_NUMBER, .offset = FIELD_OFFSET(member),       \
        .min = lo, .max = hi, .given = bit                                                         \
    }
#define STRING_ALIAS_ONCE(json, canonical, member, bytes_max, bit)                                 \
    {                                                                                              \
        .name = json, .of = canonical, .kind = FIELD_STRING, .offset = FIELD_OFFSET(member),       \
        .max = bytes_max, .given = bit                                                             \
    }
#define CUSTOM_ALIAS(json, canonical, reader)                                                      \
    { .name = json, .of = canonical, .kind = FIELD_CUSTOM, .read = reader }

/* Values of reasoning_format that ask for what a text is where nothing is told apart. */
#define TEXT_REASONING "\"none\" \"auto\""

/* A list of rows. */
struct field_table {
    const struct field *rows;
    size_t row_count;
};

/* The fields of a request; of a name that is in two tables, the first table's row is taken. */
struct field_set {
    const struct field_table *const *tables;
    size_t table_count;
};
/* fields_NAME: the set of one array of rows. */
#define FIELD_SET_OF_ROWS(name, rows)                                                              \
    static const struct field_table name##_own = {rows, ARRAY_LEN(rows)};                          \
    static const struct field_table *const name##_tables[] = {&name##_own};                        \
    const struct field_set fields_##name = {name##_tables, ARRAY_LEN(name##_tables)}
/* The same of texts that become vectors or are compared: what those paths have of each other is refused. */
#define FIELD_SET_OF_TEXTS(name, rows)                                                             \
    static const struct field_table name##_own = {rows, ARRAY_LEN(rows)};                          \
    static const struct field_table *const name##_tables[] = {&name##_own,                         \
                                                              &field_elsewhere_texts};             \
    const struct field_set fields_##name = {name##_tables, ARRAY_LEN(name##_tables)}
/* The row of a name; NULL: none. */
const struct field *field_find(const struct field_set *set, struct bytes name);

/* The one way in: reads the object `body` into g by the rows of a set, in the order of the body.
 * Spans of g point into body, strings into g->arena. 0, or -1 with *err filled. */
MUST_CHECK int field_read_request(struct genreq *g, const struct field_set *set, struct bytes body,
                                  struct api_error *err);

/* The names in an error about a whole request become those that its client used. Whoever answers
 * such an error asks for it; a second time does nothing. */
void field_name_as_asked(const struct genreq *g, struct api_error *err);
/* 0, or -1 with *err filled: the body is no JSON that is taken here; the error names the field that
 * the fault is in. */
MUST_CHECK int field_check_json(struct bytes body, struct api_error *err);

/* For custom readers. */
/* always -1 */
int field_wrong_type(struct field_reader *r, const char *expected, enum json_event got);
/* "'NAME' and another name of the same field have different values". Returns -1. */
int field_disagrees(struct field_reader *r);
/* Reads the event's number, in the range of f. */
MUST_CHECK int field_number(struct field_reader *r, enum json_event event, const struct field *f,
                            double *out);
/* Reads the event's true or false. */
MUST_CHECK int field_bool(struct field_reader *r, enum json_event event, bool *out);
/* Reads the event's integer, in [min, max]; both 0: any. */
MUST_CHECK int field_int(struct field_reader *r, enum json_event event, int64_t min, int64_t max,
                         int64_t *out);
/* "'NAME' is too large": the arena is full. Returns -1. */
int field_too_large(struct field_reader *r);
/* Copies the event's string into the arena; at most max_len bytes. */
MUST_CHECK int field_string(struct field_reader *r, enum json_event event, size_t max_len,
                            struct bytes *out);
/* Reads the array of strings begun by `first`, none of them empty, into the arena. */
MUST_CHECK int field_strings(struct field_reader *r, enum json_event first, uint32_t most,
                             size_t bytes_max, const struct bytes **out, uint32_t *count);
/* The same, where a string alone is a list of one. */
MUST_CHECK int field_string_or_strings(struct field_reader *r, enum json_event first, uint32_t most,
                                       size_t bytes_max, const struct bytes **out, uint32_t *count);
/* Copies ids into the arena. */
MUST_CHECK int field_copy_ids(struct field_reader *r, const uint32_t *ids, size_t count,
                              struct u32s *out);
/* Reads the object begun by `first` into r->g by the rows of a set, as a request of its own; expected:
 * what is said where it is no object. */
MUST_CHECK int field_nested(struct field_reader *r, enum json_event first,
                            const struct field_set *set, const char *expected);
/* Drops the value begun by `first`; *out (may be NULL) is its raw span. */
MUST_CHECK int field_span(struct field_reader *r, enum json_event first, struct bytes *out);
/* Reads the object begun by `first`: members asked for as json_take_members does; *whole (may be
 * NULL): its own raw span. */
MUST_CHECK int field_members(struct field_reader *r, enum json_event first,
                             const struct json_wanted *members, size_t count, struct bytes *whole);
/* Reads the value in `span` by the reader of a field; errors call it `name`. */
MUST_CHECK int field_of_span(struct field_reader *r, struct bytes span, const char *name,
                             int (*read)(struct field_reader *r, enum json_event first));
/* Reads the rest of an array of token ids, after its BEGIN; the ids go into the arena. `event` is
 * the first event inside. */
MUST_CHECK int field_token_array(struct field_reader *r, enum json_event event, size_t max_count,
                                 struct u32s *out);

/* Readers of fields that go by another name elsewhere. */
/* An object from token ids or texts to numbers, or pairs of them (field_bias.c). */
MUST_CHECK int field_logit_bias(struct field_reader *r, enum json_event first);
/* Stop strings: one, or an array. */
MUST_CHECK int field_stops(struct field_reader *r, enum json_event first);
/* A text, token ids, or a list of either. */
MUST_CHECK int field_prompt(struct field_reader *r, enum json_event first);
/* vLLM's: so many alternatives for each token of the prompt; -1: as many as there may be. */
MUST_CHECK int field_prompt_logprobs(struct field_reader *r, enum json_event first);
/* "low", "medium" or "high", for the template. */
MUST_CHECK int field_verbosity(struct field_reader *r, enum json_event first);
/* Once all fields are read: the verbosity goes to the template, before what template_kwargs says of
 * it. 0, or -1 with *err filled: memory is out. */
MUST_CHECK int field_apply_verbosity(struct genreq *g, struct api_error *err);
/* A chat's messages. */
MUST_CHECK int field_messages(struct field_reader *r, enum json_event first);
/* A seed as llama.cpp and Ollama take it: -1 asks for a drawn one. */
MUST_CHECK int field_seed(struct field_reader *r, enum json_event first);
/* Names of samplers, or a string of their letters (field_samplers.c). */
MUST_CHECK int field_sampler_order(struct field_reader *r, enum json_event first);
/* The names of such an order (genreq.sampler_order), as a list; 0: of the usual one. */
void field_write_sampler_order(uint64_t order, struct json_writer *w);
/* Texts that end a repetition. */
MUST_CHECK int field_breakers(struct field_reader *r, enum json_event first);
/* Ids of the only tokens that may come. */
MUST_CHECK int field_allowed_ids(struct field_reader *r, enum json_event first);
/* Texts that must not come. */
MUST_CHECK int field_bad_words(struct field_reader *r, enum json_event first);
/* "left" or "right": where truncation cuts. */
MUST_CHECK int field_truncation_side(struct field_reader *r, enum json_event first);
/* 0, 1 or 2. */
MUST_CHECK int field_mirostat(struct field_reader *r, enum json_event first);
/* "low", "medium", ... */
MUST_CHECK int field_reasoning_effort(struct field_reader *r, enum json_event first);
/* The template_kwargs that say so, under the two names that templates ask for; not owned. */
struct bytes field_thinking_kwargs(bool on);
/* Once all fields are read: g->thinking, which the field of this name set, becomes template_kwargs.
 * -1 with *err filled: the client gave those too. */
MUST_CHECK int field_apply_thinking(struct genreq *g, const char *name, struct api_error *err);
/* What X-Request-Id says elsewhere. */
MUST_CHECK int field_request_id(struct field_reader *r, enum json_event first);
/* Whether the array that was just begun has an array for its first item. */
bool field_begins_with_array(const struct field_reader *r);
/* vLLM's truncate_prompt_tokens. */
MUST_CHECK int field_truncate(struct field_reader *r, enum json_event first);
/* A structural tag: an object, or a string of JSON. */
MUST_CHECK int field_structural_tag(struct field_reader *r, enum json_event first);
/* {"type": "json_schema", ...} and its kin, OpenAI's response_format. */
MUST_CHECK int field_response_format(struct field_reader *r, enum json_event first);

/* Which of these names, 32 at most, the object that a body is has: a bit each. Of what is no object,
 * or no valid JSON from some place on, those before. */
uint32_t field_names_there(struct bytes body, const char *const *names, size_t count);

/* What both dialects have (field_shared.c). */
extern const struct field_table field_shared;
/* What an answer must look like (field_constraint.c). */
extern const struct field_table field_constraint;
/* What other servers have (field_peers.c): refused, passed over, or another name of ours. */
extern const struct field_table field_peers;
/* What other paths have (field_elsewhere.c): of what generates, of embeddings and texts that are
 * compared; what Ollama has in its options, and what it has beside them. */
extern const struct field_table field_elsewhere, field_elsewhere_texts, field_elsewhere_ollama,
    field_elsewhere_options;
/* What a chat template is rendered with (field_template.c). */
extern const struct field_table field_template;

/* The fields of each dialect's requests (in its own file), and of the text calls. */
extern const struct field_set fields_chat, fields_completions, fields_messages, fields_responses,
    fields_ollama_chat, fields_ollama_generate, fields_completion, fields_infill, fields_generate,
    fields_tgi, fields_tokens, fields_text_calls, fields_encode_text, fields_separate_reasoning,
    fields_parse_function_call;

/* The dialects' own parts: their tables, then what spans fields. Each returns 0, or -1 with *err
 * filled. */
MUST_CHECK int openai_chat_parse(struct genreq *g, struct bytes body, struct api_error *err);
/* Also checks that prompts times n stay in GENREQ_CHOICES_MAX. */
MUST_CHECK int openai_completions_parse(struct genreq *g, struct bytes body, struct api_error *err);
/* llama.cpp's own: what goes on from a prompt. */
MUST_CHECK int llama_completion_parse(struct genreq *g, struct bytes body, struct api_error *err);
/* llama.cpp's own: what fits between two texts. */
MUST_CHECK int llama_infill_parse(struct genreq *g, struct bytes body, struct api_error *err);
/* SGLang's own: what goes on from texts. */
MUST_CHECK int sglang_generate_parse(struct genreq *g, struct bytes body, struct api_error *err);
/* TGI's, at its three paths: what goes on from a text. */
MUST_CHECK int tgi_parse(struct genreq *g, struct bytes body, struct api_error *err);
/* Whether a body that is valid JSON is TGI's, not SGLang's: both are sent to /generate. */
bool tgi_is_body(struct bytes body);
/* vLLM's: what goes on from token ids, as token ids. */
MUST_CHECK int tokens_parse(struct genreq *g, struct bytes body, struct api_error *err);
/* Ollama's chats. */
MUST_CHECK int ollama_chat_parse(struct genreq *g, struct bytes body, struct api_error *err);
/* Ollama's prompts: one user message, or with `raw` the text itself. */
MUST_CHECK int ollama_generate_parse(struct genreq *g, struct bytes body, struct api_error *err);

#endif
