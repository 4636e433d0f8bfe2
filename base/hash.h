/*
 * hash.h - xxHash behind our own names: 64-bit and 128-bit, seeded or keyed. Not for adversaries
 * unless keyed with a secret.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include "base/base.h"

/* XXH3, 64 bits. Anyone who chooses the data can make two texts collide. */
uint64_t hash64(const void *data, size_t len, uint64_t seed);
/* As hash64, with a secret that this process drew at its start: for tables whose keys a client
 * chooses. Another process has another value. */
uint64_t hash64_secret(const void *data, size_t len);
/* XXH3, 128 bits; as hash64. */
struct u128 hash128(const void *data, size_t len, uint64_t seed);

/* A secret of the deployment, expanded once (XXH3 secret, 192 bytes). */
struct hash_key {
    uint8_t secret[192];
};
/* Derives the key from len bytes of material; the same material gives the same key everywhere. */
void hash_key_init(struct hash_key *key, const void *material, size_t len);
/* XXH3, 128 bits, with the key: who does not know it cannot aim at a collision. */
struct u128 hash128_keyed(const struct hash_key *key, const void *data, size_t len);

/* Streaming 128-bit hash, for files. */
struct hasher;
/* Returns owned, with nothing added. */
struct hasher *hasher_new(void);
/* Adds len bytes: how they are cut into calls does not matter. */
void hasher_add(struct hasher *h, const void *data, size_t len);
/* The hash of what was added so far, equal to hash128 of it with seed 0; more may be added. */
struct u128 hasher_end(const struct hasher *h);
/* Frees and clears the pointer; NULL: nothing happens. */
void hasher_free(struct hasher **h);

/* 32 lower-case hex digits and a zero. */
enum { U128_TEXT_MAX = 33 };
/* Writes 32 hex digits and a zero. */
void u128_text(struct u128 v, char out[U128_TEXT_MAX]);
MUST_CHECK int u128_parse(const char *hex, struct u128 *out); /* 0 or ERR_INVALID */
/* Random bytes from the kernel; CHECKs that they came. */
void random_bytes(void *out, size_t len);
struct u128 random_u128(void); /* never zero */

#endif
