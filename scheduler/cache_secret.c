#include "scheduler/cache_secret.h"

#include <sys/stat.h>

#include "base/fsutil.h"

static int check_mode(const char *path, struct error *err) {
    struct stat st;
    if (stat(path, &st) != 0)
        return error_set_errno(err, "cannot look at '%s'", path);
    if (st.st_mode & 0077)
        return error_set(err, ERR_INVALID,
                         "secret '%s' may be read by others (mode %04o); make it 0600", path,
                         (unsigned)(st.st_mode & 07777));
    return 0;
}

static int make_secret(const char *path, struct error *err) {
    uint8_t material[CACHE_SECRET_BYTES];
    random_bytes(material, sizeof material);
    return file_write_atomic(path, material, sizeof material, 0600, err);
}

int cache_secret_load(const char *path, struct hash_key *key, struct error *err) {
    struct buf material;
    int rc = file_exists(path) ? 0 : make_secret(path, err);
    if (!rc)
        rc = check_mode(path, err);
    if (rc)
        return rc;
    buf_init(&material, 0);
    rc = file_read(path, CACHE_SECRET_BYTES, &material, err);
    if (!rc && material.len != CACHE_SECRET_BYTES)
        rc = error_set(err, ERR_INVALID,
                       "secret '%s' has %zu bytes, not %d; remove it to have a new one made", path,
                       material.len, CACHE_SECRET_BYTES);
    if (!rc)
        hash_key_init(key, material.data, material.len);
    if (material.data)
        explicit_bzero(material.data, material.len);
    buf_release(&material);
    return rc;
}
