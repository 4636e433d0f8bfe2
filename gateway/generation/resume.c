#include "gateway/generation/resume.h"

#include <stdlib.h>

#include "gateway/answers/error_response.h"
#include "gateway/generation/generation.h"
#include "gateway/generation/open_places.h"
#include "gateway/link/request_id.h"
#include "gateway/watch/gateway_metrics.h"
#include "proto/codec.h"

enum { ASK_AGAIN_MS = 250 };

struct resume {
    struct resume *prev, *next;
    struct event_thread *thread; /* borrowed */
    struct http_request *http;   /* borrowed */
    struct u128 tenant, request; /* request: its number here */
    struct buf name;             /* owned */
    struct event_position behind;
    struct buf submit;            /* owned: the scheduler's answer; empty: it has not said */
    bool waited;                  /* for a model or for patterns, since the answer */
    bool compiles;                /* its patterns are in the pool's hands */
    bool outdated;                /* those are of a stream that a scheduler before had */
    struct finder *stop_patterns; /* owned: compiled; NULL: there are none, or not yet */
    bool gives_up;                /* its client wants no more of it */
    int64_t ask_ms, until_ms;
};

/* ---- life ---- */

static void resume_free(struct resume *r) {
    if (r->prev)
        r->prev->next = r->next;
    else
        r->thread->resumes = r->next;
    if (r->next)
        r->next->prev = r->prev;
    buf_release(&r->name);
    buf_release(&r->submit);
    finder_free(&r->stop_patterns);
    mem_free(r);
}

/* Nobody waits for it any more. */
static void leave(struct resume *r) {
    outbox_detach(&r->thread->outbox, r->request, 0);
    resume_free(r);
}

static void refuse(struct resume *r, const struct api_error *err) {
    error_respond(r->http, err);
    leave(r);
}

static void on_closed(void *ctx, struct http_request *req) {
    struct resume *r = ctx;
    (void)req;
    event_thread_set_now(r->thread);
    leave(r);
}

static const struct http_watch watch = {.on_closed = on_closed};

static struct resume *find(const struct event_thread *thread, struct u128 request) {
    for (struct resume *r = thread->resumes; r; r = r->next)
        if (u128_equal(r->request, request))
            return r;
    return NULL;
}

/* ---- what a client asks ---- */

static bool is_name_byte(uint8_t c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && strchr("-._~:@+=", c));
}

static int check_name(struct bytes name, struct api_error *err) {
    bool ok = name.len > 0 && name.len <= WIRE_MAX_STREAM;
    for (size_t i = 0; ok && i < name.len; i++)
        ok = is_name_byte(name.data[i]);
    if (ok)
        return 0;
    return api_error_set(
        err, API_BAD_REQUEST, NULL,
        "the id of a conversation has 1 to %d letters, digits or any of -._~:@+=", WIRE_MAX_STREAM);
}

int resume_name(const struct http_request *req, struct bytes *name, struct api_error *err) {
    *name = http_request_header(req, "X-Conversation-Id");
    return name->data ? check_name(*name, err) : 0;
}

bool resume_is_asked(const struct http_request *req, struct bytes *name) {
    *name = http_request_header(req, "X-Conversation-Id");
    return name->len && http_request_header(req, "Last-Event-ID").len;
}

static int read_bytes(struct bytes query, struct event_position *out, struct api_error *err) {
    char text[24];
    char *end = text;
    int len = http_query_find(query, "from", text, sizeof text);
    if (len < 0 && !memmem(query.data, query.len, "from=", 5))
        return 0;
    if (len > 0 && text[0] >= '0' && text[0] <= '9')
        out->bytes = strtoull(text, &end, 10);
    if (len > 0 && end != text && !*end)
        return 0;
    return api_error_set(err, API_BAD_REQUEST, "from",
                         "'from' is the count of bytes that the client has");
}

static int read_position(const struct http_request *req, struct event_position *out,
                         struct api_error *err) {
    struct bytes id = http_request_header(req, "Last-Event-ID");
    *out = (struct event_position){0};
    if (!id.len)
        return read_bytes(req->query, out, err);
    if (event_position_parse(id, out))
        return 0;
    return api_error_set(err, API_BAD_REQUEST, NULL, "Last-Event-ID is no id of this server's");
}

/* ---- asking the scheduler ---- */

static void ask(struct resume *r) {
    const struct wire_attach attach = {
        .tenant = r->tenant, .new_request = r->request, .stream = buf_bytes(&r->name)};
    if (!r->thread->registered || r->submit.len)
        return;
    r->ask_ms = r->thread->now_ms;
    outbox_attach(&r->thread->outbox, &attach);
}

static void open_resume(struct event_thread *thread, struct http_request *req, struct u128 tenant,
                        struct bytes name, const struct event_position *behind) {
    struct resume *r = mem_alloc(sizeof *r);
    *r = (struct resume){.thread = thread,
                         .http = req,
                         .tenant = tenant,
                         .request = request_id_new(thread->idx),
                         .behind = behind ? *behind : (struct event_position){0},
                         .gives_up = !behind,
                         .until_ms = thread->now_ms + thread->gw->settings.model_wait_ms};
    buf_add_bytes(&r->name, name);
    r->next = thread->resumes;
    if (r->next)
        r->next->prev = r;
    thread->resumes = r;
    http_request_watch(req, &watch, r);
    ask(r);
}

int resume_open(struct event_thread *thread, struct http_request *req, struct u128 tenant,
                struct bytes name, struct api_error *err) {
    struct event_position behind;
    if (check_name(name, err) || read_position(req, &behind, err))
        return -1;
    open_resume(thread, req, tenant, name, &behind);
    return 0;
}

int resume_give_up(struct event_thread *thread, struct http_request *req, struct u128 tenant,
                   struct bytes name, struct api_error *err) {
    if (check_name(name, err))
        return -1;
    open_resume(thread, req, tenant, name, NULL);
    return 0;
}

bool resume_is_waiting(const struct event_thread *thread, struct u128 request) {
    return find(thread, request) != NULL;
}

/* ---- its answer ---- */

/* Once they are there, the stream goes on from what was dropped meanwhile. May end r. */
static void compile_patterns(struct resume *r, const struct taken_up *from) {
    const struct prepare_job job = {.thread_idx = r->thread->idx,
                                    .resume = r->request,
                                    .work.tenant =
                                        open_holder(from->submit.tenant, r->http->address)};
    struct api_error err;
    r->waited = true;
    if (r->compiles)
        return;
    r->compiles = prepare_pool_push_patterns(r->thread->gw->pool, &job, &from->g);
    if (r->compiles)
        return;
    api_error_set(&err, API_OVERLOADED, NULL,
                  "too many long requests are waiting; try again later");
    refuse(r, &err);
}

/* The model is here: a generation takes over. */
static void start(struct resume *r, struct served_model *model, struct arena *arena) {
    struct taken_up from = {.model = model, .behind = &r->behind, .late = r->waited};
    struct event_thread *thread = r->thread;
    struct http_request *req = r->http;
    struct error err;
    struct api_error api;
    int rc = message_unpack_submit(buf_bytes(&r->submit), arena, &from.submit, &err);
    if (!rc)
        rc = presentation_read(from.submit.presentation, &from.g, &from.shown, &err);
    if (rc) {
        served_model_put(model);
        if (arena->starved || from.g.arena.starved)
            api_error_out_of_memory(&api);
        else
            api_error_set(&api, API_INTERNAL, NULL, "this server cannot write the stream: %s",
                          err.text);
        genreq_release(&from.g);
        refuse(r, &api);
        return;
    }
    if (from.g.stop_pattern_count && !r->stop_patterns) {
        served_model_put(model);
        compile_patterns(r, &from);
        genreq_release(&from.g);
        return;
    }
    from.stop_patterns = r->stop_patterns;
    r->stop_patterns = NULL;
    generation_take_up(thread, req, &from);
    resume_free(r);
}

/* It is this gateway's now, so nobody else reads it: its request ends, and the scheduler forgets
 * it. */
static void give_up(struct resume *r, uint32_t attempt) {
    outbox_cancel(&r->thread->outbox, r->request, attempt, WIRE_ALL_CHOICES);
    http_respond(r->http, 204, NULL, NULL, 0, bytes_of(NULL, 0));
    gateway_metrics_answer(204);
    resume_free(r);
}

static void try_start(struct resume *r) {
    struct arena arena;
    struct wire_submit submit;
    struct error err;
    struct served_model *model;
    if (!r->submit.len)
        return;
    arena_init(&arena, 0, 0);
    int rc = message_unpack_submit(buf_bytes(&r->submit), &arena, &submit, &err);
    CHECK(rc == 0 || arena.starved); /* the control thread has unpacked it */
    if (rc == 0 && r->gives_up)
        give_up(r, submit.attempt);
    else if (rc == 0 &&
             model_table_find(r->thread->gw->models, submit.model, &model) == MODEL_READY)
        start(r, model, &arena);
    else
        r->waited = true;
    arena_release(&arena);
}

void resume_on_attached(struct event_thread *thread, struct mail *mail) {
    struct resume *r = find(thread, mail->reject.request);
    if (!r || r->submit.len || epoch_compare(mail->epoch, thread->epoch) != 0)
        return;
    r->submit = mail->submit;
    mail->submit = (struct buf){0};
    try_start(r);
}

void resume_on_patterns(struct event_thread *thread, struct prepare_job *job) {
    struct resume *r = find(thread, job->resume);
    if (!r)
        return;
    CHECK(r->compiles && !r->stop_patterns);
    r->compiles = false;
    if (job->err.status && !r->outdated) {
        refuse(r, &job->err);
        return;
    }
    if (!r->outdated) {
        r->stop_patterns = job->prepared.stop_patterns;
        job->prepared.stop_patterns = NULL;
    }
    r->outdated = false;
    try_start(r);
}

void resume_on_reject(struct event_thread *thread, const struct mail *mail) {
    struct resume *r = find(thread, mail->reject.request);
    struct api_error err;
    if (!r || epoch_compare(mail->epoch, thread->epoch) != 0)
        return;
    if (mail->reject.code == WIRE_REJECT_MOVED)
        api_error_stream_taken(&err);
    else
        api_error_set(&err, API_NOT_FOUND, NULL,
                      "there is no such stream: it was never begun, was too long without a client, "
                      "or is another key's");
    error_respond(r->http, &err);
    resume_free(r);
}

void resume_restart(struct event_thread *thread) {
    for (struct resume *r = thread->resumes; r; r = r->next) {
        buf_reset(&r->submit);
        finder_free(&r->stop_patterns); /* the name may be another stream's now */
        r->outdated = r->compiles;
        ask(r);
    }
}

void resume_tick(struct event_thread *thread) {
    struct api_error err;
    for (struct resume *r = thread->resumes, *next; r; r = next) {
        next = r->next;
        if (thread->now_ms >= r->until_ms) {
            api_error_set(&err, API_UNAVAILABLE, NULL, "the stream is not to be had now");
            err.retry_after_ms = 1000;
            refuse(r, &err);
        } else if (r->submit.len) {
            try_start(r);
        } else if (thread->now_ms - r->ask_ms >= ASK_AGAIN_MS) {
            ask(r);
        }
    }
}

void resume_end(struct event_thread *thread) {
    while (thread->resumes)
        leave(thread->resumes);
}
