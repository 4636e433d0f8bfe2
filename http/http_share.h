/*
 * http_share.h - a bounded thing that strangers share: memory for bodies, connections.
 *
 * Who holds more than is still free gets no more (dynamic thresholds, A. K. Choudhury and E. L.
 * Hahne, 1998). One holder alone may have half, n that want all of it 1/(n+1) each. Nobody needs to
 * know how many there are. What is free shrinks with each of them, so the last of it is for those
 * that have nothing: whoever comes new finds some beside any number of holders that have some already.
 *
 * A holder is a number of a table; holders are hashed to it with a seed of the process. Two that
 * meet in one number share its part.
 *
 * Threading: any thread. Threads that take at the same moment may together pass the bound by what
 * one of them takes.
 */
#ifndef HTTP_HTTP_SHARE_H
#define HTTP_HTTP_SHARE_H

#include "base/base.h"

#include <stdatomic.h>

enum {
    HTTP_SHARE_HOLDERS = 4096,
    HTTP_SHARE_KEPT = 16, /* the last 1/16 */
    HTTP_SHARE_USED = HTTP_SHARE_KEPT - 1,
};

struct http_share {
    uint64_t max;
    atomic_ullong total; /* taken, whether held by somebody or not */
    atomic_ullong held[HTTP_SHARE_HOLDERS];
};

/* May this holder have so much more? Never past max. */
bool http_share_allows(struct http_share *share, uint32_t holder, uint64_t amount);
/* The same where what is held is in use, as by a proxy that all clients are behind: who holds more than
 * HTTP_SHARE_USED times what is free gets no more. One alone may have 15/16, n that want all of it
 * 15/(15n+1) each. */
bool http_share_allows_used(struct http_share *share, uint32_t holder);
/* Changes what is taken of the whole. */
void http_share_add_total(struct http_share *share, int64_t amount);
/* Changes what a holder has. */
void http_share_add_held(struct http_share *share, uint32_t holder, int64_t amount);

#endif
