#include "gateway/fields/genreq.h"

#include "formats/json.h"
#include "gateway/dialects/anthropic.h"
#include "gateway/dialects/embed.h"
#include "gateway/dialects/labels.h"
#include "gateway/dialects/responses.h"
#include "gateway/fields/field.h"

enum { ARENA_BYTES_MAX = 256 << 20 }; /* the body's own bound is far below; escapes only shrink */

void genreq_init(struct genreq *g, enum genreq_dialect dialect) {
    bool continues = dialect == GENREQ_COMPLETIONS || dialect == GENREQ_COMPLETION ||
                     dialect == GENREQ_GENERATE || genreq_is_tgi(dialect);
    *g = (struct genreq){.dialect = dialect,
                         .temperature = 1,
                         .top_p = 1,
                         .repetition_penalty = 1,
                         .typical_p = 1,
                         .xtc_threshold = 0.1,
                         .dynatemp_exponent = 1,
                         .dry_base = 1.75,
                         .dry_allowed_length = 2,
                         .dry_window = -1,
                         .mirostat_tau = 5,
                         .mirostat_eta = 0.1,
                         .adaptive_target = -1,
                         .adaptive_decay = 0.9,
                         .choice_count = 1,
                         .thinking_budget = -1,
                         .prompt_logprobs = -1,
                         .prompt_logprobs_from = -1,
                         .skip_special_tokens = true,
                         .include_reasoning = true,
                         .separate_reasoning = true,
                         .parallel_tool_calls = true,
                         .add_special_tokens = continues,
                         .add_generation_prompt = !continues};
    g->truncate.keeps_end = !genreq_embeds(g); /* as vLLM has it */
    arena_init(&g->arena, ARENA_BYTES_MAX, 0);
}

static int check_stream_options(const struct genreq *g, struct api_error *err) {
    if (g->stream || !(g->given & GENREQ_STREAM_OPTIONS))
        return 0;
    return api_error_set(err, API_BAD_REQUEST, "stream_options",
                         "'stream_options' needs 'stream': true");
}

static int messages_parse(struct genreq *g, struct bytes body, struct api_error *err) {
    return anthropic_parse(g, body, false, err);
}

static int (*const parsers[GENREQ_DIALECT_COUNT])(struct genreq *g, struct bytes body,
                                                  struct api_error *err) = {
    [GENREQ_CHAT] = openai_chat_parse,
    [GENREQ_COMPLETIONS] = openai_completions_parse,
    [GENREQ_MESSAGES] = messages_parse,
    [GENREQ_OLLAMA_CHAT] = ollama_chat_parse,
    [GENREQ_OLLAMA_GENERATE] = ollama_generate_parse,
    [GENREQ_RESPONSES] = responses_parse,
    [GENREQ_COMPLETION] = llama_completion_parse,
    [GENREQ_INFILL] = llama_infill_parse,
    [GENREQ_EMBEDDINGS] = embeddings_parse,
    [GENREQ_LLAMA_EMBEDDING] = llama_embedding_parse,
    [GENREQ_OLLAMA_EMBED] = ollama_embed_parse,
    [GENREQ_OLLAMA_EMBEDDINGS] = ollama_embeddings_parse,
    [GENREQ_RERANK] = rerank_parse,
    [GENREQ_SCORE] = score_parse,
    [GENREQ_GENERATE] = sglang_generate_parse,
    [GENREQ_TGI] = tgi_parse,
    [GENREQ_TGI_STREAM] = tgi_parse,
    [GENREQ_TGI_ROOT] = tgi_parse,
    [GENREQ_TOKENS] = tokens_parse,
    [GENREQ_POOLING] = pooling_parse,
    [GENREQ_CLASSIFY] = classify_parse,
    [GENREQ_COHERE_EMBED] = cohere_embed_parse,
    [GENREQ_ENCODE] = encode_parse,
    [GENREQ_GENERATIVE_SCORING] = generative_scoring_parse,
    [GENREQ_LABEL_SCORES] = label_scores_parse,
    [GENREQ_PPL] = ppl_parse,
};

/* As vLLM, SGLang and TGI read what SageMaker sends: the first of these members decides. */
static int read_invocation(struct bytes body, enum genreq_dialect *out, struct api_error *err) {
    static const struct {
        const char *member;
        enum genreq_dialect dialect;
    } MEMBERS[] = {{"messages", GENREQ_CHAT},    {"prompt", GENREQ_COMPLETIONS},
                   {"input", GENREQ_EMBEDDINGS}, {"inputs", GENREQ_TGI},
                   {"text", GENREQ_GENERATE},    {"input_ids", GENREQ_GENERATE},
                   {"text_1", GENREQ_SCORE},     {"queries", GENREQ_SCORE},
                   {"documents", GENREQ_RERANK}, {"texts", GENREQ_RERANK}};
    struct json_reader r;
    size_t best = ARRAY_LEN(MEMBERS);
    json_reader_init(&r, body, GENREQ_DEPTH_MAX, 0);
    bool is_object = json_next(&r) == JSON_OBJECT_BEGIN;
    while (is_object && json_next(&r) == JSON_KEY) {
        for (size_t i = 0; i < best; i++)
            if (json_text_is(&r, MEMBERS[i].member))
                best = i;
        if (!json_skip(&r))
            break;
    }
    json_reader_release(&r);
    if (best == ARRAY_LEN(MEMBERS))
        return api_error_set(err, API_BAD_REQUEST, NULL,
                             "a body with 'messages', 'prompt', 'input', 'inputs', 'text', "
                             "'text_1' or 'documents' is needed");
    *out = MEMBERS[best].dialect;
    return 0;
}

int genreq_parse(struct genreq *g, enum genreq_dialect dialect, struct bytes body,
                 struct api_error *err) {
    CHECK(dialect < GENREQ_DIALECT_COUNT);
    genreq_init(g, dialect);
    if (body.len == 0)
        return api_error_set(err, API_BAD_REQUEST, NULL,
                             "the request has no body; it must be a JSON object");
    if (field_check_json(body, err))
        return -1;
    if (dialect == GENREQ_INVOCATION && read_invocation(body, &dialect, err))
        return -1;
    if (dialect == GENREQ_GENERATE && tgi_is_body(body))
        dialect = GENREQ_TGI;
    if (dialect == GENREQ_SCORE && labels_is_body(body))
        dialect = GENREQ_LABEL_SCORES;
    if (dialect != g->dialect) {
        genreq_release(g);
        genreq_init(g, dialect);
    }
    int rc = parsers[dialect](g, body, err);
    if (rc == 0)
        rc = check_stream_options(g, err);
    if (rc)
        field_name_as_asked(g, err);
    return g->arena.starved ? api_error_out_of_memory(err) : rc;
}

int genreq_check_choices(const struct genreq *g, struct api_error *err) {
    const char *made = g->best_of > g->choice_count ? "best_of" : "n";
    if (g->prompt_count * (uint64_t)genreq_choices_made(g) <= GENREQ_CHOICES_MAX)
        return 0;
    return api_error_set(err, API_BAD_REQUEST, made, "prompts times '%s' is more than %d", made,
                         GENREQ_CHOICES_MAX);
}

int genreq_check_prompt_logprobs(const struct genreq *g, struct api_error *err) {
    if (g->prompt_logprobs < 0 || !g->stream)
        return 0;
    return api_error_set(err, API_BAD_REQUEST, "prompt_logprobs",
                         "'prompt_logprobs' cannot be had with 'stream'");
}

int genreq_keep(struct genreq *g, const struct buf *text, struct bytes *out,
                struct api_error *err) {
    *out = bytes_of(NULL, 0);
    if (text->len == 0 && !text->failed)
        return 0;
    const void *copy = text->failed ? NULL : arena_copy(&g->arena, text->data, text->len);
    if (!copy)
        return api_error_out_of_memory(err);
    *out = bytes_of(copy, text->len);
    return 0;
}

void genreq_release(struct genreq *g) {
    arena_release(&g->arena);
}

void genreq_infill_between(struct genreq *g) {
    CHECK(g->prompt_count == 1 && !g->prompts[0].is_ids);
    g->infill.wanted = true;
    g->infill.prefix = g->prompts[0].text;
    g->prompts[0].text = bytes_of(NULL, 0); /* nothing of it is written yet */
}

bool genreq_asks_nothing(const struct genreq *g) {
    return g->messages.len == 0 && g->prompt_count == 0;
}

void genreq_default_max_tokens(struct genreq *g, int64_t tokens) {
    if (g->given & GENREQ_MAX_TOKENS)
        return;
    g->max_tokens = MAX(tokens, g->min_tokens);
    g->given |= GENREQ_MAX_TOKENS;
}

uint32_t genreq_max_tokens(const struct genreq *g, uint32_t fallback) {
    bool newer = g->given & GENREQ_MAX_COMPLETION_TOKENS;
    if (!newer && !(g->given & GENREQ_MAX_TOKENS))
        return fallback;
    int64_t asked = newer ? g->max_completion_tokens : g->max_tokens;
    return asked < 0 ? WIRE_MAX_TOKENS : (uint32_t)asked;
}
