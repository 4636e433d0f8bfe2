#include "gateway/calls/describe.h"

#include <cJSON.h>
#include <stdio.h>

#include "base/utc.h"
#include "formats/json.h"
#include "gateway/answers/answer.h"
#include "gateway/prompts/prepare.h"

#define JSON_TYPE "application/json"

/* Small documents of our own, so cJSON writes them. What clients send is read by the strict reader of
 * field.h instead. */

const char *describe_state(enum model_state state) {
    static const char *const STATES[] = {
        [MODEL_UNLOADED] = "unloaded", [MODEL_LOADING] = "loading", [MODEL_LOADED] = "loaded"};
    return STATES[state];
}

/* Returns owned. */
static cJSON *model_document(const struct model_info *info) {
    cJSON *model = cJSON_CreateObject();
    char created[UTC_TEXT_MAX];
    size_t len = utc_text(info->created_s, created);
    snprintf(created + len, sizeof created - len, "Z");
    cJSON_AddStringToObject(model, "id", info->name);
    cJSON_AddStringToObject(model, "object", "model");
    cJSON_AddNumberToObject(model, "created", (double)info->created_s);
    cJSON_AddStringToObject(model, "owned_by", "trireme");
    /* as Anthropic's clients read it */
    cJSON_AddStringToObject(model, "type", "model");
    cJSON_AddStringToObject(model, "display_name", info->name);
    cJSON_AddStringToObject(model, "created_at", created);
    if (info->max_context) { /* 0: it was never loaded, so nobody knows */
        cJSON_AddNumberToObject(model, "max_model_len", info->max_context);
        cJSON_AddNumberToObject(model, "max_input_tokens", info->max_context);
    }
    cJSON *status = cJSON_AddObjectToObject(model, "status"); /* as llama-server's router has it */
    cJSON_AddStringToObject(status, "value", describe_state(info->state));
    return model;
}

/* Takes the document. */
static void respond_document(struct http_request *req, cJSON *document) {
    char *text = cJSON_PrintUnformatted(document);
    CHECK_MSG(text, "out of memory");
    http_respond(req, 200, JSON_TYPE, NULL, 0, bytes_str(text));
    cJSON_free(text);
    cJSON_Delete(document);
}

struct model_list {
    const struct call *call;
    cJSON *data;
};

static bool is_told(const struct call *c, const struct model_info *info) {
    struct gateway *gw = c->thread->gw;
    return (info->servable || gw->settings.models_on_demand) &&
           auth_allows_model(&gw->auth, c->tenant, info->own_name);
}

static void list_model(void *ctx, const struct model_info *info) {
    const struct model_list *list = ctx;
    if (is_told(list->call, info))
        cJSON_AddItemToArray(list->data, model_document(info));
}

/* A model's id; NULL: there is none. */
static void add_id(cJSON *to, const char *name, const cJSON *model) {
    const cJSON *id = model ? cJSON_GetObjectItemCaseSensitive(model, "id") : NULL;
    if (id)
        cJSON_AddStringToObject(to, name, id->valuestring);
    else
        cJSON_AddNullToObject(to, name);
}

int describe_models(const struct call *c, struct api_error *err) {
    cJSON *list = cJSON_CreateObject();
    cJSON_AddStringToObject(list, "object", "list");
    struct model_list told = {.call = c, .data = cJSON_AddArrayToObject(list, "data")};
    CHECK_MSG(told.data, "out of memory");
    model_table_each(c->thread->gw->models, list_model, &told);
    /* all of Anthropic's one page */
    const cJSON *model, *last = NULL;
    cJSON_ArrayForEach(model, told.data) last = model;
    cJSON_AddBoolToObject(list, "has_more", false);
    add_id(list, "first_id", told.data->child);
    add_id(list, "last_id", last);
    respond_document(c->req, list);
    return 0;
}

struct model_search {
    const struct call *call;
    struct bytes name;
    cJSON *document; /* owned; NULL: not found */
};

static void find_model(void *ctx, const struct model_info *info) {
    struct model_search *search = ctx;
    if (is_told(search->call, info) && !search->document &&
        bytes_equal(bytes_str(info->name), search->name))
        search->document = model_document(info);
}

int describe_model(const struct call *c, struct api_error *err) {
    struct model_search search = {.call = c, .name = c->rest};
    model_table_each(c->thread->gw->models, find_model, &search);
    if (search.document) {
        respond_document(c->req, search.document);
        return 0;
    }
    prepare_refuse_model(MODEL_UNKNOWN, c->rest, err);
    return -1;
}

/* How busy this gateway is, as vLLM tells it: for load balancers. */
int describe_load(const struct call *c, struct api_error *err) {
    struct buf body;
    CHECK(c->thread && c->req);
    buf_init(&body, 0);
    buf_addf(&body, "{\"server_load\":%lld}\n", (long long)atomic_load(&c->thread->gw->open_count));
    http_respond(c->req, 200, JSON_TYPE, NULL, 0, buf_bytes(&body));
    buf_release(&body);
    return 0;
}

/* llama.cpp's slots. Here a request takes none for itself in the gateway: one that works for each
 * that is open, and one that is free while another may be opened. */
int describe_slots(const struct call *c, struct api_error *err) {
    enum { SLOTS_MAX = 1024 };
    const struct gateway *gw = c->thread->gw;
    struct served_model *model = model_table_any_ready(gw->models);
    int64_t open = atomic_load(&gw->open_count);
    bool full = open >= gw->settings.open_max;
    struct buf body = {0};
    if (full && bytes_equal(c->req->query, bytes_str("fail_on_no_slot=1"))) {
        api_error_set(err, API_UNAVAILABLE, NULL, "no slot available");
        served_model_put(model);
        return -1;
    }
    buf_add_byte(&body, '[');
    for (int64_t i = 0; i < MIN(open + !full, SLOTS_MAX); i++)
        buf_addf(&body, "%s{\"id\":%lld,\"n_ctx\":%u,\"is_processing\":%s}", i ? "," : "",
                 (long long)i, model ? model->max_context : 0, i < open ? "true" : "false");
    buf_add_byte(&body, ']');
    http_respond(c->req, 200, JSON_TYPE, NULL, 0, buf_bytes(&body));
    buf_release(&body);
    served_model_put(model);
    return 0;
}

/* That of ?model=NAME, else the one for requests that name none, else any. NULL: err says why. */
static struct served_model *asked_model(const struct call *c, struct api_error *err) {
    struct model_table *models = c->thread->gw->models;
    struct served_model *model = NULL;
    char name[256];
    int len = http_query_find(c->req->query, "model", name, sizeof name);
    if (len > 0) {
        struct bytes asked = bytes_of(name, (size_t)len);
        enum model_found found = model_table_find(models, asked, &model);
        if (found != MODEL_READY)
            prepare_refuse_model(found, asked, err);
        return model;
    }
    model = model_table_any_ready(models);
    if (!model)
        api_error_set(err, API_UNAVAILABLE, NULL, "no model is ready yet");
    return model;
}

/* What llama-server tells of its model: the context, and how a request is sampled that says nothing of it. */
int describe_props(const struct call *c, struct api_error *err) {
    struct served_model *model = asked_model(c, err);
    struct prepared usual = {0};
    struct genreq g;
    struct buf body = {0};
    struct json_writer w;
    if (!model)
        return -1;
    genreq_init(&g, GENREQ_COMPLETION);
    prepare_usual_sampling(&g, model->text, &usual);
    json_writer_init(&w, &body);
    json_begin_object(&w);
    json_key(&w, "default_generation_settings");
    json_begin_object(&w);
    json_key(&w, "params");
    json_begin_object(&w);
    answer_write_settings(&g, &usual.sampling, &w);
    json_end_object(&w);
    json_key(&w, "n_ctx");
    json_uint(&w, model->max_context);
    json_end_object(&w);
    json_key(&w, "model_alias");
    json_string(&w, model->name);
    json_key(&w, "build_info");
    json_string(&w, "trireme " TRIREME_VERSION);
    json_end_object(&w);
    http_respond(c->req, 200, JSON_TYPE, NULL, 0, buf_bytes(&body));
    buf_release(&body);
    prepared_release(&usual);
    genreq_release(&g);
    served_model_put(model);
    return 0;
}

/* ---- one model, in a few members ---- */

/* Answers with what `add` writes of the model that is asked for. */
static int describe_by(const struct call *c, struct api_error *err,
                       void (*add)(cJSON *to, const struct call *c, const struct served_model *m)) {
    struct served_model *model = asked_model(c, err);
    if (!model)
        return -1;
    cJSON *document = cJSON_CreateObject();
    add(document, c, model);
    served_model_put(model);
    respond_document(c->req, document);
    return 0;
}

static void add_tgi(cJSON *to, const struct call *c, const struct served_model *m) {
    cJSON_AddStringToObject(to, "model_id", m->name);
    cJSON_AddNumberToObject(to, "max_concurrent_requests",
                            (double)c->thread->gw->settings.open_max);
    cJSON_AddNumberToObject(to, "max_input_tokens", m->max_context - 1);
    cJSON_AddNumberToObject(to, "max_total_tokens", m->max_context);
    cJSON_AddStringToObject(to, "router", "trireme");
    cJSON_AddStringToObject(to, "version", TRIREME_VERSION);
}

static void add_sglang_model(cJSON *to, const struct call *c, const struct served_model *m) {
    cJSON_AddStringToObject(to, "model_path", m->name);
    cJSON_AddStringToObject(to, "tokenizer_path", m->name);
    cJSON_AddBoolToObject(to, "is_generation", !m->vectors.only);
    cJSON_AddNullToObject(to, "preferred_sampling_params");
}

/* How it was started, as far as clients and routers ask. */
static void add_sglang_server(cJSON *to, const struct call *c, const struct served_model *m) {
    add_sglang_model(to, c, m);
    cJSON_AddStringToObject(to, "served_model_name", m->name);
    cJSON_AddBoolToObject(to, "is_embedding", m->vectors.only);
    cJSON_AddNumberToObject(to, "context_length", m->max_context);
    cJSON_AddNumberToObject(to, "max_running_requests", (double)c->thread->gw->settings.open_max);
    cJSON_AddStringToObject(to, "status", "ready");
    cJSON_AddStringToObject(to, "version", TRIREME_VERSION);
}

/* What Hugging Face's TGI tells of its model and bounds (InferenceClient.get_endpoint_info). */
int describe_info(const struct call *c, struct api_error *err) {
    return describe_by(c, err, add_tgi);
}

/* What SGLang's clients ask for first (RuntimeEndpoint). */
int describe_model_info(const struct call *c, struct api_error *err) {
    return describe_by(c, err, add_sglang_model);
}

int describe_server_info(const struct call *c, struct api_error *err) {
    return describe_by(c, err, add_sglang_server);
}
