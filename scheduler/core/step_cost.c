#include "scheduler/core/step_cost.h"

#include "base/base.h"

static const double FADE = 0.98; /* of what was observed, at each step */
/* Of a column's own square: where steps do not tell columns apart, those with less have the cost. */
static const double RIDGE[3] = {2e-3, 1e-4, 1e-4};

/* Least squares of ms in the columns that are in use; false: one of them costs less than nothing. */
static bool solve(const struct step_cost *cost, const bool used[3], double out[3]) {
    double m[3][4];
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 4; k++)
            m[i][k] = used[i] && (k == 3 || used[k]) ? cost->sums[i][k] : 0;
        m[i][i] = used[i] ? cost->sums[i][i] * (1 + RIDGE[i]) : 1;
    }
    for (int i = 0; i < 3; i++) /* positive definite: no pivots are needed */
        for (int row = i + 1; row < 3; row++) {
            double factor = m[row][i] / m[i][i];
            for (int k = i; k < 4; k++)
                m[row][k] -= factor * m[i][k];
        }
    bool right = true;
    for (int i = 2; i >= 0; i--) {
        double sum = m[i][3];
        for (int k = i + 1; k < 3; k++)
            sum -= m[i][k] * out[k];
        out[i] = sum / m[i][i];
        right = right && out[i] >= 0;
    }
    return right;
}

static const double ROW_FADE = 0.999;
static const double ROW_RIDGE = 1e-3; /* of the square of the mean number of rows */

/* Rows that get a token each, and nothing else. */
static void observe_rows(struct step_cost *cost, double rows, double ms) {
    const double seen[5] = {1, rows, rows * rows, ms, rows * ms};
    double *sums = cost->row_sums;
    for (int i = 0; i < 5; i++)
        sums[i] = sums[i] * ROW_FADE + seen[i];
    double spread = sums[0] * sums[2] - sums[1] * sums[1],
           slope = (sums[0] * sums[4] - sums[1] * sums[3]) /
                   (MAX(spread, 0.0) + ROW_RIDGE * sums[1] * sums[1]);
    cost->extra_row_ms = MAX(slope, 0.0);
}

void step_cost_observe(struct step_cost *cost, uint32_t rows, uint32_t tokens, double ms) {
    const double seen[4] = {1, rows, tokens, ms};
    if (!cost->begun) {
        cost->begun = true;
        return;
    }
    if (tokens == rows)
        observe_rows(cost, rows, ms);
    cost->most_rows = MAX(cost->most_rows, rows);
    cost->most_tokens = MAX(cost->most_tokens, tokens);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++)
            cost->sums[i][k] = cost->sums[i][k] * FADE + seen[i] * seen[k];
    bool used[3] = {true, true, true};
    double out[3];
    while (!solve(cost, used, out)) { /* what would cost less than nothing costs nothing */
        int least = 0;
        for (int i = 1; i < 3; i++)
            if (out[i] < out[least])
                least = i;
        used[least] = false;
    }
    cost->step_ms = out[0];
    cost->row_ms = out[1];
    cost->token_ms = out[2];
}

double step_cost_ms(const struct step_cost *cost, double rows, double tokens) {
    return cost->step_ms + cost->row_ms * MIN(rows, (double)cost->most_rows) +
           cost->token_ms * MIN(tokens, (double)cost->most_tokens);
}

double step_cost_rows_ms(const struct step_cost *cost, uint32_t rows) {
    const double *sums = cost->row_sums;
    if (sums[0] <= 0 || !rows)
        return 0;
    double fixed = (sums[3] - cost->extra_row_ms * sums[1]) / sums[0];
    return MAX(fixed, 0.0) + cost->extra_row_ms * rows;
}
