/*
 * fake_lm.h - a language model that is a hash: the next token depends on all tokens before it and
 * on nothing else, so whoever has the prompt knows the one right text.
 */
#ifndef TESTS_FAKES_FAKE_LM_H
#define TESTS_FAKES_FAKE_LM_H

#include "base/hash.h"

enum { FAKE_WIDTH = 5000 };

static inline uint32_t fake_next(const uint32_t *tokens, size_t count) {
    return (uint32_t)(hash64(tokens, count * 4, 77) % FAKE_WIDTH);
}

#endif
