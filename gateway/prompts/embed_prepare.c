#include "gateway/dialects/embed.h"

/* Of all pairs of one request. A query stands in front of each of its texts, so that a body of 200 KB
 * could ask for a gigabyte of tokens. */
enum { PAIRS_TOKENS_MAX = 4 << 20 };

static int fit_context(const struct genreq *g, const struct served_model *m, uint32_t i,
                       struct token_vec *ids, struct api_error *err) {
    uint32_t context = MIN(m->max_context, (uint32_t)WIRE_MAX_TOKENS), most = context;
    const char *param = g->embed.first_count ? "documents" : "input";
    if (ids->count == 0)
        return api_error_set(err, API_BAD_REQUEST, param, "input %u has no tokens", i);
    if (prepare_check_ids(ids->items, ids->count, m, param, err))
        return -1;
    if (g->truncate.tokens > (int64_t)context)
        return api_error_set(err, API_BAD_REQUEST, "truncate_prompt_tokens",
                             "'truncate_prompt_tokens' is more than this model's context of %u",
                             context);
    if (g->truncate.wanted && g->truncate.tokens > 0)
        most = (uint32_t)g->truncate.tokens;
    if (ids->count > most && g->truncate.wanted)
        prepare_cut(g, m->text->tokenizer,
                    &g->prompts[i + (m->vectors.scores ? g->embed.first_count : 0)], most, ids);
    return ids->count <= context
               ? 0
               : api_error_set(err, API_CONTEXT_LENGTH, param,
                               "input %u has %zu tokens; this model's context is %u", i, ids->count,
                               context);
}

static int check_model(const struct genreq *g, const struct served_model *m,
                       struct api_error *err) {
    const struct wire_vectors *v = &m->vectors;
    if (!v->pooling)
        return api_error_set(err, API_UNSUPPORTED, "model",
                             "the model '%.100s' makes no embeddings: its files do not say how. "
                             "Started with --pooling last, mean or cls it does",
                             m->name);
    bool classes = g->dialect == GENREQ_CLASSIFY || g->embed.task == EMBED_TASK_CLASSIFY;
    bool any = g->dialect == GENREQ_POOLING && g->embed.task == EMBED_TASK_ANY;
    if (classes && !v->scores)
        return api_error_set(err, API_UNSUPPORTED, "model",
                             "the model '%.100s' has no classes: it makes embeddings", m->name);
    if (v->scores && !g->embed.first_count && !g->probes && !classes && !any)
        return api_error_set(err, API_UNSUPPORTED, "model",
                             "the model '%.100s' makes no embeddings: it scores texts (%s)",
                             m->name,
                             v->width > 1 ? "/classify" : "/v1/rerank, /v1/score, /classify");
    if (v->scores && v->width > 1 && g->embed.first_count)
        return api_error_set(err, API_UNSUPPORTED, "model",
                             "the model '%.100s' has %u labels, and texts are compared by one: "
                             "/classify shows all of a text's",
                             m->name, v->width);
    if (v->scores && g->embed.dimensions)
        return api_error_set(err, API_UNSUPPORTED, "dimensions",
                             "'dimensions' is of embeddings; the model '%.100s' makes scores",
                             m->name);
    if (g->embed.instruction.len && !(v->scores && m->text->pairs.takes_instruction))
        return api_error_set(err, API_UNSUPPORTED, "instruction",
                             "the model '%.100s' has no place for an instruction: put it into the "
                             "texts, as its card says",
                             m->name);
    if (g->embed.dimensions > (int64_t)v->width)
        return api_error_set(err, API_BAD_REQUEST, "dimensions",
                             "'dimensions' is %lld; this model's embeddings have %u",
                             (long long)g->embed.dimensions, v->width);
    return 0;
}

/* A text that would be cut may have any length. */
static int check_bytes(const struct genreq *g, const struct served_model *m, uint32_t i,
                       struct api_error *err) {
    if (g->truncate.wanted)
        return 0;
    return prepare_check_bytes(m, g->prompts[i].text.len, m->max_context,
                               g->embed.first_count ? "documents" : "input", err);
}

/* ---- pairs by a template ---- */

/* The last so many bytes of a text, or the first ones; whole characters. */
static struct bytes cut_text(struct bytes text, size_t len, bool end) {
    size_t from = end ? text.len - len : 0, to = end ? text.len : len;
    while (end && from < text.len && (text.data[from] & 0xC0) == 0x80)
        from++;
    while (!end && to > 0 && to < text.len && (text.data[to] & 0xC0) == 0x80)
        to--;
    return bytes_of(text.data + from, to - from);
}

static int template_tokens(const struct served_model *m, const struct text_pair *pair,
                           struct token_vec *out, struct api_error *api) {
    const struct text_model *text = m->text;
    struct error err;
    out->count = 0;
    int rc = pair_template_tokens(&text->pairs, text->chat, text->tokenizer, pair, out, &err);
    return rc ? prepare_refuse(api, "documents", rc, &err) : 0;
}

/* Bytes of a text that so many of its first or last tokens stand for. */
static size_t bytes_of_tokens(const struct tokenizer *t, const struct token_vec *ids, size_t count,
                              bool end) {
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += tokenizer_token_bytes(t, ids->items[end ? ids->count - 1 - i : i]).len;
    return bytes;
}

/* Leaves of document i what makes a prompt of `most` tokens: what does not fit is counted in its own
 * tokens, and once more where it has others beside the template. */
static int cut_document(const struct genreq *g, const struct served_model *m, uint32_t i,
                        size_t most, struct text_pair pair, struct token_vec *ids,
                        struct api_error *err) {
    struct bytes whole = pair.document;
    struct token_vec own = {0};
    int rc = prepare_bare_text(g, i, m->text, &own, err);
    size_t left = own.count;
    while (rc == 0 && ids->count > most && left) {
        left -= MIN(left, ids->count - most);
        size_t bytes = bytes_of_tokens(m->text->tokenizer, &own, left, g->truncate.keeps_end);
        pair.document = cut_text(whole, MIN(bytes, whole.len), g->truncate.keeps_end);
        rc = template_tokens(m, &pair, ids, err);
    }
    vec_release(&own);
    if (rc || ids->count <= most)
        return rc;
    return api_error_set(err, API_CONTEXT_LENGTH, "query",
                         "without any text beside it the prompt has %zu tokens, more than %zu",
                         ids->count, most);
}

static int template_pair(const struct genreq *g, const struct served_model *m, uint32_t i,
                         struct prepared *p, struct api_error *err) {
    const struct genreq_prompt *query = &g->prompts[g->embed.first_count == 1 ? 0 : i],
                               *document = &g->prompts[g->embed.first_count + i];
    struct text_pair pair = {query->text, document->text, g->embed.instruction};
    struct token_vec *ids = &p->prompts[i];
    uint32_t context = MIN(m->max_context, (uint32_t)WIRE_MAX_TOKENS);
    if (prepare_check_bytes(m, query->text.len, m->max_context, "query", err) ||
        check_bytes(g, m, g->embed.first_count + i, err) || template_tokens(m, &pair, ids, err))
        return -1;
    size_t most = g->truncate.tokens > 0 ? (size_t)g->truncate.tokens : context;
    if (g->truncate.wanted && ids->count > most &&
        cut_document(g, m, g->embed.first_count + i, most, pair, ids, err))
        return -1;
    return fit_context(g, m, i, ids, err);
}

static int make_template_pairs(const struct genreq *g, const struct served_model *m,
                               struct prepared *p, struct api_error *err) {
    for (uint32_t i = 0; i < p->prompt_count; i++)
        if (template_pair(g, m, i, p, err))
            return -1;
    return 0;
}

/* ---- pairs by the tokenizer ---- */

/* A query that is longer than the context leaves no room for a text beside it, cut or not. */
static int read_query(const struct genreq *g, uint32_t i, const struct served_model *m,
                      struct token_vec *out, struct api_error *err) {
    if (prepare_check_bytes(m, g->prompts[i].text.len, m->max_context, "query", err) ||
        prepare_bare_text(g, i, m->text, out, err))
        return -1;
    return out->count <= m->max_context
               ? 0
               : api_error_set(err, API_CONTEXT_LENGTH, "query",
                               "the query has %zu tokens; this model's context is %u, the text "
                               "that it is compared with included",
                               out->count, m->max_context);
}

/* Query and document as the model's tokenizer puts two texts together. */
static int join_pair(const struct genreq *g, const struct served_model *m, uint32_t i,
                     const struct token_vec *query, struct prepared *p, struct api_error *err) {
    struct token_vec text = {0}, *ids = &p->prompts[i];
    uint32_t *first = &p->first_counts[i];
    int rc = check_bytes(g, m, g->embed.first_count + i, err);
    if (!rc)
        rc = prepare_bare_text(g, g->embed.first_count + i, m->text, &text, err);
    if (!rc) {
        tokenizer_join(m->text->tokenizer, (struct tokens){query->items, query->count},
                       (struct tokens){text.items, text.count}, ids, first);
        size_t joined = ids->count;
        rc = fit_context(g, m, i, ids, err);
        uint32_t cut = (uint32_t)(joined - ids->count);
        if (*first && cut && g->truncate.keeps_end)
            *first = *first > cut ? *first - cut : 1;
        if (*first)
            *first = MIN(*first, (uint32_t)ids->count);
    }
    vec_release(&text);
    return rc;
}

static int check_pairs(size_t tokens, struct api_error *err) {
    return tokens <= PAIRS_TOKENS_MAX
               ? 0
               : api_error_set(err, API_TOO_LARGE, "documents",
                               "the texts with the query in front of each have more than %d "
                               "tokens; send fewer of them in one request",
                               PAIRS_TOKENS_MAX);
}

/* The query is tokenized once, however many texts there are: its bytes are what was paid for. */
static int make_pairs(const struct genreq *g, const struct served_model *m, struct prepared *p,
                      struct api_error *err) {
    struct token_vec query = {0};
    size_t tokens = 0;
    int rc = 0;
    p->first_counts = mem_calloc(p->prompt_count, sizeof *p->first_counts);
    for (uint32_t i = 0; !rc && i < p->prompt_count; i++) {
        if (i < g->embed.first_count) {
            query.count = 0;
            rc = read_query(g, i, m, &query, err);
        }
        if (!rc)
            rc = join_pair(g, m, i, &query, p, err);
        if (!rc)
            rc = check_pairs(tokens += p->prompts[i].count, err);
    }
    vec_release(&query);
    return rc;
}

static int make_inputs(const struct genreq *g, const struct served_model *m, struct prepared *p,
                       struct api_error *err) {
    for (uint32_t i = 0; i < p->prompt_count; i++)
        if (check_bytes(g, m, i, err) || prepare_text(g, i, m->text, &p->prompts[i], err) ||
            fit_context(g, m, i, &p->prompts[i], err))
            return -1;
    return 0;
}

int embed_prepare(const struct genreq *g, const struct served_model *m, struct prepared *p,
                  struct api_error *err) {
    if (check_model(g, m, err))
        return -1;
    bool pairs = m->vectors.scores;
    p->kind = pairs ? WIRE_SCORE : WIRE_EMBED;
    p->prompt_count = g->prompt_count - (pairs ? g->embed.first_count : 0);
    p->prompts = mem_calloc(p->prompt_count, sizeof *p->prompts);
    p->max_tokens = mem_calloc(p->prompt_count, sizeof *p->max_tokens);
    p->sampling = (struct wire_sampling){
        .temperature = 1, .top_p = 1, .repetition_penalty = 1, .logprobs = -1};
    for (uint32_t i = 0; i < p->prompt_count; i++)
        p->max_tokens[i] = 1; /* a Submit has some */
    if (!pairs || !g->embed.first_count)
        return make_inputs(g, m, p, err);
    return m->text->pairs.is_there ? make_template_pairs(g, m, p, err) : make_pairs(g, m, p, err);
}
