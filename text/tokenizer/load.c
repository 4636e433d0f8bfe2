/*
 * load.c - reads tokenizer.json: the large parts (vocabulary, merges) as a stream, the small ones
 * as trees.
 *
 * The large parts go into their tables as they come, where the file has its members in the order in
 * which everyone writes them. What comes before something that it needs is passed over, and read in
 * the end.
 */
#include "formats/json.h"
#include "text/tokenizer/build.h"
#include "text/tokenizer/fast/compiled.h"
#include "text/tokenizer/folder_vocab.h"
#include "text/tokenizer/model_text.h"
#include "text/tokenizer/open.h"
#include "text/unicode.h"

enum { SECTION_BUDGET = 64 << 20, SECTION_CALLS = 4 << 20, WORD_CHARS_MAX = 1000 };

struct load {
    struct tokenizer *t;
    struct error *err;
    struct arena arena;
    struct bytes added, normalizer, pre_tokenizer, post_processor, decoder; /* raw JSON */
    /* raw JSON of what came too early */
    struct bytes model, merges;
    /* of a Unigram vocabulary; owned */
    double *scores;
    char unk_token[256], prefix[WORDPIECE_PREFIX_MAX + 1], suffix[WORDPIECE_PREFIX_MAX + 1];
    uint32_t unk_id;
    int64_t chars_max;
    bool byte_fallback, fuse_unk, ignore_merges;
    bool has_split, has_prefix, has_vocab, has_merges; /* what has been read */
    bool is_scored, is_sealed;                         /* the vocabulary */
};

/* ---- reading ---- */

static int reader_error(struct load *l, const struct json_reader *r) {
    return error_set(l->err, r->error.code ? r->error.code : ERR_INVALID, "tokenizer.json: %s",
                     r->error.text);
}

/* After KEY: the raw bytes of the value, which is passed over. */
static bool read_raw(struct json_reader *r, struct bytes *out) {
    if (json_next(r) == JSON_ERROR)
        return false;
    size_t begin = r->offset;
    if (!json_skip(r))
        return false;
    *out = bytes_of(r->start + begin, (size_t)(r->at - r->start) - begin);
    return true;
}

/* A string or null; at most max - 1 bytes. */
static int read_text(struct load *l, struct json_reader *r, const char *name, char *out,
                     size_t max) {
    enum json_event event = json_next(r);
    if (event == JSON_NULL)
        return 0;
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
    if (event == JSON_NULL)
        return 0;
    if (event != JSON_NUMBER || !json_number_double(r->text, &dropout))
        return error_set(l->err, ERR_INVALID, "tokenizer.json: bad dropout");
    return 0;
}

static int read_flag(struct load *l, struct json_reader *r, bool *out) {
    enum json_event event = json_next(r);
    if (event != JSON_TRUE && event != JSON_FALSE && event != JSON_NULL)
        return reader_error(l, r);
    *out = event == JSON_TRUE;
    return 0;
}

static int read_type(struct load *l, struct json_reader *r) {
    static const char *const NAMES[] = {"BPE", "Unigram", "WordPiece", "WordLevel"};
    struct bytes type;
    if (!json_read_string(r, &type))
        return reader_error(l, r);
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
    if (event == JSON_NULL)
        return 0;
    if (event != JSON_NUMBER || !json_number_int64(r->text, &id) || id < 0 || id >= VOCAB_IDS_MAX)
        return error_set(l->err, ERR_INVALID, "tokenizer.json: bad unk_id");
    l->unk_id = (uint32_t)id;
    return 0;
}

static int read_vocab(struct load *l, struct json_reader *r) {
    enum json_event event = json_next(r);
    if (l->has_vocab)
        return error_set(l->err, ERR_INVALID, "tokenizer.json has two vocabularies");
    l->has_vocab = true;
    if (event == JSON_OBJECT_BEGIN)
        return model_read_vocab(r, &l->t->vocab, l->err);
    l->is_scored = true;
    if (event == JSON_ARRAY_BEGIN)
        return model_read_scored(r, &l->t->vocab, &l->scores, l->err);
    return error_set(l->err, ERR_INVALID,
                     "tokenizer.json: vocab is neither an object nor an array");
}

static void seal_vocab(struct load *l) {
    if (!l->is_sealed)
        vocab_seal(&l->t->vocab, l->t->splitter.byte_level);
    l->is_sealed = true;
}

static int read_merges(struct load *l, struct json_reader *r) {
    if (l->has_merges)
        return error_set(l->err, ERR_INVALID, "tokenizer.json has two lists of merges");
    if (!json_expect(r, JSON_ARRAY_BEGIN))
        return reader_error(l, r);
    l->has_merges = true;
    seal_vocab(l);
    return model_read_merges(r, &l->t->vocab, strlen(l->prefix), &l->t->bpe, l->err);
}

static int read_prefix(struct load *l, struct json_reader *r) {
    l->has_prefix = true;
    return read_text(l, r, "continuing_subword_prefix", l->prefix, sizeof l->prefix);
}

static int read_model_field(struct load *l, struct json_reader *r, struct bytes key) {
    bool merges_now = l->has_prefix && l->has_vocab && !l->is_scored && l->t->model == MODEL_BPE;
    if (bytes_equal(key, bytes_str("type")))
        return read_type(l, r);
    if (bytes_equal(key, bytes_str("unk_token")))
        return read_text(l, r, "unk_token", l->unk_token, sizeof l->unk_token);
    if (bytes_equal(key, bytes_str("unk_id")))
        return read_unk_id(l, r);
    if (bytes_equal(key, bytes_str("max_input_chars_per_word")))
        return json_read_int64(r, &l->chars_max) ? 0 : reader_error(l, r);
    if (bytes_equal(key, bytes_str("byte_fallback")))
        return read_flag(l, r, &l->byte_fallback);
    if (bytes_equal(key, bytes_str("fuse_unk")))
        return read_flag(l, r, &l->fuse_unk);
    if (bytes_equal(key, bytes_str("ignore_merges")))
        return read_flag(l, r, &l->ignore_merges);
    if (bytes_equal(key, bytes_str("continuing_subword_prefix")))
        return read_prefix(l, r);
    if (bytes_equal(key, bytes_str("end_of_word_suffix")))
        return read_text(l, r, "end_of_word_suffix", l->suffix, sizeof l->suffix);
    if (bytes_equal(key, bytes_str("dropout")))
        return read_dropout(l, r);
    if (bytes_equal(key, bytes_str("vocab")))
        return read_vocab(l, r);
    if (bytes_equal(key, bytes_str("merges")) && merges_now)
        return read_merges(l, r);
    struct bytes ignored;
    return read_raw(r, bytes_equal(key, bytes_str("merges")) ? &l->merges : &ignored)
               ? 0
               : reader_error(l, r);
}

/* The key's text, kept over the next read. */
static struct bytes keep_key(struct bytes key, char kept[64]) {
    size_t len = MIN(key.len, (size_t)64);
    if (len)
        memcpy(kept, key.data, len);
    return bytes_of(kept, len);
}

static int read_model(struct load *l, struct json_reader *r) {
    char kept[64];
    if (!json_expect(r, JSON_OBJECT_BEGIN))
        return reader_error(l, r);
    enum json_event event;
    while ((event = json_next(r)) == JSON_KEY) {
        int rc = read_model_field(l, r, keep_key(r->text, kept));
        if (rc)
            return rc;
    }
    return event == JSON_OBJECT_END ? 0 : reader_error(l, r);
}

static int parse_section(struct load *l, struct bytes raw, struct json_value *out) {
    *out = (struct json_value){0};
    if (!raw.len)
        return 0;
    int rc = json_parse(&l->arena, raw, out, l->err);
    return rc ? error_wrap(l->err, "tokenizer.json") : 0;
}

typedef int read_fn(struct load *l, struct json_reader *r);

static int read_bytes(struct load *l, struct bytes raw, read_fn *read) {
    struct json_reader r;
    json_reader_init(&r, raw, JSON_DEPTH_DEFAULT, JSON_ALLOW_NUL);
    int rc = read(l, &r);
    json_reader_release(&r);
    return rc;
}

/* The pre-tokenizer says whether the vocabulary is of bytes. */
static int load_split(struct load *l) {
    struct json_value pre;
    int rc = parse_section(l, l->pre_tokenizer, &pre);
    l->has_split = true;
    return rc ? rc : splitter_load(&l->t->splitter, pre, l->err);
}

static int read_model_now(struct load *l, struct json_reader *r) {
    int rc = l->has_split ? 0 : load_split(l);
    return rc ? rc : read_model(l, r);
}

static int read_top(struct load *l, struct json_reader *r) {
    static const char *const NAMES[] = {"added_tokens",   "normalizer", "pre_tokenizer",
                                        "post_processor", "decoder",    "model"};
    struct bytes *const sections[] = {&l->added,          &l->normalizer, &l->pre_tokenizer,
                                      &l->post_processor, &l->decoder,    &l->model};
    char kept[64];
    if (!json_expect(r, JSON_OBJECT_BEGIN))
        return reader_error(l, r);
    enum json_event event;
    while ((event = json_next(r)) == JSON_KEY) {
        struct bytes key = keep_key(r->text, kept), ignored, *to = &ignored;
        for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
            if (bytes_equal(key, bytes_str(NAMES[i])))
                to = sections[i];
        if (to == &l->model && l->pre_tokenizer.len) {
            int rc = read_model_now(l, r);
            if (rc)
                return rc;
        } else if (!read_raw(r, to)) {
            return reader_error(l, r);
        }
    }
    return event == JSON_OBJECT_END && json_next(r) == JSON_END ? 0 : reader_error(l, r);
}

static int read_all(struct load *l, struct json_reader *r) {
    int rc = read_top(l, r);
    if (!rc && l->model.len)
        rc = read_bytes(l, l->model, read_model_now);
    if (!rc && !l->has_vocab)
        rc = error_set(l->err, ERR_INVALID, "tokenizer.json has no vocabulary");
    return rc;
}

/* ---- the small sections ---- */

/* Gemma: spaces become U+2581, and the pre-tokenizer splits at spaces, which are gone then. */
static void drop_idle_stage(struct tokenizer *t) {
    const struct split_stage *stage = &t->splitter.stages[0];
    if (t->splitter.stage_count != 1 || stage->kind != SPLIT_LITERAL || stage->invert)
        return;
    bool gone = false;
    for (size_t i = 0; i < t->normalizer.step_count; i++) {
        const struct normalizer_step *step = &t->normalizer.steps[i];
        struct bytes literal = bytes_of(stage->literal, stage->literal_len);
        gone |= step->kind == NORMALIZE_REPLACE &&
                bytes_equal(bytes_of(step->pattern, step->pattern_len), literal) &&
                !memmem(step->content, step->content_len, literal.data, literal.len);
        if (step->kind != NORMALIZE_REPLACE)
            gone = false; /* anything else might bring it back */
    }
    if (gone)
        splitter_release(&t->splitter);
}

/* ---- in order ---- */

static int find_unk(struct load *l, uint32_t *id) {
    *id = l->unk_token[0] ? vocab_find_spelling(&l->t->vocab, bytes_str(l->unk_token)) : UINT32_MAX;
    if (*id != UINT32_MAX || !l->unk_token[0])
        return 0;
    return error_set(l->err, ERR_INVALID, "tokenizer.json: unk_token is not in the vocabulary");
}

static int load_bpe(struct load *l) {
    struct bpe *b = &l->t->bpe;
    int rc = 0;
    if (l->merges.len)
        rc = read_bytes(l, l->merges, read_merges);
    else if (!l->has_merges)
        bpe_init(b, &l->t->vocab, 0);
    memcpy(b->prefix, l->prefix, sizeof b->prefix);
    memcpy(b->suffix, l->suffix, sizeof b->suffix);
    b->has_affix = l->prefix[0] || l->suffix[0];
    b->byte_fallback = l->byte_fallback;
    b->fuse_unk = l->fuse_unk;
    b->ignore_merges = l->ignore_merges;
    if (!rc)
        rc = find_unk(l, &b->unk_id);
    if (!rc)
        bpe_finish(b);
    return rc;
}

static int load_unigram(struct load *l) {
    if (l->unk_id != UINT32_MAX && l->unk_id >= l->t->vocab.entries.count)
        return error_set(l->err, ERR_INVALID, "tokenizer.json: unk_id is not in the vocabulary");
    double *scores = l->scores;
    l->scores = NULL;
    return unigram_init(&l->t->unigram, &l->t->vocab, scores, l->unk_id, l->byte_fallback, NULL,
                        l->err);
}

static int load_wordpiece(struct load *l) {
    uint32_t unk_id;
    int rc = find_unk(l, &unk_id);
    if (!rc && unk_id == UINT32_MAX)
        rc = error_set(l->err, ERR_INVALID, "tokenizer.json: WordPiece without unk_token");
    uint32_t chars_max = (uint32_t)MIN(MAX(l->chars_max, 0), WORD_CHARS_MAX);
    if (!rc)
        wordpiece_init(&l->t->wordpiece, &l->t->vocab, l->prefix, chars_max, unk_id);
    return rc;
}

static int load_wordlevel(struct load *l) {
    uint32_t unk_id =
        l->unk_token[0] ? vocab_find_spelling(&l->t->vocab, bytes_str(l->unk_token)) : TOKEN_NONE;
    wordlevel_init(&l->t->wordlevel, &l->t->vocab, unk_id, false, false);
    return 0;
}

static int load_model(struct load *l) {
    if (l->is_scored != (l->t->model == MODEL_UNIGRAM))
        return error_set(l->err, ERR_INVALID,
                         "tokenizer.json: the model's vocab is not of its type");
    seal_vocab(l);
    switch (l->t->model) {
    case MODEL_BPE: return load_bpe(l);
    case MODEL_UNIGRAM: return load_unigram(l);
    case MODEL_WORDPIECE: return load_wordpiece(l);
    case MODEL_WORDLEVEL: return load_wordlevel(l);
    case MODEL_GREEDY: break; /* no tokenizer.json says so */
    }
    return ERR_UNSUPPORTED;
}

static int load_sections(struct load *l) {
    struct json_value added, normalizer, post, decoder;
    struct tokenizer *t = l->t;
    int rc;
    if ((rc = parse_section(l, l->added, &added)) ||
        (rc = parse_section(l, l->normalizer, &normalizer)) ||
        (rc = parse_section(l, l->post_processor, &post)) ||
        (rc = parse_section(l, l->decoder, &decoder)) ||
        (rc = normalizer_load(&t->normalizer, normalizer, l->err)))
        return rc;
    compiled_note_rules(t, l->normalizer, l->pre_tokenizer, l->decoder);
    drop_idle_stage(t);
    if ((rc = load_model(l)) || (rc = tokenizer_load_added(t, added, l->err)) ||
        (rc = tokenizer_load_post(t, post, l->err)))
        return rc;
    return decoder_load(t, decoder, l->err);
}

/* ---- in one go ---- */

int tokenizer_load(struct bytes tokenizer_json, struct bytes config_json,
                   struct bytes generation_json, struct tokenizer **out, struct error *err) {
    CHECK(out);
    struct error local;
    uint32_t id_limit =
        (uint32_t)MIN(MAX(tokenizer_json.len, (size_t)VOCAB_IDS_MIN), (size_t)VOCAB_IDS_MAX);
    struct load l = {.t = tokenizer_new(id_limit),
                     .err = err ? err : &local,
                     .unk_id = UINT32_MAX,
                     .chars_max = WORDPIECE_CHARS_DEFAULT};
    arena_init(&l.arena, SECTION_BUDGET, SECTION_CALLS);
    int rc = read_bytes(&l, tokenizer_json, read_all);
    if (!rc)
        rc = load_sections(&l);
    if (!rc)
        rc = tokenizer_load_ends(l.t, config_json, generation_json, false, l.err);
    arena_release(&l.arena);
    mem_free(l.scores);
    if (rc)
        tokenizer_free(&l.t);
    *out = l.t;
    return rc;
}

int tokenizer_load_bundle(const struct bundle *bundle, struct tokenizer **out, struct error *err) {
    CHECK(bundle && out);
    static const char *const NAMES[] = {"tokenizer.json", "tokenizer.gguf", "tokenizer.model",
                                        BUNDLE_WORLD, "tekken.json"};
    struct bytes file = {0}, generation = bundle_find(bundle, "generation_config.json");
    struct buf made = {0};
    int rc = 0;
    *out = NULL;
    for (size_t i = 0; i < ARRAY_LEN(NAMES) && !file.len; i++)
        file = bundle_find(bundle, NAMES[i]);
    if (!file.len && folder_vocab_is(bundle)) {
        rc = folder_vocab_json(bundle, &made, err);
        file = buf_bytes(&made);
    }
    if (!rc && !file.len)
        rc = error_set(err, ERR_NOT_FOUND,
                       "the model has no tokenizer.json, tokenizer.model, tekken.json, vocab.json "
                       "with merges.txt, "
                       "vocab.txt or " BUNDLE_WORLD);
    if (!generation.len)
        generation = bundle_find(bundle, "config.json"); /* has eos_token_id too */
    if (!rc)
        rc = tokenizer_load_any(file, bundle_find(bundle, "tokenizer_config.json"), generation, out,
                                err);
    buf_release(&made);
    return rc;
}
