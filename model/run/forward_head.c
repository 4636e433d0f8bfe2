#include "model/run/forward_shared.h"

/* head_x and what is pending in head_delta: added, normed, projected. */
static const void *final_rows(struct forward *f, struct stream *s, uint32_t count) {
    const struct model_spec *spec = &f->model->spec;
    const struct matrix *project = &f->model->weights.project_out;
    const void *delta = f->pending ? f->head_delta : NULL;
    bool plain = spec->final_norm.kind == NORM_NONE;
    forward_norm_rows(
        f, s, &(struct norm_call){f->head_delta, f->head_x, delta, f->pending_scale, count, true},
        plain ? NULL : &spec->final_norm, plain ? NULL : &f->model->weights.final_norm);
    if (spec->embed_dim == spec->hidden)
        return f->head_delta;
    f->dev->ops->linear(s, &(struct op_linear){.out = f->head_x,
                                               .x = f->head_delta,
                                               .w = project,
                                               .rows = count,
                                               .class_rows = count,
                                               .out_stride = project->rows,
                                               .scratch = f->linear_scratch});
    return f->head_x;
}

/* Rows of the last residual into head_x, and of what is pending into head_delta. rows: device
 * memory. */
static void gather_last(struct forward *f, struct stream *s, const uint32_t *rows, uint32_t count) {
    const struct model_spec *spec = &f->model->spec;
    const struct ops *ops = f->dev->ops;
    ops->gather_rows(s, &(struct op_gather_rows){.out = f->head_x,
                                                 .x = f->x,
                                                 .idx = rows,
                                                 .count = count,
                                                 .width = spec->hidden,
                                                 .f32 = true});
    if (f->pending)
        ops->gather_rows(s, &(struct op_gather_rows){.out = f->head_delta,
                                                     .x = f->pending,
                                                     .idx = rows,
                                                     .count = count,
                                                     .width = spec->hidden});
}

void forward_states(struct forward *f, struct stream *s, const uint32_t *rows, uint32_t count,
                    float *out) {
    const struct model_spec *spec = &f->model->spec;
    bool plain = spec->final_norm.kind == NORM_NONE;
    CHECK(count <= f->max_rows && shard_is_last(&f->model->shard));
    stream_copy_in(s, f->state_rows, rows, count * sizeof *rows);
    for (uint32_t first = 0, n; first < count; first += n) {
        n = MIN(count - first, forward_head_rows(f));
        gather_last(f, s, f->state_rows + first, n);
        const void *delta = f->pending ? f->head_delta : NULL;
        forward_norm_rows(
            f, s, &(struct norm_call){f->head_x, f->head_x, delta, f->pending_scale, n, true},
            plain ? NULL : &spec->final_norm, plain ? NULL : &f->model->weights.final_norm);
        stream_copy_out(s, out + (size_t)first * spec->hidden, f->head_x,
                        (size_t)n * spec->hidden * sizeof *out);
    }
}

void forward_logits(struct forward *f, struct stream *s, uint32_t first, uint32_t count) {
    const struct model_spec *spec = &f->model->spec;
    const struct ops *ops = f->dev->ops;
    CHECK(count <= forward_head_rows(f) && first + count <= f->batch.sample_count);
    gather_last(f, s, f->sample_rows + first, count);
    const void *x = final_rows(f, s, count);
    ops->linear(s, &(struct op_linear){.out = f->own_logits ? f->own_logits : f->logits,
                                       .x = x,
                                       .w = &f->model->weights.head,
                                       .rows = count,
                                       .class_rows = count,
                                       .out_stride = f->model->weights.head.rows,
                                       .out_f32 = true,
                                       .scratch = f->linear_scratch});
    if (f->own_logits)
        f->ranks->gather(f->ranks_ctx, s, f->logits, spec->vocab, f->own_logits, count);
    if (spec->logit_scale != 1 || spec->logit_soft_cap != 0)
        ops->rows->finish_logits(s, &(struct op_finish_logits){.logits = f->logits,
                                                               .rows = count,
                                                               .width = spec->vocab,
                                                               .scale = spec->logit_scale,
                                                               .soft_cap = spec->logit_soft_cap});
}

static struct sample_out out_from(const struct sample_out *out, uint32_t first) {
    return (struct sample_out){.tokens = out->tokens + first,
                               .status = out->status + first,
                               .logprobs = out->logprobs + first,
                               .top_counts = out->top_counts + first,
                               .top_ids = out->top_ids + (size_t)first * SAMPLE_TOP_MAX,
                               .top_logprobs = out->top_logprobs + (size_t)first * SAMPLE_TOP_MAX,
                               .states = out->states ? out->states + first : NULL};
}

void forward_load_masks(struct forward *f, struct stream *s, const struct sample_masks *masks,
                        uint32_t sample_count) {
    if (masks && masks->await)
        masks->await(masks->ctx);
    if (masks) {
        CHECK(masks->count <= f->max_runs);
        stream_copy_in(s, f->masks, masks->bits,
                       (size_t)masks->count * forward_mask_words(f) * sizeof *f->masks);
    }
    if (f->constrained)
        stream_fill(s, f->mask_rows, 0xff, f->max_rows * sizeof *f->mask_rows);
    if (masks)
        stream_copy_in(s, f->mask_rows, masks->rows, sample_count * sizeof *masks->rows);
    f->constrained = masks != NULL;
}

void forward_sample(struct forward *f, struct stream *s, const struct sample_out *out,
                    const struct sample_masks *masks) {
    forward_load_masks(f, s, masks, f->batch.sample_count);
    forward_put_sample(f, s, out);
}

void forward_put_sample(struct forward *f, struct stream *s, const struct sample_out *out) {
    uint32_t total = f->batch.sample_count, at_once = forward_head_rows(f);
    for (uint32_t first = 0; first < total; first += at_once) {
        uint32_t count = MIN(total - first, at_once);
        struct sample_out chunk_out = out_from(out, first);
        struct step_batch batch = f->batch;
        batch.sample_rows += first;
        batch.sample_count = count;
        forward_logits(f, s, first, count);
        if (f->model->shard.rank)
            continue;
        f->dev->ops->sample(s, &(struct op_sample){.logits = f->logits,
                                                   .logits_stride = f->model->spec.vocab,
                                                   .vocab_size = f->model->spec.vocab,
                                                   .masks = f->masks,
                                                   .mask_rows = f->mask_rows + first,
                                                   .mask_stride = forward_mask_words(f),
                                                   .slots = &f->slots->table,
                                                   .batch = &batch,
                                                   .out = &chunk_out,
                                                   .scratch = f->sample_scratch});
    }
}
