#include "worker/comm_segment.h"

/* ---- from stage to stage ---- */

static bool channel_has_room(const struct comm *c, uint64_t goal) {
    return goal - atomic_load_explicit(&channel_from(c, c->self)->tail, memory_order_acquire) <
           c->config.channel_bytes;
}

static bool channel_has_data(const struct comm *c, uint64_t goal) {
    return atomic_load_explicit(&channel_from(c, c->self - c->place.tp)->head,
                                memory_order_acquire) > goal;
}

int comm_send(struct comm *c, const void *data, size_t bytes) {
    CHECK(c->place.stage + 1 < c->place.pp);
    struct comm_channel *ch = channel_from(c, c->self);
    size_t size = c->config.channel_bytes;
    for (size_t done = 0; done < bytes;) {
        uint64_t head = atomic_load_explicit(&ch->head, memory_order_relaxed);
        int rc = comm_wait_until(c, channel_has_room, head, c->config.timeout_ms);
        if (rc)
            return rc;
        size_t room = size - (size_t)(head - atomic_load_explicit(&ch->tail, memory_order_acquire));
        size_t at = head % size, n = MIN(MIN(bytes - done, room), size - at);
        n = MIN(n, (size_t)MESH_FRAME_MAX);
        memcpy(ch->data + at, (const char *)data + done, n);
        atomic_store_explicit(&ch->head, head + n, memory_order_release);
        comm_bell_ring(&c->segment->ranks[c->self + c->place.tp].bell);
        comm_publish(c, c->self + c->place.tp, FRAME_STAGE, head,
                     bytes_of((const char *)data + done, n));
        done += n;
    }
    return c->failed;
}

int comm_receive(struct comm *c, void *data, size_t bytes) {
    CHECK(c->place.stage > 0);
    struct comm_channel *ch = channel_from(c, c->self - c->place.tp);
    size_t size = c->config.channel_bytes;
    for (size_t done = 0; done < bytes;) {
        uint64_t tail = atomic_load_explicit(&ch->tail, memory_order_relaxed);
        int rc = comm_wait_until(c, channel_has_data, tail, c->config.timeout_ms);
        if (rc)
            return rc;
        size_t there = (size_t)(atomic_load_explicit(&ch->head, memory_order_acquire) - tail);
        size_t at = tail % size, n = MIN(MIN(bytes - done, there), size - at);
        memcpy((char *)data + done, ch->data + at, n);
        atomic_store_explicit(&ch->tail, tail + n, memory_order_release);
        comm_bell_ring(&c->segment->ranks[c->self - c->place.tp].bell);
        comm_publish(c, c->self - c->place.tp, FRAME_TAIL, tail + n, (struct bytes){0});
        done += n;
    }
    return c->failed;
}

/* ---- records ---- */

static bool record_has_room(const struct comm *c, uint64_t goal) {
    for (uint32_t i = 0; i < c->count; i++)
        if (i != c->self &&
            atomic_load_explicit(&c->segment->ranks[i].taken, memory_order_acquire) +
                    COMM_RECORDS <=
                goal)
            return false;
    return true;
}

static bool record_is_there(const struct comm *c, uint64_t goal) {
    return atomic_load_explicit(&c->segment->records, memory_order_acquire) > goal;
}

int comm_post(struct comm *c, const struct comm_record *record) {
    CHECK(c->place.rank == 0 && c->place.stage + 1 == c->place.pp &&
          record->count <= c->config.record_max);
    int rc = comm_wait_until(c, record_has_room, c->record, c->config.timeout_ms);
    if (rc)
        return rc;
    char *p = record_at(c, c->record);
    size_t column = record->count * sizeof(uint32_t);
    memcpy(p, &record->plan_number, 8);
    memcpy(p + 8, &record->count, 4);
    if (column) {
        memcpy(p + 16, record->tokens, column);
        memcpy(p + 16 + column, record->status, column);
    }
    atomic_store_explicit(&c->segment->records, ++c->record, memory_order_release);
    for (uint32_t i = 0; i < c->count; i++)
        if (i != c->self)
            comm_bell_ring(&c->segment->ranks[i].bell);
    comm_publish_to_all(c, FRAME_RECORD, c->record - 1, bytes_of(p, 16 + 2 * column));
    return c->failed;
}

int comm_read(struct comm *c, bool wait, struct comm_record *record) {
    if (!wait && !c->failed && !record_is_there(c, c->record))
        return 0;
    int rc = comm_wait_until(c, record_is_there, c->record, c->config.timeout_ms);
    if (rc)
        return rc;
    const char *p = record_at(c, c->record);
    memcpy(&record->plan_number, p, 8);
    memcpy(&record->count, p + 8, 4);
    if (record->count > c->config.record_max)
        return comm_fail(c, ERR_INVALID, "a record is out of bounds");
    size_t column = record->count * sizeof(uint32_t);
    memcpy(record->tokens, p + 16, column);
    memcpy(record->status, p + 16 + column, column);
    atomic_store_explicit(&c->segment->ranks[c->self].taken, ++c->record, memory_order_release);
    comm_bell_ring(&c->segment->ranks[(c->place.pp - 1) * c->place.tp].bell);
    comm_publish(c, (c->place.pp - 1) * c->place.tp, FRAME_TAKEN, c->record, (struct bytes){0});
    return c->failed ? c->failed : 1;
}
