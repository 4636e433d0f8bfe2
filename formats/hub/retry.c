/* retry.c - the calls of http.h that need no libcurl: when to try again, and small answers. */
#include "base/clock.h"
#include "base/hash.h"
#include "formats/hub/http.h"

#include <stdio.h>
#include <stdlib.h>

enum { FIRST_WAIT_MS = 500, WAIT_MAX_S = 300, SMALL_ANSWER_MS = 120000, SILENT_MAX = 3 };

/* Tests need not wait as long as servers under load do. */
static int64_t first_wait_ms(void) {
    const char *text = getenv("TRIREME_HUB_RETRY_MS");
    long ms = text ? strtol(text, NULL, 10) : 0;
    return ms > 0 && ms <= 60000 ? ms : FIRST_WAIT_MS;
}

int hub_retry_later(struct hub_retry *retry, const struct hub_request *r) {
    if (r->outcome != HUB_LATER || r->retry_after_s > WAIT_MAX_S ||
        ++retry->attempts >= HUB_ATTEMPTS_MAX)
        return ERR_CLOSED;
    uint8_t chance;
    random_bytes(&chance, 1);
    int64_t wait_ms = first_wait_ms() << (retry->attempts - 1);
    wait_ms += wait_ms * chance / 512; /* so that many clients do not come back at once */
    retry->at_ms = clock_ms() + MAX(wait_ms, r->retry_after_s * 1000);
    return 0;
}

static bool take_small(void *ctx, const struct hub_request *r, const uint8_t *data, size_t len) {
    struct buf *body = ctx;
    buf_add(body, data, len);
    return !body->failed;
}

int hub_http_get(struct hub_http *http, const char *url, const char *accept, size_t limit,
                 struct buf *body, struct hub_request *last, struct error *err) {
    struct hub_retry retry = {.attempts = 0};
    struct hub_request r;
    int silent = 0;
    buf_release(body); /* what it has room for by an earlier answer counts too */
    body->limit = limit;
    for (;;) {
        buf_reset(body);
        r = (struct hub_request){.url = url,
                                 .accept = accept,
                                 .take_body = take_small,
                                 .ctx = body,
                                 .limit_ms = SMALL_ANSWER_MS};
        hub_http_start(http, &r);
        while (hub_http_wait(http, 1000) != &r) {}
        silent = r.status ? 0 : silent + 1; /* nobody is there: a person waits for this answer */
        if (silent == SILENT_MAX || hub_retry_later(&retry, &r))
            break;
        sleep_ms(retry.at_ms - clock_ms());
    }
    if (last)
        *last = r;
    if (r.outcome == HUB_OK)
        return 0;
    if (r.outcome == HUB_REJECTED)
        return error_set(err, ERR_LIMIT, "the answer of '%.200s' is larger than %zu bytes", url,
                         limit);
    return error_set(err, r.outcome == HUB_LATER ? ERR_AGAIN : r.why.code, "%s", r.why.text);
}

void hub_url_add(const char *text, bool slashes, struct buf *out) {
    static const char PLAIN[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    for (const char *c = text; *c; c++) {
        if (strchr(PLAIN, *c) || (slashes && *c == '/'))
            buf_add_byte(out, *c);
        else
            buf_addf(out, "%%%02X", (unsigned char)*c);
    }
}
