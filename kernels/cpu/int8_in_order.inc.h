/*
 * int8_in_order.inc.h - a few rows and a packed panel, weights in the order of memory: a part of
 * int8.inc.h.
 *
 * Of each unit one half of the panel goes from end to end before the other, so that weights are read in
 * one piece, and memory is asked for from near. That is what Zen 4 wants (int8_wants_order): many
 * lines asked for at once from far hold up the loads behind them, while its own look-ahead follows one
 * piece well. The sums are those of the other streams, to the bit.
 */
enum { NEAR_AHEAD = 512 };
/* As many rows as gain by it. */
#define ROWS_IN_ORDER(type)                                                                        \
    ((type) == STORAGE_Q8_0 || (type) == STORAGE_I8     ? 8                                        \
     : (type) == STORAGE_Q4_0 || (type) == STORAGE_Q6_K ? 4                                        \
                                                        : 1)

/* A block of one half panel and `rows` rows. */
ALWAYS_INLINE void dot_half_block(const enum kind kind, const int rows, const struct block *w,
                                  const int8_t *x, const float *d, const struct dots *m, vf *acc) {
    const int spans = kind == KIND_HALVES ? 2 : 1, words = WORDS / spans;
    const size_t d_stride = m->stride / sizeof *d;
    UNROLL
    for (int span = 0; span < spans; span++) {
        vs sum[ROWS_MAX];
        UNROLL
        for (int i = span * words; i < (span + 1) * words; i++) {
            UNROLL
            for (int r = 0; r < rows; r++) {
                vq xv = q_word(x + (size_t)r * m->stride + 4 * i);
                sum[r] = i > span * words ? s_add(sum[r], w->q[i], xv)
                         : offset_bits(kind)
                             ? s_behind(start_of(kind, span, d + (size_t)r * d_stride, m->array),
                                        w->q[i], xv)
                             : s_first(w->q[i], xv);
            }
        }
        UNROLL
        for (int r = 0; r < rows; r++)
            acc[r] = f_fma(f_of_int(s_end(sum[r])), w->scale[span] * f_set(d[(size_t)r * d_stride]),
                           acc[r]);
    }
    if (!has_minima(kind))
        return;
    UNROLL
    for (int r = 0; r < rows; r++)
        acc[r] = f_fma(w->minimum, f_set(d[(size_t)r * d_stride + m->array]), acc[r]);
}

#define IN_ORDER(rows, name, kind)                                                                 \
    static void in_order_##rows##_##name(const uint8_t *unit, size_t half_bytes,                   \
                                         uint32_t unit_blocks, const struct dots *m) {             \
        const size_t share = half_bytes / unit_blocks;                                             \
        const uint8_t *ahead = unit + NEAR_AHEAD;                                                  \
        vf acc[2][rows];                                                                           \
        UNROLL                                                                                     \
        for (int i = 0; i < 2 * (rows); i++)                                                       \
            acc[i % 2][i / 2] = f_set(0);                                                          \
        for (uint32_t b = 0; b < m->blocks; b += unit_blocks) {                                    \
            UNROLL                                                                                 \
            for (int h = 0; h < 2; h++, unit += half_bytes) {                                      \
                for (uint32_t g = 0; g < unit_blocks; g++, ahead += share) {                       \
                    struct block w;                                                                \
                    for (size_t i = 0; i < share; i += 64)                                         \
                        __builtin_prefetch(ahead + i, 0, 3);                                       \
                    unpack_##name(unit, g, &w);                                                    \
                    UNROLL                                                                         \
                    for (int r = 0; r < (rows); r += ROWS_A_TILE(rows))                            \
                        dot_half_block(kind, MIN((rows)-r, ROWS_A_TILE(rows)), &w,                 \
                                       m->x + 32 * (b + g) + (size_t)r * m->stride,                \
                                       m->d + b + g + (size_t)r * (m->stride / sizeof *m->d), m,   \
                                       acc[h] + r);                                                \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        UNROLL                                                                                     \
        for (int i = 0; i < 2 * (rows); i++)                                                       \
            memcpy(m->acc + i * LANES, &acc[i % 2][i / 2], sizeof acc[0][0]);                      \
    }
#define IN_ORDER_PANEL(name, kind)                                                                 \
    IN_ORDER(1, name, kind)                                                                        \
    IN_ORDER(2, name, kind)                                                                        \
    IN_ORDER(3, name, kind) IN_ORDER(4, name, kind) IN_ORDER(6, name, kind) IN_ORDER(8, name, kind)
INT8_TYPES(IN_ORDER_PANEL)
#define IF_IN_ORDER(rows, name)                                                                    \
    (ROWS_IN_ORDER(STORAGE_##name) >= (rows) ? in_order_##rows##_##name : NULL)
#define IN_ORDER_TABLE(name)                                                                       \
    {                                                                                              \
        in_order_1_##name, IF_IN_ORDER(2, name), IF_IN_ORDER(3, name), IF_IN_ORDER(4, name),       \
            IF_IN_ORDER(6, name), IF_IN_ORDER(6, name), IF_IN_ORDER(8, name), IF_IN_ORDER(8, name) \
    }
