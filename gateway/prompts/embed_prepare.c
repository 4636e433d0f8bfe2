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
    if (g->dialect == GENREQ_CLASSIFY && !v->scores)
        return api_error_set(err, API_UNSUPPORTED, "model",
                             "the model '%.100s' has no classes: it makes embeddings", m->name);
    if (v->scores && !g->embed.first_count && !g->probes && g->dialect != GENREQ_CLASSIFY)
        return api_error_set(err, API_UNSUPPORTED, "model",
                             "the model '%.100s' makes no embeddings: it scores texts "
                             "(/v1/rerank, /v1/score, /classify)",
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
    return pairs && g->embed.first_count ? make_pairs(g, m, p, err) : make_inputs(g, m, p, err);
}
