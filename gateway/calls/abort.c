/*
 * Source: github.com/sgl-project/sglang, python/sglang/srt/managers/io_struct.py (AbortReq).
 */
#include "gateway/calls/abort.h"

#include "gateway/generation/generation.h"
#include "gateway/generation/open_places.h"

/* A request; g first: the rows are of struct genreq. */
struct abort_request {
    struct genreq g;
    const struct bytes *ids;
    uint32_t id_count;
    bool all;
};

static struct abort_request *request_of(struct field_reader *r) {
    return (struct abort_request *)(void *)r->g;
}

static int read_ids(struct field_reader *r, enum json_event first) {
    struct abort_request *q = request_of(r);
    return field_string_or_strings(r, first, ABORT_IDS_MAX, HTTP_REQUEST_ID_MAX, &q->ids,
                                   &q->id_count);
}

static int read_all(struct field_reader *r, enum json_event first) {
    return field_bool(r, first, &request_of(r)->all);
}

/* clang-format off */
static const struct field rows[] = {
    CUSTOM_FIELD("rid", read_ids),
    CUSTOM_FIELD("abort_all", read_all),
    REFUSED_FIELD("session_id"), /* LMDeploy's */
    PASSED_FIELD("abort_message"),
    PASSED_FIELD("abort_reason"),
    PASSED_FIELD("finished_reason"),
};
/* clang-format on */
FIELD_SET_OF_ROWS(abort, rows);

/* What a thread is told: whose requests, and their names with a zero behind each; none: all. */
struct order {
    struct event_thread *thread; /* borrowed */
    struct u128 holder;
    struct buf ids; /* owned */
};

static void order_free(struct order *order) {
    buf_release(&order->ids);
    mem_free(order);
}

static bool is_named(const struct order *order, const char *id) {
    size_t len = strlen(id) + 1;
    for (size_t at = 0; at < order->ids.len;) {
        const char *name = (const char *)order->ids.data + at;
        if (strncmp(name, id, len) == 0)
            return true;
        at += strlen(name) + 1;
    }
    return order->ids.len == 0;
}

/* By the client's name for it, or by its answer's. Probes have neither, and are nobody's. */
static bool is_meant(const struct order *order, const struct generation *gen) {
    char answer[RESPONSE_ID_MAX];
    response_id(gen->request.dialect, gen->number, answer);
    return *gen->id && u128_equal(gen->terms.holder, order->holder) &&
           (is_named(order, gen->id) || is_named(order, answer));
}

/* An aborted one is out of the list, and ends no other. */
static void carry_out(void *ctx) {
    struct order *order = ctx;
    event_thread_set_now(order->thread);
    for (struct generation *gen = order->thread->generations.first, *next; gen; gen = next) {
        next = gen->next;
        if (is_meant(order, gen))
            generation_abort(gen);
    }
    order_free(order);
}

static bool send_order(struct event_thread *to, struct u128 holder, const struct abort_request *q) {
    struct gateway *gw = to->gw;
    struct order *order = mem_alloc(sizeof *order);
    *order = (struct order){.thread = to, .holder = holder};
    for (uint32_t i = 0; i < q->id_count; i++) {
        buf_add_bytes(&order->ids, q->ids[i]);
        buf_add_byte(&order->ids, 0);
    }
    pthread_mutex_lock(&gw->http_mutex);
    bool sent =
        !order->ids.failed && gw->http && http_thread_post(gw->http, to->idx, carry_out, order);
    pthread_mutex_unlock(&gw->http_mutex);
    if (!sent)
        order_free(order);
    return sent;
}

static int read_body(struct abort_request *q, struct bytes body, struct api_error *err) {
    if (body.len > ABORT_BODY_MAX)
        return api_error_set(err, API_TOO_LARGE, NULL, "the body has more than %d bytes",
                             ABORT_BODY_MAX);
    if (field_check_json(body, err))
        return -1;
    if (field_read_request(&q->g, &fields_abort, body, err))
        return -1;
    if (q->all)
        q->id_count = 0;
    else if (q->id_count == 0)
        return api_error_set(err, API_BAD_REQUEST, "rid",
                             "'rid' is missing; 'abort_all': true takes its place");
    return 0;
}

int abort_requests(const struct call *c, struct api_error *err) {
    struct gateway *gw = c->thread->gw;
    struct abort_request q = {0};
    bool sent = true;
    genreq_init(&q.g, GENREQ_GENERATE);
    int rc = read_body(&q, c->req->body, err);
    for (int i = 0; rc == 0 && i < gw->thread_count; i++)
        sent = send_order(gw->threads[i], open_holder(c->tenant, c->req->address), &q) && sent;
    genreq_release(&q.g);
    if (rc)
        return -1;
    if (!sent)
        return api_error_set(err, API_OVERLOADED, NULL, "this server is busy; try again later");
    http_respond(c->req, 200, "application/json", NULL, 0, bytes_str("{}\n"));
    return 0;
}
