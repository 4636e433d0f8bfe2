/* Reads a frame's header; one that is taken is written back as the same bytes (but for what readers
 * ignore). */
#include "proto/frame.h"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
    struct frame frame;
    uint8_t again[FRAME_BYTES];
    size_t header_len = len < FRAME_BYTES ? len : FRAME_BYTES;
    struct bytes header = bytes_of(data, header_len),
                 payload = bytes_of(data + header_len, len - header_len);
    int rc = frame_read(header, payload, &frame);
    CHECK(rc == 0 || rc == ERR_INVALID || rc == ERR_UNSUPPORTED);
    if (rc != 0)
        return 0;
    frame_write(again, frame.kind, frame.epoch, payload);
    again[5] = frame.minor;
    CHECK(memcmp(again, data, 40) == 0);
    return 0;
}
