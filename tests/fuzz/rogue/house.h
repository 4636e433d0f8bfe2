/*
 * house.h - a live scheduler with an honest gateway and an honest worker (tests/fakes), and a rogue
 * beside them; all in one thread (link_here.h).
 *
 * What holds whatever the rogue says:
 *   (1) the core's invariants (sched_check), after every frame's turn;
 *   (2) the scheduler runs on, and the honest worker is never sent a plan that does not fit;
 *   (3) when the rogue has fallen silent, every request of the honest gateway comes to its end.
 */
#ifndef TESTS_FUZZ_ROGUE_HOUSE_H
#define TESTS_FUZZ_ROGUE_HOUSE_H

#include "fakes/fake_gateway.h"
#include "fakes/fake_worker.h"
#include "rogue/link_here.h"
#include "rogue/rogue.h"
#include "scheduler/process.h"

enum { HOUSE_ROGUES = 2, HOUSE_STREAMS = 24 };
#define HOUSE_WORKER ((struct u128){1, 66}) /* the honest one */

struct house {
    struct process process;
    struct scheduler_settings settings;
    struct fake_gateway *gateway;
    struct fake_worker *worker;
    struct rogue rogue;
    enum wire_role role; /* the rogue's */
    uint32_t incarnations[HOUSE_ROGUES];
    int64_t said_ms; /* when the rogue last was kept alive */
    struct buf out;
    /* Hears what the scheduler tells the rogue, after rogue_note. NULL: nobody. */
    void (*hear)(struct house *h, enum wire_kind kind, struct bytes payload);
};

/* Everything is up and registered, but for the rogue. Borrows the input until house_close. */
void house_open(struct house *h, enum wire_role rogue_role, const uint8_t *data, size_t len);
/* The rogue falls silent; runs until every honest stream has ended (CHECKs that it does) and ends
 * everything. */
void house_close(struct house *h);
/* Lets ms go by in turns. */
void house_run(struct house *h, int64_t ms);
/* The honest gateway submits a request, while it has had fewer than HOUSE_STREAMS. */
void house_submit(struct house *h);
/* The rogue says this, as one of its instances, with the present epoch or a stale one. */
void house_say(struct house *h, enum wire_kind kind, struct bytes payload);
/* A Hello of the rogue: right for its role, or with some fields changed. */
void house_hello(struct house *h);
/* Packs it and says it; the second changes some of its fields first, or not. */
void house_say_packed(struct house *h, enum wire_kind kind, const void *message);
void house_say_changed(struct house *h, enum wire_kind kind, void *message);
/* One whole message of any kind, drawn; or one sent before. */
void house_say_drawn(struct house *h);
void house_say_again(struct house *h);

#endif
