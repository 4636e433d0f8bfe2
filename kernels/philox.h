/*
 * philox.h - the sampler's randomness: Philox4x32-10 (Salmon et al., "Parallel random numbers: as
 * easy as 1, 2, 3", 2011) and the Gumbel noise made of it, as the scalar definition. The same bits
 * on every device and instruction set: f32 operations in a fixed order, fma where written.
 *
 * The noise of token t at a position is a function of (seed; choice, position, t, purpose) alone:
 * key = seed; counter = (t / 4, position, choice, purpose); word t % 4 of the four.
 *
 * With x that word: w = (x + 0.5) / 2^32, E = -log(1 - w) (exponential), gumbel = -log(E), in
 * [-3.2, 23.0].
 */
#ifndef KERNELS_PHILOX_H
#define KERNELS_PHILOX_H

#include "base/base.h"

enum noise_purpose { NOISE_SAMPLE = 0, NOISE_XTC = 1 };

#define PHILOX_M0 0xD2511F53u
#define PHILOX_M1 0xCD9E8D57u
#define PHILOX_W0 0x9E3779B9u
#define PHILOX_W1 0xBB67AE85u

/* Ten rounds of Philox 4x32 (Salmon et al. 2011, SC11): four random words of a counter and a key. */
static inline void philox4x32_10(const uint32_t counter[4], const uint32_t key[2],
                                 uint32_t out[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0],
             k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)PHILOX_M0 * c0, p1 = (uint64_t)PHILOX_M1 * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += PHILOX_W0;
        k1 += PHILOX_W1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* The 32 random bits of a token. */
uint32_t noise_bits(uint64_t seed, uint32_t choice, uint32_t position, uint32_t token,
                    enum noise_purpose purpose);
/* Gumbel noise of those bits. */
float gumbel_of_bits(uint32_t bits);

#endif
