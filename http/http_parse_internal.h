/*
 * http_parse_internal.h - what the two halves of the parser share: states and character classes.
 */
#ifndef HTTP_HTTP_PARSE_INTERNAL_H
#define HTTP_HTTP_PARSE_INTERNAL_H

#include "http/http_parse.h"

enum state {
    REQUEST_LINE,
    HEADER_LINE,
    HEAD_COMPLETE, /* HEAD is told next */
    LENGTH_DATA,
    CHUNK_SIZE,
    CHUNK_SPACE,
    CHUNK_EXTENSION,
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    TRAILER_START,
    TRAILER_NAME,
    TRAILER_VALUE,
    TRAILER_LF,
    TRAILER_END_LF,
    COMPLETE,
    BAD,
};

enum { CLASS_TOKEN = 1, CLASS_TEXT = 2, CLASS_TARGET = 4, CLASS_HOST = 8 };
extern const uint8_t http_classes[256];

/* tchar, RFC 9110 section 5.6.2 */
static inline bool http_is_token(uint8_t c) {
    return http_classes[c] & CLASS_TOKEN;
}
/* What may stand in a field value: HTAB, SP, VCHAR, obs-text (RFC 9110 section 5.5). */
static inline bool http_is_text(uint8_t c) {
    return http_classes[c] & CLASS_TEXT;
}

/* Moves to BAD with status and text (static). Returns HTTP_PARSE_BAD. */
enum http_parse_event http_parser_fail(struct http_parser *p, int status, const char *text);
/* Reads lines of the head until it is complete, bad, or *in is empty. */
void http_parser_head(struct http_parser *p, struct bytes *in);
/* One complete line, without its end. Move the state, or fail. */
void http_parser_request_line(struct http_parser *p, uint32_t begin, uint32_t end);
/* As above; a field is checked and kept. */
void http_parser_header_line(struct http_parser *p, uint32_t begin, uint32_t end);
/* The empty line: checks what headers must agree on, sets what HEAD tells. */
void http_parser_end_head(struct http_parser *p);
/* uri-host [ ":" port ], RFC 9110 section 7.2; not empty. */
bool http_host_valid(struct bytes host);

#endif
