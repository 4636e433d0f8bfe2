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

enum { POST_IDS_MAX = 64 };

/* A processor's tokens go around those of the processors before it. */
struct post {
    struct token_vec before, after;
};

static void wrap(struct tokenizer *t, struct post *p) {
    for (size_t i = 0; i < t->prefix.count; i++) vec_push(&p->before, t->prefix.items[i]);
    for (size_t i = 0; i < p->after.count; i++) vec_push(&t->suffix, p->after.items[i]);
    vec_release(&t->prefix);
    t->prefix = p->before;
    vec_release(&p->after);
}

static int push_id(struct tokenizer *t, struct token_vec *to, struct tvalue id, struct error *err) {
    if (id.kind != TVALUE_INT || id.integer < 0 || id.integer >= tokenizer_vocab_count(t) || to->count > POST_IDS_MAX)
        return error_set(err, ERR_INVALID, "tokenizer.json: bad ids in the post-processor");
    vec_push(to, (uint32_t)id.integer);
    return 0;
}

/* TemplateProcessing "single": special tokens before and after the sequence. */
static int load_template(struct tokenizer *t, struct tvalue json, struct post *p, struct error *err) {
    struct tvalue single = member(json, "single"), specials = member(json, "special_tokens");
    struct token_vec *to = &p->before;
    int rc = 0;
    for (size_t i = 0; !rc && i < tvalue_count(single); i++) {
        struct tvalue special = member(tvalue_list_at(single, i), "SpecialToken");
        if (special.kind != TVALUE_DICT) {
            to = &p->after;
            continue;
        }
        struct tvalue ids = member(tvalue_dict_get(specials, tvalue_text(member(special, "id"))), "ids");
        for (size_t k = 0; !rc && k < tvalue_count(ids); k++) rc = push_id(t, to, tvalue_list_at(ids, k), err);
    }
    return rc;
}

/* BertProcessing and RobertaProcessing: ["</s>", 2] and the like. */
static int load_pair(struct tokenizer *t, struct tvalue json, struct post *p, struct error *err) {
    int rc = push_id(t, &p->before, tvalue_list_at(member(json, "cls"), 1), err);
    return rc ? rc : push_id(t, &p->after, tvalue_list_at(member(json, "sep"), 1), err);
}

/* ByteLevel and RobertaProcessing. */
static void load_trim(struct tokenizer *t, struct tvalue json) {
    if (!is_true(json, "trim_offsets")) return;
    t->trims_offsets = true;
    t->trim_keeps_prefix = is_true(json, "add_prefix_space");
}

static int load_post(struct tokenizer *t, struct tvalue json, unsigned depth, struct error *err) {
    struct tvalue type = member(json, "type");
    if (json.kind != TVALUE_DICT) return 0;
    if (is_text(type, "ByteLevel") || is_text(type, "RobertaProcessing")) load_trim(t, json);
    if (is_text(type, "ByteLevel")) return 0;
    bool pair = is_text(type, "BertProcessing") || is_text(type, "RobertaProcessing");
    if (pair || is_text(type, "TemplateProcessing")) {
        struct post p = {0};
        int rc = pair ? load_pair(t, json, &p, err) : load_template(t, json, &p, err);
        wrap(t, &p);
        return rc;
    }
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
