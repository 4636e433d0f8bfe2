/*
 * test_trust.c - a whole scheduler on tcp: what somebody without a key can do there (nothing), and
 * which kinds each role may say, over all kinds and roles.
 *
 * The scheduler's process, a gateway and a worker made of arithmetic (tests/fakes) and the strangers
 * take turns in this thread.
 */
#include "check.h"
#include "fakes/fake_gateway.h"
#include "fakes/fake_worker.h"
#include "proto/link_peer.h"
#include "proto/random_message.h"
#include "scheduler/process.h"
#include "scheduler/scheduler_main.h"
#include "scheduler/scheduler_metrics.h"

#define LATER (UINT64_C(1) << 50) /* an epoch above every other */

struct stage {
    struct tcp_keys keys;
    struct scheduler_settings settings;
    struct process process;
    const char *endpoint;
    struct fake_gateway *gateway;
    struct fake_worker *worker;
};

static bool stage_open(struct stage *t) {
    char key[96], allow[96], dir[96];
    struct error err = {0};
    *t = (struct stage){0};
    if (!tcp_keys_make(&t->keys))
        return false;
    snprintf(key, sizeof key, "--key-file=%s", t->keys.files[WIRE_ROLE_SCHEDULER]);
    snprintf(allow, sizeof allow, "--allow-keys=%s", t->keys.allow);
    snprintf(dir, sizeof dir, "--run-dir=%s", t->keys.folder);
    char *argv[] = {(char[]){"scheduler"}, (char[]){"--listen=tcp://127.0.0.1:*"}, key, allow, dir};
    size_t rest;
    int rc =
        option_parse(&scheduler_options, &t->settings, ARRAY_LEN(argv), argv, NULL, 0, &rest, &err);
    if (rc == 0)
        rc = process_init(&t->process, &t->settings, &err);
    if (rc)
        printf("# %s\n", err.text);
    t->endpoint = rc ? NULL : link_server_address(t->process.link, 0);
    return rc == 0;
}

static bool open_peers(struct stage *t) {
    struct fake_worker_config worker = {.endpoint = t->endpoint,
                                        .key_file = t->keys.files[WIRE_ROLE_WORKER],
                                        .allow_keys = t->keys.allow};
    return fake_worker_new(&t->worker, &worker, NULL) == 0 &&
           fake_gateway_new_on_tcp(&t->gateway, t->endpoint, t->keys.files[WIRE_ROLE_GATEWAY],
                                   t->keys.allow, NULL) == 0;
}

static void stage_close(struct stage *t) {
    char path[80];
    fake_gateway_free(&t->gateway);
    fake_worker_free(&t->worker);
    process_release(&t->process);
    option_free(&scheduler_options, &t->settings);
    snprintf(path, sizeof path, "%s/cache.key", t->keys.folder);
    unlink(path);
    tcp_keys_remove(&t->keys);
}

static void turn(struct stage *t) {
    process_turn(&t->process, 1);
    if (t->worker)
        fake_worker_run(t->worker, 1);
    if (t->gateway)
        fake_gateway_run(t->gateway, 1);
}

#define UNTIL(t, ms, cond)                                                                         \
    do {                                                                                           \
        int64_t end_ = clock_ms() + (ms);                                                          \
        while (!(cond) && clock_ms() < end_)                                                       \
            turn(t);                                                                               \
    } while (0)

static int64_t metric(enum scheduler_metric which) {
    return metric_value(&scheduler_metrics[which], 0);
}

/* ---- Somebody without a key ---- */

struct strangers {
    struct tcp_keys keys; /* his own: nobody allowed them */
    struct fake_gateway *gateway;
    struct fake_worker *worker;
};

/* He knows the scheduler's public key, which is no secret, and makes the others himself. */
static bool strangers_open(struct strangers *s, const struct stage *t) {
    struct link_key_pair scheduler;
    struct allow_row row = {.role = WIRE_ROLE_SCHEDULER};
    if (!tcp_keys_make(&s->keys) || !tcp_keys_disallow(&s->keys, WIRE_ROLE_SCHEDULER) ||
        link_key_file_read(t->keys.files[WIRE_ROLE_SCHEDULER], WIRE_ROLE_SCHEDULER, &scheduler,
                           NULL))
        return false;
    row.key = scheduler.public_key;
    struct fake_worker_config worker = {.endpoint = t->endpoint,
                                        .key_file = s->keys.files[WIRE_ROLE_WORKER],
                                        .allow_keys = s->keys.allow};
    return allow_list_add(s->keys.allow, &row, NULL) == 0 &&
           fake_worker_new(&s->worker, &worker, NULL) == 0 &&
           fake_gateway_new_on_tcp(&s->gateway, t->endpoint, s->keys.files[WIRE_ROLE_GATEWAY],
                                   s->keys.allow, NULL) == 0;
}

static void strangers_close(struct strangers *s) {
    fake_gateway_free(&s->gateway);
    fake_worker_free(&s->worker);
    tcp_keys_remove(&s->keys);
}

/* A Hello of an epoch that is to come, without a key, then with one that nobody allowed. */
static void send_future(void *raw) {
    struct wire_hello hello = {.role = WIRE_ROLE_GATEWAY,
                               .instance = {9, 9},
                               .incarnation = 1,
                               .epoch_number = LATER,
                               .epoch_instance = {1, 1}};
    uint8_t header[FRAME_BYTES];
    struct buf out = {0};
    message_pack_hello(&hello, &out);
    frame_write(header, WIRE_HELLO, (struct epoch){LATER, {1, 1}}, buf_bytes(&out));
    zmq_send(raw, header, FRAME_BYTES, ZMQ_SNDMORE | ZMQ_DONTWAIT);
    zmq_send(raw, out.data, out.len, ZMQ_DONTWAIT);
    buf_release(&out);
}

TEST(trust_without_a_key_nobody_asks_answers_or_stops_the_scheduler) {
    struct stage t;
    struct strangers s = {0};
    uint8_t id[26] = {'T', WIRE_ROLE_GATEWAY};
    memcpy(id + 2, &(struct u128){9, 9}, 16);
    EXPECT(stage_open(&t));
    EXPECT(open_peers(&t));
    UNTIL(&t, 5000, t.gateway->status.replicas_ready == 1);
    EXPECT_EQ(t.gateway->status.replicas_ready, 1);
    EXPECT(strangers_open(&s, &t));
    fake_gateway_submit(s.gateway, 1, 20, 20);
    struct link_key_pair own;
    EXPECT_EQ(link_key_file_read(s.keys.files[WIRE_ROLE_GATEWAY], WIRE_ROLE_GATEWAY, &own, NULL),
              0);
    void *context = zmq_ctx_new();
    void *raw[] = {raw_peer(context, t.endpoint, &t.keys, NULL, false, id, sizeof id),
                   raw_peer(context, t.endpoint, &t.keys, &own, false, id, sizeof id)};
    for (int i = 0; i < 30; i++)
        fake_gateway_submit(t.gateway, 100 + (uint64_t)i, 20, 20);
    uint64_t epoch = link_server_epoch(t.process.link).number;
    int64_t began = clock_ms();
    while (clock_ms() < began + 2500 || fake_gateway_open_count(t.gateway)) {
        turn(&t);
        fake_gateway_run(s.gateway, 1);
        fake_worker_run(s.worker, 1);
        send_future(raw[0]);
        send_future(raw[1]);
        if (clock_ms() > began + 20000)
            break;
    }
    EXPECT_EQ(fake_gateway_open_count(t.gateway), 0);
    EXPECT_EQ(t.gateway->wrong, 0);
    EXPECT_EQ(t.gateway->lost, 0);
    EXPECT_EQ(t.process.end, PROCESS_RUNS);
    EXPECT_EQ(link_server_epoch(t.process.link).number, epoch);
    EXPECT_EQ(link_server_peer_count(t.process.link), 2);
    EXPECT_EQ(s.gateway->registered, 0);
    EXPECT_EQ(fake_worker_rows(s.worker), 0);
    EXPECT_EQ(metric(METRIC_REQUESTS), 30);
    EXPECT(link_server_stats(t.process.link)->refused_peers >= 4);
    zmq_close(raw[0]);
    zmq_close(raw[1]);
    zmq_ctx_term(context);
    strangers_close(&s);
    stage_close(&t);
}

/* ---- Every role and every kind ---- */

enum {
    G = 1 << WIRE_ROLE_GATEWAY,
    W = 1 << WIRE_ROLE_WORKER,
    S = 1 << WIRE_ROLE_SUPERVISOR,
};
/* Who may say it to the scheduler. Hello is of the link, and of all. */
static const int SPEAKERS[WIRE_KIND_MAX] = {
    [WIRE_HEARTBEAT] = G | W | S,
    [WIRE_DRAIN] = G | W | S,
    [WIRE_BUNDLE_GET] = G,
    [WIRE_SUBMIT] = G,
    [WIRE_CANCEL] = G,
    [WIRE_PAUSE] = G,
    [WIRE_ACK] = G,
    [WIRE_RESEND] = G,
    [WIRE_ATTACH] = G,
    [WIRE_WANT] = G,
    [WIRE_BUNDLE_CHUNK] = W,
    [WIRE_STEP_RESULT] = W,
    [WIRE_READY] = W,
    [WIRE_FAILED] = W,
    [WIRE_BLOCKS_LOST] = W,
    [WIRE_EXITED] = S,
    [WIRE_OUTCOME] = S,
};

static void fill_hello(void *ctx, struct wire_hello *hello) {
    hello->state = WIRE_STATE_LOADING;
    hello->model = bytes_str("m");
    hello->tp = hello->pp = 1;
}
static void no_frame(void *ctx, enum wire_kind kind, struct bytes payload) {}

static const struct link_client_calls SPEAKER_CALLS = {.hello = fill_hello, .frame = no_frame};

static bool settle(struct stage *t, struct link_client *client) {
    for (int64_t end = clock_ms() + 5000; clock_ms() < end;) {
        process_turn(&t->process, 1);
        link_client_wait(client, NULL, NULL, 0, 1);
        if (link_client_is_registered(client))
            return true;
    }
    return false;
}

/* How often a message of this kind counted as one that is not the sender's to send; -1: it did not
 * arrive. */
static int64_t refusals_of(struct stage *t, struct link_client *client, enum wire_kind kind) {
    static union wire_any {
        struct wire_submit submit;
        struct wire_plan plan;
        struct wire_status status;
        struct wire_deltas deltas;
        struct wire_hello hello;
        uint8_t room[4096];
    } message;
    struct arena arena = {0};
    struct buf out = {0};
    random_message(kind, &arena, &message);
    message_pack(kind, &message, &out);
    int64_t before = metric(METRIC_MALFORMED);
    const struct link_stats *stats = link_server_stats(t->process.link);
    uint64_t bad_frames = stats->bad_frames;
    /* the Hello behind it is none: that it was counted shows that what came before is done with */
    if (settle(t, client) && link_client_send(client, kind, buf_bytes(&out)) == 0 &&
        link_client_send(client, WIRE_HELLO, bytes_str("?")) == 0)
        for (int64_t end = clock_ms() + 10000; stats->bad_frames == bad_frames && clock_ms() < end;)
            process_turn(&t->process, 1);
    buf_release(&out);
    arena_release(&arena);
    return stats->bad_frames == bad_frames ? -1 : metric(METRIC_MALFORMED) - before;
}

TEST(trust_each_role_says_its_own_kinds_alone) {
    struct stage t;
    EXPECT(stage_open(&t));
    for (int role = WIRE_ROLE_GATEWAY; role <= WIRE_ROLE_SUPERVISOR; role++) {
        struct link_client_config config = {.endpoint = t.endpoint,
                                            .role = (enum wire_role)role,
                                            .key_file = t.keys.files[role],
                                            .allow_keys = t.keys.allow};
        struct link_client *client;
        EXPECT_EQ(link_client_new(&client, &config, &SPEAKER_CALLS, NULL, NULL), 0);
        for (int kind = WIRE_HELLO + 1; kind < WIRE_KIND_MAX; kind++) {
            int64_t refused = refusals_of(&t, client, (enum wire_kind)kind);
            if (refused != !(SPEAKERS[kind] & 1 << role))
                check_fail(__FILE__, __LINE__, "a %s's %s was refused %lld times",
                           link_role_name((enum wire_role)role),
                           message_kind_name((enum wire_kind)kind), (long long)refused);
        }
        link_client_free(&client);
    }
    EXPECT_EQ(t.process.end, PROCESS_RUNS);
    stage_close(&t);
}
