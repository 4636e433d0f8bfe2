#include "worker/ranks.h"

#include <stdlib.h>

#include "base/log.h"
#include "model/forward.h"

enum { SPIN_US = 20, CHANNEL_LEAST = 1 << 20, CHANNEL_MOST = 16 << 20 };

/* ---- place ---- */

/* "12,20": layers of each stage. */
static int read_stage_layers(struct shard *shard, const char *text, struct error *err) {
    char *rest = (char *)text;
    for (uint32_t i = 0; i < shard->pp; i++) {
        long n = strtol(rest, &rest, 10);
        if (n <= 0 || n > SPEC_LAYERS_MAX || *rest != (i + 1 < shard->pp ? ',' : 0))
            return error_set(err, ERR_INVALID, "--stage-layers '%s' is not a count of layers for each of %u stages",
                             text, shard->pp);
        shard->stage_layers[i] = (uint32_t)n;
        rest++;
    }
    return 0;
}

int ranks_place(struct ranks *r, const struct worker_settings *s, struct error *err) {
    struct comm_place p = {(uint32_t)s->rank, MAX((uint32_t)s->tp, 1u), (uint32_t)s->stage, MAX((uint32_t)s->pp, 1u)};
    *r = (struct ranks){.place = p,
                        .form_ms = s->comm_form_ms ? s->comm_form_ms : 30000,
                        .timeout_ms = s->comm_timeout_ms ? s->comm_timeout_ms : 60000};
    if (p.rank >= p.tp || p.stage >= p.pp || p.tp * p.pp > COMM_RANKS_MAX)
        return error_set(err, ERR_INVALID, "--rank %u of --tp %u, --stage %u of --pp %u: no such place", p.rank, p.tp,
                         p.stage, p.pp);
    r->shard = (struct shard){.rank = p.rank, .tp = p.tp, .stage = p.stage, .pp = p.pp};
    return s->stage_layers && *s->stage_layers ? read_stage_layers(&r->shard, s->stage_layers, err) : 0;
}

int ranks_init(struct ranks *r, const struct model *model, uint32_t max_rows, uint32_t slot_count,
               struct worker_progress *progress, struct error *err) {
    r->dev = model->dev;
    r->hidden = model->spec.hidden;
    r->vocab = model->spec.vocab;
    r->max_rows = max_rows;
    r->record_max = slot_count;
    r->progress = progress;
    if (ranks_are_alone(r)) return 0;
    size_t rows = (size_t)max_rows * r->hidden * sizeof(float);
    size_t logits = (size_t)HEAD_ROWS * r->vocab * sizeof(float) * (r->place.tp > 1 ? 2 : 0);
    bool in_place = r->dev->kind == DEVICE_CPU;
    if (!in_place) r->staged = event_new(r->dev);
    if (!in_place) r->host = mem_try_alloc(MAX(rows, logits));
    if (r->place.stage) r->other = mem_try_alloc(rows);
    if ((!in_place && (!r->host || !r->staged)) || (r->place.stage && !r->other))
        return error_set(err, ERR_MEMORY, "no memory for what the ranks exchange");
    return 0;
}

void ranks_leave(struct ranks *r) { comm_free(&r->comm); }

void ranks_release(struct ranks *r) {
    ranks_leave(r);
    event_free(&r->staged);
    mem_free(r->host);
    mem_free(r->other);
    *r = (struct ranks){0};
}

int ranks_form(struct ranks *r, struct bytes comm_id, struct error *err) {
    struct comm_config config = {.place = r->place,
                                 .record_max = r->record_max,
                                 .form_ms = r->form_ms,
                                 .timeout_ms = r->timeout_ms,
                                 .spin_us = SPIN_US,
                                 .waiting = r->progress ? &r->progress->waiting : NULL,
                                 .stopped = r->stopped,
                                 .ctx = r->stopped_ctx};
    size_t step = (size_t)r->max_rows * r->hidden * sizeof(float);
    config.channel_bytes = MIN(MAX(2 * step, (size_t)CHANNEL_LEAST), (size_t)CHANNEL_MOST);
    ranks_leave(r);
    if (comm_id.len != sizeof config.id)
        return error_set(err, ERR_INVALID, "plan 1 does not say where the replica's ranks meet");
    memcpy(&config.id, comm_id.data, sizeof config.id);
    int rc = comm_form(&r->comm, &config, err);
    if (!rc) log_info("the replica's %u ranks have met", r->place.tp * r->place.pp);
    return rc;
}

int ranks_failed(const struct ranks *r, struct error *err) {
    if (!r->comm) return error_set(err, ERR_CLOSED, "the replica's ranks have not met");
    return comm_failed(r->comm, err);
}

/* ---- between the device and the others ---- */

/* Device bytes where the host can read them: itself, or a copy that is there when the call returns. */
static void *fetch(struct ranks *r, struct stream *s, const void *x, size_t bytes) {
    if (!r->staged) return (void *)(uintptr_t)x;
    stream_copy_out(s, r->host, x, bytes);
    event_record(r->staged, s);
    /* A device that failed shows itself at the step's own event. */
    if (event_wait(r->staged)) log_debug("the device failed while ranks exchanged");
    return r->host;
}

static void store(struct ranks *r, struct stream *s, void *x, const void *host, size_t bytes) {
    if (r->staged) stream_copy_in(s, x, host, bytes);
}

static void on_sum(void *ctx, struct stream *s, void *x, size_t count) {
    struct ranks *r = ctx;
    enum storage_type type = r->dev->activation_type;
    size_t bytes = storage_bytes(type, count);
    if (comm_failed(r->comm, NULL)) return;
    void *host = fetch(r, s, x, bytes);
    if (comm_sum(r->comm, host, count, type) == 0) store(r, s, x, host, bytes);
}

static void on_gather(void *ctx, struct stream *s, float *all, size_t stride, const float *part, uint32_t rows) {
    struct ranks *r = ctx;
    struct shard_range ranges[COMM_RANKS_MAX];
    size_t bytes[COMM_RANKS_MAX];
    void *out[COMM_RANKS_MAX];
    if (comm_failed(r->comm, NULL)) return;
    for (uint32_t i = 0; i < r->place.tp; i++) {
        struct shard at = {.rank = i, .tp = r->place.tp};
        ranges[i] = shard_vocab(&at, r->vocab);
        bytes[i] = ranges[i].count * sizeof(float);
    }
    size_t own = ranges[r->place.rank].count;
    const float *mine = fetch(r, s, part, rows * own * sizeof(float));
    float *to = r->staged ? (float *)(void *)r->host + (size_t)HEAD_ROWS * r->vocab : all;
    for (uint32_t row = 0; row < rows; row++) {
        for (uint32_t i = 0; i < r->place.tp; i++) out[i] = to + row * stride + ranges[i].first;
        if (comm_gather(r->comm, mine + row * own, out, bytes)) return;
    }
    if (r->place.rank == 0) store(r, s, all, to, rows * stride * sizeof(float));
}

static void on_send(void *ctx, struct stream *s, const void *x, size_t count) {
    struct ranks *r = ctx;
    uint32_t type = r->dev->activation_type;
    size_t bytes = storage_bytes(r->dev->activation_type, count);
    if (comm_failed(r->comm, NULL)) return;
    const void *host = fetch(r, s, x, bytes);
    if (comm_send(r->comm, &type, sizeof type) == 0 && comm_send(r->comm, host, bytes))
        log_debug("the next stage is gone");
}

static void convert(void *to, enum storage_type type, const void *from, enum storage_type from_type, size_t count) {
    for (size_t i = 0; i < count; i++) storage_put(type, to, i, storage_get(from_type, from, i));
}

static void on_receive(void *ctx, struct stream *s, void *x, size_t count) {
    struct ranks *r = ctx;
    enum storage_type type = r->dev->activation_type;
    uint32_t sent = 0;
    void *host = r->staged ? r->host : x;
    if (comm_failed(r->comm, NULL) || comm_receive(r->comm, &sent, sizeof sent)) return;
    if (sent != STORAGE_F32 && sent != STORAGE_F16 && sent != STORAGE_BF16) return; /* never: the peer is our kind */
    bool same = sent == type;
    if (comm_receive(r->comm, same ? host : r->other, storage_bytes((enum storage_type)sent, count))) return;
    if (!same) convert(host, type, r->other, (enum storage_type)sent, count);
    store(r, s, x, host, storage_bytes(type, count));
}

const struct rank_calls ranks_calls = {.sum = on_sum, .gather = on_gather, .send = on_send, .receive = on_receive};
