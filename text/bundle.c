#include "text/bundle.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fsutil.h"
#include "base/hash.h"
#include "base/utf8.h"
#include "formats/config.h"
#include "text/tokenizer/gguf_vocab.h"

static const char MAGIC[8] = "TRIBNDL1";
enum { HEADER_BYTES = 12, FILE_HEADER_BYTES = 8 };

/* ---- names ---- */

static bool name_ok(struct bytes name) {
    if (!name.len || name.len > BUNDLE_NAME_MAX || name.data[0] == '/')
        return false;
    for (size_t i = 0; i < name.len; i++) {
        uint8_t c = name.data[i];
        bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '_' || c == '-' || c == '/';
        if (!ok || (c == '.' && i + 1 < name.len && name.data[i + 1] == '.'))
            return false;
    }
    return true;
}

static int compare_names(struct bytes a, struct bytes b) {
    int c = memcmp(a.data, b.data, MIN(a.len, b.len));
    return c ? c : (a.len > b.len) - (a.len < b.len);
}

static int compare_files(const void *a, const void *b) {
    return compare_names(((const struct bundle_file *)a)->name,
                         ((const struct bundle_file *)b)->name);
}

/* ---- packing ---- */

static void add_u32(struct buf *out, uint32_t v) {
    uint8_t b[4] = {(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24)};
    buf_add(out, b, 4);
}

int bundle_pack_files(const struct bundle_file *files, size_t count, struct buf *out,
                      struct error *err) {
    CHECK(out && (files || !count));
    struct bundle_file sorted[BUNDLE_FILES_MAX];
    size_t total = HEADER_BYTES;
    if (count > BUNDLE_FILES_MAX)
        return error_set(err, ERR_LIMIT, "more than %d text files", BUNDLE_FILES_MAX);
    if (count)
        memcpy(sorted, files, count * sizeof *files);
    qsort(sorted, count, sizeof *sorted, compare_files);
    for (size_t i = 0; i < count; i++) {
        struct bytes name = sorted[i].name;
        if (!name_ok(name) || (i && !compare_names(sorted[i - 1].name, name)))
            return error_set(err, ERR_INVALID, "bad or repeated file name '%.*s'",
                             (int)MIN(name.len, (size_t)96), (const char *)name.data);
        total += FILE_HEADER_BYTES + name.len + sorted[i].data.len;
        if (total > BUNDLE_BYTES_MAX || sorted[i].data.len > BUNDLE_BYTES_MAX)
            return error_set(err, ERR_LIMIT, "the model's text files are larger than %zu bytes",
                             BUNDLE_BYTES_MAX);
    }
    buf_reset(out);
    buf_reserve(out, total);
    buf_add(out, MAGIC, sizeof MAGIC);
    add_u32(out, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        add_u32(out, (uint32_t)sorted[i].name.len);
        add_u32(out, (uint32_t)sorted[i].data.len);
        buf_add_bytes(out, sorted[i].name);
        buf_add_bytes(out, sorted[i].data);
    }
    return out->failed ? error_set(err, ERR_MEMORY, "out of memory for the text files") : 0;
}

/* ---- a model's folder ---- */

struct folder {
    struct bundle_file files[BUNDLE_FILES_MAX];
    char names[BUNDLE_FILES_MAX][BUNDLE_NAME_MAX + 1];
    struct buf contents[BUNDLE_FILES_MAX];
    size_t count;
};

/* For those who read it as JSON. */
static void make_strict(struct buf *config) {
    struct buf room = {0};
    struct bytes strict = config_strict_text(buf_bytes(config), &room);
    if (strict.data != buf_bytes(config).data) {
        buf_release(config);
        *config = room;
    }
}

/* What is at `path`, as a file of this name; nothing where it is not there. */
static int read_as(struct folder *f, const char *path, const char *name, struct error *err) {
    int rc = 0;
    if (file_exists(path)) {
        struct buf *content = &f->contents[f->count];
        rc = f->count == BUNDLE_FILES_MAX
                 ? error_set(err, ERR_LIMIT, "there are more than %d text files at '%s'",
                             BUNDLE_FILES_MAX, path)
                 : file_read(path, BUNDLE_BYTES_MAX, content, err);
        if (!rc && !strcmp(name, "config.json"))
            make_strict(content);
        if (!rc) {
            snprintf(f->names[f->count], sizeof f->names[0], "%s", name);
            f->files[f->count].name = bytes_str(f->names[f->count]);
            f->files[f->count].data = bytes_of(buf_text(content), content->len);
            f->count++;
        }
    }
    return rc;
}

static int read_into(struct folder *f, const char *dir, const char *name, struct error *err) {
    char *path = path_join(dir, name);
    int rc = read_as(f, path, name, err);
    mem_free(path);
    return rc;
}

static int read_named_templates(struct folder *f, const char *dir, struct error *err) {
    char *sub = path_join(dir, "additional_chat_templates");
    DIR *d = opendir(sub);
    int rc = 0;
    for (struct dirent *e; d && !rc && (e = readdir(d));) {
        char name[BUNDLE_NAME_MAX + 1];
        size_t len = strlen(e->d_name);
        if (len < 7 || len > 60 || strcmp(e->d_name + len - 6, ".jinja") != 0)
            continue;
        snprintf(name, sizeof name, "additional_chat_templates/%.60s", e->d_name);
        if (name_ok(bytes_str(name)))
            rc = read_into(f, dir, name, err);
    }
    if (d)
        closedir(d);
    mem_free(sub);
    return rc;
}

static bool has_file(const struct folder *f, const char *name) {
    for (size_t i = 0; i < f->count; i++)
        if (!strcmp(f->names[i], name))
            return true;
    return false;
}

static bool has_tokenizer(const struct folder *f) {
    static const char *const NAMES[] = {"tokenizer.json", "tokenizer.model", "tokenizer.gguf",
                                        BUNDLE_WORLD,     "tekken.json",     "vocab.txt"};
    bool found = (has_file(f, "vocab.json") && has_file(f, "merges.txt")) ||
                 (has_file(f, "encoder.json") && has_file(f, "vocab.bpe"));
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
        found |= has_file(f, NAMES[i]);
    return found;
}

/* The text parts of a GGUF file as files: its vocabulary, its chat template, the spelling of BOS
 * and EOS. */
static void add_made(struct folder *f, const char *name, struct buf content) {
    if (f->count == BUNDLE_FILES_MAX || has_file(f, name)) {
        buf_release(&content);
        return;
    }
    f->contents[f->count] = content;
    snprintf(f->names[f->count], sizeof f->names[0], "%s", name);
    f->files[f->count].name = bytes_str(f->names[f->count]);
    f->files[f->count].data = bytes_of(buf_text(&content), content.len);
    f->count++;
}

static void add_token_name(const struct gguf *g, const char *name, const char *id_key,
                           struct buf *json) {
    const struct gguf_kv *tokens = gguf_find(g, "tokenizer.ggml.tokens");
    int64_t id;
    struct bytes text;
    if (!tokens || !gguf_int(g, id_key, &id) || id < 0 || (uint64_t)id >= tokens->count)
        return;
    struct gguf_strings strings = gguf_strings_of(tokens);
    for (int64_t i = 0; i <= id; i++)
        if (!gguf_strings_next(&strings, &text))
            return;
    if (!utf8_valid(text.data, text.len))
        return;
    buf_addf(json, "%s\"%s\": \"", json->len > 1 ? ", " : "", name);
    buf_add_json(json, text);
    buf_add_byte(json, '"');
}

static int read_gguf(struct folder *f, const char *path, struct error *err) {
    struct gguf g;
    struct buf vocabulary = {0}, template = {0}, config = {0};
    struct bytes text;
    int rc = gguf_open(&g, path, err);
    if (rc)
        return rc;
    gguf_vocab_extract(&g, &vocabulary);
    add_made(f, "tokenizer.gguf", vocabulary);
    if (gguf_string(&g, "tokenizer.chat_template", &text)) {
        buf_add_bytes(&template, text);
        add_made(f, "chat_template.jinja", template);
    }
    if (gguf_string(&g, "tokenizer.chat_template.rerank", &text)) {
        struct buf rerank = {0};
        buf_add_bytes(&rerank, text);
        add_made(f, "additional_chat_templates/rerank.jinja", rerank);
    }
    buf_add_byte(&config, '{');
    add_token_name(&g, "bos_token", "tokenizer.ggml.bos_token_id", &config);
    add_token_name(&g, "eos_token", "tokenizer.ggml.eos_token_id", &config);
    buf_add_byte(&config, '}');
    add_made(f, "tokenizer_config.json", config);
    gguf_close(&g);
    return 0;
}

/* The folder's vocabulary: files that another one stands in for. */
static int read_vocabulary(struct folder *f, const char *dir, struct error *err) {
    static const char *const NAMES[] = {"tokenizer.json",          "tokenizer_config.json",
                                        "special_tokens_map.json", "tokenizer.model",
                                        "added_tokens.json",       BUNDLE_WORLD};
    static const char *const OLDER[] = {"tekken.json", "vocab.json", "merges.txt", "encoder.json",
                                        /* where there is no tokenizer.json */
                                        "vocab.bpe", "vocab.txt"};
    int rc = 0;
    for (size_t i = 0; !rc && i < ARRAY_LEN(NAMES); i++)
        rc = read_into(f, dir, NAMES[i], err);
    for (size_t i = 0; !rc && i < ARRAY_LEN(OLDER) && !has_file(f, "tokenizer.json"); i++)
        rc = read_into(f, dir, OLDER[i], err);
    return rc;
}

/* The vocabulary in a file of the caller's, under a name that is opened whatever its form is. */
static int read_other_vocabulary(struct folder *f, const char *path, struct error *err) {
    if (!file_exists(path))
        return error_set(err, ERR_NOT_FOUND, "there is no vocabulary '%s'", path);
    return read_as(f, path, "tokenizer.model", err);
}

int bundle_pack(const char *dir, struct buf *out, struct error *err) {
    return bundle_pack_with(dir, NULL, out, err);
}

int bundle_pack_with(const char *dir, const char *vocab, struct buf *out, struct error *err) {
    CHECK(dir && out);
    static const char *const NAMES[] = {"chat_template.jinja", "chat_template.json",
                                        "generation_config.json", "config.json"};
    struct folder *f = mem_alloc(sizeof *f);
    char *gguf = gguf_path_of(dir);
    int rc = 0;
    for (size_t i = 0; !rc && i < ARRAY_LEN(NAMES) && dir_exists(dir); i++)
        rc = read_into(f, dir, NAMES[i], err);
    if (!rc && vocab)
        rc = read_other_vocabulary(f, vocab, err);
    else if (!rc && dir_exists(dir))
        rc = read_vocabulary(f, dir, err);
    if (!rc && dir_exists(dir))
        rc = read_named_templates(f, dir, err);
    if (!rc && gguf && !has_tokenizer(f))
        rc = read_gguf(f, gguf, err);
    mem_free(gguf);
    if (!rc && !has_tokenizer(f))
        rc = error_set(err, ERR_NOT_FOUND, "'%s' has no tokenizer.json; see --vocab", dir);
    if (!rc)
        rc = bundle_pack_files(f->files, f->count, out, err);
    for (size_t i = 0; i < BUNDLE_FILES_MAX; i++)
        buf_release(&f->contents[i]);
    mem_free(f);
    return rc;
}

struct u128 bundle_hash(struct bytes packed) {
    return hash128(packed.data, packed.len, 0);
}

/* ---- opening ---- */

static uint32_t read_u32(const uint8_t *p) {
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

int bundle_open(struct bundle *bundle, struct bytes packed, struct error *err) {
    CHECK(bundle);
    *bundle = (struct bundle){0};
    if (packed.len < HEADER_BYTES || memcmp(packed.data, MAGIC, sizeof MAGIC) != 0)
        return error_set(err, ERR_INVALID, "not a bundle of text files");
    uint32_t count = read_u32(packed.data + 8);
    if (count > BUNDLE_FILES_MAX)
        return error_set(err, ERR_INVALID, "bundle of %u files (at most %d)", count,
                         BUNDLE_FILES_MAX);
    size_t at = HEADER_BYTES;
    for (uint32_t i = 0; i < count; i++) {
        if (packed.len - at < FILE_HEADER_BYTES)
            return error_set(err, ERR_INVALID, "bundle is cut at file %u", i);
        uint32_t name_len = read_u32(packed.data + at), data_len = read_u32(packed.data + at + 4);
        at += FILE_HEADER_BYTES;
        if (name_len > packed.len - at || data_len > packed.len - at - name_len)
            return error_set(err, ERR_INVALID, "bundle is cut at file %u", i);
        struct bundle_file file = {bytes_of(packed.data + at, name_len),
                                   bytes_of(packed.data + at + name_len, data_len)};
        if (!name_ok(file.name) || (i && compare_names(bundle->files[i - 1].name, file.name) >= 0))
            return error_set(err, ERR_INVALID, "bundle: bad name of file %u", i);
        bundle->files[i] = file;
        bundle->file_count = i + 1;
        at += (size_t)name_len + data_len;
    }
    if (at != packed.len)
        return error_set(err, ERR_INVALID, "bundle: %zu bytes too many", packed.len - at);
    return 0;
}

struct bytes bundle_find(const struct bundle *bundle, const char *name) {
    for (size_t i = 0; i < bundle->file_count; i++)
        if (bytes_equal(bundle->files[i].name, bytes_str(name)))
            return bundle->files[i].data;
    return bytes_of(NULL, 0);
}
