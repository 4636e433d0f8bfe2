#include "gateway/link/mailbox.h"

#include "gateway/calls/text_calls.h"
#include "gateway/prompts/prepare_pool.h"

void mailbox_init(struct mailbox *box) {
    *box = (struct mailbox){0};
    pthread_mutex_init(&box->mutex, NULL);
}

void mailbox_release(struct mailbox *box) {
    for (struct mail *m = mailbox_take_all(box), *next; m; m = next) {
        next = m->next;
        mail_free(m);
    }
    pthread_mutex_destroy(&box->mutex);
}

struct mail *mail_new(enum mail_kind kind, const struct mail_size *size) {
    static const struct mail_size none;
    const struct mail_size *n = size ? size : &none;
    size_t columns = (n->has_states ? n->tokens : 0) +
                     (n->has_logprobs ? n->tokens + 2 * (size_t)n->logprobs : 0);
    size_t words = (size_t)n->tokens + columns + n->values;
    size_t bytes =
        sizeof(struct mail) + n->items * sizeof(struct mail_item) + words * sizeof(uint32_t);
    struct mail *m = mem_alloc(bytes);
    m->kind = kind;
    m->bytes = bytes;
    m->item_cap = n->items;
    m->items = (struct mail_item *)(m + 1);
    m->tokens = (uint32_t *)(m->items + n->items);
    uint32_t *at = m->tokens + n->tokens;
    m->vectors = (float *)(at + columns);
    if (n->has_states) {
        m->sampler_states = (float *)at;
        at += n->tokens;
    }
    if (!n->has_logprobs)
        return m;
    m->logprob_counts = at;
    m->logprob_ids = m->logprob_counts + n->tokens;
    m->logprob_values = (float *)(m->logprob_ids + n->logprobs);
    return m;
}

void mail_keep(struct mail *mail) {
    mail->keepers++;
}

void mail_free(struct mail *mail) {
    if (mail->keepers) {
        mail->keepers--;
        return;
    }
    prepare_job_free(mail->job);
    text_job_free(mail->text);
    buf_release(&mail->submit);
    mem_free(mail);
}

struct mail_cursor mail_cursor_at(const struct mail *mail, const struct mail_item *item) {
    return (struct mail_cursor){mail, item, 0, item->logprobs_at};
}

bool mail_next_token(struct mail_cursor *c, struct mail_token *out) {
    const struct mail *mail = c->mail;
    if (c->token_idx == c->item->token_count)
        return false;
    uint32_t at = c->item->token_at + c->token_idx++;
    CHECK(at < mail->token_count);
    *out =
        (struct mail_token){.id = mail->tokens[at],
                            .is_last = c->token_idx == c->item->token_count,
                            .sampler_state = mail->sampler_states ? mail->sampler_states[at] : 0};
    if (!mail->logprob_counts)
        return true;
    out->logprob_ids = mail->logprob_ids + c->logprob_at;
    out->logprob_values = mail->logprob_values + c->logprob_at;
    out->logprob_count = mail->logprob_counts[at];
    c->logprob_at += out->logprob_count;
    CHECK(c->logprob_at <= mail->logprob_count);
    return true;
}

bool mailbox_push(struct mailbox *box, struct mail *mail) {
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
    if (!taken)
        mail_free(mail);
    return taken;
}

bool mailbox_needs_wake(struct mailbox *box) {
    pthread_mutex_lock(&box->mutex);
    bool needs = box->first && !box->woken;
    if (needs)
        box->woken = true;
    pthread_mutex_unlock(&box->mutex);
    return needs;
}

void mailbox_wake_failed(struct mailbox *box) {
    pthread_mutex_lock(&box->mutex);
    box->woken = false;
    pthread_mutex_unlock(&box->mutex);
}

struct mail *mailbox_take_all(struct mailbox *box) {
    pthread_mutex_lock(&box->mutex);
    struct mail *first = box->first;
    box->first = box->last = NULL;
    box->bytes = 0;
    box->woken = false;
    pthread_mutex_unlock(&box->mutex);
    return first;
}
