#include "text/tokenizer/unigram.h"

#include "text/unicode.h"

#define NONE          UINT32_MAX
#define ALWAYS_INLINE inline __attribute__((always_inline))
static const double UNK_PENALTY = 10;
static const uint8_t METASPACE[3] = {0xE2, 0x96, 0x81};

/* ---- the trie ---- */

static inline uint32_t edge_slot(uint32_t key, uint32_t slots) {
    return (uint32_t)((uint64_t)(key * 0x9E3779B1u) * slots >> 32);
}

/* The slot that holds the key, or the empty one where it belongs. */
static inline struct unigram_edge *find_slot(struct unigram_edge *edges, uint32_t slots,
                                             uint32_t key) {
    uint32_t i = edge_slot(key, slots);
    while (edges[i].key != key && edges[i].key)
        i = i + 1 < slots ? i + 1 : 0;
    return &edges[i];
}

struct builder {
    struct unigram *u;
    uint32_t node_count, edge_count;
    bool too_large;
};

/* The edges again, in so many slots. */
static void spread(struct unigram *u, uint32_t slots) {
    struct unigram_edge *edges = mem_calloc(slots, sizeof *edges);
    for (uint32_t i = 0; i < u->edge_slots; i++)
        if (u->edges[i].key)
            *find_slot(edges, slots, u->edges[i].key) = u->edges[i];
    mem_free(u->edges);
    u->edges = edges;
    u->edge_slots = slots;
}

/* The edge that leads from `from` over the byte, perhaps a new one. */
static struct unigram_edge *grow(struct builder *b, struct unigram_edge *from, uint8_t byte) {
    if (!from->node) {
        if (b->node_count >= UNIGRAM_NODES_MAX) {
            b->too_large = true;
            return NULL;
        }
        from->node = b->node_count++;
    }
    uint32_t key = from->node << 8 | byte;
    from->next |= 1u << (byte & 31);
    struct unigram_edge *edge = find_slot(b->u->edges, b->u->edge_slots, key);
    if (edge->key)
        return edge;
    if (b->edge_count + b->edge_count / 2 + 1 >= b->u->edge_slots) {
        spread(b->u, 2 * b->u->edge_slots);
        edge = find_slot(b->u->edges, b->u->edge_slots, key);
    }
    *edge = (struct unigram_edge){key, 0, NONE, 0};
    b->edge_count++;
    return edge;
}

static void add_token(struct builder *b, struct bytes key, uint32_t id) {
    struct unigram_edge *at = &b->u->roots[key.data[0]];
    for (size_t i = 1; i < key.len && at; i++)
        at = grow(b, at, key.data[i]);
    if (at)
        at->id = id;
}

/* Most words begin with U+2581: its three bytes are one step. */
static void find_metaspace(struct unigram *u) {
    const struct unigram_edge *edge = &u->roots[METASPACE[0]];
    for (int i = 1; i < 3; i++) {
        if (edge->id != NONE || !edge->node)
            return;
        edge = find_slot(u->edges, u->edge_slots, edge->node << 8 | METASPACE[i]);
        if (!edge->key)
            return;
    }
    u->metaspace = *edge;
}

static int build_trie(struct unigram *u, const struct vocab *v, const bool *in_trie,
                      struct error *err) {
    struct builder b = {.u = u, .node_count = 1};
    for (unsigned i = 0; i < 256; i++)
        u->roots[i] = (struct unigram_edge){.id = NONE};
    /* a token adds some three edges */
    spread(u, (uint32_t)MIN(v->entries.count * 2, (size_t)1 << 22) + 1024);
    for (uint32_t id = 0; id < v->entries.count; id++)
        if (vocab_key(v, id).len && (!in_trie || in_trie[id]))
            add_token(&b, vocab_key(v, id), id);
    if (b.too_large)
        return error_set(err, ERR_LIMIT, "the tokens of the vocabulary are too long");
    spread(u, b.edge_count + b.edge_count / 2 + 1); /* no more room than that */
    find_metaspace(u);
    return 0;
}

/* ---- life ---- */

int unigram_init(struct unigram *u, const struct vocab *vocab, double *scores, uint32_t unk_id,
                 bool byte_fallback, const bool *in_trie, struct error *err) {
    CHECK(vocab && scores);
    *u = (struct unigram){.vocab = vocab,
                          .scores = scores,
                          .unk_id = unk_id,
                          .fuse_unk = true,
                          .byte_fallback = byte_fallback};
    double lowest = 0;
    bool any = false;
    for (uint32_t id = 0; id < vocab->entries.count; id++) {
        if (vocab->entries.items[id].start == VOCAB_ABSENT)
            continue;
        lowest = any ? MIN(lowest, scores[id]) : scores[id];
        any = true;
    }
    u->unk_score = lowest - UNK_PENALTY;
    if (byte_fallback)
        vocab_find_byte_tokens(vocab, u->fallback_ids);
    return build_trie(u, vocab, in_trie, err);
}

void unigram_release(struct unigram *u) {
    mem_free(u->scores);
    mem_free(u->edges);
    *u = (struct unigram){0};
}

void unigram_scratch_release(struct unigram_scratch *s) {
    vec_release(&s->steps);
    vec_release(&s->way);
}

/* ---- encoding ---- */

struct search {
    const struct unigram *u;
    struct unigram_scratch *s;
    struct bytes piece;
    struct token_vec *out;
    uint64_t steps; /* along the trie, of all places together */
    /* the last place that no token crosses, and the end of the one that reaches furthest */
    size_t from, reach;
    /* unknown characters whose token is still to be given out; both 0: none */
    size_t unk_from, unk_end;
};

/* Unknown characters: the token of this very text (the unknown token's own spelling), else their
 * bytes where the model has them, else one unknown token. */
static void flush_unknown(struct search *x) {
    const struct unigram *u = x->u;
    struct bytes text = bytes_of(x->piece.data + x->unk_from, x->unk_end - x->unk_from);
    if (!text.len)
        return;
    x->unk_from = x->unk_end = 0;
    uint32_t known = u->single_precision ? NONE : vocab_find(u->vocab, text.data, text.len);
    bool all = u->byte_fallback && known == NONE;
    for (size_t i = 0; i < text.len && all; i++)
        all = u->fallback_ids[text.data[i]] != NONE;
    if (!all)
        vec_push(x->out, known != NONE ? known : u->unk_id);
    for (size_t i = 0; i < text.len && all; i++)
        vec_push(x->out, u->fallback_ids[text.data[i]]);
}

static inline void emit_path(struct search *x, size_t start, struct unigram_token token) {
    if (x->u->unk_id == NONE || token.id != x->u->unk_id) {
        flush_unknown(x);
        vec_push(x->out, token.id);
        return;
    }
    if (!x->u->fuse_unk)
        flush_unknown(x);
    if (!x->unk_end)
        x->unk_from = start;
    x->unk_end = token.end;
}

/* Gives out the tokens of the best way from the last place that no token crosses to this one, which
 * is another. */
static void viterbi_backtrack(struct search *x, size_t at) {
    struct unigram_scratch *s = x->s;
    s->way.count = 0;
    for (size_t end = at; end > x->from;) {
        const struct unigram_step *step = &s->steps.items[end - x->from];
        vec_push(&s->way, ((struct unigram_token){(uint32_t)end, step->id}));
        end = step->start;
    }
    size_t start = x->from;
    for (size_t i = s->way.count; i-- > 0; start = s->way.items[i].end)
        emit_path(x, start, s->way.items[i]);
}

/* No token crosses the place: the best way to it is final. */
static inline void relax_edge(struct search *x, size_t at) {
    struct unigram_step *steps = x->s->steps.items, last = steps[at - x->from];
    if (last.start == x->from) /* one token */
        emit_path(x, x->from, (struct unigram_token){(uint32_t)at, last.id});
    else if (at > x->from)
        viterbi_backtrack(x, at);
    steps[0].score = last.score;
    x->s->steps.count = 1;
    x->from = at;
}

/* A way to `end` whose last token begins at start. */
static ALWAYS_INLINE void relax(struct search *x, bool single_precision, size_t end, double score,
                                size_t start, uint32_t id) {
    struct unigram_scratch *s = x->s;
    size_t i = end - x->from;
    if (single_precision)
        score = (float)score;
    if (i >= s->steps.count) {
        vec_reserve(&s->steps, i + 1);
        while (s->steps.count <= i)
            s->steps.items[s->steps.count++] = (struct unigram_step){0, NONE, NONE};
        x->reach = end;
    }
    struct unigram_step *step = &s->steps.items[i];
    if (step->start == NONE || score > step->score)
        *step = (struct unigram_step){score, (uint32_t)start, id};
}

/* Offers every token that begins at `at`; true when one of them is exactly the first character. */
static ALWAYS_INLINE bool relax_tokens(struct search *x, bool single_precision, size_t at,
                                       size_t char_len) {
    const struct unigram *u = x->u;
    const uint8_t *p = x->piece.data;
    const size_t len = x->piece.len;
    double before = x->s->steps.items[at - x->from].score;
    bool single = false;
    const struct unigram_edge *edge = &u->roots[p[at]];
    size_t end = at + 1;
    if (u->metaspace.key && len - at >= 3 && !memcmp(p + at, METASPACE, 3)) {
        edge = &u->metaspace;
        end = at + 3;
    }
    for (;; end++) {
        if (edge->id != NONE) {
            relax(x, single_precision, end, before + u->scores[edge->id], at, edge->id);
            single |= end - at == char_len;
        }
        if (end == len || !(edge->next >> (p[end] & 31) & 1))
            break;
        edge = find_slot(u->edges, u->edge_slots, edge->node << 8 | p[end]);
        if (!edge->key)
            break;
    }
    x->steps += end - at;
    return single;
}

static int refuse_unknown(struct error *err) {
    return error_set(
        err, ERR_INVALID,
        "the text has characters that the model does not know, and it has no unknown token");
}

static int refuse_too_hard(struct error *err) {
    return error_set(
        err, ERR_LIMIT,
        "the text is too hard for this model's vocabulary: its tokens are so long that "
        "a search takes more than %d steps for each byte",
        UNIGRAM_STEPS_BYTE);
}

static ALWAYS_INLINE int viterbi_forward(struct search *x, bool single_precision,
                                         struct error *err) {
    const uint64_t allowed = (uint64_t)x->piece.len * UNIGRAM_STEPS_BYTE + UNIGRAM_STEPS_PIECE;
    for (size_t at = 0, n; at < x->piece.len; at += n) {
        uint32_t cp;
        n = unicode_next(x->piece.data + at, &cp);
        if (at == x->reach && at)
            relax_edge(x, at);
        bool single = relax_tokens(x, single_precision, at, n);
        if (x->steps > allowed)
            return refuse_too_hard(err);
        if (single)
            continue;
        if (x->u->unk_id == NONE)
            return refuse_unknown(err);
        double score = x->s->steps.items[at - x->from].score + x->u->unk_score;
        relax(x, single_precision, at + n, score, at, x->u->unk_id);
    }
    return 0;
}

int unigram_encode(const struct unigram *u, struct unigram_scratch *s, struct bytes piece,
                   struct token_vec *out, struct error *err) {
    CHECK(u->vocab && u->scores);
    struct search x = {.u = u, .s = s, .piece = piece, .out = out};
    s->steps.count = 0;
    vec_push(&s->steps, ((struct unigram_step){0, NONE, NONE}));
    int rc = u->single_precision ? viterbi_forward(&x, true, err) : viterbi_forward(&x, false, err);
    if (rc)
        return rc;
    relax_edge(&x, piece.len);
    flush_unknown(&x);
    return 0;
}
