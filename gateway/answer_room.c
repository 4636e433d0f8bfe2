#include "gateway/answer_room.h"

#include <pthread.h>

/* A tenant that has some. */
struct room_share {
    struct room_share *next;
    struct u128 tenant;
    uint64_t bytes;
};

struct answer_room {
    pthread_mutex_t mutex;
    struct room_share *shares; /* owned */
    uint64_t bytes, taken;
};

struct answer_room *answer_room_new(uint64_t bytes) {
    struct answer_room *room = mem_alloc(sizeof *room);
    *room = (struct answer_room){.bytes = bytes};
    pthread_mutex_init(&room->mutex, NULL);
    return room;
}

void answer_room_free(struct answer_room **out) {
    struct answer_room *room = *out;
    if (!room)
        return;
    CHECK(!room->shares && !room->taken);
    pthread_mutex_destroy(&room->mutex);
    mem_free(room);
    *out = NULL;
}

static struct room_share **find(struct answer_room *room, struct u128 tenant) {
    struct room_share **at = &room->shares;
    while (*at && !u128_equal((*at)->tenant, tenant))
        at = &(*at)->next;
    return at;
}

bool answer_room_take(struct answer_room *room, struct u128 tenant, uint64_t bytes) {
    pthread_mutex_lock(&room->mutex);
    struct room_share **at = find(room, tenant);
    uint64_t has = *at ? (*at)->bytes : 0;
    uint64_t left = room->bytes - room->taken;
    bool fits = bytes <= left && has + bytes <= left - bytes;
    if (fits && bytes) {
        if (!*at) {
            *at = mem_alloc(sizeof **at);
            **at = (struct room_share){.tenant = tenant};
        }
        (*at)->bytes += bytes;
        room->taken += bytes;
    }
    pthread_mutex_unlock(&room->mutex);
    return fits;
}

void answer_room_give(struct answer_room *room, struct u128 tenant, uint64_t bytes) {
    if (!bytes)
        return;
    pthread_mutex_lock(&room->mutex);
    struct room_share **at = find(room, tenant), *share = *at;
    CHECK(share && share->bytes >= bytes && room->taken >= bytes);
    share->bytes -= bytes;
    room->taken -= bytes;
    if (!share->bytes) {
        *at = share->next;
        mem_free(share);
    }
    pthread_mutex_unlock(&room->mutex);
}

uint64_t answer_room_taken(struct answer_room *room) {
    pthread_mutex_lock(&room->mutex);
    uint64_t taken = room->taken;
    pthread_mutex_unlock(&room->mutex);
    return taken;
}
