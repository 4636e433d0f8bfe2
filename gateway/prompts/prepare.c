#include "gateway/prompts/prepare.h"

#include "gateway/dialects/embed.h"
#include "gateway/dialects/labels.h"
#include "gateway/prompts/constraint.h"
#include "gateway/prompts/drop_turns.h"
#include "gateway/prompts/infill.h"
#include "gateway/prompts/sampling.h"

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

int prepare_refuse(struct api_error *api, const char *param, int rc, const struct error *err) {
    if (rc == ERR_MEMORY)
        return api_error_out_of_memory(api);
    return api_error_set(api, rc == ERR_UNSUPPORTED ? API_UNSUPPORTED : API_BAD_REQUEST, param,
                         "%s", err->text);
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
    return prepare_refuse(api, "messages", rc, &err);
}

static uint32_t context_of(const struct served_model *m) {
    return MIN(m->max_context, (uint32_t)WIRE_MAX_TOKENS);
}

int prepare_check_bytes(const struct served_model *m, size_t bytes, size_t most, const char *param,
                        struct api_error *err) {
    if (bytes / m->text->token_bytes_most <= most)
        return 0;
    api_error_set(err, API_CONTEXT_LENGTH, param,
                  "'%s' has %zu bytes of text, at least %zu tokens; this model's context is "
                  "%u",
                  param, bytes, bytes / m->text->token_bytes_most, context_of(m));
    err->prompt_tokens = (uint32_t)MIN(bytes / m->text->token_bytes_most, (size_t)UINT32_MAX);
    err->context = context_of(m);
    return -1;
}

/* A prompt that will be cut may have any length. */
static int check_bytes(const struct genreq *g, const struct served_model *m, size_t bytes,
                       const char *param, struct api_error *err) {
    return g->truncate.wanted ? 0 : prepare_check_bytes(m, bytes, context_of(m) - 1, param, err);
}

int prepare_thinking_end(const struct genreq *g, const struct text_model *text, struct prepared *p,
                         struct api_error *api) {
    const char *said = g->thinking_budget_field, *field = said ? said : "thinking_token_budget";
    struct error err;
    if (g->thinking_budget < 0 || (!said && !p->parse.reasoning))
        return 0;
    if (!g->separate_reasoning)
        return api_error_set(api, API_UNSUPPORTED, field,
                             "'%s' needs 'separate_reasoning', which was turned off", field);
    if (!p->parse.reasoning)
        return api_error_set(api, API_UNSUPPORTED, field,
                             "'%s': how this model marks what it thinks is not known; see "
                             "--reasoning-parser",
                             field);
    struct reasoning_marks marks = reasoning_format_marks(p->parse.reasoning);
    p->thinking_budget = (uint32_t)g->thinking_budget;
    int rc = tokenizer_encode(text->tokenizer, bytes_str(marks.close), TOKENIZE_PARSE_SPECIAL,
                              &p->thinking_end, &err);
    return rc ? prepare_refuse(api, field, rc, &err) : 0;
}

/* A template writes the model's own first token, unless the request says that it is to be added. */
static unsigned chat_flags(const struct genreq *g) {
    bool adds = g->given & GENREQ_ADD_SPECIAL && g->add_special_tokens;
    return TOKENIZE_PARSE_SPECIAL | (adds ? TOKENIZE_ADD_SPECIAL : 0u);
}

static int chat_tokens(const struct genreq *g, const struct served_model *m, struct prepared *p,
                       struct token_vec *out, struct api_error *api) {
    const struct text_model *text = m->text;
    struct error err;
    struct buf prompt = {0};
    struct plain_spots spots = {0};
    int rc = prepare_chat_text(g, text, &prompt, &spots, api);
    if (rc == 0)
        rc = check_bytes(g, m, prompt.len, "messages", api);
    if (rc == 0) {
        rc = fill_parse(g, text, buf_bytes(&prompt), p, &err);
        if (rc == 0)
            rc = tokenizer_encode_spots(text->tokenizer, buf_bytes(&prompt), spots.items,
                                        spots.count, chat_flags(g), out, &err);
        if (rc)
            prepare_refuse(api, "messages", rc, &err);
        else
            rc = prepare_thinking_end(g, text, p, api);
        if (rc == 0)
            rc = fill_constraint(g, text, buf_bytes(&prompt), p, api);
    }
    vec_release(&spots);
    buf_release(&prompt);
    return rc;
}

/* Whether a chat's prompt leaves room for its answer. 0, or -1 with *err filled. */
static int chat_fits(const struct genreq *g, const struct served_model *m, bool *fits,
                     struct api_error *api) {
    uint32_t context = context_of(m), room = MIN(MAX(genreq_max_tokens(g, 1), 1u), context - 1);
    struct buf prompt = {0};
    struct plain_spots spots = {0};
    struct token_vec ids = {0};
    struct error err;
    *fits = false;
    int rc = prepare_chat_text(g, m->text, &prompt, &spots, api);
    if (rc == 0 && prompt.len / m->text->token_bytes_most < context) {
        rc = tokenizer_encode_spots(m->text->tokenizer, buf_bytes(&prompt), spots.items,
                                    spots.count, chat_flags(g), &ids, &err);
        if (rc)
            rc = prepare_refuse(api, "messages", rc, &err);
        *fits = rc == 0 && ids.count <= context - room;
    }
    vec_release(&ids);
    vec_release(&spots);
    buf_release(&prompt);
    return rc;
}

/* A conversation of which the oldest turns go where it does not fit: as few as will do. */
static int fitting_chat_tokens(const struct genreq *g, const struct served_model *m,
                               struct prepared *p, struct token_vec *out, struct api_error *api) {
    struct genreq shorter = *g; /* its arena is g's, and not touched */
    struct turn_cuts cuts;
    struct buf messages = {0};
    bool fits;
    int rc = chat_fits(g, m, &fits, api);
    turn_cuts_find(&cuts, g->messages);
    size_t low = 0, high = cuts.offsets.count;
    if (rc == 0 && !fits && high > 0) {
        while (rc == 0 && low + 1 < high) { /* the last one is taken, whether it fits or not */
            size_t middle = low + (high - low - 1) / 2;
            turn_cuts_apply(&cuts, middle, g->messages, &messages);
            shorter.messages = buf_bytes(&messages);
            rc = chat_fits(&shorter, m, &fits, api);
            if (fits)
                high = middle + 1;
            else
                low = middle + 1;
        }
        turn_cuts_apply(&cuts, low, g->messages, &messages);
        shorter.messages = buf_bytes(&messages);
    }
    if (rc == 0)
        rc = messages.failed ? api_error_out_of_memory(api) : chat_tokens(&shorter, m, p, out, api);
    turn_cuts_release(&cuts);
    buf_release(&messages);
    return rc;
}

int prepare_bare_text(const struct genreq *g, uint32_t i, const struct text_model *text,
                      struct token_vec *out, struct api_error *api) {
    struct error err;
    int rc =
        tokenizer_encode(text->tokenizer, g->prompts[i].text, TOKENIZE_PARSE_SPECIAL, out, &err);
    return rc ? prepare_refuse(api, "prompt", rc, &err) : 0;
}

static int text_tokens(const struct genreq *g, const struct text_model *text, struct bytes prompt,
                       struct token_vec *out, struct api_error *api) {
    struct error err;
    unsigned flags = TOKENIZE_PARSE_SPECIAL | (g->add_special_tokens ? TOKENIZE_ADD_SPECIAL : 0u);
    int rc = tokenizer_encode(text->tokenizer, prompt, flags, out, &err);
    if (rc)
        return prepare_refuse(api, "prompt", rc, &err);
    uint32_t bos = tokenizer_bos(text->tokenizer);
    if (out->count == 0 && bos != TOKEN_NONE)
        vec_push(out, bos);
    return 0;
}

/* out is empty. */
static int copy_tokens(struct tokens ids, struct token_vec *out, struct api_error *err) {
    if (!ids.count)
        return 0;
    out->items = mem_try_alloc(ids.count * sizeof *ids.ids);
    if (!out->items)
        return api_error_out_of_memory(err);
    memcpy(out->items, ids.ids, ids.count * sizeof *ids.ids);
    out->count = out->cap = ids.count;
    return 0;
}

int prepare_text(const struct genreq *g, uint32_t i, const struct text_model *text,
                 struct token_vec *out, struct api_error *err) {
    if (!g->prompts[i].is_ids)
        return text_tokens(g, text, g->prompts[i].text, out, err);
    return copy_tokens(g->prompts[i].ids, out, err);
}

static int make_prompt(const struct genreq *g, uint32_t i, const struct served_model *m,
                       struct prepared *p, struct api_error *err) {
    struct token_vec *out = &p->prompts[i];
    if (g->infill.wanted)
        return check_bytes(g, m, infill_bytes(g) + (g->prompt_count ? g->prompts[i].text.len : 0),
                           g->dialect == GENREQ_INFILL ? "input_prefix" : "prompt", err)
                   ? -1
                   : infill_tokens(g, m->text->tokenizer, out, err);
    if (g->labels.ids.count)
        return labels_prompt(g, i, m, p, err);
    if (is_chat(g, m->text) && g->kept.drops_turns)
        return fitting_chat_tokens(g, m, p, out, err);
    if (is_chat(g, m->text))
        return chat_tokens(g, m, p, out, err);
    if (check_bytes(g, m, g->prompts[i].text.len, "prompt", err))
        return -1;
    return prepare_text(g, i, m->text, out, err);
}

int prepare_check_ids(const uint32_t *ids, size_t count, const struct served_model *m,
                      const char *param, struct api_error *err) {
    for (size_t i = 0; i < count; i++)
        if (ids[i] >= m->logits_width)
            return api_error_set(err, API_BAD_REQUEST, param,
                                 "'%s' holds token id %u; this model has ids below %u", param,
                                 ids[i], m->logits_width);
    return 0;
}

/* How many tokens the model's own additions put before and behind a text: what no text and a letter
 * begin with alike, and the rest of what it makes of no text. */
static void special_ends(const struct tokenizer *t, size_t *before, size_t *behind) {
    struct token_vec ends = {0}, letter = {0};
    struct error err;
    *before = *behind = 0;
    if (tokenizer_encode(t, bytes_str(""), TOKENIZE_ADD_SPECIAL, &ends, &err) == 0 &&
        tokenizer_encode(t, bytes_str("a"), TOKENIZE_ADD_SPECIAL, &letter, &err) == 0) {
        while (*before < MIN(ends.count, letter.count) &&
               ends.items[*before] == letter.items[*before])
            ++*before;
        *behind = ends.count - *before;
    }
    vec_release(&ends);
    vec_release(&letter);
}

void prepare_cut(const struct genreq *g, const struct tokenizer *t,
                 const struct genreq_prompt *from, size_t most, struct token_vec *ids) {
    size_t before = 0, behind = 0, removed = ids->count - most, at;
    if (from && !from->is_ids && g->add_special_tokens)
        special_ends(t, &before, &behind);
    if (before + behind >= most)
        before = behind = 0;
    at = g->truncate.keeps_end ? before : most - behind;
    memmove(ids->items + at, ids->items + at + removed,
            (ids->count - at - removed) * sizeof *ids->items);
    ids->count = most;
}

/* Cuts a prompt that is longer than asked for, or than leaves room for the answer. */
static int truncate_prompt(const struct genreq *g, uint32_t i, const struct text_model *text,
                           uint32_t context, struct token_vec *prompt, struct api_error *err) {
    int64_t most = g->truncate.tokens;
    if (!g->truncate.wanted)
        return 0;
    if (most > (int64_t)context)
        return api_error_set(err, API_BAD_REQUEST, "truncate_prompt_tokens",
                             "'truncate_prompt_tokens' is more than this model's context of %u",
                             context);
    if (most <= 0)
        most = (int64_t)context - MIN(MAX(genreq_max_tokens(g, 1), 1u), context - 1);
    if (prompt->count > (size_t)most)
        prepare_cut(g, text->tokenizer, genreq_is_chat(g) ? NULL : &g->prompts[i], (size_t)most,
                    prompt);
    return 0;
}

/* Checks a prompt against the model and settles how much may follow it. */
static int fit_prompt(const struct genreq *g, uint32_t i, const struct served_model *m,
                      struct prepared *p, struct api_error *err) {
    struct token_vec *prompt = &p->prompts[i];
    uint32_t context = context_of(m);
    const char *param = genreq_is_chat(g)          ? "messages"
                        : g->labels.ids.count      ? "items"
                        : g->dialect == GENREQ_PPL ? "input"
                                                   : "prompt";
    if (prompt->count == 0)
        return api_error_set(err, API_BAD_REQUEST, param, "the prompt has no tokens");
    if (prepare_check_ids(prompt->items, prompt->count, m, param, err))
        return -1;
    if (truncate_prompt(g, i, m->text, context, prompt, err))
        return -1;
    if (prompt->count >= context) {
        api_error_set(err, API_CONTEXT_LENGTH, param,
                      "the prompt has %zu tokens; this model's context is %u, answer included",
                      prompt->count, context);
        err->prompt_tokens = (uint32_t)MIN(prompt->count, (size_t)UINT32_MAX);
        err->context = context;
        return -1;
    }
    uint32_t room = context - (uint32_t)prompt->count;
    uint32_t asked =
        genreq_max_tokens(g, g->dialect == GENREQ_COMPLETIONS ? COMPLETIONS_MAX_TOKENS : room);
    p->max_tokens[i] = MIN(asked, room);
    if (g->min_tokens > (int64_t)asked)
        return api_error_set(err, API_BAD_REQUEST, "min_tokens",
                             "'min_tokens' is larger than the tokens asked for (%u)", asked);
    return 0;
}

/* What asks for the constraint that was made; NULL: there is none. */
static const char *constraint_field(const struct genreq *g, const struct prepared *p) {
    if (!p->grammar.len)
        return NULL;
    return g->constraint.kind != CONSTRAINT_NONE                ? g->constraint.field
           : g->tool_choice_required || g->tool_choice_name.len ? "tool_choice"
                                                                : "tools";
}

/* A token that may come as the first one, whatever min_tokens and bad words say. */
static bool has_free_token(const struct genreq *g, const struct prepared *p) {
    for (size_t i = 0; i < g->allowed_ids.count; i++) {
        uint32_t id = g->allowed_ids.items[i];
        bool free = true;
        for (uint32_t k = 0; k < p->stop_token_count && free; k++)
            free = p->stop_tokens[k] != id;
        for (size_t k = 0; k < p->bad_words.count && free; k += 1 + p->bad_words.items[k])
            free = p->bad_words.items[k + p->bad_words.items[k]] != id;
        if (free)
            return true;
    }
    return false;
}

static int check_allowed(const struct genreq *g, const struct prepared *p, struct api_error *err) {
    const char *other = constraint_field(g, p);
    if (!other && g->min_tokens > 0 && !has_free_token(g, p))
        other = "min_tokens";
    if (!g->allowed_ids.count || !other)
        return 0;
    return api_error_set(err, API_BAD_REQUEST, "allowed_token_ids",
                         "'allowed_token_ids' cannot be had with '%s': no token might be left",
                         other);
}

static void add_stop_token(struct prepared *p, uint32_t id) {
    for (uint32_t i = 0; i < p->stop_token_count; i++)
        if (p->stop_tokens[i] == id)
            return;
    if (p->stop_token_count < ARRAY_LEN(p->stop_tokens))
        p->stop_tokens[p->stop_token_count++] = id;
}

int prepare_stop_patterns(const struct genreq *g, struct prepared *p, struct api_error *api) {
    struct error err;
    if (!g->stop_pattern_count)
        return 0;
    int rc = finder_new(g->stop_patterns, g->stop_pattern_count, &p->stop_patterns, &err);
    if (!rc)
        return 0;
    if (rc == ERR_MEMORY)
        return api_error_out_of_memory(api);
    return api_error_set(api, API_BAD_REQUEST, "stop_regex", "'stop_regex': %s", err.text);
}

static int fill_stop_tokens(const struct genreq *g, const struct served_model *m,
                            struct prepared *p, struct api_error *err) {
    struct tokens eos = tokenizer_eos(m->text->tokenizer);
    if (prepare_check_ids(g->stop_tokens.items, g->stop_tokens.count, m, "stop_token_ids", err))
        return -1;
    for (size_t i = 0; i < eos.count && !g->ignore_eos; i++)
        if (eos.ids[i] < m->logits_width)
            add_stop_token(p, eos.ids[i]);
    for (size_t i = 0; i < g->stop_tokens.count; i++)
        add_stop_token(p, g->stop_tokens.items[i]);
    return 0;
}

/* The prompt is computed as output (submission.h), so what looks at output alone cannot be had. */
static int check_echo(const struct genreq *g, const struct prepared *p, struct api_error *err) {
    const char *field = g->echo                         ? "echo"
                        : g->dialect == GENREQ_GENERATE ? "logprob_start_len"
                        : genreq_is_tgi(g->dialect)     ? "decoder_input_details"
                        : g->dialect == GENREQ_PPL      ? "input"
                        : g->labels.ids.count           ? "items"
                                                        : "prompt_logprobs";
    const struct {
        bool given;
        const char *name;
    } others[] = {{p->grammar.len > 0, constraint_field(g, p)},
                  {g->min_tokens > 0, "min_tokens"},
                  {p->sampling.presence_penalty != 0, "presence_penalty"},
                  {p->sampling.frequency_penalty != 0, "frequency_penalty"},
                  {g->mirostat != WIRE_STEERING_NONE, "mirostat"},
                  {g->adaptive_target >= 0, "adaptive_target"}};
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        if (others[i].given)
            return api_error_set(err, API_UNSUPPORTED, field, "'%s' cannot be had with '%s'", field,
                                 others[i].name);
    for (uint32_t i = 0; i < p->prompt_count; i++)
        if (!g->labels.ids.count && p->prompts[i].count > ECHO_TOKENS_MAX)
            return api_error_set(err, API_TOO_LARGE, field,
                                 "'%s' takes a prompt of at most %d tokens", field,
                                 ECHO_TOKENS_MAX);
    if (g->dialect == GENREQ_PPL && p->prompts[0].count < 2)
        return api_error_set(err, API_BAD_REQUEST, field,
                             "'input' has %zu tokens; what comes behind the first is scored",
                             p->prompts[0].count);
    for (uint32_t i = 0; i < p->prompt_count; i++)
        if (g->prompt_logprobs_from > (int64_t)p->prompts[i].count)
            return api_error_set(err, API_BAD_REQUEST, field,
                                 "'%s' is behind the end of a prompt of %zu tokens", field,
                                 p->prompts[i].count);
    return 0;
}

int prepare(const struct genreq *g, const struct served_model *m, uint64_t seed, struct prepared *p,
            struct api_error *err) {
    bool chat = is_chat(g, m->text);
    *p = (struct prepared){0};
    if (genreq_embeds(g) || (g->probes && m->vectors.only))
        return embed_prepare(g, m, p, err);
    if (m->vectors.only)
        return api_error_set(err, API_UNSUPPORTED, "model",
                             "the model '%.100s' writes no text: it is for embeddings", m->name);
    if (genreq_asks_nothing(g))
        return api_error_set(err, API_BAD_REQUEST, NULL, "the request has no prompt");
    if (!chat && fill_constraint(g, m->text, (struct bytes){0}, p, err))
        return -1;
    p->prompt_count = chat ? 1 : g->labels.ids.count ? labels_prompt_count(g) : g->prompt_count;
    p->prompts = mem_calloc(p->prompt_count, sizeof *p->prompts);
    p->max_tokens = mem_calloc(p->prompt_count, sizeof *p->max_tokens);
    for (uint32_t i = 0; i < p->prompt_count; i++) {
        if (make_prompt(g, i, m, p, err))
            return -1;
        if (fit_prompt(g, i, m, p, err))
            return -1;
    }
    sampling_fill(g, &m->text->defaults, seed, &p->sampling);
    if (sampling_fill_rules(g, m->text, p, err))
        return -1;
    p->echo = g->echo || g->prompt_logprobs >= 0;
    p->hides_echo = p->echo && !g->echo;
    p->echo_last = g->labels.ids.count ? 1 : 0;
    if (p->echo && check_echo(g, p, err))
        return -1;
    if (sampling_fill_lists(g, m, p, err))
        return -1;
    if (fill_stop_tokens(g, m, p, err) || prepare_stop_patterns(g, p, err))
        return -1;
    return check_allowed(g, p, err);
}

void prepare_usual_sampling(const struct genreq *g, const struct text_model *text,
                            struct prepared *p) {
    struct api_error err;
    sampling_fill(g, &text->defaults, 0, &p->sampling);
    CHECK(!sampling_fill_rules(g, text, p, &err));
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
    mem_free(p->first_counts);
    mem_free(p->bias_ids);
    mem_free(p->bias_values);
    buf_release(&p->allowed);
    vec_release(&p->bad_words);
    vec_release(&p->thinking_end);
    parse_tools_free(&p->parse_tools);
    finder_free(&p->stop_patterns);
    buf_release(&p->dry_breakers);
    buf_release(&p->grammar);
    *p = (struct prepared){0};
}
