/*
 * long_runs.h - runs of many tokens, which an event thread takes piece by piece.
 *
 * A stream that a client takes up, or of which much was lost, comes in one run: up to a hundred
 * thousand tokens, each with log-probabilities. Written at once it would hold up all other streams
 * of the thread. So such a run waits here, and each turn takes one piece of one run; the runs take
 * turns.
 *
 * A run whose client does not read is put aside until it does. What lies aside has a bound; past it
 * the run is given up, and asked for again later.
 *
 * Work is counted in tokens and entries of log-probabilities, not in time.
 *
 * Invariants:
 *   (1) A piece makes LONG_RUN_WORK at most, or is one token.
 *   (2) The pieces of a run are its tokens in order; only the last one has its finish.
 *   (3) A mail is kept as long as a run of it waits.
 *
 * Threading: its event thread.
 */
#ifndef GATEWAY_GENERATION_LONG_RUNS_H
#define GATEWAY_GENERATION_LONG_RUNS_H

#include <stdatomic.h>

#include "gateway/link/mailbox.h"

enum { LONG_RUN_WORK = 256 };

struct long_run {
    struct long_run *next;
    struct mail *mail;     /* kept */
    struct mail_item rest; /* of the run; what comes next is at its beginning */
};

/* Zeroed: no runs. */
struct long_runs {
    struct long_run *first, *last; /* owned: those that wait for their turn */
    struct long_run *aside;        /* owned: those that wait for their reader */
    /* of their mails, and pieces taken so far; other threads may read both */
    _Atomic uint64_t aside_bytes, piece_count;
};

/* Frees those that wait. */
void long_runs_release(struct long_runs *runs);
/* What the first tokens of a run make, counted no further than to one past LONG_RUN_WORK: so much
 * is a long run. */
uint32_t long_run_work(const struct mail *mail, const struct mail_item *item);
/* The run waits behind the others; its mail is kept. */
void long_runs_add(struct long_runs *runs, struct mail *mail, const struct mail_item *item);
/* Takes the first run out, for its next piece (*piece, of run->mail). NULL: none waits. It is then
 * put back or freed by one of the two below. */
struct long_run *long_runs_take(struct long_runs *runs, struct mail_item *piece);
/* The piece was taken: the rest waits behind the others. False: there is no rest, and the run is
 * freed. */
bool long_runs_put_back(struct long_runs *runs, struct long_run *run,
                        const struct mail_item *piece);
/* The run that was taken out waits for its reader, if no more than bytes_max are aside then. False:
 * it is freed. */
bool long_runs_put_aside(struct long_runs *runs, struct long_run *run, uint64_t bytes_max);
/* A request's client reads: its runs wait for their turn again. */
void long_runs_wake(struct long_runs *runs, struct u128 request);
/* Frees all runs of a request. */
void long_runs_drop(struct long_runs *runs, struct u128 request);
/* Nobody wants the rest of one that was taken out. */
void long_run_free(struct long_run *run);

#endif
