#include "sim.h"

struct message *message_new(struct world *w, uint16_t kind) {
    struct message *m = w->free_messages;
    if (m)
        w->free_messages = m->next;
    else
        m = mem_alloc(sizeof *m);
    uint8_t *blob = m->blob;
    size_t cap = m->blob_cap;
    memset(m, 0, offsetof(struct message, blob));
    m->blob = blob;
    m->blob_cap = cap;
    m->blob_len = 0;
    m->kind = kind;
    m->process = PROCS;
    return m;
}

void message_free(struct world *w, struct message *m) {
    m->next = w->free_messages;
    w->free_messages = m;
}

/* Room for everything first: spans point into the blob, so it must not move. */
static void reserve(struct message *m, size_t bytes) {
    m->blob_len = 0;
    if (bytes <= m->blob_cap)
        return;
    m->blob_cap = bytes * 2;
    mem_free(m->blob);
    m->blob = mem_alloc(m->blob_cap);
}

static void *keep_copy(struct message *m, const void *data, size_t bytes) {
    uint8_t *at = m->blob + m->blob_len;
    if (bytes)
        memcpy(at, data, bytes);
    m->blob_len += (bytes + 15) & ~(size_t)15;
    CHECK(m->blob_len <= m->blob_cap);
    return at;
}
static size_t room(size_t bytes) {
    return (bytes + 15) & ~(size_t)15;
}

#define SPAN_BYTES(span) room((span).count * sizeof *(span).items)
#define KEEP_SPAN(m, span)                                                                         \
    ((span).items = keep_copy(m, (span).items, (span).count * sizeof *(span).items))
#define TOKEN_BYTES(span)    room((span).count * 4)
#define KEEP_TOKENS(m, span) ((span).ids = keep_copy(m, (span).ids, (span).count * 4))

void message_set_submit(struct message *m, const struct wire_submit *from) {
    size_t bytes = TOKEN_BYTES(from->prompt) + SPAN_BYTES(from->stop_tokens) +
                   room(from->choice_count * sizeof *from->choices);
    for (size_t i = 0; i < from->choice_count; i++)
        bytes += TOKEN_BYTES(from->choices[i].emitted);
    reserve(m, bytes);
    struct wire_submit *to = &m->u.submit;
    *to = *from;
    KEEP_TOKENS(m, to->prompt);
    KEEP_SPAN(m, to->stop_tokens);
    struct wire_choice *choices = keep_copy(m, from->choices, from->choice_count * sizeof *choices);
    for (size_t i = 0; i < from->choice_count; i++)
        KEEP_TOKENS(m, choices[i].emitted);
    to->choices = choices;
}

void message_set_deltas(struct message *m, const struct wire_deltas *from) {
    struct wire_deltas *to = &m->u.deltas;
    *to = *from;
    reserve(m, SPAN_BYTES(to->requests) + 9 * SPAN_BYTES(to->attempts) + TOKEN_BYTES(to->tokens) +
                   SPAN_BYTES(to->fingerprints));
    KEEP_SPAN(m, to->requests);
    KEEP_SPAN(m, to->attempts);
    KEEP_SPAN(m, to->choices);
    KEEP_SPAN(m, to->indexes);
    KEEP_SPAN(m, to->token_counts);
    KEEP_SPAN(m, to->finishes);
    KEEP_SPAN(m, to->cached_counts);
    KEEP_SPAN(m, to->flags);
    KEEP_TOKENS(m, to->tokens);
    KEEP_SPAN(m, to->fingerprints);
    KEEP_SPAN(m, to->queued_ms);
    KEEP_SPAN(m, to->prefill_ms);
}

void message_set_plan(struct message *m, const struct wire_plan *from) {
    struct wire_plan *to = &m->u.plan;
    *to = *from;
    size_t bytes = SPAN_BYTES(to->release_slots) + room(to->admit_count * sizeof *to->admits) +
                   3 * SPAN_BYTES(to->new_block_rows) + 2 * SPAN_BYTES(to->row_slots) +
                   SPAN_BYTES(to->sealed_ids) + SPAN_BYTES(to->sealed_hashes) +
                   room(to->comm_id.len) + SPAN_BYTES(to->draft_counts) +
                   TOKEN_BYTES(to->draft_tokens) + 4 * SPAN_BYTES(to->op_kinds);
    for (size_t i = 0; i < to->admit_count; i++)
        bytes += TOKEN_BYTES(to->admits[i].tokens) + 2 * SPAN_BYTES(to->admits[i].block_ids) +
                 SPAN_BYTES(to->admits[i].stop_tokens);
    reserve(m, bytes);
    KEEP_SPAN(m, to->release_slots);
    struct wire_admit *admits = keep_copy(m, from->admits, from->admit_count * sizeof *admits);
    for (size_t i = 0; i < to->admit_count; i++) {
        KEEP_TOKENS(m, admits[i].tokens);
        KEEP_SPAN(m, admits[i].block_groups);
        KEEP_SPAN(m, admits[i].block_ids);
        KEEP_SPAN(m, admits[i].stop_tokens);
    }
    to->admits = admits;
    KEEP_SPAN(m, to->op_kinds);
    KEEP_SPAN(m, to->op_groups);
    KEEP_SPAN(m, to->op_sources);
    KEEP_SPAN(m, to->op_targets);
    KEEP_SPAN(m, to->new_block_rows);
    KEEP_SPAN(m, to->new_block_groups);
    KEEP_SPAN(m, to->new_block_ids);
    KEEP_SPAN(m, to->row_slots);
    KEEP_SPAN(m, to->row_token_counts);
    KEEP_SPAN(m, to->draft_counts);
    KEEP_TOKENS(m, to->draft_tokens);
    KEEP_SPAN(m, to->sealed_ids);
    KEEP_SPAN(m, to->sealed_hashes);
    to->comm_id.data = keep_copy(m, to->comm_id.data, to->comm_id.len);
}

void message_set_result(struct message *m, const struct wire_step_result *from) {
    struct wire_step_result *to = &m->u.result;
    *to = *from;
    reserve(m, 3 * SPAN_BYTES(to->slots) + TOKEN_BYTES(to->tokens));
    KEEP_SPAN(m, to->slots);
    KEEP_SPAN(m, to->token_counts);
    KEEP_SPAN(m, to->finishes);
    KEEP_TOKENS(m, to->tokens);
}

void message_set_ack(struct message *m, const struct wire_ack *from) {
    struct wire_ack *to = &m->u.ack;
    *to = *from;
    reserve(m, SPAN_BYTES(to->requests) + 3 * SPAN_BYTES(to->attempts));
    KEEP_SPAN(m, to->requests);
    KEEP_SPAN(m, to->attempts);
    KEEP_SPAN(m, to->choices);
    KEEP_SPAN(m, to->counts);
}

void message_set_hello(struct message *m, const struct wire_hello *from) {
    struct wire_hello *to = &m->u.hello;
    *to = *from;
    reserve(m, room(from->group_count * sizeof *from->groups) + SPAN_BYTES(to->held_blocks) +
                   SPAN_BYTES(to->held_hashes) + room(to->comm_id.len));
    to->groups = keep_copy(m, from->groups, from->group_count * sizeof *from->groups);
    KEEP_SPAN(m, to->held_blocks);
    KEEP_SPAN(m, to->held_hashes);
    to->comm_id.data = keep_copy(m, to->comm_id.data, to->comm_id.len);
}

void message_set_attach(struct message *m, const struct wire_attach *from) {
    struct wire_attach *to = &m->u.attach;
    *to = *from;
    reserve(m, 2 * SPAN_BYTES(to->choices));
    KEEP_SPAN(m, to->choices);
    KEEP_SPAN(m, to->indexes);
}

struct message *message_copy(struct world *w, const struct message *m) {
    struct message *copy = message_new(w, m->kind);
    copy->epoch = m->epoch;
    copy->peer = m->peer;
    copy->process = m->process;
    copy->from = m->from;
    copy->to = m->to;
    copy->link_generation = m->link_generation;
    switch (m->kind) {
    case WIRE_SUBMIT: message_set_submit(copy, &m->u.submit); break;
    case WIRE_DELTAS: message_set_deltas(copy, &m->u.deltas); break;
    case WIRE_PLAN: message_set_plan(copy, &m->u.plan); break;
    case WIRE_STEP_RESULT: message_set_result(copy, &m->u.result); break;
    case WIRE_ACK: message_set_ack(copy, &m->u.ack); break;
    case WIRE_HELLO: message_set_hello(copy, &m->u.hello); break;
    case WIRE_ATTACH: message_set_attach(copy, &m->u.attach); break;
    default: copy->u = m->u;
    }
    return copy;
}

/* Sends on a link that keeps its order. Pending single faults hit the next message that comes
 * by. */
void send_message(struct world *w, struct message *m, uint32_t peer, bool to_scheduler) {
    struct link_state *link = &w->links[peer][to_scheduler ? 0 : 1];
    m->peer = (uint8_t)peer;
    m->link_generation = link->generation;
    bool cut = link->cut_until > w->now;
    if ((cut && !link->cut_holds) ||
        (w->drop_next && !w->quiet && chance(w, 4) && w->drop_next--)) {
        trace(w, "lost", peer, m->kind, to_scheduler, 0);
        message_free(w, m);
        return;
    }
    int64_t when = w->now + (chance(w, 3) ? 1 + below(w, 4) : 1);
    if (cut)
        when = link->cut_until + 1;
    if (w->delay_next && chance(w, 4)) {
        w->delay_next--;
        when += 20 + below(w, 800);
    }
    when = MAX(when, link->last_at);
    link->last_at = when;
    if (w->duplicate_next && !w->quiet && chance(w, 4)) {
        w->duplicate_next--;
        trace(w, "duplicated", peer, m->kind, to_scheduler, 0);
        at(w, when, EVENT_MESSAGE, to_scheduler ? PEERS : peer, 0, message_copy(w, m));
    }
    at(w, when, EVENT_MESSAGE, to_scheduler ? PEERS : peer, 0, m);
}

void answer_stale(struct world *w, const struct message *m, struct epoch mine, struct u128 from) {
    struct message *reply = message_new(w, WIRE_HEARTBEAT);
    reply->epoch = mine;
    reply->from = from;
    reply->process = m->process;
    send_message(w, reply, m->peer, true);
}
