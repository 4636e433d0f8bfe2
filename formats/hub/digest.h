/*
 * digest.h - the hashes that hubs name contents by, of whole files: SHA-256 (Git LFS, Xet,
 * Ollama's registry) and git's SHA-1 of a blob (SHA-1 of "blob LENGTH", a zero byte, the bytes).
 * Both by OpenSSL's libcrypto.
 */
#ifndef FORMATS_HUB_DIGEST_H
#define FORMATS_HUB_DIGEST_H

#include "base/error.h"
#include "formats/hub/listing.h"

enum hub_digest { HUB_SHA256, HUB_GIT_SHA1 };

/* Lower-case hex of the first len bytes of fd. ERR_IO: they cannot be read. */
MUST_CHECK int hub_digest_file(enum hub_digest kind, int fd, uint64_t len, char out[HUB_HASH_MAX],
                               struct error *err);

#endif
