/*
 * test_server_metrics.c - what the server counts of each connection.
 */
#include "server_bench.h"

/* Figures that a connection may move, each with the label that it has. */
static const struct {
    enum http_metric metric;
    int label;
    const char *name;
} FIGURES[] = {
    {HTTP_METRIC_ACCEPTED, 0, "accepted"},
    {HTTP_METRIC_REFUSED, 0, "refused"},
    {HTTP_METRIC_RESPONSES, 0, "1xx"},
    {HTTP_METRIC_RESPONSES, 1, "2xx"},
    {HTTP_METRIC_RESPONSES, 2, "3xx"},
    {HTTP_METRIC_RESPONSES, 3, "4xx"},
    {HTTP_METRIC_RESPONSES, 4, "5xx"},
    {HTTP_METRIC_CUT, HTTP_CUT_CLIENT, "client"},
    {HTTP_METRIC_CUT, HTTP_CUT_FRAMING, "framing"},
    {HTTP_METRIC_CUT, HTTP_CUT_DEADLINE, "deadline"},
    {HTTP_METRIC_CUT, HTTP_CUT_WRITE_TIMEOUT, "write_timeout"},
    {HTTP_METRIC_CUT, HTTP_CUT_PENDING, "pending"},
    {HTTP_METRIC_CUT, HTTP_CUT_ABORT, "abort"},
    {HTTP_METRIC_BODY_BYTES, 0, "body_bytes"},
    {HTTP_METRIC_CONNECTIONS, 0, "connections"},
};

/* The figures that differ from those before, "NAME+BY " each. */
static void add_moved(const int64_t *before, struct buf *text) {
    buf_reset(text);
    for (size_t i = 0; i < ARRAY_LEN(FIGURES); i++) {
        int64_t by = metric_value(&http_metrics[FIGURES[i].metric], FIGURES[i].label) - before[i];
        if (by)
            buf_addf(text, "%s%+lld ", FIGURES[i].name, (long long)by);
    }
}

TEST(server_counts_each_connections_end) {
    static const struct {
        const char *sent;
        bool leaves; /* the client, once the request is there */
        const char *moved;
    } ROWS[] = {
        {"POST /echo HTTP/1.1\r\n" H "Connection: close\r\nContent-Length: 5\r\n\r\nhello", false,
         "accepted+1 2xx+1 "},
        {"GET /none HTTP/1.1\r\n" H "Connection: close\r\n\r\n", false, "accepted+1 4xx+1 "},
        {"GET / HTTP/1.1\r\n\r\n", false, "accepted+1 4xx+1 framing+1 "},
        {"GET / HTTP/1.1\r\n", false, "accepted+1 4xx+1 deadline+1 "},
        {"GET /cut HTTP/1.1\r\n" H "\r\n", false, "accepted+1 2xx+1 abort+1 "},
        {"GET /hold HTTP/1.1\r\n" H "\r\n", true, "accepted+1 client+1 "},
        {"GET /fields HTTP/1.1\r\n" H "Connection: close\r\n\r\n", false, "accepted+1 4xx+1 "},
    };
    BENCH();
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        int64_t before[ARRAY_LEN(FIGURES)], end_ms = clock_ms() + 10000;
        int64_t in_bytes = metric_value(&http_metrics[HTTP_METRIC_BYTES], 0),
                out_bytes = metric_value(&http_metrics[HTTP_METRIC_BYTES], 1);
        for (size_t k = 0; k < ARRAY_LEN(FIGURES); k++)
            before[k] = metric_value(&http_metrics[FIGURES[k].metric], FIGURES[k].label);
        int fd = wire_connect(b.port, 0), asked = b.request_count;
        buf_reset(&in);
        EXPECT(wire_send(fd, ROWS[i].sent));
        if (ROWS[i].leaves)
            EXPECT(wire_wait_for(&b.request_count, asked + 1));
        else
            EXPECT(wire_read_all(fd, &in));
        close(fd);
        do
            add_moved(before, &out);
        while (strcmp(buf_text(&out), ROWS[i].moved) && clock_ms() < end_ms);
        EXPECT_STR(buf_text(&out), ROWS[i].moved);
        EXPECT_EQ(metric_value(&http_metrics[HTTP_METRIC_BYTES], 0) - in_bytes,
                  strlen(ROWS[i].sent));
        EXPECT_EQ(metric_value(&http_metrics[HTTP_METRIC_BYTES], 1) - out_bytes, in.len);
    }
}

TEST(metrics_of_http_are_on_the_page_once_they_are_registered) {
    struct buf page = {0};
    metrics_write(&page);
    EXPECT(!strstr(buf_text(&page), "trireme_http_"));
    http_metrics_register();
    buf_reset(&page);
    metrics_write(&page);
    for (int i = 0; i < HTTP_METRIC_COUNT; i++)
        if (!strstr(buf_text(&page), http_metrics[i].name))
            check_fail(__FILE__, __LINE__, "%s is not there", http_metrics[i].name);
    buf_release(&page);
}
