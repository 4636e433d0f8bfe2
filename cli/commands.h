/*
 * commands.h - the commands of trireme that live in this folder. Each takes argv from its own name
 * on and returns the exit code: 0 good, 1 it failed, 2 it was called wrongly.
 */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "base/option.h"

/* The program: argv as it came. */
int trireme_main(int argc, char **argv);

/* Runs the supervisor until it is drained. */
int serve_main(int argc, char **argv);
/* Sets the number of workers of a running serve. */
int scale_main(int argc, char **argv);
int load_main(int argc, char **argv);
int reload_main(int argc, char **argv);
int unload_main(int argc, char **argv);
int remove_main(int argc, char **argv);
/* Makes keys for tcp. */
int keygen_main(int argc, char **argv);
/* Lists the processes of a running serve. */
int status_main(int argc, char **argv);
/* One prompt, one answer. */
int run_main(int argc, char **argv);
int generate_main(int argc, char **argv);
/* A conversation on standard input. */
int chat_main(int argc, char **argv);
/* What a model holds, and whether it can be served. */
int info_main(int argc, char **argv);
/* A hub's model into the cache. */
int pull_main(int argc, char **argv);
/* The models in the cache. */
int list_main(int argc, char **argv);
/* A model out of the cache. */
int delete_main(int argc, char **argv);
/* What nothing in the cache needs, out of it. */
int prune_main(int argc, char **argv);
/* How well a model predicts a text. */
int perplexity_main(int argc, char **argv);
/* Logits of token ids, line by line. */
int logits_main(int argc, char **argv);
/* A folder to a GGUF file, or back. */
int convert_main(int argc, char **argv);
/* A copy of a model with quantized weights. */
int quantize_main(int argc, char **argv);
/* What this machine is, and whether it can serve a model. */
int doctor_main(int argc, char **argv);

extern const struct option_table run_options, generate_options, chat_options, info_options,
    status_options, scale_options, load_options, reload_options, unload_options, remove_options;
extern const struct option_table pull_options, list_options, delete_options, prune_options;
extern const struct option_table serve_options, perplexity_options, logits_options, convert_options,
    quantize_options, doctor_options, keygen_options;
/* Text to tokens. */
int tokenize_main(int argc, char **argv);
/* Tokens to text. */
int decode_main(int argc, char **argv);
/* Messages to a prompt. */
int render_main(int argc, char **argv);
/* What a schema, pattern or grammar accepts. */
int grammar_main(int argc, char **argv);

extern const struct option_table tokenize_options, decode_options, render_options, grammar_options;

/* The load of a running server, in a terminal. */
int top_main(int argc, char **argv);
/* A load test of a running server. */
int bench_main(int argc, char **argv);
extern const struct option_table top_options, bench_options;

struct merged_options;
/* All that serve takes: its own options, its children's, and the flags of other servers. notes gets
 * a line for each flag that is taken with a note. The caller releases m. */
void serve_options_merge(struct merged_options *m, struct buf *notes);

/* Prints "trireme NAME: text", frees what was parsed into `settings` by `table` (NULL: nothing was), and returns 2. */
int command_misused(const char *name, const struct option_table *table, void *settings,
                    const struct error *err);

#endif
