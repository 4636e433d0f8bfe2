/*
 * queue.h - a bounded queue of pointers between threads, with an eventfd to wait on (for poll,
 * libevent or a zmq loop).
 *
 * Several producers, one consumer. Push returns false when full (counted). Invariant: the eventfd
 * is readable whenever the queue is not empty.
 */
#ifndef BASE_QUEUE_H
#define BASE_QUEUE_H

#include "base/base.h"

struct queue;
/* Returns owned; at most `capacity` items wait in it. */
struct queue *queue_new(size_t capacity);
/* items left inside are the caller's to drain first */
void queue_free(struct queue **q);
MUST_CHECK bool queue_push(struct queue *q, void *item); /* takes item when true */
/* returns owned; NULL when empty (then the eventfd was cleared) */
void *queue_pop(struct queue *q);
/* The eventfd to wait on; the queue's, not to be read or closed. */
int queue_fd(const struct queue *q);
/* How many pushes were refused because the queue was full. */
uint64_t queue_full_count(const struct queue *q);

#endif
