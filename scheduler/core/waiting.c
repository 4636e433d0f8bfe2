#include "scheduler/core/waiting.h"
#include "scheduler/core/request.h"
#include "scheduler/core/sequence_state.h"

/* Order within one heap: a tenant's, or that of the resumed ones, which are of all tenants. Arrival
 * is unique to a request, choice to a sequence of it. */
static bool before(const struct sequence *a, const struct sequence *b) {
    const struct request *x = a->request, *y = b->request;
    if (request_is_probe(x) != request_is_probe(y))
        return request_is_probe(x);
    if (!seq_is_resumed(a) && x->priority != y->priority)
        return x->priority < y->priority;
    if (seq_is_resumed(a) && a->recompute_cost != b->recompute_cost)
        return a->recompute_cost < b->recompute_cost;
    if (x->arrival != y->arrival)
        return x->arrival < y->arrival;
    return a->choice < b->choice;
}

static void sift(struct sequence **heap, uint32_t count, uint32_t at) {
    struct sequence *q = heap[at];
    while (at && before(q, heap[(at - 1) / 2])) {
        heap[at] = heap[(at - 1) / 2];
        heap[at]->heap_idx = at;
        at = (at - 1) / 2;
    }
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= count)
            break;
        if (child + 1 < count && before(heap[child + 1], heap[child]))
            child++;
        if (!before(heap[child], q))
            break;
        heap[at] = heap[child];
        heap[at]->heap_idx = at;
        at = child;
    }
    heap[at] = q;
    q->heap_idx = at;
}

void waiting_release(struct waiting *w) {
    CHECK(w->count == 0 && w->tenants.count == 0);
    vec_release(&w->tenants);
    vec_release(&w->resumed);
    id_map_release(&w->tenant_ids);
}

/* No tenant is a tenant, too. */
static struct u128 key_of(struct u128 id) {
    return u128_is_zero(id) ? (struct u128){1, 1} : id;
}

struct tenant *waiting_tenant_find(const struct waiting *w, struct u128 id) {
    return id_map_get(&w->tenant_ids, key_of(id));
}

struct tenant *waiting_tenant_ref(struct waiting *w, struct u128 id) {
    struct tenant *tenant = waiting_tenant_find(w, id);
    if (!tenant) {
        struct u128 key = key_of(id);
        tenant = mem_alloc(sizeof *tenant);
        *tenant = (struct tenant){.id = key, .served = w->floor, .idx = (uint32_t)w->tenants.count};
        id_map_put(&w->tenant_ids, key, tenant);
        vec_push(&w->tenants, tenant);
    }
    tenant->request_count++;
    return tenant;
}

void waiting_tenant_unref(struct waiting *w, struct tenant *tenant) {
    if (--tenant->request_count)
        return;
    CHECK(tenant->heap.count == 0 && tenant->new_count == 0);
    struct tenant *last = w->tenants.items[--w->tenants.count];
    w->tenants.items[tenant->idx] = last;
    last->idx = tenant->idx;
    id_map_remove(&w->tenant_ids, tenant->id);
    vec_release(&tenant->heap);
    mem_free(tenant);
}

void waiting_add(struct waiting *w, struct sequence *q) {
    w->count++;
    if (seq_is_resumed(q)) {
        vec_push(&w->resumed, q);
        sift(w->resumed.items, (uint32_t)w->resumed.count, (uint32_t)w->resumed.count - 1);
        return;
    }
    struct tenant *tenant = q->request->tenant;
    /* idleness earns nothing */
    if (tenant->heap.count == 0)
        tenant->served = MAX(tenant->served, w->floor);
    vec_push(&tenant->heap, q);
    sift(tenant->heap.items, (uint32_t)tenant->heap.count, (uint32_t)tenant->heap.count - 1);
}

static void heap_remove(struct sequence **heap, size_t *count, struct sequence *q) {
    CHECK(q->heap_idx < *count && heap[q->heap_idx] == q);
    struct sequence *last = heap[--*count];
    if (last == q)
        return;
    heap[q->heap_idx] = last;
    last->heap_idx = q->heap_idx;
    sift(heap, (uint32_t)*count, q->heap_idx);
}

void waiting_remove(struct waiting *w, struct sequence *q) {
    w->count--;
    if (seq_is_resumed(q))
        heap_remove(w->resumed.items, &w->resumed.count, q);
    else
        heap_remove(q->request->tenant->heap.items, &q->request->tenant->heap.count, q);
}

/* Of two that never ran, of two tenants: those share first. */
static bool other_tenant_before(const struct request *x, const struct request *y) {
    if (request_is_probe(x) != request_is_probe(y))
        return request_is_probe(x);
    if (x->tenant->served != y->tenant->served)
        return x->tenant->served < y->tenant->served;
    return x->arrival < y->arrival;
}

/* What ran before goes on first, but for a probe and for what is more important to the same tenant. */
static bool fresh_before_resumed(const struct request *fresh, const struct request *resumed) {
    return request_is_probe(fresh) ||
           (fresh->tenant == resumed->tenant && fresh->priority < resumed->priority);
}

bool waiting_before(const struct sequence *a, const struct sequence *b) {
    const struct request *x = a->request, *y = b->request;
    if (seq_is_resumed(a) != seq_is_resumed(b))
        return seq_is_resumed(a) ? !fresh_before_resumed(y, x) : fresh_before_resumed(x, y);
    return seq_is_resumed(a) || x->tenant == y->tenant ? before(a, b) : other_tenant_before(x, y);
}

/* Of those that ran, the first that this new one does not go before. One of its own tenant that is less
 * important than the new one holds nobody behind it up. */
static struct sequence *first_resumed(const struct waiting *w, const struct sequence *fresh) {
    struct sequence *first = w->resumed.count ? w->resumed.items[0] : NULL;
    if (!first || !fresh || !waiting_before(fresh, first))
        return first;
    first = NULL;
    for (size_t i = 0; i < w->resumed.count; i++) {
        struct sequence *q = w->resumed.items[i];
        if (!waiting_before(fresh, q) && (!first || before(q, first)))
            first = q;
    }
    return first;
}

struct sequence *waiting_first(const struct waiting *w, bool resumed_allowed) {
    struct sequence *fresh = NULL;
    for (size_t i = 0; i < w->tenants.count; i++) {
        const struct tenant *tenant = w->tenants.items[i];
        if (tenant->heap.count && (!fresh || waiting_before(tenant->heap.items[0], fresh)))
            fresh = tenant->heap.items[0];
    }
    struct sequence *resumed = resumed_allowed ? first_resumed(w, fresh) : NULL;
    return resumed ? resumed : fresh;
}

struct sequence *waiting_first_slotless(const struct waiting *w) {
    struct sequence *first = NULL;
    for (size_t i = 0; i < w->resumed.count; i++) {
        struct sequence *q = w->resumed.items[i];
        if (!q->request->tenant->slot_count && (!first || before(q, first)))
            first = q;
    }
    return first;
}

uint32_t waiting_share(const struct waiting *w, const struct tenant *tenant, uint32_t places) {
    uint32_t sharers = !tenant || !tenant->new_count;
    for (size_t i = 0; i < w->tenants.count; i++)
        sharers += w->tenants.items[i]->new_count > 0;
    return places / sharers;
}

static void check_heap(struct sequence *const *heap, size_t count, bool resumed) {
    for (size_t i = 0; i < count; i++) {
        CHECK(heap[i]->heap_idx == i && heap[i]->state == SEQ_QUEUED &&
              seq_is_resumed(heap[i]) == resumed);
        if (i)
            CHECK(!before(heap[i], heap[(i - 1) / 2]));
    }
}

void waiting_check(const struct waiting *w) {
    size_t count = w->resumed.count;
    check_heap(w->resumed.items, w->resumed.count, true);
    for (size_t i = 0; i < w->tenants.count; i++) {
        const struct tenant *tenant = w->tenants.items[i];
        CHECK(tenant->idx == i && tenant->request_count > 0);
        check_heap(tenant->heap.items, tenant->heap.count, false);
        count += tenant->heap.count;
    }
    CHECK(count == w->count);
}
