/*
 * config.h - config.json of a model folder as a tree with typed getters that remember what was
 * read.
 *
 * The reader (model/spec.c) asks for the fields it understands, by name; each one asked for counts
 * as consumed. At the end config_next_unread gives each field that nobody consumed, unless it is
 * known to change nothing at inference (training options, generation defaults, ...), asks for
 * nothing (null, false, an empty list or object), lies in an object that nobody opened and that is
 * such a field itself, or is on the caller's list of accepted ones; config_finish refuses the first
 * of them. So nothing is silently ignored.
 *
 * A tree may have a tree of defaults below it (config_set_defaults): what a family's configuration
 * class assumes where the file says nothing. A field that is null counts as present for
 * config_has_key only; getters treat it as absent, and a null in the file hides the default.
 *
 * Errors are sticky: the first value of a wrong kind fills config.error, getters then give their
 * fallback; callers check once, by config_finish or config_failed.
 *
 * Invariants:
 *   (1) every object's keys are distinct (json_scan);
 *   (2) texts are NUL-terminated, without NUL inside, and live as long as the config.
 *
 * Threading: one thread.
 */
#ifndef FORMATS_CONFIG_H
#define FORMATS_CONFIG_H

#include "base/buf.h"
#include "base/error.h"

#define CONFIG_BYTES_MAX ((size_t)4 << 20)

enum config_kind {
    CONFIG_NULL,
    CONFIG_BOOL,
    CONFIG_NUMBER,
    CONFIG_TEXT,
    CONFIG_LIST,
    CONFIG_OBJECT
};

struct config_node {
    enum config_kind kind;
    bool consumed;
    bool truth;             /* CONFIG_BOOL */
    bool is_integer;        /* CONFIG_NUMBER: `integer` holds it exactly */
    int64_t integer;        /* CONFIG_NUMBER */
    double number;          /* CONFIG_NUMBER */
    uint32_t name, text;    /* offsets in config.texts; 0: "" */
    uint32_t parent, first; /* first child; 0: none */
    uint32_t next;          /* sibling; 0: last */
    uint32_t count;         /* children */
};

struct config {
    struct config_node *nodes; /* [0] is the top object */
    uint32_t node_count, node_cap;
    struct buf texts;
    /* the object that falls back on the defaults: 0, or that of a wrapped text model */
    uint32_t top;
    struct config *defaults; /* borrowed; NULL */
    struct error error;      /* the first thing that was wrong; code 0: none */
};

/* The text as strict JSON: Python writes Infinity, -Infinity and NaN, which JSON lacks (the
 * time_step_limit of published Mamba 2 and Nemotron-H), and here they stand in quotes. `text` itself
 * if there are none, else in `room`, which the caller releases. */
struct bytes config_strict_text(struct bytes text, struct buf *room);

/* Parses a file's bytes, as they are or strict. The config must be closed also after an error. */
MUST_CHECK int config_open(struct config *c, struct bytes text, struct error *err);
/* Frees what config_open made; the defaults stay their owner's. */
void config_close(struct config *c);
/* Lets getters on the object `top` fall back on another tree's top object (same names); NULL:
 * none. */
void config_set_defaults(struct config *c, uint32_t top, struct config *defaults);

/* ---- reading: obj is an object's node; 0 is the top ---- */

/* A field that is there and not null (defaults included); NULL otherwise. Consumes it. */
const struct config_node *config_find(struct config *c, uint32_t obj, const char *name);
/* The node index of a field that is an object; -1 when absent. Consumes the field, not what is
 * inside. */
int64_t config_object(struct config *c, uint32_t obj, const char *name);
/* Whether a field is there and not null, not by default. Consumes nothing. */
bool config_has(struct config *c, uint32_t obj, const char *name);
/* Whether a field is there, null or not. Consumes nothing. */
bool config_has_key(const struct config *c, uint32_t obj, const char *name);

/* A whole number of zero or more; fallback where the field is absent or null. Consumes it. Any
 * other value fails the config (config_fail). */
int64_t config_int(struct config *c, uint32_t obj, const char *name, int64_t fallback);
/* The same of any finite number. */
double config_double(struct config *c, uint32_t obj, const char *name, double fallback);
/* The same of true or false. */
bool config_bool(struct config *c, uint32_t obj, const char *name, bool fallback);
/* The same of a text, borrowed until the config is closed. */
const char *config_text(struct config *c, uint32_t obj, const char *name, const char *fallback);
/* Marks a field as understood without reading it. */
void config_consume(struct config *c, uint32_t obj, const char *name);
/* Marks a field that says the same as another: a number, text or truth that is equal. Where both are
 * there and say different things, the config fails. */
void config_consume_same(struct config *c, uint32_t obj, const char *name, const char *other);
/* Marks a field and everything inside it. */
void config_consume_all(struct config *c, uint32_t obj, const char *name);

/* Child i of a list or object; NULL past the end. Walk long lists with `next`. */
const struct config_node *config_item(const struct config *c, const struct config_node *list,
                                      uint32_t i);
/* The name that the node has in its object, borrowed; "" for an item of a list. */
const char *config_node_name(const struct config *c, const struct config_node *node);
/* The node's text, borrowed; "" unless CONFIG_TEXT. */
const char *config_node_text(const struct config *c, const struct config_node *node);
/* A list of numbers into out[max]; the count, 0 when absent. Longer lists or other values: an
 * error. */
uint32_t config_doubles(struct config *c, uint32_t obj, const char *name, double *out,
                        uint32_t max);

/* ---- ending ---- */

/* Puts an error of the reader's into the config (the first one stays). Returns its code. */
int config_fail(struct config *c, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);
static inline bool config_failed(const struct config *c) {
    return c->error.code != 0;
}
/* The node of the next field after node `after` (0: the first) that nobody consumed and that is
 * neither known to change nothing, nor asks for nothing, nor in `accept`; 0: no more. */
uint32_t config_next_unread(const struct config *c, const char *accept, uint32_t after);
/* 0, or the first error, or ERR_UNSUPPORTED with the name of a field that nobody consumed. accept:
 * comma-separated names that may be ignored, or NULL. */
MUST_CHECK int config_finish(struct config *c, const char *accept, struct error *err);

#endif
