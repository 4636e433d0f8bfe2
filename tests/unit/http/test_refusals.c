/* What is said of requests that are refused: the status, and the words that their sender has to go by. */
#include "check.h"

#include "http/http_parse.h"

static const struct http_limits limits = {
    .head_max_bytes = 1024, .target_max_bytes = 256, .headers_max = 8, .body_max_bytes = 64};

#define H       "Host: a\r\n"
#define CHUNKED "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"
#define GET     "GET / HTTP/1.1\r\n" H

TEST(parse_says_what_it_refuses) {
    static const struct {
        const char *input;
        int status;
        const char *text;
    } REFUSED[] = {
        {"G(T / HTTP/1.1\r\n", 400, "bad method"},
        {"TRACE / HTTP/1.1\r\n", 405, "method is not allowed"},
        {"CONNECT a:1 HTTP/1.1\r\n", 405, "method is not allowed"},
        {"BREW / HTTP/1.1\r\n", 501, "method is not implemented"},
        {"GET /\x01 HTTP/1.1\r\n", 400, "bad character in the request line"},
        {"GET /\r\n", 400, "bad request line"},
        {"GET / HTTPX1.1\r\n", 400, "bad request line"},
        {"GET / HTTP/2.0\r\n", 505, "only HTTP/1.0 and HTTP/1.1 are served"},
        {"GET /%zz HTTP/1.1\r\n", 400, "bad request target"},
        {"GET / HTTP/1.1\rx", 400, "bare carriage return"},
        {"GET / HTTP/1.1\n", 400, "bare line feed"},
        {"GET / HTTP/1.1\r\n\r\n", 400, "Host header is missing"},
        {"GET / HTTP/1.1\r\nHost: a b\r\n", 400, "bad Host header"},
        {"GET http://b/ HTTP/1.1\r\n" H, 400,
         "Host header and request target name different hosts"},
        {GET H, 400, "repeated header"},
        {GET "Authorization: a\r\nauthorization: a\r\n", 400, "repeated header"},
        {GET "X-Api-Key: a\r\nX-API-KEY: a\r\n", 400, "repeated header"},
        {GET "Content-Type: a\r\nContent-Type: a\r\n", 400, "repeated header"},
        {GET " folded\r\n", 400, "folded header line"},
        {GET "no colon\r\n", 400, "bad header name"},
        {GET "X: a\x01\r\n", 400, "control character in a header"},
        {GET "Content-Length: 1a\r\n", 400, "bad Content-Length header"},
        {GET "Content-Length: 65\r\n\r\n", 413, "request body is too large"},
        {GET "Transfer-Encoding: gzip\r\n", 501,
         "only the transfer coding \"chunked\" is implemented"},
        {GET "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n", 400,
         "both Transfer-Encoding and Content-Length"},
        {"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400,
         "Transfer-Encoding in HTTP/1.0"},
        {GET "Expect: miracles\r\n", 417, "only the expectation \"100-continue\" is known"},
        {GET "A:\r\nB:\r\nC:\r\nD:\r\nE:\r\nF:\r\nG:\r\nI:\r\n", 431, "too many headers"},
        {CHUNKED "x", 400, "bad chunk size"},
        {CHUNKED "1 x", 400, "bad chunk size"},
        {CHUNKED "11111111111111111", 400, "chunk size has too many digits"},
        {CHUNKED "41\r\n", 413, "request body is too large"},
        {CHUNKED "1;\x01", 400, "control character in a chunk extension"},
        {CHUNKED "1\r\nab", 400, "chunk is longer than its size"},
        {CHUNKED "1\rx", 400, "bare carriage return"},
        {CHUNKED "0\r\n:", 400, "bad trailer name"},
        {CHUNKED "0\r\nX:\x01", 400, "control character in a trailer"},
    };
    for (size_t i = 0; i < ARRAY_LEN(REFUSED); i++) {
        struct http_parser p;
        struct bytes in = bytes_str(REFUSED[i].input), body;
        enum http_parse_event event;
        http_parser_init(&p, &limits);
        do
            event = http_parser_feed(&p, &in, &body);
        while (event == HTTP_PARSE_HEAD || event == HTTP_PARSE_BODY);
        if (event != HTTP_PARSE_BAD || p.status != REFUSED[i].status ||
            strcmp(p.text, REFUSED[i].text))
            check_fail(__FILE__, __LINE__, "'%s': %d '%s'", REFUSED[i].input, p.status,
                       event == HTTP_PARSE_BAD ? p.text : "is taken");
        http_parser_release(&p);
    }
}
