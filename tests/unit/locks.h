/* locks.h - see locks.c. */
#ifndef TESTS_UNIT_LOCKS_H
#define TESTS_UNIT_LOCKS_H

#include <stddef.h>

/* How many locks the calling thread holds. NULL where locks.c is not part of the program. */
__attribute__((weak)) size_t locks_held(void);

#endif
