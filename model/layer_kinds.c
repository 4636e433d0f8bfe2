#include "model/layer_kinds.h"

const struct layer_kind *const MIXERS[MIXER_KIND_COUNT] = {
    [MIXER_ATTENTION] = &mixer_attention,
    [MIXER_LATENT] = &mixer_latent,
};

const struct layer_kind *const FFNS[FFN_KIND_COUNT] = {
    [FFN_GATED] = &ffn_gated,
    [FFN_MOE] = &ffn_moe,
};
