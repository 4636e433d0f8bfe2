/*
 * step_cost.h - what a step costs: a fixed part, a part for each row and a part for each token,
 * fitted by least squares to the last steps. When all of those had the same size, the fit cannot tell the
 * parts apart, and the cost counts as that of rows and tokens. The first smaller step corrects this.
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
