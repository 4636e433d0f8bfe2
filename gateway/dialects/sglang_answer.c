/*
 * The answers of SGLang's /generate: an object for each choice, in a list where there are several
 * texts or choices; or a stream of such objects.
 *
 * Each object of a stream has the whole text so far, as SGLang's clients expect. A stream with one
 * for each token would take the square of its length, so one of more than PLAIN_BYTES comes when
 * it has grown by a 64th: then they take some 64 times the answer's length, however long it is.
 *
 * Source: github.com/sgl-project/sglang, docs/basic_usage/native_api.ipynb.
 */
#include "gateway/dialects/sglang.h"

#include "gateway/answers/answer.h"

#define ADD(out, literal) buf_add((out), (literal), sizeof(literal) - 1)
enum { PLAIN_BYTES = 8192, GROWS_BY = 64 };

/* What was said of a choice that streams. */
struct told {
    struct buf text, ids, logprobs, top;
    struct buf input, input_top; /* of the prompt's tokens; empty in a stream */
    size_t len;                  /* bytes of these in the last object */
};

struct sglang_state {
    bool list;                    /* an answer in one piece is a list */
    bool many;                    /* a stream is of several choices: each object has its index */
    bool top;                     /* alternatives were asked for */
    char id[GENREQ_NAME_MAX + 1]; /* of the request; empty: the answer's */
    struct told *told;            /* by the choice's index; NULL: no stream */
    uint32_t told_count;
};

void sglang_state_free(struct sglang_state **state) {
    struct sglang_state *s = *state;
    if (!s)
        return;
    for (uint32_t i = 0; i < s->told_count; i++) {
        buf_release(&s->told[i].text);
        buf_release(&s->told[i].ids);
        buf_release(&s->told[i].logprobs);
        buf_release(&s->told[i].top);
    }
    mem_free(s->told);
    mem_free(s);
    *state = NULL;
}

static void init(struct response_writer *r, enum genreq_dialect dialect, bool stream,
                 struct u128 number, int64_t created_s, struct bytes model) {
    (void)stream, (void)created_s, (void)model;
    *r = (struct response_writer){.dialect = dialect};
    response_id(dialect, number, r->id);
}

static void settings(struct answer *a, const struct genreq *g, const struct wire_sampling *s) {
    (void)s;
    CHECK(!a->sglang && g->request_id.len < sizeof a->sglang->id);
    a->sglang = mem_calloc(1, sizeof *a->sglang);
    a->sglang->list = g->answers_list;
    a->sglang->many = g->prompt_count * (uint64_t)g->choice_count > 1;
    a->sglang->top = g->top_logprobs > 0;
    if (g->request_id.len)
        memcpy(a->sglang->id, g->request_id.data, g->request_id.len);
}

/* ---- an object ---- */

static void add_finish(const struct choice *c, struct buf *out) {
    struct bytes word = choice_stop_text(c);
    switch (choice_reported_finish(c)) {
    case CHOICE_RUNNING: ADD(out, "null"); return;
    case CHOICE_LENGTH:
        buf_addf(out, "{\"type\":\"length\",\"length\":%u}", c->token_count);
        return;
    case CHOICE_ERROR:
    case CHOICE_ABORTED:
    case CHOICE_DEADLINE:
        buf_addf(out, "{\"type\":\"abort\",\"message\":\"%s\"}", choice_finish_text(c->finish));
        return;
    default: break;
    }
    ADD(out, "{\"type\":\"stop\",\"matched\":");
    if (word.len) {
        ADD(out, "\"");
        buf_add_json(out, word);
        ADD(out, "\"");
    } else if (c->has_stop_token) {
        buf_add_u64(out, c->stop_token);
    } else { /* its constraint is done */
        ADD(out, "null");
    }
    ADD(out, "}");
}

static void add_member(const char *name, const struct buf *value, struct buf *out) {
    buf_addf(out, ",\"%s\":[", name);
    buf_add_bytes(out, buf_bytes(value));
    ADD(out, "]");
}

/* What of the choice is so far, without the object's last brace. */
static void add_object(const struct answer *a, const struct choice *c, const struct told *t,
                       struct buf *out) {
    const struct sglang_state *s = a->sglang;
    const struct submission *sub = answer_submission_of(a, c);
    ADD(out, "{\"text\":\"");
    buf_add_json(out, buf_bytes(&t->text));
    ADD(out, "\"");
    add_member("output_ids", &t->ids, out);
    ADD(out, ",\"meta_info\":{\"id\":\"");
    buf_add_json(out, bytes_str(*s->id ? s->id : a->writer.id));
    ADD(out, "\",\"finish_reason\":");
    add_finish(c, out);
    buf_addf(out, ",\"prompt_tokens\":%zu,\"completion_tokens\":%u,\"cached_tokens\":%u",
             sub->prompt.count, c->token_count, sub->cached_tokens);
    if (a->logprobs) {
        add_member("input_token_logprobs", &t->input, out);
        if (s->top)
            add_member("input_top_logprobs", &t->input_top, out);
        add_member("output_token_logprobs", &t->logprobs, out);
        if (s->top)
            add_member("output_top_logprobs", &t->top, out);
    }
    if (a->times.end_us)
        buf_addf(out, ",\"e2e_latency\":%.6f",
                 (double)(a->times.end_us - a->times.start_us) * 1e-6);
    ADD(out, "}");
}

static void add_item(struct buf *list, struct bytes items) {
    if (list->len && items.len)
        ADD(list, ",");
    buf_add_bytes(list, items);
}

/* extra: ,"token_ids":[...] */
static struct bytes ids_of(struct bytes extra) {
    static const char before[] = ",\"token_ids\":[";
    size_t skip = sizeof before - 1;
    CHECK(extra.len > skip);
    return bytes_of(extra.data + skip, extra.len - skip - 1);
}

/* ---- the form ---- */

static void begin(struct answer *a, struct buf *out) {
    (void)out;
    struct sglang_state *s = a->sglang;
    for (uint32_t i = 0; i < a->submission_count; i++)
        s->told_count += a->submissions[i].delivery.choice_count;
    s->told = mem_calloc(s->told_count, sizeof *s->told);
}

static size_t told_len(const struct told *t) {
    return t->text.len + t->ids.len + t->logprobs.len + t->top.len;
}

static void add_event(struct answer *a, const struct choice *c, struct told *t, struct buf *out) {
    ADD(out, "data: ");
    add_object(a, c, t, out);
    if (a->sglang->many)
        buf_addf(out, ",\"index\":%u", c->index);
    ADD(out, "}\n\n");
    t->len = told_len(t);
    a->is_short |= t->text.failed || t->ids.failed || t->logprobs.failed || t->top.failed;
}

static void text(struct answer *a, const struct choice *c, const struct response_text *piece,
                 struct bytes logprobs, struct bytes extra, struct buf *out) {
    CHECK(c->index < a->sglang->told_count);
    struct told *t = &a->sglang->told[c->index];
    struct bytes own, top;
    response_logprobs_split(logprobs, &own, &top);
    buf_add_bytes(&t->text, piece->content);
    add_item(&t->ids, ids_of(extra));
    add_item(&t->logprobs, own);
    add_item(&t->top, top);
    if (t->len < PLAIN_BYTES || told_len(t) - t->len >= t->len / GROWS_BY)
        add_event(a, c, t, out);
}

static void finish(struct answer *a, const struct choice *c, struct buf *out) {
    add_event(a, c, &a->sglang->told[c->index], out);
}

static void end(struct answer *a, struct buf *out) {
    (void)a;
    response_done(out);
}

static void error(struct answer *a, const struct api_error *err, struct buf *out) {
    (void)a;
    response_chunk_error(err, out);
    response_done(out);
}

static void add_choice(struct answer *a, const struct choice *c, struct buf *out) {
    struct told t = {.text = c->text};
    struct bytes own, top;
    answer_write_extras(a, c);
    response_logprobs_split(buf_bytes(&a->scratch->entries), &own, &top);
    add_item(&t.ids, ids_of(buf_bytes(&a->scratch->extra)));
    add_item(&t.logprobs, own);
    add_item(&t.top, top);
    const struct buf *prompt = &answer_submission_of(a, c)->choices[0].prompt_logprobs;
    if (prompt->len) {
        struct buf *value = &a->scratch->entries;
        buf_reset(value);
        response_logprobs_value(GENREQ_GENERATE, buf_bytes(prompt), value);
        a->is_short |= value->failed;
        response_logprobs_split(value->failed ? bytes_of(NULL, 0) : buf_bytes(value), &own, &top);
        add_item(&t.input, own);
        add_item(&t.input_top, top);
    }
    add_object(a, c, &t, out);
    ADD(out, "}");
    a->is_short |=
        t.ids.failed || t.logprobs.failed || t.top.failed || t.input.failed || t.input_top.failed;
    buf_release(&t.input);
    buf_release(&t.input_top);
    buf_release(&t.ids);
    buf_release(&t.logprobs);
    buf_release(&t.top);
}

static void whole(struct answer *a, struct buf *out) {
    bool any = false;
    if (a->sglang->list)
        ADD(out, "[");
    for (uint32_t i = 0; i < a->submission_count; i++)
        for (uint32_t j = 0; j < a->submissions[i].delivery.choice_count; j++) {
            if (any)
                ADD(out, ",");
            any = true;
            add_choice(a, &a->submissions[i].choices[j], out);
        }
    if (a->sglang->list)
        ADD(out, "]");
}

const struct answer_form answer_sglang = {
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
