/* The fields of requests that ask how likely tokens are. */
#include "gateway/dialects/labels.h"
#include "gateway/fields/field.h"

typedef VEC(struct genreq_prompt) texts_t;

/* The request while it is read: query and items stand apart until all are there. */
struct labels_request {
    struct genreq g; /* first: the tables' offsets are of it */
    struct genreq_prompt query;
    bool has_query;
    texts_t items;
};

static struct labels_request *request_of(struct field_reader *r) {
    return (struct labels_request *)r->g;
}

/* The rest of an array of ids whose first event was read. */
static int read_ids(struct field_reader *r, enum json_event event, struct genreq_prompt *out) {
    struct u32s ids;
    *out = (struct genreq_prompt){.is_ids = true};
    if (field_token_array(r, event, WIRE_MAX_TOKENS, &ids))
        return -1;
    out->ids = (struct tokens){ids.items, ids.count};
    return 0;
}

/* A text, or an array of ids. */
static int read_text(struct field_reader *r, enum json_event first, struct genreq_prompt *out) {
    *out = (struct genreq_prompt){0};
    if (first == JSON_STRING)
        return field_string(r, first, SIZE_MAX, &out->text);
    return first == JSON_ARRAY_BEGIN ? read_ids(r, json_next(&r->json), out)
                                     : field_wrong_type(r, "a text or token ids", first);
}

static int read_query(struct field_reader *r, enum json_event first) {
    request_of(r)->has_query = true;
    return read_text(r, first, &request_of(r)->query);
}

static int read_items(struct field_reader *r, enum json_event first) {
    texts_t *items = &request_of(r)->items;
    struct genreq_prompt item;
    bool many = first == JSON_ARRAY_BEGIN;
    for (enum json_event event = many ? json_next(&r->json) : first; event != JSON_ARRAY_END;
         event = json_next(&r->json)) {
        if (event == JSON_NUMBER)
            return field_wrong_type(r, "a text, or a list of texts or of token ids", event);
        if (items->count == GENREQ_INPUTS_MAX)
            return api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' holds more than %d items",
                                 r->name, GENREQ_INPUTS_MAX);
        if (read_text(r, event, &item))
            return -1;
        vec_push(items, item);
        if (!many)
            break;
    }
    return items->count ? 0
                        : api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' is empty", r->name);
}

static int read_labels(struct field_reader *r, enum json_event first) {
    if (first != JSON_ARRAY_BEGIN)
        return field_wrong_type(r, "an array of token ids", first);
    if (field_token_array(r, json_next(&r->json), GENREQ_INPUTS_MAX, &r->g->labels.ids))
        return -1;
    return r->g->labels.ids.count
               ? 0
               : api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' is empty", r->name);
}

static int read_input(struct field_reader *r, enum json_event first) {
    struct genreq_prompt text;
    if (read_text(r, first, &text))
        return -1;
    r->g->prompts = arena_copy(&r->g->arena, &text, sizeof text);
    r->g->prompt_count = 1;
    return r->g->prompts ? 0 : field_too_large(r);
}

/* clang-format off */
#define COMMON_ROWS                                                                                \
    STRING_FIELD("model", model, GENREQ_NAME_MAX),                                                 \
    STRING_FIELD("user", user, GENREQ_USER_MAX),                                                   \
    INT_FIELD("priority", priority, INT32_MIN, INT32_MAX, 0),                                      \
    STRING_FIELD_ONCE("cache_salt", cache_salt, GENREQ_SALT_MAX, GENREQ_CACHE_SALT)

#define LABEL_ROWS                                                                                 \
    COMMON_ROWS,                                                                                   \
    CUSTOM_FIELD("query", read_query),                                                             \
    CUSTOM_FIELD("items", read_items),                                                             \
    CUSTOM_FIELD("label_token_ids", read_labels),                                                  \
    BOOL_FIELD("apply_softmax", labels.softmax, 0),                                                \
    BOOL_FIELD("item_first", labels.item_first, 0)

static const struct field generative_scoring_rows[] = {
    LABEL_ROWS,
    BOOL_FIELD("add_special_tokens", add_special_tokens, 0),
    CUSTOM_FIELD("request_id", field_request_id),
};
static const struct field label_scores_rows[] = {
    LABEL_ROWS,
    CUSTOM_ALIAS("rid", "request_id", field_request_id),
};
static const struct field ppl_rows[] = {
    COMMON_ROWS,
    CUSTOM_FIELD("input", read_input),
};
/* clang-format on */

FIELD_SET_OF_TEXTS(generative_scoring, generative_scoring_rows);
FIELD_SET_OF_TEXTS(label_scores, label_scores_rows);
FIELD_SET_OF_TEXTS(ppl, ppl_rows);

bool labels_is_body(struct bytes body) {
    static const char *const NAME = "label_token_ids";
    return field_names_there(body, &NAME, 1);
}

/* What of its prompts is told, and that nothing is generated. */
static void want_prompts_alone(struct genreq *g) {
    g->prompt_logprobs = 0;
    g->max_tokens = 0;
    g->given |= GENREQ_MAX_TOKENS;
}

/* The prompts are the query, then the items. */
static int keep_texts(struct labels_request *q, struct api_error *err) {
    struct genreq *g = &q->g;
    const char *missing = !q->has_query          ? "query"
                          : !q->items.count      ? "items"
                          : !g->labels.ids.count ? "label_token_ids"
                                                 : NULL;
    if (missing)
        return api_error_set(err, API_BAD_REQUEST, missing, "'%s' is missing", missing);
    if (q->items.count * g->labels.ids.count > GENREQ_INPUTS_MAX)
        return api_error_set(err, API_BAD_REQUEST, "items",
                             "%zu items times %zu labels are more than %d", q->items.count,
                             g->labels.ids.count, GENREQ_INPUTS_MAX);
    g->prompt_count = 1 + (uint32_t)q->items.count;
    g->prompts = arena_alloc(&g->arena, g->prompt_count * sizeof *g->prompts);
    if (!g->prompts)
        return api_error_set(err, API_TOO_LARGE, "items", "'items' is too large");
    g->prompts[0] = q->query;
    memcpy(g->prompts + 1, q->items.items, q->items.count * sizeof *g->prompts);
    return 0;
}

static int read(struct genreq *g, const struct field_set *set, struct bytes body,
                struct api_error *err) {
    struct labels_request q = {.g = *g};
    q.g.add_special_tokens = true;
    int rc = field_read_request(&q.g, set, body, err);
    if (rc == 0)
        rc = keep_texts(&q, err);
    *g = q.g; /* the arena with it */
    vec_release(&q.items);
    want_prompts_alone(g);
    return rc;
}

int generative_scoring_parse(struct genreq *g, struct bytes body, struct api_error *err) {
    g->labels.softmax = true;
    return read(g, &fields_generative_scoring, body, err);
}

int label_scores_parse(struct genreq *g, struct bytes body, struct api_error *err) {
    g->labels.joins_texts = true;
    return read(g, &fields_label_scores, body, err);
}

int ppl_parse(struct genreq *g, struct bytes body, struct api_error *err) {
    g->add_special_tokens = true;
    if (field_read_request(g, &fields_ppl, body, err))
        return -1;
    want_prompts_alone(g);
    return g->prompt_count ? 0 : api_error_set(err, API_BAD_REQUEST, "input", "'input' is missing");
}
