/*
 * delivery.h - exactly once, in order: which tokens of a request's choices are taken, which are
 * dropped, what must be asked again.
 *
 * One struct delivery is one request on the wire: its identity, its attempt, and for each choice
 * the tokens taken so far (kept so that the request can be submitted again to another scheduler).
 * It does no I/O and reads no clock: the caller offers runs of tokens and the time, and does what
 * the verdicts say.
 *
 * Invariants:
 *   (1) The tokens of a choice are the concatenation of the runs taken: none twice, none missing,
 *       none out of order.
 *   (2) A run is looked at only if its epoch and its attempt are the current ones.
 *   (3) Nothing is taken for a choice that has finished.
 *   (4) open_count is the number of choices not finished.
 *
 * Threading: one thread at a time.
 */
#ifndef GATEWAY_GENERATION_DELIVERY_H
#define GATEWAY_GENERATION_DELIVERY_H

#include "proto/frame.h"

enum {
    DELIVERY_SUBMIT_AGAIN_MS = 1000, /* until the scheduler has answered */
    /* after a gap, while it stays; or when a cancelled choice goes on */
    DELIVERY_ASK_AGAIN_MS = 250,
    /* accepted, but nothing heard: ask (the tail of a run may be lost), */
    DELIVERY_QUIET_MS = 2000,
    DELIVERY_QUIET_MAX_MS = 16000, /* and again after twice as long, up to this */
};

struct delivery_choice {
    uint32_t *ids; /* owned */
    uint32_t count, cap;
    float sampler_state; /* behind the last token, of a sampler that steers */
    bool finished;
    bool confirmed;     /* the scheduler's own finish was taken, not only our wish that it end */
    uint32_t ack_place; /* 1 + its place in the caller's list of choices to acknowledge; 0: none */
    int64_t ask_ms;     /* when something was last asked about it; 0: never */
};

struct delivery {
    struct u128 request;
    uint32_t attempt;
    struct epoch epoch; /* of the scheduler this attempt went to */
    bool submitted;     /* this attempt was handed to the link */
    bool accepted;      /* and the scheduler has it */
    /* a scheduler that is gone may have run it: not subject to the bound on new work */
    bool resumed;
    uint32_t quiet_ms;               /* silence after which the scheduler is asked */
    int64_t submit_ms;               /* of the last Submit of this attempt */
    int64_t heard_ms;                /* of the last run of this attempt, or the last question */
    struct delivery_choice *choices; /* owned; the wire's choice number is the index */
    uint32_t choice_count, open_count;
};

/* choice_count choices without tokens, attempt 0, not submitted. */
void delivery_init(struct delivery *d, struct u128 request, uint32_t choice_count);
/* Frees the tokens; a zeroed delivery is fine. */
void delivery_release(struct delivery *d);

/* A run of tokens of one choice, as a Deltas message tells it. */
struct delivery_run {
    struct epoch epoch;
    uint32_t attempt, choice, index, count;
    bool finish; /* the choice ends with this run */
};

enum delivery_verdict {
    /* tokens [skip, count) of the run are the next ones; the caller calls delivery_take for each it
     * uses */
    DELIVERY_TAKE,
    DELIVERY_DUPLICATE, /* nothing new */
    DELIVERY_STALE,     /* of another epoch or attempt, or of no choice of this request */
    /* the choice has ended already; if *ask, cancel it (again): the scheduler goes on with it */
    DELIVERY_FINISHED,
    DELIVERY_GAP, /* tokens before it are missing: drop it, and ask for them if *ask */
};

/* Judges a run. DELIVERY_TAKE is also the verdict for a run without new tokens whose finish is new
 * (*skip == count). A run of the current attempt also counts as the scheduler's acceptance. *ask:
 * see above; at most once every DELIVERY_RESEND_AGAIN_MS a choice. */
enum delivery_verdict delivery_accept(struct delivery *d, const struct delivery_run *run,
                                      int64_t now_ms, uint32_t *skip, bool *ask);
/* Appends one token to a choice that has not finished; sampler_state is what a sampler that steers
 * has behind it. */
void delivery_take(struct delivery *d, uint32_t choice, uint32_t id, float sampler_state);
/* Ends a choice: by the scheduler's finish (confirmed), or because the gateway wants no more of it.
 * */
void delivery_finish(struct delivery *d, uint32_t choice, bool confirmed);
/* What an Ack says of a choice: the tokens taken, and one more when its finish was. */
static inline uint32_t delivery_ack_count(const struct delivery *d, uint32_t choice) {
    return d->choices[choice].count + (d->choices[choice].confirmed ? 1 : 0);
}
/* Every choice has finished. */
static inline bool delivery_is_done(const struct delivery *d) {
    return d->open_count == 0;
}

enum delivery_due { DELIVERY_NOTHING, DELIVERY_SUBMIT, DELIVERY_ASK };
/* What time has made due: submit (again), or ask for what may be lost (a Resend for each open
 * choice). Calling it again at once gives DELIVERY_NOTHING: it notes that the thing was done. */
enum delivery_due delivery_due(struct delivery *d, int64_t now_ms);
/* The scheduler of this attempt is gone, or does not know the request any more: the next Submit is
 * a new attempt, resumed, to `epoch`. */
void delivery_restart(struct delivery *d, struct epoch epoch);
/* The scheduler refused this attempt for now: the next Submit is a new attempt, as new as this one
 * was; resumed, if this one had been taken. */
void delivery_retry(struct delivery *d);
/* The scheduler runs it already: it was attached to, and its runs come from the first token on. */
void delivery_attached(struct delivery *d, uint32_t attempt, struct epoch epoch, int64_t now_ms);
/* A first submission waits no tick: marks it submitted now, to this epoch. */
void delivery_submitted(struct delivery *d, struct epoch epoch, int64_t now_ms);

#endif
