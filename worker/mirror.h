/*
 * mirror.h - what the host knows of the slots: plans are checked and applied here, in numbers only,
 * before anything reaches the device.
 *
 * Lengths run ahead of the device: a row that samples counts its token as known at once, because
 * the next plan may build on it. No plan may build on drafts before their result is there
 * (mirror_accept_drafts). When a result shows that a sequence has ended, mirror_ended marks
 * its slot; rows planned on it since then are wasted.
 *
 * What a plan gets wrong structurally (a gap, an id out of bounds, a row on an unknown slot, more
 * rows than a step holds, drafts where none may be) refuses the whole plan and changes nothing. What
 * is wrong with one sequence alone (a token past the vocabulary, a table too short) fails that
 * sequence.
 *
 * It also remembers which blocks hold sealed content: plans say so, and it is forgotten when
 * a block is handed out to be written.
 *
 * Threading: the compute thread.
 */
#ifndef WORKER_MIRROR_H
#define WORKER_MIRROR_H

#include "base/error.h"
#include "proto/messages.h"

struct mirror_slot {
    uint64_t admission; /* unique in this process; 0: empty slot */
    uint32_t token_count, computed_count, prompt_count, block_count;
    bool ended, failed;
    bool embeds;          /* its prompt becomes a vector, and no token follows */
    bool constrained;     /* what it may sample is made on the host, one token at a time */
    bool drafted;         /* drafts are in flight: how many of them are right is not known yet */
    uint32_t first_count; /* of a pair of texts: tokens of the first one; 0: it is none */
};

struct mirror_limits {
    uint32_t slot_count, max_context, max_step_tokens, vocab, block_tokens, block_count,
        snapshot_count, draft_max;
    struct wire_vectors vectors;
};

struct mirror {
    struct mirror_limits limits;
    uint32_t max_blocks; /* a slot */
    uint64_t last_plan, admissions;
    struct mirror_slot *slots, *next; /* [slot_count] */
    struct u128 *sealed;              /* [block_count]; zero: not */
    uint32_t *held_ids;               /* room for mirror_held */
    struct u128 *held_hashes;
};

enum row_fate {
    ROW_RUNS,
    ROW_WASTED /* slot ended, or nothing to compute */,
    ROW_FAILED /* this sequence ends with an error */
};
struct mirror_row {
    uint64_t admission;
    uint32_t slot, position, token_count; /* computes [position, position + token_count) */
    uint32_t prompt_rows;                 /* of these, the first so many are prompt class */
    uint32_t draft_count;                 /* positions behind these, of drafts */
    enum row_fate fate;
    bool samples;
    bool embeds; /* reaches the end of a prompt that becomes a vector */
    bool pools;  /* is of such a prompt */
};

/* Empty slots, and no block that holds anything. */
void mirror_init(struct mirror *m, const struct mirror_limits *limits);
/* Frees slots and blocks. */
void mirror_release(struct mirror *m);
/* Empties all slots and starts plan numbers anew; sealed blocks stay. */
void mirror_reset(struct mirror *m);
/* Checks and applies. rows[i] is what row i computes, and added_at[i] where in its slot's table new
 * block i goes; room for slot_count rows and block_count blocks. ERR_INVALID: nothing was
 * changed. */
MUST_CHECK int mirror_apply(struct mirror *m, const struct wire_plan *plan, struct mirror_row *rows,
                            uint32_t *added_at, struct error *err);
/* The sequence of this admission has ended (nothing happens when its slot has another one by
 * now). */
void mirror_ended(struct mirror *m, uint32_t slot, uint64_t admission);
/* So many drafts of this admission's last row were right: they are known and computed. */
void mirror_accept_drafts(struct mirror *m, uint32_t slot, uint64_t admission, uint32_t count);
/* The blocks that hold sealed content, and its hashes. Valid until the next call that takes m
 * without const. */
void mirror_held(struct mirror *m, struct u32s *blocks, struct u128s *hashes);

#endif
