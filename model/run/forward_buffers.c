#include "model/run/forward_shared.h"
#include "model/run/layer_kinds.h"

struct buffer {
    void **at;
    size_t size;
};

/* The largest scratch area a layer's mixer or feed-forward wants. */
static size_t scratch_bytes(const struct forward *f) {
    const struct model_spec *spec = &f->model->spec;
    size_t most = 64;
    for (uint32_t i = 0; i < spec->layer_count; i++) {
        const struct layer_spec *layer = &spec->layers[i];
        if (layer->mixer)
            most = MAX(most, MIXERS[layer->mixer]->buffers(f, layer, NULL));
        if (layer->beside)
            most = MAX(most, MIXERS[layer->beside]->buffers(f, layer, NULL));
        if (layer->ffn.kind)
            most = MAX(most, FFNS[layer->ffn.kind]->buffers(f, layer, NULL));
    }
    return most;
}

static bool any_parallel(const struct model_spec *spec) {
    for (uint32_t i = 0; i < spec->layer_count; i++)
        if (spec->layers[i].parallel || spec->layers[i].beside)
            return true;
    return false;
}

static bool any_window(const struct model_spec *spec) {
    for (uint32_t i = 0; i < spec->layer_count; i++)
        if (spec->layers[i].attention.window)
            return true;
    return false;
}

static bool any_first_values(const struct model_spec *spec) {
    for (uint32_t i = 0; i < spec->layer_count; i++)
        if (spec->layers[i].mixer && MIXERS[spec->layers[i].mixer]->uses_first)
            return true;
    return false;
}

/* Logits this rank computes. */
static uint32_t head_width(const struct forward *f) {
    return shard_vocab(&f->model->shard, f->model->spec.vocab).count;
}

uint32_t forward_head_rows(const struct forward *f) {
    /* ranks stage so many on the host */
    bool small = f->dev->kind == DEVICE_CPU || shard_tp(&f->model->shard) > 1;
    return small ? (uint32_t)HEAD_ROWS : MIN(MAX(f->max_runs, (uint32_t)HEAD_ROWS), 256u);
}

/* Every buffer and its size, for allocation and for the memory plan. */
static size_t list_buffers(struct forward *f, struct buffer out[FORWARD_BUFFERS_MAX]) {
    const struct model_spec *spec = &f->model->spec;
    const struct device *dev = f->dev;
    size_t act = storage_bytes(dev->activation_type, 1), rows = f->max_rows, n = 0;
    out[n++] = (struct buffer){(void **)&f->x, sizeof *f->x * rows * spec->hidden};
    out[n++] = (struct buffer){&f->delta, act * rows * spec->hidden};
    out[n++] = (struct buffer){&f->normed, act * rows * spec->hidden};
    if (dev->ops->folds_norm)
        out[n++] = (struct buffer){(void **)&f->squares,
                                   sizeof *f->squares * rows * (spec->hidden / NORM_GROUP + 1)};
    if (f->model->weights.fp8_cols)
        out[n++] =
            (struct buffer){&f->linear_scratch,
                            dev->ops->linear_scratch(dev, MAX(f->max_rows, forward_head_rows(f)),
                                                     f->model->weights.fp8_cols)};
    if (any_parallel(spec)) {
        out[n++] = (struct buffer){&f->delta_ffn, act * rows * spec->hidden};
        out[n++] = (struct buffer){&f->normed_ffn, act * rows * spec->hidden};
    }
    if (any_first_values(spec))
        out[n++] = (struct buffer){&f->first_values, act * rows * spec->hidden};
    out[n++] = (struct buffer){(void **)&f->scratch, scratch_bytes(f)};
    for (uint32_t i = 0; i < spec->rope_count; i++)
        out[n++] = (struct buffer){(void **)&f->angles[i],
                                   rows * MAX(spec->ropes[i].dims, 2u) * sizeof(float)};
    out[n++] = (struct buffer){(void **)&f->head_x,
                               sizeof *f->head_x * forward_head_rows(f) * spec->hidden};
    out[n++] = (struct buffer){&f->head_delta, act * forward_head_rows(f) * spec->hidden};
    out[n++] = (struct buffer){(void **)&f->logits,
                               (size_t)forward_head_rows(f) * spec->vocab * sizeof(float)};
    if (shard_tp(&f->model->shard) > 1)
        out[n++] = (struct buffer){(void **)&f->own_logits,
                                   (size_t)forward_head_rows(f) * head_width(f) * sizeof(float)};
    out[n++] = (struct buffer){&f->sample_scratch,
                               dev->ops->sample_scratch(dev, forward_head_rows(f), spec->vocab)};
    out[n++] = (struct buffer){(void **)&f->runs, f->max_runs * sizeof *f->runs};
    out[n++] = (struct buffer){(void **)&f->sample_rows, rows * sizeof(uint32_t)};
    out[n++] = (struct buffer){(void **)&f->state_rows, rows * sizeof(uint32_t)};
    if (spec->bidirectional)
        out[n++] = (struct buffer){(void **)&f->row_last, rows * sizeof(uint32_t)};
    if (spec->bidirectional && any_window(spec))
        out[n++] = (struct buffer){(void **)&f->row_last_near, rows * sizeof(uint32_t)};
    if (spec_adds_types(spec))
        out[n++] = (struct buffer){(void **)&f->row_types, rows * sizeof(uint32_t)};
    out[n++] = (struct buffer){(void **)&f->ids, rows * sizeof(uint32_t)};
    out[n++] = (struct buffer){(void **)&f->slot_ids, rows * sizeof(uint32_t)};
    out[n++] = (struct buffer){(void **)&f->positions, rows * sizeof(uint32_t)};
    out[n++] = (struct buffer){(void **)&f->mask_rows, rows * sizeof(uint32_t)};
    out[n++] = (struct buffer){(void **)&f->masks,
                               (size_t)f->max_runs * forward_mask_words(f) * sizeof *f->masks};
    return n;
}

uint64_t forward_bytes(const struct model *model, uint32_t max_rows, uint32_t max_context) {
    struct forward f = {.model = model,
                        .dev = model->dev,
                        .max_rows = max_rows,
                        .max_runs = max_rows,
                        .max_context = max_context};
    struct buffer buffers[FORWARD_BUFFERS_MAX];
    size_t n = list_buffers(&f, buffers);
    uint64_t total = 0;
    for (size_t i = 0; i < n; i++)
        total += buffers[i].size;
    return total;
}

int forward_init(struct forward *f, const struct model *model, struct slots *slots,
                 uint32_t max_rows, uint32_t max_runs, struct error *err) {
    struct buffer buffers[FORWARD_BUFFERS_MAX];
    *f = (struct forward){.model = model,
                          .slots = slots,
                          .dev = model->dev,
                          .max_rows = max_rows,
                          .max_runs = max_runs,
                          .max_context = slots->table.max_context,
                          .constrained = true};
    size_t n = list_buffers(f, buffers);
    for (size_t i = 0; i < n; i++) {
        *buffers[i].at = f->owned[i] = device_alloc(f->dev, buffers[i].size);
        if (f->owned[i])
            continue;
        forward_release(f);
        return error_set(err, ERR_MEMORY, "no memory for a step of %u tokens", max_rows);
    }
    if (model->spec.bidirectional)
        f->rows_host = mem_calloc(max_rows, sizeof *f->rows_host);
    return 0;
}

void forward_release(struct forward *f) {
    if (!f->model)
        return;
    for (size_t i = 0; i < FORWARD_BUFFERS_MAX; i++)
        device_free(f->dev, f->owned[i]);
    mem_free(f->rows_host);
    *f = (struct forward){0};
}
