/*
 * http_types.c - methods, status texts, comparison without case, lists, query strings.
 */
#include "http/http_types.h"

#include "base/utf8.h"

const char *http_method_text(enum http_method method) {
    static const char *const texts[HTTP_METHOD_COUNT] = {
        [HTTP_GET] = "GET",     [HTTP_HEAD] = "HEAD",     [HTTP_POST] = "POST",
        [HTTP_PUT] = "PUT",     [HTTP_DELETE] = "DELETE", [HTTP_OPTIONS] = "OPTIONS",
        [HTTP_PATCH] = "PATCH", [HTTP_QUERY] = "QUERY",
    };
    return texts[method];
}

const char *http_status_text(int status) {
    static const struct {
        int status;
        const char *text;
    } table[] = {
        {100, "Continue"},
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {206, "Partial Content"},
        {301, "Moved Permanently"},
        {302, "Found"},
        {304, "Not Modified"},
        {307, "Temporary Redirect"},
        {308, "Permanent Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {411, "Length Required"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {499, "Client Closed Request"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
        {529, "Overloaded"},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (table[i].status == status)
            return table[i].text;
    return "Unknown";
}

static uint8_t lower(uint8_t c) {
    return c >= 'A' && c <= 'Z' ? (uint8_t)(c + 32) : c;
}

bool http_name_equal(struct bytes name, const char *text) {
    size_t i = 0;
    for (; i < name.len; i++)
        if (!text[i] || lower(name.data[i]) != lower((uint8_t)text[i]))
            return false;
    return !text[i];
}

static bool is_blank(uint8_t c) {
    return c == ' ' || c == '\t';
}

bool http_list_has(struct bytes list, const char *token) {
    size_t at = 0;
    while (at < list.len) {
        size_t begin = at, end;
        while (at < list.len && list.data[at] != ',')
            at++;
        for (end = at; end > begin && is_blank(list.data[end - 1]);)
            end--;
        while (begin < end && is_blank(list.data[begin]))
            begin++;
        if (http_name_equal(bytes_of(list.data + begin, end - begin), token))
            return true;
        at++;
    }
    return false;
}

const struct http_header *http_header_find(const struct http_header *headers, size_t count,
                                           const char *name) {
    for (size_t i = 0; i < count; i++)
        if (http_name_equal(headers[i].name, name))
            return &headers[i];
    return NULL;
}

/* One decoded byte of a query at *at, or -1. */
static int query_byte(struct bytes s, size_t *at) {
    uint8_t c = s.data[(*at)++];
    int high, low;
    if (c == '+')
        return ' ';
    if (c != '%')
        return c;
    if (s.len - *at < 2)
        return -1;
    high = hex_value(s.data[*at]);
    low = hex_value(s.data[*at + 1]);
    *at += 2;
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static int query_unescape(struct bytes s, char *out, size_t out_size) {
    size_t len = 0;
    for (size_t at = 0; at < s.len;) {
        int c = query_byte(s, &at);
        if (c <= 0 || len + 1 >= out_size)
            return -1;
        out[len++] = (char)c;
    }
    if (!out_size)
        return -1;
    out[len] = 0;
    return (int)len;
}

int http_query_find(struct bytes query, const char *name, char *out, size_t out_size) {
    size_t at = 0, name_len = strlen(name);
    while (at < query.len) {
        size_t begin = at, end;
        while (at < query.len && query.data[at] != '&')
            at++;
        end = at++;
        if (end - begin < name_len || memcmp(query.data + begin, name, name_len) != 0)
            continue;
        if (end - begin == name_len)
            return query_unescape(bytes_of(query.data, 0), out, out_size);
        if (query.data[begin + name_len] != '=')
            continue;
        begin += name_len + 1;
        return query_unescape(bytes_of(query.data + begin, end - begin), out, out_size);
    }
    return -1;
}
