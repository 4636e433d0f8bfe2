/*
 * sglang.h - what an answer of SGLang's /generate keeps beside its choices.
 *
 * Threading: the event thread of its generation.
 */
#ifndef GATEWAY_DIALECTS_SGLANG_H
#define GATEWAY_DIALECTS_SGLANG_H

struct sglang_state;

/* Frees it; *state may be NULL. */
void sglang_state_free(struct sglang_state **state);

#endif
