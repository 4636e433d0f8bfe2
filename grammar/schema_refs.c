/*
 * schema_refs.c - what a $ref means: the schemas of a document by the addresses and anchors that
 * they give themselves.
 *
 * A schema with "$id" is a resource; it and what lies in it, down to the next one, has its address
 * as base. References are resolved against the base of the schema that they stand in (RFC 3986,
 * 5.2). Rewritten schemas share their "$ref" with the one that they come from, so the base of a
 * reference is kept by the node of its text.
 */
#include "grammar/schema_internal.h"

#include <stdio.h>
#include <stdlib.h>

enum { REFS_DEPTH_MAX = 200 };

/* ---- dialects ---- */

enum dialect schema_dialect(const struct tree *t, uint32_t root) {
    static const struct {
        const char *name;
        enum dialect dialect;
    } NAMES[] = {{"draft-03", DIALECT_ID},          {"draft-04", DIALECT_ID},
                 {"draft-06", DIALECT_DEFINITIONS}, {"draft-07", DIALECT_DEFINITIONS},
                 {"draft/2019-09", DIALECT_2019},   {"draft/2020-12", DIALECT_NEW},
                 {"draft/next", DIALECT_NEW}};
    uint32_t name = tree_kind(t, root) == TREE_OBJECT ? tree_get(t, root, "$schema") : 0;
    if (!name || tree_kind(t, name) != TREE_STRING)
        return DIALECT_NONE;
    struct bytes text = tree_text(t, name);
    if (!memmem(text.data, text.len, "json-schema.org/", strlen("json-schema.org/")))
        return memmem(text.data, text.len, "://", 3) ? DIALECT_OTHER : DIALECT_NONE;
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
        if (memmem(text.data, text.len, NAMES[i].name, strlen(NAMES[i].name)))
            return NAMES[i].dialect;
    return DIALECT_NONE;
}

/* ---- addresses ---- */

struct address {
    struct bytes scheme, authority, path, query, fragment; /* data NULL: not there */
};

static size_t span_until(struct bytes text, const char *ends) {
    size_t n = 0;
    while (n < text.len && !strchr(ends, text.data[n]))
        n++;
    return n;
}

static struct bytes cut_front(struct bytes *text, size_t len, size_t skip) {
    struct bytes front = bytes_of(text->data, len);
    *text = bytes_of(text->data + len + skip, text->len - len - skip);
    return front;
}

static struct address split_address(struct bytes text) {
    struct address a = {0};
    text = text.data ? text : bytes_str(""); /* of a document without an address */
    size_t n = span_until(text, ":/?#");
    if (n && n < text.len && text.data[n] == ':')
        a.scheme = cut_front(&text, n, 1);
    if (text.len >= 2 && text.data[0] == '/' && text.data[1] == '/') {
        (void)cut_front(&text, 2, 0);
        a.authority = cut_front(&text, span_until(text, "/?#"), 0);
    }
    a.path = cut_front(&text, span_until(text, "?#"), 0);
    if (text.len && text.data[0] == '?') {
        (void)cut_front(&text, 1, 0);
        a.query = cut_front(&text, span_until(text, "#"), 0);
    }
    if (text.len) {
        (void)cut_front(&text, 1, 0);
        a.fragment = text;
    }
    return a;
}

/* RFC 3986, 5.2.4; out holds the path alone, from `begin` on. */
static void add_without_dots(struct bytes path, size_t begin, struct buf *out) {
    while (path.len) {
        size_t slash = path.data[0] == '/',
               n = span_until(bytes_of(path.data + slash, path.len - slash), "/");
        struct bytes step = cut_front(&path, slash + n, 0);
        struct bytes name = bytes_of(step.data + slash, n);
        bool here = bytes_equal(name, bytes_str(".")), up = bytes_equal(name, bytes_str(".."));
        if (up) {
            while (out->len > begin && out->data[out->len - 1] != '/')
                out->len--;
            out->len -= out->len > begin;
        }
        if (!here && !up)
            buf_add_bytes(out, step);
        else if (!path.len && slash)
            buf_add_byte(out, '/');
    }
}

/* Appends the address that `ref` has beside `base`, without its fragment. */
static void resolve(struct bytes base, struct bytes ref, struct buf *out) {
    struct address b = split_address(base), r = split_address(ref);
    bool own = r.scheme.data || r.authority.data;
    struct bytes scheme = r.scheme.data ? r.scheme : b.scheme;
    struct bytes authority = own ? r.authority : b.authority;
    struct bytes query = own || r.path.len || r.query.data ? r.query : b.query;
    if (scheme.data) {
        buf_add_bytes(out, scheme);
        buf_add_byte(out, ':');
    }
    if (authority.data) {
        buf_add_str(out, "//");
        buf_add_bytes(out, authority);
    }
    size_t begin = out->len;
    struct buf path = {0};
    if (!own && r.path.len && r.path.data[0] != '/') {
        size_t keep = b.path.len;
        while (keep && b.path.data[keep - 1] != '/')
            keep--;
        buf_add_bytes(&path, bytes_of(b.path.data, keep));
        if (!keep && b.authority.data)
            buf_add_byte(&path, '/');
    }
    buf_add_bytes(&path, own || r.path.len ? r.path : b.path);
    if (path.len)
        add_without_dots(buf_bytes(&path), begin, out);
    buf_release(&path);
    if (query.data) {
        buf_add_byte(out, '?');
        buf_add_bytes(out, query);
    }
}

/* ---- the schemas of the document ---- */

static uint32_t *base_slot(struct schema *s, uint32_t node) {
    while (s->bases.count <= node)
        vec_push(&s->bases, 0);
    return &s->bases.items[node];
}

uint32_t schema_resource_of(const struct schema *s, uint32_t node) {
    uint32_t known = node < s->bases.count ? s->bases.items[node] : 0;
    return known ? known - 1 : 0;
}

static uint32_t add_resource(struct schema *s, uint32_t node, uint32_t base, struct bytes id) {
    struct schema_resource r = {.node = node};
    resolve(buf_bytes(&s->resources.items[base].address), id, &r.address);
    vec_push(&s->resources, r);
    return (uint32_t)s->resources.count - 1;
}

static void add_anchor(struct schema *s, uint32_t node, uint32_t base, struct bytes name,
                       bool dynamic) {
    vec_push(&s->anchors, ((struct schema_anchor){base, node, name, dynamic}));
}

/* The names that a schema gives itself; returns the base of what lies in it. */
static uint32_t read_names(struct schema *s, uint32_t node, uint32_t base) {
    struct tree *t = &s->t;
    uint32_t id = tree_get(t, node, s->dialect == DIALECT_ID ? "id" : "$id");
    uint32_t anchor = tree_get(t, node, "$anchor"), dynamic = tree_get(t, node, "$dynamicAnchor");
    if (s->ref_alone && tree_get(t, node, "$ref"))
        return base;
    if (id && tree_kind(t, id) == TREE_STRING) {
        struct bytes text = tree_text(t, id);
        size_t head = span_until(text, "#");
        if (head)
            base = add_resource(s, node, base, bytes_of(text.data, head));
        if (head + 1 < text.len) /* drafts up to 7 */
            add_anchor(s, node, base, bytes_of(text.data + head + 1, text.len - head - 1), false);
    }
    if (anchor && tree_kind(t, anchor) == TREE_STRING)
        add_anchor(s, node, base, tree_text(t, anchor), false);
    if (dynamic && tree_kind(t, dynamic) == TREE_STRING)
        add_anchor(s, node, base, tree_text(t, dynamic), true);
    return base;
}

enum holds schema_keyword_holds(struct bytes keyword) {
    static const struct {
        const char *name;
        enum holds holds;
    } KEYWORDS[] = {{"properties", HOLDS_MANY},
                    {"items", HOLDS_SCHEMA},
                    {"$defs", HOLDS_MANY},
                    {"definitions", HOLDS_MANY},
                    {"allOf", HOLDS_MANY},
                    {"anyOf", HOLDS_MANY},
                    {"oneOf", HOLDS_MANY},
                    {"not", HOLDS_SCHEMA},
                    {"if", HOLDS_SCHEMA},
                    {"then", HOLDS_SCHEMA},
                    {"else", HOLDS_SCHEMA},
                    {"prefixItems", HOLDS_MANY},
                    {"additionalItems", HOLDS_SCHEMA},
                    {"contains", HOLDS_SCHEMA},
                    {"additionalProperties", HOLDS_SCHEMA},
                    {"patternProperties", HOLDS_MANY},
                    {"propertyNames", HOLDS_SCHEMA},
                    {"dependentSchemas", HOLDS_MANY},
                    {"dependencies", HOLDS_MANY},
                    {"unevaluatedProperties", HOLDS_SCHEMA},
                    {"unevaluatedItems", HOLDS_SCHEMA},
                    {"contentSchema", HOLDS_SCHEMA}};
    for (size_t i = 0; i < ARRAY_LEN(KEYWORDS); i++)
        if (bytes_equal(keyword, bytes_str(KEYWORDS[i].name)))
            return KEYWORDS[i].holds;
    return HOLDS_NONE;
}

/* Notes the base of all references at and below a schema. names: of names, too. */
static void walk_schema(struct schema *s, uint32_t node, uint32_t base, bool names,
                        uint32_t depth) {
    struct tree *t = &s->t;
    if (tree_kind(t, node) == TREE_ARRAY) /* "items" of drafts before 2020-12 */
        for (uint32_t k = tree_first(t, node); k && depth < REFS_DEPTH_MAX; k = tree_next(t, k))
            walk_schema(s, k, base, names, depth + 1);
    if (tree_kind(t, node) != TREE_OBJECT || depth >= REFS_DEPTH_MAX)
        return;
    if (names)
        base = read_names(s, node, base);
    *base_slot(s, node) = base + 1;
    for (uint32_t k = tree_first(t, node); k; k = tree_next(t, k)) {
        enum holds holds = schema_keyword_holds(tree_key(t, k));
        *base_slot(s, k) = base + 1;
        if (holds == HOLDS_SCHEMA)
            walk_schema(s, k, base, names, depth + 1);
        for (uint32_t m = holds == HOLDS_MANY ? tree_first(t, k) : 0; m; m = tree_next(t, m))
            walk_schema(s, m, base, names, depth + 1);
    }
}

void schema_refs_init(struct schema *s) {
    static const char *const NAMES[] = {"$id", "id", "$anchor", "$dynamicAnchor"};
    struct schema_resource whole = {.node = s->root};
    bool named = false;
    vec_push(&s->resources, whole);
    for (uint32_t n = 1; n < s->t.nodes.count && !named; n++)
        for (size_t i = 0; i < ARRAY_LEN(NAMES) && tree_key(&s->t, n).len; i++)
            named |= bytes_equal(tree_key(&s->t, n), bytes_str(NAMES[i]));
    if (named)
        walk_schema(s, s->root, 0, true, 0);
}

void schema_refs_release(struct schema *s) {
    for (size_t i = 0; i < s->resources.count; i++)
        buf_release(&s->resources.items[i].address);
    vec_release(&s->resources);
    vec_release(&s->anchors);
    vec_release(&s->bases);
}

/* ---- references ---- */

static void unescape_pointer_step(struct bytes step, struct buf *out) {
    struct buf percent = {0};
    for (size_t i = 0; i < step.len; i++) {
        unsigned value;
        if (step.data[i] == '%' && i + 2 < step.len &&
            sscanf((const char *)step.data + i + 1, "%2x", &value) == 1) {
            buf_add_byte(&percent, (char)value);
            i += 2;
        } else {
            buf_add_byte(&percent, (char)step.data[i]);
        }
    }
    buf_reset(out);
    for (size_t i = 0; i < percent.len; i++) {
        bool escape = percent.data[i] == '~' && i + 1 < percent.len;
        char next = escape ? percent.data[i + 1] : 0;
        if (next == '0' || next == '1')
            i++;
        buf_add_byte(out, next == '0' ? '~' : next == '1' ? '/' : percent.data[i]);
    }
    buf_release(&percent);
}

static uint32_t follow_pointer(struct schema *s, uint32_t node, struct bytes pointer) {
    struct buf key = {0};
    uint32_t base = schema_resource_of(s, node);
    while (node && pointer.len) {
        pointer = bytes_of(pointer.data + 1, pointer.len - 1); /* the slash */
        const uint8_t *slash = memchr(pointer.data, '/', pointer.len);
        size_t len = slash ? (size_t)(slash - pointer.data) : pointer.len;
        unescape_pointer_step(bytes_of(pointer.data, len), &key);
        if (tree_kind(&s->t, node) == TREE_ARRAY) {
            unsigned long index = strtoul(buf_text(&key), NULL, 10);
            uint32_t child = tree_first(&s->t, node);
            for (; index && child; index--)
                child = tree_next(&s->t, child);
            node = child;
        } else {
            node = tree_find(&s->t, node, buf_bytes(&key));
        }
        if (node && node < s->bases.count && s->bases.items[node])
            base = schema_resource_of(s, node);
        pointer = bytes_of(pointer.data + len, pointer.len - len);
    }
    buf_release(&key);
    /* a place that no keyword leads to: what stands there names nothing, but it may refer */
    if (node && base && !schema_resource_of(s, node))
        walk_schema(s, node, base, false, 0);
    return node;
}

/* The resource of this address, or FA_NONE; also where several have it. */
static uint32_t find_resource(const struct schema *s, struct bytes address) {
    uint32_t found = FA_NONE;
    for (uint32_t i = 0; i < s->resources.count; i++)
        if (bytes_equal(buf_bytes(&s->resources.items[i].address), address)) {
            if (found != FA_NONE && s->resources.items[found].node != s->resources.items[i].node)
                return FA_NONE;
            found = i;
        }
    return found;
}

/* The anchor of a resource; NULL: it has none of this name, or two. */
static const struct schema_anchor *find_anchor(const struct schema *s, uint32_t resource,
                                               struct bytes name) {
    const struct schema_anchor *found = NULL;
    for (size_t i = 0; i < s->anchors.count; i++) {
        const struct schema_anchor *a = &s->anchors.items[i];
        uint32_t of = s->resources.items[a->resource].node;
        if (of != s->resources.items[resource].node || !bytes_equal(a->name, name))
            continue;
        if (found && found->node != a->node)
            return NULL;
        found = a;
    }
    return found;
}

/* Reads the schema of schemas at this address, where it is one; returns its resource, or FA_NONE. */
static uint32_t add_draft(struct schema *s, struct bytes address) {
    enum { DRAFT_DEPTH_MAX = 32 };
    const struct bytes meta = bytes_str("meta");
    struct buf text = {0};
    struct error err;
    struct schema_resource r = {0};
    uint32_t added = FA_NONE;
    bool dynamic, taken = false;
    for (size_t i = 0; i < s->anchors.count; i++)
        taken |= s->anchors.items[i].dynamic && bytes_equal(s->anchors.items[i].name, meta);
    for (size_t i = 0; i < s->resources.count; i++)
        if (bytes_equal(buf_bytes(&s->resources.items[i].address), address))
            return FA_NONE; /* two of the document have it */
    /* which anchor counts would depend on the way, but for the document's own */
    if (schema_draft(address, &text, &dynamic) &&
        !(dynamic && taken && !schema_anchor_of(s, schema_resource_of(s, s->root), meta))) {
        CHECK(!tree_read(&s->t, buf_bytes(&text), DRAFT_DEPTH_MAX, &r.node, &err));
        buf_add_bytes(&r.address, address);
        added = (uint32_t)s->resources.count;
        vec_push(&s->resources, r);
        if (dynamic)
            add_anchor(s, r.node, added, meta, true);
        walk_schema(s, r.node, added, false, 0);
    }
    buf_release(&text);
    return added;
}

/* Where a reference leads: 0 with no error where nowhere. *anchor: by this one, or NULL. */
static uint32_t find_target(struct schema *s, uint32_t ref, const struct schema_anchor **anchor) {
    struct bytes text = tree_text(&s->t, ref);
    size_t head = span_until(text, "#");
    uint32_t resource = schema_resource_of(s, ref);
    struct bytes fragment =
        head < text.len ? bytes_of(text.data + head + 1, text.len - head - 1) : bytes_str("");
    *anchor = NULL;
    if (head) {
        struct buf address = {0};
        resolve(buf_bytes(&s->resources.items[resource].address), bytes_of(text.data, head),
                &address);
        resource = find_resource(s, buf_bytes(&address));
        resource = resource == FA_NONE ? add_draft(s, buf_bytes(&address)) : resource;
        buf_release(&address);
    }
    if (resource == FA_NONE)
        return 0;
    uint32_t node = s->resources.items[resource].node;
    if (fragment.len && fragment.data[0] == '/')
        return follow_pointer(s, node, fragment);
    if (!fragment.len)
        return node;
    *anchor = find_anchor(s, resource, fragment);
    return *anchor ? (*anchor)->node : 0;
}

uint32_t schema_target(struct schema *s, uint32_t ref) {
    const struct schema_anchor *anchor;
    struct bytes text = tree_text(&s->t, ref);
    if (tree_kind(&s->t, ref) != TREE_STRING)
        return schema_fail(s, ERR_INVALID, "keyword \"$ref\" must be a string");
    if (schema_is_copied(s, ref))
        return schema_copied_target(s, ref);
    uint32_t node = find_target(s, ref, &anchor);
    if (!node)
        schema_fail(s, ERR_UNSUPPORTED,
                    "$ref '%.*s' leads nowhere in this schema; other documents are not fetched",
                    (int)MIN(text.len, (size_t)200), (const char *)text.data);
    return node;
}

uint32_t schema_resource_at(const struct schema *s, uint32_t node) {
    uint32_t base = schema_resource_of(s, node);
    return s->resources.items[base].node == node ? base : FA_NONE;
}

uint32_t schema_anchor_of(const struct schema *s, uint32_t resource, struct bytes name) {
    const struct schema_anchor *anchor = find_anchor(s, resource, name);
    return anchor && anchor->dynamic ? anchor->node : 0;
}

const struct schema_anchor *schema_dynamic_anchor(struct schema *s, uint32_t ref) {
    const struct schema_anchor *anchor;
    bool found = !schema_is_copied(s, ref) && find_target(s, ref, &anchor);
    return found && anchor && anchor->dynamic ? anchor : NULL;
}

/* The first schema passed through is the document itself, so its anchor is the one that counts. Where it
 * has none, and several have the name, the document is copied (schema_copies.c). */
uint32_t schema_dynamic_target(struct schema *s, uint32_t ref) {
    if (tree_kind(&s->t, ref) != TREE_STRING)
        return schema_target(s, ref);
    const struct schema_anchor *anchor = schema_dynamic_anchor(s, ref);
    if (!anchor)
        return schema_target(s, ref);
    uint32_t own = schema_anchor_of(s, schema_resource_of(s, s->root), anchor->name);
    return own ? own : anchor->node;
}
