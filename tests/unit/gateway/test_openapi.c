/* What /openapi.json says of fields and calls, from the tables that requests are read by: each bound
 * is the one that docs/api.md has, and a key is asked for wherever it says so. */
#include <math.h>

#include "world.h"

#define MEMBER(object, name) cJSON_GetObjectItemCaseSensitive(object, name)

static double number_of(const cJSON *object, const char *name) {
    const cJSON *value = MEMBER(object, name);
    return value ? value->valuedouble : 0;
}

/* A document's fields, call by call. */
typedef void on_field(const cJSON *field);
static void each_field(const cJSON *document, on_field *take) {
    const cJSON *path, *call, *field;
    cJSON_ArrayForEach(path, MEMBER(document, "paths")) cJSON_ArrayForEach(call, path) {
        const cJSON *content = MEMBER(MEMBER(call, "requestBody"), "content"),
                    *schema = MEMBER(MEMBER(content, "application/json"), "schema");
        cJSON_ArrayForEach(field, MEMBER(schema, "properties")) take(field);
    }
}

static cJSON *document_of(const struct world *w) {
    struct answer a;
    client_request(w->port, "GET", "/openapi.json", NULL, NULL, &a);
    cJSON *document = cJSON_ParseWithLength(buf_text(&a.body), a.body.len);
    answer_release(&a);
    return document;
}

/* Numbers, by their least and their most; 0, 0: any of 64 bits. Texts, by their bytes. A field may
 * have other bounds on other paths. */
static struct bound {
    const char *name;
    double min, max;
    bool seen;
} BOUNDS[] = {
    {"adaptive_decay", 0, 0.99, false},
    {"adaptive_target", -1000, 1, false},
    {"best_of", 0, 128, false},
    {"best_of", 1, 128, false},
    {"cache_salt", 0, 1024, false},
    {"chat_template", 0, 1048576, false},
    {"dimensions", 1, 65536, false},
    {"dry_allowed_length", 1, 1048576, false},
    {"dry_base", 1, 100, false},
    {"dry_multiplier", 0, 100, false},
    {"dry_penalty_last_n", -1, 2147483647, false},
    {"dynatemp_exponent", 0, 100, false},
    {"dynatemp_range", 0, 2, false},
    {"extra_key", 0, 1024, false},
    {"frequency_penalty", -100, 100, false},
    {"instruction", 0, 16384, false},
    {"logprob_start_len", -1, 1048576, false},
    {"max_completion_tokens", -1, 1048576, false},
    {"max_new_tokens", 0, 1048576, false},
    {"max_output_tokens", 1, 1048576, false},
    {"max_tokens", -1, 1048576, false},
    {"max_tokens", 1, 1048576, false},
    {"min_new_tokens", 0, 1048576, false},
    {"min_p", 0, 1, false},
    {"min_tokens", 0, 1048576, false},
    {"mirostat_eta", 0, 1, false},
    {"mirostat_tau", 0, 100, false},
    {"model", 0, 256, false},
    {"n", 1, 128, false},
    {"n_cmpl", 1, 128, false},
    {"output_dimension", 1, 65536, false},
    {"presence_penalty", -100, 100, false},
    {"priority", -2147483648.0, 2147483647, false},
    {"prompt_logprobs", 0, 20, false},
    {"repeat_last_n", -1, 2147483647, false},
    {"repeat_penalty", 0.01, 100, false},
    {"repetition_penalty", 0.01, 100, false},
    {"sampling_seed", 0, 0, false},
    {"seed", 0, 0, false},
    {"t_max_predict_ms", -2147483648.0, 2147483647, false},
    {"temperature", 0, 2, false},
    {"temperature", 0, 100, false},
    {"timeout", 0, 86400, false},
    {"top_k", -1, 2147483647, false},
    {"top_logprobs", -1, 20, false},
    {"top_logprobs", 0, 20, false},
    {"top_logprobs_num", 0, 20, false},
    {"top_n", 1, 2048, false},
    {"top_n_sigma", -1000, 1000, false},
    {"top_n_tokens", 0, 20, false},
    {"top_p", 0, 1, false},
    {"typical_p", 0, 1, false},
    {"user", 0, 512, false},
    {"xtc_probability", -1000, 1, false},
    {"xtc_threshold", 0, 1, false},
};

static void check_bounds(const cJSON *field) {
    const cJSON *types = MEMBER(field, "type"); /* the type, and null */
    const char *type = cJSON_GetStringValue(types ? types->child : NULL);
    if (!type || !(strstr("integer number", type) || !strcmp(type, "string")))
        return;
    double min = number_of(field, "minimum"),
           max = number_of(field, strcmp(type, "string") ? "maximum" : "maxLength");
    for (size_t i = 0; i < ARRAY_LEN(BOUNDS); i++)
        if (!strcmp(BOUNDS[i].name, field->string) && fabs(BOUNDS[i].min - min) < 1e-12 &&
            fabs(BOUNDS[i].max - max) < 1e-12) {
            BOUNDS[i].seen = true;
            return;
        }
    check_fail(__FILE__, __LINE__, "'%s' from %g to %g", field->string, min, max);
}

/* A parser takes the last of two members of one name: two of a kind are a mistake. */
static void check_names(const cJSON *field) {
    for (const cJSON *one = field->child; one; one = one->next)
        for (const cJSON *other = one->next; other; other = other->next)
            if (!strcmp(one->string, other->string))
                check_fail(__FILE__, __LINE__, "'%s' has '%s' twice", field->string, one->string);
}

TEST(every_field_has_its_bounds) {
    struct world w;
    world_prepare(&w);
    EXPECT(world_gateway(&w)); /* nobody else is asked */
    cJSON *document = document_of(&w);
    each_field(document, check_bounds);
    each_field(document, check_names);
    for (size_t i = 0; i < ARRAY_LEN(BOUNDS); i++)
        if (!BOUNDS[i].seen)
            check_fail(__FILE__, __LINE__, "no '%s' from %g to %g", BOUNDS[i].name, BOUNDS[i].min,
                       BOUNDS[i].max);
    cJSON_Delete(document);
    world_end(&w);
}

/* Who has no key learns whether the server lives, and sees the page. */
static const char *const OPEN[] = {"GET /",
                                   "GET /page/{rest}",
                                   "GET /docs",
                                   "GET /health",
                                   "GET /v1/health",
                                   "GET /ping",
                                   "POST /ping",
                                   "GET /health_generate",
                                   "GET /live",
                                   "GET /health/live",
                                   "GET /health/ready",
                                   "GET /health/e2e",
                                   "GET /openapi.json"};

/* The status of a call by who has no key. */
static int status_without_key(const struct world *w, const char *method, const char *path) {
    struct answer a;
    client_request(w->port, method, path, NULL, strcmp(method, "POST") ? NULL : "{}", &a);
    int status = a.status;
    answer_release(&a);
    return status;
}

TEST(every_call_but_a_few_wants_a_key) {
    struct world w;
    const cJSON *path, *call;
    size_t open_count = 0;
    world_prepare(&w);
    w.settings.api_key = "secret";
    EXPECT(world_gateway(&w));
    cJSON *document = document_of(&w);
    cJSON_ArrayForEach(path, MEMBER(document, "paths")) cJSON_ArrayForEach(call, path) {
        bool open = false;
        char name[100], method[8] = "";
        for (size_t i = 0; i < 7 && call->string[i]; i++)
            method[i] = (char)(call->string[i] & ~0x20);
        snprintf(name, sizeof name, "%s %s", method, path->string);
        for (size_t i = 0; i < ARRAY_LEN(OPEN); i++)
            open |= !strcmp(OPEN[i], name);
        open_count += open;
        int status = status_without_key(&w, method, path->string);
        if ((status == 401) == open || (MEMBER(call, "security") != NULL) == open)
            check_fail(__FILE__, __LINE__, "%s: %d without a key", name, status);
    }
    EXPECT_EQ(open_count, ARRAY_LEN(OPEN));
    cJSON_Delete(document);
    world_end(&w);
}
