/*
 * tally.h - how much of a thing each of many holders has, and all together.
 *
 * Invariants:
 *   (1) A holder is known exactly while it has some.
 *   (2) total is the sum of what holders have.
 *
 * Threading: one at a time.
 */
#ifndef GATEWAY_GENERATION_TALLY_H
#define GATEWAY_GENERATION_TALLY_H

#include "base/base.h"

enum { TALLY_BUCKETS = 1024 };

/* Zeroed it is empty, and once empty it holds nothing that is to be freed. */
struct tally {
    struct tally_holder *buckets[TALLY_BUCKETS]; /* owned */
    uint64_t total, holder_count;
};

/* What this holder has; 0: it is unknown. */
uint64_t tally_of(const struct tally *tally, struct u128 holder);
void tally_add(struct tally *tally, struct u128 holder, uint64_t amount);
/* At most what it has. */
void tally_subtract(struct tally *tally, struct u128 holder, uint64_t amount);

#endif
