#include "scheduler/fence_ledger.h"

void fence_ledger_release(struct fence_ledger *l) {
    vec_release(&l->entries);
}

void fence_ledger_confirm(struct fence_ledger *l, struct u128 instance) {
    for (size_t i = 0; i < l->entries.count; i++)
        if (u128_equal(l->entries.items[i].fence.instance, instance))
            l->entries.items[i--] = l->entries.items[--l->entries.count];
}

void fence_ledger_add(struct fence_ledger *l, int64_t now_ms, const struct wire_fence *fence) {
    fence_ledger_confirm(l, fence->instance);
    vec_push(&l->entries, ((struct fence_entry){*fence, now_ms, now_ms + FENCE_AGAIN_MS}));
}

const struct wire_fence *fence_ledger_due(struct fence_ledger *l, int64_t now_ms) {
    for (size_t i = 0; i < l->entries.count; i++) {
        struct fence_entry *e = &l->entries.items[i];
        if (now_ms - e->began_ms >= FENCE_GIVE_UP_MS) {
            *e = l->entries.items[--l->entries.count];
            i--;
        } else if (now_ms >= e->due_ms) {
            e->due_ms = now_ms + FENCE_AGAIN_MS;
            return &e->fence;
        }
    }
    return NULL;
}
