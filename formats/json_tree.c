#include "formats/json_tree.h"

#include <stdlib.h>

#include "formats/json.h"

/* ---- reading ---- */

/* An open array or object. */
struct level {
    void *items; /* struct json_value or struct json_member; in the arena */
    uint32_t count, cap;
    struct bytes key; /* of the member that is being read */
};

struct tree_reader {
    struct arena *arena;
    struct json_reader json;
    struct level levels[JSON_DEPTH_DEFAULT + 1]; /* by depth; [0]: the text itself, one value */
    bool is_object[JSON_DEPTH_DEFAULT + 1];
};

/* Bytes of the arena's own; .data NULL: it is out. */
static struct bytes copy_text(struct arena *a, struct bytes s) {
    return bytes_of(s.len < UINT32_MAX ? arena_copy(a, s.data, s.len) : NULL, s.len);
}

/* Room for one more element of `size` bytes; NULL: the arena is out. */
static void *add_element(struct arena *a, struct level *level, size_t size) {
    if (level->count == level->cap) {
        uint32_t cap = level->cap ? level->cap * 2 : 4;
        void *grown = cap > level->cap ? arena_alloc(a, cap * size) : NULL;
        if (!grown)
            return NULL;
        if (level->count)
            memcpy(grown, level->items, level->count * size);
        level->items = grown;
        level->cap = cap;
    }
    return (uint8_t *)level->items + size * level->count++;
}

static bool add_value(struct tree_reader *r, uint32_t depth, struct json_value v) {
    struct level *level = &r->levels[depth];
    if (r->is_object[depth]) {
        struct json_member *member = add_element(r->arena, level, sizeof *member);
        if (member)
            *member = (struct json_member){level->key, v};
        return member;
    }
    struct json_value *item = add_element(r->arena, level, sizeof *item);
    if (item)
        *item = v;
    return item;
}

/* By key, those with equal keys by their place. */
static int compare_members(const void *a, const void *b) {
    const struct json_member *x = *(const struct json_member *const *)a,
                             *y = *(const struct json_member *const *)b;
    int order = x->key.len == y->key.len ? memcmp(x->key.data, y->key.data, x->key.len)
                                         : (x->key.len > y->key.len) - (x->key.len < y->key.len);
    return order ? order : (x > y) - (x < y);
}

/* Invariant (2). False: the arena is out. */
static bool drop_repeated(struct arena *a, struct level *level) {
    struct json_member *members = level->items;
    struct json_member **sorted = arena_alloc(a, level->count * sizeof *sorted);
    uint32_t kept = 0;
    if (!sorted)
        return false;
    for (uint32_t i = 0; i < level->count; i++)
        sorted[i] = &members[i];
    qsort(sorted, level->count, sizeof *sorted, compare_members);
    for (uint32_t i = 1, first = 0; i < level->count; i++) {
        if (!bytes_equal(sorted[i]->key, sorted[first]->key)) {
            first = i;
            continue;
        }
        sorted[first]->value = sorted[i]->value;
        sorted[i]->value.kind = JSON_IS_ABSENT;
    }
    for (uint32_t i = 0; i < level->count; i++)
        if (members[i].value.kind != JSON_IS_ABSENT)
            members[kept++] = members[i];
    level->count = kept;
    return true;
}

/* After the end of the container that was open at depth: its value, absent when the arena is
 * out. */
static struct json_value close_level(struct tree_reader *r, uint32_t depth) {
    struct level *level = &r->levels[depth];
    bool is_object = r->is_object[depth];
    if (is_object && level->count > 1 && !drop_repeated(r->arena, level))
        return (struct json_value){0};
    struct json_value v = {.kind = is_object ? JSON_IS_OBJECT : JSON_IS_ARRAY,
                           .count = level->count};
    if (is_object)
        v.members = level->items;
    else
        v.items = level->items;
    return v;
}

static int read_number(struct json_reader *json, struct json_value *out, struct error *err) {
    bool is_whole = true;
    for (size_t i = 0; i < json->text.len; i++)
        is_whole &=
            json->text.data[i] == '-' || (json->text.data[i] >= '0' && json->text.data[i] <= '9');
    out->kind = JSON_IS_INT;
    if (is_whole && json_number_int64(json->text, &out->integer))
        return 0;
    out->kind = JSON_IS_DOUBLE;
    if (json_number_double(json->text, &out->number))
        return 0;
    return error_set(err, ERR_INVALID, "number out of range at byte %zu", json->offset);
}

static int read_events(struct tree_reader *r, struct error *err) {
    for (;;) {
        struct json_value v = {0};
        uint32_t depth = r->json.depth, to = depth;
        enum json_event event = json_next(&r->json);
        switch (event) {
        case JSON_END: return 0;
        case JSON_ERROR: return error_set(err, r->json.error.code, "%s", r->json.error.text);
        case JSON_KEY:
            r->levels[depth].key = copy_text(r->arena, r->json.text);
            if (!r->levels[depth].key.data)
                goto out_of_memory;
            continue;
        case JSON_OBJECT_BEGIN:
        case JSON_ARRAY_BEGIN:
            r->levels[depth + 1] = (struct level){0};
            r->is_object[depth + 1] = event == JSON_OBJECT_BEGIN;
            continue;
        case JSON_OBJECT_END:
        case JSON_ARRAY_END:
            v = close_level(r, depth);
            to = depth - 1;
            break;
        case JSON_STRING: {
            struct bytes text = copy_text(r->arena, r->json.text);
            if (text.data)
                v = (struct json_value){JSON_IS_STRING, (uint32_t)text.len, {0}};
            v.text = (const char *)text.data;
            break;
        }
        case JSON_NUMBER: {
            int rc = read_number(&r->json, &v, err);
            if (rc)
                return rc;
            break;
        }
        case JSON_TRUE:
        case JSON_FALSE: v = (struct json_value){JSON_IS_BOOL, 0, {event == JSON_TRUE}}; break;
        case JSON_NULL: v.kind = JSON_IS_NULL; break;
        }
        if (v.kind == JSON_IS_ABSENT || !add_value(r, to, v))
            goto out_of_memory;
    }
out_of_memory:
    return error_set(err, ERR_LIMIT, "the data is too large");
}

int json_parse(struct arena *a, struct bytes text, struct json_value *out, struct error *err) {
    struct tree_reader r = {.arena = a};
    *out = (struct json_value){0};
    json_reader_init(&r.json, text, JSON_DEPTH_DEFAULT, JSON_ALLOW_NUL);
    int rc = read_events(&r, err);
    json_reader_release(&r.json);
    if (rc)
        return rc;
    CHECK(r.levels[0].count == 1);
    *out = *(const struct json_value *)r.levels[0].items;
    return 0;
}

/* ---- questions ---- */

struct json_value json_get_bytes(struct json_value v, struct bytes key) {
    for (uint32_t i = 0; v.kind == JSON_IS_OBJECT && i < v.count; i++)
        if (bytes_equal(v.members[i].key, key))
            return v.members[i].value;
    return (struct json_value){0};
}

struct json_value json_get(struct json_value v, const char *key) {
    return json_get_bytes(v, bytes_str(key));
}

bool json_get_bool(struct json_value v, const char *key, bool fallback) {
    struct json_value member = json_get(v, key);
    return member.kind == JSON_IS_BOOL ? member.boolean : fallback;
}

struct json_value json_at(struct json_value v, size_t idx) {
    return v.kind == JSON_IS_ARRAY && idx < v.count ? v.items[idx] : (struct json_value){0};
}

size_t json_count(struct json_value v) {
    return v.kind == JSON_IS_ARRAY || v.kind == JSON_IS_OBJECT ? v.count : 0;
}

struct bytes json_text(struct json_value v) {
    return v.kind == JSON_IS_STRING ? bytes_of(v.text, v.count) : bytes_of(NULL, 0);
}

bool json_is(struct json_value v, const char *s) {
    return v.kind == JSON_IS_STRING && bytes_equal(json_text(v), bytes_str(s));
}
