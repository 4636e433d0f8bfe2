/*
 * The body of a call: where it ends, and what of it goes out before that.
 *
 * A body is one of these, told by its first byte:
 *   - an envelope: objects with a name and arguments (text/parse/json.c), one or several or a list;
 *   - named: a head with the name, then the arguments as JSON or as elements (text/parse/markup.c);
 *   - calls that are read value by value (text/parse/python.c, gemma.c);
 *   - anything else, which is read when it is complete.
 * A call goes out as soon as its name is known and its arguments begin, and then its arguments as
 * they come; with parse_config.complete_calls only when it is complete and well formed.
 */
#include "text/parse/internal.h"

enum { HEAD_MAX = 512, OPEN_TRIES_MAX = 8 };

struct bytes parser_undecided(const struct parser *p) {
    return bytes_from(buf_bytes(&p->held), p->at);
}

static struct bytes slice_of(struct bytes in, size_t from, size_t to) {
    return bytes_of(in.data + from, to - from);
}

/* ---- brackets and quotes ---- */

static bool is_closing(uint8_t c) {
    return c == '}' || c == ']' || c == ')';
}
static bool is_opening(uint8_t c) {
    return c == '{' || c == '[' || c == '(';
}

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
    if (at_head && !is_blank(c))
        t->first = c;
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

/* ---- calls on their way out ---- */

bool parser_may_call(const struct parser *p, struct bytes name) {
    const struct open_mark *open = p->open;
    return is_call_name(name) &&
           (!(open->start_only || open->known_only) || parse_tools_has(p->config.tools, name));
}

/* Puts out the calls that were read at once and forgets them; false: there is none, or one for no
 * tool. */
static bool put_read(struct parser *p) {
    const char *made = p->reader.made.data;
    size_t count = p->reader.calls.count;
    bool ok = count > 0;
    for (size_t i = 0; i < count && ok; i++) {
        const struct read_call *c = &p->reader.calls.items[i];
        ok = parser_may_call(p, bytes_of(made + c->name_at, c->name_len));
    }
    for (size_t i = 0; i < count && ok; i++) {
        const struct read_call *c = &p->reader.calls.items[i];
        parser_emit_call(p, bytes_of(made + c->id_at, c->id_len),
                         bytes_of(made + c->name_at, c->name_len),
                         bytes_of(made + c->arguments_at, c->arguments_len));
    }
    p->reader.calls.count = 0;
    buf_reset(&p->reader.made);
    return ok;
}

/* A call's arguments begin at `at`, with the bracket that the tracker has just passed. */
static bool open_arguments(struct parser *p, size_t at, struct bytes id, struct bytes name) {
    name = strip_blank(name);
    if (!parser_may_call(p, name))
        return false;
    parser_emit_call(p, strip_blank(id), name, bytes_of(NULL, 0));
    p->body.begun = true;
    p->body.inside = p->track.depth;
    p->body.sent = at;
    return true;
}

static void send_arguments(struct parser *p, struct bytes in, size_t to) {
    parser_emit_call(p, bytes_of(NULL, 0), bytes_of(NULL, 0), slice_of(in, p->body.sent, to));
    p->body.sent = to;
}

static void close_arguments(struct parser *p, struct bytes in, size_t to) {
    send_arguments(p, in, to);
    p->body.inside = 0;
    p->body.done = to;
}

bool parser_emit_arguments(struct parser *p, struct bytes name, struct bytes piece) {
    if (p->body.begun) {
        parser_emit_call(p, bytes_of(NULL, 0), bytes_of(NULL, 0), piece);
        return true;
    }
    name = strip_blank(name);
    if (!parser_may_call(p, name) || (p->config.complete_calls && !json_is_object(piece)))
        return false;
    parser_emit_call(p, bytes_of(NULL, 0), name, piece);
    p->body.begun = true;
    return true;
}

bool parser_emit_field(struct parser *p, struct bytes name, struct bytes member, bool last) {
    struct buf *piece = &p->reader.made;
    buf_reset(piece);
    if (member.len || !p->body.begun)
        buf_add_str(piece, p->body.begun ? ", " : "{");
    buf_add_bytes(piece, member);
    if (last)
        buf_add_byte(piece, '}');
    return parser_emit_arguments(p, name, buf_bytes(piece));
}

/* What may be left of a body behind its calls: brackets, separators, a fence. */
static bool is_rest(struct bytes text) {
    for (size_t i = 0; i < text.len; i++)
        if (!is_blank(text.data[i]) && !is_closing(text.data[i]) && !strchr(",;`", text.data[i]))
            return false;
    return true;
}

/* ---- envelopes ---- */

/* The tracker's depth inside of an object that is a call. */
static uint32_t item_depth(const struct tracker *t) {
    return t->first == '[' ? 2 : 1;
}

static void try_open(struct parser *p, struct bytes in, size_t at) {
    struct buf name = {0};
    if (json_opens_arguments(slice_of(in, p->body.item_at, at + 1), p->config.calls->envelope,
                             &name))
        (void)!open_arguments(p, at, bytes_of(NULL, 0), buf_bytes(&name));
    buf_release(&name);
}

/* An object that is a call is complete. False: it is none, or something in it is none of a
 * call's. */
static bool end_item(struct parser *p, struct bytes in, size_t to) {
    struct body *b = &p->body;
    struct bytes item = slice_of(in, b->item_at, to);
    bool ok = b->begun ? json_is_object(item) || is_rest(slice_of(in, b->done, to))
                       : read_json(&p->reader, item, p->config.calls->envelope) && put_read(p);
    b->begun = false;
    if (ok)
        b->done = to;
    return ok;
}

/* The tracker has passed the byte at `at`; before it, its depth was `before`. */
static bool pass_envelope(struct parser *p, struct bytes in, size_t at, uint32_t before) {
    struct body *b = &p->body;
    uint32_t now = p->track.depth, item = item_depth(&p->track);
    uint8_t c = in.data[at];
    if (now > before && now == item) {
        b->item_at = at;
        b->tries = 0;
        return c == '{';
    }
    if (now > before) {
        if (c == '{' && !b->begun && !p->config.complete_calls && now <= item + 2 &&
            b->tries++ < OPEN_TRIES_MAX)
            try_open(p, in, at);
        return true;
    }
    if (now < before) {
        if (b->inside && now < b->inside)
            close_arguments(p, in, at + 1);
        return now + 1 != item || end_item(p, in, at + 1);
    }
    return now >= item || is_blank(c) || is_closing(c) || strchr(",;[", c);
}

/* ---- a name, then arguments ---- */

/* The first bracket of the body: what is before it may be a head. */
static bool try_head(struct parser *p, struct bytes in, size_t at) {
    const struct call_format *f = p->config.calls;
    struct bytes id = {0}, name;
    p->body.headed = true;
    if (!f->head || !f->head(bytes_of(in.data, at), true, &id, &name))
        return f->elements != NULL;
    p->track = (struct tracker){.depth = 1, .first = '{', .started = true};
    return p->config.complete_calls || open_arguments(p, at, id, name);
}

static bool pass_named(struct parser *p, struct bytes in, size_t at) {
    const struct call_format *f = p->config.calls;
    struct body *b = &p->body;
    if (b->inside) {
        if (p->track.depth < b->inside)
            close_arguments(p, in, at + 1);
        return true;
    }
    struct bytes body = bytes_of(in.data, at + 1);
    if (b->script.in_call) {
        pass_string(p, body);
        return true;
    }
    if (in.data[at] == '{' && !b->headed)
        return try_head(p, in, at);
    if (!f->elements || p->config.complete_calls || b->broken || in.data[at] != '>')
        return true;
    if (ends_with(body, bytes_str(f->elements->close)))
        b->broken = !read_elements(p, body, false);
    else
        begin_string(p, body);
    return true;
}

/* The whole of a head and its arguments. */
static bool read_headed(struct parser *p, struct bytes body) {
    struct bytes id = {0}, name, arguments = {0};
    size_t at = find_bytes(body, bytes_str("{"), 0);
    if (at != SIZE_MAX)
        arguments = strip_fence(bytes_from(body, at));
    return p->config.calls->head(bytes_of(body.data, MIN(at, body.len)), at != SIZE_MAX, &id,
                                 &name) &&
           read_add(&p->reader, strip_blank(id), name, arguments) && put_read(p);
}

/* The body is complete and no arguments of it are open. */
static bool end_named(struct parser *p, struct bytes body) {
    const struct call_format *f = p->config.calls;
    if (p->body.begun && !p->body.elements)
        return true;
    if (p->body.script.in_call) {
        flush_string(p, body, true);
        return true;
    }
    if ((!f->head || p->body.elements || !read_headed(p, body)) &&
        (!f->elements || p->body.broken || !read_elements(p, body, true)))
        return false;
    p->body.done = body.len;
    return true;
}

/* ---- the end of a body ---- */

/* It was no call: its mark is text, and what follows is looked at anew. */
static void fail_call(struct parser *p) {
    const char *mark = p->prompted ? "" : p->open->text;
    size_t len = strlen(mark);
    p->failures++;
    p->state = PARSER_PLAIN;
    p->prompted = false;
    if (p->body.put_count) { /* but for the calls that went out */
        p->at += p->body.done;
        return;
    }
    parser_drop_wrap(p);
    parser_unread(p, bytes_of(mark, len - p->open->keep));
    if (len > p->open->keep)
        return;
    parser_unread(p, bytes_of(parser_undecided(p).data, len));
    p->at += len;
}

static bool end_body(struct parser *p, struct bytes body) {
    const struct call_format *f = p->config.calls;
    struct body *b = &p->body;
    bool ok = true;
    if (b->inside)
        close_arguments(p, body, body.len);
    else if (b->kind == BODY_NAMED)
        ok = end_named(p, body);
    else if (b->kind == BODY_STREAM && (ok = f->stream(p, body, true)))
        b->done = body.len;
    else if (b->kind == BODY_OTHER && f->read && (ok = f->read(&p->reader, body) && put_read(p)))
        b->done = body.len;
    p->reader.calls.count = 0;
    buf_reset(&p->reader.made);
    return ok && b->put_count && is_rest(bytes_from(body, b->done));
}

/* The body has `len` bytes; `after` more belong to its closing mark. */
static void end_call(struct parser *p, size_t len, size_t after) {
    if (!end_body(p, bytes_of(parser_undecided(p).data, len))) {
        fail_call(p);
        return;
    }
    p->state = PARSER_PLAIN;
    p->prompted = false;
    p->at += len + after;
}

/* ---- passing a body ---- */

/* The first byte that is neither blank nor opens a list. */
static enum body_kind kind_of_body(const struct parser *p, uint8_t c) {
    const struct call_format *f = p->config.calls;
    if (c == '{' && f->envelope)
        return BODY_ENVELOPE;
    if (f->stream && !p->config.complete_calls)
        return BODY_STREAM;
    return f->head || f->elements ? BODY_NAMED : BODY_OTHER;
}

/* Behind complete JSON: whether a byte cannot belong to the body any more. */
static bool ends_json(uint8_t c) {
    return !is_blank(c) && !strchr(",;}]", c) && !is_opening(c);
}

/* Looks for the closing mark at `at`: its length, 0 when it is none, SIZE_MAX when that is not
 * decided. */
static size_t closing_mark(const struct parser *p, struct bytes in, size_t at) {
    const char *close = p->open->close ? p->open->close : p->config.calls->close;
    if (p->track.quote || !close)
        return 0;
    enum match m = match_mark(in, at, close);
    return m == MATCH_FULL ? strlen(close) : m == MATCH_PARTIAL ? SIZE_MAX : 0;
}

/* Whether what goes out early may go on; false: the body is no call. */
static bool pass_body(struct parser *p, struct bytes in, size_t at, uint32_t before) {
    struct body *b = &p->body;
    uint8_t c = in.data[at];
    if (b->kind == BODY_UNKNOWN && !is_blank(c) && c != '[')
        b->kind = kind_of_body(p, c);
    if (b->kind == BODY_ENVELOPE)
        return pass_envelope(p, in, at, before);
    if (b->kind == BODY_STREAM)
        return !strchr(",)}]", c) || p->config.calls->stream(p, bytes_of(in.data, at + 1), false);
    return b->kind != BODY_NAMED || pass_named(p, in, at);
}

/* The body is content. */
static void be_plain(struct parser *p) {
    p->state = PARSER_PLAIN;
    p->prompted = false;
    p->at += strlen(p->config.calls->plain);
}

/* Passes one byte of the body; true when the call is over. */
static bool run_byte(struct parser *p, struct bytes in, size_t at) {
    const struct call_format *f = p->config.calls;
    struct tracker *t = &p->track;
    bool marked = f->end == BODY_MARK || f->end == BODY_MARK_JSON;
    uint32_t before = t->depth;
    if (f->plain && bytes_equal(bytes_of(in.data, at + 1), bytes_str(f->plain))) {
        be_plain(p);
        return true;
    }
    bool behind = f->end == BODY_MARK ? ends_json(in.data[at])
                                      : f->end == BODY_MARK_JSON && in.data[at] == '<';
    if (behind && t->complete) {
        end_call(p, at, 0);
        return true;
    }
    if (f->end != BODY_MARK || !t->first || t->first == '{' || t->first == '[')
        track_byte(t, in.data[at], f->read == read_python);
    bool hopeless = (f->may_be && at < HEAD_MAX && !f->may_be(bytes_of(in.data, at + 1))) ||
                    (!marked && !t->started && at >= HEAD_MAX);
    if (hopeless || !pass_body(p, in, at, before))
        fail_call(p);
    else if (!marked && t->complete)
        end_call(p, at + 1, 0);
    else
        return false;
    return true;
}

bool parser_run_call(struct parser *p, bool last) {
    struct bytes in = parser_undecided(p);
    for (; p->seen < in.len; p->seen++) {
        size_t mark = closing_mark(p, in, p->seen);
        if (mark == SIZE_MAX && !last)
            break;
        if (mark && mark != SIZE_MAX) {
            end_call(p, p->seen, mark);
            return true;
        }
        if (run_byte(p, in, p->seen))
            return true;
    }
    if (last)
        end_call(p, in.len, 0);
    else if (p->body.inside)
        send_arguments(p, in, p->seen);
    else if (p->body.kind == BODY_NAMED && p->body.script.in_call)
        flush_string(p, bytes_of(in.data, p->seen), false);
    return last;
}
