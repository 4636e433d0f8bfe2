#include "text/parse/internal.h"

/* ---- putting out ---- */

void outlet_flush(struct outlet *o, const struct parse_sink *sink) {
    if (o->space.len)
        sink->text(sink->ctx, o->channel, buf_bytes(&o->space));
    buf_reset(&o->space);
}

void outlet_add(struct outlet *o, struct bytes text, const struct parse_sink *sink) {
    size_t from = 0, to = text.len;
    while (o->skip && from < to && is_blank(text.data[from]))
        from++;
    if (from == to)
        return;
    o->skip = false;
    while (o->hold && to > from && is_blank(text.data[to - 1]))
        to--;
    if (to > from) {
        outlet_flush(o, sink);
        sink->text(sink->ctx, o->channel, bytes_of(text.data + from, to - from));
    }
    buf_add(&o->space, text.data + to, text.len - to);
}

static void put_content(struct parser *p, struct bytes text) {
    for (size_t i = 0; i < text.len && !p->begun; i++)
        p->begun = !is_blank(text.data[i]);
    outlet_add(&p->content, text, p->sink);
}

static void begin_call(struct parser *p) {
    buf_reset(&p->pending);
    if (p->thinking)
        buf_reset(&p->reasoning.space);
    p->thinking = false;
    if (p->wrap == WRAP_OPEN)
        p->wrap = WRAP_CALLED;
    buf_reset(&p->content.space); /* white space beside a call is its own */
    p->content.skip = true;
    p->body.put_count++;
    p->call_count++;
}

void parser_emit_call(struct parser *p, struct bytes id, struct bytes name,
                      struct bytes arguments) {
    if (name.len)
        begin_call(p);
    else if (!arguments.len)
        return;
    struct parse_call call = {p->call_count - 1, id, name, arguments};
    p->sink->call(p->sink->ctx, &call);
}

/* ---- marks ---- */

enum match match_mark(struct bytes in, size_t at, const char *mark) {
    size_t len = strlen(mark), have = in.len - at;
    if (memcmp(in.data + at, mark, MIN(len, have)) != 0)
        return MATCH_NONE;
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

static void try_mark(struct found *f, struct bytes in, size_t at, enum mark_kind kind,
                     const char *mark, const struct open_mark *open) {
    if (!mark || f->kind != MARK_NONE)
        return;
    enum match m = match_mark(in, at, mark);
    if (m == MATCH_FULL)
        *f = (struct found){kind, false, mark, open};
    if (m == MATCH_PARTIAL)
        f->partial = true;
}

static void try_marks(struct found *f, struct bytes in, size_t at, enum mark_kind kind,
                      const char *const *marks) {
    for (size_t i = 0; i < PARSE_MARKS; i++)
        try_mark(f, in, at, kind, marks[i], NULL);
}

static const struct call_format *calls_of(const struct parser *p) {
    return p->failures < PARSE_FAILURES_MAX ? p->config.calls : NULL;
}

static void find_call_mark(const struct parser *p, struct bytes in, size_t at, struct found *f) {
    const struct call_format *c = calls_of(p);
    if (!c)
        return;
    if (p->wrap == WRAP_NONE)
        try_marks(f, in, at, MARK_WRAP_OPEN, c->wrap_open);
    bool behind_call = p->call_count && p->content.skip;
    if (p->wrap != WRAP_NONE || behind_call)
        try_marks(f, in, at, MARK_WRAP_CLOSE, c->wrap_close);
    if (behind_call)
        try_mark(f, in, at, MARK_CLOSE, c->close, NULL);
    for (size_t i = 0; i < PARSE_MARKS; i++) {
        const struct open_mark *o = &c->open[i];
        if ((o->start_only && p->begun) || (o->needs_wrap && p->wrap == WRAP_NONE))
            continue;
        try_mark(f, in, at, MARK_OPEN, o->text, o);
    }
}

/* The mark that begins at `at`, as far as it means something in this state. No mark is the
 * beginning of another. */
static struct found find_mark(const struct parser *p, struct bytes in, size_t at) {
    const struct reasoning_format *r = p->config.reasoning;
    struct found f = {0};
    if (p->state == PARSER_REASONING) {
        try_marks(&f, in, at, MARK_THOUGHT, r->close);
        if (calls_of(p) && calls_of(p)->ends_reasoning)
            find_call_mark(p, in, at, &f);
        return f;
    }
    find_call_mark(p, in, at, &f);
    if (r && p->thinking)
        try_marks(&f, in, at, MARK_THOUGHT, r->close);
    if (r && (r->anywhere || (!p->reasoned && !p->begun)))
        try_marks(&f, in, at, MARK_THINK, r->open);
    if (r && (r->anywhere || p->reasoned))
        try_marks(&f, in, at, MARK_DROP, r->drop);
    return f;
}

static void note_firsts(struct parser *p, const char *const *marks, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (marks[i])
            p->firsts[(uint8_t)marks[i][0]] = true;
}

static void init_firsts(struct parser *p) {
    const struct reasoning_format *r = p->config.reasoning;
    const struct call_format *c = p->config.calls;
    if (r) {
        note_firsts(p, r->open, PARSE_MARKS);
        note_firsts(p, r->close, PARSE_MARKS);
        note_firsts(p, r->drop, PARSE_MARKS);
    }
    if (!c)
        return;
    note_firsts(p, c->wrap_open, PARSE_MARKS);
    note_firsts(p, c->wrap_close, PARSE_MARKS);
    note_firsts(p, &c->close, 1);
    for (size_t i = 0; i < PARSE_MARKS; i++)
        note_firsts(p, &c->open[i].text, 1);
}

/* ---- text outside of calls ---- */

/* What looked like a call is none: it and what follows belong where the text before it went. */
static void go_on_thinking(struct parser *p) {
    p->state = PARSER_REASONING;
    p->thinking = p->reasoned = false;
}

void parser_unread(struct parser *p, struct bytes text) {
    if (p->thinking)
        go_on_thinking(p);
    if (p->state == PARSER_REASONING)
        outlet_add(&p->reasoning, text, p->sink);
    else
        put_content(p, text);
}

void parser_drop_wrap(struct parser *p) {
    if (p->wrap == WRAP_OPEN)
        p->wrap = WRAP_NONE;
    if (p->pending.len)
        parser_unread(p, buf_bytes(&p->pending));
    buf_reset(&p->pending);
}

static void put_text(struct parser *p, struct bytes text) {
    size_t blank = 0;
    if (p->state == PARSER_REASONING) {
        outlet_add(&p->reasoning, text, p->sink);
        return;
    }
    while (blank < text.len && is_blank(text.data[blank]))
        blank++;
    if (p->wrap == WRAP_OPEN) {
        buf_add(&p->pending, text.data, blank);
        text = bytes_from(text, blank);
        if (text.len)
            parser_drop_wrap(p);
    }
    if (text.len)
        parser_unread(p, text);
}

static void end_reasoning(struct parser *p, bool by_call) {
    p->thinking = by_call;
    if (!by_call)
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
    p->body = (struct body){0};
}

/* Takes a mark; returns how many bytes of it are done with. */
static size_t take_mark(struct parser *p, const struct found *f) {
    size_t len = strlen(f->text);
    if (f->kind == MARK_THOUGHT)
        parser_drop_wrap(p);
    if (p->state == PARSER_REASONING)
        end_reasoning(p, f->kind != MARK_THOUGHT);
    switch (f->kind) {
    case MARK_WRAP_OPEN:
        p->wrap = WRAP_OPEN;
        buf_add(&p->pending, f->text, len);
        break;
    case MARK_WRAP_CLOSE:
        if (p->wrap == WRAP_OPEN) {
            buf_add(&p->pending, f->text, len);
            parser_drop_wrap(p);
        }
        p->wrap = WRAP_NONE;
        break;
    case MARK_OPEN: open_call(p, f->open); return len - f->open->keep;
    case MARK_THINK:
        parser_drop_wrap(p);
        buf_reset(&p->content.space);
        p->state = PARSER_REASONING;
        p->reasoning.skip = true;
        break;
    default: break; /* left out */
    }
    return len;
}

/* True when calls need no mark: "{...}; {...}". */
static bool has_bare_calls(const struct call_format *f) {
    return (f->open[0].keep && f->open[0].start_only) ||
           (f->open[1].keep && (f->open[1].start_only || f->open[1].known_only));
}

/* What separates bare calls. */
static bool is_separator(const struct parser *p, uint8_t c) {
    const struct call_format *f = calls_of(p);
    return (c == ';' || c == ',') && f && p->state == PARSER_PLAIN && p->call_count &&
           p->content.skip && has_bare_calls(f);
}

/* What is put out before a mark may decide what the mark means. */
static bool depends_on_before(const struct parser *p) {
    return p->state == PARSER_PLAIN && (!p->begun || p->content.skip || p->wrap == WRAP_OPEN);
}

/* Text up to the next mark. False: nothing more can be decided. */
static bool run_text(struct parser *p, bool last) {
    struct bytes in = parser_undecided(p);
    struct found f = {0};
    size_t i = 0;
    for (; i < in.len; i++) {
        bool separator = is_separator(p, in.data[i]);
        if (!separator && !p->firsts[in.data[i]])
            continue;
        if (i > 0 && depends_on_before(p))
            break;
        if (separator) {
            p->at++;
            return true;
        }
        f = find_mark(p, in, i);
        if (f.kind != MARK_NONE || (f.partial && !last))
            break;
    }
    if (i > 0)
        put_text(p, bytes_of(in.data, i));
    size_t done = i;
    if (f.kind != MARK_NONE)
        done += take_mark(p, &f);
    p->at += done;
    return done > 0 || f.kind != MARK_NONE;
}

/* ---- the parser ---- */

bool parser_is_harmony(const struct parser *p) {
    return (p->config.reasoning && p->config.reasoning->harmony) ||
           (p->config.calls && p->config.calls->harmony);
}

struct parser *parser_new(const struct parse_config *config) {
    CHECK(config);
    struct parser *p = mem_alloc(sizeof *p);
    p->config = *config;
    p->reader.tools = config->tools;
    p->reasoning = (struct outlet){.channel = PARSE_REASONING, .hold = true, .skip = true};
    p->content = (struct outlet){.channel = PARSE_CONTENT, .hold = config->calls != NULL};
    if (config->reasoning && config->in_reasoning)
        p->state = PARSER_REASONING;
    if (config->in_call && call_format_frames_content(config->calls)) {
        open_call(p, &config->calls->open[0]);
        p->prompted = true;
    }
    init_firsts(p);
    return p;
}

void parser_free(struct parser **p) {
    if (!*p)
        return;
    struct buf *bufs[] = {&(*p)->held,          &(*p)->pending,     &(*p)->reasoning.space,
                          &(*p)->content.space, &(*p)->reader.made, &(*p)->harmony.header,
                          &(*p)->harmony.body};
    for (size_t i = 0; i < ARRAY_LEN(bufs); i++)
        buf_release(bufs[i]);
    vec_release(&(*p)->reader.calls);
    mem_free(*p);
    *p = NULL;
}

static void run(struct parser *p, const struct parse_sink *sink, bool last) {
    bool more = true;
    p->sink = sink;
    if (parser_is_harmony(p)) {
        harmony_run(p, last);
        return;
    }
    while (more && (p->at < p->held.len || (last && p->state == PARSER_CALL)))
        more = p->state == PARSER_CALL ? parser_run_call(p, last) : run_text(p, last);
    buf_consume(&p->held, p->at);
    p->at = 0;
}

void parser_push(struct parser *p, struct bytes text, const struct parse_sink *sink) {
    CHECK(p && sink);
    buf_add_bytes(&p->held, text);
    run(p, sink, false);
}

void parser_end(struct parser *p, const struct parse_sink *sink) {
    CHECK(p && sink);
    run(p, sink, true);
    parser_drop_wrap(p);
    outlet_flush(&p->reasoning, sink);
    outlet_flush(&p->content, sink);
}

bool parser_is_thinking(const struct parser *p) {
    return parser_is_harmony(p) ? harmony_is_thinking(p) : p->state == PARSER_REASONING;
}

uint32_t parser_call_count(const struct parser *p) {
    return p->call_count;
}
