#include "text/tokenizer/unigram.h"

#include <stdlib.h>

#include "text/unicode.h"

#define NONE UINT32_MAX
static const double UNK_PENALTY = 10;

/* ---- the trie ---- */

/* The tokens [first, last) of `order` share their first `depth` bytes: they are the node's. */
struct pending {
    uint32_t first, last, depth;
};

struct builder {
    const struct vocab *vocab;
    uint32_t *order; /* ids by key */
    VEC(struct unigram_node) nodes;
    VEC(struct pending) pending; /* by node */
};

static int compare_keys(const void *a, const void *b, void *ctx) {
    const struct vocab *v = ctx;
    struct bytes x = vocab_key(v, *(const uint32_t *)a), y = vocab_key(v, *(const uint32_t *)b);
    int c = memcmp(x.data, y.data, MIN(x.len, y.len));
    return c ? c : (x.len > y.len) - (x.len < y.len);
}

static void add_node(struct builder *b, uint8_t byte, struct pending p) {
    vec_push(&b->nodes, ((struct unigram_node){.id = NONE, .byte = byte}));
    vec_push(&b->pending, p);
}

/* Gives the node its token and its children. */
static void grow_node(struct builder *b, uint32_t node) {
    struct pending p = b->pending.items[node];
    while (p.first < p.last && vocab_key(b->vocab, b->order[p.first]).len == p.depth)
        b->nodes.items[node].id = b->order[p.first++];
    b->nodes.items[node].first_child = (uint32_t)b->nodes.count;
    while (p.first < p.last) {
        uint8_t byte = vocab_key(b->vocab, b->order[p.first]).data[p.depth];
        uint32_t end = p.first;
        while (end < p.last && vocab_key(b->vocab, b->order[end]).data[p.depth] == byte) end++;
        add_node(b, byte, (struct pending){p.first, end, p.depth + 1});
        b->nodes.items[node].child_count++;
        p.first = end;
    }
}

static void build_trie(struct unigram *u, const struct vocab *v, const bool *in_trie) {
    struct builder b = {.vocab = v, .order = mem_calloc(MAX(v->entries.count, (size_t)1), sizeof *b.order)};
    uint32_t count = 0;
    for (uint32_t id = 0; id < v->entries.count; id++)
        if (vocab_key(v, id).len && (!in_trie || in_trie[id])) b.order[count++] = id;
    qsort_r(b.order, count, sizeof *b.order, compare_keys, (void *)(uintptr_t)v);
    add_node(&b, 0, (struct pending){0, count, 0});
    for (uint32_t node = 0; node < b.nodes.count; node++) grow_node(&b, node);
    u->nodes = b.nodes.items;
    u->node_count = (uint32_t)b.nodes.count;
    for (uint32_t i = 0; i < u->nodes[0].child_count; i++) u->roots[u->nodes[1 + i].byte] = 1 + i;
    vec_release(&b.pending);
    mem_free(b.order);
}

static uint32_t find_child(const struct unigram *u, uint32_t node, uint8_t byte) {
    const struct unigram_node *n = &u->nodes[node];
    uint32_t low = n->first_child, high = low + n->child_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (u->nodes[middle].byte < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n->first_child + n->child_count && u->nodes[low].byte == byte ? low : 0;
}

/* ---- life ---- */

void unigram_init(struct unigram *u, const struct vocab *vocab, double *scores, uint32_t unk_id, bool byte_fallback,
                  const bool *in_trie) {
    *u = (struct unigram){
        .vocab = vocab, .scores = scores, .unk_id = unk_id, .fuse_unk = true, .byte_fallback = byte_fallback};
    double lowest = 0;
    bool any = false;
    for (uint32_t id = 0; id < vocab->entries.count; id++) {
        if (vocab->entries.items[id].start == VOCAB_ABSENT) continue;
        lowest = any ? MIN(lowest, scores[id]) : scores[id];
        any = true;
    }
    u->unk_score = lowest - UNK_PENALTY;
    if (byte_fallback) vocab_find_byte_tokens(vocab, u->fallback_ids);
    build_trie(u, vocab, in_trie);
}

void unigram_release(struct unigram *u) {
    mem_free(u->scores);
    mem_free(u->nodes);
    *u = (struct unigram){0};
}

void unigram_scratch_release(struct unigram_scratch *s) { vec_release(&s->steps); }

/* ---- encoding ---- */

static void offer(const struct unigram *u, struct unigram_step *end, double score, size_t start, uint32_t id) {
    if (u->single_precision) score = (float)score;
    if (end->start == NONE || score > end->score) *end = (struct unigram_step){score, (uint32_t)start, id};
}

/* Offers every token that begins at `at`; true when one of them is exactly the first character. */
static bool offer_tokens(const struct unigram *u, struct unigram_scratch *s, struct bytes piece, size_t at,
                         size_t char_len) {
    double before = s->steps.items[at].score;
    bool single = false;
    uint32_t node = u->roots[piece.data[at]];
    for (size_t i = at + 1; node; i++) {
        uint32_t id = u->nodes[node].id;
        if (id != NONE) {
            offer(u, &s->steps.items[i], before + u->scores[id], at, id);
            single |= i - at == char_len;
        }
        node = i < piece.len ? find_child(u, node, piece.data[i]) : 0;
    }
    return single;
}

static bool find_best(const struct unigram *u, struct unigram_scratch *s, struct bytes piece) {
    for (size_t at = 0, n; at < piece.len; at += n) {
        uint32_t cp;
        n = unicode_next(piece.data + at, &cp);
        if (offer_tokens(u, s, piece, at, n)) continue;
        if (u->unk_id == NONE) return false;
        offer(u, &s->steps.items[at + n], s->steps.items[at].score + u->unk_score, at, u->unk_id);
    }
    return true;
}

/* Unknown characters: the token of this very text (the unknown token's own spelling), else their bytes where the model
 * has them, else one unknown token. */
static void add_unknown(const struct unigram *u, struct bytes text, struct token_vec *out) {
    uint32_t known = u->single_precision ? NONE : vocab_find(u->vocab, text.data, text.len);
    bool all = u->byte_fallback && known == NONE;
    for (size_t i = 0; i < text.len && all; i++) all = u->fallback_ids[text.data[i]] != NONE;
    if (!all) {
        vec_push(out, known != NONE ? known : u->unk_id);
        return;
    }
    for (size_t i = text.len; i-- > 0;) vec_push(out, u->fallback_ids[text.data[i]]); /* reversed with the rest */
}

int unigram_encode(const struct unigram *u, struct unigram_scratch *s, struct bytes piece, struct token_vec *out,
                   struct error *err) {
    size_t first = out->count;
    vec_reserve(&s->steps, piece.len + 1);
    for (size_t i = 0; i <= piece.len; i++) s->steps.items[i] = (struct unigram_step){0, NONE, NONE};
    if (!find_best(u, s, piece))
        return error_set(err, ERR_INVALID,
                         "the text has characters that the model does not know, and it has no unknown token");
    for (size_t end = piece.len; end > 0;) {
        struct unigram_step step = s->steps.items[end];
        size_t start = step.start;
        if (u->unk_id != NONE && step.id == u->unk_id) {
            while (u->fuse_unk && start > 0 && s->steps.items[start].id == u->unk_id)
                start = s->steps.items[start].start;
            add_unknown(u, bytes_of(piece.data + start, end - start), out);
        } else {
            vec_push(out, step.id);
        }
        end = start;
    }
    for (size_t i = first, k = out->count; i + 1 < k; i++) { /* found from the end */
        uint32_t id = out->items[i];
        out->items[i] = out->items[--k];
        out->items[k] = id;
    }
    return 0;
}
