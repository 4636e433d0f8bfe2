/*
 * strings_translate.c - str.translate and str.maketrans: tables of characters.
 */
#include "base/utf8.h"
#include "text/template/python.h"
#include "text/template/strings.h"

static void add_char(struct run *r, int64_t cp, struct buf *out) {
    char utf8[4];
    if (cp < 0 || cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF))
        run_fail(r, ERR_INVALID, "character mapping must be in range(0x110000)");
    else
        buf_add(out, utf8, utf8_encode((uint32_t)cp, utf8));
}

/* A table says for a code point: another, a string, none (nothing is left of it), or has no
 * entry. */
struct tvalue str_translate(struct run *r, struct tvalue self, struct args args) {
    struct params p;
    struct bytes s = tvalue_text(self);
    struct buf out;
    if (!method_positional(r, "translate", "table", 1, args, &p))
        return undefined_value();
    if (p.v[0].kind != TVALUE_DICT)
        return run_fail(r, ERR_UNSUPPORTED, "str.translate() with a %s; a dict is expected",
                        python_type(p.v[0]));
    buf_init(&out, r->out_max);
    for (size_t i = 0, n; i < s.len && run_burn(r, 1); i += n) {
        uint32_t cp;
        int64_t to;
        n = unicode_next(s.data + i, &cp);
        const struct tvalue *found = tdict_find(p.v[0].dict, tvalue_int(cp));
        if (!found)
            buf_add(&out, s.data + i, n);
        else if (found->kind == TVALUE_STRING)
            buf_add_bytes(&out, tvalue_text(*found));
        else if (op_is_int(*found, &to))
            add_char(r, to, &out);
        else if (found->kind != TVALUE_NONE)
            run_fail(r, ERR_INVALID, "character mapping must return integer, None or str");
    }
    return run_take_buf(r, &out);
}

static struct tvalue next_char(struct bytes *s) {
    uint32_t cp;
    size_t n = unicode_next(s->data, &cp);
    *s = bytes_of(s->data + n, s->len - n);
    return tvalue_int(cp);
}

/* maketrans({...}): keys of one character become their code points. */
static void table_of_dict(struct run *r, struct tvalue from, struct tvalue table) {
    if (from.kind != TVALUE_DICT)
        run_fail(r, ERR_INVALID, "if you give only one argument to maketrans it must be a dict");
    for (uint32_t i = 0; !r->rc && i < from.dict->count; i++) {
        struct tvalue key = from.dict->entries[i].key;
        struct bytes text = tvalue_text(key);
        int64_t ignored;
        if (key.kind == TVALUE_STRING && python_length(text) != 1)
            run_fail(r, ERR_INVALID, "string keys in translate table must be of length 1");
        else if (key.kind != TVALUE_STRING && !op_is_int(key, &ignored))
            run_fail(r, ERR_INVALID, "keys in translate table must be strings or integers");
        else
            run_set(r, table, key.kind == TVALUE_STRING ? next_char(&text) : key,
                    from.dict->entries[i].value);
    }
}

struct tvalue str_maketrans(struct run *r, struct tvalue self, struct args args) {
    struct params p;
    struct bytes from, to, none = {0};
    struct tvalue table = tvalue_dict(&r->arena);
    if (!method_positional(r, "maketrans", "x y z", 1, args, &p))
        return undefined_value();
    if (table.kind != TVALUE_DICT)
        return run_fail(r, ERR_LIMIT, "the template uses too much memory");
    if (!p.given[1]) {
        table_of_dict(r, p.v[0], table);
        return table;
    }
    if (!method_string_argument(r, p.v[0], &from) || !method_string_argument(r, p.v[1], &to) ||
        (p.given[2] && !method_string_argument(r, p.v[2], &none)))
        return undefined_value();
    if (python_length(from) != python_length(to))
        return run_fail(r, ERR_INVALID, "the first two maketrans arguments must have equal length");
    while (from.len && !r->rc) {
        struct tvalue key = next_char(&from);
        run_set(r, table, key, next_char(&to));
    }
    while (none.len && !r->rc)
        run_set(r, table, next_char(&none), tvalue_none());
    return table;
}
