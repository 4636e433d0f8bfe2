/*
 * nfc.h - which characters NFC leaves alone whatever stands around them (Unicode Standard Annex 15,
 * quick check).
 *
 * Nearly all text is in this form already; this finds out at the speed of memory for what most
 * texts are made of, by a table for the rest of the basic plane, and asks utf8proc for what lies
 * above.
 *
 * Threading: nfc_init may be called by any thread, any number of times; the others need it to have
 * returned once.
 */
#ifndef TEXT_TOKENIZER_NFC_H
#define TEXT_TOKENIZER_NFC_H

#include "base/base.h"

/* Makes the tables once; from any thread. */
void nfc_init(void);
/* A starter that is its own NFC and that no character before it combines with. */
bool nfc_is_stable(uint32_t cp);
/* Start of the first character at or after `at`, where a character begins, that is not stable;
 * s.len: all are. Valid UTF-8. */
size_t nfc_skip_stable(struct bytes s, size_t at);

#endif
