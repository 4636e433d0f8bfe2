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
    /* vLLM's responses */
    ELSEWHERE("previous_input_messages", "[]", "input"),
    ELSEWHERE("previous_response_messages", "[]", "input"),
    ELSEWHERE("enable_response_messages", "false", NULL),
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
    ELSEWHERE("max_tokens_to_sample", "", "max_tokens"),
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
    ELSEWHERE("video_data", EMPTY, NULL),
    ELSEWHERE("audio_data", EMPTY, NULL),
    ELSEWHERE("lora_id", EMPTY, NULL),
    ELSEWHERE("task", "\"\"", NULL), /* of DeepSeek-V4 */
    ELSEWHERE("return_generation_logits", "false", NULL), /* TensorRT-LLM's */
    ELSEWHERE("return_entropy", "false", NULL),
    ELSEWHERE("return_bytes", "false", NULL),
    ELSEWHERE("return_indexer_topk", "false", NULL),
    /* of generate() in Hugging Face's transformers */
    ELSEWHERE("num_beams", "0 1", NULL),
    ELSEWHERE("num_return_sequences", "1", "n"),
    ELSEWHERE("no_repeat_ngram_size", "0", NULL),
    ELSEWHERE("bad_words_ids", "[]", "bad_words"),
    ELSEWHERE("max_length", "", "max_tokens"),
    ELSEWHERE("min_length", "0", "min_tokens"),
    ELSEWHERE("max_time", "", NULL),
    ELSEWHERE("penalty_alpha", "0", NULL),
    ELSEWHERE("epsilon_cutoff", "0", NULL),
    ELSEWHERE("eta_cutoff", "0", NULL),
    ELSEWHERE("diversity_penalty", "0", NULL),
    ELSEWHERE("guidance_scale", "1", NULL),
    /* Ollama's, of pictures, and of prompts */
    ELSEWHERE("_debug_render_only", "false", "POST /apply-template"),
    ELSEWHERE("width", "0", NULL),
    ELSEWHERE("height", "0", NULL),
    ELSEWHERE("steps", "0", NULL),
};

/* Embeddings, and texts that are compared. */
static const struct field text_rows[] = {
    ELSEWHERE("messages", "[]", NULL),
    ELSEWHERE("chat_template", "\"\"", NULL),
    ELSEWHERE("chat_template_kwargs", "{}", NULL),
    ELSEWHERE("score_template", "\"\"", NULL),
    ELSEWHERE("add_special_tokens", "true", NULL),
    ELSEWHERE("dimensions", "", NULL),
    ELSEWHERE("output_dimension", "", "dimensions"),
    ELSEWHERE("encoding_format", "\"float\"", NULL),
    ELSEWHERE("embedding_type", "\"float\"", "encoding_format"),
    ELSEWHERE("embedding_types", "[\"float\"]", "encoding_format"),
    ELSEWHERE("output_dtype", "\"float\"", "encoding_format"),
    ELSEWHERE("normalize", "", NULL),
    ELSEWHERE("normalized", "", "normalize"),
    ELSEWHERE("use_activation", "", NULL),
    ELSEWHERE("embd_normalize", "", NULL),
    ELSEWHERE("truncate_prompt_tokens", "", NULL),
    ELSEWHERE("truncation_side", "\"right\"", NULL),
    ELSEWHERE("truncate", "false \"NONE\"", "truncate_prompt_tokens"),
    ELSEWHERE("truncation", "false", "truncate_prompt_tokens"),
    ELSEWHERE("late_chunking", "false", NULL),
    ELSEWHERE("input_type", "", NULL),
    ELSEWHERE("task", "\"embed\"", NULL),
    ELSEWHERE("prompt_name", "", NULL),
    ELSEWHERE("instruction", "\"\"", NULL),
    ELSEWHERE("images", EMPTY, NULL),
    ELSEWHERE("image_data", EMPTY, NULL),
    ELSEWHERE("lora_path", EMPTY, NULL),
    ELSEWHERE("top_k", "", "top_n"),
    ELSEWHERE("top_n", "", NULL),
    ELSEWHERE("return_documents", "false", NULL),
    ELSEWHERE("return_text", "false", NULL),
    ELSEWHERE("return_embeddings", "false", NULL),
    ELSEWHERE("rank_fields", "[]", NULL),
    ELSEWHERE("max_tokens_per_doc", "", NULL),
    ELSEWHERE("max_chunks_per_doc", "", NULL),
    ELSEWHERE("overlap_tokens", "0", NULL),
};

/* Ollama has them in an object of their own. */
#define IN_OPTIONS "options"
static const struct field ollama_rows[] = {
    ELSEWHERE("top_n_sigma", "", IN_OPTIONS),
    ELSEWHERE("presence_penalty", "0", IN_OPTIONS),
    ELSEWHERE("frequency_penalty", "0", IN_OPTIONS),
    ELSEWHERE("repetition_penalty", "1", "options.repeat_penalty"),
    ELSEWHERE("seed", "", IN_OPTIONS),
    ELSEWHERE("stop", "[]", IN_OPTIONS),
    ELSEWHERE("max_completion_tokens", "", "options.num_predict"),
    ELSEWHERE("min_tokens", "0", NULL),
    ELSEWHERE("n", "1", NULL),
    ELSEWHERE("logit_bias", EMPTY, NULL),
    ELSEWHERE("stop_token_ids", "[]", NULL),
    ELSEWHERE("include_stop_str_in_output", "false", NULL),
    ELSEWHERE("skip_special_tokens", "true", NULL),
    ELSEWHERE("add_special_tokens", "", NULL),
    ELSEWHERE("ignore_eos", "false", NULL),
    ELSEWHERE("return_token_ids", "false", NULL),
    ELSEWHERE("tool_choice", "\"auto\" \"none\"", NULL), /* of prompts, which have no tools */
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
    ELSEWHERE("parallel_tool_calls", "true", NULL),
    ELSEWHERE("continue_final_message", "false", NULL),
    ELSEWHERE("add_generation_prompt", "true", NULL),
    ELSEWHERE("include_reasoning", "true", NULL),
    ELSEWHERE("separate_reasoning", "true", NULL),
};
#define BESIDE "the field of that name beside options"
static const struct field options_rows[] = {
    ELSEWHERE("max_tokens", "", "num_predict"),
    ELSEWHERE("max_completion_tokens", "", "num_predict"),
    ELSEWHERE("repetition_penalty", "1", "repeat_penalty"),
    ELSEWHERE("stop_sequences", "[]", "stop"),
    ELSEWHERE("n", "1", NULL),
    ELSEWHERE("logit_bias", EMPTY, NULL),
    ELSEWHERE("format", EMPTY, BESIDE),
    ELSEWHERE("response_format", "{}", "format, beside options"),
    ELSEWHERE("grammar", "\"\"", BESIDE),
    ELSEWHERE("tools", "[]", BESIDE),
    ELSEWHERE("think", "", BESIDE),
    ELSEWHERE("logprobs", "false", BESIDE),
    ELSEWHERE("top_logprobs", "0", BESIDE),
    ELSEWHERE("stream", "", BESIDE),
    ELSEWHERE("rope_frequency_base", "0", NULL),
    ELSEWHERE("rope_frequency_scale", "0", NULL),
};
/* clang-format on */

const struct field_table field_elsewhere = {rows, ARRAY_LEN(rows)};
const struct field_table field_elsewhere_texts = {text_rows, ARRAY_LEN(text_rows)};
const struct field_table field_elsewhere_ollama = {ollama_rows, ARRAY_LEN(ollama_rows)};
const struct field_table field_elsewhere_options = {options_rows, ARRAY_LEN(options_rows)};
