/*
 * option_page.h - whether options are what docs/options.md says: names, ranges, defaults, words.
 */
#ifndef OPTION_PAGE_H
#define OPTION_PAGE_H

#include "base/fsutil.h"
#include "base/option.h"

#include <string.h>

#include "capture.h"

/* Does the manual have this table, word for word? */
static inline bool option_page_has(const struct option_table *table) {
    struct buf page = {0}, printed = {0};
    struct error err;
    struct capture c = capture_begin(STDOUT_FILENO);
    option_print_markdown(table);
    capture_end(&c, &printed);
    bool found = !file_read(TRIREME_SOURCE_DIR "/docs/options.md", 1 << 20, &page, &err) &&
                 printed.len > 100 && strstr(buf_text(&page), buf_text(&printed));
    buf_release(&page);
    buf_release(&printed);
    return found;
}

#endif
