#include "cli/supervisor_internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <inttypes.h>
#include <signal.h>

enum { RESEND_MS = 60000 };

static void fill_hello(void *ctx, struct wire_hello *hello) {
    hello->name = bytes_str("supervisor");
    hello->version = bytes_str(TRIREME_VERSION);
}

static struct wire_exited exited_of(const struct child_exit *e) {
    struct wire_exited m = {.instance = e->instance, .fault = e->fault, .cause = WIRE_EXIT_UNKNOWN};
    if (e->fenced)
        m.cause = WIRE_EXIT_FENCED;
    else if (e->known && e->signal)
        m.cause = WIRE_EXIT_SIGNAL;
    else if (e->known)
        m.cause = e->code ? WIRE_EXIT_CODE : WIRE_EXIT_CLEAN;
    m.value = (uint32_t)(e->signal ? e->signal : e->code);
    return m;
}

/* What cannot be sent now is sent again to the next scheduler that registers us. */
void supervisor_send_exit(struct supervisor *s, const struct child_exit *e) {
    struct wire_exited m = exited_of(e);
    if (e->role == CHILD_SCHEDULER || u128_is_zero(e->instance) || !s->registered)
        return;
    buf_reset(&s->scratch);
    message_pack_exited(&m, &s->scratch);
    if (link_client_send(s->link, WIRE_EXITED, buf_bytes(&s->scratch)))
        log_debug("an end could not be sent now pid=%d", e->pid);
}

bool supervisor_send_outcome(struct supervisor *s, const struct wire_outcome *outcome) {
    buf_reset(&s->scratch);
    message_pack_outcome(outcome, &s->scratch);
    return s->registered && !link_client_send(s->link, WIRE_OUTCOME, buf_bytes(&s->scratch));
}

static void on_registered(void *ctx, struct epoch epoch, const struct wire_welcome *welcome) {
    struct supervisor *s = ctx;
    int64_t now_ms = clock_ms();
    s->registered = s->awaits_status = true;
    log_info("registered with the scheduler epoch=%" PRIu64, epoch.number);
    for (uint64_t i = s->exit_count - MIN(s->exit_count, (uint64_t)EXIT_RING); i < s->exit_count;
         i++)
        if (now_ms - s->exits[i % EXIT_RING].at_ms < RESEND_MS)
            supervisor_send_exit(s, &s->exits[i % EXIT_RING]);
}

static void on_lost(void *ctx, enum link_lost why) {
    struct supervisor *s = ctx;
    s->registered = false;
    s->unheard_since_ms = clock_ms();
    log_info("lost the scheduler: %s", link_lost_text(why));
}

static void fence(struct supervisor *s, const struct wire_fence *m) {
    struct child *c = children_find(s, (int)m->pid);
    if (c && u128_equal(c->instance, m->instance)) {
        log_warn("%s %u (process %d) is fenced at the scheduler's word", child_role_name(c->role),
                 c->idx, c->pid);
        c->fenced = true;
        child_signal(c, SIGKILL); /* Exited follows when it is seen to be gone */
        return;
    }
    for (size_t i = 0; i < MIN(s->exit_count, (uint64_t)EXIT_RING); i++) {
        if (!u128_equal(s->exits[i].instance, m->instance))
            continue;
        supervisor_send_exit(s, &s->exits[i]);
        return;
    }
    LOG_LIMITED(LOG_WARN, "asked to fence process %u, which is none of ours", m->pid);
}

static void on_frame(void *ctx, enum wire_kind kind, struct bytes payload) {
    struct supervisor *s = ctx;
    struct wire_fence m;
    struct wire_status status;
    struct wire_want want;
    struct error err;
    int rc = 0;
    arena_reset(&s->arena);
    switch (kind) {
    case WIRE_FENCE:
        rc = message_unpack_fence(payload, &s->arena, &m, &err);
        if (!rc)
            fence(s, &m);
        break;
    case WIRE_STATUS:
        rc = message_unpack_status(payload, &s->arena, &status, &err);
        if (!rc)
            models_take_status(s, &status, clock_ms());
        break;
    case WIRE_WANT:
        rc = message_unpack_want(payload, &s->arena, &want, &err);
        if (!rc)
            models_take_want(s, &want, clock_ms());
        break;
    default: break; /* of a newer minor version, or not for us */
    }
    if (rc)
        LOG_LIMITED(LOG_WARN, "malformed %s: %s", message_kind_name(kind), err.text);
}

int supervisor_link_open(struct supervisor *s, struct error *err) {
    static const struct link_client_calls CALLS = {
        .hello = fill_hello, .registered = on_registered, .lost = on_lost, .frame = on_frame};
    struct link_client_config config = {.endpoint = s->config->endpoint,
                                        .role = WIRE_ROLE_SUPERVISOR,
                                        .key_file = s->config->key_file,
                                        .allow_keys = s->config->allow_keys};
    return link_client_new(&s->link, &config, &CALLS, s, err);
}

void supervisor_watch_scheduler(struct supervisor *s, int64_t now_ms) {
    if (now_ms - s->turn_ms > LATE_TURN_MS)
        s->unheard_since_ms = now_ms; /* it was us who slept */
    /* whoever refuses our key is not dead: restarting it would mend nothing */
    s->unheard_since_ms = MAX(s->unheard_since_ms, link_client_refused_ms(s->link));
    if (s->registered || s->phase > PHASE_GATEWAYS)
        return;
    for (size_t i = 0; i < s->children.count; i++) {
        struct child *c = s->children.items[i];
        if (c->role != CHILD_SCHEDULER || c->state != CHILD_RUNNING)
            continue;
        if (now_ms - MAX(s->unheard_since_ms, c->started_ms) < s->config->silence_ms)
            continue;
        log_error("the scheduler (process %d) is not heard of on the wire: killed", c->pid);
        child_signal(c, SIGKILL);
        s->unheard_since_ms = now_ms;
    }
}
