#include "model/run/layer_kinds.h"

const struct layer_kind *const MIXERS[MIXER_KIND_COUNT] = {
    [MIXER_ATTENTION] = &mixer_attention,   [MIXER_LATENT] = &mixer_latent,
    [MIXER_MAMBA1] = &mixer_mamba1,         [MIXER_MAMBA2] = &mixer_mamba2,
    [MIXER_MAMBA3] = &mixer_mamba3,         [MIXER_DELTA] = &mixer_delta,
    [MIXER_SHORT_CONV] = &mixer_short_conv, [MIXER_RGLRU] = &mixer_rglru,
    [MIXER_RWKV4] = &mixer_rwkv4,           [MIXER_RWKV6] = &mixer_rwkv6,
    [MIXER_RWKV7] = &mixer_rwkv7,
};

const struct layer_kind *const FFNS[FFN_KIND_COUNT] = {
    [FFN_RWKV] = &ffn_rwkv,
    [FFN_GATED] = &ffn_gated,
    [FFN_PLAIN] = &ffn_plain,
    [FFN_MOE] = &ffn_moe,
};
