#include "text/tokenizer/open.h"

#include <malloc.h>

#include "base/fsutil.h"
#include "text/tokenizer/fast/compiled.h"
#include "text/tokenizer/gguf_vocab.h"
#include "text/tokenizer/known_splits.h"
#include "text/tokenizer/named_vocab.h"
#include "text/tokenizer/spm.h"
#include "text/tokenizer/tekken.h"
#include "text/tokenizer/world.h"

enum { FILE_BYTES_MAX = 256 << 20 };

static const char BYTES_DECODER[] = "{\"type\":\"ByteLevel\"}";

/* ---- one form each ---- */

static int finish_tiktoken(const struct named_vocab *known, struct tokenizer *t,
                           struct error *err) {
    struct tokenizer_rules rules = {.decoder = BYTES_DECODER};
    struct buf json = {0};
    if (known)
        named_vocab_rules(known, &json);
    else
        CHECK(known_split_json(bytes_str("cl100k_base"), &json, NULL));
    rules.pre_tokenizer = buf_text(&json);
    int rc = tokenizer_set_rules(t, &rules, err);
    if (!rc && known)
        rc = named_vocab_add_tokens(known, true, t, err);
    if (!rc)
        rc = tokenizer_finish(t, &rules, err);
    buf_release(&json);
    return rc;
}

/* known: by name, or NULL: by the contents. */
static int load_tiktoken(struct bytes file, const struct named_vocab *known, struct tokenizer *t,
                         struct error *err) {
    struct tiktoken_file f;
    struct spm_model m;
    int rc = tiktoken_read(file, &f, err);
    if (rc)
        return rc;
    if (!known)
        known = named_vocab_recognize(&f);
    if (tiktoken_to_spm(&f, &m)) {
        rc = spm_build(&m, t, err);
        if (!rc && known)
            rc = named_vocab_add_tokens(known, true, t, err);
        spm_model_release(&m);
    } else {
        rc = tiktoken_build(&f, known ? named_vocab_first_text_id(known) : 0, t, err);
        if (!rc)
            rc = finish_tiktoken(known, t, err);
    }
    tiktoken_release(&f);
    return rc;
}

static int load_spm(struct bytes file, const struct named_vocab *known, struct tokenizer *t,
                    struct error *err) {
    struct spm_model m;
    int rc = spm_model_read(file, &m, err);
    if (rc)
        return rc;
    rc = spm_build(&m, t, err);
    if (!rc && known)
        rc = named_vocab_add_tokens(known, true, t, err);
    spm_model_release(&m);
    return rc;
}

/* ---- telling them apart ---- */

enum form { FORM_JSON, FORM_SPM, FORM_TIKTOKEN, FORM_GGUF, FORM_WORLD, FORM_TEKKEN };

static bool is_base64_line(struct bytes file) {
    size_t i = 0;
    while (i < file.len && i < 4096 && file.data[i] > ' ' && file.data[i] < 127 &&
           file.data[i] != '{')
        i++;
    return i && i + 1 < file.len && file.data[i] == ' ' && file.data[i + 1] >= '0' &&
           file.data[i + 1] <= '9';
}

static enum form form_of(struct bytes file) {
    size_t i = 0;
    if (file.len >= 4 && !memcmp(file.data, "GGUF", 4))
        return FORM_GGUF;
    if (world_is(file))
        return FORM_WORLD;
    if (is_base64_line(file))
        return FORM_TIKTOKEN;
    while (i < file.len && (file.data[i] == ' ' || file.data[i] == '\n' || file.data[i] == '\r' ||
                            file.data[i] == '\t'))
        i++;
    if (i < file.len && file.data[i] == '{')
        return tekken_is(bytes_of(file.data + i, file.len - i)) ? FORM_TEKKEN : FORM_JSON;
    return file.len && file.data[0] == 0x0A ? FORM_SPM : FORM_JSON; /* field 1, a piece */
}

/* known: by name, or NULL: by the contents. */
static int load_known(struct bytes file, const struct named_vocab *known, struct tokenizer **out,
                      struct error *err) {
    struct tokenizer *t = tokenizer_new(VOCAB_IDS_MAX);
    int rc = form_of(file) == FORM_SPM ? load_spm(file, known, t, err)
                                       : load_tiktoken(file, known, t, err);
    if (rc)
        tokenizer_free(&t);
    *out = t;
    return rc;
}

static int build_gguf(struct gguf *g, struct tokenizer **out, struct error *err) {
    struct tokenizer *t = tokenizer_new(VOCAB_IDS_MAX);
    int rc = gguf_vocab_build(g, t, err);
    if (rc)
        tokenizer_free(&t);
    gguf_close(g);
    *out = t;
    return rc;
}

static int load_gguf(struct bytes file, struct tokenizer **out, struct error *err) {
    struct gguf g;
    int rc = gguf_open_bytes(&g, file, "tokenizer.gguf", err);
    return rc ? rc : build_gguf(&g, out, err);
}

static int load_world(struct bytes file, struct tokenizer **out, struct error *err) {
    struct tokenizer *t =
        tokenizer_new((uint32_t)MIN(MAX(file.len, (size_t)VOCAB_IDS_MIN), (size_t)VOCAB_IDS_MAX));
    int rc = world_build(file, t, err);
    if (rc)
        tokenizer_free(&t);
    *out = t;
    return rc;
}

static int load_tekken(struct bytes file, struct tokenizer **out, struct error *err) {
    struct tokenizer *t = tokenizer_new(VOCAB_IDS_MAX);
    int rc = tekken_build(file, t, err);
    if (rc)
        tokenizer_free(&t);
    *out = t;
    return rc;
}

/* Of any form but tokenizer.json. */
static int load_form(enum form form, struct bytes file, struct tokenizer **out, struct error *err) {
    if (form == FORM_GGUF)
        return load_gguf(file, out, err);
    if (form == FORM_TEKKEN)
        return load_tekken(file, out, err);
    return form == FORM_WORLD ? load_world(file, out, err) : load_known(file, NULL, out, err);
}

static int load_source(struct bytes file, struct bytes config_json, struct bytes generation_json,
                       struct tokenizer **out, struct error *err) {
    enum form form = form_of(file);
    if (form == FORM_JSON)
        return tokenizer_load(file, config_json, generation_json, out, err);
    int rc = load_form(form, file, out, err);
    if (!rc && (rc = tokenizer_load_ends(*out, config_json, generation_json, true, err)))
        tokenizer_free(out);
    return rc;
}

/* What was only for building goes back to the system: it may be as much as what stays. */
static void trim_memory(void) {
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
}

int tokenizer_load_any(struct bytes file, struct bytes config_json, struct bytes generation_json,
                       struct tokenizer **out, struct error *err) {
    CHECK(out);
    const struct bytes source[] = {file, config_json, generation_json};
    struct u128 key = compiled_key(source, ARRAY_LEN(source));
    *out = compiled_open(key);
    int rc = *out ? 0 : load_source(file, config_json, generation_json, out, err);
    if (!rc)
        compiled_keep(key, out);
    if (!rc)
        trim_memory();
    return rc;
}

/* The same for a vocabulary by its name, which chooses rules and added tokens. */
static int load_named(struct bytes file, const char *name, struct tokenizer **out,
                      struct error *err) {
    const struct bytes source[] = {file, bytes_str(name)};
    struct u128 key = compiled_key(source, ARRAY_LEN(source));
    *out = compiled_open(key);
    int rc = *out ? 0 : load_known(file, named_vocab_find(name), out, err);
    if (!rc)
        compiled_keep(key, out);
    if (!rc)
        trim_memory();
    return rc;
}

/* ---- files ---- */

static int open_folder(const char *path, struct tokenizer **out, struct error *err) {
    struct bundle bundle;
    struct buf packed = {0};
    int rc = bundle_pack(path, &packed, err);
    if (!rc)
        rc = bundle_open(&bundle, buf_bytes(&packed), err);
    if (!rc)
        rc = tokenizer_load_bundle(&bundle, out, err);
    buf_release(&packed);
    return rc;
}

/* Weights are not read. What is kept is named by the metadata about the tokenizer alone. */
static int open_gguf(const char *path, struct tokenizer **out, struct error *err) {
    struct bytes none = {0};
    struct buf metadata = {0};
    struct gguf g;
    int rc = gguf_open(&g, path, err);
    if (rc)
        return rc;
    if (!compiled_is_on()) {
        rc = build_gguf(&g, out, err);
        trim_memory();
        return rc;
    }
    gguf_vocab_extract(&g, &metadata);
    gguf_close(&g);
    rc = tokenizer_load_any(buf_bytes(&metadata), none, none, out, err);
    buf_release(&metadata);
    return rc;
}

/* name: of a well-known vocabulary, or NULL: by the contents. */
static int open_file(const char *path, const char *name, struct tokenizer **out,
                     struct error *err) {
    struct buf file = {0};
    struct bytes none = {0};
    int rc = file_read(path, FILE_BYTES_MAX, &file, err);
    if (!rc)
        rc = name ? load_named(buf_bytes(&file), name, out, err)
                  : tokenizer_load_any(buf_bytes(&file), none, none, out, err);
    if (rc && file.len)
        error_wrap(err, "'%s'", path);
    buf_release(&file);
    return rc;
}

int tokenizer_open(const char *path, struct tokenizer **out, struct error *err) {
    CHECK(path && out);
    struct error local;
    if (!err)
        err = &local;
    *out = NULL;
    if (gguf_is(path))
        return open_gguf(path, out, err);
    return dir_exists(path) ? open_folder(path, out, err) : open_file(path, NULL, out, err);
}

int tokenizer_open_named(const char *name, const char *vocab_dir, struct tokenizer **out,
                         struct error *err) {
    CHECK(name && out);
    const struct named_vocab *v = named_vocab_find(name);
    struct error local;
    struct buf path = {0};
    if (!err)
        err = &local;
    *out = NULL;
    if (!v)
        return error_set(err, ERR_NOT_FOUND, "there is no vocabulary named '%s'; known are %s",
                         name, named_vocab_list());
    int rc = named_vocab_path(v, vocab_dir, &path, err);
    if (!rc)
        rc = open_file(buf_text(&path), name, out, err);
    buf_release(&path);
    return rc;
}
