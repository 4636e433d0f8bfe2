#include "gateway/generation/turn.h"

#include <malloc.h>

#include "gateway/answers/answer_room.h"
#include "gateway/calls/health.h"
#include "gateway/calls/model_control.h"
#include "gateway/calls/model_events.h"
#include "gateway/calls/response_calls.h"
#include "gateway/calls/text_calls.h"
#include "gateway/generation/generation.h"
#include "gateway/generation/resume.h"
#include "gateway/watch/gateway_metrics.h"

/* Whether a run is to wait for a turn of its own: it is long, or runs of its request in the same mail
 * before it make much together (*work). */
static bool is_long(const struct mail *mail, const struct mail_item *item, uint32_t *work) {
    enum { MAIL_WORK = 4 * LONG_RUN_WORK };
    uint32_t more = long_run_work(mail, item);
    *work += more;
    return more > LONG_RUN_WORK || (*work > MAIL_WORK && item->token_count > 1);
}

static void on_deltas(struct event_thread *thread, struct mail *mail) {
    uint32_t work = 0; /* of runs of one request */
    if (!thread->registered || epoch_compare(mail->epoch, thread->epoch) != 0)
        return;
    for (uint32_t i = 0; i < mail->item_count; i++) {
        const struct mail_item *item = &mail->items[i];
        struct submission *sub = submission_map_find(&thread->submissions, item->request);
        if (i && !u128_equal(item->request, mail->items[i - 1].request))
            work = 0;
        if (sub && is_long(mail, item, &work)) {
            long_runs_add(&thread->long_runs, mail, item);
            sub->long_runs++;
        } else if (sub)
            generation_on_run(sub, mail, item);
        else if (!resume_is_waiting(thread,
                                    item->request)) /* it asks again when it can take them */
            /* the scheduler did not hear that it ended */
            outbox_cancel_unknown(&thread->outbox, item->request, item->attempt, thread->now_ms);
    }
}

static void on_reject(struct event_thread *thread, const struct mail *mail) {
    struct submission *sub = submission_map_find(&thread->submissions, mail->reject.request);
    if (sub && epoch_compare(mail->epoch, thread->epoch) == 0)
        generation_on_reject(sub, &mail->reject);
    else if (!sub)
        resume_on_reject(thread, mail);
}

static void on_mail(struct event_thread *thread, struct mail *mail) {
    switch (mail->kind) {
    case MAIL_DELTAS: on_deltas(thread, mail); break;
    case MAIL_REJECT: on_reject(thread, mail); break;
    case MAIL_REGISTERED:
        thread->registered = true;
        thread->epoch = mail->epoch;
        generation_list_each(&thread->generations, generation_resubmit);
        resume_restart(thread);
        break;
    case MAIL_LOST:
        thread->registered = false;
        model_control_on_lost(thread);
        break;
    case MAIL_MODELS:
        generation_list_each(&thread->generations, generation_try);
        resume_tick(thread);
        model_events_turn(thread);
        break;
    case MAIL_TEXT:
        text_call_on_done(mail->text);
        mail->text = NULL;
        break;
    case MAIL_ATTACHED: resume_on_attached(thread, mail); break;
    case MAIL_OUTCOME: model_control_on_outcome(thread, mail); break;
    case MAIL_PREPARED:
        if (mail->job->generation)
            generation_on_prepared(mail->job->generation, mail->job);
        else if (!u128_is_zero(mail->job->resume))
            resume_on_patterns(thread, mail->job);
        break;
    }
}

/* ---- long runs ---- */

/* What came in between has its turn first. Where there is no room for it the next tick goes on. */
static bool ask_for_turn(struct event_thread *thread, void (*fn)(void *ctx)) {
    struct gateway *gw = thread->gw;
    pthread_mutex_lock(&gw->http_mutex);
    bool asked = gw->http && http_thread_post(gw->http, thread->idx, fn, thread);
    pthread_mutex_unlock(&gw->http_mutex);
    return asked;
}

static void take_piece(void *ctx);

void turn_ask_for_piece(struct event_thread *thread) {
    if (thread->long_runs.first && !thread->long_runs_go_on)
        thread->long_runs_go_on = ask_for_turn(thread, take_piece);
}

/* Its client does not read. */
static void put_aside(struct submission *sub, struct long_run *run) {
    enum { ASIDE_BYTES = 16 << 20 };
    struct event_thread *thread = sub->thread;
    uint64_t most = thread->gw->settings.aside_max;
    if (long_runs_put_aside(&thread->long_runs, run, most ? most : (uint64_t)ASIDE_BYTES))
        return;
    sub->generation->held = true; /* asks again when it reads */
    generation_on_long_run_end(sub);
}

static void take_piece(void *ctx) {
    struct event_thread *thread = ctx;
    struct mail_item piece;
    turn_collect(thread); /* what its submission waits for may have come, or its end */
    struct long_run *run = long_runs_take(&thread->long_runs, &piece);
    struct submission *sub = run ? submission_map_find(&thread->submissions, piece.request) : NULL;
    if (sub && sub->generation->paused) {
        put_aside(sub, run);
    } else if (run) {
        CHECK(sub); /* one that ends drops its runs */
        bool wanted = generation_on_piece(sub, run->mail, &piece);
        bool goes_on = wanted && long_runs_put_back(&thread->long_runs, run, &piece);
        if (!wanted)
            long_run_free(run);
        sub = submission_map_find(&thread->submissions, piece.request);
        if (sub && !goes_on)
            generation_on_long_run_end(sub);
    }
    thread->long_runs_go_on = false;
    turn_ask_for_piece(thread);
}

void turn_collect(struct event_thread *thread) {
    event_thread_set_now(thread);
    for (struct mail *mail = mailbox_take_all(&thread->gw->boxes[thread->idx]), *next; mail;
         mail = next) {
        next = mail->next;
        on_mail(thread, mail);
        mail_free(mail);
    }
    if (thread->output_tokens)
        metric_add(&gateway_metrics[GATEWAY_METRIC_OUTPUT_TOKENS], thread->output_tokens);
    thread->output_tokens = 0;
    outbox_flush_acks(&thread->outbox, thread->now_ms, false);
    response_calls_turn(thread);
    turn_ask_for_piece(thread);
}

void turn_start_opened(struct event_thread *thread) {
    struct generation *gen = thread->opened;
    thread->opened = NULL;
    if (gen)
        generation_try(gen);
}

/* None while the gateway ends: turns go on after its server was taken away. */
static uint32_t connection_count(struct gateway *gw) {
    pthread_mutex_lock(&gw->http_mutex);
    uint32_t count = gw->http ? http_server_connection_count(gw->http) : 0;
    pthread_mutex_unlock(&gw->http_mutex);
    return count;
}

/* A crowd of connections leaves buffers as one of requests does, those of TLS above all. */
static bool a_crowd_has_left(struct event_thread *thread) {
    enum { CROWD = 64 };
    uint32_t count = connection_count(thread->gw), most = thread->connections_most;
    if (count >= most / 2) {
        thread->connections_most = MAX(most, count);
        return false;
    }
    thread->connections_most = count;
    return most >= CROWD;
}

/* What a crowd left in the heap goes back to the system once it is calm: free() keeps it. */
static void trim(struct event_thread *thread) {
    enum { CALM_MS = 2000 };
    struct gateway *gw = thread->gw;
    if (thread->idx != 0)
        return;
    if (a_crowd_has_left(thread) || atomic_load(&gw->open_count) || answer_room_taken(gw->room)) {
        thread->busy_ms = thread->now_ms;
        return;
    }
    if (!thread->busy_ms || thread->now_ms - thread->busy_ms < CALM_MS)
        return;
    malloc_trim(0);
    thread->busy_ms = 0;
}

/* Looks at some generations. */
static void go_on(void *ctx) {
    struct event_thread *thread = ctx;
    uint32_t most = thread->gw->settings.visits_max;
    turn_collect(thread); /* so that nothing is asked of a scheduler already known to be gone */
    bool more = generation_list_go_on(&thread->generations, most ? most : EVENT_THREAD_VISITS,
                                      generation_tick);
    thread->round_goes_on = more && ask_for_turn(thread, go_on);
}

void turn_tick(struct event_thread *thread) {
    event_thread_set_now(thread);
    if (!thread->round_goes_on) {
        generation_list_begin(&thread->generations);
        go_on(thread);
    }
    resume_tick(thread);
    model_events_turn(thread);
    outbox_flush_acks(&thread->outbox, thread->now_ms, true);
    health_tick(thread);
    trim(thread);
}

bool turn_waits(const struct event_thread *thread) {
    return thread->generations.first || thread->opened || thread->followers || thread->resumes ||
           thread->model_waiters || thread->model_followers || thread->health.count ||
           thread->outbox.acks.count || thread->round_goes_on || thread->long_runs.first ||
           thread->busy_ms;
}

void turn_end(struct event_thread *thread) {
    resume_end(thread);
    model_control_end(thread);
    while (thread->generations.first)
        generation_cancel(thread->generations.first);
}
