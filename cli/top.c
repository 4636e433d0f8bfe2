/* trireme top: a server's load in a terminal, anew every second. */
#include "cli/api_client.h"
#include "cli/commands.h"
#include "cli/top_view.h"

#include "base/clock.h"
#include "formats/json_document.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

enum { ANSWER_MS = 5000 };

struct top_settings {
    const char *url, *api_key;
    int64_t port, interval_ms;
    bool once;
};
#define AT(field) offsetof(struct top_settings, field)
static const struct option_row ROWS[] = {
    {"url", 0, OPTION_STRING, AT(url), "http://127.0.0.1:8000", .aliases = "--base-url",
     .help = "The server's address."},
    {"port", 0, OPTION_INT, AT(port), NULL, .min = 0, .max = 65535,
     .help = "Of a server on this machine, instead of its address."},
    {"api-key", 0, OPTION_STRING, AT(api_key), NULL, .help = "Its key.", .secret = true},
    {"interval", 'd', OPTION_DURATION, AT(interval_ms), "1s", .min = 100, .max = 3600000,
     .unit = "ms", .help = "Time between two looks."},
    {"once", 0, OPTION_BOOL, AT(once), NULL,
     .help = "Look twice, print once, without clearing the screen."},
};
const struct option_table top_options = {
    .program = "trireme top",
    .synopsis = "[OPTIONS] [URL]",
    .summary = "Shows the load of a running server: batch, queue, KV blocks, tokens a second, "
               "latencies. q ends it.",
    .rows = ROWS,
    .count = ARRAY_LEN(ROWS),
    .arguments = "url"};

static volatile sig_atomic_t stop;
static void on_signal(int number) {
    stop = 1;
}

struct top {
    struct top_settings settings;
    struct api_client client;
    struct metrics_text page, earlier;
    cJSON *listed;               /* owned; NULL: not told */
    int64_t page_ms, earlier_ms; /* 0: not read yet */
    bool terminal;
    struct termios before; /* of the terminal */
};

/* A gateway that asks for a key which was not given tells the page alone. */
static void list_models(struct top *t) {
    struct buf text;
    struct error ignored;
    cJSON *listed = NULL;
    buf_init(&text, 0);
    if (api_call(&t->client, "/v1/models", NULL, &text, ANSWER_MS, &ignored) == 200 &&
        json_document_parse(buf_bytes(&text), &listed, &ignored))
        listed = NULL;
    cJSON_Delete(t->listed);
    t->listed = listed;
    buf_release(&text);
}

/* The page before becomes the earlier one. */
static int look(struct top *t, struct error *err) {
    struct buf text;
    buf_init(&text, 0);
    int status = api_call(&t->client, "/metrics", NULL, &text, ANSWER_MS, err);
    if (status == 200) {
        metrics_text_release(&t->earlier);
        t->earlier = t->page;
        t->earlier_ms = t->page_ms;
        metrics_text_init(&t->page, buf_bytes(&text));
        t->page_ms = clock_ms();
        list_models(t);
    } else if (status >= 0) {
        status = api_status_error(t->settings.url, "/metrics", status, buf_bytes(&text), err);
    }
    buf_release(&text);
    return status < 0 ? status : 0;
}

/* On a terminal over what was there before, line by line, so that nothing flickers. */
static void show(const struct top *t, const char *problem) {
    struct winsize size = {0};
    struct buf text, frame;
    size_t columns = 120, rows = 0;
    if (t->terminal && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col) {
        columns = MAX(size.ws_col, 40);
        rows = size.ws_row;
    }
    buf_init(&text, 0);
    buf_init(&frame, 0);
    struct top_input in = {.url = t->settings.url,
                           .page = &t->page,
                           .earlier = t->earlier_ms ? &t->earlier : NULL,
                           .seconds = (double)(t->page_ms - t->earlier_ms) / 1000,
                           .now = (double)time(NULL),
                           .listed = t->listed};
    if (problem)
        buf_addf(&text, "%s\n", problem);
    else
        top_view(&text, &in, columns);
    if (t->terminal)
        buf_add_str(&frame, "\033[H");
    char *rest = text.data, *line;
    for (size_t row = 1; rest && *rest && (line = strsep(&rest, "\n")); row++)
        if (!rows || row < rows)
            buf_addf(&frame, "%s%s\n", line, t->terminal ? "\033[K" : "");
    if (t->terminal)
        buf_add_str(&frame, "\033[J");
    fputs(buf_text(&frame), stdout);
    fflush(stdout);
    buf_release(&frame);
    buf_release(&text);
}

/* True when someone typed q. A key that is not q ends the wait early. */
static bool wait_for_key(const struct top *t, int64_t ms) {
    struct pollfd p = {.fd = t->terminal ? STDIN_FILENO : -1, .events = POLLIN};
    char c = 0;
    return poll(&p, 1, (int)ms) > 0 && (read(STDIN_FILENO, &c, 1) <= 0 || c == 'q' || c == 3);
}

static void take_terminal(struct top *t) {
    t->terminal = !t->settings.once && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) &&
                  !tcgetattr(STDIN_FILENO, &t->before);
    if (!t->terminal)
        return;
    struct termios raw = t->before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    fputs("\033[?1049h\033[?25l", stdout); /* a screen of its own, no cursor */
}

static void give_terminal_back(const struct top *t) {
    if (!t->terminal)
        return;
    fputs("\033[?25h\033[?1049l", stdout);
    fflush(stdout);
    tcsetattr(STDIN_FILENO, TCSANOW, &t->before);
}

/* Until q or a signal. A server that is gone for a while is waited for once it has answered. */
static int watch(struct top *t, struct error *err) {
    for (int looks = 0; !stop; looks++) {
        int rc = look(t, err);
        if (rc < 0 && (!t->page_ms || t->settings.once))
            return rc;
        if (rc < 0 || !t->settings.once || looks)
            show(t, rc < 0 ? err->text : NULL);
        if ((t->settings.once && looks) || wait_for_key(t, t->settings.interval_ms))
            break;
    }
    return 0;
}

int top_main(int argc, char **argv) {
    struct top t = {0};
    struct error err;
    int rc = option_parse(&top_options, &t.settings, argc, argv, NULL, 0, NULL, &err);
    if (rc < 0)
        return command_misused("top", &top_options, &t.settings, &err);
    if (rc == OPTION_HELP_PRINTED)
        return 0;
    api_client_take_port(&t.settings.url, t.settings.port);
    rc = api_client_init(&t.client, t.settings.url, t.settings.api_key, &err);
    if (rc == 0) {
        signal(SIGINT, on_signal);
        signal(SIGTERM, on_signal);
        take_terminal(&t);
        rc = watch(&t, &err);
        give_terminal_back(&t);
    }
    if (rc < 0)
        fprintf(stderr, "trireme top: %s\n", err.text);
    metrics_text_release(&t.page);
    metrics_text_release(&t.earlier);
    cJSON_Delete(t.listed);
    option_free(&top_options, &t.settings);
    return rc < 0;
}
