/*
 * http_parse_head.c - request line and header lines.
 */
#include "http/http_parse_internal.h"

#include "base/utf8.h"

#include <strings.h>

enum { METHOD_MAX_BYTES = 32 };

/* Bits of http_parse_internal.h by byte: 1 token, 2 text, 4 target, 8 host. */
const uint8_t http_classes[256] = {
    0,  0,  0,  0,  0,  0,  0,  0,  0,  2,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,
    0,  0,  0,  0,  0,  0,  0,  0,  2,  15, 6,  3,  15, 15, 15, 15, 14, 14, 15, 15, 14, 15, 15, 6,
    15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 6,  14, 6,  14, 6,  6,  6,  15, 15, 15, 15, 15, 15, 15,
    15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 6,  6,  6,  7,  15,
    7,  15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15,
    15, 15, 15, 6,  7,  6,  15, 0,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,
    2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,
    2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,
    2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,
    2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,
    2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,  2,
};

static struct bytes span(const struct http_parser *p, uint32_t begin, uint32_t end) {
    return bytes_of(p->head.data + begin, end - begin);
}

/* ---- bytes to lines ---- */

static void end_line(struct http_parser *p) {
    uint32_t begin = p->line_start, end = (uint32_t)p->head.len;
    p->line_start = end;
    if (p->head.failed)
        http_parser_fail(p, 503, "out of memory");
    else if (p->state == HEADER_LINE && begin == end)
        http_parser_end_head(p);
    else if (p->state == HEADER_LINE)
        http_parser_header_line(p, begin, end);
    else if (begin != end)
        http_parser_request_line(p, begin, end);
}

static bool in_target(const struct http_parser *p) {
    return p->state == REQUEST_LINE && p->target_start && !p->target_end;
}

static void too_long(struct http_parser *p) {
    if (in_target(p))
        http_parser_fail(p, 414, "request target is too long");
    else
        http_parser_fail(p, 431, "request head is too large");
}

/* A byte of the request line other than CR and LF. */
static void request_byte(struct http_parser *p, uint8_t c) {
    uint32_t at = (uint32_t)p->head.len;
    if (!p->target_start) {
        if (c == ' ' && at)
            p->target_start = at + 1;
        else if (!http_is_token(c) || at == METHOD_MAX_BYTES)
            http_parser_fail(p, 400, "bad method");
    } else if (c < 0x20 || c > 0x7e) {
        http_parser_fail(p, 400, "bad character in the request line");
    } else if (!p->target_end) {
        if (c == ' ')
            p->target_end = at;
        else if (at - p->target_start == p->limits->target_max_bytes)
            too_long(p);
    }
    buf_add_byte(&p->head, (char)c);
}

/* The bytes at the front that may simply be kept: text of a header line, as far as the limit
 * allows. */
static size_t text_run(const struct http_parser *p, struct bytes in) {
    size_t len = 0, max = MIN(in.len, (size_t)(p->limits->head_max_bytes - p->head_bytes));
    if (p->state != HEADER_LINE || p->saw_cr)
        return 0;
    while (len < max && http_is_text(in.data[len]))
        len++;
    return len;
}

static void head_byte(struct http_parser *p, uint8_t c) {
    if (p->head_bytes++ == p->limits->head_max_bytes) {
        too_long(p);
    } else if (p->saw_cr) {
        p->saw_cr = false;
        if (c == '\n')
            end_line(p);
        else
            http_parser_fail(p, 400, "bare carriage return");
    } else if (c == '\r')
        p->saw_cr = true;
    else if (c == '\n')
        http_parser_fail(p, 400, "bare line feed");
    else if (p->state == REQUEST_LINE)
        request_byte(p, c);
    else if (http_is_text(c))
        buf_add_byte(&p->head, (char)c);
    else
        http_parser_fail(p, 400, "control character in a header");
}

void http_parser_head(struct http_parser *p, struct bytes *in) {
    while (in->len && p->state <= HEADER_LINE) {
        size_t run = text_run(p, *in);
        if (run) {
            buf_add(&p->head, in->data, run);
            p->head_bytes += (uint32_t)run;
        } else {
            head_byte(p, *in->data);
            run = 1;
        }
        in->data += run;
        in->len -= run;
    }
}

/* ---- request line ---- */

static bool take_version(struct http_parser *p, struct bytes version) {
    const uint8_t *v = version.data;
    bool shaped = version.len == 8 && memcmp(v, "HTTP/", 5) == 0 && v[5] >= '0' && v[5] <= '9' &&
                  v[6] == '.' && v[7] >= '0' && v[7] <= '9';
    if (!shaped)
        return http_parser_fail(p, 400, "bad request line"), false;
    if (v[5] != '1' || v[7] > '1')
        return http_parser_fail(p, 505, "only HTTP/1.0 and HTTP/1.1 are served"), false;
    p->version_minor = v[7] - '0';
    return true;
}

static bool take_method(struct http_parser *p, struct bytes method) {
    for (int i = 0; i < HTTP_METHOD_COUNT; i++) {
        if (!bytes_equal(method, bytes_str(http_method_text((enum http_method)i))))
            continue;
        p->method = (enum http_method)i;
        return true;
    }
    if (bytes_equal(method, bytes_str("CONNECT")) || bytes_equal(method, bytes_str("TRACE")))
        http_parser_fail(p, 405, "method is not allowed");
    else
        http_parser_fail(p, 501, "method is not implemented");
    return false;
}

static bool starts_with(struct bytes s, const char *prefix) {
    size_t len = strlen(prefix);
    return s.len >= len && http_name_equal(bytes_of(s.data, len), prefix);
}

/* Absolute form: true when the authority is fine; *path is moved behind it (and may then be
 * empty). */
static bool take_authority(struct http_parser *p, struct bytes *path) {
    size_t scheme = starts_with(*path, "http://")    ? 7
                    : starts_with(*path, "https://") ? 8
                                                     : 0,
           end = scheme;
    while (end < path->len && path->data[end] != '/' && path->data[end] != '?')
        end++;
    if (!scheme || !http_host_valid(bytes_of(path->data + scheme, end - scheme)))
        return false;
    p->authority_at = (uint32_t)(path->data + scheme - (uint8_t *)p->head.data);
    p->authority_len = (uint32_t)(end - scheme);
    *path = bytes_of(path->data + end, path->len - end);
    return true;
}

/* Decodes %XX in place. False for bad escapes, control characters and what is not UTF-8. The first
 * byte is no escape: *escaped_slash is 0 when there is none. */
static bool unescape_path(uint8_t *path, uint32_t *len, uint32_t *escaped_slash) {
    uint32_t out = 0;
    *escaped_slash = 0;
    for (uint32_t at = 0; at < *len; at++) {
        int c = path[at];
        if (c == '%') {
            if (*len - at < 3)
                return false;
            int high = hex_value(path[at + 1]), low = hex_value(path[at + 2]);
            c = high < 0 || low < 0 ? -1 : high * 16 + low;
            at += 2;
            if (c == '/' && !*escaped_slash)
                *escaped_slash = out;
        }
        if (c < 0x20 || c == 0x7f)
            return false;
        path[out++] = (uint8_t)c;
    }
    *len = out;
    return utf8_valid(path, out);
}

static bool take_target(struct http_parser *p, struct bytes target) {
    struct bytes path = target;
    bool star = bytes_equal(target, bytes_str("*"));
    for (size_t i = 0; i < target.len; i++)
        if (!(http_classes[target.data[i]] & CLASS_TARGET))
            return false;
    if (star && p->method != HTTP_OPTIONS)
        return false;
    if (!star && (!target.len || target.data[0] != '/') && !take_authority(p, &path))
        return false;
    const uint8_t *mark = path.len ? memchr(path.data, '?', path.len) : NULL;
    p->path_at = (uint32_t)(path.data - (uint8_t *)p->head.data);
    p->path_len = (uint32_t)(mark ? (size_t)(mark - path.data) : path.len);
    p->query_at = p->path_at + p->path_len + (mark != NULL);
    p->query_len = (uint32_t)(path.len - p->path_len - (mark != NULL));
    return unescape_path((uint8_t *)p->head.data + p->path_at, &p->path_len, &p->escaped_slash);
}

void http_parser_request_line(struct http_parser *p, uint32_t begin, uint32_t end) {
    if (!p->target_start || !p->target_end) {
        http_parser_fail(p, 400, "bad request line");
        return;
    }
    if (!take_version(p, span(p, p->target_end + 1, end)))
        return;
    if (!take_method(p, span(p, begin, p->target_start - 1)))
        return;
    if (take_target(p, span(p, p->target_start, p->target_end)))
        p->state = HEADER_LINE;
    else
        http_parser_fail(p, 400, "bad request target");
}

/* ---- header lines ---- */

bool http_host_valid(struct bytes host) {
    size_t at = 0;
    if (host.len && host.data[0] == '[') {
        for (at = 1; at < host.len && host.data[at] != ']'; at++) {
            uint8_t c = host.data[at];
            if (hex_value(c) < 0 && c != ':' && c != '.')
                return false;
        }
        if (at < 3 || at++ == host.len)
            return false;
    } else {
        while (at < host.len && http_classes[host.data[at]] & CLASS_HOST)
            at++;
    }
    if (!at)
        return false;
    if (at < host.len && host.data[at++] != ':')
        return false;
    for (; at < host.len; at++)
        if (host.data[at] < '0' || host.data[at] > '9')
            return false;
    return true;
}

/* Who checks hosts looks at the header, and RFC 9112 (section 3.2.2) at the target: they must agree. */
static bool same_host(const struct http_parser *p, struct bytes host) {
    const char *authority = p->head.data + p->authority_at;
    return host.len == p->authority_len &&
           strncasecmp(authority, (const char *)host.data, host.len) == 0;
}

static void take_host(struct http_parser *p, struct bytes value) {
    if (!http_host_valid(value))
        http_parser_fail(p, 400, "bad Host header");
    else if (p->authority_len && !same_host(p, value))
        http_parser_fail(p, 400, "Host header and request target name different hosts");
}

static void take_length(struct http_parser *p, struct bytes value) {
    uint64_t length = 0;
    bool fits = true;
    for (size_t i = 0; i < value.len; i++) {
        if (value.data[i] < '0' || value.data[i] > '9')
            value.len = 0;
        else
            fits = fits && mul_ok(length, 10, &length) &&
                   add_ok(length, (uint64_t)(value.data[i] - '0'), &length);
    }
    p->length = fits ? length : UINT64_MAX;
    p->has_length = true;
    if (!value.len)
        http_parser_fail(p, 400, "bad Content-Length header");
}

static void take_coding(struct http_parser *p, struct bytes value) {
    p->chunked = http_name_equal(value, "chunked");
    if (!p->chunked)
        http_parser_fail(p, 501, "only the transfer coding \"chunked\" is implemented");
}

static void take_expect(struct http_parser *p, struct bytes value) {
    if (p->version_minor == 0)
        return;
    p->expect_continue = http_name_equal(value, "100-continue");
    if (!p->expect_continue)
        http_parser_fail(p, 417, "only the expectation \"100-continue\" is known");
}

static void take_connection(struct http_parser *p, struct bytes value) {
    p->close_wanted |= http_list_has(value, "close");
    p->keep_wanted |= http_list_has(value, "keep-alive");
}

/* Headers that mean something to the framing, and those that must not be repeated (more than one
 * meaning is an attack). */
static const struct special {
    const char *name;
    bool single;
    void (*take)(struct http_parser *p, struct bytes value);
} specials[] = {
    {"Host", true, take_host},
    {"Content-Length", true, take_length},
    {"Transfer-Encoding", true, take_coding},
    {"Expect", true, take_expect},
    {"Connection", false, take_connection},
    {"Content-Type", true, NULL},
    {"Authorization", true, NULL},
    {"X-Api-Key", true, NULL},
    {"Origin", true, NULL},
};
enum { SPECIAL_HOST_BIT = 1, SPECIAL_CODING_BIT = 4 };

static void take_special(struct http_parser *p, struct bytes name, struct bytes value) {
    for (size_t i = 0; i < ARRAY_LEN(specials); i++) {
        if (!http_name_equal(name, specials[i].name))
            continue;
        if (specials[i].single && p->seen >> i & 1) {
            http_parser_fail(p, 400, "repeated header");
            return;
        }
        p->seen |= 1u << i;
        if (specials[i].take)
            specials[i].take(p, value);
        return;
    }
}

static bool is_blank(uint8_t c) {
    return c == ' ' || c == '\t';
}

void http_parser_header_line(struct http_parser *p, uint32_t begin, uint32_t end) {
    const uint8_t *line = (const uint8_t *)p->head.data;
    uint32_t colon = begin, value;
    while (colon < end && http_is_token(line[colon]))
        colon++;
    value = colon + 1;
    if (is_blank(line[begin]))
        http_parser_fail(p, 400, "folded header line");
    else if (colon == begin || colon == end || line[colon] != ':')
        http_parser_fail(p, 400, "bad header name");
    else if (p->fields.count == p->limits->headers_max)
        http_parser_fail(p, 431, "too many headers");
    if (p->state == BAD)
        return;
    while (value < end && is_blank(line[value]))
        value++;
    while (end > value && is_blank(line[end - 1]))
        end--;
    struct http_field_at field = {begin, colon - begin, value, end - value};
    vec_push(&p->fields, field);
    take_special(p, span(p, begin, colon), span(p, value, end));
}

/* ---- end of the head ---- */

static bool framing_sound(struct http_parser *p) {
    bool host = p->seen & SPECIAL_HOST_BIT, coding = p->seen & SPECIAL_CODING_BIT;
    if (p->version_minor == 1 && !host)
        http_parser_fail(p, 400, "Host header is missing");
    else if (coding && p->has_length)
        http_parser_fail(p, 400, "both Transfer-Encoding and Content-Length");
    else if (coding && p->version_minor == 0)
        http_parser_fail(p, 400, "Transfer-Encoding in HTTP/1.0");
    else if (p->length > p->limits->body_max_bytes)
        http_parser_fail(p, 413, "request body is too large");
    return p->state != BAD;
}

/* Offsets become spans: from here on the buffer does not move. */
static void resolve(struct http_parser *p) {
    static const uint8_t slash[] = "/";
    const uint8_t *head = (const uint8_t *)p->head.data;
    vec_reserve(&p->headers, p->fields.count);
    for (size_t i = 0; i < p->fields.count; i++) {
        struct http_field_at at = p->fields.items[i];
        p->headers.items[i].name = bytes_of(head + at.name, at.name_len);
        p->headers.items[i].value = bytes_of(head + at.value, at.value_len);
    }
    p->headers.count = p->fields.count;
    p->path = p->path_len ? bytes_of(head + p->path_at, p->path_len) : bytes_of(slash, 1);
    p->query = bytes_of(head + p->query_at, p->query_len);
}

void http_parser_end_head(struct http_parser *p) {
    resolve(p); /* first: what is refused has its fields, too */
    if (!framing_sound(p))
        return;
    p->keep_alive = !p->close_wanted && (p->version_minor == 1 || p->keep_wanted);
    p->state = HEAD_COMPLETE;
}
