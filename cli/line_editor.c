#include "cli/line_editor.h"

#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef TRIREME_HAVE_LIBEDIT
#include <histedit.h>
#include <wchar.h>
#endif

enum { HISTORY_LINES = 1000 };

struct line_editor {
    bool interactive, colours;
    const char *prompt; /* of the line that is read */
    char *line;         /* of getline */
    size_t room;
#ifdef TRIREME_HAVE_LIBEDIT
    EditLine *edit; /* NULL: lines as they come */
    History *history;
    const char *history_path;
    char shown[64]; /* the prompt as libedit gets it */
#endif
};

/* ---- Ctrl-C ---- */

/* Ctrl-C is held back from before the prompt is shown and let through in wait_for_input only, or
 * one between prompt and read would be lost: the handler returns, and the read blocks. */
static void hold_interrupt(sigset_t *before) {
    sigset_t interrupt;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    sigprocmask(SIG_BLOCK, &interrupt, before);
}

/* Until standard input has something or has ended: true; false with errno EINTR: a signal came. */
static bool wait_for_input(void) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    sigset_t mask;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    sigdelset(&mask, SIGINT);
    return ppoll(&input, 1, NULL, &mask) >= 0 || errno != EINTR;
}

#ifdef TRIREME_HAVE_LIBEDIT
/* ---- with editing ---- */

/* \1 stands before and after what takes no room on the screen. */
static char *show_prompt(EditLine *edit) {
    struct line_editor *e;
    el_get(edit, EL_CLIENTDATA, &e);
    snprintf(e->shown, sizeof e->shown, e->colours ? "\1\033[1m\1%s\1\033[0m\1" : "%s", e->prompt);
    return e->shown;
}

/* libedit's reading of a character: 1, 0 at the end of input, -1 with errno. Bytes that are no
 * character are dropped. */
static int read_character(EditLine *edit, wchar_t *out) {
    mbstate_t state = {0};
    for (;;) {
        char byte;
        ssize_t got = wait_for_input() ? read(STDIN_FILENO, &byte, 1) : -1;
        if (got <= 0)
            return (int)got;
        size_t rc = mbrtowc(out, &byte, 1, &state);
        if (rc <= 1)
            return 1;
        if (rc == (size_t)-1)
            state = (mbstate_t){0};
    }
}

static void begin_editing(struct line_editor *e) {
    HistEvent event;
    e->edit = el_init("trireme", stdin, stdout, stderr);
    if (!e->edit)
        return;
    e->history = history_init();
    history(e->history, &event, H_SETSIZE, HISTORY_LINES);
    history(e->history, &event, H_SETUNIQUE, 1);
    if (e->history_path)
        history(e->history, &event, H_LOAD, e->history_path);
    el_set(e->edit, EL_CLIENTDATA, e);
    el_set(e->edit, EL_GETCFN, read_character);
    el_set(e->edit, EL_EDITOR, "emacs");
    el_set(e->edit, EL_PROMPT_ESC, show_prompt, '\1');
    el_set(e->edit, EL_HIST, history, e->history);
    el_set(e->edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_source(e->edit, NULL); /* a person's ~/.editrc */
}

static void end_editing(struct line_editor *e) {
    HistEvent event;
    if (!e->edit)
        return;
    mode_t before = umask(077);
    if (e->history_path)
        history(e->history, &event, H_SAVE, e->history_path);
    umask(before);
    history_end(e->history);
    el_end(e->edit);
}

static enum line_outcome edit_line(struct line_editor *e, struct buf *out) {
    int count = 0;
    errno = 0;
    const char *line = el_gets(e->edit, &count);
    if (line && count > 0) {
        buf_add(out, line, (size_t)count);
        return LINE_READ;
    }
    if (count < 0 && errno == EINTR) {
        el_reset(e->edit);
        return LINE_INTERRUPTED;
    }
    return LINE_END;
}
#endif

struct line_editor *line_editor_new(const char *history_path, bool colours) {
    struct line_editor *e = mem_calloc(1, sizeof *e);
    const char *term = getenv("TERM");
    e->interactive = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    e->colours = colours;
#ifdef TRIREME_HAVE_LIBEDIT
    e->history_path = history_path;
    if (!setlocale(LC_CTYPE, "") || !strcmp(setlocale(LC_CTYPE, NULL), "C"))
        setlocale(LC_CTYPE, "C.UTF-8");
    if (e->interactive && term && *term && strcmp(term, "dumb") != 0)
        begin_editing(e);
#else
    (void)term;
    (void)history_path;
#endif
    return e;
}

void line_editor_free(struct line_editor **at) {
    struct line_editor *e = *at;
    if (!e)
        return;
#ifdef TRIREME_HAVE_LIBEDIT
    end_editing(e);
#endif
    free(e->line);
    mem_free(e);
    *at = NULL;
}

bool line_editor_is_interactive(const struct line_editor *e) {
    return e->interactive;
}

/* ---- without ---- */

/* A terminal hands lines out one by one, so that none waits in stdio's buffer. */
static enum line_outcome plain_line(struct line_editor *e, struct buf *out) {
    if (e->interactive)
        fputs(e->prompt, stdout);
    fflush(stdout);
    if (e->interactive && !wait_for_input())
        return LINE_INTERRUPTED;
    ssize_t len = getline(&e->line, &e->room, stdin);
    if (len < 0)
        return LINE_END;
    buf_add(out, e->line, (size_t)len);
    return LINE_READ;
}

enum line_outcome line_editor_read(struct line_editor *e, const char *prompt, struct buf *out) {
    sigset_t before;
    buf_reset(out);
    e->prompt = prompt;
    if (e->interactive)
        hold_interrupt(&before);
#ifdef TRIREME_HAVE_LIBEDIT
    enum line_outcome outcome = e->edit ? edit_line(e, out) : plain_line(e, out);
#else
    enum line_outcome outcome = plain_line(e, out);
#endif
    if (e->interactive)
        sigprocmask(SIG_SETMASK, &before, NULL);
    while (out->len && (out->data[out->len - 1] == '\n' || out->data[out->len - 1] == '\r'))
        out->data[--out->len] = 0;
    return outcome;
}

void line_editor_remember(struct line_editor *e, const char *text) {
#ifdef TRIREME_HAVE_LIBEDIT
    HistEvent event;
    if (e->edit && *text)
        history(e->history, &event, H_ENTER, text);
#else
    (void)e;
    (void)text;
#endif
}
