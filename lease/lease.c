#include "lease/lease.h"
#include "lease/engine.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

enum { TRY_MS = 100, TTL_MIN_MS = 1000, SAY_MS = 10000 };

struct lease {
    struct engine *engine;
    int64_t ttl_ms;
    bool taken;
    _Atomic int64_t until_ms; /* of clock_boot_ms; INT64_MAX: it does not end by itself */
    pthread_t keeper;
    bool keeps; /* the keeper is to be joined */
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    bool stop; /* guarded by the mutex */
};

static const char *after(const char *text, const char *prefix) {
    size_t len = strlen(prefix);
    return strncmp(text, prefix, len) ? NULL : text + len;
}

int lease_check(const char *engine, struct error *err) {
    const char *path = after(engine, "file:"), *urls = after(engine, "etcd:");
    if (path && *path == '/')
        return 0;
    if (urls && (after(urls, "http://") || after(urls, "https://")))
        return 0;
    const char *folder = after(engine, "kubernetes:");
    if (folder && (!*folder || *folder == '/'))
        return 0;
    return error_set(err, ERR_INVALID,
                     "a lease is 'file:/PATH', 'etcd:http://HOST:2379[,URL...]' or 'kubernetes:', "
                     "not '%.200s'",
                     engine);
}

const char *lease_account(const char *engine) {
    const char *folder = after(engine, "kubernetes:");
    return folder ? kubernetes_account(folder) : NULL;
}

int lease_new(struct lease **out, const struct lease_config *config, struct error *err) {
    struct engine *engine = NULL;
    const char *path = after(config->engine, "file:"), *urls = after(config->engine, "etcd:");
    *out = NULL;
    int rc = lease_check(config->engine, err);
    if (rc)
        return rc;
    if (config->ttl_ms < TTL_MIN_MS)
        return error_set(err, ERR_INVALID, "a lease lives for at least %d ms", TTL_MIN_MS);
    if (!urls && (config->user || config->password_file || config->authority ||
                  config->certificate || config->key))
        return error_set(err, ERR_INVALID,
                         "a user, a password and certificates are for a lease of etcd alone");
    rc = path   ? file_engine_new(&engine, path, err)
         : urls ? etcd_engine_new(&engine, urls, config, err)
                : kubernetes_engine_new(&engine, after(config->engine, "kubernetes:"), config, err);
    if (rc)
        return rc;
    struct lease *l = mem_alloc(sizeof *l);
    *l = (struct lease){.engine = engine, .ttl_ms = config->ttl_ms};
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&l->mutex, NULL);
    pthread_cond_init(&l->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    *out = l;
    return 0;
}

uint64_t lease_number_after(const char *last, uint64_t least) {
    uint64_t number = 0;
    bool sound = true;
    for (const char *at = last; *at && sound; at++) {
        sound = *at >= '0' && *at <= '9' && number <= (UINT64_MAX - 9) / 10;
        number = sound ? number * 10 + (uint64_t)(*at - '0') : 0;
    }
    if (sound && (number < least || number - least < LEASE_AHEAD_MAX))
        return MAX(least, number + 1);
    log_warn("the lease has no number of a grant, but '%.40s': it is written over", last);
    return least;
}

/* --- keeping it --- */

/* The engine counts from when it heard of us, which is later than `asked_ms`. */
static int64_t deadline(const struct lease *l, int64_t asked_ms) {
    return l->engine->calls->lasts ? INT64_MAX : asked_ms + l->ttl_ms - l->ttl_ms / 10;
}

/* True when the lease is to be given back. */
static bool sleep_for(struct lease *l, int64_t ms) {
    const struct timespec end = timespec_of_us(clock_us() + ms * 1000);
    pthread_mutex_lock(&l->mutex);
    while (!l->stop && pthread_cond_timedwait(&l->wake, &l->mutex, &end) == 0) {}
    bool stop = l->stop;
    pthread_mutex_unlock(&l->mutex);
    return stop;
}

static void *keep(void *ctx) {
    struct lease *l = ctx;
    struct error err;
    int64_t pause_ms = l->ttl_ms / 3;
    while (!sleep_for(l, pause_ms)) {
        int64_t asked_ms = clock_boot_ms();
        if (asked_ms >= atomic_load(&l->until_ms))
            break; /* too late: another may hold it */
        int rc = l->engine->calls->keep(l->engine, &err);
        pause_ms = rc ? l->ttl_ms / 10 : l->ttl_ms / 3;
        if (rc == ERR_NOT_FOUND) {
            log_error("the lease is lost: %s", err.text);
            atomic_store(&l->until_ms, 0);
            break;
        }
        if (rc)
            log_warn("the lease could not be kept just now: %s", err.text);
        else
            atomic_store(&l->until_ms, deadline(l, asked_ms));
    }
    return NULL;
}

/* --- taking it --- */

static bool is_asked_to_stop(int stop_fd, int64_t wait_ms) {
    struct pollfd p = {.fd = stop_fd, .events = POLLIN};
    return poll(&p, 1, (int)wait_ms) > 0;
}

int lease_take(struct lease *l, uint64_t least, int stop_fd, uint64_t *number, struct error *err) {
    int64_t said_ms = 0, wait_ms = 0;
    int said = 0;
    CHECK(!l->taken);
    while (!is_asked_to_stop(stop_fd, wait_ms)) {
        int64_t asked_ms = clock_boot_ms();
        int rc = l->engine->calls->take(l->engine, least, number, err);
        if (!rc) {
            l->taken = true;
            atomic_store(&l->until_ms, deadline(l, asked_ms));
            rc = pthread_create(&l->keeper, NULL, keep, l);
            l->keeps = !rc;
            return rc ? error_set(err, ERR_IO, "cannot start the lease's thread: %s", strerror(rc))
                      : 0;
        }
        if (rc != said || (rc != ERR_AGAIN && clock_ms() - said_ms >= SAY_MS)) {
            log_write(rc == ERR_AGAIN ? LOG_INFO : LOG_WARN, "standing by: %s", err->text);
            said = rc;
            said_ms = clock_ms();
        }
        wait_ms = TRY_MS;
    }
    return error_set(err, ERR_CLOSED, "asked to end while standing by");
}

bool lease_is_held(const struct lease *l) {
    return clock_boot_ms() < atomic_load(&l->until_ms);
}

void lease_free(struct lease **lease) {
    struct lease *l = *lease;
    if (!l)
        return;
    if (l->keeps) {
        pthread_mutex_lock(&l->mutex);
        l->stop = true;
        pthread_cond_signal(&l->wake);
        pthread_mutex_unlock(&l->mutex);
        pthread_join(l->keeper, NULL);
    }
    if (l->taken && lease_is_held(l))
        l->engine->calls->give_back(l->engine);
    l->engine->calls->free(l->engine);
    pthread_cond_destroy(&l->wake);
    pthread_mutex_destroy(&l->mutex);
    mem_free(l);
    *lease = NULL;
}
