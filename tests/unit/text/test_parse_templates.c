/* Formats by template: each known template is given its parser, and the parser reads the calls that
 * the template writes. */
#include "base/vec.h"
#include "check.h"
#include "golden.h"
#include "text/chat.h"
#include "text/parse/parse.h"

#define TOOLS                                                                                      \
    "[{\"type\": \"function\", \"function\": {\"name\": \"get_weather\", \"description\": \"d\", " \
    "\"parameters\": "                                                                             \
    "{\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\", \"description\": "   \
    "\"c\"}, \"days\": "                                                                           \
    "{\"type\": \"integer\", \"description\": \"n\"}}, \"required\": [\"city\"]}}}]"
#define QUESTION "Will it rain?"
#define USER     "{\"role\": \"user\", \"content\": \"" QUESTION "\"}"
#define ANSWER                                                                                     \
    "{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{\"id\": \"123456789\", "       \
    "\"type\": \"function\", "                                                                     \
    "\"function\": {\"name\": \"get_weather\", \"arguments\": \"{\\\"city\\\": \\\"Paris\\\", "    \
    "\\\"days\\\": 2}\"}}]}"
#define RESULT                                                                                     \
    "{\"role\": \"tool\", \"tool_call_id\": \"123456789\", \"name\": \"get_weather\", "            \
    "\"content\": \"sun\"}"

static const struct {
    const char *file, *reasoning, *calls;
    bool no_trip; /* the template does not write calls, or not as the model does */
} templates[] = {
    {"llama.cpp/Apertus-8B-Instruct.jinja", "apertus", "apertus", false},
    {"llama.cpp/Apriel-1.6-15b-Thinker-fixed.jinja", "apriel", "hunyuan_a13b", false},
    {"llama.cpp/Bielik-11B-v3.0-Instruct.jinja", "think", "hermes", false},
    {"llama.cpp/ByteDance-Seed-OSS.jinja", "seed_oss", "seed_oss", false},
    {"llama.cpp/Cohere2MoE.jinja", "cohere", "cohere", false},
    {"llama.cpp/CohereForAI-c4ai-command-r-plus-tool_use.jinja", "none", "command_r", false},
    {"llama.cpp/CohereForAI-c4ai-command-r7b-12-2024-tool_use.jinja", "cohere", "cohere", false},
    {"llama.cpp/GLM-4.6.jinja", "think", "glm45", false},
    {"llama.cpp/GLM-4.7-Flash.jinja", "think", "glm45", false},
    {"llama.cpp/GLM-5.2.jinja", "think", "glm45", false},
    {"llama.cpp/GigaChat3-10B-A1.8B.jinja", "none", "gigachat3", false},
    {"llama.cpp/GigaChat3.1-10B-A1.8B.jinja", "none", "gigachat3", false},
    {"llama.cpp/HuggingFaceTB-SmolLM3-3B.jinja", "think", "none", true},
    {"llama.cpp/Kimi-K2-Instruct.jinja", "none", "kimi_k2", true},
    {"llama.cpp/Kimi-K2-Thinking.jinja", "think", "kimi_k2", true},
    {"llama.cpp/LFM2-8B-A1B.jinja", "none", "lfm2", true},
    {"llama.cpp/LFM2.5-Instruct.jinja", "think", "lfm2", true},
    {"llama.cpp/MiMo-VL.jinja", "none", "hermes", false},
    {"llama.cpp/Mistral-Small-3.2-24B-Instruct-2506.jinja", "none", "mistral", false},
    {"llama.cpp/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.jinja", "think", "qwen3_coder", false},
    {"llama.cpp/NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use.jinja", "none", "hermes", false},
    {"llama.cpp/Qwen-QwQ-32B.jinja", "think", "hermes", false},
    {"llama.cpp/Qwen-Qwen2.5-7B-Instruct.jinja", "none", "hermes", false},
    {"llama.cpp/Qwen-Qwen3-0.6B.jinja", "think", "hermes", false},
    {"llama.cpp/Qwen3-Coder.jinja", "none", "qwen3_coder", false},
    {"llama.cpp/Qwen3.5-4B.jinja", "think", "qwen3_coder", false},
    {"llama.cpp/Reka-Edge.jinja", "think", "hermes", false},
    {"llama.cpp/StepFun3.5-Flash.jinja", "think", "qwen3_coder", false},
    {"llama.cpp/deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja", "think", "deepseek_v3", false},
    {"llama.cpp/deepseek-ai-DeepSeek-V3.1.jinja", "think", "deepseek_v3", false},
    {"llama.cpp/deepseek-ai-DeepSeek-V3.2.jinja", "think", "deepseek_v32", false},
    {"llama.cpp/deepseek-ai-DeepSeek-V4.jinja", "think", "deepseek_v32", false},
    {"llama.cpp/fireworks-ai-llama-3-firefunction-v2.jinja", "none", "phi4_mini_json", true},
    {"llama.cpp/google-gemma-2-2b-it.jinja", "none", "none", true},
    {"llama.cpp/google-gemma-4-31B-it.jinja", "gemma4", "gemma4", false},
    {"llama.cpp/ibm-granite-granite-3.3-2B-Instruct.jinja", "granite3.3", "granite", true},
    {"llama.cpp/llama-cpp-deepseek-r1.jinja", "think", "deepseek_v3", true},
    {"llama.cpp/meetkai-functionary-medium-v3.2.jinja", "none", "functionary_v3.2", true},
    {"llama.cpp/meetkai-functionary-medium-v3.1.jinja", "none", "functionary", false},
    {"llama.cpp/meta-llama-Llama-3.1-8B-Instruct.jinja", "none", "llama3_json", false},
    {"llama.cpp/meta-llama-Llama-3.2-3B-Instruct.jinja", "none", "llama3_json", false},
    {"llama.cpp/meta-llama-Llama-3.3-70B-Instruct.jinja", "none", "llama3_json", false},
    {"llama.cpp/microsoft-Phi-3.5-mini-instruct.jinja", "none", "none", true},
    {"llama.cpp/mistralai-Ministral-3-14B-Reasoning-2512.jinja", "mistral", "mistral", false},
    {"llama.cpp/mistralai-Mistral-Nemo-Instruct-2407.jinja", "none", "mistral", false},
    {"llama.cpp/moonshotai-Kimi-K2.jinja", "none", "kimi_k2", false},
    {"llama.cpp/openai-gpt-oss-120b.jinja", "harmony", "harmony", true},
    {"llama.cpp/unsloth-Apriel-1.5.jinja", "apriel", "hunyuan_a13b", false},
    {"llama.cpp/unsloth-mistral-Devstral-Small-2507.jinja", "none", "mistral", false},
    {"ollama-renderers/laguna_v8_chat_template.jinja2", "think", "glm45", false},
    {"ollama-renderers/nemotron35_chat_template.jinja2", "think", "qwen3_coder", false},
    {"ollama-renderers/qwen38_chat_template.jinja", "think", "qwen3_coder", false},
    {"vllm/examples/tool_chat_template_deepseekr1.jinja", "think", "deepseek_v3", false},
    {"vllm/examples/tool_chat_template_deepseekv3.jinja", "none", "deepseek_v3", false},
    {"vllm/examples/tool_chat_template_deepseekv31.jinja", "think", "deepseek_v3", false},
    {"vllm/examples/tool_chat_template_functiongemma.jinja", "none", "functiongemma", true},
    {"vllm/examples/tool_chat_template_gemma3_pythonic.jinja", "none", "pythonic", true},
    {"vllm/examples/tool_chat_template_granite.jinja", "none", "granite", true},
    {"vllm/examples/tool_chat_template_granite_20b_fc.jinja", "none", "granite-20b-fc", false},
    {"vllm/examples/tool_chat_template_hermes.jinja", "none", "hermes", false},
    {"vllm/examples/tool_chat_template_hunyuan_a13b.jinja", "think", "hunyuan_a13b", false},
    {"vllm/examples/tool_chat_template_internlm2_tool.jinja", "none", "internlm", false},
    {"vllm/examples/tool_chat_template_llama3.1_json.jinja", "none", "llama3_json", false},
    {"vllm/examples/tool_chat_template_llama3.2_json.jinja", "none", "llama3_json", false},
    {"vllm/examples/tool_chat_template_llama3.2_pythonic.jinja", "none", "pythonic", true},
    {"vllm/examples/tool_chat_template_llama4_json.jinja", "none", "llama4_json", false},
    {"vllm/examples/tool_chat_template_llama4_pythonic.jinja", "none", "llama4_pythonic", true},
    {"vllm/examples/tool_chat_template_minimax_m1.jinja", "none", "hunyuan_a13b", false},
    {"vllm/examples/tool_chat_template_mistral.jinja", "none", "mistral", false},
    {"vllm/examples/tool_chat_template_mistral3.jinja", "none", "mistral", false},
    {"vllm/examples/tool_chat_template_mistral_parallel.jinja", "none", "mistral", false},
    {"vllm/examples/tool_chat_template_phi4_mini.jinja", "none", "phi4_mini_json", true},
    {"vllm/examples/tool_chat_template_qwen3coder.jinja", "none", "qwen3_coder", false},
    {"vllm/examples/tool_chat_template_toolace.jinja", "none", "pythonic", true},
    {"vllm/examples/tool_chat_template_xlam_llama.jinja", "none", "json_list", true},
    {"vllm/examples/tool_chat_template_xlam_qwen.jinja", "none", "json_list", true},
};

static struct buf calls;
static void on_text(void *ctx, enum parse_channel part, struct bytes text) {
    (void)ctx, (void)part, (void)text;
}
static void on_call(void *ctx, const struct parse_call *c) {
    (void)ctx;
    buf_addf(&calls, "%.*s", (int)c->name.len, (const char *)c->name.data);
    for (size_t i = 0; i < c->arguments.len; i++)
        if (c->arguments.data[i] != ' ' && c->arguments.data[i] != '\n')
            buf_add_byte(&calls, (char)c->arguments.data[i]);
}

/* What the parser finds in text. */
static const char *found(const struct call_format *f, struct bytes text) {
    const struct parse_sink sink = {on_text, on_call, NULL};
    struct parse_tools *tools;
    struct error err;
    if (parse_tools_new(bytes_str(TOOLS), &tools, &err))
        return "bad tools";
    struct parse_config config = {.calls = f, .tools = tools};
    struct parser *p = parser_new(&config);
    buf_reset(&calls);
    parser_push(p, text, &sink);
    parser_end(p, &sink);
    parser_free(&p);
    parse_tools_free(&tools);
    return buf_text(&calls);
}

static const char *render(struct chat *chat, const char *messages, bool generate) {
    static struct buf out;
    struct error err;
    struct chat_request request = {.messages = bytes_str(messages),
                                   .tools = bytes_str(TOOLS),
                                   .add_generation_prompt = generate};
    buf_reset(&out);
    if (chat_render(chat, &request, &out, &err)) {
        buf_addf(&out, "error: %s", err.text);
    }
    return buf_text(&out);
}

/* What the template makes of the assistant's turn, to the end of its call. */
static struct bytes answer_text(struct chat *chat) {
    const char *prompt = render(chat, "[" USER "]", true);
    size_t prompt_len = strlen(prompt), common = 0;
    char *copy = mem_strdup(prompt);
    const char *all = render(chat, "[" USER ", " ANSWER ", " RESULT "]", false);
    if (strncmp(all, "error", 5) == 0)
        all = render(chat, "[" USER ", " ANSWER "]", false);
    while (common < prompt_len && all[common] == copy[common])
        common++;
    while (common && !strchr(">\n]", copy[common - 1]))
        common--; /* not within a mark */
    mem_free(copy);
    return bytes_str(all + common);
}

TEST(templates_are_given_their_formats) {
    if (!check_shared("chat_templates"))
        SKIP("shared", "chat_templates");
    for (size_t i = 0; i < ARRAY_LEN(templates); i++) {
        char path[256];
        snprintf(path, sizeof path, "chat_templates/%s", templates[i].file);
        struct buf source = golden_read(check_shared(path));
        const char *reasoning =
                       reasoning_format_name(reasoning_format_of_template(buf_bytes(&source))),
                   *call = call_format_name(call_format_of_template(buf_bytes(&source)));
        bool ok = !strcmp(reasoning, templates[i].reasoning) && !strcmp(call, templates[i].calls);
        if (!ok)
            printf("# %s: %s %s\n", templates[i].file, reasoning, call);
        if (!ok)
            check_fail(__FILE__, __LINE__, "%s", path);
        buf_release(&source);
    }
}

TEST(parsers_read_what_templates_write) {
    if (!check_shared("chat_templates"))
        SKIP("shared", "chat_templates");
    struct bundle_file config = {
        bytes_str("tokenizer_config.json"),
        bytes_str("{\"chat_template\": \"x\", \"bos_token\": \"<s>\", \"eos_token\": \"</s>\"}")};
    struct buf packed = {0};
    struct bundle bundle;
    struct chat *chat;
    struct error err;
    EXPECT(!bundle_pack_files(&config, 1, &packed, &err) &&
           !bundle_open(&bundle, buf_bytes(&packed), &err) && !chat_load(&bundle, &chat, &err));
    for (size_t i = 0; i < ARRAY_LEN(templates); i++) {
        char path[256];
        if (templates[i].no_trip)
            continue;
        snprintf(path, sizeof path, "chat_templates/%s", templates[i].file);
        struct buf source = golden_read(check_shared(path));
        EXPECT(!chat_set_template(chat, buf_bytes(&source), &err));
        struct bytes text = answer_text(chat);
        const char *got = found(call_format_of_template(buf_bytes(&source)), text);
        bool ok = !strcmp(got, "get_weather{\"city\":\"Paris\",\"days\":2}");
        if (!ok)
            printf("# %s: '%s' from: %.*s\n", templates[i].file, got, (int)MIN(text.len, 300),
                   (const char *)text.data);
        if (!ok)
            check_fail(__FILE__, __LINE__, "%s", path);
        buf_release(&source);
    }
    chat_free(&chat);
    buf_release(&packed);
}
