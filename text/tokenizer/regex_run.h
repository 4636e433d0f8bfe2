/*
 * regex_run.h - looks for a pattern of a model's files in a client's text, within a number of
 * steps.
 *
 * Such a pattern is somebody else's program. PCRE2 has a limit for a match from one place; of
 * "a*?b|." each match is short and reads the whole rest of a text of a's, so a million letters
 * would take a million times a million steps. So steps are counted over all matches in a text, of
 * all its patterns together, and a text may take so many for each of its bytes.
 *
 * A step is an item of the pattern that is tried, or a byte that an item ran over; where the item is
 * a large class, or the pattern repeats or repeats back much, they count for more. They are counted
 * in callouts in front of each item: the same every time, on every machine. That costs about half of
 * the speed of PCRE2, so patterns that known_splits.h lists are compiled without.
 *
 * Threading: a struct regex is const; a struct regex_run belongs to one thread at a time.
 */
#ifndef TEXT_TOKENIZER_REGEX_RUN_H
#define TEXT_TOKENIZER_REGEX_RUN_H

#include "text/tokenizer/regex_text.h"

enum {
    REGEX_STEPS_BYTE = 1024,    /* for each byte of a text */
    REGEX_STEPS_TEXT = 1 << 20, /* for a text, however short */
};

struct pcre2_real_match_data_8;
struct pcre2_real_match_context_8;

/* What looking for patterns needs, and the steps of one text. Zeroed: none was taken, and none may
 * be. */
struct regex_run {
    struct pcre2_real_match_data_8 *match;      /* owned */
    struct pcre2_real_match_context_8 *context; /* owned */
    uint64_t used, allowed;
    bool refused; /* a match was, since the text began */
    /* of the match that is tried */
    const struct regex *regex;
    size_t at;       /* where its last item began */
    uint64_t weight; /* of a byte that this item runs over */
};

/* Begins a text: no step was taken, and so many may be. */
void regex_run_begin(struct regex_run *run, uint64_t steps);
/* As many steps more as bytes of text deserve. */
void regex_run_allow(struct regex_run *run, size_t bytes);
/* Gives back all memory; run is zeroed. */
void regex_run_release(struct regex_run *run);
/* The next match in text (valid UTF-8, borrowed) at or behind `at`: 1 with *begin <= *end, 0: none.
 * ERR_LIMIT: one match takes too long, or all of them take more steps than are allowed. */
MUST_CHECK int regex_run_find(struct regex_run *run, const struct regex *regex, struct bytes text,
                              size_t at, size_t *begin, size_t *end, struct error *err);
/* The next match that is to be replaced, as regex_run_find from *at on, which goes on behind it: 0 at
 * first. `done` is where the last one ended, 0: there was none; an empty match right there is none. */
MUST_CHECK int regex_run_next(struct regex_run *run, const struct regex *regex, struct bytes text,
                              size_t *at, size_t done, size_t *begin, size_t *end);

#endif
