/*
 * cache_folder.h - where a user's programs keep what they can make again: the folder, and whether a
 * file in it may be believed.
 *
 * What is kept lies in files as it lies in memory, so only the program that wrote a file reads it:
 * each file begins with the program's build id. Who else could have written it is looked at, too.
 */
#ifndef BASE_CACHE_FOLDER_H
#define BASE_CACHE_FOLDER_H

#include "base/base.h"

/* The folder, made if it was not there; wanted: NULL or "": XDG_CACHE_HOME/trireme, else
 * HOME/.cache/trireme; "none": nowhere. Returns owned, or NULL: there is none that can be written;
 * where one was named, a line in the log says that `what` is not kept. */
char *cache_folder_open(const char *wanted, const char *what);
/* Whether files there lie in memory (tmpfs): what is kept would take as much as it spares. */
bool cache_folder_is_memory(const char *folder);
/* A hash of this program's build id; zero: it has none, so nothing may be kept. */
struct u128 program_build(void);
/* Opens a file of the folder for reading: a regular one, no link, of this user, which nobody else
 * can write. The descriptor, the caller's, and its length; -1: there is none to be believed. */
int cache_file_open(const char *path, uint64_t *len);

#endif
