#include "fakes/fake_worker.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/vec.h"
#include "fakes/fake_lm.h"
#include "proto/link.h"

struct slot {
    bool used, ended;
    VEC(uint32_t) tokens, stop_tokens;
    uint32_t computed, max_total, block_count;
};

struct pending {
    int64_t due_ms;
    struct buf payload;
};

struct fake_worker {
    struct fake_worker_config config;
    struct link_client *link;
    struct slot *slots;
    struct u128 *sealed; /* by block; zero: nothing known in it */
    uint32_t *held_blocks;
    struct u128 *held_hashes;
    struct arena arena;
    struct buf out;
    VEC(struct pending) pending; /* results on their way, in order */
    VEC(uint32_t) row_slots, row_counts, row_finishes, row_tokens;
    uint64_t next_plan, faults, rows, progress;
    int64_t busy_until_ms, loaded_ms;
    bool loaded, registered_once;
    struct u128 replica, bundle;
};

uint8_t fake_bundle_byte(size_t at) {
    return (uint8_t)(at * 31 + at / 977);
}

struct u128 fake_bundle_hash(size_t len) {
    uint8_t *bytes = mem_alloc(len + 1);
    for (size_t i = 0; i < len; i++)
        bytes[i] = fake_bundle_byte(i);
    struct u128 hash = hash128(bytes, len, 0);
    mem_free(bytes);
    return hash;
}

static void send_message(struct fake_worker *w, enum wire_kind kind) {
    (void)!link_client_send(w->link, kind, buf_bytes(&w->out));
}

/* ---- Registration ---- */

static void forget_everything(struct fake_worker *w) {
    for (uint32_t i = 0; i < w->config.slots; i++)
        w->slots[i].used = false;
    for (size_t i = 0; i < w->pending.count; i++)
        buf_release(&w->pending.items[i].payload);
    w->pending.count = 0;
    w->next_plan = 1;
}

static void on_hello(void *ctx, struct wire_hello *h) {
    struct fake_worker *w = ctx;
    static struct wire_kv_group group;
    size_t held = 0;
    forget_everything(w);
    group = (struct wire_kv_group){.kind = WIRE_GROUP_FULL,
                                   .block_tokens = w->config.block_tokens,
                                   .block_count = w->config.blocks,
                                   .block_bytes = 4096};
    for (uint32_t i = 0; i < w->config.blocks; i++) {
        if (u128_is_zero(w->sealed[i]))
            continue;
        w->held_blocks[held] = i;
        w->held_hashes[held++] = w->sealed[i];
    }
    h->name = bytes_str("fake-worker");
    h->replica = w->replica;
    h->tp = h->pp = 1;
    h->state = w->loaded ? WIRE_STATE_IDLE : WIRE_STATE_LOADING;
    h->model = bytes_str("fake");
    h->revision = (struct u128){1, 1};
    h->bundle = w->bundle;
    h->bundle_bytes = w->config.bundle_bytes;
    h->fingerprint = (struct u128){2, 2};
    h->slot_count = w->config.slots;
    h->max_step_tokens = w->config.max_step_tokens;
    h->max_context = w->config.max_context;
    h->logits_width = FAKE_WIDTH;
    h->steps_in_flight = w->config.steps_in_flight;
    h->groups = &group;
    h->group_count = 1;
    h->held_blocks = (struct u32s){w->held_blocks, held};
    h->held_hashes = (struct u128s){w->held_hashes, held};
}

static void on_lost(void *ctx, enum link_lost why) {
    forget_everything(ctx);
}

static void on_heartbeat(void *ctx, struct wire_heartbeat *h) {
    struct fake_worker *w = ctx;
    h->state = !w->loaded         ? WIRE_STATE_LOADING
               : w->pending.count ? WIRE_STATE_STEPPING
                                  : WIRE_STATE_IDLE;
    h->progress = w->progress;
}

static bool fault(struct fake_worker *w, const char *what) {
    w->faults++;
    fprintf(stderr, "# fake worker: %s\n", what);
    link_client_renew(w->link);
    return false;
}

/* ---- Plans ---- */

static bool admit(struct fake_worker *w, const struct wire_admit *a) {
    if (a->slot >= w->config.slots || w->slots[a->slot].used)
        return fault(w, "admission to a slot that is not free");
    struct slot *s = &w->slots[a->slot];
    if (w->config.abort_token && a->tokens.ids[0] == w->config.abort_token)
        abort();
    s->used = true;
    s->ended = false;
    s->tokens.count = s->stop_tokens.count = 0;
    for (size_t i = 0; i < a->tokens.count; i++)
        vec_push(&s->tokens, a->tokens.ids[i]);
    for (size_t i = 0; i < a->stop_tokens.count; i++)
        vec_push(&s->stop_tokens, a->stop_tokens.items[i]);
    s->computed = a->computed_count;
    s->max_total = a->max_total;
    s->block_count = (uint32_t)a->block_ids.count;
    return true;
}

static enum wire_finish finish_of(const struct slot *s, uint32_t token) {
    for (size_t i = 0; i < s->stop_tokens.count; i++)
        if (s->stop_tokens.items[i] == token)
            return WIRE_FINISH_STOP;
    return s->tokens.count >= s->max_total ? WIRE_FINISH_LENGTH : WIRE_FINISH_NONE;
}

static bool compute_row(struct fake_worker *w, uint32_t slot_idx, uint32_t token_count) {
    if (slot_idx >= w->config.slots || !w->slots[slot_idx].used)
        return fault(w, "a row of an unknown slot");
    struct slot *s = &w->slots[slot_idx];
    uint32_t finish = WIRE_FINISH_NONE, count = 0;
    if (!s->ended) {
        s->computed = MIN(s->computed + token_count, (uint32_t)s->tokens.count);
        w->rows += token_count;
        if (s->computed > s->block_count * w->config.block_tokens)
            return fault(w, "a row goes past its blocks");
        if (s->computed == s->tokens.count) {
            uint32_t token = fake_next(s->tokens.items, s->tokens.count);
            vec_push(&s->tokens, token);
            vec_push(&w->row_tokens, token);
            finish = finish_of(s, token);
            s->ended = finish != WIRE_FINISH_NONE;
            count = 1;
        }
    }
    vec_push(&w->row_slots, slot_idx);
    vec_push(&w->row_counts, count);
    vec_push(&w->row_finishes, finish);
    return true;
}

static bool prepare_slots(struct fake_worker *w, const struct wire_plan *p) {
    for (size_t i = 0; i < p->release_slots.count; i++) {
        if (p->release_slots.items[i] >= w->config.slots)
            return fault(w, "release of an unknown slot");
        w->slots[p->release_slots.items[i]].used = false;
    }
    for (size_t i = 0; i < p->admit_count; i++)
        if (!admit(w, &p->admits[i]))
            return false;
    for (size_t i = 0; i < p->new_block_rows.count; i++) {
        uint32_t slot = p->row_slots.items[p->new_block_rows.items[i]];
        if (p->new_block_ids.items[i] >= w->config.blocks || slot >= w->config.slots)
            return fault(w, "an unknown block");
        w->slots[slot].block_count++;
        w->sealed[p->new_block_ids.items[i]] = (struct u128){0};
    }
    return true;
}

static void queue_result(struct fake_worker *w, const struct wire_plan *p) {
    struct pending pending = {.due_ms = MAX(clock_ms(), w->busy_until_ms) + w->config.step_ms};
    struct wire_step_result r = {.plan_number = p->number,
                                 .incarnation = p->incarnation,
                                 .slots = {w->row_slots.items, w->row_slots.count},
                                 .token_counts = {w->row_counts.items, w->row_counts.count},
                                 .finishes = {w->row_finishes.items, w->row_finishes.count},
                                 .tokens = {w->row_tokens.items, w->row_tokens.count}};
    message_pack_step_result(&r, &pending.payload);
    vec_push(&w->pending, pending);
    w->busy_until_ms = pending.due_ms;
}

static void take_plan(struct fake_worker *w, const struct wire_plan *p) {
    if (p->incarnation != link_client_incarnation(w->link))
        return;
    if (p->number != w->next_plan) {
        fault(w, "a plan out of turn");
        return;
    }
    w->next_plan++;
    w->row_slots.count = w->row_counts.count = w->row_finishes.count = w->row_tokens.count = 0;
    if (!prepare_slots(w, p))
        return;
    for (size_t i = 0; i < p->sealed_ids.count; i++)
        if (p->sealed_ids.items[i] < w->config.blocks)
            w->sealed[p->sealed_ids.items[i]] = p->sealed_hashes.items[i];
    for (size_t i = 0; i < p->row_slots.count; i++)
        if (!compute_row(w, p->row_slots.items[i], p->row_token_counts.items[i]))
            return;
    queue_result(w, p);
}

static void send_results(struct fake_worker *w) {
    int64_t now = clock_ms();
    size_t sent = 0;
    while (sent < w->pending.count && w->pending.items[sent].due_ms <= now) {
        (void)!link_client_send(w->link, WIRE_STEP_RESULT,
                                buf_bytes(&w->pending.items[sent].payload));
        buf_release(&w->pending.items[sent++].payload);
        w->progress++;
    }
    w->pending.count -= sent;
    if (sent)
        memmove(w->pending.items, w->pending.items + sent,
                w->pending.count * sizeof *w->pending.items);
}

static void send_chunk(struct fake_worker *w, const struct wire_bundle_get *get) {
    if (!u128_equal(get->bundle, w->bundle) || get->offset > w->config.bundle_bytes)
        return;
    size_t len = MIN(w->config.bundle_bytes - (size_t)get->offset, (size_t)WIRE_BUNDLE_CHUNK_BYTES);
    uint8_t *bytes = mem_alloc(len + 1);
    for (size_t i = 0; i < len; i++)
        bytes[i] = fake_bundle_byte((size_t)get->offset + i);
    struct wire_bundle_chunk chunk = {.bundle = get->bundle,
                                      .offset = get->offset,
                                      .total = w->config.bundle_bytes,
                                      .data = bytes_of(bytes, len)};
    buf_reset(&w->out);
    message_pack_bundle_chunk(&chunk, &w->out);
    send_message(w, WIRE_BUNDLE_CHUNK);
    mem_free(bytes);
}

static void on_frame(void *ctx, enum wire_kind kind, struct bytes payload) {
    struct fake_worker *w = ctx;
    struct wire_plan plan;
    struct wire_bundle_get get;
    arena_reset(&w->arena);
    if (kind == WIRE_PLAN && message_unpack_plan(payload, &w->arena, &plan, NULL) == 0)
        take_plan(w, &plan);
    else if (kind == WIRE_BUNDLE_GET &&
             message_unpack_bundle_get(payload, &w->arena, &get, NULL) == 0)
        send_chunk(w, &get);
}

/* ---- Life ---- */

static void fill_defaults(struct fake_worker_config *c) {
    if (!c->slots)
        c->slots = 16;
    if (!c->blocks)
        c->blocks = 512;
    if (!c->block_tokens)
        c->block_tokens = 16;
    if (!c->max_step_tokens)
        c->max_step_tokens = 64;
    if (!c->max_context)
        c->max_context = 2048;
    if (!c->steps_in_flight)
        c->steps_in_flight = 2;
    if (!c->bundle_bytes)
        c->bundle_bytes = 1000;
}

int fake_worker_new(struct fake_worker **out, const struct fake_worker_config *config,
                    struct error *err) {
    static const struct link_client_calls CALLS = {
        .hello = on_hello, .lost = on_lost, .frame = on_frame, .heartbeat = on_heartbeat};
    struct fake_worker *w = mem_alloc(sizeof *w);
    w->config = *config;
    fill_defaults(&w->config);
    w->replica = random_u128();
    w->bundle = fake_bundle_hash(w->config.bundle_bytes);
    w->slots = mem_calloc(w->config.slots, sizeof *w->slots);
    w->sealed = mem_calloc(w->config.blocks, sizeof *w->sealed);
    w->held_blocks = mem_calloc(w->config.blocks, sizeof *w->held_blocks);
    w->held_hashes = mem_calloc(w->config.blocks, sizeof *w->held_hashes);
    w->loaded = !config->load_ms;
    w->loaded_ms = clock_ms() + config->load_ms;
    struct link_client_config link = {.endpoint = config->endpoint,
                                      .role = WIRE_ROLE_WORKER,
                                      .instance = config->instance,
                                      .key_file = config->key_file,
                                      .allow_keys = config->allow_keys};
    int rc = link_client_new(&w->link, &link, &CALLS, w, err);
    *out = w;
    if (rc)
        fake_worker_free(out);
    return rc;
}

void fake_worker_free(struct fake_worker **worker) {
    struct fake_worker *w = *worker;
    if (!w)
        return;
    link_client_free(&w->link);
    forget_everything(w);
    for (uint32_t i = 0; i < w->config.slots; i++) {
        vec_release(&w->slots[i].tokens);
        vec_release(&w->slots[i].stop_tokens);
    }
    vec_release(&w->pending);
    vec_release(&w->row_slots);
    vec_release(&w->row_counts);
    vec_release(&w->row_finishes);
    vec_release(&w->row_tokens);
    arena_release(&w->arena);
    buf_release(&w->out);
    mem_free(w->slots);
    mem_free(w->sealed);
    mem_free(w->held_blocks);
    mem_free(w->held_hashes);
    mem_free(w);
    *worker = NULL;
}

void fake_worker_run(struct fake_worker *w, int64_t ms) {
    int64_t end = ms < 0 ? INT64_MAX : clock_ms() + ms;
    while (clock_ms() < end) {
        int64_t wake = w->pending.count ? w->pending.items[0].due_ms : INT64_MAX;
        if (!w->loaded)
            wake = MIN(wake, w->loaded_ms);
        wake = MIN(wake, end);
        int64_t now = clock_ms();
        link_client_wait(w->link, NULL, NULL, 0,
                         wake == INT64_MAX ? -1 : MAX(wake - now, (int64_t)0));
        send_results(w);
        if (!w->loaded && clock_ms() >= w->loaded_ms) {
            w->loaded = true;
            link_client_renew(w->link);
        }
    }
}

uint64_t fake_worker_faults(const struct fake_worker *w) {
    return w->faults;
}
uint64_t fake_worker_rows(const struct fake_worker *w) {
    return w->rows;
}
