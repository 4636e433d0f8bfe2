/*
 * tgi.h - what an answer in TGI's form keeps beside its choices.
 *
 * Threading: the event thread of its generation.
 */
#ifndef GATEWAY_DIALECTS_TGI_H
#define GATEWAY_DIALECTS_TGI_H

struct tgi_state;

/* Frees it; *state may be NULL. */
void tgi_state_free(struct tgi_state **state);

#endif
