#include "text/tokenizer/vocab.h"

#include <stdio.h>

#include "base/hash.h"
#include "base/utf8.h"

/* ---- byte alphabet: bytes 33-126, 161-172, 174-255 stand for themselves, the other 68, in order,
 * for U+0100 and up ---- */

static bool is_plain(uint32_t b) {
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
}

static uint32_t alphabet_char(uint32_t b) {
    if (is_plain(b))
        return b;
    return b <= 32 ? 256 + b : b <= 160 ? 256 + 33 + b - 127 : 256 + 67;
}

/* Into out, which has room for s.len bytes. Returns the bytes written, SIZE_MAX when s has
 * others. */
static size_t alphabet_to_bytes(struct bytes s, uint8_t *out) {
    if (!s.len)
        return 0;
    const uint8_t *p = s.data, *end = s.data + s.len;
    uint8_t *to = out;
    while (p < end) {
        uint32_t c = *p++;
        if (c - 33 <= 93) {
            *to++ = (uint8_t)c;
            continue;
        }
        int byte = p < end ? byte_alphabet_byte((uint8_t)c, *p++) : -1;
        if (byte < 0)
            return SIZE_MAX;
        *to++ = (uint8_t)byte;
    }
    return (size_t)(to - out);
}

bool byte_alphabet_to_bytes(struct bytes s, struct buf *out) {
    if (!s.len)
        return true;
    buf_reserve(out, s.len);
    if (out->failed)
        return false;
    size_t n = alphabet_to_bytes(s, (uint8_t *)out->data + out->len);
    if (n == SIZE_MAX)
        return false;
    out->len += n;
    out->data[out->len] = 0;
    return true;
}

size_t byte_alphabet_to_bytes_over(uint8_t *s, size_t len) {
    uint8_t short_one[64], *raw = len <= sizeof short_one ? short_one : mem_alloc(len);
    size_t n = alphabet_to_bytes(bytes_of(s, len), raw);
    if (n != SIZE_MAX)
        memcpy(s, raw, n);
    if (raw != short_one)
        mem_free(raw);
    return n;
}

void byte_alphabet_to_text(struct bytes raw, struct buf *out) {
    for (size_t i = 0; i < raw.len; i++) {
        char utf8[4];
        buf_add(out, utf8, utf8_encode(alphabet_char(raw.data[i]), utf8));
    }
}

/* ---- entries ---- */

void vocab_init(struct vocab *v) {
    *v = (struct vocab){0};
    buf_init(&v->pool, VOCAB_ABSENT - 1);
    v->id_limit = VOCAB_IDS_MAX;
    random_bytes(&v->seed, sizeof v->seed);
}

void vocab_release(struct vocab *v) {
    buf_release(&v->pool);
    vec_release(&v->entries);
    vec_release(&v->aliases);
    mem_free(v->flags);
    mem_free(v->slots);
    *v = (struct vocab){0};
}

int vocab_claim(struct vocab *v, size_t start, uint32_t id, struct error *err) {
    CHECK(start <= v->pool.len);
    if (v->pool.failed)
        return error_set(err, ERR_LIMIT, "the vocabulary is larger than 4 GB");
    size_t len = v->pool.len - start;
    if (id >= v->id_limit)
        return error_set(err, ERR_LIMIT, "token id %u is too large (at most %u)", id,
                         v->id_limit - 1);
    if (len > VOCAB_TOKEN_BYTES_MAX)
        return error_set(err, ERR_LIMIT, "token %u is %zu bytes long", id, len);
    if (id >= v->entries.count) {
        vec_reserve(&v->entries, (size_t)id + 1);
        for (size_t i = v->entries.count; i <= id; i++)
            v->entries.items[i] = (struct vocab_entry){VOCAB_ABSENT, 0};
        v->entries.count = (size_t)id + 1;
    }
    v->entries.items[id] = (struct vocab_entry){(uint32_t)start, (uint32_t)len};
    return 0;
}

int vocab_add(struct vocab *v, struct bytes spelling, uint32_t id, struct error *err) {
    size_t start = v->pool.len;
    buf_add_bytes(&v->pool, spelling);
    return vocab_claim(v, start, id, err);
}

/* ---- index ---- */

static struct bytes entry_key(const struct vocab *v, struct vocab_entry e) {
    return bytes_of(v->pool.data + e.start, e.len);
}

/* By its flags, some of which encoding sets meanwhile. */
static bool is_literal(const struct vocab *v, uint32_t id) {
    return __atomic_load_n(&v->flags[id], __ATOMIC_RELAXED) & (VOCAB_LITERAL | VOCAB_LATER);
}

enum { SLOT_ID = (1 << 24) - 1, SLOT_ALIAS = 2 };

/* Where the search for a key of this hash begins. */
static inline uint32_t slot_of(const struct vocab *v, uint64_t hash) {
    return (uint32_t)((hash >> 32) * v->slot_count >> 32);
}

/* Odd, so that it is neither 0 nor that of an alias. */
static uint32_t slot_tag(uint64_t hash) {
    return ((uint32_t)hash >> 24) | 1;
}

static bool is_alias(uint32_t slot) {
    return slot >> 24 == SLOT_ALIAS;
}

static uint32_t slot_id(const struct vocab *v, uint32_t slot) {
    if (!slot)
        return UINT32_MAX;
    return is_alias(slot) ? v->aliases.items[slot & SLOT_ID].id : slot & SLOT_ID;
}

static struct bytes slot_key(const struct vocab *v, uint32_t slot) {
    uint32_t i = slot & SLOT_ID;
    return entry_key(v, is_alias(slot) ? v->aliases.items[i].key : v->entries.items[i]);
}

/* Most keys are short: a call would take longer. */
static inline bool keys_equal(struct bytes a, struct bytes b) {
    uint64_t x[2] = {0}, y[2] = {0};
    if (a.len != b.len)
        return false;
    if (a.len > 16 || !a.len)
        return bytes_equal(a, b);
    if (a.len >= 8) {
        memcpy(&x[0], a.data, 8);
        memcpy(&y[0], b.data, 8);
        memcpy(&x[1], a.data + a.len - 8, 8);
        memcpy(&y[1], b.data + b.len - 8, 8);
    } else if (a.len >= 4) {
        memcpy(&x[0], a.data, 4);
        memcpy(&y[0], b.data, 4);
        memcpy(&x[1], a.data + a.len - 4, 4);
        memcpy(&y[1], b.data + b.len - 4, 4);
    } else {
        return a.data[0] == b.data[0] && a.data[a.len / 2] == b.data[a.len / 2] &&
               a.data[a.len - 1] == b.data[a.len - 1];
    }
    return !((x[0] ^ y[0]) | (x[1] ^ y[1]));
}

static bool slot_holds(const struct vocab *v, uint32_t slot, struct bytes key, bool literal) {
    uint32_t i = slot & SLOT_ID;
    return keys_equal(slot_key(v, slot), key) &&
           literal == (is_alias(slot) ? v->aliases.items[i].literal : is_literal(v, i));
}

static uint32_t next_slot(const struct vocab *v, uint32_t slot) {
    return slot + 1 < v->slot_count ? slot + 1 : 0;
}

/* The slot that holds the key, or the empty one where it belongs. */
static uint32_t *find_slot(const struct vocab *v, struct bytes key, bool literal, uint64_t h) {
    uint32_t tag = slot_tag(h);
    for (uint32_t i = slot_of(v, h);; i = next_slot(v, i)) {
        uint32_t slot = v->slots[i];
        bool likely = slot >> 24 == tag || is_alias(slot);
        if (!slot || (likely && slot_holds(v, slot, key, literal)))
            return &v->slots[i];
    }
}

/* Where the id's key is, or belongs; value: the slot for the id there. */
static uint32_t *slot_of_id(const struct vocab *v, uint32_t id, uint32_t *value) {
    struct bytes key = vocab_key(v, id);
    uint64_t h = vocab_hash(v, key.data, key.len);
    *value = slot_tag(h) << 24 | id;
    return find_slot(v, key, is_literal(v, id), h);
}

static void index_id(struct vocab *v, uint32_t id) {
    uint32_t value, *slot = slot_of_id(v, id, &value);
    if (!v->keep_first || !*slot)
        *slot = value;
}

static void make_slots(struct vocab *v, size_t count) {
    v->slot_count = (uint32_t)(count + count / 2 + 16);
    v->slots = mem_calloc(v->slot_count, sizeof *v->slots);
}

/* A batch of ids at a time, so that their slots are loaded together. */
static void build_index(struct vocab *v) {
    enum { BATCH = 32 };
    uint32_t count = (uint32_t)v->entries.count;
    make_slots(v, count);
    for (uint32_t first = 0, end; first < count; first = end) {
        end = first + MIN(count - first, (uint32_t)BATCH);
        for (uint32_t id = first; id < end; id++) {
            struct bytes key = vocab_key(v, id);
            __builtin_prefetch(&v->slots[slot_of(v, vocab_hash(v, key.data, key.len))], 1);
        }
        for (uint32_t id = first; id < end; id++)
            if (v->entries.items[id].start != VOCAB_ABSENT)
                index_id(v, id);
    }
}

/* More slots for the same keys. */
static void grow_index(struct vocab *v, size_t count) {
    uint32_t *old = v->slots, old_count = v->slot_count;
    make_slots(v, count);
    for (uint32_t i = 0; i < old_count; i++) {
        if (!old[i])
            continue;
        struct bytes key = slot_key(v, old[i]);
        uint32_t at = slot_of(v, vocab_hash(v, key.data, key.len));
        while (v->slots[at])
            at = next_slot(v, at);
        v->slots[at] = old[i];
    }
    mem_free(old);
}

/* ---- sealing ---- */

/* A spelling becomes raw bytes in place. */
static void read_spelling(struct vocab *v, uint32_t id) {
    struct vocab_entry *e = &v->entries.items[id];
    size_t len = byte_alphabet_to_bytes_over((uint8_t *)v->pool.data + e->start, e->len);
    if (len == SIZE_MAX)
        v->flags[id] |= VOCAB_LITERAL;
    else
        e->len = (uint32_t)len;
}

/* True when keys lie in the pool in the order of their ids. */
static bool in_order(const struct vocab *v) {
    uint32_t end = 0;
    for (size_t i = 0; i < v->entries.count; i++) {
        struct vocab_entry e = v->entries.items[i];
        if (e.start == VOCAB_ABSENT)
            continue;
        if (e.start < end)
            return false;
        end = e.start + e.len;
    }
    return true;
}

/* Raw bytes are shorter than spellings: keys in order come to lie side by side. */
static void read_spellings(struct vocab *v) {
    bool packs = in_order(v);
    uint32_t end = 0;
    for (uint32_t id = 0; id < v->entries.count; id++) {
        struct vocab_entry *e = &v->entries.items[id];
        if (e->start == VOCAB_ABSENT)
            continue;
        if (!(v->flags[id] & VOCAB_LITERAL))
            read_spelling(v, id);
        if (!packs)
            continue;
        memmove(v->pool.data + end, v->pool.data + e->start, e->len);
        e->start = end;
        end += e->len;
    }
    if (packs)
        v->pool.len = end;
}

/* Gives back what reading reserved. */
static void trim(struct vocab *v) {
    if (v->pool.data)
        v->pool.data = mem_realloc(v->pool.data, v->pool.cap = v->pool.len + 1);
    if (v->entries.count)
        v->entries.items =
            mem_realloc(v->entries.items, v->entries.count * sizeof *v->entries.items);
    v->entries.cap = v->entries.count;
}

static void seal(struct vocab *v, bool byte_level, bool spelled, const uint8_t *flags) {
    v->byte_level = byte_level;
    v->flags = mem_calloc(MAX(v->entries.count, (size_t)1), 1);
    if (flags && v->entries.count)
        memcpy(v->flags, flags, v->entries.count);
    if (spelled)
        read_spellings(v);
    trim(v);
    build_index(v);
}

void vocab_seal(struct vocab *v, bool byte_level) {
    seal(v, byte_level, byte_level, NULL);
}
void vocab_seal_raw(struct vocab *v) {
    seal(v, true, false, NULL);
}
void vocab_seal_flagged(struct vocab *v, bool byte_level, const uint8_t *flags) {
    seal(v, byte_level, byte_level, flags);
}

/* The id is about to have another key: its own is found still. */
static void make_alias(struct vocab *v, uint32_t id) {
    uint32_t value, *slot = slot_of_id(v, id, &value);
    if (*slot != value)
        return;
    vec_push(&v->aliases, ((struct vocab_alias){v->entries.items[id], id, is_literal(v, id)}));
    *slot = (uint32_t)SLOT_ALIAS << 24 | (uint32_t)(v->aliases.count - 1);
}

int vocab_add_sealed(struct vocab *v, struct bytes spelling, uint32_t id, struct error *err) {
    size_t before = v->entries.count;
    if (id < before && v->entries.items[id].start != VOCAB_ABSENT)
        make_alias(v, id);
    int rc = vocab_add(v, spelling, id, err);
    if (rc)
        return rc;
    if (v->entries.count > before) {
        v->flags = mem_realloc(v->flags, v->entries.count);
        memset(v->flags + before, 0, v->entries.count - before);
    }
    v->flags[id] = VOCAB_LATER;
    if (v->byte_level)
        read_spelling(v, id);
    size_t keys = v->entries.count + v->aliases.count;
    if (keys + keys / 3 > v->slot_count)
        grow_index(v, keys + keys / 4);
    index_id(v, id);
    return 0;
}

/* ---- lookup ---- */

uint32_t vocab_find(const struct vocab *v, const uint8_t *key, size_t len) {
    return slot_id(v, *find_slot(v, bytes_of(key, len), false, vocab_hash(v, key, len)));
}

/* Mostly the first slot has the key. */
static inline uint32_t find_plain(const struct vocab *v, const struct vocab_lookup *l) {
    struct bytes key = bytes_of(l->key, l->len);
    uint32_t slot = v->slots[slot_of(v, l->hash)], id = slot & SLOT_ID;
    if (slot >> 24 == slot_tag(l->hash) && keys_equal(entry_key(v, v->entries.items[id]), key) &&
        !is_literal(v, id))
        return id;
    return slot ? slot_id(v, *find_slot(v, key, false, l->hash)) : UINT32_MAX;
}

void vocab_find_many(const struct vocab *v, struct vocab_lookup *lookups, size_t count) {
    for (size_t i = 0; i < count; i++) {
        lookups[i].hash = vocab_hash(v, lookups[i].key, lookups[i].len);
        __builtin_prefetch(&v->slots[slot_of(v, lookups[i].hash)]);
    }
    for (size_t i = 0; i < count; i++)
        lookups[i].id = find_plain(v, &lookups[i]);
}

static uint32_t find_literal(const struct vocab *v, struct bytes spelling) {
    return slot_id(v, *find_slot(v, spelling, true, vocab_hash(v, spelling.data, spelling.len)));
}

uint32_t vocab_find_spelling(const struct vocab *v, struct bytes spelling) {
    if (!v->byte_level) {
        uint32_t found = vocab_find(v, spelling.data, spelling.len);
        return found != UINT32_MAX ? found : find_literal(v, spelling);
    }
    struct buf raw;
    buf_init(&raw, 0);
    bool plain = byte_alphabet_to_bytes(spelling, &raw);
    struct bytes key = plain ? bytes_of(buf_text(&raw), raw.len) : spelling;
    uint32_t id = plain ? vocab_find(v, key.data, key.len) : UINT32_MAX;
    if (id == UINT32_MAX)
        id = find_literal(v, key);
    if (id == UINT32_MAX && plain)
        id = find_literal(v, spelling);
    buf_release(&raw);
    return id;
}

void vocab_find_byte_tokens(const struct vocab *v, uint32_t out[256]) {
    for (unsigned i = 0; i < 256; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", i);
        out[i] = vocab_find_spelling(v, bytes_str(name));
    }
}

void vocab_spelling(const struct vocab *v, uint32_t id, struct buf *out) {
    struct bytes key = vocab_key(v, id);
    if (v->byte_level && id < v->entries.count && !(v->flags[id] & VOCAB_LITERAL))
        byte_alphabet_to_text(key, out);
    else
        buf_add_bytes(out, key);
}
