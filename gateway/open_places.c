#include "gateway/open_places.h"

#include <pthread.h>

#include "base/hash.h"

enum { BUCKETS = 1024 };

struct holder {
    struct holder *next;
    struct u128 id;
    uint64_t count;
};

struct open_places {
    pthread_mutex_t mutex;
    struct holder *buckets[BUCKETS]; /* owned */
    uint64_t places, taken, holder_count;
};

struct open_places *open_places_new(uint64_t places) {
    struct open_places *p = mem_calloc(1, sizeof *p);
    CHECK(places);
    p->places = places;
    pthread_mutex_init(&p->mutex, NULL);
    return p;
}

void open_places_free(struct open_places **out) {
    struct open_places *p = *out;
    if (!p)
        return;
    CHECK(!p->taken && !p->holder_count);
    pthread_mutex_destroy(&p->mutex);
    mem_free(p);
    *out = NULL;
}

static struct holder **find(struct open_places *p, struct u128 id) {
    struct holder **at = &p->buckets[hash64(&id, sizeof id, 0) % BUCKETS];
    while (*at && !u128_equal((*at)->id, id))
        at = &(*at)->next;
    return at;
}

static void add(struct open_places *p, struct holder **at, struct u128 id) {
    if (!*at) {
        *at = mem_alloc(sizeof **at);
        **at = (struct holder){.id = id};
        p->holder_count++;
    }
    (*at)->count++;
    p->taken++;
}

bool open_places_take(struct open_places *p, struct u128 holder) {
    pthread_mutex_lock(&p->mutex);
    struct holder **at = find(p, holder);
    uint64_t has = *at ? (*at)->count : 0, sharers = p->holder_count + !*at;
    bool fits = p->taken < p->places || has < p->places / sharers;
    if (fits)
        add(p, at, holder);
    pthread_mutex_unlock(&p->mutex);
    return fits;
}

void open_places_force(struct open_places *p, struct u128 holder) {
    pthread_mutex_lock(&p->mutex);
    add(p, find(p, holder), holder);
    pthread_mutex_unlock(&p->mutex);
}

void open_places_give(struct open_places *p, struct u128 id) {
    pthread_mutex_lock(&p->mutex);
    struct holder **at = find(p, id), *holder = *at;
    CHECK(holder && holder->count && p->taken);
    p->taken--;
    if (--holder->count == 0) {
        *at = holder->next;
        mem_free(holder);
        p->holder_count--;
    }
    pthread_mutex_unlock(&p->mutex);
}

struct u128 open_holder(struct u128 tenant, uint32_t address) {
    return u128_is_zero(tenant) ? (struct u128){.lo = address} : tenant;
}
