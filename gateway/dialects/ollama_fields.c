/*
 * POST /api/chat and /api/generate: the fields of Ollama's requests.
 *
 * What samples stands in `options`, an object of its own; some clients say it beside that, where it
 * means the same. A stream is the default. A prompt of /api/generate is one user message unless it is
 * raw. A request that asks nothing (no messages, no
 * prompt) is how clients load a model: genreq_asks_nothing.
 */
#include "gateway/fields/allowed_tools.h"
#include "gateway/fields/tool_choice.h"

/* g first: the rows are of struct genreq, and custom readers reach the rest. */
struct ollama_request {
    struct genreq g;
    struct bytes prompt, system;
    struct bytes effort; /* how much think asks for */
    bool raw;
};

static struct ollama_request *request_of(struct field_reader *r) {
    return (struct ollama_request *)(void *)r->g;
}

/* ---- fields ---- */

static int read_prompt(struct field_reader *r, enum json_event first) {
    return field_string(r, first, SIZE_MAX, &request_of(r)->prompt);
}

static int read_system(struct field_reader *r, enum json_event first) {
    return field_string(r, first, SIZE_MAX, &request_of(r)->system);
}

static int read_raw(struct field_reader *r, enum json_event first) {
    return field_bool(r, first, &request_of(r)->raw);
}

static int read_suffix(struct field_reader *r, enum json_event first) {
    return field_string(r, first, SIZE_MAX, &r->g->infill.suffix);
}

/* None are taken here: such a request asks nothing. */
static int read_messages(struct field_reader *r, enum json_event first) {
    const uint8_t *at = r->json.at;
    while (at < r->json.end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
        at++;
    bool none = first == JSON_ARRAY_BEGIN && at < r->json.end && *at == ']';
    return none ? field_span(r, first, NULL) : field_messages(r, first);
}

/* true, false, or how much. */
static int read_think(struct field_reader *r, enum json_event first) {
    static const char *const LEVELS[] = {"low", "medium", "high", "max"};
    struct bytes *effort = &request_of(r)->effort;
    *effort = bytes_str(first == JSON_FALSE ? "none" : "");
    bool known = first == JSON_TRUE || first == JSON_FALSE;
    if (first == JSON_STRING) {
        if (field_string(r, first, GENREQ_NAME_MAX, effort))
            return -1;
        for (size_t i = 0; i < ARRAY_LEN(LEVELS); i++)
            known |= bytes_equal(*effort, bytes_str(LEVELS[i]));
    }
    if (!known)
        return api_error_set(r->err, API_BAD_REQUEST, r->name,
                             "'%s' must be true, false, \"low\", \"medium\", \"high\" or \"max\"",
                             r->name);
    r->g->thinking = first == JSON_FALSE ? THINKING_OFF : THINKING_ON;
    return 0;
}

/* clang-format off */
static const struct field option_rows[] = {
    NUMBER_FIELD("temperature", temperature, 0, 100, GENREQ_TEMPERATURE),
    NUMBER_FIELD("top_p", top_p, 0, 1, GENREQ_TOP_P),
    INT_FIELD("top_k", top_k, -1, INT32_MAX, GENREQ_TOP_K),
    NUMBER_FIELD("min_p", min_p, 0, 1, GENREQ_MIN_P),
    NUMBER_FIELD("top_n_sigma", top_n_sigma, -1000, 1000, 0),
    NUMBER_FIELD("presence_penalty", presence_penalty, -100, 100, 0),
    NUMBER_FIELD("frequency_penalty", frequency_penalty, -100, 100, 0),
    CUSTOM_FIELD("seed", field_seed),
    CUSTOM_FIELD("stop", field_stops),
    NEUTRAL_FIELD("penalize_newline", "true"),
    REFUSED_FIELD("embedding_only"),
    REFUSED_FIELD("vocab_only"),
    /* how a server that loads models for each request does it */
    PASSED_FIELD("num_ctx"),
    PASSED_FIELD("num_keep"),
    PASSED_FIELD("num_batch"),
    PASSED_FIELD("num_gpu"),
    PASSED_FIELD("main_gpu"),
    PASSED_FIELD("num_thread"),
    PASSED_FIELD("numa"),
    PASSED_FIELD("low_vram"),
    PASSED_FIELD("f16_kv"),
    PASSED_FIELD("logits_all"),
    PASSED_FIELD("use_mmap"),
    PASSED_FIELD("use_mlock"),
};
/* clang-format on */

static int read_options(struct field_reader *r, enum json_event first) {
    static const struct field_table own = {option_rows, ARRAY_LEN(option_rows)};
    static const struct field_table *const tables[] = {&own, &field_peers,
                                                       &field_elsewhere_options};
    static const struct field_set set = {tables, ARRAY_LEN(tables)};
    return field_nested(r, first, &set, "an object");
}

/* clang-format off */
#define COMMON_ROWS                                                                                \
    STRING_FIELD("model", model, GENREQ_NAME_MAX),                                                 \
    BOOL_FIELD("stream", stream, 0),                                                               \
    CUSTOM_FIELD("options", read_options),                                                         \
    /* as the AI SDK's providers say it: Ollama passes over these, and so over what was asked for */ \
    NUMBER_FIELD("temperature", temperature, 0, 100, GENREQ_TEMPERATURE),                          \
    NUMBER_FIELD("top_p", top_p, 0, 1, GENREQ_TOP_P),                                              \
    INT_FIELD("top_k", top_k, -1, INT32_MAX, GENREQ_TOP_K),                                        \
    NUMBER_FIELD("min_p", min_p, 0, 1, GENREQ_MIN_P),                                              \
    INT_FIELD("max_tokens", max_tokens, -1, WIRE_MAX_TOKENS, GENREQ_MAX_TOKENS),                   \
    INT_ALIAS("max_output_tokens", "max_tokens", max_tokens, 1, WIRE_MAX_TOKENS,                   \
              GENREQ_MAX_TOKENS),                                                                  \
    CUSTOM_FIELD("think", read_think),                                                             \
    BOOL_FIELD("logprobs", logprobs, 0),                                                           \
    INT_FIELD("top_logprobs", top_logprobs, 0, GENREQ_TOP_LOGPROBS_MAX, GENREQ_TOP_LOGPROBS),      \
    NEUTRAL_FIELD("n_cmpl", "1"),                                                                  \
    /* a prompt that does not fit is refused, and a text ends where the context does */            \
    REFUSED_FIELD("return_progress"),                                                              \
    REFUSED_FIELD("timings_per_token"),                                                            \
    PASSED_FIELD("service_tier"),                                                                  \
    PASSED_FIELD("truncate"),                                                                      \
    PASSED_FIELD("shift")

static const struct field chat_rows[] = {
    COMMON_ROWS,
    CUSTOM_FIELD("messages", read_messages),
    /* Ollama passes over it; who says it wants it */
    CUSTOM_FIELD("tool_choice", tool_choice_read),
    REFUSED_FIELD("prompt"),
};

static const struct field generate_rows[] = {
    COMMON_ROWS,
    CUSTOM_ALIAS("prompt", "messages", read_prompt), /* it becomes one */
    CUSTOM_FIELD("system", read_system),
    CUSTOM_FIELD("raw", read_raw),
    CUSTOM_FIELD("suffix", read_suffix),
    REFUSED_FIELD("messages"),
    REFUSED_FIELD("tools"),
};
/* clang-format on */

/* ---- what spans fields ---- */

/* The template is told what think asks for. 0, or -1 with *err filled: something else tells it too. */
static int apply_think(struct ollama_request *q, struct api_error *err) {
    struct genreq *g = &q->g;
    if (g->thinking == THINKING_AS_TEMPLATE)
        return 0;
    if (g->reasoning_effort.len)
        return api_error_set(err, API_BAD_REQUEST, "think",
                             "'think' and 'reasoning_effort' cannot both be given");
    g->reasoning_effort = q->effort;
    g->must_think = g->thinking == THINKING_ON;
    return field_apply_thinking(g, "think", err);
}

static int check_logprobs(const struct genreq *g, struct api_error *err) {
    if (g->logprobs || !(g->given & GENREQ_TOP_LOGPROBS) || g->top_logprobs == 0)
        return 0;
    return api_error_set(err, API_BAD_REQUEST, "top_logprobs",
                         "'top_logprobs' needs 'logprobs': true");
}

static const struct field_table ollama_chat_own = {chat_rows, ARRAY_LEN(chat_rows)};
static const struct field_table *const ollama_chat_tables[] = {
    &ollama_chat_own, &field_template,         &field_constraint,
    &field_peers,     &field_elsewhere_ollama, &field_elsewhere};
const struct field_set fields_ollama_chat = {ollama_chat_tables, ARRAY_LEN(ollama_chat_tables)};

static int check_chat(struct ollama_request *q, struct api_error *err) {
    if (q->g.continue_final_message && q->g.add_generation_prompt)
        return api_error_set(err, API_BAD_REQUEST, "continue_final_message",
                             "'continue_final_message' needs 'add_generation_prompt': false");
    if (tool_choice_check(&q->g, err) || allowed_tools_apply(&q->g, err))
        return -1;
    if (q->g.tool_choice_none) /* a model that must not call is not tempted */
        q->g.tools = bytes_of(NULL, 0);
    return apply_think(q, err) ? -1 : check_logprobs(&q->g, err);
}

int ollama_chat_parse(struct genreq *g, struct bytes body, struct api_error *err) {
    struct ollama_request q = {.g = *g};
    q.g.stream = true;
    int rc = field_read_request(&q.g, &fields_ollama_chat, body, err);
    if (rc == 0)
        rc = check_chat(&q, err);
    *g = q.g; /* the arena with it */
    return rc;
}

static void write_message(struct json_writer *w, const char *role, struct bytes content) {
    json_begin_object(w);
    json_key(w, "role");
    json_string(w, role);
    json_key(w, "content");
    json_string_bytes(w, content);
    json_end_object(w);
}

/* The messages that the prompt is: the system's, if there is one, and the user's. 0, or -1 with
 * *err filled. */
static int write_messages(struct ollama_request *q, struct api_error *err) {
    struct buf text = {0};
    struct json_writer w;
    json_writer_init(&w, &text);
    json_begin_array(&w);
    if (q->system.len)
        write_message(&w, "system", q->system);
    write_message(&w, "user", q->prompt);
    json_end_array(&w);
    int rc = genreq_keep(&q->g, &text, &q->g.messages, err);
    buf_release(&text);
    return rc;
}

/* The prompt as it stands: raw, or for a model without a template. */
static int add_prompt(struct ollama_request *q, struct api_error *err) {
    const struct genreq_prompt prompt = {.text = q->prompt};
    q->g.prompts = arena_copy(&q->g.arena, &prompt, sizeof prompt);
    q->g.prompt_count = q->g.prompts ? 1 : 0;
    q->g.add_special_tokens = true;
    return q->g.prompts ? 0 : api_error_set(err, API_TOO_LARGE, "prompt", "'prompt' is too large");
}

static int ask(struct ollama_request *q, struct api_error *err) {
    if (q->prompt.len == 0)
        return 0;
    if (q->raw && q->system.len)
        return api_error_set(err, API_BAD_REQUEST, "system",
                             "'system' and 'raw' cannot both be given: a raw prompt is all");
    if (q->g.infill.suffix.len) {
        if (q->system.len)
            return api_error_set(err, API_BAD_REQUEST, "suffix",
                                 "'suffix' and 'system' cannot both be given");
        if (add_prompt(q, err))
            return -1;
        genreq_infill_between(&q->g);
        return 0;
    }
    if ((q->raw || !q->system.len) && add_prompt(q, err))
        return -1;
    return q->raw ? 0 : write_messages(q, err);
}

static const struct field_table ollama_generate_own = {generate_rows, ARRAY_LEN(generate_rows)};
static const struct field_table *const ollama_generate_tables[] = {
    &ollama_generate_own, &field_constraint, &field_peers, &field_elsewhere_ollama,
    &field_elsewhere};
const struct field_set fields_ollama_generate = {ollama_generate_tables,
                                                 ARRAY_LEN(ollama_generate_tables)};

int ollama_generate_parse(struct genreq *g, struct bytes body, struct api_error *err) {
    struct ollama_request q = {.g = *g};
    q.g.stream = true;
    int rc = field_read_request(&q.g, &fields_ollama_generate, body, err);
    if (rc == 0)
        rc = apply_think(&q, err);
    if (rc == 0)
        rc = check_logprobs(&q.g, err);
    if (rc == 0)
        rc = ask(&q, err);
    *g = q.g; /* the arena with it */
    return rc;
}
