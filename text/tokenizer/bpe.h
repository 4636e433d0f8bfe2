/*
 * bpe.h - byte pair encoding of one piece: symbols are merged, the pair of lowest rank first,
 * leftmost first, until no pair has a rank.
 *
 * Short pieces are merged in small arrays. Long ones use a linked list of symbols and one bucket of
 * positions per rank, visited in rising rank, so a piece of a million equal letters takes time
 * linear in its length; positions that turn up with a rank below the current one (possible, though
 * not in trained vocabularies) wait in a heap. Either way the result is the one of HF tokenizers.
 *
 * Threading: struct bpe is const after bpe_init; a scratch belongs to one thread at a time.
 */
#ifndef TEXT_TOKENIZER_BPE_H
#define TEXT_TOKENIZER_BPE_H

#include "text/tokenizer/fast/bpe_cuts.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/vocab.h"

enum { BPE_AFFIX_MAX = 16 };

struct bpe_merge {
    uint32_t left, right;
    uint32_t rank, result;
};

enum { BPE_SHORT_MAX = 255, BPE_CHARS = 65536, BPE_BYTE_PAIRS = 65536 };

/* What two bytes make: UINT32_MAX, nothing. */
struct bpe_byte_pair {
    uint32_t rank, result;
};

/* A character that is one symbol from the start, but beside some bytes: bit n for those with the
 * lower six bits n, or any of ASCII. */
struct bpe_char {
    uint64_t left, right;
    uint64_t open_left,
        open_right; /* a token holds it and a part of its neighbour: fast/bpe_wide.c */
    uint32_t id;    /* UINT32_MAX: it has none */
    uint8_t ascii_left, ascii_right;
};

struct bpe {
    const struct vocab *vocab; /* borrowed */
    /* hash table of pairs: 0 empty, else some bits of the hash; owned. Most pairs asked for do not
     * exist: they end here */
    uint8_t *merge_tags;
    uint32_t *merge_slots;    /* beside merge_tags: index into merges; owned */
    struct bpe_merge *merges; /* as they were added: what is merged often lies together; owned */
    uint32_t merge_slot_count, merge_count, merge_cap;
    uint32_t rank_count;
    uint32_t short_max;         /* symbols of a piece it takes */
    uint32_t ascii_ids[256];    /* symbol of each byte (byte level) or ASCII character */
    uint32_t fallback_ids[256]; /* "<0x0A>" */
    uint32_t unk_id;            /* UINT32_MAX: none */
    /* byte level: bit first << 8 | second: the two bytes stand together in some token; owned. Where
     * they do in none, no merge crosses: a piece may be cut there */
    uint64_t *inner_pairs;
    struct bpe_byte_pair *byte_pairs; /* with inner_pairs, by first << 8 | second; owned */
    uint16_t *char_rows;              /* with inner_pairs, by code point: index into chars; owned */
    struct bpe_char *chars;           /* [0]: none; owned */
    uint32_t char_count;
    /* with inner_pairs: some bytes have no symbol. Pieces with such go without the tables */
    bool lacks_bytes;
    /* at byte level only its cut_bits, with chars: pairs that stand together in a token */
    struct bpe_cuts cuts;
    uint64_t inner_cuts[64]; /* tokens that end one character and begin the next: fast/bpe_wide.c */
    /* by result: merges whose tokens are not given out but cut again; owned */
    struct bpe_merge *unused;
    size_t unused_count;
    /* of characters behind a word's first, of its last */
    char prefix[BPE_AFFIX_MAX + 1], suffix[BPE_AFFIX_MAX + 1];
    /* each merge came with a higher rank than those before: from bpe_finish on ranks are places */
    bool rising;
    bool has_affix; /* either is not empty */
    bool byte_fallback, fuse_unk, ignore_merges;
};

struct bpe_list {
    uint32_t pos, next;
};
struct bpe_bucket {
    uint32_t first, last;
};
struct bpe_wait {
    uint32_t rank, pos;
};
/* Equal neighbouring symbols: fast/bpe_runs.c. */
struct bpe_run {
    uint32_t id, count; /* count 0: no longer in the list */
    uint32_t prev, next;
    uint32_t
        pos; /* rises along the list; never more than the run's symbols before the next one's */
};

struct bpe_scratch {
    VEC(uint32_t) ids; /* symbols of the piece */
    VEC(uint32_t) next;
    VEC(uint32_t) prev;
    VEC(struct bpe_list) entries; /* positions in buckets */
    VEC(uint32_t) order;          /* of the bucket being visited */
    VEC(uint32_t) order_other;
    VEC(struct bpe_wait) heap;
    VEC(struct bpe_run) runs;
    uint32_t first_run;
    uint32_t run_rank;          /* of the runs being visited */
    bool better_pair;           /* one turned up: runs do not do */
    VEC(uint8_t) spaced[2];     /* metaspaced.c */
    struct bpe_bucket *buckets; /* by rank; owned; all empty between calls */
    /* which buckets have entries: bits[0] by rank, bits[k] by word of bits[k-1] */
    uint64_t *bits[4];
    size_t bit_words[4];
    /* in caches_memory, which is mapped and owned; made when first needed */
    struct bpe_caches *caches;
    void *caches_memory;
    size_t caches_size;
    struct bpe_merge last; /* the last pair looked up */
};

/* Room for `count` merges is allocated; then bpe_add_merge for each, in order of rank. */
void bpe_init(struct bpe *b, const struct vocab *vocab, size_t count);
/* Starts to load the slot of the pair. */
void bpe_prefetch(const struct bpe *b, uint32_t left, uint32_t right);
/* A repeated pair takes the later rank. */
void bpe_add_merge(struct bpe *b, uint32_t left, uint32_t right, uint32_t result);
/* The same with a rank of the caller's (below 2^24); several pairs may have the same one. */
void bpe_add_ranked(struct bpe *b, uint32_t left, uint32_t right, uint32_t result, uint32_t rank);
/* Looks up the symbols for single bytes or characters; after the options are set. */
void bpe_finish(struct bpe *b);
/* Gives back all memory; b may be zeroes. */
void bpe_release(struct bpe *b);

/* Gives back all memory, caches too; s is empty then. */
void bpe_scratch_release(struct bpe_scratch *s);
/* Gives back what a piece of more than so many symbols left; the caches stay. */
void bpe_scratch_trim(struct bpe_scratch *s, size_t symbols_max);
/* Appends the ids of one piece (len > 0). */
void bpe_encode(const struct bpe *b, struct bpe_scratch *s, const uint8_t *piece, size_t len,
                struct token_vec *out);

#endif
