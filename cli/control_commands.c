/* trireme scale, trireme status: a line to the supervisor. */
#include "cli/commands.h"
#include "cli/report.h"
#include "cli/run_dir.h"
#include "cli/supervisor.h"

#include <stdio.h>

struct settings {
    const char *run_dir;
    int64_t port;
    bool json;
};

#define AT(field) offsetof(struct settings, field)
#define ROWS_OF_BOTH                                                                               \
    {"run-dir",   0,    OPTION_STRING,                                                             \
     AT(run_dir), NULL, .help = "The run folder that was given to trireme serve."},                \
    {                                                                                              \
        "port", 'p', OPTION_INT, AT(port), "8000", .min = 1, .max = 65535,                         \
                                                   .help = "Its port, when it was given none."     \
    }
static const struct option_row SCALE_ROWS[] = {ROWS_OF_BOTH};
static const struct option_row STATUS_ROWS[] = {
    ROWS_OF_BOTH,
    {"json", 0, OPTION_BOOL, AT(json), NULL, .help = "Print one JSON object instead."},
};
const struct option_table scale_options = {.program = "trireme scale",
                                           .synopsis = "[OPTIONS] N",
                                           .summary = "Sets how many workers run, while serving.",
                                           .rows = SCALE_ROWS,
                                           .count = ARRAY_LEN(SCALE_ROWS)};
const struct option_table status_options = {.program = "trireme status",
                                            .synopsis = "[OPTIONS]",
                                            .summary =
                                                "Lists the processes of a running trireme serve.",
                                            .rows = STATUS_ROWS,
                                            .count = ARRAY_LEN(STATUS_ROWS)};

/* "worker 0 running process 17 (adopted) for 3 s" as a member of "processes"; anything else is what
 * the supervisor says of itself. */
static void add_line(const struct report *r, const char *line) {
    char role[16], state[16];
    unsigned idx;
    int pid, begin = 0;
    long long seconds = 0;
    if (sscanf(line, "%15s %u %15s process %d%n", role, &idx, state, &pid, &begin) != 4) {
        report_text(r, "state", line);
        return;
    }
    bool adopted = !strncmp(line + begin, " (adopted)", 10);
    (void)sscanf(line + begin + (adopted ? 10 : 0), " for %lld s", &seconds);
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "role", role);
    cJSON_AddNumberToObject(item, "index", idx);
    cJSON_AddStringToObject(item, "state", state);
    cJSON_AddNumberToObject(item, "pid", pid);
    cJSON_AddBoolToObject(item, "adopted", adopted);
    cJSON_AddNumberToObject(item, "seconds", (double)seconds);
    report_add(r, "processes", item);
}

/* Answers look like "ok TEXT; TEXT" or "error TEXT". */
static int print_reply(const char *name, char *reply, bool json) {
    struct report report;
    if (!strncmp(reply, "error ", 6)) {
        fprintf(stderr, "trireme %s: %s\n", name, reply + 6);
        return 1;
    }
    char *rest = reply + (strncmp(reply, "ok ", 3) ? 0 : 3);
    rest[strcspn(rest, "\n")] = 0;
    report_begin(&report, json);
    for (char *line = strtok_r(rest, ";", &rest); line; line = strtok_r(NULL, ";", &rest)) {
        line += *line == ' ';
        if (json)
            add_line(&report, line);
        else
            puts(line);
    }
    report_end(&report);
    return 0;
}

static int ask(const struct option_table *table, const char *name, size_t words, int argc,
               char **argv) {
    struct settings settings;
    struct error err;
    const char *word = NULL;
    size_t count = 0;
    char line[64], reply[16384];
    int rc = option_parse(table, &settings, argc, argv, &word, words, &count, &err);
    if (rc == OPTION_HELP_PRINTED)
        return 0;
    if (!rc && count < words)
        rc = error_set(&err, ERR_INVALID, "how many workers?");
    if (rc)
        return command_misused(name, &err);
    char *run_dir =
        settings.run_dir ? mem_strdup(settings.run_dir) : run_dir_default(settings.port);
    snprintf(line, sizeof line, "%s%s%s", name, word ? " " : "", word ? word : "");
    rc = supervisor_ask(run_dir, line, reply, sizeof reply, &err);
    if (rc)
        fprintf(stderr, "trireme %s: %s\n", name, err.text);
    else
        rc = print_reply(name, reply, settings.json);
    mem_free(run_dir);
    option_free(table, &settings);
    return rc ? 1 : 0;
}

int scale_main(int argc, char **argv) {
    return ask(&scale_options, "scale", 1, argc, argv);
}
int status_main(int argc, char **argv) {
    return ask(&status_options, "status", 0, argc, argv);
}
