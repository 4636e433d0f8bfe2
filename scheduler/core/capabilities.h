/*
 * capabilities.h - what a rank's Hello says of itself, and what all ranks of a replica have in common:
 * its slots, pools and prefix cache.
 */
#ifndef SCHEDULER_CORE_CAPABILITIES_H
#define SCHEDULER_CORE_CAPABILITIES_H

#include "base/error.h"
#include "base/vec.h"
#include "scheduler/core/sequence.h"

struct rank_capabilities {
    struct u128 revision, fingerprint;
    uint32_t slot_count, max_step_tokens, max_context, logits_width, steps_in_flight;
    uint32_t group_count;
    uint32_t snapshot_count, drafts;
    uint64_t features;
    bool class_sensitive; /* prompt and output positions have other bits */
    struct wire_vectors vectors;
    struct wire_kv_group groups[SCHED_MAX_GROUPS];
    VEC(uint32_t) held_blocks; /* blocks of group 0 that still hold what held_hashes names */
    VEC(struct u128) held_hashes;
    uint8_t comm_id[WIRE_COMM_ID_MAX];
    uint32_t comm_id_len;
};

/* A copy of what a Hello (checked, not loading) says. */
void capabilities_copy(struct rank_capabilities *own, const struct wire_hello *hello);
/* Frees the lists of a copy; a zeroed one is fine. */
void capabilities_release(struct rank_capabilities *own);
/* Makes the replica what its ranks, all of them loaded, have in common. ERR_INVALID: they do not
 * fit together; text in err. The replica has nothing in slots. */
MUST_CHECK int replica_join(struct sched *s, struct replica *r, struct error *err);
/* Into the prefix cache goes what every rank still holds. */
void replica_adopt_held(struct replica *r);
/* All blocks and snapshots are free and without content. */
void pools_reset(struct replica *r);
/* Frees slots and pools; nothing is in them. */
void geometry_release(struct sched *s, struct replica *r);

#endif
