#include "gateway/calls/model_control.h"

#include "base/option.h"
#include "formats/json.h"
#include "gateway/answers/error_response.h"
#include "gateway/link/request_id.h"
#include "gateway/link/scheduler_link.h"
#include "gateway/prompts/prepare.h"
#include "proto/codec.h"

enum { CONTROL_BODY_MAX = 4096 };

static const struct field rows[] = {
    STRING_FIELD_ONCE("model", model, GENREQ_NAME_MAX, GENREQ_MODEL),
};
static const struct field_table own = {rows, ARRAY_LEN(rows)};
static const struct field_table *const tables[] = {&own};
const struct field_set fields_model_control = {tables, ARRAY_LEN(tables)};

static int read_body(struct genreq *g, struct bytes body, struct api_error *err) {
    if (body.len > CONTROL_BODY_MAX)
        return api_error_set(err, API_TOO_LARGE, NULL, "the body has more than %d bytes",
                             CONTROL_BODY_MAX);
    if (field_check_json(body, err))
        return -1;
    return field_read_request(g, &fields_model_control, body, err);
}

static void send_wish(struct event_thread *thread, const struct wire_want *want) {
    struct buf payload = {0};
    message_pack_want(want, &payload);
    scheduler_link_send(thread->gw->link, WIRE_WANT, &payload);
}

/* Who asks, and for which model. */
static int read_order(const struct call *c, struct genreq *g, struct api_error *err) {
    if (!auth_is_admin(&c->thread->gw->auth, c->tenant))
        return api_error_set(err, API_FORBIDDEN, NULL,
                             "only a key with 'admin' behind it in --api-key-file may do this");
    int rc = read_body(g, c->req->body, err);
    if (!rc && !scheduler_link_is_registered(c->thread->gw->link))
        rc = api_error_set(err, API_UNAVAILABLE, NULL, "no scheduler answers");
    return rc;
}

/* The same for a model that is known: own_name is the one that workers register. */
static int read_known(const struct call *c, struct genreq *g, char own_name[MODEL_NAME_MAX],
                      struct api_error *err) {
    if (read_order(c, g, err))
        return -1;
    if (!model_table_own_name(c->thread->gw->models, g->model, own_name))
        return prepare_refuse_model(MODEL_UNKNOWN, g->model, err);
    return 0;
}

static void respond_success(struct http_request *req) {
    http_respond(req, 200, "application/json", NULL, 0, bytes_str("{\"success\":true}\n"));
}

/* Passes a wish on for a model that is known. */
static int pass_on(const struct call *c, enum wire_wish wish, struct api_error *err) {
    struct genreq g;
    char own_name[MODEL_NAME_MAX];
    genreq_init(&g, GENREQ_CHAT);
    int rc = read_known(c, &g, own_name, err);
    if (!rc) {
        send_wish(c->thread, &(struct wire_want){.model = bytes_str(own_name), .wish = wish});
        respond_success(c->req);
    }
    genreq_release(&g);
    return rc;
}

int model_control_load(const struct call *c, struct api_error *err) {
    return pass_on(c, WIRE_WISH_LOAD, err);
}

int model_control_reload(const struct call *c, struct api_error *err) {
    return pass_on(c, WIRE_WISH_RELOAD, err);
}

int model_control_unload(const struct call *c, struct api_error *err) {
    return pass_on(c, WIRE_WISH_UNLOAD, err);
}

/* ---- adding and removing one ---- */

struct model_waiter {
    struct event_thread *thread;
    struct http_request *req;
    struct u128 ticket;
    char *
        unknown; /* owned: the model that is asked for, where this gateway has not heard of it; or NULL */
    struct model_waiter *next; /* of the thread */
};

static void waiter_free(struct model_waiter *w) {
    struct model_waiter **at = &w->thread->model_waiters;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    mem_free(w->unknown);
    mem_free(w);
}

/* The client has gone; what it asked for goes on. */
static void on_closed(void *ctx, struct http_request *req) {
    waiter_free(ctx);
}

static void refuse(struct model_waiter *w, const struct api_error *err) {
    struct http_request *req = w->req;
    waiter_free(w);
    error_respond(req, err);
}

static void on_timer(void *ctx, struct http_request *req) {
    struct api_error err;
    api_error_set(&err, API_TIMEOUT, NULL,
                  "it goes on; GET /v1/models tells which models are there");
    refuse(ctx, &err);
}

/* Asks for it; the request waits for the outcome. is_known: this gateway has heard of the model, or need
 * not have. */
static int ask(const struct call *c, struct bytes model, enum wire_wish wish, bool is_known,
               struct api_error *err) {
    struct event_thread *thread = c->thread;
    static const struct http_watch watch = {.on_closed = on_closed, .on_timer = on_timer};
    size_t waiting = 0;
    for (const struct model_waiter *w = thread->model_waiters; w; w = w->next)
        waiting++;
    if (waiting >= MODEL_WAITERS_MAX)
        return api_error_set(err, API_UNAVAILABLE, NULL,
                             "too many models are being added or removed");
    struct model_waiter *w = mem_alloc(sizeof *w);
    *w = (struct model_waiter){
        .thread = thread,
        .req = c->req,
        .ticket = request_id_new(thread->idx),
        .unknown = is_known ? NULL : mem_strndup((const char *)model.data, model.len),
        .next = thread->model_waiters};
    thread->model_waiters = w;
    http_request_watch(c->req, &watch, w);
    http_request_set_timer(c->req, MODEL_WAIT_MS);
    send_wish(thread, &(struct wire_want){.model = model, .wish = wish, .ticket = w->ticket});
    return 0;
}

int model_control_add(const struct call *c, struct api_error *err) {
    struct genreq g;
    genreq_init(&g, GENREQ_CHAT);
    int rc = read_order(c, &g, err);
    if (!rc && !option_is_word(g.model))
        rc = api_error_set(err, API_BAD_REQUEST, "model",
                           "'model' is [NAME=]PATH[,OPTION=VALUE...]: a path of the server's "
                           "machine or a hub's name, as trireme load takes it");
    if (!rc)
        rc = ask(c, g.model, WIRE_WISH_ADD, true, err);
    genreq_release(&g);
    return rc;
}

int model_control_remove(const struct call *c, struct api_error *err) {
    struct genreq g;
    char own_name[MODEL_NAME_MAX];
    genreq_init(&g, GENREQ_CHAT);
    int rc = read_order(c, &g, err);
    if (!rc && model_table_own_name(c->thread->gw->models, g.model, own_name))
        rc = ask(c, bytes_str(own_name), WIRE_WISH_REMOVE, true, err);
    else if (!rc && option_is_word(g.model) && g.model.len < MODEL_NAME_MAX)
        /* it may have been added just now, and be on its way here */
        rc = ask(c, g.model, WIRE_WISH_REMOVE, false, err);
    else if (!rc)
        rc = prepare_refuse_model(MODEL_UNKNOWN, g.model, err);
    genreq_release(&g);
    return rc;
}

void model_control_on_outcome(struct event_thread *thread, const struct mail *mail) {
    struct model_waiter *w = thread->model_waiters;
    struct api_error err;
    while (w && !u128_equal(w->ticket, mail->outcome.ticket))
        w = w->next;
    if (!w)
        return; /* its client has gone, or it is another gateway's */
    if (mail->outcome.done) {
        struct http_request *req = w->req;
        waiter_free(w);
        respond_success(req);
        return;
    }
    char own_name[MODEL_NAME_MAX];
    bool away = mail->outcome.away;
    if ((away || mail->outcome.gone) && w->unknown &&
        !model_table_own_name(thread->gw->models, bytes_str(w->unknown), own_name))
        (void)prepare_refuse_model(MODEL_UNKNOWN, bytes_str(w->unknown), &err);
    else
        api_error_set(&err, away ? API_UNAVAILABLE : API_BAD_REQUEST, away ? NULL : "model", "%.*s",
                      (int)mail->submit.len, mail->submit.len ? mail->submit.data : "");
    refuse(w, &err);
}

static void refuse_all(struct event_thread *thread, const char *why) {
    struct api_error err;
    api_error_set(&err, API_UNAVAILABLE, NULL, "%s", why);
    while (thread->model_waiters)
        refuse(thread->model_waiters, &err);
}

void model_control_on_lost(struct event_thread *thread) {
    refuse_all(thread, "the scheduler has ended meanwhile; GET /v1/models tells which models are "
                       "there");
}

void model_control_end(struct event_thread *thread) {
    refuse_all(thread, "shutting down");
}
