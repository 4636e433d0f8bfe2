/*
 * state_read.h - what a family says of its mixers with a state (a row of spec_read.h points to an
 * array of these), and the reading of them. Fields and rules as in spec_read.h.
 */
#ifndef MODEL_STATE_READ_H
#define MODEL_STATE_READ_H

#include "model/read/spec_read.h"

struct state_family {
    enum mixer_kind mixer; /* whose columns these are; MIXER_NONE ends the array */
    /* Fields by another name than the usual; NULL: "expand" times the hidden size, "state_size",
     * "conv_kernel", "time_step_rank", "hidden_act". */
    const char *width, *state_size, *taps, *rank, *activation;

    /* Mamba 1 */
    bool dt_b_c_norms;               /* step, B and C are normed, */
    bool dt_b_c_weights;             /* with weights */
    const char *eps;                 /* field: of these norms; NULL: the model's */
    const char *conv_bias, *in_bias; /* rules; NULL: use_conv_bias and use_bias */
    bool rising;                     /* A is exp(-a_log), not -exp(A_log), */
    float state_limit;               /* and the state is kept within this; 0: no limit */

    /* Mamba 2 and 3 */
    bool free_width;        /* heads times head size need not be the width */
    const char *step_low;   /* field: the step's lower limit, in time_step_limit's place */
    const char *norm_when;  /* rule: the norm before the last product; NULL: yes */
    const char *norm_first; /* rule: it comes before the gate */
    const char *out_bias;   /* rule; NULL: as use_bias says */
    const char *scales;     /* field: factors of z, x, B, C and the step */
    bool norm_whole;        /* one group, however many B and C have */
    struct norm_spec
        norm; /* in the place of the family's before the mixer; kind NORM_NONE: that one */

    /* delta rule */
    bool fused; /* q, k, v and z, and beta and step, lie interleaved by key head */
};

/* Each fills out->recurrent of the layer. Returns the config's error code. Mamba: a decay for each
 * channel and state. */
int mamba1_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out);
/* Mamba 2: heads with one decay each. */
int mamba2_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out);
/* Mamba 3. */
int mamba3_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out);
/* The gated delta rule, of Qwen3-Next and its like. */
int delta_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out);
/* LFM2's short convolution. */
int short_conv_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out);
/* RecurrentGemma's gated linear recurrence. */
int rglru_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out);
/* RWKV 4. */
int rwkv4_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out);
/* RWKV 6. */
int rwkv6_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out);
/* RWKV 7. */
int rwkv7_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out);
/* RWKV's channel mixing: fills layer->ffn. */
int rwkv_ffn_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out);

#endif
