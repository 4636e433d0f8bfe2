#include "proto/liveness.h"

void liveness_init(struct liveness *l, int64_t heartbeat_ms, int64_t silence_ms, int64_t now_ms) {
    *l = (struct liveness){.heartbeat_ms = heartbeat_ms,
                           .silence_ms = silence_ms,
                           .tick_ms = now_ms,
                           .anew_ms = now_ms};
}

int64_t liveness_quiet_ms(const struct liveness *l) {
    int64_t slowed = MIN(l->heartbeat_ms * LIVENESS_QUIET_TIMES, (int64_t)LIVENESS_QUIET_MS);
    return MAX(slowed, l->heartbeat_ms);
}

int64_t liveness_set_slow(struct liveness *l, bool slow) {
    l->slow = slow;
    return slow ? liveness_quiet_ms(l) : l->heartbeat_ms;
}

void liveness_talk(struct liveness_peer *peer, int64_t now_ms) {
    if (peer->quiet)
        peer->heard_ms = now_ms;
    peer->talk_ms = now_ms;
    peer->quiet = false;
}

bool liveness_is_due(const struct liveness *l, struct liveness_peer *peer, int64_t now_ms) {
    peer->quiet = peer->knows_quiet && peer->idle &&
                  now_ms - peer->talk_ms >= (int64_t)LIVENESS_QUIET_AFTER_MS;
    return !peer->quiet || now_ms - peer->told_ms >= liveness_quiet_ms(l) - l->heartbeat_ms / 2;
}

bool liveness_tick(struct liveness *l, int64_t now_ms) {
    bool late = now_ms - l->tick_ms > 2 * (l->slow ? liveness_quiet_ms(l) : l->heartbeat_ms);
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
    int64_t most = l->silence_ms;
    if (peer->quiet)
        most = most * liveness_quiet_ms(l) / l->heartbeat_ms;
    return liveness_silence(l, peer) > most;
}
