#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/utf8.h"
#include "check.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static char captured[1 << 20];
static int real_stderr, capture_fd;

static void capture_start(void) {
    char path[] = "/tmp/trireme-test-log-XXXXXX";
    capture_fd = mkstemp(path);
    unlink(path);
    real_stderr = dup(STDERR_FILENO);
    dup2(capture_fd, STDERR_FILENO);
}

static const char *capture_end(void) {
    dup2(real_stderr, STDERR_FILENO);
    close(real_stderr);
    ssize_t n = pread(capture_fd, captured, sizeof captured - 1, 0);
    captured[n > 0 ? n : 0] = 0;
    close(capture_fd);
    return captured;
}

/* A strict enough reader of one flat JSON object of strings and whole numbers: true when all of
 * text is one. */
static bool is_flat_json(const char *s) {
    if (*s++ != '{')
        return false;
    for (bool key = true;; key = !key) {
        if (*s == '"') {
            for (s++; *s != '"'; s++) {
                if ((unsigned char)*s < 0x20)
                    return false;
                if (*s == '\\' && !strchr("\"\\/bfnrt", *++s))
                    return false;
            }
            s++;
        } else if (!key && strspn(s, "-.0123456789")) {
            s += strspn(s, "-.0123456789");
        } else
            return false;
        if (!key && *s == '}')
            return !s[1];
        if (*s++ != (key ? ':' : ','))
            return false;
    }
}

TEST(log_text_line_has_its_parts) {
    log_init("gateway", LOG_INFO, false);
    capture_start();
    log_info("started port=%d", 8080);
    const char *line = capture_end();
    EXPECT(line[4] == '-' && line[10] == 'T' && line[19] == '.' && line[23] == 'Z');
    EXPECT(!strncmp(line + 24, " info gateway[", 14));
    EXPECT(strstr(line, "]: started port=8080\n"));
}

/* Seconds since 1970 of a line's "2026-11-29T09:50:00.123Z". */
static int64_t time_of(const char *line) {
    struct tm utc = {0};
    const char *rest = strptime(line, "%Y-%m-%dT%H:%M:%S", &utc);
    return rest && *rest == '.' ? timegm(&utc) : -1;
}

TEST(log_lines_begin_with_the_time_in_utc) {
    for (int json = 0; json < 2; json++) {
        log_init("gateway", LOG_INFO, json);
        int64_t before = wall_ms() / 1000;
        capture_start();
        log_info("started");
        int64_t at = time_of(capture_end() + (json ? 7 : 0)), after = wall_ms() / 1000;
        EXPECT(before <= at && at <= after);
    }
}

TEST(log_json_lines_are_valid_whatever_is_in_them) {
    log_init("test", LOG_DEBUG, true);
    capture_start();
    log_warn("quote \" backslash \\ newline \n tab \t bad \xff\xc3 good \xc3\xa9");
    log_debug("plain");
    char big[9000];
    memset(big, '"', sizeof big - 1);
    big[sizeof big - 1] = 0;
    log_error("%s", big);
    for (size_t i = 0; i + 4 < sizeof big; i += 4)
        memcpy(big + i, "a=\\ ", 4);
    log_error("%s", big);
    const char *text = capture_end();
    EXPECT(utf8_valid(text, strlen(text)));
    int lines = 0;
    for (char *line = strtok((char *)text, "\n"); line; line = strtok(NULL, "\n"), lines++) {
        EXPECT(is_flat_json(line));
        EXPECT(strstr(line, "\"proc\":\"test\"") && strstr(line, "\"ts\":\"20"));
    }
    EXPECT_EQ(lines, 4);
    EXPECT(!is_flat_json("{\"a\":\"b\nc\"}")); /* the reader itself can say no */
}

/* What JSON makes of a message: the line behind its pid. */
static void expect_members(const char *message, const char *members) {
    char want[512];
    capture_start();
    log_info("%s", message);
    const char *line = capture_end();
    const char *at = strstr(line, ",\"msg\"");
    snprintf(want, sizeof want, "%s}\n", members);
    if (!at || strcmp(at, want) != 0)
        check_fail(__FILE__, __LINE__, "%s: %s", message, line);
}

TEST(log_json_has_the_fields_of_a_message) {
    log_init("test", LOG_INFO, true);
    expect_members("started port=8080 host=::1",
                   ",\"msg\":\"started\",\"port\":8080,\"host\":\"::1\"");
    expect_members("a=1", ",\"msg\":\"\",\"a\":1");
    expect_members("done ms=12.5 cold=-3 id=007 big=1234567890123456 hex=1e5 end=5.",
                   ",\"msg\":\"done\",\"ms\":12.5,\"cold\":-3,\"id\":\"007\","
                   "\"big\":\"1234567890123456\",\"hex\":\"1e5\",\"end\":\"5.\"");
    expect_members("request model=\"a b\" path=\\ x=\"\"",
                   ",\"msg\":\"request\",\"model\":\"a b\",\"path\":\"\\\\\",\"x\":\"\"");
    /* what is no field, and what stands before it, stays in the message */
    expect_members("a=1 b=2 then c=3", ",\"msg\":\"a=1 b=2 then\",\"c\":3");
    expect_members("a=1 pid=2", ",\"msg\":\"a=1 pid=2\"");
    expect_members("x level=info b=1", ",\"msg\":\"x level=info\",\"b\":1");
    expect_members("a= b=\"open c=\"1\"2 d=e\"", ",\"msg\":\"a= b=\\\"open c=\\\"1\\\"2 d=e\\\"\"");
    expect_members("", ",\"msg\":\"\"");
}

TEST(log_level_holds_back) {
    log_init("test", LOG_WARN, false);
    EXPECT(!log_enabled(LOG_INFO));
    capture_start();
    log_debug("a");
    log_info("b");
    log_warn("c");
    const char *text = capture_end();
    EXPECT(strstr(text, "]: c\n") && !strstr(text, "]: b") && !strstr(text, "]: a"));
}

TEST(log_limited_tells_what_it_left_out) {
    log_init("test", LOG_INFO, false);
    capture_start();
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 50; i++)
            LOG_LIMITED(LOG_WARN, "often %d %d", round, i);
        if (round == 0)
            sleep_ms(1050);
    }
    const char *text = capture_end();
    EXPECT(strstr(text, "often 0 0\n"));
    EXPECT(strstr(text, "often 1 0 left_out=49\n"));
    EXPECT(!strstr(text, "often 0 1"));
    EXPECT(!strstr(text, "often 1 1"));
}

TEST(log_some_lets_a_few_lines_a_second_pass) {
    log_init("test", LOG_INFO, false);
    capture_start();
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 50; i++)
            LOG_SOME(LOG_WARN, "some %d %d", round, i);
        if (round == 0)
            sleep_ms(1050);
    }
    const char *text = capture_end();
    EXPECT(strstr(text, "some 0 0\n") && strstr(text, "some 0 7\n") && !strstr(text, "some 0 8"));
    EXPECT(strstr(text, "some 1 0 left_out=42\n") && strstr(text, "some 1 1\n"));
    EXPECT(strstr(text, "some 1 7\n") && !strstr(text, "some 1 8"));
}

static void *write_lines(void *arg) {
    for (int i = 0; i < 500; i++)
        log_info("thread=%d line=%d end", (int)(intptr_t)arg, i);
    return NULL;
}

TEST(log_lines_of_threads_stay_whole) {
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    log_init("test", LOG_INFO, true);
    capture_start();
    for (intptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, write_lines, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    const char *text = capture_end();
    int lines = 0;
    for (char *line = strtok((char *)text, "\n"); line; line = strtok(NULL, "\n"), lines++)
        EXPECT(is_flat_json(line) && strstr(line, " end\"}"));
    EXPECT_EQ(lines, THREADS * 500);
}
