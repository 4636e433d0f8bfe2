/*
 * moe_read.h - what a family says of its mixture of experts (a row of spec_read.h points to one of
 * these), and the reading of it. Fields and rules as in spec_read.h.
 */
#ifndef MODEL_MOE_READ_H
#define MODEL_MOE_READ_H

#include "model/read/spec_read.h"

/* Which layers have experts; the others have a dense feed-forward. */
enum moe_layers {
    MOE_ALL,
    MOE_AFTER_FIRST, /* from first_k_dense_replace on, every moe_layer_freq-th */
    MOE_STEP,        /* every decoder_sparse_step-th, but those of mlp_only_layers */
    MOE_LISTED,      /* moe_layers, else every interleave_moe_layer_step-th */
    MOE_PERIODIC,    /* by expert_layer_period and expert_layer_offset, where there are several */
    MOE_IF_ANY       /* all, where the config has experts */
};

struct moe_family {
    enum moe_layers layers;
    const char *experts;      /* field: how many */
    const char *width;        /* field: an expert's width */
    const char *dense_width;  /* field: that of dense layers */
    const char *shared_count; /* field: shared experts of `width` each */
    const char *shared_width; /* field: the shared expert's width; 0: none */
    bool shared_gate;         /* a sigmoid scales the shared expert */
    enum route_score score;
    enum route_weight weight;
    const char *renormalise; /* rule */
    float renormalise_eps;
    const char *scale;       /* field; NULL: 1 */
    bool correction;         /* there is a correction of each expert's score */
    uint32_t group_best;     /* > 0: experts may lie in groups (n_group, topk_group) */
    const char *group_when;  /* "field=value": only then; NULL: always */
    const char *router_bias; /* rule */
    const char *expert_bias; /* rule */
    bool weigh_input;        /* a row is weighed before its experts see it */
    bool plain;              /* experts have no gate */
    /* rule, with `plain`: of the shared expert and of the latent's products */
    const char *inner_bias;
    const char *latent; /* field: experts work on a latent of this width */
    /* the gate is op_clamped_swiglu, of interleaved rows: swiglu_limit, swiglu_alpha */
    bool clamped;
};

/* Fills layer->ffn and, in a layer that has experts, layer->moe; else ffn.kind becomes
 * FFN_GATED. */
int moe_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out);

/* families_moe.c: mixtures that families with a state share */
extern const struct moe_family QWEN2_MOE, QWEN3_5_MOE, LFM2_MOE;

#endif
