/*
 * step_cost.h - what a step costs: a fixed part, a part for each row and a part for each token,
 * fitted by least squares to the last steps. When all of those had the same size, the fit cannot tell the
 * parts apart, and the cost counts as that of rows and tokens. The first smaller step corrects this.
 *
 * What one more row of a step without prompts costs is fitted to such steps alone, and the other way round:
 * as long as all had about the same number of rows, it is the step that costs, not the row.
 *
 * The first step of all is not counted: weights that nobody has read yet come from the disk then.
 */
#ifndef SCHEDULER_CORE_STEP_COST_H
#define SCHEDULER_CORE_STEP_COST_H

#include <stdbool.h>
#include <stdint.h>

/* Zeroed: nothing is known. */
struct step_cost {
    double step_ms, row_ms, token_ms; /* none is negative */
    double sums[4][4];                /* of products of 1, rows, tokens, ms; older ones fade */
    double extra_row_ms;              /* not negative */
    double row_sums[5]; /* sums of 1, rows, rows * rows, ms, rows * ms; older ones fade */
    bool begun;         /* a first step was seen */
    uint32_t most_rows, most_tokens; /* of a step that was counted */
};

/* A step of so many rows and tokens, one at least, took so long. */
void step_cost_observe(struct step_cost *cost, uint32_t rows, uint32_t tokens, double ms);
/* What a step of so many rows and tokens takes, in ms, at least: one larger than any that was seen
 * counts as the largest, for what its further rows and tokens cost is not known. 0: nothing is. */
double step_cost_ms(const struct step_cost *cost, double rows, double tokens);
/* What a step of so many rows takes that get a token each, without prompts; 0: none was seen. */
double step_cost_rows_ms(const struct step_cost *cost, uint32_t rows);

#endif
