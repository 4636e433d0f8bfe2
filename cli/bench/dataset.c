#include "cli/bench/dataset.h"

#include "base/buf.h"
#include "base/fsutil.h"
#include "formats/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TRACE_BLOCK = 512, BYTES_PER_TOKEN = 4 };

/* Words that are one token in most vocabularies. */
static const char *const WORDS[] = {
    "the",  "of",    "and",   "to",    "in",    "is",    "that", "for",   "it",    "as",    "was",
    "with", "on",    "be",    "at",    "by",    "this",  "are",  "from",  "or",    "have",  "an",
    "they", "which", "one",   "you",   "were",  "her",   "all",  "their", "there", "been",  "if",
    "more", "when",  "will",  "would", "who",   "so",    "no",   "she",   "time",  "day",   "year",
    "man",  "way",   "house", "water", "light", "night", "city", "world", "long",  "small", "good"};

/* Appends count random tokens to an open JSON array or string. */
static void add_tokens(const struct bench_dataset_config *c, struct buf *json, size_t count,
                       struct bench_random *r) {
    for (size_t i = 0; i < count; i++) {
        const char *between = json->len > 1 ? c->as_text ? " " : "," : "";
        if (c->as_text)
            buf_addf(json, "%s%s", between, WORDS[bench_random_next(r) % ARRAY_LEN(WORDS)]);
        else
            buf_addf(json, "%s%" PRIu64, between, bench_random_next(r) % c->vocab);
    }
}

static void begin_prompt(const struct bench_dataset_config *c, struct buf *json) {
    buf_init(json, 0);
    buf_add_byte(json, c->as_text ? '"' : '[');
}

static char *end_prompt(const struct bench_dataset_config *c, struct buf *json) {
    buf_add_byte(json, c->as_text ? '"' : ']');
    return json->data;
}

/* Uniform around len, at least 1. */
static uint32_t draw_length(uint32_t len, double ratio, struct bench_random *r) {
    uint64_t low = (uint64_t)floor((double)len * (1 - ratio));
    uint64_t high = (uint64_t)ceil((double)len * (1 + ratio));
    return (uint32_t)MAX(bench_random_range(r, low, high), 1);
}

void bench_random_prompts(const struct bench_dataset_config *c, struct bench_random *r,
                          bench_prompts *out) {
    uint64_t prefix_seed = bench_random_next(r);
    for (size_t i = 0; i < c->count; i++) {
        struct bench_random prefix = {prefix_seed};
        struct buf json;
        begin_prompt(c, &json);
        add_tokens(c, &json, c->prefix_len, &prefix);
        add_tokens(c, &json, draw_length(c->input_len, c->range_ratio, r), r);
        struct bench_prompt prompt = {.max_tokens = draw_length(c->output_len, c->range_ratio, r)};
        prompt.json = end_prompt(c, &json);
        vec_push(out, prompt);
    }
}

/* --- ShareGPT --- */
/* The rest of one turn {"from", "value"}: its text as it stands in the file, its length decoded. */
static bool read_turn(struct json_reader *r, struct bytes *raw, size_t *len) {
    *raw = bytes_of(NULL, 0);
    for (;;) {
        enum json_event event = json_next(r);
        if (event != JSON_KEY)
            return event == JSON_OBJECT_END;
        bool value = r->text.len == 5 && !memcmp(r->text.data, "value", 5);
        if (!value) {
            if (!json_skip(r))
                return false;
            continue;
        }
        if (!json_expect(r, JSON_STRING))
            return false;
        *raw = r->raw;
        *len = r->text.len;
    }
}

/* The first two turns of the array "conversations"; what follows is dropped. */
static bool read_turns(struct json_reader *r, struct bench_prompt *out, struct bytes *raw) {
    struct bytes texts[2] = {{0}};
    size_t lens[2] = {0}, count = 0;
    if (!json_expect(r, JSON_ARRAY_BEGIN))
        return false;
    uint32_t depth = r->depth;
    for (; count < 2; count++) {
        enum json_event event = json_next(r);
        if (event == JSON_ARRAY_END)
            return true; /* too short for a question and its answer */
        if (event != JSON_OBJECT_BEGIN || !read_turn(r, &texts[count], &lens[count]))
            return false;
    }
    while (r->depth >= depth)
        if (json_next(r) == JSON_ERROR)
            return false;
    *raw = texts[0];
    out->max_tokens = (uint32_t)MIN(MAX(lens[1] / BYTES_PER_TOKEN, 1), 1u << 20);
    return true;
}

/* The next conversation; *raw: its question, empty if it has none. */
static bool read_conversation(struct json_reader *r, struct bench_prompt *out, struct bytes *raw) {
    *raw = bytes_of(NULL, 0);
    for (enum json_event event; (event = json_next(r)) != JSON_OBJECT_END;) {
        if (event != JSON_KEY)
            return false;
        static const char NAME[] = "conversations";
        bool wanted = r->text.len == sizeof NAME - 1 && !memcmp(r->text.data, NAME, r->text.len);
        if (wanted ? !read_turns(r, out, raw) : !json_skip(r))
            return false;
    }
    return true;
}

struct found {
    struct bytes raw;
    uint32_t max_tokens;
};

int bench_sharegpt_prompts(const char *path, const struct bench_dataset_config *c,
                           struct bench_random *r, bench_prompts *out, struct error *err) {
    struct file_map map;
    VEC(struct found) all = {0};
    struct json_reader reader;
    int rc = file_map_open(&map, path, err);
    if (rc)
        return rc;
    json_reader_init(&reader, bytes_of(map.data, map.len), 0, JSON_ALLOW_NUL);
    bool good = json_expect(&reader, JSON_ARRAY_BEGIN);
    while (good && json_next(&reader) == JSON_OBJECT_BEGIN) {
        struct bench_prompt prompt = {0};
        struct bytes raw;
        good = read_conversation(&reader, &prompt, &raw);
        if (good && raw.len > 2)
            vec_push(&all,
                     ((struct found){raw, c->output_len ? c->output_len : prompt.max_tokens}));
    }
    if (!good || reader.last != JSON_ARRAY_END)
        rc = error_set(err, ERR_INVALID, "'%s' is no list of conversations: %s", path,
                       reader.error.text[0] ? reader.error.text : "a conversation is no object");
    else if (!all.count)
        rc = error_set(err, ERR_INVALID, "'%s' has no conversation of two turns", path);
    for (size_t i = 0; i < all.count && i < c->count && !rc; i++) {
        size_t drawn = (size_t)bench_random_range(r, i, all.count - 1);
        struct found one = all.items[drawn];
        all.items[drawn] = all.items[i];
        vec_push(out, ((struct bench_prompt){
                          .json = mem_strndup((const char *)one.raw.data, one.raw.len),
                          .max_tokens = one.max_tokens}));
    }
    vec_release(&all);
    json_reader_release(&reader);
    file_map_close(&map);
    return rc;
}

/* --- traces --- */
struct trace_line {
    double seconds;
    int64_t input, output;
    uint64_t hashes[4096];
    size_t hash_count;
};

static bool read_hashes(struct json_reader *r, struct trace_line *line) {
    if (!json_expect(r, JSON_ARRAY_BEGIN))
        return false;
    for (enum json_event event; (event = json_next(r)) != JSON_ARRAY_END;) {
        int64_t id;
        if (event != JSON_NUMBER || !json_number_int64(r->text, &id))
            return false;
        if (line->hash_count < ARRAY_LEN(line->hashes))
            line->hashes[line->hash_count++] = (uint64_t)id;
    }
    return true;
}

static bool key_is(const struct json_reader *r, const char *key) {
    return r->text.len == strlen(key) && !memcmp(r->text.data, key, r->text.len);
}

/* Mooncake's form. */
static bool read_json_line(struct bytes text, struct trace_line *line) {
    struct json_reader r;
    double ms = -1;
    json_reader_init(&r, text, 0, 0);
    bool good = json_expect(&r, JSON_OBJECT_BEGIN);
    while (good && json_next(&r) == JSON_KEY) {
        if (key_is(&r, "timestamp"))
            good = json_read_double(&r, &ms);
        else if (key_is(&r, "input_length"))
            good = json_read_int64(&r, &line->input);
        else if (key_is(&r, "output_length"))
            good = json_read_int64(&r, &line->output);
        else if (key_is(&r, "hash_ids"))
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

/* A prompt of line->input tokens whose blocks are made from their hashes; without hashes, from r. */
static char *trace_prompt(const struct bench_dataset_config *c, const struct trace_line *line,
                          struct bench_random *r) {
    struct buf json;
    begin_prompt(c, &json);
    int64_t left = c->max_len ? MIN(line->input, c->max_len) : line->input;
    for (size_t i = 0; left > 0; i++, left -= TRACE_BLOCK) {
        struct bench_random block = {i < line->hash_count ? line->hashes[i] * 0x9E3779B9u + 1
                                                          : bench_random_next(r)};
        add_tokens(c, &json, (size_t)MIN(left, TRACE_BLOCK), &block);
    }
    return end_prompt(c, &json);
}

static int take_line(const char *path, size_t number, struct bytes text, bool csv,
                     const struct bench_dataset_config *c, struct bench_random *r,
                     bench_prompts *out, struct error *err) {
    struct trace_line *line = mem_calloc(1, sizeof *line);
    char *copy = mem_strndup((const char *)text.data, text.len);
    bool good = csv ? read_csv_line(copy, line) : read_json_line(text, line);
    int rc = 0;
    if (!good || line->input < 1 || line->input > 1 << 24 || line->output < 0 ||
        line->output > 1 << 24)
        rc = error_set(err, ERR_INVALID, "line %zu of the trace '%s' has no time and lengths",
                       number, path);
    else
        vec_push(out, ((struct bench_prompt){
                          .json = trace_prompt(c, line, r),
                          .max_tokens = (uint32_t)MAX(
                              c->max_len ? MIN(line->output, c->max_len) : line->output, 1),
                          .at = line->seconds}));
    mem_free(copy);
    mem_free(line);
    return rc;
}

int bench_trace_prompts(const char *path, const struct bench_dataset_config *c,
                        struct bench_random *r, bench_prompts *out, struct error *err) {
    struct file_map map;
    int rc = file_map_open(&map, path, err);
    if (rc)
        return rc;
    const uint8_t *at = map.data, *end = map.data + map.len;
    bool csv = map.len && *at != '{';
    for (size_t number = 1; at < end && out->count < c->count && !rc; number++) {
        const uint8_t *stop = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((stop ? stop : end) - at);
        if (len && !(csv && number == 1)) /* the names of the columns */
            rc = take_line(path, number, bytes_of(at, len), csv, c, r, out, err);
        at += len + 1;
    }
    file_map_close(&map);
    if (!rc && !out->count)
        rc = error_set(err, ERR_INVALID, "the trace '%s' is empty", path);
    for (size_t i = out->count; !rc && i-- > 0;)
        out->items[i].at -= out->items[0].at;
    for (size_t i = 1; i < out->count && !rc; i++)
        if (out->items[i].at < out->items[i - 1].at)
            rc = error_set(err, ERR_INVALID, "the trace '%s' goes back in time at request %zu",
                           path, i + 1);
    return rc;
}

void bench_prompts_release(bench_prompts *prompts) {
    for (size_t i = 0; i < prompts->count; i++)
        mem_free(prompts->items[i].json);
    vec_release(prompts);
}
