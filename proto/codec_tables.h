/*
 * codec_tables.h - what codec.c walks: for each struct of messages.h its fields in order of their
 * number on the wire.
 *
 * Private to proto/. Rows are in the order of protobuf-c's field descriptors (ascending numbers)
 * and complete, so that row i is descriptor field i; the decoder CHECKs it.
 */
#ifndef PROTO_CODEC_TABLES_H
#define PROTO_CODEC_TABLES_H

#include <protobuf-c/protobuf-c.h>

#include "base/error.h"
#include "proto/messages.h"

/* How a field lies in our struct, and what it is on the wire. */
enum field_type {
    FIELD_BOOL,    /* bool */
    FIELD_U32,     /* uint32_t, also enums: uint32 or enum */
    FIELD_I32,     /* int32_t: sint32 */
    FIELD_U64,     /* uint64_t: uint64 */
    FIELD_F32,     /* float, finite: float */
    FIELD_U128,    /* struct u128: bytes, 16 or none */
    FIELD_TEXT,    /* struct bytes, UTF-8: bytes */
    FIELD_BLOB,    /* struct bytes: bytes */
    FIELD_U32S,    /* struct u32s or tokens: bytes, a column */
    FIELD_F32S,    /* struct f32s: bytes, a column */
    FIELD_U128S,   /* struct u128s: bytes, a column */
    FIELD_STRUCT,  /* embedded struct: a message; absent is all zero */
    FIELD_STRUCTS, /* pointer and count: a repeated message */
};

struct message_table;
struct message_field {
    const char *name;
    uint16_t number; /* on the wire */
    uint8_t type;    /* enum field_type */
    uint16_t offset, count_offset;
    uint64_t min,
        /* of the number; of the bytes of a text or blob; of the items of a column or list. I32:
         * cast to int64_t */
        max;
    const struct message_table *table; /* FIELD_STRUCT, FIELD_STRUCTS */
};

struct message_table {
    const char *name;
    size_t size; /* of our struct */
    const ProtobufCMessageDescriptor *descriptor;
    const struct message_field *fields;
    size_t field_count;
    /* What one field alone does not show: 0 or ERR_INVALID. NULL: nothing. */
    int (*check)(const void *message, struct error *err);
};

/* NULL for kinds without a table. */
const struct message_table *message_table_of(uint32_t kind);

/* codec_check.c: how the fields of a message must fit each other. 0, or ERR_INVALID with *err (may
 * be NULL) filled. */
#include "wire_checks.h" /* made from trireme.proto */

#endif
