/*
 * constraints.h - which tokens the constrained slots may sample next.
 *
 * Each constrained slot has a matcher (grammar/matcher.h), or a list of tokens to begin with, which
 * stands behind the tokens that are known here; or a request's own lists: tokens that may come, and
 * sequences that may not. A step in flight may have sampled one more: its row's mask is made when that token is
 * known, after the layers of the step that needs it are on the device and before its sampler is
 * (forward_load_masks awaits it). So masks are exact whatever is in flight.
 *
 * Only the rank that samples has any.
 *
 * Invariants:
 *   (1) A matcher's position is that of its slot's output tokens, and so is what a sequence that may
 *       not come is compared with, so preemption, a resume elsewhere and the order of batches change
 *       nothing.
 *   (2) Each step is taken once, and in order.
 *
 * Threading: the compute thread.
 */
#ifndef WORKER_CONSTRAINTS_H
#define WORKER_CONSTRAINTS_H

#include "model/run/forward.h"
#include "worker/flight.h"
#include "worker/grammar_store.h"

/* A request's own lists, as the message has them (Sampling). */
struct token_lists {
    struct bytes allowed; /* empty: all */
    struct u32s bad_words;
};

struct slot_constraint {
    bool active;
    struct grammar_entry *entry; /* NULL: no grammar */
    struct matcher *matcher;     /* NULL: it begins with the entry's tokens */
    size_t taken;                /* of these */
    uint64_t admission;
    bool lost;          /* its tokens are none of the grammar's: it may sample nothing */
    void *lists_memory; /* owned: what `lists` is in */
    struct token_lists lists;
    /* the last output tokens, for bad words: the newest at (output_count - 1) % their number */
    uint32_t tail[WIRE_BAD_WORD_TOKENS_MAX];
    uint64_t output_count; /* without those that the entry begins with */
};

struct constraints {
    struct grammar_store *store; /* borrowed */
    struct slot_constraint *slots;
    uint32_t slot_count, word_count;
    uint32_t active; /* slots that have one */
};

/* For slot_count slots that have none, over a vocabulary of token_count tokens. Borrows the store;
 * must be released. */
void constraints_init(struct constraints *c, struct grammar_store *store, uint32_t slot_count,
                      uint32_t token_count);
/* Gives all back. */
void constraints_release(struct constraints *c);
/* No slot has one. */
void constraints_reset(struct constraints *c);
/* The slot has this constraint from now on, behind these output tokens. Takes the entry (NULL: no
 * grammar), copies the lists. Without either the slot has none. */
void constraints_admit(struct constraints *c, uint32_t slot, uint64_t admission,
                       struct grammar_entry *entry, struct token_lists lists, struct tokens output);
/* The slot has none. */
void constraints_remove(struct constraints *c, uint32_t slot);
/* A row of the step samples under a constraint. */
bool constraints_concern(const struct constraints *c, const struct flight *f);
/* The tokens of a step that is done: matchers go on. */
void constraints_take(struct constraints *c, const struct flight *f);
/* No token may come in this row: what ended it without one is its constraint. */
bool constraints_are_stuck(const struct constraints *c, const struct flight *f, uint32_t row);
/* bits [slot_count, word_count] and rows [sample_count] of the step, once all earlier ones are
 * taken. Returns the count of masks. */
uint32_t constraints_fill(struct constraints *c, const struct flight *f, uint32_t *bits,
                          uint32_t *rows);

#endif
