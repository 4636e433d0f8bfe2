#include "worker/comm_nccl.h"

#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"

struct comm_nccl {
    struct comm_nccl_config config;
    const struct nccl_calls *calls;
    struct nccl_comm *comm;
    void *gathered;        /* device memory: act [tp, sum_max] */
    struct stream *stream; /* of the latest work; NULL: none yet */
    struct event *drained;
    uint32_t self, first;
    int failed;
    char why[160];
};

/* ---- failing and waiting ---- */

static int fail(struct comm_nccl *c, int code, const char *what, const char *why) {
    if (c->failed)
        return c->failed;
    c->failed = code;
    snprintf(c->why, sizeof c->why, "%s: %s", what, why);
    if (c->comm)
        c->calls->abort(c->comm);
    c->comm = NULL;
    return code;
}

static int check_result(struct comm_nccl *c, const char *what, int64_t end_ms) {
    if (c->config.stopped && c->config.stopped(c->config.ctx))
        return fail(c, ERR_CLOSED, what, "told to stop");
    if (clock_ms() >= end_ms)
        return fail(c, ERR_TIMEOUT, what, "another rank did not answer in time");
    return 0;
}

/* A call's outcome; one that is in progress is waited for. */
static int wait_for_nccl(struct comm_nccl *c, int result, const char *what, int64_t limit_ms) {
    int64_t end_ms = clock_ms() + limit_ms;
    while (!c->failed && result == NCCL_IN_PROGRESS) {
        int rc = c->calls->async_error(c->comm, &result);
        if (rc != NCCL_SUCCESS)
            result = rc;
        if (result != NCCL_IN_PROGRESS)
            break;
        rc = check_result(c, what, end_ms);
        if (rc)
            return rc;
        sched_yield();
    }
    if (c->failed)
        return c->failed;
    return result == NCCL_SUCCESS ? 0 : fail(c, ERR_CLOSED, what, c->calls->error_string(result));
}

int comm_nccl_done(struct comm_nccl *c, struct event *e, int64_t end_ms) {
    int rc = c->failed ? c->failed : event_done(e), state = NCCL_SUCCESS;
    if (rc)
        return rc;
    if (c->calls->async_error(c->comm, &state) != NCCL_SUCCESS ||
        (state != NCCL_SUCCESS && state != NCCL_IN_PROGRESS))
        return fail(c, ERR_CLOSED, "in a step", c->calls->error_string(state));
    return check_result(c, "in a step", end_ms);
}

int comm_nccl_wait(struct comm_nccl *c, struct event *e) {
    const struct timespec pause = {.tv_nsec = 50000};
    int64_t end_ms = clock_ms() + c->config.timeout_ms, spin_until_us = clock_us() + 200;
    int rc;
    while ((rc = comm_nccl_done(c, e, end_ms)) == 0)
        if (clock_us() > spin_until_us)
            (void)nanosleep(&pause, NULL);
    return rc < 0 ? rc : 0;
}

int comm_nccl_failed(const struct comm_nccl *c, struct error *err) {
    return c->failed
               ? error_set(err, c->failed, "the replica's ranks have lost each other: %s", c->why)
               : 0;
}

/* ---- life ---- */

int comm_nccl_form(struct comm_nccl **out, const struct comm_nccl_config *config,
                   const struct nccl_id *id, struct error *err) {
    struct comm_nccl *c = mem_alloc(sizeof *c);
    struct nccl_config options = nccl_config_default();
    *c = (struct comm_nccl){.config = *config, .calls = config->calls};
    c->first = config->place.stage * config->place.tp;
    c->self = c->first + config->place.rank;
    size_t bytes = storage_bytes(config->dev->activation_type, config->sum_max);
    c->gathered = config->place.tp > 1 ? device_alloc(config->dev, bytes * config->place.tp) : NULL;
    c->drained = event_new(config->dev);
    int rc = c->gathered || config->place.tp == 1
                 ? 0
                 : error_set(err, ERR_MEMORY, "no memory for sums over the ranks");
    if (!rc) {
        int result = c->calls->init(&c->comm, (int)(config->place.tp * config->place.pp), *id,
                                    (int)c->self, &options);
        rc = wait_for_nccl(c, result, "forming", config->form_ms);
        if (rc)
            rc = comm_nccl_failed(c, err);
    }
    if (rc) {
        comm_nccl_free(&c);
        return rc;
    }
    *out = c;
    return 0;
}

void comm_nccl_free(struct comm_nccl **out) {
    struct comm_nccl *c = *out;
    if (!c)
        return;
    fail(c, ERR_CLOSED, "left", "on purpose");
    if (c->stream && c->drained) { /* what is still on it reads the gathered */
        event_record(c->drained, c->stream);
        (void)!event_wait(c->drained);
    }
    event_free(&c->drained);
    device_free(c->config.dev, c->gathered);
    mem_free(c);
    *out = NULL;
}

/* ---- exchanges ---- */

static bool begin(struct comm_nccl *c, struct stream *s) {
    c->stream = s;
    return !c->failed &&
           !wait_for_nccl(c, c->calls->group_start(), "in a step", c->config.timeout_ms);
}
static void end(struct comm_nccl *c) {
    (void)!wait_for_nccl(c, c->calls->group_end(), "in a step", c->config.timeout_ms);
}
/* Within a group: outcomes come with its end. */
static void send_to(struct comm_nccl *c, const void *x, size_t count, int type, uint32_t peer,
                    void *stream) {
    int result = c->calls->send(x, count, type, (int)peer, c->comm, stream);
    if (result != NCCL_IN_PROGRESS)
        (void)!wait_for_nccl(c, result, "sending", 0);
}
static void receive_from(struct comm_nccl *c, void *x, size_t count, int type, uint32_t peer,
                         void *stream) {
    if (c->failed)
        return;
    int result = c->calls->receive(x, count, type, (int)peer, c->comm, stream);
    if (result != NCCL_IN_PROGRESS)
        (void)!wait_for_nccl(c, result, "receiving", 0);
}

/* Every rank's values to every rank, then first + second + ... */
void comm_nccl_sum(struct comm_nccl *c, struct stream *s, void *x, uint32_t rows, uint32_t width,
                   enum storage_type type) {
    size_t count = (size_t)rows * width, bytes = storage_bytes(type, count);
    bool f32 = type != c->config.dev->activation_type;
    void *stream = device_native_stream(s);
    CHECK(bytes <= storage_bytes(c->config.dev->activation_type, c->config.sum_max) &&
          (!f32 || type == STORAGE_F32));
    if (!begin(c, s))
        return;
    for (uint32_t r = 0; r < c->config.place.tp && !c->failed; r++) {
        send_to(c, x, count, nccl_type_of(type), c->first + r, stream);
        receive_from(c, (char *)c->gathered + r * bytes, count, nccl_type_of(type), c->first + r,
                     stream);
    }
    if (!c->failed)
        end(c);
    if (c->failed)
        return;
    s->dev->ops->rows->sum_addends(s, &(struct op_sum_addends){.x = x,
                                                               .addends = c->gathered,
                                                               .addend_count = c->config.place.tp,
                                                               .count = count,
                                                               .f32 = f32});
}

void comm_nccl_gather(struct comm_nccl *c, struct stream *s, float *all, size_t stride,
                      const float *own_columns, uint32_t rows, const struct shard_range *ranges) {
    void *stream = device_native_stream(s);
    size_t own = ranges[c->config.place.rank].count;
    if (!begin(c, s))
        return;
    for (uint32_t i = 0; i < rows && !c->failed; i++) {
        send_to(c, own_columns + i * own, own, NCCL_FLOAT32, c->first, stream);
        for (uint32_t r = 0; r < c->config.place.tp && c->config.place.rank == 0; r++)
            receive_from(c, all + i * stride + ranges[r].first, ranges[r].count, NCCL_FLOAT32,
                         c->first + r, stream);
    }
    if (!c->failed)
        end(c);
}

void comm_nccl_send(struct comm_nccl *c, struct stream *s, const float *x, size_t count) {
    if (!begin(c, s))
        return;
    send_to(c, x, count, NCCL_FLOAT32, c->self + c->config.place.tp, device_native_stream(s));
    if (!c->failed)
        end(c);
}

void comm_nccl_receive(struct comm_nccl *c, struct stream *s, float *x, size_t count) {
    if (!begin(c, s))
        return;
    receive_from(c, x, count, NCCL_FLOAT32, c->self - c->config.place.tp, device_native_stream(s));
    if (!c->failed)
        end(c);
}
