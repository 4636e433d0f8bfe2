#include "gateway/calls/loads.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/utc.h"
#include "base/vec.h"
#include "formats/json.h"
#include "gateway/watch/model_metrics.h"

#define JSON_TYPE "application/json"

#define ALL UINT32_MAX /* entries */

struct load {
    char name[MODEL_NAME_MAX];
    struct model_load figures;
};
struct loads {
    const struct call *call;
    VEC(struct load) items;
};

static void add_model(void *ctx, const struct model_info *info) {
    struct loads *loads = ctx;
    struct gateway *gw = loads->call->thread->gw;
    struct load load;
    if (!info->servable || !auth_allows_model(&gw->auth, loads->call->tenant, info->own_name) ||
        strcmp(info->name, info->own_name) != 0) /* another name of the same */
        return;
    snprintf(load.name, sizeof load.name, "%s", info->name);
    model_metrics_load(info->own_name, &load.figures);
    vec_push(&loads->items, load);
}

static double usage_of(const struct model_load *l) {
    return l->tokens ? (double)l->tokens_used / (double)l->tokens : 0;
}

static void add_json(const struct loads *loads, uint32_t only, struct buf *out) {
    char now[UTC_TEXT_MAX];
    utc_text(wall_ms() / 1000, now);
    buf_addf(out, "{\"timestamp\":\"%s+00:00\",", now);
    buf_add_str(out, "\"version\":\"" TRIREME_VERSION "\",\"accelerator\":null,\"loads\":[");
    size_t from = out->len;
    for (uint32_t i = 0; i < loads->items.count; i++) {
        const struct load *load = &loads->items.items[i];
        const struct model_load *l = &load->figures;
        if (only != ALL && only != i)
            continue;
        buf_addf(out, "%s{\"dp_rank\":%u,\"model\":\"", out->len > from ? "," : "", i);
        buf_add_json(out, bytes_str(load->name));
        buf_addf(out,
                 "\",\"num_running_reqs\":%u,\"num_waiting_reqs\":%u,\"num_total_reqs\":%u,"
                 "\"num_used_tokens\":%llu,\"max_total_num_tokens\":%llu,\"token_usage\":%.6g,"
                 "\"max_running_requests\":%u}",
                 l->running, l->waiting, l->running + l->waiting,
                 (unsigned long long)l->tokens_used, (unsigned long long)l->tokens, usage_of(l),
                 l->slots);
    }
    buf_add_str(out, "]}\n");
}

/* As SGLang calls them, for whoever scrapes that path. */
static void add_prometheus(const struct loads *loads, uint32_t only, struct buf *out) {
    static const char *const NAMES[] = {
        "num_running_reqs",     "num_waiting_reqs", "num_total_reqs",      "num_used_tokens",
        "max_total_num_tokens", "token_usage",      "max_running_requests"};
    for (size_t k = 0; k < ARRAY_LEN(NAMES); k++) {
        buf_addf(out, "# TYPE sglang_%s gauge\n", NAMES[k]);
        for (uint32_t i = 0; i < loads->items.count; i++) {
            const struct model_load *l = &loads->items.items[i].figures;
            const double values[ARRAY_LEN(NAMES)] = {l->running,
                                                     l->waiting,
                                                     (double)l->running + l->waiting,
                                                     (double)l->tokens_used,
                                                     (double)l->tokens,
                                                     usage_of(l),
                                                     l->slots};
            if (only == ALL || only == i)
                buf_addf(out, "sglang_%s{dp_rank=\"%u\"} %.9g\n", NAMES[k], i, values[k]);
        }
    }
}

/* ?dp_rank=N: one entry. */
static int read_rank(struct bytes query, size_t count, uint32_t *out, struct api_error *err) {
    char text[16];
    int64_t rank;
    int len = http_query_find(query, "dp_rank", text, sizeof text);
    *out = ALL;
    if (len <= 0)
        return 0;
    if (!json_number_int64(bytes_of(text, (size_t)len), &rank) || rank < 0 ||
        rank >= (int64_t)count)
        return api_error_set(err, API_BAD_REQUEST, "dp_rank",
                             "'dp_rank' is the number of an entry: there are %zu", count);
    *out = (uint32_t)rank;
    return 0;
}

/* ?include=SECTION,...: only figures of the core are known here. */
static int check_sections(struct bytes query, struct api_error *err) {
    static const char KNOWN[] = "all,core,memory,spec,lora,disagg,queues";
    char text[128];
    int len = http_query_find(query, "include", text, sizeof text);
    const char *rest = text;
    if (len <= 0)
        return 0;
    for (struct bytes section; list_next_trimmed(&rest, ',', &section);)
        if (!list_has(KNOWN, ',', section))
            return api_error_set(err, API_BAD_REQUEST, "include", "'include' takes %s", KNOWN);
    return 0;
}

int loads_get(const struct call *c, struct api_error *err) {
    struct loads loads = {.call = c};
    struct buf body = {0};
    char format[16];
    uint32_t only;
    int len = http_query_find(c->req->query, "format", format, sizeof format);
    bool prometheus = len > 0 && strcmp(format, "prometheus") == 0;
    model_table_each(c->thread->gw->models, add_model, &loads);
    int rc = check_sections(c->req->query, err);
    if (!rc && len > 0 && !prometheus && strcmp(format, "json") != 0)
        rc = api_error_set(err, API_BAD_REQUEST, "format", "'format' must be json or prometheus");
    if (!rc)
        rc = read_rank(c->req->query, loads.items.count, &only, err);
    if (!rc && prometheus)
        add_prometheus(&loads, only, &body);
    else if (!rc)
        add_json(&loads, only, &body);
    if (!rc)
        http_respond(c->req, 200,
                     prometheus ? "text/plain; version=0.0.4; charset=utf-8" : JSON_TYPE, NULL, 0,
                     buf_bytes(&body));
    buf_release(&body);
    vec_release(&loads.items);
    return rc;
}

int loads_get_old(const struct call *c, struct api_error *err) {
    struct loads loads = {.call = c};
    struct buf body = {0};
    model_table_each(c->thread->gw->models, add_model, &loads);
    buf_add_byte(&body, '[');
    for (uint32_t i = 0; i < loads.items.count; i++) {
        const struct model_load *l = &loads.items.items[i].figures;
        buf_addf(&body,
                 "%s{\"dp_rank\":%u,\"num_reqs\":%u,\"num_waiting_reqs\":%u,\"num_tokens\":%llu}",
                 i ? "," : "", i, l->running + l->waiting, l->waiting,
                 (unsigned long long)l->tokens_used);
    }
    buf_add_str(&body, "]\n");
    http_respond(c->req, 200, JSON_TYPE, NULL, 0, buf_bytes(&body));
    buf_release(&body);
    vec_release(&loads.items);
    return 0;
}
