/*
 * choice.h - one choice of an answer: its tokens become text, its stop strings end it.
 *
 * Tokens go in one by one in order; what text they make certain comes out. The result depends on the tokens alone,
 * never on how they were grouped or when they came, so an answer interrupted by another process's death reads the same
 * as an undisturbed one.
 *
 * What counts as output: every token pushed, up to and including the one that completes a stop string. A stop *token*
 * (the worker's finish) is counted but has no text, unless the client asked for stop text in the output.
 *
 * Threading: one thread at a time.
 */
#ifndef GATEWAY_CHOICE_H
#define GATEWAY_CHOICE_H

#include "text/detokenizer.h"
#include "text/stop.h"

enum choice_finish { CHOICE_RUNNING, CHOICE_STOP, CHOICE_LENGTH, CHOICE_ERROR, CHOICE_DEADLINE };

struct choice {
    uint32_t index;       /* in the answer */
    uint32_t token_count; /* output tokens that count */
    enum choice_finish finish;
    bool has_stops, include_stop_text;
    struct detok detok;
    struct stop stop;
    struct buf scratch;  /* between detokenizer and stop matcher */
    struct buf text;     /* of an answer that is not streamed: all of it */
    struct buf logprobs; /* and the rendered entries of its tokens, comma-separated */
    struct buf ids;      /* and its token ids, comma-separated, when wanted */
    uint32_t text_chars; /* characters put out so far (completions' text_offset) */
};

struct choice_config {
    const struct tokenizer *tokenizer; /* borrowed while the choice lives */
    const struct bytes *stops;
    uint32_t stop_count;
    bool include_stop_text, skip_special;
    bool begins_text; /* the prompt has no text (special tokens alone): rules for the beginning of a text apply */
};

MUST_CHECK int choice_init(struct choice *c, uint32_t index, const struct choice_config *config, struct error *err);
void choice_release(struct choice *c);
/* The next token: appends to out what text is certain now. True when a stop string is complete: the choice has finished
 * with CHOICE_STOP. */
bool choice_push(struct choice *c, uint32_t id, struct buf *out);
/* The next token is a stop token that ends the choice: finishes with CHOICE_STOP, appends the text held back. */
void choice_push_stop(struct choice *c, uint32_t id, struct buf *out);
/* The choice has ended otherwise: appends the text held back. */
void choice_end(struct choice *c, enum choice_finish finish, struct buf *out);
const char *choice_finish_text(enum choice_finish finish); /* "stop", "length", ... of the API */

#endif
