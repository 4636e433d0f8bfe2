/*
 * http.h - requests to a hub, several at a time, by libcurl. Hosts are not trusted:
 *
 *   (1) only http and https; a redirect never leads from https to http, and HUB_REDIRECTS_MAX end
 *       a chain;
 *   (2) the token goes to the origin (scheme, host, port) it was given for and to no other, also
 *       behind redirects and proxies;
 *   (3) every byte of an answer is counted: headers against HUB_HEADERS_MAX, a body against what
 *       its taker allows; no answer is unpacked;
 *   (4) a connection without a byte for patience_s is cut, and that is a failure like any other.
 *
 * Proxies are libcurl's: http_proxy, https_proxy, all_proxy, no_proxy. Certificates are checked
 * against the system's, or those of the file that SSL_CERT_FILE or CURL_CA_BUNDLE names.
 *
 * Threading: one thread for each struct hub_http.
 */
#ifndef FORMATS_HUB_HTTP_H
#define FORMATS_HUB_HTTP_H

#include "base/buf.h"
#include "base/error.h"
#include "formats/hub/places.h"

enum { HUB_REDIRECTS_MAX = 8, HUB_HEADERS_MAX = 128 << 10, HUB_CONNECTIONS_MAX = 32 };

struct hub_http;
/* Sends the token to the origin of `origin` (NULL token: to nobody). origin, token and agent are
 * copied. ERR_UNSUPPORTED: this build has no libcurl. */
MUST_CHECK int hub_http_new(struct hub_http **out, const char *origin, const char *token,
                            long patience_s, struct error *err);
/* Certificates are checked against this file's instead of the system's; borrowed. */
void hub_http_trust(struct hub_http *http, const char *certificates);
/* Who we are to servers that ask for a certificate: files in PEM; borrowed. */
void hub_http_identify(struct hub_http *http, const char *certificate, const char *key);
/* No request may run. */
void hub_http_free(struct hub_http **http);

enum hub_outcome {
    HUB_OK,       /* 200, 206 to a range, or 201 to something new */
    HUB_LATER,    /* may pass by itself: cut, silent, 408, 429, 5xx */
    HUB_REFUSED,  /* it will not: another status, a bad redirect, a certificate */
    HUB_REJECTED, /* the taker did not want the body */
};

/* One request; zeroed, then the first fields set. It must not move while it runs. */
struct hub_request {
    const char *url;    /* borrowed while it runs */
    const char *accept; /* a value for Accept, or NULL */
    /* a value for Authorization that the token's does not stand for, or NULL; to the url's origin alone */
    const char *authorization;
    struct bytes post;  /* JSON that is sent by POST, borrowed while it runs; empty: GET */
    const char *method; /* another one for it: "PUT"; NULL: as `post` says */
    bool is_range;      /* asks for bytes [first, end) */
    uint64_t first, end;
    /* Takes body bytes of a 200, 201 or 206, in order; false: no more of it. */
    bool (*take_body)(void *ctx, const struct hub_request *r, const uint8_t *data, size_t len);
    void *ctx;
    long limit_ms; /* for the whole answer; 0: none */

    /* what came; status and range_first before the first byte of the body */
    enum hub_outcome outcome;
    long status;           /* 0: none came */
    int64_t range_first;   /* of Content-Range; -1: none, or a broken one */
    int64_t range_total;   /* likewise */
    int64_t retry_after_s; /* of Retry-After; -1: none */
    char code[64];         /* X-Error-Code: "GatedRepo", ... */
    char next[1024];       /* Link: the next page, or "" */
    struct error why;      /* unless HUB_OK */

    struct hub_transfer *transfer; /* ours */
};

/* Begins; hub_http_wait returns it when it has ended, whatever the end. */
void hub_http_start(struct hub_http *http, struct hub_request *r);
/* Ends it before its end; it is not returned any more. */
void hub_http_cancel(struct hub_http *http, struct hub_request *r);
/* Lets requests run until one has ended (returned), or for wait_ms (NULL). */
struct hub_request *hub_http_wait(struct hub_http *http, int wait_ms);

/* When what failed is tried again: first soon, then after twice the time, at most `attempts_max`
 * times one after the other. */
struct hub_retry {
    int attempts;
    int64_t at_ms; /* of the clock */
};
enum { HUB_ATTEMPTS_MAX = 6 };
/* Counts a failure. 0: wait until at_ms; else r->why is the end. */
MUST_CHECK int hub_retry_later(struct hub_retry *retry, const struct hub_request *r);

/* GETs a small answer (at most limit bytes) into body, tried again where that may help. *last (may
 * be NULL) gets the request as it ended, so that the caller can say what a status means. */
MUST_CHECK int hub_http_get(struct hub_http *http, const char *url, const char *accept,
                            size_t limit, struct buf *body, struct hub_request *last,
                            struct error *err);

/* Appends text with everything but letters, digits and "-._~" (and '/', where slashes) as %XX. */
void hub_url_add(const char *text, bool slashes, struct buf *out);
/* True when both have the same scheme, host and port. */
bool hub_url_same_origin(const char *a, const char *b);

#endif
