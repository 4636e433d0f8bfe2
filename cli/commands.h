/*
 * commands.h - the commands of trireme that live in this folder. Each takes argv from its own name on and returns the
 * exit code: 0 good, 1 it failed, 2 it was called wrongly.
 */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "base/option.h"

/* The program: argv as it came. */
int trireme_main(int argc, char **argv);

int serve_main(int argc, char **argv);
int scale_main(int argc, char **argv);
int status_main(int argc, char **argv);
int run_main(int argc, char **argv);
int chat_main(int argc, char **argv);
int info_main(int argc, char **argv);
int perplexity_main(int argc, char **argv);
int logits_main(int argc, char **argv);
int convert_main(int argc, char **argv);
int quantize_main(int argc, char **argv);
int doctor_main(int argc, char **argv);

extern const struct option_table serve_options, perplexity_options, logits_options, convert_options, quantize_options,
    doctor_options;
int tokenize_main(int argc, char **argv);
int decode_main(int argc, char **argv);
int render_main(int argc, char **argv);

extern const struct option_table tokenize_options, decode_options, render_options;

/* Prints "trireme NAME: text" and returns 2. */
int command_misused(const char *name, const struct error *err);
/* Prints a line of a report: the name in a column of its own, then the text. */
void command_row(const char *name, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
