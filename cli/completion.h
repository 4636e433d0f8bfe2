/*
 * completion.h - shell completion of the trireme command, written from the option tables: commands,
 * flags, the words that an enum may be, files where a text is wanted.
 */
#ifndef CLI_COMPLETION_H
#define CLI_COMPLETION_H

#include "base/option.h"

struct completion_command {
    const char *name, *help;
    const struct option_table *table; /* NULL: it has no options */
};

/* Appends the whole script for bash. */
void completion_bash(struct buf *out, const struct completion_command *commands, size_t count);
/* The same for zsh. */
void completion_zsh(struct buf *out, const struct completion_command *commands, size_t count);
/* The same for fish. */
void completion_fish(struct buf *out, const struct completion_command *commands, size_t count);

#endif
