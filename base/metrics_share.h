/*
 * metrics_share.h - the cells of processes behind one port, in files that each of them maps. Private
 * to metrics.c.
 *
 * Each process has a place, a file FOLDER/NAME-VERSION-N, and holds a lock on it while it lives. It
 * counts into blocks of that file, one for each table; a process that takes the place of one that
 * has ended goes on with its blocks. Whoever is scraped reads the files of all places.
 *
 * Invariants:
 *   (1) A file has its full size before it is mapped by others, and never shrinks.
 *   (2) A block, once told of by head->used, keeps its layout, label and place.
 *   (3) Gauges of a block count while its process lives and its generation is the file's.
 *
 * Threading: under the lock of metrics.c.
 */
#ifndef BASE_METRICS_SHARE_H
#define BASE_METRICS_SHARE_H

#include "base/metrics.h"

enum { SHARE_PLACES_MAX = 64 };

/* Takes a place. 0, or ERR_IO or ERR_LIMIT with *err filled. */
MUST_CHECK int share_open(const char *folder, const char *name, struct error *err);
/* The number of this process's place; -1: it counts alone. */
int share_place(void);
/* Cells for a table of this layout and label ("": none), one for each row, in this process's file:
 * those of the process before it, its gauges and what it was told set to 0. NULL: it counts alone,
 * or the file is full. */
struct metric_cells *share_cells(uint64_t layout, const char *label, const struct metric *metrics,
                                 size_t count);

/* A file as it was mapped for one page: another process's, or this one's. */
struct share_peer {
    int place;
    bool live; /* another that lives */
    uint32_t pid;
    const void *map;
};
struct share_view {
    struct share_peer peers[SHARE_PLACES_MAX];
    size_t count;
};
/* Maps the files of all places; must be closed. Empty when it counts alone. */
void share_view_open(struct share_view *view);
/* Unmaps them. */
void share_view_close(struct share_view *view);

/* One block of a file. */
struct share_block {
    const char *label;
    const struct metric_cells *cells;
    bool live;
};
/* The next block of this layout, from *at (0 at first) on; false: no more. Of this process's own
 * file those alone that it has not taken over (yet). */
bool share_next_block(const struct share_peer *peer, uint64_t layout, size_t *at,
                      struct share_block *out);

#endif
