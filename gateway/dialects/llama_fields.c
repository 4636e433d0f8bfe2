/*
 * POST /completion and /infill: the fields of llama.cpp's own requests. Most are those that
 * field_peers.c takes under llama.cpp's names everywhere; what is not given comes from the model's
 * files, not from llama.cpp's defaults.
 */
#include "gateway/fields/field.h"

/* A request; g first: the rows are of struct genreq. */
struct llama_request {
    struct genreq g;
    bool return_tokens, has_prefix, has_suffix;
    struct bytes prompt; /* of an infill */
};

static struct llama_request *request_of(struct field_reader *r) {
    return (struct llama_request *)(void *)r->g;
}

static int read_return_tokens(struct field_reader *r, enum json_event first) {
    return field_bool(r, first, &request_of(r)->return_tokens);
}

static int read_probs(struct field_reader *r, enum json_event first) {
    int64_t asked;
    if (field_int(r, first, 0, GENREQ_TOP_LOGPROBS_MAX, &asked))
        return -1;
    if (r->g->given & GENREQ_TOP_LOGPROBS && asked != r->g->top_logprobs)
        return field_disagrees(r);
    r->g->given |= GENREQ_TOP_LOGPROBS;
    r->g->top_logprobs = asked;
    r->g->logprobs = asked > 0;
    return 0;
}

static int read_response_fields(struct field_reader *r, enum json_event first) {
    return field_strings(r, first, GENREQ_RESPONSE_FIELDS_MAX, GENREQ_NAME_MAX,
                         &r->g->response_fields, &r->g->response_field_count);
}

/* ---- what stands around ---- */

static int read_around(struct field_reader *r, enum json_event first, struct bytes *out,
                       bool *given) {
    *given = true;
    return field_string(r, first, SIZE_MAX, out);
}

static int read_prefix(struct field_reader *r, enum json_event first) {
    return read_around(r, first, &r->g->infill.prefix, &request_of(r)->has_prefix);
}

static int read_suffix(struct field_reader *r, enum json_event first) {
    return read_around(r, first, &r->g->infill.suffix, &request_of(r)->has_suffix);
}

static int read_infill_prompt(struct field_reader *r, enum json_event first) {
    return field_string(r, first, SIZE_MAX, &request_of(r)->prompt);
}

/* {"filename": ..., "text": ...} */
static int read_file(struct field_reader *r, struct genreq_file *file) {
    bool has_text = false;
    file->name = bytes_str("tmp"); /* llama.cpp's */
    for (enum json_event event; (event = json_next(&r->json)) == JSON_KEY;) {
        bool is_name = bytes_equal(r->json.text, bytes_str("filename")),
             is_text = bytes_equal(r->json.text, bytes_str("text"));
        event = json_next(&r->json);
        int rc = is_name   ? field_string(r, event, GENREQ_NAME_MAX, &file->name)
                 : is_text ? field_string(r, event, SIZE_MAX, &file->text)
                           : field_span(r, event, NULL);
        if (rc)
            return -1;
        has_text |= is_text;
    }
    if (has_text)
        return 0;
    return api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' holds a file without 'text'",
                         r->name);
}

static int read_extra(struct field_reader *r, enum json_event first) {
    VEC(struct genreq_file) files = {0};
    int rc = 0;
    if (first != JSON_ARRAY_BEGIN)
        return field_wrong_type(r, "an array of files", first);
    for (enum json_event event; rc == 0 && (event = json_next(&r->json)) != JSON_ARRAY_END;) {
        struct genreq_file file = {.text = {0}};
        if (event != JSON_OBJECT_BEGIN)
            rc = field_wrong_type(r, "an array of files", event);
        else if (files.count == GENREQ_FILES_MAX)
            rc = api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' holds more than %d files",
                               r->name, GENREQ_FILES_MAX);
        else
            rc = read_file(r, &file);
        if (rc == 0)
            vec_push(&files, file);
    }
    if (rc == 0 && files.count) {
        r->g->infill.file_count = (uint32_t)files.count;
        r->g->infill.files =
            arena_copy(&r->g->arena, files.items, files.count * sizeof files.items[0]);
        rc = r->g->infill.files ? 0 : field_too_large(r);
    }
    vec_release(&files);
    return rc;
}

/* clang-format off */
#define COMMON_ROWS                                                                                \
    CUSTOM_ALIAS("n_probs", "top_logprobs", read_probs),                                           \
    CUSTOM_ALIAS("logprobs", "top_logprobs", read_probs),                                          \
    INT_ALIAS("max_completion_tokens", "max_tokens", max_tokens, -1, WIRE_MAX_TOKENS,              \
              GENREQ_MAX_TOKENS),                                                                  \
    CUSTOM_FIELD("return_tokens", read_return_tokens),                                             \
    CUSTOM_FIELD("seed", field_seed),                                                              \
    CUSTOM_FIELD("response_fields", read_response_fields),                                         \
    PASSED_FIELD("verbose"), /* they always tell how they were sampled, */                         \
    PASSED_FIELD("timings_per_token"), /* how long it took, */                                     \
    PASSED_FIELD("stream_options"), /* and how many tokens there were */                           \
    PASSED_FIELD("service_tier"),                                                                  \
    NEUTRAL_FIELD("reasoning_format", TEXT_REASONING),                                             \
    /* of chats, or of the other dialects */                                                       \
    REFUSED_FIELD("messages"),                                                                     \
    REFUSED_FIELD("tools"),                                                                        \
    REFUSED_FIELD("documents"),                                                                    \
    REFUSED_FIELD("chat_template"),                                                                \
    REFUSED_FIELD("chat_template_kwargs"),                                                         \
    REFUSED_FIELD("return_token_ids"),                                                             \
    NEUTRAL_FIELD("tool_choice", "\"none\" \"auto\"")

static const struct field completion_rows[] = {
    COMMON_ROWS,
    CUSTOM_FIELD("prompt", field_prompt),
};

static const struct field infill_rows[] = {
    COMMON_ROWS,
    CUSTOM_FIELD("prompt", read_infill_prompt),
    CUSTOM_FIELD("input_prefix", read_prefix),
    CUSTOM_FIELD("input_suffix", read_suffix),
    CUSTOM_FIELD("input_extra", read_extra),
    REFUSED_FIELD("add_special_tokens"),
};
/* clang-format on */

static int read(struct llama_request *q, const struct field_set *set, struct bytes body,
                struct api_error *err) {
    if (field_read_request(&q->g, set, body, err))
        return -1;
    q->g.return_token_ids = q->return_tokens || q->g.stream;
    return 0;
}

static int check_prompts(const struct genreq *g, struct api_error *err) {
    if (g->prompt_count == 0)
        return api_error_set(err, API_BAD_REQUEST, "prompt", "'prompt' is missing");
    for (uint32_t i = 0; i < g->prompt_count; i++)
        if (g->prompts[i].is_ids && g->prompts[i].ids.count == 0)
            return api_error_set(err, API_BAD_REQUEST, "prompt",
                                 "'prompt' holds an empty list of token ids");
    return genreq_check_choices(g, err);
}

static const struct field_table completion_own = {completion_rows, ARRAY_LEN(completion_rows)};
static const struct field_table *const completion_tables[] = {
    &completion_own, &field_shared, &field_constraint, &field_peers, &field_elsewhere};
const struct field_set fields_completion = {completion_tables, ARRAY_LEN(completion_tables)};

int llama_completion_parse(struct genreq *g, struct bytes body, struct api_error *err) {
    struct llama_request q = {.g = *g};
    int rc = read(&q, &fields_completion, body, err);
    if (rc == 0)
        rc = check_prompts(&q.g, err);
    *g = q.g; /* the arena with it */
    return rc;
}

static const struct field_table infill_own = {infill_rows, ARRAY_LEN(infill_rows)};
static const struct field_table *const infill_tables[] = {
    &infill_own, &field_shared, &field_constraint, &field_peers, &field_elsewhere};
const struct field_set fields_infill = {infill_tables, ARRAY_LEN(infill_tables)};

int llama_infill_parse(struct genreq *g, struct bytes body, struct api_error *err) {
    struct llama_request q = {.g = *g};
    int rc = read(&q, &fields_infill, body, err);
    if (rc == 0 && !q.has_prefix)
        rc = api_error_set(err, API_BAD_REQUEST, "input_prefix", "'input_prefix' is missing");
    if (rc == 0 && !q.has_suffix)
        rc = api_error_set(err, API_BAD_REQUEST, "input_suffix", "'input_suffix' is missing");
    if (rc == 0) {
        const struct genreq_prompt prompt = {.text = q.prompt};
        q.g.prompts = arena_copy(&q.g.arena, &prompt, sizeof prompt);
        q.g.prompt_count = q.g.prompts ? 1 : 0;
        q.g.infill.wanted = true;
        rc = genreq_check_choices(&q.g, err);
    }
    *g = q.g; /* the arena with it */
    return rc;
}
