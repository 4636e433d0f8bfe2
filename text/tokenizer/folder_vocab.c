#include "text/tokenizer/folder_vocab.h"

#include <stdlib.h>
#include <strings.h>

#include "base/utf8.h"
#include "base/vec.h"
#include "formats/json.h"
#include "formats/json_tree.h"
#include "text/tokenizer/known_splits.h"

enum { CONFIG_BUDGET = 64 << 20, CONFIG_CALLS = 4 << 20, MORE_MAX = 1024 };

static const char *const BPE_FILES[][2] = {{"vocab.json", "merges.txt"},
                                           {"encoder.json", "vocab.bpe"}};

struct folder {
    const struct bundle *bundle;
    struct bytes vocab, merges, pieces; /* of BPE; of WordPiece */
    /* tokenizer_config, special_tokens_map, added_tokens: .json */
    struct json_value config, special_map, added;
    struct bytes class; /* tokenizer_class, else the model's type */
    struct buf *out;
};

/* "<s>" or {"content": "<s>"}; empty: none. */
static struct bytes spelling(struct json_value v) {
    if (v.kind == JSON_IS_OBJECT)
        v = json_get(v, "content");
    return v.kind == JSON_IS_STRING ? json_text(v) : bytes_of(NULL, 0);
}

static struct bytes special(const struct folder *f, const char *name, const char *fallback) {
    struct bytes s = spelling(json_get(f->config, name));
    if (!s.len)
        s = spelling(json_get(f->special_map, name));
    return s.len || !fallback ? s : bytes_str(fallback);
}

static bool is_class(const struct folder *f, const char *prefix) {
    size_t len = strlen(prefix);
    return f->class.len >= len && !strncasecmp((const char *)f->class.data, prefix, len);
}

static bool is_roberta(const struct folder *f) {
    return is_class(f, "Roberta") || is_class(f, "Bart") || is_class(f, "Longformer");
}

static void add_quoted(struct buf *out, struct bytes s) {
    buf_add_byte(out, '"');
    buf_add_json(out, s);
    buf_add_byte(out, '"');
}

static void find_files(struct folder *f) {
    for (size_t i = 0; i < ARRAY_LEN(BPE_FILES) && !f->vocab.len; i++) {
        struct bytes vocab = bundle_find(f->bundle, BPE_FILES[i][0]),
                     merges = bundle_find(f->bundle, BPE_FILES[i][1]);
        if (!vocab.len || !merges.len)
            continue;
        f->vocab = vocab;
        f->merges = merges;
    }
    f->pieces = bundle_find(f->bundle, "vocab.txt");
}

bool folder_vocab_is(const struct bundle *bundle) {
    struct folder f = {.bundle = bundle};
    find_files(&f);
    return f.vocab.len || f.pieces.len;
}

/* ---- lines of a file ---- */

/* The next line without its end; false: none is left. */
static bool next_line(struct bytes *rest, struct bytes *line) {
    if (!rest->len)
        return false;
    const uint8_t *end = memchr(rest->data, '\n', rest->len);
    size_t len = end ? (size_t)(end - rest->data) : rest->len, taken = len + (end != NULL);
    *line = bytes_of(rest->data, len);
    *rest = bytes_of(rest->data + taken, rest->len - taken);
    if (line->len && line->data[line->len - 1] == '\r')
        line->len--;
    return true;
}

static int check_text(struct bytes file, const char *name, struct error *err) {
    size_t good = file.len ? utf8_valid_prefix(file.data, file.len) : 0;
    return good == file.len
               ? 0
               : error_set(err, ERR_INVALID, "%s is not valid UTF-8 at byte %zu", name, good);
}

/* ---- added tokens ---- */

struct added {
    struct bytes content;
    struct json_value rules; /* of added_tokens_decoder, or none */
    int64_t id;
    bool special;
};
struct added_list {
    VEC(struct added) items;
};

static int compare_ids(const void *a, const void *b) {
    int64_t x = ((const struct added *)a)->id, y = ((const struct added *)b)->id;
    return (x > y) - (x < y);
}

static bool has_content(const struct added_list *list, struct bytes content) {
    for (size_t i = 0; i < list->items.count; i++)
        if (bytes_equal(list->items.items[i].content, content))
            return true;
    return false;
}

static void add_special(struct added_list *list, struct bytes content) {
    struct added a = {
        .content = content, .rules = (struct json_value){0}, .id = INT64_MAX, .special = true};
    if (content.len && !has_content(list, content))
        vec_push(&list->items, a);
}

/* The special tokens that HF's classes have where the configuration names none. */
static const struct {
    const char *name, *gpt2, *bert, *roberta;
} SPECIALS[] = {{"bos_token", "<|endoftext|>", NULL, "<s>"},
                {"eos_token", "<|endoftext|>", NULL, "</s>"},
                {"unk_token", "<|endoftext|>", "[UNK]", "<unk>"},
                {"sep_token", NULL, "[SEP]", "</s>"},
                {"pad_token", NULL, "[PAD]", "<pad>"},
                {"cls_token", NULL, "[CLS]", "<s>"},
                {"mask_token", NULL, "[MASK]", "<mask>"}};

static struct bytes special_at(const struct folder *f, size_t i) {
    const char *fallback = !f->vocab.len   ? SPECIALS[i].bert
                           : is_roberta(f) ? SPECIALS[i].roberta
                                           : SPECIALS[i].gpt2;
    return special(f, SPECIALS[i].name, fallback);
}

static void list_added(const struct folder *f, struct added_list *list) {
    struct json_value decoder = json_get(f->config, "added_tokens_decoder"),
                      more = json_get(f->config, "additional_special_tokens");
    for (size_t i = 0; decoder.kind == JSON_IS_OBJECT && i < decoder.count; i++) {
        struct bytes key = decoder.members[i].key;
        struct added a = {.rules = decoder.members[i].value};
        a.content = spelling(a.rules);
        a.special = json_get_bool(a.rules, "special", false);
        if (json_number_int64(key, &a.id) && a.content.len)
            vec_push(&list->items, a);
    }
    /* added_tokens.json says it only there */
    bool older = !list->items.count && f->added.kind == JSON_IS_OBJECT;
    for (size_t i = 0; older && i < f->added.count; i++) {
        struct json_value id = f->added.members[i].value;
        struct added a = {.content = f->added.members[i].key, .rules = (struct json_value){0}};
        a.id = id.kind == JSON_IS_INT ? id.integer : INT64_MAX;
        if (a.content.len)
            vec_push(&list->items, a);
    }
    if (list->items.count)
        qsort(list->items.items, list->items.count, sizeof *list->items.items, compare_ids);
    for (size_t i = 0; i < ARRAY_LEN(SPECIALS); i++)
        add_special(list, special_at(f, i));
    for (size_t i = 0; i < MIN(json_count(more), (size_t)MORE_MAX); i++)
        add_special(list, spelling(json_at(more, i)));
}

static void write_added(const struct folder *f) {
    static const char *const RULES[] = {"lstrip", "rstrip", "single_word", "normalized"};
    struct added_list list = {0};
    list_added(f, &list);
    buf_add_str(f->out, "\"added_tokens\":[");
    for (size_t i = 0; i < list.items.count; i++) {
        const struct added *a = &list.items.items[i];
        buf_addf(f->out, "%s{\"id\":%zu,\"content\":", i ? "," : "", i);
        add_quoted(f->out, a->content);
        for (size_t k = 0; k < ARRAY_LEN(RULES); k++) {
            buf_addf(f->out, ",\"%s\":%s", RULES[k],
                     json_get_bool(a->rules, RULES[k], false) ? "true" : "false");
        }
        buf_addf(f->out, ",\"special\":%s}", a->special ? "true" : "false");
    }
    buf_add_str(f->out, "],");
    vec_release(&list.items);
}

/* ---- BPE ---- */

static void write_merges(const struct folder *f) {
    struct bytes rest = f->merges, line;
    bool first = true;
    buf_add_str(f->out, ",\"merges\":[");
    for (size_t i = 0; next_line(&rest, &line); i++) {
        bool comment = i == 0 && line.len > 8 && !memcmp(line.data, "#version", 8);
        if (!line.len || comment)
            continue;
        if (!first)
            buf_add_byte(f->out, ',');
        add_quoted(f->out, line);
        first = false;
    }
    buf_add_byte(f->out, ']');
}

/* ["</s>", 2]: the token with its id in vocab.json. */
static void write_named(const struct folder *f, struct bytes token) {
    struct json_reader r;
    int64_t id = 0;
    bool found = false;
    json_reader_init(&r, f->vocab, 0, JSON_ALLOW_NUL);
    if (json_expect(&r, JSON_OBJECT_BEGIN))
        while (!found && json_next(&r) == JSON_KEY) {
            found = bytes_equal(r.text, token);
            if (!json_read_int64(&r, &id))
                break;
        }
    json_reader_release(&r);
    buf_add_byte(f->out, '[');
    add_quoted(f->out, token);
    buf_addf(f->out, ",%lld]", found ? (long long)id : -1LL);
}

/* Where HF's class of the name has more than GPT-2's rules. */
static void write_bpe_rules(const struct folder *f) {
    const char *space = json_get_bool(f->config, "add_prefix_space", false) ? "true" : "false";
    if (is_class(f, "Qwen2")) {
        buf_add_str(f->out, "\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":");
        CHECK(known_split_json(bytes_str("qwen2"), f->out, NULL));
    } else {
        buf_addf(f->out, "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":%s}",
                 space);
    }
    buf_add_str(f->out, ",\"decoder\":{\"type\":\"ByteLevel\"},");
    if (!is_roberta(f))
        return;
    buf_add_str(f->out, "\"post_processor\":{\"type\":\"RobertaProcessing\",\"sep\":");
    write_named(f, special(f, "sep_token", "</s>"));
    buf_add_str(f->out, ",\"cls\":");
    write_named(f, special(f, "cls_token", "<s>"));
    buf_addf(f->out, ",\"trim_offsets\":true,\"add_prefix_space\":%s},", space);
}

static void write_bpe(const struct folder *f) {
    write_bpe_rules(f);
    buf_add_str(f->out, "\"model\":{\"type\":\"BPE\",\"vocab\":");
    buf_add_bytes(f->out, f->vocab);
    write_merges(f);
    buf_add_byte(f->out, '}');
}

/* ---- WordPiece ---- */

static int64_t line_of(const struct folder *f, struct bytes piece) {
    struct bytes rest = f->pieces, line;
    for (int64_t i = 0; next_line(&rest, &line); i++)
        if (bytes_equal(line, piece))
            return i;
    return -1;
}

static void write_end(const struct folder *f, struct bytes token) {
    buf_add_byte(f->out, '[');
    add_quoted(f->out, token);
    buf_addf(f->out, ",%lld]", (long long)line_of(f, token));
}

static void write_pieces(const struct folder *f) {
    struct bytes rest = f->pieces, line;
    for (size_t i = 0; next_line(&rest, &line); i++) {
        if (i)
            buf_add_byte(f->out, ',');
        add_quoted(f->out, line);
        buf_addf(f->out, ":%zu", i);
    }
}

static int write_wordpiece(const struct folder *f, struct error *err) {
    struct bytes unknown = special(f, "unk_token", "[UNK]"), cls = special(f, "cls_token", "[CLS]"),
                 sep = special(f, "sep_token", "[SEP]");
    struct json_value accents = json_get(f->config, "strip_accents");
    if (line_of(f, cls) < 0 || line_of(f, sep) < 0)
        return error_set(err, ERR_INVALID, "vocab.txt lacks '%.*s' or '%.*s'",
                         (int)MIN(cls.len, (size_t)64), cls.data, (int)MIN(sep.len, (size_t)64),
                         sep.data);
    buf_addf(
        f->out,
        "\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":%"
        "s,"
        "\"strip_accents\":%s,\"lowercase\":%s},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
        "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},"
        "\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":",
        json_get_bool(f->config, "tokenize_chinese_chars", true) ? "true" : "false",
        accents.kind != JSON_IS_BOOL ? "null"
        : accents.boolean            ? "true"
                                     : "false",
        json_get_bool(f->config, "do_lower_case", true) ? "true" : "false");
    write_end(f, sep);
    buf_add_str(f->out, ",\"cls\":");
    write_end(f, cls);
    buf_add_str(f->out, "},\"model\":{\"type\":\"WordPiece\",\"continuing_subword_prefix\":\"##\","
                        "\"max_input_chars_per_word\":100,\"unk_token\":");
    add_quoted(f->out, unknown);
    buf_add_str(f->out, ",\"vocab\":{");
    write_pieces(f);
    buf_add_str(f->out, "}}");
    return 0;
}

/* ---- all of it ---- */

static int read_json(const struct folder *f, struct arena *a, const char *name,
                     struct json_value *out, struct error *err) {
    struct bytes file = bundle_find(f->bundle, name);
    *out = (struct json_value){0};
    int rc = file.len ? json_parse(a, file, out, err) : 0;
    return rc ? error_wrap(err, "%s", name) : 0;
}

int folder_vocab_json(const struct bundle *bundle, struct buf *out, struct error *err) {
    struct folder f = {.bundle = bundle, .out = out};
    struct arena a;
    arena_init(&a, CONFIG_BUDGET, CONFIG_CALLS);
    find_files(&f);
    int rc = check_text(f.merges, "merges.txt", err);
    if (!rc)
        rc = check_text(f.pieces, "vocab.txt", err);
    if (!rc)
        rc = read_json(&f, &a, "tokenizer_config.json", &f.config, err);
    if (!rc)
        rc = read_json(&f, &a, "special_tokens_map.json", &f.special_map, err);
    if (!rc)
        rc = read_json(&f, &a, "added_tokens.json", &f.added, err);
    struct json_value model = (struct json_value){0};
    if (!rc)
        rc = read_json(&f, &a, "config.json", &model, err);
    f.class = json_text(json_get(f.config, "tokenizer_class"));
    if (!f.class.len)
        f.class = json_text(json_get(model, "model_type"));
    buf_add_byte(out, '{');
    if (!rc)
        write_added(&f);
    if (!rc && f.vocab.len)
        write_bpe(&f);
    if (!rc && !f.vocab.len)
        rc = write_wordpiece(&f, err);
    buf_add_byte(out, '}');
    arena_release(&a);
    return rc ? rc : out->failed ? error_set(err, ERR_MEMORY, "out of memory") : 0;
}
