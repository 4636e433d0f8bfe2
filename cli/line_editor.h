/*
 * line_editor.h - lines that a person types, with editing and a history (libedit), where standard
 * input and output are a terminal and the program was built with it; else lines as they come.
 *
 * Ctrl-C while a line is typed drops that line: the caller's handler must be installed without
 * SA_RESTART, so that reading is interrupted.
 *
 * Threading: one thread, one editor at a time.
 */
#ifndef CLI_LINE_EDITOR_H
#define CLI_LINE_EDITOR_H

#include "base/buf.h"

struct line_editor;

/* history_path: the file that lines are kept in (mode 0600), borrowed until the end; NULL: none.
 * colours: prompts are shown bold. Never NULL. */
struct line_editor *line_editor_new(const char *history_path, bool colours);
/* Ends it and sets *e to NULL. */
void line_editor_free(struct line_editor **e);
/* True when a person types: there is a prompt. */
bool line_editor_is_interactive(const struct line_editor *e);

enum line_outcome { LINE_READ, LINE_END, LINE_INTERRUPTED };
/* Reads a line, without its end, into out (emptied first). */
enum line_outcome line_editor_read(struct line_editor *e, const char *prompt, struct buf *out);
/* Adds what was typed to the history. */
void line_editor_remember(struct line_editor *e, const char *text);

#endif
