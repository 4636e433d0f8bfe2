#include "text/tokenizer/rank_merges.h"

#include "text/tokenizer/bpe_internal.h"
#include "text/unicode.h"

enum { WORK_MAX = 200 * 1000 * 1000 }; /* lookups of the slow way: some seconds */

struct symbols {
    uint32_t ids[RANK_SYMBOLS_MAX];
    uint32_t starts[RANK_SYMBOLS_MAX + 1];      /* in the token's bytes */
    struct ranked_token next[RANK_SYMBOLS_MAX]; /* what each makes with its right neighbour; rank NONE: nothing */
    size_t count;
};

struct builder {
    struct bpe *bpe;
    const struct vocab *vocab;
    uint32_t *rank_of; /* by id; NONE: merging does not make it */
    uint32_t bytes[256];
    struct symbols *s;
    uint64_t work;
};

/* The symbols of the key: bytes, or characters. False: too many, or one has no token. */
static bool begin(struct builder *b, struct bytes key) {
    struct symbols *s = b->s;
    s->count = 0;
    for (size_t i = 0, n; i < key.len; i += n) {
        uint32_t cp;
        n = b->vocab->byte_level ? 1 : unicode_next(key.data + i, &cp);
        uint32_t id = n == 1 ? b->bytes[key.data[i]] : vocab_find(b->vocab, key.data + i, n);
        if (id == NONE || s->count == RANK_SYMBOLS_MAX) return false;
        s->starts[s->count] = (uint32_t)i;
        s->ids[s->count++] = id;
    }
    s->starts[s->count] = (uint32_t)key.len;
    return true;
}

typedef struct ranked_token pair_fn(struct builder *b, struct bytes key, size_t i);

/* By the merges known so far. */
static struct ranked_token known_pair(struct builder *b, struct bytes key, size_t i) {
    (void)key;
    const struct bpe_merge *m = find_pair(b->bpe, b->s->ids[i], b->s->ids[i + 1]);
    return (struct ranked_token){m->result, m->rank};
}

/* By the joined text. */
static struct ranked_token joined_pair(struct builder *b, struct bytes key, size_t i) {
    const struct symbols *s = b->s;
    uint32_t id = vocab_find(b->vocab, key.data + s->starts[i], s->starts[i + 2] - s->starts[i]);
    b->work++;
    return (struct ranked_token){id, id == NONE ? NONE : b->rank_of[id]};
}

/* Merges until two symbols are left or nothing merges. */
static void merge_down(struct builder *b, struct bytes key, pair_fn *pair) {
    struct symbols *s = b->s;
    for (size_t i = 0; i + 1 < s->count; i++) s->next[i] = pair(b, key, i);
    while (s->count > 2) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < s->count; i++)
            if (s->next[i].rank < s->next[best].rank) best = i;
        if (s->next[best].rank == NONE) return;
        s->ids[best] = s->next[best].id;
        size_t behind = s->count - best - 2; /* symbols behind the pair */
        memmove(s->ids + best + 1, s->ids + best + 2, behind * sizeof *s->ids);
        memmove(s->starts + best + 1, s->starts + best + 2, (behind + 1) * sizeof *s->starts);
        memmove(s->next + best, s->next + best + 1, behind * sizeof *s->next);
        s->count--;
        if (best) s->next[best - 1] = pair(b, key, best - 1);
        if (best + 1 < s->count) s->next[best] = pair(b, key, best);
    }
}

/* True when merging the token's own text by the definition ends in it. */
static bool is_made(struct builder *b, struct bytes key) {
    if (!begin(b, key)) return false;
    merge_down(b, key, joined_pair);
    return b->s->count == 2;
}

/* With only the better tokens' merges known, which is right: they are what comes first, and when they lead to the
 * token, nothing else would have come between. Where they do not, the definition says whether a token is made of worse
 * ones or never. False: equal ranks, or too much work; then all must go by the definition. */
static bool add_quickly(struct builder *b, const struct ranked_token *order, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct bytes key = vocab_key(b->vocab, order[i].id);
        if (i && order[i].rank == order[i - 1].rank) return false;
        if (!begin(b, key)) continue;
        if (b->s->count < 2) continue;
        merge_down(b, key, known_pair);
        if (b->s->count != 2 && !is_made(b, key)) {
            if (b->work > WORK_MAX) return false;
            continue;
        }
        bpe_add_ranked(b->bpe, b->s->ids[0], b->s->ids[1], order[i].id, order[i].rank);
    }
    return true;
}

/* By the definition. A token that its own text does not lead to is never made. */
static int add_slowly(struct builder *b, const struct ranked_token *order, size_t count, struct error *err) {
    for (size_t i = 0; i < count; i++) {
        struct bytes key = vocab_key(b->vocab, order[i].id);
        if (!begin(b, key) || b->s->count < 2) continue;
        merge_down(b, key, joined_pair);
        if (b->work > WORK_MAX) return error_set(err, ERR_LIMIT, "the vocabulary is none that training makes");
        if (b->s->count == 2) bpe_add_ranked(b->bpe, b->s->ids[0], b->s->ids[1], order[i].id, order[i].rank);
    }
    return 0;
}

int rank_merges_build(struct bpe *bpe, const struct vocab *v, const struct ranked_token *order, size_t count,
                      struct error *err) {
    struct builder b = {.bpe = bpe, .vocab = v, .s = mem_alloc(sizeof *b.s)};
    int rc = 0;
    for (unsigned i = 0; i < 256; i++) {
        uint8_t byte = (uint8_t)i;
        b.bytes[i] = vocab_find(v, &byte, 1);
    }
    b.rank_of = mem_calloc(MAX(v->entries.count, (size_t)1), sizeof *b.rank_of);
    memset(b.rank_of, 0xFF, v->entries.count * sizeof *b.rank_of);
    for (size_t i = count; i-- > 0;) b.rank_of[order[i].id] = order[i].rank;
    bpe_init(bpe, v, count);
    if (!add_quickly(&b, order, count)) {
        bpe_release(bpe);
        bpe_init(bpe, v, count);
        rc = add_slowly(&b, order, count, err);
    }
    mem_free(b.rank_of);
    mem_free(b.s);
    return rc;
}
