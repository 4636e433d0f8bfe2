#include "gateway/generation/open_places.h"

#include <pthread.h>

#include "gateway/generation/tally.h"

struct open_places {
    pthread_mutex_t mutex;
    struct tally taken;
    uint64_t places;
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
    CHECK(!p->taken.total);
    pthread_mutex_destroy(&p->mutex);
    mem_free(p);
    *out = NULL;
}

bool open_places_take(struct open_places *p, struct u128 holder) {
    pthread_mutex_lock(&p->mutex);
    uint64_t has = tally_of(&p->taken, holder), sharers = p->taken.holder_count + !has;
    bool fits = p->taken.total < p->places || has < p->places / sharers;
    if (fits)
        tally_add(&p->taken, holder, 1);
    pthread_mutex_unlock(&p->mutex);
    return fits;
}

void open_places_force(struct open_places *p, struct u128 holder) {
    pthread_mutex_lock(&p->mutex);
    tally_add(&p->taken, holder, 1);
    pthread_mutex_unlock(&p->mutex);
}

void open_places_give(struct open_places *p, struct u128 holder) {
    pthread_mutex_lock(&p->mutex);
    tally_subtract(&p->taken, holder, 1);
    pthread_mutex_unlock(&p->mutex);
}

struct u128 open_holder(struct u128 tenant, struct u128 address) {
    return u128_is_zero(tenant) ? address : tenant;
}
