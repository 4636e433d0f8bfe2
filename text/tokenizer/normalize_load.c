/*
 * normalize_load.c - the "normalizer" of tokenizer.json as steps.
 */
#include "text/tokenizer/normalize.h"

#include "text/tokenizer/nfc.h"
#include "text/tokenizer/spm_normalize.h"

void normalizer_release(struct normalizer *n) {
    for (size_t i = 0; i < n->step_count; i++) {
        mem_free(n->steps[i].pattern);
        mem_free(n->steps[i].content);
        regex_release(&n->steps[i].regex);
        charsmap_release(&n->steps[i].charsmap);
        if (n->steps[i].spm)
            spm_normalizer_release(n->steps[i].spm);
        mem_free(n->steps[i].spm);
    }
    n->step_count = 0;
}

static int add_step(struct normalizer *n, struct normalizer_step step, struct bytes pattern,
                    struct bytes content, struct error *err) {
    if (n->step_count == NORMALIZER_STEPS_MAX) {
        regex_release(&step.regex);
        charsmap_release(&step.charsmap);
        return error_set(err, ERR_LIMIT, "more than %d normalizers", NORMALIZER_STEPS_MAX);
    }
    if (step.kind == NORMALIZE_NFC)
        nfc_init();
    step.pattern = mem_strndup((const char *)pattern.data, pattern.len);
    step.content = mem_strndup((const char *)content.data, content.len);
    step.pattern_len = pattern.len;
    step.content_len = content.len;
    n->steps[n->step_count++] = step;
    return 0;
}

static int load_replace(struct normalizer *n, struct json_value json, struct error *err) {
    struct json_value literal = json_get(json_get(json, "pattern"), "String"),
                      regex = json_get(json_get(json, "pattern"), "Regex");
    struct bytes content = json_text(json_get(json, "content")), none = {0};
    struct normalizer_step step = {.kind = NORMALIZE_REPLACE_REGEX};
    if (literal.kind == JSON_IS_STRING && literal.count)
        return add_step(n, (struct normalizer_step){.kind = NORMALIZE_REPLACE}, json_text(literal),
                        content, err);
    if (regex.kind != JSON_IS_STRING || !regex.count)
        return error_set(err, ERR_INVALID, "normalizer Replace without a pattern");
    if (bytes_equal(json_text(regex), bytes_str(" ")))
        return add_step(n, (struct normalizer_step){.kind = NORMALIZE_REPLACE}, json_text(regex),
                        content, err);
    int rc = regex_compile(json_text(regex), &step.regex, err);
    return rc ? rc : add_step(n, step, none, content, err);
}

static int load_charsmap(struct normalizer *n, struct json_value json, struct error *err) {
    struct normalizer_step step = {.kind = NORMALIZE_CHARSMAP};
    struct bytes text = json_text(json_get(json, "precompiled_charsmap")), none = {0};
    if (!text.len)
        return 0;
    int rc = charsmap_init_base64(&step.charsmap, text, err);
    return rc ? rc : add_step(n, step, none, none, err);
}

static int load_bert(struct normalizer *n, struct json_value json, struct error *err) {
    bool lowercase = json_get_bool(json, "lowercase", true),
         accents = json_get_bool(json, "strip_accents", lowercase);
    const struct {
        bool wanted;
        enum normalizer_kind kind;
    } steps[] = {{json_get_bool(json, "clean_text", true), NORMALIZE_BERT_CLEAN},
                 {json_get_bool(json, "handle_chinese_chars", true), NORMALIZE_BERT_CHINESE},
                 {accents, NORMALIZE_NFD},
                 {accents, NORMALIZE_STRIP_NONSPACING},
                 {lowercase, NORMALIZE_LOWERCASE}};
    struct bytes none = {0};
    int rc = 0;
    for (size_t i = 0; i < ARRAY_LEN(steps) && !rc; i++)
        if (steps[i].wanted)
            rc = add_step(n, (struct normalizer_step){.kind = steps[i].kind}, none, none, err);
    return rc;
}

static int load_one(struct normalizer *n, struct json_value json, struct error *err) {
    static const struct {
        const char *name;
        enum normalizer_kind kind;
    } PLAIN[] = {{"NFC", NORMALIZE_NFC},
                 {"NFD", NORMALIZE_NFD},
                 {"NFKC", NORMALIZE_NFKC},
                 {"NFKD", NORMALIZE_NFKD},
                 {"Lowercase", NORMALIZE_LOWERCASE},
                 {"StripAccents", NORMALIZE_STRIP_ACCENTS},
                 {"Nmt", NORMALIZE_NMT},
                 {"ByteLevel", NORMALIZE_BYTE_LEVEL}};
    struct bytes type = json_text(json_get(json, "type")), none = {0};
    for (size_t i = 0; i < ARRAY_LEN(PLAIN); i++)
        if (bytes_equal(type, bytes_str(PLAIN[i].name)))
            return add_step(n, (struct normalizer_step){.kind = PLAIN[i].kind}, none, none, err);
    if (bytes_equal(type, bytes_str("Prepend")))
        return add_step(n, (struct normalizer_step){.kind = NORMALIZE_PREPEND}, none,
                        json_text(json_get(json, "prepend")), err);
    if (bytes_equal(type, bytes_str("Replace")))
        return load_replace(n, json, err);
    if (bytes_equal(type, bytes_str("Precompiled")))
        return load_charsmap(n, json, err);
    if (bytes_equal(type, bytes_str("BertNormalizer")))
        return load_bert(n, json, err);
    if (bytes_equal(type, bytes_str("Strip"))) {
        struct normalizer_step step = {.kind = NORMALIZE_STRIP,
                                       .left = json_get_bool(json, "strip_left", true),
                                       .right = json_get_bool(json, "strip_right", true)};
        return add_step(n, step, none, none, err);
    }
    return error_set(err, ERR_UNSUPPORTED, "normalizer '%.*s' is not supported",
                     (int)MIN(type.len, (size_t)64), type.len ? (const char *)type.data : "");
}

static int load_any(struct normalizer *n, struct json_value json, unsigned depth,
                    struct error *err) {
    if (!bytes_equal(json_text(json_get(json, "type")), bytes_str("Sequence")))
        return load_one(n, json, err);
    if (depth > 8)
        return error_set(err, ERR_LIMIT, "normalizer: sequences nested too deep");
    struct json_value list = json_get(json, "normalizers");
    for (size_t i = 0; i < json_count(list); i++) {
        int rc = load_any(n, json_at(list, i), depth + 1, err);
        if (rc)
            return rc;
    }
    return 0;
}

int normalizer_load(struct normalizer *n, struct json_value json, struct error *err) {
    *n = (struct normalizer){0};
    if (json.kind != JSON_IS_OBJECT)
        return 0;
    int rc = load_any(n, json, 0, err);
    if (rc)
        normalizer_release(n);
    return rc;
}
