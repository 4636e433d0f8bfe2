#include "model/forward.h"

/* ---- buffers ---- */

/* Widest of each kind over the layers. */
struct widths {
    uint32_t qkv, mixed, ffn, heads, head_dim, half;
};

static struct widths widths_of(const struct model_spec *spec) {
    struct widths w = {0};
    for (uint32_t i = 0; i < spec->layer_count; i++) {
        const struct attention_spec *a = &spec->layers[i].attention;
        w.qkv = MAX(w.qkv, qkv_width(a));
        w.mixed = MAX(w.mixed, a->heads * a->head_dim);
        w.ffn = MAX(w.ffn, spec->layers[i].ffn.width);
        w.heads = MAX(w.heads, a->heads);
        w.head_dim = MAX(w.head_dim, a->head_dim);
    }
    for (uint32_t i = 0; i < spec->rope_count; i++) w.half = MAX(w.half, spec->ropes[i].dims / 2);
    return w;
}

struct buffer {
    void **at;
    size_t size;
};
enum { BUFFERS_MAX = 32 };

/* Every buffer and its size, for allocation and for the memory plan. */
static size_t list_buffers(struct forward *f, const struct model *model, uint32_t rows, uint32_t runs,
                           uint32_t max_context, struct buffer out[BUFFERS_MAX]) {
    const struct model_spec *spec = &model->spec;
    const struct device *dev = model->dev;
    struct widths w = widths_of(spec);
    size_t act = storage_bytes(dev->activation_type, 1), n = 0;
    out[n++] = (struct buffer){&f->x, act * rows * spec->hidden};
    out[n++] = (struct buffer){&f->delta, act * rows * spec->hidden};
    out[n++] = (struct buffer){&f->normed, act * rows * spec->hidden};
    out[n++] = (struct buffer){&f->qkv, act * rows * w.qkv};
    out[n++] = (struct buffer){&f->mixed, act * rows * w.mixed};
    out[n++] = (struct buffer){&f->gate_up, act * rows * w.ffn * 2};
    out[n++] = (struct buffer){&f->gated, act * rows * w.ffn};
    for (uint32_t i = 0; i < spec->rope_count; i++)
        out[n++] = (struct buffer){(void **)&f->angles[i], (size_t)rows * w.half * 2 * sizeof(float)};
    out[n++] = (struct buffer){&f->head_x, act * HEAD_ROWS * spec->hidden};
    out[n++] = (struct buffer){&f->head_delta, act * HEAD_ROWS * spec->hidden};
    out[n++] = (struct buffer){(void **)&f->logits, (size_t)HEAD_ROWS * spec->vocab * sizeof(float)};
    out[n++] = (struct buffer){&f->attention_scratch,
                               dev->ops->attention_scratch(dev, rows, w.heads, w.head_dim, max_context)};
    out[n++] = (struct buffer){&f->sample_scratch, dev->ops->sample_scratch(dev, HEAD_ROWS, spec->vocab)};
    out[n++] = (struct buffer){(void **)&f->runs, runs * sizeof *f->runs};
    out[n++] = (struct buffer){(void **)&f->sample_rows, rows * sizeof(uint32_t)};
    out[n++] = (struct buffer){(void **)&f->ids, rows * sizeof(uint32_t)};
    out[n++] = (struct buffer){(void **)&f->slot_ids, rows * sizeof(uint32_t)};
    out[n++] = (struct buffer){(void **)&f->positions, rows * sizeof(uint32_t)};
    out[n++] = (struct buffer){(void **)&f->mask_rows, rows * sizeof(uint32_t)};
    return n;
}

uint64_t forward_bytes(const struct model *model, uint32_t max_rows, uint32_t max_context) {
    struct forward f;
    struct buffer buffers[BUFFERS_MAX];
    size_t n = list_buffers(&f, model, max_rows, max_rows, max_context, buffers);
    uint64_t total = 0;
    for (size_t i = 0; i < n; i++) total += buffers[i].size;
    return total;
}

int forward_init(struct forward *f, const struct model *model, struct slots *slots, uint32_t max_rows,
                 uint32_t max_runs, struct error *err) {
    struct buffer buffers[BUFFERS_MAX];
    *f =
        (struct forward){.model = model, .slots = slots, .dev = model->dev, .max_rows = max_rows, .max_runs = max_runs};
    size_t n = list_buffers(f, model, max_rows, max_runs, slots->table.max_context, buffers);
    for (size_t i = 0; i < n; i++) {
        *buffers[i].at = device_alloc(f->dev, buffers[i].size);
        if (*buffers[i].at) continue;
        forward_release(f);
        return error_set(err, ERR_MEMORY, "no memory for a step of %u tokens", max_rows);
    }
    return 0;
}

void forward_release(struct forward *f) {
    struct buffer buffers[BUFFERS_MAX];
    if (!f->model) return;
    size_t n = list_buffers(f, f->model, 1, 1, 1, buffers);
    for (size_t i = 0; i < n; i++) device_free(f->dev, *buffers[i].at);
    *f = (struct forward){0};
}

/* ---- layers ---- */

static void load_batch(struct forward *f, struct stream *s, const struct step_input *in) {
    CHECK(in->row_count <= f->max_rows && in->run_count <= f->max_runs && in->sample_count <= f->max_rows);
    stream_copy_in(s, f->runs, in->runs, in->run_count * sizeof *in->runs);
    stream_copy_in(s, f->sample_rows, in->sample_rows, in->sample_count * sizeof *in->sample_rows);
    f->batch = (struct step_batch){.row_count = in->row_count,
                                   .output_count = in->output_count,
                                   .run_count = in->run_count,
                                   .sample_count = in->sample_count,
                                   .runs = f->runs,
                                   .sample_rows = f->sample_rows,
                                   .ids = f->ids,
                                   .slots = f->slot_ids,
                                   .positions = f->positions};
}

static void norm(struct forward *f, struct stream *s, const float *weight, const void *delta) {
    f->dev->ops->rmsnorm(s, &(struct op_rmsnorm){.out = f->normed,
                                                 .x = f->x,
                                                 .delta = delta,
                                                 .weight = weight,
                                                 .rows = f->batch.row_count,
                                                 .width = f->model->spec.hidden,
                                                 .eps = f->model->spec.norm_eps,
                                                 .weight_offset = f->model->spec.norm_weight_offset});
}

static void product(struct forward *f, struct stream *s, void *out, const void *x, const struct matrix *w) {
    f->dev->ops->linear(s, &(struct op_linear){.out = out,
                                               .x = x,
                                               .w = w,
                                               .rows = f->batch.row_count,
                                               .class_rows = f->batch.output_count,
                                               .out_stride = w->rows});
}

/* normed -> delta. */
static void attention(struct forward *f, struct stream *s, uint32_t layer) {
    const struct attention_spec *a = &f->model->spec.layers[layer].attention;
    const struct layer_weights *w = &f->model->weights.layers[layer];
    const struct rope_spec *rope = &f->model->spec.ropes[a->rope_idx];
    const struct kv_cache *cache = &f->slots->kv;
    struct kv_view kv = {.base = cache->base,
                         .block_stride = cache->geometry.block_bytes,
                         .layer_offset = cache->geometry.layer_bytes * layer,
                         .type = cache->geometry.type,
                         .block_tokens = cache->geometry.block_tokens,
                         .kv_heads = a->kv_heads,
                         .head_dim = a->head_dim,
                         .block_count = cache->block_count,
                         .tables = f->slots->table.blocks,
                         .max_blocks = f->slots->table.max_blocks};
    product(f, s, f->qkv, f->normed, &w->qkv);
    f->dev->ops->rope_kv(s, &(struct op_rope_kv){.qkv = f->qkv,
                                                 .angles = rope->kind == ROPE_NONE ? NULL : f->angles[a->rope_idx],
                                                 .half = rope->dims / 2,
                                                 .interleaved = rope->interleaved,
                                                 .heads = a->heads,
                                                 .kv = &kv,
                                                 .batch = &f->batch});
    f->dev->ops->attention(s, &(struct op_attention){.out = f->mixed,
                                                     .qkv = f->qkv,
                                                     .heads = a->heads,
                                                     .window = a->window,
                                                     .scale = a->scale,
                                                     .class_rows = f->batch.output_count,
                                                     .kv = &kv,
                                                     .batch = &f->batch,
                                                     .scratch = f->attention_scratch});
    product(f, s, f->delta, f->mixed, &w->out);
}

/* normed -> delta. */
static void gated_ffn(struct forward *f, struct stream *s, uint32_t layer) {
    const struct ffn_spec *ffn = &f->model->spec.layers[layer].ffn;
    const struct layer_weights *w = &f->model->weights.layers[layer];
    product(f, s, f->gate_up, f->normed, &w->gate_up);
    f->dev->ops->act_mul(s, &(struct op_act_mul){.out = f->gated,
                                                 .gate_up = f->gate_up,
                                                 .rows = f->batch.row_count,
                                                 .width = ffn->width,
                                                 .activation = ffn->activation});
    product(f, s, f->delta, f->gated, &w->down);
}

void forward_layers(struct forward *f, struct stream *s, const struct step_input *input) {
    const struct model_spec *spec = &f->model->spec;
    const struct ops *ops = f->dev->ops;
    load_batch(f, s, input);
    ops->prepare(s, &(struct op_prepare){.slots = &f->slots->table, .batch = &f->batch});
    ops->embed(s, &(struct op_embed){
                      .out = f->x, .table = &f->model->weights.embed, .batch = &f->batch, .scale = spec->embed_scale});
    for (uint32_t i = 0; i < spec->rope_count; i++)
        ops->rope_angles(s, &(struct op_rope_angles){.out = f->angles[i],
                                                     .inv_freq = f->model->inv_freq[i],
                                                     .half = spec->ropes[i].dims / 2,
                                                     .scale = (float)spec->ropes[i].scale,
                                                     .batch = &f->batch});
    for (uint32_t i = 0; i < spec->layer_count; i++) {
        norm(f, s, f->model->weights.layers[i].mixer_norm, i ? f->delta : NULL);
        attention(f, s, i);
        norm(f, s, f->model->weights.layers[i].ffn_norm, f->delta);
        gated_ffn(f, s, i);
        if (f->progress) f->progress(f->progress_ctx);
    }
}

/* ---- head ---- */

void forward_logits(struct forward *f, struct stream *s, uint32_t first, uint32_t count) {
    const struct model_spec *spec = &f->model->spec;
    const struct ops *ops = f->dev->ops;
    CHECK(count <= HEAD_ROWS && first + count <= f->batch.sample_count);
    const uint32_t *rows = f->sample_rows + first;
    ops->gather_rows(
        s, &(struct op_gather_rows){.out = f->head_x, .x = f->x, .idx = rows, .count = count, .width = spec->hidden});
    ops->gather_rows(s, &(struct op_gather_rows){
                            .out = f->head_delta, .x = f->delta, .idx = rows, .count = count, .width = spec->hidden});
    ops->rmsnorm(s, &(struct op_rmsnorm){.out = f->head_delta,
                                         .x = f->head_x,
                                         .delta = f->head_delta,
                                         .weight = f->model->weights.final_norm,
                                         .rows = count,
                                         .width = spec->hidden,
                                         .eps = spec->norm_eps,
                                         .weight_offset = spec->norm_weight_offset});
    ops->linear(s, &(struct op_linear){.out = f->logits,
                                       .x = f->head_delta,
                                       .w = &f->model->weights.head,
                                       .rows = count,
                                       .class_rows = count,
                                       .out_stride = spec->vocab,
                                       .out_f32 = true});
}

static struct sample_out out_from(const struct sample_out *out, uint32_t first) {
    return (struct sample_out){.tokens = out->tokens + first,
                               .status = out->status + first,
                               .logprobs = out->logprobs + first,
                               .top_counts = out->top_counts + first,
                               .top_ids = out->top_ids + (size_t)first * SAMPLE_TOP_MAX,
                               .top_logprobs = out->top_logprobs + (size_t)first * SAMPLE_TOP_MAX};
}

void forward_sample(struct forward *f, struct stream *s, const struct sample_out *out, const uint32_t *masks,
                    const uint32_t *mask_rows, uint32_t mask_stride) {
    uint32_t total = f->batch.sample_count;
    if (masks) stream_copy_in(s, f->mask_rows, mask_rows, total * sizeof *mask_rows);
    for (uint32_t first = 0; first < total; first += HEAD_ROWS) {
        uint32_t count = MIN(total - first, (uint32_t)HEAD_ROWS);
        struct sample_out part = out_from(out, first);
        struct step_batch batch = f->batch;
        batch.sample_rows += first;
        batch.sample_count = count;
        forward_logits(f, s, first, count);
        f->dev->ops->sample(s, &(struct op_sample){.logits = f->logits,
                                                   .logits_stride = f->model->spec.vocab,
                                                   .vocab_size = f->model->spec.vocab,
                                                   .masks = masks,
                                                   .mask_rows = masks ? f->mask_rows + first : NULL,
                                                   .mask_stride = mask_stride,
                                                   .slots = &f->slots->table,
                                                   .batch = &batch,
                                                   .out = &part,
                                                   .scratch = f->sample_scratch});
    }
}
