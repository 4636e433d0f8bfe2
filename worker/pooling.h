/*
 * pooling.h - the states of a prompt's positions become its vector.
 *
 * A step copies the states that count (the last norm's output, f32) to the host: the last one's,
 * the first one's, or all of them. They are taken in order of position, however the prompt was cut
 * into steps, and sums are float64: so the vector depends on the states alone.
 *
 * Threading: the compute thread.
 */
#ifndef WORKER_POOLING_H
#define WORKER_POOLING_H

#include "model/load/vector_head.h"
#include "proto/messages.h"
#include "worker/mirror.h"

struct pooling_state {
    enum wire_pooling kind;
    uint32_t width;                 /* of a state */
    uint32_t vector_width;          /* of what comes out */
    const struct vector_head *head; /* borrowed; NULL: the vector is what was pooled */
    float *pooled;                  /* owned [width], with a head */
    double *room;                   /* owned, with a head: for its layers */
    double *held; /* owned [slot_count, width]; NULL: none is needed between steps */
};

/* Of a kind that is not NONE. head: what makes the vector of what was pooled (borrowed); NULL: it is
 * that. */
void pooling_init(struct pooling_state *p, enum wire_pooling kind, uint32_t width,
                  uint32_t slot_count, const struct vector_head *head);
/* Zeroes are fine. */
void pooling_release(struct pooling_state *p);
/* Rows [*first, *first + *count) of a row of a plan whose states count; count 0: none. */
void pooling_wants(enum wire_pooling kind, const struct mirror_row *row, uint32_t *first,
                   uint32_t *count);
/* Takes the states that a row wanted, [count, width]; where it ends its prompt, writes its vector to
 * out [vector_width]. False: that vector is not finite. */
bool pooling_take(struct pooling_state *p, const struct mirror_row *row, const float *states,
                  uint32_t count, float *out);

#endif
