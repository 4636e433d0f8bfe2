/*
 * POST /generate: the fields of SGLang's own requests. What samples stands in `sampling_params`,
 * one object for all texts; the same fields beside it do the same. What is not given comes from
 * the model's files, but for max_new_tokens, which is SGLang's 128.
 *
 * Source: github.com/sgl-project/sglang, docs/basic_usage/sampling_params.md.
 */
#include "gateway/fields/field.h"

enum { TOKENS_UNLESS_ASKED = 128 };

/* A request; g first: the rows are of struct genreq. */
struct sglang_request {
    struct genreq g;
    bool text_in_logprobs;
};

static struct sglang_request *request_of(struct field_reader *r) {
    return (struct sglang_request *)(void *)r->g;
}

static int check_kind(struct field_reader *r, bool ids) {
    for (uint32_t i = 0; i < r->g->prompt_count; i++)
        if (r->g->prompts[i].is_ids != ids)
            return api_error_set(r->err, API_BAD_REQUEST, r->name,
                                 ids ? "'%s' must be token ids, or a list of lists of them"
                                     : "'%s' must be a string, or an array of strings",
                                 r->name);
    return 0;
}

static int read_prompts(struct field_reader *r, enum json_event first, bool ids) {
    if (r->g->prompt_count)
        return api_error_set(r->err, API_BAD_REQUEST, r->name,
                             "'text' and 'input_ids' cannot both be given");
    r->g->answers_list = first == JSON_ARRAY_BEGIN && (!ids || field_begins_with_array(r));
    return field_prompt(r, first) ? -1 : check_kind(r, ids);
}

static int read_text(struct field_reader *r, enum json_event first) {
    return read_prompts(r, first, false);
}
static int read_ids(struct field_reader *r, enum json_event first) {
    return read_prompts(r, first, true);
}

static int read_text_in_logprobs(struct field_reader *r, enum json_event first) {
    return field_bool(r, first, &request_of(r)->text_in_logprobs);
}

/* clang-format off */
/* of both objects: other names, and what means nothing here */
#define SAMPLING_ROWS                                                                              \
    INT_ALIAS("sampling_seed", "seed", seed, 0, 0, GENREQ_SEED),                                   \
    BOOL_ALIAS("no_stop_trim", "include_stop_str_in_output", include_stop_text, 0),                \
    CUSTOM_FIELD("structural_tag", field_structural_tag),                                          \
    NEUTRAL_FIELD("priority", "0"), /* SGLang's higher ones go first, ours last */                 \
    PASSED_FIELD("return_token_ids"), /* output_ids always has them */                             \
    PASSED_FIELD("service_tier"),                                                                  \
    NEUTRAL_FIELD("reasoning_format", TEXT_REASONING),                                             \
    REFUSED_FIELD("stream_options"),                                                               \
    REFUSED_FIELD("return_tokens_as_token_ids"),                                                   \
    REFUSED_FIELD("return_progress"),                                                              \
    REFUSED_FIELD("timings_per_token")

static const struct field sampling_rows[] = {
    SAMPLING_ROWS,
    /* of the request */
    REFUSED_FIELD("stream"),
    REFUSED_FIELD("model"),
    REFUSED_FIELD("text"),
};
/* clang-format on */

static const struct field_table sampling_own = {sampling_rows, ARRAY_LEN(sampling_rows)};
static const struct field_table *const sampling_tables[] = {
    &sampling_own, &field_shared, &field_constraint, &field_peers, &field_elsewhere};
static const struct field_set fields_sampling = {sampling_tables, ARRAY_LEN(sampling_tables)};

static int read_sampling(struct field_reader *r, enum json_event first) {
    return field_nested(r, first, &fields_sampling, "one object, which holds for all texts");
}

/* clang-format off */
static const struct field rows[] = {
    SAMPLING_ROWS,
    CUSTOM_ALIAS("text", "prompt", read_text),
    CUSTOM_ALIAS("input_ids", "prompt", read_ids),
    CUSTOM_FIELD("sampling_params", read_sampling),
    BOOL_ALIAS("return_logprob", "logprobs", logprobs, 0),
    INT_ALIAS("top_logprobs_num", "top_logprobs", top_logprobs, 0, GENREQ_TOP_LOGPROBS_MAX, 0),
    CUSTOM_FIELD("return_text_in_logprobs", read_text_in_logprobs),
    INT_FIELD("logprob_start_len", prompt_logprobs_from, -1, WIRE_MAX_TOKENS, 0),
    NEUTRAL_FIELD("token_ids_logprob", "[]"),
    PASSED_FIELD("log_metrics"),
    PASSED_FIELD("data_parallel_rank"),
    /* of other dialects. TGI's requests to this path (tgi_fields.c) have them alone */
    REFUSED_FIELD("prompt"),
    REFUSED_FIELD("inputs"),
    REFUSED_FIELD("parameters"),
    REFUSED_FIELD("messages"),
    REFUSED_FIELD("tools"),
    REFUSED_FIELD("documents"),
    REFUSED_FIELD("chat_template"),
    REFUSED_FIELD("chat_template_kwargs"),
    REFUSED_FIELD("logprobs"),
    NEUTRAL_FIELD("tool_choice", "\"none\" \"auto\""),
};
/* clang-format on */

static const struct field_table own = {rows, ARRAY_LEN(rows)};
static const struct field_table *const tables[] = {&own, &field_shared, &field_constraint,
                                                   &field_peers, &field_elsewhere};
const struct field_set fields_generate = {tables, ARRAY_LEN(tables)};

static int check(const struct genreq *g, struct api_error *err) {
    if (g->prompt_count == 0)
        return api_error_set(err, API_BAD_REQUEST, "text",
                             "'text' is missing; 'input_ids' takes its place");
    for (uint32_t i = 0; i < g->prompt_count; i++)
        if (g->prompts[i].is_ids && g->prompts[i].ids.count == 0)
            return api_error_set(err, API_BAD_REQUEST, "input_ids",
                                 "'input_ids' holds an empty list of token ids");
    if (g->prompt_logprobs >= 0 && g->stream)
        return api_error_set(err, API_BAD_REQUEST, "logprob_start_len",
                             "'logprob_start_len' cannot be had with 'stream'");
    return genreq_check_choices(g, err);
}

int sglang_generate_parse(struct genreq *g, struct bytes body, struct api_error *err) {
    struct sglang_request q = {.g = *g};
    int rc = field_read_request(&q.g, &fields_generate, body, err);
    *g = q.g; /* the arena with it */
    if (rc)
        return -1;
    genreq_default_max_tokens(g, TOKENS_UNLESS_ASKED);
    if (g->logprobs && g->prompt_logprobs_from >= 0) /* without the first it says nothing */
        g->prompt_logprobs = g->top_logprobs;
    g->return_token_ids = true;
    g->tokens_as_ids = !q.text_in_logprobs;
    g->answers_list |= g->choice_count > 1;
    return check(g, err);
}
