#include "worker/pooling.h"

#include <math.h>

void pooling_init(struct pooling_state *p, enum wire_pooling kind, uint32_t width,
                  uint32_t slot_count, const struct score_head *score) {
    CHECK(kind != WIRE_POOLING_NONE && width);
    *p = (struct pooling_state){
        .kind = kind, .width = width, .vector_width = score ? 1 : width, .score = score};
    if (score)
        p->pooled = mem_calloc(width, sizeof *p->pooled);
    if (kind != WIRE_POOLING_LAST)
        p->held = mem_calloc((size_t)slot_count * width, sizeof *p->held);
}

void pooling_release(struct pooling_state *p) {
    mem_free(p->held);
    mem_free(p->pooled);
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

static float apply_score(const struct score_head *h, const float *x, uint32_t width) {
    double score = (double)h->out_bias;
    for (uint32_t r = 0; r < width; r++) {
        const float *row = h->dense + (size_t)r * width;
        double sum = (double)h->dense_bias[r];
        for (uint32_t i = 0; i < width; i++)
            sum += (double)row[i] * (double)x[i];
        score += (double)h->out[r] * tanh(sum);
    }
    return (float)score;
}

bool pooling_take(struct pooling_state *p, const struct mirror_row *row, const float *states,
                  uint32_t count, float *out) {
    double *held = p->held ? p->held + (size_t)row->slot * p->width : NULL;
    float *pooled = p->score ? p->pooled : out;
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
    if (p->score)
        *out = apply_score(p->score, pooled, p->width);
    return finite && isfinite(*out);
}
