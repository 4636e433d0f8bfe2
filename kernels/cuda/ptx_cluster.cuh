/*
 * ptx_cluster.cuh - clusters of sm_90: blocks that begin together and reach each other's shared
 * memory (PTX ISA 9.0, "Cluster of Cooperative Thread Arrays"). As ptx_hopper.cuh, which has
 * mbarriers and bulk copies.
 */
#ifndef KERNELS_CUDA_PTX_CLUSTER_CUH
#define KERNELS_CUDA_PTX_CLUSTER_CUH

#include "kernels/cuda/ptx_hopper.cuh"

/* Blocks of the cluster that are neighbours along y. Ranks count along y first, then along z. */
__device__ __forceinline__ uint32_t cluster_y() {
#if defined(TRIREME_EMULATED)
    return emu::cluster_y();
#elif defined(PTX_SM90A)
    uint32_t n;
    asm("mov.u32 %0, %%cluster_nctaid.y;" : "=r"(n));
    return n;
#else
    return 1;
#endif
}
__device__ __forceinline__ uint32_t cluster_rank() {
#if defined(TRIREME_EMULATED)
    return emu::cluster_rank();
#elif defined(PTX_SM90A)
    uint32_t rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
#else
    return 0;
#endif
}
/* Waits for all threads of the cluster. What they wrote to shared memory is there for all. */
__device__ __forceinline__ void cluster_barrier() {
    HOPPER_PTX(emu::cluster_barrier(), "barrier.cluster.arrive.release;\n"
                                       "barrier.cluster.wait.acquire;" ::
                   : "memory");
}
/* Where block `rank` of the cluster has what this one has at `at` (mapa). */
#ifdef TRIREME_EMULATED
struct peer_barriers {
    uint64_t *at;
    uint32_t rank;
};
#else
struct peer_barriers {
    uint32_t at;
};
#endif
__device__ __forceinline__ peer_barriers barriers_of_peer(uint64_t *at, uint32_t rank) {
    peer_barriers there = {};
#if defined(TRIREME_EMULATED)
    there = {at, rank};
#elif defined(PTX_SM90A)
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(there.at)
                 : "r"(shared_address(at)), "r"(rank));
#endif
    return there;
}
/* Arrives at the i-th from there on. */
__device__ __forceinline__ void mbarrier_arrive_peer(const peer_barriers &there, uint32_t i) {
    HOPPER_PTX(
        emu::mbarrier_arrive_peer(there.at + i, there.rank),
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(there.at + i * 8)
        : "memory");
}
/* `bytes` (a multiple of 16, aligned to 16) from shared memory to the same place of block `rank`
 * of the cluster, another than this; they arrive at its mbarrier. */
__device__ __forceinline__ void copy_to_peer(void *at, uint32_t bytes, uint64_t *barrier,
                                             uint32_t rank) {
    HOPPER_PTX(emu::copy_to_peer(at, bytes, barrier, rank),
               "{ .reg .b32 to, there;\n"
               "mapa.shared::cluster.u32 to, %0, %3;\n"
               "mapa.shared::cluster.u32 there, %2, %3;\n"
               "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
               "[to], [%0], %1, [there]; }" ::"r"(shared_address(at)),
               "r"(bytes), "r"(shared_address(barrier)), "r"(rank)
               : "memory");
}
/* `bytes` (a multiple of 16, aligned to 16) from global memory to the same place of each block of the
 * cluster whose rank's bit is set in `ranks`; they arrive at the mbarrier that each has at `barrier`. */
__device__ __forceinline__ void copy_bulk_to_ranks(void *to_shared, const void *from,
                                                   uint32_t bytes, uint64_t *barrier,
                                                   uint16_t ranks) {
    HOPPER_PTX(emu::copy_bulk_to_ranks(to_shared, from, bytes, barrier, ranks),
               "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
               ".multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(shared_address(to_shared)),
               "l"(from), "r"(bytes), "r"(shared_address(barrier)), "h"(ranks)
               : "memory");
}
/* What block `rank` of the cluster, which may be this one, has at `at` in its shared memory, aligned
 * to 16. */
__device__ __forceinline__ float4 load_of_peer(const float4 *at, uint32_t rank) {
    float4 v = {};
#if defined(TRIREME_EMULATED)
    emu::load_of_peer(&v, at, sizeof v, rank);
#elif defined(PTX_SM90A)
    asm volatile("{ .reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %4, %5;\n"
                 "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there]; }"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(shared_address(at)), "r"(rank)
                 : "memory");
#endif
    return v;
}

#endif
