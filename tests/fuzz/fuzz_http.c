/*
 * fuzz_http.c - the request parser: what it says never depends on how the input was cut, and what
 * it lets through keeps its promises.
 *
 * The first byte seeds the cuts, the rest is the stream.
 */
#include "base/utf8.h"
#include "fuzz.h"
#include "http/http_parse.h"

static const struct http_limits limits = {
    .head_max_bytes = 512, .target_max_bytes = 128, .headers_max = 8, .body_max_bytes = 4096};

struct runner {
    struct http_parser parser;
    struct buf out; /* everything told, as text */
    size_t body_len;
    bool bad;
};

static void check_text(struct bytes s, bool path) {
    for (size_t i = 0; i < s.len; i++)
        CHECK((s.data[i] >= 0x20 && s.data[i] != 0x7f) || (!path && s.data[i] == '\t'));
    if (path)
        CHECK(s.len && utf8_valid(s.data, s.len) && (s.data[0] == '/' || s.data[0] == '*'));
}

static void tell_head(struct runner *r) {
    const struct http_parser *p = &r->parser;
    CHECK(p->headers.count <= limits.headers_max && p->length <= limits.body_max_bytes);
    CHECK(!(p->chunked && p->length));
    check_text(p->path, true);
    check_text(p->query, false);
    buf_addf(&r->out, "head %d %d %d %d ", (int)p->method, p->version_minor, p->keep_alive,
             p->expect_continue);
    buf_add_bytes(&r->out, p->path);
    buf_add_bytes(&r->out, p->query);
    for (size_t i = 0; i < p->headers.count; i++) {
        const struct http_header *h = &p->headers.items[i];
        CHECK(h->name.len);
        check_text(h->value, false);
        buf_add_bytes(&r->out, h->name);
        buf_add_byte(&r->out, '=');
        buf_add_bytes(&r->out, h->value);
    }
    r->body_len = 0;
}

static void feed(struct runner *r, struct bytes in) {
    while (!r->bad) {
        struct bytes body, before = in;
        enum http_parse_event event = http_parser_feed(&r->parser, &in, &body);
        CHECK(in.len <= before.len && in.data == before.data + (before.len - in.len));
        switch (event) {
        case HTTP_PARSE_MORE: CHECK(!in.len); return;
        case HTTP_PARSE_HEAD: tell_head(r); break;
        case HTTP_PARSE_BODY:
            CHECK(body.len && body.data >= before.data && body.data + body.len == in.data);
            r->body_len += body.len;
            CHECK(r->body_len <= limits.body_max_bytes);
            buf_add_bytes(&r->out, body);
            break;
        case HTTP_PARSE_DONE:
            CHECK(!r->parser.length || r->body_len == r->parser.length);
            buf_add_str(&r->out, " done\n");
            http_parser_reset(&r->parser);
            if (!in.len)
                return;
            break;
        case HTTP_PARSE_BAD:
            CHECK(r->parser.status >= 400 && r->parser.status < 600 && r->parser.text);
            buf_addf(&r->out, "bad %d %s", r->parser.status, r->parser.text);
            r->bad = true;
        }
    }
}

static void runner_init(struct runner *r) {
    memset(r, 0, sizeof *r);
    http_parser_init(&r->parser, &limits);
    buf_init(&r->out, 0);
}

static void runner_release(struct runner *r) {
    http_parser_release(&r->parser);
    buf_release(&r->out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct runner whole, cut;
    char decoded[32];
    if (!size)
        return 0;
    uint32_t random = data[0] * 2654435761u + 1;
    runner_init(&whole);
    runner_init(&cut);
    feed(&whole, bytes_of(data + 1, size - 1));
    for (size_t at = 1, len; at < size; at += len) {
        random = random * 1664525u + 1013904223u;
        len = data[0] ? 1 + (random >> 16) % 12 : 1;
        len = MIN(len, size - at);
        feed(&cut, bytes_of(data + at, len));
    }
    CHECK(bytes_equal(buf_bytes(&whole.out), buf_bytes(&cut.out)));
    (void)http_query_find(bytes_of(data, size), "a", decoded, sizeof decoded);
    (void)http_list_has(bytes_of(data, size), "close");
    runner_release(&whole);
    runner_release(&cut);
    return 0;
}
