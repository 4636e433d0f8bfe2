#include "proto/codec_tables.h"

#include "proto/codec.h"
#include "trireme.pb-c.h"

/* Bounds that messages.h leaves to the frame's length. */
enum {
    ITEMS_MAX = 1 << 20,  /* rows of Ack and Deltas */
    FLOATS_MAX = 1 << 24, /* vectors, logprobs */
    MEDIA_MAX = 4096,
    STATE_MAX = 1 << 20, /* sampler_state */
    STEP_CREDIT_MAX = 64,
    RANKS_MAX = 1024,
    BLOCK_TOKENS_MAX = 1 << 20,
    HEARTBEAT_MS_MAX = 60 * 1000,
    SILENCE_MS_MAX = 3600 * 1000
};

/* offsetof that also checks the member's type. */
#define AT(s, f, type)                                                                             \
    (offsetof(struct s, f) +                                                                       \
     0 * sizeof(                                                                                   \
             char[__builtin_types_compatible_p(__typeof__(((struct s *)0)->f), type) ? 1 : -1]))
#define AT_4_BYTES(s, f)                                                                           \
    (offsetof(struct s, f) + 0 * sizeof(char[sizeof(((struct s *)0)->f) == 4 ? 1 : -1]))
#define ROW(no, kind, at, f, lo, hi)                                                               \
    { .name = #f, .number = no, .type = kind, .offset = (uint16_t)(at), .min = lo, .max = hi }

#define BOOL(no, s, f)         ROW(no, FIELD_BOOL, AT(s, f, bool), f, 0, 1)
#define ENUM(no, s, f, lo, hi) ROW(no, FIELD_U32, AT_4_BYTES(s, f), f, lo, hi)
#define U32(no, s, f, lo, hi)  ROW(no, FIELD_U32, AT(s, f, uint32_t), f, lo, hi)
#define ANY32(no, s, f)        U32(no, s, f, 0, UINT32_MAX)
#define I32(no, s, f, lo, hi)                                                                      \
    ROW(no, FIELD_I32, AT(s, f, int32_t), f, (uint64_t)(int64_t)(lo), (uint64_t)(int64_t)(hi))
#define ANYI32(no, s, f)     I32(no, s, f, INT32_MIN, INT32_MAX)
#define U64(no, s, f, hi)    ROW(no, FIELD_U64, AT(s, f, uint64_t), f, 0, hi)
#define ANY64(no, s, f)      U64(no, s, f, UINT64_MAX)
#define F32(no, s, f)        ROW(no, FIELD_F32, AT(s, f, float), f, 0, 0)
#define U128(no, s, f)       ROW(no, FIELD_U128, AT(s, f, struct u128), f, 0, 0)
#define TEXT(no, s, f, hi)   ROW(no, FIELD_TEXT, AT(s, f, struct bytes), f, 0, hi)
#define BLOB(no, s, f, hi)   ROW(no, FIELD_BLOB, AT(s, f, struct bytes), f, 0, hi)
#define TOKENS(no, s, f, hi) ROW(no, FIELD_U32S, AT(s, f, struct tokens), f, 0, hi)
#define U32S(no, s, f, hi)   ROW(no, FIELD_U32S, AT(s, f, struct u32s), f, 0, hi)
#define F32S(no, s, f, hi)   ROW(no, FIELD_F32S, AT(s, f, struct f32s), f, 0, hi)
#define U128S(no, s, f, hi)  ROW(no, FIELD_U128S, AT(s, f, struct u128s), f, 0, hi)
#define STRUCT(no, s, f, t)                                                                        \
    {                                                                                              \
        .name = #f, .number = no, .type = FIELD_STRUCT,                                            \
        .offset = (uint16_t)AT(s, f, struct wire_##t), .table = &t##_table                         \
    }
#define STRUCTS(no, s, f, n, t, lo, hi)                                                            \
    {                                                                                              \
        .name = #f, .number = no, .type = FIELD_STRUCTS,                                           \
        .offset = (uint16_t)AT(s, f, const struct wire_##t *),                                     \
        .count_offset = (uint16_t)AT(s, n, size_t), .min = lo, .max = hi, .table = &t##_table      \
    }
#define TABLE(n, check_fn)                                                                         \
    static const struct message_table n##_table = {.name = #n,                                     \
                                                   .size = sizeof(struct wire_##n),                \
                                                   .descriptor = &pb__##n##__descriptor,           \
                                                   .fields = n##_fields,                           \
                                                   .field_count = ARRAY_LEN(n##_fields),           \
                                                   .check = check_fn}

#include "wire_tables.h" /* made from trireme.proto */

#define KIND_ROW(kind, name) [kind] = &name##_table,
static const struct message_table *const TABLES[WIRE_KIND_MAX] = {WIRE_MESSAGES(KIND_ROW)};

const struct message_table *message_table_of(uint32_t kind) {
    return kind < WIRE_KIND_MAX ? TABLES[kind] : NULL;
}
