#include "fakes/fake_gateway.h"

#include "base/clock.h"
#include "base/hash.h"
#include "fakes/fake_lm.h"
#include "fakes/fake_worker.h"

static void send_message(struct fake_gateway *g, enum wire_kind kind) {
    (void)!link_client_send(g->link, kind, buf_bytes(&g->out));
}

#define SEND(g, kind, name, message)                                                               \
    do {                                                                                           \
        buf_reset(&(g)->out);                                                                      \
        message_pack_##name(message, &(g)->out);                                                   \
        send_message(g, kind);                                                                     \
    } while (0)

static struct fake_stream *find(struct fake_gateway *g, struct u128 request) {
    for (size_t i = 0; i < g->stream_count; i++)
        if (u128_equal(g->streams[i].request, request))
            return &g->streams[i];
    return NULL;
}

/* ---- Submitting ---- */

static void submit(struct fake_gateway *g, const struct fake_stream *s) {
    struct wire_choice choice = {
        .emitted = {s->tokens + s->prompt_count, s->count - s->prompt_count}};
    struct wire_submit m = {.request = s->request,
                            .attempt = s->attempt,
                            .kind = WIRE_GENERATE,
                            .model = bytes_str("fake"),
                            .prompt = {s->tokens, s->prompt_count},
                            .sampling = {.top_p = 1, .repetition_penalty = 1, .logprobs = -1},
                            .max_tokens = s->max_tokens,
                            .choices = &choice,
                            .choice_count = 1,
                            .resumed = s->attempt > 0,
                            .tenant = {9, 9}};
    SEND(g, WIRE_SUBMIT, submit, &m);
}

size_t fake_gateway_submit(struct fake_gateway *g, uint64_t seed, uint32_t prompt_count,
                           uint32_t max_tokens) {
    if (g->stream_count == g->stream_cap) {
        g->stream_cap = g->stream_cap * 2 + 16;
        g->streams = mem_realloc(g->streams, g->stream_cap * sizeof *g->streams);
    }
    struct fake_stream *s = &g->streams[g->stream_count];
    *s = (struct fake_stream){.request = random_u128(),
                              .prompt_count = prompt_count,
                              .count = prompt_count,
                              .max_tokens = max_tokens,
                              .open = true};
    s->tokens = mem_calloc(prompt_count + max_tokens, 4);
    for (uint32_t i = 0; i < prompt_count; i++)
        s->tokens[i] = (uint32_t)(hash64(&i, 4, seed) % (FAKE_WIDTH - 100)) + 100;
    s->submit_ms = s->last_ms = clock_ms();
    submit(g, s);
    return g->stream_count++;
}

void fake_gateway_cancel(struct fake_gateway *g, size_t idx) {
    struct fake_stream *s = &g->streams[idx];
    struct wire_cancel m = {s->request, s->attempt, WIRE_ALL_CHOICES, false};
    s->cancelled = true;
    s->open = false;
    SEND(g, WIRE_CANCEL, cancel, &m);
}

/* ---- Deltas ---- */

static void take_token(struct fake_gateway *g, struct fake_stream *s, uint32_t token) {
    int64_t now = clock_ms();
    if (s->count == s->prompt_count + s->max_tokens ||
        (!g->any_token && token != fake_next(s->tokens, s->count))) {
        g->wrong++;
        return;
    }
    s->tokens[s->count++] = token;
    if (!s->first_ms)
        s->first_ms = now;
    s->longest_gap_ms = MAX(s->longest_gap_ms, now - s->last_ms);
    s->last_ms = now;
}

static void acknowledge(struct fake_gateway *g, const struct fake_stream *s) {
    uint32_t choice = 0, count = s->count - s->prompt_count + (s->finish != WIRE_FINISH_NONE);
    struct wire_ack m = {{&s->request, 1}, {&s->attempt, 1}, {&choice, 1}, {&count, 1}};
    if (!g->no_ack)
        SEND(g, WIRE_ACK, ack, &m);
}

static void take_run(struct fake_gateway *g, const struct wire_deltas *d, size_t i,
                     const uint32_t *tokens) {
    struct fake_stream *s = find(g, d->requests.items[i]);
    if (!s || d->attempts.items[i] != s->attempt || s->cancelled) {
        g->stale++;
        struct wire_cancel m = {d->requests.items[i], d->attempts.items[i], WIRE_ALL_CHOICES,
                                false};
        if (!s)
            SEND(g, WIRE_CANCEL, cancel, &m);
        return;
    }
    s->accepted = true;
    uint32_t next = s->count - s->prompt_count, index = d->indexes.items[i],
             count = d->token_counts.items[i];
    if (index > next) {
        struct wire_resend m = {s->request, s->attempt, 0, next};
        g->gaps++;
        SEND(g, WIRE_RESEND, resend, &m);
        return;
    }
    for (uint32_t k = next - index; k < count; k++)
        take_token(g, s, tokens[k]);
    if (d->cached_counts.items[i])
        s->cached_count = d->cached_counts.items[i];
    if (d->finishes.items[i] && index + count == s->count - s->prompt_count) {
        s->finish = (enum wire_finish)d->finishes.items[i];
        s->open = false;
    }
    acknowledge(g, s);
}

static void take_deltas(struct fake_gateway *g, const struct wire_deltas *d) {
    size_t at = 0;
    for (size_t i = 0; i < d->requests.count; i++) {
        take_run(g, d, i, d->tokens.count ? d->tokens.ids + at : NULL);
        at += d->token_counts.items[i];
    }
}

static void take_reject(struct fake_gateway *g, const struct wire_reject *r) {
    struct fake_stream *s = find(g, r->request);
    if (!s || s->attempt != r->attempt || !s->open)
        return;
    if (r->code == WIRE_REJECT_UNKNOWN) {
        s->attempt++;
        submit(g, s);
        return;
    }
    s->reject = r->code;
    s->open = false;
}

/* ---- Status, bundle ---- */

static void take_status(struct fake_gateway *g, const struct wire_status *m) {
    g->status.seen = true;
    g->status.draining = m->draining;
    g->status.model_count = (uint32_t)m->model_count;
    g->status.waiting = m->waiting;
    g->status.running = m->running;
    g->status.replicas_ready = m->model_count ? m->models[0].replicas_ready : 0;
    if (!m->model_count)
        return;
    g->status.bundle = m->models[0].bundle;
    g->status.bundle_bytes = m->models[0].bundle_bytes;
}

static void ask_chunk(struct fake_gateway *g) {
    struct wire_bundle_get m = {g->status.bundle, g->bundle.arrived};
    SEND(g, WIRE_BUNDLE_GET, bundle_get, &m);
}

void fake_gateway_fetch_bundle(struct fake_gateway *g) {
    g->bundle.wanted = g->status.bundle_bytes;
    g->bundle.arrived = g->bundle.wrong = 0;
    ask_chunk(g);
}

static void take_chunk(struct fake_gateway *g, const struct wire_bundle_chunk *c) {
    if (c->offset != g->bundle.arrived || c->total != g->bundle.wanted)
        return;
    for (size_t i = 0; i < c->data.len; i++)
        g->bundle.wrong += c->data.data[i] != fake_bundle_byte((size_t)c->offset + i);
    g->bundle.arrived += c->data.len;
    if (g->bundle.arrived < g->bundle.wanted)
        ask_chunk(g);
}

/* ---- The link's calls ---- */

static void on_frame(void *ctx, enum wire_kind kind, struct bytes payload) {
    struct fake_gateway *g = ctx;
    union {
        struct wire_deltas deltas;
        struct wire_reject reject;
        struct wire_status status;
        struct wire_bundle_chunk chunk;
        struct wire_outcome outcome;
    } m;
    arena_reset(&g->arena);
    if (kind == WIRE_DELTAS && message_unpack_deltas(payload, &g->arena, &m.deltas, NULL) == 0)
        take_deltas(g, &m.deltas);
    else if (kind == WIRE_REJECT && message_unpack_reject(payload, &g->arena, &m.reject, NULL) == 0)
        take_reject(g, &m.reject);
    else if (kind == WIRE_STATUS && message_unpack_status(payload, &g->arena, &m.status, NULL) == 0)
        take_status(g, &m.status);
    else if (kind == WIRE_BUNDLE_CHUNK &&
             message_unpack_bundle_chunk(payload, &g->arena, &m.chunk, NULL) == 0)
        take_chunk(g, &m.chunk);
    else if (kind != WIRE_OUTCOME ||
             message_unpack_outcome(payload, &g->arena, &m.outcome, NULL) != 0)
        g->wrong++;
}

static void on_hello(void *ctx, struct wire_hello *hello) {
    hello->name = bytes_str("fake-gateway");
}

static void on_registered(void *ctx, struct epoch epoch, const struct wire_welcome *welcome) {
    struct fake_gateway *g = ctx;
    g->registered++;
    for (size_t i = 0; i < g->stream_count; i++) {
        struct fake_stream *s = &g->streams[i];
        if (!s->open)
            continue;
        if (g->registered > 1)
            s->attempt++;
        submit(g, s);
    }
}

static void on_lost(void *ctx, enum link_lost why) {
    ((struct fake_gateway *)ctx)->lost++;
}

int fake_gateway_new(struct fake_gateway **out, const char *endpoint, struct error *err) {
    return fake_gateway_new_on_tcp(out, endpoint, NULL, NULL, err);
}

int fake_gateway_new_on_tcp(struct fake_gateway **out, const char *endpoint, const char *key_file,
                            const char *allow_keys, struct error *err) {
    static const struct link_client_calls CALLS = {
        .hello = on_hello, .registered = on_registered, .lost = on_lost, .frame = on_frame};
    struct fake_gateway *g = mem_alloc(sizeof *g);
    struct link_client_config config = {.endpoint = endpoint,
                                        .role = WIRE_ROLE_GATEWAY,
                                        .key_file = key_file,
                                        .allow_keys = allow_keys};
    int rc = link_client_new(&g->link, &config, &CALLS, g, err);
    *out = g;
    if (rc)
        fake_gateway_free(out);
    return rc;
}

void fake_gateway_free(struct fake_gateway **gateway) {
    struct fake_gateway *g = *gateway;
    if (!g)
        return;
    link_client_free(&g->link);
    for (size_t i = 0; i < g->stream_count; i++)
        mem_free(g->streams[i].tokens);
    mem_free(g->streams);
    arena_release(&g->arena);
    buf_release(&g->out);
    mem_free(g);
    *gateway = NULL;
}

void fake_gateway_run(struct fake_gateway *g, int64_t ms) {
    int64_t end = clock_ms() + ms;
    do
        link_client_wait(g->link, NULL, NULL, 0, MAX(end - clock_ms(), (int64_t)0));
    while (clock_ms() < end);
}

size_t fake_gateway_open_count(const struct fake_gateway *g) {
    size_t count = 0;
    for (size_t i = 0; i < g->stream_count; i++)
        count += g->streams[i].open;
    return count;
}

uint64_t fake_gateway_token_count(const struct fake_gateway *g) {
    uint64_t sum = 0;
    for (size_t i = 0; i < g->stream_count; i++)
        sum += g->streams[i].count - g->streams[i].prompt_count;
    return sum;
}
