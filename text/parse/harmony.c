/*
 * Harmony, the messages of gpt-oss (https://github.com/openai/harmony): an answer is a row of
 * messages, each with a header (channel, recipient, content type) and a body,
 *
 *     <|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>commentary
 *     to=functions.f <|constrain|>json <|message|>{...}<|call|>
 *
 * The channel "analysis" is reasoning, a message to functions.NAME is a call, the rest is content.
 * The prompt ends with <|start|>assistant, so the first header begins in its middle. Text without a
 * header is content.
 */
#include "text/parse/internal.h"

enum { HEADER_MAX = 1024 }; /* what is longer is text */

static const char START[] = "<|start|>", MESSAGE[] = "<|message|>", CHANNEL[] = "<|channel|>";
static const char *const ENDS[] = {"<|end|>", "<|call|>", "<|return|>", START};

/* ---- a message ---- */

static bool is_word_end(struct bytes s, size_t at) {
    return at >= s.len || is_blank(s.data[at]) || s.data[at] == '<';
}

/* The word behind the last such mark in the header. */
static struct bytes word_behind(struct bytes header, const char *mark) {
    size_t at = SIZE_MAX, end, len = strlen(mark);
    for (size_t i = find_bytes(header, bytes_str(mark), 0); i != SIZE_MAX;
         i = find_bytes(header, bytes_str(mark), i + len))
        at = i + len;
    if (at == SIZE_MAX)
        return bytes_of(NULL, 0);
    while (at < header.len && is_blank(header.data[at]))
        at++;
    for (end = at; !is_word_end(header, end);)
        end++;
    return bytes_of(header.data + at, end - at);
}

static bool is_analysis(const struct parser *p) {
    return bytes_equal(word_behind(buf_bytes(&p->harmony.header), CHANNEL), bytes_str("analysis"));
}

bool harmony_is_thinking(const struct parser *p) {
    return p->harmony.state == HARMONY_BODY && p->config.reasoning && is_analysis(p);
}

/* The function a message is for; empty: none. */
static struct bytes recipient(const struct parser *p) {
    struct bytes to = word_behind(buf_bytes(&p->harmony.header), "to=");
    if (!p->config.calls || !begins_with(to, bytes_str("functions.")))
        return bytes_of(NULL, 0);
    return bytes_from(to, strlen("functions."));
}

/* A message to a function is a call from the bracket on that opens its arguments. What is blank at
 * its end is left out. */
static void emit_call_text(struct parser *p, struct bytes function, struct bytes text) {
    struct buf *body = &p->harmony.body;
    size_t blank = 0, begin = 0;
    while (blank < text.len && is_blank(text.data[text.len - 1 - blank]))
        blank++;
    buf_add_bytes(body, text);
    if (p->config.complete_calls || blank == text.len)
        return;
    if (!p->harmony.called) {
        while (is_blank((uint8_t)body->data[begin]))
            begin++;
        buf_consume(body, begin);
        if (body->data[0] != '{' || !is_call_name(function))
            return;
        p->harmony.called = true;
        parser_emit_call(p, bytes_of(NULL, 0), function, bytes_of(NULL, 0));
    }
    parser_emit_call(p, bytes_of(NULL, 0), bytes_of(NULL, 0),
                     bytes_of(body->data, body->len - blank));
    buf_consume(body, body->len - blank);
}

static void emit_text(struct parser *p, struct bytes text) {
    bool reasoning = is_analysis(p) && p->config.reasoning;
    struct bytes function = recipient(p);
    if (function.len)
        emit_call_text(p, function, text);
    else
        outlet_add(reasoning ? &p->reasoning : &p->content, text, p->sink);
    if (reasoning && text.len)
        p->harmony.reasoned = true;
}

static void begin_message(struct parser *p) {
    p->harmony.state = HARMONY_BODY;
    p->harmony.begun = true;
    buf_reset(&p->harmony.body);
    if (is_analysis(p) && p->harmony.reasoned)
        outlet_add(&p->reasoning, bytes_str("\n"), p->sink);
}

static void end_message(struct parser *p) {
    struct bytes function = recipient(p), arguments = strip_blank(buf_bytes(&p->harmony.body));
    bool called = p->harmony.called;
    p->harmony.state = HARMONY_BETWEEN;
    p->harmony.called = false;
    if (!function.len)
        return;
    if (called || (is_call_name(function) && (!arguments.len || json_is_object(arguments)))) {
        if (!called)
            parser_emit_call(p, bytes_of(NULL, 0), function,
                             arguments.len ? arguments : bytes_str("{}"));
        p->content.skip = false;
    } else {
        outlet_add(&p->content, buf_bytes(&p->harmony.body), p->sink);
    }
    buf_reset(&p->harmony.body);
}

/* ---- its marks ---- */

/* Whether text can begin a header, "assistant" included: <|channel|>..., to=..., a mark. */
static enum match looks_like_header(struct bytes text) {
    static const char *const BEGINNINGS[] = {
        CHANNEL, START, MESSAGE, "<|constrain|>", "to=", "assistant<|", "assistant to="};
    enum match best = MATCH_NONE;
    size_t blank = 0;
    while (blank < text.len && is_blank(text.data[blank]))
        blank++;
    if (blank == text.len)
        return MATCH_PARTIAL;
    for (size_t i = 0; i < ARRAY_LEN(BEGINNINGS); i++) {
        enum match m = match_mark(text, blank, BEGINNINGS[i]);
        if (m == MATCH_FULL)
            return m;
        if (m == MATCH_PARTIAL)
            best = m;
    }
    return best;
}

/* Takes text up to one of the marks; *mark is its index, or -1 while it has not come. False: more
 * is needed. */
static bool take_to(struct parser *p, const char *const *marks, size_t count, bool last,
                    struct bytes *text, int *mark) {
    struct bytes in = parser_undecided(p);
    *mark = -1;
    for (size_t i = 0; i < in.len; i++) {
        if (in.data[i] != '<')
            continue;
        bool partial = false;
        *text = bytes_of(in.data, i);
        for (size_t j = 0; j < count; j++) {
            enum match m = match_mark(in, i, marks[j]);
            partial |= m == MATCH_PARTIAL;
            if (m != MATCH_FULL)
                continue;
            *mark = (int)j;
            p->at += i + strlen(marks[j]);
            return true;
        }
        if (!partial || last)
            continue;
        p->at += i;
        return false;
    }
    *text = in;
    p->at = p->held.len;
    return false;
}

static bool run_header(struct parser *p, bool last) {
    static const char *const MARKS[] = {MESSAGE};
    struct bytes text;
    int mark;
    if (!p->harmony.header.len) {
        enum match m = looks_like_header(parser_undecided(p));
        if (m == MATCH_PARTIAL && !last)
            return false;
        if (m != MATCH_FULL) { /* no header: a message of content */
            begin_message(p);
            return true;
        }
    }
    bool more = take_to(p, MARKS, 1, last, &text, &mark);
    buf_add_bytes(&p->harmony.header, text);
    if (mark < 0 && !last)
        return more;
    if (p->harmony.header.len > HEADER_MAX)
        outlet_add(&p->content, buf_bytes(&p->harmony.header), p->sink);
    if (mark < 0 || p->harmony.header.len > HEADER_MAX)
        buf_reset(&p->harmony.header);
    if (mark == 0)
        begin_message(p);
    return more;
}

static bool run_body(struct parser *p, bool last) {
    struct bytes text;
    int mark;
    bool more = take_to(p, ENDS, ARRAY_LEN(ENDS), last, &text, &mark);
    emit_text(p, text);
    if (mark >= 0 || last)
        end_message(p);
    return more;
}

static bool run_between(struct parser *p, bool last) {
    struct bytes in = parser_undecided(p);
    size_t blank = 0;
    while (blank < in.len && is_blank(in.data[blank]))
        blank++;
    if (blank == in.len)
        return false;
    if (match_mark(in, blank, START) == MATCH_PARTIAL && !last)
        return false;
    p->at += blank;
    if (match_mark(in, blank, START) == MATCH_FULL)
        p->at += strlen(START);
    buf_reset(&p->harmony.header);
    p->harmony.state = HARMONY_HEADER;
    return true;
}

void harmony_run(struct parser *p, bool last) {
    bool more = true;
    while (more && (p->at < p->held.len || (last && p->harmony.state == HARMONY_BODY))) {
        switch (p->harmony.state) {
        case HARMONY_HEADER: more = run_header(p, last); break;
        case HARMONY_BODY: more = run_body(p, last); break;
        case HARMONY_BETWEEN: more = run_between(p, last); break;
        }
    }
    buf_consume(&p->held, p->at);
    p->at = 0;
}
