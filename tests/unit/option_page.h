/*
 * option_page.h - whether options are what docs/options.md says: names, ranges, defaults, words.
 */
#ifndef OPTION_PAGE_H
#define OPTION_PAGE_H

#include "base/fsutil.h"
#include "base/option.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What is printed on standard output meanwhile; release it. */
static inline struct buf option_page_printed(const struct option_table *table) {
    struct buf out = {0};
    char part[4096];
    size_t n;
    fflush(stdout);
    FILE *file = tmpfile();
    int before = dup(STDOUT_FILENO);
    if (!file || before < 0 || dup2(fileno(file), STDOUT_FILENO) < 0)
        abort();
    option_print_markdown(table);
    fflush(stdout);
    dup2(before, STDOUT_FILENO);
    close(before);
    rewind(file);
    while ((n = fread(part, 1, sizeof part, file)) > 0)
        buf_add_bytes(&out, (struct bytes){(const uint8_t *)part, n});
    fclose(file);
    return out;
}

/* Does the manual have this table, word for word? */
static inline bool option_page_has(const struct option_table *table) {
    struct buf page = {0}, printed = option_page_printed(table);
    struct error err;
    bool found = !file_read(TRIREME_SOURCE_DIR "/docs/options.md", 1 << 20, &page, &err) &&
                 printed.len > 100 && strstr(buf_text(&page), buf_text(&printed));
    buf_release(&page);
    buf_release(&printed);
    return found;
}

#endif
