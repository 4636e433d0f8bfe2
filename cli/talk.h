/*
 * talk.h - what `trireme run` and `trireme chat` share: a server to talk to (a running one, or a
 * private one begun for this), and one answer streamed to standard output.
 */
#ifndef CLI_TALK_H
#define CLI_TALK_H

#include "cli/api_client.h"

struct talk_settings {
    const char *model, *url, *api_key, *system;
    int64_t max_tokens, seed, threads, max_context;
    double temperature, top_p;
    bool raw, verbose;
};

#define TALK_ROW(type_, name_, kind, member, ...)                                                  \
    { .name = name_, .type = kind, .offset = offsetof(type_, member), __VA_ARGS__ }
#define TALK_ROWS(type_)                                                                           \
    TALK_ROW(type_, "model", OPTION_STRING, model, .short_name = 'm', .important = true,           \
             .aliases = "--model-path",                                                            \
             .help = "Folder of the model, or a GGUF file; with --url: its name there."),          \
        TALK_ROW(type_, "url", OPTION_STRING, url, .important = true,                              \
                 .help = "A running server (http://127.0.0.1:8000) instead of a private one."),    \
        TALK_ROW(type_, "api-key", OPTION_STRING, api_key, .help = "Its key.", .secret = true),    \
        TALK_ROW(type_, "system", OPTION_STRING, system, .important = true,                        \
                 .aliases = "-sys --system-prompt", .help = "System message."),                    \
        TALK_ROW(type_, "max-tokens", OPTION_INT, max_tokens, .short_name = 'n',                   \
                 .fallback = "512", .min = 1, .max = 1 << 20, .unit = "tokens", .important = true, \
                 .aliases = "--n-predict --predict", .help = "Longest answer."),                   \
        TALK_ROW(type_, "temperature", OPTION_FLOAT, temperature, .fallback = "0.7", .max = 2,     \
                 .important = true, .aliases = "--temp", .help = "0 takes the likeliest token."),  \
        TALK_ROW(type_, "top-p", OPTION_FLOAT, top_p, .fallback = "1", .min = 0.0001, .max = 1,    \
                 .help = "Keep the likeliest tokens of this total."),                              \
        TALK_ROW(type_, "seed", OPTION_INT, seed, .short_name = 's', .fallback = "-1", .min = -1,  \
                 .max = 9007199254740991.0, .help = "Same seed, same answer; -1: a new one."),     \
        TALK_ROW(type_, "threads", OPTION_INT, threads, .short_name = 't', .fallback = "0",        \
                 .max = 1024, .help = "Of a private server; 0: one for each core."),               \
        TALK_ROW(type_, "max-context", OPTION_INT, max_context, .max = 1 << 20, .unit = "tokens",  \
                 .aliases = "-c --ctx-size",                                                       \
                 .help =                                                                           \
                     "Of a private server: longest sequence; 0: what the model was made for."),    \
        TALK_ROW(type_, "raw", OPTION_BOOL, raw,                                                   \
                 .help = "Complete the text as it is, without a chat template."),                  \
        TALK_ROW(type_, "verbose", OPTION_BOOL, verbose, .short_name = 'v',                        \
                 .help = "Show the private server's log.")

/* A server, ours or another's. */
struct talk {
    struct api_client client;
    const struct talk_settings *settings;
    int server_pid; /* 0: not ours */
    char run_dir[64];
    bool show_reasoning; /* print it, dimmed */
    struct talk_figures {
        int64_t begin_ms, first_ms, last_ms; /* of the clock: asked, first and last text; 0: none */
        int64_t tokens; /* of the answer, as the server counts them; else pieces */
    } figures;          /* of the last answer */
};

/* Connects to settings->url, or starts a private server of model and waits until it is ready. */
MUST_CHECK int talk_begin(struct talk *t, const struct talk_settings *settings, const char *model,
                          struct error *err);
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
