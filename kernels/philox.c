#include "kernels/philox.h"

#include "kernels/scalar_math.h"

uint32_t noise_bits(uint64_t seed, uint32_t choice, uint32_t position, uint32_t token,
                    enum noise_purpose purpose) {
    const uint32_t counter[4] = {token / 4, position, choice, (uint32_t)purpose};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t out[4];
    philox4x32_10(counter, key, out);
    return out[token % 4];
}

/* -log(1 - w): for w <= 1/2 as 2 atanh(w / (2 - w)), which keeps the relative precision of small w;
 * else by the complement. */
float gumbel_of_bits(uint32_t bits) {
    bool small = bits < 0x80000000u;
    float w = ((float)(int32_t)(small ? bits : ~bits) + 0.5f) * 0x1p-32f;
    float e = small ? scalar_atanh2(w / (2.0f - w)) : -scalar_log(w);
    return -scalar_log(e);
}
