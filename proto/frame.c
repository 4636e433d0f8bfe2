#include "proto/frame.h"

#include "base/hash.h"

enum { MAGIC = 0x314d5254 }; /* "TRM1" */
enum {
    AT_MAGIC = 0,
    AT_MAJOR = 4,
    AT_MINOR = 5,
    AT_KIND = 6,
    AT_EPOCH = 8,
    AT_INSTANCE = 16,
    AT_LENGTH = 32,
    AT_CHECKSUM = 36,
    AT_RESERVED = 40
};

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "header fields are copied as they are");
_Static_assert(AT_RESERVED + 8 == FRAME_BYTES, "the header's layout");

static int compare_u64(uint64_t a, uint64_t b) {
    return (a > b) - (a < b);
}

int epoch_compare(struct epoch a, struct epoch b) {
    int order = compare_u64(a.number, b.number);
    if (!order)
        order = compare_u64(a.instance.hi, b.instance.hi);
    return order ? order : compare_u64(a.instance.lo, b.instance.lo);
}

static uint32_t checksum(struct bytes payload) {
    return (uint32_t)hash64(payload.data, payload.len, 0);
}

void frame_write(uint8_t out[FRAME_BYTES], uint16_t kind, struct epoch epoch,
                 struct bytes payload) {
    CHECK(payload.len <= WIRE_MAX_FRAME);
    uint32_t magic = MAGIC, len = (uint32_t)payload.len, sum = checksum(payload);
    memset(out, 0, FRAME_BYTES);
    memcpy(out + AT_MAGIC, &magic, 4);
    out[AT_MAJOR] = FRAME_MAJOR;
    out[AT_MINOR] = FRAME_MINOR;
    memcpy(out + AT_KIND, &kind, 2);
    memcpy(out + AT_EPOCH, &epoch.number, 8);
    memcpy(out + AT_INSTANCE, &epoch.instance, 16);
    memcpy(out + AT_LENGTH, &len, 4);
    memcpy(out + AT_CHECKSUM, &sum, 4);
}

int frame_read(struct bytes header, struct bytes payload, struct frame *out) {
    uint32_t magic, len, sum;
    *out = (struct frame){0};
    if (header.len != FRAME_BYTES || payload.len > WIRE_MAX_FRAME)
        return ERR_INVALID;
    memcpy(&magic, header.data + AT_MAGIC, 4);
    if (magic != MAGIC)
        return ERR_INVALID;
    if (header.data[AT_MAJOR] != FRAME_MAJOR)
        return ERR_UNSUPPORTED;
    memcpy(&len, header.data + AT_LENGTH, 4);
    memcpy(&sum, header.data + AT_CHECKSUM, 4);
    if (len != payload.len || sum != checksum(payload))
        return ERR_INVALID;
    memcpy(&out->kind, header.data + AT_KIND, 2);
    out->minor = header.data[AT_MINOR];
    memcpy(&out->epoch.number, header.data + AT_EPOCH, 8);
    memcpy(&out->epoch.instance, header.data + AT_INSTANCE, 16);
    return 0;
}
