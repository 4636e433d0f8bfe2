#include "worker/flight.h"

#include "base/clock.h"

int flight_init(struct flight *f, struct device *dev, uint32_t slot_count, struct error *err) {
    size_t n = (size_t)slot_count + FLIGHT_DRAFTS_MAX;
    *f = (struct flight){.dev = dev};
    f->done = event_new(dev);
    f->rows = mem_calloc(slot_count, sizeof *f->rows);
    f->sample_of = mem_calloc(slot_count, sizeof *f->sample_of);
    f->out = (struct sample_out){
        .tokens = device_alloc_host(dev, n * sizeof(uint32_t)),
        .status = device_alloc_host(dev, n * sizeof(uint32_t)),
        .logprobs = device_alloc_host(dev, n * sizeof(float)),
        .top_counts = device_alloc_host(dev, n * sizeof(uint32_t)),
        .top_ids = device_alloc_host(dev, n * SAMPLE_TOP_MAX * sizeof(uint32_t)),
        .top_logprobs = device_alloc_host(dev, n * SAMPLE_TOP_MAX * sizeof(float)),
        .states = device_alloc_host(dev, n * sizeof(float))};
    f->slots = mem_calloc(slot_count, sizeof(uint32_t));
    f->token_counts = mem_calloc(slot_count, sizeof(uint32_t));
    f->finishes = mem_calloc(slot_count, sizeof(uint32_t));
    f->tokens = mem_calloc(n, sizeof(uint32_t));
    f->tops = mem_calloc(n, sizeof(uint32_t));
    f->logprob_ids = mem_calloc(n * (SAMPLE_TOP_MAX + 1), sizeof(uint32_t));
    f->logprob_values = mem_calloc(n * (SAMPLE_TOP_MAX + 1), sizeof(float));
    f->sampler_states = mem_calloc(n, sizeof(float));
    f->ops_done = mem_calloc(FLIGHT_OPS_MAX, sizeof(uint32_t));
    for (uint32_t i = 0; i < FLIGHT_OPS_MAX; i++)
        f->ops_done[i] = i;
    bool ok = f->done && f->out.tokens && f->out.status && f->out.logprobs && f->out.top_counts &&
              f->out.top_ids && f->out.top_logprobs && f->out.states;
    if (ok)
        return 0;
    flight_release(f);
    return error_set(err, ERR_MEMORY, "no memory for results");
}

void flight_release(struct flight *f) {
    event_free(&f->done);
    if (f->dev) {
        void *pinned[] = {
            f->out.tokens,       f->out.status, f->out.logprobs, f->out.top_counts, f->out.top_ids,
            f->out.top_logprobs, f->out.states, f->mask_bits,    f->mask_rows,      f->states};
        for (size_t i = 0; i < ARRAY_LEN(pinned); i++)
            device_free_host(f->dev, pinned[i]);
    }
    void *owned[] = {f->rows,           f->sample_of,     f->slots,       f->token_counts,
                     f->finishes,       f->tokens,        f->tops,        f->logprob_ids,
                     f->logprob_values, f->ops_done,      f->state_first, f->state_counts,
                     f->vectors,        f->sampler_states};
    for (size_t i = 0; i < ARRAY_LEN(owned); i++)
        mem_free(owned[i]);
    *f = (struct flight){0};
}

int flight_add_masks(struct flight *f, uint32_t slot_count, uint32_t word_count,
                     struct error *err) {
    f->mask_bits = device_alloc_host(f->dev, (size_t)slot_count * word_count * sizeof(uint32_t));
    f->mask_rows =
        device_alloc_host(f->dev, ((size_t)slot_count + FLIGHT_DRAFTS_MAX) * sizeof(uint32_t));
    return f->mask_bits && f->mask_rows ? 0
                                        : error_set(err, ERR_MEMORY, "no memory for token masks");
}

int flight_add_vectors(struct flight *f, uint32_t slot_count, uint32_t state_max,
                       struct pooling_state *pooling, struct error *err) {
    f->states = device_alloc_host(f->dev, (size_t)state_max * pooling->width * sizeof(float));
    if (!f->states)
        return error_set(err, ERR_MEMORY, "no memory for the states of %u positions", state_max);
    f->pooling = pooling;
    f->state_max = state_max;
    f->state_first = mem_calloc(slot_count, sizeof(uint32_t));
    f->state_counts = mem_calloc(slot_count, sizeof(uint32_t));
    f->vectors = mem_calloc((size_t)slot_count * pooling->vector_width, sizeof(float));
    return 0;
}

static enum wire_finish finish_of(uint32_t status) {
    switch (status) {
    case SAMPLE_STOP: return WIRE_FINISH_STOP;
    case SAMPLE_LENGTH: return WIRE_FINISH_LENGTH;
    case SAMPLE_NONFINITE: return WIRE_FINISH_ERROR;
    default: return WIRE_FINISH_NONE;
    }
}

struct counts {
    size_t tokens, entries, vectors;
    bool logprobs, steered;
};

/* Appends the token of sample `s`, with its logprobs: the chosen first, then the best. */
static void add_token(struct flight *f, uint32_t s, struct counts *t) {
    uint32_t top = f->out.top_counts[s];
    f->sampler_states[t->tokens] = f->out.states[s];
    t->steered |= f->out.states[s] != 0;
    f->tokens[t->tokens] = f->out.tokens[s];
    f->tops[t->tokens++] = top == SAMPLE_NO_LOGPROBS ? WIRE_NO_LOGPROBS : top;
    if (top == SAMPLE_NO_LOGPROBS)
        return;
    t->logprobs = true;
    f->logprob_ids[t->entries] = f->out.tokens[s];
    f->logprob_values[t->entries++] = f->out.logprobs[s];
    memcpy(f->logprob_ids + t->entries, f->out.top_ids + (size_t)s * SAMPLE_TOP_MAX,
           top * sizeof(uint32_t));
    memcpy(f->logprob_values + t->entries, f->out.top_logprobs + (size_t)s * SAMPLE_TOP_MAX,
           top * sizeof(float));
    t->entries += top;
}

/* The row is of a prompt that becomes a vector. */
static enum wire_finish pool_row(struct flight *f, uint32_t i, struct counts *t) {
    const struct mirror_row *row = &f->rows[i];
    uint32_t width = f->pooling->width;
    bool finite =
        pooling_take(f->pooling, row, f->states + (size_t)f->state_first[i] * width,
                     f->state_counts[i], f->vectors + t->vectors * f->pooling->vector_width);
    if (!row->embeds)
        return WIRE_FINISH_NONE;
    t->vectors += finite;
    return finite ? WIRE_FINISH_STOP : WIRE_FINISH_ERROR;
}

static void finish_row(struct flight *f, struct mirror *mirror, uint32_t i, struct counts *t) {
    const struct mirror_row *row = &f->rows[i];
    uint32_t s = f->sample_of[i];
    f->slots[i] = row->slot;
    f->token_counts[i] = 0;
    f->finishes[i] = row->fate == ROW_FAILED ? WIRE_FINISH_ERROR : WIRE_FINISH_NONE;
    if (row->pools && row->fate == ROW_RUNS)
        f->finishes[i] = pool_row(f, i, t);
    if (s == ROW_NONE)
        return;
    uint32_t status, end = s + 1 + row->draft_count;
    do {
        status = f->out.status[s];
        if (status == SAMPLE_NONFINITE || status == SAMPLE_WASTED)
            break;
        f->token_counts[i]++;
        add_token(f, s, t);
    } while (status == SAMPLE_TOKEN && ++s < end);
    if (row->draft_count && mirror)
        mirror_accept_drafts(mirror, row->slot, row->admission, MAX(f->token_counts[i], 1) - 1);
    if (status == SAMPLE_WASTED && f->token_counts[i])
        return; /* the next draft was wrong */
    f->finishes[i] = finish_of(status);
    if (status != SAMPLE_TOKEN && mirror)
        mirror_ended(mirror, row->slot, row->admission);
}

void flight_finish(struct flight *f, struct mirror *mirror, struct wire_step_result *result) {
    struct counts t = {0};
    for (uint32_t i = 0; i < f->row_count; i++)
        finish_row(f, mirror, i, &t);
    *result = (struct wire_step_result){.plan_number = f->plan_number,
                                        .incarnation = f->incarnation,
                                        .slots = {f->slots, f->row_count},
                                        .token_counts = {f->token_counts, f->row_count},
                                        .finishes = {f->finishes, f->row_count},
                                        .tokens = {f->tokens, t.tokens},
                                        .ops_done = {f->ops_done, f->op_count},
                                        .compute_us = (uint64_t)(clock_us() - f->start_us)};
    if (t.vectors) {
        result->vector_width = f->pooling->vector_width;
        result->vectors = (struct f32s){f->vectors, t.vectors * f->pooling->vector_width};
    }
    if (t.steered)
        result->sampler_states = (struct f32s){f->sampler_states, t.tokens};
    if (t.logprobs)
        result->logprobs = (struct wire_logprobs){.tops = {f->tops, t.tokens},
                                                  .ids = {f->logprob_ids, t.entries},
                                                  .values = {f->logprob_values, t.entries}};
}
