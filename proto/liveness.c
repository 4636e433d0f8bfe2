#include "proto/liveness.h"

void liveness_init(struct liveness *l, int64_t heartbeat_ms, int64_t silence_ms, int64_t now_ms) {
    *l = (struct liveness){.heartbeat_ms = heartbeat_ms,
                           .silence_ms = silence_ms,
                           .tick_ms = now_ms,
                           .anew_ms = now_ms};
}

bool liveness_tick(struct liveness *l, int64_t now_ms) {
    bool late = now_ms - l->tick_ms > 2 * l->heartbeat_ms;
    l->tick_ms = now_ms;
    if (late)
        l->anew_ms = now_ms;
    return !late;
}

int64_t liveness_silence(const struct liveness *l, const struct liveness_peer *peer) {
    int64_t since = MAX(peer->heard_ms, l->anew_ms);
    return l->tick_ms > since ? l->tick_ms - since : 0;
}

bool liveness_is_dead(const struct liveness *l, const struct liveness_peer *peer) {
    return liveness_silence(l, peer) > l->silence_ms;
}
