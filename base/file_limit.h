/*
 * file_limit.h - how many files the process may have open; a connection is one. Systems allow few at
 * first (1024 of systemd) and far more to who asks.
 *
 * Threading: any.
 */
#ifndef BASE_FILE_LIMIT_H
#define BASE_FILE_LIMIT_H

#include <stdint.h>

/* Asks for all that this process may have (setrlimit(2)); how many those are. */
uint64_t file_limit_raise(void);
/* How many of so many clients a process with this limit can take and still open what it needs itself:
 * 256 files stay free, of a limit below 512 the half. */
uint64_t file_limit_clients(uint64_t limit, uint64_t wanted);

#endif
