/*
 * The answers of llama.cpp's /completion and /infill: one object, or a stream of them, the last of
 * which has what is known at the end.
 *
 * Source: github.com/ggml-org/llama.cpp, tools/server/README.md.
 */
#include "formats/json.h"
#include "gateway/answer.h"
#include "gateway/error_response.h"

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

static void settings(struct answer *a, const struct genreq *g, const struct wire_sampling *s) {
    struct json_writer w;
    ADD(&a->writer.head, ",\"generation_settings\":");
    json_writer_init(&w, &a->writer.head);
    json_begin_object(&w);
    json_key(&w, "seed");
    json_uint(&w, s->seed);
    json_key(&w, "temperature");
    json_double(&w, (double)s->temperature);
    json_key(&w, "top_k");
    json_uint(&w, s->top_k);
    json_key(&w, "top_p");
    json_double(&w, (double)s->top_p);
    json_key(&w, "min_p");
    json_double(&w, (double)s->min_p);
    json_key(&w, "repeat_penalty");
    json_double(&w, (double)s->repetition_penalty);
    json_key(&w, "presence_penalty");
    json_double(&w, (double)s->presence_penalty);
    json_key(&w, "frequency_penalty");
    json_double(&w, (double)s->frequency_penalty);
    json_key(&w, "n_predict");
    json_int(&w, g->given & GENREQ_MAX_TOKENS ? g->max_tokens : -1);
    json_key(&w, "n_probs");
    json_int(&w, g->logprobs ? g->top_logprobs : 0);
    json_key(&w, "ignore_eos");
    json_bool(&w, g->ignore_eos);
    json_key(&w, "stream");
    json_bool(&w, g->stream);
    json_key(&w, "stop");
    json_begin_array(&w);
    for (uint32_t i = 0; i < g->stop_count; i++)
        json_string_bytes(&w, g->stops[i]);
    json_end_array(&w);
    json_end_object(&w);
}

/* extra: ,"token_ids":[...] */
static void add_text(const struct answer *a, struct bytes text, struct bytes extra, bool stop,
                     struct buf *out) {
    static const char ids[] = ",\"token_ids\":";
    struct usage u = answer_usage(a);
    size_t skip = sizeof ids - 1;
    ADD(out, "{\"index\":0,\"content\":\"");
    buf_add_json(out, text);
    ADD(out, "\",\"tokens\":");
    if (extra.len)
        buf_add_bytes(out, bytes_of(extra.data + skip, extra.len - skip));
    else
        ADD(out, "[]");
    buf_addf(out, ",\"stop\":%s,\"id_slot\":0,\"tokens_predicted\":%u,\"tokens_evaluated\":%u",
             stop ? "true" : "false", u.completion_tokens, u.prompt_tokens);
}

static void add_probabilities(struct bytes logprobs, struct buf *out) {
    if (!logprobs.len)
        return;
    ADD(out, ",\"completion_probabilities\":");
    buf_add_bytes(out, logprobs);
}

static void add_timing(const char *kind, uint32_t count, int64_t us, struct buf *out) {
    double ms = (double)MAX(us, 1) / 1000; /* the clock is read once a turn */
    buf_addf(out, "\"%s_n\":%u,\"%s_ms\":%.3f,\"%s_per_token_ms\":%.3f,\"%s_per_second\":%.3f",
             kind, count, kind, ms, kind, count ? ms / count : 0, kind, count * 1000.0 / ms);
}

static void add_prompt(const struct answer *a, struct buf *out) {
    const struct submission *sub = &a->submissions[0];
    struct buf text = {0};
    tokenizer_detokenize(sub->choices[0].detok.tokenizer,
                         (struct tokens){sub->prompt.items, sub->prompt.count}, 0, &text);
    ADD(out, ",\"prompt\":\"");
    buf_add_json(out, buf_bytes(&text));
    ADD(out, "\"");
    buf_release(&text);
}

static void add_end(const struct answer *a, struct buf *out) {
    const struct choice *c = &a->submissions[0].choices[0];
    const struct answer_times *t = &a->times;
    struct bytes word = choice_stop_text(c);
    struct usage u = answer_usage(a);
    buf_add_bytes(out, buf_bytes(&a->writer.head));
    add_prompt(a, out);
    buf_addf(out, ",\"truncated\":false,\"stop_type\":\"%s\",\"stopping_word\":\"",
             word.len                   ? "word"
             : c->finish == CHOICE_STOP ? "eos"
                                        : "limit");
    buf_add_json(out, word);
    buf_addf(out, "\",\"tokens_cached\":%u,\"timings\":{\"cache_n\":%u,", u.cached_tokens,
             u.cached_tokens);
    add_timing("prompt", u.prompt_tokens - u.cached_tokens, t->first_us - t->submit_us, out);
    ADD(out, ",");
    add_timing("predicted", u.completion_tokens, t->end_us - t->first_us, out);
    ADD(out, "}}");
}

/* ---- the form ---- */

static void begin(struct answer *a, struct buf *out) {
    (void)out;
    CHECK(a->submission_count == 1 && a->submissions[0].delivery.choice_count == 1);
}

static void text(struct answer *a, const struct choice *c, const struct response_text *piece,
                 struct bytes logprobs, struct bytes extra, struct buf *out) {
    (void)c;
    ADD(out, "data: ");
    add_text(a, piece->content, extra, false, out);
    add_probabilities(logprobs, out);
    ADD(out, "}\n\n");
}

/* There is one choice: its end is the stream's. */
static void finish(struct answer *a, const struct choice *c, struct buf *out) {
    (void)a, (void)c, (void)out;
}

static void end(struct answer *a, struct buf *out) {
    ADD(out, "data: ");
    add_text(a, bytes_of(NULL, 0), bytes_of(NULL, 0), true, out);
    add_end(a, out);
    ADD(out, "\n\n");
}

static void error(struct answer *a, const struct api_error *err, struct buf *out) {
    (void)a;
    ADD(out, "data: ");
    llama_error_write(err, out);
    ADD(out, "\n\n");
}

static void whole(struct answer *a, struct buf *out) {
    const struct choice *c = &a->submissions[0].choices[0];
    answer_write_extras(a, c);
    add_text(a, buf_bytes(&c->text), buf_bytes(&a->scratch->extra), true, out);
    add_probabilities(buf_bytes(&a->scratch->entries), out);
    add_end(a, out);
}

const struct answer_form answer_llama = {
    .stream_type = "text/event-stream; charset=utf-8",
    .ping = ": ping\n\n",
    .init = init,
    .settings = settings,
    .begin = begin,
    .text = text,
    .finish = finish,
    .end = end,
    .error = error,
    .whole = whole,
};
