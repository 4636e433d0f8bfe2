#include "text/tokenizer/decoder_chain.h"

#include "base/utf8.h"
#include "text/tokenizer/detokenize.h"
#include "text/tokenizer/regex_run.h"
#include "text/unicode.h"

enum { DEPTH_MAX = 8, STEPS_MAX = 32, COUNT_MAX = 1 << 20 };

/* ---- loading ---- */

static bool is_type(struct json_value json, const char *s) {
    return bytes_equal(json_text(json_get(json, "type")), bytes_str(s));
}
static void set_text(char **to, size_t *len, struct json_value v, const char *fallback) {
    struct bytes text = v.kind == JSON_IS_STRING ? json_text(v) : bytes_str(fallback);
    *to = mem_strndup((const char *)text.data, text.len);
    *len = text.len;
}

static int load_strip(struct decoder_step *s, struct json_value json, struct error *err) {
    struct json_value start = json_get(json, "start"), stop = json_get(json, "stop");
    set_text(&s->a, &s->a_len, json_get(json, "content"), "");
    if (start.kind != JSON_IS_INT || stop.kind != JSON_IS_INT || start.integer < 0 ||
        stop.integer < 0 || !s->a_len)
        return error_set(err, ERR_INVALID, "decoder Strip needs content, start and stop");
    s->start = (uint32_t)MIN(start.integer, COUNT_MAX);
    s->stop = (uint32_t)MIN(stop.integer, COUNT_MAX);
    return 0;
}

static int load_replace(struct decoder_step *s, struct json_value json, struct error *err) {
    struct json_value literal = json_get(json_get(json, "pattern"), "String"),
                      regex = json_get(json_get(json, "pattern"), "Regex");
    set_text(&s->b, &s->b_len, json_get(json, "content"), "");
    if (regex.kind == JSON_IS_STRING) {
        s->kind = DECODER_STEP_REPLACE_REGEX;
        return regex_compile(json_text(regex), &s->regex, err);
    }
    if (literal.kind != JSON_IS_STRING || !literal.count)
        return error_set(err, ERR_INVALID, "decoder Replace without a pattern");
    set_text(&s->a, &s->a_len, literal, "");
    return 0;
}

static int load_step(struct decoder_step *s, struct json_value json, struct error *err) {
    static const struct {
        const char *name;
        enum decoder_step_kind kind;
    } KINDS[] = {{"ByteLevel", DECODER_STEP_BYTE_LEVEL},
                 {"ByteFallback", DECODER_STEP_BYTE_FALLBACK},
                 {"Fuse", DECODER_STEP_FUSE},
                 {"Strip", DECODER_STEP_STRIP},
                 {"Replace", DECODER_STEP_REPLACE},
                 {"Metaspace", DECODER_STEP_METASPACE},
                 {"WordPiece", DECODER_STEP_WORDPIECE},
                 {"BPEDecoder", DECODER_STEP_BPE},
                 {"CTC", DECODER_STEP_CTC}};
    struct json_value type = json_get(json, "type");
    size_t i = 0;
    while (i < ARRAY_LEN(KINDS) && !is_type(json, KINDS[i].name))
        i++;
    if (i == ARRAY_LEN(KINDS))
        return error_set(err, ERR_UNSUPPORTED, "decoder '%.*s' is not supported",
                         (int)MIN(type.count, 64u), type.kind == JSON_IS_STRING ? type.text : "");
    s->kind = KINDS[i].kind;
    struct json_value scheme = json_get(json, "prepend_scheme");
    switch (s->kind) {
    case DECODER_STEP_STRIP: return load_strip(s, json, err);
    case DECODER_STEP_REPLACE: return load_replace(s, json, err);
    case DECODER_STEP_METASPACE:
        set_text(&s->a, &s->a_len, json_get(json, "replacement"), "\xE2\x96\x81");
        s->flag = scheme.kind == JSON_IS_STRING
                      ? !bytes_equal(json_text(scheme), bytes_str("never"))
                      : json_get_bool(json, "add_prefix_space", true);
        return s->a_len ? 0
                        : error_set(err, ERR_INVALID, "decoder Metaspace without a replacement");
    case DECODER_STEP_WORDPIECE:
        set_text(&s->a, &s->a_len, json_get(json, "prefix"), "##");
        s->flag = json_get_bool(json, "cleanup", true);
        return 0;
    case DECODER_STEP_BPE: set_text(&s->a, &s->a_len, json_get(json, "suffix"), "</w>"); return 0;
    case DECODER_STEP_CTC:
        set_text(&s->a, &s->a_len, json_get(json, "pad_token"), "<pad>");
        set_text(&s->b, &s->b_len, json_get(json, "word_delimiter_token"), "|");
        s->flag = json_get_bool(json, "cleanup", true);
        return 0;
    default: return 0;
    }
}

static int load_any(struct decoder_chain *c, struct json_value json, unsigned depth,
                    struct error *err) {
    int rc = 0;
    if (is_type(json, "Sequence")) {
        struct json_value list = json_get(json, "decoders");
        if (depth > DEPTH_MAX)
            return error_set(err, ERR_LIMIT, "decoder: sequences nested too deep");
        for (size_t i = 0; !rc && i < json_count(list); i++)
            rc = load_any(c, json_at(list, i), depth + 1, err);
        return rc;
    }
    if (c->steps.count == STEPS_MAX)
        return error_set(err, ERR_LIMIT, "more than %d decoders", STEPS_MAX);
    vec_push(&c->steps, (struct decoder_step){0});
    return load_step(&c->steps.items[c->steps.count - 1], json, err);
}

int decoder_chain_load(struct decoder_chain *c, struct json_value json, struct error *err) {
    *c = (struct decoder_chain){0};
    int rc = load_any(c, json, 0, err);
    if (rc)
        decoder_chain_release(c);
    return rc;
}

void decoder_chain_release(struct decoder_chain *c) {
    for (size_t i = 0; i < c->steps.count; i++) {
        mem_free(c->steps.items[i].a);
        mem_free(c->steps.items[i].b);
        regex_release(&c->steps.items[i].regex);
    }
    vec_release(&c->steps);
}

/* ---- lists of tokens ---- */

struct text_list {
    struct buf text;
    VEC(size_t) ends;
};

static void close_token(struct text_list *l) {
    vec_push(&l->ends, l->text.len);
}
static struct bytes token_at(const struct text_list *l, size_t i) {
    size_t start = i ? l->ends.items[i - 1] : 0;
    return bytes_of(buf_text(&l->text) + start, l->ends.items[i] - start);
}
static void add_token(struct text_list *l, struct bytes s) {
    buf_add_bytes(&l->text, s);
    close_token(l);
}
static void reset(struct text_list *l) {
    buf_reset(&l->text);
    l->ends.count = 0;
}
static void release(struct text_list *l) {
    buf_release(&l->text);
    vec_release(&l->ends);
}

/* ---- steps on one token ---- */

/* From where the text is too hard for the pattern on, it stays as it is. */
static void add_regex_replaced(const struct decoder_step *s, struct bytes text, struct buf *out) {
    struct regex_run run = {0};
    size_t done = 0, at = 0, begin, end;
    regex_run_allow(&run, text.len + 1);
    while (regex_run_next(&run, &s->regex, text, &at, done, &begin, &end) > 0) {
        buf_add(out, text.data + done, begin - done);
        buf_add(out, s->b, s->b_len);
        done = end;
    }
    buf_add(out, text.data + done, text.len - done);
    regex_run_release(&run);
}

static struct bytes strip(const struct decoder_step *s, struct bytes t) {
    for (uint32_t i = 0; i < s->start && t.len >= s->a_len && !memcmp(t.data, s->a, s->a_len); i++)
        t = bytes_of(t.data + s->a_len, t.len - s->a_len);
    for (uint32_t i = 0;
         i < s->stop && t.len >= s->a_len && !memcmp(t.data + t.len - s->a_len, s->a, s->a_len);
         i++)
        t.len -= s->a_len;
    return t;
}

static void add_wordpiece(const struct decoder_step *s, struct bytes t, bool first,
                          struct buf *out) {
    bool continues = t.len >= s->a_len && !memcmp(t.data, s->a, s->a_len);
    struct buf word = {0};
    if (!first && !continues)
        buf_add_byte(&word, ' ');
    buf_add_bytes(&word, !first && continues ? bytes_of(t.data + s->a_len, t.len - s->a_len) : t);
    if (s->flag)
        detokenize_add_cleaned(out, buf_bytes(&word));
    else
        buf_add_bytes(out, buf_bytes(&word));
    buf_release(&word);
}

static void add_ctc(const struct decoder_step *s, struct bytes t, struct buf *out) {
    struct buf bare = {0}, clean = {0};
    detokenize_add_replaced(&bare, t, bytes_of(s->a, s->a_len), bytes_of("", 0));
    if (s->flag) {
        detokenize_add_cleaned(&clean, buf_bytes(&bare));
        detokenize_add_replaced(out, buf_bytes(&clean), bytes_of(s->b, s->b_len), bytes_str(" "));
    } else {
        buf_add_bytes(out, buf_bytes(&bare));
    }
    buf_release(&bare);
    buf_release(&clean);
}

static void step_token(const struct decoder_step *s, struct bytes t, bool first, bool last,
                       struct buf *out) {
    struct bytes a = bytes_of(s->a, s->a_len), b = bytes_of(s->b, s->b_len);
    switch (s->kind) {
    case DECODER_STEP_STRIP: buf_add_bytes(out, strip(s, t)); break;
    case DECODER_STEP_REPLACE: detokenize_add_replaced(out, t, a, b); break;
    case DECODER_STEP_REPLACE_REGEX: add_regex_replaced(s, t, out); break;
    case DECODER_STEP_METASPACE:
        detokenize_add_replaced(out, t, a, bytes_str(first && s->flag ? "" : " "));
        break;
    case DECODER_STEP_WORDPIECE: add_wordpiece(s, t, first, out); break;
    case DECODER_STEP_BPE:
        if (a.len)
            detokenize_add_replaced(out, t, a, bytes_str(last ? "" : " "));
        else
            buf_add_bytes(out, t);
        break;
    case DECODER_STEP_CTC: add_ctc(s, t, out); break;
    default: CHECK(!"decoder step of one token");
    }
}

/* ---- steps on the list ---- */

static void byte_level(const struct text_list *in, struct text_list *out) {
    struct buf raw = {0};
    for (size_t i = 0; i < in->ends.count; i++) {
        struct bytes t = token_at(in, i);
        if (!byte_alphabet_to_bytes(t, &raw))
            buf_add_bytes(&raw, t);
    }
    detokenize_add_lossy(&out->text, buf_bytes(&raw));
    close_token(out);
    buf_release(&raw);
}

static void close_bytes(struct buf *run, struct text_list *out) {
    if (!run->len)
        return;
    if (utf8_valid(run->data, run->len))
        add_token(out, buf_bytes(run));
    else
        for (size_t i = 0; i < run->len; i++)
            add_token(out, bytes_str("\xEF\xBF\xBD"));
    buf_reset(run);
}

static void byte_fallback(const struct text_list *in, struct text_list *out) {
    struct buf run = {0};
    for (size_t i = 0; i < in->ends.count; i++) {
        int byte = detokenize_fallback_byte(token_at(in, i));
        if (byte >= 0) {
            buf_add_byte(&run, (char)byte);
            continue;
        }
        close_bytes(&run, out);
        add_token(out, token_at(in, i));
    }
    close_bytes(&run, out);
    buf_release(&run);
}

static void each_token(const struct decoder_step *s, const struct text_list *in, bool first,
                       bool last, struct text_list *out) {
    size_t count = in->ends.count;
    for (size_t i = 0; i < count; i++) {
        struct bytes t = token_at(in, i);
        if (s->kind == DECODER_STEP_CTC && i && bytes_equal(t, token_at(in, i - 1)))
            continue;
        size_t before = out->text.len;
        step_token(s, t, first && i == 0, last && i + 1 == count, &out->text);
        if (s->kind != DECODER_STEP_CTC || out->text.len > before)
            close_token(out);
    }
}

static void run_step(const struct decoder_step *s, const struct text_list *in, bool first,
                     bool last, struct text_list *out) {
    switch (s->kind) {
    case DECODER_STEP_BYTE_LEVEL: byte_level(in, out); break;
    case DECODER_STEP_BYTE_FALLBACK: byte_fallback(in, out); break;
    case DECODER_STEP_FUSE: add_token(out, buf_bytes(&in->text)); break;
    default: each_token(s, in, first, last, out);
    }
}

void decoder_chain_run(const struct decoder_chain *c, const struct bytes *tokens, size_t count,
                       bool first, bool last, struct buf *out) {
    struct text_list lists[2] = {0}, *in = &lists[0], *next = &lists[1];
    if (!count)
        return;
    for (size_t i = 0; i < count; i++)
        add_token(in, tokens[i]);
    for (size_t i = 0; i < c->steps.count; i++) {
        reset(next);
        run_step(&c->steps.items[i], in, first, last, next);
        struct text_list *swap = in;
        in = next;
        next = swap;
    }
    buf_add_bytes(out, buf_bytes(&in->text));
    release(&lists[0]);
    release(&lists[1]);
}
