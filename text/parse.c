#include "text/parse_internal.h"

/* ---- putting out ---- */

void outlet_flush(struct outlet *o, const struct parse_sink *sink) {
    if (o->space.len) sink->text(sink->ctx, o->part, buf_bytes(&o->space));
    buf_reset(&o->space);
}

void outlet_add(struct outlet *o, struct bytes text, const struct parse_sink *sink) {
    size_t from = 0, to = text.len;
    while (o->skip && from < to && is_blank(text.data[from])) from++;
    if (from == to) return;
    o->skip = false;
    while (o->hold && to > from && is_blank(text.data[to - 1])) to--;
    if (to > from) {
        outlet_flush(o, sink);
        sink->text(sink->ctx, o->part, bytes_of(text.data + from, to - from));
    }
    buf_add(&o->space, text.data + to, text.len - to);
}

static void put_content(struct parser *p, struct bytes text, const struct parse_sink *sink) {
    for (size_t i = 0; i < text.len && !p->begun; i++) p->begun = !is_blank(text.data[i]);
    outlet_add(&p->content, text, sink);
}

void parser_put_calls(struct parser *p, const struct parse_sink *sink) {
    const char *made = p->reader.made.data;
    for (size_t i = 0; i < p->reader.calls.count; i++) {
        const struct read_call *c = &p->reader.calls.items[i];
        struct parse_call call = {p->call_count++, bytes_of(made + c->id_at, c->id_len),
                                  bytes_of(made + c->name_at, c->name_len),
                                  bytes_of(made + c->arguments_at, c->arguments_len)};
        sink->call(sink->ctx, &call);
    }
    p->reader.calls.count = 0;
    buf_reset(&p->reader.made);
    buf_reset(&p->content.space); /* white space beside a call is its own */
    p->content.skip = true;
}

/* ---- marks ---- */

enum match match_mark(struct bytes in, size_t at, const char *mark) {
    size_t len = strlen(mark), have = in.len - at;
    if (memcmp(in.data + at, mark, MIN(len, have)) != 0) return MATCH_NONE;
    return have < len ? MATCH_PARTIAL : MATCH_FULL;
}

enum mark_kind {
    MARK_NONE,
    MARK_WRAP_OPEN,
    MARK_WRAP_CLOSE,
    MARK_OPEN,
    MARK_CLOSE,
    MARK_THINK,
    MARK_THOUGHT,
    MARK_DROP
};

struct found {
    enum mark_kind kind;
    bool partial;
    const char *text;
    const struct open_mark *open;
};

static void try_mark(struct found *f, struct bytes in, size_t at, enum mark_kind kind, const char *mark,
                     const struct open_mark *open) {
    if (!mark || f->kind != MARK_NONE) return;
    enum match m = match_mark(in, at, mark);
    if (m == MATCH_FULL) *f = (struct found){kind, false, mark, open};
    if (m == MATCH_PARTIAL) f->partial = true;
}

static void try_marks(struct found *f, struct bytes in, size_t at, enum mark_kind kind, const char *const *marks) {
    for (size_t i = 0; i < PARSE_MARKS; i++) try_mark(f, in, at, kind, marks[i], NULL);
}

static const struct call_format *calls_of(const struct parser *p) {
    return p->failures < PARSE_FAILURES_MAX ? p->config.calls : NULL;
}

static void find_call_mark(const struct parser *p, struct bytes in, size_t at, struct found *f) {
    const struct call_format *c = calls_of(p);
    if (!c) return;
    if (p->wrap == WRAP_NONE) try_marks(f, in, at, MARK_WRAP_OPEN, c->wrap_open);
    bool behind_call = p->call_count && p->content.skip;
    if (p->wrap != WRAP_NONE || behind_call) try_marks(f, in, at, MARK_WRAP_CLOSE, c->wrap_close);
    if (behind_call) try_mark(f, in, at, MARK_CLOSE, c->close, NULL);
    for (size_t i = 0; i < PARSE_MARKS; i++) {
        const struct open_mark *o = &c->open[i];
        if ((o->start_only && p->begun) || (o->needs_wrap && p->wrap == WRAP_NONE)) continue;
        try_mark(f, in, at, MARK_OPEN, o->text, o);
    }
}

/* The mark that begins at `at`, as far as it means something in this state. No mark is the beginning of another. */
static struct found find_mark(const struct parser *p, struct bytes in, size_t at) {
    const struct reasoning_format *r = p->config.reasoning;
    struct found f = {0};
    if (p->state == PARSER_REASONING) {
        try_mark(&f, in, at, MARK_THOUGHT, r->close, NULL);
        if (calls_of(p) && calls_of(p)->ends_reasoning) find_call_mark(p, in, at, &f);
        return f;
    }
    find_call_mark(p, in, at, &f);
    if (r && (r->anywhere || (!p->reasoned && !p->begun))) try_mark(&f, in, at, MARK_THINK, r->open, NULL);
    if (r && p->reasoned) try_marks(&f, in, at, MARK_DROP, r->drop);
    return f;
}

static void note_firsts(struct parser *p, const char *const *marks, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (marks[i]) p->firsts[(uint8_t)marks[i][0]] = true;
}

static void init_firsts(struct parser *p) {
    const struct reasoning_format *r = p->config.reasoning;
    const struct call_format *c = p->config.calls;
    if (r) {
        note_firsts(p, &r->open, 1);
        note_firsts(p, &r->close, 1);
        note_firsts(p, r->drop, PARSE_MARKS);
    }
    if (!c) return;
    note_firsts(p, c->wrap_open, PARSE_MARKS);
    note_firsts(p, c->wrap_close, PARSE_MARKS);
    note_firsts(p, &c->close, 1);
    for (size_t i = 0; i < PARSE_MARKS; i++) note_firsts(p, &c->open[i].text, 1);
}

/* ---- text outside of calls ---- */

/* A wrap was opened and something else than a call follows: it was no wrap. */
static void give_up_wrap(struct parser *p, const struct parse_sink *sink) {
    if (p->pending.len) put_content(p, buf_bytes(&p->pending), sink);
    buf_reset(&p->pending);
    if (p->wrap == WRAP_OPEN) p->wrap = WRAP_NONE;
}

static void put_text(struct parser *p, struct bytes text, const struct parse_sink *sink) {
    size_t blank = 0;
    if (p->state == PARSER_REASONING) {
        outlet_add(&p->reasoning, text, sink);
        return;
    }
    while (blank < text.len && is_blank(text.data[blank])) blank++;
    if (p->wrap == WRAP_OPEN) {
        buf_add(&p->pending, text.data, blank);
        text = bytes_from(text, blank);
        if (text.len) give_up_wrap(p, sink);
    }
    if (text.len) put_content(p, text, sink);
}

static void end_reasoning(struct parser *p) {
    buf_reset(&p->reasoning.space);
    p->state = PARSER_PLAIN;
    p->reasoned = true;
    p->content.skip = true;
}

static void open_call(struct parser *p, const struct open_mark *open) {
    p->state = PARSER_CALL;
    p->open = open;
    p->seen = 0;
    p->track = (struct tracker){0};
}

/* Takes a mark; returns how many bytes of it are done with. */
static size_t take_mark(struct parser *p, const struct found *f, const struct parse_sink *sink) {
    size_t len = strlen(f->text);
    if (p->state == PARSER_REASONING) end_reasoning(p);
    switch (f->kind) {
    case MARK_WRAP_OPEN:
        p->wrap = WRAP_OPEN;
        buf_add(&p->pending, f->text, len);
        break;
    case MARK_WRAP_CLOSE:
        if (p->wrap == WRAP_OPEN) {
            buf_add(&p->pending, f->text, len);
            give_up_wrap(p, sink);
        }
        p->wrap = WRAP_NONE;
        break;
    case MARK_OPEN: open_call(p, f->open); return len - f->open->keep;
    case MARK_THINK:
        give_up_wrap(p, sink);
        buf_reset(&p->content.space);
        p->state = PARSER_REASONING;
        p->reasoning.skip = true;
        break;
    default: break; /* left out */
    }
    return len;
}

/* What separates bare calls: "{...}; {...}". */
static bool is_separator(const struct parser *p, uint8_t c) {
    const struct call_format *f = calls_of(p);
    return (c == ';' || c == ',') && f && p->state == PARSER_PLAIN && p->call_count && p->content.skip && !p->begun &&
           (f->open[0].start_only || f->open[1].start_only);
}

static struct bytes undecided(const struct parser *p) { return bytes_from(buf_bytes(&p->held), p->at); }

/* What is put out before a mark may decide what the mark means. */
static bool depends_on_before(const struct parser *p) {
    return p->state == PARSER_PLAIN && (!p->begun || p->content.skip || p->wrap == WRAP_OPEN);
}

/* Text up to the next mark. False: nothing more can be decided. */
static bool run_text(struct parser *p, const struct parse_sink *sink, bool last) {
    struct bytes in = undecided(p);
    struct found f = {0};
    size_t i = 0;
    for (; i < in.len; i++) {
        bool separator = is_separator(p, in.data[i]);
        if (!separator && !p->firsts[in.data[i]]) continue;
        if (i > 0 && depends_on_before(p)) break;
        if (separator) {
            p->at++;
            return true;
        }
        f = find_mark(p, in, i);
        if (f.kind != MARK_NONE || (f.partial && !last)) break;
    }
    if (i > 0) put_text(p, bytes_of(in.data, i), sink);
    size_t done = i;
    if (f.kind != MARK_NONE) done += take_mark(p, &f, sink);
    p->at += done;
    return done > 0 || f.kind != MARK_NONE;
}

/* ---- calls ---- */

static bool is_closing(uint8_t c) { return c == '}' || c == ']' || c == ')'; }
static bool is_opening(uint8_t c) { return c == '{' || c == '[' || c == '('; }

static void track_quoted(struct tracker *t, uint8_t c) {
    if (t->escaped)
        t->escaped = false;
    else if (c == '\\')
        t->escaped = true;
    else if (c == t->quote)
        t->quote = 0;
}

/* Passes one byte of a body. A list counts only where the body begins with it. */
static void track_byte(struct tracker *t, uint8_t c, bool python) {
    bool at_head = t->first == 0;
    if (at_head && !is_blank(c)) t->first = c;
    if (t->quote) {
        track_quoted(t, c);
    } else if (c == '{' || (is_opening(c) && (t->depth || python || (c == '[' && at_head)))) {
        t->depth++;
        t->started = true;
        t->complete = false;
    } else if (t->depth && (c == '"' || (python && c == '\''))) {
        t->quote = c;
    } else if (t->depth && is_closing(c) && --t->depth == 0) {
        t->complete = true;
    }
}

static bool read_body(struct parser *p, struct bytes body) {
    const struct call_format *f = p->config.calls;
    bool ok = false;
    for (size_t i = 0; !ok && i < ARRAY_LEN(f->read) && f->read[i]; i++) {
        p->reader.calls.count = 0;
        buf_reset(&p->reader.made);
        ok = f->read[i](&p->reader, body) && p->reader.calls.count > 0;
    }
    for (size_t i = 0; ok && p->open->start_only && i < p->reader.calls.count; i++) {
        const struct read_call *c = &p->reader.calls.items[i];
        ok = parse_tools_has(p->config.tools, bytes_of(p->reader.made.data + c->name_at, c->name_len));
    }
    return ok;
}

/* It was no call: its mark is text, and what follows is looked at anew. */
static void fail_call(struct parser *p, const struct parse_sink *sink) {
    const char *mark = p->open->text;
    size_t len = strlen(mark);
    p->failures++;
    p->state = PARSER_PLAIN;
    give_up_wrap(p, sink);
    put_content(p, bytes_of(mark, len - p->open->keep), sink);
    if (len > p->open->keep) return;
    put_content(p, bytes_of(undecided(p).data, len), sink);
    p->at += len;
}

/* The body has `len` bytes; `after` more belong to its closing mark. */
static void end_call(struct parser *p, size_t len, size_t after, const struct parse_sink *sink) {
    if (!read_body(p, bytes_of(undecided(p).data, len))) {
        fail_call(p, sink);
        return;
    }
    buf_reset(&p->pending);
    if (p->wrap == WRAP_OPEN) p->wrap = WRAP_CALLED;
    p->state = PARSER_PLAIN;
    parser_put_calls(p, sink);
    p->at += len + after;
}

/* Behind complete JSON: whether a byte cannot belong to the body any more. */
static bool ends_json(uint8_t c) { return !is_blank(c) && c != ',' && c != ';' && !is_opening(c); }

/* Looks for the closing mark at `at`: its length, 0 when it is none, SIZE_MAX when that is not decided. */
static size_t closing_mark(const struct parser *p, struct bytes in, size_t at) {
    const char *close = p->config.calls->close;
    if (p->track.quote || !close) return 0;
    enum match m = match_mark(in, at, close);
    return m == MATCH_FULL ? strlen(close) : m == MATCH_PARTIAL ? SIZE_MAX : 0;
}

/* Passes one byte of the body; true when the call is over. */
static bool run_call_byte(struct parser *p, struct bytes in, size_t at, const struct parse_sink *sink) {
    enum { HEAD_MAX = 512 };
    const struct call_format *f = p->config.calls;
    struct tracker *t = &p->track;
    bool marked = f->end == BODY_MARK || f->end == BODY_MARK_JSON;
    if (f->end == BODY_MARK && t->complete && ends_json(in.data[at])) {
        end_call(p, at, 0, sink);
        return true;
    }
    if (f->end != BODY_MARK || !t->first || t->first == '{' || t->first == '[')
        track_byte(t, in.data[at], f->end == BODY_PYTHON);
    bool hopeless = (f->may_be && at < HEAD_MAX && !f->may_be(bytes_of(in.data, at + 1))) ||
                    (!marked && !t->started && at >= HEAD_MAX);
    if (hopeless)
        fail_call(p, sink);
    else if (!marked && t->complete)
        end_call(p, at + 1, 0, sink);
    else
        return false;
    return true;
}

/* Passes the body from p->seen on. False: more is needed. */
static bool run_call(struct parser *p, const struct parse_sink *sink, bool last) {
    struct bytes in = undecided(p);
    for (; p->seen < in.len; p->seen++) {
        size_t mark = closing_mark(p, in, p->seen);
        if (mark == SIZE_MAX && !last) return false;
        if (mark && mark != SIZE_MAX) {
            end_call(p, p->seen, mark, sink);
            return true;
        }
        if (run_call_byte(p, in, p->seen, sink)) return true;
    }
    if (last) end_call(p, in.len, 0, sink);
    return last;
}

/* ---- the parser ---- */

bool parser_is_harmony(const struct parser *p) {
    return (p->config.reasoning && p->config.reasoning->harmony) || (p->config.calls && p->config.calls->harmony);
}

struct parser *parser_new(const struct parse_config *config) {
    struct parser *p = mem_alloc(sizeof *p);
    p->config = *config;
    p->reader.tools = config->tools;
    p->reader.format = config->calls;
    p->reasoning = (struct outlet){.part = PARSE_REASONING, .hold = true, .skip = true};
    p->content = (struct outlet){.part = PARSE_CONTENT, .hold = config->calls != NULL};
    if (config->reasoning && config->in_reasoning) p->state = PARSER_REASONING;
    init_firsts(p);
    return p;
}

void parser_free(struct parser **p) {
    if (!*p) return;
    struct buf *bufs[] = {&(*p)->held,        &(*p)->pending,        &(*p)->reasoning.space, &(*p)->content.space,
                          &(*p)->reader.made, &(*p)->harmony.header, &(*p)->harmony.body};
    for (size_t i = 0; i < ARRAY_LEN(bufs); i++) buf_release(bufs[i]);
    vec_release(&(*p)->reader.calls);
    mem_free(*p);
    *p = NULL;
}

static void run(struct parser *p, const struct parse_sink *sink, bool last) {
    bool more = true;
    if (parser_is_harmony(p)) {
        harmony_run(p, sink, last);
        return;
    }
    while (more && (p->at < p->held.len || (last && p->state == PARSER_CALL)))
        more = p->state == PARSER_CALL ? run_call(p, sink, last) : run_text(p, sink, last);
    buf_consume(&p->held, p->at);
    p->at = 0;
}

void parser_push(struct parser *p, struct bytes text, const struct parse_sink *sink) {
    buf_add_bytes(&p->held, text);
    run(p, sink, false);
}

void parser_end(struct parser *p, const struct parse_sink *sink) {
    run(p, sink, true);
    give_up_wrap(p, sink);
    outlet_flush(&p->reasoning, sink);
    outlet_flush(&p->content, sink);
}

uint32_t parser_call_count(const struct parser *p) { return p->call_count; }
