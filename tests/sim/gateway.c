/*
 * A fake gateway. It takes a token only if epoch and attempt are the current ones and the index is
 * the next, compares each with the truth, acknowledges, asks again after a gap, submits anew what a
 * new scheduler does not know, and now and then cancels, pauses, dies or sleeps.
 */
#include "sim.h"

static void send_up(struct world *w, uint32_t idx, struct message *m) {
    m->epoch = w->gateways[idx].epoch;
    m->from = w->gateways[idx].instance;
    send_message(w, m, idx, true);
}

static void say_hello(struct world *w, uint32_t idx) {
    struct fake_gateway *g = &w->gateways[idx];
    struct wire_hello hello = {.role = WIRE_ROLE_GATEWAY,
                               .instance = g->instance,
                               .epoch_number = g->epoch.number,
                               .epoch_instance = g->epoch.instance};
    struct message *m = message_new(w, WIRE_HELLO);
    message_set_hello(m, &hello);
    g->welcome = false;
    send_up(w, idx, m);
}

/* ---- Truth ---- */

static void tell_truth(struct truth *t) {
    for (uint32_t c = 0; c < t->choice_count; c++) {
        uint64_t prefix = 1;
        for (uint32_t i = 0; i < t->prompt_count; i++)
            prefix = extend(prefix, t->prompt[i]);
        t->finish[c] = WIRE_FINISH_LENGTH;
        t->token_count[c] = 0;
        while (t->token_count[c] < MIN(t->max_tokens, MAX_CONTEXT - t->prompt_count)) {
            uint32_t token = next_token(t, c, prefix);
            t->tokens[c][t->token_count[c]++] = token;
            prefix = extend(prefix, token);
            if (token == t->stop_token) {
                t->finish[c] = WIRE_FINISH_STOP;
                break;
            }
        }
    }
}

/* What the days of some seeds have beside the usual. Draws of their own leave the others alone. */
enum extra { EXTRA_AHEAD, EXTRA_CHAT };
static bool has_extra(const struct world *w, enum extra extra) {
    return mix(w->seed, 0x64617973) % 4 == extra;
}

/* On some days a prompt is an earlier one and what was answered to it, the next turn of a chat:
 * blocks that were written as output are looked for as prompt. */
static void follow_up(struct world *w, struct truth *t) {
    uint64_t draw = mix(mix(w->seed, 0x7475726e), w->truths.count);
    if (!has_extra(w, EXTRA_CHAT) || draw % 2 || !w->truths.count)
        return;
    const struct truth *turn = &w->truths.items[mix(draw, 1) % w->truths.count];
    uint32_t c = (uint32_t)(mix(draw, 2) % turn->choice_count);
    uint32_t most = MIN(turn->prompt_count + turn->token_count[c], 70);
    for (uint32_t i = 0; i < most; i++)
        t->prompt[i] =
            i < turn->prompt_count ? turn->prompt[i] : turn->tokens[c][i - turn->prompt_count];
    t->prompt_count = MAX(t->prompt_count, most);
}

/* Prompts share beginnings, so that the prefix cache has something to do. */
static uint32_t new_truth(struct world *w) {
    struct truth t = {.id = {.lo = w->truths.count + 1, .hi = w->seed | 1}};
    t.prompt_count = 1 + below(w, chance(w, 4) ? 70 : 24);
    uint64_t family = below(w, 4);
    uint32_t shared = below(w, t.prompt_count + 1);
    for (uint32_t i = 0; i < t.prompt_count; i++)
        t.prompt[i] = i < shared ? (uint32_t)(mix(family, i) % VOCABULARY) : below(w, VOCABULARY);
    follow_up(w, &t);
    t.max_tokens = 1 + below(w, chance(w, 3) ? 60 : 20);
    t.stop_token = below(w, VOCABULARY);
    t.words = VOCABULARY;
    if (w->config.drafts) { /* it repeats itself, and ends within drafts */
        uint64_t draw = mix(mix(w->seed, 0x65636865), w->truths.count);
        t.words = 1 + (uint32_t)(draw % 4);
        t.stop_token = draw / 4 % 4 ? VOCABULARY - 1 : t.words - 1;
    }
    t.choice_count = chance(w, 4) ? 1 + below(w, CHOICES) : 1;
    if (w->killer_count < w->killer_goal && w->truths.count > 5 && chance(w, 3)) {
        w->killer_count++;
        t.killer = true;
        t.choice_count = 1;
        t.kills_at = below(w, t.prompt_count + 4);
    }
    tell_truth(&t);
    vec_push(&w->truths, t);
    return (uint32_t)w->truths.count - 1;
}

/* ---- Submitting ---- */

/* On days with keys whose it is; on others no tenant. */
static struct u128 tenant_of(const struct world *w, const struct gateway_request *r) {
    return w->keyless ? (struct u128){0} : (struct u128){.lo = 1 + r->truth % w->tenants};
}

static void submit(struct world *w, uint32_t idx, struct gateway_request *r) {
    const struct truth *t = &w->truths.items[r->truth];
    struct wire_choice choices[CHOICES];
    for (uint32_t c = 0; c < t->choice_count; c++)
        choices[c] = (struct wire_choice){
            .choice = c, .emitted = {t->tokens[c], r->received[c]}, .finished = r->choice_done[c]};
    struct wire_submit submit = {
        .request = t->id,
        .attempt = r->attempt,
        .kind = WIRE_GENERATE,
        .model = bytes_str(r->truth % 2 ? "m" : ""),
        .prompt = {t->prompt, t->prompt_count},
        .sampling = {.top_p = 1, .repetition_penalty = 1, .logprobs = -1, .seed = t->id.lo},
        .stop_tokens = {&t->stop_token, 1},
        .max_tokens = t->max_tokens,
        .choices = choices,
        .choice_count = t->choice_count,
        .priority = r->priority,
        .tenant = tenant_of(w, r),
        .resumed = r->resumed,
        .resumable = r->resumable,
        .progress = t->id.lo % 3 == 0};
    if (w->keyless) /* addresses share */
        submit.share = (struct u128){.lo = 1 + r->truth % w->tenants};
    if (r->deadline_at)
        submit.deadline_ms = r->deadline_at > w->now ? (uint32_t)(r->deadline_at - w->now) : 1;
    struct message *m = message_new(w, WIRE_SUBMIT);
    message_set_submit(m, &submit);
    r->submitted_at = w->now;
    r->accepted = false;
    trace(w, "submit", idx, t->id.lo, r->attempt, r->received[0]);
    send_up(w, idx, m);
}

static void resubmit(struct world *w, uint32_t idx, struct gateway_request *r) {
    r->attempt++;
    r->resumed = true;
    r->paused = false;
    w->resubmitted++;
    submit(w, idx, r);
}

static void resubmit_all(struct world *w, uint32_t idx) {
    for (uint32_t i = 0; i < GATEWAY_REQUESTS; i++)
        if (w->gateways[idx].requests[i].state == REQUEST_OPEN)
            resubmit(w, idx, &w->gateways[idx].requests[i]);
}

static struct gateway_request *free_request(struct fake_gateway *g) {
    for (uint32_t i = 0; i < GATEWAY_REQUESTS; i++)
        if (g->requests[i].state == REQUEST_FREE)
            return &g->requests[i];
    for (uint32_t i = 0; i < GATEWAY_REQUESTS; i++)
        if (g->requests[i].state == REQUEST_DONE)
            return &g->requests[i];
    return NULL;
}

void gateway_arrival(struct world *w) {
    if (w->quiet)
        return;
    at(w, w->now + 1 + below(w, w->arrival_ms), EVENT_ARRIVAL, 0, 0, NULL);
    uint32_t idx = below(w, GATEWAYS);
    struct fake_gateway *g = &w->gateways[idx];
    struct gateway_request *r = free_request(g);
    if (!g->alive || g->paused_until > w->now || !r)
        return;
    *r = (struct gateway_request){
        .state = REQUEST_OPEN, .truth = new_truth(w), .resumable = chance(w, 8)};
    r->priority = (int32_t)below(w, w->priority_levels);
    if (chance(w, 8))
        r->deadline_at = w->now + 5 + below(w, 4000);
    r->in_time = w->calm && w->finished >= CALM_AFTER;
    submit(w, idx, r);
}

void gateway_start(struct world *w, uint32_t idx) {
    struct fake_gateway *g = &w->gateways[idx];
    if (g->alive)
        return;
    *g = (struct fake_gateway){.instance = world_instance(w), .alive = true};
    say_hello(w, idx);
}

/* ---- What a dead gateway leaves may be taken up by another ---- */

static void attach(struct world *w, uint32_t idx, const struct gateway_request *from) {
    struct gateway_request *r = free_request(&w->gateways[idx]);
    if (!r || !w->gateways[idx].alive)
        return;
    const struct truth *t = &w->truths.items[from->truth];
    uint32_t choices[CHOICES], indexes[CHOICES] = {0};
    *r = (struct gateway_request){.state = REQUEST_OPEN,
                                  .truth = from->truth,
                                  .attempt = from->attempt + 1,
                                  .resumable = true,
                                  .ever_accepted = true,
                                  .resumed = true, /* as delivery_attached has it */
                                  .attached = true,
                                  .submitted_at = w->now,
                                  .priority = from->priority};
    r->deadline_at = from->deadline_at;
    for (uint32_t c = 0; c < t->choice_count; c++) {
        choices[c] = c;
        indexes[c] = r->received[c] = below(w, from->received[c] + 1);
    }
    struct wire_attach message = {.request = t->id,
                                  .attempt = r->attempt,
                                  .tenant = tenant_of(w, r),
                                  .choices = {choices, t->choice_count},
                                  .indexes = {indexes, t->choice_count}};
    for (uint32_t c = 0; c < t->choice_count; c++)
        if (from->choice_done[c] && !from->finish[c])
            return (void)(r->state = REQUEST_FREE); /* ended on the client's wish */
    struct message *m = message_new(w, WIRE_ATTACH);
    message_set_attach(m, &message);
    trace(w, "attach", idx, t->id.lo, r->attempt, r->received[0]);
    send_up(w, idx, m);
}

void gateway_attach(struct world *w, uint32_t idx, uint32_t left) {
    attach(w, idx, &w->left.items[left]);
}

/* Its client comes to the other gateway at once, or long after the scheduler knows of the death. */
static void leave(struct world *w, uint32_t idx, const struct gateway_request *r) {
    uint64_t draw = mix(mix(w->seed, 0x6c656674), w->left.count);
    vec_push(&w->left, *r);
    at(w, w->now + (int64_t)(draw % 2 ? draw / 2 % 12000 : 0), EVENT_ATTACH, 1 - idx,
       (uint32_t)w->left.count - 1, NULL);
}

void gateway_kill(struct world *w, uint32_t idx) {
    struct fake_gateway *g = &w->gateways[idx];
    if (!g->alive)
        return;
    trace(w, "gateway dies", idx, g->instance.lo, 0, 0);
    g->alive = false;
    for (uint32_t i = 0; i < GATEWAY_REQUESTS; i++) {
        struct gateway_request *r = &g->requests[i];
        if (r->state == REQUEST_OPEN && r->resumable && r->ever_accepted)
            leave(w, idx, r);
        r->state = REQUEST_FREE;
    }
    at(w, w->now + 100 + below(w, 3000), EVENT_RESTART, idx, 0, NULL);
}

/* ---- Receiving ---- */

static struct gateway_request *find(struct world *w, struct fake_gateway *g, struct u128 id) {
    for (uint32_t i = 0; i < GATEWAY_REQUESTS; i++)
        if (g->requests[i].state != REQUEST_FREE &&
            u128_equal(w->truths.items[g->requests[i].truth].id, id))
            return &g->requests[i];
    return NULL;
}

static void send_cancel(struct world *w, uint32_t idx, struct u128 id, uint32_t attempt,
                        uint32_t choice) {
    struct message *m = message_new(w, WIRE_CANCEL);
    m->u.cancel = (struct wire_cancel){id, attempt, choice, false};
    send_up(w, idx, m);
}

static void finish_if_done(struct world *w, struct gateway_request *r) {
    const struct truth *t = &w->truths.items[r->truth];
    for (uint32_t c = 0; c < t->choice_count; c++)
        if (!r->choice_done[c])
            return;
    r->state = REQUEST_DONE;
    w->finished++;
}

static void take_finish(struct world *w, struct gateway_request *r, uint32_t c, uint32_t finish) {
    const struct truth *t = &w->truths.items[r->truth];
    if (r->choice_done[c])
        return;
    /* A scheduler that got it as finished, and nothing of its model yet, cannot tell whoever
     * attaches that the context was full. */
    if (finish == WIRE_FINISH_CANCELLED && t->finish[c] == WIRE_FINISH_LENGTH && r->attached)
        finish = WIRE_FINISH_LENGTH;
    if (finish != WIRE_FINISH_DEADLINE)
        MUST(w, finish == t->finish[c] && r->received[c] == t->token_count[c],
             "request %llu choice %u ends with %u after %u of %u tokens",
             (unsigned long long)t->id.lo, c, finish, r->received[c], t->token_count[c]);
    else
        MUST(w, r->deadline_at && w->now >= r->deadline_at - 1, "a deadline that was not passed");
    r->finish[c] = finish;
    r->choice_done[c] = true;
    finish_if_done(w, r);
}

static void ask_again(struct world *w, uint32_t idx, const struct gateway_request *r, uint32_t c) {
    struct message *m = message_new(w, WIRE_RESEND);
    m->u.resend = (struct wire_resend){w->truths.items[r->truth].id, r->attempt, c, r->received[c]};
    trace(w, "resend", idx, m->u.resend.request.lo, c, r->received[c]);
    send_up(w, idx, m);
}

/* What its own prompt takes alone is not a wait. */
static void count_begin(struct world *w, const struct gateway_request *r) {
    const struct truth *t = &w->truths.items[r->truth];
    int64_t alone = calm_step_ms(0) + (int64_t)t->prompt_count * calm_step_ms(1);
    if (!r->in_time)
        return;
    w->begun++;
    w->begun_late += w->now - r->submitted_at > 2 * w->config.wait_max_ms + alone;
}

static void take_item(struct world *w, uint32_t idx, const struct wire_deltas *d, size_t i,
                      const uint32_t *tokens) {
    struct fake_gateway *g = &w->gateways[idx];
    struct gateway_request *r = find(w, g, d->requests.items[i]);
    uint32_t c = d->choices.items[i], index = d->indexes.items[i], count = d->token_counts.items[i];
    if (!r) {
        send_cancel(w, idx, d->requests.items[i], d->attempts.items[i], WIRE_ALL_CHOICES);
        return;
    }
    const struct truth *t = &w->truths.items[r->truth];
    if (d->attempts.items[i] != r->attempt) {
        MUST(w, d->attempts.items[i] < r->attempt, "an attempt from the future");
        return;
    }
    MUST(w, c < t->choice_count, "choice %u of %u", c, t->choice_count);
    if (r->choice_done[c] && !r->finish[c]) { /* ended here on the client's wish; that was lost */
        send_cancel(w, idx, t->id, r->attempt, r->state == REQUEST_DONE ? WIRE_ALL_CHOICES : c);
        return;
    }
    if (r->state == REQUEST_OPEN)
        r->accepted = r->ever_accepted = true;
    r->dirty = true;
    g->ack_due = true;
    if (index > r->received[c]) {
        if (!r->choice_done[c])
            ask_again(w, idx, r, c);
        return;
    }
    if (c == 0 && count && !r->received[0])
        count_begin(w, r);
    for (uint32_t k = 0; k < count; k++) {
        uint32_t position = index + k;
        MUST(w, position < t->token_count[c] && tokens[k] == t->tokens[c][position],
             "request %llu choice %u has a wrong token at %u", (unsigned long long)t->id.lo, c,
             position);
        if (position == r->received[c] && !r->choice_done[c])
            r->received[c]++;
    }
    if (d->finishes.items[i] && index + count >= r->received[c])
        take_finish(w, r, c, d->finishes.items[i]);
}

static void take_deltas(struct world *w, uint32_t idx, const struct wire_deltas *d) {
    const uint32_t *tokens = d->tokens.ids;
    for (size_t i = 0; i < d->requests.count; i++) {
        take_item(w, idx, d, i, tokens);
        tokens += d->token_counts.items[i];
    }
    if (w->gateways[idx].ack_due)
        at(w, w->now + (chance(w, 2) ? 0 : below(w, 60)), EVENT_GATEWAY, idx, 0, NULL);
}

static void take_reject(struct world *w, uint32_t idx, const struct wire_reject *reject) {
    struct gateway_request *r = find(w, &w->gateways[idx], reject->request);
    if (!r || r->state != REQUEST_OPEN || reject->attempt != r->attempt)
        return;
    const struct truth *t = &w->truths.items[r->truth];
    trace(w, "rejected", idx, t->id.lo, r->attempt, reject->code);
    if (reject->code == WIRE_REJECT_UNKNOWN) {
        resubmit(w, idx, r);
        return;
    }
    MUST(w, reject->code != WIRE_REJECT_POISON || t->killer, "request %llu is refused as poison",
         (unsigned long long)t->id.lo);
    if (reject->code == WIRE_REJECT_OVERLOADED) {
        MUST(w, !r->resumed && !r->ever_accepted, "work that was taken is refused");
    } else if (reject->code == WIRE_REJECT_DEADLINE) {
        MUST(w, r->deadline_at && w->now >= r->deadline_at - 1, "a deadline that was not passed");
    } else {
        MUST(w, reject->code == WIRE_REJECT_POISON, "request %llu is rejected with %d",
             (unsigned long long)t->id.lo, (int)reject->code);
        w->poisoned++;
    }
    r->state = REQUEST_DONE;
    for (uint32_t c = 0; c < t->choice_count; c++)
        r->choice_done[c] = true;
    w->rejected++;
}

void gateway_receive(struct world *w, uint32_t idx, struct message *m) {
    struct fake_gateway *g = &w->gateways[idx];
    int order = epoch_compare(m->epoch, g->epoch);
    if (!g->alive || !u128_equal(m->to, g->instance) || order < 0) {
        if (g->alive && order < 0)
            answer_stale(w, m, g->epoch, g->instance);
        message_free(w, m);
        return;
    }
    bool first = g->epoch.number == 0 && m->kind == WIRE_WELCOME;
    if (order > 0)
        g->epoch = m->epoch;
    if (order > 0 && !first) {
        say_hello(w, idx);
        resubmit_all(w, idx);
        message_free(w, m); /* no request was submitted in this epoch yet: it is not for us */
        return;
    }
    if (m->kind == WIRE_WELCOME)
        g->welcome = true;
    if (m->kind == WIRE_DELTAS)
        take_deltas(w, idx, &m->u.deltas);
    if (m->kind == WIRE_REJECT)
        take_reject(w, idx, &m->u.reject);
    message_free(w, m);
}

/* ---- By time ---- */

/* Acknowledges every choice of what has changed, or of everything open. */
static void send_acks(struct world *w, uint32_t idx, bool all) {
    struct fake_gateway *g = &w->gateways[idx];
    struct u128 requests[GATEWAY_REQUESTS * CHOICES];
    uint32_t attempts[GATEWAY_REQUESTS * CHOICES], choices[GATEWAY_REQUESTS * CHOICES],
        counts[GATEWAY_REQUESTS * CHOICES];
    size_t n = 0;
    g->ack_due = false;
    for (uint32_t i = 0; i < GATEWAY_REQUESTS; i++) {
        struct gateway_request *r = &g->requests[i];
        if (r->state == REQUEST_FREE || !(r->dirty || (all && r->state == REQUEST_OPEN)))
            continue;
        if (!r->accepted && r->state == REQUEST_OPEN)
            continue;
        r->dirty = false;
        const struct truth *t = &w->truths.items[r->truth];
        for (uint32_t c = 0; c < t->choice_count; c++) {
            requests[n] = t->id;
            attempts[n] = r->attempt;
            choices[n] = c;
            counts[n++] = r->received[c] + (r->finish[c] ? 1 : 0);
        }
    }
    if (!n)
        return;
    struct wire_ack ack = {{requests, n}, {attempts, n}, {choices, n}, {counts, n}};
    struct message *m = message_new(w, WIRE_ACK);
    message_set_ack(m, &ack);
    send_up(w, idx, m);
}

void gateway_flush(struct world *w, uint32_t idx) {
    struct fake_gateway *g = &w->gateways[idx];
    if (g->alive && g->paused_until <= w->now && g->ack_due)
        send_acks(w, idx, false);
}

static void send_pause(struct world *w, uint32_t idx, const struct gateway_request *r) {
    struct message *m = message_new(w, WIRE_PAUSE);
    m->u.pause = (struct wire_pause){w->truths.items[r->truth].id, r->attempt, r->paused};
    send_up(w, idx, m);
}

static void client_moods(struct world *w, uint32_t idx, struct gateway_request *r) {
    const struct truth *t = &w->truths.items[r->truth];
    if (r->paused && (r->pause_until <= w->now || w->quiet)) {
        r->paused = false;
        send_pause(w, idx, r);
    } else if (r->accepted && chance(w, 8)) {
        send_pause(w, idx, r); /* again: the last one may be lost */
    }
    if (w->quiet || w->calm || !r->accepted)
        return;
    if (chance(w, 60)) { /* the client went away */
        trace(w, "cancel", idx, t->id.lo, r->attempt, 0);
        send_cancel(w, idx, t->id, r->attempt, WIRE_ALL_CHOICES);
        r->state = REQUEST_FREE;
        return;
    }
    if (t->choice_count > 1 && chance(w, 20)) { /* a stop string in one choice */
        uint32_t c = below(w, t->choice_count);
        if (r->choice_done[c])
            return;
        trace(w, "cancel choice", idx, t->id.lo, r->attempt, c);
        send_cancel(w, idx, t->id, r->attempt, c);
        r->choice_done[c] = true;
        finish_if_done(w, r);
        return;
    }
    if (!r->paused && chance(w, 30)) {
        r->paused = true;
        r->pause_until = w->now + below(w, 3000);
        send_pause(w, idx, r);
    }
}

/* On some days gateways come to hold more than their scheduler has sent: they take the request up
 * from there, and the scheduler has to follow, wherever the sequence is. */
static bool gets_ahead(struct world *w, uint32_t idx, struct gateway_request *r) {
    const struct truth *t = &w->truths.items[r->truth];
    uint64_t draw = mix(mix(w->seed, 0x61686561), w->event_count * GATEWAY_REQUESTS + r->truth);
    if (!has_extra(w, EXTRA_AHEAD) || draw % 16 || w->quiet || !r->ever_accepted || t->killer)
        return false;
    bool ahead = false;
    for (uint32_t c = 0; c < t->choice_count; c++) {
        uint32_t to = MIN(r->received[c] + (uint32_t)(mix(draw, c) % 6), t->token_count[c] - 1);
        if (r->choice_done[c] || to <= r->received[c])
            continue;
        r->received[c] = to;
        ahead = true;
    }
    if (ahead)
        resubmit(w, idx, r);
    return ahead;
}

void gateway_beat(struct world *w, uint32_t idx) {
    struct fake_gateway *g = &w->gateways[idx];
    if (!g->alive || g->paused_until > w->now)
        return;
    if (!g->welcome)
        say_hello(w, idx);
    else
        send_up(w, idx, message_new(w, WIRE_HEARTBEAT));
    for (uint32_t i = 0; i < GATEWAY_REQUESTS; i++) {
        struct gateway_request *r = &g->requests[i];
        if (r->state != REQUEST_OPEN)
            continue;
        if (!r->accepted && w->now - r->submitted_at > 1500) {
            submit(w, idx, r); /* the same attempt once more */
            continue;
        }
        if (!gets_ahead(w, idx, r))
            client_moods(w, idx, r);
    }
    if (chance(w, 3))
        send_acks(w, idx, true);
}

uint32_t gateways_open(const struct world *w) {
    uint32_t open = 0;
    for (uint32_t g = 0; g < GATEWAYS; g++)
        for (uint32_t i = 0; i < GATEWAY_REQUESTS; i++)
            open += w->gateways[g].requests[i].state == REQUEST_OPEN;
    return open;
}
