/* trireme info: what a model folder holds and what serving it takes, without a device and without
 * reading weights. */
#include "cli/commands.h"
#include "cli/model_path.h"
#include "cli/report.h"

#include "base/fsutil.h"
#include "base/memory_limit.h"
#include "formats/config.h"
#include "formats/gguf.h"
#include "model/load/quantized.h"
#include "model/model.h"
#include "model/read/pooling.h"
#include "model/run/layer_kinds.h"
#include "text/bundle.h"
#include "text/chat.h"
#include "text/tokenizer/tokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

struct info_settings {
    const char *model;
    bool json;
};

static const struct option_row ROWS[] = {
    {.name = "model",
     .short_name = 'm',
     .type = OPTION_STRING,
     .offset = offsetof(struct info_settings, model),
     .help = "Folder of a model, a GGUF file, or a hub's name."},
    {.name = "json",
     .type = OPTION_BOOL,
     .offset = offsetof(struct info_settings, json),
     .help = "Print one JSON object instead."}};
const struct option_table info_options = {
    .program = "trireme info",
    .synopsis = "[OPTIONS] MODEL",
    .summary = "Tells what a model folder holds and whether it can be served.",
    .rows = ROWS,
    .count = ARRAY_LEN(ROWS),
    .arguments = "model"};

/* ---- layers ---- */

static void add_attention(const struct attention_spec *a, struct buf *out) {
    buf_addf(out, ", %u heads of %u, %u for keys and values", a->heads, a->head_dim, a->kv_heads);
    if (a->window)
        buf_addf(out, ", window %u", a->window);
    if (a->chunk)
        buf_addf(out, ", chunks of %u", a->chunk);
}

static void add_ffn(const struct layer_spec *layer, struct buf *out) {
    const struct moe_spec *moe = &layer->moe;
    if (layer->mixer)
        buf_add_str(out, "; ");
    if (layer->ffn.kind == FFN_MOE)
        buf_addf(out, "%u of %u experts of width %u", moe->router.top_k, moe->router.experts,
                 moe->width);
    else
        buf_addf(out, "%s feed-forward of width %u", FFNS[layer->ffn.kind]->name, layer->ffn.width);
    if (layer->ffn.kind == FFN_MOE && moe->shared_width)
        buf_addf(out, ", one of width %u for all", moe->shared_width);
}

/* What a layer is, in words; layers with equal words are of a kind. */
static char *layer_text(const struct layer_spec *layer) {
    const struct latent_spec *l = &layer->latent;
    struct buf out;
    buf_init(&out, 0);
    if (layer->mixer)
        buf_add_str(&out, MIXERS[layer->mixer]->name);
    if (layer->mixer == MIXER_ATTENTION)
        add_attention(&layer->attention, &out);
    if (layer->mixer == MIXER_LATENT)
        buf_addf(&out, ", %u heads of %u + %u, %u values a position cached", l->heads, l->nope,
                 l->rope, l->rank + l->rope);
    if (layer->ffn.kind)
        add_ffn(layer, &out);
    char *text = mem_strdup(buf_text(&out));
    buf_release(&out);
    return text;
}

/* The layers of a kind as "0-3, 5"; forgets them. */
static void take_ranges(char **texts, uint32_t count, const char *kind, struct buf *out) {
    for (uint32_t i = 0, end; i < count; i = MAX(end, i + 1)) {
        for (end = i; end < count && texts[end] && !strcmp(texts[end], kind); end++)
            if (texts[end] != kind)
                mem_free(texts[end]);
        if (end == i)
            continue;
        buf_addf(out, end - i > 1 ? "%s%u-%u" : "%s%u", out->len ? ", " : "", i, end - 1);
        memset(texts + i, 0, (end - i) * sizeof *texts);
    }
}

static void add_kind(const struct report *r, const char *ranges, const char *kind) {
    if (!r->json)
        return;
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "layers", ranges);
    cJSON_AddStringToObject(item, "kind", kind);
    report_add(r, "kinds_of_layers", item);
}

static void tell_layers(const struct report *r, const struct model_spec *spec) {
    char **texts = mem_calloc(spec->layer_count, sizeof *texts);
    for (uint32_t i = 0; i < spec->layer_count; i++)
        texts[i] = layer_text(&spec->layers[i]);
    report_row(r, "layers", "%u, hidden %u", spec->layer_count, spec->hidden);
    report_number(r, "layers", spec->layer_count);
    report_number(r, "hidden", spec->hidden);
    for (uint32_t i = 0; i < spec->layer_count; i++) {
        char *kind = texts[i];
        struct buf ranges;
        if (!kind)
            continue;
        buf_init(&ranges, 0);
        take_ranges(texts, spec->layer_count, kind, &ranges);
        report_row(r, "", "%s: %s", buf_text(&ranges), kind);
        add_kind(r, buf_text(&ranges), kind);
        buf_release(&ranges);
        mem_free(kind);
    }
    mem_free(texts);
}

static void tell_kv(const struct report *r, const struct model_spec *spec) {
    uint64_t values = 0;
    char text[HUMAN_MAX];
    for (uint32_t i = 0; i < spec->layer_count; i++) {
        const struct layer_spec *l = &spec->layers[i];
        values += (uint64_t)2 * l->attention.kv_heads * l->attention.head_dim + l->latent.rank +
                  l->latent.rope;
    }
    report_row(r, "KV cache", "%s a token as f16", human(values * 2, "B", text));
    report_row(r, "", "%s for one full context", human(values * 2 * spec->max_context, "B", text));
    report_number(r, "kv_bytes_a_token", (double)(values * 2));
}

static int tell_spec(const struct report *r, struct bytes config, bool common_names,
                     struct error *err) {
    const struct spec_options options = {.common_names = common_names};
    struct model_spec spec;
    struct quantized_config storage = {.bits = 0};
    int rc = quantized_config_read(&storage, config, err);
    if (!rc)
        rc = spec_read_text(&spec, config, &options, err);
    if (rc)
        return rc;
    report_row(r, "family", "%s", spec.family);
    report_text(r, "family", spec.family);
    if (*storage.method)
        report_row(r, "quantized", "%s", storage.method);
    report_text(r, "quantized", *storage.method ? storage.method : NULL);
    tell_layers(r, &spec);
    report_row(r, "context", "%u tokens", spec.max_context);
    report_number(r, "context_tokens", spec.max_context);
    if (spec.unread)
        report_row(r, "not read", "%s", spec.unread);
    report_text(r, "not_read", spec.unread);
    report_row(r, "logits", "%u%s", spec.vocab,
               spec.tied_head ? ", head tied to the embedding" : "");
    report_number(r, "logits", spec.vocab);
    report_bool(r, "tied_head", spec.tied_head);
    tell_kv(r, &spec);
    spec_release(&spec);
    return 0;
}

static void tell_type(const struct report *r, const char *type, uint64_t count) {
    char number[HUMAN_MAX];
    report_row(r, "", "%s as %s", human(count, "", number), type);
    if (!r->json)
        return;
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "type", type);
    cJSON_AddNumberToObject(item, "weights", (double)count);
    report_add(r, "types", item);
}

static void tell_weights(const struct report *r, const struct safetensors *set) {
    uint64_t counts[TENSOR_TYPE_COUNT] = {0}, parameters = 0, bytes = 0;
    char number[HUMAN_MAX], size[HUMAN_MAX];
    for (size_t i = 0; i < set->tensor_count; i++) {
        enum tensor_type type = set->tensors[i].type;
        uint64_t count =
            set->tensors[i].byte_len / tensor_type_size(type) * tensor_type_block(type);
        counts[set->tensors[i].type] += count;
        parameters += count;
        bytes += set->tensors[i].byte_len;
    }
    report_row(r, "weights", "%s in %zu tensors and %zu file%s, %s", human(parameters, "", number),
               set->tensor_count, set->file_count, set->file_count == 1 ? "" : "s",
               human(bytes, "B", size));
    report_number(r, "weights", (double)parameters);
    report_number(r, "weight_bytes", (double)bytes);
    report_number(r, "tensors", (double)set->tensor_count);
    report_number(r, "files", (double)set->file_count);
    for (int type = 0; type < TENSOR_TYPE_COUNT; type++)
        if (counts[type])
            tell_type(r, tensor_type_name((enum tensor_type)type), counts[type]);
}

static void tell_tokenizer(const struct report *r, const struct tokenizer *t) {
    struct tokens eos = tokenizer_eos(t);
    struct buf text;
    buf_init(&text, 0);
    buf_addf(&text, "%u tokens", tokenizer_vocab_count(t));
    for (size_t i = 0; i < eos.count; i++) {
        buf_add_str(&text, i ? ", " : "; an answer ends with ");
        size_t from = text.len;
        tokenizer_token_text(t, eos.ids[i], &text);
        report_add(r, "answers_end_with", cJSON_CreateString(buf_text(&text) + from));
    }
    report_row(r, "tokenizer", "%s", buf_text(&text));
    report_number(r, "vocabulary", tokenizer_vocab_count(t));
    buf_release(&text);
}

static int tell_text(const struct report *r, const char *dir, struct error *err) {
    struct buf packed;
    struct bundle bundle;
    struct tokenizer *tokenizer = NULL;
    struct chat *chat = NULL;
    buf_init(&packed, 0);
    int rc = bundle_pack(dir, &packed, err);
    if (!rc)
        rc = bundle_open(&bundle, buf_bytes(&packed), err);
    if (!rc)
        rc = tokenizer_load_bundle(&bundle, &tokenizer, err);
    if (!rc)
        tell_tokenizer(r, tokenizer);
    if (!rc)
        rc = chat_load(&bundle, &chat, err);
    if (!rc) {
        report_row(r, "chat template", "%s", chat_has_template(chat) ? "yes" : "none");
        report_bool(r, "chat_template", chat_has_template(chat));
    }
    chat_free(&chat);
    tokenizer_free(&tokenizer);
    buf_release(&packed);
    return rc;
}

/* A GGUF file is config and weights in one. */
static int tell_gguf(const struct report *r, const char *path, struct error *err) {
    struct model m = {0};
    struct buf config;
    buf_init(&config, 0);
    int rc = model_open_files(&m, &(struct model_options){.dir = path}, &config, err);
    if (!rc)
        rc = tell_spec(r, buf_bytes(&config), true, err);
    if (!rc)
        tell_weights(r, &m.files);
    model_close(&m);
    buf_release(&config);
    return rc;
}

static int failed(const struct report *r, int rc, const struct error *err) {
    if (!rc)
        return 0;
    fprintf(stderr, "trireme info: %s\n", err->text);
    report_add(r, "errors", cJSON_CreateString(err->text));
    return 1;
}

/* Failures: each of both is told, also when the other cannot be read. */
static int tell_folder(const struct report *r, const char *dir) {
    struct safetensors set = {0};
    struct buf config;
    struct error err, weights_err;
    int weights_rc = safetensors_open(&set, dir, &weights_err);
    buf_init(&config, 0);
    int rc = model_config_text(dir, &set, NULL, &config, &err);
    if (!rc)
        rc = tell_spec(r, buf_bytes(&config), false, &err);
    if (!weights_rc)
        tell_weights(r, &set);
    safetensors_close(&set);
    buf_release(&config);
    return failed(r, rc, &err) + failed(r, weights_rc, &weights_err);
}

/* How the model's files say that its embeddings are made. `told`: an error that was told. */
static void tell_embeddings(const struct report *r, const char *dir, const char *told) {
    static const char *const NAMES[POOLING_COUNT] = {[POOLING_LAST] = "last",
                                                     [POOLING_MEAN] = "mean",
                                                     [POOLING_CLS] = "cls",
                                                     [POOLING_MAX] = "max"};
    struct pooling_spec spec;
    struct error err;
    if (pooling_read(dir, &spec, &err)) {
        if (strcmp(err.text, told) != 0)
            report_row(r, "embeddings", "none: %s", err.text);
    } else if (spec.kind != POOLING_NONE) {
        char width[48] = "";
        if (spec.head.count)
            snprintf(width, sizeof width, ", made into %u values", vector_head_width(&spec.head));
        report_row(r, "embeddings", "--pooling %s%s%s", NAMES[spec.kind], width,
                   spec.normalize ? ", of length 1" : "");
        report_text(r, "embeddings", NAMES[spec.kind]);
        pooling_spec_release(&spec);
    }
}

static void tell_machine(const struct report *r) {
    char size[HUMAN_MAX];
    uint64_t memory = memory_limit("");
    report_row(r, "this machine", "%s of memory, %ld CPUs", human(memory, "B", size),
               sysconf(_SC_NPROCESSORS_ONLN));
    report_number(r, "memory_bytes", (double)memory);
    report_number(r, "cpus", (double)sysconf(_SC_NPROCESSORS_ONLN));
}

/* Every part is told, also when another one cannot be read; what is wrong with a GGUF file, which all
 * parts are in, once. */
static int info(const struct report *r, const char *dir) {
    struct error err = {0}, file_err = {0};
    int failures = 0;
    char *gguf = gguf_path_of(dir);
    report_text(r, "model", dir);
    if (!gguf && !dir_exists(dir)) {
        report_bool(r, "can_be_served", false);
        error_set(&err, ERR_NOT_FOUND,
                  file_exists(dir) ? "'%s' is no model: neither a folder with config.json nor a "
                                     "GGUF file"
                                   : "'%s' is not there",
                  dir);
        return failed(r, err.code, &err);
    }
    report_row(r, "model", "%s", dir);
    if (gguf)
        failures += failed(r, tell_gguf(r, dir, &file_err), &file_err);
    if (!gguf)
        failures += tell_folder(r, dir);
    int rc = tell_text(r, dir, &err);
    if (rc && strcmp(err.text, file_err.text) != 0)
        failures += failed(r, rc, &err);
    tell_embeddings(r, dir, file_err.text);
    mem_free(gguf);
    tell_machine(r);
    report_row(r, "can be served", "%s", failures ? "no, for the reasons above" : "yes");
    report_bool(r, "can_be_served", failures == 0);
    return failures ? 1 : 0;
}

int info_main(int argc, char **argv) {
    struct info_settings s;
    struct error err;
    struct report report;
    int rc = option_parse(&info_options, &s, argc, argv, NULL, 0, NULL, &err);
    if (rc == OPTION_HELP_PRINTED)
        return 0;
    if (!rc && !s.model)
        rc = error_set(&err, ERR_INVALID, "give a model folder");
    if (rc)
        return command_misused("info", &info_options, &s, &err);
    report_begin(&report, s.json);
    rc = model_path_of_option(&s.model, &err);
    rc = rc ? failed(&report, rc, &err) : info(&report, s.model);
    report_end(&report);
    option_free(&info_options, &s);
    return rc;
}
