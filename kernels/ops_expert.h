/*
 * ops_expert.h - mixtures of experts: which experts a row goes to, the experts' products, and the
 * sum of what they give.
 *
 * Rows are sorted by expert once (struct expert_plan); from gather to combine they lie in that
 * order, so that an expert's rows are one dense piece and its product is a plain `linear` on it. A
 * device never tells the host how many rows an expert got.
 *
 * Pair p = t * top_k + j is row t's j-th choice; P = T * top_k pairs. Place i of the sorted order
 * holds pair pairs[i].
 *
 * Bits: as ops.h promises for every row. Which rows share an expert, and where they lie, changes
 * none of them; combine adds a row's experts in the order of its choices.
 */
#ifndef KERNELS_OPS_EXPERT_H
#define KERNELS_OPS_EXPERT_H

#include "kernels/types.h"

struct stream;

enum { ROUTE_EXPERTS_MAX = 1024, ROUTE_TOP_MAX = 64 };

/* What experts are chosen by. */
enum route_score { ROUTE_SOFTMAX = 1, ROUTE_SIGMOID = 2, ROUTE_LOGIT = 3 };
/* What a chosen expert weighs: its score; the softmax over the chosen logits; the sigmoid of its
 * logit. */
enum route_weight { ROUTE_BY_SCORE = 1, ROUTE_BY_SOFTMAX = 2, ROUTE_BY_SIGMOID = 3 };

/*
 * From a row's logits [experts] to its experts and their weights:
 *   a. score[e]: softmax over all experts, sigmoid, or the logit itself.
 *   b. choice[e] = score[e] + correction[e] (DeepSeek-V3's balancing bias; chooses, does not
 *   weigh). c. groups > 1: experts lie in `groups` equal runs; a run is worth the sum of its
 *   `group_best` largest choices, and
 *      only the groups_kept best runs remain (Liu et al. 2024: 1 for V2, 2 for V3).
 *   d. chosen: the top_k largest choices that remain, best first. Equals: the lower index (of runs
 *   and of experts). e. weights as `weight` says; divided by their sum + renormalise_eps where
 *   `renormalise`; times `scale`.
 * What a NaN chooses is the device's affair: distinct experts. group_best is 1 or 2, at most
 * experts / groups; groups_kept * experts / groups >= top_k.
 */
struct router {
    enum route_score score;
    enum route_weight weight;
    uint32_t experts, top_k;
    uint32_t groups, groups_kept, group_best; /* groups 0 or 1: none */
    bool renormalise;
    float renormalise_eps, scale;
};

/* Device memory. */
struct expert_plan {
    uint32_t *chosen; /* [T, top_k] */
    float *weights;   /* [T, top_k] */
    /* [experts + 1]: expert e's rows are the places [offsets[e], offsets[e + 1]) */
    uint32_t *offsets;
    uint32_t *pairs;  /* [P] the pair at a place; ascending within an expert */
    uint32_t *places; /* [P] the place of a pair */
};

/* Fills the plan of `rows` rows. logits: f32 [rows, experts]; correction: f32 [experts] or NULL. */
struct op_route {
    const struct expert_plan *plan;
    const struct router *router;
    const float *logits, *correction;
    uint32_t rows;
};

struct norm_of_x;

/* out[i, :] = x[row of place i, :] (times its weight where `weighted`: Llama 4 weighs what goes
 * in). out: act [P, width]; x: act [rows, width]. norm, only where ops->folds_experts and not
 * `weighted`: x is the residual, f32, whose norm is gathered, with the bits of op_rmsnorm. */
struct op_expert_gather {
    void *out;
    const void *x;
    const struct expert_plan *plan;
    uint32_t rows, top_k, width;
    bool weighted;
    const struct norm_of_x *norm; /* NULL: none */
};

/* All experts' matrices for one product: same type and shape each. */
struct expert_matrix {
    enum storage_type type;
    uint32_t rows, cols, expert_count;
    const struct matrix *experts; /* [expert_count], device memory; their biases too */
    /* All segments are packed in place, as ops->packs_experts allowed; scale_cols: theirs. */
    bool packed;
    uint32_t scale_cols;
};

/* What comes behind the way up of experts that have a gate: op_act_mul with `activation`, or, where that
 * is 0, op_clamped_swiglu. */
struct expert_gate {
    int activation; /* enum activation */
    bool interleaved;
    float limit, alpha;
};

/* out[i, :] = experts[e of place i] . x[i, :] + bias. x: act [P, w->cols]; out: act [P,
 * w->rows]. gate, only where ops->gates_experts says so: out is what it makes of that, act [P, w->rows / 2],
 * bit for bit. */
struct op_expert_linear {
    void *out;
    const void *x;
    const struct expert_matrix *w;
    const struct expert_plan *plan;
    uint32_t rows, top_k;
    const struct expert_gate *gate; /* NULL: none */
};

/* Where the sum of a row's experts goes: x, f32 [rows, width], += it, rounded to act, times `scale`;
 * squares: of x then, as residual_out has them, or NULL; out: act, its norm, with the bits of op_rmsnorm,
 * or NULL. */
struct expert_residual {
    float *x, *squares;
    void *out;
    const float *weight; /* of the norm, f32 [width] */
    float scale, eps, weight_offset;
};

/* out[t, :] = sum_j weights[t, j] * y[place of (t, j), :] (weighted; else the plain sum) +
 * shared[t, :] * sigmoid(shared_gate[t]). y: act [P, width]; out, shared: act [rows, width], shared
 * NULL: none; shared_gate: f32 [rows], NULL: 1. out may be shared. */
struct op_expert_combine {
    void *out;
    const void *y, *shared;
    const float *shared_gate;
    const struct expert_plan *plan;
    uint32_t rows, top_k, width;
    bool weighted;
    /* only where ops->folds_experts and width is a multiple of NORM_GROUP; out is not written. NULL: none */
    const struct expert_residual *residual;
};

/* out[t, i] = (up + 1) * gate * sigmoid(alpha * gate), gate cut above at limit, up at both sides
 * (GPT-OSS). act [rows, width] from act [rows, 2 * width]: gates then ups, or gate, up, gate, up,
 * ... where interleaved. */
struct op_clamped_swiglu {
    void *out;
    const void *gate_up;
    uint32_t rows, width;
    bool interleaved;
    float limit, alpha;
};

#endif
