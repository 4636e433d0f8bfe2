#include "model/gguf_model.h"

#include "formats/json.h"
#include "model/gguf_names.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Of files that have experts. */
static const struct gguf_arch EXPERT_ARCHS[] = {
    {"llama", "mixtral", "MixtralForCausalLM", &GGUF_EXPERT_NAMES, true},
    {"qwen2moe", "qwen2_moe", "Qwen2MoeForCausalLM", &GGUF_EXPERT_NAMES, false},
    {"qwen3moe", "qwen3_moe", "Qwen3MoeForCausalLM", &GGUF_EXPERT_NAMES, false},
    {"olmoe", "olmoe", "OlmoeForCausalLM", &GGUF_EXPERT_NAMES, false},
    {"gpt-oss", "gpt_oss", "GptOssForCausalLM", &GGUF_OSS_NAMES, false},
    {"granitemoe", "granitemoe", "GraniteMoeForCausalLM", &GGUF_EXPERT_NAMES, true},
};

static const struct gguf_arch ARCHS[] = {
    {"llama", "llama", "LlamaForCausalLM", &GGUF_NAMES, true},
    {"qwen2", "qwen2", "Qwen2ForCausalLM", &GGUF_NAMES, false},
    {"qwen3", "qwen3", "Qwen3ForCausalLM", &GGUF_NAMES, false},
    {"gemma", "gemma", "GemmaForCausalLM", &GGUF_NAMES, false},
    {"gemma2", "gemma2", "Gemma2ForCausalLM", &GGUF_NAMES, false},
    {"gemma3", "gemma3_text", "Gemma3ForCausalLM", &GGUF_NAMES, false},
    {"phi3", "phi3", "Phi3ForCausalLM", &GGUF_FUSED_NAMES, false},
    {"smollm3", "smollm3", "SmolLM3ForCausalLM", &GGUF_NAMES, true},
    {"granite", "granite", "GraniteForCausalLM", &GGUF_NAMES, true},
    {"olmo2", "olmo2", "Olmo2ForCausalLM", &GGUF_NAMES, false},
    {"stablelm", "stablelm", "StableLmForCausalLM", &GGUF_NAMES, false},
    {"starcoder2", "starcoder2", "Starcoder2ForCausalLM", &GGUF_NAMES, false},
    {"command-r", "cohere", "CohereForCausalLM", &GGUF_NAMES, false},
    {"cohere2", "cohere2", "Cohere2ForCausalLM", &GGUF_NAMES, false},
    {"glm4", "glm4", "Glm4ForCausalLM", &GGUF_FFN_NAMES, false},
    {"exaone4", "exaone4", "Exaone4ForCausalLM", &GGUF_NAMES, false},
    {"seed_oss", "seed_oss", "SeedOssForCausalLM", &GGUF_NAMES, false},
    {"ernie4_5", "ernie4_5", "Ernie4_5ForCausalLM", &GGUF_NAMES, false},
};

static bool has_experts(const struct gguf *g, const char *arch) {
    char key[GGUF_NAME_MAX];
    int64_t count = 0;
    snprintf(key, sizeof key, "%s.expert_count", arch);
    const struct gguf_kv *kv = gguf_find(g, key);
    return kv && gguf_int_at(kv, 0, &count) && count > 0;
}

const struct gguf_arch *gguf_arch_of(const struct gguf *g, struct error *err) {
    struct bytes name;
    if (!gguf_string(g, "general.architecture", &name)) {
        error_set(err, ERR_INVALID, "the GGUF file does not say its general.architecture");
        return NULL;
    }
    for (size_t i = 0; i < ARRAY_LEN(EXPERT_ARCHS); i++)
        if (bytes_equal(name, bytes_str(EXPERT_ARCHS[i].name)) && has_experts(g, EXPERT_ARCHS[i].name))
            return &EXPERT_ARCHS[i];
    for (size_t i = 0; i < ARRAY_LEN(ARCHS); i++)
        if (bytes_equal(name, bytes_str(ARCHS[i].name))) return &ARCHS[i];
    error_set(err, ERR_UNSUPPORTED, "GGUF architecture '%.*s' is not supported", (int)MIN(name.len, 64),
              (const char *)name.data);
    return NULL;
}

const struct gguf_arch *gguf_arch_for(const struct model_spec *spec, struct error *err) {
    const char *family = !strcmp(spec->family, "mistral") ? "llama" : spec->family;
    for (size_t i = 0; i < ARRAY_LEN(ARCHS); i++)
        if (!strcmp(family, ARCHS[i].model_type) || !strcmp(family, ARCHS[i].name)) return &ARCHS[i];
    error_set(err, ERR_UNSUPPORTED, "a %s model cannot be written as GGUF", spec->family);
    return NULL;
}

/* ---- keys ---- */

struct reader {
    const struct gguf *g;
    const struct gguf_arch *arch;
    struct json_writer *w;
};

static const struct gguf_kv *find(const struct reader *r, const char *suffix) {
    char key[GGUF_NAME_MAX];
    snprintf(key, sizeof key, "%s.%s", r->arch->name, suffix);
    return gguf_find(r->g, key);
}

/* A number, or an array of equal ones (per layer). */
static bool find_int(const struct reader *r, const char *suffix, int64_t *out) {
    const struct gguf_kv *kv = find(r, suffix);
    int64_t other;
    if (!kv || !gguf_int_at(kv, 0, out)) return false;
    for (uint64_t i = 1; i < kv->count; i++)
        if (!gguf_int_at(kv, i, &other) || other != *out) return false;
    return true;
}

static bool find_double(const struct reader *r, const char *suffix, double *out) {
    const struct gguf_kv *kv = find(r, suffix);
    return kv && !kv->is_array && gguf_double_at(kv, 0, out);
}

/* f32 metadata holds numbers people wrote in decimal: the shortest text that rounds to the same f32. */
static double as_written(double v) {
    char text[32];
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if ((float)strtod(text, NULL) == (float)v) return strtod(text, NULL);
    }
    return v;
}

static const struct {
    const char *suffix, *field;
    bool required;
} INTEGERS[] = {
    {"block_count", "num_hidden_layers", true},          {"embedding_length", "hidden_size", true},
    {"feed_forward_length", "intermediate_size", true},  {"attention.head_count", "num_attention_heads", true},
    {"context_length", "max_position_embeddings", true}, {"attention.sliding_window", "sliding_window", false},
};

/* Counts of a mixture; families know them by other names as well (their aliases). */
static void write_experts(const struct reader *r) {
    static const struct {
        const char *suffix, *field;
    } COUNTS[] = {{"expert_count", "num_experts"}, {"expert_used_count", "num_experts_per_tok"}};
    bool granite = !strcmp(r->arch->name, "granitemoe");
    int64_t v;
    for (size_t i = 0; i < ARRAY_LEN(COUNTS); i++)
        if (find_int(r, COUNTS[i].suffix, &v)) {
            json_key(r->w, COUNTS[i].field);
            json_int(r->w, v);
        }
    if (!strncmp(r->arch->name, "qwen", 4) && find_int(r, "expert_feed_forward_length", &v)) {
        json_key(r->w, "moe_intermediate_size");
        json_int(r->w, v);
    }
    if (find_int(r, "expert_shared_feed_forward_length", &v)) {
        json_key(r->w, granite ? "shared_intermediate_size" : "shared_expert_intermediate_size");
        json_int(r->w, v);
    }
    if (!strcmp(r->arch->name, "qwen3moe")) {
        json_key(r->w, "norm_topk_prob");
        json_bool(r->w, true);
    }
}

static int write_integers(const struct reader *r, struct error *err) {
    int64_t v;
    for (size_t i = 0; i < ARRAY_LEN(INTEGERS); i++) {
        if (find_int(r, INTEGERS[i].suffix, &v)) {
            json_key(r->w, INTEGERS[i].field);
            json_int(r->w, v);
        } else if (find(r, INTEGERS[i].suffix)) {
            return error_set(err, ERR_UNSUPPORTED, "GGUF key '%s.%s' differs between layers, which is not supported",
                             r->arch->name, INTEGERS[i].suffix);
        } else if (INTEGERS[i].required) {
            return error_set(err, ERR_INVALID, "the GGUF file lacks '%s.%s'", r->arch->name, INTEGERS[i].suffix);
        }
    }
    return 0;
}

static const struct {
    const char *suffix, *field;
} NUMBERS[] = {
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
    {"attn_logit_softcapping", "attn_logit_softcapping"},
    {"final_logit_softcapping", "final_logit_softcapping"},
    {"embedding_scale", "embedding_multiplier"},
    {"residual_scale", "residual_multiplier"},
    {"attention.scale", "attention_multiplier"},
};

/* Families spell the epsilon of a LayerNorm differently. */
static const char *layer_norm_field(const struct gguf_arch *arch) {
    return !strcmp(arch->name, "starcoder2") ? "norm_epsilon" : "layer_norm_eps";
}

static void write_numbers(const struct reader *r) {
    double v;
    for (size_t i = 0; i < ARRAY_LEN(NUMBERS); i++)
        if (find_double(r, NUMBERS[i].suffix, &v)) {
            json_key(r->w, NUMBERS[i].field);
            json_double(r->w, as_written(v));
        }
    if (find_double(r, "attention.layer_norm_epsilon", &v)) {
        json_key(r->w, layer_norm_field(r->arch));
        json_double(r->w, as_written(v));
    }
    if (find_double(r, "logit_scale", &v)) {
        json_key(r->w, !strncmp(r->arch->name, "granite", 7) ? "logits_scaling" : "logit_scale");
        json_double(r->w, as_written(v));
    }
}

/* ---- heads and rotation ---- */

/* Values of an f32 tensor [count] as a JSON list; false where there is none of that shape. */
static bool write_factors(const struct reader *r, const char *tensor, const char *field) {
    const struct tensor *t = safetensors_find(&r->g->set, tensor);
    if (!t || t->type != TENSOR_F32 || t->dim_count != 1) return false;
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

static bool has_tensor(const struct reader *r, const char *name) { return safetensors_find(&r->g->set, name) != NULL; }

/* Factors of each frequency: of LongRoPE, or those of a scaling that the converter has worked out (Llama 3). */
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
    if (find_double(r, "rope.scaling.attn_factor", &attention)) attention = as_written(attention);
    json_key(r->w, "attention_factor");
    json_double(r->w, attention);
    if (two && find_double(r, "rope.scaling.original_context_length", &original)) {
        json_key(r->w, "original_max_position_embeddings");
        json_double(r->w, original);
    }
    json_end_object(r->w);
}

static int write_scaling(const struct reader *r, struct error *err) {
    const struct gguf_kv *kv = find(r, "rope.scaling.type");
    struct bytes type = bytes_str("none");
    double v;
    if (has_tensor(r, "rope_freqs.weight") || has_tensor(r, "rope_factors_long.weight")) {
        write_long_rope(r);
        return 0;
    }
    if (kv) {
        struct gguf_strings s = gguf_strings_of(kv);
        if (!gguf_strings_next(&s, &type)) type = bytes_str("?");
    }
    if (bytes_equal(type, bytes_str("none"))) return 0;
    if (!bytes_equal(type, bytes_str("linear")) && !bytes_equal(type, bytes_str("yarn")))
        return error_set(err, ERR_UNSUPPORTED, "GGUF key '%s.rope.scaling.type' is '%.*s', which is not supported",
                         r->arch->name, (int)MIN(type.len, 32), (const char *)type.data);
    json_key(r->w, "rope_scaling");
    json_begin_object(r->w);
    json_key(r->w, "rope_type");
    json_string_bytes(r->w, type);
    if (!strcmp(r->arch->name, "gpt-oss")) {
        json_key(r->w, "truncate");
        json_bool(r->w, false);
    }
    if (find_double(r, "rope.scaling.factor", &v)) {
        json_key(r->w, "factor");
        json_double(r->w, as_written(v));
    }
    if (find_double(r, "rope.scaling.original_context_length", &v)) {
        json_key(r->w, "original_max_position_embeddings");
        json_double(r->w, v);
    }
    json_end_object(r->w);
    return 0;
}

static bool is_one_of(const struct gguf_arch *arch, const char *a, const char *b) {
    return !strcmp(arch->name, a) || !strcmp(arch->name, b);
}

static int write_heads(const struct reader *r, struct error *err) {
    int64_t heads = 0, kv_heads, hidden = 0, dim, rotated, layers = 0;
    double theta;
    bool counted = find_int(r, "attention.head_count", &heads) && find_int(r, "embedding_length", &hidden) &&
                   find_int(r, "block_count", &layers);
    if (!counted || heads <= 0) return error_set(err, ERR_INVALID, "'%s.attention.head_count' is 0", r->arch->name);
    if (!find_int(r, "attention.head_count_kv", &kv_heads)) {
        if (find(r, "attention.head_count_kv"))
            return error_set(err, ERR_UNSUPPORTED, "GGUF key '%s.attention.head_count_kv' differs between layers",
                             r->arch->name);
        kv_heads = heads;
    }
    bool has_dim = find_int(r, "attention.key_length", &dim);
    if (!has_dim) dim = hidden / heads;
    json_key(r->w, "num_key_value_heads");
    json_int(r->w, kv_heads);
    if (has_dim) {
        json_key(r->w, "head_dim");
        json_int(r->w, dim);
    }
    if (find_int(r, "rope.dimension_count", &rotated) && rotated != dim && dim > 0) {
        json_key(r->w, "partial_rotary_factor");
        json_double(r->w, (double)rotated / (double)dim);
    }
    if (find_double(r, "rope.freq_base", &theta)) {
        json_key(r->w, "rope_theta");
        json_double(r->w, as_written(theta));
    }
    if (is_one_of(r->arch, "gemma2", "gemma3")) { /* the 27B models scale by another size */
        json_key(r->w, "query_pre_attn_scalar");
        json_int(r->w, layers == 46 || layers == 62 ? hidden / heads : dim);
    }
    return write_scaling(r, err);
}

/* ---- the whole ---- */

/* What a file shows by the tensors it has. */
static int write_shown(const struct reader *r, struct error *err) {
    static const struct {
        const char *tensor, *field;
        const char *archs; /* that have the option, as ",a,b," */
    } SHOWN[] = {{"blk.0.attn_q.bias", "attention_bias",
                  ",llama,qwen3,qwen3moe,olmoe,granite,granitemoe,smollm3,command-r,glm4,seed_oss,"},
                 {"blk.0.ffn_gate.bias", "mlp_bias", ",llama,granite,smollm3,"},
                 {"blk.0.attn_q.bias", "use_qkv_bias", ",stablelm,"},
                 {"blk.0.attn_q_norm.weight", "qk_layernorm", ",stablelm,"},
                 {"blk.0.attn_q_norm.weight", "use_qk_norm", ",command-r,"}};
    const struct tensor *embed = safetensors_find(&r->g->set, "token_embd.weight");
    char arch[80];
    if (!embed || embed->dim_count != 2)
        return error_set(err, ERR_INVALID, "the GGUF file has no matrix 'token_embd.weight'");
    json_key(r->w, "vocab_size");
    json_uint(r->w, embed->dims[0]);
    json_key(r->w, "tie_word_embeddings");
    json_bool(r->w, !has_tensor(r, "output.weight"));
    snprintf(arch, sizeof arch, ",%s,", r->arch->name);
    for (size_t i = 0; i < ARRAY_LEN(SHOWN); i++)
        if (strstr(SHOWN[i].archs, arch) && has_tensor(r, SHOWN[i].tensor)) {
            json_key(r->w, SHOWN[i].field);
            json_bool(r->w, true);
        }
    return 0;
}

int gguf_config_text(const struct gguf *g, const struct gguf_arch *arch, struct buf *json, struct error *err) {
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
    int rc = write_integers(&r, err);
    if (!rc) write_numbers(&r);
    if (!rc && arch >= EXPERT_ARCHS && arch < EXPERT_ARCHS + ARRAY_LEN(EXPERT_ARCHS)) write_experts(&r);
    if (!rc) rc = write_heads(&r, err);
    if (!rc) rc = write_shown(&r, err);
    json_end_object(&w);
    return rc;
}

void gguf_adjust_spec(struct model_spec *spec, const struct gguf_arch *arch) {
    spec->names = arch->names;
    if (arch->permuted)
        for (uint32_t i = 0; i < spec->rope_count; i++) spec->ropes[i].interleaved = true;
    spec->embed_norm.weight_offset = spec->final_norm.weight_offset = 0;
    for (uint32_t i = 0; i < spec->layer_count; i++) {
        struct layer_spec *l = &spec->layers[i];
        l->mixer_norm.weight_offset = l->mixer_post.weight_offset = 0;
        l->ffn_norm.weight_offset = l->ffn_post.weight_offset = 0;
        l->attention.q_norm.weight_offset = 0;
        l->moe.interleaved = false;
    }
}
