/*
 * expert_slots.cuh - which rows of a mixture a block of an expert's product takes (expert_packed.cu,
 * expert_mma.cu).
 *
 * The host does not know how many rows an expert has. A slot is up to TOKENS of one expert's rows: expert 0's
 * come first, as many slots as its rows fill, then expert 1's. A grid has slots for the worst case, and
 * blocks of slots past the last one have nothing to do.
 */
#ifndef KERNELS_CUDA_EXPERT_SLOTS_CUH
#define KERNELS_CUDA_EXPERT_SLOTS_CUH

#include "kernels/cuda/cuda_device.cuh"

/* Rows first .. first + TOKENS of those that expert has, the places [begin, end) of the plan. */
struct expert_slot {
    uint32_t expert, begin, end, first;
    bool there;
};

/* Slot `slot` of a plan with these offsets, the same for all lanes of a warp. A lane counts the slots of its
 * share of the experts, which follow each other; the one whose share holds the slot looks for it there. */
template <uint32_t TOKENS>
static __device__ __forceinline__ expert_slot slot_of(const uint32_t *offsets, uint32_t experts,
                                                      uint32_t slot) {
    const uint32_t lane = threadIdx.x % 32, each = (experts + 31) / 32,
                   from = min(lane * each, experts), to = min(from + each, experts);
    auto slots = [&](uint32_t e) { return (offsets[e + 1] - offsets[e] + TOKENS - 1) / TOKENS; };
    uint32_t own = 0;
#pragma unroll 4
    for (uint32_t e = from; e < to; e++)
        own += slots(e);
    uint32_t sum = own;
    for (uint32_t by = 1; by < 32; by *= 2) {
        const uint32_t other = __shfl_up_sync(0xffffffffu, sum, by);
        sum += lane >= by ? other : 0;
    }
    const uint32_t before = sum - own,
                   owners = __ballot_sync(0xffffffffu, before <= slot && slot < sum);
    expert_slot found = {0, 0, 0, 0, owners != 0};
    if (before <= slot && slot < sum) {
        uint32_t left = slot - before;
        found.expert = from;
        while (left >= slots(found.expert))
            left -= slots(found.expert++);
        found.first = left * TOKENS;
    }
    /* one lane's, noughts elsewhere */
    for (int by = 16; by; by >>= 1) {
        found.expert |= __shfl_xor_sync(0xffffffffu, found.expert, by);
        found.first |= __shfl_xor_sync(0xffffffffu, found.first, by);
    }
    found.begin = offsets[found.expert];
    found.end = offsets[found.expert + 1];
    return found;
}

/* The most slots that `pairs` rows fill. */
static inline uint64_t slots_at_most(uint64_t pairs, uint32_t experts, uint32_t tokens) {
    const uint64_t most = pairs < experts ? pairs : experts;
    return (pairs + most * (tokens - 1)) / tokens;
}

#endif
