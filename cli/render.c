/*
 * render.c - trireme render: a chat template at work, for people and for checks.
 *
 * One JSON object a line comes in, the template's variables as they are (messages, tools, add_generation_prompt,
 * bos_token, ...); one goes out, in order: {"text"}, or {"error"} where jinja2 with the settings of HF transformers
 * would raise.
 */
#include "cli/commands.h"

#include "base/fsutil.h"
#include "formats/json.h"
#include "text/template.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LINE_BUDGET = 1 << 30 };

struct render_settings {
    const char *template, *now;
};

static const struct option_row ROWS[] = {
    {.name = "template",
     .type = OPTION_STRING,
     .offset = offsetof(struct render_settings, template),
     .help = "File with the chat template (Jinja)."},
    {.name = "now",
     .type = OPTION_STRING,
     .offset = offsetof(struct render_settings, now),
     .help = "The local time that strftime_now shows, as 2025-07-10 or 2025-07-10T12:00:00; default: the clock's."}};
const struct option_table render_options = {
    .program = "trireme render",
    .synopsis = "--template FILE",
    .summary = "Renders a chat template: reads one JSON object of variables a line, writes {\"text\"} or {\"error\"}.",
    .rows = ROWS,
    .count = ARRAY_LEN(ROWS)};

/* Seconds since 1970 of local time. */
static int read_now(const char *text, int64_t *out, struct error *err) {
    static const char *const FORMATS[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M",
                                          "%Y-%m-%d"};
    time_t clock = time(NULL);
    struct tm tm;
    if (!text) {
        if (!localtime_r(&clock, &tm)) return error_set(err, ERR_IO, "cannot read the clock");
        *out = (int64_t)clock + tm.tm_gmtoff;
        return 0;
    }
    for (size_t i = 0; i < ARRAY_LEN(FORMATS); i++) {
        memset(&tm, 0, sizeof tm);
        const char *end = strptime(text, FORMATS[i], &tm);
        if (!end) continue;
        if (*end == '.') end += 1 + strspn(end + 1, "0123456789"); /* parts of a second */
        if (*end && strcmp(end, "Z") != 0) continue;
        *out = (int64_t)timegm(&tm);
        return 0;
    }
    return error_set(err, ERR_INVALID, "--now '%.40s' is no time such as 2025-07-10T12:00:00", text);
}

/* t NULL: the template cannot be read, parse_error says why. */
static void answer(const struct template *t, const struct error *parse_error, struct bytes line, int64_t now_s,
                   struct buf *out) {
    struct template_limits limits = {.now_s = now_s};
    struct json_writer w;
    struct arena arena;
    struct tvalue variables;
    struct buf text = {0};
    struct error err;
    arena_init(&arena, LINE_BUDGET, 0);
    int rc = tvalue_from_json(&arena, line, &variables, &err);
    if (!rc && variables.kind != TVALUE_DICT) rc = error_set(&err, ERR_INVALID, "the line must be a JSON object");
    if (!rc && !t) {
        err = *parse_error;
        rc = err.code;
    }
    if (!rc) rc = template_render(t, variables, &limits, &text, &err);
    buf_reset(out);
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_key(&w, rc ? "error" : "text");
    if (rc)
        json_string(&w, err.text);
    else
        json_string_bytes(&w, bytes_of(buf_text(&text), text.len));
    json_end_object(&w);
    buf_add_byte(out, '\n');
    buf_release(&text);
    arena_release(&arena);
}

static int run_lines(const struct template *t, const struct error *parse_error, int64_t now_s) {
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    struct buf out = {0};
    bool ok = true;
    while (ok && (len = getline(&line, &cap, stdin)) >= 0) {
        while (len && (line[len - 1] == '\n' || line[len - 1] == '\r')) len--;
        if (!len) continue;
        answer(t, parse_error, bytes_of(line, (size_t)len), now_s, &out);
        ok = fwrite(buf_text(&out), 1, out.len, stdout) == out.len && fflush(stdout) == 0;
    }
    free(line);
    buf_release(&out);
    return ok ? 0 : 1;
}

int render_main(int argc, char **argv) {
    struct render_settings s;
    struct error err, parse_error;
    struct template *t = NULL;
    struct buf source = {0};
    int64_t now_s = 0;
    size_t count = 0;
    int rc = option_parse(&render_options, &s, argc, argv, NULL, 0, &count, &err);
    if (rc == OPTION_HELP_PRINTED) return 0;
    if (!rc && !s.template) rc = error_set(&err, ERR_INVALID, "--template FILE is needed");
    if (!rc) rc = read_now(s.now, &now_s, &err);
    if (rc) return command_misused("render", &err);
    rc = file_read(s.template, TEMPLATE_SOURCE_MAX, &source, &err);
    if (rc) {
        fprintf(stderr, "trireme render: %s\n", err.text);
    } else {
        if (template_parse(bytes_of(buf_text(&source), source.len), &t, &parse_error)) t = NULL;
        rc = run_lines(t, &parse_error, now_s);
    }
    template_free(&t);
    buf_release(&source);
    option_free(&render_options, &s);
    return rc ? 1 : 0;
}
