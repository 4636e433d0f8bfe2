/* The family "oxidizr": from the configuration that oxidizr.c makes to layers. */
#include <math.h>

#include "model/spec_read.h"

const struct layer_type OXIDIZR_TYPES[] = {{"mamba", MIXER_MAMBA1, false},
                                           {"mamba2", MIXER_MAMBA2, false},
                                           {"mamba3", MIXER_MAMBA3, false},
                                           {"latent_dense", MIXER_LATENT, false},
                                           {"latent_experts", MIXER_LATENT, false},
                                           {"attention_dense", MIXER_ATTENTION, false},
                                           {"attention_experts", MIXER_ATTENTION, false},
                                           {NULL, 0, false}};

void kinds_oxidizr(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    const char *name = read_layer_type(r, layer);
    if (!name) return;
    bool attention = out->mixer == MIXER_ATTENTION || out->mixer == MIXER_LATENT;
    out->ffn.kind = !attention ? FFN_NONE : strstr(name, "experts") ? FFN_MOE : FFN_GATED;
}

int oxidizr_mamba1_read(struct spec_reader *r, struct recurrent_spec *s) {
    s->width = read_count(r, "mamba1_width", 0, SPEC_FFN_MAX);
    s->state_size = read_count(r, "mamba1_state_size", 0, SPEC_STATE_MAX);
    s->taps = read_count(r, "mamba1_conv_kernel", 0, CONV_TAPS_MAX);
    s->rank = read_count(r, "mamba1_rank", 0, SPEC_FFN_MAX);
    s->conv_bias = s->rising = true;
    s->state_limit = 30;
    s->step_high = INFINITY;
    return r->config->error.code;
}

int oxidizr_mamba3_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    struct recurrent_spec *s = &out->recurrent;
    s->heads = read_count(r, "mamba3_heads", 0, SPEC_HEADS_MAX);
    s->head_dim = read_count(r, "mamba3_head_dim", 0, SPEC_FFN_MAX);
    s->groups = read_count(r, "mamba3_groups", 0, SPEC_HEADS_MAX);
    s->state_size = read_count(r, "mamba3_state_size", 0, TRAPEZOID_STATE_MAX);
    s->turns = read_bool(r, "mamba3_turns", true);
    if (read_has(r, "mamba3_conv_kernel")) s->taps = read_count(r, "mamba3_conv_kernel", 0, CONV_TAPS_MAX);
    if (read_has(r, "mamba3_widening")) s->widening = read_count(r, "mamba3_widening", 0, SPEC_FFN_MAX);
    if (config_failed(r->config)) return r->config->error.code;
    if ((uint64_t)s->heads * s->head_dim * MAX(s->widening, 1u) > SPEC_FFN_MAX || s->heads % s->groups)
        return config_fail(r->config, ERR_INVALID, "heads, head size and groups of the state space do not fit");
    s->width = s->heads * s->head_dim;
    s->conv_bias = s->in_bias = s->out_bias = true;
    s->inner_norm = INNER_NORM_GATE_FIRST;
    s->step_low = 0.001f;
    s->step_high = 0.1f;
    return 0;
}

/* Mamba 2 and 3 stand behind a layer norm, and their own norm has one group, however many B and C have. */
void finish_oxidizr(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    if (out->mixer != MIXER_MAMBA2 && out->mixer != MIXER_MAMBA3) return;
    out->mixer_norm = (struct norm_spec){.kind = NORM_LAYER, .bias = true, .eps = 1e-6f};
    out->recurrent.eps = 1e-6f;
    out->recurrent.norm_group = out->recurrent.width;
}
