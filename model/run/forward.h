/*
 * forward.h - the forward pass of a step: walks the spec over a batch of rows, then makes logits
 * for the rows that sample, then samples.
 *
 * All buffers are allocated at init for max_rows; a step allocates nothing. The order on the
 * stream: prepare, embed, for each layer what its spec says (spec.h), gather, final norm, head,
 * sample. Rows to sample are processed HEAD_ROWS at a time (a GPU: up to 256), so that logits of
 * wide vocabularies stay small.
 */
#ifndef MODEL_FORWARD_H
#define MODEL_FORWARD_H

#include "model/model.h"
#include "model/run/slots.h"

enum { HEAD_ROWS = 32 };

enum { FORWARD_BUFFERS_MAX = 32 };

struct forward {
    const struct model *model; /* borrowed */
    struct slots *slots;       /* borrowed */
    struct device *dev;
    uint32_t max_rows, max_runs, max_context;
    void *owned[FORWARD_BUFFERS_MAX]; /* every buffer below */
    /* Device memory. */
    float *x;             /* the residual: f32 [max_rows, hidden], on every device */
    void *delta, *normed; /* act [max_rows, hidden] */
    /* of x (ops.h: norm_of_x), of a step that products norm; NULL: on this device none do */
    float *squares;
    void *linear_scratch;         /* of products whose x is rounded to fp8; NULL: there is none */
    void *delta_ffn, *normed_ffn; /* the same, where a layer is parallel; else NULL */
    /* what the first layer keeps for the others (layer_kinds.h), act [max_rows, hidden]; else NULL */
    void *first_values;
    /* of the mixer or feed-forward whose step it is (layer_kinds.h) */
    char *scratch;
    float *angles[SPEC_ROPES_MAX]; /* f32 [max_rows, half, 2] */
    float *head_x;                 /* f32 [HEAD_ROWS, hidden] */
    void *head_delta;              /* act [HEAD_ROWS, hidden] */
    /* f32 [HEAD_ROWS, vocab]; where ranks divide the vocabulary, rank 0's only */
    float *logits;
    float *own_logits; /* f32 [HEAD_ROWS, this rank's part]; NULL where they do not */
    void *sample_scratch;
    struct step_run *runs;                              /* [max_runs] */
    uint32_t *sample_rows, *ids, *slot_ids, *positions; /* [max_rows] */
    uint32_t *state_rows;                               /* [max_rows] */
    /* [max_rows] with bidirectional attention, else NULL: the last position that a row sees */
    uint32_t *row_last;
    uint32_t *row_last_near; /* the same in layers with a window; NULL where none has one */
    uint32_t *row_types; /* [max_rows] of a model that scores pairs, else NULL: row of the types */
    uint32_t *rows_host; /* owned, host memory [max_rows]: what is copied there */
    uint32_t *masks;     /* [max_runs, forward_mask_words] */
    uint32_t *mask_rows; /* [max_rows]: as op_sample's */
    bool constrained;    /* mask_rows is not ROW_NONE throughout */
    struct step_batch batch; /* of the current step */
    /* Of the current layer's step: act [rows, hidden] both. */
    const void *in;
    void *out;
    /* Where the products that read `in` and write `out` make the norm: both are x then (ops.h). */
    struct norm_of_x norm;
    struct residual_out residual;
    bool squared; /* squares are those of x */
    /* Where f->out is x and the step adds its experts to it (layer_kinds.h: adds): how, and what comes
     * behind; out: `normed`, or NULL */
    struct expert_residual sum;
    const struct norm_weights *normed_by; /* `normed` is what these make of x; NULL: it is not */
    void *pending;                        /* what has yet to be added to x; NULL: nothing */
    float pending_scale;
    bool pending_partial;        /* of it, this rank has one addend of several */
    struct peers *push;          /* who gets the product that writes `out` (op_linear.push) */
    bool pending_pushed;         /* what is pending, one addend, is with the others */
    void (*progress)(void *ctx); /* after each layer is on the stream; may be NULL */
    void *progress_ctx;
    /* set by the caller where the model is a rank's part (shard.h) */
    const struct rank_calls *ranks;
    void *ranks_ctx;
};

/* A step as the host knows it. */
struct step_input {
    const struct step_run *runs; /* host; row_first consecutive */
    uint32_t run_count, row_count, output_count;
    const uint32_t *sample_rows; /* host */
    uint32_t sample_count;
    bool drafted; /* ops.h: step_batch */
    /* host [run_count]: of a run that is a pair of texts, how many tokens are the first one's (0: all);
     * NULL: no run is one */
    const uint32_t *first_counts;
};

/* Which tokens a step's rows may sample: masks as op_sample has them, on the host. */
struct sample_masks {
    const uint32_t *bits; /* [count, forward_mask_words] */
    uint32_t count;       /* <= max_runs */
    const uint32_t *rows; /* of each sampling row: its mask, or ROW_NONE */
    /* called before bits and rows are read, when the layers are on the stream; may be NULL */
    void (*await)(void *ctx);
    void *ctx;
};

/* Buffers for steps of up to max_rows rows of max_runs sequences. model and slots are borrowed.
 * ERR_*: the device's memory does not suffice; f is released then. */
MUST_CHECK int forward_init(struct forward *f, const struct model *model, struct slots *slots,
                            uint32_t max_rows, uint32_t max_runs, struct error *err);
/* Frees the buffers; the stream must be idle. f may be zeroes. */
void forward_release(struct forward *f);
/* Bytes of device memory forward_init takes for these limits. */
uint64_t forward_bytes(const struct model *model, uint32_t max_rows, uint32_t max_context);

/* The halves of forward_layers and forward_sample: what is copied from the host, and the
 * operations, which may be recorded as a graph (kernels/device.h) for steps of the same counts. */
void forward_load(struct forward *f, struct stream *s, const struct step_input *input);
/* The operations of all layers of this stage. */
void forward_put_layers(struct forward *f, struct stream *s);
/* masks NULL: no row is constrained. sample_count: so many there are of masks->rows; no later row
 * is constrained. */
void forward_load_masks(struct forward *f, struct stream *s, const struct sample_masks *masks,
                        uint32_t sample_count);
/* Logits and sampling of all sample rows, HEAD_ROWS of them at a time, into out. */
void forward_put_sample(struct forward *f, struct stream *s, const struct sample_out *out);
/* Words of a mask. */
static inline uint32_t forward_mask_words(const struct forward *f) {
    return (f->model->spec.vocab + 31) / 32;
}

/* prepare and all layers; x and pending hold the last residual and what is to be added to it. A
 * stage but the first takes x from the one before; a stage but the last gives it to the next, and
 * its step ends here. */
void forward_layers(struct forward *f, struct stream *s, const struct step_input *input);
/* Walks a step of one prompt row whose work does not run, where the device has graphs: after it the
 * device has chosen all kernels and algorithms that it chooses by shape, and dev->isa tells them.
 * The stream must be idle. */
void forward_rehearse(struct forward *f, struct stream *s);
/* Logits of sample rows [first, first + count) into f->logits, count <= HEAD_ROWS. After
 * forward_layers. */
void forward_logits(struct forward *f, struct stream *s, uint32_t first, uint32_t count);
/* The last norm's output of `count` rows of the step (host), in f32: [count, hidden] into out, host
 * memory of the device. The last stage, after forward_layers; a step's logits may be made before or
 * after. */
void forward_states(struct forward *f, struct stream *s, const uint32_t *rows, uint32_t count,
                    float *out);
/* forward_logits and sample for all sample rows; only rank 0 of the last stage samples, the others
 * leave out alone. out: arrays of the step's sample_count. masks: NULL for none. */
void forward_sample(struct forward *f, struct stream *s, const struct sample_out *out,
                    const struct sample_masks *masks);

/* Up to how many rows, all of output class, products may add all ranks' up (shard.h: rank_calls.adds), as
 * far as this rank's matrices go; 0: none. */
uint32_t forward_rows_that_add(const struct model *model, const struct peers *peers);

/* ---- for mixers and feed-forwards (layer_kinds.h) ---- */

/* out = x w^T + bias, act [rows of the step, w->rows]. */
void forward_product(struct forward *f, struct stream *s, void *out, const void *x,
                     const struct matrix *w);
/* The same of f->in, and of f->out. */
void forward_product_in(struct forward *f, struct stream *s, void *out, const struct matrix *w);
void forward_product_out(struct forward *f, struct stream *s, const void *x,
                         const struct matrix *w);
/* What forward_product runs, for those that want more of it. */
struct op_linear forward_product_of(const struct forward *f, void *out, const void *x,
                                    const struct matrix *w);
/* x = the sum of the stage's ranks' x, [rows of the step, width]; act, or f32. */
void forward_sum(struct forward *f, struct stream *s, void *x, uint32_t width);
/* The same of f32. */
void forward_sum_f32(struct forward *f, struct stream *s, float *x, uint32_t width);
/* A layer's part of the slots' states, `offset` bytes into its mixer's or its feed-forward's. */
struct state_view forward_state(const struct forward *f, size_t layer_offset, size_t offset);
/* A layer's part of the cache. */
struct kv_view forward_kv(const struct forward *f, uint32_t layer);
/* Takes `size` bytes off the scratch area: adds them, rounded to 256, to *used; base NULL: only
 * counts, gives NULL. */
static inline void *forward_take(char *base, size_t *used, size_t size) {
    char *at = base ? base + *used : NULL;
    *used += (size + 255) / 256 * 256;
    return at;
}

#endif
