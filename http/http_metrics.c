/*
 * http_metrics.c - the rows.
 */
#include "http/http_metrics.h"

struct metric http_metrics[HTTP_METRIC_COUNT] = {
    [HTTP_METRIC_CONNECTIONS] = {.name = "trireme_http_connections",
                                 .kind = METRIC_GAUGE,
                                 .help = "Open HTTP connections."},
    [HTTP_METRIC_ACCEPTED] = {.name = "trireme_http_accepted_total",
                              .kind = METRIC_COUNTER,
                              .help = "HTTP connections accepted."},
    [HTTP_METRIC_REFUSED] = {.name = "trireme_http_refused_total",
                             .kind = METRIC_COUNTER,
                             .help = "HTTP connections refused because too many were open."},
    [HTTP_METRIC_RESPONSES] = {.name = "trireme_http_responses_total",
                               .kind = METRIC_COUNTER,
                               .help = "HTTP responses begun, by status class.",
                               .label = "class",
                               .label_values = "1xx|2xx|3xx|4xx|5xx"},
    [HTTP_METRIC_BYTES] = {.name = "trireme_http_bytes_total",
                           .kind = METRIC_COUNTER,
                           .help = "Bytes read from and written to HTTP clients.",
                           .label = "direction",
                           .label_values = "in|out"},
    [HTTP_METRIC_CUT] = {.name = "trireme_http_cut_total",
                         .kind = METRIC_COUNTER,
                         .help =
                             "HTTP requests or connections that ended before their time, by cause.",
                         .label = "cause",
                         .label_values = "client|framing|deadline|write_timeout|pending|abort"},
    [HTTP_METRIC_BODY_BYTES] = {.name = "trireme_http_body_bytes",
                                .kind = METRIC_GAUGE,
                                .help = "Bytes of request bodies held in memory."},
    [HTTP_METRIC_HANDSHAKES] = {.name = "trireme_http_tls_handshakes_total",
                                .kind = METRIC_COUNTER,
                                .help = "TLS handshakes that ended, by outcome.",
                                .label = "outcome",
                                .label_values = "done|failed|timeout|plain"},
    [HTTP_METRIC_POSTS_FULL] =
        {.name = "trireme_http_posts_full_total",
         .kind = METRIC_COUNTER,
         .help = "Functions not taken because an event thread had too many waiting."},
};

void http_metrics_register(void) {
    metrics_register(http_metrics, HTTP_METRIC_COUNT);
}
