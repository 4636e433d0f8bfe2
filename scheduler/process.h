/*
 * process.h - the process around the core: frames become events, actions become frames, time
 * passes.
 *
 * One thread. A turn: take every frame that waits (inbound.c: decode, check that this role may say
 * that, hand to the core), then sched_run once, whose actions go out through the sink (outbound.c).
 * Between turns it sleeps until a frame, a signal or the time the core asked for. Nothing here
 * decides anything about requests.
 *
 * Time given to the core is a run_clock: a stop of this process (SIGSTOP, a starved machine) does
 * not age anybody.
 */
#ifndef SCHEDULER_PROCESS_H
#define SCHEDULER_PROCESS_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/vec.h"
#include "http/admin.h"
#include "proto/link.h"
#include "scheduler/bundle_relay.h"
#include "scheduler/core/sched.h"
#include "scheduler/fence_ledger.h"
#include "scheduler/run_clock.h"
#include "scheduler/settings.h"
#include "scheduler/ticket_ledger.h"
#include "scheduler/want_ledger.h"

enum {
    PROCESS_STUCK_MS = 5000, /* no turn for so long: not ready */
    PROCESS_WAIT_CROWD = 64, /* with --queue-wait auto: sequences that are no crowd */
    PROCESS_ENDPOINTS_MAX = 8
};
enum process_end {
    PROCESS_RUNS,
    PROCESS_DRAINED,
    PROCESS_DRAIN_TIMEOUT,
    PROCESS_TERMINATED,
    PROCESS_HANDED_OVER, /* SIGTERM; whoever stands by goes on */
    PROCESS_LEASE_LOST,
    PROCESS_SUPERSEDED
};

struct peer_list {
    struct u128 *items;
    size_t count, cap;
};

struct process {
    const struct scheduler_settings *settings; /* borrowed */
    struct sched *core;
    struct link_server *link;
    struct lease *lease;      /* NULL: nobody else may lead */
    uint64_t epoch_number;    /* the first one's */
    struct http_admin *admin; /* NULL: no admin port */
    _Atomic bool ready;       /* for the admin port's thread: takes work, */
    _Atomic int64_t turn_ms;  /* and turns */
    struct bundle_relay bundles;
    struct fence_ledger fences;
    struct want_ledger wants; /* not told yet */
    struct ticket_ledger tickets;
    struct run_clock clock;
    int64_t started_ms; /* of clock_ms */
    struct peer_list gateways, supervisors;
    struct arena arena; /* of the message being decoded */
    struct buf out;     /* of the message being encoded */
    int signal_fd;
    enum process_end end;
    /* when due; drain_until_ms 0: not draining */
    int64_t core_ms, status_ms, publish_ms, drain_until_ms;
    uint64_t status_version;
    bool status_due, dirty; /* dirty: metrics are behind */
};

/* Blocks SIGTERM and SIGINT, waits for the lease if there is one, loads the secret, listens. Borrows
 * *settings until process_release. 0, or a code with *err filled and nothing to release; ERR_CLOSED: asked
 * to end before it led. */
MUST_CHECK int process_init(struct process *p, const struct scheduler_settings *settings,
                            struct error *err);
/* Closes sockets and the admin port; a process_init that failed has done it. */
void process_release(struct process *p);
/* Turns until it ends; says how. */
enum process_end process_run(struct process *p);
/* One turn, after a sleep of at most timeout_ms. */
void process_turn(struct process *p, int64_t timeout_ms);

/* inbound.c */
extern const struct link_server_calls process_link_calls; /* ctx: the process */
/* outbound.c */
struct sched_sink process_sink(struct process *p);
void process_send(struct process *p, struct u128 peer, enum wire_kind kind); /* what p->out holds */
void process_send_status(struct process *p);
void process_repeat_fences(struct process *p); /* those that are due again */
void process_send_wants(struct process *p);    /* once there is a supervisor */
/* One that somebody waits for: at once, or its outcome to the peer. */
void process_send_ticket(struct process *p, struct u128 peer, const struct wire_want *want);
/* A supervisor has gone: whoever waited for it alone is told. */
void process_end_tickets(struct process *p, struct u128 supervisor);
void process_send_outcome(struct process *p, const struct wire_outcome *outcome); /* to gateways */
struct bundle_relay_calls process_bundle_calls(struct process *p);

void peer_list_add(struct peer_list *list, struct u128 peer); /* once */
void peer_list_remove(struct peer_list *list, struct u128 peer);

#endif
