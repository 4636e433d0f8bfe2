#include "base/log.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGE_MAX = 4096, LIMIT_WINDOW_MS = 1000 };

static const char *const LEVEL_NAMES[] = {"debug", "info", "warn", "error"};
static const char *proc_name = "trireme";
static _Atomic int lowest_level = LOG_INFO;
static bool as_json;
/* Lines that log_limit_pass held back, told by this thread's next line. */
static _Thread_local uint32_t left_out_count;

void log_init(const char *proc, enum log_level level, bool json) {
    proc_name = proc;
    lowest_level = (int)level;
    as_json = json;
}

bool log_enabled(enum log_level level) { return (int)level >= lowest_level; }

bool log_limit_pass(struct log_limit *limit) {
    int64_t now = clock_ms(), window = __atomic_load_n(&limit->window_ms, __ATOMIC_RELAXED);
    bool fresh = window == 0 || now - window >= LIMIT_WINDOW_MS;
    if (!fresh || !__atomic_compare_exchange_n(&limit->window_ms, &window, MAX(now, 1), false, __ATOMIC_RELAXED,
                                               __ATOMIC_RELAXED)) {
        __atomic_add_fetch(&limit->dropped_count, 1, __ATOMIC_RELAXED);
        return false;
    }
    left_out_count = __atomic_exchange_n(&limit->dropped_count, 0, __ATOMIC_RELAXED);
    return true;
}

/* A line stays one line and stays UTF-8, whatever was put into it. */
static void make_plain(char *text, size_t len) {
    for (size_t at = 0; at < len;) {
        at += utf8_valid_prefix(text + at, len - at);
        if (at < len) text[at++] = '?';
    }
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) text[i] = ' ';
}

PRINTF_LIKE(3, 0) static size_t format_message(char *text, size_t max, const char *fmt, va_list args) {
    int used = vsnprintf(text, max, fmt, args);
    size_t len = MIN((size_t)MAX(used, 0), max - 1);
    if (left_out_count) {
        len = MIN(len, max - 32);
        len += (size_t)snprintf(text + len, max - len, " left_out=%u", left_out_count);
        left_out_count = 0;
    }
    make_plain(text, len);
    return len;
}

static void format_time(char out[32]) {
    int64_t now_ms = wall_ms();
    time_t seconds = (time_t)(now_ms / 1000);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    size_t len = strftime(out, 32, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(out + len, 32 - len, ".%03dZ", (int)(now_ms % 1000));
}

static void write_line(const char *data, size_t len) {
    while (len) {
        ssize_t n = write(STDERR_FILENO, data, len);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return; /* nowhere to say it */
        data += n;
        len -= (size_t)n;
    }
}

void log_write(enum log_level level, const char *fmt, ...) {
    if (!log_enabled(level)) return;
    int saved_errno = errno;
    char message[MESSAGE_MAX], when[32], line[2 * MESSAGE_MAX + 256];
    va_list args;
    va_start(args, fmt);
    size_t len = format_message(message, sizeof message, fmt, args);
    va_end(args);
    format_time(when);
    const char *pattern =
        as_json ? "{\"ts\":\"%s\",\"level\":\"%s\",\"proc\":\"%s\",\"pid\":%d,\"msg\":\"" : "%s %s %s[%d]: ";
    _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wformat-nonliteral\"") size_t used =
        (size_t)snprintf(line, 256, pattern, when, LEVEL_NAMES[level], proc_name, (int)getpid());
    _Pragma("GCC diagnostic pop") used = MIN(used, (size_t)255);
    for (size_t i = 0; i < len; i++) {
        if (as_json && (message[i] == '"' || message[i] == '\\')) line[used++] = '\\';
        line[used++] = message[i];
    }
    if (as_json) {
        line[used++] = '"';
        line[used++] = '}';
    }
    line[used++] = '\n';
    write_line(line, used);
    errno = saved_errno;
}
