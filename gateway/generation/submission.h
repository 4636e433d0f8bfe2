/*
 * submission.h - one prompt of a generation, with its choices, as the scheduler knows it: from its
 * first Submit to its end, whatever happens to schedulers meanwhile.
 *
 * A prompt that is echoed is computed as output: the scheduler's prompt is its first token, the
 * others are a list of tokens with which each choice begins (WIRE_GRAMMAR_TOKENS). So they come with
 * their log-probabilities, in order, and like any output after whatever happens.
 *
 * It holds the tokens taken so far (delivery.h), so that it can be submitted again to another
 * scheduler, and the text that they became (choice.h).
 *
 * Threading: the event thread of its generation.
 */
#ifndef GATEWAY_GENERATION_SUBMISSION_H
#define GATEWAY_GENERATION_SUBMISSION_H

#include "gateway/answers/choice.h"
#include "gateway/generation/event_thread.h"
#include "gateway/prompts/prepare.h"

struct generation;

/* What all submissions of a generation have in common. */
struct submit_terms {
    struct served_model *model; /* a reference, once prepared */
    struct prepared prepared;   /* owned; its prompts have moved to the submissions */
    struct buf presentation;    /* owned; opaque to the scheduler: for whoever resumes the stream */
    struct buf cache_salt;      /* owned */
    struct buf stream; /* owned; what its client calls it, to resume it; empty: it cannot */
    bool counted;      /* another of its request has its place among its key's requests */
    bool progress;     /* its client is told how far the prompt has been computed */
    bool detach;       /* its client is gone: it runs on for whoever resumes it */
    struct u128 tenant;
    struct u128 holder; /* whose places, room and shares it takes (open_holder) */
    int32_t priority;
    int64_t deadline_ms; /* of the thread's clock; 0: none */
};

struct submission {
    struct generation *generation;    /* borrowed */
    struct event_thread *thread;      /* borrowed */
    const struct submit_terms *terms; /* borrowed: the generation's */
    struct delivery delivery;
    struct choice *choices;  /* owned: delivery.choice_count */
    int64_t *token_us;       /* owned: when each choice last got tokens */
    struct token_vec prompt; /* owned */
    uint32_t max_tokens;     /* output tokens of each choice */
    uint32_t prompt_idx;     /* of its request's prompts */
    uint32_t cached_tokens;  /* of the prompt; valid when cached_known */
    bool cached_known;
    uint32_t prompt_told;    /* of its prompt, computed: what its client was told last */
    int64_t prompt_begun_us; /* when the first of it was told; 0: nothing was */
    uint32_t long_runs;      /* of it that wait for their turn, and whether */
    bool missed;             /* something came behind them, which has to be asked for again */
    bool cut;                /* its reasoning was ended: the scheduler must go on behind that */
    bool no_memory;          /* there was none for its Submit: so, too */
    bool too_large;          /* its Submit is past what a frame may have: the next tick fails it */
    struct u128 fingerprint; /* of the replica that made the latest tokens; zero: none yet */
};

/* Prompt and limit are those of terms->prepared at prompt_idx (moved out of it); choice i gets
 * index prompt_idx * choice_count + i. 0, or a code with *err filled; must be released either way.
 * Found by `request` in the thread's map from here on. */
MUST_CHECK int submission_init(struct submission *sub, struct generation *generation,
                               struct event_thread *thread, struct submit_terms *terms,
                               struct u128 request, uint32_t prompt_idx, uint32_t choice_count,
                               struct choice_config *config, struct error *err);
/* Cancels what runs; what was taken is still acknowledged when the scheduler finished it. */
void submission_release(struct submission *sub);

/* Hands it to the scheduler, if there is one; else it goes when one registers. */
void submission_submit(struct submission *sub);
/* Again, with the tokens held: to a new scheduler, or one that does not know it any more. */
void submission_resubmit(struct submission *sub, bool paused);
/* Tokens were put behind those that the scheduler made: it goes on from there. */
void submission_go_on(struct submission *sub, bool paused);
/* The scheduler refused it for now: the next tick submits it anew. */
void submission_retry(struct submission *sub);
/* What time has made due: another Submit, or questions for what may be lost. */
void submission_tick(struct submission *sub);

#endif
