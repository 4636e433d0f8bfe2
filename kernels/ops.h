/*
 * ops.h - every operation of the forward pass and the sampler, declared once: shapes, layouts,
 * numerics. ref/ defines them in scalar C, cpu/ and cuda/ are the devices.
 *
 * Arrays are device memory, row-major, dense unless a stride is named. `act` means the device's
 * activation type (f32 on the CPU). T: rows (token positions) of a step; D: head size; H: query
 * heads; G: KV heads; R: rows that sample; V: logits width.
 *
 * A step does not know its tokens on the host. Slots (struct slot_table) live in device memory; a
 * step brings only runs (slot, how many positions). `prepare` makes from them the row arrays that
 * every later operation reads; `sample` appends the new token to its slot, so the next step can be
 * enqueued before this one's tokens have reached the host.
 *
 * Numerics. What is promised of each row: its bits depend only on that row's inputs, the storage
 * types, the instruction set (CPU) or row class (GPU): never on T, on the row's place, on other
 * rows or on the thread count. Sums run in f32 in a fixed lane order. Errors against ref (which
 * sums in double): linear and norm |error| <= 2 * u * sum(|terms|) * (terms / lanes + log2(lanes) +
 * 2), u = 2^-24. exp, silu: 4 ulp. AMX takes numbers below 2^-126 as zero.
 *
 * Rows whose position is ROW_NONE are padding: they may be computed or not, write no KV, sample
 * nothing.
 *
 * Launchers check shapes with CHECK (what comes from outside was checked by model/ and worker/),
 * allocate nothing, wait for nothing.
 */
#ifndef KERNELS_OPS_H
#define KERNELS_OPS_H

#include "kernels/device.h"
#include "kernels/ops_expert.h"
#include "kernels/ops_latent.h"
#include "kernels/ops_rows.h"
#include "kernels/ops_state.h"
#include "kernels/peers.h"
#include "kernels/sample_rules.h"

enum { ROW_NONE = UINT32_MAX };
#define PACKED_IN_PLACE SIZE_MAX
enum { SLOT_STOPS_MAX = 64, SLOT_BIAS_MAX = 1024, SAMPLE_TOP_MAX = 32 };

/* ---- slots ---- */

/* One sequence as the device sees it. The host writes it whole at admission (stream_copy_in);
 * afterwards only prepare and sample change the first three fields, and the rules' state. */
struct slot_state {
    uint32_t active;         /* admitted and not ended */
    uint32_t token_count;    /* known tokens */
    uint32_t computed_count; /* positions whose KV is written or on the stream to be */
    uint32_t prompt_count;   /* penalties over output begin here */
    uint32_t max_total;      /* token_count at which the sequence ends */
    uint32_t min_total;      /* stop tokens are not sampled while token_count < min_total */
    uint32_t choice;         /* part of the noise's counter */
    uint32_t top_k;          /* 0: off */
    uint64_t seed;
    float temperature; /* 0: greedy */
    float top_p, min_p;
    float top_n_sigma; /* 0: off */
    float repetition_penalty, presence_penalty, frequency_penalty;
    int32_t logprobs;          /* -1: none; k: chosen and k best */
    struct sample_rules rules; /* sample changes its state */
    uint32_t stop_count, bias_count;
    uint32_t stops[SLOT_STOPS_MAX];
};

struct slot_table {
    uint32_t slot_count;
    uint32_t max_context; /* tokens a slot can hold */
    uint32_t max_blocks;  /* blocks a slot and group */
    uint32_t group_count;
    struct slot_state *states; /* [slot_count] */
    uint32_t *tokens;          /* [slot_count, max_context] */
    /* [group_count, slot_count, max_blocks]: block ids in order of position */
    uint32_t *blocks;
    uint32_t *bias_ids; /* [slot_count, SLOT_BIAS_MAX] */
    float *bias_values; /* the same */
    /* [slot_count, (V + 31) / 32]: bits of the tokens that dry's repetitions end at, of slots that
     * have it */
    uint32_t *breakers;
};

/* ---- a step's rows ---- */

/* Consecutive positions of one slot, from its computed count on. */
struct step_run {
    uint32_t slot;
    uint32_t row_first; /* its rows are [row_first, row_first + token_count) */
    uint32_t token_count;
};

/* Output-class rows come first: [0, output_count); prompt-class rows follow (architecture:
 * Exactness). The CPU's bits are the same for both. */
struct step_batch {
    uint32_t row_count; /* T */
    uint32_t output_count;
    uint32_t run_count;
    uint32_t sample_count; /* R */
    /* some runs go on with drafts, which lie in the slot's tokens behind the known ones (devices with
     * `drafts` alone) */
    bool drafted;
    const struct step_run *runs; /* [run_count] in; device memory */
    const uint32_t *sample_rows; /* [R] in: rows whose logits are wanted */
    uint32_t *ids;               /* [T] made by prepare: token */
    uint32_t *slots;             /* [T] */
    uint32_t *positions;         /* [T]; ROW_NONE for padding */
};

/* Fills ids, slots, positions from the slots' tokens and adds each run's token_count to its slot's
 * computed_count. A run whose slot is not active, or that would pass the slot's token_count
 * (of drafted steps: max_context), becomes padding (and adds nothing). A slot may have several runs: they lie next to each other,
 * and each begins where the one before it ended. A run whose slot is ROW_NONE is padding: its rows'
 * ids and slots are 0. Tokens >= vocab_size: never happens, checked at admission. */
struct op_prepare {
    const struct slot_table *slots;
    const struct step_batch *batch;
};

/* ---- forward ---- */

/* out[t, :] = table[ids[t] - first, :] * scale. out: act [T, cols]. Padding rows, and ids that the
 * table lacks: zeros. */
struct op_embed {
    void *out;
    const struct matrix *table; /* [ids from first on, cols], one segment */
    const struct step_batch *batch;
    float scale;
    uint32_t first; /* the id of the table's first row: a rank's part of the vocabulary */
};

/* h = x + delta * delta_scale (delta NULL: h = x); x = h (when delta); out = h * rsqrt(mean(h^2) +
 * eps) * (weight + weight_offset), or h where weight is NULL. x, delta, out: act [rows, width];
 * with x_f32 x is f32, and so is out where it is x, and with delta_f32 (only then) delta; weight:
 * f32 [width]. out may be x only when nobody needs h; it may be delta. out NULL: only the sum. */
struct op_rmsnorm {
    void *out, *x;
    const void *delta;
    const float *weight;
    uint32_t rows, width;
    float eps, weight_offset;
    float delta_scale; /* 0 counts as 1 */
    bool x_f32, delta_f32;
};

/* RMSNorm without an operation of its own: a product that writes the residual leaves its squares, and the
 * product that reads it norms it on the way. Bit for bit what op_rmsnorm makes. Squares: f32 [rows,
 * width / NORM_GROUP], sums over NORM_GROUP features each. */
enum { NORM_GROUP = 16 };
/* Of a product's x, which then is the residual, f32; squares NULL: x is act. weight: f32 [cols]. */
struct norm_of_x {
    const float *squares, *weight;
    float eps, weight_offset;
};
/* Of a product's out, which then is the residual, f32, to which the product, rounded to act, is added
 * times `scale` (0 counts as 1); squares NULL: out is as usual. */
struct residual_out {
    float *squares;
    float scale;
};

struct op_rope_kv;
struct peers;

/* out[t, n] = sum_k x[t, k] * w[n, k] + bias[n], or, where w->compute is int8, what
 * kernels/integers.h says; where it is fp8, with fp8-prompts of prompt rows, x rounded to e4m3 times a
 * scale: m = max_k |x[t, k]|, scale = m / 448, e4m3(x[t, k] * (448 / m)) * scale, all in f32; 0 where m
 * is below 2^-100. x: act [rows, cols of w]; out: act, or f32 where
 * out_f32, [rows, out_stride], the first `rows of w` of each written. class_rows: the first so many
 * rows are output class.
 *
 * gated: y as above, rounded to act; out[t, i] = f(y[t, i]) * y[t, rows of w / 2 + i], act: what
 * act_mul makes of y, bit for bit. Where w->gated, and only there. */
struct op_linear {
    void *out;
    const void *x;
    const struct matrix *w;
    uint32_t rows, class_rows;
    uint32_t out_stride; /* elements; >= w->rows, or half of them */
    bool out_f32;        /* logits */
    int gated;           /* enum activation; 0: not */
    /* only where ops->folds_norm says so, with all rows of output class */
    struct norm_of_x norm;
    struct residual_out residual; /* out_stride: w->rows */
    /* only where ops->folds_rope says so: w is of Q, K and V, and what rope_kv would do with out, as its
     * qkv, is done on the way, bit for bit; K and V of out, and rows of padding, are left as they are */
    const struct op_rope_kv *rope; /* NULL: none */
    /* only where ops->peers->pushes says so: out, act [rows, rows of w], is one rank's addend, and goes to
     * the others, too; op_peer_norm of out follows on this stream, before any other of these peers. With
     * `residual`, only where ops->peers->adds says so, on all ranks: what is added is the sum of all
     * ranks' outs, in rank order, with the bits of op_peer_sum */
    struct peers *push; /* NULL: it does not */
    /* where w->compute is fp8: ops->linear_scratch(rows, w->cols) bytes, aligned to 16 */
    void *scratch;
};

/* Angles of a step, once for all layers with the same rotary table: out[t, i] = {cos,
 * sin}(positions[t] * inv_freq[i])
 * * scale, f32 [T, half, 2]. The product is rounded to f32 first (as the reference implementations
 *   do); cos and sin are then right within 1 ulp of f32. */
struct op_rope_angles {
    float *out;
    const float *inv_freq; /* f32 [half] */
    uint32_t half;
    float scale;
    const struct step_batch *batch;
    bool per_slot; /* inv_freq: f32 [slot_count, half], the row of the position's slot */
};

/* One layer's part of a KV group. A block holds block_tokens positions of every layer; where K and
 * V lie inside is the device's own affair: only rope_kv, attention and whole-block copies touch it.
 * Values are stored as `type` (a plain one, F8_E4M3 without scales, or I8 with those of
 * kv_scale.h), rounded to nearest even. */
struct kv_view {
    void *base;          /* of block 0 */
    size_t block_stride; /* bytes from block to block */
    size_t layer_offset; /* of this layer in a block */
    enum storage_type type;
    uint32_t block_tokens; /* 16, 32, 64, 128 or 256 */
    uint32_t kv_heads, head_dim;
    uint32_t block_count;
    const uint32_t *tables; /* [slot_count, max_blocks] of this group */
    uint32_t max_blocks;
};

/* RMS norms of each head of Q and of K, with one weight, f32 [D], for all heads of either: the bits of
 * op_head_norm. */
struct rope_norms {
    const float *q, *k;
    float eps, weight_offset;
};

/* qkv: act [T, (H + 2 G) * D], Q heads, then K, then V. Rotates Q in place and writes rotated K,
 * and V, into the cache at positions[t]. Rotation of the first 2 * half dims of each head: half
 * style pairs (i, i + half), interleaved pairs (2 i, 2 i + 1). angles NULL: no rotation. norms: Q and K
 * are normed first, as if by op_head_norm, but K only on its way into the cache; only where
 * ops->norms_heads, and not by linear. */
struct op_rope_kv {
    void *qkv;
    const float *angles; /* f32 [T, half, 2] */
    uint32_t half;
    bool interleaved;
    uint32_t heads;
    const struct kv_view *kv;
    const struct step_batch *batch;
    const struct rope_norms *norms; /* NULL: none */
};

/* out[t, h, :] = sum_j softmax_j(s(scale * q[t, h] . k[j])) v[j], j over positions 0 ..
 * positions[t], or last[t] (window: the last `window` of them; chunk: those of its own chunk, from positions[t]
 * / chunk * chunk on) of the row's slot. sinks: a score of each head that takes part in the softmax
 * and has no value. q: qkv as above; out: act [T, H * D]. KV is cut at fixed absolute positions
 * (multiples of ATTENTION_SPLIT); each split has its own maximum and sums, splits are combined in
 * ascending order. Padding rows: zeros. scratch: ops->attention_scratch(row_count, heads, head_dim,
 * max_context) bytes.
 *
 * s(x) = x; with soft_cap: soft_cap * tanh(x / soft_cap); with slopes (ALiBi, Press et al. 2022): x
 * - slopes[h] * |positions[t] - j|. */
enum { ATTENTION_SPLIT = 256 };
struct op_attention {
    void *out;
    const void *qkv;
    uint32_t heads;
    uint32_t window; /* 0: none */
    uint32_t chunk;  /* 0: none */
    float scale;
    /* [T] or NULL: row t sees positions up to last[t], at least its own, of which all are in the
     * cache; rows of a slot never see less than the one before. Not for rows of output class */
    const uint32_t *last;
    const float *sinks;  /* f32 [H], or NULL */
    float soft_cap;      /* 0: none */
    const float *slopes; /* f32 [H], or NULL */
    uint32_t class_rows;
    const struct kv_view *kv;
    const struct step_batch *batch;
    void *scratch;
};

/* x[t, i] *= 1 + scale * log(1 + floor((positions[t] + offset) / floor_scale)), i < width: queries
 * of layers without rotation (Llama 4: offset 1), or of all (Ministral 3: offset 0). x: act, rows
 * `stride` values apart. */
struct op_scale_queries {
    void *x;
    uint32_t stride, width;
    float scale, floor_scale, offset;
    const struct step_batch *batch;
};

/* silu(x) = x / (1 + exp(-x)); gelu = x (1 + erf(x / sqrt 2)) / 2, or by tanh, or quick: x / (1 +
 * exp(-1.702 x)); relu = max(x, 0); relu2 = its square. */
enum activation {
    ACTIVATION_SILU = 1,
    ACTIVATION_GELU_TANH = 2,
    ACTIVATION_GELU = 3,
    ACTIVATION_GELU_QUICK = 4,
    ACTIVATION_RELU = 5,
    ACTIVATION_RELU2 = 6,
    ACTIVATION_COUNT
};
/* out[t, i] = f(gate_up[t, i]) * gate_up[t, width + i]. act [rows, width], act [rows, 2 *
 * width]. */
struct op_act_mul {
    void *out;
    const void *gate_up;
    uint32_t rows, width;
    enum activation activation;
};

/* out[i, :] = x[idx[i], :], act [count, width], or f32. */
struct op_gather_rows {
    void *out;
    const void *x;
    const uint32_t *idx;
    uint32_t count, width;
    bool f32;
};

/* Copies whole blocks: sources[i] -> targets[i], in order. */
struct op_kv_copy {
    void *base;
    size_t block_stride;
    const uint32_t *sources, *targets; /* host arrays, read before the call returns */
    uint32_t count;
};

/* ---- sampling ---- */

/*
 * One token for each sampling row, from logits f32 [R, logits_stride] (V used). Per row, with slot
 * state s, history = the slot's tokens:
 *   a. logprobs, where asked for: log softmax of the logits as they are here.
 *   b. any logit NaN or +inf, or none above -inf: status SAMPLE_NONFINITE; the slot ends, no token.
 *   c. repetition: for each id in the history once: l = l > 0 ? l / r : l * r.
 *      output counts c: l -= c * frequency + (c > 0) * presence. Both look back at
 *      rules.penalty_window tokens. dry: sample_rules.h.
 *      bias: l += bias. Each step rounds to f32.
 *   d. stop tokens are -inf while token_count < min_total; ids whose mask bit is 0 are -inf.
 *   e. temperature 0 and no chain: argmax (lowest id among equals).
 *   f. else z = (l - max l) / temperature; p = exp(z). Kept are the ids with
 *      top_n_sigma: z >= -(float)(top_n_sigma * s) / temperature, s the standard deviation of the
 *      logits above -inf before the temperature: of d = floor(min(max l - l, 2048) * 512), whose
 *      sums are integers, s = sqrt(sum d^2 / n - (sum d / n)^2) / 512 in float64;
 *      top_k: z >= the top_k-th largest z (equals kept);
 *      top_p: q = floor(p * 2^40) as integers over what these two kept; z >= the largest value x with
 *      sum of q over {z >= x} >= floor(top_p * sum q);
 *      min_p: p >= min_p.
 *      Integer sums do not depend on order, so thresholds are the same however the vocabulary is
 *      cut.
 *      Where the slot's rules ask for more, or for another order, the chain of sample_rules.h is
 *      in place of this; its sums depend on the device.
 *   g. argmax over the kept of z + gumbel(id) (philox.h; lowest id among equals).
 * The token is appended to the slot: token_count += 1. A stop token or token_count == max_total
 * ends the slot (active = 0). If after b, d nothing is left (a mask of zeros): SAMPLE_NONFINITE.
 *
 * In a step with drafts a slot may have several sampling rows, in order of position and next to each
 * other. A row counts if the token that it was computed from is the slot's last known one; else it
 * is SAMPLE_WASTED, and the slot's computed_count falls back to token_count - 1. So a draft changes no
 * token: it is there already when the sampler draws it, and the row behind it need not be
 * computed.
 */
enum sample_status {
    SAMPLE_TOKEN = 0,     /* a token, the sequence goes on */
    SAMPLE_STOP = 1,      /* a token, and it was a stop token */
    SAMPLE_LENGTH = 2,    /* a token, the last by length */
    SAMPLE_NONFINITE = 3, /* no token; this row's sequence ends */
    SAMPLE_WASTED = 4     /* the slot had ended: nothing */
};

/* Host memory the device writes (device_alloc_host), one entry a sampling row. Valid once an event
 * recorded after `sample` is done. */
struct sample_out {
    uint32_t *tokens; /* [R] */
    uint32_t *status; /* [R] enum sample_status */
    float *logprobs;  /* [R] of the chosen token */
    /* [R] entries of the two below; SAMPLE_NO_LOGPROBS where the slot asked for none */
    uint32_t *top_counts;
    uint32_t *top_ids;   /* [R, SAMPLE_TOP_MAX] best first, lowest id among equals */
    float *top_logprobs; /* [R, SAMPLE_TOP_MAX] */
    float *states;       /* [R] of rules that steer, behind the token; 0 where none does; or NULL */
};
enum { SAMPLE_NO_LOGPROBS = UINT32_MAX };

struct op_sample {
    float *logits; /* f32 [R, logits_stride]; overwritten */
    uint32_t logits_stride, vocab_size;
    const uint32_t *
        masks; /* bits [*, mask_stride], bit id % 32 of word id / 32: allowed; NULL: no row is constrained */
    const uint32_t *mask_rows; /* [R]: the row of `masks`, or ROW_NONE for an unconstrained row */
    uint32_t mask_stride;      /* words */
    const struct slot_table *slots;
    const struct step_batch *batch;
    const struct sample_out *out;
    void *scratch; /* ops->sample_scratch(R, vocab_size) bytes */
};

struct ops {
    const char *name;
    void (*prepare)(struct stream *s, const struct op_prepare *a);
    void (*embed)(struct stream *s, const struct op_embed *a);
    void (*rmsnorm)(struct stream *s, const struct op_rmsnorm *a);
    void (*linear)(struct stream *s, const struct op_linear *a);
    void (*rope_angles)(struct stream *s, const struct op_rope_angles *a);
    void (*rope_kv)(struct stream *s, const struct op_rope_kv *a);
    void (*attention)(struct stream *s, const struct op_attention *a);
    void (*scale_queries)(struct stream *s, const struct op_scale_queries *a);
    void (*act_mul)(struct stream *s, const struct op_act_mul *a);
    void (*gather_rows)(struct stream *s, const struct op_gather_rows *a);
    void (*kv_copy)(struct stream *s, const struct op_kv_copy *a);
    void (*route)(struct stream *s, const struct op_route *a);
    void (*expert_gather)(struct stream *s, const struct op_expert_gather *a);
    void (*expert_linear)(struct stream *s, const struct op_expert_linear *a);
    void (*expert_combine)(struct stream *s, const struct op_expert_combine *a);
    void (*clamped_swiglu)(struct stream *s, const struct op_clamped_swiglu *a);
    void (*head_linear)(struct stream *s, const struct op_head_linear *a);
    void (*latent_write)(struct stream *s, const struct op_latent_write *a);
    void (*latent_attention)(struct stream *s, const struct op_latent_attention *a);
    void (*sample)(struct stream *s, const struct op_sample *a);
    const struct state_ops *state; /* ops_state.h */
    const struct row_ops *rows;    /* ops_rows.h */
    const struct peer_ops *peers;  /* peers.h; NULL: its memory is nobody else's */

    /* Weights in the order of the device's kernels: bytes of a segment in it (0: it stays as it is),
     * and the segment into `out`, which becomes segment.packed. PACKED_IN_PLACE: as many as the
     * segment has, and `out` may be the segment's data, which nobody but linear reads from then
     * on. On the CPU bits do not depend on whether there is one. Both NULL: no such order. For
     * matrices of linear and expert_linear (in place where packs_experts says so) whose compute is
     * set. */
    size_t (*packed_bytes)(const struct device *dev, const struct matrix *w, uint32_t segment);
    void (*pack)(struct stream *s, const struct matrix *w, uint32_t segment, void *out);
    /* Whether expert_linear multiplies these experts' matrices, of host memory and none packed yet,
     * once all segments of all of them are packed in place (expert_matrix.packed). NULL: never. */
    bool (*packs_experts)(const struct device *dev, const struct matrix *experts, uint32_t count);
    /* Whether linear can multiply the halves of a matrix that is not packed yet, by this activation
     * of the first (op_linear.gated). NULL: never. */
    bool (*gates)(const struct device *dev, const struct matrix *w, enum activation activation);
    /* Whether linear norms this matrix's x, or adds to the residual, for so many rows, all of output
     * class. NULL: never. */
    bool (*folds_norm)(const struct device *dev, const struct matrix *w, uint32_t rows);
    /* Whether linear does the work of this rope_kv, which would follow the product with this matrix, for
     * its batch, all of output class. NULL: never. */
    bool (*folds_rope)(const struct device *dev, const struct matrix *w,
                       const struct op_rope_kv *rope);
    bool norms_heads;   /* rope_kv takes norms */
    bool folds_experts; /* expert_gather takes a norm, expert_combine a residual */
    /* Whether expert_linear takes this gate behind these matrices. NULL: never. */
    bool (*gates_experts)(const struct device *dev, const struct expert_matrix *w,
                          const struct expert_gate *gate);

    /* Bytes of one layer in one block of a cache; a multiple of 64. */
    size_t (*kv_layer_bytes)(enum storage_type type, uint32_t block_tokens, uint32_t kv_heads,
                             uint32_t head_dim);
    /* The same of latent attention; width: rank + rope. */
    size_t (*latent_layer_bytes)(enum storage_type type, uint32_t block_tokens, uint32_t width);
    size_t (*attention_scratch)(const struct device *dev, uint32_t row_count, uint32_t heads,
                                uint32_t head_dim, uint32_t max_context);
    /* Of op_linear. NULL: none. */
    size_t (*linear_scratch)(const struct device *dev, uint32_t rows, uint32_t cols);
    size_t (*sample_scratch)(const struct device *dev, uint32_t sample_count, uint32_t vocab_size);
    /* Whether the device has kernels for this: ERR_UNSUPPORTED with a text otherwise. */
    int (*supports)(enum storage_type weights, enum storage_type kv, uint32_t block_tokens,
                    uint32_t head_dim, struct error *err);
};

/* The scalar definitions, on host memory; device_open with isa "ref" makes a device of them. */
extern const struct ops ref_ops;

#endif
