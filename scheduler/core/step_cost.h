/*
 * step_cost.h - what a step costs: so much for any, so much a row and so much a token, by least
 * squares over the last steps. What they do not tell apart (all were of one size) counts as the
 * rows' and tokens', which the first smaller step puts right.
 */
#ifndef SCHEDULER_CORE_STEP_COST_H
#define SCHEDULER_CORE_STEP_COST_H

#include <stdint.h>

/* Zeroed: nothing is known. */
struct step_cost {
    double step_ms, row_ms, token_ms; /* none is negative */
    double sums[4][4];                /* of products of 1, rows, tokens, ms; older ones fade */
};

/* A step of so many rows and tokens, one at least, took so long. */
void step_cost_observe(struct step_cost *cost, uint32_t rows, uint32_t tokens, double ms);

#endif
