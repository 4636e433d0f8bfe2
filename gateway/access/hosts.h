/*
 * hosts.h - by which names a server on the loopback may be called.
 *
 * A server that listens on the loopback serves programs of this machine, and so every page that a
 * browser on it has open: by a name of its own that resolves to 127.0.0.1 (DNS rebinding), or by a
 * plain form to localhost. Such a server takes requests for names of the loopback and for those of
 * --allow-hosts alone, and of an Origin alone that has such a name or is allowed by cors.h. One that
 * listens on other addresses checks neither, unless --allow-hosts says by which names.
 *
 * Threading: const after hosts_init.
 */
#ifndef GATEWAY_ACCESS_HOSTS_H
#define GATEWAY_ACCESS_HOSTS_H

#include "base/error.h"

enum { HOSTS_MAX = 256 };

struct hosts {
    char **names; /* owned */
    size_t count;
    bool checks;
};

/* listen: the address to listen on. list: names without ports, with commas between, or "*" to check
 * nothing; NULL or empty: none. 0, or ERR_INVALID or ERR_LIMIT with *err filled. */
MUST_CHECK int hosts_init(struct hosts *hosts, const char *listen, const char *list,
                          struct error *err);
/* Frees the names; a zeroed one is fine. */
void hosts_release(struct hosts *hosts);
/* May this server be called so? host: the value of the header, "name", "name:port", "[::1]:port". */
bool hosts_allow(const struct hosts *hosts, struct bytes host);
/* May a page of this origin ("scheme://host[:port]") call it? */
bool hosts_allow_origin(const struct hosts *hosts, struct bytes origin);

#endif
