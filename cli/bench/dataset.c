#include "cli/bench/dataset.h"

#include "base/buf.h"
#include "base/fsutil.h"
#include "cli/bench/trace.h"
#include "formats/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { BYTES_PER_TOKEN = 4 };

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
/* A prompt of `input` tokens whose blocks are made from their hashes; without hashes, from r. */
static char *trace_prompt(const struct bench_dataset_config *c, const struct bench_trace *trace,
                          const struct bench_trace_request *request, struct bench_random *r) {
    const uint64_t *hashes = trace->hashes.items + request->hash_first;
    struct buf json;
    begin_prompt(c, &json);
    int64_t left = request->input;
    if (c->max_len)
        left = MIN(left, c->max_len);
    for (size_t i = 0; left > 0; i++, left -= BENCH_TRACE_BLOCK) {
        struct bench_random block = {i < request->hash_count ? hashes[i] * 0x9E3779B9u + 1
                                                             : bench_random_next(r)};
        add_tokens(c, &json, (size_t)MIN(left, BENCH_TRACE_BLOCK), &block);
    }
    return end_prompt(c, &json);
}

int bench_trace_prompts(const char *path, const struct bench_dataset_config *c,
                        struct bench_random *r, bench_prompts *out, struct error *err) {
    struct bench_trace trace = {0};
    int rc = bench_trace_read(path, c->count, &trace, err);
    for (size_t i = 0; i < trace.requests.count && !rc; i++) {
        const struct bench_trace_request *request = &trace.requests.items[i];
        uint32_t output = request->output;
        if (c->max_len)
            output = MIN(output, c->max_len);
        struct bench_prompt prompt = {.max_tokens = MAX(output, 1u), .at = request->at};
        prompt.json = trace_prompt(c, &trace, request, r);
        vec_push(out, prompt);
    }
    bench_trace_release(&trace);
    return rc;
}

void bench_prompts_release(bench_prompts *prompts) {
    for (size_t i = 0; i < prompts->count; i++)
        mem_free(prompts->items[i].json);
    vec_release(prompts);
}
