#include "gateway/calls/text_calls.h"

#include "base/utf8.h"
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
#include "gateway/prompts/prepare.h"

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
    struct error scan;
    *t = (struct text_request){.parse_special = true};
    genreq_init(&t->g, GENREQ_CHAT);
    if (body.len > TEXT_CALL_BYTES_MAX)
        return api_error_set(err, API_TOO_LARGE, NULL, "the body has more than %d bytes",
                             TEXT_CALL_BYTES_MAX);
    if (body.len == 0)
        return api_error_set(err, API_BAD_REQUEST, NULL,
                             "the request has no body; it must be a JSON object");
    if (json_scan(body, GENREQ_DEPTH_MAX, &scan))
        return api_error_set(err, API_BAD_REQUEST, NULL, "malformed JSON: %s", scan.text);
    return read(t, body, err);
}

static int find_model(struct gateway *gw, struct bytes name, struct served_model **m,
                      struct api_error *err) {
    *m = NULL;
    enum model_found found = model_table_find(gw->models, name, m);
    if (found == MODEL_NOT_READY)
        scheduler_link_want(gw->link, name);
    return found == MODEL_READY ? 0 : prepare_refuse_model(found, name, err);
}

/* ---- answers ---- */

static int encode(const struct served_model *m, struct bytes text, const struct plain_spots *spots,
                  bool add_special, bool parse_special, struct token_vec *out,
                  struct api_error *api) {
    struct error err;
    unsigned flags =
        (add_special ? TOKENIZE_ADD_SPECIAL : 0u) | (parse_special ? TOKENIZE_PARSE_SPECIAL : 0u);
    if (tokenizer_encode_spots(m->text->tokenizer, text, spots->items, spots->count, flags, out,
                               &err) == 0)
        return 0;
    return api_error_set(api, API_BAD_REQUEST, "prompt", "%s", err.text);
}

/* What is to be tokenized: a text, or a chat's prompt. */
static int tokens_of(const struct text_request *t, const struct served_model *m,
                     struct token_vec *out, struct api_error *err) {
    struct plain_spots spots = {0};
    if (t->has_content)
        return encode(m, t->content, &spots, t->add_special, t->parse_special, out, err);
    bool given = t->g.given & GENREQ_ADD_SPECIAL;
    if (t->has_prompt)
        return encode(m, t->prompt, &spots, !given || t->g.add_special_tokens, true, out, err);
    if (!t->g.messages.len)
        return api_error_set(err, API_BAD_REQUEST, "prompt",
                             "one of 'prompt', 'content' and 'messages' is needed");
    struct buf prompt = {0};
    int rc = prepare_chat_text(&t->g, m->text, &prompt, &spots, err);
    if (rc == 0)
        rc =
            encode(m, buf_bytes(&prompt), &spots, given && t->g.add_special_tokens, true, out, err);
    vec_release(&spots);
    buf_release(&prompt);
    return rc;
}

/* llama.cpp's: a piece as text, or as bytes when it is half a character. */
static void write_piece(struct json_writer *w, struct bytes piece) {
    if (utf8_valid(piece.data, piece.len)) {
        json_string_bytes(w, piece);
        return;
    }
    json_begin_array(w);
    for (size_t i = 0; i < piece.len; i++)
        json_uint(w, piece.data[i]);
    json_end_array(w);
}

static void write_token(struct json_writer *w, const struct tokenizer *t, uint32_t id,
                        bool with_piece) {
    if (!with_piece) {
        json_uint(w, id);
        return;
    }
    json_begin_object(w);
    json_key(w, "id");
    json_uint(w, id);
    json_key(w, "piece");
    write_piece(w, tokenizer_token_bytes(t, id));
    json_end_object(w);
}

static void write_token_strs(struct json_writer *w, const struct tokenizer *t,
                             const struct token_vec *ids) {
    struct buf text = {0};
    json_key(w, "token_strs");
    json_begin_array(w);
    for (size_t i = 0; i < ids->count; i++) {
        buf_reset(&text);
        tokenizer_token_text(t, ids->items[i], &text);
        json_string_bytes(w, buf_bytes(&text));
    }
    json_end_array(w);
    buf_release(&text);
}

static void write_tokens(const struct text_request *t, const struct served_model *m,
                         const struct token_vec *ids, struct buf *out) {
    const struct tokenizer *tokenizer = m->text->tokenizer;
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_key(&w, "count");
    json_uint(&w, ids->count);
    json_key(&w, "max_model_len");
    json_uint(&w, m->max_context);
    json_key(&w, "tokens");
    json_begin_array(&w);
    for (size_t i = 0; i < ids->count; i++)
        write_token(&w, tokenizer, ids->items[i], t->with_pieces);
    json_end_array(&w);
    if (t->return_token_strs)
        write_token_strs(&w, tokenizer, ids);
    json_end_object(&w);
}

static size_t count_chars(struct bytes text) {
    size_t count = 0;
    for (size_t i = 0; i < text.len; i++)
        count += (text.data[i] & 0xC0) != 0x80;
    return count;
}

/* TGI's: each token with its place, in characters, in the text that all of them spell. A special one
 * has none. */
static void write_places(const struct tokenizer *t, const struct token_vec *ids,
                         struct json_writer *w) {
    struct detok detok;
    struct buf piece = {0};
    size_t at = 0;
    detok_init(&detok, t, DETOKENIZE_SKIP_SPECIAL);
    json_begin_array(w);
    for (size_t i = 0; i < ids->count; i++) {
        bool special = tokenizer_is_special(t, ids->items[i]);
        buf_reset(&piece);
        detok_push(&detok, ids->items[i], &piece);
        if (i + 1 == ids->count)
            detok_flush(&detok, &piece);
        size_t len = count_chars(buf_bytes(&piece)), begin = at;
        at += len;
        if (special) {
            buf_reset(&piece);
            tokenizer_token_text(t, ids->items[i], &piece);
        }
        json_begin_object(w);
        json_key(w, "id");
        json_uint(w, ids->items[i]);
        json_key(w, "text");
        json_string_bytes(w, buf_bytes(&piece));
        json_key(w, "start");
        json_uint(w, special ? 0 : begin);
        json_key(w, "stop");
        json_uint(w, special ? 0 : at);
        json_end_object(w);
    }
    json_end_array(w);
    buf_release(&piece);
}

static void write_text(const char *const *names, size_t count, struct bytes text, struct buf *out) {
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    for (size_t i = 0; i < count; i++) {
        json_key(&w, names[i]);
        json_string_bytes(&w, text);
    }
    json_end_object(&w);
}

static int tokenize(const struct text_request *t, const struct served_model *m, struct buf *out,
                    struct api_error *err) {
    struct token_vec ids = {0};
    struct json_writer w;
    int rc = tokens_of(t, m, &ids, err);
    json_writer_init(&w, out);
    if (rc == 0 && t->tells_pieces)
        write_places(m->text->tokenizer, &ids, &w);
    else if (rc == 0)
        write_tokens(t, m, &ids, out);
    vec_release(&ids);
    return rc;
}

static int chat_tokenize(const struct text_request *t, const struct served_model *m,
                         struct buf *out, struct api_error *err) {
    struct token_vec ids = {0};
    struct buf prompt = {0};
    struct json_writer w;
    int rc = tokens_of(t, m, &ids, err);
    if (rc == 0)
        rc = prepare_chat_text(&t->g, m->text, &prompt, NULL, err);
    json_writer_init(&w, out);
    if (rc == 0) {
        json_begin_object(&w);
        json_key(&w, "tokenize_response");
        write_places(m->text->tokenizer, &ids, &w);
        json_key(&w, "templated_text");
        json_string_bytes(&w, buf_bytes(&prompt));
        json_end_object(&w);
    }
    vec_release(&ids);
    buf_release(&prompt);
    return rc;
}

static void write_ids(struct json_writer *w, const struct token_vec *ids) {
    json_begin_array(w);
    for (size_t i = 0; i < ids->count; i++)
        json_uint(w, ids->items[i]);
    json_end_array(w);
}

/* One text, or lists for several. */
static int encode_text(const struct text_request *t, const struct served_model *m, struct buf *out,
                       struct api_error *err) {
    struct buf lengths = {0};
    struct json_writer w, l;
    int rc = 0;
    if (t->g.prompt_count == 0)
        return api_error_set(err, API_BAD_REQUEST, "input", "'input' is missing");
    json_writer_init(&w, out);
    json_writer_init(&l, &lengths);
    json_begin_object(&w);
    json_key(&w, "input_ids");
    if (t->g.answers_list) {
        json_begin_array(&w);
        json_begin_array(&l);
    }
    for (uint32_t i = 0; i < t->g.prompt_count && rc == 0; i++) {
        struct token_vec ids = {0};
        rc = prepare_text(&t->g, i, m->text, &ids, err);
        write_ids(&w, &ids);
        json_uint(&l, ids.count);
        vec_release(&ids);
    }
    if (t->g.answers_list) {
        json_end_array(&w);
        json_end_array(&l);
    }
    json_key(&w, "length");
    json_raw(&w, buf_bytes(&lengths));
    json_end_object(&w);
    out->failed |= lengths.failed;
    buf_release(&lengths);
    return rc;
}

static int count_tokens(const struct text_request *t, const struct served_model *m, struct buf *out,
                        struct api_error *err) {
    struct token_vec ids = {0};
    int rc = tokens_of(t, m, &ids, err);
    if (rc == 0)
        buf_addf(out, "{\"input_tokens\":%zu}", ids.count);
    vec_release(&ids);
    return rc;
}

static int count_input(const struct text_request *t, const struct served_model *m, struct buf *out,
                       struct api_error *err) {
    struct token_vec ids = {0};
    int rc = tokens_of(t, m, &ids, err);
    if (rc == 0)
        buf_addf(out, "{\"object\":\"response.input_tokens\",\"input_tokens\":%zu}", ids.count);
    vec_release(&ids);
    return rc;
}

/* What the client set of the fields that sample; the rest is the model's own. */
static void write_given_sampling(const struct genreq *g, struct json_writer *w) {
    const struct {
        const char *name;
        uint32_t given;
        double value;
    } numbers[] = {{"temperature", GENREQ_TEMPERATURE, g->temperature},
                   {"top_p", GENREQ_TOP_P, g->top_p},
                   {"min_p", GENREQ_MIN_P, g->min_p},
                   {"repetition_penalty", GENREQ_REPETITION, g->repetition_penalty}};
    json_begin_object(w);
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        if (!(g->given & numbers[i].given))
            continue;
        json_key(w, numbers[i].name);
        json_double(w, numbers[i].value);
    }
    if (g->given & GENREQ_TOP_K) {
        json_key(w, "top_k");
        json_int(w, g->top_k);
    }
    if (g->given & GENREQ_SEED) {
        json_key(w, "seed");
        json_int(w, g->seed);
    }
    if (g->given & (GENREQ_MAX_TOKENS | GENREQ_MAX_COMPLETION_TOKENS)) {
        json_key(w, "max_tokens");
        json_uint(w, genreq_max_tokens(g, 0));
    }
    json_key(w, "n");
    json_int(w, g->choice_count);
    json_end_object(w);
}

static void write_rendered(const struct text_request *t, const struct served_model *m,
                           const struct token_vec *ids, struct json_writer *w) {
    json_begin_object(w);
    json_key(w, "model");
    json_string(w, m->name);
    json_key(w, "token_ids");
    json_begin_array(w);
    for (size_t i = 0; i < ids->count; i++)
        json_uint(w, ids->items[i]);
    json_end_array(w);
    json_key(w, "sampling_params");
    write_given_sampling(&t->g, w);
    json_key(w, "stream");
    json_bool(w, t->g.stream);
    json_end_object(w);
}

static int render_answer(const struct text_request *t, const struct served_model *m,
                         struct buf *out, struct api_error *err) {
    struct token_vec ids = {0};
    struct json_writer w;
    int rc = tokens_of(t, m, &ids, err);
    json_writer_init(&w, out);
    if (rc == 0)
        write_rendered(t, m, &ids, &w);
    vec_release(&ids);
    return rc;
}

/* An object for each prompt, in a list. */
static int completion_tokens(const struct text_request *t, const struct served_model *m,
                             struct buf *out, struct api_error *err) {
    struct json_writer w;
    int rc = 0;
    if (t->g.prompt_count == 0)
        return api_error_set(err, API_BAD_REQUEST, "prompt", "'prompt' is missing");
    json_writer_init(&w, out);
    json_begin_array(&w);
    for (uint32_t i = 0; i < t->g.prompt_count && rc == 0; i++) {
        struct token_vec ids = {0};
        rc = prepare_text(&t->g, i, m->text, &ids, err);
        if (rc == 0 && t->g.prompts[i].is_ids)
            rc = prepare_check_ids(ids.items, ids.count, m, "prompt", err);
        if (rc == 0)
            write_rendered(t, m, &ids, &w);
        vec_release(&ids);
    }
    json_end_array(&w);
    return rc;
}

static void write_token_named(struct json_writer *w, const char *name, const struct tokenizer *t,
                              uint32_t id) {
    struct buf text = {0};
    json_key(w, name);
    if (id == TOKEN_NONE) {
        json_null(w);
    } else {
        tokenizer_token_text(t, id, &text);
        json_string_bytes(w, buf_bytes(&text));
    }
    buf_release(&text);
}

static void write_tokenizer_info(const struct served_model *m, struct buf *out) {
    const struct tokenizer *tokenizer = m->text->tokenizer;
    struct tokens eos = tokenizer_eos(tokenizer);
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_key(&w, "vocab_size");
    json_uint(&w, tokenizer_vocab_count(tokenizer));
    json_key(&w, "model_max_length");
    json_uint(&w, m->max_context);
    write_token_named(&w, "bos_token", tokenizer, tokenizer_bos(tokenizer));
    write_token_named(&w, "eos_token", tokenizer, eos.count ? eos.ids[0] : TOKEN_NONE);
    json_key(&w, "add_bos_token");
    json_bool(&w, tokenizer_prefix(tokenizer).count > 0);
    json_key(&w, "chat_template");
    if (chat_has_template(m->text->chat))
        json_string_bytes(&w, chat_template_source(m->text->chat, NULL, false));
    else
        json_null(&w);
    json_end_object(&w);
}

static int detokenize(const struct text_request *t, const struct served_model *m, struct buf *out,
                      struct api_error *err) {
    static const char *const NAMES[] = {"prompt", "content"}; /* vLLM's and llama.cpp's */
    struct buf text = {0};
    if (!t->has_tokens)
        return api_error_set(err, API_BAD_REQUEST, "tokens", "'tokens' is missing");
    for (size_t i = 0; i < t->tokens.count; i++)
        if (t->tokens.items[i] >= tokenizer_vocab_count(m->text->tokenizer))
            return api_error_set(err, API_BAD_REQUEST, "tokens",
                                 "'tokens' holds id %u; this model has ids below %u",
                                 t->tokens.items[i], tokenizer_vocab_count(m->text->tokenizer));
    tokenizer_detokenize(m->text->tokenizer, (struct tokens){t->tokens.items, t->tokens.count}, 0,
                         &text);
    write_text(NAMES, ARRAY_LEN(NAMES), buf_bytes(&text), out);
    buf_release(&text);
    return 0;
}

static int apply_template(const struct text_request *t, const struct served_model *m,
                          struct buf *out, struct api_error *err) {
    static const char *const NAMES[] = {"prompt"};
    struct buf text = {0};
    if (!t->g.messages.len)
        return api_error_set(err, API_BAD_REQUEST, "messages", "'messages' is missing");
    int rc = prepare_chat_text(&t->g, m->text, &text, NULL, err);
    if (rc == 0)
        write_text(NAMES, ARRAY_LEN(NAMES), buf_bytes(&text), out);
    buf_release(&text);
    return rc;
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
        rc = find_model(job->gw, t.g.model, &m, &job->err);
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
    return answer(c, read_own, tokenize);
}
int text_call_detokenize(const struct call *c, struct api_error *err) {
    return answer(c, read_own, detokenize);
}
int text_call_apply_template(const struct call *c, struct api_error *err) {
    return answer(c, read_own, apply_template);
}
int text_call_count_tokens(const struct call *c, struct api_error *err) {
    return answer(c, read_messages, count_tokens);
}
int text_call_input_tokens(const struct call *c, struct api_error *err) {
    return answer(c, read_response, count_input);
}
int text_call_chat_tokens(const struct call *c, struct api_error *err) {
    return answer(c, read_chat, count_input);
}
int text_call_render(const struct call *c, struct api_error *err) {
    return answer(c, read_chat, render_answer);
}

int text_call_chat_tokenize(const struct call *c, struct api_error *err) {
    return answer(c, read_chat, chat_tokenize);
}

int text_call_encode(const struct call *c, struct api_error *err) {
    return answer(c, read_encode, encode_text);
}

int text_call_completion_tokens(const struct call *c, struct api_error *err) {
    return answer(c, read_completion, completion_tokens);
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
    if (find_model(c->thread->gw, bytes_of(NULL, 0), &m, err))
        return -1;
    write_tokenizer_info(m, &out);
    http_respond(c->req, 200, "application/json", NULL, 0, buf_bytes(&out));
    buf_release(&out);
    served_model_put(m);
    return 0;
}
