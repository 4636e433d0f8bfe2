#include "gateway/link/scheduler_link.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/queue.h"
#include "gateway/link/deltas_split.h"
#include "gateway/link/request_id.h"
#include "gateway/watch/gateway_metrics.h"
#include "gateway/watch/model_metrics.h"
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

struct scheduler_link {
    struct link_client *client;
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
};

/* ---- mail ---- */

void scheduler_link_wake(struct scheduler_link *l) {
    for (int i = 0; i < l->box_count; i++) {
        if (!mailbox_needs_wake(&l->boxes[i]) || l->wake(l->ctx, i))
            continue;
        mailbox_wake_failed(&l->boxes[i]);
        atomic_store(&l->wake_pending, true);
    }
}

static void deliver_mail(struct scheduler_link *l, enum mail_kind kind, struct epoch epoch) {
    for (int i = 0; i < l->box_count; i++) {
        struct mail *mail = mail_new(kind, NULL);
        mail->epoch = epoch;
        mailbox_push(&l->boxes[i], mail);
    }
}

static void on_deltas(struct scheduler_link *l, struct bytes payload) {
    struct wire_deltas deltas;
    struct error err;
    if (message_unpack_deltas(payload, &l->arena, &deltas, &err)) {
        LOG_LIMITED(LOG_WARN, "malformed deltas dropped: %s", err.text);
        return;
    }
    deltas_split(&deltas, l->epoch, l->boxes, l->box_count);
}

static void on_reject(struct scheduler_link *l, struct bytes payload) {
    struct wire_reject reject;
    struct error err;
    if (message_unpack_reject(payload, &l->arena, &reject, &err) ||
        request_thread_idx(reject.request) >= l->box_count)
        return;
    struct mail *mail = mail_new(MAIL_REJECT, NULL);
    mail->epoch = l->epoch;
    mail->reject = (struct mail_reject){reject.request, reject.attempt, reject.code,
                                        reject.retry_after_ms, ""};
    size_t len = MIN(reject.text.len, sizeof mail->reject.text - 1);
    if (len)
        memcpy(mail->reject.text, reject.text.data, len);
    mailbox_push(&l->boxes[request_thread_idx(reject.request)], mail);
}

/* The answer to an Attach: its thread unpacks it again when it needs it. */
static void on_attached(struct scheduler_link *l, struct bytes payload) {
    struct wire_submit submit;
    struct error err;
    if (message_unpack_submit(payload, &l->arena, &submit, &err) ||
        request_thread_idx(submit.request) >= l->box_count)
        return;
    struct mail *mail = mail_new(MAIL_ATTACHED, NULL);
    mail->epoch = l->epoch;
    mail->reject.request = submit.request;
    buf_add_bytes(&mail->submit, payload);
    mailbox_push(&l->boxes[request_thread_idx(submit.request)], mail);
}

static void on_outcome(struct scheduler_link *l, struct bytes payload) {
    struct wire_outcome outcome;
    struct error err;
    if (message_unpack_outcome(payload, &l->arena, &outcome, &err))
        return;
    if (u128_is_zero(outcome.ticket)) {
        if (outcome.gone)
            model_table_removed(l->models, outcome.model, clock_ms());
        else if (outcome.done)
            model_table_loads(l->models, outcome.model);
        else
            model_table_failed(l->models, outcome.model, outcome.text, clock_ms());
        return;
    }
    if (request_thread_idx(outcome.ticket) >= l->box_count)
        return;
    struct mail *mail = mail_new(MAIL_OUTCOME, NULL);
    mail->outcome = (struct mail_outcome){outcome.ticket, outcome.done, outcome.away, outcome.gone};
    buf_add_bytes(&mail->submit, outcome.text);
    mailbox_push(&l->boxes[request_thread_idx(outcome.ticket)], mail);
}

/* ---- models ---- */

static void fetch_ask(struct scheduler_link *l) {
    struct fetch *f = &l->fetch;
    while (f->asked < f->total &&
           f->asked - f->arrived < (uint64_t)FETCH_WINDOW * WIRE_BUNDLE_CHUNK_BYTES) {
        struct wire_bundle_get get = {f->bundle, f->asked};
        struct buf payload;
        buf_init(&payload, 0);
        message_pack_bundle_get(&get, &payload);
        f->asked = MIN(f->asked + WIRE_BUNDLE_CHUNK_BYTES, f->total);
        int rc = link_client_send(l->client, WIRE_BUNDLE_GET, buf_bytes(&payload));
        if (rc)
            f->progress_ms = clock_ms() - FETCH_AGAIN_MS + 100; /* soon again */
        buf_release(&payload);
    }
}

static void fetch_stop(struct scheduler_link *l) {
    buf_release(&l->fetch.packed);
    l->fetch = (struct fetch){0};
}

static void fetch_tick(struct scheduler_link *l) {
    struct fetch *f = &l->fetch;
    if (!link_client_is_registered(l->client))
        return;
    if (!f->active) {
        uint64_t total;
        struct u128 bundle;
        if (clock_ms() < l->fetch_after_ms || !model_table_wants(l->models, &bundle, &total) ||
            total > WIRE_MAX_BUNDLE)
            return;
        *f = (struct fetch){
            .active = true, .bundle = bundle, .total = total, .progress_ms = clock_ms()};
        buf_init(&f->packed, WIRE_MAX_BUNDLE);
    } else if (clock_ms() - f->progress_ms >= FETCH_AGAIN_MS) {
        f->asked = f->arrived;
        f->progress_ms = clock_ms();
    }
    fetch_ask(l);
}

static void fetch_done(struct scheduler_link *l) {
    struct error err;
    int rc = model_table_set_bundle(l->models, l->fetch.bundle, &l->fetch.packed, &err);
    if (rc)
        LOG_LIMITED(LOG_WARN, "bundle not taken: %s", err.text);
    if (rc)
        l->fetch_after_ms = clock_ms() + FETCH_AGAIN_MS;
    fetch_stop(l);
}

static void on_bundle_chunk(struct scheduler_link *l, struct bytes payload) {
    struct wire_bundle_chunk chunk;
    struct fetch *f = &l->fetch;
    struct error err;
    if (message_unpack_bundle_chunk(payload, &l->arena, &chunk, &err) || !f->active ||
        !u128_equal(chunk.bundle, f->bundle))
        return;
    if (chunk.offset != f->arrived || chunk.data.len == 0 || chunk.data.len > f->total - f->arrived)
        return;
    buf_add_bytes(&f->packed, chunk.data);
    f->arrived += chunk.data.len;
    f->progress_ms = clock_ms();
    if (f->asked < f->arrived)
        f->asked = f->arrived;
    if (f->arrived == f->total)
        fetch_done(l);
    else
        fetch_ask(l);
}

static void on_status(struct scheduler_link *l, struct bytes payload) {
    struct wire_status status;
    struct error err;
    if (message_unpack_status(payload, &l->arena, &status, &err)) {
        LOG_LIMITED(LOG_WARN, "malformed status dropped: %s", err.text);
        return;
    }
    model_metrics_tell(&status);
    model_table_status(l->models, &status, clock_ms());
    fetch_tick(l);
}

/* ---- the link's calls ---- */

static void on_hello(void *ctx, struct wire_hello *hello) {
    (void)ctx;
    hello->name = bytes_str("gateway");
    hello->version = bytes_str(TRIREME_VERSION);
    hello->state = WIRE_STATE_IDLE;
}

static void on_registered(void *ctx, struct epoch epoch, const struct wire_welcome *welcome) {
    struct scheduler_link *l = ctx;
    (void)welcome;
    LOG_SOME(LOG_INFO, "scheduler found epoch=%llu", (unsigned long long)epoch.number);
    l->epoch = epoch;
    atomic_store(&l->registered, true);
    metric_set(&gateway_metrics[GATEWAY_METRIC_SCHEDULER], 1);
    deliver_mail(l, MAIL_REGISTERED, epoch);
    fetch_stop(l);
}

static void on_lost(void *ctx, enum link_lost why) {
    struct scheduler_link *l = ctx;
    LOG_SOME(LOG_WARN, "scheduler lost: %s; requests wait", link_lost_text(why));
    atomic_store(&l->registered, false);
    metric_set(&gateway_metrics[GATEWAY_METRIC_SCHEDULER], 0);
    model_metrics_lost();
    model_table_lost(l->models, clock_ms());
    deliver_mail(l, MAIL_LOST, l->epoch);
}

static void on_frame(void *ctx, enum wire_kind kind, struct bytes payload) {
    struct scheduler_link *l = ctx;
    arena_reset(&l->arena);
    switch (kind) {
    case WIRE_DELTAS: on_deltas(l, payload); break;
    case WIRE_REJECT: on_reject(l, payload); break;
    case WIRE_SUBMIT: on_attached(l, payload); break;
    case WIRE_STATUS: on_status(l, payload); break;
    case WIRE_OUTCOME: on_outcome(l, payload); break;
    case WIRE_BUNDLE_CHUNK: on_bundle_chunk(l, payload); break;
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
static bool send_waiting(struct scheduler_link *l) {
    for (struct outgoing *o; (o = l->held ? l->held : queue_pop(l->outgoing));) {
        l->held = o;
        int rc = o->kind ? link_client_send(l->client, o->kind, buf_bytes(&o->payload)) : 0;
        if (rc == ERR_AGAIN)
            return false;
        outgoing_free(o);
        l->held = NULL;
    }
    return true;
}

static void *link_thread_main(void *ctx) {
    struct scheduler_link *l = ctx;
    bool all_sent = true;
    while (!atomic_load(&l->stop)) {
        int fd = queue_fd(l->outgoing), timeout_ms = l->fetch.active ? 250 : -1;
        if (!all_sent || atomic_load(&l->wake_pending))
            timeout_ms = RETRY_WAIT_MS;
        link_client_wait(l->client, &fd, NULL, all_sent ? 1 : 0, timeout_ms);
        all_sent = send_waiting(l);
        if (l->fetch.active)
            fetch_tick(l);
        atomic_store(&l->wake_pending, false);
        scheduler_link_wake(l);
    }
    send_waiting(l);
    return NULL;
}

int scheduler_link_new(struct scheduler_link **out, const struct scheduler_link_config *config,
                       struct error *err) {
    struct scheduler_link *l = mem_alloc(sizeof *l);
    l->models = config->models;
    l->boxes = config->boxes;
    l->box_count = config->box_count;
    l->wake = config->wake;
    l->ctx = config->ctx;
    l->outgoing = queue_new(OUTGOING_MAX);
    arena_init(&l->arena, 0, 0);
    struct link_client_config link = {.endpoint = config->endpoint,
                                      .role = WIRE_ROLE_GATEWAY,
                                      .instance = config->instance,
                                      .key_file = config->key_file,
                                      .allow_keys = config->allow_keys};
    int rc = link_client_new(&l->client, &link, &calls, l, err);
    *out = l;
    if (rc)
        scheduler_link_free(out);
    return rc;
}

int scheduler_link_start(struct scheduler_link *l, struct error *err) {
    int rc = pthread_create(&l->thread, NULL, link_thread_main, l);
    if (rc)
        return error_set(err, ERR_IO, "cannot start the control thread: %s", strerror(rc));
    l->started = true;
    return 0;
}

void scheduler_link_stop(struct scheduler_link *l) {
    struct buf nothing = {0};
    if (!l->started)
        return;
    atomic_store(&l->stop, true);
    scheduler_link_send(l, 0, &nothing);
    pthread_join(l->thread, NULL);
    l->started = false;
}

void scheduler_link_free(struct scheduler_link **link) {
    struct scheduler_link *l = *link;
    if (!l)
        return;
    scheduler_link_stop(l);
    if (l->client)
        link_client_free(&l->client);
    if (l->held)
        outgoing_free(l->held);
    for (struct outgoing *o; (o = queue_pop(l->outgoing));)
        outgoing_free(o);
    queue_free(&l->outgoing);
    fetch_stop(l);
    arena_release(&l->arena);
    mem_free(l);
    *link = NULL;
}

void scheduler_link_send(struct scheduler_link *l, enum wire_kind kind, struct buf *payload) {
    struct outgoing *o = mem_alloc(sizeof *o);
    o->kind = kind;
    o->payload = *payload;
    *payload = (struct buf){0};
    if (!o->payload.failed && queue_push(l->outgoing, o))
        return;
    metric_add(&gateway_metrics[GATEWAY_METRIC_SENDS_DROPPED], 1);
    outgoing_free(o);
}

void scheduler_link_want(struct scheduler_link *l, struct bytes model) {
    char own[MODEL_NAME_MAX];
    struct buf payload = {0};
    if (!model_table_asks(l->models, model, clock_ms(), own))
        return;
    const struct wire_want want = {.model = bytes_str(own), .wish = WIRE_WISH_USE};
    message_pack_want(&want, &payload);
    scheduler_link_send(l, WIRE_WANT, &payload);
}

bool scheduler_link_is_registered(const struct scheduler_link *l) {
    return atomic_load(&l->registered);
}
