/*
 * option.h - every setting of a program as one table: flag > TRIREME_* environment > YAML file > default. The same
 * table prints
 * --help and the page docs/options.md.
 *
 * A row's destination is an offset into the program's settings struct. OPTION_BOOL: bool; _INT: int64_t; _FLOAT:
 * double; _STRING: const char * (owned by the parse); _SIZE: uint64_t bytes with suffixes k, m, g (1024); _ENUM: int,
 * index into `choices`
 * ("a|b|c"); _DURATION: int64_t milliseconds with suffixes ms, s, m, h (a bare number is milliseconds).
 * Flags: --name VALUE, --name=VALUE; a bool also --no-name. Environment: TRIREME_NAME with - as _. YAML key: name with
 * - as _ (one flat mapping; unknown keys are errors). "--config FILE" names the YAML file; "--help" prints; "--" ends
 * options.
 */
#ifndef BASE_OPTION_H
#define BASE_OPTION_H

#include "base/error.h"

enum option_type { OPTION_BOOL, OPTION_INT, OPTION_FLOAT, OPTION_STRING, OPTION_SIZE, OPTION_ENUM, OPTION_DURATION };

struct option_row {
    const char *name; /* "min-step-ms" */
    char short_name;  /* 'p' or 0 */
    enum option_type type;
    size_t offset;        /* offsetof(struct settings, field) */
    const char *fallback; /* default as text; NULL: zero */
    double min, max;      /* inclusive, for numbers; both 0: no bound */
    const char *choices;  /* for OPTION_ENUM: "text|json" */
    const char *unit;     /* "ms", "bytes", "tokens"; NULL */
    const char *help;     /* one sentence */
    bool hidden;          /* not in --help: for tests */
};

struct option_table {
    const char *program;  /* "trireme worker" */
    const char *synopsis; /* "[OPTIONS] MODEL" */
    const char *summary;
    const struct option_row *rows;
    size_t count;
};

enum option_outcome { OPTION_RUN = 0, OPTION_HELP_PRINTED = 1 };

/* Fills *settings (zeroed first). Positional arguments: pointers into argv, at most max_positional, else an error.
 * Returns enum option_outcome or a negative error. Strings stay valid until option_free. */
MUST_CHECK int option_parse(const struct option_table *table, void *settings, int argc, char **argv,
                            const char **positional, size_t max_positional, size_t *positional_count,
                            struct error *err);
void option_free(const struct option_table *table, void *settings);
void option_print_help(const struct option_table *table);     /* to standard output */
void option_print_markdown(const struct option_table *table); /* a table for docs/options.md */
/* "name=value" for each row whose value is not its default; for logs and for passing settings to a child process.
 * Returns the count of strings put into out (each owned by the caller, "--name=value"). */
size_t option_to_flags(const struct option_table *table, const void *settings, char **out, size_t max);

#endif
