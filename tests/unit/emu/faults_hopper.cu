/*
 * faults_hopper.cu - a product of one warpgroup, [64, 64] times [64, 8] of ones by bulk copies and
 * wgmma, and the same wrong on purpose, each in one way; test_hopper.c expects the emulator to
 * notice.
 *
 * tiles: device memory, 8192 + 1024 bytes of bf16 ones; out: 64 x 8 floats.
 */
#include "kernels/cuda/cuda_device.cuh"
#include "kernels/cuda/ptx_cluster.cuh"

enum {
    RIGHT,
    NO_WAIT_FOR_COPY,
    NO_WAIT_FOR_PRODUCT,
    NO_PRODUCT_FENCE,
    ENDS_WITH_PRODUCT,
    OVERWRITES_OPERAND,
    COPY_OUTSIDE,
    COPY_UNALIGNED,
    COPY_NEVER_AWAITED,
    WAITS_AT_NO_MBARRIER,
    WAITS_FOREVER,
    TILE_UNALIGNED,
    STORES_WITHOUT_FENCE,
    FROM_REGISTERS,
    ACROSS,
    MBARRIER_UNSEEN
};
enum { SHARED, NO_WAIT_FOR_PEER, LEAVES_ITS_PEER, GIVES_TO_ITSELF };

template <int WHAT> static __global__ void small_product(float *out, const uint16_t *tiles) {
    DYNAMIC_SHARED(area);
    uint64_t *barrier = (uint64_t *)area;
    unsigned char *a = area + 1024 + (1024 - (uintptr_t)area % 1024) % 1024, *b = a + 8192;
    float d[4] = {};
    if (threadIdx.x == 0) {
        mbarrier_init(barrier, 1);
        mbarrier_init_fence();
    }
    if (WHAT != MBARRIER_UNSEEN)
        __syncthreads();
    if (threadIdx.x == 0 && WHAT != WAITS_FOREVER) {
        mbarrier_arrive_expect(barrier, 8192 + 1024);
        copy_bulk(a, tiles + (WHAT == COPY_UNALIGNED ? 4 : 0), 8192, barrier);
        copy_bulk(b, tiles + 4096 + (WHAT == COPY_OUTSIDE ? 512 : 0), 1024, barrier);
    }
    if (WHAT == COPY_NEVER_AWAITED)
        return;
    if (WHAT == WAITS_AT_NO_MBARRIER)
        mbarrier_wait(barrier + 1, 0);
    else if (WHAT != NO_WAIT_FOR_COPY)
        mbarrier_wait(barrier, 0);
    if (WHAT == STORES_WITHOUT_FENCE) {
        if (threadIdx.x < 64)
            cp_async_16(b + threadIdx.x * 16, tiles, true);
        cp_async_commit();
        cp_async_wait<0>();
        __syncthreads();
    }
    if (WHAT != NO_PRODUCT_FENCE)
        wgmma_fence();
    const uint32_t ones[4] = {0x3f803f80u, 0x3f803f80u, 0x3f803f80u, 0x3f803f80u};
    for (uint32_t k = 0; k < 64; k += 16)
        if (WHAT == FROM_REGISTERS)
            wgmma_shape<STORAGE_BF16, 8>::registers(d, ones, wgmma_tile(b, k), k == 0);
        else
            wgmma_shape<STORAGE_BF16, 8>::tiles(
                d, wgmma_tile(a + (WHAT == TILE_UNALIGNED ? 128 : 0), k), wgmma_tile(b, k), k == 0);
    wgmma_commit();
    if (WHAT == OVERWRITES_OPERAND && threadIdx.x == 0) {
        mbarrier_arrive_expect(barrier, 1024);
        copy_bulk(b, tiles, 1024, barrier);
        mbarrier_wait(barrier, 1);
    }
    if (WHAT != NO_WAIT_FOR_PRODUCT && WHAT != ENDS_WITH_PRODUCT)
        wgmma_wait<0>();
    const float kept[4] = {d[0], d[1], d[2], d[3]};
    if (WHAT != ENDS_WITH_PRODUCT)
        wgmma_wait<0>();
    if (WHAT == NO_WAIT_FOR_COPY)
        mbarrier_wait(barrier, 0);
    const uint32_t row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, t = threadIdx.x % 4 * 2;
    for (uint32_t i = 0; i < 4; i++)
        out[(row + i / 2 * 8) * 8 + t + i % 2] = kept[i];
}

/* A row of ones at k = row % 16 times b[16, 128], whose (k, n) is k + n, by panels of 64 columns; of the
 * sums [64, 128] columns 0, 16, 32, ... are kept. */
static __global__ void across(float *out) {
    DYNAMIC_SHARED(area);
    uint16_t *b = (uint16_t *)(area + (1024 - (uintptr_t)area % 1024) % 1024);
    const uint32_t lane = threadIdx.x % 32, row = lane / 4;
    for (uint32_t i = threadIdx.x; i < 16 * 128; i += 128) {
        const uint32_t k = i / 128, n = i % 128;
        const float v = (float)(k + n);
        b[n / 64 * 1024 + swizzled_chunk(k, n % 64 / 8) + n % 8] =
            (uint16_t)(float2_bf16x2(v, v) & 0xffff);
    }
    fence_async();
    __syncthreads();
    float d[64] = {};
    uint32_t a[4]; /* rows row and row + 8 at k = 2 t, 2 t + 1, and 8 further */
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t one = row + i % 2 * 8, k = lane % 4 * 2 + i / 2 * 8;
        a[i] = one == k ? 0x3f80u : one == k + 1 ? 0x3f800000u : 0;
    }
    wgmma_fence();
    wgmma_shape<STORAGE_BF16, 128>::by_panels(d, a, wgmma_panels(b, 2048));
    wgmma_commit();
    wgmma_wait<0>();
    for (uint32_t j = 0; j < 16; j += 2)
        for (uint32_t i = 0; i < 4; i += 2)
            if (lane % 4 == 0)
                out[(threadIdx.x / 32 * 16 + row + i / 2 * 8) * 8 + j / 2] = d[4 * j + i];
}

/* Two blocks of 32 threads give each other the half of 64 numbers that they know. out: [2, 64]. */
template <int WHAT> static __global__ void share(float *out) {
    DYNAMIC_SHARED(area);
    uint64_t *barrier = (uint64_t *)area;
    float *all = (float *)(area + 128);
    const uint32_t rank = cluster_rank(), mine = rank * 32 + threadIdx.x;
    if (threadIdx.x == 0) {
        mbarrier_init(barrier, 1);
        mbarrier_init_fence();
    }
    cluster_barrier();
    if (WHAT == LEAVES_ITS_PEER && rank == 0)
        return;
    all[mine] = (float)mine;
    fence_async();
    __syncthreads();
    if (threadIdx.x == 0) {
        mbarrier_arrive_expect(barrier, 128);
        copy_to_peer(all + rank * 32, 128, barrier, WHAT == GIVES_TO_ITSELF ? rank : rank ^ 1);
    }
    if (WHAT != NO_WAIT_FOR_PEER)
        mbarrier_wait(barrier, 0);
    out[blockIdx.y * 64 + threadIdx.x] = all[threadIdx.x];
    out[blockIdx.y * 64 + 32 + threadIdx.x] = all[32 + threadIdx.x];
    mbarrier_wait(barrier, 0);
    cluster_barrier();
}

extern "C" void run_cluster_fault(struct stream *base, int which, float *out) {
    struct cuda_stream *s = cuda_stream_of(base);
    const launch_shape shape = {dim3(1, 2), dim3(32), 512, false, 2};
#define CLUSTER_FAULT(what)                                                                        \
    case what: LAUNCH(share<what>, shape, s, out); break
    switch (which) {
        CLUSTER_FAULT(SHARED);
        CLUSTER_FAULT(NO_WAIT_FOR_PEER);
        CLUSTER_FAULT(LEAVES_ITS_PEER);
        CLUSTER_FAULT(GIVES_TO_ITSELF);
    }
}

extern "C" void run_hopper_fault(struct stream *base, int which, float *out,
                                 const uint16_t *tiles) {
    struct cuda_stream *s = cuda_stream_of(base);
    const launch_shape shape = {dim3(1), dim3(128), 2048 + 8192 + 1024, false};
#define FAULT(what)                                                                                \
    case what: LAUNCH(small_product<what>, shape, s, out, tiles); break
    switch (which) {
        FAULT(RIGHT);
        FAULT(NO_WAIT_FOR_COPY);
        FAULT(NO_WAIT_FOR_PRODUCT);
        FAULT(NO_PRODUCT_FENCE);
        FAULT(ENDS_WITH_PRODUCT);
        FAULT(OVERWRITES_OPERAND);
        FAULT(COPY_OUTSIDE);
        FAULT(COPY_UNALIGNED);
        FAULT(COPY_NEVER_AWAITED);
        FAULT(WAITS_AT_NO_MBARRIER);
        FAULT(WAITS_FOREVER);
        FAULT(TILE_UNALIGNED);
        FAULT(STORES_WITHOUT_FENCE);
        FAULT(FROM_REGISTERS);
    case ACROSS:
        LAUNCH(across, shape, s, out);
        break;
        FAULT(MBARRIER_UNSEEN);
    }
}

extern "C" bool emu_is_watched(void) {
    return emu::watched;
}
