/*
 * peers.cu - sums and gathers over ranks whose GPUs write to each other's memory (kernels/peers.h).
 *
 * A box, in a rank's own memory (peers.cuh), is opened by all others (cudaIpcOpenMemHandle). Block b
 * of rank r pushes into place (b, n mod 2, r) of the others' boxes, sets flag (b, r) there to n
 * (release, system scope), and waits until the flags (b, *) of its own box are n; n counts the
 * messages of that block, so nothing is ever reset.
 * All stores to others are pushes: nobody waits for a load over the link.
 *
 * One shot: bytes out and in (ranks - 1) x the values, one hop. Two shots: 2 (ranks - 1) / ranks x,
 * two hops: with three ranks and more, for what is long. Launch: one block for each 8 KB, at most
 * one an SM and BLOCKS_MAX, so that all are resident at once: blocks of two
 * GPUs that wait for each other must both run. Tolerance: none, sums are those of sum_addends.
 */
#include <cstdio>

#include "kernels/cuda/peers.cuh"

enum : uint32_t { THREADS_MAX = 512 };
/* What a second hop costs is the time of so many bytes: 2 us at 450 GB/s. */
enum : size_t { ONE_SHOT_BYTES = 900 * 1024, BOX_UNIT = 2u << 20 };

/* ---- kernels ---- */

static __device__ __forceinline__ unsigned char *place(unsigned char *box, uint32_t count,
                                                       uint32_t n, uint32_t sender) {
    return box + places_at() +
           (((size_t)blockIdx.x * 2 + (n & 1)) * count + sender) * (size_t)PLACE_BYTES;
}
static __device__ __forceinline__ uint32_t *flag_of(unsigned char *box, uint32_t sender) {
    return (uint32_t *)box + blockIdx.x * PEERS_MAX + sender;
}

static __device__ __forceinline__ void end_exchange(const struct peer_view &v, uint32_t n) {
    if (threadIdx.x == 0)
        v.table->counts[blockIdx.x] = n;
}

/* Waits for message n of a sender. */
static __device__ bool await_message(const uint32_t *flag, uint32_t n, const unsigned char *here,
                                     uint32_t bytes, uint64_t wait_ns, const struct peer_view &v) {
    uint64_t end = 0;
    for (uint32_t asked = 1; !peer_told(flag, n, here, bytes); asked++) {
        if (asked % ASK_HOST)
            continue;
        const uint64_t now = global_timer();
        end = end ? end : now + wait_ns;
        if (now >= end || load_host(&v.signal->abort))
            return false;
    }
    return true;
}

/* Message n of this block is in the others' places; returns when theirs are here. `out` and `in`, of
 * thread r: bytes of what goes to and comes from rank r. False: somebody did not come; the same for
 * the whole block. */
static __device__ bool exchange(struct exchange_state *e, const struct peer_view &v, uint32_t n,
                                uint32_t out, uint32_t in) {
    const uint32_t tid = threadIdx.x;
    __syncthreads(); /* all have pushed, and read what came before */
    if (tid < v.count && tid != v.self) {
        peer_tell(flag_of(e->boxes[tid], v.self), n, place(e->boxes[tid], v.count, n, v.self), out);
        if (!await_message(flag_of(e->boxes[v.self], tid), n,
                           place(e->boxes[v.self], v.count, n, tid), in, e->wait_ns, v))
            give_up(e, v);
    }
    __syncthreads();
    return !e->failed;
}

/* The sum of a piece over the ranks, in their order; own is this rank's. */
template <int T>
static __device__ __forceinline__ uint4 sum_piece(struct exchange_state *e,
                                                  const struct peer_view &v, uint32_t n,
                                                  uint32_t offset, uint4 own) {
    enum : uint32_t { VALUES = piece<T>::VALUES };
    uint4 from[PEERS_MAX];
    float sums[VALUES], one[VALUES];
#pragma unroll
    for (uint32_t r = 0; r < PEERS_MAX; r++)
        if (r < v.count)
            from[r] =
                r == v.self ? own : load16_system(place(e->boxes[v.self], v.count, n, r) + offset);
#pragma unroll
    for (uint32_t r = 0; r < PEERS_MAX; r++) {
        if (r >= v.count)
            continue;
        piece<T>::unpack(from[r], one);
#pragma unroll
        for (uint32_t i = 0; i < VALUES; i++)
            sums[i] = r ? sums[i] + one[i] : one[i];
    }
    return piece<T>::pack(sums);
}

static __device__ __forceinline__ void push(struct exchange_state *e, const struct peer_view &v,
                                            uint32_t n, uint32_t offset, uint4 w) {
    for (uint32_t r = 0; r < v.count; r++)
        if (r != v.self)
            *(uint4 *)(place(e->boxes[r], v.count, n, v.self) + offset) = w;
}

/* `pieces` pieces of 16 bytes of x, `per` of them a message. */
template <int T>
static __global__ void __launch_bounds__(THREADS_MAX)
    peer_sum_kernel(uint4 *x, size_t pieces, uint32_t per, struct peer_view v) {
    DYNAMIC_SHARED(shared);
    struct exchange_state *e = (struct exchange_state *)shared;
    if (!begin_exchange(e, v))
        return;
    uint32_t n = e->sent;
    for (size_t first = (size_t)blockIdx.x * per; first < pieces;
         first += (size_t)gridDim.x * per) {
        const uint32_t here = (uint32_t)min((size_t)per, pieces - first);
        n++;
        for (uint32_t i = threadIdx.x; i < here; i += blockDim.x)
            push(e, v, n, i * 16, x[first + i]);
        if (!exchange(e, v, n, here * 16, here * 16))
            break;
        for (uint32_t i = threadIdx.x; i < here; i += blockDim.x)
            x[first + i] = sum_piece<T>(e, v, n, i * 16, x[first + i]);
    }
    end_exchange(v, n);
}

/* Each rank sums its slice of a message's ranks * per pieces, and pushes that. */
template <int T>
static __global__ void __launch_bounds__(THREADS_MAX)
    peer_two_shots_kernel(uint4 *x, size_t pieces, uint32_t per, struct peer_view v) {
    DYNAMIC_SHARED(shared);
    struct exchange_state *e = (struct exchange_state *)shared;
    if (!begin_exchange(e, v))
        return;
    uint32_t n = e->sent;
    const size_t all = (size_t)per * v.count;
    for (size_t first = blockIdx.x * all; first < pieces; first += gridDim.x * all) {
        const size_t here = min(all, pieces - first);
        const auto slice_of = [&](uint32_t r) {
            const size_t at = (size_t)r * per;
            return at >= here ? 0u : (uint32_t)min((size_t)per, here - at);
        };
        uint4 *mine = x + first + (size_t)v.self * per;
        const uint32_t own = slice_of(v.self);
        n++;
        for (uint32_t r = 0; r < v.count; r++) {
            const uint32_t slice = slice_of(r);
            if (r == v.self)
                continue;
            for (uint32_t i = threadIdx.x; i < slice; i += blockDim.x)
                *(uint4 *)(place(e->boxes[r], v.count, n, v.self) + i * 16) =
                    x[first + (size_t)r * per + i];
        }
        if (!exchange(e, v, n, slice_of(threadIdx.x) * 16, own * 16))
            break;
        n++;
        for (uint32_t i = threadIdx.x; i < own; i += blockDim.x) {
            const uint4 w = sum_piece<T>(e, v, n - 1, i * 16, mine[i]);
            mine[i] = w;
            push(e, v, n, i * 16, w);
        }
        if (!exchange(e, v, n, own * 16, slice_of(threadIdx.x) * 16))
            break;
        for (uint32_t r = 0; r < v.count; r++) {
            const uint32_t slice = slice_of(r);
            if (r == v.self)
                continue;
            for (uint32_t i = threadIdx.x; i < slice; i += blockDim.x)
                x[first + (size_t)r * per + i] =
                    load16_system(place(e->boxes[v.self], v.count, n, r) + i * 16);
        }
    }
    end_exchange(v, n);
}

/* Values one by one, where they are no whole pieces. */
template <int T>
static __global__ void __launch_bounds__(THREADS_MAX)
    peer_sum_values_kernel(typename values<T>::raw *x, size_t count, uint32_t per,
                           struct peer_view v) {
    typedef typename values<T>::raw raw;
    DYNAMIC_SHARED(shared);
    struct exchange_state *e = (struct exchange_state *)shared;
    if (!begin_exchange(e, v))
        return;
    uint32_t n = e->sent;
    for (size_t first = (size_t)blockIdx.x * per; first < count; first += (size_t)gridDim.x * per) {
        const uint32_t here = (uint32_t)min((size_t)per, count - first);
        n++;
        for (uint32_t i = threadIdx.x; i < here; i += blockDim.x)
            for (uint32_t r = 0; r < v.count; r++)
                if (r != v.self)
                    ((raw *)place(e->boxes[r], v.count, n, v.self))[i] = x[first + i];
        if (!exchange(e, v, n, here * sizeof(raw), here * sizeof(raw)))
            break;
        for (uint32_t i = threadIdx.x; i < here; i += blockDim.x) {
            float sum = 0;
            for (uint32_t r = 0; r < v.count; r++) {
                const raw *from = (raw *)place(e->boxes[v.self], v.count, n, r) + i;
                const raw one = r == v.self ? x[first + i] : *(const volatile raw *)from;
                sum = r ? sum + values<T>::get(&one) : values<T>::get(&one);
            }
            values<T>::set(x + first + i, sum);
        }
    }
    end_exchange(v, n);
}

struct gather_ranges {
    uint32_t firsts[PEERS_MAX], counts[PEERS_MAX];
};

/* A message is up to `per` columns of one row. */
static __global__ void __launch_bounds__(THREADS_MAX)
    peer_gather_kernel(float *all, const float *own, size_t stride, uint32_t rows, uint32_t per,
                       uint32_t per_row, struct gather_ranges ranges, struct peer_view v) {
    DYNAMIC_SHARED(shared);
    struct exchange_state *e = (struct exchange_state *)shared;
    if (!begin_exchange(e, v))
        return;
    uint32_t n = e->sent;
    const size_t messages = (size_t)rows * per_row;
    const uint32_t mine = ranges.counts[v.self];
    for (size_t m = blockIdx.x; m < messages; m += gridDim.x) {
        const size_t row = m / per_row;
        const uint32_t first = (uint32_t)(m % per_row) * per;
        const auto here = [&](uint32_t r) {
            return first >= ranges.counts[r] ? 0u : min(per, ranges.counts[r] - first);
        };
        const float *from = own + row * mine + first;
        n++;
        for (uint32_t i = threadIdx.x; i < here(v.self); i += blockDim.x) {
            if (v.self)
                ((float *)place(e->boxes[0], v.count, n, v.self))[i] = from[i];
            else
                all[row * stride + ranges.firsts[0] + first + i] = from[i];
        }
        const uint32_t to = threadIdx.x == 0 ? here(v.self) : 0;
        const uint32_t from_it = v.self == 0 && threadIdx.x < v.count ? here(threadIdx.x) : 0;
        if (!exchange(e, v, n, to * 4, from_it * 4))
            break;
        for (uint32_t r = 1; r < v.count && v.self == 0; r++) {
            const float *came = (const float *)place(e->boxes[0], v.count, n, r);
            for (uint32_t i = threadIdx.x; i < here(r); i += blockDim.x)
                all[row * stride + ranges.firsts[r] + first + i] =
                    *(const volatile float *)(came + i);
        }
    }
    end_exchange(v, n);
}

/* ---- launches ---- */

/* One block for each `unit` of work, as far as all are resident at once. */
static launch_shape shape_of(const struct peers *p, const struct stream *s, size_t work,
                             uint32_t unit, uint32_t threads_wanted) {
    const size_t blocks = (work + unit - 1) / unit;
    const uint32_t threads = (threads_wanted + 31) / 32 * 32;
    return {dim3((unsigned)min(blocks, (size_t)p->blocks)),
            dim3(min(threads, (uint32_t)THREADS_MAX)), sizeof(struct exchange_state),
            device_of(s)->dependent_launch};
}

/* What each of the blocks is to take at a time of `work`, at most a place of it: all in one round where
 * that is enough, a multiple of THREADS_MAX where there is more. */
static uint32_t share_of(const struct peers *p, size_t work, uint32_t most) {
    const size_t even = (work + p->blocks - 1) / p->blocks,
                 whole = (even + THREADS_MAX - 1) / THREADS_MAX * THREADS_MAX;
    return (uint32_t)min(whole, (size_t)most);
}

template <int T> static void peer_sum(struct stream *s, const struct op_peer_sum *a) {
    typedef typename values<T>::raw raw;
    const struct peers *p = a->peers;
    const size_t bytes = a->count * sizeof(raw);
    const struct peer_view v = view_of(p);
    if (bytes % 16 || (uintptr_t)a->x % 16) {
        const uint32_t per = share_of(p, a->count, PLACE_BYTES / sizeof(raw));
        LAUNCH(peer_sum_values_kernel<T>,
               shape_of(p, s, a->count, per, (uint32_t)min(a->count, (size_t)per)),
               cuda_stream_of(s), (raw *)a->x, a->count, per, v);
        return;
    }
    const size_t pieces = bytes / 16;
    const bool two =
        a->shots ? a->shots == 2 : p->count > 2 && bytes * (p->count - 1) > ONE_SHOT_BYTES;
    const size_t slice = two ? (pieces + p->count - 1) / p->count : pieces;
    const uint32_t per = share_of(p, slice, PLACE_BYTES / 16);
    const launch_shape shape = shape_of(p, s, slice, per, (uint32_t)min(slice, (size_t)per));
    if (two)
        LAUNCH(peer_two_shots_kernel<T>, shape, cuda_stream_of(s), (uint4 *)a->x, pieces, per, v);
    else
        LAUNCH(peer_sum_kernel<T>, shape, cuda_stream_of(s), (uint4 *)a->x, pieces, per, v);
}

static void cuda_peer_sum(struct stream *s, const struct op_peer_sum *a) {
    const enum storage_type type = a->f32 ? STORAGE_F32 : s->dev->activation_type;
    CHECK(a->peers->joined);
    if (a->count)
        WITH_ACTIVATION(type, T, peer_sum<T>(s, a));
}

static void cuda_peer_gather(struct stream *s, const struct op_peer_gather *a) {
    const struct peers *p = a->peers;
    struct gather_ranges ranges = {};
    uint32_t longest = 0;
    CHECK(p->joined);
    for (uint32_t r = 0; r < p->count; r++) {
        ranges.firsts[r] = a->firsts[r];
        ranges.counts[r] = a->counts[r];
        longest = max(longest, a->counts[r]);
    }
    if (!longest || !a->rows)
        return;
    const uint32_t per = min(longest, PLACE_BYTES / (uint32_t)sizeof(float));
    const uint32_t per_row = (longest + per - 1) / per;
    LAUNCH(peer_gather_kernel, shape_of(p, s, (size_t)a->rows * per_row, 1, per), cuda_stream_of(s),
           a->all, a->own, a->stride, a->rows, per, per_row, ranges, view_of(p));
}

/* ---- life ---- */

static void peers_leave(struct peers *p) {
    (void)cudaSetDevice(p->cuda->ordinal);
    for (uint32_t r = 0; r < PEERS_MAX; r++)
        if (p->opened[r])
            (void)cudaIpcCloseMemHandle(p->opened[r]);
    memset(p->opened, 0, sizeof p->opened);
    (void)cudaGetLastError(); /* of a process that is gone */
    p->joined = false;
}

static void peers_close(struct peers *p) {
    peers_leave(p);
    (void)cudaFree(p->box);
    (void)cudaFree(p->table);
    (void)cudaFreeHost(p->signal);
    mem_free(p);
}

static size_t box_size(uint32_t count, uint32_t blocks) {
    const size_t bytes = added_place_at(count, blocks, ADDED_TILES_MAX, 0);
    return (bytes + BOX_UNIT - 1) / BOX_UNIT *
           BOX_UNIT; /* an allocation of its own: handles name those */
}

static int peers_open(struct device *dev, uint32_t self, uint32_t count, struct peers **out,
                      struct peer_card *card, struct error *err) {
    struct cuda_device *cuda = (struct cuda_device *)dev;
    cudaIpcMemHandle_t handle;
    cudaDeviceProp prop;
    static_assert(sizeof handle == PEER_HANDLE_BYTES, "");
    CHECK(count > 1 && count <= PEERS_MAX && self < count);
    struct peers *p = (struct peers *)mem_alloc(sizeof *p);
    *p = {};
    p->cuda = cuda;
    p->self = self;
    p->count = count;
    p->blocks = min((uint32_t)cuda->sm_count, (uint32_t)BLOCKS_MAX);
    p->box_bytes = box_size(count, p->blocks);
    (void)cudaSetDevice(cuda->ordinal);
    cudaError_t e = cudaMalloc((void **)&p->box, p->box_bytes);
    if (e == cudaSuccess)
        e = cudaMalloc((void **)&p->table, sizeof *p->table);
    if (e == cudaSuccess)
        e = cudaHostAlloc((void **)&p->signal, sizeof *p->signal, cudaHostAllocDefault);
    const bool memory = e == cudaSuccess;
    const size_t bytes = p->box_bytes;
    if (memory)
        e = cudaIpcGetMemHandle(&handle, p->box);
    if (e == cudaSuccess)
        e = cudaGetDeviceProperties(&prop, cuda->ordinal);
    if (e != cudaSuccess) {
        (void)cudaGetLastError();
        peers_close(p);
        return memory ? error_set(err, ERR_UNSUPPORTED, "its memory cannot be shared: %s",
                                  cudaGetErrorString(e))
                      : error_set(err, ERR_MEMORY, "the GPU has no %zu bytes free for exchanges",
                                  bytes);
    }
    *p->signal = {};
    *card = {};
    card->box_bytes = p->box_bytes;
    card->count = count;
    card->blocks = p->blocks;
    card->domain = prop.pciDomainID;
    card->bus = prop.pciBusID;
    card->slot = prop.pciDeviceID;
    memcpy(card->handle, &handle, sizeof handle);
    *out = p;
    return 0;
}

/* Whether the driver lets this GPU write to that one; one that this process may not see is asked by
 * opening its memory. */
static bool may_reach(const struct peers *p, const struct peer_card *card) {
    char id[32];
    int there = 0, can = 0;
    snprintf(id, sizeof id, "%04x:%02x:%02x.0", (unsigned)card->domain, (unsigned)card->bus,
             (unsigned)card->slot);
    if (cudaDeviceGetByPCIBusId(&there, id) != cudaSuccess || there == p->cuda->ordinal) {
        (void)cudaGetLastError();
        return true;
    }
    return cudaDeviceCanAccessPeer(&can, p->cuda->ordinal, there) == cudaSuccess && can;
}

static int open_box(struct peers *p, uint32_t r, const struct peer_card *card, struct error *err) {
    cudaIpcMemHandle_t handle;
    memcpy(&handle, card->handle, sizeof handle);
    if (card->box_bytes != p->box_bytes || card->count != p->count || card->blocks != p->blocks)
        return error_set(err, ERR_UNSUPPORTED, "rank %u has no memory like this one's", r);
    if (!may_reach(p, card))
        return error_set(err, ERR_UNSUPPORTED, "this GPU does not reach rank %u's", r);
    cudaError_t e = cudaIpcOpenMemHandle(&p->opened[r], handle, cudaIpcMemLazyEnablePeerAccess);
    if (e == cudaSuccess)
        return 0;
    p->opened[r] = NULL;
    (void)cudaGetLastError();
    return error_set(err, ERR_UNSUPPORTED, "rank %u's memory cannot be opened: %s", r,
                     cudaGetErrorString(e));
}

/* None of their words is there. */
static cudaError_t empty_bare_places(const struct peers *p) {
    const size_t at = bare_places_at(p->count, p->blocks);
    cudaStream_t stream;
    cudaError_t e = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (e != cudaSuccess)
        return e;
    e = cudaMemsetAsync(p->box + at, 0xff, p->box_bytes - at, stream);
    if (e == cudaSuccess)
        e = cudaStreamSynchronize(stream);
    const cudaError_t end = cudaStreamDestroy(stream);
    return e == cudaSuccess ? end : e;
}

static int peers_join(struct peers *p, const struct peer_card *cards, int64_t wait_ms,
                      struct error *err) {
    struct peer_table table = {};
    unsigned char flags[BLOCKS_MAX * PEERS_MAX * sizeof(uint32_t)] = {};
    int rc = 0;
    CHECK(!p->joined);
    (void)cudaSetDevice(p->cuda->ordinal);
    for (uint32_t r = 0; r < p->count && !rc; r++) {
        if (r != p->self)
            rc = open_box(p, r, &cards[r], err);
        table.boxes[r] = r == p->self ? p->box : (unsigned char *)p->opened[r];
    }
    table.wait_ns = (uint64_t)wait_ms * 1000000u;
    *p->signal = {};
    cudaError_t e =
        rc ? cudaSuccess : cudaMemcpy(p->box, flags, sizeof flags, cudaMemcpyHostToDevice);
    if (!rc && e == cudaSuccess)
        e = cudaMemcpy(p->table, &table, sizeof table, cudaMemcpyHostToDevice);
    if (!rc && e == cudaSuccess)
        e = empty_bare_places(p);
    if (!rc && e == cudaSuccess)
        e = cudaDeviceSynchronize();
    if (e != cudaSuccess)
        rc = error_set(err, ERR_UNSUPPORTED, "its memory cannot be written: %s",
                       cudaGetErrorString(e));
    p->joined = !rc;
    if (rc)
        peers_leave(p);
    return rc;
}

static void peers_abort(struct peers *p) {
    *(volatile uint32_t *)&p->signal->abort = 1;
}

static bool peers_broken(const struct peers *p) {
    return *(const volatile uint32_t *)&p->signal->broken != 0;
}

static bool cuda_peer_adds(const struct peers *p, const struct matrix *w, uint32_t rows) {
    return cuda_adds_up(&p->cuda->dev, w, rows);
}

static struct peer_ops make_peer_ops() {
    struct peer_ops o = {};
    o.open = peers_open;
    o.close = peers_close;
    o.join = peers_join;
    o.leave = peers_leave;
    o.abort = peers_abort;
    o.broken = peers_broken;
    o.sum = cuda_peer_sum;
    o.gather = cuda_peer_gather;
    o.norms = cuda_peer_norms;
    o.norm = cuda_peer_norm;
    o.pushes = cuda_peer_pushes;
    o.adds = cuda_peer_adds;
    return o;
}
const struct peer_ops cuda_peer_ops = make_peer_ops();
