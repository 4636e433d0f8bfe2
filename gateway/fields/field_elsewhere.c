/*
 * What a request may say on one path and not on another: a client that says it here would get another answer than it asked for, and
 * never know. So each is refused, with the name that it has here, if there is one.
 *
 * The last table of every set: whoever has a row of that name takes the field.
 */
#include "gateway/fields/field.h"

/* Refused but for values that change nothing. */
#define ELSEWHERE(json, values, hint)                                                              \
    { .name = json, .kind = FIELD_REFUSED, .neutral = values, .instead = hint }
#define EMPTY "false 0 \"\" [] {}"

/* clang-format off */
static const struct field rows[] = {
    /* OpenAI's chats and responses */
    ELSEWHERE("max_completion_tokens", "", "max_tokens"),
    ELSEWHERE("max_output_tokens", "", "max_tokens"),
    ELSEWHERE("top_logprobs", "0", "logprobs"),
    ELSEWHERE("reasoning_effort", "\"none\"", NULL),
    ELSEWHERE("instructions", "\"\"", "messages, with one of the role system"),
    ELSEWHERE("input", EMPTY, "messages or prompt"),
    ELSEWHERE("text", EMPTY, "response_format"),
    ELSEWHERE("truncation", "\"disabled\"", "truncate_prompt_tokens"),
    ELSEWHERE("include", "[]", NULL),
    ELSEWHERE("verbose", "false", NULL),
    ELSEWHERE("background", "false", NULL),
    ELSEWHERE("previous_response_id", "\"\"", NULL),
    ELSEWHERE("conversation", EMPTY, NULL),
    ELSEWHERE("moderation", EMPTY, NULL),
    ELSEWHERE("image", EMPTY, NULL),
    /* Anthropic's */
    ELSEWHERE("stop_sequences", "[]", "stop"),
    ELSEWHERE("thinking", "", "chat_template_kwargs, with enable_thinking"),
    ELSEWHERE("output_config", "{}", "response_format"),
    ELSEWHERE("output_format", "{}", "response_format"),
    ELSEWHERE("container", EMPTY, NULL),
    ELSEWHERE("mcp_servers", "[]", NULL),
    ELSEWHERE("context_management", EMPTY, NULL),
    ELSEWHERE("prefill", EMPTY, NULL),
    ELSEWHERE("fallbacks", EMPTY, NULL),
    /* llama.cpp's infill */
    ELSEWHERE("input_prefix", "\"\"", NULL),
    ELSEWHERE("input_suffix", "\"\"", NULL),
    ELSEWHERE("input_extra", "[]", NULL),
    /* SGLang's generate, TGI's */
    ELSEWHERE("sampling_params", "{}", "the fields in it, beside the others"),
    ELSEWHERE("parameters", "{}", "the fields in it, beside the others"),
    ELSEWHERE("inputs", EMPTY, "messages or prompt"),
    ELSEWHERE("sampling_seed", "", "seed"),
    ELSEWHERE("structural_tag", "\"\"", "response_format"),
    ELSEWHERE("top_logprobs_num", "0", "logprobs"),
    ELSEWHERE("logprob_start_len", "-1", "prompt_logprobs"),
    ELSEWHERE("token_ids_logprob", "[]", NULL),
};

/* Ollama has them in an object of their own. */
#define IN_OPTIONS "options"
static const struct field ollama_rows[] = {
    ELSEWHERE("temperature", "", IN_OPTIONS),
    ELSEWHERE("top_p", "", IN_OPTIONS),
    ELSEWHERE("top_k", "", IN_OPTIONS),
    ELSEWHERE("min_p", "", IN_OPTIONS),
    ELSEWHERE("top_n_sigma", "", IN_OPTIONS),
    ELSEWHERE("presence_penalty", "0", IN_OPTIONS),
    ELSEWHERE("frequency_penalty", "0", IN_OPTIONS),
    ELSEWHERE("repetition_penalty", "1", "options.repeat_penalty"),
    ELSEWHERE("seed", "", IN_OPTIONS),
    ELSEWHERE("stop", "[]", IN_OPTIONS),
    ELSEWHERE("max_tokens", "", "options.num_predict"),
    ELSEWHERE("max_completion_tokens", "", "options.num_predict"),
    ELSEWHERE("max_output_tokens", "", "options.num_predict"),
    ELSEWHERE("min_tokens", "0", NULL),
    ELSEWHERE("n", "1", NULL),
    ELSEWHERE("logit_bias", EMPTY, NULL),
    ELSEWHERE("stop_token_ids", "[]", NULL),
    ELSEWHERE("include_stop_str_in_output", "false", NULL),
    ELSEWHERE("skip_special_tokens", "true", NULL),
    ELSEWHERE("add_special_tokens", "", NULL),
    ELSEWHERE("ignore_eos", "false", NULL),
    ELSEWHERE("return_token_ids", "false", NULL),
    ELSEWHERE("tool_choice", "\"auto\"", NULL),
    ELSEWHERE("documents", "[]", NULL),
    ELSEWHERE("chat_template", "\"\"", NULL),
    ELSEWHERE("chat_template_kwargs", "{}", "think"),
    ELSEWHERE("reasoning_effort", "\"none\"", "think"),
    ELSEWHERE("text", EMPTY, "format"),
    ELSEWHERE("stop_sequences", "[]", "options.stop"),
    ELSEWHERE("thinking", "", "think"),
    ELSEWHERE("timeout", "0", NULL),
    ELSEWHERE("priority", "0", NULL),
    ELSEWHERE("cache_salt", "\"\"", NULL),
};
/* clang-format on */

const struct field_table field_elsewhere = {rows, ARRAY_LEN(rows)};
const struct field_table field_elsewhere_ollama = {ollama_rows, ARRAY_LEN(ollama_rows)};
