/*
 * auth.h - API keys: who may ask.
 *
 * Keys come from an option (comma-separated) and a file (one a line, '#' begins a comment line; behind
 * a key may stand "priority-min=N": what its requests may give as their priority at the least).
 * Without any, everybody may. A key is compared with all keys in time that depends on lengths
 * alone, never on where they differ. A client sends one as OpenAI's do ("Authorization: Bearer
 * KEY") or as Anthropic's do ("X-Api-Key: KEY"); the second
 * counts where there is no Bearer.
 *
 * Threading: const after auth_init.
 */
#ifndef GATEWAY_AUTH_H
#define GATEWAY_AUTH_H

#include "base/error.h"

enum { AUTH_KEYS_MAX = 1024, AUTH_KEY_BYTES_MAX = 512 };

struct auth_key {
    char *text; /* owned */
    struct u128 tenant;
    bool has_priority_min;
    int64_t priority_min;
};
struct auth {
    struct auth_key *keys; /* owned */
    size_t key_count;
};

/* list, path: NULL or empty: none. */
MUST_CHECK int auth_init(struct auth *auth, const char *list, const char *path, struct error *err);
/* Frees the keys. */
void auth_release(struct auth *auth);
/* True when no key is configured: everybody may ask. */
static inline bool auth_is_open(const struct auth *auth) {
    return auth->key_count == 0;
}
/* Judges the values of the headers Authorization and X-Api-Key ({NULL, 0}: not sent). *tenant is
 * the key's identity, zero when there are no keys; it does not depend on which header brought it. */
bool auth_check(const struct auth *auth, struct bytes authorization, struct bytes api_key,
                struct u128 *tenant);

/* The lowest number that requests of this tenant may give as their priority: what its key says, else
 * `fallback`. */
int64_t auth_priority_min(const struct auth *auth, struct u128 tenant, int64_t fallback);

#endif
