/*
 * The items of a response's input as messages of a chat. What the assistant did in a row
 * (reasoning, a message, calls) is one message; a call's output is a message of its own. Strings
 * are handed on as they were written, escapes and all.
 */
#include <stdio.h>

#include "base/hash.h"
#include "base/vec.h"
#include "formats/json.h"
#include "gateway/dialects/responses.h"
#include "gateway/fields/allowed_tools.h"
#include "gateway/fields/raw_value.h"

/* Members of an item, raw, in the body; empty: not given or null. */
struct item {
    struct bytes type, role, content, call_id, name, arguments, output, summary, id, whole;
};

struct converter {
    struct genreq *g;
    struct api_error *err;
    struct response_store *store; /* NULL: items of other responses are not looked up yet */
    struct u128 tenant;
    struct buf object; /* of the response that was looked up last, by this number */
    struct u128 object_number;
    struct bytes output;   /* its items, in object; empty: none */
    size_t referred_bytes; /* of all that was looked up */
    size_t searched_bytes; /* of items among which one was sought */
    uint32_t item_idx, turn_count;
    struct buf turns, items; /* comma-separated */
    /* the assistant's message that gathers */
    bool gathers;
    VEC(struct bytes) texts;
    VEC(struct bytes) thoughts;
    VEC(struct item) calls;
};

/* ---- reading ---- */

static void read_item(struct json_reader *r, struct item *item) {
    const struct json_wanted members[] = {
        {"type", &item->type},       {"role", &item->role},           {"content", &item->content},
        {"call_id", &item->call_id}, {"name", &item->name},           {"id", &item->id},
        {"output", &item->output},   {"arguments", &item->arguments}, {"summary", &item->summary}};
    size_t begin = r->offset;
    *item = (struct item){0};
    if (!json_take_members(r, members, ARRAY_LEN(members)))
        *item = (struct item){0};
    item->whole = json_since(r, begin);
}

/* ---- errors ---- */

static int item_fail(struct converter *c, const char *what) {
    return api_error_set(c->err, API_BAD_REQUEST, "input", "input[%u]%s", c->item_idx, what);
}

static int refuse_type(struct converter *c, const char *what, struct bytes type) {
    return api_error_set(c->err, API_UNSUPPORTED, "input",
                         "input[%u]: %s of type %.*s are not offered by this server in this place",
                         c->item_idx, what, (int)MIN(type.len, (size_t)64),
                         (const char *)type.data);
}

/* ---- writing turns ---- */

static void begin_turn(struct converter *c, struct json_writer *w, const char *role) {
    if (c->turns.len)
        buf_add_byte(&c->turns, ',');
    c->turn_count++;
    json_writer_init(w, &c->turns);
    json_begin_object(w);
    json_key(w, "role");
    json_string(w, role);
    json_key(w, "content");
}

/* One string of all texts, `between` two. */
static void write_joined(struct json_writer *w, const struct bytes *texts, size_t count,
                         const char *between) {
    struct buf joined = {0};
    buf_add_byte(&joined, '"');
    for (size_t i = 0; i < count; i++) {
        if (i)
            buf_add_str(&joined, between);
        buf_add_bytes(&joined, raw_content(texts[i]));
    }
    buf_add_byte(&joined, '"');
    json_raw(w, buf_bytes(&joined));
    w->out->failed |= joined.failed;
    buf_release(&joined);
}

/* A text as it is, several as parts. */
static void write_texts(struct converter *c, struct json_writer *w) {
    if (c->texts.count <= 1) {
        write_joined(w, c->texts.items, c->texts.count, "");
        return;
    }
    json_begin_array(w);
    for (size_t i = 0; i < c->texts.count; i++) {
        json_begin_object(w);
        json_key(w, "type");
        json_string(w, "text");
        json_key(w, "text");
        json_raw(w, c->texts.items[i]);
        json_end_object(w);
    }
    json_end_array(w);
}

static void write_calls(struct converter *c, struct json_writer *w) {
    json_key(w, "tool_calls");
    json_begin_array(w);
    for (size_t i = 0; i < c->calls.count; i++) {
        const struct item *call = &c->calls.items[i];
        json_begin_object(w);
        json_key(w, "id");
        json_raw(w, call->call_id);
        json_key(w, "type");
        json_string(w, "function");
        json_key(w, "function");
        json_begin_object(w);
        json_key(w, "name");
        json_raw(w, call->name);
        json_key(w, "arguments");
        json_raw(w, call->arguments);
        json_end_object(w);
        json_end_object(w);
    }
    json_end_array(w);
}

static void end_assistant(struct converter *c) {
    struct json_writer w;
    if (c->gathers) {
        begin_turn(c, &w, "assistant");
        if (c->texts.count || !c->calls.count)
            write_joined(&w, c->texts.items, c->texts.count, "");
        else
            json_null(&w);
        if (c->thoughts.count) {
            json_key(&w, "reasoning_content");
            write_joined(&w, c->thoughts.items, c->thoughts.count, "\\n");
        }
        if (c->calls.count)
            write_calls(c, &w);
        json_end_object(&w);
    }
    c->gathers = false;
    c->texts.count = c->thoughts.count = c->calls.count = 0;
}

/* ---- items ---- */

/* Texts of a list of parts go to `out`. */
struct content_part_kind {
    const char *type, *member;
};
static int take_content_parts(struct converter *c, struct bytes list,
                              const struct content_part_kind *kinds, size_t kind_count,
                              const char *what) {
    struct json_reader r;
    int rc = 0;
    json_reader_init(&r, list, GENREQ_DEPTH_MAX, 0);
    (void)json_next(&r);
    for (enum json_event event; rc == 0 && (event = json_next(&r)) != JSON_ARRAY_END;) {
        struct bytes type = {0}, text = {0}, refusal = {0};
        const struct json_wanted members[] = {
            {"type", &type}, {"text", &text}, {"refusal", &refusal}};
        const struct content_part_kind *kind = NULL;
        if (event != JSON_OBJECT_BEGIN) {
            rc = item_fail(c, " holds a part that is not an object");
            break;
        }
        bool whole = json_take_members(&r, members, ARRAY_LEN(members));
        for (size_t i = 0; i < kind_count; i++)
            if (raw_is_text(type, kinds[i].type))
                kind = &kinds[i];
        struct bytes value = kind && strcmp(kind->member, "refusal") == 0 ? refusal : text;
        if (!whole || !type.len)
            rc = item_fail(c, " holds a part without 'type'");
        else if (!kind)
            rc = refuse_type(c, what, type);
        else if (!raw_is(value, '"'))
            rc = item_fail(c, " holds a part without its text");
        else
            vec_push(&c->texts, value);
    }
    json_reader_release(&r);
    return rc;
}

static int take_content(struct converter *c, struct bytes content, bool assistant) {
    static const struct content_part_kind TOLD[] = {{"input_text", "text"}, {"text", "text"}},
                                          SAID[] = {{"output_text", "text"},
                                                    {"refusal", "refusal"},
                                                    {"input_text", "text"},
                                                    {"text", "text"}};
    if (raw_is(content, '"')) {
        vec_push(&c->texts, content);
        return 0;
    }
    if (!raw_is(content, '['))
        return item_fail(c, ".content must be a string or an array of parts");
    return take_content_parts(c, content, assistant ? SAID : TOLD,
                              assistant ? ARRAY_LEN(SAID) : ARRAY_LEN(TOLD), "parts");
}

static int take_message(struct converter *c, const struct item *item) {
    static const char *const ROLES[] = {"user", "system", "developer"};
    struct json_writer w;
    if (raw_is_text(item->role, "assistant")) {
        c->gathers = true;
        return take_content(c, item->content, true);
    }
    for (size_t i = 0; i < ARRAY_LEN(ROLES); i++) {
        if (!raw_is_text(item->role, ROLES[i]))
            continue;
        end_assistant(c);
        if (take_content(c, item->content, false))
            return -1;
        begin_turn(c, &w, ROLES[i]);
        write_texts(c, &w);
        json_end_object(&w);
        c->texts.count = 0;
        return 0;
    }
    return item_fail(c, ".role must be user, assistant, system or developer");
}

static int take_output(struct converter *c, const struct item *item) {
    static const struct content_part_kind KINDS[] = {{"input_text", "text"}};
    struct json_writer w;
    int rc = 0;
    if (!raw_is(item->call_id, '"'))
        return item_fail(c, " needs a 'call_id'");
    end_assistant(c);
    if (raw_is(item->output, '"'))
        vec_push(&c->texts, item->output);
    else if (raw_is(item->output, '['))
        rc = take_content_parts(c, item->output, KINDS, ARRAY_LEN(KINDS), "parts");
    else
        rc = item_fail(c, ".output must be a string or an array of parts");
    if (rc == 0) {
        begin_turn(c, &w, "tool");
        write_texts(c, &w);
        json_key(&w, "tool_call_id");
        json_raw(&w, item->call_id);
        json_end_object(&w);
    }
    c->texts.count = 0;
    return rc;
}

static int take_call(struct converter *c, const struct item *item) {
    if (!raw_is(item->call_id, '"') || !raw_is(item->name, '"') || !raw_is(item->arguments, '"'))
        return item_fail(c, " needs 'call_id', 'name' and a string 'arguments'");
    c->gathers = true;
    vec_push(&c->calls, *item);
    return 0;
}

/* What was thought stands in the content, or in the summary where the client asked for one. */
static int take_reasoning(struct converter *c, const struct item *item) {
    static const struct content_part_kind KINDS[] = {{"reasoning_text", "text"},
                                                     {"summary_text", "text"}};
    struct bytes list =
        raw_is(item->content, '[') && item->content.len > 2 ? item->content : item->summary;
    size_t before = c->texts.count;
    c->gathers = true;
    if (!raw_is(list, '['))
        return 0; /* nobody but its maker can read it */
    if (take_content_parts(c, list, KINDS, ARRAY_LEN(KINDS), "parts"))
        return -1;
    for (size_t i = before; i < c->texts.count; i++)
        vec_push(&c->thoughts, c->texts.items[i]);
    c->texts.count = before;
    return 0;
}

/* ---- items of responses that are kept ---- */

/* The response that made an item, by the item's id as the client wrote it: PREFIX_NUMBER and at
 * least two digits. False: none of ours. */
static bool maker_of(struct bytes id, struct u128 *number) {
    struct bytes text = raw_content(id);
    const uint8_t *mark = text.len ? memchr(text.data, '_', text.len) : NULL;
    char hex[U128_TEXT_MAX];
    size_t before = mark ? (size_t)(mark + 1 - text.data) : 0;
    if (!mark || text.len < before + sizeof hex - 1 + 2)
        return false;
    memcpy(hex, mark + 1, sizeof hex - 1);
    hex[sizeof hex - 1] = 0;
    return u128_parse(hex, number) == 0;
}

/* The list of a response's items; empty: it has none. */
static struct bytes output_of(struct bytes object) {
    struct bytes output = {0};
    const struct json_wanted members[] = {{"output", &output}};
    struct json_reader r;
    json_reader_init(&r, object, GENREQ_DEPTH_MAX, 0);
    bool whole = json_next(&r) == JSON_OBJECT_BEGIN && json_take_members(&r, members, 1);
    json_reader_release(&r);
    return whole && raw_is(output, '[') ? output : bytes_of(NULL, 0);
}

/* The item of that id among these. False: there is none. */
static bool find_output(struct bytes output, struct bytes id, struct item *out) {
    struct json_reader r;
    bool found = false;
    if (!output.len)
        return false;
    json_reader_init(&r, output, GENREQ_DEPTH_MAX, 0);
    (void)json_next(&r);
    while (!found && json_next(&r) == JSON_OBJECT_BEGIN) {
        read_item(&r, out);
        found = bytes_equal(out->id, id);
    }
    json_reader_release(&r);
    return found;
}

/* c->object becomes that of the response that made the item; empty: it is not kept. */
static void load_maker(struct converter *c, struct bytes id) {
    struct u128 number;
    bool known = maker_of(id, &number);
    if (known && c->object.len && u128_equal(number, c->object_number))
        return;
    buf_reset(&c->object);
    c->output = bytes_of(NULL, 0);
    if (!known)
        return;
    c->object_number = number;
    struct kept_response *kept = response_store_find(c->store, number, c->tenant);
    if (kept)
        kept_response_object(c->store, kept, &c->object);
    kept_response_put(c->store, kept);
    c->referred_bytes += c->object.len;
    if (c->object.len && !c->object.failed)
        c->output = output_of(buf_bytes(&c->object));
}

/* Puts the item in place of what names it, in memory that lives as long as the request. */
static int resolve(struct converter *c, struct item *item) {
    struct bytes id = item->id, copy;
    struct json_reader r;
    load_maker(c, id);
    if (c->object.failed)
        return api_error_out_of_memory(c->err);
    c->searched_bytes += c->output.len;
    if (c->searched_bytes > RESPONSES_SEARCHED_MAX)
        return api_error_set(c->err, API_TOO_LARGE, "input",
                             "the input names too many items of long responses");
    if (!find_output(c->output, id, item))
        return api_error_set(c->err, API_BAD_REQUEST, "input",
                             "input[%u]: no item %.*s is kept here: its response was not stored, "
                             "was deleted or gave way to newer ones, or another gateway has it",
                             c->item_idx, (int)MIN(id.len, (size_t)80), (const char *)id.data);
    c->referred_bytes += item->whole.len;
    if (c->referred_bytes > RESPONSES_REFERRED_MAX)
        return api_error_set(c->err, API_TOO_LARGE, "input",
                             "the responses whose items the input names have more than %d bytes",
                             RESPONSES_REFERRED_MAX);
    const void *kept = arena_copy(&c->g->arena, item->whole.data, item->whole.len);
    if (!kept)
        return api_error_out_of_memory(c->err);
    copy = bytes_of(kept, item->whole.len);
    json_reader_init(&r, copy, GENREQ_DEPTH_MAX, 0);
    (void)json_next(&r);
    read_item(&r, item);
    json_reader_release(&r);
    item->whole = copy;
    return 0;
}

static bool is_reference(const struct item *item) {
    return raw_is(item->id, '"') &&
           (raw_is_text(item->type, "item_reference") || (!item->type.len && !item->role.len));
}

static int take_item(struct converter *c, const struct item *item) {
    if (raw_is_text(item->type, "message") || (!item->type.len && item->role.len))
        return take_message(c, item);
    if (raw_is_text(item->type, "function_call"))
        return take_call(c, item);
    if (raw_is_text(item->type, "function_call_output"))
        return take_output(c, item);
    if (raw_is_text(item->type, "reasoning"))
        return take_reasoning(c, item);
    if (!item->type.len)
        return item_fail(c, " needs a 'type', or a 'role'");
    return refuse_type(c, "items", item->type);
}

/* ---- what input_items tells ---- */

/* With the id and the type that it may lack; a text becomes a list of one part. */
static void list_item(struct converter *c, const struct item *item) {
    char number[U128_TEXT_MAX], drawn[U128_TEXT_MAX + 8];
    bool is_message = !item->type.len || raw_is_text(item->type, "message");
    struct bytes id = item->id;
    u128_text(random_u128(), number);
    snprintf(drawn, sizeof drawn, "\"item_%s\"", number);
    if (!id.len)
        id = bytes_str(drawn);
    if (c->items.len)
        buf_add_byte(&c->items, ',');
    if (is_message && raw_is(item->content, '"')) {
        buf_addf(&c->items,
                 "{\"id\":%.*s,\"type\":\"message\",\"status\":\"completed\",\"role\":%.*s,"
                 "\"content\":[{\"type\":\"%s\",\"text\":",
                 (int)id.len, (const char *)id.data, (int)item->role.len,
                 (const char *)item->role.data,
                 raw_is_text(item->role, "assistant") ? "output_text" : "input_text");
        buf_add_bytes(&c->items, item->content);
        buf_add_str(&c->items, "}]}");
        return;
    }
    buf_add_byte(&c->items, '{');
    if (!item->id.len)
        buf_addf(&c->items, "\"id\":%s,", drawn);
    if (!item->type.len)
        buf_add_str(&c->items, "\"type\":\"message\",");
    buf_add(&c->items, item->whole.data + 1, item->whole.len - 1);
}

/* ---- input ---- */

static int take_items(struct converter *c, struct bytes input) {
    struct json_reader r;
    struct item item;
    int rc = 0;
    json_reader_init(&r, input, GENREQ_DEPTH_MAX, 0);
    (void)json_next(&r);
    for (enum json_event event; rc == 0 && (event = json_next(&r)) != JSON_ARRAY_END;
         c->item_idx++) {
        if (event != JSON_OBJECT_BEGIN) {
            rc = item_fail(c, " must be an object");
        } else if (c->item_idx == GENREQ_MESSAGES_MAX) {
            rc = api_error_set(c->err, API_BAD_REQUEST, "input", "more than %d items",
                               GENREQ_MESSAGES_MAX);
        } else {
            read_item(&r, &item);
            if (is_reference(&item) && !c->store) {
                c->g->kept.refers = true;
                continue;
            }
            if (is_reference(&item))
                rc = resolve(c, &item);
            if (rc == 0)
                rc = take_item(c, &item);
            if (rc == 0 && c->g->kept.store)
                list_item(c, &item);
        }
    }
    json_reader_release(&r);
    if (rc == 0 && c->item_idx == 0)
        rc = api_error_set(c->err, API_BAD_REQUEST, "input", "'input' is empty");
    end_assistant(c);
    return rc;
}

static int take_input(struct converter *c, struct bytes input) {
    if (raw_is(input, '['))
        return take_items(c, input);
    const struct item item = {.role = bytes_str("\"user\""), .content = input, .whole = input};
    int rc = take_message(c, &item);
    if (rc == 0 && c->g->kept.store)
        list_item(c, &item);
    return rc;
}

/* ---- tools ---- */

static int take_tool(struct converter *c, struct json_reader *r, struct json_writer *w,
                     uint32_t idx) {
    struct bytes type = {0}, name = {0}, description = {0}, parameters = {0}, strict = {0};
    const struct json_wanted members[] = {{"type", &type},
                                          {"name", &name},
                                          {"description", &description},
                                          {"parameters", &parameters},
                                          {"strict", &strict}};
    bool whole = json_take_members(r, members, ARRAY_LEN(members));
    if (type.len && !raw_is_text(type, "function"))
        return api_error_set(c->err, API_UNSUPPORTED, "tools",
                             "tools[%u]: tools of type %.*s are not offered by this server", idx,
                             (int)MIN(type.len, (size_t)64), (const char *)type.data);
    if (!whole || !type.len || !raw_is(name, '"'))
        return api_error_set(c->err, API_BAD_REQUEST, "tools",
                             "tools[%u] needs a 'type' and a 'name'", idx);
    json_begin_object(w);
    json_key(w, "type");
    json_string(w, "function");
    json_key(w, "function");
    json_begin_object(w);
    for (size_t i = 1; i < ARRAY_LEN(members); i++) {
        if (!members[i].out->len)
            continue;
        json_key(w, members[i].name);
        json_raw(w, *members[i].out);
    }
    json_end_object(w);
    json_end_object(w);
    return 0;
}

static int take_tools(struct converter *c, struct buf *out) {
    struct json_reader r;
    struct json_writer w;
    uint32_t count = 0;
    int rc = 0;
    json_writer_init(&w, out);
    json_begin_array(&w);
    json_reader_init(&r, c->g->tools, GENREQ_DEPTH_MAX, 0);
    (void)json_next(&r);
    for (enum json_event event; rc == 0 && (event = json_next(&r)) != JSON_ARRAY_END; count++)
        rc = event == JSON_OBJECT_BEGIN ? take_tool(c, &r, &w, count)
                                        : api_error_set(c->err, API_BAD_REQUEST, "tools",
                                                        "tools[%u] must be an object", count);
    json_reader_release(&r);
    if (rc == 0)
        json_end_array(&w);
    if (count == 0)
        buf_reset(out); /* none */
    return rc;
}

/* ---- all ---- */

/* The messages are the instructions, what went before, and the input: written once, since what went
 * before may be long. The turns to be kept are a part of them. */
static int write_messages(struct genreq *g, struct bytes before, struct api_error *err) {
    bool told = g->kept.instructions.len > 0;
    const struct bytes head[] = {bytes_str(told ? "[{\"role\":\"system\",\"content\":" : "["),
                                 g->kept.instructions, bytes_str(told ? "}," : "")};
    const struct bytes pieces[] = {
        head[0],       head[1],       head[2], before, bytes_str(before.len ? "," : ""),
        g->kept.turns, bytes_str("]")};
    size_t begin = head[0].len + head[1].len + head[2].len, len = 0;
    const uint8_t *joined = arena_join(&g->arena, pieces, ARRAY_LEN(pieces));
    if (!joined)
        return g->arena.starved
                   ? api_error_out_of_memory(err)
                   : api_error_set(err, API_TOO_LARGE, "input", "the conversation is too large");
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++)
        len += pieces[i].len;
    g->messages = bytes_of(joined, len);
    g->kept.turns = bytes_of(joined + begin, len - begin - 1);
    return 0;
}

/* Turns and items of the input. store: where items that it names are; NULL: they are left out. */
static int convert_input(struct genreq *g, struct response_store *store, struct u128 tenant,
                         struct api_error *err) {
    struct converter c = {.g = g, .err = err, .store = store, .tenant = tenant};
    int rc = take_input(&c, g->kept.input);
    if (rc == 0)
        rc = genreq_keep(g, &c.turns, &g->kept.turns, err);
    if (rc == 0)
        rc = genreq_keep(g, &c.items, &g->kept.items, err);
    g->kept.turn_count = c.turn_count;
    vec_release(&c.texts);
    vec_release(&c.thoughts);
    vec_release(&c.calls);
    buf_release(&c.turns);
    buf_release(&c.items);
    buf_release(&c.object);
    return rc;
}

int responses_convert(struct genreq *g, struct bytes input, struct bytes instructions,
                      struct api_error *err) {
    struct converter c = {.g = g, .err = err};
    struct buf tools = {0}, told = {0};
    g->kept.input = input;
    int rc = convert_input(g, NULL, (struct u128){0}, err);
    if (!raw_is_text(instructions, ""))
        buf_add_bytes(&told, instructions);
    if (rc == 0)
        rc = genreq_keep(g, &told, &g->kept.instructions, err);
    if (rc == 0)
        rc = write_messages(g, bytes_of(NULL, 0), err);
    if (rc == 0 && g->tools.len) {
        rc = take_tools(&c, &tools);
        if (rc == 0)
            rc = genreq_keep(g, &tools, &g->tools, err);
        if (rc == 0)
            rc = allowed_tools_apply(g, err);
    }
    buf_release(&tools);
    buf_release(&told);
    return rc;
}

/* ---- the conversation before ---- */

bool responses_id_parse(struct bytes id, struct u128 *number) {
    static const char prefix[] = "resp_";
    char hex[U128_TEXT_MAX];
    size_t len = sizeof prefix - 1;
    if (id.len != len + sizeof hex - 1 || memcmp(id.data, prefix, len) != 0)
        return false;
    memcpy(hex, id.data + len, sizeof hex - 1);
    hex[sizeof hex - 1] = 0;
    return u128_parse(hex, number) == 0;
}

static int refuse_previous(struct bytes id, struct api_error *err) {
    api_error_set(err, API_NOT_FOUND, "previous_response_id",
                  "no response '%.*s' is kept here: it was not stored, it was deleted or gave way "
                  "to newer ones, or another gateway has it",
                  (int)MIN(id.len, (size_t)64), (const char *)id.data);
    err->status = 400;
    err->code = "previous_response_not_found";
    return -1;
}

int responses_resume(struct genreq *g, struct response_store *store, struct u128 tenant,
                     struct api_error *err) {
    struct u128 number;
    struct kept_response *kept = NULL;
    if (g->kept.refers && convert_input(g, store, tenant, err))
        return -1;
    if (!g->kept.previous.len)
        return g->kept.refers ? write_messages(g, bytes_of(NULL, 0), err) : 0;
    if (responses_id_parse(g->kept.previous, &number))
        kept = response_store_find(store, number, tenant);
    if (!kept)
        return refuse_previous(g->kept.previous, err);
    int rc = 0;
    if (kept_response_is_running(store, kept)) {
        rc = api_error_set(err, API_BAD_REQUEST, "previous_response_id",
                           "the response that is to be continued is not finished yet");
    } else {
        uint32_t count;
        struct bytes before = kept_response_turns(store, kept, &count);
        g->kept.turn_count += count;
        rc = g->kept.turn_count > GENREQ_MESSAGES_MAX
                 ? api_error_set(err, API_BAD_REQUEST, "previous_response_id",
                                 "the conversation has more than %d messages", GENREQ_MESSAGES_MAX)
                 : write_messages(g, before, err);
    }
    kept_response_put(store, kept);
    return rc;
}
