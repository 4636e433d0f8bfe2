/* One array of nodes and one buffer of texts; parsing is a loop with a stack of open nodes. */
#include "formats/config.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/list.h"
#include "formats/config_known.h"
#include "formats/json.h"

enum { CONFIG_DEPTH_MAX = 16, CONFIG_NODES_MAX = 1 << 20 };

/* ---- parsing ---- */

static uint32_t add_node(struct config *c) {
    if (c->node_count == c->node_cap) {
        c->node_cap = c->node_cap * 2 + 64;
        c->nodes = mem_realloc(c->nodes, c->node_cap * sizeof *c->nodes);
    }
    c->nodes[c->node_count] = (struct config_node){0};
    return c->node_count++;
}

static uint32_t add_text(struct config *c, struct bytes text) {
    uint32_t at = (uint32_t)c->texts.len;
    buf_add_bytes(&c->texts, text);
    buf_add_byte(&c->texts, 0);
    return at;
}

static void set_value(struct config *c, uint32_t node, enum json_event ev, struct bytes text) {
    struct config_node *n = &c->nodes[node];
    switch (ev) {
    case JSON_TRUE:
    case JSON_FALSE:
        n->kind = CONFIG_BOOL;
        n->truth = ev == JSON_TRUE;
        break;
    case JSON_NUMBER:
        n->kind = CONFIG_NUMBER;
        n->is_integer = json_number_int64(text, &n->integer);
        if (!json_number_double(text, &n->number))
            n->number = INFINITY;
        break;
    case JSON_STRING:
        n->kind = CONFIG_TEXT;
        n->text = add_text(c, text);
        break;
    case JSON_ARRAY_BEGIN: n->kind = CONFIG_LIST; break;
    case JSON_OBJECT_BEGIN: n->kind = CONFIG_OBJECT; break;
    default: n->kind = CONFIG_NULL;
    }
}

struct open_node {
    uint32_t node, last; /* last child; 0: none */
};

static uint32_t add_child(struct config *c, struct open_node *open, uint32_t name) {
    uint32_t child = add_node(c);
    c->nodes[child].name = name;
    c->nodes[child].parent = open->node;
    c->nodes[open->node].count++;
    if (open->last)
        c->nodes[open->last].next = child;
    else
        c->nodes[open->node].first = child;
    open->last = child;
    return child;
}

static bool parse(struct config *c, struct json_reader *r) {
    struct open_node stack[CONFIG_DEPTH_MAX];
    uint32_t depth = 0, name = 0;
    if (!json_expect(r, JSON_OBJECT_BEGIN))
        return false;
    stack[0] = (struct open_node){.node = add_node(c)};
    c->nodes[0].kind = CONFIG_OBJECT;
    for (;;) {
        enum json_event ev = json_next(r);
        if (ev == JSON_ERROR)
            return false;
        if (ev == JSON_KEY) {
            name = add_text(c, r->text);
        } else if (ev == JSON_OBJECT_END || ev == JSON_ARRAY_END) {
            if (depth-- == 0)
                return json_next(r) == JSON_END;
        } else {
            if (c->node_count >= CONFIG_NODES_MAX)
                return json_fail(r, "too many values");
            uint32_t child = add_child(c, &stack[depth], name);
            set_value(c, child, ev, r->text);
            name = 0;
            if (ev != JSON_OBJECT_BEGIN && ev != JSON_ARRAY_BEGIN)
                continue;
            if (++depth == CONFIG_DEPTH_MAX)
                return json_fail(r, "nested too deeply");
            stack[depth] = (struct open_node){.node = child};
        }
    }
}

/* Bytes of Infinity, -Infinity or NaN at the text's beginning; 0: none of them. */
static size_t no_number(struct bytes text) {
    static const char *const NAMES[] = {"Infinity", "-Infinity", "NaN"};
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        size_t len = strlen(NAMES[i]);
        if (text.len >= len && !memcmp(text.data, NAMES[i], len))
            return len;
    }
    return 0;
}

struct bytes config_strict_text(struct bytes text, struct buf *room) {
    size_t done = 0; /* so much of the text is in room */
    bool quoted = false;
    for (size_t i = 0; i < text.len; i++) {
        size_t len = quoted ? 0 : no_number(bytes_of(text.data + i, text.len - i));
        if (len) {
            buf_add(room, text.data + done, i - done);
            buf_add_byte(room, '"');
            buf_add(room, text.data + i, len);
            buf_add_byte(room, '"');
            done = i + len;
            i = done - 1;
        } else if (text.data[i] == '"') {
            quoted = !quoted;
        } else if (quoted && text.data[i] == '\\') {
            i++;
        }
    }
    if (!done)
        return text;
    buf_add(room, text.data + done, text.len - done);
    return buf_bytes(room);
}

static int open_strict(struct config *c, struct bytes text, struct error *err) {
    int rc = json_scan(text, 0, err);
    if (rc)
        return error_wrap(err, "config.json");
    struct json_reader r;
    json_reader_init(&r, text, 0, 0);
    if (!parse(c, &r))
        rc = error_set(err, ERR_INVALID, "config.json: %s",
                       r.error.code ? r.error.text : "malformed");
    json_reader_release(&r);
    return rc;
}

int config_open(struct config *c, struct bytes text, struct error *err) {
    *c = (struct config){0};
    buf_init(&c->texts, 0);
    buf_add_byte(&c->texts, 0);
    if (text.len > CONFIG_BYTES_MAX)
        return error_set(err, ERR_LIMIT, "config.json is larger than %zu bytes", CONFIG_BYTES_MAX);
    struct buf room = {0};
    int rc = open_strict(c, config_strict_text(text, &room), err);
    buf_release(&room);
    return rc;
}

void config_close(struct config *c) {
    mem_free(c->nodes);
    buf_release(&c->texts);
    *c = (struct config){0};
}

void config_set_defaults(struct config *c, uint32_t top, struct config *defaults) {
    c->top = top;
    c->defaults = defaults;
}

/* ---- reading ---- */

static const char *text_at(const struct config *c, uint32_t at) {
    return (const char *)c->texts.data + at;
}

/* Index of a child by name; 0: none. */
static uint32_t child_named(const struct config *c, uint32_t obj, const char *name) {
    if (obj >= c->node_count || c->nodes[obj].kind != CONFIG_OBJECT)
        return 0;
    for (uint32_t i = c->nodes[obj].first; i; i = c->nodes[i].next)
        if (!strcmp(text_at(c, c->nodes[i].name), name))
            return i;
    return 0;
}

const struct config_node *config_find(struct config *c, uint32_t obj, const char *name) {
    uint32_t i = child_named(c, obj, name);
    if (i) {
        c->nodes[i].consumed = true;
        return c->nodes[i].kind == CONFIG_NULL ? NULL : &c->nodes[i];
    }
    return obj == c->top && c->defaults ? config_find(c->defaults, 0, name) : NULL;
}

int64_t config_object(struct config *c, uint32_t obj, const char *name) {
    uint32_t i = child_named(c, obj, name);
    if (!i)
        return -1;
    c->nodes[i].consumed = true;
    if (c->nodes[i].kind == CONFIG_NULL)
        return -1;
    if (c->nodes[i].kind == CONFIG_OBJECT)
        return i;
    config_fail(c, ERR_INVALID, "'%s' is no object", name);
    return -1;
}

bool config_has_key(const struct config *c, uint32_t obj, const char *name) {
    return child_named(c, obj, name) != 0;
}

bool config_has(struct config *c, uint32_t obj, const char *name) {
    uint32_t i = child_named(c, obj, name);
    return i && c->nodes[i].kind != CONFIG_NULL;
}

int64_t config_int(struct config *c, uint32_t obj, const char *name, int64_t fallback) {
    const struct config_node *n = config_find(c, obj, name);
    if (!n)
        return fallback;
    if (n->kind == CONFIG_NUMBER && n->is_integer && n->integer >= 0)
        return n->integer;
    config_fail(c, ERR_INVALID, "'%s' is no whole number of zero or more", name);
    return fallback;
}

double config_double(struct config *c, uint32_t obj, const char *name, double fallback) {
    const struct config_node *n = config_find(c, obj, name);
    if (!n)
        return fallback;
    if (n->kind == CONFIG_NUMBER && isfinite(n->number))
        return n->number;
    config_fail(c, ERR_INVALID, "'%s' is no number", name);
    return fallback;
}

bool config_bool(struct config *c, uint32_t obj, const char *name, bool fallback) {
    const struct config_node *n = config_find(c, obj, name);
    if (!n)
        return fallback;
    if (n->kind == CONFIG_BOOL)
        return n->truth;
    config_fail(c, ERR_INVALID, "'%s' is neither true nor false", name);
    return fallback;
}

const char *config_text(struct config *c, uint32_t obj, const char *name, const char *fallback) {
    const struct config_node *n = config_find(c, obj, name);
    if (!n)
        return fallback;
    if (n->kind == CONFIG_TEXT)
        return config_node_text(c, n);
    config_fail(c, ERR_INVALID, "'%s' is no text", name);
    return fallback;
}

void config_consume(struct config *c, uint32_t obj, const char *name) {
    uint32_t i = child_named(c, obj, name);
    if (i)
        c->nodes[i].consumed = true;
}

static bool asks_for_nothing(const struct config_node *n) {
    return n->kind == CONFIG_NULL || (n->kind == CONFIG_BOOL && !n->truth) ||
           ((n->kind == CONFIG_LIST || n->kind == CONFIG_OBJECT) && n->count == 0);
}

void config_consume_same(struct config *c, uint32_t obj, const char *name, const char *other) {
    struct config_node *a = &c->nodes[child_named(c, obj, name)],
                       *b = &c->nodes[child_named(c, obj, other)];
    if (a == c->nodes || b == c->nodes || a->consumed || asks_for_nothing(a))
        return;
    if (a->kind == b->kind &&
        ((a->kind == CONFIG_NUMBER && a->number == b->number) ||
         (a->kind == CONFIG_BOOL && a->truth == b->truth) ||
         (a->kind == CONFIG_TEXT && !strcmp(text_at(c, a->text), text_at(c, b->text)))))
        a->consumed = true;
    else
        config_fail(c, ERR_UNSUPPORTED, "'%s' and '%s' disagree", name, other);
}

void config_consume_all(struct config *c, uint32_t obj, const char *name) {
    uint32_t top = child_named(c, obj, name);
    if (!top)
        return;
    c->nodes[top].consumed = true;
    for (uint32_t i = top + 1; i < c->node_count; i++) { /* children come after their parents */
        if (c->nodes[i].parent < top)
            break;
        c->nodes[i].consumed = true;
    }
}

const struct config_node *config_item(const struct config *c, const struct config_node *list,
                                      uint32_t i) {
    if (list < c->nodes || list >= c->nodes + c->node_count)
        return c->defaults ? config_item(c->defaults, list, i) : NULL;
    if (i >= list->count)
        return NULL;
    uint32_t at = list->first;
    while (i--)
        at = c->nodes[at].next;
    return &c->nodes[at];
}

/* The tree a node is of: it may be the defaults'. */
static const struct config *tree_of(const struct config *c, const struct config_node *node) {
    bool here = node >= c->nodes && node < c->nodes + c->node_count;
    return here || !c->defaults ? c : tree_of(c->defaults, node);
}

const char *config_node_name(const struct config *c, const struct config_node *node) {
    return text_at(tree_of(c, node), node->name);
}
const char *config_node_text(const struct config *c, const struct config_node *node) {
    return node->kind == CONFIG_TEXT ? text_at(tree_of(c, node), node->text) : "";
}

uint32_t config_doubles(struct config *c, uint32_t obj, const char *name, double *out,
                        uint32_t max) {
    const struct config_node *list = config_find(c, obj, name);
    if (!list)
        return 0;
    if (list->kind != CONFIG_LIST || list->count > max) {
        config_fail(c, ERR_INVALID, "'%s' is no list of at most %u numbers", name, max);
        return 0;
    }
    const struct config *tree = tree_of(c, list);
    uint32_t n = 0;
    for (uint32_t i = list->first; i; i = tree->nodes[i].next, n++) {
        out[n] = tree->nodes[i].number;
        if (tree->nodes[i].kind == CONFIG_NUMBER && isfinite(out[n]))
            continue;
        config_fail(c, ERR_INVALID, "'%s' has something that is no number", name);
        return 0;
    }
    return n;
}

/* ---- ending ---- */

int config_fail(struct config *c, int code, const char *fmt, ...) {
    char text[ERROR_TEXT_MAX - 32];
    va_list args;
    if (c->error.code)
        return c->error.code;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return error_set(&c->error, code, "config.json: %s", text);
}

uint32_t config_next_unread(const struct config *c, const char *accept, uint32_t after) {
    /* Depth first, only into objects somebody opened. */
    for (uint32_t i = after + 1; i < c->node_count; i++) {
        const struct config_node *n = &c->nodes[i], *parent = &c->nodes[n->parent];
        const char *name = text_at(c, n->name);
        bool inside_read = n->parent == 0 || (parent->consumed && parent->kind == CONFIG_OBJECT);
        if (inside_read && !n->consumed && !asks_for_nothing(n) &&
            !config_field_is_harmless(name) && !list_has(accept, ',', bytes_str(name)))
            return i;
    }
    return 0;
}

int config_finish(struct config *c, const char *accept, struct error *err) {
    uint32_t i = c->error.code ? 0 : config_next_unread(c, accept, 0);
    if (i) {
        const struct config_node *n = &c->nodes[i];
        config_fail(c, ERR_UNSUPPORTED, "%s%sfield '%s' is not known to this version",
                    n->parent ? text_at(c, c->nodes[n->parent].name) : "", n->parent ? ": " : "",
                    text_at(c, n->name));
    }
    if (!c->error.code)
        return 0;
    return error_set(err, c->error.code, "%s", c->error.text);
}
