/*
 * merged_options.h - one option table out of serve's own and its children's, so that any child's
 * option may be given to serve.
 *
 * Rows of the children that serve does not have itself are added behind its own; a name that
 * several children have is one row, passed on to each that has it. Their values lie behind serve's
 * own settings in one block. What is at its default is not passed on: the child knows it.
 */
#ifndef CLI_MERGED_OPTIONS_H
#define CLI_MERGED_OPTIONS_H

#include "base/option.h"
#include "base/vec.h"

struct merged_options {
    struct option_table table;
    VEC(struct option_row) rows;
    size_t own_count, own_size; /* serve's rows, bytes of its settings */
    char *settings;             /* owned block: serve's settings first */
};

/* hidden: names of children's rows that serve decides by itself, NULL-terminated. Keeps nothing of
 * children but their texts. */
void merged_options_init(struct merged_options *m, const struct option_table *own, size_t own_size,
                         const struct option_table *const *children, size_t child_count,
                         const char *const *hidden);
/* Frees the table and the settings, strings included. */
void merged_options_release(struct merged_options *m);
/* Appends "--name=value" (owned strings) for each row behind serve's own that is not at its default
 * and that the child has. */
struct flags {
    VEC(char *) words;
};
/* Copies the values; `out` keeps them until flags_release. */
void merged_options_flags(const struct merged_options *m, const struct option_table *child,
                          struct flags *out);
/* What a row behind serve's own says, one of type OPTION_STRING; borrowed. NULL: nothing. */
const char *merged_options_text(const struct merged_options *m, const char *name);
/* Takes back what such a row says, as if it had not been given. */
void merged_options_forget(struct merged_options *m, const char *name);
/* Appends one word, formatted and owned. */
void flags_add(struct flags *f, const char *fmt, ...) PRINTF_LIKE(2, 3);
void flags_end(struct flags *f); /* appends the NULL */
/* Frees all words. */
void flags_release(struct flags *f);
/* True when a row has this name. */
bool option_table_has(const struct option_table *table, const char *name);

#endif
