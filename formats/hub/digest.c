#include "formats/hub/digest.h"

#ifdef TRIREME_HAVE_HUB

#include "formats/hub/libraries.h"

#include <stdio.h>
#include <unistd.h>

enum { CHUNK_BYTES = 1 << 20 };

static int add_bytes(EVP_MD_CTX *md, int fd, uint64_t len, struct error *err) {
    uint8_t *chunk = mem_alloc(CHUNK_BYTES);
    int rc = 0;
    for (uint64_t at = 0; !rc && at < len;) {
        ssize_t got = pread(fd, chunk, (size_t)MIN(len - at, (uint64_t)CHUNK_BYTES), (off_t)at);
        if (got < 0)
            rc = error_set_errno(err, "cannot read what was downloaded");
        else if (!got)
            rc = error_set(err, ERR_IO, "what was downloaded is shorter than it was");
        else
            CHECK(EVP_DigestUpdate(md, chunk, (size_t)got) == 1);
        at += got > 0 ? (uint64_t)got : 0;
    }
    mem_free(chunk);
    return rc;
}

int hub_digest_file(enum hub_digest kind, int fd, uint64_t len, char out[HUB_HASH_MAX],
                    struct error *err) {
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned digest_len = 0;
    char head[40];
    int rc = hub_libraries_open(err);
    if (rc)
        return rc;
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    CHECK(md && EVP_DigestInit_ex(md, kind == HUB_SHA256 ? EVP_sha256() : EVP_sha1(), NULL) == 1);
    if (kind == HUB_GIT_SHA1) {
        int head_len = snprintf(head, sizeof head, "blob %llu", (unsigned long long)len);
        CHECK(EVP_DigestUpdate(md, head, (size_t)head_len + 1) == 1);
    }
    rc = add_bytes(md, fd, len, err);
    CHECK(EVP_DigestFinal_ex(md, digest, &digest_len) == 1 && digest_len * 2 < HUB_HASH_MAX);
    for (unsigned i = 0; i < digest_len; i++)
        snprintf(out + (size_t)2 * i, 3, "%02x", digest[i]);
    EVP_MD_CTX_free(md);
    return rc;
}

#else

int hub_digest_file(enum hub_digest kind, int fd, uint64_t len, char out[HUB_HASH_MAX],
                    struct error *err) {
    return error_set(err, ERR_UNSUPPORTED, "this build has no OpenSSL");
}

#endif
