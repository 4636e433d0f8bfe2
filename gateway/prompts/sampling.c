#include "gateway/prompts/sampling.h"

#include <float.h>

#include "gateway/prompts/breakers.h"

static double given_or_default(double fallback, bool given, double asked, double model) {
    if (given)
        return asked;
    return model >= 0 ? model : fallback;
}

/* How many are computed for each token: those of the answer, those of the prompt; -1: none. */
static int32_t logprobs_computed(const struct genreq *g) {
    int64_t shown = g->logprobs ? g->top_logprobs : g->best_of > g->choice_count ? 0 : -1;
    return (int32_t)MAX(shown, g->prompt_logprobs);
}

/* Below it only the best token is left, and quotients could overflow: 0 means the same. */
#define TEMPERATURE_LEAST 1e-6f

/* The API's ranges are closed; the wire's top_p is above 0 and its min_p below 1: the nearest value
 * means the same. */
void sampling_fill(const struct genreq *g, const struct model_defaults *d, uint64_t seed,
                   struct wire_sampling *s) {
    uint32_t given = g->given;
    *s = (struct wire_sampling){
        .temperature = g->greedy ? 0
                                 : (float)given_or_default(1, given & GENREQ_TEMPERATURE,
                                                           g->temperature, d->temperature),
        .top_p = MAX((float)given_or_default(1, given & GENREQ_TOP_P, g->top_p, d->top_p), FLT_MIN),
        .min_p = MIN((float)given_or_default(0, given & GENREQ_MIN_P, g->min_p, d->min_p),
                     1.0f - FLT_EPSILON / 2),
        .top_n_sigma = MAX((float)g->top_n_sigma, 0.0f),
        .repetition_penalty = (float)given_or_default(1, given & GENREQ_REPETITION,
                                                      g->repetition_penalty, d->repetition_penalty),
        .presence_penalty = (float)g->presence_penalty,
        .frequency_penalty = (float)g->frequency_penalty,
        .seed = given & GENREQ_SEED ? (uint64_t)g->seed : seed,
        .logprobs = logprobs_computed(g),
        .min_tokens = (uint32_t)g->min_tokens,
    };
    if (s->temperature < TEMPERATURE_LEAST)
        s->temperature = 0;
    int64_t top_k = given & GENREQ_TOP_K ? g->top_k : d->top_k;
    s->top_k = top_k > 0 ? (uint32_t)top_k : 0;
}

/* How far penalties look back; a window of 0 turns them off. */
static void fill_penalty_window(const struct genreq *g, struct wire_sampling *s) {
    if (!(g->given & GENREQ_PENALTY_WINDOW) || g->penalty_window == -1)
        return;
    s->penalty_window = (uint32_t)MIN(g->penalty_window, (int64_t)WIRE_MAX_TOKENS);
    if (g->penalty_window > 0)
        return;
    s->repetition_penalty = 1;
    s->presence_penalty = s->frequency_penalty = 0;
}

static bool order_has(uint64_t order, enum wire_sample_step step) {
    for (; order; order >>= 4)
        if ((order & 15) == (uint64_t)step)
            return true;
    return false;
}

/* What an order leaves out is not done. */
static void apply_order(uint64_t order, struct wire_sampling *s) {
    s->order = order;
    if (!order)
        return;
    if (!order_has(order, WIRE_SAMPLE_PENALTIES)) {
        s->repetition_penalty = 1;
        s->presence_penalty = s->frequency_penalty = 0;
    }
    if (!order_has(order, WIRE_SAMPLE_DRY))
        s->dry_multiplier = 0;
}

/* mirostat and adaptive_p aim at their own target: a model's usual cuts do not apply. */
static int fill_steering(const struct genreq *g, struct wire_sampling *s, struct api_error *err) {
    bool adapts = g->adaptive_target >= 0;
    if (!g->mirostat && !adapts)
        return 0;
    if (g->mirostat && adapts)
        return api_error_set(err, API_BAD_REQUEST, "adaptive_target",
                             "'adaptive_target' and 'mirostat' both choose the token; give one");
    s->steering = adapts ? WIRE_STEERING_ADAPTIVE : g->mirostat;
    s->target = (float)(adapts ? g->adaptive_target : g->mirostat_tau);
    s->rate = MIN((float)(adapts ? g->adaptive_decay : g->mirostat_eta), adapts ? 0.99f : 1.0f);
    if (!(g->given & GENREQ_TOP_P))
        s->top_p = 1;
    if (!(g->given & GENREQ_TOP_K))
        s->top_k = 0;
    if (!(g->given & GENREQ_MIN_P))
        s->min_p = 0;
    return 0;
}

/* What llama.cpp has beyond the common samplers. */
int sampling_fill_rules(const struct genreq *g, const struct text_model *text, struct prepared *p,
                        struct api_error *err) {
    static const struct bytes USUAL[] = {{(const uint8_t *)"\n", 1},
                                         {(const uint8_t *)":", 1},
                                         {(const uint8_t *)"\"", 1},
                                         {(const uint8_t *)"*", 1}};
    struct wire_sampling *s = &p->sampling;
    fill_penalty_window(g, s);
    s->typical_p = g->typical_p < 1 ? MAX((float)g->typical_p, FLT_MIN) : 0;
    s->xtc_probability = MAX((float)g->xtc_probability, 0.0f);
    s->xtc_threshold = (float)g->xtc_threshold;
    s->temperature_range = (float)g->dynatemp_range;
    s->temperature_exponent = (float)g->dynatemp_exponent;
    if (g->dry_multiplier > 0 && g->dry_window) {
        s->dry_multiplier = (float)g->dry_multiplier;
        s->dry_base = (float)g->dry_base;
        s->dry_allowed = (uint32_t)g->dry_allowed_length;
        s->dry_window =
            g->dry_window > 0 ? (uint32_t)MIN(g->dry_window, (int64_t)WIRE_MAX_TOKENS) : 0;
    }
    apply_order(g->sampler_order, s);
    if (fill_steering(g, s, err))
        return -1;
    if (s->dry_multiplier <= 0)
        return 0;
    bool own = g->breaker_count > 0;
    if (breakers_find(text->breakers, text->tokenizer, own ? g->breakers : USUAL,
                      own ? g->breaker_count : (uint32_t)ARRAY_LEN(USUAL), own, &p->dry_breakers,
                      err))
        return -1;
    s->dry_breakers = buf_bytes(&p->dry_breakers);
    return 0;
}

/* The tokens of a text have its bias; *count: of entries so far. */
static int add_bias_text(const struct genreq_bias_text *bias, const struct tokenizer *t,
                         struct prepared *p, size_t *count, struct api_error *err) {
    struct token_vec ids = {0};
    struct error why;
    int rc = tokenizer_encode(t, bias->text, 0, &ids, &why);
    if (rc)
        rc = prepare_refuse(err, "logit_bias", rc, &why);
    else if (*count + ids.count > WIRE_MAX_LOGIT_BIAS)
        rc = api_error_set(err, API_BAD_REQUEST, "logit_bias",
                           "'logit_bias' is of more than %d tokens", WIRE_MAX_LOGIT_BIAS);
    for (size_t i = 0; rc == 0 && i < ids.count; i++) {
        p->bias_ids[*count] = ids.items[i];
        p->bias_values[(*count)++] = bias->value;
    }
    vec_release(&ids);
    return rc;
}

static int copy_bias(const struct genreq *g, const struct served_model *m, struct prepared *p,
                     struct api_error *err) {
    size_t count = g->bias_ids.count;
    if (count == 0 && g->bias_text_count == 0)
        return 0;
    if (prepare_check_ids(g->bias_ids.items, count, m, "logit_bias", err))
        return -1;
    p->bias_ids = mem_calloc(WIRE_MAX_LOGIT_BIAS, sizeof *p->bias_ids);
    p->bias_values = mem_calloc(WIRE_MAX_LOGIT_BIAS, sizeof *p->bias_values);
    if (count) {
        memcpy(p->bias_ids, g->bias_ids.items, count * sizeof *p->bias_ids);
        memcpy(p->bias_values, g->bias_values.items, count * sizeof *p->bias_values);
    }
    for (uint32_t i = 0; i < g->bias_text_count; i++)
        if (add_bias_text(&g->bias_texts[i], m->text->tokenizer, p, &count, err))
            return -1;
    p->sampling.bias_ids = (struct u32s){p->bias_ids, count};
    p->sampling.bias_values = (struct f32s){p->bias_values, count};
    return 0;
}

/* Tokens that alone may come. */
static int fill_allowed(const struct genreq *g, const struct served_model *m, struct prepared *p,
                        struct api_error *err) {
    struct u32s ids = g->allowed_ids;
    if (!ids.count)
        return 0;
    if (prepare_check_ids(ids.items, ids.count, m, "allowed_token_ids", err))
        return -1;
    size_t bytes = ((size_t)m->logits_width + 7) / 8;
    uint8_t *bits = mem_calloc(bytes, 1);
    for (size_t i = 0; i < ids.count; i++)
        bits[ids.items[i] / 8] |= (uint8_t)(1u << ids.items[i] % 8);
    buf_add_bytes(&p->allowed, bytes_of(bits, bytes));
    mem_free(bits);
    p->sampling.allowed = buf_bytes(&p->allowed);
    return p->allowed.failed ? api_error_out_of_memory(err) : 0;
}

/* The tokens of a word, as it begins a text or stands behind a space. */
static int add_bad_word(struct bytes word, bool behind_space, const struct tokenizer *t,
                        struct token_vec *out, struct api_error *err) {
    struct token_vec ids = {0};
    struct buf text = {0};
    struct error why;
    size_t blank = 0;
    while (blank < word.len && word.data[blank] == ' ')
        blank++;
    if (behind_space)
        buf_add_byte(&text, ' ');
    buf_add_bytes(&text, bytes_of(word.data + blank, word.len - blank));
    int rc = tokenizer_encode(t, buf_bytes(&text), TOKENIZE_PARSE_SPECIAL, &ids, &why);
    if (rc)
        rc = prepare_refuse(err, "bad_words", rc, &why);
    else if (ids.count > WIRE_BAD_WORD_TOKENS_MAX || out->count + ids.count >= WIRE_MAX_BAD_WORDS)
        rc = api_error_set(err, API_BAD_REQUEST, "bad_words",
                           "'bad_words' is too long: a word may have %d tokens of this model, and "
                           "all together %d",
                           WIRE_BAD_WORD_TOKENS_MAX, WIRE_MAX_BAD_WORDS / 2);
    if (rc == 0 && ids.count) {
        vec_push(out, (uint32_t)ids.count);
        for (size_t i = 0; i < ids.count; i++)
            vec_push(out, ids.items[i]);
    }
    buf_release(&text);
    vec_release(&ids);
    return rc;
}

static int fill_bad_words(const struct genreq *g, const struct text_model *text, struct prepared *p,
                          struct api_error *err) {
    for (uint32_t i = 0; i < g->bad_word_count; i++)
        for (int behind_space = 0; behind_space < 2; behind_space++)
            if (add_bad_word(g->bad_words[i], behind_space, text->tokenizer, &p->bad_words, err))
                return -1;
    p->sampling.bad_words = (struct u32s){p->bad_words.items, p->bad_words.count};
    return 0;
}

int sampling_fill_lists(const struct genreq *g, const struct served_model *m, struct prepared *p,
                        struct api_error *err) {
    return copy_bias(g, m, p, err) || fill_allowed(g, m, p, err) ||
                   fill_bad_words(g, m->text, p, err)
               ? -1
               : 0;
}
