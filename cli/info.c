/* trireme info: what a model folder holds and what serving it takes, without a device and without reading weights. */
#include "cli/commands.h"

#include "base/fsutil.h"
#include "formats/config.h"
#include "formats/safetensors.h"
#include "model/spec.h"
#include "text/bundle.h"
#include "text/chat.h"
#include "text/tokenizer.h"

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

static void tell_layer(const struct model_spec *spec, const struct layer_spec *layer) {
    const struct attention_spec *a = &layer->attention;
    if (layer->ffn.width)
        command_row("layers", "%u, hidden %u, feed-forward %u", spec->layer_count, spec->hidden, layer->ffn.width);
    else
        command_row("layers", "%u, hidden %u", spec->layer_count, spec->hidden);
    if (layer->mixer == MIXER_ATTENTION)
        command_row("attention", "%u heads of %u, %u for keys and values", a->heads, a->head_dim, a->kv_heads);
    const struct latent_spec *l = &layer->latent;
    if (layer->mixer == MIXER_LATENT)
        command_row("attention", "latent, %u heads of %u + %u, %u values a position cached", l->heads, l->nope, l->rope,
                    l->rank + l->rope);
    const struct moe_spec *moe = &layer->moe;
    if (layer->ffn.kind == FFN_MOE && moe->shared_width)
        command_row("experts", "%u of %u, width %u; one of width %u for all", moe->router.top_k, moe->router.experts,
                    moe->width, moe->shared_width);
    else if (layer->ffn.kind == FFN_MOE)
        command_row("experts", "%u of %u, width %u", moe->router.top_k, moe->router.experts, moe->width);
}

static int tell_spec(struct bytes config, struct error *err) {
    struct model_spec spec;
    int rc = spec_read_text(&spec, config, NULL, err);
    if (rc) return rc;
    command_row("family", "%s", spec.family);
    tell_layer(&spec, &spec.layers[spec.layer_count - 1]);
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

static int tell_config(const char *dir, struct error *err) {
    char *path = path_join(dir, "config.json");
    struct buf text;
    buf_init(&text, 0);
    int rc = file_read(path, CONFIG_BYTES_MAX, &text, err);
    if (!rc) rc = tell_spec(buf_bytes(&text), err);
    buf_release(&text);
    mem_free(path);
    return rc;
}

/* Every part is told, also when another one cannot be read. */
static int info(const char *dir) {
    struct error err;
    struct safetensors set;
    int failures = 0;
    char size[32];
    command_row("model", "%s", dir);
    if (tell_config(dir, &err)) failures += fprintf(stderr, "trireme info: %s\n", err.text) > 0;
    if (safetensors_open(&set, dir, &err))
        failures += fprintf(stderr, "trireme info: %s\n", err.text) > 0;
    else {
        tell_weights(&set);
        safetensors_close(&set);
    }
    if (tell_text(dir, &err)) failures += fprintf(stderr, "trireme info: %s\n", err.text) > 0;
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
