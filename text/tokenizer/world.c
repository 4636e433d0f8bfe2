#include "text/tokenizer/world.h"

#include "base/utf8.h"
#include "text/tokenizer/spm.h"

static const char END_OF_TEXT[] = "<|rwkv_tokenizer_end_of_text|>";

int world_finish(struct tokenizer *t, const uint8_t *types, struct error *err) {
    const struct tokenizer_rules rules = {.decoder = "{\"type\":\"ByteLevel\"}"};
    int rc = 0;
    t->model = MODEL_GREEDY;
    vocab_seal_raw(&t->vocab);
    for (uint32_t id = 0; !rc && id < t->vocab.entries.count; id++) {
        struct added_token token = {.id = id, .special = types[id] == SPM_CONTROL};
        if (types[id] == SPM_UNUSED || types[id] == SPM_UNKNOWN)
            continue;
        if (token.special)
            t->vocab.flags[id] |= VOCAB_ADDED | VOCAB_SPECIAL;
        rc =
            added_add(token.special ? &t->added : &t->greedy, vocab_key(&t->vocab, id), token, err);
    }
    return rc ? rc : tokenizer_finish(t, &rules, err);
}

/* ---- Python's literals ---- */

/* The `digits` hexadecimal digits at p, -1 where there are others. */
static int64_t read_hex(const uint8_t *p, const uint8_t *end, size_t digits) {
    int64_t value = 0;
    if ((size_t)(end - p) < digits)
        return -1;
    for (size_t i = 0; i < digits; i++) {
        int digit = hex_value(p[i]);
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* What a character behind a backslash stands for by itself; 0: nothing. */
static char plain_escape(uint8_t c) {
    static const char NAMED[][2] = {{'n', '\n'},  {'r', '\r'},  {'t', '\t'},
                                    {'\\', '\\'}, {'\'', '\''}, {'"', '"'}};
    for (size_t i = 0; i < ARRAY_LEN(NAMED); i++)
        if (c == NAMED[i][0])
            return NAMED[i][1];
    return 0;
}

/* One escape, p behind its backslash. Returns the bytes it took, 0: none that Python writes. In a
 * string \xE9 is a character, in bytes a byte. */
static size_t read_escape(const uint8_t *p, const uint8_t *end, bool is_bytes, struct buf *out) {
    char utf8[4], plain = p < end ? plain_escape(*p) : 0;
    if (plain) {
        buf_add_byte(out, plain);
        return 1;
    }
    size_t digits = p == end ? 0 : *p == 'x' ? 2 : is_bytes ? 0 : *p == 'u' ? 4 : *p == 'U' ? 8 : 0;
    int64_t value = digits ? read_hex(p + 1, end, digits) : -1;
    if (value < 0 || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000))
        return 0;
    if (is_bytes)
        buf_add_byte(out, (char)value);
    else
        buf_add(out, utf8, utf8_encode((uint32_t)value, utf8));
    return 1 + digits;
}

/* 'text' or b'bytes', in either kind of quotes, appended to out. */
static bool read_literal(struct bytes s, struct buf *out) {
    bool is_bytes = s.len && s.data[0] == 'b';
    const uint8_t *p = s.data + is_bytes, *end = s.data + s.len - 1;
    if (s.len < 2u + is_bytes || (*p != '\'' && *p != '"') || *end != *p)
        return false;
    for (uint8_t quote = *p++; p < end;) {
        if (*p == quote)
            return false;
        if (*p != '\\') {
            buf_add_byte(out, (char)*p++);
            continue;
        }
        size_t taken = read_escape(p + 1, end, is_bytes, out);
        if (!taken)
            return false;
        p += 1 + taken;
    }
    return true;
}

/* ---- lines ---- */

static bool read_number(struct bytes s, uint32_t *out) {
    uint32_t value = 0;
    if (!s.len || s.len > 8)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        if (s.data[i] < '0' || s.data[i] > '9')
            return false;
        value = value * 10 + (s.data[i] - '0');
    }
    *out = value;
    return true;
}

/* "258 ' \n' 2": the literal lies between the first space and the last. False: no such line. */
static bool cut_line(struct bytes line, uint32_t *id, struct bytes *literal, uint32_t *len) {
    const uint8_t *first = line.len ? memchr(line.data, ' ', line.len) : NULL;
    const uint8_t *last = first ? memrchr(line.data, ' ', line.len) : NULL;
    if (!first || last == first)
        return false;
    *literal = bytes_of(first + 1, (size_t)(last - first - 1));
    return read_number(bytes_of(line.data, (size_t)(first - line.data)), id) &&
           read_number(bytes_of(last + 1, (size_t)(line.data + line.len - last - 1)), len);
}

/* The next line, taken off *rest, without its end. */
static struct bytes take_line(struct bytes *rest) {
    const uint8_t *stop = memchr(rest->data, '\n', rest->len);
    struct bytes line = bytes_of(rest->data, stop ? (size_t)(stop - rest->data) : rest->len);
    size_t taken = line.len + (stop != NULL);
    *rest = bytes_of(rest->data + taken, rest->len - taken);
    if (line.len && line.data[line.len - 1] == '\r')
        line.len--;
    return line;
}

bool world_is(struct bytes file) {
    uint32_t id, len;
    struct bytes literal;
    size_t head = MIN(file.len, (size_t)VOCAB_TOKEN_BYTES_MAX);
    struct bytes rest = bytes_of(file.data, head);
    if (!head || !cut_line(take_line(&rest), &id, &literal, &len))
        return false;
    return literal.len &&
           (literal.data[0] == '\'' || literal.data[0] == '"' || literal.data[0] == 'b');
}

static int bad_line(size_t number, const char *what, struct error *err) {
    return error_set(err, ERR_INVALID, "RWKV vocabulary: line %zu %s", number, what);
}

static int add_line(struct vocab *v, struct bytes line, size_t number, struct error *err) {
    uint32_t id, len;
    struct bytes literal;
    size_t start = v->pool.len;
    if (!cut_line(line, &id, &literal, &len))
        return bad_line(number, "is not: id, literal, bytes", err);
    if (!read_literal(literal, &v->pool))
        return bad_line(number, "has no Python literal", err);
    if (v->pool.len - start != len || !len)
        return bad_line(number, "has another length than its token", err);
    if (!id)
        return bad_line(number, "has the id 0, which ends a text", err);
    if (id < v->entries.count && v->entries.items[id].start != VOCAB_ABSENT)
        return bad_line(number, "has an id that an earlier line has", err);
    return vocab_claim(v, start, id, err);
}

int world_build(struct bytes file, struct tokenizer *t, struct error *err) {
    CHECK(t && !t->vocab.slots);
    struct vocab *v = &t->vocab;
    int rc = vocab_add(v, bytes_str(END_OF_TEXT), 0, err);
    for (size_t number = 1; !rc && file.len; number++) {
        struct bytes line = take_line(&file);
        if (line.len)
            rc = add_line(v, line, number, err);
    }
    if (rc)
        return rc;
    uint8_t *types = mem_calloc(v->entries.count, 1);
    types[0] = SPM_CONTROL;
    rc = world_finish(t, types, err);
    mem_free(types);
    t->bos = 0;
    tokenizer_add_eos(t, 0);
    return rc;
}
