/*
 * split_load.c - the "pre_tokenizer" of tokenizer.json as stages.
 */
#include "text/tokenizer/split.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "text/tokenizer/regex_text.h"
#include "text/unicode.h"

enum { NESTING_MAX = 8 };

static struct tvalue member(struct tvalue v, const char *name) { return tvalue_dict_get(v, bytes_str(name)); }
static bool flag(struct tvalue v, const char *name, bool fallback) {
    struct tvalue m = member(v, name);
    return m.kind == TVALUE_BOOL ? m.boolean : fallback;
}
static bool is_text(struct tvalue v, const char *s) {
    return v.kind == TVALUE_STRING && bytes_equal(tvalue_text(v), bytes_str(s));
}

void splitter_release(struct splitter *s) {
    for (size_t i = 0; i < s->stage_count; i++) {
        pcre2_code_free(s->stages[i].code);
        mem_free(s->stages[i].literal);
    }
    s->stage_count = 0;
}

static int add_stage(struct splitter *s, struct split_stage stage, struct error *err) {
    if (s->stage_count == SPLIT_STAGES_MAX) {
        pcre2_code_free(stage.code);
        mem_free(stage.literal);
        return error_set(err, ERR_LIMIT, "more than %d pre-tokenizer stages", SPLIT_STAGES_MAX);
    }
    stage.block = stage.scan ? scan_block_find(stage.scan) : NULL;
    s->stages[s->stage_count++] = stage;
    return 0;
}

static int read_behavior(struct tvalue json, enum split_behavior *out, struct error *err) {
    static const char *const NAMES[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    struct tvalue v = member(json, "behavior");
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
        if (is_text(v, NAMES[i])) {
            *out = (enum split_behavior)i;
            return 0;
        }
    if (v.kind == TVALUE_UNDEFINED) return 0;
    return error_set(err, ERR_INVALID, "pre-tokenizer: unknown split behavior");
}

static int load_split(struct splitter *s, struct tvalue json, struct error *err) {
    struct tvalue regex = member(member(json, "pattern"), "Regex"), literal = member(member(json, "pattern"), "String");
    struct split_stage stage = {.kind = SPLIT_REGEX, .behavior = SPLIT_ISOLATED, .invert = flag(json, "invert", false)};
    int rc = read_behavior(json, &stage.behavior, err);
    if (rc) return rc;
    if (literal.kind == TVALUE_STRING && literal.len) {
        stage.kind = SPLIT_LITERAL;
        stage.literal = mem_strndup(literal.text, literal.len);
        stage.literal_len = literal.len;
        return add_stage(s, stage, err);
    }
    if (regex.kind != TVALUE_STRING) return error_set(err, ERR_INVALID, "pre-tokenizer Split without a pattern");
    /* Known patterns cover the text: isolated, and removed-inverted, mean the same. */
    bool covering =
        (stage.behavior == SPLIT_ISOLATED && !stage.invert) || (stage.behavior == SPLIT_REMOVED && stage.invert);
    if (covering && (stage.scan = scan_find(tvalue_text(regex)))) {
        stage.kind = SPLIT_SCAN;
        return add_stage(s, stage, err);
    }
    if (is_text(regex, "\\p{N}") && stage.behavior == SPLIT_ISOLATED && !stage.invert) {
        stage.kind = SPLIT_DIGIT;
        return add_stage(s, stage, err);
    }
    bool empty_kept = stage.behavior == SPLIT_ISOLATED || stage.behavior == SPLIT_REMOVED;
    if (is_text(regex, "(?=(\\d{3})+(?!\\d))") && empty_kept && !stage.invert) { /* SuperBPE */
        stage.kind = SPLIT_GROUPS;
        return add_stage(s, stage, err);
    }
    rc = regex_compile(tvalue_text(regex), &stage.code, err);
    return rc ? rc : add_stage(s, stage, err);
}

static int load_byte_level(struct splitter *s, struct tvalue json, struct error *err) {
    int rc = 0;
    if (s->byte_level) return error_set(err, ERR_UNSUPPORTED, "two ByteLevel pre-tokenizers");
    if (flag(json, "add_prefix_space", true)) rc = add_stage(s, (struct split_stage){.kind = SPLIT_PREFIX_SPACE}, err);
    if (!rc && flag(json, "use_regex", true))
        rc = add_stage(s, (struct split_stage){.kind = SPLIT_SCAN, .scan = scan_gpt2}, err);
    s->byte_level = true;
    return rc;
}

static int load_metaspace(struct splitter *s, struct tvalue json, struct error *err) {
    struct split_stage stage = {.kind = SPLIT_METASPACE, .behavior = SPLIT_MERGED_WITH_NEXT};
    struct tvalue scheme = member(json, "prepend_scheme"), replacement = member(json, "replacement");
    stage.prepend = flag(json, "add_prefix_space", true) ? METASPACE_ALWAYS : METASPACE_NEVER;
    if (is_text(scheme, "always")) stage.prepend = METASPACE_ALWAYS;
    if (is_text(scheme, "never")) stage.prepend = METASPACE_NEVER;
    if (is_text(scheme, "first")) stage.prepend = METASPACE_FIRST;
    stage.metaspace_split = flag(json, "split", true);
    struct bytes text =
        replacement.kind == TVALUE_STRING && replacement.len ? tvalue_text(replacement) : bytes_str("\xE2\x96\x81");
    stage.literal = mem_strndup((const char *)text.data, text.len);
    stage.literal_len = text.len;
    return add_stage(s, stage, err);
}

static int load_plain(struct splitter *s, struct tvalue json, struct error *err) {
    struct tvalue type = member(json, "type");
    struct split_stage stage = {.behavior = SPLIT_ISOLATED};
    if (is_text(type, "Digits")) {
        bool each = flag(json, "individual_digits", false);
        stage.kind = each ? SPLIT_DIGIT : SPLIT_DIGITS;
        stage.behavior = each ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS;
        return add_stage(s, stage, err);
    }
    if (is_text(type, "Punctuation")) {
        stage.kind = SPLIT_PUNCTUATION;
        int rc = read_behavior(json, &stage.behavior, err);
        return rc ? rc : add_stage(s, stage, err);
    }
    if (is_text(type, "Whitespace"))
        return add_stage(s, (struct split_stage){.kind = SPLIT_WORDS, .behavior = SPLIT_REMOVED, .invert = true}, err);
    if (is_text(type, "WhitespaceSplit"))
        return add_stage(s, (struct split_stage){.kind = SPLIT_SPACES, .behavior = SPLIT_REMOVED}, err);
    if (is_text(type, "UnicodeScripts")) return add_stage(s, (struct split_stage){.kind = SPLIT_SCRIPTS}, err);
    if (is_text(type, "BertPreTokenizer")) {
        int rc = add_stage(s, (struct split_stage){.kind = SPLIT_SPACES, .behavior = SPLIT_REMOVED}, err);
        return rc ? rc : add_stage(s, (struct split_stage){.kind = SPLIT_PUNCTUATION, .behavior = SPLIT_ISOLATED}, err);
    }
    if (is_text(type, "CharDelimiterSplit")) {
        struct tvalue delimiter = member(json, "delimiter");
        if (delimiter.kind != TVALUE_STRING || !delimiter.len)
            return error_set(err, ERR_INVALID, "CharDelimiterSplit without delimiter");
        stage = (struct split_stage){.kind = SPLIT_LITERAL, .behavior = SPLIT_REMOVED, .literal_len = delimiter.len};
        stage.literal = mem_strndup(delimiter.text, delimiter.len);
        return add_stage(s, stage, err);
    }
    if (is_text(type, "FixedLength")) {
        struct tvalue length = member(json, "length");
        bool given = length.kind == TVALUE_INT && length.integer > 0;
        if (!given && length.kind != TVALUE_UNDEFINED) return error_set(err, ERR_INVALID, "FixedLength without length");
        stage = (struct split_stage){.kind = SPLIT_LENGTH};
        stage.length = given ? (uint32_t)MIN(length.integer, INT32_MAX) : 5;
        return add_stage(s, stage, err);
    }
    return error_set(err, ERR_UNSUPPORTED, "pre-tokenizer '%.*s' is not supported", (int)MIN(type.len, 64u),
                     type.kind == TVALUE_STRING ? type.text : "");
}

static bool is_isolated(struct tvalue json, const char *regex) {
    return is_text(member(json, "type"), "Split") && is_text(member(member(json, "pattern"), "Regex"), regex) &&
           is_text(member(json, "behavior"), "Isolated") && !flag(json, "invert", false);
}

/* Stages from the i-th on that one scanner does: how many, 0: none. */
static size_t load_joined(struct splitter *s, struct tvalue list, size_t i, struct error *err) {
    if (s->byte_level || i + 3 > tvalue_count(list) || s->stage_count == SPLIT_STAGES_MAX) return 0;
    for (size_t k = 0; k < 3; k++)
        if (!is_isolated(tvalue_list_at(list, i + k), SCAN_DEEPSEEK3_STAGES[k])) return 0;
    return add_stage(s, (struct split_stage){.kind = SPLIT_SCAN, .scan = scan_deepseek3}, err) ? 0 : 3;
}

static int load_any(struct splitter *s, struct tvalue json, unsigned depth, struct error *err) {
    struct tvalue type = member(json, "type");
    int rc;
    if (is_text(type, "Sequence")) {
        if (depth > NESTING_MAX) return error_set(err, ERR_LIMIT, "pre-tokenizer: sequences nested too deep");
        struct tvalue list = member(json, "pretokenizers");
        for (size_t i = 0; i < tvalue_count(list); i++) {
            size_t joined = load_joined(s, list, i, err);
            rc = joined ? 0 : load_any(s, tvalue_list_at(list, i), depth + 1, err);
            if (rc) return rc;
            if (joined) i += joined - 1;
        }
        return 0;
    }
    if (s->byte_level && !s->mapped) { /* something follows ByteLevel: it sees the byte alphabet */
        if ((rc = add_stage(s, (struct split_stage){.kind = SPLIT_BYTE_MAP}, err))) return rc;
        s->mapped = true;
    }
    if (is_text(type, "Split")) return load_split(s, json, err);
    if (is_text(type, "ByteLevel")) return load_byte_level(s, json, err);
    if (is_text(type, "Metaspace")) return load_metaspace(s, json, err);
    return load_plain(s, json, err);
}

/* Stages that one scanner does. */
static void join_stages(struct splitter *s) {
    for (size_t i = 0; i + 1 < s->stage_count; i++) {
        struct split_stage *first = &s->stages[i], *second = first + 1;
        if (first->kind != SPLIT_DIGIT || second->kind != SPLIT_SCAN || second->scan != scan_gpt2) continue;
        second->scan = scan_digits_gpt2;
        second->block = scan_block_find(scan_digits_gpt2);
        memmove(first, second, (s->stage_count - i - 1) * sizeof *first);
        s->stage_count--;
    }
}

int splitter_load(struct splitter *s, struct tvalue json, struct error *err) {
    *s = (struct splitter){0};
    unicode_init();
    if (json.kind != TVALUE_DICT) return 0;
    int rc = load_any(s, json, 0, err);
    join_stages(s);
    if (rc) splitter_release(s);
    return rc;
}
