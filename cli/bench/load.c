#include "cli/bench/load.h"

#include "base/clock.h"
#include "formats/json.h"
#include "formats/json_document.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { STACK_BYTES = 512 << 10 };

struct run {
    const struct bench_load_config *config;
    int64_t begin_ns;
    pthread_mutex_t lock;
    pthread_cond_t ended; /* a request has */
    size_t open, done;
};

struct one {
    struct run *run;
    const struct bench_prompt *prompt;
    struct bench_outcome *outcome;
    bool ended; /* [DONE] was seen */
};

static double now(const struct run *run) {
    return (double)(clock_ns() - run->begin_ns) / 1e9;
}

void bench_body(const struct bench_load_config *c, const struct bench_prompt *prompt,
                struct buf *out) {
    buf_add_byte(out, '{');
    if (c->model) {
        buf_add_str(out, "\"model\":\"");
        buf_add_json(out, bytes_of(c->model, strlen(c->model)));
        buf_add_str(out, "\",");
    }
    if (c->chat)
        buf_addf(out, "\"messages\":[{\"role\":\"user\",\"content\":%s}]", prompt->json);
    else
        buf_addf(out, "\"prompt\":%s", prompt->json);
    buf_addf(out,
             ",\"max_tokens\":%u,\"temperature\":%g,\"stream\":true,\"stream_options\":{"
             "\"include_usage\":true}%s}",
             prompt->max_tokens, c->temperature, c->ignore_eos ? ",\"ignore_eos\":true" : "");
}

/* True when an event carries text, reasoning or a tool call. */
static bool has_text(const cJSON *document) {
    static const char *const PLACES[] = {"choices.0.text", "choices.0.delta.content",
                                         "choices.0.delta.reasoning_content"};
    for (size_t i = 0; i < ARRAY_LEN(PLACES); i++) {
        const char *text = json_document_text(document, PLACES[i]);
        if (text && *text)
            return true;
    }
    return json_document_find(document, "choices.0.delta.tool_calls") != NULL;
}

static uint32_t number_at(const cJSON *document, const char *path) {
    const cJSON *item = json_document_find(document, path);
    double value = cJSON_IsNumber(item) ? item->valuedouble : 0;
    return value >= 0 && value <= UINT32_MAX ? (uint32_t)value : 0;
}

static bool on_event(void *ctx, struct bytes data) {
    struct one *one = ctx;
    struct bench_outcome *o = one->outcome;
    double at = now(one->run);
    cJSON *document;
    struct error ignored;
    if (data.len == 6 && !memcmp(data.data, "[DONE]", 6)) {
        one->ended = true;
        return true;
    }
    if (json_document_parse(data, &document, &ignored))
        return true;
    if (has_text(document)) {
        if (o->first < 0)
            o->first = at;
        else
            vec_push(&o->gaps, (float)(at - o->last));
        o->last = at;
    }
    if (cJSON_IsObject(json_document_find(document, "usage"))) {
        o->prompt_tokens = number_at(document, "usage.prompt_tokens");
        o->output_tokens = number_at(document, "usage.completion_tokens");
    }
    const char *error = json_document_text(document, "error.message");
    if (error && !o->error)
        o->error = mem_strdup(error);
    cJSON_Delete(document);
    return true;
}

/* Why a request that was sent has not been answered; NULL: it has. Returns owned. */
static char *failure(const struct one *one, int status, struct buf *body, const struct error *err) {
    char text[64];
    if (status < 0)
        return mem_strdup(err->text);
    if (status != 200) {
        char *message = api_error_text(buf_bytes(body));
        snprintf(text, sizeof text, "status %d", status);
        if (*message)
            return message;
        mem_free(message);
        return mem_strdup(text);
    }
    if (one->outcome->first < 0)
        return mem_strdup("the answer has no text");
    return one->ended ? NULL : mem_strdup("the stream ended early");
}

static void *send_one(void *ctx) {
    struct one *one = ctx;
    struct run *run = one->run;
    const struct bench_load_config *c = run->config;
    struct bench_outcome *o = one->outcome;
    struct buf body, answer;
    struct error err;
    buf_init(&body, 0);
    buf_init(&answer, 0);
    bench_body(c, one->prompt, &body);
    o->sent = now(run);
    int status = api_stream(&c->client, c->endpoint, buf_text(&body), on_event, one, &answer,
                            c->timeout_ms, &err);
    if (!o->error)
        o->error = failure(one, status, &answer, &err);
    if (!o->output_tokens) /* a server that does not count: a token a piece */
        o->output_tokens = o->first < 0 ? 0 : (uint32_t)o->gaps.count + 1;
    buf_release(&body);
    buf_release(&answer);
    pthread_mutex_lock(&run->lock);
    run->open--;
    run->done++;
    if (c->on_done)
        c->on_done(c->ctx, run->done);
    pthread_cond_signal(&run->ended);
    pthread_mutex_unlock(&run->lock);
    return NULL;
}

static void wait_for_place(struct run *run) {
    pthread_mutex_lock(&run->lock);
    while (run->open >= run->config->max_open)
        pthread_cond_wait(&run->ended, &run->lock);
    run->open++;
    pthread_mutex_unlock(&run->lock);
}

static void sleep_until(const struct run *run, double seconds) {
    for (double left; (left = seconds - now(run)) > 0;) {
        struct timespec t = {.tv_sec = (time_t)left,
                             .tv_nsec = (long)((left - (double)(time_t)left) * 1e9)};
        nanosleep(&t, NULL);
    }
}

double bench_load(const struct bench_load_config *c, const struct bench_prompt *prompts,
                  const double *times, size_t count, struct bench_outcome *outcomes) {
    struct run run = {.config = c, .begin_ns = clock_ns()};
    struct one *all = mem_calloc(count, sizeof *all);
    pthread_attr_t attributes;
    pthread_mutex_init(&run.lock, NULL);
    pthread_cond_init(&run.ended, NULL);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    for (size_t i = 0; i < count; i++) {
        pthread_t thread;
        outcomes[i] = (struct bench_outcome){.first = -1, .max_tokens = prompts[i].max_tokens};
        all[i] = (struct one){&run, &prompts[i], &outcomes[i], false};
        sleep_until(&run, times[i]);
        wait_for_place(&run);
        if (pthread_create(&thread, &attributes, send_one, &all[i]) == 0)
            continue;
        outcomes[i].error = mem_strdup("no thread could be made for it");
        pthread_mutex_lock(&run.lock);
        run.open--;
        run.done++;
        pthread_mutex_unlock(&run.lock);
    }
    pthread_mutex_lock(&run.lock);
    while (run.open)
        pthread_cond_wait(&run.ended, &run.lock);
    pthread_mutex_unlock(&run.lock);
    double seconds = now(&run);
    pthread_attr_destroy(&attributes);
    pthread_cond_destroy(&run.ended);
    pthread_mutex_destroy(&run.lock);
    mem_free(all);
    return seconds;
}
