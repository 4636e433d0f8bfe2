#include "text/tokenizer/bpe_internal.h"

/* ---- merges ---- */

const struct bpe_merge BPE_NO_MERGE = {NONE, NONE, NONE, NONE};

void bpe_init(struct bpe *b, const struct vocab *vocab, size_t count) {
    *b = (struct bpe){.vocab = vocab, .unk_id = NONE, .rising = true};
    if (!vocab->byte_level) bpe_cuts_init(&b->cuts, vocab, count);
    CHECK(count < UINT32_MAX / 2);
    b->merge_cap = (uint32_t)count;
    b->merge_slot_count = (uint32_t)(count + count / 2 + 16);
    b->merges = mem_calloc(count, sizeof *b->merges);
    b->merge_tags = mem_calloc(b->merge_slot_count, 1);
    b->merge_slots = mem_calloc(b->merge_slot_count, sizeof *b->merge_slots);
    b->first_shared_rank = NONE;
}

void bpe_release(struct bpe *b) {
    mem_free(b->merges);
    mem_free(b->merge_tags);
    mem_free(b->merge_slots);
    mem_free(b->byte_pairs);
    mem_free(b->inner_pairs);
    bpe_cuts_release(&b->cuts);
    mem_free(b->char_rows);
    mem_free(b->chars);
    b->char_rows = NULL;
    b->chars = NULL;
    b->inner_pairs = NULL;
    mem_free(b->unused);
    b->unused = NULL;
    b->merges = NULL;
    b->merge_tags = NULL;
    b->merge_slots = NULL;
    b->byte_pairs = NULL;
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
static struct bpe_merge *take_pair(struct bpe *b, uint32_t left, uint32_t right) {
    uint64_t hash = pair_hash(left, right);
    uint8_t tag = hash_tag(hash);
    uint32_t i = hash_slot(b, hash);
    for (; b->merge_tags[i]; i = next_slot(b, i)) {
        struct bpe_merge *known = &b->merges[b->merge_slots[i]];
        if (b->merge_tags[i] == tag && known->left == left && known->right == right) return known;
    }
    CHECK(b->merge_count < b->merge_cap);
    b->merge_tags[i] = tag;
    b->merge_slots[i] = b->merge_count;
    return &b->merges[b->merge_count++];
}

void bpe_add_ranked(struct bpe *b, uint32_t left, uint32_t right, uint32_t result, uint32_t rank) {
    if (rank < b->rank_count) b->first_shared_rank = MIN(b->first_shared_rank, rank);
    uint32_t count = b->merge_count;
    *take_pair(b, left, right) = (struct bpe_merge){left, right, rank, result};
    if (rank < b->rank_count || b->merge_count == count) b->rising = false;
    b->rank_count = MAX(b->rank_count, rank + 1);
    if (b->cuts.joints) bpe_cuts_note(&b->cuts, b->vocab, left, right, result);
}

/* ---- symbols ---- */

/* At byte level most pairs looked up first are two single bytes: those are in a table. */
static void make_byte_pairs(struct bpe *b) {
    for (unsigned i = 0; i < 256; i++) b->lacks_bytes |= b->ascii_ids[i] == NONE;
    b->byte_pairs = mem_alloc(65536 * sizeof *b->byte_pairs);
    for (unsigned i = 0; i < 65536; i++) {
        const struct bpe_merge *m =
            bpe_is_inner(b, i) ? find_pair(b, b->ascii_ids[i >> 8], b->ascii_ids[i & 255]) : &BPE_NO_MERGE;
        b->byte_pairs[i][0] = m->rank;
        b->byte_pairs[i][1] = m->result;
    }
}

/* Only their order matters: a pair's rank is known before the memory of its merge arrives then. */
static void number_ranks(struct bpe *b) {
    for (uint32_t i = 0; i < b->merge_count; i++) b->merges[i].rank = i;
    b->rank_count = b->merge_count;
}

static void make_inner_pairs(struct bpe *b) {
    b->inner_pairs = mem_calloc(65536 / 64, sizeof *b->inner_pairs);
    for (uint32_t id = 0; id < b->vocab->entries.count; id++) {
        struct bytes key = vocab_key(b->vocab, id);
        for (size_t i = 0; i + 1 < key.len; i++) {
            unsigned pair = (unsigned)key.data[i] << 8 | key.data[i + 1];
            b->inner_pairs[pair / 64] |= (uint64_t)1 << pair % 64;
        }
    }
}

void bpe_choose_variant(struct bpe *b) {
    bpe_merge_fn *variants[BPE_VARIANTS_MAX];
    b->merge_short = variants[bpe_merge_variants(variants) - 1];
}

static void finish_cuts(struct bpe *b) {
    for (unsigned i = 0; i < 256; i++)
        if (b->fallback_ids[i] == NONE) b->cuts.known = false;
    bool drops = !b->cuts.known && b->unk_id == NONE; /* what stood apart may meet */
    if (b->has_affix || b->ignore_merges || drops) bpe_cuts_release(&b->cuts);
    if (!b->cuts.known) b->cuts.line_ends = false;
    if (b->cuts.joints && bpe_cuts_symbol(&b->cuts, METASPACE_CHAR) == NONE) b->cuts.words = false;
}

void bpe_finish(struct bpe *b) {
    memset(b->fallback_ids, 0xFF, sizeof b->fallback_ids);
    if (b->byte_fallback) vocab_find_byte_tokens(b->vocab, b->fallback_ids);
    for (unsigned i = 0; i < 256; i++) {
        uint8_t key = (uint8_t)i;
        b->ascii_ids[i] = b->vocab->byte_level || i < 128 ? vocab_find(b->vocab, &key, 1) : NONE;
    }
    finish_cuts(b);
    bool many = b->rank_count > 4096;
    if (b->rising) number_ranks(b);
    if (b->vocab->byte_level && many && !b->has_affix) {
        make_inner_pairs(b);
        make_byte_pairs(b);
        if (!b->lacks_bytes) bpe_make_chars(b);
    }
    bpe_collect_unused(b);
    if (b->chars) bpe_make_joints(b);
    bpe_choose_variant(b);
    b->short_max = b->rank_count < 1u << 24 ? BPE_SHORT_MAX : 1; /* a rank and a place share 32 bits */
}
