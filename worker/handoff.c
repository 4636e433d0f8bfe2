#include "worker/handoff.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"

struct handoff {
    pthread_mutex_t lock;
    pthread_cond_t job_came, answer_went;
    struct job jobs[HANDOFF_JOBS];
    struct answer answers[HANDOFF_JOBS];
    size_t job_first, job_count, answer_first, answer_count;
    int fd;
    _Atomic uint32_t current;
};

struct handoff *handoff_new(void) {
    struct handoff *m = mem_alloc(sizeof *m);
    pthread_condattr_t monotonic;
    CHECK(!pthread_condattr_init(&monotonic) &&
          !pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC));
    CHECK(!pthread_mutex_init(&m->lock, NULL) && !pthread_cond_init(&m->job_came, &monotonic) &&
          !pthread_cond_init(&m->answer_went, NULL));
    (void)pthread_condattr_destroy(&monotonic);
    m->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    CHECK_MSG(m->fd >= 0, "no file descriptor left");
    return m;
}

void handoff_free(struct handoff **m) {
    if (!*m)
        return;
    for (size_t i = 0; i < HANDOFF_JOBS; i++) {
        buf_release(&(*m)->jobs[i].payload);
        buf_release(&(*m)->answers[i].payload);
    }
    close((*m)->fd);
    pthread_mutex_destroy(&(*m)->lock);
    pthread_cond_destroy(&(*m)->job_came);
    pthread_cond_destroy(&(*m)->answer_went);
    mem_free(*m);
    *m = NULL;
}

bool handoff_push(struct handoff *m, enum job_kind kind, uint32_t registration,
                  struct bytes payload) {
    pthread_mutex_lock(&m->lock);
    bool room = m->job_count < HANDOFF_JOBS;
    if (room && kind != JOB_PLAN)
        atomic_store(&m->current, kind == JOB_END ? UINT32_MAX : registration);
    if (room) {
        struct job *job = &m->jobs[(m->job_first + m->job_count++) % HANDOFF_JOBS];
        job->kind = kind;
        job->registration = registration;
        buf_reset(&job->payload);
        buf_add_bytes(&job->payload, payload);
        pthread_cond_signal(&m->job_came);
    }
    pthread_mutex_unlock(&m->lock);
    return room;
}

uint32_t handoff_current(const struct handoff *m) {
    return atomic_load(&m->current);
}

/* Until a job comes, or wait_us are over. With the lock held. */
static void await_job(struct handoff *m, int64_t wait_us) {
    while (wait_us < 0 && m->job_count == 0)
        pthread_cond_wait(&m->job_came, &m->lock);
    if (wait_us <= 0 || m->job_count)
        return;
    const struct timespec until = timespec_of_us(clock_us() + wait_us);
    while (m->job_count == 0 && !pthread_cond_timedwait(&m->job_came, &m->lock, &until)) {}
}

bool handoff_pop(struct handoff *m, int64_t wait_us, struct job *job) {
    pthread_mutex_lock(&m->lock);
    await_job(m, wait_us);
    bool there = m->job_count > 0;
    if (there) {
        struct job mine = *job;
        *job = m->jobs[m->job_first];
        m->jobs[m->job_first] = mine;
        m->job_first = (m->job_first + 1) % HANDOFF_JOBS;
        m->job_count--;
    }
    pthread_mutex_unlock(&m->lock);
    return there;
}

void handoff_answer(struct handoff *m, struct answer *answer) {
    pthread_mutex_lock(&m->lock);
    while (m->answer_count == HANDOFF_JOBS)
        pthread_cond_wait(&m->answer_went, &m->lock);
    struct answer *place = &m->answers[(m->answer_first + m->answer_count++) % HANDOFF_JOBS];
    struct answer mine = *answer;
    *answer = *place;
    *place = mine;
    uint64_t one = 1;
    ssize_t written = write(m->fd, &one, sizeof one);
    (void)written; /* full means readable, which is all that is asked of it */
    pthread_mutex_unlock(&m->lock);
}

bool handoff_result(struct handoff *m, struct answer *answer) {
    pthread_mutex_lock(&m->lock);
    bool there = m->answer_count > 0;
    if (there) {
        struct answer mine = *answer;
        *answer = m->answers[m->answer_first];
        m->answers[m->answer_first] = mine;
        m->answer_first = (m->answer_first + 1) % HANDOFF_JOBS;
        m->answer_count--;
        pthread_cond_signal(&m->answer_went);
    } else {
        uint64_t count;
        ssize_t got = read(m->fd, &count, sizeof count);
        (void)got;
    }
    pthread_mutex_unlock(&m->lock);
    return there;
}

int handoff_fd(const struct handoff *m) {
    return m->fd;
}
