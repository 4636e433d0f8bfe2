/* The fields that chat and completions requests share. */
#include "gateway/fields/field.h"

int field_stops(struct field_reader *r, enum json_event first) {
    size_t bytes = 0;
    if (field_string_or_strings(r, first, GENREQ_STOPS_MAX, GENREQ_STOP_BYTES_MAX, &r->g->stops,
                                &r->g->stop_count))
        return -1;
    for (uint32_t i = 0; i < r->g->stop_count; i++)
        bytes += r->g->stops[i].len;
    if (bytes > GENREQ_STOPS_BYTES_MAX)
        return api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' holds more than %d bytes",
                             r->name, GENREQ_STOPS_BYTES_MAX);
    return 0;
}

static int read_stop_tokens(struct field_reader *r, enum json_event first) {
    if (first != JSON_ARRAY_BEGIN)
        return field_wrong_type(r, "an array of token ids", first);
    return field_token_array(r, json_next(&r->json), GENREQ_STOP_TOKENS_MAX, &r->g->stop_tokens);
}

static int read_stream_options(struct field_reader *r, enum json_event first) {
    if (first != JSON_OBJECT_BEGIN)
        return field_wrong_type(r, "an object", first);
    r->g->given |= GENREQ_STREAM_OPTIONS;
    for (enum json_event event = json_next(&r->json); event != JSON_OBJECT_END;
         event = json_next(&r->json)) {
        if (event != JSON_KEY)
            return field_wrong_type(r, "an object", event);
        bool *out = bytes_equal(r->json.text, bytes_str("include_usage")) ? &r->g->include_usage
                    : bytes_equal(r->json.text, bytes_str("continuous_usage_stats"))
                        ? &r->g->continuous_usage
                        : NULL;
        event = json_next(&r->json);
        if (!out) {
            if (field_span(r, event, NULL))
                return -1;
        } else if (event == JSON_TRUE || event == JSON_FALSE) {
            *out = event == JSON_TRUE;
        } else if (event != JSON_NULL) {
            return api_error_set(r->err, API_BAD_REQUEST, "stream_options",
                                 "the members of 'stream_options' must be booleans");
        }
    }
    return 0;
}

int field_prompt_logprobs(struct field_reader *r, enum json_event first) {
    int64_t count;
    if (field_int(r, first, -1, GENREQ_TOP_LOGPROBS_MAX, &count))
        return -1;
    r->g->prompt_logprobs = count == -1 ? GENREQ_TOP_LOGPROBS_MAX : count;
    return 0;
}

int field_seed(struct field_reader *r, enum json_event first) {
    if (field_int(r, first, 0, 0, &r->g->seed))
        return -1;
    if (r->g->seed != -1)
        r->g->given |= GENREQ_SEED;
    return 0;
}

/* clang-format off */
static const struct field rows[] = {
    STRING_FIELD("user", user, GENREQ_USER_MAX),
    STRING_FIELD("model", model, GENREQ_NAME_MAX),
    INT_FIELD("max_tokens", max_tokens, -1, WIRE_MAX_TOKENS, GENREQ_MAX_TOKENS),
    INT_FIELD("min_tokens", min_tokens, 0, WIRE_MAX_TOKENS, GENREQ_MIN_TOKENS),
    NUMBER_FIELD("temperature", temperature, 0, 100, GENREQ_TEMPERATURE),
    NUMBER_FIELD("top_p", top_p, 0, 1, GENREQ_TOP_P),
    INT_FIELD("top_k", top_k, -1, INT32_MAX, GENREQ_TOP_K),
    NUMBER_FIELD("min_p", min_p, 0, 1, GENREQ_MIN_P),
    NUMBER_FIELD("top_n_sigma", top_n_sigma, -1000, 1000, 0),
    NUMBER_FIELD("repetition_penalty", repetition_penalty, 0.01, 100, GENREQ_REPETITION),
    NUMBER_FIELD("presence_penalty", presence_penalty, -100, 100, 0),
    NUMBER_FIELD("frequency_penalty", frequency_penalty, -100, 100, 0),
    INT_FIELD("seed", seed, 0, 0, GENREQ_SEED),
    INT_FIELD("n", choice_count, 1, GENREQ_CHOICES_MAX, GENREQ_CHOICE_COUNT),
    CUSTOM_FIELD("stop", field_stops),
    CUSTOM_FIELD("stop_token_ids", read_stop_tokens),
    CUSTOM_FIELD("logit_bias", field_logit_bias),
    BOOL_FIELD("ignore_eos", ignore_eos, 0),
    BOOL_FIELD("include_stop_str_in_output", include_stop_text, 0),
    BOOL_FIELD("skip_special_tokens", skip_special_tokens, 0),
    BOOL_FIELD("add_special_tokens", add_special_tokens, GENREQ_ADD_SPECIAL),
    BOOL_FIELD("return_token_ids", return_token_ids, 0),
    NUMBER_FIELD("timeout", timeout_s, 0, 86400, 0),
    INT_FIELD("priority", priority, INT32_MIN, INT32_MAX, 0),
    STRING_FIELD_ONCE("cache_salt", cache_salt, GENREQ_SALT_MAX, GENREQ_CACHE_SALT),
    BOOL_FIELD("stream", stream, 0),
    CUSTOM_FIELD("stream_options", read_stream_options),
};
/* clang-format on */

const struct field_table field_shared = {rows, ARRAY_LEN(rows)};
