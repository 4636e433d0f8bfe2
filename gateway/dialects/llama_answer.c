/*
 * The answers of llama.cpp's /completion and /infill: one object, or a stream of them, the last of
 * which has what is known at the end.
 *
 * Source: github.com/ggml-org/llama.cpp, tools/server/README.md.
 */
#include <stdio.h>
#include <stdlib.h>

#include "formats/json.h"
#include "gateway/answers/answer.h"
#include "gateway/answers/error_response.h"
#include "gateway/fields/field.h"

#define ADD(out, literal) buf_add((out), (literal), sizeof(literal) - 1)

/* The head is what the last object tells of the model and the request. */
static void init(struct response_writer *r, enum genreq_dialect dialect, bool stream,
                 struct u128 number, int64_t created_s, struct bytes model) {
    (void)stream, (void)created_s;
    *r = (struct response_writer){.dialect = dialect};
    response_id(dialect, number, r->id);
    ADD(&r->head, ",\"model\":\"");
    buf_add_json(&r->head, model);
    ADD(&r->head, "\"");
}

static void write_double(struct json_writer *w, const char *key, double value) {
    json_key(w, key);
    json_double(w, value);
}

/* With as few digits as lead back to it: 0.7, not 0.699999988. */
static void write_float(struct json_writer *w, const char *key, float value) {
    char text[32];
    int digits = 6;
    do
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
    while (strtof(text, NULL) != value && ++digits < 10);
    json_key(w, key);
    json_raw(w, bytes_str(text));
}

static void write_int(struct json_writer *w, const char *key, int64_t value) {
    json_key(w, key);
    json_int(w, value);
}

static void write_dry(struct json_writer *w, const struct genreq *g,
                      const struct wire_sampling *s) {
    static const char *const USUAL[] = {"\n", ":", "\"", "*"};
    write_float(w, "dry_multiplier", s->dry_multiplier);
    write_double(w, "dry_base", g->dry_base);
    write_int(w, "dry_allowed_length", g->dry_allowed_length);
    write_int(w, "dry_penalty_last_n", g->dry_window);
    json_key(w, "dry_sequence_breakers");
    json_begin_array(w);
    for (uint32_t i = 0; i < g->breaker_count; i++)
        json_string_bytes(w, g->breakers[i]);
    for (size_t i = 0; !g->breaker_count && i < ARRAY_LEN(USUAL); i++)
        json_string(w, USUAL[i]);
    json_end_array(w);
}

/* What the request has of llama.cpp's own samplers. */
static void write_rules(struct json_writer *w, const struct genreq *g,
                        const struct wire_sampling *s) {
    write_double(w, "top_n_sigma", g->top_n_sigma);
    write_double(w, "typical_p", g->typical_p);
    write_float(w, "xtc_probability", s->xtc_probability);
    write_float(w, "xtc_threshold", s->xtc_threshold);
    write_float(w, "dynatemp_range", s->temperature_range);
    write_float(w, "dynatemp_exponent", s->temperature_exponent);
    write_int(w, "repeat_last_n", g->given & GENREQ_PENALTY_WINDOW ? g->penalty_window : -1);
    write_dry(w, g, s);
    write_int(w, "mirostat",
              g->mirostat == WIRE_STEERING_MIROSTAT     ? 1
              : g->mirostat == WIRE_STEERING_MIROSTAT_2 ? 2
                                                        : 0);
    write_double(w, "mirostat_tau", g->mirostat_tau);
    write_double(w, "mirostat_eta", g->mirostat_eta);
    write_double(w, "adaptive_target", g->adaptive_target);
    write_double(w, "adaptive_decay", g->adaptive_decay);
    json_key(w, "samplers");
    field_write_sampler_order(g->sampler_order, w);
}

void answer_write_settings(const struct genreq *g, const struct wire_sampling *s,
                           struct json_writer *w) {
    write_float(w, "temperature", s->temperature);
    write_int(w, "top_k", s->top_k);
    write_float(w, "top_p", s->top_p);
    write_float(w, "min_p", s->min_p);
    write_float(w, "repeat_penalty", s->repetition_penalty);
    write_float(w, "presence_penalty", s->presence_penalty);
    write_float(w, "frequency_penalty", s->frequency_penalty);
    write_rules(w, g, s);
    write_int(w, "n_predict", g->given & GENREQ_MAX_TOKENS ? g->max_tokens : -1);
    write_int(w, "n_probs", g->logprobs ? g->top_logprobs : 0);
    json_key(w, "ignore_eos");
    json_bool(w, g->ignore_eos);
    json_key(w, "stream");
    json_bool(w, g->stream);
    json_key(w, "stop");
    json_begin_array(w);
    for (uint32_t i = 0; i < g->stop_count; i++)
        json_string_bytes(w, g->stops[i]);
    json_end_array(w);
}

static void settings(struct answer *a, const struct genreq *g, const struct wire_sampling *s) {
    struct json_writer w;
    ADD(&a->writer.head, ",\"generation_settings\":");
    json_writer_init(&w, &a->writer.head);
    json_begin_object(&w);
    json_key(&w, "seed");
    json_uint(&w, s->seed);
    answer_write_settings(g, s, &w);
    json_end_object(&w);
    for (uint32_t i = 0; i < g->response_field_count; i++) {
        buf_add_bytes(&a->shown_fields, g->response_fields[i]);
        buf_add_byte(&a->shown_fields, 0);
    }
    a->is_short |= a->shown_fields.failed;
}

/* extra: ,"token_ids":[...] */
static void add_text(const struct answer *a, const struct choice *c, struct bytes text,
                     struct bytes extra, bool stop, struct buf *out) {
    static const char ids[] = ",\"token_ids\":";
    size_t skip = sizeof ids - 1;
    buf_addf(out, "{\"index\":%u,\"content\":\"", c->index);
    buf_add_json(out, text);
    ADD(out, "\",\"tokens\":");
    if (extra.len)
        buf_add_bytes(out, bytes_of(extra.data + skip, extra.len - skip));
    else
        ADD(out, "[]");
    buf_addf(out, ",\"stop\":%s,\"id_slot\":0,\"tokens_predicted\":%u,\"tokens_evaluated\":%zu",
             stop ? "true" : "false", c->token_count, answer_submission_of(a, c)->prompt.count);
}

static void add_probabilities(struct bytes logprobs, struct buf *out) {
    if (!logprobs.len)
        return;
    ADD(out, ",\"completion_probabilities\":");
    buf_add_bytes(out, logprobs);
}

static void add_prompt(const struct submission *sub, struct buf *out) {
    struct buf text = {0};
    tokenizer_detokenize(sub->choices[0].detok.tokenizer,
                         (struct tokens){sub->prompt.items, sub->prompt.count}, 0, &text);
    ADD(out, ",\"prompt\":\"");
    buf_add_json(out, buf_bytes(&text));
    ADD(out, "\"");
    buf_release(&text);
}

static void add_end(const struct answer *a, const struct choice *c, struct buf *out) {
    struct bytes word = choice_stop_text(c);
    buf_add_bytes(out, buf_bytes(&a->writer.head));
    add_prompt(answer_submission_of(a, c), out);
    buf_addf(out, ",\"truncated\":false,\"stop_type\":\"%s\",\"stopping_word\":\"",
             word.len                   ? "word"
             : c->finish == CHOICE_STOP ? "eos"
                                        : "limit");
    buf_add_json(out, word);
    buf_addf(out, "\",\"tokens_cached\":%u", answer_submission_of(a, c)->cached_tokens);
    answer_write_timings(a, out);
    ADD(out, "}");
}

/* ---- the members that are asked for ---- */

/* The value at NAME/NAME/... in an object; empty: there is none. *name: the last of them. */
static struct bytes find_member(struct bytes object, const char *path, const char **name) {
    char key[GENREQ_NAME_MAX + 1];
    for (const char *at = path;; at++) {
        size_t len = strcspn(at, "/");
        struct bytes value = {0};
        const struct json_wanted member[] = {{key, &value}};
        struct json_reader r;
        memcpy(key, at, len);
        key[len] = 0;
        *name = at;
        json_reader_init(&r, object, 0, JSON_ALLOW_NUL);
        if (json_next(&r) != JSON_OBJECT_BEGIN || !json_take_members(&r, member, 1))
            value.len = 0;
        json_reader_release(&r);
        if (!value.len)
            return value;
        object = value;
        at += len;
        if (!*at)
            return object;
    }
}

/* The object at `from` in out becomes one of the members alone that the request asks for. */
static void pick_members(struct answer *a, size_t from, struct buf *out) {
    const char *path = buf_text(&a->shown_fields), *end = path + a->shown_fields.len, *name;
    struct buf picked = {0};
    if (!a->shown_fields.len)
        return;
    ADD(&picked, "{");
    for (; path < end; path += strlen(path) + 1) {
        struct bytes value = find_member(bytes_of(out->data + from, out->len - from), path, &name);
        if (!value.len)
            continue;
        ADD(&picked, ",\"");
        buf_add_json(&picked, bytes_str(name));
        ADD(&picked, "\":");
        buf_add_bytes(&picked, value);
    }
    ADD(&picked, "}");
    a->is_short |= picked.failed;
    out->len = from;
    if (!picked.failed && picked.len > 2) { /* without the first comma */
        ADD(out, "{");
        buf_add_bytes(out, bytes_of(picked.data + 2, picked.len - 2));
    } else {
        ADD(out, "{}");
    }
    buf_release(&picked);
}

/* ---- the form ---- */

static void begin(struct answer *a, struct buf *out) {
    (void)a, (void)out;
}

static void text(struct answer *a, const struct choice *c, const struct response_text *piece,
                 struct bytes logprobs, struct bytes extra, struct buf *out) {
    ADD(out, "data: ");
    add_text(a, c, piece->content, extra, false, out);
    add_probabilities(logprobs, out);
    ADD(out, "}\n\n");
}

static void progress(struct answer *a, const struct choice *c, const struct prompt_progress *p,
                     struct buf *out) {
    ADD(out, "data: ");
    add_text(a, c, bytes_of(NULL, 0), bytes_of(NULL, 0), false, out);
    answer_write_progress(a, c, p, out);
    ADD(out, "}\n\n");
}

/* A choice's last object tells how long all took. */
static void finish(struct answer *a, const struct choice *c, struct buf *out) {
    (void)a, (void)c, (void)out;
}

static void end(struct answer *a, struct buf *out) {
    for (uint32_t i = 0; i < a->submission_count; i++)
        for (uint32_t j = 0; j < a->submissions[i].delivery.choice_count; j++) {
            const struct choice *c = &a->submissions[i].choices[j];
            ADD(out, "data: ");
            size_t from = out->len;
            add_text(a, c, bytes_of(NULL, 0), bytes_of(NULL, 0), true, out);
            add_end(a, c, out);
            pick_members(a, from, out);
            ADD(out, "\n\n");
        }
}

static void error(struct answer *a, const struct api_error *err, struct buf *out) {
    (void)a;
    ADD(out, "data: ");
    llama_error_write(err, out);
    ADD(out, "\n\n");
}

static void add_whole(struct answer *a, const struct choice *c, struct buf *out) {
    size_t from = out->len;
    answer_write_extras(a, c);
    add_text(a, c, buf_bytes(&c->text), buf_bytes(&a->scratch->extra), true, out);
    add_probabilities(buf_bytes(&a->scratch->entries), out);
    add_end(a, c, out);
    pick_members(a, from, out);
}

/* Several choices, or prompts, are a list. */
static void whole(struct answer *a, struct buf *out) {
    bool list = a->submission_count > 1 || a->submissions[0].delivery.choice_count > 1;
    if (list)
        ADD(out, "[");
    for (uint32_t i = 0; i < a->submission_count; i++)
        for (uint32_t j = 0; j < a->submissions[i].delivery.choice_count; j++) {
            if (i + j)
                ADD(out, ",");
            add_whole(a, &a->submissions[i].choices[j], out);
        }
    if (list)
        ADD(out, "]");
}

const struct answer_form answer_llama = {
    .stream_type = "text/event-stream; charset=utf-8",
    .ping = ": ping\n\n",
    .init = init,
    .settings = settings,
    .begin = begin,
    .text = text,
    .progress = progress,
    .finish = finish,
    .end = end,
    .error = error,
    .whole = whole,
};
