/*
 * metrics_text.h - a page of Prometheus' text format (0.0.4), read: samples with their labels, and
 * figures over two pages of the same server.
 *
 * Made for our own pages, and safe with any other: lines that are no sample are passed over.
 */
#ifndef CLI_METRICS_TEXT_H
#define CLI_METRICS_TEXT_H

#include "base/base.h"
#include "base/vec.h"

struct metrics_sample {
    const char *name;
    const char *labels; /* between the braces, as on the page; "" without */
    double value;
};
struct metrics_text {
    char *text; /* owned; names and labels point into it */
    VEC(struct metrics_sample) samples;
};

/* Reads a copy of the page. The caller releases it. */
void metrics_text_init(struct metrics_text *page, struct bytes text);
/* Frees the copy; the page is empty then. */
void metrics_text_release(struct metrics_text *page);

/* Copies the value of a sample's label into out, unescaped; false: it has none, or it is longer. */
bool metrics_label(const struct metrics_sample *s, const char *label, char *out, size_t out_max);
/* The sum of the samples `name` whose label is value (label NULL: of all); 0 if there is none. */
double metrics_sum(const struct metrics_text *page, const char *name, const char *label,
                   const char *value);
/* The quantile 0 < q < 1 of what the histogram `name` observed between two pages, as Prometheus'
 * histogram_quantile interpolates it; NAN: nothing was observed. earlier NULL: since the start. */
double metrics_quantile(const struct metrics_text *page, const struct metrics_text *earlier,
                        const char *name, const char *label, const char *value, double q);

#endif
