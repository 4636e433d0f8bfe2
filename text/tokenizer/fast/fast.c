/*
 * fast.c - chooses the fast way of a text, where there is one.
 */
#include "text/tokenizer/fast/fast.h"

#include "text/tokenizer/fast/metaspaced.h"
#include "text/tokenizer/fast/scan_block.h"
#include "text/tokenizer/spm_normalize.h"
#include "text/tokenizer/tokenizer_data.h"

enum { TAIL_MIN = 16 };

/* ---- pieces by the scanners ---- */

struct batch_run {
    struct piece_batch pieces;
    fast_batch_fn *batch;
    void *ctx;
    const uint8_t *limit;
};

static void flush(struct batch_run *r) {
    if (r->pieces.count)
        r->batch(r->ctx, &r->pieces, r->limit);
    r->pieces.count = 0;
}

/* Adds the pieces from each bit of starts to the next; returns the last bit. */
static size_t add_block(struct batch_run *r, const uint8_t *p, uint64_t starts) {
    if (r->pieces.count > PIECE_BATCH - SCAN_BLOCK_BYTES)
        flush(r);
    unsigned at = 0, count = r->pieces.count;
    for (uint64_t rest = starts & (starts - 1); rest; rest &= rest - 1, count++) {
        unsigned next = (unsigned)__builtin_ctzll(rest);
        r->pieces.at[count] = p + at;
        r->pieces.len[count] = next - at;
        at = next;
    }
    r->pieces.count = count;
    return at;
}

/* The last bytes of a text as a block: behind them stand spaces, which borders in front of a letter
 * or digit take like the end. */
static uint64_t scan_tail(scan_block_fn *block, const uint8_t *p, size_t left) {
    uint8_t bytes[SCAN_BLOCK_BYTES + SCAN_BLOCK_REACH];
    memset(bytes, ' ', sizeof bytes);
    memcpy(bytes, p, left);
    return block(bytes);
}

/* By blocks, as far as they are certain, else piece by piece. */
void fast_split(const struct split_stage *stage, struct bytes text, fast_batch_fn *batch,
                void *ctx) {
    const uint8_t *p = text.data, *end = text.data + text.len;
    struct batch_run r;
    scan_block_fn *block = stage->block;
    CHECK(stage->kind == SPLIT_SCAN);
    r.pieces.count = 0;
    r.batch = batch;
    r.ctx = ctx;
    r.limit = end;
    while (p < end) {
        size_t left = (size_t)(end - p);
        uint64_t starts = 1;
        if (block && left >= SCAN_BLOCK_REACH) {
            starts = block(p);
        } else if (block && left >= TAIL_MIN) {
            starts = scan_tail(block, p, left);
            block = left > SCAN_BLOCK_BYTES ? block : NULL;
        }
        if (starts != 1) {
            p += add_block(&r, p, starts);
            continue;
        }
        size_t len = stage->scan(p, end);
        if (r.pieces.count == PIECE_BATCH)
            flush(&r);
        r.pieces.at[r.pieces.count] = p;
        r.pieces.len[r.pieces.count++] = (uint32_t)len;
        p += len;
    }
    flush(&r);
}

struct encode_run {
    const struct bpe *bpe;
    struct bpe_scratch *scratch;
    struct token_vec *out;
};

static void encode_batch(void *ctx, const struct piece_batch *pieces, const uint8_t *limit) {
    struct encode_run *r = ctx;
    fast_encode_batch(r->bpe, r->scratch, pieces, limit, r->out);
}

/* ---- BPE with U+2581 for spaces ---- */

static bool is_metaspace(const char *text, size_t len) {
    return len == 3 && !memcmp(text, "\xE2\x96\x81", 3);
}

/* The normalizer does no more than spaces to U+2581, perhaps with one more before the text. */
static bool normalizes_spaces(const struct normalizer *n, struct metaspaced *how) {
    const struct normalizer_step *first = &n->steps[0];
    if (n->step_count == 1 && first->kind == NORMALIZE_SENTENCEPIECE) {
        *how = (struct metaspaced){true, first->spm->dummy_prefix};
        return spm_only_spaces(first->spm);
    }
    bool prefix = n->step_count == 2 && first->kind == NORMALIZE_PREPEND &&
                  is_metaspace(first->content, first->content_len);
    const struct normalizer_step *last = first + prefix;
    *how = (struct metaspaced){true, prefix};
    return n->step_count == 1u + prefix && last->kind == NORMALIZE_REPLACE &&
           last->pattern_len == 1 && last->pattern[0] == ' ' &&
           is_metaspace(last->content, last->content_len);
}

/* The pre-tokenizer, if any, does no more than that to the span. */
static bool splits_nothing(const struct splitter *s, struct bytes span, bool at_start,
                           struct metaspaced *how) {
    const struct split_stage *stage = &s->stages[0];
    *how = (struct metaspaced){0};
    if (!s->stage_count)
        return true;
    if (s->stage_count > 1 || stage->kind != SPLIT_METASPACE || stage->metaspace_split ||
        !is_metaspace(stage->literal, stage->literal_len))
        return false;
    bool prefix =
        stage->prepend == METASPACE_ALWAYS || (stage->prepend == METASPACE_FIRST && at_start);
    bool has = span.data[0] == ' ' || (span.len >= 3 && is_metaspace((const char *)span.data, 3));
    *how = (struct metaspaced){true, prefix && !has};
    return true;
}

/* ---- the choice ---- */

bool fast_encode(const struct tokenizer *t, struct encode_scratch *s, struct bytes span,
                 enum fast_span kind, bool at_start, struct token_vec *out) {
    struct metaspaced how;
    const struct splitter *splitter = &t->splitter;
    if (t->model != MODEL_BPE)
        return false;
    bool spaced = false;
    if (metaspaced_fits(&t->bpe))
        spaced = kind == FAST_NORMALIZED
                     ? splits_nothing(splitter, span, at_start, &how)
                     : !splitter->stage_count && !t->added_normalized.tokens.count &&
                           normalizes_spaces(&t->normalizer, &how);
    if (spaced) {
        metaspaced_encode(&t->bpe, &s->bpe, span, how, out);
        return true;
    }
    if (kind == FAST_RAW || splitter->mapped || splitter->stage_count != 1 ||
        splitter->stages[0].kind != SPLIT_SCAN)
        return false;
    struct encode_run r = {&t->bpe, &s->bpe, out};
    fast_split(&splitter->stages[0], span, encode_batch, &r);
    return true;
}
