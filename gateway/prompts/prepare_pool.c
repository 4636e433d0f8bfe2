#include "gateway/prompts/prepare_pool.h"

#include "gateway/dialects/responses.h"
#include "gateway/prompts/constraint.h"
#include "gateway/prompts/infill.h"

struct prepare_pool {
    struct work_pool *workers; /* borrowed */
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
    size_t bytes = g->messages.len + g->tools.len + g->documents.len + infill_bytes(g);
    for (uint32_t i = 0; i < g->prompt_count; i++)
        bytes += g->prompts[i].text.len;
    return bytes;
}

bool prepare_takes_long(const struct genreq *g) {
    return prepare_cost(g) >= PREPARE_LONG_BYTES || constraint_is_wanted(g) ||
           g->stop_pattern_count || g->chat_template.len || g->breaker_count;
}

static int do_job(struct prepare_job *job) {
    if (!u128_is_zero(job->resume))
        return prepare_stop_patterns(&job->g, &job->prepared, &job->err);
    if (job->body.len) {
        if (genreq_parse(&job->g, job->g.dialect, buf_bytes(&job->body), &job->err) ||
            responses_resume(&job->g, job->responses, job->tenant, &job->err))
            return -1;
        if (model_table_find(job->models, job->g.model, &job->model) != MODEL_READY)
            return 0;
    }
    int rc = prepare(&job->g, job->model, job->seed, &job->prepared, &job->err);
    return job->g.arena.starved || job->prepared.grammar.failed ? api_error_out_of_memory(&job->err)
                                                                : rc;
}

static struct prepare_job *job_of(struct work *work) {
    return (struct prepare_job *)(void *)((char *)work - offsetof(struct prepare_job, work));
}

static void run(struct work *work) {
    struct prepare_job *job = job_of(work);
    if (do_job(job) == 0)
        job->err.status = 0;
    job->pool->done(job->pool->ctx, job);
}

static void drop(struct work *work) {
    prepare_job_free(job_of(work));
}

struct prepare_pool *prepare_pool_new(struct work_pool *workers,
                                      void (*done)(void *ctx, struct prepare_job *job), void *ctx) {
    struct prepare_pool *p = mem_alloc(sizeof *p);
    *p = (struct prepare_pool){workers, done, ctx};
    return p;
}

void prepare_pool_free(struct prepare_pool **pool) {
    mem_free(*pool);
    *pool = NULL;
}

/* The body goes when its request ends: what still points into it is copied. */
static bool keep_spans(struct genreq *g) {
    struct bytes *const spans[] = {&g->messages, &g->tools, &g->documents, &g->template_kwargs};
    for (size_t i = 0; i < ARRAY_LEN(spans); i++) {
        if (spans[i]->len == 0 || arena_holds(&g->arena, spans[i]->data))
            continue;
        spans[i]->data = arena_copy(&g->arena, spans[i]->data, spans[i]->len);
        if (!spans[i]->data)
            return false;
    }
    return true;
}

static bool push(struct prepare_pool *p, struct prepare_job *job, struct u128 holder,
                 size_t bytes) {
    job->pool = p;
    job->work = (struct work){.tenant = holder, .bytes = bytes, .run = run, .drop = drop};
    return work_pool_push(p->workers, &job->work);
}

struct prepare_job *prepare_pool_push(struct prepare_pool *p, struct genreq *g, struct u128 holder,
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
    if (push(p, job, holder, prepare_cost(g))) {
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
    if (!job->body.failed && push(p, job, known->work.tenant, body.len))
        return job;
    buf_release(&job->body);
    mem_free(job);
    return NULL;
}

bool prepare_pool_push_patterns(struct prepare_pool *p, const struct prepare_job *known,
                                const struct genreq *g) {
    struct prepare_job *job = mem_alloc(sizeof *job);
    struct bytes *copies;
    size_t bytes = 0;
    CHECK(!u128_is_zero(known->resume) && g->stop_pattern_count > 0);
    *job = *known;
    genreq_init(&job->g, g->dialect);
    copies = arena_copy(&job->g.arena, g->stop_patterns, g->stop_pattern_count * sizeof *copies);
    for (uint32_t i = 0; copies && i < g->stop_pattern_count; i++) {
        copies[i].data = arena_copy(&job->g.arena, copies[i].data, copies[i].len);
        bytes += copies[i].len;
    }
    job->g.stop_patterns = copies;
    job->g.stop_pattern_count = g->stop_pattern_count;
    if (!job->g.arena.starved && push(p, job, known->work.tenant, bytes))
        return true;
    prepare_job_free(job);
    return false;
}
