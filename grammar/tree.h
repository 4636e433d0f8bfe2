/*
 * tree.h - a JSON document as a tree: for schemas, which are read many times and from many places.
 *
 * Nodes are numbers into one pool; node 0 is "absent". Text of strings is decoded, numbers keep
 * their text. More nodes may be made by hand (tree_*_new), since a schema is rewritten into others.
 *
 * Threading: a tree belongs to one thread.
 */
#ifndef GRAMMAR_TREE_H
#define GRAMMAR_TREE_H

#include "base/arena.h"
#include "base/error.h"
#include "base/vec.h"

enum tree_kind {
    TREE_ABSENT,
    TREE_NULL,
    TREE_FALSE,
    TREE_TRUE,
    TREE_NUMBER,
    TREE_STRING,
    TREE_ARRAY,
    TREE_OBJECT
};

struct tree_node {
    uint8_t kind;         /* enum tree_kind */
    struct bytes text;    /* of a string or number; stays where it is while the tree lives */
    struct bytes key;     /* of an object's member; likewise */
    uint32_t first, last; /* children of an array or object, in order */
    uint32_t next;        /* of the same parent */
    uint32_t count;       /* children */
};
struct tree {
    VEC(struct tree_node) nodes;
    struct arena text;
};

/* Reads a text; depth_max and errors as json_reader. *root is its node. */
MUST_CHECK int tree_read(struct tree *t, struct bytes text, uint32_t depth_max, uint32_t *root,
                         struct error *err);
/* Frees all nodes and texts; t may be zeroes. */
void tree_release(struct tree *t);

/* node: one of this tree, never 0, here and below. */
static inline enum tree_kind tree_kind(const struct tree *t, uint32_t node) {
    return (enum tree_kind)t->nodes.items[node].kind;
}
/* A string's text, unescaped, or a number as it was written; borrowed from the tree. */
static inline struct bytes tree_text(const struct tree *t, uint32_t node) {
    return t->nodes.items[node].text;
}
/* The name of an object's member, unescaped; empty for others. Borrowed from the tree. */
static inline struct bytes tree_key(const struct tree *t, uint32_t node) {
    return t->nodes.items[node].key;
}
/* A string's text is this. */
bool tree_is(const struct tree *t, uint32_t node, const char *text);
/* The member of an object, or 0. */
uint32_t tree_get(const struct tree *t, uint32_t object, const char *key);
/* The same by a key of any bytes. */
uint32_t tree_find(const struct tree *t, uint32_t object, struct bytes key);
/* The first child of an array or object, or 0. */
static inline uint32_t tree_first(const struct tree *t, uint32_t node) {
    return t->nodes.items[node].first;
}
/* The next child of the same parent, or 0. */
static inline uint32_t tree_next(const struct tree *t, uint32_t node) {
    return t->nodes.items[node].next;
}
/* The children of an array or object; 0 for others. */
static inline uint32_t tree_count(const struct tree *t, uint32_t node) {
    return t->nodes.items[node].count;
}
/* Equal as JSON Schema has it: numbers by value, objects without order. */
bool tree_equal(const struct tree *t, uint32_t a, uint32_t b);
/* A number that is whole and fits; else false, and *out stays as it was. */
bool tree_uint(const struct tree *t, uint32_t node, uint32_t *out);

/* A new node without children. Adding one copies the node itself; its children are shared. */
uint32_t tree_new(struct tree *t, enum tree_kind kind);
/* The text is copied. */
uint32_t tree_new_string(struct tree *t, struct bytes text);
/* A number, written in decimal. */
uint32_t tree_new_uint(struct tree *t, uint32_t value);
/* Adds a copy of child at the end of parent (key: NULL in an array; copied). Returns the copy. */
uint32_t tree_add(struct tree *t, uint32_t parent, const char *key, uint32_t child);
/* The same with a key of any bytes. */
uint32_t tree_add_bytes(struct tree *t, uint32_t parent, struct bytes key, uint32_t child);

#endif
