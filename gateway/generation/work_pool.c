#include "gateway/generation/work_pool.h"

#include "base/pool.h"

#include <pthread.h>
#include <unistd.h>

/* A tenant with work that waits. */
struct tenant_work {
    struct tenant_work *next;
    struct u128 id;
    struct work *first[2]; /* by key: short work, and long */
    size_t count;
    uint64_t served; /* bytes, on the pool's clock */
};

struct work_pool {
    pthread_mutex_t mutex;
    pthread_cond_t filled;
    struct tenant_work *tenants; /* owned */
    size_t count;                /* of all that waits */
    uint64_t clock;              /* `served` of the tenant chosen last: where newcomers begin */
    uint64_t pushed;             /* bytes so far */
    bool stop;
    pthread_t threads[WORK_THREADS_MAX];
    int thread_count;
    int started; /* threads that know what they are */
};

/* ---- who is next; under the lock ---- */

static struct tenant_work *tenant_of(struct work_pool *p, struct u128 id) {
    for (struct tenant_work *t = p->tenants; t; t = t->next)
        if (u128_equal(t->id, id))
            return t;
    struct tenant_work *t = mem_alloc(sizeof *t);
    *t = (struct tenant_work){.next = p->tenants, .id = id, .served = p->clock};
    p->tenants = t;
    return t;
}

static void forget_tenant(struct work_pool *p, struct tenant_work *tenant) {
    struct tenant_work **at = &p->tenants;
    while (*at != tenant)
        at = &(*at)->next;
    *at = tenant->next;
    mem_free(tenant);
}

static bool is_long(const struct work *work) {
    return work->bytes > WORK_SHORT_BYTES;
}

static void insert(struct tenant_work *tenant, struct work *work) {
    struct work **at = &tenant->first[is_long(work)];
    while (*at && (*at)->key <= work->key)
        at = &(*at)->next;
    work->next = *at;
    *at = work;
    tenant->count++;
}

/* A tenant's next; NULL: it has none for this thread. */
static struct work *next_of(const struct tenant_work *tenant, bool only_short) {
    struct work *brief = tenant->first[0], *other = only_short ? NULL : tenant->first[1];
    if (!brief || !other)
        return brief ? brief : other;
    return brief->key <= other->key ? brief : other;
}

/* The tenant with the least work done, of those that have some for this thread. */
static struct tenant_work *next_tenant(const struct work_pool *p, bool only_short) {
    struct tenant_work *best = NULL;
    for (struct tenant_work *t = p->tenants; t; t = t->next)
        if (next_of(t, only_short) && (!best || t->served < best->served))
            best = t;
    return best;
}

static struct work *take_work(struct work_pool *p, struct tenant_work *tenant, bool only_short) {
    struct work *work = next_of(tenant, only_short);
    tenant->first[is_long(work)] = work->next;
    tenant->count--;
    p->count--;
    p->clock = MAX(p->clock, tenant->served);
    tenant->served += work->bytes;
    if (!tenant->count)
        forget_tenant(p, tenant);
    return work;
}

/* NULL: it is time to stop. */
static struct work *wait_for_work(struct work_pool *p, bool only_short) {
    struct tenant_work *tenant = NULL;
    pthread_mutex_lock(&p->mutex);
    while (!p->stop && !(tenant = next_tenant(p, only_short)))
        pthread_cond_wait(&p->filled, &p->mutex);
    struct work *work = p->stop ? NULL : take_work(p, tenant, only_short);
    pthread_mutex_unlock(&p->mutex);
    return work;
}

/* ---- threads ---- */

static void *thread_main(void *ctx) {
    struct work_pool *p = ctx;
    pthread_mutex_lock(&p->mutex);
    bool only_short = p->started++ == 0;
    pthread_mutex_unlock(&p->mutex);
    thread_give_way();
    for (struct work *work; (work = wait_for_work(p, only_short));)
        work->run(work);
    return NULL;
}

struct work_pool *work_pool_new(int thread_count) {
    struct work_pool *p = mem_alloc(sizeof *p);
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    if (!thread_count)
        thread_count = (int)MIN(cpus / 2 + 1, (long)WORK_THREADS_MAX);
    p->thread_count = MIN(MAX(thread_count, 2), (int)WORK_THREADS_MAX);
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->filled, NULL);
    for (int i = 0; i < p->thread_count; i++) {
        int rc = pthread_create(&p->threads[i], NULL, thread_main, p);
        CHECK_MSG(rc == 0, "cannot start a thread: %d", rc);
    }
    return p;
}

void work_pool_free(struct work_pool **pool) {
    struct work_pool *p = *pool;
    if (!p)
        return;
    pthread_mutex_lock(&p->mutex);
    p->stop = true;
    pthread_cond_broadcast(&p->filled);
    pthread_mutex_unlock(&p->mutex);
    for (int i = 0; i < p->thread_count; i++)
        pthread_join(p->threads[i], NULL);
    while (p->tenants) {
        struct work *work = take_work(p, p->tenants, false);
        work->drop(work);
    }
    pthread_mutex_destroy(&p->mutex);
    pthread_cond_destroy(&p->filled);
    mem_free(p);
    *pool = NULL;
}

bool work_pool_push(struct work_pool *p, struct work *work) {
    pthread_mutex_lock(&p->mutex);
    struct tenant_work *tenant = tenant_of(p, work->tenant);
    bool taken = !p->stop && tenant->count + p->count < WORK_WAITING_MAX;
    if (taken) {
        work->key = p->pushed / WORK_PASSED + work->bytes;
        p->pushed += work->bytes;
        p->count++;
        insert(tenant, work);
        pthread_cond_broadcast(&p->filled); /* one may not take it, and another can */
    } else if (!tenant->count) {
        forget_tenant(p, tenant);
    }
    pthread_mutex_unlock(&p->mutex);
    return taken;
}
