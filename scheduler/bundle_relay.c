#include "scheduler/bundle_relay.h"

#include "base/hash.h"
#include "base/log.h"

void bundle_relay_init(struct bundle_relay *r, const struct bundle_relay_calls *calls,
                       size_t byte_budget) {
    *r = (struct bundle_relay){.calls = *calls, .byte_budget = byte_budget};
}

static void entry_clear(struct bundle_entry *e) {
    buf_release(&e->data);
    vec_release(&e->waiters);
    *e = (struct bundle_entry){0};
}

void bundle_relay_release(struct bundle_relay *r) {
    for (size_t i = 0; i < BUNDLE_ENTRIES_MAX; i++)
        entry_clear(&r->entries[i]);
}

static struct bundle_entry *entry_find(struct bundle_relay *r, struct u128 bundle) {
    for (size_t i = 0; i < BUNDLE_ENTRIES_MAX; i++)
        if (u128_equal(r->entries[i].bundle, bundle))
            return &r->entries[i];
    return NULL;
}

/* A free place, or that of the bundle unused for the longest time. */
static struct bundle_entry *entry_make(struct bundle_relay *r, struct u128 bundle, int64_t now_ms) {
    struct bundle_entry *place = &r->entries[0];
    for (size_t i = 0; i < BUNDLE_ENTRIES_MAX; i++) {
        struct bundle_entry *e = &r->entries[i];
        if (u128_is_zero(e->bundle)) {
            place = e;
            break;
        }
        if (e->used_ms < place->used_ms)
            place = e;
    }
    entry_clear(place);
    *place = (struct bundle_entry){.bundle = bundle, .used_ms = now_ms, .progress_ms = now_ms};
    buf_init(&place->data, WIRE_MAX_BUNDLE);
    return place;
}

static void keep_within_budget(struct bundle_relay *r, const struct bundle_entry *spared) {
    for (;;) {
        struct bundle_entry *oldest = NULL;
        size_t sum = 0;
        for (size_t i = 0; i < BUNDLE_ENTRIES_MAX; i++) {
            struct bundle_entry *e = &r->entries[i];
            sum += e->data.len;
            if (e != spared && e->data.len && (!oldest || e->used_ms < oldest->used_ms))
                oldest = e;
        }
        if (sum <= r->byte_budget || !oldest)
            return;
        entry_clear(oldest);
    }
}

/* Asks for what the window allows. The total is known with the first chunk. */
static void fetch(struct bundle_relay *r, struct bundle_entry *e) {
    uint64_t here = e->data.len, end = e->total ? e->total : 1;
    while (e->asked < end && e->asked < here + (uint64_t)BUNDLE_WINDOW * WIRE_BUNDLE_CHUNK_BYTES) {
        struct wire_bundle_get get = {e->bundle, e->asked};
        if (!r->calls.ask(r->calls.ctx, &get))
            return;
        e->asked += WIRE_BUNDLE_CHUNK_BYTES;
    }
}

static void answer(struct bundle_relay *r, const struct bundle_entry *e,
                   const struct bundle_waiter *w) {
    uint64_t offset = MIN(w->offset, e->total);
    struct wire_bundle_chunk chunk = {.bundle = e->bundle, .offset = offset, .total = e->total};
    chunk.data = bytes_of(e->data.data + offset,
                          (size_t)MIN(e->total - offset, (uint64_t)WIRE_BUNDLE_CHUNK_BYTES));
    r->calls.answer(r->calls.ctx, w->gateway, &chunk);
}

static void wait_for(struct bundle_entry *e, struct bundle_waiter waiter) {
    for (size_t i = 0; i < e->waiters.count; i++) {
        const struct bundle_waiter *w = &e->waiters.items[i];
        if (u128_equal(w->gateway, waiter.gateway) && w->offset == waiter.offset)
            return;
    }
    if (e->waiters.count == BUNDLE_WAITERS_MAX)
        memmove(e->waiters.items, e->waiters.items + 1,
                --e->waiters.count * sizeof *e->waiters.items);
    vec_push(&e->waiters, waiter);
}

void bundle_relay_get(struct bundle_relay *r, int64_t now_ms, struct u128 gateway,
                      const struct wire_bundle_get *get) {
    if (u128_is_zero(get->bundle))
        return;
    struct bundle_waiter waiter = {gateway, get->offset};
    struct bundle_entry *e = entry_find(r, get->bundle);
    if (!e)
        e = entry_make(r, get->bundle, now_ms);
    e->used_ms = now_ms;
    if (e->complete) {
        answer(r, e, &waiter);
        return;
    }
    wait_for(e, waiter);
    fetch(r, e);
}

static void start_over(struct bundle_entry *e) {
    buf_reset(&e->data);
    e->asked = e->total = 0;
}

static void finish(struct bundle_relay *r, struct bundle_entry *e) {
    if (!u128_equal(hash128(e->data.data, e->data.len, 0), e->bundle)) {
        LOG_LIMITED(LOG_WARN, "a bundle of %zu bytes does not have its hash; it is fetched anew",
                    e->data.len);
        r->refused_count++;
        start_over(e); /* the tick asks again */
        return;
    }
    e->complete = true;
    for (size_t i = 0; i < e->waiters.count; i++)
        answer(r, e, &e->waiters.items[i]);
    vec_release(&e->waiters);
    keep_within_budget(r, e);
}

void bundle_relay_chunk(struct bundle_relay *r, int64_t now_ms,
                        const struct wire_bundle_chunk *chunk) {
    struct bundle_entry *e = u128_is_zero(chunk->bundle) ? NULL : entry_find(r, chunk->bundle);
    if (!e || e->complete || chunk->offset != e->data.len || !chunk->data.len ||
        (e->total && e->total != chunk->total))
        return;
    e->total = chunk->total;
    e->progress_ms = now_ms;
    buf_add_bytes(&e->data, chunk->data);
    e->asked = MAX(e->asked, (uint64_t)e->data.len);
    if (e->data.failed)
        start_over(e);
    else if (e->data.len == e->total)
        finish(r, e);
    else
        fetch(r, e);
}

void bundle_relay_tick(struct bundle_relay *r, int64_t now_ms) {
    for (size_t i = 0; i < BUNDLE_ENTRIES_MAX; i++) {
        struct bundle_entry *e = &r->entries[i];
        if (u128_is_zero(e->bundle) || e->complete || !e->waiters.count ||
            now_ms - e->progress_ms < BUNDLE_RETRY_MS)
            continue;
        e->progress_ms = now_ms;
        e->asked = e->data.len;
        fetch(r, e);
    }
}
