#include "cli/progress.h"

#include "base/clock.h"

#include <stdio.h>
#include <unistd.h>

enum { SHOW_EVERY_MS = 100 };

/* What is there is overwritten; the rest of the line is wiped. */
static void show(struct progress *p, uint64_t done, uint64_t total, int64_t now_ms) {
    double gone_s = (double)(now_ms - p->begin_ms) / 1000;
    p->shown_ms = now_ms;
    if (!total)
        fprintf(stderr, "\r%s, %.0f s\033[K", p->what, gone_s);
    else if (!done || gone_s < 1)
        fprintf(stderr, "\r%s: %.0f %%\033[K", p->what, 100.0 * (double)done / (double)total);
    else
        fprintf(stderr, "\r%s: %.0f %%, %.0f s left\033[K", p->what,
                100.0 * (double)done / (double)total,
                gone_s * (double)(total - done) / (double)done);
    fflush(stderr);
}

void progress_begin(struct progress *p, const char *what) {
    *p = (struct progress){
        .what = what, .on_terminal = isatty(STDERR_FILENO), .begin_ms = clock_ms()};
    if (p->on_terminal)
        show(p, 0, 0, p->begin_ms);
}

void progress_show(struct progress *p, uint64_t done, uint64_t total) {
    int64_t now_ms = clock_ms();
    CHECK(!total || done <= total);
    if (p->on_terminal && now_ms - p->shown_ms >= SHOW_EVERY_MS)
        show(p, done, total, now_ms);
}

int64_t progress_end(struct progress *p) {
    if (p->on_terminal) {
        fprintf(stderr, "\r\033[K");
        fflush(stderr);
    }
    return clock_ms() - p->begin_ms;
}
