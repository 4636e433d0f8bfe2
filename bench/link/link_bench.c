/*
 * link_bench.c - what a frame costs on the wire, over ipc and over tcp with keys: processor time of
 * both ends and of ZeroMQ's threads, and the time of a round trip.
 *
 * A server echoes what a client sends, each in a thread. Flooded: WINDOW frames are always on their
 * way. Alone: the next frame goes when the one before is back. The transports take turns, and each
 * figure is the median of the rounds.
 */
#include "base/clock.h"
#include "base/fsutil.h"
#include "proto/link.h"
#include "proto/link_key.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { WINDOW = 256, ROUNDS_MAX = 9, TRANSPORTS = 2, SIZES = 3, WAIT_MS = 100 };
static const struct {
    size_t len;
    uint64_t count; /* frames a round */
} PAYLOADS[SIZES] = {{100, 10000}, {2000, 5000}, {60000, 500}};

struct peer_pair {
    struct link_server *server;
    struct link_client *client;
    _Atomic bool stop;
    pthread_t thread;
    struct bytes payload;
    uint64_t sent, returned, wanted, window;
};

static enum link_verdict check_epoch(void *ctx, struct epoch *mine, const struct frame *frame,
                                     const struct wire_hello *hello, bool served) {
    return LINK_TAKE;
}
static bool on_hello(void *ctx, struct u128 peer, const struct wire_hello *hello,
                     struct wire_welcome *welcome) {
    return true;
}
static void on_gone(void *ctx, struct u128 peer, enum wire_role role) {}
static void echo(void *ctx, struct u128 peer, enum wire_role role, enum wire_kind kind,
                 struct bytes payload) {
    struct peer_pair *p = ctx;
    if (kind != WIRE_HEARTBEAT)
        CHECK(link_server_send(p->server, peer, kind, payload) == 0);
}

static void send_next(struct peer_pair *p) {
    while (p->sent < p->wanted && p->sent - p->returned < p->window) {
        CHECK(link_client_send(p->client, WIRE_BUNDLE_CHUNK, p->payload) == 0);
        p->sent++;
    }
}
static void on_return(void *ctx, enum wire_kind kind, struct bytes payload) {
    struct peer_pair *p = ctx;
    p->returned++;
    send_next(p);
}

static void *run_server(void *ctx) {
    struct peer_pair *p = ctx;
    while (!atomic_load(&p->stop))
        link_server_wait(p->server, NULL, NULL, 0, WAIT_MS);
    return NULL;
}

static void open_pair(struct peer_pair *p, const char *endpoint, const char *folder) {
    static const struct link_server_calls SERVER = {
        .check_epoch = check_epoch, .hello = on_hello, .frame = echo, .gone = on_gone};
    static const struct link_client_calls CLIENT = {.frame = on_return};
    char *own = path_join(folder, "scheduler.key"), *other = path_join(folder, "gateway.key"),
         *allow = path_join(folder, "allow");
    struct link_server_config server = {.endpoints = &endpoint,
                                        .endpoint_count = 1,
                                        .epoch = {1, {1, 1}},
                                        .silence_ms = 60000,
                                        .key_file = own,
                                        .allow_keys = allow};
    struct error err;
    if (link_server_new(&p->server, &server, &SERVER, p, &err))
        CHECK_MSG(false, "%s", err.text);
    struct link_client_config client = {.endpoint = link_server_address(p->server, 0),
                                        .role = WIRE_ROLE_GATEWAY,
                                        .key_file = other,
                                        .allow_keys = allow};
    CHECK(pthread_create(&p->thread, NULL, run_server, p) == 0);
    if (link_client_new(&p->client, &client, &CLIENT, p, &err))
        CHECK_MSG(false, "%s", err.text);
    while (!link_client_is_registered(p->client))
        link_client_wait(p->client, NULL, NULL, 0, WAIT_MS);
    mem_free(own);
    mem_free(other);
    mem_free(allow);
}

static void close_pair(struct peer_pair *p) {
    atomic_store(&p->stop, true);
    pthread_join(p->thread, NULL);
    link_client_free(&p->client);
    link_server_free(&p->server);
}

static double processor_us(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

struct cost {
    double processor_us, wall_us; /* of a frame there and back */
};

static struct cost measure(struct peer_pair *p, uint64_t count, uint64_t window) {
    double processor = processor_us();
    int64_t wall = clock_us();
    p->sent = p->returned = 0;
    p->wanted = count;
    p->window = window;
    send_next(p);
    while (p->returned < count)
        link_client_wait(p->client, NULL, NULL, 0, WAIT_MS);
    return (struct cost){(processor_us() - processor) / (double)count,
                         (double)(clock_us() - wall) / (double)count};
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}
static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, compare);
    return values[count / 2];
}

static void measure_size(struct peer_pair pairs[TRANSPORTS], size_t len, int rounds,
                         uint64_t count) {
    static const char *const NAMES[TRANSPORTS] = {"ipc", "tcp with keys"};
    double flooded[TRANSPORTS][ROUNDS_MAX], alone[TRANSPORTS][ROUNDS_MAX];
    void *payload = mem_calloc(1, len);
    for (int round = 0; round < rounds; round++)
        for (int t = 0; t < TRANSPORTS; t++) {
            pairs[t].payload = bytes_of(payload, len);
            flooded[t][round] = measure(&pairs[t], count, WINDOW).processor_us;
            alone[t][round] = measure(&pairs[t], count / 10, 1).wall_us;
        }
    for (int t = 0; t < TRANSPORTS; t++)
        printf("%6zu bytes  %-14s  flooded %7.1f us of processor there and back, alone %7.1f us\n",
               len, NAMES[t], median(flooded[t], rounds), median(alone[t], rounds));
    fflush(stdout);
    mem_free(payload);
}

int main(void) {
    bool quick = getenv("TRIREME_BENCH_QUICK") != NULL;
    char folder[] = "/tmp/trmXXXXXX", ipc[64];
    struct peer_pair pairs[TRANSPORTS] = {{0}, {0}};
    struct error err;
    CHECK(mkdtemp(folder));
    snprintf(ipc, sizeof ipc, "ipc://%s/s", folder);
    if (link_keys_make(folder, &err))
        CHECK_MSG(false, "%s", err.text);
    open_pair(&pairs[0], ipc, folder);
    open_pair(&pairs[1], "tcp://127.0.0.1:*", folder);
    for (size_t i = 0; i < SIZES; i++)
        measure_size(pairs, PAYLOADS[i].len, quick ? 1 : ROUNDS_MAX,
                     quick ? 200 : PAYLOADS[i].count);
    for (int t = 0; t < TRANSPORTS; t++)
        close_pair(&pairs[t]);
    static const char *const FILES[] = {"s",          "allow",          "gateway.key",
                                        "worker.key", "supervisor.key", "scheduler.key"};
    for (size_t i = 0; i < ARRAY_LEN(FILES); i++) {
        char *path = path_join(folder, FILES[i]);
        unlink(path);
        mem_free(path);
    }
    rmdir(folder);
    return 0;
}
