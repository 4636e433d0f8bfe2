#include "gateway/prepare.h"

#include <float.h>
#include <time.h>

enum { COMPLETIONS_MAX_TOKENS = 16 }; /* the API's default */

static int64_t local_now_s(void) {
    time_t now = time(NULL);
    struct tm tm;
    if (!localtime_r(&now, &tm)) return (int64_t)now;
    return (int64_t)now + tm.tm_gmtoff;
}

/* How the answer to this prompt is read. */
static int settle_parse(const struct genreq *g, const struct text_model *text, struct bytes prompt, struct prepared *p,
                        struct error *err) {
    struct chat_formats formats = chat_formats(text->chat, NULL, g->tools.len);
    if (!g->separate_reasoning) formats.reasoning = NULL;
    bool reads = formats.calls && (g->tools.len || call_format_frames_content(formats.calls));
    int rc = reads ? parse_tools_new(g->tools.len ? g->tools : bytes_str("[]"), &p->parse_tools, err) : 0;
    p->parse = (struct parse_config){.reasoning = formats.reasoning,
                                     .calls = reads ? formats.calls : NULL,
                                     .tools = p->parse_tools,
                                     .in_reasoning = reasoning_is_open(formats.reasoning, prompt),
                                     .in_call = reads && call_is_open(formats.calls, prompt)};
    return rc;
}

int prepare_chat_text(const struct genreq *g, const struct text_model *text, struct buf *out, struct plain_spots *spots,
                      struct api_error *api) {
    struct error err;
    if (g->chat_template.len && !text->trust_request_template)
        return api_error_set(
            api, API_UNSUPPORTED, "chat_template",
            "'chat_template' in a request is not taken by this server (--trust-request-chat-template)");
    struct chat_request request = {.messages = g->messages,
                                   .tools = g->tools,
                                   .documents = g->documents,
                                   .kwargs = g->template_kwargs,
                                   .reasoning_effort = g->reasoning_effort,
                                   .template_source = g->chat_template,
                                   .add_generation_prompt = g->add_generation_prompt,
                                   .continue_final_message = g->continue_final_message,
                                   .limits = {.now_s = local_now_s()}};
    int rc = spots ? chat_render_guarded(text->chat, text->tokenizer, &request, out, spots, &err)
                   : chat_render(text->chat, &request, out, &err);
    if (rc == 0) return 0;
    if (rc == ERR_NOT_FOUND)
        return api_error_set(api, API_UNSUPPORTED, "messages", "this model has no chat template; use /v1/completions");
    return api_error_set(api, rc == ERR_UNSUPPORTED ? API_UNSUPPORTED : API_BAD_REQUEST, "messages", "%s", err.text);
}

static int chat_tokens(const struct genreq *g, const struct text_model *text, struct prepared *p, struct token_vec *out,
                       struct api_error *api) {
    struct error err;
    struct buf prompt = {0};
    struct plain_spots spots = {0};
    int rc = prepare_chat_text(g, text, &prompt, &spots, api);
    if (rc == 0) {
        rc = settle_parse(g, text, buf_bytes(&prompt), p, &err);
        if (rc == 0)
            rc = tokenizer_encode_spots(text->tokenizer, buf_bytes(&prompt), spots.items, spots.count,
                                        TOKENIZE_PARSE_SPECIAL, out, &err);
        if (rc) api_error_set(api, API_BAD_REQUEST, "messages", "%s", err.text);
    }
    vec_release(&spots);
    buf_release(&prompt);
    return rc;
}

static int text_tokens(const struct genreq *g, const struct text_model *text, struct bytes prompt,
                       struct token_vec *out, struct api_error *api) {
    struct error err;
    unsigned flags = TOKENIZE_PARSE_SPECIAL | (g->add_special_tokens ? TOKENIZE_ADD_SPECIAL : 0u);
    if (tokenizer_encode(text->tokenizer, prompt, flags, out, &err))
        return api_error_set(api, API_BAD_REQUEST, "prompt", "%s", err.text);
    uint32_t bos = tokenizer_bos(text->tokenizer);
    if (out->count == 0 && bos != TOKEN_NONE) vec_push(out, bos);
    return 0;
}

static void copy_tokens(struct tokens ids, struct token_vec *out) {
    vec_reserve(out, ids.count);
    if (ids.count) memcpy(out->items, ids.ids, ids.count * sizeof *ids.ids);
    out->count = ids.count;
}

static int make_prompt(const struct genreq *g, uint32_t i, const struct text_model *text, struct prepared *p,
                       struct api_error *err) {
    struct token_vec *out = &p->prompts[i];
    if (g->dialect == GENREQ_CHAT) return chat_tokens(g, text, p, out, err);
    if (!g->prompts[i].is_ids) return text_tokens(g, text, g->prompts[i].text, out, err);
    copy_tokens(g->prompts[i].ids, out);
    return 0;
}

static int check_ids(const uint32_t *ids, size_t count, const struct served_model *m, const char *param,
                     struct api_error *err) {
    for (size_t i = 0; i < count; i++)
        if (ids[i] >= m->logits_width)
            return api_error_set(err, API_BAD_REQUEST, param, "'%s' holds token id %u; this model has ids below %u",
                                 param, ids[i], m->logits_width);
    return 0;
}

/* Checks a prompt against the model and settles how much may follow it. */
static int fit_prompt(const struct genreq *g, const struct served_model *m, const struct token_vec *prompt,
                      uint32_t *max_tokens, struct api_error *err) {
    uint32_t context = MIN(m->max_context, (uint32_t)WIRE_MAX_TOKENS);
    const char *param = g->dialect == GENREQ_CHAT ? "messages" : "prompt";
    if (prompt->count == 0) return api_error_set(err, API_BAD_REQUEST, param, "the prompt has no tokens");
    if (check_ids(prompt->items, prompt->count, m, param, err)) return -1;
    if (prompt->count >= context)
        return api_error_set(err, API_CONTEXT_LENGTH, param,
                             "the prompt has %zu tokens; this model's context is %u, answer included", prompt->count,
                             context);
    uint32_t room = context - (uint32_t)prompt->count;
    uint32_t asked = genreq_max_tokens(g, g->dialect == GENREQ_CHAT ? room : COMPLETIONS_MAX_TOKENS);
    *max_tokens = MIN(asked, room);
    if (g->min_tokens > (int64_t)asked)
        return api_error_set(err, API_BAD_REQUEST, "min_tokens",
                             "'min_tokens' is larger than the tokens asked for (%u)", asked);
    return 0;
}

static double pick(double fallback, bool given, double asked, double model) {
    if (given) return asked;
    return model >= 0 ? model : fallback;
}

/* The API's ranges are closed; the wire's top_p is above 0 and its min_p below 1: the nearest value means the same. */
static void settle_sampling(const struct genreq *g, const struct model_defaults *d, uint64_t seed,
                            struct wire_sampling *s) {
    uint32_t given = g->given;
    *s = (struct wire_sampling){
        .temperature = (float)pick(1, given & GENREQ_TEMPERATURE, g->temperature, d->temperature),
        .top_p = MAX((float)pick(1, given & GENREQ_TOP_P, g->top_p, d->top_p), FLT_MIN),
        .min_p = MIN((float)pick(0, given & GENREQ_MIN_P, g->min_p, d->min_p), 1.0f - FLT_EPSILON / 2),
        .repetition_penalty =
            MAX((float)pick(1, given & GENREQ_REPETITION, g->repetition_penalty, d->repetition_penalty), FLT_MIN),
        .presence_penalty = (float)g->presence_penalty,
        .frequency_penalty = (float)g->frequency_penalty,
        .seed = given & GENREQ_SEED ? (uint64_t)g->seed : seed,
        .logprobs = g->logprobs ? (int32_t)g->top_logprobs : -1,
        .min_tokens = (uint32_t)g->min_tokens,
    };
    int64_t top_k = given & GENREQ_TOP_K ? g->top_k : d->top_k;
    s->top_k = top_k > 0 ? (uint32_t)top_k : 0;
}

static int copy_bias(const struct genreq *g, const struct served_model *m, struct prepared *p, struct api_error *err) {
    size_t count = g->bias_ids.count;
    if (count == 0) return 0;
    if (check_ids(g->bias_ids.items, count, m, "logit_bias", err)) return -1;
    p->bias_ids = mem_calloc(count, sizeof *p->bias_ids);
    p->bias_values = mem_calloc(count, sizeof *p->bias_values);
    memcpy(p->bias_ids, g->bias_ids.items, count * sizeof *p->bias_ids);
    memcpy(p->bias_values, g->bias_values.items, count * sizeof *p->bias_values);
    p->sampling.bias_ids = (struct u32s){p->bias_ids, count};
    p->sampling.bias_values = (struct f32s){p->bias_values, count};
    return 0;
}

static void add_stop_token(struct prepared *p, uint32_t id) {
    for (uint32_t i = 0; i < p->stop_token_count; i++)
        if (p->stop_tokens[i] == id) return;
    if (p->stop_token_count < ARRAY_LEN(p->stop_tokens)) p->stop_tokens[p->stop_token_count++] = id;
}

static int settle_stop_tokens(const struct genreq *g, const struct served_model *m, struct prepared *p,
                              struct api_error *err) {
    struct tokens eos = tokenizer_eos(m->text->tokenizer);
    if (check_ids(g->stop_tokens.items, g->stop_tokens.count, m, "stop_token_ids", err)) return -1;
    for (size_t i = 0; i < eos.count && !g->ignore_eos; i++)
        if (eos.ids[i] < m->logits_width) add_stop_token(p, eos.ids[i]);
    for (size_t i = 0; i < g->stop_tokens.count; i++) add_stop_token(p, g->stop_tokens.items[i]);
    return 0;
}

int prepare(const struct genreq *g, const struct served_model *m, uint64_t seed, struct prepared *p,
            struct api_error *err) {
    *p = (struct prepared){.prompt_count = g->dialect == GENREQ_CHAT ? 1 : g->prompt_count};
    p->prompts = mem_calloc(p->prompt_count, sizeof *p->prompts);
    p->max_tokens = mem_calloc(p->prompt_count, sizeof *p->max_tokens);
    for (uint32_t i = 0; i < p->prompt_count; i++) {
        if (make_prompt(g, i, m->text, p, err)) return -1;
        if (fit_prompt(g, m, &p->prompts[i], &p->max_tokens[i], err)) return -1;
    }
    settle_sampling(g, &m->text->defaults, seed, &p->sampling);
    if (copy_bias(g, m, p, err)) return -1;
    return settle_stop_tokens(g, m, p, err);
}

void prepared_release(struct prepared *p) {
    for (uint32_t i = 0; i < p->prompt_count; i++) vec_release(&p->prompts[i]);
    mem_free(p->prompts);
    mem_free(p->max_tokens);
    mem_free(p->bias_ids);
    mem_free(p->bias_values);
    parse_tools_free(&p->parse_tools);
    *p = (struct prepared){0};
}
