/*
 * The turns of Anthropic's messages in OpenAI's form. Turns of one role that follow each other are
 * one; a tool's result is a message of its own. Strings are handed on as they were written, escapes
 * and all: nothing is decoded but the words that decide.
 */
#include "gateway/dialects/anthropic.h"

#include "base/vec.h"
#include "formats/json.h"
#include "gateway/fields/raw_value.h"

enum role { ROLE_NONE, ROLE_USER, ROLE_ASSISTANT, ROLE_SYSTEM };

/* What a block holds: raw JSON in the body; empty: not given. */
struct block {
    struct bytes text, thinking, id, name, input, tool_use_id, content, is_error;
    struct bytes type; /* the word, in the body */
};

struct converter {
    struct json_writer w;
    struct genreq *g;
    struct api_error *err;
    uint32_t message_idx;
    enum role role; /* of the turn that gathers */
    bool begun;     /* it has gathered something */
    VEC(struct bytes) texts;
    VEC(struct bytes) thoughts;
    VEC(struct block) calls;
};

/* ---- reading ---- */

/* The members of the object that has begun. */
static void read_block(struct json_reader *r, struct block *b) {
    const struct json_wanted members[] = {
        {"text", &b->text},       {"thinking", &b->thinking}, {"id", &b->id},
        {"name", &b->name},       {"input", &b->input},       {"tool_use_id", &b->tool_use_id},
        {"content", &b->content}, {"is_error", &b->is_error}, {"type", &b->type}};
    *b = (struct block){0};
    if (!json_take_members(r, members, ARRAY_LEN(members)))
        *b = (struct block){0};
    b->type = raw_is(b->type, '"') ? raw_content(b->type) : bytes_of(NULL, 0);
}

/* ---- writing a turn ---- */

static void write_texts(struct converter *c) {
    if (c->texts.count == 1) {
        json_raw(&c->w, c->texts.items[0]);
        return;
    }
    json_begin_array(&c->w);
    for (size_t i = 0; i < c->texts.count; i++) {
        json_begin_object(&c->w);
        json_key(&c->w, "type");
        json_string(&c->w, "text");
        json_key(&c->w, "text");
        json_raw(&c->w, c->texts.items[i]);
        json_end_object(&c->w);
    }
    json_end_array(&c->w);
}

/* One string of all thoughts, a line between two. */
static void write_thoughts(struct converter *c) {
    struct buf joined = {0};
    buf_add_byte(&joined, '"');
    for (size_t i = 0; i < c->thoughts.count; i++) {
        if (i)
            buf_add_str(&joined, "\\n");
        buf_add_bytes(&joined, raw_content(c->thoughts.items[i]));
    }
    buf_add_byte(&joined, '"');
    json_key(&c->w, "reasoning_content");
    json_raw(&c->w, buf_bytes(&joined));
    buf_release(&joined);
}

static void write_calls(struct converter *c) {
    json_key(&c->w, "tool_calls");
    json_begin_array(&c->w);
    for (size_t i = 0; i < c->calls.count; i++) {
        const struct block *call = &c->calls.items[i];
        json_begin_object(&c->w);
        json_key(&c->w, "id");
        json_raw(&c->w, call->id);
        json_key(&c->w, "type");
        json_string(&c->w, "function");
        json_key(&c->w, "function");
        json_begin_object(&c->w);
        json_key(&c->w, "name");
        json_raw(&c->w, call->name);
        json_key(&c->w, "arguments");
        json_string_bytes(&c->w, call->input);
        json_end_object(&c->w);
        json_end_object(&c->w);
    }
    json_end_array(&c->w);
}

static void begin_message(struct converter *c, const char *role) {
    json_begin_object(&c->w);
    json_key(&c->w, "role");
    json_string(&c->w, role);
    json_key(&c->w, "content");
}

static void end_turn(struct converter *c) {
    static const char *const ROLES[] = {
        [ROLE_USER] = "user", [ROLE_ASSISTANT] = "assistant", [ROLE_SYSTEM] = "system"};
    if (c->begun) {
        begin_message(c, ROLES[c->role]);
        if (c->texts.count)
            write_texts(c);
        else
            json_string(&c->w, c->calls.count ? NULL : "");
        if (c->thoughts.count)
            write_thoughts(c);
        if (c->calls.count)
            write_calls(c);
        json_end_object(&c->w);
    }
    c->begun = false;
    c->texts.count = c->thoughts.count = c->calls.count = 0;
}

/* ---- blocks ---- */

static int block_fail(struct converter *c, size_t idx, const char *what) {
    return api_error_set(c->err, API_BAD_REQUEST, "messages", "messages[%u].content[%zu]%s",
                         c->message_idx, idx, what);
}

static int refuse_type(struct converter *c, size_t idx, struct bytes type) {
    if (type.len == 0)
        return block_fail(c, idx, " needs a 'type'");
    return api_error_set(c->err, API_UNSUPPORTED, "messages",
                         "messages[%u].content[%zu]: blocks of type '%.*s' are not offered by this "
                         "server in this place",
                         c->message_idx, idx, (int)MIN(type.len, (size_t)64),
                         (const char *)type.data);
}

static bool is_type(const struct block *b, const char *type) {
    return bytes_equal(b->type, bytes_str(type));
}

/* The texts of a list of text blocks go to c->texts. */
static int take_text_list(struct converter *c, struct bytes list, size_t idx) {
    struct json_reader r;
    struct block b;
    int rc = 0;
    json_reader_init(&r, list, GENREQ_DEPTH_MAX, 0);
    (void)json_next(&r);
    for (enum json_event event; rc == 0 && (event = json_next(&r)) != JSON_ARRAY_END;) {
        if (event != JSON_OBJECT_BEGIN) {
            rc = block_fail(c, idx, " holds something that is not a block");
            break;
        }
        read_block(&r, &b);
        if (!is_type(&b, "text"))
            rc = refuse_type(c, idx, b.type);
        else if (!raw_is(b.text, '"'))
            rc = block_fail(c, idx, " holds a block without 'text'");
        else
            vec_push(&c->texts, b.text);
    }
    json_reader_release(&r);
    return rc;
}

/* A message of its own; what the turn has gathered goes before it. */
static int take_result(struct converter *c, const struct block *b, size_t idx) {
    int rc = 0;
    if (!raw_is(b->tool_use_id, '"'))
        return block_fail(c, idx, " needs a 'tool_use_id'");
    end_turn(c);
    if (raw_is(b->content, '"'))
        vec_push(&c->texts, b->content);
    else if (raw_is(b->content, '['))
        rc = take_text_list(c, b->content, idx);
    else if (b->content.len)
        rc = block_fail(c, idx, ".content must be a string or an array of text blocks");
    if (rc == 0) {
        begin_message(c, "tool");
        if (c->texts.count)
            write_texts(c);
        else
            json_string(&c->w, "");
        json_key(&c->w, "tool_call_id");
        json_raw(&c->w, b->tool_use_id);
        if (b->is_error.len) {
            json_key(&c->w, "is_error");
            json_raw(&c->w, b->is_error);
        }
        json_end_object(&c->w);
    }
    c->texts.count = 0;
    return rc;
}

static int take_call(struct converter *c, const struct block *b, size_t idx) {
    if (!raw_is(b->id, '"') || !raw_is(b->name, '"') || !raw_is(b->input, '{'))
        return block_fail(c, idx, " needs 'id', 'name' and an object 'input'");
    vec_push(&c->calls, *b);
    return 0;
}

static int take_block(struct converter *c, const struct block *b, size_t idx) {
    bool assistant = c->role == ROLE_ASSISTANT;
    if (is_type(b, "tool_result") && c->role == ROLE_USER)
        return take_result(c, b, idx);
    c->begun = true;
    if (is_type(b, "text")) {
        if (!raw_is(b->text, '"'))
            return block_fail(c, idx, " needs a 'text'");
        vec_push(&c->texts, b->text);
        return 0;
    }
    if (is_type(b, "tool_use") && assistant)
        return take_call(c, b, idx);
    if (is_type(b, "thinking") && assistant) {
        if (!raw_is(b->thinking, '"'))
            return block_fail(c, idx, " needs a 'thinking'");
        vec_push(&c->thoughts, b->thinking);
        return 0;
    }
    if (is_type(b, "redacted_thinking") && assistant)
        return 0; /* nobody but its maker can read it */
    return refuse_type(c, idx, b->type);
}

/* ---- messages ---- */

static int message_fail(struct converter *c, const char *what) {
    return api_error_set(c->err, API_BAD_REQUEST, "messages", "messages[%u]%s", c->message_idx,
                         what);
}

static int take_content(struct converter *c, struct bytes content) {
    struct json_reader r;
    struct block b;
    int rc = 0;
    size_t idx = 0;
    if (raw_is(content, '"')) {
        c->begun = true;
        vec_push(&c->texts, content);
        return 0;
    }
    if (!raw_is(content, '['))
        return message_fail(c, ".content must be a string or an array of blocks");
    json_reader_init(&r, content, GENREQ_DEPTH_MAX, 0);
    (void)json_next(&r);
    for (enum json_event event; rc == 0 && (event = json_next(&r)) != JSON_ARRAY_END; idx++) {
        if (event == JSON_OBJECT_BEGIN) {
            read_block(&r, &b);
            rc = take_block(c, &b, idx);
        } else {
            rc = block_fail(c, idx, " must be an object");
        }
    }
    json_reader_release(&r);
    if (rc == 0 && idx == 0 && c->role != ROLE_ASSISTANT)
        return message_fail(c, ".content is empty");
    return rc;
}

static int take_message(struct converter *c, struct json_reader *r) {
    struct bytes content = {0};
    enum role role = ROLE_NONE;
    while (json_next(r) == JSON_KEY) {
        bool is_role = bytes_equal(r->text, bytes_str("role")),
             is_content = bytes_equal(r->text, bytes_str("content"));
        enum json_event event = json_next(r);
        if (is_role && event == JSON_STRING)
            role = bytes_equal(r->text, bytes_str("user"))        ? ROLE_USER
                   : bytes_equal(r->text, bytes_str("assistant")) ? ROLE_ASSISTANT
                   : bytes_equal(r->text, bytes_str("system"))    ? ROLE_SYSTEM
                                                                  : ROLE_NONE;
        if (!json_take(r, is_content ? &content : NULL))
            return message_fail(c, " is not valid");
    }
    if (role == ROLE_NONE)
        return message_fail(c, ".role must be user, assistant or system");
    if (role != c->role)
        end_turn(c);
    c->role = role;
    return take_content(c, content);
}

static bool ends_in_text(const struct converter *c) {
    for (size_t i = 0; i < c->texts.count; i++)
        if (c->texts.items[i].len > 2)
            return true;
    return false;
}

/* A last turn of the assistant is the beginning of the answer; one without text is none. */
static int end_messages(struct converter *c) {
    if (c->role == ROLE_ASSISTANT && c->calls.count)
        return api_error_set(c->err, API_BAD_REQUEST, "messages",
                             "the last turn holds a 'tool_use' without its 'tool_result'");
    bool open = c->role == ROLE_ASSISTANT && ends_in_text(c);
    c->g->continue_final_message = open;
    c->g->add_generation_prompt = !open;
    if (c->role != ROLE_ASSISTANT || open)
        end_turn(c);
    return 0;
}

static int take_system(struct converter *c, struct bytes system) {
    struct json_reader r;
    struct block b;
    int rc = 0;
    if (raw_is(system, '"') && system.len > 2)
        vec_push(&c->texts, system);
    if (raw_is(system, '[')) {
        json_reader_init(&r, system, GENREQ_DEPTH_MAX, 0);
        (void)json_next(&r);
        while (rc == 0 && json_next(&r) == JSON_OBJECT_BEGIN) {
            read_block(&r, &b);
            if (is_type(&b, "text") && raw_is(b.text, '"'))
                vec_push(&c->texts, b.text);
            else
                rc = -1;
        }
        if (r.last != JSON_ARRAY_END)
            rc = -1;
        json_reader_release(&r);
    }
    if (rc)
        return api_error_set(c->err, API_BAD_REQUEST, "system",
                             "'system' must be a string or an array of text blocks");
    c->role = ROLE_SYSTEM;
    c->begun = c->texts.count > 0;
    end_turn(c);
    c->role = ROLE_NONE;
    return 0;
}

static int take_messages(struct converter *c, struct bytes system) {
    struct json_reader r;
    json_begin_array(&c->w);
    int rc = take_system(c, system);
    json_reader_init(&r, c->g->messages, GENREQ_DEPTH_MAX, 0);
    (void)json_next(&r);
    for (enum json_event event; rc == 0 && (event = json_next(&r)) != JSON_ARRAY_END;
         c->message_idx++) {
        if (event != JSON_OBJECT_BEGIN)
            rc = message_fail(c, " must be an object");
        else if (c->message_idx == GENREQ_MESSAGES_MAX)
            rc = api_error_set(c->err, API_BAD_REQUEST, "messages", "more than %d messages",
                               GENREQ_MESSAGES_MAX);
        else
            rc = take_message(c, &r);
    }
    json_reader_release(&r);
    if (rc == 0 && c->message_idx == 0)
        rc = api_error_set(c->err, API_BAD_REQUEST, "messages", "'messages' is empty");
    if (rc == 0)
        rc = end_messages(c);
    if (rc == 0)
        json_end_array(&c->w);
    return rc;
}

/* ---- tools ---- */

/* Members of a tool, raw. */
struct tool {
    struct bytes name, description, schema, strict, type;
};

static void write_tool(struct converter *c, const struct tool *t) {
    json_begin_object(&c->w);
    json_key(&c->w, "type");
    json_string(&c->w, "function");
    json_key(&c->w, "function");
    json_begin_object(&c->w);
    json_key(&c->w, "name");
    json_raw(&c->w, t->name);
    if (t->description.len) {
        json_key(&c->w, "description");
        json_raw(&c->w, t->description);
    }
    json_key(&c->w, "parameters");
    json_raw(&c->w, t->schema);
    if (t->strict.len) {
        json_key(&c->w, "strict");
        json_raw(&c->w, t->strict);
    }
    json_end_object(&c->w);
    json_end_object(&c->w);
}

static int take_tool(struct converter *c, struct json_reader *r, uint32_t idx) {
    struct tool t = {0};
    const struct json_wanted members[] = {{"name", &t.name},
                                          {"description", &t.description},
                                          {"input_schema", &t.schema},
                                          {"strict", &t.strict},
                                          {"type", &t.type}};
    bool whole = json_take_members(r, members, ARRAY_LEN(members));
    if (t.type.len && !bytes_equal(t.type, bytes_str("\"custom\"")))
        return api_error_set(c->err, API_UNSUPPORTED, "tools",
                             "tools[%u]: tools of type %.*s are not offered by this server", idx,
                             (int)MIN(t.type.len, (size_t)64), (const char *)t.type.data);
    if (!whole || !raw_is(t.name, '"') || !raw_is(t.schema, '{'))
        return api_error_set(c->err, API_BAD_REQUEST, "tools",
                             "tools[%u] needs a 'name' and an object 'input_schema'", idx);
    write_tool(c, &t);
    return 0;
}

static int take_tools(struct converter *c) {
    struct json_reader r;
    uint32_t count = 0;
    int rc = 0;
    json_begin_array(&c->w);
    json_reader_init(&r, c->g->tools, GENREQ_DEPTH_MAX, 0);
    (void)json_next(&r);
    for (enum json_event event; rc == 0 && (event = json_next(&r)) != JSON_ARRAY_END; count++)
        rc = event == JSON_OBJECT_BEGIN ? take_tool(c, &r, count)
                                        : api_error_set(c->err, API_BAD_REQUEST, "tools",
                                                        "tools[%u] must be an object", count);
    json_reader_release(&r);
    if (rc == 0)
        json_end_array(&c->w);
    if (rc == 0 && count == 0)
        buf_reset(c->w.out); /* none */
    return rc;
}

/* ---- all ---- */

int anthropic_convert(struct genreq *g, struct bytes system, struct api_error *err) {
    struct buf text = {0};
    struct converter c = {.g = g, .err = err};
    json_writer_init(&c.w, &text);
    int rc = take_messages(&c, system);
    if (rc == 0)
        rc = genreq_keep(g, c.w.out, &g->messages, err);
    if (rc == 0 && g->tools.len) {
        buf_reset(&text);
        json_writer_init(&c.w, &text);
        rc = take_tools(&c);
        if (rc == 0)
            rc = genreq_keep(g, c.w.out, &g->tools, err);
    }
    vec_release(&c.texts);
    vec_release(&c.thoughts);
    vec_release(&c.calls);
    buf_release(&text);
    return rc;
}
