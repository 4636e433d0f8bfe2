/* Writing quantized types: the simple ones as the Python package gguf writes them
 * (tests/goldens/quant/encoded.bin), the K-quants within the error of a uniform quantizer of their
 * step. */
#include <stdio.h>

#include "kernels/encode.h"
#include "rig.h"

enum { COUNT = 512 };

TEST(simple_types_are_written_as_the_gguf_package_does) {
    static const enum storage_type SIMPLE[] = {STORAGE_Q4_0, STORAGE_Q4_1, STORAGE_Q5_0,
                                               STORAGE_Q5_1, STORAGE_Q8_0};
    FILE *f = fopen(TRIREME_SOURCE_DIR "/tests/goldens/quant/encoded.bin", "rb");
    float x[COUNT];
    EXPECT(f && fread(x, 4, COUNT, f) == COUNT);
    for (size_t t = 0; t < ARRAY_LEN(SIMPLE); t++) {
        uint8_t want[1024], got[1024];
        size_t size = storage_bytes(SIMPLE[t], COUNT);
        EXPECT(fread(want, 1, size, f) == size);
        storage_encode(SIMPLE[t], x, COUNT, got);
        for (size_t i = 0; i < size; i++)
            if (got[i] != want[i]) {
                check_fail(__FILE__, __LINE__, "%s: byte %zu is %u, expected %u",
                           storage_name(SIMPLE[t]), i, got[i], want[i]);
                break;
            }
    }
    EXPECT_EQ(fgetc(f), EOF);
    fclose(f);
}

static double rms_error(enum storage_type type, const float *x, uint32_t count) {
    static uint8_t data[1 << 16];
    struct matrix m = {.type = type, .rows = 1, .cols = count, .segment_count = 1};
    float *back = calloc(count, sizeof *back);
    double error = 0, size = 0;
    storage_encode(type, x, count, data);
    m.segments[0] = (struct matrix_segment){.data = data, .rows = 1};
    matrix_dequantize(&m, 0, 0, count, back);
    for (uint32_t i = 0; i < count; i++) {
        error += ((double)back[i] - x[i]) * ((double)back[i] - x[i]);
        size += (double)x[i] * x[i];
    }
    free(back);
    return sqrt(error / size);
}

/* Of n normal values the range is about 3.53 sigma (16) or 4.14 (32), the largest about 1.77 or
 * 2.07 on the average: a uniform quantizer of `steps` steps over it errs by range / steps /
 * sqrt(12). A fifth more for scales in few bits. */
TEST(k_quants_err_no_more_than_their_steps_allow) {
    static const struct {
        enum storage_type type;
        double range, steps;
    } KINDS[] = {{STORAGE_Q2_K, 3.53, 3},
                 {STORAGE_Q3_K, 2 * 1.77, 7},
                 {STORAGE_Q4_K, 4.14, 15},
                 {STORAGE_Q5_K, 4.14, 31},
                 {STORAGE_Q6_K, 2 * 1.77, 63}};
    enum { VALUES = 8192 };
    float *x = calloc(VALUES, sizeof *x);
    for (int i = 0; i < VALUES; i++) {
        double u = (double)(check_random() % 1000000 + 1) / 1000001,
               v = (double)(check_random() % 1000000) / 1e6;
        x[i] = (float)(0.02 * sqrt(-2 * log(u)) * cos(2 * M_PI * v));
    }
    for (size_t i = 0; i < ARRAY_LEN(KINDS); i++) {
        double error = rms_error(KINDS[i].type, x, VALUES),
               allowed = 1.2 * KINDS[i].range / KINDS[i].steps / sqrt(12);
        if (!(error < allowed))
            check_fail(__FILE__, __LINE__, "%s errs by %g, %g is allowed",
                       storage_name(KINDS[i].type), error, allowed);
    }
    free(x);
}

TEST(zeros_and_what_is_not_finite_are_written) {
    float x[256] = {0}, back[256];
    uint8_t data[1024];
    for (int type = STORAGE_Q4_0; type <= STORAGE_Q6_K; type++)
        for (int kind = 0; kind < 2; kind++) {
            struct matrix m = {
                .type = (enum storage_type)type, .rows = 1, .cols = 256, .segment_count = 1};
            x[3] = kind ? NAN : 0;
            x[4] = kind ? INFINITY : 0;
            storage_encode(m.type, x, 256, data);
            m.segments[0] = (struct matrix_segment){.data = data, .rows = 1};
            matrix_dequantize(&m, 0, 0, 256, back);
            for (int i = 0; i < 256; i++)
                EXPECT(back[i] == 0);
        }
}

TEST(scaled_types_err_by_half_a_step) {
    static const enum storage_type SCALED[] = {STORAGE_F8_E4M3, STORAGE_I8, STORAGE_U4};
    float *x = random_array(160), back[160], scales[5];
    uint8_t data[160];
    for (size_t t = 0; t < ARRAY_LEN(SCALED); t++) {
        struct matrix m = {.type = SCALED[t], .rows = 1, .cols = 160, .segment_count = 1};
        storage_encode_scaled(SCALED[t], x, 160, 32, data, scales);
        m.segments[0] = (struct matrix_segment){.data = data,
                                                .rows = 1,
                                                .scale_rows = 1,
                                                .scale_cols = 32,
                                                .scale_stride = 5,
                                                .scales = scales,
                                                .zero = SCALED[t] == STORAGE_U4 ? 8 : 0};
        matrix_dequantize(&m, 0, 0, 160, back);
        for (int i = 0; i < 160; i++) {
            float step = SCALED[t] == STORAGE_F8_E4M3 ? fmaxf(fabsf(x[i]) / 8, scales[i / 32] / 512)
                                                      : scales[i / 32];
            EXPECT(fabsf(back[i] - x[i]) <= step * 0.5001f);
        }
    }
    unguard(x);
}
