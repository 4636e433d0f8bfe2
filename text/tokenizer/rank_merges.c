#include "text/tokenizer/rank_merges.h"

#include "text/tokenizer/bpe_internal.h"
#include "text/unicode.h"

enum { WORK_MAX = 500 * 1000 * 1000 }; /* symbols looked at: some seconds */

/* A part of a token's text. */
struct symbol {
    uint32_t id, start;       /* in the token's bytes */
    struct ranked_token next; /* what it makes with its right neighbour; rank NONE: nothing */
};

enum { CHARS = 256 };

struct builder {
    struct bpe *bpe;
    const struct vocab *vocab;
    uint32_t *rank_of; /* by id; NONE: merging does not make it */
    uint32_t bytes[256];
    struct ranked_token *byte_pairs; /* what two bytes make, as far as known */
    unsigned byte_bits;              /* 7 where symbols of one byte are ASCII */
    struct {
        uint32_t cp, id;
    } chars[CHARS]; /* characters met last, by their lower bits */
    size_t count;   /* of symbols */
    uint32_t rank;  /* of the token in hand */
    uint64_t work;
    struct symbol symbols[RANK_SYMBOLS_MAX + 1]; /* one more: the end */
};

static uint32_t find_char(struct builder *b, const uint8_t *p, size_t len, uint32_t cp) {
    if (len == 1)
        return b->bytes[*p];
    if (b->chars[cp % CHARS].cp != cp) {
        b->chars[cp % CHARS].cp = cp;
        b->chars[cp % CHARS].id = vocab_find(b->vocab, p, len);
    }
    return b->chars[cp % CHARS].id;
}

/* The symbols of the key: bytes, or characters. False: too many, or one has no token. */
static bool begin(struct builder *b, struct bytes key) {
    b->count = 0;
    for (size_t i = 0, n; i < key.len; i += n) {
        uint32_t cp = 0;
        n = b->vocab->byte_level ? 1 : unicode_next(key.data + i, &cp);
        uint32_t id = find_char(b, key.data + i, n, cp);
        if (id == NONE || b->count == RANK_SYMBOLS_MAX)
            return false;
        b->symbols[b->count++] = (struct symbol){.id = id, .start = (uint32_t)i};
    }
    b->symbols[b->count].start = (uint32_t)key.len;
    return true;
}

typedef struct ranked_token pair_fn(struct builder *b, struct bytes key, const struct symbol *left);

static struct ranked_token *byte_pair(const struct builder *b, const uint8_t *p) {
    return &b->byte_pairs[(unsigned)p[0] << b->byte_bits | p[1]];
}

/* By the merges known so far, but those as good as the token in hand. */
static struct ranked_token known_pair(struct builder *b, struct bytes key,
                                      const struct symbol *left) {
    struct ranked_token made;
    if (left[2].start - left->start == 2) {
        made = *byte_pair(b, key.data + left->start);
    } else {
        const struct bpe_merge *m = find_pair(b->bpe, left[0].id, left[1].id);
        made = (struct ranked_token){m->result, m->rank};
    }
    if (made.rank == b->rank)
        made.rank = NONE;
    return made;
}

/* By the joined text. */
static struct ranked_token joined_pair(struct builder *b, struct bytes key,
                                       const struct symbol *left) {
    uint32_t id = vocab_find(b->vocab, key.data + left->start, left[2].start - left->start);
    return (struct ranked_token){id, id == NONE ? NONE : b->rank_of[id]};
}

/* Merges until two symbols are left or nothing merges. */
static void merge_down(struct builder *b, struct bytes key, pair_fn *pair) {
    struct symbol *s = b->symbols;
    for (size_t i = 0; i + 1 < b->count; i++)
        s[i].next = pair(b, key, &s[i]);
    while (b->count > 2) {
        size_t best = 0;
        b->work += b->count;
        for (size_t i = 1; i + 1 < b->count; i++)
            if (s[i].next.rank < s[best].next.rank)
                best = i;
        if (s[best].next.rank == NONE)
            return;
        s[best].id = s[best].next.id;
        for (size_t i = best + 1; i < b->count; i++)
            s[i] = s[i + 1];
        b->count--;
        if (best)
            s[best - 1].next = pair(b, key, &s[best - 1]);
        if (best + 1 < b->count)
            s[best].next = pair(b, key, &s[best]);
    }
}

static void add_merge(struct builder *b, struct bytes key, struct ranked_token made) {
    bpe_add_ranked(b->bpe, b->symbols[0].id, b->symbols[1].id, made.id, made.rank);
    if (key.len == 2)
        *byte_pair(b, key.data) = made;
}

/* Whether merging the token's own text by the definition ends in two symbols. */
static bool is_made(struct builder *b, struct bytes key) {
    if (!begin(b, key))
        return false;
    merge_down(b, key, joined_pair);
    return b->count == 2;
}

/* First with only the better tokens' merges known, which is right: they are what comes first, and
 * when they lead to the token, nothing else would have come between. Where they do not, the
 * definition says whether a token is made of ones that are worse, or as good, or never. */
static int add_tokens(struct builder *b, const struct ranked_token *order, size_t count,
                      struct error *err) {
    for (size_t i = 0; i < count; i++) {
        struct bytes key = vocab_key(b->vocab, order[i].id);
        if (!begin(b, key) || b->count < 2)
            continue;
        b->rank = order[i].rank;
        merge_down(b, key, known_pair);
        if (b->count == 2 || is_made(b, key))
            add_merge(b, key, order[i]);
        if (b->work > WORK_MAX)
            return error_set(err, ERR_LIMIT, "the vocabulary is none that training makes");
    }
    return 0;
}

int rank_merges_build(struct bpe *bpe, const struct vocab *v, const struct ranked_token *order,
                      size_t count, struct error *err) {
    struct builder *b = mem_alloc(sizeof *b);
    b->bpe = bpe;
    b->vocab = v;
    for (unsigned i = 0; i < 256; i++) {
        uint8_t byte = (uint8_t)i;
        b->bytes[i] = vocab_find(v, &byte, 1);
    }
    b->byte_bits = v->byte_level ? 8 : 7;
    size_t pairs_size = sizeof *b->byte_pairs << 2 * b->byte_bits;
    b->byte_pairs = memset(mem_alloc(pairs_size), 0xFF, pairs_size);
    b->rank_of = mem_calloc(MAX(v->entries.count, (size_t)1), sizeof *b->rank_of);
    memset(b->rank_of, 0xFF, v->entries.count * sizeof *b->rank_of);
    for (size_t i = count; i-- > 0;)
        b->rank_of[order[i].id] = order[i].rank;
    bpe_init(bpe, v, count);
    int rc = add_tokens(b, order, count, err);
    mem_free(b->rank_of);
    mem_free(b->byte_pairs);
    mem_free(b);
    return rc;
}
