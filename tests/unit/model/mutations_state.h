/* mutations_state.h - wrong turns for the options of mixers with a state; included by
 * mutations.h. */
#ifndef TESTS_UNIT_MODEL_MUTATIONS_STATE_H
#define TESTS_UNIT_MODEL_MUTATIONS_STATE_H

#include "model/run/recurrent.h"

#define STATE(cond)     ((L->mixer >= MIXER_MAMBA1 || L->beside) && !RWKV && (cond))
#define RWKV            (L->mixer >= MIXER_RWKV4 && L->mixer <= MIXER_RWKV7)
#define STATE_WEIGHTS   ((struct recurrent_weights *)(L->beside ? W->beside : W->mixer))
#define RECURRENT(what) (L->recurrent.what)
#define GATED_WEIGHTS   ((struct ffn_weights *)W->ffn)
/* The CPU's device memory may be written. */
static void zero_floats(const float *x, size_t count) {
    memset((void *)(uintptr_t)x, 0, count * sizeof *x);
}
MUTATION(conv_taps) {
    EACH_LAYER(STATE(RECURRENT(taps) > 1), RECURRENT(taps)--);
}
MUTATION(conv_bias) {
    EACH_LAYER(STATE(STATE_WEIGHTS->conv_bias), STATE_WEIGHTS->conv_bias = NULL);
}
MUTATION(state_in_bias) {
    EACH_LAYER(STATE(STATE_WEIGHTS->in.bias), STATE_WEIGHTS->in.bias = NULL);
}
MUTATION(state_out_bias) {
    EACH_LAYER(STATE(STATE_WEIGHTS->out.bias), STATE_WEIGHTS->out.bias = NULL);
}
MUTATION(step_bias) {
    EACH_LAYER(STATE(STATE_WEIGHTS->step_bias), STATE_WEIGHTS->step_bias = NULL);
}
MUTATION(step_low) {
    EACH_LAYER(STATE(RECURRENT(ssm.step_low) > 0.01f), RECURRENT(ssm.step_low) = 0);
}
MUTATION(step_high) {
    EACH_LAYER(STATE(RECURRENT(ssm.step_high) < 100 && RECURRENT(ssm.step_high) > 0),
               RECURRENT(ssm.step_high) = 100);
}
MUTATION(inner_norm_order) {
    EACH_LAYER(STATE(RECURRENT(ssm.inner_norm)),
               RECURRENT(ssm.inner_norm) = RECURRENT(ssm.inner_norm) == INNER_NORM_GATE_FIRST
                                               ? INNER_NORM_FIRST
                                               : INNER_NORM_GATE_FIRST);
}
MUTATION(inner_norm_group) {
    EACH_LAYER(STATE(RECURRENT(ssm.inner_norm) && RECURRENT(ssm.norm_group) != RECURRENT(width)),
               RECURRENT(ssm.norm_group) = RECURRENT(width));
}
MUTATION(inner_norm_weight) {
    EACH_LAYER(STATE(STATE_WEIGHTS->inner_norm), STATE_WEIGHTS->inner_norm = NULL);
}
MUTATION(dt_b_c_norms) {
    EACH_LAYER(STATE(L->recurrent.kind == MIXER_MAMBA1 && RECURRENT(mamba1.dt_b_c_norms)),
               RECURRENT(mamba1.dt_b_c_norms) = false);
}
MUTATION(dt_b_c_weights) {
    EACH_LAYER(STATE(STATE_WEIGHTS->b_norm), STATE_WEIGHTS->b_norm = NULL);
}
MUTATION(state_limit) {
    EACH_LAYER(STATE(L->recurrent.kind == MIXER_MAMBA1 && RECURRENT(mamba1.state_limit) > 0),
               RECURRENT(mamba1.state_limit) = 0);
}
MUTATION(state_falls) {
    EACH_LAYER(STATE(L->recurrent.kind == MIXER_MAMBA1 && RECURRENT(mamba1.rising)),
               zero_floats(STATE_WEIGHTS->decay,
                           ssm_state_floats(1, RECURRENT(width), RECURRENT(state_size))));
}
MUTATION(b_bias) {
    EACH_LAYER(STATE(STATE_WEIGHTS->b_bias),
               zero_floats(STATE_WEIGHTS->b_bias, RECURRENT(heads) * RECURRENT(state_size)));
}
MUTATION(c_bias) {
    EACH_LAYER(STATE(STATE_WEIGHTS->c_bias),
               zero_floats(STATE_WEIGHTS->c_bias, RECURRENT(heads) * RECURRENT(state_size)));
}
MUTATION(blend_bias) {
    EACH_LAYER(STATE(STATE_WEIGHTS->turn.bias),
               zero_floats(STATE_WEIGHTS->turn.bias, RECURRENT(heads)));
}
MUTATION(turn_bias) {
    EACH_LAYER(STATE(L->recurrent.kind == MIXER_MAMBA3 && RECURRENT(mamba3.turns)),
               zero_floats(STATE_WEIGHTS->turn.bias + RECURRENT(heads),
                           RECURRENT(heads) * (RECURRENT(state_size) / 2)));
}
MUTATION(widen_bias) {
    EACH_LAYER(
        STATE(L->recurrent.kind == MIXER_MAMBA3 && RECURRENT(mamba3.widening)),
        zero_floats(STATE_WEIGHTS->mimo_up.bias, RECURRENT(head_dim) * RECURRENT(mamba3.widening)));
}
MUTATION(narrow_bias) {
    EACH_LAYER(STATE(L->recurrent.kind == MIXER_MAMBA3 && RECURRENT(mamba3.widening)),
               zero_floats(STATE_WEIGHTS->mimo_down.bias, RECURRENT(head_dim)));
}
MUTATION(branch) {
    EACH_LAYER(L->mixer == MIXER_RGLRU,
               RECURRENT(rglru.branch) =
                   RECURRENT(rglru.branch) == GATE_SILU ? GATE_SIGMOID : GATE_SILU);
}

MUTATION(beside_scale) {
    EACH_LAYER(L->beside, L->beside_scale *= 1.5f);
}
MUTATION(beside_weight) {
    EACH_LAYER(L->beside, W->beside_norm = W->mixer_norm);
}
MUTATION(column_scales) {
    EACH_LAYER(STATE(STATE_WEIGHTS->in_scale.by), STATE_WEIGHTS->in_scale.by = NULL);
}
MUTATION(gate_scale) {
    EACH_LAYER(L->ffn.kind == FFN_GATED && GATED_WEIGHTS->gate_scale.by,
               GATED_WEIGHTS->gate_scale.by = NULL);
}

MUTATION(rwkv_norms) {
    EACH_LAYER(RWKV, L->mixer_norm.eps = L->ffn_norm.eps = 1);
}
MUTATION(rwkv_no_channel_shift) {
    EACH_LAYER(RWKV && L->ffn.kind == FFN_RWKV,
               memset((void *)*(float *const *)W->ffn, 0,
                      m->spec.hidden * (L->recurrent.rwkv.receptance ? 8 : 4)));
}
MUTATION(rwkv_no_shift) {
    EACH_LAYER(RWKV, memset((void *)*(float *const *)W->mixer, 0, m->spec.hidden * 12));
}

MUTATION(rwkv_head_eps) {
    EACH_LAYER(RWKV && RECURRENT(eps) > 1e-4f, RECURRENT(eps) = 0);
}
MUTATION(rwkv_no_value_mix) {
    EACH_LAYER(L->mixer == MIXER_RWKV7 && !RECURRENT(rwkv7.first), RECURRENT(rwkv7.first) = true);
}
MUTATION(rwkv_no_receptance) {
    EACH_LAYER(RWKV && RECURRENT(rwkv.receptance), RECURRENT(rwkv.receptance) = false);
}

#define STATE_MUTATIONS                                                                            \
    MUTATION_ROW(beside_scale), MUTATION_ROW(beside_weight), MUTATION_ROW(column_scales),          \
        MUTATION_ROW(gate_scale), MUTATION_ROW(rwkv_head_eps), MUTATION_ROW(rwkv_no_value_mix),    \
        MUTATION_ROW(rwkv_no_receptance), MUTATION_ROW(rwkv_norms),                                \
        MUTATION_ROW(rwkv_no_channel_shift), MUTATION_ROW(rwkv_no_shift), MUTATION_ROW(conv_taps), \
        MUTATION_ROW(conv_bias), MUTATION_ROW(state_in_bias), MUTATION_ROW(state_out_bias),        \
        MUTATION_ROW(step_bias), MUTATION_ROW(step_low), MUTATION_ROW(step_high),                  \
        MUTATION_ROW(inner_norm_order), MUTATION_ROW(inner_norm_group),                            \
        MUTATION_ROW(inner_norm_weight), MUTATION_ROW(dt_b_c_norms), MUTATION_ROW(dt_b_c_weights), \
        MUTATION_ROW(state_limit), MUTATION_ROW(state_falls), MUTATION_ROW(b_bias),                \
        MUTATION_ROW(c_bias), MUTATION_ROW(blend_bias), MUTATION_ROW(turn_bias),                   \
        MUTATION_ROW(widen_bias), MUTATION_ROW(narrow_bias), MUTATION_ROW(branch)

#endif
