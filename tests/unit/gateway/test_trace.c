/* What is told of a request: whose span it is in, the spans word for word, and how they reach a
 * collector. */
#include "gateway/watch/trace.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "gateway/watch/trace_export.h"

#define TRACE  "0af7651916cd43dd8448eb211c80319c"
#define PARENT "b7ad6b7169203331"

/* ---- traceparent ---- */

TEST(a_parent_is_taken_by_the_rules_of_trace_context) {
    static const struct {
        const char *text;
        bool taken;
    } ROWS[] = {{"00-" TRACE "-" PARENT "-01", true},
                {"00-" TRACE "-" PARENT "-03", true},
                {"00-" TRACE "-" PARENT "-ff", true},
                {"01-" TRACE "-" PARENT "-01", true},
                {"fe-" TRACE "-" PARENT "-01-more", true},
                {"01-" TRACE "-" PARENT "-01-", true},
                {"01-" TRACE "-" PARENT "-01.", false},
                {"ff-" TRACE "-" PARENT "-01", false},
                {"00-" TRACE "-" PARENT "-01-", false},
                {"00-" TRACE "-" PARENT "-01x", false},
                {"00-" TRACE "-" PARENT "-0", false},
                {"0g-" TRACE "-" PARENT "-01", false},
                {"g0-" TRACE "-" PARENT "-01", false},
                {"00_" TRACE "-" PARENT "-01", false},
                {"00-" TRACE "_" PARENT "-01", false},
                {"00-" TRACE "-" PARENT "_01", false},
                {"00-00000000000000000000000000000000-" PARENT "-01", false},
                {"00-" TRACE "-0000000000000000-01", false},
                {"00-0AF7651916cd43dd8448eb211c80319c-" PARENT "-01", false},
                {"00-0af7651916cd43dd8448eb211c80319g-" PARENT "-01", false},
                {"00-" TRACE "-b7ad6b716920333:-01", false},
                {"00-" TRACE "-b7ad6b716920333`-01", false},
                {"00-" TRACE "-" PARENT "-0g", false},
                {"00-" TRACE "-" PARENT "-g1", false},
                {"", false}};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct trace_context c;
        trace_context_begin(&c, bytes_str(ROWS[i].text), 0);
        bool taken = !strcmp(c.trace_id, TRACE) && !strcmp(c.parent_id, PARENT);
        if (taken != ROWS[i].taken || strlen(c.span_id) != (taken ? SPAN_ID_HEX : 0) ||
            (!taken && (*c.trace_id || *c.parent_id)))
            check_fail(__FILE__, __LINE__, "'%s': %s %s %s", ROWS[i].text, c.trace_id, c.parent_id,
                       c.span_id);
    }
}

/* The flag of a parent decides, else the ratio does. */
TEST(a_request_is_sampled_as_its_parent_says_or_by_the_ratio) {
    struct trace_context c, other;
    trace_context_begin(&c, bytes_str("00-" TRACE "-" PARENT "-00"), 1);
    EXPECT(!*c.trace_id && !*c.span_id && !*c.parent_id);
    trace_context_begin(&c, bytes_str("00-" TRACE "-" PARENT "-02"), 1);
    EXPECT(!*c.trace_id);
    trace_context_begin(&c, bytes_str("00-" TRACE "-" PARENT "-10"), 1);
    EXPECT(!*c.trace_id);
    trace_context_begin(&c, (struct bytes){0}, 1);
    trace_context_begin(&other, (struct bytes){0}, 1);
    EXPECT(strlen(c.trace_id) == TRACE_ID_HEX && strlen(c.span_id) == SPAN_ID_HEX);
    EXPECT(!*c.parent_id && strcmp(c.trace_id, other.trace_id) && strcmp(c.span_id, other.span_id));
    int sampled = 0;
    for (int i = 0; i < 4000; i++) {
        trace_context_begin(&c, (struct bytes){0}, 0.25);
        sampled += *c.trace_id != 0;
    }
    EXPECT(sampled > 700 && sampled < 1300); /* eleven standard deviations to each side */
}

/* ---- spans ---- */

static struct trace_record record_of(int status) {
    return (struct trace_record){.context = {TRACE, "00000000000000aa", PARENT},
                                 .begin_us = 1700000000000000,
                                 .duration_us = 900,
                                 .first_us = 500,
                                 .queued_us = 100,
                                 .prefill_us = 300,
                                 .path = "/v1/completions",
                                 .finish = "stop",
                                 .model = "m",
                                 .request_id = "r",
                                 .prompt_tokens = 11,
                                 .cached_tokens = 12,
                                 .output_tokens = 13,
                                 .status = status};
}

/* The drawn ids of children become "*". */
static void write_spans(const struct trace_record *r, size_t count, struct buf *out) {
    buf_reset(out);
    trace_write(out, r, count, "9.8");
    char *at = out->data;
    buf_add_byte(out, 0);
    for (at = out->data; (at = strstr(at, "\"spanId\":\"")); at += 10)
        if (strncmp(at + 10, "00000000000000aa", SPAN_ID_HEX)) {
            memmove(at + 11, at + 10 + SPAN_ID_HEX, strlen(at + 10 + SPAN_ID_HEX) + 1);
            at[10] = '*';
        }
}

#define HEAD                                                                                       \
    "{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":"      \
    "{\"stringValue\":\"trireme\"}},{\"key\":\"service.version\",\"value\":{\"stringValue\":"      \
    "\"9.8\"}}]},\"scopeSpans\":[{\"scope\":{\"name\":\"trireme.gateway\"},\"spans\":["
#define TAIL               "]}]}]}"
#define TEXT(key, value)   "{\"key\":\"" key "\",\"value\":{\"stringValue\":\"" value "\"}}"
#define NUMBER(key, value) "{\"key\":\"" key "\",\"value\":{\"intValue\":\"" value "\"}}"
#define TIMES(begin, end)                                                                          \
    "\"startTimeUnixNano\":\"1700000000000" begin "000\",\"endTimeUnixNano\":\"1700000000000" end  \
    "000\""
#define SERVER_BEGIN(parent)                                                                       \
    "{\"traceId\":\"" TRACE "\",\"spanId\":\"00000000000000aa\"," parent                           \
    "\"name\":\"POST /v1/completions\",\"kind\":2," TIMES("000", "900") ",\"attributes\":[" TEXT(  \
        "http.request.method", "POST") "," TEXT("http.route", "/v1/completions") ","
#define SERVER_MIDDLE(status)                                                                      \
    NUMBER("http.response.status_code", status)                                                    \
    "," TEXT("trireme.request.id", "r") "," TEXT("trireme.finish", "stop")
#define USAGE                                                                                      \
    "," NUMBER("gen_ai.usage.input_tokens", "11") "," NUMBER(                                      \
        "gen_ai.usage.output_tokens", "13") "," NUMBER("trireme.usage.cached_tokens", "12") "]"
#define OF_PARENT "\"parentSpanId\":\"" PARENT "\","
#define MODEL     "," TEXT("gen_ai.response.model", "m")
#define CHILD(name, begin, end)                                                                    \
    ",{\"traceId\":\"" TRACE "\",\"spanId\":\"*\",\"parentSpanId\":\"00000000000000aa\","          \
    "\"name\":\"" name "\",\"kind\":1," TIMES(begin, end) "}"

TEST(a_request_is_a_span_with_one_for_each_of_its_times) {
    struct buf out = {0};
    struct trace_record r = record_of(200);
    write_spans(&r, 1, &out);
    EXPECT_STR(out.data, HEAD SERVER_BEGIN(OF_PARENT) SERVER_MIDDLE("200") MODEL USAGE
               "}" CHILD("queue", "100", "200") CHILD("prefill", "200", "500")
                   CHILD("decode", "500", "900") TAIL);
    r.queued_us = -1; /* not told */
    write_spans(&r, 1, &out);
    EXPECT_STR(out.data, HEAD SERVER_BEGIN(OF_PARENT) SERVER_MIDDLE("200") MODEL USAGE
               "}" CHILD("decode", "500", "900") TAIL);
    r.queued_us = 0;
    r.prefill_us = 600; /* in whole milliseconds: it may reach past the request's begin */
    write_spans(&r, 1, &out);
    EXPECT(strstr(out.data, CHILD("queue", "000", "000") CHILD("prefill", "000", "500")));
    r.queued_us = 400;
    r.prefill_us = 300;
    write_spans(&r, 1, &out);
    EXPECT(strstr(out.data, CHILD("queue", "000", "200") CHILD("prefill", "200", "500")));
    buf_release(&out);
}

TEST(a_request_without_a_token_has_no_children_and_a_fault_is_an_error) {
    struct buf out = {0};
    struct trace_record r[2] = {record_of(500), record_of(499)};
    r[0].first_us = r[1].first_us = 0;
    r[0].context.parent_id[0] = 0;
    r[0].model[0] = 0;
    write_spans(r, 2, &out);
    EXPECT_STR(out.data, HEAD SERVER_BEGIN("") SERVER_MIDDLE("500") USAGE
               ",\"status\":{\"code\":2}}," SERVER_BEGIN(OF_PARENT) SERVER_MIDDLE("499") MODEL USAGE
               "}" TAIL);
    buf_release(&out);
}

/* ---- the collector ---- */

TEST(an_endpoint_is_http_with_a_host_a_port_and_a_path) {
    static const struct {
        const char *endpoint, *why; /* NULL: good */
    } ROWS[] = {{"http://a", NULL},
                {"http://a/", NULL},
                {"http://a:1", NULL},
                {"http://a:65535/x/y/", NULL},
                {"http://[::1]:4318", NULL},
                {"http://[::1]", NULL},
                {"https://a", "must begin with http://"},
                {"a:4318", "must begin with http://"},
                {"http://", "has no host"},
                {"http:///x", "has no host"},
                {"http://:80", "has no host"},
                {"http://[]:80", "has no host"},
                {"http://[::1]x", "has no host"},
                {"http://a:0", "has no proper port"},
                {"http://a:65536", "has no proper port"},
                {"http://a:", "has no proper port"},
                {"http://a:x", "has no proper port"},
                {"http://a:80x", "has no proper path"},
                {"http://a/b c", "has no proper path"},
                {"http://a/b?c", "has no proper path"},
                {"http://a/b#c", "has no proper path"}};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct trace_export *t = NULL;
        struct error err = {0};
        int rc = trace_export_new(&t, ROWS[i].endpoint, &err);
        bool good =
            ROWS[i].why ? rc == ERR_INVALID && !t && strstr(err.text, ROWS[i].why) : rc == 0 && t;
        if (!good)
            check_fail(__FILE__, __LINE__, "%s: %d %s", ROWS[i].endpoint, rc, err.text);
        trace_export_free(&t);
    }
}

/* Takes connections until it has been sent so many bytes, and answers each. */
struct collector {
    int fd;
    uint16_t port;
    pthread_t thread;
    const char *answer;
    struct buf got; /* the last request */
    int count;
};

static void *collect(void *arg) {
    struct collector *c = arg;
    for (int fd; (fd = accept(c->fd, NULL, NULL)) >= 0; close(fd)) {
        char piece[4096];
        buf_reset(&c->got);
        for (ssize_t len; (len = recv(fd, piece, sizeof piece, 0)) > 0;) {
            buf_add(&c->got, piece, (size_t)len);
            const char *head = memmem(c->got.data, c->got.len, "\r\n\r\n", 4),
                       *length = head ? strstr(buf_text(&c->got), "Content-Length: ") : NULL;
            if (length &&
                c->got.len >= (size_t)(head + 4 - c->got.data) + (size_t)atoi(length + 16))
                break;
        }
        c->count++;
        (void)!send(fd, c->answer, strlen(c->answer), MSG_NOSIGNAL);
    }
    return NULL;
}

static void collector_start(struct collector *c, const char *answer) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    *c = (struct collector){.answer = answer, .fd = socket(AF_INET, SOCK_STREAM, 0)};
    CHECK(bind(c->fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(c->fd, 8) == 0);
    CHECK(getsockname(c->fd, (struct sockaddr *)&at, &len) == 0);
    c->port = ntohs(at.sin_port);
    CHECK(pthread_create(&c->thread, NULL, collect, c) == 0);
}

static void collector_end(struct collector *c) {
    shutdown(c->fd, SHUT_RDWR);
    pthread_join(c->thread, NULL);
    close(c->fd);
}

/* What waits when the process ends is sent before it does, under the endpoint's path. */
TEST(what_waits_is_sent_at_the_end) {
    struct collector c;
    struct trace_export *t;
    struct error err;
    struct trace_record r = record_of(200);
    char endpoint[64], line[128];
    collector_start(&c, "HTTP/1.1 200 OK\r\n\r\n");
    snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%u/base/", c.port);
    EXPECT_EQ(trace_export_new(&t, endpoint, &err), 0);
    EXPECT_EQ(trace_export_start(t, &err), 0);
    for (int i = 0; i < 2; i++)
        trace_export_add(t, &r);
    trace_export_free(&t);
    collector_end(&c);
    EXPECT_EQ(c.count, 1);
    snprintf(line, sizeof line,
             "POST /base/v1/traces HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nContent-Type: "
             "application/json\r\nContent-Length: ",
             c.port);
    EXPECT(!strncmp(buf_text(&c.got), line, strlen(line)));
    const char *body = strstr(buf_text(&c.got), "\r\n\r\n");
    EXPECT(body && !strncmp(body + 4, "{\"resourceSpans\":[", 18));
    int spans = 0;
    for (const char *at = body; (at = strstr(at, "\"kind\":2")); at++)
        spans++;
    EXPECT_EQ(spans, 2);
    buf_release(&c.got);
}
