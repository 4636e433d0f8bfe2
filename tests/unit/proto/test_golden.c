/*
 * test_golden.c - the bytes on the wire stay: tests/goldens/wire.txt has messages of each kind, packed by an
 * earlier build. They unpack, and pack to the same bytes again.
 *
 * A line is a kind's name and hex digits. A field that is new since is absent in them, so they stay
 * true. TRIREME_GOLDEN_WRITE=1 prints lines for the file instead: only for a new kind.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/fsutil.h"
#include "check.h"

/* the same messages each time, whatever the seed of the run */
static uint64_t golden_state;
static uint64_t golden_random(void) {
    golden_state = golden_state * 6364136223846793005u + 1442695040888963407u;
    return golden_state >> 11;
}
#define check_random golden_random
#include "random_message.h"

enum { EACH = 4, TEXT_MAX = 16 << 20 };

union any_message {
#define MEMBER(kind, name) struct wire_##name name;
    WIRE_MESSAGES(MEMBER)
#undef MEMBER
};

static void write_lines(void) {
    static union any_message message;
    struct arena arena = {0};
    struct buf out = {0};
    for (uint32_t kind = 1; kind < WIRE_KIND_MAX; kind++) {
        golden_state = kind;
        for (int i = 0; i < EACH; i++) {
            buf_reset(&out);
            random_message((enum wire_kind)kind, &arena, &message);
            message_pack((enum wire_kind)kind, &message, &out);
            printf("%s ", message_kind_name(kind));
            for (size_t k = 0; k < out.len; k++)
                printf("%02x", (unsigned char)out.data[k]);
            printf("\n");
        }
    }
    arena_release(&arena);
    buf_release(&out);
}

static uint32_t kind_of(struct bytes name) {
    for (uint32_t kind = 1; kind < WIRE_KIND_MAX; kind++)
        if (bytes_equal(name, bytes_str(message_kind_name(kind))))
            return kind;
    return 0;
}

static unsigned digit(uint8_t c) {
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

TEST(bytes_of_earlier_builds_are_ours) {
    static union any_message message;
    struct error err;
    struct buf text = {0}, in = {0}, out = {0};
    struct arena arena = {0};
    uint32_t seen[WIRE_KIND_MAX] = {0};
    if (getenv("TRIREME_GOLDEN_WRITE")) {
        write_lines();
        return;
    }
    EXPECT_EQ(file_read(TRIREME_SOURCE_DIR "/tests/goldens/wire.txt", TEXT_MAX, &text, &err), 0);
    const uint8_t *at = (const uint8_t *)text.data, *end = at + text.len;
    while (at < end) {
        const uint8_t *space = memchr(at, ' ', (size_t)(end - at));
        const uint8_t *stop = memchr(at, '\n', (size_t)(end - at));
        EXPECT(space && stop && space < stop);
        uint32_t kind = kind_of(bytes_of(at, (size_t)(space - at)));
        EXPECT(kind != 0);
        buf_reset(&in);
        buf_reset(&out);
        for (at = space + 1; at + 1 < stop; at += 2)
            buf_add_byte(&in, (char)(digit(at[0]) << 4 | digit(at[1])));
        at = stop + 1;
        arena_reset(&arena);
        EXPECT_EQ(message_unpack((enum wire_kind)kind, buf_bytes(&in), &arena, &message, &err), 0);
        message_pack((enum wire_kind)kind, &message, &out);
        EXPECT(bytes_equal(buf_bytes(&in), buf_bytes(&out)));
        seen[kind]++;
    }
    for (uint32_t kind = 1; kind < WIRE_KIND_MAX; kind++)
        EXPECT(seen[kind] > 0);
    arena_release(&arena);
    buf_release(&text);
    buf_release(&in);
    buf_release(&out);
}
