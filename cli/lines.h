/*
 * lines.h - commands that take a JSON object a line on standard input and write one a line, in
 * order.
 */
#ifndef CLI_LINES_H
#define CLI_LINES_H

#include "base/buf.h"
#include "base/error.h"

/* Appends the answer to a line (without its end, not empty) to out, which is empty, without a
 * newline; nothing: no answer. Nonzero, with err set, ends the command after that answer. */
typedef int lines_answer_fn(void *ctx, struct bytes line, struct buf *out, struct error *err);

/* Until the input ends; each answer is written out before the next line is read. */
MUST_CHECK int lines_run(lines_answer_fn *answer, void *ctx, struct error *err);

#endif
