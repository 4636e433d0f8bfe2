/*
 * split_load.c - the "pre_tokenizer" of tokenizer.json as stages.
 */
#include "text/tokenizer/split.h"

#include "text/unicode.h"

enum { NESTING_MAX = 8 };

void splitter_release(struct splitter *s) {
    for (size_t i = 0; i < s->stage_count; i++) {
        regex_release(&s->stages[i].regex);
        mem_free(s->stages[i].literal);
    }
    s->stage_count = 0;
}

static int add_stage(struct splitter *s, struct split_stage stage, struct error *err) {
    if (s->stage_count == SPLIT_STAGES_MAX) {
        regex_release(&stage.regex);
        mem_free(stage.literal);
        return error_set(err, ERR_LIMIT, "more than %d pre-tokenizer stages", SPLIT_STAGES_MAX);
    }
    stage.block = stage.scan ? scan_block_find(stage.scan) : NULL;
    s->stages[s->stage_count++] = stage;
    return 0;
}

static int read_behavior(struct json_value json, enum split_behavior *out, struct error *err) {
    static const char *const NAMES[] = {"Removed", "Isolated", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"};
    struct json_value v = json_get(json, "behavior");
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
        if (json_is(v, NAMES[i])) {
            *out = (enum split_behavior)i;
            return 0;
        }
    if (v.kind == JSON_IS_ABSENT)
        return 0;
    return error_set(err, ERR_INVALID, "pre-tokenizer: unknown split behavior");
}

static int load_split(struct splitter *s, struct json_value json, struct error *err) {
    struct json_value regex = json_get(json_get(json, "pattern"), "Regex"),
                      literal = json_get(json_get(json, "pattern"), "String");
    struct split_stage stage = {.kind = SPLIT_REGEX,
                                .behavior = SPLIT_ISOLATED,
                                .invert = json_get_bool(json, "invert", false)};
    int rc = read_behavior(json, &stage.behavior, err);
    if (rc)
        return rc;
    if (literal.kind == JSON_IS_STRING && literal.count) {
        stage.kind = SPLIT_LITERAL;
        stage.literal = mem_strndup(literal.text, literal.count);
        stage.literal_len = literal.count;
        return add_stage(s, stage, err);
    }
    if (regex.kind != JSON_IS_STRING)
        return error_set(err, ERR_INVALID, "pre-tokenizer Split without a pattern");
    /* Known patterns cover the text: isolated, and removed-inverted, mean the same. */
    bool covering = (stage.behavior == SPLIT_ISOLATED && !stage.invert) ||
                    (stage.behavior == SPLIT_REMOVED && stage.invert);
    if (covering && (stage.scan = scan_find(json_text(regex)))) {
        stage.kind = SPLIT_SCAN;
        return add_stage(s, stage, err);
    }
    if (json_is(regex, "\\p{N}") && stage.behavior == SPLIT_ISOLATED && !stage.invert) {
        stage.kind = SPLIT_DIGIT;
        return add_stage(s, stage, err);
    }
    bool empty_kept = stage.behavior == SPLIT_ISOLATED || stage.behavior == SPLIT_REMOVED;
    if (json_is(regex, "(?=(\\d{3})+(?!\\d))") && empty_kept && !stage.invert) { /* SuperBPE */
        stage.kind = SPLIT_GROUPS;
        return add_stage(s, stage, err);
    }
    rc = regex_compile(json_text(regex), &stage.regex, err);
    return rc ? rc : add_stage(s, stage, err);
}

static int load_byte_level(struct splitter *s, struct json_value json, struct error *err) {
    int rc = 0;
    if (s->byte_level)
        return error_set(err, ERR_UNSUPPORTED, "two ByteLevel pre-tokenizers");
    if (json_get_bool(json, "add_prefix_space", true))
        rc = add_stage(s, (struct split_stage){.kind = SPLIT_PREFIX_SPACE}, err);
    if (!rc && json_get_bool(json, "use_regex", true))
        rc = add_stage(s, (struct split_stage){.kind = SPLIT_SCAN, .scan = scan_gpt2}, err);
    s->byte_level = true;
    return rc;
}

static int load_metaspace(struct splitter *s, struct json_value json, struct error *err) {
    struct split_stage stage = {.kind = SPLIT_METASPACE, .behavior = SPLIT_MERGED_WITH_NEXT};
    struct json_value scheme = json_get(json, "prepend_scheme"),
                      replacement = json_get(json, "replacement");
    stage.prepend =
        json_get_bool(json, "add_prefix_space", true) ? METASPACE_ALWAYS : METASPACE_NEVER;
    if (json_is(scheme, "always"))
        stage.prepend = METASPACE_ALWAYS;
    if (json_is(scheme, "never"))
        stage.prepend = METASPACE_NEVER;
    if (json_is(scheme, "first"))
        stage.prepend = METASPACE_FIRST;
    stage.metaspace_split = json_get_bool(json, "split", true);
    struct bytes text = replacement.kind == JSON_IS_STRING && replacement.count
                            ? json_text(replacement)
                            : bytes_str("\xE2\x96\x81");
    stage.literal = mem_strndup((const char *)text.data, text.len);
    stage.literal_len = text.len;
    return add_stage(s, stage, err);
}

static int load_plain(struct splitter *s, struct json_value json, struct error *err) {
    struct json_value type = json_get(json, "type");
    struct split_stage stage = {.behavior = SPLIT_ISOLATED};
    if (json_is(type, "Digits")) {
        bool each = json_get_bool(json, "individual_digits", false);
        stage.kind = each ? SPLIT_DIGIT : SPLIT_DIGITS;
        stage.behavior = each ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS;
        return add_stage(s, stage, err);
    }
    if (json_is(type, "Punctuation")) {
        stage.kind = SPLIT_PUNCTUATION;
        int rc = read_behavior(json, &stage.behavior, err);
        return rc ? rc : add_stage(s, stage, err);
    }
    if (json_is(type, "Whitespace"))
        return add_stage(
            s, (struct split_stage){.kind = SPLIT_WORDS, .behavior = SPLIT_REMOVED, .invert = true},
            err);
    if (json_is(type, "WhitespaceSplit"))
        return add_stage(s, (struct split_stage){.kind = SPLIT_SPACES, .behavior = SPLIT_REMOVED},
                         err);
    if (json_is(type, "UnicodeScripts"))
        return add_stage(s, (struct split_stage){.kind = SPLIT_SCRIPTS}, err);
    if (json_is(type, "BertPreTokenizer")) {
        int rc = add_stage(s, (struct split_stage){.kind = SPLIT_SPACES, .behavior = SPLIT_REMOVED},
                           err);
        return rc ? rc
                  : add_stage(
                        s,
                        (struct split_stage){.kind = SPLIT_PUNCTUATION, .behavior = SPLIT_ISOLATED},
                        err);
    }
    if (json_is(type, "CharDelimiterSplit")) {
        struct json_value delimiter = json_get(json, "delimiter");
        if (delimiter.kind != JSON_IS_STRING || !delimiter.count)
            return error_set(err, ERR_INVALID, "CharDelimiterSplit without delimiter");
        stage = (struct split_stage){
            .kind = SPLIT_LITERAL, .behavior = SPLIT_REMOVED, .literal_len = delimiter.count};
        stage.literal = mem_strndup(delimiter.text, delimiter.count);
        return add_stage(s, stage, err);
    }
    if (json_is(type, "FixedLength")) {
        struct json_value length = json_get(json, "length");
        bool given = length.kind == JSON_IS_INT && length.integer > 0;
        if (!given && length.kind != JSON_IS_ABSENT)
            return error_set(err, ERR_INVALID, "FixedLength without length");
        stage = (struct split_stage){.kind = SPLIT_LENGTH};
        stage.length = given ? (uint32_t)MIN(length.integer, INT32_MAX) : 5;
        return add_stage(s, stage, err);
    }
    return error_set(err, ERR_UNSUPPORTED, "pre-tokenizer '%.*s' is not supported",
                     (int)MIN(type.count, 64u), type.kind == JSON_IS_STRING ? type.text : "");
}

static bool is_isolated(struct json_value json, const char *regex) {
    return json_is(json_get(json, "type"), "Split") &&
           json_is(json_get(json_get(json, "pattern"), "Regex"), regex) &&
           json_is(json_get(json, "behavior"), "Isolated") && !json_get_bool(json, "invert", false);
}

/* Stages from the i-th on that one scanner does: how many, 0: none. */
static size_t load_joined(struct splitter *s, struct json_value list, size_t i, struct error *err) {
    if (s->byte_level || i + 3 > json_count(list) || s->stage_count == SPLIT_STAGES_MAX)
        return 0;
    for (size_t k = 0; k < 3; k++)
        if (!is_isolated(json_at(list, i + k), SCAN_DEEPSEEK3_STAGES[k]))
            return 0;
    return add_stage(s, (struct split_stage){.kind = SPLIT_SCAN, .scan = scan_deepseek3}, err) ? 0
                                                                                               : 3;
}

static int load_any(struct splitter *s, struct json_value json, unsigned depth, struct error *err) {
    struct json_value type = json_get(json, "type");
    int rc;
    if (json_is(type, "Sequence")) {
        if (depth > NESTING_MAX)
            return error_set(err, ERR_LIMIT, "pre-tokenizer: sequences nested too deep");
        struct json_value list = json_get(json, "pretokenizers");
        for (size_t i = 0; i < json_count(list); i++) {
            size_t joined = load_joined(s, list, i, err);
            rc = joined ? 0 : load_any(s, json_at(list, i), depth + 1, err);
            if (rc)
                return rc;
            if (joined)
                i += joined - 1;
        }
        return 0;
    }
    if (s->byte_level && !s->mapped) { /* something follows ByteLevel: it sees the byte alphabet */
        if ((rc = add_stage(s, (struct split_stage){.kind = SPLIT_BYTE_MAP}, err)))
            return rc;
        s->mapped = true;
    }
    if (json_is(type, "Split"))
        return load_split(s, json, err);
    if (json_is(type, "ByteLevel"))
        return load_byte_level(s, json, err);
    if (json_is(type, "Metaspace"))
        return load_metaspace(s, json, err);
    return load_plain(s, json, err);
}

/* Stages that one scanner does. */
static void join_stages(struct splitter *s) {
    for (size_t i = 0; i + 1 < s->stage_count; i++) {
        struct split_stage *first = &s->stages[i], *second = first + 1;
        if (first->kind != SPLIT_DIGIT || second->kind != SPLIT_SCAN || second->scan != scan_gpt2)
            continue;
        second->scan = scan_digits_gpt2;
        second->block = scan_block_find(scan_digits_gpt2);
        memmove(first, second, (s->stage_count - i - 1) * sizeof *first);
        s->stage_count--;
    }
}

int splitter_load(struct splitter *s, struct json_value json, struct error *err) {
    *s = (struct splitter){0};
    unicode_init();
    if (json.kind != JSON_IS_OBJECT)
        return 0;
    int rc = load_any(s, json, 0, err);
    join_stages(s);
    if (rc)
        splitter_release(s);
    return rc;
}
