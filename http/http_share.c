#include "http/http_share.h"

bool http_share_allows(struct http_share *share, uint32_t holder, uint64_t amount) {
    CHECK(holder < HTTP_SHARE_HOLDERS);
    uint64_t total = atomic_load(&share->total), held = atomic_load(&share->held[holder]);
    uint64_t left = share->max > total ? share->max - total : 0;
    uint64_t kept = share->max / HTTP_SHARE_KEPT; /* for those that have nothing */
    return amount <= left && held <= left && (!held || left > kept);
}

bool http_share_allows_used(struct http_share *share, uint32_t holder) {
    CHECK(holder < HTTP_SHARE_HOLDERS);
    uint64_t total = atomic_load(&share->total), held = atomic_load(&share->held[holder]);
    return total < share->max && held <= HTTP_SHARE_USED * (share->max - total);
}

void http_share_add_total(struct http_share *share, int64_t amount) {
    atomic_fetch_add(&share->total, (unsigned long long)amount);
}

void http_share_add_held(struct http_share *share, uint32_t holder, int64_t amount) {
    CHECK(holder < HTTP_SHARE_HOLDERS);
    atomic_fetch_add(&share->held[holder], (unsigned long long)amount);
}
