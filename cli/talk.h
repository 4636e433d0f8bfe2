/*
 * talk.h - what `trireme run` and `trireme chat` share: a server to talk to (a running one, or a private one begun for
 * this), and one answer streamed to standard output.
 */
#ifndef CLI_TALK_H
#define CLI_TALK_H

#include "cli/api_client.h"

struct talk_settings {
    const char *url, *api_key, *system;
    int64_t max_tokens, seed, threads;
    double temperature, top_p;
    bool raw, verbose;
};

#define TALK_ROWS(type)                                                                                                \
    {"url",         0,                                                                                                 \
     OPTION_STRING, offsetof(type, url),                                                                               \
     NULL,          .help = "A running server (http://127.0.0.1:8000) instead of a private one."},                     \
        {"api-key", 0, OPTION_STRING, offsetof(type, api_key), NULL, .help = "Its key."},                              \
        {"system", 's', OPTION_STRING, offsetof(type, system), NULL, .help = "System message."},                       \
        {"max-tokens",                                                                                                 \
         'n',                                                                                                          \
         OPTION_INT,                                                                                                   \
         offsetof(type, max_tokens),                                                                                   \
         "512",                                                                                                        \
         .min = 1,                                                                                                     \
         .max = 1 << 20,                                                                                               \
         .unit = "tokens",                                                                                             \
         .help = "Longest answer."},                                                                                   \
        {"temperature", 't',      OPTION_FLOAT, offsetof(type, temperature),                                           \
         "0.7",         .min = 0, .max = 2,     .help = "0 takes the likeliest token."},                               \
        {"top-p",      0,                                                                                              \
         OPTION_FLOAT, offsetof(type, top_p),                                                                          \
         "1",          .min = 0.0001,                                                                                  \
         .max = 1,     .help = "Keep the likeliest tokens of this total."},                                            \
        {"seed",                                                                                                       \
         0,                                                                                                            \
         OPTION_INT,                                                                                                   \
         offsetof(type, seed),                                                                                         \
         "-1",                                                                                                         \
         .min = -1,                                                                                                    \
         .max = 9007199254740991.0,                                                                                    \
         .help = "Same seed, same answer; -1: a new one."},                                                            \
        {"threads", 0,        OPTION_INT,  offsetof(type, threads),                                                    \
         "0",       .min = 0, .max = 1024, .help = "Of a private server; 0: one for each CPU."},                       \
        {"raw",       0,                                                                                               \
         OPTION_BOOL, offsetof(type, raw),                                                                             \
         NULL,        .help = "Complete the text as it is, without a chat template."},                                 \
    {                                                                                                                  \
        "verbose", 'v', OPTION_BOOL, offsetof(type, verbose), NULL, .help = "Show the private server's log."           \
    }

/* A server, ours or another's. */
struct talk {
    struct api_client client;
    const struct talk_settings *settings;
    int server_pid; /* 0: not ours */
    char run_dir[64];
};

/* Connects to settings->url, or starts a private server of model and waits until it is ready. */
MUST_CHECK int talk_begin(struct talk *t, const struct talk_settings *settings, const char *model, struct error *err);
void talk_end(struct talk *t);

/* Sends messages (the JSON array's text) or, with settings->raw, a prompt (the JSON string's text), prints the answer
 * as it comes, and appends it to answer (may be NULL). Returns 0 or a negative error. */
MUST_CHECK int talk_ask(struct talk *t, const char *json, struct buf *answer, struct error *err);

#endif
