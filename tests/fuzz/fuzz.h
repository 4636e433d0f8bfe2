/*
 * fuzz.h - what a fuzz target is: one function over bytes, in fuzz_<x>.c. Small inputs that reach
 * far lie in corpus/<x>/.
 *
 * The fuzz preset links it with libFuzzer (fuzz_<x>); every other preset links it with replay.c
 * (replay_<x>), which runs the corpus and small changes of it. A target may include the headers of
 * any folder; it links the folders it includes.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#endif
