/*
 * hash.h - xxHash behind our own names: 64-bit and 128-bit, seeded or keyed. Not for adversaries unless keyed with a
 * secret.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include "base/base.h"

uint64_t hash64(const void *data, size_t len, uint64_t seed);
struct u128 hash128(const void *data, size_t len, uint64_t seed);

/* A secret of the deployment, expanded once (XXH3 secret, 192 bytes). */
struct hash_key {
    uint8_t secret[192];
};
void hash_key_init(struct hash_key *key, const void *material, size_t len);
struct u128 hash128_keyed(const struct hash_key *key, const void *data, size_t len);

/* Streaming 128-bit hash, for files. */
struct hash_stream;
struct hash_stream *hash_stream_new(void);
void hash_stream_add(struct hash_stream *h, const void *data, size_t len);
struct u128 hash_stream_end(const struct hash_stream *h);
void hash_stream_free(struct hash_stream **h);

/* 32 lower-case hex digits and a zero. */
enum { U128_TEXT_MAX = 33 };
void u128_text(struct u128 v, char out[U128_TEXT_MAX]);
MUST_CHECK int u128_parse(const char *hex, struct u128 *out); /* 0 or ERR_INVALID */
/* Random bytes from the kernel; CHECKs that they came. */
void random_bytes(void *out, size_t len);
struct u128 random_u128(void); /* never zero */

#endif
