/*
 * pack.cu - weights in the order of the products for sm_90a: tiles of 16-bit types
 * (linear_hopper.cu), units of quantized ones (packed.cuh). In place where nobody else reads them,
 * by way of the device's scratch: 64 rows have the same bytes before and after.
 */
#include "kernels/cuda/linear_hopper.cuh"
#include "kernels/cuda/packed.cuh"

/* ---- 16-bit types ---- */

/* One tile a block of 256 threads; a grid's y is a row of tiles. */
static __global__ void tile_kernel(uint4 *out, const uint4 *w, uint32_t cols) {
    const uint4 *from = w + ((size_t)blockIdx.y * TILE * cols + blockIdx.x * TILE) / 8;
    uint4 *to = out + ((size_t)blockIdx.y * gridDim.x + blockIdx.x) * TILE_BYTES / 16;
    for (uint32_t i = threadIdx.x; i < TILE * 8; i += 256)
        to[swizzled_chunk(i / 8, i % 8) / 8] = from[(size_t)(i / 8) * (cols / 8) + i % 8];
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

/* Byte j of the scales behind a unit's codes (unpack_scale). w: its 64 rows; k: its first. */
template <int W>
static __device__ uint8_t scale_byte(const uint8_t *w, uint32_t cols, uint32_t k, uint32_t j) {
    const uint32_t pair = j / 2 % 64, row = j % 64;
    if (W == STORAGE_Q8_0 || W == STORAGE_Q4_0)
        return block_of<W>(w, cols, pair, k + j / 128 * 32)[j % 2];
    if (W == STORAGE_MXFP4)
        return block_of<W>(w, cols, row, k + j / 64 * 32)[0];
    if (W == STORAGE_Q4_K) {
        if (j < 256)
            return block_of<W>(w, cols, j / 4, k)[j % 4];
        auto both = [&](uint32_t piece) {
            uint8_t scale, minimum;
            dequantize_k_scale(block_of<W>(w, cols, row, k) + 4, piece, &scale, &minimum);
            return (uint32_t)scale | (uint32_t)minimum << 6;
        };
        if (j < 768)
            return (uint8_t)both((j - 256) / 64);
        const uint32_t piece = (j - 768) / 64 * 2;
        return (uint8_t)(both(piece) >> 8 | both(piece + 1) >> 8 << 4);
    }
    return j < 128 ? block_of<W>(w, cols, pair, k)[208 + j % 2]
                   : block_of<W>(w, cols, row, k)[192 + (j - 128) / 64];
}

/* A unit a block of 256 threads; a grid's y is a row of units. */
template <int W> static __global__ void unit_kernel(uint8_t *out, const uint8_t *w, uint32_t cols) {
    typedef packed<W> form;
    enum : uint32_t { NIBBLES = PACKED_FEATURES * form::UNIT_K / 2 };
    const uint32_t k0 = blockIdx.x * form::UNIT_K, row0 = blockIdx.y * PACKED_FEATURES;
    uint8_t *to = out + ((size_t)blockIdx.y * gridDim.x + blockIdx.x) * form::UNIT;
    /* register r of product `step` of a piece, as a thread of a warpgroup holds it */
    auto code = [&](uint32_t piece, uint32_t thread, uint32_t step, uint32_t r, uint32_t half) {
        const uint32_t row = thread / 32 * 16 + thread % 32 / 4 + r % 2 * 8,
                       k = piece * PIECE + step * 16 + r / 2 * 8 + thread % 4 * 2 + half;
        return code_of<W>(w, cols, row0 + row, k0 + k);
    };
    for (uint32_t i = threadIdx.x; i < form::CODES / 4; i += 256) {
        uint32_t word = 0;
        if (form::BITS == 8)
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
            to[form::CODES + i] =
                scale_byte<W>(w + (block_of<W>(w, cols, row0, 0) - w), cols, k0, i);
}

/* [64, spans] to [spans, 64]; a grid's y is 64 rows. */
static __global__ void turn_scales_kernel(float *out, const float *in, uint32_t spans) {
    const size_t rows = (size_t)blockIdx.y * PACKED_FEATURES * spans;
    const uint32_t i = blockIdx.x * 256 + threadIdx.x;
    if (i < spans * PACKED_FEATURES)
        out[rows + i] = in[rows + (size_t)(i % PACKED_FEATURES) * spans + i / PACKED_FEATURES];
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
    if (!cuda->hopper || act == STORAGE_F32 || p->rows % TILE || w->cols % unit || !p->rows ||
        !w->cols || row_of_tiles > PACK_SCRATCH_BYTES || (uintptr_t)p->data % 16)
        return 0;
    if (type == act)
        return cuda->blas ? (size_t)p->rows * w->cols * 2 : PACKED_IN_PLACE;
    return is_packed_type(type) && knows_scales(type, p, w->cols) ? PACKED_IN_PLACE : 0;
}

/* ---- packing ---- */

template <int W>
static void launch_units(struct stream *s, const struct matrix *w, uint32_t count, char *to,
                         const char *from) {
    const launch_shape shape = {dim3(w->cols / packed<W>::UNIT_K, count), dim3(256), 0, false};
    LAUNCH(unit_kernel<W>, shape, cuda_stream_of(s), (uint8_t *)to, (const uint8_t *)from, w->cols);
}

/* `count` times 64 rows. */
static void launch_packing(struct stream *s, enum storage_type type, const struct matrix *w,
                           uint32_t count, char *to, const char *from) {
    const launch_shape shape = {dim3(w->cols / TILE, count), dim3(256), 0, false};
    if (storage_is_plain(type))
        LAUNCH(tile_kernel, shape, cuda_stream_of(s), (uint4 *)to, (const uint4 *)from, w->cols);
    else
        WITH_PACKED(type, W, launch_units<W>(s, w, count, to, from));
}

static void copy_back(struct stream *s, void *to, size_t size) {
    struct cuda_stream *cs = cuda_stream_of(s);
    cs->kernel_last = false;
    cuda_note(
        cs,
        cudaMemcpyAsync(to, device_of(s)->pack_scratch, size, cudaMemcpyDeviceToDevice, cs->handle),
        "putting weights into tiles");
}

/* Scales [rows, spans] as they go with units: [rows / 64, spans, 64]. */
static void turn_scales(struct stream *s, float *scales, uint32_t rows, uint32_t spans) {
    const size_t each = (size_t)PACKED_FEATURES * spans * 4;
    const uint32_t at_once = (uint32_t)(PACK_SCRATCH_BYTES / each);
    for (uint32_t r = 0; r < rows / PACKED_FEATURES; r += at_once) {
        const uint32_t count = min(at_once, rows / PACKED_FEATURES - r);
        float *from = scales + r * each / 4;
        const launch_shape shape = {dim3(blocks_for(PACKED_FEATURES * spans, 256), count),
                                    dim3(256), 0, false};
        LAUNCH(turn_scales_kernel, shape, cuda_stream_of(s), (float *)device_of(s)->pack_scratch,
               (const float *)from, spans);
        copy_back(s, from, count * each);
    }
}

/* In place some rows of tiles at a time. */
void cuda_pack(struct stream *s, const struct matrix *w, uint32_t segment, void *out) {
    const struct matrix_segment *p = &w->segments[segment];
    const enum storage_type type = segment_type(w, p);
    const char *data = (const char *)p->data;
    const size_t row_of_tiles = TILE * storage_bytes(type, w->cols);
    const bool in_place = out == data;
    const uint32_t rows = p->rows / TILE,
                   at_once = in_place ? (uint32_t)(PACK_SCRATCH_BYTES / row_of_tiles) : 65535;
    for (uint32_t r = 0; r < rows; r += at_once) {
        const uint32_t count = min(at_once, rows - r);
        char *to = (char *)out + r * row_of_tiles;
        launch_packing(s, type, w, count, in_place ? (char *)device_of(s)->pack_scratch : to,
                       data + r * row_of_tiles);
        if (in_place)
            copy_back(s, to, count * row_of_tiles);
    }
    if (type != STORAGE_U4 || !in_place)
        return;
    for (const float *scales : {p->scales, p->zeros})
        if (scales)
            turn_scales(s, (float *)scales, p->rows, w->cols / p->scale_cols);
}
