/*
 * auth.h - API keys: who may ask.
 *
 * Keys come from an option (comma-separated) and a file (one a line, '#' begins a comment line). Without any, everybody
 * may. A key is compared with all keys in time that depends on lengths alone, never on where they differ.
 *
 * Threading: const after auth_init.
 */
#ifndef GATEWAY_AUTH_H
#define GATEWAY_AUTH_H

#include "base/error.h"

enum { AUTH_KEYS_MAX = 1024, AUTH_KEY_BYTES_MAX = 512 };

struct auth {
    char **keys; /* owned */
    size_t key_count;
};

/* list, path: NULL or empty: none. */
MUST_CHECK int auth_init(struct auth *auth, const char *list, const char *path, struct error *err);
void auth_release(struct auth *auth);
static inline bool auth_is_open(const struct auth *auth) { return auth->key_count == 0; }
/* Judges the value of an Authorization header ("Bearer KEY"). *tenant is the key's identity, zero when there are no
 * keys. */
bool auth_check(const struct auth *auth, struct bytes authorization, struct u128 *tenant);

#endif
