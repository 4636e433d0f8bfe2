#include "worker/ranks.h"

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/fsutil.h"
#include "base/hash.h"
#include "base/log.h"
#include "model/run/forward.h"

enum { COMM_AUTO, COMM_SHM, COMM_NCCL, COMM_PEER }; /* of --comm */
enum { SPIN_US = 20, CHANNEL_LEAST = 1 << 20, CHANNEL_MOST = 16 << 20 };

/* ---- place ---- */

/* "12,20": layers of each stage. */
static int read_stage_layers(struct shard *shard, const char *text, struct error *err) {
    char *rest = (char *)text;
    for (uint32_t i = 0; i < shard->pp; i++) {
        long n = strtol(rest, &rest, 10);
        if (n <= 0 || n > SPEC_LAYERS_MAX || *rest != (i + 1 < shard->pp ? ',' : 0))
            return error_set(err, ERR_INVALID,
                             "--stage-layers '%s' is not a count of layers for each of %u stages",
                             text, shard->pp);
        shard->stage_layers[i] = (uint32_t)n;
        rest++;
    }
    return 0;
}

int ranks_place(struct ranks *r, const struct worker_settings *s, struct error *err) {
    struct comm_place p = {(uint32_t)s->rank, MAX((uint32_t)s->tp, 1u), (uint32_t)s->stage,
                           MAX((uint32_t)s->pp, 1u)};
    *r = (struct ranks){.place = p,
                        .comm_kind = s->comm,
                        .nccl_path = s->nccl,
                        .listen = s->comm_listen,
                        .form_ms = s->comm_form_ms ? s->comm_form_ms : 30000,
                        .timeout_ms = s->comm_timeout_ms ? s->comm_timeout_ms : 60000};
    if (p.rank >= p.tp || p.stage >= p.pp || p.tp * p.pp > COMM_RANKS_MAX)
        return error_set(err, ERR_INVALID,
                         "--rank %u of --tp %u, --stage %u of --pp %u: no such place", p.rank, p.tp,
                         p.stage, p.pp);
    r->shard = (struct shard){.rank = p.rank, .tp = p.tp, .stage = p.stage, .pp = p.pp};
    return s->stage_layers && *s->stage_layers ? read_stage_layers(&r->shard, s->stage_layers, err)
                                               : 0;
}

/* With --comm=auto a machine without NCCL stages over shared memory, and says so. */
static int find_nccl(struct ranks *r, struct error *err) {
    struct error why;
    if (nccl_open(r->nccl_path, &r->nccl_calls, &why) == 0)
        return 0;
    r->nccl_calls = NULL;
    if (r->comm_kind == COMM_NCCL)
        return error_set(err, why.code, "%s", why.text);
    log_info("ranks exchange over shared memory: %s", why.text);
    return 0;
}

/* Memory for the others, where this device has such; if it cannot be had, auto does without and says
 * so. */
static int find_peers(struct ranks *r, const struct model *model, struct error *err) {
    const struct peer_ops *ops = r->dev->ops->peers;
    struct error why;
    int rc = 0;
    if (r->comm_kind != COMM_AUTO && r->comm_kind != COMM_PEER)
        return 0;
    if (r->place.tp > 1 && r->place.tp <= PEERS_MAX && ops)
        rc = ops->open(r->dev, r->place.rank, r->place.tp, &r->peers, &r->card, &why);
    else if (r->comm_kind == COMM_PEER)
        rc =
            error_set(&why, ERR_UNSUPPORTED, "--comm=peer is for 2 to %d ranks on GPUs", PEERS_MAX);
    if (!rc && r->peers)
        r->card.adds = forward_rows_that_add(model, r->peers);
    if (!rc)
        return 0;
    if (r->comm_kind == COMM_PEER)
        return error_set(err, why.code, "%s", why.text);
    log_info("ranks do not use each other's memory: %s", why.text);
    return 0;
}

static struct comm_config comm_config_of(const struct ranks *r) {
    size_t step = (size_t)r->max_rows * r->hidden * sizeof(float);
    return (struct comm_config){.place = r->place,
                                .channel_bytes =
                                    MIN(MAX(2 * step, (size_t)CHANNEL_LEAST), (size_t)CHANNEL_MOST),
                                .record_max = r->record_max,
                                .form_ms = r->form_ms,
                                .timeout_ms = r->timeout_ms,
                                .listen = r->listen,
                                .spin_us = SPIN_US,
                                .waiting = r->progress ? &r->progress->waiting : NULL,
                                .stopped = r->stopped,
                                .ctx = r->stopped_ctx,
                                .card = &r->card,
                                .card_bytes = sizeof r->card};
}

int ranks_init(struct ranks *r, const struct model *model, uint32_t max_rows, uint32_t slot_count,
               struct worker_progress *progress, struct error *err) {
    r->dev = model->dev;
    r->hidden = model->spec.hidden;
    r->sum_width = shard_sum_width(&model->spec);
    r->vocab = model->spec.vocab;
    r->max_rows = max_rows;
    r->record_max = slot_count;
    r->progress = progress;
    if (ranks_are_alone(r))
        return 0;
    size_t rows = (size_t)max_rows * r->sum_width * sizeof(float);
    size_t logits = (size_t)HEAD_ROWS * r->vocab * sizeof(float) * (r->place.tp > 1 ? 2 : 0);
    bool in_place = r->dev->kind == DEVICE_CPU;
    struct comm_config config = comm_config_of(r);
    int rc = comm_check(&config, err); /* a rank that could never meet the others is not ready */
    if (rc)
        return rc;
    rc = in_place || r->comm_kind == COMM_SHM ? 0 : find_nccl(r, err);
    if (!rc && !in_place)
        rc = find_peers(r, model, err);
    if (rc)
        return rc;
    if (!in_place)
        r->staged = event_new(r->dev);
    if (!in_place)
        r->host = mem_try_alloc(MAX(rows, logits));
    if (!in_place && (!r->host || !r->staged))
        return error_set(err, ERR_MEMORY, "no memory for what the ranks exchange");
    return 0;
}

/* Waits until what is on the stream has ended, which waits for nobody any more. */
static void leave_peers(struct ranks *r) {
    if (!r->reached)
        return;
    r->dev->ops->peers->abort(r->peers);
    if (r->stream) {
        event_record(r->staged, r->stream);
        if (event_wait(r->staged))
            log_debug("the device failed while ranks exchanged");
    }
    r->dev->ops->peers->leave(r->peers);
    r->reached = false;
}

void ranks_leave(struct ranks *r) {
    if (r->reached) /* what is on the stream before NCCL's */
        r->dev->ops->peers->abort(r->peers);
    comm_nccl_free(&r->nccl);
    leave_peers(r);
    comm_free(&r->comm);
}

void ranks_release(struct ranks *r) {
    ranks_leave(r);
    if (r->peers)
        r->dev->ops->peers->close(r->peers);
    event_free(&r->staged);
    mem_free(r->host);
    *r = (struct ranks){0};
}

static int form_nccl(struct ranks *r, struct error *err) {
    struct nccl_id id = {{0}};
    struct comm_nccl_config config = {.calls = r->nccl_calls,
                                      .dev = r->dev,
                                      .place = r->place,
                                      .sum_max = (size_t)r->max_rows * r->sum_width,
                                      .form_ms = r->form_ms,
                                      .timeout_ms = r->timeout_ms,
                                      .stopped = r->stopped,
                                      .ctx = r->stopped_ctx};
    bool mine = r->place.rank == 0 && r->place.stage == 0;
    if (mine && r->nccl_calls->unique_id(&id))
        return error_set(err, ERR_CLOSED, "NCCL makes no id");
    int rc = comm_share(r->comm, &id, sizeof id);
    return rc ? comm_failed(r->comm, err) : comm_nccl_form(&r->nccl, &config, &id, err);
}

static bool same_gpu(const struct peer_card *a, const struct peer_card *b) {
    return a->domain == b->domain && a->bus == b->bus && a->slot == b->slot;
}

/* All ranks of the stage reach each other, or none tries. Every rank of it sees the same cards, so
 * all ask or none does. */
static int form_peers(struct ranks *r, struct error *err) {
    struct peer_card cards[PEERS_MAX];
    struct error why = {0};
    _Static_assert(sizeof cards[0] <= COMM_CARD_MAX, "a card must fit");
    if (r->place.tp > PEERS_MAX || r->place.tp < 2)
        return 0;
    r->rows_that_add = UINT32_MAX;
    for (uint32_t i = 0; i < r->place.tp; i++) {
        memcpy(&cards[i], comm_card(r->comm, i), sizeof cards[i]);
        if (!cards[i].box_bytes)
            return 0;
        r->rows_that_add = MIN(r->rows_that_add, cards[i].adds);
        for (uint32_t k = 0; k < i; k++)
            if (same_gpu(&cards[i], &cards[k])) /* their kernels would wait for each other's turn */
                return 0;
    }
    r->reached = r->dev->ops->peers->join(r->peers, cards, r->timeout_ms, &why) == 0;
    float failures = r->reached ? 0 : 1;
    if (comm_sum(r->comm, &failures, 1, STORAGE_F32)) {
        leave_peers(r);
        return comm_failed(r->comm, err);
    }
    if (failures == 0) {
        log_debug("products of up to %u rows add up with those of the other ranks",
                  r->rows_that_add);
        return 0;
    }
    if (!r->reached)
        log_warn("ranks do not use each other's memory: %s", why.text);
    leave_peers(r);
    return 0;
}

static const char *how_they_met(const struct ranks *r) {
    if (r->reached)
        return r->nccl ? "each other's memory and NCCL" : "each other's memory";
    if (r->nccl)
        return "NCCL";
    return comm_is_spread(r->comm) ? "messages between hosts" : "shared memory";
}

/* The number of a GPU on this host, among those of all hosts. Never 0. */
static uint64_t unit_of_all_hosts(uint64_t unit) {
    enum { BOOT_ID_MAX = 64 };
    struct error err;
    struct buf boot;
    buf_init(&boot, 0);
    if (file_read_any("/proc/sys/kernel/random/boot_id", BOOT_ID_MAX, &boot, &err))
        log_warn("cannot tell this host from others: %s", err.text);
    uint64_t all = hash64(boot.data, boot.len, unit) | 1;
    buf_release(&boot);
    return all;
}

int ranks_form(struct ranks *r, struct bytes comm_id, struct error *err) {
    struct comm_config config = comm_config_of(r);
    ranks_leave(r);
    if (comm_meeting_read(comm_id, &config.at))
        return error_set(err, ERR_INVALID, "plan 1 does not say where the replica's ranks meet");
    config.unit = r->nccl_calls ? r->dev->unit : 0;
    if (*config.at.rendezvous) { /* memory and units of GPUs are those of one host */
        config.card_bytes = 0;
        config.unit = config.unit ? unit_of_all_hosts(config.unit) : 0;
    }
    int rc = comm_form(&r->comm, &config, err);
    if (!rc)
        rc = form_peers(r, err);
    if (!rc && comm_has_gpus(r->comm) && !(r->reached && r->place.pp == 1))
        rc = form_nccl(r, err);
    if (!rc && r->comm_kind == COMM_NCCL && !r->nccl)
        rc = error_set(err, ERR_UNSUPPORTED, "--comm=nccl needs a GPU for each rank");
    if (!rc && r->comm_kind == COMM_PEER && !r->reached)
        rc = error_set(err, ERR_UNSUPPORTED, "--comm=peer needs GPUs that reach each other");
    if (!rc)
        LOG_SOME(LOG_INFO, "the replica's %u ranks have met, by %s", r->place.tp * r->place.pp,
                 how_they_met(r));
    return rc;
}

int ranks_failed(const struct ranks *r, struct error *err) {
    if (!r->comm)
        return error_set(err, ERR_CLOSED, "the replica's ranks have not met");
    int rc = comm_failed(r->comm, err);
    return rc || !r->nccl ? rc : comm_nccl_failed(r->nccl, err);
}

/* A kernel that waits for another rank ends by itself, but late: the host looks, and ends it. */
static int done_by(struct ranks *r, struct event *e, int64_t end_ms) {
    const struct peer_ops *ops = r->dev->ops->peers;
    int rc = r->nccl ? comm_nccl_done(r->nccl, e, end_ms) : event_done(e);
    if (!r->reached)
        return rc;
    if (rc == 0)
        rc = comm_look(r->comm, end_ms);
    if (rc > 0 && ops->broken(r->peers))
        rc = comm_give_up(r->comm, ERR_TIMEOUT, "another rank did not answer in time");
    if (rc < 0)
        ops->abort(r->peers);
    return rc;
}

int ranks_done(struct ranks *r, struct event *e, int64_t since_ms) {
    /* a step may be ahead of it */
    return done_by(r, e, since_ms + 2 * r->timeout_ms);
}

int ranks_wait(struct ranks *r, struct event *e) {
    const struct timespec pause = {.tv_nsec = 50000};
    const int64_t end_ms = clock_ms() + r->timeout_ms, spin_until_us = clock_us() + 200;
    int rc;
    if (!r->reached)
        return r->nccl ? comm_nccl_wait(r->nccl, e) : event_wait(e);
    while ((rc = done_by(r, e, end_ms)) == 0)
        if (clock_us() > spin_until_us)
            (void)nanosleep(&pause, NULL);
    return rc < 0 ? rc : 0;
}

/* ---- between the device and the others ---- */

/* Device bytes where the host can read them: itself, or a copy that is there when the call
 * returns. */
static void *fetch(struct ranks *r, struct stream *s, const void *x, size_t bytes) {
    if (!r->staged)
        return (void *)(uintptr_t)x;
    stream_copy_out(s, r->host, x, bytes);
    event_record(r->staged, s);
    /* A device that failed shows itself at the step's own event. */
    if (ranks_wait(r, r->staged))
        log_debug("the device failed while ranks exchanged");
    return r->host;
}

static void store(struct ranks *r, struct stream *s, void *x, const void *host, size_t bytes) {
    if (r->staged)
        stream_copy_in(s, x, host, bytes);
}

static void on_sum(void *ctx, struct stream *s, void *x, uint32_t rows, uint32_t width,
                   enum storage_type type) {
    struct ranks *r = ctx;
    size_t count = (size_t)rows * width;
    size_t bytes = storage_bytes(type, count);
    if (ranks_failed(r, NULL))
        return;
    if (r->reached) {
        r->stream = s;
        r->dev->ops->peers->sum(s, &(struct op_peer_sum){.peers = r->peers,
                                                         .x = x,
                                                         .count = count,
                                                         .f32 = type != r->dev->activation_type});
        return;
    }
    if (r->nccl) {
        comm_nccl_sum(r->nccl, s, x, rows, width, type);
        return;
    }
    void *host = fetch(r, s, x, bytes);
    if (comm_sum(r->comm, host, count, type) == 0)
        store(r, s, x, host, bytes);
}

/* All ranks of the stage reach each other, or none. */
static bool on_norm(void *ctx, struct stream *s, const struct op_rmsnorm *norm, bool pushed) {
    struct ranks *r = ctx;
    if (ranks_failed(r, NULL) || !r->reached || !r->dev->ops->peers->norms(r->peers, norm))
        return false;
    r->stream = s;
    r->dev->ops->peers->norm(
        s, &(struct op_peer_norm){.peers = r->peers, .norm = norm, .pushed = pushed});
    return true;
}

static struct peers *on_pushes(void *ctx, const struct op_rmsnorm *norm, const struct matrix *w) {
    const struct ranks *r = ctx;
    const bool can =
        !ranks_failed(r, NULL) && r->reached && r->dev->ops->peers->pushes(r->peers, norm, w);
    return can ? r->peers : NULL;
}

static struct peers *on_adds(void *ctx, struct stream *s, const struct matrix *w, uint32_t rows) {
    struct ranks *r = ctx;
    if (ranks_failed(r, NULL) || !r->reached || rows > r->rows_that_add ||
        !r->dev->ops->peers->adds(r->peers, w, rows))
        return NULL;
    r->stream = s;
    return r->peers;
}

static void gather_by_peers(struct ranks *r, struct stream *s, float *all, size_t stride,
                            const float *own_columns, uint32_t rows,
                            const struct shard_range *ranges) {
    struct op_peer_gather g = {
        .peers = r->peers, .all = all, .own = own_columns, .stride = stride, .rows = rows};
    for (uint32_t i = 0; i < r->place.tp; i++) {
        g.firsts[i] = ranges[i].first;
        g.counts[i] = ranges[i].count;
    }
    r->stream = s;
    r->dev->ops->peers->gather(s, &g);
}

static void on_gather(void *ctx, struct stream *s, float *all, size_t stride,
                      const float *own_columns, uint32_t rows) {
    struct ranks *r = ctx;
    struct shard_range ranges[COMM_RANKS_MAX];
    size_t bytes[COMM_RANKS_MAX];
    void *out[COMM_RANKS_MAX];
    if (ranks_failed(r, NULL))
        return;
    for (uint32_t i = 0; i < r->place.tp; i++) {
        struct shard at = {.rank = i, .tp = r->place.tp};
        ranges[i] = shard_vocab(&at, r->vocab);
        bytes[i] = ranges[i].count * sizeof(float);
    }
    if (r->reached) {
        gather_by_peers(r, s, all, stride, own_columns, rows, ranges);
        return;
    }
    if (r->nccl) {
        comm_nccl_gather(r->nccl, s, all, stride, own_columns, rows, ranges);
        return;
    }
    size_t own = ranges[r->place.rank].count;
    const float *mine = fetch(r, s, own_columns, rows * own * sizeof(float));
    float *to = r->staged ? (float *)(void *)r->host + (size_t)HEAD_ROWS * r->vocab : all;
    for (uint32_t row = 0; row < rows; row++) {
        for (uint32_t i = 0; i < r->place.tp; i++)
            out[i] = to + row * stride + ranges[i].first;
        if (comm_gather(r->comm, mine + row * own, out, bytes))
            return;
    }
    if (r->place.rank == 0)
        store(r, s, all, to, rows * stride * sizeof(float));
}

static void on_send(void *ctx, struct stream *s, const float *x, size_t count) {
    struct ranks *r = ctx;
    if (ranks_failed(r, NULL))
        return;
    if (r->nccl) {
        comm_nccl_send(r->nccl, s, x, count);
        return;
    }
    const void *host = fetch(r, s, x, count * sizeof *x);
    if (comm_send(r->comm, host, count * sizeof *x))
        log_debug("the next stage is gone");
}

static void on_receive(void *ctx, struct stream *s, float *x, size_t count) {
    struct ranks *r = ctx;
    void *host = r->staged ? (void *)r->host : x;
    if (ranks_failed(r, NULL))
        return;
    if (r->nccl) {
        comm_nccl_receive(r->nccl, s, x, count);
        return;
    }
    if (comm_receive(r->comm, host, count * sizeof *x) == 0)
        store(r, s, x, host, count * sizeof *x);
}

const struct rank_calls ranks_calls = {.sum = on_sum,
                                       .norm = on_norm,
                                       .pushes = on_pushes,
                                       .adds = on_adds,
                                       .gather = on_gather,
                                       .send = on_send,
                                       .receive = on_receive};
