#include "base/queue.h"

#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct queue {
    pthread_mutex_t lock;
    void **items; /* owned ring of `capacity` places */
    size_t capacity, head, count;
    uint64_t full_count;
    int fd;
};

struct queue *queue_new(size_t capacity) {
    CHECK(capacity > 0);
    struct queue *q = mem_alloc(sizeof *q);
    q->items = mem_calloc(capacity, sizeof *q->items);
    q->capacity = capacity;
    q->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    CHECK_MSG(q->fd >= 0, "no eventfd: %s", strerror(errno));
    CHECK(pthread_mutex_init(&q->lock, NULL) == 0);
    return q;
}

void queue_free(struct queue **q) {
    if (!*q)
        return;
    close((*q)->fd);
    pthread_mutex_destroy(&(*q)->lock);
    mem_free((*q)->items);
    mem_free(*q);
    *q = NULL;
}

/* Under the lock, and only when the queue stops or starts being empty: so the eventfd always tells
 * the truth. */
static void set_readable(struct queue *q, bool readable) {
    uint64_t value = 1;
    ssize_t n = readable ? write(q->fd, &value, sizeof value) : read(q->fd, &value, sizeof value);
    CHECK(n == (ssize_t)sizeof value);
}

bool queue_push(struct queue *q, void *item) {
    pthread_mutex_lock(&q->lock);
    bool fits = q->count < q->capacity;
    if (fits) {
        q->items[(q->head + q->count) % q->capacity] = item;
        if (q->count++ == 0)
            set_readable(q, true);
    } else {
        q->full_count++;
    }
    pthread_mutex_unlock(&q->lock);
    return fits;
}

void *queue_pop(struct queue *q) {
    void *item = NULL;
    pthread_mutex_lock(&q->lock);
    if (q->count) {
        item = q->items[q->head];
        q->head = (q->head + 1) % q->capacity;
        if (--q->count == 0) {
            q->head = 0; /* a large ring that is hardly filled keeps to its first pages */
            set_readable(q, false);
        }
    }
    pthread_mutex_unlock(&q->lock);
    return item;
}

int queue_fd(const struct queue *q) {
    return q->fd;
}

uint64_t queue_full_count(const struct queue *q) {
    struct queue *mutable_queue = (struct queue *)q;
    pthread_mutex_lock(&mutable_queue->lock);
    uint64_t count = q->full_count;
    pthread_mutex_unlock(&mutable_queue->lock);
    return count;
}
