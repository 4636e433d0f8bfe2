/*
 * Fields of a config that describe parts which no layer of the model has: the experts of a model
 * whose layers are all dense, the heads of one without attention, rotation where no layer rotates,
 * a table of it for a type of layers that does not occur. Such a config says nothing that could be
 * ignored wrongly.
 */
#include "model/read/moe_read.h"

static const char *const ATTENTION[] = {
    "num_attention_heads", "num_key_value_heads", "head_dim", "sliding_window",
    "attention_bias",      "v_head_dim",          NULL};
static const char *const ROTATION[] = {"partial_rotary_factor", "rope_theta", "rope_scaling",
                                       "rope_parameters", NULL};
static const char *const EXPERTS[] = {"num_experts_per_tok",
                                      "norm_topk_prob",
                                      "n_group",
                                      "topk_group",
                                      "topk_method",
                                      "routed_scaling_factor",
                                      "decoder_sparse_step",
                                      "interleave_moe_layer_step",
                                      NULL};
static const char *const STATES[] = {"ssm_heads",
                                     "ssm_head_dim",
                                     "n_groups",
                                     "state_size",
                                     "conv_kernel",
                                     "expand",
                                     "time_step_rank",
                                     "use_conv_bias",
                                     "use_bias",
                                     "chunk_size",
                                     "mamba_chunk_size",
                                     "mamba_hidden_act",
                                     "conv_L_cache",
                                     "conv_bias",
                                     "linear_num_value_heads",
                                     "linear_num_key_heads",
                                     "linear_conv_kernel_dim",
                                     "linear_key_head_dim",
                                     "linear_value_head_dim",
                                     "lru_width",
                                     "conv1d_width",
                                     "time_step_limit",
                                     NULL};
static const char *const DENSE[] = {"intermediate_size", "hidden_act", "mlp_bias", NULL};

static void consume_list(struct spec_reader *r, const char *const *fields) {
    char name[64];
    for (; *fields; fields++)
        config_consume_all(r->config, r->top, field_name(r, *fields, name));
}

static void consume_experts(struct spec_reader *r, const struct moe_family *f) {
    const char *const counts[] = {f->experts, f->width, NULL},
                      *const shared[] = {f->shared_count ? f->shared_count : f->shared_width, NULL};
    consume_list(r, EXPERTS);
    consume_list(r, counts);
    consume_list(r, shared);
}

/* Tables of rotation of single types of layers. */
static void consume_tables(struct spec_reader *r, bool windowed, bool full) {
    int64_t tables = config_object(r->config, r->top, "rope_parameters");
    if (tables > 0 && !windowed)
        config_consume_all(r->config, (uint32_t)tables, "sliding_attention");
    if (tables > 0 && !full)
        config_consume_all(r->config, (uint32_t)tables, "full_attention");
    if (r->family->local_rope && !full)
        config_consume_all(r->config, r->top, "rope_scaling");
}

void consume_absent(struct spec_reader *r) {
    bool attention = false, full = false, windowed = false, experts = false, state = false,
         dense = false;
    for (uint32_t i = 0; i < r->spec->layer_count; i++) {
        const struct layer_spec *l = &r->spec->layers[i];
        bool heads = l->mixer == MIXER_ATTENTION || l->mixer == MIXER_LATENT;
        attention |= heads;
        full |= heads && !l->attention.window;
        windowed |= heads && l->attention.window;
        state |= l->mixer && !heads;
        experts |= l->ffn.kind == FFN_MOE;
        dense |= l->ffn.kind && l->ffn.kind != FFN_MOE;
    }
    bool rotation = false;
    for (uint32_t i = 0; i < r->spec->rope_count; i++)
        rotation |= r->spec->ropes[i].kind != ROPE_NONE;
    if (!attention)
        consume_list(r, ATTENTION);
    if (!rotation)
        consume_list(r, ROTATION);
    if (attention)
        consume_tables(r, windowed, full);
    if (!experts && r->family->moe)
        consume_experts(r, r->family->moe);
    if (!state && r->family->state)
        consume_list(r, STATES);
    if (!dense && r->family->state)
        consume_list(r, DENSE);
}
