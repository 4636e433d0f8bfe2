#include "gateway/prepare.h"

#include "gateway/constraint.h"
#include "gateway/infill.h"

#include <float.h>
#include <time.h>

enum { COMPLETIONS_MAX_TOKENS = 16 }; /* the API's default */

/* Both messages and a prompt: the prompt is for a model without a template. */
static bool is_chat(const struct genreq *g, const struct text_model *text) {
    return genreq_is_chat(g) && (g->prompt_count == 0 || chat_has_template(text->chat));
}

static int64_t local_now_s(void) {
    time_t now = time(NULL);
    struct tm tm;
    if (!localtime_r(&now, &tm))
        return (int64_t)now;
    return (int64_t)now + tm.tm_gmtoff;
}

/* How the answer to this prompt is read. */
static int fill_parse(const struct genreq *g, const struct text_model *text, struct bytes prompt,
                      struct prepared *p, struct error *err) {
    struct chat_formats formats = chat_formats(text->chat, NULL, g->tools.len);
    if (!g->separate_reasoning)
        formats.reasoning = NULL;
    if (g->must_think && !formats.reasoning)
        return error_set(err, ERR_INVALID, "this model does not support thinking");
    bool reads = formats.calls && (g->tools.len || call_format_frames_content(formats.calls));
    int rc = reads
                 ? parse_tools_new(g->tools.len ? g->tools : bytes_str("[]"), &p->parse_tools, err)
                 : 0;
    p->parse = (struct parse_config){.reasoning = formats.reasoning,
                                     .calls = reads ? formats.calls : NULL,
                                     .tools = p->parse_tools,
                                     .in_reasoning = reasoning_is_open(formats.reasoning, prompt),
                                     .in_call = reads && call_is_open(formats.calls, prompt)};
    return rc;
}

/* What the answer to this prompt must look like. */
static int fill_constraint(const struct genreq *g, const struct text_model *text,
                           struct bytes prompt, struct prepared *p, struct api_error *err) {
    struct chat_formats formats = {0};
    if (is_chat(g, text))
        formats = chat_formats(text->chat, NULL, g->tools.len);
    struct constraint_model model = {.tokenizer = text->tokenizer,
                                     .cache = text->constraints,
                                     .reasoning = formats.reasoning,
                                     .calls = formats.calls,
                                     .in_reasoning = reasoning_is_open(formats.reasoning, prompt),
                                     .in_call = formats.calls && g->tools.len &&
                                                call_is_open(formats.calls, prompt)};
    return constraint_make(g, &model, &p->grammar, err);
}

int prepare_chat_text(const struct genreq *g, const struct text_model *text, struct buf *out,
                      struct plain_spots *spots, struct api_error *api) {
    struct error err;
    if (g->chat_template.len && !text->trust_request_template)
        return api_error_set(api, API_UNSUPPORTED, "chat_template",
                             "'chat_template' in a request is not taken by this server "
                             "(--trust-request-chat-template)");
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
    if (rc == 0)
        return 0;
    if (rc == ERR_NOT_FOUND)
        return api_error_set(api, API_UNSUPPORTED, "messages",
                             "this model has no chat template; use /v1/completions");
    return api_error_set(api, rc == ERR_UNSUPPORTED ? API_UNSUPPORTED : API_BAD_REQUEST, "messages",
                         "%s", err.text);
}

static int chat_tokens(const struct genreq *g, const struct text_model *text, struct prepared *p,
                       struct token_vec *out, struct api_error *api) {
    struct error err;
    struct buf prompt = {0};
    struct plain_spots spots = {0};
    int rc = prepare_chat_text(g, text, &prompt, &spots, api);
    if (rc == 0) {
        rc = fill_parse(g, text, buf_bytes(&prompt), p, &err);
        if (rc == 0)
            rc = tokenizer_encode_spots(text->tokenizer, buf_bytes(&prompt), spots.items,
                                        spots.count, TOKENIZE_PARSE_SPECIAL, out, &err);
        if (rc)
            api_error_set(api, API_BAD_REQUEST, "messages", "%s", err.text);
        else
            rc = fill_constraint(g, text, buf_bytes(&prompt), p, api);
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
    if (out->count == 0 && bos != TOKEN_NONE)
        vec_push(out, bos);
    return 0;
}

static void copy_tokens(struct tokens ids, struct token_vec *out) {
    vec_reserve(out, ids.count);
    if (ids.count)
        memcpy(out->items, ids.ids, ids.count * sizeof *ids.ids);
    out->count = ids.count;
}

static int make_prompt(const struct genreq *g, uint32_t i, const struct text_model *text,
                       struct prepared *p, struct api_error *err) {
    struct token_vec *out = &p->prompts[i];
    if (g->dialect == GENREQ_INFILL)
        return infill_tokens(g, text->tokenizer, out, err);
    if (is_chat(g, text))
        return chat_tokens(g, text, p, out, err);
    if (!g->prompts[i].is_ids)
        return text_tokens(g, text, g->prompts[i].text, out, err);
    copy_tokens(g->prompts[i].ids, out);
    return 0;
}

static int check_ids(const uint32_t *ids, size_t count, const struct served_model *m,
                     const char *param, struct api_error *err) {
    for (size_t i = 0; i < count; i++)
        if (ids[i] >= m->logits_width)
            return api_error_set(err, API_BAD_REQUEST, param,
                                 "'%s' holds token id %u; this model has ids below %u", param,
                                 ids[i], m->logits_width);
    return 0;
}

/* Checks a prompt against the model and settles how much may follow it. */
static int fit_prompt(const struct genreq *g, const struct served_model *m,
                      const struct token_vec *prompt, uint32_t *max_tokens, struct api_error *err) {
    uint32_t context = MIN(m->max_context, (uint32_t)WIRE_MAX_TOKENS);
    const char *param = genreq_is_chat(g) ? "messages" : "prompt";
    if (g->context_tokens > (int64_t)context)
        return api_error_set(err, API_CONTEXT_LENGTH, "num_ctx",
                             "'num_ctx' is %lld; this model's context has %u tokens here",
                             (long long)g->context_tokens, context);
    if (prompt->count == 0)
        return api_error_set(err, API_BAD_REQUEST, param, "the prompt has no tokens");
    if (check_ids(prompt->items, prompt->count, m, param, err))
        return -1;
    if (prompt->count >= context)
        return api_error_set(
            err, API_CONTEXT_LENGTH, param,
            "the prompt has %zu tokens; this model's context is %u, answer included", prompt->count,
            context);
    uint32_t room = context - (uint32_t)prompt->count;
    uint32_t asked =
        genreq_max_tokens(g, g->dialect == GENREQ_COMPLETIONS ? COMPLETIONS_MAX_TOKENS : room);
    *max_tokens = MIN(asked, room);
    if (g->min_tokens > (int64_t)asked)
        return api_error_set(err, API_BAD_REQUEST, "min_tokens",
                             "'min_tokens' is larger than the tokens asked for (%u)", asked);
    return 0;
}

static double given_or_default(double fallback, bool given, double asked, double model) {
    if (given)
        return asked;
    return model >= 0 ? model : fallback;
}

/* Below it only the best token is left, and quotients could overflow: 0 means the same. */
#define TEMPERATURE_LEAST 1e-6f

/* The API's ranges are closed; the wire's top_p is above 0 and its min_p below 1: the nearest value
 * means the same. */
static void fill_sampling(const struct genreq *g, const struct model_defaults *d, uint64_t seed,
                          struct wire_sampling *s) {
    uint32_t given = g->given;
    *s = (struct wire_sampling){
        .temperature =
            (float)given_or_default(1, given & GENREQ_TEMPERATURE, g->temperature, d->temperature),
        .top_p = MAX((float)given_or_default(1, given & GENREQ_TOP_P, g->top_p, d->top_p), FLT_MIN),
        .min_p = MIN((float)given_or_default(0, given & GENREQ_MIN_P, g->min_p, d->min_p),
                     1.0f - FLT_EPSILON / 2),
        .top_n_sigma = MAX((float)g->top_n_sigma, 0.0f),
        .repetition_penalty = (float)given_or_default(1, given & GENREQ_REPETITION,
                                                      g->repetition_penalty, d->repetition_penalty),
        .presence_penalty = (float)g->presence_penalty,
        .frequency_penalty = (float)g->frequency_penalty,
        .seed = given & GENREQ_SEED ? (uint64_t)g->seed : seed,
        .logprobs = g->logprobs ? (int32_t)g->top_logprobs : -1,
        .min_tokens = (uint32_t)g->min_tokens,
    };
    if (s->temperature < TEMPERATURE_LEAST)
        s->temperature = 0;
    int64_t top_k = given & GENREQ_TOP_K ? g->top_k : d->top_k;
    s->top_k = top_k > 0 ? (uint32_t)top_k : 0;
}

/* Penalties look back at the whole text; a window of 0 turns them off. */
static int apply_penalty_window(const struct genreq *g, struct wire_sampling *s,
                                struct api_error *err) {
    if (!(g->given & GENREQ_PENALTY_WINDOW) || g->penalty_window == -1)
        return 0;
    bool off = s->repetition_penalty == 1 && s->presence_penalty == 0 && s->frequency_penalty == 0;
    if (!off && g->penalty_window > 0)
        return api_error_set(
            err, API_UNSUPPORTED, "repeat_last_n",
            "'repeat_last_n' is not offered by this server: penalties look back at "
            "the whole text (-1), or are off (0)");
    s->repetition_penalty = 1;
    s->presence_penalty = s->frequency_penalty = 0;
    return 0;
}

static int copy_bias(const struct genreq *g, const struct served_model *m, struct prepared *p,
                     struct api_error *err) {
    size_t count = g->bias_ids.count;
    if (count == 0)
        return 0;
    if (check_ids(g->bias_ids.items, count, m, "logit_bias", err))
        return -1;
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
        if (p->stop_tokens[i] == id)
            return;
    if (p->stop_token_count < ARRAY_LEN(p->stop_tokens))
        p->stop_tokens[p->stop_token_count++] = id;
}

static int fill_stop_tokens(const struct genreq *g, const struct served_model *m,
                            struct prepared *p, struct api_error *err) {
    struct tokens eos = tokenizer_eos(m->text->tokenizer);
    if (check_ids(g->stop_tokens.items, g->stop_tokens.count, m, "stop_token_ids", err))
        return -1;
    for (size_t i = 0; i < eos.count && !g->ignore_eos; i++)
        if (eos.ids[i] < m->logits_width)
            add_stop_token(p, eos.ids[i]);
    for (size_t i = 0; i < g->stop_tokens.count; i++)
        add_stop_token(p, g->stop_tokens.items[i]);
    return 0;
}

int prepare(const struct genreq *g, const struct served_model *m, uint64_t seed, struct prepared *p,
            struct api_error *err) {
    bool chat = is_chat(g, m->text);
    *p = (struct prepared){0};
    if (genreq_asks_nothing(g))
        return api_error_set(err, API_BAD_REQUEST, NULL, "the request has no prompt");
    if (!chat && fill_constraint(g, m->text, (struct bytes){0}, p, err))
        return -1;
    p->prompt_count = chat ? 1 : g->prompt_count;
    p->prompts = mem_calloc(p->prompt_count, sizeof *p->prompts);
    p->max_tokens = mem_calloc(p->prompt_count, sizeof *p->max_tokens);
    for (uint32_t i = 0; i < p->prompt_count; i++) {
        if (make_prompt(g, i, m->text, p, err))
            return -1;
        if (fit_prompt(g, m, &p->prompts[i], &p->max_tokens[i], err))
            return -1;
    }
    fill_sampling(g, &m->text->defaults, seed, &p->sampling);
    if (apply_penalty_window(g, &p->sampling, err))
        return -1;
    if (copy_bias(g, m, p, err))
        return -1;
    return fill_stop_tokens(g, m, p, err);
}

int prepare_refuse_model(enum model_found found, struct bytes name, struct api_error *err) {
    CHECK(found != MODEL_READY);
    switch (found) {
    case MODEL_UNKNOWN:
        return api_error_set(err, API_MODEL_NOT_FOUND, "model", "the model '%.*s' does not exist",
                             (int)MIN(name.len, (size_t)100), (const char *)name.data);
    case MODEL_AMBIGUOUS:
        return api_error_set(err, API_BAD_REQUEST, "model",
                             "'model' is missing, and this server has several");
    case MODEL_BROKEN:
        return api_error_set(err, API_UNAVAILABLE, "model",
                             "this model's tokenizer or template cannot be used");
    default: return api_error_set(err, API_UNAVAILABLE, NULL, "no model is ready");
    }
}

void prepared_release(struct prepared *p) {
    for (uint32_t i = 0; i < p->prompt_count; i++)
        vec_release(&p->prompts[i]);
    mem_free(p->prompts);
    mem_free(p->max_tokens);
    mem_free(p->bias_ids);
    mem_free(p->bias_values);
    parse_tools_free(&p->parse_tools);
    buf_release(&p->grammar);
    *p = (struct prepared){0};
}
