#include "gateway/generation/presentation.h"

#include "base/hash.h"
#include "formats/json.h"

/* Members of a request that are true or false. */
static const struct {
    const char *key;
    size_t offset;
} flags[] = {
    {"include_usage", offsetof(struct genreq, include_usage)},
    {"continuous_usage", offsetof(struct genreq, continuous_usage)},
    {"include_stop", offsetof(struct genreq, include_stop_text)},
    {"skip_special", offsetof(struct genreq, skip_special_tokens)},
    {"logprobs", offsetof(struct genreq, logprobs)},
    {"tokens_as_ids", offsetof(struct genreq, tokens_as_ids)},
    {"token_ids", offsetof(struct genreq, return_token_ids)},
    {"parallel_calls", offsetof(struct genreq, parallel_tool_calls)},
    {"reasoning", offsetof(struct genreq, include_reasoning)},
    {"bare_calls", offsetof(struct genreq, bare_calls)},
    {"service_tier", offsetof(struct genreq, service_tier)},
};

static bool *flag_of(const struct genreq *g, size_t i) {
    return (bool *)(void *)((char *)(uintptr_t)g + flags[i].offset);
}

static void write_texts(struct json_writer *w, const char *key, const struct bytes *texts,
                        uint32_t count) {
    json_key(w, key);
    json_begin_array(w);
    for (uint32_t i = 0; i < count; i++)
        json_string_bytes(w, texts[i]);
    json_end_array(w);
}

void presentation_write(const struct genreq *g, const struct parse_config *parse,
                        struct u128 number, int64_t created_s, struct buf *out) {
    struct json_writer w;
    char id[U128_TEXT_MAX];
    u128_text(number, id);
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_key(&w, "dialect");
    json_int(&w, g->dialect);
    json_key(&w, "number");
    json_string(&w, id);
    json_key(&w, "created");
    json_int(&w, created_s);
    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        json_key(&w, flags[i].key);
        json_bool(&w, *flag_of(g, i));
    }
    json_key(&w, "in_reasoning");
    json_bool(&w, parse->in_reasoning);
    json_key(&w, "in_call");
    json_bool(&w, parse->in_call);
    if (g->thinking_budget >= 0) {
        json_key(&w, "thinking_budget");
        json_int(&w, g->thinking_budget);
    }
    json_key(&w, "reasoning_format");
    json_string(&w, reasoning_format_name(parse->reasoning));
    json_key(&w, "call_format");
    json_string(&w, call_format_name(parse->calls));
    if (parse->tools && g->tools.len) {
        json_key(&w, "tools");
        json_string_bytes(&w, g->tools);
    }
    write_texts(&w, "stops", g->stops, g->stop_count);
    write_texts(&w, "stop_patterns", g->stop_patterns, g->stop_pattern_count);
    json_end_object(&w);
}

static bool read_text(struct json_reader *r, struct genreq *g, struct bytes *out) {
    struct bytes text;
    if (!json_read_string(r, &text))
        return false;
    const void *copy = arena_copy(&g->arena, text.data, text.len);
    *out = bytes_of(copy, text.len);
    return copy != NULL || text.len == 0;
}

static bool read_texts(struct json_reader *r, struct genreq *g, uint32_t most,
                       const struct bytes **out, uint32_t *count) {
    struct bytes *texts = arena_alloc(&g->arena, most * sizeof *texts);
    if (!texts || !json_expect(r, JSON_ARRAY_BEGIN))
        return false;
    for (enum json_event event; (event = json_next(r)) != JSON_ARRAY_END;) {
        const void *copy = NULL;
        if (event == JSON_STRING && *count < most)
            copy = arena_copy(&g->arena, r->text.data, r->text.len);
        if (!copy)
            return json_fail(r, "no list of stop strings");
        texts[(*count)++] = bytes_of(copy, r->text.len);
    }
    *out = texts;
    return true;
}

static bool read_number(struct json_reader *r, struct u128 *out) {
    struct bytes text;
    char id[U128_TEXT_MAX];
    if (!json_read_string(r, &text) || text.len >= sizeof id)
        return false;
    memcpy(id, text.data, text.len);
    id[text.len] = 0;
    return u128_parse(id, out) == 0 || json_fail(r, "no number of an answer");
}

static bool read_dialect(struct json_reader *r, struct genreq *g) {
    int64_t dialect;
    if (!json_read_int64(r, &dialect))
        return false;
    if (dialect < 0 || dialect >= GENREQ_DIALECT_COUNT)
        return json_fail(r, "a dialect that is not known here");
    g->dialect = (enum genreq_dialect)dialect;
    return true;
}

static bool read_member(struct json_reader *r, struct bytes key, struct genreq *g,
                        struct presentation *out) {
    for (size_t i = 0; i < ARRAY_LEN(flags); i++)
        if (bytes_equal(key, bytes_str(flags[i].key)))
            return json_read_bool(r, flag_of(g, i));
    if (bytes_equal(key, bytes_str("dialect")))
        return read_dialect(r, g);
    if (bytes_equal(key, bytes_str("number")))
        return read_number(r, &out->number);
    if (bytes_equal(key, bytes_str("created")))
        return json_read_int64(r, &out->created_s);
    if (bytes_equal(key, bytes_str("thinking_budget")))
        return json_read_int64(r, &g->thinking_budget);
    if (bytes_equal(key, bytes_str("in_reasoning")))
        return json_read_bool(r, &out->in_reasoning);
    if (bytes_equal(key, bytes_str("in_call")))
        return json_read_bool(r, &out->in_call);
    if (bytes_equal(key, bytes_str("reasoning_format")))
        return read_text(r, g, &out->reasoning);
    if (bytes_equal(key, bytes_str("call_format")))
        return read_text(r, g, &out->calls);
    if (bytes_equal(key, bytes_str("tools")))
        return read_text(r, g, &out->tools);
    if (bytes_equal(key, bytes_str("stops")))
        return read_texts(r, g, GENREQ_STOPS_MAX, &g->stops, &g->stop_count);
    if (bytes_equal(key, bytes_str("stop_patterns")))
        return read_texts(r, g, GENREQ_STOP_PATTERNS_MAX, &g->stop_patterns,
                          &g->stop_pattern_count);
    return json_skip(r);
}

int presentation_read(struct bytes text, struct genreq *g, struct presentation *out,
                      struct error *err) {
    struct json_reader r;
    genreq_init(g, GENREQ_CHAT);
    g->stream = true;
    *out = (struct presentation){0};
    json_reader_init(&r, text, 0, JSON_ALLOW_NUL);
    bool ok = json_expect(&r, JSON_OBJECT_BEGIN);
    for (enum json_event event = JSON_ERROR; ok && (event = json_next(&r)) != JSON_OBJECT_END;) {
        char key[32];
        ok = event == JSON_KEY && r.text.len < sizeof key;
        if (!ok)
            break;
        memcpy(key, r.text.data, r.text.len);
        ok = read_member(&r, bytes_of(key, r.text.len), g, out);
    }
    ok = ok && !u128_is_zero(out->number);
    json_reader_release(&r);
    return ok ? 0 : error_set(err, ERR_INVALID, "the stream cannot be read here: %s", r.error.text);
}

/* ---- taken up again ---- */

void presentation_prepared(const struct wire_submit *s, struct prepared *p) {
    size_t bias = s->sampling.bias_ids.count;
    *p = (struct prepared){.prompt_count = 1,
                           .prompts = mem_calloc(1, sizeof *p->prompts),
                           .max_tokens = mem_calloc(1, sizeof *p->max_tokens),
                           .sampling = s->sampling};
    vec_reserve(&p->prompts[0], s->prompt.count);
    memcpy(p->prompts[0].items, s->prompt.ids, s->prompt.count * sizeof *s->prompt.ids);
    p->prompts[0].count = s->prompt.count;
    p->max_tokens[0] = s->max_tokens;
    p->bias_ids = mem_calloc(bias + 1, sizeof *p->bias_ids);
    p->bias_values = mem_calloc(bias + 1, sizeof *p->bias_values);
    if (bias) {
        memcpy(p->bias_ids, s->sampling.bias_ids.items, bias * sizeof *p->bias_ids);
        memcpy(p->bias_values, s->sampling.bias_values.items, bias * sizeof *p->bias_values);
    }
    p->sampling.bias_ids = (struct u32s){p->bias_ids, bias};
    p->sampling.bias_values = (struct f32s){p->bias_values, bias};
    buf_add_bytes(&p->dry_breakers, s->sampling.dry_breakers);
    p->sampling.dry_breakers = buf_bytes(&p->dry_breakers);
    buf_add_bytes(&p->allowed, s->sampling.allowed);
    p->sampling.allowed = buf_bytes(&p->allowed);
    vec_reserve(&p->bad_words, s->sampling.bad_words.count);
    for (size_t i = 0; i < s->sampling.bad_words.count; i++)
        vec_push(&p->bad_words, s->sampling.bad_words.items[i]);
    p->sampling.bad_words = (struct u32s){p->bad_words.items, p->bad_words.count};
    p->stop_token_count = (uint32_t)s->stop_tokens.count;
    if (s->stop_tokens.count)
        memcpy(p->stop_tokens, s->stop_tokens.items, s->stop_tokens.count * sizeof *p->stop_tokens);
    buf_add_bytes(&p->grammar, s->grammar);
}

int presentation_parse(const struct presentation *shown, struct prepared *p, struct error *err) {
    p->parse = (struct parse_config){.reasoning = reasoning_format_find(shown->reasoning),
                                     .calls = call_format_find(shown->calls),
                                     .in_reasoning = shown->in_reasoning,
                                     .in_call = shown->in_call};
    int rc = p->parse.calls ? parse_tools_new(shown->tools.len ? shown->tools : bytes_str("[]"),
                                              &p->parse_tools, err)
                            : 0;
    p->parse.tools = p->parse_tools;
    return rc;
}
