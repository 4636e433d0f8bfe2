/*
 * top_view.h - what `trireme top` shows: a frame of text from two pages of metrics. Pure: no
 * terminal, no clock, no network.
 */
#ifndef CLI_TOP_VIEW_H
#define CLI_TOP_VIEW_H

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "cli/metrics_text.h"

struct top_input {
    const char *url;
    const struct metrics_text *page, *earlier; /* earlier NULL: the first frame has no rates */
    double seconds;                            /* between the two */
    double now;                                /* seconds since 1970, for the time it runs */
    /* The answer of /v1/models; NULL: not known. A model that is not in it and has no replica is
     * left out: gateways go on counting where those of an earlier serve ended. */
    const cJSON *listed;
};

/* Appends the frame: lines of at most `columns` characters (40 or more). */
void top_view(struct buf *out, const struct top_input *in, size_t columns);

#endif
