#include "gateway/answers/response_store.h"

#include <pthread.h>

#include "base/hash.h"
#include "base/mem_large.h"
#include "base/vec.h"

enum { BUCKET_COUNT = 1024 };

struct kept_response {
    struct kept_response *older, *newer; /* in order of age */
    struct kept_response *chained;       /* in its bucket */
    int refs;                            /* the store's own is one */
    bool listed, running, cancelled;
    bool background, streams; /* as it began */
    struct u128 number, tenant;
    struct u128 holder; /* the tenant, or the account of an address */
    struct buf object, items, turns, events;
    VEC(size_t) ends; /* of each event */
    uint32_t turn_count;
    uint64_t bytes; /* as the store counts it */
};

struct holder {
    struct u128 id;
    uint64_t bytes;
};

struct response_store {
    pthread_mutex_t mutex;
    uint64_t bytes_max, bytes;
    size_t count;
    struct kept_response *oldest, *newest;
    struct kept_response *buckets[BUCKET_COUNT];
    VEC(struct holder) holders;
    struct hash_key key; /* of the accounts of addresses */
};

struct response_store *response_store_new(uint64_t bytes_max) {
    struct response_store *s = mem_alloc(sizeof *s);
    *s = (struct response_store){.bytes_max = bytes_max};
    uint64_t secret[2];
    random_bytes(secret, sizeof secret);
    hash_key_init(&s->key, secret, sizeof secret);
    pthread_mutex_init(&s->mutex, NULL);
    return s;
}

static void free_kept(struct kept_response *k) {
    buf_release(&k->object);
    buf_release(&k->items);
    buf_release(&k->turns);
    buf_release(&k->events);
    vec_release(&k->ends);
    mem_free(k);
}

static void unref(struct kept_response *k) {
    CHECK(k->refs > 0);
    if (--k->refs == 0)
        free_kept(k);
}

static struct kept_response **bucket_of(struct response_store *s, struct u128 number) {
    return &s->buckets[number.hi % BUCKET_COUNT]; /* numbers are random */
}

/* ---- what is held ---- */

/* Tenants are digests of keys: none of them is like an account's. */
static struct u128 holder_id(const struct response_store *s, struct u128 tenant,
                             struct u128 address) {
    if (!u128_is_zero(tenant))
        return tenant;
    uint64_t account = hash128_keyed(&s->key, &address, sizeof address).lo % RESPONSE_ADDRESSES;
    return (struct u128){.lo = account, .hi = UINT64_MAX};
}

static struct holder *holder_of(struct response_store *s, struct u128 id) {
    for (size_t i = 0; i < s->holders.count; i++)
        if (u128_equal(s->holders.items[i].id, id))
            return &s->holders.items[i];
    const struct holder fresh = {id, 0};
    vec_push(&s->holders, fresh);
    return &s->holders.items[s->holders.count - 1];
}

static uint64_t size_of(const struct kept_response *k) {
    return sizeof *k + k->object.len + k->items.len + k->turns.len + k->events.len +
           k->ends.count * sizeof k->ends.items[0];
}

/* Its size has changed. */
static void count_bytes(struct response_store *s, struct kept_response *k) {
    uint64_t now = k->listed ? size_of(k) : 0;
    struct holder *h = holder_of(s, k->holder);
    s->bytes = s->bytes - k->bytes + now;
    h->bytes = h->bytes - k->bytes + now;
    k->bytes = now;
    if (h->bytes == 0) /* keys come and go */
        *h = s->holders.items[--s->holders.count];
}

static void unlist(struct response_store *s, struct kept_response *k) {
    CHECK(k->listed);
    k->listed = false;
    count_bytes(s, k);
    *(k->older ? &k->older->newer : &s->oldest) = k->newer;
    *(k->newer ? &k->newer->older : &s->newest) = k->older;
    struct kept_response **at = bucket_of(s, k->number);
    while (*at != k)
        at = &(*at)->chained;
    *at = k->chained;
    s->count--;
    unref(k);
}

static void make_room(struct response_store *s) {
    while (s->bytes > s->bytes_max) {
        uint64_t most = 0;
        for (size_t i = 0; i < s->holders.count; i++)
            most = MAX(most, s->holders.items[i].bytes);
        struct kept_response *k = s->oldest;
        while (holder_of(s, k->holder)->bytes < most)
            k = k->newer;
        unlist(s, k);
    }
}

void response_store_free(struct response_store **store) {
    struct response_store *s = *store;
    if (!s)
        return;
    while (s->oldest)
        unlist(s, s->oldest);
    vec_release(&s->holders);
    pthread_mutex_destroy(&s->mutex);
    mem_free(s);
    *store = NULL;
}

uint64_t response_store_bytes(struct response_store *s) {
    pthread_mutex_lock(&s->mutex);
    uint64_t bytes = s->bytes;
    pthread_mutex_unlock(&s->mutex);
    return bytes;
}

size_t response_store_count(struct response_store *s) {
    pthread_mutex_lock(&s->mutex);
    size_t count = s->count;
    pthread_mutex_unlock(&s->mutex);
    return count;
}

/* ---- in and out ---- */

static void list(struct response_store *s, struct kept_response *k) {
    struct kept_response **bucket = bucket_of(s, k->number);
    k->listed = true;
    k->refs++;
    k->chained = *bucket;
    *bucket = k;
    k->older = s->newest;
    *(s->newest ? &s->newest->newer : &s->oldest) = k;
    s->newest = k;
    s->count++;
    count_bytes(s, k);
}

/* Without the room that it had to grow: bytes are counted by what they are. */
static struct buf take_buf(struct buf *from) {
    struct buf taken = {0};
    if (!from)
        return taken;
    taken = *from;
    *from = (struct buf){0};
    char *fitting = taken.cap > taken.len + 1 ? mem_try_realloc(taken.data, taken.len + 1) : NULL;
    if (fitting) {
        taken.data = fitting;
        taken.cap = taken.len + 1;
    }
    return taken;
}

struct kept_response *response_store_add(struct response_store *s,
                                         const struct kept_contents *contents) {
    struct kept_response *k = mem_alloc(sizeof *k);
    *k = (struct kept_response){.refs = 1,
                                .running = contents->running,
                                .background = contents->running,
                                .streams = contents->streams,
                                .number = contents->number,
                                .tenant = contents->tenant,
                                .holder = holder_id(s, contents->tenant, contents->address),
                                .turn_count = contents->turn_count};
    buf_add_bytes(&k->object, contents->object);
    k->items = take_buf(contents->items);
    k->turns = take_buf(contents->turns);
    if (k->object.failed || k->items.failed || k->turns.failed || size_of(k) > s->bytes_max) {
        free_kept(k);
        return NULL;
    }
    pthread_mutex_lock(&s->mutex);
    list(s, k);
    make_room(s);
    pthread_mutex_unlock(&s->mutex);
    return k;
}

struct kept_response *response_store_find(struct response_store *s, struct u128 number,
                                          struct u128 tenant) {
    pthread_mutex_lock(&s->mutex);
    struct kept_response *k = *bucket_of(s, number);
    while (k && !(u128_equal(k->number, number) && u128_equal(k->tenant, tenant)))
        k = k->chained;
    if (k)
        k->refs++;
    pthread_mutex_unlock(&s->mutex);
    return k;
}

void kept_response_put(struct response_store *s, struct kept_response *k) {
    if (!k)
        return;
    pthread_mutex_lock(&s->mutex);
    unref(k);
    pthread_mutex_unlock(&s->mutex);
}

bool response_store_remove(struct response_store *s, struct kept_response *k) {
    pthread_mutex_lock(&s->mutex);
    bool was_listed = k->listed;
    if (was_listed)
        unlist(s, k);
    pthread_mutex_unlock(&s->mutex);
    return was_listed;
}

bool kept_response_cancel(struct response_store *s, struct kept_response *k,
                          void (*rewrite)(struct buf *object)) {
    pthread_mutex_lock(&s->mutex);
    if (k->running) {
        k->running = false;
        k->cancelled = true;
        rewrite(&k->object);
        count_bytes(s, k);
    }
    pthread_mutex_unlock(&s->mutex);
    return k->background;
}

static void add_events(struct kept_response *k, struct bytes events) {
    size_t at = k->events.len;
    buf_add_bytes(&k->events, events);
    while (at < k->events.len) {
        const char *end = memmem(k->events.data + at, k->events.len - at, "\n\n", 2);
        CHECK_MSG(end, "an event without its end");
        at = (size_t)(end + 2 - k->events.data);
        vec_push(&k->ends, at);
    }
}

void kept_response_append(struct response_store *s, struct kept_response *k, struct bytes events) {
    pthread_mutex_lock(&s->mutex);
    if (k->listed && k->running) {
        add_events(k, events);
        count_bytes(s, k);
        make_room(s);
    }
    pthread_mutex_unlock(&s->mutex);
}

void kept_response_end(struct response_store *s, struct kept_response *k,
                       const struct kept_end *end) {
    pthread_mutex_lock(&s->mutex);
    if (k->listed && k->running) {
        k->running = false;
        buf_reset(&k->object);
        buf_add_bytes(&k->object, end->object);
        buf_release(&k->turns);
        k->turns = take_buf(end->turns);
        k->turn_count = end->turn_count;
        add_events(k, end->events);
        count_bytes(s, k);
        make_room(s);
    }
    pthread_mutex_unlock(&s->mutex);
}

/* ---- reading ---- */

static void copy(struct response_store *s, const struct buf *from, struct buf *out) {
    pthread_mutex_lock(&s->mutex);
    buf_add_bytes(out, buf_bytes(from));
    pthread_mutex_unlock(&s->mutex);
}

void kept_response_object(struct response_store *s, struct kept_response *k, struct buf *out) {
    copy(s, &k->object, out);
}

void kept_response_items(struct response_store *s, struct kept_response *k, struct buf *out) {
    copy(s, &k->items, out);
}

struct bytes kept_response_turns(struct response_store *s, struct kept_response *k,
                                 uint32_t *count) {
    pthread_mutex_lock(&s->mutex);
    CHECK(!(k->running && k->listed));
    struct bytes turns = buf_bytes(&k->turns);
    *count = k->turn_count;
    pthread_mutex_unlock(&s->mutex);
    return turns;
}

bool kept_response_events(struct response_store *s, struct kept_response *k, size_t *at, size_t max,
                          struct buf *out) {
    pthread_mutex_lock(&s->mutex);
    size_t low = 0, high = k->ends.count; /* the last end that is at most *at + max */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (k->ends.items[middle] <= *at + max)
            low = middle + 1;
        else
            high = middle;
    }
    size_t end = low ? k->ends.items[low - 1] : 0;
    if (end <= *at && low < k->ends.count)
        end = k->ends.items[low]; /* one that is larger than max */
    if (end > *at) {
        buf_add(out, k->events.data + *at, end - *at);
        *at = end;
    }
    bool more = (k->running && k->listed) || *at < k->events.len;
    pthread_mutex_unlock(&s->mutex);
    return more;
}

bool kept_response_seek(struct response_store *s, struct kept_response *k, uint64_t count,
                        size_t *at) {
    pthread_mutex_lock(&s->mutex);
    bool found = count <= k->ends.count;
    if (found)
        *at = count ? k->ends.items[count - 1] : 0;
    pthread_mutex_unlock(&s->mutex);
    return found;
}

bool kept_response_is_listed(struct response_store *s, struct kept_response *k) {
    pthread_mutex_lock(&s->mutex);
    bool listed = k->listed;
    pthread_mutex_unlock(&s->mutex);
    return listed;
}

bool kept_response_is_dropped(struct response_store *s, struct kept_response *k) {
    pthread_mutex_lock(&s->mutex);
    bool dropped = k->cancelled || !k->listed;
    pthread_mutex_unlock(&s->mutex);
    return dropped;
}

bool kept_response_is_running(struct response_store *s, struct kept_response *k) {
    pthread_mutex_lock(&s->mutex);
    bool running = k->running && k->listed;
    pthread_mutex_unlock(&s->mutex);
    return running;
}

bool kept_response_streams(const struct kept_response *k) {
    return k->streams;
}
