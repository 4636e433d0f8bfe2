/* Calls as elements, with values that are not quoted; their types come from the request's tools. */
#include "formats/json.h"
#include "text/parse/internal.h"

bool walk_take(struct walk *w, const char *mark) {
    w->rest = strip_blank(w->rest);
    if (!begins_with(w->rest, bytes_str(mark)))
        return false;
    w->rest = bytes_from(w->rest, strlen(mark));
    return true;
}

bool walk_until(struct walk *w, const char *mark, struct bytes *out) {
    size_t at = find_bytes(w->rest, bytes_str(mark), 0);
    if (at == SIZE_MAX)
        return false;
    *out = bytes_of(w->rest.data, at);
    w->rest = bytes_from(w->rest, at + strlen(mark));
    return true;
}

/* Values stand on lines of their own: one line end on each side is not theirs. */
static struct bytes strip_line_ends(struct bytes s) {
    if (s.len && s.data[0] == '\n')
        s = bytes_from(s, 1);
    if (s.len && s.data[s.len - 1] == '\n')
        s.len--;
    return s;
}

struct parameter {
    struct bytes key, attributes, value;
};

/* The value's end; or where the next key begins, as models forget the end. */
static bool take_value(const struct element_form *e, struct walk *w, struct bytes *value) {
    size_t next = e->may_miss_close ? find_bytes(w->rest, bytes_str(e->open), 0) : SIZE_MAX,
           close = find_bytes(w->rest, bytes_str(e->close), 0);
    if (close == SIZE_MAX && next == SIZE_MAX)
        return false;
    if (close < next)
        return walk_until(w, e->close, value);
    *value = bytes_of(w->rest.data, next);
    w->rest = bytes_from(w->rest, next);
    return true;
}

static bool take_key(const struct element_form *e, struct walk *w, struct parameter *p) {
    p->attributes = bytes_of(NULL, 0);
    if (!walk_until(w, e->key_end, &p->key))
        return false;
    if (e->value_open && !walk_until(w, e->value_open, &p->attributes))
        return false;
    p->key = strip_blank(p->key);
    return e->has_attributes || !strip_blank(p->attributes).len;
}

/* Behind the mark before its key. */
static bool take_parameter(const struct element_form *e, struct walk *w, struct parameter *p) {
    return take_key(e, w, p) && take_value(e, w, &p->value);
}

/* Whether the model says itself that the value is a string. */
static enum parse_type stated_type(struct bytes attributes) {
    static const struct {
        const char *text;
        enum parse_type type;
    } STATED[] = {
        {"string=\"true\"", TYPE_STRING},       {"string=\"false\"", TYPE_OTHER}, /* DSML */
        {"type=\"string\"", TYPE_STRING},       {"type=\"", TYPE_OTHER},          /* XTML */
        {"<ifm|arg_type>string<", TYPE_STRING}, {"<ifm|arg_type>", TYPE_OTHER},
    };
    for (size_t i = 0; i < ARRAY_LEN(STATED); i++)
        if (find_bytes(attributes, bytes_str(STATED[i].text), 0) != SIZE_MAX)
            return STATED[i].type;
    return TYPE_UNKNOWN;
}

static struct bytes strip_cdata(struct bytes value) {
    static const char OPEN[] = "<![CDATA[", CLOSE[] = "]]>";
    struct bytes s = strip_blank(value);
    size_t marks = sizeof OPEN + sizeof CLOSE - 2;
    bool wrapped =
        s.len >= marks && begins_with(s, bytes_str(OPEN)) && ends_with(s, bytes_str(CLOSE));
    return wrapped ? bytes_of(s.data + strlen(OPEN), s.len - marks) : value;
}

/* &quot; and &amp; as what they stand for. */
static void add_unescaped(struct bytes s, struct buf *out) {
    for (size_t i = 0; i < s.len; i++) {
        struct bytes rest = bytes_from(s, i);
        bool quote = begins_with(rest, bytes_str("&quot;")),
             amp = begins_with(rest, bytes_str("&amp;"));
        buf_add_byte(out, quote ? '"' : (char)s.data[i]);
        i += quote ? 5 : amp ? 4 : 0;
    }
}

/* Whether a value's line ends are its own. */
static bool keeps_blanks(const struct element_form *e, enum parse_type stated) {
    return e->mixed || e->keeps_blanks || stated != TYPE_UNKNOWN;
}

static void add_key(const struct element_form *e, struct bytes key, struct buf *out) {
    struct buf text = {0};
    if (e->has_entities)
        add_unescaped(key, &text);
    add_quoted(e->has_entities ? buf_bytes(&text) : key, out);
    buf_release(&text);
}

/* What the request's tools declare goes before what the model states, but for forms that always
 * state it. */
static void add_value(const struct parse_tools *tools, const struct element_form *e,
                      struct bytes function, const struct parameter *p, struct buf *out) {
    enum parse_type stated = stated_type(p->attributes);
    bool declared = !e->states_types && parse_tools_type(tools, function, p->key) != TYPE_UNKNOWN;
    struct bytes value = keeps_blanks(e, stated) ? p->value : strip_line_ends(p->value);
    if (e->has_cdata)
        value = strip_cdata(value);
    add_key(e, p->key, out);
    buf_add_str(out, ": ");
    if (stated == TYPE_UNKNOWN || declared)
        add_typed(tools, function, p->key, e->mixed ? TYPE_MIXED : TYPE_STRING, value, out);
    else
        add_typed(NULL, function, p->key, stated, value, out);
}

/* What may stand between a name and the end of its mark: nothing, or index="1". */
static bool is_index(struct bytes s) {
    static const char INDEX[] = "index=\"";
    s = strip_blank(s);
    if (!s.len)
        return true;
    if (!begins_with(s, bytes_str(INDEX)) || !ends_with(s, bytes_str("\"")))
        return false;
    for (size_t i = strlen(INDEX); i + 1 < s.len; i++)
        if (s.data[i] < '0' || s.data[i] > '9')
            return false;
    return true;
}

static bool take_name(const struct element_form *e, struct walk *w, struct bytes *name) {
    struct bytes index;
    if (e->may_begin)
        (void)!walk_take(w, e->may_begin);
    if (e->before && !walk_take(w, e->before))
        return false;
    if (e->name_end)
        return walk_until(w, e->name_end, name) &&
               (!e->name_end_too || (walk_until(w, e->name_end_too, &index) && is_index(index)));
    size_t at = MIN(find_bytes(w->rest, bytes_str(e->open), 0), w->rest.len);
    *name = bytes_of(w->rest.data, at);
    w->rest = bytes_from(w->rest, at);
    return true;
}

/* Values from w on, as members of the object in out. */
static bool add_values(const struct parser *p, struct bytes name, struct walk *w, struct buf *out) {
    const struct element_form *e = p->config.calls->elements;
    struct parameter value;
    while (walk_take(w, e->open)) {
        if (!take_parameter(e, w, &value))
            return false;
        buf_add_str(out, out->len || p->body.begun ? ", " : "{");
        add_value(p->config.tools, e, name, &value, out);
    }
    return true;
}

/* ---- one value that is all of the arguments ---- */

static bool is_wrapper(const struct parser *p, struct bytes name, struct bytes key) {
    bool known = bytes_equal(key, bytes_str("arguments")) || bytes_equal(key, bytes_str("input")) ||
                 bytes_equal(key, bytes_str("properties"));
    return known && parse_tools_has_parameters(p->config.tools, name) &&
           !parse_tools_has_parameter(p->config.tools, name, key);
}

/* Whether a body has a wrapper's value alone, as far as it came. */
static bool begins_wrapped(const struct parser *p, struct bytes name, struct walk w,
                           struct parameter *value) {
    const struct element_form *e = p->config.calls->elements;
    if (!e->unwraps || p->body.begun || !walk_take(&w, e->open) || !take_parameter(e, &w, value))
        return false;
    return is_wrapper(p, name, value->key) && !walk_take(&w, e->open);
}

static bool has_declared_keys(const struct parser *p, struct bytes name, struct bytes object) {
    struct json_reader r;
    enum json_event event;
    bool ok = true;
    json_reader_init(&r, object, PARSE_DEPTH_MAX, JSON_ALLOW_NUL);
    for (event = json_next(&r); ok && (event = json_next(&r)) == JSON_KEY; ok = ok && json_skip(&r))
        ok = parse_tools_has_parameter(p->config.tools, name, r.text);
    json_reader_release(&r);
    return ok && event == JSON_OBJECT_END;
}

/* Replaces made by the object in the wrapper's value, when it has declared parameters alone. */
static void unwrap(const struct parser *p, struct bytes name, struct bytes value,
                   struct buf *made) {
    value = strip_blank(value);
    if (!json_is_object(value) || !has_declared_keys(p, name, value))
        return;
    buf_reset(made);
    buf_add_bytes(made, value);
}

bool read_elements(struct parser *p, struct bytes body, bool last) {
    const struct element_form *e = p->config.calls->elements;
    struct body *b = &p->body;
    struct walk w = {bytes_from(body, b->done)};
    struct bytes name = bytes_of(body.data + b->name_at, b->name_len);
    struct buf *made = &p->reader.made;
    if (!b->begun && !take_name(e, &w, &name))
        return false;
    name = strip_blank(name);
    buf_reset(made);
    struct parameter only;
    bool wrapped = begins_wrapped(p, name, w, &only);
    if (wrapped && !last)
        return true; /* until it is known to be the only one */
    bool ok = add_values(p, name, &w, made);
    if (last && e->end)
        (void)!walk_take(&w, e->end);
    ok = ok && !strip_blank(w.rest).len;
    if (ok && last)
        buf_add_str(made, made->len || b->begun ? "}" : "{}");
    if (ok && wrapped)
        unwrap(p, name, only.value, made);
    if (!ok || !parser_emit_arguments(p, name, buf_bytes(made)))
        return false;
    b->elements = true;
    b->done = body.len;
    b->name_at = (size_t)(name.data - body.data);
    b->name_len = name.len;
    return true;
}

/* ---- strings while they come ---- */

/* Whether the body ends where a string value begins, whose parameter is then told. */
static bool begins_string(const struct parser *p, struct bytes body, struct bytes *name,
                          struct parameter *value) {
    const struct element_form *e = p->config.calls->elements;
    struct walk w = {bytes_from(body, p->body.done)};
    *value = (struct parameter){0};
    if (e->has_cdata || !ends_with(body, bytes_str(e->value_open ? e->value_open : e->key_end)))
        return false;
    if (!p->body.begun && !take_name(e, &w, name))
        return false;
    *name = strip_blank(*name);
    if (!parser_may_call(p, *name) || !walk_take(&w, e->open) || !take_key(e, &w, value) ||
        w.rest.len)
        return false;
    enum parse_type stated = stated_type(value->attributes), declared = TYPE_UNKNOWN;
    if (!e->states_types)
        declared = parse_tools_type(p->config.tools, *name, value->key);
    if (declared == TYPE_UNKNOWN)
        declared = stated == TYPE_UNKNOWN && !e->mixed ? TYPE_STRING : stated;
    return declared == TYPE_STRING && !(e->unwraps && is_wrapper(p, *name, value->key));
}

void begin_string(struct parser *p, struct bytes body) {
    const struct element_form *e = p->config.calls->elements;
    struct body *b = &p->body;
    struct bytes name = bytes_of(body.data + b->name_at, b->name_len);
    struct parameter value;
    struct buf *made = &p->reader.made;
    if (!begins_string(p, body, &name, &value))
        return;
    buf_reset(made);
    buf_add_str(made, b->begun ? ", " : "{");
    add_key(e, value.key, made);
    buf_add_str(made, ": \"");
    (void)!parser_emit_arguments(p, name, buf_bytes(made));
    b->elements = true;
    b->name_at = (size_t)(name.data - body.data);
    b->name_len = name.len;
    bool trims = !keeps_blanks(e, stated_type(value.attributes));
    b->script = (struct script){.in_call = true, .at = body.len, .fresh = trims, .trims = trims};
}

/* The string up to `end`, and its quote when it ends there. */
static void put_string(struct parser *p, struct bytes body, size_t end, bool close) {
    struct script *s = &p->body.script;
    struct buf *made = &p->reader.made;
    buf_reset(made);
    if (s->fresh && s->at < end) {
        s->at += body.data[s->at] == '\n';
        s->fresh = false;
    }
    bool line = close && s->trims && s->at < end && body.data[end - 1] == '\n';
    buf_add_json(made, bytes_of(body.data + s->at, end - s->at - line));
    if (close)
        buf_add_byte(made, '"');
    if (made->len)
        (void)!parser_emit_arguments(p, bytes_of(NULL, 0), buf_bytes(made));
    s->at = end;
    s->in_call = !close;
}

void pass_string(struct parser *p, struct bytes body) {
    const struct element_form *e = p->config.calls->elements;
    if (ends_with(body, bytes_str(e->close))) {
        put_string(p, body, body.len - strlen(e->close), true);
        p->body.done = body.len;
    } else if (e->may_miss_close && ends_with(body, bytes_str(e->open))) {
        p->body.done = body.len - strlen(e->open);
        put_string(p, body, p->body.done, true);
    }
}

void flush_string(struct parser *p, struct bytes body, bool last) {
    const struct element_form *e = p->config.calls->elements;
    size_t hold = last ? 0 : MAX(strlen(e->close), strlen(e->open)) + 1,
           end = body.len - MIN(hold, body.len);
    /* whole characters */
    while (!last && end > p->body.script.at && (body.data[end] & 0xc0) == 0x80)
        end--;
    if (end > p->body.script.at)
        put_string(p, body, end, false);
    if (last)
        p->body.done = body.len;
}
