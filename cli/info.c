/* trireme info: what a model folder holds and what serving it takes, without a device and without reading weights. */
#include "cli/commands.h"

#include "base/fsutil.h"
#include "formats/config.h"
#include "formats/gguf.h"
#include "model/layer_kinds.h"
#include "model/model.h"
#include "model/quantised.h"
#include "text/bundle.h"
#include "text/chat.h"
#include "text/tokenizer/tokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static const struct option_table TABLE = {"trireme info", "MODEL",
                                          "Tells what a model folder holds and whether it can be served.", NULL, 0};

/* "1.31 GB" in powers of ten, as file sizes and parameter counts are told. */
static const char *human(uint64_t value, const char *unit, char out[32]) {
    static const char *const PREFIXES[] = {"", "k", "M", "G", "T", "P"};
    double scaled = (double)value;
    size_t step = 0;
    while (scaled >= 999.5 && step + 1 < ARRAY_LEN(PREFIXES)) {
        scaled /= 1000;
        step++;
    }
    snprintf(out, 32, step ? "%.3g %s%s" : "%.0f %s%s", scaled, PREFIXES[step], unit);
    return out;
}

/* ---- layers ---- */

static void add_attention(const struct attention_spec *a, struct buf *out) {
    buf_addf(out, ", %u heads of %u, %u for keys and values", a->heads, a->head_dim, a->kv_heads);
    if (a->window) buf_addf(out, ", window %u", a->window);
    if (a->chunk) buf_addf(out, ", chunks of %u", a->chunk);
}

static void add_ffn(const struct layer_spec *layer, struct buf *out) {
    const struct moe_spec *moe = &layer->moe;
    if (layer->mixer) buf_add_str(out, "; ");
    if (layer->ffn.kind == FFN_MOE)
        buf_addf(out, "%u of %u experts of width %u", moe->router.top_k, moe->router.experts, moe->width);
    else
        buf_addf(out, "%s feed-forward of width %u", FFNS[layer->ffn.kind]->name, layer->ffn.width);
    if (layer->ffn.kind == FFN_MOE && moe->shared_width) buf_addf(out, ", one of width %u for all", moe->shared_width);
}

/* What a layer is, in words; layers with equal words are of a kind. */
static char *layer_text(const struct layer_spec *layer) {
    const struct latent_spec *l = &layer->latent;
    struct buf out;
    buf_init(&out, 0);
    if (layer->mixer) buf_add_str(&out, MIXERS[layer->mixer]->name);
    if (layer->mixer == MIXER_ATTENTION) add_attention(&layer->attention, &out);
    if (layer->mixer == MIXER_LATENT)
        buf_addf(&out, ", %u heads of %u + %u, %u values a position cached", l->heads, l->nope, l->rope,
                 l->rank + l->rope);
    if (layer->ffn.kind) add_ffn(layer, &out);
    char *text = mem_strdup(buf_text(&out));
    buf_release(&out);
    return text;
}

/* The layers of a kind as "0-3, 5"; forgets them. */
static void take_ranges(char **texts, uint32_t count, const char *kind, struct buf *out) {
    for (uint32_t i = 0, end; i < count; i = MAX(end, i + 1)) {
        for (end = i; end < count && texts[end] && !strcmp(texts[end], kind); end++)
            if (texts[end] != kind) mem_free(texts[end]);
        if (end == i) continue;
        buf_addf(out, end - i > 1 ? "%s%u-%u" : "%s%u", out->len ? ", " : "", i, end - 1);
        memset(texts + i, 0, (end - i) * sizeof *texts);
    }
}

static void tell_layers(const struct model_spec *spec) {
    char **texts = mem_calloc(spec->layer_count, sizeof *texts);
    for (uint32_t i = 0; i < spec->layer_count; i++) texts[i] = layer_text(&spec->layers[i]);
    command_row("layers", "%u, hidden %u", spec->layer_count, spec->hidden);
    for (uint32_t i = 0; i < spec->layer_count; i++) {
        char *kind = texts[i];
        struct buf ranges;
        if (!kind) continue;
        buf_init(&ranges, 0);
        take_ranges(texts, spec->layer_count, kind, &ranges);
        command_row("", "%s: %s", buf_text(&ranges), kind);
        buf_release(&ranges);
        mem_free(kind);
    }
    mem_free(texts);
}

static int tell_spec(struct bytes config, struct error *err) {
    struct model_spec spec;
    struct quantised_config storage = {.bits = 0};
    int rc = quantised_config_read(&storage, config, err);
    if (!rc) rc = spec_read_text(&spec, config, NULL, err);
    if (rc) return rc;
    command_row("family", "%s", spec.family);
    if (*storage.method) command_row("quantised", "%s", storage.method);
    tell_layers(&spec);
    command_row("context", "%u tokens", spec.max_context);
    command_row("logits", "%u%s", spec.vocab, spec.tied_head ? ", head tied to the embedding" : "");
    uint64_t values = 0;
    char text[32];
    for (uint32_t i = 0; i < spec.layer_count; i++) {
        const struct layer_spec *l = &spec.layers[i];
        values += (uint64_t)2 * l->attention.kv_heads * l->attention.head_dim + l->latent.rank + l->latent.rope;
    }
    command_row("KV cache", "%s a token as f16", human(values * 2, "B", text));
    command_row("", "%s for one full context", human(values * 2 * spec.max_context, "B", text));
    spec_release(&spec);
    return 0;
}

static void tell_weights(const struct safetensors *set) {
    uint64_t counts[TENSOR_TYPE_COUNT] = {0}, parameters = 0, bytes = 0;
    char number[32], size[32];
    for (size_t i = 0; i < set->tensor_count; i++) {
        uint64_t count = set->tensors[i].byte_len / tensor_type_size(set->tensors[i].type);
        counts[set->tensors[i].type] += count;
        parameters += count;
        bytes += set->tensors[i].byte_len;
    }
    command_row("weights", "%s in %zu tensors and %zu file%s, %s", human(parameters, "", number), set->tensor_count,
                set->file_count, set->file_count == 1 ? "" : "s", human(bytes, "B", size));
    for (int type = 0; type < TENSOR_TYPE_COUNT; type++)
        if (counts[type])
            command_row("", "%s as %s", human(counts[type], "", number), tensor_type_name((enum tensor_type)type));
}

static void tell_tokenizer(const struct tokenizer *t) {
    struct tokens eos = tokenizer_eos(t);
    struct buf text;
    buf_init(&text, 0);
    buf_addf(&text, "%u tokens", tokenizer_vocab_count(t));
    for (size_t i = 0; i < eos.count; i++) {
        buf_add_str(&text, i ? ", " : "; an answer ends with ");
        tokenizer_token_text(t, eos.ids[i], &text);
    }
    command_row("tokenizer", "%s", buf_text(&text));
    buf_release(&text);
}

static int tell_text(const char *dir, struct error *err) {
    struct buf packed;
    struct bundle bundle;
    struct tokenizer *tokenizer = NULL;
    struct chat *chat = NULL;
    buf_init(&packed, 0);
    int rc = bundle_pack(dir, &packed, err);
    if (!rc) rc = bundle_open(&bundle, buf_bytes(&packed), err);
    if (!rc) rc = tokenizer_load_bundle(&bundle, &tokenizer, err);
    if (!rc) tell_tokenizer(tokenizer);
    if (!rc) rc = chat_load(&bundle, &chat, err);
    if (!rc) command_row("chat template", "%s", chat_has_template(chat) ? "yes" : "none: completions only");
    chat_free(&chat);
    tokenizer_free(&tokenizer);
    buf_release(&packed);
    return rc;
}

/* A GGUF file is config and weights in one. */
static int tell_gguf(const char *path, struct error *err) {
    struct model m = {0};
    struct buf config;
    buf_init(&config, 0);
    int rc = model_open_files(&m, &(struct model_options){.dir = path}, &config, err);
    if (!rc) rc = tell_spec(buf_bytes(&config), err);
    if (!rc) tell_weights(&m.files);
    model_close(&m);
    buf_release(&config);
    return rc;
}

static int failed(int rc, const struct error *err) {
    if (rc) fprintf(stderr, "trireme info: %s\n", err->text);
    return rc != 0;
}

/* Failures: each of both is told, also when the other cannot be read. */
static int tell_folder(const char *dir) {
    struct safetensors set = {0};
    struct buf config;
    struct error err, weights_err;
    int weights_rc = safetensors_open(&set, dir, &weights_err);
    buf_init(&config, 0);
    int rc = model_config_text(dir, &set, NULL, &config, &err);
    if (!rc) rc = tell_spec(buf_bytes(&config), &err);
    if (!weights_rc) tell_weights(&set);
    safetensors_close(&set);
    buf_release(&config);
    return failed(rc, &err) + failed(weights_rc, &weights_err);
}

/* Every part is told, also when another one cannot be read. */
static int info(const char *dir) {
    struct error err;
    int failures = 0;
    char size[32], *gguf = gguf_path_of(dir);
    command_row("model", "%s", dir);
    if (gguf) failures += failed(tell_gguf(dir, &err), &err);
    if (!gguf) failures += tell_folder(dir);
    failures += failed(tell_text(dir, &err), &err);
    mem_free(gguf);
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    command_row("this machine", "%s of memory, %ld CPUs", human(memory, "B", size), sysconf(_SC_NPROCESSORS_ONLN));
    command_row("can be served", "%s", failures ? "no, for the reasons above" : "yes");
    return failures ? 1 : 0;
}

int info_main(int argc, char **argv) {
    struct error err;
    const char *dir = NULL;
    size_t count = 0;
    char nothing;
    int rc = option_parse(&TABLE, &nothing, argc, argv, &dir, 1, &count, &err);
    if (rc == OPTION_HELP_PRINTED) return 0;
    if (!rc && !count) rc = error_set(&err, ERR_INVALID, "give a model folder");
    if (rc) return command_misused("info", &err);
    return info(dir);
}
