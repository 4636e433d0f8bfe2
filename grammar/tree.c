/*
 * tree.c - reading without recursion: open parents lie on a stack of the reader's depth.
 */
#include "grammar/tree.h"

#include "base/buf.h"
#include "formats/json.h"

#include <stdio.h>

void tree_release(struct tree *t) {
    vec_release(&t->nodes);
    arena_release(&t->text);
}

uint32_t tree_new(struct tree *t, enum tree_kind kind) {
    if (!t->nodes.count)
        vec_push(&t->nodes, ((struct tree_node){0}));
    vec_push(&t->nodes, ((struct tree_node){.kind = (uint8_t)kind}));
    return (uint32_t)t->nodes.count - 1;
}

static struct bytes keep_text(struct tree *t, struct bytes text) {
    void *copy = arena_copy(&t->text, text.len ? (const void *)text.data : "", text.len);
    CHECK(copy);
    return bytes_of(copy, text.len);
}

uint32_t tree_new_string(struct tree *t, struct bytes text) {
    uint32_t node = tree_new(t, TREE_STRING);
    t->nodes.items[node].text = keep_text(t, text);
    return node;
}

uint32_t tree_new_uint(struct tree *t, uint32_t value) {
    char text[16];
    int len = snprintf(text, sizeof text, "%u", value);
    uint32_t node = tree_new_string(t, bytes_of(text, (size_t)len));
    t->nodes.items[node].kind = TREE_NUMBER;
    return node;
}

static void append(struct tree *t, uint32_t parent, uint32_t child) {
    struct tree_node *p = &t->nodes.items[parent];
    if (p->last)
        t->nodes.items[p->last].next = child;
    else
        p->first = child;
    p->last = child;
    p->count++;
}

uint32_t tree_add_bytes(struct tree *t, uint32_t parent, struct bytes key, uint32_t child) {
    uint32_t node = tree_new(t, tree_kind(t, child));
    struct tree_node n = t->nodes.items[child];
    n.next = 0;
    n.key = keep_text(t, key);
    t->nodes.items[node] = n;
    append(t, parent, node);
    return node;
}

uint32_t tree_add(struct tree *t, uint32_t parent, const char *key, uint32_t child) {
    return tree_add_bytes(t, parent, bytes_str(key ? key : ""), child);
}

int tree_read(struct tree *t, struct bytes text, uint32_t depth_max, uint32_t *root,
              struct error *err) {
    static const enum tree_kind KINDS[] = {[JSON_OBJECT_BEGIN] = TREE_OBJECT,
                                           [JSON_ARRAY_BEGIN] = TREE_ARRAY,
                                           [JSON_STRING] = TREE_STRING,
                                           [JSON_NUMBER] = TREE_NUMBER,
                                           [JSON_TRUE] = TREE_TRUE,
                                           [JSON_FALSE] = TREE_FALSE,
                                           [JSON_NULL] = TREE_NULL};
    struct json_reader r;
    VEC(uint32_t) open = {0};
    struct buf key = {0};
    int rc = 0;
    json_reader_init(&r, text, depth_max, JSON_ALLOW_NUL);
    *root = 0;
    if (!t->nodes.count)
        arena_init(&t->text, 0, 0);
    for (enum json_event event; (event = json_next(&r)) != JSON_END && !rc;) {
        if (event == JSON_ERROR) {
            rc = error_set(err, r.error.code, "%s", r.error.text);
            break;
        }
        if (event == JSON_KEY) {
            buf_reset(&key);
            buf_add_bytes(&key, r.text);
            continue;
        }
        if (event == JSON_OBJECT_END || event == JSON_ARRAY_END) {
            open.count--;
            continue;
        }
        uint32_t node = tree_new(t, KINDS[event]);
        if (event == JSON_STRING || event == JSON_NUMBER)
            t->nodes.items[node].text = keep_text(t, r.text);
        if (open.count) {
            uint32_t parent = open.items[open.count - 1];
            if (tree_kind(t, parent) == TREE_OBJECT)
                t->nodes.items[node].key = keep_text(t, buf_bytes(&key));
            append(t, parent, node);
        } else {
            *root = node;
        }
        if (event == JSON_OBJECT_BEGIN || event == JSON_ARRAY_BEGIN)
            vec_push(&open, node);
    }
    vec_release(&open);
    buf_release(&key);
    json_reader_release(&r);
    return rc;
}

bool tree_is(const struct tree *t, uint32_t node, const char *text) {
    return tree_kind(t, node) == TREE_STRING && bytes_equal(tree_text(t, node), bytes_str(text));
}

uint32_t tree_find(const struct tree *t, uint32_t object, struct bytes key) {
    if (tree_kind(t, object) != TREE_OBJECT)
        return 0;
    uint32_t found = 0; /* of repeated keys the last counts */
    for (uint32_t k = tree_first(t, object); k; k = tree_next(t, k))
        if (bytes_equal(tree_key(t, k), key))
            found = k;
    return found;
}

uint32_t tree_get(const struct tree *t, uint32_t object, const char *key) {
    return tree_find(t, object, bytes_str(key));
}

bool tree_uint(const struct tree *t, uint32_t node, uint32_t *out) {
    uint64_t value;
    if (tree_kind(t, node) != TREE_NUMBER || !json_number_uint64(tree_text(t, node), &value))
        return false;
    *out = (uint32_t)MIN(value, (uint64_t)0xfffffffe);
    return true;
}

bool tree_equal(const struct tree *t, uint32_t a, uint32_t b) {
    double x, y;
    int64_t i, k;
    if (tree_kind(t, a) != tree_kind(t, b))
        return false;
    switch (tree_kind(t, a)) {
    case TREE_STRING: return bytes_equal(tree_text(t, a), tree_text(t, b));
    case TREE_NUMBER:
        if (json_number_int64(tree_text(t, a), &i) && json_number_int64(tree_text(t, b), &k))
            return i == k;
        return json_number_double(tree_text(t, a), &x) && json_number_double(tree_text(t, b), &y) &&
               x == y;
    case TREE_ARRAY: {
        if (tree_count(t, a) != tree_count(t, b))
            return false;
        uint32_t n = tree_first(t, b);
        for (uint32_t m = tree_first(t, a); m; m = tree_next(t, m), n = tree_next(t, n))
            if (!tree_equal(t, m, n))
                return false;
        return true;
    }
    case TREE_OBJECT:
        if (tree_count(t, a) != tree_count(t, b))
            return false;
        for (uint32_t m = tree_first(t, a); m; m = tree_next(t, m)) {
            uint32_t n = tree_find(t, b, tree_key(t, m));
            if (!n || !tree_equal(t, m, n))
                return false;
        }
        return true;
    default: return true;
    }
}
