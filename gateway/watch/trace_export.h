/*
 * trace_export.h - sends records of requests to a collector (OTLP/HTTP, JSON), from a thread of its own.
 *
 * Whoever ends a request copies its record and goes on: nothing waits for a collector and nothing
 * fails with it. Records wait in a bounded list; past the bound, and when a batch cannot be
 * delivered, they are dropped and counted (GATEWAY_METRIC_TRACES). A batch is sent once.
 *
 * Threading: trace_export_add from any thread.
 */
#ifndef GATEWAY_WATCH_TRACE_EXPORT_H
#define GATEWAY_WATCH_TRACE_EXPORT_H

#include "base/error.h"
#include "gateway/watch/trace.h"

enum { TRACE_WAITING_MAX = 2048, TRACE_BATCH_MAX = 256 };

struct trace_export;

/* endpoint: "http://HOST[:PORT][/PATH]"; behind it comes /v1/traces. Checks it, opens no connection
 * and starts no thread. 0 with *out owned, or a code with *err filled. */
MUST_CHECK int trace_export_new(struct trace_export **out, const char *endpoint, struct error *err);
/* Starts the thread. Once. */
MUST_CHECK int trace_export_start(struct trace_export *t, struct error *err);
/* Copies the record. */
void trace_export_add(struct trace_export *t, const struct trace_record *record);
/* Sends what waits, once, then ends. NULL in *t is fine. */
void trace_export_free(struct trace_export **t);

#endif
