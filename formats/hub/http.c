#include "formats/hub/http.h"

#include "base/clock.h"
#include "formats/json.h"

#ifdef TRIREME_HAVE_HUB

#include "formats/hub/libraries.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

struct hub_http {
    CURLM *multi;
    char *origin, *token;                  /* owned; token NULL: none */
    const char *certificates;              /* of the environment; NULL: the system's */
    const char *own_certificate, *own_key; /* NULL: none */
    long patience_s;
};

enum { MESSAGE_MAX = 16 << 10 };

struct hub_transfer {
    struct hub_http *http;
    CURL *easy;
    struct curl_slist *headers;
    char *url; /* owned: where redirects have led */
    unsigned redirects;
    size_t header_bytes;
    bool stopped;       /* the taker did not want more */
    struct buf message; /* the beginning of a body that is no file */
    char text[CURL_ERROR_SIZE];
};

int hub_http_new(struct hub_http **out, const char *origin, const char *token, long patience_s,
                 struct error *err) {
    int rc = hub_libraries_open(err);
    *out = NULL;
    if (rc)
        return rc;
    struct hub_http *http = mem_alloc(sizeof *http);
    *http = (struct hub_http){.multi = curl_multi_init(),
                              .origin = mem_strdup(origin),
                              .token = token ? mem_strdup(token) : NULL,
                              .patience_s = patience_s};
    CHECK(http->multi);
    http->certificates = getenv("SSL_CERT_FILE");
    if (!http->certificates)
        http->certificates = getenv("CURL_CA_BUNDLE");
    *out = http;
    return 0;
}

void hub_http_trust(struct hub_http *http, const char *certificates) {
    http->certificates = certificates;
}

void hub_http_identify(struct hub_http *http, const char *certificate, const char *key) {
    http->own_certificate = certificate;
    http->own_key = key;
}

void hub_http_free(struct hub_http **http) {
    if (!*http)
        return;
    curl_multi_cleanup((*http)->multi);
    mem_free((*http)->origin);
    mem_free((*http)->token);
    mem_free(*http);
    *http = NULL;
}

/* ---- where a URL leads ---- */

/* A segment of a URL; the caller frees it with curl_free. */
static char *url_get(const char *url, CURLUPart what) {
    CURLU *u = curl_url();
    char *text = NULL;
    if (!u || curl_url_set(u, CURLUPART_URL, url, 0) ||
        curl_url_get(u, what, &text, CURLU_DEFAULT_PORT))
        text = NULL;
    curl_url_cleanup(u);
    return text;
}

static bool same_segment(const char *a, const char *b, CURLUPart what) {
    char *x = url_get(a, what), *y = url_get(b, what);
    bool same = x && y && !strcasecmp(x, y);
    curl_free(x);
    curl_free(y);
    return same;
}

bool hub_url_same_origin(const char *a, const char *b) {
    return same_segment(a, b, CURLUPART_SCHEME) && same_segment(a, b, CURLUPART_HOST) &&
           same_segment(a, b, CURLUPART_PORT);
}

static bool has_scheme(const char *url, const char *scheme) {
    char *text = url_get(url, CURLUPART_SCHEME);
    bool same = text && !strcasecmp(text, scheme);
    curl_free(text);
    return same;
}

/* ---- what comes ---- */

static bool is_body(long status) {
    return status == 200 || status == 201 || status == 206;
}

static size_t on_body(char *data, size_t size, size_t count, void *ctx) {
    struct hub_request *r = ctx;
    struct hub_transfer *t = r->transfer;
    size_t len = size * count;
    if (!r->status)
        curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &r->status);
    if (is_body(r->status)) {
        t->stopped = !r->take_body(r->ctx, r, (const uint8_t *)data, len);
        return t->stopped ? 0 : len;
    }
    buf_add(&t->message, data, MIN(len, MESSAGE_MAX - t->message.len));
    return t->message.len < MESSAGE_MAX ? len : 0; /* nobody reads more of an error */
}

/* The value of a header, when the line has that name; NULL: it has not. Cut to max - 1 bytes. */
static const char *value_of(const char *line, size_t len, const char *name, char *out, size_t max) {
    size_t at = strlen(name);
    if (len <= at || strncasecmp(line, name, at) || line[at] != ':')
        return NULL;
    for (at++; at < len && (line[at] == ' ' || line[at] == '\t');)
        at++;
    while (len > at && (unsigned char)line[len - 1] <= ' ')
        len--;
    snprintf(out, max, "%.*s", (int)(len - at), line + at);
    for (char *c = out; *c; c++) /* it may be shown on a terminal */
        *c = (unsigned char)*c < 0x20 || *c == 0x7f ? ' ' : *c;
    return out;
}

/* "bytes FIRST-LAST/TOTAL" */
static void read_content_range(struct hub_request *r, const char *text) {
    char *end;
    if (strncasecmp(text, "bytes ", 6))
        return;
    long long first = strtoll(text + 6, &end, 10);
    if (end == text + 6 || *end != '-')
        return;
    const char *slash = strchr(end, '/');
    if (!slash || slash[1] < '0' || slash[1] > '9')
        return;
    r->range_first = first;
    r->range_total = strtoll(slash + 1, &end, 10);
}

/* <URL>; rel="next" */
static void read_link(struct hub_request *r, const char *text) {
    const char *end = *text == '<' ? strchr(text, '>') : NULL;
    if (end && strstr(end, "rel=\"next\""))
        snprintf(r->next, sizeof r->next, "%.*s", (int)(end - text - 1), text + 1);
}

static void clear_answer(struct hub_request *r) {
    r->status = 0;
    r->range_first = r->range_total = r->retry_after_s = -1;
    r->code[0] = r->next[0] = 0;
    buf_reset(&r->transfer->message);
}

static size_t on_header(char *line, size_t size, size_t count, void *ctx) {
    struct hub_request *r = ctx;
    size_t len = size * count;
    char value[sizeof r->next + 64];
    r->transfer->header_bytes += len;
    if (r->transfer->header_bytes > HUB_HEADERS_MAX)
        return 0;
    if (len > 5 && !strncasecmp(line, "HTTP/", 5))
        clear_answer(r); /* of a proxy, or 100 Continue: the one that counts comes after it */
    if (value_of(line, len, "Content-Range", value, sizeof value))
        read_content_range(r, value);
    else if (value_of(line, len, "Link", value, sizeof value))
        read_link(r, value);
    else if (value_of(line, len, "X-Error-Code", value, sizeof value))
        snprintf(r->code, sizeof r->code, "%.60s", value);
    else if (value_of(line, len, "Retry-After", value, sizeof value) && *value >= '0' &&
             *value <= '9')
        r->retry_after_s = strtol(value, NULL, 10);
    return len;
}

/* ---- one transfer ---- */

static void set_headers(struct hub_request *r) {
    struct hub_transfer *t = r->transfer;
    struct buf line;
    buf_init(&line, 0);
    curl_slist_free_all(t->headers);
    t->headers = NULL;
    if (r->post.len)
        t->headers = curl_slist_append(t->headers, "Content-Type: application/json");
    if (r->accept) {
        buf_addf(&line, "Accept: %s", r->accept);
        t->headers = curl_slist_append(t->headers, buf_text(&line));
    }
    if (r->authorization && hub_url_same_origin(t->url, r->url)) {
        buf_reset(&line);
        buf_addf(&line, "Authorization: %s", r->authorization);
        t->headers = curl_slist_append(t->headers, buf_text(&line));
    } else if (t->http->token && hub_url_same_origin(t->url, t->http->origin)) {
        buf_reset(&line);
        buf_addf(&line, "Authorization: Bearer %s", t->http->token);
        t->headers = curl_slist_append(t->headers, buf_text(&line));
    }
    buf_release(&line);
}

static void set_options(struct hub_request *r) {
    struct hub_transfer *t = r->transfer;
    CURL *c = t->easy;
    char range[64];
    curl_easy_reset(c);
    set_headers(r);
    curl_easy_setopt(c, CURLOPT_URL, t->url);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L); /* we look first */
    curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    if (t->http->certificates)
        curl_easy_setopt(c, CURLOPT_CAINFO, t->http->certificates);
    if (t->http->own_certificate)
        curl_easy_setopt(c, CURLOPT_SSLCERT, t->http->own_certificate);
    if (t->http->own_key)
        curl_easy_setopt(c, CURLOPT_SSLKEY, t->http->own_key);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "trireme/" TRIREME_VERSION);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, t->headers);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, t->http->patience_s);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, t->http->patience_s);
    curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, r->limit_ms);
    curl_easy_setopt(c, CURLOPT_BUFFERSIZE, 256L << 10);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, r);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, r);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, t->text);
    curl_easy_setopt(c, CURLOPT_PRIVATE, r);
    if (r->post.len) {
        curl_easy_setopt(c, CURLOPT_POSTFIELDS, r->post.data);
        curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE, (long)r->post.len);
    }
    if (r->method && strcmp(r->method, r->post.len ? "POST" : "GET"))
        curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, r->method);
    if (r->is_range) {
        snprintf(range, sizeof range, "%llu-%llu", (unsigned long long)r->first,
                 (unsigned long long)r->end - 1);
        curl_easy_setopt(c, CURLOPT_RANGE, range);
    }
    t->text[0] = 0;
    t->header_bytes = 0;
    clear_answer(r);
}

static void add_transfer(struct hub_request *r) {
    set_options(r);
    CHECK(curl_multi_add_handle(r->transfer->http->multi, r->transfer->easy) == CURLM_OK);
}

void hub_http_start(struct hub_http *http, struct hub_request *r) {
    struct hub_transfer *t = mem_alloc(sizeof *t);
    CHECK(!r->transfer && r->take_body && (!r->is_range || r->end > r->first));
    *t = (struct hub_transfer){.http = http, .easy = curl_easy_init(), .url = mem_strdup(r->url)};
    CHECK(t->easy);
    buf_init(&t->message, MESSAGE_MAX);
    r->transfer = t;
    add_transfer(r);
}

static void end_transfer(struct hub_request *r) {
    struct hub_transfer *t = r->transfer;
    curl_multi_remove_handle(t->http->multi, t->easy);
    curl_easy_cleanup(t->easy);
    curl_slist_free_all(t->headers);
    buf_release(&t->message);
    mem_free(t->url);
    mem_free(t);
    r->transfer = NULL;
}

void hub_http_cancel(struct hub_http *http, struct hub_request *r) {
    if (r->transfer)
        end_transfer(r);
}

/* ---- how it ended ---- */

static int finish(struct hub_request *r, enum hub_outcome outcome, int code, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
static int finish(struct hub_request *r, enum hub_outcome outcome, int code, const char *fmt, ...) {
    va_list args;
    char text[ERROR_TEXT_MAX];
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    r->outcome = outcome;
    return error_set(&r->why, code, "%s", text);
}

/* True: the request runs on, where the redirect led it. */
static bool follow_redirect(struct hub_request *r) {
    struct hub_transfer *t = r->transfer;
    char *to = NULL;
    curl_easy_getinfo(t->easy, CURLINFO_REDIRECT_URL, &to);
    if (!to || ++t->redirects > HUB_REDIRECTS_MAX) {
        finish(r, HUB_REFUSED, ERR_INVALID,
               to ? "'%.200s' is redirected more than %d times"
                  : "'%.200s' is redirected to nowhere (%d)",
               r->url, HUB_REDIRECTS_MAX);
        return false;
    }
    bool secure = has_scheme(to, "https");
    if (!secure && !(has_scheme(to, "http") && has_scheme(t->url, "http"))) {
        finish(r, HUB_REFUSED, ERR_INVALID,
               has_scheme(to, "http") ? "'%.150s' is redirected from https to http: '%.150s'"
                                      : "'%.150s' is redirected to another protocol: '%.150s'",
               r->url, to);
        return false;
    }
    char *url = mem_strdup(to);
    curl_multi_remove_handle(t->http->multi, t->easy);
    mem_free(t->url);
    t->url = url;
    add_transfer(r);
    return true;
}

static bool may_pass(CURLcode rc) {
    static const CURLcode CODES[] = {CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_CONNECT,
                                     CURLE_OPERATION_TIMEDOUT,   CURLE_RECV_ERROR,
                                     CURLE_SEND_ERROR,           CURLE_GOT_NOTHING,
                                     CURLE_PARTIAL_FILE,         CURLE_SSL_CONNECT_ERROR};
    for (size_t i = 0; i < ARRAY_LEN(CODES); i++)
        if (rc == CODES[i])
            return true;
    return false;
}

static bool is_redirect(long status) {
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* What went wrong below HTTP. */
static void finish_broken(struct hub_request *r, CURLcode rc) {
    struct hub_transfer *t = r->transfer;
    const char *text = t->text[0] ? t->text : curl_easy_strerror(rc);
    if (t->stopped)
        finish(r, HUB_REJECTED, ERR_INVALID, "the answer of '%.200s' is not what was asked for",
               r->url);
    else if (t->header_bytes > HUB_HEADERS_MAX)
        finish(r, HUB_REFUSED, ERR_LIMIT, "the headers of '%.200s' are longer than %d bytes",
               r->url, HUB_HEADERS_MAX);
    else
        finish(r, may_pass(rc) ? HUB_LATER : HUB_REFUSED, ERR_CLOSED, "'%.200s': %s", r->url, text);
}

/* {"error": "..."} of a body, for people. */
static void add_message(const struct hub_transfer *t, struct buf *out) {
    struct json_reader reader;
    struct bytes text;
    json_reader_init(&reader, buf_bytes(&t->message), 0, 0);
    bool good = json_expect(&reader, JSON_OBJECT_BEGIN);
    while (good && json_next(&reader) == JSON_KEY) {
        if (!bytes_equal(reader.text, bytes_str("error"))) {
            good = json_skip(&reader);
            continue;
        }
        good = json_read_string(&reader, &text);
        if (good)
            buf_addf(out, ": %.*s", (int)MIN(text.len, 200u), text.data);
    }
    json_reader_release(&reader);
}

static void finish_status(struct hub_request *r) {
    static const long LATER[] = {408, 425, 429, 500, 502, 503, 504};
    struct buf message;
    bool later = false;
    buf_init(&message, 0);
    for (size_t i = 0; i < ARRAY_LEN(LATER); i++)
        later = later || r->status == LATER[i];
    add_message(r->transfer, &message);
    finish(r, later ? HUB_LATER : HUB_REFUSED, r->status == 404 ? ERR_NOT_FOUND : ERR_CLOSED,
           "'%.200s' answers %ld%s", r->url, r->status, buf_text(&message));
    buf_release(&message);
}

/* False: it runs on. */
static bool finish_transfer(struct hub_request *r, CURLcode rc) {
    curl_easy_getinfo(r->transfer->easy, CURLINFO_RESPONSE_CODE, &r->status);
    bool cut_message = rc == CURLE_WRITE_ERROR && !r->transfer->stopped && !is_body(r->status);
    if (is_redirect(r->status) && (!rc || cut_message)) {
        if (follow_redirect(r))
            return false;
    } else if (rc && !(cut_message && r->transfer->header_bytes <= HUB_HEADERS_MAX)) {
        finish_broken(r, rc);
    } else if (is_body(r->status)) {
        r->outcome = HUB_OK;
    } else {
        finish_status(r);
    }
    return true;
}

struct hub_request *hub_http_wait(struct hub_http *http, int wait_ms) {
    int running, left;
    for (int64_t end_ms = clock_ms() + wait_ms;;) {
        CHECK(curl_multi_perform(http->multi, &running) == CURLM_OK);
        for (CURLMsg *m; (m = curl_multi_info_read(http->multi, &left));) {
            struct hub_request *r;
            CURLcode rc = m->data.result;
            curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&r);
            if (!finish_transfer(r, rc))
                continue;
            end_transfer(r);
            return r;
        }
        int64_t left_ms = end_ms - clock_ms();
        if (left_ms <= 0)
            return NULL;
        curl_multi_poll(http->multi, NULL, 0, (int)MIN(left_ms, 200), NULL);
    }
}

#else

int hub_http_new(struct hub_http **out, const char *origin, const char *token, long patience_s,
                 struct error *err) {
    *out = NULL;
    return error_set(
        err, ERR_UNSUPPORTED,
        "this build cannot download: it was made without libcurl and OpenSSL (Debian's "
        "libcurl4-openssl-dev and libssl-dev)");
}

void hub_http_trust(struct hub_http *http, const char *certificates) {
    CHECK(!http);
}

void hub_http_identify(struct hub_http *http, const char *certificate, const char *key) {
    CHECK(!http);
}

void hub_http_free(struct hub_http **http) {
    CHECK(!*http);
}

void hub_http_start(struct hub_http *http, struct hub_request *r) {
    CHECK(!http);
}

void hub_http_cancel(struct hub_http *http, struct hub_request *r) {
    CHECK(!http);
}

struct hub_request *hub_http_wait(struct hub_http *http, int wait_ms) {
    CHECK(!http);
    return NULL;
}

bool hub_url_same_origin(const char *a, const char *b) {
    return !strcmp(a, b);
}

#endif
