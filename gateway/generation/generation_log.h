/*
 * generation_log.h - what is written of a generation that ends: its line of the log, its spans, its metric.
 *
 * Threading: the event thread of the generation.
 */
#ifndef GATEWAY_GENERATION_GENERATION_LOG_H
#define GATEWAY_GENERATION_GENERATION_LOG_H

#include "gateway/generation/generation.h"

/* finish: how its choices ended; status: what its client was told. */
void generation_log(const struct generation *gen, const char *finish, int status);

/* Which of the metric's dialects a request counts as; an invocation that is not read yet as what most are. */
int generation_dialect_label(enum genreq_dialect dialect);

#endif
