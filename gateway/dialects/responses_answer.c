/*
 * The answers of OpenAI's responses: a list of items (reasoning, message, function_call), whole or
 * as numbered events. One item is open at a time; items come in the order in which their text came.
 *
 * A stream and a whole answer take the same way; of a whole one the events are left out.
 */
#include "base/clock.h"
#include "base/hash.h"
#include "formats/json.h"
#include "gateway/answers/answer_calls.h"
#include "gateway/dialects/responses.h"

#define ADD(out, literal) buf_add((out), (literal), sizeof(literal) - 1)

struct responses_state {
    struct response_store *store; /* borrowed */
    struct u128 number, tenant, address;
    bool keeps, background, summary;
    char number_text[U128_TEXT_MAX];
    struct buf echo;
    uint64_t sequence;        /* of the next event */
    struct buf items;         /* finished, comma-separated */
    struct buf text;          /* of the open item, escaped: a text, a thought or arguments */
    struct buf call_id, name; /* of an open call, escaped */
    struct buf logprobs;      /* of the open text, comma-separated, */
    struct buf pending;       /* and of tokens whose text has not come yet */
    /* for the request that goes on from this one */
    struct buf input_items, turns;
    struct buf thoughts, texts, calls; /* of the assistant's turn, escaped */
    uint32_t turn_count;
    struct kept_response *kept; /* of one in the background: a reference */
};

void responses_state_open(struct answer *a, const struct genreq *g, struct response_store *store,
                          struct u128 number, struct u128 tenant, struct u128 address) {
    struct responses_state *s = mem_alloc(sizeof *s);
    *s = (struct responses_state){.store = store,
                                  .number = number,
                                  .tenant = tenant,
                                  .address = address,
                                  .keeps = g->kept.store,
                                  .background = g->kept.background,
                                  .summary = g->kept.summary};
    u128_text(number, s->number_text);
    buf_add_bytes(&s->echo, g->kept.echo);
    if (s->keeps) {
        buf_add_bytes(&s->input_items, g->kept.items);
        buf_add_bytes(&s->turns, g->kept.turns);
        s->turn_count = g->kept.turn_count;
    }
    a->responses = s;
}

void responses_state_free(struct responses_state **state) {
    struct responses_state *s = *state;
    if (!s)
        return;
    struct buf *const bufs[] = {&s->echo,  &s->items,       &s->text,     &s->call_id,
                                &s->name,  &s->input_items, &s->turns,    &s->thoughts,
                                &s->texts, &s->calls,       &s->logprobs, &s->pending};
    kept_response_put(s->store, s->kept);
    for (size_t i = 0; i < ARRAY_LEN(bufs); i++)
        buf_release(bufs[i]);
    mem_free(s);
    *state = NULL;
}

static void init(struct response_writer *r, enum genreq_dialect dialect, bool stream,
                 struct u128 number, int64_t created_s, struct bytes model) {
    (void)stream;
    *r = (struct response_writer){.dialect = dialect};
    response_id(dialect, number, r->id);
    /* the status stands behind it: what cancels an answer finds it there */
    buf_addf(&r->head, "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%lld,\"model\":\"",
             r->id, (long long)created_s);
    buf_add_json(&r->head, model);
    ADD(&r->head, "\",\"status\":\"");
}

/* ---- the response object ---- */

static void add_usage(const struct answer *a, struct buf *out) {
    struct usage u = answer_usage(a);
    buf_addf(
        out,
        "{\"input_tokens\":%u,\"input_tokens_details\":{\"cache_write_tokens\":0,\"cached_tokens\":%u},"
        "\"output_tokens\":%u,\"output_tokens_details\":{\"reasoning_tokens\":%u},"
        "\"total_tokens\":%llu",
        u.prompt_tokens, u.cached_tokens, u.completion_tokens, u.reasoning_tokens,
        (unsigned long long)u.prompt_tokens + u.completion_tokens);
    if (u.other_fingerprint)
        ADD(out, ",\"other_fingerprint\":true");
    ADD(out, "}");
}

enum ending { RUNNING, COMPLETED, INCOMPLETE, FAILED };
static const char *const STATUS[] = {"in_progress", "completed", "incomplete", "failed"};

static void add_object(const struct answer *a, enum ending ending, const struct api_error *err,
                       struct buf *out) {
    const struct responses_state *s = a->responses;
    buf_add_bytes(out, buf_bytes(&a->writer.head));
    buf_add_str(out, STATUS[ending]);
    ADD(out, "\",\"completed_at\":");
    if (ending == COMPLETED)
        buf_add_i64(out, wall_ms() / 1000);
    else
        ADD(out, "null");
    ADD(out, ",\"error\":");
    if (ending == FAILED) {
        ADD(out, "{\"code\":\"server_error\",\"message\":\"");
        buf_add_json(out, bytes_str(err->text));
        ADD(out, "\"}");
    } else {
        ADD(out, "null");
    }
    ADD(out, ",\"incomplete_details\":");
    buf_add_str(out, ending == INCOMPLETE ? "{\"reason\":\"max_output_tokens\"}" : "null");
    ADD(out, ",\"output\":[");
    buf_add_bytes(out, buf_bytes(&s->items));
    ADD(out, "],\"usage\":");
    if (ending == RUNNING)
        ADD(out, "null");
    else
        add_usage(a, out);
    buf_add_bytes(out, buf_bytes(&s->echo));
    ADD(out, "}");
}

/* ---- events ---- */

static void begin_event(struct answer *a, const char *type, struct buf *out) {
    buf_addf(out, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%llu", type, type,
             (unsigned long long)a->responses->sequence++);
}

static void end_event(struct buf *out) {
    ADD(out, "}\n\n");
}

static void object_event(struct answer *a, const char *type, enum ending ending,
                         const struct api_error *err, struct buf *out) {
    begin_event(a, type, out);
    ADD(out, ",\"response\":");
    add_object(a, ending, err, out);
    end_event(out);
}

static void begin(struct answer *a, struct buf *out) {
    object_event(a, "response.created", RUNNING, NULL, out);
    object_event(a, "response.in_progress", RUNNING, NULL, out);
}

/* ---- items ---- */

static const char *item_prefix(enum answer_block block) {
    return block == ANSWER_BLOCK_THINKING ? "rs" : block == ANSWER_BLOCK_TEXT ? "msg" : "fc";
}

static void add_item_id(const struct answer *a, const char *member, struct buf *out) {
    buf_addf(out, ",\"%s\":\"%s_%s%02x\"", member, item_prefix(a->block), a->responses->number_text,
             a->block_count - 1);
}

/* Which item an event is of. */
static void add_place(const struct answer *a, struct buf *out) {
    add_item_id(a, "item_id", out);
    buf_addf(out, ",\"output_index\":%u", a->block_count - 1);
}

/* And which part of it. */
static void add_content_place(const struct answer *a, struct buf *out) {
    add_place(a, out);
    bool summary = a->block == ANSWER_BLOCK_THINKING && a->responses->summary;
    buf_add_str(out, summary ? ",\"summary_index\":0" : ",\"content_index\":0");
}

/* done: with the text. */
static void add_content_part(const struct answer *a, bool done, struct buf *out) {
    const struct responses_state *s = a->responses;
    bool text = a->block == ANSWER_BLOCK_TEXT;
    const char *type = text ? "output_text" : s->summary ? "summary_text" : "reasoning_text";
    buf_addf(out, "{\"type\":\"%s\",\"text\":\"", type);
    if (done)
        buf_add_bytes(out, buf_bytes(&s->text));
    ADD(out, "\"");
    if (text) {
        ADD(out, ",\"annotations\":[],\"logprobs\":[");
        if (done)
            buf_add_bytes(out, buf_bytes(&s->logprobs));
        ADD(out, "]");
    }
    ADD(out, "}");
}

/* status: NULL when the item has just begun. */
static void add_item(const struct answer *a, const char *status, struct buf *out) {
    const struct responses_state *s = a->responses;
    const char *told = status ? status : "in_progress";
    ADD(out, "{\"type\":");
    switch (a->block) {
    case ANSWER_BLOCK_THINKING: {
        ADD(out, "\"reasoning\"");
        add_item_id(a, "id", out);
        bool here = status && !s->summary, there = status && s->summary;
        ADD(out, ",\"summary\":[");
        if (there)
            add_content_part(a, true, out);
        ADD(out, "],\"content\":[");
        if (here)
            add_content_part(a, true, out);
        buf_addf(out, "],\"encrypted_content\":null,\"status\":\"%s\"}", told);
        return;
    }
    case ANSWER_BLOCK_TEXT:
        ADD(out, "\"message\"");
        add_item_id(a, "id", out);
        buf_addf(out, ",\"status\":\"%s\",\"role\":\"assistant\",\"content\":[", told);
        if (status)
            add_content_part(a, true, out);
        ADD(out, "]}");
        return;
    default:
        ADD(out, "\"function_call\"");
        add_item_id(a, "id", out);
        buf_addf(out, ",\"status\":\"%s\",\"call_id\":\"", told);
        buf_add_bytes(out, buf_bytes(&s->call_id));
        ADD(out, "\",\"name\":\"");
        buf_add_bytes(out, buf_bytes(&s->name));
        ADD(out, "\",\"arguments\":\"");
        if (status)
            buf_add_bytes(out, buf_bytes(&s->text));
        ADD(out, "\"}");
    }
}

/* What was open goes into the assistant's turn, too. */
static void note_turn(struct answer *a) {
    struct responses_state *s = a->responses;
    if (!s->keeps)
        return;
    switch (a->block) {
    case ANSWER_BLOCK_THINKING: buf_add_bytes(&s->thoughts, buf_bytes(&s->text)); return;
    case ANSWER_BLOCK_TEXT: buf_add_bytes(&s->texts, buf_bytes(&s->text)); return;
    default:
        if (s->calls.len)
            ADD(&s->calls, ",");
        ADD(&s->calls, "{\"id\":\"");
        buf_add_bytes(&s->calls, buf_bytes(&s->call_id));
        ADD(&s->calls, "\",\"type\":\"function\",\"function\":{\"name\":\"");
        buf_add_bytes(&s->calls, buf_bytes(&s->name));
        ADD(&s->calls, "\",\"arguments\":\"");
        buf_add_bytes(&s->calls, buf_bytes(&s->text));
        ADD(&s->calls, "\"}}");
    }
}

/* Names of the events of a kind of item. */
struct event_names {
    const char *content_part_added, *delta, *done, *content_part_done;
    const char *value; /* the member of `done` that has all of it */
};
static const struct event_names *names_of(const struct answer *a) {
    static const struct event_names
        TEXT = {"response.content_part.added", "response.output_text.delta",
                "response.output_text.done", "response.content_part.done", "text"},
        THOUGHT = {"response.content_part.added", "response.reasoning_text.delta",
                   "response.reasoning_text.done", "response.content_part.done", "text"},
        SUMMARY = {"response.reasoning_summary_part.added", "response.reasoning_summary_text.delta",
                   "response.reasoning_summary_text.done", "response.reasoning_summary_part.done",
                   "text"},
        CALL = {NULL, "response.function_call_arguments.delta",
                "response.function_call_arguments.done", NULL, "arguments"};
    switch (a->block) {
    case ANSWER_BLOCK_THINKING: return a->responses->summary ? &SUMMARY : &THOUGHT;
    case ANSWER_BLOCK_TEXT: return &TEXT;
    default: return &CALL;
    }
}

static void content_part_event(struct answer *a, const char *type, bool done, struct buf *out) {
    if (!type)
        return;
    begin_event(a, type, out);
    add_content_place(a, out);
    ADD(out, ",\"part\":");
    add_content_part(a, done, out);
    end_event(out);
}

static void done_event(struct answer *a, struct buf *out) {
    const struct responses_state *s = a->responses;
    const struct event_names *names = names_of(a);
    begin_event(a, names->done, out);
    if (a->block == ANSWER_BLOCK_CALL) {
        add_place(a, out);
        ADD(out, ",\"name\":\"");
        buf_add_bytes(out, buf_bytes(&s->name));
        ADD(out, "\"");
    } else {
        add_content_place(a, out);
    }
    if (a->block == ANSWER_BLOCK_TEXT) {
        ADD(out, ",\"logprobs\":[");
        buf_add_bytes(out, buf_bytes(&s->logprobs));
        ADD(out, "]");
    }
    buf_addf(out, ",\"%s\":\"", names->value);
    buf_add_bytes(out, buf_bytes(&s->text));
    ADD(out, "\"");
    end_event(out);
}

static void item_event(struct answer *a, const char *type, const char *status, struct buf *out) {
    begin_event(a, type, out);
    buf_addf(out, ",\"output_index\":%u,\"item\":", a->block_count - 1);
    add_item(a, status, out);
    end_event(out);
}

static void close_item(struct answer *a, const char *status, struct buf *out) {
    struct responses_state *s = a->responses;
    if (a->block == ANSWER_BLOCK_NONE)
        return;
    if (a->stream) {
        done_event(a, out);
        content_part_event(a, names_of(a)->content_part_done, true, out);
        item_event(a, "response.output_item.done", status, out);
    }
    if (s->items.len)
        ADD(&s->items, ",");
    add_item(a, status, &s->items);
    note_turn(a);
    buf_reset(&s->text);
    buf_reset(&s->logprobs);
    a->block = ANSWER_BLOCK_NONE;
}

static void open_item(struct answer *a, enum answer_block block, struct buf *out) {
    close_item(a, "completed", out);
    a->block = block;
    a->block_count++;
    if (!a->stream)
        return;
    item_event(a, "response.output_item.added", NULL, out);
    content_part_event(a, names_of(a)->content_part_added, false, out);
}

static void add_delta(struct answer *a, struct bytes piece, struct bytes logprobs,
                      struct buf *out) {
    struct responses_state *s = a->responses;
    buf_add_json(&s->text, piece);
    if (!a->stream || !piece.len)
        return;
    begin_event(a, names_of(a)->delta, out);
    if (a->block == ANSWER_BLOCK_CALL)
        add_place(a, out);
    else
        add_content_place(a, out);
    if (a->block == ANSWER_BLOCK_TEXT) {
        ADD(out, ",\"logprobs\":[");
        buf_add_bytes(out, logprobs);
        ADD(out, "]");
    }
    ADD(out, ",\"delta\":\"");
    buf_add_json(out, piece);
    ADD(out, "\"");
    end_event(out);
}

/* ---- pieces ---- */

/* Where calls of a piece go. */
struct call_sink {
    struct answer *a;
    struct buf *out;
};

/* More of the call that is open. */
static void add_more(void *ctx, const struct answer_call *call) {
    const struct call_sink *to = ctx;
    if (call->begins)
        return;
    CHECK(to->a->block == ANSWER_BLOCK_CALL);
    add_delta(to->a, buf_bytes(&call->arguments), bytes_of(NULL, 0), to->out);
}

static void add_call(void *ctx, const struct answer_call *call) {
    const struct call_sink *to = ctx;
    struct responses_state *s = to->a->responses;
    if (!call->begins)
        return;
    close_item(to->a, "completed", to->out);
    buf_reset(&s->call_id);
    buf_reset(&s->name);
    buf_add_json(&s->call_id, buf_bytes(&call->id));
    buf_add_json(&s->name, buf_bytes(&call->name));
    open_item(to->a, ANSWER_BLOCK_CALL, to->out);
    add_delta(to->a, buf_bytes(&call->arguments), bytes_of(NULL, 0), to->out);
}

static void add_content(struct answer *a, struct bytes content, struct bytes logprobs,
                        struct buf *out) {
    struct responses_state *s = a->responses;
    if (logprobs.len > 2) { /* a list; its entries wait for a text */
        if (s->pending.len)
            ADD(&s->pending, ",");
        buf_add(&s->pending, logprobs.data + 1, logprobs.len - 2);
    }
    if (!content.len)
        return;
    if (a->block != ANSWER_BLOCK_TEXT)
        open_item(a, ANSWER_BLOCK_TEXT, out);
    add_delta(a, content, buf_bytes(&s->pending), out);
    if (s->logprobs.len && s->pending.len)
        ADD(&s->logprobs, ",");
    buf_add_bytes(&s->logprobs, buf_bytes(&s->pending));
    buf_reset(&s->pending);
}

/* The end of the open call comes first and calls that begin come last, so that the call which may
 * go on is always the open item. */
static void text(struct answer *a, const struct choice *c, const struct response_text *piece,
                 struct bytes logprobs, struct bytes extra, struct buf *out) {
    struct call_sink to = {a, out};
    (void)c;
    CHECK(extra.len == 0); /* the dialect refuses it */
    answer_each_call(piece->calls, add_more, &to);
    if (piece->reasoning.len) {
        if (a->block != ANSWER_BLOCK_THINKING)
            open_item(a, ANSWER_BLOCK_THINKING, out);
        add_delta(a, piece->reasoning, bytes_of(NULL, 0), out);
    }
    add_content(a, piece->content, logprobs, out);
    answer_each_call(piece->calls, add_call, &to);
}

static bool is_cut(enum choice_finish finish) {
    return finish == CHOICE_LENGTH || finish == CHOICE_DEADLINE || finish == CHOICE_ABORTED;
}

static enum ending ending_of(const struct answer *a) {
    CHECK(a->submission_count == 1 && a->submissions[0].delivery.choice_count == 1);
    enum choice_finish finish = a->submissions[0].choices[0].finish;
    return is_cut(finish) ? INCOMPLETE : COMPLETED;
}

/* An answer has at least one item. */
static void finish(struct answer *a, const struct choice *c, struct buf *out) {
    bool cut = is_cut(c->finish);
    if (a->block_count == 0)
        open_item(a, ANSWER_BLOCK_TEXT, out);
    close_item(a, cut ? "incomplete" : "completed", out);
}

/* ---- what is kept ---- */

/* The assistant's turn, behind the others. */
static void add_turn(struct responses_state *s) {
    struct buf *out = &s->turns;
    ADD(out, ",{\"role\":\"assistant\",\"content\":");
    if (s->texts.len || !s->calls.len) {
        ADD(out, "\"");
        buf_add_bytes(out, buf_bytes(&s->texts));
        ADD(out, "\"");
    } else {
        ADD(out, "null");
    }
    if (s->thoughts.len) {
        ADD(out, ",\"reasoning_content\":\"");
        buf_add_bytes(out, buf_bytes(&s->thoughts));
        ADD(out, "\"");
    }
    if (s->calls.len) {
        ADD(out, ",\"tool_calls\":[");
        buf_add_bytes(out, buf_bytes(&s->calls));
        ADD(out, "]");
    }
    ADD(out, "}");
    s->turn_count++;
}

/* events: the last of a stream. Of an answer in the background they go where it is kept. */
static void keep(struct answer *a, enum ending ending, const struct api_error *err,
                 struct buf *events) {
    struct responses_state *s = a->responses;
    struct buf object = {0};
    if (!s->keeps)
        return;
    add_object(a, ending, err, &object);
    if (ending != FAILED)
        add_turn(s);
    if (s->kept) {
        const struct kept_end last = {.object = buf_bytes(&object),
                                      .turns = &s->turns,
                                      .turn_count = s->turn_count,
                                      .events = buf_bytes(events)};
        kept_response_end(s->store, s->kept, &last);
        buf_reset(events);
    } else {
        const struct kept_contents contents = {.number = s->number,
                                               .tenant = s->tenant,
                                               .address = s->address,
                                               .object = buf_bytes(&object),
                                               .items = &s->input_items,
                                               .turns = &s->turns,
                                               .turn_count = s->turn_count};
        kept_response_put(s->store, response_store_add(s->store, &contents));
    }
    buf_release(&object);
}

struct kept_response *responses_keep_running(struct answer *a) {
    struct responses_state *s = a->responses;
    struct buf object = {0};
    CHECK(s->background && !s->kept);
    add_object(a, RUNNING, NULL, &object);
    const struct kept_contents contents = {.number = s->number,
                                           .tenant = s->tenant,
                                           .address = s->address,
                                           .object = buf_bytes(&object),
                                           .items = &s->input_items,
                                           .running = true,
                                           .streams = a->stream};
    s->kept = response_store_add(s->store, &contents);
    buf_release(&object);
    return s->kept ? response_store_find(s->store, s->number, s->tenant) : NULL;
}

void responses_put(struct answer *a, struct bytes events) {
    const struct responses_state *s = a->responses;
    if (s->kept)
        kept_response_append(s->store, s->kept, events);
}

bool responses_is_dropped(const struct answer *a) {
    const struct responses_state *s = a->responses;
    return s && s->kept && kept_response_is_dropped(s->store, s->kept);
}

/* ---- the end ---- */

static void end(struct answer *a, struct buf *out) {
    enum ending ending = ending_of(a);
    object_event(a, ending == COMPLETED ? "response.completed" : "response.incomplete", ending,
                 NULL, out);
    keep(a, ending, NULL, out);
}

static void error(struct answer *a, const struct api_error *err, struct buf *out) {
    close_item(a, "incomplete", out);
    if (a->stream)
        object_event(a, "response.failed", FAILED, err, out);
    keep(a, FAILED, err, out);
}

static void whole(struct answer *a, struct buf *out) {
    const struct choice *c = &a->submissions[0].choices[0];
    const struct response_text all = {buf_bytes(&c->text), buf_bytes(&c->reasoning),
                                      buf_bytes(&c->calls)};
    enum ending ending = ending_of(a);
    answer_write_extras(a, c);
    text(a, c, &all, buf_bytes(&a->scratch->entries), bytes_of(NULL, 0), out);
    finish(a, c, out);
    keep(a, ending, NULL, out);
    add_object(a, ending, NULL, out);
}

const struct answer_form answer_responses = {
    .stream_type = "text/event-stream; charset=utf-8",
    .ping = ": ping\n\n",
    .init = init,
    .begin = begin,
    .text = text,
    .finish = finish,
    .end = end,
    .error = error,
    .whole = whole,
};
