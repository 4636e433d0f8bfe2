#include "gateway/page/page.h"

#include <stdio.h>
#include <strings.h>

struct page_file {
    const char *name, *tag; /* the tag in its quotes */
    const uint8_t *data;
    size_t len;
    const uint8_t *packed; /* gzip; NULL: not worth it */
    size_t packed_len;
};

#include "page_files.inc"

#define POLICY                                                                                      \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " \
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "                                 \
    "require-trusted-types-for 'script'; trusted-types dompurify"

static const struct page_file *find_file(struct bytes name) {
    if (name.len == 0)
        name = bytes_str("index.html");
    for (size_t i = 0; i < ARRAY_LEN(FILES); i++)
        if (bytes_equal(bytes_str(FILES[i].name), name))
            return &FILES[i];
    return NULL;
}

static const char *type_of(const char *name) {
    static const struct {
        const char *suffix, *type;
    } TYPES[] = {{".html", "text/html; charset=utf-8"},
                 {".js", "text/javascript; charset=utf-8"},
                 {".css", "text/css; charset=utf-8"},
                 {".svg", "image/svg+xml"},
                 {".txt", "text/plain; charset=utf-8"}};
    const char *suffix = strrchr(name, '.');
    for (size_t i = 0; suffix && i < ARRAY_LEN(TYPES); i++)
        if (strcmp(suffix, TYPES[i].suffix) == 0)
            return TYPES[i].type;
    CHECK_MSG(false, "a file of the page has no type");
    return NULL;
}

static bool is_space(uint8_t c) {
    return c == ' ' || c == '\t';
}

static struct bytes trim(struct bytes text) {
    while (text.len && is_space(text.data[0]))
        text = bytes_of(text.data + 1, text.len - 1);
    while (text.len && is_space(text.data[text.len - 1]))
        text.len--;
    return text;
}

/* Cuts off what stands before the separator, trimmed; the whole rest when there is none. */
static struct bytes next_item(struct bytes *rest, char separator) {
    const uint8_t *end = memchr(rest->data, separator, rest->len);
    size_t len = end ? (size_t)(end - rest->data) : rest->len;
    struct bytes item = bytes_of(rest->data, len);
    size_t taken = end ? len + 1 : len;
    *rest = bytes_of(rest->data + taken, rest->len - taken);
    return trim(item);
}

static bool equals_caseless(struct bytes text, const char *word) {
    return text.len == strlen(word) && strncasecmp((const char *)text.data, word, text.len) == 0;
}

/* "q=0", "q=0.", "q=0.000": not at all. */
static bool is_refusal(struct bytes parameters) {
    while (parameters.len) {
        struct bytes one = next_item(&parameters, ';');
        struct bytes name = next_item(&one, '=');
        if (!equals_caseless(name, "q"))
            continue;
        size_t zeros = 0;
        while (zeros < one.len && (one.data[zeros] == '0' || one.data[zeros] == '.'))
            zeros++;
        return one.len > 0 && zeros == one.len;
    }
    return false;
}

bool page_takes_gzip(struct bytes accept) {
    bool any = false;
    while (accept.len) {
        struct bytes item = next_item(&accept, ',');
        struct bytes coding = next_item(&item, ';');
        if (equals_caseless(coding, "gzip"))
            return !is_refusal(item);
        if (equals_caseless(coding, "*"))
            any = !is_refusal(item);
    }
    return any;
}

bool page_has_tag(struct bytes header, const char *tag) {
    while (header.len) {
        struct bytes item = next_item(&header, ',');
        if (item.len > 2 && item.data[0] == 'W' && item.data[1] == '/')
            item = bytes_of(item.data + 2, item.len - 2);
        if (bytes_equal(item, bytes_str(tag)) || bytes_equal(item, bytes_str("*")))
            return true;
    }
    return false;
}

bool page_respond(struct http_request *req, struct bytes name) {
    const struct page_file *file = find_file(name);
    if (!file)
        return false;
    bool packed = file->packed && page_takes_gzip(http_request_header(req, "Accept-Encoding"));
    char tag[48]; /* what is compressed is another representation */
    snprintf(tag, sizeof tag, "%.*s%s\"", (int)strlen(file->tag) - 1, file->tag,
             packed ? "-z" : "");
    const struct http_field fields[] = {
        {"Content-Security-Policy", POLICY}, {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "no-referrer"},  {"Cache-Control", "no-cache"},
        {"Vary", "Accept-Encoding"},         {"ETag", tag},
        {"Content-Encoding", "gzip"}};
    size_t field_count = packed ? ARRAY_LEN(fields) : ARRAY_LEN(fields) - 1;
    if (page_has_tag(http_request_header(req, "If-None-Match"), tag))
        http_respond(req, 304, NULL, fields, field_count, bytes_of(NULL, 0));
    else
        http_respond(req, 200, type_of(file->name), fields, field_count,
                     packed ? bytes_of(file->packed, file->packed_len)
                            : bytes_of(file->data, file->len));
    return true;
}
