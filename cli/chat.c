/* trireme chat: a conversation, line by line. */
#include "cli/chat_commands.h"
#include "cli/commands.h"
#include "cli/line_editor.h"

#include "base/fsutil.h"
#include "base/utf8.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const struct option_row ROWS[] = {TALK_ROWS(struct talk_settings)};
const struct option_table chat_options = {
    .program = "trireme chat",
    .synopsis = "[OPTIONS] MODEL  (with --url: its name there, or none)",
    .summary =
        "Talks with a model. /help lists what can be done, /quit or Ctrl-D ends, Ctrl-C ends "
        "an answer.",
    .rows = ROWS,
    .count = ARRAY_LEN(ROWS),
    .arguments = "model",
    .foreign = talk_foreign,
    .foreign_count = TALK_FOREIGN_COUNT};

struct chat {
    struct conversation conversation;
    struct talk talk;
    struct line_editor *editor;
    bool colours;
};

/* Ctrl-C: ends what is being answered or typed, not the program. */
static volatile sig_atomic_t interrupted;
static void on_interrupt(int number) {
    interrupted = 1;
}

static bool wants_colours(void) {
    const char *term = getenv("TERM"), *no = getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) && !(no && *no) && term && *term && strcmp(term, "dumb") != 0;
}

/* "[24 tokens, 0.12 s to the first, 85.3 tokens a second]" */
static void tell_figures(const struct chat *c) {
    const struct talk_figures *f = &c->talk.figures;
    int64_t span_ms = f->last_ms - f->first_ms;
    if (!line_editor_is_interactive(c->editor) || !f->first_ms)
        return;
    printf("%s[%lld tokens, %.2f s to the first", c->colours ? "\033[2m" : "", (long long)f->tokens,
           (double)(f->first_ms - f->begin_ms) / 1000);
    if (f->tokens > 1 && span_ms > 0)
        printf(", %.1f tokens a second", (double)(f->tokens - 1) * 1000 / (double)span_ms);
    printf("]%s\n", c->colours ? "\033[0m" : "");
}

/* One turn. A failed one is forgotten, so that the next can be tried; of one that was stopped, what
 * was said so far stays. */
static void turn(struct chat *c, const char *text) {
    struct buf json, answer;
    struct error err;
    buf_init(&json, 0);
    buf_init(&answer, 0);
    conversation_add(&c->conversation, text);
    conversation_messages(&c->conversation, &json);
    interrupted = 0;
    int rc = talk_ask(&c->talk, buf_text(&json), &answer, &err);
    bool stopped = rc && talk_was_stopped(&c->talk);
    printf("\n");
    if (rc && !stopped)
        fprintf(stderr, "trireme chat: %s\n", err.text);
    if ((rc && !stopped) || (stopped && !answer.len))
        conversation_drop_last(&c->conversation);
    else
        conversation_add(&c->conversation, buf_text(&answer));
    tell_figures(c);
    talk_stats(&c->talk);
    buf_release(&json);
    buf_release(&answer);
}

/* A whole message: lines that end with "\" go on, and """ begins and ends many. */
static enum line_outcome read_message(struct chat *c, struct buf *line, struct buf *message) {
    static const char MANY[] = "\"\"\"";
    bool many = false;
    buf_reset(message);
    for (;;) {
        bool first = !message->len && !many;
        interrupted = 0;
        enum line_outcome outcome = line_editor_read(c->editor, first ? "> " : ". ", line);
        if (outcome != LINE_READ)
            return outcome;
        const char *text = buf_text(line);
        size_t len = line->len;
        if (!many && first && len >= 3 && !strncmp(text, MANY, 3)) {
            many = true;
            text += 3;
            len -= 3;
        }
        if (many) {
            bool ends = len >= 3 && !strcmp(text + len - 3, MANY);
            buf_add(message, text, len - (ends ? 3 : 0));
            if (ends)
                return LINE_READ;
            buf_add_byte(message, '\n');
            continue;
        }
        bool goes_on = len && text[len - 1] == '\\';
        buf_add(message, text, len - goes_on);
        if (!goes_on)
            return LINE_READ;
        buf_add_byte(message, '\n');
    }
}

static void converse(struct chat *c) {
    struct buf line, message;
    buf_init(&line, 0);
    buf_init(&message, 0);
    bool person = line_editor_is_interactive(c->editor), go_on = true;
    while (go_on) {
        enum line_outcome outcome = read_message(c, &line, &message);
        const char *text = buf_text(&message);
        if (outcome == LINE_END)
            break;
        if (outcome == LINE_INTERRUPTED) {
            if (person)
                printf("\n(Ctrl-D or /quit ends)\n");
            continue;
        }
        line_editor_remember(c->editor, text);
        if (!utf8_valid(text, message.len))
            fprintf(stderr, "trireme chat: that is not UTF-8\n");
        else if (*text == '/')
            go_on = chat_command(&c->conversation, text) == CHAT_GO_ON;
        else if (*text)
            turn(c, text);
    }
    if (person && go_on)
        printf("\n");
    buf_release(&line);
    buf_release(&message);
}

/* XDG_STATE_HOME/trireme/chat_history, or below ~/.local/state; owned. NULL: there is no place. */
static char *history_path(void) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char folder[PATH_MAX];
    struct error ignored;
    if (state && *state == '/')
        snprintf(folder, sizeof folder, "%s/trireme", state);
    else if (home && *home == '/')
        snprintf(folder, sizeof folder, "%s/.local/state/trireme", home);
    else
        return NULL;
    return dir_make(folder, 0700, &ignored) ? NULL : path_join(folder, "chat_history");
}

/* The server is there. */
static void begin(struct chat *c) {
    struct sigaction action = {.sa_handler = on_interrupt}; /* no SA_RESTART: reading is to end */
    char *history = history_path();
    c->colours = wants_colours();
    c->editor = line_editor_new(history, c->colours);
    c->talk.settings = &c->conversation.settings;
    c->talk.client.stop = &interrupted;
    c->talk.show_reasoning = c->colours || c->talk.settings->show_think;
    if (line_editor_is_interactive(c->editor)) {
        sigaction(SIGINT, &action, NULL);
        printf("/help lists what can be done, Ctrl-D ends.\n");
    }
    converse(c);
    line_editor_free(&c->editor);
    mem_free(history);
}

int chat_main(int argc, char **argv) {
    struct talk_settings settings;
    struct error err;
    int rc = option_parse(&chat_options, &settings, argc, argv, NULL, 0, NULL, &err);
    if (rc == OPTION_HELP_PRINTED)
        return 0;
    if (!rc)
        api_client_take_port(&settings.url, settings.port);
    if (!rc && !settings.url && !settings.model)
        rc = error_set(&err, ERR_INVALID, "give a model folder");
    if (rc)
        return command_misused("chat", &chat_options, &settings, &err);
    struct chat c = {.colours = false};
    conversation_init(&c.conversation, &settings);
    rc = talk_begin(&c.talk, &settings, settings.model, &err);
    if (rc)
        fprintf(stderr, "trireme chat: %s\n", err.text);
    else {
        begin(&c);
        talk_end(&c.talk);
    }
    conversation_release(&c.conversation);
    option_free(&chat_options, &settings);
    return rc ? 1 : 0;
}
