/*
 * fuzz_parse.c - what a model may write, through every output parser: cut anywhere it gives the
 * same; calls have a name, and complete ones JSON arguments.
 */
// see: text formats base
#include "formats/json.h"
#include "fuzz.h"
#include "text/parse/internal.h"

struct seen {
    struct buf reasoning, content, calls;
    uint32_t count;
    bool complete;
};

static void on_text(void *ctx, enum parse_channel part, struct bytes text) {
    struct seen *s = ctx;
    CHECK(text.len > 0);
    buf_add_bytes(part == PARSE_REASONING ? &s->reasoning : &s->content, text);
}

static void on_call(void *ctx, const struct parse_call *c) {
    struct seen *s = ctx;
    if (c->name.len) {
        CHECK(c->index == s->count++);
        buf_addf(&s->calls, "\n%u\n", c->index);
        buf_add_bytes(&s->calls, c->id);
        buf_add_bytes(&s->calls, c->name);
    }
    CHECK(c->index + 1 == s->count);
    CHECK(s->complete ? c->name.len && json_is_object(c->arguments)
                      : c->name.len || c->arguments.len);
    buf_add_bytes(&s->calls, c->arguments);
}

static void parse(const struct parse_config *config, struct bytes text, size_t step,
                  struct seen *s) {
    const struct parse_sink sink = {on_text, on_call, s};
    s->complete = config->complete_calls;
    struct parser *p = parser_new(config);
    for (size_t at = 0; at < text.len; at += step)
        parser_push(p, bytes_of(text.data + at, MIN(step, text.len - at)), &sink);
    parser_end(p, &sink);
    parser_free(&p);
}

static void release(struct seen *s) {
    buf_release(&s->reasoning);
    buf_release(&s->content);
    buf_release(&s->calls);
}

/* The first two bytes choose the formats, the third says what is known and how to cut. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char TOOLS[] =
        "[{\"function\": {\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": {\"type\": "
        "\"integer\"}}}}}]";
    struct seen whole = {0}, cut = {0};
    struct parse_tools *tools;
    if (size < 3)
        return 0;
    CHECK(!parse_tools_new(bytes_str(TOOLS), &tools, NULL));
    struct parse_config config = {.reasoning = &reasoning_formats[data[0] % reasoning_format_count],
                                  .calls = &call_formats[data[1] % call_format_count],
                                  .tools = data[2] & 2 ? tools : NULL,
                                  .in_reasoning = data[2] & 1,
                                  .complete_calls = data[2] & 4};
    struct bytes text = bytes_of(data + 3, size - 3);
    parse(&config, text, size, &whole);
    parse(&config, text, 1u + (data[2] >> 3), &cut);
    CHECK(bytes_equal(buf_bytes(&whole.reasoning), buf_bytes(&cut.reasoning)));
    CHECK(bytes_equal(buf_bytes(&whole.content), buf_bytes(&cut.content)));
    CHECK(bytes_equal(buf_bytes(&whole.calls), buf_bytes(&cut.calls)));
    release(&whole);
    release(&cut);
    parse_tools_free(&tools);
    return 0;
}
