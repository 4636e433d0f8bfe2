/*
 * talk.h - what `trireme run` and `trireme chat` share: a server to talk to (a running one, or a
 * private one begun for this), and one answer streamed to standard output.
 */
#ifndef CLI_TALK_H
#define CLI_TALK_H

#include "base/option.h"
#include "cli/api_client.h"

struct talk_settings {
    const char *model, *url, *api_key, *system;
    const char *prompt;            /* of run alone */
    const char *vocab, *vocab_dir; /* of a private server */
    int64_t port, max_tokens, seed, threads, max_context, layers_on_gpu, top_k, repeat_last_n;
    double temperature, top_p, min_p, repetition_penalty, frequency_penalty, presence_penalty;
    bool raw, verbose, cpu, gpu, stats, show_think;
};

/* Flags of other programs that set nothing here. */
extern const struct option_foreign talk_foreign[];
enum { TALK_FOREIGN_COUNT = 2 };

#define TALK_ROW(type_, name_, kind, member, ...)                                                  \
    { .name = name_, .type = kind, .offset = offsetof(type_, member), __VA_ARGS__ }
/* With the usual longest answer, top-p and top-k. */
#define TALK_ROWS(type_) TALK_ROWS_WITH(type_, "512", "1", "0")
#define TALK_ROWS_WITH(type_, max_tokens_, top_p_, top_k_)                                         \
    TALK_ROW(type_, "model", OPTION_STRING, model, .short_name = 'm', .important = true,           \
             .aliases = "--model-path -hf --hf-repo",                                              \
             .help = "Folder of the model, or a GGUF file; with --url: its name there."),          \
        TALK_ROW(type_, "url", OPTION_STRING, url, .important = true,                              \
                 .aliases = "--base-url --server",                                                 \
                 .help = "A running server (http://127.0.0.1:8000) instead of a private one."),    \
        TALK_ROW(type_, "port", OPTION_INT, port, .min = 0, .max = 65535,                          \
                 .help = "The same of one on this machine, by its port."),                         \
        TALK_ROW(type_, "api-key", OPTION_STRING, api_key, .help = "Its key.", .secret = true),    \
        TALK_ROW(type_, "system", OPTION_STRING, system, .important = true,                        \
                 .aliases = "-sys --system-prompt", .help = "System message."),                    \
        TALK_ROW(type_, "max-tokens", OPTION_INT, max_tokens, .short_name = 'n',                   \
                 .fallback = max_tokens_, .min = 1, .max = 1 << 20, .unit = "tokens",              \
                 .important = true, .aliases = "--n-predict --predict",                            \
                 .help = "Longest answer."),                                                       \
        TALK_ROW(type_, "temperature", OPTION_FLOAT, temperature, .fallback = "0.7", .max = 2,     \
                 .important = true, .aliases = "--temp", .help = "0 takes the likeliest token."),  \
        TALK_ROW(type_, "top-p", OPTION_FLOAT, top_p, .fallback = top_p_, .min = 0.0001, .max = 1, \
                 .help = "Keep the likeliest tokens of this total."),                              \
        TALK_ROW(type_, "top-k", OPTION_INT, top_k, .fallback = top_k_, .max = 1 << 20,            \
                 .unit = "tokens", .help = "Keep so many of the likeliest tokens; 0: all."),       \
        TALK_ROW(type_, "min-p", OPTION_FLOAT, min_p, .fallback = "0", .max = 1,                   \
                 .help = "Drop tokens less likely than this part of the likeliest; 0: none."),     \
        TALK_ROW(type_, "repetition-penalty", OPTION_FLOAT, repetition_penalty, .fallback = "1",   \
                 .min = 0.01, .max = 10, .aliases = "--repeat-penalty",                            \
                 .help = "Above 1: what was said becomes less likely."),                           \
        TALK_ROW(type_, "repeat-last-n", OPTION_INT, repeat_last_n, .fallback = "-1", .min = -1,   \
                 .max = 2147483647, .unit = "tokens",                                              \
                 .help = "Penalties look at so many of the last tokens; -1: at all, 0: at none."), \
        TALK_ROW(type_, "frequency-penalty", OPTION_FLOAT, frequency_penalty, .fallback = "0",     \
                 .min = -2, .max = 2, .help = "The same, by how often it was said."),              \
        TALK_ROW(type_, "presence-penalty", OPTION_FLOAT, presence_penalty, .fallback = "0",       \
                 .min = -2, .max = 2, .help = "The same, by whether it was said."),                \
        TALK_ROW(type_, "seed", OPTION_INT, seed, .short_name = 's', .fallback = "-1", .min = -1,  \
                 .max = 9007199254740991.0, .help = "Same seed, same answer; -1: a new one."),     \
        TALK_ROW(type_, "threads", OPTION_INT, threads, .short_name = 't', .fallback = "0",        \
                 .max = 1024, .help = "Of a private server; 0: one for each core."),               \
        TALK_ROW(type_, "max-context", OPTION_INT, max_context, .max = 1 << 20, .unit = "tokens",  \
                 .aliases = "-c --ctx-size --num-ctx",                                             \
                 .help =                                                                           \
                     "Of a private server: longest sequence; 0: what the model was made for."),    \
        TALK_ROW(type_, "vocab", OPTION_STRING, vocab,                                             \
                 .help = "Of a private server: vocabulary instead of the model's own: a file, or " \
                         "llama3, cl100k_base, o200k_base, deepseek_v3, ..."),                     \
        TALK_ROW(type_, "vocab-dir", OPTION_STRING, vocab_dir,                                     \
                 .help = "Folder where the files of well-known vocabularies lie."),                \
        TALK_ROW(type_, "cpu", OPTION_BOOL, cpu,                                                   \
                 .help = "A private server computes on the CPU, whatever GPUs there are."),        \
        TALK_ROW(type_, "gpu", OPTION_BOOL, gpu,                                                   \
                 .help = "It computes on a GPU; without one that is an error. Default: a GPU "     \
                         "where there is one."),                                                   \
        TALK_ROW(type_, "layers-on-gpu", OPTION_INT, layers_on_gpu, .fallback = "-1", .min = -1,   \
                 .max = INT32_MAX, .aliases = "-ngl --n-gpu-layers --gpu-layers",                  \
                 .alias_words = "all=-1 auto=-1",                                                  \
                 .help = "The same by a number of layers: 0 none, -1 or the model's number all."), \
        TALK_ROW(type_, "stats", OPTION_BOOL, stats,                                               \
                 .help = "Say at the end how long it took to load, and how many tokens came."),    \
        TALK_ROW(type_, "show-think", OPTION_BOOL, show_think,                                     \
                 .help = "Print the model's thoughts, too."),                                      \
        TALK_ROW(type_, "verbose", OPTION_BOOL, verbose, .short_name = 'v',                        \
                 .help = "Show the private server's log.")

/* A server, ours or another's. */
struct talk {
    struct api_client client;
    const struct talk_settings *settings;
    int server_pid; /* 0: not ours */
    char run_dir[96];
    bool show_reasoning; /* print it, dimmed on a terminal */
    int64_t load_ms;     /* that a private server took to be ready */
    struct talk_figures {
        int64_t begin_ms, first_ms, last_ms; /* of the clock: asked, first and last text; 0: none */
        int64_t tokens; /* of the answer, as the server counts them; else pieces */
    } figures;          /* of the last answer */
};

/* Connects to settings->url, or starts a private server of model and waits until it is ready. */
MUST_CHECK int talk_begin(struct talk *t, const struct talk_settings *settings, const char *model,
                          struct error *err);
/* With settings->stats, a line about the last answer on standard error. */
void talk_stats(const struct talk *t);
/* Ends a private server and removes its folder; a server of others is left alone. Twice does no
 * harm. */
void talk_end(struct talk *t);

/* True when the last talk_ask was ended by client.stop. */
bool talk_was_stopped(const struct talk *t);

/* Sends messages (the JSON array's text) or, with settings->raw, a prompt (the JSON string's text),
 * prints the answer as it comes, and appends it to answer (may be NULL). Returns 0 or a negative
 * error. */
MUST_CHECK int talk_ask(struct talk *t, const char *json, struct buf *answer, struct error *err);

#endif
