/*
 * grammar_store.h - constraints that are compiled for this model, by the hash that the scheduler
 * gave them.
 *
 * A thread of its own compiles, and gives way to those that compute, so that no step waits for it:
 * the scheduler sends Prepare, and admits a sequence only where the answer was Ready. What is ready
 * stays for GRAMMAR_HOLD_MS from the last Prepare on, and while a slot uses it; the scheduler asks
 * again well before. Beyond that it is kept while the budget of bytes has room, least recently used
 * going first. When there is no room, what is asked for waits until there is.
 *
 * The model's tokens are sorted (grammar/vocab.h) when the first constraint comes.
 *
 * Invariants:
 *   (1) Each Prepare is answered once, by Ready or Failed.
 *   (2) An entry in use, or held, is never freed.
 *   (3) Positions are a function of a sequence's tokens: any worker goes on from them.
 *
 * Threading: prepare, fd and answer by the control thread; take, run, give by the compute thread,
 * which alone uses the runs it has taken.
 */
#ifndef WORKER_GRAMMAR_STORE_H
#define WORKER_GRAMMAR_STORE_H

#include "base/buf.h"
#include "base/error.h"
#include "grammar/grammar.h"
#include "proto/messages.h"

enum { GRAMMAR_HOLD_MS = 10000, GRAMMAR_STORE_BYTES = 256 << 20 };

struct grammar_store;
struct grammar_entry;

/* bundle: the model's text files, borrowed; token_count: the width of its logits; bytes_max: of what
 * is kept. ERR_IO: no thread. */
MUST_CHECK int grammar_store_new(struct grammar_store **out, struct bytes bundle,
                                 uint32_t token_count, size_t bytes_max, struct error *err);
/* Nothing may be taken. */
void grammar_store_free(struct grammar_store **store);

/* Copies the text. Compiles it, unless it is there. */
void grammar_store_prepare(struct grammar_store *store, struct u128 hash,
                           enum wire_grammar_kind kind, struct bytes text);
/* Readable when an answer waits. */
int grammar_store_fd(const struct grammar_store *store);
/* The next answer: true; *failed is its text, or empty: it is ready. */
MUST_CHECK bool grammar_store_answer(struct grammar_store *store, struct u128 *hash,
                                     struct error *failed);

/* The entry, held until it is given back; NULL: it is not ready here. */
struct grammar_entry *grammar_store_take(struct grammar_store *store, struct u128 hash);
/* What it was compiled to; borrowed until the entry is given back. NULL: it is a list of tokens. */
struct grammar_run *grammar_entry_run(struct grammar_entry *entry);
/* The tokens of WIRE_GRAMMAR_TOKENS, with which a sequence begins; borrowed likewise. */
struct tokens grammar_entry_tokens(const struct grammar_entry *entry);
/* Its matchers are freed. */
void grammar_store_give(struct grammar_store *store, struct grammar_entry *entry);

struct grammar_store_counts {
    uint64_t compiled, failed, evicted, bytes;
    uint32_t entries, waiting;
};
/* What it did since its start, and holds now. */
struct grammar_store_counts grammar_store_counts(struct grammar_store *store);

#endif
