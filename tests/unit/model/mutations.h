/*
 * mutations.h - one wrong turn for each option a spec can have. A golden that uses the option must then fail clearly:
 * that is what shows that the option is computed, and that the golden would notice if it were not.
 *
 * apply changes an opened model (on the CPU device) and says whether it found the option; everything is undone by
 * opening the model anew.
 */
#ifndef TESTS_UNIT_MODEL_MUTATIONS_H
#define TESTS_UNIT_MODEL_MUTATIONS_H

#include "model/ffn_dense.h"
#include "model/mixer_attention.h"
#include "model/rope.h"
#include "rig.h"

struct mutation {
    const char *name;
    bool (*apply)(struct model *m);
};

/* Applies a statement to each layer L (with its weights W) where COND holds. */
#define EACH_LAYER(cond, statement)                                                                                    \
    bool found = false;                                                                                                \
    for (uint32_t i = 0; i < m->spec.layer_count; i++) {                                                               \
        struct layer_spec *L = &m->spec.layers[i];                                                                     \
        struct layer_weights *W = &m->weights.layers[i];                                                               \
        (void)L, (void)W;                                                                                              \
        if (!(cond)) continue;                                                                                         \
        found = true;                                                                                                  \
        statement;                                                                                                     \
    }                                                                                                                  \
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
        if (rope->kind == ROPE_NONE || !change(rope)) continue;
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
    bool scaled = rope->kind != ROPE_DEFAULT && rope->kind != ROPE_DYNAMIC && rope->kind != ROPE_LONG;
    rope->kind = scaled ? ROPE_DEFAULT : rope->kind;
    return scaled;
}
static inline bool change_dims(struct rope_spec *rope) {
    if (rope->dims < 8) return false;
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
MUTATION(rope_theta) { return mutate_ropes(m, change_theta); }
MUTATION(rope_kind) { return mutate_ropes(m, change_kind); }
MUTATION(rope_dims) { return mutate_ropes(m, change_dims); }
MUTATION(rope_style) { return mutate_ropes(m, change_style); }
MUTATION(rope_scale) { return mutate_ropes(m, change_scale); }
MUTATION(rope_everywhere) {
    bool none = false;
    uint32_t some = SPEC_ROPES_MAX;
    for (uint32_t i = 0; i < m->spec.rope_count; i++)
        if (m->spec.ropes[i].kind)
            some = i;
        else
            none = true;
    if (!none || some == SPEC_ROPES_MAX) return false;
    EACH_LAYER(ATTENTION(!m->spec.ropes[L->attention.rope_idx].kind), L->attention.rope_idx = some);
}
MUTATION(rope_table) { /* the other table, where layers have two */
    if (m->spec.rope_count < 2 || !m->spec.ropes[0].kind || !m->spec.ropes[1].kind) return false;
    EACH_LAYER(ATTENTION(L->attention.rope_idx < 2), L->attention.rope_idx ^= 1);
}

/* ---- attention ---- */

MUTATION(no_window) { EACH_LAYER(ATTENTION(L->attention.window), L->attention.window = 0); }
MUTATION(window_by_one) { EACH_LAYER(ATTENTION(L->attention.window), L->attention.window++); }
MUTATION(qkv_bias) { EACH_LAYER(ATTENTION(ATTENTION_WEIGHTS->qkv.bias), ATTENTION_WEIGHTS->qkv.bias = NULL); }
MUTATION(out_bias) { EACH_LAYER(ATTENTION(ATTENTION_WEIGHTS->out.bias), ATTENTION_WEIGHTS->out.bias = NULL); }
MUTATION(attention_scale) { EACH_LAYER(ATTENTION(true), L->attention.scale *= 1.5f); }

/* ---- feed-forward ---- */

MUTATION(activation) {
    EACH_LAYER(DENSE(true),
               L->ffn.activation = L->ffn.activation == ACTIVATION_SILU ? ACTIVATION_GELU_TANH : ACTIVATION_SILU);
}
MUTATION(up_bias) {
    EACH_LAYER(DENSE(((struct ffn_weights *)W->ffn)->up.bias), ((struct ffn_weights *)W->ffn)->up.bias = NULL);
}
MUTATION(down_bias) {
    EACH_LAYER(DENSE(((struct ffn_weights *)W->ffn)->down.bias), ((struct ffn_weights *)W->ffn)->down.bias = NULL);
}

/* ---- norms and ends ---- */

MUTATION(norm_offset) {
    m->spec.final_norm.weight_offset = 1 - m->spec.final_norm.weight_offset;
    EACH_LAYER(true, L->mixer_norm.weight_offset = L->ffn_norm.weight_offset = 1 - L->ffn_norm.weight_offset);
}
MUTATION(embed_scale) {
    bool found = m->spec.embed_scale != 1;
    m->spec.embed_scale = 1;
    return found;
}

#define MUTATION_ROW(name)                                                                                             \
    { #name, mutate_##name }
static const struct mutation MUTATIONS[] = {
    MUTATION_ROW(rope_theta),    MUTATION_ROW(rope_kind),       MUTATION_ROW(rope_dims),  MUTATION_ROW(rope_style),
    MUTATION_ROW(rope_scale),    MUTATION_ROW(rope_everywhere), MUTATION_ROW(rope_table), MUTATION_ROW(no_window),
    MUTATION_ROW(window_by_one), MUTATION_ROW(qkv_bias),        MUTATION_ROW(out_bias),   MUTATION_ROW(attention_scale),
    MUTATION_ROW(activation),    MUTATION_ROW(up_bias),         MUTATION_ROW(down_bias),  MUTATION_ROW(norm_offset),
    MUTATION_ROW(embed_scale),
};

#endif
