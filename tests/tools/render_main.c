/*
 * text_render: renders templates that come as JSON lines, for tests/tools/template_diff.py.
 *
 * In: one JSON object a line: {"template": TEXT, "vars": {...}, "now": seconds}. Out: {"text":
 * TEXT} or {"error": TEXT} or {"syntax": TEXT}.
 */
#include <stdio.h>
#include <stdlib.h>

#include "text/template/template.h"

static void answer(const char *key, struct bytes text) {
    struct buf out = {0};
    buf_addf(&out, "{\"%s\": \"", key);
    buf_add_json(&out, text);
    buf_add_str(&out, "\"}\n");
    fwrite(out.data, out.len, 1, stdout);
    fflush(stdout);
    buf_release(&out);
}

static void render(struct tvalue request, struct error *err) {
    struct template *t = NULL;
    struct buf out = {0};
    struct tvalue now = tvalue_dict_get(request, bytes_str("now"));
    struct template_limits limits = {.now_s = now.kind == TVALUE_INT ? now.integer : 0};
    if (template_parse(tvalue_text(tvalue_dict_get(request, bytes_str("template"))), &t, err)) {
        answer("syntax", bytes_str(err->text));
        return;
    }
    if (template_render(t, tvalue_dict_get(request, bytes_str("vars")), &limits, &out, err))
        answer("error", bytes_str(err->text));
    else
        answer("text", buf_bytes(&out));
    buf_release(&out);
    template_free(&t);
}

int main(void) {
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    while ((len = getline(&line, &cap, stdin)) > 0) {
        struct arena arena;
        struct tvalue request;
        struct error err;
        arena_init(&arena, 0, 0);
        if (tvalue_from_json(&arena, bytes_of(line, (size_t)len), &request, &err))
            answer("syntax", bytes_str(err.text));
        else
            render(request, &err);
        arena_release(&arena);
    }
    free(line);
    return 0;
}
