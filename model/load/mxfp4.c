#include "model/load/mxfp4.h"

void mxfp4_pack(uint8_t *out, const uint8_t *blocks, const uint8_t *scales, size_t count) {
    for (size_t b = 0; b < count; b++, blocks += MXFP4_BLOCK, out += MXFP4_SIZE) {
        out[0] = scales[b];
        for (uint32_t i = 0; i < 16; i++) {
            uint32_t low = blocks[i / 2] >> (i % 2 * 4) & 15,
                     high = blocks[8 + i / 2] >> (i % 2 * 4) & 15;
            out[1 + i] = (uint8_t)(low | high << 4);
        }
    }
}

void mxfp4_blocks(uint8_t *out, const uint8_t *packed, size_t count) {
    for (size_t b = 0; b < count; b++, packed += MXFP4_SIZE, out += MXFP4_BLOCK)
        for (uint32_t i = 0; i < 8; i++) {
            const uint8_t *pair = packed + 1 + 2 * i;
            out[i] = (uint8_t)((pair[0] & 15) | (pair[1] & 15) << 4);
            out[8 + i] = (uint8_t)(pair[0] >> 4 | (pair[1] & 0xF0));
        }
}

void mxfp4_scales(uint8_t *out, const uint8_t *packed, size_t count) {
    for (size_t b = 0; b < count; b++)
        out[b] = packed[b * MXFP4_SIZE];
}
