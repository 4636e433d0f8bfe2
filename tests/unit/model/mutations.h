/*
 * mutations.h - one wrong turn for each option a spec can have. A golden that uses the option must
 * then fail clearly: that is what shows that the option is computed, and that the golden would
 * notice if it were not.
 *
 * apply changes an opened model (on the CPU device) and says whether it found the option;
 * everything is undone by opening the model anew.
 */
#ifndef TESTS_UNIT_MODEL_MUTATIONS_H
#define TESTS_UNIT_MODEL_MUTATIONS_H

#include "model/run/attention_weights.h"
#include "model/run/ffn_dense.h"
#include "model/run/ffn_moe_weights.h"
#include "model/run/latent_weights.h"
#include "model/run/rope.h"
#include "rig.h"

struct mutation {
    const char *name;
    bool (*apply)(struct model *m);
};

/* Applies a statement to each layer L (with its weights W) where COND holds. */
#define EACH_LAYER(cond, statement)                                                                \
    bool found = false;                                                                            \
    for (uint32_t i = 0; i < m->spec.layer_count; i++) {                                           \
        struct layer_spec *L = &m->spec.layers[i];                                                 \
        struct layer_weights *W = &m->weights.layers[i];                                           \
        (void)L, (void)W;                                                                          \
        if (!(cond))                                                                               \
            continue;                                                                              \
        found = true;                                                                              \
        statement;                                                                                 \
    }                                                                                              \
    return found

#define MUTATION(name)    static inline bool mutate_##name(struct model *m)
#define ATTENTION(cond)   (L->mixer == MIXER_ATTENTION && (cond))
#define ATTENTION_WEIGHTS ((struct attention_weights *)W->mixer)
#define DENSE(cond)       ((L->ffn.kind == FFN_GATED || L->ffn.kind == FFN_PLAIN) && (cond))

/* ---- rotary tables ---- */

static inline bool mutate_ropes(struct model *m, bool (*change)(struct rope_spec *rope)) {
    bool found = false;
    for (uint32_t i = 0; i < m->spec.rope_count; i++) {
        struct rope_spec *rope = &m->spec.ropes[i];
        if (rope->kind == ROPE_NONE || !change(rope))
            continue;
        rope_inv_freq(rope, 1, m->inv_freq[i]);
        found = true;
    }
    return found;
}
static inline bool change_theta(struct rope_spec *rope) {
    rope->theta *= 3;
    return true;
}
static inline bool change_kind(struct rope_spec *rope) {
    bool scaled = rope->kind != ROPE_DEFAULT;
    rope->kind = scaled ? ROPE_DEFAULT : rope->kind;
    return scaled;
}
static inline bool change_dims(struct rope_spec *rope) {
    if (rope->dims < 8)
        return false;
    rope->dims -= 4;
    return true;
}
static inline bool change_style(struct rope_spec *rope) {
    rope->interleaved = !rope->interleaved;
    return rope->dims > 2;
}
static inline bool change_scale(struct rope_spec *rope) {
    bool scaled = rope->scale != 1;
    rope->scale = 1;
    return scaled;
}
MUTATION(rope_theta) {
    return mutate_ropes(m, change_theta);
}
MUTATION(rope_kind) {
    return mutate_ropes(m, change_kind);
}
MUTATION(rope_dims) {
    return mutate_ropes(m, change_dims);
}
MUTATION(rope_style) {
    return mutate_ropes(m, change_style);
}
MUTATION(rope_scale) {
    return mutate_ropes(m, change_scale);
}
MUTATION(rope_everywhere) {
    bool none = false;
    uint32_t some = SPEC_ROPES_MAX;
    for (uint32_t i = 0; i < m->spec.rope_count; i++)
        if (m->spec.ropes[i].kind)
            some = i;
        else
            none = true;
    if (!none || some == SPEC_ROPES_MAX)
        return false;
    EACH_LAYER(ATTENTION(!m->spec.ropes[L->attention.rope_idx].kind), L->attention.rope_idx = some);
}
MUTATION(rope_table) { /* the other table, where layers have two */
    if (m->spec.rope_count < 2 || !m->spec.ropes[0].kind || !m->spec.ropes[1].kind)
        return false;
    EACH_LAYER(ATTENTION(L->attention.rope_idx < 2), L->attention.rope_idx ^= 1);
}

/* ---- attention ---- */

MUTATION(no_window) {
    EACH_LAYER(ATTENTION(L->attention.window), L->attention.window = 0);
}
MUTATION(window_by_one) {
    EACH_LAYER(ATTENTION(L->attention.window), L->attention.window++);
}
MUTATION(qkv_bias) {
    EACH_LAYER(ATTENTION(ATTENTION_WEIGHTS->qkv.bias), ATTENTION_WEIGHTS->qkv.bias = NULL);
}
MUTATION(out_bias) {
    EACH_LAYER(ATTENTION(ATTENTION_WEIGHTS->out.bias), ATTENTION_WEIGHTS->out.bias = NULL);
}
MUTATION(soft_cap) {
    EACH_LAYER(ATTENTION(L->attention.soft_cap != 0), L->attention.soft_cap = 0);
}
MUTATION(no_alibi) {
    EACH_LAYER(ATTENTION(ATTENTION_WEIGHTS->slopes), ATTENTION_WEIGHTS->slopes = NULL);
}
MUTATION(clip) {
    EACH_LAYER(ATTENTION(L->attention.clip != 0), L->attention.clip = 0);
}
MUTATION(qk_norm) {
    EACH_LAYER(ATTENTION(L->attention.qk_norm), L->attention.qk_norm = QK_NORM_NONE);
}
MUTATION(qk_norm_kind) {
    EACH_LAYER(ATTENTION(L->attention.qk_norm),
               L->attention.q_norm.kind =
                   L->attention.q_norm.kind == NORM_RMS ? NORM_LAYER : NORM_RMS);
}
MUTATION(qk_norm_bias) {
    EACH_LAYER(ATTENTION(ATTENTION_WEIGHTS->q_norm.bias),
               ATTENTION_WEIGHTS->q_norm.bias = ATTENTION_WEIGHTS->k_norm.bias = NULL);
}
MUTATION(attention_scale) {
    EACH_LAYER(ATTENTION(true), L->attention.scale *= 1.5f);
}

/* ---- feed-forward ---- */

MUTATION(activation) {
    EACH_LAYER(DENSE(true), L->ffn.activation = L->ffn.activation == ACTIVATION_SILU
                                                    ? ACTIVATION_GELU_TANH
                                                    : ACTIVATION_SILU);
}
MUTATION(up_bias) {
    EACH_LAYER(DENSE(((struct ffn_weights *)W->ffn)->up.bias),
               ((struct ffn_weights *)W->ffn)->up.bias = NULL);
}
MUTATION(down_bias) {
    EACH_LAYER(DENSE(((struct ffn_weights *)W->ffn)->down.bias),
               ((struct ffn_weights *)W->ffn)->down.bias = NULL);
}

/* ---- mixtures of experts ---- */

#define EXPERTS(cond)   (L->ffn.kind == FFN_MOE && (cond))
#define EXPERTS_WEIGHTS ((struct moe_weights *)W->ffn)
#define BY_SCORE        (L->moe.router.weight == ROUTE_BY_SCORE)
#define ONE_BY_ONE                                                                                 \
    (L->moe.router.renormalise && L->moe.router.top_k == 1) /* then every weight is 1 */
MUTATION(top_k) {
    EACH_LAYER(EXPERTS(L->moe.router.top_k > 1), L->moe.router.top_k--);
}
MUTATION(renormalise) {
    EACH_LAYER(EXPERTS(BY_SCORE), L->moe.router.renormalise ^= true);
}
MUTATION(route_scale) {
    EACH_LAYER(EXPERTS(true), L->moe.router.scale *= 1.5f);
}
MUTATION(route_score) {
    EACH_LAYER(EXPERTS(BY_SCORE && !ONE_BY_ONE),
               L->moe.router.score =
                   L->moe.router.score == ROUTE_SOFTMAX ? ROUTE_SIGMOID : ROUTE_SOFTMAX);
}
MUTATION(groups) {
    EACH_LAYER(EXPERTS(L->moe.router.groups > 1), L->moe.router.groups = 0);
}
MUTATION(group_best) {
    EACH_LAYER(EXPERTS(L->moe.router.groups > 1),
               L->moe.router.group_best = 3 - L->moe.router.group_best);
}
MUTATION(correction) {
    EACH_LAYER(EXPERTS(EXPERTS_WEIGHTS->correction), EXPERTS_WEIGHTS->correction = NULL);
}
MUTATION(router_bias) {
    EACH_LAYER(EXPERTS(EXPERTS_WEIGHTS->router.bias), EXPERTS_WEIGHTS->router.bias = NULL);
}
MUTATION(expert_bias) {
    EACH_LAYER(EXPERTS(EXPERTS_WEIGHTS->up.experts[0].bias),
               for (uint32_t e = 0; e < L->moe.router.experts;
                    e++)((struct matrix *)EXPERTS_WEIGHTS->up.experts)[e]
                   .bias = NULL);
}
MUTATION(expert_down_bias) {
    EACH_LAYER(EXPERTS(EXPERTS_WEIGHTS->down.experts[0].bias),
               for (uint32_t e = 0; e < L->moe.router.experts;
                    e++)((struct matrix *)EXPERTS_WEIGHTS->down.experts)[e]
                   .bias = NULL);
}
MUTATION(no_shared) {
    EACH_LAYER(EXPERTS(L->moe.shared_width), L->moe.shared_width = 0);
}
MUTATION(shared_gate) {
    EACH_LAYER(EXPERTS(L->moe.shared_gate), L->moe.shared_gate = false);
}
MUTATION(weigh_input) {
    EACH_LAYER(EXPERTS(L->moe.weigh_input), L->moe.weigh_input = false);
}
MUTATION(clamp) {
    EACH_LAYER(EXPERTS(L->moe.clamped), L->moe.limit = 1e9f);
}
MUTATION(clamp_alpha) {
    EACH_LAYER(EXPERTS(L->moe.clamped), L->moe.alpha = 1);
}
MUTATION(expert_activation) {
    EACH_LAYER(EXPERTS(!L->moe.clamped), L->ffn.activation = L->ffn.activation == ACTIVATION_SILU
                                                                 ? ACTIVATION_GELU_TANH
                                                                 : ACTIVATION_SILU);
}

/* ---- latent attention, sinks ---- */

#define LATENT(cond)   (L->mixer == MIXER_LATENT && (cond))
#define LATENT_WEIGHTS ((struct latent_weights *)W->mixer)
MUTATION(latent_scale) {
    EACH_LAYER(LATENT(true), L->latent.scale *= 1.5f);
}
MUTATION(latent_norm) {
    EACH_LAYER(LATENT(LATENT_WEIGHTS->kv_norm.weight), LATENT_WEIGHTS->kv_norm.weight = NULL);
}
MUTATION(latent_q_norm) {
    EACH_LAYER(LATENT(LATENT_WEIGHTS->q_norm.weight),
               LATENT_WEIGHTS->q_norm.weight = LATENT_WEIGHTS->kv_norm.weight);
}
MUTATION(latent_bias) {
    EACH_LAYER(LATENT(LATENT_WEIGHTS->kv_down.bias), LATENT_WEIGHTS->kv_down.bias = NULL);
}
MUTATION(latent_out_bias) {
    EACH_LAYER(LATENT(LATENT_WEIGHTS->out.bias), LATENT_WEIGHTS->out.bias = NULL);
}
MUTATION(no_chunk) {
    EACH_LAYER(ATTENTION(L->attention.chunk), L->attention.chunk = 0);
}
MUTATION(chunk_by_one) {
    EACH_LAYER(ATTENTION(L->attention.chunk), L->attention.chunk++);
}
MUTATION(temperature) {
    EACH_LAYER(ATTENTION(L->attention.temperature != 0), L->attention.temperature = 0);
}
MUTATION(temperature_floor) {
    EACH_LAYER(ATTENTION(L->attention.temperature != 0), L->attention.temperature_floor *= 2);
}
MUTATION(temperature_offset) {
    EACH_LAYER(ATTENTION(L->attention.temperature != 0),
               L->attention.temperature_offset = 1 - L->attention.temperature_offset);
}
MUTATION(no_sinks) {
    EACH_LAYER(ATTENTION(ATTENTION_WEIGHTS->sinks), ATTENTION_WEIGHTS->sinks = NULL);
}

#include "mutations_state.h"

/* ---- norms and ends ---- */

MUTATION(norm_offset) {
    m->spec.final_norm.weight_offset = 1 - m->spec.final_norm.weight_offset;
    EACH_LAYER(true, L->mixer_norm.weight_offset = L->ffn_norm.weight_offset =
                         1 - L->ffn_norm.weight_offset);
}
#define NORM_FLIPPED(norm) ((norm).kind == NORM_RMS ? NORM_LAYER : NORM_RMS)
MUTATION(norm_kind) {
    EACH_LAYER(L->mixer_norm.kind && L->ffn_norm.kind,
               L->mixer_norm.kind = L->ffn_norm.kind = NORM_FLIPPED(L->mixer_norm));
}
MUTATION(norm_bias) {
    EACH_LAYER(W->mixer_norm.bias, W->mixer_norm.bias = W->ffn_norm.bias = NULL);
}
MUTATION(no_mixer_post) {
    EACH_LAYER(L->mixer_post.kind, L->mixer_post.kind = NORM_NONE);
}
MUTATION(no_ffn_post) {
    EACH_LAYER(L->ffn_post.kind, L->ffn_post.kind = NORM_NONE);
}
MUTATION(norm_last) {
    EACH_LAYER(L->norm_last, L->norm_last = false);
}
MUTATION(serial) {
    EACH_LAYER(L->parallel && L->ffn_norm.kind, L->parallel = false);
}
MUTATION(one_norm) {
    EACH_LAYER(L->parallel && L->ffn_norm.kind, L->ffn_norm.kind = NORM_NONE);
}
MUTATION(residual_scale) {
    EACH_LAYER(L->residual_scale != 1, L->residual_scale = 1);
}
MUTATION(ffn_scale) {
    EACH_LAYER(L->ffn_scale != 1, L->ffn_scale = 1);
}
MUTATION(no_expert_latent_bias) {
    EACH_LAYER(L->ffn.kind == FFN_MOE && EXPERTS_WEIGHTS->latent_out.bias,
               EXPERTS_WEIGHTS->latent_out.bias = NULL);
}
MUTATION(embed_norm) {
    bool found = m->spec.embed_norm.kind != NORM_NONE;
    m->spec.embed_norm.kind = NORM_NONE;
    return found;
}
MUTATION(logit_scale) {
    bool found = m->spec.logit_scale != 1;
    m->spec.logit_scale = 1;
    return found;
}
MUTATION(logit_cap) {
    bool found = m->spec.logit_soft_cap != 0;
    m->spec.logit_soft_cap = 0;
    return found;
}
MUTATION(head_bias) {
    bool found = m->weights.head.bias != NULL;
    m->weights.head.bias = NULL;
    return found;
}
MUTATION(no_positions) {
    bool found = m->spec.learned_positions > 0;
    m->spec.learned_positions = 0;
    return found;
}
MUTATION(position_offset) {
    bool found = m->spec.position_offset > 0;
    m->spec.position_offset = 0;
    return found;
}
MUTATION(final_norm_bias) {
    bool found = m->weights.final_norm.bias != NULL;
    m->weights.final_norm.bias = NULL;
    return found;
}
MUTATION(embed_scale) {
    bool found = m->spec.embed_scale != 1;
    m->spec.embed_scale = 1;
    return found;
}

#define MUTATION_ROW(name)                                                                         \
    { #name, mutate_##name }
static const struct mutation MUTATIONS[] = {
    STATE_MUTATIONS,
    MUTATION_ROW(soft_cap),
    MUTATION_ROW(no_alibi),
    MUTATION_ROW(clip),
    MUTATION_ROW(qk_norm),
    MUTATION_ROW(qk_norm_kind),
    MUTATION_ROW(qk_norm_bias),
    MUTATION_ROW(norm_kind),
    MUTATION_ROW(norm_bias),
    MUTATION_ROW(no_mixer_post),
    MUTATION_ROW(no_ffn_post),
    MUTATION_ROW(norm_last),
    MUTATION_ROW(serial),
    MUTATION_ROW(one_norm),
    MUTATION_ROW(residual_scale),
    MUTATION_ROW(ffn_scale),
    MUTATION_ROW(no_expert_latent_bias),
    MUTATION_ROW(embed_norm),
    MUTATION_ROW(logit_scale),
    MUTATION_ROW(logit_cap),
    MUTATION_ROW(head_bias),
    MUTATION_ROW(no_positions),
    MUTATION_ROW(position_offset),
    MUTATION_ROW(final_norm_bias),
    MUTATION_ROW(rope_theta),
    MUTATION_ROW(rope_kind),
    MUTATION_ROW(rope_dims),
    MUTATION_ROW(rope_style),
    MUTATION_ROW(rope_scale),
    MUTATION_ROW(rope_everywhere),
    MUTATION_ROW(rope_table),
    MUTATION_ROW(no_window),
    MUTATION_ROW(window_by_one),
    MUTATION_ROW(qkv_bias),
    MUTATION_ROW(out_bias),
    MUTATION_ROW(attention_scale),
    MUTATION_ROW(activation),
    MUTATION_ROW(up_bias),
    MUTATION_ROW(down_bias),
    MUTATION_ROW(norm_offset),
    MUTATION_ROW(embed_scale),
    MUTATION_ROW(top_k),
    MUTATION_ROW(renormalise),
    MUTATION_ROW(route_scale),
    MUTATION_ROW(route_score),
    MUTATION_ROW(groups),
    MUTATION_ROW(group_best),
    MUTATION_ROW(correction),
    MUTATION_ROW(router_bias),
    MUTATION_ROW(expert_bias),
    MUTATION_ROW(expert_down_bias),
    MUTATION_ROW(no_shared),
    MUTATION_ROW(shared_gate),
    MUTATION_ROW(weigh_input),
    MUTATION_ROW(clamp),
    MUTATION_ROW(clamp_alpha),
    MUTATION_ROW(expert_activation),
    MUTATION_ROW(latent_scale),
    MUTATION_ROW(latent_norm),
    MUTATION_ROW(latent_q_norm),
    MUTATION_ROW(latent_bias),
    MUTATION_ROW(latent_out_bias),
    MUTATION_ROW(no_sinks),
    MUTATION_ROW(no_chunk),
    MUTATION_ROW(chunk_by_one),
    MUTATION_ROW(temperature),
    MUTATION_ROW(temperature_floor),
    MUTATION_ROW(temperature_offset),
};

#endif
