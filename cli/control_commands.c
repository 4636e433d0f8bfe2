/* trireme scale, trireme status: a line to the supervisor. */
#include "cli/commands.h"
#include "cli/run_dir.h"
#include "cli/supervisor.h"

#include <stdio.h>

struct settings {
    const char *run_dir;
    int64_t port;
};

#define AT(field) offsetof(struct settings, field)
static const struct option_row ROWS[] = {
    {"run-dir", 0, OPTION_STRING, AT(run_dir), NULL, .help = "The run folder that was given to trireme serve."},
    {"port", 'p', OPTION_INT, AT(port), "8000", .min = 1, .max = 65535, .help = "Its port, when it was given none."},
};
static const struct option_table SCALE = {"trireme scale", "[OPTIONS] N", "Sets how many workers run, while serving.",
                                          ROWS, ARRAY_LEN(ROWS)};
static const struct option_table STATUS = {"trireme status", "[OPTIONS]",
                                           "Lists the processes of a running trireme serve.", ROWS, ARRAY_LEN(ROWS)};

/* Answers look like "ok TEXT; TEXT" or "error TEXT". */
static int print_reply(const char *name, char *reply) {
    if (!strncmp(reply, "error ", 6)) {
        fprintf(stderr, "trireme %s: %s\n", name, reply + 6);
        return 1;
    }
    char *rest = reply + (strncmp(reply, "ok ", 3) ? 0 : 3);
    for (char *part = strtok_r(rest, ";", &rest); part; part = strtok_r(NULL, ";", &rest))
        puts(*part == ' ' ? part + 1 : part);
    return 0;
}

static int ask(const struct option_table *table, const char *name, size_t words, int argc, char **argv) {
    struct settings settings;
    struct error err;
    const char *word = NULL;
    size_t count = 0;
    char line[64], reply[16384];
    int rc = option_parse(table, &settings, argc, argv, &word, words, &count, &err);
    if (rc == OPTION_HELP_PRINTED) return 0;
    if (!rc && count < words) rc = error_set(&err, ERR_INVALID, "how many workers?");
    if (rc) return command_misused(name, &err);
    char *run_dir = settings.run_dir ? mem_strdup(settings.run_dir) : run_dir_default(settings.port);
    snprintf(line, sizeof line, "%s%s%s", name, word ? " " : "", word ? word : "");
    rc = supervisor_ask(run_dir, line, reply, sizeof reply, &err);
    if (rc)
        fprintf(stderr, "trireme %s: %s\n", name, err.text);
    else
        rc = print_reply(name, reply);
    mem_free(run_dir);
    option_free(table, &settings);
    return rc ? 1 : 0;
}

int scale_main(int argc, char **argv) { return ask(&SCALE, "scale", 1, argc, argv); }
int status_main(int argc, char **argv) { return ask(&STATUS, "status", 0, argc, argv); }
