/* Which architectures of GGUF files are which families, and what the converters of llama.cpp do to
 * their tensors. */
#include "model/read/gguf_model.h"
#include "model/read/gguf_names.h"

#include <stdio.h>
#include <stdlib.h>

/* Of several rows of one name the first whose `when` holds, so the special ones stand first. */
static const struct gguf_arch ARCHS[] = {
    {"llama", "mixtral", "MixtralForCausalLM", &GGUF_EXPERT_NAMES, true, "expert_count", NULL},
    {"qwen2moe", "qwen2_moe", "Qwen2MoeForCausalLM", &GGUF_EXPERT_NAMES, false, NULL, NULL},
    {"qwen3moe", "qwen3_moe", "Qwen3MoeForCausalLM", &GGUF_EXPERT_NAMES, false, NULL, NULL},
    {"olmoe", "olmoe", "OlmoeForCausalLM", &GGUF_EXPERT_NAMES, false, NULL, NULL},
    {"gpt-oss", "gpt_oss", "GptOssForCausalLM", &GGUF_OSS_NAMES, false, NULL, NULL},
    {"granitemoe", "granitemoe", "GraniteMoeForCausalLM", &GGUF_EXPERT_NAMES, true, NULL, NULL},
    {"glm4moe", "glm4_moe", "Glm4MoeForCausalLM", &GGUF_POST_EXPERT_NAMES, false, NULL, NULL},
    {"dots1", "dots1", "Dots1ForCausalLM", &GGUF_EXPERT_NAMES, false, NULL, NULL},
    {"minimax-m2", "minimax_m2", "MiniMaxM2ForCausalLM", &GGUF_EXPERT_NAMES, false, NULL, NULL},
    {"llama4", "llama4_text", "Llama4ForCausalLM", &GGUF_EXPERT_NAMES, false, NULL, NULL},
    {"deepseek", "deepseek", "DeepseekForCausalLM", &GGUF_EXPERT_NAMES, true, NULL, NULL},
    {"deepseek2", "deepseek_v3", "DeepseekV3ForCausalLM", &GGUF_LATENT_NAMES, false,
     "expert_gating_func=2", NULL},
    {"deepseek2", "deepseek_v2", "DeepseekV2ForCausalLM", &GGUF_LATENT_NAMES, false, NULL, NULL},
    {"llama", "mistral", "MistralForCausalLM", &GGUF_NAMES, true, "attention.sliding_window", NULL},
    {"llama", "llama", "LlamaForCausalLM", &GGUF_NAMES, true, NULL, NULL},
    {"mistral3", "ministral3", "Ministral3ForCausalLM", &GGUF_NAMES, true, NULL, NULL},
    {"arcee", "arcee", "ArceeForCausalLM", &GGUF_NAMES, true, NULL, NULL},
    {"qwen2", "qwen2", "Qwen2ForCausalLM", &GGUF_NAMES, false, NULL, NULL},
    {"qwen3", "qwen3", "Qwen3ForSequenceClassification", &GGUF_RANK_NAMES, false,
     "@cls.output.weight", NULL},
    {"qwen3", "qwen3", "Qwen3ForCausalLM", &GGUF_NAMES, false, NULL, NULL},
    {"gemma", "gemma", "GemmaForCausalLM", &GGUF_NAMES, false, NULL, NULL},
    {"gemma2", "gemma2", "Gemma2ForCausalLM", &GGUF_NAMES, false, NULL, NULL},
    {"gemma3", "gemma3_text", "Gemma3ForCausalLM", &GGUF_NAMES, false, NULL, NULL},
    {"phi2", "phi", "PhiForCausalLM", &GGUF_NAMES, false, NULL, NULL},
    {"phi3", "phi3", "Phi3ForCausalLM", &GGUF_FUSED_NAMES, false, NULL, NULL},
    {"smollm3", "smollm3", "SmolLM3ForCausalLM", &GGUF_NAMES, true, NULL, NULL},
    {"granite", "granite", "GraniteForCausalLM", &GGUF_NAMES, true, NULL, NULL},
    {"olmo", "olmo", "OlmoForCausalLM", &GGUF_NAMES, true, NULL, NULL},
    {"olmo2", "olmo3", "Olmo3ForCausalLM", &GGUF_NAMES, false, "attention.sliding_window", NULL},
    {"olmo2", "olmo2", "Olmo2ForCausalLM", &GGUF_NAMES, false, NULL, NULL},
    {"stablelm", "stablelm", "StableLmForCausalLM", &GGUF_NAMES, false, NULL, NULL},
    {"starcoder2", "starcoder2", "Starcoder2ForCausalLM", &GGUF_NAMES, false, NULL, NULL},
    {"command-r", "cohere", "CohereForCausalLM", &GGUF_NAMES, false, NULL, NULL},
    {"cohere2", "cohere2", "Cohere2ForCausalLM", &GGUF_NAMES, false, NULL, NULL},
    {"chatglm", "glm", "GlmForCausalLM", &GGUF_FFN_NAMES, false, NULL, NULL},
    {"glm4", "glm4", "Glm4ForCausalLM", &GGUF_FFN_NAMES, false, NULL, NULL},
    {"exaone4", "exaone4", "Exaone4ForCausalLM", &GGUF_NAMES, false, NULL, NULL},
    {"seed_oss", "seed_oss", "SeedOssForCausalLM", &GGUF_POST_NAMES, false, NULL, NULL},
    {"nemotron", "nemotron", "NemotronForCausalLM", &GGUF_NAMES, false, NULL, NULL},
    {"ernie4_5", "ernie4_5", "Ernie4_5ForCausalLM", &GGUF_NAMES, false, NULL, NULL},
    {"falcon", "falcon", "FalconForCausalLM", &GGUF_TWO_NORM_NAMES, false,
     "@blk.0.attn_norm_2.weight", &FALCON_TWO_NORM_NAMES},
    {"falcon", "falcon", "FalconForCausalLM", &GGUF_QKV_NAMES, false, NULL, NULL},
    {"gpt2", "gpt2", "GPT2LMHeadModel", &GGUF_QKV_NAMES, false, NULL, NULL},
    {"gptneox", "gpt_neox", "GPTNeoXForCausalLM", &GGUF_QKV_NAMES, false, NULL, NULL},
    {"bloom", "bloom", "BloomForCausalLM", &GGUF_QKV_NAMES, false, NULL, NULL},
    {"mpt", "mpt", "MptForCausalLM", &GGUF_QKV_NAMES, false, NULL, NULL},
    {"mamba", "falcon_mamba", "FalconMambaForCausalLM", &GGUF_STATE_NAMES, false, "ssm.dt_b_c_rms",
     NULL},
    {"mamba", "mamba", "MambaForCausalLM", &GGUF_STATE_NAMES, false, NULL, NULL},
    {"mamba2", "mamba2", "Mamba2ForCausalLM", &GGUF_STATE_NAMES, false, NULL, NULL},
    {"jamba", "jamba", "JambaForCausalLM", &GGUF_STATE_NAMES, false, NULL, NULL},
    {"granitehybrid", "granitemoehybrid", "GraniteMoeHybridForCausalLM", &GGUF_STATE_NAMES, true,
     "embedding_scale", NULL},
    {"granitehybrid", "granitemoehybrid", "GraniteMoeHybridForCausalLM", &GGUF_STATE_NAMES, true,
     "rope.scaling.finetuned=0", NULL},
    {"granitehybrid", "bamba", "BambaForCausalLM", &GGUF_STATE_NAMES, true, NULL, NULL},
    {"nemotron_h_moe", "nemotron_h", "NemotronHForCausalLM", &GGUF_BLOCK_NAMES, true,
     "expert_count", NULL},
    {"nemotron_h", "nemotron_h", "NemotronHForCausalLM", &GGUF_BLOCK_NAMES, true, NULL, NULL},
    {"qwen3next", "qwen3_next", "Qwen3NextForCausalLM", &GGUF_DELTA_NAMES, false,
     "@blk.0.attn_qkv.weight", NULL},
    {"qwen3next", "qwen3_next", "Qwen3NextForCausalLM", &GGUF_DELTA_FUSED_NAMES, false, NULL, NULL},
    {"qwen35", "qwen3_5_text", "Qwen3_5ForCausalLM", &GGUF_DELTA_TILED_NAMES, false, NULL, NULL},
    {"lfm2", "lfm2", "Lfm2ForCausalLM", &GGUF_LFM2_NAMES, false, NULL, NULL},
    {"bert", "bert", "BertForSequenceClassification", &GGUF_ENCODER_SCORE_NAMES, false,
     "@cls.output.weight", NULL},
    {"bert", "bert", "BertModel", &GGUF_ENCODER_NAMES, false, NULL, NULL},
    {"nomic-bert", "nomic_bert", "NomicBertModel", &GGUF_ENCODER_NAMES, false, NULL, NULL},
    {"jina-bert-v2", "bert", "JinaBertModel", &GGUF_ENCODER_NAMES, false, "@blk.0.ffn_gate.weight",
     NULL},
    {"jina-bert-v2", "bert", "JinaBertModel", &GGUF_ENCODER_FUSED_NAMES, false, NULL, NULL},
    {"modern-bert", "modernbert", "ModernBertModel", &GGUF_FUSED_NAMES, false, NULL, NULL},
};

/* "suffix": there is such a key, and it is not 0; "suffix=value": it has that value; "@name": there
 * is such a tensor. */
static bool holds(const struct gguf *g, const struct gguf_arch *arch) {
    char key[GGUF_NAME_MAX];
    double value = 0;
    if (!arch->when)
        return true;
    if (*arch->when == '@')
        return safetensors_find(&g->set, arch->when + 1) != NULL;
    size_t len = strcspn(arch->when, "=");
    snprintf(key, sizeof key, "%s.%.*s", arch->name, (int)len, arch->when);
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv || !gguf_double_at(kv, 0, &value))
        return false;
    return arch->when[len] ? value == atoi(arch->when + len + 1) : value > 0;
}

const struct gguf_arch *gguf_arch_of(const struct gguf *g, struct error *err) {
    struct bytes name;
    if (!gguf_string(g, "general.architecture", &name)) {
        error_set(err, ERR_INVALID, "the GGUF file does not say its general.architecture");
        return NULL;
    }
    for (size_t i = 0; i < ARRAY_LEN(ARCHS); i++)
        if (bytes_equal(name, bytes_str(ARCHS[i].name)) && holds(g, &ARCHS[i]))
            return &ARCHS[i];
    error_set(err, ERR_UNSUPPORTED, "GGUF architecture '%.*s' is not supported",
              (int)MIN(name.len, 64), (const char *)name.data);
    return NULL;
}

/* A family's name is its model_type, without "_text". */
static bool is_family(const struct gguf_arch *arch, const char *family) {
    size_t len = strlen(family);
    return !strncmp(arch->model_type, family, len) &&
           (!arch->model_type[len] || !strcmp(arch->model_type + len, "_text"));
}

static bool has_experts(const struct model_spec *spec) {
    for (uint32_t i = 0; i < spec->layer_count; i++)
        if (spec->layers[i].ffn.kind == FFN_MOE)
            return true;
    return false;
}

/* Rows of files with experts are for models that have some, rows of folders' names for those. */
static bool suits(const struct gguf_arch *arch, const struct model_spec *spec) {
    if (spec->bidirectional || (spec->score.kind && arch->names != &GGUF_RANK_NAMES) ||
        (!spec->score.kind && arch->names == &GGUF_RANK_NAMES))
        return false;
    if (arch->when && !strcmp(arch->when, "expert_count") && !has_experts(spec))
        return false;
    return !arch->folder || arch->folder == spec->folder_names;
}

const struct gguf_arch *gguf_arch_for(const struct model_spec *spec, struct error *err) {
    for (size_t i = 0; i < ARRAY_LEN(ARCHS); i++)
        if (is_family(&ARCHS[i], spec->family) && suits(&ARCHS[i], spec))
            return &ARCHS[i];
    error_set(err, ERR_UNSUPPORTED, "a %s model cannot be written as GGUF", spec->family);
    return NULL;
}
