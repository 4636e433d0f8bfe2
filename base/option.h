/*
 * option.h - every setting of a program in one table. The same table prints --help, the manual
 * pages and docs/options.md.
 *
 * A row may have other spellings (`aliases`): those of llama-server, vLLM and SGLang that mean the
 * same. What else such servers take, and this one does not have, is in the table's `foreign`: it is
 * taken with a note where it is always so here, and refused with a reason where it is not. Any
 * other flag is refused with the row whose name is nearest.
 *
 * Where a value comes from, the first that has one:
 *   (1) a flag: --name VALUE or --name=VALUE; a bool also --name and --no-name;
 *   (2) the environment: TRIREME_NAME, with - as _;
 *   (3) the YAML file that --config names: one flat mapping, with - as _; an unknown key is an
 *       error;
 *   (4) the row's default.
 * "--help" prints the table. "--" ends the options.
 *
 * Where a value goes: to an offset in the program's settings struct, as
 *   OPTION_BOOL      bool
 *   OPTION_INT       int64_t
 *   OPTION_FLOAT     double
 *   OPTION_STRING    const char *, owned by the parse
 *   OPTION_SIZE      uint64_t, bytes; suffixes k, m, g (powers of 1024)
 *   OPTION_ENUM      int, an index into `choices` ("a|b|c")
 *   OPTION_DURATION  int64_t, milliseconds; suffixes ms, s, m, h; a bare number is milliseconds
 */
#ifndef BASE_OPTION_H
#define BASE_OPTION_H

#include "base/buf.h"
#include "base/error.h"

enum option_type {
    OPTION_BOOL,
    OPTION_INT,
    OPTION_FLOAT,
    OPTION_STRING,
    OPTION_SIZE,
    OPTION_ENUM,
    OPTION_DURATION
};

struct option_row {
    const char *name; /* "min-step-ms" */
    char short_name;  /* 'p' or 0 */
    enum option_type type;
    size_t offset;        /* offsetof(struct settings, field) */
    const char *fallback; /* default as text; NULL: zero */
    double min, max;      /* inclusive, for numbers; both 0: no bound */
    const char *choices;  /* for OPTION_ENUM: "text|json" */
    const char *unit;     /* "ms", "bytes", "tokens"; NULL */
    /* OPTION_DURATION: a word that stands for a value of its own, -1; NULL: there is none */
    const char *word;
    const char *help; /* one sentence */
    bool hidden;      /* not in --help: for tests */
    bool important;   /* first in --help */
    /* OPTION_STRING: once parsed it is gone from argv, which ps shows, and from the environment,
     * which children inherit */
    bool secret;
    bool many; /* OPTION_STRING: further words are added, with commas, once all `arguments` of the
                  table are given elsewhere */
    /* OPTION_STRING: may be given again, and as a list in the file; the values are joined by line
     * breaks */
    bool list;
    /* no OPTION_BOOL: the value of --name without one, at the end or before another flag; NULL: it needs
     * one */
    const char *alone;
    const char *group; /* heading in --help; NULL: the table's title */
    /* Other spellings, blanks between: "-c --ctx-size". "!" before one of a bool: it means false. */
    const char *aliases;
    /* Values behind aliases that are called otherwise here, blanks between: "fp8_e4m3=fp8". Behind
     * the aliases of an OPTION_STRING nothing else is taken. */
    const char *alias_words;
    const char *alias_unit; /* of a bare number behind an alias: "s" */
};

/* Flags of other programs for which there is no row. */
struct option_foreign {
    const char *flags; /* blanks between: "-fa --flash-attn" */
    /* Values with which the flag is taken, blanks between. NULL: it has no value; "*": any; "?"
     * first: it may stand without one. */
    const char *values;
    const char *note;   /* why nothing needs to be done; NULL: it is refused whatever the value */
    const char *reason; /* why it is refused, and what to do instead; NULL: never */
};

struct option_table {
    const char *program;  /* "trireme worker" */
    const char *synopsis; /* "[OPTIONS] MODEL" */
    const char *summary;
    const struct option_row *rows;
    size_t count;
    const char *title;     /* heading of the rows without a group; NULL: "Options" */
    const char *arguments; /* names of rows that arguments without a flag fill, in order, those left
                              out that have a flag: "model out type"; NULL: none */
    const struct option_foreign *foreign;
    size_t foreign_count;
    struct buf *notes; /* gets a line for each flag that is taken with a note; NULL: to standard
                          error */
};

enum { OPTION_WORD = -1 }; /* the value of a duration's word */

enum option_outcome { OPTION_RUN = 0, OPTION_HELP_PRINTED = 1 };

/* Fills *settings (zeroed first). What the table's `arguments` do not take are positional
 * arguments: pointers into argv, at most max_positional, else an error. Returns enum option_outcome or a negative error. Strings stay valid until
 * option_free. */
MUST_CHECK int option_parse(const struct option_table *table, void *settings, int argc, char **argv,
                            const char **positional, size_t max_positional,
                            size_t *positional_count, struct error *err);
/* Sets one row of settings that option_parse has filled; name: a row's, or a long spelling without its
 * dashes. */
MUST_CHECK int option_set(const struct option_table *table, void *settings, const char *name,
                          const char *value, struct error *err);
/* Whether a command line, or a file with a word a line, takes this as one word that is no option: it is not empty, has no dash in
 * front and no control character. */
bool option_is_word(struct bytes text);
/* Frees the strings of a parse. *settings must not be used after it. */
void option_free(const struct option_table *table, void *settings);
void option_print_help(const struct option_table *table);     /* to standard output */
void option_print_markdown(const struct option_table *table); /* a table for docs/options.md */
/* Appends the manual page of the program (man(7), section 1); name is its command in one phrase. */
void option_man(struct buf *out, const struct option_table *table, const char *name);
/* Appends text so that it reads the same in man(7): escapes hyphens, backslashes, leading dots. */
void option_man_text(struct buf *out, const char *text);
/* A table of flags that are no rows, for docs/options.md. */
void option_print_foreign(const struct option_foreign *foreign, size_t count);
/* "name=value" for each row whose value is not its default; for logs and for passing settings to a
 * child process. Returns the count of strings put into out (each owned by the caller,
 * "--name=value"). */
size_t option_to_flags(const struct option_table *table, const void *settings, char **out,
                       size_t max);

#endif
