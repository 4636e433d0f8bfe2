#include "replay/cost.h"

#include "base/base.h"

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
