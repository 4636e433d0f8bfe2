/*
 * arrivals.h - when the requests of a load test are sent, and the random numbers that it is made of.
 * One seed, one test.
 */
#ifndef CLI_BENCH_ARRIVALS_H
#define CLI_BENCH_ARRIVALS_H

#include "base/base.h"

/* SplitMix64 (Steele, Lea, Flood 2014): any seed will do. */
struct bench_random {
    uint64_t state;
};
/* The next 64 bits. */
uint64_t bench_random_next(struct bench_random *r);
/* Uniform in (0, 1). */
double bench_random_unit(struct bench_random *r);
/* Uniform in [low, high]. */
uint64_t bench_random_range(struct bench_random *r, uint64_t low, uint64_t high);
/* Gamma distributed with this shape and scale 1 (Marsaglia and Tsang 2000). */
double bench_random_gamma(struct bench_random *r, double shape);

/* Fills times[count], in seconds from the start: intervals are gamma distributed with the mean
 * 1 / rate and the shape `burstiness` (1: Poisson arrivals; below: bursts; above: regular), then all
 * are scaled so that the last comes at count / rate. rate INFINITY: all at 0. */
void bench_arrivals(double *times, size_t count, double rate, double burstiness,
                    struct bench_random *r);

#endif
