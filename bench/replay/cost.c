#include "replay/cost.h"

#include "base/base.h"

void replay_cost_default(struct replay_cost *cost) {
    *cost = (struct replay_cost){.parameters = 8.03e9,
                                 .weight_bytes = 2 * 8.03e9,
                                 .kv_bytes = 2.0 * 32 * 8 * 128 * 2,
                                 .attention_width = 32.0 * 32 * 128,
                                 .operations = 0.60 * 989e12,
                                 .bandwidth = 0.83 * 3.35e12};
}

void replay_work_add(struct replay_work *work, uint32_t before, uint32_t count) {
    work->positions += count;
    work->context += before + count;
    work->pairs += (double)count * before + (double)count * (count + 1) / 2;
}

int64_t replay_step_us(const struct replay_cost *cost, const struct replay_work *work) {
    double arithmetic =
        (2 * cost->parameters * (double)work->positions + 4 * cost->attention_width * work->pairs) /
        cost->operations;
    double reads = (cost->weight_bytes + cost->kv_bytes * (double)work->context) / cost->bandwidth;
    return MAX((int64_t)(MAX(arithmetic, reads) * 1e6 + cost->fixed_us), 1);
}
