/*
 * spm_build.c - a tokenizer from a SentencePiece vocabulary.
 */
#include <float.h>
#include <math.h>

#include "base/utf8.h"
#include "text/tokenizer/detokenize.h"
#include "text/tokenizer/rank_merges.h"
#include "text/tokenizer/spm.h"
#include "text/tokenizer/spm_normalize.h"

static bool is_ordinary(uint8_t type) {
    return type == SPM_NORMAL || type == SPM_USER_DEFINED || type == SPM_UNUSED;
}

/* ---- vocabulary ---- */

static int add_pieces(const struct spm_model *m, struct tokenizer *t, struct error *err) {
    size_t count = m->pieces.count;
    uint8_t *flags = mem_calloc(MAX(count, (size_t)1), 1);
    int rc = 0;
    for (uint32_t id = 0; id < count && !rc; id++) {
        const struct spm_piece *p = &m->pieces.items[id];
        rc = vocab_add(&t->vocab, p->text, id, err);
        flags[id] = (is_ordinary(p->type) ? 0 : VOCAB_LITERAL) |
                    (p->type == SPM_UNUSED ? VOCAB_UNUSED : 0) |
                    (p->type == SPM_CONTROL ? VOCAB_SPECIAL | VOCAB_ADDED : 0);
    }
    if (!rc)
        vocab_seal_flagged(&t->vocab, false, flags);
    mem_free(flags);
    return rc;
}

/* ---- BPE ---- */

/* Higher scores are lower keys; all zeros are alike. */
static uint32_t score_key(float score) {
    uint32_t bits;
    if (score == 0)
        score = 0;
    memcpy(&bits, &score, sizeof bits);
    return bits >> 31 ? bits : ~bits & 0x7FFFFFFFu;
}

struct scored {
    uint32_t key, id;
};

/* By key; what is equal stays as it was. Spare: as large. */
static void sort_scored(struct scored *list, struct scored *spare, size_t count) {
    enum { BITS = 11, PASSES = 3 };
    for (unsigned pass = 0; pass < PASSES; pass++) {
        size_t starts[(1 << BITS) + 1] = {0};
        unsigned shift = pass * BITS, mask = (1 << BITS) - 1;
        for (size_t i = 0; i < count; i++)
            starts[(list[i].key >> shift & mask) + 1]++;
        for (size_t i = 0; i < mask; i++)
            starts[i + 1] += starts[i];
        for (size_t i = 0; i < count; i++)
            spare[starts[list[i].key >> shift & mask]++] = list[i];
        struct scored *other = list;
        list = spare;
        spare = other;
    }
    memcpy(spare, list, count * sizeof *list); /* the passes are odd */
}

static int build_bpe(const struct spm_model *m, struct tokenizer *t, struct error *err) {
    struct scored *sorted = mem_calloc(2 * m->pieces.count, sizeof *sorted);
    struct ranked_token *order = mem_calloc(m->pieces.count, sizeof *order);
    uint32_t count = 0;
    for (uint32_t id = 0; id < m->pieces.count; id++) {
        const struct spm_piece *p = &m->pieces.items[id];
        if (is_ordinary(p->type))
            sorted[count++] = (struct scored){score_key(p->score), id};
    }
    sort_scored(sorted, sorted + count, count);
    for (uint32_t i = 0; i < count; i++) {
        bool tie = i && sorted[i].key == sorted[i - 1].key;
        order[i] = (struct ranked_token){sorted[i].id, tie ? order[i - 1].rank : i};
    }
    int rc = rank_merges_build(&t->bpe, &t->vocab, order, count, err);
    mem_free(sorted);
    mem_free(order);
    if (rc)
        return rc;
    t->model = MODEL_BPE;
    t->bpe.byte_fallback = m->byte_fallback;
    t->bpe.fuse_unk = true;
    t->bpe.unk_id = m->unk_id;
    bpe_finish(&t->bpe);
    return 0;
}

/* ---- Unigram ---- */

static int build_unigram(const struct spm_model *m, struct tokenizer *t, struct error *err) {
    /* sentencepiece begins with this least positive number */
    float lowest = INFINITY, highest = FLT_MIN;
    for (size_t i = 0; i < m->pieces.count; i++) {
        const struct spm_piece *p = &m->pieces.items[i];
        if (!isfinite(p->score))
            return error_set(err, ERR_INVALID, "tokenizer.model: piece %zu has no score", i);
        if (p->type != SPM_NORMAL)
            continue;
        lowest = MIN(lowest, p->score);
        highest = MAX(highest, p->score);
    }
    if (lowest == INFINITY)
        lowest = 0;
    double *scores = mem_calloc(m->pieces.count, sizeof *scores);
    bool *in_trie = mem_calloc(m->pieces.count, sizeof *in_trie);
    for (size_t i = 0; i < m->pieces.count; i++) {
        const struct spm_piece *p = &m->pieces.items[i];
        in_trie[i] = p->type == SPM_NORMAL || p->type == SPM_USER_DEFINED;
        scores[i] = p->score;
        if (p->type == SPM_USER_DEFINED) /* so good that it is always taken */
            scores[i] = (double)((float)p->text.len * highest) - 0.1;
    }
    t->model = MODEL_UNIGRAM;
    int rc =
        unigram_init(&t->unigram, &t->vocab, scores, m->unk_id, m->byte_fallback, in_trie, err);
    t->unigram.unk_score = lowest - 10.0f;
    t->unigram.single_precision = true;
    mem_free(in_trie);
    return rc;
}

/* ---- words ---- */

/* Each U+2581 begins a word, even where one is trained to end with it. */
static int build_words(const struct spm_model *m, struct tokenizer *t, struct error *err) {
    static const struct tokenizer_rules RULES = {
        .pre_tokenizer = "{\"type\":\"Split\",\"pattern\":{\"String\":\"\xE2\x96\x81\"},"
                         "\"behavior\":\"MergedWithNext\"}"};
    t->model = MODEL_WORDLEVEL;
    wordlevel_init(&t->wordlevel, &t->vocab, m->unk_id, true, m->byte_fallback);
    return tokenizer_set_rules(t, &RULES, err);
}

/* ---- around the model ---- */

static int build_normalizer(const struct spm_model *m, struct tokenizer *t, struct error *err) {
    struct spm_normalizer *n = mem_alloc(sizeof *n);
    struct normalizer_step *step = &t->normalizer.steps[0];
    int rc = m->charsmap.len ? charsmap_init(&n->charsmap, m->charsmap, err) : 0;
    n->dummy_prefix = m->dummy_prefix;
    n->suffix = m->suffix;
    n->remove_extra = m->remove_extra;
    n->escape = m->escape;
    added_init(&n->symbols);
    *step = (struct normalizer_step){.kind = NORMALIZE_SENTENCEPIECE, .spm = n};
    t->normalizer.step_count = 1; /* owned by t from here on */
    for (uint32_t id = 0; id < m->pieces.count && !rc; id++) {
        const struct spm_piece *p = &m->pieces.items[id];
        if (p->type == SPM_USER_DEFINED && !m->raw_symbols)
            rc = added_add(&n->symbols, p->text, (struct added_token){.id = id}, err);
    }
    return rc;
}

/* Control pieces match in raw text when asked for; user-defined ones, in BPE, always and in
 * normalized text. */
static int build_added(const struct spm_model *m, struct tokenizer *t, struct error *err) {
    int rc = 0;
    for (uint32_t id = 0; id < m->pieces.count && !rc; id++) {
        const struct spm_piece *p = &m->pieces.items[id];
        struct added_token token = {.id = id, .special = p->type != SPM_USER_DEFINED};
        if (p->type == SPM_CONTROL || p->type == SPM_UNKNOWN)
            rc = added_add(&t->added, p->text, token, err);
        if (p->type == SPM_USER_DEFINED && m->raw_symbols)
            rc = added_add(&t->added, p->text, token, err);
        else if (p->type == SPM_USER_DEFINED && !m->unigram && !m->words)
            rc = added_add(&t->added_normalized, p->text, token, err);
    }
    return rc;
}

static void build_decoder(const struct spm_model *m, struct tokenizer *t) {
    t->decoder.kind = DECODER_TEXT;
    t->decoder.byte_fallback = m->byte_fallback;
    t->decoder.bytes_singly = true;
    if (m->remove_extra)
        t->decoder.first_space = FIRST_SPACE_EACH;
    else if (m->dummy_prefix)
        t->decoder.first_space = FIRST_SPACE_ONE;
    decoder_begin_texts(t);
    for (uint32_t id = 0; id < t->vocab.entries.count; id++) {
        const struct spm_piece *p = &m->pieces.items[id];
        if (p->type == SPM_UNKNOWN)
            decoder_add_text(t, id, m->unk_surface, false);
        else
            decoder_add_text(t, id, p->text, p->type != SPM_CONTROL);
    }
}

static uint32_t checked_id(const struct spm_model *m, uint32_t id) {
    return id < m->pieces.count ? id : TOKEN_NONE;
}

int spm_build(const struct spm_model *m, struct tokenizer *t, struct error *err) {
    CHECK(m && t && !t->vocab.slots);
    if (checked_id(m, m->unk_id) == TOKEN_NONE)
        return error_set(err, ERR_INVALID, "tokenizer.model has no unknown token");
    t->spm_offsets = true;
    int rc = add_pieces(m, t, err);
    if (!rc && m->words)
        rc = build_words(m, t, err);
    else if (!rc)
        rc = m->unigram ? build_unigram(m, t, err) : build_bpe(m, t, err);
    if (!rc)
        rc = build_normalizer(m, t, err);
    if (!rc)
        rc = build_added(m, t, err);
    if (rc)
        return rc;
    build_decoder(m, t);
    if (t->texts.failed)
        return error_set(err, ERR_LIMIT, "the decoded vocabulary is larger than 4 GB");
    t->bos = checked_id(m, m->bos_id);
    if (t->bos != TOKEN_NONE)
        vec_push(&t->prefix, t->bos);
    tokenizer_add_eos(t, checked_id(m, m->eos_id));
    return 0;
}
