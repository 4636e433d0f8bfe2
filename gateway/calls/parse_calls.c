/*
 * What a model wrote, taken apart as an answer's would be: /separate_reasoning and
 * /parse_function_call.
 *
 * Source: github.com/sgl-project/sglang, python/sglang/srt/entrypoints/http_server.py and io_struct.py
 * (SeparateReasoningReqInput, ParseFunctionCallReq).
 */
#include "formats/json.h"
#include "gateway/calls/text_calls_internal.h"
#include "text/parse/parse.h"

static int read_text(struct field_reader *r, enum json_event first) {
    text_request_of(r)->has_text = true;
    return field_string(r, first, SIZE_MAX, &text_request_of(r)->text);
}

static int read_parser(struct field_reader *r, enum json_event first) {
    return field_string(r, first, GENREQ_NAME_MAX, &text_request_of(r)->parser);
}

/* clang-format off */
static const struct field reasoning_rows[] = {
    STRING_FIELD("model", model, GENREQ_NAME_MAX),
    CUSTOM_FIELD("text", read_text),
    CUSTOM_FIELD("reasoning_parser", read_parser),
};
static const struct field function_call_rows[] = {
    STRING_FIELD("model", model, GENREQ_NAME_MAX),
    CUSTOM_FIELD("text", read_text),
    CUSTOM_FIELD("tool_call_parser", read_parser),
    ARRAY_FIELD("tools", tools),
};
/* clang-format on */
FIELD_SET_OF_ROWS(separate_reasoning, reasoning_rows);
FIELD_SET_OF_ROWS(parse_function_call, function_call_rows);

static int read(struct text_request *t, const struct field_set *set, struct bytes body,
                struct api_error *err) {
    if (field_read_request(&t->g, set, body, err))
        return -1;
    return t->has_text ? 0 : api_error_set(err, API_BAD_REQUEST, "text", "'text' is missing");
}

int read_reasoning(struct text_request *t, struct bytes body, struct api_error *err) {
    return read(t, &fields_separate_reasoning, body, err);
}

int read_function_calls(struct text_request *t, struct bytes body, struct api_error *err) {
    return read(t, &fields_parse_function_call, body, err);
}

/* ---- taken apart ---- */

struct taken_apart {
    struct buf texts[2]; /* by channel */
    struct buf calls;    /* JSON objects, but for their ends */
    uint32_t call_count;
    struct buf arguments; /* of the last call */
};

static void end_call(struct taken_apart *a) {
    if (!a->call_count)
        return;
    buf_add_str(&a->calls, ",\"parameters\":\"");
    buf_add_json(&a->calls, buf_bytes(&a->arguments));
    buf_add_str(&a->calls, "\"}");
    buf_reset(&a->arguments);
}

static void on_text(void *ctx, enum parse_channel channel, struct bytes text) {
    struct taken_apart *a = ctx;
    buf_add_bytes(&a->texts[channel], text);
}

static void on_call(void *ctx, const struct parse_call *call) {
    struct taken_apart *a = ctx;
    if (call->name.len) {
        end_call(a);
        buf_addf(&a->calls, "%s{\"tool_index\":%u,\"name\":\"", a->call_count ? "," : "",
                 call->index);
        buf_add_json(&a->calls, call->name);
        buf_add_str(&a->calls, "\"");
        a->call_count++;
    }
    buf_add_bytes(&a->arguments, call->arguments);
}

static void take_apart(const struct parse_config *config, struct bytes text,
                       struct taken_apart *a) {
    const struct parse_sink sink = {.text = on_text, .call = on_call, .ctx = a};
    struct parser *p = parser_new(config);
    parser_push(p, text, &sink);
    parser_end(p, &sink);
    parser_free(&p);
    end_call(a);
}

static void taken_apart_release(struct taken_apart *a) {
    buf_release(&a->texts[PARSE_REASONING]);
    buf_release(&a->texts[PARSE_CONTENT]);
    buf_release(&a->calls);
    buf_release(&a->arguments);
}

/* No format of this name, or none that the model's template shows. */
static int refuse_parser(const char *field, struct bytes name, struct api_error *err) {
    return name.len ? api_error_set(err, API_BAD_REQUEST, field,
                                    "'%s': no format is called '%.*s'; docs/parsers.md lists them",
                                    field, (int)MIN(name.len, (size_t)64), (const char *)name.data)
                    : api_error_set(err, API_BAD_REQUEST, field,
                                    "'%s' is needed: this model's own format is not known; "
                                    "docs/parsers.md lists those that are",
                                    field);
}

/* Many templates open the reasoning themselves, so that a text begins inside of it: it is closed and
 * was not opened. */
static bool begins_inside(const struct reasoning_format *f, struct bytes text) {
    struct reasoning_marks marks = reasoning_format_marks(f);
    size_t open_len = strlen(marks.open), close_len = strlen(marks.close);
    const uint8_t *close = close_len ? memmem(text.data, text.len, marks.close, close_len) : NULL;
    return close &&
           !(open_len && memmem(text.data, (size_t)(close - text.data), marks.open, open_len));
}

int separate_reasoning(const struct text_request *t, const struct served_model *m, struct buf *out,
                       struct api_error *err) {
    const struct reasoning_format *f = t->parser.len
                                           ? reasoning_format_find(t->parser)
                                           : chat_formats(m->text->chat, NULL, false).reasoning;
    struct taken_apart a = {0};
    if (!f)
        return refuse_parser("reasoning_parser", t->parser, err);
    take_apart(&(struct parse_config){.reasoning = f, .in_reasoning = begins_inside(f, t->text)},
               t->text, &a);
    buf_add_str(out, "{\"reasoning_text\":\"");
    buf_add_json(out, buf_bytes(&a.texts[PARSE_REASONING]));
    buf_add_str(out, "\",\"text\":\"");
    buf_add_json(out, buf_bytes(&a.texts[PARSE_CONTENT]));
    buf_add_str(out, "\"}");
    taken_apart_release(&a);
    return 0;
}

int parse_function_calls(const struct text_request *t, const struct served_model *m,
                         struct buf *out, struct api_error *err) {
    const struct call_format *f =
        t->parser.len ? call_format_find(t->parser) : chat_formats(m->text->chat, NULL, true).calls;
    struct parse_tools *tools = NULL;
    struct taken_apart a = {0};
    struct error tools_err;
    if (!f)
        return refuse_parser("tool_call_parser", t->parser, err);
    if (t->g.tools.len && parse_tools_new(t->g.tools, &tools, &tools_err))
        return api_error_set(err, API_BAD_REQUEST, "tools", "%s", tools_err.text);
    take_apart(&(struct parse_config){.calls = f, .tools = tools, .complete_calls = true}, t->text,
               &a);
    buf_add_str(out, "{\"normal_text\":\"");
    buf_add_json(out, buf_bytes(&a.texts[PARSE_CONTENT]));
    buf_add_str(out, "\",\"calls\":[");
    buf_add_bytes(out, buf_bytes(&a.calls));
    buf_add_str(out, "]}");
    taken_apart_release(&a);
    parse_tools_free(&tools);
    return 0;
}
