/*
 * codec.c - walks the tables of codec_tables.c: our structs to protobuf bytes, and through
 * protobuf-c's unpack back.
 */
#include "proto/codec.h"

#include <math.h>

#include "base/utf8.h"
#include "proto/codec_tables.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "columns are copied as they are: little-endian machines only");
_Static_assert(sizeof(struct tokens) == sizeof(struct u32s) &&
                   offsetof(struct tokens, ids) == offsetof(struct u32s, items) &&
                   offsetof(struct tokens, count) == offsetof(struct u32s, count),
               "FIELD_U32S serves both");
_Static_assert(sizeof(struct u128) == 16 && offsetof(struct u128, lo) == 0,
               "u128 is copied as it is");

/* A column or blob in any of our structs: a pointer, then a count. */
struct span {
    const void *data;
    size_t count;
};
_Static_assert(sizeof(struct span) == sizeof(struct bytes) &&
                   offsetof(struct bytes, len) == offsetof(struct span, count),
               "span");

/* Bytes of one item of a span. */
static size_t item_size(uint8_t type) {
    switch (type) {
    case FIELD_U32S:
    case FIELD_F32S: return 4;
    case FIELD_U128S: return 16;
    default: return 1;
    }
}

const char *message_kind_name(uint32_t kind) {
    const struct message_table *table = message_table_of(kind);
    return table ? table->name : "unknown";
}

size_t message_size(uint32_t kind) {
    const struct message_table *table = message_table_of(kind);
    return table ? table->size : 0;
}

/* ---- Encoding ---- */

enum wire_type { VARINT = 0, LENGTH = 2, FIXED32 = 5 };

static void pack_varint(struct buf *out, uint64_t v) {
    char bytes[10];
    size_t len = 0;
    for (; v >= 0x80; v >>= 7)
        bytes[len++] = (char)(v | 0x80);
    bytes[len++] = (char)v;
    buf_add(out, bytes, len);
}

static void pack_key(struct buf *out, uint32_t number, enum wire_type type) {
    pack_varint(out, number << 3 | type);
}

static void pack_number(struct buf *out, uint32_t number, uint64_t v) {
    if (!v)
        return;
    pack_key(out, number, VARINT);
    pack_varint(out, v);
}

static void pack_span(struct buf *out, uint32_t number, const void *data, size_t len) {
    if (!len)
        return;
    pack_key(out, number, LENGTH);
    pack_varint(out, len);
    buf_add(out, data, len);
}

static void pack_fields(struct buf *out, const struct message_table *table, const void *message);

/* The length comes before the message but is known after it: one byte is kept for it, and more room
 * made when that is too little. */
static void pack_message(struct buf *out, uint32_t number, const struct message_table *table,
                         const void *message, bool keep_empty) {
    size_t key_at = out->len;
    pack_key(out, number, LENGTH);
    size_t len_at = out->len;
    buf_add_byte(out, 0);
    pack_fields(out, table, message);
    if (out->failed)
        return;
    size_t len = out->len - len_at - 1, more = 0;
    for (size_t rest = len >> 7; rest; rest >>= 7)
        more++;
    if (!len && !keep_empty) {
        out->len = key_at;
        return;
    }
    for (size_t i = 0; i < more; i++)
        buf_add_byte(out, 0);
    if (out->failed)
        return;
    char *at = out->data + len_at;
    memmove(at + 1 + more, at + 1, len);
    for (size_t i = 0, rest = len; i <= more; i++, rest >>= 7)
        at[i] = (char)((rest & 0x7f) | (i < more ? 0x80 : 0));
}

static void pack_field(struct buf *out, const struct message_field *f, const char *message) {
    const void *at = message + f->offset;
    const struct span *span = at;
    uint32_t bits;
    switch ((enum field_type)f->type) {
    case FIELD_BOOL: pack_number(out, f->number, *(const bool *)at); break;
    case FIELD_U32: pack_number(out, f->number, *(const uint32_t *)at); break;
    case FIELD_I32:
        bits = (uint32_t) * (const int32_t *)at;
        pack_number(out, f->number, (bits << 1) ^ (0 - (bits >> 31))); /* zigzag */
        break;
    case FIELD_U64: pack_number(out, f->number, *(const uint64_t *)at); break;
    case FIELD_F32:
        memcpy(&bits, at, 4);
        if (!bits)
            break;
        pack_key(out, f->number, FIXED32);
        buf_add(out, at, 4);
        break;
    case FIELD_U128:
        if (!u128_is_zero(*(const struct u128 *)at))
            pack_span(out, f->number, at, 16);
        break;
    case FIELD_TEXT:
    case FIELD_BLOB:
    case FIELD_U32S:
    case FIELD_F32S:
    case FIELD_U128S:
        pack_span(out, f->number, span->data, span->count * item_size(f->type));
        break;
    case FIELD_STRUCT: pack_message(out, f->number, f->table, at, false); break;
    case FIELD_STRUCTS: {
        const char *item = *(const char *const *)at;
        size_t count = *(const size_t *)(const void *)(message + f->count_offset);
        for (size_t i = 0; i < count; i++, item += f->table->size)
            pack_message(out, f->number, f->table, item, true);
        break;
    }
    }
}

static void pack_fields(struct buf *out, const struct message_table *table, const void *message) {
    for (size_t i = 0; i < table->field_count; i++)
        pack_field(out, &table->fields[i], message);
}

void message_pack(enum wire_kind kind, const void *message, struct buf *out) {
    const struct message_table *table = message_table_of(kind);
    CHECK(table);
    pack_fields(out, table, message);
}

/* ---- Decoding ---- */

/* What one unpack may cost: the densest honest messages stay far below, floods of unknown or empty
 * fields do not. */
enum {
    BUDGET_BYTES = 64 * 1024,
    BUDGET_BYTES_PER_BYTE = 16,
    BUDGET_CALLS = 256,
    BUDGET_BYTES_PER_CALL = 4
};

struct unpack_budget {
    ProtobufCAllocator allocator;
    struct arena *arena;
    size_t byte_count, call_count; /* left */
    bool exceeded;
};

static void *unpack_budget_alloc(void *data, size_t size) {
    struct unpack_budget *b = data;
    void *p = NULL;
    if (size <= b->byte_count && b->call_count)
        p = arena_alloc(b->arena, size);
    if (!p) {
        b->exceeded = true;
        return NULL;
    }
    b->byte_count -= size;
    b->call_count--;
    return p;
}

static void unpack_budget_free(void *data, void *p) {}

static int bad_field(const struct message_table *table, const struct message_field *f,
                     struct error *err) {
    return error_set(err, ERR_INVALID, "field '%s' of message '%s' is out of bounds", f->name,
                     table->name);
}

static bool floats_ok(const float *v, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (isnan(v[i]) || v[i] == INFINITY)
            return false;
    return true;
}

/* A column, text or blob; the arena's alignment serves every type. */
static bool unpack_span(const struct message_field *f, const ProtobufCBinaryData *from,
                        struct span *to) {
    size_t size = item_size(f->type);
    if (from->len % size || from->len / size < f->min || from->len / size > f->max)
        return false;
    if (f->type == FIELD_TEXT && !utf8_valid(from->data, from->len))
        return false;
    if (f->type == FIELD_F32S &&
        !floats_ok((const float *)(const void *)from->data, from->len / size))
        return false;
    *to = (struct span){from->len ? from->data : NULL, from->len / size};
    return true;
}

static bool unpack_u128(const ProtobufCBinaryData *from, struct u128 *to) {
    if (from->len != 0 && from->len != sizeof *to)
        return false;
    if (from->len)
        memcpy(to, from->data, sizeof *to);
    return true;
}

static bool unpack_number(const struct message_field *f, const void *from, void *to) {
    switch ((enum field_type)f->type) {
    case FIELD_BOOL: *(bool *)to = *(const protobuf_c_boolean *)from != 0; return true;
    case FIELD_U32:
        *(uint32_t *)to = *(const uint32_t *)from;
        return *(uint32_t *)to >= f->min && *(uint32_t *)to <= f->max;
    case FIELD_U64:
        *(uint64_t *)to = *(const uint64_t *)from;
        return *(uint64_t *)to >= f->min && *(uint64_t *)to <= f->max;
    case FIELD_I32:
        *(int32_t *)to = *(const int32_t *)from;
        return *(int32_t *)to >= (int64_t)f->min && *(int32_t *)to <= (int64_t)f->max;
    case FIELD_F32: *(float *)to = *(const float *)from; return isfinite(*(float *)to);
    default: return false;
    }
}

static int unpack_fields(const struct message_table *table, const void *from, struct arena *arena,
                         void *message, struct error *err);

static int unpack_structs(const struct message_table *table, const struct message_field *f,
                          void *const *from, size_t count, struct arena *arena, char *message,
                          struct error *err) {
    if (count < f->min || count > f->max)
        return bad_field(table, f, err);
    char *items = count ? arena_alloc(arena, count * f->table->size) : NULL;
    if (count && !items)
        return error_set(err, ERR_LIMIT, "message '%s' is over its memory budget", table->name);
    for (size_t i = 0; i < count; i++) {
        int rc = unpack_fields(f->table, from[i], arena, items + i * f->table->size, err);
        if (rc)
            return rc;
    }
    memcpy(message + f->offset, &items, sizeof items);
    memcpy(message + f->count_offset, &count, sizeof count);
    return 0;
}

static int unpack_field(const struct message_table *table, size_t idx, const char *from,
                        struct arena *arena, char *message, struct error *err) {
    const struct message_field *f = &table->fields[idx];
    const ProtobufCFieldDescriptor *d = &table->descriptor->fields[idx];
    CHECK(d->id == f->number);
    const void *at = from + d->offset;
    bool ok;
    switch ((enum field_type)f->type) {
    case FIELD_STRUCT:
        return unpack_fields(f->table, *(const void *const *)at, arena, message + f->offset, err);
    case FIELD_STRUCTS:
        return unpack_structs(table, f, *(void *const *const *)at,
                              *(const size_t *)(const void *)(from + d->quantifier_offset), arena,
                              message, err);
    case FIELD_TEXT:
    case FIELD_BLOB:
    case FIELD_U32S:
    case FIELD_F32S:
    case FIELD_U128S: ok = unpack_span(f, at, (void *)(message + f->offset)); break;
    case FIELD_U128: ok = unpack_u128(at, (void *)(message + f->offset)); break;
    default: ok = unpack_number(f, at, message + f->offset); break;
    }
    return ok ? 0 : bad_field(table, f, err);
}

/* from: a message of protobuf-c, or NULL for one that was absent: all fields have their default,
 * which still has to pass. */
static int unpack_fields(const struct message_table *table, const void *from, struct arena *arena,
                         void *message, struct error *err) {
    memset(message, 0, table->size);
    CHECK(table->descriptor->n_fields == table->field_count);
    for (size_t i = 0; from && i < table->field_count; i++) {
        int rc = unpack_field(table, i, from, arena, message, err);
        if (rc)
            return rc;
    }
    return table->check ? table->check(message, err) : 0;
}

int message_unpack(enum wire_kind kind, struct bytes payload, struct arena *arena, void *message,
                   struct error *err) {
    const struct message_table *table = message_table_of(kind);
    CHECK(table);
    memset(message, 0, table->size);
    if (payload.len > WIRE_MAX_FRAME)
        return error_set(err, ERR_INVALID, "message '%s' is too long", table->name);
    struct unpack_budget budget = {
        .allocator = {.alloc = unpack_budget_alloc,
                      .free = unpack_budget_free,
                      .allocator_data = &budget},
        .arena = arena,
        .byte_count = BUDGET_BYTES + payload.len * BUDGET_BYTES_PER_BYTE,
        .call_count = BUDGET_CALLS + payload.len / BUDGET_BYTES_PER_CALL,
    };
    static const uint8_t nothing;
    const ProtobufCMessage *unpacked = protobuf_c_message_unpack(
        table->descriptor, &budget.allocator, payload.len, payload.len ? payload.data : &nothing);
    if (!unpacked && budget.exceeded)
        return error_set(err, ERR_LIMIT, "message '%s' is over its memory budget", table->name);
    if (!unpacked)
        return error_set(err, ERR_INVALID, "message '%s' is malformed", table->name);
    return unpack_fields(table, unpacked, arena, message, err);
}
