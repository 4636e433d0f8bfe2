/*
 * vocab.h - the tokens of a model: id to bytes, bytes to id.
 *
 * A token's *key* is what the model's symbols are made of: the spelling in tokenizer.json, or, for
 * byte-level vocabularies, the raw bytes that spelling stands for ("Ġthe" is " the"). A spelling
 * that is not made of the byte alphabet ("a b" with a real space) is kept as it stands and marked
 * literal: it never meets a key of raw bytes.
 *
 * Invariants:
 *   (1) an id has at most one key, and what vocab_add_sealed displaced (an alias, which is only
 *       found);
 *   (2) a key has one id, the last one given (or the lowest: keep_first);
 *   (3) keys lie in one pool, never moved once vocab_seal ran.
 *
 * Threading: const after vocab_seal.
 */
#ifndef TEXT_TOKENIZER_VOCAB_H
#define TEXT_TOKENIZER_VOCAB_H

#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/vec.h"

enum { VOCAB_IDS_MAX = 1 << 24, VOCAB_IDS_MIN = 1 << 16, VOCAB_TOKEN_BYTES_MAX = (1 << 24) - 1 };

enum vocab_flags {
    VOCAB_LITERAL = 1,
    VOCAB_SPECIAL = 2,
    VOCAB_ADDED = 4,
    VOCAB_UNUSED = 32, /* made by merging, but not given out */
    /* added after vocab_seal: no token of the model, found by vocab_find_spelling only */
    VOCAB_LATER = 64,
};

struct vocab_entry {
    uint32_t start, len; /* in the pool; start VOCAB_ABSENT: no such id */
};
#define VOCAB_ABSENT UINT32_MAX

/* A key whose id has another key now. */
struct vocab_alias {
    struct vocab_entry key;
    uint32_t id;
    bool literal;
};

struct vocab {
    struct buf pool;
    VEC(struct vocab_entry) entries; /* by id */
    VEC(struct vocab_alias) aliases;
    uint8_t *flags; /* by id; enum vocab_flags; owned, made by vocab_seal */
    /* hash table, at most three quarters full: some bits of the hash over an id's 24 (or an alias's
     * index); 0: empty; owned */
    uint32_t *slots;
    uint32_t slot_count;
    uint32_t id_limit; /* ids below this are taken; VOCAB_IDS_MAX unless set */
    uint64_t seed;
    bool byte_level;
    bool keep_first; /* of ids with equal keys the lowest is found, not the last one given */
};

/* Empty, with a seed of its own. */
void vocab_init(struct vocab *v);
/* Gives back all memory. */
void vocab_release(struct vocab *v);
/* Adds a token by its spelling. ERR_LIMIT for an id or a length out of bounds. Only before
 * vocab_seal. */
MUST_CHECK int vocab_add(struct vocab *v, struct bytes spelling, uint32_t id, struct error *err);
/* The same for a spelling that was appended to the pool as [start, pool.len). */
MUST_CHECK int vocab_claim(struct vocab *v, size_t start, uint32_t id, struct error *err);
/* Turns spellings into keys when byte_level, builds the index. */
void vocab_seal(struct vocab *v, bool byte_level);
/* The same where what was added are raw bytes already. */
void vocab_seal_raw(struct vocab *v);
/* vocab_seal with flags of the caller's, one byte an id; VOCAB_LITERAL ones stay as they are
 * spelled and are not found by vocab_find. */
void vocab_seal_flagged(struct vocab *v, bool byte_level, const uint8_t *flags);
/* Adds a token after vocab_seal (added_tokens). */
MUST_CHECK int vocab_add_sealed(struct vocab *v, struct bytes spelling, uint32_t id,
                                struct error *err);

/* Seeded, so that nobody can prepare a table that is slow. */
static inline uint64_t vocab_hash(const struct vocab *v, const uint8_t *key, size_t len) {
    uint64_t a = 0, b = 0;
    if (len > 16)
        return hash64(key, len, v->seed);
    if (len >= 8) {
        memcpy(&a, key, 8);
        memcpy(&b, key + len - 8, 8);
    } else if (len >= 4) {
        uint32_t low, high;
        memcpy(&low, key, 4);
        memcpy(&high, key + len - 4, 4);
        a = (uint64_t)high << 32 | low;
    } else if (len) {
        a = (uint64_t)key[0] << 16 | (uint64_t)key[len / 2] << 8 | key[len - 1];
    }
    unsigned __int128 product =
        (unsigned __int128)(a ^ v->seed) * (b ^ v->seed ^ (0x9E3779B97F4A7C15u + len));
    uint64_t h = (uint64_t)product ^ (uint64_t)(product >> 64);
    return (h ^ h >> 29) * 0xBF58476D1CE4E5B9u;
}
/* UINT32_MAX when absent. Literal keys are found only by vocab_find_spelling, where no other key is
 * spelled so. */
uint32_t vocab_find(const struct vocab *v, const uint8_t *key, size_t len);
struct vocab_lookup {
    const uint8_t *key; /* borrowed */
    size_t len;
    uint32_t id; /* as vocab_find's */
    uint64_t hash;
};
/* vocab_find for many keys, whose memory accesses overlap. */
void vocab_find_many(const struct vocab *v, struct vocab_lookup *lookups, size_t count);
/* The id of a spelling as tokenizer.json has it, of added tokens too; UINT32_MAX: none. */
uint32_t vocab_find_spelling(const struct vocab *v, struct bytes spelling);
/* "<0x00>" to "<0xFF>", by byte. */
void vocab_find_byte_tokens(const struct vocab *v, uint32_t out[256]);
/* Empty when absent. */
static inline struct bytes vocab_key(const struct vocab *v, uint32_t id) {
    if (id >= v->entries.count || v->entries.items[id].start == VOCAB_ABSENT)
        return bytes_of(NULL, 0);
    return bytes_of(v->pool.data + v->entries.items[id].start, v->entries.items[id].len);
}
/* Appends the spelling of id; nothing where there is none. */
void vocab_spelling(const struct vocab *v, uint32_t id, struct buf *out);

/* The byte alphabet of GPT-2: bytes as printable characters. Appends; false (with nothing useful
 * appended) when s has others. */
bool byte_alphabet_to_bytes(struct bytes s, struct buf *out);
/* The same in place. Returns the bytes that remain, SIZE_MAX (with nothing changed) when s has
 * others. */
size_t byte_alphabet_to_bytes_over(uint8_t *s, size_t len);
/* The byte that the alphabet's character of two bytes stands for; -1: it is none. */
static inline int byte_alphabet_byte(uint8_t lead, uint8_t follow) {
    int i = follow & 63;
    switch (lead) { /* it ends at U+0143 */
    case 0xC2: return i > 32 && i != 45 ? 128 + i : -1;
    case 0xC3: return 192 + i;
    case 0xC4: return i <= 32 ? i : 94 + i;
    case 0xC5: return i < 3 ? 158 + i : i == 3 ? 173 : -1;
    default: return -1;
    }
}
/* Appends each byte as its character of the alphabet. */
void byte_alphabet_to_text(struct bytes raw, struct buf *out);
/* Bytes that one byte's character takes in UTF-8. */
static inline size_t byte_alphabet_width(uint8_t byte) {
    return byte > ' ' && byte < 127 ? 1 : 2;
}

#endif
