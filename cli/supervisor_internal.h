/*
 * supervisor_internal.h - the supervisor's state, for the supervisor*.c files only.
 *
 * supervisor.c is the loop and the order of a turn; _children.c starts, restarts and counts;
 * _models.c loads and unloads; _adds.c adds and removes models for clients of HTTP; _link.c speaks to the scheduler; _control.c answers commands; _drain.c
 * ends everything.
 */
#ifndef CLI_SUPERVISOR_INTERNAL_H
#define CLI_SUPERVISOR_INTERNAL_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/vec.h"
#include "cli/supervisor.h"
#include "proto/link.h"

enum { EXIT_RING = 64, CONTROLS_MAX = 8, CONTROL_LINE_MAX = 512, WORKERS_MAX = 1024, ADDS_MAX = 4 };
/* Between two turns: then it was the supervisor that slept, and the silence of others proves
 * nothing. */
enum { LATE_TURN_MS = 3000 };

enum phase { PHASE_SERVING, PHASE_GATEWAYS, PHASE_SCHEDULER, PHASE_WORKERS, PHASE_DONE };

enum waits_for {
    WAITS_FOR_NOTHING,
    WAITS_FOR_SCALE,
    WAITS_FOR_LOAD,
    WAITS_FOR_UNLOAD,
    WAITS_FOR_RELOAD,
    WAITS_FOR_REMOVE
};

/* A command's connection; a reply may have to wait for what was asked. */
struct control {
    int fd; /* -1: free */
    char line[CONTROL_LINE_MAX];
    size_t len;
    enum waits_for waits_for;
    uint32_t model; /* that it is about */
    int64_t until_ms;
};

/* A process that adds or removes a model for a client of HTTP. */
struct add_job {
    int pid; /* 0: free */
    int fd;  /* what it prints */
    struct u128 ticket;
    char text[2048]; /* the end of that */
    size_t len;
};

/* A model that has workers, or may have. */
struct managed_model {
    struct supervisor_model terms;
    uint32_t wanted; /* processes */
    uint32_t base;   /* place of the first of them */
    /* A new revision is being loaded: its workers are those above, these run until it is ready. */
    struct supervisor_model before;
    uint32_t before_base, before_count; /* 0: none is */
    int64_t renewed_ms;                 /* when that began */
    bool ends_streams;                  /* those that are not wanted any more may end theirs */
    /* what the scheduler says of it, and since when it has had nothing to do */
    uint32_t busy, replicas_ready;
    uint64_t steps;
    int64_t used_ms;
    /* loaded for requests of which none has been seen yet; since when they could come, 0: not yet */
    bool is_awaited;
    int64_t ready_ms;
    bool later; /* loaded after the start: that it cannot be is no reason to end */
    /* a place without a name behind the configured models is free; one that was added and could not be
     * loaded, or is removed, leaves its own */
    bool is_new;          /* it was added, and has not been ready yet */
    bool leaves;          /* it is forgotten once its processes have ended */
    bool is_unknown;      /* the scheduler does not know it: models_take_status */
    bool was_ready;       /* since its load began */
    uint32_t failed_ends; /* of its workers, before that */
    /* it is to be loaded, and there is no room yet: asked for first and last; 0: not asked for */
    int64_t first_asked_ms, asked_ms;
    bool had_no_room;  /* so nobody waits for it any more */
    int64_t failed_ms; /* its workers cannot start: when that was seen; 0: they can */
    char failure[ERROR_TEXT_MAX];
    /* the gateways are not told yet: requests wait for it in vain, or no longer in vain */
    bool tells_failure, tells_load;
};

struct supervisor {
    const struct supervisor_config *config;
    VEC(struct child *) children; /* owned */
    struct managed_model models[SUPERVISOR_MODELS_MAX];
    uint32_t model_count;
    uint32_t configured_count; /* of them; the others were added while serving */
    enum phase phase;
    struct error failure; /* why it gave up by itself; code 0: it did not */
    int epoll_fd, signal_fd, control_fd;
    struct control controls[CONTROLS_MAX];
    struct add_job adds[ADDS_MAX];

    struct link_client *link; /* owned */
    bool registered;
    bool awaits_status; /* the first one since then */
    int64_t unheard_since_ms, turn_ms, pulse_turn_ms;
    bool unsaved; /* the children could not be written down: it is tried again in each turn */
    struct arena arena;
    struct buf scratch;
    /* latest ends, to answer late Fences and to tell a new scheduler */
    struct child_exit exits[EXIT_RING];
    uint64_t exit_count;
};

/* What an epoll event means. The low bits carry an index or a child's pid. */
enum source { SOURCE_SIGNAL = 1, SOURCE_CONTROL, SOURCE_CONNECTION, SOURCE_CHILD, SOURCE_ADD };
MUST_CHECK int supervisor_watch(struct supervisor *s, int fd, enum source source, uint32_t id,
                                struct error *err);

/* _children.c */
void children_adopt(struct supervisor *s, int64_t now_ms);
void children_want(struct supervisor *s, int64_t now_ms); /* makes the list match what is wanted */
/* starts what is due, kills what was asked and is late */
void children_turn(struct supervisor *s, int64_t now_ms);
void children_ended(struct supervisor *s, int pid, int64_t now_ms);
/* Kills workers and gateways whose pulse has stood still for silence_ms. */
void children_check_pulse(struct supervisor *s, int64_t now_ms);
void children_stop(struct supervisor *s, struct child *c, int64_t grace_ms, int64_t now_ms);
struct child *children_find(struct supervisor *s, int pid);
uint32_t children_alive(const struct supervisor *s, enum child_role role);
void children_save(struct supervisor *s);
int64_t children_next_ms(const struct supervisor *s); /* INT64_MAX: nothing is due */

/* _models.c */
void models_init(struct supervisor *s);
/* One by its name; the only one, if it has none. NULL: none. */
struct managed_model *models_find(struct supervisor *s, struct bytes name);
/* Said to who names no model of this server. */
#define SUPERVISOR_WHICH "this server has no model of that name; trireme status lists them"
/* Whether there is one at this place. */
static inline bool models_has(const struct supervisor *s, uint32_t model) {
    return model < s->model_count && (model < s->configured_count || s->models[model].terms.name);
}
/* One that was not configured, by a word as --model takes it. */
MUST_CHECK int models_add(struct supervisor *s, const char *word, struct managed_model **out,
                          struct error *err);
/* Of a worker's index. Those of models that were added are above ADDED_BASE, so that the places of the
 * others stay what they are. */
enum { ADDED_BASE = 100000 };
uint32_t models_of(const struct supervisor *s, uint32_t idx);
uint32_t models_place(const struct supervisor *s, uint32_t idx);
uint32_t models_idx(const struct supervisor *s, uint32_t model, uint32_t place);
/* Workers of it that run or are about to end. */
uint32_t models_processes(const struct supervisor *s, const struct managed_model *m);
/* It gets its workers, after others have left if models_max or models_memory ask for it. ERR_LIMIT:
 * there will never be room. */
MUST_CHECK int models_load(struct supervisor *s, struct managed_model *m, int64_t now_ms,
                           struct error *err);
/* A new revision of a model that is loaded: workers of it start beside those that run, and these end
 * when it is ready and their streams have ended. Where it is not loaded, the next load takes it. ERR_LIMIT:
 * there is no room for both; ERR_AGAIN: one is being loaded. */
MUST_CHECK int models_reload(struct supervisor *s, struct managed_model *m, int64_t now_ms,
                             struct error *err);
/* The terms by which the worker at this place of the model is, or is to be, started. */
const struct supervisor_model *models_terms(const struct managed_model *m, uint32_t place);
/* Is a worker wanted at this place? */
bool models_want_place(const struct managed_model *m, uint32_t place);
/* Its workers end when their streams have. */
void models_unload(struct supervisor *s, struct managed_model *m, int64_t now_ms);
/* A worker of it ended; gave_up: it said that another start is of no use. true: nor is it, for a model that
 * is loaded while others serve and has not been ready yet. */
bool models_worker_ended(struct supervisor *s, uint32_t model, bool gave_up);
/* The worker of it at this place can never start. false: then neither can the supervisor. */
bool models_failed(struct supervisor *s, uint32_t model, uint32_t place, const char *why,
                   int64_t now_ms);
/* What the scheduler says of all, and what a client asks for. */
void models_take_status(struct supervisor *s, const struct wire_status *status, int64_t now_ms);
void models_take_want(struct supervisor *s, const struct wire_want *want, int64_t now_ms);
/* One that was added leaves once its streams have ended. ERR_UNSUPPORTED: it was not added. */
MUST_CHECK int models_remove(struct supervisor *s, struct managed_model *m, int64_t now_ms,
                             struct error *err);
/* Whether processes of it run, or are to. */
bool models_has_children(const struct supervisor *s, const struct managed_model *m);
/* Those that leave give up their places, once whoever waits for one was told. */
void models_forget_leaving(struct supervisor *s);
/* Unloads what nobody has used for long. */
void models_turn(struct supervisor *s, int64_t now_ms);
/* "loaded", "loading", "reloading", "unloading", "unloaded" or "failed". */
const char *models_state(const struct supervisor *s, const struct managed_model *m);

/* Tells the gateways which models cannot be loaded, and which are being loaded after all. */
void models_tell_outcomes(struct supervisor *s);

/* _link.c */
MUST_CHECK int supervisor_link_open(struct supervisor *s, struct error *err);
void supervisor_send_exit(struct supervisor *s, const struct child_exit *e);
/* false: the scheduler does not answer, or the link is full. */
MUST_CHECK bool supervisor_send_outcome(struct supervisor *s, const struct wire_outcome *outcome);
void supervisor_watch_scheduler(struct supervisor *s, int64_t now_ms);

/* _control.c */
MUST_CHECK int control_open(struct supervisor *s, struct error *err);
void control_close(struct supervisor *s);
void control_accept(struct supervisor *s, int64_t now_ms);
void control_read(struct supervisor *s, uint32_t idx, int64_t now_ms);
void control_turn(struct supervisor *s, int64_t now_ms);

/* _adds.c */
void adds_begin(struct supervisor *s, const struct wire_want *want);
void adds_read(struct supervisor *s, uint32_t idx);
void adds_close(struct supervisor *s); /* ends those that run */

/* _drain.c */
void drain_begin(struct supervisor *s, int64_t now_ms);
void drain_turn(struct supervisor *s, int64_t now_ms);

#endif
