/*
 * Log-probabilities in the two forms of the API. An entry is one token. A chat's entry is its JSON
 * object. A completions' entry is four JSON values (token, log-probability, offset, best ones)
 * between SEPARATOR bytes, because that dialect wants four arrays. An entry ends with a newline;
 * neither byte occurs inside JSON text, where control characters are escaped.
 */
#include "gateway/dialects/response.h"

#include <math.h>
#include <stdio.h>

#include "base/utf8.h"
#include "formats/json.h"

#define SEPARATOR '\x1f'
enum { TOKEN_TEXT_MAX = 1024, TOKEN_NAME_MAX = 24 };

/* A token's bytes as valid UTF-8: each byte that belongs to no whole character becomes U+FFFD. */
static size_t token_text(const struct tokenizer *t, uint32_t id, char out[TOKEN_TEXT_MAX]) {
    struct bytes raw = tokenizer_token_bytes(t, id);
    size_t len = 0, at = 0;
    while (at < raw.len && len + 8 < TOKEN_TEXT_MAX) {
        uint32_t cp;
        size_t n = utf8_decode(raw.data + at, raw.len - at, &cp);
        len += utf8_encode(n ? cp : 0xfffd, out + len);
        at += n ? n : 1;
    }
    return len;
}

uint32_t response_token_chars(const struct tokenizer *t, uint32_t id) {
    char text[TOKEN_TEXT_MAX];
    size_t len = token_text(t, id, text);
    uint32_t chars = 0;
    for (size_t i = 0; i < len; i++)
        chars += (text[i] & 0xc0) != 0x80;
    return chars;
}

static void add_token(const struct tokenizer *t, uint32_t id, struct buf *out) {
    char text[TOKEN_TEXT_MAX];
    size_t len = token_text(t, id, text);
    buf_add_byte(out, '"');
    buf_add_json(out, bytes_of(text, len));
    buf_add_byte(out, '"');
}

/* JSON has no infinity: a token that cannot be gets -9999, as elsewhere. */
static void add_number(float value, struct buf *out) {
    char text[32];
    double v = isfinite(value) ? (double)value : -9999.0;
    snprintf(text, sizeof text, "%.9g", v);
    buf_add_str(out, text);
}

/* vLLM's return_tokens_as_token_ids. */
static struct bytes id_name(uint32_t id, char out[TOKEN_NAME_MAX]) {
    return bytes_of(out, (size_t)snprintf(out, TOKEN_NAME_MAX, "token_id:%u", id));
}

static void add_name(const struct token_names *t, uint32_t id, struct buf *out) {
    char text[TOKEN_NAME_MAX];
    if (!t->as_ids) {
        add_token(t->tokenizer, id, out);
        return;
    }
    buf_add_byte(out, '"');
    buf_add_bytes(out, id_name(id, text));
    buf_add_byte(out, '"');
}

static void add_chat_fields(const struct token_names *t, uint32_t id, float value,
                            struct buf *out) {
    char text[TOKEN_NAME_MAX];
    struct bytes raw = t->as_ids ? id_name(id, text) : tokenizer_token_bytes(t->tokenizer, id);
    buf_add_str(out, "\"token\":");
    add_name(t, id, out);
    buf_add_str(out, ",\"logprob\":");
    add_number(value, out);
    buf_add_str(out, ",\"bytes\":[");
    for (size_t i = 0; i < raw.len; i++) {
        if (i)
            buf_add_byte(out, ',');
        buf_add_u64(out, raw.data[i]);
    }
    buf_add_byte(out, ']');
}

/* with_ids: llama.cpp's, which has the token's id in front. */
static void add_chat_entry(const struct token_names *t, const struct token_logprobs *lp,
                           bool with_ids, struct buf *out) {
    buf_add_byte(out, '{');
    if (with_ids)
        buf_addf(out, "\"id\":%u,", lp->ids[0]);
    add_chat_fields(t, lp->ids[0], lp->values[0], out);
    buf_add_str(out, ",\"top_logprobs\":[");
    for (uint32_t i = 1; i < lp->count; i++) {
        buf_add_str(out, i > 1 ? ",{" : "{");
        if (with_ids)
            buf_addf(out, "\"id\":%u,", lp->ids[i]);
        add_chat_fields(t, lp->ids[i], lp->values[i], out);
        buf_add_byte(out, '}');
    }
    buf_add_str(out, "]}\n");
}

/* Two tokens may read the same (halves of characters do); an object must not repeat a key, so the
 * likelier one stays. Whether entry i reads as one of [1, end). */
static bool is_repeated(const struct token_names *t, const struct token_logprobs *lp, uint32_t i,
                        uint32_t end) {
    char text[TOKEN_TEXT_MAX], other[TOKEN_TEXT_MAX];
    size_t len = token_text(t->tokenizer, lp->ids[i], text);
    for (uint32_t j = 1; j < end; j++) {
        if (t->as_ids ? lp->ids[i] == lp->ids[j]
                      : token_text(t->tokenizer, lp->ids[j], other) == len &&
                            memcmp(text, other, len) == 0)
            return true;
    }
    return false;
}

static void add_completions_pair(const struct token_names *t, const struct token_logprobs *lp,
                                 uint32_t i, bool first, struct buf *out) {
    if (!first)
        buf_add_byte(out, ',');
    add_name(t, lp->ids[i], out);
    buf_add_byte(out, ':');
    add_number(lp->values[i], out);
}

/* The best ones, and the token's own, so that there may be one more than was asked for. */
static void add_completions_top(const struct token_names *t, const struct token_logprobs *lp,
                                struct buf *out) {
    bool any = false;
    buf_add_byte(out, '{');
    for (uint32_t i = 1; i < lp->count; i++) {
        if (is_repeated(t, lp, i, i))
            continue;
        add_completions_pair(t, lp, i, !any, out);
        any = true;
    }
    if (!is_repeated(t, lp, 0, lp->count))
        add_completions_pair(t, lp, 0, !any, out);
    buf_add_byte(out, '}');
}

static void add_completions_entry(const struct token_names *t, const struct token_logprobs *lp,
                                  uint32_t text_offset, struct buf *out) {
    bool none = isnan(lp->values[0]); /* a prompt's first */
    add_name(t, lp->ids[0], out);
    buf_add_byte(out, SEPARATOR);
    if (none)
        buf_add_str(out, "null");
    else
        add_number(lp->values[0], out);
    buf_add_byte(out, SEPARATOR);
    buf_add_u64(out, text_offset);
    buf_add_byte(out, SEPARATOR);
    if (none)
        buf_add_str(out, "null");
    else
        add_completions_top(t, lp, out);
    buf_add_byte(out, '\n');
}

/* An object from ids to what is known of them, the token's own first. */
void response_prompt_logprobs_entry(const struct tokenizer *t, const struct token_logprobs *lp,
                                    struct buf *out) {
    if (out->len)
        buf_add_byte(out, ',');
    if (lp->count == 0 || isnan(lp->values[0])) { /* the first */
        buf_add_str(out, "null");
        return;
    }
    uint32_t own_rank = 0; /* not known */
    for (uint32_t i = 1; i < lp->count; i++)
        if (lp->ids[i] == lp->ids[0])
            own_rank = i;
    for (uint32_t i = 0; i < lp->count; i++) {
        uint32_t rank = i ? i : own_rank;
        if (i && lp->ids[i] == lp->ids[0])
            continue;
        buf_addf(out, "%s\"%u\":{\"logprob\":", i ? "," : "{", lp->ids[i]);
        add_number(lp->values[i], out);
        buf_add_str(out, ",\"rank\":");
        if (rank)
            buf_add_u64(out, rank);
        else
            buf_add_str(out, "null");
        buf_add_str(out, ",\"decoded_token\":");
        add_token(t, lp->ids[i], out);
        buf_add_byte(out, '}');
    }
    buf_add_byte(out, '}');
}

/* SGLang's: [value, id, text]; NAN: null, as of a prompt's first. */
static void add_triple(const struct token_names *t, uint32_t id, float value, struct buf *out) {
    buf_add_byte(out, '[');
    if (isnan(value))
        buf_add_str(out, "null");
    else
        add_number(value, out);
    buf_addf(out, ",%u,", id);
    if (t->as_ids)
        buf_add_str(out, "null");
    else
        add_token(t->tokenizer, id, out);
    buf_add_byte(out, ']');
}

static void add_sglang_entry(const struct token_names *t, const struct token_logprobs *lp,
                             struct buf *out) {
    add_triple(t, lp->ids[0], lp->values[0], out);
    buf_add_byte(out, SEPARATOR);
    if (isnan(lp->values[0])) {
        buf_add_str(out, "null\n");
        return;
    }
    buf_add_byte(out, '[');
    for (uint32_t i = 1; i < lp->count; i++) {
        if (i > 1)
            buf_add_byte(out, ',');
        add_triple(t, lp->ids[i], lp->values[i], out);
    }
    buf_add_str(out, "]\n");
}

/* TGI's: an object whose last member is its text. */
static void add_tgi_token(const struct tokenizer *t, uint32_t id, float value, struct buf *out) {
    buf_addf(out, "{\"id\":%u,\"logprob\":", id);
    add_number(value, out);
    buf_addf(out, ",\"special\":%s,\"text\":", tokenizer_is_special(t, id) ? "true" : "false");
    add_token(t, id, out);
    buf_add_byte(out, '}');
}

static void add_tgi_entry(const struct tokenizer *t, const struct token_logprobs *lp,
                          struct buf *out) {
    add_tgi_token(t, lp->ids[0], lp->values[0], out);
    buf_add_byte(out, SEPARATOR);
    buf_add_byte(out, '[');
    for (uint32_t i = 1; i < lp->count; i++) {
        if (i > 1)
            buf_add_byte(out, ',');
        add_tgi_token(t, lp->ids[i], lp->values[i], out);
    }
    buf_add_str(out, "]\n");
}

void response_prefill_entry(const struct tokenizer *t, const struct token_logprobs *lp,
                            struct buf *out) {
    buf_addf(out, "%s{\"id\":%u,\"text\":", out->len ? "," : "", lp->ids[0]);
    add_token(t, lp->ids[0], out);
    buf_add_str(out, ",\"logprob\":");
    if (isnan(lp->values[0])) /* the first */
        buf_add_str(out, "null");
    else
        add_number(lp->values[0], out);
    buf_add_byte(out, '}');
}

void response_logprobs_entry(enum genreq_dialect dialect, const struct token_names *t,
                             const struct token_logprobs *lp, uint32_t text_offset,
                             struct buf *out) {
    if (dialect == GENREQ_COMPLETIONS)
        add_completions_entry(t, lp, text_offset, out);
    else if (dialect == GENREQ_GENERATE)
        add_sglang_entry(t, lp, out);
    else if (genreq_is_tgi(dialect))
        add_tgi_entry(t->tokenizer, lp, out);
    else
        add_chat_entry(t, lp, dialect == GENREQ_COMPLETION || dialect == GENREQ_INFILL, out);
}

/* Appends, comma-separated, part `column` of every entry. */
static void add_column(struct bytes entries, int column, struct buf *out) {
    const char *at = (const char *)entries.data, *end = at + entries.len;
    for (bool first = true; at < end; first = false) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        for (int i = 0; i < column; i++)
            at = (const char *)memchr(at, SEPARATOR, (size_t)(line_end - at)) + 1;
        const char *stop = memchr(at, SEPARATOR, (size_t)(line_end - at));
        if (!first)
            buf_add_byte(out, ',');
        buf_add(out, at, (size_t)((stop ? stop : line_end) - at));
        at = line_end + 1;
    }
}

void response_logprobs_value(enum genreq_dialect dialect, struct bytes entries, struct buf *out) {
    if (dialect == GENREQ_CHAT || dialect == GENREQ_TOKENS) {
        buf_add_str(out, "{\"content\":[");
        add_column(entries, 0, out);
        buf_add_str(out, "],\"refusal\":null}");
        return;
    }
    if (dialect == GENREQ_GENERATE || genreq_is_tgi(dialect)) {
        add_column(entries, 0, out);
        buf_add_byte(out, '\n');
        add_column(entries, 1, out);
        return;
    }
    if (dialect != GENREQ_COMPLETIONS) { /* a plain list */
        buf_add_byte(out, '[');
        add_column(entries, 0, out);
        buf_add_byte(out, ']');
        return;
    }
    static const char *const names[] = {"{\"tokens\":[", "],\"token_logprobs\":[",
                                        "],\"text_offset\":[", "],\"top_logprobs\":["};
    for (int column = 0; column < 4; column++) {
        buf_add_str(out, names[column]);
        add_column(entries, column, out);
    }
    buf_add_str(out, "]}");
}

void response_logprobs_split(struct bytes value, struct bytes *tokens, struct bytes *alternatives) {
    const uint8_t *cut = value.len ? memchr(value.data, '\n', value.len) : NULL;
    CHECK(cut || !value.len);
    size_t len = cut ? (size_t)(cut - value.data) : 0;
    *tokens = bytes_of(value.data, len);
    *alternatives = cut ? bytes_of(cut + 1, value.len - len - 1) : bytes_of(NULL, 0);
}
