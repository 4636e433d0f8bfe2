/*
 * sim.h - a deterministic world around the scheduler's core: virtual time, fake gateways and
 * workers, a network and a supervisor that fail.
 *
 * One seed is one day: everything random comes from it, so a seed that fails once fails always.
 * Nothing here shares code with what it tests but the wire's structs: a fake worker's next token is
 * a hash of all tokens so far and knows which content every KV block holds; a fake gateway knows
 * the one right text of each of its requests. After every event at a scheduler sched_check runs.
 *
 *   world ─┬─ events (heap by time)       ─┬─ gateways  (submit, acknowledge, cancel, pause, attach, die, wake)
 *          ├─ links (one each way a peer)  ├─ workers   (plans in order, results, die, stop, restart)
 *          └─ truth (what every request    ├─ processes (schedulers: at most two, when one was stopped and replaced)
 *             must produce)                └─ supervisor (restarts, fences, tells exits)
 */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include "base/vec.h"
#include "proto/frame.h"
#include "scheduler/core/sched.h"

enum {
    GATEWAYS = 2,
    WORKERS = 3,
    SUPERVISOR = GATEWAYS + WORKERS,
    PEERS = SUPERVISOR + 1,
    PROCS = 2,
    CHOICES = 3,
    SLOTS = 8,
    DRAFTS = 8, /* most in a plan */
    SNAPSHOTS = 5,
    MAX_BLOCKS = 64,
    MAX_CONTEXT = 96,
    VOCABULARY = 64,
    HEARTBEAT_MS = 250,
    SILENCE_MS = 1500,
    SEQUENCE_STATES = 10 /* of the core (sequence_state.h) */
};

/* ---- Messages ---- */

struct message {
    struct message *next; /* free list, inbox */
    uint16_t kind;
    struct epoch epoch;
    uint8_t peer; /* the other end than the scheduler */
    /* from the scheduler: which one; to it: PROCS for whichever the address leads to */
    uint8_t process;
    struct u128 from, to; /* instances; zero: scheduler */
    uint32_t link_generation;
    union {
        struct wire_hello hello;
        struct wire_submit submit;
        struct wire_reject reject;
        struct wire_cancel cancel;
        struct wire_pause pause;
        struct wire_ack ack;
        struct wire_resend resend;
        struct wire_attach attach;
        struct wire_deltas deltas;
        struct wire_plan plan;
        struct wire_step_result result;
        struct wire_heartbeat heartbeat;
        struct wire_blocks_lost lost;
        struct wire_fence fence;
        struct wire_exited exited;
    } u;
    /* what the spans above point to; owned, kept while the message is on the free list */
    uint8_t *blob;
    size_t blob_len, blob_cap;
};

/* ---- What must come out ---- */

struct truth {
    struct u128 id;
    uint32_t prompt[MAX_CONTEXT], prompt_count, max_tokens, stop_token, choice_count;
    uint32_t words; /* its output is made of so many tokens */
    uint32_t tokens[CHOICES][MAX_CONTEXT], token_count[CHOICES]; /* the right output */
    uint32_t finish[CHOICES];
    bool killer;
    uint32_t kills_at; /* position whose computation aborts a killer's worker */
};

/* ---- Gateways ---- */

enum request_state { REQUEST_FREE, REQUEST_OPEN, REQUEST_DONE /* kept to see what comes late */ };
struct gateway_request {
    uint8_t state;
    uint32_t truth, attempt, received[CHOICES], finish[CHOICES], acked[CHOICES];
    bool choice_done[CHOICES], accepted, ever_accepted, resumed, paused, resumable, dirty, attached;
    bool in_time; /* a calm day's, and its scheduler knows its speed: it should not begin late */
    int64_t submitted_at, pause_until, deadline_at;
    int32_t priority;
};
enum { GATEWAY_REQUESTS = 24 };
struct fake_gateway {
    struct u128 instance;
    bool alive;
    int64_t paused_until;
    struct epoch epoch;
    bool welcome; /* the scheduler has answered our Hello of this epoch */
    struct gateway_request requests[GATEWAY_REQUESTS];
    bool ack_due;
};

/* ---- Workers ---- */

struct fake_slot {
    bool used, ended;
    uint64_t sequence;
    uint32_t truth, choice, tokens[MAX_CONTEXT], token_count, prompt_count, computed, max_total;
    uint64_t prefix[MAX_CONTEXT]; /* hash of tokens [0, i] and their classes */
    uint32_t blocks[MAX_BLOCKS], block_count;
    /* of layers that carry one: what the positions computed leave, as prefix[computed - 1] */
    uint64_t state;
};
struct fake_block {
    uint64_t content; /* hash of everything up to the last position written */
    uint32_t filled;
    struct u128 sealed;
};
struct fake_worker {
    struct u128 instance, replica;
    uint32_t pid, incarnation;
    /* its replica's ranks are workers [first, first + tp * pp), this one at place */
    uint32_t first, tp, pp, place;
    struct u128 comm_id;   /* offered with the latest Hello */
    struct u128 formation; /* the one plan 1 named */
    uint64_t done_number;  /* plans computed of this registration */
    bool waiting;          /* for another rank */
    bool alive, loading;
    int64_t paused_until, slow_until, restart_at;
    struct epoch epoch;
    bool welcome;
    struct wire_kv_group group;
    uint32_t snapshot_count;
    uint64_t snapshots[SNAPSHOTS]; /* states */
    uint32_t slot_count, max_step_tokens, steps_in_flight, draft_max;
    struct fake_slot slots[SLOTS];
    struct fake_block blocks[MAX_BLOCKS];
    struct message *plans, *last_plan; /* received, not computed */
    uint32_t plan_count;
    uint64_t received_number;
    uint32_t run_generation; /* a step computed for an older one is void */
    int64_t step_since;
    uint64_t progress;
};

/* ---- Schedulers ---- */

/* What policy.c writes down of a core, to compare with what becomes of it. */
struct seen_sequence {
    uint64_t number;
    const struct sequence *q; /* valid until the turn ends */
    const struct replica *replica;
    struct u128 tenant, request;
    uint32_t tokens;  /* known */
    uint32_t cost;    /* positions to compute again */
    uint32_t blocks;  /* that it took, of group 0 */
    uint64_t planned; /* its last plan */
    int32_t priority;
    uint8_t state;
    bool resumed;
};
struct seen_sequences {
    struct seen_sequence *items; /* in the queue or in slots; by number */
    size_t count, cap;
    uint64_t preemptions; /* until then */
};
struct seen_tenant {
    const struct model *model;
    struct u128 id;
    uint64_t served, floor; /* of the core */
    uint64_t computed;      /* for it, since */
};
struct seen_request {
    struct u128 id;
    bool bound; /* to a model and its tenant there */
};
struct policy {
    struct seen_sequences turn, plan, now; /* before the turn; before a plan of it */
    uint64_t shut_out;        /* number of a sequence that is owed a slot in this turn; 0: none */
    uint64_t short_of_blocks; /* the same of blocks */
    uint64_t short_plans;     /* of its replica, until it became so */
    bool slot_kept;           /* when the turn began */
    struct {
        struct seen_tenant *items;
        size_t count, cap;
    } tenants;
    struct {
        struct seen_request *items;
        size_t count, cap;
    } requests;
    uint64_t arrivals;
};

struct known_peer {
    bool known, silent, served;
    struct u128 instance;
    int64_t heard_at;
};
struct process {
    struct world *world;
    bool alive, turn_due;
    int64_t paused_until, wants, beat_at, started_at;
    struct sched *core;
    struct epoch epoch;
    struct known_peer peers[PEERS];
    struct {
        uint32_t *items;
        size_t count, cap;
    } attempts; /* by truth: the highest attempt handed to the core */
    struct {
        bool *items;
        size_t count, cap;
    } streams; /* by truth: the core has it, open, and whoever attaches has to get it */
    struct message *inbox, *last; /* while stopped */
    struct policy policy;
};

/* ---- The world ---- */

struct link_state {
    int64_t last_at; /* order is kept: nothing is delivered before what was sent earlier */
    int64_t cut_until;
    bool cut_holds;      /* what is sent while cut arrives later; else it is lost */
    uint32_t generation; /* a reconnect voids what was under way */
};

enum event_kind {
    EVENT_MESSAGE,
    EVENT_STEP,
    EVENT_BEAT,
    EVENT_TURN,
    EVENT_ARRIVAL,
    EVENT_FAULT,
    EVENT_WAKE,
    EVENT_RESTART,
    EVENT_GATEWAY,
    EVENT_ATTACH
};
struct event {
    int64_t at;
    uint64_t order;
    uint8_t kind, who;
    uint32_t generation;
    struct message *message;
};

/* Kinds of faults; a day has each of them at least once. */
#define FAULTS(X)                                                                                  \
    X(DROP)                                                                                        \
    X(DUPLICATE)                                                                                   \
    X(DELAY)                                                                                       \
    X(CUT)                                                                                         \
    X(RECONNECT)                                                                                   \
    X(WORKER_KILL)                                                                                 \
    X(WORKER_STOP)                                                                                 \
    X(WORKER_SLOW)                                                                                 \
    X(WORKER_LOST)                                                                                 \
    X(SCHEDULER_KILL)                                                                              \
    X(SCHEDULER_STOP) X(SCHEDULER_SPLIT) X(GATEWAY_KILL) X(GATEWAY_STOP) X(BOTH_KILL)
enum fault {
#define X(name) FAULT_##name,
    FAULTS(X)
#undef X
        FAULT_KINDS
};

struct trace_line {
    int64_t at;
    const char *what;
    uint64_t a, b, c, d;
};
enum { TRACE_LINES = 256 };

struct world {
    uint64_t seed, random;
    int64_t now;
    uint64_t order, event_count, instance_count;
    VEC(struct event) events;
    struct message *free_messages;
    struct link_state links[PEERS][2]; /* [peer][0: to the scheduler, 1: from it] */
    struct fake_gateway gateways[GATEWAYS];
    struct fake_worker workers[WORKERS];
    struct process procs[PROCS];
    struct epoch supervisor_epoch;
    bool supervisor_welcome;
    uint32_t current; /* the process that the address leads to */
    VEC(struct truth) truths;
    struct {
        uint64_t *items;
        size_t count, cap;
    } seal_contents; /* pairs: seal, content */
    uint32_t fault_counts[FAULT_KINDS];
    uint32_t drop_next, duplicate_next, delay_next;
    bool quiet; /* no faults, no new requests any more */
    /* what dead gateways left, until their clients come back */
    struct {
        struct gateway_request *items;
        size_t count, cap;
    } left;
    /* of the day */
    uint32_t worker_count, target_events, request_goal, arrival_ms, priority_levels, tenants;
    bool keyless; /* no tenants: addresses share */
    bool calm;    /* nothing fails, and the one worker is always as fast */
    bool class_sensitive;
    uint32_t killer_goal, killer_count; /* requests that abort their worker */
    struct sched_config config;
    uint64_t finished, rejected, poisoned, resubmitted, attached, steps, hits, snapshots, restores,
        drafts, accepted_drafts, preemptions, evictions, retransmits, wasted, fences, faults;
    uint64_t begun, begun_late; /* on calm days; those later than twice the bound on the wait */
    uint64_t mixed,
        mixed_long; /* on calm days, steps of rows and prompts; those over itl_target_ms */
    unsigned moves_seen[SEQUENCE_STATES]; /* from a state, a bit for each to */
    struct trace_line trace[TRACE_LINES];
    uint64_t trace_count;
};

/* ---- world.c ---- */
uint64_t world_random(struct world *w);
static inline uint32_t below(struct world *w, uint32_t n) {
    return (uint32_t)(world_random(w) % n);
}
static inline bool chance(struct world *w, uint32_t one_in) {
    return below(w, one_in) == 0;
}
struct u128 world_instance(struct world *w);
void at(struct world *w, int64_t when, enum event_kind kind, uint32_t who, uint32_t generation,
        struct message *m);
void trace(struct world *w, const char *what, uint64_t a, uint64_t b, uint64_t c, uint64_t d);
/* A violation: prints why, the seed and the last of the trace, and ends this process. */
NORETURN void violated(struct world *w, const char *fmt, ...) PRINTF_LIKE(2, 3);
#define MUST(w, cond, ...)                                                                         \
    do {                                                                                           \
        if (__builtin_expect(!(cond), 0))                                                          \
            violated(w, __VA_ARGS__);                                                              \
    } while (0)
static inline uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15u + (a << 6))) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 29)) * 0x94d049bb133111ebu;
    return x ^ (x >> 32);
}
/* The token that follows; all of the text so far is in `prefix`. */
uint32_t next_token(const struct truth *t, uint32_t choice, uint64_t prefix);
static inline uint64_t extend(uint64_t prefix, uint32_t token) {
    return mix(prefix, token + 1);
}
void dump_processes(const struct world *w);
void dump_gateways(const struct world *w);
int run_seed(struct world *w, uint64_t seed); /* resets *w; keeps its memory */
void world_release(struct world *w);

void trace_print(const struct world *w);

/* ---- message.c ---- */
struct message *message_new(struct world *w, uint16_t kind);
void message_free(struct world *w, struct message *m);
struct message *message_copy(struct world *w, const struct message *m);
/* Deep copies of borrowed structs. */
void message_set_submit(struct message *m, const struct wire_submit *submit);
void message_set_deltas(struct message *m, const struct wire_deltas *deltas);
void message_set_plan(struct message *m, const struct wire_plan *plan);
void message_set_result(struct message *m, const struct wire_step_result *result);
void message_set_ack(struct message *m, const struct wire_ack *ack);
void message_set_hello(struct message *m, const struct wire_hello *hello);
void message_set_attach(struct message *m, const struct wire_attach *attach);
/* A peer has seen a lower epoch than its own: it answers the one that bears it, on the connection
 * it came by. */
void answer_stale(struct world *w, const struct message *m, struct epoch mine, struct u128 from);
/* Puts it under way. to_scheduler: from the peer, else to it. Takes the message. */
void send_message(struct world *w, struct message *m, uint32_t peer, bool to_scheduler);

/* ---- the parties ---- */
void gateway_start(struct world *w, uint32_t idx);
void gateway_receive(struct world *w, uint32_t idx, struct message *m);
void gateway_beat(struct world *w, uint32_t idx);
void gateway_arrival(struct world *w);
void gateway_kill(struct world *w, uint32_t idx);
/* A client of a dead gateway comes to another: number `left` of what was left. */
void gateway_attach(struct world *w, uint32_t idx, uint32_t left);
/* Ended requests of a calm day: by then the scheduler has seen how long they take. */
enum { CALM_AFTER = 20 };
/* What a step of so many tokens takes on a calm day, in ms. */
int64_t calm_step_ms(uint32_t tokens);
void gateway_flush(struct world *w, uint32_t idx);
uint32_t gateways_open(const struct world *w);

void worker_start(struct world *w, uint32_t idx);
void worker_receive(struct world *w, uint32_t idx, struct message *m);
void worker_beat(struct world *w, uint32_t idx);
void worker_step(struct world *w, uint32_t idx, uint32_t generation);
void worker_kill(struct world *w, uint32_t idx, enum wire_exit_cause cause, bool fault);
void worker_wake(struct world *w, uint32_t idx);

void process_start(struct world *w);
void process_kill(struct world *w, uint32_t idx);
void process_receive(struct world *w, uint32_t idx, struct message *m);
void process_beat(struct world *w, uint32_t idx);
void process_turn(struct world *w, uint32_t idx);
void process_wake(struct world *w, uint32_t idx);

void supervisor_receive(struct world *w, struct message *m);
void supervisor_beat(struct world *w);
void supervisor_tell_exit(struct world *w, struct u128 instance, enum wire_exit_cause cause,
                          bool fault);

void fault_inject(struct world *w, enum fault fault);

/* ---- policy.c ---- */
/* After each event; before and after a turn; with each plan of it. */
void policy_shares(struct process *process);
void policy_turn_begins(struct process *process);
void policy_plan(struct process *process, struct u128s ranks, const struct wire_plan *plan);
void policy_turn_ends(struct process *process);
/* The core refuses a request: at the end of its turn, or (known no more) in its Submit. */
void policy_reject(struct process *process, const struct wire_reject *reject);
void policy_submit(struct process *process, const struct wire_submit *submit, bool refused);
void policy_release(struct policy *policy);

/* ---- blocks.c ---- */
/* Those of group 0 that it took, or that nobody used when it found them. */
uint32_t blocks_taken(const struct sequence *q);
/* May this tenant have had more than its part of the blocks, and several sequences? */
bool blocks_had_too_many(const struct sched *s, const struct seen_sequences *seen,
                         const struct replica *r, struct u128 tenant);
/* With each plan: it had a slot there, and has lost it to make room. */
void blocks_check_victim(struct process *process, const struct replica *r,
                         const struct sequence *victim);
/* May it have got its slot in this turn at the expense of another tenant's blocks? */
bool blocks_let_in(const struct process *process, const struct sequence *placed);
/* After a turn. */
void blocks_check_short(struct process *process);

/* ---- moves.c ---- */
/* Adds the moves of sequences that this core has made. */
void moves_collect(struct world *w, const struct sched *core);
/* Does the core's table of moves hold together, and were all of them seen, in that many days? Says
 * what not. */
bool moves_are_good(const unsigned seen[SEQUENCE_STATES], uint64_t seeds);

#endif
