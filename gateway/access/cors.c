#include "gateway/access/cors.h"

#include "base/list.h"

enum { NAMES_BYTES_MAX = 2048 };

/* ---- origins ---- */

/* scheme://host[:port], as a browser writes it: no path, no user, no spaces. */
static bool is_origin(struct bytes text) {
    size_t scheme = strspn((const char *)text.data, "abcdefghijklmnopqrstuvwxyz0123456789+.-");
    if (scheme == 0 || scheme + 3 >= text.len || memcmp(text.data + scheme, "://", 3) != 0)
        return false;
    for (size_t i = scheme + 3; i < text.len; i++)
        if (text.data[i] <= ' ' || text.data[i] >= 0x7f || strchr("/?#@\\\"'<>,", text.data[i]))
            return false;
    return true;
}

static int add_origin(struct cors *c, struct bytes text, struct error *err) {
    if (bytes_equal(text, bytes_str("*"))) {
        c->any = true;
        return 0;
    }
    if (!is_origin(text))
        return error_set(err, ERR_INVALID,
                         "'%.*s' is no origin: --allow-origins takes scheme://host[:port], with "
                         "commas between, or *",
                         (int)MIN(text.len, (size_t)200), (const char *)text.data);
    if (c->count == CORS_ORIGINS_MAX)
        return error_set(err, ERR_LIMIT, "--allow-origins has more than %d origins",
                         CORS_ORIGINS_MAX);
    c->origins = mem_realloc(c->origins, (c->count + 1) * sizeof *c->origins);
    c->origins[c->count++] = mem_strndup((const char *)text.data, text.len);
    return 0;
}

int cors_init(struct cors *c, const char *list, struct error *err) {
    *c = (struct cors){0};
    for (struct bytes item; list_next_trimmed(&list, ',', &item);)
        if (add_origin(c, item, err)) {
            cors_release(c);
            return err->code;
        }
    return 0;
}

void cors_release(struct cors *c) {
    for (size_t i = 0; i < c->count; i++)
        mem_free(c->origins[i]);
    mem_free(c->origins);
    *c = (struct cors){0};
}

/* What Access-Control-Allow-Origin says to a page of that origin; NULL: nothing. */
static const char *allowed(const struct cors *c, struct bytes origin) {
    if (!origin.len)
        return NULL;
    if (c->any)
        return "*";
    for (size_t i = 0; i < c->count; i++)
        if (bytes_equal(origin, bytes_str(c->origins[i])))
            return c->origins[i];
    return NULL;
}

bool cors_allows(const struct cors *c, struct bytes origin) {
    return allowed(c, origin) != NULL;
}

/* ---- fields ---- */

size_t cors_fields(const struct cors *c, const struct http_request *req,
                   struct http_field *fields) {
    size_t count = 0;
    const char *origin = allowed(c, http_request_header(req, "Origin"));
    if (c->count && !c->any) /* for caches between: another origin gets another response */
        fields[count++] = (struct http_field){"Vary", "Origin"};
    if (!origin)
        return count;
    fields[count++] = (struct http_field){"Access-Control-Allow-Origin", origin};
    fields[count++] =
        (struct http_field){"Access-Control-Expose-Headers", "X-Request-Id, Retry-After"};
    return count;
}

/* Names of fields, commas and spaces: nothing that could be anything else. */
static bool is_name_list(struct bytes list) {
    for (size_t i = 0; i < list.len; i++) {
        uint8_t c = list.data[i];
        bool alphanumeric =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!alphanumeric && (c == 0 || !strchr("-_, ", c)))
            return false;
    }
    return list.len <= NAMES_BYTES_MAX;
}

size_t cors_preflight_fields(const struct cors *c, const struct http_request *req,
                             const char *methods, struct buf *names, struct http_field *fields) {
    struct bytes asked = http_request_header(req, "Access-Control-Request-Headers");
    size_t count = 0;
    if (!allowed(c, http_request_header(req, "Origin")) ||
        !http_request_header(req, "Access-Control-Request-Method").len)
        return 0;
    fields[count++] = (struct http_field){"Access-Control-Allow-Methods", methods};
    fields[count++] = (struct http_field){"Access-Control-Max-Age", "600"};
    /* a page of the internet asks for a server of this network (Private Network Access) */
    if (bytes_equal(http_request_header(req, "Access-Control-Request-Private-Network"),
                    bytes_str("true")))
        fields[count++] = (struct http_field){"Access-Control-Allow-Private-Network", "true"};
    if (!asked.len || !is_name_list(asked))
        return count;
    buf_add_bytes(names, asked);
    fields[count++] = (struct http_field){"Access-Control-Allow-Headers", buf_text(names)};
    return count;
}
