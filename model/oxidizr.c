#include "model/oxidizr.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/spec.h"

struct reader {
    struct safetensors *files;
    struct config config; /* the file's; empty object where there is none */
    struct buf *out;
    uint32_t layers, hidden;
    /* 0: no layer of this kind has been seen */
    uint64_t heads, rope, latent, q_latent, experts, width;
    struct error *err;
};

/* ---- tensors by layer and name ---- */

static const struct tensor *tensor_at(const struct reader *r, uint32_t layer, const char *name) {
    char full[160];
    snprintf(full, sizeof full, "layers.%u.%s", layer, name);
    return safetensors_find(r->files, full);
}

/* Dimension `dim` of a tensor that must be there; 0 and an error otherwise. */
static uint64_t size_of(struct reader *r, uint32_t layer, const char *name, uint32_t dim) {
    const struct tensor *t = tensor_at(r, layer, name);
    if (t && dim < t->dim_count && t->dims[dim] > 0 && t->dims[dim] <= SPEC_VOCAB_MAX) return t->dims[dim];
    if (!r->err->code)
        error_set(r->err, ERR_INVALID, "the weights lack 'layers.%u.%s', or its shape makes no sense", layer, name);
    return 0;
}

static bool begins(const char *text, const char *with) { return !strncmp(text, with, strlen(with)); }

bool oxidizr_is(const struct safetensors *files, struct bytes config) {
    if (!safetensors_find(files, "embed_tokens.weight")) return false;
    bool layers = false;
    for (size_t i = 0; i < files->tensor_count; i++) layers = layers || begins(files->tensors[i].name, "layers.");
    if (!layers || !config.len) return layers;
    struct config c;
    struct error ignored;
    bool named =
        config_open(&c, config, &ignored) || config_has(&c, 0, "architectures") || config_has(&c, 0, "model_type");
    config_close(&c);
    return !named;
}

/* Highest layer number and one. */
static uint32_t count_layers(const struct safetensors *files) {
    uint32_t count = 0;
    for (size_t i = 0; i < files->tensor_count; i++)
        if (begins(files->tensors[i].name, "layers."))
            count = MAX(count, (uint32_t)MIN(strtoul(files->tensors[i].name + 7, NULL, 10), SPEC_LAYERS_MAX) + 1);
    return count;
}

/* ---- tensors of our own ---- */

/* The same data under another name. */
static void alias(struct reader *r, uint32_t layer, const char *name, const char *as) {
    const struct tensor *t = tensor_at(r, layer, name);
    char full[160];
    if (!t) return;
    struct tensor copy = *t;
    snprintf(full, sizeof full, "layers.%u.%s", layer, as);
    copy.name = mem_strdup(full);
    copy.file_idx = UINT32_MAX;
    safetensors_add(r->files, &copy);
}

/* ---- latent attention ---- */

static int read_latent(struct reader *r, uint32_t layer) {
    r->latent = size_of(r, layer, "self_attn.w_dkv.weight", 0);
    r->rope = size_of(r, layer, "self_attn.w_kr.weight", 0);
    uint64_t rope_rows = size_of(r, layer, "self_attn.w_qr.weight", 0),
             query_rows = size_of(r, layer, "self_attn.w_uq.weight", 0);
    if (r->err->code) return r->err->code;
    r->heads = rope_rows / r->rope;
    r->q_latent = size_of(r, layer, "self_attn.w_dq.weight", 0);
    if (!r->heads || rope_rows % r->rope || query_rows % r->heads || query_rows / r->heads != r->hidden / r->heads)
        return error_set(r->err, ERR_INVALID, "the heads of layer %u's latent attention do not come out even", layer);
    return r->err->code;
}

/* ---- the configuration ---- */

static void say(struct reader *r, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void say(struct reader *r, const char *fmt, ...) {
    char text[256];
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    CHECK(len >= 0 && (size_t)len < sizeof text);
    buf_add_bytes(r->out, bytes_of(text, (size_t)len));
}

static void put(struct reader *r, const char *field, uint64_t value) {
    say(r, ",\"%s\":%llu", field, (unsigned long long)value);
}
static uint64_t said(struct reader *r, const char *field, uint64_t fallback) {
    int64_t value = config_int(&r->config, 0, field, (int64_t)fallback);
    return value > 0 ? (uint64_t)value : fallback;
}

static int put_mamba2(struct reader *r, uint32_t layer) {
    uint64_t heads = size_of(r, layer, "mamba2.mixer.A_log", 0),
             width = size_of(r, layer, "mamba2.mixer.norm.weight", 0),
             conv = size_of(r, layer, "mamba2.mixer.conv1d.weight", 0),
             taps = size_of(r, layer, "mamba2.mixer.conv1d.weight", 2),
             rows = size_of(r, layer, "mamba2.mixer.in_proj.weight", 0), groups = said(r, "mamba2_n_groups", 1);
    if (r->err->code) return r->err->code;
    if (width % heads || conv <= width || (conv - width) % (2 * groups) || rows != width + conv + heads)
        return error_set(r->err, ERR_INVALID, "the sizes of layer %u's Mamba 2 contradict each other", layer);
    put(r, "ssm_heads", heads);
    put(r, "ssm_head_dim", width / heads);
    put(r, "n_groups", groups);
    put(r, "state_size", (conv - width) / 2 / groups);
    put(r, "conv_kernel", taps);
    say(r, ",\"use_bias\":true,\"time_step_limit\":[0.001,0.1]");
    return 0;
}

/* Heads of plain attention: told, else the first usual size that divides queries and keys. */
static int put_attention(struct reader *r, uint32_t layer) {
    static const uint64_t SIZES[] = {64, 128, 96, 80};
    uint64_t q = size_of(r, layer, "self_attn.q_proj.weight", 0), k = size_of(r, layer, "self_attn.k_proj.weight", 0),
             heads = said(r, "num_attention_heads", 0), dim = heads && q % heads == 0 ? q / heads : 0;
    if (r->err->code) return r->err->code;
    for (size_t i = 0; !dim && i < ARRAY_LEN(SIZES); i++)
        if (q % SIZES[i] == 0 && k % SIZES[i] == 0) dim = SIZES[i];
    if (!dim || k % dim)
        return error_set(r->err, ERR_UNSUPPORTED,
                         "the size of layer %u's heads cannot be told from its shapes; a config.json with "
                         "'num_attention_heads' is needed",
                         layer);
    if (r->heads && r->heads != q / dim)
        return error_set(r->err, ERR_UNSUPPORTED, "plain and latent attention with different numbers of heads");
    r->heads = q / dim;
    put(r, "num_key_value_heads", k / dim);
    put(r, "head_dim", dim);
    return 0;
}

/* Kinds as kinds_oxidizr (recurrent_read.c) takes them; NULL: none that we know. */
static const char *kind_of(const struct reader *r, uint32_t layer) {
    bool experts = tensor_at(r, layer, "moe.router.gate.weight") != NULL;
    if (tensor_at(r, layer, "mamba2.mixer.in_proj.weight")) return "mamba2";
    if (tensor_at(r, layer, "self_attn.w_dkv.weight")) return experts ? "latent_experts" : "latent_dense";
    if (tensor_at(r, layer, "self_attn.q_proj.weight")) return experts ? "attention_experts" : "attention_dense";
    return NULL;
}

static void see_ffn(struct reader *r, uint32_t layer, const char *kind) {
    if (strstr(kind, "experts")) {
        r->experts = size_of(r, layer, "moe.router.gate.weight", 0);
        r->width = size_of(r, layer, "moe.experts.0.gate_proj.weight", 0);
    } else if (!strcmp(kind, "mamba2")) {
        alias(r, layer, "mamba2.norm.weight", "input_layernorm.weight");
        alias(r, layer, "mamba2.norm.bias", "input_layernorm.bias");
    } else {
        r->width = size_of(r, layer, "mlp.gate_proj.weight", 0);
    }
}

static int put_layers(struct reader *r) {
    bool mamba = false, attention = false;
    say(r, ",\"layer_types\":[");
    for (uint32_t i = 0; i < r->layers; i++) {
        const char *kind = kind_of(r, i);
        if (!kind)
            return error_set(r->err, ERR_UNSUPPORTED,
                             "layer %u is of no kind we know: Mamba 2, latent or plain attention", i);
        say(r, "%s\"%s\"", i ? "," : "", kind);
    }
    say(r, "]");
    for (uint32_t i = 0; i < r->layers && !r->err->code; i++) {
        const char *kind = kind_of(r, i);
        see_ffn(r, i, kind);
        if (begins(kind, "latent") && !r->err->code) (void)read_latent(r, i);
    }
    for (uint32_t i = 0; i < r->layers && !r->err->code; i++) {
        const char *kind = kind_of(r, i);
        if (!strcmp(kind, "mamba2") && !mamba) mamba = !put_mamba2(r, i);
        if (begins(kind, "attention") && !attention) attention = !put_attention(r, i);
    }
    return r->err->code;
}

static void put_rest(struct reader *r) {
    if (r->heads) put(r, "num_attention_heads", r->heads);
    put(r, "max_position_embeddings", said(r, "max_seq_len", said(r, "max_position_embeddings", 4096)));
    say(r, ",\"tie_word_embeddings\":%s,\"rms_norm_eps\":%.9g",
        safetensors_find(r->files, "lm_head.weight") ? "false" : "true",
        config_double(&r->config, 0, "rms_norm_eps", 1e-5));
    if (r->heads) say(r, ",\"rope_theta\":%.9g", config_double(&r->config, 0, "rope_theta", 10000));
    if (r->width) put(r, "intermediate_size", r->width);
    if (r->latent) {
        put(r, "kv_latent_dim", r->latent);
        put(r, "q_latent_dim", r->q_latent);
        put(r, "d_rope", r->rope);
    }
    if (!r->experts) return;
    put(r, "num_experts", r->experts);
    put(r, "num_experts_per_tok", MIN(said(r, "experts_per_tok", 2), r->experts));
}

int oxidizr_read(struct safetensors *files, struct buf *config, struct error *err) {
    struct buf out;
    struct error local = {0};
    struct reader r = {.files = files, .out = &out, .layers = count_layers(files), .err = &local};
    const struct tensor *embed = safetensors_find(files, "embed_tokens.weight");
    CHECK(embed);
    if (embed->dim_count != 2 || embed->dims[1] > SPEC_HIDDEN_MAX || r.layers > SPEC_LAYERS_MAX)
        return error_set(err, ERR_INVALID, "'embed_tokens.weight' is no matrix, or there are too many layers");
    r.hidden = (uint32_t)embed->dims[1];
    int rc = config_open(&r.config, config->len ? buf_bytes(config) : bytes_str("{}"), err);
    if (rc) return rc;
    buf_init(&out, CONFIG_BYTES_MAX);
    say(&r, "{\"architectures\":[\"oxidizr\"]");
    put(&r, "vocab_size", embed->dims[0]);
    put(&r, "hidden_size", r.hidden);
    put(&r, "num_hidden_layers", r.layers);
    rc = put_layers(&r);
    if (!rc) {
        put_rest(&r);
        say(&r, "}");
        buf_reset(config);
        buf_add_bytes(config, buf_bytes(&out));
    } else {
        *err = local;
    }
    config_close(&r.config);
    buf_release(&out);
    return rc;
}
