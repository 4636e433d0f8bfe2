/*
 * trace.h - what a gateway tells of a request to whoever collects traces: spans of OpenTelemetry,
 * written as OTLP/JSON (opentelemetry-proto 1.x, trace/v1).
 *
 * A request is a span of kind server with up to three children: queue (until it was first placed),
 * prefill (to its first token), decode (to its end). A client's traceparent (W3C Trace Context,
 * level 1) is the parent, and its flag says whether the request is sampled; without one a ratio does.
 *
 * Threading: pure, but for random numbers.
 */
#ifndef GATEWAY_WATCH_TRACE_H
#define GATEWAY_WATCH_TRACE_H

#include "base/buf.h"

enum { TRACE_ID_HEX = 32, SPAN_ID_HEX = 16, TRACE_NAME_MAX = 128 };

/* Where a request stands in a trace; ids in lower-case hex, zero-terminated. */
struct trace_context {
    char trace_id[TRACE_ID_HEX + 1]; /* "": not sampled */
    char span_id[SPAN_ID_HEX + 1];   /* the request's own */
    char parent_id[SPAN_ID_HEX + 1]; /* "": the trace begins here */
};

/* A request that has ended. Times are microseconds; 0 of first: no token came. */
struct trace_record {
    struct trace_context context;
    int64_t begin_us; /* since 1970 */
    int64_t duration_us, first_us;
    int64_t queued_us, prefill_us; /* queued_us -1: not told */
    const char *path, *finish;     /* static */
    char model[TRACE_NAME_MAX];    /* cut where it is longer; "": none was found */
    char request_id[TRACE_NAME_MAX];
    uint32_t prompt_tokens, cached_tokens, output_tokens;
    int status;
};

/* Begins the request's span. traceparent: the header's value, or nothing; one that breaks the rules
 * counts as none. ratio: of requests without one, how many are sampled (0 to 1). */
void trace_context_begin(struct trace_context *c, struct bytes traceparent, double ratio);
/* Appends an ExportTraceServiceRequest of all records. version: of this program. */
void trace_write(struct buf *out, const struct trace_record *records, size_t count,
                 const char *version);

#endif
