#include "gateway/constraint.h"

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

/* ---- parts ---- */

static void begin_part(struct json_writer *w, const char *type) {
    json_begin_object(w);
    json_key(w, "type");
    json_string(w, type);
}

static void begin_list(struct json_writer *w, const char *type) {
    begin_part(w, type);
    json_key(w, "elements");
    json_begin_array(w);
}

static void end_list(struct json_writer *w) {
    json_end_array(w);
    json_end_object(w);
}

static void text_part(struct json_writer *w, const char *type, const char *key, struct bytes text) {
    begin_part(w, type);
    json_key(w, key);
    json_string_bytes(w, text);
    json_end_object(w);
}

static void schema_part(struct json_writer *w, struct bytes schema) {
    begin_part(w, "json_schema");
    json_key(w, "json_schema");
    json_raw(w, schema);
    json_end_object(w);
}

/* A mark, piece by piece: the control tokens in it, and what stands between them. */
static void mark_parts(struct json_writer *w, const struct tokenizer *t, const char *mark) {
    struct special_walk walk = {.text = bytes_str(mark)};
    size_t at = 0, begin, end;
    while (tokenizer_next_special(t, &walk, &begin, &end)) {
        if (begin > at)
            text_part(w, "const_string", "value", bytes_of(walk.text.data + at, begin - at));
        text_part(w, "token", "value", bytes_of(walk.text.data + begin, end - begin));
        at = end;
    }
    if (at < walk.text.len)
        text_part(w, "const_string", "value", bytes_of(walk.text.data + at, walk.text.len - at));
}

static void white_space(struct json_writer *w) {
    text_part(w, "regex", "pattern", bytes_str("[ \\t\\r\\n]{0,4}"));
}

/* Free text and the mark behind it. */
static void until_parts(struct json_writer *w, const struct tokenizer *t, const char *mark) {
    struct special_walk walk = {.text = bytes_str(mark)};
    size_t begin, end;
    if (!tokenizer_next_special(t, &walk, &begin, &end)) {
        text_part(w, "until", "value", walk.text);
        return;
    }
    begin_part(w, "any_text"); /* no text has a control token */
    json_end_object(w);
    mark_parts(w, t, mark);
}

/* ---- reasoning ---- */

/* What the model thinks is free; the constraint begins behind it. */
static void reasoning_parts(struct json_writer *w, const struct constraint_model *m) {
    struct reasoning_marks marks;
    if (!reasoning_format_marks(m->reasoning, &marks))
        return;
    if (m->in_reasoning) {
        until_parts(w, m->tokenizer, marks.close);
        white_space(w);
    } else {
        begin_part(w, "optional");
        json_key(w, "content");
        begin_list(w, "sequence");
        mark_parts(w, m->tokenizer, marks.open);
        until_parts(w, m->tokenizer, marks.close);
        white_space(w);
        end_list(w);
        json_end_object(w);
    }
}

/* ---- tools ---- */

enum { TOOLS_MAX = 128 };

struct tool {
    struct bytes name, parameters; /* in `texts`; raw JSON in the request, empty: any object */
};
struct tools {
    struct tool items[TOOLS_MAX];
    size_t count;
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
             is_parameters = bytes_equal(r->text, bytes_str("parameters"));
        e = json_next(r);
        size_t from = r->offset;
        if (is_name && e == JSON_STRING)
            tool->name = bytes_of(arena_copy(names, r->text.data, r->text.len), r->text.len);
        bool nested = e == JSON_OBJECT_BEGIN || e == JSON_ARRAY_BEGIN, is_null = e == JSON_NULL;
        if (nested && !json_skip(r))
            return false;
        if (is_parameters && !is_null)
            tool->parameters = bytes_of(r->start + from, r->offset + r->raw.len - from);
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

static void call_parts(struct json_writer *w, const struct constraint_model *m,
                       const struct call_shape *shape, const struct tool *tool) {
    begin_list(w, "sequence");
    text_part(w, "const_string", "value", tool->name);
    mark_parts(w, m->tokenizer, shape->between);
    schema_part(w, tool->parameters.len ? tool->parameters : bytes_str("{\"type\":\"object\"}"));
    mark_parts(w, m->tokenizer, shape->after);
    end_list(w);
}

/* One call of one of the tools, which `name` may say. */
static void one_call(struct json_writer *w, const struct constraint_model *m,
                     const struct call_shape *shape, const struct tools *tools, struct bytes name) {
    begin_list(w, "sequence");
    mark_parts(w, m->tokenizer, shape->before);
    begin_list(w, "or");
    for (size_t i = 0; i < tools->count; i++)
        if (!name.len || bytes_equal(tools->items[i].name, name))
            call_parts(w, m, shape, &tools->items[i]);
    end_list(w);
    end_list(w);
}

static void write_calls(struct json_writer *w, const struct genreq *g,
                        const struct constraint_model *m, const struct call_shape *shape,
                        const struct tools *tools) {
    bool several = shape->separator && g->parallel_tool_calls && !g->tool_choice_name.len;
    begin_list(w, "sequence");
    mark_parts(w, m->tokenizer, shape->begin);
    one_call(w, m, shape, tools, g->tool_choice_name);
    if (several) {
        begin_part(w, "star");
        json_key(w, "content");
        begin_list(w, "sequence");
        mark_parts(w, m->tokenizer, shape->separator);
        one_call(w, m, shape, tools, g->tool_choice_name);
        end_list(w);
        json_end_object(w);
    }
    mark_parts(w, m->tokenizer, shape->end);
    end_list(w);
}

static bool is_tool(const struct tools *tools, struct bytes name) {
    for (size_t i = 0; i < tools->count; i++)
        if (bytes_equal(tools->items[i].name, name))
            return true;
    return false;
}

static int check_tools(const struct genreq *g, const struct constraint_model *m,
                       const struct call_shape *shape, const struct tools *tools, const char *field,
                       struct api_error *err) {
    if (!m->calls)
        return api_error_set(err, API_UNSUPPORTED, field,
                             "'%s': how this model writes tool calls is not known; see "
                             "--tool-call-parser",
                             field);
    if (!shape || m->in_call)
        return api_error_set(err, API_UNSUPPORTED, field,
                             "'%s': tool calls in the format '%s' cannot be constrained yet", field,
                             call_format_name(m->calls));
    if (tools->count == 0)
        return api_error_set(err, API_BAD_REQUEST, field, "'%s' needs 'tools'", field);
    if (g->tool_choice_name.len && !is_tool(tools, g->tool_choice_name))
        return api_error_set(err, API_BAD_REQUEST, "tool_choice",
                             "'tool_choice' names no function of 'tools'");
    return 0;
}

/* ---- all ---- */

static void choice_part(struct json_writer *w, struct bytes list) {
    struct json_reader r;
    json_reader_init(&r, list, GENREQ_DEPTH_MAX, 0);
    (void)json_next(&r);
    begin_part(w, "choice");
    json_key(w, "values");
    json_begin_array(w);
    while (json_next(&r) == JSON_STRING)
        json_string_bytes(w, r.text);
    end_list(w);
    json_reader_release(&r);
}

static void content_part(struct json_writer *w, const struct genreq *g) {
    struct bytes text = g->constraint.text;
    switch (g->constraint.kind) {
    case CONSTRAINT_NONE: break;
    case CONSTRAINT_SCHEMA: schema_part(w, text); break;
    case CONSTRAINT_REGEX: text_part(w, "regex", "pattern", text); break;
    case CONSTRAINT_GRAMMAR: text_part(w, "grammar", "grammar", text); break;
    case CONSTRAINT_CHOICE: choice_part(w, text); break;
    case CONSTRAINT_STRUCTURE: json_raw(w, text); break;
    }
}

bool constraint_is_wanted(const struct genreq *g) {
    return g->constraint.kind != CONSTRAINT_NONE || g->tool_choice_required ||
           g->tool_choice_name.len;
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
    if (m->reasoning && !reasoning_format_marks(m->reasoning, NULL))
        return api_error_set(err, API_UNSUPPORTED, field,
                             "'%s': answers in the format '%s' cannot be constrained yet", field,
                             reasoning_format_name(m->reasoning));
    return 0;
}

int constraint_make(const struct genreq *g, const struct constraint_model *m, struct buf *out,
                    struct api_error *err) {
    bool forced = g->tool_choice_required || g->tool_choice_name.len,
         may_call = forced || g->tools.len > 0;
    const char *field = forced ? "tool_choice" : g->constraint.field;
    if (!constraint_is_wanted(g))
        return 0;
    if (check_fields(g, m, field, err))
        return -1;
    struct tools *tools = mem_calloc(1, sizeof *tools);
    const struct call_shape *shape = call_format_shape(m->calls, m->tokenizer);
    struct json_writer w;
    arena_init(&tools->names, 1 << 20, 0);
    int rc = may_call ? read_tools(g, tools, err) : 0;
    if (rc == 0 && may_call)
        rc = check_tools(g, m, shape, tools, field, err);
    if (rc == 0) {
        json_writer_init(&w, out);
        begin_list(&w, "sequence");
        reasoning_parts(&w, m);
        begin_list(&w, "or");
        if (may_call)
            write_calls(&w, g, m, shape, tools);
        if (!forced)
            content_part(&w, g);
        end_list(&w);
        end_list(&w);
        rc = compile(g, m->cache, buf_bytes(out), field, err);
    }
    arena_release(&tools->names);
    mem_free(tools);
    return rc;
}
