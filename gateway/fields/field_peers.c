/*
 * What other servers' references have and this one does not do: every field of OpenAI's, vLLM's,
 * SGLang's, llama.cpp's, TensorRT-LLM's, LMDeploy's, TGI's, mistral.rs's and Ollama's requests that
 * would change the text is refused by its name, unless its value says what happens anyway. Their
 * other names for fields of ours do what they say. What asks for something in the answer that it
 * would not have is refused, too. What changes neither passes.
 */
#include "gateway/fields/field.h"
#include "grammar/finder.h"
#include "http/http_server.h"

/* llama.cpp: below 0 as many as fit. */
static int read_predict(struct field_reader *r, enum json_event first) {
    int64_t asked;
    if (field_int(r, first, -2, WIRE_MAX_TOKENS, &asked))
        return -1;
    asked = MAX(asked, -1);
    if (r->g->given & GENREQ_MAX_TOKENS && asked != r->g->max_tokens)
        return field_disagrees(r);
    r->g->given |= GENREQ_MAX_TOKENS;
    r->g->max_tokens = asked;
    return 0;
}

/* vLLM's and SGLang's: what X-Request-Id says elsewhere. */
int field_request_id(struct field_reader *r, enum json_event first) {
    struct bytes id;
    if (field_string(r, first, HTTP_REQUEST_ID_MAX, &id))
        return -1;
    if (!http_is_request_id(id))
        return api_error_set(r->err, API_BAD_REQUEST, r->name,
                             "'%s' must be 1 to %d letters, digits and -._~:/+=@", r->name,
                             HTTP_REQUEST_ID_MAX);
    if (r->g->request_id.len && !bytes_equal(r->g->request_id, id))
        return field_disagrees(r);
    r->g->request_id = id;
    return 0;
}

/* OpenAI's; there is one tier here. */
static int read_tier(struct field_reader *r, enum json_event first) {
    struct bytes tier;
    if (field_string(r, first, GENREQ_NAME_MAX, &tier))
        return -1;
    r->g->service_tier = true;
    return 0;
}

/* SGLang's: patterns at which the answer ends: one, where an empty one is none, or an array. */
static int read_stop_patterns(struct field_reader *r, enum json_event first) {
    if (first == JSON_STRING && r->json.text.len == 0)
        return 0;
    return field_string_or_strings(r, first, GENREQ_STOP_PATTERNS_MAX, FINDER_BYTES_MAX,
                                   &r->g->stop_patterns, &r->g->stop_pattern_count);
}

/* Of Hugging Face's kin: false takes the likeliest token. */
static int read_do_sample(struct field_reader *r, enum json_event first) {
    bool samples;
    if (field_bool(r, first, &samples))
        return -1;
    r->g->greedy |= !samples;
    return 0;
}

static int read_reasoning_format(struct field_reader *r, enum json_event first) {
    if (first != JSON_STRING)
        return field_wrong_type(r, "a string", first);
    bool none = bytes_equal(r->json.text, bytes_str("none"));
    if (!none && !bytes_equal(r->json.text, bytes_str("auto")) &&
        !bytes_equal(r->json.text, bytes_str("deepseek")))
        return api_error_set(r->err, API_UNSUPPORTED, r->name,
                             "'%s' must be none, auto or deepseek here", r->name);
    r->g->separate_reasoning = !none;
    return 0;
}

/* NVIDIA Dynamo's object of fields that are no OpenAI's. */
static int read_nvext(struct field_reader *r, enum json_event first);

/* NEUTRAL: values that change nothing, so they are taken. */
/* Only null is taken. */
#define NEVER_FIELD(json) NEUTRAL_FIELD(json, "")

/* clang-format off */
static const struct field rows[] = {
    /* other names */
    CUSTOM_ALIAS("n_predict", "max_tokens", read_predict),
    CUSTOM_ALIAS("num_predict", "max_tokens", read_predict),
    INT_ALIAS("max_new_tokens", "max_tokens", max_tokens, 0, WIRE_MAX_TOKENS, GENREQ_MAX_TOKENS),
    INT_ALIAS("min_new_tokens", "min_tokens", min_tokens, 0, WIRE_MAX_TOKENS, GENREQ_MIN_TOKENS),
    INT_ALIAS("n_cmpl", "n", choice_count, 1, GENREQ_CHOICES_MAX, GENREQ_CHOICE_COUNT),
    NUMBER_ALIAS("repeat_penalty", "repetition_penalty", repetition_penalty, 0.01, 100, GENREQ_REPETITION),
    INT_FIELD("repeat_last_n", penalty_window, -1, INT32_MAX, GENREQ_PENALTY_WINDOW),
    STRING_ALIAS_ONCE("extra_key", "cache_salt", cache_salt, GENREQ_SALT_MAX, GENREQ_CACHE_SALT),
    BOOL_ALIAS("no_stop_trim", "include_stop_str_in_output", include_stop_text, 0),
    CUSTOM_FIELD("reasoning_format", read_reasoning_format),

    /* samplers */
    NUMBER_FIELD("typical_p", typical_p, 0, 1, 0),
    NEUTRAL_FIELD("tfs_z", "1"),
    NEUTRAL_FIELD("top_p_min", "0"),
    NEUTRAL_FIELD("min_keep", "0 1"),
    NUMBER_FIELD("dynatemp_range", dynatemp_range, 0, 2, 0),
    NUMBER_FIELD("dynatemp_exponent", dynatemp_exponent, 0, 100, 0),
    NUMBER_FIELD("xtc_probability", xtc_probability, -1000, 1, 0),
    NUMBER_FIELD("xtc_threshold", xtc_threshold, 0, 1, 0),
    NUMBER_FIELD("dry_multiplier", dry_multiplier, 0, 100, 0),
    NUMBER_FIELD("dry_base", dry_base, 1, 100, 0),
    INT_FIELD("dry_allowed_length", dry_allowed_length, 1, WIRE_MAX_TOKENS, 0),
    INT_FIELD("dry_penalty_last_n", dry_window, -1, INT32_MAX, 0),
    CUSTOM_FIELD("dry_sequence_breakers", field_breakers),
    CUSTOM_FIELD("mirostat", field_mirostat),
    NUMBER_FIELD("mirostat_tau", mirostat_tau, 0, 100, 0),
    NUMBER_FIELD("mirostat_eta", mirostat_eta, 0, 1, 0),
    NUMBER_FIELD("adaptive_target", adaptive_target, -1000, 1, 0),
    NUMBER_FIELD("adaptive_decay", adaptive_decay, 0, 0.99, 0),
    CUSTOM_FIELD("samplers", field_sampler_order),
    CUSTOM_FIELD("do_sample", read_do_sample),
    REFUSED_FIELD("repetition_ngram_size"),
    REFUSED_FIELD("prompt_ignore_length"),
    REFUSED_FIELD("repetition_detection"),
    REFUSED_FIELD("use_beam_search"),
    NEUTRAL_FIELD("best_of", "0 1"),
    CUSTOM_FIELD("bad_words", field_bad_words),
    CUSTOM_FIELD("allowed_token_ids", field_allowed_ids),
    REFUSED_FIELD("logits_processors"),
    REFUSED_FIELD("custom_logit_processor"),
    REFUSED_FIELD("custom_params"),
    REFUSED_FIELD("vllm_xargs"),
    REFUSED_FIELD("watermark"),
    REFUSED_FIELD("watermarking"),
    /* that only say how those above do it */
    PASSED_FIELD("repetition_ngram_threshold"),
    PASSED_FIELD("length_penalty"),
    PASSED_FIELD("early_stopping"),

    /* constraints */
    NEVER_FIELD("guided_whitespace_pattern"),
    REFUSED_FIELD("grammar_lazy"),
    REFUSED_FIELD("preserved_tokens"),
    PASSED_FIELD("guided_decoding_backend"),
    PASSED_FIELD("grammar_triggers"),

    /* what is put in, what is left out */
    REFUSED_FIELD("echo"),
    REFUSED_FIELD("return_full_text"),
    REFUSED_FIELD("suffix"),
    REFUSED_FIELD("prompt_embeds"),
    REFUSED_FIELD("input_ids"),
    REFUSED_FIELD("input_embeds"),
    REFUSED_FIELD("image_data"),
    REFUSED_FIELD("images"),
    REFUSED_FIELD("multimodal_data"),
    REFUSED_FIELD("audio"),
    NEUTRAL_FIELD("modalities", "[\"text\"]"),
    CUSTOM_FIELD("truncate_prompt_tokens", field_truncate),
    NEVER_FIELD("truncate"),
    REFUSED_FIELD("truncate_sequence"),
    CUSTOM_FIELD("truncation_side", field_truncation_side),
    REFUSED_FIELD("n_indent"),
    REFUSED_FIELD("session_params"),
    REFUSED_FIELD("context"),
    REFUSED_FIELD("system"),
    REFUSED_FIELD("template"),
    REFUSED_FIELD("raw"),
    REFUSED_FIELD("options"),
    NEUTRAL_FIELD("do_preprocess", "true"),
    NEUTRAL_FIELD("detokenize", "true"),
    CUSTOM_FIELD("stop_regex", read_stop_patterns),
    INT_FIELD("t_max_predict_ms", predict_ms, INT32_MIN, INT32_MAX, 0),
    NEVER_FIELD("prompt_logprobs"),

    /* reasoning, style, other sources */
    NEVER_FIELD("think"),
    NEVER_FIELD("enable_thinking"),
    NEUTRAL_FIELD("reasoning", "{}"),
    NEUTRAL_FIELD("thinking_token_budget", "-1"),
    NEUTRAL_FIELD("thinking_budget_tokens", "-1"),
    NEUTRAL_FIELD("reasoning_budget", "-1"),
    NEUTRAL_FIELD("reasoning_budget_tokens", "-1"),
    NEUTRAL_FIELD("reasoning_budget_message", "\"\""),
    REFUSED_FIELD("reasoning_budget_start_tag"),
    REFUSED_FIELD("reasoning_budget_end_tag"),
    REFUSED_FIELD("reasoning_budget_end_tags"),
    NEUTRAL_FIELD("parse_tool_calls", "true"),
    NEUTRAL_FIELD("chat_parser", "\"\""),
    NEUTRAL_FIELD("generation_prompt", "\"\""),
    REFUSED_FIELD("reasoning_control"),
    NEUTRAL_FIELD("stream_reasoning", "true"),
    NEUTRAL_FIELD("verbosity", "\"medium\""),
    NEVER_FIELD("web_search_options"),
    REFUSED_FIELD("functions"),
    NEUTRAL_FIELD("function_call", "\"none\" \"auto\""),

    /* other weights, other engines */
    REFUSED_FIELD("lora"),
    REFUSED_FIELD("lora_path"),
    REFUSED_FIELD("lora_request"),
    REFUSED_FIELD("adapter"),
    REFUSED_FIELD("adapter_id"),
    REFUSED_FIELD("kv_transfer_params"),
    REFUSED_FIELD("ec_transfer_params"),
    REFUSED_FIELD("disaggregated_params"),
    NEVER_FIELD("ngram_corpus_id"),

    /* members of the answer that it would not have */
    REFUSED_FIELD("logprob_token_ids"),
    REFUSED_FIELD("return_token_offsets"),
    REFUSED_FIELD("return_prompt_text"),
    REFUSED_FIELD("return_hidden_states"),
    REFUSED_FIELD("return_routed_experts"),
    REFUSED_FIELD("return_prompt_token_ids"),
    REFUSED_FIELD("return_cached_tokens_details"),
    REFUSED_FIELD("return_meta_info"),
    REFUSED_FIELD("return_context_logits"),
    REFUSED_FIELD("return_logprob"),
    REFUSED_FIELD("n_probs"),
    REFUSED_FIELD("top_n_tokens"),
    REFUSED_FIELD("decoder_input_details"),
    REFUSED_FIELD("details"),
    REFUSED_FIELD("post_sampling_probs"),
    REFUSED_FIELD("response_fields"),

    /* of the answer's form or of nobody's concern: no text changes */
    PASSED_FIELD("prediction"), /* makes the same text faster elsewhere */
    PASSED_FIELD("store"),
    PASSED_FIELD("metadata"),
    CUSTOM_FIELD("service_tier", read_tier),
    PASSED_FIELD("safety_identifier"),
    PASSED_FIELD("prompt_cache_key"),
    PASSED_FIELD("prompt_cache_retention"),
    PASSED_FIELD("prompt_cache_options"),
    PASSED_FIELD("spaces_between_special_tokens"),
    CUSTOM_FIELD("request_id", field_request_id),
    CUSTOM_ALIAS("rid", "request_id", field_request_id),
    PASSED_FIELD("session_id"),
    PASSED_FIELD("conversation_params"),
    BOOL_FIELD("return_tokens_as_token_ids", tokens_as_ids, 0),
    PASSED_FIELD("return_mm_kwargs"),
    PASSED_FIELD("return_tokens"),
    BOOL_FIELD("return_progress", progress, 0),
    PASSED_FIELD("routed_experts_prompt_start"),
    PASSED_FIELD("media_io_kwargs"),
    PASSED_FIELD("mm_processor_kwargs"),
    PASSED_FIELD("images_config"),
    PASSED_FIELD("custom_labels"),
    PASSED_FIELD("stream_interval"),
    PASSED_FIELD("bootstrap_host"),
    PASSED_FIELD("bootstrap_port"),
    PASSED_FIELD("bootstrap_room"),
    PASSED_FIELD("routed_dp_rank"),
    PASSED_FIELD("disagg_prefill_dp_rank"),
    PASSED_FIELD("backend_sampling"),
    PASSED_FIELD("n_keep"),
    PASSED_FIELD("n_discard"),
    PASSED_FIELD("id_slot"),
    PASSED_FIELD("cache_prompt"),
    PASSED_FIELD("n_cache_reuse"),
    BOOL_FIELD("timings_per_token", timings, 0),
    PASSED_FIELD("sse_ping_interval"),
    PASSED_FIELD("keep_alive"),
    CUSTOM_FIELD("nvext", read_nvext),
};

static int read_greedy(struct field_reader *r, enum json_event first) {
    bool greedy;
    if (field_bool(r, first, &greedy))
        return -1;
    r->g->greedy |= greedy;
    return 0;
}

static const struct field nvext_rows[] = {
    CUSTOM_FIELD("greed_sampling", read_greedy),
    REFUSED_FIELD("use_raw_prompt"),
    REFUSED_FIELD("token_data"),
    REFUSED_FIELD("max_thinking_tokens"),
    /* of the request */
    REFUSED_FIELD("stream"),
    REFUSED_FIELD("model"),
    REFUSED_FIELD("nvext"),
    /* where and how it is computed, and what its own router tells */
    PASSED_FIELD("annotations"),
    PASSED_FIELD("agent_hints"),
    PASSED_FIELD("backend_instance_id"),
    PASSED_FIELD("cache_control"),
    PASSED_FIELD("extra_fields"),
};
/* clang-format on */

static int read_nvext(struct field_reader *r, enum json_event first) {
    static const struct field_table own = {nvext_rows, ARRAY_LEN(nvext_rows)};
    static const struct field_table *const tables[] = {&own, &field_shared, &field_constraint,
                                                       &field_peers, &field_elsewhere};
    static const struct field_set set = {tables, ARRAY_LEN(tables)};
    return field_nested(r, first, &set, "an object");
}

const struct field_table field_peers = {rows, ARRAY_LEN(rows)};
