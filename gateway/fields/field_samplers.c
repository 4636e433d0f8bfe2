/* The samplers' fields that are lists: their order, the texts that dry's repetitions end at, the
 * tokens that may come, the words that may not. */
#include "gateway/fields/field.h"

/* llama.cpp's names; the letter stands for it where the order is a string of letters. */
static const struct step_name {
    const char *name;
    char letter;
    enum wire_sample_step step; /* 0: adaptive_p, which is always the last */
} STEPS[] = {
    {"penalties", 'e', WIRE_SAMPLE_PENALTIES},
    {"dry", 'd', WIRE_SAMPLE_DRY},
    {"top_n_sigma", 's', WIRE_SAMPLE_TOP_N_SIGMA},
    {"top_k", 'k', WIRE_SAMPLE_TOP_K},
    {"typ_p", 'y', WIRE_SAMPLE_TYPICAL_P},
    {"top_p", 'p', WIRE_SAMPLE_TOP_P},
    {"min_p", 'm', WIRE_SAMPLE_MIN_P},
    {"xtc", 'x', WIRE_SAMPLE_XTC},
    {"temperature", 't', WIRE_SAMPLE_TEMPERATURE},
    {"adaptive_p", 'a', WIRE_SAMPLE_NONE},
};

static const struct step_name *find_step(struct bytes name, bool letters) {
    for (size_t i = 0; i < ARRAY_LEN(STEPS); i++)
        if (letters ? name.data[0] == (uint8_t)STEPS[i].letter
                    : bytes_equal(name, bytes_str(STEPS[i].name)))
            return &STEPS[i];
    return NULL;
}

static int add_step(struct field_reader *r, struct bytes name, bool letters, int *count) {
    const struct step_name *step = find_step(name, letters);
    if (!step)
        return api_error_set(
            r->err, API_BAD_REQUEST, r->name,
            "'%s' has no sampler '%.*s'; there are penalties, dry, top_n_sigma, top_k, typ_p, "
            "top_p, min_p, xtc, temperature and adaptive_p",
            r->name, (int)MIN(name.len, (size_t)50), (const char *)name.data);
    for (int i = 0; i < *count; i++)
        if ((r->g->sampler_order >> 4 * i & 15) == (uint64_t)step->step)
            return api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' has '%s' twice", r->name,
                                 step->name);
    if (step->step)
        r->g->sampler_order |= (uint64_t)step->step << 4 * (*count)++;
    return 0;
}

void field_write_sampler_order(uint64_t order, struct json_writer *w) {
    static const uint64_t USUAL = UINT64_C(0x987654321); /* kernels/sample_rules.h */
    json_begin_array(w);
    for (order = order ? order : USUAL; order; order >>= 4)
        for (size_t i = 0; i < ARRAY_LEN(STEPS); i++)
            if ((order & 15) == (uint64_t)STEPS[i].step)
                json_string(w, STEPS[i].name);
    json_end_array(w);
}

int field_sampler_order(struct field_reader *r, enum json_event first) {
    int count = 0;
    r->g->sampler_order = 0;
    if (first == JSON_STRING) {
        struct bytes letters = r->json.text;
        for (size_t i = 0; i < letters.len; i++)
            if (add_step(r, bytes_of(letters.data + i, 1), true, &count))
                return -1;
        return 0;
    }
    if (first != JSON_ARRAY_BEGIN)
        return field_wrong_type(r, "an array of names", first);
    for (enum json_event event = json_next(&r->json); event != JSON_ARRAY_END;
         event = json_next(&r->json)) {
        if (event != JSON_STRING)
            return field_wrong_type(r, "an array of names", event);
        if (add_step(r, r->json.text, false, &count))
            return -1;
    }
    return 0;
}

int field_breakers(struct field_reader *r, enum json_event first) {
    if (field_strings(r, first, GENREQ_BREAKERS_MAX, GENREQ_BREAKER_BYTES_MAX, &r->g->breakers,
                      &r->g->breaker_count))
        return -1;
    if (r->g->breaker_count == 0)
        return api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' holds no string", r->name);
    return 0;
}

int field_bad_words(struct field_reader *r, enum json_event first) {
    return field_strings(r, first, GENREQ_BAD_WORDS_MAX, GENREQ_BAD_WORD_BYTES_MAX,
                         &r->g->bad_words, &r->g->bad_word_count);
}

int field_allowed_ids(struct field_reader *r, enum json_event first) {
    if (first != JSON_ARRAY_BEGIN)
        return field_wrong_type(r, "an array of token ids", first);
    return field_token_array(r, json_next(&r->json), GENREQ_ALLOWED_MAX, &r->g->allowed_ids);
}

int field_mirostat(struct field_reader *r, enum json_event first) {
    int64_t kind;
    if (field_int(r, first, 0, 2, &kind))
        return -1;
    r->g->mirostat = kind == 1   ? WIRE_STEERING_MIROSTAT
                     : kind == 2 ? WIRE_STEERING_MIROSTAT_2
                                 : WIRE_STEERING_NONE;
    return 0;
}
