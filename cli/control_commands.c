/* trireme scale, load, reload, unload, remove, status: a line to the supervisor. */
#include "cli/api_client.h"
#include "cli/commands.h"
#include "cli/model_path.h"
#include "cli/report.h"
#include "cli/run_dir.h"
#include "cli/running.h"
#include "cli/supervisor.h"

#include "formats/json_document.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ANSWER_MS = 5000 };

struct settings {
    const char *run_dir, *url, *api_key;
    int64_t port;
    bool json;
};

#define AT(field) offsetof(struct settings, field)
#define ROWS_OF_BOTH                                                                               \
    {"run-dir",   0,    OPTION_STRING,                                                             \
     AT(run_dir), NULL, .help = "The run folder that was given to trireme serve."},                \
    {                                                                                              \
        "port", 'p', OPTION_INT, AT(port), NULL, .min = 1, .max = 65535,                           \
                                                 .help = "Its port; default: of the only server "  \
                                                         "on this machine, or 8000."               \
    }
static const struct option_row SCALE_ROWS[] = {ROWS_OF_BOTH};
static const struct option_row STATUS_ROWS[] = {
    ROWS_OF_BOTH,
    {"json", 0, OPTION_BOOL, AT(json), NULL, .help = "Print one JSON object instead."},
    {"url", 0, OPTION_STRING, AT(url), NULL, .aliases = "--base-url --server",
     .help = "List the models of the server at this address instead, wherever it runs."},
    {"api-key", 0, OPTION_STRING, AT(api_key), NULL, .help = "Its key.", .secret = true},
};
const struct option_table scale_options = {.program = "trireme scale",
                                           .synopsis = "[OPTIONS] N [MODEL]",
                                           .summary = "Sets how many workers run, while serving.",
                                           .rows = SCALE_ROWS,
                                           .count = ARRAY_LEN(SCALE_ROWS)};
const struct option_table load_options = {
    .program = "trireme load",
    .synopsis = "[OPTIONS] MODEL",
    .summary =
        "Loads a model of a running trireme serve, and waits until it is there. A path or a "
        "hub's name that it was not told at its start is added, as [NAME=]PATH[,OPTION=VALUE...].",
    .rows = SCALE_ROWS,
    .count = ARRAY_LEN(SCALE_ROWS)};
const struct option_table reload_options = {
    .program = "trireme reload",
    .synopsis = "[OPTIONS] [MODEL]",
    .summary = "Loads a model's files anew, beside those that serve, and moves requests to them.",
    .rows = SCALE_ROWS,
    .count = ARRAY_LEN(SCALE_ROWS)};
const struct option_table unload_options = {
    .program = "trireme unload",
    .synopsis = "[OPTIONS] MODEL",
    .summary = "Ends a model's workers when their streams have ended, and waits for it.",
    .rows = SCALE_ROWS,
    .count = ARRAY_LEN(SCALE_ROWS)};
const struct option_table remove_options = {
    .program = "trireme remove",
    .synopsis = "[OPTIONS] MODEL",
    .summary = "Takes a model that trireme load has added out of a running trireme serve, when its "
               "streams have ended, and waits for it. Its files stay.",
    .rows = SCALE_ROWS,
    .count = ARRAY_LEN(SCALE_ROWS)};
const struct option_table status_options = {.program = "trireme status",
                                            .synopsis = "[OPTIONS]",
                                            .summary =
                                                "Lists the processes of a running trireme serve.",
                                            .rows = STATUS_ROWS,
                                            .count = ARRAY_LEN(STATUS_ROWS)};

/* "model loaded, 3 running or waiting: NAME (why not)" as a member of "models". */
static void add_model(const struct report *r, char *line) {
    static const char WHY[] = " (cannot be loaded: ";
    char state[16];
    unsigned busy = 0;
    int name = 0;
    if (sscanf(line, "model %15[a-z], %u running or waiting: %n", state, &busy, &name) != 2 ||
        !name)
        return;
    char *why = strstr(line + name, WHY);
    if (why)
        *why = 0;
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "model", line + name);
    cJSON_AddStringToObject(item, "state", state);
    cJSON_AddNumberToObject(item, "busy", busy);
    if (why) {
        why[strlen(why + 1)] = 0; /* the bracket */
        cJSON_AddStringToObject(item, "reason", why + sizeof WHY - 1);
    }
    report_add(r, "models", item);
}

/* "worker 0 running process 17 (adopted) for 3 s" as a member of "processes"; anything else is what
 * the supervisor says of itself. */
static void add_line(const struct report *r, char *line) {
    char role[16], state[16];
    unsigned idx;
    int pid, begin = 0;
    long long seconds = 0;
    if (!strncmp(line, "model ", 6)) {
        add_model(r, line);
        return;
    }
    if (sscanf(line, "%15s %u %15s process %d%n", role, &idx, state, &pid, &begin) != 4) {
        report_text(r, "state", line);
        return;
    }
    bool adopted = !strncmp(line + begin, " (adopted)", 10);
    (void)sscanf(line + begin + (adopted ? 10 : 0), " for %lld s", &seconds);
    const char *model = strstr(line + begin, " s of ");
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "role", role);
    cJSON_AddNumberToObject(item, "index", idx);
    cJSON_AddStringToObject(item, "state", state);
    cJSON_AddNumberToObject(item, "pid", pid);
    cJSON_AddBoolToObject(item, "adopted", adopted);
    cJSON_AddNumberToObject(item, "seconds", (double)seconds);
    if (model)
        cJSON_AddStringToObject(item, "model", model + 6);
    report_add(r, "processes", item);
}

/* Answers look like "ok TEXT; TEXT", "error TEXT" or SUPERVISOR_UNKNOWN "TEXT". */
static int print_reply(const char *name, char *reply, bool json) {
    static const char *const REFUSED[] = {"error ", SUPERVISOR_UNKNOWN};
    struct report report;
    for (size_t i = 0; i < ARRAY_LEN(REFUSED); i++) {
        if (strncmp(reply, REFUSED[i], strlen(REFUSED[i])))
            continue;
        fprintf(stderr, "trireme %s: %s\n", name, reply + strlen(REFUSED[i]));
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

/* "add [NAME=]PATH[,OPTIONS]" with an absolute path, or with a hub's name that has been downloaded. */
static int make_add_line(const char *word, char *line, size_t size, struct error *err) {
    bool is_path = access(word, F_OK) == 0;
    const char *equals = is_path ? NULL : strchr(word, '='),
               *comma = is_path ? NULL : strchr(word, ',');
    const char *begin = equals && !(comma && comma < equals) ? equals + 1 : word;
    size_t len = comma ? (size_t)(comma - begin) : strlen(begin);
    char *given = mem_strndup(begin, len), *path = NULL, *found = NULL;
    int rc = model_path_find(given, &found, NULL, err);
    bool unknown = rc == ERR_NOT_FOUND && !hub_name_is_like(given);
    if (unknown || (!rc && !found && !(path = realpath(given, NULL))))
        rc = error_set(err, ERR_NOT_FOUND,
                       "which model? '%s' is neither one of this server, nor a path, nor a hub's "
                       "name (ORG/NAME, ollama:NAME)",
                       word);
    if (!rc && snprintf(line, size, "add %.*s%s%s", (int)(begin - word), word, path ? path : given,
                        comma ? comma : "") >= (int)size)
        rc = error_set(err, ERR_LIMIT, "that is too long");
    free(path);
    mem_free(found);
    mem_free(given);
    return rc;
}

/* What a server of ours, or of others, tells of itself over HTTP. */
static int list_models(const struct settings *settings, struct error *err) {
    struct api_client client;
    struct report report;
    struct buf text;
    cJSON *document = NULL;
    const cJSON *one;
    int rc = api_client_init(&client, settings->url, settings->api_key, err);
    if (rc)
        return rc;
    buf_init(&text, 0);
    rc = api_call(&client, "/v1/models", NULL, &text, ANSWER_MS, err);
    if (rc >= 0 && rc != 200)
        rc = api_status_error(settings->url, "/v1/models", rc, buf_bytes(&text), err);
    if (rc >= 0)
        rc = json_document_parse(buf_bytes(&text), &document, err);
    buf_release(&text);
    if (rc < 0)
        return rc;
    report_begin(&report, settings->json);
    cJSON_ArrayForEach(one, json_document_find(document, "data")) {
        const char *name = json_document_text(one, "id");
        const char *state = json_document_text(one, "status.value");
        if (!name)
            continue;
        cJSON *item = cJSON_CreateObject();
        cJSON_AddStringToObject(item, "model", name);
        cJSON_AddStringToObject(item, "state", state ? state : "listed");
        report_add(&report, "models", item);
        if (!settings->json)
            printf("model %s: %s\n", state ? state : "listed", name);
    }
    report_end(&report);
    cJSON_Delete(document);
    return 0;
}

/* Returns owned, or NULL with an error. */
static char *find_run_dir(const struct settings *settings, struct error *err) {
    struct buf running = {0};
    if (settings->run_dir)
        return mem_strdup(settings->run_dir);
    if (settings->port)
        return run_dir_default(settings->port);
    running_list(&running);
    char *chosen = running_choose(buf_text(&running), err);
    buf_release(&running);
    return chosen;
}

static int ask(const struct option_table *table, const char *name, size_t words, int argc,
               char **argv) {
    const char *called = argv[0]; /* "ps" is status, too */
    struct settings settings = {0};
    struct error err;
    const char *word[2] = {NULL, NULL};
    size_t count = 0;
    char line[512], reply[16384];
    int rc = option_parse(table, &settings, argc, argv, word, words, &count, &err);
    if (rc == OPTION_HELP_PRINTED)
        return 0;
    if (!rc && words && !count && strcmp(name, "reload"))
        rc = error_set(&err, ERR_INVALID, words == 2 ? "how many workers?" : "which model?");
    if (rc)
        return command_misused(called, table, &settings, &err);
    if (settings.url) {
        rc = list_models(&settings, &err);
        if (rc)
            fprintf(stderr, "trireme %s: %s\n", called, err.text);
        option_free(table, &settings);
        return rc ? 1 : 0;
    }
    char *run_dir = find_run_dir(&settings, &err);
    snprintf(line, sizeof line, "%s%s%s%s%s", name, word[0] ? " " : "", word[0] ? word[0] : "",
             word[1] ? " " : "", word[1] ? word[1] : "");
    rc = run_dir ? supervisor_ask(run_dir, line, reply, sizeof reply, &err) : err.code;
    if (!rc && table == &load_options &&
        !strncmp(reply, SUPERVISOR_UNKNOWN, sizeof SUPERVISOR_UNKNOWN - 1)) {
        rc = make_add_line(word[0], line, sizeof line, &err);
        if (!rc)
            rc = supervisor_ask(run_dir, line, reply, sizeof reply, &err);
    }
    if (rc)
        fprintf(stderr, "trireme %s: %s\n", called, err.text);
    else
        rc = print_reply(called, reply, settings.json);
    mem_free(run_dir);
    option_free(table, &settings);
    return rc ? 1 : 0;
}

int scale_main(int argc, char **argv) {
    return ask(&scale_options, "scale", 2, argc, argv);
}
int load_main(int argc, char **argv) {
    return ask(&load_options, "load", 1, argc, argv);
}
int reload_main(int argc, char **argv) {
    return ask(&reload_options, "reload", 1, argc, argv);
}
int unload_main(int argc, char **argv) {
    return ask(&unload_options, "unload", 1, argc, argv);
}
int remove_main(int argc, char **argv) {
    return ask(&remove_options, "remove", 1, argc, argv);
}
int status_main(int argc, char **argv) {
    return ask(&status_options, "status", 0, argc, argv);
}
