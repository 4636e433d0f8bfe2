/* ffn_moe.h - what a spec says of a mixture of experts. */
#ifndef MODEL_FFN_MOE_H
#define MODEL_FFN_MOE_H

#include "kernels/ops_expert.h"

/* FFN_MOE (kernels/ops_expert.h); ffn_spec.activation is that of its experts. */
struct moe_spec {
    struct router router;
    uint32_t width;        /* of an expert */
    uint32_t shared_width; /* of the expert every row passes; 0: none */
    bool shared_gate;      /* scaled by a sigmoid of a product of its own */
    bool correction, router_bias, expert_bias;
    bool plain;         /* experts and shared expert have no gate: down(f(up(x))) */
    bool inner_bias;    /* with it: of the shared expert and of the latent's products */
    uint32_t latent;    /* experts work on a latent of this width; 0: on the hidden state */
    bool weigh_input;   /* weights scale what goes in, not what comes out */
    bool clamped;       /* op_clamped_swiglu, not the activation */
    bool interleaved;   /* with it: gate, up, gate, up, ... */
    bool mxfp4;         /* the folder has the experts as blocks and scales (model/load/mxfp4.h) */
    float limit, alpha; /* of it */
};

#endif
