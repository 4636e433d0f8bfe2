#include "cli/bench/arrivals.h"

#include <math.h>

uint64_t bench_random_next(struct bench_random *r) {
    uint64_t z = r->state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

double bench_random_unit(struct bench_random *r) {
    return ((double)(bench_random_next(r) >> 11) + 0.5) * 0x1p-53;
}

uint64_t bench_random_range(struct bench_random *r, uint64_t low, uint64_t high) {
    return low + (uint64_t)(bench_random_unit(r) * (double)(high - low + 1));
}

/* Box and Muller; the second of the pair is not kept. */
static double normal(struct bench_random *r) {
    double radius = sqrt(-2 * log(bench_random_unit(r)));
    return radius * cos(2 * M_PI * bench_random_unit(r));
}

double bench_random_gamma(struct bench_random *r, double shape) {
    if (shape < 1) /* that of shape + 1, times U^(1 / shape) */
        return bench_random_gamma(r, shape + 1) * pow(bench_random_unit(r), 1 / shape);
    double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = normal(r), v = 1 + c * x;
        v = v * v * v;
        if (v > 0 && log(bench_random_unit(r)) < 0.5 * x * x + d - d * v + d * log(v))
            return d * v;
    }
}

void bench_arrivals(double *times, size_t count, double rate, double burstiness,
                    struct bench_random *r) {
    double at = 0;
    for (size_t i = 0; i < count; i++)
        times[i] = isinf(rate) ? 0 : (at += bench_random_gamma(r, burstiness) / burstiness / rate);
    double scale = at > 0 ? (double)count / rate / at : 1;
    for (size_t i = 0; i < count; i++)
        times[i] *= scale;
}
