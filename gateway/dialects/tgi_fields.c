/*
 * POST /generate, /generate_stream and / with `inputs`: the fields of TGI's own requests. What
 * samples stands in `parameters`; the same fields beside it do the same. /generate is SGLang's too:
 * a body with `inputs` is TGI's.
 *
 * As with TGI the likeliest token is taken unless something asks for sampling, a stop string stays
 * in the text, and a request to / has the prompt in its answer unless it says otherwise.
 *
 * Source: github.com/huggingface/text-generation-inference, docs/openapi.json.
 */
#include "gateway/fields/field.h"

enum { TOKENS_UNLESS_ASKED = 100 };

/* A request; g first: the rows are of struct genreq. */
struct tgi_request {
    struct genreq g;
    bool samples, prefill;
};

static struct tgi_request *request_of(struct field_reader *r) {
    return (struct tgi_request *)(void *)r->g;
}

static int read_inputs(struct field_reader *r, enum json_event first) {
    if (first != JSON_STRING)
        return field_wrong_type(r, "a string", first);
    return field_prompt(r, first);
}

static int read_do_sample(struct field_reader *r, enum json_event first) {
    return field_bool(r, first, &request_of(r)->samples);
}

static int read_prefill(struct field_reader *r, enum json_event first) {
    return field_bool(r, first, &request_of(r)->prefill);
}

/* {"type": "json", "value": SCHEMA} and its kin. */
static int read_grammar(struct field_reader *r, enum json_event first) {
    if (first != JSON_OBJECT_BEGIN)
        return field_wrong_type(r, "an object with 'type' and 'value'", first);
    return field_response_format(r, first);
}

/* clang-format off */
#define PARAMETER_ROWS                                                                             \
    INT_FIELD("best_of", best_of, 1, GENREQ_CHOICES_MAX, 0),                                       \
    CUSTOM_FIELD("decoder_input_details", read_prefill),                                           \
    BOOL_FIELD("details", tgi.details, 0),                                                         \
    CUSTOM_FIELD("do_sample", read_do_sample),                                                     \
    CUSTOM_FIELD("grammar", read_grammar),                                                         \
    BOOL_FIELD("return_full_text", tgi.full_text, 0),                                              \
    INT_ALIAS("top_n_tokens", "top_logprobs", top_logprobs, 0, GENREQ_TOP_LOGPROBS_MAX, 0),        \
    CUSTOM_ALIAS("truncate", "truncate_prompt_tokens", field_truncate),                            \
    /* of other dialects */                                                                        \
    NEUTRAL_FIELD("n", "1"),                                                                       \
    NEUTRAL_FIELD("n_cmpl", "1"),                                                                  \
    REFUSED_FIELD("stream_options"),                                                               \
    REFUSED_FIELD("return_token_ids"),                                                             \
    REFUSED_FIELD("return_tokens_as_token_ids"),                                                   \
    REFUSED_FIELD("return_progress"),                                                              \
    REFUSED_FIELD("timings_per_token"),                                                            \
    NEUTRAL_FIELD("include_stop_str_in_output", "true"), /* as it always is there */               \
    NEUTRAL_FIELD("no_stop_trim", "true"),                                                         \
    NEUTRAL_FIELD("reasoning_format", TEXT_REASONING),                                             \
    PASSED_FIELD("service_tier"),                                                                  \
    REFUSED_FIELD("logprobs"),                                                                     \
    REFUSED_FIELD("messages"),                                                                     \
    REFUSED_FIELD("tools"),                                                                        \
    REFUSED_FIELD("documents"),                                                                    \
    REFUSED_FIELD("chat_template"),                                                                \
    REFUSED_FIELD("chat_template_kwargs"),                                                         \
    REFUSED_FIELD("text"),                                                                         \
    NEUTRAL_FIELD("tool_choice", "\"none\" \"auto\"")

static const struct field parameter_rows[] = {
    PARAMETER_ROWS,
    /* of the request */
    REFUSED_FIELD("stream"),
    REFUSED_FIELD("model"),
};
/* clang-format on */

static const struct field_table parameters_own = {parameter_rows, ARRAY_LEN(parameter_rows)};
static const struct field_table *const parameters_tables[] = {
    &parameters_own, &field_shared, &field_constraint, &field_peers, &field_elsewhere};
static const struct field_set fields_parameters = {parameters_tables, ARRAY_LEN(parameters_tables)};

static int read_parameters(struct field_reader *r, enum json_event first) {
    return field_nested(r, first, &fields_parameters, "an object");
}

/* clang-format off */
static const struct field rows[] = {
    PARAMETER_ROWS,
    CUSTOM_ALIAS("inputs", "prompt", read_inputs),
    CUSTOM_FIELD("parameters", read_parameters),
};
/* clang-format on */

static const struct field_table own = {rows, ARRAY_LEN(rows)};
static const struct field_table *const tables[] = {&own, &field_shared, &field_constraint,
                                                   &field_peers, &field_elsewhere};
const struct field_set fields_tgi = {tables, ARRAY_LEN(tables)};

/* Whether anything asks for more than the likeliest token; values that are off do not. */
static bool asks_for_sampling(const struct tgi_request *q) {
    const struct genreq *g = &q->g;
    return q->samples || (g->given & GENREQ_TEMPERATURE && g->temperature != 1) ||
           (g->given & GENREQ_TOP_K && g->top_k > 0) || (g->given & GENREQ_TOP_P && g->top_p < 1) ||
           (g->given & GENREQ_MIN_P && g->min_p > 0) || g->typical_p < 1;
}

static int check(const struct tgi_request *q, bool samples, struct api_error *err) {
    const struct genreq *g = &q->g;
    if (g->prompt_count == 0)
        return api_error_set(err, API_BAD_REQUEST, "inputs", "'inputs' is missing");
    if (q->prefill && g->stream)
        return api_error_set(err, API_BAD_REQUEST, "decoder_input_details",
                             "'decoder_input_details' cannot be had in a stream");
    if (g->best_of > 1 && g->stream)
        return api_error_set(err, API_BAD_REQUEST, "best_of",
                             "'best_of' cannot be had in a stream: which text is the best is known "
                             "at the end");
    if (g->best_of > 1 && !samples)
        return api_error_set(err, API_BAD_REQUEST, "best_of",
                             "'best_of' needs 'do_sample': without it all texts are the same");
    return genreq_check_choices(g, err);
}

int tgi_parse(struct genreq *g, struct bytes body, struct api_error *err) {
    struct tgi_request q = {.g = *g};
    q.g.tgi.full_text = g->dialect == GENREQ_TGI_ROOT;
    int rc = field_read_request(&q.g, &fields_tgi, body, err);
    *g = q.g; /* the arena with it */
    if (rc)
        return -1;
    g->stream |= g->dialect == GENREQ_TGI_STREAM;
    q.g.stream = g->stream;
    bool samples = asks_for_sampling(&q);
    if (!samples) {
        g->temperature = 0;
        g->given |= GENREQ_TEMPERATURE;
    }
    genreq_default_max_tokens(g, TOKENS_UNLESS_ASKED);
    g->tgi.details |= q.prefill;
    g->prompt_logprobs = q.prefill ? 0 : -1;
    g->logprobs = g->stream || g->tgi.details;
    g->include_stop_text = true;
    g->answers_list = g->dialect == GENREQ_TGI_ROOT;
    return check(&q, samples, err);
}

bool tgi_is_body(struct bytes body) {
    enum { INPUTS_ALONE = 1 };
    static const char *const NAMES[] = {"inputs", "text", "input_ids"};
    return field_names_there(body, NAMES, ARRAY_LEN(NAMES)) == INPUTS_ALONE;
}
