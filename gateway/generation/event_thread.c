#include "gateway/generation/event_thread.h"

#include "base/clock.h"

struct event_thread *event_thread_new(struct gateway *gw, int idx) {
    struct event_thread *thread = mem_alloc(sizeof *thread);
    CHECK(gw->link);
    thread->gw = gw;
    thread->idx = idx;
    outbox_init(&thread->outbox, gw->link);
    event_thread_set_now(thread);
    return thread;
}

void event_thread_free(struct event_thread **out) {
    struct event_thread *thread = *out;
    if (!thread)
        return;
    CHECK(!thread->generations.first && !thread->opened && !thread->followers && !thread->resumes &&
          !thread->model_waiters && !thread->model_followers);
    CHECK(!thread->health.count);
    vec_release(&thread->health);
    submission_map_release(&thread->submissions);
    long_runs_release(&thread->long_runs);
    outbox_release(&thread->outbox);
    buf_release(&thread->scratch.out);
    buf_release(&thread->scratch.piece);
    buf_release(&thread->scratch.entries);
    buf_release(&thread->scratch.extra);
    mem_free(thread);
    *out = NULL;
}

void event_thread_set_now(struct event_thread *thread) {
    thread->now_us = clock_us();
    thread->now_ms = thread->now_us / 1000;
}
