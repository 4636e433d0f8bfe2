/* Decodes the bytes behind the first as the kind that the first names; what is taken must encode to
 * something that is taken as the same. */
#include "proto/codec.h"

#include "fuzz.h"

union any_message {
#define MEMBER(kind, name) struct wire_##name name;
    WIRE_MESSAGES(MEMBER)
#undef MEMBER
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
    static struct arena arena;
    static struct buf first, second;
    union any_message message;
    enum wire_kind kind = (enum wire_kind)(len ? data[0] : 0);
    if (!message_size(kind))
        return 0;
    arena_reset(&arena);
    if (message_unpack(kind, bytes_of(data + 1, len - 1), &arena, &message, NULL) != 0)
        return 0;
    buf_reset(&first);
    message_pack(kind, &message, &first);
    arena_reset(&arena);
    CHECK(message_unpack(kind, buf_bytes(&first), &arena, &message, NULL) == 0);
    buf_reset(&second);
    message_pack(kind, &message, &second);
    CHECK(bytes_equal(buf_bytes(&first), buf_bytes(&second)));
    return 0;
}
