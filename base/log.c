#include "base/log.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/utc.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/* Of a line: each character of a message becomes three at most. */
enum { MESSAGE_MAX = 4096, HEAD_MAX = 256, OUTPUT_MAX = HEAD_MAX + 3 * MESSAGE_MAX + 32 };
enum { LIMIT_WINDOW_MS = 1000 };

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

bool log_enabled(enum log_level level) {
    return (int)level >= lowest_level;
}

bool log_limit_pass(struct log_limit *limit) {
    int64_t now = clock_ms(), window = __atomic_load_n(&limit->window_ms, __ATOMIC_RELAXED);
    bool fresh = window == 0 || now - window >= LIMIT_WINDOW_MS;
    if (!fresh || !__atomic_compare_exchange_n(&limit->window_ms, &window, MAX(now, 1), false,
                                               __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        __atomic_add_fetch(&limit->dropped_count, 1, __ATOMIC_RELAXED);
        return false;
    }
    left_out_count = __atomic_exchange_n(&limit->dropped_count, 0, __ATOMIC_RELAXED);
    return true;
}

bool log_limits_pass(struct log_limit *limits) {
    int64_t now = clock_ms();
    for (int i = 0; i < LOG_SOME_LINES; i++) {
        int64_t window = __atomic_load_n(&limits[i].window_ms, __ATOMIC_RELAXED);
        if ((window == 0 || now - window >= LIMIT_WINDOW_MS) && log_limit_pass(&limits[i]))
            return true;
    }
    /* the first limit is the first to let a line pass again */
    __atomic_add_fetch(&limits[0].dropped_count, 1, __ATOMIC_RELAXED);
    return false;
}

/* A line stays one line and stays UTF-8, whatever was put into it. */
static void make_plain(char *text, size_t len) {
    for (size_t at = 0; at < len;) {
        at += utf8_valid_prefix(text + at, len - at);
        if (at < len)
            text[at++] = '?';
    }
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            text[i] = ' ';
}

PRINTF_LIKE(3, 0)
static size_t format_message(char *text, size_t max, const char *fmt, va_list args) {
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

static void format_time(char out[UTC_TEXT_MAX]) {
    int64_t now_ms = wall_ms();
    size_t len = utc_text(now_ms / 1000, out);
    snprintf(out + len, UTC_TEXT_MAX - len, ".%03dZ", (int)(now_ms % 1000));
}

static void write_line(const char *data, size_t len) {
    while (len) {
        ssize_t n = write(STDERR_FILENO, data, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return; /* nowhere to say it */
        data += n;
        len -= (size_t)n;
    }
}

/* ---- JSON: key=value words at the end of a message are members ---- */

/* Of one word at the front of a message that may be a member. */
struct word {
    size_t len, key_len; /* key_len 0: not key=value */
};

static bool is_reserved(const char *key, size_t len) {
    static const char *const NAMES[] = {"ts", "level", "proc", "pid", "msg"};
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
        if (strlen(NAMES[i]) == len && !memcmp(NAMES[i], key, len))
            return true;
    return false;
}

/* The word up to the next space: key=value, key="value with spaces", or any other. */
static struct word word_at(const char *text, size_t len) {
    struct word w = {.len = 0};
    size_t key = strspn(text, "abcdefghijklmnopqrstuvwxyz_");
    bool keyed = key > 0 && key + 1 < len && text[key] == '=' && !is_reserved(text, key);
    if (keyed && text[key + 1] == '"') {
        const char *end = memchr(text + key + 2, '"', len - key - 2);
        size_t after = end ? (size_t)(end - text) + 1 : len;
        if (end && (after == len || text[after] == ' '))
            return (struct word){after, key};
    }
    while (w.len < len && text[w.len] != ' ')
        w.len++;
    if (keyed && w.len > key + 1 && !memchr(text, '"', w.len))
        w.key_len = key;
    return w;
}

/* Where the run of key=value words begins that ends the message; len: there is none. */
static size_t find_fields(const char *text, size_t len) {
    size_t begin = len;
    for (size_t at = 0; at < len;) {
        struct word w = word_at(text + at, len - at);
        if (!w.key_len)
            begin = len;
        else if (begin == len)
            begin = at;
        at += w.len;
        at += strspn(text + at, " ");
    }
    return begin;
}

/* JSON's number, short enough that no reader rounds it. */
static bool is_number(const char *text, size_t len) {
    static const char digits[] = "0123456789";
    size_t at = len && *text == '-', whole = strspn(text + at, digits);
    if (len > 15 || whole == 0 || (whole > 1 && text[at] == '0'))
        return false;
    at += whole;
    if (at < len && text[at] == '.') {
        size_t fraction = strspn(text + at + 1, digits);
        at += fraction ? 1 + fraction : 0;
    }
    return at == len;
}

static char *append_text(char *to, const char *text, size_t len) {
    memcpy(to, text, len);
    return to + len;
}

static char *append_string(char *to, const char *text, size_t len) {
    *to++ = '"';
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '"' || text[i] == '\\')
            *to++ = '\\';
        *to++ = text[i];
    }
    *to++ = '"';
    return to;
}

static char *append_value(char *to, const char *text, size_t len) {
    if (is_number(text, len))
        return append_text(to, text, len);
    bool quoted = *text == '"';
    return append_string(to, text + quoted, len - 2 * (size_t)quoted);
}

/* The message and its fields as members. A word grows by no more than what OUTPUT_MAX allows. */
static char *append_members(char *to, const char *text, size_t len) {
    size_t fields = find_fields(text, len), end = fields;
    while (end && text[end - 1] == ' ')
        end--;
    to = append_text(to, ",\"msg\":", 7);
    to = append_string(to, text, end);
    for (size_t at = fields; at < len; at += strspn(text + at, " ")) {
        struct word w = word_at(text + at, len - at);
        *to++ = ',';
        to = append_string(to, text + at, w.key_len);
        *to++ = ':';
        to = append_value(to, text + at + w.key_len + 1, w.len - w.key_len - 1);
        at += w.len;
    }
    return to;
}

void log_write(enum log_level level, const char *fmt, ...) {
    if (!log_enabled(level))
        return;
    int saved_errno = errno, pid = (int)getpid();
    char message[MESSAGE_MAX], when[32], line[OUTPUT_MAX];
    va_list args;
    va_start(args, fmt);
    size_t len = format_message(message, sizeof message, fmt, args);
    va_end(args);
    format_time(when);
    int head =
        as_json
            ? snprintf(line, HEAD_MAX, "{\"ts\":\"%s\",\"level\":\"%s\",\"proc\":\"%s\",\"pid\":%d",
                       when, LEVEL_NAMES[level], proc_name, pid)
            : snprintf(line, HEAD_MAX, "%s %s %s[%d]: ", when, LEVEL_NAMES[level], proc_name, pid);
    char *end = line + MIN((size_t)head, (size_t)HEAD_MAX - 1);
    if (as_json) {
        end = append_members(end, message, len);
        *end++ = '}';
    } else {
        end = append_text(end, message, len);
    }
    *end++ = '\n';
    write_line(line, (size_t)(end - line));
    errno = saved_errno;
}
