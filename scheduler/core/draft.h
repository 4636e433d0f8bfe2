/*
 * draft.h - drafts: guesses of what a sequence goes on with, computed together with its next token.
 *
 * Where the end of a sequence stands earlier in it (a quotation, code that is edited, a list), what
 * followed there is the draft of what follows now. A step computes the drafts' positions beside the last
 * known one, as rows of the same sequence: weights are read once for all of them. The sampler draws each
 * token as it would have without, and accepts drafts as far as they are what it draws
 * (kernels/ops.h). So they change no token, only how many a step makes.
 *
 * What a draft costs, and what one that is accepted saves, is known from what steps have cost
 * (step_cost.h); how often those of a sequence are accepted, from its last ones. Tokens that were looked
 * up but not computed count too. Where drafts do not pay there are none.
 *
 * A row with drafts needs all tokens before it. So while a sequence is to have some, or its last ones are
 * in flight, no plan of its replica is sent ahead (plan.h): all rows stay in one batch.
 *
 * Source: prompt lookup decoding (A. Saxena, 2023), with acceptance by equality to the sampler's own draw.
 */
#ifndef SCHEDULER_CORE_DRAFT_H
#define SCHEDULER_CORE_DRAFT_H

#include <stdbool.h>
#include <stdint.h>

struct replica;
struct sched;
struct sequence;

enum {
    DRAFT_MATCH_LEAST = 2,  /* tokens of its end that have to stand there */
    DRAFT_MATCH_MOST = 16,  /* more are not compared */
    DRAFT_LOOK_BACK = 32768 /* tokens in which they are sought */
};

struct sequence_draft {
    uint32_t from;      /* where in its tokens what may follow stands; 0: nowhere */
    uint32_t in_flight; /* drafts in the row that is in flight */
    double rate;        /* the share of drafts that were accepted, of late ones above all */
    bool due;           /* its next row is to have some */
};

/* Before the first one of a sequence. */
void draft_init(struct sequence_draft *d);
/* It leaves its slot, or its rows in flight do not count. */
void draft_drop(struct sequence *q);
/* After `count` tokens of a row were appended to q, which goes on: counts which of its drafts were accepted,
 * and looks for the next ones. */
void draft_review(struct sched *s, struct sequence *q, uint32_t count);
/* Is a plan of this replica to wait until all that is in flight has been answered? */
bool draft_holds(const struct sched *s, const struct replica *r);
/* How many drafts the next row of q, which is due, is to have, `most` at the most; they go to
 * out [most]. None where q's last token is not known. */
uint32_t draft_take(const struct sched *s, const struct sequence *q, uint32_t most, uint32_t *out);

#endif
