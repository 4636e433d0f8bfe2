/*
 * The answers of Ollama's /api/chat and /api/generate: one JSON object, or a stream of them, a line
 * each. The last one has counts and durations, in nanoseconds; the prompt's evaluation lasts from
 * the request's hand-over to the scheduler to its first token. created_at is when the generation
 * began, in every line.
 *
 * Source: github.com/ollama/ollama, docs/api.md and api/types.go.
 */
#include "formats/json.h"
#include "gateway/answers/answer.h"
#include "gateway/calls/ollama_models.h"

#define ADD(out, literal) buf_add((out), (literal), sizeof(literal) - 1)

static void init(struct response_writer *r, enum genreq_dialect dialect, bool stream,
                 struct u128 number, int64_t created_s, struct bytes model) {
    (void)stream;
    *r = (struct response_writer){.dialect = dialect};
    response_id(dialect, number, r->id);
    buf_init(&r->head, 0);
    ADD(&r->head, "{\"model\":\"");
    buf_add_json(&r->head, model);
    ADD(&r->head, "\",\"created_at\":\"");
    ollama_add_time(&r->head, created_s);
    ADD(&r->head, "\"");
}

/* ---- texts ---- */

/* A call as OpenAI's API has it: its function with arguments in a string. */
struct told_call {
    uint32_t index;
    struct buf id, name, arguments;
};

static void read_function(struct json_reader *r, struct told_call *call) {
    struct bytes value;
    CHECK(json_expect(r, JSON_OBJECT_BEGIN));
    while (json_next(r) == JSON_KEY) {
        struct buf *to = bytes_equal(r->text, bytes_str("name")) ? &call->name : &call->arguments;
        CHECK(json_read_string(r, &value));
        buf_add_bytes(to, value);
    }
}

/* The members of a call, its beginning just read. */
static void read_call(struct json_reader *r, struct told_call *call) {
    struct bytes value;
    int64_t index;
    buf_reset(&call->id);
    buf_reset(&call->name);
    buf_reset(&call->arguments);
    while (json_next(r) == JSON_KEY) {
        if (bytes_equal(r->text, bytes_str("function"))) {
            read_function(r, call);
        } else if (bytes_equal(r->text, bytes_str("index"))) {
            CHECK(json_read_int64(r, &index));
            call->index = (uint32_t)index;
        } else {
            bool is_id = bytes_equal(r->text, bytes_str("id"));
            CHECK(json_read_string(r, &value));
            if (is_id)
                buf_add_bytes(&call->id, value);
        }
    }
}

/* Calls are whole (answer_form.whole_calls), so arguments are one JSON object. */
static void write_call(const struct told_call *call, struct buf *out) {
    ADD(out, "{\"id\":\"");
    buf_add_json(out, buf_bytes(&call->id));
    ADD(out, "\",\"function\":{\"index\":");
    buf_add_u64(out, call->index);
    ADD(out, ",\"name\":\"");
    buf_add_json(out, buf_bytes(&call->name));
    ADD(out, "\",\"arguments\":");
    buf_add_bytes(out, buf_bytes(&call->arguments));
    ADD(out, "}}");
}

static void add_calls(struct bytes calls, struct buf *out) {
    struct told_call call = {0};
    struct buf list = {0};
    struct json_reader r;
    uint32_t count = 0;
    ADD(&list, "[");
    buf_add_bytes(&list, calls);
    ADD(&list, "]");
    json_reader_init(&r, buf_bytes(&list), 0, 0);
    CHECK(json_expect(&r, JSON_ARRAY_BEGIN));
    ADD(out, ",\"tool_calls\":[");
    for (enum json_event event; (event = json_next(&r)) == JSON_OBJECT_BEGIN; count++) {
        call.index = count; /* where the call does not say its own */
        read_call(&r, &call);
        if (count)
            ADD(out, ",");
        write_call(&call, out);
    }
    ADD(out, "]");
    json_reader_release(&r);
    buf_release(&list);
    buf_release(&call.id);
    buf_release(&call.name);
    buf_release(&call.arguments);
}

static void add_thinking(struct bytes thinking, struct buf *out) {
    if (!thinking.len)
        return;
    ADD(out, ",\"thinking\":\"");
    buf_add_json(out, thinking);
    ADD(out, "\"");
}

static void add_text(const struct answer *a, const struct response_text *text,
                     struct bytes logprobs, struct buf *out) {
    bool chat = a->writer.dialect == GENREQ_OLLAMA_CHAT;
    buf_add(out, a->writer.head.data, a->writer.head.len);
    if (chat)
        ADD(out, ",\"message\":{\"role\":\"assistant\",\"content\":\"");
    else
        ADD(out, ",\"response\":\"");
    buf_add_json(out, text->content);
    ADD(out, "\"");
    add_thinking(text->reasoning, out);
    if (text->calls.len)
        add_calls(text->calls, out);
    if (chat)
        ADD(out, "}");
    if (logprobs.len) {
        ADD(out, ",\"logprobs\":");
        buf_add_bytes(out, logprobs);
    }
}

/* ---- the end ---- */

static void add_duration(const char *name, int64_t us, struct buf *out) {
    buf_addf(out, ",\"%s\":%lld", name, (long long)us * 1000);
}

static void add_end(const struct answer *a, struct buf *out) {
    const struct choice *c = &a->submissions[0].choices[0];
    const struct answer_times *t = &a->times;
    struct usage usage = answer_usage(a);
    /* clients divide by the last two; the clock is read once a turn, so they may be 0 */
    int64_t load_us = t->submit_us - t->start_us, prompt_us = MAX(t->first_us - t->submit_us, 1),
            eval_us = MAX(t->end_us - t->first_us, 1);
    ADD(out, ",\"done\":true,\"done_reason\":\"");
    buf_add_str(out, choice_finish_text(c->finish)); /* of calls too: "stop" */
    ADD(out, "\"");
    add_duration("total_duration", load_us + prompt_us + eval_us, out);
    add_duration("load_duration", load_us, out);
    buf_addf(out, ",\"prompt_eval_count\":%u", usage.prompt_tokens);
    add_duration("prompt_eval_duration", prompt_us, out);
    buf_addf(out, ",\"eval_count\":%u", usage.completion_tokens);
    add_duration("eval_duration", eval_us, out);
    ADD(out, "}\n");
}

/* ---- the form ---- */

static void begin(struct answer *a, struct buf *out) {
    (void)out;
    CHECK(a->submission_count == 1 && a->submissions[0].delivery.choice_count == 1);
}

static void text(struct answer *a, const struct choice *c, const struct response_text *piece,
                 struct bytes logprobs, struct bytes extra, struct buf *out) {
    (void)c;
    CHECK(!extra.len);
    add_text(a, piece, logprobs, out);
    ADD(out, ",\"done\":false}\n");
}

/* There is one choice: its end is the stream's. */
static void finish(struct answer *a, const struct choice *c, struct buf *out) {
    (void)a, (void)c, (void)out;
}

static void end(struct answer *a, struct buf *out) {
    const struct response_text none = {0};
    add_text(a, &none, none.content, out);
    add_end(a, out);
}

static void error(struct answer *a, const struct api_error *err, struct buf *out) {
    (void)a;
    ADD(out, "{\"error\":\"");
    buf_add_json(out, bytes_str(err->text));
    ADD(out, "\"}\n");
}

static void whole(struct answer *a, struct buf *out) {
    const struct choice *c = &a->submissions[0].choices[0];
    const struct response_text all = {buf_bytes(&c->text), buf_bytes(&c->reasoning),
                                      buf_bytes(&c->calls)};
    answer_write_extras(a, c);
    add_text(a, &all, buf_bytes(&a->scratch->entries), out);
    add_end(a, out);
}

const struct answer_form answer_ollama = {
    .stream_type = "application/x-ndjson",
    .ping = "", /* a line that is no object would be an error to its clients */
    .whole_calls = true,
    .init = init,
    .begin = begin,
    .text = text,
    .finish = finish,
    .end = end,
    .error = error,
    .whole = whole,
};
