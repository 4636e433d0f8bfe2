#include "scheduler/core/epoch.h"

struct epoch epoch_start(uint64_t wall_ms, struct u128 instance) {
    return (struct epoch){.number = wall_ms + 1, .instance = instance};
}

enum epoch_verdict epoch_compare_frame(struct epoch *mine, const struct frame *frame,
                                       const struct wire_hello *hello, bool served, int64_t age_ms,
                                       uint64_t wall_ms) {
    struct epoch theirs = frame->epoch;
    if (hello) {
        struct epoch met = {.number = hello->epoch_number, .instance = hello->epoch_instance};
        if (epoch_compare(met, theirs) > 0)
            theirs = met;
    }
    int order = epoch_compare(theirs, *mine);
    if (order > 0 && theirs.number > wall_ms && theirs.number - wall_ms > EPOCH_AHEAD_MAX_MS)
        return EPOCH_STALE;
    if (order > 0 && (served || age_ms > EPOCH_YOUNG_MS))
        return EPOCH_SUPERSEDED;
    if (order > 0) {
        mine->number = theirs.number + 1;
        return EPOCH_ROSE;
    }
    return order == 0 || hello ? EPOCH_TAKE : EPOCH_STALE;
}
