/*
 * The answers of TGI's /generate, /generate_stream and /: an object (in a list of one, from /), or
 * a stream with an event for each token, the last of which has the whole text.
 *
 * The last token of a stream waits for what ends the choice, as its event tells that too. A choice
 * that ends without a token of its own (a deadline, a constraint that is stuck) has an event more.
 *
 * Source: github.com/huggingface/text-generation-inference, docs/openapi.json.
 */
#include "gateway/dialects/tgi.h"

#include "gateway/answers/answer.h"
#include "gateway/answers/error_response.h"

#define ADD(out, literal) buf_add((out), (literal), sizeof(literal) - 1)

struct tgi_state {
    bool list, details, full_text, has_seed, top;
    uint64_t seed;
    struct buf prompt; /* what the text begins with, where it is asked for */
    /* of a stream */
    struct buf said; /* its text so far */
    uint32_t index;  /* events so far */
    /* the last token, whose event is not out: what is known of it, its text, its alternatives */
    bool waits;
    struct buf token, text, alternatives;
};

void tgi_state_free(struct tgi_state **state) {
    struct tgi_state *s = *state;
    if (!s)
        return;
    buf_release(&s->prompt);
    buf_release(&s->said);
    buf_release(&s->token);
    buf_release(&s->text);
    buf_release(&s->alternatives);
    mem_free(s);
    *state = NULL;
}

static void init(struct response_writer *r, enum genreq_dialect dialect, bool stream,
                 struct u128 number, int64_t created_s, struct bytes model) {
    (void)stream, (void)created_s, (void)model;
    *r = (struct response_writer){.dialect = dialect};
    response_id(dialect, number, r->id);
}

static void settings(struct answer *a, const struct genreq *g,
                     const struct wire_sampling *sampling) {
    CHECK(!a->tgi && g->prompt_count == 1);
    struct tgi_state *s = mem_calloc(1, sizeof *s);
    a->tgi = s;
    s->list = g->answers_list;
    s->details = g->tgi.details;
    s->full_text = g->tgi.full_text;
    s->has_seed = sampling->temperature > 0;
    s->seed = sampling->seed;
    s->top = g->top_logprobs > 0;
    if (s->full_text)
        buf_add_bytes(&s->prompt, g->prompts[0].text);
    a->is_short |= s->prompt.failed;
}

/* ---- parts of an answer ---- */

static const char *finish_reason(const struct choice *c) {
    switch (c->finish) {
    case CHOICE_STOP: return choice_stop_text(c).len ? "stop_sequence" : "eos_token";
    default: return "length";
    }
}

static void add_text(const struct answer *a, struct bytes text, struct buf *out) {
    ADD(out, "\"");
    buf_add_json(out, buf_bytes(&a->tgi->prompt));
    buf_add_json(out, text);
    ADD(out, "\"");
}

/* The members that tell how a choice ended. */
static void add_end(const struct answer *a, const struct choice *c, struct buf *out) {
    buf_addf(out, "\"finish_reason\":\"%s\",\"generated_tokens\":%u,\"seed\":", finish_reason(c),
             c->token_count);
    if (a->tgi->has_seed)
        buf_add_u64(out, a->tgi->seed);
    else
        ADD(out, "null");
}

/* ---- a stream ---- */

static void begin(struct answer *a, struct buf *out) {
    (void)out;
    CHECK(a->submission_count == 1 && a->submissions[0].delivery.choice_count == 1);
}

/* The event of the token that waits, but for its last two members and its brace. */
static void add_event(struct answer *a, struct buf *out) {
    struct tgi_state *s = a->tgi;
    buf_addf(out, "data:{\"index\":%u,\"token\":{", ++s->index);
    buf_add_bytes(out, buf_bytes(&s->token));
    ADD(out, ",\"text\":\"");
    buf_add_json(out, buf_bytes(&s->text));
    ADD(out, "\"}");
    if (s->top) {
        ADD(out, ",\"top_tokens\":");
        buf_add_bytes(out, buf_bytes(&s->alternatives));
    }
    a->is_short |= s->token.failed || s->text.failed || s->alternatives.failed || s->said.failed;
    s->waits = false;
}

/* own: {"id":..,"logprob":..,"special":..,"text":..}; its text is what became certain with it
 * instead, so that the texts of a stream are the whole text. */
static void keep_token(struct tgi_state *s, struct bytes own, struct bytes top) {
    static const char before_text[] = ",\"text\":";
    const uint8_t *cut = memmem(own.data, own.len, before_text, sizeof before_text - 1);
    CHECK(cut && own.data[0] == '{');
    buf_reset(&s->token);
    buf_reset(&s->text);
    buf_reset(&s->alternatives);
    buf_add(&s->token, own.data + 1, (size_t)(cut - own.data) - 1);
    buf_add_bytes(&s->alternatives, top);
    s->waits = true;
}

static void text(struct answer *a, const struct choice *c, const struct response_text *piece,
                 struct bytes logprobs, struct bytes extra, struct buf *out) {
    struct tgi_state *s = a->tgi;
    struct bytes own, top;
    (void)extra;
    response_logprobs_split(logprobs, &own, &top);
    if (own.len)
        keep_token(s, own, top);
    else if (!s->waits)
        buf_reset(&s->text);
    buf_add_bytes(&s->text, piece->content);
    buf_add_bytes(&s->said, piece->content);
    bool last = c->finish != CHOICE_RUNNING || c->token_count >= a->submissions[0].max_tokens;
    if (last || !own.len)
        return;
    add_event(a, out);
    ADD(out, ",\"generated_text\":null,\"details\":null}\n\n");
    buf_reset(&s->text);
}

static void finish(struct answer *a, const struct choice *c, struct buf *out) {
    struct tgi_state *s = a->tgi;
    if (!s->waits) { /* no token of its own: the one before, with what was held back */
        buf_reset(&s->token);
        ADD(&s->token, "\"id\":0,\"logprob\":0,\"special\":true");
        buf_reset(&s->alternatives);
        ADD(&s->alternatives, "[]");
    }
    add_event(a, out);
    ADD(out, ",\"generated_text\":");
    add_text(a, buf_bytes(&s->said), out);
    ADD(out, ",\"details\":{");
    add_end(a, c, out);
    buf_addf(out, ",\"input_length\":%zu}}\n\n", a->submissions[0].prompt.count);
}

static void end(struct answer *a, struct buf *out) {
    (void)a, (void)out;
}

static void error(struct answer *a, const struct api_error *err, struct buf *out) {
    (void)a;
    ADD(out, "data:");
    tgi_error_write(err, out);
    ADD(out, "\n\n");
}

/* ---- one object ---- */

/* The members tokens and top_tokens of a choice. */
static void add_tokens(struct answer *a, const struct choice *c, struct buf *out) {
    struct bytes own, top;
    answer_write_extras(a, c);
    response_logprobs_split(buf_bytes(&a->scratch->entries), &own, &top);
    ADD(out, ",\"prefill\":[");
    buf_add_bytes(out, buf_bytes(&a->submissions[0].choices[0].prompt_logprobs));
    ADD(out, "],\"tokens\":[");
    buf_add_bytes(out, own);
    ADD(out, "]");
    if (!a->tgi->top)
        return;
    ADD(out, ",\"top_tokens\":[");
    buf_add_bytes(out, top);
    ADD(out, "]");
}

/* The texts that were not the best. */
static void add_others(struct answer *a, const struct choice *best, struct buf *out) {
    const struct submission *sub = &a->submissions[0];
    bool any = false;
    ADD(out, ",\"best_of_sequences\":[");
    for (uint32_t i = 0; i < sub->delivery.choice_count; i++) {
        const struct choice *c = &sub->choices[i];
        if (c == best)
            continue;
        if (any)
            ADD(out, ",");
        any = true;
        ADD(out, "{\"generated_text\":");
        add_text(a, buf_bytes(&c->text), out);
        ADD(out, ",");
        add_end(a, c, out);
        add_tokens(a, c, out);
        ADD(out, "}");
    }
    ADD(out, "]");
}

static void whole(struct answer *a, struct buf *out) {
    uint32_t index;
    const struct choice *c = answer_shown(a, 0, 0, &index);
    buf_add_str(out, a->tgi->list ? "[{" : "{");
    ADD(out, "\"generated_text\":");
    add_text(a, buf_bytes(&c->text), out);
    if (a->tgi->details) {
        ADD(out, ",\"details\":{");
        add_end(a, c, out);
        add_tokens(a, c, out);
        if (a->best_count)
            add_others(a, c, out);
        ADD(out, "}");
    }
    ADD(out, "}");
    if (a->tgi->list)
        ADD(out, "]");
}

const struct answer_form answer_tgi = {
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
