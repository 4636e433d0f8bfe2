/*
 * auth.h - API keys: who may ask.
 *
 * Keys come from an option (comma-separated) and a file (one a line, '#' begins a comment line; behind
 * a key may stand terms: "priority-min=N": what its requests may give as their priority at the least;
 * "models=A,B": the only ones that it may use; "admin": it may load and unload models; "requests=N"
 * and "tokens-per-minute=N": its bounds; "weight=N": its share beside other keys, of which the usual
 * one is 100; "name=TEXT": what metrics call it).
 * Without any, everybody may. A key is compared with all keys in time that depends on lengths
 * alone, never on where they differ. A client sends one as OpenAI's do ("Authorization: Bearer
 * KEY") or as Anthropic's do ("X-Api-Key: KEY"); the second
 * counts where there is no Bearer.
 *
 * The file may be read again while requests are judged. Of keys that it no longer names, requests
 * that run go on.
 *
 * Threading: any, between auth_init and auth_release; auth_changed and auth_reload: one thread.
 */
#ifndef GATEWAY_ACCESS_AUTH_H
#define GATEWAY_ACCESS_AUTH_H

#include "base/error.h"
#include "base/fsutil.h"

#include <pthread.h>

enum {
    AUTH_KEYS_MAX = 1024,
    AUTH_KEY_BYTES_MAX = 512,
    AUTH_NAME_MAX = 64,
    AUTH_REQUESTS_MAX = 1000000,
    AUTH_MINUTE_TOKENS_MAX = 1000000000,
};

struct metric;

/* What a tenant may have (scheduler/core/quota.h). */
struct auth_limits {
    uint32_t requests, minute_tokens; /* 0: no bound */
    uint32_t weight;                  /* 0: the usual one */
};
struct auth_key {
    char *text; /* owned */
    struct auth_limits limits;
    bool has_requests, has_minute_tokens; /* else those of all keys hold */
    char *name;                           /* owned; NULL: none */
    struct metric *metrics;               /* key_metrics.h; NULL: it has no name */
    struct u128 tenant;
    char *models; /* owned: "a,b"; NULL: all */
    bool has_priority_min, admin;
    int64_t priority_min;
};
struct auth_keys {
    struct auth_key *items; /* owned */
    size_t count;
};
struct auth {
    struct auth_limits limits; /* of keys that do not say their own, and of clients without */
    bool open;                 /* no key is configured: everybody may ask */
    char *list, *path;         /* owned; NULL: none */
    bool is_file;              /* the path is no pipe, and may be read again */
    struct file_mark mark;     /* of the file, when it was read last (or that was tried) */
    struct file_mark seen;     /* and when auth_changed looked last */
    pthread_rwlock_t lock;
    struct auth_keys keys; /* under the lock */
};

/* list, path: NULL: none; ERR_INVALID where one is given and neither has a key. Copies both. Where it fails there
 * is nothing to release. */
MUST_CHECK int auth_init(struct auth *auth, const char *list, const char *path, struct error *err);
/* Whether the file is another one than when it was read last, and the same as a call ago: it is not
 * being written now. */
bool auth_changed(struct auth *auth);
/* Reads the file again. Where that fails, the keys stay as they are. Without a file nothing happens. */
MUST_CHECK int auth_reload(struct auth *auth, struct error *err);
/* Frees the keys. Of one that is zero nothing. */
void auth_release(struct auth *auth);
/* Judges the values of the headers Authorization and X-Api-Key ({NULL, 0}: not sent). *tenant is
 * the key's identity, zero when there are no keys; it does not depend on which header brought it. */
bool auth_check(struct auth *auth, struct bytes authorization, struct bytes api_key,
                struct u128 *tenant);

/* Whether requests of this tenant may be for this model. */
bool auth_allows_model(struct auth *auth, struct u128 tenant, const char *model);
/* Whether this tenant may load and unload models: only a key that says so. */
bool auth_is_admin(struct auth *auth, struct u128 tenant);
/* What this tenant may have. */
struct auth_limits auth_limits(struct auth *auth, struct u128 tenant);
/* What is counted of this tenant's requests (key_metrics.h); NULL: its key has no name. */
struct metric *auth_metrics(struct auth *auth, struct u128 tenant);
/* The lowest number that requests of this tenant may give as their priority: what its key says, else
 * `fallback`. */
int64_t auth_priority_min(struct auth *auth, struct u128 tenant, int64_t fallback);

#endif
