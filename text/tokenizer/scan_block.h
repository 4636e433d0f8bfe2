/*
 * scan_block.h - the scanners of scan.h, 64 bytes at a time: where pieces begin, as a mask of bits.
 *
 * The patterns decide a border by the classes of the two or three characters around it, so in ASCII text all borders of
 * a block follow from a few masks (letters, digits, spaces, ...) by shifts and one addition for each kind of run. What
 * lies behind the block or behind its first byte above 127 is taken as unknown: a border that could depend on it is not
 * reported. The idea of masks of classes is simdjson's (Langdale, Lemire 2019).
 *
 * Threading: pure functions.
 */
#ifndef TEXT_TOKENIZER_SCAN_BLOCK_H
#define TEXT_TOKENIZER_SCAN_BLOCK_H

#include "text/tokenizer/scan.h"

enum { SCAN_BLOCK_BYTES = 64 };

/* p: where a piece begins; 64 bytes from it are read. Bit i of the result: a piece begins at p + i, whatever follows
 * the block; between two neighbouring bits lies one piece. Bit 0 is always set; alone, it says that nothing is certain
 * and that the scanner itself must be asked for the next piece. */
typedef uint64_t scan_block_fn(const uint8_t *p);

/* The block form of a scanner, or NULL where it or the machine has none. */
scan_block_fn *scan_block_find(scan_fn *scan);

#endif
