/*
 * json_scan.c - one strict pass over a body: the reader's grammar, and no key twice in an object.
 *
 * Keys are kept on a stack as keyed hashes with their place in the text, an object's own on top of
 * its parents'; they are compared when the object closes, pairwise when they are few, else through
 * a table. So memory follows the keys of the open objects only, time is linear, and the secret of
 * the hash keeps a client from choosing keys that collide.
 */
#include "formats/json.h"

#include "base/hash.h"
#include "base/vec.h"

#include <pthread.h>

enum { FEW_KEYS = 12, KEY_SHOWN_MAX = 64, OPEN_KEYS_MAX = 1 << 18 };

struct seen_key {
    uint64_t hash;
    uint64_t offset; /* of its opening quote */
};

struct scan {
    struct json_reader reader;
    VEC(struct seen_key) keys;
    VEC(uint32_t) table; /* key index + 1, or 0 */
    /* index in keys of the first key of the object at that depth */
    size_t first[JSON_DEPTH_MAX + 1];
};

static struct hash_key secret;
static void make_secret(void) {
    uint8_t material[32];
    random_bytes(material, sizeof material);
    hash_key_init(&secret, material, sizeof material);
}

/* The key's decoded text: read again from its offset. */
static bool keys_equal(const struct scan *s, const struct seen_key *a, const struct seen_key *b) {
    struct json_reader ra, rb;
    struct bytes text = bytes_of(s->reader.start, (size_t)(s->reader.end - s->reader.start));
    json_reader_init(&ra, bytes_of(text.data + a->offset, text.len - a->offset), 0, 0);
    json_reader_init(&rb, bytes_of(text.data + b->offset, text.len - b->offset), 0, 0);
    bool equal = json_next(&ra) == JSON_STRING && json_next(&rb) == JSON_STRING &&
                 bytes_equal(ra.text, rb.text);
    json_reader_release(&ra);
    json_reader_release(&rb);
    return equal;
}

static int repeated(const struct scan *s, const struct seen_key *key, struct error *err) {
    const uint8_t *at = s->reader.start + key->offset;
    size_t len = 1, have = (size_t)(s->reader.end - at);
    while (len < have && len < KEY_SHOWN_MAX && at[len] != '"')
        len += at[len] == '\\' ? 2 : 1;
    while (len < have && (at[len] & 0xc0) == 0x80)
        len++;
    len = MIN(len, have);
    return error_set(err, ERR_INVALID, "repeated key %.*s\" at byte %llu", (int)len,
                     (const char *)at, (unsigned long long)key->offset);
}

static int check_few(const struct scan *s, const struct seen_key *keys, size_t count,
                     struct error *err) {
    for (size_t i = 1; i < count; i++)
        for (size_t j = 0; j < i; j++)
            if (keys[i].hash == keys[j].hash && keys_equal(s, &keys[i], &keys[j]))
                return repeated(s, &keys[i], err);
    return 0;
}

static int check_many(struct scan *s, const struct seen_key *keys, size_t count,
                      struct error *err) {
    size_t slot_count = 32;
    while (slot_count < count * 2)
        slot_count *= 2;
    vec_reserve(&s->table, slot_count);
    memset(s->table.items, 0, slot_count * sizeof *s->table.items);
    for (size_t i = 0; i < count; i++) {
        size_t slot = keys[i].hash & (slot_count - 1);
        for (uint32_t other; (other = s->table.items[slot]) != 0;
             slot = (slot + 1) & (slot_count - 1))
            if (keys[other - 1].hash == keys[i].hash && keys_equal(s, &keys[other - 1], &keys[i]))
                return repeated(s, &keys[i], err);
        s->table.items[slot] = (uint32_t)i + 1;
    }
    return 0;
}

/* An object has ended: its keys are the top of the stack. */
static int check_keys(struct scan *s, struct error *err) {
    size_t first = s->first[s->reader.depth + 1], count = s->keys.count - first;
    if (!count)
        return 0;
    const struct seen_key *keys = s->keys.items + first;
    s->keys.count = first;
    return count <= FEW_KEYS ? check_few(s, keys, count, err) : check_many(s, keys, count, err);
}

static int note_key(struct scan *s, struct error *err) {
    if (s->keys.count == OPEN_KEYS_MAX)
        return error_set(err, ERR_LIMIT, "more than %d keys", OPEN_KEYS_MAX);
    struct seen_key key = {hash128_keyed(&secret, s->reader.text.data, s->reader.text.len).lo,
                           s->reader.offset};
    vec_push(&s->keys, key);
    return 0;
}

static int scan_events(struct scan *s, struct error *err) {
    for (;;) {
        int rc = 0;
        switch (json_next(&s->reader)) {
        case JSON_ERROR:
            if (err)
                *err = s->reader.error;
            return s->reader.error.code;
        case JSON_END: return 0;
        case JSON_OBJECT_BEGIN: s->first[s->reader.depth] = s->keys.count; break;
        case JSON_OBJECT_END: rc = check_keys(s, err); break;
        case JSON_KEY: rc = note_key(s, err); break;
        default: break;
        }
        if (rc)
            return rc;
    }
}

int json_scan(struct bytes text, uint32_t depth_max, struct error *err) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct scan s;
    pthread_once(&once, make_secret);
    if (text.len > UINT32_MAX)
        return error_set(err, ERR_LIMIT, "text longer than 4 GB");
    memset(&s.keys, 0, sizeof s.keys);
    memset(&s.table, 0, sizeof s.table);
    json_reader_init(&s.reader, text, depth_max, 0);
    int rc = scan_events(&s, err);
    json_reader_release(&s.reader);
    vec_release(&s.keys);
    vec_release(&s.table);
    return rc;
}
