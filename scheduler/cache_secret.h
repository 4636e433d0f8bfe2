/*
 * cache_secret.h - the secret that block hashes are keyed with, in a file that outlives schedulers.
 *
 * Made when missing (32 random bytes, mode 0600). A new secret is no harm but a cold cache: blocks
 * that workers still hold are then not found.
 */
#ifndef SCHEDULER_CACHE_SECRET_H
#define SCHEDULER_CACHE_SECRET_H

#include "base/error.h"
#include "base/hash.h"

enum { CACHE_SECRET_BYTES = 32 };
/* Reads the file, or makes it. ERR_INVALID when it is not a secret's size or others may read it;
 * ERR_IO. */
MUST_CHECK int cache_secret_load(const char *path, struct hash_key *key, struct error *err);

#endif
