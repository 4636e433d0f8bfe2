#include "scheduler/want_ledger.h"

static void forget(struct want_ledger *l, size_t i) {
    mem_free(l->entries.items[i].model);
    memmove(l->entries.items + i, l->entries.items + i + 1,
            (--l->entries.count - i) * sizeof *l->entries.items);
}

void want_ledger_release(struct want_ledger *l) {
    while (l->entries.count)
        forget(l, l->entries.count - 1);
    vec_release(&l->entries);
}

void want_ledger_add(struct want_ledger *l, int64_t now_ms, const struct wire_want *want) {
    for (size_t i = 0; i < l->entries.count; i++)
        if (l->entries.items[i].wish == want->wish &&
            bytes_equal(bytes_str(l->entries.items[i].model), want->model))
            forget(l, i--);
    if (l->entries.count == WANTS_MAX)
        forget(l, 0);
    char *model = mem_strndup((const char *)want->model.data, want->model.len);
    vec_push(&l->entries, ((struct want_entry){model, want->wish, now_ms}));
}

void want_ledger_empty(struct want_ledger *l, int64_t now_ms,
                       void (*each)(void *ctx, const struct wire_want *want), void *ctx) {
    for (size_t i = 0; i < l->entries.count; i++) {
        const struct want_entry *e = &l->entries.items[i];
        const struct wire_want want = {.model = bytes_str(e->model), .wish = e->wish};
        if (now_ms - e->said_ms < WANT_KEEP_MS)
            each(ctx, &want);
    }
    want_ledger_release(l);
}
