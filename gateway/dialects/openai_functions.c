/*
 * The functions of OpenAI's older chats, as those of today: `functions` are tools, `function_call` is
 * the choice of one, and what the conversation has of them becomes calls and their results. A call of
 * the answer is told in the older form, too: see response.h.
 *
 * Source: platform.openai.com/docs/api-reference/chat.
 */
#include "gateway/dialects/openai_functions.h"

#include <stdio.h>

#include "gateway/fields/raw_value.h"

/* Ids of calls that all templates take: nine letters and digits. */
static void write_call_id(struct json_writer *w, const char *key, uint32_t number) {
    char id[16];
    snprintf(id, sizeof id, "call%05u", number % 100000);
    json_key(w, key);
    json_string(w, id);
}

static void write_call(struct json_writer *w, struct bytes function, uint32_t number) {
    json_key(w, "tool_calls");
    json_begin_array(w);
    json_begin_object(w);
    write_call_id(w, "id", number);
    json_key(w, "type");
    json_string(w, "function");
    json_key(w, "function");
    json_raw(w, function);
    json_end_object(w);
    json_end_array(w);
}

/* The message that has begun, member by member. False: it is not well formed. */
static bool convert_message(struct json_reader *r, struct json_writer *w, uint32_t *call_count) {
    json_begin_object(w);
    for (enum json_event event; (event = json_next(r)) == JSON_KEY;) {
        struct bytes value;
        bool is_role = json_text_is(r, "role"), is_call = json_text_is(r, "function_call");
        if (!is_call)
            json_key_bytes(w, r->text);
        if (json_next(r) == JSON_ERROR || !json_take(r, &value))
            return false;
        if (is_call) {
            if (raw_is(value, '{'))
                write_call(w, value, ++*call_count);
            continue;
        }
        if (is_role && bytes_equal(value, bytes_str("\"function\""))) {
            json_string(w, "tool");
            write_call_id(w, "tool_call_id", *call_count);
        } else {
            json_raw(w, value);
        }
    }
    json_end_object(w);
    return r->last == JSON_OBJECT_END;
}

static bool has_word(struct bytes text, const char *word) {
    return text.len && memmem(text.data, text.len, word, strlen(word));
}

int functions_convert_messages(struct genreq *g, struct api_error *err) {
    struct json_reader r;
    struct json_writer w;
    struct buf text = {0};
    uint32_t call_count = 0;
    if (!has_word(g->messages, "\"function_call\"") && !has_word(g->messages, "\"function\""))
        return 0;
    json_writer_init(&w, &text);
    json_begin_array(&w);
    json_reader_init(&r, g->messages, GENREQ_DEPTH_MAX, 0);
    bool ok = json_next(&r) == JSON_ARRAY_BEGIN;
    while (ok && json_next(&r) == JSON_OBJECT_BEGIN)
        ok = convert_message(&r, &w, &call_count);
    json_end_array(&w);
    CHECK(!ok || r.last == JSON_ARRAY_END); /* field_messages has read it */
    json_reader_release(&r);
    int rc = ok ? genreq_keep(g, &text, &g->messages, err)
                : api_error_set(err, API_BAD_REQUEST, "messages", "'messages' is not well formed");
    buf_release(&text);
    return rc;
}

static int read_choice_name(struct field_reader *r, enum json_event first) {
    return field_string(r, first, GENREQ_NAME_MAX, &r->g->tool_choice_name);
}

static int read_function(struct field_reader *r, enum json_event first, uint32_t idx,
                         struct json_writer *w) {
    struct bytes function, name = {0};
    const struct json_wanted members[] = {{"name", &name}};
    if (first != JSON_OBJECT_BEGIN)
        return api_error_set(r->err, API_BAD_REQUEST, r->name, "%s[%u] must be an object", r->name,
                             idx);
    if (field_members(r, first, members, ARRAY_LEN(members), &function))
        return -1;
    if (!raw_is(name, '"'))
        return api_error_set(r->err, API_BAD_REQUEST, r->name, "%s[%u] needs a 'name'", r->name,
                             idx);
    json_begin_object(w);
    json_key(w, "type");
    json_string(w, "function");
    json_key(w, "function");
    json_raw(w, function);
    json_end_object(w);
    return 0;
}

int functions_read(struct field_reader *r, enum json_event first) {
    struct buf tools = {0};
    struct json_writer w;
    uint32_t count = 0;
    int rc = 0;
    if (first != JSON_ARRAY_BEGIN)
        return field_wrong_type(r, "an array of functions", first);
    json_writer_init(&w, &tools);
    json_begin_array(&w);
    for (enum json_event event; rc == 0 && (event = json_next(&r->json)) != JSON_ARRAY_END;)
        rc = read_function(r, event, count++, &w);
    if (rc == 0) {
        json_end_array(&w);
        r->g->bare_calls = true;
        rc = count ? genreq_keep(r->g, &tools, &r->g->functions, r->err) : 0;
    }
    buf_release(&tools);
    return rc;
}

int functions_read_choice(struct field_reader *r, enum json_event first) {
    struct bytes name = {0};
    const struct json_wanted members[] = {{"name", &name}};
    if (first == JSON_STRING && json_text_is(&r->json, "auto"))
        return 0;
    if (first == JSON_STRING && json_text_is(&r->json, "none")) {
        r->g->tool_choice_none = true;
        return 0;
    }
    if (first != JSON_OBJECT_BEGIN)
        return api_error_set(r->err, API_BAD_REQUEST, r->name,
                             "'%s' must be \"none\", \"auto\" or {\"name\": ...}", r->name);
    if (field_members(r, first, members, ARRAY_LEN(members), NULL))
        return -1;
    r->g->bare_calls = true;
    return field_of_span(r, name.len ? name : bytes_str("null"), "function_call.name",
                         read_choice_name);
}

int functions_apply(struct genreq *g, struct api_error *err) {
    if (functions_convert_messages(g, err))
        return -1;
    if (!g->bare_calls)
        return 0;
    if (g->tools.len)
        return api_error_set(err, API_BAD_REQUEST, "functions",
                             "'functions' and 'tools' cannot both be given");
    if (g->tool_choice_required || (g->tool_choice_name.len && !g->functions.len))
        return api_error_set(err, API_BAD_REQUEST, "function_call",
                             g->tool_choice_required
                                 ? "'tool_choice' is of 'tools'; of 'functions' it is "
                                   "'function_call'"
                                 : "'function_call' needs 'functions'");
    g->tools = g->functions;
    g->parallel_tool_calls = false; /* an answer has room for one */
    return 0;
}
