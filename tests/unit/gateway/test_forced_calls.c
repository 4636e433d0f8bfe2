/* Calls that a constraint forces, in the notation of each row of text/parse: whatever it lets
 * through is read back as calls of the tools, with arguments that their schemas accept. */
#include "gateway/prompts/constraint.h"

#include "check.h"
#include "grammar/grammar.h"
#include "text/tokenizer/open.h"

#include <stdio.h>
#include <stdlib.h>

static const char NESTED[] =
    "{\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\", \"minLength\": 1}, "
    "\"days\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 14}, "
    "\"unit\": {\"enum\": [\"C\", \"F\", \"größe\"]}, "
    "\"where\": {\"type\": \"object\", \"properties\": {\"lat\": {\"type\": \"number\"}, "
    "\"tags\": {\"type\": \"array\", \"items\": {\"type\": \"string\"}, \"maxItems\": 3}}, "
    "\"required\": [\"lat\"], \"additionalProperties\": false}, "
    "\"note\": {\"anyOf\": [{\"type\": \"string\"}, {\"type\": \"null\"}]}, "
    "\"level\": {\"$ref\": \"#/$defs/level\"}, \"spot\": {\"$ref\": \"#/$defs/spot\"}, "
    "\"hot\": {\"type\": \"boolean\"}, "
    "\"date\": {\"type\": \"string\", \"format\": \"date\"}, "
    "\"code\": {\"type\": \"string\", \"pattern\": \"^[<>/=\\\"a-z ]{1,12}$\"}}, "
    "\"required\": [\"city\", \"days\"], \"additionalProperties\": false, "
    "\"$defs\": {\"level\": {\"enum\": [\"low\", \"high\"], \"type\": \"string\"}, "
    "\"spot\": {\"type\": \"object\", \"properties\": {\"x\": {\"type\": \"integer\"}}, "
    "\"required\": [\"x\"], \"additionalProperties\": false}}}";
static const char EMPTY[] = "{\"type\": \"object\", \"properties\": {}}";
static const char LISTS[] =
    "{\"type\": \"object\", \"properties\": {\"ids\": {\"type\": \"array\", \"items\": "
    "{\"type\": \"integer\"}, \"minItems\": 1}, \"of\": {\"type\": [\"string\", \"integer\"]}}, "
    "\"required\": [\"of\"]}";

static const struct {
    const char *name, *parameters;
} FUNCTIONS[] = {{"get_weather", NESTED}, {"now", EMPTY}, {"lists", LISTS}};

struct world {
    struct tokenizer *tokenizer;
    struct constraint_cache *cache;
    struct buf tools_json;
    struct parse_tools *tools;
    struct program arguments[ARRAY_LEN(FUNCTIONS)]; /* what each function's arguments may be */
};

static bool compile(enum grammar_kind kind, struct bytes text, bool plain, struct program *out) {
    struct grammar_source source = {.kind = kind, .text = text, .ordered = plain, .plain = plain};
    struct error err;
    int rc = grammar_compile(&source, NULL, out, &err);
    if (rc)
        check_fail(__FILE__, __LINE__, "%s: %.*s", err.text, (int)text.len,
                   (const char *)text.data);
    return rc == 0;
}

static bool world_init(struct world *w) {
    char path[1024];
    struct error err;
    *w = (struct world){.cache = constraint_cache_new()};
    snprintf(path, sizeof path, "%s/demo/model", TRIREME_SOURCE_DIR);
    bool ok = !tokenizer_open(path, &w->tokenizer, &err);
    buf_add_byte(&w->tools_json, '[');
    for (size_t i = 0; i < ARRAY_LEN(FUNCTIONS); i++) {
        buf_addf(&w->tools_json,
                 "%s{\"type\": \"function\", \"function\": {\"name\": \"%s\", \"strict\": true, "
                 "\"parameters\": %s}}",
                 i ? "," : "", FUNCTIONS[i].name, FUNCTIONS[i].parameters);
        ok = ok && compile(GRAMMAR_JSON_SCHEMA, bytes_str(FUNCTIONS[i].parameters), false,
                           &w->arguments[i]);
    }
    buf_add_byte(&w->tools_json, ']');
    return ok && !parse_tools_new(buf_bytes(&w->tools_json), &w->tools, &err);
}

static void world_release(struct world *w) {
    for (size_t i = 0; i < ARRAY_LEN(FUNCTIONS); i++)
        program_release(&w->arguments[i]);
    parse_tools_free(&w->tools);
    constraint_cache_free(&w->cache);
    tokenizer_free(&w->tokenizer);
    buf_release(&w->tools_json);
}

/* ---- texts that the constraint lets through ---- */

static const char *const PIECES[] = {
    "where", "note", "level", "spot", "unit", "hot", "code", "ids",     "a",
    "B",     "7",    " ",     "<",    ">",    "\"",  "\\n",  "{",       ":",
    ",",     "é",    "日",    "😀",    "'",    "\n",  "0",    "1",       "-",
    "=",     "[",    ".",     "t",    "null", "5",   "x",    "\\u00e9", "\\ud83d\\ude00"};

static bool push(struct matcher *m, const char *text, struct buf *out) {
    if (!matcher_bytes(m, bytes_str(text)))
        return false;
    buf_add_str(out, text);
    return true;
}

/* Any byte that may come, beginning at a random one. */
static bool push_any(struct matcher *m, struct buf *out) {
    uint32_t first = (uint32_t)check_random();
    for (uint32_t i = 0; i < 256; i++) {
        char text[2] = {(char)(first + i), 0};
        if (text[0] && matcher_bytes(m, bytes_of(text, 1))) {
            buf_add_byte(out, text[0]);
            return true;
        }
    }
    return false;
}

/* What ends a value, a call or all of them in one of the row's ways; false: none may come. */
static bool push_ending(struct matcher *m, const struct call_shape *s, struct buf *out) {
    const char *const ends[] = {s->arguments ? s->arguments->after : "",
                                s->arguments ? s->arguments->quote : "",
                                "\"",
                                "}",
                                "]",
                                s->after,
                                s->end};
    for (size_t i = 0; i < ARRAY_LEN(ends); i++)
        if (ends[i] && *ends[i] && push(m, ends[i], out))
            return true;
    return false;
}

/* A text of the program that begins with *out; false: it may not, or does not end soon. */
static bool draw_behind(const struct program *p, const struct call_shape *const *shapes,
                        size_t count, struct buf *out) {
    struct grammar_run *run = grammar_run_new(p, NULL);
    struct matcher *m = matcher_new(run);
    bool ended = false, stuck = !matcher_bytes(m, buf_bytes(out));
    for (int step = 0; step < 2000 && !ended && !stuck; step++) {
        bool late = step > 300;
        const struct call_shape *shape = shapes[check_random() % count];
        if (matcher_may_end(m) && (late || check_random() % 3 == 0))
            ended = true;
        else if ((!late && check_random() % 8) || !push_ending(m, shape, out))
            stuck = !push(m, PIECES[check_random() % ARRAY_LEN(PIECES)], out) && !push_any(m, out);
    }
    ended |= matcher_may_end(m);
    matcher_free(&m);
    grammar_run_free(&run);
    return ended;
}

static bool draw(const struct program *p, const struct call_shape *const *shapes, size_t count,
                 struct buf *out) {
    buf_reset(out);
    return draw_behind(p, shapes, count, out);
}

/* ---- and what they are read as ---- */

struct heard {
    struct buf content, all;
    struct buf arguments; /* of the last call */
    uint32_t count;
    size_t function; /* of the last call */
    const struct world *world;
    bool wrong;
};

static bool accepts(const struct program *p, struct bytes text) {
    struct grammar_run *run = grammar_run_new(p, NULL);
    struct matcher *m = matcher_new(run);
    bool ok = matcher_bytes(m, text) && matcher_may_end(m);
    matcher_free(&m);
    grammar_run_free(&run);
    return ok;
}

static void end_call(struct heard *h) {
    if (h->count && !accepts(&h->world->arguments[h->function], buf_bytes(&h->arguments)))
        h->wrong = true;
}

static void on_text(void *ctx, enum parse_channel channel, struct bytes text) {
    struct heard *h = ctx;
    (void)channel;
    buf_add_bytes(&h->content, text);
}

static void on_call(void *ctx, const struct parse_call *c) {
    struct heard *h = ctx;
    if (c->name.len) {
        end_call(h);
        h->count++;
        h->function = 0;
        while (h->function < ARRAY_LEN(FUNCTIONS) &&
               !bytes_equal(c->name, bytes_str(FUNCTIONS[h->function].name)))
            h->function++;
        h->wrong |= h->function == ARRAY_LEN(FUNCTIONS);
        h->function %= ARRAY_LEN(FUNCTIONS);
        buf_addf(&h->all, "|%.*s|", (int)c->name.len, (const char *)c->name.data);
        buf_reset(&h->arguments);
    }
    buf_add_bytes(&h->all, c->arguments);
    buf_add_bytes(&h->arguments, c->arguments);
}

/* step 0: in one piece. */
static void hear(const struct parse_config *config, struct bytes text, size_t step,
                 struct heard *h) {
    struct parse_sink sink = {on_text, on_call, h};
    struct parser *p = parser_new(config);
    buf_reset(&h->content);
    buf_reset(&h->all);
    h->count = 0;
    h->wrong = false;
    for (size_t at = 0; at < text.len;) {
        size_t len = MIN(step ? step : text.len, text.len - at);
        parser_push(p, bytes_of(text.data + at, len), &sink);
        at += len;
    }
    parser_end(p, &sink);
    parser_free(&p);
    end_call(h);
}

static bool has_text(const struct buf *b) {
    for (size_t i = 0; i < b->len; i++)
        if (!strchr(" \n\t\r", b->data[i]))
            return true;
    return false;
}

/* Where content stands in a frame, calls come in place of it, not behind it. */
static const struct reasoning_format *reasoning_of(const struct call_format *format) {
    bool harmony = format == call_format_find(bytes_str("harmony"));
    return harmony ? reasoning_format_find(bytes_str("harmony")) : NULL;
}

/* The constraint of a request that must call, or (tool_choice "auto") may; false: it was refused. */
static bool force(const struct world *w, const struct call_format *format, bool opened, bool must,
                  const char *name, struct program *out) {
    struct genreq g = {.tools = buf_bytes(&w->tools_json),
                       .tool_choice_required = must,
                       .parallel_tool_calls = true,
                       .tool_choice_name = bytes_str(name)};
    struct constraint_model model = {.tokenizer = w->tokenizer,
                                     .cache = w->cache,
                                     .reasoning = must ? NULL : reasoning_of(format),
                                     .calls = format,
                                     .in_call = opened};
    struct api_error err = {0};
    struct buf text = {0};
    bool ok = !constraint_make(&g, &model, &text, &err);
    if (!ok)
        check_fail(__FILE__, __LINE__, "%s: %s", call_format_name(format), err.text);
    ok = ok && compile(GRAMMAR_STRUCTURE, buf_bytes(&text), true, out);
    buf_release(&text);
    return ok;
}

/* Whether an answer of this row is one call. */
static bool is_called_alone(const struct call_format *format) {
    static const char *const ALONE[] = {"harmony", "llama3_json", "llama4_json", "gigachat3"};
    for (size_t i = 0; i < ARRAY_LEN(ALONE); i++)
        if (!strcmp(call_format_name(format), ALONE[i]))
            return true;
    return false;
}

/* `count` calls of one row; up to twenty times as many where chance has put none side by side. */
static void run_row(const struct world *w, const struct call_format *format, unsigned count) {
    struct heard whole = {.world = w}, cut = {.world = w};
    struct buf text = {0};
    unsigned calls = 0, parallel = 0, endless = 0;
    bool opened = call_format_frames_content(format);
    const struct call_shape *shapes[CALL_SHAPES];
    size_t shape_count = call_format_shapes(format, w->tokenizer, shapes);
    struct program any, one;
    if (!force(w, format, opened, true, "", &any))
        return;
    if (!force(w, format, false, true, "lists", &one)) {
        program_release(&any);
        return;
    }
    const bool alone = is_called_alone(format);
    for (bool ok = true; ok && (calls < count || (!alone && !parallel && calls < 20 * count));) {
        bool named = check_random() % 8 == 0;
        struct parse_config config = {.calls = format,
                                      .tools = w->tools,
                                      .in_call = opened && !named,
                                      .complete_calls = true};
        if (!draw(named ? &one : &any, shapes, shape_count, &text)) {
            ok = ++endless < 20 + count / 4;
            if (!ok)
                check_fail(__FILE__, __LINE__, "%s: no end of %s", call_format_name(format),
                           buf_text(&text));
            continue;
        }
        hear(&config, buf_bytes(&text), 0, &whole);
        ok = whole.count && !whole.wrong && !has_text(&whole.content) &&
             (!named || (whole.count == 1 && whole.function == 2));
        config.complete_calls = false;
        for (size_t step = 0; step < 6 && ok; step++) {
            hear(&config, buf_bytes(&text), step, &cut);
            ok = !strcmp(buf_text(&cut.all), buf_text(&whole.all)) && !has_text(&cut.content);
        }
        if (!ok)
            check_fail(__FILE__, __LINE__, "%s:\n%s\nis read as %s\nand cut as %s\ncontent: %s",
                       call_format_name(format), buf_text(&text), buf_text(&whole.all),
                       buf_text(&cut.all), buf_text(&whole.content));
        calls += whole.count;
        parallel += whole.count > 1;
    }
    if (!alone && !parallel && calls >= 60)
        check_fail(__FILE__, __LINE__, "%s: no calls side by side", call_format_name(format));
    program_release(&any);
    program_release(&one);
    buf_release(&text);
    struct buf *bufs[] = {&whole.content, &whole.all, &whole.arguments,
                          &cut.content,   &cut.all,   &cut.arguments};
    for (size_t i = 0; i < ARRAY_LEN(bufs); i++)
        buf_release(bufs[i]);
}

/* `run` for each row that text/parse has. */
static void for_each_row(void (*run)(const struct world *w, const struct call_format *format,
                                     unsigned count),
                         unsigned count) {
    struct world w;
    struct buf names = {0};
    EXPECT(world_init(&w));
    call_format_names(&names);
    unsigned rows = 0;
    for (char *save, *name = strtok_r(names.data, ", ", &save); name;
         name = strtok_r(NULL, ", ", &save), rows++)
        run(&w, call_format_find(bytes_str(name)), count);
    EXPECT(rows > 40);
    buf_release(&names);
    world_release(&w);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { ROW_CALLS = 60 };
#else
enum { ROW_CALLS = 200 };
#endif

TEST(forced_calls_of_every_row_are_read_back) {
    const char *asked = getenv("TRIREME_FORCED_CALLS");
    for_each_row(run_row, asked ? (unsigned)atoi(asked) : ROW_CALLS);
}

/* Where arguments are Python's, so are the words of values, beside those of JSON. */
TEST(forced_calls_in_python_may_have_its_words) {
    static const char *const ROWS[] = {"pythonic", "lfm2", "llama4_pythonic", "olmo3"};
    static const struct {
        const char *arguments;
        bool is_taken;
    } CALLS[] = {
        {"city=\"a\", days=2, hot=True", true},  {"city=\"a\", days=2, hot=False", true},
        {"city=\"a\", days=2, hot=true", true},  {"city=\"a\", days=2, note=None", true},
        {"city=\"a\", days=2, hot=TRUE", false}, {"city=\"a\", days=2, hot=None", false},
    };
    struct world w;
    struct buf text = {0};
    EXPECT(world_init(&w));
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        const struct call_format *format = call_format_find(bytes_str(ROWS[i]));
        const struct call_shape *shapes[CALL_SHAPES];
        struct program p;
        EXPECT(format && call_format_shapes(format, w.tokenizer, shapes) > 0);
        EXPECT(force(&w, format, false, true, "", &p));
        for (size_t k = 0; k < ARRAY_LEN(CALLS); k++) {
            const struct call_shape *shape = shapes[0];
            buf_reset(&text);
            buf_addf(&text, "%s%sget_weather%s%s%s%s", shape->begin, shape->before, shape->between,
                     CALLS[k].arguments, shape->after, shape->end);
            if (accepts(&p, buf_bytes(&text)) != CALLS[k].is_taken)
                check_fail(__FILE__, __LINE__, "%s: %s", ROWS[i], buf_text(&text));
        }
        program_release(&p);
    }
    buf_release(&text);
    world_release(&w);
}

/* ---- tool_choice "auto" and strict tools ---- */

/* Free text, then a call that has begun: it goes on as a call of a tool, read back as one. */
static void run_free_row(const struct world *w, const struct call_format *format, unsigned count) {
    static const char *const TEXTS[] = {"", "Let me see: 5 < 7, so.\n", "Hm. "};
    const struct call_shape *shapes[CALL_SHAPES];
    size_t shape_count = call_format_shapes(format, w->tokenizer, shapes);
    struct call_mark marks[CALL_MARKS_MAX];
    size_t mark_count = call_format_marks(format, marks);
    bool framed = reasoning_of(format), at_start = framed;
    struct parse_config config = {.reasoning = reasoning_of(format),
                                  .calls = format,
                                  .tools = w->tools,
                                  .complete_calls = true};
    const char *plain =
        framed ? "<|channel|>final<|message|>It is warm today." : "It is warm today.";
    struct heard heard = {.world = w};
    struct buf text = {0};
    struct program p;
    unsigned made = 0, endless = 0;
    if (!force(w, format, false, false, "", &p))
        return;
    for (size_t i = 0; i < mark_count; i++)
        at_start |=
            marks[i].start_only &&
            marks[i].text[0] == (*shapes[0]->begin ? shapes[0]->begin : shapes[0]->before)[0];
    if (!accepts(&p, bytes_str(plain)) || (!framed && !accepts(&p, bytes_str(""))))
        check_fail(__FILE__, __LINE__, "%s: no text without a call", call_format_name(format));
    while (made < count && endless < 20 + count) {
        const struct call_shape *shape = shapes[check_random() % shape_count];
        bool calls = check_random() % 4 != 0;
        buf_reset(&text);
        if (!framed && (!calls || !at_start))
            buf_add_str(&text, TEXTS[check_random() % ARRAY_LEN(TEXTS)]);
        size_t prose = text.len;
        if (calls)
            buf_addf(&text, "%s%.*s", shape->begin,
                     (int)strcspn(shape->before, SHAPE_ID SHAPE_NUMBER), shape->before);
        if (!draw_behind(&p, shapes, shape_count, &text)) {
            endless++;
            continue;
        }
        made++;
        hear(&config, buf_bytes(&text), 0, &heard);
        if (heard.wrong || (calls && !heard.count) ||
            (calls && has_text(&heard.content) != (prose > 0)))
            check_fail(__FILE__, __LINE__, "%s:\n%s\nis read as %s\ncontent: %s",
                       call_format_name(format), buf_text(&text), buf_text(&heard.all),
                       buf_text(&heard.content));
    }
    if (made < count)
        check_fail(__FILE__, __LINE__, "%s: no end of %s", call_format_name(format),
                   buf_text(&text));
    program_release(&p);
    struct buf *bufs[] = {&heard.content, &heard.all, &heard.arguments, &text};
    for (size_t i = 0; i < ARRAY_LEN(bufs); i++)
        buf_release(bufs[i]);
}

TEST(strict_calls_that_a_model_may_make_are_made_well) {
    for_each_row(run_free_row, 20);
}
