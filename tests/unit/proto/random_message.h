/*
 * random_message.h - random valid messages of every kind: the codec's tables say what each field
 * may be, and a function for each message then sets right what fields must agree on. And a
 * comparison field by field.
 */
#ifndef TESTS_UNIT_PROTO_RANDOM_MESSAGE_H
#define TESTS_UNIT_PROTO_RANDOM_MESSAGE_H

#include <stdlib.h>

#include "base/arena.h"
#include "check.h"
#include "proto/codec.h"
#include "proto/codec_tables.h"

struct random_span {
    const void *data;
    size_t count;
};

static inline uint64_t random_below(uint64_t n) {
    return n ? check_random() % n : 0;
}

/* The ends of a range are tried more often than chance would. */
static inline uint64_t random_within(uint64_t min, uint64_t max) {
    switch (random_below(6)) {
    case 0: return min;
    case 1: return max;
    case 2: return min + random_below(max - min < 300 ? max - min : 300);
    default: return max - min == UINT64_MAX ? check_random() : min + random_below(max - min + 1);
    }
}

static inline void *random_arena(struct arena *arena, size_t size) {
    void *p = arena_alloc(arena, size);
    CHECK(p);
    return p;
}

static inline struct bytes random_text(struct arena *arena, size_t len) {
    static const char *const LETTERS[] = {
        "a", "Z", "0", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x9a\xa3"};
    char *text = random_arena(arena, len * 4 + 1);
    size_t at = 0;
    for (size_t i = 0; i < len; i++) {
        const char *letter = LETTERS[random_below(ARRAY_LEN(LETTERS))];
        memcpy(text + at, letter, strlen(letter));
        at += strlen(letter);
    }
    return bytes_of(at ? text : NULL, at);
}

static inline struct u32s random_u32s(struct arena *arena, size_t count, uint32_t min,
                                      uint32_t max) {
    uint32_t *items = random_arena(arena, count * 4);
    for (size_t i = 0; i < count; i++)
        items[i] = (uint32_t)random_within(min, max);
    return (struct u32s){count ? items : NULL, count};
}
static inline struct tokens random_tokens(struct arena *arena, size_t count) {
    struct u32s column = random_u32s(arena, count, 0, UINT32_MAX);
    return (struct tokens){column.items, column.count};
}
static inline struct f32s random_f32s(struct arena *arena, size_t count) {
    float *items = random_arena(arena, count * 4);
    for (size_t i = 0; i < count; i++)
        items[i] = (float)random_below(1000) / 100 - 5;
    return (struct f32s){count ? items : NULL, count};
}
static inline struct u128s random_u128s(struct arena *arena, size_t count) {
    struct u128 *items = random_arena(arena, count * 16);
    for (size_t i = 0; i < count; i++)
        items[i] = (struct u128){check_random(), check_random()};
    return (struct u128s){count ? items : NULL, count};
}
/* 0 .. count-1 times a stride, so each once. */
static inline struct u32s random_unique(struct arena *arena, size_t count, uint32_t bound) {
    uint32_t *items = random_arena(arena, count * 4),
             stride = (uint32_t)random_within(1, MAX(bound / (uint32_t)MAX(count, (size_t)1), 1u));
    for (size_t i = 0; i < count; i++)
        items[i] = (uint32_t)i * stride;
    return (struct u32s){count ? items : NULL, count};
}

/* ---- Field by field ---- */

static inline void random_fields(const struct message_table *table, struct arena *arena,
                                 void *message);

static inline void random_field(const struct message_field *f, struct arena *arena, char *message) {
    void *at = message + f->offset;
    uint64_t wanted = random_below(9);
    size_t count = (size_t)MIN(wanted, f->max);
    switch ((enum field_type)f->type) {
    case FIELD_BOOL: *(bool *)at = random_below(2); break;
    case FIELD_U32: *(uint32_t *)at = (uint32_t)random_within(f->min, f->max); break;
    case FIELD_I32:
        *(int32_t *)at =
            (int32_t)((int64_t)f->min +
                      (int64_t)random_below((uint64_t)((int64_t)f->max - (int64_t)f->min) + 1));
        break;
    case FIELD_U64: *(uint64_t *)at = random_within(f->min, f->max); break;
    case FIELD_F32: *(float *)at = (float)(1 + random_below(99)) / 100; break;
    case FIELD_U128:
        *(struct u128 *)at = (struct u128){check_random(), random_below(3) ? check_random() : 0};
        break;
    case FIELD_TEXT: *(struct bytes *)at = random_text(arena, count); break;
    case FIELD_BLOB: {
        struct u32s noise = random_u32s(arena, count, 0, UINT32_MAX);
        *(struct bytes *)at = bytes_of(noise.items, noise.count * 4);
        break;
    }
    case FIELD_U32S: *(struct u32s *)at = random_u32s(arena, count, 0, UINT32_MAX); break;
    case FIELD_F32S: *(struct f32s *)at = random_f32s(arena, count); break;
    case FIELD_U128S: *(struct u128s *)at = random_u128s(arena, count); break;
    case FIELD_STRUCT: random_fields(f->table, arena, at); break;
    case FIELD_STRUCTS: {
        wanted /= 2;
        count = (size_t)MAX(f->min, MIN(wanted, f->max));
        char *items = random_arena(arena, count * f->table->size);
        for (size_t i = 0; i < count; i++)
            random_fields(f->table, arena, items + i * f->table->size);
        *(void **)at = count ? items : NULL;
        *(size_t *)(void *)(message + f->count_offset) = count;
        break;
    }
    }
}

/* ---- What fields must agree on ---- */

static inline void agree_group(struct arena *arena, struct wire_kv_group *g) {
    g->window_tokens =
        g->kind == WIRE_GROUP_WINDOW ? (uint32_t)random_within(1, WIRE_MAX_TOKENS) : 0;
}
static inline void agree_vectors(struct arena *arena, struct wire_vectors *v) {
    if (!v->pooling)
        *v = (struct wire_vectors){0};
    else
        v->width = MAX(v->width, 1u);
    v->softmax = v->softmax && !v->bare;
}
static inline void agree_hello(struct arena *arena, struct wire_hello *h) {
    h->instance.lo |= 1;
    if (h->role != WIRE_ROLE_WORKER)
        return;
    size_t held = h->group_count && h->groups[0].block_count ? random_below(20) : 0;
    h->held_blocks = random_u32s(arena, held, 0, held ? h->groups[0].block_count - 1 : 0);
    h->held_hashes = random_u128s(arena, held);
    h->incarnation |= 1;
    h->tp = h->rank + 1;
    h->pp = h->stage + 1;
    h->replica.lo |= 1;
    uint32_t *wanted[] = {&h->slot_count, &h->max_step_tokens, &h->max_context, &h->logits_width,
                          &h->steps_in_flight};
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
        *wanted[i] = MAX(*wanted[i], 1u);
    h->state = h->group_count
                   ? (enum wire_state)random_within(WIRE_STATE_LOADING, WIRE_STATE_DRAINING)
                   : WIRE_STATE_LOADING;
}
static inline void agree_welcome(struct arena *arena, struct wire_welcome *w) {
    w->silence_ms = w->heartbeat_ms + (uint32_t)random_within(1, 1000);
}
static inline void agree_bundle_chunk(struct arena *arena, struct wire_bundle_chunk *c) {
    c->total = (uint64_t)WIRE_MAX_BUNDLE;
    c->offset = random_within(0, c->total - c->data.len);
}
static inline void agree_sampling(struct arena *arena, struct wire_sampling *s) {
    s->bias_values = random_f32s(arena, s->bias_ids.count);
    uint32_t *words = (uint32_t *)(uintptr_t)s->bad_words.items;
    if (s->bad_words.count) {
        s->bad_words.count = MIN(s->bad_words.count, (size_t)WIRE_BAD_WORD_TOKENS_MAX + 1);
        s->bad_words.count -= s->bad_words.count == 1;
        words[0] = (uint32_t)s->bad_words.count - 1;
    }
    const uint64_t orders[] = {0, 0x4, 0x987654321, 0x43, 0x129};
    s->order = orders[random_below(ARRAY_LEN(orders))];
    s->typical_p = (float)random_below(11) / 10;
    s->xtc_probability = (float)random_below(11) / 10;
    s->xtc_threshold = (float)random_below(11) / 10;
    s->temperature_range = (float)random_below(3);
    s->dry_multiplier = (float)random_below(3);
    s->dry_base = (float)random_below(3);
    s->rate = s->steering == WIRE_STEERING_ADAPTIVE ? 0.9f : (float)random_below(3);
    if (random_below(3) == 0)
        s->top_p = 1, s->min_p = 0, s->top_n_sigma = 0, s->temperature = 0;
}
static inline void agree_submit(struct arena *arena, struct wire_submit *s) {
    struct wire_choice *choices = (struct wire_choice *)(uintptr_t)s->choices;
    struct u32s unique = random_unique(arena, s->choice_count, WIRE_MAX_CHOICES);
    for (size_t i = 0; i < s->choice_count; i++)
        choices[i].choice = unique.items[i];
}
static inline void agree_cancel(struct arena *arena, struct wire_cancel *c) {
    c->choice = random_below(2) ? WIRE_ALL_CHOICES : (uint32_t)random_below(WIRE_MAX_CHOICES);
}
static inline void agree_ack(struct arena *arena, struct wire_ack *a) {
    size_t count = a->requests.count;
    a->attempts = random_u32s(arena, count, 0, UINT32_MAX);
    a->choices = random_u32s(arena, count, 0, WIRE_MAX_CHOICES - 1);
    a->counts = random_u32s(arena, count, 0, WIRE_MAX_TOKENS + 1);
}
static inline void agree_attach(struct arena *arena, struct wire_attach *a) {
    a->choices = random_unique(arena, a->choices.count, WIRE_MAX_CHOICES);
    a->indexes = random_u32s(arena, a->choices.count, 0, WIRE_MAX_TOKENS);
}
static inline void agree_logprobs(struct arena *arena, struct wire_logprobs *l,
                                  size_t token_count) {
    size_t sum = 0;
    *l = (struct wire_logprobs){0};
    if (random_below(2))
        return;
    uint32_t *tops = random_arena(arena, token_count * 4);
    for (size_t i = 0; i < token_count; i++) {
        tops[i] =
            random_below(3) ? (uint32_t)random_below(WIRE_MAX_TOP_LOGPROBS + 1) : WIRE_NO_LOGPROBS;
        if (tops[i] != WIRE_NO_LOGPROBS)
            sum += 1 + tops[i];
    }
    *l = (struct wire_logprobs){{token_count ? tops : NULL, token_count},
                                random_u32s(arena, sum, 0, UINT32_MAX),
                                random_f32s(arena, sum)};
    for (size_t i = 0; i < sum; i++)
        if (!random_below(50))
            ((float *)(uintptr_t)l->values.items)[i] = -__builtin_inff();
}
static inline size_t sum_of(struct u32s column) {
    size_t sum = 0;
    for (size_t i = 0; i < column.count; i++)
        sum += column.items[i];
    return sum;
}
static inline void agree_deltas(struct arena *arena, struct wire_deltas *d) {
    size_t count = d->requests.count;
    d->attempts = random_u32s(arena, count, 0, UINT32_MAX);
    d->choices = random_u32s(arena, count, 0, WIRE_MAX_CHOICES - 1);
    d->indexes = random_u32s(arena, count, 0, WIRE_MAX_TOKENS);
    d->token_counts = random_u32s(arena, count, 0, 5);
    d->finishes = random_u32s(arena, count, 0, WIRE_FINISH_CONSTRAINT);
    d->cached_counts = random_u32s(arena, count, 0, WIRE_MAX_TOKENS);
    d->flags = random_u32s(arena, count, 0, 7);
    d->prompt_counts = random_u32s(arena, random_below(2) ? count : 0, 0, WIRE_MAX_TOKENS);
    d->tokens = random_tokens(arena, sum_of(d->token_counts));
    d->fingerprints = random_u128s(arena, random_below(2) ? count : 0);
    d->queued_ms = random_u32s(arena, random_below(2) ? count : 0, 0, UINT32_MAX);
    d->prefill_ms = random_u32s(arena, d->queued_ms.count, 0, UINT32_MAX);
    d->sampler_states = random_f32s(arena, random_below(2) ? d->tokens.count : 0);
    agree_logprobs(arena, &d->logprobs, d->tokens.count);
    d->vector_widths = random_u32s(arena, random_below(2) ? count : 0, 0, 9);
    d->vectors = random_f32s(arena, sum_of(d->vector_widths));
}
static inline void agree_admit(struct arena *arena, struct wire_admit *a) {
    size_t blocks = random_below(6);
    a->tokens = random_tokens(arena, 1 + random_below(300));
    a->prompt_count = (uint32_t)random_within(0, a->tokens.count);
    a->computed_count = (uint32_t)random_within(0, a->tokens.count);
    a->block_groups = random_u32s(arena, blocks, 0, WIRE_MAX_GROUPS - 1);
    a->block_ids = random_u32s(arena, blocks, 0, WIRE_MAX_BLOCKS - 1);
}
static inline void agree_plan(struct arena *arena, struct wire_plan *p) {
    size_t rows = random_below(40), blocks = rows ? random_below(10) : 0, ops = random_below(4),
           sealed = random_below(6);
    p->number |= 1;
    p->release_slots = random_u32s(arena, random_below(5), 0, WIRE_MAX_SLOTS - 1);
    struct u32s slots = random_unique(arena, p->admit_count, WIRE_MAX_SLOTS);
    for (size_t i = 0; i < p->admit_count; i++)
        ((struct wire_admit *)(uintptr_t)p->admits)[i].slot = slots.items[i];
    p->row_slots = random_unique(arena, rows, WIRE_MAX_SLOTS);
    p->row_token_counts = random_u32s(arena, rows, 1, WIRE_MAX_TOKENS);
    p->row_drafts = random_u32s(arena, random_below(2) ? rows : 0, 0, 8);
    p->draft_counts = random_u32s(arena, random_below(2) ? rows : 0, 0, 8);
    p->draft_tokens = random_tokens(arena, sum_of(p->draft_counts));
    p->new_block_rows = random_u32s(arena, blocks, 0, (uint32_t)rows - (rows != 0));
    p->new_block_groups = random_u32s(arena, blocks, 0, WIRE_MAX_GROUPS - 1);
    p->new_block_ids = random_u32s(arena, blocks, 0, WIRE_MAX_BLOCKS - 1);
    p->op_kinds = random_u32s(arena, ops, WIRE_OP_COPY, WIRE_OP_RECEIVE);
    p->op_groups = random_u32s(arena, ops, 0, WIRE_MAX_GROUPS - 1);
    p->op_sources = random_u32s(arena, ops, 0, WIRE_MAX_BLOCKS - 1);
    p->op_targets = random_u32s(arena, ops, 0, WIRE_MAX_BLOCKS - 1);
    p->sealed_ids = random_u32s(arena, sealed, 0, WIRE_MAX_BLOCKS - 1);
    p->sealed_hashes = random_u128s(arena, sealed);
}
static inline void agree_step_result(struct arena *arena, struct wire_step_result *r) {
    size_t rows = random_below(40);
    r->slots = random_u32s(arena, rows, 0, WIRE_MAX_SLOTS - 1);
    r->token_counts = random_u32s(arena, rows, 0, 3);
    r->finishes = random_u32s(arena, rows, 0, WIRE_FINISH_CONSTRAINT);
    r->tokens = random_tokens(arena, sum_of(r->token_counts));
    r->sampler_states = random_f32s(arena, random_below(2) ? r->tokens.count : 0);
    agree_logprobs(arena, &r->logprobs, r->tokens.count);
    r->vector_width = (uint32_t)random_below(2) * 16;
    r->vectors = random_f32s(arena, r->vector_width * random_below(3));
}

#define AGREE(what)                                                                                \
    if (strcmp(table->name, #what) == 0)                                                           \
    agree_##what(arena, message)

static inline void random_fields(const struct message_table *table, struct arena *arena,
                                 void *message) {
    memset(message, 0, table->size);
    for (size_t i = 0; i < table->field_count; i++)
        random_field(&table->fields[i], arena, message);
    if (strcmp(table->name, "kv_group") == 0)
        agree_group(arena, message);
    AGREE(vectors);
    AGREE(hello);
    AGREE(welcome);
    AGREE(bundle_chunk);
    AGREE(sampling);
    AGREE(submit);
    AGREE(cancel);
    AGREE(ack);
    AGREE(attach);
    AGREE(deltas);
    AGREE(admit);
    AGREE(plan);
    AGREE(step_result);
    /* made by its owner */
    if (strcmp(table->name, "logprobs") == 0)
        memset(message, 0, table->size);
}

/* Fills *message (the kind's struct) with what a decoder must take. Everything it points to lies in
 * the arena. */
static inline void random_message(enum wire_kind kind, struct arena *arena, void *message) {
    random_fields(message_table_of(kind), arena, message);
}

/* ---- Comparison ---- */

static inline size_t random_item_size(uint8_t type) {
    return type == FIELD_U32S || type == FIELD_F32S ? 4 : type == FIELD_U128S ? 16 : 1;
}

/* NULL when equal, else the name of the first field that differs. */
static inline const char *message_difference(const struct message_table *table, const void *left,
                                             const void *right) {
    for (size_t i = 0; i < table->field_count; i++) {
        const struct message_field *f = &table->fields[i];
        const char *a = (const char *)left + f->offset, *b = (const char *)right + f->offset,
                   *inner = NULL;
        const struct random_span *x = (const void *)a, *y = (const void *)b;
        bool same = true;
        switch ((enum field_type)f->type) {
        case FIELD_BOOL: same = *(const bool *)a == *(const bool *)b; break;
        case FIELD_U32:
        case FIELD_I32:
        case FIELD_F32: same = memcmp(a, b, 4) == 0; break;
        case FIELD_U64: same = memcmp(a, b, 8) == 0; break;
        case FIELD_U128: same = memcmp(a, b, 16) == 0; break;
        case FIELD_STRUCT: inner = message_difference(f->table, a, b); break;
        case FIELD_STRUCTS: {
            size_t count = *(const size_t *)(const void *)((const char *)left + f->count_offset);
            same = count == *(const size_t *)(const void *)((const char *)right + f->count_offset);
            const char *p = *(const char *const *)(const void *)a,
                       *q = *(const char *const *)(const void *)b;
            for (size_t k = 0; same && !inner && k < count; k++)
                inner =
                    message_difference(f->table, p + k * f->table->size, q + k * f->table->size);
            break;
        }
        default:
            same =
                x->count == y->count &&
                (!x->count || memcmp(x->data, y->data, x->count * random_item_size(f->type)) == 0);
            break;
        }
        if (inner)
            return inner;
        if (!same)
            return f->name;
    }
    return NULL;
}

#endif
