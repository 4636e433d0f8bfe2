/*
 * mailbox.h - what the control thread tells an event thread: a list that is taken whole.
 *
 * The event thread is woken once for however many mails wait, and takes them all in one turn: when
 * it falls behind, several tokens of a stream share one write, and nothing else changes.
 *
 * Invariant: `woken` is true from a successful wake until the list is taken, so at most one wake is
 * under way.
 *
 * Threading: mailbox_push from any thread, mailbox_take_all from the owner.
 */
#ifndef GATEWAY_LINK_MAILBOX_H
#define GATEWAY_LINK_MAILBOX_H

#include <pthread.h>

#include "base/buf.h"
#include "proto/frame.h"

enum { MAILBOX_BYTES_MAX = 256 << 20 };

struct prepare_job;
struct text_job;

enum mail_kind {
    MAIL_DELTAS,     /* items, tokens, ... */
    MAIL_REJECT,     /* reject */
    MAIL_REGISTERED, /* a scheduler took us: submit everything (again) to `epoch` */
    MAIL_LOST,       /* it is gone: nothing sent now arrives */
    MAIL_MODELS,     /* a model became servable */
    MAIL_PREPARED,   /* job: a long prompt is ready */
    MAIL_TEXT,       /* text: a text call is worked out */
    MAIL_ATTACHED,   /* submit: what was attached to */
    MAIL_OUTCOME,    /* outcome; submit: why not */
};

/* A run of tokens, as in struct wire_deltas, with the places of its tokens in the mail's
 * columns. */
struct mail_item {
    struct u128 request, fingerprint;
    uint32_t attempt, choice, index, token_count, finish, cached_count, flags;
    uint32_t token_at, logprobs_at;
    uint32_t vector_at, vector_width; /* values of its vector; width 0: it has none */
    bool times_told;                  /* the two below are known */
    uint32_t queued_ms, prefill_ms;
    uint32_t prompt_count; /* with WIRE_DELTA_PROGRESS: of its prompt, computed */
    bool goes_on; /* the run began in a piece before (long_runs.h): it is no sign of speed */
};

struct mail_reject {
    struct u128 request;
    uint32_t attempt, code, retry_after_ms;
    char text[256];
};

struct mail_outcome {
    struct u128 ticket;
    bool done, away, gone; /* as struct wire_outcome has them */
};

struct mail {
    struct mail *next;
    enum mail_kind kind;
    uint32_t keepers; /* who frees it besides its owner: the last one does (mail_keep) */
    struct epoch epoch;
    size_t bytes;
    struct mail_reject reject;
    struct mail_outcome outcome;
    struct prepare_job *job; /* owned until taken out */
    struct text_job *text;   /* owned until taken out */
    struct buf submit;       /* a packed Submit, or a text; owned until taken out */
    struct mail_item *items; /* this and the columns lie behind the struct: one allocation */
    uint32_t item_count, item_cap;
    uint32_t *tokens;
    /* one a token: entries of it in the columns below; NULL: the mail has none */
    uint32_t *logprob_counts;
    uint32_t *logprob_ids;
    float *logprob_values;
    float *sampler_states; /* one a token; NULL: the mail has none */
    float *vectors;
    uint32_t token_count, logprob_count, vector_count;
};

/* One token of an item, with its log-probabilities: the chosen token's first, then the best ones;
 * count 0: none. */
struct mail_token {
    uint32_t id;
    bool is_last; /* of the item */
    const uint32_t *logprob_ids;
    const float *logprob_values;
    uint32_t logprob_count;
    float sampler_state; /* behind it */
};

/* Walks the tokens of an item in order. */
struct mail_cursor {
    const struct mail *mail;      /* borrowed */
    const struct mail_item *item; /* borrowed: of the mail */
    uint32_t token_idx, logprob_at;
};

struct mailbox {
    pthread_mutex_t mutex;
    struct mail *first, *last; /* owned */
    size_t bytes;
    bool woken;
};

/* An empty box. */
void mailbox_init(struct mailbox *box);
/* Frees the mail that nobody took. No other thread may use the box any more. */
void mailbox_release(struct mailbox *box);
/* What a mail has room for. */
struct mail_size {
    uint32_t items, tokens, logprobs;
    bool has_logprobs, has_states; /* false: no columns for them */
    uint32_t values;               /* of vectors */
};
/* A mail of the given kind with so much room (NULL: none). Returns owned. */
struct mail *mail_new(enum mail_kind kind, const struct mail_size *size);
/* One mail_free more is needed. On the thread that has taken it. */
void mail_keep(struct mail *mail);
/* And a job that is still in it; where it is kept by others, it stays. */
void mail_free(struct mail *mail);
/* A cursor at the item's first token. */
struct mail_cursor mail_cursor_at(const struct mail *mail, const struct mail_item *item);
/* The next token, borrowed from the mail; false: there is none. */
bool mail_next_token(struct mail_cursor *cursor, struct mail_token *out);
/* Takes the mail. False: the box is full and the mail was dropped (only MAIL_DELTAS are). */
bool mailbox_push(struct mailbox *box, struct mail *mail);
/* True when something waits and nobody was woken for it: the caller wakes the owner, or gives the
 * duty back with mailbox_wake_failed. */
bool mailbox_needs_wake(struct mailbox *box);
/* The owner could not be woken: the next mailbox_needs_wake says true again. */
void mailbox_wake_failed(struct mailbox *box);
/* Returns the list, owned by the caller. */
struct mail *mailbox_take_all(struct mailbox *box);

#endif
