#include "model/read/moe_read.h"

#include "model/run/ffn_dense.h"

/* Whether a list of layer numbers has i. */
static bool list_has(struct spec_reader *r, const char *field, uint32_t i) {
    const struct config_node *list = config_find(r->config, r->top, field), *item;
    if (!list)
        return false;
    if (list->kind != CONFIG_LIST || list->count > SPEC_LAYERS_MAX) {
        config_fail(r->config, ERR_INVALID, "'%s' is no list of layers", field);
        return false;
    }
    for (uint32_t n = list->first; n; n = item->next) {
        item = &r->config->nodes[n];
        if (item->kind == CONFIG_NUMBER && item->is_integer && item->integer == i)
            return true;
    }
    return false;
}

static bool has_experts(struct spec_reader *r, const struct moe_family *f, uint32_t i) {
    int64_t first, step;
    switch (f->layers) {
    case MOE_ALL: return true;
    case MOE_AFTER_FIRST:
        first = read_int(r, "first_k_dense_replace", 0);
        step = read_int(r, "moe_layer_freq", 1);
        return i >= first && step > 0 && i % (uint64_t)step == 0;
    case MOE_STEP:
        step = read_int(r, "decoder_sparse_step", 1);
        return !list_has(r, "mlp_only_layers", i) && step > 0 && (i + 1) % (uint64_t)step == 0 &&
               read_int(r, f->experts, 0) > 0;
    case MOE_LISTED:
        step = read_int(r, "interleave_moe_layer_step", 1);
        if (read_has(r, "moe_layers"))
            return list_has(r, "moe_layers", i);
        return step > 0 && (i + 1) % (uint64_t)step == 0;
    case MOE_PERIODIC:
        step = read_int(r, "expert_layer_period", 1);
        first = read_int(r, "expert_layer_offset", 0);
        return step > 0 && i % (uint64_t)step == (uint64_t)first && read_int(r, f->experts, 0) > 1;
    case MOE_IF_ANY: return read_int(r, f->experts, 0) > 0;
    }
    return false;
}

/* "field=value": whether that is so. */
static bool holds(struct spec_reader *r, const char *condition) {
    char field[64];
    size_t len = strcspn(condition, "=");
    CHECK(len < sizeof field && condition[len]);
    memcpy(field, condition, len);
    field[len] = 0;
    return !strcmp(read_text(r, field, ""), condition + len + 1);
}

static void read_groups(struct spec_reader *r, const struct moe_family *f, struct router *out) {
    int64_t groups = read_int(r, "n_group", 1), kept = read_int(r, "topk_group", groups);
    bool limited = f->group_best && (!f->group_when || holds(r, f->group_when));
    if (!limited || groups <= 1)
        return;
    uint32_t size = (uint32_t)(out->experts / groups);
    if (groups > out->experts || out->experts % groups || size < f->group_best)
        config_fail(r->config, ERR_INVALID, "'n_group' does not divide the experts");
    else if (kept < 1 || kept > groups || kept * size < out->top_k)
        config_fail(r->config, ERR_INVALID, "'topk_group' is out of range");
    out->groups = (uint32_t)groups;
    out->groups_kept = (uint32_t)kept;
    out->group_best = f->group_best;
}

static void read_router(struct spec_reader *r, const struct moe_family *f, struct router *out) {
    *out = (struct router){.score = f->score,
                           .weight = f->weight,
                           .experts = read_count(r, f->experts, 0, ROUTE_EXPERTS_MAX),
                           .top_k = read_count(r, "num_experts_per_tok", 0, ROUTE_TOP_MAX),
                           .renormalise = read_rule(r, f->renormalise),
                           .renormalise_eps = f->renormalise_eps,
                           .scale = f->scale ? (float)read_double(r, f->scale, 1) : 1};
    if (out->top_k > out->experts)
        config_fail(r->config, ERR_INVALID, "'num_experts_per_tok' is more than '%s'", f->experts);
    else
        read_groups(r, f, out);
}

static uint32_t read_shared(struct spec_reader *r, const struct moe_family *f, uint32_t width) {
    int64_t count = f->shared_count ? read_int(r, f->shared_count, 0) : 0;
    int64_t shared = f->shared_width ? read_int(r, f->shared_width, 0)
                                     : MAX(MIN(count, SPEC_FFN_MAX), -1) * width;
    if (shared >= 0 && shared <= SPEC_FFN_MAX)
        return (uint32_t)shared;
    config_fail(r->config, ERR_INVALID, "'%s' is out of range",
                f->shared_width ? f->shared_width : f->shared_count);
    return 0;
}

static void read_clamped(struct spec_reader *r, struct moe_spec *moe) {
    moe->clamped = moe->interleaved = true;
    moe->limit = (float)read_double(r, "swiglu_limit", 7);
    moe->alpha = (float)read_double(r, "swiglu_alpha", 1.702);
    if (!(moe->limit > 0))
        config_fail(r->config, ERR_INVALID, "'swiglu_limit' is out of range");
}

static bool has_mxfp4(struct spec_reader *r) {
    int64_t object = config_object(r->config, r->top, "quantization_config");
    return object > 0 &&
           !strcmp(config_text(r->config, (uint32_t)object, "quant_method", ""), "mxfp4");
}

int moe_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    const struct moe_family *f = r->family->moe;
    struct moe_spec *moe = &out->moe;
    int rc = read_activation(r, "hidden_act", &out->ffn.activation);
    bool experts = has_experts(r, f, layer);
    if (f->dense_width && !(experts && f->layers == MOE_IF_ANY))
        out->ffn.width = read_count(r, f->dense_width, 0, SPEC_FFN_MAX);
    out->ffn.bias = out->ffn.down_bias = read_rule(r, r->family->ffn_bias);
    if (rc || config_failed(r->config))
        return r->config->error.code;
    if (!experts) {
        out->ffn.kind = FFN_GATED;
        return r->config->error.code;
    }
    read_router(r, f, &moe->router);
    moe->width = read_count(r, f->width, 0, SPEC_FFN_MAX);
    moe->shared_width = read_shared(r, f, moe->width);
    moe->shared_gate = f->shared_gate;
    moe->correction = f->correction;
    moe->router_bias = read_rule(r, f->router_bias);
    moe->expert_bias = read_rule(r, f->expert_bias);
    moe->weigh_input = f->weigh_input;
    moe->plain = f->plain;
    moe->inner_bias = read_rule(r, f->inner_bias);
    if (f->latent && read_has(r, f->latent))
        moe->latent = read_count(r, f->latent, 0, SPEC_HIDDEN_MAX);
    if (f->clamped)
        read_clamped(r, moe);
    moe->mxfp4 = has_mxfp4(r);
    return r->config->error.code;
}
