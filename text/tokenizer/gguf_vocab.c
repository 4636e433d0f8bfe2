#include "text/tokenizer/gguf_vocab.h"

#include "base/utf8.h"
#include "text/tokenizer/known_splits.h"
#include "text/tokenizer/model_text.h"
#include "text/tokenizer/spm.h"
#include "text/tokenizer/world.h"

static const struct bytes NO_BYTES = {NULL, 0};

struct source {
    const struct gguf *g;
    const struct gguf_kv *tokens, *types, *scores, *merges;
    struct error *err;
};

static uint32_t id_of(const struct source *s, const char *key) {
    int64_t id;
    return gguf_int(s->g, key, &id) && id >= 0 && (uint64_t)id < s->tokens->count ? (uint32_t)id
                                                                                  : TOKEN_NONE;
}

static bool flag_of(const struct source *s, const char *key, bool fallback) {
    bool value;
    return gguf_bool(s->g, key, &value) ? value : fallback;
}

static uint8_t type_of(const struct source *s, uint64_t id) {
    int64_t type;
    return s->types && gguf_int_at(s->types, id, &type) && type >= SPM_NORMAL && type <= SPM_BYTE
               ? (uint8_t)type
               : SPM_NORMAL;
}

/* BOS, EOS and what goes around a text. */
static void set_ends(const struct source *s, struct tokenizer *t, bool bos_by_default,
                     bool eos_by_default) {
    static const char *const ENDS[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    t->bos = id_of(s, "tokenizer.ggml.bos_token_id");
    for (size_t i = 0; i < ARRAY_LEN(ENDS); i++)
        tokenizer_add_eos(t, id_of(s, ENDS[i]));
    t->prefix.count = t->suffix.count = 0;
    if (flag_of(s, "tokenizer.ggml.add_bos_token", bos_by_default) && t->bos != TOKEN_NONE)
        vec_push(&t->prefix, t->bos);
    if (flag_of(s, "tokenizer.ggml.add_eos_token", eos_by_default) && t->eos_count)
        vec_push(&t->suffix, t->eos[0]);
}

/* Of encoders: two texts with the end of the one and a separator between them, as llama.cpp's rerank
 * joins them. A file that has no separator says nothing of pairs. */
static void set_pair(const struct source *s, struct tokenizer *t) {
    uint32_t sep = id_of(s, "tokenizer.ggml.seperator_token_id");
    if (sep == TOKEN_NONE)
        sep = id_of(s, "tokenizer.ggml.separator_token_id");
    if (sep == TOKEN_NONE || !t->prefix.count || !t->suffix.count)
        return;
    uint32_t end = t->suffix.items[0];
    t->pair = (struct pair_rule){
        .ids = {{t->prefix.items[0]}, {end, sep}, {end}}, .counts = {1, 2, 1}, .there = true};
}

/* ---- SentencePiece ---- */

static int check_text(const struct source *s, struct bytes text, uint64_t id) {
    if (text.len && utf8_valid(text.data, text.len))
        return 0;
    return error_set(s->err, ERR_INVALID, "tokenizer.ggml.tokens: token %zu is empty or not UTF-8",
                     (size_t)id);
}

static int read_pieces(const struct source *s, struct spm_model *m) {
    struct gguf_strings strings = gguf_strings_of(s->tokens);
    struct spm_piece piece = {0};
    for (uint64_t id = 0; gguf_strings_next(&strings, &piece.text); id++) {
        double score = 0;
        if (s->scores && !gguf_double_at(s->scores, id, &score))
            return error_set(s->err, ERR_INVALID,
                             "tokenizer.ggml.scores: fewer scores than tokens");
        piece.score = (float)score;
        piece.type = type_of(s, id);
        int rc = check_text(s, piece.text, id);
        if (rc)
            return rc;
        vec_push(&m->pieces, piece);
    }
    return 0;
}

static bool has_all_bytes(const struct spm_model *m) {
    size_t count = 0;
    for (size_t i = 0; i < m->pieces.count; i++)
        count += m->pieces.items[i].type == SPM_BYTE;
    return count >= 256;
}

static int build_spm(const struct source *s, bool unigram, struct tokenizer *t) {
    const struct gguf_kv *map = gguf_find(s->g, "tokenizer.ggml.precompiled_charsmap");
    struct spm_model m;
    spm_model_init(&m);
    m.unigram = unigram;
    m.raw_symbols = true;
    m.remove_extra = flag_of(s, "tokenizer.ggml.remove_extra_whitespaces", false);
    m.dummy_prefix = flag_of(s, "tokenizer.ggml.add_space_prefix", true);
    if (map && map->is_array && map->byte_len == map->count)
        m.charsmap = bytes_of(map->data, map->byte_len);
    m.unk_id = id_of(s, "tokenizer.ggml.unknown_token_id");
    if (m.unk_id == TOKEN_NONE)
        m.unk_id = 0;
    int rc = read_pieces(s, &m);
    m.byte_fallback = has_all_bytes(&m);
    if (!rc)
        rc = spm_build(&m, t, s->err);
    spm_model_release(&m);
    if (!rc)
        set_ends(s, t, !unigram, unigram);
    if (!rc && unigram)
        set_pair(s, t);
    return rc;
}

/* ---- byte-level BPE ---- */

static bool next_merge(void *ctx, struct bytes *out) {
    return gguf_strings_next(ctx, out);
}

/* byte_level: spellings are made of the byte alphabet. Added tokens are then no tokens of text:
 * HF's spelling of theirs is not the alphabet's. */
static int read_tokens(const struct source *s, struct tokenizer *t, bool byte_level) {
    struct gguf_strings strings = gguf_strings_of(s->tokens);
    uint8_t *flags = mem_calloc((size_t)s->tokens->count, 1);
    struct bytes text;
    int rc = 0;
    for (uint32_t id = 0; !rc && gguf_strings_next(&strings, &text); id++) {
        uint8_t type = type_of(s, id);
        if (!byte_level && (rc = check_text(s, text, id)))
            break;
        rc = vocab_add(&t->vocab, text, id, s->err);
        if (type == SPM_USER_DEFINED || type == SPM_CONTROL)
            flags[id] = (byte_level ? VOCAB_LITERAL : 0) | VOCAB_ADDED;
        if (type == SPM_CONTROL)
            flags[id] |= VOCAB_SPECIAL;
    }
    if (!rc)
        vocab_seal_flagged(&t->vocab, byte_level, flags);
    mem_free(flags);
    return rc;
}

static int add_symbols(const struct source *s, struct tokenizer *t) {
    int rc = 0;
    for (uint32_t id = 0; id < t->vocab.entries.count && !rc; id++) {
        struct added_token token = {.id = id, .special = t->vocab.flags[id] & VOCAB_SPECIAL};
        if (t->vocab.flags[id] & VOCAB_ADDED)
            rc = added_add(&t->added, vocab_key(&t->vocab, id), token, s->err);
    }
    return rc;
}

static int build_bpe(const struct source *s, const struct tokenizer_rules *rules, bool byte_level,
                     bool ignore_merges, struct tokenizer *t) {
    struct gguf_strings merges;
    if (!s->merges || s->merges->type != GGUF_STRING)
        return error_set(s->err, ERR_INVALID, "the GGUF file has no tokenizer.ggml.merges");
    int rc = read_tokens(s, t, byte_level);
    merges = gguf_strings_of(s->merges);
    if (!rc)
        rc = model_take_merges(next_merge, &merges, (size_t)s->merges->count, &t->vocab, &t->bpe,
                               s->err);
    if (rc)
        return rc;
    t->bpe.unk_id = byte_level ? TOKEN_NONE : id_of(s, "tokenizer.ggml.unknown_token_id");
    t->bpe.byte_fallback = t->bpe.fuse_unk = !byte_level;
    t->bpe.ignore_merges = ignore_merges;
    bpe_finish(&t->bpe);
    rc = tokenizer_set_rules(t, rules, s->err);
    if (!rc)
        rc = add_symbols(s, t);
    return rc ? rc : tokenizer_finish(t, rules, s->err);
}

static int build_byte_bpe(const struct source *s, struct bytes pre, struct tokenizer *t) {
    struct buf split = {0};
    struct tokenizer_rules rules = {.decoder = "{\"type\":\"ByteLevel\"}"};
    struct known_split more = {0};
    int rc = known_split_json(pre, &split, &more)
                 ? 0
                 : error_set(s->err, ERR_UNSUPPORTED, "tokenizer.ggml.pre '%.*s' is not supported",
                             (int)MIN(pre.len, (size_t)64), (const char *)pre.data);
    rules.pre_tokenizer = buf_text(&split);
    if (!rc)
        rc = build_bpe(s, &rules, true, more.ignore_merges, t);
    buf_release(&split);
    if (!rc)
        set_ends(s, t, more.add_bos, false);
    return rc;
}

/* Gemma 4 and its like: pieces of SentencePiece with merges, spaces as U+2581, text cut nowhere. */
static int build_spaced_bpe(const struct source *s, bool bos_by_default, struct tokenizer *t) {
    static const struct tokenizer_rules RULES = {
        .normalizer =
            "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\xE2\x96\x81\"}",
        .decoder =
            "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":"
            "\"\xE2\x96\x81\"},\"content\":\" "
            "\"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}]}"};
    int rc = build_bpe(s, &RULES, false, false, t);
    if (!rc)
        set_ends(s, t, bos_by_default, false);
    return rc;
}

static bool is_one_of(struct bytes name, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (bytes_equal(name, bytes_str(names[i])))
            return true;
    return false;
}

static int build_any_bpe(const struct source *s, struct tokenizer *t) {
    static const char *const SPACED[] = {"gemma4", "granite-embed-multi-311m", "sarvam-moe"};
    struct bytes pre = bytes_str("default");
    if (!gguf_string(s->g, "tokenizer.ggml.pre", &pre) ||
        !is_one_of(pre, SPACED, ARRAY_LEN(SPACED)))
        return build_byte_bpe(s, pre, t);
    return build_spaced_bpe(s, !bytes_equal(pre, bytes_str("sarvam-moe")), t);
}

/* ---- RWKV's World vocabulary ---- */

static uint8_t hex_digit(uint8_t c) {
    return (uint8_t)(c >= 'a' ? c - 'a' + 10 : c - '0');
}

/* Bytes as llama.cpp writes them: \\t, \\n, \\r, \\x0f; any other character behind a backslash is
 * itself. */
static void add_unescaped(struct bytes s, struct buf *out) {
    static const char NAMED[][2] = {{'t', '\t'}, {'n', '\n'}, {'r', '\r'}};
    for (size_t i = 0; i < s.len; i++) {
        char c = (char)s.data[i];
        if (c == '\\' && ++i == s.len)
            return;
        if (c == '\\' && s.data[i] == 'x') {
            if (s.len - i < 3)
                return;
            c = (char)(hex_digit(s.data[i + 1]) << 4 | hex_digit(s.data[i + 2]));
            i += 2;
        } else if (c == '\\') {
            c = (char)s.data[i];
            for (size_t k = 0; k < ARRAY_LEN(NAMED); k++)
                if (s.data[i] == NAMED[k][0])
                    c = NAMED[k][1];
        }
        buf_add_byte(out, c);
    }
}

static int build_world(const struct source *s, struct tokenizer *t) {
    struct gguf_strings strings = gguf_strings_of(s->tokens);
    uint8_t *types = mem_calloc((size_t)s->tokens->count, 1);
    struct bytes text;
    int rc = 0;
    for (uint32_t id = 0; !rc && gguf_strings_next(&strings, &text); id++) {
        size_t start = t->vocab.pool.len;
        types[id] = type_of(s, id);
        if (types[id] == SPM_CONTROL)
            buf_add_bytes(&t->vocab.pool, text);
        else
            add_unescaped(text, &t->vocab.pool);
        rc = vocab_claim(&t->vocab, start, id, s->err);
    }
    if (!rc)
        rc = world_finish(t, types, s->err);
    mem_free(types);
    if (!rc)
        set_ends(s, t, false, false);
    return rc;
}

/* ---- WordPiece ---- */

/* "##" and a bare token, or the token behind U+2581; control tokens, and what old files left as it
 * was ("[unused1]"), have neither. */
static int add_wordpiece(const struct source *s, struct tokenizer *t, struct bytes text,
                         uint32_t id) {
    size_t start = t->vocab.pool.len;
    bool begins = text.len >= 3 && !memcmp(text.data, "\xE2\x96\x81", 3);
    if (text.len && !utf8_valid(text.data, text.len))
        return check_text(s, text, id);
    bool named = text.len > 2 && text.data[0] == '[' && text.data[text.len - 1] == ']';
    if (begins)
        text = bytes_of(text.data + 3, text.len - 3);
    else if (!named && type_of(s, id) != SPM_CONTROL)
        buf_add_str(&t->vocab.pool, "##");
    buf_add_bytes(&t->vocab.pool, text);
    return vocab_claim(&t->vocab, start, id, s->err);
}

/* The id under the first of the keys that is there, else that of a token spelled so. */
static uint32_t id_named(const struct source *s, const struct tokenizer *t, const char *key,
                         const char *other, const char *spelling) {
    uint32_t id = id_of(s, key);
    if (id == TOKEN_NONE)
        id = id_of(s, other);
    return id != TOKEN_NONE ? id : vocab_find_spelling(&t->vocab, bytes_str(spelling));
}

/* [CLS] text [SEP]. */
static int set_wordpiece_ends(const struct source *s, struct tokenizer *t) {
    uint32_t sep;
    set_ends(s, t, false, false);
    t->bos = id_named(s, t, "tokenizer.ggml.cls_token_id", "tokenizer.ggml.bos_token_id", "[CLS]");
    sep = id_named(s, t, "tokenizer.ggml.seperator_token_id", "tokenizer.ggml.separator_token_id",
                   "[SEP]");
    if (t->bos == TOKEN_NONE || sep == TOKEN_NONE)
        return error_set(s->err, ERR_INVALID,
                         "the GGUF file's WordPiece vocabulary has no %s token",
                         t->bos == TOKEN_NONE ? "[CLS]" : "[SEP]");
    t->prefix.count = t->suffix.count = 0;
    vec_push(&t->prefix, t->bos);
    vec_push(&t->suffix, sep);
    t->pair = (struct pair_rule){.ids = {{t->bos}, {sep}, {sep}},
                                 .counts = {1, 1, 1},
                                 .between_first = 1,
                                 .second_type = true,
                                 .there = true};
    return 0;
}

static int build_wordpiece(const struct source *s, struct tokenizer *t) {
    struct gguf_strings strings = gguf_strings_of(s->tokens);
    struct buf normalizer = {0};
    struct tokenizer_rules rules = {
        .pre_tokenizer = "{\"type\":\"BertPreTokenizer\"}",
        .decoder = "{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}"};
    struct bytes text;
    bool lower = flag_of(s, "tokenizer.ggml.normalizer.lowercase", true);
    bool strip = flag_of(s, "tokenizer.ggml.normalizer.strip_accents", lower);
    int rc = 0;
    for (uint32_t id = 0; !rc && gguf_strings_next(&strings, &text); id++)
        rc = add_wordpiece(s, t, text, id);
    if (rc)
        return rc;
    vocab_seal(&t->vocab, false);
    t->model = MODEL_WORDPIECE;
    uint32_t unk = id_named(s, t, "tokenizer.ggml.unknown_token_id",
                            "tokenizer.ggml.unknown_token_id", "[UNK]");
    if (unk == TOKEN_NONE)
        return error_set(s->err, ERR_INVALID,
                         "the GGUF file's WordPiece vocabulary has no unknown token");
    wordpiece_init(&t->wordpiece, &t->vocab, "##", WORDPIECE_CHARS_DEFAULT, unk);
    buf_addf(&normalizer,
             "{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,"
             "\"strip_accents\":%s,\"lowercase\":%s}",
             strip ? "true" : "false", lower ? "true" : "false");
    rules.normalizer = buf_text(&normalizer);
    rc = tokenizer_set_rules(t, &rules, s->err);
    buf_release(&normalizer);
    for (uint32_t id = 0; !rc && id < t->vocab.entries.count; id++) {
        uint8_t type = type_of(s, id);
        if (type == SPM_CONTROL || type == SPM_USER_DEFINED)
            t->vocab.flags[id] |= VOCAB_ADDED;
        if (type == SPM_CONTROL)
            t->vocab.flags[id] |= VOCAB_SPECIAL;
    }
    if (!rc)
        rc = add_symbols(s, t);
    if (!rc)
        rc = tokenizer_finish(t, &rules, s->err);
    return rc ? rc : set_wordpiece_ends(s, t);
}

/* ---- whole ---- */

int gguf_vocab_build(const struct gguf *g, struct tokenizer *t, struct error *err) {
    CHECK(g && t && !t->vocab.slots);
    struct source s = {g,
                       gguf_find(g, "tokenizer.ggml.tokens"),
                       gguf_find(g, "tokenizer.ggml.token_type"),
                       gguf_find(g, "tokenizer.ggml.scores"),
                       gguf_find(g, "tokenizer.ggml.merges"),
                       err};
    struct bytes model = NO_BYTES;
    if (!s.tokens || s.tokens->type != GGUF_STRING || !s.tokens->count ||
        !gguf_string(g, "tokenizer.ggml.model", &model))
        return error_set(err, ERR_NOT_FOUND,
                         "the GGUF file has no vocabulary (tokenizer.ggml.tokens)");
    if (s.tokens->count >= VOCAB_IDS_MAX)
        return error_set(err, ERR_LIMIT, "the GGUF file has too many tokens");
    t->model = MODEL_BPE;
    if (bytes_equal(model, bytes_str("gpt2")))
        return build_any_bpe(&s, t);
    if (bytes_equal(model, bytes_str("gemma4")))
        return build_spaced_bpe(&s, true, t);
    if (bytes_equal(model, bytes_str("llama")))
        return build_spm(&s, false, t);
    if (bytes_equal(model, bytes_str("t5")))
        return build_spm(&s, true, t);
    if (bytes_equal(model, bytes_str("bert")))
        return build_wordpiece(&s, t);
    if (bytes_equal(model, bytes_str("rwkv")))
        return build_world(&s, t);
    return error_set(
        err, ERR_UNSUPPORTED,
        "tokenizer.ggml.model '%.*s' is not supported (gpt2, gemma4, llama, t5, bert, rwkv are)",
        (int)MIN(model.len, (size_t)64), (const char *)model.data);
}

static void add_number(struct buf *out, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        buf_add_byte(out, (char)(value >> 8 * i));
}

static bool is_wanted(struct bytes key) {
    return key.len > 10 && !memcmp(key.data, "tokenizer.", 10);
}

void gguf_vocab_extract(const struct gguf *g, struct buf *out) {
    uint64_t count = 0;
    for (size_t i = 0; i < g->kv_count; i++)
        count += is_wanted(g->kvs[i].key);
    buf_add(out, "GGUF", 4);
    add_number(out, 3, 4);
    add_number(out, 0, 8);
    add_number(out, count, 8);
    for (size_t i = 0; i < g->kv_count; i++) {
        const struct gguf_kv *kv = &g->kvs[i];
        if (!is_wanted(kv->key))
            continue;
        add_number(out, kv->key.len, 8);
        buf_add_bytes(out, kv->key);
        add_number(out, kv->is_array ? GGUF_ARRAY : kv->type, 4);
        if (kv->is_array) {
            add_number(out, kv->type, 4);
            add_number(out, kv->count, 8);
        }
        buf_add(out, kv->data, kv->byte_len);
    }
}
