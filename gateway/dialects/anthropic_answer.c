/*
 * The answers of Anthropic's messages: a list of blocks, whole or as named events. One block is
 * open at a time; blocks come in the order in which their text came.
 */
#include "gateway/dialects/anthropic.h"

#include "gateway/answers/answer_calls.h"
#include "gateway/answers/error_response.h"

#define ADD(out, literal) buf_add((out), (literal), sizeof(literal) - 1)

/* ---- parts of both ---- */

/* The head ends where the content begins. */
static void init(struct response_writer *r, enum genreq_dialect dialect, bool stream,
                 struct u128 number, int64_t created_s, struct bytes model) {
    (void)stream;
    (void)created_s; /* no message has a time */
    *r = (struct response_writer){.dialect = dialect};
    response_id(dialect, number, r->id);
    buf_addf(&r->head, "{\"id\":\"%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"",
             r->id);
    buf_add_json(&r->head, model);
    ADD(&r->head, "\",\"content\":[");
}

/* Tokens that were read from the prefix cache are none of input_tokens: the two are summed. */
static void add_usage(const struct answer *a, struct buf *out) {
    struct usage u = answer_usage(a);
    ADD(out, "\"usage\":{\"input_tokens\":");
    buf_add_u64(out, u.prompt_tokens - u.cached_tokens);
    ADD(out, ",\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":");
    buf_add_u64(out, u.cached_tokens);
    ADD(out, ",\"output_tokens\":");
    buf_add_u64(out, u.completion_tokens);
    if (u.reasons) {
        ADD(out, ",\"output_tokens_details\":{\"thinking_tokens\":");
        buf_add_u64(out, u.reasoning_tokens);
        ADD(out, "}");
    }
    if (u.other_fingerprint)
        ADD(out, ",\"other_fingerprint\":true");
    ADD(out, "}");
}

static const char *stop_reason(enum choice_finish finish) {
    switch (finish) {
    case CHOICE_CALLS: return "tool_use";
    case CHOICE_LENGTH:
    case CHOICE_ABORTED:
    case CHOICE_DEADLINE: return "max_tokens";
    default: return "end_turn";
    }
}

static void add_stop(const struct choice *c, struct buf *out) {
    struct bytes stop = choice_stop_text(c);
    ADD(out, "\"stop_reason\":\"");
    buf_add_str(out, stop.len ? "stop_sequence" : stop_reason(choice_reported_finish(c)));
    ADD(out, "\",\"stop_sequence\":");
    if (stop.len) {
        ADD(out, "\"");
        buf_add_json(out, stop);
        ADD(out, "\"");
    } else {
        ADD(out, "null");
    }
}

/* Where calls of a piece go. */
struct call_sink {
    struct answer *a;
    struct buf *out;
};

/* ---- a stream ---- */

#define EVENT(name) "event: " name "\ndata: {\"type\":\"" name "\""

static void begin(struct answer *a, struct buf *out) {
    ADD(out, EVENT("message_start") ",\"message\":");
    buf_add_bytes(out, buf_bytes(&a->writer.head));
    ADD(out, "],\"stop_reason\":null,\"stop_sequence\":null,");
    add_usage(a, out);
    ADD(out, "}}\n\n");
}

static void add_index(const struct answer *a, struct buf *out) {
    ADD(out, ",\"index\":");
    buf_add_u64(out, a->block_count - 1);
}

static void open_delta(const struct answer *a, const char *type, const char *member,
                       struct buf *out) {
    ADD(out, EVENT("content_block_delta"));
    add_index(a, out);
    buf_addf(out, ",\"delta\":{\"type\":\"%s\",\"%s\":\"", type, member);
}

static void add_delta(const struct answer *a, const char *type, const char *member,
                      struct bytes piece, struct buf *out) {
    open_delta(a, type, member, out);
    buf_add_json(out, piece);
    ADD(out, "\"}}\n\n");
}

/* The signature is the answer's id: clients send back no thought without one, and it is not
 * looked at then. */
static void close_block(struct answer *a, struct buf *out) {
    if (a->block == ANSWER_BLOCK_NONE)
        return;
    if (a->block == ANSWER_BLOCK_THINKING)
        add_delta(a, "signature_delta", "signature", bytes_str(a->writer.id), out);
    a->block = ANSWER_BLOCK_NONE;
    ADD(out, EVENT("content_block_stop"));
    add_index(a, out);
    ADD(out, "}\n\n");
}

/* The caller writes the rest of the block, and "}}\n\n" or the like. */
static void open_block(struct answer *a, enum answer_block block, struct buf *out) {
    close_block(a, out);
    a->block = block;
    a->block_count++;
    ADD(out, EVENT("content_block_start"));
    add_index(a, out);
    ADD(out, ",\"content_block\":");
}

static void add_arguments(const struct answer *a, const struct answer_call *call, struct buf *out) {
    if (call->arguments.len)
        add_delta(a, "input_json_delta", "partial_json", buf_bytes(&call->arguments), out);
}

/* More of the call that is open. */
static void add_more(void *ctx, const struct answer_call *call) {
    const struct call_sink *to = ctx;
    if (call->begins)
        return;
    CHECK(to->a->block == ANSWER_BLOCK_CALL);
    add_arguments(to->a, call, to->out);
}

static void add_call(void *ctx, const struct answer_call *call) {
    const struct call_sink *to = ctx;
    struct answer *a = to->a;
    struct buf *out = to->out;
    if (!call->begins)
        return;
    open_block(a, ANSWER_BLOCK_CALL, out);
    ADD(out, "{\"type\":\"tool_use\",\"id\":\"");
    buf_add_json(out, buf_bytes(&call->id));
    ADD(out, "\",\"name\":\"");
    buf_add_json(out, buf_bytes(&call->name));
    ADD(out, "\",\"input\":{}}}\n\n");
    add_arguments(a, call, out);
}

/* The end of the open call comes first and calls that begin come last, so that the call which may
 * go on is always the open block. */
static void text(struct answer *a, const struct choice *c, const struct response_text *piece,
                 struct bytes logprobs, struct bytes extra, struct buf *out) {
    (void)c;
    struct call_sink to = {a, out};
    CHECK(logprobs.len == 0 && extra.len == 0); /* the dialect refuses them */
    answer_each_call(piece->calls, add_more, &to);
    if (piece->reasoning.len) {
        if (a->block != ANSWER_BLOCK_THINKING) {
            open_block(a, ANSWER_BLOCK_THINKING, out);
            ADD(out, "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n");
        }
        add_delta(a, "thinking_delta", "thinking", piece->reasoning, out);
    }
    if (piece->content.len) {
        if (a->block != ANSWER_BLOCK_TEXT) {
            open_block(a, ANSWER_BLOCK_TEXT, out);
            ADD(out, "{\"type\":\"text\",\"text\":\"\"}}\n\n");
        }
        add_delta(a, "text_delta", "text", piece->content, out);
    }
    answer_each_call(piece->calls, add_call, &to);
}

static void finish(struct answer *a, const struct choice *c, struct buf *out) {
    close_block(a, out);
    ADD(out, EVENT("message_delta") ",\"delta\":{");
    add_stop(c, out);
    ADD(out, "},");
    add_usage(a, out);
    ADD(out, "}\n\n");
}

static void end(struct answer *a, struct buf *out) {
    (void)a;
    ADD(out, EVENT("message_stop") "}\n\n");
}

static void error(struct answer *a, const struct api_error *err, struct buf *out) {
    ADD(out, "event: error\ndata: ");
    anthropic_error_write(err, http_request_id(a->http), out);
    ADD(out, "\n\n");
}

/* ---- one object ---- */

static void separate(struct answer *a, struct buf *out) {
    if (a->block_count++)
        ADD(out, ",");
}

static void add_whole_call(void *ctx, const struct answer_call *call) {
    const struct call_sink *to = ctx;
    struct buf *out = to->out;
    separate(to->a, out);
    ADD(out, "{\"type\":\"tool_use\",\"id\":\"");
    buf_add_json(out, buf_bytes(&call->id));
    ADD(out, "\",\"name\":\"");
    buf_add_json(out, buf_bytes(&call->name));
    ADD(out, "\",\"input\":");
    buf_add_bytes(out, buf_bytes(&call->arguments)); /* an object: complete_calls of parse.h */
    ADD(out, "}");
}

static void whole(struct answer *a, struct buf *out) {
    CHECK(a->submission_count == 1 && a->submissions[0].delivery.choice_count == 1);
    const struct choice *c = &a->submissions[0].choices[0];
    buf_add_bytes(out, buf_bytes(&a->writer.head));
    if (c->reasoning.len) {
        separate(a, out);
        ADD(out, "{\"type\":\"thinking\",\"thinking\":\"");
        buf_add_json(out, buf_bytes(&c->reasoning));
        ADD(out, "\",\"signature\":\"");
        buf_add_str(out, a->writer.id);
        ADD(out, "\"}");
    }
    if (c->text.len) {
        separate(a, out);
        ADD(out, "{\"type\":\"text\",\"text\":\"");
        buf_add_json(out, buf_bytes(&c->text));
        ADD(out, "\"}");
    }
    struct call_sink to = {a, out};
    answer_each_call(buf_bytes(&c->calls), add_whole_call, &to);
    ADD(out, "],");
    add_stop(c, out);
    ADD(out, ",");
    add_usage(a, out);
    ADD(out, "}");
}

const struct answer_form answer_anthropic = {
    .stream_type = "text/event-stream; charset=utf-8",
    .ping = EVENT("ping") "}\n\n",
    .has_ids = true,
    .init = init,
    .begin = begin,
    .text = text,
    .finish = finish,
    .end = end,
    .error = error,
    .whole = whole,
};
