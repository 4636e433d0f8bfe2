#include "gateway/model_control.h"

#include "formats/json.h"
#include "gateway/prepare.h"
#include "gateway/scheduler_link.h"
#include "proto/codec.h"

enum { CONTROL_BODY_MAX = 4096 };

static const struct field rows[] = {
    STRING_FIELD_ONCE("model", model, GENREQ_NAME_MAX, GENREQ_MODEL),
};
static const struct field_table own = {rows, ARRAY_LEN(rows)};
static const struct field_table *const tables[] = {&own};
const struct field_set fields_model_control = {tables, ARRAY_LEN(tables)};

static int read_body(struct genreq *g, struct bytes body, struct api_error *err) {
    struct error scan;
    if (body.len > CONTROL_BODY_MAX)
        return api_error_set(err, API_TOO_LARGE, NULL, "the body has more than %d bytes",
                             CONTROL_BODY_MAX);
    if (json_scan(body, GENREQ_DEPTH_MAX, &scan))
        return api_error_set(err, API_BAD_REQUEST, NULL, "malformed JSON: %s", scan.text);
    return field_read_request(g, &fields_model_control, body, err);
}

static void send_wish(struct event_thread *thread, const char *model, enum wire_wish wish) {
    const struct wire_want want = {.model = bytes_str(model), .wish = wish};
    struct buf payload = {0};
    message_pack_want(&want, &payload);
    scheduler_link_send(thread->gw->link, WIRE_WANT, &payload);
}

int model_control(struct event_thread *thread, struct http_request *req, struct u128 tenant,
                  enum wire_wish wish, struct api_error *err) {
    struct genreq g;
    char own_name[MODEL_NAME_MAX];
    if (!auth_is_admin(&thread->gw->auth, tenant))
        return api_error_set(err, API_FORBIDDEN, NULL,
                             "only a key with 'admin' behind it in --api-key-file may do this");
    genreq_init(&g, GENREQ_CHAT);
    int rc = read_body(&g, req->body, err);
    if (!rc && !scheduler_link_is_registered(thread->gw->link))
        rc = api_error_set(err, API_UNAVAILABLE, NULL, "no scheduler answers");
    if (!rc && !model_table_own_name(thread->gw->models, g.model, own_name))
        rc = prepare_refuse_model(MODEL_UNKNOWN, g.model, err);
    if (!rc) {
        send_wish(thread, own_name, wish);
        http_respond(req, 200, "application/json", NULL, 0, bytes_str("{\"success\":true}\n"));
    }
    genreq_release(&g);
    return rc;
}
