/* The fields of requests that compare texts: rerank (Cohere's, Jina's, vLLM's, llama.cpp's) and score (vLLM's). */
#include "gateway/dialects/embed.h"
#include "gateway/fields/field.h"

typedef VEC(struct genreq_prompt) texts_t;

/* The request while it is read: texts stand apart until all are there. */
struct rerank_request {
    struct genreq g; /* first: the tables' offsets are of it */
    texts_t first, second;
};

static struct rerank_request *request_of(struct field_reader *r) {
    return (struct rerank_request *)r->g;
}

/* A document: a text, or an object with one. */
static int read_text(struct field_reader *r, enum json_event event, struct genreq_prompt *out) {
    bool found = false;
    *out = (struct genreq_prompt){0};
    if (event == JSON_STRING)
        return field_string(r, event, SIZE_MAX, &out->text);
    if (event != JSON_OBJECT_BEGIN)
        return field_wrong_type(r, "a text, or a list of texts", event);
    while (json_next(&r->json) == JSON_KEY) {
        bool is_text = bytes_equal(r->json.text, bytes_str("text"));
        event = json_next(&r->json);
        if (is_text ? field_string(r, event, SIZE_MAX, &out->text) : field_span(r, event, NULL))
            return -1;
        found |= is_text;
    }
    return found ? 0
                 : api_error_set(r->err, API_BAD_REQUEST, r->name,
                                 "'%s' holds an object without 'text'", r->name);
}

static int read_texts(struct field_reader *r, enum json_event first, texts_t *list) {
    struct genreq_prompt text;
    bool many = first == JSON_ARRAY_BEGIN;
    if (list->count)
        return field_disagrees(r);
    for (enum json_event event = many ? json_next(&r->json) : first; event != JSON_ARRAY_END;
         event = json_next(&r->json)) {
        if (list->count == GENREQ_INPUTS_MAX)
            return api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' holds more than %d texts",
                                 r->name, GENREQ_INPUTS_MAX);
        if (read_text(r, event, &text))
            return -1;
        vec_push(list, text);
        if (!many)
            break;
    }
    return list->count ? 0
                       : api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' is empty", r->name);
}

static int read_first(struct field_reader *r, enum json_event first) {
    return read_texts(r, first, &request_of(r)->first);
}
static int read_second(struct field_reader *r, enum json_event first) {
    return read_texts(r, first, &request_of(r)->second);
}
static int read_query(struct field_reader *r, enum json_event first) {
    return first == JSON_STRING ? read_first(r, first) : field_wrong_type(r, "a string", first);
}
static int read_documents(struct field_reader *r, enum json_event first) {
    return first == JSON_ARRAY_BEGIN ? read_second(r, first)
                                     : field_wrong_type(r, "a list of texts", first);
}

/* False: what the model gives, as it is (vLLM's). */
static int read_activation(struct field_reader *r, enum json_event first) {
    bool asked;
    if (field_bool(r, first, &asked))
        return -1;
    r->g->embed.normalize = asked ? EMBED_AS_THE_MODEL : EMBED_AS_IT_IS;
    return 0;
}

/* clang-format off */
#define COMMON_ROWS                                                                                \
    STRING_FIELD("model", model, GENREQ_NAME_MAX),                                                 \
    STRING_FIELD("user", user, GENREQ_USER_MAX),                                                   \
    CUSTOM_FIELD("truncate_prompt_tokens", field_truncate),                                        \
    INT_FIELD("priority", priority, INT32_MIN, INT32_MAX, 0),                                      \
    STRING_FIELD_ONCE("cache_salt", cache_salt, GENREQ_SALT_MAX, GENREQ_CACHE_SALT),               \
    PASSED_FIELD("request_id"),                                                                    \
    CUSTOM_FIELD("use_activation", read_activation),                                               \
    CUSTOM_ALIAS("activation", "use_activation", read_activation), /* its older name */            \
    NEUTRAL_FIELD("raw_scores", "false"),                                                          \
    STRING_FIELD("instruction", embed.instruction, GENREQ_INSTRUCTION_MAX),                        \
    REFUSED_FIELD("mm_processor_kwargs")

static const struct field rerank_rows[] = {
    COMMON_ROWS,
    CUSTOM_FIELD("query", read_query),
    CUSTOM_FIELD("documents", read_documents),
    CUSTOM_ALIAS("texts", "documents", read_documents),
    INT_FIELD("top_n", embed.top_count, 1, GENREQ_INPUTS_MAX, 0),
    BOOL_FIELD("return_documents", embed.shows_texts, 0),
    BOOL_ALIAS("return_text", "return_documents", embed.shows_texts, 0),
    REFUSED_FIELD("max_tokens_per_doc"),
    REFUSED_FIELD("max_chunks_per_doc"),
    REFUSED_FIELD("rank_fields"),
};

static const struct field score_rows[] = {
    COMMON_ROWS,
    CUSTOM_ALIAS("text_1", "query", read_first),
    CUSTOM_ALIAS("data_1", "query", read_first),
    CUSTOM_ALIAS("queries", "query", read_first),
    CUSTOM_ALIAS("text_2", "documents", read_second),
    CUSTOM_ALIAS("data_2", "documents", read_second),
    CUSTOM_FIELD("documents", read_second),
    CUSTOM_ALIAS("items", "documents", read_second),
    /* SGLang's, with label_token_ids (labels.h) */
    REFUSED_FIELD("apply_softmax"),
    REFUSED_FIELD("item_first"),
};
/* clang-format on */

FIELD_SET_OF_TEXTS(rerank, rerank_rows);
FIELD_SET_OF_TEXTS(score, score_rows);

/* The prompts are the first texts, then the second ones. */
static int keep_texts(struct rerank_request *q, const char *first, const char *second,
                      struct api_error *err) {
    struct genreq *g = &q->g;
    size_t a = q->first.count, b = q->second.count;
    if (!a || !b)
        return api_error_set(err, API_BAD_REQUEST, a ? second : first, "'%s' is missing",
                             a ? second : first);
    if (a != 1 && a != b)
        return api_error_set(err, API_BAD_REQUEST, first,
                             "'%s' holds %zu texts and '%s' %zu: the first must be one, or as many",
                             first, a, second, b);
    for (size_t i = 0; i < b; i++)
        vec_push(&q->first, q->second.items[i]);
    g->embed.first_count = (uint32_t)a;
    g->prompt_count = (uint32_t)(a + b);
    g->prompts = arena_copy(&g->arena, q->first.items, (a + b) * sizeof q->first.items[0]);
    return g->prompts ? 0 : api_error_set(err, API_TOO_LARGE, second, "'%s' is too large", second);
}

static int read(struct genreq *g, const struct field_set *set, const char *first,
                const char *second, struct bytes body, struct api_error *err) {
    struct rerank_request q = {.g = *g};
    q.g.add_special_tokens = true;
    int rc = field_read_request(&q.g, set, body, err);
    if (rc == 0)
        rc = keep_texts(&q, first, second, err);
    *g = q.g; /* the arena with it */
    vec_release(&q.first);
    vec_release(&q.second);
    return rc;
}

int rerank_parse(struct genreq *g, struct bytes body, struct api_error *err) {
    return read(g, &fields_rerank, "query", "documents", body, err);
}

int score_parse(struct genreq *g, struct bytes body, struct api_error *err) {
    return read(g, &fields_score, "text_1", "text_2", body, err);
}
