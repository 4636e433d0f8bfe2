#include "http/http_network.h"

#include "base/hash.h"
#include "http/http_server.h"

#include <netinet/in.h>

enum { PREFIX48_BITS = 48, HASH_SEED = 0x6e657473 };

void http_networks_init(struct http_networks *networks, uint64_t seed) {
    *networks = (struct http_networks){.seed = seed};
    pthread_mutex_init(&networks->lock, NULL);
}

void http_networks_release(struct http_networks *networks) {
    for (size_t i = 0; i < HTTP_NETWORK_BUCKETS; i++)
        CHECK(!networks->buckets[i]);
    pthread_mutex_destroy(&networks->lock);
}

static uint64_t first_half(const struct in6_addr *addr) {
    uint64_t bits = 0;
    for (size_t i = 0; i < sizeof bits; i++)
        bits = bits << 8 | addr->s6_addr[i];
    return bits;
}

static struct http_network **bucket_of(struct http_networks *networks, uint64_t prefix48) {
    uint64_t hash = hash64(&prefix48, sizeof prefix48, networks->seed);
    return &networks->buckets[hash % HTTP_NETWORK_BUCKETS];
}

/* The /64's own place, or one that it may have, or that of its /48's further ones. */
static struct http_network *find(struct http_networks *networks, uint64_t prefix64) {
    uint64_t prefix48 = prefix64 >> (64 - PREFIX48_BITS);
    struct http_network **bucket = bucket_of(networks, prefix48), *further = NULL;
    uint32_t own_count = 0;
    for (struct http_network *n = *bucket; n; n = n->next) {
        if (n->prefix48 != prefix48)
            continue;
        if (n->own && n->prefix64 == prefix64)
            return n;
        own_count += n->own;
        further = n->own ? further : n;
    }
    bool own = own_count < HTTP_NETWORK_OWN;
    if (!own && further)
        return further;
    struct http_network *n = mem_alloc(sizeof *n);
    *n = (struct http_network){
        .next = *bucket, .prefix48 = prefix48, .prefix64 = prefix64, .own = own};
    *bucket = n;
    return n;
}

struct http_network *http_network_enter(struct http_networks *networks, const struct sockaddr *addr,
                                        struct u128 *address) {
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)addr;
    *address = http_address_of(addr);
    if (addr->sa_family != AF_INET6 || IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
        return NULL;
    pthread_mutex_lock(&networks->lock);
    struct http_network *n = find(networks, first_half(&v6->sin6_addr));
    n->connection_count++;
    if (!n->own)
        *address = hash128(&n->prefix48, sizeof n->prefix48, HASH_SEED);
    pthread_mutex_unlock(&networks->lock);
    return n;
}

void http_network_leave(struct http_networks *networks, struct http_network *network) {
    if (!network)
        return;
    pthread_mutex_lock(&networks->lock);
    CHECK(network->connection_count > 0);
    if (--network->connection_count == 0) {
        struct http_network **at = bucket_of(networks, network->prefix48);
        while (*at != network)
            at = &(*at)->next;
        *at = network->next;
        mem_free(network);
    }
    pthread_mutex_unlock(&networks->lock);
}
