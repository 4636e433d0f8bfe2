/*
 * test_parse.c - the framing corpus: what is a request, what is refused and with which status; and
 * that cuts change nothing.
 *
 * Compared with nginx 1.22.1 as an oracle: what it refuses we refuse, but for two that the RFC
 * allows ("OPTIONS *", tabs around a value); where it is lenient (several spaces, bare LF, broken
 * trailers, unknown methods, ...) we are not.
 */
#include "check.h"

#include "base/buf.h"
#include "http/http_parse.h"
#include "http/http_server.h"

#include <stdio.h>
#include <stdlib.h>

static const struct http_limits limits = {
    .head_max_bytes = 1024, .target_max_bytes = 256, .headers_max = 8, .body_max_bytes = 64};

/* Events of a whole stream of messages as text: "POST /p ?q 1.1 ka [body] | 400". "..." when more
 * input is wanted inside a message. */
static void add_head(struct buf *out, const struct http_parser *p) {
    buf_addf(out, "%s ", http_method_text(p->method));
    buf_add_bytes(out, p->path);
    if (p->escaped_slash)
        buf_addf(out, "@%u", p->escaped_slash);
    if (p->query.len)
        buf_add_byte(out, '?');
    buf_add_bytes(out, p->query);
    buf_addf(out, " 1.%d%s%s [", p->version_minor, p->keep_alive ? " ka" : "",
             p->expect_continue ? " 100" : "");
}

struct runner {
    struct http_parser parser;
    struct buf out;
    bool in_body, bad;
};

static void feed(struct runner *r, struct bytes in) {
    while (!r->bad) {
        struct bytes body;
        switch (http_parser_feed(&r->parser, &in, &body)) {
        case HTTP_PARSE_MORE: return;
        case HTTP_PARSE_HEAD:
            if (r->out.len)
                buf_add_str(&r->out, " | ");
            add_head(&r->out, &r->parser);
            r->in_body = true;
            break;
        case HTTP_PARSE_BODY: buf_add_bytes(&r->out, body); break;
        case HTTP_PARSE_DONE:
            buf_add_byte(&r->out, ']');
            http_parser_reset(&r->parser);
            r->in_body = false;
            if (!in.len)
                return;
            break;
        case HTTP_PARSE_BAD:
            if (r->out.len)
                buf_add_str(&r->out, " | ");
            buf_addf(&r->out, "%d", r->parser.status);
            r->bad = true;
        }
    }
}

static void runner_init(struct runner *r) {
    memset(r, 0, sizeof *r);
    http_parser_init(&r->parser, &limits);
    buf_init(&r->out, 0);
}
static void runner_end(struct runner *r) {
    if (!r->bad && (r->in_body || !http_parser_at_start(&r->parser)))
        buf_add_str(&r->out, "...");
}
static void runner_release(struct runner *r) {
    http_parser_release(&r->parser);
    buf_release(&r->out);
}

#define H       "Host: a\r\n"
#define CHUNKED "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"

struct framing_case {
    const char *name, *input;
    size_t len;
    const char *want;
};
#define CASE(name, input, want)                                                                    \
    { name, input, sizeof(input) - 1, want }

static const struct framing_case cases[] = {
    /* request lines */
    CASE("plain", "GET / HTTP/1.1\r\n" H "\r\n", "GET / 1.1 ka []"),
    CASE("path and query", "GET /a/b?x=1&y HTTP/1.1\r\n" H "\r\n", "GET /a/b?x=1&y 1.1 ka []"),
    CASE("empty query", "GET /a? HTTP/1.1\r\n" H "\r\n", "GET /a 1.1 ka []"),
    CASE("second question mark", "GET /a?b?c HTTP/1.1\r\n" H "\r\n", "GET /a?b?c 1.1 ka []"),
    CASE("version 1.0", "GET / HTTP/1.0\r\n\r\n", "GET / 1.0 []"),
    CASE("1.0 keep-alive", "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "GET / 1.0 ka []"),
    CASE("two lists of connections",
         "GET / HTTP/1.1\r\n" H "Connection: close\r\nConnection: x\r\n\r\n", "GET / 1.1 []"),
    CASE("two lists of connections, 1.0",
         "GET / HTTP/1.0\r\nConnection: keep-alive\r\nConnection: x\r\n\r\n", "GET / 1.0 ka []"),
    CASE("the last byte of a path", "GET /%7e HTTP/1.1\r\n" H "\r\n", "GET /~ 1.1 ka []"),
    CASE("one behind the last byte of a path", "GET /%7f HTTP/1.1\r\n" H "\r\n", "400"),
    CASE("the first byte of a path", "GET /%20 HTTP/1.1\r\n" H "\r\n", "GET /  1.1 ka []"),
    CASE("one before the first byte of a path", "GET /%1f HTTP/1.1\r\n" H "\r\n", "400"),
    CASE("leading empty line", "\r\nGET / HTTP/1.1\r\n" H "\r\n", "GET / 1.1 ka []"),
    CASE("several leading empty lines", "\r\n\r\n\r\nGET / HTTP/1.1\r\n" H "\r\n",
         "GET / 1.1 ka []"),
    CASE("leading bare LF", "\nGET / HTTP/1.1\r\n" H "\r\n", "400"),
    CASE("leading space", " GET / HTTP/1.1\r\n" H "\r\n", "400"),
    CASE("two spaces before the target", "GET  / HTTP/1.1\r\n" H "\r\n", "400"),
    CASE("two spaces before the version", "GET /  HTTP/1.1\r\n" H "\r\n", "400"),
    CASE("space behind the version", "GET / HTTP/1.1 \r\n" H "\r\n", "400"),
    CASE("tab for a space", "GET\t/ HTTP/1.1\r\n" H "\r\n", "400"),
    CASE("tab in the target", "GET /a\tb HTTP/1.1\r\n" H "\r\n", "400"),
    CASE("space in the target", "GET /a b HTTP/1.1\r\n" H "\r\n", "400"),
    CASE("no version", "GET /\r\n\r\n", "400"),
    CASE("no target", "GET\r\n\r\n", "400"),
    CASE("no target, with a space", "GET \r\n\r\n", "400"),
    CASE("empty target", "GET  HTTP/1.1\r\n" H "\r\n", "400"),
    CASE("lower-case protocol", "GET / http/1.1\r\n" H "\r\n", "400"),
    CASE("other protocol", "GET / ICAP/1.0\r\n" H "\r\n", "400"),
    CASE("version 2.0", "GET / HTTP/2.0\r\n" H "\r\n", "505"),
    CASE("version 1.2", "GET / HTTP/1.2\r\n" H "\r\n", "505"),
    CASE("version 0.9", "GET / HTTP/0.9\r\n" H "\r\n", "505"),
    CASE("version 1.10", "GET / HTTP/1.10\r\n" H "\r\n", "400"),
    CASE("version 1", "GET / HTTP/1\r\n" H "\r\n", "400"),
    CASE("version 1.", "GET / HTTP/1.\r\n" H "\r\n", "400"),
    CASE("version 01.1", "GET / HTTP/01.1\r\n" H "\r\n", "400"),
    CASE("HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505"),
    CASE("TLS hello", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "400"),
    CASE("unknown method", "BREW / HTTP/1.1\r\n" H "\r\n", "501"),
    CASE("lower-case method", "get / HTTP/1.1\r\n" H "\r\n", "501"),
    CASE("method with a colon", "GE:T / HTTP/1.1\r\n" H "\r\n", "400"),
    CASE("method with a control byte", "GE\x01T / HTTP/1.1\r\n" H "\r\n", "400"),
    CASE("method with a high byte", "G\xc3\x89T / HTTP/1.1\r\n" H "\r\n", "400"),
    CASE("method too long", "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJ / HTTP/1.1\r\n" H "\r\n", "400"),
    CASE("CONNECT", "CONNECT a:443 HTTP/1.1\r\n" H "\r\n", "405"),
    CASE("TRACE", "TRACE / HTTP/1.1\r\n" H "\r\n", "405"),
    CASE("HEAD", "HEAD / HTTP/1.1\r\n" H "\r\n", "HEAD / 1.1 ka []"),
    CASE("DELETE", "DELETE /x HTTP/1.1\r\n" H "\r\n", "DELETE /x 1.1 ka []"),
    CASE("OPTIONS star", "OPTIONS * HTTP/1.1\r\n" H "\r\n", "OPTIONS * 1.1 ka []"),
    CASE("GET star", "GET * HTTP/1.1\r\n" H "\r\n", "400"),
    CASE("absolute form", "GET http://a/b?c HTTP/1.1\r\n" H "\r\n", "GET /b?c 1.1 ka []"),
    CASE("absolute form, upper case", "GET HTTP://A/b HTTP/1.1\r\n" H "\r\n", "GET /b 1.1 ka []"),
    CASE("absolute form, another host", "GET http://ab/b HTTP/1.1\r\n" H "\r\n", "400"),
    CASE("absolute form, another port", "GET http://a:80/b HTTP/1.1\r\n" H "\r\n", "400"),
    CASE("absolute form, 1.0 without Host", "GET http://a/b HTTP/1.0\r\n\r\n", "GET /b 1.0 []"),
    CASE("absolute form without a path", "GET https://a HTTP/1.1\r\n" H "\r\n", "GET / 1.1 ka []"),
    CASE("absolute form, query only", "GET http://a?q HTTP/1.1\r\n" H "\r\n", "GET /?q 1.1 ka []"),
    CASE("absolute form, IPv6", "GET http://[::1]:8/b HTTP/1.1\r\nHost: [::1]:8\r\n\r\n",
         "GET /b 1.1 ka []"),
    CASE("absolute form, address that does not end", "GET http://[::1/b HTTP/1.1\r\n" H "\r\n",
         "400"),
    CASE("Host address that does not end", "GET / HTTP/1.1\r\nHost: [::1\r\nAccept: x\r\n\r\n",
         "400"),
    CASE("Host address that does not end, where a longer head lay",
         "GET / HTTP/1.1\r\n" H "X: aaaaaaaaaaaaaaaaaaaaaaaa\r\n\r\n"
         "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n",
         "GET / 1.1 ka [] | 400"),
    CASE("Host address that ends", "GET / HTTP/1.1\r\nHost: [::1]\r\nAccept: x\r\n\r\n",
         "GET / 1.1 ka []"),
    CASE("Host address of one digit", "GET / HTTP/1.1\r\nHost: [:]\r\n\r\n", "400"),
    CASE("Host address of two", "GET / HTTP/1.1\r\nHost: [::]\r\n\r\n", "GET / 1.1 ka []"),
    CASE("absolute form, user", "GET http://u@a/b HTTP/1.1\r\n" H "\r\n", "400"),
    CASE("absolute form, no host", "GET http:///b HTTP/1.1\r\n" H "\r\n", "400"),
    CASE("absolute form, other scheme", "GET ftp://a/b HTTP/1.1\r\n" H "\r\n", "400"),
    CASE("authority form for GET", "GET a:80 HTTP/1.1\r\n" H "\r\n", "400"),
    CASE("relative path", "GET a/b HTTP/1.1\r\n" H "\r\n", "400"),
    CASE("fragment", "GET /a#b HTTP/1.1\r\n" H "\r\n", "400"),
    CASE("zero byte in the target", "GET /a\0b HTTP/1.1\r\n" H "\r\n", "400"),
    CASE("escaped zero byte", "GET /a%00b HTTP/1.1\r\n" H "\r\n", "400"),
    CASE("escaped line feed", "GET /a%0ab HTTP/1.1\r\n" H "\r\n", "400"),
    CASE("escape decoded", "GET /%76%31 HTTP/1.1\r\n" H "\r\n", "GET /v1 1.1 ka []"),
    CASE("escaped slash", "GET /a%2Fb HTTP/1.1\r\n" H "\r\n", "GET /a/b@2 1.1 ka []"),
    CASE("escaped slashes", "GET /a/%2f%2F?%2f HTTP/1.1\r\n" H "\r\n", "GET /a///@3?%2f 1.1 ka []"),
    CASE("escaped slash at first", "GET /%2F HTTP/1.1\r\n" H "\r\n", "GET //@1 1.1 ka []"),
    CASE("escaped slash behind a host", "GET http://a/b%2f HTTP/1.1\r\n" H "\r\n",
         "GET /b/@2 1.1 ka []"),
    CASE("escaped percent of a slash", "GET /a%252Fb HTTP/1.1\r\n" H "\r\n",
         "GET /a%2Fb 1.1 ka []"),
    CASE("escaped slash of the request before",
         "GET /%2F HTTP/1.1\r\n" H "\r\nGET /a/b HTTP/1.1\r\n" H "\r\n",
         "GET //@1 1.1 ka [] | GET /a/b 1.1 ka []"),
    CASE("escape for the first slash", "GET %2Fa HTTP/1.1\r\n" H "\r\n", "400"),
    CASE("escape cut short", "GET /a%4 HTTP/1.1\r\n" H "\r\n", "400"),
    CASE("escape without digits", "GET /a%zz HTTP/1.1\r\n" H "\r\n", "400"),
    CASE("escaped UTF-8", "GET /%c3%a9 HTTP/1.1\r\n" H "\r\n", "GET /\xc3\xa9 1.1 ka []"),
    CASE("escaped bad UTF-8", "GET /%c3 HTTP/1.1\r\n" H "\r\n", "400"),
    CASE("high byte in the target", "GET /\xc3\xa9 HTTP/1.1\r\n" H "\r\n", "400"),
    CASE("delete byte in the target", "GET /\x7f HTTP/1.1\r\n" H "\r\n", "400"),
    /* line ends */
    CASE("bare LF behind the request line", "GET / HTTP/1.1\n" H "\r\n", "400"),
    CASE("bare LF behind a header", "GET / HTTP/1.1\r\nHost: a\n\r\n", "400"),
    CASE("bare LF ends the head", "GET / HTTP/1.1\r\n" H "\n", "400"),
    CASE("bare CR behind the request line", "GET / HTTP/1.1\r" H "\r\n", "400"),
    CASE("bare CR in a value", "GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n", "400"),
    CASE("CR CR LF", "GET / HTTP/1.1\r\r\n" H "\r\n", "400"),
    CASE("bare CR ends the head", "GET / HTTP/1.1\r\n" H "\rX", "400"),
    /* headers */
    CASE("no space behind the colon", "GET / HTTP/1.1\r\nHost:a\r\n\r\n", "GET / 1.1 ka []"),
    CASE("tabs around a value", "GET / HTTP/1.1\r\nHost:\t a \t\r\n\r\n", "GET / 1.1 ka []"),
    CASE("empty value", "GET / HTTP/1.1\r\n" H "X:\r\n\r\n", "GET / 1.1 ka []"),
    CASE("high bytes in a value", "GET / HTTP/1.1\r\n" H "X: \xc3\xa9\xff\r\n\r\n",
         "GET / 1.1 ka []"),
    CASE("odd token name", "GET / HTTP/1.1\r\n" H "!#$%&'*+-.^_`|~: 1\r\n\r\n", "GET / 1.1 ka []"),
    CASE("space before the colon", "GET / HTTP/1.1\r\nHost : a\r\n\r\n", "400"),
    CASE("length, space before the colon", "POST / HTTP/1.1\r\n" H "Content-Length : 2\r\n\r\nab",
         "400"),
    CASE("tab before the colon", "GET / HTTP/1.1\r\n" H "X\t: a\r\n\r\n", "400"),
    CASE("folded line", "GET / HTTP/1.1\r\n" H "X: a\r\n b\r\n\r\n", "400"),
    CASE("folded line with a tab", "GET / HTTP/1.1\r\n" H "X: a\r\n\tb\r\n\r\n", "400"),
    CASE("first header folded", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", "400"),
    CASE("no colon", "GET / HTTP/1.1\r\n" H "Nonsense\r\n\r\n", "400"),
    CASE("empty name", "GET / HTTP/1.1\r\n" H ": a\r\n\r\n", "400"),
    CASE("space in a name", "GET / HTTP/1.1\r\n" H "X Y: a\r\n\r\n", "400"),
    CASE("bracket in a name", "GET / HTTP/1.1\r\n" H "X(Y: a\r\n\r\n", "400"),
    CASE("high byte in a name", "GET / HTTP/1.1\r\n" H "X\xc3: a\r\n\r\n", "400"),
    CASE("zero byte in a name", "GET / HTTP/1.1\r\n" H "X\0: a\r\n\r\n", "400"),
    CASE("zero byte in a value", "GET / HTTP/1.1\r\n" H "X: a\0b\r\n\r\n", "400"),
    CASE("escape byte in a value", "GET / HTTP/1.1\r\n" H "X: \x1b[1m\r\n\r\n", "400"),
    CASE("delete byte in a value", "GET / HTTP/1.1\r\n" H "X: \x7f\r\n\r\n", "400"),
    CASE("eight headers",
         "GET / HTTP/1.1\r\n" H "A: 1\r\nB: 1\r\nC: 1\r\nD: 1\r\nE: 1\r\nF: 1\r\nG: 1\r\n\r\n",
         "GET / 1.1 ka []"),
    CASE("nine headers",
         "GET / HTTP/1.1\r\n" H
         "A: 1\r\nB: 1\r\nC: 1\r\nD: 1\r\nE: 1\r\nF: 1\r\nG: 1\r\nI: 1\r\n\r\n",
         "431"),
    CASE("repeated unknown header", "GET / HTTP/1.1\r\n" H "X: 1\r\nX: 2\r\n\r\n",
         "GET / 1.1 ka []"),
    CASE("repeated Authorization",
         "GET / HTTP/1.1\r\n" H "Authorization: a\r\nauthorization: b\r\n\r\n", "400"),
    CASE("repeated Origin", "GET / HTTP/1.1\r\n" H "Origin: a\r\nOrigin: b\r\n\r\n", "400"),
    CASE("repeated X-Api-Key", "GET / HTTP/1.1\r\n" H "X-Api-Key: a\r\nx-api-key: b\r\n\r\n",
         "400"),
    CASE("repeated Content-Type",
         "GET / HTTP/1.1\r\n" H "Content-Type: a\r\nContent-Type: a\r\n\r\n", "400"),
    /* Host */
    CASE("no Host", "GET / HTTP/1.1\r\n\r\n", "400"),
    CASE("no Host, absolute form", "GET http://a/ HTTP/1.1\r\n\r\n", "400"),
    CASE("two Hosts", "GET / HTTP/1.1\r\n" H H "\r\n", "400"),
    CASE("two Hosts in 1.0", "GET / HTTP/1.0\r\n" H H "\r\n", "400"),
    CASE("empty Host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", "400"),
    CASE("Host with a port", "GET / HTTP/1.1\r\nHost: a.b-c:8080\r\n\r\n", "GET / 1.1 ka []"),
    CASE("Host IPv6", "GET / HTTP/1.1\r\nHost: [fe80::1]:80\r\n\r\n", "GET / 1.1 ka []"),
    CASE("Host with a bad port", "GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", "400"),
    CASE("Host with a user", "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", "400"),
    CASE("Host with a slash", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", "400"),
    CASE("Host with a space", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "400"),
    CASE("Host with a comma-free list", "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", "400"),
    /* Connection */
    CASE("close", "GET / HTTP/1.1\r\n" H "Connection: close\r\n\r\n", "GET / 1.1 []"),
    CASE("close in a list", "GET / HTTP/1.1\r\n" H "Connection: upgrade, Close\r\n\r\n",
         "GET / 1.1 []"),
    CASE("close in a second header",
         "GET / HTTP/1.1\r\n" H "Connection: x\r\nConnection: close\r\n\r\n", "GET / 1.1 []"),
    CASE("close beats keep-alive", "GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n",
         "GET / 1.0 []"),
    CASE("closed is not close", "GET / HTTP/1.1\r\n" H "Connection: closed\r\n\r\n",
         "GET / 1.1 ka []"),
    /* Expect */
    CASE("continue", "POST / HTTP/1.1\r\n" H "Expect: 100-Continue\r\nContent-Length: 1\r\n\r\nx",
         "POST / 1.1 ka 100 [x]"),
    CASE("other expectation", "POST / HTTP/1.1\r\n" H "Expect: tea\r\n\r\n", "417"),
    CASE("expectation in 1.0", "POST / HTTP/1.0\r\nExpect: tea\r\n\r\n", "POST / 1.0 []"),
    /* Content-Length */
    CASE("length", "POST / HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabc", "POST / 1.1 ka [abc]"),
    CASE("length 0", "POST / HTTP/1.1\r\n" H "Content-Length: 0\r\n\r\n", "POST / 1.1 ka []"),
    CASE("length with zeros before", "POST / HTTP/1.1\r\n" H "Content-Length: 0003\r\n\r\nabc",
         "POST / 1.1 ka [abc]"),
    CASE("length with a GET", "GET / HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\nab",
         "GET / 1.1 ka [ab]"),
    CASE("body missing", "POST / HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nab",
         "POST / 1.1 ka [ab..."),
    CASE("length twice",
         "POST / HTTP/1.1\r\n" H "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", "400"),
    CASE("two lengths", "POST / HTTP/1.1\r\n" H "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
         "400"),
    CASE("length as a list", "POST / HTTP/1.1\r\n" H "Content-Length: 3, 3\r\n\r\nabc", "400"),
    CASE("length +3", "POST / HTTP/1.1\r\n" H "Content-Length: +3\r\n\r\nabc", "400"),
    CASE("length -3", "POST / HTTP/1.1\r\n" H "Content-Length: -3\r\n\r\nabc", "400"),
    CASE("length 0x3", "POST / HTTP/1.1\r\n" H "Content-Length: 0x3\r\n\r\nabc", "400"),
    CASE("length 3.0", "POST / HTTP/1.1\r\n" H "Content-Length: 3.0\r\n\r\nabc", "400"),
    CASE("length 3 3", "POST / HTTP/1.1\r\n" H "Content-Length: 3 3\r\n\r\nabc", "400"),
    CASE("length of nothing", "POST / HTTP/1.1\r\n" H "Content-Length:\r\n\r\nabc", "400"),
    CASE("length of letters", "POST / HTTP/1.1\r\n" H "Content-Length: abc\r\n\r\nabc", "400"),
    CASE("length in high digits", "POST / HTTP/1.1\r\n" H "Content-Length: \xd9\xa3\r\n\r\nabc",
         "400"),
    CASE("length at the limit",
         "POST / HTTP/1.1\r\n" H "Content-Length: "
         "64\r\n\r\n0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
         "POST / 1.1 ka [0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef]"),
    CASE("length past the limit", "POST / HTTP/1.1\r\n" H "Content-Length: 65\r\n\r\n", "413"),
    CASE("length 2^64", "POST / HTTP/1.1\r\n" H "Content-Length: 18446744073709551616\r\n\r\n",
         "413"),
    CASE("length 2^64 + 3",
         "POST / HTTP/1.1\r\n" H "Content-Length: 18446744073709551619\r\n\r\nabc", "413"),
    CASE("length of 40 digits",
         "POST / HTTP/1.1\r\n" H "Content-Length: 9999999999999999999999999999999999999999\r\n\r\n",
         "413"),
    /* Transfer-Encoding */
    CASE("chunked", CHUNKED "3\r\nabc\r\n0\r\n\r\n", "POST / 1.1 ka [abc]"),
    CASE("chunked, upper case",
         "POST / HTTP/1.1\r\n" H "TRANSFER-ENCODING: CHUNKED\r\n\r\n1\r\nx\r\n0\r\n\r\n",
         "POST / 1.1 ka [x]"),
    CASE("chunked and length",
         "POST / HTTP/1.1\r\n" H "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
         "400"),
    CASE("length and chunked",
         "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
         "400"),
    CASE("chunked twice",
         "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
         "400"),
    CASE("chunked, chunked", "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked, chunked\r\n\r\n",
         "501"),
    CASE("gzip, chunked", "POST / HTTP/1.1\r\n" H "Transfer-Encoding: gzip, chunked\r\n\r\n",
         "501"),
    CASE("identity", "POST / HTTP/1.1\r\n" H "Transfer-Encoding: identity\r\n\r\n", "501"),
    CASE("xchunked", "POST / HTTP/1.1\r\n" H "Transfer-Encoding: xchunked\r\n\r\n", "501"),
    CASE("chunked in quotes", "POST / HTTP/1.1\r\n" H "Transfer-Encoding: \"chunked\"\r\n\r\n",
         "501"),
    CASE("chunked with a vertical tab",
         "POST / HTTP/1.1\r\n" H "Transfer-Encoding: \x0b"
         "chunked\r\n\r\n",
         "400"),
    CASE("coding of nothing", "POST / HTTP/1.1\r\n" H "Transfer-Encoding:\r\n\r\n", "501"),
    CASE("chunked in 1.0", "POST / HTTP/1.0\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
         "400"),
    CASE("coding, space before the colon",
         "POST / HTTP/1.1\r\n" H "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "400"),
    /* chunks */
    CASE("several chunks", CHUNKED "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", "POST / 1.1 ka [abcde]"),
    CASE("no chunks", CHUNKED "0\r\n\r\n", "POST / 1.1 ka []"),
    CASE("upper-case size", CHUNKED "A\r\n0123456789\r\n0\r\n\r\n", "POST / 1.1 ka [0123456789]"),
    CASE("size with zeros before", CHUNKED "0003\r\nabc\r\n000\r\n\r\n", "POST / 1.1 ka [abc]"),
    CASE("size of 16 digits", CHUNKED "0000000000000003\r\nabc\r\n0\r\n\r\n",
         "POST / 1.1 ka [abc]"),
    CASE("size of 17 digits", CHUNKED "00000000000000003\r\nabc\r\n0\r\n\r\n",
         "POST / 1.1 ka [ | 400"),
    CASE("size 0x3", CHUNKED "0x3\r\nabc\r\n0\r\n\r\n", "POST / 1.1 ka [ | 400"),
    CASE("size +3", CHUNKED "+3\r\nabc\r\n0\r\n\r\n", "POST / 1.1 ka [ | 400"),
    CASE("size -1", CHUNKED "-1\r\nabc\r\n0\r\n\r\n", "POST / 1.1 ka [ | 400"),
    CASE("size with a space before", CHUNKED " 3\r\nabc\r\n0\r\n\r\n", "POST / 1.1 ka [ | 400"),
    CASE("size with a space behind", CHUNKED "3 \r\nabc\r\n0\r\n\r\n", "POST / 1.1 ka [ | 400"),
    CASE("size of nothing", CHUNKED "\r\nabc\r\n0\r\n\r\n", "POST / 1.1 ka [ | 400"),
    CASE("size of letters", CHUNKED "xyz\r\nabc\r\n0\r\n\r\n", "POST / 1.1 ka [ | 400"),
    CASE("size 2^64 - 1", CHUNKED "ffffffffffffffff\r\nabc", "POST / 1.1 ka [ | 413"),
    CASE("sizes past the limit", CHUNKED "3\r\nabc\r\n3e\r\n", "POST / 1.1 ka [abc | 413"),
    CASE("sizes at the limit", CHUNKED "3\r\nabc\r\n3d\r\nx", "POST / 1.1 ka [abcx..."),
    CASE("size line ended by LF", CHUNKED "3\nabc\r\n0\r\n\r\n", "POST / 1.1 ka [ | 400"),
    CASE("size line ended by CR", CHUNKED "3\rabc\r\n0\r\n\r\n", "POST / 1.1 ka [ | 400"),
    CASE("data ended by LF", CHUNKED "3\r\nabc\n0\r\n\r\n", "POST / 1.1 ka [abc | 400"),
    CASE("data ended by CR alone", CHUNKED "3\r\nabc\rx", "POST / 1.1 ka [abc | 400"),
    CASE("data longer than its size", CHUNKED "3\r\nabcd\r\n0\r\n\r\n", "POST / 1.1 ka [abc | 400"),
    CASE("extension", CHUNKED "3;a=b;c=\"d e\"\r\nabc\r\n0;z\r\n\r\n", "POST / 1.1 ka [abc]"),
    CASE("extension behind spaces", CHUNKED "3 \t;a\r\nabc\r\n0\r\n\r\n", "POST / 1.1 ka [abc]"),
    CASE("extension with LF", CHUNKED "3;a\nabc\r\n0\r\n\r\n", "POST / 1.1 ka [ | 400"),
    CASE("extension with a zero byte", CHUNKED "3;a\0\r\nabc\r\n0\r\n\r\n",
         "POST / 1.1 ka [ | 400"),
    CASE("trailer", CHUNKED "0\r\nX: y\r\nZ:\r\n\r\n", "POST / 1.1 ka []"),
    CASE("trailer that frames", CHUNKED "0\r\nContent-Length: 5\r\n\r\n", "POST / 1.1 ka []"),
    CASE("trailer without a colon", CHUNKED "0\r\nX\r\n\r\n", "POST / 1.1 ka [ | 400"),
    CASE("trailer with a space before the colon", CHUNKED "0\r\nX : y\r\n\r\n",
         "POST / 1.1 ka [ | 400"),
    CASE("folded trailer", CHUNKED "0\r\nX: y\r\n z\r\n\r\n", "POST / 1.1 ka [ | 400"),
    CASE("trailer ended by LF", CHUNKED "0\r\nX: y\n\r\n", "POST / 1.1 ka [ | 400"),
    CASE("trailers ended by LF", CHUNKED "0\r\nX: y\r\n\n", "POST / 1.1 ka [ | 400"),
    CASE("trailers not ended", CHUNKED "0\r\n", "POST / 1.1 ka [..."),
    /* one behind the other */
    CASE("two requests", "GET /a HTTP/1.1\r\n" H "\r\nGET /b HTTP/1.1\r\n" H "\r\n",
         "GET /a 1.1 ka [] | GET /b 1.1 ka []"),
    CASE("two with bodies",
         "POST /a HTTP/1.1\r\n" H "Content-Length: 1\r\n\r\nx" CHUNKED "1\r\ny\r\n0\r\n\r\n",
         "POST /a 1.1 ka [x] | POST / 1.1 ka [y]"),
    CASE("garbage behind a request", "GET /a HTTP/1.1\r\n" H "\r\n\x01\x02",
         "GET /a 1.1 ka [] | 400"),
    CASE("body longer than its length", "POST /a HTTP/1.1\r\n" H "Content-Length: 1\r\n\r\nxyz\x01",
         "POST /a 1.1 ka [x] | 400"),
    CASE("smuggled by a chunk", CHUNKED "0\r\n\r\nGET /admin HTTP/1.1\r\n" H "\r\n",
         "POST / 1.1 ka [] | GET /admin 1.1 ka []"),
    CASE("nothing", "", ""),
    CASE("only empty lines", "\r\n\r\n", ""),
    CASE("half a head", "GET / HTTP/1.1\r\nHos", "..."),
};

static const char *verdict_cut(struct runner *r, const struct framing_case *c, size_t first_cut) {
    runner_init(r);
    feed(r, bytes_of(c->input, first_cut));
    feed(r, bytes_of(c->input + first_cut, c->len - first_cut));
    runner_end(r);
    return buf_text(&r->out);
}

TEST(parse_corpus) {
    EXPECT(ARRAY_LEN(cases) >= 150);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct runner r;
        const char *got = verdict_cut(&r, &cases[i], 0);
        if (strcmp(got, cases[i].want))
            check_fail(__FILE__, __LINE__, "%s: got '%s', want '%s'", cases[i].name, got,
                       cases[i].want);
        runner_release(&r);
    }
}

TEST(parse_does_not_see_cuts) {
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        for (size_t cut = 1; cut < cases[i].len; cut++) {
            struct runner r;
            const char *got = verdict_cut(&r, &cases[i], cut);
            if (strcmp(got, cases[i].want))
                check_fail(__FILE__, __LINE__, "%s cut at %zu: got '%s', want '%s'", cases[i].name,
                           cut, got, cases[i].want);
            runner_release(&r);
        }
}

TEST(parse_byte_by_byte) {
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct runner r;
        runner_init(&r);
        for (size_t at = 0; at < cases[i].len; at++) {
            char *one = malloc(1); /* so that reading past it is seen by ASan */
            *one = cases[i].input[at];
            feed(&r, bytes_of(one, 1));
            free(one);
        }
        runner_end(&r);
        if (strcmp(buf_text(&r.out), cases[i].want))
            check_fail(__FILE__, __LINE__, "%s: got '%s', want '%s'", cases[i].name,
                       buf_text(&r.out), cases[i].want);
        runner_release(&r);
    }
}

/* Builds prefix + count times filler + suffix, and expects the verdict. */
static void expect_filled(const char *prefix, char filler, size_t count, const char *suffix,
                          const char *want) {
    struct runner r;
    struct buf in;
    runner_init(&r);
    buf_init(&in, 0);
    buf_add_str(&in, prefix);
    for (size_t i = 0; i < count; i++)
        buf_add_byte(&in, filler);
    buf_add_str(&in, suffix);
    feed(&r, buf_bytes(&in));
    runner_end(&r);
    if (!strstr(buf_text(&r.out), want))
        check_fail(__FILE__, __LINE__, "%zu times '%c': got '%s', want '%s'", count, filler,
                   buf_text(&r.out), want);
    runner_release(&r);
    buf_release(&in);
}

static bool is_head_taken(const char *before, int byte, const char *behind) {
    struct runner r;
    char head[128];
    int len = snprintf(head, sizeof head, "GET / HTTP/1.1\r\n" H "%s%c%s", before, byte, behind);
    runner_init(&r);
    feed(&r, bytes_of(head, (size_t)len));
    bool taken = !strcmp(buf_text(&r.out), "GET / 1.1 ka []");
    runner_release(&r);
    return taken;
}

/* RFC 9110: names of fields are made of tchar (5.6.2), values of HTAB, SP, VCHAR and obs-text (5.5). */
TEST(parse_takes_each_byte_where_it_may_stand) {
    for (int byte = 0; byte < 256; byte++) {
        bool letter = (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') ||
                      (byte >= 'a' && byte <= 'z');
        bool in_name = letter || (byte && strchr("!#$%&'*+-.^_`|~", byte));
        bool in_value = byte == '\t' || (byte >= ' ' && byte != 127);
        if (is_head_taken("X", byte, "Y: v\r\n\r\n") != (in_name || byte == ':'))
            check_fail(__FILE__, __LINE__, "byte %d in a name", byte);
        if (is_head_taken("X: a", byte, "c\r\n\r\n") != in_value)
            check_fail(__FILE__, __LINE__, "byte %d in a value", byte);
    }
}

TEST(parse_limits) {
    size_t head = strlen("GET / HTTP/1.1\r\n" H "X: \r\n\r\n");
    expect_filled("GET /", 'a', 255, " HTTP/1.1\r\n" H "\r\n", "1.1 ka []");
    expect_filled("GET /", 'a', 256, " HTTP/1.1\r\n" H "\r\n", "414");
    expect_filled("GET /", 'a', 100000, "", "414");
    expect_filled("GET / HTTP/1.1\r\n" H "X: ", 'a', 1024 - head, "\r\n\r\n", "1.1 ka []");
    expect_filled("GET / HTTP/1.1\r\n" H "X: ", 'a', 1025 - head, "\r\n\r\n", "431");
    expect_filled("GET / HTTP/1.1\r\n" H "X: ", 'a', 100000, "", "431");
    expect_filled("GET / HTTP/1.1\r\n" H, 'a', 100000, "", "431");
    expect_filled("GET / ", 'a', 100000, "", "431");
    expect_filled("", 'A', 32, " / HTTP/1.1\r\n" H "\r\n", "501");
    expect_filled("", 'A', 33, "", "400");
    expect_filled(CHUNKED "1;", 'a', HTTP_CHUNK_EXTENSIONS_MAX, "\r\nx\r\n0\r\n\r\n", "[x]");
    expect_filled(CHUNKED "1;", 'a', HTTP_CHUNK_EXTENSIONS_MAX + 1, "\r\nx\r\n0\r\n\r\n", "400");
    expect_filled(CHUNKED, '0', 15, "1\r\nx\r\n0\r\n\r\n", "[x]");
    expect_filled(CHUNKED, '0', 16, "1\r\nx\r\n0\r\n\r\n", "400");
    expect_filled(CHUNKED, '0', 17, "\r\n\r\n", "400");
    expect_filled(CHUNKED "0\r\nX:", 'a', HTTP_TRAILERS_MAX - 6, "\r\n\r\n", "[]");
    expect_filled(CHUNKED "0\r\nX:", 'a', HTTP_TRAILERS_MAX, "\r\n\r\n", "431");
}

/* Extensions are counted over all chunks of a body, or many small ones would carry any amount. */
TEST(parse_counts_extensions_of_all_chunks) {
    struct runner r;
    runner_init(&r);
    feed(&r, bytes_str(CHUNKED));
    for (int i = 0; i < 60; i++) {
        char chunk[128];
        snprintf(chunk, sizeof chunk, "1;%0100d\r\nx\r\n", 7);
        feed(&r, bytes_str(chunk));
    }
    EXPECT(r.bad);
    EXPECT(strstr(buf_text(&r.out), "400"));
    runner_release(&r);
}

TEST(parse_headers_are_found) {
    struct http_parser p;
    const char *text = "GET / HTTP/1.1\r\nHost: a\r\nX-One:  1 \r\nx-one: 2\r\nEmpty:\r\n\r\n";
    struct bytes in = bytes_str(text), body;
    const struct http_header *one, *empty;
    http_parser_init(&p, &limits);
    EXPECT_EQ(http_parser_feed(&p, &in, &body), HTTP_PARSE_HEAD);
    EXPECT_EQ(p.headers.count, 4);
    one = http_header_find(p.headers.items, p.headers.count, "X-ONE");
    EXPECT(one && bytes_equal(one->value, bytes_str("1")));
    empty = http_header_find(p.headers.items, p.headers.count, "empty");
    EXPECT(empty && empty->value.len == 0 && empty->value.data);
    EXPECT(!http_header_find(p.headers.items, p.headers.count, "emp"));
    EXPECT(!http_header_find(p.headers.items, p.headers.count, "empty2"));
    http_parser_release(&p);
}

/* Random cuts and random damage: the verdict of a stream never depends on the cuts. */
TEST(parse_random_damage_random_cuts) {
    for (int round = 0; round < 3000; round++) {
        const struct framing_case *c = &cases[check_random() % ARRAY_LEN(cases)];
        struct runner whole, cut;
        char *input = malloc(c->len + 1);
        memcpy(input, c->input, c->len);
        for (uint64_t damage = check_random() % 4; damage && c->len; damage--)
            input[check_random() % c->len] = (char)check_random();
        runner_init(&whole);
        runner_init(&cut);
        feed(&whole, bytes_of(input, c->len));
        for (size_t at = 0; at < c->len;) {
            size_t len = 1 + check_random() % 9;
            len = MIN(len, c->len - at);
            feed(&cut, bytes_of(input + at, len));
            at += len;
        }
        runner_end(&whole);
        runner_end(&cut);
        if (strcmp(buf_text(&cut.out), buf_text(&whole.out)))
            check_fail(__FILE__, __LINE__, "%s, damaged: '%s' cut, '%s' whole", c->name,
                       buf_text(&cut.out), buf_text(&whole.out));
        runner_release(&whole);
        runner_release(&cut);
        free(input);
    }
}

TEST(types_lists_and_queries) {
    char out[8];
    EXPECT(http_list_has(bytes_str("a, Keep-Alive ,b"), "keep-alive"));
    EXPECT(http_list_has(bytes_str("close"), "CLOSE"));
    EXPECT(!http_list_has(bytes_str("closed, not close"), "close"));
    EXPECT(!http_list_has(bytes_str(""), "close"));
    EXPECT(!http_list_has(bytes_str(",, ,"), "close"));
    EXPECT_EQ(http_query_find(bytes_str("a=1&bb=x%20y+z&c"), "bb", out, sizeof out), 5);
    EXPECT_STR(out, "x y z");
    EXPECT_EQ(http_query_find(bytes_str("a=1&bb=x"), "b", out, sizeof out), -1);
    EXPECT_EQ(http_query_find(bytes_str("a&b=2"), "a", out, sizeof out), 0);
    EXPECT_EQ(http_query_find(bytes_str("a=1234567"), "a", out, sizeof out), 7);
    EXPECT_EQ(http_query_find(bytes_str("a=12345678"), "a", out, sizeof out), -1);
    EXPECT_EQ(http_query_find(bytes_str("a=%0"), "a", out, sizeof out), -1);
    EXPECT_EQ(http_query_find(bytes_of("a=%41", 4), "a", out, sizeof out), -1);
    EXPECT_EQ(http_query_find(bytes_str("a=%41"), "a", out, sizeof out), 1);
    EXPECT_EQ(http_query_find(bytes_str("a=%00"), "a", out, sizeof out), -1);
    EXPECT_EQ(http_query_find(bytes_str("a=%gg"), "a", out, sizeof out), -1);
    EXPECT_STR(http_status_text(404), "Not Found");
    EXPECT_STR(http_status_text(299), "Unknown");
}

TEST(request_ids_are_letters_digits_and_some_marks) {
    static const char GOOD[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/+=@";
    char id[HTTP_REQUEST_ID_MAX + 1];
    memset(id, 'a', sizeof id);
    EXPECT(!http_is_request_id(bytes_of(id, 0)) && http_is_request_id(bytes_of(id, 1)));
    EXPECT(http_is_request_id(bytes_of(id, HTTP_REQUEST_ID_MAX)));
    EXPECT(!http_is_request_id(bytes_of(id, HTTP_REQUEST_ID_MAX + 1)));
    for (int c = 0; c < 256; c++) {
        id[1] = (char)c;
        if (http_is_request_id(bytes_of(id, 3)) != (c && strchr(GOOD, c)))
            check_fail(__FILE__, __LINE__, "byte %d", c);
    }
}

/* Of each status that we may send the words of RFC 9110 (6585: 429, 431), of those that others made up theirs. */
TEST(statuses_have_their_words) {
    static const struct {
        int status;
        const char *text;
    } STATUSES[] = {
        {100, "Continue"},
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {206, "Partial Content"},
        {301, "Moved Permanently"},
        {302, "Found"},
        {304, "Not Modified"},
        {307, "Temporary Redirect"},
        {308, "Permanent Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {411, "Length Required"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {499, "Client Closed Request"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
        {529, "Overloaded"},
    };
    size_t known = 0;
    for (int status = 0; status < 1000; status++) {
        const char *text = "Unknown";
        if (known < ARRAY_LEN(STATUSES) && STATUSES[known].status == status)
            text = STATUSES[known++].text;
        EXPECT_STR(http_status_text(status), text);
    }
    EXPECT_EQ(known, ARRAY_LEN(STATUSES));
}
