#include "text/bpe.h"

#include <stdio.h>

#include "text/unicode.h"

enum { SHORT_SYMBOLS = 48 };
#define NONE      UINT32_MAX
#define METASPACE "\xE2\x96\x81"

static inline bool begins_with_metaspace(const uint8_t *p, const uint8_t *end) {
    return end - p >= 3 && p[0] == 0xE2 && p[1] == 0x96 && p[2] == 0x81;
}

/* ---- merges ---- */

void bpe_init(struct bpe *b, const struct vocab *vocab, size_t count) {
    *b = (struct bpe){.vocab = vocab, .unk_id = NONE, .splits_at_metaspace = !vocab->byte_level};
    uint32_t size = 16;
    while (size < count + count / 2) size *= 2;
    b->merges = mem_calloc(size, sizeof *b->merges);
    b->merge_tags = mem_calloc(size, 1);
    b->merge_mask = size - 1;
}

void bpe_release(struct bpe *b) {
    mem_free(b->merges);
    mem_free(b->merge_tags);
    mem_free(b->byte_pairs);
    b->merges = NULL;
    b->merge_tags = NULL;
    b->byte_pairs = NULL;
}

static inline uint64_t pair_hash(uint32_t left, uint32_t right) {
    uint64_t h = ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15u;
    return (h ^ h >> 29) * 0xBF58476D1CE4E5B9u;
}
static inline uint32_t hash_slot(const struct bpe *b, uint64_t hash) { return (uint32_t)(hash >> 32) & b->merge_mask; }
static inline uint8_t hash_tag(uint64_t hash) { return (uint8_t)(hash >> 20 | 1); }

static const struct bpe_merge NO_MERGE = {NONE, NONE, NONE, NONE};

static inline const struct bpe_merge *find_pair(const struct bpe *b, uint32_t left, uint32_t right) {
    uint64_t hash = pair_hash(left, right);
    uint8_t tag = hash_tag(hash);
    for (uint32_t i = hash_slot(b, hash);; i = (i + 1) & b->merge_mask) {
        if (!b->merge_tags[i]) return &NO_MERGE;
        if (b->merge_tags[i] == tag && b->merges[i].left == left && b->merges[i].right == right) return &b->merges[i];
    }
}

void bpe_prefetch(const struct bpe *b, uint32_t left, uint32_t right) {
    uint32_t slot = hash_slot(b, pair_hash(left, right));
    __builtin_prefetch(&b->merges[slot], 1);
    __builtin_prefetch(&b->merge_tags[slot], 1);
}

/* True when the pair puts a U+2581 behind something else. */
static bool crosses_metaspace(const struct vocab *v, uint32_t left, uint32_t right) {
    struct bytes a = vocab_key(v, left), b = vocab_key(v, right);
    return begins_with_metaspace(b.data, b.data + b.len) &&
           !(a.len >= 3 && begins_with_metaspace(a.data + a.len - 3, a.data + a.len));
}

void bpe_add_merge(struct bpe *b, uint32_t left, uint32_t right, uint32_t result) {
    uint64_t hash = pair_hash(left, right);
    uint8_t tag = hash_tag(hash);
    uint32_t i = hash_slot(b, hash);
    while (b->merge_tags[i] && !(b->merge_tags[i] == tag && b->merges[i].left == left && b->merges[i].right == right))
        i = (i + 1) & b->merge_mask;
    b->merge_tags[i] = tag;
    b->merges[i] = (struct bpe_merge){left, right, b->rank_count++, result};
    if (b->splits_at_metaspace && crosses_metaspace(b->vocab, left, right)) b->splits_at_metaspace = false;
}

/* ---- symbols ---- */

/* At byte level most pairs looked up first are two single bytes: those are in a table. */
static void make_byte_pairs(struct bpe *b) {
    for (unsigned i = 0; i < 256; i++)
        if (b->ascii_ids[i] == NONE) return; /* pieces may then have other symbols than their bytes' */
    b->byte_pairs = mem_calloc(65536, sizeof *b->byte_pairs);
    for (unsigned i = 0; i < 65536; i++) {
        const struct bpe_merge *m = find_pair(b, b->ascii_ids[i >> 8], b->ascii_ids[i & 255]);
        b->byte_pairs[i][0] = m->rank;
        b->byte_pairs[i][1] = m->result;
    }
}

void bpe_finish(struct bpe *b) {
    for (unsigned i = 0; i < 256; i++) {
        uint8_t key = (uint8_t)i;
        b->ascii_ids[i] = b->vocab->byte_level || i < 128 ? vocab_find(b->vocab, &key, 1) : NONE;
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", i);
        b->fallback_ids[i] = b->byte_fallback ? vocab_find_spelling(b->vocab, bytes_str(name)) : NONE;
    }
    if (vocab_find(b->vocab, (const uint8_t *)METASPACE, 3) == NONE) b->splits_at_metaspace = false;
    if (b->vocab->byte_level && b->rank_count > 4096) make_byte_pairs(b);
}

static bool add_fallback(const struct bpe *b, struct bpe_scratch *s, const uint8_t *c, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (b->fallback_ids[c[i]] == NONE) return false;
    for (size_t i = 0; i < len; i++) vec_push(&s->ids, b->fallback_ids[c[i]]);
    return true;
}

/* One symbol a character (byte, at byte level). An unknown one falls back to bytes, else is the unknown token (adjacent
 * ones fused where the model says so), else is dropped. A pending unknown is put before the next *known* character, as
 * HF does. */
static void split_symbols(const struct bpe *b, struct bpe_scratch *s, const uint8_t *piece, size_t len) {
    s->ids.count = 0;
    vec_reserve(&s->ids, len + 1);
    bool unk_pending = false;
    for (size_t i = 0, n; i < len; i += n) {
        uint32_t cp, id;
        n = b->vocab->byte_level ? 1 : unicode_next(piece + i, &cp);
        id = n == 1 ? b->ascii_ids[piece[i]] : vocab_find(b->vocab, piece + i, n);
        if (id != NONE) {
            if (unk_pending) vec_push(&s->ids, b->unk_id);
            unk_pending = false;
            vec_push(&s->ids, id);
            continue;
        }
        if (b->byte_fallback && add_fallback(b, s, piece + i, n)) continue;
        if (b->unk_id == NONE) continue;
        if (unk_pending && !b->fuse_unk) vec_push(&s->ids, b->unk_id);
        unk_pending = true;
    }
    if (unk_pending) vec_push(&s->ids, b->unk_id);
}

/* ---- short pieces ---- */

struct short_merge {
    uint32_t ids[SHORT_SYMBOLS], ranks[SHORT_SYMBOLS], results[SHORT_SYMBOLS];
    size_t count;
};

static inline void note_short(const struct bpe *b, struct short_merge *m, size_t i) {
    const struct bpe_merge *found = find_pair(b, m->ids[i], m->ids[i + 1]);
    m->ranks[i] = found->rank;
    m->results[i] = found->result;
}

static void merge_short(const struct bpe *b, struct short_merge *m) {
    while (m->count > 1) {
        size_t best = 0, pairs = m->count - 1;
        uint32_t lowest = m->ranks[0];
        for (size_t i = 1; i < pairs; i++)
            if (m->ranks[i] < lowest) {
                lowest = m->ranks[i];
                best = i;
            }
        if (lowest == NONE) return;
        m->ids[best] = m->results[best];
        for (size_t i = best + 1; i < pairs; i++) { /* symbols behind move up by one, with their pairs */
            m->ids[i] = m->ids[i + 1];
            m->ranks[i - 1] = m->ranks[i];
            m->results[i - 1] = m->results[i];
        }
        m->count--;
        if (best) note_short(b, m, best - 1);
        if (best + 1 < m->count) note_short(b, m, best);
    }
}

/* Pieces of few bytes: straight from the tables. */
static void encode_short_bytes(const struct bpe *b, const uint8_t *piece, size_t len, struct token_vec *out) {
    struct short_merge m;
    m.count = len;
    for (size_t i = 0; i < len; i++) m.ids[i] = b->ascii_ids[piece[i]];
    for (size_t i = 0; i + 1 < len; i++) {
        const uint32_t *pair = b->byte_pairs[(size_t)piece[i] << 8 | piece[i + 1]];
        m.ranks[i] = pair[0];
        m.results[i] = pair[1];
    }
    merge_short(b, &m);
    vec_reserve(out, out->count + m.count);
    memcpy(out->items + out->count, m.ids, m.count * sizeof *m.ids);
    out->count += m.count;
}

static size_t merge_short_ids(const struct bpe *b, uint32_t *ids, size_t count) {
    struct short_merge m;
    m.count = count;
    memcpy(m.ids, ids, count * sizeof *ids);
    for (size_t i = 0; i + 1 < count; i++) note_short(b, &m, i);
    merge_short(b, &m);
    memcpy(ids, m.ids, m.count * sizeof *ids);
    return m.count;
}

/* ---- long pieces: buckets by rank, a bitmap of four levels finds the lowest ---- */

static void prepare_buckets(const struct bpe *b, struct bpe_scratch *s) {
    if (s->buckets) return;
    s->buckets = mem_calloc(MAX(b->rank_count, 1u), sizeof *s->buckets);
    memset(s->buckets, 0xFF, MAX(b->rank_count, 1u) * sizeof *s->buckets);
    size_t bits = MAX(b->rank_count, 1u);
    for (int level = 0; level < 4; level++) {
        s->bit_words[level] = (bits + 63) / 64;
        s->bits[level] = mem_calloc(s->bit_words[level], sizeof(uint64_t));
        bits = s->bit_words[level];
    }
}

static void bucket_push(struct bpe_scratch *s, uint32_t rank, uint32_t pos) {
    struct bpe_bucket *bucket = &s->buckets[rank];
    uint32_t entry = (uint32_t)s->entries.count;
    vec_push(&s->entries, ((struct bpe_list){pos, NONE}));
    if (bucket->first == NONE) {
        bucket->first = entry;
        size_t bit = rank;
        for (int level = 0; level < 4; level++, bit /= 64) s->bits[level][bit / 64] |= (uint64_t)1 << bit % 64;
    } else {
        s->entries.items[bucket->last].next = entry;
    }
    bucket->last = entry;
}

/* The lowest rank with entries, or NONE. Four levels of 64 cover 16 million words of ranks. */
static uint32_t lowest_bucket(const struct bpe_scratch *s) {
    size_t word = 0;
    while (word < s->bit_words[3] && !s->bits[3][word]) word++;
    if (word == s->bit_words[3]) return NONE;
    size_t bit = 0;
    for (int level = 3; level >= 0; level--) {
        bit = word * 64 + (size_t)__builtin_ctzll(s->bits[level][word]);
        word = bit;
    }
    return (uint32_t)bit;
}

static void sort_order(struct bpe_scratch *s) {
    size_t count = s->order.count;
    bool sorted = true;
    for (size_t i = 1; i < count && sorted; i++) sorted = s->order.items[i - 1] <= s->order.items[i];
    if (sorted) return;
    vec_reserve(&s->order_other, count);
    for (unsigned shift = 0; shift < 32; shift += 8) { /* radix sort */
        size_t starts[257] = {0};
        for (size_t i = 0; i < count; i++) starts[(s->order.items[i] >> shift & 255) + 1]++;
        if (starts[1] == count) continue;
        for (int k = 0; k < 256; k++) starts[k + 1] += starts[k];
        for (size_t i = 0; i < count; i++)
            s->order_other.items[starts[s->order.items[i] >> shift & 255]++] = s->order.items[i];
        memcpy(s->order.items, s->order_other.items, count * sizeof *s->order.items);
    }
}

/* Empties the bucket into s->order, positions rising. */
static void take_bucket(struct bpe_scratch *s, uint32_t rank) {
    s->order.count = 0;
    for (uint32_t e = s->buckets[rank].first; e != NONE; e = s->entries.items[e].next)
        vec_push(&s->order, s->entries.items[e].pos);
    s->buckets[rank] = (struct bpe_bucket){NONE, NONE};
    size_t bit = rank;
    for (int level = 0; level < 4; level++, bit /= 64)
        if (s->bits[level][bit / 64] &= ~((uint64_t)1 << bit % 64)) break;
    sort_order(s);
}

static bool wait_less(struct bpe_wait a, struct bpe_wait b) {
    return a.rank != b.rank ? a.rank < b.rank : a.pos < b.pos;
}

static void heap_push(struct bpe_scratch *s, struct bpe_wait w) {
    vec_push(&s->heap, w);
    size_t i = s->heap.count - 1;
    for (; i && wait_less(w, s->heap.items[(i - 1) / 2]); i = (i - 1) / 2)
        s->heap.items[i] = s->heap.items[(i - 1) / 2];
    s->heap.items[i] = w;
}

static void heap_pop(struct bpe_scratch *s) {
    struct bpe_wait w = s->heap.items[--s->heap.count];
    size_t i = 0, child;
    while ((child = 2 * i + 1) < s->heap.count) {
        if (child + 1 < s->heap.count && wait_less(s->heap.items[child + 1], s->heap.items[child])) child++;
        if (!wait_less(s->heap.items[child], w)) break;
        s->heap.items[i] = s->heap.items[child];
        i = child;
    }
    if (s->heap.count) s->heap.items[i] = w;
}

static const struct bpe_merge *look_up(const struct bpe *b, struct bpe_scratch *s, uint32_t left, uint32_t right) {
    if (s->last.left != left || s->last.right != right) {
        s->last = *find_pair(b, left, right);
        s->last.left = left; /* also when there is no such merge */
        s->last.right = right;
    }
    return &s->last;
}

/* Notes the pair that begins at pos: for later, or, at or below the rank being visited, for right now. */
static void note_pair(const struct bpe *b, struct bpe_scratch *s, uint32_t pos, uint32_t current_rank) {
    uint32_t next = s->next.items[pos];
    if (next == NONE) return;
    uint32_t rank = look_up(b, s, s->ids.items[pos], s->ids.items[next])->rank;
    if (rank == NONE) return;
    if (rank <= current_rank && current_rank != NONE)
        heap_push(s, (struct bpe_wait){rank, pos});
    else
        bucket_push(s, rank, pos);
}

static void merge_at(const struct bpe *b, struct bpe_scratch *s, struct bpe_wait at, uint32_t current_rank) {
    uint32_t pos = at.pos, next = s->next.items[pos];
    if (s->ids.items[pos] == NONE || next == NONE) return;
    const struct bpe_merge *m = look_up(b, s, s->ids.items[pos], s->ids.items[next]);
    if (m->rank != at.rank) return; /* the pair noted is gone */
    s->ids.items[pos] = m->result;
    s->ids.items[next] = NONE;
    uint32_t after = s->next.items[next];
    s->next.items[pos] = after;
    if (after != NONE) s->prev.items[after] = pos;
    if (s->prev.items[pos] != NONE) note_pair(b, s, s->prev.items[pos], current_rank);
    note_pair(b, s, pos, current_rank);
}

static void visit_bucket(const struct bpe *b, struct bpe_scratch *s, uint32_t rank) {
    take_bucket(s, rank);
    size_t i = 0;
    while (i < s->order.count || s->heap.count) {
        struct bpe_wait at = {rank, i < s->order.count ? s->order.items[i] : NONE};
        if (s->heap.count && (i == s->order.count || wait_less(s->heap.items[0], at))) {
            at = s->heap.items[0];
            heap_pop(s);
        } else {
            i++;
        }
        merge_at(b, s, at, rank);
    }
}

/* Puts the pairs of the piece as it begins into their buckets; those of single bytes come from the table. */
static void note_all(const struct bpe *b, struct bpe_scratch *s, const uint8_t *piece) {
    size_t count = s->ids.count;
    bool bytes = b->byte_pairs; /* then every byte has its symbol */
    for (uint32_t i = 0; i + 1 < count; i++) {
        if (!bytes) {
            note_pair(b, s, i, NONE);
            continue;
        }
        uint32_t rank = b->byte_pairs[(size_t)piece[i] << 8 | piece[i + 1]][0];
        if (rank != NONE) bucket_push(s, rank, i);
    }
}

static size_t merge_long(const struct bpe *b, struct bpe_scratch *s, const uint8_t *piece) {
    size_t count = s->ids.count;
    prepare_buckets(b, s);
    vec_reserve(&s->next, count);
    vec_reserve(&s->prev, count);
    s->entries.count = s->heap.count = 0;
    for (size_t i = 0; i < count; i++) {
        s->next.items[i] = i + 1 < count ? (uint32_t)(i + 1) : NONE;
        s->prev.items[i] = i ? (uint32_t)(i - 1) : NONE;
    }
    s->last.left = NONE;
    note_all(b, s, piece);
    for (uint32_t rank; (rank = lowest_bucket(s)) != NONE;) visit_bucket(b, s, rank);
    size_t kept = 0;
    for (uint32_t i = 0; i != NONE; i = s->next.items[i]) s->ids.items[kept++] = s->ids.items[i];
    return kept;
}

/* ---- a piece ---- */

void bpe_scratch_release(struct bpe_scratch *s) {
    vec_release(&s->ids);
    vec_release(&s->next);
    vec_release(&s->prev);
    vec_release(&s->entries);
    vec_release(&s->order);
    vec_release(&s->order_other);
    vec_release(&s->heap);
    mem_free(s->buckets);
    mem_free(s->words_memory);
    for (int level = 0; level < 4; level++) mem_free(s->bits[level]);
    *s = (struct bpe_scratch){0};
}

static void encode_merging(const struct bpe *b, struct bpe_scratch *s, const uint8_t *piece, size_t len,
                           struct token_vec *out) {
    if (b->byte_pairs && len <= SHORT_SYMBOLS) {
        encode_short_bytes(b, piece, len, out);
        return;
    }
    split_symbols(b, s, piece, len);
    size_t count = s->ids.count;
    if (count > 1) count = count <= SHORT_SYMBOLS ? merge_short_ids(b, s->ids.items, count) : merge_long(b, s, piece);
    if (!count) return; /* all characters unknown, and no token for that */
    vec_reserve(out, out->count + count);
    memcpy(out->items + out->count, s->ids.items, count * sizeof *out->items);
    out->count += count;
}

/* A piece that is a token by itself is that token: always with ignore_merges, else once merging was seen to end there.
 */
static void encode_uncached(const struct bpe *b, struct bpe_scratch *s, const uint8_t *piece, size_t len,
                            struct token_vec *out) {
    uint32_t whole = len <= SHORT_SYMBOLS || b->ignore_merges ? vocab_find(b->vocab, piece, len) : NONE;
    uint8_t known = whole == NONE ? 0 : __atomic_load_n(&b->vocab->flags[whole], __ATOMIC_RELAXED);
    if (whole != NONE && (b->ignore_merges || known & VOCAB_ALWAYS_WHOLE)) {
        vec_push(out, whole);
        return;
    }
    size_t before = out->count;
    encode_merging(b, s, piece, len, out);
    if (whole == NONE || known & VOCAB_NEVER_WHOLE) return;
    bool is_whole = out->count == before + 1 && out->items[before] == whole;
    __atomic_fetch_or(&b->vocab->flags[whole], is_whole ? VOCAB_ALWAYS_WHOLE : VOCAB_NEVER_WHOLE, __ATOMIC_RELAXED);
}

static void make_words(struct bpe_scratch *s) {
    s->words_memory = mem_alloc(sizeof *s->words + 64);
    s->words = (struct word_cache *)(((uintptr_t)s->words_memory + 63) & ~(uintptr_t)63);
}

void bpe_encode(const struct bpe *b, struct bpe_scratch *s, const uint8_t *piece, size_t len, const uint8_t *limit,
                struct token_vec *out) {
    if (len > WORD_BYTES_MAX) {
        encode_uncached(b, s, piece, len, out);
        return;
    }
    if (!s->words) make_words(s);
    struct word_key key = word_key(piece, len, limit);
    struct word_entry *set = word_set(s->words, key);
    const struct word_entry *found = word_find(set, key);
    vec_reserve(out, out->count + WORD_IDS_MAX);
    uint32_t *to = out->items + out->count;
    if (found) {
        memcpy(to, found->ids, sizeof found->ids);
        out->count += 1u + (to[1] != NONE) + (to[2] != NONE) + (to[3] != NONE);
        return;
    }
    size_t before = out->count;
    encode_uncached(b, s, piece, len, out);
    size_t count = out->count - before;
    if (count && count <= WORD_IDS_MAX) word_put(set, key, out->items + before, count);
}
