/* trireme logits: what a model says of every position of sequences given as token ids. */
#include "cli/logits.h"

#include "base/vec.h"
#include "cli/commands.h"
#include "cli/lines.h"
#include "cli/model_path.h"
#include "cli/scorer_settings.h"
#include "formats/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct logits_settings {
    const char *model;
    int64_t ctx;
    bool jsonl;
    struct scorer_settings scorer;
};

#define ROW(field_, name_, type_, ...)                                                             \
    {                                                                                              \
        .name = name_, .type = type_, .offset = offsetof(struct logits_settings, field_),          \
        __VA_ARGS__                                                                                \
    }
static const struct option_row ROWS[] = {
    ROW(model, "model", OPTION_STRING, .short_name = 'm',
        .help = "folder of the model; needs no tokenizer"),
    ROW(jsonl, "jsonl", OPTION_BOOL,
        .help = "read lines {\"ids\": [..], \"chunks\": [..]} and write lines {\"logits\": [[..], "
                "..]}; the default"),
    ROW(ctx, "max-context", OPTION_INT, .max = 1 << 20, .unit = "tokens",
        .aliases = "--ctx -c --ctx-size --max-model-len --context-length --max-seq-len --num-ctx",
        .alias_words = "auto=0 -1=0",
        .help = "longest sequence that is taken; 0: the model's context"),
    SCORER_ROWS(struct logits_settings),
};
const struct option_table logits_options = {
    .program = "trireme logits",
    .synopsis = "[OPTIONS] MODEL",
    .summary = "Computes the logits of every position of the sequences on standard input.",
    .rows = ROWS,
    .count = ARRAY_LEN(ROWS),
    .arguments = "model"};

struct u32_list {
    uint32_t *items;
    size_t count, cap;
};

struct request {
    struct u32_list ids, chunks;
    bool has_ids, has_chunks;
};

static bool read_list(struct json_reader *r, struct u32_list *list, bool *has) {
    enum json_event ev;
    int64_t v;
    if (!json_expect(r, JSON_ARRAY_BEGIN))
        return false;
    list->count = 0;
    *has = true;
    while ((ev = json_next(r)) == JSON_NUMBER) {
        if (!json_number_int64(r->text, &v) || v < 0 || v > INT32_MAX)
            return json_fail(r, "a number here must be an integer from 0 to %d", INT32_MAX);
        if (list->count == LOGITS_IDS_MAX)
            return json_fail(r, "more than %d numbers", LOGITS_IDS_MAX);
        vec_push(list, (uint32_t)v);
    }
    return ev == JSON_ARRAY_END || (ev != JSON_ERROR && json_fail(r, "expected a number"));
}

static bool read_request(struct json_reader *r, struct request *q) {
    enum json_event ev;
    if (!json_expect(r, JSON_OBJECT_BEGIN))
        return false;
    while ((ev = json_next(r)) == JSON_KEY) {
        bool ok = bytes_equal(r->text, bytes_str("ids")) ? read_list(r, &q->ids, &q->has_ids)
                  : bytes_equal(r->text, bytes_str("chunks"))
                      ? read_list(r, &q->chunks, &q->has_chunks)
                      : json_skip(r);
        if (!ok)
            return false;
    }
    if (ev == JSON_OBJECT_END && !q->has_ids)
        return json_fail(r, "\"ids\" is missing");
    return ev == JSON_OBJECT_END && json_next(r) == JSON_END;
}

/* The shortest of %.6g .. %.9g that gives the value back. */
static void add_f32(struct buf *out, float v) {
    char text[32];
    if (!isfinite(v)) {
        buf_add_str(out, "null");
        return;
    }
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)v);
        if (strtof(text, NULL) == v)
            break;
    }
    buf_add_str(out, text);
}

struct rows {
    struct buf *out;
    uint32_t vocab;
};

static bool add_rows(void *ctx, uint32_t first, const float *logits, uint32_t count) {
    const struct rows *rows = ctx;
    for (uint32_t i = 0; i < count; i++) {
        buf_add_str(rows->out, first + i ? ",[" : "[");
        for (uint32_t v = 0; v < rows->vocab; v++) {
            if (v)
                buf_add_byte(rows->out, ',');
            add_f32(rows->out, logits[(size_t)i * rows->vocab + v]);
        }
        buf_add_byte(rows->out, ']');
    }
    return true;
}

static void add_error(struct buf *out, size_t begin, const char *text) {
    out->len = begin;
    buf_add_str(out, "{\"error\":\"");
    buf_add_json(out, bytes_str(text));
    buf_add_str(out, "\"}");
}

int logits_answer(struct scorer *s, struct bytes line, struct buf *out, struct error *err) {
    struct request q = {0};
    struct json_reader r;
    size_t begin = out->len;
    struct rows rows = {.out = out, .vocab = s->model.spec.vocab};
    json_reader_init(&r, line, 0, 0);
    int rc = 0;
    if (!read_request(&r, &q)) {
        add_error(out, begin, r.error.text);
    } else {
        buf_add_str(out, "{\"logits\":[");
        rc = scorer_run(s, q.ids.items, q.ids.count, q.chunks.items, q.chunks.count, add_rows,
                        &rows, err);
        buf_add_str(out, "]}");
        if (rc)
            add_error(out, begin, err->text);
    }
    vec_release(&q.ids);
    vec_release(&q.chunks);
    json_reader_release(&r);
    return rc == ERR_IO ? rc : 0;
}

static int answer_line(void *ctx, struct bytes line, struct buf *out, struct error *err) {
    while (line.len && strchr(" \t\r", line.data[line.len - 1]))
        line.len--;
    return line.len ? logits_answer(ctx, line, out, err) : 0;
}

int logits_main(int argc, char **argv) {
    struct error err = {0};
    struct logits_settings o;
    struct scorer s = {.dev = NULL};
    int rc = option_parse(&logits_options, &o, argc, argv, NULL, 0, NULL, &err);
    if (rc == OPTION_HELP_PRINTED)
        return 0;
    if (!rc && !o.model)
        rc = error_set(&err, ERR_INVALID,
                       "which model? give a folder, a .gguf file or a hub's name");
    if (rc)
        return command_misused("logits", &logits_options, &o, &err);
    rc = model_path_of_option(&o.model, &err);
    const struct scorer_options options = scorer_options_of(&o.scorer, o.model, (uint32_t)o.ctx);
    if (!rc)
        rc = scorer_open(&s, &options, &err);
    if (!rc)
        rc = lines_run(answer_line, &s, &err);
    if (rc)
        fprintf(stderr, "trireme logits: %s\n", err.text);
    scorer_close(&s);
    option_free(&logits_options, &o);
    return rc ? 1 : 0;
}
