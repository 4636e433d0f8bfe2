#include "worker/pooling.h"

#include <math.h>

void pooling_init(struct pooling_state *p, enum wire_pooling kind, uint32_t width,
                  uint32_t slot_count, const struct vector_head *head) {
    CHECK(kind != WIRE_POOLING_NONE && width);
    *p = (struct pooling_state){.kind = kind, .width = width, .vector_width = width, .head = head};
    if (head) {
        CHECK(head->layers[0].in == width);
        p->vector_width = vector_head_width(head);
        p->pooled = mem_calloc(width, sizeof *p->pooled);
        p->room = mem_calloc(2 * (size_t)vector_head_widest(head), sizeof *p->room);
    }
    if (kind != WIRE_POOLING_LAST)
        p->held = mem_calloc((size_t)slot_count * width, sizeof *p->held);
}

void pooling_release(struct pooling_state *p) {
    mem_free(p->held);
    mem_free(p->pooled);
    mem_free(p->room);
    *p = (struct pooling_state){0};
}

void pooling_wants(enum wire_pooling kind, const struct mirror_row *row, uint32_t *first,
                   uint32_t *count) {
    *first = *count = 0;
    if (!row->pools || row->fate != ROW_RUNS)
        return;
    switch (kind) {
    case WIRE_POOLING_NONE: break;
    case WIRE_POOLING_LAST:
        *first = row->token_count - 1;
        *count = row->embeds;
        break;
    case WIRE_POOLING_CLS: *count = row->position == 0; break;
    case WIRE_POOLING_MEAN:
    case WIRE_POOLING_MAX: *count = row->token_count; break;
    }
}

/* Adds states to what is held of the positions before. */
static void hold(const struct pooling_state *p, double *held, bool first, const float *states,
                 uint32_t count) {
    for (uint32_t r = 0; r < count; r++) {
        const float *x = states + (size_t)r * p->width;
        for (uint32_t i = 0; i < p->width; i++) {
            if (first && r == 0)
                held[i] = (double)x[i];
            else if (p->kind == WIRE_POOLING_MAX)
                held[i] = x[i] > held[i] || isnan(x[i]) ? (double)x[i] : held[i];
            else
                held[i] += (double)x[i];
        }
    }
}

bool pooling_take(struct pooling_state *p, const struct mirror_row *row, const float *states,
                  uint32_t count, float *out) {
    double *held = p->held ? p->held + (size_t)row->slot * p->width : NULL;
    float *pooled = p->head ? p->pooled : out;
    bool finite = true;
    if (held)
        hold(p, held, row->position == 0, states, count);
    if (!row->embeds)
        return true;
    double scale = p->kind == WIRE_POOLING_MEAN ? 1.0 / (row->position + row->token_count) : 1;
    for (uint32_t i = 0; i < p->width; i++) {
        pooled[i] = held ? (float)(held[i] * scale) : states[i];
        finite = finite && isfinite(pooled[i]);
    }
    if (p->head)
        vector_head_apply(p->head, pooled, p->room, out);
    for (uint32_t i = 0; p->head && i < p->vector_width; i++)
        finite = finite && isfinite(out[i]);
    return finite;
}
