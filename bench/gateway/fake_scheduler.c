#include "fake_scheduler.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/vec.h"
#include "proto/link.h"
#include "text/bundle.h"

enum { BUCKETS = 1 << 14, PEERS_MAX = 8, RESEND_TOKENS_MAX = 4096 };

struct sequence {
    struct sequence *chain; /* of its bucket */
    struct u128 request, peer;
    uint32_t attempt, choice;
    uint64_t hash;                /* of prompt, seed and choice */
    uint32_t next, acked, length; /* tokens sent, acknowledged, and in all */
    uint32_t *echo;               /* owned; the tokens to make; NULL: arithmetic */
    uint32_t stop_id;             /* sent last when the end is a stop token */
    uint32_t prompt_count;
    int32_t logprobs;
    bool stops, paused, done, finish_told, fresh;
};

struct fake_scheduler {
    struct fake_config config;
    struct link_server *link;
    pthread_t thread;
    struct buf bundle;
    struct u128 bundle_hash;
    struct arena arena;
    struct sequence *buckets[BUCKETS];
    VEC(struct sequence *) sequences;
    struct u128 peers[PEERS_MAX];
    size_t peer_count;
    VEC(struct u128) requests, fingerprints;
    VEC(uint32_t)
    attempts, choices, indexes, counts, finishes, cached, flags, tokens, tops, logprob_ids;
    VEC(float) logprob_values;
    struct buf out;
    uint64_t random;
    int64_t status_ms;
    _Atomic bool stop, stepping, ready, status_due;
    _Atomic uint32_t sequence_count, paused_count;
    _Atomic uint64_t submits, resumed, emitted, unknown, cancels, resends, acks, token_count, steps;
    _Atomic uint64_t choice_cancels;
};

void fake_config_init(struct fake_config *c) {
    *c = (struct fake_config){.model_name = "fake",
                              .run_tokens = 1,
                              .window = 64,
                              .token_low = 100,
                              .token_high = 2500,
                              .max_context = 1 << 20,
                              .logits_width = 1 << 20};
}

/* ---- tokens ---- */

static uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t sequence_hash(const uint32_t *prompt, size_t count, uint64_t seed,
                              uint32_t choice) {
    return hash64(prompt, count * sizeof *prompt, mix(seed + choice));
}

static uint32_t token_of(const struct fake_config *c, uint64_t hash, uint32_t index) {
    return c->token_low + (uint32_t)(mix(hash + index) % (c->token_high - c->token_low));
}

uint32_t fake_token(const struct fake_config *c, const uint32_t *prompt, size_t prompt_count,
                    uint64_t seed, uint32_t choice, uint32_t index) {
    return token_of(c, sequence_hash(prompt, prompt_count, seed, choice), index);
}

static uint32_t sequence_token(const struct fake_config *c, const struct sequence *s,
                               uint32_t index) {
    return s->echo && index < s->prompt_count ? s->echo[index] : token_of(c, s->hash, index);
}

/* ---- sequences ---- */

static struct sequence **bucket_of(struct fake_scheduler *f, struct u128 request) {
    return &f->buckets[mix(request.lo ^ request.hi) % BUCKETS];
}

static struct sequence *find_sequence(struct fake_scheduler *f, struct u128 request,
                                      uint32_t choice) {
    struct sequence *s = *bucket_of(f, request);
    while (s && !(u128_equal(s->request, request) && s->choice == choice))
        s = s->chain;
    return s;
}

static bool knows(struct fake_scheduler *f, struct u128 request, uint32_t attempt) {
    for (struct sequence *s = *bucket_of(f, request); s; s = s->chain)
        if (u128_equal(s->request, request) && s->attempt == attempt)
            return true;
    return false;
}

/* Removes a request's sequences: one choice, or all. */
static void remove_sequences(struct fake_scheduler *f, struct u128 request, uint32_t choice) {
    for (struct sequence **at = bucket_of(f, request); *at;) {
        struct sequence *s = *at;
        if (!u128_equal(s->request, request) ||
            (choice != WIRE_ALL_CHOICES && s->choice != choice)) {
            at = &s->chain;
            continue;
        }
        *at = s->chain;
        for (size_t i = 0; i < f->sequences.count; i++) {
            if (f->sequences.items[i] != s)
                continue;
            f->sequences.items[i] = f->sequences.items[--f->sequences.count];
            break;
        }
        mem_free(s->echo);
        mem_free(s);
    }
    atomic_store(&f->sequence_count, (uint32_t)f->sequences.count);
}

static void add_sequence(struct fake_scheduler *f, struct u128 peer, const struct wire_submit *m,
                         const struct wire_choice *c) {
    struct sequence *s = mem_alloc(sizeof *s);
    s->request = m->request;
    s->peer = peer;
    s->attempt = m->attempt;
    s->choice = c->choice;
    s->hash = sequence_hash(m->prompt.ids, m->prompt.count, m->sampling.seed, c->choice);
    s->prompt_count = (uint32_t)m->prompt.count;
    if (f->config.echo) {
        s->echo = mem_calloc(m->prompt.count, sizeof *s->echo);
        memcpy(s->echo, m->prompt.ids, m->prompt.count * sizeof *s->echo);
    }
    s->next = s->acked = (uint32_t)c->emitted.count;
    for (size_t i = 0; i < c->emitted.count; i++)
        CHECK_MSG(f->config.takes_any ||
                      c->emitted.ids[i] == sequence_token(&f->config, s, (uint32_t)i),
                  "the gateway holds other tokens");
    atomic_fetch_add(&f->emitted, c->emitted.count);
    s->length = m->max_tokens;
    s->logprobs = f->config.with_logprobs ? m->sampling.logprobs : -1;
    s->fresh = true;
    uint32_t stop_after = s->echo ? s->prompt_count + 1 : (uint32_t)(mix(s->hash ^ 77) % 400) + 1;
    if (m->stop_tokens.count && stop_after < s->length) {
        s->stops = true;
        s->length = stop_after;
        s->stop_id = m->stop_tokens.items[0];
    }
    struct sequence **bucket = bucket_of(f, m->request);
    s->chain = *bucket;
    *bucket = s;
    vec_push(&f->sequences, s);
    atomic_store(&f->sequence_count, (uint32_t)f->sequences.count);
}

/* ---- messages in ---- */

static void send_payload(struct fake_scheduler *f, struct u128 peer, enum wire_kind kind) {
    int rc = link_server_send(f->link, peer, kind, buf_bytes(&f->out));
    if (rc)
        LOG_LIMITED(LOG_WARN, "send failed rc=%d kind=%d", rc, (int)kind);
}

static void reject(struct fake_scheduler *f, struct u128 peer, struct u128 request,
                   uint32_t attempt, enum wire_reject_code code) {
    struct wire_reject m = {.request = request,
                            .attempt = attempt,
                            .code = code,
                            .retry_after_ms = code == WIRE_REJECT_OVERLOADED ? 2000 : 0};
    buf_reset(&f->out);
    message_pack_reject(&m, &f->out);
    send_payload(f, peer, WIRE_REJECT);
}

static void on_submit(struct fake_scheduler *f, struct u128 peer, const struct wire_submit *m) {
    atomic_fetch_add(&f->submits, 1);
    if (m->resumed)
        atomic_fetch_add(&f->resumed, 1);
    if (knows(f, m->request, m->attempt))
        return;
    if (f->config.waiting_max && !m->resumed && f->sequences.count >= f->config.waiting_max) {
        reject(f, peer, m->request, m->attempt, WIRE_REJECT_OVERLOADED);
        return;
    }
    remove_sequences(f, m->request, WIRE_ALL_CHOICES);
    for (size_t i = 0; i < m->choice_count; i++)
        if (!m->choices[i].finished)
            add_sequence(f, peer, m, &m->choices[i]);
}

static void on_ack(struct fake_scheduler *f, struct u128 peer, const struct wire_ack *m) {
    atomic_fetch_add(&f->acks, 1);
    for (size_t i = 0; i < m->requests.count; i++) {
        struct sequence *s = find_sequence(f, m->requests.items[i], m->choices.items[i]);
        if (!s || s->attempt != m->attempts.items[i])
            continue;
        s->acked = MAX(s->acked, m->counts.items[i]);
        if (s->done && s->acked >= s->length)
            remove_sequences(f, s->request, s->choice);
    }
}

static void on_resend(struct fake_scheduler *f, struct u128 peer, const struct wire_resend *m) {
    struct sequence *s = find_sequence(f, m->request, m->choice);
    atomic_fetch_add(&f->resends, 1);
    if (!s || s->attempt != m->attempt) {
        atomic_fetch_add(&f->unknown, 1);
        reject(f, peer, m->request, m->attempt, WIRE_REJECT_UNKNOWN);
        return;
    }
    if (m->index < s->next || s->done) {
        s->next = MIN(m->index, s->next);
        s->done = s->finish_told = false;
    }
}

static void on_pause(struct fake_scheduler *f, const struct wire_pause *m) {
    for (struct sequence *s = *bucket_of(f, m->request); s; s = s->chain) {
        if (!u128_equal(s->request, m->request) || s->paused == m->paused)
            continue;
        s->paused = m->paused;
        atomic_fetch_add(&f->paused_count, m->paused ? 1u : -1u);
    }
}

static void on_bundle_get(struct fake_scheduler *f, struct u128 peer,
                          const struct wire_bundle_get *m) {
    if (!u128_equal(m->bundle, f->bundle_hash) || m->offset >= f->bundle.len)
        return;
    size_t len = MIN(f->bundle.len - m->offset, WIRE_BUNDLE_CHUNK_BYTES);
    struct wire_bundle_chunk chunk = {m->bundle, m->offset, f->bundle.len,
                                      bytes_of(f->bundle.data + m->offset, len)};
    buf_reset(&f->out);
    message_pack_bundle_chunk(&chunk, &f->out);
    send_payload(f, peer, WIRE_BUNDLE_CHUNK);
}

static void send_status(struct fake_scheduler *f, struct u128 peer) {
    struct wire_model_status model = {.model = bytes_str(f->config.model_name),
                                      .revision = {5, 5},
                                      .bundle = f->bundle_hash,
                                      .bundle_bytes = f->bundle.len,
                                      .max_context = f->config.max_context,
                                      .logits_width = f->config.logits_width,
                                      .replicas_ready = atomic_load(&f->ready) ? 1 : 0,
                                      .replicas_known = 1,
                                      .running = f->config.load.running,
                                      .waiting = f->config.load.waiting,
                                      .slots = f->config.load.slots,
                                      .blocks = f->config.load.blocks,
                                      .blocks_used = f->config.load.blocks_used,
                                      .block_tokens = f->config.load.block_tokens};
    struct wire_status status = {.models = &model,
                                 .model_count = f->config.silent_about_models ? 0 : 1,
                                 .running = (uint32_t)f->sequences.count,
                                 .waiting_max = f->config.waiting_max};
    buf_reset(&f->out);
    message_pack_status(&status, &f->out);
    send_payload(f, peer, WIRE_STATUS);
}

static bool on_hello(void *ctx, struct u128 peer, const struct wire_hello *hello,
                     struct wire_welcome *welcome) {
    struct fake_scheduler *f = ctx;
    (void)hello;
    welcome->features = WIRE_FEATURE_BASE;
    for (size_t i = 0; i < f->peer_count; i++)
        if (u128_equal(f->peers[i], peer))
            return true;
    if (f->peer_count == PEERS_MAX)
        return false;
    f->peers[f->peer_count++] = peer;
    atomic_store(&f->status_due, true);
    return true;
}

static void on_gone(void *ctx, struct u128 peer, enum wire_role role) {
    struct fake_scheduler *f = ctx;
    (void)role;
    for (size_t i = 0; i < f->peer_count; i++)
        if (u128_equal(f->peers[i], peer))
            f->peers[i] = f->peers[--f->peer_count];
    for (size_t i = 0; i < f->sequences.count;) {
        if (u128_equal(f->sequences.items[i]->peer, peer))
            remove_sequences(f, f->sequences.items[i]->request, WIRE_ALL_CHOICES);
        else
            i++;
    }
}

static void on_frame(void *ctx, struct u128 peer, enum wire_role role, enum wire_kind kind,
                     struct bytes payload) {
    struct fake_scheduler *f = ctx;
    union {
        struct wire_submit submit;
        struct wire_ack ack;
        struct wire_cancel cancel;
        struct wire_pause pause;
        struct wire_resend resend;
        struct wire_attach attach;
        struct wire_bundle_get bundle_get;
    } m;
    struct error err;
    (void)role;
    if (kind == WIRE_HEARTBEAT || message_size(kind) > sizeof m)
        return;
    arena_reset(&f->arena);
    int rc = message_unpack(kind, payload, &f->arena, &m, &err);
    CHECK_MSG(rc == 0, "the gateway sent a malformed message: %s", err.text);
    switch (kind) {
    case WIRE_SUBMIT: on_submit(f, peer, &m.submit); break;
    case WIRE_ACK: on_ack(f, peer, &m.ack); break;
    case WIRE_RESEND: on_resend(f, peer, &m.resend); break;
    case WIRE_PAUSE: on_pause(f, &m.pause); break;
    case WIRE_ATTACH: /* it keeps no stream */
        reject(f, peer, m.attach.new_request, 0, WIRE_REJECT_UNKNOWN);
        break;
    case WIRE_BUNDLE_GET: on_bundle_get(f, peer, &m.bundle_get); break;
    case WIRE_CANCEL:
        atomic_fetch_add(&f->cancels, 1);
        atomic_fetch_add(&f->choice_cancels, m.cancel.choice != WIRE_ALL_CHOICES);
        remove_sequences(f, m.cancel.request, m.cancel.choice);
        break;
    default: break;
    }
}

static enum link_verdict judge(void *ctx, struct epoch *mine, const struct frame *frame,
                               const struct wire_hello *hello, bool served) {
    (void)ctx;
    if (hello)
        return LINK_TAKE;
    return epoch_compare(frame->epoch, *mine) == 0 ? LINK_TAKE : LINK_STALE;
}

/* ---- steps ---- */

static void add_logprobs(struct fake_scheduler *f, const struct sequence *s, uint32_t token) {
    if (!f->config.with_logprobs)
        return;
    vec_push(&f->tops, s->logprobs < 0 ? WIRE_NO_LOGPROBS : (uint32_t)s->logprobs);
    for (int32_t i = -1; i < s->logprobs; i++) {
        vec_push(&f->logprob_ids, token + (uint32_t)MAX(i, 0));
        vec_push(&f->logprob_values, -0.5f * (float)(MAX(i, 0) + 1));
    }
}

/* Adds what a sequence makes in this step. */
static void add_run(struct fake_scheduler *f, struct sequence *s) {
    bool full = f->config.window && s->next - s->acked >= f->config.window;
    bool may = !s->done && !s->paused && !full;
    uint32_t makes = may ? MIN(s->length - MIN(s->next, s->length), f->config.run_tokens) : 0;
    if (!makes && !s->fresh)
        return;
    vec_push(&f->requests, s->request);
    vec_push(&f->fingerprints, ((struct u128){.hi = 7, .lo = 0xf1}));
    vec_push(&f->attempts, s->attempt);
    vec_push(&f->choices, s->choice);
    vec_push(&f->indexes, s->next);
    vec_push(&f->counts, makes);
    vec_push(&f->cached, s->prompt_count / 16 * 16);
    vec_push(&f->flags, s->fresh ? WIRE_DELTA_ACCEPTED : 0u);
    s->fresh = false;
    uint32_t finish = WIRE_FINISH_NONE;
    for (uint32_t i = 0; i < makes; i++) {
        bool last = s->next + 1 == s->length;
        uint32_t token = last && s->stops ? s->stop_id : sequence_token(&f->config, s, s->next);
        vec_push(&f->tokens, token);
        add_logprobs(f, s, token);
        s->next++;
        s->done = last;
        if (last)
            finish = s->stops ? WIRE_FINISH_STOP : WIRE_FINISH_LENGTH;
    }
    vec_push(&f->finishes, finish);
}

static void reset_columns(struct fake_scheduler *f) {
    f->requests.count = f->fingerprints.count = f->attempts.count = f->choices.count =
        f->indexes.count = f->counts.count = f->finishes.count = 0;
    f->cached.count = f->flags.count = f->tokens.count = f->tops.count = f->logprob_ids.count =
        f->logprob_values.count = 0;
}

static bool chance(struct fake_scheduler *f, uint32_t percent) {
    return percent && mix(f->random++) % 100 < percent;
}

static void step_peer(struct fake_scheduler *f, struct u128 peer) {
    reset_columns(f);
    for (size_t i = 0; i < f->sequences.count; i++)
        if (u128_equal(f->sequences.items[i]->peer, peer))
            add_run(f, f->sequences.items[i]);
    size_t n = f->requests.count;
    if (n == 0)
        return;
    struct wire_deltas d = {.requests = {f->requests.items, n},
                            .attempts = {f->attempts.items, n},
                            .choices = {f->choices.items, n},
                            .indexes = {f->indexes.items, n},
                            .token_counts = {f->counts.items, n},
                            .finishes = {f->finishes.items, n},
                            .cached_counts = {f->cached.items, n},
                            .flags = {f->flags.items, n},
                            .tokens = {f->tokens.items, f->tokens.count},
                            .fingerprints = {f->fingerprints.items, n},
                            .logprobs = {{f->tops.items, f->tops.count},
                                         {f->logprob_ids.items, f->logprob_ids.count},
                                         {f->logprob_values.items, f->logprob_values.count}}};
    buf_reset(&f->out);
    message_pack_deltas(&d, &f->out);
    atomic_fetch_add(&f->token_count, f->tokens.count);
    if (!chance(f, f->config.drop_percent))
        send_payload(f, peer, WIRE_DELTAS);
    if (chance(f, f->config.repeat_percent))
        send_payload(f, peer, WIRE_DELTAS);
}

static void statuses(struct fake_scheduler *f) {
    int64_t now_ms = clock_ms();
    if (!atomic_exchange(&f->status_due, false) && now_ms - f->status_ms < 1000)
        return;
    f->status_ms = now_ms;
    for (size_t i = 0; i < f->peer_count; i++)
        send_status(f, f->peers[i]);
}

static void *run(void *ctx) {
    struct fake_scheduler *f = ctx;
    int64_t next_us = clock_us();
    /* something in the last step: with windows full, wait for acknowledgements */
    bool made = false;
    while (!atomic_load(&f->stop)) {
        int64_t wait_us = next_us - clock_us();
        bool idle = f->sequences.count == 0 || !atomic_load(&f->stepping);
        link_server_wait(f->link, NULL, NULL, 0,
                         idle          ? 20
                         : wait_us > 0 ? (wait_us + 999) / 1000
                                       : !made);
        statuses(f);
        if (idle || clock_us() < next_us)
            continue;
        uint64_t before = atomic_load(&f->token_count);
        next_us = MAX(next_us + f->config.step_us, clock_us() - f->config.step_us);
        atomic_fetch_add(&f->steps, 1);
        for (size_t i = 0; i < f->peer_count; i++)
            step_peer(f, f->peers[i]);
        made = atomic_load(&f->token_count) != before;
    }
    return NULL;
}

static const struct link_server_calls calls = {
    .check_epoch = judge, .hello = on_hello, .frame = on_frame, .gone = on_gone};

struct fake_scheduler *fake_start(const struct fake_config *config, struct error *err) {
    struct fake_scheduler *f = mem_alloc(sizeof *f);
    struct link_server_config link = {.endpoints = &config->endpoint,
                                      .endpoint_count = 1,
                                      .epoch = {(uint64_t)clock_us(), random_u128()}};
    f->config = *config;
    arena_init(&f->arena, 0, 0);
    buf_init(&f->bundle, 0);
    buf_init(&f->out, 0);
    atomic_store(&f->ready, !config->no_replicas);
    atomic_store(&f->stepping, !config->hangs);
    int rc = bundle_pack(config->model_dir, &f->bundle, err);
    f->bundle_hash = bundle_hash(buf_bytes(&f->bundle));
    if (rc == 0)
        rc = link_server_new(&f->link, &link, &calls, f, err);
    if (rc) {
        buf_release(&f->bundle);
        mem_free(f);
        return NULL;
    }
    rc = pthread_create(&f->thread, NULL, run, f);
    CHECK_MSG(rc == 0, "cannot start a thread");
    return f;
}

void fake_kill(struct fake_scheduler **fake) {
    struct fake_scheduler *f = *fake;
    if (!f)
        return;
    atomic_store(&f->stop, true);
    pthread_join(f->thread, NULL);
    link_server_free(&f->link);
    while (f->sequences.count)
        remove_sequences(f, f->sequences.items[0]->request, WIRE_ALL_CHOICES);
    vec_release(&f->sequences);
    vec_release(&f->requests);
    vec_release(&f->fingerprints);
    vec_release(&f->attempts);
    vec_release(&f->choices);
    vec_release(&f->indexes);
    vec_release(&f->counts);
    vec_release(&f->finishes);
    vec_release(&f->cached);
    vec_release(&f->flags);
    vec_release(&f->tokens);
    vec_release(&f->tops);
    vec_release(&f->logprob_ids);
    vec_release(&f->logprob_values);
    buf_release(&f->out);
    buf_release(&f->bundle);
    arena_release(&f->arena);
    mem_free(f);
    *fake = NULL;
}

struct fake_counts fake_counts(const struct fake_scheduler *f) {
    return (struct fake_counts){.sequences = atomic_load(&f->sequence_count),
                                .paused = atomic_load(&f->paused_count),
                                .submits = atomic_load(&f->submits),
                                .resumed = atomic_load(&f->resumed),
                                .emitted = atomic_load(&f->emitted),
                                .unknown = atomic_load(&f->unknown),
                                .cancels = atomic_load(&f->cancels),
                                .choice_cancels = atomic_load(&f->choice_cancels),
                                .resends = atomic_load(&f->resends),
                                .acks = atomic_load(&f->acks),
                                .tokens = atomic_load(&f->token_count),
                                .steps = atomic_load(&f->steps)};
}

void fake_set_stepping(struct fake_scheduler *f, bool stepping) {
    atomic_store(&f->stepping, stepping);
}

void fake_set_ready(struct fake_scheduler *f, bool ready) {
    atomic_store(&f->ready, ready);
    atomic_store(&f->status_due, true);
}
