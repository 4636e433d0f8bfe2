/*
 * tokenizer_load.c - reads tokenizer.json: the large parts (vocabulary, merges) as a stream, the small ones as trees.
 */
#include "formats/json.h"
#include "text/model_text.h"
#include "text/tokenizer_data.h"
#include "text/unicode.h"

enum { SECTION_BUDGET = 64 << 20, SECTION_CALLS = 4 << 20 };

struct load {
    struct tokenizer *t;
    struct error *err;
    struct arena arena;
    struct bytes added, normalizer, pre_tokenizer, post_processor, decoder; /* raw JSON */
    struct bytes vocab, merges;                                             /* raw JSON of the model's large parts */
    char unk_token[256];
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

static int unsupported_if_set(struct load *l, struct json_reader *r, const char *name) {
    enum json_event event = json_next(r);
    if (event == JSON_ERROR) return reader_error(l, r);
    bool set = event != JSON_NULL && !(event == JSON_STRING && !r->text.len) &&
               !(event == JSON_NUMBER && bytes_equal(r->text, bytes_str("0.0")));
    return set ? error_set(l->err, ERR_UNSUPPORTED, "tokenizer.json: %s is not supported", name) : 0;
}

static int read_flag(struct load *l, struct json_reader *r, bool *out) {
    enum json_event event = json_next(r);
    if (event != JSON_TRUE && event != JSON_FALSE && event != JSON_NULL) return reader_error(l, r);
    *out = event == JSON_TRUE;
    return 0;
}

static int read_unk(struct load *l, struct json_reader *r) {
    enum json_event event = json_next(r);
    if (event == JSON_NULL) return 0;
    if (event != JSON_STRING || r->text.len >= sizeof l->unk_token)
        return error_set(l->err, ERR_INVALID, "tokenizer.json: bad unk_token");
    memcpy(l->unk_token, r->text.data, r->text.len);
    l->unk_token[r->text.len] = 0;
    return 0;
}

static int read_type(struct load *l, struct json_reader *r) {
    struct bytes type;
    if (!json_read_string(r, &type)) return reader_error(l, r);
    if (bytes_equal(type, bytes_str("BPE"))) return 0;
    return error_set(l->err, ERR_UNSUPPORTED, "tokenizer.json: model '%.*s' is not supported",
                     (int)MIN(type.len, (size_t)32), (const char *)type.data);
}

static int read_model_member(struct load *l, struct json_reader *r, struct bytes key) {
    if (bytes_equal(key, bytes_str("type"))) return read_type(l, r);
    if (bytes_equal(key, bytes_str("unk_token"))) return read_unk(l, r);
    if (bytes_equal(key, bytes_str("byte_fallback"))) return read_flag(l, r, &l->byte_fallback);
    if (bytes_equal(key, bytes_str("fuse_unk"))) return read_flag(l, r, &l->fuse_unk);
    if (bytes_equal(key, bytes_str("ignore_merges"))) return read_flag(l, r, &l->ignore_merges);
    if (bytes_equal(key, bytes_str("continuing_subword_prefix")))
        return unsupported_if_set(l, r, "continuing_subword_prefix");
    if (bytes_equal(key, bytes_str("end_of_word_suffix"))) return unsupported_if_set(l, r, "end_of_word_suffix");
    if (bytes_equal(key, bytes_str("dropout"))) return unsupported_if_set(l, r, "dropout");
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

static struct tvalue member(struct tvalue v, const char *name) { return tvalue_dict_get(v, bytes_str(name)); }
static bool is_true(struct tvalue v, const char *name) {
    struct tvalue m = member(v, name);
    return m.kind == TVALUE_BOOL && m.boolean;
}
static bool is_text(struct tvalue v, const char *s) {
    return v.kind == TVALUE_STRING && bytes_equal(tvalue_text(v), bytes_str(s));
}

static int parse_section(struct load *l, struct bytes raw, struct tvalue *out) {
    *out = tvalue_none();
    if (!raw.len) return 0;
    int rc = tvalue_from_json(&l->arena, raw, out, l->err);
    return rc ? error_wrap(l->err, "tokenizer.json") : 0;
}

/* The content as it looks in normalized text. */
static int add_normalized(struct load *l, struct bytes content, struct added_token token) {
    struct buf a = {0}, b = {0};
    struct bytes text = normalizer_apply(&l->t->normalizer, content, &a, &b);
    int rc = text.data ? added_add(&l->t->added_normalized, text, token, l->err) : 0;
    buf_release(&a);
    buf_release(&b);
    return rc;
}

static int add_added(struct load *l, struct tvalue json) {
    struct tvalue content = member(json, "content"), id = member(json, "id");
    struct vocab *v = &l->t->vocab;
    if (content.kind != TVALUE_STRING || id.kind != TVALUE_INT || id.integer < 0 || id.integer >= VOCAB_IDS_MAX)
        return error_set(l->err, ERR_INVALID, "tokenizer.json: bad entry in added_tokens");
    if (!content.len) return 0;
    struct added_token token = {.id = vocab_find_spelling(v, tvalue_text(content)),
                                .special = is_true(json, "special"),
                                .normalized = is_true(json, "normalized"),
                                .lstrip = is_true(json, "lstrip"),
                                .rstrip = is_true(json, "rstrip"),
                                .single_word = is_true(json, "single_word")};
    int rc = 0;
    if (token.id == UINT32_MAX) {
        token.id = (uint32_t)id.integer;
        rc = vocab_add_sealed(v, tvalue_text(content), token.id, l->err);
    }
    if (rc) return rc;
    v->flags[token.id] |= VOCAB_ADDED | (token.special ? VOCAB_SPECIAL : 0);
    if (token.normalized) return add_normalized(l, tvalue_text(content), token);
    return added_add(&l->t->added, tvalue_text(content), token, l->err);
}

static int load_added(struct load *l) {
    struct tvalue list;
    int rc = parse_section(l, l->added, &list);
    added_init(&l->t->added);
    added_init(&l->t->added_normalized);
    for (size_t i = 0; !rc && i < tvalue_count(list); i++) rc = add_added(l, tvalue_list_at(list, i));
    return rc;
}

static int push_ids(struct load *l, struct token_vec *to, struct tvalue ids) {
    for (size_t i = 0; i < tvalue_count(ids); i++) {
        struct tvalue id = tvalue_list_at(ids, i);
        if (id.kind != TVALUE_INT || id.integer < 0 || id.integer >= tokenizer_vocab_count(l->t) || to->count > 64)
            return error_set(l->err, ERR_INVALID, "tokenizer.json: bad ids in the post-processor");
        vec_push(to, (uint32_t)id.integer);
    }
    return 0;
}

/* TemplateProcessing "single": special tokens before and after the sequence. */
static int load_template(struct load *l, struct tvalue json) {
    struct tvalue single = member(json, "single"), specials = member(json, "special_tokens");
    bool after = false;
    int rc = 0;
    for (size_t i = 0; !rc && i < tvalue_count(single); i++) {
        struct tvalue item = tvalue_list_at(single, i), special = member(item, "SpecialToken");
        if (special.kind != TVALUE_DICT) {
            after = true;
            continue;
        }
        struct tvalue named = tvalue_dict_get(specials, tvalue_text(member(special, "id")));
        rc = push_ids(l, after ? &l->t->suffix : &l->t->prefix, member(named, "ids"));
    }
    return rc;
}

/* BertProcessing and RobertaProcessing: ["</s>", 2] and the like. */
static int load_pair(struct load *l, struct tvalue json) {
    struct tvalue cls = tvalue_list_at(member(json, "cls"), 1), sep = tvalue_list_at(member(json, "sep"), 1);
    if (cls.kind != TVALUE_INT || sep.kind != TVALUE_INT || cls.integer < 0 || sep.integer < 0 ||
        cls.integer >= VOCAB_IDS_MAX || sep.integer >= VOCAB_IDS_MAX)
        return error_set(l->err, ERR_INVALID, "tokenizer.json: bad post-processor");
    vec_push(&l->t->prefix, (uint32_t)cls.integer);
    vec_push(&l->t->suffix, (uint32_t)sep.integer);
    return 0;
}

static int load_post(struct load *l, struct tvalue json, unsigned depth) {
    struct tvalue type = member(json, "type");
    if (json.kind != TVALUE_DICT || is_text(type, "ByteLevel")) return 0;
    if (is_text(type, "TemplateProcessing")) return load_template(l, json);
    if (is_text(type, "BertProcessing") || is_text(type, "RobertaProcessing")) return load_pair(l, json);
    if (!is_text(type, "Sequence") || depth > 8)
        return error_set(l->err, ERR_UNSUPPORTED, "post-processor '%.*s' is not supported", (int)MIN(type.len, 64u),
                         type.kind == TVALUE_STRING ? type.text : "");
    struct tvalue list = member(json, "processors");
    int rc = 0;
    for (size_t i = 0; !rc && i < tvalue_count(list); i++) rc = load_post(l, tvalue_list_at(list, i), depth + 1);
    return rc;
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

static bool has_byte_level(struct tvalue decoder, unsigned depth) {
    if (is_text(member(decoder, "type"), "ByteLevel")) return true;
    struct tvalue list = member(decoder, "decoders");
    for (size_t i = 0; depth < 8 && i < tvalue_count(list); i++)
        if (has_byte_level(tvalue_list_at(list, i), depth + 1)) return true;
    return false;
}

/* ---- in order ---- */

static int load_model(struct load *l, bool byte_level) {
    struct bpe *b = &l->t->bpe;
    int rc = model_read_vocab(l->vocab, &l->t->vocab, l->err);
    if (rc) return rc;
    vocab_seal(&l->t->vocab, byte_level);
    rc = model_read_merges(l->merges, &l->t->vocab, b, l->err);
    b->byte_fallback = l->byte_fallback;
    b->fuse_unk = l->fuse_unk;
    b->ignore_merges = l->ignore_merges;
    if (!rc && l->unk_token[0]) {
        b->unk_id = vocab_find_spelling(&l->t->vocab, bytes_str(l->unk_token));
        if (b->unk_id == UINT32_MAX)
            rc = error_set(l->err, ERR_INVALID, "tokenizer.json: unk_token is not in the vocabulary");
    }
    if (!rc) bpe_finish(b);
    return rc;
}

static int load_all(struct load *l, struct bytes tokenizer_json) {
    struct json_reader r;
    json_reader_init(&r, tokenizer_json, TVALUE_DEPTH_MAX, JSON_ALLOW_NUL);
    int rc = read_top(l, &r);
    json_reader_release(&r);
    struct tvalue normalizer, pre, post, decoder;
    if (rc || (rc = parse_section(l, l->normalizer, &normalizer)) || (rc = parse_section(l, l->pre_tokenizer, &pre)) ||
        (rc = parse_section(l, l->post_processor, &post)) || (rc = parse_section(l, l->decoder, &decoder)))
        return rc;
    struct tokenizer *t = l->t;
    if ((rc = normalizer_load(&t->normalizer, normalizer, l->err)) || (rc = splitter_load(&t->splitter, pre, l->err)))
        return rc;
    drop_idle_stage(t);
    if ((rc = load_model(l, t->splitter.byte_level || has_byte_level(decoder, 0))) || (rc = load_added(l)) ||
        (rc = load_post(l, post, 0)))
        return rc;
    return decoder_load(t, decoder, l->err);
}

/* ---- BOS and EOS ---- */

/* "<s>" or {"content": "<s>"}. */
static uint32_t named_token(const struct tokenizer *t, struct tvalue v) {
    if (v.kind == TVALUE_DICT) v = member(v, "content");
    return v.kind == TVALUE_STRING ? vocab_find_spelling(&t->vocab, tvalue_text(v)) : TOKEN_NONE;
}

static void add_eos(struct tokenizer *t, uint32_t id) {
    for (uint32_t i = 0; i < t->eos_count; i++)
        if (t->eos[i] == id) return;
    if (id != TOKEN_NONE && t->eos_count < TOKENIZER_EOS_MAX) t->eos[t->eos_count++] = id;
}

static uint32_t id_of(struct tvalue v) {
    return v.kind == TVALUE_INT && v.integer >= 0 && v.integer < VOCAB_IDS_MAX ? (uint32_t)v.integer : TOKEN_NONE;
}

static int load_ends(struct load *l, struct bytes config_json, struct bytes generation_json) {
    struct tvalue config = tvalue_none(), generation = tvalue_none();
    struct tokenizer *t = l->t;
    int rc = config_json.len ? tvalue_from_json(&l->arena, config_json, &config, l->err) : 0;
    if (rc) return error_wrap(l->err, "tokenizer_config.json");
    rc = generation_json.len ? tvalue_from_json(&l->arena, generation_json, &generation, l->err) : 0;
    if (rc) return error_wrap(l->err, "generation_config.json");
    t->bos = named_token(t, member(config, "bos_token"));
    if (t->bos == TOKEN_NONE) t->bos = id_of(member(generation, "bos_token_id"));
    add_eos(t, named_token(t, member(config, "eos_token")));
    struct tvalue eos = member(generation, "eos_token_id");
    add_eos(t, id_of(eos));
    for (size_t i = 0; i < tvalue_count(eos); i++) add_eos(t, id_of(tvalue_list_at(eos, i)));
    return 0;
}

int tokenizer_load(struct bytes tokenizer_json, struct bytes config_json, struct bytes generation_json,
                   struct tokenizer **out, struct error *err) {
    struct error local;
    struct load l = {.t = mem_alloc(sizeof *l.t), .err = err ? err : &local};
    unicode_init();
    vocab_init(&l.t->vocab);
    l.t->vocab.id_limit = (uint32_t)MIN(MAX(tokenizer_json.len, (size_t)VOCAB_IDS_MIN), (size_t)VOCAB_IDS_MAX);
    pthread_mutex_init(&l.t->lock, NULL);
    arena_init(&l.arena, SECTION_BUDGET, SECTION_CALLS);
    int rc = load_all(&l, tokenizer_json);
    if (!rc) rc = load_ends(&l, config_json, generation_json);
    arena_release(&l.arena);
    if (rc) tokenizer_free(&l.t);
    *out = l.t;
    return rc;
}

int tokenizer_load_bundle(const struct bundle *bundle, struct tokenizer **out, struct error *err) {
    struct bytes json = bundle_find(bundle, "tokenizer.json"),
                 generation = bundle_find(bundle, "generation_config.json");
    if (!json.len) {
        *out = NULL;
        return error_set(err, ERR_NOT_FOUND, "the model has no tokenizer.json");
    }
    if (!generation.len) generation = bundle_find(bundle, "config.json"); /* has eos_token_id too */
    return tokenizer_load(json, bundle_find(bundle, "tokenizer_config.json"), generation, out, err);
}
