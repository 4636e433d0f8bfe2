#include "gateway/generation/delivery.h"

void delivery_init(struct delivery *d, struct u128 request, uint32_t choice_count) {
    *d = (struct delivery){.request = request,
                           .choice_count = choice_count,
                           .open_count = choice_count,
                           .quiet_ms = DELIVERY_QUIET_MS};
    d->choices = mem_calloc(choice_count, sizeof *d->choices);
}

void delivery_release(struct delivery *d) {
    for (uint32_t i = 0; i < d->choice_count; i++)
        mem_free(d->choices[i].ids);
    mem_free(d->choices);
    *d = (struct delivery){0};
}

static bool is_current(const struct delivery *d, const struct delivery_run *run) {
    return d->submitted && run->attempt == d->attempt && epoch_compare(run->epoch, d->epoch) == 0 &&
           run->choice < d->choice_count;
}

static bool may_ask(struct delivery_choice *c, int64_t now_ms) {
    bool may = c->ask_ms == 0 || now_ms - c->ask_ms >= DELIVERY_ASK_AGAIN_MS;
    if (may)
        c->ask_ms = now_ms;
    return may;
}

enum delivery_verdict delivery_accept(struct delivery *d, const struct delivery_run *run,
                                      int64_t now_ms, uint32_t *skip, bool *ask) {
    *ask = false;
    *skip = 0;
    if (!is_current(d, run))
        return DELIVERY_STALE;
    struct delivery_choice *c = &d->choices[run->choice];
    d->accepted = true;
    d->heard_ms = now_ms;
    d->quiet_ms = DELIVERY_QUIET_MS;
    if (c->finished) {
        *ask = !c->confirmed && run->count > 0 && may_ask(c, now_ms);
        return DELIVERY_FINISHED;
    }
    if (run->index > c->count) {
        *ask = may_ask(c, now_ms);
        return DELIVERY_GAP;
    }
    uint64_t end = (uint64_t)run->index + run->count;
    if (end < c->count || (end == c->count && !run->finish))
        return DELIVERY_DUPLICATE;
    *skip = c->count - run->index;
    c->ask_ms = 0;
    return DELIVERY_TAKE;
}

void delivery_take(struct delivery *d, uint32_t choice, uint32_t id, float sampler_state) {
    struct delivery_choice *c = &d->choices[choice];
    CHECK(!c->finished);
    if (c->count == c->cap) {
        c->cap = c->cap ? c->cap + c->cap / 2 : 32;
        c->ids = mem_realloc(c->ids, c->cap * sizeof *c->ids);
    }
    c->ids[c->count++] = id;
    c->sampler_state = sampler_state;
}

void delivery_finish(struct delivery *d, uint32_t choice, bool confirmed) {
    if (d->choices[choice].finished)
        return;
    d->choices[choice].finished = true;
    d->choices[choice].confirmed = confirmed;
    d->open_count--;
}

enum delivery_due delivery_due(struct delivery *d, int64_t now_ms) {
    if (delivery_is_done(d))
        return DELIVERY_NOTHING;
    if (!d->accepted) {
        if (d->submitted && now_ms - d->submit_ms < DELIVERY_SUBMIT_AGAIN_MS)
            return DELIVERY_NOTHING;
        d->submitted = true;
        d->submit_ms = now_ms;
        return DELIVERY_SUBMIT;
    }
    if (now_ms - d->heard_ms < d->quiet_ms)
        return DELIVERY_NOTHING;
    d->heard_ms = now_ms;
    d->quiet_ms = MIN(2 * d->quiet_ms, DELIVERY_QUIET_MAX_MS);
    return DELIVERY_ASK;
}

void delivery_retry(struct delivery *d) {
    d->resumed |= d->accepted; /* what was taken once is not new */
    if (d->submitted)
        d->attempt++;
    d->submitted = d->accepted = false;
    d->quiet_ms = DELIVERY_QUIET_MS;
    for (uint32_t i = 0; i < d->choice_count; i++)
        d->choices[i].ask_ms = 0;
}

void delivery_restart(struct delivery *d, struct epoch epoch) {
    d->resumed |= d->submitted;
    delivery_retry(d);
    d->epoch = epoch;
}

void delivery_submitted(struct delivery *d, struct epoch epoch, int64_t now_ms) {
    d->epoch = epoch;
    d->submitted = true;
    d->submit_ms = now_ms;
}

void delivery_attached(struct delivery *d, uint32_t attempt, struct epoch epoch, int64_t now_ms) {
    CHECK(!d->submitted);
    d->attempt = attempt;
    d->epoch = epoch;
    d->submitted = d->accepted = d->resumed = true;
    d->submit_ms = d->heard_ms = now_ms;
}
