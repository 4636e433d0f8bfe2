#include "gateway/answers/gather.h"

#include "formats/json.h"
#include "gateway/answers/answer_room.h"
#include "gateway/answers/error_response.h"
#include "gateway/answers/gather_bodies.h"
#include "gateway/answers/whole_body.h"
#include "gateway/generation/generation.h"
#include "gateway/generation/open_places.h"

struct gather {
    struct event_thread *thread; /* borrowed */
    struct http_request *http;   /* borrowed; NULL: it is over */
    enum genreq_dialect dialect;
    struct u128 holder;
    uint32_t count, here; /* requests, and answers that came */
    uint32_t open;        /* generations that have not left, and whoever opens them */
    struct buf answers[GENREQ_PROMPTS_MAX]; /* owned */
    uint64_t room;
};

/* ---- one answer of all ---- */

/* An object for each, where one of them has several choices the objects of its list. */
static void join_objects(const struct gather *g, struct buf *out) {
    buf_add_byte(out, '[');
    for (uint32_t i = 0; i < g->count; i++) {
        struct bytes one = buf_bytes(&g->answers[i]);
        if (i)
            buf_add_byte(out, ',');
        if (one.len && one.data[0] == '[')
            one = bytes_of(one.data + 1, one.len - 2);
        buf_add_bytes(out, one);
    }
    buf_add_byte(out, ']');
}

/* What a chat's answer says. */
struct chat_answer {
    struct bytes id, created, model, fingerprint, choices, usage; /* raw */
};
struct chat_usage {
    int64_t prompt, output, cached, reasoning;
    bool reasons;
};

static void read_answer(struct bytes text, struct chat_answer *a) {
    const struct json_wanted members[] = {
        {"id", &a->id},           {"created", &a->created},
        {"model", &a->model},     {"system_fingerprint", &a->fingerprint},
        {"choices", &a->choices}, {"usage", &a->usage}};
    struct json_reader r;
    *a = (struct chat_answer){0};
    json_reader_init(&r, text, 0, JSON_ALLOW_NUL);
    bool ok =
        json_next(&r) == JSON_OBJECT_BEGIN && json_take_members(&r, members, ARRAY_LEN(members));
    json_reader_release(&r);
    CHECK(ok && a->choices.len && a->usage.len); /* response.c wrote it */
}

static int64_t number_of(struct bytes raw) {
    int64_t value = 0;
    CHECK(!raw.len || json_number_int64(raw, &value));
    return value;
}

static void read_members(struct bytes object, const struct json_wanted *members, size_t count) {
    struct json_reader r;
    if (!object.len)
        return;
    json_reader_init(&r, object, 0, JSON_ALLOW_NUL);
    bool ok = json_next(&r) == JSON_OBJECT_BEGIN && json_take_members(&r, members, count);
    json_reader_release(&r);
    CHECK(ok);
}

static void add_usage(struct bytes text, struct chat_usage *sum) {
    struct bytes prompt = {0}, output = {0}, before = {0}, behind = {0}, cached = {0},
                 thought = {0};
    const struct json_wanted members[] = {{"prompt_tokens", &prompt},
                                          {"completion_tokens", &output},
                                          {"prompt_tokens_details", &before},
                                          {"completion_tokens_details", &behind}};
    read_members(text, members, ARRAY_LEN(members));
    read_members(before, &(struct json_wanted){"cached_tokens", &cached}, 1);
    read_members(behind, &(struct json_wanted){"reasoning_tokens", &thought}, 1);
    sum->prompt += number_of(prompt);
    sum->output += number_of(output);
    sum->cached += number_of(cached);
    sum->reasoning += number_of(thought);
    sum->reasons |= behind.len > 0;
}

/* The choices of a chat, under indexes behind those of the chats before. */
static void add_choices(struct bytes list, uint32_t *index, struct buf *out) {
    static const char INDEX[] = "{\"index\":";
    struct json_reader r;
    json_reader_init(&r, list, 0, JSON_ALLOW_NUL);
    (void)json_next(&r);
    while (json_next(&r) == JSON_OBJECT_BEGIN) {
        struct bytes choice;
        CHECK(json_take(&r, &choice) && choice.len > sizeof INDEX);
        CHECK(memcmp(choice.data, INDEX, sizeof INDEX - 1) == 0);
        size_t at = sizeof INDEX - 1;
        while (choice.data[at] >= '0' && choice.data[at] <= '9')
            at++;
        buf_addf(out, "%s%s%u", *index ? "," : "", INDEX, *index);
        ++*index;
        buf_add(out, choice.data + at, choice.len - at);
    }
    json_reader_release(&r);
}

static void join_chats(const struct gather *g, struct buf *out) {
    struct chat_answer a;
    struct chat_usage sum = {0};
    uint32_t index = 0;
    read_answer(buf_bytes(&g->answers[0]), &a);
    buf_addf(out, "{\"id\":%.*s,\"object\":\"chat.completion\",\"created\":%.*s,\"model\":%.*s", //
             (int)a.id.len, (const char *)a.id.data, (int)a.created.len,
             (const char *)a.created.data, (int)a.model.len, (const char *)a.model.data);
    if (a.fingerprint.len) {
        buf_add_str(out, ",\"system_fingerprint\":");
        buf_add_bytes(out, a.fingerprint);
    }
    buf_add_str(out, ",\"choices\":[");
    for (uint32_t i = 0; i < g->count; i++) {
        read_answer(buf_bytes(&g->answers[i]), &a);
        add_choices(a.choices, &index, out);
        add_usage(a.usage, &sum);
    }
    buf_addf(out,
             "],\"usage\":{\"prompt_tokens\":%lld,\"completion_tokens\":%lld,\"total_tokens\":%lld,"
             "\"prompt_tokens_details\":{\"cached_tokens\":%lld}",
             (long long)sum.prompt, (long long)sum.output, (long long)(sum.prompt + sum.output),
             (long long)sum.cached);
    if (sum.reasons)
        buf_addf(out, ",\"completion_tokens_details\":{\"reasoning_tokens\":%lld}",
                 (long long)sum.reasoning);
    buf_add_str(out, "}}");
}

/* ---- life ---- */

static void on_closed(void *ctx, struct http_request *req) {
    struct gather *g = ctx;
    (void)req;
    g->http = NULL;
}

void gather_leave(struct gather **gather) {
    struct gather *g = *gather;
    *gather = NULL;
    if (!g || --g->open > 0)
        return;
    CHECK(!g->http); /* answered, failed or closed: turn_end comes after the server's end */
    for (uint32_t i = 0; i < g->count; i++)
        buf_release(&g->answers[i]);
    answer_room_give(g->thread->gw->room, g->holder, g->room);
    open_places_give(g->thread->gw->places, g->holder);
    mem_free(g);
}

bool gather_is_over(const struct gather *gather) {
    return gather && !gather->http;
}

void gather_fail(struct gather *g, const struct api_error *err) {
    struct http_request *http = g->http;
    g->http = NULL;
    if (http)
        error_respond_in(http, g->dialect, err);
}

void gather_put(struct gather *g, uint32_t idx, struct bytes answer, uint64_t room) {
    struct api_error err;
    struct buf out = {0};
    CHECK(idx < g->count && !g->answers[idx].len && g->here < g->count);
    buf_add_bytes(&g->answers[idx], answer);
    g->room += room;
    g->here++;
    if (!g->answers[idx].failed && (g->here < g->count || !g->http))
        return;
    if (!g->answers[idx].failed && g->dialect == GENREQ_CHAT)
        join_chats(g, &out);
    else if (!g->answers[idx].failed)
        join_objects(g, &out);
    if (g->answers[idx].failed || out.failed) {
        api_error_out_of_memory(&err);
        gather_fail(g, &err);
        buf_release(&out);
        return;
    }
    struct http_request *http = g->http;
    g->http = NULL;
    whole_body_send(g->thread->gw, http, &out, g->holder, g->room);
    g->room = 0;
}

/* ---- the way in ---- */

/* What an answer in one piece of many has no place for. */
static int check(const struct genreq *q, enum genreq_dialect dialect, struct api_error *err) {
    const struct {
        bool given;
        const char *name;
    } others[] = {{q->stream, "stream"},
                  {dialect == GENREQ_CHAT && q->return_token_ids, "return_token_ids"},
                  {dialect == GENREQ_CHAT && q->prompt_logprobs >= 0, "prompt_logprobs"},
                  {q->timings, "timings_per_token"},
                  {q->verbose, "verbose"}};
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        if (others[i].given)
            return api_error_set(err, API_UNSUPPORTED, others[i].name,
                                 "'%s' cannot be had for several requests in one body",
                                 others[i].name);
    return 0;
}

/* Takes body. 0, or -1 with *err filled: nothing was opened. */
static int open_one(struct gather *g, uint32_t idx, struct buf *body, struct u128 tenant,
                    struct generation **out, struct api_error *err) {
    struct genreq q;
    if (genreq_parse(&q, g->dialect, buf_bytes(body), err) || check(&q, g->dialect, err)) {
        genreq_release(&q);
        return -1;
    }
    *out = generation_open_gathered(g->thread, g->http, &q, body, tenant, g, idx);
    g->open++;
    return 0;
}

static int open_all(struct gather *g, struct buf *bodies, struct u128 tenant,
                    struct api_error *err) {
    struct generation *opened[GENREQ_PROMPTS_MAX];
    uint32_t count = 0;
    int rc = 0;
    while (rc == 0 && count < g->count) {
        rc = open_one(g, count, &bodies[count], tenant, &opened[count], err);
        count += rc == 0;
    }
    if (rc)
        g->http = NULL; /* the next tick cancels those that are there */
    for (uint32_t i = 0; i < count && !gather_is_over(g); i++)
        generation_try(opened[i]); /* ends no other */
    return rc;
}

int gather_open(struct event_thread *thread, struct http_request *req, enum genreq_dialect dialect,
                struct u128 tenant, struct api_error *err) {
    static const struct http_watch watch = {.on_closed = on_closed};
    struct buf bodies[GENREQ_PROMPTS_MAX] = {0};
    struct u128 holder = open_holder(tenant, req->address);
    struct gather *g = NULL;
    uint32_t count;
    int rc = gather_cut(dialect, req->body, bodies, &count, err);
    if (rc == 0)
        rc = generation_take_place(thread->gw, holder, err);
    if (rc == 0) {
        g = mem_calloc(1, sizeof *g);
        g->thread = thread;
        g->http = req;
        g->dialect = dialect;
        g->holder = holder;
        g->count = count;
        g->open = 1;
        http_request_watch(req, &watch, g);
        rc = open_all(g, bodies, tenant, err);
    }
    for (uint32_t i = 0; i < count; i++)
        buf_release(&bodies[i]);
    gather_leave(&g);
    return rc;
}
