/* The answers of OpenAI's chats and completions: chunks of a stream, or one object. */
#include "gateway/answers/answer.h"

#include "formats/json.h"

/* vLLM's return_token_ids: a chat has the prompt's beside its choices, a completion in each. */
static void add_prompt_ids(const struct submission *sub, struct buf *out) {
    buf_add_str(out, ",\"prompt_token_ids\":[");
    for (size_t i = 0; i < sub->prompt.count; i++) {
        if (i)
            buf_add_byte(out, ',');
        buf_add_u64(out, sub->prompt.items[i]);
    }
    buf_add_byte(out, ']');
}

/* Into the object that ends with `end`, where a chat's ids are wanted. */
static void insert_prompt_ids(const struct answer *a, const char *end, struct buf *out) {
    if (!a->token_ids || a->writer.dialect != GENREQ_CHAT)
        return;
    out->len -= strlen(end);
    add_prompt_ids(&a->submissions[0], out);
    buf_add_str(out, end);
}

/* As llama-server says it when it is told to be verbose. */
static void settings(struct answer *a, const struct genreq *g, const struct wire_sampling *s) {
    struct json_writer w;
    if (!g->verbose)
        return;
    buf_add_str(&a->verbose, ",\"__verbose\":");
    json_writer_init(&w, &a->verbose);
    json_begin_object(&w);
    json_key(&w, "generation_settings");
    json_begin_object(&w);
    json_key(&w, "seed");
    json_uint(&w, s->seed);
    answer_write_settings(g, s, &w);
    json_end_object(&w);
    json_end_object(&w);
}

/* llama.cpp's timings and settings into the last object, where they are wanted. */
static void insert_timings(const struct answer *a, const char *end, struct buf *out) {
    if (!a->timings && !a->verbose.len)
        return;
    out->len -= strlen(end);
    if (a->timings)
        answer_write_timings(a, out);
    buf_add_bytes(out, buf_bytes(&a->verbose));
    buf_add_str(out, end);
}

static void begin(struct answer *a, struct buf *out) {
    for (uint32_t i = 0; i < a->submission_count; i++)
        for (uint32_t j = 0; j < a->submissions[i].delivery.choice_count; j++) {
            response_chunk_begin(&a->writer, a->submissions[i].choices[j].index, out);
            if (i + j == 0)
                insert_prompt_ids(a, "}\n\n", out);
        }
}

static void text(struct answer *a, const struct choice *c, const struct response_text *piece,
                 struct bytes logprobs, struct bytes extra, struct buf *out) {
    struct usage usage;
    if (a->token_ids && a->writer.dialect == GENREQ_COMPLETIONS && c->token_count == 1) {
        add_prompt_ids(answer_submission_of(a, c), &a->scratch->extra);
        extra = buf_bytes(&a->scratch->extra);
    }
    if (a->writer.continuous_usage)
        usage = answer_usage(a);
    response_chunk_text(&a->writer, c->index, piece, logprobs, extra,
                        a->writer.continuous_usage ? &usage : NULL, out);
}

static void progress(struct answer *a, const struct choice *c, const struct prompt_progress *p,
                     struct buf *out) {
    static const char end[] = "}\n\n";
    response_chunk_text(&a->writer, c->index, &(struct response_text){0}, bytes_of(NULL, 0),
                        bytes_of(NULL, 0), NULL, out);
    out->len -= sizeof end - 1;
    answer_write_progress(a, c, p, out);
    buf_add_str(out, end);
}

static void finish(struct answer *a, const struct choice *c, struct buf *out) {
    struct usage usage = answer_usage(a);
    response_chunk_finish(&a->writer, c->index, choice_reported_finish(c), &usage, out);
}

static void end(struct answer *a, struct buf *out) {
    struct usage usage = answer_usage(a);
    if (a->writer.include_usage || a->timings || a->verbose.len)
        response_chunk_usage(&a->writer, a->writer.include_usage ? &usage : NULL, out);
    insert_timings(a, "}\n\n", out);
    response_done(out);
}

static void error(struct answer *a, const struct api_error *err, struct buf *out) {
    (void)a;
    response_chunk_error(err, out);
    response_done(out);
}

/* vLLM's prompt_logprobs, which stand where the prompt's ids do. */
static void add_prompt_logprobs(const struct submission *sub, struct buf *out) {
    buf_add_str(out, ",\"prompt_logprobs\":[");
    buf_add_bytes(out, buf_bytes(&sub->choices[0].prompt_logprobs));
    buf_add_byte(out, ']');
}

static void whole(struct answer *a, struct buf *out) {
    const struct scratch *s = a->scratch;
    struct usage usage = answer_usage(a);
    bool own_prompt = a->writer.dialect == GENREQ_COMPLETIONS;
    response_full_begin(&a->writer, out);
    for (uint32_t i = 0; i < a->submission_count; i++) {
        const struct submission *sub = &a->submissions[i];
        const struct choice *c;
        uint32_t index;
        for (uint32_t k = 0; (c = answer_shown(a, i, k, &index)); k++) {
            answer_write_extras(a, c);
            if (a->token_ids && own_prompt)
                add_prompt_ids(sub, &a->scratch->extra);
            if (a->prompt_logprobs && own_prompt)
                add_prompt_logprobs(sub, &a->scratch->extra);
            const struct response_text all = {buf_bytes(&c->text), buf_bytes(&c->reasoning),
                                              buf_bytes(&c->calls)};
            response_full_choice(&a->writer, index == 0, index, &all, buf_bytes(&s->entries),
                                 buf_bytes(&s->extra), choice_reported_finish(c), out);
        }
    }
    response_full_end(&a->writer, &usage, out);
    insert_prompt_ids(a, "}", out);
    insert_timings(a, "}", out);
    if (a->prompt_logprobs && !own_prompt) {
        out->len--;
        add_prompt_logprobs(&a->submissions[0], out);
        buf_add_byte(out, '}');
    }
}

const struct answer_form answer_openai = {
    .stream_type = "text/event-stream; charset=utf-8",
    .ping = ": ping\n\n",
    .has_ids = true,
    .init = response_init,
    .settings = settings,
    .begin = begin,
    .text = text,
    .progress = progress,
    .finish = finish,
    .end = end,
    .error = error,
    .whole = whole,
};
