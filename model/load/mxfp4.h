/*
 * mxfp4.h - MXFP4 blocks of 32 values, from the way GPT-OSS's folders have them to STORAGE_MXFP4
 * (GGUF's) and back.
 *
 * A folder has blocks u8 [count, 16], values 2 i and 2 i + 1 in byte i, and scales u8 [count] in a
 * tensor of their own; STORAGE_MXFP4 has values i and i + 16 in byte i, behind the scale. The bits
 * of values and scales are the same (OCP Microscaling 1.0).
 *
 * Threading: none.
 */
#ifndef MODEL_MXFP4_H
#define MODEL_MXFP4_H

#include "base/base.h"

enum { MXFP4_VALUES_EACH = 32, MXFP4_BLOCK = 16, MXFP4_SIZE = 17 };
/* A scale that is none (OCP Microscaling 1.0: of E8M0 the only NaN). Devices do not look for it. */
enum { MXFP4_NO_NUMBER = 255 };

/* out: [count, 17]. */
void mxfp4_pack(uint8_t *out, const uint8_t *blocks, const uint8_t *scales, size_t count);
/* The blocks [count, 16] of `count` packed ones. */
void mxfp4_blocks(uint8_t *out, const uint8_t *packed, size_t count);
/* The scales [count] of `count` packed blocks. */
void mxfp4_scales(uint8_t *out, const uint8_t *packed, size_t count);

#endif
