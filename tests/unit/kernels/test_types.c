/* Storage types: conversions against the hardware-independent definition, all values. */
#include "rig.h"

/* Value of a half by the format's definition. */
static double half_value(uint16_t h) {
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double v = exponent == 31 ? (fraction ? NAN : INFINITY)
               : exponent     ? ldexp(1024 + fraction, exponent - 25)
                              : ldexp(fraction, -24);
    return h & 0x8000 ? -v : v;
}

TEST(every_half_widens_to_its_value) {
    for (uint32_t h = 0; h < 65536; h++) {
        float f = f16_to_f32((uint16_t)h);
        double v = half_value((uint16_t)h);
        EXPECT(isnan(v) ? isnan(f) : (double)f == v && !signbit(f) == !(h & 0x8000));
    }
}

TEST(every_finite_half_survives_the_round_trip) {
    for (uint32_t h = 0; h < 65536; h++)
        if ((h >> 10 & 31) != 31)
            EXPECT_EQ(f32_to_f16(f16_to_f32((uint16_t)h)), h);
}

TEST(narrowing_to_half_takes_the_nearest_and_even_among_two) {
    for (uint32_t h = 0; h < 0x7bff; h++) {
        float low = f16_to_f32((uint16_t)h), high = f16_to_f32((uint16_t)(h + 1));
        float middle = (float)(((double)low + high) / 2);
        EXPECT_EQ(f32_to_f16(middle), h & 1 ? h + 1 : h);
        EXPECT_EQ(f32_to_f16(nextafterf(middle, high)), h + 1);
        EXPECT_EQ(f32_to_f16(nextafterf(middle, low)), h);
    }
}

TEST(halves_saturate_and_keep_nan) {
    EXPECT_EQ(f32_to_f16(65519.0f), 0x7bff);
    EXPECT_EQ(f32_to_f16(65520.0f), 0x7bff);
    EXPECT_EQ(f32_to_f16(1e30f), 0x7bff);
    EXPECT_EQ(f32_to_f16(-INFINITY), 0xfbff);
    EXPECT(isnan(f16_to_f32(f32_to_f16(NAN))));
}

TEST(bf16_rounds_to_nearest_even) {
    EXPECT_EQ(f32_to_bf16(1.0f), 0x3f80);
    EXPECT_EQ(f32_to_bf16(1.00390625f), 0x3f80); /* half way: even */
    EXPECT_EQ(f32_to_bf16(1.01171875f), 0x3f82); /* half way: even is up */
    EXPECT_EQ(f32_to_bf16(1.00390637f), 0x3f81);
    EXPECT(isnan(bf16_to_f32(f32_to_bf16(NAN))));
    for (uint32_t h = 0; h < 65536; h++)
        if ((h & 0x7fff) <= 0x7f80)
            EXPECT_EQ(f32_to_bf16(bf16_to_f32((uint16_t)h)), h);
}

TEST(storage_names_are_their_own_inverse) {
    for (size_t i = 0; i < ARRAY_LEN(TYPES); i++)
        EXPECT_EQ(storage_parse(storage_name(TYPES[i])), TYPES[i]);
    EXPECT_EQ(storage_parse("f31"), STORAGE_NONE);
    EXPECT_EQ(storage_parse(NULL), STORAGE_NONE);
}
