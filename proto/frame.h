/*
 * frame.h - the header in front of every message, and epochs.
 *
 * Layout, little-endian, 48 bytes: magic "TRM1" u32, major u8, minor u8, kind u16, epoch number
 * u64, epoch instance lo u64, hi u64, payload length u32, payload checksum u32 (low half of
 * xxh3-64), reserved u64 = 0 (ignored by readers). A frame with another magic, another major, a
 * wrong length or checksum is dropped and counted, never answered.
 */
#ifndef PROTO_FRAME_H
#define PROTO_FRAME_H

#include "base/base.h"
#include "base/error.h"
#include "proto/messages.h"

enum { FRAME_BYTES = 48, FRAME_MAJOR = 1, FRAME_MINOR = 0 };

/* Total order: number first, then instance. Zero is "no scheduler met yet". */
struct epoch {
    uint64_t number;
    struct u128 instance;
};
int epoch_compare(struct epoch a, struct epoch b); /* < 0, 0, > 0 */

struct frame {
    uint16_t kind; /* may be one we do not know (newer minor): ignored by the receiver */
    uint8_t minor;
    struct epoch epoch;
};

/* Fills the header for payload (borrowed; at most WIRE_MAX_FRAME bytes). */
void frame_write(uint8_t out[FRAME_BYTES], uint16_t kind, struct epoch epoch, struct bytes payload);
/* 0, or ERR_INVALID for anything wrong with header, length or checksum; ERR_UNSUPPORTED for another
 * major. */
MUST_CHECK int frame_read(struct bytes header, struct bytes payload, struct frame *out);

#endif
