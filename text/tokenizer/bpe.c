#include "text/tokenizer/bpe_internal.h"
#include "text/tokenizer/fast/fast.h"

/* ---- merges ---- */

const struct bpe_merge BPE_NO_MERGE = {NONE, NONE, NONE, NONE};

void bpe_init(struct bpe *b, const struct vocab *vocab, size_t count) {
    *b = (struct bpe){.vocab = vocab, .unk_id = NONE, .rising = true};
    fast_init(b, count);
    CHECK(count < UINT32_MAX / 2);
    b->merge_cap = (uint32_t)count;
    b->merge_slot_count = (uint32_t)(count + count / 2 + 16);
    b->merges = mem_calloc(count, sizeof *b->merges);
    b->merge_tags = mem_calloc(b->merge_slot_count, 1);
    b->merge_slots = mem_calloc(b->merge_slot_count, sizeof *b->merge_slots);
}

void bpe_release(struct bpe *b) {
    mem_free(b->merges);
    mem_free(b->merge_tags);
    mem_free(b->merge_slots);
    fast_release(b);
    mem_free(b->unused);
    b->unused = NULL;
    b->merges = NULL;
    b->merge_tags = NULL;
    b->merge_slots = NULL;
}

void bpe_prefetch(const struct bpe *b, uint32_t left, uint32_t right) {
    uint32_t slot = hash_slot(b, pair_hash(left, right));
    __builtin_prefetch(&b->merge_slots[slot], 1);
    __builtin_prefetch(&b->merge_tags[slot], 1);
}

void bpe_add_merge(struct bpe *b, uint32_t left, uint32_t right, uint32_t result) {
    bpe_add_ranked(b, left, right, result, b->rank_count);
}

/* The pair's merge; a new pair's is the next one, in a slot of its own. */
static struct bpe_merge *add_pair(struct bpe *b, uint32_t left, uint32_t right) {
    uint64_t hash = pair_hash(left, right);
    uint8_t tag = hash_tag(hash);
    uint32_t i = hash_slot(b, hash);
    for (; b->merge_tags[i]; i = next_slot(b, i)) {
        struct bpe_merge *known = &b->merges[b->merge_slots[i]];
        if (b->merge_tags[i] == tag && known->left == left && known->right == right)
            return known;
    }
    CHECK(b->merge_count < b->merge_cap);
    b->merge_tags[i] = tag;
    b->merge_slots[i] = b->merge_count;
    return &b->merges[b->merge_count++];
}

void bpe_add_ranked(struct bpe *b, uint32_t left, uint32_t right, uint32_t result, uint32_t rank) {
    uint32_t count = b->merge_count;
    *add_pair(b, left, right) = (struct bpe_merge){left, right, rank, result};
    if (rank < b->rank_count || b->merge_count == count)
        b->rising = false;
    b->rank_count = MAX(b->rank_count, rank + 1);
    fast_add_merge(b, left, right, result);
}

/* ---- symbols ---- */

/* Only their order matters: a pair's rank is known before the memory of its merge arrives then. */
static void number_ranks(struct bpe *b) {
    for (uint32_t i = 0; i < b->merge_count; i++)
        b->merges[i].rank = i;
    b->rank_count = b->merge_count;
}

void bpe_finish(struct bpe *b) {
    CHECK(b->vocab && b->merge_count <= b->merge_cap);
    memset(b->fallback_ids, 0xFF, sizeof b->fallback_ids);
    if (b->byte_fallback)
        vocab_find_byte_tokens(b->vocab, b->fallback_ids);
    for (unsigned i = 0; i < 256; i++) {
        uint8_t key = (uint8_t)i;
        b->ascii_ids[i] = b->vocab->byte_level || i < 128 ? vocab_find(b->vocab, &key, 1) : NONE;
    }
    bool many = b->rank_count > 4096;
    if (b->rising)
        number_ranks(b);
    bpe_collect_unused(b);
    fast_finish(b, many);
    /* a rank and a place share 32 bits */
    b->short_max = b->rank_count < 1u << 24 ? BPE_SHORT_MAX : 1;
}
