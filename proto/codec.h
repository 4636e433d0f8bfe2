/*
 * codec.h - messages.h as bytes and back: one encoder and one validating decoder for each message.
 *
 * The bytes are protocol buffers, declared in proto/trireme.proto. One table (codec_tables.c, made
 * from that file) has a row for each field of each message: where it lies in our struct, which
 * field number it has on the wire, and its bounds. Encoding walks the table and appends straight to
 * a buffer: no allocation once the buffer has grown. Decoding is protobuf-c's unpack into an arena
 * with a budget of bytes and calls in proportion to the frame's length, then the same table copies
 * and checks each field, then a function for each message checks what one field alone does not
 * show.
 *
 * What a decoder promises of a struct it returns 0 for:
 *   (1) every count, length and enum is within the bounds of messages.h; bools are 0 or 1;
 *   (2) parallel columns have equal counts, and sums of counts match the concatenated columns;
 *   (3) floats are finite (log-probabilities may also be -infinity) and in the range their field
 *       has in messages.h;
 *   (4) text is valid UTF-8 (model and adapter names, grammars, error texts, names for logs);
 *   (5) choices of one message are unique and below their bound, and so are the slots of one plan's
 *       rows;
 *   (6) columns are aligned for their type.
 *
 * What it cannot know is left to whoever receives it: token ids against the logits width, block ids
 * against the pool, a slot against its owner.
 *
 * Everything a decoded struct points to lies in the arena: it lives until the arena is reset, and
 * the frame may go at once.
 *
 * Threading: none of this has state.
 */
#ifndef PROTO_CODEC_H
#define PROTO_CODEC_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "proto/messages.h"

/* Name of a kind for logs ("step_result"); "unknown" for others. */
const char *message_kind_name(uint32_t kind);
/* Bytes of a kind's struct; 0 for unknown ones. */
size_t message_size(uint32_t kind);

/* The generic pair; `message` is the kind's struct. Appends to out (check out->failed once at the
 * end). CHECKs that the kind is known. */
void message_pack(enum wire_kind kind, const void *message, struct buf *out);
/*
 * Fills *message (message_size bytes). Returns 0, ERR_INVALID (malformed or out of bounds), or
 * ERR_LIMIT (over the budget: treat alike). After ERR_INVALID from a check (not from unpacking) the
 * leading u128 and attempt of submit, attach and resend are already filled in, so that the sender
 * can be told; they are zero otherwise. Nothing else of *message may be used then.
 */
MUST_CHECK int message_unpack(enum wire_kind kind, struct bytes payload, struct arena *arena,
                              void *message, struct error *err);

/* message_pack_hello(const struct wire_hello *, struct buf *), message_unpack_hello(struct bytes,
 * struct arena *, struct wire_hello *, struct error *), ... */
#define DECLARE_PACK(kind, name)                                                                   \
    static inline void message_pack_##name(const struct wire_##name *message, struct buf *out) {   \
        message_pack(kind, message, out);                                                          \
    }                                                                                              \
    static inline MUST_CHECK int message_unpack_##name(struct bytes payload, struct arena *arena,  \
                                                       struct wire_##name *message,                \
                                                       struct error *err) {                        \
        return message_unpack(kind, payload, arena, message, err);                                 \
    }
WIRE_MESSAGES(DECLARE_PACK)
#undef DECLARE_PACK

#endif
