#include "gateway/calls/ollama_models.h"
#include "gateway/prompts/infill.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/utc.h"
#include "gateway/fields/field.h"
#include "gateway/watch/gateway_metrics.h"

#define OLLAMA_VERSION "0.12.11" /* whose API this is */
enum { SHOW_BODY_MAX = 64 << 10 };

void ollama_add_time(struct buf *out, int64_t wall_s) {
    char text[UTC_TEXT_MAX];
    utc_text(wall_s, text);
    buf_addf(out, "%sZ", text);
}

/* Takes the body. */
static void respond(struct http_request *req, struct buf *body) {
    http_respond(req, 200, "application/json", NULL, 0, buf_bytes(body));
    gateway_metrics_answer(200);
    buf_release(body);
}

/* ---- lists ---- */

static void time_member(struct json_writer *w, const char *name, int64_t wall_s) {
    struct buf text = {0};
    ollama_add_time(&text, wall_s);
    json_key(w, name);
    json_string_bytes(w, buf_bytes(&text));
    buf_release(&text);
}

static void text_member(struct json_writer *w, const char *name, const char *value) {
    json_key(w, name);
    json_string(w, value);
}

static void details_member(struct json_writer *w, const char *family) {
    json_key(w, "details");
    json_begin_object(w);
    text_member(w, "parent_model", "");
    text_member(w, "format", "");
    text_member(w, "family", family);
    json_key(w, "families");
    json_begin_array(w);
    json_string(w, family);
    json_end_array(w);
    text_member(w, "parameter_size", "");
    text_member(w, "quantization_level", "");
    json_end_object(w);
}

static void model_members(struct json_writer *w, const struct model_info *info) {
    char digest[U128_TEXT_MAX];
    u128_text(info->revision, digest);
    text_member(w, "name", info->name);
    text_member(w, "model", info->name);
    json_key(w, "size");
    json_int(w, 0);
    text_member(w, "digest", digest);
    details_member(w, info->family);
}

static void add_tag(void *ctx, const struct model_info *info) {
    struct json_writer *w = ctx;
    if (!info->servable && info->was_loaded)
        return; /* not usable yet; what was never loaded can be asked for */
    json_begin_object(w);
    model_members(w, info);
    time_member(w, "modified_at", info->created_s);
    json_end_object(w);
}

static void add_running(void *ctx, const struct model_info *info) {
    struct json_writer *w = ctx;
    if (!info->servable || !info->replicas_ready)
        return;
    json_begin_object(w);
    model_members(w, info);
    text_member(w, "expires_at", "9999-12-31T23:59:59Z"); /* it stays */
    json_key(w, "size_vram");
    json_int(w, 0);
    json_key(w, "context_length");
    json_uint(w, info->max_context);
    json_end_object(w);
}

static int respond_list(const struct call *c,
                        void (*add)(void *ctx, const struct model_info *info)) {
    struct buf body = {0};
    struct json_writer w;
    json_writer_init(&w, &body);
    json_begin_object(&w);
    json_key(&w, "models");
    json_begin_array(&w);
    model_table_each(c->thread->gw->models, add, &w);
    json_end_array(&w);
    json_end_object(&w);
    respond(c->req, &body);
    return 0;
}

int ollama_tags(const struct call *c, struct api_error *err) {
    return respond_list(c, add_tag);
}

int ollama_ps(const struct call *c, struct api_error *err) {
    return respond_list(c, add_running);
}

/* ---- one model ---- */

static int read_show(struct genreq *g, struct bytes body, struct api_error *err) {
    static const struct field rows[] = {
        STRING_FIELD_ONCE("model", model, GENREQ_NAME_MAX, GENREQ_MODEL),
        STRING_FIELD_ONCE("name", model, GENREQ_NAME_MAX, GENREQ_MODEL),
    };
    static const struct field_table own = {rows, ARRAY_LEN(rows)};
    static const struct field_table *const tables[] = {&own};
    static const struct field_set set = {tables, ARRAY_LEN(tables)};
    if (body.len > SHOW_BODY_MAX)
        return api_error_set(err, API_TOO_LARGE, NULL, "the body has more than %d bytes",
                             SHOW_BODY_MAX);
    if (field_check_json(body, err))
        return -1;
    return field_read_request(g, &set, body, err);
}

static void add_parameter(struct buf *out, const char *name, double value) {
    if (value >= 0)
        buf_addf(out, "%s%-30s %g", out->len ? "\n" : "", name, value);
}

/* As a Modelfile has them. */
static void parameters_member(struct json_writer *w, const struct model_defaults *d) {
    struct buf text = {0};
    add_parameter(&text, "temperature", d->temperature);
    add_parameter(&text, "top_k", (double)d->top_k);
    add_parameter(&text, "top_p", d->top_p);
    add_parameter(&text, "min_p", d->min_p);
    add_parameter(&text, "repeat_penalty", d->repetition_penalty);
    json_key(w, "parameters");
    json_string_bytes(w, buf_bytes(&text));
    buf_release(&text);
}

/* In Ollama's words and order. */
static void capabilities_member(struct json_writer *w, const struct served_model *m) {
    struct chat_formats formats = chat_formats(m->text->chat, NULL, true);
    bool writes = !m->vectors.only;
    const struct {
        const char *name;
        bool has;
    } all[] = {{"embedding", !writes},
               {"completion", writes},
               {"tools", writes && formats.calls},
               {"insert", writes && infill_is_possible(m->text->tokenizer)},
               {"thinking", writes && formats.reasoning}};
    json_key(w, "capabilities");
    json_begin_array(w);
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        if (all[i].has)
            json_string(w, all[i].name);
    json_end_array(w);
}

static void info_member(struct json_writer *w, const struct served_model *m) {
    const char *family = *m->text->family ? m->text->family : "unknown";
    struct buf name = {0};
    buf_addf(&name, "%s.context_length", family);
    json_key(w, "model_info");
    json_begin_object(w);
    text_member(w, "general.architecture", family);
    json_key_bytes(w, buf_bytes(&name));
    json_uint(w, m->max_context);
    json_end_object(w);
    buf_release(&name);
}

static void respond_model(struct http_request *req, const struct served_model *m) {
    struct buf body = {0}, file = {0};
    struct json_writer w;
    buf_addf(&file, "FROM %s\n", m->name);
    json_writer_init(&w, &body);
    json_begin_object(&w);
    json_key(&w, "modelfile");
    json_string_bytes(&w, buf_bytes(&file));
    parameters_member(&w, &m->text->defaults);
    json_key(&w, "template");
    json_string_bytes(&w, chat_template_source(m->text->chat, NULL, false));
    details_member(&w, m->text->family);
    info_member(&w, m);
    capabilities_member(&w, m);
    json_end_object(&w);
    respond(req, &body);
    buf_release(&file);
}

int ollama_show(const struct call *c, struct api_error *err) {
    struct served_model *m = NULL;
    struct genreq g;
    genreq_init(&g, GENREQ_OLLAMA_CHAT);
    int rc = read_show(&g, c->req->body, err);
    if (rc == 0)
        rc = call_find_model(c->thread->gw, g.model, &m, err);
    if (rc == 0)
        respond_model(c->req, m);
    served_model_put(m);
    genreq_release(&g);
    return rc;
}

int ollama_load(struct event_thread *thread, struct http_request *req, const struct genreq *g,
                struct api_error *err) {
    struct served_model *m = NULL;
    struct buf body = {0};
    CHECK(genreq_asks_nothing(g));
    if (call_find_model(thread->gw, g->model, &m, err))
        return -1;
    buf_add_str(&body, "{\"model\":\"");
    buf_add_json(&body, bytes_str(m->name));
    buf_add_str(&body, "\",\"created_at\":\"");
    ollama_add_time(&body, wall_ms() / 1000);
    buf_add_str(&body, g->dialect == GENREQ_OLLAMA_CHAT
                           ? "\",\"message\":{\"role\":\"assistant\",\"content\":\"\"}"
                           : "\",\"response\":\"\"");
    buf_add_str(&body, ",\"done\":true,\"done_reason\":\"load\"}\n");
    respond(req, &body);
    served_model_put(m);
    return 0;
}

int ollama_version(const struct call *c, struct api_error *err) {
    struct buf body = {0};
    buf_add_str(&body,
                "{\"version\":\"" OLLAMA_VERSION "\",\"trireme\":\"" TRIREME_VERSION "\"}\n");
    respond(c->req, &body);
    return 0;
}

/* ---- what is not here ---- */

int ollama_refuse(const struct call *c, struct api_error *err) {
    struct bytes path = c->req->path;
    return api_error_set(err, API_UNSUPPORTED, NULL,
                         "'%.*s' is not offered by this server: models are added by POST "
                         "/models/add, and downloaded by its operator",
                         (int)MIN(path.len, (size_t)100), (const char *)path.data);
}
