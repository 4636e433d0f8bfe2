/*
 * linear_packed.cuh - quantized weights in units (packed.cuh) as products get them: linear_packed.cu,
 * linear_packed_few.cu, linear_packed_mma.cu, and linear_fp8.cu, whose activations have 8 bits too.
 */
#ifndef KERNELS_CUDA_LINEAR_PACKED_CUH
#define KERNELS_CUDA_LINEAR_PACKED_CUH

#include "kernels/cuda/linear_hopper.cuh"
#include "kernels/cuda/packed.cuh"

/* Weights of one segment of the product's matrix, in units. */
struct packed_segment {
    const void *w;
    /* int4: [features / 64, cols / group, 64], of zeros the pairs that are added (pair_of_zero) */
    const float *scales, *zeros;
    uint32_t scale_rows, stride; /* others: scales[n / scale_rows * stride], fp8: + k / 128 */
    uint32_t end;                /* of all features, in 64: the first behind the segment */
    float zero;
};

/* A product with weights in units; p.w: none. Segments follow each other in p.features. */
struct packed_product {
    struct product p;
    packed_segment segments[MATRIX_SEGMENTS_MAX];
    uint32_t group, group_bits; /* int4: 2^bits values of k share a scale; else 0 */
};

/* The segment of 64 features, and which of it they are. */
struct packed_place {
    packed_segment of;
    uint32_t tile;
    __device__ __forceinline__ packed_place(const packed_segment &from, uint32_t at)
        : of(from), tile(at) {}
    __device__ __forceinline__ packed_place(const packed_product &q, uint32_t at)
        : of(q.segments[0]), tile(at) {
        if (q.p.gated) {
            of = at % 2 ? q.segments[1] : q.segments[0];
            tile = at / 2;
            return;
        }
#pragma unroll
        for (uint32_t i = 1; i < MATRIX_SEGMENTS_MAX; i++)
            if (at >= q.segments[i - 1].end) {
                of = q.segments[i];
                tile = at - q.segments[i - 1].end;
            }
    }
};

/* ---- bringing ---- */

/* Where the weights of each of a block's 64 features begin; int4: and their scales and zeros. */
template <int W, int GROUPS> struct packed_bases {
    const char *w[GROUPS];
    const float *scales[GROUPS], *zeros[GROUPS];
    __device__ __forceinline__ packed_bases(const packed_product &q, uint32_t first) {
        typedef packed<W> form;
        const size_t units = q.p.cols / form::UNIT_K,
                     spans = q.group ? q.p.cols >> q.group_bits : 0;
#pragma unroll
        for (uint32_t g = 0; g < GROUPS; g++) {
            const packed_place place(q, first + g);
            w[g] = (const char *)place.of.w + place.tile * units * form::UNIT;
            scales[g] = place.of.scales + place.tile * spans * PACKED_FEATURES;
            zeros[g] = place.of.zeros + place.tile * spans * PACKED_FEATURES;
        }
    }
};

/* Weights, scales and zeros of stage c of each of `groups` x 64 features: one thread. x_bytes: of
 * the neighbour's half of x. */
template <int W, class STAGE>
static __device__ __forceinline__ void
bring_weights(const struct packed_product &q, const packed_bases<W, STAGE::FEATURE_GROUPS> &from,
              unsigned char *stage, uint64_t *full, uint32_t c, uint32_t groups, uint32_t x_bytes) {
    typedef packed<W> form;
    const uint32_t units = q.p.cols / form::UNIT_K, done = c * form::UNITS,
                   bytes = min((uint32_t)form::UNITS, units - done) * form::UNIT;
    const uint32_t spans = q.group ? q.p.cols >> q.group_bits : 0,
                   each = q.group ? form::TILES * TILE >> q.group_bits : 0,
                   scale_bytes = q.group ? min(each, spans - c * each) * PACKED_FEATURES * 4 : 0;
    const bool zeros = W == STORAGE_U4 && q.segments[0].zeros;
    mbarrier_arrive_expect(full, groups * (bytes + scale_bytes * (zeros ? 2 : 1)) + x_bytes);
#pragma unroll
    for (uint32_t g = 0; g < STAGE::FEATURE_GROUPS; g++) {
        if (g >= groups)
            break;
        copy_bulk(stage + STAGE::UNITS_AT + g * form::UNITS * form::UNIT,
                  from.w[g] + (size_t)done * form::UNIT, bytes, full);
        if (W != STORAGE_U4)
            continue;
        unsigned char *to = stage + STAGE::SCALES_AT + g * 2 * STAGE::SCALES;
        copy_bulk(to, from.scales[g] + (size_t)c * each * PACKED_FEATURES, scale_bytes, full);
        if (zeros)
            copy_bulk(to + STAGE::SCALES, from.zeros[g] + (size_t)c * each * PACKED_FEATURES,
                      scale_bytes, full);
    }
}

/* Scales and minima of a thread's two features. */
struct two_scales {
    float scale[2], minimum[2];
};

/* int4: where among a stage's scales, or zeros, a thread finds those of its two features, in 8 bytes. */
static __device__ __forceinline__ uint32_t place_of_group(const packed_product &q, uint32_t tile,
                                                          uint32_t half, uint32_t thread) {
    return ((tile * TILE + half * PIECE) >> q.group_bits) * (PACKED_FEATURES / 2) + thread / 4;
}

/* int4: the zeros that all have where there is no array of them; once. */
template <int A, int W>
static __device__ __forceinline__ void begin_zeros(const struct packed_product &q,
                                                   unit_reader<A, W> &reader) {
    if constexpr (W == STORAGE_U4)
        reader.zeros[0] = reader.zeros[1] = pair_of_zero<A>(q.segments[0].zero);
}
/* int4: those of what is unpacked next, as scales_of has it. */
template <int A, int W, class STAGE>
static __device__ __forceinline__ void
ask_zeros(const struct packed_product &q, const unsigned char *stage, uint32_t group,
          unit_reader<A, W> &reader, uint32_t tile, uint32_t half) {
    if constexpr (W == STORAGE_U4)
        if (q.segments[0].zeros) {
            const uint2 both =
                *((const uint2 *)(stage + STAGE::SCALES_AT + (group * 2 + 1) * STAGE::SCALES) +
                  place_of_group(q, tile, half, reader.thread));
            reader.zeros[0] = both.x;
            reader.zeros[1] = both.y;
        }
}

/* tile, half: of the stage (STAGE has SCALES_AT, and SCALES bytes there where the type is int4, before as many of
 * zeros); step: of the half; group: of the 64 features among the stage's. */
template <int A, int W, class STAGE>
static __device__ __forceinline__ two_scales scales_of(const struct packed_product &q,
                                                       const unsigned char *stage, uint32_t group,
                                                       const unit_reader<A, W> &reader,
                                                       uint32_t tile, uint32_t half,
                                                       uint32_t step) {
    two_scales s;
    if constexpr (W == STORAGE_U4) {
        const float2 scale =
            *((const float2 *)(stage + STAGE::SCALES_AT + group * 2 * STAGE::SCALES) +
              place_of_group(q, tile, half, reader.thread));
        s = {{scale.x, scale.y}, {0, 0}};
    } else {
#pragma unroll
        for (uint32_t i = 0; i < 2; i++)
            reader.scale_of(i, half, step, &s.scale[i], &s.minimum[i]);
    }
    return s;
}

/* Segments of one type that follow each other, packed_alike the first. */
static inline packed_product packed_product_of(const struct product &p,
                                               const struct matrix_segment *segments,
                                               uint32_t count, enum storage_type type) {
    const uint32_t span = segments[0].scale_cols;
    struct packed_product q = {p, {}, 0, span == 32 ? 5u : span == 64 ? 6u : 7u};
    q.group = type == STORAGE_U4 ? span : 0;
    uint32_t end = 0;
    for (uint32_t i = 0; i < MATRIX_SEGMENTS_MAX; i++) {
        const struct matrix_segment &from = segments[min(i, count - 1)];
        end += i < count ? from.rows / PACKED_FEATURES : 0;
        q.segments[i] = {
            from.packed,       from.scales, from.zeros, from.scale_rows ? from.scale_rows : 1,
            from.scale_stride, end,         from.zero};
    }
    return q;
}

/* The product with codes of four bits for up to NORMED_ROWS rows (linear_packed_few.cu), with k in
 * `splits`, where packed_few_takes says so: x of a split lies in shared memory whole. */
bool packed_few_takes(enum storage_type type, uint32_t cols, uint32_t splits);
void linear_packed_few(struct stream *s, const packed_product &q, enum storage_type type,
                       uint32_t splits);

#endif
