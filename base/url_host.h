/*
 * url_host.h - a host as URLs and the field Host show it: an address of version 6 in brackets, so
 * that its colons are not taken for that of a port.
 *
 * Threading: pure.
 */
#ifndef BASE_URL_HOST_H
#define BASE_URL_HOST_H

#include <stdio.h>
#include <string.h>

enum { URL_HOST_MAX = 255 }; /* bytes of a name; longer ones are no names of the DNS */

struct url_host {
    char text[URL_HOST_MAX + 3];
};

/* host: a name or an address without brackets; what is longer than URL_HOST_MAX is cut off. */
static inline struct url_host url_host(const char *host) {
    struct url_host out;
    const char *form = strchr(host, ':') ? "[]" : "";
    snprintf(out.text, sizeof out.text, "%.1s%.*s%s", form, URL_HOST_MAX, host,
             *form ? form + 1 : "");
    return out;
}

#endif
