/* Calls as Python writes them: [f(a=1, b="x"), g()]. Literals become JSON; names, operators and
 * calls inside are refused. */
#include "base/utf8.h"
#include "text/parse/internal.h"

struct scan {
    struct bytes in;
    size_t at;
    unsigned depth;
    struct buf *out;
};

static int peek(const struct scan *s) {
    return s->at < s->in.len ? s->in.data[s->at] : -1;
}
static void skip_blank(struct scan *s) {
    while (s->at < s->in.len && is_blank(s->in.data[s->at]))
        s->at++;
}
static bool accept_char(struct scan *s, char c) {
    skip_blank(s);
    if (peek(s) != c)
        return false;
    s->at++;
    return true;
}
static bool is_name_byte(int c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c >= 0x80;
}

static bool literal(struct scan *s);

/* ---- strings ---- */

static int hex_digits(struct scan *s, unsigned count, uint32_t *out) {
    *out = 0;
    for (unsigned i = 0; i < count; i++, s->at++) {
        int c = peek(s), digit = c < 0 ? -1 : hex_value((uint8_t)c);
        if (digit < 0)
            return -1;
        *out = *out * 16 + (uint32_t)digit;
    }
    return 0;
}

static bool add_code_point(struct scan *s, uint32_t cp) {
    char utf8[4];
    if (cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
        return false;
    size_t len = utf8_encode(cp, utf8);
    buf_add_json(s->out, bytes_of(utf8, len));
    return true;
}

static bool escape(struct scan *s) {
    /* \/ is JSON's alone, which models write as well */
    static const char FROM[] = "ntr\\'\"abfv/", TO[] = "\n\t\r\\'\"\a\b\f\v/";
    int c = peek(s);
    uint32_t cp;
    if (c < 0)
        return false;
    s->at++;
    const char *simple = c ? strchr(FROM, c) : NULL;
    if (simple) {
        buf_add_json(s->out, bytes_of(&TO[simple - FROM], 1));
        return true;
    }
    if (c == '\n')
        return true;
    if (c == 'x' || c == 'u' || c == 'U') {
        if (hex_digits(s, c == 'x' ? 2 : c == 'u' ? 4 : 8, &cp))
            return false;
        /* JSON's way to write what is past FFFF */
        struct bytes rest = bytes_from(s->in, s->at);
        if (c == 'u' && cp >> 10 == 0xd800 >> 10 && begins_with(rest, bytes_str("\\u"))) {
            uint32_t low;
            s->at += 2;
            if (hex_digits(s, 4, &low) || low >> 10 != 0xdc00 >> 10)
                return false;
            cp = 0x10000 + ((cp & 0x3ff) << 10) + (low & 0x3ff);
        }
        return add_code_point(s, cp);
    }
    if (c >= '0' && c <= '7')
        return add_code_point(s, (uint32_t)(c - '0'));
    /* Python keeps what it does not know */
    buf_add_json(s->out, bytes_of((char[]){'\\', (char)c}, 2));
    return true;
}

/* The inside of a string and its closing quotes. */
static bool string_rest(struct scan *s, struct bytes quotes) {
    while (s->at < s->in.len) {
        if (begins_with(bytes_from(s->in, s->at), quotes)) {
            s->at += quotes.len;
            return true;
        }
        size_t from = s->at;
        if (s->in.data[s->at++] == '\\') {
            if (!escape(s))
                return false;
            continue;
        }
        while (s->at < s->in.len && s->in.data[s->at] != '\\' &&
               s->in.data[s->at] != quotes.data[0])
            s->at++;
        buf_add_json(s->out, bytes_of(s->in.data + from, s->at - from));
    }
    return false;
}

static bool string(struct scan *s) {
    bool more = true;
    buf_add_byte(s->out, '"');
    for (; more;
         skip_blank(s), more = peek(s) == '"' || peek(s) == '\'') { /* "a" "b" is one string */
        struct bytes rest = bytes_from(s->in, s->at);
        bool triple = rest.len >= 3 && rest.data[1] == rest.data[0] && rest.data[2] == rest.data[0];
        struct bytes quotes = bytes_of(rest.data, triple ? 3 : 1);
        s->at += quotes.len;
        if (!string_rest(s, quotes))
            return false;
    }
    buf_add_byte(s->out, '"');
    return true;
}

/* ---- other literals ---- */

static bool number(struct scan *s) {
    size_t from = s->at;
    if (peek(s) == '+')
        from = ++s->at;
    while (peek(s) >= 0 && (strchr("+-.eE_", peek(s)) || is_name_byte(peek(s))))
        s->at++;
    struct bytes text = bytes_of(s->in.data + from, s->at - from);
    size_t start = s->out->len;
    bool minus = text.len && text.data[0] == '-';
    if (minus)
        buf_add_byte(s->out, '-');
    if (text.len > minus && text.data[minus] == '.')
        buf_add_byte(s->out, '0'); /* .5 */
    size_t i = minus;
    /* 07 */
    while (i + 1 < text.len && text.data[i] == '0' && text.data[i + 1] >= '0' &&
           text.data[i + 1] <= '9')
        i++;
    for (; i < text.len; i++) {
        if (text.data[i] == '_')
            continue;
        buf_add_byte(s->out, (char)text.data[i]);
        bool bare = text.data[i] == '.' &&
                    (i + 1 == text.len || text.data[i + 1] == 'e' || text.data[i + 1] == 'E');
        if (bare)
            buf_add_byte(s->out, '0'); /* 5. */
    }
    return json_is_value(bytes_of(s->out->data + start, s->out->len - start));
}

static bool word(struct scan *s) {
    static const char *const WORDS[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"},
                                           {"true", "true"}, {"false", "false"}, {"null", "null"}};
    size_t from = s->at;
    while (is_name_byte(peek(s)))
        s->at++;
    struct bytes text = bytes_of(s->in.data + from, s->at - from);
    for (size_t i = 0; i < ARRAY_LEN(WORDS); i++) {
        if (!bytes_equal(text, bytes_str(WORDS[i][0])))
            continue;
        buf_add_str(s->out, WORDS[i][1]);
        return true;
    }
    return false;
}

/* Behind '[' or '(': a tuple becomes a list, (x) is x. */
static bool list_rest(struct scan *s, char close) {
    size_t open_at = s->out->len, count = 0;
    bool comma = false;
    buf_add_byte(s->out, '[');
    while (!accept_char(s, close)) {
        if (count && !comma)
            return false;
        if (count++)
            buf_add_str(s->out, ", ");
        if (!literal(s))
            return false;
        comma = accept_char(s, ',');
    }
    if (close == ')' && count == 1 && !comma)
        s->out->data[open_at] = ' ';
    else
        buf_add_byte(s->out, ']');
    return close == ')' || count || !comma;
}

/* Behind '{': a set becomes a list. */
static bool dict_rest(struct scan *s) {
    bool comma = true, set = false;
    size_t count = 0, open_at = s->out->len;
    buf_add_byte(s->out, '{');
    while (!accept_char(s, '}')) {
        if (!comma)
            return false;
        if (count++)
            buf_add_str(s->out, ", ");
        skip_blank(s);
        bool quoted = peek(s) == '"' || peek(s) == '\'';
        if (!literal(s))
            return false;
        bool pair = accept_char(s, ':');
        if (count == 1)
            set = !pair;
        if (set == pair || (pair && !quoted))
            return false; /* JSON has string keys alone */
        if (pair)
            buf_add_str(s->out, ": ");
        if (pair && !literal(s))
            return false;
        comma = accept_char(s, ',');
    }
    if (set)
        s->out->data[open_at] = '[';
    buf_add_byte(s->out, set ? ']' : '}');
    return true;
}

static bool literal(struct scan *s) {
    skip_blank(s);
    int c = peek(s);
    if (c == '"' || c == '\'')
        return string(s);
    if ((c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.')
        return number(s);
    if (c != '[' && c != '(' && c != '{')
        return word(s);
    if (++s->depth > PARSE_DEPTH_MAX)
        return false;
    s->at++;
    bool ok = c == '{' ? dict_rest(s) : list_rest(s, c == '[' ? ']' : ')');
    s->depth--;
    return ok;
}

bool python_literal(struct bytes text, size_t *at, struct buf *out) {
    struct scan s = {text, *at, 0, out};
    bool ok = literal(&s);
    *at = s.at;
    return ok;
}

/* ---- calls ---- */

static struct bytes name(struct scan *s, bool dotted) {
    skip_blank(s);
    size_t from = s->at;
    if (peek(s) >= '0' && peek(s) <= '9')
        return bytes_of(NULL, 0);
    while (is_name_byte(peek(s)) || (dotted && s->at > from && (peek(s) == '.' || peek(s) == '-')))
        s->at++;
    return bytes_of(s->in.data + from, s->at - from);
}

/* key=value */
static bool argument(struct scan *s) {
    struct bytes key = name(s, false);
    if (!key.len || !accept_char(s, '='))
        return false;
    add_quoted(key, s->out);
    buf_add_str(s->out, ": ");
    return literal(s);
}

static bool call(struct scan *s, struct call_reader *r) {
    struct bytes function = name(s, true);
    bool comma = true, first = true;
    buf_reset(s->out);
    buf_add_byte(s->out, '{');
    if (!function.len || !accept_char(s, '('))
        return false;
    while (!accept_char(s, ')')) {
        if (!comma)
            return false;
        if (!first)
            buf_add_str(s->out, ", ");
        first = false;
        if (!argument(s))
            return false;
        comma = accept_char(s, ',');
    }
    buf_add_byte(s->out, '}');
    return read_add(r, bytes_of(NULL, 0), function, buf_bytes(s->out));
}

static bool calls(struct scan *s, struct call_reader *r) {
    bool list = accept_char(s, '[');
    skip_blank(s);
    while (s->at < s->in.len && peek(s) != ']') {
        if (!call(s, r))
            return false;
        bool separated = accept_char(s, ',') || accept_char(s, ';');
        skip_blank(s);
        if (list && !separated && peek(s) != ']')
            return false;
    }
    if (list && !accept_char(s, ']'))
        return false;
    skip_blank(s);
    return s->at == s->in.len;
}

bool read_python(struct call_reader *r, struct bytes body) {
    struct buf arguments = {0};
    struct scan s = {body, 0, 0, &arguments};
    bool ok = calls(&s, r);
    buf_release(&arguments);
    return ok;
}

/* [name( */
bool python_may_be(struct bytes body) {
    struct buf none = {0};
    struct scan s = {body, 0, 0, &none};
    if (!accept_char(&s, '['))
        return s.at == body.len;
    skip_blank(&s);
    if (s.at == body.len)
        return true;
    struct bytes function = name(&s, true);
    if (!function.len)
        return false;
    skip_blank(&s);
    return s.at == body.len || peek(&s) == '(';
}

/* ---- calls while they come ---- */

static bool begins_triple(struct bytes body, size_t at) {
    uint8_t c = body.data[at];
    return body.len - at >= 3 && body.data[at + 1] == c && body.data[at + 2] == c;
}

/* A byte of a string. */
static void pass_quoted(struct script *q, struct bytes body) {
    uint8_t c = body.data[q->seen];
    if (q->escaped) {
        q->escaped = false;
    } else if (c == '\\') {
        q->escaped = true;
    } else if (c == q->quote && (!q->triple || begins_triple(body, q->seen))) {
        q->seen += q->triple ? 2 : 0;
        q->quote = 0;
    }
}

/* Where the argument that is being passed ends: its ',' or a bracket that closes what it did not
 * open. SIZE_MAX: it goes on. */
static size_t argument_end(struct script *q, struct bytes body) {
    for (; q->seen < body.len; q->seen++) {
        uint8_t c = body.data[q->seen];
        if (q->quote) {
            pass_quoted(q, body);
        } else if (c == '"' || c == '\'') {
            q->quote = c;
            q->triple = begins_triple(body, q->seen);
            q->seen += q->triple ? 2 : 0;
        } else if (c == '(' || c == '[' || c == '{') {
            q->depth++;
        } else if ((c == ',' || c == ')' || c == ']' || c == '}') && !q->depth) {
            return q->seen;
        } else if (c == ')' || c == ']' || c == '}') {
            q->depth--;
        }
    }
    return SIZE_MAX;
}

/* The argument up to `end`; behind the last one the call is over. */
static bool put_argument(struct parser *p, struct bytes body, size_t end) {
    struct script *q = &p->body.script;
    struct buf member = {0};
    struct scan s = {bytes_of(body.data, end), q->at, 0, &member};
    bool close = body.data[end] == ')', ok = close || body.data[end] == ',';
    skip_blank(&s);
    ok = ok && (s.at == end ? close : argument(&s));
    skip_blank(&s);
    ok = ok && s.at == end &&
         parser_emit_field(p, bytes_of(body.data + q->name_at, q->name_len), buf_bytes(&member),
                           close);
    buf_release(&member);
    if (!ok)
        return false;
    p->body.done = q->at = q->seen = end + 1;
    if (close)
        q->in_call = p->body.begun = q->separated = false;
    return true;
}

/* Between calls: takes what separates them, and the next one's name. False: none can follow. */
static bool open_call(struct parser *p, struct bytes body, bool last) {
    struct script *q = &p->body.script;
    struct scan s = {body, q->at, 0, NULL};
    if (!q->at)
        q->listed = q->separated = accept_char(&s, '[');
    else if (!q->separated)
        q->separated = accept_char(&s, ',') || accept_char(&s, ';');
    skip_blank(&s);
    if (!q->closed && q->listed)
        q->closed = accept_char(&s, ']');
    skip_blank(&s);
    q->at = s.at;
    if (s.at == body.len)
        return last ? q->closed || !q->listed : true;
    if (q->closed || (q->listed && !q->separated))
        return false;
    struct bytes function = name(&s, true);
    if (!accept_char(&s, '('))
        return false;
    q->name_at = (size_t)(function.data - body.data);
    q->name_len = function.len;
    q->in_call = true;
    q->at = q->seen = s.at;
    return function.len;
}

bool emit_python(struct parser *p, struct bytes body, bool last) {
    struct script *q = &p->body.script;
    for (;;) {
        if (!q->in_call) {
            bool ok = open_call(p, body, last);
            if (!q->in_call)
                return ok;
        }
        size_t end = argument_end(q, body);
        if (end == SIZE_MAX)
            return !last;
        if (!put_argument(p, body, end))
            return false;
    }
}
