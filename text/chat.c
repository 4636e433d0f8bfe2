#include "text/chat.h"

#include "text/template/python.h"
#include "text/template/value_data.h"

enum { TEMPLATES_MAX = 32, CONFIG_BUDGET = 64 << 20, DEFAULT_MEMORY = 256 << 20 };

struct named_template {
    char *name;   /* owned */
    char *source; /* owned */
    size_t source_len;
    struct template *parsed; /* owned */
    struct chat_formats formats;
};

struct chat {
    struct named_template templates[TEMPLATES_MAX];
    size_t template_count;
    struct arena arena;     /* of specials */
    struct tvalue specials; /* dict: bos_token and the like */
};

/* ---- loading ---- */

static void free_templates(struct chat *chat) {
    for (size_t i = 0; i < chat->template_count; i++) {
        mem_free(chat->templates[i].name);
        mem_free(chat->templates[i].source);
        template_free(&chat->templates[i].parsed);
    }
    chat->template_count = 0;
}

static int add_template(struct chat *chat, struct bytes name, struct bytes source,
                        struct error *err) {
    struct template *parsed;
    if (chat->template_count == TEMPLATES_MAX)
        return error_set(err, ERR_LIMIT, "more than %d chat templates", TEMPLATES_MAX);
    int rc = template_parse(source, &parsed, err);
    if (rc)
        return error_wrap(err, "chat template '%.*s'", (int)MIN(name.len, (size_t)64),
                          (const char *)name.data);
    struct named_template *t = &chat->templates[chat->template_count++];
    t->name = mem_strndup((const char *)name.data, name.len);
    t->source = mem_strndup((const char *)source.data, source.len);
    t->source_len = source.len;
    t->parsed = parsed;
    t->formats = (struct chat_formats){reasoning_format_of_template(source),
                                       call_format_of_template(source)};
    return 0;
}

/* chat_template: a string, or a list of {name, template}. */
static int add_from_value(struct chat *chat, struct tvalue v, struct error *err) {
    if (v.kind == TVALUE_STRING)
        return add_template(chat, bytes_str("default"), tvalue_text(v), err);
    int rc = 0;
    for (size_t i = 0; !rc && i < tvalue_count(v); i++) {
        struct tvalue name = tvalue_get(tvalue_list_at(v, i), "name"),
                      source = tvalue_get(tvalue_list_at(v, i), "template");
        if (name.kind != TVALUE_STRING || source.kind != TVALUE_STRING)
            return error_set(err, ERR_INVALID, "bad list of chat templates");
        rc = add_template(chat, tvalue_text(name), tvalue_text(source), err);
    }
    return rc;
}

/* additional_chat_templates/NAME.jinja */
static int add_named_files(struct chat *chat, const struct bundle *bundle, struct error *err) {
    static const char PREFIX[] = "additional_chat_templates/", SUFFIX[] = ".jinja";
    const size_t prefix = sizeof PREFIX - 1, suffix = sizeof SUFFIX - 1;
    int rc = 0;
    for (size_t i = 0; !rc && i < bundle->file_count; i++) {
        struct bytes name = bundle->files[i].name;
        if (name.len <= prefix + suffix || memcmp(name.data, PREFIX, prefix) != 0)
            continue;
        rc = add_template(chat, bytes_of(name.data + prefix, name.len - prefix - suffix),
                          bundle->files[i].data, err);
    }
    return rc;
}

static int parse_file(struct arena *a, const struct bundle *bundle, const char *name,
                      struct tvalue *out, struct error *err) {
    struct bytes json = bundle_find(bundle, name);
    *out = tvalue_none();
    int rc = json.len ? tvalue_from_json(a, json, out, err) : 0;
    return rc ? error_wrap(err, "%s", name) : 0;
}

static int load_templates(struct chat *chat, const struct bundle *bundle, struct tvalue config,
                          struct arena *a, struct error *err) {
    struct bytes file = bundle_find(bundle, "chat_template.jinja");
    if (file.data) {
        int rc = add_template(chat, bytes_str("default"), file, err);
        return rc ? rc : add_named_files(chat, bundle, err);
    }
    struct tvalue json;
    int rc = parse_file(a, bundle, "chat_template.json", &json, err);
    if (rc)
        return rc;
    struct tvalue v = tvalue_get(json, "chat_template");
    return add_from_value(
        chat, v.kind == TVALUE_UNDEFINED ? tvalue_get(config, "chat_template") : v, err);
}

static void set_special(struct chat *chat, const char *name, struct tvalue v) {
    if (v.kind == TVALUE_DICT)
        v = tvalue_get(v, "content");
    if (v.kind != TVALUE_STRING || tvalue_get(chat->specials, name).kind != TVALUE_UNDEFINED)
        return;
    (void)!tvalue_dict_set(&chat->arena, chat->specials, bytes_str(name),
                           tvalue_string_copy(&chat->arena, tvalue_text(v)));
}

/* A list of tokens, each a string or {content}. */
static void set_special_list(struct chat *chat, const char *name, struct tvalue v) {
    struct tvalue list = tvalue_list(&chat->arena);
    if (!tvalue_count(v) || v.kind != TVALUE_LIST ||
        tvalue_get(chat->specials, name).kind != TVALUE_UNDEFINED)
        return;
    for (size_t i = 0; i < tvalue_count(v); i++) {
        struct tvalue item = tvalue_list_at(v, i);
        if (item.kind == TVALUE_DICT)
            item = tvalue_get(item, "content");
        if (item.kind == TVALUE_STRING)
            (void)!tvalue_list_push(&chat->arena, list,
                                    tvalue_string_copy(&chat->arena, tvalue_text(item)));
    }
    (void)!tvalue_dict_set(&chat->arena, chat->specials, bytes_str(name), list);
}

static void load_specials(struct chat *chat, struct tvalue from) {
    static const char *const NAMES[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
        set_special(chat, NAMES[i], tvalue_get(from, NAMES[i]));
    set_special_list(chat, "additional_special_tokens",
                     tvalue_get(from, "additional_special_tokens"));
    /* a dict: names of the model's own */
    struct tvalue extra = tvalue_get(from, "extra_special_tokens");
    if (extra.kind != TVALUE_DICT)
        return;
    for (uint32_t i = 0; i < extra.dict->count; i++) {
        struct tvalue key = extra.dict->entries[i].key;
        char *name = mem_strndup(key.text, key.len);
        set_special(chat, name, extra.dict->entries[i].value);
        mem_free(name);
    }
}

int chat_load(const struct bundle *bundle, struct chat **out, struct error *err) {
    CHECK(bundle && out);
    struct tvalue config, map;
    struct arena a;
    struct chat *chat = mem_alloc(sizeof *chat);
    arena_init(&chat->arena, CONFIG_BUDGET, 0);
    arena_init(&a, CONFIG_BUDGET, 0);
    chat->specials = tvalue_dict(&chat->arena);
    CHECK(chat->specials.kind == TVALUE_DICT);
    int rc = parse_file(&a, bundle, "tokenizer_config.json", &config, err);
    if (!rc)
        rc = parse_file(&a, bundle, "special_tokens_map.json", &map, err);
    if (!rc) {
        load_specials(chat, config);
        load_specials(chat, map);
        rc = load_templates(chat, bundle, config, &a, err);
    }
    arena_release(&a);
    if (rc)
        chat_free(&chat);
    *out = chat;
    return rc;
}

int chat_set_template(struct chat *chat, struct bytes source, struct error *err) {
    struct template *parsed;
    int rc = template_parse(source, &parsed, err); /* a bad one leaves the old ones in place */
    if (rc)
        return error_wrap(err, "chat template");
    template_free(&parsed);
    free_templates(chat);
    return add_template(chat, bytes_str("default"), source, err);
}

int chat_add_template(struct chat *chat, const char *name, struct bytes source, struct error *err) {
    CHECK(name);
    return add_template(chat, bytes_str(name), source, err);
}

void chat_free(struct chat **chat) {
    if (!*chat)
        return;
    free_templates(*chat);
    arena_release(&(*chat)->arena);
    mem_free(*chat);
    *chat = NULL;
}

/* ---- choosing ---- */

static const struct named_template *find_named(const struct chat *chat, const char *name) {
    for (size_t i = 0; i < chat->template_count; i++)
        if (!strcmp(chat->templates[i].name, name))
            return &chat->templates[i];
    return NULL;
}

static const struct named_template *choose(const struct chat *chat, const char *name,
                                           bool has_tools) {
    if (name)
        return find_named(chat, name);
    const struct named_template *t = has_tools ? find_named(chat, "tool_use") : NULL;
    if (!t)
        t = find_named(chat, "default");
    return !t && chat->template_count == 1 ? &chat->templates[0] : t;
}

bool chat_has_template(const struct chat *chat) {
    return chat->template_count;
}

struct bytes chat_template_source(const struct chat *chat, const char *name, bool has_tools) {
    const struct named_template *t = choose(chat, name, has_tools);
    return t ? bytes_of(t->source, t->source_len) : bytes_of(NULL, 0);
}

/* ---- formats of answers ---- */

struct chat_formats chat_formats(const struct chat *chat, const char *name, bool has_tools) {
    const struct named_template *t = choose(chat, name, has_tools);
    return t ? t->formats : (struct chat_formats){0};
}

static bool is_auto(const char *name) {
    return !name || !strcmp(name, "auto");
}
static bool is_none(const char *name) {
    return name && !strcmp(name, "none");
}

static int no_format(const char *what, const char *name, void (*list)(struct buf *out),
                     struct error *err) {
    struct buf names = {0};
    list(&names);
    int rc = error_set(err, ERR_NOT_FOUND, "there is no %s parser '%s'; there are auto, none, %s",
                       what, name, buf_text(&names));
    buf_release(&names);
    return rc;
}

int chat_set_formats(struct chat *chat, const char *reasoning, const char *calls,
                     struct error *err) {
    const struct reasoning_format *r =
        is_auto(reasoning) ? NULL : reasoning_format_find(bytes_str(reasoning));
    const struct call_format *c = is_auto(calls) ? NULL : call_format_find(bytes_str(calls));
    if (!is_auto(reasoning) && !is_none(reasoning) && !r)
        return no_format("reasoning", reasoning, reasoning_format_names, err);
    if (!is_auto(calls) && !is_none(calls) && !c)
        return no_format("tool call", calls, call_format_names, err);
    for (size_t i = 0; i < chat->template_count; i++) {
        if (!is_auto(reasoning))
            chat->templates[i].formats.reasoning = r;
        if (!is_auto(calls))
            chat->templates[i].formats.calls = c;
    }
    return 0;
}

/* ---- messages ---- */

struct render {
    const struct chat_request *request;
    struct arena arena;
    struct error *err;
    bool wants_content_parts;
    bool keep_arguments;               /* of tool calls: as the client's strings */
    bool parsed_arguments;             /* some became objects */
    bool no_tools;                     /* there are none */
    bool leave_out_tools;              /* then the template sees no such variable */
    const struct tokenizer *guard_for; /* NULL: no guards */
    unsigned guard;
};

static int out_of_memory(struct render *r) {
    return error_set(r->err, ERR_LIMIT, "the messages are too large");
}

/* The text of a content part; undefined for what is no text. */
static struct tvalue content_part_text(struct tvalue item) {
    if (item.kind == TVALUE_STRING)
        return item;
    struct tvalue type = tvalue_get(item, "type");
    if (tvalue_is(type, "text") || tvalue_is(type, "input_text") || tvalue_is(type, "output_text"))
        return tvalue_get(item, "text");
    if (tvalue_is(type, "refusal"))
        return tvalue_get(item, "refusal");
    return (struct tvalue){0};
}

/* A part that says no type is a text where it has one; and templates ask for type and text, whatever a
 * text is called. */
static bool name_type(struct render *r, struct tvalue item) {
    if (item.kind != TVALUE_DICT)
        return true;
    bool unnamed = tvalue_get(item, "type").kind == TVALUE_UNDEFINED;
    struct tvalue text = unnamed ? tvalue_get(item, "text") : content_part_text(item);
    if (text.kind != TVALUE_STRING || tvalue_is(tvalue_get(item, "type"), "text"))
        return true;
    return tvalue_dict_set(&r->arena, item, bytes_str("text"), text) &&
           tvalue_dict_set(&r->arena, item, bytes_str("type"), tvalue_string(bytes_str("text")));
}

static int join_content_parts(struct render *r, size_t message_idx, struct tvalue content_parts,
                              struct tvalue *out) {
    struct buf text = {0};
    for (size_t i = 0; i < tvalue_count(content_parts); i++) {
        if (!name_type(r, tvalue_list_at(content_parts, i))) {
            buf_release(&text);
            return out_of_memory(r);
        }
        struct tvalue item = tvalue_list_at(content_parts, i), type = tvalue_get(item, "type"),
                      s = content_part_text(item);
        if (s.kind != TVALUE_STRING) {
            buf_release(&text);
            return error_set(r->err, ERR_UNSUPPORTED,
                             "messages[%zu].content[%zu]: this model takes text only, not '%.*s'",
                             message_idx, i, (int)MIN(tvalue_text(type).len, (size_t)64),
                             type.kind == TVALUE_STRING ? type.text : "");
        }
        if (i)
            buf_add_byte(&text, '\n');
        buf_add(&text, s.text, s.len);
    }
    *out = tvalue_string_copy(&r->arena, buf_bytes(&text));
    buf_release(&text);
    return out->kind == TVALUE_STRING ? 0 : out_of_memory(r);
}

static int set_field(struct render *r, struct tvalue dict, const char *name, struct tvalue v) {
    if (v.kind == TVALUE_UNDEFINED || !tvalue_dict_set(&r->arena, dict, bytes_str(name), v))
        return out_of_memory(r);
    return 0;
}

static int check_content_parts(struct render *r, size_t message_idx, struct tvalue content_parts) {
    struct tvalue ignored;
    return join_content_parts(r, message_idx, content_parts, &ignored);
}

/* Absent content becomes empty; parts become a string where the template wants one. */
static int fit_content(struct render *r, size_t message_idx, struct tvalue message) {
    struct tvalue content = tvalue_get(message, "content"), text;
    if (content.kind == TVALUE_STRING)
        return 0;
    if (content.kind == TVALUE_UNDEFINED || content.kind == TVALUE_NONE)
        return set_field(r, message, "content",
                         r->wants_content_parts ? tvalue_list(&r->arena)
                                                : tvalue_string(bytes_of(NULL, 0)));
    if (content.kind != TVALUE_LIST)
        return error_set(r->err, ERR_INVALID,
                         "messages[%zu].content must be a string or a list of parts", message_idx);
    if (r->wants_content_parts)
        return check_content_parts(r, message_idx, content);
    int rc = join_content_parts(r, message_idx, content, &text);
    return rc ? rc : set_field(r, message, "content", text);
}

/* OpenAI's arguments are JSON in a string; most templates want the object. What is no object stays
 * as it is. */
static int fit_tool_calls(struct render *r, struct tvalue message) {
    if (r->keep_arguments)
        return 0;
    struct tvalue calls = tvalue_get(message, "tool_calls");
    for (size_t i = 0; i < tvalue_count(calls); i++) {
        struct tvalue function = tvalue_get(tvalue_list_at(calls, i), "function"),
                      arguments = tvalue_get(function, "arguments"), object;
        if (arguments.kind != TVALUE_STRING)
            continue;
        struct bytes text = arguments.len ? tvalue_text(arguments) : bytes_str("{}");
        struct error ignored;
        if (tvalue_from_json(&r->arena, text, &object, &ignored) || object.kind != TVALUE_DICT)
            continue;
        int rc = set_field(r, function, "arguments", object);
        if (rc)
            return rc;
        r->parsed_arguments = true;
    }
    return 0;
}

/* Clients send back what was thought under one of three names; templates know one of the first
 * two. */
static int fit_reasoning(struct render *r, struct tvalue message) {
    struct tvalue old = tvalue_get(message, "reasoning_content"),
                  new = tvalue_get(message, "reasoning"),
                  thought = old.kind == TVALUE_STRING ? old : new;
    if (thought.kind != TVALUE_STRING)
        thought = tvalue_get(message, "thinking");
    if (thought.kind != TVALUE_STRING)
        return 0;
    int rc = old.kind == TVALUE_STRING ? 0 : set_field(r, message, "reasoning_content", thought);
    return rc || new.kind == TVALUE_STRING ? rc : set_field(r, message, "reasoning", thought);
}

/* Ollama's clients tell whose result a tool's message is under a name of their own. */
static int fit_tool_name(struct render *r, struct tvalue message) {
    struct tvalue tool = tvalue_get(message, "tool_name");
    bool named = tvalue_get(message, "name").kind == TVALUE_STRING;
    return named || tool.kind != TVALUE_STRING ? 0 : set_field(r, message, "name", tool);
}

static int fit_message(struct render *r, size_t message_idx, struct tvalue message) {
    int rc = fit_content(r, message_idx, message);
    if (!rc)
        rc = fit_tool_calls(r, message);
    if (!rc)
        rc = fit_tool_name(r, message);
    return rc ? rc : fit_reasoning(r, message);
}

static int fit_messages(struct render *r, struct tvalue messages) {
    if (messages.kind != TVALUE_LIST || !tvalue_count(messages))
        return error_set(r->err, ERR_INVALID, "messages must be a list with at least one message");
    for (size_t i = 0; i < tvalue_count(messages); i++) {
        struct tvalue message = tvalue_list_at(messages, i);
        if (message.kind != TVALUE_DICT || tvalue_get(message, "role").kind != TVALUE_STRING)
            return error_set(r->err, ERR_INVALID, "messages[%zu] must be an object with a role", i);
        int rc = r->request->raw_messages ? 0 : fit_message(r, i, message);
        if (rc)
            return rc;
    }
    return 0;
}

/* ---- rendering ---- */

static int parse_optional(struct render *r, const char *name, struct bytes json,
                          struct tvalue *out) {
    *out = tvalue_none();
    if (!json.len)
        return 0;
    int rc = tvalue_from_json(&r->arena, json, out, r->err);
    return rc ? error_wrap(r->err, "%s", name) : 0;
}

static int add_all(struct render *r, struct tvalue context, struct tvalue from) {
    for (uint32_t i = 0; from.kind == TVALUE_DICT && i < from.dict->count; i++) {
        struct tdict_entry *e = &from.dict->entries[i];
        if (tvalue_is(e->key, "messages"))
            return error_set(r->err, ERR_INVALID, "chat_template_kwargs may not replace messages");
        if (!tdict_set(&r->arena, context.dict, e->key, e->value))
            return out_of_memory(r);
    }
    return 0;
}

static int add_effort(struct render *r, struct tvalue context) {
    struct bytes effort = r->request->reasoning_effort;
    if (!effort.len)
        return 0;
    int rc = set_field(r, context, "reasoning_effort", tvalue_string(effort));
    if (rc || !bytes_equal(effort, bytes_str("none")))
        return rc;
    rc = set_field(r, context, "enable_thinking", tvalue_bool(false));
    return rc ? rc : set_field(r, context, "thinking", tvalue_bool(false));
}

/* Guards what users wrote (guard.h), with a noncharacter that is nowhere in what the template will
 * see. */
static int guard_users(struct render *r, struct tvalue messages, struct tvalue *tools,
                       struct tvalue *documents, struct tvalue kwargs) {
    if (!r->guard_for)
        return 0;
    uint32_t used =
        guards_used(messages) | guards_used(*tools) | guards_used(*documents) | guards_used(kwargs);
    if (used == UINT32_MAX)
        return error_set(r->err, ERR_INVALID, "the messages hold every noncharacter there is");
    r->guard = (unsigned)__builtin_ctz(~used);
    bool good = guard_messages(&r->arena, r->guard_for, r->guard, messages) &&
                guard_strings(&r->arena, r->guard_for, r->guard, tools) &&
                guard_strings(&r->arena, r->guard_for, r->guard, documents);
    return good ? 0 : out_of_memory(r);
}

static int build_context(struct render *r, const struct chat *chat, struct tvalue *context,
                         struct tvalue *messages) {
    const struct chat_request *q = r->request;
    struct tvalue tools, documents, kwargs;
    int rc;
    if ((rc = parse_optional(r, "messages", q->messages, messages)) ||
        (rc = parse_optional(r, "tools", q->tools, &tools)) ||
        (rc = parse_optional(r, "documents", q->documents, &documents)) ||
        (rc = parse_optional(r, "chat_template_kwargs", q->kwargs, &kwargs)) ||
        (rc = fit_messages(r, *messages)) ||
        (rc = guard_users(r, *messages, &tools, &documents, kwargs)))
        return rc;
    if (kwargs.kind != TVALUE_NONE && kwargs.kind != TVALUE_DICT)
        return error_set(r->err, ERR_INVALID, "chat_template_kwargs must be an object");
    r->no_tools = tvalue_count(tools) == 0;
    if (r->no_tools)
        tools = tvalue_none();
    *context = tvalue_dict(&r->arena);
    if (context->kind != TVALUE_DICT)
        return out_of_memory(r);
    if ((rc = add_all(r, *context, chat->specials)) ||
        (!r->leave_out_tools && (rc = set_field(r, *context, "tools", tools))) ||
        (rc = set_field(r, *context, "documents", documents)) ||
        (rc = set_field(r, *context, "add_generation_prompt",
                        tvalue_bool(q->add_generation_prompt))) ||
        (rc = add_effort(r, *context)) || (rc = add_all(r, *context, kwargs)))
        return rc;
    return set_field(r, *context, "messages", *messages);
}

/* HF's: stands behind the final message's text while the template runs. */
static const char FINAL_TAG[] = "CONTINUE_FINAL_MESSAGE_TAG ";

/* Puts the tag behind the member `name` of v, a string; *text is what was there. */
static int tag_text(struct render *r, struct tvalue v, const char *name, struct bytes *text) {
    struct buf tagged = {0};
    *text = tvalue_text(tvalue_get(v, name));
    buf_add_bytes(&tagged, *text);
    buf_add_str(&tagged, FINAL_TAG);
    struct tvalue copy = tvalue_string_copy(&r->arena, buf_bytes(&tagged));
    buf_release(&tagged);
    return copy.kind == TVALUE_STRING ? set_field(r, v, name, copy) : out_of_memory(r);
}

/* Tags the text of the last message, of its last text item. */
static int tag_final(struct render *r, struct tvalue messages, struct bytes *text) {
    struct tvalue message = tvalue_list_at(messages, tvalue_count(messages) - 1),
                  content = tvalue_get(message, "content");
    if (content.kind == TVALUE_STRING)
        return tag_text(r, message, "content", text);
    for (size_t i = tvalue_count(content); content.kind == TVALUE_LIST && i-- > 0;) {
        struct tvalue item = tvalue_list_at(content, i);
        if (tvalue_get(item, "text").kind == TVALUE_STRING)
            return tag_text(r, item, "text", text);
    }
    return error_set(r->err, ERR_INVALID,
                     "continue_final_message: the final message has no text to continue");
}

/* Cuts from the tag on; where the template has cut the tag's own trailing space, what it trims is
 * cut too. */
static int cut_at_tag(struct render *r, struct bytes text, struct buf *out, size_t from) {
    struct bytes made = bytes_of(out->data + from, out->len - from),
                 tag = bytes_of(FINAL_TAG, strlen(FINAL_TAG) - 1);
    size_t at = SIZE_MAX;
    for (size_t i = made.len < tag.len ? 0 : made.len - tag.len + 1; i-- > 0 && at == SIZE_MAX;)
        if (!memcmp(made.data + i, tag.data, tag.len))
            at = i;
    text = python_strip(text, true, true);
    if (at == SIZE_MAX || (text.len && !memmem(made.data, made.len, text.data, text.len)))
        return error_set(
            r->err, ERR_INVALID,
            "continue_final_message: the chat template does not show the final message as it is");
    bool kept = at + tag.len < made.len && made.data[at + tag.len] == ' ';
    made.len = at;
    out->len = from + (kept ? made : python_strip(made, false, true)).len;
    out->data[out->len] = 0;
    return 0;
}

static int render_once(struct render *r, const struct chat *chat, const struct named_template *t,
                       struct buf *out) {
    const struct chat_request *q = r->request;
    size_t before = out->len;
    struct tvalue context, messages;
    struct bytes final = {0};
    arena_init(&r->arena, q->limits.memory_bytes ? q->limits.memory_bytes : DEFAULT_MEMORY, 0);
    int rc = build_context(r, chat, &context, &messages);
    if (!rc && q->continue_final_message)
        rc = tag_final(r, messages, &final);
    if (!rc)
        rc = template_render(t->parsed, context, &q->limits, out, r->err);
    if (!rc && q->continue_final_message)
        rc = cut_at_tag(r, final, out, before);
    if (rc && r->arena.starved)
        rc = error_set(r->err, ERR_MEMORY, "out of memory");
    arena_release(&r->arena);
    if (rc)
        out->len = before;
    return rc;
}

/* Some templates (DeepSeek's, Functionary's) add arguments to a string and so fail with objects:
 * they get the strings. Some loop over tools although there are none (Hermes', made for tools
 * alone): they get no tools instead of none. When that fails too, the first error tells more. */
static int render_fitting(struct render *r, const struct chat *chat, const struct named_template *t,
                          struct buf *out) {
    int rc = render_once(r, chat, t, out);
    if (rc != ERR_INVALID)
        return rc;
    struct error first = *r->err;
    r->keep_arguments = true;
    if (r->parsed_arguments && render_once(r, chat, t, out) == 0)
        return 0;
    r->keep_arguments = false;
    r->leave_out_tools = true;
    if (r->no_tools && render_once(r, chat, t, out) == 0)
        return 0;
    *r->err = first;
    return rc;
}

static int render_with(struct render *r, const struct chat *chat, const struct named_template *t,
                       struct buf *out, struct plain_spots *spots) {
    const struct chat_request *q = r->request;
    size_t before = out->len;
    if (q->continue_final_message && q->add_generation_prompt)
        return error_set(r->err, ERR_INVALID,
                         "continue_final_message and add_generation_prompt exclude each other");
    r->wants_content_parts = template_wants_content_parts(t->parsed);
    int rc = render_fitting(r, chat, t, out);
    if (!rc && r->guard_for)
        guards_take_out(out, before, r->guard, spots);
    return rc;
}

/* With the template that the request brings. */
static int render_own(struct render *r, const struct chat *chat, struct buf *out,
                      struct plain_spots *spots) {
    struct named_template own = {0};
    int rc = template_parse(r->request->template_source, &own.parsed, r->err);
    if (rc)
        return error_wrap(r->err, "chat_template");
    rc = render_with(r, chat, &own, out, spots);
    template_free(&own.parsed);
    return rc;
}

static int render(struct render *r, const struct chat *chat, struct buf *out,
                  struct plain_spots *spots) {
    const struct chat_request *q = r->request;
    if (q->template_source.len)
        return render_own(r, chat, out, spots);
    const struct named_template *t = choose(chat, q->template_name, q->tools.len);
    if (!t) {
        const char *name = q->template_name;
        return name ? error_set(r->err, ERR_NOT_FOUND,
                                "the model has no chat template named '%.64s'", name)
                    : error_set(r->err, ERR_NOT_FOUND, "the model has no chat template");
    }
    return render_with(r, chat, t, out, spots);
}

int chat_render(const struct chat *chat, const struct chat_request *request, struct buf *out,
                struct error *err) {
    CHECK(chat && request && out);
    struct error local;
    struct render r = {.request = request, .err = err ? err : &local};
    return render(&r, chat, out, NULL);
}

int chat_render_guarded(const struct chat *chat, const struct tokenizer *tokenizer,
                        const struct chat_request *request, struct buf *out,
                        struct plain_spots *spots, struct error *err) {
    CHECK(chat && tokenizer && request && out);
    struct error local;
    struct render r = {.request = request, .err = err ? err : &local, .guard_for = tokenizer};
    return render(&r, chat, out, spots);
}

int chat_prompt(const struct chat *chat, const struct tokenizer *tokenizer,
                const struct chat_request *request, struct token_vec *out, struct error *err) {
    struct buf text = {0};
    struct plain_spots spots = {0};
    int rc = chat_render_guarded(chat, tokenizer, request, &text, &spots, err);
    if (!rc)
        rc = tokenizer_encode_spots(tokenizer, buf_bytes(&text), spots.items, spots.count,
                                    TOKENIZE_PARSE_SPECIAL, out, err);
    vec_release(&spots);
    buf_release(&text);
    return rc;
}
