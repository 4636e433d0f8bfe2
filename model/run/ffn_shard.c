/* The dense feed-forwards' weights where several ranks divide the width (shard.h). */
#include "model/run/ffn_dense.h"

struct shard_range ffn_own(const struct loader *l, uint32_t layer) {
    if (!shard_divides_ffn(l->shard, l->spec, layer))
        return (struct shard_range){0};
    return shard_width(l->shard, l->spec->layers[layer].ffn.width);
}

int ffn_load_down(struct loader *l, uint32_t layer, struct matrix *down) {
    const struct ffn_spec *ffn = &l->spec->layers[layer].ffn;
    const struct product_segment segment = {ROLE_DOWN, ROLE_DOWN_BIAS, l->spec->hidden};
    return loader_partial(l, down, &segment, ffn_own(l, layer), ffn->width, ffn->down_bias, layer);
}

uint32_t *ffn_fused_order(uint32_t width, struct shard_range own) {
    uint32_t *order = mem_calloc(2 * (size_t)own.count, sizeof *order);
    for (uint32_t i = 0; i < own.count; i++) {
        order[i] = own.first + i;
        order[own.count + i] = width + own.first + i;
    }
    return order;
}

int ffn_take_fused(struct loader *l, uint32_t layer, struct matrix *up) {
    const struct ffn_spec *ffn = &l->spec->layers[layer].ffn;
    const struct product_segment fused = {ROLE_GATE_UP, ROLE_GATE_UP_BIAS, 2 * ffn->width};
    struct shard_range own = ffn_own(l, layer);
    if (!own.count)
        return loader_take(l, up, &fused, NULL, 1, l->spec->hidden, ffn->bias, layer, NULL);
    uint32_t *order = ffn_fused_order(ffn->width, own);
    const struct cut cut = {.rows = {0, 2 * own.count}};
    int rc = loader_take(l, up, &fused, &cut, 1, l->spec->hidden, ffn->bias, layer, order);
    mem_free(order);
    return rc;
}
