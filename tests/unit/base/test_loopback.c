/* The machine's own address, where it is of version 4 and where there is none of that. */
#include "base/loopback.h"
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(loopback_is_missing_where_the_system_says_so) {
    EXPECT(loopback_is_missing("127.0.0.1", EADDRNOTAVAIL));
    EXPECT(loopback_is_missing("127.0.0.1", EAFNOSUPPORT));
    EXPECT(loopback_is_missing("localhost", ENETUNREACH));
    EXPECT(!loopback_is_missing("127.0.0.1", EADDRINUSE));
    EXPECT(!loopback_is_missing("127.0.0.1", ECONNREFUSED));
    EXPECT(!loopback_is_missing("10.0.0.1", EADDRNOTAVAIL));
    EXPECT(!loopback_is_missing("::1", EADDRNOTAVAIL));
}

/* Binds a free port and that one again: 0, or a number that says what went wrong. */
static int try_ports(int family) {
    struct sockaddr_storage at;
    socklen_t len;
    int fd = loopback_bind(0, &at, &len), again;
    if (fd < 0 || at.ss_family != family || !loopback_port(&at) || listen(fd, 1))
        return 1;
    int client = socket(family, SOCK_STREAM, 0);
    if (client < 0 || connect(client, (struct sockaddr *)&at, len))
        return 2;
    close(client);
    again = loopback_bind(loopback_port(&at), &at, &len);
    if (again >= 0 || errno != EADDRINUSE)
        return 3;
    close(fd);
    return 0;
}

TEST(loopback_binds_version_4_where_there_is_one) {
    EXPECT_EQ(try_ports(AF_INET), 0);
}

TEST(loopback_free_port_can_be_bound) {
    struct sockaddr_storage at;
    socklen_t len;
    uint16_t port;
    struct error err;
    EXPECT_EQ(loopback_free_port(&port, &err), 0);
    EXPECT(port);
    int fd = loopback_bind(port, &at, &len);
    EXPECT(fd >= 0);
    close(fd);
}

enum { NO_NAMESPACES = 77 };
/* In a namespace whose loopback is down. */
static int while_down(void) {
    uint16_t port;
    struct error err;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET))
        return NO_NAMESPACES;
    return loopback_free_port(&port, &err) && !port && strstr(err.text, "ip link set lo up") ? 0
                                                                                             : 1;
}

/* In a namespace whose loopback has version 6 alone. */
static int without_version_4(void) {
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET))
        return NO_NAMESPACES;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (ioctl(fd, SIOCSIFFLAGS, &lo))
        return NO_NAMESPACES;
    struct sockaddr_in none = {.sin_family = AF_INET};
    memcpy(&lo.ifr_addr, &none, sizeof none);
    if (ioctl(fd, SIOCSIFADDR, &lo)) /* takes 127.0.0.1 away */
        return NO_NAMESPACES;
    close(fd);
    if (access("/proc/sys/net/ipv6", F_OK))
        return NO_NAMESPACES;
    return try_ports(AF_INET6);
}

/* What it says in a process of its own; -1: that one crashed. */
static int apart(int (*run)(void)) {
    int status;
    pid_t child = fork();
    if (!child)
        _exit(run());
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status)
               ? WEXITSTATUS(status)
               : -1;
}

TEST(loopback_binds_version_6_where_that_is_all) {
    int rc = apart(without_version_4);
    if (rc == NO_NAMESPACES)
        SKIP("netns", "no network namespaces here");
    EXPECT_EQ(rc, 0);
}

TEST(loopback_says_when_it_is_down) {
    int rc = apart(while_down);
    if (rc == NO_NAMESPACES)
        SKIP("netns", "no network namespaces here");
    EXPECT_EQ(rc, 0);
}
