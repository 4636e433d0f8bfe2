/* What a scheduler's core remembers, for a person who looks at a failed seed. */
#include "scheduler/core/core.h"
#include "scheduler/core/gateway.h"
#include "scheduler/core/sequence_state.h"
#include "sim.h"

#include <stdio.h>

static void dump_sequence(const struct sequence *q) {
    fprintf(stderr,
            "    choice %u %s finish %u%s tokens %u..%u computed %u..%u rows %u of %u "
            "sent %u acked %u deaths "
            "%u danger %u%s%s\n",
            q->choice, seq_state_name(q->state), q->finish, q->quiet ? " quiet" : "",
            q->token_count, q->tokens_hi, q->computed_lo, q->computed_hi, q->rows_in_flight,
            q->max_total, q->sent, q->acked, q->deaths, q->danger_until, q->group ? " suspect" : "",
            q->recomputing ? " recomputing" : "");
}

static void dump_request(const struct request *r) {
    fprintf(stderr,
            "  request %llu attempt %u prompt %zu%s%s%s%s%s rejected %u open %u held %u gateway "
            "%llu%s\n",
            (unsigned long long)r->id.lo, r->attempt, r->prompt.count, r->model ? "" : " unbound",
            r->validated ? "" : " unvalidated", r->paused ? " paused" : "",
            r->resumed ? " resumed" : "", r->dropped ? " dropped" : "", r->rejected, r->open_count,
            r->held_count, r->gateway ? (unsigned long long)r->gateway->instance.lo : 0ull,
            r->gateway && r->gateway->silent ? " silent" : "");
    for (uint32_t i = 0; i < r->sequence_count; i++)
        dump_sequence(&r->sequences[i]);
}

static void dump_core(const struct sched *s) {
    fprintf(stderr, "scheduler: now %lld waiting %u resumed %u running %u\n", (long long)s->now,
            s->waiting_new, s->waiting_resumed, s->running);
    for (size_t i = 0; i < s->replicas.count; i++) {
        const struct replica *r = s->replicas.items[i];
        fprintf(stderr,
                "  replica %llu state %d plan %llu flights %u running %u leaving %u resuming %u "
                "free slots %u free "
                "blocks %u of %u%s\n",
                (unsigned long long)r->id.lo, (int)r->state, (unsigned long long)r->plan_number,
                r->flight_count, r->running_count, r->leaving_count, r->resume_count,
                r->free_slot_count, r->group_count ? r->pools[0].free_count : 0,
                r->group_count ? r->pools[0].block_count : 0, r->testing ? " testing" : "");
    }
    for (size_t i = 0; i < s->request_ids.cap; i++)
        if (s->request_ids.entries[i].value)
            dump_request(s->request_ids.entries[i].value);
}

void dump_gateways(const struct world *w) {
    for (uint32_t g = 0; g < GATEWAYS; g++) {
        const struct fake_gateway *gateway = &w->gateways[g];
        fprintf(stderr, "gateway %u instance %llu%s stopped until %lld epoch %llu\n", g,
                (unsigned long long)gateway->instance.lo, gateway->alive ? "" : " dead",
                (long long)gateway->paused_until, (unsigned long long)gateway->epoch.number);
        for (uint32_t i = 0; i < GATEWAY_REQUESTS; i++) {
            const struct gateway_request *r = &gateway->requests[i];
            if (r->state != REQUEST_OPEN)
                continue;
            fprintf(stderr, "  request %u attempt %u received %u %u %u%s%s%s submitted %lld\n",
                    r->truth + 1, r->attempt, r->received[0], r->received[1], r->received[2],
                    r->accepted ? " accepted" : "", r->paused ? " paused" : "",
                    r->attached ? " attached" : "", (long long)r->submitted_at);
        }
    }
}

void dump_processes(const struct world *w) {
    for (uint32_t i = 0; i < PROCS; i++) {
        const struct process *p = &w->procs[i];
        if (!p->alive)
            continue;
        fprintf(stderr, "process %u%s epoch %llu stopped until %lld\n", i,
                i == w->current ? " current" : "", (unsigned long long)p->epoch.number,
                (long long)p->paused_until);
        for (uint32_t k = 0; k < PEERS; k++)
            fprintf(stderr, "  peer %u instance %llu%s%s%s heard %lld\n", k,
                    (unsigned long long)p->peers[k].instance.lo, p->peers[k].known ? " known" : "",
                    p->peers[k].silent ? " silent" : "", p->peers[k].served ? " served" : "",
                    (long long)p->peers[k].heard_at);
        dump_core(p->core);
    }
}
