#include "kernels/ref/ref.h"

static size_t no_attention_scratch(const struct device *dev, uint32_t row_count, uint32_t heads,
                                   uint32_t head_dim, uint32_t max_context) {
    return 64;
}
static size_t no_sample_scratch(const struct device *dev, uint32_t sample_count,
                                uint32_t vocab_size) {
    return 64;
}
static int supports_all(enum storage_type weights, enum storage_type kv, uint32_t block_tokens,
                        uint32_t head_dim, struct error *err) {
    if (head_dim == 0 || head_dim > 1024)
        return error_set(err, ERR_UNSUPPORTED, "head size %u is past 1024", head_dim);
    return 0;
}

const struct ops ref_ops = {
    .name = "ref",
    .prepare = ref_prepare,
    .embed = ref_embed,
    .rmsnorm = ref_rmsnorm,
    .linear = ref_linear,
    .rope_angles = ref_rope_angles,
    .rope_kv = ref_rope_kv,
    .attention = ref_attention,
    .scale_queries = ref_scale_queries,
    .act_mul = ref_act_mul,
    .gather_rows = ref_gather_rows,
    .kv_copy = ref_kv_copy,
    .route = ref_route,
    .expert_gather = ref_expert_gather,
    .expert_linear = ref_expert_linear,
    .expert_combine = ref_expert_combine,
    .clamped_swiglu = ref_clamped_swiglu,
    .head_linear = ref_head_linear,
    .latent_write = ref_latent_write,
    .latent_attention = ref_latent_attention,
    .latent_layer_bytes = ref_latent_layer_bytes,
    .sample = ref_sample,
    .state = &ref_state_ops,
    .rows = &ref_row_ops,
    .kv_layer_bytes = ref_kv_layer_bytes,
    .attention_scratch = no_attention_scratch,
    .sample_scratch = no_sample_scratch,
    .supports = supports_all,
};
