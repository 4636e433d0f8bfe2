#include "cli/lines.h"

#include <stdio.h>
#include <stdlib.h>

int lines_run(lines_answer_fn *answer, void *ctx, struct error *err) {
    char *line = NULL;
    size_t room = 0;
    ssize_t len;
    int rc = 0;
    struct buf out;
    CHECK(answer);
    buf_init(&out, 0);
    while (!rc && (len = getline(&line, &room, stdin)) >= 0) {
        while (len > 0 && (line[len - 1] == '\n' || line[len - 1] == '\r'))
            len--;
        if (len == 0)
            continue;
        buf_reset(&out);
        rc = answer(ctx, bytes_of(line, (size_t)len), &out, err);
        if (!out.len)
            continue;
        buf_add_byte(&out, '\n');
        bool written = fwrite(buf_text(&out), 1, out.len, stdout) == out.len && fflush(stdout) == 0;
        if (!rc && !written)
            rc = error_set_errno(err, "cannot write the answer");
    }
    free(line);
    buf_release(&out);
    return rc;
}
