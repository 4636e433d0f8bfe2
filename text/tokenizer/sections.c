/*
 * sections.c - "added_tokens" and "post_processor" of tokenizer.json.
 */
#include "text/tokenizer/build.h"

static struct tvalue member(struct tvalue v, const char *name) { return tvalue_dict_get(v, bytes_str(name)); }
static bool is_true(struct tvalue v, const char *name) {
    struct tvalue m = member(v, name);
    return m.kind == TVALUE_BOOL && m.boolean;
}
static bool is_text(struct tvalue v, const char *s) {
    return v.kind == TVALUE_STRING && bytes_equal(tvalue_text(v), bytes_str(s));
}

/* ---- added tokens ---- */

/* The content as it looks in normalized text. */
static int add_normalized(struct tokenizer *t, struct bytes content, struct added_token token, struct error *err) {
    struct buf a = {0}, b = {0};
    struct bytes text = normalizer_apply(&t->normalizer, content, &a, &b);
    int rc = text.data ? added_add(&t->added_normalized, text, token, err) : 0;
    buf_release(&a);
    buf_release(&b);
    return rc;
}

int tokenizer_add_token(struct tokenizer *t, struct bytes content, struct added_token token, struct error *err) {
    struct vocab *v = &t->vocab;
    uint32_t known = v->keep_first ? UINT32_MAX : vocab_find_spelling(v, content);
    int rc = known == UINT32_MAX ? vocab_add_sealed(v, content, token.id, err) : 0;
    if (rc) return rc;
    if (known != UINT32_MAX) token.id = known;
    t->next_added_id = MAX(t->next_added_id, token.id + 1);
    v->flags[token.id] |= VOCAB_ADDED | (token.special ? VOCAB_SPECIAL : 0);
    if (token.normalized) return add_normalized(t, content, token, err);
    return added_add(&t->added, content, token, err);
}

static int add_added(struct tokenizer *t, struct tvalue json, struct error *err) {
    struct tvalue content = member(json, "content"), id = member(json, "id");
    if (content.kind != TVALUE_STRING || id.kind != TVALUE_INT || id.integer < 0 || id.integer >= VOCAB_IDS_MAX)
        return error_set(err, ERR_INVALID, "tokenizer.json: bad entry in added_tokens");
    if (!content.len) return 0;
    struct added_token token = {.id = t->next_added_id, /* HF numbers them itself, whatever the file says */
                                .special = is_true(json, "special"),
                                .normalized = is_true(json, "normalized"),
                                .lstrip = is_true(json, "lstrip"),
                                .rstrip = is_true(json, "rstrip"),
                                .single_word = is_true(json, "single_word")};
    return tokenizer_add_token(t, tvalue_text(content), token, err);
}

int tokenizer_load_added(struct tokenizer *t, struct tvalue list, struct error *err) {
    int rc = 0;
    for (size_t i = 0; i < t->vocab.entries.count; i++)
        t->next_added_id += t->vocab.entries.items[i].start != VOCAB_ABSENT;
    for (size_t i = 0; !rc && i < tvalue_count(list); i++) rc = add_added(t, tvalue_list_at(list, i), err);
    return rc;
}

/* ---- post-processor ---- */

static int push_ids(struct tokenizer *t, struct token_vec *to, struct tvalue ids, struct error *err) {
    for (size_t i = 0; i < tvalue_count(ids); i++) {
        struct tvalue id = tvalue_list_at(ids, i);
        if (id.kind != TVALUE_INT || id.integer < 0 || id.integer >= tokenizer_vocab_count(t) || to->count > 64)
            return error_set(err, ERR_INVALID, "tokenizer.json: bad ids in the post-processor");
        vec_push(to, (uint32_t)id.integer);
    }
    return 0;
}

/* TemplateProcessing "single": special tokens before and after the sequence. */
static int load_template(struct tokenizer *t, struct tvalue json, struct error *err) {
    struct tvalue single = member(json, "single"), specials = member(json, "special_tokens");
    bool after = false;
    int rc = 0;
    for (size_t i = 0; !rc && i < tvalue_count(single); i++) {
        struct tvalue item = tvalue_list_at(single, i), special = member(item, "SpecialToken");
        if (special.kind != TVALUE_DICT) {
            after = true;
            continue;
        }
        struct tvalue named = tvalue_dict_get(specials, tvalue_text(member(special, "id")));
        rc = push_ids(t, after ? &t->suffix : &t->prefix, member(named, "ids"), err);
    }
    return rc;
}

/* BertProcessing and RobertaProcessing: ["</s>", 2] and the like. */
static int load_pair(struct tokenizer *t, struct tvalue json, struct error *err) {
    struct tvalue cls = tvalue_list_at(member(json, "cls"), 1), sep = tvalue_list_at(member(json, "sep"), 1);
    if (cls.kind != TVALUE_INT || sep.kind != TVALUE_INT || cls.integer < 0 || sep.integer < 0 ||
        cls.integer >= VOCAB_IDS_MAX || sep.integer >= VOCAB_IDS_MAX)
        return error_set(err, ERR_INVALID, "tokenizer.json: bad post-processor");
    vec_push(&t->prefix, (uint32_t)cls.integer);
    vec_push(&t->suffix, (uint32_t)sep.integer);
    return 0;
}

static int load_post(struct tokenizer *t, struct tvalue json, unsigned depth, struct error *err) {
    struct tvalue type = member(json, "type");
    if (json.kind != TVALUE_DICT || is_text(type, "ByteLevel")) return 0;
    if (is_text(type, "TemplateProcessing")) return load_template(t, json, err);
    if (is_text(type, "BertProcessing") || is_text(type, "RobertaProcessing")) return load_pair(t, json, err);
    if (!is_text(type, "Sequence") || depth > 8)
        return error_set(err, ERR_UNSUPPORTED, "post-processor '%.*s' is not supported", (int)MIN(type.len, 64u),
                         type.kind == TVALUE_STRING ? type.text : "");
    struct tvalue list = member(json, "processors");
    int rc = 0;
    for (size_t i = 0; !rc && i < tvalue_count(list); i++) rc = load_post(t, tvalue_list_at(list, i), depth + 1, err);
    return rc;
}

int tokenizer_load_post(struct tokenizer *t, struct tvalue json, struct error *err) {
    return load_post(t, json, 0, err);
}
