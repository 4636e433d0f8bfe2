/*
 * trireme convert and trireme quantize: a model into the other format, or its matrices into another type.
 *
 * A path that ends with .gguf is a GGUF file, anything else a folder as Hugging Face has them. Folder to GGUF and back
 * gives the folder's tensors and text files unchanged (quantised ones excepted). --type says what matrices become.
 */
#include "cli/commands.h"
#include "cli/gguf_text.h"

#include "base/fsutil.h"
#include "formats/json.h"
#include "kernels/encode.h"
#include "model/export.h"
#include "model/storage_map.h"

#include <stdio.h>

struct convert_settings {
    const char *model, *out, *type;
};

#define ROW(field_, name_, type_, ...)                                                                                 \
    { .name = name_, .type = type_, .offset = offsetof(struct convert_settings, field_), __VA_ARGS__ }
static const struct option_row CONVERT_ROWS[] = {
    ROW(model, "model", OPTION_STRING, .short_name = 'm', .help = "folder of a model, or a GGUF file"),
    ROW(out, "out", OPTION_STRING, .short_name = 'o', .help = "where to: a name that ends with .gguf, or a folder"),
    ROW(type, "type", OPTION_STRING,
        .help = "what matrices become: f32, f16, bf16, or a quantised type; default: as is"),
};
static const struct option_row QUANTIZE_ROWS[] = {
    ROW(model, "model", OPTION_STRING, .short_name = 'm', .help = "folder of a model, or a GGUF file"),
    ROW(out, "out", OPTION_STRING, .short_name = 'o', .help = "the GGUF file to write"),
    ROW(type, "type", OPTION_STRING, .short_name = 't',
        .help =
            "q8_0, q5_1, q5_0, q4_1, q4_0, q6_k, q5_k, q4_k, q3_k or q2_k; rows of no whole blocks become q8_0 or f16"),
};
const struct option_table convert_options = {"trireme convert", "--model MODEL --out PATH [--type TYPE]",
                                             "Converts between Hugging Face folders and GGUF files, both ways.",
                                             CONVERT_ROWS, ARRAY_LEN(CONVERT_ROWS)};
const struct option_table quantize_options = {"trireme quantize", "--model MODEL --out FILE.gguf --type TYPE",
                                              "Writes a model as a GGUF file with its matrices quantised.",
                                              QUANTIZE_ROWS, ARRAY_LEN(QUANTIZE_ROWS)};

static bool ends_with(const char *s, const char *end) {
    size_t n = strlen(s), m = strlen(end);
    return n > m && !strcmp(s + n - m, end);
}

#define KEPT_KEY "trireme.folder" /* export_kept_text */

#define HEAD_ONLY_KEY "trireme.head_only"

#define EXACT_KEY "trireme.exact." /* and a tensor's name: the values of a norm that adding an offset would change */

/* Norms whose offset cannot be taken away again without a rounding are kept as they were. */
static void put_exact(struct gguf_writer *w, const struct export_item *item) {
    char key[GGUF_NAME_MAX];
    const struct tensor *t = item->views[0].tensor;
    float *values = mem_calloc(item->rows, sizeof *values);
    bool exact = true;
    for (uint32_t i = 0; i < item->rows; i++) {
        values[i] = storage_get(storage_of(t), t->data, i);
        exact = exact && (values[i] + item->add) - item->add == values[i];
    }
    if (!exact && (size_t)snprintf(key, sizeof key, EXACT_KEY "%s", item->name) < sizeof key) {
        gguf_put_array(w, key, GGUF_F32, item->rows);
        for (uint32_t i = 0; i < item->rows; i++) gguf_add_f32(w, values[i]);
    }
    mem_free(values);
}

static void take_exact(const struct gguf *g, struct export_item *item) {
    char key[GGUF_NAME_MAX];
    const struct tensor *t = item->views[0].tensor;
    if ((size_t)snprintf(key, sizeof key, EXACT_KEY "%s", t->name) >= sizeof key) return;
    const struct gguf_kv *kv = gguf_find(g, key);
    if (kv && kv->is_array && kv->type == GGUF_F32 && kv->count == item->rows && item->cols == 1)
        item->exact = kv->data;
}

static void put_kept(struct gguf_writer *w, const struct model *m, const struct export_plan *plan) {
    struct buf kept;
    buf_init(&kept, 0);
    export_kept_text(m, plan, &kept);
    for (size_t i = 0; i < plan->count; i++)
        if (plan->items[i].add != 0) put_exact(w, &plan->items[i]);
    gguf_put_string(w, KEPT_KEY, buf_bytes(&kept));
    buf_release(&kept);
}

static int to_gguf(const struct convert_settings *s, const struct model *m, const struct gguf *source,
                   enum storage_type type, struct error *err) {
    struct export_options o = {.arch = source ? gguf_arch_of(source, err) : gguf_arch_for(&m->spec, err),
                               .from_gguf = source != NULL,
                               .to_gguf = true,
                               .matrices = type,
                               .vectors = TENSOR_F32,
                               .head_only = !source && export_is_head_only(m)};
    struct export_plan plan = {0};
    struct gguf_writer w;
    if (!o.arch) return err->code;
    int rc = export_plan_make(&plan, m, &o, err);
    gguf_writer_init(&w, s->out);
    if (!rc && !source) {
        export_gguf_keys(&w, m, o.arch, type);
        put_kept(&w, m, &plan);
        if (o.head_only) gguf_put_int(&w, HEAD_ONLY_KEY, GGUF_BOOL, 1);
        rc = gguf_text_put(&w, s->model, err);
    }
    for (size_t i = 0; !rc && source && i < source->kv_count; i++) {
        struct bytes key = source->kvs[i].key;
        if (key.len < 6 || memcmp(key.data, "split.", 6)) gguf_put_copy(&w, &source->kvs[i]);
    }
    if (!rc) rc = export_write_gguf(&w, m, &plan, err);
    gguf_writer_release(&w);
    export_plan_release(&plan);
    return rc;
}

/* ---- to a folder ---- */

/* Block types have no place in a folder: they are decoded to f16 unless something else is asked for. */
static enum storage_type folder_type(const struct safetensors *set, enum storage_type asked) {
    for (size_t i = 0; asked == STORAGE_NONE && i < set->tensor_count; i++)
        if (set->tensors[i].type >= TENSOR_SAFETENSORS_COUNT) return STORAGE_F16;
    return asked;
}

static int to_folder(const struct convert_settings *s, const struct model *m, const struct gguf *source,
                     const struct buf *config, enum storage_type type, struct error *err) {
    struct export_options o = {.arch = source ? gguf_arch_of(source, err) : gguf_arch_for(&m->spec, err),
                               .from_gguf = source != NULL,
                               .matrices = folder_type(&m->files, type),
                               .vectors = TENSOR_TYPE_COUNT};
    struct bytes text = {0};
    bool told = source && gguf_string(source, KEPT_KEY, &text);
    char *lines = told ? mem_strndup((const char *)text.data, text.len) : NULL;
    struct export_plan plan = {0};
    size_t kept = 0;
    if (source && !gguf_bool(source, HEAD_ONLY_KEY, &o.head_only)) o.head_only = false;
    o.kept = lines;
    char *weights = path_join(s->out, "model.safetensors"), *config_path = path_join(s->out, "config.json");
    int rc = o.arch ? dir_make(s->out, 0755, err) : err->code;
    if (!rc) rc = export_plan_make(&plan, m, &o, err);
    for (size_t i = 0; !rc && source && i < plan.count; i++)
        if (plan.items[i].add != 0) take_exact(source, &plan.items[i]);
    if (!rc) rc = export_write_safetensors(weights, &plan, err);
    if (!rc && source) rc = gguf_text_restore(source, s->out, &kept, err);
    if (!rc && !kept) rc = file_write_atomic(config_path, config->data, config->len, 0644, err);
    export_plan_release(&plan);
    mem_free(lines);
    mem_free(weights);
    mem_free(config_path);
    return rc;
}

static int convert(const struct convert_settings *s, enum storage_type type, struct error *err) {
    struct model m = {0};
    struct buf config;
    struct gguf source = {0};
    struct model_options options = {.dir = s->model};
    char *gguf = gguf_path_of(s->model);
    buf_init(&config, 0);
    int rc = model_open_files(&m, &options, &config, err);
    if (!rc && gguf) rc = gguf_open(&source, gguf, err);
    if (!rc && ends_with(s->out, ".gguf"))
        rc = to_gguf(s, &m, gguf ? &source : NULL, type, err);
    else if (!rc)
        rc = to_folder(s, &m, gguf ? &source : NULL, &config, type, err);
    gguf_close(&source);
    model_close(&m);
    buf_release(&config);
    mem_free(gguf);
    return rc;
}

static int run(const struct option_table *table, const char *name, bool quantise, int argc, char **argv) {
    struct error err = {0};
    struct convert_settings s;
    size_t count = 0;
    enum storage_type type = STORAGE_NONE;
    int rc = option_parse(table, &s, argc, argv, NULL, 0, &count, &err);
    if (rc == OPTION_HELP_PRINTED) return 0;
    if (!rc && (!s.model || !s.out || (quantise && !s.type)))
        rc = error_set(&err, ERR_INVALID, quantise ? "give --model, --out and --type" : "give --model and --out");
    if (!rc && s.type) {
        type = storage_parse(s.type);
        if (!storage_can_encode(type))
            rc = error_set(&err, ERR_INVALID, "--type '%s' is no type that can be written", s.type);
    }
    if (!rc && quantise && !ends_with(s.out, ".gguf"))
        rc = error_set(&err, ERR_INVALID, "--out '%s' must end with .gguf", s.out);
    if (rc) return command_misused(name, &err);
    rc = convert(&s, type, &err);
    if (rc) fprintf(stderr, "trireme %s: %s\n", name, err.text);
    option_free(table, &s);
    return rc ? 1 : 0;
}

int convert_main(int argc, char **argv) { return run(&convert_options, "convert", false, argc, argv); }
int quantize_main(int argc, char **argv) { return run(&quantize_options, "quantize", true, argc, argv); }
