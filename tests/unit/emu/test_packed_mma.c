/* linear with quantised weights in units on GPUs that are no Hopper: against the definition of each type over
 * the sweep, and bits against row count, class, neighbours and thread order. */
#include "packed_rig.h"

void emu_set_device(int arch, int compiled);

/* Compute capability and what the code was compiled for: early launches, and none. */
static const int DEVICES[][2] = {{80, 80}, {120, 120}, {120, 80}};

static void use_device(uint32_t i) {
    emu_set_device(DEVICES[i % ARRAY_LEN(DEVICES)][0], DEVICES[i % ARRAY_LEN(DEVICES)][1]);
}

/* k: one tile of 64, a stage of four teams and less, rings that come round. */
TEST(products_of_units_by_mma_equal_the_definition) {
    static const uint32_t rows[] = {1, 8, 9, 33, 65, 130}, cols[] = {64, 2304, 448, 1280};
    const struct drawn forms = drawn_of(3);
    for (uint32_t f = 0; f < ARRAY_LEN(FORMS); f++)
        for (uint32_t i = 0; i < ARRAY_LEN(rows); i++) {
            if (!is_drawn(forms, f / 3) || (!is_long() && (i + f) % 3 != 0))
                continue;
            use_device(f / 3 + i);
            check_shape(&(struct shape){.form = &FORMS[f],
                                        .act = TYPES[1 + (f + i / 2) % 2],
                                        .rows = rows[i],
                                        .features = 64 + (f + i) % 2 * 64,
                                        .cols = cols_of(&FORMS[f], cols[(f + i / 2) % 4]),
                                        .bias = i % 3 == 1,
                                        .out_f32 = (i + f) % 2});
        }
    emu_set_device(90, 90);
}

/* One order of sums for blocks of 8, 32 and 64 rows, and for both classes, whatever the size of the matrix. */
TEST(a_row_by_mma_has_the_same_bits_whatever_the_rows_and_their_class) {
    static const uint32_t counts[] = {8, 20, 140}, cols[] = {512, 2560};
    const struct drawn forms = drawn_of(4);
    for (uint32_t f = 0; f < ARRAY_LEN(FORMS); f++) {
        if (!is_drawn(forms, f))
            continue;
        struct shape s = {&FORMS[f], STORAGE_BF16, 1, 64, cols[f % 2], false, true};
        struct weights w = make_weights(s.form, s.features, s.cols);
        use_device(f);
        float *x = small_values(s.cols), *alone = run_rows(&s, &w, x, NULL, 1);
        for (uint32_t i = 0; i < ARRAY_LEN(counts); i++) {
            if (!is_long() && i != f % 3)
                continue;
            s.rows = counts[i];
            float *others = small_values((size_t)s.rows * s.cols);
            const uint32_t place = (uint32_t)(check_random() % s.rows);
            memcpy(others + (size_t)place * s.cols, x, s.cols * sizeof *x);
            for (uint32_t class_rows = 0; class_rows <= s.rows; class_rows += s.rows) {
                float *got = run_rows(&s, &w, others, NULL, class_rows);
                if (emu_launch_count() &&
                    !same_bits(alone, got + (size_t)place * s.features, s.features))
                    check_fail(__FILE__, __LINE__, "%s: other bits among %u rows, %u of answers",
                               s.form->name, s.rows, class_rows);
                free(got);
            }
            free(others);
        }
        free(alone);
        free(x);
        free_weights(&w);
    }
    emu_set_device(90, 90);
}

TEST(segments_and_gates_are_one_launch_by_mma) {
    static const uint32_t rows[] = {5, 40, 70, 130};
    const struct drawn forms = drawn_of(4);
    for (uint32_t f = 0; f < ARRAY_LEN(FORMS); f++) {
        if (!is_drawn(forms, f))
            continue;
        use_device(f);
        check_segments(f);
        for (uint32_t i = 0; i < ARRAY_LEN(rows); i++)
            if (is_long() || (i + f / 4) % 4 == 0)
                check_gated(&FORMS[f], TYPES[1 + f % 2], rows[i],
                            FORMS[f].scale_rows == 128 ? 2 : 1 + (f + i) % 2, 192 + f % 3);
    }
    emu_set_device(90, 90);
}
