/*
 * trireme convert and trireme quantize: a model into the other format, or its matrices into another
 * type.
 *
 * A path that ends with .gguf is a GGUF file, anything else a folder as Hugging Face has them.
 * Folder to GGUF and back gives the folder's tensors and text files unchanged (quantized ones
 * excepted). --type says what matrices become. quantize writes GGUF's types into GGUF files, and
 * fp8, int8, int4 into folders that other servers read too.
 */
#include "cli/commands.h"
#include "cli/gguf_text.h"
#include "cli/model_path.h"
#include "cli/progress.h"
#include "cli/report.h"

#include "base/fsutil.h"
#include "formats/json.h"
#include "kernels/encode.h"
#include "model/convert/export.h"
#include "model/load/storage_map.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { TEXT_MAX = 1 << 28 };

struct convert_settings {
    const char *model, *out, *type;
    bool force;
};

#define ROW(field_, name_, type_, ...)                                                             \
    {                                                                                              \
        .name = name_, .type = type_, .offset = offsetof(struct convert_settings, field_),         \
        __VA_ARGS__                                                                                \
    }
#define FORCE_ROW ROW(force, "force", OPTION_BOOL, .help = "write over a model that is there")
static const struct option_row CONVERT_ROWS[] = {
    ROW(model, "model", OPTION_STRING, .short_name = 'm',
        .help = "folder of a model, or a GGUF file"),
    ROW(out, "out", OPTION_STRING, .short_name = 'o',
        .help = "where to: a name that ends with .gguf, or a folder"),
    ROW(type, "type", OPTION_STRING, .aliases = "-q --quant",
        .help = "what matrices become: f32, f16, bf16, or a quantized type; default: as is"),
    FORCE_ROW,
};
static const struct option_row QUANTIZE_ROWS[] = {
    ROW(model, "model", OPTION_STRING, .short_name = 'm',
        .help = "folder of a model, or a GGUF file"),
    ROW(out, "out", OPTION_STRING, .short_name = 'o',
        .help = "the GGUF file, or the folder, to write"),
    ROW(type, "type", OPTION_STRING,
        .help = "into a file: q8_0, q5_1, q5_0, q4_1, q4_0, q6_k, q5_k, q4_k, q3_k or q2_k (rows "
                "of no whole blocks "
                "become q8_0 or f16); into a folder, as compressed-tensors: fp8 or int8 (a scale a "
                "row), int4 (a scale "
                "for 128 columns)"),
    FORCE_ROW,
};
static const struct option_foreign CONVERT_FOREIGN[] = {
    {.flags = "-f --format",
     .reason = "the name of OUT says it: a file that ends with .gguf, else a folder"}};
const struct option_table convert_options = {
    .program = "trireme convert",
    .synopsis = "[OPTIONS] MODEL OUT [TYPE]",
    .summary = "Converts between Hugging Face folders and GGUF files, both ways.",
    .rows = CONVERT_ROWS,
    .count = ARRAY_LEN(CONVERT_ROWS),
    .arguments = "model out type",
    .foreign = CONVERT_FOREIGN,
    .foreign_count = ARRAY_LEN(CONVERT_FOREIGN)};
const struct option_table quantize_options = {
    .program = "trireme quantize",
    .synopsis = "[OPTIONS] MODEL FILE.gguf|FOLDER TYPE",
    .summary =
        "Writes a model as a GGUF file, or as a folder of safetensors, with its matrices quantized.",
    .rows = QUANTIZE_ROWS,
    .count = ARRAY_LEN(QUANTIZE_ROWS),
    .arguments = "model out type"};

static bool ends_with(const char *s, const char *end) {
    size_t n = strlen(s), m = strlen(end);
    return n > m && !strcmp(s + n - m, end);
}

#define KEPT_KEY "trireme.folder" /* export_kept_text */

#define HEAD_ONLY_KEY "trireme.head_only"

#define EXACT_KEY                                                                                  \
    "trireme.exact." /* and a tensor's name: values that the way there and back would change */

/* What a rounding keeps from being changed back (norms' offsets, a state's decay) is kept as it
 * was. */
static void put_exact(struct gguf_writer *w, const struct export_item *item) {
    char key[GGUF_NAME_MAX];
    const struct tensor *t = item->views[0].tensor;
    size_t count = (size_t)item->rows * item->cols;
    float *values = mem_calloc(count, sizeof *values);
    bool exact = true;
    for (size_t i = 0; i < count; i++) {
        uint8_t stored[sizeof(float)];
        values[i] = storage_get(storage_of(t), t->data, i);
        float back = export_unchanged(item, export_changed(item, values[i]));
        storage_encode(storage_of(t), &back, 1, stored);
        exact = exact && storage_get(storage_of(t), stored, 0) == values[i];
    }
    if (!exact && (size_t)snprintf(key, sizeof key, EXACT_KEY "%s", item->name) < sizeof key) {
        gguf_put_array(w, key, GGUF_F32, count);
        for (size_t i = 0; i < count; i++)
            gguf_add_f32(w, values[i]);
    }
    mem_free(values);
}

static void take_exact(const struct gguf *g, struct export_item *item) {
    char key[GGUF_NAME_MAX];
    const struct tensor *t = item->views[0].tensor;
    if ((size_t)snprintf(key, sizeof key, EXACT_KEY "%s", t->name) >= sizeof key)
        return;
    const struct gguf_kv *kv = gguf_find(g, key);
    if (kv && kv->is_array && kv->type == GGUF_F32 &&
        kv->count == (uint64_t)item->rows * item->cols)
        item->exact = kv->data;
}

static void put_kept(struct gguf_writer *w, const struct model *m, const struct export_plan *plan) {
    struct buf kept;
    buf_init(&kept, 0);
    export_kept_text(m, plan, &kept);
    for (size_t i = 0; i < plan->count; i++)
        if (export_changes(&plan->items[i]))
            put_exact(w, &plan->items[i]);
    gguf_put_string(w, KEPT_KEY, buf_bytes(&kept));
    buf_release(&kept);
}

static void on_progress(void *ctx, uint64_t done, uint64_t total) {
    progress_show(ctx, done, total);
}

static int to_gguf(const struct convert_settings *s, const struct model *m,
                   const struct gguf *source, enum storage_type type, struct progress *progress,
                   struct error *err) {
    struct export_options o = {.arch = source ? gguf_arch_of(source, err)
                                              : gguf_arch_for(&m->spec, err),
                               .from_gguf = source != NULL,
                               .to_gguf = true,
                               .matrices = type,
                               .vectors = TENSOR_F32,
                               .head_only = !source && export_is_head_only(m)};
    struct export_plan plan = {0};
    struct gguf_writer w;
    if (!o.arch)
        return err->code;
    int rc = export_plan_make(&plan, m, &o, err);
    plan.on_progress = on_progress;
    plan.progress_ctx = progress;
    gguf_writer_init(&w, s->out);
    if (!rc && !source) {
        export_gguf_keys(&w, m, o.arch, type);
        put_kept(&w, m, &plan);
        if (o.head_only)
            gguf_put_int(&w, HEAD_ONLY_KEY, GGUF_BOOL, 1);
        rc = gguf_text_put(&w, s->model, m->spec.vocab, err);
    }
    for (size_t i = 0; !rc && source && i < source->kv_count; i++) {
        struct bytes key = source->kvs[i].key;
        if (key.len < 6 || memcmp(key.data, "split.", 6))
            gguf_put_copy(&w, &source->kvs[i]);
    }
    if (!rc)
        rc = export_write_gguf(&w, m, &plan, err);
    gguf_writer_release(&w);
    export_plan_release(&plan);
    return rc;
}

/* ---- to a folder ---- */

/* Block types have no place in a folder, but for MXFP4 of GPT-OSS: they are decoded to f16 unless
 * something else is asked for. */
static enum storage_type folder_type(const struct model *m, enum storage_type asked) {
    for (size_t i = 0; asked == STORAGE_NONE && i < m->files.tensor_count; i++) {
        enum tensor_type type = m->files.tensors[i].type;
        if (type >= TENSOR_SAFETENSORS_COUNT && !export_has_blocks(&m->spec, type))
            return STORAGE_F16;
    }
    return asked;
}

static int to_folder(const struct convert_settings *s, const struct model *m,
                     const struct gguf *source, const struct buf *config, enum storage_type type,
                     struct progress *progress, struct error *err) {
    struct export_options o = {.arch = source ? gguf_arch_of(source, err)
                                              : gguf_arch_for(&m->spec, err),
                               .from_gguf = source != NULL,
                               .matrices = folder_type(m, type),
                               .vectors = TENSOR_TYPE_COUNT};
    struct bytes text = {0};
    bool told = source && gguf_string(source, KEPT_KEY, &text);
    char *lines = told ? mem_strndup((const char *)text.data, text.len) : NULL;
    struct export_plan plan = {0};
    size_t kept = 0;
    if (source && !gguf_bool(source, HEAD_ONLY_KEY, &o.head_only))
        o.head_only = false;
    o.kept = lines;
    char *weights = path_join(s->out, "model.safetensors"),
         *config_path = path_join(s->out, "config.json");
    int rc = o.arch ? dir_make(s->out, 0755, err) : err->code;
    if (!rc)
        rc = export_plan_make(&plan, m, &o, err);
    plan.on_progress = on_progress;
    plan.progress_ctx = progress;
    for (size_t i = 0; !rc && source && i < plan.count; i++)
        if (export_changes(&plan.items[i]))
            take_exact(source, &plan.items[i]);
    if (!rc)
        rc = export_write_safetensors(weights, &plan, err);
    if (!rc && source)
        rc = gguf_text_restore(source, s->out, &kept, err);
    if (!rc && !kept)
        rc = file_write_atomic(config_path, config->data, config->len, 0644, err);
    export_plan_release(&plan);
    mem_free(lines);
    mem_free(weights);
    mem_free(config_path);
    return rc;
}

static int convert(const struct convert_settings *s, enum storage_type type,
                   struct progress *progress, struct error *err) {
    struct model m = {0};
    struct buf config;
    struct gguf source = {0};
    struct model_options options = {.dir = s->model};
    char *gguf = gguf_path_of(s->model);
    buf_init(&config, 0);
    int rc = model_open_files(&m, &options, &config, err);
    if (!rc && gguf)
        rc = gguf_open(&source, gguf, err);
    if (!rc && ends_with(s->out, ".gguf"))
        rc = to_gguf(s, &m, gguf ? &source : NULL, type, progress, err);
    else if (!rc)
        rc = to_folder(s, &m, gguf ? &source : NULL, &config, type, progress, err);
    gguf_close(&source);
    model_close(&m);
    buf_release(&config);
    mem_free(gguf);
    return rc;
}

/* ---- quantized folders ---- */

static bool is_text_file(const char *name) {
    static const char *const ENDS[] = {".json", ".jinja", ".model", ".tiktoken", ".txt", ".md"};
    for (size_t i = 0; i < ARRAY_LEN(ENDS); i++)
        if (ends_with(name, ENDS[i]))
            return strcmp(name, "config.json") && !ends_with(name, ".safetensors.index.json");
    return false;
}

/* Everything beside the weights and config.json. */
static int copy_texts(const char *from, const char *to, struct error *err) {
    DIR *d = opendir(from);
    int rc = d ? 0 : error_set_errno(err, "cannot read '%s'", from);
    for (struct dirent *e; !rc && (e = readdir(d));) {
        if (!is_text_file(e->d_name))
            continue;
        char *source = path_join(from, e->d_name), *target = path_join(to, e->d_name);
        struct buf text;
        buf_init(&text, 0);
        rc = file_read(source, TEXT_MAX, &text, err);
        if (!rc)
            rc = file_write_atomic(target, text.data, text.len, 0644, err);
        buf_release(&text);
        mem_free(source);
        mem_free(target);
    }
    if (d)
        closedir(d);
    return rc;
}

/* config.json with one key more. */
static int write_config(const char *path, const struct buf *config, const struct model *m,
                        enum storage_type type, struct error *err) {
    struct buf out;
    size_t len = config->len;
    while (len && config->data[len - 1] != '}')
        len--; /* it was read: an object, with keys */
    buf_init(&out, 0);
    buf_add(&out, config->data, len ? len - 1 : 0);
    buf_add_str(&out, ", \"quantization_config\": ");
    export_compressed_config(&out, m, type);
    buf_add_str(&out, "}\n");
    int rc = file_write_atomic(path, out.data, out.len, 0644, err);
    buf_release(&out);
    return rc;
}

static int quantize_folder(const struct convert_settings *s, enum storage_type type,
                           struct progress *progress, struct error *err) {
    struct model m = {0};
    struct buf config;
    struct model_options options = {
        .dir = s->model, .quantize = type, .progress = on_progress, .progress_ctx = progress};
    if (!dir_exists(s->model))
        return error_set(err, ERR_UNSUPPORTED,
                         "'%s' is no folder; `trireme convert` makes one of a GGUF file", s->model);
    char *weights = path_join(s->out, "model.safetensors"),
         *config_path = path_join(s->out, "config.json");
    buf_init(&config, 0);
    int rc = model_open_files(&m, &options, &config, err);
    if (m.quantized.config.method[0])
        rc = error_set(err, ERR_UNSUPPORTED, "'%s' is quantized already (%s)", s->model,
                       m.quantized.config.method);
    if (!rc)
        rc = dir_make(s->out, 0755, err);
    if (!rc)
        rc = export_write_compressed(weights, &m, err);
    if (!rc)
        rc = copy_texts(s->model, s->out, err);
    if (!rc)
        rc = write_config(config_path, &config, &m, type, err);
    model_close(&m);
    buf_release(&config);
    mem_free(weights);
    mem_free(config_path);
    return rc;
}

/* ---- the commands ---- */

static bool is_folder_type(enum storage_type type) {
    return type == STORAGE_F8_E4M3 || type == STORAGE_I8 || type == STORAGE_U4;
}

/* "--type 'x' is no type that can be written; known: f32, ...". */
static int unknown_type(const char *name, bool folder_too, struct error *err) {
    struct buf known;
    buf_init(&known, 0);
    for (int i = 1; i < STORAGE_TYPE_COUNT; i++)
        if (storage_can_encode((enum storage_type)i) ||
            (folder_too && is_folder_type((enum storage_type)i)))
            buf_addf(&known, "%s%s", known.len ? ", " : "", storage_name((enum storage_type)i));
    int rc = error_set(err, ERR_INVALID, "--type '%s' is no type that can be written; known: %s",
                       name, buf_text(&known));
    buf_release(&known);
    return rc;
}

/* What can be written where. */
static int check_type(const struct convert_settings *s, enum storage_type type, bool quantize,
                      struct error *err) {
    bool file = ends_with(s->out, ".gguf"), folder_type = quantize && is_folder_type(type);
    if (s->type && !storage_can_encode(type) && !folder_type)
        return unknown_type(s->type, quantize, err);
    if (quantize && file == folder_type)
        return error_set(err, ERR_INVALID,
                         folder_type ? "--type '%s' goes into a folder, not into a .gguf file"
                                     : "--out must end with .gguf for --type '%s'",
                         s->type);
    return 0;
}

/* What is there already stays, unless --force. */
static int check_target(const struct convert_settings *s, struct error *err) {
    bool file = ends_with(s->out, ".gguf");
    char *config = path_join(s->out, "config.json"),
         *weights = path_join(s->out, "model.safetensors");
    bool taken = file ? file_exists(s->out) : file_exists(config) || file_exists(weights);
    mem_free(config);
    mem_free(weights);
    if (!taken || s->force)
        return 0;
    return error_set(err, ERR_INVALID, "'%s' is there already; --force writes over it", s->out);
}

/* Nothing can be read and written over at once: the weights are mapped. */
static int check_apart(const struct convert_settings *s, struct error *err) {
    char from[PATH_MAX], to[PATH_MAX];
    if (!realpath(s->model, from) || !realpath(s->out, to) || strcmp(from, to) != 0)
        return 0;
    return error_set(err, ERR_INVALID, "'%s' cannot be written over while it is read", s->out);
}

/* Bytes of the weights at a path: a GGUF file, or a folder's .safetensors. */
static uint64_t weight_bytes(const char *path) {
    struct stat st;
    uint64_t bytes = 0;
    DIR *dir = opendir(path);
    if (!dir)
        return stat(path, &st) ? 0 : (uint64_t)st.st_size;
    for (const struct dirent *e; (e = readdir(dir));)
        if ((ends_with(e->d_name, ".safetensors") || ends_with(e->d_name, ".gguf")) &&
            !fstatat(dirfd(dir), e->d_name, &st, 0))
            bytes += (uint64_t)st.st_size;
    closedir(dir);
    return bytes;
}

static void tell_written(const struct convert_settings *s, const char *name, int64_t took_ms) {
    char from[HUMAN_MAX], to[HUMAN_MAX];
    fprintf(stderr, "trireme %s: wrote '%s', %s from %s%s%s, in %.1f s\n", name, s->out,
            human(weight_bytes(s->out), "B", to), human(weight_bytes(s->model), "B", from),
            s->type ? ", as " : "", s->type ? s->type : "", (double)took_ms / 1000);
}

static int run(const struct option_table *table, const char *name, bool quantize, int argc,
               char **argv) {
    struct error err = {0};
    struct convert_settings s;
    struct progress progress;
    int rc = option_parse(table, &s, argc, argv, NULL, 0, NULL, &err);
    if (rc == OPTION_HELP_PRINTED)
        return 0;
    if (!rc && (!s.model || !s.out || (quantize && !s.type)))
        rc = error_set(&err, ERR_INVALID,
                       quantize ? "give a model, where to write, and a type"
                                : "give a model and where to write");
    enum storage_type type = !rc && s.type ? storage_parse(s.type) : STORAGE_NONE;
    if (!rc)
        rc = check_type(&s, type, quantize, &err);
    if (!rc)
        rc = check_apart(&s, &err);
    if (!rc)
        rc = check_target(&s, &err);
    if (rc)
        return command_misused(name, table, &s, &err);
    int64_t took_ms = 0;
    rc = model_path_of_option(&s.model, &err);
    if (!rc) {
        progress_begin(&progress, quantize ? "quantizing" : "converting");
        rc = quantize && is_folder_type(type) ? quantize_folder(&s, type, &progress, &err)
                                              : convert(&s, type, &progress, &err);
        took_ms = progress_end(&progress);
    }
    if (rc)
        fprintf(stderr, "trireme %s: %s\n", name, err.text);
    else
        tell_written(&s, name, took_ms);
    option_free(table, &s);
    return rc ? 1 : 0;
}

int convert_main(int argc, char **argv) {
    return run(&convert_options, "convert", false, argc, argv);
}
int quantize_main(int argc, char **argv) {
    return run(&quantize_options, "quantize", true, argc, argv);
}
