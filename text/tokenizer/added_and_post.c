/*
 * added_and_post.c - "added_tokens" and "post_processor" of tokenizer.json.
 */
#include "text/tokenizer/build.h"

/* ---- added tokens ---- */

/* The content as it looks in normalized text. */
static int add_normalized(struct tokenizer *t, struct bytes content, struct added_token token,
                          struct error *err) {
    struct buf a = {0}, b = {0};
    struct bytes text = normalizer_apply(&t->normalizer, content, &a, &b);
    int rc = text.data ? added_add(&t->added_normalized, text, token, err) : 0;
    buf_release(&a);
    buf_release(&b);
    return rc;
}

int tokenizer_add_token(struct tokenizer *t, struct bytes content, struct added_token token,
                        struct error *err) {
    CHECK(t->vocab.slots);
    struct vocab *v = &t->vocab;
    uint32_t known = v->keep_first ? UINT32_MAX : vocab_find_spelling(v, content);
    int rc = known == UINT32_MAX ? vocab_add_sealed(v, content, token.id, err) : 0;
    if (rc)
        return rc;
    if (known != UINT32_MAX)
        token.id = known;
    t->next_added_id = MAX(t->next_added_id, token.id + 1);
    v->flags[token.id] |= VOCAB_ADDED | (token.special ? VOCAB_SPECIAL : 0);
    if (token.normalized)
        return add_normalized(t, content, token, err);
    return added_add(&t->added, content, token, err);
}

static int add_added(struct tokenizer *t, struct json_value json, struct error *err) {
    struct json_value content = json_get(json, "content"), id = json_get(json, "id");
    if (content.kind != JSON_IS_STRING || id.kind != JSON_IS_INT || id.integer < 0 ||
        id.integer >= VOCAB_IDS_MAX)
        return error_set(err, ERR_INVALID, "tokenizer.json: bad entry in added_tokens");
    if (!content.count)
        return 0;
    /* HF numbers them itself, whatever the file says */
    struct added_token token = {.id = t->next_added_id,
                                .special = json_get_bool(json, "special", false),
                                .normalized = json_get_bool(json, "normalized", false),
                                .lstrip = json_get_bool(json, "lstrip", false),
                                .rstrip = json_get_bool(json, "rstrip", false),
                                .single_word = json_get_bool(json, "single_word", false)};
    return tokenizer_add_token(t, json_text(content), token, err);
}

int tokenizer_load_added(struct tokenizer *t, struct json_value list, struct error *err) {
    int rc = 0;
    for (size_t i = 0; i < t->vocab.entries.count; i++)
        t->next_added_id += t->vocab.entries.items[i].start != VOCAB_ABSENT;
    for (size_t i = 0; !rc && i < json_count(list); i++)
        rc = add_added(t, json_at(list, i), err);
    return rc;
}

/* ---- post-processor ---- */

enum { POST_IDS_MAX = 64 };

/* A processor's tokens go around those of the processors before it. */
struct post {
    struct token_vec before, after;
};

static void wrap(struct tokenizer *t, struct post *p) {
    for (size_t i = 0; i < t->prefix.count; i++)
        vec_push(&p->before, t->prefix.items[i]);
    for (size_t i = 0; i < p->after.count; i++)
        vec_push(&t->suffix, p->after.items[i]);
    vec_release(&t->prefix);
    t->prefix = p->before;
    vec_release(&p->after);
}

static int push_id(struct tokenizer *t, struct token_vec *to, struct json_value id,
                   struct error *err) {
    if (id.kind != JSON_IS_INT || id.integer < 0 || id.integer >= tokenizer_vocab_count(t) ||
        to->count > POST_IDS_MAX)
        return error_set(err, ERR_INVALID, "tokenizer.json: bad ids in the post-processor");
    vec_push(to, (uint32_t)id.integer);
    return 0;
}

/* TemplateProcessing "single": special tokens before and after the sequence. */
static int load_template(struct tokenizer *t, struct json_value json, struct post *p,
                         struct error *err) {
    struct json_value single = json_get(json, "single"),
                      specials = json_get(json, "special_tokens");
    struct token_vec *to = &p->before;
    int rc = 0;
    for (size_t i = 0; !rc && i < json_count(single); i++) {
        struct json_value special = json_get(json_at(single, i), "SpecialToken");
        if (special.kind != JSON_IS_OBJECT) {
            to = &p->after;
            continue;
        }
        struct json_value ids =
            json_get(json_get_bytes(specials, json_text(json_get(special, "id"))), "ids");
        for (size_t k = 0; !rc && k < json_count(ids); k++)
            rc = push_id(t, to, json_at(ids, k), err);
    }
    return rc;
}

/* BertProcessing and RobertaProcessing: ["</s>", 2] and the like. */
static int load_pair(struct tokenizer *t, struct json_value json, struct post *p,
                     struct error *err) {
    int rc = push_id(t, &p->before, json_at(json_get(json, "cls"), 1), err);
    return rc ? rc : push_id(t, &p->after, json_at(json_get(json, "sep"), 1), err);
}

/* ByteLevel and RobertaProcessing. */
static void load_trim(struct tokenizer *t, struct json_value json) {
    if (!json_get_bool(json, "trim_offsets", false))
        return;
    t->trims_offsets = true;
    t->trim_keeps_prefix = json_get_bool(json, "add_prefix_space", false);
}

static int load_post(struct tokenizer *t, struct json_value json, unsigned depth,
                     struct error *err) {
    struct json_value type = json_get(json, "type");
    if (json.kind != JSON_IS_OBJECT)
        return 0;
    if (json_is(type, "ByteLevel") || json_is(type, "RobertaProcessing"))
        load_trim(t, json);
    if (json_is(type, "ByteLevel"))
        return 0;
    bool pair = json_is(type, "BertProcessing") || json_is(type, "RobertaProcessing");
    if (pair || json_is(type, "TemplateProcessing")) {
        struct post p = {0};
        int rc = pair ? load_pair(t, json, &p, err) : load_template(t, json, &p, err);
        wrap(t, &p);
        return rc;
    }
    if (!json_is(type, "Sequence") || depth > 8)
        return error_set(err, ERR_UNSUPPORTED, "post-processor '%.*s' is not supported",
                         (int)MIN(type.count, 64u), type.kind == JSON_IS_STRING ? type.text : "");
    struct json_value list = json_get(json, "processors");
    int rc = 0;
    for (size_t i = 0; !rc && i < json_count(list); i++)
        rc = load_post(t, json_at(list, i), depth + 1, err);
    return rc;
}

int tokenizer_load_post(struct tokenizer *t, struct json_value json, struct error *err) {
    return load_post(t, json, 0, err);
}
