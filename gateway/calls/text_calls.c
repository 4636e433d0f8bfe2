#include "gateway/calls/text_calls.h"

#include "gateway/answers/answer_room.h"
#include "gateway/answers/error_response.h"
#include "gateway/answers/whole_body.h"
#include "gateway/calls/text_calls_internal.h"
#include "gateway/dialects/anthropic.h"
#include "gateway/dialects/openai_functions.h"
#include "gateway/dialects/responses.h"
#include "gateway/generation/event_thread.h"
#include "gateway/generation/open_places.h"
#include "gateway/generation/work_pool.h"
#include "gateway/link/scheduler_link.h"

/* ---- fields ---- */

static int read_prompt(struct field_reader *r, enum json_event first) {
    text_request_of(r)->has_prompt = true;
    return field_string(r, first, TEXT_CALL_BYTES_MAX, &text_request_of(r)->prompt);
}

static int read_content(struct field_reader *r, enum json_event first) {
    text_request_of(r)->has_content = true;
    return field_string(r, first, TEXT_CALL_BYTES_MAX, &text_request_of(r)->content);
}

static int read_inputs(struct field_reader *r, enum json_event first) {
    text_request_of(r)->tells_pieces = true;
    return read_prompt(r, first);
}

static int read_tokens(struct field_reader *r, enum json_event first) {
    if (first != JSON_ARRAY_BEGIN)
        return field_wrong_type(r, "an array of token ids", first);
    text_request_of(r)->has_tokens = true;
    return field_token_array(r, json_next(&r->json), TEXT_CALL_BYTES_MAX,
                             &text_request_of(r)->tokens);
}

static int read_texts(struct field_reader *r, enum json_event first) {
    r->g->answers_list = first == JSON_ARRAY_BEGIN;
    if (field_prompt(r, first))
        return -1;
    for (uint32_t i = 0; i < r->g->prompt_count; i++)
        if (r->g->prompts[i].is_ids)
            return field_wrong_type(r, "a string, or an array of strings", JSON_NUMBER);
    return 0;
}

/* A bool that only these calls have. */
#define CALL_FIELD(json, member)                                                                   \
    { .name = json, .kind = FIELD_BOOL, .offset = offsetof(struct text_request, member) }

/* clang-format off */
static const struct field rows[] = {
    STRING_FIELD("model", model, GENREQ_NAME_MAX),
    CUSTOM_FIELD("prompt", read_prompt),
    CUSTOM_FIELD("inputs", read_inputs),
    CUSTOM_FIELD("content", read_content),
    CUSTOM_FIELD("tokens", read_tokens),
    BOOL_FIELD("add_special_tokens", add_special_tokens, GENREQ_ADD_SPECIAL),
    CALL_FIELD("add_special", add_special),
    CALL_FIELD("parse_special", parse_special),
    CALL_FIELD("with_pieces", with_pieces),
    CALL_FIELD("return_token_strs", return_token_strs),
};
/* clang-format on */

static const struct field_table text_calls_own = {rows, ARRAY_LEN(rows)};
static const struct field_table *const text_calls_tables[] = {&field_template, &text_calls_own};
const struct field_set fields_text_calls = {text_calls_tables, ARRAY_LEN(text_calls_tables)};

/* LMDeploy's: texts, of which the answer is a list where they are one. */
/* clang-format off */
static const struct field encode_rows[] = {
    STRING_FIELD("model", model, GENREQ_NAME_MAX),
    CUSTOM_FIELD("input", read_texts),
    BOOL_FIELD("add_bos", add_special_tokens, 0),
    NEUTRAL_FIELD("do_preprocess", "false"),
};
/* clang-format on */
FIELD_SET_OF_ROWS(encode_text, encode_rows);

static int read_encode(struct text_request *t, struct bytes body, struct api_error *err) {
    t->g.add_special_tokens = true;
    return field_read_request(&t->g, &fields_encode_text, body, err);
}

static int read_own(struct text_request *t, struct bytes body, struct api_error *err) {
    if (field_read_request(&t->g, &fields_text_calls, body, err))
        return -1;
    return functions_convert_messages(&t->g, err);
}

static int read_messages(struct text_request *t, struct bytes body, struct api_error *err) {
    return anthropic_parse(&t->g, body, true, err);
}

static int read_response(struct text_request *t, struct bytes body, struct api_error *err) {
    return responses_parse(&t->g, body, err);
}

static int read_chat(struct text_request *t, struct bytes body, struct api_error *err) {
    return openai_chat_parse(&t->g, body, err);
}

static int read_completion(struct text_request *t, struct bytes body, struct api_error *err) {
    genreq_release(&t->g); /* its defaults are a chat's */
    genreq_init(&t->g, GENREQ_COMPLETIONS);
    return openai_completions_parse(&t->g, body, err);
}

static int parse(struct text_request *t, text_call_reader *read, struct bytes body,
                 struct api_error *err) {
    *t = (struct text_request){.parse_special = true};
    genreq_init(&t->g, GENREQ_CHAT);
    if (body.len > TEXT_CALL_BYTES_MAX)
        return api_error_set(err, API_TOO_LARGE, NULL, "the body has more than %d bytes",
                             TEXT_CALL_BYTES_MAX);
    if (body.len == 0)
        return api_error_set(err, API_BAD_REQUEST, NULL,
                             "the request has no body; it must be a JSON object");
    if (field_check_json(body, err))
        return -1;
    if (read(t, body, err) == 0)
        return 0;
    field_name_as_asked(&t->g, err);
    return -1;
}

/* ---- calls ---- */

/* Its event thread touches `http` alone while the pool has it. */
struct text_job {
    struct work work;
    struct u128 tenant;
    struct gateway *gw; /* borrowed: it outlives the event threads */
    int thread_idx;
    struct http_request *http; /* NULL: its client is gone */
    text_call_reader *read;
    text_call *call;
    struct buf body, out;
    uint64_t room;        /* of the gateway's answer_room, for out */
    struct api_error err; /* status 0: none */
};

static struct text_job *job_of(struct work *work) {
    return (struct text_job *)(void *)((char *)work - offsetof(struct text_job, work));
}

void text_job_free(struct text_job *job) {
    if (!job)
        return;
    answer_room_give(job->gw->room, job->work.tenant, job->room);
    buf_release(&job->body);
    buf_release(&job->out);
    mem_free(job);
}

/* There is room for what came out. 0, or -1 with *err filled. */
static int take_room(struct text_job *job) {
    if (job->out.failed)
        return api_error_set(&job->err, API_TOO_LARGE, NULL,
                             "the answer would have more than %d bytes", TEXT_CALL_ANSWER_BYTES);
    if (answer_room_take(job->gw->room, job->work.tenant, job->out.cap)) {
        job->room = job->out.cap;
        return 0;
    }
    api_error_set(&job->err, API_UNAVAILABLE, NULL,
                  "too many answers have not been read; try again later");
    job->err.retry_after_ms = 1000;
    return -1;
}

static void work_out(struct text_job *job, struct bytes body) {
    struct text_request t;
    struct served_model *m = NULL;
    buf_init(&job->out, TEXT_CALL_ANSWER_BYTES);
    int rc = parse(&t, job->read, body, &job->err);
    if (rc == 0)
        rc = responses_resume(&t.g, job->gw->responses, job->tenant, &job->err);
    if (rc == 0)
        rc = call_find_model(job->gw, t.g.model, &m, &job->err);
    if (rc == 0)
        rc = job->call(&t, m, &job->out, &job->err);
    if (t.g.arena.starved)
        rc = api_error_out_of_memory(&job->err);
    if (rc == 0)
        rc = take_room(job);
    if (rc == 0)
        job->err.status = 0;
    else
        buf_release(&job->out);
    served_model_put(m);
    genreq_release(&t.g);
}

static void respond(struct text_job *job) {
    struct http_request *req = job->http;
    if (!req)
        return;
    if (job->err.status) {
        error_respond(req, &job->err);
        return;
    }
    whole_body_send(job->gw, req, &job->out, job->work.tenant, job->room);
    job->room = 0;
}

void text_call_on_done(struct text_job *job) {
    respond(job);
    text_job_free(job);
}

/* On a thread of the pool. */
static void run(struct work *work) {
    struct text_job *job = job_of(work);
    struct gateway *gw = job->gw;
    work_out(job, buf_bytes(&job->body));
    struct mail *mail = mail_new(MAIL_TEXT, NULL);
    mail->text = job;
    mailbox_push(&gw->boxes[job->thread_idx], mail);
    scheduler_link_wake(gw->link);
}

static void drop(struct work *work) {
    text_job_free(job_of(work));
}

static void on_closed(void *ctx, struct http_request *req) {
    struct text_job *job = ctx;
    (void)req;
    job->http = NULL;
}

/* Is it known to be quick? Not where a template comes with it, or a conversation that was kept. */
static bool is_quick(const struct gateway *gw, text_call_reader *read, size_t bytes) {
    return bytes <= TEXT_CALL_INLINE_BYTES && read != read_response &&
           !gw->settings.trust_request_template;
}

static int answer(const struct call *c, text_call_reader *read, text_call *call) {
    struct http_request *req = c->req;
    static const struct http_watch watch = {.on_closed = on_closed};
    struct text_job *job = mem_alloc(sizeof *job);
    *job = (struct text_job){.work = {.tenant = open_holder(c->tenant, req->address),
                                      .bytes = req->body.len,
                                      .run = run,
                                      .drop = drop},
                             .tenant = c->tenant,
                             .gw = c->thread->gw,
                             .thread_idx = c->thread->idx,
                             .http = req,
                             .read = read,
                             .call = call};
    if (is_quick(c->thread->gw, read, req->body.len) || req->body.len > TEXT_CALL_BYTES_MAX) {
        work_out(job, req->body); /* too large is said at once */
        text_call_on_done(job);
        return 0;
    }
    buf_add_bytes(&job->body, req->body);
    if (!work_pool_push(c->thread->gw->workers, &job->work)) {
        api_error_set(&job->err, API_OVERLOADED, NULL,
                      "too many long requests are waiting; try again later");
        text_call_on_done(job);
        return 0;
    }
    http_request_watch(req, &watch, job);
    return 0;
}

int text_call_tokenize(const struct call *c, struct api_error *err) {
    return answer(c, read_own, text_answer_tokenize);
}
int text_call_detokenize(const struct call *c, struct api_error *err) {
    return answer(c, read_own, text_answer_detokenize);
}
int text_call_apply_template(const struct call *c, struct api_error *err) {
    return answer(c, read_own, text_answer_apply_template);
}
int text_call_count_tokens(const struct call *c, struct api_error *err) {
    return answer(c, read_messages, text_answer_count_tokens);
}
int text_call_input_tokens(const struct call *c, struct api_error *err) {
    return answer(c, read_response, text_answer_count_input);
}
int text_call_chat_tokens(const struct call *c, struct api_error *err) {
    return answer(c, read_chat, text_answer_count_input);
}
int text_call_render(const struct call *c, struct api_error *err) {
    return answer(c, read_chat, text_answer_chat_form);
}

int text_call_chat_tokenize(const struct call *c, struct api_error *err) {
    return answer(c, read_chat, text_answer_chat_tokenize);
}

int text_call_encode(const struct call *c, struct api_error *err) {
    return answer(c, read_encode, text_answer_encode);
}

int text_call_completion_tokens(const struct call *c, struct api_error *err) {
    return answer(c, read_completion, text_answer_completion);
}

int text_call_separate_reasoning(const struct call *c, struct api_error *err) {
    return answer(c, read_reasoning, separate_reasoning);
}
int text_call_parse_calls(const struct call *c, struct api_error *err) {
    return answer(c, read_function_calls, parse_function_calls);
}

int text_call_tokenizer_info(const struct call *c, struct api_error *err) {
    struct served_model *m = NULL;
    struct buf out = {0};
    if (call_find_model(c->thread->gw, bytes_of(NULL, 0), &m, err))
        return -1;
    text_answer_tokenizer_info(m, &out);
    http_respond(c->req, 200, "application/json", NULL, 0, buf_bytes(&out));
    buf_release(&out);
    served_model_put(m);
    return 0;
}
