/* prepare, embed, gather: rows of a step. */
#include "kernels/ref/ref.h"

static void pad_run(const struct step_batch *b, const struct step_run *run) {
    for (uint32_t i = 0; i < run->token_count; i++) {
        b->ids[run->row_first + i] = 0;
        b->slots[run->row_first + i] = run->slot == ROW_NONE ? 0 : run->slot;
        b->positions[run->row_first + i] = ROW_NONE;
    }
}

void ref_prepare(struct stream *s, const struct op_prepare *a) {
    const struct step_batch *b = a->batch;
    for (uint32_t r = 0; r < b->run_count; r++) {
        const struct step_run *run = &b->runs[r];
        CHECK(run->row_first + run->token_count <= b->row_count);
        if (run->slot == ROW_NONE) {
            pad_run(b, run);
            continue;
        }
        CHECK(run->slot < a->slots->slot_count);
        struct slot_state *state = &a->slots->states[run->slot];
        const uint32_t *tokens = a->slots->tokens + (size_t)run->slot * a->slots->max_context;
        uint32_t known = b->drafted ? a->slots->max_context : state->token_count;
        if (!state->active || state->computed_count + run->token_count > known) {
            pad_run(b, run);
            continue;
        }
        for (uint32_t i = 0; i < run->token_count; i++) {
            uint32_t position = state->computed_count + i, row = run->row_first + i;
            b->ids[row] = tokens[position];
            b->slots[row] = run->slot;
            b->positions[row] = position;
        }
        state->computed_count += run->token_count;
    }
}

void ref_embed(struct stream *s, const struct op_embed *a) {
    uint32_t width = a->table->cols;
    float *out = a->out;
    for (uint32_t t = 0; t < a->batch->row_count; t++, out += width) {
        uint32_t id = a->batch->ids[t];
        if (a->batch->positions[t] == ROW_NONE || id < a->first ||
            id - a->first >= a->table->rows) {
            memset(out, 0, width * sizeof *out);
            continue;
        }
        matrix_dequantize(a->table, id - a->first, 0, width, out);
        for (uint32_t i = 0; i < width; i++)
            out[i] *= a->scale;
    }
}

void ref_gather_rows(struct stream *s, const struct op_gather_rows *a) {
    for (uint32_t i = 0; i < a->count; i++)
        memcpy((float *)a->out + (size_t)i * a->width,
               (const float *)a->x + (size_t)a->idx[i] * a->width, a->width * sizeof(float));
}
