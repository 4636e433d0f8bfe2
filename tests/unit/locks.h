/* locks.h - see locks.c. */
#ifndef TESTS_UNIT_LOCKS_H
#define TESTS_UNIT_LOCKS_H

#include <stddef.h>

/* How many locks the calling thread holds. */
size_t locks_held(void);

#endif
