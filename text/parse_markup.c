/* Calls as elements, with values that are not quoted; their types come from the request's tools. */
#include "text/parse_internal.h"

/* Walks a body. Every take_... moves behind what it takes, or returns false. */
struct walk {
    struct bytes rest;
};

static bool take(struct walk *w, const char *mark) {
    w->rest = strip_blank(w->rest);
    if (!begins_with(w->rest, bytes_str(mark))) return false;
    w->rest = bytes_from(w->rest, strlen(mark));
    return true;
}

static bool take_until(struct walk *w, const char *mark, struct bytes *out) {
    size_t at = find_bytes(w->rest, bytes_str(mark), 0);
    if (at == SIZE_MAX) return false;
    *out = bytes_of(w->rest.data, at);
    w->rest = bytes_from(w->rest, at + strlen(mark));
    return true;
}

/* Values stand on lines of their own: one line end on each side is not theirs. */
static struct bytes strip_line_ends(struct bytes s) {
    if (s.len && s.data[0] == '\n') s = bytes_from(s, 1);
    if (s.len && s.data[s.len - 1] == '\n') s.len--;
    return s;
}

struct fields {
    struct buf json;
    struct bytes function;
    bool any;
};

static void begin_fields(struct fields *f, struct bytes function) {
    *f = (struct fields){.function = strip_blank(function)};
    buf_add_byte(&f->json, '{');
}

static void add_key(struct fields *f, struct bytes key) {
    if (f->any) buf_add_str(&f->json, ", ");
    f->any = true;
    add_quoted(key, &f->json);
    buf_add_str(&f->json, ": ");
}

static bool end_fields(struct fields *f, struct call_reader *r, bool ok) {
    buf_add_byte(&f->json, '}');
    ok = ok && read_add(r, bytes_of(NULL, 0), f->function, buf_bytes(&f->json));
    buf_release(&f->json);
    return ok;
}

/* ---- <function=NAME><parameter=KEY>value</parameter></function> ---- */

/* A parameter whose end is missing ends at the next one, as models do that forget it. */
static bool parameter_value(struct walk *w, struct bytes *value) {
    static const char NEXT[] = "<parameter=", END[] = "</parameter>";
    size_t next = find_bytes(w->rest, bytes_str(NEXT), 0), end = find_bytes(w->rest, bytes_str(END), 0);
    if (end == SIZE_MAX && next == SIZE_MAX) return false;
    if (end < next) return take_until(w, END, value);
    *value = bytes_of(w->rest.data, next);
    w->rest = bytes_from(w->rest, next);
    return true;
}

bool read_function(struct call_reader *r, struct bytes body) {
    struct walk w = {body};
    struct bytes name, key, value;
    struct fields f;
    if (!take_until(&w, ">", &name)) return false;
    w.rest = strip_blank(w.rest);
    if (w.rest.len && w.rest.data[0] == '{') return read_add(r, bytes_of(NULL, 0), name, w.rest);
    begin_fields(&f, name);
    bool ok = true;
    while (ok && take(&w, "<parameter=")) {
        ok = take_until(&w, ">", &key) && parameter_value(&w, &value);
        if (!ok) break;
        key = strip_blank(key);
        add_key(&f, key);
        add_typed(r, f.function, key, TYPE_STRING, strip_line_ends(value), &f.json);
    }
    (void)!take(&w, "</function>");
    return end_fields(&f, r, ok && strip_blank(w.rest).len == 0);
}

/* ---- <invoke name="NAME"><parameter name="KEY">value</parameter></invoke> ---- */

/* KEY" string="true">: whether the model says itself that the value is a string. */
static enum parse_type stated_type(struct bytes attributes) {
    if (find_bytes(attributes, bytes_str("string=\"true\""), 0) != SIZE_MAX) return TYPE_STRING;
    return find_bytes(attributes, bytes_str("string=\"false\""), 0) != SIZE_MAX ? TYPE_OTHER : TYPE_UNKNOWN;
}

static void add_stated(const struct call_reader *r, struct fields *f, struct bytes key, enum parse_type stated,
                       struct bytes value) {
    struct call_reader untyped = {.tools = NULL};
    if (stated == TYPE_UNKNOWN)
        add_typed(r, f->function, key, TYPE_STRING, strip_line_ends(value), &f->json);
    else
        add_typed(&untyped, f->function, key, stated, value, &f->json);
}

static bool invoke_rest(struct call_reader *r, struct walk *w) {
    const char *prefix = r->format->prefix ? r->format->prefix : "";
    struct buf open = {0}, close = {0};
    struct bytes name, key, attributes, value;
    struct fields f;
    if (!take_until(w, "\"", &name) || !take(w, ">")) return false;
    begin_fields(&f, name);
    buf_addf(&open, "<%sparameter name=\"", prefix);
    buf_addf(&close, "</%sparameter>", prefix);
    bool ok = true;
    while (ok && take(w, open.data)) {
        ok = take_until(w, "\"", &key) && take_until(w, ">", &attributes) && take_until(w, close.data, &value);
        if (!ok) break;
        add_key(&f, key);
        add_stated(r, &f, key, stated_type(attributes), value);
    }
    buf_reset(&close);
    buf_addf(&close, "</%sinvoke>", prefix);
    (void)!take(w, close.data);
    buf_release(&open);
    buf_release(&close);
    return end_fields(&f, r, ok && strip_blank(w->rest).len == 0);
}

bool read_invoke(struct call_reader *r, struct bytes body) {
    struct walk w = {body};
    return invoke_rest(r, &w);
}

bool read_step(struct call_reader *r, struct bytes body) {
    struct walk w = {body};
    if (!take(&w, "function")) return false;
    (void)!take(&w, "<｜tool_sep｜>");
    return take(&w, "<steptml:invoke name=\"") && invoke_rest(r, &w);
}

/* ---- NAME <arg_key>KEY</arg_key><arg_value>value</arg_value> ---- */

bool read_glm(struct call_reader *r, struct bytes body) {
    struct walk w = {body};
    struct bytes key, value;
    struct fields f;
    size_t at = find_bytes(body, bytes_str("<arg_key>"), 0);
    struct bytes name = strip_blank(bytes_of(body.data, MIN(at, body.len)));
    for (size_t i = 0; i < name.len; i++)
        if (is_blank(name.data[i]) || name.data[i] == '{' || name.data[i] == '<') return false;
    w.rest = bytes_from(body, MIN(at, body.len));
    begin_fields(&f, name);
    bool ok = true;
    while (ok && take(&w, "<arg_key>")) {
        ok = take_until(&w, "</arg_key>", &key) && take(&w, "<arg_value>") && take_until(&w, "</arg_value>", &value);
        if (!ok) break;
        key = strip_blank(key);
        add_key(&f, key);
        add_typed(r, f.function, key, TYPE_MIXED, value, &f.json);
    }
    return end_fields(&f, r, ok && strip_blank(w.rest).len == 0);
}

/* ---- NAME{key:value,...}: keys bare, strings between marks ---- */

static bool gemma_string(struct walk *w, struct buf *out) {
    static const char *const QUOTES[] = {"<|\"|>", "<escape>"};
    struct bytes text;
    for (size_t i = 0; i < ARRAY_LEN(QUOTES); i++) {
        if (!take(w, QUOTES[i])) continue;
        if (!take_until(w, QUOTES[i], &text)) return false;
        add_quoted(text, out);
        return true;
    }
    return false;
}

static bool gemma_value(struct walk *w, unsigned depth, struct buf *out);

static bool gemma_list(struct walk *w, unsigned depth, struct buf *out) {
    buf_add_byte(out, '[');
    for (size_t count = 0; !take(w, "]"); count++) {
        if (count && !take(w, ",")) return false;
        if (count) buf_add_str(out, ", ");
        if (!gemma_value(w, depth, out)) return false;
    }
    buf_add_byte(out, ']');
    return true;
}

/* Behind '{'. */
static bool gemma_object(struct walk *w, unsigned depth, struct buf *out) {
    struct bytes key;
    buf_add_byte(out, '{');
    for (size_t count = 0; !take(w, "}"); count++) {
        if (count && !take(w, ",")) return false;
        if (count) buf_add_str(out, ", ");
        if (gemma_string(w, out)) {
            if (!take(w, ":")) return false;
        } else {
            if (!take_until(w, ":", &key)) return false;
            add_quoted(strip_blank(key), out);
        }
        buf_add_str(out, ": ");
        if (!gemma_value(w, depth, out)) return false;
    }
    buf_add_byte(out, '}');
    return true;
}

static bool gemma_value(struct walk *w, unsigned depth, struct buf *out) {
    if (depth >= PARSE_DEPTH_MAX) return false;
    if (take(w, "{")) return gemma_object(w, depth + 1, out);
    if (take(w, "[")) return gemma_list(w, depth + 1, out);
    size_t before = out->len;
    if (gemma_string(w, out)) return true;
    out->len = before;
    size_t len = 0;
    while (len < w->rest.len && !strchr(",}]", w->rest.data[len])) len++;
    struct bytes bare = strip_blank(bytes_of(w->rest.data, len));
    w->rest = bytes_from(w->rest, len);
    if (!bare.len) return false;
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
    bool ok = take_until(&w, "{", &name) && gemma_object(&w, 0, &arguments) && strip_blank(w.rest).len == 0 &&
              read_add(r, bytes_of(NULL, 0), name, buf_bytes(&arguments));
    buf_release(&arguments);
    return ok;
}
