/* The family "oxidizr": from the configuration that oxidizr.c makes to layers. */
#include <math.h>

#include "model/spec_read.h"

const struct layer_type OXIDIZR_TYPES[] = {{"mamba", MIXER_MAMBA1, false},
                                           {"mamba2", MIXER_MAMBA2, false},
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

/* Mamba 2 stands behind a layer norm, and its own norm has one group, however many B and C have. */
void finish_oxidizr(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    if (out->mixer != MIXER_MAMBA2) return;
    out->mixer_norm = (struct norm_spec){.kind = NORM_LAYER, .bias = true, .eps = 1e-6f};
    out->recurrent.eps = 1e-6f;
    out->recurrent.norm_group = out->recurrent.width;
}
