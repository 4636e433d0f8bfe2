/* Lines that do not come from a person: one after the other, without their ends. */
#include "cli/line_editor.h"

#include <unistd.h>

#include "check.h"

/* Standard input is a pipe with this text. Returns what it was. */
static int give_input(const char *text) {
    int fds[2], before = dup(STDIN_FILENO);
    CHECK(before >= 0 && pipe(fds) == 0);
    CHECK(write(fds[1], text, strlen(text)) == (ssize_t)strlen(text));
    CHECK(dup2(fds[0], STDIN_FILENO) == STDIN_FILENO);
    close(fds[0]);
    close(fds[1]);
    return before;
}

TEST(lines_come_one_after_the_other) {
    int before = give_input("first\nsecond line\r\n\nlast, without an end");
    struct line_editor *e = line_editor_new(NULL, false);
    struct buf out = {0};
    static const char *const LINES[] = {"first", "second line", "", "last, without an end"};
    EXPECT(!line_editor_is_interactive(e));
    for (size_t i = 0; i < ARRAY_LEN(LINES); i++) {
        EXPECT_EQ(line_editor_read(e, "> ", &out), LINE_READ);
        EXPECT_STR(buf_text(&out), LINES[i]);
        EXPECT_EQ(out.len, strlen(LINES[i]));
    }
    EXPECT_EQ(line_editor_read(e, "> ", &out), LINE_END);
    EXPECT_EQ(out.len, 0);
    line_editor_remember(e, "first"); /* there is no history to add to */
    buf_release(&out);
    line_editor_free(&e);
    EXPECT(!e);
    CHECK(dup2(before, STDIN_FILENO) == STDIN_FILENO);
    close(before);
}
