#include "scheduler/core/epoch.h"

struct epoch epoch_start(uint64_t wall_ms, struct u128 instance) {
    return (struct epoch){.number = wall_ms + 1, .instance = instance};
}

static enum epoch_verdict judge_hello(struct epoch *mine, const struct wire_hello *hello) {
    struct epoch reported = {.number = hello->epoch_number, .instance = hello->epoch_instance};
    if (reported.number == UINT64_MAX) return EPOCH_STALE; /* nothing is above it: nonsense */
    if (epoch_compare(reported, *mine) <= 0) return EPOCH_TAKE;
    mine->number = reported.number + 1;
    return EPOCH_ROSE;
}

enum epoch_verdict epoch_judge(struct epoch *mine, const struct frame *frame, const struct wire_hello *hello) {
    if (hello) return judge_hello(mine, hello);
    int order = epoch_compare(frame->epoch, *mine);
    if (order < 0) return EPOCH_STALE;
    return order > 0 ? EPOCH_SUPERSEDED : EPOCH_TAKE;
}
