/*
 * json.h - strict JSON (RFC 8259): a scan that refuses what must not reach cJSON, a pull reader
 * without a tree, a writer.
 *
 * One grammar for all: UTF-8 without BOM, no control characters in strings, no lone surrogate
 * escapes, numbers by the letter, one value and white space around it. No recursion, linear time,
 * depth bounded. Stricter than the RFC on purpose: numbers and their text are bounded
 * (JSON_NUMBER_MAX), and json_scan also refuses `\u0000` and repeated keys ("a" and "\u0061" are
 * the same key), because C strings and cJSON silently misread both.
 *
 * Threading: a reader or writer belongs to one thread; there is no shared state.
 */
#ifndef FORMATS_JSON_H
#define FORMATS_JSON_H

#include "base/buf.h"
#include "base/error.h"

enum {
    JSON_DEPTH_DEFAULT = 64,
    JSON_DEPTH_MAX = 1024,
    JSON_NUMBER_MAX = 1024, /* bytes of one number's text */
};

/* ---- scan ---- */

/* Checks text as the top comment says, with at most depth_max open objects and arrays (0:
 * JSON_DEPTH_DEFAULT). 0, or ERR_INVALID or ERR_LIMIT with *err a text that a client may see:
 * "repeated key \"model\" at byte 17". A text that passes can be parsed by cJSON without its traps
 * (but for its numbers: take integers with json_number_int64, and one of more than 63 bytes makes
 * cJSON 1.7.15 fail). */
MUST_CHECK int json_scan(struct bytes text, uint32_t depth_max, struct error *err);

/* ---- reader ---- */

enum json_event {
    JSON_ERROR = -1, /* reader.error says what and where; stays */
    JSON_END = 0,    /* after the value; stays */
    JSON_OBJECT_BEGIN,
    JSON_OBJECT_END,
    JSON_ARRAY_BEGIN,
    JSON_ARRAY_END,
    JSON_KEY,    /* text: decoded key */
    JSON_STRING, /* text: decoded string */
    JSON_NUMBER, /* text: the number as written */
    JSON_TRUE,
    JSON_FALSE,
    JSON_NULL,
};

enum json_flags {
    JSON_ALLOW_NUL = 1, /* "\u0000" in strings is a zero byte; else refused */
};

/* Reads a text that lies in memory as a whole. Fields are read only for users. */
struct json_reader {
    /* of the last KEY, STRING, NUMBER: into the input, or into scratch when there were escapes;
     * until the next call */
    struct bytes text;
    struct bytes raw; /* of the last event: exactly as written, quotes included */
    size_t offset;    /* where raw begins in the input */
    uint32_t depth;   /* open objects and arrays after the last event */
    struct error error;
    const uint8_t *start, *at, *end; /* borrowed input */
    uint32_t depth_max, flags;
    uint8_t state;
    int8_t last;                             /* the last event */
    uint64_t in_object[JSON_DEPTH_MAX / 64]; /* bit d: what is open at depth d is an object */
    struct buf scratch;                      /* owned */
};

/* depth_max 0: JSON_DEPTH_DEFAULT; more than JSON_DEPTH_MAX counts as that. Allocates nothing until
 * a string has escapes. */
void json_reader_init(struct json_reader *r, struct bytes text, uint32_t depth_max, uint32_t flags);
/* Frees the scratch memory; text of the last event is stale then. */
void json_reader_release(struct json_reader *r);
/* The next event; r->text, r->raw and r->depth are of it. JSON_END and JSON_ERROR stay. */
enum json_event json_next(struct json_reader *r);
/* Whether the last event, a key or a string, is this text. */
static inline bool json_text_is(const struct json_reader *r, const char *text) {
    return bytes_equal(r->text, bytes_str(text));
}
/* After KEY: reads and drops the value. After OBJECT_BEGIN or ARRAY_BEGIN: drops the rest up to its
 * end (that is then the last event). After anything else: nothing. False on error. */
MUST_CHECK bool json_skip(struct json_reader *r);
/* What was written from offset `begin` to the end of the last event; into the input. */
struct bytes json_since(const struct json_reader *r, size_t begin);
/* After a value's first event: drops its rest; *span (may be NULL): all of it as written, into the
 * input. False on error. */
MUST_CHECK bool json_take(struct json_reader *r, struct bytes *span);

/* A member that is asked for. */
struct json_wanted {
    const char *name;
    struct bytes *out;
};
/* After OBJECT_BEGIN: reads to the object's end; the value of each member asked for as json_take
 * does. What is absent or null leaves *out alone. False on error. */
MUST_CHECK bool json_take_members(struct json_reader *r, const struct json_wanted *members,
                                  size_t count);
/* The next event must be want: true, else false with an error "expected a string at byte 9" (unless
 * one was there already). */
MUST_CHECK bool json_expect(struct json_reader *r, enum json_event want);
/* After KEY: the next value must be a string / an integer / a bool, stored in *out (a string until
 * the next call). */
MUST_CHECK bool json_read_string(struct json_reader *r, struct bytes *out);
/* An integer that fits, however written. */
MUST_CHECK bool json_read_int64(struct json_reader *r, int64_t *out);
/* Any number. */
MUST_CHECK bool json_read_double(struct json_reader *r, double *out);
/* true or false. */
MUST_CHECK bool json_read_bool(struct json_reader *r, bool *out);
/* Puts an error of the caller's into the reader ("%s at byte N"); the reader then only gives
 * JSON_ERROR. Returns false. */
bool json_fail(struct json_reader *r, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Exact value of a number's text when it is an integer in range, however written (7, 7.0, 70e-1,
 * -0); else false. */
MUST_CHECK bool json_number_int64(struct bytes number, int64_t *out);
/* The same, unsigned. */
MUST_CHECK bool json_number_uint64(struct bytes number, uint64_t *out);
/* Nearest double, independent of the locale; false when it is no number's text or overflows. */
MUST_CHECK bool json_number_double(struct bytes number, double *out);

/* ---- writer ---- */

/* Appends JSON to *out, setting commas and colons; check out->failed once at the end. Misuse (a key
 * in an array) is a bug: CHECK. */
struct json_writer {
    struct buf *out; /* borrowed */
    uint32_t depth;
    bool after_key;
    uint64_t has_item[JSON_DEPTH_MAX / 64];  /* bit d: something was written at depth d */
    uint64_t in_object[JSON_DEPTH_MAX / 64]; /* bit d */
};
/* Begins a text at the end of *out, which must outlive the writer. */
void json_writer_init(struct json_writer *w, struct buf *out);
/* Opens an object; keys and values follow in turn. */
void json_begin_object(struct json_writer *w);
/* Closes it. */
void json_end_object(struct json_writer *w);
/* Opens an array; values follow. */
void json_begin_array(struct json_writer *w);
/* Closes it. */
void json_end_array(struct json_writer *w);
/* The next key of the open object: UTF-8; escaped as needed. */
void json_key(struct json_writer *w, const char *key);
/* The same, of bytes. */
void json_key_bytes(struct json_writer *w, struct bytes key);
void json_string(struct json_writer *w, const char *s);        /* NULL: null */
void json_string_bytes(struct json_writer *w, struct bytes s); /* valid UTF-8 */
/* A number. */
void json_int(struct json_writer *w, int64_t v);
/* A number. */
void json_uint(struct json_writer *w, uint64_t v);
/* shortest text that reads back to v; not finite: null */
void json_double(struct json_writer *w, double v);
/* true or false. */
void json_bool(struct json_writer *w, bool v);
/* null. */
void json_null(struct json_writer *w);
void json_raw(struct json_writer *w, struct bytes value); /* a complete JSON value, unchecked */

#endif
