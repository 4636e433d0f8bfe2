#include "gateway/auth.h"

#include "base/fsutil.h"
#include "base/hash.h"

#include <stdlib.h>

enum { PRIORITY_MOST = 1000000 };

/* "KEY priority-min=N": takes what stands behind the key. */
static int take_terms(struct auth_key *key, const char *text, size_t *len, struct error *err) {
    static const char word[] = " priority-min=";
    const char *at = memmem(text, *len, word, sizeof word - 1);
    char number[24] = "", *end;
    if (!at)
        return 0;
    const char *first = at + sizeof word - 1;
    size_t digits = (size_t)(text + *len - first);
    if (digits < sizeof number)
        memcpy(number, first, digits);
    key->priority_min = strtoll(number, &end, 10);
    if (!*number || *end || key->priority_min < -PRIORITY_MOST || key->priority_min > PRIORITY_MOST)
        return error_set(err, ERR_INVALID,
                         "behind an API key stands no number from -%d to %d: 'priority-min=%s'",
                         PRIORITY_MOST, PRIORITY_MOST, number);
    key->has_priority_min = true;
    *len = (size_t)(at - text);
    while (*len && strchr(" \t", text[*len - 1]))
        --*len;
    return 0;
}

/* terms: of a file, where more may stand behind a key. */
static int add_key(struct auth *a, const char *text, size_t len, bool terms, struct error *err) {
    while (len && (*text == ' ' || *text == '\t'))
        text++, len--;
    while (len && strchr(" \t\r", text[len - 1]))
        len--;
    if (len == 0)
        return 0;
    struct auth_key key = {0};
    if (terms && take_terms(&key, text, &len, err))
        return err->code;
    if (a->key_count == AUTH_KEYS_MAX)
        return error_set(err, ERR_LIMIT, "more than %d API keys", AUTH_KEYS_MAX);
    if (len > AUTH_KEY_BYTES_MAX)
        return error_set(err, ERR_LIMIT, "an API key is longer than %d bytes", AUTH_KEY_BYTES_MAX);
    a->keys = mem_realloc(a->keys, (a->key_count + 1) * sizeof *a->keys);
    key.text = mem_strndup(text, len);
    key.tenant = hash128(text, len, 0);
    a->keys[a->key_count++] = key;
    return 0;
}

static int add_keys(struct auth *a, const char *text, char separator, bool file,
                    struct error *err) {
    while (text && *text) {
        const char *end = strchr(text, separator);
        size_t len = end ? (size_t)(end - text) : strlen(text);
        if (!(file && *text == '#') && add_key(a, text, len, file, err))
            return err->code;
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
        rc = file_read_any(path, (size_t)1 << 20, &file, err);
        if (rc == 0)
            rc = add_keys(a, buf_text(&file), '\n', true, err);
        if (rc == 0 && a->key_count == 0)
            rc = error_set(err, ERR_INVALID, "no API key in '%s'", path);
    }
    buf_release(&file);
    if (rc)
        auth_release(a);
    return rc;
}

void auth_release(struct auth *a) {
    for (size_t i = 0; i < a->key_count; i++)
        mem_free(a->keys[i].text);
    mem_free(a->keys);
    *a = (struct auth){0};
}

/* Looks at every byte of what was given, whatever the key. */
static bool equal_in_constant_time(const char *key, struct bytes given) {
    size_t len = strlen(key);
    volatile unsigned diff = len != given.len;
    for (size_t i = 0; i < given.len; i++)
        diff |= (unsigned char)key[i % len] ^ given.data[i];
    return diff == 0;
}

/* The key behind "Bearer "; empty: another scheme. */
static struct bytes bearer_key(struct bytes header) {
    static const char scheme[] = "bearer ";
    size_t scheme_len = sizeof scheme - 1;
    if (header.len <= scheme_len)
        return bytes_of(NULL, 0);
    for (size_t i = 0; i < scheme_len; i++)
        if ((header.data[i] | 0x20) != scheme[i])
            return bytes_of(NULL, 0);
    return bytes_of(header.data + scheme_len, header.len - scheme_len);
}

bool auth_check(const struct auth *a, struct bytes authorization, struct bytes api_key,
                struct u128 *tenant) {
    bool found = false;
    *tenant = (struct u128){0};
    if (auth_is_open(a))
        return true;
    struct bytes given = bearer_key(authorization);
    if (given.len == 0)
        given = api_key;
    if (given.len == 0 || given.len > AUTH_KEY_BYTES_MAX)
        return false;
    for (size_t i = 0; i < a->key_count; i++)
        found |= equal_in_constant_time(a->keys[i].text, given);
    if (found)
        *tenant = hash128(given.data, given.len, 0);
    return found;
}

int64_t auth_priority_min(const struct auth *a, struct u128 tenant, int64_t fallback) {
    for (size_t i = 0; i < a->key_count; i++)
        if (a->keys[i].has_priority_min && u128_equal(a->keys[i].tenant, tenant))
            return a->keys[i].priority_min;
    return fallback;
}
