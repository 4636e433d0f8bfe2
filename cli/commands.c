/* Looks up the command and hands over. */
#include "cli/commands.h"
#include "cli/foreign_environment.h"
#include "cli/foreign_flags.h"
#include "cli/help_files.h"
#include "cli/merged_options.h"
#include "cli/unknown_environment.h"
#include "gateway/gateway_main.h"
#include "scheduler/scheduler_main.h"
#include "worker/settings.h"
#include "worker/worker_main.h"

#include "base/option_spelling.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static int help_main(int argc, char **argv);
static int version_main(int argc, char **argv);

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} COMMANDS[] = {
    {"serve", serve_main, "serve a model over HTTP"},
    {"run", run_main, "let a model answer a prompt"},
    {"generate", generate_main,
     "let a model answer or complete a prompt, as the program blazr does"},
    {"chat", chat_main, "talk with a model"},
    {"pull", pull_main, "download a model by its name"},
    {"list", list_main, "list the models that were downloaded"},
    {"delete", delete_main, "delete a downloaded model"},
    {"prune", prune_main, "delete what no downloaded model needs"},
    {"info", info_main, "tell what a model folder holds"},
    {"doctor", doctor_main, "tell whether a model fits this machine"},
    {"perplexity", perplexity_main, "score a text with a model"},
    {"convert", convert_main, "convert a model between Hugging Face's format and GGUF"},
    {"quantize", quantize_main, "write a model with quantized weights"},
    {"logits", logits_main, "compute the logits of token sequences"},
    {"tokenize", tokenize_main, "turn text into a model's tokens"},
    {"decode", decode_main, "turn tokens into text"},
    {"render", render_main, "render a chat template"},
    {"grammar", grammar_main, "tell which texts a schema, regex or grammar accepts"},
    {"scale", scale_main, "change the number of workers of a running server"},
    {"load", load_main, "load a model of a running server"},
    {"reload", reload_main, "load a new revision of a model beside the one that serves"},
    {"unload", unload_main, "unload a model of a running server"},
    {"remove", remove_main, "take a model that was added out of a running server"},
    {"status", status_main, "list the processes of a running server"},
    {"keygen", keygen_main, "make a key for a process that speaks over tcp"},
    {"top", top_main, "watch the load of a running server"},
    {"bench", bench_main, "test a running server under load, and compare results"},
    {"gateway", gateway_main, "one gateway process"},
    {"scheduler", scheduler_main, "the scheduler process"},
    {"worker", worker_main, "one worker process"},
    {"version", version_main, "print the version"},
    {"help", help_main, "print this, or a COMMAND's options; --markdown prints every option"},
};

/* What the same is called elsewhere. */
static const struct other_name {
    const char *theirs, *ours;
} OTHER_NAMES[] = {
    {"ps", "status"}, {"ls", "list"}, {"rm", "delete"}, {"stop", "unload"}, {"show", "info"}};

int command_misused(const char *name, const struct option_table *table, void *settings,
                    const struct error *err) {
    fprintf(stderr, "trireme %s: %s\n", name, err->text);
    if (table)
        option_free(table, settings);
    return 2;
}

/* What stands behind the last word that is read. */
static int refuse_more(const char *name, const char *word) {
    fprintf(stderr, "trireme %s: unexpected argument '%s'\n", name, word);
    return 2;
}

static int version_main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--help") && strcmp(argv[1], "-h"))
        return refuse_more("version", argv[1]);
    puts(argc > 1 ? "Usage: trireme version\n\nPrints the version." : "trireme " TRIREME_VERSION);
    return 0;
}

static void print_usage(FILE *out) {
    fprintf(out, "Usage: trireme COMMAND [OPTIONS]\n\n");
    for (size_t i = 0; i < ARRAY_LEN(COMMANDS); i++)
        fprintf(out, "  %-10s %s\n", COMMANDS[i].name, COMMANDS[i].help);
    fprintf(out,
            "\nps, ls, rm, stop and show are other names of status, list, delete, unload and info. "
            "Without a command,\ntrireme [OPTIONS] MODEL serves a model: a path, or a name with a "
            "slash.\n"
            "trireme COMMAND --help lists its options.\n"
            "trireme help --completion bash|zsh|fish prints that shell's completion, --files DIR "
            "writes manual pages, too.\n");
}

/* Every command's options, in the order of docs/options.md. */
static const struct option_table *const *all_tables(size_t *count) {
    static const struct option_table *const TABLES[] = {
        &serve_options,  &gateway_options, &scheduler_options, &worker_options, &perplexity_options,
        &logits_options, &convert_options, &quantize_options,  &doctor_options, &tokenize_options,
        &decode_options, &render_options,  &grammar_options,   &run_options,    &generate_options,
        &chat_options,   &info_options,    &status_options,    &scale_options,  &load_options,
        &reload_options, &unload_options,  &remove_options,    &keygen_options, &top_options,
        &pull_options,   &list_options,    &delete_options,    &prune_options,  &bench_options};
    *count = ARRAY_LEN(TABLES);
    return TABLES;
}

/* docs/options.md is this text. */
static void print_all_options(void) {
    size_t count;
    const struct option_table *const *tables = all_tables(&count);
    puts("# Options\n\nWritten by `trireme help --markdown`. A flag wins over the environment, "
         "which wins over the "
         "YAML file (`--config FILE`,\n"
         "keys with underscores). `trireme serve` also takes every option of the three processes "
         "and passes it on.\n");
    for (size_t i = 0; i < count; i++)
        option_print_markdown(tables[i]);
    puts("## Flags of other servers\n\nThe column *also* above lists the flags of llama-server, "
         "vLLM and SGLang that set an option here, on the command line and as keys\nof the YAML "
         "file. `trireme serve` knows these, too. A flag that is in neither list is refused, with "
         "the nearest of ours.\n");
    option_print_foreign(foreign_flags, foreign_flag_count);
    puts("## Variables of other servers\n\nThese are taken as the variable of ours beside them, "
         "unless that is set. Other variables that begin with `TRIREME_` or\n`LLAMA_ARG_` are not "
         "read; a line on standard error says so, with the nearest of ours.\n\n| theirs | ours |\n"
         "| --- | --- |");
    foreign_environment_print();
}

/* The table whose program is "trireme NAME"; NULL: none. */
static const struct option_table *table_of(const char *name) {
    static const char BEFORE[] = "trireme ";
    size_t count;
    const struct option_table *const *tables = all_tables(&count);
    for (size_t i = 0; i < count; i++)
        if (!strcmp(tables[i]->program + sizeof BEFORE - 1, name))
            return tables[i];
    return NULL;
}

/* help --completion SHELL, help --files DIR. serve's table is the one with its children's rows. */
static int write_help(const char *how, const char *where) {
    struct completion_command commands[ARRAY_LEN(COMMANDS)];
    struct merged_options serve = {0};
    struct error err;
    serve_options_merge(&serve, NULL);
    for (size_t i = 0; i < ARRAY_LEN(COMMANDS); i++)
        commands[i] = (struct completion_command){
            COMMANDS[i].name, COMMANDS[i].help,
            COMMANDS[i].run == serve_main ? &serve.table : table_of(COMMANDS[i].name)};
    int rc = !strcmp(how, "--files")
                 ? help_files_write(where, commands, ARRAY_LEN(COMMANDS), &err)
                 : help_completion_print(where, commands, ARRAY_LEN(COMMANDS), &err);
    merged_options_release(&serve);
    return rc ? command_misused("help", NULL, NULL, &err) : 0;
}

static const struct command *find_command(const char *name) {
    for (size_t i = 0; i < ARRAY_LEN(OTHER_NAMES); i++)
        if (!strcmp(OTHER_NAMES[i].theirs, name))
            name = OTHER_NAMES[i].ours;
    for (size_t i = 0; i < ARRAY_LEN(COMMANDS); i++)
        if (!strcmp(COMMANDS[i].name, name))
            return &COMMANDS[i];
    return NULL;
}

/* "trireme --config FILE serve MODEL": these two may stand before the command. Moves it to the front. */
static void move_command_forward(int argc, char **argv) {
    int at = 1;
    while (at < argc &&
           (!strncmp(argv[at], "--config", 8) || !strncmp(argv[at], "--log-format", 12)))
        at += strchr(argv[at], '=') ? 1 : 2;
    if (at >= argc || !find_command(argv[at]))
        return;
    char *name = argv[at];
    memmove(argv + 2, argv + 1, (size_t)(at - 1) * sizeof *argv);
    argv[1] = name;
}

/* No command, but what serve takes: an option, a file, a folder, or a hub's name. */
static bool is_for_serve(const char *word) {
    return (word[0] == '-' && word[1]) || strchr(word, '/') || access(word, F_OK) == 0;
}

/* The command with the nearest name; NULL: none is near. */
static const char *nearest_command(const char *name) {
    const size_t len = strlen(name);
    size_t best = len > 4 ? 2 : 1;
    const char *found = NULL;
    for (size_t i = 0; i < ARRAY_LEN(COMMANDS); i++) {
        size_t far = option_distance(name, len, COMMANDS[i].name, strlen(COMMANDS[i].name));
        if (far > best || (found && far == best))
            continue;
        found = COMMANDS[i].name;
        best = far;
    }
    return found;
}

static int refuse_command(const char *name) {
    const char *near = nearest_command(name);
    if (!*name)
        print_usage(stderr);
    else if (near)
        fprintf(stderr, "trireme: there is no command '%s'; did you mean '%s'?\n", name, near);
    else
        fprintf(stderr, "trireme: there is no command '%s'; trireme --help lists all\n", name);
    return 2;
}

static int help_main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    const bool writes = !strcmp(name, "--files") || !strcmp(name, "--completion");
    const struct command *command = find_command(name);
    struct error err;
    if (writes && argc < 3) {
        error_set(&err, ERR_INVALID, "%s needs a %s", name,
                  !strcmp(name, "--files") ? "folder" : "shell: bash, zsh or fish");
        return command_misused("help", NULL, NULL, &err);
    }
    if (argc > 2 + writes)
        return refuse_more("help", argv[2 + writes]);
    if (writes)
        return write_help(name, argv[2]);
    if (!strcmp(name, "--markdown"))
        print_all_options();
    else if (command && command->run != help_main)
        return command->run(2, (char *[]){argv[1], (char *)(uintptr_t) "--help", NULL});
    else if (*name && !command && strcmp(name, "--help") && strcmp(name, "-h"))
        return refuse_command(name);
    else
        print_usage(stdout);
    return 0;
}

static int run_command(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    if (!strcmp(name, "--help") || !strcmp(name, "-h"))
        name = "help";
    if (!strcmp(name, "--version") || !strcmp(name, "-V"))
        name = "version";
    size_t table_count;
    const struct option_table *const *tables = all_tables(&table_count);
    foreign_environment_take();
    unknown_environment_tell(tables, table_count);
    if (!strcmp(name, "completions") && argc == 3) /* as blazr calls it */
        return write_help("--completion", argv[2]);
    const struct command *command = find_command(name);
    if (command)
        return command->run(argc - 1, argv + 1);
    return *name && is_for_serve(name) ? serve_main(argc, argv) : refuse_command(name);
}

/* A file that is not whole, where standard output goes to a full disk, is a failure whatever the command says. */
int trireme_main(int argc, char **argv) {
    signal(SIGXFSZ, SIG_IGN); /* at a limit of files' sizes write fails, as on a full disk */
    move_command_forward(argc, argv);
    int code = run_command(argc, argv);
    bool lost = ferror(stdout) != 0;
    errno = 0;
    if (!fflush(stdout) && !lost)
        return code;
    fprintf(stderr, "trireme: cannot write to standard output%s%s\n", errno ? ": " : "",
            errno ? strerror(errno) : "");
    return code ? code : 1;
}
