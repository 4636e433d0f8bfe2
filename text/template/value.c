#include "text/template/value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "formats/json.h"
#include "text/template/value_data.h"

/* ---- making ---- */

struct tvalue tvalue_none(void) {
    return (struct tvalue){.kind = TVALUE_NONE};
}
struct tvalue tvalue_bool(bool v) {
    return (struct tvalue){.kind = TVALUE_BOOL, .boolean = v};
}
struct tvalue tvalue_int(int64_t v) {
    return (struct tvalue){.kind = TVALUE_INT, .integer = v};
}
struct tvalue tvalue_float(double v) {
    return (struct tvalue){.kind = TVALUE_FLOAT, .number = v};
}

struct tvalue tvalue_string(struct bytes s) {
    CHECK(s.len < UINT32_MAX);
    return (struct tvalue){
        .kind = TVALUE_STRING, .len = (uint32_t)s.len, .text = s.len ? (const char *)s.data : ""};
}

struct tvalue tvalue_string_copy(struct arena *a, struct bytes s) {
    if (!s.len)
        return tvalue_string(s);
    const char *text = s.len < UINT32_MAX ? arena_copy(a, s.data, s.len) : NULL;
    return text ? tvalue_string(bytes_of(text, s.len)) : (struct tvalue){0};
}

struct tvalue tvalue_big_int(struct arena *a, struct bytes digits) {
    struct tvalue v = tvalue_string_copy(a, digits);
    if (v.kind == TVALUE_STRING)
        v.kind = TVALUE_BIG_INT;
    return v;
}

struct tvalue tvalue_list(struct arena *a) {
    struct tlist *list = arena_alloc(a, sizeof *list);
    return list ? (struct tvalue){.kind = TVALUE_LIST, .list = list} : (struct tvalue){0};
}

struct tvalue tvalue_dict(struct arena *a) {
    struct tdict *dict = arena_alloc(a, sizeof *dict);
    return dict ? (struct tvalue){.kind = TVALUE_DICT, .dict = dict} : (struct tvalue){0};
}

/* ---- lists ---- */

static uint32_t grown_cap(uint32_t cap) {
    return cap < 4 ? 4 : cap * 2;
}

bool tlist_push(struct arena *a, struct tlist *list, struct tvalue item) {
    if (list->count == list->cap) {
        if (list->count >= TVALUE_ITEMS_MAX)
            return false;
        uint32_t cap = grown_cap(list->cap);
        struct tvalue *items = arena_alloc(a, cap * sizeof *items);
        if (!items)
            return false;
        if (list->count)
            memcpy(items, list->items, list->count * sizeof *items);
        list->items = items;
        list->cap = cap;
    }
    list->items[list->count++] = item;
    return true;
}

bool tvalue_list_push(struct arena *a, struct tvalue list, struct tvalue item) {
    return list.kind == TVALUE_LIST && tlist_push(a, list.list, item);
}

struct tvalue tvalue_list_at(struct tvalue list, size_t idx) {
    return list.kind == TVALUE_LIST && idx < list.list->count ? list.list->items[idx]
                                                              : (struct tvalue){0};
}

/* ---- dicts ---- */

enum { KEY_DEPTH_MAX = 16 };

static bool is_key(struct tvalue v, unsigned depth) {
    if (v.kind != TVALUE_TUPLE)
        return (v.kind >= TVALUE_NONE && v.kind <= TVALUE_STRING) || v.kind == TVALUE_BIG_INT;
    bool ok = depth < KEY_DEPTH_MAX;
    for (uint32_t i = 0; i < v.list->count && ok; i++)
        ok = is_key(v.list->items[i], depth + 1);
    return ok;
}

bool tvalue_is_key(struct tvalue v) {
    return is_key(v, 0);
}

/* Numbers that are equal hash alike. A request's objects are dicts, too, and its keys a client's choice. */
uint64_t tdict_hash(struct tvalue key) {
    double d;
    uint64_t h = 2;
    switch (key.kind) {
    case TVALUE_BOOL: d = key.boolean; break;
    case TVALUE_INT: d = (double)key.integer; break;
    case TVALUE_FLOAT: d = key.number == 0 ? 0 : key.number; break;
    case TVALUE_STRING: return hash64_secret(key.text, key.len);
    case TVALUE_BIG_INT: return hash64_secret(key.text, key.len) + 1;
    case TVALUE_TUPLE:
        for (uint32_t i = 0; i < key.list->count; i++)
            h = (h ^ tdict_hash(key.list->items[i])) * 0x9E3779B97F4A7C15u;
        return h;
    default: return 1;
    }
    return hash64_secret(&d, sizeof d);
}

static double key_number(struct tvalue v) {
    return v.kind == TVALUE_FLOAT ? v.number : v.kind == TVALUE_INT ? (double)v.integer : v.boolean;
}

static bool key_equal(struct tvalue a, struct tvalue b) {
    if (a.kind == b.kind && (a.kind == TVALUE_STRING || a.kind == TVALUE_BIG_INT))
        return a.len == b.len && same_text(a.text, b.text, a.len);
    bool numbers = a.kind >= TVALUE_BOOL && a.kind <= TVALUE_FLOAT && b.kind >= TVALUE_BOOL &&
                   b.kind <= TVALUE_FLOAT;
    if (numbers && (a.kind == TVALUE_FLOAT || b.kind == TVALUE_FLOAT))
        return key_number(a) == key_number(b);
    if (numbers)
        return (a.kind == TVALUE_INT ? a.integer : a.boolean) ==
               (b.kind == TVALUE_INT ? b.integer : b.boolean);
    if (a.kind != b.kind)
        return false;
    if (a.kind != TVALUE_TUPLE)
        return true; /* none */
    bool equal = a.list->count == b.list->count;
    for (uint32_t i = 0; equal && i < a.list->count; i++)
        equal = key_equal(a.list->items[i], b.list->items[i]);
    return equal;
}

static struct tdict_entry *find_entry(const struct tdict *dict, struct tvalue key, uint64_t hash) {
    if (!dict->index) {
        for (uint32_t i = 0; i < dict->count; i++)
            if (dict->entries[i].hash == hash && key_equal(dict->entries[i].key, key))
                return &dict->entries[i];
        return NULL;
    }
    for (uint32_t i = (uint32_t)hash & dict->index_mask; dict->index[i] != UINT32_MAX;
         i = (i + 1) & dict->index_mask) {
        struct tdict_entry *e = &dict->entries[dict->index[i]];
        if (e->hash == hash && key_equal(e->key, key))
            return e;
    }
    return NULL;
}

static void index_entry(struct tdict *dict, uint32_t entry_idx) {
    uint32_t i = (uint32_t)dict->entries[entry_idx].hash & dict->index_mask;
    while (dict->index[i] != UINT32_MAX)
        i = (i + 1) & dict->index_mask;
    dict->index[i] = entry_idx;
}

static bool grow_dict(struct arena *a, struct tdict *dict) {
    if (dict->count >= TVALUE_ITEMS_MAX)
        return false;
    uint32_t cap = grown_cap(dict->cap);
    struct tdict_entry *entries = arena_alloc(a, cap * sizeof *entries);
    if (!entries)
        return false;
    if (dict->count)
        memcpy(entries, dict->entries, dict->count * sizeof *entries);
    dict->entries = entries;
    dict->cap = cap;
    if (cap <= TDICT_LINEAR)
        return true;
    dict->index = arena_alloc(a, cap * 2 * sizeof *dict->index);
    if (!dict->index)
        return false;
    memset(dict->index, 0xFF, cap * 2 * sizeof *dict->index);
    dict->index_mask = cap * 2 - 1;
    for (uint32_t i = 0; i < dict->count; i++)
        index_entry(dict, i);
    return true;
}

bool tdict_set(struct arena *a, struct tdict *dict, struct tvalue key, struct tvalue value) {
    if (!tvalue_is_key(key))
        return false;
    uint64_t hash = tdict_hash(key);
    struct tdict_entry *e = find_entry(dict, key, hash);
    if (e) {
        e->value = value;
        return true;
    }
    if (dict->count == dict->cap && !grow_dict(a, dict))
        return false;
    dict->entries[dict->count] = (struct tdict_entry){key, value, hash};
    if (dict->index)
        index_entry(dict, dict->count);
    dict->count++;
    return true;
}

struct tvalue *tdict_find(const struct tdict *dict, struct tvalue key) {
    if (!dict->count || !tvalue_is_key(key))
        return NULL;
    struct tdict_entry *e = find_entry(dict, key, tdict_hash(key));
    return e ? &e->value : NULL;
}

struct tvalue *tdict_find_hashed(const struct tdict *dict, struct tvalue key, uint64_t hash) {
    struct tdict_entry *e = dict->count ? find_entry(dict, key, hash) : NULL;
    return e ? &e->value : NULL;
}

bool tvalue_dict_set(struct arena *a, struct tvalue dict, struct bytes key, struct tvalue item) {
    if (dict.kind != TVALUE_DICT)
        return false;
    struct tvalue name = tvalue_string_copy(a, key);
    return name.kind == TVALUE_STRING && tdict_set(a, dict.dict, name, item);
}

struct tvalue tvalue_dict_get(struct tvalue dict, struct bytes key) {
    if (dict.kind != TVALUE_DICT || key.len >= UINT32_MAX)
        return (struct tvalue){0};
    struct tvalue *found = tdict_find(dict.dict, tvalue_string(key));
    return found ? *found : (struct tvalue){0};
}

size_t tvalue_count(struct tvalue v) {
    return v.kind == TVALUE_LIST ? v.list->count : v.kind == TVALUE_DICT ? v.dict->count : 0;
}

/* ---- from JSON ---- */

static struct tvalue number_from_json(struct arena *a, struct bytes text, bool *ok) {
    int64_t i;
    double d;
    bool is_float = memchr(text.data, '.', text.len) || memchr(text.data, 'e', text.len) ||
                    memchr(text.data, 'E', text.len);
    if (!is_float && json_number_int64(text, &i))
        return tvalue_int(i);
    if (!is_float)
        return tvalue_big_int(a, text);
    *ok = json_number_double(text, &d);
    return tvalue_float(*ok ? d : 0);
}

static struct tvalue scalar_from_json(struct arena *a, struct json_reader *r, enum json_event event,
                                      bool *ok) {
    switch (event) {
    case JSON_STRING: return tvalue_string_copy(a, r->text);
    case JSON_NUMBER: return number_from_json(a, r->text, ok);
    case JSON_TRUE: return tvalue_bool(true);
    case JSON_FALSE: return tvalue_bool(false);
    case JSON_OBJECT_BEGIN: return tvalue_dict(a);
    case JSON_ARRAY_BEGIN: return tvalue_list(a);
    default: return tvalue_none();
    }
}

/* Reads all events of r; stack[d] is the container open at depth d. */
static int read_value(struct arena *a, struct json_reader *r, struct tvalue *out,
                      struct error *err) {
    struct tvalue stack[TVALUE_DEPTH_MAX + 1], keys[TVALUE_DEPTH_MAX + 1];
    for (;;) {
        uint32_t parent_depth = r->depth;
        enum json_event event = json_next(r);
        if (event == JSON_END)
            return 0;
        if (event == JSON_ERROR) {
            if (err)
                *err = r->error;
            return r->error.code;
        }
        if (event == JSON_OBJECT_END || event == JSON_ARRAY_END)
            continue;
        if (event == JSON_KEY) {
            keys[parent_depth] = tvalue_string_copy(a, r->text);
            if (keys[parent_depth].kind == TVALUE_UNDEFINED)
                break;
            continue;
        }
        bool ok = true;
        struct tvalue v = scalar_from_json(a, r, event, &ok);
        if (!ok)
            return error_set(err, ERR_INVALID, "number out of range at byte %zu", r->offset);
        if (v.kind == TVALUE_UNDEFINED)
            break;
        if (!parent_depth)
            *out = v;
        else if (stack[parent_depth].kind == TVALUE_LIST) {
            if (!tlist_push(a, stack[parent_depth].list, v))
                break;
        } else if (!tdict_set(a, stack[parent_depth].dict, keys[parent_depth], v))
            break;
        if (event == JSON_OBJECT_BEGIN || event == JSON_ARRAY_BEGIN)
            stack[r->depth] = v;
    }
    return error_set(err, ERR_LIMIT, "the data is too large");
}

int tvalue_from_json(struct arena *a, struct bytes json, struct tvalue *out, struct error *err) {
    struct json_reader r;
    json_reader_init(&r, json, TVALUE_DEPTH_MAX, JSON_ALLOW_NUL);
    int rc = read_value(a, &r, out, err);
    json_reader_release(&r);
    return rc;
}

/* ---- to text ---- */

/* The shortest digits that read back to v, then Python's choice of notation: exponent when it is <
 * -4 or >= 16. */
void tvalue_format_float(double v, struct buf *out) {
    if (isnan(v) || isinf(v)) {
        buf_add_str(out, isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
        return;
    }
    char text[40];
    int precision = 0;
    do
        snprintf(text, sizeof text, "%.*e", precision, v);
    while (strtod(text, NULL) != v && ++precision < 17);
    char *e = strchr(text, 'e'), digits[24];
    int exponent = atoi(e + 1), count = 0;
    for (char *p = text; p < e; p++)
        if (*p >= '0' && *p <= '9')
            digits[count++] = *p;
    while (count > 1 && digits[count - 1] == '0')
        count--;
    if (text[0] == '-')
        buf_add_byte(out, '-');
    if (exponent < -4 || exponent >= 16) {
        buf_add(out, digits, 1);
        if (count > 1)
            buf_add_byte(out, '.');
        buf_add(out, digits + 1, (size_t)count - 1);
        buf_addf(out, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
        return;
    }
    if (exponent < 0)
        buf_add_str(out, "0.");
    for (int i = exponent + 1; i < 0; i++)
        buf_add_byte(out, '0');
    for (int i = 0; i < count || i <= exponent; i++) {
        if (i == exponent + 1 && i)
            buf_add_byte(out, '.');
        buf_add_byte(out, i < count ? digits[i] : '0');
    }
    if (exponent >= 0 && count <= exponent + 1)
        buf_add_str(out, ".0");
}

static void float_to_json(double v, struct buf *out) {
    if (isnan(v) || isinf(v))
        buf_add_str(out, isnan(v) ? "NaN" : v < 0 ? "-Infinity" : "Infinity");
    else
        tvalue_format_float(v, out);
}

static void to_json(struct tvalue v, struct buf *out, unsigned depth);

static void list_to_json(const struct tlist *list, struct buf *out, unsigned depth) {
    buf_add_byte(out, '[');
    for (uint32_t i = 0; i < list->count; i++) {
        if (i)
            buf_add_str(out, ", ");
        to_json(list->items[i], out, depth + 1);
    }
    buf_add_byte(out, ']');
}

static void dict_to_json(const struct tdict *dict, struct buf *out, unsigned depth) {
    buf_add_byte(out, '{');
    for (uint32_t i = 0; i < dict->count; i++) {
        if (i)
            buf_add_str(out, ", ");
        bool quoted = dict->entries[i].key.kind == TVALUE_STRING;
        if (!quoted)
            buf_add_byte(out, '"');
        to_json(dict->entries[i].key, out, depth + 1);
        if (!quoted)
            buf_add_byte(out, '"');
        buf_add_str(out, ": ");
        to_json(dict->entries[i].value, out, depth + 1);
    }
    buf_add_byte(out, '}');
}

static void to_json(struct tvalue v, struct buf *out, unsigned depth) {
    if (depth > TVALUE_DEPTH_MAX)
        v.kind = TVALUE_NONE;
    switch (v.kind) {
    case TVALUE_BOOL: buf_add_str(out, v.boolean ? "true" : "false"); break;
    case TVALUE_INT: buf_add_i64(out, v.integer); break;
    case TVALUE_BIG_INT: buf_add(out, v.text, v.len); break;
    case TVALUE_FLOAT: float_to_json(v.number, out); break;
    case TVALUE_STRING:
        buf_add_byte(out, '"');
        buf_add_json(out, bytes_of(v.text, v.len));
        buf_add_byte(out, '"');
        break;
    case TVALUE_LIST: list_to_json(v.list, out, depth); break;
    case TVALUE_DICT: dict_to_json(v.dict, out, depth); break;
    default: buf_add_str(out, "null");
    }
}

void tvalue_to_json(struct tvalue v, struct buf *out) {
    to_json(v, out, 0);
}
