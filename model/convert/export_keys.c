/* A spec as a GGUF file's keys, by the names that llama.cpp's converters give them. */
#include "model/convert/export.h"

#include <math.h>
#include <stdio.h>

struct keys {
    struct gguf_writer *w;
    const struct gguf_arch *arch;
};

static const char *key_of(const struct keys *k, const char *suffix, char out[GGUF_NAME_MAX]) {
    snprintf(out, GGUF_NAME_MAX, "%s.%s", k->arch->name, suffix);
    return out;
}
static void put_int(const struct keys *k, const char *suffix, uint64_t value) {
    char key[GGUF_NAME_MAX];
    gguf_put_int(k->w, key_of(k, suffix, key), GGUF_U32, (int64_t)value);
}
static void put_bool(const struct keys *k, const char *suffix, bool value) {
    char key[GGUF_NAME_MAX];
    gguf_put_int(k->w, key_of(k, suffix, key), GGUF_BOOL, value);
}
static void put_f32(const struct keys *k, const char *suffix, double value) {
    char key[GGUF_NAME_MAX];
    gguf_put_f32(k->w, key_of(k, suffix, key), value);
}
static void put_text(const struct keys *k, const char *suffix, const char *value) {
    char key[GGUF_NAME_MAX];
    gguf_put_string(k->w, key_of(k, suffix, key), bytes_str(value));
}
static bool is_arch(const struct keys *k, const char *name) {
    return !strcmp(k->arch->name, name);
}

/* Bamba's files are of the same architecture, but without multipliers. */
static bool is_granite(const struct keys *k) {
    return !strncmp(k->arch->model_type, "granite", 7);
}

/* ---- rotation ---- */

/* The first layer that has attention of this kind; NULL: none has. */
static const struct layer_spec *find_layer(const struct model_spec *spec, enum mixer_kind mixer,
                                           bool windowed) {
    for (uint32_t i = 0; i < spec->layer_count; i++)
        if (spec->layers[i].mixer == mixer && (spec->layers[i].attention.window > 0) == windowed)
            return &spec->layers[i];
    return NULL;
}

static const struct rope_spec *rope_of(const struct model_spec *spec,
                                       const struct layer_spec *layer) {
    if (!layer)
        return NULL;
    return &spec->ropes[layer->mixer == MIXER_LATENT ? layer->latent.rope_idx
                                                     : layer->attention.rope_idx];
}

/* A rotating table of layers that see all positions, else any. */
const struct rope_spec *export_main_rope(const struct model_spec *spec) {
    const struct rope_spec *full = rope_of(spec, find_layer(spec, MIXER_ATTENTION, false));
    if (full && full->kind != ROPE_NONE)
        return full;
    for (uint32_t i = 0; i < spec->rope_count; i++)
        if (spec->ropes[i].kind != ROPE_NONE)
            return &spec->ropes[i];
    return NULL;
}

static void put_yarn(const struct keys *k, const struct model_spec *spec,
                     const struct rope_spec *r) {
    const struct layer_spec *latent = find_layer(spec, MIXER_LATENT, false);
    put_int(k, "rope.scaling.original_context_length", (uint64_t)r->original_context);
    put_f32(k, "rope.scaling.yarn_beta_fast", r->beta_fast);
    put_f32(k, "rope.scaling.yarn_beta_slow", r->beta_slow);
    if (!latent) { /* what is multiplied to the usual 0.1 ln(factor) + 1 */
        put_f32(k, "rope.scaling.attn_factor", r->scale / (0.1 * log(r->factor) + 1));
        return;
    }
    double usual = 1 / sqrt((double)latent->latent.nope + latent->latent.rope);
    double mscale = sqrt((double)latent->latent.scale / usual);
    if (r->factor > 1 && mscale > 1)
        put_f32(k, "rope.scaling.yarn_log_multiplier", (mscale - 1) / log(r->factor));
}

static void put_rope(const struct keys *k, const struct model_spec *spec) {
    const struct rope_spec *r = export_main_rope(spec),
                           *local = rope_of(spec, find_layer(spec, MIXER_ATTENTION, true));
    if (is_arch(k, "granitehybrid"))
        put_bool(k, "rope.scaling.finetuned", r != NULL);
    if (!r)
        return;
    put_f32(k, "rope.freq_base", r->theta);
    put_int(k, "rope.dimension_count", r->dims);
    if (local && local != r && local->theta != r->theta && local->kind != ROPE_NONE)
        put_f32(k, "rope.freq_base_swa", local->theta);
    if (r->kind == ROPE_LINEAR || r->kind == ROPE_YARN) {
        put_text(k, "rope.scaling.type", r->kind == ROPE_LINEAR ? "linear" : "yarn");
        put_f32(k, "rope.scaling.factor", r->factor);
    }
    if (r->kind == ROPE_YARN)
        put_yarn(k, spec, r);
    if (r->kind != ROPE_LONG)
        return;
    put_f32(k, "rope.scaling.attn_factor", r->scale);
    put_int(k, "rope.scaling.original_context_length", (uint64_t)r->original_context);
}

/* ---- attention ---- */

static void put_windows(const struct keys *k, const struct model_spec *spec) {
    const struct layer_spec *windowed = find_layer(spec, MIXER_ATTENTION, true);
    char key[GGUF_NAME_MAX];
    if (!windowed)
        return;
    put_int(k, "attention.sliding_window", windowed->attention.window);
    gguf_put_array(k->w, key_of(k, "attention.sliding_window_pattern", key), GGUF_BOOL,
                   spec->layer_count);
    for (uint32_t i = 0; i < spec->layer_count; i++)
        gguf_add_bool(k->w, spec->layers[i].attention.window > 0);
}

/* Of hybrids layer by layer: 0 where a layer has no attention. */
static void put_kv_heads(const struct keys *k, const struct model_spec *spec, uint32_t kv_heads) {
    char key[GGUF_NAME_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < spec->layer_count; i++)
        count += spec->layers[i].mixer == MIXER_ATTENTION;
    if (count == spec->layer_count || find_layer(spec, MIXER_DELTA, false)) {
        put_int(k, "attention.head_count_kv", kv_heads);
        return;
    }
    gguf_put_array(k->w, key_of(k, "attention.head_count_kv", key), GGUF_I32, spec->layer_count);
    for (uint32_t i = 0; i < spec->layer_count; i++)
        gguf_add_i32(k->w, spec->layers[i].mixer == MIXER_ATTENTION ? (int32_t)kv_heads : 0);
}

static void put_heads(const struct keys *k, const struct model_spec *spec,
                      const struct attention_spec *a) {
    put_int(k, "attention.head_count", a->heads);
    put_kv_heads(k, spec, a->kv_heads);
    if (a->head_dim * a->heads != spec->hidden) {
        put_int(k, "attention.key_length", a->head_dim);
        put_int(k, "attention.value_length", a->head_dim);
    }
    if (a->soft_cap != 0)
        put_f32(k, "attn_logit_softcapping", (double)a->soft_cap);
    bool usual = fabs((double)a->scale * sqrt((double)a->head_dim) - 1) < 1e-6;
    if (!usual || is_granite(k))
        put_f32(k, "attention.scale", (double)a->scale);
    if (a->clip > 0)
        put_f32(k, "attention.clamp_kqv", (double)a->clip);
    if (a->alibi && !is_arch(k, "bloom"))
        put_f32(k, "attention.max_alibi_bias", 8);
    if (a->chunk)
        put_int(k, "attention.chunk_size", a->chunk);
    put_windows(k, spec);
    for (uint32_t i = 0; i < spec->layer_count; i++) {
        if (spec->layers[i].attention.temperature == 0)
            continue;
        put_f32(k, "attention.temperature_scale", (double)spec->layers[i].attention.temperature);
        if (is_arch(k, "llama4")) /* Ministral 3: the context it was first trained with */
            put_int(k, "attention.temperature_length",
                    (uint64_t)spec->layers[i].attention.temperature_floor);
        break;
    }
}

static void put_latent(const struct keys *k, const struct latent_spec *a) {
    put_int(k, "attention.head_count", a->heads);
    put_int(k, "attention.head_count_kv", 1);
    if (a->q_rank)
        put_int(k, "attention.q_lora_rank", a->q_rank);
    put_int(k, "attention.kv_lora_rank", a->rank);
    put_int(k, "attention.key_length", a->rank + a->rope);
    put_int(k, "attention.value_length", a->rank);
    put_int(k, "attention.key_length_mla", a->nope + a->rope);
    put_int(k, "attention.value_length_mla", a->value);
}

/* ---- states ---- */

static void put_state(const struct keys *k, const struct layer_spec *l) {
    const struct recurrent_spec *r = &l->recurrent;
    if (l->mixer == MIXER_SHORT_CONV) {
        put_int(k, "shortconv.l_cache", r->taps);
        return;
    }
    put_int(k, "ssm.conv_kernel", r->taps);
    put_int(k, "ssm.inner_size", r->width);
    put_int(k, "ssm.state_size", r->state_size);
    put_int(k, "ssm.time_step_rank", l->mixer == MIXER_MAMBA1 ? r->mamba1.rank : r->heads);
    if (l->mixer != MIXER_MAMBA1)
        put_int(k, "ssm.group_count", r->groups);
    if (is_arch(k, "mamba"))
        put_bool(k, "ssm.dt_b_c_rms", r->mamba1.dt_b_c_norms);
}

/* Which layers have the delta rule, as an array, and as older programs read it: how far apart the
 * others lie. Sections of the rotation are what text, which has one position, does not need. */
static void put_delta(const struct keys *k, const struct model_spec *spec) {
    const struct rope_spec *rope = export_main_rope(spec);
    uint32_t interval = 0, pairs = rope ? rope->dims / 2 : 0;
    char key[GGUF_NAME_MAX];
    while (interval < spec->layer_count && spec->layers[interval].mixer == MIXER_DELTA)
        interval++;
    put_int(k, "full_attention_interval", interval + 1);
    gguf_put_array(k->w, key_of(k, "attention.recurrent_layers", key), GGUF_BOOL,
                   spec->layer_count);
    for (uint32_t i = 0; i < spec->layer_count; i++)
        gguf_add_bool(k->w, spec->layers[i].mixer == MIXER_DELTA);
    if (!is_arch(k, "qwen35"))
        return;
    const uint32_t width = pairs / 3, height = (pairs - width) / 2,
                   sections[] = {pairs - width - height, height, width, 0};
    gguf_put_array(k->w, key_of(k, "rope.dimension_sections", key), GGUF_I32, ARRAY_LEN(sections));
    for (size_t i = 0; i < ARRAY_LEN(sections); i++)
        gguf_add_i32(k->w, (int32_t)sections[i]);
}

/* What layers mix with, by the first of each kind. */
static void put_mixers(const struct keys *k, const struct model_spec *spec) {
    static const enum mixer_kind STATES[] = {MIXER_MAMBA1, MIXER_MAMBA2, MIXER_SHORT_CONV,
                                             MIXER_DELTA};
    const struct layer_spec *full = find_layer(spec, MIXER_ATTENTION, false),
                            *heads = full ? full : find_layer(spec, MIXER_ATTENTION, true),
                            *latent = find_layer(spec, MIXER_LATENT, false), *state;
    if (latent)
        put_latent(k, &latent->latent);
    else if (heads)
        put_heads(k, spec, &heads->attention);
    else
        put_int(k, "attention.head_count", 0);
    for (size_t i = 0; i < ARRAY_LEN(STATES); i++)
        if ((state = find_layer(spec, STATES[i], false)))
            put_state(k, state);
    if (find_layer(spec, MIXER_DELTA, false))
        put_delta(k, spec);
}

/* ---- experts ---- */

static void put_router(const struct keys *k, const struct router *r) {
    bool sigmoid = r->score == ROUTE_SIGMOID || r->weight == ROUTE_BY_SIGMOID;
    put_int(k, "expert_count", r->experts);
    put_int(k, "expert_used_count", r->top_k);
    put_int(k, "expert_gating_func", sigmoid ? 2 : 1);
    put_bool(k, "expert_weights_norm", r->renormalise);
    put_f32(k, "expert_weights_scale", (double)r->scale);
    if (r->groups > 1)
        put_int(k, "expert_group_count", r->groups);
    if (r->groups > 1)
        put_int(k, "expert_group_used_count", r->groups_kept);
}

/* How far apart layers with experts lie; 1: side by side. */
static uint32_t expert_step(const struct model_spec *spec, uint32_t first) {
    for (uint32_t i = first + 1; i < spec->layer_count; i++)
        if (spec->layers[i].ffn.kind == FFN_MOE)
            return i - first;
    return first + 1;
}

static void put_experts(const struct keys *k, const struct model_spec *spec) {
    uint32_t first = 0;
    while (first < spec->layer_count && spec->layers[first].ffn.kind != FFN_MOE)
        first++;
    if (first == spec->layer_count)
        return;
    const struct moe_spec *moe = &spec->layers[first].moe;
    put_router(k, &moe->router);
    put_int(k, "expert_feed_forward_length", moe->width);
    if (moe->shared_width)
        put_int(k, "expert_shared_feed_forward_length", moe->shared_width);
    if (moe->shared_width && !moe->shared_gate)
        put_int(k, "expert_shared_count", moe->shared_width / moe->width);
    if (moe->latent)
        put_int(k, "moe_latent_size", moe->latent);
    if (is_arch(k, "llama4"))
        put_int(k, "interleave_moe_layer_step", expert_step(spec, first));
    else
        put_int(k, "leading_dense_block_count", first);
}

/* ---- the whole ---- */

static void put_ends(const struct keys *k, const struct model_spec *spec) {
    const struct layer_spec *l = &spec->layers[0];
    put_f32(k,
            spec->final_norm.kind == NORM_LAYER ? "attention.layer_norm_epsilon"
                                                : "attention.layer_norm_rms_epsilon",
            (double)spec->final_norm.eps);
    if (spec->final_norm.kind == NORM_RMS &&
        !strncmp(k->arch->name, "nemotron_h", 10)) /* llama.cpp wants both */
        put_f32(k, "attention.layer_norm_epsilon", (double)spec->final_norm.eps);
    if (spec->logit_soft_cap != 0)
        put_f32(k, "final_logit_softcapping", (double)spec->logit_soft_cap);
    if (is_granite(k)) {
        put_f32(k, "embedding_scale", (double)spec->embed_scale);
        put_f32(k, "residual_scale", (double)l->residual_scale);
        put_f32(k, "logit_scale", 1 / (double)spec->logit_scale);
    } else if (spec->logit_scale != 1) {
        put_f32(k, "logit_scale", (double)spec->logit_scale);
    }
    if (is_arch(k, "gptneox") || is_arch(k, "stablelm"))
        put_bool(k, "use_parallel_residual", l->parallel);
}

static uint32_t ffn_width(const struct layer_spec *l) {
    return l->ffn.kind == FFN_NONE ? 0 : l->ffn.width ? l->ffn.width : l->moe.width;
}

/* Layer by layer where some have no feed-forward and others have one. */
static void put_ffn_widths(const struct keys *k, const struct model_spec *spec) {
    char key[GGUF_NAME_MAX];
    uint32_t none = 0;
    for (uint32_t i = 0; i < spec->layer_count; i++)
        none += spec->layers[i].ffn.kind == FFN_NONE;
    if (none == 0 || none == spec->layer_count) {
        put_int(k, "feed_forward_length", ffn_width(&spec->layers[0]));
        return;
    }
    gguf_put_array(k->w, key_of(k, "feed_forward_length", key), GGUF_I32, spec->layer_count);
    for (uint32_t i = 0; i < spec->layer_count; i++)
        gguf_add_i32(k->w, (int32_t)ffn_width(&spec->layers[i]));
}

void export_gguf_keys(struct gguf_writer *w, const struct model *model,
                      const struct gguf_arch *arch, enum storage_type matrices) {
    static const struct {
        enum storage_type type;
        uint32_t file_type; /* llama.cpp's */
    } FILE_TYPES[] = {{STORAGE_F32, 0},   {STORAGE_F16, 1},   {STORAGE_BF16, 32},
                      {STORAGE_Q4_0, 2},  {STORAGE_Q4_1, 3},  {STORAGE_Q8_0, 7},
                      {STORAGE_Q5_0, 8},  {STORAGE_Q5_1, 9},  {STORAGE_Q2_K, 10},
                      {STORAGE_Q3_K, 12}, {STORAGE_Q4_K, 15}, {STORAGE_Q5_K, 17},
                      {STORAGE_Q6_K, 18}};
    const struct model_spec *spec = &model->spec;
    const struct keys k = {w, arch};
    gguf_put_string(w, "general.architecture", bytes_str(arch->name));
    gguf_put_int(w, "general.quantization_version", GGUF_U32, 2);
    for (size_t i = 0; i < ARRAY_LEN(FILE_TYPES); i++)
        if (FILE_TYPES[i].type == matrices)
            gguf_put_int(w, "general.file_type", GGUF_U32, FILE_TYPES[i].file_type);
    put_int(&k, "block_count", spec->layer_count);
    put_int(&k, "context_length", spec->max_context);
    put_int(&k, "embedding_length", spec->hidden);
    put_ffn_widths(&k, spec);
    put_int(&k, "vocab_size", spec->vocab);
    put_mixers(&k, spec);
    put_rope(&k, spec);
    put_experts(&k, spec);
    put_ends(&k, spec);
}
