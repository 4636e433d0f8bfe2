/*
 * help_files.h - what the program writes of itself for those who install it: manual pages and shell
 * completions, laid out as below /usr/share.
 */
#ifndef CLI_HELP_FILES_H
#define CLI_HELP_FILES_H

#include "cli/completion.h"

/* Writes below dir: man/man1/trireme.1 and trireme-COMMAND.1, bash-completion/completions/trireme,
 * zsh/site-functions/_trireme, fish/vendor_completions.d/trireme.fish. Folders are made. 0, or a
 * negative error. */
MUST_CHECK int help_files_write(const char *dir, const struct completion_command *commands,
                                size_t count, struct error *err);
/* Prints the completion of a shell (bash, zsh, fish). ERR_INVALID: there is none for it. */
MUST_CHECK int help_completion_print(const char *shell, const struct completion_command *commands,
                                     size_t count, struct error *err);

#endif
