/*
 * Calls whose arguments are elements within elements, as MiniMax M3 writes them: each tag stands
 * behind a mark of the model's own, so that values need no escapes,
 *
 *     ]<]minimax[>[<invoke
 *     name="f">]<]minimax[>[<list>]<]minimax[>[<item>1]<]minimax[>[</item>]<]minimax[>[</list>
 *
 * The tool's schema says what is a list, an object, a number. Without one, text is a string and
 * elements are an object; those of one name are a list.
 */
#include "text/parse/internal.h"

enum { NESTED_BUDGET = 256 << 20, TYPES_MAX = 16 /* JSON Schema has seven */ };

struct nest {
    struct bytes in;
    size_t at;
    struct arena arena;
    struct tvalue parameters; /* the schema that references are within */
};

static const char OPEN[] = MINIMAX_SPACE "<", CLOSE[] = MINIMAX_SPACE "</";

/* ---- schemas ---- */

static bool has_field(struct tvalue v, const char *name) {
    return tvalue_get(v, name).kind != TVALUE_UNDEFINED;
}

static bool names_type(struct tvalue type, const char *name) {
    bool found = tvalue_is(type, name);
    size_t count = type.kind == TVALUE_LIST ? tvalue_count(type) : 0;
    for (size_t i = 0; i < MIN(count, (size_t)TYPES_MAX) && !found; i++)
        found = tvalue_is(tvalue_list_at(type, i), name);
    return found;
}

/* The first alternative that is a list or an object; of another kind: there is none. */
static struct tvalue container_of_schema(struct tvalue schema, unsigned depth, unsigned *steps) {
    static const char *const ALTERNATIVES[] = {"anyOf", "oneOf"};
    struct tvalue type = tvalue_get(schema, "type"), none = {0};
    if (names_type(type, "array") || names_type(type, "object"))
        return schema;
    if (type.kind == TVALUE_UNDEFINED &&
        (has_field(schema, "items") || has_field(schema, "properties") ||
         has_field(schema, "additionalProperties")))
        return schema;
    for (size_t i = 0; depth < PARSE_DEPTH_MAX && i < ARRAY_LEN(ALTERNATIVES); i++) {
        struct tvalue list = tvalue_get(schema, ALTERNATIVES[i]);
        size_t count = list.kind == TVALUE_LIST ? tvalue_count(list) : 0;
        for (size_t j = 0; j < count && ++*steps <= PARSE_SCHEMA_STEPS; j++) {
            struct tvalue found = container_of_schema(tvalue_list_at(list, j), depth + 1, steps);
            if (found.kind == TVALUE_DICT)
                return found;
        }
    }
    return none;
}

static bool is_list(struct tvalue container) {
    struct tvalue type = tvalue_get(container, "type");
    return names_type(type, "array") ||
           (type.kind == TVALUE_UNDEFINED && has_field(container, "items"));
}

static struct tvalue schema_of_child(struct tvalue container, struct bytes name) {
    if (is_list(container))
        return tvalue_get(container, "items");
    struct tvalue own = tvalue_dict_get(tvalue_get(container, "properties"), name);
    return own.kind == TVALUE_UNDEFINED ? tvalue_get(container, "additionalProperties") : own;
}

/* ---- values ---- */

/* Text between tags; false: the arena is out. */
static bool leaf(struct nest *n, struct tvalue schema, struct tvalue container, struct bytes text,
                 struct tvalue *out) {
    struct buf json = {0};
    struct error err;
    if (container.kind == TVALUE_DICT && !schema_has_string(schema) && !strip_blank(text).len) {
        *out = is_list(container) ? tvalue_list(&n->arena) : tvalue_dict(&n->arena);
        return out->kind != TVALUE_UNDEFINED;
    }
    add_of_schema(schema, text, &json);
    bool ok = !tvalue_from_json(&n->arena, buf_bytes(&json), out, &err);
    buf_release(&json);
    return ok;
}

/* What is being filled: a list; or an object and, by name, the lists of what was repeated in it. */
struct filled {
    struct tvalue value, repeated;
};

static bool add_child(struct nest *n, struct filled *f, struct bytes name, struct tvalue child) {
    if (f->value.kind == TVALUE_LIST)
        return tvalue_list_push(&n->arena, f->value, child);
    struct tvalue before = tvalue_dict_get(f->value, name),
                  list = tvalue_dict_get(f->repeated, name);
    if (before.kind == TVALUE_UNDEFINED)
        return tvalue_dict_set(&n->arena, f->value, name, child);
    if (list.kind == TVALUE_LIST)
        return tvalue_list_push(&n->arena, list, child);
    list = tvalue_list(&n->arena);
    return tvalue_list_push(&n->arena, list, before) && tvalue_list_push(&n->arena, list, child) &&
           tvalue_dict_set(&n->arena, f->repeated, name, list) &&
           tvalue_dict_set(&n->arena, f->value, name, list);
}

/* Text beside children goes where no child is. */
static bool add_mixed(struct nest *n, struct filled *f, struct bytes text) {
    static const char FIELD[] = "$text";
    struct tvalue value = tvalue_string_copy(&n->arena, text);
    if (!strip_blank(text).len)
        return true;
    return value.kind == TVALUE_STRING && add_child(n, f, bytes_str(FIELD), value);
}

static struct bytes rest_of(const struct nest *n) {
    return bytes_from(n->in, n->at);
}

/* <name>, of which the mark and '<' were taken. */
static bool take_tag(struct nest *n, struct bytes *name) {
    size_t end = find_bytes(n->in, bytes_str(">"), n->at);
    if (end == SIZE_MAX)
        return false;
    *name = bytes_of(n->in.data + n->at, end - n->at);
    n->at = end + 1;
    return strip_blank(*name).len && name->data[0] != '/';
}

static bool take_close(struct nest *n, struct bytes name) {
    struct bytes rest = rest_of(n);
    size_t open = strlen(CLOSE);
    if (!begins_with(rest, bytes_str(CLOSE)))
        return false;
    rest = bytes_from(rest, open);
    if (!begins_with(rest, name) || rest.len == name.len || rest.data[name.len] != '>')
        return false;
    n->at += open + name.len + 1;
    return true;
}

static bool take_open(struct nest *n) {
    if (!begins_with(rest_of(n), bytes_str(OPEN)))
        return false;
    n->at += strlen(OPEN);
    return true;
}

static bool element(struct nest *n, struct tvalue container, unsigned depth, struct filled *into);

/* Behind <name>: its value, and its closing tag. */
static bool content(struct nest *n, struct tvalue schema, struct bytes name, unsigned depth,
                    struct tvalue *out) {
    schema = schema_resolve(n->parameters, schema);
    unsigned steps = 0;
    struct tvalue container = container_of_schema(schema, 0, &steps);
    struct filled f = {is_list(container) ? tvalue_list(&n->arena) : tvalue_dict(&n->arena),
                       tvalue_dict(&n->arena)};
    struct buf text = {0};
    bool ok = true, closed = false, children = false;
    while (ok && !closed) {
        size_t mark = find_bytes(n->in, bytes_str(MINIMAX_SPACE), n->at);
        if (!(ok = mark != SIZE_MAX))
            break;
        buf_add(&text, n->in.data + n->at, mark - n->at);
        n->at = mark;
        closed = take_close(n, name);
        if (closed)
            break;
        ok = children = take_open(n) && element(n, container, depth + 1, &f);
    }
    if (ok)
        ok = children ? add_mixed(n, &f, buf_bytes(&text))
                      : leaf(n, schema, container, buf_bytes(&text), &f.value);
    *out = f.value;
    buf_release(&text);
    return ok;
}

static bool element(struct nest *n, struct tvalue container, unsigned depth, struct filled *into) {
    struct bytes name;
    struct tvalue value;
    return depth < PARSE_DEPTH_MAX && take_tag(n, &name) &&
           content(n, schema_of_child(container, name), name, depth, &value) &&
           add_child(n, into, name, value);
}

/* ---- a call ---- */

/* "NAME">, 'NAME'> or NAME> */
static bool take_name(struct nest *n, struct bytes *name) {
    struct bytes body = strip_blank(n->in);
    bool quoted = body.len && (body.data[0] == '"' || body.data[0] == '\'');
    const uint8_t end[] = {quoted ? body.data[0] : '>', '>'};
    n->in = bytes_from(body, quoted);
    n->at = find_bytes(n->in, bytes_of(end, quoted ? 2 : 1), 0);
    if (n->at == SIZE_MAX)
        return false;
    *name = bytes_of(n->in.data, n->at);
    n->at += quoted ? 2 : 1;
    return true;
}

static void skip_blanks(struct nest *n) {
    while (n->at < n->in.len && is_blank(n->in.data[n->at]))
        n->at++;
}

bool read_minimax(struct call_reader *r, struct bytes body) {
    struct nest n = {.in = body};
    struct bytes name = {0};
    struct buf arguments = {0};
    arena_init(&n.arena, NESTED_BUDGET, 0);
    struct filled f = {tvalue_dict(&n.arena), tvalue_dict(&n.arena)};
    bool ok = take_name(&n, &name);
    n.parameters = parse_tools_parameters(r->tools, name);
    for (skip_blanks(&n); ok && n.at < n.in.len; skip_blanks(&n))
        ok = take_open(&n) && element(&n, n.parameters, 0, &f);
    if (ok)
        tvalue_to_json(f.value, &arguments);
    ok = ok && read_add(r, bytes_of(NULL, 0), name, buf_bytes(&arguments));
    buf_release(&arguments);
    arena_release(&n.arena);
    return ok;
}
