/* What a refusal says in each dialect, row by row: status, type, code, and under which label it is
 * counted. */
#include "check.h"
#include "gateway/answers/error_response.h"
#include "gateway/watch/gateway_metrics.h"

#include <stdio.h>
#include <stdlib.h>

TEST(errors_have_their_status_type_and_code) {
    static const struct {
        enum api_fault fault;
        int status;
        const char *type, *code;
    } ROWS[] = {
        {API_BAD_REQUEST, 400, "invalid_request_error", "null"},
        {API_UNSUPPORTED, 400, "invalid_request_error", "\"unsupported_parameter\""},
        {API_CONTEXT_LENGTH, 400, "invalid_request_error", "\"context_length_exceeded\""},
        {API_UNAUTHORIZED, 401, "invalid_request_error", "\"invalid_api_key\""},
        {API_FORBIDDEN, 403, "invalid_request_error", "\"forbidden\""},
        {API_NOT_FOUND, 404, "invalid_request_error", "\"not_found\""},
        {API_MODEL_NOT_FOUND, 404, "invalid_request_error", "\"model_not_found\""},
        {API_METHOD, 405, "invalid_request_error", "\"method_not_allowed\""},
        {API_STREAM_TAKEN, 409, "invalid_request_error", "\"stream_taken\""},
        {API_TOO_LARGE, 413, "invalid_request_error", "\"request_too_large\""},
        {API_MEDIA_TYPE, 415, "invalid_request_error", "\"unsupported_media_type\""},
        {API_OVERLOADED, 429, "rate_limit_error", "\"rate_limit_exceeded\""},
        {API_INTERNAL, 500, "server_error", "null"},
        {API_UNAVAILABLE, 503, "server_error", "\"service_unavailable\""},
        {API_TIMEOUT, 504, "server_error", "\"timeout\""},
    };
    struct api_error err;
    struct buf out = {0}, wanted = {0};
    EXPECT_EQ(ARRAY_LEN(ROWS), API_FAULT_COUNT);
    for (size_t i = 0; i < 2 * ARRAY_LEN(ROWS); i++) {
        const char *param = i % 2 ? "p" : NULL;
        EXPECT_EQ(api_error_set(&err, ROWS[i / 2].fault, param, "why \"%d\"", 7), -1);
        EXPECT_EQ(err.status, ROWS[i / 2].status);
        EXPECT_EQ(err.retry_after_ms, ROWS[i / 2].status == 429 ? 1000 : 0);
        buf_reset(&out);
        buf_reset(&wanted);
        api_error_write(&err, &out);
        buf_addf(
            &wanted,
            "{\"error\":{\"message\":\"why \\\"7\\\"\",\"type\":\"%s\",\"param\":%s,\"code\":%s}}",
            ROWS[i / 2].type, param ? "\"p\"" : "null", ROWS[i / 2].code);
        EXPECT_STR(buf_text(&out), buf_text(&wanted));
    }
    EXPECT_EQ(api_error_out_of_memory(&err), -1);
    EXPECT_EQ(err.status, 503);
    EXPECT_EQ(err.retry_after_ms, 1000);
    buf_release(&out);
    buf_release(&wanted);
}

/* What a client sent may be anything, and may be cut; what it gets back is UTF-8, and says when to come
 * again where it may. */
TEST(errors_can_be_read_whatever_they_are_about) {
    struct api_error err;
    api_error_set(&err, API_BAD_REQUEST, "a\xff\xc3", "'%s'", "\x80z\xe2\x82");
    EXPECT_STR(err.param, "a??");
    EXPECT_STR(err.text, "'?z?"
                         "?'");
    EXPECT_EQ(err.retry_after_ms, 0);
    api_error_set(&err, API_OVERLOADED, NULL, "full");
    EXPECT_EQ(err.retry_after_ms, 1000);
    api_error_out_of_memory(&err);
    EXPECT_EQ(err.retry_after_ms, 1000);
    EXPECT_EQ(err.status, 503);
    api_error_stream_taken(&err);
    EXPECT_EQ(err.status, 409);
    EXPECT_STR(err.code, "stream_taken");
}

TEST(errors_have_the_shape_of_their_path) {
    static const struct {
        const char *path;
        enum error_shape shape;
    } ROWS[] = {
        {"/v1/messages", ERROR_SHAPE_ANTHROPIC},
        {"/v1/messages/count_tokens", ERROR_SHAPE_ANTHROPIC},
        {"/v1/messages/", ERROR_SHAPE_ANTHROPIC},
        {"/v1/messages2", ERROR_SHAPE_OPENAI},
        {"/api/chat", ERROR_SHAPE_OLLAMA},
        {"/api/", ERROR_SHAPE_OLLAMA},
        {"/api", ERROR_SHAPE_OPENAI},
        {"/apis/chat", ERROR_SHAPE_OPENAI},
        {"/completion", ERROR_SHAPE_LLAMA},
        {"/completions", ERROR_SHAPE_LLAMA},
        {"/infill", ERROR_SHAPE_LLAMA},
        {"/slots", ERROR_SHAPE_LLAMA},
        {"/slots/0", ERROR_SHAPE_LLAMA},
        {"/slots/", ERROR_SHAPE_LLAMA},
        {"/embedding", ERROR_SHAPE_LLAMA},
        {"/embeddings", ERROR_SHAPE_LLAMA},
        {"/slotsx", ERROR_SHAPE_OPENAI},
        {"/v2/embed", ERROR_SHAPE_COHERE},
        {"/v2/rerank", ERROR_SHAPE_COHERE},
        {"/v1/rerank", ERROR_SHAPE_OPENAI},
        {"/", ERROR_SHAPE_TGI},
        {"/generate_stream", ERROR_SHAPE_TGI},
        {"/generate", ERROR_SHAPE_OPENAI},
        {"/v1/chat/completions", ERROR_SHAPE_OPENAI},
        {"/v1/completions", ERROR_SHAPE_OPENAI},
        {"", ERROR_SHAPE_OPENAI},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++)
        if (error_shape_of(bytes_str(ROWS[i].path)) != ROWS[i].shape)
            check_fail(__FILE__, __LINE__, "%s: shape %d, not %d", ROWS[i].path,
                       (int)error_shape_of(bytes_str(ROWS[i].path)), (int)ROWS[i].shape);
}

TEST(errors_of_other_dialects_have_their_words) {
    static const struct {
        int status;
        const char *anthropic, *tgi, *llama;
    } ROWS[] = {
        {400, "invalid_request_error", "validation", "invalid_request_error"},
        {401, "authentication_error", "validation", "authentication_error"},
        {403, "permission_error", "validation", "permission_error"},
        {404, "not_found_error", "validation", "not_found_error"},
        {405, "invalid_request_error", "validation", "invalid_request_error"},
        {413, "request_too_large", "validation", "invalid_request_error"},
        {415, "invalid_request_error", "validation", "invalid_request_error"},
        {429, "rate_limit_error", "overloaded", "rate_limit_error"},
        {499, "invalid_request_error", "validation", "invalid_request_error"},
        {500, "api_error", "generation", "server_error"},
        {501, "api_error", "generation", "not_supported_error"},
        {503, "overloaded_error", "overloaded", "unavailable_error"},
        {504, "timeout_error", "generation", "server_error"},
    };
    struct buf out = {0}, wanted = {0};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct api_error err = {.status = ROWS[i].status, .type = "t", .text = "a \"b\""};
        buf_reset(&out);
        anthropic_error_write(&err, "r\"1", &out);
        llama_error_write(&err, &out);
        tgi_error_write(&err, &out);
        buf_reset(&wanted);
        buf_addf(&wanted,
                 "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":\"a \\\"b\\\"\"},"
                 "\"request_id\":\"r\\\"1\"}"
                 "{\"error\":{\"code\":%d,\"message\":\"a \\\"b\\\"\",\"type\":\"%s\"}}"
                 "{\"error\":\"a \\\"b\\\"\",\"error_type\":\"%s\"}",
                 ROWS[i].anthropic, ROWS[i].status, ROWS[i].llama, ROWS[i].tgi);
        EXPECT_STR(buf_text(&out), buf_text(&wanted));
    }
    buf_release(&out);
    buf_release(&wanted);
}

/* The value of the page's line that begins with `sample`. */
static double told(const char *sample) {
    struct buf page = {0};
    metrics_write(&page);
    const char *at = strstr(buf_text(&page), sample);
    double value = at ? strtod(at + strlen(sample), NULL) : -1;
    buf_release(&page);
    return value;
}

TEST(answers_are_counted_by_their_status) {
    static const struct {
        int status;
        const char *label;
    } ROWS[] = {{200, "200"},   {400, "400"},   {401, "401"},  {404, "404"},   {405, "405"},
                {409, "409"},   {413, "413"},   {422, "422"},  {429, "429"},   {499, "499"},
                {500, "500"},   {503, "503"},   {504, "504"},  {403, "other"}, {0, "other"},
                {501, "other"}, {505, "other"}, {199, "other"}};
    char sample[80];
    gateway_metrics_register();
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        snprintf(sample, sizeof sample, "\ntrireme_gateway_answers_total{status=\"%s\"} ",
                 ROWS[i].label);
        double before = told(sample);
        gateway_metrics_answer(ROWS[i].status);
        EXPECT_EQ((int)told(sample), (int)before + 1);
    }
    static const char CANCELLED[] = "\ntrireme_gateway_finishes_total{reason=\"cancelled\"} ";
    double before = told(CANCELLED);
    gateway_metrics_cancelled(3);
    EXPECT_EQ((int)told(CANCELLED), (int)before + 3);
}
