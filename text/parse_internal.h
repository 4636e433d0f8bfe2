/*
 * parse_internal.h - the rows of the format table, and what the files of the output parsers offer each other; for
 * parse*.c only.
 */
#ifndef TEXT_PARSE_INTERNAL_H
#define TEXT_PARSE_INTERNAL_H

#include "base/vec.h"
#include "text/parse.h"

enum { PARSE_MARKS = 4, PARSE_DEPTH_MAX = 64 };

struct reasoning_format {
    const char *names; /* the row's own first, then aliases; separated by spaces */
    const char *open, *close;
    const char *drop[PARSE_MARKS];  /* marks around the content that follows, left out */
    const char *signs[PARSE_MARKS]; /* a template that holds all of these is this format's */
    bool anywhere;                  /* may open again later: the mark is no text anyone would write */
    bool harmony;                   /* parse_harmony.c reads it */
};

struct call_list;
struct call_reader; /* see below */

/* How the end of a call's body is found. */
enum body_end {
    BODY_MARK,      /* at the closing mark; outside of JSON strings when the body begins as JSON */
    BODY_MARK_JSON, /* the same, with JSON behind a head */
    BODY_BALANCE,   /* behind the first complete JSON value */
    BODY_PYTHON,    /* behind the bracket that closes the first one */
};

/* What the body may begin with: false as soon as it can be no call. */
typedef bool body_test(struct bytes body);
/* Reads one body into calls; false: it is no call (what was added is dropped). */
typedef bool body_read(struct call_reader *r, struct bytes body);

struct open_mark {
    const char *text;
    uint8_t keep;    /* bytes at its end that belong to the body */
    bool start_only; /* opens only where no content came before; the name must be a known tool's */
    bool needs_wrap; /* opens only inside a wrap */
};

struct call_format {
    const char *names;
    const char *wrap_open[PARSE_MARKS], *wrap_close[PARSE_MARKS]; /* around all calls; may be absent */
    struct open_mark open[PARSE_MARKS];                           /* before each call */
    const char *close;                                            /* behind each; NULL: none */
    const char *keeps; /* further special tokens that the body needs, separated by spaces */
    const char *signs[PARSE_MARKS];
    const char *prefix;  /* of element names, for read_invoke */
    bool ends_reasoning; /* a call may come without the end of the reasoning */
    bool harmony;
    enum body_end end;
    body_test *may_be;  /* NULL: anything */
    body_read *read[3]; /* tried in order */
};

extern const struct reasoning_format reasoning_formats[];
extern const size_t reasoning_format_count;
extern const struct call_format call_formats[];
extern const size_t call_format_count;

/* ---- reading a body ---- */

struct read_call {
    size_t id_at, id_len, name_at, name_len, arguments_at, arguments_len; /* in call_reader.made */
};

struct call_reader {
    const struct parse_tools *tools;
    const struct call_format *format;
    struct buf made;
    VEC(struct read_call) calls;
};

/* Adds a call; arguments empty: "{}". False when the name is empty or the arguments are no JSON object. */
MUST_CHECK bool read_add(struct call_reader *r, struct bytes id, struct bytes name, struct bytes arguments);

bool read_json(struct call_reader *r, struct bytes body);        /* {"name", "arguments"}, one or several, or a list */
bool read_json_strict(struct call_reader *r, struct bytes body); /* the same; arguments must be there */
bool read_keyed(struct call_reader *r, struct bytes body);       /* {NAME: {arguments}} */
bool read_function(struct call_reader *r, struct bytes body);    /* NAME><parameter=K>V</parameter></function> */
bool read_invoke(struct call_reader *r, struct bytes body);      /* NAME"><parameter name="K">V</parameter> */
bool read_glm(struct call_reader *r, struct bytes body);         /* NAME <arg_key>K</arg_key><arg_value>V</arg_value> */
bool read_step(struct call_reader *r, struct bytes body);        /* function SEP invoke */
bool read_deepseek(struct call_reader *r, struct bytes body);    /* [function SEP] NAME SEP arguments */
bool read_kimi(struct call_reader *r, struct bytes body);        /* functions.NAME:0 MARK arguments */
bool read_mistral(struct call_reader *r, struct bytes body);     /* [...] or NAME[CALL_ID]id[ARGS]{...} */
bool read_python(struct call_reader *r, struct bytes body);      /* [f(a=1), g()], f(a=1) */
bool read_gemma(struct call_reader *r, struct bytes body);       /* NAME{k:v} */
bool json_may_be(struct bytes body);
bool python_may_be(struct bytes body);

/* ---- values ---- */

enum parse_type { TYPE_UNKNOWN, TYPE_STRING, TYPE_MIXED, TYPE_OTHER };
bool parse_tools_has(const struct parse_tools *t, struct bytes name); /* true when tools are unknown */
enum parse_type parse_tools_type(const struct parse_tools *t, struct bytes function, struct bytes parameter);
/* Appends an unquoted value as JSON, by its parameter's type. unknown: what to take TYPE_UNKNOWN for. */
void add_typed(const struct call_reader *r, struct bytes function, struct bytes parameter, enum parse_type unknown,
               struct bytes value, struct buf *out);
void add_quoted(struct bytes text, struct buf *out);
bool json_is_value(struct bytes text);
bool json_is_object(struct bytes text);
/* Appends a Python literal at *at as JSON and moves *at behind it. */
MUST_CHECK bool python_literal(struct bytes text, size_t *at, struct buf *out);

static inline bool is_blank(uint8_t c) { return c == ' ' || (c >= 9 && c <= 13); }
struct bytes strip_blank(struct bytes s);
/* Offset of what from `from` on; SIZE_MAX: it is not there. */
size_t find_bytes(struct bytes in, struct bytes what, size_t from);
static inline bool begins_with(struct bytes s, struct bytes with) {
    return s.len >= with.len && !memcmp(s.data, with.data, with.len);
}
static inline struct bytes bytes_from(struct bytes s, size_t at) { return bytes_of(s.data + at, s.len - at); }

/* ---- putting out ---- */

/* Text of one part on its way out: white space at its end is kept until more comes. */
struct outlet {
    enum parse_part part;
    struct buf space;
    bool skip; /* white space at its beginning is left out */
    bool hold; /* keep white space back */
};
void outlet_add(struct outlet *o, struct bytes text, const struct parse_sink *sink);
void outlet_flush(struct outlet *o, const struct parse_sink *sink);
static inline void outlet_drop_space(struct outlet *o) { buf_reset(&o->space); }

struct harmony {
    enum { HARMONY_HEADER, HARMONY_BODY, HARMONY_BETWEEN } state;
    struct buf header, body;
    bool begun, reasoned;
};

/* Where a call's text stands: brackets and quotes. */
struct tracker {
    uint32_t depth;
    uint8_t first; /* the first byte that is not blank; 0: none yet */
    uint8_t quote; /* 0: not in a string */
    bool escaped, started, complete;
};

struct parser {
    struct parse_config config;
    enum { PARSER_PLAIN, PARSER_REASONING, PARSER_CALL } state;
    enum { WRAP_NONE, WRAP_OPEN, WRAP_CALLED } wrap;
    bool begun;    /* content was put out, white space apart */
    bool reasoned; /* the reasoning has ended */
    uint32_t call_count, failures;
    bool firsts[256]; /* first bytes of all marks */
    struct buf held;  /* from `at` on: not decided yet; of a call: its body so far */
    size_t at;
    struct buf pending; /* an opened wrap and the white space behind it, before its first call */
    struct outlet reasoning, content;
    const struct open_mark *open; /* of the call */
    size_t seen;                  /* bytes of the body that the tracker has passed */
    struct tracker track;
    struct call_reader reader;
    struct harmony harmony;
};

/* Puts out the calls that were read and forgets them. */
void parser_put_calls(struct parser *p, const struct parse_sink *sink);
void harmony_run(struct parser *p, const struct parse_sink *sink, bool last);
bool parser_is_harmony(const struct parser *p);

enum match { MATCH_NONE, MATCH_PARTIAL, MATCH_FULL };
enum match match_mark(struct bytes in, size_t at, const char *mark);

#endif
