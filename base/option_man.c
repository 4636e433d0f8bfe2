/* An option table as a manual page, in the macros of man(7). */
#include "base/option_internal.h"

#include <ctype.h>

void option_man_text(struct buf *out, const char *text) {
    bool line_begins = !out->len || out->data[out->len - 1] == '\n';
    for (; *text; text++) {
        if (line_begins && (*text == '.' || *text == '\''))
            buf_add_str(out, "\\&");
        line_begins = *text == '\n';
        if (*text == '-')
            buf_add_str(out, "\\-");
        else if (*text == '\\')
            buf_add_str(out, "\\e");
        else
            buf_add_byte(out, *text);
    }
}

/* The same in capitals, for titles. */
static void add_upper(struct buf *out, const char *text) {
    for (; *text; text++)
        buf_add_byte(out, *text == ' ' ? '-' : (char)toupper((unsigned char)*text));
}

/* As a sentence, whether the table has it as one or not. */
static void add_help(struct buf *out, const char *help) {
    option_man_text(out, help);
    if (*help && !strchr(".?!", help[strlen(help) - 1]))
        buf_add_byte(out, '.');
    buf_add_byte(out, '\n');
}

/* A form a line; in --help those after the first are indented. */
static void add_synopsis(struct buf *out, const struct option_table *table) {
    buf_addf(out, "\n.SH SYNOPSIS\n.B %s\n", table->program);
    for (const char *c = table->synopsis; *c; c++) {
        if (*c == '\n') {
            buf_add_str(out, "\n.br\n");
            c += strspn(c, " \n") - 1;
        } else {
            option_man_text(out, (char[]){*c, 0});
        }
    }
}

static void add_row(struct buf *out, const struct option_row *row) {
    const char *word = option_value_word(row);
    struct buf rest;
    buf_init(&rest, 0);
    buf_add_str(out, ".TP\n\\fB");
    if (row->short_name)
        buf_addf(out, "\\-%c\\fR, \\fB", row->short_name);
    option_man_text(out, "--");
    option_man_text(out, row->name);
    buf_add_str(out, "\\fR");
    if (*word) {
        buf_add_str(out, " \\fI");
        option_man_text(out, word);
        buf_add_str(out, "\\fR");
    }
    buf_add_byte(out, '\n');
    add_help(out, row->help);
    if (row->fallback && *row->fallback)
        buf_addf(&rest, strcmp(row->fallback, ".") ? "Default: %s. " : "Default: '%s'. ",
                 row->fallback);
    option_add_range(&rest, row, "Range: ");
    if (rest.len && rest.data[rest.len - 1] != ' ')
        buf_add_str(&rest, ". ");
    option_add_aliases(&rest, row, "Also ", "");
    if (rest.len && rest.data[rest.len - 1] != ' ')
        buf_add_byte(&rest, '.');
    while (rest.len && rest.data[rest.len - 1] == ' ')
        rest.data[--rest.len] = 0;
    option_man_text(out, buf_text(&rest));
    if (rest.len)
        buf_add_byte(out, '\n');
    buf_release(&rest);
}

/* The rows of the group that row `first` begins; nothing if an earlier row was of it. */
static void add_group(struct buf *out, const struct option_table *table, size_t first) {
    const char *group = option_group(table, &table->rows[first]);
    bool begun = false;
    for (size_t i = 0; i < table->count; i++) {
        const struct option_row *row = &table->rows[i];
        if (row->hidden || strcmp(option_group(table, row), group))
            continue;
        if (i < first)
            return;
        if (!begun) {
            buf_add_str(out, ".SS \"");
            option_man_text(out, group);
            buf_add_str(out, "\"\n");
        }
        begun = true;
        add_row(out, row);
    }
}

void option_man(struct buf *out, const struct option_table *table, const char *name) {
    buf_add_str(out, ".TH ");
    add_upper(out, table->program);
    buf_add_str(out, " 1 \"\" \"trireme " TRIREME_VERSION "\" \"Trireme\"\n.SH NAME\n");
    for (const char *c = table->program; *c; c++)
        buf_add_str(out, *c == ' ' ? "\\-" : (char[]){*c, 0});
    buf_add_str(out, " \\- ");
    option_man_text(out, name);
    add_synopsis(out, table);
    buf_add_str(out, "\n.SH DESCRIPTION\n");
    option_man_text(out, table->summary);
    buf_add_str(out, "\n.SH OPTIONS\n");
    for (size_t i = 0; i < table->count; i++)
        if (!table->rows[i].hidden)
            add_group(out, table, i);
    buf_add_str(out, ".SS Everywhere\n.TP\n\\fB\\-\\-config\\fR \\fIFILE\\fR\nYAML file with these "
                     "settings (name_with_underscores: value).\n.TP\n\\fB\\-h\\fR, "
                     "\\fB\\-\\-help\\fR\nPrint the options and exit.\n");
    buf_add_str(out, ".SH ENVIRONMENT\nEach option can also be set as \\fBTRIREME_NAME\\fR, in "
                     "capitals and with underscores, or in the YAML\nfile. A flag wins over the "
                     "environment, which wins over the file.\n");
    buf_add_str(out, ".SH \"EXIT STATUS\"\n0: it went well. 1: it failed. 2: it was called "
                     "wrongly.\n.SH \"SEE ALSO\"\n.BR trireme (1)\n");
}
