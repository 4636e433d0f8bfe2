#include "gateway/wire.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/queue.h"
#include "gateway/gateway_metrics.h"
#include "gateway/wire_deltas.h"
#include "proto/link.h"

enum {
    OUTGOING_MAX = 1 << 16,
    FETCH_WINDOW = 4,      /* chunks asked for and not here */
    FETCH_AGAIN_MS = 2000, /* ask anew after so long without progress */
    RETRY_WAIT_MS = 5,     /* the link is full, or an event thread cannot be woken */

};

struct outgoing {
    enum wire_kind kind; /* 0: only to wake the thread */
    struct buf payload;
};

/* A bundle on its way. */
struct fetch {
    bool active;
    struct u128 bundle;
    uint64_t total, asked, arrived; /* bytes; chunks come in order */
    int64_t progress_ms;
    struct buf packed;
};

struct wire {
    struct link_client *link;
    struct model_table *models;
    struct mailbox *boxes;
    int box_count;
    bool (*wake)(void *ctx, int box_idx);
    void *ctx;
    struct epoch epoch; /* of the present registration */
    struct queue *outgoing;
    struct outgoing *held; /* refused by the link for now */
    struct arena arena;
    struct fetch fetch;
    int64_t fetch_after_ms; /* not before: the last one failed */
    pthread_t thread;
    bool started;
    _Atomic bool stop, registered, wake_pending;
    _Atomic uint32_t waiting, running, waiting_max;
};

/* ---- mail ---- */

void wire_wake(struct wire *w) {
    for (int i = 0; i < w->box_count; i++) {
        if (!mailbox_needs_wake(&w->boxes[i]) || w->wake(w->ctx, i)) continue;
        mailbox_wake_failed(&w->boxes[i]);
        atomic_store(&w->wake_pending, true);
    }
}

static void put_all(struct wire *w, enum mail_kind kind, struct epoch epoch) {
    for (int i = 0; i < w->box_count; i++) {
        struct mail *mail = mail_new(kind, 0, 0, 0, false);
        mail->epoch = epoch;
        mailbox_put(&w->boxes[i], mail);
    }
}

static void on_deltas(struct wire *w, struct bytes payload) {
    struct wire_deltas deltas;
    struct error err;
    if (wire_decode_deltas(payload, &w->arena, &deltas, &err)) {
        LOG_LIMITED(LOG_WARN, "malformed deltas dropped: %s", err.text);
        return;
    }
    wire_split_deltas(&deltas, w->epoch, w->boxes, w->box_count);
}

static void on_reject(struct wire *w, struct bytes payload) {
    struct wire_reject reject;
    struct error err;
    if (wire_decode_reject(payload, &w->arena, &reject, &err) || wire_shard_of(reject.request) >= w->box_count) return;
    struct mail *mail = mail_new(MAIL_REJECT, 0, 0, 0, false);
    mail->epoch = w->epoch;
    mail->reject = (struct mail_reject){reject.request, reject.attempt, reject.code, reject.retry_after_ms, ""};
    size_t len = MIN(reject.text.len, sizeof mail->reject.text - 1);
    if (len) memcpy(mail->reject.text, reject.text.data, len);
    mailbox_put(&w->boxes[wire_shard_of(reject.request)], mail);
}

/* ---- models ---- */

static void fetch_ask(struct wire *w) {
    struct fetch *f = &w->fetch;
    while (f->asked < f->total && f->asked - f->arrived < (uint64_t)FETCH_WINDOW * WIRE_BUNDLE_CHUNK_BYTES) {
        struct wire_bundle_get get = {f->bundle, f->asked};
        struct buf payload;
        buf_init(&payload, 0);
        wire_encode_bundle_get(&get, &payload);
        f->asked = MIN(f->asked + WIRE_BUNDLE_CHUNK_BYTES, f->total);
        int rc = link_client_send(w->link, WIRE_BUNDLE_GET, buf_bytes(&payload));
        if (rc) f->progress_ms = clock_ms() - FETCH_AGAIN_MS + 100; /* soon again */
        buf_release(&payload);
    }
}

static void fetch_stop(struct wire *w) {
    buf_release(&w->fetch.packed);
    w->fetch = (struct fetch){0};
}

static void fetch_tick(struct wire *w) {
    struct fetch *f = &w->fetch;
    if (!link_client_is_registered(w->link)) return;
    if (!f->active) {
        uint64_t total;
        struct u128 bundle;
        if (clock_ms() < w->fetch_after_ms || !model_table_wants(w->models, &bundle, &total) || total > WIRE_MAX_BUNDLE)
            return;
        *f = (struct fetch){.active = true, .bundle = bundle, .total = total, .progress_ms = clock_ms()};
        buf_init(&f->packed, WIRE_MAX_BUNDLE);
    } else if (clock_ms() - f->progress_ms >= FETCH_AGAIN_MS) {
        f->asked = f->arrived;
        f->progress_ms = clock_ms();
    }
    fetch_ask(w);
}

static void fetch_done(struct wire *w) {
    struct error err;
    int rc = model_table_give(w->models, w->fetch.bundle, &w->fetch.packed, &err);
    if (rc) log_warn("bundle not taken: %s", err.text);
    if (rc) w->fetch_after_ms = clock_ms() + FETCH_AGAIN_MS;
    fetch_stop(w);
}

static void on_bundle_chunk(struct wire *w, struct bytes payload) {
    struct wire_bundle_chunk chunk;
    struct fetch *f = &w->fetch;
    struct error err;
    if (wire_decode_bundle_chunk(payload, &w->arena, &chunk, &err) || !f->active ||
        !u128_equal(chunk.bundle, f->bundle))
        return;
    if (chunk.offset != f->arrived || chunk.data.len == 0 || chunk.data.len > f->total - f->arrived) return;
    buf_add_bytes(&f->packed, chunk.data);
    f->arrived += chunk.data.len;
    f->progress_ms = clock_ms();
    if (f->asked < f->arrived) f->asked = f->arrived;
    if (f->arrived == f->total)
        fetch_done(w);
    else
        fetch_ask(w);
}

static void on_status(struct wire *w, struct bytes payload) {
    struct wire_status status;
    struct error err;
    if (wire_decode_status(payload, &w->arena, &status, &err)) {
        LOG_LIMITED(LOG_WARN, "malformed status dropped: %s", err.text);
        return;
    }
    atomic_store(&w->waiting, status.waiting);
    atomic_store(&w->running, status.running);
    atomic_store(&w->waiting_max, status.waiting_max);
    model_table_status(w->models, &status, clock_ms());
    fetch_tick(w);
}

/* ---- the link's calls ---- */

static void on_hello(void *ctx, struct wire_hello *hello) {
    (void)ctx;
    hello->name = bytes_str("gateway");
    hello->version = bytes_str(TRIREME_VERSION);
    hello->state = WIRE_STATE_IDLE;
}

static void on_registered(void *ctx, struct epoch epoch, const struct wire_welcome *welcome) {
    struct wire *w = ctx;
    (void)welcome;
    log_info("scheduler found epoch=%llu", (unsigned long long)epoch.number);
    w->epoch = epoch;
    atomic_store(&w->registered, true);
    put_all(w, MAIL_REGISTERED, epoch);
    fetch_stop(w);
}

static void on_lost(void *ctx, enum link_lost why) {
    struct wire *w = ctx;
    log_warn("scheduler lost: %s; requests wait", link_lost_text(why));
    atomic_store(&w->registered, false);
    model_table_lost(w->models, clock_ms());
    put_all(w, MAIL_LOST, w->epoch);
}

static void on_frame(void *ctx, enum wire_kind kind, struct bytes payload) {
    struct wire *w = ctx;
    arena_reset(&w->arena);
    switch (kind) {
    case WIRE_DELTAS: on_deltas(w, payload); break;
    case WIRE_REJECT: on_reject(w, payload); break;
    case WIRE_STATUS: on_status(w, payload); break;
    case WIRE_BUNDLE_CHUNK: on_bundle_chunk(w, payload); break;
    default: break; /* of a newer minor version, or not for us */
    }
}

static const struct link_client_calls calls = {
    .hello = on_hello, .registered = on_registered, .lost = on_lost, .frame = on_frame};

/* ---- the thread ---- */

static void outgoing_free(struct outgoing *o) {
    buf_release(&o->payload);
    mem_free(o);
}

/* Sends what waits; false when the link is full and something is held. */
static bool send_waiting(struct wire *w) {
    for (struct outgoing *o; (o = w->held ? w->held : queue_pop(w->outgoing));) {
        w->held = o;
        int rc = o->kind ? link_client_send(w->link, o->kind, buf_bytes(&o->payload)) : 0;
        if (rc == ERR_AGAIN) return false;
        outgoing_free(o);
        w->held = NULL;
    }
    return true;
}

static void *run(void *ctx) {
    struct wire *w = ctx;
    bool all_sent = true;
    while (!atomic_load(&w->stop)) {
        int fd = queue_fd(w->outgoing), timeout_ms = w->fetch.active ? 250 : -1;
        if (!all_sent || atomic_load(&w->wake_pending)) timeout_ms = RETRY_WAIT_MS;
        link_client_wait(w->link, &fd, NULL, all_sent ? 1 : 0, timeout_ms);
        all_sent = send_waiting(w);
        if (w->fetch.active) fetch_tick(w);
        atomic_store(&w->wake_pending, false);
        wire_wake(w);
    }
    send_waiting(w);
    return NULL;
}

int wire_new(struct wire **out, const struct wire_config *config, struct error *err) {
    struct wire *w = mem_alloc(sizeof *w);
    w->models = config->models;
    w->boxes = config->boxes;
    w->box_count = config->box_count;
    w->wake = config->wake;
    w->ctx = config->ctx;
    w->outgoing = queue_new(OUTGOING_MAX);
    arena_init(&w->arena, 0, 0);
    struct link_client_config link = {
        .endpoint = config->endpoint, .role = WIRE_ROLE_GATEWAY, .instance = config->instance};
    int rc = link_client_new(&w->link, &link, &calls, w, err);
    *out = w;
    if (rc) wire_free(out);
    return rc;
}

int wire_start(struct wire *w, struct error *err) {
    int rc = pthread_create(&w->thread, NULL, run, w);
    if (rc) return error_set(err, ERR_IO, "cannot start the control thread: %s", strerror(rc));
    w->started = true;
    return 0;
}

void wire_stop(struct wire *w) {
    struct buf nothing = {0};
    if (!w->started) return;
    atomic_store(&w->stop, true);
    wire_send(w, 0, &nothing);
    pthread_join(w->thread, NULL);
    w->started = false;
}

void wire_free(struct wire **wire) {
    struct wire *w = *wire;
    if (!w) return;
    wire_stop(w);
    if (w->link) link_client_free(&w->link);
    if (w->held) outgoing_free(w->held);
    for (struct outgoing *o; (o = queue_pop(w->outgoing));) outgoing_free(o);
    queue_free(&w->outgoing);
    fetch_stop(w);
    arena_release(&w->arena);
    mem_free(w);
    *wire = NULL;
}

void wire_send(struct wire *w, enum wire_kind kind, struct buf *payload) {
    struct outgoing *o = mem_alloc(sizeof *o);
    o->kind = kind;
    o->payload = *payload;
    *payload = (struct buf){0};
    if (queue_push(w->outgoing, o)) return;
    metric_add(&gateway_metrics[GATEWAY_METRIC_SENDS_DROPPED], 1);
    outgoing_free(o);
}

bool wire_is_registered(const struct wire *w) { return atomic_load(&w->registered); }

struct wire_load wire_last_load(const struct wire *w) {
    return (struct wire_load){atomic_load(&w->waiting), atomic_load(&w->running), atomic_load(&w->waiting_max)};
}

struct u128 wire_request_id(int shard_idx) {
    struct u128 id = random_u128();
    id.lo = (id.lo & ~(uint64_t)0xff) | (uint64_t)shard_idx;
    return id;
}
