/*
 * load.c - reads tokenizer.json: the large parts (vocabulary, merges) as a stream, the small ones as trees.
 */
#include "formats/json.h"
#include "text/tokenizer/build.h"
#include "text/tokenizer/compiled.h"
#include "text/tokenizer/model_text.h"
#include "text/tokenizer/open.h"
#include "text/unicode.h"

enum { SECTION_BUDGET = 64 << 20, SECTION_CALLS = 4 << 20, WORD_CHARS_MAX = 1000 };

struct load {
    struct tokenizer *t;
    struct error *err;
    struct arena arena;
    struct bytes added, normalizer, pre_tokenizer, post_processor, decoder; /* raw JSON */
    struct bytes vocab, merges;                                             /* raw JSON of the model's large parts */
    char unk_token[256], prefix[WORDPIECE_PREFIX_MAX + 1], suffix[WORDPIECE_PREFIX_MAX + 1];
    uint32_t unk_id;
    int64_t chars_max;
    bool byte_fallback, fuse_unk, ignore_merges;
};

/* ---- reading ---- */

static int reader_error(struct load *l, const struct json_reader *r) {
    return error_set(l->err, r->error.code ? r->error.code : ERR_INVALID, "tokenizer.json: %s", r->error.text);
}

/* After KEY: the raw bytes of the value, which is passed over. */
static bool read_raw(struct json_reader *r, struct bytes *out) {
    if (json_next(r) == JSON_ERROR) return false;
    size_t begin = r->offset;
    if (!json_skip(r)) return false;
    *out = bytes_of(r->start + begin, (size_t)(r->at - r->start) - begin);
    return true;
}

/* A string or null; at most max - 1 bytes. */
static int read_text(struct load *l, struct json_reader *r, const char *name, char *out, size_t max) {
    enum json_event event = json_next(r);
    if (event == JSON_NULL) return 0;
    if (event != JSON_STRING || r->text.len >= max)
        return error_set(l->err, ERR_INVALID, "tokenizer.json: bad %s", name);
    memcpy(out, r->text.data, r->text.len);
    out[r->text.len] = 0;
    return 0;
}

/* Dropout is for training: here every merge applies. */
static int read_dropout(struct load *l, struct json_reader *r) {
    double dropout = 0;
    enum json_event event = json_next(r);
    if (event == JSON_NULL) return 0;
    if (event != JSON_NUMBER || !json_number_double(r->text, &dropout))
        return error_set(l->err, ERR_INVALID, "tokenizer.json: bad dropout");
    return 0;
}

static int read_flag(struct load *l, struct json_reader *r, bool *out) {
    enum json_event event = json_next(r);
    if (event != JSON_TRUE && event != JSON_FALSE && event != JSON_NULL) return reader_error(l, r);
    *out = event == JSON_TRUE;
    return 0;
}

static int read_type(struct load *l, struct json_reader *r) {
    static const char *const NAMES[] = {"BPE", "Unigram", "WordPiece", "WordLevel"};
    struct bytes type;
    if (!json_read_string(r, &type)) return reader_error(l, r);
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
        if (bytes_equal(type, bytes_str(NAMES[i]))) {
            l->t->model = (enum model_kind)i;
            return 0;
        }
    return error_set(l->err, ERR_UNSUPPORTED, "tokenizer.json: model '%.*s' is not supported",
                     (int)MIN(type.len, (size_t)32), (const char *)type.data);
}

static int read_unk_id(struct load *l, struct json_reader *r) {
    int64_t id;
    enum json_event event = json_next(r);
    if (event == JSON_NULL) return 0;
    if (event != JSON_NUMBER || !json_number_int64(r->text, &id) || id < 0 || id >= VOCAB_IDS_MAX)
        return error_set(l->err, ERR_INVALID, "tokenizer.json: bad unk_id");
    l->unk_id = (uint32_t)id;
    return 0;
}

static int read_model_member(struct load *l, struct json_reader *r, struct bytes key) {
    if (bytes_equal(key, bytes_str("type"))) return read_type(l, r);
    if (bytes_equal(key, bytes_str("unk_token")))
        return read_text(l, r, "unk_token", l->unk_token, sizeof l->unk_token);
    if (bytes_equal(key, bytes_str("unk_id"))) return read_unk_id(l, r);
    if (bytes_equal(key, bytes_str("max_input_chars_per_word")))
        return json_read_int64(r, &l->chars_max) ? 0 : reader_error(l, r);
    if (bytes_equal(key, bytes_str("byte_fallback"))) return read_flag(l, r, &l->byte_fallback);
    if (bytes_equal(key, bytes_str("fuse_unk"))) return read_flag(l, r, &l->fuse_unk);
    if (bytes_equal(key, bytes_str("ignore_merges"))) return read_flag(l, r, &l->ignore_merges);
    if (bytes_equal(key, bytes_str("continuing_subword_prefix")))
        return read_text(l, r, "continuing_subword_prefix", l->prefix, sizeof l->prefix);
    if (bytes_equal(key, bytes_str("end_of_word_suffix")))
        return read_text(l, r, "end_of_word_suffix", l->suffix, sizeof l->suffix);
    if (bytes_equal(key, bytes_str("dropout"))) return read_dropout(l, r);
    struct bytes ignored, *to = &ignored;
    if (bytes_equal(key, bytes_str("vocab"))) to = &l->vocab;
    if (bytes_equal(key, bytes_str("merges"))) to = &l->merges;
    return read_raw(r, to) ? 0 : reader_error(l, r);
}

/* The key's text, kept over the next read. */
static struct bytes keep_key(struct bytes key, char kept[64]) {
    size_t len = MIN(key.len, (size_t)64);
    if (len) memcpy(kept, key.data, len);
    return bytes_of(kept, len);
}

static int read_model(struct load *l, struct json_reader *r) {
    char kept[64];
    if (!json_expect(r, JSON_OBJECT_BEGIN)) return reader_error(l, r);
    enum json_event event;
    while ((event = json_next(r)) == JSON_KEY) {
        int rc = read_model_member(l, r, keep_key(r->text, kept));
        if (rc) return rc;
    }
    return event == JSON_OBJECT_END ? 0 : reader_error(l, r);
}

static int read_top(struct load *l, struct json_reader *r) {
    static const char *const NAMES[] = {"added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder"};
    struct bytes *const sections[] = {&l->added, &l->normalizer, &l->pre_tokenizer, &l->post_processor, &l->decoder};
    char kept[64];
    if (!json_expect(r, JSON_OBJECT_BEGIN)) return reader_error(l, r);
    enum json_event event;
    while ((event = json_next(r)) == JSON_KEY) {
        struct bytes key = keep_key(r->text, kept), ignored, *to = &ignored;
        if (bytes_equal(key, bytes_str("model"))) {
            int rc = read_model(l, r);
            if (rc) return rc;
            continue;
        }
        for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
            if (bytes_equal(key, bytes_str(NAMES[i]))) to = sections[i];
        if (!read_raw(r, to)) return reader_error(l, r);
    }
    if (event != JSON_OBJECT_END || json_next(r) != JSON_END) return reader_error(l, r);
    return l->vocab.len ? 0 : error_set(l->err, ERR_INVALID, "tokenizer.json has no vocabulary");
}

/* ---- the small sections ---- */

static int parse_section(struct load *l, struct bytes raw, struct tvalue *out) {
    *out = tvalue_none();
    if (!raw.len) return 0;
    int rc = tvalue_from_json(&l->arena, raw, out, l->err);
    return rc ? error_wrap(l->err, "tokenizer.json") : 0;
}

/* Gemma: spaces become U+2581, and the pre-tokenizer splits at spaces, which are gone then. */
static void drop_idle_stage(struct tokenizer *t) {
    const struct split_stage *stage = &t->splitter.stages[0];
    if (t->splitter.stage_count != 1 || stage->kind != SPLIT_LITERAL || stage->invert) return;
    bool gone = false;
    for (size_t i = 0; i < t->normalizer.step_count; i++) {
        const struct normalizer_step *step = &t->normalizer.steps[i];
        struct bytes literal = bytes_of(stage->literal, stage->literal_len);
        gone |= step->kind == NORMALIZE_REPLACE && bytes_equal(bytes_of(step->pattern, step->pattern_len), literal) &&
                !memmem(step->content, step->content_len, literal.data, literal.len);
        if (step->kind != NORMALIZE_REPLACE) gone = false; /* anything else might bring it back */
    }
    if (gone) splitter_release(&t->splitter);
}

/* ---- in order ---- */

static int find_unk(struct load *l, uint32_t *id) {
    *id = l->unk_token[0] ? vocab_find_spelling(&l->t->vocab, bytes_str(l->unk_token)) : UINT32_MAX;
    if (*id != UINT32_MAX || !l->unk_token[0]) return 0;
    return error_set(l->err, ERR_INVALID, "tokenizer.json: unk_token is not in the vocabulary");
}

static int load_bpe(struct load *l, bool byte_level) {
    struct bpe *b = &l->t->bpe;
    int rc = model_read_vocab(l->vocab, &l->t->vocab, l->err);
    if (rc) return rc;
    vocab_seal(&l->t->vocab, byte_level);
    rc = model_read_merges(l->merges, &l->t->vocab, strlen(l->prefix), b, l->err);
    memcpy(b->prefix, l->prefix, sizeof b->prefix);
    memcpy(b->suffix, l->suffix, sizeof b->suffix);
    b->has_affix = l->prefix[0] || l->suffix[0];
    b->byte_fallback = l->byte_fallback;
    b->fuse_unk = l->fuse_unk;
    b->ignore_merges = l->ignore_merges;
    if (!rc) rc = find_unk(l, &b->unk_id);
    if (!rc) bpe_finish(b);
    return rc;
}

static int load_unigram(struct load *l, bool byte_level) {
    double *scores = NULL;
    int rc = model_read_scored(l->vocab, &l->t->vocab, &scores, l->err);
    if (!rc && l->unk_id != UINT32_MAX && l->unk_id >= l->t->vocab.entries.count)
        rc = error_set(l->err, ERR_INVALID, "tokenizer.json: unk_id is not in the vocabulary");
    if (rc) {
        mem_free(scores);
        return rc;
    }
    vocab_seal(&l->t->vocab, byte_level);
    unigram_init(&l->t->unigram, &l->t->vocab, scores, l->unk_id, l->byte_fallback, NULL);
    return 0;
}

static int load_wordpiece(struct load *l, bool byte_level) {
    uint32_t unk_id;
    int rc = model_read_vocab(l->vocab, &l->t->vocab, l->err);
    if (rc) return rc;
    vocab_seal(&l->t->vocab, byte_level);
    rc = find_unk(l, &unk_id);
    if (!rc && unk_id == UINT32_MAX) rc = error_set(l->err, ERR_INVALID, "tokenizer.json: WordPiece without unk_token");
    uint32_t chars_max = (uint32_t)MIN(MAX(l->chars_max, 0), WORD_CHARS_MAX);
    if (!rc) wordpiece_init(&l->t->wordpiece, &l->t->vocab, l->prefix, chars_max, unk_id);
    return rc;
}

static int load_wordlevel(struct load *l, bool byte_level) {
    int rc = model_read_vocab(l->vocab, &l->t->vocab, l->err);
    if (rc) return rc;
    vocab_seal(&l->t->vocab, byte_level);
    uint32_t unk_id = l->unk_token[0] ? vocab_find_spelling(&l->t->vocab, bytes_str(l->unk_token)) : TOKEN_NONE;
    wordlevel_init(&l->t->wordlevel, &l->t->vocab, unk_id, false, false);
    return 0;
}

static int load_model(struct load *l, bool byte_level) {
    switch (l->t->model) {
    case MODEL_BPE: return load_bpe(l, byte_level);
    case MODEL_UNIGRAM: return load_unigram(l, byte_level);
    case MODEL_WORDPIECE: return load_wordpiece(l, byte_level);
    case MODEL_WORDLEVEL: return load_wordlevel(l, byte_level);
    case MODEL_GREEDY: break; /* no tokenizer.json says so */
    }
    return ERR_UNSUPPORTED;
}

static int load_all(struct load *l, struct bytes tokenizer_json) {
    struct json_reader r;
    json_reader_init(&r, tokenizer_json, TVALUE_DEPTH_MAX, JSON_ALLOW_NUL);
    int rc = read_top(l, &r);
    json_reader_release(&r);
    struct tvalue added, normalizer, pre, post, decoder;
    if (rc || (rc = parse_section(l, l->added, &added)) || (rc = parse_section(l, l->normalizer, &normalizer)) ||
        (rc = parse_section(l, l->pre_tokenizer, &pre)) || (rc = parse_section(l, l->post_processor, &post)) ||
        (rc = parse_section(l, l->decoder, &decoder)))
        return rc;
    struct tokenizer *t = l->t;
    if ((rc = normalizer_load(&t->normalizer, normalizer, l->err)) || (rc = splitter_load(&t->splitter, pre, l->err)))
        return rc;
    compiled_note_rules(t, l->normalizer, l->pre_tokenizer);
    drop_idle_stage(t);
    if ((rc = load_model(l, t->splitter.byte_level)) || (rc = tokenizer_load_added(t, added, l->err)) ||
        (rc = tokenizer_load_post(t, post, l->err)))
        return rc;
    return decoder_load(t, decoder, l->err);
}

/* ---- in one go ---- */

int tokenizer_load(struct bytes tokenizer_json, struct bytes config_json, struct bytes generation_json,
                   struct tokenizer **out, struct error *err) {
    struct error local;
    uint32_t id_limit = (uint32_t)MIN(MAX(tokenizer_json.len, (size_t)VOCAB_IDS_MIN), (size_t)VOCAB_IDS_MAX);
    struct load l = {.t = tokenizer_new(id_limit),
                     .err = err ? err : &local,
                     .unk_id = UINT32_MAX,
                     .chars_max = WORDPIECE_CHARS_DEFAULT};
    arena_init(&l.arena, SECTION_BUDGET, SECTION_CALLS);
    int rc = load_all(&l, tokenizer_json);
    if (!rc) rc = tokenizer_load_ends(l.t, config_json, generation_json, false, l.err);
    arena_release(&l.arena);
    if (rc) tokenizer_free(&l.t);
    *out = l.t;
    return rc;
}

int tokenizer_load_bundle(const struct bundle *bundle, struct tokenizer **out, struct error *err) {
    struct bytes file = bundle_find(bundle, "tokenizer.json"),
                 generation = bundle_find(bundle, "generation_config.json");
    if (!file.len) file = bundle_find(bundle, "tokenizer.gguf");
    if (!file.len) file = bundle_find(bundle, "tokenizer.model");
    if (!file.len) file = bundle_find(bundle, BUNDLE_WORLD);
    if (!file.len) {
        *out = NULL;
        return error_set(err, ERR_NOT_FOUND, "the model has no tokenizer.json, tokenizer.model or " BUNDLE_WORLD);
    }
    if (!generation.len) generation = bundle_find(bundle, "config.json"); /* has eos_token_id too */
    return tokenizer_load_any(file, bundle_find(bundle, "tokenizer_config.json"), generation, out, err);
}
