/*
 * http_network.h - which clients of IPv6 count as one.
 *
 * What clients share is shared by address, and an address of IPv6 is a /64: the least that a customer has.
 * But many a customer has a /48, and could have nearly all if each of its 65536 /64s counted. So of a
 * /48 no more than HTTP_NETWORK_OWN of the /64s that have a connection count as addresses of their own,
 * those that came first. The further ones are one address together, whose number is the /48's. Addresses of
 * IPv4 each count.
 *
 * Threading: any.
 */
#ifndef HTTP_HTTP_NETWORK_H
#define HTTP_HTTP_NETWORK_H

#include "base/base.h"

#include <pthread.h>

enum { HTTP_NETWORK_OWN = 8, HTTP_NETWORK_BUCKETS = 1024 };

struct sockaddr;
/* A /64 that counts on its own, or the further ones of a /48. */
struct http_network {
    struct http_network *next; /* of its bucket */
    uint64_t prefix48, prefix64;
    bool own;
    uint32_t connection_count;
};
struct http_networks {
    pthread_mutex_t lock;
    uint64_t seed;
    struct http_network *buckets[HTTP_NETWORK_BUCKETS]; /* by /48 */
};

void http_networks_init(struct http_networks *networks, uint64_t seed);
/* After all that entered have left. */
void http_networks_release(struct http_networks *networks);
/* A connection from there begins. What it has to leave again (NULL: of IPv4), and *address: as
 * http_address_of, or the number of its /48. */
struct http_network *http_network_enter(struct http_networks *networks, const struct sockaddr *addr,
                                        struct u128 *address);
/* It has ended. NULL is fine. */
void http_network_leave(struct http_networks *networks, struct http_network *network);

#endif
