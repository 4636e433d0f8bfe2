/*
 * rogue.h - messages of a peer that wants harm, made from the codec's tables out of fuzzed bytes.
 *
 * They are well formed nearly always, since what is malformed ends in the codec. Their values are
 * hostile: extremes, and numbers and ids that the other side itself has used in what it sent
 * (rogue_note). A message is drawn whole (rogue_draw), or an honest one is changed in some fields
 * (rogue_change), or one that was sent before is sent again.
 *
 * Threading: one thread.
 */
#ifndef TESTS_FUZZ_ROGUE_ROGUE_H
#define TESTS_FUZZ_ROGUE_ROGUE_H

#include "base/arena.h"
#include "base/buf.h"
#include "proto/messages.h"

enum { ROGUE_NUMBERS = 64, ROGUE_IDS = 32, ROGUE_TEXTS = 8, ROGUE_SENT = 16 };

struct rogue {
    const uint8_t *at, *end; /* borrowed: the input that is left */
    uint64_t numbers[ROGUE_NUMBERS];
    struct u128 ids[ROGUE_IDS];
    size_t number_count, id_count; /* ever noted; the latest are kept */
    struct bytes texts[ROGUE_TEXTS];
    size_t text_count;
    size_t columns;     /* items that the columns of the message being drawn have */
    struct arena arena; /* what drawn messages point to, until the next one */
    struct arena notes;
    struct {
        enum wire_kind kind;
        struct buf payload;
    } sent[ROGUE_SENT];
    size_t sent_count;
};

/* Borrows the input until rogue_release. */
void rogue_init(struct rogue *r, const uint8_t *data, size_t len);
/* Frees all it remembers. */
void rogue_release(struct rogue *r);
/* The next byte of the input; 0 behind its end. */
uint8_t rogue_byte(struct rogue *r);
/* Mostly small, sometimes noted, sometimes extreme. */
uint64_t rogue_number(struct rogue *r);
/* One that was noted, or none, or one of its own. */
struct u128 rogue_id(struct rogue *r);

/* Values to be used in messages from now on. A text is borrowed. */
void rogue_note_number(struct rogue *r, uint64_t number);
void rogue_note_id(struct rogue *r, struct u128 id);
void rogue_note_text(struct rogue *r, const char *text);
/* All that a message from the other side names; one that does not unpack is passed over. */
void rogue_note(struct rogue *r, enum wire_kind kind, struct bytes payload);

/* Fills in *message (message_size bytes) of this kind; it points into the rogue until the next
 * message is drawn. */
void rogue_draw(struct rogue *r, enum wire_kind kind, void *message);
/* Changes some fields of a message, one in eight: one item of a column, fields of a message within
 * it, or all of the field. */
void rogue_change(struct rogue *r, enum wire_kind kind, void *message);
/* Packs into *out (reset first) and remembers it for rogue_again. */
void rogue_pack(struct rogue *r, enum wire_kind kind, const void *message, struct buf *out);
/* One that was packed before: its kind, its bytes in *out. 0: there was none. */
enum wire_kind rogue_again(struct rogue *r, struct buf *out);

#endif
