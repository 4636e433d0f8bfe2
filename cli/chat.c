/* trireme chat: a conversation, line by line. */
#include "cli/commands.h"
#include "cli/talk.h"

#include "base/utf8.h"
#include "base/vec.h"
#include "formats/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const struct option_row ROWS[] = {TALK_ROWS(struct talk_settings)};
static const struct option_table TABLE = {"trireme chat", "[OPTIONS] MODEL  (with --url: no model)",
                                          "Talks with a model. /new begins anew, /quit or Ctrl-D ends.", ROWS,
                                          ARRAY_LEN(ROWS)};

struct chat {
    const struct talk_settings *settings;
    struct talk talk;
    VEC(char *) said; /* owned; the person first, then in turn */
};

static void forget(struct chat *c) {
    for (size_t i = 0; i < c->said.count; i++) mem_free(c->said.items[i]);
    c->said.count = 0;
}

static void add_message(struct json_writer *w, const char *role, const char *text) {
    json_begin_object(w);
    json_key(w, "role");
    json_string(w, role);
    json_key(w, "content");
    json_string(w, text);
    json_end_object(w);
}

static void build(const struct chat *c, struct buf *json) {
    struct json_writer w;
    json_writer_init(&w, json);
    json_begin_array(&w);
    if (c->settings->system) add_message(&w, "system", c->settings->system);
    for (size_t i = 0; i < c->said.count; i++) add_message(&w, i % 2 ? "assistant" : "user", c->said.items[i]);
    json_end_array(&w);
}

/* One turn. A failed one is forgotten, so that the next can be tried. */
static void turn(struct chat *c, const char *line) {
    struct buf json, answer;
    struct error err;
    buf_init(&json, 0);
    buf_init(&answer, 0);
    vec_push(&c->said, mem_strdup(line));
    build(c, &json);
    int rc = talk_ask(&c->talk, buf_text(&json), &answer, &err);
    printf("\n");
    if (rc) {
        fprintf(stderr, "trireme chat: %s\n", err.text);
        mem_free(c->said.items[--c->said.count]);
    } else {
        vec_push(&c->said, mem_strdup(buf_text(&answer)));
    }
    buf_release(&json);
    buf_release(&answer);
}

static void converse(struct chat *c) {
    char *line = NULL;
    size_t cap = 0;
    bool person = isatty(STDIN_FILENO);
    for (;;) {
        if (person) printf("> ");
        fflush(stdout);
        ssize_t len = getline(&line, &cap, stdin);
        if (len < 0) break;
        line[strcspn(line, "\r\n")] = 0;
        if (!strcmp(line, "/quit")) break;
        if (!strcmp(line, "/new"))
            forget(c);
        else if (!utf8_valid(line, strlen(line)))
            fprintf(stderr, "trireme chat: that line is not UTF-8\n");
        else if (*line)
            turn(c, line);
    }
    free(line);
    if (person) printf("\n");
}

int chat_main(int argc, char **argv) {
    struct talk_settings settings;
    struct error err;
    const char *model = NULL;
    size_t count = 0;
    int rc = option_parse(&TABLE, &settings, argc, argv, &model, 1, &count, &err);
    if (rc == OPTION_HELP_PRINTED) return 0;
    if (!rc && count != (settings.url ? 0 : 1))
        rc = error_set(&err, ERR_INVALID, settings.url ? "no model is needed with --url" : "give a model folder");
    if (!rc && settings.raw) rc = error_set(&err, ERR_INVALID, "--raw is for trireme run");
    if (rc) return command_misused("chat", &err);
    struct chat c = {.settings = &settings};
    rc = talk_begin(&c.talk, &settings, model, &err);
    if (rc)
        fprintf(stderr, "trireme chat: %s\n", err.text);
    else {
        converse(&c);
        talk_end(&c.talk);
    }
    forget(&c);
    vec_release(&c.said);
    option_free(&TABLE, &settings);
    return rc ? 1 : 0;
}
