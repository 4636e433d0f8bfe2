/*
 * The answers of vLLM's /inference/v1/generate: token ids, with their log-probabilities where they
 * are asked for, as one object or as a stream of objects.
 *
 * Source: github.com/vllm-project/vllm, vllm/entrypoints/serve/disagg/protocol.py.
 */
#include "gateway/answers/answer.h"

#define ADD(out, literal) buf_add((out), (literal), sizeof(literal) - 1)

/* The head is what every object begins with. */
static void init(struct response_writer *r, enum genreq_dialect dialect, bool stream,
                 struct u128 number, int64_t created_s, struct bytes model) {
    (void)stream, (void)created_s, (void)model;
    *r = (struct response_writer){.dialect = dialect};
    response_id(dialect, number, r->id);
}

static void settings(struct answer *a, const struct genreq *g, const struct wire_sampling *s) {
    struct buf *head = &a->writer.head;
    (void)s;
    CHECK(!head->len);
    ADD(head, "{\"request_id\":\"");
    buf_add_json(head, g->request_id.len ? g->request_id : bytes_str(a->writer.id));
    ADD(head, "\",\"choices\":[");
}

/* logprobs: as response_logprobs_value wrote it; extra: ,"token_ids":[...] */
static void add_choice(const struct choice *c, struct bytes logprobs, struct bytes extra,
                       const char *finish, struct buf *out) {
    buf_addf(out, "{\"index\":%u,\"logprobs\":", c->index);
    if (logprobs.len)
        buf_add_bytes(out, logprobs);
    else
        ADD(out, "null");
    buf_addf(out, finish ? ",\"finish_reason\":\"%s\"" : ",\"finish_reason\":null", finish);
    buf_add_bytes(out, extra);
    ADD(out, "}");
}

static void add_usage(const struct answer *a, bool wanted, struct buf *out) {
    struct usage usage = answer_usage(a);
    ADD(out, ",");
    if (wanted)
        response_usage(&usage, out);
    else
        ADD(out, "\"usage\":null");
}

static void begin(struct answer *a, struct buf *out) {
    (void)a, (void)out;
}

static void add_event(const struct answer *a, const struct choice *c, struct bytes logprobs,
                      struct bytes extra, const char *finish, struct buf *out) {
    ADD(out, "data: ");
    buf_add_bytes(out, buf_bytes(&a->writer.head));
    add_choice(c, logprobs, extra, finish, out);
    ADD(out, "]");
    add_usage(a, a->writer.continuous_usage, out);
    ADD(out, "}\n\n");
}

static void text(struct answer *a, const struct choice *c, const struct response_text *piece,
                 struct bytes logprobs, struct bytes extra, struct buf *out) {
    static const char none[] = ",\"token_ids\":[]";
    (void)piece;
    if (extra.len >= sizeof none) /* else text that was held back, and no token */
        add_event(a, c, logprobs, extra, NULL, out);
}

static void finish(struct answer *a, const struct choice *c, struct buf *out) {
    add_event(a, c, bytes_of(NULL, 0), bytes_str(",\"token_ids\":[]"),
              choice_finish_text(choice_reported_finish(c)), out);
}

static void end(struct answer *a, struct buf *out) {
    if (a->writer.include_usage) {
        ADD(out, "data: ");
        buf_add_bytes(out, buf_bytes(&a->writer.head));
        ADD(out, "]");
        add_usage(a, true, out);
        ADD(out, "}\n\n");
    }
    response_done(out);
}

static void error(struct answer *a, const struct api_error *err, struct buf *out) {
    (void)a;
    response_chunk_error(err, out);
    response_done(out);
}

static void whole(struct answer *a, struct buf *out) {
    const struct submission *sub = &a->submissions[0];
    buf_add_bytes(out, buf_bytes(&a->writer.head));
    for (uint32_t i = 0; i < sub->delivery.choice_count; i++) {
        const struct choice *c = &sub->choices[i];
        answer_write_extras(a, c);
        if (i)
            ADD(out, ",");
        add_choice(c, buf_bytes(&a->scratch->entries), buf_bytes(&a->scratch->extra),
                   choice_finish_text(choice_reported_finish(c)), out);
    }
    ADD(out, "],\"prompt_logprobs\":");
    if (a->prompt_logprobs) {
        ADD(out, "[");
        buf_add_bytes(out, buf_bytes(&sub->choices[0].prompt_logprobs));
        ADD(out, "]");
    } else {
        ADD(out, "null");
    }
    ADD(out, ",\"kv_transfer_params\":null}");
}

const struct answer_form answer_tokens = {
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
