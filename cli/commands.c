/* Looks up the command and hands over. */
#include "cli/commands.h"
#include "cli/foreign_flags.h"
#include "gateway/gateway_main.h"
#include "scheduler/scheduler_main.h"
#include "worker/settings.h"
#include "worker/worker_main.h"

#include <stdio.h>

static int help_main(int argc, char **argv);
static int version_main(int argc, char **argv);

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} COMMANDS[] = {
    {"serve", serve_main, "serve a model over HTTP"},
    {"run", run_main, "let a model answer a prompt"},
    {"chat", chat_main, "talk with a model"},
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
    {"status", status_main, "list the processes of a running server"},
    {"gateway", gateway_main, "one gateway process"},
    {"scheduler", scheduler_main, "the scheduler process"},
    {"worker", worker_main, "one worker process"},
    {"version", version_main, "print the version"},
    {"help", help_main, "print this, or a COMMAND's options; --markdown prints every option"},
};

int command_misused(const char *name, const struct error *err) {
    fprintf(stderr, "trireme %s: %s\n", name, err->text);
    return 2;
}

static int version_main(int argc, char **argv) {
    puts("trireme " TRIREME_VERSION);
    return 0;
}

static void print_usage(FILE *out) {
    fprintf(out, "Usage: trireme COMMAND [OPTIONS]\n\n");
    for (size_t i = 0; i < ARRAY_LEN(COMMANDS); i++)
        fprintf(out, "  %-10s %s\n", COMMANDS[i].name, COMMANDS[i].help);
    fprintf(out, "\ntrireme COMMAND --help lists its options.\n");
}

/* docs/options.md is this text. */
static void print_all_options(void) {
    static const struct option_table *const TABLES[] = {
        &serve_options,  &gateway_options, &scheduler_options, &worker_options, &perplexity_options,
        &logits_options, &convert_options, &quantize_options,  &doctor_options, &tokenize_options,
        &decode_options, &render_options,  &grammar_options,   &run_options,    &chat_options,
        &info_options,   &status_options,  &scale_options};
    puts("# Options\n\nWritten by `trireme help --markdown`. A flag wins over the environment, "
         "which wins over the "
         "YAML file (`--config FILE`,\n"
         "keys with underscores). `trireme serve` also takes every option of the three processes "
         "and passes it on.\n");
    for (size_t i = 0; i < ARRAY_LEN(TABLES); i++)
        option_print_markdown(TABLES[i]);
    puts("## Flags of other servers\n\nThe column *also* above lists the flags of llama-server, "
         "vLLM and SGLang that set an option here, on the command line and as keys\nof the YAML "
         "file. `trireme serve` knows these, too. A flag that is in neither list is refused, with "
         "the nearest of ours.\n");
    option_print_foreign(foreign_flags, foreign_flag_count);
}

static const struct command *find_command(const char *name) {
    for (size_t i = 0; i < ARRAY_LEN(COMMANDS); i++)
        if (!strcmp(COMMANDS[i].name, name))
            return &COMMANDS[i];
    return NULL;
}

static int refuse_command(const char *name) {
    if (*name)
        fprintf(stderr, "trireme: there is no command '%s'\n\n", name);
    print_usage(stderr);
    return 2;
}

static int help_main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    const struct command *command = find_command(name);
    if (!strcmp(name, "--markdown"))
        print_all_options();
    else if (command && command->run != help_main && command->run != version_main)
        return command->run(2, (char *[]){argv[1], (char *)(uintptr_t) "--help", NULL});
    else if (*name && !command)
        return refuse_command(name);
    else
        print_usage(stdout);
    return 0;
}

int trireme_main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    if (!strcmp(name, "--help") || !strcmp(name, "-h"))
        name = "help";
    if (!strcmp(name, "--version"))
        name = "version";
    const struct command *command = find_command(name);
    return command ? command->run(argc - 1, argv + 1) : refuse_command(name);
}
