/*
 * json_read.c - the pull reader: one function a state, a bit per open container, strings found 16
 * bytes at a time.
 */
#include "formats/json.h"

#include "base/utf8.h"

#include <endian.h>
#include <stdio.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum state {
    WANT_VALUE,        /* at the start, after ':' and after ',' in an array */
    WANT_VALUE_OR_END, /* after '[' */
    WANT_KEY,          /* after ',' in an object */
    WANT_KEY_OR_END,   /* after '{' */
    WANT_COMMA_OR_END, /* after a value inside something */
    WANT_NOTHING,      /* after the outermost value */
    FAILED,
};

void json_reader_init(struct json_reader *r, struct bytes text, uint32_t depth_max,
                      uint32_t flags) {
    memset(r, 0, sizeof *r);
    r->start = r->at = text.data;
    r->end = text.len ? text.data + text.len : text.data;
    r->depth_max = depth_max ? MIN(depth_max, (uint32_t)JSON_DEPTH_MAX) : JSON_DEPTH_DEFAULT;
    r->flags = flags;
    r->state = WANT_VALUE;
    buf_init(&r->scratch, 0);
}

void json_reader_release(struct json_reader *r) {
    buf_release(&r->scratch);
}

/* ---- errors ---- */

static enum json_event fail_at(struct json_reader *r, int code, const uint8_t *where,
                               const char *what) {
    if (r->state != FAILED)
        error_set(&r->error, code, "%s at byte %zu", what, (size_t)(where - r->start));
    r->state = FAILED;
    r->last = JSON_ERROR;
    return JSON_ERROR;
}

static enum json_event bad(struct json_reader *r, const uint8_t *where, const char *what) {
    return fail_at(r, ERR_INVALID, where, where >= r->end ? "unexpected end of the text" : what);
}

bool json_fail(struct json_reader *r, const char *fmt, ...) {
    char what[ERROR_TEXT_MAX / 2];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    fail_at(r, ERR_INVALID, r->start + r->offset, what);
    return false;
}

/* ---- strings ---- */

/* First byte in [at, end) that is a quote, a backslash or a control character; sets *high when a
 * byte >= 0x80 was passed. */
static const uint8_t *find_special(const uint8_t *at, const uint8_t *end, bool *high) {
#ifdef __SSE2__
    const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\'),
                  last_control = _mm_set1_epi8(0x1f);
    for (; end - at >= 16; at += 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)at);
        __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(v, last_control), v);
        __m128i hit =
            _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, slash)), control);
        unsigned hits = (unsigned)_mm_movemask_epi8(hit), highs = (unsigned)_mm_movemask_epi8(v);
        if (hits) {
            if (highs & ((hits & -hits) - 1))
                *high = true;
            return at + __builtin_ctz(hits);
        }
        if (highs)
            *high = true;
    }
#endif
    for (; at < end; at++) {
        if (*at == '"' || *at == '\\' || *at < 0x20)
            break;
        if (*at >= 0x80)
            *high = true;
    }
    return at;
}

/* The 4 digits of a \u escape, or -1. */
static int32_t hex4(const uint8_t *at, const uint8_t *end) {
    int32_t v = 0;
    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int d = hex_value(at[i]);
        if (d < 0)
            return -1;
        v = v * 16 + d;
    }
    return v;
}

static const uint8_t *escape_fail(struct json_reader *r, const uint8_t *at, const char *what) {
    fail_at(r, ERR_INVALID, at, what);
    return NULL;
}

/* It is JSON, which the other faults are not. */
static const uint8_t *refuse_nul(struct json_reader *r, const uint8_t *at) {
    fail_at(r, ERR_UNSUPPORTED, at, "zero character (\\u0000)");
    return NULL;
}

/* at is at "\u". Appends the character; returns the byte behind the escape (or the pair), or NULL
 * after failing. */
static const uint8_t *unicode_escape(struct json_reader *r, const uint8_t *at) {
    const uint8_t *first = at;
    int32_t cp = hex4(at + 2, r->end);
    char utf8[4];
    if (cp < 0)
        return escape_fail(r, first, "bad \\u escape");
    if (cp == 0 && !(r->flags & JSON_ALLOW_NUL))
        return refuse_nul(r, first);
    at += 6;
    if (cp >= 0xd800 && cp <= 0xdbff) {
        int32_t low = r->end - at >= 6 && at[0] == '\\' && at[1] == 'u' ? hex4(at + 2, r->end) : -1;
        if (low < 0xdc00 || low > 0xdfff)
            return escape_fail(r, first, "lone surrogate escape");
        cp = 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
        at += 6;
    }
    if (cp >= 0xdc00 && cp <= 0xdfff)
        return escape_fail(r, first, "lone surrogate escape");
    buf_add(&r->scratch, utf8, utf8_encode((uint32_t)cp, utf8));
    return at;
}

/* at is at a backslash. Appends what it stands for; returns the byte behind it, or NULL after
 * failing. */
static const uint8_t *escape(struct json_reader *r, const uint8_t *at) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *found = NULL;
    if (r->end - at >= 2 && at[1] == 'u')
        return unicode_escape(r, at);
    if (r->end - at >= 2 && at[1])
        found = strchr(from, at[1]);
    if (!found) {
        bad(r, at + 1, "bad escape");
        return NULL;
    }
    buf_add_byte(&r->scratch, to[found - from]);
    return at + 2;
}

static inline bool follows(uint8_t c) {
    return (c & 0xc0) == 0x80;
}

/* Bytes of the character at s, or 0. The two commonest shapes without a call; base/utf8.h decides
 * the rest. */
static inline size_t character(const uint8_t *s, size_t len) {
    uint32_t cp;
    if (s[0] < 0x80)
        return 1;
    if (len >= 2 && s[0] >= 0xc2 && s[0] < 0xe0 && follows(s[1]))
        return 2;
    if (len >= 3 && s[0] > 0xe0 && s[0] < 0xed && follows(s[1]) && follows(s[2]))
        return 3;
    return utf8_decode(s, len, &cp);
}

/* Checks UTF-8 of a run without escapes. */
static bool run_valid(struct json_reader *r, const uint8_t *run, const uint8_t *end, bool high) {
    if (!high)
        return true;
    for (size_t len; run < end; run += len) {
        if (*run < 0x80 && r->end - run >= 8) { /* up to the next byte that is not ASCII */
            uint64_t eight;
            memcpy(&eight, run, sizeof eight);
            eight = le64toh(eight) & 0x8080808080808080u;
            len = eight ? (size_t)__builtin_ctzll(eight) / 8 : 8;
            continue;
        }
        len = character(run, (size_t)(end - run));
        if (!len)
            return fail_at(r, ERR_INVALID, run, "invalid UTF-8"), false;
    }
    return true;
}

/* r->at is at the opening quote. Leaves r->at behind the closing one and r->text unescaped. */
static bool string(struct json_reader *r) {
    const uint8_t *run = r->at + 1, *at;
    bool has_escapes = false;
    for (;;) {
        bool high = false;
        at = find_special(run, r->end, &high);
        if (!run_valid(r, run, at, high))
            return false;
        if (at == r->end || *at < 0x20)
            return bad(r, at, "control character in a string"), false;
        if (*at == '"')
            break;
        if (!has_escapes)
            buf_reset(&r->scratch);
        has_escapes = true;
        buf_add(&r->scratch, run, (size_t)(at - run));
        run = escape(r, at);
        if (!run)
            return false;
    }
    r->text = bytes_of(run, (size_t)(at - run));
    if (has_escapes) {
        buf_add_bytes(&r->scratch, r->text);
        r->text = buf_bytes(&r->scratch);
        if (r->scratch.failed)
            return fail_at(r, ERR_MEMORY, r->at, "out of memory for the string"), false;
    }
    r->at = at + 1;
    return true;
}

/* ---- numbers and words ---- */

static inline bool is_digit(uint8_t c) {
    return c >= '0' && c <= '9';
}

static const uint8_t *digits(const uint8_t *at, const uint8_t *end) {
    while (at < end && is_digit(*at))
        at++;
    return at;
}

static bool number(struct json_reader *r) {
    const uint8_t *at = r->at, *end = r->end, *first;
    if (*at == '-')
        at++;
    first = at;
    at = digits(at, end);
    if (at == first || (*first == '0' && at - first > 1))
        return bad(r, first, "bad number"), false;
    if (at < end && *at == '.') {
        first = ++at;
        at = digits(at, end);
        if (at == first)
            return bad(r, at, "bad number"), false;
    }
    if (at < end && (*at | 0x20) == 'e') {
        at++;
        if (at < end && (*at == '+' || *at == '-'))
            at++;
        first = at;
        at = digits(at, end);
        if (at == first)
            return bad(r, at, "bad number"), false;
    }
    if (at - r->at > JSON_NUMBER_MAX)
        return fail_at(r, ERR_LIMIT, r->at, "number too long"), false;
    r->text = bytes_of(r->at, (size_t)(at - r->at));
    r->at = at;
    return true;
}

static bool word(struct json_reader *r, const char *text) {
    size_t len = strlen(text), have = (size_t)(r->end - r->at);
    if (have < len || memcmp(r->at, text, len) != 0)
        return bad(r, r->at, "bad value"), false;
    r->at += len;
    return true;
}

/* ---- structure ---- */

static inline bool in_object(const struct json_reader *r) {
    uint32_t d = r->depth - 1;
    return r->in_object[d / 64] >> (d % 64) & 1;
}

static inline void skip_space(struct json_reader *r) {
    const uint8_t *at = r->at, *end = r->end;
#ifdef __SSE2__
    const __m128i space = _mm_set1_epi8(' '), line = _mm_set1_epi8('\n');
    while (end - at >= 16 && *at <= ' ') { /* indented files are half white space */
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)at);
        __m128i blank = _mm_or_si128(_mm_cmpeq_epi8(v, space), _mm_cmpeq_epi8(v, line));
        unsigned others = (unsigned)_mm_movemask_epi8(blank) ^ 0xffff;
        at += others ? __builtin_ctz(others) : 16;
        if (others)
            break;
    }
#endif
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
        at++;
    r->at = at;
}

static enum json_event emit(struct json_reader *r, enum json_event event, enum state next) {
    r->state = (uint8_t)next;
    r->last = (int8_t)event;
    r->raw = bytes_of(r->start + r->offset, (size_t)(r->at - r->start) - r->offset);
    return event;
}

static enum state after_value(const struct json_reader *r) {
    return r->depth ? WANT_COMMA_OR_END : WANT_NOTHING;
}

static enum json_event open_container(struct json_reader *r, bool object) {
    uint32_t d = r->depth;
    if (d == r->depth_max)
        return fail_at(r, ERR_LIMIT, r->at, "nested too deeply");
    r->in_object[d / 64] = (r->in_object[d / 64] & ~(1ull << (d % 64))) | (uint64_t)object
                                                                              << (d % 64);
    r->depth = d + 1;
    r->at++;
    return object ? emit(r, JSON_OBJECT_BEGIN, WANT_KEY_OR_END)
                  : emit(r, JSON_ARRAY_BEGIN, WANT_VALUE_OR_END);
}

static enum json_event close_container(struct json_reader *r) {
    bool object = in_object(r);
    r->at++;
    r->depth--;
    return emit(r, object ? JSON_OBJECT_END : JSON_ARRAY_END, after_value(r));
}

static enum json_event value(struct json_reader *r) {
    switch (*r->at) {
    case '{': return open_container(r, true);
    case '[': return open_container(r, false);
    case '"': return string(r) ? emit(r, JSON_STRING, after_value(r)) : JSON_ERROR;
    case 't': return word(r, "true") ? emit(r, JSON_TRUE, after_value(r)) : JSON_ERROR;
    case 'f': return word(r, "false") ? emit(r, JSON_FALSE, after_value(r)) : JSON_ERROR;
    case 'n': return word(r, "null") ? emit(r, JSON_NULL, after_value(r)) : JSON_ERROR;
    case 0xef:
        if (r->at == r->start)
            return fail_at(r, ERR_INVALID, r->at, "byte order mark");
        return bad(r, r->at, "expected a value");
    default:
        if (*r->at != '-' && !is_digit(*r->at))
            return bad(r, r->at, "expected a value");
        return number(r) ? emit(r, JSON_NUMBER, after_value(r)) : JSON_ERROR;
    }
}

static enum json_event key(struct json_reader *r) {
    if (*r->at != '"')
        return bad(r, r->at, "expected a key");
    if (!string(r))
        return JSON_ERROR;
    enum json_event event = emit(r, JSON_KEY, WANT_VALUE);
    skip_space(r);
    if (r->at == r->end || *r->at != ':')
        return bad(r, r->at, "expected ':'");
    r->at++;
    return event;
}

/* Behind a value: takes the comma, or closes. True when something else must be read now. */
static bool separator(struct json_reader *r, enum json_event *event) {
    bool object = in_object(r);
    if (*r->at == (object ? '}' : ']')) {
        *event = close_container(r);
        return false;
    }
    if (*r->at != ',') {
        *event = bad(r, r->at, object ? "expected ',' or '}'" : "expected ',' or ']'");
        return false;
    }
    r->at++;
    r->state = object ? WANT_KEY : WANT_VALUE;
    skip_space(r);
    r->offset = (size_t)(r->at - r->start);
    if (r->at < r->end)
        return true;
    *event = bad(r, r->at, "");
    return false;
}

enum json_event json_next(struct json_reader *r) {
    enum json_event event = JSON_ERROR;
    if (r->state == FAILED)
        return JSON_ERROR;
    skip_space(r);
    r->offset = (size_t)(r->at - r->start);
    if (r->at == r->end)
        return r->state == WANT_NOTHING ? emit(r, JSON_END, WANT_NOTHING) : bad(r, r->at, "");
    if (r->state == WANT_COMMA_OR_END && !separator(r, &event))
        return event;
    switch (r->state) {
    case WANT_VALUE_OR_END:
        if (*r->at == ']')
            return close_container(r);
        return value(r);
    case WANT_VALUE: return value(r);
    case WANT_KEY_OR_END:
        if (*r->at == '}')
            return close_container(r);
        return key(r);
    case WANT_KEY: return key(r);
    default: return bad(r, r->at, "something behind the value");
    }
}

/* ---- conveniences ---- */

bool json_skip(struct json_reader *r) {
    uint32_t depth = r->depth;
    if (r->last == JSON_ERROR)
        return false;
    if (r->last == JSON_KEY) {
        enum json_event event = json_next(r);
        if (event != JSON_OBJECT_BEGIN && event != JSON_ARRAY_BEGIN)
            return event != JSON_ERROR;
        depth = r->depth;
    } else if (r->last != JSON_OBJECT_BEGIN && r->last != JSON_ARRAY_BEGIN) {
        return true;
    }
    while (r->depth >= depth)
        if (json_next(r) == JSON_ERROR)
            return false;
    return true;
}

struct bytes json_since(const struct json_reader *r, size_t begin) {
    return bytes_of(r->start + begin, r->offset + r->raw.len - begin);
}

bool json_take(struct json_reader *r, struct bytes *span) {
    size_t begin = r->offset;
    if (!json_skip(r))
        return false;
    if (span)
        *span = json_since(r, begin);
    return true;
}

static struct bytes *find_member(struct bytes key, const struct json_wanted *members,
                                 size_t count) {
    for (size_t i = 0; i < count; i++)
        if (bytes_equal(key, bytes_str(members[i].name)))
            return members[i].out;
    return NULL;
}

bool json_take_members(struct json_reader *r, const struct json_wanted *members, size_t count) {
    enum json_event event;
    while ((event = json_next(r)) == JSON_KEY) {
        struct bytes *out = find_member(r->text, members, count);
        event = json_next(r);
        if (!json_take(r, event == JSON_NULL ? NULL : out))
            return false;
    }
    return event == JSON_OBJECT_END;
}

static const char *event_text(enum json_event event) {
    static const char *const texts[] = {
        [JSON_END] = "the end",     [JSON_OBJECT_BEGIN] = "an object",
        [JSON_OBJECT_END] = "'}'",  [JSON_ARRAY_BEGIN] = "an array",
        [JSON_ARRAY_END] = "']'",   [JSON_KEY] = "a key",
        [JSON_STRING] = "a string", [JSON_NUMBER] = "a number",
        [JSON_TRUE] = "true",       [JSON_FALSE] = "false",
        [JSON_NULL] = "null",
    };
    return texts[event];
}

bool json_expect(struct json_reader *r, enum json_event want) {
    enum json_event event = json_next(r);
    if (event == want)
        return true;
    if (event != JSON_ERROR)
        json_fail(r, "expected %s", event_text(want));
    return false;
}

bool json_read_string(struct json_reader *r, struct bytes *out) {
    if (!json_expect(r, JSON_STRING))
        return false;
    *out = r->text;
    return true;
}

bool json_read_int64(struct json_reader *r, int64_t *out) {
    if (!json_expect(r, JSON_NUMBER))
        return false;
    return json_number_int64(r->text, out) || json_fail(r, "expected an integer of 64 bits");
}

bool json_read_double(struct json_reader *r, double *out) {
    if (!json_expect(r, JSON_NUMBER))
        return false;
    return json_number_double(r->text, out) || json_fail(r, "number out of range");
}

bool json_read_bool(struct json_reader *r, bool *out) {
    enum json_event event = json_next(r);
    *out = event == JSON_TRUE;
    if (event == JSON_TRUE || event == JSON_FALSE)
        return true;
    return event == JSON_ERROR ? false : json_fail(r, "expected true or false");
}
