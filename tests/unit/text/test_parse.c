/* Output parsers: what each format gives, and that it does not depend on how the text is cut. */
#include "text/parse/parse.h"

#include <stdio.h>

#include "check.h"
#include "formats/json.h"
#include "text/parse/internal.h"

static const char TOOLS[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"get_weather\", \"parameters\": "
    "{\"type\": \"object\", "
    "\"properties\": {\"city\": {\"type\": \"string\"}, \"days\": {\"type\": \"integer\"}, "
    "\"units\": {\"type\": "
    "[\"string\", \"null\"]}, \"where\": {\"type\": \"object\"}, \"hot\": {\"type\": \"boolean\"}, "
    "\"any\": "
    "{\"anyOf\": "
    "[{\"type\": \"integer\"}, {\"type\": \"string\"}]}, "
    "\"ref\": {\"$ref\": \"#/properties/list\"}, \"loop\": {\"$ref\": \"#/properties/loop\"}, "
    "\"list\": {\"type\": \"array\", "
    "\"items\": {\"properties\": "
    "{\"k\": {\"type\": \"integer\"}}}}}}}}, {\"type\": \"function\", \"function\": {\"name\": "
    "\"now\"}}]";

/* ---- what a parser put out, as one text: R(reasoning)C(content)T(id|name|arguments)... ---- */

struct answer {
    struct buf reasoning, content, calls, all;
    struct buf arguments; /* of the last call */
    uint32_t count, pieces;
    bool valid; /* the calls are as they are promised */
};

static void on_text(void *ctx, enum parse_channel part, struct bytes text) {
    struct answer *a = ctx;
    buf_add_bytes(part == PARSE_REASONING ? &a->reasoning : &a->content, text);
}

static void on_call(void *ctx, const struct parse_call *c) {
    struct answer *a = ctx;
    a->pieces++;
    a->valid &= c->name.len ? c->index == a->count
                            : c->index + 1 == a->count && c->arguments.len && !c->id.len;
    if (c->name.len) {
        if (a->count++)
            buf_add_byte(&a->calls, ')');
        buf_addf(&a->calls, "T(%u|%.*s|%.*s|", c->index, (int)c->id.len, (const char *)c->id.data,
                 (int)c->name.len, (const char *)c->name.data);
        buf_reset(&a->arguments);
    }
    buf_add_bytes(&a->calls, c->arguments);
    buf_add_bytes(&a->arguments, c->arguments);
}

/* A call that was promised to be complete is an object, and comes in one piece. */
static void check_complete(struct answer *a, const struct parse_config *config) {
    if (config->complete_calls && a->count)
        a->valid &= a->pieces == a->count && json_is_object(buf_bytes(&a->arguments));
}

static void answer_clear(struct answer *a) {
    buf_reset(&a->reasoning);
    buf_reset(&a->content);
    buf_reset(&a->calls);
    buf_reset(&a->all);
    buf_reset(&a->arguments);
    a->count = a->pieces = 0;
    a->valid = true;
}

static void answer_release(struct answer *a) {
    buf_release(&a->reasoning);
    buf_release(&a->content);
    buf_release(&a->calls);
    buf_release(&a->all);
    buf_release(&a->arguments);
}

static void join(struct answer *a) {
    if (a->reasoning.len)
        buf_addf(&a->all, "R(%.*s)", (int)a->reasoning.len, a->reasoning.data);
    if (a->content.len) {
        buf_add_str(&a->all, "C(");
        buf_add_bytes(&a->all, buf_bytes(&a->content));
        buf_add_str(&a->all, ")");
    }
    buf_add_bytes(&a->all, buf_bytes(&a->calls));
    if (a->count)
        buf_add_byte(&a->all, ')');
}

/* Parses text in pieces; next(ctx, at, len) says how long the piece at `at` is. */
static void parse(const struct parse_config *config, struct bytes text,
                  size_t (*next)(size_t at, size_t len, size_t arg), size_t arg, struct answer *a) {
    struct parse_sink sink = {on_text, on_call, a};
    struct parser *p = parser_new(config);
    answer_clear(a);
    for (size_t at = 0; at < text.len;) {
        size_t len = next(at, text.len, arg);
        len = MIN(len, text.len - at);
        parser_push(p, bytes_of(text.data + at, len), &sink);
        at += len;
    }
    parser_end(p, &sink);
    parser_free(&p);
    check_complete(a, config);
    join(a);
}

static size_t all_at_once(size_t at, size_t len, size_t arg) {
    (void)at, (void)arg;
    return len;
}
static size_t cut_once(size_t at, size_t len, size_t arg) {
    return at == 0 ? arg : len;
}
static size_t in_steps(size_t at, size_t len, size_t arg) {
    (void)at, (void)len;
    return arg;
}
static size_t at_random(size_t at, size_t len, size_t arg) {
    (void)at, (void)len;
    return 1 + check_random() % arg;
}

/* Every place to cut once, every step, and cuts at random give what the whole gives. */
static bool cuts_agree(const struct parse_config *config, struct bytes text, const char *whole,
                       struct answer *a) {
    bool same = true;
    for (size_t cut = 1; cut < text.len && same; cut++) {
        parse(config, text, cut_once, cut, a);
        same = !strcmp(buf_text(&a->all), whole);
    }
    for (size_t step = 1; step <= 7 && same; step++) {
        parse(config, text, in_steps, step, a);
        same = !strcmp(buf_text(&a->all), whole);
    }
    for (size_t i = 0; i < 8 && same; i++) {
        parse(config, text, at_random, 12, a);
        same = !strcmp(buf_text(&a->all), whole);
    }
    return same;
}

static struct parse_tools *tools(void) {
    struct parse_tools *t;
    struct error err;
    if (parse_tools_new(bytes_str(TOOLS), &t, &err))
        check_fail(__FILE__, __LINE__, "%s", err.text);
    return t;
}

/* ---- formats ---- */

struct parse_case {
    const char *reasoning, *calls;
    bool inside;
    const char *text, *expected;
};

#define W_ARGS  "{\"city\": \"Paris\", \"days\": 2}"
#define W_CALL  "{\"name\": \"get_weather\", \"arguments\": " W_ARGS "}"
#define W_IS(n) "T(" n "||get_weather|" W_ARGS ")"

#define M_ "]<]minimax[>["

static const struct parse_case cases[] = {
    /* reasoning */
    {"think", NULL, false, "Hello <think> there", "C(Hello <think> there)"},
    {"think", NULL, false, "<think>\nHm.\nYes.\n</think>\n\nHello\n", "R(Hm.\nYes.)C(Hello\n)"},
    {"think", NULL, true, "Hm.\n</think>\n\nHello </think> you", "R(Hm.)C(Hello </think> you)"},
    {"deepseek_r1", NULL, true, "cut off </thin", "R(cut off </thin)"},
    {"qwen3", NULL, false, "<thin", "C(<thin)"},
    {"qwen3", NULL, false, "  \n<think></think>x", "C(  \nx)"},
    {"magistral", NULL, false, "[THINK]a[/THINK]b[THINK]c[/THINK]d", "R(ac)C(bd)"},
    {"granite3.3", NULL, false, "<think>a</think><response>b</response>", "R(a)C(b)"},
    {"granite", NULL, false, "Here is my thought process: a\n\nHere is my response: b", "R(a)C(b)"},
    {"hunyuan", NULL, false, "<think>\na\n</think>\n<answer>\nb\n</answer>", "R(a)C(b\n)"},
    {"cohere", NULL, true, "a<|END_THINKING|><|START_RESPONSE|>b<|END_RESPONSE|>", "R(a)C(b)"},
    {"seed_oss", NULL, false, "<seed:think>a</seed:think>b", "R(a)C(b)"},
    {"apriel", NULL, true, "a\n[BEGIN FINAL RESPONSE]\nb\n[END FINAL RESPONSE]", "R(a)C(b\n)"},
    {"gemma4", NULL, false, "<|channel>thought\na<channel|>b", "R(a)C(b)"},
    {"gemma4", NULL, false, "<|channel>thought\n<channel|>b<channel|>", "C(b)"},
    {"kimi_vl", NULL, false, "◁think▷a ◁ b◁/think▷c", "R(a ◁ b)C(c)"},
    {NULL, NULL, false, "<think>a</think>b", "C(<think>a</think>b)"},
    /* hermes */
    {"think", "hermes", false, "<think>a</think>\n\n<tool_call>\n" W_CALL "\n</tool_call>\n",
     "R(a)" W_IS("0")},
    {NULL, "hermes", false,
     "I look.\n\n<tool_call>\n" W_CALL
     "\n</tool_call>\n<tool_call>\n{\"name\": \"now\"}\n</tool_call> ok",
     "C(I look.ok)" W_IS("0") "T(1||now|{})"},
    {NULL, "hermes", false, "<tool_call>" W_CALL, W_IS("0")},
    {NULL, "hermes", false, "<tool_call>" W_CALL "<tool_call>" W_CALL "</tool_call>",
     W_IS("0") W_IS("1")},
    {NULL, "hermes", false, "<tool_call>" W_CALL "</tool_", "C(</tool_)" W_IS("0")},
    {NULL, "hermes", false, "<tool_call>no json</tool_call> <tool_call>" W_CALL "</tool_call>",
     "C(<tool_call>no json</tool_call>)" W_IS("0")},
    {NULL, "hermes", false, "<tool_call>{\"name\": \"a\", \"arguments\": 5}</tool_call>",
     "C(<tool_call>{\"name\": \"a\", \"arguments\": 5}</tool_call>)"},
    {NULL, "hermes", false,
     "<tool_call>{\"name\": \"a\", \"arguments\": {\"x\": \"</tool_call>\"}}</tool_call>",
     "T(0||a|{\"x\": \"</tool_call>\"})"},
    {NULL, "hermes", false,
     "<tool_call>{\"name\": \"a\", \"arguments\": \"{\\\"x\\\": 1}\"}</tool_call>",
     "T(0||a|{\"x\": 1})"},
    {NULL, "hermes", false, "<tool_call>{\"arguments\": {}}</tool_call>",
     "C(<tool_call>{\"arguments\": {}}</tool_call>)"},
    {"think", "hermes", true, "I could <tool_call> it</think>b", "R(I could <tool_call> it)C(b)"},
    {"think", "hermes", true, "So:\n\n<tool_call>\n" W_CALL "\n</tool_call>", "R(So:)" W_IS("0")},
    {"think", "hermes", true, "a <tool_call>\n</think>b", "R(a <tool_call>)C(b)"},
    {"think", "qwen3_coder", true, "So:\n<tool_call>\n<function=now>\n</function>\n</tool_call>",
     "R(So:)T(0||now|{})"},
    {"think", "qwen3_coder", true, "a <tool_call> \n</think>b", "R(a <tool_call>)C(b)"},
    {"think", "qwen3_coder", true, "a <tool_call> b <function=x</think>c",
     "R(a <tool_call> b <function=x)C(c)"},
    {"think", "qwen3_coder", true, "a <tool_call>\n</tool_call> b </think>c",
     "R(a <tool_call>\n</tool_call> b)C(c)"},
    /* bare JSON */
    {NULL, "llama3_json", false, "{\"name\": \"get_weather\", \"parameters\": " W_ARGS "}",
     W_IS("0")},
    {NULL, "llama3_json", false,
     "<|python_tag|>{\"name\": \"now\", \"parameters\": {}}; {\"name\": \"now\", \"parameters\": "
     "{\"a\": [1]}}",
     "T(0||now|{})T(1||now|{\"a\": [1]})"},
    {NULL, "llama3_json", false, "{\"name\": \"nobody\", \"parameters\": {}}",
     "C({\"name\": \"nobody\", \"parameters\": {}})"},
    {NULL, "llama3_json", false, "{\"temperature\": 3}", "C({\"temperature\": 3})"},
    {NULL, "llama3_json", false, "It is {\"name\": \"now\", \"parameters\": {}}",
     "C(It is)T(0||now|{})"},
    {NULL, "llama3_json", false,
     "First: {\"name\": \"now\", \"parameters\": {}}; {\"name\": \"now\", \"parameters\": {\"a\": "
     "1}} Done; {\"a\": 1}",
     "C(First:Done; {\"a\": 1})T(0||now|{})T(1||now|{\"a\": 1})"},
    {NULL, "phi4_mini", false, "functools[" W_CALL "]", W_IS("0")},
    {NULL, "xlam", false, "[" W_CALL ", {\"name\": \"now\", \"arguments\": {}}]",
     W_IS("0") "T(1||now|{})"},
    {NULL, "xlam", false, "I look.\n```json\n[" W_CALL "]\n```", "C(I look.)" W_IS("0")},
    {NULL, "xlam", false, "I look.<tool_call>[" W_CALL "]</tool_call>", "C(I look.)" W_IS("0")},
    {NULL, "xlam", false, "See:\n```json\n[1]\n```", "C(See:\n```json\n[1]\n```)"},
    {NULL, "llama4_json", false,
     "<|python_start|>{\"name\": \"now\", \"parameters\": {}}<|python_end|>", "T(0||now|{})"},
    {NULL, "gigachat3", false, "a function call<|role_sep|>\n" W_CALL, "C(a)" W_IS("0")},
    {NULL, "granite-20b-fc", false, "<function_call> " W_CALL "<function_call> " W_CALL,
     W_IS("0") W_IS("1")},
    {NULL, "longcat", false, "<longcat_tool_call>" W_CALL "</longcat_tool_call>", W_IS("0")},
    {NULL, "command_r", false,
     "Action: ```json\n[{\"tool_name\": \"now\", \"parameters\": {}}]\n```", "T(0||now|{})"},
    /* lists */
    {NULL, "mistral", false, "[TOOL_CALLS][" W_CALL ", {\"name\": \"now\", \"arguments\": {}}]",
     W_IS("0") "T(1||now|{})"},
    {NULL, "mistral", false, "[TOOL_CALLS] [" W_CALL "]", W_IS("0")},
    {"mistral", "mistral", false,
     "[THINK]a[/THINK][TOOL_CALLS]get_weather[ARGS]" W_ARGS "[TOOL_CALLS]now[ARGS]{}",
     "R(a)" W_IS("0") "T(1||now|{})"},
    {NULL, "mistral", false, "[TOOL_CALLS]now[CALL_ID]123456789[ARGS]{\"a\": \"}\"}",
     "T(0|123456789|now|{\"a\": \"}\"})"},
    {NULL, "mistral", false, "a[TOOL_CALLS]now", "C(a[TOOL_CALLS]now)"},
    {NULL, "granite", false, "<|tool_call|>[" W_CALL "]", W_IS("0")},
    {NULL, "hunyuan", false, "<tool_calls>[" W_CALL "]</tool_calls>", W_IS("0")},
    {NULL, "minimax", false, "<tool_calls>\n" W_CALL "\n{\"name\": \"now\"}\n</tool_calls>",
     W_IS("0") "T(1||now|{})"},
    {NULL, "internlm", false,
     "ok<|action_start|><|plugin|>\n{\"name\": \"now\", \"parameters\": {\"a\": 1}}<|action_end|>",
     "C(ok)T(0||now|{\"a\": 1})"},
    {"cohere", "cohere", false,
     "<|START_THINKING|>a<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", "
     "\"tool_name\": \"now\", "
     "\"parameters\": {}}\n]<|END_ACTION|>",
     "R(a)T(0||now|{})"},
    {NULL, "apertus", false, "<|tools_prefix|>[{\"now\": {\"a\": 1}}]<|tools_suffix|>",
     "T(0||now|{\"a\": 1})"},
    {NULL, "nemotron", false, "<TOOLCALL>[" W_CALL "]</TOOLCALL>", W_IS("0")},
    /* sections */
    {"think", "deepseek_v3", false,
     "a<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```"
     "json\n" W_ARGS "\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```"
     "json\n{}\n```<｜tool▁call▁end｜><"
     "｜tool▁calls▁end｜>",
     "C(a)" W_IS("0") "T(1||now|{})"},
    {"think", "deepseek_v31", true,
     "a<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>" W_ARGS
     "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "R(a)" W_IS("0")},
    {NULL, "deepseek_v32", false,
     "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter "
     "name=\"city\" "
     "string=\"true\">Paris\n</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" "
     "string=\"false\">2</｜DSML｜parameter>\n"
     "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
     "T(0||get_weather|{\"city\": \"Paris\\n\", \"days\": 2})"},
    {NULL, "deepseek_v32", false,
     "<｜DSML｜tool_calls><｜DSML｜invoke name=\"get_weather\"><｜DSML｜parameter name=\"days\" "
     "string=\"true\">2"
     "</｜DSML｜parameter><｜DSML｜parameter name=\"city\" "
     "string=\"false\">null</｜DSML｜parameter><｜DSML｜parameter "
     "name=\"x\" string=\"true\">3</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜tool_calls>",
     "T(0||get_weather|{\"days\": 2, \"city\": \"null\", \"x\": \"3\"})"},
    {NULL, "deepseek_v32", false,
     "<｜DSML｜tool_calls><｜DSML｜invoke name=\"get_weather\"><｜DSML｜parameter "
     "name=\"arguments\" "
     "string=\"true\">{\"city\": "
     "\"Lyon\"}</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜tool_calls>",
     "T(0||get_weather|{\"city\": \"Lyon\"})"},
    {NULL, "deepseek_v32", false,
     "<｜DSML｜tool_calls><｜DSML｜invoke name=\"get_weather\"><｜DSML｜parameter name=\"input\" "
     "string=\"false\">{\"x\": 1}</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜tool_calls>",
     "T(0||get_weather|{\"input\": {\"x\": 1}})"},
    {NULL, "deepseek_v32", false,
     "<｜DSML｜tool_calls><｜DSML｜invoke name=\"get_weather\"><｜DSML｜parameter name=\"input\" "
     "string=\"false\">{\"city\": 1}</｜DSML｜parameter><｜DSML｜parameter name=\"days\" "
     "string=\"false\">2</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜tool_calls>",
     "T(0||get_weather|{\"input\": {\"city\": 1}, \"days\": 2})"},
    {"deepseek_v41", "deepseek_v41", true,
     "a</think>b<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"get_weather\">\n<｜DSML｜ parameter "
     "name=\"city\" "
     "string=\"true\">Paris</｜DSML｜ parameter>\n<｜DSML｜ parameter name=\"days\" "
     "string=\"false\">2</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n</｜DSML｜ calls>",
     "R(a)C(b)" W_IS("0")},
    {NULL, "deepseek_v41", false,
     "<｜DSML｜ calls><｜DSML｜ invoke name=\"get_weather\"><｜DSML｜ parameter name=\"input\" "
     "string=\"true\">{\"city\": \"Lyon\"}</｜DSML｜ parameter></｜DSML｜ invoke></｜DSML｜ calls>",
     "T(0||get_weather|{\"city\": \"Lyon\"})"},
    {"gigachat35", "gigachat35", false,
     "<think>a</think>b\n<｜GCML｜tool_calls>\n<｜GCML｜invoke "
     "name=\"get_weather\">\n<｜GCML｜parameter "
     "name=\"city\" string=\"true\">Paris</｜GCML｜parameter>\n<｜GCML｜parameter name=\"days\" "
     "string=\"false\">2</｜GCML｜parameter>\n</｜GCML｜invoke>\n</｜GCML｜tool_calls>",
     "R(a)C(b)" W_IS("0")},
    {"kimi_k3", "kimi_k3", true,
     "a<|close|>think<|sep|><|open|>response<|sep|>b<|close|>response<|sep|><|open|>tools<|sep|>\n<"
     "|open|>call "
     "tool=\"get_weather\" index=\"1\"<|sep|><|open|>argument key=\"city\" "
     "type=\"string\"<|sep|>Paris<|close|>argument<|sep|><|open|>argument key=\"days\" "
     "type=\"number\"<|sep|>2<|close|>argument<|sep|><|close|>call<|sep|><|open|>call tool=\"now\" "
     "index=\"19\"<|sep|><|open|>argument key=\"a &amp;&quot;b&quot;\" "
     "type=\"string\"<|sep|>1<|close|>argument"
     "<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>",
     "R(a)C(b)" W_IS("0") "T(1||now|{\"a &\\\"b\\\"\": \"1\"})"},
    {NULL, "kimi_k3", false, /* what the model says of a value goes before what is declared */
     "<|open|>tools<|sep|><|open|>call tool=\"get_weather\" index=\"1\"<|sep|><|open|>argument "
     "key=\"city\" type=\"number\"<|sep|>3<|close|>argument<|sep|><|open|>argument key=\"days\" "
     "type=\"string\"<|sep|>2<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>",
     "T(0||get_weather|{\"city\": 3, \"days\": \"2\"})"},
    {"kimi_k3", NULL, false,
     "<|open|>response<|sep|>b<|close|>response<|sep|><|close|>message<|sep|>", "C(b)"},
    {"k2_horizon", "k2_horizon", false,
     "<ifm|think_fast>a</ifm|think_fast>b<ifm|tool_calls>\n<ifm|tool_call>get_weather\n<ifm|arg_key>city</ifm|arg_key><ifm|arg_value>Paris</ifm|arg_value>\n<ifm|arg_key>days</ifm|arg_key><ifm|arg_type>integer</ifm|arg_type><ifm|arg_value>2</ifm|arg_value></ifm|tool_call>\n<ifm|tool_call>{\"name\": \"now\", \"arguments\": {}}</ifm|tool_call>\n</ifm|tool_calls>",
     "R(a)C(b)" W_IS("0") "T(1||now|{})"},
    {NULL, "k2_horizon", false,
     "<ifm|tool_call>now<ifm|arg_key>a</ifm|arg_key><ifm|arg_type>string</ifm|"
     "arg_type><ifm|arg_value>2</ifm|arg_value></ifm|tool_call>",
     "T(0||now|{\"a\": \"2\"})"},
    {"plamo3", "plamo3", false,
     "<|plamo:begin_think:plamo|>a<|plamo:end_think:plamo|>b<|plamo:begin_tool_requests:plamo|"
     "><|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>get_weather<|"
     "plamo:end_tool_name:plamo|><|plamo:begin_tool_arguments:plamo|><|plamo:constrain|"
     ">json<|plamo:msg|>" W_ARGS "<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|"
     "><|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|"
     ">now<|plamo:end_tool_name:plamo|><|plamo:begin_tool_arguments:plamo|"
     "><|plamo:constrain|>json<|plamo:msg|>{}<|"
     "plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|"
     "><|plamo:end_tool_requests:plamo|><|plamo:tag|"
     ">",
     "R(a)C(b)" W_IS("0") "T(1||now|{})"},
    {"minimax_m3", "minimax_m3", true,
     "a</mm:think>b" M_ "<tool_call>\n" M_ "<invoke name=\"get_weather\">" M_ "<city>5" M_
     "</city>" M_ "<days>2" M_ "</days>" M_ "<where>" M_ "<lat>1.5" M_ "</lat>" M_ "<tag>x" M_
     "</tag>" M_ "<tag>y" M_ "</tag>" M_ "</where>" M_ "<list>" M_ "<item>" M_ "<k>1" M_ "</k>" M_
     "</item>" M_ "<item> " M_ "</item>" M_ "</list>" M_ "<none>" M_ "</none>" M_ "</invoke>\n" M_
     "<invoke name='now'>" M_ "</invoke>\n" M_ "</tool_call>",
     "R(a)C(b)T(0||get_weather|{\"city\": \"5\", \"days\": 2, \"where\": {\"lat\": \"1.5\", "
     "\"tag\": [\"x\", "
     "\"y\"]}, \"list\": [{\"k\": 1}, {}], \"none\": \"\"})T(1||now|{})"},
    {NULL, "minimax_m3", false,
     M_ "<tool_call>" M_ "<invoke name=\"now\">" M_ "<a>1" M_ "</b>" M_ "</invoke>",
     "C(" M_ "<tool_call>" M_ "<invoke name=\"now\">" M_ "<a>1" M_ "</b>" M_ "</invoke>)"},
    {"think", "kimi_k2", false, /* an end is missing */
     "<think>a<|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>" W_ARGS
     "<|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}",
     "R(a)T(0|functions.get_weather:0|get_weather|" W_ARGS ")T(1|functions.now:1|now|{})"},
    {NULL, "kimi_k2", false,
     "<|tool_call_begin|>functions.now<|tool_call_argument_begin|>{}<|tool_call_end|>",
     "T(0|functions.now|now|{})"},
    {NULL, "solar_open", false,
     "Go.<|tool_calls|><|tool_call:begin|>abc1<|tool_call:name|>get_weather<|tool_call:args|"
     ">" W_ARGS "<|tool_call:end|>",
     "C(Go.)T(0|abc1|get_weather|" W_ARGS ")"},
    {NULL, "kimi_k2", false,
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:3<|"
     "tool_call_argument_begin|>" W_ARGS "<|tool_call_end|><|tool_calls_section_end|>",
     "T(0|functions.get_weather:3|get_weather|" W_ARGS ")"},
    {NULL, "step3", false,
     "<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke "
     "name=\"get_weather\"><steptml:parameter name=\"city\">Paris</steptml:parameter>"
     "</steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>",
     "T(0||get_weather|{\"city\": \"Paris\"})"},
    {NULL, "step3", false,
     "<｜tool_calls_begin｜><｜tool_call_begin｜><steptml:invoke "
     "name=\"now\"></steptml:invoke><｜tool_call_end｜>"
     "<｜tool_calls_end｜>",
     "T(0||now|{})"},
    /* elements */
    {NULL, "qwen3_coder", false,
     "Go.\n<tool_call>\n<function=get_weather>\n<parameter=city>\nNew\nYork "
     "\"x\"\n</parameter>\n<parameter=days>\n2\n</parameter>\n"
     "<parameter=hot>\nTrue\n</parameter>\n<parameter=where>\n{'lat': "
     "1.5}\n</parameter>\n</function>\n</tool_call>",
     "C(Go.)T(0||get_weather|{\"city\": \"New\\nYork \\\"x\\\"\", \"days\": 2, \"hot\": true, "
     "\"where\": {\"lat\": "
     "1.5}})"},
    {NULL, "qwen3_coder", false, "<function=now>\n</function>\n</tool_call>", "T(0||now|{})"},
    {NULL, "qwen3_coder", false,
     "<function=get_weather>\n<parameter=ref>\n[1]\n</parameter>\n<parameter=loop>\n[1]\n"
     "</parameter>\n</function>",
     "T(0||get_weather|{\"ref\": [1], \"loop\": \"[1]\"})"},
    {NULL, "qwen3_coder", false, "<tool_call>\nno <b>call</b>", "C(<tool_call>\nno <b>call</b>)"},
    {NULL, "seed_oss", false,
     "<seed:tool_call>\n<function=get_weather>\n<parameter=city>Paris</parameter>"
     "\n</function>\n</seed:tool_call>",
     "T(0||get_weather|{\"city\": \"Paris\"})"},
    {NULL, "mimo", false,
     "<tool_call>\n<function=get_weather>\n<parameter=city>a\n</parameter>"
     "<parameter=days>2</parameter>\n</function>\n</tool_call>",
     "T(0||get_weather|{\"city\": \"a\\n\", \"days\": 2})"},
    {NULL, "functionary", false, "<function=now>{\"a\": 1}</function>", "T(0||now|{\"a\": 1})"},
    {NULL, "functionary_v3.2", true, "all\nHi >> you", "C(Hi >> you)"},
    {NULL, "functionary_v3.2", true, "all\nI look.\n>>>get_weather\n" W_ARGS ">>>now\n{}",
     "C(I look.)" W_IS("0") "T(1||now|{})"},
    {NULL, "functionary_v3.2", true, "get_weather\n" W_ARGS "\n>>>all\nok", "C(ok)" W_IS("0")},
    {NULL, "functionary_v3.2", true, "Hello", "C(Hello)"},
    {NULL, "functionary_v3.2", true, "nobody\n{\"a\": 1}", "C(nobody\n{\"a\": 1})"},
    /* only the first call's mark stood in the prompt */
    {NULL, "functionary_v3.2", true, "nobody\n{}>>>nobody\n{}", "C(nobody\n{}>>>nobody\n{})"},
    {NULL, "functionary_v3.2", true, "all\nHi>>>nobody\n{}", "C(Hi>>>nobody\n{})"},
    {NULL, "functionary_v3.2", true, "now\n{}>>>nobody\n{}", "C(>>>nobody\n{})T(0||now|{})"},
    {NULL, "functionary_v3.2", false, "a>>>python\nprint({1})", "C(a>>>python\nprint({1}))"},
    {NULL, "smollm3", false, "<tool_call>" W_CALL "</tool_call>", W_IS("0")},
    {NULL, "smollm3", false, "<code>\nget_weather(city=\"Paris\", days=2)\n</code>", W_IS("0")},
    {NULL, "smollm3", false, "<code>\nprint(1)\n</code>", "C(<code>\nprint(1)\n</code>)"},
    {NULL, "smollm3", false, "<code>\nrange(stop=1)\n</code>", "C(<code>\nrange(stop=1)\n</code>)"},
    {NULL, "minimax_m2", false,
     "a <invoke name=\"x\"> b\n<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter "
     "name=\"city\">5</parameter>\n"
     "<parameter name=\"days\">5</parameter>\n</invoke>\n<invoke "
     "name=\"now\">\n</invoke>\n</minimax:tool_call>",
     "C(a <invoke name=\"x\"> b)T(0||get_weather|{\"city\": \"5\", \"days\": 5})T(1||now|{})"},
    {"glm45", "glm45", false,
     "<think>a</think>\nb\n<tool_call>get_weather\n<arg_key>city</arg_key>"
     "\n<arg_value>5</arg_value>\n<arg_key>days</arg_key>\n<arg_value>2</arg_value>"
     "\n<arg_key>other</arg_key>\n<arg_value>x y</arg_value>\n</tool_call>",
     "R(a)C(b)T(0||get_weather|{\"city\": \"5\", \"days\": 2, \"other\": \"x y\"})"},
    {NULL, "glm47", false, "<tool_call>now</tool_call>", "T(0||now|{})"},
    {NULL, "iquest_q1", false,
     "<iquest_tool_call>get_weather\n<arg_key>city</arg_key><arg_value>Paris</arg_value>"
     "<arg_key>days</arg_key><arg_value>2</arg_value></iquest_tool_call>",
     W_IS("0")},
    {"hy_v3", "hy_v3", true,
     "a</think>b<tool_calls>\n<tool_call>get_weather<tool_sep>\n<arg_key>city</arg_key>"
     "\n<arg_value>Paris</arg_value>\n<arg_key>days</arg_key><arg_value>2</arg_value>"
     "</tool_call>\n<tool_call>now<tool_sep></tool_call></tool_calls>",
     "R(a)C(b)" W_IS("0") "T(1||now|{})"},
    {"hy_v4", "hy_v4", true,
     "a</think:opensource>b<tool_calls:opensource>\n<tool_call:opensource>"
     "get_weather<tool_sep:opensource>\n<arg_key:opensource>city</arg_key:opensource>"
     "\n<arg_value:opensource>Paris</arg_value:opensource>\n<arg_key:opensource>"
     "days</arg_key:opensource>\n<arg_value:opensource>2</arg_value:opensource>"
     "\n</tool_call:opensource>\n</tool_calls:opensource>",
     "R(a)C(b)" W_IS("0")},
    {NULL, "dots", false,
     "<dots_function_call>\n<invoke name=\"get_weather\">\n<parameter "
     "name=\"city\">Paris</parameter>\n<parameter "
     "name=\"days\">2</parameter>\n</invoke>\n</dots_function_call>",
     W_IS("0")},
    {NULL, "minicpm5", false,
     "ok\n<function name=\"get_weather\"><param name=\"city\"><![CDATA[a <b>\nc]]></param><param "
     "name=\"days\">2</param></function>\n<function name=\"now\"></function>",
     "C(ok)T(0||get_weather|{\"city\": \"a <b>\\nc\", \"days\": 2})T(1||now|{})"},
    {NULL, "gemma4", false,
     "<|tool_call>call:get_weather{city:<|\"|>a, "
     "{b}<|\"|>,days:2,where:{lat:[1,true,<|\"|>x<|\"|>]}}<tool_call|>",
     "T(0||get_weather|{\"city\": \"a, {b}\", \"days\": 2, \"where\": {\"lat\": [1, true, "
     "\"x\"]}})"},
    {NULL, "gemma4", false,
     "<|tool_call>call:get_weather{<|\"|>city<|\"|>:<|\"|>}a\"<|\"|>, any : x {y ,list:[], "
     "where:{},days:-2}\n"
     "<tool_call|>",
     "T(0||get_weather|{\"city\": \"}a\\\"\", \"any\": \"x {y\", \"list\": [], \"where\": {}, "
     "\"days\": "
     "-2})"},
    {NULL, "gemma4", false,
     "<|tool_call>call:now{}<tool_call|><|tool_call>call:now{a:[{b:1},[2]]}<tool_call|>",
     "T(0||now|{})T(1||now|{\"a\": [{\"b\": 1}, [2]]})"},
    {NULL, "gemma4", false, "<|tool_call>:get_weather{city:<|\"|>Paris<|\"|>,days:2}<tool_call|>",
     W_IS("0")},
    {NULL, "functiongemma", false,
     "<start_function_call>call:now{a:<escape>b<escape>}<end_function_call>",
     "T(0||now|{\"a\": \"b\"})"},
    /* Python */
    {NULL, "pythonic", false, "[get_weather(city='Paris', days=2), now()]",
     W_IS("0") "T(1||now|{})"},
    {NULL, "pythonic", false,
     "[now(a=[1, (2,), None], b={'c': -1.5}, d=\"it's \\\"x\\\" \\u00e9\")]",
     "T(0||now|{\"a\": [1, [2], null], \"b\": {\"c\": -1.5}, \"d\": \"it's \\\"x\\\" é\"})"},
    {NULL, "pythonic", false,
     "[now(a={'x', 'y'}, b=007, c=(1, [')', \"]\"]), d='' , ), now(e='''it\\'s, \\\\''')]",
     "T(0||now|{\"a\": [\"x\", \"y\"], \"b\": 7, \"c\": [1, [\")\", \"]\"]], \"d\": \"\"})"
     "T(1||now|{\"e\": \"it's, \\\\\"})"},
    {NULL, "lfm2", false,
     "<|tool_call_start|>[get_weather(city='Martha\\'s \\\"Inn\\\"', days=2)]<|tool_call_end|>",
     "T(0||get_weather|{\"city\": \"Martha's \\\"Inn\\\"\", \"days\": 2})"},
    {NULL, "pythonic", false, "[now(a=\"\\ud83d\\ude00\\/\")]", "T(0||now|{\"a\": \"😀/\"})"},
    {NULL, "pythonic", false, "[1] is a reference", "C([1] is a reference)"},
    {NULL, "pythonic", false, "[now(os.system('x'))]", "C([now(os.system('x'))])"},
    {NULL, "pythonic", false, "[unknown()]", "C([unknown()])"},
    {NULL, "llama4_pythonic", false, "<|python_start|>[now()]<|python_end|>", "T(0||now|{})"},
    {NULL, "olmo3", false,
     "<function_calls>\nget_weather(city=\"Paris\", days=2)\nnow()\n</function_calls>",
     W_IS("0") "T(1||now|{})"},
    {NULL, "lfm2", false, "<|tool_call_start|>[now(a=1)]<|tool_call_end|>ok",
     "C(ok)T(0||now|{\"a\": 1})"},
    /* harmony */
    {"harmony", "harmony", false,
     "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hello",
     "R(Hm.)C(Hello)"},
    {"harmony", "harmony", false,
     "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis<|message|>b<|end|"
     "><|start|>assistant"
     "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>" W_ARGS
     "<|end|><|start|>assistant to=functions.now<|channel|>commentary json<|message|>{}<|call|>",
     "R(a\nb)" W_IS("0") "T(1||now|{})"},
    {"harmony", "harmony", false,
     "<|channel|>commentary "
     "to=assistant<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final"
     "<|message|>b",
     "R(a)C(b)"},
    {"harmony", "harmony", false, "<|channel|>commentary<|message|>I look.<|end|>", "C(I look.)"},
    {"harmony", "harmony", false, "Just text <b>", "C(Just text <b>)"},
    {"harmony", "harmony", false, "<|channel|>commentary to=functions.now<|message|>no json",
     "C(no json)"},
    {"harmony", NULL, false,
     "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b<|return|"
     ">",
     "R(a)C(b)"},
};

/* Calls that turn out to be none after they have begun. */
static const struct {
    struct parse_case in;
    const char *streamed;
} broken[] = {
    {{NULL, "hermes", false, "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": ",
      "C(<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": )"},
     "T(0||get_weather|{\"city\": )"},
    {{NULL, "hermes", false,
      "<tool_call>{\"function\": {\"name\": \"now\", \"arguments\": {\"a\": ",
      "C(<tool_call>{\"function\": {\"name\": \"now\", \"arguments\": {\"a\": )"},
     "T(0||now|{\"a\": )"},
    {{NULL, "hermes", false,
      "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": x}}</tool_call>b",
      "C(<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": x}}</tool_call>b)"},
     "C(b)T(0||now|{\"a\": x})"},
    {{NULL, "hermes", false, "<tool_call>{\"name\": \"now\", \"arguments\": {}</tool_call>b",
      "C(<tool_call>{\"name\": \"now\", \"arguments\": {}</tool_call>b)"},
     "C(b)T(0||now|{})"},
    {{NULL, "hermes", false, "<tool_call>{\"name\": \"now\", \"arguments\": {}, b}</tool_call>",
      "C(<tool_call>{\"name\": \"now\", \"arguments\": {}, b}</tool_call>)"},
     "C(, b}</tool_call>)T(0||now|{})"},
    {{NULL, "llama3_json", false, "{\"name\": \"now\", \"parameters\": {\"a\": [",
      "C({\"name\": \"now\", \"parameters\": {\"a\": [)"},
     "T(0||now|{\"a\": [)"},
    {{NULL, "mistral", false, "[TOOL_CALLS]now[ARGS]{\"a\": 1, b",
      "C([TOOL_CALLS]now[ARGS]{\"a\": 1, b)"},
     "T(0||now|{\"a\": 1, b)"},
    {{NULL, "qwen3_coder", false, "<function=now><parameter=a>1</parameter><parameter=b>2",
      "C(<function=now><parameter=a>1</parameter><parameter=b>2)"},
     "T(0||now|{\"a\": \"1\", \"b\": \"2)"},
    {{NULL, "qwen3_coder", false, "<tool_call>\n<function=now>\n<parameter=a>\ncut",
      "C(<tool_call>\n<function=now>\n<parameter=a>\ncut)"},
     "T(0||now|{\"a\": \"cut)"},
    {{NULL, "glm45", false,
      "<tool_call>now<arg_key>a</arg_key><arg_value>1</arg_value>b</tool_call>",
      "C(<tool_call>now<arg_key>a</arg_key><arg_value>1</arg_value>b</tool_call>)"},
     "C(b</tool_call>)T(0||now|{\"a\": 1)"},
    {{NULL, "pythonic", false, "[now(a=1, b='x'), now(c=d)]", "C([now(a=1, b='x'), now(c=d)])"},
     "C(now(c=d)])T(0||now|{\"a\": 1, \"b\": \"x\"})"},
    {{NULL, "pythonic", false, "[now(a=1, b='x", "C([now(a=1, b='x)"},
     "C(b='x)T(0||now|{\"a\": 1)"},
    {{NULL, "gemma4", false, "<|tool_call>call:now{a:1,b:<|\"|>x",
      "C(<|tool_call>call:now{a:1,b:<|\"|>x)"},
     "C(b:<|\"|>x)T(0||now|{\"a\": 1)"},
    {{NULL, "gemma4", false, "<|tool_call>call:now{a:1,b}<tool_call|>",
      "C(<|tool_call>call:now{a:1,b}<tool_call|>)"},
     "C(b}<tool_call|>)T(0||now|{\"a\": 1)"},
    {{NULL, "gemma4", false, "<|tool_call>call:now{a:1,<|\"|>b<|\"|>}<tool_call|>",
      "C(<|tool_call>call:now{a:1,<|\"|>b<|\"|>}<tool_call|>)"},
     "C(<|\"|>b<|\"|>}<tool_call|>)T(0||now|{\"a\": 1)"},
    {{NULL, "functionary", false, "<function=now>{\"a\": ", "C(<function=now>{\"a\": )"},
     "T(0||now|{\"a\": )"},
    {{"harmony", "harmony", false, "<|channel|>commentary to=functions.now<|message|> {\"a\": 1 ",
      "C( {\"a\": 1 )"},
     "T(0||now|{\"a\": 1)"},
};

/* Each way of putting calls out: what it gives, however the text is cut. */
static bool run_way(const struct parse_case *c, const struct parse_config *config,
                    const char *expected, struct answer *a) {
    parse(config, bytes_str(c->text), all_at_once, 0, a);
    if (strcmp(buf_text(&a->all), expected) || !a->valid) {
        check_fail(__FILE__, __LINE__, "%s/%s: %s\ngives    %s\nexpected %s", c->reasoning,
                   c->calls, c->text, buf_text(&a->all), expected);
        return false;
    }
    if (!cuts_agree(config, bytes_str(c->text), expected, a)) {
        check_fail(__FILE__, __LINE__, "cuts matter: %s\ngives    %s", c->text, buf_text(&a->all));
        return false;
    }
    return true;
}

static struct parse_config config_of(const struct parse_case *c, const struct parse_tools *t) {
    struct parse_config config = {.tools = t, .in_reasoning = c->inside};
    if (c->reasoning)
        config.reasoning = reasoning_format_find(bytes_str(c->reasoning));
    if (c->calls)
        config.calls = call_format_find(bytes_str(c->calls));
    config.in_call = c->inside && call_format_frames_content(config.calls);
    return config;
}

/* streamed: what is expected where calls go out before they are known to be well formed. */
static bool run_case(const struct parse_case *c, const char *streamed, const struct parse_tools *t,
                     struct answer *a) {
    struct parse_config config = config_of(c, t);
    if ((c->reasoning && !config.reasoning) || (c->calls && !config.calls)) {
        check_fail(__FILE__, __LINE__, "no format %s %s", c->reasoning, c->calls);
        return false;
    }
    if (!run_way(c, &config, streamed, a))
        return false;
    config.complete_calls = true;
    return run_way(c, &config, c->expected, a);
}

TEST(every_format_gives_the_same_however_it_is_cut) {
    struct parse_tools *t = tools();
    struct answer a = {0};
    for (size_t i = 0; i < ARRAY_LEN(cases) && run_case(&cases[i], cases[i].expected, t, &a); i++) {
    }
    answer_release(&a);
    parse_tools_free(&t);
}

TEST(calls_that_break_off_are_as_far_as_they_came) {
    struct parse_tools *t = tools();
    struct answer a = {0};
    for (size_t i = 0; i < ARRAY_LEN(broken) && run_case(&broken[i].in, broken[i].streamed, t, &a);
         i++) {}
    answer_release(&a);
    parse_tools_free(&t);
}

/* Appends text with each `from` as `to`. */
static void add_with(struct buf *out, const char *text, const char *from, const char *to) {
    for (const char *at; (at = strstr(text, from)); text = at + strlen(from)) {
        buf_add(out, text, (size_t)(at - text));
        buf_add_str(out, to);
    }
    buf_add_str(out, text);
}

/* Whatever form a call has, its JSON may hold objects in objects. */
TEST(arguments_may_be_nested) {
    static const char FROM[] = "\"city\": \"Paris\"",
                      TO[] = "\"city\": {\"a\": [{\"b\": 1}], \"c\": {\"d\": {}}}";
    struct parse_tools *t = tools();
    struct answer a = {0};
    unsigned count = 0;
    bool good = true;
    for (size_t i = 0; i < ARRAY_LEN(cases) && good; i++) {
        struct buf text = {0}, expected = {0};
        add_with(&text, cases[i].text, FROM, TO);
        add_with(&expected, cases[i].expected, FROM, TO);
        struct parse_case c = {cases[i].reasoning, cases[i].calls, cases[i].inside, buf_text(&text),
                               buf_text(&expected)};
        if (strstr(c.text, TO) && strstr(c.expected, TO) && !strstr(c.text, "\"{")) {
            good = run_case(&c, c.expected, t, &a);
            count++;
        }
        buf_release(&text);
        buf_release(&expected);
    }
    EXPECT(!good || count > 20);
    answer_release(&a);
    parse_tools_free(&t);
}

/* JSON and strings of elements go out as they are written, what else there is value by value. */
TEST(arguments_go_out_as_they_come) {
    static const char JSON[] = "\"city\": \"Paris\"";
    struct parse_tools *t = tools();
    struct answer a = {0};
    unsigned counts[2] = {0};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *city = strstr(cases[i].text, "Paris");
        struct parse_config config = config_of(&cases[i], t);
        struct buf text = {0};
        bool json = strstr(cases[i].text, JSON) && !strstr(cases[i].text, "\"{");
        if (!city || !config.calls || (!json && !config.calls->elements && !config.calls->stream))
            continue;
        buf_add(&text, cases[i].text, (size_t)(city - cases[i].text));
        for (int j = 0; j < 1000; j++)
            buf_add_byte(&text, 'x');
        buf_add_str(&text, city);
        parse(&config, buf_bytes(&text), in_steps, 5, &a);
        bool text_value = json || (config.calls->elements && !config.calls->elements->has_cdata);
        if (a.pieces < (text_value ? 150 : 2))
            check_fail(__FILE__, __LINE__, "%u pieces of %s", a.pieces, buf_text(&text));
        counts[json]++;
        buf_release(&text);
    }
    EXPECT(counts[true] > 20 && counts[false] > 2);
    answer_release(&a);
    parse_tools_free(&t);
}

/* Strings of elements hold anything but their end; streamed and whole give the same. */
TEST(strings_of_elements_hold_anything) {
    static const char *const PIECES[] = {"<",  ">",      "{", "}",  "\"",    "\n", "é",
                                         "</", "<param", "[", "\\", "&amp;", " x"};
    struct parse_tools *t = tools();
    struct answer a = {0}, whole = {0};
    struct buf text = {0};
    unsigned count = 0;
    for (size_t i = 0; i < 40 * ARRAY_LEN(cases); i++) {
        const struct parse_case *c = &cases[i % ARRAY_LEN(cases)];
        const char *city = strstr(c->text, "Paris");
        struct parse_config config = config_of(c, t);
        if (!city || !config.calls || !config.calls->elements || strstr(c->text, "\"{"))
            continue;
        buf_reset(&text);
        buf_add(&text, c->text, (size_t)(city - c->text));
        for (uint64_t j = check_random() % 12; j > 0; j--)
            buf_add_str(&text, PIECES[check_random() % ARRAY_LEN(PIECES)]);
        buf_add_str(&text, city + strlen("Paris"));
        parse(&config, buf_bytes(&text), at_random, 7, &a);
        config.complete_calls = true;
        parse(&config, buf_bytes(&text), all_at_once, 0, &whole);
        if (!whole.count || strcmp(buf_text(&a.all), buf_text(&whole.all)))
            check_fail(__FILE__, __LINE__, "%s\nwhole    %s\nstreamed %s", buf_text(&text),
                       buf_text(&whole.all), buf_text(&a.all));
        count++;
    }
    EXPECT(count > 200);
    buf_release(&text);
    answer_release(&a);
    answer_release(&whole);
    parse_tools_free(&t);
}

/* ---- calls within what is thought ---- */

/* Models of these formats call without ending what they think first. */
static const char ENDS_REASONING[] =
    " deepseek_v41 deepseek_v32 deepseek_v3 gigachat35 kimi_k3 k2_horizon "
    "plamo3 step3 kimi_k2 mistral hy_v3 hy_v3_opensource solar_open gemma4 "
    "qwen3_coder mimo cohere apertus hermes ";

static bool ends_reasoning(const struct call_format *f) {
    char name[64];
    snprintf(name, sizeof name, " %s ", call_format_name(f));
    return strstr(ENDS_REASONING, name) != NULL;
}

/* The first case of each format that has a call, while something is thought. */
TEST(calls_within_reasoning_are_calls_where_models_write_them_there) {
    struct parse_tools *t = tools();
    struct answer a = {0};
    VEC(const struct call_format *) seen = {0};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct parse_config config = config_of(&cases[i], t);
        bool known = !config.calls || config.calls->harmony || !strstr(cases[i].expected, "T(");
        for (size_t k = 0; k < seen.count; k++)
            known = known || seen.items[k] == config.calls;
        if (known)
            continue;
        vec_push(&seen, config.calls);
        config.reasoning = reasoning_format_find(bytes_str("thought"));
        config.in_reasoning = true;
        config.in_call = false;
        parse(&config, bytes_str(cases[i].text), all_at_once, 0, &a);
        if ((a.count > 0) != ends_reasoning(config.calls))
            check_fail(__FILE__, __LINE__, "%s: %u calls of %s", call_format_name(config.calls),
                       a.count, cases[i].text);
    }
    EXPECT(seen.count > 30);
    vec_release(&seen);
    answer_release(&a);
    parse_tools_free(&t);
}

TEST(every_format_has_a_case) {
    for (size_t i = 0; i < call_format_count; i++) {
        bool found = false;
        for (size_t j = 0; j < ARRAY_LEN(cases) && !found; j++)
            found = cases[j].calls &&
                    !strcmp(call_format_name(call_format_find(bytes_str(cases[j].calls))),
                            call_format_name(&call_formats[i]));
        if (!found)
            check_fail(__FILE__, __LINE__, "no case for %s", call_format_name(&call_formats[i]));
    }
}

/* ---- random texts ---- */

/* Marks and pieces of a format, as a model that went wrong might write them. */
static void add_random_piece(const struct parse_config *config, struct buf *out) {
    static const char *const PIECES[] = {"word ",
                                         "\n",
                                         " ",
                                         "{",
                                         "}",
                                         "\"",
                                         "[",
                                         "]",
                                         W_CALL,
                                         W_ARGS,
                                         "get_weather",
                                         "now",
                                         "{\"name\": \"now\", \"arguments\": {}}",
                                         "(a=1)",
                                         "'",
                                         ":",
                                         ";",
                                         ",",
                                         "<",
                                         "<function=now>",
                                         "<parameter=a>",
                                         "</parameter>",
                                         "now>",
                                         "now\">",
                                         "é",
                                         "｜",
                                         "<arg_key>a</arg_key><arg_value>1</arg_value>",
                                         "to=functions.now",
                                         "{}",
                                         "[now()]"};
    const struct reasoning_format *r = config->reasoning;
    const struct call_format *c = config->calls;
    const char *marks[24] = {r->open[0],      r->close[0],      r->drop[0],
                             c->wrap_open[0], c->wrap_close[0], c->close,
                             c->open[0].text, c->open[1].text,  "<|channel|>",
                             "<|message|>",   "<|end|>",        "<|start|>",
                             "<|call|>",      "<｜tool▁sep｜>", "<|tool_call_argument_begin|>",
                             "[ARGS]"};
    const char *piece = check_random() % 2 ? PIECES[check_random() % ARRAY_LEN(PIECES)]
                                           : marks[check_random() % 16];
    if (!piece)
        piece = "x";
    size_t len = strlen(piece);
    if (check_random() % 8 == 0)
        len = check_random() % (len + 1);
    buf_add(out, piece, len);
}

static size_t count_words(const char *text) {
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, "word")); at += 4)
        count++;
    return count;
}

TEST(random_texts_give_the_same_however_they_are_cut) {
    struct parse_tools *t = tools();
    struct answer a = {0}, whole = {0};
    struct buf text = {0};
    bool ok = true;
    for (unsigned round = 0; ok && round < 60000; round++) {
        struct parse_config config = {
            .reasoning = &reasoning_formats[check_random() % reasoning_format_count],
            .calls = &call_formats[check_random() % call_format_count],
            .tools = check_random() % 4 ? t : NULL,
            .in_reasoning = check_random() % 2,
            .in_call = check_random() % 2,
            .complete_calls = check_random() % 2};
        buf_reset(&text);
        for (uint64_t i = check_random() % 14; i > 0; i--)
            add_random_piece(&config, &text);
        parse(&config, buf_bytes(&text), all_at_once, 0, &whole);
        for (size_t i = 0; ok && i < 6; i++) {
            parse(&config, buf_bytes(&text), i < 3 ? in_steps : at_random, i < 3 ? i + 1 : 4 * i,
                  &a);
            ok = a.valid && whole.valid && !strcmp(buf_text(&a.all), buf_text(&whole.all));
        }
        /* nothing is lost (harmony's headers are marks as a whole) */
        if (ok && !config.reasoning->harmony && !config.calls->harmony)
            ok = count_words(buf_text(&text)) <= count_words(buf_text(&whole.all));
        if (!ok)
            check_fail(__FILE__, __LINE__, "%s %s in=%d: %s\nwhole %s\ncut   %s",
                       reasoning_format_name(config.reasoning), call_format_name(config.calls),
                       config.in_reasoning, buf_text(&text), buf_text(&whole.all),
                       buf_text(&a.all));
    }
    buf_release(&text);
    answer_release(&a);
    answer_release(&whole);
    parse_tools_free(&t);
}

/* ---- good outputs gone wrong ---- */

static struct bytes random_slice(struct bytes text) {
    size_t at = check_random() % (text.len + 1), len = check_random() % 24;
    return bytes_of(text.data + at, MIN(len, text.len - at));
}

/* One slice of text is left out, repeated, moved, or has something put before it; or the text ends
 * there. */
static void mutate(struct bytes text, struct buf *out) {
    static const char *const PIECES[] = {
        "word", "\"", "'", "\\", "\\u00e9", "\\ud83d", "{",  "}", "[", "]", "(", ")",
        ",",    ":",  "<", ">",  "\n",      "|>",      "</", "=", "é", " ", "`", "]<]minimax[>["};
    struct bytes slice = random_slice(text), other = random_slice(text);
    struct bytes before = bytes_of(text.data, (size_t)(slice.data - text.data)),
                 after = bytes_from(text, before.len + slice.len);
    unsigned kind = (unsigned)(check_random() % 5);
    buf_add_bytes(out, before);
    if (kind == 0)
        return;
    if (kind == 1)
        buf_add_bytes(out, other);
    if (kind == 2)
        buf_add_str(out, PIECES[check_random() % ARRAY_LEN(PIECES)]);
    if (kind == 3)
        buf_add_bytes(out, slice);
    if (kind >= 2)
        buf_add_bytes(out, slice);
    if (kind == 4)
        buf_add_str(out, "word");
    buf_add_bytes(out, after);
}

/* However a mutant is cut, it gives the same; and where nothing is a call, nothing of it is
 * lost. */
static bool mutant_holds(const struct parse_config *config, struct bytes text, struct answer *whole,
                         struct answer *a) {
    parse(config, text, all_at_once, 0, whole);
    bool ok = whole->valid;
    for (size_t i = 0; ok && i < 3; i++) {
        parse(config, text, i ? at_random : in_steps, i ? 5 * i : 1, a);
        ok = a->valid && !strcmp(buf_text(&a->all), buf_text(&whole->all));
    }
    bool harmony = config->calls->harmony || (config->reasoning && config->reasoning->harmony);
    return ok && (harmony || whole->count ||
                  count_words((const char *)text.data) <= count_words(buf_text(&whole->all)));
}

TEST(good_outputs_gone_wrong_give_the_same_however_they_are_cut) {
    struct parse_tools *t = tools();
    struct answer a = {0}, whole = {0};
    struct buf texts[2] = {0};
    bool ok = true;
    for (unsigned round = 0; ok && round < 30000; round++) {
        const struct parse_case *c = &cases[check_random() % ARRAY_LEN(cases)];
        struct parse_config config = config_of(c, check_random() % 4 ? t : NULL);
        if (!config.calls)
            continue;
        config.complete_calls = check_random() % 2;
        buf_reset(&texts[0]);
        buf_add_str(&texts[0], c->text);
        for (unsigned i = 0, count = 1 + check_random() % 3; i < count; i++) {
            mutate(buf_bytes(&texts[i % 2]), &texts[1 - i % 2]);
            buf_reset(&texts[i % 2]);
            if (i + 1 == count && i % 2 == 0)
                buf_add_bytes(&texts[0], buf_bytes(&texts[1]));
        }
        ok = mutant_holds(&config, bytes_str(buf_text(&texts[0])), &whole, &a);
        if (!ok)
            check_fail(__FILE__, __LINE__, "%s %s: %s\nwhole %s\ncut   %s", c->reasoning, c->calls,
                       buf_text(&texts[0]), buf_text(&whole.all), buf_text(&a.all));
        buf_reset(&texts[1]);
    }
    buf_release(&texts[0]);
    buf_release(&texts[1]);
    answer_release(&a);
    answer_release(&whole);
    parse_tools_free(&t);
}

TEST(no_mark_is_the_beginning_of_another) {
    for (size_t i = 0; i < call_format_count; i++) {
        const struct call_format *c = &call_formats[i];
        const char *marks[] = {c->wrap_open[0], c->wrap_open[1], c->wrap_close[0], c->wrap_close[1],
                               c->open[0].text, c->open[1].text, c->open[2].text,  c->close};
        for (size_t j = 0; j < ARRAY_LEN(marks); j++)
            for (size_t k = 0; k < ARRAY_LEN(marks); k++)
                if (j != k && marks[j] && marks[k] &&
                    begins_with(bytes_str(marks[j]), bytes_str(marks[k])) && strcmp(marks[k], "["))
                    check_fail(__FILE__, __LINE__, "%s: %s %s", call_format_name(c), marks[j],
                               marks[k]);
    }
}

TEST(long_texts_take_linear_time) {
    struct parse_config config = {.reasoning = reasoning_format_find(bytes_str("think")),
                                  .calls = call_format_find(bytes_str("hermes"))};
    static const char *const UNITS[] = {
        "<tool_call>", "<tool_call>{", "<tool_call>{\"", "<think>", "</tool_call>", "<", "a "};
    struct answer a = {0};
    for (size_t i = 0; i < ARRAY_LEN(UNITS); i++) {
        struct buf text = {0};
        while (text.len < 2 << 20)
            buf_add_str(&text, UNITS[i]);
        parse(&config, buf_bytes(&text), in_steps, 1 << 16, &a);
        size_t got = a.content.len + a.reasoning.len, had = text.len;
        buf_release(&text);
        EXPECT(got == had || got + strlen("<think>") == had);
    }
    answer_release(&a);
}

/* ---- names ---- */

/* What --tool-call-parser and --reasoning-parser may be in vLLM 0.33 and SGLang 0.5.23, but for
 * those that docs/parsers.md says are not read. */
static const char CALL_NAMES[] = "apertus apertus2509 cohere_command3 cohere_command4 deepseek_v3 "
                                 "deepseek_v31 deepseek_v32 deepseek_v4 "
                                 "deepseek_v41 deepseekv3 deepseekv31 deepseekv32 deepseekv4 "
                                 "deepseekv41 dots ernie45 functiongemma gemma4 "
                                 "gigachat3 gigachat35 glm glm45 glm47 gpt-oss granite "
                                 "granite-20b-fc granite4 hermes hunyuan hunyuan_a13b "
                                 "hy_v3 hy_v4 internlm interns1 iquest_q1 jamba k2_horizon kimi_k2 "
                                 "kimi_k3 lfm2 ling3 llama3 llama3_json "
                                 "llama4_json llama4_pythonic longcat mimo minicpm5 minimax-m2 "
                                 "minimax-m3 minimax_m2 minimax_m3 mistral "
                                 "nanbeige olmo3 openai phi4_mini_json plamo3 poolside_v1 pythonic "
                                 "qwen qwen25 qwen3_coder qwen3_json "
                                 "qwen3_xml seed_oss spark25 step3 step3p5 step5 trinity xlam";
static const char REASONING_NAMES[] = "apertus2509 cohere_command3 cohere_command4 deepseek-r1 "
                                      "deepseek-v3 deepseek-v4 deepseek-v41 deepseek_r1 "
                                      "deepseek_v3 deepseek_v4 deepseek_v41 dots ernie45 gemma4 "
                                      "gigachat35 glm45 glm47 gpt-oss granite "
                                      "granite_thinking_parser holo2 hunyuan hunyuan_a13b hy_v3 "
                                      "hy_v4 interns1 iquest_q1 k2_horizon kimi kimi_k2 "
                                      "kimi_k3 ling3 mimo minicpmv minimax minimax-append-think "
                                      "minimax-m3 minimax_m2 minimax_m2_append_think "
                                      "minimax_m3 mistral nanbeige nemotron_3 nemotron_v3 olmo3 "
                                      "openai_gptoss plamo3 poolside_v1 qwen3 "
                                      "qwen3-thinking seed_oss step3 step3p5 step5";

TEST(names_of_other_servers_are_known) {
    char names[sizeof CALL_NAMES + sizeof REASONING_NAMES], *rest;
    size_t count = 0;
    memcpy(names, CALL_NAMES, sizeof CALL_NAMES);
    for (char *name = strtok_r(names, " ", &rest); name; name = strtok_r(NULL, " ", &rest), count++)
        if (!call_format_find(bytes_str(name)))
            check_fail(__FILE__, __LINE__, "no tool call parser %s", name);
    memcpy(names, REASONING_NAMES, sizeof REASONING_NAMES);
    for (char *name = strtok_r(names, " ", &rest); name; name = strtok_r(NULL, " ", &rest), count++)
        if (!reasoning_format_find(bytes_str(name)))
            check_fail(__FILE__, __LINE__, "no reasoning parser %s", name);
    EXPECT(count == 126);
}

/* Every format once, by its name, in the order of the rows. */
static bool lists_each_once(const char *list, const char *(*name_of)(size_t row), size_t count) {
    const char *before = NULL;
    for (size_t i = 0; i < count; i++) {
        const char *name = name_of(i);
        size_t len = strlen(name);
        if (before && !strcmp(before, name))
            continue; /* two rows of one name */
        if (before && strncmp(list, ", ", 2))
            return false;
        list += before ? 2 : 0;
        if (strncmp(list, name, len))
            return false;
        list += len;
        before = name;
    }
    return !*list;
}
static const char *call_name(size_t row) {
    return call_format_name(&call_formats[row]);
}
static const char *reasoning_name(size_t row) {
    return reasoning_format_name(&reasoning_formats[row]);
}

TEST(lists_of_formats_have_each_once) {
    struct buf names = {0};
    call_format_names(&names);
    EXPECT(lists_each_once(buf_text(&names), call_name, call_format_count));
    buf_reset(&names);
    reasoning_format_names(&names);
    EXPECT(lists_each_once(buf_text(&names), reasoning_name, reasoning_format_count));
    buf_release(&names);
}

/* The first of a row's names is its own, whichever of them was asked for. */
TEST(a_format_is_called_by_its_first_name) {
    EXPECT_STR(call_format_name(call_format_find(bytes_str("functionary_v3"))), "functionary_v3.2");
    EXPECT_STR(call_format_name(call_format_find(bytes_str("hermes"))), "hermes");
    EXPECT_STR(reasoning_format_name(reasoning_format_find(bytes_str("qwen3"))), "think");
    EXPECT_STR(call_format_name(NULL), "none");
    EXPECT_STR(reasoning_format_name(NULL), "none");
}

/* "MARK ..." of a format, those that count at the beginning of an answer alone with a "^". */
static const char *marks_of(const char *name) {
    static struct buf all;
    struct call_mark marks[CALL_MARKS_MAX];
    size_t count = call_format_marks(name ? call_format_find(bytes_str(name)) : NULL, marks);
    buf_reset(&all);
    for (size_t i = 0; i < count && i < CALL_MARKS_MAX; i++)
        buf_addf(&all, "%s%s%s", i ? " " : "", marks[i].start_only ? "^" : "", marks[i].text);
    return buf_text(&all);
}

TEST(marks_of_a_format_are_what_opens_and_what_stands_around) {
    EXPECT_STR(marks_of(NULL), "");
    EXPECT_STR(marks_of("smollm3"), "<tool_call> <code>");
    EXPECT_STR(marks_of("kimi_k2"), "<|tool_calls_section_begin|> <|tool_call_begin|>");
    EXPECT_STR(marks_of("pythonic"), "^[");
    EXPECT_STR(marks_of("harmony"), "<|channel|>");
}

/* ---- choosing ---- */

TEST(prompts_that_open_reasoning_or_a_call_are_seen) {
    const struct reasoning_format *think = reasoning_format_find(bytes_str("qwen3"));
    EXPECT(reasoning_is_open(think, bytes_str("<|im_start|>assistant\n<think>\n")));
    EXPECT(!reasoning_is_open(think, bytes_str("<|im_start|>assistant\n<think>\n\n</think>\n\n")));
    EXPECT(!reasoning_is_open(think, bytes_str("<|im_start|>assistant\n")));
    EXPECT(!reasoning_is_open(NULL, bytes_str("<think>")));
    const struct call_format *functionary = call_format_find(bytes_str("functionary_v3.2"));
    EXPECT(call_is_open(functionary, bytes_str("assistant<|end_header_id|>\n\n>>>")));
    EXPECT(!call_is_open(functionary, bytes_str(">>>all\n")) &&
           !call_is_open(NULL, bytes_str(">>>")));
}

/* MiniMax M2 puts results of tools between <response> marks. */
TEST(marks_of_tool_results_choose_no_reasoning_format) {
    struct bytes source = bytes_str(
        "{{ '<think>' + reasoning + '</think>' }}{{ '<response>' + result + '</response>' }}");
    EXPECT_STR(reasoning_format_name(reasoning_format_of_template(source)), "think");
}

TEST(special_tokens_that_mean_something_are_wanted) {
    struct parse_config config = {.reasoning = reasoning_format_find(bytes_str("mistral")),
                                  .calls = call_format_find(bytes_str("mistral"))};
    EXPECT(parse_wants_token(&config, bytes_str("[TOOL_CALLS]")));
    EXPECT(parse_wants_token(&config, bytes_str("[ARGS]")));
    EXPECT(parse_wants_token(&config, bytes_str("[/THINK]")));
    EXPECT(!parse_wants_token(&config, bytes_str("</s>")));
    config.calls = NULL;
    EXPECT(!parse_wants_token(&config, bytes_str("[TOOL_CALLS]")));
}
