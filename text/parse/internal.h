/*
 * internal.h - the rows of the format table, and what the files of the output parsers offer each
 * other; for parse*.c only.
 */
#ifndef TEXT_PARSE_INTERNAL_H
#define TEXT_PARSE_INTERNAL_H

#include "base/vec.h"
#include "text/parse/parse.h"
#include "text/template/value.h"

/* PARSE_SCHEMA_STEPS: of schemas, names and values, how many are looked at to tell what one value is.
 * References may go round, and a long text has many values. */
enum { PARSE_MARKS = 4, PARSE_DEPTH_MAX = 64, PARSE_SCHEMA_STEPS = 1000 };

#define MINIMAX_SPACE   "]<]minimax[>["
#define PLAMO_NAME_END  "<|plamo:end_tool_name:plamo|>"
#define PLAMO_ARGUMENTS "<|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>"

struct reasoning_format {
    const char *names; /* the row's own first, then aliases; separated by spaces */
    const char *open[PARSE_MARKS], *close[PARSE_MARKS];
    const char *drop[PARSE_MARKS];  /* marks around the content that follows, left out */
    const char *signs[PARSE_MARKS]; /* a template that holds all of these is this format's */
    /* may open again later: its marks are no text anyone would write */
    bool anywhere;
    bool harmony; /* harmony.c reads it */
    bool frames;  /* content stands between drop[0] and drop[1] */
};

struct call_list;
struct call_reader; /* see below */
struct parser;

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
/* Puts out what of a body has come since the last time, value by value; last: the body is complete.
 * False: it is no call, or goes on as none. Called where a value may have ended, so that a text's
 * end is all that remains open. */
typedef bool body_emit(struct parser *p, struct bytes body, bool last);
/* Takes a call's id and name from what stands before its arguments; more: arguments follow. */
typedef bool head_read(struct bytes head, bool more, struct bytes *id, struct bytes *name);

/* Objects that are calls: {"name", "arguments"}; with the arguments required; {NAME:
 * {arguments}}. */
enum envelope { ENVELOPE_NONE, ENVELOPE_LOOSE, ENVELOPE_STRICT, ENVELOPE_KEYED };

/* Calls as elements, with values that are not quoted (markup.c). */
struct element_form {
    const char *may_begin;      /* before all, and may be absent; NULL: nothing */
    const char *before;         /* the name; NULL: nothing */
    const char *name_end;       /* NULL: the name ends where the first value's key begins */
    const char *name_end_too;   /* behind it, and perhaps an index; NULL: none */
    const char *open, *key_end; /* around a key */
    const char *value_open;     /* NULL: the value follows its key at once */
    const char *close;          /* behind a value */
    const char *end;            /* behind the last value; may be absent; NULL: none */
    bool has_attributes;        /* between a key and its value */
    bool may_miss_close;        /* a value may also end where the next key begins */
    bool mixed;                 /* a value of no declared type may be JSON */
    bool has_cdata;             /* a value may stand in <![CDATA[ ]]> */
    bool has_entities;          /* &quot; and &amp; in keys */
    /* a value begins and ends with its marks: no line end beside them is theirs */
    bool keeps_blanks;
    /* the model states each value's type, which goes before what is declared */
    bool states_types;
    /* a single value "arguments", "input" or "properties" may be all of the arguments */
    bool unwraps;
};

struct open_mark {
    const char *text;
    uint8_t keep;      /* bytes at its end that belong to the body */
    const char *close; /* in place of the format's */
    bool known_only;   /* the name must be a known tool's */
    bool start_only;   /* opens only where no content came before; known_only */
    bool needs_wrap;   /* opens only inside a wrap */
};

struct call_format {
    const char *names;
    /* around all calls; may be absent */
    const char *wrap_open[PARSE_MARKS], *wrap_close[PARSE_MARKS];
    struct open_mark open[PARSE_MARKS]; /* before each call */
    const char *close;                  /* behind each; NULL: none */
    /* a body that begins so is content; the prompt may end with the mark before it */
    const char *plain;
    const char *keeps; /* further special tokens that the body needs, separated by spaces */
    const char *signs[PARSE_MARKS];
    /* a call may come without the end of the reasoning; what is none leaves it open */
    bool ends_reasoning;
    bool harmony;
    enum body_end end;
    body_test *may_be; /* NULL: anything */
    /* How a body is read; which of them, its first byte tells (call.c). */
    enum envelope envelope;
    head_read *head;
    const struct element_form *elements;
    body_read *read;   /* whole */
    body_emit *stream; /* the same while it comes; NULL: not before its end */
    /* how a constraint has them written: the first where the vocabulary has this special token, if
     * one is named; else the others */
    const char *shape_token;
    const struct call_shape *shape_special, *shape, *shape_too;
};

enum { FORMATS_MAX = 128 };
extern const struct reasoning_format reasoning_formats[];
extern const size_t reasoning_format_count;
extern const struct call_format call_formats[];
extern const size_t call_format_count;

/* ---- reading a body ---- */

struct read_call {
    size_t id_at, id_len, name_at, name_len, arguments_at, arguments_len; /* in call_reader.made */
};

struct call_reader {
    const struct parse_tools *tools; /* NULL: unknown */
    struct buf made;
    VEC(struct read_call) calls;
};

/* Adds a call; arguments empty: "{}". False when the name is empty or the arguments are no JSON
 * object. */
MUST_CHECK bool read_add(struct call_reader *r, struct bytes id, struct bytes name,
                         struct bytes arguments);

/* An object, as an envelope says. */
bool read_json(struct call_reader *r, struct bytes object, enum envelope envelope);
/* True when the last byte of an object that is not complete opens the arguments of a call; its name
 * is appended. */
bool json_opens_arguments(struct bytes object, enum envelope envelope, struct buf *name);
bool read_python(struct call_reader *r, struct bytes body); /* [f(a=1), g()], f(a=1) */
bool read_gemma(struct call_reader *r, struct bytes body);  /* NAME{k:v} */
/* "NAME">, nested elements (nested.c) */
bool read_minimax(struct call_reader *r, struct bytes body);
head_read head_function; /* NAME> */
head_read head_deepseek; /* [function SEP] NAME SEP */
head_read head_kimi;     /* functions.NAME:0 MARK */
head_read head_line;     /* NAME, line end */
head_read head_mistral;  /* NAME[CALL_ID]id[ARGS] */
head_read head_solar;    /* ID MARK NAME MARK */
head_read head_plamo;    /* NAME MARK MARK */
body_emit emit_python, emit_gemma;
bool json_may_be(struct bytes body);
bool line_may_be(struct bytes body);
bool python_may_be(struct bytes body);
bool is_call_name(struct bytes s);
struct bytes strip_fence(struct bytes s);

/* ---- values ---- */

enum parse_type { TYPE_UNKNOWN, TYPE_STRING, TYPE_MIXED, TYPE_OTHER };
/* true when tools are unknown */
bool parse_tools_has(const struct parse_tools *t, struct bytes name);
/* Its parameters' schema; undefined or none: unknown. */
struct tvalue parse_tools_parameters(const struct parse_tools *t, struct bytes function);
/* false when unknown */
bool parse_tools_has_parameters(const struct parse_tools *t, struct bytes function);
bool parse_tools_has_parameter(const struct parse_tools *t, struct bytes function,
                               struct bytes parameter);
enum parse_type parse_tools_type(const struct parse_tools *t, struct bytes function,
                                 struct bytes parameter);
/* Appends an unquoted value as JSON, by its parameter's type. unknown: what to take TYPE_UNKNOWN
 * for. */
void add_typed(const struct parse_tools *t, struct bytes function, struct bytes parameter,
               enum parse_type unknown, struct bytes value, struct buf *out);
/* The same by a schema; a string when it says nothing. */
void add_of_schema(struct tvalue schema, struct bytes value, struct buf *out);
bool schema_has_string(struct tvalue schema);
/* The schema that a "$ref" inside of root means; of another schema, or where it leads nowhere:
 * the schema, or undefined. */
struct tvalue schema_resolve(struct tvalue root, struct tvalue schema);
void add_quoted(struct bytes text, struct buf *out);
bool json_is_value(struct bytes text);
bool json_is_object(struct bytes text);
/* Walks a body: moves behind what it takes, or returns false. */
struct walk {
    struct bytes rest;
};
bool walk_take(struct walk *w, const char *mark); /* blanks before it too */
/* Takes what comes before mark into *out, and mark; false, with nothing taken: it is not there. */
bool walk_until(struct walk *w, const char *mark, struct bytes *out);
/* Appends a Python literal at *at as JSON and moves *at behind it. */
MUST_CHECK bool python_literal(struct bytes text, size_t *at, struct buf *out);

/* ASCII white space. */
static inline bool is_blank(uint8_t c) {
    return c == ' ' || (c >= 9 && c <= 13);
}
/* s without blanks at both ends; borrowed. */
struct bytes strip_blank(struct bytes s);
/* Offset of what from `from` on; SIZE_MAX: it is not there. */
size_t find_bytes(struct bytes in, struct bytes what, size_t from);
/* An empty `with` begins every text. */
static inline bool begins_with(struct bytes s, struct bytes with) {
    return s.len >= with.len && !memcmp(s.data, with.data, with.len);
}
/* An empty `end` ends every text. */
static inline bool ends_with(struct bytes s, struct bytes end) {
    return s.len >= end.len && !memcmp(s.data + s.len - end.len, end.data, end.len);
}
/* s from offset at (<= s.len) on. */
static inline struct bytes bytes_from(struct bytes s, size_t at) {
    return bytes_of(s.data + at, s.len - at);
}

/* ---- putting out ---- */

/* Text of one channel on its way out: white space at its end is kept until more comes. */
struct outlet {
    enum parse_channel channel;
    struct buf space;
    bool skip; /* white space at its beginning is left out */
    bool hold; /* keep white space back */
};
/* Puts out text, and the white space kept before it; of its own the last is kept. */
void outlet_add(struct outlet *o, struct bytes text, const struct parse_sink *sink);
/* Puts out the white space kept, at the end of the channel. */
void outlet_flush(struct outlet *o, const struct parse_sink *sink);
/* Forgets the white space kept: it stood before a mark. */
static inline void outlet_drop_space(struct outlet *o) {
    buf_reset(&o->space);
}

struct harmony {
    enum { HARMONY_HEADER, HARMONY_BODY, HARMONY_BETWEEN } state;
    struct buf header, body; /* body: of a call, what has not gone out */
    bool begun, reasoned;
    bool called; /* the message is a call, and its beginning went out */
};

/* Where a call's text stands: brackets and quotes. */
struct tracker {
    uint32_t depth;
    uint8_t first; /* the first byte that is not blank; 0: none yet */
    uint8_t quote; /* 0: not in a string */
    bool escaped, started, complete;
};

/* Where a body_emit stands in its body, or a string in an element. */
struct script {
    size_t name_at, name_len;
    size_t at;   /* where the value begins that is being passed */
    size_t seen; /* bytes that were passed */
    bool in_call;
    bool closed; /* nothing may follow */
    uint8_t state;
    bool fresh;         /* nothing but blanks yet in this state */
    const char *quoted; /* the mark that ends the string */
    uint32_t depth;
    uint64_t lists;         /* bit d: what is open at depth d is a list */
    bool listed, separated; /* calls in brackets; a comma was behind the last */
    bool trims;             /* line ends beside the string are left out */
    bool escaped, triple;
    uint8_t quote;
};

/* What of a call's body was read and put out. */
struct body {
    enum body_kind { BODY_UNKNOWN, BODY_ENVELOPE, BODY_NAMED, BODY_STREAM, BODY_OTHER } kind;
    uint32_t put_count;       /* calls of it that went out */
    size_t done;              /* up to here it is in calls that went out */
    size_t sent;              /* of the arguments that are open: up to here they went out */
    size_t item_at;           /* where the object begins that may be a call */
    uint32_t inside;          /* the tracker's depth in the arguments that are open; 0: none are */
    uint8_t tries;            /* to find where the object's arguments begin */
    bool begun;               /* the call's beginning went out, its end did not */
    bool headed;              /* a head was looked for */
    bool elements;            /* elements were read: */
    bool broken;              /* and then something else came */
    size_t name_at, name_len; /* the name before the elements */
    struct script script;
};

struct parser {
    struct parse_config config;
    const struct parse_sink *sink; /* during a call */
    enum { PARSER_PLAIN, PARSER_REASONING, PARSER_CALL } state;
    enum { WRAP_NONE, WRAP_OPEN, WRAP_CALLED } wrap;
    bool prompted; /* the mark before the call stood in the prompt */
    bool begun;    /* content was put out, white space apart */
    bool reasoned; /* the reasoning has ended */
    bool thinking; /* it ended by the mark of a call, and goes on when that is none */
    uint32_t call_count, failures;
    bool firsts[256]; /* first bytes of all marks */
    struct buf held;  /* from `at` on: not decided yet; of a call: its body so far */
    size_t at;
    struct buf pending; /* an opened wrap and the white space behind it, before its first call */
    struct outlet reasoning, content;
    const struct open_mark *open; /* of the call */
    size_t seen;                  /* bytes of the body that the tracker has passed */
    struct tracker track;
    struct body body;
    struct call_reader reader;
    struct harmony harmony;
};

/* Whether a call of that name may be one. */
bool parser_may_call(const struct parser *p, struct bytes name);
/* Puts out the beginning of a call, or of the call that was begun more of its arguments: then the
 * name is empty. */
void parser_emit_call(struct parser *p, struct bytes id, struct bytes name, struct bytes arguments);
/* The next piece of the arguments of a call that is read value by value, with the name of the call
 * for the first. False: it may be none. */
MUST_CHECK bool parser_emit_arguments(struct parser *p, struct bytes name, struct bytes piece);
/* The same for a member of the object, or none; last: no more follow. */
MUST_CHECK bool parser_emit_field(struct parser *p, struct bytes name, struct bytes member,
                                  bool last);
/* Text that is no call after all. */
void parser_unread(struct parser *p, struct bytes text);
/* A wrap was opened and something else than a call follows: it was no wrap. */
void parser_drop_wrap(struct parser *p);
/* What was pushed and not decided yet. */
struct bytes parser_undecided(const struct parser *p);
/* Passes a call's body from p->seen on. False: more is needed. */
bool parser_run_call(struct parser *p, bool last);
/* Puts out what has come of a call's arguments since the last time; last: the body is complete.
 * False: it is no call, or goes on as none. */
bool read_elements(struct parser *p, struct bytes body, bool last);
/* A string value of an element goes out as it comes. The first sees whether one begins at the
 * body's end, then script.in_call is set; each further byte is passed; flush puts out what belongs
 * to the string for certain, last: all. */
void begin_string(struct parser *p, struct bytes body);
void pass_string(struct parser *p, struct bytes body);
void flush_string(struct parser *p, struct bytes body, bool last);
/* gpt-oss's format: takes what is held as far as it is certain; last: all. */
void harmony_run(struct parser *p, bool last);
/* Whether what comes now is reasoning. */
bool harmony_is_thinking(const struct parser *p);
/* Whether the parser's row is gpt-oss's. */
bool parser_is_harmony(const struct parser *p);

enum match { MATCH_NONE, MATCH_PARTIAL, MATCH_FULL };
enum match match_mark(struct bytes in, size_t at, const char *mark);

#endif
