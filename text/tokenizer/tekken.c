#include "text/tokenizer/tekken.h"

#include <stdio.h>

#include "formats/json.h"
#include "text/tokenizer/tiktoken.h"

enum {
    HEAD_BYTES = 1 << 20,
    SECTIONS_BUDGET = 4 << 20,
    SECTIONS_CALLS = 1 << 20,
    BOS = 1,
    EOS = 2
};

/* Of files that list none. */
static const char *const SPECIALS[] = {"<unk>",
                                       "<s>",
                                       "</s>",
                                       "[INST]",
                                       "[/INST]",
                                       "[AVAILABLE_TOOLS]",
                                       "[/AVAILABLE_TOOLS]",
                                       "[TOOL_RESULTS]",
                                       "[/TOOL_RESULTS]",
                                       "[TOOL_CALLS]",
                                       "[IMG]",
                                       "<pad>",
                                       "[IMG_BREAK]",
                                       "[IMG_END]",
                                       "[PREFIX]",
                                       "[MIDDLE]",
                                       "[SUFFIX]",
                                       "[SYSTEM_PROMPT]",
                                       "[/SYSTEM_PROMPT]",
                                       "[TOOL_CONTENT]"};

struct tekken {
    struct bytes config, vocab, specials; /* raw JSON */
    struct bytes pattern;                 /* in the arena of config */
    int64_t vocab_size, special_count;
    struct json_value special_list;
};

bool tekken_is(struct bytes file) {
    static const char KEY[] = "\"token_bytes\"";
    struct bytes head = bytes_of(file.data, MIN(file.len, (size_t)HEAD_BYTES));
    const uint8_t *end = head.data + head.len,
                  *p = head.len ? memmem(head.data, head.len, KEY, sizeof KEY - 1) : NULL;
    if (!p || head.data[0] != '{')
        return false;
    for (p += sizeof KEY - 1; p < end && (*p == ' ' || *p == ':');)
        p++;
    return p < end && *p == '"';
}

/* ---- reading ---- */

static int bad(struct error *err, const char *what) {
    return error_set(err, ERR_INVALID, "tekken.json: %s", what);
}

static int reader_error(const struct json_reader *r, struct error *err) {
    return error_set(err, r->error.code ? r->error.code : ERR_INVALID, "tekken.json: %s",
                     r->error.text);
}

static int read_top(struct json_reader *r, struct tekken *k, struct error *err) {
    enum json_event event;
    if (!json_expect(r, JSON_OBJECT_BEGIN))
        return reader_error(r, err);
    while ((event = json_next(r)) == JSON_KEY) {
        struct bytes ignored, *to = &ignored;
        if (bytes_equal(r->text, bytes_str("config")))
            to = &k->config;
        if (bytes_equal(r->text, bytes_str("vocab")))
            to = &k->vocab;
        if (bytes_equal(r->text, bytes_str("special_tokens")))
            to = &k->specials;
        if (json_next(r) == JSON_ERROR)
            return reader_error(r, err);
        size_t begin = r->offset;
        if (!json_skip(r))
            return reader_error(r, err);
        *to = bytes_of(r->start + begin, (size_t)(r->at - r->start) - begin);
    }
    return event == JSON_OBJECT_END && json_next(r) == JSON_END ? 0 : reader_error(r, err);
}

static int read_config(struct tekken *k, struct arena *a, struct error *err) {
    struct json_value config = (struct json_value){0};
    int rc = k->config.len ? json_parse(a, k->config, &config, err) : bad(err, "no \"config\"");
    if (!rc && k->specials.len)
        rc = json_parse(a, k->specials, &k->special_list, err);
    if (rc)
        return rc;
    struct json_value size = json_get(config, "default_vocab_size"),
                      special = json_get(config, "default_num_special_tokens");
    k->pattern = json_text(json_get(config, "pattern"));
    k->vocab_size = size.kind == JSON_IS_INT ? size.integer : 0;
    k->special_count = special.kind == JSON_IS_INT ? special.integer : -1;
    if (!k->pattern.len || k->special_count < 0 || k->vocab_size <= k->special_count ||
        k->vocab_size > VOCAB_IDS_MAX)
        return bad(err,
                   "\"config\" needs pattern, default_vocab_size and default_num_special_tokens");
    if (json_count(k->special_list) > (uint64_t)k->special_count)
        return bad(err, "too many \"special_tokens\"");
    return 0;
}

/* One token as a line of a .tiktoken file, its rank being its id; those past the vocabulary's size
 * are left out. */
static int read_token(struct json_reader *r, const struct tekken *k, struct buf *line,
                      struct buf *out, struct error *err) {
    int64_t rank = -1;
    enum json_event event;
    buf_reset(line);
    while ((event = json_next(r)) == JSON_KEY) {
        bool is_rank = bytes_equal(r->text, bytes_str("rank")),
             is_bytes = bytes_equal(r->text, bytes_str("token_bytes"));
        struct bytes text = {0};
        bool ok = is_rank    ? json_read_int64(r, &rank)
                  : is_bytes ? json_read_string(r, &text)
                             : json_skip(r);
        if (!ok)
            return reader_error(r, err);
        if (is_bytes)
            buf_add_bytes(line, text);
    }
    if (event != JSON_OBJECT_END)
        return reader_error(r, err);
    if (rank < 0 || !line->len)
        return bad(err, "a token of \"vocab\" without rank or token_bytes");
    if (rank >= k->vocab_size - k->special_count)
        return 0;
    buf_add_bytes(out, buf_bytes(line));
    buf_addf(out, " %lld\n", (long long)(rank + k->special_count));
    return 0;
}

static int read_vocab(const struct tekken *k, struct buf *out, struct error *err) {
    struct json_reader r;
    struct buf line = {0};
    enum json_event event;
    json_reader_init(&r, k->vocab, 0, JSON_ALLOW_NUL);
    int rc = json_expect(&r, JSON_ARRAY_BEGIN) ? 0 : bad(err, "\"vocab\" is no list");
    while (!rc && (event = json_next(&r)) != JSON_ARRAY_END)
        rc = event == JSON_OBJECT_BEGIN ? read_token(&r, k, &line, out, err)
                                        : bad(err, "\"vocab\" has no objects");
    json_reader_release(&r);
    buf_release(&line);
    return rc ? rc : out->failed ? error_set(err, ERR_MEMORY, "out of memory") : 0;
}

/* ---- building ---- */

static int add_specials(const struct tekken *k, struct tokenizer *t, struct error *err) {
    size_t listed = json_count(k->special_list);
    int rc = 0;
    for (size_t id = 0; !rc && id < (size_t)k->special_count; id++) {
        char filler[32];
        struct added_token token = {.id = (uint32_t)id, .special = true};
        struct json_value entry =
            id < listed ? json_at(k->special_list, id) : (struct json_value){0};
        struct bytes name = json_text(json_get(entry, "token_str"));
        snprintf(filler, sizeof filler, "<SPECIAL_%zu>", id);
        if (id < listed && !name.len)
            return bad(err, "a special token without token_str");
        if (id >= listed)
            name = bytes_str(!listed && id < ARRAY_LEN(SPECIALS) ? SPECIALS[id] : filler);
        rc = tokenizer_add_token(t, name, token, err);
    }
    return rc;
}

static int finish(const struct tekken *k, struct tokenizer *t, struct error *err) {
    struct buf split = {0};
    struct tokenizer_rules rules = {.decoder = "{\"type\":\"ByteLevel\"}"};
    buf_add_str(
        &split,
        "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"");
    buf_add_json(&split, k->pattern);
    buf_add_str(&split,
                "\"},\"behavior\":\"Isolated\",\"invert\":false},"
                "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]}");
    rules.pre_tokenizer = buf_text(&split);
    int rc = tokenizer_set_rules(t, &rules, err);
    if (!rc)
        rc = add_specials(k, t, err);
    if (!rc && k->special_count > EOS) {
        t->bos = BOS;
        vec_push(&t->prefix, BOS);
        tokenizer_add_eos(t, EOS);
    }
    if (!rc)
        rc = tokenizer_finish(t, &rules, err);
    buf_release(&split);
    return rc;
}

static int build(const struct tekken *k, struct tokenizer *t, struct error *err) {
    struct buf lines = {0};
    struct tiktoken_file f;
    int rc = read_vocab(k, &lines, err);
    if (!rc)
        rc = tiktoken_read(buf_bytes(&lines), &f, err);
    buf_release(&lines);
    if (rc)
        return rc;
    rc = tiktoken_build(&f, 0, t, err);
    tiktoken_release(&f);
    return rc ? rc : finish(k, t, err);
}

int tekken_build(struct bytes file, struct tokenizer *t, struct error *err) {
    CHECK(t && !t->vocab.slots);
    struct tekken k = {.special_list = (struct json_value){0}};
    struct json_reader r;
    struct arena a;
    arena_init(&a, SECTIONS_BUDGET, SECTIONS_CALLS);
    json_reader_init(&r, file, 0, JSON_ALLOW_NUL);
    int rc = read_top(&r, &k, err);
    json_reader_release(&r);
    if (!rc)
        rc = read_config(&k, &a, err);
    if (!rc)
        rc = build(&k, t, err);
    arena_release(&a);
    return rc;
}
