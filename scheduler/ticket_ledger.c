#include "scheduler/ticket_ledger.h"

void ticket_ledger_release(struct ticket_ledger *l) {
    vec_release(&l->entries);
}

static void forget(struct ticket_ledger *l, size_t i) {
    memmove(l->entries.items + i, l->entries.items + i + 1,
            (--l->entries.count - i) * sizeof *l->entries.items);
}

void ticket_ledger_add(struct ticket_ledger *l, struct u128 ticket, struct u128 supervisor) {
    if (l->entries.count == TICKETS_MAX)
        forget(l, 0);
    vec_push(&l->entries, ((struct ticket_entry){ticket, supervisor}));
}

void ticket_ledger_done(struct ticket_ledger *l, struct u128 ticket) {
    for (size_t i = 0; i < l->entries.count; i++)
        if (u128_equal(l->entries.items[i].ticket, ticket))
            forget(l, i--);
}

static bool is_open(const struct ticket_ledger *l, struct u128 ticket) {
    for (size_t i = 0; i < l->entries.count; i++)
        if (u128_equal(l->entries.items[i].ticket, ticket))
            return true;
    return false;
}

bool ticket_ledger_refused(struct ticket_ledger *l, struct u128 ticket, struct u128 supervisor) {
    for (size_t i = 0; i < l->entries.count; i++)
        if (u128_equal(l->entries.items[i].ticket, ticket) &&
            u128_equal(l->entries.items[i].supervisor, supervisor))
            forget(l, i--);
    return !is_open(l, ticket);
}

void ticket_ledger_gone(struct ticket_ledger *l, struct u128 supervisor,
                        void (*each)(void *ctx, struct u128 ticket), void *ctx) {
    for (size_t i = 0; i < l->entries.count; i++) {
        struct ticket_entry e = l->entries.items[i];
        if (!u128_equal(e.supervisor, supervisor))
            continue;
        forget(l, i--);
        if (!is_open(l, e.ticket))
            each(ctx, e.ticket);
    }
}
