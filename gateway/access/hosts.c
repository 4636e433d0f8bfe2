#include "gateway/access/hosts.h"

#include "base/list.h"

#include <arpa/inet.h>
#include <strings.h>

static bool is_text(struct bytes a, const char *text) {
    return a.len == strlen(text) && strncasecmp((const char *)a.data, text, a.len) == 0;
}

/* Nothing, or a colon with the digits of a port, perhaps none of them. */
static bool is_port(struct bytes text) {
    for (size_t i = 1; i < text.len; i++)
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
    return !text.len || text.data[0] == ':';
}

/* Without the port; the address in brackets without them. Empty: no name. */
static struct bytes name_of(struct bytes host) {
    if (!host.len)
        return host;
    bool in_brackets = host.data[0] == '[';
    size_t len = 0;
    while (len < host.len && host.data[len] != (in_brackets ? ']' : ':'))
        len++;
    if (in_brackets && len == host.len)
        return bytes_of(NULL, 0);
    size_t end = len + in_brackets;
    if (!is_port(bytes_of(host.data + end, host.len - end)))
        return bytes_of(NULL, 0);
    return in_brackets ? bytes_of(host.data + 1, len - 1) : bytes_of(host.data, len);
}

/* localhost, what browsers take for it (RFC 6761, 6.3), and addresses of the loopback. */
static bool is_loopback(struct bytes name) {
    static const char suffix[] = ".localhost";
    size_t suffix_len = sizeof suffix - 1;
    char text[INET6_ADDRSTRLEN];
    struct in_addr v4;
    struct in6_addr v6;
    if (is_text(name, "localhost"))
        return true;
    if (name.len > suffix_len &&
        is_text(bytes_of(name.data + name.len - suffix_len, suffix_len), suffix))
        return true;
    if (!name.len || name.len >= sizeof text)
        return false;
    memcpy(text, name.data, name.len);
    text[name.len] = 0;
    if (inet_pton(AF_INET, text, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, text, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

static int add_name(struct hosts *h, struct bytes name, struct error *err) {
    for (size_t i = 0; i < name.len; i++)
        if (name.data[i] <= ' ' || name.data[i] >= 0x7f || strchr("/@?#\"'<>", name.data[i]))
            return error_set(err, ERR_INVALID,
                             "'%.*s' is no name of a host: --allow-hosts takes names without "
                             "scheme and port, with commas between, or *",
                             (int)MIN(name.len, (size_t)200), (const char *)name.data);
    if (h->count == HOSTS_MAX)
        return error_set(err, ERR_LIMIT, "--allow-hosts has more than %d names", HOSTS_MAX);
    h->names = mem_realloc(h->names, (h->count + 1) * sizeof *h->names);
    h->names[h->count++] = mem_strndup((const char *)name.data, name.len);
    return 0;
}

int hosts_init(struct hosts *h, const char *listen, const char *list, struct error *err) {
    *h = (struct hosts){0};
    for (struct bytes item; list_next_trimmed(&list, ',', &item);)
        if (add_name(h, item, err)) {
            hosts_release(h);
            return err->code;
        }
    h->checks = h->count || is_loopback(bytes_str(listen));
    for (size_t i = 0; i < h->count; i++)
        h->checks = h->checks && strcmp(h->names[i], "*") != 0;
    return 0;
}

void hosts_release(struct hosts *h) {
    for (size_t i = 0; i < h->count; i++)
        mem_free(h->names[i]);
    mem_free(h->names);
    *h = (struct hosts){0};
}

bool hosts_allow(const struct hosts *h, struct bytes host) {
    struct bytes name = name_of(host);
    if (!h->checks || is_loopback(name))
        return true;
    for (size_t i = 0; i < h->count; i++)
        if (is_text(name, h->names[i]))
            return true;
    return false;
}

bool hosts_allow_origin(const struct hosts *h, struct bytes origin) {
    const char *at = origin.len ? memmem(origin.data, origin.len, "://", 3) : NULL;
    if (!h->checks)
        return true;
    if (!at)
        return false; /* "null", too: of a page that hides where it is from */
    const uint8_t *host = (const uint8_t *)at + 3;
    return hosts_allow(h, bytes_of(host, (size_t)(origin.data + origin.len - host)));
}
