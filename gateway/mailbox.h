/*
 * mailbox.h - what the control thread tells an event thread: a list that is taken whole.
 *
 * The event thread is woken once for however many mails wait, and takes them all in one turn: when it falls behind,
 * several tokens of a stream share one write, and nothing else changes.
 *
 * Invariant: `woken` is true from a successful wake until the list is taken, so at most one wake is under way.
 *
 * Threading: mailbox_put from any thread, mailbox_take from the owner.
 */
#ifndef GATEWAY_MAILBOX_H
#define GATEWAY_MAILBOX_H

#include <pthread.h>

#include "proto/frame.h"

enum { MAILBOX_BYTES_MAX = 256 << 20 };

struct prepare_job;

enum mail_kind {
    MAIL_DELTAS,     /* items, tokens, ... */
    MAIL_REJECT,     /* reject */
    MAIL_REGISTERED, /* a scheduler took us: submit everything (again) to `epoch` */
    MAIL_LOST,       /* it is gone: nothing sent now arrives */
    MAIL_MODELS,     /* a model became servable */
    MAIL_PREPARED,   /* job: a long prompt is ready */
};

/* A run of tokens, as in struct wire_deltas, with the places of its tokens in the mail's columns. */
struct mail_item {
    struct u128 request, fingerprint;
    uint32_t attempt, choice, index, token_count, finish, cached_count, flags;
    uint32_t token_at, logprobs_at;
};

struct mail_reject {
    struct u128 request;
    uint32_t attempt, code, retry_after_ms;
    char text[256];
};

struct mail {
    struct mail *next;
    enum mail_kind kind;
    struct epoch epoch;
    size_t bytes;
    struct mail_reject reject;
    struct prepare_job *job; /* owned until taken out */
    struct mail_item *items; /* this and the columns lie behind the struct: one allocation */
    uint32_t item_count, item_cap;
    uint32_t *tokens;
    uint32_t *logprob_counts; /* one a token: entries of it in the columns below; NULL: the mail has none */
    uint32_t *logprob_ids;
    float *logprob_values;
    uint32_t token_count, logprob_count;
};

struct mailbox {
    pthread_mutex_t mutex;
    struct mail *first, *last; /* owned */
    size_t bytes;
    bool woken;
};

void mailbox_init(struct mailbox *box);
void mailbox_release(struct mailbox *box);
/* A mail of the given kind with room for so many items, tokens and log-probabilities (0 logprobs: no columns). Returns
 * owned. */
struct mail *mail_new(enum mail_kind kind, uint32_t items, uint32_t tokens, uint32_t logprobs, bool has_logprobs);
void mail_free(struct mail *mail);
/* Takes the mail. False: the box is full and the mail was dropped (only MAIL_DELTAS are). */
bool mailbox_put(struct mailbox *box, struct mail *mail);
/* True when something waits and nobody was woken for it: the caller wakes the owner, or gives the duty back with
 * mailbox_wake_failed. */
bool mailbox_needs_wake(struct mailbox *box);
void mailbox_wake_failed(struct mailbox *box);
/* Returns the list, owned by the caller. */
struct mail *mailbox_take(struct mailbox *box);

#endif
