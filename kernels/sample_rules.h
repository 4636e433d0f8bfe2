/*
 * sample_rules.h - what a request may ask of the sampler beyond op_sample's common steps: more
 * rules, their order, and rules that steer by what they drew. ops.h has the common ones.
 *
 * The rules stand in a chain. What is kept is always all logits of an interval [worst, best], so
 * each rule only moves an end of it, whatever came before; z = (l - best) / heat, where heat is
 * the product of the temperatures so far; p = exp(z) / sum of exp(z) over the kept. Equals share a
 * fate. In their usual order:
 *   penalties    ops.h, c, over the last penalty_window tokens (0: all)
 *   dry          l -= multiplier * base^(L - allowed) for a token that would make a repetition of L
 *                tokens, L >= allowed, longer (p-e-w, llama.cpp PR 9702). L: of the longest run that
 *                ends the text, holds no breaker and stood before that token within the last
 *                dry_window tokens (0: all); at most DRY_MATCH_MAX.
 *   top_n_sigma  ops.h, f
 *   temperature  heat *= temperature; 0: the best alone. With a range r > 0 dynamic: of
 *                max(0, temperature - r) + (h / log n)^exponent * (the rest up to temperature + r),
 *                h the entropy of the n kept.
 *   top_k        ops.h, f
 *   typical_p    least |-log p - h| first until the sum of p is above typical_p (Meister et al.
 *                2022); what lies between the ends of that is kept.
 *   top_p, min_p ops.h, f; of what is kept here
 *   xtc          once in 1 / probability tokens: of those with p >= threshold all but the least
 *                likely are dropped (p-e-w, llama.cpp PR 9742)
 * Behind the chain at most one rule steers; its state is one number of the sequence, which leaves
 * the device with each token:
 *   mirostat 2   keeps p >= 2^-state, and the best; then state -= rate * (-log2 p - target), p among the kept
 *                (Basu et al. 2021); state begins at 2 * target
 *   mirostat 1   the same, but keeps top_k with the k that the paper's formula gives from the 100
 *                likeliest
 *   adaptive     draws by 5 - 10 d^2 / (1 + d), d = |p - a| / 0.3, in place of z; a is
 *                2 * target - state * (1 - rate), within [0, 1]; then state = p + rate * state
 *                (llama.cpp PR 17927); state begins at target / (1 - rate)
 */
#ifndef KERNELS_SAMPLE_RULES_H
#define KERNELS_SAMPLE_RULES_H

#include "base/base.h"

enum sample_step {
    STEP_NONE = 0,
    STEP_PENALTIES = 1,
    STEP_DRY = 2,
    STEP_TOP_N_SIGMA = 3,
    STEP_TEMPERATURE = 4,
    STEP_TOP_K = 5,
    STEP_TYPICAL_P = 6,
    STEP_TOP_P = 7,
    STEP_MIN_P = 8,
    STEP_XTC = 9,
    STEP_COUNT
};
enum sample_steering {
    STEER_NONE = 0,
    STEER_MIROSTAT = 1,
    STEER_MIROSTAT_2 = 2,
    STEER_ADAPTIVE = 3,
    STEER_COUNT
};
enum { DRY_MATCH_MAX = 256, MIROSTAT_BEST = 100 };

/* All zero: off. */
struct sample_rules {
    /* enum sample_step, four bits each, the first lowest, each once; 0: the usual order. Otherwise
     * penalties and dry act in their place, after biases and masks. */
    uint64_t order;
    float typical_p; /* 0: off */
    float xtc_probability, xtc_threshold;
    float temperature_range, temperature_exponent;
    float dry_multiplier, dry_base;
    uint32_t dry_allowed, dry_window;
    uint32_t penalty_window;
    uint32_t steering; /* enum sample_steering */
    float target, rate, state;
};

/* Penalties and dry come before the chain, wherever it is the usual one. */
#define SAMPLE_USUAL_ORDER UINT64_C(0x9876543)

#ifdef __CUDACC__
#define RULE static __device__ __forceinline__
#else
#define RULE static inline
#endif

/* Whether the common steps of ops.h are not all there is to be done behind the masks. */
RULE bool rules_need_chain(const struct sample_rules *r) {
    return r->order || r->typical_p > 0 || r->xtc_probability > 0 || r->temperature_range > 0 ||
           r->steering;
}

/* e^x (below -700: 0; above 700: as of 700), and the logarithm of a positive normal number: a few ulp of double, with
 * nothing from the C library, whose last bits differ from machine to machine. */
RULE double rule_exp(double x) {
    const double rounder = 0x1.8p52;
    if (x < -700)
        return 0;
    x = x > 700 ? 700 : x;
    double k = (x * 1.4426950408889634 + rounder) - rounder,
           r = x - k * 0.69314718055994531 - k * 2.3190468138462996e-17, sum = 1, term = 1;
    for (int i = 1; i < 18; i++) {
        term = term * r / i;
        sum += term;
    }
    uint64_t bits = (uint64_t)(1023 + (int64_t)k) << 52;
    double scale;
    memcpy(&scale, &bits, sizeof scale);
    return sum * scale;
}
RULE double rule_log(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int64_t e = (int64_t)(bits - UINT64_C(0x3fe6a09e667f3bcd)) >> 52;
    bits -= (uint64_t)e << 52;
    double m, sum = 0;
    memcpy(&m, &bits, sizeof m);
    double s = (m - 1) / (m + 1), square = s * s, power = s;
    for (int i = 1; i < 26; i += 2) {
        sum += power / i;
        power *= square;
    }
    return (double)e * 0.69314718055994531 + 2 * sum;
}

/* The dynamic temperature of n kept tokens with this entropy. */
RULE float rule_temperature(const struct sample_rules *r, float temperature, double entropy,
                            uint32_t n) {
    double least = temperature > r->temperature_range ? temperature - r->temperature_range : 0,
           most = (double)temperature + r->temperature_range, share = 1;
    if (n < 2)
        return temperature;
    share = entropy / rule_log((double)n);
    if (r->temperature_exponent != 1)
        share = share > 1e-30 ? rule_exp((double)r->temperature_exponent * rule_log(share))
                              : r->temperature_exponent == 0;
    return (float)(least + (most - least) * share);
}

/* mirostat 1: how many of the likeliest to keep; gaps: z[i] - z[i + 1] of the likeliest, `count` of
 * them. */
RULE double rule_mirostat_k(float state, const float *gaps, uint32_t count, uint32_t vocab) {
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < count; i++) {
        double t = rule_log((double)(i + 2) / (double)(i + 1));
        sum += t * (double)gaps[i];
        squares += t * t;
    }
    double slope = count ? sum / squares : 0, epsilon = slope - 1, spread = 0;
    if (slope < 1e-6)
        slope = 1e-6; /* all equal */
    spread = 1 / rule_log((double)vocab + 1e-9);
    if (epsilon > 1e-9 || epsilon < -1e-9)
        spread = epsilon / (1 - rule_exp(-epsilon * rule_log((double)vocab)));
    double power = (rule_log(spread) + (double)state * 0.69314718055994531) / slope;
    return power < 0 ? 1 : power > 40 ? 1e17 : rule_exp(power);
}

/* adaptive: the p that is aimed at now. */
RULE float rule_adapted_target(const struct sample_rules *r) {
    float aim = 2 * r->target - r->state * (1 - r->rate);
    return aim < 0 ? 0 : aim > 1 ? 1 : aim;
}
RULE float rule_adapted_logit(float p, float aim) {
    float d = p > aim ? (p - aim) / 0.3f : (aim - p) / 0.3f;
    return 5 - 10 * d * d / (1 + d);
}

/* The state behind a token whose p among the kept is e^z / total. */
RULE float rule_next_state(const struct sample_rules *r, float z, double total) {
    if (r->steering == STEER_ADAPTIVE)
        return (float)(rule_exp((double)z) / total) + r->rate * r->state;
    double surprise = (rule_log(total) - (double)z) * 1.4426950408889634;
    return (float)((double)r->state - (double)r->rate * (surprise - (double)r->target));
}

/* Where a sequence's state begins. */
static inline float rule_first_state(const struct sample_rules *r) {
    return r->steering == STEER_ADAPTIVE ? r->target / (1 - r->rate)
           : r->steering                 ? 2 * r->target
                                         : 0;
}

/* dry's penalty of a repetition of `length` tokens. */
RULE float rule_dry(const struct sample_rules *r, uint32_t length) {
    float penalty = r->dry_multiplier;
    for (uint32_t i = r->dry_allowed; i < length && penalty < 1e30f; i++)
        penalty *= r->dry_base;
    return penalty < 1e30f ? penalty : 1e30f;
}

#endif
