/* table.inc.h - all kernels of one instruction set and their table CPU_OPS. Included by isa_*.c
 * after a vec_*.h. */
#include "kernels/dequantize.h"

#include "kernels/cpu/math.inc.h"

#include "kernels/cpu/dequantize.inc.h"

#if VW == 16
#include "kernels/cpu/group_product.h"
#include "kernels/cpu/tile_product.h"
#endif

#include "kernels/cpu/linear.inc.h"

#include "kernels/cpu/rows.inc.h"

#include "kernels/cpu/state.inc.h"

#include "kernels/cpu/norm_activation.inc.h"

#include "kernels/cpu/attention.inc.h"

#include "kernels/cpu/expert.inc.h"

#include "kernels/cpu/latent.inc.h"

#include "kernels/cpu/sample.inc.h"

#include "kernels/cpu/sample_chain.inc.h"

static int cpu_supports(enum storage_type weights, enum storage_type kv, uint32_t block_tokens,
                        uint32_t head_dim, struct error *err) {
    if (block_tokens % VW || ATTENTION_SPLIT % block_tokens)
        return error_set(err, ERR_UNSUPPORTED,
                         "a block of %u tokens; the CPU needs 16, 32, 64, 128 or 256",
                         block_tokens);
    if (!storage_is_plain(kv) && kv != STORAGE_F8_E4M3 && kv != STORAGE_I8)
        return error_set(err, ERR_UNSUPPORTED,
                         "the CPU stores keys and values as f32, f16, bf16, fp8 or int8, not %s",
                         storage_name(kv));
    if (head_dim == 0 || head_dim > ATTENTION_DIM_MAX)
        return error_set(err, ERR_UNSUPPORTED, "head size %u is past %d", head_dim,
                         ATTENTION_DIM_MAX);
    return 0;
}

const struct ops CPU_OPS = {
    .name = "cpu",
    .prepare = ref_prepare,
    .embed = cpu_embed,
    .rmsnorm = cpu_rmsnorm,
    .linear = cpu_linear,
    .rope_angles = cpu_rope_angles,
    .rope_kv = cpu_rope_kv,
    .attention = cpu_attention,
    .scale_queries = ref_scale_queries,
    .act_mul = cpu_act_mul,
    .gather_rows = ref_gather_rows,
    .kv_copy = ref_kv_copy,
    .route = cpu_route,
    .expert_gather = cpu_expert_gather,
    .expert_linear = cpu_expert_linear,
    .expert_combine = cpu_expert_combine,
    .clamped_swiglu = cpu_clamped_swiglu,
    .head_linear = cpu_head_linear,
    .latent_write = cpu_latent_write,
    .latent_attention = cpu_latent_attention,
    .latent_layer_bytes = ref_latent_layer_bytes,
    .sample = cpu_sample,
    .state = &cpu_state_ops,
    .rows = &cpu_row_ops,
    .packed_bytes = cpu_packed_bytes,
    .pack = cpu_pack,
    .kv_layer_bytes = ref_kv_layer_bytes,
    .attention_scratch = cpu_attention_scratch,
    .sample_scratch = cpu_sample_scratch,
    .supports = cpu_supports,
};
