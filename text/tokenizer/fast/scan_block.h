/*
 * scan_block.h - the scanners of scan.h, 64 bytes at a time: where pieces begin, as a mask of bits.
 *
 * The patterns decide a border by the classes of the two or three characters around it, so all
 * borders of a block follow from a few masks (letters, digits, spaces, ...) by shifts and one
 * addition for each kind of run; a character of several bytes is pressed into one bit for that.
 * What lies behind the block is taken as unknown: a border that could depend on it is not reported.
 * The idea of masks of classes is simdjson's (Langdale, Lemire 2019).
 *
 * Threading: pure functions.
 */
#ifndef TEXT_TOKENIZER_FAST_SCAN_BLOCK_H
#define TEXT_TOKENIZER_FAST_SCAN_BLOCK_H

#include "text/tokenizer/fast/scan.h"

enum { SCAN_BLOCK_BYTES = 64, SCAN_BLOCK_REACH = 67 };

/* p: where a piece begins; SCAN_BLOCK_REACH bytes from it may be read. Bit i of the result: a piece
 * begins at p + i, whatever follows the block; between two neighbouring bits lies one piece. Bit 0
 * is always set; alone, it says that nothing is certain and that the scanner itself must be asked
 * for the next piece. */
typedef uint64_t scan_block_fn(const uint8_t *p);

/* The block forms of a scanner that this machine can run, the best last; all do the same. */
enum { SCAN_BLOCK_VARIANTS_MAX = 2 };
/* Into out; returns how many. */
size_t scan_block_variants(scan_fn *scan, scan_block_fn *out[SCAN_BLOCK_VARIANTS_MAX]);
/* The best of them, or NULL where the scanner or the machine has none. */
scan_block_fn *scan_block_find(scan_fn *scan);

#endif
