/* One answer of a server as run and chat print it: what is asked for, what is printed and kept, and the
 * figures of it. */
#include "cli/talk.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "capture.h"
#include "check.h"

#define HEAD         "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
#define EVENT(json)  "data: " json "\n\n"
#define DELTA(text)  EVENT("{\"choices\":[{\"delta\":{\"content\":\"" text "\"}}]}")
#define THINKS(text) EVENT("{\"choices\":[{\"delta\":{\"reasoning_content\":\"" text "\"}}]}")
#define DONE         "data: [DONE]\n\n"

/* One connection: reads a request, answers, hangs up. */
struct server {
    int fd;
    const char *answer;
    char request[4096];
    pthread_t thread;
};

static void *serve_one(void *arg) {
    struct server *s = arg;
    int fd = accept(s->fd, NULL, NULL);
    size_t len = 0;
    for (ssize_t n; len < sizeof s->request - 1 &&
                    (n = recv(fd, s->request + len, sizeof s->request - 1 - len, 0)) > 0;) {
        len += (size_t)n;
        s->request[len] = 0;
        const char *body = strstr(s->request, "\r\n\r\n"),
                   *length = strstr(s->request, "Content-Length: ");
        if (body && length && len >= (size_t)(body + 4 - s->request) + (size_t)atoi(length + 16))
            break;
    }
    (void)!send(fd, s->answer, strlen(s->answer), MSG_NOSIGNAL);
    close(fd);
    return NULL;
}

static struct talk_settings settings;
static struct talk talk;
static struct server server;
static struct buf answer;
static struct error err;

static void usual(void) {
    settings = (struct talk_settings){.max_tokens = 512,
                                      .seed = -1,
                                      .temperature = 0.5,
                                      .top_p = 1,
                                      .repeat_last_n = -1,
                                      .repetition_penalty = 1};
    talk = (struct talk){.settings = &settings};
}

/* Asks a server of one answer. What is printed is in out. */
static int ask(const char *text, struct buf *out) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    server = (struct server){.answer = text, .fd = socket(AF_INET, SOCK_STREAM, 0)};
    CHECK(bind(server.fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(server.fd, 1) == 0 &&
          getsockname(server.fd, (struct sockaddr *)&at, &len) == 0);
    CHECK(pthread_create(&server.thread, NULL, serve_one, &server) == 0);
    talk.client.port = ntohs(at.sin_port);
    snprintf(talk.client.host, sizeof talk.client.host, "127.0.0.1");
    err = (struct error){0};
    buf_reset(&answer);
    struct capture capture = capture_begin(STDOUT_FILENO);
    int rc = talk_ask(&talk, settings.raw ? "\"hi\"" : "[]", &answer, &err);
    capture_end(&capture, out);
    pthread_join(server.thread, NULL);
    close(server.fd);
    return rc;
}

TEST(pieces_are_printed_kept_and_counted) {
    struct buf out = {0};
    usual();
    EXPECT_EQ(ask(HEAD DELTA("Hel") DELTA("lo") EVENT("{\"choices\":[{\"delta\":{}}]}") DONE, &out),
              0);
    EXPECT_STR(buf_text(&out), "Hello");
    EXPECT_STR(buf_text(&answer), "Hello");
    EXPECT_EQ(talk.figures.tokens, 2); /* pieces, where nobody counts tokens */
    EXPECT(talk.figures.first_ms >= talk.figures.begin_ms && talk.figures.begin_ms > 0);
    EXPECT(talk.figures.last_ms >= talk.figures.first_ms);
    EXPECT_EQ(ask(HEAD DELTA("a") EVENT("{\"choices\":[],\"usage\":{\"completion_tokens\":7}}")
                      DONE,
                  &out),
              0);
    EXPECT_EQ(talk.figures.tokens, 7);
    EXPECT_EQ(
        ask(HEAD EVENT("{\"choices\":[{\"text\":\"raw\"}]}") DONE DELTA("behind the end"), &out),
        0);
    EXPECT_STR(buf_text(&out), "raw");
    EXPECT_EQ(ask(HEAD DONE, &out), 0);
    EXPECT(talk.figures.tokens == 0 && talk.figures.first_ms == 0 && talk.figures.last_ms == 0);
    buf_release(&out);
}

/* Not on a terminal, so without colours; what is thought is no answer. */
TEST(thoughts_are_printed_where_that_is_wanted) {
    static const char TEXT[] = HEAD THINKS("hm") THINKS("m") DELTA("Yes") DONE;
    struct buf out = {0};
    usual();
    EXPECT_EQ(ask(TEXT, &out), 0);
    EXPECT_STR(buf_text(&out), "Yes");
    EXPECT_EQ(talk.figures.tokens, 3);
    talk.show_reasoning = true;
    EXPECT_EQ(ask(TEXT, &out), 0);
    EXPECT_STR(buf_text(&out), "hmm\nYes");
    EXPECT_STR(buf_text(&answer), "Yes");
    EXPECT_EQ(ask(HEAD DELTA("a") THINKS("b") DELTA("c") DONE, &out), 0);
    EXPECT_STR(buf_text(&out), "ab\nc");
    buf_release(&out);
}

TEST(an_error_ends_an_answer_with_what_it_says) {
    struct buf out = {0};
    usual();
    EXPECT_EQ(
        ask(HEAD DELTA("a") EVENT("{\"error\":{\"message\":\"no room\"}}") DELTA("b") DONE, &out),
        ERR_CLOSED);
    EXPECT_STR(err.text, "no room");
    EXPECT_STR(buf_text(&out), "a");
    EXPECT(ask(HEAD DELTA("a") "data: {\n\n", &out) < 0);
    EXPECT_EQ(
        ask("HTTP/1.1 503 x\r\nConnection: close\r\n\r\n{\"error\":{\"message\":\"busy\"}}", &out),
        ERR_INVALID);
    EXPECT_STR(err.text, "the server answers 503: busy");
    EXPECT_EQ(
        ask("HTTP/1.1 400 x\r\nConnection: close\r\n\r\n{\"error\":{\"message\":\"it has no chat "
            "template\"}}",
            &out),
        ERR_UNSUPPORTED);
    EXPECT(strstr(err.text, "trireme run --raw"));
    buf_release(&out);
}

static const char *body(void) {
    const char *at = strstr(server.request, "\r\n\r\n");
    return at ? at + 4 : "";
}

#define USUAL "\"max_tokens\":512,\"temperature\":0.5,\"top_p\":1"
#define TAIL  ",\"stream\":true,\"stream_options\":{\"include_usage\":true}}"

TEST(what_is_at_its_default_is_not_sent) {
    struct buf out = {0};
    usual();
    EXPECT_EQ(ask(HEAD DONE, &out), 0);
    EXPECT_STR(body(), "{\"messages\":[]," USUAL TAIL);
    EXPECT(!strncmp(server.request, "POST /v1/chat/completions ", 26));
    settings.model = "m"; /* the folder of a private server is no name */
    EXPECT_EQ(ask(HEAD DONE, &out), 0);
    EXPECT_STR(body(), "{\"messages\":[]," USUAL TAIL);
    settings.url = "http://x";
    settings.raw = true;
    settings.seed = 0;
    EXPECT_EQ(ask(HEAD DONE, &out), 0);
    EXPECT_STR(body(), "{\"model\":\"m\",\"prompt\":\"hi\"," USUAL ",\"seed\":0" TAIL);
    EXPECT(!strncmp(server.request, "POST /v1/completions ", 21));
    settings.min_p = 0.25;
    settings.repeat_last_n = 0;
    settings.repetition_penalty = 1.5;
    settings.frequency_penalty = -0.5;
    settings.presence_penalty = 0.75;
    settings.top_k = 1;
    EXPECT_EQ(ask(HEAD DONE, &out), 0);
    EXPECT_STR(body(),
               "{\"model\":\"m\",\"prompt\":\"hi\"," USUAL
               ",\"min_p\":0.25,\"repeat_last_n\":0,\"repetition_penalty\":1.5,"
               "\"frequency_penalty\":-0.5,\"presence_penalty\":0.75,\"top_k\":1,\"seed\":0" TAIL);
    buf_release(&out);
}

static const char *stats(int64_t tokens, int64_t first, int64_t last, int pid) {
    static char line[200];
    struct buf out = {0};
    talk.figures = (struct talk_figures){
        .begin_ms = 1000, .first_ms = first, .last_ms = last, .tokens = tokens};
    talk.server_pid = pid;
    talk.load_ms = 1234;
    struct capture capture = capture_begin(STDERR_FILENO);
    talk_stats(&talk);
    capture_end(&capture, &out);
    snprintf(line, sizeof line, "%s", buf_text(&out));
    buf_release(&out);
    return line;
}

TEST(figures_are_said_where_they_are_wanted) {
    usual();
    EXPECT_STR(stats(5, 1100, 1300, 0), "");
    settings.stats = true;
    EXPECT_STR(stats(5, 1100, 1300, 0),
               "[stats] 5 tokens generated | first after 100 ms | 20.0 T/s\n");
    EXPECT_STR(stats(1, 1100, 1300, 0), "[stats] 1 tokens generated | first after 100 ms\n");
    EXPECT_STR(stats(2, 1100, 1100, 0), "[stats] 2 tokens generated | first after 100 ms\n");
    EXPECT_STR(stats(0, 0, 0, 7), "[stats] model loaded in 1.23 s | 0 tokens generated\n");
    buf_release(&answer);
}
