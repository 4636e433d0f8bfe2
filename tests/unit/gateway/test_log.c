/* One line in the log for each request. */
#include "capture.h"
#include "world.h"

#include "gateway/watch/gateway_metrics.h"
#include "gateway/watch/request_log.h"

/* The line of the log that has these members; NULL: none, or several. Owned by the caller. */
static cJSON *line_with(const struct buf *log, const char *name, const char *value) {
    cJSON *found = NULL;
    for (const char *at = buf_text(log), *end; (end = strchr(at, '\n')); at = end + 1) {
        cJSON *line = cJSON_ParseWithLength(at, (size_t)(end - at));
        if (strcmp(client_string(line, name), value) != 0) {
            cJSON_Delete(line);
            continue;
        }
        if (found) {
            cJSON_Delete(found);
            cJSON_Delete(line);
            return NULL;
        }
        found = line;
    }
    return found;
}

static int number_of(const cJSON *line, const char *name) {
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(line, name);
    return cJSON_IsNumber(v) ? v->valueint : -1;
}

#define JSON_POST(path, headers, body, a) client_request(w.port, "POST", path, headers, body, a)

TEST(each_request_has_one_line) {
    struct world w;
    struct answer a;
    struct buf log = {0};
    char id[256], cancelled[64];
    world_prepare(&w);
    EXPECT(world_start(&w));
    log_init("test", LOG_INFO, true);
    int64_t began_ms = clock_ms();
    struct capture capture = capture_begin(STDERR_FILENO);
    JSON_POST("/v1/completions", "X-Request-Id: whole-1\r\n",
              "{\"prompt\":[5,6,7],\"max_tokens\":9,\"ignore_eos\":true}", &a);
    EXPECT_EQ(a.status, 200);
    EXPECT_STR(client_field(&a, "X-Request-Id"), "whole-1");
    answer_release(&a);
    JSON_POST("/v1/chat/completions", NULL,
              "{\"messages\":[{\"role\":\"user\",\"content\":\"zebra\"}],\"max_tokens\":4,"
              "\"ignore_eos\":true,\"stream\":true,\"n\":2}",
              &a);
    EXPECT_EQ(a.status, 200);
    snprintf(id, sizeof id, "%s", client_field(&a, "X-Request-Id"));
    EXPECT(strncmp(id, "chatcmpl-", 9) == 0 && strstr(buf_text(&a.body), id) != NULL);
    answer_release(&a);
    JSON_POST("/v1/completions", "X-Request-Id: bad-1\r\n", "{\"prompt\":\"zebra\",\"n\":0}", &a);
    EXPECT_EQ(a.status, 400);
    answer_release(&a);
    JSON_POST("/v1/completions", "X-Request-Id: other-1\r\n",
              "{\"prompt\":\"zebra\",\"model\":\"zebra\"}", &a);
    EXPECT_EQ(a.status, 404);
    answer_release(&a);
    client_request(w.port, "GET", "/zebra", "X-Request-Id: lost-1\r\n", NULL, &a);
    EXPECT_STR(client_field(&a, "X-Request-Id"), "lost-1");
    answer_release(&a);
    client_request(w.port, "GET", "/health", "X-Request-Id: probe-1\r\n", NULL, &a);
    answer_release(&a);
    client_request(w.port, "GET", "/v1/models", "X-Request-Id: list-1\r\n", NULL, &a);
    answer_release(&a);
    int64_t before = metric_value(&gateway_metrics[GATEWAY_METRIC_FINISHES], 4);
    snprintf(cancelled, sizeof cancelled, "X-Request-Id: gone-1\r\n");
    int fd =
        client_open(w.port, "POST", "/v1/completions", cancelled,
                    "{\"prompt\":\"zebra\",\"max_tokens\":100000,\"ignore_eos\":true,\"n\":3}");
    while (fake_counts(w.fake).sequences < 3)
        sleep_ms(1);
    close(fd);
    EXPECT(wait_until(is_empty, &w));
    capture_end(&capture, &log);
    log_init("test", LOG_ERROR, false);
    int64_t all_ms = clock_ms() - began_ms + 1;

    cJSON *line = line_with(&log, "id", "whole-1");
    EXPECT_STR(client_string(line, "msg"), "request");
    EXPECT_STR(client_string(line, "path"), "/v1/completions");
    EXPECT_STR(client_string(line, "model"), "fake");
    EXPECT_STR(client_string(line, "finish"), "length");
    EXPECT(strncmp(client_string(line, "response"), "cmpl-", 5) == 0);
    EXPECT(number_of(line, "prompt_tokens") == 3 && number_of(line, "output_tokens") == 9 &&
           number_of(line, "cached_tokens") >= 0 && number_of(line, "status") == 200);
    EXPECT(number_of(line, "ttft_ms") >= 0 &&
           number_of(line, "duration_ms") >= number_of(line, "ttft_ms"));
    cJSON_Delete(line);
    line = line_with(&log, "id", id);
    EXPECT(number_of(line, "output_tokens") == 8 && number_of(line, "status") == 200);
    EXPECT_STR(client_string(line, "response"), ""); /* it is the id */
    cJSON_Delete(line);
    line = line_with(&log, "id", "bad-1");
    EXPECT(number_of(line, "status") == 400);
    EXPECT_STR(client_string(line, "path"), "/v1/completions");
    cJSON_Delete(line);
    line = line_with(&log, "id", "other-1");
    EXPECT_EQ(number_of(line, "status"), 404);
    EXPECT_STR(client_string(line, "model"), "-");
    EXPECT_STR(client_string(line, "finish"), "error");
    cJSON_Delete(line);
    line = line_with(&log, "id", "lost-1");
    EXPECT_EQ(number_of(line, "status"), 404);
    EXPECT(number_of(line, "duration_ms") >= 0 && number_of(line, "duration_ms") <= all_ms);
    EXPECT_STR(client_string(line, "path"), "-");
    cJSON_Delete(line);
    line = line_with(&log, "id", "list-1");
    EXPECT_EQ(number_of(line, "status"), 200);
    cJSON_Delete(line);
    line = line_with(&log, "id", "gone-1");
    EXPECT_EQ(number_of(line, "status"), 499);
    EXPECT_STR(client_string(line, "finish"), "cancelled");
    cJSON_Delete(line);
    EXPECT(!strstr(buf_text(&log), "probe-1"));
    EXPECT(!strstr(buf_text(&log), "zebra")); /* never text */
    EXPECT_EQ(metric_value(&gateway_metrics[GATEWAY_METRIC_FINISHES], 4) - before, 3);
    buf_release(&log);
    world_end(&w);
}

/* The line is read by its fields: a name with spaces or quotes stays one of them. */
TEST(names_of_models_are_one_field_of_the_line) {
    static const struct {
        const char *model, *field;
    } ROWS[] = {
        {"demo", " model=demo prompt_tokens="},       {NULL, " model=- prompt_tokens="},
        {"", " model=\"\" prompt_tokens="},           {"a b", " model=\"a b\" prompt_tokens="},
        {"a\"b\"", " model=\"a'b'\" prompt_tokens="}, {"\"a", " model=\"'a\" prompt_tokens="}};
    struct buf log = {0};
    log_init("test", LOG_INFO, false);
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        const struct request_line line = {.id = "x",
                                          .trace = "",
                                          .path = "/p",
                                          .model = ROWS[i].model,
                                          .finish = "stop",
                                          .status = 200};
        struct capture c = capture_begin(STDERR_FILENO);
        request_log_generation(&line);
        capture_end(&c, &log);
        if (!strstr(buf_text(&log), ROWS[i].field))
            check_fail(__FILE__, __LINE__, "row %zu: %s", i, buf_text(&log));
    }
    buf_release(&log);
}

/* Pages elsewhere reach a server on the loopback by a name of their own, or with a form. */
