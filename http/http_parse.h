/*
 * http_parse.h - an incremental parser of HTTP/1.1 requests on byte spans, without I/O.
 *
 * Fed with pieces of a byte stream it gives a fixed sequence of events: HEAD, BODY..., DONE, or
 * BAD. It is strict where leniency has been used to smuggle requests (RFC 9112 sections 2.2, 5.1,
 * 6.3, 7.1): CRLF only; no folding; no space before a colon; Content-Length once and of digits
 * only; Transfer-Encoding exactly "chunked", never together with Content-Length; one Host, which a target
 * in absolute form repeats. Chunk extensions and trailers are bounded and dropped.
 *
 * Invariants:
 *   (1) The events (with adjoining BODY pieces joined), status and text depend on the bytes alone,
 *       not on how they were cut.
 *   (2) No byte behind the end of the message is consumed.
 *   (3) Memory held is at most twice head_max_bytes plus 48 bytes a header; body bytes are never
 *       kept.
 *
 * Threading: none of its own.
 */
#ifndef HTTP_HTTP_PARSE_H
#define HTTP_HTTP_PARSE_H

#include "base/buf.h"
#include "base/vec.h"
#include "http/http_types.h"

enum {
    HTTP_CHUNK_EXTENSIONS_MAX = 4096, /* bytes of all extensions of one body */
    HTTP_TRAILERS_MAX = 8192,         /* bytes of all trailers of one body */
};

struct http_limits {
    uint32_t head_max_bytes;   /* request line and headers with their line ends: 431 */
    uint32_t target_max_bytes; /* 414 */
    uint32_t headers_max;      /* 431 */
    uint64_t body_max_bytes;   /* 413 */
};

enum http_parse_event {
    HTTP_PARSE_MORE, /* all input is consumed */
    HTTP_PARSE_HEAD, /* the fields below are set */
    HTTP_PARSE_BODY, /* *body is a piece of the body */
    HTTP_PARSE_DONE, /* the message is complete; stays until http_parser_reset */
    HTTP_PARSE_BAD,  /* status and text say why; stays */
};

struct http_field_at {
    uint32_t name, name_len, value, value_len; /* offsets in head */
};

struct http_parser {
    /* From HEAD until reset. Spans point into the parser. */
    enum http_method method;
    int version_minor;      /* 0 or 1 */
    struct bytes path;      /* decoded */
    uint32_t escaped_slash; /* see http_server.h */
    struct bytes query;     /* raw */
    bool keep_alive;        /* what the client wants */
    bool expect_continue;   /* the client waits for 100 before it sends the body */
    bool chunked;
    uint64_t length; /* Content-Length, 0 when absent or chunked */
    VEC(struct http_header) headers;
    /* From BAD on. */
    int status;
    const char *text; /* static, fit for a client */

    /* Private. */
    const struct http_limits *limits; /* borrowed */
    uint8_t state;
    bool saw_cr, close_wanted, keep_wanted, has_length;
    uint32_t seen;                     /* bit per single header */
    uint32_t line_start;               /* offset in head of the line being read */
    uint32_t head_bytes;               /* consumed so far, line ends included */
    uint32_t target_start, target_end; /* offsets of the target; 0 until it begins, ends */
    uint32_t path_at, path_len, query_at, query_len;
    uint32_t authority_at, authority_len; /* of a target in absolute form; else 0 */
    uint32_t digit_count, extension_bytes, trailer_bytes;
    uint64_t remaining;  /* of the body or the chunk */
    uint64_t body_bytes; /* so far */
    struct buf head;     /* lines of the head without line ends */
    VEC(struct http_field_at) fields;
};

/* Keeps limits. */
void http_parser_init(struct http_parser *p, const struct http_limits *limits);
/* Frees what it holds; spans of the last request are gone. */
void http_parser_release(struct http_parser *p);
/* Ready for the next message. Keeps small memory, returns large. */
void http_parser_reset(struct http_parser *p);
/* True before the first byte of a message (empty lines before it do not count). */
bool http_parser_at_start(const struct http_parser *p);
/* Consumes from the front of *in until there is something to tell. Never allocates past its
 * limits. */
MUST_CHECK enum http_parse_event http_parser_feed(struct http_parser *p, struct bytes *in,
                                                  struct bytes *body);

#endif
