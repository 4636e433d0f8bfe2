/*
 * bench_templates.c - parsing and rendering chat templates: microseconds each, for
 * templates_bench.py, which puts jinja2's beside them.
 *
 * In: one JSON object a line: {"template": TEXT, "vars": {...}}. Out: {"parse_us", "render_us",
 * "text"}; negative times: an error.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "text/template/template.h"

enum { PARSE_ROUNDS = 50, RENDER_ROUNDS = 200 };

static double round_us(int64_t begin_ns) {
    return (double)(clock_ns() - begin_ns) / 1e3;
}

static double parse_us(struct bytes source) {
    struct template *t;
    struct error err;
    double best = 1e9;
    for (int i = 0; i < PARSE_ROUNDS; i++) {
        int64_t begin = clock_ns();
        if (template_parse(source, &t, &err))
            return -1;
        best = MIN(best, round_us(begin));
        template_free(&t);
    }
    return best;
}

static double render_us(struct bytes source, struct tvalue vars, struct buf *out) {
    struct template_limits limits = {.now_s = 1752148800};
    struct template *t;
    struct error err;
    double best = 1e9;
    if (template_parse(source, &t, &err))
        return -1;
    for (int i = 0; i < RENDER_ROUNDS && best >= 0; i++) {
        buf_reset(out);
        int64_t begin = clock_ns();
        best = template_render(t, vars, &limits, out, &err) ? -1 : MIN(best, round_us(begin));
    }
    template_free(&t);
    return best;
}

static void bench_line(struct bytes line) {
    struct arena arena;
    struct tvalue request;
    struct error err;
    struct buf text = {0}, out = {0};
    arena_init(&arena, 0, 0);
    if (!tvalue_from_json(&arena, line, &request, &err)) {
        struct bytes source = tvalue_text(tvalue_dict_get(request, bytes_str("template")));
        double parse = parse_us(source),
               render = render_us(source, tvalue_dict_get(request, bytes_str("vars")), &text);
        buf_addf(&out, "{\"parse_us\": %.2f, \"render_us\": %.2f, \"text\": \"", parse, render);
        buf_add_json(&out, buf_bytes(&text));
        buf_add_str(&out, "\"}\n");
        fwrite(out.data, out.len, 1, stdout);
        fflush(stdout);
    }
    buf_release(&out);
    buf_release(&text);
    arena_release(&arena);
}

int main(void) {
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    while ((len = getline(&line, &cap, stdin)) > 0)
        bench_line(bytes_of(line, (size_t)len));
    free(line);
    return 0;
}
