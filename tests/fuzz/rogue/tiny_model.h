/*
 * tiny_model.h - a model that loads in milliseconds: one layer of random weights and the bundled
 * model's text files, in a folder that is made when it is first asked for.
 */
#ifndef TESTS_FUZZ_ROGUE_TINY_MODEL_H
#define TESTS_FUZZ_ROGUE_TINY_MODEL_H

enum { TINY_VOCAB = 3072, TINY_CONTEXT = 128 };

/* Its path; the folder is removed at exit. */
const char *tiny_model(void);

#endif
