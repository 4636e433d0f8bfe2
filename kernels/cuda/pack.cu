/*
 * pack.cu - weights in the order of the products: on sm_90a tiles of 16-bit types (linear_hopper.cu),
 * on all GPUs units of quantized ones (packed.cuh). In place where nobody else reads them,
 * by way of the device's scratch: 64 rows have the same bytes before and after.
 *
 * Of a gated matrix (types.h) 16 rows are 8 of the gate and the 8 of the other half that it is for,
 * so that a thread of the product has both: 64 rows of a half, and the 64 that belong to them,
 * become two times 64 rows, one where each half had its own.
 */
#include "kernels/cuda/linear_hopper.cuh"
#include "kernels/cuda/packed.cuh"

/* Where the rows lie that go into 64 packed ones. up: of a gated matrix, whose other half this is;
 * then the first `count` times 64 packed rows go to the gate's place. */
struct row_source {
    const uint8_t *gate, *up;
    uint32_t count;
    /* Row i of the 64 packed rows `at`: of which matrix, and which of its rows. */
    __device__ __forceinline__ const uint8_t *find(uint32_t at, uint32_t i, uint32_t *row) const {
        *row = at * TILE + i;
        if (!up)
            return gate;
        *row = at % count * TILE + at / count * (TILE / 2) + i / 16 * 8 + i % 8;
        return i % 16 < 8 ? gate : up;
    }
};

/* ---- 16-bit types ---- */

/* One tile a block of 256 threads; a grid's y is a row of tiles. */
static __global__ void tile_kernel(uint4 *out, row_source source, uint32_t cols) {
    uint4 *to = out + ((size_t)blockIdx.y * gridDim.x + blockIdx.x) * TILE_BYTES / 16;
    for (uint32_t i = threadIdx.x; i < TILE * 8; i += 256) {
        uint32_t row;
        const uint4 *w = (const uint4 *)source.find(blockIdx.y, i / 8, &row);
        to[swizzled_chunk(i / 8, i % 8) / 8] =
            w[(size_t)row * (cols / 8) + blockIdx.x * TILE / 8 + i % 8];
    }
}

/* ---- quantized types ---- */

/* The block of a GGUF type that value (row, k) lies in. */
template <int W>
static __device__ const uint8_t *block_of(const uint8_t *w, uint32_t cols, uint32_t row,
                                          uint32_t k) {
    enum : uint32_t {
        BYTES = W == STORAGE_Q8_0    ? 34
                : W == STORAGE_Q4_0  ? 18
                : W == STORAGE_MXFP4 ? 17
                : W == STORAGE_Q4_K  ? 144
                                     : 210,
        VALUES = W == STORAGE_Q4_K || W == STORAGE_Q6_K ? 256 : 32
    };
    return w + ((size_t)row * cols + k) / VALUES * BYTES;
}

/* The code of a value, as dequantize.h finds it. */
template <int W>
static __device__ uint32_t code_of(const uint8_t *w, uint32_t cols, uint32_t row, uint32_t k) {
    const size_t flat = (size_t)row * cols + k;
    const uint8_t *b = block_of<W>(w, cols, row, k);
    const uint32_t g = k % 256 / 32, i = k % 32;
    if (W == STORAGE_F8_E4M3 || W == STORAGE_I8)
        return w[flat];
    if (W == STORAGE_U4)
        return w[flat / 2] >> 4 * (flat % 2) & 15;
    if (W == STORAGE_Q8_0)
        return b[2 + i];
    if (W == STORAGE_Q4_0 || W == STORAGE_MXFP4)
        return b[(W == STORAGE_Q4_0 ? 2 : 1) + i % 16] >> 4 * (i / 16) & 15;
    if (W == STORAGE_Q4_K)
        return b[16 + 32 * (g / 2) + i] >> 4 * (g % 2) & 15;
    return (b[64 * (g / 4) + 32 * (g % 2) + i] >> 4 * (g % 4 / 2) & 15) |
           (b[128 + 32 * (g / 4) + i] >> 2 * (g % 4) & 3) << 4;
}

/* Row i of a pair of 64 rows, 8 apart, as threads have them (packed.cuh). */
static __device__ uint32_t row_of_pair(uint32_t pair, uint32_t i) {
    return pair / 8 * 16 + pair % 8 + i * 8;
}

/* Scales and minima of Q4_K as a unit has them: word j (0: d and dmin) of a block. */
static __device__ uint32_t q4_k_word(const uint8_t *block, uint32_t j) {
    uint32_t word = 0;
    if (j == 0) {
        memcpy(&word, block, 4);
        return word;
    }
    for (uint32_t b = 0; b < 32; b++) { /* six bits each: scale and minimum of 32 k, of the next */
        const uint32_t bit = (j - 1) * 32 + b;
        uint8_t scale, minimum;
        dequantize_k_scale(block + 4, bit / 12, &scale, &minimum);
        word |= (uint32_t)((bit / 6 % 2 ? minimum : scale) >> bit % 6 & 1) << b;
    }
    return word;
}

/* Byte j of the scales behind a unit's codes. at: its 64 rows; k: its first. */
template <int W>
static __device__ uint8_t scale_byte(const row_source &source, uint32_t at, uint32_t cols,
                                     uint32_t k, uint32_t j) {
    const uint32_t pair = j / 2 % 64, row = j % 64;
    auto block = [&](uint32_t i, uint32_t k_of) {
        uint32_t of;
        const uint8_t *w = source.find(at, i, &of);
        return block_of<W>(w, cols, of, k_of);
    };
    if (W == STORAGE_Q8_0)
        return block(pair, k + j / 128 * 32)[j % 2];
    if (W == STORAGE_Q4_0)
        return block(row_of_pair(j / 8, j / 2 % 2), k + j / 4 % 2 * 32)[j % 2];
    if (W == STORAGE_MXFP4)
        return block(row_of_pair(j / 4, j % 2), k + j / 2 % 2 * 32)[0];
    if (W == STORAGE_Q4_K)
        return (uint8_t)(q4_k_word(block(row_of_pair(j / 16 % 32, j / 512), k), j / 4 % 4) >>
                         j % 4 * 8);
    return j < 128 ? block(pair, k)[208 + j % 2] : block(row, k)[192 + (j - 128) / 64];
}

/* A unit a block of 256 threads; a grid's y is a row of units. */
template <int W>
static __global__ void unit_kernel(uint8_t *out, row_source source, uint32_t cols) {
    typedef packed<W> form;
    enum : uint32_t { NIBBLES = PACKED_FEATURES * form::UNIT_K / 2 };
    const uint32_t k0 = blockIdx.x * form::UNIT_K;
    uint8_t *to = out + ((size_t)blockIdx.y * gridDim.x + blockIdx.x) * form::UNIT;
    /* register r of product `step` of a piece, as a thread of a warpgroup holds it */
    auto code = [&](uint32_t piece, uint32_t thread, uint32_t step, uint32_t r, uint32_t half) {
        const uint32_t row = thread / 32 * 16 + thread % 32 / 4 + r % 2 * 8,
                       k = piece * PIECE + step * 16 + r / 2 * 8 + thread % 4 * 2 + half;
        uint32_t of;
        const uint8_t *w = source.find(blockIdx.y, row, &of);
        return code_of<W>(w, cols, of, k0 + k);
    };
    /* the bits of pair r, half, of a word of four bits */
    auto four = [](uint32_t value, uint32_t r, uint32_t half) {
        if (W != STORAGE_MXFP4)
            return rotate_right(value, (32 - 3 - 4 * r - 16 * half) & 31);
        return (value & 7) << (mxfp4_low(r) + 16 * half) | value / 8 << (mxfp4_sign(r) + 16 * half);
    };
    for (uint32_t i = threadIdx.x; i < form::CODES / 4; i += 256) {
        uint32_t word = 0;
        if (form::BITS == 4)
            for (uint32_t b = 0; b < 8; b++)
                word |= four(code(i / 512 * 2 + i / 2 % 2, i / 4 % 128, i % 2, b % 4, b / 4), b % 4,
                             b / 4);
        else if (form::BITS == 8)
            for (uint32_t b = 0; b < 4; b++)
                word |= code(i / 512, i / 4 % 128, i % 4 / 2, i % 2 * 2 + b % 2, b / 2) << 8 * b;
        else if (i < NIBBLES / 4)
            for (uint32_t b = 0; b < 8; b++)
                word |= (code(i / 256, i / 2 % 128, i % 2, b % 4, b / 4) & 15) << 4 * b;
        else
            for (uint32_t b = 0; b < 16; b++) {
                const uint32_t j = i - NIBBLES / 4;
                word |= code(j / 128, j % 128, b / 4 % 2, b % 4, b / 8) >> 4 << 2 * b;
            }
        memcpy(to + i * 4, &word, 4);
    }
    if constexpr (form::SCALES != 0)
        for (uint32_t i = threadIdx.x; i < form::SCALES; i += 256)
            to[form::CODES + i] = scale_byte<W>(source, blockIdx.y, cols, k0, i);
}

/* [64, spans] to [spans, 64], rows as threads have them. ZEROS_OF: activations; zeros become pair_of_zero, no
 * scales. A grid's y is 64 rows. */
template <int ZEROS_OF>
static __global__ void turn_scales_kernel(uint32_t *out, row_source source, uint32_t spans) {
    const uint32_t i = blockIdx.x * 256 + threadIdx.x;
    if (i >= spans * PACKED_FEATURES)
        return;
    const uint32_t at = row_of_pair(i % PACKED_FEATURES / 2, i % 2);
    uint32_t row;
    const float *in = (const float *)source.find(blockIdx.y, at, &row);
    const float v = in[(size_t)row * spans + i / PACKED_FEATURES];
    uint32_t word = __float_as_uint(v);
    if constexpr (ZEROS_OF != 0)
        word = pair_of_zero<ZEROS_OF>(v);
    out[(size_t)blockIdx.y * PACKED_FEATURES * spans + i] = word;
}

/* ---- which weights ---- */

static bool is_packed_type(enum storage_type type) {
    return type == STORAGE_F8_E4M3 || type == STORAGE_I8 || type == STORAGE_U4 ||
           type == STORAGE_Q8_0 || type == STORAGE_Q4_0 || type == STORAGE_Q4_K ||
           type == STORAGE_Q6_K || type == STORAGE_MXFP4;
}

/* Whether the product knows where a segment's scales lie. */
static bool knows_scales(enum storage_type type, const struct matrix_segment *p, uint32_t cols) {
    const bool whole_rows = p->scale_rows && (!p->scale_cols || p->scale_cols >= cols);
    if (!storage_is_scaled(type))
        return true;
    if (p->groups)
        return false;
    if (type == STORAGE_U4)
        return p->scales && p->scale_rows == 1 &&
               (p->scale_cols == 32 || p->scale_cols == 64 || p->scale_cols == 128) &&
               p->scale_cols < cols && cols % p->scale_cols == 0 &&
               p->scale_stride == cols / p->scale_cols &&
               ((uintptr_t)p->scales | (uintptr_t)p->zeros) % 16 == 0;
    if (p->zeros || p->zero != 0)
        return false;
    return !p->scales || whole_rows ||
           (type == STORAGE_F8_E4M3 && p->scale_cols == 128 && p->scale_rows % 64 == 0 &&
            p->scale_rows);
}

size_t cuda_packed_bytes(const struct device *dev, const struct matrix *w, uint32_t segment) {
    const struct cuda_device *cuda = (const struct cuda_device *)dev;
    const struct matrix_segment *p = &w->segments[segment];
    const enum storage_type type = segment_type(w, p), act = dev->activation_type;
    const uint32_t unit = type == STORAGE_Q4_K || type == STORAGE_Q6_K ? 256u : (uint32_t)TILE;
    const size_t row_of_tiles = TILE * storage_bytes(type, w->cols);
    if (act == STORAGE_F32 || p->rows % TILE || w->cols % unit || !p->rows || !w->cols ||
        row_of_tiles > PACK_SCRATCH_BYTES || (uintptr_t)p->data % 16)
        return 0;
    if (type == act && !cuda->hopper)
        return 0;
    if (type == act)
        return cuda->blas ? (size_t)p->rows * w->cols * 2 : PACKED_IN_PLACE;
    return is_packed_type(type) && knows_scales(type, p, w->cols) ? PACKED_IN_PLACE : 0;
}

/* Quantized ones, all of one form: one launch multiplies them. Plain ones have no units. */
bool cuda_packs_experts(const struct device *dev, const struct matrix *experts, uint32_t count) {
    for (uint32_t e = 0; e < count; e++)
        for (uint32_t i = 0; i < experts[e].segment_count; i++) {
            const enum storage_type type = segment_type(&experts[e], &experts[e].segments[i]);
            if (storage_is_plain(type) || type != experts[0].type ||
                cuda_packed_bytes(dev, &experts[e], i) != PACKED_IN_PLACE ||
                !packed_alike(experts[0].segments[0], experts[e].segments[i], experts[e].cols))
                return false;
        }
    return count > 0;
}

/* Both halves, each of whole packed rows that have one form. */
bool cuda_gates(const struct device *dev, const struct matrix *w, enum activation activation) {
    const struct matrix_segment *p = w->segments;
    struct matrix_segment half[2];
    if (activation != ACTIVATION_SILU || w->segment_count < 1 || w->segment_count > 2 ||
        w->rows % (2 * TILE))
        return false;
    for (uint32_t i = 0; i < w->segment_count; i++)
        if (p[i].rows != w->rows / w->segment_count ||
            segment_type(w, &p[i]) != segment_type(w, p) ||
            cuda_packed_bytes(dev, w, i) != PACKED_IN_PLACE)
            return false;
    const uint32_t rows = w->rows / 2;
    if (w->segment_count == 1 && p->scale_rows && p->scale_rows < w->rows && rows % p->scale_rows)
        return false;
    gated_halves(w, half);
    return 2 * TILE * storage_bytes(segment_type(w, p), w->cols) <= PACK_SCRATCH_BYTES &&
           packed_alike(half[0], half[1], w->cols) && (uintptr_t)half[1].data % 16 == 0 &&
           (segment_type(w, p) != STORAGE_U4 ||
            ((uintptr_t)half[1].scales | (uintptr_t)half[1].zeros) % 16 == 0);
}

/* ---- packing ---- */

template <int W>
static void launch_units(struct stream *s, const struct matrix *w, uint32_t count, char *to,
                         const row_source &from) {
    const launch_shape shape = {dim3(w->cols / packed<W>::UNIT_K, count), dim3(256), 0, false};
    LAUNCH(unit_kernel<W>, shape, cuda_stream_of(s), (uint8_t *)to, from, w->cols);
}

/* `count` times 64 rows. */
static void launch_packing(struct stream *s, enum storage_type type, const struct matrix *w,
                           uint32_t count, char *to, const row_source &from) {
    const launch_shape shape = {dim3(w->cols / TILE, count), dim3(256), 0, false};
    if (storage_is_plain(type))
        LAUNCH(tile_kernel, shape, cuda_stream_of(s), (uint4 *)to, from, w->cols);
    else
        WITH_PACKED(type, W, launch_units<W>(s, w, count, to, from));
}

/* What lies `from` bytes into the scratch. */
static void copy_back(struct stream *s, void *to, size_t from, size_t size) {
    struct cuda_stream *cs = cuda_stream_of(s);
    cs->kernel_last = false;
    cuda_note(cs,
              cudaMemcpyAsync(to, (char *)device_of(s)->pack_scratch + from, size,
                              cudaMemcpyDeviceToDevice, cs->handle),
              "putting weights into tiles");
}

/* 64 rows at a time, each of `each` bytes, in place: launch(count, source) makes `count` of them in
 * the scratch, of a gated matrix as many of both halves. up: the other half, or NULL. */
template <class F>
static void in_place(struct stream *s, void *gate, void *up, uint32_t rows, size_t each, F launch) {
    const uint32_t at_once = (uint32_t)(PACK_SCRATCH_BYTES / each / (up ? 2 : 1));
    for (uint32_t r = 0; r < rows; r += at_once) {
        const uint32_t count = min(at_once, rows - r);
        uint8_t *to = (uint8_t *)gate + r * each, *other = up ? (uint8_t *)up + r * each : NULL;
        launch(up ? 2 * count : count, row_source{to, other, count});
        copy_back(s, to, 0, count * each);
        if (up)
            copy_back(s, other, count * each, count * each);
    }
}

/* Of int4 scales [rows, spans] become [rows / 64, spans, 64], and so do zeros. up: of the other half of a
 * gated matrix, or NULL. */
template <int ZEROS_OF>
static void turn_scales(struct stream *s, const float *gate, const float *up, uint32_t rows,
                        uint32_t spans) {
    auto launch = [&](uint32_t count, const row_source &source) {
        const launch_shape shape = {dim3(blocks_for(PACKED_FEATURES * spans, 256), count),
                                    dim3(256), 0, false};
        LAUNCH(turn_scales_kernel<ZEROS_OF>, shape, cuda_stream_of(s),
               (uint32_t *)device_of(s)->pack_scratch, source, spans);
    };
    if (gate)
        in_place(s, (void *)gate, (void *)up, rows / PACKED_FEATURES,
                 (size_t)PACKED_FEATURES * spans * 4, launch);
}

/* In place; a gated matrix both halves at once, when the last segment is asked for. */
void cuda_pack(struct stream *s, const struct matrix *w, uint32_t segment, void *out) {
    struct matrix_segment half[2] = {w->segments[segment], w->segments[segment]};
    const enum storage_type type = segment_type(w, &half[0]);
    const size_t row_of_tiles = TILE * storage_bytes(type, w->cols);
    if (w->gated && segment + 1 < w->segment_count)
        return;
    if (w->gated)
        gated_halves(w, half);
    if (out != w->segments[segment].data) { /* never gated */
        for (uint32_t r = 0; r < half[0].rows / TILE; r += 65535) {
            const uint32_t count = min(65535u, half[0].rows / TILE - r);
            launch_packing(s, type, w, count, (char *)out + r * row_of_tiles,
                           {(const uint8_t *)half[0].data + r * row_of_tiles, NULL, count});
        }
        return;
    }
    in_place(s, (void *)half[0].data, w->gated ? (void *)half[1].data : NULL, half[0].rows / TILE,
             row_of_tiles, [&](uint32_t count, const row_source &source) {
                 launch_packing(s, type, w, count, (char *)device_of(s)->pack_scratch, source);
             });
    if (type != STORAGE_U4)
        return;
    const uint32_t spans = w->cols / half[0].scale_cols;
    const float *up = w->gated ? half[1].scales : NULL, *zeros_up = w->gated ? half[1].zeros : NULL;
    if (s->dev->activation_type == STORAGE_BF16)
        turn_scales<STORAGE_BF16>(s, half[0].zeros, zeros_up, half[0].rows, spans);
    else
        turn_scales<STORAGE_F16>(s, half[0].zeros, zeros_up, half[0].rows, spans);
    turn_scales<0>(s, half[0].scales, up, half[0].rows, spans);
}
