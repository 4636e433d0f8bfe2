/*
 * locks.c - who holds which lock. Every call of a unit program that takes, gives back or waits with a lock
 * comes here first (tests/CMakeLists.txt); libraries that are not ours call what they always call.
 *
 * A lock that nobody took, that is taken twice, or that a thread waits with and does not hold, ends the
 * program at once: what two threads do at the same time is seen only by chance, this in every run. A test
 * that ends with a lock fails (check.c).
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { HELD_MAX = 64 };

static _Thread_local const void *held[HELD_MAX];
static _Thread_local size_t held_count;

size_t locks_held(void);

size_t locks_held(void) {
    return held_count;
}

static void stop(const char *what) {
    fprintf(stderr, "%s\n", what);
    abort();
}

static size_t place_of(const void *lock) {
    size_t i = held_count;
    while (i > 0 && held[i - 1] != lock)
        i--;
    return i;
}

static void about_to_take(const void *lock) {
    if (place_of(lock))
        stop("a thread takes a lock that it holds");
    if (held_count == HELD_MAX)
        stop("a thread holds too many locks");
}

static int taken(const void *lock, int rc) {
    if (!rc)
        held[held_count++] = lock;
    return rc;
}

static void about_to_give_back(const void *lock) {
    size_t place = place_of(lock);
    if (!place)
        stop("a thread gives a lock back that it does not hold");
    held[place - 1] = held[--held_count];
}

static void about_to_wait(const void *lock) {
    if (!place_of(lock))
        stop("a thread waits with a lock that it does not hold");
}

#define TAKES(name, type)                                                                          \
    int __real_##name(type *lock);                                                                 \
    int __wrap_##name(type *lock);                                                                 \
    int __wrap_##name(type *lock) {                                                                \
        about_to_take(lock);                                                                       \
        return taken(lock, __real_##name(lock));                                                   \
    }
#define GIVES_BACK(name, type)                                                                     \
    int __real_##name(type *lock);                                                                 \
    int __wrap_##name(type *lock);                                                                 \
    int __wrap_##name(type *lock) {                                                                \
        about_to_give_back(lock);                                                                  \
        return __real_##name(lock);                                                                \
    }

TAKES(pthread_mutex_lock, pthread_mutex_t)
TAKES(pthread_mutex_trylock, pthread_mutex_t)
GIVES_BACK(pthread_mutex_unlock, pthread_mutex_t)
TAKES(pthread_rwlock_rdlock, pthread_rwlock_t)
TAKES(pthread_rwlock_wrlock, pthread_rwlock_t)
GIVES_BACK(pthread_rwlock_unlock, pthread_rwlock_t)

int __real_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock) {
    about_to_wait(lock);
    return __real_pthread_cond_wait(cond, lock);
}

int __real_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                                  const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                                  const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                                  const struct timespec *until) {
    about_to_wait(lock);
    return __real_pthread_cond_timedwait(cond, lock, until);
}
