/* What the calls about text answer: tokens of texts, of chats and of prompts, and texts of tokens. */
#include "base/utf8.h"
#include "gateway/calls/text_calls_internal.h"
#include "gateway/prompts/prepare.h"
#include "text/tokenizer/detokenizer.h"

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

int text_answer_tokenize(const struct text_request *t, const struct served_model *m,
                         struct buf *out, struct api_error *err) {
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

int text_answer_chat_tokenize(const struct text_request *t, const struct served_model *m,
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
int text_answer_encode(const struct text_request *t, const struct served_model *m, struct buf *out,
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

int text_answer_count_tokens(const struct text_request *t, const struct served_model *m,
                             struct buf *out, struct api_error *err) {
    struct token_vec ids = {0};
    int rc = tokens_of(t, m, &ids, err);
    if (rc == 0)
        buf_addf(out, "{\"input_tokens\":%zu}", ids.count);
    vec_release(&ids);
    return rc;
}

int text_answer_count_input(const struct text_request *t, const struct served_model *m,
                            struct buf *out, struct api_error *err) {
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

int text_answer_chat_form(const struct text_request *t, const struct served_model *m,
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
int text_answer_completion(const struct text_request *t, const struct served_model *m,
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

void text_answer_tokenizer_info(const struct served_model *m, struct buf *out) {
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

int text_answer_detokenize(const struct text_request *t, const struct served_model *m,
                           struct buf *out, struct api_error *err) {
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

int text_answer_apply_template(const struct text_request *t, const struct served_model *m,
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
