#include "cli/completion.h"

/* The first phrase of a sentence: up to a full stop, colon or semicolon with a blank behind it. */
static struct bytes first_phrase(const char *text) {
    size_t len = 0;
    while (text[len] && !(strchr(".:;", text[len]) && (!text[len + 1] || text[len + 1] == ' ')))
        len++;
    return bytes_of(text, len);
}

/* Appends a phrase within single quotes: `special` characters get a backslash, a quote becomes
 * `quote`. */
static void add_quoted(struct buf *out, struct bytes text, const char *special, const char *quote) {
    for (size_t i = 0; i < text.len; i++) {
        char c = (char)text.data[i];
        if (c == '\'') {
            buf_add_str(out, quote);
            continue;
        }
        if (strchr(special, c))
            buf_add_byte(out, '\\');
        buf_add_byte(out, c);
    }
}

/* An enum's choices with blanks between. */
static void add_choices(struct buf *out, const struct option_row *row) {
    for (const char *c = row->choices; *c; c++)
        buf_add_byte(out, *c == '|' ? ' ' : *c);
}

/* True for a row whose value no shell can guess. */
static bool is_number(const struct option_row *row) {
    return row->type == OPTION_INT || row->type == OPTION_FLOAT || row->type == OPTION_SIZE ||
           row->type == OPTION_DURATION;
}

/* --- bash --- */
static void add_bash_flags(struct buf *out, const struct completion_command *command) {
    buf_addf(out, "    %s) flags='", command->name);
    for (size_t i = 0; command->table && i < command->table->count; i++)
        if (!command->table->rows[i].hidden)
            buf_addf(out, "--%s ", command->table->rows[i].name);
    buf_add_str(out, "--config --help' ;;\n");
}

/* What may stand behind a flag, where that is not the name of a file. */
static void add_bash_values(struct buf *out, const struct completion_command *command) {
    for (size_t i = 0; command->table && i < command->table->count; i++) {
        const struct option_row *row = &command->table->rows[i];
        if (row->hidden || (row->type != OPTION_ENUM && !is_number(row)))
            continue;
        buf_addf(out, "    '%s --%s'", command->name, row->name);
        if (row->short_name)
            buf_addf(out, " | '%s -%c'", command->name, row->short_name);
        buf_add_str(out, ") words='");
        if (row->type == OPTION_ENUM)
            add_choices(out, row);
        buf_add_str(out, "' known=1 ;;\n");
    }
}

void completion_bash(struct buf *out, const struct completion_command *commands, size_t count) {
    buf_add_str(out, "# bash completion of trireme. Written by `trireme help --completion bash`.\n"
                     "_trireme() {\n"
                     "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} "
                     "words='' flags='' known=''\n"
                     "    COMPREPLY=()\n"
                     "    if [ \"$cur\" = = ]; then cur=''; # --flag=\n"
                     "    elif [ \"$prev\" = = ]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
                     "    if [ \"$COMP_CWORD\" = 1 ]; then\n"
                     "        mapfile -t COMPREPLY < <(compgen -W '");
    for (size_t i = 0; i < count; i++)
        buf_addf(out, "%s%s", i ? " " : "", commands[i].name);
    buf_add_str(out, "' -- \"$cur\")\n        return\n    fi\n"
                     "    case \"${COMP_WORDS[1]} $prev\" in\n");
    for (size_t i = 0; i < count; i++)
        add_bash_values(out, &commands[i]);
    buf_add_str(out, "    esac\n"
                     "    case ${COMP_WORDS[1]} in\n");
    for (size_t i = 0; i < count; i++)
        add_bash_flags(out, &commands[i]);
    buf_add_str(out,
                "    esac\n"
                "    if [ -n \"$known\" ]; then mapfile -t COMPREPLY < <(compgen -W \"$words\" -- "
                "\"$cur\")\n"
                "    elif [[ $cur == -* ]]; then mapfile -t COMPREPLY < <(compgen -W \"$flags\" -- "
                "\"$cur\")\n"
                "    else mapfile -t COMPREPLY < <(compgen -f -- \"$cur\"); fi\n"
                "}\n"
                "complete -o filenames -F _trireme trireme\n");
}

/* --- zsh --- */
/* '(-p --port)'{-p,--port=}'[help]:value:(a b)' */
static void add_zsh_row(struct buf *out, const struct option_row *row) {
    bool takes = row->type != OPTION_BOOL;
    buf_add_str(out, " \\\n            ");
    if (row->short_name)
        buf_addf(out, "'(-%c --%s)'{-%c%s,--%s%s}", row->short_name, row->name, row->short_name,
                 takes ? "+" : "", row->name, takes ? "=" : "");
    else
        buf_addf(out, "--%s%s", row->name, takes ? "=" : "");
    buf_add_str(out, "'[");
    add_quoted(out, first_phrase(row->help), "[]:\\", "'\\''");
    buf_add_byte(out, ']');
    if (row->type == OPTION_ENUM) {
        buf_add_str(out, ":value:(");
        add_choices(out, row);
        buf_add_byte(out, ')');
    } else if (takes) {
        buf_add_str(out, row->type == OPTION_STRING ? ":text:_files" : ":number: ");
    }
    buf_add_byte(out, '\'');
}

void completion_zsh(struct buf *out, const struct completion_command *commands, size_t count) {
    buf_add_str(out, "#compdef trireme\n"
                     "# zsh completion of trireme. Written by `trireme help --completion zsh`.\n"
                     "_trireme() {\n    local -a commands\n    commands=(\n");
    for (size_t i = 0; i < count; i++) {
        buf_addf(out, "        '%s:", commands[i].name);
        add_quoted(out, bytes_of(commands[i].help, strlen(commands[i].help)), ":\\", "'\\''");
        buf_add_str(out, "'\n");
    }
    buf_add_str(out, "    )\n"
                     "    if (( CURRENT == 2 )); then _describe command commands; return; fi\n"
                     "    local command=$words[2]\n"
                     "    shift words\n"
                     "    (( CURRENT-- ))\n"
                     "    case $command in\n");
    for (size_t i = 0; i < count; i++) {
        buf_addf(out, "    %s)\n        _arguments -s -S", commands[i].name);
        for (size_t r = 0; commands[i].table && r < commands[i].table->count; r++)
            if (!commands[i].table->rows[r].hidden)
                add_zsh_row(out, &commands[i].table->rows[r]);
        buf_add_str(out, " \\\n            --config='[YAML file with settings]:file:_files' "
                         "--help'[Print the options]' '*:file:_files'\n        ;;\n");
    }
    buf_add_str(out, "    esac\n}\n"
                     "if [ \"${funcstack[1]}\" = _trireme ]; then _trireme \"$@\"; else compdef "
                     "_trireme trireme; fi\n");
}

/* --- fish --- */
static void add_fish_row(struct buf *out, const char *command, const struct option_row *row) {
    buf_addf(out, "complete -c trireme -n '__fish_seen_subcommand_from %s' -l %s", command,
             row->name);
    if (row->short_name)
        buf_addf(out, " -s %c", row->short_name);
    if (row->type == OPTION_ENUM) {
        buf_add_str(out, " -x -a '");
        add_choices(out, row);
        buf_add_byte(out, '\'');
    } else if (row->type != OPTION_BOOL) {
        buf_add_str(out, is_number(row) ? " -x" : " -r");
    }
    buf_add_str(out, " -d '");
    add_quoted(out, first_phrase(row->help), "\\", "\\'");
    buf_add_str(out, "'\n");
}

void completion_fish(struct buf *out, const struct completion_command *commands, size_t count) {
    buf_add_str(out,
                "# fish completion of trireme. Written by `trireme help --completion fish`.\n");
    for (size_t i = 0; i < count; i++) {
        buf_addf(out, "complete -c trireme -n __fish_use_subcommand -f -a %s -d '",
                 commands[i].name);
        add_quoted(out, bytes_of(commands[i].help, strlen(commands[i].help)), "\\", "\\'");
        buf_add_str(out, "'\n");
        for (size_t r = 0; commands[i].table && r < commands[i].table->count; r++)
            if (!commands[i].table->rows[r].hidden)
                add_fish_row(out, commands[i].name, &commands[i].table->rows[r]);
    }
    buf_add_str(out, "complete -c trireme -n 'not __fish_use_subcommand' -l config -r -d 'YAML "
                     "file with settings'\n"
                     "complete -c trireme -n 'not __fish_use_subcommand' -l help -f -d 'Print the "
                     "options'\n");
}
