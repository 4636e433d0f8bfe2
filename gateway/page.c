#include "gateway/page.h"

static const uint8_t PAGE[] = {
#include "page_html.inc"
};

void page_respond(struct http_request *req) {
    static const struct http_field FIELDS[] = {
        {"Content-Security-Policy",
         "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
         "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
        {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "no-referrer"}};
    http_respond(req, 200, "text/html; charset=utf-8", FIELDS, ARRAY_LEN(FIELDS), bytes_of(PAGE, sizeof PAGE));
}
