/*
 * parse.h - what a model writes, taken apart while it comes: reasoning, content, tool calls.
 *
 * A *format* is a table row (table.c): the marks that open and close reasoning or a tool call, and
 * how to read what lies between. Rows are found by name (--reasoning-parser, --tool-call-parser;
 * the names other servers use are aliases) or by the model's chat template, which shows the marks
 * its model was trained with.
 *
 * A tool call is put out as soon as its name is known and its arguments begin, then its arguments
 * as they come: JSON as it is written, other notations value by value, strings of elements as they
 * come, and what only its end makes certain (nested.c) in one piece. What looked like a call and is
 * none becomes content, mark and all. Once a call has begun that is too late: arguments that break
 * off or are no JSON are put out as far as they came. An answer that is read whole need not accept
 * that: with complete_calls a call is put out when it is complete and well formed, in one piece.
 *
 * Invariants, for any bytes the model may write:
 *   (1) The texts put out for one channel, joined, and the list of calls, their arguments joined,
 *       depend on the text alone, not on how it was cut into pieces.
 *   (2) A call's name is not empty. With complete_calls its arguments are one JSON object; without,
 *       they are the same text wherever they are one.
 *   (3) Every byte is reasoning, content, or belongs to a call; but for marks, and white space
 *       beside them.
 *   (4) Work is linear in the text (PARSE_FAILURES_MAX bounds how often a broken call is looked at
 *       again).
 *
 * Threading: formats and tools are const; a parser belongs to one thread.
 */
#ifndef TEXT_PARSE_PARSE_H
#define TEXT_PARSE_PARSE_H

#include "base/buf.h"
#include "base/error.h"

/* After so many broken calls the rest of a text is taken as content. */
enum { PARSE_FAILURES_MAX = 16 };

struct reasoning_format;
struct call_format;

/* ---- which formats ---- */

/* A row by its name or an alias; NULL: there is none. */
const struct reasoning_format *reasoning_format_find(struct bytes name);
/* The same for calls. */
const struct call_format *call_format_find(struct bytes name);
/* The row whose marks a chat template's source shows; NULL: none. */
const struct reasoning_format *reasoning_format_of_template(struct bytes source);
/* The same for calls. */
const struct call_format *call_format_of_template(struct bytes source);
/* Names for logs and errors; "none" for NULL. */
const char *reasoning_format_name(const struct reasoning_format *f);
/* The same for calls. */
const char *call_format_name(const struct call_format *f);
/* Appends all names, comma-separated. */
void reasoning_format_names(struct buf *out);
/* The same for calls. */
void call_format_names(struct buf *out);
/* True when a rendered prompt has opened the reasoning itself, so that the answer begins inside
 * it. */
bool reasoning_is_open(const struct reasoning_format *f, struct bytes prompt);

/* True when it has ended with the mark before a call. */
bool call_is_open(const struct call_format *f, struct bytes prompt);
/* True when content has marks too, so that an answer is taken apart although there are no tools. */
bool call_format_frames_content(const struct call_format *f);

/* ---- how a constraint writes them ---- */

/* The marks around what a model thinks, and around content (empty: it stands by itself). */
struct reasoning_marks {
    const char *open, *close;
    const char *content_open, *content_close;
};
/* f NULL: all are empty. */
struct reasoning_marks reasoning_format_marks(const struct reasoning_format *f);

/* In a text of a shape: a number that the model counts, and an id of its own. */
#define SHAPE_NUMBER "\1"
#define SHAPE_ID     "\2"

/* Arguments as elements: before NAME middle VALUE after, separator, the next one. A value that is a
 * string stands bare between text_middle and after. */
struct argument_shape {
    const char *before, *middle;
    const char *text_middle; /* NULL: as middle */
    const char *type_end;    /* behind the type that stands after middle; NULL: none does */
    const char *after;
    const char *after_end; /* behind the name, which stands after `after` again; NULL: not */
    const char *separator; /* NULL: nothing */
    const char *quote;     /* on both sides of a bare string; NULL: nothing */
    const char *stops[3];  /* what no bare string holds; none: strings are JSON's */
    bool nested;           /* objects within values are written so too */
    bool python;           /* names and words are Python's */
    bool trusts_types;     /* the type that stands there says what a value is */
    bool trims;            /* a line end at a bare string's edge is not its own */
};
/* Calls as the model writes them: begin, before NAME between ARGUMENTS after, separator, the next
 * call, and end. Names stand as they are. */
struct call_shape {
    const char *begin, *before, *between, *after;
    const char *separator; /* NULL: one call only */
    const char *end;
    const struct argument_shape *arguments; /* NULL: JSON */
};
enum { CALL_SHAPES = 2 };
/* The ways in which a row's calls are written, which a model picks from; returns how many. Where
 * the vocabulary decides it, there is one. */
struct tokenizer;
size_t call_format_shapes(const struct call_format *f, const struct tokenizer *t,
                          const struct call_shape **out);
/* What opens a call, or what stands around calls. */
struct call_mark {
    const char *text;
    bool start_only; /* it does so at the beginning of an answer alone */
};
enum { CALL_MARKS_MAX = 16 };
/* Fills out [CALL_MARKS_MAX] with the marks of a row (NULL: none); returns how many. */
size_t call_format_marks(const struct call_format *f, struct call_mark *out);
/* Where call_is_open: the mark that the prompt ends with, and what content begins with then. */
const char *call_format_open_mark(const struct call_format *f, const char **plain);

/* ---- the tools of a request ---- */

/* Names and parameter types, for the formats that write values without quotes. */
struct parse_tools;
/* tools: OpenAI's JSON array. What is no tool in it is passed over; ERR_INVALID when it is no JSON
 * array. Returns owned. */
MUST_CHECK int parse_tools_new(struct bytes tools, struct parse_tools **out, struct error *err);
/* Frees *tools and clears it; NULL: nothing. */
void parse_tools_free(struct parse_tools **tools);

/* ---- the parser ---- */

enum parse_channel { PARSE_REASONING, PARSE_CONTENT };

/* The beginning of a call, or more of the last one's arguments. */
struct parse_call {
    uint32_t index;         /* 0, 1, ... in the answer */
    struct bytes id;        /* as the model gave it; empty: it gave none, or it is more of a call */
    struct bytes name;      /* valid UTF-8 when the text is; empty: it is more of the last call */
    struct bytes arguments; /* the next piece of a JSON object; may be empty where a call begins */
};

/* Spans are valid during the call. */
struct parse_sink {
    void (*text)(void *ctx, enum parse_channel channel, struct bytes text);
    void (*call)(void *ctx, const struct parse_call *call);
    void *ctx;
};

struct parse_config {
    const struct reasoning_format *reasoning; /* NULL: none */
    const struct call_format *calls;          /* NULL: none (no tools, or tool_choice "none") */
    const struct parse_tools *tools;          /* borrowed while the parser lives; NULL: unknown */
    bool in_reasoning;                        /* reasoning_is_open */
    bool in_call;                             /* call_is_open */
    bool complete_calls;                      /* put calls out when they are complete */
};

struct parser;
/* A parser for one answer. Borrows what config points to until parser_free. */
struct parser *parser_new(const struct parse_config *config);
/* Frees *p and clears it; NULL: nothing. */
void parser_free(struct parser **p);
/* The next piece of text, of any length (also parts of a character). */
void parser_push(struct parser *p, struct bytes text, const struct parse_sink *sink);
/* The text is complete: what was held back comes out. */
void parser_end(struct parser *p, const struct parse_sink *sink);
/* Calls put out so far, or begun. */
uint32_t parser_call_count(const struct parser *p);
/* True while what comes is reasoning. */
bool parser_is_thinking(const struct parser *p);
/* True when a special token of this text means something to the formats, so it must reach the
 * parser although special tokens are left out of the answer. */
bool parse_wants_token(const struct parse_config *config, struct bytes token);

#endif
