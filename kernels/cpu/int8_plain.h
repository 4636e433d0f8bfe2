/*
 * int8_plain.h - the operations of int8.inc.h in plain C, for any machine. The including file gives
 * LANES and INT8_VARIANT; two widths, so that tests run the template as machines with wider vectors
 * do.
 */
#include <math.h>

#include "kernels/cpu/int8.h"

#define DOT_8   0
#define STREAMS 1
enum { SUMS_5 = 8 };
typedef uint8_t vq __attribute__((vector_size(4 * LANES)));
typedef uint32_t vu __attribute__((vector_size(4 * LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));
typedef float vf __attribute__((vector_size(4 * LANES)));
typedef vi vs;
typedef vu vn;

#define INLINE static inline __attribute__((always_inline))
INLINE vs s_add(vs s, vq u, vq x) {
    for (int i = 0; i < 4 * LANES; i++)
        s[i / 4] += u[i] * (int8_t)x[i];
    return s;
}
INLINE vs s_behind(vs start, vq u, vq x) {
    return s_add(start, u, x);
}
INLINE vs s_first(vq u, vq x) {
    return s_add((vs){0}, u, x);
}
INLINE vi s_end(vs s) {
    return s;
}
INLINE vs s_start(vn sums, int bits) {
    return (vs)(sums << bits);
}
INLINE void s_sums(const int8_t *values, const struct int8_scale *s, void *whole, void *first) {
    int8_sums_32(s, whole, first);
}
INLINE vi i_dot(vi sum, vq w, vq x) {
    for (int i = 0; i < 4 * LANES; i++)
        sum[i / 4] += (int8_t)w[i] * (int8_t)x[i];
    return sum;
}
INLINE vf f_fma(vf a, vf b, vf c) {
    for (int i = 0; i < LANES; i++)
        c[i] = fmaf(a[i], b[i], c[i]);
    return c;
}
INLINE vf f_half(const uint8_t *p) {
    vf v;
    for (int i = 0; i < LANES; i++) {
        uint16_t half;
        memcpy(&half, p + 2 * i, 2);
        v[i] = f16_to_f32(half);
    }
    return v;
}
INLINE vi i_bytes(const uint8_t *p) {
    vi v;
    for (int i = 0; i < LANES; i++)
        v[i] = p[i];
    return v;
}
INLINE vf f_bytes(const uint8_t *p) {
    return __builtin_convertvector(i_bytes(p), vf);
}
INLINE vf f_signed(const uint8_t *p) {
    vf v;
    for (int i = 0; i < LANES; i++)
        v[i] = (int8_t)p[i];
    return v;
}
INLINE vf f_set(float x) {
    vf v;
    for (int i = 0; i < LANES; i++)
        v[i] = x;
    return v;
}
INLINE vf f_of_int(vi i) {
    return __builtin_convertvector(i, vf);
}
INLINE vq q_word(const int8_t *p) {
    vu v;
    uint32_t word;
    memcpy(&word, p, 4);
    for (int i = 0; i < LANES; i++)
        v[i] = word;
    return (vq)v;
}
INLINE vq q_lookup(const int8_t *table, vq idx) {
    for (int i = 0; i < 4 * LANES; i++)
        idx[i] = (uint8_t)table[idx[i]];
    return idx;
}
INLINE void f_quantize(const float *x, int8_t *values, struct int8_scale *out) {
    quantize_block(x, values, out);
}

#include "kernels/cpu/int8.inc.h"
