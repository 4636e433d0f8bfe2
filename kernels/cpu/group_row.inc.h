/*
 * group_row.inc.h - one row of x by VPDPBUSD, which reads weights sooner than tiles would: a part of
 * group_product.c, which includes it behind `struct group_product`.
 *
 *   multiply_row  the row and a panel, whose first output is `first` of the matrix
 */

/* Lane i: the sum of v[i]'s lanes. */
ALWAYS_INLINE __m512i sums_of_lanes(const __m512i v[TILE]) {
    __m512i pairs[8], fours[4];
    UNROLL
    for (int i = 0; i < 8; i++)
        pairs[i] = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2 * i], v[2 * i + 1]),
                                    _mm512_unpackhi_epi32(v[2 * i], v[2 * i + 1]));
    UNROLL
    for (int i = 0; i < 4; i++)
        fours[i] = _mm512_add_epi32(_mm512_unpacklo_epi64(pairs[2 * i], pairs[2 * i + 1]),
                                    _mm512_unpackhi_epi64(pairs[2 * i], pairs[2 * i + 1]));
    __m512i low = _mm512_add_epi32(_mm512_shuffle_i32x4(fours[0], fours[1], 0x88),
                                   _mm512_shuffle_i32x4(fours[0], fours[1], 0xdd)),
            high = _mm512_add_epi32(_mm512_shuffle_i32x4(fours[2], fours[3], 0x88),
                                    _mm512_shuffle_i32x4(fours[2], fours[3], 0xdd));
    return _mm512_add_epi32(_mm512_shuffle_i32x4(low, high, 0x88),
                            _mm512_shuffle_i32x4(low, high, 0xdd));
}

/* The integer sums of a group, lanes are outputs. VPDPBUSD takes one side without a sign: v + 128,
 * and what that is too much, 128 sum q, is taken off first. */
ALWAYS_INLINE __m512i dots_of_group(const enum body body, const uint8_t *from,
                                    const struct steps *steps, __m512i first, __m512i second) {
    const __m512i sign = _mm512_set1_epi8((char)0x80), zero = _mm512_setzero_si512();
    const __m512i start = _mm512_sub_epi32(
        zero, _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(zero, sign, first), sign, second));
    struct code_tables tables;
    const uint8_t *at = from + body_bytes(body) - TILE_BYTES;
    __m512i sums[TILE];
    if (body != BODY_VALUES)
        tables = open_codes(body, from);
    UNROLL
    for (int i = 0; i < TILE; i++) {
        __m512i v, u;
        FETCH_LINE(from + FETCH_AHEAD + i * LINE);
        if (body == BODY_VALUES) {
            v = _mm512_xor_si512(_mm512_load_si512(from + i * LINE), sign);
            u = _mm512_xor_si512(_mm512_load_si512(from + TILE_BYTES + i * LINE), sign);
        } else {
            __m512i q = _mm512_load_si512(at + i * LINE),
                    table = _mm512_xor_si512(code_table(body, &tables, steps, i), sign);
            v = _mm512_shuffle_epi8(table, low_codes(q));
            u = _mm512_shuffle_epi8(table, high_codes(q));
        }
        sums[i] = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(start, v, first), u, second);
    }
    return sums_of_lanes(sums);
}

ALWAYS_INLINE vf one_row(const enum body body, const struct panel *p, const struct packed_rows *r) {
    struct own_unit own;
    struct steps steps;
    vf acc = v_set1(0);
    if (body != BODY_VALUES)
        steps = load_steps(p->steps);
    for (uint32_t g = 0; g < p->groups; g++) {
        struct unit unit = unit_at(p, body, g, &own);
        const char *x = r->x + g * GROUP_COLS;
        fetch(unit.body + FETCH_AHEAD + TILE * LINE, body_bytes(body) - TILE * LINE);
        __m512i sums = dots_of_group(body, unit.body, &steps, _mm512_loadu_si512(x),
                                     _mm512_loadu_si512(x + LINE));
        acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums),
                              _mm512_mul_ps(scales_at(unit.scales), v_set1(r->d[g])), acc);
    }
    return acc;
}
#define ONE_ROW(name, body)                                                                        \
    static vf one_row_##name(const struct panel *p, const struct packed_rows *r) {                 \
        return one_row(body, p, r);                                                                \
    }
ONE_ROW(codes, BODY_CODES)
ONE_ROW(minima, BODY_MINIMA)
ONE_ROW(values, BODY_VALUES)
static vf (*const ONE[])(const struct panel *p, const struct packed_rows *r) = {
    [BODY_CODES] = one_row_codes, [BODY_MINIMA] = one_row_minima, [BODY_VALUES] = one_row_values};

static void multiply_row(const struct group_product *p, const struct panel *panel, uint32_t first) {
    uint32_t outputs = outputs_of(panel);
    struct packed_rows r = rows_at(p->x, panel->groups, 0, 1, 0);
    vf acc = ONE[panel->body](panel, &r);
    vf bias = p->w->bias ? v_load_n(p->w->bias + first, outputs) : v_set1(0);
    v_store_n(p->out + first, v_add(acc, bias), outputs);
}
