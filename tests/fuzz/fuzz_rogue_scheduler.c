/* A rogue scheduler at a live gateway: the whole process but its signals, with its own threads, a
 * real link and real clients.
 *
 * What holds: the gateway lives; once the scheduler is an honest one again every client has its
 * answer's end, whatever was said before; and the next request gets the tokens that it got from the
 * honest one at first. */
#include "fuzz.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "gateway/gateway.h"
#include "gateway/gateway_main.h"
#include "proto/link.h"
#include "rogue/rogue.h"
#include "text/bundle.h"

enum { CLIENTS = 4, RUNS = 32, MAX_TOKENS = 12, PATIENCE_MS = 120000 };

/* ---- An honest scheduler: one run for each choice that was submitted ---- */

struct run {
    bool used, told; /* its finish */
    struct u128 request;
    uint32_t attempt, choice, next, length;
};
static struct {
    struct link_server *link;
    struct u128 gateway; /* zero: not there */
    struct run runs[RUNS];
    struct buf bundle, out;
    struct u128 bundle_hash;
    struct arena arena;
    int64_t status_ms;
} scheduler;
static struct rogue rogue;
static bool is_rogue;

static void say(enum wire_kind kind, const void *message) {
    buf_reset(&scheduler.out);
    message_pack(kind, message, &scheduler.out);
    int rc = link_server_send(scheduler.link, scheduler.gateway, kind, buf_bytes(&scheduler.out));
    CHECK(rc == 0 || rc == ERR_CLOSED || rc == ERR_AGAIN);
}

/* The same, with some fields changed if the rogue wants it. */
static void say_changed(enum wire_kind kind, void *message) {
    if (is_rogue && rogue_byte(&rogue) % 2)
        rogue_change(&rogue, kind, message);
    if (is_rogue)
        rogue_pack(&rogue, kind, message, &scheduler.out); /* remembers it */
    say(kind, message);
}

static void remove_runs(struct u128 request, uint32_t choice) {
    for (int i = 0; i < RUNS; i++)
        if (u128_equal(scheduler.runs[i].request, request) &&
            (choice == WIRE_ALL_CHOICES || choice == scheduler.runs[i].choice))
            scheduler.runs[i].used = false;
}

static void take_submit(const struct wire_submit *m) {
    remove_runs(m->request, WIRE_ALL_CHOICES);
    if (is_rogue) /* whose event thread is another one, or none (request_id.h) */
        rogue_note_id(&rogue, (struct u128){.hi = m->request.hi, .lo = m->request.lo ^ 0xc5});
    for (size_t k = 0; k < m->choice_count; k++) {
        int i = 0;
        while (i < RUNS && scheduler.runs[i].used)
            i++;
        if (i == RUNS || m->choices[k].finished)
            continue;
        scheduler.runs[i] = (struct run){.used = true,
                                         .request = m->request,
                                         .attempt = m->attempt,
                                         .choice = m->choices[k].choice,
                                         .next = (uint32_t)m->choices[k].emitted.count,
                                         .length = m->max_tokens};
    }
}

static void take_resend(const struct wire_resend *m) {
    for (int i = 0; i < RUNS; i++) {
        struct run *r = &scheduler.runs[i];
        if (!r->used || !u128_equal(r->request, m->request) || r->choice != m->choice)
            continue;
        r->next = MIN(m->index, r->length);
        r->told = false;
        return;
    }
    struct wire_reject unknown = {
        .request = m->request, .attempt = m->attempt, .code = WIRE_REJECT_UNKNOWN};
    say(WIRE_REJECT, &unknown);
}

static void take_bundle_get(const struct wire_bundle_get *m) {
    if (!u128_equal(m->bundle, scheduler.bundle_hash) || m->offset >= scheduler.bundle.len)
        return;
    size_t len = MIN(scheduler.bundle.len - m->offset, WIRE_BUNDLE_CHUNK_BYTES);
    struct wire_bundle_chunk chunk = {m->bundle, m->offset, scheduler.bundle.len,
                                      bytes_of(scheduler.bundle.data + m->offset, len)};
    say_changed(WIRE_BUNDLE_CHUNK, &chunk);
}

static void on_frame(void *ctx, struct u128 peer, enum wire_role role, enum wire_kind kind,
                     struct bytes payload) {
    union {
        struct wire_submit submit;
        struct wire_ack ack;
        struct wire_cancel cancel;
        struct wire_resend resend;
        struct wire_bundle_get bundle_get;
    } m;
    struct error err;
    if (is_rogue)
        rogue_note(&rogue, kind, payload);
    if (kind != WIRE_SUBMIT && kind != WIRE_ACK && kind != WIRE_CANCEL && kind != WIRE_RESEND &&
        kind != WIRE_BUNDLE_GET)
        return;
    arena_reset(&scheduler.arena);
    CHECK_MSG(message_unpack(kind, payload, &scheduler.arena, &m, &err) == 0, "%s", err.text);
    if (kind == WIRE_SUBMIT)
        take_submit(&m.submit);
    else if (kind == WIRE_CANCEL)
        remove_runs(m.cancel.request, m.cancel.choice);
    else if (kind == WIRE_RESEND)
        take_resend(&m.resend);
    else if (kind == WIRE_BUNDLE_GET)
        take_bundle_get(&m.bundle_get);
}

static bool on_hello(void *ctx, struct u128 peer, const struct wire_hello *hello,
                     struct wire_welcome *welcome) {
    welcome->features = WIRE_FEATURE_BASE;
    scheduler.gateway = peer;
    scheduler.status_ms = 0; /* due */
    return true;
}

static void on_gone(void *ctx, struct u128 peer, enum wire_role role) {
    scheduler.gateway = (struct u128){0};
}

static enum link_verdict on_epoch(void *ctx, struct epoch *mine, const struct frame *frame,
                                  const struct wire_hello *hello, bool served) {
    return hello || epoch_compare(frame->epoch, *mine) == 0 ? LINK_TAKE : LINK_STALE;
}

static void say_status(void) {
    struct wire_model_status model = {.model = bytes_str("fake"),
                                      .revision = {5, 5},
                                      .bundle = scheduler.bundle_hash,
                                      .bundle_bytes = scheduler.bundle.len,
                                      .max_context = 4096,
                                      .logits_width = 1 << 20,
                                      .replicas_ready = 1,
                                      .replicas_known = 1};
    struct wire_status status = {.models = &model, .model_count = 1};
    scheduler.status_ms = clock_ms();
    say_changed(WIRE_STATUS, &status);
}

/* The next tokens of a run, up to `most`, or its finish; flags in the first. */
static void say_tokens(struct run *r, uint32_t most) {
    uint32_t tokens[MAX_TOKENS],
        count = MIN(MIN(most, r->length - MIN(r->next, r->length)), (uint32_t)MAX_TOKENS);
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = 100 + (r->next + i) * 7 + r->choice;
    bool ends = r->next + count >= r->length;
    uint32_t finish = ends ? WIRE_FINISH_LENGTH : WIRE_FINISH_NONE, cached = 0,
             flags = r->next ? 0 : WIRE_DELTA_ACCEPTED;
    struct wire_deltas d = {.requests = {&r->request, 1},
                            .attempts = {&r->attempt, 1},
                            .choices = {&r->choice, 1},
                            .indexes = {&r->next, 1},
                            .token_counts = {&count, 1},
                            .finishes = {&finish, 1},
                            .cached_counts = {&cached, 1},
                            .flags = {&flags, 1},
                            .tokens = {tokens, count}};
    say_changed(WIRE_DELTAS, &d);
    r->next += count;
    r->told = ends;
}

static void step(uint32_t most) {
    for (int i = 0; i < RUNS; i++)
        if (scheduler.runs[i].used && !scheduler.runs[i].told)
            say_tokens(&scheduler.runs[i], most);
}

/* ---- The gateway and its clients ---- */

static char dir[] = "/tmp/trireme-rogue-XXXXXX", endpoint[64];
static struct gateway_settings defaults, settings;
static struct gateway *gateway;

static void end_all(void) {
    gateway_free(&gateway);
    link_server_free(&scheduler.link);
    arena_release(&scheduler.arena);
    buf_release(&scheduler.bundle);
    buf_release(&scheduler.out);
    option_free(&gateway_options, &defaults);
    unlink(endpoint + strlen("ipc://"));
    rmdir(dir);
}

static void start_all(void) {
    static char *no_args[] = {(char *)"gateway"};
    static const struct link_server_calls calls = {
        .check_epoch = on_epoch, .hello = on_hello, .frame = on_frame, .gone = on_gone};
    const char *endpoints[] = {endpoint};
    struct link_server_config link = {
        .endpoints = endpoints, .endpoint_count = 1, .epoch = {1, {1, 1}}};
    struct error err;
    size_t positional;
    log_init("fuzz", LOG_ERROR + 1, false);
    CHECK(mkdtemp(dir));
    snprintf(endpoint, sizeof endpoint, "ipc://%s/s", dir);
    CHECK_MSG(bundle_pack(TRIREME_SOURCE_DIR "/demo/model", &scheduler.bundle, &err) == 0, "%s",
              err.text);
    scheduler.bundle_hash = bundle_hash(buf_bytes(&scheduler.bundle));
    CHECK_MSG(link_server_new(&scheduler.link, &link, &calls, NULL, &err) == 0, "%s", err.text);
    CHECK(option_parse(&gateway_options, &defaults, 1, no_args, NULL, 0, &positional, &err) ==
          OPTION_RUN);
    settings = defaults;
    settings.scheduler = endpoint;
    settings.port = 0;
    CHECK_MSG(gateway_new(&gateway, &settings, &err) == 0, "%s", err.text);
    atexit(end_all);
}

struct client {
    int fd; /* -1: none */
    struct buf in;
};
static struct client clients[CLIENTS] = {{-1, {0}}, {-1, {0}}, {-1, {0}}, {-1, {0}}};

static void client_open(struct client *c, const char *path, const char *body) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(gateway_port(gateway)),
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    char text[1024];
    int len = snprintf(text, sizeof text,
                       "POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                       "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                       path, strlen(body), body);
    buf_reset(&c->in);
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(connect(c->fd, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(write(c->fd, text, (size_t)len) == len);
    CHECK(fcntl(c->fd, F_SETFL, O_NONBLOCK) == 0);
}

static void client_close(struct client *c) {
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
}

/* Takes what has come; at the end of its answer it is closed, and the answer is a whole one. */
static void client_read(struct client *c) {
    char data[4096];
    ssize_t n = 1;
    while (c->fd >= 0 && (n = read(c->fd, data, sizeof data)) > 0)
        buf_add(&c->in, data, (size_t)n);
    if (c->fd < 0 || (n < 0 && errno == EAGAIN))
        return;
    client_close(c);
    CHECK_MSG(n == 0 && c->in.len > 12 && memcmp(c->in.data, "HTTP/1.1 ", 9) == 0,
              "no answer: %.*s", (int)MIN(c->in.len, (size_t)200), buf_text(&c->in));
}

static bool clients_wait(void) {
    bool any = false;
    for (int i = 0; i < CLIENTS; i++) {
        client_read(&clients[i]);
        any |= clients[i].fd >= 0;
    }
    return any;
}

static void turn(int64_t wait_ms) {
    link_server_wait(scheduler.link, NULL, NULL, 0, wait_ms);
    if (clock_ms() - scheduler.status_ms > 1000 && !u128_is_zero(scheduler.gateway))
        say_status();
}

/* ---- Honest: five tokens ---- */

static void generate(char out[64]) {
    struct client *c = &clients[0];
    int64_t end = clock_ms() + PATIENCE_MS;
    do { /* until its model is known again */
        CHECK(clock_ms() < end);
        client_open(c, "/v1/completions",
                    "{\"prompt\":\"Once\",\"max_tokens\":5,\"seed\":1,\"ignore_eos\":true}");
        while (c->fd >= 0) {
            CHECK_MSG(clock_ms() < end, "an honest answer has no end");
            turn(1);
            step(2);
            client_read(c);
        }
    } while (memcmp(c->in.data, "HTTP/1.1 200", 12) != 0);
    const char *text = strstr(buf_text(&c->in), "\"text\":\"");
    CHECK(text);
    snprintf(out, 64, "%.*s", (int)MIN(strcspn(text + 8, "\""), (size_t)63), text + 8);
}

/* All that was begun ends: the gateway registers anew, and submits what is open from where it is. */
static void be_honest(void) {
    int64_t end = clock_ms() + PATIENCE_MS;
    is_rogue = false;
    memset(scheduler.runs, 0, sizeof scheduler.runs);
    if (!u128_is_zero(scheduler.gateway))
        link_server_drop(scheduler.link, scheduler.gateway);
    scheduler.gateway = (struct u128){0};
    while (clients_wait() || u128_is_zero(scheduler.gateway)) {
        CHECK_MSG(clock_ms() < end, "an answer has no end");
        turn(1);
        step(MAX_TOKENS);
    }
}

/* ---- Rogue ---- */

static void ask(uint8_t how) {
    static const struct {
        const char *path, *body;
    } ASKS[] = {
        {"/v1/completions", "{\"prompt\":\"a\",\"max_tokens\":8,\"stream\":true}"},
        {"/v1/completions", "{\"prompt\":[\"a\",\"b\"],\"max_tokens\":6,\"n\":2,\"logprobs\":2}"},
        {"/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"
                                 "\"max_tokens\":9,\"stream\":true,\"logprobs\":true}"},
        {"/v1/messages", "{\"model\":\"fake\",\"max_tokens\":9,\"messages\":[{\"role\":\"user\","
                         "\"content\":\"a\"}]}"},
        {"/v1/responses", "{\"input\":\"a\",\"max_output_tokens\":16,\"stream\":true}"},
        {"/v1/embeddings", "{\"input\":\"a\"}"},
        {"/v1/completions", "{\"prompt\":\"a\",\"max_tokens\":8,\"stop\":\"e\"}"},
    };
    struct client *c = &clients[how % CLIENTS];
    client_close(c); /* whoever was there leaves */
    client_open(c, ASKS[how / CLIENTS % ARRAY_LEN(ASKS)].path,
                ASKS[how / CLIENTS % ARRAY_LEN(ASKS)].body);
}

static void reject(uint8_t how) {
    const struct run *r = &scheduler.runs[how % RUNS];
    struct wire_reject m = {.request = r->request,
                            .attempt = r->attempt,
                            .code = (enum wire_reject_code)(1 + how / 8 % WIRE_REJECT_DRAINING),
                            .text = bytes_str("no")};
    say_changed(WIRE_REJECT, &m);
}

static void say_drawn(void) {
    union {
#define MEMBER(kind, name) struct wire_##name name;
        WIRE_MESSAGES(MEMBER)
#undef MEMBER
    } message;
    enum wire_kind kind = (enum wire_kind)(1 + rogue_byte(&rogue) % (WIRE_KIND_MAX - 1));
    if (!message_size(kind) || kind == WIRE_WELCOME)
        return;
    rogue_draw(&rogue, kind, &message);
    rogue_pack(&rogue, kind, &message, &scheduler.out);
    say(kind, &message);
}

static void say_again(void) {
    static struct buf payload;
    enum wire_kind kind = rogue_again(&rogue, &payload);
    if (kind && link_server_send(scheduler.link, scheduler.gateway, kind, buf_bytes(&payload)))
        return; /* it is lost, as anything may be */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
    static char expected[64];
    char text[64];
    if (!gateway) {
        start_all();
        generate(expected);
    }
    rogue_init(&rogue, data, len);
    rogue_note_text(&rogue, "fake");
    rogue_note_id(&rogue, scheduler.bundle_hash);
    is_rogue = true;
    while (rogue.at < rogue.end) {
        uint8_t what = rogue_byte(&rogue);
        if (what < 50)
            ask(what);
        else if (what < 130)
            step(what % 4);
        else if (what < 150)
            reject(rogue_byte(&rogue));
        else if (what < 160)
            say_status();
        else if (what < 200)
            say_drawn();
        else if (what < 215)
            say_again();
        turn(what % 8 == 0);
        clients_wait();
    }
    be_honest();
    generate(text);
    CHECK_MSG(strcmp(text, expected) == 0, "'%s' in place of '%s'", text, expected);
    rogue_release(&rogue);
    return 0;
}
