#include "model/read/gguf_names.h"
#include "model/read/gguf_reader.h"

#include <math.h>

/* ---- keys ---- */

#define ROUTED ",deepseek,deepseek2,glm4moe,dots1,"

/* Keys and the fields they become. `absent`: what a file without the key means, as JSON, where the
 * configuration class assumes something else; "!": it must be there. */
static const struct {
    const char *suffix, *field;
    enum key_kind kind;
    const char *archs, *absent;
} KEYS[] = {
    {"embedding_length", "hidden_size", KEY_INT, NULL, "!"},
    {"attention.head_count", "num_attention_heads", KEY_INT, "!" STATES, "!"},
    {"context_length", "max_position_embeddings", KEY_INT, NULL, "!"},
    {"attention.sliding_window", "sliding_window", KEY_INT, "!,exaone4,gemma3,", NULL},
    {"attention.sliding_window", "sliding_window", KEY_INT, ",exaone4,gemma3,", "null"},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", KEY_REAL,
     "!" STATES "lfm2,nemotron," NEMOTRON_H, NULL},
    {"attention.layer_norm_rms_epsilon", "layer_norm_epsilon", KEY_REAL, STATES, NULL},
    {"attention.layer_norm_rms_epsilon", "norm_eps", KEY_REAL, ",lfm2,", NULL},
    {"attention.layer_norm_epsilon", "norm_epsilon", KEY_REAL, ",starcoder2,", NULL},
    {"attention.layer_norm_epsilon", "norm_eps", KEY_REAL, ",nemotron,", NULL},
    {"attention.layer_norm_epsilon", "layer_norm_epsilon", KEY_REAL, ",falcon,gpt2,bloom,mpt,",
     NULL},
    {"attention.layer_norm_epsilon", "layer_norm_eps", KEY_REAL,
     ",stablelm,command-r,cohere2,gptneox,phi2,olmo,", NULL},
    {"attn_logit_softcapping", "attn_logit_softcapping", KEY_REAL, NULL, NULL},
    {"final_logit_softcapping", "final_logit_softcapping", KEY_REAL, NULL, NULL},
    {"embedding_scale", "embedding_multiplier", KEY_REAL, NULL, NULL},
    {"residual_scale", "residual_multiplier", KEY_REAL, NULL, NULL},
    {"attention.scale", "attention_multiplier", KEY_REAL, ",granite,granitemoe,granitehybrid,",
     NULL},
    {"logit_scale", "logits_scaling", KEY_REAL, ",granite,granitemoe,granitehybrid,", NULL},
    {"logit_scale", "logit_scale", KEY_REAL, ",command-r,cohere2,", NULL},
    {"attention.clamp_kqv", "clip_qkv", KEY_REAL, ",olmoe,olmo,", NULL},
    {"use_parallel_residual", "use_parallel_residual", KEY_BOOL, ",gptneox,stablelm,", NULL},
    {"attention.chunk_size", "attention_chunk_size", KEY_INT, ",llama4,", NULL},
    {"attention.temperature_scale", "attn_scale", KEY_REAL, ",llama4,", NULL},
    {"attention.temperature_length", "floor_scale", KEY_INT, ",llama4,", NULL},
    {"rope.scaling.original_context_length", "original_max_position_embeddings", KEY_INT, ",phi3,",
     NULL},
    {"rope.freq_base_swa", "rope_local_base_freq", KEY_REAL, ",gemma3,", NULL},
    /* experts */
    {"expert_count", "n_routed_experts", KEY_INT, ROUTED, "!"},
    {"expert_count", "num_experts", KEY_INT,
     ",llama,qwen2moe,qwen3moe,qwen3next,olmoe,gpt-oss,granitemoe,minimax-m2,llama4,", NULL},
    {"expert_count", "num_experts", KEY_INT, ",jamba,", "1"},
    {"expert_used_count", "num_experts_per_tok", KEY_INT, NULL, NULL},
    {"expert_feed_forward_length", "moe_intermediate_size", KEY_INT,
     ",qwen2moe,qwen3moe,qwen3next,deepseek,deepseek2,glm4moe,dots1,", NULL},
    {"expert_feed_forward_length", "intermediate_size", KEY_INT, ",llama4,", "!"},
    {"feed_forward_length", "intermediate_size_mlp", KEY_INT, ",llama4,", "!"},
    {"interleave_moe_layer_step", "interleave_moe_layer_step", KEY_INT, ",llama4,", NULL},
    {"expert_shared_feed_forward_length", "shared_expert_intermediate_size", KEY_INT,
     ",qwen2moe,qwen3next,", NULL},
    {"expert_shared_feed_forward_length", "shared_intermediate_size", KEY_INT, ",granitemoe,",
     NULL},
    {"expert_shared_count", "n_shared_experts", KEY_INT, ROUTED, "0"},
    {"expert_count", "n_routed_experts", KEY_INT, ",nemotron_h_moe,", "!"},
    {"expert_feed_forward_length", "moe_intermediate_size", KEY_INT, ",nemotron_h_moe,", "!"},
    {"expert_shared_feed_forward_length", "moe_shared_expert_intermediate_size", KEY_INT,
     ",nemotron_h_moe,", "!"},
    {"moe_latent_size", "moe_latent_size", KEY_INT, ",nemotron_h_moe,", NULL},
    {"leading_dense_block_count", "first_k_dense_replace", KEY_INT, ROUTED, "0"},
    {"expert_group_count", "n_group", KEY_INT, ",deepseek2,glm4moe,dots1,nemotron_h_moe,", "1"},
    {"expert_group_used_count", "topk_group", KEY_INT, ",deepseek2,glm4moe,dots1,nemotron_h_moe,",
     "1"},
    {"expert_weights_scale", "routed_scaling_factor", KEY_REAL,
     ",deepseek2,glm4moe,dots1,nemotron_h_moe,", "1"},
    {"expert_weights_norm", "norm_topk_prob", KEY_BOOL,
     ",olmoe,qwen2moe,deepseek,deepseek2,glm4moe,dots1,nemotron_h_moe,", "false"},
    {"expert_weights_norm", "norm_topk_prob", KEY_BOOL, ",qwen3moe,qwen3next,", "true"},
    /* states */
    {"ssm.conv_kernel", "conv_kernel", KEY_INT, STATES, "!"},
    {"ssm.state_size", "state_size", KEY_INT, STATES, "!"},
    {"ssm.time_step_rank", "time_step_rank", KEY_INT, ",mamba,", "!"},
    {"ssm.time_step_rank", "num_heads", KEY_INT, ",mamba2,", "!"},
    {"ssm.group_count", "n_groups", KEY_INT, ",mamba2,", "1"},
    {"ssm.conv_kernel", "mamba_d_conv", KEY_INT, ",jamba,granitehybrid,", "!"},
    {"ssm.state_size", "mamba_d_state", KEY_INT, ",jamba,granitehybrid,", "!"},
    {"ssm.time_step_rank", "mamba_dt_rank", KEY_INT, ",jamba,", "!"},
    {"ssm.time_step_rank", "mamba_n_heads", KEY_INT, ",granitehybrid,", "!"},
    {"ssm.group_count", "mamba_n_groups", KEY_INT, ",granitehybrid,", "1"},
    {"ssm.conv_kernel", "conv_kernel", KEY_INT, NEMOTRON_H, "!"},
    {"ssm.state_size", "ssm_state_size", KEY_INT, NEMOTRON_H, "!"},
    {"ssm.time_step_rank", "mamba_num_heads", KEY_INT, NEMOTRON_H, "!"},
    {"ssm.group_count", "n_groups", KEY_INT, NEMOTRON_H, "1"},
    {"ssm.conv_kernel", "linear_conv_kernel_dim", KEY_INT, DELTA, "!"},
    {"ssm.state_size", "linear_key_head_dim", KEY_INT, DELTA, "!"},
    {"ssm.time_step_rank", "linear_num_value_heads", KEY_INT, DELTA, "!"},
    {"ssm.group_count", "linear_num_key_heads", KEY_INT, DELTA, "!"},
    {"shortconv.l_cache", "conv_L_cache", KEY_INT, ",lfm2,", "!"},
    /* latent attention */
    {"attention.q_lora_rank", "q_lora_rank", KEY_INT, ",deepseek2,", "null"},
    {"attention.kv_lora_rank", "kv_lora_rank", KEY_INT, ",deepseek2,", "!"},
    {"rope.dimension_count", "qk_rope_head_dim", KEY_INT, ",deepseek2,", "!"},
    {"attention.value_length_mla", "v_head_dim", KEY_INT, ",deepseek2,", "!"},
};

/* Those for drafting behind the last are not served. */
static int write_layers(struct reader *r, struct error *err) {
    int64_t drafting = 0;
    int rc = find_divisor(r, "block_count", &r->layers, err);
    if (rc)
        return rc;
    if (find_int(r, "nextn_predict_layers", &drafting) && drafting > 0 && drafting < r->layers &&
        is_listed(r, DELTA NEMOTRON_H))
        r->layers -= drafting;
    json_key(r->w, "num_hidden_layers");
    json_int(r->w, r->layers);
    r->layers = MIN(r->layers, SPEC_LAYERS_MAX);
    return 0;
}

static int write_keys(const struct reader *r, struct error *err) {
    for (size_t i = 0; i < ARRAY_LEN(KEYS); i++) {
        const char *suffix = KEYS[i].suffix, *absent = KEYS[i].absent;
        if (!is_listed(r, KEYS[i].archs) || write_value(r, suffix, KEYS[i].field, KEYS[i].kind))
            continue;
        if (find(r, suffix))
            return error_set(err, ERR_UNSUPPORTED,
                             "GGUF key '%s.%s' differs between layers, which is not supported",
                             r->arch->name, suffix);
        if (absent && *absent == '!')
            return error_set(err, ERR_INVALID, "the GGUF file lacks '%s.%s'", r->arch->name,
                             suffix);
        if (!absent)
            continue;
        json_key(r->w, KEYS[i].field);
        json_raw(r->w, bytes_str(absent));
    }
    if (is_listed(r, ",llama4," STATES NEMOTRON_H))
        return 0;
    if (write_value(r, "feed_forward_length", "intermediate_size", KEY_INT) ||
        write_value(r, "expert_feed_forward_length", "intermediate_size", KEY_INT))
        return 0;
    return error_set(err, ERR_INVALID, "the GGUF file lacks '%s.feed_forward_length'",
                     r->arch->name);
}

/* ---- heads and rotation ---- */

/* Values of an f32 tensor [count] as a JSON list; false where there is none of that shape. */
static bool write_factors(const struct reader *r, const char *tensor, const char *field) {
    const struct tensor *t = safetensors_find(&r->g->set, tensor);
    if (!t || t->type != TENSOR_F32 || t->dim_count != 1)
        return false;
    json_key(r->w, field);
    json_begin_array(r->w);
    for (uint64_t i = 0; i < t->dims[0]; i++) {
        float v;
        memcpy(&v, t->data + 4 * i, 4);
        json_double(r->w, (double)v);
    }
    json_end_array(r->w);
    return true;
}

/* Factors of each frequency: of LongRoPE, or those of a scaling that the converter has worked out
 * (Llama 3). */
static void write_long_rope(const struct reader *r) {
    bool two = has_tensor(r, "rope_factors_long.weight");
    double attention = 1, original;
    json_key(r->w, "rope_scaling");
    json_begin_object(r->w);
    json_key(r->w, "rope_type");
    json_string(r->w, "longrope");
    write_factors(r, two ? "rope_factors_short.weight" : "rope_freqs.weight", "short_factor");
    write_factors(r, two ? "rope_factors_long.weight" : "rope_freqs.weight", "long_factor");
    json_key(r->w, "factor");
    json_double(r->w, 1);
    if (find_double(r, "rope.scaling.attn_factor", &attention))
        attention = as_written(attention);
    json_key(r->w, "attention_factor");
    json_double(r->w, attention);
    if (two && find_double(r, "rope.scaling.original_context_length", &original)) {
        json_key(r->w, "original_max_position_embeddings");
        json_double(r->w, original);
    }
    json_end_object(r->w);
}

/* What YaRN multiplies to cos and sin, where that is not 0.1 ln(factor) + 1; of latent attention,
 * to the scores. */
static void write_mscale(const struct reader *r) {
    double factor = 1, attention, log_multiplier;
    find_double(r, "rope.scaling.factor", &factor);
    if (find_double(r, "rope.scaling.attn_factor", &attention) && fabs(attention - 1) > 1e-6 &&
        factor >= 1) {
        json_key(r->w, "attention_factor");
        json_double(r->w, attention * (0.1 * log(factor) + 1));
    }
    if (!find_double(r, "rope.scaling.yarn_log_multiplier", &log_multiplier))
        return;
    bool plain = is_listed(r, ",mistral3,"); /* the others' have been multiplied by 0.1 */
    json_key(r->w, "mscale");
    json_double(r->w, plain ? 1 : as_written(log_multiplier) * 10);
    json_key(r->w, "mscale_all_dim");
    json_double(r->w, as_written(log_multiplier) * (plain ? 1 : 10));
}

/* The kind of scaling a file asks: a factor alone, by its present or its old name, is of the linear
 * one. */
static struct bytes scaling_type(const struct reader *r) {
    const struct gguf_kv *kv = find(r, "rope.scaling.type");
    struct bytes type;
    double factor = 0;
    if (kv) {
        struct gguf_strings s = gguf_strings_of(kv);
        return gguf_strings_next(&s, &type) ? type : bytes_str("?");
    }
    if (!find_double(r, "rope.scaling.factor", &factor))
        find_double(r, "rope.scale_linear", &factor);
    return bytes_str(factor != 0 && factor != 1 ? "linear" : "none");
}

static int write_scaling(const struct reader *r, struct error *err) {
    struct bytes type = scaling_type(r);
    if (has_tensor(r, "rope_freqs.weight") || has_tensor(r, "rope_factors_long.weight")) {
        write_long_rope(r);
        return 0;
    }
    if (bytes_equal(type, bytes_str("none")))
        return 0;
    if (!bytes_equal(type, bytes_str("linear")) && !bytes_equal(type, bytes_str("yarn")))
        return error_set(err, ERR_UNSUPPORTED,
                         "GGUF key '%s.rope.scaling.type' is '%.*s', which is not supported",
                         r->arch->name, (int)MIN(type.len, 32), (const char *)type.data);
    json_key(r->w, "rope_scaling");
    json_begin_object(r->w);
    json_key(r->w, "rope_type");
    json_string_bytes(r->w, type);
    if (!strcmp(r->arch->name, "gpt-oss")) {
        json_key(r->w, "truncate");
        json_bool(r->w, false);
    }
    if (!write_value(r, "rope.scaling.factor", "factor", KEY_REAL))
        write_value(r, "rope.scale_linear", "factor", KEY_REAL);
    write_value(r, "rope.scaling.original_context_length", "original_max_position_embeddings",
                KEY_INT);
    write_value(r, "rope.scaling.yarn_beta_fast", "beta_fast", KEY_REAL);
    write_value(r, "rope.scaling.yarn_beta_slow", "beta_slow", KEY_REAL);
    if (bytes_equal(type, bytes_str("yarn")))
        write_mscale(r);
    if (is_listed(r, ",mistral3,"))
        write_value(r, "attention.temperature_scale", "llama_4_scaling_beta", KEY_REAL);
    json_end_object(r->w);
    return 0;
}

/* Falcon says by other fields how many heads keys and values have. */
static void write_kv_heads(const struct reader *r, int64_t heads, int64_t kv_heads) {
    if (!is_listed(r, ",falcon,")) {
        json_key(r->w, "num_key_value_heads");
        json_int(r->w, kv_heads);
        return;
    }
    bool two_norms = r->arch->when != NULL,
         grouped = two_norms || (kv_heads > 1 && kv_heads < heads);
    json_key(r->w, "new_decoder_architecture");
    json_bool(r->w, grouped);
    json_key(r->w, grouped ? "num_kv_heads" : "multi_query");
    if (grouped)
        json_int(r->w, kv_heads);
    else
        json_bool(r->w, kv_heads == 1 && heads > 1);
    if (grouped && !two_norms) {
        json_key(r->w, "num_ln_in_parallel_attn");
        json_int(r->w, 1);
    }
    if (grouped)
        return;
    json_key(r->w, "parallel_attn");
    json_bool(r->w, !has_tensor(r, "blk.0.ffn_norm.weight"));
}

/* Gemma scales scores by another size than its heads' in some models, which the file says or (27B)
 * shows. */
static void write_query_scale(const struct reader *r, int64_t layers, int64_t hidden, int64_t heads,
                              int64_t dim) {
    double scale;
    json_key(r->w, "query_pre_attn_scalar");
    if (find_double(r, "attention.scale", &scale) && scale > 0)
        json_double(r->w, as_written(1 / (scale * scale)));
    else
        json_int(r->w, layers == 46 || layers == 62 ? hidden / heads : dim);
}

/* Which layers have a window. */
static void write_windows(const struct reader *r) {
    const struct gguf_kv *kv = find(r, "attention.sliding_window_pattern");
    int64_t windowed;
    if (find(r, "attention.sliding_window") &&
        is_listed(r, ",qwen2,qwen3,qwen2moe,qwen3moe,smollm3,")) {
        json_key(r->w, "use_sliding_window");
        json_bool(r->w, true);
    }
    if (!kv || !kv->is_array || kv->count > SPEC_LAYERS_MAX ||
        !is_listed(r, ",qwen2,gemma2,gemma3,cohere2,olmo2,exaone4,gpt-oss,smollm3,dots1,"))
        return;
    json_key(r->w, "layer_types");
    json_begin_array(r->w);
    for (uint64_t i = 0; i < kv->count && gguf_int_at(kv, i, &windowed); i++)
        json_string(r->w, windowed ? "sliding_attention" : "full_attention");
    json_end_array(r->w);
}

static void write_rotation(const struct reader *r, int64_t dim) {
    int64_t rotated;
    bool told =
        /* their classes assume a part */
        is_listed(r, ",phi2,gptneox,stablelm,nemotron,chatglm,glm4,glm4moe," DELTA);
    told = told || (is_listed(r, ",granitehybrid,") && !r->arch->when);
    if (dim > 0 && find_int(r, "rope.dimension_count", &rotated) && (rotated != dim || told)) {
        json_key(r->w, "partial_rotary_factor");
        json_double(r->w, (double)rotated / (double)dim);
    }
    write_value(r, "rope.freq_base", "rope_theta", KEY_REAL);
    if (is_listed(r, ",olmo2,") && r->arch->when)
        write_value(r, find(r, "rope.freq_base_swa") ? "rope.freq_base_swa" : "rope.freq_base",
                    "rope_local_base_freq", KEY_REAL);
}

static int write_latent_heads(const struct reader *r, struct error *err) {
    int64_t key, rotated = 0, groups = 1;
    if (!find_int(r, "attention.key_length_mla", &key) ||
        !find_int(r, "rope.dimension_count", &rotated))
        return error_set(
            err, ERR_UNSUPPORTED,
            "the GGUF file lacks 'deepseek2.attention.key_length_mla': convert it anew");
    json_key(r->w, "qk_nope_head_dim");
    json_int(r->w, key - rotated);
    if (find_int(r, "expert_group_count", &groups) && groups > 1 && !r->arch->when) {
        json_key(r->w, "topk_method");
        json_string(r->w, "group_limited_greedy");
    }
    write_value(r, "rope.freq_base", "rope_theta", KEY_REAL);
    return write_scaling(r, err);
}

static int write_heads(const struct reader *r, struct error *err) {
    int64_t heads = 0, kv_heads, hidden = 0, dim, layers = 0;
    bool counted = find_int(r, "attention.head_count", &heads) &&
                   find_int(r, "embedding_length", &hidden) && find_int(r, "block_count", &layers);
    if (!counted || heads <= 0)
        return error_set(err, ERR_INVALID, "'%s.attention.head_count' is 0", r->arch->name);
    if (is_listed(r, ",deepseek2,"))
        return write_latent_heads(r, err);
    if (!gguf_kv_heads(r, &kv_heads)) {
        if (find(r, "attention.head_count_kv"))
            return error_set(err, ERR_UNSUPPORTED,
                             "GGUF key '%s.attention.head_count_kv' differs between layers",
                             r->arch->name);
        kv_heads = heads;
    }
    if (!find_int(r, "attention.key_length", &dim))
        dim = hidden / heads;
    if (!is_listed(r, ",gpt2,gptneox,bloom,mpt,"))
        write_kv_heads(r, heads, kv_heads);
    json_key(r->w, "head_dim");
    json_int(r->w, dim);
    if (!gguf_rotates(r))
        return 0; /* whatever keys of rotation there are */
    write_rotation(r, dim);
    if (is_listed(r, ",gemma2,gemma3,"))
        write_query_scale(r, layers, hidden, heads, dim);
    write_windows(r);
    return write_scaling(r, err);
}

/* ---- the whole ---- */

static void write_mpt(const struct reader *r) {
    json_key(r->w, "attn_config");
    json_begin_object(r->w);
    write_value(r, "attention.clamp_kqv", "clip_qkv", KEY_REAL);
    write_value(r, "attention.scale", "softmax_scale", KEY_REAL);
    json_end_object(r->w);
}

/* GPT-OSS's experts are published as MXFP4, with nothing else in it. */
static void write_mxfp4(const struct reader *r) {
    const struct tensor *experts = safetensors_find(&r->g->set, "blk.0.ffn_down_exps.weight");
    if (!is_listed(r, ",gpt-oss,") || !experts || experts->type != TENSOR_MXFP4)
        return;
    json_key(r->w, "quantization_config");
    json_raw(
        r->w,
        bytes_str(
            "{\"quant_method\":\"mxfp4\",\"modules_to_not_convert\":[\"model.layers.*.self_attn\","
            "\"model.layers.*.mlp.router\",\"model.embed_tokens\",\"lm_head\"]}"));
}

/* What a file shows by the tensors it has: one of two, where some files have it fused. */
static int write_shown(const struct reader *r, struct error *err) {
    static const struct {
        const char *tensors[2], *field, *archs;
    } SHOWN[] = {
        {{"blk.0.attn_q.bias", "blk.0.attn_qkv.bias"},
         "attention_bias",
         ",llama,arcee,qwen3,qwen3moe,olmo,olmoe,olmo2,granite,granitemoe,smollm3,command-r,"
         "cohere2,chatglm,"
         "glm4,glm4moe,dots1,seed_oss,nemotron,deepseek,gemma,gemma2,gemma3,llama4,"},
        {{"blk.0.attn_qkv.bias"}, "attention_bias", ",gptneox,"},
        {{"blk.0.attn_qkv.bias"}, "bias", ",falcon,"},
        {{"blk.0.attn_kv_a_mqa.bias"}, "attention_bias", ",deepseek2,"},
        {{"blk.0.attn_output.bias"}, "attention_out_bias", ",seed_oss,"},
        {{"blk.0.attn_q.bias", "blk.0.attn_qkv.bias"}, "use_bias", ",starcoder2,ernie4_5,"},
        {{"blk.0.ffn_up.bias"}, "mlp_bias", ",llama,arcee,granite,smollm3,seed_oss,nemotron,"},
        {{"blk.0.attn_q.bias", "blk.0.attn_qkv.bias"}, "use_qkv_bias", ",stablelm,"},
        {{"blk.0.attn_q_norm.weight"}, "qk_layernorm", ",stablelm,phi2,"},
        {{"blk.0.attn_q_norm.weight"}, "use_qk_norm", ",command-r,glm4moe,"}};
    const struct tensor *embed = safetensors_find(&r->g->set, "token_embd.weight");
    if (!embed || embed->dim_count != 2)
        return error_set(err, ERR_INVALID, "the GGUF file has no matrix 'token_embd.weight'");
    json_key(r->w, "vocab_size");
    json_uint(r->w, embed->dims[0]);
    json_key(r->w, "tie_word_embeddings");
    json_bool(r->w, !has_tensor(r, "output.weight"));
    for (size_t i = 0; i < ARRAY_LEN(SHOWN); i++) {
        const char *const *tensors = SHOWN[i].tensors;
        if (!is_listed(r, SHOWN[i].archs))
            continue;
        json_key(r->w, SHOWN[i].field);
        json_bool(r->w, has_tensor(r, tensors[0]) || (tensors[1] && has_tensor(r, tensors[1])));
    }
    if (find(r, "attention.max_alibi_bias") && is_listed(r, ",falcon,")) {
        json_key(r->w, "alibi");
        json_bool(r->w, true);
    }
    if (is_listed(r, ",mpt,"))
        write_mpt(r);
    write_mxfp4(r);
    return 0;
}

static int write_decoder(const struct reader *r, struct error *err) {
    int rc = write_keys(r, err);
    if (!rc && !is_listed(r, STATES))
        rc = write_heads(r, err);
    if (!rc)
        rc = gguf_write_state(r, err);
    return rc ? rc : write_shown(r, err);
}

int gguf_config_text(const struct gguf *g, const struct gguf_arch *arch, struct buf *json,
                     struct error *err) {
    struct json_writer w;
    struct reader r = {.g = g, .arch = arch, .w = &w};
    json_writer_init(&w, json);
    json_begin_object(&w);
    json_key(&w, "architectures");
    json_begin_array(&w);
    json_string(&w, arch->architecture);
    json_end_array(&w);
    json_key(&w, "model_type");
    json_string(&w, arch->model_type);
    int rc = write_layers(&r, err);
    if (!rc)
        rc = is_listed(&r, ENCODERS) ? gguf_write_encoder(&r, err) : write_decoder(&r, err);
    gguf_write_labels(&r);
    json_end_object(&w);
    return rc;
}

static void adjust_delta(struct recurrent_spec *r, const struct gguf_arch *arch) {
    if (arch->names->patterns[ROLE_IN_Z])
        r->delta.fused_heads = false;
    r->delta.tiled = arch->names == &GGUF_DELTA_TILED_NAMES && r->heads != r->groups;
}

void gguf_adjust_spec(struct model_spec *spec, const struct gguf_arch *arch) {
    spec->names = arch->names;
    if (arch->permuted || spec->folder_halves)
        for (uint32_t i = 0; i < spec->rope_count; i++)
            spec->ropes[i].interleaved = true;
    spec->embed_norm.weight_offset = spec->final_norm.weight_offset = 0;
    for (uint32_t i = 0; i < spec->layer_count; i++) {
        struct layer_spec *l = &spec->layers[i];
        l->mixer_norm.weight_offset = l->mixer_post.weight_offset = 0;
        l->ffn_norm.weight_offset = l->ffn_post.weight_offset = 0;
        l->attention.q_norm.weight_offset = 0;
        l->moe.interleaved = false;
        l->recurrent.decay_plain = true;
        if (l->mixer == MIXER_DELTA)
            adjust_delta(&l->recurrent, arch);
    }
}
