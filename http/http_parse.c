/*
 * http_parse.c - the states of a message and what may stand in a line. The head's lines are read in
 * http_parse_head.c.
 */
#include "http/http_parse.h"

#include "base/utf8.h"

#include "http/http_parse_internal.h"

enum { HEAD_KEPT_BYTES = 4096 };

void http_parser_init(struct http_parser *p, const struct http_limits *limits) {
    memset(p, 0, sizeof *p);
    p->limits = limits;
    buf_init(&p->head, 0);
}

void http_parser_release(struct http_parser *p) {
    buf_release(&p->head);
    vec_release(&p->headers);
    vec_release(&p->fields);
}

void http_parser_reset(struct http_parser *p) {
    struct http_parser old = *p;
    http_parser_init(p, old.limits);
    if (old.head.cap > HEAD_KEPT_BYTES) {
        http_parser_release(&old);
        return;
    }
    p->head = old.head;
    p->headers.items = old.headers.items;
    p->headers.cap = old.headers.cap;
    p->fields.items = old.fields.items;
    p->fields.cap = old.fields.cap;
    buf_reset(&p->head);
}

bool http_parser_at_start(const struct http_parser *p) {
    return p->state == REQUEST_LINE && p->head.len == 0;
}

enum http_parse_event http_parser_fail(struct http_parser *p, int status, const char *text) {
    p->state = BAD;
    p->status = status;
    p->text = text;
    return HTTP_PARSE_BAD;
}

/* ---- body ---- */

static enum http_parse_event take_body(struct http_parser *p, struct bytes *in, struct bytes *body,
                                       enum state next) {
    size_t len = (size_t)MIN((uint64_t)in->len, p->remaining);
    *body = bytes_of(in->data, len);
    in->data += len;
    in->len -= len;
    p->remaining -= len;
    if (!p->remaining)
        p->state = (uint8_t)next;
    return HTTP_PARSE_BODY;
}

/* The line of a chunk's size has ended. */
static void begin_chunk(struct http_parser *p) {
    if (p->remaining > p->limits->body_max_bytes - p->body_bytes) {
        http_parser_fail(p, 413, "request body is too large");
        return;
    }
    p->body_bytes += p->remaining;
    p->state = p->remaining ? CHUNK_DATA : TRAILER_START;
}

static void chunk_size_byte(struct http_parser *p, uint8_t c) {
    int digit = hex_value(c);
    if (digit >= 0 && p->digit_count == 16)
        http_parser_fail(p, 400, "chunk size has too many digits");
    else if (digit >= 0) {
        p->remaining = p->remaining << 4 | (uint64_t)digit;
        p->digit_count++;
    } else if (!p->digit_count)
        http_parser_fail(p, 400, "bad chunk size");
    else if (c == '\r')
        p->state = CHUNK_SIZE_LF;
    else if (c == ';')
        p->state = CHUNK_EXTENSION;
    else if (c == ' ' || c == '\t')
        p->state = CHUNK_SPACE;
    else
        http_parser_fail(p, 400, "bad chunk size");
}

static void chunk_extension_byte(struct http_parser *p, uint8_t c) {
    if (c == '\r')
        p->state = CHUNK_SIZE_LF;
    else if (!http_is_text(c))
        http_parser_fail(p, 400, "control character in a chunk extension");
    else if (++p->extension_bytes > HTTP_CHUNK_EXTENSIONS_MAX)
        http_parser_fail(p, 400, "chunk extensions are too long");
}

/* White space behind the size is allowed only before an extension. */
static void chunk_space_byte(struct http_parser *p, uint8_t c) {
    if (c == ';')
        p->state = CHUNK_EXTENSION;
    else if (c != ' ' && c != '\t')
        http_parser_fail(p, 400, "bad chunk size");
    else if (++p->extension_bytes > HTTP_CHUNK_EXTENSIONS_MAX)
        http_parser_fail(p, 400, "chunk extensions are too long");
}

static void begin_size(struct http_parser *p) {
    p->state = CHUNK_SIZE;
    p->digit_count = 0;
    p->remaining = 0;
}

/* ---- trailers: checked like headers, then dropped ---- */

static void trailer_byte(struct http_parser *p, uint8_t c) {
    if (++p->trailer_bytes > HTTP_TRAILERS_MAX) {
        http_parser_fail(p, 431, "trailers are too long");
        return;
    }
    switch (p->state) {
    case TRAILER_START:
        if (c == '\r')
            p->state = TRAILER_END_LF;
        else if (http_is_token(c))
            p->state = TRAILER_NAME;
        else
            http_parser_fail(p, 400, "bad trailer name");
        break;
    case TRAILER_NAME:
        if (c == ':')
            p->state = TRAILER_VALUE;
        else if (!http_is_token(c))
            http_parser_fail(p, 400, "bad trailer name");
        break;
    case TRAILER_VALUE:
        if (c == '\r')
            p->state = TRAILER_LF;
        else if (!http_is_text(c))
            http_parser_fail(p, 400, "control character in a trailer");
        break;
    default: CHECK(!"trailer state");
    }
}

/* ---- the machine ---- */

static void line_feed(struct http_parser *p, uint8_t c) {
    if (c != '\n')
        http_parser_fail(p, 400, "bare carriage return");
    else if (p->state == CHUNK_SIZE_LF)
        begin_chunk(p);
    else if (p->state == CHUNK_DATA_LF)
        begin_size(p);
    else if (p->state == TRAILER_LF)
        p->state = TRAILER_START;
    else
        p->state = COMPLETE;
}

static void body_byte(struct http_parser *p, uint8_t c) {
    switch (p->state) {
    case CHUNK_SIZE: chunk_size_byte(p, c); break;
    case CHUNK_SPACE: chunk_space_byte(p, c); break;
    case CHUNK_EXTENSION: chunk_extension_byte(p, c); break;
    case CHUNK_DATA_CR:
        if (c == '\r')
            p->state = CHUNK_DATA_LF;
        else
            http_parser_fail(p, 400, "chunk is longer than its size");
        break;
    case CHUNK_SIZE_LF:
    case CHUNK_DATA_LF:
    case TRAILER_LF:
    case TRAILER_END_LF: line_feed(p, c); break;
    default: trailer_byte(p, c);
    }
}

static void begin_body(struct http_parser *p) {
    if (p->chunked)
        begin_size(p);
    else {
        p->remaining = p->body_bytes = p->length;
        p->state = p->length ? LENGTH_DATA : COMPLETE;
    }
}

enum http_parse_event http_parser_feed(struct http_parser *p, struct bytes *in,
                                       struct bytes *body) {
    *body = bytes_of(NULL, 0);
    for (;;) {
        if (p->state == BAD)
            return HTTP_PARSE_BAD;
        if (p->state == COMPLETE)
            return HTTP_PARSE_DONE;
        if (p->state == HEAD_COMPLETE) {
            begin_body(p);
            return HTTP_PARSE_HEAD;
        }
        if (!in->len)
            return HTTP_PARSE_MORE;
        if (p->state <= HEADER_LINE)
            http_parser_head(p, in);
        else if (p->state == LENGTH_DATA)
            return take_body(p, in, body, COMPLETE);
        else if (p->state == CHUNK_DATA)
            return take_body(p, in, body, CHUNK_DATA_CR);
        else {
            body_byte(p, *in->data);
            in->data++;
            in->len--;
        }
    }
}
