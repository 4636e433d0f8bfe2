#include "text/template/python.h"

#include <utf8proc.h>

#include "base/utf8.h"
#include "text/template/run.h"

/* ---- characters ---- */

bool python_is_printable(uint32_t cp) {
    if (cp == ' ')
        return true;
    unsigned category = unicode_class(cp) & UNICODE_CATEGORY_MASK;
    return category < UNICODE_ZS; /* separators and others come last */
}

void python_add_cased(struct buf *out, uint32_t cp, enum python_case to) {
    char utf8[4];
    if (cp == 0xDF && to != PYTHON_LOWER) {
        buf_add_str(out, to == PYTHON_UPPER ? "SS" : "Ss");
        return;
    }
    if (cp == 0x130 && to == PYTHON_LOWER) {
        buf_add_str(out, "i\xCC\x87");
        return;
    }
    utf8proc_int32_t c = (utf8proc_int32_t)cp;
    c = to == PYTHON_LOWER   ? utf8proc_tolower(c)
        : to == PYTHON_UPPER ? utf8proc_toupper(c)
                             : utf8proc_totitle(c);
    buf_add(out, utf8, utf8_encode((uint32_t)c, utf8));
}

void python_add_all_cased(struct buf *out, struct bytes s, enum python_case to) {
    for (size_t i = 0; i < s.len;) {
        uint32_t cp;
        i += unicode_next(s.data + i, &cp);
        python_add_cased(out, cp, to);
    }
}

/* Length of the printable ASCII at the start of s that a literal in `quote`s shows as it is. */
static size_t plain_run(struct bytes s, char quote) {
    size_t n = 0;
    while (n < s.len && s.data[n] >= ' ' && s.data[n] < 0x7F && s.data[n] != (uint8_t)quote &&
           s.data[n] != '\\')
        n++;
    return n;
}

void python_add_repr(struct buf *out, struct bytes s) {
    char quote = s.len && memchr(s.data, '\'', s.len) && !memchr(s.data, '"', s.len) ? '"' : '\'';
    buf_add_byte(out, quote);
    for (size_t i = 0, n; i < s.len; i += n) {
        uint32_t cp;
        n = plain_run(bytes_of(s.data + i, s.len - i), quote);
        if (n) {
            buf_add(out, s.data + i, n);
            continue;
        }
        n = unicode_next(s.data + i, &cp);
        if (cp == (uint8_t)quote || cp == '\\')
            buf_addf(out, "\\%c", (char)cp);
        else if (cp == '\n' || cp == '\r' || cp == '\t')
            buf_add_str(out, cp == '\n' ? "\\n" : cp == '\r' ? "\\r" : "\\t");
        else if (python_is_printable(cp))
            buf_add(out, s.data + i, n);
        else
            buf_addf(out, cp < 0x100 ? "\\x%02x" : cp < 0x10000 ? "\\u%04x" : "\\U%08x", cp);
    }
    buf_add_byte(out, quote);
}

size_t python_length(struct bytes s) {
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++)
        n += (s.data[i] & 0xC0) != 0x80;
    return n;
}

struct bytes python_take_line(struct bytes s, size_t *at, bool *ended) {
    size_t begin = *at, n;
    for (size_t i = begin; i < s.len; i += n) {
        uint32_t cp;
        n = unicode_next(s.data + i, &cp);
        *ended = (cp >= 10 && cp <= 13) || (cp >= 0x1C && cp <= 0x1E) || cp == 0x85 ||
                 cp == 0x2028 || cp == 0x2029;
        if (!*ended)
            continue;
        *at = i + n + (cp == '\r' && i + 1 < s.len && s.data[i + 1] == '\n');
        return bytes_of(s.data + begin, i - begin);
    }
    *ended = false;
    *at = s.len;
    return bytes_of(s.data + begin, s.len - begin);
}

size_t python_offset(struct bytes s, size_t idx) {
    size_t i = 0;
    uint32_t cp;
    while (idx-- && i < s.len)
        i += unicode_next(s.data + i, &cp);
    return i;
}

static bool has_char(struct bytes chars, uint32_t cp) {
    for (size_t i = 0; i < chars.len;) {
        uint32_t c;
        i += unicode_next(chars.data + i, &c);
        if (c == cp)
            return true;
    }
    return false;
}

static struct bytes strip(struct bytes s, const struct bytes *chars, bool left, bool right) {
    uint32_t cp;
    while (left && s.len) {
        size_t n = unicode_next(s.data, &cp);
        if (chars ? !has_char(*chars, cp) : !python_is_space(cp))
            break;
        s = bytes_of(s.data + n, s.len - n);
    }
    while (right && s.len) {
        size_t n = unicode_prev(s.data + s.len, &cp);
        if (chars ? !has_char(*chars, cp) : !python_is_space(cp))
            break;
        s.len -= n;
    }
    return s;
}

struct bytes python_strip(struct bytes s, bool left, bool right) {
    return strip(s, NULL, left, right);
}
struct bytes python_strip_chars(struct bytes s, struct bytes chars, bool left, bool right) {
    return strip(s, &chars, left, right);
}

/* ---- values ---- */

const char *python_type(struct tvalue v) {
    static const char *const NAMES[] = {"Undefined",
                                        "NoneType",
                                        "bool",
                                        "int",
                                        "float",
                                        "str",
                                        "list",
                                        "dict",
                                        "int",
                                        "tuple",
                                        "range",
                                        "dict_keys",
                                        "generator",
                                        "Namespace",
                                        "Macro",
                                        "function",
                                        "builtin_function_or_method",
                                        "LoopContext",
                                        "Cycler",
                                        "Joiner"};
    static const char *const VIEWS[] = {"dict_keys", "dict_values", "dict_items"};
    return v.kind == TVALUE_VIEW ? VIEWS[v.tag] : NAMES[v.kind];
}

static bool too_deep(struct run *r, struct buf *out) {
    if (++r->depth > RUN_DEPTH_MAX)
        run_fail(r, ERR_LIMIT, "nested too deep");
    if (out->failed)
        run_fail(r, ERR_LIMIT, "the output is too large");
    return r->rc || !run_burn(r, 1);
}

static void add_items(struct run *r, struct tvalue v, struct buf *out) {
    struct seq s;
    if (!seq_open(r, v, &s))
        return;
    for (uint32_t i = 0; i < s.count && !r->rc; i++) {
        if (i)
            buf_add_str(out, ", ");
        run_repr(r, seq_at(r, &s, i), out);
    }
}

static void add_dict(struct run *r, const struct tdict *dict, struct buf *out) {
    buf_add_byte(out, '{');
    for (uint32_t i = 0; i < dict->count && !r->rc; i++) {
        if (i)
            buf_add_str(out, ", ");
        run_repr(r, dict->entries[i].key, out);
        buf_add_str(out, ": ");
        run_repr(r, dict->entries[i].value, out);
    }
    buf_add_byte(out, '}');
}

static void add_range(const struct trange *range, struct buf *out) {
    buf_addf(out, "range(%lld, %lld", (long long)range->start, (long long)range->stop);
    if (range->step != 1)
        buf_addf(out, ", %lld", (long long)range->step);
    buf_add_byte(out, ')');
}

static void add_view(struct run *r, struct tvalue v, struct buf *out) {
    buf_addf(out, "%s([", python_type(v));
    add_items(r, v, out);
    buf_add_str(out, "])");
}

static void add_text(struct run *r, struct tvalue v, struct buf *out) {
    switch (v.kind) {
    case TVALUE_UNDEFINED: break;
    case TVALUE_NONE: buf_add_str(out, "None"); break;
    case TVALUE_BOOL: buf_add_str(out, v.boolean ? "True" : "False"); break;
    case TVALUE_INT: buf_add_i64(out, v.integer); break;
    case TVALUE_FLOAT: tvalue_format_float(v.number, out); break;
    case TVALUE_BIG_INT:
    case TVALUE_STRING: buf_add(out, v.text, v.len); break;
    case TVALUE_LIST:
        buf_add_byte(out, '[');
        add_items(r, v, out);
        buf_add_byte(out, ']');
        break;
    case TVALUE_TUPLE:
        buf_add_byte(out, '(');
        add_items(r, v, out);
        buf_add_str(out, v.list->count == 1 ? ",)" : ")");
        break;
    case TVALUE_DICT: add_dict(r, v.dict, out); break;
    case TVALUE_RANGE: add_range(v.pointer, out); break;
    case TVALUE_VIEW: add_view(r, v, out); break;
    case TVALUE_NAMESPACE:
        buf_add_str(out, "<Namespace ");
        add_dict(r, v.dict, out);
        buf_add_byte(out, '>');
        break;
    case TVALUE_FUNCTION:
        buf_add_str(out, v.tag == FUNCTION_SELF ? "<TemplateReference None>" : "<function object>");
        break;
    case TVALUE_LOOP: {
        const struct tloop *loop = v.pointer;
        buf_addf(out, "<LoopContext %u/%u>", loop->idx + 1, loop->seq.count);
        break;
    }
    case TVALUE_MACRO: {
        struct bytes name = ((const struct tmacro *)v.pointer)->def->name;
        if (name.len)
            buf_addf(out, "<Macro '%.*s'>", (int)name.len, (const char *)name.data);
        else
            buf_add_str(out, "<Macro anonymous>");
        break;
    }
    default: buf_addf(out, "<%s object>", python_type(v));
    }
}

void run_str(struct run *r, struct tvalue v, struct buf *out) {
    if (!too_deep(r, out))
        add_text(r, v, out);
    r->depth--;
}

void run_repr(struct run *r, struct tvalue v, struct buf *out) {
    if (v.kind == TVALUE_STRING) {
        bool safe = v.flags & TVALUE_SAFE;
        if (safe)
            buf_add_str(out, "Markup(");
        python_add_repr(out, tvalue_text(v));
        if (safe)
            buf_add_byte(out, ')');
        return;
    }
    if (v.kind == TVALUE_UNDEFINED) {
        buf_add_str(out, "Undefined");
        return;
    }
    run_str(r, v, out);
}

struct tvalue run_to_string(struct run *r, struct tvalue v) {
    if (v.kind == TVALUE_STRING)
        return v;
    struct buf out;
    buf_init(&out, r->out_max);
    run_str(r, v, &out);
    return run_take_buf(r, &out);
}

/* ---- JSON, as json.dumps ---- */

static void new_line(const struct json_style *style, unsigned depth, struct buf *out) {
    static const char SPACES[] = "                                ";
    if (style->indent < 0)
        return;
    buf_add_byte(out, '\n');
    if (style->indent_text.len) {
        for (unsigned i = 0; i < depth && !out->failed; i++)
            buf_add_bytes(out, style->indent_text);
        return;
    }
    for (int64_t left = style->indent * depth; left > 0 && !out->failed;
         left -= (int64_t)sizeof SPACES - 1)
        buf_add(out, SPACES, (size_t)MIN(left, (int64_t)sizeof SPACES - 1));
}

static void add_json_string(const struct json_style *style, struct bytes s, struct buf *out) {
    buf_add_byte(out, '"');
    if (!style->ascii) {
        buf_add_json(out, s);
    } else {
        for (size_t i = 0, n; i < s.len; i += n) {
            uint32_t cp;
            n = unicode_next(s.data + i, &cp);
            if (cp < 0x7F)
                buf_add_json(out, bytes_of(s.data + i, 1));
            else if (cp < 0x10000)
                buf_addf(out, "\\u%04x", cp);
            else
                buf_addf(out, "\\u%04x\\u%04x", 0xD800 + ((cp - 0x10000) >> 10),
                         0xDC00 + ((cp - 0x10000) & 0x3FF));
        }
    }
    buf_add_byte(out, '"');
}

static void list_to_json(struct run *r, struct tvalue v, const struct json_style *style,
                         unsigned depth, struct buf *out) {
    buf_add_byte(out, '[');
    for (uint32_t i = 0; i < v.list->count && !r->rc; i++) {
        if (i)
            buf_add_bytes(out, style->item_separator);
        new_line(style, depth + 1, out);
        run_to_json(r, v.list->items[i], style, depth + 1, out);
    }
    if (v.list->count)
        new_line(style, depth, out);
    buf_add_byte(out, ']');
}

static void key_to_json(struct run *r, struct tvalue key, const struct json_style *style,
                        struct buf *out) {
    if (key.kind == TVALUE_STRING) {
        add_json_string(style, tvalue_text(key), out);
        return;
    }
    buf_add_byte(out, '"');
    run_to_json(r, key, style, 0, out);
    buf_add_byte(out, '"');
}

/* Order of the entries: as they stand, or by key. Returns NULL for as they stand. */
static uint32_t *sorted_entries(struct run *r, const struct tdict *dict) {
    uint32_t *order = run_alloc(r, MAX(dict->count, 1u) * sizeof *order);
    for (uint32_t i = 0; order && i < dict->count; i++) {
        uint32_t k = i;
        for (;
             k && !r->rc && op_order(r, dict->entries[i].key, dict->entries[order[k - 1]].key) < 0;
             k--)
            order[k] = order[k - 1];
        order[k] = i;
        run_burn(r, i - k);
    }
    return order;
}

static void dict_to_json(struct run *r, const struct tdict *dict, const struct json_style *style,
                         unsigned depth, struct buf *out) {
    uint32_t *order = style->sort_keys ? sorted_entries(r, dict) : NULL;
    buf_add_byte(out, '{');
    for (uint32_t i = 0; i < dict->count && !r->rc; i++) {
        const struct tdict_entry *e = &dict->entries[order ? order[i] : i];
        if (i)
            buf_add_bytes(out, style->item_separator);
        new_line(style, depth + 1, out);
        key_to_json(r, e->key, style, out);
        buf_add_bytes(out, style->key_separator);
        run_to_json(r, e->value, style, depth + 1, out);
    }
    if (dict->count)
        new_line(style, depth, out);
    buf_add_byte(out, '}');
}

void run_to_json(struct run *r, struct tvalue v, const struct json_style *style, unsigned depth,
                 struct buf *out) {
    if (!too_deep(r, out)) {
        switch (v.kind) {
        case TVALUE_STRING: add_json_string(style, tvalue_text(v), out); break;
        case TVALUE_LIST:
        case TVALUE_TUPLE: list_to_json(r, v, style, depth, out); break;
        case TVALUE_DICT: dict_to_json(r, v.dict, style, depth, out); break;
        case TVALUE_NONE:
        case TVALUE_BOOL:
        case TVALUE_INT:
        case TVALUE_BIG_INT:
        case TVALUE_FLOAT: tvalue_to_json(v, out); break;
        default:
            run_fail(r, ERR_INVALID, "Object of type %s is not JSON serializable", python_type(v));
        }
    }
    r->depth--;
}
