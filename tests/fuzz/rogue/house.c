#include "rogue/house.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "scheduler/scheduler_main.h"

enum { TURN_MS = 5, SLOW_MS = 50, ALIVE_MS = 400 };

static const struct u128 ROGUES[HOUSE_ROGUES] = {{1, 77}, {2, 77}};

/* A folder for the cache's secret, of all runs; removed at exit. */
static char run_dir[] = "/tmp/trireme-rogue-XXXXXX";

static void remove_run_dir(void) {
    char path[sizeof run_dir + 16];
    snprintf(path, sizeof path, "%s/cache.key", run_dir);
    unlink(path);
    rmdir(run_dir);
}
static void make_run_dir(void) {
    CHECK(mkdtemp(run_dir));
    atexit(remove_run_dir);
}

static void fill_settings(struct scheduler_settings *s) {
    static char *no_args[] = {(char *)"scheduler"};
    static struct scheduler_settings defaults;
    static bool parsed;
    struct error err;
    size_t positional;
    if (!parsed) {
        make_run_dir();
        CHECK(option_parse(&scheduler_options, &defaults, 1, no_args, NULL, 0, &positional, &err) ==
              OPTION_RUN);
    }
    parsed = true;
    *s = defaults;
    s->listen = "ipc:///here";
    s->run_dir = run_dir;
    s->admin_port = -1;
    s->queue_max = 8;
    s->tenant_streams = 2;
    s->record_bytes = 20000;
    s->model_grace_ms = 5000;
}

static void on_heard(void *ctx, struct u128 peer, enum wire_kind kind, struct bytes payload) {
    struct house *h = ctx;
    rogue_note(&h->rogue, kind, payload);
    if (h->hear)
        h->hear(h, kind, payload);
}

/* So that what it says is not lost for its silence alone. */
static void keep_alive(struct house *h) {
    struct wire_heartbeat beat = {.state = WIRE_STATE_IDLE};
    if (clock_ms() - h->said_ms < ALIVE_MS)
        return;
    h->said_ms = clock_ms();
    buf_reset(&h->out);
    message_pack_heartbeat(&beat, &h->out);
    for (size_t i = 0; i < HOUSE_ROGUES; i++)
        if (h->incarnations[i])
            link_here_say(ROGUES[i], h->role, WIRE_HEARTBEAT, link_server_epoch(h->process.link),
                          buf_bytes(&h->out));
}

static void turn(struct house *h) {
    process_turn(&h->process, 0);
    CHECK(h->process.end == PROCESS_RUNS);
    sched_check(h->process.core);
    fake_gateway_run(h->gateway, 0);
    fake_worker_run(h->worker, TURN_MS);
    CHECK(fake_worker_faults(h->worker) == 0);
}

void house_run(struct house *h, int64_t ms) {
    int64_t end = clock_ms() + ms;
    do {
        turn(h);
        keep_alive(h);
    } while (clock_ms() < end);
}

void house_open(struct house *h, enum wire_role rogue_role, const uint8_t *data, size_t len) {
    struct error err;
    sigset_t none;
    log_init("fuzz", LOG_ERROR + 1, false);
    memset(h, 0, sizeof *h);
    link_here_reset();
    rogue_init(&h->rogue, data, len);
    rogue_note_text(&h->rogue, "fake");
    rogue_note_text(&h->rogue, "fake");
    rogue_note_text(&h->rogue, "s1");
    for (size_t i = 0; i < HOUSE_ROGUES; i++)
        rogue_note_id(&h->rogue, ROGUES[i]);
    h->role = rogue_role;
    fill_settings(&h->settings);
    CHECK(process_init(&h->process, &h->settings, &err) == 0);
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
    link_here_listen(on_heard, h);
    struct fake_worker_config worker = {
        .endpoint = "ipc:///here",
        .instance = HOUSE_WORKER,
        .slots = 3,
        .blocks = 24,
        .block_tokens = 4,
        .max_context = 80,
        .step_ms = rogue_role == WIRE_ROLE_WORKER ? SLOW_MS : 0}; /* most goes to the rogue */
    CHECK(fake_worker_new(&h->worker, &worker, &err) == 0);
    CHECK(fake_gateway_new(&h->gateway, "ipc:///here", &err) == 0);
    h->gateway->any_token = rogue_role == WIRE_ROLE_WORKER;
    house_run(h, 20);
    CHECK(h->gateway->registered == 1);
}

/* By the house's own clock, so that no machine is too slow. Requests of a gateway that has fallen
 * silent are dropped after some seconds, replicas that were lost are waited for as long: a minute is
 * enough for all of it. */
static void run_to_the_end(struct house *h) {
    enum { PATIENCE_MS = 60000, LEAP_MS = 100 };
    memset(h->incarnations, 0, sizeof h->incarnations);
    for (int64_t end = clock_ms() + PATIENCE_MS;
         fake_gateway_open_count(h->gateway) && clock_ms() < end;) {
        turn(h);
        fake_worker_run(h->worker, LEAP_MS);
    }
    CHECK(fake_gateway_open_count(h->gateway) == 0);
}

void house_close(struct house *h) {
    run_to_the_end(h);
    fake_gateway_free(&h->gateway);
    fake_worker_free(&h->worker);
    process_release(&h->process);
    link_here_listen(NULL, NULL);
    rogue_release(&h->rogue);
    buf_release(&h->out);
}

void house_submit(struct house *h) {
    if (h->gateway->stream_count == HOUSE_STREAMS)
        return;
    uint8_t how = rogue_byte(&h->rogue);
    size_t i = fake_gateway_submit(h->gateway, how % 4, 1 + how % 24, 1 + how / 8);
    if (h->role == WIRE_ROLE_GATEWAY) /* even if it has learnt their ids */
        rogue_note_id(&h->rogue, h->gateway->streams[i].request);
}

/* ---- What the rogue says ---- */

void house_say(struct house *h, enum wire_kind kind, struct bytes payload) {
    uint8_t how = rogue_byte(&h->rogue);
    struct epoch epoch = link_server_epoch(h->process.link);
    if (how >= 248)
        epoch.number -= how == 255 ? epoch.number : 1u;
    link_here_say(ROGUES[how % 4 == 3], h->role, kind, epoch, payload);
}

void house_say_packed(struct house *h, enum wire_kind kind, const void *message) {
    rogue_pack(&h->rogue, kind, message, &h->out);
    house_say(h, kind, buf_bytes(&h->out));
}

void house_say_changed(struct house *h, enum wire_kind kind, void *message) {
    if (rogue_byte(&h->rogue) % 2)
        rogue_change(&h->rogue, kind, message);
    house_say_packed(h, kind, message);
}

static void fill_worker(struct wire_hello *hello, struct wire_kv_group *group, uint8_t how) {
    *group = (struct wire_kv_group){.kind = how & 1 ? WIRE_GROUP_RECURRENT : WIRE_GROUP_FULL,
                                    .block_tokens = 4,
                                    .block_count = 24};
    hello->tp = hello->pp = how & 2 ? 2 : 1;
    hello->replica = how & 4 ? (struct u128){9, 9} : hello->instance;
    hello->state = WIRE_STATE_IDLE;
    hello->model = bytes_str("fake");
    hello->revision = (struct u128){1, 1};
    hello->fingerprint = (struct u128){2, 2};
    hello->bundle = fake_bundle_hash(1000);
    hello->bundle_bytes = 1000;
    hello->slot_count = 3;
    hello->max_step_tokens = 64;
    hello->max_context = 80;
    hello->logits_width = 5000;
    hello->steps_in_flight = 2;
    hello->snapshot_count = how & 1 ? 3 : 0;
    hello->groups = group;
    hello->group_count = 1;
}

/* The checks walk over every block of a replica, and a Hello may claim millions. */
static void limit_groups(struct wire_hello *hello) {
    enum { BLOCKS_MAX = 200 };
    static struct wire_kv_group groups[WIRE_MAX_GROUPS];
    hello->group_count = MIN(hello->group_count, ARRAY_LEN(groups));
    for (size_t i = 0; i < hello->group_count; i++) {
        groups[i] = hello->groups[i];
        groups[i].block_count = MIN(groups[i].block_count, (uint32_t)BLOCKS_MAX);
    }
    hello->groups = groups;
    hello->snapshot_count = MIN(hello->snapshot_count, (uint32_t)BLOCKS_MAX);
}

void house_hello(struct house *h) {
    struct wire_hello hello;
    struct wire_kv_group group;
    struct rogue *r = &h->rogue;
    uint8_t how = rogue_byte(r);
    int which = how & 128 ? 1 : 0;
    hello = (struct wire_hello){
        .role = h->role, .instance = ROGUES[which], .incarnation = ++h->incarnations[which]};
    if (h->role == WIRE_ROLE_WORKER)
        fill_worker(&hello, &group, how & 64 ? how : 0);
    if (rogue_byte(r) % 4 == 3) {
        rogue_change(r, WIRE_HELLO, &hello);
        hello.epoch_number = 0; /* who may raise the epoch is another question: link.h */
        hello.role = h->role;
        hello.instance = ROGUES[which];
        limit_groups(&hello);
    }
    rogue_pack(r, WIRE_HELLO, &hello, &h->out);
    link_here_say(ROGUES[which], h->role, WIRE_HELLO, link_server_epoch(h->process.link),
                  buf_bytes(&h->out));
}

void house_say_drawn(struct house *h) {
    union {
#define MEMBER(kind, name) struct wire_##name name;
        WIRE_MESSAGES(MEMBER)
#undef MEMBER
    } message;
    enum wire_kind kind = (enum wire_kind)(1 + rogue_byte(&h->rogue) % (WIRE_KIND_MAX - 1));
    if (!message_size(kind) || kind == WIRE_HELLO)
        return;
    rogue_draw(&h->rogue, kind, &message);
    house_say_packed(h, kind, &message);
}

void house_say_again(struct house *h) {
    enum wire_kind kind = rogue_again(&h->rogue, &h->out);
    if (kind && kind != WIRE_HELLO)
        house_say(h, kind, buf_bytes(&h->out));
}
