/*
 * logit_bias in all its forms: OpenAI's object from token ids to numbers; llama.cpp's, where a text
 * may stand for its tokens and `false` for never; llama.cpp's array of pairs of the same.
 */
#include "gateway/fields/field.h"

/* What a reader gathers: ids and texts, each with its bias. */
struct bias {
    uint32_t ids[GENREQ_BIAS_MAX];
    float values[GENREQ_BIAS_MAX];
    struct genreq_bias_text texts[GENREQ_BIAS_MAX];
    size_t id_count, text_count;
};

/* The id or the text that was just read, as the next entry. Returns where its value goes; NULL with
 * *r->err filled. */
static float *add_entry(struct field_reader *r, enum json_event event, struct bias *b) {
    int64_t id;
    bool number = event == JSON_NUMBER || event == JSON_KEY || event == JSON_STRING;
    if (b->id_count + b->text_count == GENREQ_BIAS_MAX) {
        api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' holds more than %d entries", r->name,
                      GENREQ_BIAS_MAX);
        return NULL;
    }
    if (number && event != JSON_STRING && json_number_int64(r->json.text, &id)) {
        if (id < 0 || id > INT32_MAX) {
            api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' has a token id out of range",
                          r->name);
            return NULL;
        }
        b->ids[b->id_count] = (uint32_t)id;
        return &b->values[b->id_count++];
    }
    if ((event != JSON_KEY && event != JSON_STRING) || r->json.text.len == 0) {
        field_wrong_type(r, "biases of token ids or texts", event);
        return NULL;
    }
    struct genreq_bias_text *text = &b->texts[b->text_count];
    const void *copy = arena_copy(&r->g->arena, r->json.text.data, r->json.text.len);
    if (r->json.text.len > GENREQ_BIAS_TEXT_MAX || !copy) {
        api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' has a text of more than %d bytes",
                      r->name, GENREQ_BIAS_TEXT_MAX);
        return NULL;
    }
    *text = (struct genreq_bias_text){.text = bytes_of(copy, r->json.text.len)};
    b->text_count++;
    return &text->value;
}

static int read_value(struct field_reader *r, enum json_event event, float *out) {
    static const struct field range = {.min = -100, .max = 100};
    static const float NEVER = -1e9f;
    double value;
    if (event == JSON_FALSE) {
        *out = NEVER;
        return 0;
    }
    if (field_number(r, event, &range, &value))
        return -1;
    *out = (float)value;
    return 0;
}

static int read_object(struct field_reader *r, struct bias *b) {
    for (enum json_event event; (event = json_next(&r->json)) != JSON_OBJECT_END;) {
        if (event != JSON_KEY)
            return field_wrong_type(r, "an object", event);
        float *value = add_entry(r, event, b);
        if (!value || read_value(r, json_next(&r->json), value))
            return -1;
    }
    return 0;
}

static int read_pairs(struct field_reader *r, struct bias *b) {
    for (enum json_event event; (event = json_next(&r->json)) != JSON_ARRAY_END;) {
        if (event != JSON_ARRAY_BEGIN)
            return field_wrong_type(r, "an array of pairs of a token id and a number", event);
        float *value = add_entry(r, json_next(&r->json), b);
        if (!value || read_value(r, json_next(&r->json), value))
            return -1;
        if (json_next(&r->json) != JSON_ARRAY_END)
            return api_error_set(r->err, API_BAD_REQUEST, r->name,
                                 "'%s' must hold pairs of a token id and a number", r->name);
    }
    return 0;
}

int field_logit_bias(struct field_reader *r, enum json_event first) {
    struct genreq *g = r->g;
    struct bias *b = mem_alloc(sizeof *b);
    int rc = 0;
    if (first == JSON_OBJECT_BEGIN)
        rc = read_object(r, b);
    else if (first == JSON_ARRAY_BEGIN)
        rc = read_pairs(r, b);
    else if (first != JSON_FALSE)
        rc = field_wrong_type(r, "an object from token ids to numbers", first);
    if (rc == 0)
        rc = field_copy_ids(r, b->ids, b->id_count, &g->bias_ids);
    if (rc == 0 && b->id_count) {
        g->bias_values.count = b->id_count;
        g->bias_values.items = arena_copy(&g->arena, b->values, b->id_count * sizeof b->values[0]);
        rc = g->bias_values.items ? 0 : field_too_large(r);
    }
    if (rc == 0 && b->text_count) {
        g->bias_text_count = (uint32_t)b->text_count;
        g->bias_texts = arena_copy(&g->arena, b->texts, b->text_count * sizeof b->texts[0]);
        rc = g->bias_texts ? 0 : field_too_large(r);
    }
    mem_free(b);
    return rc;
}
