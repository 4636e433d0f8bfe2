#include "model/read/oxidizr.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/read/unread.h"
#include "model/spec.h"

struct reader {
    const struct safetensors *files;
    struct config config; /* the file's; empty object where there is none */
    struct buf *out;
    uint32_t layers, hidden;
    uint64_t heads; /* of attention; 0: no such layer has been seen */
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
    if (t && dim < t->dim_count && t->dims[dim] > 0 && t->dims[dim] <= SPEC_VOCAB_MAX)
        return t->dims[dim];
    if (!r->err->code)
        error_set(r->err, ERR_INVALID,
                  "the weights lack 'layers.%u.%s', or its shape makes no sense", layer, name);
    return 0;
}

static bool begins(const char *text, const char *with) {
    return !strncmp(text, with, strlen(with));
}

bool oxidizr_is(const struct safetensors *files, struct bytes config) {
    if (!safetensors_find(files, "embed_tokens.weight"))
        return false;
    bool layers = false;
    for (size_t i = 0; i < files->tensor_count; i++)
        layers = layers || begins(files->tensors[i].name, "layers.");
    if (!layers || !config.len)
        return layers;
    struct config c;
    struct error ignored;
    bool named = config_open(&c, config, &ignored) || config_has(&c, 0, "architectures") ||
                 config_has(&c, 0, "model_type");
    config_close(&c);
    return !named;
}

/* Highest layer number and one. */
static uint32_t count_layers(const struct safetensors *files) {
    uint32_t count = 0;
    for (size_t i = 0; i < files->tensor_count; i++)
        if (begins(files->tensors[i].name, "layers."))
            count = MAX(
                count,
                (uint32_t)MIN(strtoul(files->tensors[i].name + 7, NULL, 10), SPEC_LAYERS_MAX) + 1);
    return count;
}

/* ---- what the file's config says ---- */

/* Fields that go by two names. */
static const char *name_of(const struct reader *r, const char *field) {
    static const char *const ALSO[][2] = {{"num_layers", "num_hidden_layers"},
                                          {"num_kv_heads", "num_key_value_heads"},
                                          {"max_seq_len", "max_position_embeddings"},
                                          {"experts_per_tok", "num_experts_per_tok"}};
    for (size_t i = 0; i < ARRAY_LEN(ALSO); i++)
        if (!strcmp(ALSO[i][0], field) && !config_has_key(&r->config, 0, field))
            return ALSO[i][1];
    return field;
}

static uint64_t said(struct reader *r, const char *field, uint64_t fallback) {
    int64_t value = config_int(&r->config, 0, name_of(r, field), (int64_t)fallback);
    return value > 0 ? (uint64_t)value : fallback;
}

/* What the config says of a size, if it does, must be what the weights say. */
static void agree(struct reader *r, const char *field, uint64_t value) {
    const char *name = name_of(r, field);
    if (!config_has(&r->config, 0, name) || r->err->code)
        return;
    int64_t told = config_int(&r->config, 0, name, (int64_t)value);
    if (told != (int64_t)value)
        error_set(r->err, ERR_INVALID, "config.json: '%s' is %lld, but by the weights it is %llu",
                  name, (long long)told, (unsigned long long)value);
}

/* ---- the configuration that is made ---- */

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

static void add_field(struct reader *r, const char *field, uint64_t value) {
    say(r, ",\"%s\":%llu", field, (unsigned long long)value);
}
/* The same of a field that the file's config may have. */
static void put_agreed(struct reader *r, const char *field, const char *told, uint64_t value) {
    agree(r, told, value);
    add_field(r, field, value);
}

static int contradict(struct reader *r, uint32_t layer, const char *what) {
    if (r->err->code)
        return r->err->code;
    return error_set(r->err, ERR_INVALID, "the sizes of layer %u's %s contradict each other", layer,
                     what);
}

static int put_mamba1(struct reader *r, uint32_t layer) {
    uint64_t width = size_of(r, layer, "mamba.conv1d.weight", 0),
             taps = size_of(r, layer, "mamba.conv1d.weight", 2),
             state = size_of(r, layer, "mamba.a_log", 1),
             rank = size_of(r, layer, "mamba.dt_proj.weight", 1);
    if (r->err->code || size_of(r, layer, "mamba.x_proj.weight", 0) != rank + 2 * state ||
        size_of(r, layer, "mamba.in_proj.weight", 0) != 2 * width)
        return contradict(r, layer, "Mamba");
    add_field(r, "mamba1_width", width);
    add_field(r, "mamba1_state_size", state);
    add_field(r, "mamba1_conv_kernel", taps);
    add_field(r, "mamba1_rank", rank);
    return 0;
}

/* What Mamba 2 and 3 have in common: heads of `width` channels. */
static void put_heads(struct reader *r, const char *prefix, uint64_t heads, uint64_t width) {
    char name[64];
    agree(r, "mamba2_num_heads", heads);
    agree(r, "mamba2_head_dim", width / heads);
    if (config_has(&r->config, 0, "mamba2_expand") && r->hidden && width % r->hidden == 0)
        agree(r, "mamba2_expand", width / r->hidden);
    snprintf(name, sizeof name, "%s_heads", prefix);
    add_field(r, name, heads);
    snprintf(name, sizeof name, "%s_head_dim", prefix);
    add_field(r, name, width / heads);
}

/* Shapes give groups times states: what the config leaves open is one group, unless it says how
 * many states. */
static int put_mamba2(struct reader *r, uint32_t layer) {
    uint64_t heads = size_of(r, layer, "mamba2.mixer.A_log", 0),
             width = size_of(r, layer, "mamba2.mixer.norm.weight", 0),
             conv = size_of(r, layer, "mamba2.mixer.conv1d.weight", 0),
             taps = size_of(r, layer, "mamba2.mixer.conv1d.weight", 2);
    if (r->err->code || width % heads || conv <= width || (conv - width) % 2 ||
        size_of(r, layer, "mamba2.mixer.in_proj.weight", 0) != width + conv + heads)
        return contradict(r, layer, "Mamba 2");
    uint64_t all = (conv - width) / 2, groups = said(r, "mamba2_n_groups", 0),
             states = said(r, "mamba2_state_size", all);
    if (!groups)
        groups = MAX(all / states, 1u);
    if (all % groups || heads % groups)
        return contradict(r, layer, "Mamba 2 and 'mamba2_n_groups'");
    put_heads(r, "ssm", heads, width);
    add_field(r, "n_groups", groups);
    put_agreed(r, "state_size", "mamba2_state_size", all / groups);
    put_agreed(r, "conv_kernel", "mamba2_conv_kernel", taps);
    say(r, ",\"use_bias\":true,\"time_step_limit\":[0.001,0.1]");
    return r->err->code;
}

/* What the config says of an option that shows by its tensors. */
static void agree_truth(struct reader *r, const char *field, bool value) {
    if (!config_has(&r->config, 0, field) || r->err->code)
        return;
    if (config_bool(&r->config, 0, field, value) != value)
        error_set(r->err, ERR_INVALID, "config.json: '%s' is %s, but by the weights it is %s",
                  field, value ? "false" : "true", value ? "true" : "false");
}

/* How many times as wide heads of `dim` are inside; 0: no more than outside. */
static int put_widening(struct reader *r, uint32_t layer, uint64_t dim) {
    bool wide = tensor_at(r, layer, "mamba3.mixer.mimo_x_up.weight") != NULL;
    uint64_t inside = wide ? size_of(r, layer, "mamba3.mixer.mimo_x_up.weight", 0) : 0;
    if (wide && (r->err->code || inside % dim ||
                 size_of(r, layer, "mamba3.mixer.mimo_x_down.weight", 1) != inside))
        return contradict(r, layer, "Mamba 3 with several inputs");
    agree(r, "mamba3_mimo_rank", inside / dim);
    if (wide)
        add_field(r, "mamba3_widening", inside / dim);
    return r->err->code;
}

static int put_mamba3(struct reader *r, uint32_t layer) {
    uint64_t heads = size_of(r, layer, "mamba3.mixer.A_log", 0),
             width = size_of(r, layer, "mamba3.mixer.norm.weight", 0),
             states = size_of(r, layer, "mamba3.mixer.bc_norm.weight", 0),
             rows = size_of(r, layer, "mamba3.mixer.in_proj.weight", 0);
    bool conv = tensor_at(r, layer, "mamba3.mixer.conv1d.weight") != NULL,
         turns = tensor_at(r, layer, "mamba3.mixer.theta_proj.weight") != NULL;
    if (r->err->code || width % heads || rows <= 2 * width + heads ||
        (rows - 2 * width - heads) % (2 * states) ||
        (turns && size_of(r, layer, "mamba3.mixer.theta_proj.weight", 0) * 2 != heads * states) ||
        (conv && size_of(r, layer, "mamba3.mixer.conv1d.weight", 0) != rows - width - heads))
        return contradict(r, layer, "Mamba 3");
    put_heads(r, "mamba3", heads, width);
    put_agreed(r, "mamba3_groups", "mamba2_n_groups", (rows - 2 * width - heads) / (2 * states));
    put_agreed(r, "mamba3_state_size", "mamba2_state_size", states);
    agree_truth(r, "mamba3_enabled", true);
    agree_truth(r, "mamba3_complex_rope", turns);
    agree_truth(r, "mamba3_use_conv", conv);
    say(r, ",\"mamba3_turns\":%s", turns ? "true" : "false");
    if (conv)
        put_agreed(r, "mamba3_conv_kernel", "mamba2_conv_kernel",
                   size_of(r, layer, "mamba3.mixer.conv1d.weight", 2));
    return put_widening(r, layer, width / heads);
}

static int set_heads(struct reader *r, uint64_t heads) {
    agree(r, "num_attention_heads", heads);
    if (r->heads && r->heads != heads)
        return error_set(r->err, ERR_UNSUPPORTED,
                         "plain and latent attention with different numbers of heads");
    r->heads = heads;
    return r->err->code;
}

static int put_latent(struct reader *r, uint32_t layer) {
    uint64_t latent = size_of(r, layer, "self_attn.w_dkv.weight", 0),
             q_latent = size_of(r, layer, "self_attn.w_dq.weight", 0),
             rope = size_of(r, layer, "self_attn.w_kr.weight", 0),
             rope_rows = size_of(r, layer, "self_attn.w_qr.weight", 0),
             query_rows = size_of(r, layer, "self_attn.w_uq.weight", 0);
    if (r->err->code)
        return r->err->code;
    uint64_t heads = rope_rows / rope;
    if (!heads || rope_rows % rope || query_rows % heads || query_rows / heads != r->hidden / heads)
        return error_set(r->err, ERR_INVALID,
                         "the heads of layer %u's latent attention do not come out even", layer);
    put_agreed(r, "kv_latent_dim", "kv_latent_dim", latent);
    put_agreed(r, "q_latent_dim", "q_latent_dim", q_latent);
    put_agreed(r, "d_rope", "d_rope", rope);
    return set_heads(r, heads);
}

/* Values of a head of plain attention: told, else the first usual size that divides queries and
 * keys; 0: neither. */
static uint64_t head_dim(struct reader *r, uint64_t q, uint64_t k) {
    static const uint64_t SIZES[] = {64, 128, 96, 80};
    uint64_t heads = said(r, "num_attention_heads", r->heads), dim = said(r, "head_dim", 0);
    if (heads)
        return q % heads ? 0 : q / heads;
    for (size_t i = 0; !dim && i < ARRAY_LEN(SIZES); i++)
        if (q % SIZES[i] == 0 && k % SIZES[i] == 0)
            dim = SIZES[i];
    return dim;
}

static int put_attention(struct reader *r, uint32_t layer) {
    uint64_t q = size_of(r, layer, "self_attn.q_proj.weight", 0),
             k = size_of(r, layer, "self_attn.k_proj.weight", 0);
    if (r->err->code)
        return r->err->code;
    uint64_t dim = head_dim(r, q, k);
    if (!dim || q % dim || k % dim)
        return error_set(
            r->err, ERR_UNSUPPORTED,
            "the size of layer %u's heads cannot be told from its shapes; a config.json with "
            "'num_attention_heads' is needed",
            layer);
    agree(r, "head_dim", dim);
    put_agreed(r, "num_key_value_heads", "num_kv_heads", k / dim);
    add_field(r, "head_dim", dim);
    return set_heads(r, q / dim);
}

/* Latent attention before the plain one, whose heads it tells. */
static const struct kind {
    const char *name, *mark; /* of layer_types (oxidizr_read.c); a tensor that only this kind has */
    bool ffn;                /* has a feed-forward behind it */
    int (*put)(struct reader *r, uint32_t layer);
} KINDS[] = {{"mamba3", "mamba3.mixer.in_proj.weight", false, put_mamba3},
             {"mamba2", "mamba2.mixer.in_proj.weight", false, put_mamba2},
             {"mamba", "mamba.in_proj.weight", false, put_mamba1},
             {"latent", "self_attn.w_dkv.weight", true, put_latent},
             {"attention", "self_attn.q_proj.weight", true, put_attention}};

static const struct kind *kind_of(const struct reader *r, uint32_t layer) {
    for (size_t i = 0; i < ARRAY_LEN(KINDS); i++)
        if (tensor_at(r, layer, KINDS[i].mark))
            return &KINDS[i];
    return NULL;
}

static bool has_experts(const struct reader *r, uint32_t layer) {
    return tensor_at(r, layer, "moe.router.gate.weight") != NULL;
}

static int put_layers(struct reader *r) {
    say(r, ",\"layer_types\":[");
    for (uint32_t i = 0; i < r->layers; i++) {
        const struct kind *kind = kind_of(r, i);
        if (!kind)
            return error_set(
                r->err, ERR_UNSUPPORTED,
                "layer %u is of no kind we know: Mamba 1, 2 or 3, latent or plain attention", i);
        say(r, "%s\"%s%s\"", i ? "," : "", kind->name,
            !kind->ffn          ? ""
            : has_experts(r, i) ? "_experts"
                                : "_dense");
    }
    say(r, "]");
    for (size_t k = 0; k < ARRAY_LEN(KINDS); k++) {
        uint32_t i = 0;
        while (i < r->layers && kind_of(r, i) != &KINDS[k])
            i++;
        if (i < r->layers && KINDS[k].put(r, i))
            return r->err->code;
    }
    return 0;
}

/* The first feed-forward's width, and how many experts there are; other layers' are checked against
 * it as they are loaded. */
static int put_ffns(struct reader *r) {
    uint64_t experts = 0, width = 0;
    for (uint32_t i = 0; i < r->layers; i++) {
        bool mixture = has_experts(r, i);
        if (!kind_of(r, i)->ffn)
            continue;
        if (mixture && !experts)
            experts = size_of(r, i, "moe.router.gate.weight", 0);
        if (!width)
            width = size_of(r, i,
                            mixture ? "moe.experts.0.gate_proj.weight" : "mlp.gate_proj.weight", 0);
    }
    if (width)
        put_agreed(r, "intermediate_size", "intermediate_size", width);
    if (!experts)
        return r->err->code;
    put_agreed(r, "num_experts", "num_experts", experts);
    add_field(r, "num_experts_per_tok", MIN(said(r, "experts_per_tok", 2), experts));
    return r->err->code;
}

static void put_rest(struct reader *r) {
    bool tied = config_bool(&r->config, 0, "tie_word_embeddings", false);
    tied = tied || !safetensors_find(r->files, "lm_head.weight");
    add_field(r, "max_position_embeddings", said(r, "max_seq_len", 4096));
    say(r, ",\"tie_word_embeddings\":%s,\"rms_norm_eps\":%.9g", tied ? "true" : "false",
        config_double(&r->config, 0, "rms_norm_eps", 1e-5));
    if (!r->heads)
        return;
    add_field(r, "num_attention_heads", r->heads);
    say(r, ",\"rope_theta\":%.9g", config_double(&r->config, 0, "rope_theta", 10000));
}

/* Fields that names and shapes answer, or that only training had a use for. A scaling by 1 is
 * none. */
static int finish_config(struct reader *r, const struct spec_options *o) {
    static const char *const ANSWERED[] = {"head_dim",
                                           "shared_expert_enabled",
                                           "tokenizer_vocab",
                                           "mamba2_num_heads",
                                           "mamba2_head_dim",
                                           "mamba2_state_size",
                                           "mamba2_chunk_size",
                                           "mamba2_expand",
                                           "mamba2_conv_kernel",
                                           "mamba2_n_groups",
                                           "mamba3_enabled",
                                           "mamba3_complex_rope",
                                           "mamba3_mimo_rank",
                                           "mamba3_use_conv",
                                           "num_attention_heads",
                                           "num_kv_heads",
                                           "num_key_value_heads",
                                           "kv_latent_dim",
                                           "q_latent_dim",
                                           "d_rope",
                                           "num_experts",
                                           "experts_per_tok",
                                           "num_experts_per_tok",
                                           "intermediate_size",
                                           "rope_theta",
                                           "mamba_layers",
                                           "layer_types"};
    for (size_t i = 0; i < ARRAY_LEN(ANSWERED); i++)
        config_consume_all(&r->config, 0, ANSWERED[i]);
    int64_t scaling = config_object(&r->config, 0, "rope_scaling");
    double factor = scaling > 0 ? config_double(&r->config, (uint32_t)scaling, "factor", 1) : 1;
    config_consume_all(&r->config, 0, "rope_scaling");
    if (factor != 1)
        config_fail(&r->config, ERR_UNSUPPORTED,
                    "'rope_scaling' by a factor of %g is not supported", factor);
    struct buf unread; /* this file's are not told: a config of names and shapes has few */
    buf_init(&unread, 0);
    int rc = r->err->code ? r->err->code : unread_check(&r->config, o, &unread, r->err);
    buf_release(&unread);
    return rc;
}

int oxidizr_read(const struct safetensors *files, struct buf *config, const struct spec_options *o,
                 struct error *err) {
    struct buf out;
    struct error local = {0};
    struct reader r = {.files = files, .out = &out, .layers = count_layers(files), .err = &local};
    const struct tensor *embed = safetensors_find(files, "embed_tokens.weight");
    CHECK(embed);
    if (embed->dim_count != 2 || embed->dims[1] > SPEC_HIDDEN_MAX || r.layers > SPEC_LAYERS_MAX)
        return error_set(err, ERR_INVALID,
                         "'embed_tokens.weight' is no matrix, or there are too many layers");
    r.hidden = (uint32_t)embed->dims[1];
    int rc = config_open(&r.config, config->len ? buf_bytes(config) : bytes_str("{}"), err);
    if (rc) {
        config_close(&r.config);
        return rc;
    }
    buf_init(&out, CONFIG_BYTES_MAX);
    say(&r, "{\"architectures\":[\"oxidizr\"]");
    put_agreed(&r, "vocab_size", "vocab_size", embed->dims[0]);
    put_agreed(&r, "hidden_size", "hidden_size", r.hidden);
    put_agreed(&r, "num_hidden_layers", "num_layers", r.layers);
    rc = put_layers(&r);
    if (!rc)
        rc = put_ffns(&r);
    if (!rc) {
        put_rest(&r);
        say(&r, "}");
        rc = finish_config(&r, o);
    }
    if (!rc) {
        buf_reset(config);
        buf_add_bytes(config, buf_bytes(&out));
    } else {
        *err = local;
    }
    config_close(&r.config);
    buf_release(&out);
    return rc;
}
