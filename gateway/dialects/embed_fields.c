/* The fields of requests for embeddings. */
#include "gateway/dialects/embed.h"
#include "gateway/fields/field.h"

enum { NORMALIZE_NONE = -1, NORMALIZE_LENGTH = 2 }; /* llama.cpp's embd_normalize */

typedef VEC(struct genreq_prompt) inputs_t;

static int push_input(struct field_reader *r, enum json_event event, struct genreq_prompt *out) {
    struct u32s ids;
    *out = (struct genreq_prompt){.is_ids = event == JSON_ARRAY_BEGIN};
    if (!out->is_ids)
        return field_string(r, event, SIZE_MAX, &out->text);
    if (field_token_array(r, json_next(&r->json), WIRE_MAX_TOKENS, &ids))
        return -1;
    out->ids = (struct tokens){ids.items, ids.count};
    return 0;
}

/* After '[': one input of ids when a number comes first, else a list of inputs. */
static int read_list(struct field_reader *r, inputs_t *list) {
    enum json_event event = json_next(&r->json), kind = event;
    struct genreq_prompt input = {.is_ids = true};
    if (event == JSON_NUMBER) {
        struct u32s ids;
        if (field_token_array(r, event, WIRE_MAX_TOKENS, &ids))
            return -1;
        input.ids = (struct tokens){ids.items, ids.count};
        vec_push(list, input);
        return 0;
    }
    for (; event != JSON_ARRAY_END; event = json_next(&r->json)) {
        if (event != kind || (event != JSON_STRING && event != JSON_ARRAY_BEGIN))
            return field_wrong_type(r, "a string, token ids, or an array of either", event);
        if (list->count == GENREQ_INPUTS_MAX)
            return api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' holds more than %d inputs",
                                 r->name, GENREQ_INPUTS_MAX);
        if (push_input(r, event, &input))
            return -1;
        vec_push(list, input);
    }
    return 0;
}

static int keep_inputs(struct field_reader *r, const inputs_t *list) {
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].is_ids && list->items[i].ids.count == 0)
            return api_error_set(r->err, API_BAD_REQUEST, r->name,
                                 "'%s' holds an empty list of token ids", r->name);
    if (list->count == 0)
        return api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' is empty", r->name);
    if (r->g->prompt_count)
        return field_disagrees(r);
    r->g->prompt_count = (uint32_t)list->count;
    r->g->prompts = arena_copy(&r->g->arena, list->items, list->count * sizeof list->items[0]);
    return r->g->prompts ? 0 : field_too_large(r);
}

static int read_input(struct field_reader *r, enum json_event first) {
    inputs_t list = {0};
    struct genreq_prompt input;
    int rc;
    if (first == JSON_ARRAY_BEGIN) {
        rc = read_list(r, &list);
    } else if (first == JSON_STRING) {
        rc = push_input(r, first, &input);
        if (rc == 0)
            vec_push(&list, input);
    } else {
        return field_wrong_type(r, "a string or an array", first);
    }
    if (rc == 0)
        rc = keep_inputs(r, &list);
    vec_release(&list);
    return rc;
}

/* Ollama's older call has one text. */
static int read_one(struct field_reader *r, enum json_event first) {
    return first == JSON_STRING ? read_input(r, first) : field_wrong_type(r, "a string", first);
}

static int read_encoding(struct field_reader *r, enum json_event first) {
    if (first != JSON_STRING)
        return field_wrong_type(r, "a string", first);
    r->g->embed.base64 = bytes_equal(r->json.text, bytes_str("base64"));
    if (r->g->embed.base64 || bytes_equal(r->json.text, bytes_str("float")))
        return 0;
    return api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' must be float or base64", r->name);
}

/* vLLM's: -1 is as many as the model takes. */
int field_truncate(struct field_reader *r, enum json_event first) {
    if (field_int(r, first, -1, WIRE_MAX_TOKENS, &r->g->truncate.tokens))
        return -1;
    if (r->g->truncate.tokens == 0)
        return api_error_set(r->err, API_BAD_REQUEST, r->name,
                             "'%s' must be -1, or 1 or more tokens", r->name);
    r->g->truncate.wanted = true;
    return 0;
}

int field_truncation_side(struct field_reader *r, enum json_event first) {
    if (first != JSON_STRING)
        return field_wrong_type(r, "a string", first);
    r->g->truncate.keeps_end = bytes_equal(r->json.text, bytes_str("left"));
    if (r->g->truncate.keeps_end || bytes_equal(r->json.text, bytes_str("right")))
        return 0;
    return api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' must be left or right", r->name);
}

static int read_normalize(struct field_reader *r, enum json_event first) {
    bool asked;
    if (field_bool(r, first, &asked))
        return -1;
    r->g->embed.normalize = asked ? EMBED_NORMALIZE : EMBED_AS_IT_IS;
    return 0;
}

/* llama.cpp's: -1 none, 2 to length 1; what else it has is for integers. */
static int read_llama_normalize(struct field_reader *r, enum json_event first) {
    int64_t way;
    if (field_int(r, first, NORMALIZE_NONE, INT32_MAX, &way))
        return -1;
    if (way != NORMALIZE_NONE && way != NORMALIZE_LENGTH)
        return api_error_set(r->err, API_UNSUPPORTED, r->name,
                             "'%s' must be -1 (none) or 2 (length 1) here", r->name);
    r->g->embed.normalize = way == NORMALIZE_NONE ? EMBED_AS_IT_IS : EMBED_NORMALIZE;
    return 0;
}

/* Ollama's, which only says how a model is loaded and asked for text. */
static int read_options(struct field_reader *r, enum json_event first) {
    if (first != JSON_OBJECT_BEGIN)
        return field_wrong_type(r, "an object", first);
    return field_span(r, first, NULL);
}

/* clang-format off */
#define COMMON_ROWS                                                                                \
    STRING_FIELD("model", model, GENREQ_NAME_MAX),                                                 \
    INT_FIELD("dimensions", embed.dimensions, 1, WIRE_MAX_VECTOR, 0)

#define OPENAI_ROWS                                                                                \
    COMMON_ROWS,                                                                                   \
    CUSTOM_FIELD("input", read_input),                                                             \
    CUSTOM_FIELD("encoding_format", read_encoding),                                                \
    STRING_FIELD("user", user, GENREQ_USER_MAX),                                                   \
    CUSTOM_FIELD("truncate_prompt_tokens", field_truncate),                                         \
    CUSTOM_FIELD("truncation_side", field_truncation_side),                                        \
    BOOL_FIELD("add_special_tokens", add_special_tokens, 0),                                       \
    CUSTOM_FIELD("normalize", read_normalize),                                                     \
    CUSTOM_ALIAS("use_activation", "normalize", read_normalize),                                   \
    CUSTOM_FIELD("embd_normalize", read_llama_normalize),                                          \
    INT_FIELD("priority", priority, INT32_MIN, INT32_MAX, 0),                                      \
    STRING_FIELD_ONCE("cache_salt", cache_salt, GENREQ_SALT_MAX, GENREQ_CACHE_SALT),               \
    PASSED_FIELD("request_id"),                                                                    \
    /* other servers' */                                                                           \
    NEUTRAL_FIELD("embed_dtype", "\"float32\""),                                                   \
    NEUTRAL_FIELD("endianness", "\"native\" \"little\""),                                          \
    REFUSED_FIELD("messages"),                                                                     \
    REFUSED_FIELD("input_type"),                                                                   \
    REFUSED_FIELD("prompt_name"),                                                                  \
    REFUSED_FIELD("instruction"),                                                                  \
    REFUSED_FIELD("mm_processor_kwargs")

static const struct field openai_rows[] = {OPENAI_ROWS};
static const struct field llama_rows[] = {
    OPENAI_ROWS,
    CUSTOM_ALIAS("content", "input", read_input),
};

static const struct field ollama_embed_rows[] = {
    COMMON_ROWS,
    CUSTOM_FIELD("input", read_input),
    BOOL_FIELD("truncate", truncate.wanted, 0),
    CUSTOM_FIELD("options", read_options),
    PASSED_FIELD("keep_alive"),
};

static const struct field ollama_embeddings_rows[] = {
    STRING_FIELD("model", model, GENREQ_NAME_MAX),
    CUSTOM_ALIAS("prompt", "input", read_one),
    CUSTOM_FIELD("options", read_options),
    NEUTRAL_FIELD("truncate", "true"),
    PASSED_FIELD("keep_alive"),
};
/* clang-format on */

/* ---- vLLM's ---- */

static int read_task(struct field_reader *r, enum json_event first) {
    if (first != JSON_STRING)
        return field_wrong_type(r, "a string", first);
    bool classify = bytes_equal(r->json.text, bytes_str("classify"));
    r->g->embed.task = classify ? EMBED_TASK_CLASSIFY : EMBED_TASK_EMBED;
    return classify || bytes_equal(r->json.text, bytes_str("embed"))
               ? 0
               : api_error_set(r->err, API_UNSUPPORTED, r->name, "'%s' must be embed or classify",
                               r->name);
}

static const struct field pooling_rows[] = {
    OPENAI_ROWS,
    CUSTOM_FIELD("task", read_task),
    REFUSED_FIELD("data"),
};

static const struct field classify_rows[] = {
    STRING_FIELD("model", model, GENREQ_NAME_MAX),
    CUSTOM_FIELD("input", read_input),
    STRING_FIELD("user", user, GENREQ_USER_MAX),
    CUSTOM_FIELD("truncate_prompt_tokens", field_truncate),
    CUSTOM_FIELD("truncation_side", field_truncation_side),
    BOOL_FIELD("add_special_tokens", add_special_tokens, 0),
    CUSTOM_FIELD("use_activation", read_normalize),
    INT_FIELD("priority", priority, INT32_MIN, INT32_MAX, 0),
    STRING_FIELD_ONCE("cache_salt", cache_salt, GENREQ_SALT_MAX, GENREQ_CACHE_SALT),
    PASSED_FIELD("request_id"),
    REFUSED_FIELD("messages"),
    REFUSED_FIELD("activation"),
    REFUSED_FIELD("mm_processor_kwargs"),
};

/* ---- SGLang's ---- */

/* A text or a list of texts; token ids or a list of lists: a list is answered by a list. */
static int read_sglang_input(struct field_reader *r, enum json_event first, bool ids) {
    if (r->g->prompt_count)
        return api_error_set(r->err, API_BAD_REQUEST, r->name,
                             "'text' and 'input_ids' cannot both be given");
    r->g->answers_list = first == JSON_ARRAY_BEGIN && (!ids || field_begins_with_array(r));
    if (read_input(r, first))
        return -1;
    return r->g->prompts[0].is_ids == ids
               ? 0
               : field_wrong_type(r, ids ? "token ids, or lists of them" : "a text, or texts",
                                  ids ? JSON_STRING : JSON_NUMBER);
}

static int read_encode_text(struct field_reader *r, enum json_event first) {
    return read_sglang_input(r, first, false);
}
static int read_encode_ids(struct field_reader *r, enum json_event first) {
    return read_sglang_input(r, first, true);
}

static const struct field encode_rows[] = {
    STRING_FIELD("model", model, GENREQ_NAME_MAX),
    CUSTOM_ALIAS("text", "input", read_encode_text),
    CUSTOM_ALIAS("input_ids", "input", read_encode_ids),
    INT_FIELD("dimensions", embed.dimensions, 1, WIRE_MAX_VECTOR, 0),
    CUSTOM_ALIAS("rid", "request_id", field_request_id),
    INT_FIELD("priority", priority, INT32_MIN, INT32_MAX, 0),
    NEUTRAL_FIELD("sampling_params", "{}"),
    NEUTRAL_FIELD("is_cross_encoder_request", "false"),
    REFUSED_FIELD("image_data"),
    REFUSED_FIELD("video_data"),
    REFUSED_FIELD("audio_data"),
    REFUSED_FIELD("input_embeds"),
    REFUSED_FIELD("lora_path"),
    PASSED_FIELD("log_metrics"),
    PASSED_FIELD("data_parallel_rank"),
};

/* ---- Cohere's ---- */

static int read_cohere_texts(struct field_reader *r, enum json_event first) {
    if (first != JSON_ARRAY_BEGIN)
        return field_wrong_type(r, "an array of strings", first);
    if (read_input(r, first))
        return -1;
    return r->g->prompts[0].is_ids ? field_wrong_type(r, "an array of strings", JSON_NUMBER) : 0;
}

/* What the text is for. No model's own words for it are known here, so it changes nothing, and the
 * answer says so. */
static int read_input_type(struct field_reader *r, enum json_event first) {
    static const char *const TYPES[] = {"search_document", "search_query", "classification",
                                        "clustering"};
    if (first != JSON_STRING)
        return field_wrong_type(r, "a string", first);
    r->g->embed.has_input_type = true;
    for (size_t i = 0; i < ARRAY_LEN(TYPES); i++)
        if (bytes_equal(r->json.text, bytes_str(TYPES[i])))
            return 0;
    return api_error_set(r->err, API_UNSUPPORTED, r->name,
                         "'%s' must be search_document, search_query, classification or clustering",
                         r->name);
}

/* One of the two that there are: Cohere's others are roundings of its own. */
static int read_embedding_types(struct field_reader *r, enum json_event first) {
    const struct bytes *types;
    uint32_t count;
    if (first != JSON_ARRAY_BEGIN)
        return field_wrong_type(r, "an array of strings", first);
    if (field_strings(r, first, 8, GENREQ_NAME_MAX, &types, &count))
        return -1;
    r->g->embed.base64 = count == 1 && bytes_equal(types[0], bytes_str("base64"));
    if (count == 0 || r->g->embed.base64 ||
        (count == 1 && bytes_equal(types[0], bytes_str("float"))))
        return 0;
    return api_error_set(r->err, API_UNSUPPORTED, r->name,
                         "'%s' must be [\"float\"] or [\"base64\"] here", r->name);
}

static int read_cohere_truncate(struct field_reader *r, enum json_event first) {
    if (first != JSON_STRING)
        return field_wrong_type(r, "a string", first);
    r->g->truncate.wanted = !bytes_equal(r->json.text, bytes_str("NONE"));
    r->g->truncate.keeps_end = bytes_equal(r->json.text, bytes_str("START"));
    if (!r->g->truncate.wanted || r->g->truncate.keeps_end ||
        bytes_equal(r->json.text, bytes_str("END")))
        return 0;
    return api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' must be NONE, START or END",
                         r->name);
}

static const struct field cohere_rows[] = {
    STRING_FIELD("model", model, GENREQ_NAME_MAX),
    CUSTOM_ALIAS("texts", "input", read_cohere_texts),
    CUSTOM_FIELD("input_type", read_input_type),
    CUSTOM_FIELD("embedding_types", read_embedding_types),
    CUSTOM_FIELD("truncate", read_cohere_truncate),
    INT_ALIAS("max_tokens", "truncate_prompt_tokens", truncate.tokens, 1, WIRE_MAX_TOKENS, 0),
    INT_ALIAS("output_dimension", "dimensions", embed.dimensions, 1, WIRE_MAX_VECTOR, 0),
    INT_FIELD("priority", priority, INT32_MIN, INT32_MAX, 0),
    REFUSED_FIELD("images"),
    REFUSED_FIELD("inputs"),
};

FIELD_SET_OF_TEXTS(embeddings, openai_rows);
FIELD_SET_OF_TEXTS(pooling, pooling_rows);
FIELD_SET_OF_TEXTS(classify, classify_rows);
FIELD_SET_OF_TEXTS(encode, encode_rows);
FIELD_SET_OF_TEXTS(cohere_embed, cohere_rows);
FIELD_SET_OF_TEXTS(llama_embedding, llama_rows);
FIELD_SET_OF_TEXTS(ollama_embed, ollama_embed_rows);
FIELD_SET_OF_TEXTS(ollama_embeddings, ollama_embeddings_rows);

static int read(struct genreq *g, const struct field_set *set, const char *name, struct bytes body,
                struct api_error *err) {
    g->add_special_tokens = true;
    if (field_read_request(g, set, body, err))
        return -1;
    return g->prompt_count ? 0 : api_error_set(err, API_BAD_REQUEST, name, "'%s' is missing", name);
}

int embeddings_parse(struct genreq *g, struct bytes body, struct api_error *err) {
    return read(g, &fields_embeddings, "input", body, err);
}

int pooling_parse(struct genreq *g, struct bytes body, struct api_error *err) {
    return read(g, &fields_pooling, "input", body, err);
}

int classify_parse(struct genreq *g, struct bytes body, struct api_error *err) {
    return read(g, &fields_classify, "input", body, err);
}

int encode_parse(struct genreq *g, struct bytes body, struct api_error *err) {
    return read(g, &fields_encode, "text", body, err);
}

int cohere_embed_parse(struct genreq *g, struct bytes body, struct api_error *err) {
    g->truncate.wanted = true;
    if (read(g, &fields_cohere_embed, "texts", body, err))
        return -1;
    return g->truncate.tokens && !g->truncate.wanted
               ? api_error_set(err, API_BAD_REQUEST, "max_tokens",
                               "'max_tokens' says where a text is cut, and 'truncate' NONE that it "
                               "is not")
               : 0;
}

int llama_embedding_parse(struct genreq *g, struct bytes body, struct api_error *err) {
    g->embed.normalize = EMBED_NORMALIZE;
    if (read(g, &fields_llama_embedding, "content", body, err))
        return -1;
    return g->embed.base64
               ? api_error_set(err, API_UNSUPPORTED, "encoding_format",
                               "'encoding_format' must be float here; /v1/embeddings has base64")
               : 0;
}

int ollama_embed_parse(struct genreq *g, struct bytes body, struct api_error *err) {
    g->embed.normalize = EMBED_NORMALIZE;
    g->truncate.wanted = true;
    return read(g, &fields_ollama_embed, "input", body, err);
}

int ollama_embeddings_parse(struct genreq *g, struct bytes body, struct api_error *err) {
    g->embed.normalize = EMBED_AS_IT_IS;
    g->truncate.wanted = true;
    return read(g, &fields_ollama_embeddings, "prompt", body, err);
}
