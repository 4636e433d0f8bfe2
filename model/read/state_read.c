#include "model/read/state_read.h"

#include <math.h>

#include "kernels/ops_state.h"

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
    for (size_t i = 0; i < ARRAY_LEN(FIELDS); i++)
        config_consume(r->config, r->top, FIELDS[i]);
}

static uint32_t read_width(struct spec_reader *r) {
    double width = read_double(r, "expand", 2) * r->spec->hidden;
    if (width >= 1 && width <= SPEC_FFN_MAX)
        return (uint32_t)width;
    config_fail(r->config, ERR_INVALID, "'expand' is out of range");
    return 1;
}

static int expect_silu(struct spec_reader *r, const char *field) {
    const char *name = read_text(r, field, "silu");
    return strcmp(name, "silu") && strcmp(name, "swish") ? read_unsupported(r, field, name) : 0;
}

/* A number, "Infinity", or transformers' {"__float__": "Infinity"}. */
static double limit_of(struct spec_reader *r, const struct config_node *node) {
    if (node && node->kind == CONFIG_NUMBER)
        return node->number;
    if (node && node->kind == CONFIG_OBJECT)
        node = config_item(r->config, node, 0);
    if (node && node->kind == CONFIG_TEXT && !strcmp(config_node_text(r->config, node), "Infinity"))
        return INFINITY;
    config_fail(r->config, ERR_INVALID, "'time_step_limit' is no list of two numbers");
    return 0;
}

static void read_step_limit(struct spec_reader *r, struct recurrent_spec *out) {
    const struct config_node *list = config_find(r->config, r->top, "time_step_limit");
    out->ssm.step_low = 0;
    out->ssm.step_high = INFINITY;
    if (!list)
        return;
    config_consume_all(r->config, r->top, "time_step_limit");
    out->ssm.step_low =
        (float)limit_of(r, list->kind == CONFIG_LIST ? config_item(r->config, list, 0) : NULL);
    out->ssm.step_high =
        (float)limit_of(r, list->kind == CONFIG_LIST ? config_item(r->config, list, 1) : NULL);
}

/* "auto": hidden / 16, rounded up. */
static uint32_t read_rank(struct spec_reader *r, const char *field) {
    char name[64];
    const struct config_node *node = config_find(r->config, r->top, field_name(r, field, name));
    if (!node || node->kind == CONFIG_TEXT)
        return (r->spec->hidden + 15) / 16;
    return read_count(r, field, 0, RANK_MAX);
}

/* The family's columns for a mixer; a family without any has the usual. */
static const struct state_family *columns_of(const struct spec_reader *r, enum mixer_kind mixer) {
    static const struct state_family USUAL;
    for (const struct state_family *f = r->family->state; f && f->mixer; f++)
        if (f->mixer == mixer)
            return f;
    return &USUAL;
}

static const char *field_or(const char *field, const char *usual) {
    return field ? field : usual;
}

int mamba1_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    const struct state_family *f = columns_of(r, MIXER_MAMBA1);
    struct recurrent_spec *s = &out->recurrent;
    s->width = read_width(r);
    if (f->width && read_has(r, f->width))
        s->width = read_count(r, f->width, 0, SPEC_FFN_MAX);
    s->state_size = read_count(r, field_or(f->state_size, "state_size"), 16, STATE_MAX);
    s->taps = read_count(r, field_or(f->taps, "conv_kernel"), 4, TAPS_MAX);
    s->mamba1.rank = read_rank(r, field_or(f->rank, "time_step_rank"));
    s->conv_bias = f->conv_bias ? read_rule(r, f->conv_bias) : read_bool(r, "use_conv_bias", true);
    s->in_bias = s->out_bias = read_rule(r, field_or(f->in_bias, "use_bias"));
    s->mamba1.dt_b_c_norms = f->dt_b_c_norms;
    s->mamba1.dt_b_c_weights = f->dt_b_c_weights;
    s->eps = f->eps ? (float)read_double(r, f->eps, 1e-6) : r->spec->final_norm.eps;
    s->mamba1.rising = f->rising;
    s->mamba1.state_limit = f->state_limit;
    consume_init_fields(r);
    return expect_silu(r, "hidden_act");
}

/* Channels by heads: both of them, or the width divided by the heads ("auto"). */
static void read_ssm_heads(struct spec_reader *r, const struct state_family *f,
                           struct recurrent_spec *s) {
    char name[64];
    const struct config_node *dim =
        config_find(r->config, r->top, field_name(r, "ssm_head_dim", name));
    uint32_t expanded = read_width(r);
    bool null = f->width && config_has_key(r->config, r->top, f->width) && !read_has(r, f->width);
    s->heads = read_count(r, "ssm_heads", 128, SPEC_HEADS_MAX);
    if (f->width && !null)
        expanded = read_count(r, f->width, 0, SPEC_FFN_MAX);
    s->head_dim = !dim || dim->kind == CONFIG_TEXT
                      ? expanded / MAX(s->heads, 1u)
                      : read_count(r, "ssm_head_dim", 64, SPEC_FFN_MAX);
    s->groups = read_count(r, "n_groups", 1, SPEC_HEADS_MAX);
    if (config_failed(r->config))
        return;
    if ((uint64_t)s->heads * s->head_dim > SPEC_FFN_MAX || s->heads % s->groups)
        config_fail(r->config, ERR_INVALID,
                    "heads, head size and groups of the state space do not fit");
    s->width = s->heads * s->head_dim;
    if (!f->free_width && s->width != expanded)
        config_fail(r->config, ERR_INVALID,
                    "'expand' times 'hidden_size' is not heads times head size");
}

/* The norm before the last product, and the one before the mixer. */
static void read_ssm_norms(struct spec_reader *r, const struct state_family *f,
                           struct layer_spec *out) {
    struct recurrent_spec *s = &out->recurrent;
    bool first = f->norm_first && read_rule(r, f->norm_first),
         any = !f->norm_when || read_rule(r, f->norm_when);
    s->ssm.inner_norm = !any ? INNER_NORM_NONE : first ? INNER_NORM_FIRST : INNER_NORM_GATE_FIRST;
    s->ssm.norm_group = f->norm_whole ? s->width : s->width / s->groups;
    s->eps = f->norm.kind ? f->norm.eps : r->spec->final_norm.eps;
    if (f->norm.kind)
        out->mixer_norm = f->norm;
}

int mamba2_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    const struct state_family *f = columns_of(r, MIXER_MAMBA2);
    struct recurrent_spec *s = &out->recurrent;
    read_ssm_heads(r, f, s);
    s->state_size = read_count(r, field_or(f->state_size, "state_size"), 128, STATE_MAX);
    s->taps = read_count(r, field_or(f->taps, "conv_kernel"), 4, TAPS_MAX);
    if (config_failed(r->config))
        return r->config->error.code;
    s->conv_bias = read_bool(r, "use_conv_bias", true);
    s->in_bias = s->out_bias = read_bool(r, "use_bias", false);
    if (f->out_bias)
        s->out_bias = read_rule(r, f->out_bias);
    read_ssm_norms(r, f, out);
    read_step_limit(r, s);
    if (f->step_low) {
        s->ssm.step_low = (float)read_double(r, f->step_low, 0);
        s->ssm.step_high = INFINITY;
    }
    s->mamba2.scaled = f->scales && read_factors(r, f->scales, s->mamba2.scales, 5);
    consume_init_fields(r);
    return expect_silu(r, field_or(f->activation, "hidden_act"));
}

int mamba3_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    const struct state_family *f = columns_of(r, MIXER_MAMBA3);
    struct recurrent_spec *s = &out->recurrent;
    s->heads = read_count(r, "mamba3_heads", 0, SPEC_HEADS_MAX);
    s->head_dim = read_count(r, "mamba3_head_dim", 0, SPEC_FFN_MAX);
    s->groups = read_count(r, "mamba3_groups", 0, SPEC_HEADS_MAX);
    s->state_size = read_count(r, "mamba3_state_size", 0, TRAPEZOID_STATE_MAX);
    s->mamba3.turns = read_bool(r, "mamba3_turns", true);
    if (read_has(r, "mamba3_conv_kernel"))
        s->taps = read_count(r, "mamba3_conv_kernel", 0, CONV_TAPS_MAX);
    if (read_has(r, "mamba3_widening"))
        s->mamba3.widening = read_count(r, "mamba3_widening", 0, SPEC_FFN_MAX);
    if (config_failed(r->config))
        return r->config->error.code;
    if ((uint64_t)s->heads * s->head_dim * MAX(s->mamba3.widening, 1u) > SPEC_FFN_MAX ||
        s->heads % s->groups)
        return config_fail(r->config, ERR_INVALID,
                           "heads, head size and groups of the state space do not fit");
    s->width = s->heads * s->head_dim;
    s->conv_bias = s->in_bias = s->out_bias = true;
    read_ssm_norms(r, f, out);
    s->ssm.step_low = 0.001f;
    s->ssm.step_high = 0.1f;
    return 0;
}

int delta_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    struct recurrent_spec *s = &out->recurrent;
    s->heads = read_count(r, "linear_num_value_heads", 32, SPEC_HEADS_MAX);
    s->groups = read_count(r, "linear_num_key_heads", 16, SPEC_HEADS_MAX);
    s->state_size = read_count(r, "linear_key_head_dim", 128, DELTA_DIM_MAX);
    s->head_dim = read_count(r, "linear_value_head_dim", 128, DELTA_DIM_MAX);
    s->taps = read_count(r, "linear_conv_kernel_dim", 4, TAPS_MAX);
    if (config_failed(r->config))
        return r->config->error.code;
    if (s->heads % s->groups)
        return config_fail(r->config, ERR_INVALID,
                           "'linear_num_key_heads' does not divide 'linear_num_value_heads'");
    s->width = s->heads * s->head_dim;
    s->eps = r->spec->final_norm.eps;
    s->delta.fused_heads = s->delta.fused_beta = columns_of(r, MIXER_DELTA)->fused;
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
    if (config_failed(r->config))
        return r->config->error.code;
    if (s->width % s->heads)
        return config_fail(r->config, ERR_INVALID,
                           "'lru_width' is no multiple of 'num_attention_heads'");
    s->head_dim = s->width / s->heads;
    s->conv_bias = s->in_bias = s->out_bias = true;
    consume_init_fields(r);
    int rc = read_activation(r, "hidden_act", &branch);
    s->rglru.branch = branch == ACTIVATION_SILU ? GATE_SILU : GATE_GELU_TANH;
    return rc;
}

int rwkv4_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    out->recurrent.rwkv.mix_present = out->recurrent.rwkv.receptance = true;
    out->recurrent.width = read_count(r, "attention_hidden_size", r->spec->hidden, SPEC_FFN_MAX);
    return r->config->error.code;
}

static int read_wkv_heads(struct spec_reader *r, struct recurrent_spec *s, uint32_t dim) {
    if (config_failed(r->config))
        return r->config->error.code;
    if (dim > WKV_DIM_MAX || s->width % dim || s->width / dim > SPEC_HEADS_MAX)
        return config_fail(r->config, ERR_UNSUPPORTED,
                           "a width of %u in heads of %u is not supported", s->width, dim);
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
    s->rwkv6.mix_rank = large ? 64 : 32;
    s->rwkv6.decay_rank = large ? 128 : 64;
    s->eps = (float)(1e-5 * divisor * divisor);
    s->rwkv.receptance = true;
    if (!(s->eps > 0))
        config_fail(r->config, ERR_INVALID, "'head_size_divisor' is out of range");
    return read_wkv_heads(r, s, read_count(r, "head_size", 64, SPEC_FFN_MAX));
}

/* "value_dim": values as wide as the hidden state, in every layer. */
static void check_value_dim(struct spec_reader *r) {
    double list[SPEC_LAYERS_MAX];
    const struct config_node *node = config_find(r->config, r->top, "value_dim");
    uint32_t count = 1;
    if (!node)
        return;
    list[0] = node->number;
    if (node->kind == CONFIG_LIST)
        count = config_doubles(r->config, r->top, "value_dim", list, SPEC_LAYERS_MAX);
    for (uint32_t i = 0; i < count; i++)
        if (list[i] != r->spec->hidden)
            config_fail(r->config, ERR_UNSUPPORTED,
                        "'value_dim' is not 'hidden_size'; nothing else is supported");
}

int rwkv7_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    struct recurrent_spec *s = &out->recurrent;
    uint32_t hidden = s->width = r->spec->hidden, heads = 1;
    if (!read_has(r, "head_dim"))
        heads = read_count(r, "num_heads", hidden / 64, SPEC_HEADS_MAX);
    config_consume(r->config, r->top, "num_heads");
    uint32_t dim = read_has(r, "head_dim") ? read_count(r, "head_dim", 64, SPEC_FFN_MAX)
                                           : hidden / MAX(heads, 1u);
    s->rwkv7.decay_low = read_count(r, "decay_low_rank_dim", 64, RANK_MAX);
    s->rwkv7.rate_low = read_count(r, "a_low_rank_dim", 64, RANK_MAX);
    s->rwkv7.value_low = read_count(r, "v_low_rank_dim", 16, RANK_MAX);
    s->rwkv7.gate_low = read_count(r, "gate_low_rank_dim", 128, RANK_MAX);
    s->rwkv7.first = layer == 0;
    s->eps = (float)dim * r->spec->final_norm.eps;
    check_value_dim(r);
    return read_wkv_heads(r, s, MAX(dim, 1u));
}

/* Where no width is given: a multiple of the hidden size, and of 32; rounded down in RWKV-6, up in
 * RWKV-7. */
int rwkv_ffn_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    double hidden = r->spec->hidden, usual = 4 * hidden;
    if (out->mixer == MIXER_RWKV6)
        usual = floor(3.5 * hidden / 32) * 32;
    if (out->mixer == MIXER_RWKV7)
        usual = ceil(floor(read_double(r, "hidden_ratio", 4) * hidden) / 32) * 32;
    if (!(usual >= 0 && usual < 1e9))
        config_fail(r->config, ERR_INVALID, "'hidden_ratio' is out of range");
    if (config_failed(r->config))
        return r->config->error.code;
    out->ffn.width = read_count(r, "intermediate_size", (int64_t)usual, SPEC_FFN_MAX);
    return r->config->error.code;
}
