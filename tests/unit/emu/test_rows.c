/* prepare, embed, gather, rmsnorm, gated activation, rotary angles on the emulated device against
 * the definitions. */
#include "kernels/scalar_math.h"
#include "rig.h"

static const uint32_t WIDTHS[] = {1,   7,   8,   15,   16,   17,   61,  255,
                                  256, 257, 264, 1031, 4096, 4099, 8300};

TEST(rmsnorm_equals_its_definition_and_adds_first) {
    for (size_t i = 0; i < ARRAY_LEN(WIDTHS); i++)
        for (size_t type = 0; type < ARRAY_LEN(TYPES); type++) {
            uint32_t width = WIDTHS[i], rows = (uint32_t)(i % 4);
            if (!is_long() && (i + type) % 3 == 2)
                continue;
            size_t count = (size_t)rows * width;
            bool delta = (i + type) % 2, only_sum = delta && i % 5 == 3, x_f32 = i % 2,
                 plain = i % 3 == 1;
            bool in_place = x_f32 && !only_sum && i % 4 == 3; /* what was added is nowhere then */
            bool delta_f32 = x_f32 && i % 3 == 0;
            const enum storage_type x_type = x_f32 ? STORAGE_F32 : TYPES[type];
            const enum storage_type out_type = in_place ? STORAGE_F32 : TYPES[type];
            float *x = random_values(count), *d = random_values(count), *w = random_values(width),
                  *first = NULL;
            for (int order = 0; order < ORDERS; order++) {
                emu_set_order(order, i + 1);
                struct rig r = rig_open(TYPES[type]);
                void *dx = rig_values(&r, x_type, x, count),
                     *dd = rig_values(&r, delta_f32 ? STORAGE_F32 : r.act, d, count);
                void *out = in_place ? dx : rig_alloc(&r, storage_bytes(r.act, count));
                r.dev->ops->rmsnorm(
                    r.stream, &(struct op_rmsnorm){
                                  .out = only_sum ? NULL : out,
                                  .x = dx,
                                  .delta = delta ? dd : NULL,
                                  .weight = plain ? NULL : rig_values(&r, STORAGE_F32, w, width),
                                  .rows = rows,
                                  .width = width,
                                  .eps = 1e-5f,
                                  .weight_offset = (float)(i % 2),
                                  .x_f32 = x_f32,
                                  .delta_f32 = delta_f32});
                float *h = rig_down(&r, x_type, dx, count),
                      *got = rig_down(&r, out_type, out, count);
                for (size_t n = 0; n < count; n++) {
                    float sum = x[n] + (delta ? d[n] : 0);
                    if (in_place)
                        h[n] = sum;
                    EXPECT(fabs(h[n] - sum) <=
                           (delta ? rounding(x_type) * fabs(sum) + rounding_floor(x_type) : 0));
                }
                for (uint32_t t = 0; t < rows && !only_sum; t++) {
                    double squares = 0;
                    for (uint32_t n = 0; n < width; n++)
                        squares += (double)h[t * width + n] * h[t * width + n];
                    double scale = 1 / sqrt(squares / width + 1e-5f);
                    for (uint32_t n = 0; n < width; n++) {
                        double want = h[t * width + n];
                        if (!plain)
                            want *= scale * ((double)w[n] + (double)(i % 2));
                        double tolerance =
                            (rounding(out_type) * 1.01 + UNIT_ROUNDOFF * (width / 4.0 + 16)) *
                            fabs(want);
                        /* weight + offset rounds to f32 */
                        tolerance += UNIT_ROUNDOFF * 2 * fabs(h[t * width + n] * scale) +
                                     rounding_floor(out_type);
                        EXPECT(fabs(got[t * width + n] - want) <= tolerance);
                    }
                }
                for (size_t n = 0; only_sum && n < count; n++)
                    EXPECT(isnan(got[n]));
                if (first)
                    EXPECT(same_bits(first, got, count) || only_sum);
                if (!first) {
                    first = got;
                } else {
                    free(got);
                }
                free(h);
                rig_close(&r);
            }
            free(first);
            free(x);
            free(d);
            free(w);
        }
    emu_set_order(0, 1);
}

TEST(gated_activations_equal_their_definition) {
    for (size_t i = 0; i < ARRAY_LEN(WIDTHS); i++)
        for (size_t type = 0; type < ARRAY_LEN(TYPES); type++) {
            uint32_t width = WIDTHS[i], rows = (uint32_t)((i + type) % 4);
            enum activation kind = (i + type) % 2 ? ACTIVATION_SILU : ACTIVATION_GELU_TANH;
            struct rig r = rig_open(TYPES[type]);
            float *x = random_values((size_t)rows * 2 * width);
            for (size_t n = 0; n < (size_t)rows * 2 * width; n++)
                x[n] *= 8;
            void *in = rig_values(&r, r.act, x, (size_t)rows * 2 * width),
                 *out = rig_alloc(&r, storage_bytes(r.act, (size_t)rows * width));
            r.dev->ops->act_mul(r.stream, &(struct op_act_mul){out, in, rows, width, kind});
            float *got = rig_down(&r, r.act, out, (size_t)rows * width),
                  *want = calloc((size_t)rows * width + 1, 4);
            r.ref->ops->act_mul(r.ref_stream, &(struct op_act_mul){want, x, rows, width, kind});
            for (size_t n = 0; n < (size_t)rows * width; n++) {
                /* gelu as 0.5 x (1 + tanh u): where 1 + tanh cancels, the error is u of |x| times
                 * the factor; silu below -88: exp(-x) is infinite in f32 and the result 0 instead
                 * of 88 exp(-88) = 6e-37 at most */
                double up = fabs((double)x[n / width * 2 * width + width + n % width]),
                       gate = fabs((double)x[n / width * 2 * width + n % width]);
                /* silu: past exp's range, at 88.72, the factor is 0 instead of at most 88.72
                 * e^-88.72 = 2.7e-37 */
                double tolerance =
                    (rounding(r.act) * 1.01 + 12 * UNIT_ROUNDOFF) * fabs(want[n]) +
                    (kind == ACTIVATION_SILU ? 2.7e-37 * up : 4 * UNIT_ROUNDOFF * gate * up) +
                    rounding_floor(r.act);
                if (!(fabs((double)got[n] - want[n]) <= tolerance))
                    check_fail(__FILE__, __LINE__, "%s %d: %g, expected %g", storage_name(r.act),
                               (int)kind, got[n], want[n]);
            }
            free(x);
            free(got);
            free(want);
            rig_close(&r);
        }
}

TEST(embedding_copies_rows_and_zeroes_padding) {
    for (size_t type = 0; type < 9; type++)
        for (uint32_t width = 1; width < 80; width += 1 + width / 3) {
            struct rig r = rig_open(TYPES[type / 3]);
            enum storage_type stored = TYPES[type % 3];
            float *values = random_values((size_t)11 * width);
            /* a part of a larger table: the last two ids are of others */
            uint32_t first = width % 2 * 20;
            uint32_t ids[] = {first + 10, first, first + 5, first + 3, first + 11, first - 1};
            uint32_t positions[] = {7, 0, ROW_NONE, 1, 2, 3};
            struct matrix m = {.type = stored, .rows = 11, .cols = width, .segment_count = 1};
            m.segments[0] = (struct matrix_segment){
                .data = rig_values(&r, stored, values, (size_t)11 * width), .rows = 11};
            struct step_batch batch = {.row_count = 6,
                                       .ids = rig_up(&r, ids, sizeof ids),
                                       .positions = rig_up(&r, positions, sizeof positions)};
            void *out = rig_alloc(&r, storage_bytes(r.act, (size_t)6 * width));
            r.dev->ops->embed(r.stream, &(struct op_embed){out, &m, &batch, 2, first});
            float *got = rig_down(&r, r.act, out, (size_t)6 * width);
            uint8_t one[4];
            for (uint32_t t = 0; t < 6; t++)
                for (uint32_t i = 0; i < width; i++) {
                    bool none = t == 2 || t > 3;
                    storage_put(r.act, one, 0, none ? 0 : 2 * values[(ids[t] - first) * width + i]);
                    EXPECT(got[t * width + i] == storage_get(r.act, one, 0));
                }
            free(got);
            free(values);
            rig_close(&r);
        }
}

TEST(gathered_rows_are_copies) {
    for (size_t type = 0; type < 3; type++)
        for (uint32_t width = 1; width < 600; width = width * 3 + 2) {
            struct rig r = rig_open(TYPES[type]);
            float *x = random_values((size_t)5 * width);
            uint32_t idx[] = {4, 0, 4, 2};
            const bool f32 = width % 2;
            const enum storage_type rows = f32 ? STORAGE_F32 : r.act;
            void *in = rig_values(&r, rows, x, (size_t)5 * width),
                 *out = rig_alloc(&r, storage_bytes(rows, (size_t)4 * width));
            r.dev->ops->gather_rows(
                r.stream,
                &(struct op_gather_rows){out, in, rig_up(&r, idx, sizeof idx), 4, width, f32});
            float *got = rig_down(&r, rows, out, (size_t)4 * width);
            for (uint32_t t = 0; t < 4; t++)
                EXPECT(same_bits(got + t * width, x + idx[t] * width, width));
            free(got);
            free(x);
            rig_close(&r);
        }
}

TEST(angles_have_the_bits_of_the_definition) {
    for (uint32_t half = 1; half < 130; half = half * 2 + 3) {
        struct rig r = rig_open(STORAGE_BF16);
        enum { T = 9 };
        uint32_t positions[T] = {0, 1, 2, 77, 4095, 131071, 999999, ROW_NONE, 3};
        float *inv = calloc(half, 4), *want = calloc((size_t)T * half * 2, 4);
        for (uint32_t i = 0; i < half; i++)
            inv[i] = (float)pow(10000, -(double)i / half);
        float *out = rig_alloc(&r, (size_t)T * half * 8);
        struct step_batch batch = {.row_count = T,
                                   .positions = rig_up(&r, positions, sizeof positions)};
        r.dev->ops->rope_angles(r.stream, &(struct op_rope_angles){out, rig_up(&r, inv, half * 4),
                                                                   half, 1.25f, &batch, false});
        batch.positions = positions;
        r.ref->ops->rope_angles(r.ref_stream,
                                &(struct op_rope_angles){want, inv, half, 1.25f, &batch, false});
        float *got = rig_down(&r, STORAGE_F32, out, (size_t)T * half * 2);
        EXPECT(same_bits(got, want, (size_t)T * half * 2));
        free(got);
        free(inv);
        free(want);
        rig_close(&r);
    }
}

/* Slots in every state; prepare on both devices, twice (the second finds what the first has
 * counted). */
TEST(prepare_equals_its_definition) {
    enum { SLOTS = 6, CONTEXT = 300, T = 500 };
    for (int order = 0; order < ORDERS; order++) {
        emu_set_order(order, 3);
        struct rig r = rig_open(STORAGE_BF16);
        struct slot_state states[SLOTS] = {0};
        uint32_t tokens[SLOTS * CONTEXT], rows[3][T] = {{0}};
        for (uint32_t i = 0; i < SLOTS * CONTEXT; i++)
            tokens[i] = i * 7 % 1000;
        for (uint32_t i = 0; i < SLOTS; i++)
            states[i] = (struct slot_state){
                .active = i != 2, .token_count = 10 + i * 50, .computed_count = i * 3};
        const struct step_run runs[] = {{0, 0, 1},
                                        {5, 1, 200},
                                        {2, 201, 3},
                                        {3, 204, 129},
                                        {1, 333, 58},
                                        /* slot 4 has two: prompt rows, then output rows */
                                        {4, 421, 70},
                                        {4, 391, 30},
                                        {ROW_NONE, 491, 1},
                                        {ROW_NONE, 492, 1}};
        struct slot_table t = {.slot_count = SLOTS, .max_context = CONTEXT}, host = t;
        host.states = states;
        host.tokens = tokens;
        t.states = rig_up(&r, states, sizeof states);
        t.tokens = rig_up(&r, tokens, sizeof tokens);
        struct step_batch b = {
            .row_count = T, .run_count = ARRAY_LEN(runs), .runs = rig_up(&r, runs, sizeof runs)};
        b.ids = rig_up(&r, rows[0], sizeof rows[0]);
        b.slots = rig_up(&r, rows[1], sizeof rows[1]);
        b.positions = rig_up(&r, rows[2], sizeof rows[2]);
        struct step_batch hb = b;
        hb.runs = runs;
        hb.ids = rows[0];
        hb.slots = rows[1];
        hb.positions = rows[2];
        for (int round = 0; round < 2; round++) {
            r.dev->ops->prepare(r.stream, &(struct op_prepare){&t, &b});
            r.ref->ops->prepare(r.ref_stream, &(struct op_prepare){&host, &hb});
            uint32_t got[3][T];
            struct slot_state got_states[SLOTS];
            stream_copy_out(r.stream, got[0], b.ids, sizeof got[0]);
            stream_copy_out(r.stream, got[1], b.slots, sizeof got[1]);
            stream_copy_out(r.stream, got[2], b.positions, sizeof got[2]);
            stream_copy_out(r.stream, got_states, t.states, sizeof got_states);
            EXPECT(rig_wait(&r));
            EXPECT(!memcmp(got, rows, sizeof got) && !memcmp(got_states, states, sizeof states));
        }
        rig_close(&r);
    }
    emu_set_order(0, 1);
}
