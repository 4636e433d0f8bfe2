/*
 * tcp_keys.h - a folder of keys for tests that speak over tcp, and raw sockets that may or may not
 * have one.
 */
#ifndef TESTS_UNIT_PROTO_TCP_KEYS_H
#define TESTS_UNIT_PROTO_TCP_KEYS_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include "base/buf.h"
#include "proto/link_key.h"

struct tcp_keys {
    char folder[32], allow[64];
    char files[WIRE_ROLE_SCHEDULER + 1][64]; /* by role */
};

static inline bool tcp_keys_make(struct tcp_keys *k) {
    struct error err;
    char folder[] = "/tmp/trmXXXXXX";
    if (!mkdtemp(folder))
        return false;
    memcpy(k->folder, folder, sizeof folder);
    snprintf(k->allow, sizeof k->allow, "%s/allow", folder);
    for (int role = WIRE_ROLE_GATEWAY; role <= WIRE_ROLE_SCHEDULER; role++)
        snprintf(k->files[role], sizeof k->files[role], "%s/%s.key", folder,
                 link_role_name((enum wire_role)role));
    int rc = link_keys_make(folder, &err);
    if (rc)
        printf("# %s\n", err.text);
    return rc == 0;
}

static inline void tcp_keys_remove(struct tcp_keys *k) {
    for (int role = WIRE_ROLE_GATEWAY; role <= WIRE_ROLE_SCHEDULER; role++)
        unlink(k->files[role]);
    unlink(k->allow);
    rmdir(k->folder);
}

/* The list without the keys of a role. */
static inline bool tcp_keys_disallow(const struct tcp_keys *k, enum wire_role role) {
    struct buf text = {0};
    char line[256];
    FILE *f = fopen(k->allow, "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, link_role_name(role), strlen(link_role_name(role))))
            buf_add_str(&text, line);
    bool good = f && fclose(f) == 0 && (f = fopen(k->allow, "w")) &&
                fputs(buf_text(&text), f) >= 0 && fclose(f) == 0;
    buf_release(&text);
    return good;
}

/* A DEALER that is about to be connected to `endpoint`, with a key (NULL: without), expecting the
 * scheduler's key of k, or with `wrong_server` another. */
static inline void *raw_peer(void *context, const char *endpoint, const struct tcp_keys *k,
                             const struct link_key_pair *own, bool wrong_server, const void *id,
                             size_t id_len) {
    void *raw = zmq_socket(context, ZMQ_DEALER);
    struct link_key_pair scheduler = {0}, other;
    int zero = 0;
    zmq_setsockopt(raw, ZMQ_LINGER, &zero, sizeof zero);
    if (id_len)
        zmq_setsockopt(raw, ZMQ_ROUTING_ID, id, id_len);
    link_key_pair_make(&other, WIRE_ROLE_SCHEDULER);
    if (own &&
        !link_key_file_read(k->files[WIRE_ROLE_SCHEDULER], (enum wire_role)0, &scheduler, NULL)) {
        const struct link_key *server = wrong_server ? &other.public_key : &scheduler.public_key;
        zmq_setsockopt(raw, ZMQ_CURVE_SERVERKEY, server->bytes, LINK_KEY_BYTES);
        zmq_setsockopt(raw, ZMQ_CURVE_PUBLICKEY, own->public_key.bytes, LINK_KEY_BYTES);
        zmq_setsockopt(raw, ZMQ_CURVE_SECRETKEY, own->secret_key.bytes, LINK_KEY_BYTES);
    }
    zmq_connect(raw, endpoint);
    return raw;
}

#endif
