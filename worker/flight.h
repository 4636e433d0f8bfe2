/*
 * flight.h - a step between enqueue and collect: what was planned, where the device writes, and the
 * result made of both.
 */
#ifndef WORKER_FLIGHT_H
#define WORKER_FLIGHT_H

#include "kernels/ops.h"
#include "worker/pooling.h"

enum {
    FLIGHT_OPS_MAX = 4096,  /* block operations of one plan */
    FLIGHT_DRAFTS_MAX = 256 /* drafts of one plan */
};

/* flight_ring.h says what each means, and moves between them. */
enum flight_state {
    FLIGHT_FREE,
    FLIGHT_RUNNING,
    FLIGHT_SHARED,
    FLIGHT_COLLECTED,
    FLIGHT_OVER,
    FLIGHT_STATE_COUNT
};

struct flight {
    enum flight_state state; /* set by flight_ring.c alone */
    struct device *dev;      /* borrowed */
    struct event *done;
    int64_t start_us;
    uint64_t plan_number;
    uint32_t incarnation;
    uint32_t row_count;
    uint32_t op_count;
    uint32_t sample_count;
    bool taken;                      /* its tokens have reached the constraints */
    uint32_t *mask_bits, *mask_rows; /* host memory of the device; NULL where no row is sampled */
    struct mirror_row *rows;         /* [slot_count] */
    /* [slot_count]: sampling row's place in out, of its drafts behind it; ROW_NONE: the row does not
     * sample */
    uint32_t *sample_of;
    struct sample_out out; /* host memory of the device */
    /* Of prompts that become vectors; NULL: the model makes none. */
    struct pooling_state *pooling;        /* borrowed: the executor's */
    float *states;                        /* host memory of the device [state_max, width] */
    uint32_t *state_first, *state_counts; /* [slot_count]: a row's share of them */
    uint32_t state_max;
    float *vectors; /* [slot_count, width] */
    /* The result's columns; of tokens [slot_count + FLIGHT_DRAFTS_MAX], as out. */
    uint32_t *slots, *token_counts, *finishes, *tokens, *tops, *logprob_ids;
    uint32_t *ops_done; /* 0, 1, 2, ...: operations are done in the plan's order */
    float *logprob_values;
    float *sampler_states;
};

/* FREE, with room for the results of slot_count rows. ERR_MEMORY: nothing is kept. */
MUST_CHECK int flight_init(struct flight *f, struct device *dev, uint32_t slot_count,
                           struct error *err);
/* Makes room for vectors, and for the states of so many positions that they are made of. ERR_MEMORY:
 * release it all the same. */
MUST_CHECK int flight_add_vectors(struct flight *f, uint32_t slot_count, uint32_t state_max,
                                  struct pooling_state *pooling, struct error *err);
/* Makes room for the masks of slot_count rows, of so many words each. ERR_MEMORY: none is there. */
MUST_CHECK int flight_add_masks(struct flight *f, uint32_t slot_count, uint32_t word_count,
                                struct error *err);
/* Also of one that is zero. */
void flight_release(struct flight *f);
/* After f->done: fills *result, which points into f's columns, and marks in the mirror, unless NULL,
 * which sequences ended. */
void flight_finish(struct flight *f, struct mirror *mirror, struct wire_step_result *result);

#endif
