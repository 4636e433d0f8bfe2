#include "cli/help_files.h"

#include "base/fsutil.h"

#include <stdio.h>

static const struct shell {
    const char *name;
    const char *folder, *file; /* below /usr/share */
    void (*write)(struct buf *out, const struct completion_command *commands, size_t count);
} SHELLS[] = {
    {"bash", "bash-completion/completions", "trireme", completion_bash},
    {"zsh", "zsh/site-functions", "_trireme", completion_zsh},
    {"fish", "fish/vendor_completions.d", "trireme.fish", completion_fish},
};

/* Writes dir/folder/file and empties text. */
static int write_file(const char *dir, const char *folder, const char *file, struct buf *text,
                      struct error *err) {
    char *place = path_join(dir, folder), *path = path_join(place, file);
    int rc = dir_make(place, 0755, err);
    if (!rc)
        rc = file_write_atomic(path, text->data, text->len, 0644, err);
    mem_free(path);
    mem_free(place);
    buf_reset(text);
    return rc;
}

/* trireme(1): the commands. */
static void add_overview(struct buf *out, const struct completion_command *commands, size_t count) {
    buf_add_str(out, ".TH TRIREME 1 \"\" \"trireme " TRIREME_VERSION "\" \"Trireme\"\n.SH NAME\n"
                     "trireme \\- a server for large language models\n.SH SYNOPSIS\n.B trireme\n"
                     "COMMAND [OPTIONS]\n.SH DESCRIPTION\nServes large language models over HTTP, "
                     "and has the tools around it.\n.SH COMMANDS\n");
    for (size_t i = 0; i < count; i++) {
        buf_addf(out, ".TP\n.B%s %s%s\n", commands[i].table ? "R trireme\\-" : "", commands[i].name,
                 commands[i].table ? " (1)" : "");
        option_man_text(out, commands[i].help);
        buf_add_byte(out, '\n');
    }
    buf_add_str(out, ".SH ENVIRONMENT\nEach option of a command can also be set as "
                     "\\fBTRIREME_NAME\\fR in the environment.\n");
}

static int write_pages(const char *dir, const struct completion_command *commands, size_t count,
                       struct buf *text, struct error *err) {
    add_overview(text, commands, count);
    int rc = write_file(dir, "man/man1", "trireme.1", text, err);
    for (size_t i = 0; i < count && !rc; i++) {
        char name[64];
        if (!commands[i].table)
            continue;
        snprintf(name, sizeof name, "trireme-%s.1", commands[i].name);
        option_man(text, commands[i].table, commands[i].help);
        rc = write_file(dir, "man/man1", name, text, err);
    }
    return rc;
}

int help_files_write(const char *dir, const struct completion_command *commands, size_t count,
                     struct error *err) {
    struct buf text;
    buf_init(&text, 0);
    int rc = write_pages(dir, commands, count, &text, err);
    for (size_t i = 0; i < ARRAY_LEN(SHELLS) && !rc; i++) {
        SHELLS[i].write(&text, commands, count);
        rc = write_file(dir, SHELLS[i].folder, SHELLS[i].file, &text, err);
    }
    buf_release(&text);
    return rc;
}

int help_completion_print(const char *shell, const struct completion_command *commands,
                          size_t count, struct error *err) {
    for (size_t i = 0; i < ARRAY_LEN(SHELLS); i++) {
        if (strcmp(SHELLS[i].name, shell))
            continue;
        struct buf text;
        buf_init(&text, 0);
        SHELLS[i].write(&text, commands, count);
        fwrite(text.data, 1, text.len, stdout);
        buf_release(&text);
        return 0;
    }
    return error_set(err, ERR_INVALID,
                     "there is no completion for '%s'; there is for bash, zsh and fish", shell);
}
