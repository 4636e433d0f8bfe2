#include "gateway/answers/answer_room.h"

#include <pthread.h>

#include "gateway/generation/tally.h"

struct answer_room {
    pthread_mutex_t mutex;
    struct tally taken; /* bytes, by tenant */
    uint64_t bytes;
};

struct answer_room *answer_room_new(uint64_t bytes) {
    struct answer_room *room = mem_calloc(1, sizeof *room);
    room->bytes = bytes;
    pthread_mutex_init(&room->mutex, NULL);
    return room;
}

void answer_room_free(struct answer_room **out) {
    struct answer_room *room = *out;
    if (!room)
        return;
    CHECK(!room->taken.total);
    pthread_mutex_destroy(&room->mutex);
    mem_free(room);
    *out = NULL;
}

bool answer_room_take(struct answer_room *room, struct u128 tenant, uint64_t bytes) {
    pthread_mutex_lock(&room->mutex);
    uint64_t left = room->bytes - room->taken.total;
    bool fits = bytes <= left && tally_of(&room->taken, tenant) + bytes <= left - bytes;
    if (fits)
        tally_add(&room->taken, tenant, bytes);
    pthread_mutex_unlock(&room->mutex);
    return fits;
}

void answer_room_give(struct answer_room *room, struct u128 tenant, uint64_t bytes) {
    if (!bytes)
        return;
    pthread_mutex_lock(&room->mutex);
    tally_subtract(&room->taken, tenant, bytes);
    pthread_mutex_unlock(&room->mutex);
}

uint64_t answer_room_taken(struct answer_room *room) {
    pthread_mutex_lock(&room->mutex);
    uint64_t taken = room->taken.total;
    pthread_mutex_unlock(&room->mutex);
    return taken;
}
