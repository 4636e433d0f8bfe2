/* POST /v1/completions: the fields of OpenAI's and vLLM's completions requests. */
#include "gateway/fields/field.h"

static int push_prompt(struct field_reader *r, struct genreq_prompt *list, uint32_t *count,
                       enum json_event event) {
    struct genreq_prompt *p = &list[*count];
    if (*count == GENREQ_PROMPTS_MAX)
        return api_error_set(r->err, API_BAD_REQUEST, r->name, "more than %d prompts",
                             GENREQ_PROMPTS_MAX);
    *p = (struct genreq_prompt){.is_ids = event == JSON_ARRAY_BEGIN};
    ++*count;
    if (!p->is_ids)
        return field_string(r, event, SIZE_MAX, &p->text);
    struct u32s ids;
    if (field_token_array(r, json_next(&r->json), WIRE_MAX_TOKENS, &ids))
        return -1;
    p->ids = (struct tokens){ids.items, ids.count};
    return 0;
}

/* After '[': one prompt of ids when a number comes first, else a list of prompts. */
static int read_prompt_list(struct field_reader *r, struct genreq_prompt *list, uint32_t *count) {
    enum json_event event = json_next(&r->json);
    if (event == JSON_NUMBER) {
        struct u32s ids;
        if (field_token_array(r, event, WIRE_MAX_TOKENS, &ids))
            return -1;
        list[(*count)++] = (struct genreq_prompt){.is_ids = true, .ids = {ids.items, ids.count}};
        return 0;
    }
    enum json_event kind = event;
    for (; event != JSON_ARRAY_END; event = json_next(&r->json)) {
        if (event != kind || (event != JSON_STRING && event != JSON_ARRAY_BEGIN))
            return field_wrong_type(r, "a string, token ids, or an array of either", event);
        if (push_prompt(r, list, count, event))
            return -1;
    }
    return 0;
}

int field_prompt(struct field_reader *r, enum json_event first) {
    struct genreq_prompt list[GENREQ_PROMPTS_MAX];
    uint32_t count = 0;
    if (first == JSON_STRING) {
        if (push_prompt(r, list, &count, first))
            return -1;
    } else if (first == JSON_ARRAY_BEGIN) {
        if (read_prompt_list(r, list, &count))
            return -1;
    } else {
        return field_wrong_type(r, "a string or an array", first);
    }
    if (count == 0)
        return api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' is empty", r->name);
    r->g->prompt_count = count;
    r->g->prompts = arena_copy(&r->g->arena, list, count * sizeof list[0]);
    return r->g->prompts ? 0 : field_too_large(r);
}

static int read_logprobs(struct field_reader *r, enum json_event first) {
    if (first == JSON_FALSE)
        return 0;
    if (field_int(r, first, -1, GENREQ_TOP_LOGPROBS_MAX, &r->g->top_logprobs))
        return -1;
    if (r->g->top_logprobs == -1)
        r->g->top_logprobs = GENREQ_TOP_LOGPROBS_MAX;
    r->g->logprobs = true;
    return 0;
}

static int read_suffix(struct field_reader *r, enum json_event first) {
    return field_string(r, first, SIZE_MAX, &r->g->infill.suffix);
}

/* clang-format off */
static const struct field rows[] = {
    CUSTOM_FIELD("prompt", field_prompt),
    BOOL_FIELD("echo", echo, 0),
    CUSTOM_FIELD("logprobs", read_logprobs),
    CUSTOM_FIELD("prompt_logprobs", field_prompt_logprobs),
    CUSTOM_FIELD("suffix", read_suffix),
    INT_FIELD("best_of", best_of, 0, GENREQ_CHOICES_MAX, 0),
    BOOL_FIELD("verbose", verbose, 0),
    NEUTRAL_FIELD("reasoning_format", TEXT_REASONING),
    /* of chats alone */
    REFUSED_FIELD("messages"),
    REFUSED_FIELD("tools"),
    REFUSED_FIELD("documents"),
    REFUSED_FIELD("chat_template"),
    REFUSED_FIELD("chat_template_kwargs"),
    NEUTRAL_FIELD("tool_choice", "\"none\" \"auto\""),
};
/* clang-format on */

static const struct field_table completions_own = {rows, ARRAY_LEN(rows)};
/* its own go before those of the others that have their names */
static const struct field_table *const completions_tables[] = {
    &completions_own, &field_shared, &field_constraint, &field_peers, &field_elsewhere};
const struct field_set fields_completions = {completions_tables, ARRAY_LEN(completions_tables)};

/* A suffix: the prompt is what stands before the text that is wanted. */
static int apply_suffix(struct genreq *g, struct api_error *err) {
    if (g->infill.suffix.len == 0)
        return 0;
    if (g->prompt_count != 1 || g->prompts[0].is_ids)
        return api_error_set(err, API_BAD_REQUEST, "suffix", "'suffix' needs one text as 'prompt'");
    if (g->echo || g->prompt_logprobs >= 0)
        return api_error_set(err, API_UNSUPPORTED, "suffix", "'suffix' cannot be had with '%s'",
                             g->echo ? "echo" : "prompt_logprobs");
    genreq_infill_between(g);
    return 0;
}

int openai_completions_parse(struct genreq *g, struct bytes body, struct api_error *err) {
    if (field_read_request(g, &fields_completions, body, err))
        return -1;
    if (g->prompt_count == 0)
        return api_error_set(err, API_BAD_REQUEST, "prompt", "'prompt' is missing");
    for (uint32_t i = 0; i < g->prompt_count; i++)
        if (g->prompts[i].is_ids && g->prompts[i].ids.count == 0)
            return api_error_set(err, API_BAD_REQUEST, "prompt",
                                 "'prompt' holds an empty list of token ids");
    if (apply_suffix(g, err))
        return -1;
    if (g->best_of > 1 && g->best_of < g->choice_count)
        return api_error_set(err, API_BAD_REQUEST, "best_of",
                             "'best_of' must be at least 'n', which is %lld",
                             (long long)g->choice_count);
    if (g->best_of > g->choice_count && g->stream)
        return api_error_set(err, API_BAD_REQUEST, "best_of",
                             "'best_of' cannot be had with 'stream': which choices are the best is "
                             "known at the end");
    return genreq_check_choices(g, err) ? -1 : genreq_check_prompt_logprobs(g, err);
}
