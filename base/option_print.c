#include "base/option.h"

#include <ctype.h>
#include <stdio.h>

static const char *const TYPE_WORDS[] = {
    [OPTION_BOOL] = "",     [OPTION_INT] = "N", [OPTION_FLOAT] = "X",      [OPTION_STRING] = "TEXT",
    [OPTION_SIZE] = "SIZE", [OPTION_ENUM] = "", [OPTION_DURATION] = "TIME"};

static const char *value_word(const struct option_row *row) {
    return row->type == OPTION_ENUM ? row->choices : TYPE_WORDS[row->type];
}

/* "1 to 65535 tokens", or nothing. */
static void print_range(const struct option_row *row, const char *before) {
    if (row->min != 0 || row->max != 0) printf("%s%.15g to %.15g", before, row->min, row->max);
    if (row->unit) printf("%s%s", row->min != 0 || row->max != 0 ? " " : before, row->unit);
}

static void print_row(const struct option_row *row) {
    char left[160], short_text[8] = "    ";
    const char *word = value_word(row);
    if (row->short_name) snprintf(short_text, sizeof short_text, "-%c, ", row->short_name);
    snprintf(left, sizeof left, "  %s--%s%s%s", short_text, row->name, *word ? " " : "", word);
    printf("%-34s%s%s", left, strlen(left) > 32 ? "\n                                  " : "", row->help);
    if (row->fallback && *row->fallback) printf(" [%s]", row->fallback);
    print_range(row, "; ");
    printf("\n");
}

void option_print_help(const struct option_table *table) {
    printf("Usage: %s %s\n\n%s\n\nOptions:\n", table->program, table->synopsis, table->summary);
    for (size_t i = 0; i < table->count; i++)
        if (!table->rows[i].hidden) print_row(&table->rows[i]);
    printf("      --config FILE               YAML file with these settings (name_with_underscores: value)\n"
           "  -h, --help                      Print this and exit\n\n"
           "Each option can also be set as TRIREME_NAME in the environment or in the YAML file.\n"
           "A flag wins over the environment, which wins over the file. The default is in [brackets].\n");
    fflush(stdout);
}

/* Text in a Markdown table: a bar would end the cell. */
static void print_cell(const char *text) {
    for (; *text; text++) {
        if (*text == '|') putchar('\\');
        putchar(*text);
    }
}

void option_print_markdown(const struct option_table *table) {
    printf(
        "## %s\n\n%s\n\n| option | environment | value | default | what it does |\n| --- | --- | --- | --- | --- |\n",
        table->program, table->summary);
    for (size_t i = 0; i < table->count; i++) {
        const struct option_row *row = &table->rows[i];
        if (row->hidden) continue;
        printf("| `--%s` | `TRIREME_", row->name);
        for (const char *c = row->name; *c; c++) putchar(*c == '-' ? '_' : toupper((unsigned char)*c));
        printf("` | ");
        print_cell(row->type == OPTION_BOOL ? "true|false" : value_word(row));
        print_range(row, ", ");
        printf(" | %s | ", row->fallback ? row->fallback : "");
        print_cell(row->help);
        printf(" |\n");
    }
    printf("\n");
}
