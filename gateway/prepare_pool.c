#include "gateway/prepare_pool.h"

#include <pthread.h>

#include "gateway/responses.h"

struct prepare_pool {
    pthread_mutex_t mutex;
    pthread_cond_t filled;
    struct prepare_job *first, *last;
    size_t count;
    bool stop;
    pthread_t thread;
    void (*done)(void *ctx, struct prepare_job *job);
    void *ctx;
};

void prepare_job_free(struct prepare_job *job) {
    if (!job)
        return;
    prepared_release(&job->prepared);
    genreq_release(&job->g);
    served_model_put(job->model);
    buf_release(&job->body);
    mem_free(job);
}

size_t prepare_cost(const struct genreq *g) {
    size_t bytes = g->messages.len + g->tools.len + g->documents.len + g->infill.prefix.len +
                   g->infill.suffix.len;
    for (uint32_t i = 0; i < g->infill.file_count; i++)
        bytes += g->infill.files[i].text.len;
    for (uint32_t i = 0; i < g->prompt_count; i++)
        bytes += g->prompts[i].text.len;
    return bytes;
}

/* The next job, or NULL when it is time to stop. */
static struct prepare_job *take_job(struct prepare_pool *p) {
    pthread_mutex_lock(&p->mutex);
    while (!p->first && !p->stop)
        pthread_cond_wait(&p->filled, &p->mutex);
    struct prepare_job *job = p->stop ? NULL : p->first;
    if (job) {
        p->first = job->next;
        if (!p->first)
            p->last = NULL;
        p->count--;
    }
    pthread_mutex_unlock(&p->mutex);
    return job;
}

static int do_job(struct prepare_job *job) {
    if (job->body.len) {
        if (genreq_parse(&job->g, job->g.dialect, buf_bytes(&job->body), &job->err) ||
            responses_resume(&job->g, job->responses, job->tenant, &job->err))
            return -1;
        if (model_table_find(job->models, job->g.model, &job->model) != MODEL_READY)
            return 0;
    }
    return prepare(&job->g, job->model, job->seed, &job->prepared, &job->err);
}

static void *prepare_thread_main(void *ctx) {
    struct prepare_pool *p = ctx;
    for (struct prepare_job *job; (job = take_job(p));) {
        if (do_job(job) == 0)
            job->err.status = 0;
        p->done(p->ctx, job);
    }
    return NULL;
}

struct prepare_pool *prepare_pool_new(void (*done)(void *ctx, struct prepare_job *job), void *ctx) {
    struct prepare_pool *p = mem_alloc(sizeof *p);
    p->done = done;
    p->ctx = ctx;
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->filled, NULL);
    int rc = pthread_create(&p->thread, NULL, prepare_thread_main, p);
    CHECK_MSG(rc == 0, "cannot start a thread: %d", rc);
    return p;
}

void prepare_pool_free(struct prepare_pool **pool) {
    struct prepare_pool *p = *pool;
    if (!p)
        return;
    pthread_mutex_lock(&p->mutex);
    p->stop = true;
    pthread_cond_signal(&p->filled);
    pthread_mutex_unlock(&p->mutex);
    pthread_join(p->thread, NULL);
    for (struct prepare_job *job = p->first, *next; job; job = next) {
        next = job->next;
        prepare_job_free(job);
    }
    pthread_mutex_destroy(&p->mutex);
    pthread_cond_destroy(&p->filled);
    mem_free(p);
    *pool = NULL;
}

/* The body goes when its request ends: what still points into it is copied. */
static bool keep_spans(struct genreq *g) {
    struct bytes *const spans[] = {&g->messages, &g->tools, &g->documents, &g->template_kwargs};
    for (size_t i = 0; i < ARRAY_LEN(spans); i++) {
        if (spans[i]->len == 0)
            continue;
        spans[i]->data = arena_copy(&g->arena, spans[i]->data, spans[i]->len);
        if (!spans[i]->data)
            return false;
    }
    return true;
}

static bool push(struct prepare_pool *p, struct prepare_job *job) {
    pthread_mutex_lock(&p->mutex);
    bool taken = p->count < PREPARE_JOBS_MAX;
    if (taken) {
        if (p->last)
            p->last->next = job;
        else
            p->first = job;
        p->last = job;
        p->count++;
        pthread_cond_signal(&p->filled);
    }
    pthread_mutex_unlock(&p->mutex);
    return taken;
}

struct prepare_job *prepare_pool_push(struct prepare_pool *p, struct genreq *g,
                                      struct served_model *model, uint64_t seed, int thread_idx,
                                      struct generation *generation) {
    if (!keep_spans(g))
        return NULL;
    struct prepare_job *job = mem_alloc(sizeof *job);
    *job = (struct prepare_job){.generation = generation,
                                .thread_idx = thread_idx,
                                .g = *g,
                                .model = served_model_ref(model),
                                .seed = seed};
    if (push(p, job)) {
        arena_init(&g->arena, 0, 0); /* it has moved */
        return job;
    }
    served_model_put(model);
    mem_free(job);
    return NULL;
}

struct prepare_job *prepare_pool_push_body(struct prepare_pool *p, const struct prepare_job *known,
                                           struct bytes body) {
    struct prepare_job *job = mem_alloc(sizeof *job);
    *job = *known;
    buf_add_bytes(&job->body, body);
    if (push(p, job))
        return job;
    buf_release(&job->body);
    mem_free(job);
    return NULL;
}
