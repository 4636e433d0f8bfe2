#include "base/arena.h"
#include "check.h"

static bool all_zero(const uint8_t *p, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (p[i])
            return false;
    return true;
}

TEST(arena_memory_is_aligned_and_zero_also_after_reset) {
    struct arena a;
    arena_init(&a, 0, 0);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 500; i++) {
            size_t size = check_random() % 3000;
            uint8_t *p = arena_alloc(&a, size);
            EXPECT(p);
            EXPECT_EQ((uintptr_t)p % 16, 0);
            EXPECT(all_zero(p, size));
            memset(p, 0xaa, size);
        }
        arena_reset(&a);
    }
    arena_release(&a);
}

TEST(arena_refuses_past_its_byte_budget) {
    struct arena a;
    arena_init(&a, 1000, 0);
    EXPECT(arena_alloc(&a, 496));
    EXPECT(arena_alloc(&a, 496));
    EXPECT(!arena_alloc(&a, 16));
    EXPECT(!arena_alloc(&a, SIZE_MAX));
    EXPECT(!arena_alloc(&a, SIZE_MAX - 5));
    arena_reset(&a);
    EXPECT(arena_alloc(&a, 1));
    EXPECT(!arena_alloc(&a, 1000));
    arena_release(&a);
}

TEST(arena_refuses_past_its_call_budget) {
    struct arena a;
    arena_init(&a, 0, 3);
    for (int i = 0; i < 3; i++)
        EXPECT(arena_alloc(&a, 1));
    EXPECT(!arena_alloc(&a, 1));
    arena_reset(&a);
    EXPECT(arena_alloc(&a, 1));
    arena_release(&a);
}

TEST(arena_keeps_its_first_chunk_over_reset) {
    struct arena a;
    arena_init(&a, 0, 0);
    void *first = arena_alloc(&a, 100);
    EXPECT(arena_alloc(&a, 100000));
    arena_reset(&a);
    EXPECT(arena_alloc(&a, 100) == first);
    arena_release(&a);
}

TEST(arena_copy_terminates) {
    struct arena a;
    arena_init(&a, 0, 0);
    const char *s = arena_copy(&a, "hello!", 5);
    EXPECT_STR(s, "hello");
    EXPECT_STR((char *)arena_copy(&a, NULL, 0), "");
    EXPECT(!arena_copy(&a, "x", SIZE_MAX));
    arena_release(&a);
}

TEST(arena_join_copies_parts_in_order) {
    struct arena a;
    const struct bytes parts[] = {bytes_str("ab"), bytes_of(NULL, 0), bytes_str("cde")};
    char outside[] = "x";
    arena_init(&a, 64, 0);
    const char *joined = arena_join(&a, parts, ARRAY_LEN(parts));
    EXPECT_STR(joined, "abcde");
    EXPECT(arena_holds(&a, joined) && arena_holds(&a, joined + 4));
    EXPECT(!arena_holds(&a, outside) && !arena_holds(&a, NULL));
    EXPECT_STR((char *)arena_join(&a, NULL, 0), "");
    const struct bytes huge[] = {bytes_of(outside, SIZE_MAX / 2), bytes_of(outside, 1)};
    EXPECT(!arena_join(&a, huge, ARRAY_LEN(huge)));
    arena_release(&a);
    EXPECT(!arena_holds(&a, joined));
}

/* No two pieces overlap: each keeps its own pattern. */
TEST(arena_pieces_do_not_overlap) {
    enum { PIECES = 2000 };
    static struct {
        uint8_t *p;
        size_t size;
    } pieces[PIECES];
    struct arena a;
    arena_init(&a, 0, 0);
    for (int i = 0; i < PIECES; i++) {
        pieces[i].size = check_random() % 64 ? check_random() % 200 : check_random() % 40000;
        pieces[i].p = arena_alloc(&a, pieces[i].size);
        EXPECT(pieces[i].p);
        memset(pieces[i].p, i & 0xff, pieces[i].size);
    }
    for (int i = 0; i < PIECES; i++)
        for (size_t j = 0; j < pieces[i].size; j++)
            EXPECT_EQ(pieces[i].p[j], i & 0xff);
    arena_release(&a);
}
