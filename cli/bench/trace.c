#include "cli/bench/trace.h"

#include "base/fsutil.h"
#include "formats/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LENGTH_MAX = 1 << 24 };

/* One line; its hashes are cleared, and kept allocated, from one to the next. */
struct trace_line {
    double seconds;
    int64_t input, output;
    VEC(uint64_t) hashes;
};

static bool read_hashes(struct json_reader *r, struct trace_line *line) {
    if (!json_expect(r, JSON_ARRAY_BEGIN))
        return false;
    for (enum json_event event; (event = json_next(r)) != JSON_ARRAY_END;) {
        int64_t id;
        if (event != JSON_NUMBER || !json_number_int64(r->text, &id))
            return false;
        vec_push(&line->hashes, (uint64_t)id);
    }
    return true;
}

/* Mooncake's form. */
static bool read_json_line(struct bytes text, struct trace_line *line) {
    struct json_reader r;
    double ms = -1;
    json_reader_init(&r, text, 0, 0);
    bool good = json_expect(&r, JSON_OBJECT_BEGIN);
    while (good && json_next(&r) == JSON_KEY) {
        if (json_text_is(&r, "timestamp"))
            good = json_read_double(&r, &ms);
        else if (json_text_is(&r, "input_length"))
            good = json_read_int64(&r, &line->input);
        else if (json_text_is(&r, "output_length"))
            good = json_read_int64(&r, &line->output);
        else if (json_text_is(&r, "hash_ids"))
            good = read_hashes(&r, line);
        else
            good = json_skip(&r);
    }
    good = good && r.last == JSON_OBJECT_END && json_next(&r) == JSON_END && ms >= 0;
    json_reader_release(&r);
    line->seconds = ms / 1000;
    return good;
}

/* Azure's form: 2023-11-16 18:15:46.6805900,374,44 */
static bool read_csv_line(const char *text, struct trace_line *line) {
    struct tm tm = {0};
    int begin = 0, end = 0;
    double fraction = 0;
    if (sscanf(text, "%d-%d-%d %d:%d:%d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour,
               &tm.tm_min, &tm.tm_sec, &begin) != 6)
        return false;
    if (tm.tm_year < 1900 || tm.tm_year > 9999 || tm.tm_mon < 1 || tm.tm_mon > 12 ||
        tm.tm_mday < 1 || tm.tm_mday > 31 || tm.tm_hour < 0 || tm.tm_hour > 23 || tm.tm_min < 0 ||
        tm.tm_min > 59 || tm.tm_sec < 0 || tm.tm_sec > 60)
        return false;
    if (text[begin] == '.') {
        char *after;
        fraction = strtod(text + begin, &after);
        begin = (int)(after - text);
    }
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    line->seconds = (double)timegm(&tm) + fraction;
    return sscanf(text + begin, ",%" SCNd64 ",%" SCNd64 "%n", &line->input, &line->output, &end) ==
               2 &&
           strspn(text + begin + end, "\r") == strlen(text + begin + end);
}

static int take_line(const char *path, size_t number, struct bytes text, bool csv,
                     struct trace_line *line, struct bench_trace *out, struct error *err) {
    char *copy = mem_strndup((const char *)text.data, text.len);
    line->input = line->output = 0;
    line->hashes.count = 0;
    bool good = csv ? read_csv_line(copy, line) : read_json_line(text, line);
    mem_free(copy);
    if (!good || line->input < 1 || line->input > LENGTH_MAX || line->output < 0 ||
        line->output > LENGTH_MAX)
        return error_set(err, ERR_INVALID, "line %zu of the trace '%s' has no time and lengths",
                         number, path);
    struct bench_trace_request request = {.at = line->seconds,
                                          .input = (uint32_t)line->input,
                                          .output = (uint32_t)line->output,
                                          .hash_first = out->hashes.count,
                                          .hash_count = line->hashes.count};
    for (size_t i = 0; i < line->hashes.count; i++)
        vec_push(&out->hashes, line->hashes.items[i]);
    vec_push(&out->requests, request);
    return 0;
}

/* Times never go back; they are counted from the first request. */
static int check_times(const char *path, struct bench_trace *out, struct error *err) {
    if (!out->requests.count)
        return error_set(err, ERR_INVALID, "the trace '%s' is empty", path);
    struct bench_trace_request *requests = out->requests.items;
    for (size_t i = out->requests.count; i-- > 0;)
        requests[i].at -= requests[0].at;
    for (size_t i = 1; i < out->requests.count; i++)
        if (requests[i].at < requests[i - 1].at)
            return error_set(err, ERR_INVALID, "the trace '%s' goes back in time at request %zu",
                             path, i + 1);
    return 0;
}

int bench_trace_read(const char *path, size_t count, struct bench_trace *out, struct error *err) {
    struct file_map map;
    *out = (struct bench_trace){0};
    int rc = file_map_open(&map, path, err);
    if (rc)
        return rc;
    struct trace_line line = {0};
    const uint8_t *at = map.data, *end = map.data + map.len;
    bool csv = map.len && *at != '{';
    for (size_t number = 1; at < end && out->requests.count < count && !rc; number++) {
        const uint8_t *stop = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((stop ? stop : end) - at);
        if (len && !(csv && number == 1)) /* the names of the columns */
            rc = take_line(path, number, bytes_of(at, len), csv, &line, out, err);
        at += len + 1;
    }
    vec_release(&line.hashes);
    file_map_close(&map);
    return rc ? rc : check_times(path, out, err);
}

void bench_trace_release(struct bench_trace *trace) {
    vec_release(&trace->requests);
    vec_release(&trace->hashes);
}
