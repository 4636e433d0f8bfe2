/*
 * added_and_post.c - "added_tokens" and "post_processor" of tokenizer.json.
 */
#include "text/tokenizer/build.h"

/* ---- added tokens ---- */

/* The content as it looks in normalized text. */
static int add_normalized(struct tokenizer *t, struct bytes content, struct added_token token,
                          struct error *err) {
    struct buf a = {0}, b = {0};
    struct regex_run run = {0};
    struct bytes text = normalizer_apply(&t->normalizer, content, &run, &a, &b);
    int rc = text.data ? added_add(&t->added_normalized, text, token, err) : 0;
    regex_run_release(&run);
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

static struct json_value special_ids(struct json_value specials, struct json_value special) {
    return json_get(json_get_bytes(specials, json_text(json_get(special, "id"))), "ids");
}

/* TemplateProcessing "pair"; one that is not as ours counts as none. */
static void load_pair_template(struct tokenizer *t, struct json_value json) {
    struct json_value pair = json_get(json, "pair"), specials = json_get(json, "special_tokens");
    struct pair_rule rule = {.there = true};
    uint32_t texts = 0;
    for (size_t i = 0; i < json_count(pair); i++) {
        struct json_value sequence = json_get(json_at(pair, i), "Sequence"),
                          special = json_get(json_at(pair, i), "SpecialToken");
        bool text = sequence.kind == JSON_IS_OBJECT;
        struct json_value type = json_get(text ? sequence : special, "type_id"),
                          ids = special_ids(specials, special);
        bool second = type.kind == JSON_IS_INT && type.integer;
        if (text) {
            rule.second_type = texts == 1 && second;
            rule.there =
                rule.there && texts < 2 && json_is(json_get(sequence, "id"), texts ? "B" : "A");
            texts++;
            continue;
        }
        for (size_t k = 0; k < json_count(ids) && rule.there; k++) {
            struct json_value id = json_at(ids, k);
            rule.there = id.kind == JSON_IS_INT && id.integer >= 0 &&
                         id.integer < tokenizer_vocab_count(t) && rule.counts[texts] < PAIR_IDS_MAX;
            if (rule.there)
                rule.ids[texts][rule.counts[texts]++] = (uint32_t)id.integer;
            rule.between_first += rule.there && texts == 1 && !second;
        }
    }
    if (rule.there && texts == 2)
        t->pair = rule;
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
        struct json_value ids = special_ids(specials, special);
        for (size_t k = 0; !rc && k < json_count(ids); k++)
            rc = push_id(t, to, json_at(ids, k), err);
    }
    return rc;
}

/* BertProcessing and RobertaProcessing: ["</s>", 2] and the like. */
static int load_pair(struct tokenizer *t, struct json_value json, struct post *p,
                     struct error *err) {
    bool one_type = json_is(json_get(json, "type"), "RobertaProcessing");
    int rc = push_id(t, &p->before, json_at(json_get(json, "cls"), 1), err);
    if (!rc)
        rc = push_id(t, &p->after, json_at(json_get(json, "sep"), 1), err);
    if (rc)
        return rc;
    uint32_t cls = p->before.items[0], sep = p->after.items[0];
    t->pair = (struct pair_rule){.ids = {{cls}, {sep, sep}, {sep}},
                                 .counts = {1, one_type ? 2 : 1, 1},
                                 .between_first = 1,
                                 .second_type = !one_type,
                                 .there = true};
    return 0;
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
        bool again = t->prefix.count || t->suffix.count || t->pair.there;
        int rc = pair ? load_pair(t, json, &p, err) : load_template(t, json, &p, err);
        if (!rc && !pair)
            load_pair_template(t, json);
        wrap(t, &p);
        if (again) /* one around another: as each text alone */
            t->pair = (struct pair_rule){0};
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
