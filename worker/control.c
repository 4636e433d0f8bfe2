#include "worker/control.h"

#include <inttypes.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/pulse.h"
#include "proto/link.h"
#include "worker/comm.h"
#include "worker/grammar_store.h"
#include "worker/worker_metrics.h"

enum { DRAIN_QUIET_MS = 300, TURN_MS = 900 };
/* Between registrations that end without a step. */
enum { BACKOFF_FIRST_MS = 100, BACKOFF_MAX_MS = 5000 };

enum phase {
    PHASE_LOADING,     /* the compute thread loads */
    PHASE_RESETTING,   /* it forgets the slots of a registration that has ended */
    PHASE_BACKING_OFF, /* it has, and waits before it says so */
    PHASE_READY        /* what Hello says is true */
};

struct control {
    const struct control_config *config;
    struct link_client *link;
    enum phase phase;
    bool reset_asked;                  /* JOB_RESET is on its way */
    uint32_t registration;             /* tags jobs and answers; counts our own resets */
    uint32_t ready_incarnation;        /* of the Hello that said idle */
    bool registered_ready;             /* the scheduler has taken that Hello */
    uint8_t comm_id[COMM_MEETING_MAX]; /* of the latest Hello */
    struct buf held;                   /* answer to the latest reset */
    struct answer answer;
    struct arena arena;
    struct buf scratch;
    char model_name[WORKER_NAME_MAX];
    struct error failure;
    bool failed, draining;
    bool tells_release; /* this scheduler says when nothing is left for a worker that drains */
    bool released;      /* it has */
    int64_t drain_end_ms, last_plan_ms;
    /* A registration that fails without a step is not followed by the next one at once: until then
     * Hello says loading, so that nobody waits for us. */
    int64_t backoff_ms, ready_at_ms;
    uint64_t progress_then; /* steps at the latest such end */
};

static enum wire_state state_now(const struct control *c) {
    if (c->phase != PHASE_READY)
        return WIRE_STATE_LOADING;
    if (c->draining)
        return WIRE_STATE_DRAINING;
    return atomic_load(&c->config->progress->step_start_ms) ? WIRE_STATE_STEPPING : WIRE_STATE_IDLE;
}

/* The held blocks as the reset's answer has them: a count, ids, hashes; copied to where they are
 * aligned. */
static void fill_held(struct control *c, struct wire_hello *hello) {
    uint32_t count;
    memcpy(&count, c->held.data, sizeof count);
    arena_reset(&c->arena);
    uint32_t *blocks = arena_alloc(&c->arena, (count + 1) * sizeof *blocks);
    struct u128 *hashes = arena_alloc(&c->arena, (count + 1) * sizeof *hashes);
    if (!blocks || !hashes)
        return;
    memcpy(blocks, c->held.data + sizeof count, count * sizeof *blocks);
    memcpy(hashes, c->held.data + sizeof count + count * sizeof *blocks, count * sizeof *hashes);
    hello->held_blocks = (struct u32s){blocks, count};
    hello->held_hashes = (struct u128s){hashes, count};
}

/* A worker alone is its own replica. */
static void fill_place(const struct control *c, struct wire_hello *hello) {
    const struct worker_settings *s = c->config->settings;
    hello->replica = u128_is_zero(c->config->replica) ? c->config->instance : c->config->replica;
    hello->rank = (uint32_t)s->rank;
    hello->tp = MAX((uint32_t)s->tp, 1u);
    hello->stage = (uint32_t)s->stage;
    hello->pp = MAX((uint32_t)s->pp, 1u);
}

static void fill_hello(void *ctx, struct wire_hello *hello) {
    struct control *c = ctx;
    hello->model = bytes_str(c->model_name);
    hello->features |= WIRE_FEATURE_TOKEN_LISTS;
    if (c->phase != PHASE_LOADING)
        executor_describe(compute_executor(c->config->compute), hello);
    hello->name = bytes_str(c->config->settings->name);
    hello->version = bytes_str(TRIREME_VERSION);
    fill_place(c, hello);
    hello->state = WIRE_STATE_LOADING;
    if (c->phase != PHASE_READY)
        return;
    hello->state = c->draining ? WIRE_STATE_DRAINING : WIRE_STATE_IDLE;
    fill_held(c, hello);
    if (hello->tp * hello->pp > 1) {
        /* where this registration's ranks meet: rank 0's counts */
        size_t len = comm_meeting_new(c->config->settings->comm_listen, c->comm_id);
        hello->comm_id = bytes_of(c->comm_id, len);
    }
    c->ready_incarnation = hello->incarnation;
}

static void publish_ready(struct control *c) {
    bool ready = c->registered_ready && !c->draining;
    atomic_store(c->config->ready, ready);
    metric_set(&worker_metrics[WORKER_METRIC_READY], ready);
}

/* The slots of the registration that ended are worth nothing: have them forgotten, then say Hello
 * with what is held. */
static void begin_reset(struct control *c) {
    c->registered_ready = false;
    publish_ready(c);
    if (c->phase == PHASE_LOADING || c->reset_asked)
        return;
    c->phase = PHASE_RESETTING;
    c->registration++;
    c->reset_asked =
        handoff_push(c->config->handoff, JOB_RESET, c->registration, (struct bytes){0});
}

static void back_off(struct control *c) {
    uint64_t progress = atomic_load(&c->config->progress->count);
    if (progress != c->progress_then)
        c->backoff_ms = 0;
    c->progress_then = progress;
    c->ready_at_ms = clock_ms() + c->backoff_ms;
    c->backoff_ms = MIN(MAX(c->backoff_ms * 2, (int64_t)BACKOFF_FIRST_MS), (int64_t)BACKOFF_MAX_MS);
}

/* It has forgotten the slots: says so, or first that it is busy with itself. */
static void end_reset(struct control *c) {
    c->phase = clock_ms() < c->ready_at_ms ? PHASE_BACKING_OFF : PHASE_READY;
    link_client_renew(c->link);
}

static void on_registered(void *ctx, struct epoch epoch, const struct wire_welcome *welcome) {
    struct control *c = ctx;
    metric_add(&worker_metrics[WORKER_METRIC_REGISTRATIONS], 1);
    c->registered_ready =
        c->phase == PHASE_READY && c->ready_incarnation == link_client_incarnation(c->link);
    LOG_SOME(LOG_INFO, "registered with the scheduler epoch=%" PRIu64 " state=%s", epoch.number,
             c->registered_ready ? "ready" : "loading");
    c->last_plan_ms = clock_ms();
    c->tells_release = welcome->features & WIRE_FEATURE_RELEASE;
    c->released = false;
    publish_ready(c);
}

static void on_lost(void *ctx, enum link_lost why) {
    struct control *c = ctx;
    if (why == LINK_LOST_RENEW)
        return; /* our own doing */
    LOG_SOME(LOG_INFO, "lost the scheduler: %s", link_lost_text(why));
    begin_reset(c);
}

static void serve_chunk(struct control *c, struct bytes payload) {
    struct wire_bundle_get get;
    struct error err;
    arena_reset(&c->arena);
    if (message_unpack_bundle_get(payload, &c->arena, &get, &err)) {
        LOG_LIMITED(LOG_WARN, "malformed request for a bundle: %s", err.text);
        return;
    }
    struct wire_hello about = {0};
    if (c->phase == PHASE_LOADING)
        return;
    executor_describe(compute_executor(c->config->compute), &about);
    struct bytes bundle = executor_bundle(compute_executor(c->config->compute));
    if (!u128_equal(get.bundle, about.bundle) || get.offset >= bundle.len)
        return;
    size_t len = MIN(bundle.len - (size_t)get.offset, (size_t)WIRE_BUNDLE_CHUNK_BYTES);
    struct wire_bundle_chunk chunk = {.bundle = get.bundle,
                                      .offset = get.offset,
                                      .total = bundle.len,
                                      .data = bytes_of(bundle.data + get.offset, len)};
    buf_reset(&c->scratch);
    message_pack_bundle_chunk(&chunk, &c->scratch);
    if (link_client_send(c->link, WIRE_BUNDLE_CHUNK, buf_bytes(&c->scratch)))
        LOG_LIMITED(LOG_INFO,
                    "a chunk of the bundle could not be sent; it will be asked for again");
}

static void take_plan(struct control *c, struct bytes payload) {
    c->last_plan_ms = clock_ms();
    if (c->phase != PHASE_READY || !c->registered_ready)
        return;
    if (handoff_push(c->config->handoff, JOB_PLAN, c->registration, payload))
        return;
    LOG_LIMITED(LOG_WARN, "more plans came than were granted; registering anew");
    begin_reset(c);
}

static void send_failed(struct control *c, enum wire_resource resource, struct u128 hash,
                        const char *text) {
    struct wire_failed failed = {.resource = resource, .hash = hash, .text = bytes_str(text)};
    buf_reset(&c->scratch);
    message_pack_failed(&failed, &c->scratch);
    if (link_client_send(c->link, WIRE_FAILED, buf_bytes(&c->scratch)))
        LOG_LIMITED(LOG_INFO, "a refusal could not be sent");
}

static struct grammar_store *grammars_of(const struct control *c) {
    return c->phase == PHASE_LOADING ? NULL
                                     : executor_grammars(compute_executor(c->config->compute));
}

static void prepare_resource(struct control *c, struct bytes payload) {
    struct wire_prepare prepare;
    struct error err;
    struct grammar_store *store = grammars_of(c);
    arena_reset(&c->arena);
    if (message_unpack_prepare(payload, &c->arena, &prepare, &err))
        return;
    bool grammar = prepare.resource == WIRE_RESOURCE_GRAMMAR && store &&
                   prepare.subkind >= WIRE_GRAMMAR_JSON_SCHEMA &&
                   prepare.subkind <= WIRE_GRAMMAR_TOKENS;
    if (grammar)
        grammar_store_prepare(store, prepare.hash, (enum wire_grammar_kind)prepare.subkind,
                              prepare.source);
    else
        send_failed(c, prepare.resource, prepare.hash, "this worker has no such resource");
}

static void answer_prepared(struct control *c) {
    struct u128 hash;
    struct error failed;
    struct grammar_store *store = grammars_of(c);
    while (store && grammar_store_answer(store, &hash, &failed)) {
        if (failed.code) {
            send_failed(c, WIRE_RESOURCE_GRAMMAR, hash, failed.text);
            continue;
        }
        struct wire_ready ready = {.resource = WIRE_RESOURCE_GRAMMAR, .hash = hash};
        buf_reset(&c->scratch);
        message_pack_ready(&ready, &c->scratch);
        if (link_client_send(c->link, WIRE_READY, buf_bytes(&c->scratch)))
            LOG_LIMITED(LOG_INFO, "what is ready could not be told");
    }
}

static void start_drain(struct control *c, int64_t ms) {
    if (c->draining)
        return;
    c->draining = true;
    c->drain_end_ms = clock_ms() + ms;
    log_info("draining");
    publish_ready(c);
    if (link_client_is_registered(c->link)) {
        struct wire_drain drain = {.deadline_ms = (uint32_t)ms};
        buf_reset(&c->scratch);
        message_pack_drain(&drain, &c->scratch);
        if (link_client_send(c->link, WIRE_DRAIN, buf_bytes(&c->scratch)))
            log_debug("the scheduler could not be told");
    }
}

/* Begin, or the end of one that has begun. */
static void take_drain(struct control *c, struct bytes payload) {
    struct wire_drain drain;
    arena_reset(&c->arena);
    if (message_unpack_drain(payload, &c->arena, &drain, NULL))
        return;
    if (c->draining && drain.deadline_ms == 0)
        c->released = true;
    else
        start_drain(c, c->config->settings->drain_ms);
}

static void on_frame(void *ctx, enum wire_kind kind, struct bytes payload) {
    struct control *c = ctx;
    switch (kind) {
    case WIRE_PLAN: take_plan(c, payload); break;
    case WIRE_BUNDLE_GET: serve_chunk(c, payload); break;
    case WIRE_PREPARE: prepare_resource(c, payload); break;
    case WIRE_DRAIN: take_drain(c, payload); break;
    default: log_debug("unexpected message %s", message_kind_name(kind)); break;
    }
}

static void fill_heartbeat(void *ctx, struct wire_heartbeat *h) {
    struct control *c = ctx;
    const struct worker_progress *p = c->config->progress;
    int64_t start_ms = atomic_load(&p->step_start_ms);
    h->state = state_now(c);
    h->progress = atomic_load(&p->count);
    h->plan_number = start_ms ? atomic_load(&p->plan_number) : 0;
    h->step_tokens = start_ms ? atomic_load(&p->step_tokens) : 0;
    h->waiting = start_ms && atomic_load(&p->waiting);
    h->step_age_ms = start_ms && !h->waiting ? (uint32_t)MIN(MAX(clock_ms() - start_ms, (int64_t)0),
                                                             (int64_t)UINT32_MAX)
                                             : 0;
}

static void take_answer(struct control *c) {
    struct answer *a = &c->answer;
    switch (a->kind) {
    case ANSWER_LOADED:
        c->phase = PHASE_RESETTING;
        c->registration++;
        c->reset_asked =
            handoff_push(c->config->handoff, JOB_RESET, c->registration, (struct bytes){0});
        break;
    case ANSWER_FAILED:
        CHECK(a->payload.len == sizeof c->failure);
        memcpy(&c->failure, a->payload.data, sizeof c->failure);
        c->failed = true;
        break;
    case ANSWER_RESET:
        c->reset_asked = false;
        if (a->registration != c->registration)
            break;
        buf_reset(&c->held);
        buf_add_bytes(&c->held, buf_bytes(&a->payload));
        end_reset(c);
        break;
    case ANSWER_RESULT:
        if (a->registration == c->registration && c->registered_ready &&
            !link_client_send(c->link, WIRE_STEP_RESULT, buf_bytes(&a->payload)))
            break;
        metric_add(&worker_metrics[WORKER_METRIC_RESULTS_DROPPED], 1);
        if (a->registration == c->registration && c->registered_ready)
            begin_reset(c); /* the scheduler lacks a result: nothing later fits */
        break;
    case ANSWER_LOST:
        metric_add(&worker_metrics[WORKER_METRIC_PLANS_REFUSED], 1);
        if (a->registration != c->registration)
            break;
        LOG_LIMITED(LOG_WARN, "a plan did not fit, registering anew: %s", buf_text(&a->payload));
        back_off(c);
        begin_reset(c);
        break;
    }
}

static void take_signal(struct control *c) {
    struct signalfd_siginfo info;
    if (read(c->config->stop_fd, &info, sizeof info) != sizeof info)
        return;
    if (c->draining)
        c->drain_end_ms = 0; /* a second one: at once */
    start_drain(c, c->config->settings->drain_ms);
}

/* The scheduler has nothing left for us; where there is none that says so, nothing was asked of us
 * for a while and nothing is being computed. */
static bool drained(const struct control *c) {
    int64_t now_ms = clock_ms();
    if (!c->draining)
        return false;
    bool quiet = !atomic_load(&c->config->progress->step_start_ms) &&
                 now_ms - c->last_plan_ms >= DRAIN_QUIET_MS;
    bool over = link_client_is_registered(c->link) && c->tells_release ? c->released : quiet;
    return now_ms >= c->drain_end_ms || c->phase == PHASE_LOADING || over;
}

/* How long to wait for something to happen. */
static int64_t turn_ms(const struct control *c) {
    int64_t most = c->draining ? 50 : TURN_MS;
    if (c->phase != PHASE_BACKING_OFF)
        return most;
    return MIN(most, MAX(c->ready_at_ms - clock_ms(), (int64_t)1));
}

int control_run(const struct control_config *config, struct error *err) {
    static const struct link_client_calls CALLS = {.hello = fill_hello,
                                                   .registered = on_registered,
                                                   .lost = on_lost,
                                                   .frame = on_frame,
                                                   .heartbeat = fill_heartbeat};
    struct control c = {.config = config, .phase = PHASE_LOADING};
    struct link_client_config link = {.endpoint = config->settings->connect,
                                      .role = WIRE_ROLE_WORKER,
                                      .instance = config->instance,
                                      .key_file = config->settings->key_file,
                                      .allow_keys = config->settings->allow_keys};
    buf_init(&c.held, 0);
    buf_init(&c.answer.payload, 0);
    buf_init(&c.scratch, 0);
    arena_init(&c.arena, 0, 0);
    worker_public_name(config->settings, c.model_name);
    struct pulse pulse;
    pulse_open(&pulse, config->settings->run_dir, clock_ms());
    int rc = link_client_new(&c.link, &link, &CALLS, &c, err);
    while (!rc && !c.failed && !drained(&c)) {
        struct grammar_store *grammars = grammars_of(&c);
        int fds[3] = {handoff_fd(config->handoff), config->stop_fd,
                      grammars ? grammar_store_fd(grammars) : -1};
        bool ready[3] = {false, false, false};
        link_client_wait(c.link, fds, ready, grammars ? 3 : 2, turn_ms(&c));
        if (c.phase == PHASE_BACKING_OFF && clock_ms() >= c.ready_at_ms)
            end_reset(&c);
        pulse_beat(&pulse, clock_ms());
        if (ready[1])
            take_signal(&c);
        if (ready[2])
            answer_prepared(&c);
        while (handoff_result(config->handoff, &c.answer))
            take_answer(&c);
    }
    if (c.failed) {
        *err = c.failure;
        rc = err->code;
    }
    pulse_close(&pulse);
    link_client_free(&c.link);
    buf_release(&c.held);
    buf_release(&c.answer.payload);
    buf_release(&c.scratch);
    arena_release(&c.arena);
    return rc;
}
