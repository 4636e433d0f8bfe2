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
        if (chance(w, 3))
            continue;
        w->links[peer][i].generation++;
        w->links[peer][i].last_at = 0;
    }
}

static void stop_process(struct world *w, int64_t ms) {
    struct process *p = &w->procs[w->current];
    p->paused_until = w->now + ms;
    at(w, p->paused_until, EVENT_WAKE, PEERS + w->current, 0, NULL);
}

static void kill_process(struct world *w) {
    process_kill(w, w->current);
    at(w, w->now + 20 + below(w, 1500), EVENT_RESTART, PEERS, 0, NULL);
}

/* What a fault needs may not be there just now; then it comes a little later. */
static bool has_a_victim(const struct world *w, enum fault fault, uint32_t worker,
                         uint32_t gateway) {
    const struct fake_worker *f = &w->workers[worker];
    const struct process *p = &w->procs[w->current];
    switch (fault) {
    case FAULT_WORKER_KILL:
    case FAULT_WORKER_LOST: return f->alive;
    case FAULT_WORKER_STOP:
    case FAULT_WORKER_SLOW: return f->alive && f->paused_until <= w->now;
    case FAULT_SCHEDULER_KILL: return p->alive;
    case FAULT_SCHEDULER_STOP:
    case FAULT_SCHEDULER_SPLIT: return p->alive && p->paused_until <= w->now;
    case FAULT_GATEWAY_KILL: return w->gateways[gateway].alive;
    case FAULT_GATEWAY_STOP:
        return w->gateways[gateway].alive && w->gateways[gateway].paused_until <= w->now;
    case FAULT_BOTH_KILL: return f->alive && p->alive;
    default: return true;
    }
}

void fault_inject(struct world *w, enum fault fault) {
    uint32_t worker = below(w, w->worker_count), gateway = below(w, GATEWAYS),
             peer = below(w, PEERS);
    if (peer >= GATEWAYS + w->worker_count && peer < SUPERVISOR)
        peer = SUPERVISOR;
    struct fake_worker *f = &w->workers[worker];
    if (!has_a_victim(w, fault, worker, gateway)) {
        at(w, w->now + 20 + below(w, 200), EVENT_FAULT, fault, 0, NULL);
        return;
    }
    trace(w, NAMES[fault], worker, gateway, peer, 0);
    w->fault_counts[fault]++;
    switch (fault) {
    case FAULT_DROP: w->drop_next += 1 + below(w, 4); break;
    case FAULT_DUPLICATE: w->duplicate_next += 1 + below(w, 6); break;
    case FAULT_DELAY: w->delay_next += 1 + below(w, 4); break;
    case FAULT_CUT: cut(w, peer); break;
    case FAULT_RECONNECT: reconnect(w, peer); break;
    case FAULT_WORKER_KILL: worker_kill(w, worker, WIRE_EXIT_SIGNAL, false); break;
    case FAULT_WORKER_STOP: f->paused_until = w->now + 100 + below(w, 5000); break;
    case FAULT_WORKER_SLOW: f->slow_until = w->now + 200 + below(w, 1500); break;
    case FAULT_WORKER_LOST: /* gone without word from the supervisor: only silence tells */
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
        w->gateways[gateway].paused_until = w->now + 100 + below(w, 9000);
        break;
    case FAULT_BOTH_KILL:
        worker_kill(w, worker, WIRE_EXIT_SIGNAL, false);
        kill_process(w);
        break;
    case FAULT_KINDS: break;
    }
}
