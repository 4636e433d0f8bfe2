/*
 * choice.h - one choice of an answer: its tokens become text, its stop strings end it.
 *
 * Tokens go in one by one in order; what text they make certain comes out. The result depends on
 * the tokens alone, never on how they were grouped or when they came, so an answer interrupted by
 * another process's death reads the same as an undisturbed one.
 *
 * What counts as output: every token pushed, up to and including the one that completes a stop
 * string or at which a stop pattern is found. A stop *token* (the worker's finish) is counted but has
 * no text, unless the client asked for stop text in the output.
 *
 * A chat's answer is then taken apart (text/parse/parse.h): content comes out, reasoning and tool
 * calls are collected in the choice, for whoever writes the next event or the whole answer.
 *
 * Threading: one thread at a time.
 */
#ifndef GATEWAY_ANSWERS_CHOICE_H
#define GATEWAY_ANSWERS_CHOICE_H

#include "grammar/finder.h"
#include "text/parse/parse.h"
#include "text/stop.h"
#include "text/tokenizer/detokenizer.h"

enum choice_finish {
    CHOICE_RUNNING,
    CHOICE_STOP,
    CHOICE_LENGTH,
    CHOICE_ERROR,
    CHOICE_DEADLINE,
    CHOICE_CALLS,
    CHOICE_ABORTED, /* by its client, who asked for that */
};

struct choice {
    uint32_t index;       /* in the answer */
    uint32_t token_count; /* output tokens that count */
    uint32_t echo_count;  /* tokens still to come that are the prompt's: text, and no more */
    /* of these, inside of reasoning: not the token that completes its mark */
    uint32_t thought_count;
    /* where reasoning has a bound: tokens of its end that the model has written since it was
     * reached, and how often it was ended for the model */
    uint32_t end_count, cut_count;
    bool has_line_end; /* told by whoever needs it */
    enum choice_finish finish;
    bool has_stop_token; /* a token ended it: */
    uint32_t stop_token;
    bool has_stops, include_stop_text;
    struct detok detok;
    struct stop stop;
    const struct finder *patterns; /* borrowed; NULL: none */
    uint32_t pattern_state;
    size_t pattern_idx;    /* of the one found, */
    bool has_pattern;      /* which ended it; its text stays */
    struct buf scratch;    /* between detokenizer and stop matcher */
    struct parser *parser; /* owned; NULL: the text is content as it is */
    struct parse_config parse;
    struct parse_sink sink;
    struct buf raw;       /* between stop matcher and parser */
    struct buf *out;      /* where content goes during a call */
    struct buf reasoning; /* thought since it was last taken */
    struct buf calls;     /* tool calls since then: objects of JSON, comma-separated */
    bool streams, one_call, bare_calls, hide_reasoning;
    uint64_t call_seed;
    struct buf text;            /* of an answer that is not streamed: all of it */
    struct buf logprobs;        /* and the rendered entries of its tokens, comma-separated */
    struct buf ids;             /* and its token ids, comma-separated, when wanted */
    struct buf prompt_logprobs; /* of its prompt: objects of JSON or SGLang's entries */
    double logprob_sum;         /* of its tokens, where choices are compared */
    uint32_t text_chars;        /* characters put out so far (completions' text_offset) */
};

struct choice_config {
    const struct tokenizer *tokenizer; /* borrowed while the choice lives */
    const struct bytes *stops;
    uint32_t stop_count;
    const struct finder *stop_patterns; /* NULL: none; borrowed while the choice lives */
    bool include_stop_text, skip_special;
    /* the prompt has no text (special tokens alone): rules for the beginning of a text apply */
    bool begins_text;
    /* NULL: none; its formats and tools are borrowed while the choice lives */
    const struct parse_config *parse;
    /* calls go out as they come, as a stream's deltas have them */
    bool streams;
    bool whole_calls;    /* of a stream too: each in one piece, and well formed */
    bool one_call;       /* further calls are left out */
    bool bare_calls;     /* of a call there is the name and the arguments alone; with one_call */
    bool hide_reasoning; /* what was thought is left out */
    uint64_t call_seed;  /* the ids of calls come from it */
};

/* index: its place in the answer. Borrows the tokenizer, formats and tools of *config while it
 * lives, copies the rest. 0, or a code with *err filled (a stop string that cannot be matched);
 * must be released either way. */
MUST_CHECK int choice_init(struct choice *c, uint32_t index, const struct choice_config *config,
                           struct error *err);
/* Frees all it holds; a zeroed choice is fine. */
void choice_release(struct choice *c);
/* The next token: appends to out what text is certain now. True when a stop string is complete or a
 * stop pattern found: the choice has finished with CHOICE_STOP. */
bool choice_push(struct choice *c, uint32_t id, struct buf *out);
/* The next token is a stop token that ends the choice: finishes with CHOICE_STOP, appends the text
 * held back. */
void choice_push_stop(struct choice *c, uint32_t id, struct buf *out);
/* The choice has ended otherwise: appends the text held back. */
void choice_end(struct choice *c, enum choice_finish finish, struct buf *out);
/* What comes next is reasoning, as far as is known. */
bool choice_is_thinking(const struct choice *c);
/* Memory was out for part of what it holds. */
bool choice_is_short(const struct choice *c);
/* How the choice ended, as clients are told: CHOICE_CALLS for a stop after tool calls. */
enum choice_finish choice_reported_finish(const struct choice *c);
/* The stop string or pattern that ended it; empty: none did. Borrowed from c. */
struct bytes choice_stop_text(const struct choice *c);
const char *choice_finish_text(enum choice_finish finish); /* "stop", "length", ... of the API */

#endif
