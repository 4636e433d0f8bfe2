#include "gateway/mailbox.h"

#include "gateway/prepare_pool.h"

void mailbox_init(struct mailbox *box) {
    *box = (struct mailbox){0};
    pthread_mutex_init(&box->mutex, NULL);
}

void mailbox_release(struct mailbox *box) {
    for (struct mail *m = mailbox_take(box), *next; m; m = next) {
        next = m->next;
        mail_free(m);
    }
    pthread_mutex_destroy(&box->mutex);
}

struct mail *mail_new(enum mail_kind kind, uint32_t items, uint32_t tokens, uint32_t logprobs, bool has_logprobs) {
    size_t words = (size_t)tokens * (has_logprobs ? 2 : 1) + (has_logprobs ? 2 * (size_t)logprobs : 0);
    size_t bytes = sizeof(struct mail) + items * sizeof(struct mail_item) + words * sizeof(uint32_t);
    struct mail *m = mem_alloc(bytes);
    m->kind = kind;
    m->bytes = bytes;
    m->item_cap = items;
    m->items = (struct mail_item *)(m + 1);
    m->tokens = (uint32_t *)(m->items + items);
    if (!has_logprobs) return m;
    m->logprob_counts = m->tokens + tokens;
    m->logprob_ids = m->logprob_counts + tokens;
    m->logprob_values = (float *)(m->logprob_ids + logprobs);
    return m;
}

void mail_free(struct mail *mail) {
    prepare_job_free(mail->job);
    mem_free(mail);
}

bool mailbox_put(struct mailbox *box, struct mail *mail) {
    pthread_mutex_lock(&box->mutex);
    bool taken = mail->kind != MAIL_DELTAS || box->bytes + mail->bytes <= MAILBOX_BYTES_MAX;
    if (taken) {
        if (box->last)
            box->last->next = mail;
        else
            box->first = mail;
        box->last = mail;
        box->bytes += mail->bytes;
    }
    pthread_mutex_unlock(&box->mutex);
    if (!taken) mail_free(mail);
    return taken;
}

bool mailbox_needs_wake(struct mailbox *box) {
    pthread_mutex_lock(&box->mutex);
    bool needs = box->first && !box->woken;
    if (needs) box->woken = true;
    pthread_mutex_unlock(&box->mutex);
    return needs;
}

void mailbox_wake_failed(struct mailbox *box) {
    pthread_mutex_lock(&box->mutex);
    box->woken = false;
    pthread_mutex_unlock(&box->mutex);
}

struct mail *mailbox_take(struct mailbox *box) {
    pthread_mutex_lock(&box->mutex);
    struct mail *first = box->first;
    box->first = box->last = NULL;
    box->bytes = 0;
    box->woken = false;
    pthread_mutex_unlock(&box->mutex);
    return first;
}
