#include "cli/supervisor_internal.h"

#include "base/log.h"

#include <signal.h>

static void kill_all(struct supervisor *s) {
    for (size_t i = 0; i < s->children.count; i++)
        child_signal(s->children.items[i], SIGKILL);
}

void drain_begin(struct supervisor *s, int64_t now_ms) {
    if (s->phase == PHASE_SERVING) {
        log_info("draining: gateways finish their streams");
        s->phase = PHASE_GATEWAYS;
    } else {
        log_warn("asked again: ending everything now");
        s->phase = PHASE_WORKERS;
        kill_all(s);
    }
    children_want(s, now_ms);
}

/* A phase is over when none of its role is left. */
void drain_turn(struct supervisor *s, int64_t now_ms) {
    while (s->phase != PHASE_SERVING && s->phase != PHASE_DONE) {
        for (int role = 0; role < CHILD_ROLE_COUNT; role++)
            if ((int)s->phase >= PHASE_GATEWAYS + role && children_alive(s, (enum child_role)role))
                return;
        s->phase++;
        children_want(s, now_ms);
    }
}
