#include "model/run/slots.h"

#include "model/run/rope.h"

static uint32_t blocks_of(uint32_t max_context, uint32_t block_tokens) {
    return (max_context + block_tokens - 1) / block_tokens;
}

/* A bit for each token, in whole words. */
static size_t breaker_bytes(uint32_t vocab) {
    return ((size_t)vocab + 31) / 32 * sizeof(uint32_t);
}

uint64_t slots_bytes(uint32_t slot_count, uint32_t max_context, uint32_t vocab,
                     const struct kv_geometry *kv) {
    uint64_t a_slot = sizeof(struct slot_state) + (uint64_t)max_context * 4 +
                      (uint64_t)blocks_of(max_context, kv->block_tokens) * 4 + SLOT_BIAS_MAX * 8 +
                      breaker_bytes(vocab) + kv->state_bytes;
    return a_slot * slot_count + (uint64_t)kv->snapshot_count * kv->state_bytes;
}

static bool make_tables(struct slots *slots, const struct model_spec *spec) {
    slots->spec = spec;
    for (uint32_t i = 0; i < spec->rope_count; i++) {
        if (!rope_depends_on_length(&spec->ropes[i]))
            continue;
        slots->inv_freq[i] = device_alloc(slots->dev, (size_t)slots->table.slot_count *
                                                          spec->ropes[i].dims / 2 * sizeof(float));
        if (!slots->inv_freq[i])
            return false;
    }
    return true;
}

/* The tables of a sequence whose prompt has so many tokens. */
static void put_tables(struct slots *slots, struct stream *stream, uint32_t slot, uint32_t tokens) {
    float host[SPEC_HEAD_DIM_MAX / 2];
    for (uint32_t i = 0; i < slots->spec->rope_count; i++) {
        uint32_t half = slots->spec->ropes[i].dims / 2;
        if (!slots->inv_freq[i])
            continue;
        rope_inv_freq(&slots->spec->ropes[i], tokens, host);
        stream_copy_in(stream, slots->inv_freq[i] + (size_t)slot * half, host, half * sizeof *host);
    }
}

int slots_init(struct slots *slots, const struct model *model, const struct kv_geometry *kv,
               uint32_t slot_count, uint32_t max_context, uint32_t block_count, struct error *err) {
    struct device *dev = model->dev;
    *slots = (struct slots){.dev = dev, .kv = {.geometry = *kv, .block_count = block_count}};
    struct slot_table *t = &slots->table;
    *t = (struct slot_table){.slot_count = slot_count,
                             .max_context = max_context,
                             .max_blocks = blocks_of(max_context, kv->block_tokens),
                             .group_count = 1};
    t->states = device_alloc(dev, slot_count * sizeof *t->states);
    t->tokens = device_alloc(dev, (size_t)slot_count * max_context * sizeof *t->tokens);
    t->blocks = device_alloc(dev, (size_t)slot_count * t->max_blocks * sizeof *t->blocks);
    t->bias_ids = device_alloc(dev, (size_t)slot_count * SLOT_BIAS_MAX * sizeof *t->bias_ids);
    t->bias_values = device_alloc(dev, (size_t)slot_count * SLOT_BIAS_MAX * sizeof *t->bias_values);
    t->breakers = device_alloc(dev, slot_count * breaker_bytes(model->spec.vocab));
    slots->kv.base = device_alloc(dev, block_count * kv->block_bytes);
    if (kv->state_bytes)
        slots->state =
            device_alloc(dev, ((size_t)slot_count + kv->snapshot_count) * kv->state_bytes);
    bool ropes = make_tables(slots, &model->spec);
    if (!ropes || !t->states || !t->tokens || !t->blocks || !t->bias_ids || !t->bias_values ||
        !t->breakers || !slots->kv.base || (kv->state_bytes && !slots->state)) {
        slots_release(slots);
        return error_set(err, ERR_MEMORY, "no memory for %u slots and a KV cache of %llu MB",
                         slot_count, (unsigned long long)(block_count * kv->block_bytes >> 20));
    }
    struct stream *stream = stream_new(dev);
    stream_fill(stream, t->states, 0, slot_count * sizeof *t->states);
    struct event *done = event_new(dev);
    event_record(done, stream);
    int rc = event_wait(done);
    event_free(&done);
    stream_free(&stream);
    return rc;
}

void slots_release(struct slots *slots) {
    struct slot_table *t = &slots->table;
    device_free(slots->dev, t->states);
    device_free(slots->dev, t->tokens);
    device_free(slots->dev, t->blocks);
    device_free(slots->dev, t->bias_ids);
    device_free(slots->dev, t->bias_values);
    device_free(slots->dev, t->breakers);
    device_free(slots->dev, slots->kv.base);
    device_free(slots->dev, slots->state);
    for (int i = 0; i < SPEC_ROPES_MAX; i++)
        device_free(slots->dev, slots->inv_freq[i]);
    *slots = (struct slots){0};
}

void slots_copy_states(struct slots *slots, struct stream *stream, const uint32_t *sources,
                       const uint32_t *targets, uint32_t count) {
    uint32_t all = slots->table.slot_count + slots->kv.geometry.snapshot_count;
    for (uint32_t i = 0; i < count; i++)
        CHECK(slots->state && sources[i] < all && targets[i] < all);
    slots->dev->ops->kv_copy(stream,
                             &(struct op_kv_copy){.base = slots->state,
                                                  .block_stride = slots->kv.geometry.state_bytes,
                                                  .sources = sources,
                                                  .targets = targets,
                                                  .count = count});
}

void slots_add_blocks(struct slots *slots, struct stream *stream, uint32_t slot, uint32_t have,
                      const uint32_t *blocks, uint32_t count) {
    const struct slot_table *t = &slots->table;
    CHECK(slot < t->slot_count && have <= t->max_blocks && count <= t->max_blocks - have);
    stream_copy_in(stream, t->blocks + (size_t)slot * t->max_blocks + have, blocks,
                   count * sizeof *blocks);
}

void slots_draft(struct slots *slots, struct stream *stream, uint32_t slot, uint32_t known,
                 struct tokens drafts) {
    const struct slot_table *t = &slots->table;
    CHECK(slot < t->slot_count && known < t->max_context && drafts.count < t->max_context - known);
    stream_copy_in(stream, t->tokens + (size_t)slot * t->max_context + known, drafts.ids,
                   drafts.count * sizeof *drafts.ids);
}

static void put_breakers(struct slots *slots, struct stream *stream, uint32_t slot,
                         struct bytes breakers) {
    size_t bytes = breaker_bytes(slots->spec->vocab);
    char *at = (char *)slots->table.breakers + slot * bytes;
    stream_fill(stream, at, 0, bytes);
    stream_copy_in(stream, at, breakers.data, MIN(breakers.len, bytes));
}

void slots_admit(struct slots *slots, struct stream *stream, uint32_t slot,
                 const struct slot_admission *a) {
    const struct slot_table *t = &slots->table;
    struct slot_state state = *a->state;
    CHECK(slot < t->slot_count && state.token_count && state.token_count <= t->max_context &&
          state.computed_count < state.token_count);
    CHECK(state.bias_count <= SLOT_BIAS_MAX && state.stop_count <= SLOT_STOPS_MAX &&
          state.max_total <= t->max_context);
    state.active = 1;
    put_tables(slots, stream, slot, state.prompt_count ? state.prompt_count : state.token_count);
    stream_copy_in(stream, t->tokens + (size_t)slot * t->max_context, a->tokens,
                   state.token_count * sizeof *a->tokens);
    stream_copy_in(stream, t->bias_ids + (size_t)slot * SLOT_BIAS_MAX, a->bias_ids,
                   state.bias_count * sizeof *a->bias_ids);
    stream_copy_in(stream, t->bias_values + (size_t)slot * SLOT_BIAS_MAX, a->bias_values,
                   state.bias_count * sizeof *a->bias_values);
    if (state.rules.dry_multiplier > 0)
        put_breakers(slots, stream, slot, a->breakers);
    slots_add_blocks(slots, stream, slot, 0, a->blocks, a->block_count);
    stream_copy_in(stream, t->states + slot, &state, sizeof state);
}

void slots_remove(struct slots *slots, struct stream *stream, uint32_t slot) {
    CHECK(slot < slots->table.slot_count);
    stream_fill(stream, slots->table.states + slot, 0, sizeof *slots->table.states);
}

void slots_end(struct slots *slots, struct stream *stream, uint32_t slot) {
    CHECK(slot < slots->table.slot_count);
    stream_fill(stream, &slots->table.states[slot].active, 0, sizeof slots->table.states->active);
}

void slots_accept(struct slots *slots, struct stream *stream, uint32_t slot, uint32_t idx,
                  uint32_t token, bool ended) {
    const struct slot_table *t = &slots->table;
    uint32_t count = idx + 1;
    CHECK(slot < t->slot_count && idx < t->max_context);
    stream_copy_in(stream, t->tokens + (size_t)slot * t->max_context + idx, &token, sizeof token);
    stream_copy_in(stream, &t->states[slot].token_count, &count, sizeof count);
    if (ended)
        slots_end(slots, stream, slot);
}
