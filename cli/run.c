/* trireme run: one prompt, one answer. */
#include "cli/commands.h"
#include "cli/talk.h"

#include "formats/json.h"

#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROMPT_ROW                                                                                 \
    TALK_ROW(struct talk_settings, "prompt", OPTION_STRING, prompt, .aliases = "-p",               \
             .important = true, .help = "The prompt, for one that is not given as a word.")
#define RAW_ROW                                                                                    \
    TALK_ROW(struct talk_settings, "raw", OPTION_BOOL, raw,                                        \
             .help = "Complete the text as it is, without a chat template.")
static const struct option_row ROWS[] = {PROMPT_ROW, RAW_ROW, TALK_ROWS(struct talk_settings)};
static const struct option_row GENERATE_ROWS[] = {
    PROMPT_ROW, RAW_ROW, TALK_ROWS_WITH(struct talk_settings, "100", "0.9", "40")};
const struct option_table generate_options = {
    .program = "trireme generate",
    .synopsis = "[OPTIONS] MODEL PROMPT  (with --url: PROMPT)",
    .summary =
        "As trireme run, with the defaults of the program blazr: 100 tokens, top-p 0.9, top-k 40. "
        "A model without a chat template completes the prompt.",
    .rows = GENERATE_ROWS,
    .count = ARRAY_LEN(GENERATE_ROWS),
    .foreign = talk_foreign,
    .foreign_count = TALK_FOREIGN_COUNT};
const struct option_table run_options = {
    .program = "trireme run",
    .synopsis = "[OPTIONS] MODEL PROMPT  (with --url: PROMPT)",
    .summary = "Lets a model answer a prompt and prints it as it comes. "
               "A prompt of - is read from standard input, and so is one that is not given. "
               "What a program or a file gives there (cat FILE | trireme run MODEL 'Sum it up.') "
               "is asked before the prompt.",
    .rows = ROWS,
    .count = ARRAY_LEN(ROWS),
    .foreign = talk_foreign,
    .foreign_count = TALK_FOREIGN_COUNT};

enum { PROMPT_MAX = 8 << 20, SILENCE_MS = 2000 };

/* Whether somebody gave standard input: a pipe or a file. Not a terminal, /dev/null, or the socket
 * that ssh leaves open. */
static bool is_given(void) {
    struct stat input;
    return !fstat(STDIN_FILENO, &input) && (S_ISFIFO(input.st_mode) || S_ISREG(input.st_mode));
}

static void read_input(struct buf *prompt) {
    char chunk[65536];
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    if (!isatty(STDIN_FILENO) && poll(&input, 1, SILENCE_MS) == 0)
        fprintf(stderr, "trireme: waiting for standard input to end (</dev/null: there is none)\n");
    for (ssize_t n; (n = read(STDIN_FILENO, chunk, sizeof chunk)) > 0;)
        buf_add(prompt, chunk, (size_t)n);
}

/* The prompt as asked: what standard input gave, an empty line, and the word. */
static int read_prompt(const char *word, struct buf *prompt, struct error *err) {
    bool alone = !strcmp(word, "-");
    if (alone || is_given())
        read_input(prompt);
    if (alone && !prompt->len && !prompt->failed)
        return error_set(err, ERR_INVALID, "there is no prompt: standard input is empty");
    while (!alone && prompt->len && prompt->data[prompt->len - 1] == '\n')
        prompt->len--;
    if (!alone && prompt->len)
        buf_add_str(prompt, "\n\n");
    if (!alone)
        buf_add_str(prompt, word);
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

/* completes: a model without a chat template completes the text as it is. */
static int answer(struct talk_settings *s, const struct buf *prompt, struct talk *t, bool completes,
                  struct error *err) {
    struct buf json;
    buf_init(&json, 0);
    build(s, prompt, &json);
    int rc = talk_ask(t, buf_text(&json), NULL, err);
    bool again = rc == ERR_UNSUPPORTED && completes && !s->raw;
    buf_release(&json);
    if (!again)
        return rc;
    s->raw = true;
    return answer(s, prompt, t, false, err);
}

static int run(struct talk_settings *s, const char *model, const char *word, bool completes,
               struct error *err) {
    struct talk t;
    struct buf prompt;
    buf_init(&prompt, PROMPT_MAX);
    int rc = read_prompt(word, &prompt, err);
    if (!rc)
        rc = talk_begin(&t, s, model, err);
    if (!rc) {
        rc = answer(s, &prompt, &t, completes, err);
        printf("\n");
        fflush(stdout);
        talk_stats(&t);
        talk_end(&t);
    }
    buf_release(&prompt);
    return rc;
}

static int ask(const struct option_table *table, const char *name, int argc, char **argv) {
    struct talk_settings settings;
    struct error err;
    const char *words[2];
    size_t count = 0;
    int rc = option_parse(table, &settings, argc, argv, words, 2, &count, &err);
    if (rc == OPTION_HELP_PRINTED)
        return 0;
    if (!rc)
        api_client_take_port(&settings.url, settings.port);
    bool named = settings.url || settings.model;
    size_t wanted = (named ? 0u : 1u) + (settings.prompt ? 0u : 1u);
    if (!rc && !settings.prompt && count + 1 == wanted && !isatty(STDIN_FILENO))
        words[count++] = "-";
    if (!rc && count < wanted)
        rc = error_set(&err, ERR_INVALID, "give %s%s%s%s", named ? "" : "a model folder",
                       wanted == 2 ? " and " : "", settings.prompt ? "" : "a prompt",
                       count ? "; trireme chat talks without one" : "");
    if (!rc && (settings.cpu && settings.gpu))
        rc = error_set(&err, ERR_INVALID, "--cpu and --gpu: which of them?");
    if (!rc && settings.url && (settings.cpu || settings.gpu))
        rc = error_set(&err, ERR_INVALID, "a running server computes where it was told to");
    if (!rc && count > (settings.prompt ? 0u : 1u) && settings.url)
        rc =
            error_set(&err, ERR_INVALID,
                      "unexpected argument '%s': '%s' (--url, --port or TRIREME_PORT) is a running "
                      "server; --model names its model",
                      words[count == 2], settings.url);
    if (!rc && count == 2 && settings.prompt)
        rc = error_set(&err, ERR_INVALID, "unexpected argument '%s': --prompt was given", words[1]);
    if (rc)
        return command_misused(name, table, &settings, &err);
    bool completes = table == &generate_options;
    bool has_model = count == 2 || (count == 1 && settings.prompt);
    rc = run(&settings, has_model ? words[0] : settings.model,
             settings.prompt ? settings.prompt : words[count == 2], completes, &err);
    if (rc)
        fprintf(stderr, "trireme %s: %s\n", name, err.text);
    option_free(table, &settings);
    return rc ? 1 : 0;
}

int run_main(int argc, char **argv) {
    return ask(&run_options, "run", argc, argv);
}

int generate_main(int argc, char **argv) {
    return ask(&generate_options, "generate", argc, argv);
}
