/*
 * POST /inference/v1/generate: vLLM's request from token ids to token ids. What samples stands in
 * `sampling_params`, as /v1/chat/completions/render and /v1/completions/render write it.
 *
 * Source: github.com/vllm-project/vllm, vllm/entrypoints/serve/disagg/protocol.py.
 */
#include "gateway/fields/field.h"

enum { TOKENS_UNLESS_ASKED = 16 };

static int read_ids(struct field_reader *r, enum json_event first) {
    if (first != JSON_ARRAY_BEGIN)
        return field_wrong_type(r, "an array of token ids", first);
    struct u32s ids;
    if (field_token_array(r, json_next(&r->json), WIRE_MAX_TOKENS, &ids))
        return -1;
    const struct genreq_prompt prompt = {.is_ids = true, .ids = {ids.items, ids.count}};
    r->g->prompts = arena_copy(&r->g->arena, &prompt, sizeof prompt);
    r->g->prompt_count = 1;
    return r->g->prompts ? 0 : field_too_large(r);
}

static int read_logprobs(struct field_reader *r, enum json_event first) {
    if (field_int(r, first, 0, GENREQ_TOP_LOGPROBS_MAX, &r->g->top_logprobs))
        return -1;
    r->g->logprobs = true;
    return 0;
}

/* clang-format off */
/* of both objects */
#define REFUSED_ROWS                                                                               \
    PASSED_FIELD("output_kind"), /* `stream` says it */                                            \
    NEUTRAL_FIELD("extra_args", "{}"),                                                             \
    NEUTRAL_FIELD("detokenize", "true false"), /* the answer has no text either way */             \
    REFUSED_FIELD("features"),                                                                     \
    REFUSED_FIELD("prompt"),                                                                       \
    REFUSED_FIELD("messages"),                                                                     \
    REFUSED_FIELD("tools"),                                                                        \
    REFUSED_FIELD("documents"),                                                                    \
    REFUSED_FIELD("chat_template"),                                                                \
    REFUSED_FIELD("chat_template_kwargs"),                                                         \
    REFUSED_FIELD("return_progress"),                                                              \
    REFUSED_FIELD("timings_per_token"),                                                            \
    /* no text is made of the tokens */                                                            \
    PASSED_FIELD("skip_special_tokens"),                                                           \
    PASSED_FIELD("include_stop_str_in_output"),                                                    \
    PASSED_FIELD("no_stop_trim"),                                                                  \
    NEUTRAL_FIELD("reasoning_format", TEXT_REASONING),                                             \
    PASSED_FIELD("service_tier"),                                                                  \
    NEUTRAL_FIELD("tool_choice", "\"none\" \"auto\""),                                             \
    /* the answer has no text */                                                                   \
    REFUSED_FIELD("add_special_tokens"),                                                           \
    PASSED_FIELD("return_token_ids"),                                                              \
    PASSED_FIELD("return_tokens_as_token_ids")

static const struct field sampling_rows[] = {
    CUSTOM_FIELD("logprobs", read_logprobs),
    INT_FIELD("prompt_logprobs", prompt_logprobs, 0, GENREQ_TOP_LOGPROBS_MAX, 0),
    REFUSED_ROWS,
    /* of the request */
    REFUSED_FIELD("token_ids"),
    REFUSED_FIELD("stream"),
    REFUSED_FIELD("stream_options"),
    REFUSED_FIELD("model"),
};
/* clang-format on */

static const struct field_table sampling_own = {sampling_rows, ARRAY_LEN(sampling_rows)};
static const struct field_table *const sampling_tables[] = {
    &sampling_own, &field_shared, &field_constraint, &field_peers, &field_elsewhere};
static const struct field_set fields_sampling = {sampling_tables, ARRAY_LEN(sampling_tables)};

static int read_sampling(struct field_reader *r, enum json_event first) {
    return field_nested(r, first, &fields_sampling, "an object");
}

/* clang-format off */
static const struct field rows[] = {
    CUSTOM_ALIAS("token_ids", "prompt", read_ids),
    CUSTOM_FIELD("sampling_params", read_sampling),
    CUSTOM_FIELD("logprobs", read_logprobs),
    INT_FIELD("prompt_logprobs", prompt_logprobs, 0, GENREQ_TOP_LOGPROBS_MAX, 0),
    REFUSED_ROWS,
};
/* clang-format on */

static const struct field_table own = {rows, ARRAY_LEN(rows)};
static const struct field_table *const tables[] = {&own, &field_shared, &field_constraint,
                                                   &field_peers, &field_elsewhere};
const struct field_set fields_tokens = {tables, ARRAY_LEN(tables)};

int tokens_parse(struct genreq *g, struct bytes body, struct api_error *err) {
    if (field_read_request(g, &fields_tokens, body, err))
        return -1;
    if (g->prompt_count == 0)
        return api_error_set(err, API_BAD_REQUEST, "token_ids", "'token_ids' is missing");
    if (g->prompts[0].ids.count == 0)
        return api_error_set(err, API_BAD_REQUEST, "token_ids", "'token_ids' is empty");
    genreq_default_max_tokens(g, TOKENS_UNLESS_ASKED);
    g->return_token_ids = true;
    g->tokens_as_ids = true;
    return genreq_check_choices(g, err) ? -1 : genreq_check_prompt_logprobs(g, err);
}
