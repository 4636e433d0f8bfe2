#include "base/hash.h"

#include "base/error.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <xxhash.h>

_Static_assert(sizeof((struct hash_key){0}.secret) >= XXH3_SECRET_SIZE_MIN,
               "the secret is long enough for XXH3");

static struct u128 from_xxh(XXH128_hash_t h) {
    return (struct u128){.lo = h.low64, .hi = h.high64};
}

uint64_t hash64(const void *data, size_t len, uint64_t seed) {
    return XXH3_64bits_withSeed(data, len, seed);
}

static uint64_t secret_seed;
/* Before main, so that threads only read. */
__attribute__((constructor)) static void draw_secret_seed(void) {
    random_bytes(&secret_seed, sizeof secret_seed);
}

uint64_t hash64_secret(const void *data, size_t len) {
    return XXH3_64bits_withSeed(data, len, secret_seed);
}

struct u128 hash128(const void *data, size_t len, uint64_t seed) {
    return from_xxh(XXH3_128bits_withSeed(data, len, seed));
}

void hash_key_init(struct hash_key *key, const void *material, size_t len) {
    for (uint64_t i = 0; i < sizeof key->secret / 16; i++) {
        XXH128_hash_t word = XXH3_128bits_withSeed(material, len, 0x7472697265u + i);
        memcpy(key->secret + i * 16, &word, 16);
    }
}

struct u128 hash128_keyed(const struct hash_key *key, const void *data, size_t len) {
    return from_xxh(XXH3_128bits_withSecret(data, len, key->secret, sizeof key->secret));
}

struct hasher {
    XXH3_state_t *state; /* owned */
};

struct hasher *hasher_new(void) {
    struct hasher *h = mem_alloc(sizeof *h);
    h->state = XXH3_createState();
    CHECK(h->state);
    CHECK(XXH3_128bits_reset(h->state) == XXH_OK);
    return h;
}

void hasher_add(struct hasher *h, const void *data, size_t len) {
    if (len)
        CHECK(XXH3_128bits_update(h->state, data, len) == XXH_OK);
}

struct u128 hasher_end(const struct hasher *h) {
    return from_xxh(XXH3_128bits_digest(h->state));
}

void hasher_free(struct hasher **h) {
    if (!*h)
        return;
    XXH3_freeState((*h)->state);
    mem_free(*h);
    *h = NULL;
}

void u128_text(struct u128 v, char out[U128_TEXT_MAX]) {
    static const char HEX[] = "0123456789abcdef";
    for (int i = 0; i < 16; i++) {
        out[i] = HEX[(v.hi >> (60 - 4 * i)) & 15];
        out[16 + i] = HEX[(v.lo >> (60 - 4 * i)) & 15];
    }
    out[32] = 0;
}

int u128_parse(const char *hex, struct u128 *out) {
    uint64_t half[2] = {0};
    for (int i = 0; i < 32; i++) {
        int digit = hex_value((uint8_t)hex[i]);
        if (digit < 0)
            return ERR_INVALID;
        half[i / 16] = half[i / 16] << 4 | (uint64_t)digit;
    }
    if (hex[32])
        return ERR_INVALID;
    *out = (struct u128){.hi = half[0], .lo = half[1]};
    return 0;
}

void random_bytes(void *out, size_t len) {
    uint8_t *at = out;
    while (len) {
        ssize_t n = getrandom(at, len, 0);
        if (n < 0 && errno == EINTR)
            continue;
        CHECK_MSG(n > 0, "the kernel gave no random bytes");
        at += n;
        len -= (size_t)n;
    }
}

struct u128 random_u128(void) {
    struct u128 v = {0};
    while (u128_is_zero(v))
        random_bytes(&v, sizeof v);
    return v;
}
