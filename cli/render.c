/*
 * render.c - trireme render: a chat template at work, for people and for checks.
 *
 * One JSON object a line comes in, the template's variables as they are (messages, tools,
 * add_generation_prompt, bos_token, ...); one goes out, in order: {"text"}, or {"error"} where
 * jinja2 with the settings of HF transformers would raise.
 */
#include "cli/commands.h"
#include "cli/lines.h"

#include "base/fsutil.h"
#include "formats/json.h"
#include "text/template/template.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LINE_BUDGET = 1 << 30 };

struct render_settings {
    const char *template, *now;
    bool jsonl;
};

static const struct option_row ROWS[] = {
    {.name = "template",
     .type = OPTION_STRING,
     .offset = offsetof(struct render_settings, template),
     .help = "File with the chat template (Jinja)."},
    {.name = "now",
     .type = OPTION_STRING,
     .offset = offsetof(struct render_settings, now),
     .help = "The local time that strftime_now shows, as 2025-07-10 or 2025-07-10T12:00:00; "
             "default: the clock's."},
    {.name = "jsonl",
     .type = OPTION_BOOL,
     .offset = offsetof(struct render_settings, jsonl),
     .help = "One JSON object a line, in and out; this is always so."}};
const struct option_table render_options = {
    .program = "trireme render",
    .synopsis = "[OPTIONS] TEMPLATE",
    .summary = "Renders a chat template: reads one JSON object of variables a line, writes "
               "{\"text\"} or {\"error\"}.",
    .rows = ROWS,
    .count = ARRAY_LEN(ROWS),
    .arguments = "template"};

/* Seconds since 1970 of local time. */
static int read_now(const char *text, int64_t *out, struct error *err) {
    static const char *const FORMATS[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S",
                                          "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%d"};
    time_t clock = time(NULL);
    struct tm tm;
    if (!text) {
        if (!localtime_r(&clock, &tm))
            return error_set(err, ERR_IO, "cannot read the clock");
        *out = (int64_t)clock + tm.tm_gmtoff;
        return 0;
    }
    for (size_t i = 0; i < ARRAY_LEN(FORMATS); i++) {
        memset(&tm, 0, sizeof tm);
        const char *end = strptime(text, FORMATS[i], &tm);
        if (!end)
            continue;
        if (*end == '.')
            end += 1 + strspn(end + 1, "0123456789"); /* parts of a second */
        if (*end && strcmp(end, "Z") != 0)
            continue;
        *out = (int64_t)timegm(&tm);
        return 0;
    }
    return error_set(err, ERR_INVALID, "--now '%.40s' is no time such as 2025-07-10T12:00:00",
                     text);
}

struct renderer {
    const struct template *t; /* NULL: it cannot be read, parse_error says why */
    const struct error *parse_error;
    struct template_limits limits;
};

static int answer(void *ctx, struct bytes line, struct buf *out, struct error *ignored) {
    const struct renderer *r = ctx;
    struct json_writer w;
    struct arena arena;
    struct tvalue variables;
    struct buf text = {0};
    struct error err;
    arena_init(&arena, LINE_BUDGET, 0);
    int rc = tvalue_from_json(&arena, line, &variables, &err);
    if (!rc && variables.kind != TVALUE_DICT)
        rc = error_set(&err, ERR_INVALID, "the line must be a JSON object");
    if (!rc && !r->t) {
        err = *r->parse_error;
        rc = err.code;
    }
    if (!rc)
        rc = template_render(r->t, variables, &r->limits, &text, &err);
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_key(&w, rc ? "error" : "text");
    if (rc)
        json_string(&w, err.text);
    else
        json_string_bytes(&w, bytes_of(buf_text(&text), text.len));
    json_end_object(&w);
    buf_release(&text);
    arena_release(&arena);
    return 0;
}

int render_main(int argc, char **argv) {
    struct render_settings s;
    struct error err, parse_error;
    struct template *t = NULL;
    struct buf source = {0};
    int64_t now_s = 0;
    int rc = option_parse(&render_options, &s, argc, argv, NULL, 0, NULL, &err);
    if (rc)
        return rc == OPTION_HELP_PRINTED ? 0 : command_misused("render", &render_options, &s, &err);
    rc = s.template ? read_now(s.now, &now_s, &err)
                    : error_set(&err, ERR_INVALID, "--template FILE is needed");
    if (rc)
        return command_misused("render", &render_options, &s, &err);
    rc = file_read_any(s.template, TEMPLATE_SOURCE_MAX, &source, &err);
    if (!rc) {
        if (template_parse(bytes_of(buf_text(&source), source.len), &t, &parse_error))
            t = NULL;
        struct renderer r = {t, &parse_error, {.now_s = now_s}};
        rc = lines_run(answer, &r, &err);
    }
    if (rc)
        fprintf(stderr, "trireme render: %s\n", err.text);
    template_free(&t);
    buf_release(&source);
    option_free(&render_options, &s);
    return rc ? 1 : 0;
}
