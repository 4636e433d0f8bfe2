/*
 * log.h - one line an event, text or JSON, to standard error. Thread-safe; a line is one write.
 *
 * Text: "2026-01-02T03:04:05.678Z info gateway[123]: started port=8080". JSON:
 * {"ts":"...","level":"info","proc":"gateway","pid":123,"msg":"started","port":8080}: the words
 * key=value that end a message are members, numbers as numbers; key="a value" may have spaces. A
 * key is of [a-z_] and not one of the five above. Never log a prompt, an answer or a key.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/base.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

/* proc is the name in every line (kept, not copied). */
void log_init(const char *proc, enum log_level level, bool json);
/* True when lines of this level are written. */
bool log_enabled(enum log_level level);
/* fmt is the message; key=value pairs go into the text as `key=%d`, behind everything else. */
void log_write(enum log_level level, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* At most one line a second for each call site; the next line tells how many were left out. */
#define LOG_LIMITED(level, ...)                                                                    \
    do {                                                                                           \
        static struct log_limit log_limit_;                                                        \
        if (log_limit_pass(&log_limit_))                                                           \
            log_write(level, __VA_ARGS__);                                                         \
    } while (0)
/* At most LOG_SOME_LINES a second: for what may happen to many at once, and may repeat. */
enum { LOG_SOME_LINES = 8 };
#define LOG_SOME(level, ...)                                                                       \
    do {                                                                                           \
        static struct log_limit log_limits_[LOG_SOME_LINES];                                       \
        if (log_limits_pass(log_limits_))                                                          \
            log_write(level, __VA_ARGS__);                                                         \
    } while (0)
struct log_limit {
    int64_t window_ms;
    uint32_t dropped_count;
};
/* For LOG_LIMITED: true when this line may be written; else it is counted as left out. */
bool log_limit_pass(struct log_limit *limit);
/* The same for LOG_SOME: LOG_SOME_LINES limits, each of which lets a line a second pass. */
bool log_limits_pass(struct log_limit *limits);
#define log_debug(...)                                                                             \
    do {                                                                                           \
        if (log_enabled(LOG_DEBUG))                                                                \
            log_write(LOG_DEBUG, __VA_ARGS__);                                                     \
    } while (0)
#define log_info(...)  log_write(LOG_INFO, __VA_ARGS__)
#define log_warn(...)  log_write(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)

#endif
