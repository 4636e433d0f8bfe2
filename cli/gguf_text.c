#include "cli/gguf_text.h"

#include "base/fsutil.h"
#include "base/vec.h"
#include "formats/json.h"
#include "model/read/gguf_model.h"

#include <stdio.h>
#include <stdlib.h>

enum { TEXT_FILE_MAX = 64 << 20 };
static const char *const FILES[] = {
    "config.json",           "generation_config.json",  "tokenizer.json",
    "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja",
    "added_tokens.json",     "tokenizer.model"};

/* ---- tokenizer.json ---- */

/* GGUF's kinds of tokens. */
enum { TOKEN_NORMAL = 1, TOKEN_CONTROL = 3, TOKEN_USER = 4, TOKEN_UNUSED = 5, TOKEN_BYTE = 6 };

struct entry {
    char *text;
    int32_t kind;
};
struct vocab {
    VEC(struct entry) entries; /* by id; text NULL: a hole */
    VEC(char *) merges;
    bool is_bpe, byte_level, byte_fallback;
};

/* Up to `count` entries. */
static void add_holes(struct vocab *v, size_t count) {
    while (v->entries.count < count)
        vec_push(&v->entries, ((struct entry){NULL, TOKEN_UNUSED}));
}

static void set_entry(struct vocab *v, int64_t id, struct bytes text, int32_t kind) {
    if (id < 0 || id > 1 << 22)
        return;
    add_holes(v, (size_t)id + 1);
    mem_free(v->entries.items[id].text);
    v->entries.items[id] = (struct entry){mem_strndup((const char *)text.data, text.len), kind};
}

static bool is_byte_token(struct bytes t) {
    return t.len == 6 && !memcmp(t.data, "<0x", 3) && t.data[5] == '>';
}

static bool read_vocab(struct json_reader *r, struct vocab *v) {
    enum json_event ev;
    if (!json_expect(r, JSON_OBJECT_BEGIN))
        return false;
    while ((ev = json_next(r)) == JSON_KEY) {
        struct buf name;
        int64_t id;
        buf_init(&name, 0);
        buf_add_bytes(&name, r->text);
        bool ok = json_read_int64(r, &id);
        if (ok)
            set_entry(v, id, buf_bytes(&name),
                      is_byte_token(buf_bytes(&name)) ? TOKEN_BYTE : TOKEN_NORMAL);
        buf_release(&name);
        if (!ok)
            return false;
    }
    return ev == JSON_OBJECT_END;
}

/* "a b", or ["a", "b"]. */
static bool read_merges(struct json_reader *r, struct vocab *v) {
    enum json_event ev;
    if (!json_expect(r, JSON_ARRAY_BEGIN))
        return false;
    while ((ev = json_next(r)) == JSON_STRING || ev == JSON_ARRAY_BEGIN) {
        struct buf pair;
        buf_init(&pair, 0);
        if (ev == JSON_STRING) {
            buf_add_bytes(&pair, r->text);
        } else {
            for (int i = 0; (ev = json_next(r)) == JSON_STRING; i++) {
                if (i)
                    buf_add_byte(&pair, ' ');
                buf_add_bytes(&pair, r->text);
            }
        }
        vec_push(&v->merges, mem_strdup(buf_text(&pair)));
        buf_release(&pair);
    }
    return ev == JSON_ARRAY_END;
}

static bool read_model(struct json_reader *r, struct vocab *v) {
    enum json_event ev;
    if (!json_expect(r, JSON_OBJECT_BEGIN))
        return false;
    while ((ev = json_next(r)) == JSON_KEY) {
        struct bytes key = r->text, kind;
        bool ok;
        if (bytes_equal(key, bytes_str("type"))) {
            ok = json_read_string(r, &kind);
            v->is_bpe = ok && bytes_equal(kind, bytes_str("BPE"));
        } else if (bytes_equal(key, bytes_str("byte_fallback"))) {
            ok = json_read_bool(r, &v->byte_fallback);
        } else if (bytes_equal(key, bytes_str("vocab")) && v->is_bpe) {
            ok = read_vocab(r, v);
        } else if (bytes_equal(key, bytes_str("merges"))) {
            ok = read_merges(r, v);
        } else {
            ok = json_skip(r);
        }
        if (!ok)
            return false;
    }
    return ev == JSON_OBJECT_END;
}

static bool read_added(struct json_reader *r, struct vocab *v) {
    enum json_event ev;
    if (!json_expect(r, JSON_ARRAY_BEGIN))
        return false;
    while ((ev = json_next(r)) == JSON_OBJECT_BEGIN) {
        int64_t id = -1;
        bool special = false, ok = true;
        struct bytes text;
        struct buf content;
        buf_init(&content, 0);
        while (ok && (ev = json_next(r)) == JSON_KEY) {
            if (bytes_equal(r->text, bytes_str("id"))) {
                ok = json_read_int64(r, &id);
            } else if (bytes_equal(r->text, bytes_str("special"))) {
                ok = json_read_bool(r, &special);
            } else if (bytes_equal(r->text, bytes_str("content"))) {
                ok = json_read_string(r, &text);
                if (ok)
                    buf_add_bytes(&content, text);
            } else {
                ok = json_skip(r);
            }
        }
        if (ok)
            set_entry(v, id, buf_bytes(&content), special ? TOKEN_CONTROL : TOKEN_USER);
        buf_release(&content);
        if (!ok || ev != JSON_OBJECT_END)
            return false;
    }
    return ev == JSON_ARRAY_END;
}

/* The model first (its type comes before its vocabulary in every file), then what was added. */
static bool read_tokenizer(struct bytes text, struct vocab *v) {
    bool ok = true;
    for (int pass = 0; ok && pass < 2; pass++) {
        struct json_reader r;
        enum json_event ev;
        json_reader_init(&r, text, 0, JSON_ALLOW_NUL);
        ok = json_next(&r) == JSON_OBJECT_BEGIN;
        while (ok && (ev = json_next(&r)) == JSON_KEY) {
            if (pass == 0 && bytes_equal(r.text, bytes_str("model")))
                ok = read_model(&r, v);
            else if (pass == 1 && bytes_equal(r.text, bytes_str("added_tokens")))
                ok = read_added(&r, v);
            else
                ok = json_skip(&r);
        }
        json_reader_release(&r);
    }
    v->byte_level = ok && memmem(text.data, text.len, "\"ByteLevel\"", 11);
    return ok && v->is_bpe && v->entries.count;
}

static void vocab_release(struct vocab *v) {
    for (size_t i = 0; i < v->entries.count; i++)
        mem_free(v->entries.items[i].text);
    for (size_t i = 0; i < v->merges.count; i++)
        mem_free(v->merges.items[i]);
    vec_release(&v->entries);
    vec_release(&v->merges);
}

/* ---- keys ---- */

static bool contains(struct bytes text, const char *piece) {
    return !piece || memmem(text.data, text.len, piece, strlen(piece));
}

/* How llama.cpp calls the ways of splitting, by pieces that only their tokenizer.json has; the
 * special ones first. */
static const char *split_name(struct bytes tokenizer) {
    static const struct {
        const char *piece, *also, *name;
    } SPLITS[] = {
        {"[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", "\\\\p{N}{1,3}", "deepseek-v3"},
        {"\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*[\\\\p{Ll}", "\\\\p{N}{1,3}", "gpt-4o"},
        {"\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*[\\\\p{Ll}", NULL, "tekken"},
        {"\\\\p{N}{1,3}", NULL, "llama-bpe"},
        {"[\\\\p{L}\\\\p{M}]+|\\\\p{N}|", NULL, "qwen35"},
        {"[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}|", NULL, "qwen2"},
        {"\"Digits\"", "\"individual_digits\": true", "smollm"},
        {"\"Digits\"", "\"individual_digits\":true", "smollm"},
    };
    for (size_t i = 0; i < ARRAY_LEN(SPLITS); i++)
        if (contains(tokenizer, SPLITS[i].piece) && contains(tokenizer, SPLITS[i].also))
            return SPLITS[i].name;
    return "gpt-2";
}

static void put_vocab(struct gguf_writer *w, const struct vocab *v, struct bytes tokenizer) {
    gguf_put_string(w, "tokenizer.ggml.model", bytes_str(v->byte_level ? "gpt2" : "llama"));
    if (v->byte_level)
        gguf_put_string(w, "tokenizer.ggml.pre", bytes_str(split_name(tokenizer)));
    gguf_put_array(w, "tokenizer.ggml.tokens", GGUF_STRING, v->entries.count);
    for (size_t i = 0; i < v->entries.count; i++) {
        char hole[32];
        snprintf(hole, sizeof hole, "[PAD%zu]", i);
        gguf_add_string(w, bytes_str(v->entries.items[i].text ? v->entries.items[i].text : hole));
    }
    gguf_put_array(w, "tokenizer.ggml.token_type", GGUF_I32, v->entries.count);
    for (size_t i = 0; i < v->entries.count; i++)
        gguf_add_i32(w, v->entries.items[i].kind);
    if (v->byte_level) {
        gguf_put_array(w, "tokenizer.ggml.merges", GGUF_STRING, v->merges.count);
        for (size_t i = 0; i < v->merges.count; i++)
            gguf_add_string(w, bytes_str(v->merges.items[i]));
        return;
    }
    /* earlier merges first */
    gguf_put_array(w, "tokenizer.ggml.scores", GGUF_F32, v->entries.count);
    for (size_t i = 0; i < v->entries.count; i++)
        gguf_add_f32(w, -(float)i);
}

static int64_t id_of(const struct vocab *v, struct bytes text) {
    for (size_t i = 0; i < v->entries.count; i++)
        if (v->entries.items[i].text && bytes_equal(bytes_str(v->entries.items[i].text), text))
            return (int64_t)i;
    return -1;
}

/* bos_token and eos_token (a text, or an object with "content"), add_bos_token, chat_template. */
static void put_special(struct gguf_writer *w, const struct vocab *v, struct bytes config) {
    struct json_reader r;
    enum json_event ev;
    json_reader_init(&r, config, 0, 0);
    bool ok = json_next(&r) == JSON_OBJECT_BEGIN, flag;
    while (ok && (ev = json_next(&r)) == JSON_KEY) {
        struct bytes text = {NULL, 0};
        bool bos = bytes_equal(r.text, bytes_str("bos_token")),
             eos = bytes_equal(r.text, bytes_str("eos_token"));
        if (bos || eos) {
            ev = json_next(&r);
            if (ev == JSON_STRING)
                text = r.text;
            while (ev == JSON_OBJECT_BEGIN && ok && json_next(&r) == JSON_KEY) {
                bool content = bytes_equal(r.text, bytes_str("content"));
                ok = content ? json_read_string(&r, &text) : json_skip(&r);
                if (content && ok) {
                    int64_t id = id_of(v, text);
                    if (id >= 0)
                        gguf_put_int(
                            w, bos ? "tokenizer.ggml.bos_token_id" : "tokenizer.ggml.eos_token_id",
                            GGUF_U32, id);
                    text = (struct bytes){NULL, 0};
                }
            }
            int64_t id = text.data ? id_of(v, text) : -1;
            if (id >= 0)
                gguf_put_int(w, bos ? "tokenizer.ggml.bos_token_id" : "tokenizer.ggml.eos_token_id",
                             GGUF_U32, id);
        } else if (bytes_equal(r.text, bytes_str("add_bos_token"))) {
            ev = json_next(&r);
            flag = ev == JSON_TRUE;
            if (ev == JSON_TRUE || ev == JSON_FALSE)
                gguf_put_int(w, "tokenizer.ggml.add_bos_token", GGUF_BOOL, flag);
        } else if (bytes_equal(r.text, bytes_str("chat_template"))) {
            ev = json_next(&r);
            if (ev == JSON_STRING)
                gguf_put_string(w, "tokenizer.chat_template", r.text);
            else if (ev == JSON_ARRAY_BEGIN || ev == JSON_OBJECT_BEGIN)
                ok = json_skip(&r);
        } else {
            ok = json_skip(&r);
        }
    }
    json_reader_release(&r);
}

static int put_tokenizer(struct gguf_writer *w, const char *dir, uint32_t vocab,
                         struct error *err) {
    struct vocab v = {0};
    struct buf tokenizer, config;
    char *path = path_join(dir, "tokenizer.json"),
         *config_path = path_join(dir, "tokenizer_config.json");
    int rc = 0;
    buf_init(&tokenizer, 0);
    buf_init(&config, 0);
    if (file_exists(path))
        rc = file_read(path, TEXT_FILE_MAX, &tokenizer, err);
    if (!rc && file_exists(config_path))
        rc = file_read(config_path, TEXT_FILE_MAX, &config, err);
    if (!rc && tokenizer.len && read_tokenizer(buf_bytes(&tokenizer), &v) &&
        (v.byte_level || v.byte_fallback)) {
        add_holes(&v, vocab);
        put_vocab(w, &v, buf_bytes(&tokenizer));
        if (config.len)
            put_special(w, &v, buf_bytes(&config));
    } else if (!rc) {
        gguf_put_string(w, "tokenizer.ggml.model", bytes_str("no_vocab"));
    }
    vocab_release(&v);
    buf_release(&tokenizer);
    buf_release(&config);
    mem_free(path);
    mem_free(config_path);
    return rc;
}

/* ---- files ---- */

int gguf_text_put(struct gguf_writer *w, const char *dir, uint32_t vocab, struct error *err) {
    int rc = put_tokenizer(w, dir, vocab, err);
    for (size_t i = 0; !rc && i < ARRAY_LEN(FILES); i++) {
        char *path = path_join(dir, FILES[i]), key[GGUF_NAME_MAX];
        struct buf text;
        buf_init(&text, 0);
        snprintf(key, sizeof key, GGUF_FILE_KEY "%s", FILES[i]);
        if (file_exists(path)) {
            rc = file_read(path, TEXT_FILE_MAX, &text, err);
            if (!rc)
                gguf_put_string(w, key, buf_bytes(&text));
        }
        buf_release(&text);
        mem_free(path);
    }
    return rc;
}

int gguf_text_restore(const struct gguf *g, const char *dir, size_t *count, struct error *err) {
    int rc = 0;
    *count = 0;
    for (size_t i = 0; !rc && i < ARRAY_LEN(FILES); i++) {
        char key[GGUF_NAME_MAX];
        struct bytes text;
        snprintf(key, sizeof key, GGUF_FILE_KEY "%s", FILES[i]);
        if (!gguf_string(g, key, &text))
            continue;
        char *path = path_join(dir, FILES[i]);
        rc = file_write_atomic(path, text.data, text.len, 0644, err);
        mem_free(path);
        ++*count;
    }
    return rc;
}
