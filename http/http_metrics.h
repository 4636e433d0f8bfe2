/*
 * http_metrics.h - the server's counters, as rows of the process's metrics registry. Added up over
 * all servers and threads of a process.
 */
#ifndef HTTP_HTTP_METRICS_H
#define HTTP_HTTP_METRICS_H

#include "base/metrics.h"

enum http_metric {
    HTTP_METRIC_CONNECTIONS, /* gauge: open now */
    HTTP_METRIC_ACCEPTED,    /* connections accepted */
    HTTP_METRIC_REFUSED,     /* connections past connections_max */
    HTTP_METRIC_RESPONSES,   /* by status class: 1xx .. 5xx */
    HTTP_METRIC_BYTES,       /* in | out */
    HTTP_METRIC_CUT,         /* why a connection was cut: see enum http_cut */
    HTTP_METRIC_BODY_BYTES,  /* gauge: request bodies held now */
    HTTP_METRIC_HANDSHAKES,  /* of TLS: see enum http_handshake */
    HTTP_METRIC_POSTS_FULL,  /* http_thread_post refused */
    HTTP_METRIC_COUNT
};
enum http_handshake {
    HTTP_HANDSHAKE_DONE,
    HTTP_HANDSHAKE_FAILED,
    HTTP_HANDSHAKE_TIMEOUT,
    HTTP_HANDSHAKE_PLAIN /* the client spoke HTTP without TLS */
};
enum http_cut {
    HTTP_CUT_CLIENT,
    HTTP_CUT_FRAMING,
    HTTP_CUT_DEADLINE,
    HTTP_CUT_WRITE_TIMEOUT,
    HTTP_CUT_PENDING,
    HTTP_CUT_ABORT
};

extern struct metric http_metrics[HTTP_METRIC_COUNT];
/* Once a process that wants them in /metrics. Counting works without. */
void http_metrics_register(void);

#endif
