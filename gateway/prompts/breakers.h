/*
 * breakers.h - the texts that end dry's repetitions (dry_sequence_breakers) as a set of tokens: each
 * token whose text holds one of them.
 *
 * To look through a vocabulary takes milliseconds, and clients send the same few lists: the last
 * ones found are kept. Threading: any thread.
 */
#ifndef GATEWAY_PROMPTS_BREAKERS_H
#define GATEWAY_PROMPTS_BREAKERS_H

#include "base/buf.h"
#include "gateway/answers/api_error.h"
#include "text/tokenizer/tokenizer.h"

struct breaker_cache;

/* An empty one. Returns owned. */
struct breaker_cache *breaker_cache_new(void);
/* Frees it and clears the pointer. */
void breaker_cache_free(struct breaker_cache **cache);
/* Appends a bit for each token id, lowest first. -1 with *err filled: all texts must be in some
 * token, and one is in none, so that it could never break anything. */
MUST_CHECK int breakers_find(struct breaker_cache *cache, const struct tokenizer *tokenizer,
                             const struct bytes *texts, uint32_t count, bool all, struct buf *out,
                             struct api_error *err);

#endif
