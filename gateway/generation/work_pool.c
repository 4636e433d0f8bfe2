#include "gateway/generation/work_pool.h"

#include "base/pool.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

/* A tenant with work that waits or is in hand, or that has had more than its turn. */
struct tenant_work {
    struct tenant_work *next;
    struct u128 id;
    struct work *first[2]; /* by key: short work, and long */
    size_t count;          /* that wait */
    size_t running;
    uint64_t served; /* what was done for it, on the pool's clock, in nanoseconds */
};

enum {
    NS_A_BYTE = 20, /* what it is taken to cost before that is known */
    SHORT_OWED_NS = 50 * 1000 * 1000,
    TENANTS_MAX = 1024, /* that are remembered for what they owe */
};

struct work_pool {
    pthread_mutex_t mutex;
    pthread_cond_t filled;
    struct tenant_work *tenants; /* owned */
    size_t tenant_count;
    size_t count;    /* of all that waits */
    uint64_t clock;  /* `served` of the tenant chosen last: where newcomers begin */
    uint64_t pushed; /* bytes so far */
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
    p->tenant_count++;
    return t;
}

static bool is_idle(const struct tenant_work *t) {
    return !t->count && !t->running;
}

/* Those that have nothing here and owe nothing; all that have nothing, where too many owe. */
static void forget_tenants(struct work_pool *p) {
    bool too_many = p->tenant_count > TENANTS_MAX;
    for (struct tenant_work **at = &p->tenants, *t; (t = *at);) {
        if (is_idle(t) && (t->served <= p->clock || too_many)) {
            *at = t->next;
            p->tenant_count--;
            mem_free(t);
        } else {
            at = &t->next;
        }
    }
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

/* What looks short took long, and others are here, who would wait for it. */
static bool is_slow(const struct work_pool *p, const struct tenant_work *tenant) {
    if (tenant->served <= p->clock + SHORT_OWED_NS)
        return false;
    const struct tenant_work *other = p->tenants;
    while (other && (other == tenant || is_idle(other)))
        other = other->next;
    return other;
}

/* A tenant's next; NULL: it has none for this thread. */
static struct work *next_of(const struct work_pool *p, const struct tenant_work *tenant,
                            bool only_short) {
    struct work *brief = tenant->first[0], *other = only_short ? NULL : tenant->first[1];
    if (only_short && brief && is_slow(p, tenant))
        return NULL;
    if (!brief || !other)
        return brief ? brief : other;
    return brief->key <= other->key ? brief : other;
}

/* The tenant with the least work done, of those that have some for this thread. */
static struct tenant_work *next_tenant(const struct work_pool *p, bool only_short) {
    struct tenant_work *best = NULL;
    for (struct tenant_work *t = p->tenants; t; t = t->next)
        if (next_of(p, t, only_short) && (!best || t->served < best->served))
            best = t;
    return best;
}

static struct work *take_work(struct work_pool *p, struct tenant_work *tenant, bool only_short) {
    struct work *work = next_of(p, tenant, only_short);
    tenant->first[is_long(work)] = work->next;
    tenant->count--;
    tenant->running++;
    p->count--;
    p->clock = MAX(p->clock, tenant->served);
    tenant->served += work->bytes * NS_A_BYTE;
    return work;
}

/* A piece of so many bytes is done, and took so long: the larger of both counts. */
static void account(struct work_pool *p, struct u128 id, size_t bytes, uint64_t took_ns) {
    uint64_t guess_ns = bytes * NS_A_BYTE;
    pthread_mutex_lock(&p->mutex);
    struct tenant_work *tenant = tenant_of(p, id);
    tenant->running--;
    tenant->served += MAX(took_ns, guess_ns) - guess_ns;
    forget_tenants(p);
    if (p->count)
        pthread_cond_broadcast(&p->filled); /* whoever was slow may be so no more */
    pthread_mutex_unlock(&p->mutex);
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

static uint64_t thread_cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void *thread_main(void *ctx) {
    struct work_pool *p = ctx;
    pthread_mutex_lock(&p->mutex);
    bool only_short = p->started++ == 0;
    pthread_mutex_unlock(&p->mutex);
    thread_give_way();
    for (struct work *work; (work = wait_for_work(p, only_short));) {
        struct u128 tenant = work->tenant;
        size_t bytes = work->bytes;
        uint64_t before = thread_cpu_ns();
        work->run(work);
        account(p, tenant, bytes, thread_cpu_ns() - before);
    }
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
    for (struct tenant_work *t = p->tenants, *next; t; t = next) {
        next = t->next;
        while (t->count) {
            struct work *work = take_work(p, t, false);
            work->drop(work);
        }
        mem_free(t);
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
    } else {
        forget_tenants(p);
    }
    pthread_mutex_unlock(&p->mutex);
    return taken;
}
