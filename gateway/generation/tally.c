#include "gateway/generation/tally.h"

#include "base/hash.h"

struct tally_holder {
    struct tally_holder *next;
    struct u128 id;
    uint64_t amount;
};

static size_t bucket_of(struct u128 id) {
    return hash64(&id, sizeof id, 0) % TALLY_BUCKETS;
}

/* Where the holder is linked, or would be. */
static struct tally_holder **find(struct tally *t, struct u128 id) {
    struct tally_holder **at = &t->buckets[bucket_of(id)];
    while (*at && !u128_equal((*at)->id, id))
        at = &(*at)->next;
    return at;
}

uint64_t tally_of(const struct tally *t, struct u128 id) {
    const struct tally_holder *h = t->buckets[bucket_of(id)];
    while (h && !u128_equal(h->id, id))
        h = h->next;
    return h ? h->amount : 0;
}

void tally_add(struct tally *t, struct u128 id, uint64_t amount) {
    struct tally_holder **at = find(t, id);
    if (!amount)
        return;
    if (!*at) {
        *at = mem_alloc(sizeof **at);
        **at = (struct tally_holder){.id = id};
        t->holder_count++;
    }
    (*at)->amount += amount;
    t->total += amount;
}

void tally_subtract(struct tally *t, struct u128 id, uint64_t amount) {
    struct tally_holder **at = find(t, id), *h = *at;
    if (!amount)
        return;
    CHECK(h && h->amount >= amount && t->total >= amount);
    h->amount -= amount;
    t->total -= amount;
    if (h->amount)
        return;
    *at = h->next;
    mem_free(h);
    t->holder_count--;
}
