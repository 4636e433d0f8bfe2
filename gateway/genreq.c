#include "gateway/genreq.h"

#include "formats/json.h"
#include "gateway/anthropic.h"
#include "gateway/field.h"
#include "gateway/responses.h"

enum { ARENA_BYTES_MAX = 256 << 20 }; /* the body's own bound is far below; escapes only shrink */

void genreq_init(struct genreq *g, enum genreq_dialect dialect) {
    bool continues = dialect == GENREQ_COMPLETIONS || dialect == GENREQ_COMPLETION;
    *g = (struct genreq){.dialect = dialect,
                         .temperature = 1,
                         .top_p = 1,
                         .repetition_penalty = 1,
                         .choice_count = 1,
                         .skip_special_tokens = true,
                         .include_reasoning = true,
                         .separate_reasoning = true,
                         .parallel_tool_calls = true,
                         .add_special_tokens = continues,
                         .add_generation_prompt = !continues};
    arena_init(&g->arena, ARENA_BYTES_MAX, 0);
}

static int check_stream_options(const struct genreq *g, struct api_error *err) {
    if (g->stream || !(g->given & GENREQ_STREAM_OPTIONS))
        return 0;
    return api_error_set(err, API_BAD_REQUEST, "stream_options",
                         "'stream_options' needs 'stream': true");
}

int genreq_parse(struct genreq *g, enum genreq_dialect dialect, struct bytes body,
                 struct api_error *err) {
    struct error scan;
    genreq_init(g, dialect);
    if (body.len == 0)
        return api_error_set(err, API_BAD_REQUEST, NULL,
                             "the request has no body; it must be a JSON object");
    if (json_scan(body, GENREQ_DEPTH_MAX, &scan))
        return api_error_set(err, API_BAD_REQUEST, NULL, "malformed JSON: %s", scan.text);
    int rc = -1;
    switch (dialect) {
    case GENREQ_CHAT: rc = openai_chat_parse(g, body, err); break;
    case GENREQ_COMPLETIONS: rc = openai_completions_parse(g, body, err); break;
    case GENREQ_MESSAGES: rc = anthropic_parse(g, body, false, err); break;
    case GENREQ_OLLAMA_CHAT: rc = ollama_chat_parse(g, body, err); break;
    case GENREQ_OLLAMA_GENERATE: rc = ollama_generate_parse(g, body, err); break;
    case GENREQ_RESPONSES: rc = responses_parse(g, body, err); break;
    case GENREQ_COMPLETION: rc = llama_completion_parse(g, body, err); break;
    case GENREQ_INFILL: rc = llama_infill_parse(g, body, err); break;
    case GENREQ_DIALECT_COUNT: CHECK(false);
    }
    if (rc == 0)
        rc = check_stream_options(g, err);
    return rc;
}

void genreq_release(struct genreq *g) {
    arena_release(&g->arena);
}

bool genreq_asks_nothing(const struct genreq *g) {
    return g->messages.len == 0 && g->prompt_count == 0;
}

uint32_t genreq_max_tokens(const struct genreq *g, uint32_t fallback) {
    if (g->given & GENREQ_MAX_COMPLETION_TOKENS)
        return (uint32_t)g->max_completion_tokens;
    return g->given & GENREQ_MAX_TOKENS ? (uint32_t)g->max_tokens : fallback;
}
