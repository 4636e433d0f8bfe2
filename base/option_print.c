#include "base/option.h"
#include "base/option_internal.h"
#include "base/option_value.h"

#include <ctype.h>
#include <stdio.h>

static const char *const TYPE_WORDS[] = {
    [OPTION_BOOL] = "",     [OPTION_INT] = "N", [OPTION_FLOAT] = "X",      [OPTION_STRING] = "TEXT",
    [OPTION_SIZE] = "SIZE", [OPTION_ENUM] = "", [OPTION_DURATION] = "TIME"};

const char *option_value_word(const struct option_row *row) {
    return row->type == OPTION_ENUM ? row->choices : TYPE_WORDS[row->type];
}

#define LARGE 9007199254740991.0 /* 2^53 - 1: a bound for the double's sake only */

void option_add_range(struct buf *out, const struct option_row *row, const char *before) {
    bool bounded = row->min != 0 || row->max != 0;
    char min[OPTION_BOUND_MAX], max[OPTION_BOUND_MAX];
    if (row->type == OPTION_SIZE || row->type == OPTION_DURATION) {
        if (bounded)
            buf_addf(out, "%s%s to %s", before, option_bound_text(row, row->min, min),
                     option_bound_text(row, row->max, max));
        return;
    }
    if (row->max >= LARGE)
        buf_addf(out, "%s%.15g or more", before, row->min);
    else if (bounded)
        buf_addf(out, "%s%.15g to %.15g", before, row->min, row->max);
    if (row->unit)
        buf_addf(out, "%s%s", bounded ? " " : before, row->unit);
}

void option_add_aliases(struct buf *out, const struct option_row *row, const char *before,
                        const char *quote) {
    const char *at = row->aliases;
    while (at && *at) {
        size_t len = strcspn(at, " ");
        bool negated = *at == '!';
        buf_addf(out, "%s%s%.*s%s%s", before, quote, (int)(len - negated), at + negated, quote,
                 negated ? " (means no)" : "");
        before = ", ";
        at += len + strspn(at + len, " ");
    }
}

static void print_buf(struct buf *text) {
    fputs(buf_text(text), stdout);
    buf_release(text);
}

/* "1 to 65535 tokens", or nothing. */
static void print_range(const struct option_row *row, const char *before) {
    struct buf text;
    buf_init(&text, 0);
    option_add_range(&text, row, before);
    print_buf(&text);
}

/* "-c, --ctx-size", or nothing. */
static void print_aliases(const struct option_row *row, const char *before, const char *quote) {
    struct buf text;
    buf_init(&text, 0);
    option_add_aliases(&text, row, before, quote);
    print_buf(&text);
}

static void print_row(const struct option_row *row) {
    char left[160], short_text[8] = "    ";
    const char *word = option_value_word(row);
    if (row->short_name)
        snprintf(short_text, sizeof short_text, "-%c, ", row->short_name);
    snprintf(left, sizeof left, "  %s--%s%s%s", short_text, row->name, *word ? " " : "", word);
    size_t len = strlen(row->help);
    len -= len && row->help[len - 1] == '.'; /* more of the line follows */
    printf("%-34s%s%.*s", left, strlen(left) > 32 ? "\n                                  " : "",
           (int)len, row->help);
    if (row->fallback && *row->fallback)
        printf(" [%s]", row->fallback);
    print_range(row, "; ");
    print_aliases(row, "; also ", "");
    printf("\n");
}

const char *option_group(const struct option_table *table, const struct option_row *row) {
    return row->group ? row->group : table->title ? table->title : "Options";
}

/* The rows of row `first`'s group that are not among the important ones, unless an earlier row was of
 * it. */
static void print_group(const struct option_table *table, size_t first) {
    const char *group = option_group(table, &table->rows[first]);
    bool begun = false;
    for (size_t i = 0; i < table->count; i++) {
        const struct option_row *row = &table->rows[i];
        bool other = strcmp(option_group(table, row), group) != 0;
        if (i < first && !other)
            return;
        if (other || row->hidden || row->important)
            continue;
        if (!begun)
            printf("\n%s:\n", group);
        begun = true;
        print_row(row);
    }
}

static void print_important(const struct option_table *table) {
    bool begun = false;
    for (size_t i = 0; i < table->count; i++) {
        if (!table->rows[i].important || table->rows[i].hidden)
            continue;
        if (!begun)
            printf("\nWhat matters first:\n");
        begun = true;
        print_row(&table->rows[i]);
    }
}

void option_print_help(const struct option_table *table) {
    printf("Usage: %s %s\n\n%s\n", table->program, table->synopsis, table->summary);
    print_important(table);
    for (size_t i = 0; i < table->count; i++)
        print_group(table, i);
    printf("\nEverywhere:\n"
           "      --config FILE               YAML file with these settings "
           "(name_with_underscores: value)\n"
           "  -h, --help                      Print this and exit\n\n"
           "Each option can also be set as TRIREME_NAME in the environment or in the YAML file.\n"
           "A flag wins over the environment, which wins over the file. The default is in "
           "[brackets].\n");
    if (table->foreign_count)
        printf("Flags of llama-server, vLLM and SGLang are taken, too: docs/options.md lists what "
               "each does.\n");
    fflush(stdout);
}

/* Text in a Markdown table: a bar would end the cell. */
static void print_cell(const char *text) {
    for (; *text; text++) {
        if (*text == '|')
            putchar('\\');
        putchar(*text);
    }
}

void option_print_markdown(const struct option_table *table) {
    printf("## %s\n\n%s\n\n| option | also | environment | value | default | what it does |\n| --- "
           "| --- | --- | --- | --- | --- |\n",
           table->program, table->summary);
    for (size_t i = 0; i < table->count; i++) {
        const struct option_row *row = &table->rows[i];
        if (row->hidden)
            continue;
        printf("| `--%s` | ", row->name);
        if (row->short_name)
            printf("`-%c`", row->short_name);
        print_aliases(row, row->short_name ? ", " : "", "`");
        printf(" | `TRIREME_");
        for (const char *c = row->name; *c; c++)
            putchar(*c == '-' ? '_' : toupper((unsigned char)*c));
        printf("` | ");
        print_cell(row->type == OPTION_BOOL ? "true|false" : option_value_word(row));
        print_range(row, ", ");
        printf(" | %s | ", row->fallback ? row->fallback : "");
        print_cell(row->help);
        printf(" |\n");
    }
    printf("\n");
}

/* "`-fa`, `--flash-attn`". */
static void print_flags(const char *flags) {
    const char *before = "";
    while (*flags) {
        size_t len = strcspn(flags, " ");
        printf("%s`%.*s`", before, (int)len, flags);
        before = ", ";
        flags += len + strspn(flags + len, " ");
    }
}

void option_print_foreign(const struct option_foreign *foreign, size_t count) {
    printf("| flag | with | what becomes of it |\n| --- | --- | --- |\n");
    for (size_t i = 0; i < count; i++) {
        const struct option_foreign *f = &foreign[i];
        const char *values = f->note && f->values ? f->values + (*f->values == '?') : "";
        printf("| ");
        print_flags(f->flags);
        printf(" | %s | %s: ", values, f->note ? "taken" : "refused");
        print_cell(f->note ? f->note : f->reason);
        if (f->note && f->reason)
            printf("; refused otherwise");
        printf(" |\n");
    }
    printf("\n");
}
