#include "cli/merged_options.h"

#include "base/buf.h"

#include <stdio.h>

enum { PLACE_BYTES = 16 };

bool option_table_has(const struct option_table *table, const char *name) {
    for (size_t i = 0; i < table->count; i++)
        if (!strcmp(table->rows[i].name, name))
            return true;
    return false;
}

static bool has_row(const struct merged_options *m, const char *name) {
    for (size_t i = 0; i < m->rows.count; i++)
        if (!strcmp(m->rows.items[i].name, name))
            return true;
    return false;
}

static bool is_hidden(const char *const *hidden, const char *name) {
    for (; hidden && *hidden; hidden++)
        if (!strcmp(*hidden, name))
            return true;
    return false;
}

static void add_row(struct merged_options *m, const struct option_row *row, const char *title) {
    struct option_row copy = *row;
    copy.offset = m->own_size + (m->rows.count - m->own_count) * PLACE_BYTES;
    copy.short_name = 0;
    if (!copy.group)
        copy.group = title;
    vec_push(&m->rows, copy);
}

void merged_options_init(struct merged_options *m, const struct option_table *own, size_t own_size,
                         const struct option_table *const *children, size_t child_count,
                         const char *const *hidden) {
    *m =
        (struct merged_options){.own_count = own->count, .own_size = (own_size + 15) & ~(size_t)15};
    for (size_t i = 0; i < own->count; i++)
        vec_push(&m->rows, own->rows[i]);
    for (size_t i = 0; i < child_count; i++)
        for (size_t j = 0; j < children[i]->count; j++)
            if (!has_row(m, children[i]->rows[j].name) &&
                !is_hidden(hidden, children[i]->rows[j].name))
                add_row(m, &children[i]->rows[j], children[i]->title);
    m->table = *own;
    m->table.rows = m->rows.items;
    m->table.count = m->rows.count;
    m->settings = mem_calloc(1, m->own_size + (m->rows.count - m->own_count) * PLACE_BYTES);
}

void merged_options_release(struct merged_options *m) {
    if (m->settings)
        option_free(&m->table, m->settings);
    mem_free(m->settings);
    vec_release(&m->rows);
    *m = (struct merged_options){0};
}

void merged_options_flags(const struct merged_options *m, const struct option_table *child,
                          struct flags *out) {
    for (size_t i = m->own_count; i < m->rows.count; i++) {
        struct option_table one = {.rows = &m->rows.items[i], .count = 1};
        char *flag;
        if (!option_table_has(child, m->rows.items[i].name))
            continue;
        if (option_to_flags(&one, m->settings, &flag, 1))
            vec_push(&out->words, flag);
    }
}

/* Where a row behind serve's own keeps its string; NULL: there is no such row. */
static char **text_place(const struct merged_options *m, const char *name) {
    for (size_t i = m->own_count; i < m->rows.count; i++)
        if (!strcmp(m->rows.items[i].name, name)) {
            CHECK(m->rows.items[i].type == OPTION_STRING);
            return (char **)(void *)(m->settings + m->rows.items[i].offset);
        }
    return NULL;
}

const char *merged_options_text(const struct merged_options *m, const char *name) {
    char **place = text_place(m, name);
    return place ? *place : NULL;
}

void merged_options_forget(struct merged_options *m, const char *name) {
    char **place = text_place(m, name);
    CHECK(place);
    mem_free(*place);
    *place = NULL;
}

void flags_add(struct flags *f, const char *fmt, ...) {
    char text[4608];
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    CHECK(len >= 0 && (size_t)len < sizeof text);
    vec_push(&f->words, mem_strdup(text));
}

void flags_end(struct flags *f) {
    vec_push(&f->words, NULL);
}

void flags_release(struct flags *f) {
    for (size_t i = 0; i < f->words.count; i++)
        mem_free(f->words.items[i]);
    vec_release(&f->words);
}
