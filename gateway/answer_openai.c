/* The answers of OpenAI's chats and completions: chunks of a stream, or one object. */
#include "gateway/answer.h"

static void begin(struct answer *a, struct buf *out) {
    for (uint32_t i = 0; i < a->submission_count; i++)
        for (uint32_t j = 0; j < a->submissions[i].delivery.choice_count; j++)
            response_chunk_begin(&a->writer, a->submissions[i].choices[j].index, out);
}

static void text(struct answer *a, const struct choice *c, const struct response_text *piece,
                 struct bytes logprobs, struct bytes extra, struct buf *out) {
    struct usage usage;
    if (a->writer.continuous_usage)
        usage = answer_usage(a);
    response_chunk_text(&a->writer, c->index, piece, logprobs, extra,
                        a->writer.continuous_usage ? &usage : NULL, out);
}

static void finish(struct answer *a, const struct choice *c, struct buf *out) {
    struct usage usage = answer_usage(a);
    response_chunk_finish(&a->writer, c->index, choice_reported_finish(c), &usage, out);
}

static void end(struct answer *a, struct buf *out) {
    struct usage usage = answer_usage(a);
    if (a->writer.include_usage)
        response_chunk_usage(&a->writer, &usage, out);
    response_done(out);
}

static void error(struct answer *a, const struct api_error *err, struct buf *out) {
    (void)a;
    response_chunk_error(err, out);
    response_done(out);
}

static void whole(struct answer *a, struct buf *out) {
    const struct scratch *s = a->scratch;
    struct usage usage = answer_usage(a);
    response_full_begin(&a->writer, out);
    for (uint32_t i = 0; i < a->submission_count; i++) {
        const struct submission *sub = &a->submissions[i];
        for (uint32_t j = 0; j < sub->delivery.choice_count; j++) {
            const struct choice *c = &sub->choices[j];
            answer_write_extras(a, c);
            const struct response_text all = {buf_bytes(&c->text), buf_bytes(&c->reasoning),
                                              buf_bytes(&c->calls)};
            response_full_choice(&a->writer, i + j == 0, c->index, &all, buf_bytes(&s->entries),
                                 buf_bytes(&s->extra), choice_reported_finish(c), out);
        }
    }
    response_full_end(&a->writer, &usage, out);
}

const struct answer_form answer_openai = {
    .stream_type = "text/event-stream; charset=utf-8",
    .ping = ": ping\n\n",
    .has_ids = true,
    .init = response_init,
    .begin = begin,
    .text = text,
    .finish = finish,
    .end = end,
    .error = error,
    .whole = whole,
};
