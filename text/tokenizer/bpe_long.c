/*
 * bpe_long.c - merging long pieces: a linked list of symbols, one bucket of positions per rank, a
 * bitmap of four levels that finds the lowest rank with positions, and a heap for positions whose
 * rank turns up too late for its bucket.
 */
#include "text/tokenizer/bpe_internal.h"

void bpe_prepare_buckets(const struct bpe *b, struct bpe_scratch *s) {
    if (s->buckets)
        return;
    s->buckets = mem_calloc(MAX(b->rank_count, 1u), sizeof *s->buckets);
    memset(s->buckets, 0xFF, MAX(b->rank_count, 1u) * sizeof *s->buckets);
    size_t bits = MAX(b->rank_count, 1u);
    for (int level = 0; level < 4; level++) {
        s->bit_words[level] = (bits + 63) / 64;
        s->bits[level] = mem_calloc(s->bit_words[level], sizeof(uint64_t));
        bits = s->bit_words[level];
    }
}

void bpe_bucket_push(struct bpe_scratch *s, uint32_t rank, uint32_t pos) {
    struct bpe_bucket *bucket = &s->buckets[rank];
    uint32_t entry = (uint32_t)s->entries.count;
    vec_push(&s->entries, ((struct bpe_list){pos, NONE}));
    if (bucket->first == NONE) {
        bucket->first = entry;
        size_t bit = rank;
        for (int level = 0; level < 4; level++, bit /= 64)
            s->bits[level][bit / 64] |= (uint64_t)1 << bit % 64;
    } else {
        s->entries.items[bucket->last].next = entry;
    }
    bucket->last = entry;
}

/* Four levels of 64 cover 16 million words of ranks. */
uint32_t bpe_lowest_bucket(const struct bpe_scratch *s) {
    size_t word = 0;
    while (word < s->bit_words[3] && !s->bits[3][word])
        word++;
    if (word == s->bit_words[3])
        return NONE;
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
    for (size_t i = 1; i < count && sorted; i++)
        sorted = s->order.items[i - 1] <= s->order.items[i];
    if (sorted)
        return;
    vec_reserve(&s->order_other, count);
    for (unsigned shift = 0; shift < 32; shift += 8) { /* radix sort */
        size_t starts[257] = {0};
        for (size_t i = 0; i < count; i++)
            starts[(s->order.items[i] >> shift & 255) + 1]++;
        if (starts[1] == count)
            continue;
        for (int k = 0; k < 256; k++)
            starts[k + 1] += starts[k];
        for (size_t i = 0; i < count; i++)
            s->order_other.items[starts[s->order.items[i] >> shift & 255]++] = s->order.items[i];
        memcpy(s->order.items, s->order_other.items, count * sizeof *s->order.items);
    }
}

void bpe_empty_bucket(struct bpe_scratch *s, uint32_t rank) {
    s->order.count = 0;
    for (uint32_t e = s->buckets[rank].first; e != NONE; e = s->entries.items[e].next)
        vec_push(&s->order, s->entries.items[e].pos);
    s->buckets[rank] = (struct bpe_bucket){NONE, NONE};
    size_t bit = rank;
    for (int level = 0; level < 4; level++, bit /= 64)
        if (s->bits[level][bit / 64] &= ~((uint64_t)1 << bit % 64))
            break;
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
        if (child + 1 < s->heap.count && wait_less(s->heap.items[child + 1], s->heap.items[child]))
            child++;
        if (!wait_less(s->heap.items[child], w))
            break;
        s->heap.items[i] = s->heap.items[child];
        i = child;
    }
    if (s->heap.count)
        s->heap.items[i] = w;
}

static const struct bpe_merge *look_up(const struct bpe *b, struct bpe_scratch *s, uint32_t left,
                                       uint32_t right) {
    if (s->last.left != left || s->last.right != right) {
        s->last = *find_pair(b, left, right);
        s->last.left = left; /* also when there is no such merge */
        s->last.right = right;
    }
    return &s->last;
}

/* Notes the pair that begins at pos: for later, or, at or below the rank being visited, for right
 * now. */
static void note_pair(const struct bpe *b, struct bpe_scratch *s, uint32_t pos,
                      uint32_t current_rank) {
    uint32_t next = s->next.items[pos];
    if (next == NONE)
        return;
    uint32_t rank = look_up(b, s, s->ids.items[pos], s->ids.items[next])->rank;
    if (rank == NONE)
        return;
    if (rank <= current_rank && current_rank != NONE)
        heap_push(s, (struct bpe_wait){rank, pos});
    else
        bpe_bucket_push(s, rank, pos);
}

static void merge_at(const struct bpe *b, struct bpe_scratch *s, struct bpe_wait at,
                     uint32_t current_rank) {
    uint32_t pos = at.pos, next = s->next.items[pos];
    if (s->ids.items[pos] == NONE || next == NONE)
        return;
    const struct bpe_merge *m = look_up(b, s, s->ids.items[pos], s->ids.items[next]);
    if (m->rank != at.rank)
        return; /* the pair noted is gone */
    s->ids.items[pos] = m->result;
    s->ids.items[next] = NONE;
    uint32_t after = s->next.items[next];
    s->next.items[pos] = after;
    if (after != NONE)
        s->prev.items[after] = pos;
    if (s->prev.items[pos] != NONE)
        note_pair(b, s, s->prev.items[pos], current_rank);
    note_pair(b, s, pos, current_rank);
}

static void visit_bucket(const struct bpe *b, struct bpe_scratch *s, uint32_t rank) {
    bpe_empty_bucket(s, rank);
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

size_t bpe_merge_long(const struct bpe *b, struct bpe_scratch *s) {
    size_t count = s->ids.count;
    bpe_prepare_buckets(b, s);
    vec_reserve(&s->next, count);
    vec_reserve(&s->prev, count);
    s->entries.count = s->heap.count = 0;
    for (size_t i = 0; i < count; i++) {
        s->next.items[i] = i + 1 < count ? (uint32_t)(i + 1) : NONE;
        s->prev.items[i] = i ? (uint32_t)(i - 1) : NONE;
    }
    s->last.left = NONE;
    for (uint32_t i = 0; i + 1 < count; i++)
        note_pair(b, s, i, NONE);
    for (uint32_t rank; (rank = bpe_lowest_bucket(s)) != NONE;)
        visit_bucket(b, s, rank);
    size_t kept = 0;
    for (uint32_t i = 0; i != NONE; i = s->next.items[i])
        s->ids.items[kept++] = s->ids.items[i];
    return kept;
}
