/* trireme run: one prompt, one answer. */
#include "cli/commands.h"
#include "cli/talk.h"

#include "formats/json.h"

#include <stdio.h>
#include <unistd.h>

static const struct option_row ROWS[] = {TALK_ROWS(struct talk_settings)};
const struct option_table run_options = {
    .program = "trireme run",
    .synopsis = "[OPTIONS] MODEL PROMPT  (with --url: PROMPT)",
    .summary = "Lets a model answer a prompt and prints it as it comes. "
               "A prompt of - is read from standard input.",
    .rows = ROWS,
    .count = ARRAY_LEN(ROWS)};

enum { PROMPT_MAX = 8 << 20 };

static int read_prompt(const char *word, struct buf *prompt, struct error *err) {
    char chunk[65536];
    if (strcmp(word, "-")) {
        buf_add_str(prompt, word);
        return 0;
    }
    for (ssize_t n; (n = read(STDIN_FILENO, chunk, sizeof chunk)) > 0;)
        buf_add(prompt, chunk, (size_t)n);
    return prompt->failed
               ? error_set(err, ERR_LIMIT, "the prompt is longer than %d bytes", PROMPT_MAX)
               : 0;
}

static void add_message(struct json_writer *w, const char *role, struct bytes text) {
    json_begin_object(w);
    json_key(w, "role");
    json_string(w, role);
    json_key(w, "content");
    json_string_bytes(w, text);
    json_end_object(w);
}

static void build(const struct talk_settings *s, const struct buf *prompt, struct buf *json) {
    struct json_writer w;
    json_writer_init(&w, json);
    if (s->raw) {
        json_string_bytes(&w, buf_bytes(prompt));
        return;
    }
    json_begin_array(&w);
    if (s->system)
        add_message(&w, "system", bytes_str(s->system));
    add_message(&w, "user", buf_bytes(prompt));
    json_end_array(&w);
}

static int run(const struct talk_settings *s, const char *model, const char *word,
               struct error *err) {
    struct talk t;
    struct buf prompt, json;
    buf_init(&prompt, PROMPT_MAX);
    buf_init(&json, 0);
    int rc = read_prompt(word, &prompt, err);
    if (!rc)
        rc = talk_begin(&t, s, model, err);
    if (!rc) {
        build(s, &prompt, &json);
        rc = talk_ask(&t, buf_text(&json), NULL, err);
        printf("\n");
        talk_end(&t);
    }
    buf_release(&prompt);
    buf_release(&json);
    return rc;
}

int run_main(int argc, char **argv) {
    struct talk_settings settings;
    struct error err;
    const char *words[2];
    size_t count = 0;
    int rc = option_parse(&run_options, &settings, argc, argv, words, 2, &count, &err);
    if (rc == OPTION_HELP_PRINTED)
        return 0;
    bool named = settings.url || settings.model;
    if (!rc && (!count || (count < 2 && !named)))
        rc = error_set(&err, ERR_INVALID, "give %sa prompt", named ? "" : "a model folder and ");
    if (!rc && count == 2 && settings.url)
        rc = error_set(&err, ERR_INVALID,
                       "unexpected argument '%s'; --model names a server's model", words[1]);
    if (rc)
        return command_misused("run", &err);
    const char *model = count == 2 ? words[0] : settings.model;
    rc = run(&settings, model, words[count - 1], &err);
    if (rc)
        fprintf(stderr, "trireme run: %s\n", err.text);
    option_free(&run_options, &settings);
    return rc ? 1 : 0;
}
