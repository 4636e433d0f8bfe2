#include "text/tokenizer/gguf_vocab.h"

#include "base/utf8.h"
#include "text/tokenizer/known_splits.h"
#include "text/tokenizer/model_text.h"
#include "text/tokenizer/spm.h"

static const struct bytes NO_BYTES = {NULL, 0};

struct source {
    const struct gguf *g;
    const struct gguf_kv *tokens, *types, *scores, *merges;
    struct error *err;
};

static uint32_t id_of(const struct source *s, const char *key) {
    int64_t id;
    return gguf_int(s->g, key, &id) && id >= 0 && (uint64_t)id < s->tokens->count ? (uint32_t)id : TOKEN_NONE;
}

static bool flag_of(const struct source *s, const char *key, bool fallback) {
    bool value;
    return gguf_bool(s->g, key, &value) ? value : fallback;
}

static uint8_t type_of(const struct source *s, uint64_t id) {
    int64_t type;
    return s->types && gguf_int_at(s->types, id, &type) && type >= SPM_NORMAL && type <= SPM_BYTE ? (uint8_t)type
                                                                                                  : SPM_NORMAL;
}

/* BOS, EOS and what goes around a text. */
static void set_ends(const struct source *s, struct tokenizer *t, bool bos_by_default) {
    static const char *const ENDS[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    t->bos = id_of(s, "tokenizer.ggml.bos_token_id");
    for (size_t i = 0; i < ARRAY_LEN(ENDS); i++) tokenizer_add_eos(t, id_of(s, ENDS[i]));
    t->prefix.count = t->suffix.count = 0;
    if (flag_of(s, "tokenizer.ggml.add_bos_token", bos_by_default) && t->bos != TOKEN_NONE)
        vec_push(&t->prefix, t->bos);
    if (flag_of(s, "tokenizer.ggml.add_eos_token", false) && t->eos_count) vec_push(&t->suffix, t->eos[0]);
}

/* ---- SentencePiece ---- */

static int read_pieces(const struct source *s, struct spm_model *m) {
    struct gguf_strings strings = gguf_strings_of(s->tokens);
    struct spm_piece piece = {0};
    for (uint64_t id = 0; gguf_strings_next(&strings, &piece.text); id++) {
        double score = 0;
        if (s->scores && !gguf_double_at(s->scores, id, &score))
            return error_set(s->err, ERR_INVALID, "tokenizer.ggml.scores: fewer scores than tokens");
        piece.score = (float)score;
        piece.type = type_of(s, id);
        if (!piece.text.len || !utf8_valid(piece.text.data, piece.text.len))
            return error_set(s->err, ERR_INVALID, "tokenizer.ggml.tokens: token %zu is empty or not UTF-8", (size_t)id);
        vec_push(&m->pieces, piece);
    }
    return 0;
}

static bool has_all_bytes(const struct spm_model *m) {
    size_t count = 0;
    for (size_t i = 0; i < m->pieces.count; i++) count += m->pieces.items[i].type == SPM_BYTE;
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
    if (map && map->is_array && map->byte_len == map->count) m.charsmap = bytes_of(map->data, map->byte_len);
    m.unk_id = id_of(s, "tokenizer.ggml.unknown_token_id");
    if (m.unk_id == TOKEN_NONE) m.unk_id = 0;
    int rc = read_pieces(s, &m);
    m.byte_fallback = has_all_bytes(&m);
    if (!rc) rc = spm_build(&m, t, s->err);
    spm_model_release(&m);
    if (!rc) set_ends(s, t, !unigram);
    return rc;
}

/* ---- byte-level BPE ---- */

static bool next_merge(void *ctx, struct bytes *out) { return gguf_strings_next(ctx, out); }

static int read_tokens(const struct source *s, struct tokenizer *t) {
    struct gguf_strings strings = gguf_strings_of(s->tokens);
    uint8_t *flags = mem_calloc((size_t)s->tokens->count, 1);
    struct bytes text;
    int rc = 0;
    for (uint32_t id = 0; !rc && gguf_strings_next(&strings, &text); id++) {
        uint8_t type = type_of(s, id);
        rc = vocab_add(&t->vocab, text, id, s->err);
        if (type == SPM_USER_DEFINED || type == SPM_CONTROL) flags[id] = VOCAB_LITERAL | VOCAB_ADDED;
        if (type == SPM_CONTROL) flags[id] |= VOCAB_SPECIAL;
    }
    if (!rc) vocab_seal_flagged(&t->vocab, true, flags);
    mem_free(flags);
    return rc;
}

static int add_symbols(const struct source *s, struct tokenizer *t) {
    int rc = 0;
    for (uint32_t id = 0; id < t->vocab.entries.count && !rc; id++) {
        struct added_token token = {.id = id, .special = t->vocab.flags[id] & VOCAB_SPECIAL};
        if (t->vocab.flags[id] & VOCAB_ADDED) rc = added_add(&t->added, vocab_key(&t->vocab, id), token, s->err);
    }
    return rc;
}

static int build_bpe(const struct source *s, struct tokenizer *t) {
    struct bytes pre = bytes_str("default");
    struct buf split = {0};
    struct tokenizer_rules rules = {.decoder = "{\"type\":\"ByteLevel\"}"};
    struct gguf_strings merges;
    bool ignore_merges = false, given = gguf_string(s->g, "tokenizer.ggml.pre", &pre);
    if (!s->merges) return error_set(s->err, ERR_INVALID, "the GGUF file has no tokenizer.ggml.merges");
    if (!known_split_json(pre, &split, &ignore_merges)) {
        buf_release(&split);
        return error_set(s->err, ERR_UNSUPPORTED, "tokenizer.ggml.pre '%.*s' is not supported",
                         (int)MIN(pre.len, (size_t)64), (const char *)pre.data);
    }
    rules.pre_tokenizer = buf_text(&split);
    int rc = read_tokens(s, t);
    merges = gguf_strings_of(s->merges);
    if (!rc) rc = model_take_merges(next_merge, &merges, (size_t)s->merges->count, &t->vocab, &t->bpe, s->err);
    t->bpe.ignore_merges = ignore_merges;
    if (!rc) bpe_finish(&t->bpe);
    if (!rc) rc = tokenizer_set_rules(t, &rules, s->err);
    if (!rc) rc = add_symbols(s, t);
    if (!rc) rc = tokenizer_finish(t, &rules, s->err);
    buf_release(&split);
    if (!rc) set_ends(s, t, given && ignore_merges && !bytes_equal(pre, bytes_str("tekken")));
    return rc;
}

/* ---- RWKV's World vocabulary ---- */

static uint8_t hex_digit(uint8_t c) { return (uint8_t)(c >= 'a' ? c - 'a' + 10 : c - '0'); }

/* Bytes as llama.cpp writes them: \\t, \\n, \\r, \\x0f; any other character behind a backslash is itself. */
static void add_unescaped(struct bytes s, struct buf *out) {
    static const char NAMED[][2] = {{'t', '\t'}, {'n', '\n'}, {'r', '\r'}};
    for (size_t i = 0; i < s.len; i++) {
        char c = (char)s.data[i];
        if (c == '\\' && ++i == s.len) return;
        if (c == '\\' && s.data[i] == 'x') {
            if (s.len - i < 3) return;
            c = (char)(hex_digit(s.data[i + 1]) << 4 | hex_digit(s.data[i + 2]));
            i += 2;
        } else if (c == '\\') {
            c = (char)s.data[i];
            for (size_t k = 0; k < ARRAY_LEN(NAMED); k++)
                if (s.data[i] == NAMED[k][0]) c = NAMED[k][1];
        }
        buf_add_byte(out, c);
    }
}

static int add_world_token(const struct source *s, struct tokenizer *t, uint32_t id) {
    uint8_t type = type_of(s, id);
    struct added_token token = {.id = id, .special = type == SPM_CONTROL};
    if (type == SPM_UNUSED || type == SPM_UNKNOWN) return 0;
    if (token.special) t->vocab.flags[id] |= VOCAB_ADDED | VOCAB_SPECIAL;
    return added_add(token.special ? &t->added : &t->greedy, vocab_key(&t->vocab, id), token, s->err);
}

static int build_world(const struct source *s, struct tokenizer *t) {
    struct gguf_strings strings = gguf_strings_of(s->tokens);
    struct tokenizer_rules rules = {.decoder = "{\"type\":\"ByteLevel\"}"};
    struct bytes text;
    int rc = 0;
    for (uint32_t id = 0; !rc && gguf_strings_next(&strings, &text); id++) {
        size_t start = t->vocab.pool.len;
        if (type_of(s, id) == SPM_CONTROL)
            buf_add_bytes(&t->vocab.pool, text);
        else
            add_unescaped(text, &t->vocab.pool);
        rc = vocab_claim(&t->vocab, start, id, s->err);
    }
    if (rc) return rc;
    t->model = MODEL_GREEDY;
    vocab_seal_raw(&t->vocab);
    for (uint32_t id = 0; !rc && id < t->vocab.entries.count; id++) rc = add_world_token(s, t, id);
    if (!rc) rc = tokenizer_finish(t, &rules, s->err);
    if (!rc) set_ends(s, t, false);
    return rc;
}

/* ---- whole ---- */

int gguf_vocab_build(const struct gguf *g, struct tokenizer *t, struct error *err) {
    struct source s = {g,
                       gguf_find(g, "tokenizer.ggml.tokens"),
                       gguf_find(g, "tokenizer.ggml.token_type"),
                       gguf_find(g, "tokenizer.ggml.scores"),
                       gguf_find(g, "tokenizer.ggml.merges"),
                       err};
    struct bytes model = NO_BYTES;
    if (!s.tokens || s.tokens->type != GGUF_STRING || !s.tokens->count ||
        !gguf_string(g, "tokenizer.ggml.model", &model))
        return error_set(err, ERR_NOT_FOUND, "the GGUF file has no vocabulary (tokenizer.ggml.tokens)");
    if (s.tokens->count >= VOCAB_IDS_MAX) return error_set(err, ERR_LIMIT, "the GGUF file has too many tokens");
    t->model = MODEL_BPE;
    if (bytes_equal(model, bytes_str("gpt2"))) return build_bpe(&s, t);
    if (bytes_equal(model, bytes_str("llama"))) return build_spm(&s, false, t);
    if (bytes_equal(model, bytes_str("t5"))) return build_spm(&s, true, t);
    if (bytes_equal(model, bytes_str("rwkv"))) return build_world(&s, t);
    return error_set(err, ERR_UNSUPPORTED, "tokenizer.ggml.model '%.*s' is not supported (gpt2, llama, t5, rwkv are)",
                     (int)MIN(model.len, (size_t)64), (const char *)model.data);
}

static void add_number(struct buf *out, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) buf_add_byte(out, (char)(value >> 8 * i));
}

static bool is_wanted(struct bytes key) { return key.len > 10 && !memcmp(key.data, "tokenizer.", 10); }

void gguf_vocab_extract(const struct gguf *g, struct buf *out) {
    uint64_t count = 0;
    for (size_t i = 0; i < g->kv_count; i++) count += is_wanted(g->kvs[i].key);
    buf_add(out, "GGUF", 4);
    add_number(out, 3, 4);
    add_number(out, 0, 8);
    add_number(out, count, 8);
    for (size_t i = 0; i < g->kv_count; i++) {
        const struct gguf_kv *kv = &g->kvs[i];
        if (!is_wanted(kv->key)) continue;
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
