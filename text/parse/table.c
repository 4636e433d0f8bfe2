/* The formats, one row each, and how a model's is found. What a row says is documented in internal.h. */
#include "text/parse/internal.h"

/* ---- reasoning ---- */

const struct reasoning_format reasoning_formats[] = {
    {.names = "harmony gpt_oss gpt-oss openai_gptoss", .signs = {"<|channel|>", "<|message|>"}, .harmony = true},
    {.names = "seed_oss seed", .open = {"<seed:think>"}, .close = {"</seed:think>"}, .signs = {"seed:think>"}},
    {.names = "kimi_k3",
     .open = {"<|open|>think<|sep|>"},
     .close = {"<|close|>think<|sep|>"},
     .drop = {"<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>"},
     .signs = {"<|open|>", "<|close|>", "<|sep|>"},
     .anywhere = true},
    {.names = "k2_horizon",
     .open = {"<ifm|think>", "<ifm|think_fast>", "<ifm|think_faster>"},
     .close = {"</ifm|think>", "</ifm|think_fast>", "</ifm|think_faster>"},
     .signs = {"ifm|think"}},
    {.names = "minimax_m3 minimax-m3", .open = {"<mm:think>"}, .close = {"</mm:think>"}, .signs = {"mm:think>"}},
    {.names = "plamo3",
     .open = {"<|plamo:begin_think:plamo|>"},
     .close = {"<|plamo:end_think:plamo|>"},
     .drop = {"<|plamo:tag|>"},
     .signs = {"<|plamo:begin_think:plamo|>"}},
    {.names = "mistral magistral", .open = {"[THINK]"}, .close = {"[/THINK]"}, .signs = {"[THINK]"}, .anywhere = true},
    {.names = "cohere command_a command_r7b cohere_command3 cohere_command4",
     .open = {"<|START_THINKING|>"},
     .close = {"<|END_THINKING|>"},
     .drop = {"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"},
     .signs = {"<|START_THINKING|>"},
     .anywhere = true},
    {.names = "apertus apertus2509",
     .open = {"<|inner_prefix|>"},
     .close = {"<|inner_suffix|>"},
     .signs = {"<|inner_prefix|>"}},
    {.names = "gemma4",
     .open = {"<|channel>thought"},
     .close = {"<channel|>"},
     .drop = {"<channel|>"}, /* it may end what was not begun */
     .signs = {"<|channel>", "<channel|>"},
     .anywhere = true},
    {.names = "kimi kimi_vl", .open = {"◁think▷"}, .close = {"◁/think▷"}, .signs = {"◁/think▷"}},
    {.names = "apriel",
     .open = {"Here are my reasoning steps:"},
     .close = {"[BEGIN FINAL RESPONSE]"},
     .drop = {"[END FINAL RESPONSE]"},
     .signs = {"[BEGIN FINAL RESPONSE]"}},
    {.names = "granite granite3.2",
     .open = {"Here is my thought process:"},
     .close = {"Here is my response:"},
     .signs = {"Here is my thought process:"}},
    {.names = "granite3.3 ernie45",
     .open = {"<think>"},
     .close = {"</think>"},
     .drop = {"<response>", "</response>"},
     .signs = {"<think>", "<response></response>"}},
    {.names = "hunyuan_a13b hunyuan",
     .open = {"<think>"},
     .close = {"</think>"},
     .drop = {"<answer>", "</answer>"},
     .signs = {"<think>", "<answer>"}},
    {.names = "hy_v3_opensource hy_v4",
     .open = {"<think:opensource>"},
     .close = {"</think:opensource>"},
     .signs = {"':opensource'", "<think{}>"}},
    {.names = "thought exaone_deep", .open = {"<thought>"}, .close = {"</thought>"}, .signs = {"</thought>"}},
    {.names = "thinking", .open = {"<thinking>"}, .close = {"</thinking>"}, .signs = {"</thinking>"}},
    {.names =
         "think deepseek_r1 deepseek-r1 deepseek_v3 deepseek-v3 deepseek_v31 deepseek_v4 deepseek-v4 deepseek_v41 "
         "deepseek-v41 qwen3 qwq glm45 glm47 minimax_m1 "
         "minimax_m2 kimi_k2 nemotron "
         "nemotron_v3 step3 step3p5 olmo3 smollm3 ernie lfm2 exaone4 holo2 mimo "
         "qwen3-thinking minimax nano_v3 interns1 granite_thinking_parser minimax_m2_append_think minimax-append-think "
         "hy_v3 step5 iquest_q1 poolside_v1 ling3 dots minicpmv nanbeige nemotron_3 gigachat35 spark25",
     .open = {"<think>"},
     .close = {"</think>"},
     .signs = {"</think>"}},
};
const size_t reasoning_format_count = ARRAY_LEN(reasoning_formats);

/* ---- tool calls ---- */

/* <MARKinvoke name="NAME"><MARKparameter name="KEY">value</MARKparameter></MARKinvoke> */
#define INVOKE_OF(mark)                                                                                                \
    .name_end = "\"", .name_end_too = ">", .open = "<" mark "parameter name=\"", .key_end = "\"", .value_open = ">",   \
    .close = "</" mark "parameter>", .end = "</" mark "invoke>", .has_attributes = true
#define FUNCTION_FORM                                                                                                  \
    .name_end = ">", .open = "<parameter=", .key_end = ">", .close = "</parameter>", .end = "</function>",             \
    .may_miss_close = true
/* Key and value are elements of their own. */
#define PAIR_OF(begin, end)                                                                                            \
    .open = "<" begin "arg_key" end ">", .key_end = "</" begin "arg_key" end ">",                                      \
    .value_open = "<" begin "arg_value" end ">", .close = "</" begin "arg_value" end ">", .mixed = true

static const struct element_form FUNCTION = {FUNCTION_FORM}, FUNCTION_RAW = {FUNCTION_FORM, .keeps_blanks = true},
                                 INVOKE = {INVOKE_OF("")}, MINIMAX = {INVOKE_OF(""), .keeps_blanks = true},
                                 DSML = {INVOKE_OF("｜DSML｜"), .unwraps = true},
                                 DSML_SPACED = {INVOKE_OF("｜DSML｜ "), .unwraps = true},
                                 GCML = {INVOKE_OF("｜GCML｜")},
                                 STEP = {INVOKE_OF("steptml:"), .may_begin = "function<｜tool_sep｜>",
                                         .before = "<steptml:invoke name=\""},
                                 PARAM = {.name_end = "\"",
                                          .name_end_too = ">",
                                          .open = "<param name=\"",
                                          .key_end = "\">",
                                          .close = "</param>",
                                          .mixed = true,
                                          .has_cdata = true,
                                          .unwraps = true},
                                 XTML = {.name_end = "\"",
                                         .name_end_too = "<|sep|>",
                                         .open = "<|open|>argument key=\"",
                                         .key_end = "\"",
                                         .value_open = "<|sep|>",
                                         .close = "<|close|>argument<|sep|>",
                                         .has_attributes = true,
                                         .has_entities = true,
                                         .states_types = true},
                                 HUNYUAN = {PAIR_OF("", ""), .name_end = "<tool_sep>"},
                                 HUNYUAN_OPEN = {PAIR_OF("", ":opensource"), .name_end = "<tool_sep:opensource>"},
                                 GLM = {PAIR_OF("", "")}, IFM = {PAIR_OF("ifm|", ""), .has_attributes = true};

const struct call_format call_formats[] = {
    {.names = "harmony openai gpt_oss gpt-oss", .signs = {"<|channel|>", "<|message|>"}, .harmony = true},
    {.names = "deepseek_v41 deepseekv41",
     .wrap_open = {"<｜DSML｜ calls>"},
     .wrap_close = {"</｜DSML｜ calls>"},
     .open = {{.text = "<｜DSML｜ invoke name=\""}},
     .close = "</｜DSML｜ invoke>",
     .keeps = "｜DSML｜",
     .signs = {"｜DSML｜ calls"},
     .ends_reasoning = true,
     .elements = &DSML_SPACED},
    {.names = "deepseek_v32 deepseekv32 deepseek_v4 deepseekv4 dsml",
     .wrap_open = {"<｜DSML｜function_calls>", "<｜DSML｜tool_calls>"},
     .wrap_close = {"</｜DSML｜function_calls>", "</｜DSML｜tool_calls>"},
     .open = {{.text = "<｜DSML｜invoke name=\""}},
     .close = "</｜DSML｜invoke>",
     .keeps = "｜DSML｜",
     .signs = {"｜DSML｜"},
     .ends_reasoning = true,
     .elements = &DSML},
    {.names = "deepseek_v3 deepseekv3 deepseek_v31 deepseekv31 deepseek_r1 deepseek",
     .wrap_open = {"<｜tool▁calls▁begin｜>"},
     .wrap_close = {"<｜tool▁calls▁end｜>"},
     .open = {{.text = "<｜tool▁call▁begin｜>"}},
     .close = "<｜tool▁call▁end｜>",
     .keeps = "<｜tool▁sep｜>",
     .signs = {"<｜tool▁calls▁begin｜>"},
     .ends_reasoning = true,
     .end = BODY_MARK_JSON,
     .head = head_deepseek},
    {.names = "gigachat35",
     .wrap_open = {"<｜GCML｜tool_calls>"},
     .wrap_close = {"</｜GCML｜tool_calls>"},
     .open = {{.text = "<｜GCML｜invoke name=\""}},
     .close = "</｜GCML｜invoke>",
     .keeps = "｜GCML｜",
     .signs = {"｜GCML｜"},
     .ends_reasoning = true,
     .elements = &GCML},
    {.names = "kimi_k3",
     .wrap_open = {"<|open|>tools<|sep|>"},
     .wrap_close = {"<|close|>tools<|sep|>"},
     .open = {{.text = "<|open|>call tool=\"", .needs_wrap = true}},
     .close = "<|close|>call<|sep|>",
     .signs = {"<|open|>", "<|close|>", "<|sep|>"},
     .ends_reasoning = true,
     .elements = &XTML},
    {.names = "k2_horizon",
     .wrap_open = {"<ifm|tool_calls>"},
     .wrap_close = {"</ifm|tool_calls>"},
     .open = {{.text = "<ifm|tool_call>"}},
     .close = "</ifm|tool_call>",
     .keeps = "<ifm|arg_key> </ifm|arg_key> <ifm|arg_type> </ifm|arg_type> <ifm|arg_value> </ifm|arg_value>",
     .signs = {"<ifm|tool_call"},
     .ends_reasoning = true,
     .envelope = ENVELOPE_LOOSE,
     .elements = &IFM},
    {.names = "plamo3",
     .wrap_open = {"<|plamo:begin_tool_requests:plamo|>"},
     .wrap_close = {"<|plamo:end_tool_requests:plamo|>", "<|plamo:end_tool_request:plamo|>"},
     .open = {{.text = "<|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>"}},
     .close = "<|plamo:end_tool_arguments:plamo|>",
     .keeps = PLAMO_NAME_END " " PLAMO_ARGUMENTS,
     .signs = {"plamo:begin_tool_request"},
     .ends_reasoning = true,
     .end = BODY_MARK_JSON,
     .head = head_plamo},
    {.names = "minimax_m3 minimax-m3",
     .wrap_open = {MINIMAX_SPACE "<tool_call>"},
     .wrap_close = {MINIMAX_SPACE "</tool_call>"},
     .open = {{.text = MINIMAX_SPACE "<invoke name=", .needs_wrap = true}},
     .close = MINIMAX_SPACE "</invoke>",
     .signs = {MINIMAX_SPACE},
     .read = read_minimax},
    {.names = "step3",
     .wrap_open = {"<｜tool_calls_begin｜>"},
     .wrap_close = {"<｜tool_calls_end｜>"},
     .open = {{.text = "<｜tool_call_begin｜>"}},
     .close = "<｜tool_call_end｜>",
     .keeps = "<｜tool_sep｜>",
     .signs = {"<｜tool_calls_begin｜>"},
     .ends_reasoning = true,
     .elements = &STEP},
    {.names = "kimi_k2 kimi",
     .wrap_open = {"<|tool_calls_section_begin|>"},
     .wrap_close = {"<|tool_calls_section_end|>"},
     .open = {{.text = "<|tool_call_begin|>"}},
     .close = "<|tool_call_end|>",
     .keeps = "<|tool_call_argument_begin|>",
     .signs = {"<|tool_calls_section_begin|>"},
     .ends_reasoning = true,
     .end = BODY_MARK_JSON,
     .head = head_kimi},
    {.names = "mistral",
     .open = {{.text = "[TOOL_CALLS]"}},
     .keeps = "[ARGS] [CALL_ID]",
     .signs = {"[TOOL_CALLS]"},
     .ends_reasoning = true,
     .end = BODY_BALANCE,
     .envelope = ENVELOPE_LOOSE,
     .head = head_mistral},
    {.names = "minimax_m2 minimax-m2",
     .wrap_open = {"<minimax:tool_call>"},
     .wrap_close = {"</minimax:tool_call>"},
     .open = {{.text = "<invoke name=\"", .needs_wrap = true}},
     .close = "</invoke>",
     .signs = {"<minimax:tool_call>"},
     .elements = &MINIMAX},
    {.names = "dots",
     .wrap_open = {"<dots_function_call>"},
     .wrap_close = {"</dots_function_call>"},
     .open = {{.text = "<invoke name=\"", .needs_wrap = true}},
     .close = "</invoke>",
     .signs = {"<dots_function_call>"},
     .elements = &INVOKE},
    {.names = "minicpm5",
     .open = {{.text = "<function name=\"", .known_only = true}},
     .close = "</function>",
     .signs = {"<function name=\"", "<param name=\""},
     .elements = &PARAM},
    {.names = "hy_v3",
     .wrap_open = {"<tool_calls>"},
     .wrap_close = {"</tool_calls>"},
     .open = {{.text = "<tool_call>"}},
     .close = "</tool_call>",
     .keeps = "<tool_sep> <arg_key> </arg_key> <arg_value> </arg_value>",
     .signs = {"<tool_sep>", "<arg_key>"},
     .ends_reasoning = true,
     .elements = &HUNYUAN},
    {.names = "hy_v3_opensource hy_v4",
     .wrap_open = {"<tool_calls:opensource>"},
     .wrap_close = {"</tool_calls:opensource>"},
     .open = {{.text = "<tool_call:opensource>"}},
     .close = "</tool_call:opensource>",
     .keeps = "<tool_sep:opensource> <arg_key:opensource> </arg_key:opensource> <arg_value:opensource> "
              "</arg_value:opensource>",
     .signs = {"':opensource'", "<tool_sep{}>"},
     .ends_reasoning = true,
     .elements = &HUNYUAN_OPEN},
    {.names = "solar_open",
     .wrap_open = {"<|tool_calls|>"},
     .open = {{.text = "<|tool_call:begin|>"}},
     .close = "<|tool_call:end|>",
     .keeps = "<|tool_call:name|> <|tool_call:args|>",
     .signs = {"<|tool_call:begin|>"},
     .ends_reasoning = true,
     .end = BODY_MARK_JSON,
     .head = head_solar},
    {.names = "seed_oss seed",
     .wrap_open = {"<seed:tool_call>"},
     .wrap_close = {"</seed:tool_call>"},
     .open = {{.text = "<function="}},
     .close = "</function>",
     .signs = {"<seed:tool_call>"},
     .head = head_function,
     .elements = &FUNCTION},
    {.names = "gemma4",
     .open = {{.text = "<|tool_call>call:"}, {.text = "<|tool_call>:"}}, /* models forget the word */
     .close = "<tool_call|>",
     .keeps = "<|\"|> <|tool_response>",
     .signs = {"<|tool_call>"},
     .ends_reasoning = true,
     .read = read_gemma,
     .stream = stream_gemma},
    {.names = "functiongemma",
     .open = {{.text = "<start_function_call>call:"}},
     .close = "<end_function_call>",
     .keeps = "<escape>",
     .signs = {"<start_function_call>"},
     .read = read_gemma,
     .stream = stream_gemma},
    {.names = "qwen3_coder qwen3_xml qwen3_5 step3p5 step5 nemotron_v3 nanbeige",
     .wrap_open = {"<tool_call>"},
     .wrap_close = {"</tool_call>"},
     .open = {{.text = "<function="}},
     .close = "</function>",
     .signs = {"<tool_call>", "<function=", "<parameter="},
     .ends_reasoning = true,
     .head = head_function,
     .elements = &FUNCTION},
    {.names = "mimo", /* as qwen3_coder, without the line ends */
     .wrap_open = {"<tool_call>"},
     .wrap_close = {"</tool_call>"},
     .open = {{.text = "<function="}},
     .close = "</function>",
     .ends_reasoning = true,
     .head = head_function,
     .elements = &FUNCTION_RAW},
    {.names = "functionary_v3.2 functionary_v3",
     .open = {{.text = ">>>", .known_only = true}},
     .plain = "all\n",
     .signs = {">>>${recipient}"},
     .end = BODY_BALANCE,
     .may_be = line_may_be,
     .head = head_line},
    {.names = "smollm3",
     .open = {{.text = "<tool_call>"}, {.text = "<code>", .close = "</code>", .known_only = true}},
     .close = "</tool_call>",
     .signs = {"<tool_call>", "<code>", "python_tools"},
     .envelope = ENVELOPE_LOOSE,
     .read = read_python,
     .stream = stream_python},
    {.names = "functionary functionary_v3.1",
     .open = {{.text = "<function="}},
     .close = "</function>",
     .signs = {"<function=", "</function>"},
     .head = head_function,
     .elements = &FUNCTION},
    {.names = "iquest_q1",
     .open = {{.text = "<iquest_tool_call>"}},
     .close = "</iquest_tool_call>",
     .signs = {"<iquest_tool_call>"},
     .elements = &GLM},
    {.names = "glm45 glm47 glm4_moe glm poolside_v1 ling3 spark25",
     .open = {{.text = "<tool_call>"}},
     .close = "</tool_call>",
     .signs = {"<arg_key>", "<tool_call>"},
     .envelope = ENVELOPE_LOOSE,
     .elements = &GLM},
    {.names = "internlm interns1 internlm2",
     .open = {{.text = "<|action_start|><|plugin|>"}, {.text = "<|action_start|> <|plugin|>"}},
     .close = "<|action_end|>",
     .signs = {"<|action_start|>", "<|plugin|>"},
     .envelope = ENVELOPE_LOOSE},
    {.names = "cohere command_a command_r7b cohere_command3 cohere_command4",
     .open = {{.text = "<|START_ACTION|>"}},
     .close = "<|END_ACTION|>",
     .signs = {"<|START_ACTION|>"},
     .ends_reasoning = true,
     .envelope = ENVELOPE_LOOSE},
    {.names = "command_r command_r_plus",
     .open = {{.text = "Action:\n```json"}, {.text = "Action: ```json"}},
     .close = "```",
     .signs = {"Action:", "```json", "tool_name"},
     .envelope = ENVELOPE_LOOSE},
    {.names = "apertus apertus2509",
     .open = {{.text = "<|tools_prefix|>"}},
     .close = "<|tools_suffix|>",
     .signs = {"<|tools_prefix|>"},
     .ends_reasoning = true,
     .envelope = ENVELOPE_KEYED},
    {.names = "lfm2",
     .open = {{.text = "<|tool_call_start|>"}},
     .close = "<|tool_call_end|>",
     .signs = {"List of tools: "},
     .envelope = ENVELOPE_LOOSE,
     .read = read_python,
     .stream = stream_python},
    {.names = "lfm2",
     .open = {{.text = "<|tool_call_start|>"}},
     .close = "<|tool_call_end|>",
     .signs = {"<|tool_call_start|>"},
     .envelope = ENVELOPE_LOOSE,
     .read = read_python,
     .stream = stream_python},
    {.names = "granite granite_3",
     .open = {{.text = "<|tool_call|>"}, {.text = "<tool_call>"}},
     .end = BODY_BALANCE,
     .may_be = json_may_be,
     .signs = {"<|tool_call|>"},
     .envelope = ENVELOPE_LOOSE},
    {.names = "nemotron nemotron_json",
     .open = {{.text = "<TOOLCALL>"}},
     .close = "</TOOLCALL>",
     .signs = {"<TOOLCALL>"},
     .envelope = ENVELOPE_LOOSE},
    {.names = "longcat",
     .open = {{.text = "<longcat_tool_call>"}},
     .close = "</longcat_tool_call>",
     .signs = {"<longcat_tool_call>"},
     .envelope = ENVELOPE_LOOSE},
    {.names = "hunyuan_a13b hunyuan jamba minimax minimax_m1 apriel",
     .open = {{.text = "<tool_calls>"}},
     .close = "</tool_calls>",
     .signs = {"<tool_calls>"},
     .envelope = ENVELOPE_LOOSE},
    {.names = "hermes qwen qwen25 qwen3 qwen3_json ernie45 exaone4 granite4 xlam_qwen trinity",
     .open = {{.text = "<tool_call>"}},
     .close = "</tool_call>",
     .signs = {"<tool_call>"},
     .ends_reasoning = true,
     .envelope = ENVELOPE_LOOSE},
    {.names = "olmo3",
     .open = {{.text = "<function_calls>"}},
     .close = "</function_calls>",
     .signs = {"<function_calls>"},
     .envelope = ENVELOPE_LOOSE,
     .read = read_python,
     .stream = stream_python},
    {.names = "gigachat3 gigachat",
     .open = {{.text = "<|function_call|>"}, {.text = "function call<|role_sep|>"}},
     .end = BODY_BALANCE,
     .may_be = json_may_be,
     .keeps = "<|role_sep|>",
     .signs = {"function call", "<|role_sep|>"},
     .envelope = ENVELOPE_LOOSE},
    {.names = "granite-20b-fc",
     .open = {{.text = "<function_call>"}},
     .end = BODY_BALANCE,
     .may_be = json_may_be,
     .signs = {"<function_call>"},
     .envelope = ENVELOPE_LOOSE},
    {.names = "phi4_mini_json phi4_mini firefunction",
     .open = {{.text = "functools[", .keep = 1}},
     .end = BODY_BALANCE,
     .may_be = json_may_be,
     .signs = {"functools["},
     .envelope = ENVELOPE_LOOSE},
    {.names = "phi4_mini_json", /* the template of Phi-4-mini shows only how tools are given */
     .open = {{.text = "functools[", .keep = 1}},
     .end = BODY_BALANCE,
     .may_be = json_may_be,
     .signs = {"<|tool|>", "<|/tool|>"},
     .envelope = ENVELOPE_LOOSE},
    {.names = "llama4_pythonic",
     .wrap_close = {"<|python_end|>"},
     .open = {{.text = "<|python_start|>"}, {.text = "[", .keep = 1, .start_only = true}},
     .end = BODY_PYTHON,
     .may_be = python_may_be,
     .signs = {"<|header_start|>", "func_name1("},
     .read = read_python,
     .stream = stream_python},
    {.names = "pythonic toolace llama3_pythonic",
     .open = {{.text = "[", .keep = 1, .start_only = true}},
     .end = BODY_PYTHON,
     .may_be = python_may_be,
     .signs = {"func_name1("},
     .read = read_python,
     .stream = stream_python},
    {.names = "llama4_json",
     .wrap_close = {"<|python_end|>"},
     .open = {{.text = "<|python_start|>"}, {.text = "{", .keep = 1, .start_only = true}},
     .end = BODY_BALANCE,
     .may_be = json_may_be,
     .signs = {"<|header_start|>", "\"parameters\""},
     .envelope = ENVELOPE_STRICT},
    {.names = "llama3_json llama3",
     .open = {{.text = "<|python_tag|>"}, {.text = "{", .keep = 1, .known_only = true}},
     .end = BODY_BALANCE,
     .may_be = json_may_be,
     .signs = {"<|python_tag|>"},
     .envelope = ENVELOPE_STRICT},
    {.names = "llama3_json",
     .open = {{.text = "<|python_tag|>"}, {.text = "{", .keep = 1, .known_only = true}},
     .end = BODY_BALANCE,
     .may_be = json_may_be,
     .signs = {"<|start_header_id|>", "\"parameters\""},
     .envelope = ENVELOPE_STRICT},
    {.names = "json_list xlam",
     .wrap_close = {"</tool_call>", "```"},
     .open = {{.text = "[", .keep = 1, .start_only = true},
              {.text = "[TOOL_CALLS]"},
              {.text = "<tool_call>"},
              {.text = "```json\n[", .keep = 1, .known_only = true}},
     .end = BODY_BALANCE,
     .may_be = json_may_be,
     .signs = {"single JSON array", "\"arguments\""},
     .envelope = ENVELOPE_LOOSE},
};
const size_t call_format_count = ARRAY_LEN(call_formats);

/* ---- finding one ---- */

static struct bytes first_name(const char *names) { return bytes_of(names, strcspn(names, " ")); }

static bool has_name(const char *names, struct bytes name) {
    for (; *names; names += strspn(names, " ")) {
        struct bytes one = first_name(names);
        if (bytes_equal(one, name)) return true;
        names += one.len;
    }
    return false;
}

static bool shows(struct bytes source, const char *const *signs) {
    bool any = false;
    for (size_t i = 0; i < PARSE_MARKS && signs[i]; i++) {
        if (find_bytes(source, bytes_str(signs[i]), 0) == SIZE_MAX) return false;
        any = true;
    }
    return any;
}

const struct reasoning_format *reasoning_format_find(struct bytes name) {
    for (size_t i = 0; i < reasoning_format_count; i++)
        if (has_name(reasoning_formats[i].names, name)) return &reasoning_formats[i];
    return NULL;
}

const struct call_format *call_format_find(struct bytes name) {
    for (size_t i = 0; i < call_format_count; i++)
        if (has_name(call_formats[i].names, name)) return &call_formats[i];
    return NULL;
}

const struct reasoning_format *reasoning_format_of_template(struct bytes source) {
    for (size_t i = 0; i < reasoning_format_count; i++)
        if (shows(source, reasoning_formats[i].signs)) return &reasoning_formats[i];
    return NULL;
}

const struct call_format *call_format_of_template(struct bytes source) {
    if (find_bytes(source, bytes_str("tool"), 0) == SIZE_MAX &&
        find_bytes(source, bytes_str("function"), 0) == SIZE_MAX)
        return NULL;
    for (size_t i = 0; i < call_format_count; i++)
        if (shows(source, call_formats[i].signs)) return &call_formats[i];
    return NULL;
}

/* The first name of a row, in static text: rows are few, so each keeps a terminated copy made once. */
static const char *row_name(const char *names, char (*copies)[32], size_t row) {
    struct bytes name = first_name(names);
    memcpy(copies[row], name.data, MIN(name.len, sizeof copies[row] - 1));
    return copies[row];
}

static char reasoning_names[ARRAY_LEN(reasoning_formats)][32], call_names[ARRAY_LEN(call_formats)][32];

/* Before main, so that threads only read. */
__attribute__((constructor)) static void copy_names(void) {
    for (size_t i = 0; i < reasoning_format_count; i++) row_name(reasoning_formats[i].names, reasoning_names, i);
    for (size_t i = 0; i < call_format_count; i++) row_name(call_formats[i].names, call_names, i);
}

const char *reasoning_format_name(const struct reasoning_format *f) {
    return f ? reasoning_names[f - reasoning_formats] : "none";
}
const char *call_format_name(const struct call_format *f) { return f ? call_names[f - call_formats] : "none"; }

static void add_name(const char *name, const char *before, struct buf *out) {
    if (before && !strcmp(name, before)) return; /* two rows of one name */
    if (before) buf_add_str(out, ", ");
    buf_add_str(out, name);
}

void reasoning_format_names(struct buf *out) {
    for (size_t i = 0; i < reasoning_format_count; i++)
        add_name(reasoning_names[i], i ? reasoning_names[i - 1] : NULL, out);
}

void call_format_names(struct buf *out) {
    for (size_t i = 0; i < call_format_count; i++) add_name(call_names[i], i ? call_names[i - 1] : NULL, out);
}

bool reasoning_is_open(const struct reasoning_format *f, struct bytes prompt) {
    while (prompt.len && is_blank(prompt.data[prompt.len - 1])) prompt.len--;
    for (size_t i = 0; f && i < PARSE_MARKS; i++)
        if (f->open[i] && ends_with(prompt, bytes_str(f->open[i]))) return true;
    return false;
}

bool call_is_open(const struct call_format *f, struct bytes prompt) {
    if (!f || !f->plain) return false;
    return ends_with(prompt, bytes_str(f->open[0].text));
}

bool call_format_frames_content(const struct call_format *f) { return f && f->plain; }

/* ---- tokens ---- */

static bool holds(const char *mark, struct bytes token) {
    return mark && find_bytes(bytes_str(mark), token, 0) != SIZE_MAX;
}

static bool any_holds(const char *const *marks, struct bytes token) {
    for (size_t i = 0; i < PARSE_MARKS; i++)
        if (holds(marks[i], token)) return true;
    return false;
}

bool parse_wants_token(const struct parse_config *config, struct bytes token) {
    static const char HARMONY[] = "<|start|> <|end|> <|message|> <|channel|> <|constrain|> <|return|> <|call|>";
    const struct reasoning_format *r = config->reasoning;
    const struct call_format *c = config->calls;
    if (token.len < 3) return false;
    if ((r && r->harmony) || (c && c->harmony)) return holds(HARMONY, token);
    if (r && (any_holds(r->open, token) || any_holds(r->close, token) || any_holds(r->drop, token))) return true;
    if (!c) return false;
    if (any_holds(c->wrap_open, token) || any_holds(c->wrap_close, token)) return true;
    for (size_t i = 0; i < PARSE_MARKS; i++)
        if (holds(c->open[i].text, token)) return true;
    return holds(c->close, token) || holds(c->keeps, token);
}
