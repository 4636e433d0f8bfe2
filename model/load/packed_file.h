/*
 * packed_file.h - weights in the order of the device's kernels (ops->pack), kept in a file of the
 * cache folder and mapped by all workers of a user on this machine.
 *
 * Putting a model's matrices in that order takes tenths of a second to seconds at each start, half of
 * it for memory that the kernel has to clear. So what was packed is written once, and mapped from
 * then on.
 *
 * A file is a head, a row for each segment in the order in which they are loaded, and the segments,
 * each at a multiple of a page. While it is written it has another name. A process that ends
 * meanwhile leaves it, and the next one takes what is there and goes on behind it. So the file comes
 * to be whole also where servers live for seconds.
 *
 * Invariants:
 *   (1) A segment is taken from the file only when the file's key is that of all that decides its
 *       bytes, its size is the one that the device asks for, and its sum is right. Otherwise it is
 *       packed, and the file is written anew.
 *   (2) A file is never changed once it is there, only replaced (rename), and an unfinished one only
 *       behind the segments that are taken from it, by the one process that has it locked: what is
 *       mapped never changes.
 *   (3) Nothing here ever fails a load, and no load or step waits for the file to be written.
 *   (4) The folder's files of this kind together have at most bytes_most bytes; those that nobody
 *       has used for longest go first, unfinished ones after a week. No file is written that is
 *       larger than half of what the disk has free.
 *
 * Threading: one thread; the writing thread is its own.
 */
#ifndef MODEL_PACKED_FILE_H
#define MODEL_PACKED_FILE_H

#include "base/base.h"

struct packed_file_config {
    const char *folder; /* borrowed during the call; it is there */
    /* What is packed: the same model, rank and device. A file of the same source and another key is
     * out of date. */
    struct u128 source;
    struct u128 key; /* of all that decides the bytes: source, and the build of the program */
    /* of all segments together: fewer are packed at each start, more are not kept */
    uint64_t bytes_least, bytes_most;
    int thread_count; /* that check sums */
};

struct packed_file;

/* Opens the file, or remembers that there is none. Returns owned; never NULL. */
struct packed_file *packed_file_open(const struct packed_file_config *config);
/* The next segment, `size` bytes that stay as long as *f, or NULL: pack it, and say where by
 * packed_file_add. */
const void *packed_file_next(struct packed_file *f, size_t size);
/* What the segment is that packed_file_next did not have. Stays, unchanged, as long as *f. */
void packed_file_add(struct packed_file *f, const void *packed, size_t size);
/* All segments have been asked for. Begins to write the file, on a thread of low priority, unless
 * it is there as it should be. */
void packed_file_keep(struct packed_file *f);
/* Waits for the writing; whether the file is there as it should be. */
bool packed_file_wait(struct packed_file *f);
/* Ends the writing (the next process goes on), unmaps, clears the pointer. NULL: nothing happens. */
void packed_file_free(struct packed_file **f);

#endif
