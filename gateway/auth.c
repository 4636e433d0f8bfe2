#include "gateway/auth.h"

#include "base/fsutil.h"
#include "base/hash.h"

static int add_key(struct auth *a, const char *text, size_t len, struct error *err) {
    while (len && (*text == ' ' || *text == '\t')) text++, len--;
    while (len && strchr(" \t\r", text[len - 1])) len--;
    if (len == 0) return 0;
    if (a->key_count == AUTH_KEYS_MAX) return error_set(err, ERR_LIMIT, "more than %d API keys", AUTH_KEYS_MAX);
    if (len > AUTH_KEY_BYTES_MAX)
        return error_set(err, ERR_LIMIT, "an API key is longer than %d bytes", AUTH_KEY_BYTES_MAX);
    a->keys = mem_realloc(a->keys, (a->key_count + 1) * sizeof *a->keys);
    a->keys[a->key_count++] = mem_strndup(text, len);
    return 0;
}

static int add_keys(struct auth *a, const char *text, char separator, bool comments, struct error *err) {
    while (text && *text) {
        const char *end = strchr(text, separator);
        size_t len = end ? (size_t)(end - text) : strlen(text);
        if (!(comments && *text == '#') && add_key(a, text, len, err)) return err->code;
        text = end ? end + 1 : NULL;
    }
    return 0;
}

int auth_init(struct auth *a, const char *list, const char *path, struct error *err) {
    struct buf file;
    *a = (struct auth){0};
    buf_init(&file, 0);
    int rc = add_keys(a, list, ',', false, err);
    if (rc == 0 && path && *path) {
        rc = file_read(path, (size_t)1 << 20, &file, err);
        if (rc == 0) rc = add_keys(a, buf_text(&file), '\n', true, err);
        if (rc == 0 && a->key_count == 0) rc = error_set(err, ERR_INVALID, "no API key in '%s'", path);
    }
    buf_release(&file);
    if (rc) auth_release(a);
    return rc;
}

void auth_release(struct auth *a) {
    for (size_t i = 0; i < a->key_count; i++) mem_free(a->keys[i]);
    mem_free(a->keys);
    *a = (struct auth){0};
}

/* Looks at every byte of what was given, whatever the key. */
static bool equal_in_constant_time(const char *key, struct bytes given) {
    size_t len = strlen(key);
    volatile unsigned diff = len != given.len;
    for (size_t i = 0; i < given.len; i++) diff |= (unsigned char)key[i % len] ^ given.data[i];
    return diff == 0;
}

bool auth_check(const struct auth *a, struct bytes header, struct u128 *tenant) {
    static const char scheme[] = "bearer ";
    bool found = false;
    *tenant = (struct u128){0};
    if (auth_is_open(a)) return true;
    if (header.len <= sizeof scheme - 1 || header.len > AUTH_KEY_BYTES_MAX + sizeof scheme) return false;
    for (size_t i = 0; i < sizeof scheme - 1; i++)
        if ((header.data[i] | 0x20) != scheme[i]) return false;
    struct bytes given = bytes_of(header.data + sizeof scheme - 1, header.len - (sizeof scheme - 1));
    for (size_t i = 0; i < a->key_count; i++) found |= equal_in_constant_time(a->keys[i], given);
    if (found) *tenant = hash128(given.data, given.len, 0);
    return found;
}
