/*
 * queue.h - a bounded queue of pointers between threads, with an eventfd to wait on (for poll, libevent or a zmq loop).
 *
 * Several producers, one consumer. Push returns false when full (counted). Invariant: the eventfd is readable whenever
 * the queue is not empty.
 */
#ifndef BASE_QUEUE_H
#define BASE_QUEUE_H

#include "base/base.h"

struct queue;
struct queue *queue_new(size_t capacity);
void queue_free(struct queue **q);                       /* items left inside are the caller's to drain first */
MUST_CHECK bool queue_push(struct queue *q, void *item); /* takes item when true */
void *queue_pop(struct queue *q); /* returns owned; NULL when empty (then the eventfd was cleared) */
int queue_fd(const struct queue *q);
uint64_t queue_full_count(const struct queue *q);

#endif
