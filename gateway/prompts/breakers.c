#include "gateway/prompts/breakers.h"

#include <pthread.h>

#include "base/hash.h"

enum { LISTS_KEPT = 8 };

struct breaker_cache {
    pthread_mutex_t mutex;
    struct hash_key secret; /* or a client could find two lists that are one */
    struct {
        struct u128 key; /* zero: nothing is kept here */
        struct buf bits;
    } lists[LISTS_KEPT];
    uint32_t next; /* the place that is taken next */
};

struct breaker_cache *breaker_cache_new(void) {
    struct breaker_cache *cache = mem_calloc(1, sizeof *cache);
    struct u128 drawn = random_u128();
    pthread_mutex_init(&cache->mutex, NULL);
    hash_key_init(&cache->secret, &drawn, sizeof drawn);
    return cache;
}

void breaker_cache_free(struct breaker_cache **cache) {
    if (!*cache)
        return;
    for (int i = 0; i < LISTS_KEPT; i++)
        buf_release(&(*cache)->lists[i].bits);
    pthread_mutex_destroy(&(*cache)->mutex);
    mem_free(*cache);
    *cache = NULL;
}

static struct u128 key_of(const struct breaker_cache *cache, const struct bytes *texts,
                          uint32_t count) {
    struct buf all = {0};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t len = (uint32_t)texts[i].len;
        buf_add_bytes(&all, bytes_of(&len, sizeof len));
        buf_add_bytes(&all, texts[i]);
    }
    struct u128 key = hash128_keyed(&cache->secret, all.data, all.len);
    buf_release(&all);
    key.hi |= 1;
    return key;
}

static bool kept(struct breaker_cache *cache, struct u128 key, struct buf *out) {
    bool found = false;
    pthread_mutex_lock(&cache->mutex);
    for (int i = 0; i < LISTS_KEPT && !found; i++) {
        found = u128_equal(cache->lists[i].key, key);
        if (found)
            buf_add_bytes(out, buf_bytes(&cache->lists[i].bits));
    }
    pthread_mutex_unlock(&cache->mutex);
    return found;
}

static void keep(struct breaker_cache *cache, struct u128 key, struct bytes bits) {
    pthread_mutex_lock(&cache->mutex);
    uint32_t at = cache->next++ % LISTS_KEPT;
    cache->lists[at].key = key;
    buf_reset(&cache->lists[at].bits);
    buf_add_bytes(&cache->lists[at].bits, bits);
    pthread_mutex_unlock(&cache->mutex);
}

/* Sets the bits of the tokens that hold this text; false: there are none. */
static bool mark(const struct tokenizer *tokenizer, struct bytes text, uint8_t *bits) {
    uint32_t vocab = tokenizer_vocab_count(tokenizer);
    bool any = false;
    for (uint32_t id = 0; id < vocab; id++) {
        struct bytes token = tokenizer_token_bytes(tokenizer, id);
        if (token.len < text.len || !memmem(token.data, token.len, text.data, text.len))
            continue;
        bits[id / 8] |= (uint8_t)(1u << id % 8);
        any = true;
    }
    return any;
}

int breakers_find(struct breaker_cache *cache, const struct tokenizer *tokenizer,
                  const struct bytes *texts, uint32_t count, bool all, struct buf *out,
                  struct api_error *err) {
    struct u128 key = key_of(cache, texts, count);
    key.lo += all;
    if (kept(cache, key, out))
        return 0;
    size_t bytes = (tokenizer_vocab_count(tokenizer) + 7) / 8;
    uint8_t *bits = mem_calloc(bytes, 1);
    int rc = 0;
    for (uint32_t i = 0; i < count && rc == 0; i++)
        if (!mark(tokenizer, texts[i], bits) && all)
            rc = api_error_set(err, API_BAD_REQUEST, "dry_sequence_breakers",
                               "'dry_sequence_breakers' holds '%.*s', which is in no token of this "
                               "model; give a text that lies within one token",
                               (int)MIN(texts[i].len, (size_t)40), (const char *)texts[i].data);
    if (rc == 0) {
        buf_add_bytes(out, bytes_of(bits, bytes));
        keep(cache, key, bytes_of(bits, bytes));
    }
    mem_free(bits);
    return rc;
}
