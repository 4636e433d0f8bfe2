/* Calls as Gemma writes them, NAME{key:value,...}: keys bare, strings between marks. */
#include "text/parse/internal.h"

static const char *const QUOTES[] = {"<|\"|>", "<escape>"};

/* ---- values ---- */

static bool gemma_string(struct walk *w, struct buf *out) {
    struct bytes text;
    for (size_t i = 0; i < ARRAY_LEN(QUOTES); i++) {
        if (!walk_take(w, QUOTES[i]))
            continue;
        if (!walk_until(w, QUOTES[i], &text))
            return false;
        add_quoted(text, out);
        return true;
    }
    return false;
}

static bool gemma_value(struct walk *w, unsigned depth, struct buf *out);

static bool gemma_list(struct walk *w, unsigned depth, struct buf *out) {
    buf_add_byte(out, '[');
    for (size_t count = 0; !walk_take(w, "]"); count++) {
        if (count && !walk_take(w, ","))
            return false;
        if (count)
            buf_add_str(out, ", ");
        if (!gemma_value(w, depth, out))
            return false;
    }
    buf_add_byte(out, ']');
    return true;
}

/* key:value */
static bool read_gemma_field(struct walk *w, unsigned depth, struct buf *out) {
    struct bytes key;
    if (gemma_string(w, out)) {
        if (!walk_take(w, ":"))
            return false;
    } else {
        if (!walk_until(w, ":", &key))
            return false;
        add_quoted(strip_blank(key), out);
    }
    buf_add_str(out, ": ");
    return gemma_value(w, depth, out);
}

/* Behind '{'. */
static bool gemma_object(struct walk *w, unsigned depth, struct buf *out) {
    buf_add_byte(out, '{');
    for (size_t count = 0; !walk_take(w, "}"); count++) {
        if (count && !walk_take(w, ","))
            return false;
        if (count)
            buf_add_str(out, ", ");
        if (!read_gemma_field(w, depth, out))
            return false;
    }
    buf_add_byte(out, '}');
    return true;
}

static bool gemma_value(struct walk *w, unsigned depth, struct buf *out) {
    if (depth >= PARSE_DEPTH_MAX)
        return false;
    if (walk_take(w, "{"))
        return gemma_object(w, depth + 1, out);
    if (walk_take(w, "["))
        return gemma_list(w, depth + 1, out);
    size_t before = out->len;
    if (gemma_string(w, out))
        return true;
    out->len = before;
    size_t len = 0;
    while (len < w->rest.len && !strchr(",}]", w->rest.data[len]))
        len++;
    struct bytes bare = strip_blank(bytes_of(w->rest.data, len));
    w->rest = bytes_from(w->rest, len);
    if (!bare.len)
        return false;
    if (json_is_value(bare))
        buf_add_bytes(out, bare);
    else
        add_quoted(bare, out);
    return true;
}

bool read_gemma(struct call_reader *r, struct bytes body) {
    struct walk w = {body};
    struct bytes name;
    struct buf arguments = {0};
    bool ok = walk_until(&w, "{", &name) && gemma_object(&w, 0, &arguments) &&
              strip_blank(w.rest).len == 0 &&
              read_add(r, bytes_of(NULL, 0), name, buf_bytes(&arguments));
    buf_release(&arguments);
    return ok;
}

/* ---- a call while it comes ---- */

enum { AT_KEY, AT_VALUE, IN_BARE, IN_STRING, BEHIND_VALUE };

/* The mark of a string at `at`; NULL: none. */
static const char *quote_at(struct bytes body, size_t at) {
    for (size_t i = 0; i < ARRAY_LEN(QUOTES); i++)
        if (begins_with(bytes_from(body, at), bytes_str(QUOTES[i])))
            return QUOTES[i];
    return NULL;
}

static bool in_list(const struct script *s) {
    return s->depth && s->lists >> s->depth & 1;
}

static void expect(struct script *s, uint8_t state) {
    s->state = state;
    s->fresh = true;
    s->quoted = NULL;
}

/* A bracket opens a value within the member. */
static void descend(struct script *s, bool list) {
    s->depth++;
    s->lists = (s->lists & ~(1ull << s->depth)) | (uint64_t)list << s->depth;
    expect(s, list ? AT_VALUE : AT_KEY);
}

/* A byte behind a value. True: it ends the member. */
static bool pass_behind(struct script *s, uint8_t c) {
    s->state = BEHIND_VALUE;
    if (is_blank(c))
        return false;
    if (!s->depth || !strchr(",}]", c))
        return true;
    if (c == ',')
        expect(s, in_list(s) ? AT_VALUE : AT_KEY);
    else
        s->depth--;
    return false;
}

/* A byte where a value begins, or an empty object or list ends. */
static bool pass_value(struct script *s, struct bytes body, size_t *at) {
    uint8_t c = body.data[*at];
    const char *quote = quote_at(body, *at);
    if (is_blank(c))
        return false;
    if ((c == '{' || c == '[') && s->depth + 1 < PARSE_DEPTH_MAX) {
        descend(s, c == '[');
        return false;
    }
    if (c == ']' && in_list(s))
        return pass_behind(s, c);
    s->state = quote ? IN_STRING : IN_BARE;
    s->quoted = quote;
    if (quote)
        *at += strlen(quote) - 1;
    return !quote && strchr(",}]", c) && pass_behind(s, c);
}

static bool pass_key(struct script *s, struct bytes body, size_t *at) {
    uint8_t c = body.data[*at];
    const char *quote = s->fresh                                        ? quote_at(body, *at)
                        : s->quoted && quote_at(body, *at) == s->quoted ? s->quoted
                                                                        : NULL;
    if (is_blank(c))
        return false;
    if (c == '}' && s->fresh)
        return pass_behind(s, c);
    if (quote) {
        s->quoted = s->fresh ? quote : NULL;
        *at += strlen(quote) - 1;
    } else if (c == ':' && !s->quoted) {
        expect(s, AT_VALUE);
        return false;
    }
    s->fresh = false;
    return false;
}

/* Where the member that is being passed ends: its ',' or '}', or what does not belong there.
 * SIZE_MAX: it goes on. */
static size_t member_end(struct script *s, struct bytes body) {
    bool ended = false;
    for (; s->seen < body.len; s->seen++) {
        uint8_t c = body.data[s->seen];
        switch (s->state) {
        case AT_KEY: ended = pass_key(s, body, &s->seen); break;
        case AT_VALUE: ended = pass_value(s, body, &s->seen); break;
        case IN_BARE: ended = strchr(",}]", c) && pass_behind(s, c); break;
        case IN_STRING:
            if (quote_at(body, s->seen) != s->quoted)
                break;
            s->seen += strlen(s->quoted) - 1;
            s->state = BEHIND_VALUE;
            break;
        default: ended = pass_behind(s, c); break;
        }
        if (ended)
            return s->seen;
    }
    return SIZE_MAX;
}

/* The member up to `end`. */
static bool emit_field(struct parser *p, struct bytes body, size_t end) {
    struct script *s = &p->body.script;
    struct walk w = {bytes_of(body.data + s->at, end - s->at)};
    struct buf member = {0};
    bool close = body.data[end] == '}', blank = !strip_blank(w.rest).len;
    bool ok = blank ? close && !p->body.begun
                    : strchr(",}", body.data[end]) && read_gemma_field(&w, 0, &member) &&
                          !strip_blank(w.rest).len;
    ok = ok && parser_emit_field(p, bytes_of(body.data, s->name_len), buf_bytes(&member), close);
    buf_release(&member);
    if (!ok)
        return false;
    s->closed = close;
    p->body.done = s->at = s->seen = end + 1;
    expect(s, AT_KEY);
    return true;
}

bool emit_gemma(struct parser *p, struct bytes body, bool last) {
    struct script *s = &p->body.script;
    size_t end;
    if (!s->in_call) {
        size_t open = find_bytes(body, bytes_str("{"), 0);
        if (open == SIZE_MAX)
            return !last;
        s->in_call = true;
        s->name_len = open;
        s->at = s->seen = open + 1;
        expect(s, AT_KEY);
    }
    while (!s->closed && (end = member_end(s, body)) != SIZE_MAX)
        if (!emit_field(p, body, end))
            return false;
    return s->closed ? !strip_blank(bytes_from(body, s->at)).len : !last;
}
