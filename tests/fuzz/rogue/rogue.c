#include "rogue/rogue.h"

#include "proto/codec.h"
#include "proto/codec_tables.h"

void rogue_init(struct rogue *r, const uint8_t *data, size_t len) {
    memset(r, 0, sizeof *r);
    r->at = data;
    r->end = data + len;
}

void rogue_release(struct rogue *r) {
    arena_release(&r->arena);
    arena_release(&r->notes);
    for (size_t i = 0; i < ROGUE_SENT; i++)
        buf_release(&r->sent[i].payload);
}

uint8_t rogue_byte(struct rogue *r) {
    return r->at < r->end ? *r->at++ : 0;
}

/* ---- What it has seen ---- */

void rogue_note_number(struct rogue *r, uint64_t number) {
    r->numbers[r->number_count++ % ROGUE_NUMBERS] = number;
}
void rogue_note_id(struct rogue *r, struct u128 id) {
    r->ids[r->id_count++ % ROGUE_IDS] = id;
}
void rogue_note_text(struct rogue *r, const char *text) {
    CHECK(r->text_count < ROGUE_TEXTS);
    r->texts[r->text_count++] = bytes_str(text);
}

/* A column or blob in any of our structs: a pointer, then a count. */
struct span {
    const void *data;
    size_t count;
};

static void note_fields(struct rogue *r, const struct message_table *table, const char *message);

static void note_field(struct rogue *r, const struct message_field *f, const char *message) {
    enum { COLUMN_MAX = 4 };
    const void *at = message + f->offset;
    const struct span *span = at;
    switch ((enum field_type)f->type) {
    case FIELD_U32: rogue_note_number(r, *(const uint32_t *)at); break;
    case FIELD_U64: rogue_note_number(r, *(const uint64_t *)at); break;
    case FIELD_U128: rogue_note_id(r, *(const struct u128 *)at); break;
    case FIELD_U32S:
        for (size_t i = 0; i < MIN(span->count, (size_t)COLUMN_MAX); i++)
            rogue_note_number(r, ((const uint32_t *)span->data)[i]);
        break;
    case FIELD_U128S:
        for (size_t i = 0; i < MIN(span->count, (size_t)COLUMN_MAX); i++)
            rogue_note_id(r, ((const struct u128 *)span->data)[i]);
        break;
    case FIELD_STRUCT: note_fields(r, f->table, at); break;
    case FIELD_STRUCTS:
        if (*(const size_t *)(const void *)(message + f->count_offset))
            note_fields(r, f->table, *(const char *const *)at);
        break;
    default: break;
    }
}

static void note_fields(struct rogue *r, const struct message_table *table, const char *message) {
    for (size_t i = 0; i < table->field_count; i++)
        note_field(r, &table->fields[i], message);
}

void rogue_note(struct rogue *r, enum wire_kind kind, struct bytes payload) {
    arena_reset(&r->notes);
    char *message = arena_alloc(&r->notes, message_size(kind));
    if (message && message_unpack(kind, payload, &r->notes, message, NULL) == 0)
        note_fields(r, message_table_of(kind), message);
}

/* ---- Drawing ---- */

uint64_t rogue_number(struct rogue *r) {
    static const uint64_t EXTREME[] = {UINT32_MAX, INT32_MAX, 1u << 20,   1u << 16,
                                       4999,       5000,      UINT64_MAX, INT64_MAX};
    uint8_t how = rogue_byte(r);
    uint64_t noted =
        r->number_count ? r->numbers[how / 4 % MIN(r->number_count, (size_t)ROGUE_NUMBERS)] : 0;
    switch (how % 4) {
    case 0: return how / 4 % 8;
    case 1: return noted;
    case 2: return noted + how / 4 % 3 - 1;
    default: return how >= 192 ? EXTREME[how / 4 % ARRAY_LEN(EXTREME)] : rogue_byte(r);
    }
}

struct u128 rogue_id(struct rogue *r) {
    uint8_t how = rogue_byte(r);
    if (how >= 224)
        return how == 255 ? (struct u128){0} : (struct u128){how % 4 + 1u, 77};
    return r->id_count ? r->ids[how % MIN(r->id_count, (size_t)ROGUE_IDS)] : (struct u128){1, 77};
}

/* Within the field's bounds, but for one draw in 64. */
static uint64_t number_within(struct rogue *r, uint64_t min, uint64_t max) {
    uint64_t n = rogue_number(r);
    uint8_t how = rogue_byte(r);
    if (how < 4)
        return n;
    if (how < 24)
        return how % 2 ? max : min;
    return n < min || n > max ? min + n % (max - min + 1 ? max - min + 1 : 1) : n;
}

static int32_t signed_within(struct rogue *r, int64_t min, int64_t max) {
    uint64_t width = (uint64_t)(max - min);
    return (int32_t)(min + (int64_t)number_within(r, 0, width));
}

static float draw_float(struct rogue *r) {
    static const float VALUES[] = {0,     1,     0.5f,  1,   1e-38f, 1e38f, -1,    2,
                                   1e-3f, -0.0f, 0.95f, 100, 1,      0,     -2e9f, 3e-45f};
    uint8_t how = rogue_byte(r);
    return how == 255 ? __builtin_nanf("") : how == 254 ? __builtin_inff() : VALUES[how % 16];
}

/* How many items: as many as the other columns of the message have, mostly. */
static size_t draw_count(struct rogue *r, const struct message_field *f) {
    uint8_t how = rogue_byte(r);
    size_t count = how < 200 ? r->columns : how % 24;
    return MIN(MAX(count, (size_t)f->min), (size_t)f->max);
}

static void *draw_items(struct rogue *r, const struct message_field *f, size_t size,
                        struct span *to) {
    size_t count = draw_count(r, f);
    void *items = count ? arena_alloc(&r->arena, count * size) : NULL;
    *to = (struct span){items, items ? count : 0};
    return items;
}

static void draw_text(struct rogue *r, const struct message_field *f, struct bytes *to) {
    uint8_t how = rogue_byte(r);
    size_t left = MIN((size_t)(r->end - r->at), (size_t)(how % 32));
    if (how < 160 && r->text_count)
        *to = r->texts[how % r->text_count];
    else if (how < 192)
        *to = (struct bytes){0};
    else {
        *to = bytes_of(r->at, MIN(left, (size_t)f->max));
        r->at += left;
    }
}

static void draw_fields(struct rogue *r, const struct message_table *table, char *message);

static void draw_structs(struct rogue *r, const struct message_field *f, char *message) {
    enum { STRUCTS_MAX = 3 };
    size_t count =
        MIN(MAX((size_t)(rogue_byte(r) % (STRUCTS_MAX + 1)), (size_t)f->min), (size_t)f->max);
    char *items = count ? arena_alloc(&r->arena, count * f->table->size) : NULL;
    if (count && !items)
        count = 0;
    for (size_t i = 0; i < count; i++)
        draw_fields(r, f->table, items + i * f->table->size);
    memcpy(message + f->offset, &items, sizeof items);
    memcpy(message + f->count_offset, &count, sizeof count);
}

static void draw_field(struct rogue *r, const struct message_field *f, char *message) {
    void *at = message + f->offset;
    struct span *span = at;
    switch ((enum field_type)f->type) {
    case FIELD_BOOL: *(bool *)at = rogue_byte(r) & 1; break;
    case FIELD_U32: *(uint32_t *)at = (uint32_t)number_within(r, f->min, f->max); break;
    case FIELD_U64: *(uint64_t *)at = number_within(r, f->min, f->max); break;
    case FIELD_I32: *(int32_t *)at = signed_within(r, (int64_t)f->min, (int64_t)f->max); break;
    case FIELD_F32: *(float *)at = draw_float(r); break;
    case FIELD_U128: *(struct u128 *)at = rogue_id(r); break;
    case FIELD_TEXT:
    case FIELD_BLOB: draw_text(r, f, at); break;
    case FIELD_U32S: {
        uint32_t *items = draw_items(r, f, sizeof *items, span);
        for (size_t i = 0; i < span->count; i++)
            items[i] = (uint32_t)rogue_number(r);
        break;
    }
    case FIELD_F32S: {
        float *items = draw_items(r, f, sizeof *items, span);
        for (size_t i = 0; i < span->count; i++)
            items[i] = draw_float(r);
        break;
    }
    case FIELD_U128S: {
        struct u128 *items = draw_items(r, f, sizeof *items, span);
        for (size_t i = 0; i < span->count; i++)
            items[i] = rogue_id(r);
        break;
    }
    case FIELD_STRUCT: draw_fields(r, f->table, at); break;
    case FIELD_STRUCTS: draw_structs(r, f, message); break;
    }
}

static void draw_fields(struct rogue *r, const struct message_table *table, char *message) {
    for (size_t i = 0; i < table->field_count; i++)
        draw_field(r, &table->fields[i], message);
}

/* ---- Changing ---- */

static void change_fields(struct rogue *r, const struct message_table *table, char *message);

/* One item of the column; false: it has none. */
static bool change_item(struct rogue *r, const struct message_field *f, struct span *span) {
    size_t size = f->type == FIELD_U128S ? sizeof(struct u128) : sizeof(uint32_t);
    char *items = span->count ? arena_alloc(&r->arena, span->count * size) : NULL;
    if (!items)
        return false;
    memcpy(items, span->data, span->count * size);
    void *item = items + rogue_byte(r) % span->count * size;
    if (f->type == FIELD_U128S)
        *(struct u128 *)item = rogue_id(r);
    else if (f->type == FIELD_F32S)
        *(float *)item = draw_float(r);
    else
        *(uint32_t *)item = (uint32_t)rogue_number(r);
    span->data = items;
    return true;
}

static bool change_structs(struct rogue *r, const struct message_field *f, char *message) {
    size_t count, size = f->table->size;
    const char *from;
    memcpy(&count, message + f->count_offset, sizeof count);
    memcpy(&from, message + f->offset, sizeof from);
    char *items = count ? arena_alloc(&r->arena, count * size) : NULL;
    if (!items)
        return false;
    memcpy(items, from, count * size);
    for (size_t i = 0; i < count; i++)
        change_fields(r, f->table, items + i * size);
    memcpy(message + f->offset, &items, sizeof items);
    return true;
}

/* Within what is there, where there is something; one in four is drawn whole. */
static void change_field(struct rogue *r, const struct message_field *f, char *message) {
    bool within = rogue_byte(r) % 4, done = false;
    if (within && (f->type == FIELD_U32S || f->type == FIELD_F32S || f->type == FIELD_U128S))
        done = change_item(r, f, (void *)(message + f->offset));
    else if (within && f->type == FIELD_STRUCTS)
        done = change_structs(r, f, message);
    else if (within && f->type == FIELD_STRUCT) {
        change_fields(r, f->table, message + f->offset);
        done = true;
    }
    if (!done)
        draw_field(r, f, message);
}

static void change_fields(struct rogue *r, const struct message_table *table, char *message) {
    for (size_t i = 0; i < table->field_count; i++)
        if (rogue_byte(r) % 8 == 1)
            change_field(r, &table->fields[i], message);
}

void rogue_draw(struct rogue *r, enum wire_kind kind, void *message) {
    arena_reset(&r->arena);
    memset(message, 0, message_size(kind));
    r->columns = rogue_byte(r) % 8;
    draw_fields(r, message_table_of(kind), message);
}

void rogue_change(struct rogue *r, enum wire_kind kind, void *message) {
    arena_reset(&r->arena);
    r->columns = rogue_byte(r) % 8;
    change_fields(r, message_table_of(kind), message);
}

void rogue_pack(struct rogue *r, enum wire_kind kind, const void *message, struct buf *out) {
    buf_reset(out);
    message_pack(kind, message, out);
    __typeof__(&r->sent[0]) kept = &r->sent[r->sent_count++ % ROGUE_SENT];
    kept->kind = kind;
    buf_reset(&kept->payload);
    buf_add_bytes(&kept->payload, buf_bytes(out));
}

enum wire_kind rogue_again(struct rogue *r, struct buf *out) {
    uint8_t which = rogue_byte(r);
    if (!r->sent_count)
        return (enum wire_kind)0;
    __typeof__(&r->sent[0]) kept = &r->sent[which % MIN(r->sent_count, (size_t)ROGUE_SENT)];
    buf_reset(out);
    buf_add_bytes(out, buf_bytes(&kept->payload));
    return kept->kind;
}
