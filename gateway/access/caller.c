#include "gateway/access/caller.h"

#include <strings.h>

int caller_check(const struct gateway *gw, const struct http_request *req, struct api_error *err) {
    struct bytes host = http_request_header(req, "Host"),
                 origin = http_request_header(req, "Origin");
    if (host.len && !hosts_allow(&gw->hosts, host))
        return api_error_set(err, API_FORBIDDEN, NULL,
                             "this server is not called '%.*s'; see --allow-hosts",
                             (int)MIN(host.len, (size_t)100), (const char *)host.data);
    if (origin.len && !hosts_allow_origin(&gw->hosts, origin) && !cors_allows(&gw->cors, origin))
        return api_error_set(err, API_FORBIDDEN, NULL,
                             "pages of '%.*s' may not use this server; see --allow-origins",
                             (int)MIN(origin.len, (size_t)100), (const char *)origin.data);
    return 0;
}

int caller_check_media_type(const struct http_request *req, struct api_error *err) {
    static const char json[] = "application/json";
    struct bytes type = http_request_header(req, "Content-Type");
    size_t len = sizeof json - 1;
    if (!http_request_header(req, "Origin").len && !http_request_header(req, "Sec-Fetch-Site").len)
        return 0;
    bool same = type.len >= len && strncasecmp((const char *)type.data, json, len) == 0;
    if (same && (type.len == len || strchr("; \t", type.data[len])))
        return 0;
    return api_error_set(err, API_MEDIA_TYPE, NULL, "the body must be JSON: 'Content-Type: %s'",
                         json);
}

int caller_check_coding(const struct http_request *req, struct api_error *err) {
    struct bytes coding = http_request_header(req, "Content-Encoding");
    if (!coding.len || http_name_equal(coding, "identity"))
        return 0;
    return api_error_set(err, API_MEDIA_TYPE, NULL,
                         "a body with 'Content-Encoding: %.*s' is not read; send it as it is",
                         (int)MIN(coding.len, (size_t)40), (const char *)coding.data);
}
