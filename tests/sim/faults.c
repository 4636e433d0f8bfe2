#include "sim.h"

static const char *const NAMES[] = {
#define X(name) #name,
    FAULTS(X)
#undef X
};

static void cut(struct world *w, uint32_t peer) {
    int64_t until = w->now + 50 + below(w, 4000);
    bool holds = chance(w, 2);
    for (int i = 0; i < 2; i++) {
        w->links[peer][i].cut_until = until;
        w->links[peer][i].cut_holds = holds;
    }
}

/* What was under way in either direction, or in one, never arrives; order starts anew. */
static void reconnect(struct world *w, uint32_t peer) {
    for (int i = 0; i < 2; i++) {
        if (chance(w, 3)) continue;
        w->links[peer][i].generation++;
        w->links[peer][i].last_at = 0;
    }
}

static void stop_process(struct world *w, int64_t ms) {
    struct process *p = &w->procs[w->current];
    if (!p->alive || p->paused_until > w->now) return;
    p->paused_until = w->now + ms;
    at(w, p->paused_until, EVENT_WAKE, PEERS + w->current, 0, NULL);
}

static void kill_process(struct world *w) {
    process_kill(w, w->current);
    at(w, w->now + 20 + below(w, 1500), EVENT_RESTART, PEERS, 0, NULL);
}

void fault_inject(struct world *w, enum fault fault) {
    uint32_t worker = below(w, w->worker_count), gateway = below(w, GATEWAYS), peer = below(w, PEERS);
    if (peer >= GATEWAYS + w->worker_count && peer < SUPERVISOR) peer = SUPERVISOR;
    struct fake_worker *f = &w->workers[worker];
    trace(w, NAMES[fault], worker, gateway, peer, 0);
    w->fault_counts[fault]++;
    switch (fault) {
    case FAULT_DROP: w->drop_next += 1 + below(w, 4); break;
    case FAULT_DUPLICATE: w->duplicate_next += 1 + below(w, 6); break;
    case FAULT_DELAY: w->delay_next += 1 + below(w, 4); break;
    case FAULT_CUT: cut(w, peer); break;
    case FAULT_RECONNECT: reconnect(w, peer); break;
    case FAULT_WORKER_KILL: worker_kill(w, worker, WIRE_EXIT_SIGNAL, false); break;
    case FAULT_WORKER_STOP:
        if (f->paused_until <= w->now) f->paused_until = w->now + 100 + below(w, 5000);
        break;
    case FAULT_WORKER_SLOW: f->slow_until = w->now + 200 + below(w, 1500); break;
    case FAULT_WORKER_LOST: /* gone without word from the supervisor: only silence tells */
        if (!f->alive) break;
        worker_kill(w, worker, WIRE_EXIT_SIGNAL, false);
        w->links[SUPERVISOR][0].generation++;
        break;
    case FAULT_SCHEDULER_KILL: kill_process(w); break;
    case FAULT_SCHEDULER_STOP: stop_process(w, 100 + below(w, 5000)); break;
    case FAULT_SCHEDULER_SPLIT:
        stop_process(w, 500 + below(w, 5000));
        at(w, w->now + 50 + below(w, 400), EVENT_RESTART, PEERS, 0, NULL);
        break;
    case FAULT_GATEWAY_KILL: gateway_kill(w, gateway); break;
    case FAULT_GATEWAY_STOP:
        if (w->gateways[gateway].paused_until <= w->now)
            w->gateways[gateway].paused_until = w->now + 100 + below(w, 9000);
        break;
    case FAULT_BOTH_KILL:
        worker_kill(w, worker, WIRE_EXIT_SIGNAL, false);
        kill_process(w);
        break;
    case FAULT_KINDS: break;
    }
}
