#include "text/tokenizer/vocab.h"

#include "base/hash.h"
#include "base/utf8.h"

/* ---- byte alphabet: bytes 33-126, 161-172, 174-255 stand for themselves, the other 68, in order, for U+0100 and up
 * ---- */

static bool is_plain(uint32_t b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255); }

/* The byte that a character of the alphabet stands for, or -1. */
static int alphabet_byte(uint32_t cp) {
    if (cp < 256) return is_plain(cp) ? (int)cp : -1;
    uint32_t i = cp - 256;
    if (i <= 32) return (int)i;
    if (i <= 66) return (int)(127 + i - 33);
    return i == 67 ? 173 : -1;
}

static uint32_t alphabet_char(uint32_t b) {
    if (is_plain(b)) return b;
    return b <= 32 ? 256 + b : b <= 160 ? 256 + 33 + b - 127 : 256 + 67;
}

size_t byte_alphabet_decode_to(struct bytes s, uint8_t *out) {
    size_t n = 0;
    for (size_t i = 0; i < s.len;) {
        uint32_t cp = s.data[i++];
        if (cp >= 0x80) { /* the alphabet ends at U+0143: two bytes each */
            if (cp < 0xC2 || cp > 0xC5 || i == s.len) return SIZE_MAX;
            cp = (cp & 31) << 6 | (s.data[i++] & 63u);
        }
        int byte = alphabet_byte(cp);
        if (byte < 0) return SIZE_MAX;
        if (out) out[n] = (uint8_t)byte;
        n++;
    }
    return n;
}

bool byte_alphabet_decode(struct bytes s, struct buf *out) {
    buf_reserve(out, s.len);
    if (out->failed) return false;
    size_t n = byte_alphabet_decode_to(s, (uint8_t *)out->data + out->len);
    if (n == SIZE_MAX) return false;
    out->len += n;
    out->data[out->len] = 0;
    return true;
}

void byte_alphabet_encode(struct bytes raw, struct buf *out) {
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
    mem_free(v->flags);
    mem_free(v->slots);
    *v = (struct vocab){0};
}

int vocab_claim(struct vocab *v, size_t start, uint32_t id, struct error *err) {
    if (v->pool.failed) return error_set(err, ERR_LIMIT, "the vocabulary is larger than 4 GB");
    size_t len = v->pool.len - start;
    if (id >= v->id_limit)
        return error_set(err, ERR_LIMIT, "token id %u is too large (at most %u)", id, v->id_limit - 1);
    if (len > VOCAB_TOKEN_BYTES_MAX) return error_set(err, ERR_LIMIT, "token %u is %zu bytes long", id, len);
    if (id >= v->entries.count) {
        vec_reserve(&v->entries, (size_t)id + 1);
        for (size_t i = v->entries.count; i <= id; i++) v->entries.items[i] = (struct vocab_entry){VOCAB_ABSENT, 0};
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

/* The slot that holds the key, or the empty one where it belongs. */
static struct vocab_slot *find_slot(const struct vocab *v, const uint8_t *key, size_t len, uint32_t literal,
                                    uint64_t h) {
    uint32_t tag = (uint32_t)(h >> 32), stored_len = (uint32_t)len | literal;
    for (uint32_t i = (uint32_t)h & v->slot_mask;; i = (i + 1) & v->slot_mask) {
        struct vocab_slot *slot = &v->slots[i];
        if (slot->tag == tag && slot->len == stored_len && slot->id != UINT32_MAX &&
            (!len || !memcmp(v->pool.data + slot->start, key, len)))
            return slot;
        if (slot->id == UINT32_MAX) return slot;
    }
}

static void index_id(struct vocab *v, uint32_t id) {
    struct bytes key = vocab_key(v, id);
    uint32_t literal = v->flags[id] & (VOCAB_LITERAL | VOCAB_LATER) ? VOCAB_SLOT_LITERAL : 0;
    uint64_t h = vocab_hash(v, key.data, key.len);
    struct vocab_slot *slot = find_slot(v, key.data, key.len, literal, h);
    if (v->keep_first && slot->id != UINT32_MAX) return;
    *slot = (struct vocab_slot){(uint32_t)(h >> 32), id, v->entries.items[id].start, (uint32_t)key.len | literal};
}

/* Room for `count` keys at most two thirds full; everything is indexed anew. */
static void build_index(struct vocab *v, size_t count) {
    uint32_t size = 16;
    while (size < count + count / 2) size *= 2;
    mem_free(v->slots);
    v->slots = mem_calloc(size, sizeof *v->slots);
    memset(v->slots, 0xFF, size * sizeof *v->slots);
    v->slot_mask = size - 1;
    for (uint32_t id = 0; id < v->entries.count; id++)
        if (v->entries.items[id].start != VOCAB_ABSENT) index_id(v, id);
}

/* Spellings become raw bytes in place: a key is never longer than its spelling. */
static void decode_spelling(struct vocab *v, uint32_t id) {
    struct vocab_entry *e = &v->entries.items[id];
    uint8_t *at = (uint8_t *)v->pool.data + e->start;
    if (byte_alphabet_decode_to(bytes_of(at, e->len), NULL) == SIZE_MAX)
        v->flags[id] |= VOCAB_LITERAL;
    else
        e->len = (uint32_t)byte_alphabet_decode_to(bytes_of(at, e->len), at);
}

static void seal(struct vocab *v, bool byte_level, bool spelled) {
    v->byte_level = byte_level;
    v->flags = mem_calloc(MAX(v->entries.count, (size_t)1), 1);
    for (uint32_t id = 0; spelled && id < v->entries.count; id++)
        if (v->entries.items[id].start != VOCAB_ABSENT) decode_spelling(v, id);
    build_index(v, v->entries.count);
}

void vocab_seal(struct vocab *v, bool byte_level) { seal(v, byte_level, byte_level); }
void vocab_seal_raw(struct vocab *v) { seal(v, true, false); }

void vocab_seal_flagged(struct vocab *v, bool byte_level, const uint8_t *flags) {
    v->byte_level = byte_level;
    v->flags = mem_calloc(MAX(v->entries.count, (size_t)1), 1);
    if (v->entries.count) memcpy(v->flags, flags, v->entries.count);
    for (uint32_t id = 0; byte_level && id < v->entries.count; id++)
        if (v->entries.items[id].start != VOCAB_ABSENT && !(flags[id] & VOCAB_LITERAL)) decode_spelling(v, id);
    build_index(v, v->entries.count);
}

int vocab_add_sealed(struct vocab *v, struct bytes spelling, uint32_t id, struct error *err) {
    size_t before = v->entries.count;
    int rc = vocab_add(v, spelling, id, err);
    if (rc) return rc;
    if (v->entries.count > before) {
        v->flags = mem_realloc(v->flags, v->entries.count);
        memset(v->flags + before, 0, v->entries.count - before);
    }
    v->flags[id] = VOCAB_LATER;
    if (v->byte_level) decode_spelling(v, id);
    if (v->entries.count + v->entries.count / 2 > v->slot_mask)
        build_index(v, v->entries.count * 2);
    else
        index_id(v, id);
    return 0;
}

/* ---- lookup ---- */

uint32_t vocab_find_hashed(const struct vocab *v, const uint8_t *key, size_t len, uint64_t hash) {
    return len <= VOCAB_TOKEN_BYTES_MAX ? find_slot(v, key, len, 0, hash)->id : UINT32_MAX;
}

uint32_t vocab_find(const struct vocab *v, const uint8_t *key, size_t len) {
    return vocab_find_hashed(v, key, len, vocab_hash(v, key, len));
}

static uint32_t find_literal(const struct vocab *v, struct bytes spelling) {
    if (spelling.len > VOCAB_TOKEN_BYTES_MAX) return UINT32_MAX;
    uint64_t h = vocab_hash(v, spelling.data, spelling.len);
    return find_slot(v, spelling.data, spelling.len, VOCAB_SLOT_LITERAL, h)->id;
}

uint32_t vocab_find_spelling(const struct vocab *v, struct bytes spelling) {
    if (!v->byte_level) {
        uint32_t found = vocab_find(v, spelling.data, spelling.len);
        return found != UINT32_MAX ? found : find_literal(v, spelling);
    }
    struct buf raw;
    buf_init(&raw, 0);
    bool plain = byte_alphabet_decode(spelling, &raw);
    struct bytes key = plain ? bytes_of(buf_text(&raw), raw.len) : spelling;
    uint32_t id = plain ? vocab_find(v, key.data, key.len) : UINT32_MAX;
    if (id == UINT32_MAX) id = find_literal(v, key);
    if (id == UINT32_MAX && plain) id = find_literal(v, spelling);
    buf_release(&raw);
    return id;
}

struct bytes vocab_key(const struct vocab *v, uint32_t id) {
    if (id >= v->entries.count || v->entries.items[id].start == VOCAB_ABSENT) return bytes_of(NULL, 0);
    return entry_key(v, v->entries.items[id]);
}

void vocab_spelling(const struct vocab *v, uint32_t id, struct buf *out) {
    struct bytes key = vocab_key(v, id);
    if (v->byte_level && id < v->entries.count && !(v->flags[id] & VOCAB_LITERAL))
        byte_alphabet_encode(key, out);
    else
        buf_add_bytes(out, key);
}
