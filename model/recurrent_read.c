/* From config to recurrent_spec, and the rules by which hybrids choose a layer's kinds. */
#include <math.h>

#include "model/layer_kinds.h"
#include "model/moe_read.h"

enum { RANK_MAX = 1 << 16, STATE_MAX = SPEC_STATE_MAX, TAPS_MAX = CONV_TAPS_MAX };

/* Fields that tell how such models were initialised, or which library's kernels to use. */
static void consume_init_fields(struct spec_reader *r) {
    static const char *const FIELDS[] = {"time_step_min",
                                         "time_step_max",
                                         "time_step_floor",
                                         "time_step_scale",
                                         "time_step_init_scheme",
                                         "time_step_limit",
                                         "time_step_rank",
                                         "rescale_prenorm_residual",
                                         "residual_in_fp32",
                                         "use_mambapy",
                                         "use_falcon_mambapy",
                                         "use_associative_scan",
                                         "use_mamba_kernels",
                                         "mamba_ssm_cache_dtype",
                                         "chunk_size",
                                         "mamba_chunk_size",
                                         "z_loss_coefficient",
                                         "num_logits_to_keep",
                                         "w_init_variance_scale",
                                         "final_w_init_variance_scale"};
    for (size_t i = 0; i < ARRAY_LEN(FIELDS); i++) config_consume(r->config, r->top, FIELDS[i]);
}

static uint32_t read_width(struct spec_reader *r) {
    double width = read_double(r, "expand", 2) * r->spec->hidden;
    if (width >= 1 && width <= SPEC_FFN_MAX) return (uint32_t)width;
    config_fail(r->config, ERR_INVALID, "'expand' is out of range");
    return 1;
}

static int expect_silu(struct spec_reader *r, const char *field) {
    const char *name = read_text(r, field, "silu");
    return strcmp(name, "silu") && strcmp(name, "swish") ? read_unsupported(r, field, name) : 0;
}

/* A number, "Infinity", or transformers' {"__float__": "Infinity"}. */
static double limit_of(struct spec_reader *r, const struct config_node *node) {
    if (node && node->kind == CONFIG_NUMBER) return node->number;
    if (node && node->kind == CONFIG_OBJECT) node = config_item(r->config, node, 0);
    if (node && node->kind == CONFIG_TEXT && !strcmp(config_node_text(r->config, node), "Infinity")) return INFINITY;
    config_fail(r->config, ERR_INVALID, "'time_step_limit' is no list of two numbers");
    return 0;
}

static void read_step_limit(struct spec_reader *r, struct recurrent_spec *out) {
    const struct config_node *list = config_find(r->config, r->top, "time_step_limit");
    out->step_low = 0;
    out->step_high = INFINITY;
    if (!list) return;
    config_consume_all(r->config, r->top, "time_step_limit");
    out->step_low = (float)limit_of(r, list->kind == CONFIG_LIST ? config_item(r->config, list, 0) : NULL);
    out->step_high = (float)limit_of(r, list->kind == CONFIG_LIST ? config_item(r->config, list, 1) : NULL);
}

/* "auto": hidden / 16, rounded up. */
static uint32_t read_rank(struct spec_reader *r) {
    char name[64];
    const struct config_node *node = config_find(r->config, r->top, field_name(r, "time_step_rank", name));
    if (!node || node->kind == CONFIG_TEXT) return (r->spec->hidden + 15) / 16;
    return read_count(r, "time_step_rank", 0, RANK_MAX);
}

int mamba1_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    struct recurrent_spec *s = &out->recurrent;
    if (!strcmp(r->family->name, "oxidizr")) return oxidizr_mamba1_read(r, s);
    bool jamba = !strcmp(r->family->name, "jamba"), falcon = !strcmp(r->family->name, "falcon_mamba");
    s->width = read_width(r);
    s->state_size = read_count(r, "state_size", 16, STATE_MAX);
    s->taps = read_count(r, "conv_kernel", 4, TAPS_MAX);
    s->rank = read_rank(r);
    s->conv_bias = read_bool(r, "use_conv_bias", true);
    s->in_bias = s->out_bias = read_bool(r, "use_bias", false);
    s->part_norms = jamba || falcon;
    s->part_weights = jamba;
    s->eps = falcon ? (float)read_double(r, "mixer_rms_eps", 1e-6) : r->spec->final_norm.eps;
    s->step_high = INFINITY;
    consume_init_fields(r);
    return expect_silu(r, "hidden_act");
}

/* "mamba_d_ssm" says the width, unless it is there and null. */
static bool read_has_width(struct spec_reader *r) {
    return !config_has_key(r->config, r->top, "mamba_d_ssm") || read_has(r, "mamba_d_ssm");
}

/* `count` factors, or none. False: none. */
static bool read_factors(struct spec_reader *r, const char *field, float *out, uint32_t count) {
    double list[8];
    uint32_t have = config_doubles(r->config, r->top, field, list, ARRAY_LEN(list));
    if (have && have != count) config_fail(r->config, ERR_INVALID, "'%s' is no list of %u numbers", field, count);
    for (uint32_t i = 0; i < count && have == count; i++) out[i] = (float)list[i];
    return have == count;
}

/* The norm is optional, products out have a bias of their own, and what comes in is scaled part by part. */
static void read_falcon_h1(struct spec_reader *r, struct recurrent_spec *s) {
    bool first = read_bool(r, "mamba_norm_before_gate", true);
    s->inner_norm = first ? INNER_NORM_FIRST : INNER_NORM_GATE_FIRST;
    if (!read_bool(r, "mamba_rms_norm", false)) s->inner_norm = INNER_NORM_NONE;
    s->out_bias = read_bool(r, "projectors_bias", false);
    s->scaled = read_factors(r, "ssm_multipliers", s->scales, 5);
}

int mamba2_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    struct recurrent_spec *s = &out->recurrent;
    char name[64];
    bool nemotron = !strcmp(r->family->name, "nemotron_h"), falcon = !strcmp(r->family->name, "falcon_h1"), auto_dim;
    s->heads = read_count(r, "ssm_heads", 128, SPEC_HEADS_MAX);
    const struct config_node *dim = config_find(r->config, r->top, field_name(r, "ssm_head_dim", name));
    auto_dim = !dim || dim->kind == CONFIG_TEXT;
    uint32_t expanded = read_width(r);
    if (falcon && read_has_width(r)) expanded = read_count(r, "mamba_d_ssm", 1024, SPEC_FFN_MAX);
    s->head_dim = auto_dim ? expanded / MAX(s->heads, 1u) : read_count(r, "ssm_head_dim", 64, SPEC_FFN_MAX);
    s->groups = read_count(r, "n_groups", 1, SPEC_HEADS_MAX);
    s->state_size = read_count(r, "state_size", 128, STATE_MAX);
    s->taps = read_count(r, "conv_kernel", 4, TAPS_MAX);
    if (config_failed(r->config)) return r->config->error.code;
    if ((uint64_t)s->heads * s->head_dim > SPEC_FFN_MAX || s->heads % s->groups)
        return config_fail(r->config, ERR_INVALID, "heads, head size and groups of the state space do not fit");
    s->width = s->heads * s->head_dim;
    if (!nemotron && strcmp(r->family->name, "oxidizr") && s->width != expanded)
        return config_fail(r->config, ERR_INVALID, "'expand' times 'hidden_size' is not heads times head size");
    s->conv_bias = read_bool(r, "use_conv_bias", true);
    s->in_bias = s->out_bias = read_bool(r, "use_bias", false);
    s->inner_norm = INNER_NORM_GATE_FIRST;
    s->norm_group = s->width / s->groups;
    s->eps = r->spec->final_norm.eps;
    read_step_limit(r, s);
    if (nemotron) { /* the class limits by the smallest step drawn at the start, whatever time_step_limit says */
        s->step_low = (float)read_double(r, "time_step_min", 0.001);
        s->step_high = INFINITY;
    }
    if (falcon) read_falcon_h1(r, s);
    consume_init_fields(r);
    return expect_silu(r, nemotron ? "mamba_hidden_act" : "hidden_act");
}

int delta_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    struct recurrent_spec *s = &out->recurrent;
    s->heads = read_count(r, "linear_num_value_heads", 32, SPEC_HEADS_MAX);
    s->groups = read_count(r, "linear_num_key_heads", 16, SPEC_HEADS_MAX);
    s->state_size = read_count(r, "linear_key_head_dim", 128, DELTA_DIM_MAX);
    s->head_dim = read_count(r, "linear_value_head_dim", 128, DELTA_DIM_MAX);
    s->taps = read_count(r, "linear_conv_kernel_dim", 4, TAPS_MAX);
    if (config_failed(r->config)) return r->config->error.code;
    if (s->heads % s->groups)
        return config_fail(r->config, ERR_INVALID, "'linear_num_key_heads' does not divide 'linear_num_value_heads'");
    s->width = s->heads * s->head_dim;
    s->eps = r->spec->final_norm.eps;
    s->step_high = INFINITY;
    s->fused_heads = s->fused_beta = !strcmp(r->family->name, "qwen3_next");
    return expect_silu(r, "hidden_act");
}

int short_conv_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    struct recurrent_spec *s = &out->recurrent;
    s->width = r->spec->hidden;
    s->taps = read_count(r, "conv_L_cache", 3, TAPS_MAX);
    s->conv_bias = s->in_bias = s->out_bias = read_bool(r, "conv_bias", false);
    return 0;
}

int rglru_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    struct recurrent_spec *s = &out->recurrent;
    enum activation branch = ACTIVATION_GELU_TANH;
    s->width = read_count(r, "lru_width", r->spec->hidden, SPEC_FFN_MAX);
    s->heads = read_count(r, "num_attention_heads", 10, SPEC_HEADS_MAX);
    s->taps = read_count(r, "conv1d_width", 4, TAPS_MAX);
    if (config_failed(r->config)) return r->config->error.code;
    if (s->width % s->heads)
        return config_fail(r->config, ERR_INVALID, "'lru_width' is no multiple of 'num_attention_heads'");
    s->head_dim = s->width / s->heads;
    s->conv_bias = s->in_bias = s->out_bias = true;
    consume_init_fields(r);
    int rc = read_activation(r, "hidden_act", &branch);
    s->branch = branch == ACTIVATION_SILU ? GATE_SILU : GATE_GELU_TANH;
    return rc;
}

int rwkv4_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    out->recurrent.mix_present = out->recurrent.receptance = true;
    out->recurrent.width = read_count(r, "attention_hidden_size", r->spec->hidden, SPEC_FFN_MAX);
    return r->config->error.code;
}

static int read_wkv_heads(struct spec_reader *r, struct recurrent_spec *s, uint32_t dim) {
    if (config_failed(r->config)) return r->config->error.code;
    if (dim > WKV_DIM_MAX || s->width % dim || s->width / dim > SPEC_HEADS_MAX)
        return config_fail(r->config, ERR_UNSUPPORTED, "a width of %u in heads of %u is not supported", s->width, dim);
    s->head_dim = dim;
    s->heads = s->width / dim;
    return 0;
}

/* The ranks are the class's, by the hidden size alone. */
int rwkv6_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    struct recurrent_spec *s = &out->recurrent;
    bool large = r->spec->hidden == 4096;
    double divisor = read_double(r, "head_size_divisor", 8);
    s->width = read_count(r, "attention_hidden_size", r->spec->hidden, SPEC_FFN_MAX);
    s->mix_rank = large ? 64 : 32;
    s->decay_rank = large ? 128 : 64;
    s->eps = (float)(1e-5 * divisor * divisor);
    s->receptance = true;
    if (!(s->eps > 0)) config_fail(r->config, ERR_INVALID, "'head_size_divisor' is out of range");
    return read_wkv_heads(r, s, read_count(r, "head_size", 64, SPEC_FFN_MAX));
}

/* "value_dim": values as wide as the hidden state, in every layer. */
static void check_value_dim(struct spec_reader *r) {
    double list[SPEC_LAYERS_MAX];
    const struct config_node *node = config_find(r->config, r->top, "value_dim");
    uint32_t count = 1;
    if (!node) return;
    list[0] = node->number;
    if (node->kind == CONFIG_LIST) count = config_doubles(r->config, r->top, "value_dim", list, SPEC_LAYERS_MAX);
    for (uint32_t i = 0; i < count; i++)
        if (list[i] != r->spec->hidden)
            config_fail(r->config, ERR_UNSUPPORTED, "'value_dim' is not 'hidden_size'; nothing else is supported");
}

int rwkv7_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    struct recurrent_spec *s = &out->recurrent;
    uint32_t hidden = s->width = r->spec->hidden, heads = 1;
    if (!read_has(r, "head_dim")) heads = read_count(r, "num_heads", hidden / 64, SPEC_HEADS_MAX);
    config_consume(r->config, r->top, "num_heads");
    uint32_t dim = read_has(r, "head_dim") ? read_count(r, "head_dim", 64, SPEC_FFN_MAX) : hidden / MAX(heads, 1u);
    s->decay_low = read_count(r, "decay_low_rank_dim", 64, RANK_MAX);
    s->rate_low = read_count(r, "a_low_rank_dim", 64, RANK_MAX);
    s->value_low = read_count(r, "v_low_rank_dim", 16, RANK_MAX);
    s->gate_low = read_count(r, "gate_low_rank_dim", 128, RANK_MAX);
    s->first = layer == 0;
    s->eps = (float)dim * r->spec->final_norm.eps;
    check_value_dim(r);
    return read_wkv_heads(r, s, MAX(dim, 1u));
}

/* Where no width is given: a multiple of the hidden size, and of 32; rounded down in RWKV-6, up in RWKV-7. */
int rwkv_ffn_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    double hidden = r->spec->hidden, usual = 4 * hidden;
    if (out->mixer == MIXER_RWKV6) usual = floor(3.5 * hidden / 32) * 32;
    if (out->mixer == MIXER_RWKV7) usual = ceil(floor(read_double(r, "hidden_ratio", 4) * hidden) / 32) * 32;
    if (!(usual >= 0 && usual < 1e9)) config_fail(r->config, ERR_INVALID, "'hidden_ratio' is out of range");
    if (config_failed(r->config)) return r->config->error.code;
    out->ffn.width = read_count(r, "intermediate_size", (int64_t)usual, SPEC_FFN_MAX);
    return r->config->error.code;
}

/* ---- which kind a layer is ---- */

void kinds_no_ffn(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    out->ffn.kind = FFN_NONE;
    config_consume(r->config, r->top, "intermediate_size"); /* the mixer's width again */
}

static bool every(struct spec_reader *r, const char *period, const char *offset, uint32_t layer) {
    int64_t p = read_int(r, period, 1), o = read_int(r, offset, 0);
    return p > 0 && layer % p == o;
}

void kinds_jamba(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    out->mixer = every(r, "attn_layer_period", "attn_layer_offset", layer) ? MIXER_ATTENTION : MIXER_MAMBA1;
    bool moe = every(r, "expert_layer_period", "expert_layer_offset", layer) && read_int(r, "num_experts", 16) > 1;
    out->ffn.kind = moe ? FFN_MOE : FFN_GATED;
    if (!moe) config_consume(r->config, r->top, "num_experts_per_tok");
}

/* Listed attention layers among Mamba 2 ones. */
void kinds_bamba(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    double listed[SPEC_LAYERS_MAX];
    uint32_t count = config_doubles(r->config, r->top, "attn_layer_indices", listed, SPEC_LAYERS_MAX);
    out->mixer = MIXER_MAMBA2;
    for (uint32_t i = 0; i < count; i++)
        if (listed[i] == layer) out->mixer = MIXER_ATTENTION;
}

/* Every n-th layer is attention where layer_types does not say. */
void kinds_qwen_next(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    int64_t n = read_int(r, "full_attention_interval", 4);
    if (!read_layer_type(r, layer))
        out->mixer = n > 0 && (layer + 1) % (uint64_t)n == 0 ? MIXER_ATTENTION : MIXER_DELTA;
}

/* Attention with a Mamba 2 beside it, in every layer. */
void kinds_falcon_h1(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    out->mixer = MIXER_ATTENTION;
    out->beside = MIXER_MAMBA2;
}

/* "block_types" in a circle. */
void kinds_recurrent_gemma(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    const struct config_node *list = config_find(r->config, r->top, "block_types");
    const char *name = layer % 3 == 2 ? "attention" : "recurrent";
    if (list && list->count) name = config_node_text(r->config, config_item(r->config, list, layer % list->count));
    out->mixer = !strcmp(name, "attention") ? MIXER_ATTENTION : MIXER_RGLRU;
    if (strcmp(name, "attention") && strcmp(name, "recurrent")) read_unsupported(r, "block_types", name);
}

/* One block a layer: by the letters of hybrid_override_pattern, or by layers_block_type. */
void kinds_nemotron_h(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    static const struct {
        char letter;
        const char *names[3];
        enum mixer_kind mixer;
        enum ffn_kind ffn;
    } BLOCKS[] = {{'M', {"mamba", "linear_attention", "mamba"}, MIXER_MAMBA2, FFN_NONE},
                  {'*', {"attention", "full_attention", "attention"}, MIXER_ATTENTION, FFN_NONE},
                  {'-', {"mlp", "mlp", "mlp"}, MIXER_NONE, FFN_PLAIN},
                  {'E', {"moe", "moe", "moe"}, MIXER_NONE, FFN_MOE}};
    const char *pattern = read_text(r, "hybrid_override_pattern", ""), *name = "";
    const struct config_node *list = config_find(r->config, r->top, "layers_block_type");
    if (!list) list = config_find(r->config, r->top, "layer_types");
    if (list && list->kind == CONFIG_LIST && layer < list->count)
        name = config_node_text(r->config, config_item(r->config, list, layer));
    for (size_t i = 0; i < ARRAY_LEN(BLOCKS); i++) {
        bool named = false;
        for (int k = 0; k < 3; k++) named = named || (*name && !strcmp(name, BLOCKS[i].names[k]));
        if (!named && !(layer < strlen(pattern) && pattern[layer] == BLOCKS[i].letter)) continue;
        out->mixer = BLOCKS[i].mixer;
        out->ffn.kind = BLOCKS[i].ffn;
        return;
    }
    read_unsupported(r, "hybrid_override_pattern", *name ? name : pattern);
}

const struct layer_type GRANITE_HYBRID_TYPES[] = {{"mamba", MIXER_MAMBA2, false},
                                                  {"linear_attention", MIXER_MAMBA2, false},
                                                  {"attention", MIXER_ATTENTION, false},
                                                  {"full_attention", MIXER_ATTENTION, false},
                                                  {NULL, 0, false}};

void kinds_granite_hybrid(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    if (read_int(r, "num_local_experts", 8) > 0) out->ffn.kind = FFN_MOE;
    config_consume(r->config, r->top, "intermediate_size");
    config_consume(r->config, r->top, "num_experts_per_tok");
}

const struct layer_type QWEN_NEXT_TYPES[] = {
    {"linear_attention", MIXER_DELTA, false}, {"full_attention", MIXER_ATTENTION, false}, {NULL, 0, false}};
const struct layer_type LFM2_TYPES[] = {
    {"conv", MIXER_SHORT_CONV, false}, {"full_attention", MIXER_ATTENTION, false}, {NULL, 0, false}};

/* Before there were layer_types: the attention layers' numbers. */
void kinds_lfm2(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    double listed[SPEC_LAYERS_MAX];
    uint32_t count = config_doubles(r->config, r->top, "full_attn_idxs", listed, SPEC_LAYERS_MAX);
    if (read_layer_type(r, layer)) return;
    out->mixer = count ? MIXER_SHORT_CONV : MIXER_ATTENTION;
    for (uint32_t i = 0; i < count; i++)
        if (listed[i] == layer) out->mixer = MIXER_ATTENTION;
}

/* ---- their experts ---- */

const struct moe_family JAMBA_MOE = {.layers = MOE_ALL,
                                     .experts = "num_experts",
                                     .width = "intermediate_size",
                                     .score = ROUTE_SOFTMAX,
                                     .weight = ROUTE_BY_SCORE};
const struct moe_family NEMOTRON_H_MOE = {.layers = MOE_ALL,
                                          .experts = "n_routed_experts",
                                          .width = "moe_intermediate_size",
                                          .shared_width = "moe_shared_expert_intermediate_size",
                                          .score = ROUTE_SIGMOID,
                                          .weight = ROUTE_BY_SCORE,
                                          .renormalise = "norm_topk_prob",
                                          .renormalise_eps = 1e-20f,
                                          .scale = "routed_scaling_factor",
                                          .correction = true,
                                          .group_best = 2,
                                          .plain = true,
                                          .inner_bias = "mlp_bias",
                                          .latent = "moe_latent_size"};
const struct moe_family GRANITE_HYBRID_MOE = {.layers = MOE_ALL,
                                              .experts = "num_local_experts",
                                              .width = "expert_width",
                                              .shared_width = "shared_intermediate_size",
                                              .score = ROUTE_LOGIT,
                                              .weight = ROUTE_BY_SOFTMAX};

/* ---- last words ---- */

/* The class halves the residual stream, and what is added to it, every so many layers. Norms take that away but for
 * their epsilon, which counts four times as much each time. */
void finish_rwkv4(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    int64_t every = read_int(r, "rescale_every", 6), halved = every > 0 ? layer / every : 0;
    if (layer == 0) r->spec->final_norm.eps = 1e-5f; /* whatever the config says */
    if (every <= 0) return;
    out->mixer_norm.eps = ldexpf(out->mixer_norm.eps, (int)(2 * halved));
    out->ffn_norm.eps = out->mixer_norm.eps;
    if (layer + 1 == r->spec->layer_count)
        r->spec->final_norm.eps = ldexpf(r->spec->final_norm.eps, (int)(2 * ((layer + 1) / every)));
}

/* A number for each place where something is scaled. */
void finish_falcon_h1(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    float ffn[2] = {1, 1};
    out->attention.scale *= (float)read_double(r, "key_multiplier", 1);
    out->mixer_in_scale = (float)read_double(r, "attention_in_multiplier", 1);
    out->residual_scale = (float)read_double(r, "attention_out_multiplier", 1);
    out->beside_in_scale = (float)read_double(r, "ssm_in_multiplier", 1);
    out->beside_scale = (float)read_double(r, "ssm_out_multiplier", 1);
    if (read_factors(r, "mlp_multipliers", ffn, 2)) out->ffn.gate_scale = ffn[0];
    out->ffn_scale = ffn[1];
}

/* LFM2: two thirds of the width, times a factor, rounded up to a multiple. */
void finish_lfm2(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    double factor = read_double(r, "block_ffn_dim_multiplier", 1);
    uint32_t multiple = read_count(r, "block_multiple_of", 256, SPEC_FFN_MAX), width = out->ffn.width;
    if (!read_bool(r, "block_auto_adjust_ff_dim", true) || config_failed(r->config)) return;
    if (!(factor > 0 && factor < 1e4))
        config_fail(r->config, ERR_INVALID, "'block_ffn_dim_multiplier' is out of range");
    width = (uint32_t)(factor * (uint32_t)(2.0 * width / 3));
    width = (width + multiple - 1) / multiple * multiple;
    if (width < 1 || width > SPEC_FFN_MAX)
        config_fail(r->config, ERR_INVALID, "the feed-forward's width is out of range");
    out->ffn.width = width;
}

/* RecurrentGemma: gate and up have half of intermediate_size each. */
void finish_recurrent_gemma(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    out->ffn.width /= 2;
    out->attention.out_bias = true;
    r->spec->embed_scale = bf16_to_f32(f32_to_bf16(sqrtf((float)r->spec->hidden))); /* the class keeps it so */
}
