/*
 * routing.h - which experts each position of a run went to, noted layer by layer (on the CPU, where
 * a step is done when the call returns).
 */
#ifndef TESTS_UNIT_MODEL_ROUTING_H
#define TESTS_UNIT_MODEL_ROUTING_H

#include "model/run/ffn_moe_weights.h"
#include "rig.h"

enum { ROUTING_ROWS = 1024 };
struct routing {
    const struct forward *f;
    uint32_t step_layer;
    uint64_t rows[ROUTING_ROWS]; /* by position: a sum over (layer, expert), whatever their order */
};

static inline void routing_layer(void *ctx) {
    struct routing *n = ctx;
    const struct forward *f = n->f;
    uint32_t layer = n->step_layer++ % f->model->spec.layer_count;
    const struct layer_spec *spec = &f->model->spec.layers[layer];
    if (spec->ffn.kind != FFN_MOE)
        return;
    const uint32_t *chosen = ffn_moe_chosen(f, layer);
    for (uint32_t i = 0; i < f->batch.row_count * spec->moe.router.top_k; i++) {
        uint32_t position = f->batch.positions[i / spec->moe.router.top_k];
        if (position < ROUTING_ROWS)
            n->rows[position] +=
                (layer * ROUTE_EXPERTS_MAX + chosen[i] + 1) * 0x9e3779b97f4a7c15u >> 8;
    }
}

/* From now on; n must live as long as the rig steps. */
static inline void routing_note(struct routing *n, struct rig *r) {
    memset(n, 0, sizeof *n);
    n->f = &r->forward;
    r->forward.progress = routing_layer;
    r->forward.progress_ctx = n;
}

#endif
