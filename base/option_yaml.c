#include "base/fsutil.h"
#include "base/option_internal.h"
#include "base/vec.h"

#include <yaml.h>

enum { FILE_MAX_BYTES = 1 << 20 };

struct load {
    const char *path;
    yaml_parser_t parser;
    yaml_event_t event; /* the current one */
    VEC(char *) keys;   /* owned: what was there already */
    option_yaml_entry take;
    void *ctx;
    struct error *err;
};

static int bad(struct load *l, const char *what) {
    return error_set(l->err, ERR_INVALID, "'%s' line %zu: %s", l->path,
                     l->event.start_mark.line + 1, what);
}

static int next_event(struct load *l) {
    yaml_event_delete(&l->event);
    if (yaml_parser_parse(&l->parser, &l->event))
        return 0;
    return error_set(l->err, ERR_INVALID, "'%s' line %zu is not YAML: %s", l->path,
                     l->parser.problem_mark.line + 1,
                     l->parser.problem ? l->parser.problem : "out of memory");
}

static int scalar_text(struct load *l, const char *what, const char **out) {
    if (l->event.type != YAML_SCALAR_EVENT)
        return bad(l, what);
    *out = (const char *)l->event.data.scalar.value;
    if (strlen(*out) != l->event.data.scalar.length)
        return bad(l, "a zero byte");
    return 0;
}

static int take_key(struct load *l, const char **key) {
    int rc = scalar_text(l, "a key must be plain text", key);
    if (rc)
        return rc;
    for (size_t i = 0; i < l->keys.count; i++)
        if (!strcmp(l->keys.items[i], *key))
            return error_set(l->err, ERR_INVALID, "'%s' line %zu: key '%s' is there twice", l->path,
                             l->event.start_mark.line + 1, *key);
    vec_push(&l->keys, mem_strdup(*key));
    *key = l->keys.items[l->keys.count - 1];
    return 0;
}

static bool is_null(const yaml_event_t *e) {
    const char *text = (const char *)e->data.scalar.value;
    if (e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return false;
    return !*text || !strcmp(text, "~") || !strcmp(text, "null");
}

static int take_list(struct load *l, const char *key) {
    struct buf all = {0};
    const char *value = NULL;
    size_t line = l->event.start_mark.line + 1;
    int rc;
    while (!(rc = next_event(l)) && l->event.type != YAML_SEQUENCE_END_EVENT) {
        if ((rc = scalar_text(l, "an item of a list must be plain text or a number", &value)))
            break;
        buf_addf(&all, "%s%s", all.len ? "\n" : "", value);
    }
    if (!rc && all.len && (rc = l->take(l->ctx, key, buf_text(&all), true, l->err)))
        error_wrap(l->err, "line %zu", line);
    buf_release(&all);
    return rc;
}

static int take_entry(struct load *l) {
    const char *key = NULL, *value = NULL;
    int rc = take_key(l, &key);
    if (rc || (rc = next_event(l)))
        return rc;
    if (l->event.type == YAML_SEQUENCE_START_EVENT)
        return take_list(l, key);
    if ((rc = scalar_text(l, "a value must be plain text or a number, not a mapping or alias",
                          &value)))
        return rc;
    return is_null(&l->event) ? 0 : l->take(l->ctx, key, value, false, l->err);
}

static int load_mapping(struct load *l) {
    int rc;
    while (!(rc = next_event(l))) {
        if (l->event.type == YAML_MAPPING_END_EVENT)
            return 0;
        if ((rc = take_entry(l)))
            return rc;
    }
    return rc;
}

static int load_stream(struct load *l) {
    int rc, document_count = 0;
    while (!(rc = next_event(l)) && l->event.type != YAML_STREAM_END_EVENT) {
        switch (l->event.type) {
        case YAML_STREAM_START_EVENT:
        case YAML_DOCUMENT_END_EVENT: break;
        case YAML_DOCUMENT_START_EVENT:
            if (document_count++)
                return bad(l, "one document only");
            break;
        case YAML_MAPPING_START_EVENT:
            if ((rc = load_mapping(l)))
                return rc;
            break;
        case YAML_SCALAR_EVENT:
            if (is_null(&l->event))
                break; /* fall through */
        default: return bad(l, "expected lines of 'key: value'");
        }
    }
    return rc;
}

int option_yaml_load(const char *path, option_yaml_entry take, void *ctx, struct error *err) {
    struct buf text;
    struct load l = {.path = path, .take = take, .ctx = ctx, .err = err};
    buf_init(&text, 0);
    int rc = file_read_any(path, FILE_MAX_BYTES, &text, err);
    if (rc)
        goto out;
    if (!yaml_parser_initialize(&l.parser)) {
        rc = error_set(err, ERR_MEMORY, "no memory to read '%s'", path);
        goto out;
    }
    yaml_parser_set_input_string(&l.parser, (const unsigned char *)buf_text(&text), text.len);
    rc = load_stream(&l);
    yaml_event_delete(&l.event);
    yaml_parser_delete(&l.parser);
    for (size_t i = 0; i < l.keys.count; i++)
        mem_free(l.keys.items[i]);
    vec_release(&l.keys);
out:
    buf_release(&text);
    return rc;
}
