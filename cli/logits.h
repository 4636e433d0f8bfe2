/*
 * logits.h - one line of `trireme logits --jsonl`: {"ids": [..], "chunks": [..]} in, {"logits":
 * [[..], ..]} out.
 *
 * "ids": tokens of one sequence; "chunks": how many of them each step takes (left out: all at
 * once). Other members are passed over. The answer has one row per position, one number per id of
 * the vocabulary, each the shortest text that gives the f32 back; a value that is not finite is
 * null. What cannot be run gives {"error": "why"}.
 */
#ifndef CLI_LOGITS_H
#define CLI_LOGITS_H

#include "base/buf.h"
#include "cli/scorer.h"

enum { LOGITS_IDS_MAX = 1 << 20 };

/* Appends the answer to a line, without a newline. The negative code of a device that failed; 0 for
 * everything else. */
MUST_CHECK int logits_answer(struct scorer *s, struct bytes line, struct buf *out,
                             struct error *err);

#endif
