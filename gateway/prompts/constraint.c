#include "gateway/prompts/constraint.h"

#include <pthread.h>

#include "base/hash.h"
#include "formats/json.h"
#include "grammar/grammar.h"

/* ---- what was compiled lately ---- */

enum { CACHE_ENTRIES = 1024 };

struct constraint_cache {
    pthread_mutex_t lock;
    struct hash_key key;
    struct u128 hashes[CACHE_ENTRIES]; /* zero: none */
};

struct constraint_cache *constraint_cache_new(void) {
    struct constraint_cache *cache = mem_alloc(sizeof *cache);
    struct u128 secret = random_u128();
    hash_key_init(&cache->key, &secret, sizeof secret);
    CHECK(!pthread_mutex_init(&cache->lock, NULL));
    return cache;
}

void constraint_cache_free(struct constraint_cache **cache) {
    if (!*cache)
        return;
    pthread_mutex_destroy(&(*cache)->lock);
    mem_free(*cache);
    *cache = NULL;
}

static bool is_known(struct constraint_cache *cache, struct u128 hash) {
    pthread_mutex_lock(&cache->lock);
    bool known = u128_equal(cache->hashes[hash.lo % CACHE_ENTRIES], hash);
    pthread_mutex_unlock(&cache->lock);
    return known;
}

static void remember(struct constraint_cache *cache, struct u128 hash) {
    pthread_mutex_lock(&cache->lock);
    cache->hashes[hash.lo % CACHE_ENTRIES] = hash;
    pthread_mutex_unlock(&cache->lock);
}

static int compile(const struct genreq *g, struct constraint_cache *cache, struct bytes text,
                   const char *field, struct api_error *api) {
    struct grammar_source source = {
        .kind = GRAMMAR_STRUCTURE, .text = text, .ordered = true, .plain = true};
    struct u128 hash = hash128_keyed(&cache->key, text.data, text.len);
    struct program program;
    struct error err;
    if (text.len > WIRE_MAX_GRAMMAR)
        return api_error_set(api, API_BAD_REQUEST, field, "'%s' is too large", field);
    if (is_known(cache, hash))
        return 0;
    int rc = grammar_compile(&source, NULL, &program, &err);
    if (rc)
        return api_error_set(api, rc == ERR_UNSUPPORTED ? API_UNSUPPORTED : API_BAD_REQUEST, field,
                             "'%s': %s", field, err.text);
    program_release(&program);
    remember(cache, hash);
    return 0;
}

/* ---- formats of a structural tag ---- */

static void begin_format(struct json_writer *w, const char *type) {
    json_begin_object(w);
    json_key(w, "type");
    json_string(w, type);
}

static void begin_list(struct json_writer *w, const char *type) {
    begin_format(w, type);
    json_key(w, "elements");
    json_begin_array(w);
}

static void end_list(struct json_writer *w) {
    json_end_array(w);
    json_end_object(w);
}

static void text_format(struct json_writer *w, const char *type, const char *key,
                        struct bytes text) {
    begin_format(w, type);
    json_key(w, key);
    json_string_bytes(w, text);
    json_end_object(w);
}

/* Objects have the properties alone that their schema lists, where it says nothing of others. */
static void schema_format(struct json_writer *w, struct bytes schema) {
    begin_format(w, "json_schema");
    json_key(w, "json_schema");
    json_raw(w, schema);
    json_key(w, "closed");
    json_bool(w, true);
    json_end_object(w);
}

/* Text of a mark without control tokens; a number or an id where it has their place. */
static void plain_formats(struct json_writer *w, struct bytes text) {
    size_t at = 0;
    for (size_t i = 0; i <= text.len; i++) {
        bool number = i < text.len && text.data[i] == SHAPE_NUMBER[0],
             id = i < text.len && text.data[i] == SHAPE_ID[0];
        if (i < text.len && !number && !id)
            continue;
        if (i > at)
            text_format(w, "const_string", "value", bytes_of(text.data + at, i - at));
        if (number || id)
            text_format(w, "regex", "pattern",
                        bytes_str(number ? "0|[1-9][0-9]{0,2}" : "[0-9A-Za-z]{9}"));
        at = i + 1;
    }
}

/* A mark, piece by piece: the control tokens in it, and what stands between them. */
static void mark_formats(struct json_writer *w, const struct tokenizer *t, const char *mark) {
    struct special_walk walk = {.text = bytes_str(mark)};
    size_t at = 0, begin, end;
    while (tokenizer_next_special(t, &walk, &begin, &end)) {
        plain_formats(w, bytes_of(walk.text.data + at, begin - at));
        text_format(w, "token", "value", bytes_of(walk.text.data + begin, end - begin));
        at = end;
    }
    plain_formats(w, bytes_of(walk.text.data + at, walk.text.len - at));
}

static void white_space(struct json_writer *w) {
    text_format(w, "regex", "pattern", bytes_str("[ \\t\\r\\n]{0,4}"));
}

/* Free text and the mark behind it. */
static void until_formats(struct json_writer *w, const struct tokenizer *t, const char *mark) {
    struct special_walk walk = {.text = bytes_str(mark)};
    size_t begin, end;
    if (!tokenizer_next_special(t, &walk, &begin, &end)) {
        text_format(w, "until", "value", walk.text);
        return;
    }
    begin_format(w, "any_text"); /* no text has a control token */
    json_end_object(w);
    mark_formats(w, t, mark);
}

/* ---- reasoning ---- */

/* What the model thinks is free; the constraint begins behind it. */
static void reasoning_formats(struct json_writer *w, const struct constraint_model *m) {
    struct reasoning_marks marks = reasoning_format_marks(m->reasoning);
    if (!m->reasoning)
        return;
    if (m->in_reasoning) {
        until_formats(w, m->tokenizer, marks.close);
        white_space(w);
    } else {
        begin_format(w, "optional");
        json_key(w, "content");
        begin_list(w, "sequence");
        mark_formats(w, m->tokenizer, marks.open);
        until_formats(w, m->tokenizer, marks.close);
        white_space(w);
        end_list(w);
        json_end_object(w);
    }
}

/* ---- tools ---- */

enum { TOOLS_MAX = 128 };

struct tool {
    struct bytes name, parameters; /* in `names`; raw JSON in the request, empty: any object */
    bool strict;
};
struct tools {
    struct tool items[TOOLS_MAX];
    size_t count;
    bool strict_only; /* JSON of the others' arguments is any object */
    struct arena names;
};

static int tools_fail(struct api_error *err, const char *text, size_t idx) {
    return api_error_set(err, API_BAD_REQUEST, "tools", "tools[%zu]%s", idx, text);
}

static bool name_is_plain(struct bytes name) {
    for (size_t i = 0; i < name.len; i++)
        if (name.data[i] < 0x20 || name.data[i] == '"' || name.data[i] == '\\')
            return false;
    return name.len > 0 && name.len <= 256;
}

/* The object behind "function". */
static bool read_function(struct json_reader *r, struct tool *tool, struct arena *names) {
    if (json_next(r) != JSON_OBJECT_BEGIN)
        return false;
    for (enum json_event e; (e = json_next(r)) == JSON_KEY;) {
        bool is_name = bytes_equal(r->text, bytes_str("name")),
             is_parameters = bytes_equal(r->text, bytes_str("parameters")),
             is_strict = bytes_equal(r->text, bytes_str("strict"));
        e = json_next(r);
        if (is_strict)
            tool->strict = e == JSON_TRUE;
        if (is_name && e == JSON_STRING)
            tool->name = bytes_of(arena_copy(names, r->text.data, r->text.len), r->text.len);
        if (!json_take(r, is_parameters && e != JSON_NULL ? &tool->parameters : NULL))
            return false;
    }
    return tool->name.data && name_is_plain(tool->name);
}

static int read_tools(const struct genreq *g, struct tools *tools, struct api_error *err) {
    struct json_reader r;
    int rc = 0;
    json_reader_init(&r, g->tools, GENREQ_DEPTH_MAX, 0);
    (void)json_next(&r);
    while (rc == 0 && json_next(&r) == JSON_OBJECT_BEGIN) {
        struct tool tool = {0};
        bool found = false;
        for (enum json_event e; rc == 0 && (e = json_next(&r)) == JSON_KEY;) {
            bool is_function = bytes_equal(r.text, bytes_str("function"));
            if (is_function)
                found = read_function(&r, &tool, &tools->names);
            else if (!json_skip(&r))
                rc = tools_fail(err, " is not well formed", tools->count);
            if (is_function && !found)
                break;
        }
        if (rc == 0 && !found)
            rc = tools_fail(err, ".function needs a 'name' without quotes", tools->count);
        else if (rc == 0 && tools->count == TOOLS_MAX)
            rc = api_error_set(err, API_BAD_REQUEST, "tools",
                               "more than %d tools cannot be held in one constraint", TOOLS_MAX);
        else if (rc == 0)
            tools->items[tools->count++] = tool;
    }
    json_reader_release(&r);
    return rc;
}

/* A mark as a member that is a part. */
static void mark_member(struct json_writer *w, const struct tokenizer *t, const char *key,
                        const char *mark) {
    if (!mark)
        return;
    json_key(w, key);
    begin_list(w, "sequence");
    mark_formats(w, t, mark);
    end_list(w);
}

static void argument_format(struct json_writer *w, const struct tokenizer *t,
                            const struct argument_shape *a, struct bytes schema) {
    const struct {
        const char *key, *mark;
    } marks[] = {
        {"before", a->before},       {"middle", a->middle}, {"text_middle", a->text_middle},
        {"type_end", a->type_end},   {"after", a->after},   {"after_end", a->after_end},
        {"separator", a->separator}, {"quote", a->quote}};
    const struct {
        const char *key;
        bool set;
    } flags[] = {{"nested", a->nested},
                 {"python", a->python},
                 {"trusts_types", a->trusts_types},
                 {"trims", a->trims}};
    begin_format(w, "arguments");
    json_key(w, "json_schema");
    json_raw(w, schema);
    for (size_t i = 0; i < ARRAY_LEN(marks); i++)
        mark_member(w, t, marks[i].key, marks[i].mark);
    json_key(w, "stops");
    json_begin_array(w);
    for (size_t i = 0; i < ARRAY_LEN(a->stops) && a->stops[i]; i++)
        json_string(w, a->stops[i]);
    json_end_array(w);
    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        json_key(w, flags[i].key);
        json_bool(w, flags[i].set);
    }
    json_end_object(w);
}

/* strict_only: see struct tools. */
static void call_formats(struct json_writer *w, const struct constraint_model *m,
                         const struct call_shape *shape, const struct tool *tool,
                         bool strict_only) {
    bool any = !tool->parameters.len || (!tool->strict && !shape->arguments && strict_only);
    struct bytes schema = any ? bytes_str("{\"type\":\"object\"}") : tool->parameters;
    begin_list(w, "sequence");
    text_format(w, "const_string", "value", tool->name);
    mark_formats(w, m->tokenizer, shape->between);
    if (shape->arguments)
        argument_format(w, m->tokenizer, shape->arguments, schema);
    else
        schema_format(w, schema);
    mark_formats(w, m->tokenizer, shape->after);
    end_list(w);
}

/* One call of one of the tools, which `name` may say; `before` stands in front. */
static void one_call(struct json_writer *w, const struct constraint_model *m,
                     const struct call_shape *shape, const char *before, const struct tools *tools,
                     struct bytes name) {
    begin_list(w, "sequence");
    mark_formats(w, m->tokenizer, before);
    begin_list(w, "or");
    for (size_t i = 0; i < tools->count; i++)
        if (!name.len || bytes_equal(tools->items[i].name, name))
            call_formats(w, m, shape, &tools->items[i], tools->strict_only);
    end_list(w);
    end_list(w);
}

/* Without the first `skip` bytes, which lie in `begin` or, where that is empty, in `before`. */
static void write_calls(struct json_writer *w, const struct genreq *g,
                        const struct constraint_model *m, const struct call_shape *shape,
                        const struct tools *tools, size_t skip) {
    bool several = shape->separator && g->parallel_tool_calls && !g->tool_choice_name.len;
    const char *plain, *open = call_format_open_mark(m->calls, &plain);
    /* What the prompt has opened stands there already. */
    size_t opened = m->in_call && !strncmp(shape->before, open, strlen(open)) ? strlen(open) : 0;
    if (skip && !*shape->begin)
        opened = skip;
    begin_list(w, "sequence");
    mark_formats(w, m->tokenizer, shape->begin + (*shape->begin ? skip : 0));
    one_call(w, m, shape, shape->before + opened, tools, g->tool_choice_name);
    if (several) {
        begin_format(w, "star");
        json_key(w, "content");
        begin_list(w, "sequence");
        mark_formats(w, m->tokenizer, shape->separator);
        one_call(w, m, shape, shape->before, tools, g->tool_choice_name);
        end_list(w);
        json_end_object(w);
    }
    mark_formats(w, m->tokenizer, shape->end);
    end_list(w);
}

static bool is_tool(const struct tools *tools, struct bytes name) {
    for (size_t i = 0; i < tools->count; i++)
        if (bytes_equal(tools->items[i].name, name))
            return true;
    return false;
}

static int check_tools(const struct genreq *g, const struct constraint_model *m,
                       const struct tools *tools, const char *field, struct api_error *err) {
    if (!m->calls)
        return api_error_set(err, API_UNSUPPORTED, field,
                             "'%s': how this model writes tool calls is not known; see "
                             "--tool-call-parser",
                             field);
    if (tools->count == 0)
        return api_error_set(err, API_BAD_REQUEST, field, "'%s' needs 'tools'", field);
    if (g->tool_choice_name.len && !is_tool(tools, g->tool_choice_name))
        return api_error_set(err, API_BAD_REQUEST, field, "'%s' names no function of '%s'", field,
                             g->bare_calls ? "functions" : "tools");
    return 0;
}

/* The marks of a row's calls, as texts: no text has a control token. */
struct text_marks {
    const char *texts[CALL_MARKS_MAX];
    size_t count;
    bool brackets;    /* a bare bracket opens calls, at the beginning of an answer alone */
    struct buf first; /* owned: a pattern of what text begins with, then */
};

static void text_marks_init(struct text_marks *t, const struct constraint_model *m) {
    struct call_mark marks[CALL_MARKS_MAX];
    size_t count = call_format_marks(m->calls, marks), begin, end;
    *t = (struct text_marks){0};
    buf_add_str(&t->first, "\\s*[^\\s");
    for (size_t i = 0; i < count; i++) {
        struct special_walk walk = {.text = bytes_str(marks[i].text)};
        t->brackets |= marks[i].start_only;
        buf_addf(&t->first, "\\x%02x", marks[i].text[0] & 0x7f);
        if (!marks[i].start_only && !tokenizer_next_special(m->tokenizer, &walk, &begin, &end))
            t->texts[t->count++] = marks[i].text;
    }
    buf_add_byte(&t->first, ']');
}

static void excludes_member(struct json_writer *w, const struct text_marks *t, const char *but) {
    json_key(w, "excludes");
    json_begin_array(w);
    for (size_t i = 0; i < t->count; i++)
        if (t->texts[i] != but)
            json_string(w, t->texts[i]);
    json_end_array(w);
}

/* Free text in which no call begins. */
static void free_text(struct json_writer *w, const struct text_marks *t) {
    if (t->brackets) {
        begin_format(w, "optional");
        json_key(w, "content");
        begin_list(w, "sequence");
        text_format(w, "regex", "pattern", buf_bytes(&t->first));
    }
    begin_format(w, "any_text");
    excludes_member(w, t, NULL);
    json_end_object(w);
    if (t->brackets) {
        end_list(w);
        json_end_object(w);
    }
}

/* Free text, and the mark with which a shape's calls begin; returns its length. */
static size_t free_text_and_mark(struct json_writer *w, const struct text_marks *t,
                                 const struct constraint_model *m, const struct call_shape *shape) {
    struct special_walk walk = {.text = bytes_str(*shape->begin ? shape->begin : shape->before)};
    const char *mark = NULL;
    size_t begin = 1, end;
    for (size_t i = 0; i < t->count; i++)
        if (!strncmp((const char *)walk.text.data, t->texts[i], strlen(t->texts[i])) &&
            (!mark || strlen(mark) < strlen(t->texts[i])))
            mark = t->texts[i];
    if (mark) {
        begin_format(w, "until");
        json_key(w, "value");
        json_string(w, mark);
        excludes_member(w, t, mark);
        json_end_object(w);
        return strlen(mark);
    }
    bool special = tokenizer_next_special(m->tokenizer, &walk, &begin, &end) && begin == 0;
    if (special) /* else they stand at the beginning alone */
        free_text(w, t);
    return 0;
}

/* tool_choice auto: free text, then perhaps calls. */
static void free_or_calls(struct json_writer *w, const struct genreq *g,
                          const struct constraint_model *m, const struct tools *tools,
                          const struct call_shape *const *shapes, size_t shape_count) {
    struct reasoning_marks marks = reasoning_format_marks(m->reasoning);
    const char *plain = "";
    bool framed = *marks.content_open || m->in_call; /* calls come in place of content */
    struct text_marks t;
    text_marks_init(&t, m);
    if (m->in_call)
        (void)call_format_open_mark(m->calls, &plain);
    begin_list(w, "sequence");
    mark_formats(w, m->tokenizer, plain);
    mark_formats(w, m->tokenizer, marks.content_open);
    free_text(w, &t);
    mark_formats(w, m->tokenizer, marks.content_close);
    end_list(w);
    for (size_t i = 0; i < shape_count; i++) {
        begin_list(w, "sequence");
        size_t skip = framed ? 0 : free_text_and_mark(w, &t, m, shapes[i]);
        write_calls(w, g, m, shapes[i], tools, skip);
        end_list(w);
    }
    buf_release(&t.first);
}

/* ---- all ---- */

static void choice_format(struct json_writer *w, struct bytes list) {
    struct json_reader r;
    json_reader_init(&r, list, GENREQ_DEPTH_MAX, 0);
    (void)json_next(&r);
    begin_format(w, "choice");
    json_key(w, "values");
    json_begin_array(w);
    while (json_next(&r) == JSON_STRING)
        json_string_bytes(w, r.text);
    end_list(w);
    json_reader_release(&r);
}

static void bare_content(struct json_writer *w, const struct genreq *g) {
    struct bytes text = g->constraint.text;
    switch (g->constraint.kind) {
    case CONSTRAINT_NONE: break;
    case CONSTRAINT_SCHEMA: schema_format(w, text); break;
    case CONSTRAINT_REGEX: text_format(w, "regex", "pattern", text); break;
    case CONSTRAINT_GRAMMAR: text_format(w, "grammar", "grammar", text); break;
    case CONSTRAINT_CHOICE: choice_format(w, text); break;
    case CONSTRAINT_STRUCTURE: json_raw(w, text); break;
    }
}

/* What was asked for, in the frame that the model's format has around content. */
static void content_part(struct json_writer *w, const struct genreq *g,
                         const struct constraint_model *m) {
    struct reasoning_marks marks = reasoning_format_marks(m->reasoning);
    const char *plain = "";
    if (g->constraint.kind == CONSTRAINT_NONE)
        return;
    if (m->in_call)
        (void)call_format_open_mark(m->calls, &plain);
    begin_list(w, "sequence");
    mark_formats(w, m->tokenizer, plain);
    mark_formats(w, m->tokenizer, marks.content_open);
    bare_content(w, g);
    mark_formats(w, m->tokenizer, marks.content_close);
    end_list(w);
}

/* Whether a tool says "strict": true; what is malformed is for read_tools to tell. */
static bool has_strict_tool(const struct genreq *g) {
    struct json_reader r, inner;
    struct bytes function, strict = {0};
    const struct json_wanted outer_member[] = {{"function", &function}},
                             member[] = {{"strict", &strict}};
    bool found = false;
    if (!g->tools.len || !memmem(g->tools.data, g->tools.len, "\"strict\"", 8))
        return false;
    json_reader_init(&r, g->tools, GENREQ_DEPTH_MAX, 0);
    (void)json_next(&r);
    while (!found && json_next(&r) == JSON_OBJECT_BEGIN) {
        function = bytes_of(NULL, 0);
        if (!json_take_members(&r, outer_member, 1))
            break;
        json_reader_init(&inner, function, GENREQ_DEPTH_MAX, 0);
        found = json_next(&inner) == JSON_OBJECT_BEGIN && json_take_members(&inner, member, 1) &&
                bytes_equal(strict, bytes_str("true"));
        json_reader_release(&inner);
    }
    json_reader_release(&r);
    return found;
}

static bool forces_call(const struct genreq *g) {
    return g->tool_choice_required || g->tool_choice_name.len;
}

static bool binds_all(const struct genreq *g) {
    return g->constraint.kind != CONSTRAINT_NONE || forces_call(g);
}

/* Calls that the model may make or not, and must make well. */
static bool frees_text(const struct genreq *g) {
    return !binds_all(g) && has_strict_tool(g);
}

bool constraint_is_wanted(const struct genreq *g) {
    return binds_all(g) || frees_text(g);
}

static int check_fields(const struct genreq *g, const struct constraint_model *m, const char *field,
                        struct api_error *err) {
    if (g->ignore_eos || g->min_tokens > 0)
        return api_error_set(err, API_BAD_REQUEST, g->ignore_eos ? "ignore_eos" : "min_tokens",
                             "'%s' cannot be had with '%s': the answer ends where it is complete",
                             g->ignore_eos ? "ignore_eos" : "min_tokens", field);
    if (tokenizer_eos(m->tokenizer).count == 0)
        return api_error_set(err, API_UNSUPPORTED, field,
                             "'%s': this model has no token that ends an answer", field);
    return 0;
}

int constraint_make(const struct genreq *g, const struct constraint_model *m, struct buf *out,
                    struct api_error *err) {
    bool forced = forces_call(g), may_call = forced || g->tools.len > 0, is_free = frees_text(g);
    const char *field = forced && g->bare_calls ? "function_call"
                        : forced                ? "tool_choice"
                        : is_free               ? "tools"
                                                : g->constraint.field;
    if (!binds_all(g) && (!is_free || !m->calls)) /* none, or no calls are read from the answer */
        return 0;
    if (check_fields(g, m, field, err))
        return -1;
    struct tools *tools = mem_calloc(1, sizeof *tools);
    tools->strict_only = is_free;
    const struct call_shape *shapes[CALL_SHAPES];
    size_t shape_count = call_format_shapes(m->calls, m->tokenizer, shapes);
    struct json_writer w;
    arena_init(&tools->names, 1 << 20, 0);
    int rc = may_call ? read_tools(g, tools, err) : 0;
    if (rc == 0 && may_call)
        rc = check_tools(g, m, tools, field, err);
    if (rc == 0) {
        json_writer_init(&w, out);
        begin_list(&w, "sequence");
        reasoning_formats(&w, m);
        begin_list(&w, "or");
        if (is_free)
            free_or_calls(&w, g, m, tools, shapes, shape_count);
        for (size_t i = 0; i < shape_count && may_call && !is_free; i++)
            write_calls(&w, g, m, shapes[i], tools, 0);
        if (!forced && !is_free)
            content_part(&w, g, m);
        end_list(&w);
        end_list(&w);
        rc = compile(g, m->cache, buf_bytes(out), field, err);
    }
    arena_release(&tools->names);
    mem_free(tools);
    return rc;
}
