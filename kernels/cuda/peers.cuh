/*
 * peers.cuh - what the exchanges among ranks have in common (peers.cu, peers_norm.cu): the box of a
 * rank, how a kernel begins and gives up, a piece of 16 bytes.
 *
 * A box: flags [blocks][ranks]; places of messages with flags [blocks][2][ranks], PLACE_BYTES each
 * (peers.cu); places of messages without [blocks][2 shots][2][ranks], BARE_BYTES each
 * (peers_norm.cu), and [ADDED_TILES_MAX][2][ranks], ADDED_BYTES each (peers_push.cuh).
 */
#ifndef KERNELS_CUDA_PEERS_CUH
#define KERNELS_CUDA_PEERS_CUH

#include "kernels/cuda/cuda_device.cuh"

enum : uint32_t { BLOCKS_MAX = 64, PLACE_BYTES = 64 * 1024, BARE_BYTES = 32 * 1024, ASK_HOST = 64 };
/* Of products that add all ranks' up: 64 features of up to 8 rows; a message has 8 rows of 128 bytes. */
enum : uint32_t { ADDED_TILES_MAX = 256, ADDED_ROW = 128, ADDED_BYTES = 8 * ADDED_ROW };

/* Pinned memory of the host. */
struct peer_signal {
    uint32_t abort, broken;
};

/* Device memory, which graphs point to whatever boxes are open. */
struct peer_table {
    unsigned char *boxes[PEERS_MAX]; /* this rank's own at its place */
    uint64_t wait_ns;
    uint32_t broken;
    uint32_t counts[BLOCKS_MAX]; /* messages with flags of each block so far */
    uint32_t rounds[BLOCKS_MAX]; /* kernels without flags of each block so far */
    /* products that added up so far, of each 64 features and warp */
    uint32_t added[ADDED_TILES_MAX][4];
};

struct peers {
    struct cuda_device *cuda;
    struct peer_signal *signal;
    struct peer_table *table; /* device memory */
    unsigned char *box;
    size_t box_bytes;
    void *opened[PEERS_MAX];
    uint32_t self, count, blocks;
    bool joined;
};

static __host__ __device__ inline size_t places_at() {
    return (size_t)BLOCKS_MAX * PEERS_MAX * sizeof(uint32_t);
}
static __host__ __device__ inline size_t bare_places_at(uint32_t count, uint32_t blocks) {
    return places_at() + (size_t)blocks * 2 * count * PLACE_BYTES;
}
/* Of a box: the place of what `sender` has for this block, of a turn. */
static __host__ __device__ inline size_t bare_place_at(uint32_t count, uint32_t blocks,
                                                       uint32_t block, uint32_t shot, uint32_t turn,
                                                       uint32_t sender) {
    return bare_places_at(count, blocks) +
           (((size_t)block * 4 + shot * 2 + (turn & 1)) * count + sender) * (size_t)BARE_BYTES;
}
static __host__ __device__ inline size_t added_places_at(uint32_t count, uint32_t blocks) {
    return bare_places_at(count, blocks) + (size_t)blocks * 4 * count * BARE_BYTES;
}
/* Of what senders have of 64 features: that of the first, the others' follow. */
static __host__ __device__ inline size_t added_place_at(uint32_t count, uint32_t blocks,
                                                        uint32_t tile, uint32_t turn) {
    return added_places_at(count, blocks) +
           ((size_t)tile * 2 + (turn & 1)) * count * (size_t)ADDED_BYTES;
}
/* Rows of a block of the norm, with as many blocks as there may be. */
static inline uint32_t norm_rows_each(const struct peers *p, uint32_t rows) {
    return (rows + p->blocks - 1) / p->blocks;
}

/* peers_norm.cu; both as peer_ops says. */
bool cuda_peer_norms(const struct peers *p, const struct op_rmsnorm *norm);
void cuda_peer_norm(struct stream *s, const struct op_peer_norm *a);
bool cuda_peer_pushes(const struct peers *p, const struct op_rmsnorm *norm, const struct matrix *w);

/* ---- kernels ---- */

struct peer_view {
    struct peer_table *table;
    struct peer_signal *signal;
    uint32_t self, count, blocks;
};

static inline struct peer_view view_of(const struct peers *p) {
    return {p->table, p->signal, p->self, p->count, p->blocks};
}

/* Of places without flags: a word that no message has. */
enum : uint32_t { ABSENT = 0xffffffffu };
/* The two numbers at once that would look like none are two others of the same kind: NaN. */
static __device__ __forceinline__ uint32_t word_of(uint32_t w) {
    return w == ABSENT ? 0x7fff7fffu : w;
}

/* How long a thread has waited. */
struct patience {
    uint64_t end;
    uint32_t asked;
};

/* Of a block, in shared memory. */
struct exchange_state {
    unsigned char *boxes[PEERS_MAX];
    uint64_t wait_ns;
    uint32_t sent;  /* messages with flags */
    uint32_t round; /* of kernels without */
    uint32_t failed;
};

/* False: this rank is broken. Begins with the kernels before: others' boxes may hold what they read
 * until those have ended. */
static __device__ __forceinline__ bool begin_exchange(struct exchange_state *e,
                                                      const struct peer_view &v) {
    const uint32_t tid = threadIdx.x;
    dependents_launch();
    if (tid < v.count)
        e->boxes[tid] = v.table->boxes[tid];
    dependency_wait();
    if (tid == 0) {
        e->wait_ns = v.table->wait_ns;
        e->sent = v.table->counts[blockIdx.x];
        e->round = v.table->rounds[blockIdx.x];
        e->failed = v.table->broken;
    }
    __syncthreads();
    return !e->failed;
}

/* Whoever waits in this block, and every later kernel, gives up. */
static __device__ __forceinline__ void give_up(struct exchange_state *e,
                                               const struct peer_view &v) {
    (void)atomicExch(&e->failed, 1u);
    (void)atomicExch(&v.table->broken, 1u);
    *(volatile uint32_t *)&v.signal->broken = 1;
    __threadfence_system();
}

/* 16 bytes as f32. */
template <int T> struct piece {
    enum : uint32_t { VALUES = 8 };
    static __device__ __forceinline__ void unpack(uint4 w, float v[8]) {
        values<T>::unpack8(w, v);
    }
    static __device__ __forceinline__ uint4 pack(const float v[8]) {
        uint4 w;
        values<T>::set8((typename values<T>::raw *)&w, v);
        return w;
    }
};
template <> struct piece<STORAGE_F32> {
    enum : uint32_t { VALUES = 4 };
    static __device__ __forceinline__ void unpack(uint4 w, float v[4]) {
        v[0] = __uint_as_float(w.x), v[1] = __uint_as_float(w.y), v[2] = __uint_as_float(w.z),
        v[3] = __uint_as_float(w.w);
    }
    static __device__ __forceinline__ uint4 pack(const float v[4]) {
        return make_uint4(__float_as_uint(v[0]), __float_as_uint(v[1]), __float_as_uint(v[2]),
                          __float_as_uint(v[3]));
    }
};

#endif
