/*
 * response_store.h - answers of /v1/responses that are kept in this process's memory: what GET
 * tells of them, the conversation that the next request may go on from, and the events of those
 * that run in the background.
 *
 * They end with the process, and other gateways do not know them (docs/decisions.md).
 *
 * Invariants:
 *   (1) The bytes of all listed answers are at most the budget. Past it answers leave, the oldest
 *       of the holders that hold most first, running ones too. A holder is a key, or where none is
 *       asked for an address; addresses share RESPONSE_ADDRESSES accounts, drawn by a secret hash, so
 *       that nobody's many addresses make the search for the largest long.
 *   (2) A number is found under the tenant that it was added with, and under no other.
 *   (3) An answer that has left stays readable for those who hold a reference, and takes no more.
 *
 * Threading: every call from any thread; one mutex, held for copies.
 */
#ifndef GATEWAY_ANSWERS_RESPONSE_STORE_H
#define GATEWAY_ANSWERS_RESPONSE_STORE_H

#include "base/buf.h"

enum { RESPONSE_ADDRESSES = 256 };

struct response_store;
struct kept_response;

/* bytes_max 0: keeps nothing. Returns owned. */
struct response_store *response_store_new(uint64_t bytes_max);
/* When no reference is held any more. Clears the pointer. */
void response_store_free(struct response_store **store);
/* Bytes of all that is kept. */
uint64_t response_store_bytes(struct response_store *store);
/* How many responses are kept. */
size_t response_store_count(struct response_store *store);

/* What an answer begins with; the object is copied. */
struct kept_contents {
    struct u128 number, tenant;
    struct u128 address; /* whose room it takes when the tenant is zero */
    struct bytes object; /* as GET answers it */
    /* taken, as conversations may be long: empty afterwards; NULL: none */
    struct buf *items; /* its input, comma-separated objects */
    struct buf *turns; /* messages of the conversation, comma-separated */
    uint32_t turn_count;
    bool running; /* in the background; else this is all */
    bool streams; /* events will be appended */
};
/* Returns a reference; NULL: it is larger than the whole budget, or memory is out. */
struct kept_response *response_store_add(struct response_store *store,
                                         const struct kept_contents *contents);
/* Returns a reference; NULL: there is none. */
struct kept_response *response_store_find(struct response_store *store, struct u128 number,
                                          struct u128 tenant);
/* Gives a reference back; NULL is fine. */
void kept_response_put(struct response_store *store, struct kept_response *kept);

/* Takes it out; one that runs is dropped. False: it had left. */
bool response_store_remove(struct response_store *store, struct kept_response *kept);
/* One that runs is dropped, and its object says so from now on; one that has ended stays as it is.
 * False: it never was in the background. */
bool kept_response_cancel(struct response_store *store, struct kept_response *kept,
                          void (*rewrite)(struct buf *object));
/* Appends events, each ended by a blank line. */
void kept_response_append(struct response_store *store, struct kept_response *kept,
                          struct bytes events);
/* How one that ran has ended; copied, but for the turns. */
struct kept_end {
    struct bytes object, events; /* events: the last ones */
    struct buf *turns;           /* taken; NULL: none */
    uint32_t turn_count;
};
/* Puts the end in: the object and turns replace those before, the events are appended. Nothing
 * where it does not run any more. */
void kept_response_end(struct response_store *store, struct kept_response *kept,
                       const struct kept_end *end);

/* The messages of one that does not run, with commas between, and how many. Borrowed while the
 * reference is held: they do not change any more. */
struct bytes kept_response_turns(struct response_store *store, struct kept_response *kept,
                                 uint32_t *count);

/* ---- reading: copies, appended to out ---- */

/* The object, as GET answers it. */
void kept_response_object(struct response_store *store, struct kept_response *kept,
                          struct buf *out);
/* The items of its input, with commas between. */
void kept_response_items(struct response_store *store, struct kept_response *kept, struct buf *out);
/* Events from the byte *at on, at most max bytes but whole events; *at moves behind them. True
 * while more may come. */
bool kept_response_events(struct response_store *store, struct kept_response *kept, size_t *at,
                          size_t max, struct buf *out);
/* Where the event behind `count` events begins; false: there are not so many yet. */
bool kept_response_seek(struct response_store *store, struct kept_response *kept, uint64_t count,
                        size_t *at);
/* Still in the store: not deleted, and no newer one has its room. */
bool kept_response_is_listed(struct response_store *store, struct kept_response *kept);
/* Cancelled, or out of the store. */
bool kept_response_is_dropped(struct response_store *store, struct kept_response *kept);
/* In the background, and not ended yet. */
bool kept_response_is_running(struct response_store *store, struct kept_response *kept);
/* Whether it was made with events. */
bool kept_response_streams(const struct kept_response *kept);

#endif
