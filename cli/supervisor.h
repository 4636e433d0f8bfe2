/*
 * supervisor.h - what looks after the processes of one machine.
 *
 * It starts gateways, one scheduler and workers, restarts what ends, and is a peer of the
 * scheduler: it kills what the scheduler fences, and reports every end with Exited. It
 * holds no state that a client would miss: children run on when it dies, and the next supervisor of
 * the same run folder takes hold of them.
 *
 * Invariants:
 *   (1) Every process that was let run is in the state file (child.h: the gate).
 *   (2) At most one process holds the scheduler's place, at most one each gateway's and worker's
 *       index; a successor starts only when the pidfd of the one before said that it ended.
 *   (3) Exited is sent only for a process whose end was seen, or that was adopted dead.
 *   (4) An adopted child that was begun with other settings is replaced, in order.
 *
 * Draining (SIGTERM, SIGINT): gateways are asked to end and may finish their streams, while
 * scheduler and workers are still kept alive; then the scheduler; then the workers. A second signal
 * ends everything at once. SIGHUP goes to the gateways, which read
 * their certificate and keys again.
 *
 * A scheduler that sends no heartbeat for 15 s is killed and started again; a pause of the
 * supervisor itself does not count. The same goes for a worker or gateway whose pulse
 * (base/pulse.h) stands still so long: the scheduler fences a silent worker far sooner, but only
 * one that it has met.
 *
 * Threading: one thread; signals come by a signalfd, so block them (supervisor_block_signals)
 * before any thread is made.
 */
#ifndef CLI_SUPERVISOR_H
#define CLI_SUPERVISOR_H

#include "cli/child.h"

struct supervisor_role {
    /* borrowed: what a child reads on its standard input, since a command line and an environment
     * are read by others; NULL: nothing. Another one means another child, too. */
    const char *secret;
    uint32_t count; /* processes; workers: may be scaled later */
    /* borrowed: all options that stay the same from one start to the next, NULL-terminated */
    char *const *flags;
    bool takes_admin_port; /* --admin-port=P is added */
    bool takes_name;       /* --name=worker-0 is added */
    bool takes_instance;   /* --instance=HEX is added: what it says in Hello */
    bool takes_gpu;        /* --gpu=I is added: each of them its own, as far as there are so many */
};

/* Workers come in replicas of tp * pp processes each; --rank, --stage and --replica are added where
 * that is not 1. */
struct supervisor_replicas {
    uint32_t tp, pp;
    const char *const *stage_devices; /* [pp] borrowed; NULL: --device is what the flags say */
};

/* The workers of one of several models. */
struct supervisor_model {
    const char *name;
    char *const *flags; /* borrowed, as supervisor_role.flags */
    uint32_t count;     /* processes; may be scaled later */
    struct supervisor_replicas replicas;
    bool takes_gpu;
    /* --memory-sharers=N is added: replicas that start together, of which each would count all the
     * memory that is free as its own. It changes with every model that comes or goes, and means nothing
     * to a worker that runs, so it is none of its settings. 0: nothing is added. */
    uint32_t memory_sharers;
    bool on_demand;         /* loaded when it is asked for, and unloaded when it is not */
    int64_t idle_unload_ms; /* on_demand: after so long without work; 0: only to make room */
    uint64_t memory_bytes;  /* that it takes of models_memory */
};
enum { SUPERVISOR_MODELS_MAX = 32 };

struct supervisor_config {
    const char *exe;      /* the program of the children */
    const char *run_dir;  /* checked and locked by the caller */
    const char *endpoint; /* where the scheduler listens */
    const char *key_file,
        *allow_keys; /* for tcp: the supervisor's; as link_client_config has them */
    struct supervisor_role roles[CHILD_ROLE_COUNT];
    struct supervisor_replicas replicas;
    /* borrowed: several models, each with workers of its own; they stand in for the workers' role and
     * for `replicas`. 0: one model, that of the workers' role. */
    const struct supervisor_model *models;
    uint32_t model_count;
    uint32_t models_max;    /* loaded at one time; 0: all */
    uint64_t models_memory; /* that loaded models may take together; 0: no bound */
    /* Finds the files of a model again, for workers of a new revision beside those that run: fills in
     * *next, which lives as long as the run. Does not wait for a network. NULL: there is no such way. */
    int (*renew)(void *ctx, uint32_t model, struct supervisor_model *next, struct error *err);
    /* Finds a model that was not configured, from a word as --model takes it: fills in *next, which lives
     * as long as the run, and in *model its place among all, the first that is free. Does not wait for a
     * network. NULL: there is no such way. */
    int (*add)(void *ctx, const char *word, uint32_t *model, struct supervisor_model *next,
               struct error *err);
    /* Takes one back that `add` gave, whose place the next one may have. Not NULL where `add` is not. */
    void (*forget)(void *ctx, uint32_t model);
    uint32_t added_count; /* the last of `models` were added to an earlier run of the same folder */
    void *renew_ctx;
    int64_t drain_ms;   /* for gateways to finish their streams */
    int64_t stop_ms;    /* between SIGTERM and SIGKILL for all others */
    int64_t silence_ms; /* scheduler unheard of, pulse standing still: 15000 */
    /* 0: free ports, drawn once (RUN-DIR/admin-port-ROLE-N); else the scheduler's, and from the next
     * on the workers' */
    int64_t admin_port;
    int64_t port; /* the gateways': no admin port that is drawn; 0: they have none */
};

/* Blocks the signals that supervisor_run reads from its signalfd, in this thread and those made
 * from now on. */
void supervisor_block_signals(void);
/* Runs until drained (0) or it cannot go on (negative): a child that never lived said why
 * it cannot start, or ended again and again right after its start. */
MUST_CHECK int supervisor_run(const struct supervisor_config *config, struct error *err);

/* Processes of one replica. */
static inline uint32_t supervisor_rank_count(const struct supervisor_replicas *r) {
    return r->tp && r->pp ? r->tp * r->pp : 1;
}

/* One line to a running supervisor ("scale 3 MODEL", "load MODEL", "reload MODEL", "status"), one line back: "ok ...", "error ...", or
 * SUPERVISOR_UNKNOWN and why, where the line names no model of this server.
 * reply: at most max bytes with the zero. */
#define SUPERVISOR_UNKNOWN "unknown-model "
MUST_CHECK int supervisor_ask(const char *run_dir, const char *line, char *reply, size_t max,
                              struct error *err);

#endif
