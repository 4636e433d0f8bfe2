/* The table of a sequence's moves: that it holds together, and that days of faults make every move
 * in it. A move that is not in it fails where it is made. */
#include "scheduler/core/core.h"
#include "scheduler/core/sequence_state.h"
#include "sim.h"

#include <stdio.h>

_Static_assert((int)SEQUENCE_STATES == (int)SEQ_STATE_COUNT,
               "sim.h knows another number of states");

/* in fewer days some moves may not happen; two need a takeover while rows are in flight, of a preempted
 * sequence or of one that is to wait elsewhere then: once in some thousand days */
enum { SEEDS_FOR_MOST = 1000, SEEDS_FOR_ALL = 10000 };

/* No gateway of these days makes them; tests/unit/scheduler/test_core_restart.c does. */
static bool is_rare(int from, int to) {
    return (from == SEQ_ENDING && to == SEQ_RESTARTING) ||
           (from == SEQ_DONE && (to == SEQ_QUEUED || to == SEQ_PARKED));
}

static uint64_t seeds_for(int from, int to) {
    bool seldom = (from == SEQ_PREEMPTED && to == SEQ_RESTARTING) ||
                  (from == SEQ_RESTARTING && to == SEQ_PARKED);
    return seldom ? SEEDS_FOR_ALL : SEEDS_FOR_MOST;
}

void moves_collect(struct world *w, const struct sched *core) {
    for (int from = 0; from < SEQ_STATE_COUNT; from++)
        w->moves_seen[from] |= core->moves_seen[from];
}

static bool may_move(int from, int to) {
    return seq_state_moves((enum seq_state)from) >> to & 1;
}

static bool fails(const char *what, int state) {
    printf("violated: %s: %s\n", what, seq_state_name((enum seq_state)state));
    return true;
}

/* The states that can be reached from this one, itself among them. */
static unsigned reachable(int from) {
    unsigned seen = 1u << from, before = 0;
    while (seen != before) {
        before = seen;
        for (int state = 0; state < SEQ_STATE_COUNT; state++)
            if (seen >> state & 1)
                seen |= seq_state_moves((enum seq_state)state);
    }
    return seen;
}

static bool table_is_sound(void) {
    bool bad = false;
    for (int state = 0; state < SEQ_STATE_COUNT; state++) {
        const struct sequence q = {.state = (uint8_t)state};
        if (!(reachable(SEQ_NEW) >> state & 1))
            bad = fails("no way leads to a state", state);
        if (!(reachable(state) >> SEQ_DONE & 1))
            bad = fails("a sequence cannot end from a state", state);
        if (may_move(state, SEQ_NEW) || may_move(state, SEQ_HELD) != (state == SEQ_NEW))
            bad = fails("what has begun is new or held again after a state", state);
        bool waits = state == SEQ_QUEUED || state == SEQ_PARKED;
        if (may_move(state, SEQ_PLACED) != waits)
            bad = fails("a slot is taken, or cannot be, from a state", state);
        for (int to = SEQ_RUNNING; to <= SEQ_ENDING; to++)
            if (may_move(state, to) && !seq_in_slot(&q))
                bad = fails("a worker runs what is in no slot after a state", state);
        if (seq_is_leaving(&q) && may_move(state, SEQ_RUNNING))
            bad = fails("new rows follow a state that gets none", state);
    }
    return !bad;
}

bool moves_are_good(const unsigned seen[SEQUENCE_STATES], uint64_t seeds) {
    bool good = table_is_sound();
    int legal_count = 0, seen_count = 0;
    for (int from = 0; from < SEQ_STATE_COUNT; from++)
        for (int to = 0; to < SEQ_STATE_COUNT; to++) {
            if (!may_move(from, to))
                continue;
            legal_count++;
            seen_count += seen[from] >> to & 1;
            if (seen[from] >> to & 1 || seeds < seeds_for(from, to) || is_rare(from, to))
                continue;
            good = false;
            printf("violated: no sequence ever went from %s to %s\n",
                   seq_state_name((enum seq_state)from), seq_state_name((enum seq_state)to));
        }
    printf("%d of %d moves of sequences seen\n", seen_count, legal_count);
    return good;
}
