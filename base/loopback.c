#include "base/loopback.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

bool loopback_is_missing(const char *host, int error) {
    return (!strcmp(host, "127.0.0.1") || !strcmp(host, "localhost")) &&
           (error == EADDRNOTAVAIL || error == EAFNOSUPPORT || error == ENETUNREACH);
}

static int bind_family(int family, uint16_t port, struct sockaddr_storage *at, socklen_t *len) {
    const int one = 1;
    memset(at, 0, sizeof *at);
    if (family == AF_INET6) {
        struct sockaddr_in6 v6 = {
            .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
        memcpy(at, &v6, *len = sizeof v6);
    } else {
        struct sockaddr_in v4 = {.sin_family = AF_INET,
                                 .sin_port = htons(port),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        memcpy(at, &v4, *len = sizeof v4);
    }
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) &&
        !bind(fd, (struct sockaddr *)at, *len) && !getsockname(fd, (struct sockaddr *)at, len))
        return fd;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

int loopback_bind(uint16_t port, struct sockaddr_storage *at, socklen_t *len) {
    int fd = bind_family(AF_INET, port, at, len);
    if (fd < 0 && loopback_is_missing("127.0.0.1", errno)) {
        int saved = errno;
        fd = bind_family(AF_INET6, port, at, len);
        if (fd < 0 && errno != EADDRINUSE)
            errno = saved;
    }
    return fd;
}

uint16_t loopback_port(const struct sockaddr_storage *at) {
    /* both kinds have it at one place */
    struct sockaddr_in v4;
    memcpy(&v4, at, sizeof v4);
    return ntohs(v4.sin_port);
}

int loopback_free_port(uint16_t *port, struct error *err) {
    struct sockaddr_storage at;
    socklen_t len;
    int server = loopback_bind(0, &at, &len), rc = 0;
    int client = server < 0 ? -1 : socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (server < 0 || client < 0 || listen(server, 1))
        rc = error_set_errno(err, "no port for a server on 127.0.0.1");
    else if (connect(client, (struct sockaddr *)&at, len))
        rc = error_set_errno(err, "a server on 127.0.0.1 could not be reached; is the loopback "
                                  "interface up (ip link set lo up)?");
    if (server >= 0)
        close(server);
    if (client >= 0)
        close(client);
    *port = rc ? 0 : loopback_port(&at);
    return rc;
}
