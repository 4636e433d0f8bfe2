/*
 * flight.h - a step between enqueue and collect: what was planned, where the device writes, and the result made of
 * both.
 */
#ifndef WORKER_FLIGHT_H
#define WORKER_FLIGHT_H

#include "kernels/ops.h"
#include "worker/mirror.h"

enum { FLIGHT_OPS_MAX = 4096 }; /* block operations of one plan */

struct flight {
    struct device *dev; /* borrowed */
    struct event *done;
    int64_t start_us;
    uint64_t plan_number;
    uint32_t incarnation, row_count, op_count, sample_count;
    struct mirror_row *rows; /* [slot_count] */
    uint32_t *sample_of;     /* [slot_count]: sampling row's place in out; ROW_NONE: the row does not sample */
    struct sample_out out;   /* host memory of the device */
    /* The result's columns. */
    uint32_t *slots, *token_counts, *finishes, *tokens, *tops, *logprob_ids;
    uint32_t *ops_done; /* 0, 1, 2, ...: operations are done in the plan's order */
    float *logprob_values;
};

MUST_CHECK int flight_init(struct flight *f, struct device *dev, uint32_t slot_count, struct error *err);
void flight_release(struct flight *f);
/* After f->done: fills *result (into f's columns) and tells the mirror, unless NULL, which sequences ended. */
void flight_finish(struct flight *f, struct mirror *mirror, struct wire_step_result *result);

#endif
